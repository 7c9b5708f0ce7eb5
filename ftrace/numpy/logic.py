"""Logic, comparisons, questions about floats, and what chooses by them.

As in NumPy 2, Python integers that do not fit the dtype of the other operand compare as
numbers: no element of `uint8[3]` is 300, each is less. With JAX's dtypes they wrap, as
in JAX and in arithmetic.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import DtypeError, DtypeOverflowError
from ftrace.ground import settings
from ftrace.numpy import elementwise as ew
from ftrace.numpy.axes import as_value, choose, full, no_out
from ftrace.trace.arrays.array import ArrayLike
from ftrace.trace.bind import bind, elementwise
from ftrace.trace.eager.function_objects import member
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.primitive import Primitive
from ftrace.trace.tracing.tracer import Value, aval_of, check_fits

__all__ = [
    "clip", "copysign", "equal", "fmax", "fmin", "greater", "greater_equal",
    "heaviside", "iscomplex", "isfinite", "isinf", "isnan", "isneginf", "isposinf",
    "isreal", "less", "less_equal", "logical_and", "logical_not", "logical_or",
    "logical_xor", "maximum", "minimum", "not_equal", "signbit",
]  # fmt: skip

Binary = Callable[[Value, Value], Any]

# Logic.


def truth(x: Value) -> Any:
    """Where x is not zero, as bools."""
    x = as_value(x)
    return x if x.dtype == dtypes.bool_ else elementwise(p.ne, x, 0)


def _logical(name: str, op: Primitive):
    def function(x1: Value, x2: Value, /) -> Any:
        """A function of the truth of each pair of elements.

        Args:
          x1, x2: arrays or numbers of any dtype; their shapes broadcast.

        Returns:
          An array of bools in the common shape.

        Raises:
          ShapeError: the shapes do not broadcast.
        """
        return elementwise(op, truth(x1), truth(x2))

    return function


@member(_logical, p.bit_and)
def logical_and():
    """Where neither is zero.

    Example:
      >>> fnp.logical_and(fnp.array([0, 1, 2]), True)
      Array([False,  True,  True], dtype=bool)
    """


@member(_logical, p.bit_or)
def logical_or():
    """Where one is not zero, or both are not.

    Example:
      >>> fnp.logical_or(fnp.array([0, 0, 2]), fnp.array([0, 1, 1]))
      Array([False,  True,  True], dtype=bool)
    """


@member(_logical, p.bit_xor)
def logical_xor():
    """Where exactly one is zero.

    Example:
      >>> fnp.logical_xor(fnp.array([0, 0, 2]), fnp.array([0, 1, 1]))
      Array([False,  True, False], dtype=bool)
    """


def logical_not(x: Value, /) -> Any:
    """Where x is zero.

    Args:
      x: an array of any shape and dtype, or a number.

    Returns:
      An array of bools of the shape of `x`.

    Example:
      >>> fnp.logical_not(fnp.array([0, 1, 2]))
      Array([ True, False, False], dtype=bool)
    """
    return elementwise(p.bit_not, truth(x))


# Comparisons. Complex numbers are ordered by real part, then by imaginary part.


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
        if settings.current().enable_x64 is None:
            for x, aval in ((x1, aval_of(x2)), (x2, aval_of(x1))):
                if not aval.weak_type:
                    check_fits(x, aval.dtype)
        return elementwise(op, x1, x2)
    except DtypeError:
        types = {aval_of(x).dtype for x in (x1, x2)}
        if op not in (p.eq, p.ne) or len(types) > 1 or not dtypes.is_key(types.pop()):
            raise
        return _compare_keys(op, x1, x2)
    except DtypeOverflowError:
        x1, x2 = [int(x) if type(x) is np.int64 else x for x in (x1, x2)]
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
    answer = p.eq if _MEANINGS[op.name](*pair) else p.ne
    return elementwise(answer, values, values)


def _compare_keys(op: Primitive, x1: Value, x2: Value) -> Any:
    """Random keys are equal where all their bits are."""
    pairs = zip(*map(key_bits, (x1, x2)), strict=True)
    combine = p.bit_and if op is p.eq else p.bit_or
    return reduce(partial(elementwise, combine), [elementwise(op, *x) for x in pairs])


def key_bits(keys: Value) -> list[Any]:
    """Random keys as one or two arrays of uint64."""
    moved = bind(p.bitcast, keys, arg=dtypes.carrier(aval_of(keys).dtype))
    if not dtypes.is_complex(moved.dtype):
        return [moved]
    parts = [bind(part, moved) for part in (p.real, p.imag)]
    return [bind(p.bitcast, part, arg=dtypes.uint64) for part in parts]


def _compare_floats(op: Primitive, x1: Value, x2: Value) -> Any:
    try:
        pair = [float(x) if type(x) is int else x for x in (x1, x2)]
    except OverflowError as error:
        raise DtypeOverflowError(
            f"a Python int is too large for any float ({error}); write it as math.inf"
        ) from None
    return elementwise(op, *pair)


def _order(name: str, op: Primitive, strict: Primitive):
    def function(x1: Value, x2: Value, /) -> Any:
        """A comparison of each pair of elements.

        Args:
          x1, x2: arrays or numbers; their shapes broadcast, and their dtypes promote.
            Complex numbers are ordered by real part, then by imaginary part.

        Returns:
          An array of bools in the common shape. What is compared with NaN is False, but
          for `not_equal`.

        Raises:
          ShapeError: the shapes do not broadcast.
          DtypeOverflowError: a Python integer is too large for the floats beside it.
        """
        try:
            return compare(op, x1, x2)
        except DtypeError:
            if "c" not in (ew.kind_of(x1), ew.kind_of(x2)):
                raise
        tie = equal(ew.real(x1), ew.real(x2))
        by_imaginary = elementwise(op, ew.imag(x1), ew.imag(x2))
        by_real = elementwise(strict, ew.real(x1), ew.real(x2))
        return ew.bitwise_or(by_real, ew.bitwise_and(tie, by_imaginary))

    return function


@member(_order, p.eq, p.eq)
def equal():
    """x1 == x2.

    Example:
      >>> fnp.equal(fnp.array([1, 2, 3]), fnp.array([[2], [3]]))
      Array([[False,  True, False],
             [False, False,  True]], dtype=bool)
      >>> fnp.array([fnp.nan]) == fnp.nan
      Array([False], dtype=bool)
    """


@member(_order, p.ne, p.ne)
def not_equal():
    """x1 != x2.

    Example:
      >>> fnp.not_equal(fnp.array([1, 2, 3]), 2)
      Array([ True, False,  True], dtype=bool)
    """


@member(_order, p.lt, p.lt)
def less():
    """x1 < x2.

    Example:
      >>> fnp.less(fnp.array([1, 2, 3]), 2)
      Array([ True, False, False], dtype=bool)
    """


@member(_order, p.le, p.lt)
def less_equal():
    """x1 <= x2.

    Example:
      >>> fnp.less_equal(fnp.array([1, 2, 3]), 2)
      Array([ True,  True, False], dtype=bool)
    """


@member(_order, p.gt, p.gt)
def greater():
    """x1 > x2.

    Example:
      >>> fnp.greater(fnp.array([1, 2, 3]), 2)
      Array([False, False,  True], dtype=bool)
    """


@member(_order, p.ge, p.gt)
def greater_equal():
    """x1 >= x2.

    Example:
      >>> fnp.greater_equal(fnp.array([1, 2, 3]), 2)
      Array([False,  True,  True], dtype=bool)
    """


# Questions about floats.


def isnan(x: Value, /) -> Any:
    """Where x is not a number.

    Args:
      x: an array of any shape, or a number.

    Returns:
      An array of bools of the shape of `x`.

    Example:
      >>> fnp.isnan(fnp.array([1.0, fnp.nan, fnp.inf]))
      Array([False,  True, False], dtype=bool)
    """
    if ew.kind_of(x) not in "fc":
        return full(aval_of(x).shape, False, dtypes.bool_)
    return elementwise(p.ne, x, x)


def isfinite(x: Value, /) -> Any:
    """Where x is neither infinite nor NaN.

    Args:
      x: an array of any shape, or a number.

    Returns:
      An array of bools of the shape of `x`.

    Example:
      >>> fnp.isfinite(fnp.array([1.0, fnp.nan, fnp.inf]))
      Array([ True, False, False], dtype=bool)
    """
    if ew.kind_of(x) not in "fc":
        return full(aval_of(x).shape, True, dtypes.bool_)
    return elementwise(p.is_finite, x)


def isinf(x: Value, /) -> Any:
    """Where x is infinite.

    Args:
      x: an array of any shape, or a number; complex ones are if one part is.

    Returns:
      An array of bools of the shape of `x`.

    Example:
      >>> fnp.isinf(fnp.array([1.0, fnp.nan, -fnp.inf]))
      Array([False, False,  True], dtype=bool)
    """
    if ew.kind_of(x) == "c":
        return ew.bitwise_or(isinf(ew.real(x)), isinf(ew.imag(x)))
    if ew.kind_of(x) != "f":
        return full(aval_of(x).shape, False, dtypes.bool_)
    return equal(ew.absolute(x), math.inf)


def _is_limit(name: str, limit: float):
    def is_limit(x: Value, /, out: None = None) -> Any:
        """A question about infinities.

        Args:
          x: an array of any shape, or a number; real.
          out: not supported.

        Returns:
          An array of bools of the shape of `x`.

        Raises:
          DtypeError: `x` is complex.
        """
        no_out(name, out)
        ew.refuse_complex(name, x)
        if ew.kind_of(x) != "f":
            return full(aval_of(x).shape, False, dtypes.bool_)
        return equal(x, limit)

    return is_limit


@member(_is_limit, math.inf)
def isposinf():
    """Where x is positive infinity.

    Example:
      >>> fnp.isposinf(fnp.array([fnp.inf, -fnp.inf]))
      Array([ True, False], dtype=bool)
    """


@member(_is_limit, -math.inf)
def isneginf():
    """Where x is negative infinity.

    Example:
      >>> fnp.isneginf(fnp.array([fnp.inf, -fnp.inf]))
      Array([False,  True], dtype=bool)
    """


def isreal(x: Value) -> Any:
    """Where the imaginary part is zero.

    Args:
      x: an array of any shape, or a number.

    Returns:
      An array of bools of the shape of `x`.

    Example:
      >>> fnp.isreal(fnp.array([1, 2j]))
      Array([ True, False], dtype=bool)
    """
    return equal(ew.imag(x), 0)


def iscomplex(x: Value) -> Any:
    """Where the imaginary part is not zero.

    Args:
      x: an array of any shape, or a number.

    Returns:
      An array of bools of the shape of `x`.

    Example:
      >>> fnp.iscomplex(fnp.array([1, 2j]))
      Array([False,  True], dtype=bool)
    """
    return not_equal(ew.imag(x), 0)


def signbit(x: Value, /) -> Any:
    """Where the sign is negative, also of -0.0 and NaN.

    Args:
      x: an array of any shape, or a number; real.

    Returns:
      An array of bools of the shape of `x`.

    Raises:
      DtypeError: x is complex.

    Example:
      >>> fnp.signbit(fnp.array([-1.0, -0.0, 0.0]))
      Array([ True,  True, False], dtype=bool)
    """
    ew.refuse_complex("signbit", x)
    x = as_value(x)
    if ew.kind_of(x) == "f":
        x = bind(p.bitcast, x, arg=np.dtype(f"i{x.dtype.itemsize}"))
    return less(x, 0) if ew.kind_of(x) == "i" else full(x.shape, False, dtypes.bool_)


# The greater and the lesser.


def _extreme(name: str, op: Primitive, before: Binary):
    def function(x1: Value, x2: Value, /) -> Any:
        """One of each pair of elements.

        Args:
          x1, x2: arrays or numbers; their shapes broadcast, and their dtypes promote.
            Complex numbers are ordered by real part, then by imaginary part.

        Returns:
          An array of the common shape, in the common dtype. At a tie the derivative is
          shared: half of it goes to each.

        Raises:
          ShapeError: the shapes do not broadcast.
        """
        if "c" in (ew.kind_of(x1), ew.kind_of(x2)):
            return choose(isnan(x1) | before(x1, x2), x1, x2)
        return elementwise(op, x1, x2)

    return function


def _extreme_number(name: str, before: Binary):
    def function(x1: Value, x2: Value) -> Any:
        """One of each pair of elements, a number if one is.

        Args:
          x1, x2: arrays or numbers; their shapes broadcast, and their dtypes promote.

        Returns:
          An array of the common shape, in the common dtype; NaN where both are.

        Raises:
          ShapeError: the shapes do not broadcast.
        """
        return choose(before(x1, x2) | isnan(x2), x1, x2)

    return function


@member(_extreme, p.maximum, greater)
def maximum():
    """The greater of two; NaN if one is NaN.

    Example:
      >>> fnp.maximum(fnp.array([1, 5, 3]), fnp.array([4, 2, 3]))
      Array([4, 5, 3], dtype=int32)
      >>> fnp.maximum(fnp.array([-1.0, 2.0]), 0)
      Array([0., 2.], dtype=float32)
    """


@member(_extreme, p.minimum, less)
def minimum():
    """The lesser of two; NaN if one is NaN.

    Example:
      >>> fnp.minimum(fnp.array([1, 5, 3]), fnp.array([4, 2, 3]))
      Array([1, 2, 3], dtype=int32)
    """


@member(_extreme_number, greater)
def fmax():
    """The greater of two, where NaN yields to a number.

    Example:
      >>> fnp.fmax(fnp.array([1.0, fnp.nan]), 0.0)
      Array([1., 0.], dtype=float32)
    """


@member(_extreme_number, less)
def fmin():
    """The lesser of two, where NaN yields to a number.

    Example:
      >>> fnp.fmin(fnp.array([1.0, fnp.nan]), 0.0)
      Array([0., 0.], dtype=float32)
    """


def clip(arr: Value, /, min: Value | None = None, max: Value | None = None) -> Any:
    """`arr`, not less than `min` and not greater than `max`.

    Args:
      arr: an array of any shape; real.
      min, max: the bounds: numbers, or arrays that broadcast with it; None is none.
        Where `min` is greater than `max` the result is `max`.

    Returns:
      An array in the dtype to which all three promote. The derivative is 0 outside, and
      a half at the bounds.

    Raises:
      DtypeError: an operand is complex.

    Example:
      >>> fnp.clip(fnp.array([-2, 0, 5]), 0, 3)
      Array([0, 0, 3], dtype=int32)
      >>> fnp.clip(fnp.array([-2, 0, 5]), min=-1)
      Array([-1,  0,  5], dtype=int32)
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


def copysign(x1: Value, x2: Value, /) -> Any:
    """|x1| with the sign of x2, as a float.

    Args:
      x1, x2: real arrays or numbers; their shapes broadcast, and their dtypes promote.

    Returns:
      An array of the common shape; float32 for integers.

    Raises:
      DtypeError: an operand is complex.

    Example:
      >>> fnp.copysign(fnp.array([1, -2]), -1)
      Array([-1., -2.], dtype=float32)
    """
    ew.refuse_complex("copysign", x1, x2)
    x1, x2 = ew.promote_inexact(x1, x2)
    size = ew.absolute(x1)
    return choose(signbit(x2), ew.negative(size), size)


def heaviside(x1: Value, x2: Value, /) -> Any:
    """0 for negative x1, 1 for positive, x2 at 0.

    Args:
      x1: where the step is evaluated; real.
      x2: its value at 0; the shapes broadcast.

    Returns:
      An array of the common shape; float32 for integers.

    Raises:
      DtypeError: an operand is complex.

    Example:
      >>> fnp.heaviside(fnp.array([-1, 0, 2]), 0.5)
      Array([0. , 0.5, 1. ], dtype=float32, weak_type=True)
    """
    ew.refuse_complex("heaviside", x1, x2)
    x1, x2 = ew.promote_inexact(x1, x2)
    step = choose(less(x1, 0), 0.0, choose(isnan(x1), x1, 1.0))
    return choose(equal(x1, 0), x2, step)
