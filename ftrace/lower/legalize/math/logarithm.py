"""log and its family: x = 2ᵏ·(1 + f) with 1 + f in [3/4, 3/2).

float32 takes log(1 + f) as a polynomial in f, float64 as one in s² with s = f/(2 + f),
as log(1 + f) = log((1 + s)/(1 - s)) (the scheme of fdlibm's `e_log.c`). Polynomials are
fitted as in `exponential.py`.
"""

from __future__ import annotations

import math
from typing import Final

from ftrace.lower.legalize.math.floats import (
    INFINITY,
    NAN,
    bits_of,
    bits_of_number,
    copy_sign,
    fast_two_sum,
    float_of,
    format_of,
    integer_to_float,
    two_product,
)
from ftrace.lower.legalize.math.term import (
    Term,
    eq,
    exponent,
    fma,
    mantissa,
    mul_add,
    number,
    polynomial,
    select,
    sqrt,
)

# ln 2 and 1/ln 2 in two numbers each; the first of ln 2 has 8 or 11 bits less.
_LN2_SINGLE: Final = (0.69314575, 1.4286068e-06)
_LN2_DOUBLE: Final = (0.6931471805598903, 5.497923018708371e-14)
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
_LOG2_SINGLE: Final = (
    -0.109970883, 0.186914504, -0.191432506, 0.204518139, -0.239565417, 0.288569659,
    -0.3606987, 0.480898231, -0.721347332, 1.92010532e-08,
)  # fmt: skip


def mantissa_by_bits(x: Term) -> Term:
    """`mantissa` where no instruction has it."""
    bits, k, _ = _split_bits(x)
    found = float_of(bits - (k << format_of(x).fraction))
    return select(x >= 0.0, found, NAN)


def exponent_by_bits(x: Term) -> Term:
    """`exponent` where no instruction has it."""
    _, k, lift = _split_bits(x)
    found = select(eq(x, INFINITY), x, integer_to_float(k) + lift)
    return select(eq(x, 0.0), -INFINITY, found)


def _split_bits(x: Term) -> tuple[Term, Term, Term]:
    """The bits of x·2^-lift, k of that, and the lift: 0 but for denormal numbers."""
    layout = format_of(x)
    small = x < layout.tiny
    lift = layout.fraction + 2
    bits = bits_of(select(small, x * 2.0**lift, x))
    k = (bits - bits_of_number(_CUT, x.single)) >> layout.fraction
    return bits, k, select(small, number(-float(lift), x), 0.0)


def split_at_root(x: Term) -> tuple[Term, Term]:
    """(f, k) with x = 2ᵏ·(1 + f) and 1 + f in [sqrt(1/2), sqrt(2)]."""
    m, k = mantissa(x), exponent(x)
    above = m > _ROOT
    return select(above, m * 0.5, m) - 1.0, select(above, k + 1.0, k)


def log_of_parts(f: Term, k: Term) -> Term:
    """k·ln 2 + log(1 + f) for f in [-1/4, 1/2], also where k is infinite.

    The first part of ln 2 is short: its product with k is exact. Both are positive, so
    that with an infinite k they agree.
    """
    high, low = _LN2_SINGLE if f.single else _LN2_DOUBLE
    if f.single:
        square = f * f
        rest = mul_add(-0.5, square, f * square * polynomial(f, _LOG_SINGLE))
        return mul_add(k, high, f + mul_add(k, low, rest))
    half_square, odd = _log_series(f)
    return mul_add(k, high, f - (half_square - mul_add(k, low, odd)))


def _log_series(f: Term) -> tuple[Term, Term]:
    """(h, t) with log(1 + f) = f - h + t, in float64; h = f²/2 is the greater."""
    s = f / (2.0 + f)
    square = s * s
    half_square = 0.5 * f * f
    series = polynomial(square, _LOG_DOUBLE)
    return half_square, s * mul_add(square, series, half_square)


def log(x: Term) -> Term:
    """log(x) = k·ln 2 + log(1 + f)."""
    return log_of_parts(mantissa(x) - 1.0, exponent(x))


def log2(x: Term) -> Term:
    """log2(x) = k + log(1 + f)/ln 2, exact for powers of two.

    The product with 1/ln 2 is carried in two numbers.
    """
    f, k = split_at_root(x)
    if x.single:
        return k + fma(f, _LOG2E_SINGLE, f * polynomial(f, _LOG2_SINGLE))
    half_square, odd = _log_series(f)
    top, rest = fast_two_sum(f, -half_square)
    rest = rest + odd
    high, low = _LOG2E_DOUBLE
    product, error = two_product(top, high)
    error = error + fma(top, low, rest * high)
    total, carry = fast_two_sum(k, product)
    # The sum's error is NaN where the sum is infinite.
    return select(abs(k) < INFINITY, total + (carry + error), k + f)


def log1p(x: Term) -> Term:
    """log(1 + x): k is that of 1 + x, and f = x·2⁻ᵏ + (2⁻ᵏ - 1) is rounded once."""
    layout = format_of(x)
    above = bits_of(1.0 + x) - bits_of_number(_CUT, x.single)
    k = above >> layout.fraction
    # 2^(2-k) is normal for each k; 2⁻ᵏ need not be.
    quarter = float_of(((layout.bias + 2) - k) << layout.fraction) * 0.25
    f = mul_add(x, quarter, quarter - 1.0)  # the product is exact
    value = log_of_parts(f, integer_to_float(k))
    value = select(x > -1.0, value, select(eq(x, -1.0), -INFINITY, number(NAN, x)))
    return select(eq(x, INFINITY) | eq(x, 0.0), x, value)


def asinh(x: Term) -> Term:
    """log1p(|x| + x²/(1 + sqrt(1 + x²))); log|x| + ln 2 where x² says nothing more."""
    a = abs(x)
    square = a * a
    inner = a + square / (1.0 + sqrt(1.0 + square))
    return copy_sign(_log1p_or_double(a, inner), x)


def acosh(x: Term) -> Term:
    """log1p(t + sqrt(2t + t²)) with t = x - 1; log x + ln 2 for a large x."""
    t = x - 1.0
    value = _log1p_or_double(x, t + sqrt(fma(t, t, t + t)))
    return select(x < 1.0, NAN, value)


def _log1p_or_double(a: Term, inner: Term) -> Term:
    """log1p(inner), or log(2a) for a large a."""
    large = a > (2.0**30 if a.single else 2.0**60)
    value = log1p(select(large, a, inner))
    return select(large, value + _LN2, value)


def atanh(x: Term) -> Term:
    """log1p(2|x|/(1 - |x|))/2."""
    a = abs(x)
    return copy_sign(0.5 * log1p((a + a) / (1.0 - a)), x)
