"""The version of the jaxlib in whose place ftrace runs."""

from ftrace.compat.jax.version import __version__ as __version__
