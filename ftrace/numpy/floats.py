"""Functions of floats with care at their edges: overflow, zero, infinity, bits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import DtypeError
from ftrace.numpy.axes import cast, choose
from ftrace.numpy.elementwise import (
    absolute,
    add,
    bitwise_and,
    bitwise_or,
    divide,
    equal,
    exp,
    exp2,
    isnan,
    kind_of,
    left_shift,
    less,
    log1p,
    multiply,
    not_equal,
    promote_inexact,
    right_shift,
    sin,
    sqrt,
    subtract,
)
from ftrace.numpy.selection import maximum, minimum
from ftrace.records import NamedTuple
from ftrace.trace.operations import bind, elementwise
from ftrace.trace.primitives import elementwise as ops
from ftrace.trace.tracer import Value

__all__ = [
    "frexp", "hypot", "i0", "ldexp", "logaddexp", "logaddexp2", "nextafter", "sinc",
    "spacing",
]  # fmt: skip

# Logarithms of sums.


def logaddexp(x1: Value, x2: Value, /) -> Any:
    """log(exp(x1) + exp(x2)), without overflow."""
    return _log_add(x1, x2, exp, 1.0)


def logaddexp2(x1: Value, x2: Value, /) -> Any:
    """log2(2**x1 + 2**x2), without overflow."""
    return _log_add(x1, x2, exp2, 1 / math.log(2))


def _log_add(x1: Value, x2: Value, power: Any, scale: float) -> Any:
    x1, x2 = promote_inexact(x1, x2)
    if kind_of(x1) == "c":
        return _complex_log_add(x1, x2, power, scale)
    # Infinities of one sign, and NaN, have no finite difference: their sum is right.
    difference = subtract(x1, x2)
    undefined = isnan(difference)
    safe = choose(undefined, 0.0, difference)
    # -|x1 - x2|, with a slope of 0 at a tie, where the maximum shares it.
    distance = minimum(safe, multiply(safe, -1))
    smaller = multiply(log1p(power(distance)), scale)
    return choose(undefined, add(x1, x2), add(maximum(x1, x2), smaller))


def _complex_log_add(x1: Any, x2: Any, power: Any, scale: float) -> Any:
    first = less(elementwise(ops.real, x1), elementwise(ops.real, x2))
    high, low = choose(first, x2, x1), choose(first, x1, x2)
    difference = subtract(low, high)
    undefined = isnan(difference)
    safe = choose(undefined, 0.0, difference)
    smaller = multiply(log1p(power(safe)), scale)
    return choose(undefined, add(x1, x2), add(high, smaller))


# Lengths and waves.


def hypot(x1: Value, x2: Value, /) -> Any:
    """sqrt(x1² + x2²), without overflow; its slope at the origin is 0.

    Raises:
      DtypeError: an operand is complex.
    """
    if "c" in (kind_of(x1), kind_of(x2)):
        raise DtypeError("hypot is not defined for complex numbers; take abs first")
    x1, x2 = (absolute(x) for x in promote_inexact(x1, x2))
    long, short = maximum(x1, x2), minimum(x1, x2)
    safe = choose(equal(long, 0), 1.0, long)
    ratio = divide(short, safe)
    length = multiply(long, sqrt(add(multiply(ratio, ratio), 1.0)))
    infinite = bitwise_or(equal(x1, math.inf), equal(x2, math.inf))
    return choose(infinite, math.inf, length)


#: sin(z)/z = Σ (-1)^k z^2k / (2k+1)!
_SINC_SERIES = [(-1) ** k / math.factorial(2 * k + 1) for k in range(8)]


def sinc(x: Value, /) -> Any:
    """sin(πx)/(πx), and 1 at 0; derivatives of all low orders are right there."""
    z = multiply(promote_inexact(x)[0], math.pi)
    square = multiply(z, z)
    # Below 1/2 eight terms of the series are exact to rounding in float64.
    size = absolute(z)
    near = less(size, 0.5)
    series: Any = _SINC_SERIES[-1]
    for coefficient in reversed(_SINC_SERIES[:-1]):
        series = add(multiply(series, square), coefficient)
    far = choose(near, 1.0, z)
    return choose(near, series, divide(sin(far), far))


# Bessel's I₀: Chebyshev series of exp(-x)·I₀(x) in x/4 - 1 on [0, 8], and of
# sqrt(x)·exp(-x)·I₀(x) in 16/x - 1 beyond. Computed with 40 digits by Chebyshev
# interpolation at 200 nodes; the terms left out are below 1e-18.
_I0_NEAR = (
    0.33839763720473804, -0.3046826723431984, 0.17162090152220878,
    -0.094901097048047644, 0.049305284239670708, -0.023737414805899469,
    0.010546460394594998, -0.0043243099950505759, 0.0016394756169413358,
    -0.00057637557453858237, 0.00018850288509584166, -5.7541950100821037e-5,
    1.6448448070728897e-5, -4.4167383584587506e-6, 1.1173875391201037e-6,
    -2.6707938539406117e-7, 6.0469950225419189e-8, -1.300025009986248e-8,
    2.6598237246823867e-9, -5.1897956016352629e-10, 9.6758090353732369e-11,
    -1.7268262914415557e-11, 2.9550526631296398e-12, -4.8564467831119295e-13,
    7.6761854986049356e-14, -1.1685332877993452e-14, 1.715391285555133e-15,
    -2.4312798465479547e-16, 3.3307945188222381e-17, -4.4153416464793394e-18,
)  # fmt: skip
_I0_FAR = (
    0.40224520550705442, 0.0033691164782556941, 6.889758346916824e-5,
    2.8913705208347565e-6, 2.0489185894690637e-7, 2.2666689904981781e-8,
    3.3962320257083863e-9, 4.9406023882249696e-10, 1.1889147107846438e-11,
    -3.1499165279632414e-11, -1.3215811840447713e-11, -1.7941785315068061e-12,
    7.1801244513836662e-13, 3.8527783827421427e-13, 1.5400862175214098e-14,
    -4.1505693472872221e-14, -9.5548466988283076e-15, 3.8116806693526224e-15,
    1.7725601330565264e-15, -3.4254856196772191e-16, -2.8276239805165835e-16,
    3.4612228676974611e-17, 4.46562142029676e-17, -4.8305044859441821e-18,
    -7.233180487874754e-18,
)  # fmt: skip


def _chebyshev(coefficients: tuple[float, ...], y: Any) -> Any:
    """Clenshaw's recurrence for Σ c_k T_k(y)."""
    newer: Any = 0.0
    older: Any = 0.0
    double = multiply(y, 2.0)
    for c in coefficients[:0:-1]:
        newer, older = add(subtract(multiply(double, newer), older), c), newer
    return add(subtract(multiply(y, newer), older), coefficients[0])


def scaled_i0(x: Value) -> Any:
    """exp(-|x|)·I₀(x).

    Raises:
      DtypeError: x is complex.
    """
    if kind_of(x) == "c":
        raise DtypeError("i0 is not defined for complex numbers")
    size = absolute(promote_inexact(x)[0])
    small = less(size, 8.0)
    near = _chebyshev(_I0_NEAR, subtract(divide(choose(small, size, 8.0), 4.0), 1.0))
    big = choose(small, 8.0, size)
    far = _chebyshev(_I0_FAR, subtract(divide(16.0, big), 1.0))
    return choose(small, near, divide(far, sqrt(big)))


def i0(x: Value, /) -> Any:
    """The modified Bessel function of the first kind, of order 0."""
    scaled = scaled_i0(x)
    return multiply(exp(absolute(x)), scaled)


# Parts of a float.


class _Format(NamedTuple):
    """How the bits of a float dtype are laid out."""

    integer: np.dtype[Any]
    mantissa: int
    bias: int
    exponent_mask: int


def _format(dtype: np.dtype[Any]) -> _Format:
    if dtype == dtypes.float64:
        return _Format(dtypes.int64, 52, 1023, 0x7FF)
    return _Format(dtypes.int32, 23, 127, 0xFF)


def _computed(x: Any) -> Any:
    """16-bit floats are taken apart as float32, which holds them exactly."""
    return cast(x, dtypes.float32) if x.dtype.itemsize == 2 else x


def _power_of_two(exponent: Any, dtype: np.dtype[Any]) -> Any:
    """2 to a whole power inside the range of normal numbers."""
    form = _format(dtype)
    shifted = cast(add(exponent, form.bias), form.integer)
    return bind(ops.bitcast, left_shift(shifted, form.mantissa), arg=dtype)


def ldexp(x1: Value, x2: Value, /) -> Any:
    """x1 · 2**x2 for whole x2.

    Raises:
      DtypeError: x1 is complex, or x2 is no integer.
    """
    if kind_of(x1) == "c" or kind_of(x2) not in "iu":
        raise DtypeError("ldexp takes a real number and an integer exponent")
    (x1,) = promote_inexact(x1)
    wide = _computed(x1)
    bias = _format(wide.dtype).bias
    # Three factors reach from the least subnormal number to the greatest.
    rest = maximum(minimum(cast(x2, dtypes.int32), 3 * bias), -3 * bias)
    for parts in (3, 2, 1):
        step = elementwise(ops.div, rest, parts)
        step = maximum(minimum(step, bias), 1 - bias)
        wide = multiply(wide, _power_of_two(step, wide.dtype))
        rest = subtract(rest, step)
    return cast(wide, x1.dtype, x1.weak_type)


def frexp(x: Value, /) -> tuple[Any, Any]:
    """(m, e) with x = m · 2**e and 1/2 <= |m| < 1.

    Raises:
      DtypeError: x is complex.
    """
    if kind_of(x) == "c":
        raise DtypeError("frexp is not defined for complex numbers")
    (x,) = promote_inexact(x)
    wide = _computed(x)
    form = _format(wide.dtype)
    tiny = less(absolute(wide), float(np.finfo(wide.dtype).tiny))
    lifted = choose(tiny, multiply(wide, 2.0**form.mantissa), wide)
    bits = bind(ops.bitcast, lifted, arg=form.integer)
    exponent = bitwise_and(right_shift(bits, form.mantissa), form.exponent_mask)
    cleared = bitwise_and(bits, ~(form.exponent_mask << form.mantissa))
    half = bitwise_or(cleared, (form.bias - 1) << form.mantissa)
    mantissa = bind(ops.bitcast, half, arg=wide.dtype)
    exponent = subtract(exponent, form.bias - 1)
    exponent = subtract(exponent, choose(tiny, form.mantissa, 0))
    plain = bitwise_or(equal(wide, 0), not_equal(subtract(wide, wide), 0))
    mantissa = cast(choose(plain, wide, mantissa), x.dtype, x.weak_type)
    return mantissa, cast(choose(plain, 0, exponent), dtypes.int32)


def nextafter(x1: Value, x2: Value, /) -> Any:
    """The next number after x1 in the direction of x2."""
    return elementwise(ops.nextafter, x1, x2, inexact=True)


def spacing(x: Value, /) -> Any:
    """The distance from x to the next number of greater size."""
    (x,) = promote_inexact(x)
    away = choose(less(x, 0), -math.inf, math.inf)
    return subtract(elementwise(ops.nextafter, x, cast(away, x.dtype)), x)
