"""Functions along axes: softmax, logsumexp, standardize, one_hot."""

from __future__ import annotations

import math
from typing import Any

import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.errors import ValueRangeError
from ftrace.numpy.axes import (
    Axis,
    as_value,
    canonical_axes,
    canonical_axis,
    cast,
    expand,
    insert_axes,
    iota,
    static_int,
)
from ftrace.numpy.reductions import check_where, reduced
from ftrace.numpy.softmax import log_softmax, logsumexp, softmax
from ftrace.trace.operations import bind
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.broadcast import reduce_sum_p
from ftrace.trace.tracer import Value

__all__ = [
    "log_softmax", "logmeanexp", "logsumexp", "one_hot", "softmax", "standardize",
]  # fmt: skip


def logmeanexp(
    x: Value, axis: Axis = None, where: Value | None = None, keepdims: bool = False
) -> Any:
    """log(mean(exp(x))) along `axis`; arguments as in `logsumexp`."""
    x = as_value(x)
    total = logsumexp(x, axis, keepdims=keepdims, where=where)
    axes = canonical_axes(axis, x.ndim, "logmeanexp")
    if where is None:
        return total - math.log(math.prod(x.shape[a] for a in axes) or math.nan)
    hits = cast(check_where("logmeanexp", where, x.shape), total.dtype)
    return total - fnp.log(reduced(reduce_sum_p, hits, axes, keepdims))


def standardize(
    x: Value,
    axis: Axis = -1,
    mean: Value | None = None,
    variance: Value | None = None,
    epsilon: Value = 1e-5,
    where: Value | None = None,
    *,
    algorithm: str = "fast",
) -> Any:
    """`x` less its mean, divided by its standard deviation.

    Args:
      x: the array.
      axis: along which the mean and the variance are taken.
      mean, variance: if they are known.
      epsilon: added to the variance.
      where: a mask of the elements that count.
      algorithm: JAX's "fast" or "stable"; both take two passes here, which the
        compiler joins.

    Raises:
      ValueRangeError: the algorithm is unknown.
    """
    if algorithm not in ("fast", "stable"):
        raise ValueRangeError(
            f"standardize: algorithm must be 'fast' or 'stable', got {algorithm!r}"
        )
    x = as_value(x)
    if mean is None:
        mean = fnp.mean(x, axis, keepdims=True, where=where)
    centered = x - mean
    if variance is None:
        squares = fnp.square(centered)
        variance = fnp.mean(squares, axis, keepdims=True, where=where)
    return centered * bind(p.rsqrt, as_value(variance + epsilon))


def one_hot(x: Any, num_classes: int, *, dtype: Any = None, axis: int = -1) -> Any:
    """1 at the index that `x` holds, 0 elsewhere, along a new axis.

    Args:
      x: integers; those outside of 0 … num_classes - 1 give zeros.
      num_classes: the size of the new axis.
      dtype: of the result, by default float32.
      axis: where the result has the new axis.
    """
    x = fnp.asarray(x)
    count = static_int(num_classes, "one_hot: num_classes")
    if count < 0:
        raise ValueRangeError(f"one_hot: num_classes must not be negative, got {count}")
    place = canonical_axis(axis, x.ndim + 1, "one_hot")
    shape = (*x.shape[:place], count, *x.shape[place:])
    kind = dtypes.default_dtype("f") if dtype is None else dtypes.as_dtype(dtype)
    wide = x if x.dtype.itemsize >= 4 else cast(x, dtypes.int32)
    classes = iota(wide.dtype, shape, place)
    hits = bind(p.eq, expand(insert_axes(wide, (place,)), shape), classes)
    return cast(hits, dtypes.canonicalize(kind))
