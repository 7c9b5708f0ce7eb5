"""Distributions of vectors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.errors import ArgumentError, DtypeError, ShapeError
from ftrace.lax.linalg import cholesky, triangular_solve
from ftrace.numpy.axes import cast, choose
from ftrace.numpy.elementwise import promote_inexact
from ftrace.scipy.special import gammaln, xlogy
from ftrace.scipy.stats.family import functions_of
from ftrace.trace.tracing.tracer import Value, aval_of

LOG_TWO_PI = math.log(2 * math.pi)


def _dirichlet_log_density(x: Value, alpha: Value) -> Any:
    """The logarithm of the density of the Dirichlet distribution.

    Args:
      x: of shape (n, …), positive, of sum 1; or (n - 1, …): the last entry is the rest.
      alpha: of shape (n,).

    Raises:
      ShapeError: the shapes do not fit.
    """
    x, alpha = promote_inexact(x, alpha)
    if alpha.ndim != 1 or not x.ndim or x.shape[0] not in (alpha.size, alpha.size - 1):
        raise ShapeError(
            "dirichlet: alpha must have one axis, and x as many entries along its "
            f"first one, or one less; got the shapes {x.shape} and {alpha.shape}"
        )
    if x.shape[0] != alpha.shape[0]:
        x = fnp.concatenate([x, 1 - fnp.sum(x, axis=0, keepdims=True)])
    off = fnp.abs(fnp.sum(x, axis=0) - 1)
    inside = fnp.all(x > 0, axis=0) & (off < 1e-6)
    normalizer = fnp.sum(gammaln(alpha)) - gammaln(fnp.sum(alpha))
    powers = fnp.reshape(alpha - 1, (-1,) + (1,) * (x.ndim - 1))
    value = fnp.sum(xlogy(powers, x), axis=0) - normalizer
    return choose(inside, value, -np.inf)


def _dirichlet_density(x: Value, alpha: Value) -> Any:
    """The density of the Dirichlet distribution: see `logpdf`."""
    return fnp.exp(_dirichlet_log_density(x, alpha))


dirichlet = functions_of(
    "dirichlet", "the Dirichlet distribution",
    logpdf=_dirichlet_log_density, pdf=_dirichlet_density,
)  # fmt: skip


def _multinomial_log_mass(x: Value, n: Value, p: Value) -> Any:
    """The logarithm of the probability of counts under the multinomial distribution.

    Args:
      x: counts, integers of shape (…, k).
      n: the number of trials; the probability is 0 if all of x are another number.
      p: of shape (…, k), of sum 1.

    Raises:
      DtypeError: x and n are no integers.
    """
    (p,) = promote_inexact(p)
    kinds = [aval_of(v).dtype for v in (x, n)]
    if not all(dtypes.is_integer(kind) for kind in kinds):
        raise DtypeError(f"multinomial: x and n must be integers, got {kinds}")
    x, n = cast(x, p.dtype), cast(n, p.dtype)
    value = gammaln(n + 1) + fnp.sum(xlogy(x, p) - gammaln(x + 1), axis=-1)
    return choose(fnp.sum(x) == n, value, -np.inf)


def _multinomial_mass(x: Value, n: Value, p: Value) -> Any:
    """The probability of counts under the multinomial distribution: see `logpmf`."""
    return fnp.exp(_multinomial_log_mass(x, n, p))


multinomial = functions_of(
    "multinomial", "the multinomial distribution",
    logpmf=_multinomial_log_mass, pmf=_multinomial_mass,
)  # fmt: skip


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
      ArgumentError: `allow_singular` is given.
    """
    if allow_singular is not None:
        raise ArgumentError("multivariate_normal.logpdf: allow_singular must be None")
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
        batch = np.broadcast_shapes(factor.shape[:-2], y.shape[:-1])
        shared = math.prod(factor.shape[:-2]) == 1
        if shared:  # one factor: all points are columns of one system
            columns = fnp.reshape(fnp.broadcast_to(y, (*batch, n)), (-1, n)).T
            factor = fnp.reshape(factor, (n, n))
            white = triangular_solve(factor, columns, left_side=True, lower=True)
            white = fnp.reshape(white.T, (*batch, n))
        else:
            factor = fnp.broadcast_to(factor, (*batch, n, n))
            columns = fnp.broadcast_to(y, (*batch, n))[..., None]
            white = triangular_solve(factor, columns, left_side=True, lower=True)
            white = white[..., 0]
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
