"""JAX's `custom_batching`: functions whose batching the user writes."""

from ftrace.ground.missing_names import tell_missing
from ftrace.trace.calls.custom_vmap import custom_vmap, sequential_vmap

__all__ = ["custom_vmap", "sequential_vmap"]


tell_missing(__name__)
