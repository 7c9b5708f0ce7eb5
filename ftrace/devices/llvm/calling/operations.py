"""Which operations of NumPy are loops of our own: see `elements`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ftrace.devices.llvm.calling.elements import CODES, KINDS, loop_name
from ftrace.trace.primitives import extrema, meanings
from ftrace.trace.primitives.conversion import is_converter
from ftrace.trace.primitives.elementwise import COMPARISONS, bitcast

#: The primitives that functions of NumPy are for operands of one dtype.
_NAMES: dict[Any, str] = {
    np.add: "add", np.subtract: "sub", np.multiply: "mul", np.true_divide: "div",
    np.negative: "neg", np.absolute: "abs", np.sqrt: "sqrt", np.equal: "eq",
    np.not_equal: "ne", np.less: "lt", np.less_equal: "le", np.greater: "gt",
    np.greater_equal: "ge", np.isfinite: "is_finite", np.bitwise_and: "and",
    np.bitwise_or: "or", np.bitwise_xor: "xor", np.invert: "not",
    meanings.mul_zero: "mul_zero", meanings.divide: "div",
    meanings.remainder: "rem", meanings.sign: "sign", meanings.shift_left: "shl",
    meanings.shift_right_logical: "shr",
    meanings.shift_right_arithmetic: "sar", extrema.maximum: "max",
    extrema.minimum: "min",
}  # fmt: skip


def loop_of(function: Any, given: Sequence[Any], made: Any) -> str | None:
    """The name of the loop that does an operation of NumPy; None if there is none.

    Args:
      function: the operation.
      given: the dtypes of its operands; None of what is neither array nor number.
      made: the dtype of its result.
    """
    if not given or not _is_known(given[0]) or not _is_known(made):
        return None
    if is_converter(function):
        return None if given[0] == made else loop_name("cast", given, made)
    if isinstance(function, partial):
        is_bitcast = function.func is bitcast.numpy  # pyright: ignore[reportUnknownMemberType]
        same = is_bitcast and given[0].itemsize == made.itemsize
        return f"copy_{made.name}" if same else None
    if any(dtype is None for dtype in given):
        return None
    if function is np.where:
        is_choice = [np.dtype(bool), made, made] == list(given)
        return f"select_{made.name}" if is_choice else None
    try:
        name = _NAMES.get(function)
    except TypeError:  # it cannot be a key
        return None
    if name is None or any(dtype != given[0] for dtype in given):
        return None
    expected = np.dtype(bool) if name in COMPARISONS else given[0]
    loop = loop_name(name, given, made) if made == expected else None
    return loop if loop and len(CODES[loop].operands) == len(given) else None


def _is_known(dtype: Any) -> bool:
    return dtype is not None and dtype.isnative and dtype.name in KINDS
