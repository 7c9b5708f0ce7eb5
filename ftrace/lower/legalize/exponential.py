"""exp, log, powers and roots.

    eˣ = 2ⁿ·eʳ         with n = round(x/ln 2) and |r| ≤ ln 2 / 2
    x  = 2ᵏ·(1 + f)    with 1 + f in [3/4, 3/2): log(x) = k·ln 2 + log(1 + f)
    xʸ = 2^(y·log2|x|) with the logarithm in two numbers: an error of one unit in its
                       last place would be one of y·log2|x| units in the result

The logarithm of 1 + f is a polynomial in f in float32. In float64 it is one in s² with
s = f/(2 + f), as log(1 + f) = log((1 + s)/(1 - s)) (the scheme of fdlibm's `e_log.c`).

The polynomials are minimax fits (Remez exchange at 50 digits, coefficients rounded one
after the other, lowest power first); the relative error of the fit stands beside each.
Errors of the functions are the greatest seen, in units in the last place: float32 over
all numbers, float64 over 10⁷ random ones (`FORMULAS`).
"""

from __future__ import annotations

import math
from typing import Final

from ftrace.lower.legalize import term
from ftrace.trace.graph import constant_value
from ftrace.trace.primitives.sources import const_p

_LOG2E: Final = 1 / math.log(2)
# ln 2 in two numbers: their sum is right to 2 · fraction bits.
_LN2_PARTS: Final = (
    (0.693147182, -1.90465421e-09),
    (0.6931471805599453, 2.3190468138462996e-17),
)  # fmt: skip

# eʳ for |r| ≤ ln 2 / 2: 2^-28.3 and 2^-57.9.
_EXP: Final = (
    (0.00138209725, 0.00836868491, 0.0416682661, 0.166665211, 0.49999994, 1.0, 1.0),
    (2.5006618073567767e-08, 2.763028145583735e-07, 2.7557561415513485e-06,
     2.4801492948550074e-05, 0.00019841269541368467, 0.0013888888943885363,
     0.008333333333473577, 0.0416666666665283, 0.16666666666666458, 0.5000000000000011,
     1.0, 1.0),
)  # fmt: skip
# 2ʳ for |r| ≤ 1/2: 2^-28.3 and 2^-57.8.
_EXP2: Final = (
    (0.000153281071, 0.001339101, 0.00961850304, 0.0555035956, 0.240226477, 0.693147182,
     1.0),
    (4.439521003450648e-10, 7.0733012450943904e-09, 1.0178155320006317e-07,
     1.3215438419063615e-06, 1.525273364656258e-05, 0.0001540353044994917,
     0.0013333558146531648, 0.00961812910760076, 0.055504108664821784,
     0.2402265069591011, 0.6931471805599453, 1.0),
)  # fmt: skip
# (eʳ - 1 - r)/r² for |r| ≤ ln 2 / 2: 2^-26.1 and 2^-61.6 of eʳ - 1.
_EXPM1: Final = (
    (0.00138706574, 0.00836626161, 0.0416674353, 0.166665465, 0.49999997),
    (2.0896204312502977e-09, 2.5108701573415422e-08, 2.755732220814735e-07,
     2.7557245087649255e-06, 2.4801587286731424e-05, 0.00019841269885429122,
     0.001388888888889098, 0.00833333333332176, 0.041666666666666685,
     0.16666666666666677, 0.5),
)  # fmt: skip
# (tanh(x) - x)/x³ in x² for |x| ≤ 0.625: 2^-27.7 and 2^-56.4.
_TANH: Final = (
    (-0.00570071349, 0.0206347033, -0.0537381098, 0.133314177, -0.333332807),
    (-1.6072083166155797e-05, 7.714326818874318e-05, -0.0002285631390741186,
     0.0005863159472605362, -0.0014549586730090497, 0.003591989127833083,
     -0.008863220995899984, 0.02186948757546644, -0.053968253931232515,
     0.13333333333261987, -0.33333333333332854),
)  # fmt: skip
# (sinh(x) - x)/x³ in x² for |x| ≤ 1: 2^-31.6 and 2^-61.8.
_SINH: Final = (
    (2.78221319e-06, 0.000198428956, 0.00833331048, 0.166666672),
    (7.776854767959946e-13, 1.605665279493553e-10, 2.5052131055524605e-08,
     2.7557319106545604e-06, 0.00019841269841593682, 0.008333333333332912,
     0.16666666666666669),
)  # fmt: skip


def scale_by_power(y: term.Term, n: term.Term) -> term.Term:
    """y·2ⁿ for an integral |n| ≤ 2·bias, where no `ldexp` exists: y·2^⌊n/2⌋·2^⌈n/2⌉.

    Rounded once, also where the result is denormal, for 2^-16 ≤ |y| ≤ 2^16.
    """
    layout = term.format_of(y)
    exponents = term.bits_of(n + (layout.magic + 2 * layout.bias))
    half = exponents >> 1
    rest = exponents - half
    first = y * term.float_of(half << layout.fraction)
    return first * term.float_of(rest << layout.fraction)


def _reduce(x: term.Term) -> tuple[term.Term, term.Term, term.Term]:
    """r = x - n·ln 2, the integer n, and n + magic, for |x| < 2^(fraction - 3)."""
    high, low = x.either(_LN2_PARTS)
    n, shifted = term.nearest(x, _LOG2E)
    return term.fma(n, -low, term.fma(n, -high, x)), n, shifted


def exp_parts(x: term.Term) -> term.Pair:
    """(y, n) with eˣ = y·2ⁿ and y in [0.7, 1.5]."""
    r, n, _ = _reduce(x)
    return term.polynomial(r, x.either(_EXP)), n


def exp_normal(x: term.Term) -> term.Term:
    """eˣ where the result is a normal number."""
    r, _, shifted = _reduce(x)
    y = term.polynomial(r, x.either(_EXP))
    return y * term.power_of_two(shifted)


def exp(x: term.Term) -> term.Term:
    """eˣ. Degree 6 or 11; denormal results are rounded once."""
    low, high = (-105.0, 89.0) if x.single else (-746.0, 710.0)
    return term.ldexp(*exp_parts(term.clamp(x, low, high)))


def exp2(x: term.Term) -> term.Term:
    """2ˣ = 2ⁿ·2ʳ with n = round(x), exact for integers. Degree 6 or 11."""
    return term.ldexp(*exp2_parts(x))


def exp2_parts(x: term.Term, rest: term.Term | None = None) -> term.Pair:
    """(y, n) with 2^(x + rest) = y·2ⁿ, for any x and a small rest."""
    low, high = (-151.0, 129.0) if x.single else (-1076.0, 1025.0)
    x = term.clamp(x, low, high)
    n, _ = term.nearest(x)
    r = x - n if rest is None else x - n + rest
    return term.polynomial(r, x.either(_EXP2)), n


def expm1(x: term.Term) -> term.Term:
    """eˣ - 1 = 2ⁿ·(eʳ - 1) + (2ⁿ - 1); halved on the way, so that 2ⁿ is finite."""
    low, high = (-18.0, 89.0) if x.single else (-38.0, 710.0)
    x = term.clamp(x, low, high)
    r, _, shifted = _reduce(x)
    half = term.power_of_two(shifted, -1)
    # The sum of the two great terms first, which often is exact, then the small one.
    great = term.fma(r, half, half - 0.5)
    whole = term.fma(r * r * _expm1_series(r), half, great)
    tiny = 2.0**-26 if x.single else 2.0**-55
    return term.select(abs(x) < tiny, x, whole + whole)


def expm1_parts(x: term.Term) -> term.Pair:
    """(p, n) with eˣ = (1 + p)·2ⁿ."""
    r, n, _ = _reduce(x)
    return term.fma(r * r, _expm1_series(r), r), n


def _expm1_series(r: term.Term) -> term.Term:
    """(eʳ - 1 - r)/r² for |r| ≤ ln 2 / 2."""
    return term.polynomial(r, r.either(_EXPM1))


def logistic(x: term.Term) -> term.Term:
    """1/(1 + e⁻ˣ), as eˣ/(eˣ + 1) for a negative x, where it is as small as eˣ."""
    e = exp(-abs(x))
    return term.select(x < 0.0, e, 1.0) / (1.0 + e)


def tanh(x: term.Term) -> term.Term:
    """An odd polynomial up to 0.625, 1 - 2/(e^2|x| + 1) beyond."""
    a = abs(x)
    e = exp_normal(term.clamp(a + a, None, 44.0))
    beyond = 1.0 - 2.0 / (e + 1.0)
    small = _odd(a, a.either(_TANH))
    return term.copy_sign(term.select(a < 0.625, small, beyond), x)


def sinh(x: term.Term) -> term.Term:
    """An odd polynomial up to 1, e^|x|/2 - e^-|x|/2 beyond."""
    a = abs(x)
    half = _half_exp(a)
    small = _odd(a, a.either(_SINH))
    return term.copy_sign(term.select(a < 1.0, small, half - 0.25 / half), x)


def cosh(x: term.Term) -> term.Term:
    """e^|x|/2 + e^-|x|/2; finite where the result is."""
    half = _half_exp(abs(x))
    return half + 0.25 / half


def _half_exp(a: term.Term) -> term.Term:
    """eᵃ/2 for a ≥ 0, finite also where eᵃ is not."""
    y, n = exp_parts(term.clamp(a, None, 91.0 if a.single else 712.0))
    return term.ldexp(y, n - 1.0)


def _odd(x: term.Term, coefficients: tuple[float, ...]) -> term.Term:
    """x + x³·P(x²)."""
    square = x * x
    return term.fma(x * square, term.polynomial(square, coefficients), x)


# ln 2 and 1/ln 2 in two numbers each; the first of ln 2 has 8 or 11 bits less.
_SHORT_LN2: Final = (
    (0.69314575, 1.4286068e-06),
    (0.6931471805598903, 5.497923018708371e-14),
)  # fmt: skip
_LOG2E_SINGLE: Final = 1.44269502
_LOG2E_DOUBLE: Final = (1.4426950408889634, 2.0355273740931033e-17)
_LN2: Final = math.log(2)

# Where the fraction of x is cut. At 3/4 f is short, which log1p needs; log2 has the
# least to cancel against k when it is cut at sqrt(1/2).
_CUT: Final = 0.75
_ROOT: Final = math.sqrt(2)

# (log(1 + f) - f + f²/2)/f³ for f in [-1/4, 1/2]: 2^-29.0 of log(1 + f).
_LOG_SINGLE: Final = (
    0.0376107395, -0.0910686925, 0.116969995, -0.127283722, 0.142768025, -0.166553169,
    0.199995786, -0.250001639, 0.333333403,
)  # fmt: skip
# (2·atanh(s)/s - 2)/s² in s² for |s| ≤ 1/5: 2^-61.7 of the sum.
_LOG_DOUBLE: Final = (
    0.13842393567466618, 0.13173690013320416, 0.15391106884988054, 0.1818166601816692,
    0.22222224294360354, 0.2857142855584363, 0.40000000000056635, 0.666666666666666,
)  # fmt: skip
# log2(1 + f)/f - _LOG2E_SINGLE for 1 + f in [√½, √2]: 2^-29.0 of log2(1 + f).
_LOG2_OF_F: Final = (
    -0.109970883, 0.186914504, -0.191432506, 0.204518139, -0.239565417, 0.288569659,
    -0.3606987, 0.480898231, -0.721347332, 1.92010532e-08,
)  # fmt: skip


def mantissa_by_bits(x: term.Term) -> term.Term:
    """`mantissa` where no instruction has it."""
    bits, k, _ = _split_bits(x)
    found = term.float_of(bits - (k << term.format_of(x).fraction))
    return term.select(x >= 0.0, found, term.NAN)


def exponent_by_bits(x: term.Term) -> term.Term:
    """`exponent` where no instruction has it."""
    _, k, lift = _split_bits(x)
    found = term.select(term.eq(x, term.INFINITY), x, term.integer_to_float(k) + lift)
    return term.select(term.eq(x, 0.0), -term.INFINITY, found)


def _split_bits(x: term.Term) -> tuple[term.Term, term.Term, term.Term]:
    """The bits of x·2^-lift, k of that, and the lift: 0 but for denormal numbers."""
    layout = term.format_of(x)
    small = x < layout.tiny
    lift = layout.fraction + 2
    bits = term.bits_of(term.select(small, x * 2.0**lift, x))
    k = (bits - term.bits_of_number(_CUT, x.single)) >> layout.fraction
    return bits, k, term.select(small, term.number(-float(lift), x), 0.0)


def split_at_root(x: term.Term) -> tuple[term.Term, term.Term]:
    """(f, k) with x = 2ᵏ·(1 + f) and 1 + f in [sqrt(1/2), sqrt(2)]."""
    m, k = term.mantissa(x), term.exponent(x)
    above = m > _ROOT
    return term.select(above, m * 0.5, m) - 1.0, term.select(above, k + 1.0, k)


def log_of_parts(f: term.Term, k: term.Term) -> term.Term:
    """k·ln 2 + log(1 + f) for f in [-1/4, 1/2], also where k is infinite.

    The first part of ln 2 is short: its product with k is exact. Both are positive, so
    that with an infinite k they agree.
    """
    high, low = f.either(_SHORT_LN2)
    if f.single:
        square = f * f
        rest = term.mul_add(-0.5, square, f * square * term.polynomial(f, _LOG_SINGLE))
        return term.mul_add(k, high, f + term.mul_add(k, low, rest))
    half_square, odd = _log_series(f)
    return term.mul_add(k, high, f - (half_square - term.mul_add(k, low, odd)))


def _log_series(f: term.Term) -> tuple[term.Term, term.Term]:
    """(h, t) with log(1 + f) = f - h + t, in float64; h = f²/2 is the greater."""
    s = f / (2.0 + f)
    square = s * s
    half_square = 0.5 * f * f
    series = term.polynomial(square, _LOG_DOUBLE)
    return half_square, s * term.mul_add(square, series, half_square)


def log(x: term.Term) -> term.Term:
    """log(x) = k·ln 2 + log(1 + f)."""
    return log_of_parts(term.mantissa(x) - 1.0, term.exponent(x))


def log2(x: term.Term) -> term.Term:
    """log2(x) = k + log(1 + f)/ln 2, exact for powers of two.

    The product with 1/ln 2 is carried in two numbers.
    """
    f, k = split_at_root(x)
    if x.single:
        return k + term.fma(f, _LOG2E_SINGLE, f * term.polynomial(f, _LOG2_OF_F))
    half_square, odd = _log_series(f)
    top, rest = term.fast_two_sum(f, -half_square)
    rest = rest + odd
    high, low = _LOG2E_DOUBLE
    product, error = term.two_product(top, high)
    error = error + term.fma(top, low, rest * high)
    total, carry = term.fast_two_sum(k, product)
    # The sum's error is NaN where the sum is infinite.
    return term.select(abs(k) < term.INFINITY, total + (carry + error), k + f)


def log1p(x: term.Term) -> term.Term:
    """log(1 + x): k is that of 1 + x, and f = x·2⁻ᵏ + (2⁻ᵏ - 1) is rounded once."""
    layout = term.format_of(x)
    above = term.bits_of(1.0 + x) - term.bits_of_number(_CUT, x.single)
    k = above >> layout.fraction
    # 2^(2-k) is normal for each k; 2⁻ᵏ need not be.
    quarter = term.float_of(((layout.bias + 2) - k) << layout.fraction) * 0.25
    f = term.mul_add(x, quarter, quarter - 1.0)  # the product is exact
    value = log_of_parts(f, term.integer_to_float(k))
    value = term.select(
        x > -1.0,
        value,
        term.select(term.eq(x, -1.0), -term.INFINITY, term.number(term.NAN, x)),
    )
    return term.select(term.eq(x, term.INFINITY) | term.eq(x, 0.0), x, value)


def asinh(x: term.Term) -> term.Term:
    """log1p(|x| + x²/(1 + sqrt(1 + x²))); log|x| + ln 2 where x² says nothing more."""
    a = abs(x)
    square = a * a
    inner = a + square / (1.0 + term.sqrt(1.0 + square))
    return term.copy_sign(_log1p_or_double(a, inner), x)


def acosh(x: term.Term) -> term.Term:
    """log1p(t + sqrt(2t + t²)) with t = x - 1; log x + ln 2 for a large x."""
    t = x - 1.0
    value = _log1p_or_double(x, t + term.sqrt(term.fma(t, t, t + t)))
    return term.select(x < 1.0, term.NAN, value)


def _log1p_or_double(a: term.Term, inner: term.Term) -> term.Term:
    """log1p(inner), or log(2a) for a large a."""
    large = a > (2.0**30 if a.single else 2.0**60)
    value = log1p(term.select(large, a, inner))
    return term.select(large, value + _LN2, value)


def atanh(x: term.Term) -> term.Term:
    """log1p(2|x|/(1 - |x|))/2."""
    a = abs(x)
    return term.copy_sign(0.5 * log1p((a + a) / (1.0 - a)), x)


# 2/ln 2 and 2/(3·ln 2) in two numbers each.
_FIRST: Final = (
    (2.88539004, 3.85192605e-08),
    (2.8853900817779268, 4.0710547481862066e-17),
)  # fmt: skip
_THIRD: Final = (
    (0.961796701, -7.02846181e-09),
    (0.9617966939259756, 5.0577616648125907e-17),
)  # fmt: skip
# (2·atanh(s)/(s·ln 2) - first - third·s²)/s⁴ in s² for |s| ≤ 0.1717.
_LOG2: Final = (
    (0.337934643, 0.411844581, 0.57708025),
    (0.19041525559474326, 0.19125203445395525, 0.22198412811935964, 0.2623076983831811,
     0.3205989023038865, 0.41219858309177565, 0.5770780163556183),
)  # fmt: skip


def _log2_pair(x: term.Term) -> term.Pair:
    """log2(x) in two numbers, to 2^-35 or 2^-64 of it; x = 2ᵏ(1 + f), s = f/(2 + f)."""
    f, k = split_at_root(x)
    below, below_low = term.fast_two_sum(term.number(2.0, x), f)
    inverse = 1.0 / below
    s = f * inverse
    s_low = inverse * term.mul_add(-s, below_low, term.fma(-s, below, f))
    square, square_low = term.two_product(s, s)
    square_low = term.mul_add(s + s, s_low, square_low)
    tail = square * term.polynomial(square, x.either(_LOG2))
    third, third_low = x.either(_THIRD)
    first, first_low = x.either(_FIRST)
    inner, inner_low = term.fast_two_sum(term.number(third, x), tail)
    product, product_low = _product(square, square_low, inner, inner_low + third_low)
    outer, outer_low = term.fast_two_sum(term.number(first, x), product)
    result, low = _product(s, s_low, outer, outer_low + (product_low + first_low))
    high, carry = term.fast_two_sum(k, result)
    return term.fast_two_sum(high, carry + low)


def _product(
    a: term.Term, a_low: term.Term, b: term.Term, b_low: term.Term
) -> term.Pair:
    """(a + a_low)·(b + b_low) in two numbers."""
    product, error = term.two_product(a, b)
    return product, term.mul_add(a, b_low, term.mul_add(a_low, b, error))


def power(x: term.Term, y: term.Term) -> term.Term:
    """x to the power y, with the special values of C99 (annex F.9.4.4).

    Small constant powers are products and roots.
    """
    simple = _simple_power(x, y)
    if simple is not None:
        return simple
    return _with_special_values(x, y, _positive_power(abs(x), y))


def _positive_power(a: term.Term, y: term.Term) -> term.Term:
    """aʸ for 0 < a < ∞ and a finite y."""
    log_high, log_low = _log2_pair(a)
    # Beyond these bounds every power but 1 is 0 or ∞, and products stay finite.
    bound = 2.0**40 if a.single else 2.0**70
    y = term.clamp(y, -bound, bound)
    product, error = term.two_product(y, log_high)
    high, low = term.fast_two_sum(product, term.fma(y, log_low, error))
    within = abs(high) < 4.0 * term.format_of(a).bias
    value, n = exp2_parts(high, term.select(within, low, 0.0))
    return term.ldexp(value, n)


def _with_special_values(x: term.Term, y: term.Term, value: term.Term) -> term.Term:
    """xʸ where `value` is that of |x|, right where |x| is neither 0 nor infinite."""
    usual = (x > 0.0) & (x < term.INFINITY)
    if y.node.op is not const_p or not math.isfinite(constant_value(y.node)):
        usual = usual & (abs(y) < term.INFINITY)
    a = abs(x)
    whole = term.eq(term.trunc(y), y)
    half = y * 0.5
    odd = whole & term.ne(term.trunc(half), half)
    limit = term.select((a < 1.0) ^ (y < 0.0), term.number(0.0, x), term.INFINITY)
    at_end = term.eq(a, 0.0) | term.eq(a, term.INFINITY)
    special = term.select((x < 0.0) & ~whole, term.NAN, value)
    special = term.select(at_end | term.eq(abs(y), term.INFINITY), limit, special)
    special = term.float_of(
        term.bits_of(special) ^ term.select(odd, term.sign_bit(x), 0)
    )
    special = term.select(term.ne(x, x) | term.ne(y, y), x + y, special)
    one = (
        term.eq(x, 1.0)
        | term.eq(y, 0.0)
        | (term.eq(a, 1.0) & term.eq(abs(y), term.INFINITY))
    )
    return term.select(~usual, term.select(one, 1.0, special), value, term.RARE)


def _simple_power(x: term.Term, power: term.Term) -> term.Term | None:
    """x to a constant power that needs no logarithm."""
    if power.node.op is not const_p:
        return None
    y = float(constant_value(power.node))
    if y == 0.0:
        return term.number(1.0, x)
    if y == 0.5:  # its value at -0 and -∞ is not that of sqrt
        return term.select(
            term.eq(x, -term.INFINITY), term.INFINITY, term.sqrt(x) + 0.0
        )
    if y == -0.5:
        return term.select(term.eq(x, -term.INFINITY), 0.0, 1.0 / (term.sqrt(x) + 0.0))
    if y == -1.0:
        return 1.0 / x
    if y in (-2.0, -3.0, -4.0):
        return _inverse(x, int(-y))
    return _repeat_product(x, int(y)) if y in (1.0, 2.0, 3.0, 4.0) else None


def _repeat_product(x: term.Term, count: int) -> term.Term:
    """x multiplied by itself: squared, and halves multiplied."""
    if count == 1:
        return x
    half = _repeat_product(x, count // 2)
    square = half * half
    return square * x if count & 1 else square


def _inverse(x: term.Term, count: int) -> term.Term:
    """1 / xⁿ; also where that is denormal, and xⁿ is too large for a float.

    Large powers are scaled by a power of two, and so is the 1 that they divide.
    """
    half = _repeat_product(x, count // 2)
    rest = half * x if count & 1 else half
    bits = term.format_of(x).bias + 1
    large = abs(rest) >= 2.0 ** (bits // 2 - 4)
    scale = term.select(large, term.number(2.0 ** -(bits // 4), x), 1.0)
    return scale / (half * scale * rest)


#: The guess at x^(-1/3): its bits are those of this number less a third of x's.
_CBRT_BITS: Final = 0x54A1F600, 0x553EE96AC0000000


def cbrt(x: term.Term) -> term.Term:
    """x·y² with y = x^(-1/3), and a step of Newton for x = c³.

    y is a guess from the bits, right to 3 %, and a step (float64: two) of order four
    with e = 1 - x·y³: (1 - e)^(-1/3) = 1 + e/3 + 2e²/9 + 14e³/81 + ….
    """
    layout = term.format_of(x)
    a = abs(x)
    small = a < 16.0 * layout.tiny
    lift = 24 if x.single else 54
    scaled = term.select(small, a * 2.0**lift, a)
    # A third of the bits: shifted right until they are a float exactly, and back.
    shift = 9 if x.single else 13
    first = x.either(_CBRT_BITS) >> shift
    third = term.integer_to_float(term.bits_of(scaled) >> shift) * (-1 / 3)
    guess = third + (2.0**layout.fraction + first)
    y = term.float_of(term.bits_of(guess) << shift)
    for _ in range(1 if x.single else 2):
        e = term.fma(-(scaled * y), y * y, 1.0)
        y = term.mul_add(y, e * term.polynomial(e, (14 / 81, 2 / 9, 1 / 3)), y)
    square = y * y
    root = scaled * square
    # A quarter of the error: where no fma is, root³ could overflow.
    error = term.fma(-(root * root), root * 0.25, scaled * 0.25)
    root = term.fma(error, square * (4 / 3), root)
    root = root * term.select(small, term.number(2.0 ** (-lift // 3), x), 1.0)
    plain = term.eq(x, 0.0) | term.eq(a, term.INFINITY)
    return term.select(plain, x, term.copy_sign(root, x))
