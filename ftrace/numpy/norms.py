"""Norms of vectors and matrices, and what singular values tell: rank, condition."""

from __future__ import annotations

import math
from typing import Any

from ftrace import dtypes
from ftrace.errors import ShapeError, ValueRangeError
from ftrace.numpy import axes as ax
from ftrace.numpy.axes import Axis
from ftrace.numpy.elementwise import isnan, logical_and, logical_not
from ftrace.numpy.factorizations import eigvalsh, inexact, matrices, square, svdvals
from ftrace.numpy.linear import need_axes
from ftrace.numpy.reductions import any as any_of
from ftrace.numpy.reductions import max as greatest
from ftrace.numpy.reductions import min as least
from ftrace.numpy.reductions import reduced
from ftrace.numpy.reductions import sum as add_up
from ftrace.numpy.statistics import squared_magnitude
from ftrace.numpy.systems import epsilon, inv
from ftrace.trace.bind import bind, elementwise
from ftrace.trace.eager.composite import run_fused
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.broadcast import reduce_sum_p
from ftrace.trace.tracing.tracer import Value

__all__ = ["cond", "matrix_norm", "matrix_rank", "norm", "vector_norm"]

_divide, _multiply = p.div, p.mul
Order = Any  # int | float | str | None


def norm(x: Value, ord: Order = None, axis: Axis = None, keepdims: bool = False) -> Any:
    """The norm of vectors or matrices. Its derivative at zero is zero, not NaN.

    Args:
      x: the array.
      ord: of a vector: 2 (the default), inf, -inf, 0, or any p; of a matrix: "fro"
        (the default), "nuc" (the sum of the singular values), 2 or -2 (the greatest,
        the least), 1, -1, inf or -inf (the greatest, the least sum of a column, of a
        row).
      axis: one axis holds vectors, two hold matrices. None takes all of them; any
        number is then allowed where `ord` is not given.
      keepdims: the reduced axes stay, with size 1.

    Raises:
      ShapeError: neither one axis nor two.
      ValueRangeError: there is no such norm.
    """
    x = inexact(x)
    axes = ax.canonical_axes(axis, x.ndim, "norm")
    if (axis is None and ord is None) or (len(axes) == 2 and ord in (None, "f", "fro")):
        return run_fused(_euclidean, [x], axes=axes, keepdims=keepdims)
    if len(axes) == 1:
        return vector_norm(x, axis=axes, keepdims=keepdims, ord=ord)
    if len(axes) == 2:
        return _matrix_norm(x, axes, keepdims, ord)
    raise ShapeError(
        f"norm: the axes {axes} of shape {x.shape}: one axis gives the norm of "
        "vectors, two that of matrices; choose with axis="
    )


def vector_norm(
    x: Value, /, *, axis: Axis = None, keepdims: bool = False, ord: Order = 2
) -> Any:
    """The norm of vectors along `axis`, or of all elements as one vector.

    Raises:
      ValueRangeError: `ord` is not a number.
    """
    x = inexact(x)
    axes = ax.canonical_axes(axis, x.ndim, "vector_norm")
    if ord is None or ord == 2:
        return run_fused(_euclidean, [x], axes=axes, keepdims=keepdims)
    if isinstance(ord, str):
        raise ValueRangeError(
            f"vector_norm: ord must be a number, got {ord!r}; for infinity, write "
            "ftrace.numpy.inf"
        )
    if ord == 0:
        hits = ax.cast(
            bind(p.ne, x, ax.full(x.shape, 0, x.dtype)), dtypes.real_dtype(x.dtype)
        )
        return reduced(reduce_sum_p, hits, axes, keepdims)
    size = elementwise(p.absolute, x)
    if ord == math.inf:
        return greatest(size, axes, keepdims=keepdims, initial=0)
    if ord == -math.inf:
        return least(size, axes, keepdims=keepdims)
    if ord == 1:
        return reduced(reduce_sum_p, size, axes, keepdims)
    return run_fused(_p_norm, [size], axes=axes, keepdims=keepdims, ord=float(ord))


def _euclidean(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    return bind(p.sqrt, reduced(reduce_sum_p, squared_magnitude(x), axes, keepdims))


def _p_norm(size: Any, axes: tuple[int, ...], keepdims: bool, ord: float) -> Any:
    powers = elementwise(p.power, size, ord)
    return elementwise(p.power, reduced(reduce_sum_p, powers, axes, keepdims), 1 / ord)


def matrix_norm(x: Value, /, *, keepdims: bool = False, ord: Order = "fro") -> Any:
    """The norm of matrices in the last two axes.

    Raises:
      ShapeError: there are fewer than two axes.
      ValueRangeError: there is no such norm.
    """
    x = inexact(x)
    need_axes("matrix_norm", x, 2, "only")
    return norm(x, ord, (x.ndim - 2, x.ndim - 1), keepdims)


def _matrix_norm(x: Any, axes: tuple[int, ...], keepdims: bool, ord: Order) -> Any:
    if ord in ("nuc", 2, -2):
        return _spectral_norm(x, axes, keepdims, ord)
    if ord not in (1, -1, math.inf, -math.inf):
        raise ValueRangeError(
            f"norm: ord={ord!r} is not a norm of matrices; these are 'fro', 'nuc', 1, "
            "-1, 2, -2, inf and -inf"
        )
    row, column = axes
    added, sought = (row, column) if abs(ord) == 1 else (column, row)
    sums = reduced(reduce_sum_p, elementwise(p.absolute, x), (added,), keepdims)
    if not keepdims and sought > added:
        sought -= 1
    if ord > 0:
        return greatest(sums, sought, keepdims=keepdims, initial=0)
    return least(sums, sought, keepdims=keepdims)


def _spectral_norm(x: Any, axes: tuple[int, ...], keepdims: bool, ord: Order) -> Any:
    rest = [a for a in range(x.ndim) if a not in axes]
    values = svdvals(ax.permute(x, (*rest, *axes)))
    if ord == "nuc":
        result = add_up(values, -1)
    elif ord == 2:
        result = greatest(values, -1, initial=0)
    else:
        result = least(values, -1)
    return ax.insert_axes(result, sorted(axes)) if keepdims else result


# What singular values tell.


def cond(x: Value, p: Order = None) -> Any:
    """The condition numbers of matrices: how much a solution magnifies an error.

    Args:
      x: (…, m, n), not empty.
      p: None or 2, the ratio of the singular values; -2, its inverse; else the norm of
        square matrices times that of their inverses: see `norm`.

    Returns:
      (…), infinite for singular matrices.

    Raises:
      ShapeError: the matrices are empty, or not square for this norm.
    """
    matrix = matrices("cond", x)
    if 0 in matrix.shape[-2:]:
        raise ShapeError(f"cond: empty matrices have no condition: {matrix.shape}")
    if p in (None, 2, -2):
        values = svdvals(matrix)
        high, low = greatest(values, -1), least(values, -1)
        pair = (low, high) if p == -2 else (high, low)
        return elementwise(_divide, *pair)
    matrix = square("cond", matrix)
    result = elementwise(
        _multiply, norm(matrix, p, (-2, -1)), norm(inv(matrix), p, (-2, -1))
    )
    # The norm of an inverse that does not exist is infinite, unless x has NaN.
    given = any_of(isnan(matrix), (-2, -1))
    infinite = logical_and(isnan(result), logical_not(given))
    return ax.choose(infinite, ax.full((), math.inf, result.dtype), result)


def matrix_rank(
    M: Value, rtol: Value | None = None, *, hermitian: bool = False, tol: Any = None
) -> Any:
    """How many singular values of matrices are not small.

    Args:
      M: (…, m, n); of fewer axes: is any element not zero?
      rtol: what is small (not relative to anything, as in JAX); by default
        max(m, n)·ε times the greatest singular value.
      hermitian: M is.
      tol: another name of `rtol`.
    """
    limit: Any = rtol if rtol is not None else tol
    matrix = inexact(M)
    if matrix.ndim < 2:
        return ax.cast(any_of(elementwise(p.ne, matrix, 0)), dtypes.int32)
    if hermitian:
        values = elementwise(p.absolute, eigvalsh(square("matrix_rank", matrix)))
    else:
        values = svdvals(matrix)
    if limit is None:
        scale = max(matrix.shape[-2:]) * epsilon(matrix)
        limit = elementwise(p.mul, greatest(values, -1), scale)
    limit = inexact(limit)
    return add_up(elementwise(p.gt, values, ax.insert_axes(limit, (limit.ndim,))), -1)
