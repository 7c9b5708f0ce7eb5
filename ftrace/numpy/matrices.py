"""Matrices of a pattern, index arrays of it, and the two numberings of elements."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import ShapeError, ValueRangeError, one_of
from ftrace.numpy import axes as ax, elementwise as ew, logic
from ftrace.numpy.arithmetic import floor_divide, integer_power, remainder
from ftrace.numpy.creation import Dtype, dtype_or
from ftrace.numpy.editing import are_inside
from ftrace.numpy.joining import stack
from ftrace.numpy.linear import check_diagonal
from ftrace.numpy.shape import atleast_1d, ravel, shape as shape_of
from ftrace.numpy.sorting import nonzero
from ftrace.trace.arrays.array import Array
from ftrace.trace.eager.function_objects import member
from ftrace.trace.tracing.tracer import Value

__all__ = [
    "diag", "diag_indices", "diag_indices_from", "diagflat", "diagonal", "eye",
    "identity", "ix_", "mask_indices", "ravel_multi_index", "tri", "tril",
    "tril_indices", "tril_indices_from", "triu", "triu_indices", "triu_indices_from",
    "unravel_index", "vander",
]  # fmt: skip


def eye(N: int, M: int | None = None, k: Value = 0, dtype: Dtype = None) -> Any:
    """N × M with ones on the diagonal k columns to the right, zeros elsewhere.

    Args:
      N: how many rows.
      M: how many columns; None is N.
      k: which diagonal; negative ones are below.
      dtype: of the elements; None is float32.

    Raises:
      ValueRangeError: a size is negative.

    Example:
      >>> fnp.eye(2)
      Array([[1., 0.],
             [0., 1.]], dtype=float32)
      >>> fnp.eye(2, 3, k=1, dtype=int)
      Array([[0, 1, 0],
             [0, 0, 1]], dtype=int32)
    """
    rows, columns = _sizes("eye", N, M)
    target = dtype_or(dtype, dtypes.default_dtype("f"))
    row, column = _grid(rows, columns)
    on = ew.add(row, _within(k, rows, columns)) == column
    return ax.cast(on, target)


def identity(n: int, dtype: Dtype = None) -> Any:
    """The n × n identity matrix.

    Args:
      n: how many rows.
      dtype: of the elements; None is float32.

    Raises:
      ValueRangeError: n is negative.

    Example:
      >>> fnp.identity(2)
      Array([[1., 0.],
             [0., 1.]], dtype=float32)
    """
    return eye(n, dtype=dtype)


def tri(N: int, M: int | None = None, k: int = 0, dtype: Dtype = None) -> Any:
    """N × M with ones on and below the diagonal k columns to the right.

    Args:
      N: how many rows.
      M: how many columns; None is N.
      k: which diagonal; negative ones are below.
      dtype: of the elements; None is float32.

    Raises:
      ValueRangeError: a size is negative.

    Example:
      >>> fnp.tri(2, 3, dtype=int)
      Array([[1, 0, 0],
             [1, 1, 0]], dtype=int32)
    """
    rows, columns = _sizes("tri", N, M)
    target = dtype_or(dtype, dtypes.float32)
    return ax.cast(_below(rows, columns, k), target)


def _sizes(name: str, rows: Any, columns: Any) -> tuple[int, int]:
    n = ax.check_count(rows, f"{name}: N")
    return n, n if columns is None else ax.check_count(columns, f"{name}: M")


def _grid(rows: int, columns: int) -> tuple[Any, Any]:
    row, column = (ax.iota(dtypes.int32, (rows, columns), axis) for axis in (0, 1))
    return row, column


def _below(rows: int, columns: int, k: Value) -> Any:
    row, column = _grid(rows, columns)
    return ew.add(row, _within(k, rows, columns)) >= column


def _within(k: Value, rows: int, columns: int) -> Value:
    """An offset of a diagonal; one that is known is no greater than the matrix."""
    return max(-rows, min(k, columns)) if type(k) is int else k


def tril(m: Value, k: int = 0) -> Any:
    """Matrices with zeros above the diagonal k columns to the right.

    Args:
      m: (…, rows, columns).
      k: which diagonal; negative ones are below.

    Raises:
      ShapeError: there are fewer than two axes.

    Example:
      >>> fnp.tril(fnp.array([[1, 2], [3, 4]]))
      Array([[1, 0],
             [3, 4]], dtype=int32)
    """
    m = ax.need_axes("tril", m, 2)
    return ax.choose(_below(m.shape[-2], m.shape[-1], k), m, _zero(m))


def triu(m: Value, k: int = 0) -> Any:
    """Matrices with zeros below the diagonal k columns to the right.

    Args:
      m: (…, rows, columns).
      k: which diagonal; negative ones are below.

    Raises:
      ShapeError: there are fewer than two axes.

    Example:
      >>> fnp.triu(fnp.array([[1, 2], [3, 4]]))
      Array([[1, 2],
             [0, 4]], dtype=int32)
      >>> fnp.triu(fnp.array([[1, 2], [3, 4]]), k=1)
      Array([[0, 2],
             [0, 0]], dtype=int32)
    """
    m = ax.need_axes("triu", m, 2)
    row, column = _grid(m.shape[-2], m.shape[-1])
    return ax.choose(ew.add(row, k) > column, _zero(m), m)


def _zero(x: Any) -> Any:
    """0 of the type of `x`: beside bools a number would give integers."""
    return ax.full((), 0, x.dtype, x.weak_type)


def vander(x: Value, N: int | None = None, increasing: bool = False) -> Any:
    """The powers of a vector as columns, N of them, descending by default.

    Args:
      x: a vector.
      N: how many columns; None is the length of `x`.
      increasing: from the power 0 on.

    Returns:
      (size of x, N).

    Raises:
      ShapeError: `x` is no vector.

    Example:
      >>> fnp.vander(fnp.array([1, 2, 3]), increasing=True)
      Array([[1, 1, 1],
             [1, 2, 4],
             [1, 3, 9]], dtype=int32)
    """
    x = ax.vector(x, "vander: x")
    count = x.shape[0] if N is None else ax.static_int(N, "vander: N")
    if count == 0:
        return ax.full((x.shape[0], 0), 0, x.dtype)
    powers = range(count) if increasing else reversed(range(count))
    return stack([integer_power(x, n) for n in powers], axis=1)


# Diagonals.


def diag(v: Value, k: int = 0) -> Any:
    """The diagonal of a matrix; or the matrix with a vector as its diagonal.

    Args:
      v: a matrix or a vector.
      k: which diagonal, so many columns to the right; negative ones are below.

    Raises:
      ShapeError: `v` is neither a vector nor a matrix.

    Example:
      >>> fnp.diag(fnp.array([1, 2]))
      Array([[1, 0],
             [0, 2]], dtype=int32)
      >>> fnp.diag(fnp.array([[1, 2], [3, 4]]))
      Array([1, 4], dtype=int32)
    """
    v = ax.as_value(v)
    if v.ndim == 2:
        return diagonal(v, k)
    v = ax.vector(v, "diag: what is no matrix")
    n, k = v.shape[0], ax.static_int(k, "diag: k")
    row, column = _grid(n, n)
    square = ax.choose(row == column, ax.reshape(v, (n, 1)), _zero(v))
    right, down = max(k, 0), max(-k, 0)
    return ax.pad(square, ((down, right, 0), (right, down, 0)))


def diagflat(v: Value, k: int = 0) -> Any:
    """The matrix with all elements of `v` on its diagonal.

    Args:
      v: an array, which is flattened.
      k: which diagonal, so many columns to the right; negative ones are below.

    Example:
      >>> fnp.diagflat(fnp.array([[1], [2]]), k=1)
      Array([[0, 1, 0],
             [0, 0, 2],
             [0, 0, 0]], dtype=int32)
    """
    return diag(ravel(v), k)


def diagonal(a: Value, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """The diagonal of two axes, along a new last axis.

    Args:
      a: the array.
      offset: above (positive) or below (negative) the main diagonal.
      axis1, axis2: rows and columns.

    Raises:
      ShapeError: there are fewer than two axes, or axis1 is axis2.

    Example:
      >>> fnp.diagonal(fnp.array([[1, 2], [3, 4]]))
      Array([1, 4], dtype=int32)
      >>> fnp.diagonal(fnp.zeros((2, 3, 3)), axis1=1, axis2=2).shape
      (2, 3)
    """
    return check_diagonal("diagonal", a, offset, axis1, axis2)


# Indices of such matrices, and the two numberings of elements.


def _arrays(indices: Sequence[np.ndarray[Any, Any]]) -> tuple[Any, ...]:
    integer = dtypes.default_dtype("i")
    return tuple(ax.constant(Array.of(i.astype(integer))) for i in indices)


def diag_indices(n: int, ndim: int = 2) -> tuple[Any, ...]:
    """The indices of the main diagonal of an array of `ndim` axes of size n.

    Args:
      n: the size of each axis.
      ndim: how many axes.

    Returns:
      A tuple of `ndim` vectors of int32, to index with.

    Example:
      >>> fnp.diag_indices(3)
      (Array([0, 1, 2], dtype=int32), Array([0, 1, 2], dtype=int32))
    """
    n = ax.check_count(n, "diag_indices: n")
    ndim = ax.check_count(ndim, "diag_indices: ndim")
    return _arrays([np.arange(n)] * ndim)


def diag_indices_from(arr: Value) -> tuple[Any, ...]:
    """The indices of the main diagonal of an array.

    Args:
      arr: an array of two axes or more, all of one size.

    Returns:
      A tuple of vectors of int32, to index with.

    Raises:
      ShapeError: it has fewer than two axes, or they differ in size.

    Example:
      >>> fnp.diag_indices_from(fnp.zeros((2, 2)))
      (Array([0, 1], dtype=int32), Array([0, 1], dtype=int32))
    """
    shape = shape_of(arr)
    if len(shape) < 2 or len(set(shape)) != 1:
        raise ShapeError(
            f"diag_indices_from: axes of one size, at least 2; got {shape}"
        )
    return diag_indices(shape[0], len(shape))


def _triangle(name: str):
    find: Callable[..., Any] = getattr(np, name)

    def indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, Any]:
        """The indices of a triangle.

        Args:
          n: how many rows.
          k: which diagonal bounds it, so many columns to the right.
          m: how many columns; None is n.

        Returns:
          (rows, columns): vectors of int32, to index with.

        Raises:
          ValueRangeError: a size is negative.
        """
        n, m = _sizes(name, n, m)
        rows, columns = _arrays(find(n, ax.static_int(k, f"{name}: k"), m))
        return rows, columns

    return indices


@member(_triangle)
def tril_indices():
    """The indices of the lower triangle of an n × m matrix, row by row.

    Example:
      >>> fnp.tril_indices(2)
      (Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))
    """


@member(_triangle)
def triu_indices():
    """The indices of the upper triangle of an n × m matrix, row by row.

    Example:
      >>> fnp.triu_indices(3, k=1)
      (Array([0, 0, 1], dtype=int32), Array([1, 2, 2], dtype=int32))
    """


def _triangle_of(name: str, find: Callable[..., tuple[Any, Any]]):
    def indices(arr: Value, k: int = 0) -> tuple[Any, Any]:
        """The indices of a triangle of a matrix.

        Args:
          arr: a matrix, of which the shape counts.
          k: which diagonal bounds it, so many columns to the right.

        Returns:
          (rows, columns): vectors of int32, to index with.

        Raises:
          ShapeError: it is no matrix.
        """
        shape = shape_of(arr)
        if len(shape) != 2:
            raise ShapeError(f"{name} takes a matrix, got shape {shape}")
        return find(shape[0], k, shape[1])

    return indices


@member(_triangle_of, tril_indices)
def tril_indices_from():
    """The indices of the lower triangle of a matrix, row by row.

    Example:
      >>> fnp.tril_indices_from(fnp.zeros((2, 2)))
      (Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))
    """


@member(_triangle_of, triu_indices)
def triu_indices_from():
    """The indices of the upper triangle of a matrix, row by row.

    Example:
      >>> fnp.triu_indices_from(fnp.zeros((2, 2)), k=1)
      (Array([0], dtype=int32), Array([1], dtype=int32))
    """


def mask_indices(
    n: int, mask_func: Callable[[Any, int], Any], k: int = 0, *, size: int | None = None
) -> tuple[Any, ...]:
    """The indices at which `mask_func` of an n × n matrix of ones, and k, is not zero.

    Args:
      n: how many rows and columns there are.
      mask_func: (matrix, k) -> matrix, as `triu` and `tril`.
      k: what it is given.
      size: how many indices are returned, as in `nonzero`.

    Returns:
      (rows, columns): vectors of int32, to index with.

    Example:
      >>> fnp.mask_indices(2, fnp.tril)
      (Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))
    """
    shape = ax.check_sizes((n, n), "mask_indices")
    return nonzero(
        mask_func(ax.full(shape, 1, dtypes.default_dtype("f")), k), size=size
    )


def ix_(*args: Value) -> tuple[Any, ...]:
    """Vectors as indices of a grid: each along its own axis.

    Args:
      *args: vectors of integers, or of bools: where they hold.

    Returns:
      A tuple of arrays, as many as there are, which broadcast together.

    Raises:
      ShapeError: an argument is no vector.

    Example:
      >>> x = fnp.array([[1, 2, 3], [4, 5, 6]])
      >>> x[fnp.ix_(fnp.array([0, 1]), fnp.array([2, 0]))]
      Array([[3, 1],
             [6, 4]], dtype=int32)
    """
    found: list[Any] = []
    for place, arg in enumerate(args):
        vector = ax.vector(arg, "ix_: each argument")
        if vector.size == 0:
            vector = ax.cast(vector, dtypes.default_dtype("i"))
        elif vector.dtype == dtypes.bool_:
            vector = Array.of(np.nonzero(np.asarray(vector))[0].astype(np.int32))
        found.append(ax.reshape(vector, ax.line(len(args), place, vector.shape[0])))
    return tuple(found)


def unravel_index(indices: Value, shape: Any) -> tuple[Any, ...]:
    """The index along each axis of elements numbered row by row.

    Negative numbers count from the end; what is out of bounds is clipped.

    Args:
      indices: integers of any shape, or bools.
      shape: the sizes of the axes, which may be traced.

    Returns:
      A tuple of arrays of the shape of `indices`, one per axis.

    Raises:
      ValueRangeError: the indices are neither.

    Example:
      >>> fnp.unravel_index(fnp.array([1, 5]), (2, 3))
      (Array([0, 1], dtype=int32), Array([1, 2], dtype=int32))
    """
    rest = ax.as_value(indices)
    if ew.kind_of(rest) not in "biu":
        raise ValueRangeError(f"unravel_index takes integers, got {rest.dtype.name}")
    if rest.dtype == dtypes.bool_:
        rest = ax.cast(rest, dtypes.default_dtype("i"))
    given = list(shape) if ax.is_sequence(shape) else [shape]
    if any(map(ax.is_unknown, given)):
        sizes = [size for part in given for size in atleast_1d(part)]
        total = reduce(operator.mul, sizes)
    else:
        sizes = ax.check_shape(shape, "unravel_index")
        total = int(np.prod(sizes, dtype=np.int64))
        if total == 0:
            return tuple(ax.full(rest.shape, 0, rest.dtype) for _ in sizes)
    rest = logic.clip(ax.choose(rest < 0, rest + total, rest), 0, total - 1)
    found: list[Any] = []
    for size in reversed(sizes):
        found.append(remainder(rest, size))
        rest = floor_divide(rest, size)
    return tuple(reversed(found))


def ravel_multi_index(
    multi_index: Sequence[Value],
    dims: Sequence[int],
    mode: str | Sequence[str] = "raise",
    order: str = "C",
    *,
    dtype: Any = None,
) -> Any:
    """The numbers, row by row, of the elements at an index per axis.

    Args:
      multi_index: integers, one array per axis.
      dims: the sizes of the axes.
      mode: for indices out of bounds "raise", "wrap", "clip" or "ignore", or one per
        axis.
      order: "C" counts row by row, "F" column by column.
      dtype: of the result; by default that of the indices.

    Raises:
      ShapeError: there are not as many arrays as axes.
      ValueRangeError: with "raise", an index is out of bounds.
      ConcretizationTypeError: with "raise", an index is traced.

    Example:
      >>> fnp.ravel_multi_index((fnp.array([0, 1]), fnp.array([1, 2])), (2, 3))
      Array([1, 5], dtype=int32)
    """
    sizes = ax.check_shape(dims, "ravel_multi_index")
    modes = [mode] * len(sizes) if isinstance(mode, str) else list(mode)
    if len(multi_index) != len(sizes) or len(modes) != len(sizes):
        raise ShapeError(
            f"ravel_multi_index: {len(multi_index)} index arrays for {len(sizes)} axes"
        )
    one_of("ravel_multi_index: order", order, ("C", "F"))
    arrays = ew.promote_together(*multi_index) if sizes else []
    if any(ew.kind_of(i) not in "iu" for i in arrays):
        raise ValueRangeError("ravel_multi_index takes integers")
    bounded = [_limit(i, n, m) for i, n, m in zip(arrays, sizes, modes, strict=True)]
    axes = range(len(sizes)) if order == "C" else reversed(range(len(sizes)))
    wide = arrays and arrays[0].dtype == np.uint64  # beside int32 it would be a float
    result: Any = ax.full((), 0, dtypes.uint64 if wide else dtypes.int32)
    for axis in axes:
        result = result * sizes[axis] + bounded[axis]
    return result if dtype is None else ax.cast(result, dtypes.as_dtype(dtype))


def _limit(index: Any, size: int, mode: str) -> Any:
    if mode == "wrap":
        return remainder(index, size)
    if mode == "clip":
        return logic.clip(index, 0, size - 1)
    one_of("ravel_multi_index: mode", mode, ("raise", "wrap", "clip", "ignore"))
    if mode == "raise" and not are_inside(np.asarray(index), size):
        raise ValueRangeError(
            f"invalid entry in coordinates array: an index is out of bounds of an axis "
            f"of size {size}"
        )
    return index
