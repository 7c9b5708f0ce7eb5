"""sin, cos and tan: polynomials on [-π/4, π/4], exchanged and negated by quadrant.

The polynomials are fitted as in `exponential.py`, for |r| ≤ 0.8.
"""

from __future__ import annotations

import math
from typing import Final

from ftrace.lower.legalize.math.argument_reduction import reduce_angle
from ftrace.lower.legalize.math.floats import (
    Pair,
    bits_of,
    copy_sign,
    fast_two_sum,
    float_of,
)
from ftrace.lower.legalize.math.term import (
    Term,
    eq,
    fma,
    mul_add,
    polynomial,
    round_even,
    select,
)

# (sin(r) - r)/r³ in r²: 2^-27.7 and 2^-57.5 of sin(r).
_SIN_SINGLE: Final = (-0.0001950554, 0.00833209511, -0.166666538)
_SIN_DOUBLE: Final = (
    1.5890044640134361e-10, -2.5050641940558006e-08, 2.7557312952131756e-06,
    -0.00019841269827681752, 0.008333333333319762, -0.1666666666666662,
)  # fmt: skip
# (cos(r) - 1 + r²/2)/r⁴ in r²: 2^-32.6 and 2^-63.5 of cos(r).
_COS_SINGLE: Final = (2.44120874e-05, -0.00138871302, 0.0416666418)
_COS_DOUBLE: Final = (
    -1.1354250852662659e-11, 2.087561842881048e-09, -2.7557313576420203e-07,
    2.480158728677976e-05, -0.0013888888888869768, 0.041666666666666574,
)  # fmt: skip


def sin_cos_parts(x: Term) -> tuple[Term, Pair, Pair]:
    """The quadrant, and sin and cos of the remainder as unevaluated sums.

    The greater term of a sum stands first.
    """
    quadrant, r, rest = reduce_angle(x)
    square = r * r
    sin_series = polynomial(square, _SIN_SINGLE if r.single else _SIN_DOUBLE)
    cos_series = polynomial(square, _COS_SINGLE if r.single else _COS_DOUBLE)
    half = 0.5 * square
    whole = 1.0 - half
    lost = (1.0 - whole) - half
    sin_rest = mul_add(square * r, sin_series, mul_add(-half, rest, rest))
    cos_rest = mul_add(square * square, cos_series, lost - r * rest)
    return quadrant, (r, sin_rest), (whole, cos_rest)


def sin_cos_pi(x: Term) -> Pair:
    """sin and cos of π·x, up to one common sign."""
    r = x - round_even(x)
    a = abs(r)
    steep = a > 0.25
    angle = select(steep, 0.5 - a, a) * math.pi
    square = angle * angle
    sin_series = polynomial(square, _SIN_SINGLE if x.single else _SIN_DOUBLE)
    cos_series = polynomial(
        square, (*(_COS_SINGLE if x.single else _COS_DOUBLE), -0.5, 1.0)
    )
    sine = fma(square * angle, sin_series, angle)
    return (
        copy_sign(select(steep, cos_series, sine), r),
        select(steep, sine, cos_series),
    )


def _negated_if(odd_bit: Term, y: Term) -> Term:
    """y with its sign flipped where bit 1 of the integer is set."""
    shift = 30 if y.single else 62
    return float_of(bits_of(y) ^ ((odd_bit & 2) << shift))


def _sin_cos(x: Term) -> tuple[Term, Term, Term]:
    """The quadrant, and sin and cos of the remainder."""
    if x.single:
        quadrant, r, rest = reduce_angle(x)
        square = r * r
        sin_r = r + fma(square * r, polynomial(square, _SIN_SINGLE), rest)
        return quadrant, sin_r, polynomial(square, (*_COS_SINGLE, -0.5, 1.0))
    quadrant, sin_parts, cos_parts = sin_cos_parts(x)
    return quadrant, sin_parts[0] + sin_parts[1], cos_parts[0] + cos_parts[1]


def sin(x: Term) -> Term:
    """sin(r), or cos(r) in odd quadrants."""
    quadrant, sin_r, cos_r = _sin_cos(x)
    value = select(eq(quadrant & 1, 0), sin_r, cos_r)
    value = _negated_if(quadrant, value)
    return select(eq(x, 0.0), x, value)


def cos(x: Term) -> Term:
    """cos(r), or -sin(r) in odd quadrants."""
    quadrant, sin_r, cos_r = _sin_cos(x)
    value = select(eq(quadrant & 1, 0), cos_r, sin_r)
    return _negated_if(quadrant + 1, value)


def tan(x: Term) -> Term:
    """sin(r)/cos(r), or -cos(r)/sin(r), of sums in two numbers.

    The quotient's error is computed and taken off, so that there is one rounding.
    """
    quadrant, sin_parts, cos_parts = sin_cos_parts(x)
    s, s_low = fast_two_sum(*sin_parts)
    c, c_low = fast_two_sum(*cos_parts)
    even = eq(quadrant & 1, 0)
    top, top_low = select(even, s, -c), select(even, s_low, -c_low)
    bottom, bottom_low = select(even, c, s), select(even, c_low, s_low)
    inverse = 1.0 / bottom
    quotient = top * inverse
    error = fma(-quotient, bottom, top) + fma(-quotient, bottom_low, top_low)
    return select(eq(x, 0.0), x, fma(error, inverse, quotient))
