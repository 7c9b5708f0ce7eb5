"""What elementwise primitives mean in NumPy, where no function of it says just that.

Functions of arrays of one shape and dtype. Special functions that NumPy lacks are those
of Python's `math`, exact to rounding, where it has them: they are the reference that
the devices' polynomials are tested against, not a fast path. A cast has one meaning
everywhere: float to integer truncates and saturates, NaN becomes 0; complex to real
takes the real part; anything to bool asks whether it is not zero. The greater and the
lesser know -0 from +0.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ftrace import dtypes
from ftrace.trace.avals import ShapedArray
from ftrace.trace.primitives.primitive import Array

_where: Any = np.where  # the stubs know nothing of Any


Ufunc = Callable[..., Any]


# Arithmetic.


def mul_zero(x: Any, y: Any) -> Any:
    """x·y, and zero where either is zero."""
    with np.errstate(all="ignore"):
        return np.where((x == 0) | (y == 0), np.zeros((), x.dtype), x * y)


def divide(x: Any, y: Any) -> Any:
    """Integers truncate; division by zero gives -1, as XLA does."""
    if dtypes.is_complex(x.dtype):
        return _divide_complex(x, y)
    if not dtypes.is_integer(x.dtype):
        return np.true_divide(x, y)
    lowest = np.iinfo(x.dtype).min
    overflow = (y == -1) & (x == lowest) if lowest else np.False_
    safe = np.where((y == 0) | overflow, np.ones((), y.dtype), y)
    quotient = x // safe
    inexact = (x - quotient * safe != 0) & ((x < 0) != (safe < 0))
    quotient = quotient + inexact.astype(x.dtype)
    return np.where(y == 0, np.asarray(-1).astype(x.dtype), quotient)


def division(aval: ShapedArray) -> Ufunc:
    """`divide` for one dtype, which need not be asked for again."""
    return np.true_divide if dtypes.kind(aval.dtype) == "f" else divide


def _divide_complex(x: Any, y: Any) -> Any:
    """NumPy multiplies by an inverse, which is infinite for the least divisors."""
    value = np.true_divide(x, y)
    if _is_bounded(value):
        return value
    wide = np.abs(y.real) >= np.abs(y.imag)
    p, q = _where(wide, y.real, y.imag), _where(wide, y.imag, y.real)
    a, b = _where(wide, x.real, x.imag), _where(wide, x.imag, x.real)
    r = q / p
    below = p + q * r
    imaginary = _where(wide, b - a * r, a * r - b)
    smith = make_complex((a + b * r) / below, imaginary / below)
    return _where(np.isfinite(y) & (y != 0), smith, value)


def multiply(x: Any, y: Any) -> Any:
    """NumPy rounds both products of a part where complex64 runs backwards."""
    if getattr(x, "dtype", None) is dtypes.complex64:
        plain = x.flags.forc and y.flags.forc
        if not plain and min((*x.strides, *y.strides)) < 0:
            x, y = np.ascontiguousarray(x), np.ascontiguousarray(y)
    return np.multiply(x, y)


def multiplication(aval: ShapedArray) -> Ufunc:
    """`multiply` for one dtype."""
    return multiply if dtypes.is_complex(aval.dtype) else np.multiply


def square(x: Any) -> Any:
    """Of complex numbers, without a difference of infinite squares, nor 0·∞."""
    value = np.multiply(x, x)
    if _is_bounded(value):
        return value
    re, im = x.real, x.imag
    even = abs(re) - abs(im) == 0
    return make_complex(np.where(even, 0, (re - im) * (re + im)), 2 * (re * im))


def _is_bounded(value: Any) -> bool:
    """Is every part finite, and so small that one product can tell?"""
    flat = value.ravel()
    return abs(flat.dot(flat)) < np.inf


def remainder(x: Any, y: Any) -> Any:
    """The sign of the dividend; x for a zero integer divisor, as XLA does."""
    if not dtypes.is_integer(x.dtype):
        return np.fmod(x, y)
    overflow = (y == -1) if np.iinfo(x.dtype).min else np.False_
    safe = np.where((y == 0) | overflow, np.ones((), y.dtype), y)
    return np.where(y == 0, x, np.fmod(x, safe))


#: Of so many floats and more, what is asked first costs as much as it spares.
_FEW_TO_ASK = 1 << 16


def square_bound(x: Any) -> Any:
    """A bound of all squares of a few floats, or NaN where nothing is known.

    A rounded sum of squares is never less than the greatest of them, in any order:
    rounding is monotonic. So one product bounds all elements.
    """
    if x.dtype.char not in "fd" or x.size >= _FEW_TO_ASK:
        return np.nan
    vdot: Any = np.vdot  # whose stubs know no type of what comes out
    return vdot(x, x)


def power(x: Any, y: Any) -> Any:
    """`np.power`; of the one exponent 1/2 the root, with a power's values at its ends.

    Powers of -0 and -infinity are 0 and infinity.
    """
    if not _is_half(y, x.shape) or x.dtype.kind != "f":
        return np.power(x, y)
    root = np.sqrt(x) + x.dtype.type(0)
    if square_bound(x) < np.inf:
        return root
    return _where(x == -np.inf, -x, root)


def power_of_any(x: Any, y: Any) -> Any:
    """Of complex numbers; NumPy multiplies infinities for a small whole exponent."""
    if x.dtype.kind != "c":
        return power(x, y)
    value = np.power(x, y)
    if _is_bounded(value) and _is_bounded(x + y):
        return value
    log: Any = np.log(x)
    exponent = multiply(y, log)
    other = np.exp(exponent)
    other = _where((x == 0) & (y.real > 0), 0, _where(y == 0, 1, other))
    return _where(np.isfinite(value) & np.isfinite(exponent), value, other)


def _is_half(y: Any, shape: Sequence[int]) -> bool:
    """Is it 1/2, once or again and again to that shape?"""
    if y.ndim == 0:
        return y.dtype.kind == "f" and bool(y == 0.5)
    if any(y.strides) or not y.size or y.shape != shape:
        return False
    return y.dtype.kind == "f" and bool(y.flat[0] == 0.5)


def sign(x: Any) -> Any:
    """-1, 0 or 1 with the sign of zero kept; x/|x| of complex numbers."""
    if dtypes.kind(x.dtype) == "f":
        return np.where(np.isnan(x) | (x == 0), x, np.copysign(np.ones((), x.dtype), x))
    if dtypes.is_complex(x.dtype):  # of an infinity NumPy gives its direction
        length = np.abs(x)
        scale = np.where(length < 1, 2.0**60, np.where(length == np.inf, 0.25, 1))
        scale = scale.astype(length.dtype)
        re, im = x.real * scale, x.imag * scale
        length = np.where(x == 0, scale, np.hypot(re, im))
        return make_complex(re / length, im / length)
    return np.sign(x)


def expm1(x: Any) -> Any:
    """NumPy's complex one multiplies infinity by 0, and subtracts infinities."""
    if x.dtype.kind != "c":
        return np.expm1(x)
    near = np.expm1(x)
    if _is_bounded(near):
        return near
    value: Any = np.asarray(np.exp(x))
    value.real -= 1
    np.copyto(value.real, near.real, where=np.abs(x.real) < 1)
    return value


def log1p(x: Any) -> Any:
    """NumPy adds 1 to a complex x, however small; |1 + x|² - 1 = re·(2 + re) + im²."""
    if x.dtype.kind != "c":
        return np.log1p(x)
    above: Any = np.array(x)
    above.real += 1
    value: Any = np.asarray(np.log(above))
    re, im = x.real, x.imag
    excess = re * (2 + re) + im * im
    np.copyto(value.real, np.log1p(excess) / 2, where=np.abs(x) < 0.5)
    return value


def rsqrt(x: Any) -> Any:
    if x.dtype.kind == "c":
        return divide(x.dtype.type(1), np.sqrt(x))
    return np.reciprocal(np.sqrt(x))


def logistic(x: Any) -> Any:
    """e^x rather than 1/e^-x where x is negative: it is denormal, not infinite."""
    if x.dtype.kind == "c":
        left = x.real < 0
        part = np.exp(_where(left, x, -x))
        return divide(_where(left, part, x.dtype.type(1)), 1 + part)
    part = np.exp(-np.abs(x))
    return _where(x < 0, part, x.dtype.type(1)) / (1 + part)


def nextafter(x: Any, y: Any) -> Any:
    """NumPy's; of equal ones y, which for 16 bits it takes to be x: zeros differ."""
    return _where(x == y, y, np.nextafter(x, y))


def make_complex(x: Any, y: Any) -> Any:
    shape = np.broadcast_shapes(x.shape, y.shape)
    result = np.empty(shape, dtypes.complex_dtype(x.dtype))
    result.real, result.imag = x, y
    return result


# Bits. Shifts by the width or more give 0, or the sign.


def _unsigned_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(f"u{dtype.itemsize}")


def _shift(
    shift: Ufunc, x: Array, n: Array, beyond: Array, view: np.dtype[Any]
) -> Array:
    width = 8 * x.dtype.itemsize
    alike = n.size and not any(n.strides)  # one distance: look at it once
    if alike and 0 <= n[(0,) * n.ndim] < width:
        return shift(x.view(view), n.view(view)).view(x.dtype)
    outside: Array = (n < 0) | (n >= width)
    safe: Array = np.where(outside, np.zeros((), n.dtype), n)
    result = shift(x.view(view), safe.view(view)).view(x.dtype)
    return np.where(outside, np.asarray(beyond), result)


def shift_left(x: Array, n: Array) -> Array:
    return _shift(np.left_shift, x, n, np.zeros((), x.dtype), x.dtype)


def shift_right_logical(x: Any, n: Any) -> Any:
    return _shift(np.right_shift, x, n, np.zeros((), x.dtype), _unsigned_dtype(x.dtype))


def shift_right_arithmetic(x: Any, n: Any) -> Any:
    beyond = np.where(x < 0, np.asarray(-1).astype(x.dtype), np.zeros((), x.dtype))
    return _shift(np.right_shift, x, n, beyond, x.dtype)


def popcount(x: Any) -> Any:
    """NumPy counts the bits of |x|."""
    x = np.asarray(x)
    return np.bitwise_count(x.view(_unsigned_dtype(x.dtype))).astype(x.dtype)


# Special functions of real arrays.


def _each(
    quick: Callable[[float], float], function: Callable[[float], float]
) -> Callable[[Array], Array]:
    """`quick` of each element; where it raises for one, `function` of each."""

    def apply(x: Array) -> Array:
        wide = np.asarray(x, np.float64)
        values = wide.ravel().tolist()
        found: Array
        try:
            found = np.fromiter(map(quick, values), np.float64, len(values))
        except (ValueError, OverflowError):
            found = np.fromiter(map(function, values), np.float64, len(values))
        return found.reshape(wide.shape).astype(x.dtype, copy=False)

    return apply


def _near_lgamma(x: float) -> float:
    # Around its zeros the sum that Python makes of it loses three bits.
    return math.log(math.gamma(x)) if 0.75 < x < 2.75 else math.lgamma(x)


def _lgamma(x: float) -> float:
    if math.isinf(x) or (x <= 0 and x == math.floor(x)):
        return math.inf
    try:
        return _near_lgamma(x)
    except OverflowError:
        return math.inf


erf = _each(math.erf, math.erf)
erfc = _each(math.erfc, math.erfc)
lgamma = _each(_near_lgamma, _lgamma)

# Coefficients of the asymptotic series of digamma: B_2k / 2k (Abramowitz & Stegun
# 6.3.18); with the argument shifted to 10 or more the remainder is below 1e-16.
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)


def digamma(x: Array) -> Array:
    """The logarithmic derivative of gamma; NaN at 0 and the negative integers."""
    z = np.asarray(x, np.float64)
    with np.errstate(all="ignore"):
        reflected = z < 0.5
        y = np.where(reflected, 1 - z, z)
        total = np.zeros_like(y)
        for _ in range(10):
            small = y < 10
            total = np.where(small, total - 1 / np.where(small, y, 1), total)
            y = np.where(small, y + 1, y)
        square = 1 / (y * y)
        series = np.zeros_like(y)
        for coefficient in reversed(_DIGAMMA):
            series = (series + coefficient) * square
        value = total + np.log(y) - 0.5 / y - series
        fraction = z - np.round(z)
        value = np.where(reflected, value - np.pi / np.tan(np.pi * fraction), value)
        pole = (z <= 0) & (z == np.floor(z))
        value = np.where(pole, np.nan, value)
    return value.astype(x.dtype)


# The normal quantile, accurate to 1e-16: M. Wichura, "Algorithm AS 241", Applied
# Statistics 37 (1988), PPND16. Numerator and denominator, highest power first, for the
# centre, the tails up to 1e-11, and beyond.
CENTRE = (
    (2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4,
     4.5921953931549871457e4, 1.3731693765509461125e4, 1.9715909503065514427e3,
     1.3314166789178437745e2, 3.3871328727963666080),
    (5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4,
     2.1213794301586595867e4, 5.3941960214247511077e3, 6.8718700749205790830e2,
     4.2313330701600911252e1, 1.0),
)  # fmt: skip
TAIL = (
    (7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
     1.27045825245236838258, 3.64784832476320460504, 5.76949722146069140550,
     4.63033784615654529590, 1.42343711074968357734),
    (1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
     1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940,
     2.05319162663775882187, 1.0),
)  # fmt: skip
FAR_TAIL = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3,
     2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580,
     5.46378491116411436990, 6.65790464350110377720),
    (2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5,
     7.86869131145613259100e-4, 1.48753612908506148525e-2, 1.36929880922735805310e-1,
     5.99832206555887937690e-1, 1.0),
)  # fmt: skip


def _ratio(polynomials: Sequence[Sequence[float]], x: Any) -> Any:
    """A ratio of polynomials, by Horner's rule."""
    above, below = [functools.reduce(lambda v, c: v * x + c, p) for p in polynomials]
    return above / below


def erf_inv(x: Any) -> Any:
    """The inverse of erf; infinite at -1 and 1, NaN beyond."""
    y = x.astype(np.float64)
    z = y / 2
    centre = z * _ratio(CENTRE, 0.180625 - z * z)
    with np.errstate(all="ignore"):
        # 1 - |y| is exact, and decides far from the centre.
        r = np.sqrt(-np.log((1 - np.abs(y)) / 2))
        tail = _where(r <= 5, _ratio(TAIL, r - 1.6), _ratio(FAR_TAIL, r - 5))
        tail = _where(np.isinf(r), np.inf, tail)
    result = _where(np.abs(z) <= 0.425, centre, np.copysign(tail, y))
    return (result / np.sqrt(2.0)).astype(x.dtype)


# Casts.


_astype: Any = vars(np.ndarray)["astype"]


def convert(x: Any, dtype: np.dtype[Any]) -> Any:
    """`x.astype(dtype)`, where that has the one meaning; else what has it."""
    x = np.asarray(x)
    source, target = dtypes.kind(x.dtype), dtypes.kind(dtype)
    if x.dtype == dtype:
        return x
    if target == "b":
        return x != 0
    if source == "c" and target != "c":
        x, source = x.real, "f"
    with np.errstate(all="ignore"):
        if dtypes.is_narrow(x.dtype):  # ml_dtypes converts few pairs of them
            x = x.astype(dtypes.widen(x.dtype))
        if source == "f" and target in "iu":
            return _saturate(x, dtype)
        if dtype.itemsize <= 2 and target == "f" and x.dtype != np.float32:
            x = x.astype(np.float32)
        return x.astype(dtype)


def converter(source: np.dtype[Any], target: np.dtype[Any]) -> Callable[..., Any]:
    """A function of (array of this dtype, target) that does what `convert` does."""
    kinds = source.kind, target.kind
    wide = target.itemsize > 2 or source == np.float32
    if kinds[0] == "f" and kinds[1] in "iu":
        return _saturate
    if kinds in (("f", "c"), ("c", "c")) or (kinds[0] in "biu" and kinds[1] in "iuc"):
        return _astype
    return _astype if kinds[0] in "biuf" and kinds[1] == "f" and wide else convert


def _saturate(x: Any, dtype: np.dtype[Any]) -> Any:
    """Floats as integers: the nearest there is; of NaN 0."""
    found = x.astype(dtype)
    if _is_surely_inside(x, dtype):
        return found
    low, high = dtypes.limits(dtype)
    # Powers of two, which are numbers of all floats that reach so far.
    inside = (x >= low if low else x > -1.0) & (x < float(high) + 1)
    if inside.all():
        return found
    limit = np.where(x < 0, np.array(low, dtype), np.array(high, dtype))
    return np.where(inside, found, np.where(np.isnan(x), dtype.type(0), limit))


def _is_surely_inside(x: Any, dtype: np.dtype[Any]) -> bool:
    """Is no float NaN or beyond a signed integer? False where none can tell."""
    if dtype.kind != "i":
        return False
    return bool(square_bound(x) < 2.0 ** (16 * dtype.itemsize - 4))


# The greater and the lesser of two numbers, as IEEE 754-2019 has them.
#
# `np.maximum` says of NaN what we want, that it wins. Of +0 and -0 it returns either
# one: which, depends on the operands' order, on where in an array they stand and on the
# processor. Here -0 is less than +0, so that the order of operands does not matter, on
# any device.
#
# A zero is the greatest only of numbers that are not above zero. Those have a sign, but
# for +0: the greatest is -0 where all have one. Likewise the least is -0 where any has.


_np: Any = np  # whose stubs know nothing of ml_dtypes


class Extremum:
    """`np.maximum` or `np.minimum`, with as much of a ufunc as is asked of it."""

    def __init__(self, ufunc: np.ufunc, signs: np.ufunc) -> None:
        self.ufunc: Any = ufunc
        #: Of the signs of numbers whose extremum is zero, whether that has one.
        self._signs: Any = signs

    def __call__(self, x: Array, y: Array, dtype: Any = None) -> Any:
        found = self.ufunc(x, y, dtype=dtype)
        if _has_no_zero(found):
            return found
        return _with_signs(found, self._signs(_np.signbit(x), _np.signbit(y)))

    def reduce(
        self,
        x: Array,
        axis: Any = 0,
        dtype: Any = None,
        keepdims: bool = False,
        **initial: Any,
    ) -> Any:
        """The extremum along axes; `initial` stands for an empty one."""
        found = self.ufunc.reduce(x, axis, dtype, None, keepdims, **initial)
        if _has_no_zero(found):
            return found
        signs = self._signs.reduce(_np.signbit(x), axis, keepdims=keepdims)
        return _with_signs(found, signs)

    def accumulate(self, x: Array, axis: int = 0, dtype: Any = None) -> Any:
        """The extremum of each element and all before it."""
        found = self.ufunc.accumulate(x, axis, dtype)
        if _has_no_zero(found):
            return found
        return _with_signs(found, self._signs.accumulate(_np.signbit(x), axis))

    def at(self, x: Array, index: Any, values: Array) -> None:
        """Puts the extremum of itself and of all its `values` at each index of x."""
        if x.dtype.kind in "biu":
            self.ufunc.at(x, index, values)
            return
        signs = _np.signbit(x)
        self.ufunc.at(x, index, values)
        if (x[index] == 0).any():
            self._signs.at(signs, index, _np.signbit(values))
            _with_signs(x, signs)


def _has_no_zero(found: Array) -> bool:
    """Or one that has no sign."""
    return found.dtype.kind in "biu" or np.count_nonzero(found) == found.size


def _with_signs(found: Array, sign: Array) -> Array:
    """`found`, changed where it lies: its zeros are negative where `sign` holds."""
    wrong = _np.signbit(found)
    if not isinstance(found, np.ndarray):  # an operation on numbers alone
        return -found if found == 0 and sign != wrong else found
    wrong ^= sign
    wrong &= found == 0
    return _np.negative(found, out=found, where=wrong)


maximum: Final = Extremum(np.maximum, np.logical_and)
minimum: Final = Extremum(np.minimum, np.logical_or)
