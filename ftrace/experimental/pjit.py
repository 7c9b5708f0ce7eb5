"""`pjit` where older programs import it from: it is `jit`."""

from ftrace.transforms.jit.jit import jit as pjit
from ftrace.transforms.mapped import (
    auto_axes as auto_axes,
    explicit_axes as explicit_axes,
    reshard as reshard,
    with_sharding_constraint as with_sharding_constraint,
)

__all__ = ["auto_axes", "explicit_axes", "pjit", "reshard", "with_sharding_constraint"]
