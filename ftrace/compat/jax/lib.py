"""`jax.lib`: the version of jaxlib."""

from ftrace.compat.jax.version import __version__ as __version__
