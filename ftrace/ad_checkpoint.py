"""JAX's `ad_checkpoint`: names for values, and what a derivative keeps."""

from ftrace.trace.calls.checkpoint import (
    checkpoint,
    checkpoint as remat,
    checkpoint_name,
    checkpoint_policies,
    print_saved_residuals,
    saved_residuals,
)

__all__ = [
    "checkpoint", "checkpoint_name", "checkpoint_policies", "print_saved_residuals",
    "remat", "saved_residuals",
]  # fmt: skip
