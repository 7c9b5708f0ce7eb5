"""The enumerations and tuples by which JAX programs choose forms of operations."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from ftrace import dtypes
from ftrace.errors import ValueRangeError
from ftrace.ground.fast_dataclasses import NamedTuple

__all__ = [
    "AccuracyMode", "ConvDimensionNumbers", "ConvGeneralDilatedDimensionNumbers",
    "DotAlgorithm", "DotAlgorithmPreset", "DotDimensionNumbers", "GatherScatterMode",
    "Precision", "PrecisionLike", "RaggedDotDimensionNumbers", "RandomAlgorithm",
    "RoundingMethod", "Tolerance",
]  # fmt: skip


class Precision(enum.Enum):
    """How exactly products are computed. All of them are computed in full precision."""

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2


PrecisionLike = Precision | str | tuple[Any, Any] | None


class GatherScatterMode(enum.Enum):
    """What happens at indices out of bounds."""

    CLIP = 0
    FILL_OR_DROP = 1
    PROMISE_IN_BOUNDS = 2
    ONE_HOT = 3

    @staticmethod
    def from_any(mode: str | GatherScatterMode | None) -> GatherScatterMode:
        """The mode of a name: "clip", "fill", "drop" or "promise_in_bounds".

        Raises:
          ValueRangeError: there is no such mode.
        """
        if isinstance(mode, GatherScatterMode):
            return mode
        found = _MODES.get(mode)
        if found is None:
            names = ", ".join(repr(name) for name in _MODES if name)
            raise ValueRangeError(f"mode must be one of {names}, got {mode!r}")
        return found


_DROPS = GatherScatterMode.FILL_OR_DROP
_MODES: dict[str | None, GatherScatterMode] = {
    None: _DROPS, "fill": _DROPS, "drop": _DROPS,
    **{m.name.lower(): m for m in GatherScatterMode if m is not _DROPS},
}  # fmt: skip


class RoundingMethod(enum.IntEnum):
    """Where `round` takes a number half way between two integers."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


#: ((axes of lhs, axes of rhs) to sum over, (axes of lhs, axes of rhs) of the batch)
DotDimensionNumbers = tuple[
    tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]
]


class ConvDimensionNumbers(NamedTuple):
    """Where the operands of a convolution hold what.

    Attributes:
      lhs_spec: the axes of batch, feature and space of the input.
      rhs_spec: the axes of output feature, input feature and space of the kernel.
      out_spec: the axes of batch, feature and space of the result.
    """

    lhs_spec: Sequence[int]
    rhs_spec: Sequence[int]
    out_spec: Sequence[int]


ConvGeneralDilatedDimensionNumbers = (
    None | ConvDimensionNumbers | tuple[str | None, str | None, str | None]
)


class RaggedDotDimensionNumbers(NamedTuple):
    """The axes of a product whose groups have sizes of their own.

    Attributes:
      dot_dimension_numbers: as `dot_general` takes them.
      lhs_ragged_dimensions: the one axis of the left operand that is divided in groups.
      rhs_group_dimensions: the axis of the right operand that numbers the groups, if
        the divided axis is neither summed over nor of the batch; else none.
    """

    dot_dimension_numbers: DotDimensionNumbers
    lhs_ragged_dimensions: Sequence[int]
    rhs_group_dimensions: Sequence[int]


class RandomAlgorithm(enum.IntEnum):
    """By which algorithm `rng_bit_generator` makes bits."""

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2


# How exact products and functions are to be. They always are as exact as their dtype:
# what follows is taken, and changes nothing but the dtype of a result.


class AccuracyMode(enum.Enum):
    """How exact a function is to be."""

    HIGHEST = 1
    DEFAULT = 2


class Tolerance(NamedTuple):
    """How far from the exact value a function may be.

    Attributes:
      atol, rtol: the absolute and the relative error.
      ulps: units in the last place.
    """

    atol: float = 0.0
    rtol: float = 0.0
    ulps: int = 0


class DotAlgorithm(NamedTuple):
    """In which types a product is to be computed.

    Attributes:
      lhs_precision_type, rhs_precision_type: to which the operands are rounded.
      accumulation_type: in which the terms are added.
      lhs_component_count, rhs_component_count: into how many parts each is split.
      num_primitive_operations: how many products of parts are added.
      allow_imprecise_accumulation: may the sum have less digits than its type?
    """

    lhs_precision_type: Any
    rhs_precision_type: Any
    accumulation_type: Any
    lhs_component_count: int = 1
    rhs_component_count: int = 1
    num_primitive_operations: int = 1
    allow_imprecise_accumulation: bool = False


class _Preset(enum.Enum):
    """Algorithms of products by name: the operands' types, and that of the sum."""

    @property
    def accumulation_type(self) -> Any:
        """The type of the sum; None where the operands decide."""
        parts = self.name.split("_")
        return _TYPES.get(parts[2]) if len(parts) > 2 else None


DotAlgorithmPreset = _Preset(
    "DotAlgorithmPreset",
    """DEFAULT ANY_F8_ANY_F8_F32 ANY_F8_ANY_F8_F32_FAST_ACCUM ANY_F8_ANY_F8_ANY
    ANY_F8_ANY_F8_ANY_FAST_ACCUM F16_F16_F16 F16_F16_F32 BF16_BF16_BF16 BF16_BF16_F32
    BF16_BF16_F32_X3 BF16_BF16_F32_X6 BF16_BF16_F32_X9 TF32_TF32_F32 TF32_TF32_F32_X3
    F32_F32_F32 F64_F64_F64""",
    module=__name__,
)


_TYPES = {
    "F16": dtypes.float16, "BF16": dtypes.bfloat16, "F32": dtypes.float32,
    "F64": dtypes.float64,
}  # fmt: skip
