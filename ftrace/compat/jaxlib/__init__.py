"""`jaxlib`: there is none; its version is that of the JAX whose names are served.

Of XLA's client there is the class of devices, for annotations.
"""

from ftrace.backends import base as xla_client
from ftrace.compat.jax import version as version
from ftrace.compat.jax.version import __version__ as __version__

__all__ = ["xla_client"]
