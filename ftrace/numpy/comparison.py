"""Are two arrays equal, or nearly so?"""

from __future__ import annotations

from typing import Any

from ftrace import dtypes
from ftrace.errors import ArgumentError, ShapeError
from ftrace.numpy.axes import cast, full, shape_of
from ftrace.numpy.creation import array
from ftrace.numpy.elementwise import (
    absolute,
    add,
    common_type,
    equal,
    isfinite,
    isnan,
    less_equal,
    logical_and,
    logical_or,
    multiply,
    subtract,
)
from ftrace.numpy.reductions import all as every
from ftrace.trace.operations import broadcast_shapes
from ftrace.trace.tracer import Value, aval_of, is_value

__all__ = ["allclose", "array_equal", "array_equiv", "isclose"]


def isclose(
    a: Value,
    b: Value,
    rtol: Value = 1e-5,
    atol: Value = 1e-8,
    equal_nan: bool = False,
) -> Any:
    """Where |a - b| <= atol + rtol·|b|; infinities are close to themselves."""
    dtype, _ = common_type(a, b)
    if not dtypes.is_inexact(dtype):
        dtype = dtypes.to_inexact(dtype)
    a, b = cast(a, dtype), cast(b, dtype)
    bound = add(atol, multiply(rtol, absolute(b)))
    near = less_equal(absolute(subtract(a, b)), bound)
    finite = logical_and(isfinite(a), isfinite(b))
    result = logical_or(logical_and(finite, near), equal(a, b))
    if equal_nan:
        result = logical_or(result, logical_and(isnan(a), isnan(b)))
    return result


def allclose(
    a: Value,
    b: Value,
    rtol: Value = 1e-5,
    atol: Value = 1e-8,
    equal_nan: bool = False,
) -> Any:
    """Is |a - b| <= atol + rtol·|b| everywhere?"""
    return every(isclose(a, b, rtol, atol, equal_nan))


def array_equal(a1: Value, a2: Value, equal_nan: bool = False) -> Any:
    """Are the shapes and all elements equal? False for what is no array."""
    try:
        a1, a2 = (x if is_value(x) else array(x, copy=False) for x in (a1, a2))
    except (ArgumentError, ShapeError):
        return full((), False, dtypes.bool_)
    if aval_of(a1).shape != aval_of(a2).shape:
        return full((), False, dtypes.bool_)
    same = equal(a1, a2)
    if equal_nan:
        same = logical_or(same, logical_and(isnan(a1), isnan(a2)))
    return every(same)


def array_equiv(a1: Value, a2: Value) -> Any:
    """Do the shapes broadcast, and are all elements equal then?"""
    try:
        a1, a2 = (x if is_value(x) else array(x, copy=False) for x in (a1, a2))
        broadcast_shapes("array_equiv", [shape_of(a1), shape_of(a2)])
    except (ArgumentError, ShapeError):
        return full((), False, dtypes.bool_)
    return every(equal(a1, a2))
