"""Vector quantisation."""

from __future__ import annotations

from typing import Any

from ftrace import dtypes, numpy as fnp
from ftrace.errors import ShapeError
from ftrace.numpy.axes import cast
from ftrace.numpy.linear import alike
from ftrace.trace.eager.dispatch import publish
from ftrace.trace.tracing.tracer import Value

__all__ = ["vq"]


def vq(obs: Value, code_book: Value, check_finite: bool = True) -> tuple[Any, Any]:
    """For each observation the nearest code, and how far it is.

    Args:
      obs: (m, n), or (m,) for n = 1.
      code_book: (k, n), or (k,).
      check_finite: accepted, without effect.

    Returns:
      the rows of `code_book` (m,), and the Euclidean distances (m,).

    Raises:
      ShapeError: the shapes do not fit.

    Example:
      >>> points, book = fnp.array([[0.0], [9.0]]), fnp.array([[1.0], [8.0]])
      >>> code, distance = ft.scipy.cluster.vq.vq(points, book)
      >>> code, distance
      (Array([0, 1], dtype=int32), Array([1., 1.], dtype=float32))
    """
    x, codes = alike(obs, code_book)
    shapes = x.shape, codes.shape
    if x.ndim == 1 == codes.ndim:
        x, codes = x[:, None], codes[:, None]
    if x.ndim != 2 or codes.ndim != 2 or x.shape[1] != codes.shape[1]:
        raise ShapeError(
            "vq: observations (m, n) and codes (k, n) are required, got shapes "
            f"{shapes[0]} and {shapes[1]}"
        )
    dtype = dtypes.to_inexact(x.dtype)
    x, codes = cast(x, dtype), cast(codes, dtype)
    distances = fnp.linalg.norm(x[:, None] - codes, axis=-1)
    nearest = fnp.argmin(distances, -1)
    return nearest, fnp.take_along_axis(distances, nearest[:, None], -1)[:, 0]


publish(__name__)
