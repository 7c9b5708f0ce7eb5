"""Distributions of whole numbers, at location 0."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false

from __future__ import annotations

import math
from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace.lax.gammas import log_beta
from ftrace.lax.incomplete import upper_gamma
from ftrace.numpy.axes import choose
from ftrace.scipy.special import xlog1py, xlogy
from ftrace.scipy.stats.densities import log_beta_density, log_gamma_density
from ftrace.scipy.stats.family import discrete


def _log_beta(a: Any, b: Any) -> Any:
    return log_beta(*fnp.broadcast_arrays(a, b))


def _bernoulli_cdf(k: Any, p: Any) -> Any:
    value = choose(k < 0, 0.0, choose(k < 1, 1 - p, 1.0))
    return choose((p < 0) | (p > 1) | fnp.isnan(k) | fnp.isnan(p), np.nan, value)


def _bernoulli_ppf(q: Any, p: Any) -> Any:
    known = (p >= 0) & (p <= 1) & (q >= 0) & (q <= 1)
    return choose(known, choose(q <= 1 - p, 0.0, 1.0), np.nan)


bernoulli = discrete(
    "bernoulli", "a trial that succeeds with probability p", "p",
    place="loc cdf ppf",
    logpmf=lambda k, p: choose(
        (k < 0) | (k > 1), -np.inf, xlogy(k, p) + xlog1py(1 - k, -p)
    ),
    cdf=_bernoulli_cdf,
    ppf=_bernoulli_ppf,
)  # fmt: skip


def _binomial(k: Any, n: Any, p: Any) -> Any:
    inside = (k >= 0) & (k < n + 1)
    y, m = choose(inside, k, 0.0), choose(inside, n, 0.0)
    value = log_beta_density(y + 1, m - y + 1, p) - fnp.log1p(m)
    value = choose(xlogy(y, p) + xlog1py(m - y, -p) == 0, 0.0, value)
    return choose(inside, value, -np.inf)


binom = discrete(
    "binom", "the binomial distribution of n trials of probability p", "n p",
    logpmf=_binomial,
)  # fmt: skip


def _beta_binomial(k: Any, n: Any, a: Any, b: Any) -> Any:
    k = fnp.floor(k)
    inside = (k >= 0) & (k <= n)
    valid = (n >= 0) & (a > 0) & (b > 0)
    y, m = choose(inside & valid, k, 0.0), choose(inside & valid, n, 0.0)
    s, t = choose(valid, a, 1.0), choose(valid, b, 1.0)
    ways = -fnp.log1p(m) - _log_beta(m - y + 1, y + 1)
    value = ways + _log_beta(y + s, m - y + t) - _log_beta(s, t)
    return choose(valid, choose(inside, value, -np.inf), np.nan)


betabinom = discrete(
    "betabinom", "n trials of a probability with a beta distribution", "n a b",
    logpmf=_beta_binomial,
)  # fmt: skip

geom = discrete(
    "geom", "the number of trials of probability p up to the first success", "p",
    logpmf=lambda k, p: choose(
        k <= 0, -np.inf, xlog1py(choose(k <= 0, 0.0, k - 1), -p) + fnp.log(p)
    ),
)  # fmt: skip


def _negative_binomial(k: Any, n: Any, p: Any) -> Any:
    y = choose(k < 0, 0.0, k)
    value = log_beta_density(n, y + 1, p) + fnp.log(p) - fnp.log(n + y)
    return choose(k < 0, -np.inf, value)


nbinom = discrete(
    "nbinom", "the failures before the n-th success of probability p", "n p",
    logpmf=_negative_binomial,
)  # fmt: skip


def _log_poisson(k: Any, mu: Any) -> Any:
    outside = (k < 0) | (fnp.rint(k) != k)
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
    small = choose(few & (mu > 0), mu, 1.0)
    k = fnp.arange(_GREATEST, dtype=mu.dtype)
    logs = _log_poisson(k, small[..., None])
    terms = -fnp.exp(logs) * logs  # entr has no slope where exp is 0
    large = choose(few, _MANY, mu)
    rest: Any = 0.0
    for coefficient in reversed(_ENTROPY):
        rest = (rest + coefficient) / large
    asymptotic = 0.5 * (fnp.log(large) + math.log(2 * math.pi * math.e)) + rest
    return choose(few, fnp.sum(terms, axis=-1), asymptotic)


poisson = discrete(
    "poisson", "Poisson's distribution of mean mu", "mu",
    logpmf=_log_poisson,
    cdf=_poisson_cdf,
    entropy=lambda mu: choose(mu == 0, 0.0, _poisson_entropy(mu)),
)  # fmt: skip
