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
from ftrace.trace.eager.dispatch import member, named
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

Unary = Callable[[Value], Any]
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


def _unary(name: str, op: Primitive, doc: str, inexact: bool = False) -> Unary:
    def function(x: Value, /) -> Any:
        return elementwise(op, x, inexact=inexact)

    return named(function, name, doc)


#: Of floats and complex numbers; integers become the default float.
_float = partial(_unary, inexact=True)


def _binary(name: str, op: Primitive, doc: str, inexact: bool = False) -> Binary:
    def function(x1: Value, x2: Value, /) -> Any:
        return elementwise(op, x1, x2, inexact=inexact)

    return named(function, name, doc)


# Arithmetic.

add = _binary("add", p.add, "x1 + x2; logical or of bools.")
subtract = _binary("subtract", p.sub, "x1 - x2.")
multiply = _binary("multiply", p.mul, "x1 · x2; logical and of bools.")
true_divide = _binary(
    "true_divide", p.div, "x1 / x2, of integers too as floats.", inexact=True
)
divide = true_divide
negative = _unary("negative", p.neg, "-x.")


def positive(x: Value, /) -> Any:
    """`x` itself, as an array."""
    return as_value(x)


def reciprocal(x: Value, /) -> Any:
    """1 / x."""
    return true_divide(1, *promote_inexact(x))


def absolute(x: Value, /) -> Any:
    """|x|; of bools and unsigned integers x itself."""
    return as_value(x) if kind_of(x) in "bu" else elementwise(p.absolute, x)


abs = absolute


def fabs(x: Value, /) -> Any:
    """|x| as a float.

    Raises:
      DtypeError: x is complex.
    """
    refuse_complex("fabs", x, instead="; use abs")
    return elementwise(p.absolute, x, inexact=True)


def square(x: Value, /) -> Any:
    """X · x."""
    x = as_value(x)  # once: a product of one and the same
    if kind_of(x) == "c":
        return elementwise(p.square, x)
    if kind_of(x) == "b":
        x = cast(x, dtypes.int32)
    return elementwise(p.mul, x, x)


sign = _unary("sign", p.sign, "-1, 0 or 1; of complex numbers x / |x|.")


# Exponentials, logarithms, roots.

exp = _float("exp", p.exp, "e to the power x.")
exp2 = _float("exp2", p.exp2, "2 to the power x.")
expm1 = _float("expm1", p.expm1, "exp(x) - 1, exact near 0.")
log = _float("log", p.log, "The natural logarithm.")
log2 = _float("log2", p.log2, "The logarithm to base 2.")
log1p = _float("log1p", p.log1p, "log(1 + x), exact near 0.")
sqrt = _float("sqrt", p.sqrt, "The square root.")


def log10(x: Value, /) -> Any:
    """The logarithm to base 10."""
    value = log(x)
    if kind_of(value) != "c":
        return true_divide(value, math.log(10))
    parts = [true_divide(part, math.log(10)) for part in (real(value), imag(value))]
    return bind(p.make_complex, *parts)


cbrt = _float("cbrt", p.cbrt, "The real cube root, of real numbers.")


# Trigonometric and hyperbolic functions.

sin = _float("sin", p.sin, "The sine of x radians.")
cos = _float("cos", p.cos, "The cosine of x radians.")
tan = _float("tan", p.tan, "The tangent of x radians.")
arcsin = _float("arcsin", p.asin, "The inverse sine, in radians.")
arccos = _float("arccos", p.acos, "The inverse cosine, in radians.")
arctan = _float("arctan", p.atan, "The inverse tangent, in radians.")
sinh = _float("sinh", p.sinh, "The hyperbolic sine.")
cosh = _float("cosh", p.cosh, "The hyperbolic cosine.")
tanh = _float("tanh", p.tanh, "The hyperbolic tangent.")
arcsinh = _float("arcsinh", p.asinh, "The inverse hyperbolic sine.")
arccosh = _float("arccosh", p.acosh, "The inverse hyperbolic cosine.")
arctanh = _float("arctanh", p.atanh, "The inverse hyperbolic tangent.")
asin, acos, atan = arcsin, arccos, arctan
asinh, acosh, atanh = arcsinh, arccosh, arctanh


def arctan2(x1: Value, x2: Value, /) -> Any:
    """The angle of the point (x2, x1), in radians.

    Of complex numbers -i·log((x2 + i·x1)/√(x1² + x2²)), as in JAX.
    """
    if "c" not in (kind_of(x1), kind_of(x2)):
        return elementwise(p.atan2, x1, x2, inexact=True)
    y, x = promote_inexact(x1, x2)
    return -1j * log((x + 1j * y) / sqrt(x * x + y * y))


atan2 = arctan2


def deg2rad(x: Value, /) -> Any:
    """Degrees to radians."""
    return elementwise(p.mul, *promote_inexact(x), math.pi / 180)


def rad2deg(x: Value, /) -> Any:
    """Radians to degrees."""
    return elementwise(p.mul, *promote_inexact(x), 180 / math.pi)


radians, degrees = deg2rad, rad2deg


# Bits.

bitwise_and = _binary("bitwise_and", p.bit_and, "x1 & x2.")
bitwise_or = _binary("bitwise_or", p.bit_or, "x1 | x2.")
bitwise_xor = _binary("bitwise_xor", p.bit_xor, "x1 ^ x2.")
bitwise_not = _unary("bitwise_not", p.bit_not, "~x; logical not of bools.")
invert = bitwise_invert = bitwise_not


def left_shift(x1: Value, x2: Value, /) -> Any:
    """x1 << x2; 0 for shifts by the width or more."""
    return elementwise(p.shift_left, *_shiftable(x1, x2))


bitwise_left_shift = left_shift


def _shiftable(x1: Value, x2: Value) -> list[Any]:
    """The operands; bools alone as integers."""
    if common_type(x1, x2)[0] == dtypes.bool_:
        return [cast(x, dtypes.int32) for x in (x1, x2)]
    return [x1, x2]


def right_shift(x1: Value, x2: Value, /) -> Any:
    """x1 >> x2, filled with the sign."""
    signed = dtypes.kind(common_type(x1, x2)[0]) in "bi"
    op = p.shift_right_arithmetic if signed else p.shift_right_logical
    return elementwise(op, *_shiftable(x1, x2))


bitwise_right_shift = right_shift


def bitwise_count(x: Value, /) -> Any:
    """The number of bits that are set in |x|, as uint8."""
    x = as_value(x)
    if x.dtype == dtypes.bool_:
        return cast(x, dtypes.uint8)
    return cast(elementwise(p.popcount, absolute(x)), dtypes.uint8)


# Logic.


def truth(x: Value) -> Any:
    """Where x is not zero, as bools."""
    x = as_value(x)
    return x if x.dtype == dtypes.bool_ else elementwise(p.ne, x, 0)


def _logical(name: str, op: Primitive, doc: str) -> Binary:
    def function(x1: Value, x2: Value, /) -> Any:
        return elementwise(op, truth(x1), truth(x2))

    return named(function, name, doc)


logical_and = _logical("logical_and", p.bit_and, "Where neither is zero.")
logical_or = _logical("logical_or", p.bit_or, "Where one is not zero.")
logical_xor = _logical("logical_xor", p.bit_xor, "Where exactly one is zero.")


def logical_not(x: Value, /) -> Any:
    """Where x is zero."""
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


def _order(name: str, op: Primitive, strict: Primitive, doc: str) -> Binary:
    def function(x1: Value, x2: Value, /) -> Any:
        try:
            return compare(op, x1, x2)
        except DtypeError:
            if "c" not in (kind_of(x1), kind_of(x2)):
                raise
        tie = equal(real(x1), real(x2))
        by_imaginary = elementwise(op, imag(x1), imag(x2))
        by_real = elementwise(strict, real(x1), real(x2))
        return bitwise_or(by_real, bitwise_and(tie, by_imaginary))

    return named(function, name, doc)


equal = _order("equal", p.eq, p.eq, "x1 == x2.")
not_equal = _order("not_equal", p.ne, p.ne, "x1 != x2.")
less = _order("less", p.lt, p.lt, "x1 < x2.")
less_equal = _order("less_equal", p.le, p.lt, "x1 <= x2.")
greater = _order("greater", p.gt, p.gt, "x1 > x2.")
greater_equal = _order("greater_equal", p.ge, p.gt, "x1 >= x2.")


# Complex numbers.


def real(val: Value, /) -> Any:
    """The real part; of real numbers x itself."""
    return elementwise(p.real, val) if kind_of(val) == "c" else as_value(val)


def imag(val: Value, /) -> Any:
    """The imaginary part; of real numbers zeros."""
    if kind_of(val) == "c":
        return elementwise(p.imag, val)
    aval = aval_of(val)
    return full(aval.shape, 0, aval.dtype, aval.weak_type)


def conjugate(x: Value, /) -> Any:
    """The complex conjugate; of real numbers x itself."""
    return elementwise(p.conj, x) if kind_of(x) == "c" else as_value(x)


conj = conjugate


def angle(z: Value, deg: bool = False) -> Any:
    """The argument of a complex number, in radians or degrees."""
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
    """Where x is not a number."""
    if kind_of(x) not in "fc":
        return full(aval_of(x).shape, False, dtypes.bool_)
    return elementwise(p.ne, x, x)


def isfinite(x: Value, /) -> Any:
    """Where x is neither infinite nor NaN."""
    if kind_of(x) not in "fc":
        return full(aval_of(x).shape, True, dtypes.bool_)
    return elementwise(p.is_finite, x)


def isinf(x: Value, /) -> Any:
    """Where x is infinite."""
    if kind_of(x) == "c":
        return bitwise_or(isinf(real(x)), isinf(imag(x)))
    if kind_of(x) != "f":
        return full(aval_of(x).shape, False, dtypes.bool_)
    return equal(absolute(x), math.inf)


def _is_limit(name: str, limit: float):
    def is_limit(x: Value, /, out: None = None) -> Any:
        no_out(name, out)
        refuse_complex(name, x)
        if kind_of(x) != "f":
            return full(aval_of(x).shape, False, dtypes.bool_)
        return equal(x, limit)

    return is_limit


@member(_is_limit, math.inf)
def isposinf():
    """Where x is positive infinity."""


@member(_is_limit, -math.inf)
def isneginf():
    """Where x is negative infinity."""


def isreal(x: Value, /) -> Any:
    """Where the imaginary part is zero."""
    return equal(imag(x), 0)


def iscomplex(x: Value, /) -> Any:
    """Where the imaginary part is not zero."""
    return not_equal(imag(x), 0)


def signbit(x: Value, /) -> Any:
    """Where the sign is negative, also of -0.0 and NaN.

    Raises:
      DtypeError: x is complex.
    """
    refuse_complex("signbit", x)
    x = as_value(x)
    if kind_of(x) == "f":
        x = bind(p.bitcast, x, arg=np.dtype(f"i{x.dtype.itemsize}"))
    return less(x, 0) if kind_of(x) == "i" else full(x.shape, False, dtypes.bool_)


# The greater and the lesser.


def _extreme(name: str, op: Primitive, before: Binary, doc: str) -> Binary:
    def function(x1: Value, x2: Value, /) -> Any:
        if "c" in (kind_of(x1), kind_of(x2)):
            return choose(isnan(x1) | before(x1, x2), x1, x2)
        return elementwise(op, x1, x2)

    return named(function, name, doc)


def _extreme_number(name: str, before: Binary, doc: str) -> Binary:
    def function(x1: Value, x2: Value, /) -> Any:
        return choose(before(x1, x2) | isnan(x2), x1, x2)

    return named(function, name, doc)


maximum = _extreme(
    "maximum", p.maximum, greater, "The greater of two; NaN if one is NaN."
)
minimum = _extreme("minimum", p.minimum, less, "The lesser of two; NaN if one is NaN.")
fmax = _extreme_number(
    "fmax", greater, "The greater of two, where NaN yields to a number."
)
fmin = _extreme_number("fmin", less, "The lesser of two, where NaN yields to a number.")


def clip(arr: Value, /, min: Value | None = None, max: Value | None = None) -> Any:
    """`arr`, not less than `min` and not greater than `max`.

    Raises:
      DtypeError: an operand is complex.
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

    Raises:
      DtypeError: an operand is complex.
    """
    refuse_complex("copysign", x1, x2)
    x1, x2 = promote_inexact(x1, x2)
    size = absolute(x1)
    return choose(signbit(x2), negative(size), size)


def heaviside(x1: Value, x2: Value, /) -> Any:
    """0 for negative x1, 1 for positive, x2 at 0.

    Raises:
      DtypeError: an operand is complex.
    """
    refuse_complex("heaviside", x1, x2)
    x1, x2 = promote_inexact(x1, x2)
    step = choose(less(x1, 0), 0.0, choose(isnan(x1), x1, 1.0))
    return choose(equal(x1, 0), x2, step)


# Rounding of floats only; `arithmetic` has NumPy's functions.

floor_values = _unary("floor", p.floor, "Rounded down.")
truncate_values = _unary("trunc", p.truncate, "Rounded toward 0.")
round_values = _unary("rint", p.round_even, "Rounded to the nearest, ties to even.")
