"""Functions of floats with care at their edges: overflow, zero, infinity, bits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import DtypeError
from ftrace.numpy.axes import cast, choose, strong
from ftrace.numpy.elementwise import (
    absolute,
    add,
    bitwise_and,
    bitwise_or,
    divide,
    equal,
    exp,
    exp2,
    floor_values,
    isnan,
    kind_of,
    left_shift,
    less,
    log1p,
    multiply,
    not_equal,
    promote_inexact,
    right_shift,
    round_values,
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
    "frexp", "hypot", "ldexp", "logaddexp", "logaddexp2", "nextafter", "sinc",
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
    # Infinities of one sign, and NaN, have no finite difference: the maximum is right.
    difference = subtract(x1, x2)
    undefined = isnan(difference)
    safe = choose(undefined, 0.0, difference)
    # -|x1 - x2|, with a slope of 0 at a tie, where the maximum shares it.
    distance = minimum(safe, multiply(safe, -1))
    smaller = multiply(log1p(power(distance)), scale)
    return add(maximum(x1, x2), choose(undefined, 0.0, smaller))


def _complex_log_add(x1: Any, x2: Any, power: Any, scale: float) -> Any:
    first = less(elementwise(ops.real, x1), elementwise(ops.real, x2))
    high, low = choose(first, x2, x1), choose(first, x1, x2)
    difference = subtract(low, high)
    undefined = isnan(difference)
    safe = choose(undefined, 0.0, difference)
    smaller = multiply(log1p(power(safe)), scale)
    total = add(high, smaller)
    # The imaginary part of a logarithm lies between −π and π.
    angle = elementwise(ops.imag, total)
    half = math.pi * scale
    turns = multiply(floor_values(divide(add(angle, half), 2 * half)), 2 * half)
    inside = bitwise_and(less(angle, half), less(multiply(angle, -1), half))
    angle = choose(inside, angle, subtract(angle, turns))
    total = elementwise(ops.make_complex, elementwise(ops.real, total), angle)
    return choose(undefined, add(x1, x2), total)


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
    (x,) = promote_inexact(x)
    z = multiply(x, math.pi)
    square = multiply(z, z)
    # Below 1/2 eight terms of the series are exact to rounding in float64.
    size = absolute(z)
    near = less(size, 0.5)
    series: Any = _SINC_SERIES[-1]
    for coefficient in reversed(_SINC_SERIES[:-1]):
        series = add(multiply(series, square), coefficient)
    far = choose(near, 1.0, z)
    wave = sin(far) if kind_of(x) == "c" else _sine_of_turns(choose(near, 0.5, x))
    return choose(near, series, divide(wave, far))


def _sine_of_turns(x: Any) -> Any:
    """sin(πx), exact also near its zeros: of x less the nearest whole number."""
    whole = round_values(x)
    sine = sin(multiply(subtract(x, whole), math.pi))
    half = multiply(whole, 0.5)
    return choose(equal(half, round_values(half)), sine, multiply(sine, -1))


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
    if kind_of(x1) == "c" or kind_of(x2) not in "biu":
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
    exponent = subtract(exponent, form.bias - 1)
    # Two products, which are exact, and of which the derivative is the power of two.
    first = right_shift(exponent, 1)
    mantissa = multiply(lifted, _power_of_two(subtract(0, first), wide.dtype))
    rest = subtract(first, exponent)
    mantissa = multiply(mantissa, _power_of_two(rest, wide.dtype))
    exponent = subtract(exponent, choose(tiny, form.mantissa, 0))
    plain = bitwise_or(equal(wide, 0), not_equal(subtract(wide, wide), 0))
    mantissa = cast(choose(plain, wide, mantissa), x.dtype, x.weak_type)
    return mantissa, cast(choose(plain, 0, exponent), dtypes.int32)


def nextafter(x1: Value, x2: Value, /) -> Any:
    """The next number after x1 in the direction of x2."""
    return elementwise(ops.nextafter, x1, x2, inexact=True)


def spacing(x: Value, /) -> Any:
    """The distance from x to the next number of greater size."""
    x = strong(*promote_inexact(x))
    away = choose(less(x, 0), -math.inf, math.inf)
    return subtract(elementwise(ops.nextafter, x, cast(away, x.dtype)), x)
