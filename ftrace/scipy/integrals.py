"""Special functions that are integrals: of exponentials, sines, normal densities.

Complex numbers serve within: the sine integral is the exponential one on the imaginary
axis, Fresnel's are the error function on a diagonal. Those of the error function follow
from w(z) = exp(-z²)·erfc(-iz), which is a sum over points of exp(-t²)/(z² - t²): the
trapezoidal rule, made exact to rounding by what its poles leave behind (M. Al Azah and
S. Chandler-Wilde, "Computation of the complex error function using modified trapezoidal
rules", 2021).
"""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.lax import special
from ftrace.lax.gammas import compose, compose_real
from ftrace.numpy.axes import cast, choose
from ftrace.numpy.elementwise import promote_inexact, refuse_complex
from ftrace.numpy.floats import horner, sinc
from ftrace.trace.bind import bind
from ftrace.trace.eager.composite import run_fused
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.tracing.tracer import Value

__all__ = [
    "dawsn", "erfcx", "exp1", "expi", "expn", "fresnel", "owens_t", "sici", "spence",
    "wofz",
]  # fmt: skip

_ROOT_PI = math.sqrt(math.pi)


# Exponential integrals.


def _expn_small(n: Any, x: Any) -> Any:
    """Eₙ for whole n ≥ 1 and x ≤ 1: DLMF 8.19.8."""
    total: Any = 0.0
    factor: Any = 1.0
    for m in range(20 if special.is_double(x) else 12):
        gap = n - (m + 1)
        total = total + choose(gap == 0, 0.0, factor / choose(gap == 0, 1.0, gap))
        factor = factor * (-x / (m + 1))
    last = n - 1
    size = fnp.exp(last * fnp.log(x) - bind(p.lgamma, n))
    sign = choose(fnp.remainder(last, 2) == 0, 1.0, -1.0)
    return total + sign * size * (bind(p.digamma, n) - fnp.log(x))


def _expn(n: Any, x: Any) -> Any:
    valid = (n >= 0) & (x >= 0) & (fnp.floor(n) == n)
    zero = n == 0
    inside = valid & ~zero & (x > 0) & (x < math.inf)
    far = inside & (x > 1)
    k, y = choose(far, n, 1.0), choose(far, x, 2.0)
    value = fnp.exp(-y) * special.gamma_fraction(1 - k, y, far)
    near = inside & ~far
    k, y = choose(near, n, 1.0), choose(near, x, 0.5)
    value = choose(near, _expn_small(k, y), value)
    positive = x > 0
    y = choose(positive, x, 1.0)
    first = choose(positive, fnp.exp(-y) / y, math.inf)
    value = choose(zero, first, value)
    last = n - 1
    at_zero = choose(last > 0, 1 / choose(last > 0, last, 1.0), math.inf)
    value = choose(x == 0, at_zero, choose(x == math.inf, 0.0, value))
    return choose(valid, value, np.nan)


def _expn_slope(expn: Any, n: Any, x: Any) -> Any:
    below = choose(n > 0, n - 1, 0.0)
    first = fnp.exp(-x) * (1 + 1 / x) / x  # E of -1
    return -choose(n > 0, expn(below, x), first)


_expn_of = special.with_slopes(_expn, lambda _, n, x: fnp.zeros_like(x), _expn_slope)


@compose_real
def expn(n: Value, x: Value) -> Any:
    """The exponential integral Eₙ(x) = ∫₁^∞ exp(-xt)/tⁿ dt, for whole n ≥ 0.

    Args:
      n: an array of whole numbers, not negative.
      x: an array of real numbers that broadcasts with it.

    Example:
      >>> ft.scipy.special.expn(2, 1.0)
      Array(0.14849555, dtype=float32)
    """
    return _expn_of(*fnp.broadcast_arrays(n, x))


@compose_real
def exp1(x: Value) -> Any:
    """E₁(x) = ∫ₓ^∞ exp(-t)/t dt, for x ≥ 0.

    Example:
      >>> ft.scipy.special.exp1(1.0)
      Array(0.21938396, dtype=float32)
    """
    return _expn_of(fnp.ones_like(x), x)


def _expi(x: Any) -> Any:
    limit = special.rounding(x) / 4
    below = x < 0
    negative = -_expn_of(fnp.ones_like(x), choose(below, -x, 1.0))
    edge = 40.0 if special.is_double(x) else 20.0

    def step(k: Any, factor: Any, total: Any) -> tuple[Any, ...]:
        factor = factor * (y / k)
        term = factor / k
        return fnp.abs(term) > limit * fnp.abs(total), factor, total + term

    near = (x > 0) & (x <= edge)
    y = choose(near, x, 1.0)
    one = fnp.ones_like(x)
    value = special.converge(step, (one, fnp.log(y) + np.euler_gamma), near)[1]

    def shrink(k: Any, term: Any, total: Any) -> tuple[Any, ...]:
        term = term * (k / z)
        return (term > 4 * limit * total) & (k < z), term, total + term

    far = (x > edge) & (x < math.inf)
    z = choose(far, x, edge)
    half = fnp.exp(0.5 * z)
    value = choose(
        far, special.converge(shrink, (one, one), far)[1] / z * half * half, value
    )
    value = choose(below, negative, value)
    value = choose(x == 0, -math.inf, choose(x == math.inf, math.inf, value))
    return choose(x == x, value, x)


_expi_of = special.with_slopes(_expi, lambda _, x: fnp.exp(x) / x)


@compose_real
def expi(x: Value) -> Any:
    """Ei(x) = -∫₋ₓ^∞ exp(-t)/t dt, the principal value.

    Example:
      >>> ft.scipy.special.expi(1.0)
      Array(1.8951179, dtype=float32)
    """
    return _expi_of(x)


# The sine and cosine integrals.


def _sici(x: Any) -> tuple[Any, Any]:
    size = fnp.abs(x)
    near = size <= 3
    y = choose(near, size, 1.0)
    square = -y * y
    terms = range(22 if special.is_double(x) else 12)
    sines = [1 / ((2 * k + 1) * math.factorial(2 * k + 1)) for k in reversed(terms)]
    cosines = [1 / (2 * k * math.factorial(2 * k)) for k in reversed(terms[1:])]
    si = y * horner(sines, square)
    zero = size == 0
    first = np.euler_gamma + fnp.log(choose(zero, 1.0, y))
    ci = choose(zero, -math.inf, first + square * horner(cosines, square))
    far = ~near & (size < math.inf)
    y = choose(far, size, 4.0)
    z = bind(p.make_complex, fnp.zeros_like(y), y)
    # E₁(iy) = -Ci(y) + i·(Si(y) - π/2)
    e = special.gamma_fraction(fnp.zeros_like(y), z, far)
    cosine, sine = fnp.cos(y), fnp.sin(y)
    si_far = 0.5 * math.pi + e.imag * cosine - e.real * sine
    ci_far = -(e.real * cosine + e.imag * sine)
    si, ci = choose(far, si_far, si), choose(far, ci_far, ci)
    si = choose(size == math.inf, 0.5 * math.pi, si)
    ci = choose(size == math.inf, 0.0, ci)
    ci = choose(x == -math.inf, np.nan, ci)
    lost = x != x
    return choose(lost, x, choose(x < 0, -si, si)), choose(lost, x, ci)


_sici_of = special.with_slopes(_sici, lambda _, x: (sinc(x / math.pi), fnp.cos(x) / x))


def _pair_of_reals(name: str, function: Any, x: Value) -> tuple[Any, Any]:
    (x,) = promote_inexact(x)
    refuse_complex(name, x)
    dtype, weak = x.dtype, x.weak_type
    wide = cast(x, dtypes.float32, weak) if dtype.itemsize < 4 else x
    first, second = function(wide)
    return cast(first, dtype, weak), cast(second, dtype, weak)


def sici(x: Value) -> tuple[Any, Any]:
    """Si(x) = ∫₀ˣ sin(t)/t dt, and Ci(x) = γ + log|x| + ∫₀ˣ (cos(t) - 1)/t dt.

    Example:
      >>> Si, Ci = ft.scipy.special.sici(1.0)
      >>> fnp.stack([Si, Ci])
      Array([0.94608307, 0.33740392], dtype=float32, weak_type=True)
    """
    return _pair_of_reals("sici", _sici_of, x)


# The error function of complex numbers.


@cache
def _points(double: bool) -> tuple[float, list[float], list[float]]:
    """The distance of points; points in the middle, and on multiples of it."""
    count = 12 if double else 7
    h = math.sqrt(math.pi / count)
    return h, [(k + 0.5) * h for k in range(count)], [(k + 1) * h for k in range(count)]


def _sum_over(points: list[float], z: Any) -> Any:
    total: Any = 0.0
    for t in reversed(points):
        total = total + math.exp(-t * t) / ((z - t) * (z + t))
    return total


def _beyond(x: Any) -> float:
    """Where exp(-x²) is nothing beside 1/x."""
    return 40.0 if special.is_double(x) else 15.0


def _upper_right(z: Any) -> Any:
    """w(z) where neither part is negative."""
    x, y = z.real, z.imag
    h, middle, multiples = _points(special.is_double(x))
    high = (y >= math.pi / h) | (x > _beyond(x))  # poles leave nothing
    turns = x / h - fnp.floor(x / h)
    shifted = (turns > 0.25) & (turns < 0.75) & (y < x)
    a = choose(shifted, 1j, z)  # each sum is of what is far from its points
    b = choose(shifted, z, 1j)
    by_middle = (2 * h / math.pi) * a * _sum_over(middle, a)
    by_multiples = (h / math.pi) * (1 / b + 2 * b * _sum_over(multiples, b))
    near = choose(high, 1j, z)
    wave = fnp.exp((-2j * math.pi / h) * near)
    pole = 2 * fnp.exp(-near * near) / (1 + choose(shifted, -wave, wave))
    value = 1j * choose(shifted, by_multiples, by_middle)
    value = choose(high, value, value + pole)
    far = fnp.maximum(x, y) > (1e8 if special.is_double(x) else 1e4)
    return choose(far, 1j / (_ROOT_PI * choose(far, z, 1j)), value)


def _wofz(z: Any) -> Any:
    x, y = z.real, z.imag
    w = _upper_right(bind(p.make_complex, fnp.abs(x), fnp.abs(y)))
    w = choose(x < 0, fnp.conj(w), w)  # w(-z*) = w(z)*
    # Below, w(z) = 2·exp(-z²) - w(-z); there w(-z) is that of the mirrored point.
    below = y < 0
    safe = choose(below, z, 0 * z)
    half = fnp.exp(-safe * safe)  # it may be infinite: no product of parts with 0
    return choose(below, half - fnp.conj(w) + half, w)


_wofz_of = special.with_slopes(_wofz, lambda w, z: 2j / _ROOT_PI - 2 * z * w(z))


def wofz(z: Value) -> Any:
    """Faddeeva's function w(z) = exp(-z²)·erfc(-iz), of complex numbers.

    Example:
      >>> ft.scipy.special.wofz(1.0 + 1.0j)
      Array(0.30474415+0.20821893j, dtype=complex64, weak_type=True)
    """
    (x,) = promote_inexact(z)
    if not dtypes.is_complex(x.dtype):
        x = cast(x, dtypes.complex_dtype(x.dtype), x.weak_type)
    return run_fused(_wofz_of_array, [x])


def _wofz_of_array(z: Any) -> Any:
    return _wofz_of(z)


def _erfcx(x: Any) -> Any:
    y = fnp.abs(x)
    h, middle, _ = _points(special.is_double(x))
    total: Any = 0.0
    large = y > (1e8 if special.is_double(x) else 1e4)
    some = choose(large, 1.0, y)
    for t in reversed(middle):
        total = total + math.exp(-t * t) / (some * some + t * t)
    high = y >= math.pi / h
    near = choose(high, 1.0, y)
    pole = 2 * fnp.exp(near * near) / (1 + fnp.exp(2 * math.pi / h * near))
    value = 2 * h / math.pi * some * total + choose(high, 0.0, pole)
    value = choose(large, 1 / (_ROOT_PI * choose(large, y, 1.0)), value)
    below = x < 0
    safe = choose(below, x, 0.0)
    return choose(below, 2 * fnp.exp(safe * safe) - value, value)


def erfcx(x: Value) -> Any:
    """exp(x²)·erfc(x), which overflows far below 0 only; of complex numbers, too.

    Example:
      >>> ft.scipy.special.erfcx(1.0)
      Array(0.42758355, dtype=float32, weak_type=True)
    """
    (x,) = promote_inexact(x)
    return wofz(1j * x) if dtypes.is_complex(x.dtype) else _real_erfcx(x)


_real_erfcx = compose(_erfcx)


@compose_real
def dawsn(x: Value) -> Any:
    """Dawson's integral exp(-x²)·∫₀ˣ exp(t²) dt.

    Args:
      x: an array of real numbers; integers become floats.

    Example:
      >>> ft.scipy.special.dawsn(1.0)
      Array(0.5380795, dtype=float32, weak_type=True)
    """
    y = fnp.abs(x)
    h, middle, multiples = _points(special.is_double(x))
    large = y > (1e8 if special.is_double(x) else 1e4)
    some = choose(large, 1.0, y)
    turns = some / h - fnp.floor(some / h)
    shifted = (turns > 0.25) & (turns < 0.75)
    a, b = choose(shifted, 0.0, some), choose(shifted, some, 0.5 * h)
    by_middle = 2 * h / math.pi * a * _sum_over(middle, a)
    by_multiples = h / math.pi * (1 / b + 2 * b * _sum_over(multiples, b))
    # What the poles leave: a tangent; only the part of a turn counts.
    angle = math.pi * choose(shifted, 0.5 - turns, turns)
    pole = fnp.exp(-some * some) * fnp.tan(angle)
    value = choose(shifted, by_multiples - pole, by_middle + pole)
    value = choose(large, 0.5 / choose(large, y, 1.0), 0.5 * _ROOT_PI * value)
    near = y < 0.8
    z = choose(near, y, 0.5)
    odd = [(-2) ** k / math.prod(range(1, 2 * k + 2, 2)) for k in range(20)]
    series = z * horner(odd[: 18 if special.is_double(x) else 10][::-1], z * z)
    value = choose(near, series, value)
    return choose(x < 0, -value, value)


# Fresnel's integrals.


def _fresnel(x: Any) -> tuple[Any, Any]:
    size = fnp.abs(x)
    near = size < 1.2
    y = choose(near, size, 1.0)
    t = 0.5 * math.pi * y * y
    square = -t * t
    terms = range(14 if special.is_double(x) else 8)
    sines = [1 / ((4 * k + 3) * math.factorial(2 * k + 1)) for k in reversed(terms)]
    cosines = [1 / ((4 * k + 1) * math.factorial(2 * k)) for k in reversed(terms)]
    s, c = y * t * horner(sines, square), y * horner(cosines, square)
    far = ~near & (size < math.inf)
    y = choose(far, size, 2.0)
    # C + iS = (1 + i)/2·(1 - exp(iπy²/2)·w(√π/2·(1 + i)·y))
    leg = 0.5 * _ROOT_PI * y
    w = _upper_right(bind(p.make_complex, leg, leg))
    turns = _half_square(y)
    cosine, sine = fnp.cos(math.pi * turns), fnp.sin(math.pi * turns)
    real = 1 - (cosine * w.real - sine * w.imag)
    imag = -(sine * w.real + cosine * w.imag)
    s_far, c_far = 0.5 * (real + imag), 0.5 * (real - imag)
    s, c = choose(far, s_far, s), choose(far, c_far, c)
    s, c = (choose(size == math.inf, 0.5, v) for v in (s, c))
    s, c = (choose(x == x, choose(x < 0, -v, v), x) for v in (s, c))
    return s, c


def _half_square(y: Any) -> Any:
    """y²/2 less a multiple of 2, without the rounding of the square."""
    scale = 2.0**27 + 1 if special.is_double(y) else 2.0**12 + 1
    limited = fnp.minimum(y, 2.0**60)
    big = scale * limited
    high = big - (big - limited)
    low = limited - high
    parts = (high * high, 2 * high * low, low * low)
    return 0.5 * sum(fnp.remainder(part, 4) for part in parts)


def _fresnel_slope(_: Any, x: Any) -> tuple[Any, Any]:
    angle = math.pi * _half_square(fnp.abs(x))
    return fnp.sin(angle), fnp.cos(angle)


_fresnel_of = special.with_slopes(_fresnel, _fresnel_slope)


def fresnel(x: Value) -> tuple[Any, Any]:
    """S(x) = ∫₀ˣ sin(πt²/2) dt, and C(x) = ∫₀ˣ cos(πt²/2) dt.

    Example:
      >>> S, C = ft.scipy.special.fresnel(1.0)
      >>> fnp.stack([S, C])
      Array([0.43825918, 0.7798934 ], dtype=float32, weak_type=True)
    """
    return _pair_of_reals("fresnel", _fresnel_of, x)


# The dilogarithm.

#: B₂ₖ/(2k + 1)!
_DILOGARITHM = (
    1 / 36, -1 / 3600, 1 / 211680, -1 / 10886400, 1 / 526901760,
    -691 / 16999766784000, 1 / 1120863744000, -3617 / 181400588328960000,
    43867 / 97072790126247936000, -174611 / 16860010916664115200000,
)  # fmt: skip


@compose_real
def spence(x: Value) -> Any:
    """Spence's function ∫₁ˣ log(t)/(1 - t) dt, the dilogarithm of 1 - x, for x ≥ 0.

    Example:
      >>> ft.scipy.special.spence(2.0)
      Array(-0.822467, dtype=float32, weak_type=True)
    """
    # To between ½ and 1½ by the reciprocal, or by what x lacks of 1. There, with
    # u = -log x, it is u - u²/4 + Σ B₂ₖ·u^(2k+1)/(2k + 1)! (L. Lewin, 1981).
    inside = (x > 0) & (x < math.inf)
    y = choose(inside, x, 1.0)
    large, small = y > 1.5, y < 0.5
    z = choose(large, 1 / y, y)
    middle = choose(large & (z < 0.5), 1 - z, choose(small, 1 - y, z))
    mirrored = small | (large & (z < 0.5))
    u = choose(mirrored, -fnp.log1p(-choose(mirrored, z, 0.0)), -fnp.log(middle))
    terms = _DILOGARITHM[: 10 if special.is_double(x) else 5][::-1]
    value = u + u * u * (u * horner(terms, u * u) - 0.25)
    turned = math.pi**2 / 6 + fnp.log(z) * u - value
    value = choose(mirrored, turned, value)
    log = fnp.log(y)
    value = choose(large, -value - 0.5 * log * log, value)
    value = choose(x == 0, math.pi**2 / 6, value)
    value = choose(x == math.inf, -math.inf, value)
    return choose(x >= 0, value, np.nan)


# Owen's T function.


@cache
def _gauss(count: int) -> tuple[Any, Any]:
    """Places and weights of Gauss's quadrature on [0, 1]."""
    places, weights = np.polynomial.legendre.leggauss(count)
    return (places + 1) / 2, weights / 2


def _owens_t(h: Any, a: Any) -> Any:
    size, slope = fnp.abs(h), fnp.abs(a)
    steep = slope > 1
    inverse = 1 / choose(steep, slope, 1.0)
    far = choose(slope == math.inf, math.inf, slope * choose(steep, size, 1.0))
    far = choose(steep & (size == 0), 0.0, far)
    base, tilt = choose(steep, far, size), choose(steep, inverse, slope)
    # exp(-(base·t)²/2) ends at 9: up to there, or to the tilt.
    known = base < math.inf
    base = choose(known, base, 0.0)
    top = fnp.minimum(tilt, 9 / fnp.maximum(base, 1e-3))
    places, weights = (
        v.astype(h.dtype) for v in _gauss(40 if special.is_double(h) else 24)
    )
    t = top[..., None] * places
    square = t * t
    half = -0.5 * base[..., None] * base[..., None]
    terms = weights * fnp.exp(half * (1 + square)) / (1 + square)
    value = top * fnp.sum(terms, axis=-1) / (2 * math.pi)
    value = choose(known, value, 0.0)
    # T(h, a) + T(ah, 1/a) of a > 1, by what is left of the normal distribution.
    root = math.sqrt(0.5)
    ours, theirs = size * root, far * root
    near = far <= 0.67
    small = 0.25 - 0.25 * bind(p.erf, ours) * bind(p.erf, choose(near, theirs, 0.0))
    m, n = bind(p.erfc, ours), bind(p.erfc, theirs)
    other = choose(near, small, 0.25 * (m + n - m * n)) - value
    value = choose(steep, other, value)
    value = choose(a < 0, -value, value)
    return choose(fnp.isnan(h) | fnp.isnan(a), np.nan, value)


def _owens_t_by_h(_: Any, h: Any, a: Any) -> Any:
    part = bind(p.erf, a * h * math.sqrt(0.5))
    return -fnp.exp(-0.5 * h * h) * part / math.sqrt(8 * math.pi)


def _owens_t_by_a(_: Any, h: Any, a: Any) -> Any:
    square = 1 + a * a
    return fnp.exp(-0.5 * h * h * square) / (2 * math.pi * square)


_owens_t_of = special.with_slopes(_owens_t, _owens_t_by_h, _owens_t_by_a)


@compose_real
def owens_t(h: Value, a: Value) -> Any:
    """The probability of X > h, 0 < Y < aX, for two standard normal values.

    Args:
      h, a: arrays of real numbers that broadcast; integers become floats.

    Example:
      >>> ft.scipy.special.owens_t(1.0, 0.5)
      Array(0.04306469, dtype=float32)
    """
    return _owens_t_of(*fnp.broadcast_arrays(h, a))
