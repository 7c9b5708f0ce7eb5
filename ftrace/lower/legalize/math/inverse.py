"""asin, acos, atan and atan2.

The polynomials are fitted as in `exponential.py`.
"""

from __future__ import annotations

from typing import Final

from ftrace.lower.legalize.math.floats import (
    INFINITY,
    NAN,
    copy_sign,
    fast_two_sum,
    format_of,
    is_negative,
)
from ftrace.lower.legalize.math.term import (
    Operand,
    Term,
    eq,
    fma,
    ne,
    number,
    polynomial,
    select,
    sqrt,
)

# π/2 in two numbers; those of π/4 and π are their halves and doubles.
_HALF_PI_SINGLE: Final = (1.57079637, -4.37113883e-08)
_HALF_PI_DOUBLE: Final = (1.5707963267948966, 6.123233995736766e-17)

_TAN_PI_8: Final = 0.41421356237309503

# (atan(t) - t)/t³ in t²: for t ≤ 1, 2^-28.5; for t ≤ tan(π/8), 2^-63.8 of atan(t).
_ATAN_SINGLE: Final = (
    -0.00179125241, 0.0109034972, -0.0311560184, 0.0579342917, -0.0840198621,
    0.109516382, -0.142641246, 0.199985355, -0.333332986,
)  # fmt: skip
_ATAN_DOUBLE: Final = (
    0.014901671731863643, -0.03318270944452478, 0.04490893551913015,
    -0.05215260092629562, 0.058765281910936835, -0.0666617580395053, 0.0769227926997399,
    -0.09090907988506823, 0.11111111083804881, -0.14285714285317072,
    0.19999999999997098, -0.33333333333333326,
)  # fmt: skip
# (asin(t) - t)/t³ in t² for t ≤ 1/2: 2^-27.6 and 2^-59.9 of asin(t).
_ASIN_SINGLE: Final = (
    0.04215841, 0.0241847374, 0.0454691537, 0.0749530941, 0.166667521,
)  # fmt: skip
_ASIN_DOUBLE: Final = (
    0.0326265845474803, -0.020995608106248242, 0.021704850942415907,
    0.0037075487993250846, 0.010779928540549204, 0.011398974785661056,
    0.013980812207708478, 0.017351612781497144, 0.022372214939653242,
    0.030381942709744293, 0.044642857174563046, 0.07499999999970865, 0.1666666666666676,
)  # fmt: skip


def _half_pi(x: Term) -> tuple[float, float]:
    return _HALF_PI_SINGLE if x.single else _HALF_PI_DOUBLE


def _sum(base: Term, base_low: Operand, t: Term, u: Term) -> Term:
    """base + t + u, rounded once but for u."""
    total, lost = fast_two_sum(base, t)
    return total + (lost + (u + base_low))


def _angle(y: Term, x: Term) -> Term:
    """atan(y/x) for y, x ≥ 0, not both of them 0 or ∞: the angle of a ray.

    The ray is turned by -π/2 (float64: or by -π/4) to one near the x axis. There is
    one division, and one rounding after the polynomial.
    """
    high, low = _half_pi(y)
    if y.single:
        steep = y > x
        t = select(steep, -x, y) / select(steep, y, x)
        turned, turned_low = (select(steep, number(v, y), 0.0) for v in (high, low))
        series = polynomial(t * t, _ATAN_SINGLE)
    else:
        steep, slanted = y * _TAN_PI_8 > x, y > x * _TAN_PI_8
        top = select(steep, -x, select(slanted, y - x, y))
        t = top / select(steep, y, select(slanted, y + x, x))
        turned, turned_low = (_by_angle(steep, slanted, y, v) for v in (high, low))
        series = polynomial(t * t, _ATAN_DOUBLE)
    return _sum(turned, turned_low, t, t * (t * t) * series)


def _by_angle(steep: Term, slanted: Term, like: Term, value: float) -> Term:
    """`value` for π/2, its half for π/4, else 0."""
    half = select(slanted, number(value / 2, like), 0.0)
    return select(steep, value, half)


def atan(x: Term) -> Term:
    """The angle of (1, |x|)."""
    a = abs(x)
    return copy_sign(_angle(a, number(1.0, x)), x)


def atan2(y: Term, x: Term) -> Term:
    """The angle of (|x|, |y|), then π less that for a negative x."""
    a, b = abs(y), abs(x)
    larger = select(a > b, a, b)
    a, b = _ray(a, larger), _ray(b, larger)
    angle = _angle(a, select(eq(larger, 0.0), 1.0, b))
    high, low = _half_pi(x)
    angle = select(is_negative(x), 2.0 * high - (angle - 2.0 * low), angle)
    return select(ne(x, x) | ne(y, y), NAN, copy_sign(angle, y))


def _ray(part: Term, larger: Term) -> Term:
    """A coordinate on the same ray, so large that products and sums are exact enough.

    Infinities become 1, and finite numbers beside them 0.
    """
    top = format_of(part).bias - 1
    scale = select(larger > 2.0**top, number(0.25, part), 1.0)
    if not part.single:
        scale = select(larger < 2.0**-900, 2.0**120, scale)
    axis = select(eq(part, INFINITY), number(1.0, part), 0.0)
    return select(eq(larger, INFINITY), axis, part * scale)


def _asin_parts(x: Term) -> tuple[Term, Term, Term]:
    """(large, t, u): asin of x, or beyond 1/2 of sqrt((1 - |x|)/2), is t + u."""
    a = abs(x)
    large = a > 0.5
    square = select(large, fma(-0.5, a, 0.5), x * x)
    t = select(large, sqrt(square), x)
    series = polynomial(square, _ASIN_SINGLE if x.single else _ASIN_DOUBLE)
    return large, t, t * square * series


def asin(x: Term) -> Term:
    """x + x³·P(x²) up to 1/2, π/2 - 2·asin(sqrt((1 - x)/2)) beyond."""
    large, t, u = _asin_parts(x)
    high, low = _half_pi(x)
    beyond = _sum(number(high, x), low, -2.0 * t, -2.0 * u)
    return copy_sign(select(large, beyond, abs(t + u)), x)


def acos(x: Term) -> Term:
    """π/2 - asin(x) up to 1/2, 2·asin(sqrt((1 - x)/2)) beyond, π less that below."""
    large, t, u = _asin_parts(x)
    high, low = _half_pi(x)
    below = x < 0.0
    # The sum is base + factor·(t + u).
    base = select(large, select(below, number(2.0 * high, x), 0.0), high)
    rest = select(large, select(below, number(2.0 * low, x), 0.0), low)
    factor = select(large, select(below, number(-2.0, x), 2.0), -1.0)
    return _sum(base, rest, factor * t, factor * u)
