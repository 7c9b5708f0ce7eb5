"""Functions of NumPy that are one primitive after promotion, or a line around one.

As in NumPy 2, Python integers that do not fit the dtype of the other operand compare as
numbers: no element of `uint8[3]` is 300, each is less. With JAX's dtypes they wrap, as
in JAX and in arithmetic.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from functools import partial, reduce
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import DtypeError, DtypeOverflowError
from ftrace.ground import settings
from ftrace.numpy.axes import as_value, cast, choose, full, no_out
from ftrace.trace.arrays.array import ArrayLike
from ftrace.trace.avals import LargeInteger, pairs_of
from ftrace.trace.bind import bind, elementwise
from ftrace.trace.eager.dispatch import member
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.primitive import Primitive
from ftrace.trace.tracing.tracer import Value, aval_of, check_fits

__all__ = [
    "abs", "absolute", "acos", "acosh", "add", "angle", "arccos", "arccosh", "arcsin",
    "arcsinh", "arctan", "arctan2", "arctanh", "asin", "asinh", "atan", "atan2",
    "atanh", "bitwise_and", "bitwise_count", "bitwise_invert", "bitwise_left_shift",
    "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "cbrt", "clip",
    "conj", "conjugate", "copysign", "cos", "cosh", "deg2rad", "degrees", "divide",
    "equal", "exp", "exp2", "expm1", "fabs", "fmax", "fmin", "greater", "greater_equal",
    "heaviside", "imag", "invert", "iscomplex", "isfinite", "isinf", "isnan",
    "isneginf", "isposinf", "isreal", "left_shift", "less", "less_equal", "log",
    "log10", "log1p", "log2", "logical_and", "logical_not", "logical_or", "logical_xor",
    "maximum", "minimum", "multiply", "negative", "not_equal", "positive", "rad2deg",
    "radians", "real", "reciprocal", "right_shift", "sign", "signbit", "sin", "sinh",
    "sqrt", "square", "subtract", "tan", "tanh", "true_divide",
]  # fmt: skip

Binary = Callable[[Value, Value], Any]


def kind_of(x: Value) -> str:
    """The kind of a value's dtype: one of "biufc"."""
    if isinstance(x, ArrayLike):
        return dtypes.kind(x.dtype)
    return dtypes.kind(aval_of(x).dtype)


def values_together(values: Iterable[Value]) -> list[Any]:
    """The values as arrays: numbers in the dtype that all promote to, which they fit.

    Where arrays are reshaped before they meet, a number has to meet them first.
    """
    given = list(values)
    if not any(_is_number(x) for x in given):
        return [as_value(x) for x in given]
    dtype, weak = common_type(*given)
    return [cast(x, dtype, weak) if _is_number(x) else as_value(x) for x in given]


def _is_number(x: Value) -> bool:
    """Is it a number, or a traced one, of which it matters whether it fits?"""
    if isinstance(x, ArrayLike):
        return type(getattr(x, "aval", None)) is LargeInteger
    return not isinstance(x, (np.ndarray, bool, np.bool_)) and aval_of(x).weak_type


def inexact(x: Value) -> Any:
    """`x`, as floats if it has integers or bools."""
    x = as_value(x)
    return x if dtypes.is_inexact(x.dtype) else cast(x, dtypes.to_inexact(x.dtype))


def refuse_complex(name: str, *values: Value, instead: str = "") -> None:
    """Raises where a value is complex; `instead` says what may be done."""
    for x in values:
        if kind_of(x) == "c":
            raise DtypeError(
                f"{name} is not defined for complex numbers, got "
                f"{aval_of(x).dtype}{instead}"
            )


def promote_together(*values: Value) -> list[Any]:
    """The values in their common dtype; their shapes stay."""
    dtype, weak = common_type(*values)
    return [cast(x, dtype, weak) for x in values]


def promote_inexact(*values: Value) -> list[Any]:
    """The values in their common float or complex dtype; their shapes stay."""
    dtype, weak = common_type(*values)
    return [cast(x, dtypes.to_inexact(dtype), weak) for x in values]


def common_type(*values: Value) -> tuple[np.dtype[Any], bool]:
    """(dtype, weak_type) to which the values promote."""
    return dtypes.promote(*pairs_of([aval_of(x) for x in values]))


def _unary(name: str, op: Primitive):
    def function(x: Value, /) -> Any:
        """A function of each element.

        Args:
          x: an array of any shape, or a number.

        Returns:
          An array of the shape and dtype of `x`.
        """
        return elementwise(op, x)

    return function


def _float(name: str, op: Primitive):
    def function(x: Value, /) -> Any:
        """A function of each element, as a float.

        Args:
          x: an array of any shape, or a number.

        Returns:
          An array of the shape of `x`, in its dtype; float32 for integers and bools,
          where NumPy has float64.
        """
        return elementwise(op, x, inexact=True)

    return function


def _binary(name: str, op: Primitive):
    def function(x1: Value, x2: Value, /) -> Any:
        """A function of each pair of elements.

        Args:
          x1, x2: arrays or numbers; their shapes broadcast, and their dtypes promote.

        Returns:
          An array of the common shape, in the common dtype.

        Raises:
          ShapeError: the shapes do not broadcast.
        """
        return elementwise(op, x1, x2)

    return function


# Arithmetic.


@member(_binary, p.add)
def add():
    """x1 + x2; logical or of bools.

    Example:
      >>> fnp.add(fnp.array([[1], [2]]), fnp.array([10, 20]))
      Array([[11, 21],
             [12, 22]], dtype=int32)
      >>> fnp.array([1, 2]) + 0.5
      Array([1.5, 2.5], dtype=float32, weak_type=True)
    """


@member(_binary, p.sub)
def subtract():
    """x1 - x2.

    Example:
      >>> fnp.subtract(fnp.array([5, 7]), 2)
      Array([3, 5], dtype=int32)
    """


@member(_binary, p.mul)
def multiply():
    """x1 · x2; logical and of bools.

    Example:
      >>> fnp.multiply(fnp.array([1, 2, 3]), fnp.array([[1], [10]]))
      Array([[ 1,  2,  3],
             [10, 20, 30]], dtype=int32)
    """


def true_divide(x1: Value, x2: Value, /) -> Any:
    """x1 / x2, of integers too as floats.

    Args:
      x1, x2: arrays or numbers; their shapes broadcast, and their dtypes promote.

    Returns:
      An array of the common shape, in the common float or complex dtype; of integers
      float32, where NumPy has float64. What is divided by 0 is infinite or NaN, without
      a warning.

    Raises:
      ShapeError: the shapes do not broadcast.

    Example:
      >>> fnp.divide(fnp.array([1, 2, 3]), 2)
      Array([0.5, 1. , 1.5], dtype=float32)
      >>> fnp.divide(fnp.array([1, -1, 0]), 0)
      Array([ inf, -inf,  nan], dtype=float32)
    """
    return elementwise(p.div, x1, x2, inexact=True)


divide = true_divide


@member(_unary, p.neg)
def negative():
    """-x.

    Unsigned integers wrap.

    Example:
      >>> fnp.negative(fnp.array([1, -2]))
      Array([-1,  2], dtype=int32)
    """


def positive(x: Value, /) -> Any:
    """`x` itself, as an array.

    Args:
      x: an array or a number.

    Example:
      >>> fnp.positive(-1.5)
      Array(-1.5, dtype=float32, weak_type=True)
    """
    return as_value(x)


def reciprocal(x: Value, /) -> Any:
    """1 / x.

    Args:
      x: an array of any shape, or a number.

    Returns:
      An array of the shape of `x`, in its dtype; float32 for integers, where NumPy
      rounds toward 0.

    Example:
      >>> fnp.reciprocal(fnp.array([1, 2, 4]))
      Array([1.  , 0.5 , 0.25], dtype=float32)
    """
    return true_divide(1, *promote_inexact(x))


def absolute(x: Value, /) -> Any:
    """|x|; of bools and unsigned integers x itself.

    Args:
      x: an array of any shape, or a number.

    Returns:
      An array of the shape of `x`, in its dtype; real for complex numbers:
      √(re² + im²). The derivative of a real one at 0 is 1, as in JAX.

    Example:
      >>> fnp.abs(fnp.array([-1, 0, 2]))
      Array([1, 0, 2], dtype=int32)
      >>> fnp.abs(fnp.array([3 + 4j]))
      Array([5.], dtype=float32)
    """
    return as_value(x) if kind_of(x) in "bu" else elementwise(p.absolute, x)


abs = absolute


def fabs(x: Value, /) -> Any:
    """|x| as a float.

    Args:
      x: an array of any shape, or a number; real.

    Returns:
      An array of the shape of `x`; float32 for integers.

    Raises:
      DtypeError: x is complex.

    Example:
      >>> fnp.fabs(fnp.array([-1, 2]))
      Array([1., 2.], dtype=float32)
    """
    refuse_complex("fabs", x, instead="; use abs")
    return elementwise(p.absolute, x, inexact=True)


def square(x: Value, /) -> Any:
    """x · x.

    Args:
      x: an array of any shape, or a number.

    Returns:
      An array of the shape and dtype of `x`; int32 for bools.

    Example:
      >>> fnp.square(fnp.array([-3, 2]))
      Array([9, 4], dtype=int32)
    """
    x = as_value(x)  # once: a product of one and the same
    if kind_of(x) == "c":
        return elementwise(p.square, x)
    if kind_of(x) == "b":
        x = cast(x, dtypes.int32)
    return elementwise(p.mul, x, x)


@member(_unary, p.sign)
def sign():
    """-1, 0 or 1; of complex numbers x / |x|.

    Example:
      >>> fnp.sign(fnp.array([-5, 0, 3]))
      Array([-1,  0,  1], dtype=int32)
    """


# Exponentials, logarithms, roots.


@member(_float, p.exp)
def exp():
    """e to the power x.

    Example:
      >>> fnp.exp(fnp.array([0, 1])).round(3)
      Array([1.   , 2.718], dtype=float32)
    """


@member(_float, p.exp2)
def exp2():
    """2 to the power x.

    Example:
      >>> fnp.exp2(fnp.array([0, 1, 3]))
      Array([1., 2., 8.], dtype=float32)
    """


@member(_float, p.expm1)
def expm1():
    """exp(x) - 1, exact near 0.

    Example:
      >>> fnp.expm1(fnp.array([0.0, 1e-10]))
      Array([0.e+00, 1.e-10], dtype=float32)
      >>> fnp.exp(1e-10) - 1
      Array(0., dtype=float32, weak_type=True)
    """


@member(_float, p.log)
def log():
    """The natural logarithm; NaN for negative numbers, -inf for 0.

    Example:
      >>> fnp.log(fnp.array([1, 10, 0])).round(3)
      Array([0.   , 2.303,  -inf], dtype=float32)
    """


@member(_float, p.log2)
def log2():
    """The logarithm to base 2.

    Example:
      >>> fnp.log2(fnp.array([1, 2, 8]))
      Array([0., 1., 3.], dtype=float32)
    """


@member(_float, p.log1p)
def log1p():
    """log(1 + x), exact near 0.

    Example:
      >>> fnp.log1p(fnp.array([0.0, 1e-10]))
      Array([0.e+00, 1.e-10], dtype=float32)
    """


@member(_float, p.sqrt)
def sqrt():
    """The square root; NaN for negative numbers.

    Example:
      >>> fnp.sqrt(fnp.array([4, 9, -1]))
      Array([ 2.,  3., nan], dtype=float32)
      >>> fnp.sqrt(fnp.array([-1 + 0j]))
      Array([0.+1.j], dtype=complex64)
    """


def log10(x: Value, /) -> Any:
    """The logarithm to base 10.

    Args:
      x: an array of any shape, or a number.

    Returns:
      An array of the shape of `x`, in its dtype; float32 for integers and bools.

    Example:
      >>> fnp.log10(fnp.array([1, 10, 100])).round(3)
      Array([0., 1., 2.], dtype=float32)
    """
    value = log(x)
    if kind_of(value) != "c":
        return true_divide(value, math.log(10))
    parts = [true_divide(part, math.log(10)) for part in (real(value), imag(value))]
    return bind(p.make_complex, *parts)


@member(_float, p.cbrt)
def cbrt():
    """The cube root, of negative numbers too; real.

    Example:
      >>> fnp.cbrt(fnp.array([8, -27])).round(3)
      Array([ 2., -3.], dtype=float32)
    """


# Trigonometric and hyperbolic functions.


@member(_float, p.sin)
def sin():
    """The sine of x radians.

    Example:
      >>> fnp.sin(fnp.array([0, fnp.pi / 2])).round(3)
      Array([0., 1.], dtype=float32)
    """


@member(_float, p.cos)
def cos():
    """The cosine of x radians.

    Example:
      >>> fnp.cos(fnp.array([0, fnp.pi])).round(3)
      Array([ 1., -1.], dtype=float32)
    """


@member(_float, p.tan)
def tan():
    """The tangent of x radians.

    Example:
      >>> fnp.tan(fnp.array([0, fnp.pi / 4])).round(3)
      Array([0., 1.], dtype=float32)
    """


@member(_float, p.asin)
def arcsin():
    """The inverse sine, in radians from -π/2 to π/2; NaN beyond ±1.

    Example:
      >>> fnp.arcsin(fnp.array([-1, 0, 1])).round(3)
      Array([-1.571,  0.   ,  1.571], dtype=float32)
    """


@member(_float, p.acos)
def arccos():
    """The inverse cosine, in radians from 0 to π; NaN beyond ±1.

    Example:
      >>> fnp.arccos(fnp.array([-1, 0, 1])).round(3)
      Array([3.142, 1.571, 0.   ], dtype=float32)
    """


@member(_float, p.atan)
def arctan():
    """The inverse tangent, in radians from -π/2 to π/2.

    Example:
      >>> fnp.arctan(fnp.array([-1, 0, fnp.inf])).round(3)
      Array([-0.785,  0.   ,  1.571], dtype=float32)
    """


@member(_float, p.sinh)
def sinh():
    """The hyperbolic sine, (exp(x) - exp(-x)) / 2.

    Example:
      >>> fnp.sinh(fnp.array([0, 1])).round(3)
      Array([0.   , 1.175], dtype=float32)
    """


@member(_float, p.cosh)
def cosh():
    """The hyperbolic cosine, (exp(x) + exp(-x)) / 2.

    Example:
      >>> fnp.cosh(fnp.array([0, 1])).round(3)
      Array([1.   , 1.543], dtype=float32)
    """


@member(_float, p.tanh)
def tanh():
    """The hyperbolic tangent, sinh(x) / cosh(x).

    Example:
      >>> fnp.tanh(fnp.array([-1, 0, 100])).round(3)
      Array([-0.762,  0.   ,  1.   ], dtype=float32)
    """


@member(_float, p.asinh)
def arcsinh():
    """The inverse hyperbolic sine.

    Example:
      >>> fnp.arcsinh(fnp.array([0, 1])).round(3)
      Array([0.   , 0.881], dtype=float32)
    """


@member(_float, p.acosh)
def arccosh():
    """The inverse hyperbolic cosine; NaN below 1.

    Example:
      >>> fnp.arccosh(fnp.array([1, 2, 0])).round(3)
      Array([0.   , 1.317,   nan], dtype=float32)
    """


@member(_float, p.atanh)
def arctanh():
    """The inverse hyperbolic tangent; NaN beyond ±1.

    Example:
      >>> fnp.arctanh(fnp.array([0, 0.5, 1])).round(3)
      Array([0.   , 0.549,   inf], dtype=float32)
    """


asin, acos, atan = arcsin, arccos, arctan
asinh, acosh, atanh = arcsinh, arccosh, arctanh


def arctan2(x1: Value, x2: Value, /) -> Any:
    """The angle of the point (x2, x1), in radians from -π to π.

    Of complex numbers -i·log((x2 + i·x1)/√(x1² + x2²)), as in JAX; NumPy takes none.

    Args:
      x1, x2: arrays or numbers; their shapes broadcast, and their dtypes promote.

    Returns:
      An array of the common shape, in the common float dtype; float32 for integers.

    Raises:
      ShapeError: the shapes do not broadcast.

    Example:
      >>> fnp.arctan2(fnp.array([1, 1, -1]), fnp.array([1, -1, 0])).round(3)
      Array([ 0.785,  2.356, -1.571], dtype=float32)
    """
    if "c" not in (kind_of(x1), kind_of(x2)):
        return elementwise(p.atan2, x1, x2, inexact=True)
    y, x = promote_inexact(x1, x2)
    return -1j * log((x + 1j * y) / sqrt(x * x + y * y))


atan2 = arctan2


def deg2rad(x: Value, /) -> Any:
    """Degrees to radians: x·π/180.

    Args:
      x: an array of any shape, or a number.

    Returns:
      An array of the shape of `x`, in its dtype; float32 for integers.

    Example:
      >>> fnp.deg2rad(fnp.array([0, 90, 180])).round(3)
      Array([0.   , 1.571, 3.142], dtype=float32)
    """
    return elementwise(p.mul, *promote_inexact(x), math.pi / 180)


def rad2deg(x: Value, /) -> Any:
    """Radians to degrees: x·180/π.

    Args:
      x: an array of any shape, or a number.

    Returns:
      An array of the shape of `x`, in its dtype; float32 for integers.

    Example:
      >>> fnp.rad2deg(fnp.array([0, fnp.pi])).round(3)
      Array([  0., 180.], dtype=float32)
    """
    return elementwise(p.mul, *promote_inexact(x), 180 / math.pi)


radians, degrees = deg2rad, rad2deg


# Bits.


@member(_binary, p.bit_and)
def bitwise_and():
    """x1 & x2, of integers or bools.

    Example:
      >>> fnp.bitwise_and(fnp.array([6, 5]), 3)
      Array([2, 1], dtype=int32)
    """


@member(_binary, p.bit_or)
def bitwise_or():
    """x1 | x2, of integers or bools.

    Example:
      >>> fnp.bitwise_or(fnp.array([6, 5]), 3)
      Array([7, 7], dtype=int32)
    """


@member(_binary, p.bit_xor)
def bitwise_xor():
    """x1 ^ x2, of integers or bools.

    Example:
      >>> fnp.bitwise_xor(fnp.array([6, 5]), 3)
      Array([5, 6], dtype=int32)
    """


@member(_unary, p.bit_not)
def bitwise_not():
    """~x, of integers; logical not of bools.

    Example:
      >>> fnp.bitwise_not(fnp.array([0, 5]))
      Array([-1, -6], dtype=int32)
      >>> fnp.invert(fnp.array([True, False]))
      Array([False,  True], dtype=bool)
    """


invert = bitwise_invert = bitwise_not


def left_shift(x1: Value, x2: Value, /) -> Any:
    """x1 << x2; 0 for shifts by the width or more.

    Args:
      x1, x2: integers; their shapes broadcast, and their dtypes promote.

    Returns:
      An array of the common shape, in the common dtype; int32 for bools.

    Example:
      >>> fnp.left_shift(fnp.array([1, 3]), fnp.array([4, 1]))
      Array([16,  6], dtype=int32)
    """
    return elementwise(p.shift_left, *_shiftable(x1, x2))


bitwise_left_shift = left_shift


def _shiftable(x1: Value, x2: Value) -> list[Any]:
    """The operands; bools alone as integers."""
    if common_type(x1, x2)[0] == dtypes.bool_:
        return [cast(x, dtypes.int32) for x in (x1, x2)]
    return [x1, x2]


def right_shift(x1: Value, x2: Value, /) -> Any:
    """x1 >> x2, filled with the sign.

    Args:
      x1, x2: integers; their shapes broadcast, and their dtypes promote.

    Returns:
      An array of the common shape, in the common dtype; int32 for bools.

    Example:
      >>> fnp.right_shift(fnp.array([16, -16]), 2)
      Array([ 4, -4], dtype=int32)
    """
    signed = dtypes.kind(common_type(x1, x2)[0]) in "bi"
    op = p.shift_right_arithmetic if signed else p.shift_right_logical
    return elementwise(op, *_shiftable(x1, x2))


bitwise_right_shift = right_shift


def bitwise_count(x: Value, /) -> Any:
    """The number of bits that are set in |x|.

    Args:
      x: integers or bools.

    Returns:
      An array of uint8, of the shape of `x`.

    Example:
      >>> fnp.bitwise_count(fnp.array([0, 7, 8]))
      Array([0, 3, 1], dtype=uint8)
    """
    x = as_value(x)
    if x.dtype == dtypes.bool_:
        return cast(x, dtypes.uint8)
    return cast(elementwise(p.popcount, absolute(x)), dtypes.uint8)


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
            if "c" not in (kind_of(x1), kind_of(x2)):
                raise
        tie = equal(real(x1), real(x2))
        by_imaginary = elementwise(op, imag(x1), imag(x2))
        by_real = elementwise(strict, real(x1), real(x2))
        return bitwise_or(by_real, bitwise_and(tie, by_imaginary))

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


# Complex numbers.


def real(val: Value, /) -> Any:
    """The real part; of real numbers the array itself.

    Args:
      val: an array of any shape, or a number.

    Returns:
      An array of the shape of `val`: float32 for complex64, float64 for complex128.

    Example:
      >>> fnp.real(fnp.array([1 + 2j, 3]))
      Array([1., 3.], dtype=float32)
    """
    return elementwise(p.real, val) if kind_of(val) == "c" else as_value(val)


def imag(val: Value, /) -> Any:
    """The imaginary part; of real numbers zeros.

    Args:
      val: an array of any shape, or a number.

    Returns:
      An array of the shape of `val`: float32 for complex64, float64 for complex128.

    Example:
      >>> fnp.imag(fnp.array([1 + 2j, 3]))
      Array([2., 0.], dtype=float32)
    """
    if kind_of(val) == "c":
        return elementwise(p.imag, val)
    aval = aval_of(val)
    return full(aval.shape, 0, aval.dtype, aval.weak_type)


def conjugate(x: Value, /) -> Any:
    """The complex conjugate; of real numbers the array itself.

    Args:
      x: an array of any shape, or a number.

    Returns:
      An array of the shape and dtype of `x`.

    Example:
      >>> fnp.conj(fnp.array([1 + 2j]))
      Array([1.-2.j], dtype=complex64)
    """
    return elementwise(p.conj, x) if kind_of(x) == "c" else as_value(x)


conj = conjugate


def angle(z: Value, deg: bool = False) -> Any:
    """The argument of a complex number, from -π to π.

    Args:
      z: an array of any shape, or a number; of real ones it is 0 or π.
      deg: in degrees instead of radians.

    Returns:
      An array of real numbers of the shape of `z`.

    Example:
      >>> fnp.angle(fnp.array([1, 1j, -1]), deg=True).round(3)
      Array([  0.,  90., 180.], dtype=float32)
    """
    least = dtypes.default_dtype("f")
    aval = aval_of(z)
    # JAX has that of a single real number in the default dtype, if that is wider.
    narrow = aval.ndim == 0 and aval.dtype.itemsize < least.itemsize
    if kind_of(z) not in "fc" or (narrow and kind_of(z) == "f"):
        z = cast(z, least)
    result = arctan2(imag(z), real(z))
    return rad2deg(result) if deg else result


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
    if kind_of(x) not in "fc":
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
    if kind_of(x) not in "fc":
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
    if kind_of(x) == "c":
        return bitwise_or(isinf(real(x)), isinf(imag(x)))
    if kind_of(x) != "f":
        return full(aval_of(x).shape, False, dtypes.bool_)
    return equal(absolute(x), math.inf)


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
        refuse_complex(name, x)
        if kind_of(x) != "f":
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
    return equal(imag(x), 0)


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
    return not_equal(imag(x), 0)


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
    refuse_complex("signbit", x)
    x = as_value(x)
    if kind_of(x) == "f":
        x = bind(p.bitcast, x, arg=np.dtype(f"i{x.dtype.itemsize}"))
    return less(x, 0) if kind_of(x) == "i" else full(x.shape, False, dtypes.bool_)


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
        if "c" in (kind_of(x1), kind_of(x2)):
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
    refuse_complex("clip", *[x for x in (arr, min, max) if x is not None])
    if not isinstance(arr, (ArrayLike, np.ndarray)):
        bounds = [x for x in (min, max) if x is not None]
        arr = values_together([arr, *bounds])[0]
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
    refuse_complex("copysign", x1, x2)
    x1, x2 = promote_inexact(x1, x2)
    size = absolute(x1)
    return choose(signbit(x2), negative(size), size)


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
    refuse_complex("heaviside", x1, x2)
    x1, x2 = promote_inexact(x1, x2)
    step = choose(less(x1, 0), 0.0, choose(isnan(x1), x1, 1.0))
    return choose(equal(x1, 0), x2, step)


# Rounding of floats only; `arithmetic` has NumPy's functions.

floor_values = _unary("floor", p.floor)
truncate_values = _unary("trunc", p.truncate)
round_values = _unary("rint", p.round_even)
