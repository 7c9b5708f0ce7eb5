"""The enumerations and tuples by which JAX programs choose forms of operations."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from ftrace.errors import ValueRangeError
from ftrace.records import NamedTuple

__all__ = [
    "ConvDimensionNumbers", "ConvGeneralDilatedDimensionNumbers", "DotDimensionNumbers",
    "GatherScatterMode", "Precision", "PrecisionLike", "RoundingMethod",
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


_MODES = {
    None: GatherScatterMode.FILL_OR_DROP,
    "fill": GatherScatterMode.FILL_OR_DROP,
    "drop": GatherScatterMode.FILL_OR_DROP,
    "clip": GatherScatterMode.CLIP,
    "promise_in_bounds": GatherScatterMode.PROMISE_IN_BOUNDS,
    "one_hot": GatherScatterMode.ONE_HOT,
}


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
