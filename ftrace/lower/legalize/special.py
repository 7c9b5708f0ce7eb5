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
in 2 ms for each function, when a kernel first needs one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np

from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.lower.kernel.ir import KernelOp
from ftrace.lower.legalize import exponential, term
from ftrace.lower.legalize.trigonometry import sin_cos_pi

# erf(x)/x - 1 in x² for |x| ≤ 1: 2^-29.4 and 2^-56.0 of erf(x).
_ERF: Final = (
    (7.80690316e-05, -0.00079978531, 0.0051871622, -0.0268533472, 0.112835787,
     -0.37612626, 0.128379166),
    (-7.596171061023791e-10, 1.3611305962174541e-08, -1.6182930905800952e-07,
     1.644403523561465e-06, -1.4924458051341012e-05, 0.0001205528018670506,
     -0.0008548325477257746, 0.005223977596624107, -0.02686617064195093,
     0.11283791670936928, -0.37612638903183343, 0.12837916709551256),
)  # fmt: skip
# log(erfc(x)): for x in [1, 4], 2^-29.8, for x in [1, 6], 2^-59.5 of erf(x).
_ERF_TAIL: Final = (
    (0.000186379577, -0.0029476604, 0.0218380485, -0.103106655, -0.63814503,
     -1.12708902, -0.000341575011),
    (1.0496137086868823e-12, -4.795999499914662e-11, 1.02569187051321e-09,
     -1.3626574905475069e-08, 1.2570372177918298e-07, -8.505661171477815e-07,
     4.3270044804537085e-06, -1.6513816274201345e-05, 4.503709019494464e-05,
     -7.036614682086406e-05, -4.48230939296801e-05, 0.0006411732983145362,
     -0.0017690009811119976, 0.0002804885359714824, 0.01907815605728271,
     -0.10274725276541, -0.6366284886698199, -1.1283773293219117,
     -1.7961402523834723e-07),
)  # fmt: skip
# ((1 + 2x)·exp(x²)·erfc(x) - c)/q in q = (x - m)/(x + m), with the middle m and c in
# two numbers; for 0 ≤ x ≤ 10.3, 2^-28.7, for 0 ≤ x ≤ 27.6, 2^-59.4 of the product.
_ERFC: Final = (
    (-0.000268688949, -0.000776317494, 0.00200624764, 0.00256920746, -0.0237995703,
     0.0682946369, -0.119270667, 0.129646584, -0.0475624166, -0.135621145),
    (1.1945074967898635e-09, 1.660246509854379e-09, -1.4090595765318868e-08,
     -1.7446360172759644e-08, 1.1039688889750856e-07, 7.411516926791737e-08,
     -8.260368146405673e-07, 2.9412165830506757e-07, 5.710234961576439e-06,
     -1.1222147649097459e-05, -2.4399452404765432e-05, 0.00015062170731709753,
     -0.00019925662492749886, -0.0007577732949004324, 0.0050319699652650205,
     -0.016197734056906738, 0.03716751553886998, -0.06633036581229539,
     0.09373283499826822, -0.1010390660363008, 0.06809705425469474,
     0.015379652102619679, -0.13962111684056253),
)  # fmt: skip
_ERFC_MIDDLE: Final = 3.0, 4.0
_ERFC_CONSTANT: Final = (
    (1.25300801, 5.13085521e-08),
    (1.2329951186255526, -4.5224593329577977e-17),
)  # fmt: skip
# erf_inv(x)/x with w = -log(1 - x²), in w - middle up to a limit of w, in
# sqrt(w) - middle beyond it: 2^-24.6, 2^-26.3; 2^-55.5, 2^-52.9, 2^-53.7.
_CENTRE: Final = (
    (-8.23665491e-09, 2.8213389e-08, 4.59955146e-07, -3.52394159e-06, -4.9435339e-06,
     0.000218578178, -0.00125275552, -0.00417766906, 0.24664028, 1.50140941),
    (3.3793826571409963e-21, -9.786644716304118e-22, -3.5775208573967706e-19,
     1.142710743758685e-18, 1.5764676617089882e-17, -1.2999775073289113e-16,
     -4.293337215466267e-17, 6.59412836847339e-15, -3.9989187344973736e-14,
     -8.116512834119841e-14, 2.630351182531894e-12, -1.2976986273650756e-11,
     -5.4142377016688416e-11, 1.0512185016749987e-09, -4.112662010587749e-09,
     -2.907038301827337e-08, 4.234788191317518e-07, -1.365469184087672e-06,
     -1.3882523395847945e-05, 0.000186734208023987, -0.0007407025341539206,
     -0.006033670871427663, 0.24015818242558826, 1.6536545626831027),
)  # fmt: skip
_TAIL: Final = (
    (0.000113399823, -0.000305234338, -5.57506319e-05, 0.00147937657, -0.00359640038,
     0.00568959443, -0.00763784628, 0.00944481697, 1.00167501, 2.83297682),
    (3.485927528828837e-09, 9.214794337804398e-08, -2.784289491941968e-07,
     1.4790524919611445e-08, 1.506236346171076e-06, -4.010325626984144e-06,
     2.9213951469521418e-06, 1.2473359691862313e-05, -4.7317514254541255e-05,
     6.828546563059472e-05, 2.4030958925658763e-05, -0.00035503763177582105,
     0.0009532893988337329, -0.0016882755451435197, 0.002491442094778957,
     -0.0037512085080519345, 0.0053709145536317265, 1.0052589676941652,
     3.0838856104922203),
)  # fmt: skip
_FAR: Final = (
    3.196011247206999e-11, -2.524545223960381e-11, -3.916059361367878e-10,
    1.5003445274198807e-09, -3.5505292730510623e-09, 7.627603622678096e-09,
    -1.5183303088161368e-08, 2.9137528202560555e-08, -6.7592746993827e-08,
    2.2901013251976418e-07, -9.930190316557835e-07, 4.526061022619047e-06,
    -1.9681772206146215e-05, 7.599527728392753e-05, -0.00021503011973532328,
    -0.00013871931835482816, 1.010300464864544, 4.849906401408584,
)  # fmt: skip


def erf(x: term.Term) -> term.Term:
    """x + x·P(x²) up to 1, 1 - exp(log(erfc(|x|))) beyond."""
    a = abs(x)
    end = 4.0 if x.single else 6.0
    tail = x.either(_ERF_TAIL)
    beyond = 1.0 - exponential.exp_normal(
        term.polynomial(term.clamp(a, None, end), tail)
    )
    return term.copy_sign(term.select(a < 1.0, _small_erf(a), beyond), x)


def _small_erf(x: term.Term) -> term.Term:
    """erf(x) up to 1."""
    return term.fma(x, term.polynomial(x * x, x.either(_ERF)), x)


def erfc(x: term.Term) -> term.Term:
    """1 - erf(x) up to 3/4, beyond it exp(-a²)·P(q)/(1 + 2a) with a = |x|.

    There q = (a - m)/(a + m); a negative x takes 2 less that. The rounding errors of
    a², 1 + 2a and the quotient are carried along.
    """
    a = term.clamp(abs(x), None, 10.2 if x.single else 27.5)
    middle = x.either(_ERFC_MIDDLE)
    constant, rest = x.either(_ERFC_CONSTANT)
    q = (a - middle) / (a + middle)
    slope = term.polynomial(q, x.either(_ERFC))
    series = term.fma(slope, q, constant)
    series_low = term.fma(slope, q, constant - series) + rest
    below, below_low = term.two_sum(a + a, term.number(1.0, x))
    t = 1.0 / below
    t_low = term.mul_add(-t, below_low, term.fma(-t, below, 1.0)) * t
    product, product_low = term.two_product(series, t)
    product_low = term.mul_add(series, t_low, term.mul_add(series_low, t, product_low))
    value = _erfc_of_scaled(x, a, product, product_low)
    return term.select(abs(x) < 0.75, 1.0 - _small_erf(x), value)


def _erfc_of_scaled(
    x: term.Term, a: term.Term, scaled: term.Term, low: term.Term
) -> term.Term:
    """e^-a²·(scaled + low), or 2 less that below 0."""
    square, square_low = term.two_product(a, a)
    part, n = exponential.expm1_parts(-square)
    low = term.mul_add(-square_low, scaled, low)  # times e^-square_low
    value = term.ldexp(scaled + term.fma(scaled, part, term.mul_add(low, part, low)), n)
    return term.select(x < 0.0, 2.0 - value, value)


def erf_inv(x: term.Term) -> term.Term:
    """x·P(w) with w = -log(1 - x²).

    The variable is that of M. Giles, Approximating the erfinv function (GPU Computing
    Gems, Jade edition, 2011).
    """
    a = abs(x)
    below = term.fma(-a, a, 1.0)
    w = -exponential.log_of_parts(term.mantissa(below) - 1.0, term.exponent(below))
    root = term.sqrt(w)
    limit, middle = (5.0, 3.0) if x.single else (6.25, 3.25)
    value = term.polynomial(root - middle, x.either(_TAIL))
    if not x.single:
        value = term.select(w < 16.0, value, term.polynomial(root - 5.0, _FAR))
    centre = term.polynomial(w - limit / 2, x.either(_CENTRE))
    value = term.select(w < limit, centre, value)
    end = term.select(
        term.eq(a, 1.0), term.copy_sign(term.number(term.INFINITY, x), x), term.NAN
    )
    return term.select(a < 1.0, x * value, end)


# log(gamma(z))/((z - 1)(z - 2)) in z - 3/2 for z in [3/4, 9/4]: 2^-25.0 and 2^-54.7.
_LGAMMA: Final = (
    (0.00113584334, -0.00078857498, -0.000542382768, -0.000980898272, 0.00270161778,
     -0.00324434252, 0.00521187112, -0.00942513067, 0.016829906, -0.0313082971,
     0.0629097, -0.145959899, 0.483128965),
    (-2.113226026241961e-06, 3.849102710935695e-06, 3.8078492314401596e-06,
     -8.000119568278253e-06, -7.518925740467853e-06, 1.5088329166135467e-05,
     1.8680801695213414e-07, -3.437170413307225e-06, -1.2973439672746095e-05,
     2.2330162711869563e-05, -2.5556955829154565e-05, 3.966322142602498e-05,
     -6.652385700877468e-05, 0.00010617768154102103, -0.0001688581436418507,
     0.00027117689058281445, -0.0004379993031732485, 0.0007115344722305506,
     -0.0011644141645591826, 0.001922915180953155, -0.003212074090687351,
     0.005446457889508286, -0.009425622448172842, 0.016797098630090608,
     -0.03130848750101333, 0.06291140107457545, -0.14595989591430608,
     0.4831289505409809),
)  # fmt: skip
# a·(log(gamma(a)) - Stirling's formula) in 1/a² for a ≥ 6.25: 2^-29.5 and 2^-61.5.
_STIRLING: Final = (
    (-0.00275262329, 0.0833331719),
    (0.004308907232003472, -0.0018447275611621695, 0.000840395426922698,
     -0.0005952242911739802, 0.0007936507207623321, -0.0027777777776072476,
     0.08333333333333322),
)  # fmt: skip
_HALF_LOG_TWO_PI: Final = math.log(2 * math.pi) / 2
_LGAMMA_LARGE: Final = 6.25

# digamma(z)/(z - root) in z - 3/2 for z in [1, 2]: 2^-26.8 and 2^-54.3.
_DIGAMMA: Final = (
    (0.00883440301, -0.0157693233, 0.0185403787, -0.0261183493, 0.0404995419,
     -0.0619963296, 0.095020771, -0.148402706, 0.24054119, -0.423627436, 0.951055884),
    (0.00039217848269608663, -0.00014896359875143586, -0.00029046848951764685,
     -0.00018097345602078503, 0.0005606428129022636, -0.00046693524765257746,
     0.0006090964744223025, -0.0010420013306378184, 0.0015809418859497062,
     -0.0023445156631390542, 0.00351568195211922, -0.005280044839853858,
     0.007927236674833535, -0.011908212839783201, 0.017907236445241215,
     -0.026975796947029635, 0.04076083432344533, -0.061922133269481164,
     0.09498872444656914, -0.14840492305393518, 0.2405424842408277,
     -0.42362742128146047, 0.9510558760318328),
)  # fmt: skip
# The positive root of digamma in two numbers.
_ROOT: Final = (1.46163213, 1.24381499e-08), (1.4616321449683622, 9.549995429965697e-17)
# (log(b) - 1/(2b) - digamma(b))·b² in 1/b²: for b ≥ 3, 2^-27.9; for b ≥ 4, 2^-57.7.
_DIGAMMA_TAIL: Final = (
    (0.00326492451, -0.00829166826, 0.0833326057),
    (0.4655174926821295, -0.2373416807413115, 0.0717467687474952, -0.020655769617573504,
     0.007565062371038925, -0.00416650414570192, 0.003968252549083746,
     -0.008333333327202597, 0.08333333333332417),
)  # fmt: skip


def lgamma(x: term.Term) -> term.Term:
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
    return term.select(pole | term.eq(a, term.INFINITY), term.INFINITY, value)


def _lgamma_positive(a: term.Term) -> term.Term:
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
    series = term.polynomial(z - 1.5, a.either(_LGAMMA))
    near = (z - 1.0) * (z - 2.0) * series
    near = near + term.select(small, -logarithm, logarithm)
    inverse = 1.0 / a
    tail = a.either(_STIRLING)
    rest = term.mul_add(
        term.polynomial(inverse * inverse, tail), inverse, _HALF_LOG_TWO_PI - 0.5
    )
    return term.select(large, term.fma(a - 0.5, logarithm - 1.0, rest), near)


def digamma(x: term.Term) -> term.Term:
    """The derivative of lgamma; NaN at 0 and the negative integers.

    On [1, 2] a polynomial; down to 0 and up to 3 that of x ± 1 and a reciprocal; above
    the asymptotic series; for a negative x that of 1 - x, less π·cot(πx).
    """
    negative = x < 0.0
    a = term.select(negative, 1.0 - x, x)
    small, moved = a < 1.0, a > 2.0
    z = term.select(small, a + 1.0, term.select(moved, a - 1.0, a))
    high, low = x.either(_ROOT)
    series = term.polynomial(z - 1.5, x.either(_DIGAMMA))
    near = ((z - high) - low) * series
    step = term.select(small, term.number(-1.0, x), 1.0) / term.select(small, a, z)
    near = term.select(small | moved, near + step, near)
    value = term.select(a > 3.0, _digamma_large(a), near)
    sine, cosine = sin_cos_pi(x)
    reflected = value - math.pi * (cosine / sine)
    value = term.select(negative, reflected, value)
    pole = (x <= 0.0) & term.eq(term.round_even(x), x)
    return term.select(pole, term.NAN, term.select(term.ne(x, x), x, value))


def _digamma_large(a: term.Term) -> term.Term:
    """log(a) - 1/(2a) - P(1/a²)/a² for a > 3; float64 takes that of a + 1 up to 4."""
    inverse = 1.0 / a
    if a.single:
        return exponential.log(a) + _digamma_tail(inverse)
    short = a < 4.0
    b = term.select(short, a + 1.0, a)
    rest = _digamma_tail(1.0 / b)
    return exponential.log(b) + term.select(short, rest - inverse, rest)


def _digamma_tail(inverse: term.Term) -> term.Term:
    square = inverse * inverse
    series = term.polynomial(square, inverse.either(_DIGAMMA_TAIL))
    return term.mul_add(-0.5, inverse, -(square * series))


#: Bits of a float below those that name its piece; pieces, and those of a power of two.
_BELOW: Final = 21
_PIECES: Final = 32
_OF_A_POWER: Final = 4


class _Pieces(NamedTuple):
    """A function in pieces.

    Attributes:
      function: of a float.
      first: the first piece ends a quarter beyond this power of two.
      terms: how many coefficients a piece has.
    """

    function: Callable[[float], float]
    first: float
    terms: int


def _scaled_erfc(x: float) -> float:
    return math.exp(x * x) * math.erfc(x)


_IN_PIECES: Final = {
    "tanh": _Pieces(math.tanh, 2.0**-4, 5),
    "erf": _Pieces(math.erf, 2.0**-6, 5),
    "scaled_erfc": _Pieces(_scaled_erfc, 2.0**-4, 6),
}


@cache
def tables_of(name: str) -> list[list[float]]:
    """c, f(c), c₁, … by piece, in the order of the five bits that are looked up."""
    scalar, first, terms = _IN_PIECES[name]

    def f(x: Any) -> Any:
        found: Any = np.frompyfunc(scalar, 1, 1)(x)
        return found.astype(np.float64)

    power, quarter = np.divmod(np.arange(_PIECES + 1), _OF_A_POWER)
    edges = first * np.ldexp(1 + quarter / _OF_A_POWER, power)
    edges[0] = 0
    low, high = edges[:-1, None], edges[1:, None]
    middle, half = (low + high) / 2, (high - low) / 2
    near: Any = np.float32(middle * (1 + np.arange(-199, 200, 2) / 8192))
    exact = f(near)
    off = abs(exact - np.float32(exact)) / np.spacing(np.float32(exact))
    c: Any = np.take_along_axis(near, off.argmin(1)[:, None], 1).astype(np.float64)
    is_odd = scalar(0.0) == 0
    c[0] *= not is_odd
    t = middle + half * np.cos(np.pi * (np.arange(48) + 0.5) / 48) - c
    value = f(c + t)
    slope = (value - f(c)) / t
    slope[0] -= is_odd
    weight = (t / value)[..., None]
    powers = weight * t[..., None] ** np.arange(terms)
    crosswise: Any = powers.swapaxes(1, 2)
    wanted = crosswise @ (weight * slope[..., None])
    linalg: Any = np.linalg
    fitted = linalg.solve(crosswise @ powers, wanted)
    columns: list[Any] = [c, f(c), fitted[..., 0]]
    rows: Any = np.concatenate(columns, axis=1).astype(np.float32)
    start = term.bits_of_number(first, single=True) >> _BELOW
    table: Any = np.roll(rows.T, start, axis=1)
    return table.tolist()


#: The operations that look a float32 up in tables: which of those of which function.
TABLES_OF_32: Final = {
    f"{name}_of_32_{row}": (name, row)
    for name, how in _IN_PIECES.items()
    for row in range(how.terms + 2)
}
_OPS: Final = {place: KernelOp(name) for name, place in TABLES_OF_32.items()}


def _piece_of(a: term.Term, name: str) -> tuple[term.Term, term.Term, term.Term]:
    """f(c), t and (f(c + t) - f(c))/t of a number in no piece beyond the last."""
    _, first, terms = _IN_PIECES[name]
    place = term.float_of(term.bits_of(term.clamp(a, first, None)) >> _BELOW)
    rows = range(terms + 2)
    centre, value, *powers = (term.apply(_OPS[name, row], place) for row in rows)
    t = a - centre
    slope = powers.pop()
    while powers:
        slope = term.mul_add(slope, t, powers.pop())
    return value, t, slope


def _odd_in_pieces(x: term.Term, name: str) -> term.Term:
    """f(x) of an odd function that is 1 from the last piece on."""
    first = _IN_PIECES[name].first
    end = first * 2.0 ** (_PIECES // _OF_A_POWER)
    a = term.clamp(abs(x), None, end * (1 - 2.0**-24))
    value, t, slope = _piece_of(a, name)
    value = term.select(a < first * (1 + 1 / _OF_A_POWER), a, value)
    return term.copy_sign(term.fma(slope, t, value), x)


def tanh_in_pieces(x: term.Term) -> term.Term:
    """tanh(x): float32 by tables."""
    return _odd_in_pieces(x, "tanh") if x.single else exponential.tanh(x)


def erf_in_pieces(x: term.Term) -> term.Term:
    """erf(x): float32 by tables."""
    return _odd_in_pieces(x, "erf") if x.single else erf(x)


def erfc_in_pieces(x: term.Term) -> term.Term:
    """e^-a²·(e^a²·erfc(a)) with a = |x|: float32 by tables; 2 less that below 0.

    The second factor, and the rounding error of a², are carried in two numbers.
    """
    if not x.single:
        return erfc(x)
    a = term.clamp(abs(x), None, 10.2)
    middle, t, slope = _piece_of(a, "scaled_erfc")
    scaled = term.fma(slope, t, middle)
    return _erfc_of_scaled(x, a, scaled, term.fma(slope, t, middle - scaled))
