"""`jaxlib`: there is none; its version is that of the JAX whose names are served."""

from ftrace.compat.jax.version import __version__ as __version__
