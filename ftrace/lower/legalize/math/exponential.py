"""exp and its family: eˣ = 2ⁿ·eʳ with n = round(x/ln 2) and |r| ≤ ln 2 / 2.

The polynomials are minimax fits (Remez exchange at 50 digits, coefficients rounded one
after the other, lowest power first); the relative error of the fit stands beside each.
Errors of the functions are the greatest seen, in units in the last place: float32 over
all numbers, float64 over 10⁷ random ones (`ACCURACY`).
"""

from __future__ import annotations

import math
from typing import Final

from ftrace.lower.legalize.math.floats import (
    Pair,
    bits_of,
    clamp,
    copy_sign,
    float_of,
    format_of,
    nearest,
    power_of_two,
)
from ftrace.lower.legalize.math.term import Term, fma, ldexp, polynomial, select

_LOG2E: Final = 1 / math.log(2)
# ln 2 in two numbers: their sum is right to 2 · fraction bits.
_LN2_SINGLE: Final = (0.693147182, -1.90465421e-09)
_LN2_DOUBLE: Final = (0.6931471805599453, 2.3190468138462996e-17)

# eʳ for |r| ≤ ln 2 / 2: 2^-28.3 and 2^-57.9.
_EXP_SINGLE: Final = (
    0.00138209725, 0.00836868491, 0.0416682661, 0.166665211, 0.49999994, 1.0, 1.0,
)  # fmt: skip
_EXP_DOUBLE: Final = (
    2.5006618073567767e-08, 2.763028145583735e-07, 2.7557561415513485e-06,
    2.4801492948550074e-05, 0.00019841269541368467, 0.0013888888943885363,
    0.008333333333473577, 0.0416666666665283, 0.16666666666666458, 0.5000000000000011,
    1.0, 1.0,
)  # fmt: skip
# 2ʳ for |r| ≤ 1/2: 2^-28.3 and 2^-57.8.
EXP2_SINGLE: Final = (
    0.000153281071, 0.001339101, 0.00961850304, 0.0555035956, 0.240226477, 0.693147182,
    1.0,
)  # fmt: skip
_EXP2_DOUBLE: Final = (
    4.439521003450648e-10, 7.0733012450943904e-09, 1.0178155320006317e-07,
    1.3215438419063615e-06, 1.525273364656258e-05, 0.0001540353044994917,
    0.0013333558146531648, 0.00961812910760076, 0.055504108664821784,
    0.2402265069591011, 0.6931471805599453, 1.0,
)  # fmt: skip
# (eʳ - 1 - r)/r² for |r| ≤ ln 2 / 2: 2^-26.1 and 2^-61.6 of eʳ - 1.
_EXPM1_SINGLE: Final = (
    0.00138706574, 0.00836626161, 0.0416674353, 0.166665465, 0.49999997,
)  # fmt: skip
_EXPM1_DOUBLE: Final = (
    2.0896204312502977e-09, 2.5108701573415422e-08, 2.755732220814735e-07,
    2.7557245087649255e-06, 2.4801587286731424e-05, 0.00019841269885429122,
    0.001388888888889098, 0.00833333333332176, 0.041666666666666685,
    0.16666666666666677, 0.5,
)  # fmt: skip
# (tanh(x) - x)/x³ in x² for |x| ≤ 0.625: 2^-27.7 and 2^-56.4.
_TANH_SINGLE: Final = (
    -0.00570071349, 0.0206347033, -0.0537381098, 0.133314177, -0.333332807,
)  # fmt: skip
_TANH_DOUBLE: Final = (
    -1.6072083166155797e-05, 7.714326818874318e-05, -0.0002285631390741186,
    0.0005863159472605362, -0.0014549586730090497, 0.003591989127833083,
    -0.008863220995899984, 0.02186948757546644, -0.053968253931232515,
    0.13333333333261987, -0.33333333333332854,
)  # fmt: skip
# (sinh(x) - x)/x³ in x² for |x| ≤ 1: 2^-31.6 and 2^-61.8.
_SINH_SINGLE: Final = (
    2.78221319e-06, 0.000198428956, 0.00833331048, 0.166666672,
)  # fmt: skip
_SINH_DOUBLE: Final = (
    7.776854767959946e-13, 1.605665279493553e-10, 2.5052131055524605e-08,
    2.7557319106545604e-06, 0.00019841269841593682, 0.008333333333332912,
    0.16666666666666669,
)  # fmt: skip


def scale_by_power(y: Term, n: Term) -> Term:
    """y·2ⁿ for an integral |n| ≤ 2·bias, where no `ldexp` exists: y·2^⌊n/2⌋·2^⌈n/2⌉.

    Rounded once, also where the result is denormal, for 2^-16 ≤ |y| ≤ 2^16.
    """
    layout = format_of(y)
    exponents = bits_of(n + (layout.magic + 2 * layout.bias))
    half = exponents >> 1
    rest = exponents - half
    first = y * float_of(half << layout.fraction)
    return first * float_of(rest << layout.fraction)


def _reduce(x: Term) -> tuple[Term, Term, Term]:
    """r = x - n·ln 2, the integer n, and n + magic, for |x| < 2^(fraction - 3)."""
    high, low = _LN2_SINGLE if x.single else _LN2_DOUBLE
    n, shifted = nearest(x, _LOG2E)
    return fma(n, -low, fma(n, -high, x)), n, shifted


def exp_parts(x: Term) -> Pair:
    """(y, n) with eˣ = y·2ⁿ and y in [0.7, 1.5]."""
    r, n, _ = _reduce(x)
    return polynomial(r, _EXP_SINGLE if x.single else _EXP_DOUBLE), n


def exp_normal(x: Term) -> Term:
    """eˣ where the result is a normal number."""
    r, _, shifted = _reduce(x)
    y = polynomial(r, _EXP_SINGLE if x.single else _EXP_DOUBLE)
    return y * power_of_two(shifted)


def exp(x: Term) -> Term:
    """eˣ. Degree 6 or 11; denormal results are rounded once."""
    low, high = (-105.0, 89.0) if x.single else (-746.0, 710.0)
    return ldexp(*exp_parts(clamp(x, low, high)))


def exp2(x: Term) -> Term:
    """2ˣ = 2ⁿ·2ʳ with n = round(x), exact for integers. Degree 6 or 11."""
    return ldexp(*exp2_parts(x))


def exp2_parts(x: Term, rest: Term | None = None) -> Pair:
    """(y, n) with 2^(x + rest) = y·2ⁿ, for any x and a small rest."""
    low, high = (-151.0, 129.0) if x.single else (-1076.0, 1025.0)
    x = clamp(x, low, high)
    n, _ = nearest(x)
    r = x - n if rest is None else x - n + rest
    return polynomial(r, EXP2_SINGLE if x.single else _EXP2_DOUBLE), n


def expm1(x: Term) -> Term:
    """eˣ - 1 = 2ⁿ·(eʳ - 1) + (2ⁿ - 1); halved on the way, so that 2ⁿ is finite."""
    low, high = (-18.0, 89.0) if x.single else (-38.0, 710.0)
    x = clamp(x, low, high)
    r, _, shifted = _reduce(x)
    half = power_of_two(shifted, -1)
    # The sum of the two great terms first, which often is exact, then the small one.
    great = fma(r, half, half - 0.5)
    whole = fma(r * r * _expm1_series(r), half, great)
    tiny = 2.0**-26 if x.single else 2.0**-55
    return select(abs(x) < tiny, x, whole + whole)


def expm1_parts(x: Term) -> Pair:
    """(p, n) with eˣ = (1 + p)·2ⁿ."""
    r, n, _ = _reduce(x)
    return fma(r * r, _expm1_series(r), r), n


def _expm1_series(r: Term) -> Term:
    """(eʳ - 1 - r)/r² for |r| ≤ ln 2 / 2."""
    return polynomial(r, _EXPM1_SINGLE if r.single else _EXPM1_DOUBLE)


def logistic(x: Term) -> Term:
    """1/(1 + e⁻ˣ), as eˣ/(eˣ + 1) for a negative x, where it is as small as eˣ."""
    e = exp(-abs(x))
    return select(x < 0.0, e, 1.0) / (1.0 + e)


def tanh(x: Term) -> Term:
    """An odd polynomial up to 0.625, 1 - 2/(e^2|x| + 1) beyond."""
    a = abs(x)
    e = exp_normal(clamp(a + a, None, 44.0))
    beyond = 1.0 - 2.0 / (e + 1.0)
    small = _odd(a, _TANH_SINGLE, _TANH_DOUBLE)
    return copy_sign(select(a < 0.625, small, beyond), x)


def sinh(x: Term) -> Term:
    """An odd polynomial up to 1, e^|x|/2 - e^-|x|/2 beyond."""
    a = abs(x)
    half = _half_exp(a)
    small = _odd(a, _SINH_SINGLE, _SINH_DOUBLE)
    return copy_sign(select(a < 1.0, small, half - 0.25 / half), x)


def cosh(x: Term) -> Term:
    """e^|x|/2 + e^-|x|/2; finite where the result is."""
    half = _half_exp(abs(x))
    return half + 0.25 / half


def _half_exp(a: Term) -> Term:
    """eᵃ/2 for a ≥ 0, finite also where eᵃ is not."""
    y, n = exp_parts(clamp(a, None, 91.0 if a.single else 712.0))
    return ldexp(y, n - 1.0)


def _odd(x: Term, single: tuple[float, ...], double: tuple[float, ...]) -> Term:
    """x + x³·P(x²)."""
    square = x * x
    return fma(x * square, polynomial(square, single if x.single else double), x)
