"""What JAX keeps under this name."""

from ftrace.transforms.custom.callbacks import io_callback

__all__ = ["io_callback"]
