"""Special functions. Those along axes (logsumexp, softmax) are shared with `nn`.

A branch that is not taken gets an argument that it can bear, so that derivatives are
finite wherever the function's are.
"""

# ruff: noqa: F403

from __future__ import annotations

import math
from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.errors import DtypeError, UnsupportedError
from ftrace.ground.missing_names import tell_missing
from ftrace.lax import gammas
from ftrace.lax.special import beta_ratio, lower_gamma, upper_gamma
from ftrace.numpy.axes import cast, check_count, choose, static_int
from ftrace.numpy.elementwise import promote_inexact, refuse_complex
from ftrace.numpy.floats import bessel, horner
from ftrace.numpy.reductions import (
    log_softmax as _log_softmax,
    logsumexp,
    softmax as _softmax,
)
from ftrace.scipy import hypergeometric, integrals
from ftrace.scipy.hypergeometric import *
from ftrace.scipy.hypergeometric import complex_log_gamma
from ftrace.scipy.integrals import *
from ftrace.trace.bind import bind, elementwise
from ftrace.trace.eager.dispatch import publish
from ftrace.trace.eager.function_objects import member
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.primitive import Primitive
from ftrace.trace.tracing.tracer import Value, aval_of

__all__ = [
    "beta", "betainc", "betaln", "boxcox", "boxcox1p", "digamma", "entr", "erf",
    "erfc", "erfinv", "expit", "factorial", "gamma", "gammainc", "gammaincc",
    "gammaln", "gammasgn", "i0", "i0e", "i1", "i1e", "kl_div", "log_ndtr",
    "log_softmax", "loggamma", "logit", "logsumexp", "multigammaln", "ndtr",
    "ndtri", "poch", "polygamma", "rel_entr", "softmax", "xlog1py", "xlogy", "zeta",
]  # fmt: skip
__all__ += hypergeometric.__all__
__all__ += integrals.__all__

# The distribution of a standard normal value, its logarithm and its inverse.
#
# An error of the argument grows with its square on the way through exp(-x²/2). So
# x/√2 is taken in two numbers, and the second counts by its slope. float16 and bfloat16
# are computed in float32 and rounded once.
#
# A branch that is not taken gets an argument that it can bear, so that derivatives are
# finite wherever the function's are.

#: √½ in two numbers: the first times h, a multiple of 2⁻⁸ up to the limit, is exact.
_ROOT_SINGLE = (0.70703125, 7.55311865475244e-05)
_ROOT_DOUBLE = (0.7071067839860916, -2.799544089368687e-09)
#: Beyond it the probability is 0 or 1.
_LIMIT_SINGLE, _LIMIT_DOUBLE = 15.0, 39.0


@gammas.compose
def ndtr(x: Value) -> Any:
    """The probability that a standard normal value is at most x: Φ(x) = erfc(-x/√2)/2.

    Args:
      x: an array of real numbers; integers become floats.

    Returns:
      Elementwise, of a float dtype.

    Example:
      >>> ft.scipy.special.ndtr(fnp.array([-1.0, 0.0, 1.96]))
      Array([0.15865526, 0.5       , 0.9750021 ], dtype=float32)
    """
    # erfc(z + r)/2 with z + r = -x/√2: erfc(z)/2 - r·exp(-z²)/√π.
    double = x.dtype == dtypes.float64
    limit = _LIMIT_DOUBLE if double else _LIMIT_SINGLE
    high, low = _ROOT_DOUBLE if double else _ROOT_SINGLE
    x = choose(x < -limit, -limit, choose(x > limit, limit, x))
    h = fnp.rint(x * 256) * (1 / 256)
    product, rest = h * -high, -((x - h) * high + x * low)
    z = product + rest
    r = rest - (z - product)
    return 0.5 * bind(p.erfc, z) - r * (1 / math.sqrt(math.pi)) * fnp.exp(-z * z)


@gammas.compose
def log_ndtr(x: Value, series_order: int = 3) -> Any:
    """log(ndtr(x)), exact also where ndtr underflows: by a series far below 0.

    Args:
      x: the array.
      series_order: of the asymptotic series (Abramowitz & Stegun 26.2.12), if more
        than what rounding needs: 3 terms in float32, 5 in float64.

    Returns:
      Elementwise, of a float dtype.

    Example:
      >>> ft.scipy.special.log_ndtr(fnp.array([-100.0, 0.0]))
      Array([-5.005524e+03, -6.931472e-01], dtype=float32)
    """
    order = check_count(series_order, "log_ndtr: series_order")
    low, terms = (-37.0, 5) if x.dtype == dtypes.float64 else (-10.0, 3)
    far_below, above = x < low, x > 0
    # Above 0 the logarithm is that of nearly 1: by the probability of the contrary.
    smaller = ndtr(choose(above, -x, choose(far_below, 0.0, x)))
    beyond = fnp.log1p(-choose(above, smaller, 0.5))
    near = choose(above, beyond, fnp.log(choose(above, 0.5, smaller)))
    below = choose(far_below, x, low)
    square = below * below
    series: Any = 1.0
    term: Any = 1.0
    for k in range(1, max(order, terms) + 1):
        term = term * (-(2 * k - 1)) / square
        series = series + term
    tail = -0.5 * square - fnp.log(-below) - 0.5 * math.log(2 * math.pi)
    tail = tail + fnp.log(series)
    return choose(far_below, tail, near)


# The quantile near 0 with r = √(-2 log p). float32, below 1/10: r less a polynomial in
# (r - m)/(r + m), by interpolation at the nodes of Chebyshev, 2^-23.7 of it. float64: a
# rational function (P. J. Acklam, 2003), of relative error 1.15e-9, and two steps of
# Halley's method.
_TAIL_SINGLE, _TAIL_DOUBLE = 0.1, 0.02425
_MIDDLE = 5.5
_LESS_SINGLE = (
    0.0884054005, -0.104101703, 0.0550565235, -0.0616320185, 0.0828521922,
    -0.100527495, 0.113668412, -0.147182211, 0.178907201, -0.25663054, 0.329092324,
    -0.639801383, 0.488443673,
)  # fmt: skip
_QUANTILE_TOP = (
    -7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e00,
    -2.549732539343734e00, 4.374664141464968e00, 2.938163982698783e00,
)  # fmt: skip
_QUANTILE_BOTTOM = (
    7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e00,
    3.754408661907416e00, 1.0,
)  # fmt: skip


@gammas.compose
def ndtri(p: Value) -> Any:
    """The value of which ndtr is p; its inverse.

    Args:
      p: an array of probabilities; NaN for others.

    Returns:
      Elementwise, of a float dtype; -inf at 0 and inf at 1.

    Example:
      >>> ft.scipy.special.ndtri(fnp.array([0.5, 0.975, 1.0]))
      Array([0.       , 1.9599645,       inf], dtype=float32)
    """
    limit = _TAIL_DOUBLE if p.dtype == dtypes.float64 else _TAIL_SINGLE
    upper = p > 0.5
    mirrored = choose(upper, 1 - p, p)
    in_tail = mirrored < limit
    centre = math.sqrt(2) * erfinv(2 * choose(in_tail, 0.5, mirrored) - 1)
    ends = mirrored <= 0
    small = choose(fnp.logical_and(in_tail, fnp.logical_not(ends)), mirrored, limit)
    value = choose(in_tail, _lower_quantile(small), centre)
    value = choose(ends, choose(mirrored == 0, -np.inf, np.nan), value)
    return choose(upper, -value, value)


def _lower_quantile(small: Any) -> Any:
    root = fnp.sqrt(-2 * fnp.log(small))
    if small.dtype == dtypes.float32:
        return horner(_LESS_SINGLE, (root - _MIDDLE) / (root + _MIDDLE)) - root
    value = horner(_QUANTILE_TOP, root) / horner(_QUANTILE_BOTTOM, root)
    for _ in range(2):
        error = ndtr(value) - small
        step = error * math.sqrt(2 * math.pi) * fnp.exp(0.5 * value * value)
        value = value - step / (1 + 0.5 * value * step)
    return value


def softmax(x: Value, /, *, axis: int | tuple[int, ...] | None = None) -> Any:
    """Exponentials along `axis`, divided by their sum: exp(x)/Σ exp(x).

    Args:
      x: an array of floats or complex numbers; integers become floats.
      axis: an axis, several, or None (the default, unlike in `nn.softmax`) for all.

    Raises:
      AxisError: there is no such axis.

    Example:
      >>> ft.scipy.special.softmax(fnp.zeros((2, 2)))
      Array([[0.25, 0.25],
             [0.25, 0.25]], dtype=float32)
    """
    return _softmax(x, axis)


def log_softmax(x: Value, /, *, axis: int | tuple[int, ...] | None = None) -> Any:
    """The logarithm of `softmax`: x - log(Σ exp(x)).

    Args:
      x: an array of floats or complex numbers; integers become floats.
      axis: an axis, several, or None (the default, unlike in `nn.log_softmax`) for all.

    Raises:
      AxisError: there is no such axis.

    Example:
      >>> ft.scipy.special.log_softmax(fnp.zeros(4))
      Array([-1.3862944, -1.3862944, -1.3862944, -1.3862944], dtype=float32)
    """
    return _log_softmax(x, axis)


# One primitive each.


def _unary(name: str, op: Primitive):
    def function(x: Value) -> Any:
        return elementwise(op, x, inexact=True)

    return function


@member(_unary, p.erf)
def erf():
    """The error function: 2/√π·∫₀ˣ exp(-t²) dt.

    Args:
      x: an array of real numbers; integers become floats.

    Returns:
      Elementwise, of a float dtype, in [-1, 1].

    Raises:
      DtypeError: x is complex.

    Example:
      >>> ft.scipy.special.erf(fnp.array([-10.0, 0.0, 0.5]))
      Array([-1.       ,  0.       ,  0.5204999], dtype=float32)
    """


@member(_unary, p.erfc)
def erfc():
    """1 - erf(x), exact also where that is near 0.

    Args:
      x: an array of real numbers; integers become floats.

    Returns:
      Elementwise, of a float dtype, in [0, 2].

    Raises:
      DtypeError: x is complex.

    Example:
      >>> ft.scipy.special.erfc(fnp.array([0.0, 5.0]))
      Array([1.0000000e+00, 1.5374598e-12], dtype=float32)
    """


@member(_unary, p.erf_inv)
def erfinv():
    """The inverse of erf.

    Args:
      x: an array of numbers in [-1, 1]; NaN for others.

    Returns:
      Elementwise, of a float dtype; infinite at -1 and 1.

    Raises:
      DtypeError: x is complex.

    Example:
      >>> ft.scipy.special.erfinv(fnp.array([0.0, 0.5, 1.0]))
      Array([0.        , 0.47693628,        inf], dtype=float32)
    """


@member(_unary, p.lgamma)
def gammaln():
    """log |Γ(x)|, the logarithm of (x - 1)! for a whole x; infinite at 0, -1, -2, ….

    Args:
      x: an array of real numbers; integers become floats. `loggamma` takes complex
        ones.

    Returns:
      Elementwise, of a float dtype.

    Raises:
      DtypeError: x is complex.

    Example:
      >>> ft.scipy.special.gammaln(fnp.array([1.0, 10.0, 1e6]))
      Array([0.0000000e+00, 1.2801827e+01, 1.2815505e+07], dtype=float32)
    """


@member(_unary, p.digamma)
def digamma():
    """The derivative of log Γ(x).

    Args:
      x: an array of real numbers; integers become floats.

    Returns:
      Elementwise, of a float dtype; NaN at 0, -1, -2, ….

    Raises:
      DtypeError: x is complex.

    Example:
      >>> ft.scipy.special.digamma(fnp.array([1.0, 2.0]))  # they differ by 1
      Array([-0.5772157 ,  0.42278433], dtype=float32)
    """


@member(_unary, p.logistic)
def expit():
    """1 / (1 + exp(-x)), the inverse of logit: `nn.sigmoid`.

    Args:
      x: an array of floats or complex numbers; integers become floats.

    Returns:
      Elementwise, of the dtype of x.

    Example:
      >>> ft.scipy.special.expit(fnp.array([-200.0, 0.0, 2.0]))
      Array([0.      , 0.5     , 0.880797], dtype=float32)
    """


@gammas.compose
def logit(x: Value) -> Any:
    """log(x / (1 - x)), the inverse of expit.

    Args:
      x: an array of real numbers; NaN outside of [0, 1].

    Returns:
      Elementwise, of a float dtype.

    Example:
      >>> ft.scipy.special.logit(fnp.array([0.0, 0.5, 0.75]))
      Array([     -inf, 0.       , 1.0986123], dtype=float32)
    """
    # Near 1/2, its zero, by the distance from there, which is exact.
    near = fnp.abs(x - 0.5) < 0.25
    middle = choose(near, x, 0.5)
    double = 2 * middle
    below = middle < 0.5
    ratio = choose(below, (1 - double) / middle, (double - 1) / (1 - middle))
    logarithm = fnp.log1p(ratio)
    far = choose(near, 0.25, x)
    middle = choose(below, -logarithm, logarithm)
    # Both ends have their slopes.
    return choose(near, middle, fnp.log(far) - fnp.log(1 - far))


# x·log(y), where 0·log(0) is 0.


def _annihilating(x: Any, log: Any, y: Any) -> Any:
    """x·log, where x = 0 makes it 0 whatever the logarithm is; NaN stays NaN."""
    product = elementwise(p.mul_zero, x, log)
    product = choose(fnp.isfinite(x), product, x * log)
    return choose(bind(p.ne, y, y), y, product)


def xlogy(x: Value, y: Value) -> Any:
    """x·log(y), and 0 for x = 0, also where y is 0.

    Args:
      x, y: arrays that broadcast; integers become floats.

    Example:
      >>> ft.scipy.special.xlogy(fnp.array([0.0, 2.0]), fnp.array([0.0, 1.0]))
      Array([0., 0.], dtype=float32)
    """
    x, y = fnp.broadcast_arrays(*promote_inexact(x, y))
    return _annihilating(x, fnp.log(y), y)


def xlog1py(x: Value, y: Value) -> Any:
    """x·log(1 + y), and 0 for x = 0, also where y is -1.

    Args:
      x, y: arrays that broadcast; integers become floats.

    Example:
      >>> ft.scipy.special.xlog1py(fnp.array([0.0, 1.0]), fnp.array([-1.0, 1e-9]))
      Array([0.e+00, 1.e-09], dtype=float32)
    """
    x, y = fnp.broadcast_arrays(*promote_inexact(x, y))
    return _annihilating(x, fnp.log1p(y), y)


def entr(x: Value) -> Any:
    """-x·log(x); 0 for x = 0, -inf for negative x. Summed it is the entropy.

    Args:
      x: an array of real numbers; integers become floats.

    Example:
      >>> ft.scipy.special.entr(fnp.array([0.5, 0.5])).sum()
      Array(0.6931472, dtype=float32)
    """
    (x,) = promote_inexact(x)
    refuse_complex("entr", x)
    below = x < 0
    safe = choose(below, 1.0, x)
    return choose(below, -np.inf, -xlogy(safe, safe))


@gammas.compose_real
def rel_entr(p: Value, q: Value) -> Any:
    """p·log(p/q); 0 for p = 0, inf where it is not defined.

    Args:
      p, q: arrays of real numbers that broadcast.

    Example:
      >>> p, q = fnp.array([1.0, 0.0, 1.0]), fnp.array([0.5, 0.5, 0.0])
      >>> ft.scipy.special.rel_entr(p, q)
      Array([0.6931472, 0.       ,       inf], dtype=float32)
    """
    x, y = fnp.broadcast_arrays(p, q)
    positive = fnp.logical_and(x > 0, y > 0)
    safe_x, safe_y = choose(positive, x, 1.0), choose(positive, y, 1.0)
    zero = fnp.logical_and(x == 0, y >= 0)
    value = safe_x * _log_ratio(safe_x, safe_y)
    return choose(positive, value, choose(zero, 0.0, np.inf))


def _log_ratio(x: Any, y: Any) -> Any:
    """log(x/y) of positive numbers."""
    near = _are_near(x, y, 2.0)
    # The difference of near numbers is exact.
    ratio = choose(near, (x - y) / y, 0.0)
    quotient = x / y
    limit = 2.0**900 if x.dtype == dtypes.float64 else 2.0**100
    usual = fnp.logical_and(quotient < limit, quotient > 1 / limit)
    apart = fnp.log(choose(usual, quotient, x)) - fnp.log(choose(usual, 1.0, y))
    return choose(near, fnp.log1p(ratio), apart)


def _are_near(x: Any, y: Any, times: float) -> Any:
    """Is neither of two positive numbers more than so many times the other?"""
    return fnp.logical_and(x <= times * y, y <= times * x)


@gammas.compose_real
def kl_div(p: Value, q: Value) -> Any:
    """p·log(p/q) - p + q; inf where it is not defined.

    Args:
      p, q: arrays of real numbers that broadcast.

    Example:
      >>> ft.scipy.special.kl_div(fnp.array([1.0, 0.0]), fnp.array([1.0, 0.5]))
      Array([0. , 0.5], dtype=float32)
    """
    # Near to one another, where it is a small difference, by its series. With
    # s = (x - y)/(x + y) it is (x - y)·s·(1 + (s + s²)·Σ s^2k/(2k + 3)), from
    # log(x/y) = 2·artanh(s).
    x, y = fnp.broadcast_arrays(p, q)
    positive = fnp.logical_and(x > 0, y > 0)
    near = fnp.logical_and(positive, _are_near(x, y, 3.0))
    a, b = choose(near, x, 1.0), choose(near, y, 1.0)
    difference = a - b
    s = difference / (a + b)
    # s² is at most 1/4: what is left out is below 2^-28, 2^-58.
    terms = 26 if x.dtype == dtypes.float64 else 12
    series = horner([1 / (2 * k + 3) for k in reversed(range(terms))], s * s)
    close = difference * s * (1 + (s + s * s) * series)
    safe_x, safe_y = choose(positive, x, 1.0), choose(positive, y, 1.0)
    apart = safe_x * (_log_ratio(safe_x, safe_y) - 1) + safe_y
    outside = choose(fnp.logical_and(x == 0, y >= 0), 0.0, np.inf) - x + y
    return choose(near, close, choose(positive, apart, outside))


# The gamma function and its kin.


@gammas.compose
def betaln(a: Value, b: Value) -> Any:
    """log |B(a, b)| = log |Γ(a)| + log |Γ(b)| - log |Γ(a + b)|.

    Where one is large its formula has no large differences.

    Args:
      a, b: arrays of real numbers that broadcast.

    Example:
      >>> ft.scipy.special.betaln(2.0, 3.0)  # -log(12)
      Array(-2.4849067, dtype=float32, weak_type=True)
    """
    return gammas.log_beta(a, b)


@gammas.compose_weak
def gammainc(a: Value, x: Value) -> Any:
    """The regularized lower incomplete gamma function.

        P(a, x) = ∫₀ˣ t^(a - 1)·exp(-t) dt / Γ(a)

    Args:
      a: an array of positive numbers.
      x: an array of numbers not below 0; it broadcasts with a. NaN for others.

    Returns:
      Elementwise; it has derivatives in both, which SciPy has not.

    Example:
      >>> ft.scipy.special.gammainc(1.0, fnp.array([0.0, 1.0]))  # 1 - exp(-x)
      Array([0.       , 0.6321205], dtype=float32)
    """
    return lower_gamma(*fnp.broadcast_arrays(a, x))


@gammas.compose_weak
def gammaincc(a: Value, x: Value) -> Any:
    """1 - P(a, x), exact also where that is near 0; P as of `gammainc`.

    Args:
      a: an array of positive numbers.
      x: an array of numbers not below 0; it broadcasts with a. NaN for others.

    Example:
      >>> ft.scipy.special.gammaincc(1.0, fnp.array([0.0, 30.0]))  # exp(-x)
      Array([1.0000000e+00, 9.3576236e-14], dtype=float32)
    """
    return upper_gamma(*fnp.broadcast_arrays(a, x))


@gammas.compose_weak
def betainc(a: Value, b: Value, x: Value) -> Any:
    """The regularized incomplete beta function.

        I(x) = ∫₀ˣ t^(a - 1)·(1 - t)^(b - 1) dt / B(a, b)

    Args:
      a, b: arrays of positive numbers.
      x: an array of numbers in [0, 1]; all three broadcast.

    Returns:
      Elementwise; it has derivatives in all three.

    Example:
      >>> fnp.round(ft.scipy.special.betainc(2.0, 2.0, fnp.array([0.25, 0.5])), 5)
      Array([0.15625, 0.5    ], dtype=float32)
    """
    return beta_ratio(*fnp.broadcast_arrays(a, b, x))


def gammasgn(x: Value) -> Any:
    """The sign of Γ(x): 1 or -1, NaN at the negative integers.

    Args:
      x: an array of real numbers; integers become floats.

    Example:
      >>> ft.scipy.special.gammasgn(fnp.array([2.5, -0.5, -1.5]))
      Array([ 1., -1.,  1.], dtype=float32)
    """
    (x,) = promote_inexact(x)
    value = gammas.gamma_sign(x)
    return cast(value, dtypes.strong_dtype(x.dtype, x.weak_type))


@gammas.compose
def gamma(x: Value) -> Any:
    """Γ(x) = ∫ t^(x - 1)·exp(-t) dt over t > 0, also of complex numbers.

    Args:
      x: an array of floats or complex numbers; integers become floats.

    Returns:
      Elementwise; (n - 1)! at a whole n, NaN at the negative integers, inf from 35.05
      on in float32.

    Example:
      >>> ft.scipy.special.gamma(fnp.array([0.5, 1.0, 3.0]))
      Array([1.7724538, 1.       , 1.9999999], dtype=float32)
    """
    if dtypes.is_complex(x.dtype):
        return fnp.exp(complex_log_gamma(x))
    return gammas.any_gamma(x)


@gammas.compose
def loggamma(x: Value) -> Any:
    """log Γ(x): NaN for x ≤ 0, of complex numbers its principal branch.

    Args:
      x: an array of floats or complex numbers; integers become floats.

    Example:
      >>> ft.scipy.special.loggamma(fnp.array([1.0, 10.0, -0.5]))
      Array([ 0.      , 12.801827,       nan], dtype=float32)
    """
    if dtypes.is_complex(x.dtype):
        return complex_log_gamma(x)
    return choose(x > 0, bind(p.lgamma, choose(x > 0, x, 1.0)), np.nan)


@gammas.compose
def factorial(n: Value, exact: bool = False) -> Any:
    """n! = Γ(n + 1) as a float; 0 for negative n.

    Args:
      n: an array of numbers.
      exact: not supported: integers of any size.

    Raises:
      UnsupportedError: `exact` is asked for.

    Example:
      >>> ft.scipy.special.factorial(fnp.array([0, 1, 3]))
      Array([1., 1., 6.], dtype=float32)
    """
    if exact:
        raise UnsupportedError(
            "factorial: exact=True is not supported; use math.factorial"
        )
    below = n < 0
    n = choose(below, 0.0, n)
    y = n + 1
    rest = choose(n == np.inf, 0.0, n - (y - 1))  # what rounding took from y
    slope = fnp.log(choose(n == np.inf, 1.0, y)) - 0.5 / y  # of the logarithm
    return choose(below, 0.0, gammas.positive_gamma(y) * (1 + rest * slope))


def beta(a: Value, b: Value) -> Any:
    """B(a, b) = Γ(a)·Γ(b)/Γ(a + b).

    Args:
      a, b: arrays of real numbers that broadcast.

    Example:
      >>> ft.scipy.special.beta(2.0, 3.0)  # 1/12
      Array(0.08333334, dtype=float32)
    """
    a, b = promote_inexact(a, b)
    sign = gammasgn(a) * gammasgn(b) * gammasgn(a + b)
    return sign * fnp.exp(betaln(a, b))


def multigammaln(a: Value, d: int) -> Any:
    """The logarithm of the gamma function of matrices of d rows.

        d·(d - 1)/4·log π + Σ log Γ(a - i/2), i from 0 to d - 1

    Args:
      a: an array of numbers greater than (d - 1)/2.
      d: a positive integer.

    Example:
      >>> ft.scipy.special.multigammaln(3.0, 1)  # log 2!
      Array(0.6931472, dtype=float32)
    """
    count = static_int(d, "multigammaln: d")
    (a,) = promote_inexact(a)
    result = fnp.full_like(a, 0.25 * count * (count - 1) * math.log(math.pi))
    for j in range(count):
        result = gammaln(a - j / 2) + result
    return result


def poch(z: Value, m: Value) -> Any:
    """Γ(z + m)/Γ(z), the rising factorial: z·(z + 1)·…·(z + m - 1) for a whole m.

    Args:
      z, m: arrays of real numbers that broadcast.

    Example:
      >>> ft.scipy.special.poch(2.0, 3.0)
      Array(24., dtype=float32)
    """
    z, m = promote_inexact(z, m)
    sign = gammasgn(z) * gammasgn(z + m)
    return choose(m == 0, 1.0, sign * fnp.exp(gammaln(z + m) - gammaln(z)))


def boxcox(x: Value, lmbda: Value) -> Any:
    """(x^λ - 1)/λ, and log(x) for λ = 0.

    Args:
      x: an array of numbers not below 0.
      lmbda: λ, an array that broadcasts with it.

    Example:
      >>> ft.scipy.special.boxcox(fnp.array([1.0, 3.0]), 2.0)
      Array([0., 4.], dtype=float32)
    """
    x, power = promote_inexact(x, lmbda)
    return _box_cox(fnp.log(x), power)


def boxcox1p(x: Value, lmbda: Value) -> Any:
    """((1 + x)^λ - 1)/λ, and log(1 + x) for λ = 0; exact near x = 0.

    Args:
      x: an array of numbers not below -1.
      lmbda: λ, an array that broadcasts with it.

    Example:
      >>> ft.scipy.special.boxcox1p(fnp.array([0.0, 2.0]), 2.0)
      Array([0., 4.], dtype=float32)
    """
    x, power = promote_inexact(x, lmbda)
    return _box_cox(fnp.log1p(x), power)


def _box_cox(log_x: Any, power: Any) -> Any:
    is_zero = power == 0
    safe = choose(is_zero, 1.0, power)
    return choose(is_zero, log_x, fnp.expm1(safe * log_x) / safe)


def zeta(x: Value, q: Value | None = None) -> Any:
    """Hurwitz's ζ(x, q) = Σ (q + k)^-x for x > 1; ∞ at whole q below 1.

    Of q below 0 only whole powers x are real; NaN elsewhere.

    Args:
      x: an array of numbers greater than 1.
      q: an array that broadcasts with it; None is 1, Riemann's ζ.

    Example:
      >>> ft.scipy.special.zeta(fnp.array([2.0, 4.0]))  # π²/6, π⁴/90
      Array([1.644934 , 1.0823232], dtype=float32)
    """
    return _zeta(x, 1.0 if q is None else q)


@gammas.compose
def _zeta(x: Any, q: Any) -> Any:
    return gammas.hurwitz_zeta(x, q)


def polygamma(n: Value, x: Value) -> Any:
    """The n-th derivative of digamma.

    Args:
      n: an array of integers, not negative.
      x: an array of real numbers that broadcasts with it.

    Raises:
      DtypeError: n is not an integer.

    Example:
      >>> ft.scipy.special.polygamma(1, 1.0)  # π²/6
      Array(1.644934, dtype=float32, weak_type=True)
    """
    if not dtypes.is_integer(aval_of(n).dtype):
        raise DtypeError("polygamma: n must be an integer; write polygamma(1, x)")
    order, x = fnp.broadcast_arrays(*promote_inexact(n, x))
    if x.dtype.itemsize < 4:
        return cast(polygamma(n, cast(x, dtypes.float32)), x.dtype)
    known = isinstance(n, int) and n <= _MOST_FACTORIAL[x.dtype.itemsize]
    exact = float(math.factorial(max(n, 0))) if known else None
    return gammas.poly_gamma(order, x, exact)


#: The greatest number whose factorial a float of so many bytes holds.
_MOST_FACTORIAL = {2: 8, 4: 34, 8: 170}


# Modified Bessel functions of the first kind.


def i0(x: Value) -> Any:
    """I₀(x), the modified Bessel function of the first kind, of order 0.

    Args:
      x: an array of real numbers; integers become floats.

    Returns:
      Elementwise; inf beyond |x| = 91.9 in float32: see `i0e`.

    Example:
      >>> ft.scipy.special.i0(fnp.array([0.0, 1.0]))
      Array([1.       , 1.2660658], dtype=float32)
    """
    return bessel("i0", x, 0, scaled=False)


def i0e(x: Value) -> Any:
    """exp(-|x|)·I₀(x), which does not overflow.

    Args:
      x: an array of real numbers; integers become floats.

    Example:
      >>> ft.scipy.special.i0e(fnp.array([0.0, 1000.0]))
      Array([1.        , 0.01261724], dtype=float32)
    """
    return bessel("i0e", x, 0, scaled=True)


def i1(x: Value) -> Any:
    """I₁(x), the modified Bessel function of the first kind, of order 1.

    Args:
      x: an array of real numbers; integers become floats.

    Example:
      >>> ft.scipy.special.i1(fnp.array([0.0, 1.0]))
      Array([0.       , 0.5651591], dtype=float32)
    """
    return bessel("i1", x, 1, scaled=False)


def i1e(x: Value) -> Any:
    """exp(-|x|)·I₁(x), which does not overflow.

    Args:
      x: an array of real numbers; integers become floats.

    Example:
      >>> ft.scipy.special.i1e(fnp.array([0.0, 1000.0]))
      Array([0.        , 0.01261093], dtype=float32)
    """
    return bessel("i1e", x, 1, scaled=True)


publish(
    __name__,
    (__name__, "ftrace.numpy.reductions", "ftrace.scipy.integrals",
     "ftrace.scipy.hypergeometric"),
    (
        "beta", "betaln", "boxcox", "boxcox1p", "kl_div", "poch", "rel_entr",
        "xlog1py", "xlogy", "zeta",
    ),
)  # fmt: skip


tell_missing(__name__)
