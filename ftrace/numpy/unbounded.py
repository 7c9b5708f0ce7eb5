"""Comparisons with Python integers that do not fit the dtype of the other operand.

As in NumPy 2 they compare as numbers: no element of `uint8[3]` is 300, each is less.
(JAX takes what is left of the integer in that dtype.)
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ftrace import dtypes
from ftrace.errors import DtypeOverflowError
from ftrace.trace.operations import elementwise
from ftrace.trace.primitives import elementwise as ops
from ftrace.trace.primitives.record import Primitive
from ftrace.trace.tracer import Value, aval_of

_MEANINGS: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le,
    "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip


def compare(op: Primitive, x1: Value, x2: Value) -> Any:
    """A comparison after promotion and broadcasting, with integers of any size.

    Raises:
      DtypeOverflowError: neither operand is an array, or one is of floats, and an
        integer is too large for them.
    """
    try:
        return elementwise(op, x1, x2)
    except DtypeOverflowError:
        if (type(x1) is int) == (type(x2) is int):
            raise
        values, number = (x1, x2) if type(x2) is int else (x2, x1)
        dtype = aval_of(values).dtype
        if dtypes.kind(dtype) not in "biu":
            return _compare_floats(op, x1, x2)
    if dtypes.is_integer(dtype):
        low, high = dtypes.limits(dtype)
        if low <= number <= high:  # too large for the dtype of numbers alone
            typed = dtype.type(number)
            return elementwise(op, *[typed if x is number else x for x in (x1, x2)])
    # Beyond one end of the dtype: all elements compare as 0 does with ±1.
    beyond = 1 if number > 0 else -1
    pair = (0, beyond) if values is x1 else (beyond, 0)
    answer = ops.eq if _MEANINGS[op.name](*pair) else ops.ne
    return elementwise(answer, values, values)


def _compare_floats(op: Primitive, x1: Value, x2: Value) -> Any:
    try:
        pair = [float(x) if type(x) is int else x for x in (x1, x2)]
    except OverflowError as error:
        raise DtypeOverflowError(
            f"a Python int is too large for any float ({error}); write it as math.inf"
        ) from None
    return elementwise(op, *pair)
