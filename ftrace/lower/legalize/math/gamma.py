"""lgamma and digamma.

Near the zeros both are the product of the distances to the zeros and a polynomial,
elsewhere they are moved there by the recurrence of gamma or, for large arguments, sums
of their asymptotic series, whose coefficients are fitted too. Negative arguments are
reflected. The polynomials are fitted as in `exponential.py`.
"""

from __future__ import annotations

import math
from typing import Final

from ftrace.lower.legalize.math.floats import INFINITY, NAN
from ftrace.lower.legalize.math.logarithm import log
from ftrace.lower.legalize.math.term import (
    Term,
    eq,
    fma,
    mul_add,
    ne,
    number,
    polynomial,
    round_even,
    select,
)
from ftrace.lower.legalize.math.trigonometry import sin_cos_pi

# log(gamma(z))/((z - 1)(z - 2)) in z - 3/2 for z in [3/4, 9/4]: 2^-25.0 and 2^-54.7.
_LGAMMA_SINGLE: Final = (
    0.00113584334, -0.00078857498, -0.000542382768, -0.000980898272, 0.00270161778,
    -0.00324434252, 0.00521187112, -0.00942513067, 0.016829906, -0.0313082971,
    0.0629097, -0.145959899, 0.483128965,
)  # fmt: skip
_LGAMMA_DOUBLE: Final = (
    -2.113226026241961e-06, 3.849102710935695e-06, 3.8078492314401596e-06,
    -8.000119568278253e-06, -7.518925740467853e-06, 1.5088329166135467e-05,
    1.8680801695213414e-07, -3.437170413307225e-06, -1.2973439672746095e-05,
    2.2330162711869563e-05, -2.5556955829154565e-05, 3.966322142602498e-05,
    -6.652385700877468e-05, 0.00010617768154102103, -0.0001688581436418507,
    0.00027117689058281445, -0.0004379993031732485, 0.0007115344722305506,
    -0.0011644141645591826, 0.001922915180953155, -0.003212074090687351,
    0.005446457889508286, -0.009425622448172842, 0.016797098630090608,
    -0.03130848750101333, 0.06291140107457545, -0.14595989591430608, 0.4831289505409809,
)  # fmt: skip
# a·(log(gamma(a)) - Stirling's formula) in 1/a² for a ≥ 6.25: 2^-29.5 and 2^-61.5.
_STIRLING_SINGLE: Final = (-0.00275262329, 0.0833331719)
_STIRLING_DOUBLE: Final = (
    0.004308907232003472, -0.0018447275611621695, 0.000840395426922698,
    -0.0005952242911739802, 0.0007936507207623321, -0.0027777777776072476,
    0.08333333333333322,
)  # fmt: skip
_HALF_LOG_TWO_PI: Final = math.log(2 * math.pi) / 2
_LGAMMA_LARGE: Final = 6.25

# digamma(z)/(z - root) in z - 3/2 for z in [1, 2]: 2^-26.8 and 2^-54.3.
_DIGAMMA_SINGLE: Final = (
    0.00883440301, -0.0157693233, 0.0185403787, -0.0261183493, 0.0404995419,
    -0.0619963296, 0.095020771, -0.148402706, 0.24054119, -0.423627436, 0.951055884,
)  # fmt: skip
_DIGAMMA_DOUBLE: Final = (
    0.00039217848269608663, -0.00014896359875143586, -0.00029046848951764685,
    -0.00018097345602078503, 0.0005606428129022636, -0.00046693524765257746,
    0.0006090964744223025, -0.0010420013306378184, 0.0015809418859497062,
    -0.0023445156631390542, 0.00351568195211922, -0.005280044839853858,
    0.007927236674833535, -0.011908212839783201, 0.017907236445241215,
    -0.026975796947029635, 0.04076083432344533, -0.061922133269481164,
    0.09498872444656914, -0.14840492305393518, 0.2405424842408277, -0.42362742128146047,
    0.9510558760318328,
)  # fmt: skip
# The positive root of digamma in two numbers.
_ROOT_SINGLE: Final = (1.46163213, 1.24381499e-08)
_ROOT_DOUBLE: Final = (1.4616321449683622, 9.549995429965697e-17)
# (log(b) - 1/(2b) - digamma(b))·b² in 1/b²: for b ≥ 3, 2^-27.9; for b ≥ 4, 2^-57.7.
_DIGAMMA_TAIL_SINGLE: Final = (0.00326492451, -0.00829166826, 0.0833326057)
_DIGAMMA_TAIL_DOUBLE: Final = (
    0.4655174926821295, -0.2373416807413115, 0.0717467687474952, -0.020655769617573504,
    0.007565062371038925, -0.00416650414570192, 0.003968252549083746,
    -0.008333333327202597, 0.08333333333332417,
)  # fmt: skip


def lgamma(x: Term) -> Term:
    """log|gamma(x)|; ∞ at 0, the negative integers and both infinities.

    For z in [3/4, 9/4] a polynomial; below that lgamma(z) = lgamma(z + 1) - log(z); up
    to 25/4 the same upwards; beyond it Stirling's formula. One logarithm serves all.
    """
    a = abs(x)
    value = _lgamma_positive(a)
    # log(π/(a·|sin(πa)|)) - lgamma(a); so near to 0 that -log(a) is all, not at all.
    sine = abs(sin_cos_pi(a)[0])
    reflected = math.log(math.pi) - log(a * sine) - value
    value = select(x < -(2.0**-27 if x.single else 2.0**-60), reflected, value)
    pole = (x <= 0.0) & eq(round_even(x), x)
    return select(pole | eq(a, INFINITY), INFINITY, value)


def _lgamma_positive(a: Term) -> Term:
    large = a > _LGAMMA_LARGE
    small = a < 0.75
    z = select(small, a + 1.0, a)
    factors = number(1.0, a)
    for _ in range(4):
        step = z > 2.25
        z = select(step, z - 1.0, z)
        factors = select(step, factors * z, factors)
    factors = select(small, a, factors)
    logarithm = log(select(large, a, factors))
    series = polynomial(z - 1.5, _LGAMMA_SINGLE if a.single else _LGAMMA_DOUBLE)
    near = (z - 1.0) * (z - 2.0) * series
    near = near + select(small, -logarithm, logarithm)
    inverse = 1.0 / a
    tail = _STIRLING_SINGLE if a.single else _STIRLING_DOUBLE
    rest = mul_add(polynomial(inverse * inverse, tail), inverse, _HALF_LOG_TWO_PI - 0.5)
    return select(large, fma(a - 0.5, logarithm - 1.0, rest), near)


def digamma(x: Term) -> Term:
    """The derivative of lgamma; NaN at 0 and the negative integers.

    On [1, 2] a polynomial; down to 0 and up to 3 that of x ± 1 and a reciprocal; above
    the asymptotic series; for a negative x that of 1 - x, less π·cot(πx).
    """
    negative = x < 0.0
    a = select(negative, 1.0 - x, x)
    small, moved = a < 1.0, a > 2.0
    z = select(small, a + 1.0, select(moved, a - 1.0, a))
    high, low = _ROOT_SINGLE if x.single else _ROOT_DOUBLE
    series = polynomial(z - 1.5, _DIGAMMA_SINGLE if x.single else _DIGAMMA_DOUBLE)
    near = ((z - high) - low) * series
    step = select(small, number(-1.0, x), 1.0) / select(small, a, z)
    near = select(small | moved, near + step, near)
    value = select(a > 3.0, _digamma_large(a), near)
    sine, cosine = sin_cos_pi(x)
    reflected = value - math.pi * (cosine / sine)
    value = select(negative, reflected, value)
    pole = (x <= 0.0) & eq(round_even(x), x)
    return select(pole, NAN, select(ne(x, x), x, value))


def _digamma_large(a: Term) -> Term:
    """log(a) - 1/(2a) - P(1/a²)/a² for a > 3; float64 takes that of a + 1 up to 4."""
    inverse = 1.0 / a
    if a.single:
        return log(a) + _digamma_tail(inverse, _DIGAMMA_TAIL_SINGLE)
    short = a < 4.0
    b = select(short, a + 1.0, a)
    rest = _digamma_tail(1.0 / b, _DIGAMMA_TAIL_DOUBLE)
    return log(b) + select(short, rest - inverse, rest)


def _digamma_tail(inverse: Term, coefficients: tuple[float, ...]) -> Term:
    square = inverse * inverse
    return mul_add(-0.5, inverse, -(square * polynomial(square, coefficients)))
