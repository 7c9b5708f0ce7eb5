"""Which operations of NumPy are loops of our own: see `loop_codes`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.devices.llvm.calling.loop_codes import CODES
from ftrace.trace.primitives import extrema, meanings
from ftrace.trace.primitives.conversion import is_converter
from ftrace.trace.primitives.elementwise import bitcast

#: Kinds of LLVM by dtype; of truth values and others that are told apart from bytes.
_KINDS = {
    "bool": "i1", "int32": "i32", "uint32": "i32", "int64": "i64", "uint64": "i64",
    "float32": "float", "float64": "double",
}  # fmt: skip
#: Operations that ask for the sign of integers.
_SIGNED = frozenset(
    ("less", "less_equal", "greater", "greater_equal", "maximum", "minimum",
     "absolute", "sign", "shift_right_arithmetic", "divide", "remainder")
)  # fmt: skip


def _named() -> dict[Any, str]:
    """The names of functions, as loops have them."""
    names = {
        "add", "subtract", "multiply", "negative", "absolute", "sqrt", "equal",
        "not_equal", "less", "less_equal", "greater", "greater_equal", "bitwise_and",
        "bitwise_or", "bitwise_xor", "invert", "isfinite",
    }  # fmt: skip
    found: dict[Any, str] = {getattr(np, name): name for name in names}
    found |= {
        np.where: "where",
        np.true_divide: "divide",
        meanings.divide: "divide",
        meanings.remainder: "remainder",
        meanings.sign: "sign",
        meanings.shift_left: "shift_left",
        meanings.shift_right_logical: "shift_right_logical",
        meanings.shift_right_arithmetic: "shift_right_arithmetic",
        extrema.maximum: "maximum",
        extrema.minimum: "minimum",
    }
    return found


_NAMES = _named()


def loop_of(function: Any, given: Sequence[Any], made: np.dtype[Any]) -> str | None:
    """The name of the loop that does an operation of NumPy; None if there is none.

    Args:
      function: the operation.
      given: the dtypes of its operands; None of what is neither array nor number.
      made: the dtype of its result.
    """
    kinds = [None if dtype is None else _kind_of(dtype) for dtype in given]
    result = _kind_of(made)
    if result is None or not kinds or kinds[0] is None:
        return None
    if is_converter(function):
        return _cast(kinds[0], given[0], result, made)
    if isinstance(function, partial):
        is_bitcast = function.func is bitcast.numpy  # pyright: ignore[reportUnknownMemberType]
        return _copy(given[0], made) if is_bitcast else None
    try:
        name = _NAMES.get(function)
    except TypeError:  # it cannot be a key
        return None
    if name is None or None in kinds:
        return None
    if name == "where":
        return _choice(kinds, given, made)
    if any(dtype != given[0] for dtype in given):
        return None
    return _arithmetic(name, kinds[0], given, made)


def _kind_of(dtype: Any) -> str | None:
    return _KINDS.get(dtype.name) if dtype.isnative else None


def _arithmetic(
    name: str, kind: str, given: Sequence[Any], made: np.dtype[Any]
) -> str | None:
    if given[0].kind == "u" and name in _SIGNED:
        return None
    if name == "divide" and made.kind == "f" and given[0].kind != "f":
        return None  # as floats
    code = CODES.get(f"{name}_{kind}")
    if code is None or len(code.operands) != len(given):
        return None
    compares = code.made == "i1" or kind == "i1"
    expected = np.dtype(np.bool_) if compares else given[0]
    return f"{name}_{kind}" if made == expected else None


def _cast(kind: str, source: Any, result: str, made: np.dtype[Any]) -> str | None:
    """Unsigned integers are left to NumPy."""
    if "u" in (source.kind, made.kind):
        return None
    taken = "i8" if kind == "i1" else kind
    if source.kind == "f" and dtypes.is_integer(made) and made != np.int32:
        return None
    name = f"cast_{taken}_{result}"
    return name if name in CODES else None


def _copy(source: np.dtype[Any], made: np.dtype[Any]) -> str | None:
    if source.itemsize != made.itemsize or source.itemsize not in (4, 8):
        return None
    return f"copy_i{8 * made.itemsize}"


def _choice(
    kinds: Sequence[Any], given: Sequence[Any], made: np.dtype[Any]
) -> str | None:
    if len(kinds) != 3 or kinds[0] != "i1" or given[1] != made or given[2] != made:
        return None
    return f"where_i{8 * made.itemsize}"
