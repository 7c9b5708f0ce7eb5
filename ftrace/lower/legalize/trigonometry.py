"""sin, cos and tan, and their inverses.

sin and cos are polynomials on [-π/4, π/4], exchanged and negated by quadrant: x =
q·π/2 + r with |r| ≤ π/4, for every x. The polynomials are fitted as in
`exponential.py`, those of sin and cos for |r| ≤ 0.8.

Up to a limit q·π/2 is subtracted in three parts (W. J. Cody and W. Waite 1980). Beyond
it, the bits of 2/π that matter are multiplied exactly, in integers (M. H. Payne and
R. N. Hanek 1983). That costs four times as much, so it stands in a select that is
marked rare: a device may branch around it. Its three results are operations of their
own, so that a device may have the code once, out of line; others decompose them.

    x = m·2ᵉ with an integer m, and 2/π = Σ bₖ·2⁻ᵏ. Bits with k < e - 1 contribute
    multiples of 4 to x·2/π, which do not matter; from there on a window of three
    words, times m, has q in its two highest bits and r below.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Final

from ftrace import dtypes
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.lower.kernel.ir import KernelOp
from ftrace.lower.legalize import term
from ftrace.trace.graph import make_node

#: The parts of `far_angle`, as operations of kernels.
far_quadrant_p = KernelOp("far_quadrant")
far_remainder_p = KernelOp("far_remainder")
far_rest_p = KernelOp("far_rest")

_TWO_OVER_PI: Final = 0.6366197723675814
# π/2 in three numbers.
_HALF_PI: Final = (
    (1.57079637, -4.37113883e-08, -1.71512451e-15),
    (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
)  # fmt: skip

#: Up to here three parts of π/2 are enough for the last place of r.
_LIMIT: Final = 2.0**17, 2.0**30

# The first 1216 bits of 2/π, below a word of zeros.
_BITS: Final = (
    0x0000000000000000, 0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041,
    0xFE5163ABDEBBC561, 0xB7246E3A424DD2E0, 0x06492EEA09D1921C, 0xFE1DEB1CB129A73E,
    0xE88235F52EBB4484, 0xE99C7026B45F7E41, 0x3991D639835339F4, 0x9C845F8BBDF9283B,
    0x1FF897FFDE05980F, 0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7, 0x4F463F669E5FEA2D,
    0x7527BAC7EBE5F17B, 0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB,
)  # fmt: skip


class Reduced(NamedTuple):
    """x = quadrant·π/2 + r + rest.

    Attributes:
      quadrant: an integer of the float's width; its lowest two bits count.
      r, rest: the remainder in two numbers.
    """

    quadrant: term.Term
    r: term.Term
    rest: term.Term


def reduce_angle(x: term.Term) -> Reduced:
    """The remainder of x modulo π/2, and the quadrant; NaN for infinities.

    By Cody and Waite up to the limit, by `far_angle` beyond.
    """
    first, second, third = x.either(_HALF_PI)
    n, shifted = term.nearest(x, _TWO_OVER_PI)
    # Exact, as both are multiples of the last bit of `first`.
    r = term.fma(n, -first, x)
    product, error = term.two_product(n, second)
    high, low = term.fast_two_sum(r, -product)
    near = term.bits_of(shifted), high, term.fma(n, -third, low - error)
    far = abs(x) > x.either(_LIMIT)
    ops = far_quadrant_p, far_remainder_p, far_rest_p
    exact = [
        make_node(op, y.node.aval, (x.node,)) for op, y in zip(ops, near, strict=True)
    ]
    pairs = zip(map(term.Term, exact), near, strict=True)
    return Reduced(*(term.select(far, a, b, term.RARE) for a, b in pairs))


def far_quadrant(x: term.Term) -> term.Term:
    return far_angle(x).quadrant


def far_remainder(x: term.Term) -> term.Term:
    return far_angle(x).r


def far_rest(x: term.Term) -> term.Term:
    return far_angle(x).rest


def _significand(x: term.Term, layout: term.Format) -> tuple[term.Term, term.Term]:
    """(m, e): |x| = m·2ᵉ."""
    bits = term.bits_of(abs(x))
    hidden = 1 << layout.fraction
    m = (bits & (hidden - 1)) | hidden
    return m, (bits >> layout.fraction) - (layout.bias + layout.fraction)


def _window(
    words: list[term.Term], index: term.Term, stages: tuple[int, ...]
) -> list[term.Term]:
    """Four of the words from `index` on: a shift by words, bit by bit of the index.

    Before the stage of bit 2ˢ the index that is left is below 2^(s+1): more than
    four words and that are not needed after it.
    """
    for stage in stages:
        chosen = term.ne(index & stage, 0)
        keep = min(4 + stage - 1, len(words))
        words = [
            term.select(chosen, words[i + stage], words[i])
            if i + stage < len(words)
            else words[i]
            for i in range(keep)
        ]
    return words


def far_angle(x: term.Term) -> Reduced:
    """The remainder of any x modulo π/2, and the quadrant, in integers."""
    shape = x.node.shape
    m, e = _significand(x, term.format_of(x))
    start = e + 62
    table = [term.number_of(word, dtypes.uint64, shape) for word in _BITS]
    words = _window(table, start >> 6, (2, 1) if x.single else (16, 8, 4, 2, 1))
    shift = term.cast(start & 63, dtypes.uint64)
    # A shift by the width gives 0, as it must where the window starts at a word.
    w = [
        (a << shift) | (b >> (term.number_of(64, dtypes.uint64, shape) - shift))
        for a, b in pairwise(words)
    ]
    wide = term.cast(m, dtypes.uint64)
    middle = wide * w[1]
    low = middle + _high_product(wide, w[2], x.single)
    carry = term.cast(low < middle, dtypes.uint64)
    high = wide * w[0] + _high_product(wide, w[1], x.single) + carry
    rounded = high + (1 << 61)
    quadrant = term.cast(rounded >> 62, e.dtype)
    fraction = term.bitcast(rounded & ((1 << 62) - 1), dtypes.int64) - (1 << 61)
    value, rest = (_in_single if x.single else _in_double)(fraction, low)
    first, second, _ = x.either(_HALF_PI)
    product, error = term.two_product(value, first)
    error = error + term.fma(value, second, rest * first)
    r, rest = term.fast_two_sum(product, error)
    signed = term.select(x < 0.0, 0 - quadrant, quadrant)
    return Reduced(signed, _with_sign(x, r), _with_sign(x, rest))


def _in_single(fraction: term.Term, low: term.Term) -> term.Pair:
    """fraction·2⁻⁶²: its upper 24 bits and the rest."""
    upper = fraction >> 38
    rest = term.cast(fraction - (upper << 38), dtypes.float32) * 2.0**-62
    return term.cast(upper, dtypes.float32) * 2.0**-24, rest


def _in_double(fraction: term.Term, low: term.Term) -> term.Pair:
    """fraction·2⁻⁶² + low·2⁻¹²⁶, of three floats, each of them exact."""
    top = term.integer_to_float(fraction >> 12) * 2.0**-50
    tail = (term.bitcast(fraction & 0xFFF, dtypes.uint64) << 36) | (low >> 28)
    lower = term.integer_to_float(term.bitcast(tail, dtypes.int64)) * 2.0**-98
    least = term.bitcast(low & 0xFFFFFFF, dtypes.int64)
    lower = lower + term.integer_to_float(least) * 2.0**-126
    return term.fast_two_sum(top, lower)


def _high_product(a: term.Term, b: term.Term, short: bool) -> term.Term:
    """The upper 64 bits of the product of two uint64; is the first below 2³²?"""
    mask = 0xFFFFFFFF
    a_high, a_low, b_high, b_low = a >> 32, a & mask, b >> 32, b & mask
    if short:
        return (a * b_high + ((a * b_low) >> 32)) >> 32
    first = a_high * b_low + ((a_low * b_low) >> 32)
    second = a_low * b_high + (first & mask)
    return a_high * b_high + (first >> 32) + (second >> 32)


def _with_sign(x: term.Term, r: term.Term) -> term.Term:
    """r with the sign that x gives it; NaN where x is not finite."""
    return term.float_of(term.bits_of(r) ^ term.sign_bit(x)) + x * 0.0


# (sin(r) - r)/r³ in r²: 2^-27.7 and 2^-57.5 of sin(r).
_SIN: Final = (
    (-0.0001950554, 0.00833209511, -0.166666538),
    (1.5890044640134361e-10, -2.5050641940558006e-08, 2.7557312952131756e-06,
     -0.00019841269827681752, 0.008333333333319762, -0.1666666666666662),
)  # fmt: skip
# (cos(r) - 1 + r²/2)/r⁴ in r²: 2^-32.6 and 2^-63.5 of cos(r).
_COS: Final = (
    (2.44120874e-05, -0.00138871302, 0.0416666418),
    (-1.1354250852662659e-11, 2.087561842881048e-09, -2.7557313576420203e-07,
     2.480158728677976e-05, -0.0013888888888869768, 0.041666666666666574),
)  # fmt: skip


def sin_cos_parts(x: term.Term) -> tuple[term.Term, term.Pair, term.Pair]:
    """The quadrant, and sin and cos of the remainder as unevaluated sums.

    The greater term of a sum stands first.
    """
    quadrant, r, rest = reduce_angle(x)
    square = r * r
    sin_series = term.polynomial(square, r.either(_SIN))
    cos_series = term.polynomial(square, r.either(_COS))
    half = 0.5 * square
    whole = 1.0 - half
    lost = (1.0 - whole) - half
    sin_rest = term.mul_add(square * r, sin_series, term.mul_add(-half, rest, rest))
    cos_rest = term.mul_add(square * square, cos_series, lost - r * rest)
    return quadrant, (r, sin_rest), (whole, cos_rest)


def sin_cos_pi(x: term.Term) -> term.Pair:
    """sin and cos of π·x, up to one common sign."""
    r = x - term.round_even(x)
    a = abs(r)
    steep = a > 0.25
    angle = term.select(steep, 0.5 - a, a) * math.pi
    square = angle * angle
    sin_series = term.polynomial(square, x.either(_SIN))
    cos_series = term.polynomial(square, (*x.either(_COS), -0.5, 1.0))
    sine = term.fma(square * angle, sin_series, angle)
    return (
        term.copy_sign(term.select(steep, cos_series, sine), r),
        term.select(steep, sine, cos_series),
    )


def _negate_if(odd_bit: term.Term, y: term.Term) -> term.Term:
    """y with its sign flipped where bit 1 of the integer is set."""
    shift = 30 if y.single else 62
    return term.float_of(term.bits_of(y) ^ ((odd_bit & 2) << shift))


def _sin_cos(x: term.Term) -> tuple[term.Term, term.Term, term.Term]:
    """The quadrant, and sin and cos of the remainder."""
    if x.single:
        quadrant, r, rest = reduce_angle(x)
        square = r * r
        sin_r = r + term.fma(square * r, term.polynomial(square, x.either(_SIN)), rest)
        return quadrant, sin_r, term.polynomial(square, (*x.either(_COS), -0.5, 1.0))
    quadrant, sin_parts, cos_parts = sin_cos_parts(x)
    return quadrant, sin_parts[0] + sin_parts[1], cos_parts[0] + cos_parts[1]


def sin(x: term.Term) -> term.Term:
    """sin(r), or cos(r) in odd quadrants."""
    quadrant, sin_r, cos_r = _sin_cos(x)
    value = term.select(term.eq(quadrant & 1, 0), sin_r, cos_r)
    value = _negate_if(quadrant, value)
    return term.select(term.eq(x, 0.0), x, value)


def cos(x: term.Term) -> term.Term:
    """cos(r), or -sin(r) in odd quadrants."""
    quadrant, sin_r, cos_r = _sin_cos(x)
    value = term.select(term.eq(quadrant & 1, 0), cos_r, sin_r)
    return _negate_if(quadrant + 1, value)


def tan(x: term.Term) -> term.Term:
    """sin(r)/cos(r), or -cos(r)/sin(r), of sums in two numbers.

    The quotient's error is computed and taken off, so that there is one rounding.
    """
    quadrant, sin_parts, cos_parts = sin_cos_parts(x)
    s, s_low = term.fast_two_sum(*sin_parts)
    c, c_low = term.fast_two_sum(*cos_parts)
    even = term.eq(quadrant & 1, 0)
    top, top_low = term.select(even, s, -c), term.select(even, s_low, -c_low)
    bottom, bottom_low = term.select(even, c, s), term.select(even, c_low, s_low)
    inverse = 1.0 / bottom
    quotient = top * inverse
    error = term.fma(-quotient, bottom, top) + term.fma(-quotient, bottom_low, top_low)
    return term.select(term.eq(x, 0.0), x, term.fma(error, inverse, quotient))


_TAN_PI_8: Final = 0.41421356237309503

# (atan(t) - t)/t³ in t²: for t ≤ 1, 2^-28.5; for t ≤ tan(π/8), 2^-63.8 of atan(t).
_ATAN: Final = (
    (-0.00179125241, 0.0109034972, -0.0311560184, 0.0579342917, -0.0840198621,
     0.109516382, -0.142641246, 0.199985355, -0.333332986),
    (0.014901671731863643, -0.03318270944452478, 0.04490893551913015,
     -0.05215260092629562, 0.058765281910936835, -0.0666617580395053,
     0.0769227926997399, -0.09090907988506823, 0.11111111083804881,
     -0.14285714285317072, 0.19999999999997098, -0.33333333333333326),
)  # fmt: skip
# (asin(t) - t)/t³ in t² for t ≤ 1/2: 2^-27.6 and 2^-59.9 of asin(t).
_ASIN: Final = (
    (0.04215841, 0.0241847374, 0.0454691537, 0.0749530941, 0.166667521),
    (0.0326265845474803, -0.020995608106248242, 0.021704850942415907,
     0.0037075487993250846, 0.010779928540549204, 0.011398974785661056,
     0.013980812207708478, 0.017351612781497144, 0.022372214939653242,
     0.030381942709744293, 0.044642857174563046, 0.07499999999970865,
     0.1666666666666676),
)  # fmt: skip


def _half_pi(x: term.Term) -> tuple[float, float]:
    """π/2 in two numbers; those of π/4 and π are their halves and doubles."""
    return x.either(_HALF_PI)[:2]


def _sum(
    base: term.Term, base_low: term.Operand, t: term.Term, u: term.Term
) -> term.Term:
    """base + t + u, rounded once but for u."""
    total, lost = term.fast_two_sum(base, t)
    return total + (lost + (u + base_low))


def _angle(y: term.Term, x: term.Term) -> term.Term:
    """atan(y/x) for y, x ≥ 0, not both of them 0 or ∞: the angle of a ray.

    The ray is turned by -π/2 (float64: or by -π/4) to one near the x axis. There is
    one division, and one rounding after the polynomial.
    """
    high, low = _half_pi(y)
    if y.single:
        steep = y > x
        t = term.select(steep, -x, y) / term.select(steep, y, x)
        base, base_low = (
            term.select(steep, term.number(v, y), 0.0) for v in (high, low)
        )
    else:
        steep, slanted = y * _TAN_PI_8 > x, y > x * _TAN_PI_8
        top = term.select(steep, -x, term.select(slanted, y - x, y))
        t = top / term.select(steep, y, term.select(slanted, y + x, x))
        base, base_low = (_by_angle(steep, slanted, y, v) for v in (high, low))
    series = term.polynomial(t * t, y.either(_ATAN))
    return _sum(base, base_low, t, t * (t * t) * series)


def _by_angle(
    steep: term.Term, slanted: term.Term, like: term.Term, value: float
) -> term.Term:
    """`value` for π/2, its half for π/4, else 0."""
    half = term.select(slanted, term.number(value / 2, like), 0.0)
    return term.select(steep, value, half)


def atan(x: term.Term) -> term.Term:
    """The angle of (1, |x|)."""
    a = abs(x)
    return term.copy_sign(_angle(a, term.number(1.0, x)), x)


def atan2(y: term.Term, x: term.Term) -> term.Term:
    """The angle of (|x|, |y|), then π less that for a negative x."""
    a, b = abs(y), abs(x)
    larger = term.select(a > b, a, b)
    a, b = _ray(a, larger), _ray(b, larger)
    angle = _angle(a, term.select(term.eq(larger, 0.0), 1.0, b))
    high, low = _half_pi(x)
    angle = term.select(term.is_negative(x), 2.0 * high - (angle - 2.0 * low), angle)
    return term.select(
        term.ne(x, x) | term.ne(y, y), term.NAN, term.copy_sign(angle, y)
    )


def _ray(part: term.Term, larger: term.Term) -> term.Term:
    """A coordinate on the same ray, so large that products and sums are exact enough.

    Infinities become 1, and finite numbers beside them 0.
    """
    top = term.format_of(part).bias - 1
    scale = term.select(larger > 2.0**top, term.number(0.25, part), 1.0)
    if not part.single:
        scale = term.select(larger < 2.0**-900, 2.0**120, scale)
    axis = term.select(term.eq(part, term.INFINITY), term.number(1.0, part), 0.0)
    return term.select(term.eq(larger, term.INFINITY), axis, part * scale)


def _asin_parts(x: term.Term) -> tuple[term.Term, term.Term, term.Term]:
    """(large, t, u): asin of x, or beyond 1/2 of sqrt((1 - |x|)/2), is t + u."""
    a = abs(x)
    large = a > 0.5
    square = term.select(large, term.fma(-0.5, a, 0.5), x * x)
    t = term.select(large, term.sqrt(square), x)
    series = term.polynomial(square, x.either(_ASIN))
    return large, t, t * square * series


def asin(x: term.Term) -> term.Term:
    """x + x³·P(x²) up to 1/2, π/2 - 2·asin(sqrt((1 - x)/2)) beyond."""
    large, t, u = _asin_parts(x)
    high, low = _half_pi(x)
    beyond = _sum(term.number(high, x), low, -2.0 * t, -2.0 * u)
    return term.copy_sign(term.select(large, beyond, abs(t + u)), x)


def acos(x: term.Term) -> term.Term:
    """π/2 - asin(x) up to 1/2, 2·asin(sqrt((1 - x)/2)) beyond, π less that below."""
    large, t, u = _asin_parts(x)
    high, low = _half_pi(x)
    below = x < 0.0
    # The sum is base + factor·(t + u).
    base = term.select(large, term.select(below, term.number(2.0 * high, x), 0.0), high)
    rest = term.select(large, term.select(below, term.number(2.0 * low, x), 0.0), low)
    factor = term.select(large, term.select(below, term.number(-2.0, x), 2.0), -1.0)
    return _sum(base, rest, factor * t, factor * u)
