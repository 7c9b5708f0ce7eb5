"""The version of the JAX whose names, defaults and meanings are served."""

__version__ = "0.10.2"
__version_info__ = (0, 10, 2)
