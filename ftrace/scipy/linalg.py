"""Special matrices; nothing here needs a factorisation."""

from __future__ import annotations

from typing import Any

import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.errors import ShapeError, ValueRangeError
from ftrace.numpy.axes import (
    broadcast_to,
    full,
    insert_axes,
    iota,
    pad,
    reshape,
    shrink_axis,
    static_int,
)
from ftrace.trace.operations import broadcast_shapes
from ftrace.trace.tracer import Value

__all__ = ["block_diag", "hilbert", "toeplitz"]


def block_diag(*arrs: Value) -> Any:
    """The matrices one after the other along the diagonal, zeros elsewhere.

    Args:
      arrs: matrices; a vector is a row, a scalar is a matrix of one element.

    Raises:
      ShapeError: an operand has more than two axes.
    """
    blocks = [fnp.atleast_2d(x) for x in arrs or (fnp.zeros((1, 0)),)]
    for x in blocks:
        if x.ndim > 2:
            raise ShapeError(
                "block_diag: operands of at most two axes are required, got the shape "
                f"{x.shape}"
            )
    width = sum(x.shape[1] for x in blocks)
    rows: list[Any] = []
    before = 0
    for x in blocks:
        after = width - before - x.shape[1]
        rows.append(pad(x, ((0, 0, 0), (before, after, 0))))
        before += x.shape[1]
    return fnp.concatenate(rows)


def toeplitz(c: Value, r: Value | None = None) -> Any:
    """The matrices of equal diagonals, by their first column and their first row.

    Args:
      c: (..., n), the first column.
      r: (..., m), the first row, of which the first element is not looked at; by
        default the conjugate of `c`.
    """
    column = fnp.atleast_1d(c)
    row = fnp.conjugate(column) if r is None else fnp.atleast_1d(r)
    n, m = column.shape[-1], row.shape[-1]
    batch = broadcast_shapes("toeplitz", [column.shape[:-1], row.shape[:-1]])
    if n == 0 or m == 0:
        return fnp.zeros((*batch, n, m), fnp.result_type(column, row))
    column = broadcast_to(column, (*batch, n))
    row = broadcast_to(row, (*batch, m))
    diagonals = fnp.concatenate(
        [fnp.flip(column, -1), shrink_axis(row, len(batch), 1, m)], axis=-1
    )
    if n == 1:
        return insert_axes(diagonals, (len(batch),))
    # Row i starts one element before row i - 1. So does, in copies of the diagonals one
    # after the other, what follows every so many elements but one.
    count = n + m - 1
    copies = broadcast_to(
        insert_axes(diagonals, (len(batch),)), (*batch, n, count), "toeplitz"
    )
    flat = reshape(copies, (*batch, n * count))
    flat = shrink_axis(flat, len(batch), n - 1, n - 1 + n * (count - 1))
    return shrink_axis(reshape(flat, (*batch, n, count - 1)), len(batch) + 1, 0, m)


def hilbert(n: int) -> Any:
    """The matrix 1/(i + j + 1) of n rows.

    Raises:
      ValueRangeError: n is negative.
    """
    size = static_int(n, "hilbert: n")
    if size < 0:
        raise ValueRangeError(f"hilbert: n must not be negative, got {size}")
    dtype = dtypes.default_dtype("f")
    rows = iota(dtype, (size, size), 0)
    return full((), 1, dtype) / (rows + iota(dtype, (size, size), 1) + 1)
