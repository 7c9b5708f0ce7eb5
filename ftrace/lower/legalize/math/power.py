"""Powers and roots: pow and cbrt.

pow is 2^(y·log2|x|) with the logarithm in two numbers: an error of one unit in the last
place of it would be one of y·log2|x| units in the result. Polynomials are fitted as in
`exponential.py`.
"""

from __future__ import annotations

import math
from typing import Final

from ftrace import dtypes
from ftrace.lower.legalize.math.exponential import EXP2_SINGLE, exp2_parts
from ftrace.lower.legalize.math.floats import (
    INFINITY,
    NAN,
    Pair,
    bits_of,
    clamp,
    copy_sign,
    fast_two_sum,
    float_of,
    format_of,
    integer_to_float,
    sign_bit,
    two_product,
)
from ftrace.lower.legalize.math.logarithm import split_at_root
from ftrace.lower.legalize.math.table_functions import log2_by_tables
from ftrace.lower.legalize.math.term import (
    RARE,
    Term,
    cast,
    eq,
    fma,
    ldexp,
    mul_add,
    ne,
    number,
    polynomial,
    round_even,
    select,
    sqrt,
    trunc,
)
from ftrace.trace.graph import constant_value
from ftrace.trace.primitives.sources import const_p

# 2/ln 2 and 2/(3·ln 2) in two numbers each.
_FIRST_SINGLE: Final = (2.88539004, 3.85192605e-08)
_FIRST_DOUBLE: Final = (2.8853900817779268, 4.0710547481862066e-17)
_THIRD_SINGLE: Final = (0.961796701, -7.02846181e-09)
_THIRD_DOUBLE: Final = (0.9617966939259756, 5.0577616648125907e-17)
# (2·atanh(s)/(s·ln 2) - first - third·s²)/s⁴ in s² for |s| ≤ 0.1717.
_LOG2_SINGLE: Final = (0.337934643, 0.411844581, 0.57708025)
_LOG2_DOUBLE: Final = (
    0.19041525559474326, 0.19125203445395525, 0.22198412811935964, 0.2623076983831811,
    0.3205989023038865, 0.41219858309177565, 0.5770780163556183,
)  # fmt: skip


def _log2_pair(x: Term) -> Pair:
    """log2(x) in two numbers, to 2^-35 or 2^-64 of it; x = 2ᵏ(1 + f), s = f/(2 + f)."""
    f, k = split_at_root(x)
    below, below_low = fast_two_sum(number(2.0, x), f)
    inverse = 1.0 / below
    s = f * inverse
    s_low = inverse * mul_add(-s, below_low, fma(-s, below, f))
    square, square_low = two_product(s, s)
    square_low = mul_add(s + s, s_low, square_low)
    tail = square * polynomial(square, _LOG2_SINGLE if x.single else _LOG2_DOUBLE)
    third, third_low = _THIRD_SINGLE if x.single else _THIRD_DOUBLE
    first, first_low = _FIRST_SINGLE if x.single else _FIRST_DOUBLE
    inner, inner_low = fast_two_sum(number(third, x), tail)
    product, product_low = _product(square, square_low, inner, inner_low + third_low)
    outer, outer_low = fast_two_sum(number(first, x), product)
    result, low = _product(s, s_low, outer, outer_low + (product_low + first_low))
    high, carry = fast_two_sum(k, result)
    return fast_two_sum(high, carry + low)


def _product(a: Term, a_low: Term, b: Term, b_low: Term) -> Pair:
    """(a + a_low)·(b + b_low) in two numbers."""
    product, error = two_product(a, b)
    return product, mul_add(a, b_low, mul_add(a_low, b, error))


def power(x: Term, y: Term) -> Term:
    """x to the power y, with the special values of C99 (annex F.9.4.4).

    Small constant powers are products and roots.
    """
    simple = _simple_power(x, y)
    if simple is not None:
        return simple
    return _with_special_values(x, y, _positive_power(abs(x), y))


def _positive_power(a: Term, y: Term) -> Term:
    """aʸ for 0 < a < ∞ and a finite y."""
    log_high, log_low = _log2_pair(a)
    # Beyond these bounds every power but 1 is 0 or ∞, and products stay finite.
    bound = 2.0**40 if a.single else 2.0**70
    y = clamp(y, -bound, bound)
    product, error = two_product(y, log_high)
    high, low = fast_two_sum(product, fma(y, log_low, error))
    within = abs(high) < 4.0 * format_of(a).bias
    value, n = exp2_parts(high, select(within, low, 0.0))
    return ldexp(value, n)


def power_by_tables(x: Term, y: Term) -> Term:
    """`power` where `TABLES` can be looked up: float32 in float64 arithmetic."""
    if not x.single:
        return power(x, y)
    simple = _inverse_of_product(x, y)
    if simple is None:
        simple = _simple_power(x, y)
    if simple is not None:
        return simple
    log = log2_by_tables(cast(abs(x), dtypes.float64))
    e = cast(y, dtypes.float64) * log
    n = round_even(e)  # beyond all exponents it is e, and 2ⁿ is ∞ or 0
    value = polynomial(cast(e - n, dtypes.float32), EXP2_SINGLE)
    value = ldexp(value, cast(n, dtypes.float32))
    return _with_special_values(x, y, value)


def _with_special_values(x: Term, y: Term, value: Term) -> Term:
    """xʸ where `value` is that of |x|, right where |x| is neither 0 nor infinite."""
    usual = (x > 0.0) & (x < INFINITY)
    if y.node.op is not const_p or not math.isfinite(constant_value(y.node)):
        usual = usual & (abs(y) < INFINITY)
    a = abs(x)
    whole = eq(trunc(y), y)
    half = y * 0.5
    odd = whole & ne(trunc(half), half)
    limit = select((a < 1.0) ^ (y < 0.0), number(0.0, x), INFINITY)
    at_end = eq(a, 0.0) | eq(a, INFINITY)
    special = select((x < 0.0) & ~whole, NAN, value)
    special = select(at_end | eq(abs(y), INFINITY), limit, special)
    special = float_of(bits_of(special) ^ select(odd, sign_bit(x), 0))
    special = select(ne(x, x) | ne(y, y), x + y, special)
    one = eq(x, 1.0) | eq(y, 0.0) | (eq(a, 1.0) & eq(abs(y), INFINITY))
    return select(~usual, select(one, 1.0, special), value, RARE)


def _simple_power(x: Term, power: Term) -> Term | None:
    """x to a constant power that needs no logarithm."""
    if power.node.op is not const_p:
        return None
    y = float(constant_value(power.node))
    if y == 0.0:
        return number(1.0, x)
    if y == 0.5:  # its value at -0 and -∞ is not that of sqrt
        return select(eq(x, -INFINITY), INFINITY, sqrt(x) + 0.0)
    if y == -0.5:
        return select(eq(x, -INFINITY), 0.0, 1.0 / (sqrt(x) + 0.0))
    if y == -1.0:
        return 1.0 / x
    if y in (-2.0, -3.0, -4.0):
        return _inverse(x, int(-y))
    return _repeated(x, int(y)) if y in (1.0, 2.0, 3.0, 4.0) else None


def _repeated(x: Term, count: int) -> Term:
    """x multiplied by itself: squared, and halves multiplied."""
    if count == 1:
        return x
    half = _repeated(x, count // 2)
    square = half * half
    return square * x if count & 1 else square


def _inverse(x: Term, count: int) -> Term:
    """1 / xⁿ; also where that is denormal, and xⁿ is too large for a float.

    Large powers are scaled by a power of two, and so is the 1 that they divide.
    """
    half = _repeated(x, count // 2)
    rest = half * x if count & 1 else half
    bits = format_of(x).bias + 1
    large = abs(rest) >= 2.0 ** (bits // 2 - 4)
    scale = select(large, number(2.0 ** -(bits // 4), x), 1.0)
    return scale / (half * scale * rest)


#: More factors take as long as a logarithm.
_FACTORS: Final = 16


def _inverse_of_product(x: Term, power: Term) -> Term | None:
    """x to a whole negative power by float64's product: no float32 overflows it.

    It overflows only where the inverse is 0, and is 0 only where that is infinite.
    """
    if power.node.op is not const_p:
        return None
    y = float(constant_value(power.node))
    if not y.is_integer() or not -_FACTORS <= y < -4:
        return None
    product = _repeated(cast(x, dtypes.float64), int(-y))
    return cast(1.0 / product, dtypes.float32)


#: The guess at x^(-1/3): its bits are those of this number less a third of x's.
_CBRT_BITS_SINGLE: Final = 0x54A1F600
_CBRT_BITS_DOUBLE: Final = 0x553EE96AC0000000


def cbrt(x: Term) -> Term:
    """x·y² with y = x^(-1/3), and a step of Newton for x = c³.

    y is a guess from the bits, right to 3 %, and a step (float64: two) of order four
    with e = 1 - x·y³: (1 - e)^(-1/3) = 1 + e/3 + 2e²/9 + 14e³/81 + ….
    """
    layout = format_of(x)
    a = abs(x)
    small = a < 16.0 * layout.tiny
    lift = 24 if x.single else 54
    scaled = select(small, a * 2.0**lift, a)
    # A third of the bits: shifted right until they are a float exactly, and back.
    shift = 9 if x.single else 13
    first = (_CBRT_BITS_SINGLE if x.single else _CBRT_BITS_DOUBLE) >> shift
    third = integer_to_float(bits_of(scaled) >> shift) * (-1 / 3)
    guess = third + (2.0**layout.fraction + first)
    y = float_of(bits_of(guess) << shift)
    for _ in range(1 if x.single else 2):
        e = fma(-(scaled * y), y * y, 1.0)
        y = mul_add(y, e * polynomial(e, (14 / 81, 2 / 9, 1 / 3)), y)
    square = y * y
    root = scaled * square
    # A quarter of the error: where no fma is, root³ could overflow.
    error = fma(-(root * root), root * 0.25, scaled * 0.25)
    root = fma(error, square * (4 / 3), root)
    root = root * select(small, number(2.0 ** (-lift // 3), x), 1.0)
    plain = eq(x, 0.0) | eq(a, INFINITY)
    return select(plain, x, copy_sign(root, x))
