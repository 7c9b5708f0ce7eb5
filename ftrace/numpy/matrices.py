"""Matrices of a pattern: identity, triangles, diagonals, powers. All are movement."""

from __future__ import annotations

from typing import Any

from ftrace import dtypes
from ftrace.errors import ShapeError, ValueRangeError
from ftrace.numpy.arithmetic import integer_power
from ftrace.numpy.axes import (
    as_value,
    canonical_axis,
    cast,
    checked_size,
    choose,
    full,
    iota,
    pad,
    reshape,
    static_int,
)
from ftrace.numpy.creation import Dtype, dtype_or, placed
from ftrace.numpy.elementwise import add, equal, greater_equal
from ftrace.numpy.joining import stack
from ftrace.numpy.linear import diagonal_of
from ftrace.numpy.shape import ravel
from ftrace.trace.tracer import Value

__all__ = [
    "diag", "diagflat", "diagonal", "eye", "identity", "tri", "tril", "triu",
    "vander",
]  # fmt: skip


def eye(
    N: int,
    M: int | None = None,
    k: Value = 0,
    dtype: Dtype = None,
    *,
    device: Any = None,
) -> Any:
    """N × M with ones on the diagonal k columns to the right, zeros elsewhere."""
    rows, columns = _sizes("eye", N, M)
    target = dtype_or(dtype, dtypes.default_dtype("f"))
    row, column = _grid(rows, columns)
    return placed(cast(equal(add(row, k), column), target), device)


def identity(n: int, dtype: Dtype = None) -> Any:
    """The n × n identity matrix."""
    return eye(n, dtype=dtype)


def tri(N: int, M: int | None = None, k: int = 0, dtype: Dtype = None) -> Any:
    """N × M with ones on and below the diagonal k columns to the right."""
    rows, columns = _sizes("tri", N, M)
    target = dtype_or(dtype, dtypes.float32)
    return cast(_below(rows, columns, k), target)


def _sizes(name: str, rows: Any, columns: Any) -> tuple[int, int]:
    n = checked_size(rows, f"{name}: N")
    m = n if columns is None else checked_size(columns, f"{name}: M")
    if n < 0 or m < 0:
        raise ValueRangeError(f"{name}: sizes must not be negative, got {n} and {m}")
    return n, m


def _grid(rows: int, columns: int) -> tuple[Any, Any]:
    shape = (rows, columns)
    if 0 in shape:
        return full(shape, 0, dtypes.int32), full(shape, 0, dtypes.int32)
    return iota(dtypes.int32, shape, 0), iota(dtypes.int32, shape, 1)


def _below(rows: int, columns: int, k: Value) -> Any:
    row, column = _grid(rows, columns)
    return greater_equal(add(row, k), column)


def tril(m: Value, k: int = 0) -> Any:
    """Matrices with zeros above the diagonal k columns to the right."""
    m = _matrices("tril", m)
    return choose(_below(m.shape[-2], m.shape[-1], k), m, _zero(m))


def triu(m: Value, k: int = 0) -> Any:
    """Matrices with zeros below the diagonal k columns to the right."""
    m = _matrices("triu", m)
    return choose(_below(m.shape[-2], m.shape[-1], k - 1), _zero(m), m)


def _zero(x: Any) -> Any:
    """0 of the type of `x`: beside bools a number would give integers."""
    return full((), 0, x.dtype, x.weak_type)


def _matrices(name: str, m: Value) -> Any:
    m = as_value(m)
    if m.ndim < 2:
        raise ShapeError(f"{name} takes at least two axes, got shape {m.shape}")
    return m


def vander(x: Value, N: int | None = None, increasing: bool = False) -> Any:
    """The powers of a vector as columns, N of them, descending by default.

    Raises:
      ShapeError: `x` is no vector.
    """
    x = as_value(x)
    if x.ndim != 1:
        raise ShapeError(f"vander takes a vector, got shape {x.shape}")
    count = x.shape[0] if N is None else static_int(N, "vander: N")
    if count == 0:
        return full((x.shape[0], 0), 0, x.dtype)
    powers = range(count) if increasing else reversed(range(count))
    return stack([integer_power(x, n) for n in powers], axis=1)


# Diagonals.


def diag(v: Value, k: int = 0) -> Any:
    """The diagonal of a matrix; or the matrix with a vector as its diagonal.

    Raises:
      ShapeError: `v` is neither a vector nor a matrix.
    """
    v = as_value(v)
    if v.ndim == 2:
        return diagonal(v, k)
    if v.ndim != 1:
        raise ShapeError(f"diag takes a vector or a matrix, got shape {v.shape}")
    n, k = v.shape[0], static_int(k, "diag: k")
    row, column = _grid(n, n)
    square = choose(equal(row, column), reshape(v, (n, 1)), _zero(v))
    right, down = max(k, 0), max(-k, 0)
    return pad(square, ((down, right, 0), (right, down, 0)))


def diagflat(v: Value, k: int = 0) -> Any:
    """The matrix with all elements of `v` on its diagonal."""
    return diag(ravel(v), k)


def diagonal(a: Value, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """The diagonal of two axes, along a new last axis.

    Raises:
      ShapeError: there are fewer than two axes.
      AxisError: the two axes are one.
    """
    a = _matrices("diagonal", a)
    first = canonical_axis(axis1, a.ndim, "diagonal")
    second = canonical_axis(axis2, a.ndim, "diagonal")
    if first == second:
        raise ShapeError(f"diagonal: axis1 and axis2 must differ, got {axis1}, {axis2}")
    return diagonal_of(a, first, second, static_int(offset, "diagonal: offset"))
