"""One value or another: where, select, clip, maximum and their kin."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.arrays.array import ArrayLike
from ftrace.errors import ArgumentError, DtypeError, ShapeError, ValueRangeError
from ftrace.numpy import elementwise as ew
from ftrace.numpy.axes import as_value, cast, choose, full, shape_of
from ftrace.numpy.creation import array
from ftrace.numpy.reductions import all as every
from ftrace.numpy.searching import nonzero
from ftrace.numpy.types import finfo, is_sequence
from ftrace.trace.bind import bind, broadcast_shapes, elementwise
from ftrace.trace.eager.dispatch import named
from ftrace.trace.primitives import elementwise as ops
from ftrace.trace.primitives.primitive import Primitive
from ftrace.trace.tracing.tracer import Value, aval_of, is_value

__all__ = [
    "allclose", "array_equal", "array_equiv", "clip", "copysign", "fmax", "fmin",
    "heaviside", "isclose", "maximum", "minimum", "nan_to_num", "piecewise", "select",
    "where",
]  # fmt: skip


def where(
    condition: Value,
    x: Value | None = None,
    y: Value | None = None,
    /,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """`x` where the condition holds, `y` elsewhere; alone, the indices where it does.

    Args:
      condition: bools; numbers count as true where they are not zero.
      x, y: the values; all three broadcast together, and these two promote.
      size: without `x` and `y`: how many indices the result has, for `jit`.
      fill_value: the indices beyond those that there are, by default 0.

    Raises:
      ArgumentError: only one of x and y is given.
      NonConcreteBooleanIndexError: the condition alone, traced, and without `size`.
    """
    if x is None and y is None:
        return nonzero(condition, size=size, fill_value=fill_value)
    if x is None or y is None:
        raise ArgumentError("where takes the condition alone, or both x and y")
    return choose(condition, x, y)


def select(
    condlist: Sequence[Value], choicelist: Sequence[Value], default: Value = 0
) -> Any:
    """From `choicelist`, the value whose condition is the first that holds.

    Raises:
      ValueRangeError: the lists differ in length, or are empty.
    """
    if not is_sequence(condlist) or not is_sequence(choicelist):
        raise ArgumentError(
            "select takes a list of conditions and a list of choices, got "
            f"{condlist!r:.60} and {choicelist!r:.60}"
        )
    if len(condlist) != len(choicelist) or not condlist:
        raise ValueRangeError(
            f"select takes as many conditions as choices, and at least one; got "
            f"{len(condlist)} and {len(choicelist)}"
        )
    result = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        result = choose(condition, choice, result)
    return result


def piecewise(
    x: Value,
    condlist: Value | Sequence[Value],
    funclist: Sequence[Value | Callable[..., Any]],
    *args: Any,
    **kw: Any,
) -> Any:
    """The function of the first condition that holds, of x; one more is the default.

    Raises:
      ValueRangeError: the lists do not fit.
    """
    x = as_value(x)
    many = is_sequence(condlist) or aval_of(condlist).ndim > x.ndim
    conditions: list[Any] = list(condlist) if many else [condlist]
    if not hasattr(funclist, "__iter__"):
        raise ArgumentError(
            f"piecewise takes a list of functions, got {funclist!r:.60}"
        )
    functions = list(funclist)
    if len(functions) == len(conditions):
        functions.append(0)
    if len(functions) != len(conditions) + 1:
        raise ValueRangeError(
            f"piecewise: {len(conditions)} conditions take as many functions, or one "
            f"more for the default; got {len(functions)}"
        )
    dtype = dtypes.settled(x.dtype, x.weak_type)
    values = [cast(f(x, *args, **kw) if callable(f) else f, dtype) for f in functions]
    return select(conditions, values[:-1], values[-1])


# The greater and the lesser.


def _extreme(name: str, op: Primitive, before: ew.Binary, doc: str) -> ew.Binary:
    def function(x1: Value, x2: Value, /) -> Any:
        try:
            return elementwise(op, x1, x2)
        except DtypeError:
            if "c" not in (ew.kind_of(x1), ew.kind_of(x2)):
                raise
        return choose(ew.isnan(x1) | before(x1, x2), x1, x2)

    return named(function, name, doc)


def _extreme_number(name: str, before: ew.Binary, doc: str) -> ew.Binary:
    def function(x1: Value, x2: Value, /) -> Any:
        return choose(before(x1, x2) | ew.isnan(x2), x1, x2)

    return named(function, name, doc)


maximum = _extreme(
    "maximum", ops.maximum, ew.greater, "The greater of two; NaN if one is NaN."
)
minimum = _extreme(
    "minimum", ops.minimum, ew.less, "The lesser of two; NaN if one is NaN."
)
fmax = _extreme_number(
    "fmax", ew.greater, "The greater of two, where NaN yields to a number."
)
fmin = _extreme_number(
    "fmin", ew.less, "The lesser of two, where NaN yields to a number."
)


def clip(
    arr: Value,
    /,
    min: Value | None = None,
    max: Value | None = None,
) -> Any:
    """`arr`, not less than `min` and not greater than `max`.

    Raises:
      DtypeError: an operand is complex.
    """
    ew.refuse_complex("clip", *[x for x in (arr, min, max) if x is not None])
    if not isinstance(arr, (ArrayLike, np.ndarray)):
        bounds = [x for x in (min, max) if x is not None]
        arr = ew.values_together([arr, *bounds])[0]
    arr = as_value(arr)
    if min is not None:
        arr = maximum(min, arr)
    if max is not None:
        arr = minimum(max, arr)
    return arr


# Signs and special values.


def copysign(x1: Value, x2: Value, /) -> Any:
    """|x1| with the sign of x2, as a float.

    Raises:
      DtypeError: an operand is complex.
    """
    ew.refuse_complex("copysign", x1, x2)
    x1, x2 = ew.promote_inexact(x1, x2)
    size = ew.absolute(x1)
    return choose(ew.signbit(x2), ew.negative(size), size)


def heaviside(x1: Value, x2: Value, /) -> Any:
    """0 for negative x1, 1 for positive, x2 at 0.

    Raises:
      DtypeError: an operand is complex.
    """
    ew.refuse_complex("heaviside", x1, x2)
    x1, x2 = ew.promote_inexact(x1, x2)
    step = choose(ew.less(x1, 0), 0.0, choose(ew.isnan(x1), x1, 1.0))
    return choose(ew.equal(x1, 0), x2, step)


def nan_to_num(
    x: Value,
    copy: bool = True,
    nan: Value = 0.0,
    posinf: Value | None = None,
    neginf: Value | None = None,
) -> Any:
    """NaN replaced by `nan`, infinities by the greatest finite numbers or as given."""
    x = as_value(x)
    match dtypes.kind(x.dtype):
        case "c":
            parts = [
                nan_to_num(p, copy, nan, posinf, neginf)
                for p in (ew.real(x), ew.imag(x))
            ]
            return bind(ops.make_complex, *parts)
        case "f":
            info = finfo(x.dtype)
            posinf = float(info.max) if posinf is None else posinf
            neginf = float(info.min) if neginf is None else neginf
            x_clean = choose(ew.isnan(x), cast(nan, x.dtype), x)
            x_clean = choose(ew.equal(x, math.inf), cast(posinf, x.dtype), x_clean)
            return choose(ew.equal(x, -math.inf), cast(neginf, x.dtype), x_clean)
        case _:
            return x


# Are two arrays equal, or nearly so?


def isclose(
    a: Value,
    b: Value,
    rtol: Value = 1e-5,
    atol: Value = 1e-8,
    equal_nan: bool = False,
) -> Any:
    """Where |a - b| <= atol + rtol·|b|; infinities are close to themselves."""
    dtype = dtypes.to_inexact(ew.common_type(a, b)[0])
    a, b = cast(a, dtype), cast(b, dtype)
    near = abs(a - b) <= atol + rtol * abs(b)
    result = (ew.isfinite(a) & ew.isfinite(b) & near) | (a == b)
    return result | (ew.isnan(a) & ew.isnan(b)) if equal_nan else result


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
    same = ew.equal(a1, a2)
    return every(same | (ew.isnan(a1) & ew.isnan(a2)) if equal_nan else same)


def array_equiv(a1: Value, a2: Value) -> Any:
    """Do the shapes broadcast, and are all elements equal then?"""
    try:
        a1, a2 = (x if is_value(x) else array(x, copy=False) for x in (a1, a2))
        broadcast_shapes("array_equiv", [shape_of(a1), shape_of(a2)])
    except (ArgumentError, ShapeError):
        return full((), False, dtypes.bool_)
    return every(ew.equal(a1, a2))
