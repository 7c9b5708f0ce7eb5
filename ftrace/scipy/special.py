"""Special functions. Those along axes (logsumexp, softmax) are shared with `nn`.

A branch that is not taken gets an argument that it can bear, so that derivatives are
finite wherever the function's are.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.errors import DtypeError, ValueRangeError
from ftrace.numpy.axes import cast, choose, static_int
from ftrace.numpy.softmax import log_softmax as _log_softmax
from ftrace.numpy.softmax import logsumexp
from ftrace.numpy.softmax import softmax as _softmax
from ftrace.scipy.bessel import i0, i0e, i1, i1e
from ftrace.trace.eager import make_all_eager
from ftrace.trace.fused import run_fused
from ftrace.trace.operations import bind, elementwise
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.recall import recall_all
from ftrace.trace.tracer import Value, aval_of

__all__ = [
    "beta", "betaln", "boxcox", "boxcox1p", "digamma", "entr", "erf", "erfc", "erfinv",
    "expit", "factorial", "gamma", "gammaln", "gammasgn", "i0", "i0e", "i1", "i1e",
    "kl_div", "log_ndtr", "log_softmax", "loggamma", "logit", "logsumexp",
    "multigammaln", "ndtr", "ndtri", "poch", "polygamma", "rel_entr", "softmax",
    "xlog1py", "xlogy", "zeta",
]  # fmt: skip


def _inexact(*operands: Value) -> list[Any]:
    """The operands as floats of one dtype."""
    avals = [aval_of(x) for x in operands]
    dtype, weak = dtypes.promote(*[(a.dtype, a.weak_type) for a in avals])
    dtype = dtypes.to_inexact(dtype)
    return [cast(x, dtype, weak) for x in operands]


def softmax(x: Value, /, *, axis: int | tuple[int, ...] | None = None) -> Any:
    """Exponentials along `axis` (None: all), divided by their sum."""
    return _softmax(x, axis)


def log_softmax(x: Value, /, *, axis: int | tuple[int, ...] | None = None) -> Any:
    """The logarithm of `softmax`."""
    return _log_softmax(x, axis)


# One primitive each.


def erf(x: Value) -> Any:
    """The error function."""
    return elementwise(p.erf, x, inexact=True)


def erfc(x: Value) -> Any:
    """1 - erf(x), exact also where that is near 0."""
    return elementwise(p.erfc, x, inexact=True)


def erfinv(x: Value) -> Any:
    """The inverse of erf."""
    return elementwise(p.erf_inv, x, inexact=True)


def gammaln(x: Value) -> Any:
    """log |Γ(x)|."""
    return elementwise(p.lgamma, x, inexact=True)


loggamma = gammaln


def digamma(x: Value) -> Any:
    """The derivative of log Γ(x)."""
    return elementwise(p.digamma, x, inexact=True)


def expit(x: Value) -> Any:
    """1 / (1 + exp(-x))."""
    return elementwise(p.logistic, x, inexact=True)


def logit(x: Value) -> Any:
    """log(x / (1 - x)), the inverse of expit."""
    (x,) = _inexact(x)
    return fnp.log(x / (1 - x))


# x·log(y), where 0·log(0) is 0.


def _annihilating(x: Any, y: Any) -> Any:
    """x·y, where x = 0 makes it 0 whatever y is, and NaN stays NaN."""
    return choose(bind(p.ne, x, x), x, elementwise(p.mul_zero, x, y))


def xlogy(x: Value, y: Value) -> Any:
    """x·log(y), and 0 for x = 0."""
    x, y = fnp.broadcast_arrays(*_inexact(x, y))
    return _annihilating(x, fnp.log(y))


def xlog1py(x: Value, y: Value) -> Any:
    """x·log(1 + y), and 0 for x = 0."""
    x, y = fnp.broadcast_arrays(*_inexact(x, y))
    return _annihilating(x, fnp.log1p(y))


def entr(x: Value) -> Any:
    """-x·log(x); 0 for x = 0, -inf for negative x."""
    (x,) = _inexact(x)
    below = x < 0
    safe = choose(below, 1.0, x)
    return choose(below, -np.inf, -xlogy(safe, safe))


def rel_entr(p: Value, q: Value) -> Any:
    """p·log(p/q); 0 for p = 0, inf where it is not defined."""
    x, y = fnp.broadcast_arrays(*_inexact(p, q))
    positive = fnp.logical_and(x > 0, y > 0)
    safe_x, safe_y = choose(positive, x, 1.0), choose(positive, y, 1.0)
    value = safe_x * (fnp.log(safe_x) - fnp.log(safe_y))
    zero = fnp.logical_and(x == 0, y >= 0)
    return choose(positive, value, choose(zero, 0.0, np.inf))


def kl_div(p: Value, q: Value) -> Any:
    """p·log(p/q) - p + q."""
    x, y = _inexact(p, q)
    return rel_entr(x, y) - x + y


# The gamma function and its kin.


def gammasgn(x: Value) -> Any:
    """The sign of Γ(x): 1 or -1, NaN at the negative integers."""
    (x,) = _inexact(x)
    whole = fnp.floor(x)
    odd = fnp.remainder(whole, 2) != 0
    negative = choose(x == whole, np.nan, choose(odd, -1.0, 1.0))
    value = choose(x < 0, negative, 1.0)
    value = choose(x == 0, fnp.copysign(1.0, x), value)
    return cast(choose(x == -np.inf, np.nan, value), x.dtype)


def gamma(x: Value) -> Any:
    """Γ(x), as the exponential of its logarithm."""
    (x,) = _inexact(x)
    return gammasgn(x) * fnp.exp(gammaln(x))


def factorial(n: Value, exact: bool = False) -> Any:
    """n! as a float; 0 for negative n.

    Raises:
      ValueRangeError: `exact` is asked for.
    """
    if exact:
        raise ValueRangeError(
            "factorial: exact=True is not supported; use math.factorial"
        )
    (x,) = _inexact(n)
    below = x < 0
    return choose(below, 0.0, fnp.exp(gammaln(choose(below, 0.0, x) + 1)))


def betaln(a: Value, b: Value) -> Any:
    """log |B(a, b)|."""
    a, b = _inexact(a, b)
    return gammaln(a) + gammaln(b) - gammaln(a + b)


def beta(a: Value, b: Value) -> Any:
    """B(a, b) = Γ(a)·Γ(b)/Γ(a + b)."""
    a, b = _inexact(a, b)
    sign = gammasgn(a) * gammasgn(b) * gammasgn(a + b)
    return sign * fnp.exp(betaln(a, b))


def multigammaln(a: Value, d: int) -> Any:
    """The logarithm of the gamma function of matrices of d rows."""
    count = static_int(d, "multigammaln: d")
    (a,) = _inexact(a)
    result = 0.25 * count * (count - 1) * math.log(math.pi)
    for j in range(count):
        result = gammaln(a - j / 2) + result
    return result


def poch(z: Value, m: Value) -> Any:
    """Γ(z + m)/Γ(z), the rising factorial."""
    z, m = _inexact(z, m)
    sign = gammasgn(z) * gammasgn(z + m)
    return choose(m == 0, 1.0, sign * fnp.exp(gammaln(z + m) - gammaln(z)))


def boxcox(x: Value, lmbda: Value) -> Any:
    """(x^λ - 1)/λ, and log(x) for λ = 0."""
    x, power = _inexact(x, lmbda)
    return _box_cox(fnp.log(x), power)


def boxcox1p(x: Value, lmbda: Value) -> Any:
    """((1 + x)^λ - 1)/λ, and log(1 + x) for λ = 0."""
    x, power = _inexact(x, lmbda)
    return _box_cox(fnp.log1p(x), power)


def _box_cox(log_x: Any, power: Any) -> Any:
    is_zero = power == 0
    safe = choose(is_zero, 1.0, power)
    return choose(is_zero, log_x, fnp.expm1(safe * log_x) / safe)


# Numerators and denominators B₂ₖ/(2k)! of the Euler–Maclaurin series.
_BERNOULLI = (
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000,
    1 / 74724249600,
)  # fmt: skip
_ZETA_TERMS = 10


def zeta(x: Value, q: Value | None = None) -> Any:
    """Hurwitz's ζ(x, q) = Σ (q + k)^-x for x > 1 and q > 0.

    Euler–Maclaurin's formula after ten terms (NIST Handbook, 25.11.5).
    """
    s, a = _inexact(x, 1.0 if q is None else q)
    return run_fused(_hurwitz, fnp.broadcast_arrays(s, a))


def _hurwitz(s: Any, a: Any) -> Any:
    total = fnp.power(a, -s)
    for k in range(1, _ZETA_TERMS):
        total = total + fnp.power(a + k, -s)
    edge = a + _ZETA_TERMS
    tail = fnp.power(edge, -s)
    total = total + tail * (edge / (s - 1) + 0.5)
    rising, tail = s, tail / edge
    for k, coefficient in enumerate(_BERNOULLI):
        total = total + coefficient * rising * tail
        rising = rising * (s + (2 * k + 1)) * (s + (2 * k + 2))
        tail = tail / (edge * edge)
    return choose(s == 1, np.inf, choose(fnp.logical_or(s < 1, a <= 0), np.nan, total))


def polygamma(n: Value, x: Value) -> Any:
    """The n-th derivative of digamma, for x > 0.

    Raises:
      DtypeError: n is not an integer.
    """
    if not dtypes.is_integer(aval_of(n).dtype):
        raise DtypeError("polygamma: n must be an integer; write polygamma(1, x)")
    order, x = fnp.broadcast_arrays(*_inexact(n, x))
    sign = choose(fnp.remainder(order, 2) == 0, -1.0, 1.0)
    above = choose(order == 0, 1.0, order)
    value = sign * fnp.exp(gammaln(above + 1)) * zeta(above + 1, x)
    return choose(order == 0, digamma(x), value)


# The normal distribution.


def ndtr(x: Value) -> Any:
    """The probability that a standard normal value is at most x."""
    (x,) = _inexact(x)
    return 0.5 * bind(p.erfc, x * -math.sqrt(0.5))


def log_ndtr(x: Value, series_order: int = 3) -> Any:
    """log(ndtr(x)), exact also where ndtr underflows: by a series far below 0.

    Args:
      x: the array.
      series_order: of the asymptotic series (Abramowitz & Stegun 26.2.12).
    """
    order = static_int(series_order, "log_ndtr: series_order")
    if order < 0:
        raise ValueRangeError(f"log_ndtr: series_order must not be negative: {order}")
    return run_fused(_log_ndtr, _inexact(x), order=order)


def _log_ndtr(x: Any, order: int) -> Any:
    low, high = (-20.0, 8.0) if x.dtype == dtypes.float64 else (-10.0, 5.0)
    far_above, far_below = x > high, x < low
    above = -ndtr(-choose(far_above, x, high))
    middle = choose(fnp.logical_or(far_above, far_below), 0.0, x)
    below = choose(far_below, x, low)
    square = below * below
    series: Any = 1.0
    term: Any = 1.0
    for k in range(1, order + 1):
        term = term * (-(2 * k - 1)) / square
        series = series + term
    tail = -0.5 * square - fnp.log(-below) - 0.5 * math.log(2 * math.pi)
    tail = tail + fnp.log(series) if order else tail
    near = choose(far_below, tail, fnp.log(ndtr(middle)))
    return choose(far_above, above, near)


# The quantile near 0: a rational function of √(-2 log p) (P. J. Acklam, 2003), of
# relative error 1.15e-9, and two steps of Halley's method.
_TAIL = 0.02425
_QUANTILE_TOP = (
    -7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e00,
    -2.549732539343734e00, 4.374664141464968e00, 2.938163982698783e00,
)  # fmt: skip
_QUANTILE_BOTTOM = (
    7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e00,
    3.754408661907416e00, 1.0,
)  # fmt: skip


def ndtri(p: Value) -> Any:
    """The value of which ndtr is p; its inverse."""
    return run_fused(_quantile, _inexact(p))


def _quantile(q: Any) -> Any:
    upper = q > 0.5
    mirrored = choose(upper, 1 - q, q)
    in_tail = mirrored < _TAIL
    centre = math.sqrt(2) * bind(p.erf_inv, 2 * choose(in_tail, 0.5, mirrored) - 1)
    ends = mirrored <= 0
    small = choose(fnp.logical_and(in_tail, fnp.logical_not(ends)), mirrored, _TAIL)
    root = fnp.sqrt(-2 * fnp.log(small))
    tail = _horner(_QUANTILE_TOP, root) / _horner(_QUANTILE_BOTTOM, root)
    for _ in range(2 if q.dtype == dtypes.float64 else 0):
        error = ndtr(tail) - small
        step = error * math.sqrt(2 * math.pi) * fnp.exp(0.5 * tail * tail)
        tail = tail - step / (1 + 0.5 * tail * step)
    value = choose(in_tail, tail, centre)
    value = choose(ends, choose(mirrored == 0, -np.inf, np.nan), value)
    return choose(upper, -value, value)


def _horner(coefficients: tuple[float, ...], x: Any) -> Any:
    value: Any = coefficients[0]
    for coefficient in coefficients[1:]:
        value = value * x + coefficient
    return value


recall_all(__name__)
make_all_eager(__name__)
