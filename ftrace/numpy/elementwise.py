"""Functions of NumPy that are one primitive after promotion, or a line around one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import DtypeError
from ftrace.numpy.axes import as_value, cast, full
from ftrace.trace.arrays.array import ArrayLike
from ftrace.trace.avals import LargeInteger, pairs_of
from ftrace.trace.bind import bind, elementwise
from ftrace.trace.eager.function_objects import member
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.primitive import Primitive
from ftrace.trace.tracing.tracer import Value, aval_of

__all__ = [
    "abs", "absolute", "acos", "acosh", "add", "angle", "arccos", "arccosh", "arcsin",
    "arcsinh", "arctan", "arctan2", "arctanh", "asin", "asinh", "atan", "atan2",
    "atanh", "bitwise_and", "bitwise_count", "bitwise_invert", "bitwise_left_shift",
    "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "cbrt", "conj",
    "conjugate", "cos", "cosh", "deg2rad", "degrees", "divide", "exp", "exp2", "expm1",
    "fabs", "imag", "invert", "left_shift", "log", "log10", "log1p", "log2", "multiply",
    "negative", "positive", "rad2deg", "radians", "real", "reciprocal", "right_shift",
    "sign", "sin", "sinh", "sqrt", "square", "subtract", "tan", "tanh", "true_divide",
]  # fmt: skip


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


# Rounding of floats only; `arithmetic` has NumPy's functions.

floor_values = _unary("floor", p.floor)
truncate_values = _unary("trunc", p.truncate)
round_values = _unary("rint", p.round_even)
