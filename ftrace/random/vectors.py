"""Random vectors and matrices: multivariate normal, orthogonal."""

from __future__ import annotations

from inspect import unwrap
from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace.errors import ShapeError, one_of
from ftrace.numpy import axes as ax
from ftrace.numpy.elementwise import promote_inexact
from ftrace.random import distributions as simple, draw as how
from ftrace.random.draw import sampler
from ftrace.random.keys import Key
from ftrace.trace.avals import Shape
from ftrace.trace.bind import broadcast_shapes
from ftrace.trace.tracing.tracer import aval_of

__all__ = ["multivariate_normal", "orthogonal"]


def multivariate_normal(
    key: Any,
    mean: Any,
    cov: Any,
    shape: Any = None,
    dtype: Any = None,
    method: str = "cholesky",
    *,
    out_sharding: Any = None,
) -> Any:
    """Normal vectors with a mean and a covariance.

    Args:
      key: a key.
      mean: of shape (..., n).
      cov: of shape (..., n, n), symmetric and positive (semi-)definite.
      shape: of the result without its last axis, by default that of the batches.
      dtype: a float dtype, by default that of the parameters.
      method: "cholesky", or "eigh" or "svd", which singular covariances need.
      out_sharding: accepted, without effect.

    Raises:
      ShapeError: the shapes do not fit.
      ValueRangeError: there is no such method.
    """
    one_of("random.multivariate_normal: method", method, ("cholesky", "eigh", "svd"))
    mean, cov = promote_inexact(mean, cov)
    outer, square = aval_of(mean).shape, aval_of(cov).shape
    if not outer or square[-2:] != outer[-1:] * 2:
        raise ShapeError(
            "random.multivariate_normal takes a mean of shape (..., n) and a cov of "
            f"shape (..., n, n), got {outer} and {square}"
        )
    batches = [outer[:-1], square[:-2]]
    common = broadcast_shapes("random.multivariate_normal", batches)
    shape = common if shape is None else how.as_shape("multivariate_normal", shape)
    if broadcast_shapes("random.multivariate_normal", [shape, common]) != shape:
        raise ShapeError(
            f"random.multivariate_normal: batches of shape {common} do not broadcast "
            f"to shape {shape}"
        )
    wanted = how.check_dtype(
        "multivariate_normal", aval_of(mean).dtype if dtype is None else dtype
    )
    key = how.check_key("multivariate_normal", key)
    whole = (*shape, outer[-1])
    return how.draw(
        _normal_vectors, key, mean, cov, shape=whole, dtype=wanted, method=method
    )


def _normal_vectors(
    key: Key, mean: Any, cov: Any, shape: Shape, dtype: np.dtype[Any], method: str
) -> Any:
    if method == "svd":
        factor, sizes, _ = fnp.linalg.svd(cov)
        factor = factor * fnp.sqrt(sizes[..., None, :])
    elif method == "eigh":
        sizes, factor = fnp.linalg.eigh(cov)
        factor = factor * fnp.sqrt(sizes[..., None, :])
    else:
        factor = fnp.linalg.cholesky(cov)
    x = unwrap(simple.normal)(key, shape, dtype)
    return mean + fnp.matmul(factor, x[..., None])[..., 0]


@sampler("fc", statics=("n", "m"))
def orthogonal(
    key: Any, n: Any, shape: Any = (), dtype: Any = None, m: Any = None
) -> Any:
    """Orthogonal or, of a complex dtype, unitary matrices, uniform by the Haar measure.

    Args:
      key: a key.
      n: the number of rows.
      shape: of the batch.
      dtype: a float or complex dtype.
      m: the number of columns, by default `n`; the shorter side is orthonormal.

    Returns:
      Matrices of shape (*shape, n, m).

    Source: F. Mezzadri, "How to generate random matrices from the classical compact
    groups", Notices of the AMS 54 (2007).
    """
    n = ax.static_int(n, "random.orthogonal: n")
    m = n if m is None else ax.static_int(m, "random.orthogonal: m")
    size = (*shape, max(n, m), min(n, m))
    q, r = fnp.linalg.qr(unwrap(simple.normal)(key, size, dtype))
    signs = fnp.sign(fnp.linalg.diagonal(r))
    x = q * signs[..., None, :]
    return x if n >= m else x.mT
