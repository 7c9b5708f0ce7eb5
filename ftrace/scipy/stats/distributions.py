"""Distributions of real numbers, of whole ones and of vectors, most a row each.

A row says what a distribution is for location 0 and scale 1. Terms of the densities
that several share are large and nearly cancel where shapes are large. There the
exponent is taken of how far x is from the mean (C. Loader, "Fast and accurate
computation of binomial probabilities", 2000).
"""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import math
from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.errors import DtypeError, ShapeError, UnsupportedError
from ftrace.lax.gammas import log_beta, stirling_rest
from ftrace.lax.linalg import cholesky
from ftrace.lax.special import (
    beta_exponent,
    beta_ratio,
    beta_rest,
    distance,
    lower_gamma,
    upper_gamma,
)
from ftrace.numpy.axes import cast, choose
from ftrace.numpy.elementwise import promote_inexact
from ftrace.numpy.floats import bessel
from ftrace.scipy import special
from ftrace.scipy.linalg import solve_triangular
from ftrace.scipy.stats.family import discrete, distribution, functions_of
from ftrace.trace.tracing.tracer import Value, aval_of

__all__ = [
    "bernoulli", "beta", "betabinom", "binom", "cauchy", "chi2", "dirichlet",
    "expon", "gamma", "gennorm", "geom", "gumbel_l", "gumbel_r", "laplace",
    "logistic", "multinomial", "multivariate_normal", "nbinom", "norm", "pareto",
    "poisson", "t", "truncnorm", "uniform", "vonmises", "wrapcauchy",
]  # fmt: skip


LOG_TWO_PI = math.log(2 * math.pi)
#: From here on densities are written by the rest of Stirling's series, which does not
#: cancel.
_LARGE = 12.0


def log_gamma_density(a: Any, x: Any) -> Any:
    """log(x^(a - 1)·exp(-x)/Γ(a))."""
    a, x = fnp.broadcast_arrays(a, x)
    large = (a > _LARGE) & (x > 0) & (x < math.inf)
    s = choose(large, 1.0, a)
    plain = special.xlogy(s - 1, x) - x - special.gammaln(s)
    s, y = choose(large, a, _LARGE), choose(large, x, _LARGE)
    exponent = s * distance(s, y)[1] - stirling_rest(s)
    value = exponent + 0.5 * (fnp.log(s) - LOG_TWO_PI) - fnp.log(y)
    return choose(large, value, plain)


def log_beta_density(a: Any, b: Any, x: Any) -> Any:
    """log(x^(a - 1)·(1 - x)^(b - 1)/B(a, b))."""
    a, b, x = fnp.broadcast_arrays(a, b, x)
    large = (fnp.minimum(a, b) > _LARGE) & (x > 0) & (x < 1)
    s, t = choose(large, 1.0, a), choose(large, 1.0, b)
    plain = special.xlogy(s - 1, x) + special.xlog1py(t - 1, -x) - log_beta(s, t)
    s, t, y = choose(large, a, _LARGE), choose(large, b, _LARGE), choose(large, x, 0.5)
    root = fnp.log(s) + fnp.log(t / (s + t)) - LOG_TWO_PI
    value = beta_exponent(s, t, y) + 0.5 * root - fnp.log(y) - fnp.log1p(-y)
    return choose(large, value, plain)


LOG_PI = math.log(math.pi)
EVERYTHING = "logpdf cdf logcdf sf logsf"


def _pair(function: Any) -> Any:
    """A function of operands that are broadcast to one shape."""
    return lambda *xs: function(*fnp.broadcast_arrays(*xs))


def _shape(a: Any) -> Any:
    return choose((a > 0) & (a < math.inf), a, math.nan)


_lower = _pair(lambda a, z: lower_gamma(_shape(a), z))
_upper = _pair(lambda a, z: upper_gamma(_shape(a), z))
_beta, _beta_rest = _pair(beta_ratio), _pair(beta_rest)


# Without a shape parameter.


@distribution(
    f"{EVERYTHING} ppf isf",
    symmetric=True,
    logpdf=lambda z: -LOG_PI - _log1p_square(fnp.abs(z)),
    cdf=lambda z: fnp.arctan2(1.0, -z) / math.pi,
    ppf=lambda q: choose(q < 0.5, -1.0, 1.0) * _cotangent(fnp.minimum(q + 0.0, 1 - q)),
)
def cauchy() -> None:
    """the Cauchy distribution.

    0.5 -> cdf 0.64758354, isf 1., logcdf -0.43450737, logpdf -1.3678734, logsf
    -1.0429418, pdf 0.2546479, ppf -1., sf 0.3524164
    """


def _log1p_square(z: Any) -> Any:
    """log(1 + z²) for z ≥ 0, also where the square overflows."""
    large = z > 1e4
    most = choose(large, z, 1e4)
    near = choose(large, 0.0, z)
    return choose(large, 2 * fnp.log(most), fnp.log1p(near * near))


def _cotangent(turns: Any) -> Any:
    """1/tan(πq) for q in [0, 1/2]: of whichever is near 0."""
    near = turns < 0.25
    angle = choose(near, turns, 0.5 - turns) * math.pi
    return choose(near, 1 / fnp.tan(choose(near, angle, 1.0)), fnp.tan(angle))


@distribution(
    f"{EVERYTHING} ppf",
    support=(0, math.inf),
    logpdf=lambda z: -z,
    cdf=lambda z: -fnp.expm1(-z),
    logsf=lambda z: -z,
    ppf=lambda q: -fnp.log1p(-q),
)
def expon() -> None:
    """the exponential distribution.

    0.5 -> cdf 0.39346933, logcdf -0.93275213, logpdf -0.5, logsf -0.5, pdf 0.60653067,
    ppf 0.28768206, sf 0.60653067
    """


@distribution(
    "logpdf cdf",
    symmetric=True,
    logpdf=lambda z: -fnp.abs(z) - math.log(2),
    cdf=lambda z: choose(z <= 0, 0.5, -0.5) * fnp.exp(choose(z <= 0, z, -z)) + (z > 0),
)
def laplace() -> None:
    """the Laplace distribution.

    0.5 -> cdf 0.69673467, logpdf -1.1931472, pdf 0.30326533
    """


@distribution(
    f"{EVERYTHING} ppf isf",
    symmetric=True,
    wide="ppf isf",
    logpdf=lambda z: z * z * -0.5 - 0.5 * LOG_TWO_PI,
    cdf=special.ndtr,
    logcdf=special.log_ndtr,
    ppf=special.ndtri,
)
def norm() -> None:
    """the normal distribution of mean loc and standard deviation scale.

    0.5 -> cdf 0.69146246, isf 0.67448974, logcdf -0.36894643, logpdf -1.0439385, logsf
    -1.1759118, pdf 0.35206532, ppf -0.67448974, sf 0.30853754
    """


@distribution(
    "logpdf cdf sf ppf isf",
    symmetric=True,
    first={"ppf": "x", "isf": "x"},
    logpdf=lambda z: -fnp.abs(z) - 2 * fnp.log1p(fnp.exp(-fnp.abs(z))),
    cdf=lambda z: special.expit(z),
    ppf=lambda q: special.logit(q),
)
def logistic() -> None:
    """the logistic distribution.

    0.5 -> cdf 0.62245935, isf 1.0986123, logpdf -1.448154, pdf 0.23500371, ppf
    -1.0986123, sf 0.37754068
    """


@distribution(
    "logpdf cdf ppf",
    support=(0, 1),
    logpdf=lambda z: 0 * z,
    cdf=lambda z: z,
    ppf=lambda q: q,
)
def uniform() -> None:
    """the uniform distribution between loc and loc + scale.

    0.5 -> cdf 0.5, logpdf 0., pdf 1., ppf 0.25
    """


@distribution(
    f"{EVERYTHING} ppf",
    valid=lambda scale: scale > 0,
    first={"ppf": "p"},
    logpdf=lambda z: z - fnp.exp(z),
    cdf=lambda z: -fnp.expm1(-fnp.exp(z)),
    logsf=lambda z: -fnp.exp(z),
    ppf=lambda q: fnp.log(-fnp.log1p(-q)),
)
def gumbel_l() -> None:
    """the left-skewed Gumbel distribution.

    0.5 -> cdf 0.8077044, logcdf -0.2135592, logpdf -1.1487212, logsf -1.6487212, pdf
    0.31704196, ppf -1.2458994, sf 0.19229566
    """


@distribution(
    f"{EVERYTHING} ppf",
    valid=lambda scale: scale > 0,
    first={"ppf": "p"},
    logpdf=lambda z: -z - fnp.exp(-z),
    sf=lambda z: -fnp.expm1(-fnp.exp(-z)),
    logcdf=lambda z: -fnp.exp(-z),
    ppf=lambda q: -fnp.log(-fnp.log(q)),
)
def gumbel_r() -> None:
    """the right-skewed Gumbel distribution.

    0.5 -> cdf 0.5452392, logcdf -0.60653067, logpdf -1.1065307, logsf -0.7879837, pdf
    0.3307043, ppf -0.32663426, sf 0.4547608
    """


# With shape parameters.


@distribution(
    EVERYTHING,
    support=(0, 1),
    valid=lambda a, b, scale: (a > 0) & (b > 0) & (scale > 0) & (a - b == a - b),
    logpdf=lambda z, a, b: log_beta_density(a, b, z),
    cdf=lambda z, a, b: _beta(a, b, z),
    sf=lambda z, a, b: _beta_rest(a, b, z),
)
def beta(a: Value, b: Value) -> None:
    """the beta distribution of shapes a and b.

    0.5, 2.0, 3.0 -> cdf 0.6875, logcdf -0.37469345, logpdf 0.40546513, logsf
    -1.1631508, pdf 1.5, sf 0.3125
    """


@distribution(
    EVERYTHING,
    support=(0, math.inf),
    logpdf=lambda z, a: log_gamma_density(a, z),
    cdf=lambda z, a: _lower(a, z),
    sf=lambda z, a: _upper(a, z),
)
def gamma(a: Value) -> None:
    """the gamma distribution of shape a.

    0.5, 2.0 -> cdf 0.090204, logcdf -2.4056816, logpdf -1.1931472, logsf -0.09453488,
    pdf 0.30326533, sf 0.909796
    """


@distribution(
    EVERYTHING,
    support=(0, math.inf),
    logpdf=lambda z, df: log_gamma_density(0.5 * df, 0.5 * z) - math.log(2),
    cdf=lambda z, df: _lower(0.5 * df, 0.5 * z),
    sf=lambda z, df: _upper(0.5 * df, 0.5 * z),
)
def chi2(df: Value) -> None:
    """the chi-squared distribution of df degrees of freedom.

    0.5, 2.0 -> cdf 0.22119918, logcdf -1.5086917, logpdf -0.9431472, logsf -0.24999996,
    pdf 0.38940036, sf 0.77880085
    """


@distribution(
    f"{EVERYTHING} ppf",
    support=(1, math.inf),
    logpdf=lambda z, b: fnp.log(b) - (b + 1) * fnp.log(z),
    cdf=lambda z, b: -fnp.expm1(-b * fnp.log(z)),
    logsf=lambda z, b: -b * fnp.log(z),
    ppf=lambda q, b: fnp.exp(-fnp.log1p(-q) / b),
)
def pareto(b: Value) -> None:
    """the Pareto distribution of shape b.

    2.0, 3.0 -> cdf 0.875, logcdf -0.13353139, logpdf -1.6739764, logsf -2.0794415, pdf
    0.1875, ppf 1.1006423, sf 0.125
    """


@distribution(
    "logpdf",
    logpdf=lambda z, df: (
        -log_beta(*fnp.broadcast_arrays(0.5 * df, 0.5))
        - 0.5 * fnp.log(df)
        - (0.5 * df + 0.5) * _log1p_square(fnp.abs(z) / fnp.sqrt(df))
    ),
)
def t(df: Value) -> None:
    """Student's t distribution of df degrees of freedom.

    0.5, 2.0 -> logpdf -1.2163954, pdf 0.2962963
    """


@distribution(
    "logpdf cdf",
    place="",
    logpdf=lambda x, beta: (
        fnp.log(0.5 * beta) - special.gammaln(1 / beta) - fnp.power(fnp.abs(x), beta)
    ),
    cdf=lambda x, beta: choose(
        x < 0,
        0.5 * _upper(1 / beta, fnp.power(fnp.abs(x), beta)),
        0.5 + 0.5 * _lower(1 / beta, fnp.power(fnp.abs(x), beta)),
    ),
)
def gennorm(beta: Value) -> None:
    """the generalized normal distribution of shape beta.

    0.5, 2.0 -> cdf 0.7602499, logpdf -0.8223649, pdf 0.43939131
    """


# On a circle.


@distribution(
    "logpdf",
    place="",
    valid=lambda kappa, _: kappa > 0,
    logpdf=lambda x, kappa: (
        -2 * kappa * fnp.square(fnp.sin(0.5 * x))
        - fnp.log(bessel("vonmises", kappa, 0, scaled=True))
        - LOG_TWO_PI
    ),
)
def vonmises(kappa: Value) -> None:
    """the von Mises distribution of concentration kappa.

    0.5, 2.0 -> logpdf -0.9067055, pdf 0.40385255
    """


@distribution(
    "logpdf",
    place="",
    support=(0, 2 * math.pi),
    valid=lambda c, _: (c > 0) & (c < 1),
    logpdf=lambda x, c: (
        fnp.log1p(-c * c)
        - LOG_TWO_PI
        - fnp.log(fnp.square(1 - c) + 4 * c * fnp.square(fnp.sin(0.5 * x)))
    ),
)
def wrapcauchy(c: Value) -> None:
    """the wrapped Cauchy distribution of shape c.

    0.5, 0.5 -> logpdf -1.1378192, pdf 0.32051727
    """


# The normal distribution between two bounds.


def _log_mass(a: Any, b: Any) -> Any:
    """The logarithm of the normal probability between a and b."""
    # Both on one side: by the tail, below 0. Else what lies outside is taken from 1.
    right = a > 0
    low, high = choose(right, -b, a), choose(right, -a, b)
    one_sided = right | (b <= 0)
    low, high = choose(one_sided, low, -2.0), choose(one_sided, high, -1.0)
    top = special.log_ndtr(high)
    difference = special.log_ndtr(low) - top
    tail = top + fnp.log(-fnp.expm1(difference))
    central = fnp.log1p(-special.ndtr(choose(one_sided, -1.0, a)) - special.ndtr(-b))
    return choose(one_sided, tail, central)


def _log_cdf_between(z: Any, a: Any, b: Any) -> Any:
    total = _log_mass(a, b)
    inside = (z > a) & (z < b)
    middle = choose(inside, z, 0.5 * (a + b))
    below = _log_mass(a, middle) - total
    near = below > -0.1  # nearly all: by the rest
    above = _log_mass(middle, b) - total
    value = choose(near, fnp.log1p(-fnp.exp(choose(near, above, -1.0))), below)
    value = choose(z <= a, -math.inf, choose(z >= b, 0.0, value))
    return choose(z != z, z, value)


@distribution(
    EVERYTHING,
    support=lambda a, b: (a, b),
    valid=lambda a, b, _: a < b,
    logpdf=lambda z, a, b: -0.5 * z * z - 0.5 * LOG_TWO_PI - _log_mass(a, b),
    logcdf=_log_cdf_between,
    logsf=lambda z, a, b: _log_cdf_between(-z, -b, -a),
)
def truncnorm(a: Value, b: Value) -> None:
    """the normal distribution between loc + a·scale and loc + b·scale.

    0.5, -1.0, 1.0 -> cdf 0.78045326, logcdf -0.24788046, logpdf -0.66222334, logsf
    -1.5161899, pdf 0.5157035, sf 0.2195468
    """


def _log_beta(a: Any, b: Any) -> Any:
    return log_beta(*fnp.broadcast_arrays(a, b))


def _bernoulli_cdf(k: Any, p: Any) -> Any:
    value = choose(k < 0, 0.0, choose(k < 1, 1 - p, 1.0))
    return choose((p < 0) | (p > 1) | fnp.isnan(k) | fnp.isnan(p), np.nan, value)


def _bernoulli_ppf(q: Any, p: Any) -> Any:
    known = (p >= 0) & (p <= 1) & (q >= 0) & (q <= 1)
    return choose(known, choose(q <= 1 - p, 0.0, 1.0), np.nan)


@discrete(
    place="loc cdf ppf",
    logpmf=lambda k, p: choose(
        (k < 0) | (k > 1), -np.inf, special.xlogy(k, p) + special.xlog1py(1 - k, -p)
    ),
    cdf=_bernoulli_cdf,
    ppf=_bernoulli_ppf,
)
def bernoulli(p: Value) -> None:
    """a trial that succeeds with probability p.

    1, 0.25 -> cdf 1., logpmf -1.3862944, pmf 0.25, ppf 0.
    """


def _binomial(k: Any, n: Any, p: Any) -> Any:
    inside = (k >= 0) & (k < n + 1)
    y, m = choose(inside, k, 0.0), choose(inside, n, 0.0)
    value = log_beta_density(y + 1, m - y + 1, p) - fnp.log1p(m)
    value = choose(special.xlogy(y, p) + special.xlog1py(m - y, -p) == 0, 0.0, value)
    return choose(inside, value, -np.inf)


@discrete(logpmf=_binomial)
def binom(n: Value, p: Value) -> None:
    """the binomial distribution of n trials of probability p.

    2, 4, 0.25 -> logpmf -1.5561934, pmf 0.21093751
    """


def _beta_binomial(k: Any, n: Any, a: Any, b: Any) -> Any:
    k = fnp.floor(k)
    inside = (k >= 0) & (k <= n)
    valid = (n >= 0) & (a > 0) & (b > 0) & (k == k)
    y, m = choose(inside & valid, k, 0.0), choose(inside & valid, n, 0.0)
    s, t = choose(valid, a, 1.0), choose(valid, b, 1.0)
    ways = -fnp.log1p(m) - _log_beta(m - y + 1, y + 1)
    value = ways + _log_beta(y + s, m - y + t) - _log_beta(s, t)
    return choose(valid, choose(inside, value, -np.inf), np.nan)


@discrete(logpmf=_beta_binomial)
def betabinom(n: Value, a: Value, b: Value) -> None:
    """n trials of a probability with a beta distribution.

    2, 4, 1.0, 2.0 -> logpmf -1.609438, pmf 0.19999999
    """


@discrete(
    logpmf=lambda k, p: choose(
        k <= 0, -np.inf, special.xlog1py(choose(k <= 0, 0.0, k - 1), -p) + fnp.log(p)
    )
)
def geom(p: Value) -> None:
    """the number of trials of probability p up to the first success.

    2, 0.25 -> logpmf -1.6739764, pmf 0.1875
    """


def _negative_binomial(k: Any, n: Any, p: Any) -> Any:
    y = choose(k < 0, 0.0, k)
    value = log_beta_density(n, y + 1, p) + fnp.log(p) - fnp.log(n + y)
    return choose(k < 0, -np.inf, value)


@discrete(logpmf=_negative_binomial)
def nbinom(n: Value, p: Value) -> None:
    """the failures before the n-th success of probability p.

    2, 4, 0.25 -> logpmf -3.8179564, pmf 0.02197266
    """


def _log_poisson(k: Any, mu: Any) -> Any:
    outside = (k < 0) | ((fnp.rint(k) != k) & (k == k))
    y = choose(outside, 0.0, k)
    return choose(outside, -np.inf, log_gamma_density(y + 1, mu))


def _poisson_cdf(k: Any, mu: Any) -> Any:
    above, mu = fnp.broadcast_arrays(fnp.floor(choose(k < 0, 0.0, k)) + 1, mu)
    return choose(k < 0, 0.0, upper_gamma(above, mu))


#: The entropy of Poisson's distribution less ½·log(2πeμ), in 1/μ from its first power.
_ENTROPY = (-1 / 12, -1 / 24, -19 / 360, -9 / 80, -863 / 2520)
#: Where it serves; up to there the greatest k that counts.
_MANY, _GREATEST = 100.0, 240


def _poisson_entropy(mu: Any) -> Any:
    few = mu < _MANY
    small = choose(few & (mu != 0), mu, 1.0)
    k = fnp.arange(_GREATEST, dtype=mu.dtype)
    logs = _log_poisson(k, small[..., None])
    terms = -fnp.exp(logs) * logs  # entr has no slope where exp is 0
    large = choose(few, _MANY, mu)
    rest: Any = 0.0
    for coefficient in reversed(_ENTROPY):
        rest = (rest + coefficient) / large
    asymptotic = 0.5 * (fnp.log(large) + math.log(2 * math.pi * math.e)) + rest
    return choose(few, fnp.sum(terms, axis=-1), asymptotic)


@discrete(
    logpmf=_log_poisson,
    cdf=_poisson_cdf,
    entropy=lambda mu: choose(mu == 0, 0.0, _poisson_entropy(mu)),
)
def poisson(mu: Value) -> None:
    """Poisson's distribution of mean mu.

    2, 3.0 -> cdf 0.42319012, entropy 1.9314702, logpmf -1.4959226, pmf 0.22404182
    """


def _dirichlet_log_density(x: Value, alpha: Value) -> Any:
    """The logarithm of the density of the Dirichlet distribution.

    Args:
      x: of shape (n, …), positive, of sum 1; or (n - 1, …): the last entry is the rest.
      alpha: of shape (n,).

    Raises:
      ShapeError: the shapes do not fit.

    Example:
      >>> from ftrace.scipy.stats import dirichlet
      >>> dirichlet.logpdf(fnp.array([0.25, 0.75]), fnp.array([2.0, 3.0]))
      Array(0.5232482, dtype=float32)
    """
    x, alpha = promote_inexact(x, alpha)
    if alpha.ndim != 1 or not x.ndim or x.shape[0] not in (alpha.size, alpha.size - 1):
        raise ShapeError(
            "dirichlet: alpha must have one axis, and x as many entries along its "
            f"first one, or one less; got shapes {x.shape} and {alpha.shape}"
        )
    if x.shape[0] != alpha.shape[0]:
        x = fnp.concatenate([x, 1 - fnp.sum(x, axis=0, keepdims=True)])
    off = fnp.abs(fnp.sum(x, axis=0) - 1)
    inside = fnp.all(x > 0, axis=0) & (off < 1e-6)
    normalizer = fnp.sum(special.gammaln(alpha)) - special.gammaln(fnp.sum(alpha))
    powers = fnp.reshape(alpha - 1, (-1,) + (1,) * (x.ndim - 1))
    value = fnp.sum(special.xlogy(powers, x), axis=0) - normalizer
    return choose(inside, value, -np.inf)


dirichlet = functions_of(
    "dirichlet", "the Dirichlet distribution", logpdf=_dirichlet_log_density
)


def _multinomial_log_mass(x: Value, n: Value, p: Value) -> Any:
    """The logarithm of the probability of counts under the multinomial distribution.

    Args:
      x: counts, integers of shape (…, k).
      n: the number of trials; the probability is 0 if all of x are another number.
      p: of shape (…, k), of sum 1.

    Raises:
      DtypeError: x and n are no integers.

    Example:
      >>> from ftrace.scipy.stats import multinomial
      >>> multinomial.logpmf(fnp.array([1, 2]), 3, fnp.array([0.25, 0.75]))
      Array(-0.86304617, dtype=float32)
    """
    (p,) = promote_inexact(p)
    kinds = [aval_of(v).dtype for v in (x, n)]
    if not all(dtypes.is_integer(kind) for kind in kinds):
        raise DtypeError(f"multinomial: x and n must be integers, got {kinds}")
    x, n = cast(x, p.dtype), cast(n, p.dtype)
    value = special.gammaln(n + 1) + fnp.sum(
        special.xlogy(x, p) - special.gammaln(x + 1), axis=-1
    )
    return choose(fnp.sum(x) == n, value, -np.inf)


multinomial = functions_of(
    "multinomial", "the multinomial distribution", logpmf=_multinomial_log_mass
)


def _normal_log_density(
    x: Value, mean: Value, cov: Value, allow_singular: None = None
) -> Any:
    """The logarithm of the density of the multivariate normal distribution.

    Args:
      x: of shape (…, n).
      mean: of shape (…, n), or a scalar.
      cov: of shape (…, n, n), positive definite; or a scalar, of all directions.
      allow_singular: must be None.

    Raises:
      ShapeError: the shapes do not fit.
      UnsupportedError: `allow_singular` is given.

    Example:
      >>> from ftrace.scipy.stats import multivariate_normal
      >>> multivariate_normal.logpdf(fnp.zeros(2), fnp.zeros(2), fnp.eye(2))
      Array(-1.837877, dtype=float32)
    """
    if allow_singular is not None:
        raise UnsupportedError(
            "multivariate_normal.logpdf: allow_singular must be None"
        )
    x, mean, cov = promote_inexact(x, mean, cov)
    if not mean.ndim:
        return -0.5 * (fnp.square(x - mean) / cov + LOG_TWO_PI + fnp.log(cov))
    n, y = mean.shape[-1], x - mean
    if not cov.ndim:
        log_root = 0.5 * n * fnp.log(cov)
        white = y / fnp.sqrt(cov)
    else:
        if cov.ndim < 2 or cov.shape[-2:] != (n, n):
            raise ShapeError(
                f"multivariate_normal.logpdf: a mean of shape {mean.shape} requires a "
                f"covariance of shape (…, {n}, {n}), got {cov.shape}"
            )
        factor = cholesky(cov)
        white = solve_triangular(factor, y[..., None], lower=True)[..., 0]
        diagonal = fnp.diagonal(factor, axis1=-2, axis2=-1)
        log_root = fnp.sum(fnp.log(diagonal), axis=-1)
    return -0.5 * (fnp.sum(white * white, axis=-1) + n * LOG_TWO_PI) - log_root


def _normal_density(x: Value, mean: Value, cov: Value) -> Any:
    """The density of the multivariate normal distribution: see `logpdf`."""
    return fnp.exp(_normal_log_density(x, mean, cov))


multivariate_normal = functions_of(
    "multivariate_normal", "the multivariate normal distribution",
    logpdf=_normal_log_density, pdf=_normal_density,
)  # fmt: skip
