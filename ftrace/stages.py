"""The stages of a jitted function: JAX's `stages`."""

from typing import TYPE_CHECKING, Any

from ftrace.ground.missing_names import tell_missing
from ftrace.transforms.jit.stages import (
    ArgInfo as ArgInfo,
    Compiled as Compiled,
    Lowered as Lowered,
    Traced as Traced,
)

if TYPE_CHECKING:
    from ftrace.transforms.jit.signatures import Wrapped
else:
    from ftrace.transforms.jit.jit import Jitted as Wrapped

CompilerOptions = dict[str, Any]

__all__ = ["ArgInfo", "Compiled", "CompilerOptions", "Lowered", "Traced", "Wrapped"]


tell_missing(__name__)
