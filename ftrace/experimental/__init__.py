"""What JAX keeps under this name."""

from ftrace.transforms.callbacks import io_callback

__all__ = ["io_callback"]
