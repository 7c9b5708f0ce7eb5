"""The error function, its complement and its inverse; lgamma and digamma; by tables.

Near their zeros lgamma and digamma are the product of the distances to the zeros and a
polynomial, elsewhere they are moved there by the recurrence of gamma or, for large
arguments, sums of their asymptotic series, whose coefficients are fitted too. Negative
arguments are reflected. The polynomials are fitted as in `exponential.py`.

Processors that keep tables in registers take tanh and its like in 32 pieces, by tables
of 32 float32. A float without its sign is in the piece that its exponent and the two
leading bits of its fraction name: four pieces for each power of two, eight powers. With
c near the middle of the piece and t = |x| - c,

    f(|x|) = f(c) + t·(c₁ + c₂·t + … + c₅·t⁴),

where c is such a float that f(c) is one, too, to a hundredth of its last bit. So there
is no division, and hardly an error but that of the last addition. The first piece goes
down to 0: in it tanh and erf have c = 0 and f(t) = t + t·(c₁ + …), where t is small.
These polynomials are fitted by least squares at 48 Chebyshev points, weighted by 1/f,
and rounded one after the other, lowest power first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.lower.kernel.ir import KernelOp
from ftrace.lower.legalize import exponential, term
from ftrace.lower.legalize.term import INFINITY, NAN, Term
from ftrace.lower.legalize.trigonometry import sin_cos_pi

# erf(x)/x - 1 in x² for |x| ≤ 1: 2^-29.4 and 2^-56.0 of erf(x).
_ERF_SINGLE: Final = (
    7.80690316e-05, -0.00079978531, 0.0051871622, -0.0268533472, 0.112835787,
    -0.37612626, 0.128379166,
)  # fmt: skip
_ERF_DOUBLE: Final = (
    -7.596171061023791e-10, 1.3611305962174541e-08, -1.6182930905800952e-07,
    1.644403523561465e-06, -1.4924458051341012e-05, 0.0001205528018670506,
    -0.0008548325477257746, 0.005223977596624107, -0.02686617064195093,
    0.11283791670936928, -0.37612638903183343, 0.12837916709551256,
)  # fmt: skip
# log(erfc(x)): for x in [1, 4], 2^-29.8, for x in [1, 6], 2^-59.5 of erf(x).
_ERF_TAIL_SINGLE: Final = (
    0.000186379577, -0.0029476604, 0.0218380485, -0.103106655, -0.63814503, -1.12708902,
    -0.000341575011,
)  # fmt: skip
_ERF_TAIL_DOUBLE: Final = (
    1.0496137086868823e-12, -4.795999499914662e-11, 1.02569187051321e-09,
    -1.3626574905475069e-08, 1.2570372177918298e-07, -8.505661171477815e-07,
    4.3270044804537085e-06, -1.6513816274201345e-05, 4.503709019494464e-05,
    -7.036614682086406e-05, -4.48230939296801e-05, 0.0006411732983145362,
    -0.0017690009811119976, 0.0002804885359714824, 0.01907815605728271,
    -0.10274725276541, -0.6366284886698199, -1.1283773293219117,
    -1.7961402523834723e-07,
)  # fmt: skip
# ((1 + 2x)·exp(x²)·erfc(x) - c)/q in q = (x - m)/(x + m), with the middle m and c in
# two numbers; for 0 ≤ x ≤ 10.3, 2^-28.7, for 0 ≤ x ≤ 27.6, 2^-59.4 of the product.
_ERFC_SINGLE: Final = (
    -0.000268688949, -0.000776317494, 0.00200624764, 0.00256920746, -0.0237995703,
    0.0682946369, -0.119270667, 0.129646584, -0.0475624166, -0.135621145,
)  # fmt: skip
_ERFC_DOUBLE: Final = (
    1.1945074967898635e-09, 1.660246509854379e-09, -1.4090595765318868e-08,
    -1.7446360172759644e-08, 1.1039688889750856e-07, 7.411516926791737e-08,
    -8.260368146405673e-07, 2.9412165830506757e-07, 5.710234961576439e-06,
    -1.1222147649097459e-05, -2.4399452404765432e-05, 0.00015062170731709753,
    -0.00019925662492749886, -0.0007577732949004324, 0.0050319699652650205,
    -0.016197734056906738, 0.03716751553886998, -0.06633036581229539,
    0.09373283499826822, -0.1010390660363008, 0.06809705425469474, 0.015379652102619679,
    -0.13962111684056253,
)  # fmt: skip
_ERFC_MIDDLE_SINGLE: Final = 3.0
_ERFC_MIDDLE_DOUBLE: Final = 4.0
_ERFC_CONSTANT_SINGLE: Final = (1.25300801, 5.13085521e-08)
_ERFC_CONSTANT_DOUBLE: Final = (1.2329951186255526, -4.5224593329577977e-17)
# erf_inv(x)/x with w = -log(1 - x²), in w - middle up to a limit of w, in
# sqrt(w) - middle beyond it: 2^-24.6, 2^-26.3; 2^-55.5, 2^-52.9, 2^-53.7.
_CENTRE_SINGLE: Final = (
    -8.23665491e-09, 2.8213389e-08, 4.59955146e-07, -3.52394159e-06, -4.9435339e-06,
    0.000218578178, -0.00125275552, -0.00417766906, 0.24664028, 1.50140941,
)  # fmt: skip
_TAIL_SINGLE: Final = (
    0.000113399823, -0.000305234338, -5.57506319e-05, 0.00147937657, -0.00359640038,
    0.00568959443, -0.00763784628, 0.00944481697, 1.00167501, 2.83297682,
)  # fmt: skip
_CENTRE_DOUBLE: Final = (
    3.3793826571409963e-21, -9.786644716304118e-22, -3.5775208573967706e-19,
    1.142710743758685e-18, 1.5764676617089882e-17, -1.2999775073289113e-16,
    -4.293337215466267e-17, 6.59412836847339e-15, -3.9989187344973736e-14,
    -8.116512834119841e-14, 2.630351182531894e-12, -1.2976986273650756e-11,
    -5.4142377016688416e-11, 1.0512185016749987e-09, -4.112662010587749e-09,
    -2.907038301827337e-08, 4.234788191317518e-07, -1.365469184087672e-06,
    -1.3882523395847945e-05, 0.000186734208023987, -0.0007407025341539206,
    -0.006033670871427663, 0.24015818242558826, 1.6536545626831027,
)  # fmt: skip
_TAIL_DOUBLE: Final = (
    3.485927528828837e-09, 9.214794337804398e-08, -2.784289491941968e-07,
    1.4790524919611445e-08, 1.506236346171076e-06, -4.010325626984144e-06,
    2.9213951469521418e-06, 1.2473359691862313e-05, -4.7317514254541255e-05,
    6.828546563059472e-05, 2.4030958925658763e-05, -0.00035503763177582105,
    0.0009532893988337329, -0.0016882755451435197, 0.002491442094778957,
    -0.0037512085080519345, 0.0053709145536317265, 1.0052589676941652,
    3.0838856104922203,
)  # fmt: skip
_FAR_DOUBLE: Final = (
    3.196011247206999e-11, -2.524545223960381e-11, -3.916059361367878e-10,
    1.5003445274198807e-09, -3.5505292730510623e-09, 7.627603622678096e-09,
    -1.5183303088161368e-08, 2.9137528202560555e-08, -6.7592746993827e-08,
    2.2901013251976418e-07, -9.930190316557835e-07, 4.526061022619047e-06,
    -1.9681772206146215e-05, 7.599527728392753e-05, -0.00021503011973532328,
    -0.00013871931835482816, 1.010300464864544, 4.849906401408584,
)  # fmt: skip


def erf(x: Term) -> Term:
    """x + x·P(x²) up to 1, 1 - exp(log(erfc(|x|))) beyond."""
    a = abs(x)
    end = 4.0 if x.single else 6.0
    tail = _ERF_TAIL_SINGLE if x.single else _ERF_TAIL_DOUBLE
    beyond = 1.0 - exponential.exp_normal(
        term.polynomial(term.clamp(a, None, end), tail)
    )
    return term.copy_sign(term.select(a < 1.0, _small_erf(a), beyond), x)


def _small_erf(x: Term) -> Term:
    """erf(x) up to 1."""
    return term.fma(
        x, term.polynomial(x * x, _ERF_SINGLE if x.single else _ERF_DOUBLE), x
    )


def erfc(x: Term) -> Term:
    """1 - erf(x) up to 3/4, beyond it exp(-a²)·P(q)/(1 + 2a) with a = |x|.

    There q = (a - m)/(a + m); a negative x takes 2 less that. The rounding errors of
    a², 1 + 2a and the quotient are carried along.
    """
    a = term.clamp(abs(x), None, 10.2 if x.single else 27.5)
    middle = _ERFC_MIDDLE_SINGLE if x.single else _ERFC_MIDDLE_DOUBLE
    constant, rest = _ERFC_CONSTANT_SINGLE if x.single else _ERFC_CONSTANT_DOUBLE
    q = (a - middle) / (a + middle)
    slope = term.polynomial(q, _ERFC_SINGLE if x.single else _ERFC_DOUBLE)
    series = term.fma(slope, q, constant)
    series_low = term.fma(slope, q, constant - series) + rest
    below, below_low = term.two_sum(a + a, term.number(1.0, x))
    t = 1.0 / below
    t_low = term.mul_add(-t, below_low, term.fma(-t, below, 1.0)) * t
    product, product_low = term.two_product(series, t)
    product_low = term.mul_add(series, t_low, term.mul_add(series_low, t, product_low))
    square, square_low = term.two_product(a, a)
    part, n = exponential.expm1_parts(-square)
    product_low = term.mul_add(-square_low, product, product_low)  # times e^-square_low
    value = product + term.fma(
        product, part, term.mul_add(product_low, part, product_low)
    )
    value = term.ldexp(value, n)
    value = term.select(x < 0.0, 2.0 - value, value)
    return term.select(abs(x) < 0.75, 1.0 - _small_erf(x), value)


def erf_inv(x: Term) -> Term:
    """x·P(w) with w = -log(1 - x²).

    The variable is that of M. Giles, Approximating the erfinv function (GPU Computing
    Gems, Jade edition, 2011).
    """
    a = abs(x)
    below = term.fma(-a, a, 1.0)
    w = -exponential.log_of_parts(term.mantissa(below) - 1.0, term.exponent(below))
    if x.single:
        value = term.select(
            w < 5.0,
            term.polynomial(w - 2.5, _CENTRE_SINGLE),
            term.polynomial(term.sqrt(w) - 3.0, _TAIL_SINGLE),
        )
    else:
        root = term.sqrt(w)
        tail = term.polynomial(root - 3.25, _TAIL_DOUBLE)
        far = term.polynomial(root - 5.0, _FAR_DOUBLE)
        value = term.select(
            w < 6.25,
            term.polynomial(w - 3.125, _CENTRE_DOUBLE),
            term.select(w < 16.0, tail, far),
        )
    end = term.select(term.eq(a, 1.0), term.copy_sign(term.number(INFINITY, x), x), NAN)
    return term.select(a < 1.0, x * value, end)


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
    reflected = math.log(math.pi) - exponential.log(a * sine) - value
    value = term.select(x < -(2.0**-27 if x.single else 2.0**-60), reflected, value)
    pole = (x <= 0.0) & term.eq(term.round_even(x), x)
    return term.select(pole | term.eq(a, INFINITY), INFINITY, value)


def _lgamma_positive(a: Term) -> Term:
    large = a > _LGAMMA_LARGE
    small = a < 0.75
    z = term.select(small, a + 1.0, a)
    factors = term.number(1.0, a)
    for _ in range(4):
        step = z > 2.25
        z = term.select(step, z - 1.0, z)
        factors = term.select(step, factors * z, factors)
    factors = term.select(small, a, factors)
    logarithm = exponential.log(term.select(large, a, factors))
    series = term.polynomial(z - 1.5, _LGAMMA_SINGLE if a.single else _LGAMMA_DOUBLE)
    near = (z - 1.0) * (z - 2.0) * series
    near = near + term.select(small, -logarithm, logarithm)
    inverse = 1.0 / a
    tail = _STIRLING_SINGLE if a.single else _STIRLING_DOUBLE
    rest = term.mul_add(
        term.polynomial(inverse * inverse, tail), inverse, _HALF_LOG_TWO_PI - 0.5
    )
    return term.select(large, term.fma(a - 0.5, logarithm - 1.0, rest), near)


def digamma(x: Term) -> Term:
    """The derivative of lgamma; NaN at 0 and the negative integers.

    On [1, 2] a polynomial; down to 0 and up to 3 that of x ± 1 and a reciprocal; above
    the asymptotic series; for a negative x that of 1 - x, less π·cot(πx).
    """
    negative = x < 0.0
    a = term.select(negative, 1.0 - x, x)
    small, moved = a < 1.0, a > 2.0
    z = term.select(small, a + 1.0, term.select(moved, a - 1.0, a))
    high, low = _ROOT_SINGLE if x.single else _ROOT_DOUBLE
    series = term.polynomial(z - 1.5, _DIGAMMA_SINGLE if x.single else _DIGAMMA_DOUBLE)
    near = ((z - high) - low) * series
    step = term.select(small, term.number(-1.0, x), 1.0) / term.select(small, a, z)
    near = term.select(small | moved, near + step, near)
    value = term.select(a > 3.0, _digamma_large(a), near)
    sine, cosine = sin_cos_pi(x)
    reflected = value - math.pi * (cosine / sine)
    value = term.select(negative, reflected, value)
    pole = (x <= 0.0) & term.eq(term.round_even(x), x)
    return term.select(pole, NAN, term.select(term.ne(x, x), x, value))


def _digamma_large(a: Term) -> Term:
    """log(a) - 1/(2a) - P(1/a²)/a² for a > 3; float64 takes that of a + 1 up to 4."""
    inverse = 1.0 / a
    if a.single:
        return exponential.log(a) + _digamma_tail(inverse, _DIGAMMA_TAIL_SINGLE)
    short = a < 4.0
    b = term.select(short, a + 1.0, a)
    rest = _digamma_tail(1.0 / b, _DIGAMMA_TAIL_DOUBLE)
    return exponential.log(b) + term.select(short, rest - inverse, rest)


def _digamma_tail(inverse: Term, coefficients: tuple[float, ...]) -> Term:
    square = inverse * inverse
    return term.mul_add(
        -0.5, inverse, -(square * term.polynomial(square, coefficients))
    )


#: Bits of a float below those that name its piece; pieces, and those of a power of two.
_BELOW: Final = 21
_PIECES: Final = 32
_OF_A_POWER: Final = 4

# By piece: c, f(c), c₁ … c₅. The first piece ends a quarter beyond the power of two.
_TANH_FIRST: Final = 2.0**-4
_ERF_FIRST: Final = 2.0**-6
_SCALED_ERFC_FIRST: Final = 2.0**-4
_TANH: Final = (
    (
        0.0, 0.08578105, 0.10125996, 0.11714824, 0.14082031, 0.17240351, 0.20316914,
        0.23464961, 0.28166562, 0.34228593, 0.40633985, 0.46767423, 0.5623359,
        0.68963283, 0.81141716, 0.9394641, 1.1277468, 1.3811157, 1.6211063, 1.8720562,
        2.2592626, 2.7536938, 3.2508688, 3.7409437, 4.5145125, 5.4802375, 6.4924374,
        7.51305, 9.05, 11.05, 13.05, 15.04995,
    ),
    (
        0.0, 0.08557127, 0.10091528, 0.116615266, 0.1398968, 0.17071547, 0.20041908,
        0.23043576, 0.27444595, 0.32951665, 0.38536048, 0.43631822, 0.5097085,
        0.5977461, 0.6703713, 0.73497593, 0.8102467, 0.88120085, 0.92478454, 0.9537802,
        0.9784251, 0.9919194, 0.99700284, 0.99887425, 0.99976027, 0.99996525, 0.9999954,
        0.9999994, 1.0, 1.0, 1.0, 1.0,
    ),
    (
        -6.554463e-11, 0.99267757, 0.9898161, 0.9864009, 0.9804289, 0.97085625,
        0.9598322, 0.94689935, 0.9246794, 0.89141876, 0.8514973, 0.8096264, 0.74019724,
        0.64269966, 0.5506023, 0.45981038, 0.34350026, 0.22348504, 0.14477356,
        0.09030338, 0.042684384, 0.016095921, 0.0059853396, 0.0022502348, 0.00047943927,
        6.949436e-05, 9.179014e-06, 1.1921704e-06, 6.317696e-08, 1.1571264e-09,
        2.119351e-11, 3.8816837e-13,
    ),
    (
        4.027467e-08, -0.084944606, -0.09988715, -0.11502979, -0.13715883, -0.16574033,
        -0.19236867, -0.21819945, -0.25377443, -0.29373744, -0.32813337, -0.35325477,
        -0.3772846, -0.38417116, -0.36910805, -0.3379497, -0.27832192, -0.19693632,
        -0.13388477, -0.08612964, -0.041762233, -0.015964918, -0.0059669833,
        -0.0022475447, -0.000478699, -6.941234e-05, -9.167456e-06, -1.1905479e-06,
        -1.684793e-07, -3.0858063e-09, -5.6518512e-11, -1.0352253e-12,
    ),
    (
        -0.3333372, -0.324204, -0.3210891, -0.31656283, -0.30746228, -0.29557976,
        -0.2813948, -0.26526612, -0.2385092, -0.20027351, -0.1573553, -0.115706146,
        -0.054444235, 0.01538036, 0.063914336, 0.095115155, 0.11101448, 0.09905304,
        0.07555492, 0.052048206, 0.026631668, 0.010470229, 0.0039540976, 0.0014953831,
        0.00031847163, 4.6384994e-05, 6.1182736e-06, 7.9262645e-07, -7.1380812e-09,
        -1.3073827e-10, -2.3945583e-12, -4.361702e-14,
    ),
    (
        0.00012283574, 0.0536084, 0.053911272, 0.07946182, 0.088505276, 0.10667652,
        0.120445415, 0.13368519, 0.1498921, 0.16406421, 0.16993363, 0.16824463,
        0.15330064, 0.118810214, 0.08023897, 0.042840317, 0.0032314882, -0.021404155,
        -0.025155505, -0.020917471, -0.012201487, -0.0051123505, -0.0019746297,
        -0.00075250666, -0.00016703476, -2.4235565e-05, -3.2052285e-06, -4.1638177e-07,
        7.391939e-08, 1.3538809e-09, 2.4797192e-11, 4.5412721e-13,
    ),
    (
        0.13198337, 6.9183784, 14.545183, 13.886459, -0.35279953, 0.84588975,
        0.10578474, -0.17250863, 0.0079275435, -0.022472098, -0.014168312, -0.044595387,
        -0.040380474, -0.057498123, -0.06439457, -0.05302337, -0.032127015,
        -0.009598474, 0.0014227413, 0.0045749275, 0.0039840983, 0.0019175332,
        0.00077068777, 0.000291798, 6.861987e-05, 9.220791e-06, 1.253621e-06,
        1.7068056e-07, 5.2740717e-08, 9.6598e-10, 1.7692542e-11, 3.2382186e-13,
    ),
)  # fmt: skip
_ERF: Final = (
    (
        0.0, 0.02139746, 0.025384521, 0.029268261, 0.03514043, 0.043011818, 0.050681446,
        0.058443066, 0.07013457, 0.08616797, 0.10121484, 0.11707891, 0.14091954,
        0.17166054, 0.2023918, 0.23514414, 0.28159297, 0.34233046, 0.40505314,
        0.46766093, 0.5596047, 0.6847063, 0.81026876, 0.9369953, 1.1255531, 1.3711843,
        1.6293031, 1.8765656, 2.2462375, 2.7498126, 3.2588, 3.7439187,
    ),
    (
        0.0, 0.024140764, 0.028637214, 0.03301627, 0.039635412, 0.048503727, 0.05713896,
        0.06587093, 0.079008825, 0.096990034, 0.11381991, 0.13150825, 0.15796435,
        0.19181229, 0.22529438, 0.2605215, 0.30954126, 0.37170523, 0.4332413, 0.4916265,
        0.5712897, 0.66711587, 0.7481606, 0.8148658, 0.88856417, 0.9475166, 0.9787876,
        0.9920424, 0.9985102, 0.99989927, 0.99999595, 0.9999999,
    ),
    (
        0.12837917, 1.1278627, 1.1276523, 1.127413, 1.1269866, 1.1262935, 1.1254845,
        1.1245316, 1.1228424, 1.1200321, 1.1168785, 1.1130174, 1.1061925, 1.095614,
        1.0830919, 1.0676816, 1.0423603, 1.0035986, 0.95763767, 0.90671736, 0.8249973,
        0.7060703, 0.5852283, 0.46898803, 0.317878, 0.17215429, 0.07935319, 0.033349376,
        0.007264102, 0.0005868973, 2.7580687e-05, 9.2234444e-07,
    ),
    (
        6.6168764e-07, -0.024130436, -0.028624695, -0.03299555, -0.03960287,
        -0.048443537, -0.057042707, -0.06572234, -0.07875059, -0.096510865,
        -0.113045886, -0.13031107, -0.15588406, -0.18807362, -0.2192091, -0.25105974,
        -0.2935213, -0.34356225, -0.38789403, -0.42403618, -0.46167198, -0.4834506,
        -0.47419208, -0.4394396, -0.35779023, -0.23605756, -0.12929192, -0.06258273,
        -0.0163123, -0.0016109677, -8.9387555e-05, -3.4188113e-06,
    ),
    (
        -0.37624836, -0.40602744, -0.36221537, -0.42392394, -0.36938947, -0.36635083,
        -0.3617243, -0.36556834, -0.3691771, -0.36790878, -0.36207426, -0.35934144,
        -0.35393038, -0.34369835, -0.33122993, -0.31724042, -0.29244223, -0.2561732,
        -0.21452206, -0.1700746, -0.10278155, -0.014659624, 0.061065864, 0.11818193,
        0.16251208, 0.15839095, 0.113992415, 0.067178264, 0.022020245, 0.0027607814,
        0.00018435872, 8.3096065e-06,
    ),
    (
        0.008327263, -1.3013315, -0.010500408, -0.7405565, 0.029241826, -0.01809646,
        0.18376741, 0.16513166, 0.050100617, 0.04810767, 0.08662937, 0.06986288,
        0.076476775, 0.091954954, 0.1078851, 0.12533352, 0.13897935, 0.15815213,
        0.17253555, 0.18092671, 0.18236177, 0.16600491, 0.13321178, 0.09110514,
        0.028142331, -0.029432653, -0.04945374, -0.042080995, -0.019530442,
        -0.0034063053, -0.00029548293, -1.6205926e-05,
    ),
    (
        -0.076679215, 5706.956, -2467.7393, 9134.679, -249.85011, -359.25198,
        -539.34503, -314.77847, -16.555496, 1.3691852, -30.297302, -17.376154,
        -0.35235703, 0.14655441, -0.56375766, 2.1348236, 0.13851129, 0.09040777,
        0.07625822, 0.045598384, -0.0068780766, -0.044140153, -0.060286064, -0.07124246,
        -0.061037585, -0.030615587, -0.002362329, 0.011331396, 0.010571762,
        0.0028255875, 0.00033490293, 2.007855e-05,
    ),
)  # fmt: skip
# eˣ²·erfc(x), with six coefficients.
_SCALED_ERFC: Final = (
    (
        0.039183594, 0.08579512, 0.10174844, 0.11680039, 0.14057422, 0.17200468,
        0.20272696, 0.23418829, 0.28142187, 0.34423828, 0.4061719, 0.4676039, 0.5642703,
        0.68488127, 0.8148859, 0.9347719, 1.1195406, 1.3728094, 1.6235781, 1.8708656,
        2.2558563, 2.7536561, 3.2466938, 3.7609687, 4.4994, 5.4802876, 6.4928875,
        7.5043626, 9.0025, 10.98935, 12.991075, 14.960025,
    ),
    (
        0.9572773, 0.91010207, 0.8948, 0.88073546, 0.85923034, 0.8320673, 0.80682975,
        0.78224564, 0.74755865, 0.7051844, 0.66715205, 0.6326843, 0.5841671, 0.531916,
        0.48399946, 0.44608417, 0.39700156, 0.34370008, 0.302469, 0.26991874,
        0.23057015, 0.19343115, 0.16649154, 0.14519091, 0.12250041, 0.1013142,
        0.08589756, 0.07453108, 0.06229063, 0.051129695, 0.043301478, 0.037629448,
    ),
    (
        -1.05336, -0.9722145, -0.94629014, -0.92263865, -0.8868079, -0.8421402,
        -0.8012469, -0.76199365, -0.70762044, -0.6428762, -0.5864223, -0.5366879,
        -0.46912283, -0.3997805, -0.3395705, -0.29440528, -0.23946045, -0.18470976,
        -0.14621514, -0.1184158, -0.08811292, -0.063093394, -0.04728506, -0.03626224,
        -0.026022427, -0.017917247, -0.012932814, -0.009762696, -0.006836405,
        -0.0046149064, -0.0033137077, -0.0025042177,
    ),
    (
        0.9160028, 0.8266905, 0.7985184, 0.77296907, 0.73456836, 0.6872152, 0.6443959,
        0.60379577, 0.54841876, 0.48388192, 0.42896348, 0.38172728, 0.31945506,
        0.2581137, 0.20728822, 0.17088245, 0.12891589, 0.090128794, 0.06507728,
        0.048378672, 0.03180008, 0.019693641, 0.0129714245, 0.008809765, 0.0054151136,
        0.003122532, 0.0019262532, 0.0012682681, 0.00074590725, 0.00041487272,
        0.00025285428, 0.00016628916,
    ),
    (
        -0.6784192, -0.6016876, -0.57818043, -0.5561383, -0.5221599, -0.4828637,
        -0.4470749, -0.41355938, -0.36891088, -0.31762773, -0.27489007, -0.23873693,
        -0.19257931, -0.14868034, -0.11375945, -0.089773014, -0.06342157, -0.040652934,
        -0.027038503, -0.0186045, -0.010917266, -0.005909206, -0.0034471361,
        -0.002085919, -0.0011050191, -0.0005365654, -0.00028390723, -0.00016343349,
        -8.090752e-05, -3.71478e-05, -1.923877e-05, -1.1018106e-05,
    ),
    (
        0.44484633, 0.40793428, 0.2847555, 0.4495382, 0.32730764, 0.30194816, 0.2729642,
        0.25175944, 0.22233452, 0.18686062, 0.15936807, 0.13399476, 0.10537442,
        0.0782482, 0.05733248, 0.043428928, 0.028952813, 0.017158994, 0.010590354,
        0.006789286, 0.003585393, 0.0017107121, 0.0008896462, 0.0004821966,
        0.00022138818, 9.0986454e-05, 4.1423562e-05, 2.0894504e-05, 8.727425e-06,
        3.313712e-06, 1.4597656e-06, 7.285795e-07,
    ),
    (
        -0.21423519, 9.551674, 17.46445, 15.119381, -0.7893019, 0.52969915, -0.15643127,
        -0.63672745, -0.08212284, -0.03462485, -0.013018515, -0.113616645, -0.0526526,
        -0.03587555, -0.028735274, -0.020909026, -0.012484695, -0.0068766316,
        -0.0039260546, -0.0023369077, -0.0011434049, -0.00048230754, -0.00022526535,
        -0.00011022534, -4.428866e-05, -1.5370617e-05, -6.031687e-06, -2.667639e-06,
        -9.547268e-07, -2.9801535e-07, -1.11288905e-07, -4.834086e-08,
    ),
    (
        0.08522495, -284.18704, 999.5281, -1241.4838, 8.567487, 1.6815878, 9.1820135,
        5.707673, 0.061532445, 0.40653113, -0.41020456, 0.8444519, 0.029368915,
        -0.0035538478, 0.0017759269, 0.019184211, 0.0051768194, 0.002627131,
        0.0013502113, 0.00065511104, 0.0003502223, 0.00013207669, 5.539937e-05,
        2.399343e-05, 8.54589e-06, 2.4639162e-06, 8.5651766e-07, 3.383649e-07,
        1.01753656e-07, 2.6096805e-08, 8.318673e-09, 3.0929332e-09,
    ),
)  # fmt: skip


def _by_name(numbers: Sequence[float], first: float) -> tuple[float, ...]:
    """In the order of the five bits that are looked up."""
    name = term.bits_of_number(first, single=True) >> _BELOW
    return tuple(numbers[(place - name) % _PIECES] for place in range(_PIECES))


#: The tables, by the names of the operations that look a float32 up in them.
TABLES_OF_32: Final = {
    f"{function}_of_32_{row}": _by_name(numbers, first)
    for function, first, rows in (
        ("tanh", _TANH_FIRST, _TANH),
        ("erf", _ERF_FIRST, _ERF),
        ("scaled_erfc", _SCALED_ERFC_FIRST, _SCALED_ERFC),
    )
    for row, numbers in enumerate(rows)
}
_OPS: Final = {name: KernelOp(name) for name in TABLES_OF_32}


class _Piece(NamedTuple):
    """What is known of f near a number: f(c), t and (f(c + t) - f(c))/t."""

    value: Term
    t: Term
    slope: Term


def _piece_of(a: Term, function: str, first: float) -> _Piece:
    """The piece of a number that is not negative, nor beyond the last piece."""
    place = term.float_of(term.bits_of(term.clamp(a, first, None)) >> _BELOW)
    names = [name for name in TABLES_OF_32 if name.startswith(f"{function}_of_")]
    centre, value, *powers = (term.lookup(_OPS[name], place) for name in names)
    t = a - centre
    slope = powers.pop()
    while powers:
        slope = term.mul_add(slope, t, powers.pop())
    return _Piece(value, t, slope)


def _odd_in_pieces(x: Term, function: str, first: float) -> Term:
    """f(x) of an odd function that is 1 from the last piece on."""
    end = first * 2.0 ** (_PIECES // _OF_A_POWER)
    a = term.clamp(abs(x), None, end * (1 - 2.0**-24))
    value, t, slope = _piece_of(a, function, first)
    value = term.select(a < first * (1 + 1 / _OF_A_POWER), a, value)
    return term.copy_sign(term.fma(slope, t, value), x)


def tanh_in_pieces(x: Term) -> Term:
    """tanh(x): float32 by tables."""
    return _odd_in_pieces(x, "tanh", _TANH_FIRST) if x.single else exponential.tanh(x)


def erf_in_pieces(x: Term) -> Term:
    """erf(x): float32 by tables."""
    return _odd_in_pieces(x, "erf", _ERF_FIRST) if x.single else erf(x)


def erfc_in_pieces(x: Term) -> Term:
    """e^-a²·(e^a²·erfc(a)) with a = |x|: float32 by tables; 2 less that below 0.

    The second factor, and the rounding error of a², are carried in two numbers.
    """
    if not x.single:
        return erfc(x)
    a = term.clamp(abs(x), None, 10.2)
    middle, t, slope = _piece_of(a, "scaled_erfc", _SCALED_ERFC_FIRST)
    scaled = term.fma(slope, t, middle)
    low = term.fma(slope, t, middle - scaled)
    square, square_low = term.two_product(a, a)
    part, n = exponential.expm1_parts(-square)
    low = term.mul_add(-square_low, scaled, low)  # times e^-square_low
    value = term.ldexp(scaled + term.fma(scaled, part, term.mul_add(low, part, low)), n)
    return term.select(x < 0.0, 2.0 - value, value)
