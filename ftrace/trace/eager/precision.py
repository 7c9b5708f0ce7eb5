"""How exactly products are asked for: all are as exact as their dtype.

An algorithm changes only the dtype of a result; the rest is checked and has no effect.
"""

from __future__ import annotations

import enum
from typing import Any

from ftrace import dtypes
from ftrace.errors import ValueRangeError
from ftrace.ground import settings
from ftrace.ground.fast_dataclasses import NamedTuple


class Precision(enum.Enum):
    """How exactly products are computed. All of them are computed in full precision."""

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2

    @classmethod
    def _missing_(cls, value: object) -> Precision | None:
        return next((p for p in cls if value in _PRECISIONS[p.value]), None)

    def __str__(self) -> str:
        return self.name


#: What each of them is called, too.
_PRECISIONS: tuple[tuple[object, ...], ...] = (
    (None, "default", "fastest", "bfloat16"),
    ("high", "bfloat16_3x", "tensorfloat32"),
    ("highest", "float32"),
)


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


_PRESETS = ("DEFAULT", *settings.PRODUCT_ALGORITHMS)
DotAlgorithmPreset = _Preset("DotAlgorithmPreset", _PRESETS, module=__name__)
for _class in (Precision, DotAlgorithm, DotAlgorithmPreset):
    _class.__module__ = "ftrace.lax"  # where users find them


_TYPES = {
    "F16": dtypes.float16, "BF16": dtypes.bfloat16, "F32": dtypes.float32,
    "F64": dtypes.float64,
}  # fmt: skip


PrecisionLike = Precision | str | tuple[Any, Any] | None

_NAMES = tuple([str(x) for names in _PRECISIONS for x in names if x is not None])


def check_precision(name: str, precision: Any) -> None:
    """Raises where products cannot be asked for in this way.

    Args:
      name: the function, for the message.

    Raises:
      ValueRangeError: it is neither None, a name, a `Precision`, nor two of these, nor
        an algorithm or its name.
    """
    if precision is None or isinstance(precision, (Precision, _Preset, DotAlgorithm)):
        return
    given: Any = precision
    pair = type(given) in (tuple, list) and len(given) == 2
    names = _NAMES if pair else (*_NAMES, *_PRESETS)
    for part in given if pair else (given,):
        if isinstance(part, Precision) or (isinstance(part, str) and part in names):
            continue
        raise ValueRangeError(
            f"{name}: precision must be None, a lax.Precision, one of the names "
            f"{', '.join(map(repr, _NAMES))}, a pair of these, or a "
            f"lax.DotAlgorithmPreset, its name or a lax.DotAlgorithm, got {precision!r}"
        )
