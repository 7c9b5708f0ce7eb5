"""Special functions: the incomplete gamma and beta functions, and lax's names.

They take float32 or float64 of one dtype.

The gamma functions P and Q = 1 - P of a and x, by what serves where

    x/a near 1, a large    Temme's uniform expansion, "The asymptotic expansion of the
                           incomplete gamma functions", 1979; DLMF 8.12
    x < a, or small        P by its power series, DLMF 8.11.4
    a and x both small     Q by the series of 1 - P, from which 1 is taken, DLMF 8.7.1
    elsewhere              Q by Legendre's continued fraction, DLMF 8.9.2

are an erfc, or nothing, and a multiple of e = x^a·exp(-x)/Γ(a). So are their
derivatives in a, and a sample of the gamma distribution moves with a by a multiple of
x, also where both e and the density underflow. The regions are about those of A. Gil,
J. Segura and N. Temme, "Efficient and accurate algorithms for the computation and
inversion of the incomplete gamma function ratios", 2012. DLMF is the NIST Digital
Library of Mathematical Functions.
"""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial, update_wrapper
from inspect import signature
from typing import Any, TypeVar, cast as cast_to

import numpy as np

import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.errors import DtypeError
from ftrace.lax import gammas
from ftrace.lax.control import while_loop
from ftrace.lax.elementwise import check_dtypes, check_ranks
from ftrace.numpy.axes import bind_names, choose
from ftrace.numpy.elementwise import promote_inexact
from ftrace.numpy.floats import bessel, horner
from ftrace.trace.bind import bind
from ftrace.trace.calls.custom_call import SymbolicZero
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.pytree import tree
from ftrace.trace.tracing.tracer import Value
from ftrace.transforms.custom.custom_derivatives import custom_jvp
from ftrace.transforms.grad import jvp

__all__ = [
    "bessel_i0e", "bessel_i1e", "betainc", "igamma", "igamma_grad_a", "igammac",
    "polygamma", "random_gamma_grad", "regularized_incomplete_beta", "zeta",
]  # fmt: skip


def with_slopes(function: Callable[..., Any], *slopes: Callable[..., Any]) -> Any:
    """The function with a rule: its tangent is the sum of slopes times tangents.

    Args:
      slopes: for each operand (function with its rule, *operands) -> the derivative, or
        the derivatives of several results; of operands that move it is computed.
    """

    @custom_jvp
    def call(*operands: Any) -> Any:
        return function(*operands)

    def rule(operands: Any, tangents: Any) -> Any:
        parts = [
            tree.map(lambda slope, t=t: slope * t, slope(call, *operands))
            for slope, t in zip(slopes, tangents, strict=True)
            if not isinstance(t, SymbolicZero)
        ]
        tangent = tree.map(lambda *terms: sum(terms[1:], terms[0]), *parts)
        return call(*operands), tangent

    call.defjvp(rule, symbolic_zeros=True)
    return call


#: Steps of a loop at most: more than any region needs.
_MOST_STEPS = 10_000


def is_double(x: Any) -> bool:
    return x.dtype == dtypes.float64


def rounding(x: Any) -> float:
    """Half a unit in the last place of 1."""
    return 2.0**-53 if is_double(x) else 2.0**-24


def converge(
    step: Callable[..., tuple[Any, ...]],
    start: Sequence[Any],
    wanted: Any,
    one: Any = None,
) -> tuple[Any, ...]:
    """Steps until all elements have converged; each element takes its own number.

    Args:
      step: (n, *values) -> (whether to go on, *values), for n = 1, 2, ….
      start: the first values.
      wanted: which elements take any step.
      one: the first n, where that is not a one of the first value's dtype.
    """

    def once(state: tuple[Any, ...]) -> tuple[Any, ...]:
        going, n, *values = state
        further, *found = step(n, *values)
        pairs = zip(found, values, strict=True)
        taken = [choose(going, new, old) for new, old in pairs]
        further = further & (n < _MOST_STEPS)
        return (going & further, choose(going, n + 1, n), *taken)

    one = fnp.ones_like(start[0]) if one is None else one
    state = while_loop(_any_going, once, (wanted, one, *start))
    return state[2:]


def _any_going(state: tuple[Any, ...]) -> Any:
    return fnp.any(state[0])


def log1p_less(x: Any) -> Any:
    """log(1 + x) - x, exact to rounding also near 0."""
    # With s = x/(2 + x) it is 2·artanh(s) - x = -x·s + 2·(s³/3 + s⁵/5 + …).
    near = fnp.abs(x) < 0.7
    small = choose(near, x, 0.5)
    s = small / (2 + small)
    square = s * s
    terms = 31 if is_double(x) else 13
    series = horner([2 / (2 * k + 3) for k in reversed(range(terms))], square)
    close = s * (square * series - small)
    far = choose(near, 1.0, x)
    return choose(near, close, fnp.log1p(far) - far)


# The gamma functions.

#: η/(λ - 1) in η, where η²/2 = λ - 1 - log λ; so that λ' = λη/(λ - 1).
_RATIO = (
    1.0, -0.3333333333333333, 0.08333333333333333, -0.014814814814814815,
    0.0011574074074074073, 0.0003527336860670194, -0.0001787551440329218,
    3.919263178522438e-05, -2.185448510679992e-06, -1.85406221071516e-06,
    8.296711340953087e-07, -1.7665952736826078e-07, 6.707853543401498e-09,
    1.0261809784240309e-08, -4.382036018453353e-09, 9.14769958223679e-10,
    -2.5514193994946248e-11, -5.830772132550426e-11, 2.4361948020667415e-11,
    -5.0276692801141755e-12, 1.1004392031956135e-13, 3.371763262400985e-13,
    -1.392388722418162e-13, 2.8534893807047445e-14, -5.139111834242572e-16,
    -1.9752288294349442e-15, 8.099521156704561e-16,
)  # fmt: skip
#: From it on the expansion serves, where x/a is between the bounds: there |η| < 1.
_LARGE_SHAPE, _FROM, _TO = 12.0, 0.3, 2.35


def distance(a: Any, x: Any) -> tuple[Any, Any, Any]:
    """μ = x/a - 1, log(x/a) - μ, and η, the root with the sign of μ."""
    mu = (x - a) / a
    close = x > 0.5 * a
    less = log1p_less(choose(close, mu, 0.0))
    less = choose(close, less, fnp.log(choose(close, 1.0, x / a)) - mu)
    # η/μ is smooth at 0, where η is a root of a double zero.
    near = fnp.abs(mu) < 1e-3
    small = choose(near, mu, 0.0)
    smooth = horner((-2 / 7, 1 / 3, -2 / 5, 1 / 2, -2 / 3, 1.0), small)
    apart = choose(near, 0.5, mu)
    ratio = choose(near, smooth, -2 * choose(near, -0.1, less) / (apart * apart))
    return mu, less, mu * fnp.sqrt(ratio)


def _uniform(a: Any, x: Any) -> tuple[Any, Any]:
    """Γ*(a), and what Q is beside ½·erfc(η·√(a/2)), as a multiple of e.

    The latter is B/a, where B = Σ βₙ·ηⁿ solves ηB = Σ fₙ·ηⁿ - Γ* + B'/a with f from
    below: downwards βₙ₋₁ = fₙ + (n + 1)·βₙ₊₁/a, and Γ* = 1 + β₁/a (Temme, 1987).
    """
    coefficients = _RATIO if is_double(x) else _RATIO[:14]
    eta, inverse = distance(a, x)[2], 1 / a
    above, here = 0.0, coefficients[-1]  # β of n + 1 and of n
    betas: list[Any] = [here]
    for n in reversed(range(1, len(coefficients) - 1)):
        above, here = here, coefficients[n] + (n + 1) * above * inverse
        betas.append(here)
    return 1 + betas[-2] * inverse, horner(betas, eta) * inverse


def _series(a: Any, x: Any, wanted: Any) -> Any:
    """P as a multiple of e/a: Σ xⁿ/((a + 1)…(a + n))."""
    limit = rounding(x) / 4

    def step(n: Any, term: Any, total: Any) -> tuple[Any, ...]:
        term = term * (x / (a + n))
        total = total + term
        return term > limit * total, term, total

    one = fnp.ones_like(a)
    return converge(step, (one, one), wanted)[1]


def gamma_fraction(a: Any, x: Any, wanted: Any) -> Any:
    """Q as a multiple of e, by Lentz's method as W. Thompson and A. Barnett have it.

    It is exp(x)·Eₙ(x) with n = 1 - a (DLMF 8.19.17), also of complex x.
    """
    limit = 2 * rounding(x.real)

    def step(n: Any, *state: Any) -> tuple[Any, ...]:
        factor, *new = _level(n, a, *state)
        return fnp.abs(factor - 1) > limit, *new

    return converge(step, _outermost(a, x), wanted, fnp.ones_like(a))[3]


def _lentz(numerator: Any, b: Any, c: Any, d: Any) -> tuple[Any, Any]:
    """The next c and d of a continued fraction, whose product is its next factor."""
    tiny = 1e-30
    d, c = numerator * d + b, b + numerator / c
    d = 1 / choose(fnp.abs(d) < tiny, tiny, d)
    return choose(fnp.abs(c) < tiny, tiny, c), d


def _level(n: Any, a: Any, b: Any, c: Any, d: Any, value: Any) -> tuple[Any, ...]:
    b = b + 2
    c, d = _lentz(n * (a - n), b, c, d)
    factor = c * d
    return factor, b, c, d, value * factor


def _outermost(a: Any, x: Any) -> tuple[Any, ...]:
    b = x + 1 - a
    d = 1 / b
    return b, fnp.full_like(b, 1e30), d, d


def _fraction_slope(a: Any, x: Any, wanted: Any) -> tuple[Any, Any]:
    """`gamma_fraction` and its derivative in a, also where a whole `a` ends it."""
    limit, one = 2 * rounding(x), fnp.ones_like(a)

    def step(n: Any, *state: Any) -> tuple[Any, ...]:
        values, slopes = state[:4], state[4:]
        at = partial(_level, n)
        (factor, *values), (moved, *slopes) = jvp(at, (a, *values), (one, *slopes))
        unsettled = (fnp.abs(factor - 1) > limit) | (fnp.abs(moved) > limit)
        return unsettled, *values, *slopes

    start = jvp(partial(_outermost, x=x), (a,), (one,))
    found = converge(step, (*start[0], *start[1]), wanted)
    return found[3], found[7]


#: ζ(2), ζ(3), …
_ZETA = (
    1.6449340668482264, 1.2020569031595942, 1.0823232337111381, 1.03692775514337,
    1.0173430619844492, 1.008349277381923, 1.0040773561979444, 1.0020083928260821,
    1.000994575127818, 1.0004941886041194, 1.000246086553308, 1.0001227133475785,
    1.0000612481350588, 1.000030588236307, 1.0000152822594086, 1.0000076371976379,
)  # fmt: skip


def _corner(a: Any, x: Any, wanted: Any) -> Any:
    """Q for a < 1 and x < 1.5: 1 - x^a/Γ(a + 1) and the rest of the series."""
    # log Γ(1 + a), DLMF 5.7.3 where 1 + a would round much of it away.
    small = a < 0.1
    near = horner(
        [z / (-k) for k, z in enumerate(_ZETA, 2)][::-1], -choose(small, a, 0.0)
    )
    near = -a * (np.euler_gamma + a * near)
    exponent = a * fnp.log(x) - choose(small, near, bind(p.lgamma, a + 1))
    limit = rounding(x) / 8

    def step(n: Any, term: Any, total: Any) -> tuple[Any, ...]:
        term = term * (-x / n)
        more = term * (a / (a + n))
        return fnp.abs(more) > limit * fnp.abs(total), term, total + more

    zero = fnp.zeros_like(x)
    total = converge(step, (zero + 1, zero), wanted)[1]
    return -fnp.expm1(exponent) - fnp.exp(exponent) * total


def _regions(a: Any, x: Any) -> tuple[Any, Any, Any]:
    """Where the expansion serves, the series of P, that of Q; of valid a and x."""
    large = (a >= _LARGE_SHAPE) & (x > _FROM * a) & (x < _TO * a)
    below = ~large & (x <= fnp.maximum(a, 1.5))
    return large, below, below & (a < 1)


def _is_inside(a: Any, x: Any) -> Any:
    return (a > 0) & (x > 0) & (a < math.inf) & (x < math.inf)


def _unit(a: Any, x: Any) -> Any:
    """e = x^a·exp(-x)/Γ(a), of positive a and x."""
    large = a > _LARGE_SHAPE
    some = choose(large, 1.0, a)
    argument = choose(large, 1.0, x)
    half = fnp.exp(-0.5 * argument)  # x^a·exp(-x) may be large where exp(-x) is not
    plain = (
        fnp.power(argument, some) * half / gammas.positive_gamma(some + 1) * some * half
    )
    many, argument = choose(large, a, _LARGE_SHAPE), choose(large, x, _LARGE_SHAPE)
    less = distance(many, argument)[1]
    root = fnp.sqrt(many / (2 * math.pi))
    return choose(
        large, root * fnp.exp(many * less - gammas.stirling_rest(many)), plain
    )


def _gamma_ratio(a: Any, x: Any, *, upper: bool) -> Any:
    inside = _is_inside(a, x)
    s, y = choose(inside, a, 1.0), choose(inside, x, 1.0)
    large, below, corner = _regions(s, y)
    e = _unit(s, y)
    many, near = choose(large, s, _LARGE_SHAPE), choose(large, y, _LARGE_SHAPE)
    eta = distance(many, near)[2]
    sign = 1.0 if upper else -1.0
    tail = 0.5 * bind(p.erfc, sign * eta * fnp.sqrt(0.5 * many))
    value = tail + sign * e * _uniform(many, near)[1]
    beyond = ~(large | below)
    c, z = choose(beyond, s, 1.0), choose(beyond, y, 2.0)
    q = e * gamma_fraction(c, z, beyond)
    value = choose(beyond, q if upper else 1 - q, value)
    series = below & ~corner if upper else below
    c, z = choose(series, s, 1.0), choose(series, y, 1.0)
    small = e / s * _series(c, z, series)
    value = choose(series, 1 - small if upper else small, value)
    if upper:
        c, z = choose(corner, s, 0.5), choose(corner, y, 0.5)
        value = choose(corner, _corner(c, z, corner), value)
    # At the borders: of x at 0, of a at 0, of both at infinity.
    none, all_ = (1.0, 0.0) if upper else (0.0, 1.0)
    edge = choose((x == 0) & (a > 0), none, np.nan)
    edge = choose((x > 0) & (a == 0), all_, edge)
    edge = choose((x == math.inf) & (a >= 0) & (a < math.inf), all_, edge)
    edge = choose((a == math.inf) & (x >= 0) & (x < math.inf), none, edge)
    return choose(inside, value, edge)


def _shape_slope(a: Any, x: Any) -> Any:
    """The derivative of Q in a, as a multiple of e; of positive a and x."""
    large, below, _ = _regions(a, x)
    one = fnp.ones_like(a)

    def slope(function: Callable[[Any], Any], at: Any) -> tuple[Any, Any]:
        return jvp(function, (at,), (one,))

    many, near = choose(large, a, _LARGE_SHAPE), choose(large, x, _LARGE_SHAPE)
    mu, less, eta = distance(many, near)
    gamma_star, rest = _uniform(many, near)
    moved = slope(lambda s: _uniform(s, near)[1], many)[1]
    ratio = choose(eta == 0, 1.0, mu / choose(eta == 0, 1.0, eta))
    of_log = mu + less + (fnp.log(many) - bind(p.digamma, many))
    value = gamma_star / many * (ratio - 0.5 * eta) + rest * of_log + moved
    s, y = choose(below, a, 1.0), choose(below, x, 1.0)
    total, moved = slope(lambda s: _series(s, y, below), s)
    moved = total * (fnp.log(y) - bind(p.digamma, s + 1)) + moved
    value = choose(below, -moved / s, value)
    beyond = ~(large | below)
    s, y = choose(beyond, a, 1.0), choose(beyond, x, 2.0)
    total, moved = _fraction_slope(s, y, beyond)
    of_log = fnp.log(y) - bind(p.digamma, s)
    return choose(beyond, total * of_log + moved, value)


def gamma_density(a: Any, x: Any) -> Any:
    """x^(a - 1)·exp(-x)/Γ(a), the slope of P in x; 0 outside of x ≥ 0."""
    inside = _is_inside(a, x)
    s, y = choose(inside, a, 1.0), choose(inside, x, 1.0)
    edge = choose(a == 1, 1.0, choose(a < 1, math.inf, 0.0))
    edge = choose((x == 0) & (a > 0), edge, choose(x > 0, 0.0, np.nan))
    edge = choose((a >= 0) & (x >= 0) & (a < math.inf), edge, np.nan)
    return choose(inside, _unit(s, y) / y, edge)


def _of_shape(a: Any, x: Any, value: Callable[[Any, Any], Any]) -> Any:
    """A derivative in a: 0 where x is 0, NaN outside."""
    inside = _is_inside(a, x)
    s, y = choose(inside, a, 1.0), choose(inside, x, 1.0)
    edge = choose((x == 0) & (a > 0) & (a < math.inf), 0.0, np.nan)
    return choose(inside, value(s, y), edge)


def gamma_slope(a: Any, x: Any) -> Any:
    """The derivative of P in a."""
    return _of_shape(a, x, lambda s, y: -_unit(s, y) * _shape_slope(s, y))


def gamma_sample_slope(a: Any, x: Any) -> Any:
    """How a sample x of the gamma distribution moves with a: -(∂P/∂a)/(∂P/∂x)."""
    return _of_shape(a, x, lambda s, y: y * _shape_slope(s, y))


#: P(a, x), and Q(a, x).
lower_gamma = with_slopes(
    partial(_gamma_ratio, upper=False),
    lambda _, a, x: gamma_slope(a, x),
    lambda _, a, x: gamma_density(a, x),
)
upper_gamma = with_slopes(
    partial(_gamma_ratio, upper=True),
    lambda _, a, x: -gamma_slope(a, x),
    lambda _, a, x: -gamma_density(a, x),
)


# The beta function.


def _beta_unit(a: Any, b: Any, x: Any) -> Any:
    """x^a·(1 - x)^b/B(a, b), of positive a and b and 0 < x < 1."""
    large = fnp.minimum(a, b) >= 10
    s, t = choose(large, 1.0, a), choose(large, 1.0, b)
    plain = fnp.exp(s * fnp.log(x) + t * fnp.log1p(-x) - gammas.log_beta(s, t))
    # Both large: by how far x is from the mean, as C. Loader has it.
    s, t = choose(large, a, 10.0), choose(large, b, 10.0)
    root = fnp.sqrt(s * (t / (s + t)) * (1 / (2 * math.pi)))
    return choose(large, root * fnp.exp(beta_exponent(s, t, x)), plain)


def beta_exponent(a: Any, b: Any, x: Any) -> Any:
    """log(x^a·(1 - x)^b/B(a, b)) less ½·log(ab/(2π(a + b))), of large a and b."""
    total = a + b
    off = x * b - (1 - x) * a  # (x - a/total)·total
    exponent = a * log1p_less(off / a) + b * log1p_less(-off / b)
    return (
        exponent
        + gammas.stirling_rest(total)
        - gammas.stirling_rest(a)
        - gammas.stirling_rest(b)
    )


def _beta_fraction(a: Any, b: Any, x: Any, wanted: Any) -> Any:
    """I as a multiple of the unit/a: DLMF 8.17.22, two parts a step."""
    limit = 2 * rounding(x)

    def step(n: Any, c: Any, d: Any, value: Any) -> tuple[Any, ...]:
        even = a + 2 * n
        c, d = _lentz(n * (b - n) * x / ((even - 1) * even), 1, c, d)
        value = value * (c * d)
        c, d = _lentz(-(a + n) * (a + b + n) * x / (even * (even + 1)), 1, c, d)
        return fnp.abs(c * d - 1) > limit, c, d, value * (c * d)

    none, one = fnp.full_like(x, math.inf), fnp.ones_like(x)
    c, d = _lentz(-(a + b) * x / (a + 1), 1, none, one)
    return converge(step, (c, d, d), wanted)[2]


def _beta_ratio(a: Any, b: Any, x: Any, *, upper: bool) -> Any:
    inside = (a > 0) & (b > 0) & (a < math.inf) & (b < math.inf) & (x > 0) & (x < 1)
    s, t, y = choose(inside, a, 1.0), choose(inside, b, 1.0), choose(inside, x, 0.5)
    unit = _beta_unit(s, t, y)
    swapped = y > (s + 1) / (s + t + 2)
    first, second = choose(swapped, t, s), choose(swapped, s, t)
    fraction = _beta_fraction(first, second, choose(swapped, 1 - y, y), inside)
    value = unit * fraction / first
    value = choose(swapped == upper, value, 1 - value)
    # a or b at 0 or infinity put all the weight on one end.
    valid = (a >= 0) & (b >= 0) & (x >= 0) & (x <= 1)
    high, low = (a == math.inf) | (b == 0), (b == math.inf) | (a == 0)
    edge = choose(low, 1.0, choose(high, 0.0, choose(x == 0, 0.0, 1.0)))
    edge = choose(x == 0, 0.0, choose(x == 1, 1.0, edge))
    edge = 1 - edge if upper else edge
    return choose(inside, value, choose(valid & ~(high & low), edge, np.nan))


def beta_density(a: Any, b: Any, x: Any) -> Any:
    """The slope of I in x."""
    inside = (a > 0) & (b > 0) & (a < math.inf) & (b < math.inf) & (x > 0) & (x < 1)
    s, t, y = choose(inside, a, 1.0), choose(inside, b, 1.0), choose(inside, x, 0.5)
    power, other = choose(x == 0, a, b), choose(x == 0, b, a)
    edge = choose(power == 1, other, choose(power < 1, math.inf, 0.0))
    valid = (a > 0) & (b > 0) & ((x == 0) | (x == 1))
    edge = choose(valid, edge, np.nan)
    return choose(inside, _beta_unit(s, t, y) / (y * (1 - y)), edge)


def _beta_slopes(upper: bool) -> Any:
    ratio = partial(_beta_ratio, upper=upper)

    def of_a(_: Any, a: Any, b: Any, x: Any) -> Any:
        return jvp(lambda s: ratio(s, b, x), (a,), (fnp.ones_like(a),))[1]

    def of_b(_: Any, a: Any, b: Any, x: Any) -> Any:
        return jvp(lambda t: ratio(a, t, x), (b,), (fnp.ones_like(b),))[1]

    def of_x(_: Any, a: Any, b: Any, x: Any) -> Any:
        slope = beta_density(a, b, x)
        return -slope if upper else slope

    return with_slopes(ratio, of_a, of_b, of_x)


#: I_x(a, b), the regularized incomplete beta function, and 1 - I.
beta_ratio, beta_rest = _beta_slopes(False), _beta_slopes(True)


F = TypeVar("F", bound=Callable[..., Any])


def _strict(value: Callable[..., Any]) -> Callable[[F], F]:
    """`value` of floats that are of one dtype, and of one shape or scalars."""

    def of_all(*operands: Any) -> Any:
        return value(*fnp.broadcast_arrays(*operands))

    def decorate(said: F) -> F:
        name, parameters = said.__name__, signature(said)

        def call(*args: Any, **kwargs: Any) -> Any:
            operands = bind_names(said, parameters, args, kwargs).values()
            dtype = check_dtypes(name, *operands)
            if not dtypes.is_float(dtype):
                raise DtypeError(f"lax.{name} takes floats, got {dtype}; convert them")
            check_ranks(name, *operands)
            operands = promote_inexact(*operands)
            return gammas.weak_as(operands, gammas.run_wide(of_all, operands))

        return cast_to(F, update_wrapper(call, said))

    return decorate


@_strict(lower_gamma)
def igamma(a: Value, x: Value) -> Any:
    """P(a, x), the regularized lower incomplete gamma function.

    Args:
      a, x: floats of one dtype, and of one shape or scalars.

    Raises:
      DtypeError: the dtypes differ, or are no floats.
      ShapeError: the shapes do not fit.

    Example:
      >>> lax.igamma(2.0, 1.0)
      Array(0.26424116, dtype=float32, weak_type=True)
    """


@_strict(upper_gamma)
def igammac(a: Value, x: Value) -> Any:
    """1 - igamma(a, x), exact also where that is near 0.

    Args:
      a, x: floats of one dtype, and of one shape or scalars.

    Raises:
      DtypeError: the dtypes differ, or are no floats.
      ShapeError: the shapes do not fit.

    Example:
      >>> lax.igammac(2.0, 1.0)
      Array(0.73575884, dtype=float32, weak_type=True)
    """


@_strict(gamma_slope)
def igamma_grad_a(a: Value, x: Value) -> Any:
    """The derivative of igamma in a.

    Args:
      a, x: floats of one dtype, and of one shape or scalars.

    Raises:
      DtypeError: the dtypes differ, or are no floats.
      ShapeError: the shapes do not fit.

    Example:
      >>> lax.igamma_grad_a(2.0, 1.0)
      Array(-0.2761961, dtype=float32, weak_type=True)
    """


@_strict(gamma_sample_slope)
def random_gamma_grad(a: Value, sample: Value) -> Any:
    """How a gamma sample of shape a moves with a: -(∂P/∂a)/(∂P/∂x).

    Args:
      a, sample: floats of one dtype, and of one shape or scalars.

    Raises:
      DtypeError: the dtypes differ, or are no floats.
      ShapeError: the shapes do not fit.

    Example:
      >>> lax.random_gamma_grad(2.0, 1.0)
      Array(0.75077873, dtype=float32, weak_type=True)
    """


@_strict(beta_ratio)
def betainc(a: Value, b: Value, x: Value) -> Any:
    """The regularized incomplete beta function of x in [0, 1].

    Args:
      a, b, x: floats of one dtype, and of one shape or scalars.

    Raises:
      DtypeError: the dtypes differ, or are no floats.
      ShapeError: the shapes do not fit.

    Example:
      >>> lax.betainc(2.0, 3.0, 0.5)
      Array(0.6875, dtype=float32, weak_type=True)
    """


regularized_incomplete_beta = betainc


@_strict(partial(bessel, "bessel_i0e", order=0, scaled=True))
def bessel_i0e(x: Value) -> Any:
    """exp(-|x|)·I₀(x), I₀ the modified Bessel function of the first kind.

    Args:
      x: an array of floats.

    Raises:
      DtypeError: x is not of floats.

    Example:
      >>> lax.bessel_i0e(1.0)
      Array(0.46575958, dtype=float32, weak_type=True)
    """


@_strict(partial(bessel, "bessel_i1e", order=1, scaled=True))
def bessel_i1e(x: Value) -> Any:
    """exp(-|x|)·I₁(x), I₁ the modified Bessel function of the first kind.

    Args:
      x: an array of floats.

    Raises:
      DtypeError: x is not of floats.

    Example:
      >>> lax.bessel_i1e(1.0)
      Array(0.20791039, dtype=float32, weak_type=True)
    """


@_strict(gammas.poly_gamma)
def polygamma(m: Value, x: Value) -> Any:
    """The m-th derivative of digamma.

    Args:
      m: whole numbers, as floats.
      x: floats of the same dtype, and of one shape with m, or a scalar.

    Raises:
      DtypeError: the dtypes differ, or are no floats.
      ShapeError: the shapes do not fit.

    Example:
      >>> lax.polygamma(1.0, 2.0)
      Array(0.64493406, dtype=float32, weak_type=True)
    """


@_strict(gammas.hurwitz_zeta)
def zeta(x: Value, q: Value) -> Any:
    """Hurwitz's ζ(x, q) = Σ (q + k)^-x for x > 1, over k = 0, 1, 2, ….

    Args:
      x, q: floats of one dtype, and of one shape or scalars.

    Raises:
      DtypeError: the dtypes differ, or are no floats.
      ShapeError: the shapes do not fit.

    Example:
      >>> lax.zeta(2.0, 1.0)
      Array(1.644934, dtype=float32, weak_type=True)
    """
