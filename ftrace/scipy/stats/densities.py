"""Logarithms of densities that discrete and continuous distributions share.

Their terms are large and nearly cancel where shapes are large. There the exponent is
taken of how far x is from the mean (C. Loader, "Fast and accurate computation of
binomial probabilities", 2000).
"""

from __future__ import annotations

import math
from typing import Any

import ftrace.numpy as fnp
from ftrace.lax.gammas import log_beta, stirling_rest
from ftrace.lax.incomplete import beta_exponent, distance
from ftrace.numpy.axes import choose
from ftrace.scipy.special import gammaln, xlog1py, xlogy

LOG_TWO_PI = math.log(2 * math.pi)
_LARGE = 12.0


def log_gamma_density(a: Any, x: Any) -> Any:
    """log(x^(a - 1)·exp(-x)/Γ(a))."""
    a, x = fnp.broadcast_arrays(a, x)
    large = (a > _LARGE) & (x > 0) & (x < math.inf)
    s = choose(large, 1.0, a)
    plain = xlogy(s - 1, x) - x - gammaln(s)
    s, y = choose(large, a, _LARGE), choose(large, x, _LARGE)
    exponent = s * distance(s, y)[1] - stirling_rest(s)
    value = exponent + 0.5 * (fnp.log(s) - LOG_TWO_PI) - fnp.log(y)
    return choose(large, value, plain)


def log_beta_density(a: Any, b: Any, x: Any) -> Any:
    """log(x^(a - 1)·(1 - x)^(b - 1)/B(a, b))."""
    a, b, x = fnp.broadcast_arrays(a, b, x)
    large = (fnp.minimum(a, b) > _LARGE) & (x > 0) & (x < 1)
    s, t = choose(large, 1.0, a), choose(large, 1.0, b)
    plain = xlogy(s - 1, x) + xlog1py(t - 1, -x) - log_beta(s, t)
    s, t, y = choose(large, a, _LARGE), choose(large, b, _LARGE), choose(large, x, 0.5)
    root = fnp.log(s) + fnp.log(t / (s + t)) - LOG_TWO_PI
    value = beta_exponent(s, t, y) + 0.5 * root - fnp.log(y) - fnp.log1p(-y)
    return choose(large, value, plain)
