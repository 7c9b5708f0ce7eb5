"""JAX's `ad_checkpoint`: names for values, and what a derivative keeps."""

from __future__ import annotations

from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.ground.missing_names import tell_missing
from ftrace.trace.calls.checkpoint import (
    checkpoint,
    checkpoint as remat,
    checkpoint_name,
    checkpoint_policies,
    print_saved_residuals,
    saved_residuals,
)

__all__ = [
    "Offloadable", "Recompute", "Saveable", "checkpoint", "checkpoint_name",
    "checkpoint_policies", "print_saved_residuals", "remat", "saved_residuals",
]  # fmt: skip

# What a policy says of a value, in words; True and False say the same.


class SaveableType:
    """The value is kept."""


class RecomputeType:
    """The value is computed again."""

    def __bool__(self) -> bool:
        return False


class Offloadable(NamedTuple):
    """The value is kept. There is one memory: it is not moved to another.

    Attributes:
      src, dst: the names of the memories.
    """

    src: str
    dst: str


Saveable, Recompute = SaveableType(), RecomputeType()


tell_missing(__name__)
