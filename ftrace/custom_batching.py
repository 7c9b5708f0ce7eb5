"""JAX's `custom_batching`: functions whose batching the user writes."""

from ftrace.trace.calls.custom_vmap import custom_vmap, sequential_vmap

__all__ = ["custom_vmap", "sequential_vmap"]
