"""Axes of sparse arrays: moved, reshaped, broadcast, joined, cut."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ftrace import numpy as fnp
from ftrace.errors import ShapeError, UnsupportedError, ValueRangeError
from ftrace.experimental.sparse import bcoo
from ftrace.experimental.sparse.bcoo import BCOO
from ftrace.lax import gather_scatter
from ftrace.numpy import axes as ax
from ftrace.trace.eager.checked_calls import uncheck
from ftrace.trace.tracing.tracer import Value
from ftrace.transforms.vmap import vmap

__all__ = [
    "bcoo_broadcast_in_dim", "bcoo_concatenate", "bcoo_dynamic_slice", "bcoo_gather",
    "bcoo_reduce_sum", "bcoo_reshape", "bcoo_rev", "bcoo_slice", "bcoo_squeeze",
    "bcoo_transpose",
]  # fmt: skip


def _split_axes(name: str, mat: BCOO, axes: Sequence[int]) -> tuple[list[int], ...]:
    """Axes of the batch, of the sparse ones, and of the dense ones, from 0 each."""
    found = ax.canonical_axes(tuple(axes), mat.ndim, name)
    first, last = mat.n_batch, mat.n_batch + mat.n_sparse
    return (
        [a for a in found if a < first],
        [a - first for a in found if first <= a < last],
        [a - last for a in found if a >= last],
    )


def bcoo_transpose(mat: BCOO, *, permutation: Sequence[int]) -> BCOO:
    """The array with its axes in another order: batch, sparse, dense stay apart.

    Args:
      mat: the sparse array.
      permutation: axis i of the result is axis `permutation[i]`.

    Raises:
      ValueRangeError: they do not, or it is no permutation.
    """
    order = [operator.index(i) for i in permutation]
    batch, sparse, dense = _split_axes("bcoo_transpose", mat, order)
    last = mat.n_batch + mat.n_sparse
    apart = [*batch, *[mat.n_batch + i for i in sparse], *[last + i for i in dense]]
    if sorted(order) != list(range(mat.ndim)) or apart != order:
        raise ValueRangeError(
            f"bcoo_transpose: {tuple(order)} must be a permutation of {mat.ndim} axes "
            f"that mixes none of the batch, sparse and dense ones ({mat!r})"
        )
    k = mat.n_batch
    data = mat.data.transpose((*batch, k, *[k + 1 + i for i in dense]))
    indices = mat.indices.transpose((*batch, k, k + 1))
    same = sparse == sorted(sparse)
    return BCOO((data, indices if same else indices[..., np.array(sparse, np.int32)]),
                shape=[mat.shape[i] for i in order],
                indices_sorted=mat.indices_sorted and same,
                unique_indices=mat.unique_indices)  # fmt: skip


def bcoo_reduce_sum(mat: BCOO, *, axes: Sequence[int]) -> BCOO:
    """The sums along axes, as a sparse array.

    Args:
      mat: the sparse array.
      axes: which are added up, and are gone.
    """
    batch, _, _ = _split_axes("bcoo_reduce_sum", mat, axes)
    found = ax.canonical_axes(tuple(axes), mat.ndim, "bcoo_reduce_sum")
    if batch:
        mat = bcoo.bcoo_update_layout(mat, n_batch=0)
    _, sparse, dense = _split_axes("bcoo_reduce_sum", mat, found)
    data, indices = bcoo.full_batch(mat)
    data = bcoo.mask(data, bcoo.inside(indices, mat.sparse_shape))
    data = data.sum(tuple([mat.n_batch + 1 + i for i in dense]))
    kept = [i for i in range(mat.n_sparse) if i not in sparse]
    shape = [n for i, n in enumerate(mat.shape) if i not in found]
    return BCOO((data, indices[..., np.array(kept, np.int32)]), shape=shape)


def bcoo_reshape(
    mat: BCOO, *, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None,
    sharding: Any = None,
) -> BCOO:  # fmt: skip
    """The array in another shape.

    The axes of the batch and the dense ones stay apart from the sparse ones where the
    shape can be parted so; else all become sparse.

    Args:
      mat: the sparse array.
      new_sizes: the shape.
      dimensions: an order of the axes to take first; None is theirs.
      sharding: accepted, without effect.
    """
    if dimensions is not None and list(dimensions) != list(range(mat.ndim)):
        mat = bcoo_transpose(mat, permutation=dimensions)
    sizes = ax.check_shape(tuple(new_sizes), "bcoo_reshape")
    if -1 in sizes:
        known = math.prod([n for n in sizes if n != -1])
        sizes = tuple([mat.size // max(known, 1) if n == -1 else n for n in sizes])
    if math.prod(sizes) != mat.size:
        raise ShapeError(f"bcoo_reshape: {mat.shape} does not fit into {sizes}")
    parts = [math.prod(p) for p in (mat.batch_shape, mat.sparse_shape)]
    first = _cut(sizes, parts[0]) if mat.n_batch else 0
    rest = None if first is None else _cut(sizes[first:], parts[1], not mat.n_dense)
    if first is None or rest is None:
        mat, first, rest = bcoo.all_sparse(mat), 0, len(sizes)
    last = first + rest if mat.n_dense else len(sizes)
    data, indices = bcoo.full_batch(mat)
    batch, sparse, dense = sizes[:first], sizes[first:last], sizes[last:]
    keep = bcoo.inside(indices, mat.sparse_shape)
    flat = fnp.zeros(indices.shape[:-1], indices.dtype)
    for column, n in zip(bcoo.columns(indices), mat.sparse_shape, strict=True):
        flat = flat * n + column
    rows: list[Any] = []
    for n in sparse[::-1]:
        rows.insert(0, flat % max(n, 1))
        flat = flat // max(n, 1)
    made = bcoo.stack(rows, keep, sparse, indices.dtype)
    return BCOO((bcoo.mask(data, keep).reshape(*batch, mat.nse, *dense),
                 made.reshape(*batch, mat.nse, len(sparse))),
                shape=sizes)  # fmt: skip


def _cut(sizes: Sequence[int], total: int, whole: bool = False) -> int | None:
    """How many sizes have this product: as few as possible, or all of them."""
    if whole:
        return len(sizes)
    product = 1
    for i, n in enumerate(sizes):
        if product == total:
            return i
        product *= n
    return len(sizes) if product == total else None


def bcoo_squeeze(arr: BCOO, *, dimensions: Sequence[int]) -> BCOO:
    """The array without these axes, all of size 1.

    Args:
      arr: a BCOO.
      dimensions: the axes.
    """
    found = ax.canonical_axes(tuple(dimensions), arr.ndim, "bcoo_squeeze")
    if any(arr.shape[d] != 1 for d in found):
        raise ShapeError(f"bcoo_squeeze: axes {found} of {arr.shape} are not of size 1")
    batch, sparse, dense = _split_axes("bcoo_squeeze", arr, found)
    kept = [i for i in range(arr.n_sparse) if i not in sparse]
    indices = arr.indices
    if sparse:  # what is out of bounds along one of them
        keep = bcoo.inside(indices, arr.sparse_shape)
        indices = bcoo.limit(indices, keep, arr.sparse_shape)
        gone = bcoo.mask(arr.data, keep) if not kept else arr.data
        arr = BCOO((gone, indices), shape=arr.shape)
        indices = indices[..., np.array(kept, np.int32)]
    data = fnp.squeeze(arr.data, (*batch, *[arr.n_batch + 1 + i for i in dense]))
    shape = [n for i, n in enumerate(arr.shape) if i not in found]
    return BCOO((data, fnp.squeeze(indices, tuple(batch))), shape=shape,
                **arr.known)  # fmt: skip


def bcoo_broadcast_in_dim(
    mat: BCOO, *, shape: Sequence[int], broadcast_dimensions: Sequence[int],
    sharding: Any = None,
) -> BCOO:  # fmt: skip
    """The array with further axes, and with axes of size 1 repeated.

    Axes that come before the sparse ones are of the batch; those behind are dense where
    there are dense ones, else sparse.

    Args:
      mat: the sparse array.
      shape: of the result.
      broadcast_dimensions: for each axis its place in the result.
      sharding: accepted, without effect.

    Raises:
      ValueRangeError: a sparse axis would be repeated.
    """
    places = [operator.index(d) for d in broadcast_dimensions]
    sizes = tuple(shape)
    if len(places) != mat.ndim or places != sorted({*places}):
        raise ValueRangeError(
            f"bcoo_broadcast_in_dim: one place per axis of {mat.shape} is required, in "
            f"order, got {tuple(places)}"
        )
    first = min(places[mat.n_batch :], default=len(sizes))
    dense_at = places[mat.n_batch + mat.n_sparse :]
    last = min(dense_at) if dense_at else len(sizes)
    sparse_at = places[mat.n_batch : mat.n_batch + mat.n_sparse]
    for p in range(first, last):
        old = mat.shape[places.index(p)] if p in places else 1
        if old != sizes[p]:
            raise ValueRangeError(
                f"bcoo_broadcast_in_dim: the sparse axis {p} cannot be repeated from "
                f"{old} to {sizes[p]} elements; make it one of the batch"
            )
    lead = [1] * first
    data_lead, index_lead = list(lead), list(lead)
    for p, n, m in zip(places, mat.data.shape, mat.indices.shape, strict=False):
        if p < first:
            data_lead[p], index_lead[p] = n, m
    tail = [mat.shape[places.index(p)] if p in places else 1
            for p in range(last, len(sizes))]  # fmt: skip
    data = mat.data.reshape(*data_lead, mat.nse, *tail)
    data = fnp.broadcast_to(data, (*data.shape[: first + 1], *sizes[last:]))
    found = dict(zip(sparse_at, bcoo.columns(mat.indices), strict=True))
    rows = [found.get(p, 0) for p in range(first, last)]
    keep = bcoo.inside(mat.indices, mat.sparse_shape)
    indices = bcoo.stack(rows, keep, sizes[first:last], mat.indices.dtype)
    indices = indices.reshape(*index_lead, mat.nse, last - first)
    return BCOO((data, indices), shape=sizes)


def bcoo_concatenate(operands: Sequence[BCOO], *, dimension: int) -> BCOO:
    """Sparse arrays, one behind the other along an axis that is not dense.

    Args:
      operands: the arrays, of one shape but for the axis.
      dimension: the axis.
    """
    mats = [bcoo.check_sparse("bcoo_concatenate", m) for m in operands]
    axis = ax.canonical_axis(dimension, mats[0].ndim, "bcoo_concatenate")
    layouts = {(m.n_batch, m.n_sparse, m.n_dense) for m in mats}
    others = {m.shape[:axis] + m.shape[axis + 1 :] for m in mats}
    if len(others) != 1:
        raise ShapeError(
            f"bcoo_concatenate: the shapes {[m.shape for m in mats]} differ in other "
            f"axes than {axis}"
        )
    if len(layouts) != 1:
        mats = [bcoo.all_sparse(m) for m in mats]
    if axis >= mats[0].n_batch + mats[0].n_sparse:
        mats = [bcoo.bcoo_update_layout(m, n_dense=0) for m in mats]
    k, total = mats[0].n_batch, sum(m.shape[axis] for m in mats)
    shape = (*mats[0].shape[:axis], total, *mats[0].shape[axis + 1 :])
    if axis < k:
        size = max(m.nse for m in mats)
        parts = [bcoo.full_batch(_with_nse(m, size)) for m in mats]
        data, indices = (fnp.concatenate(p, axis) for p in zip(*parts, strict=True))
        return BCOO((data, indices), shape=shape)
    rows: list[Any] = []
    start = 0
    for m in mats:
        data, indices = bcoo.full_batch(m)
        moved = indices.at[..., axis - k].add(start) if m.nse else indices
        keep = bcoo.inside(indices, m.sparse_shape)
        rows.append((data, bcoo.limit(moved, keep, shape[k : k + m.n_sparse])))
        start += m.shape[axis]
    data, indices = (fnp.concatenate(p, k) for p in zip(*rows, strict=True))
    return BCOO((data, indices), shape=shape)


def _with_nse(mat: BCOO, nse: int) -> BCOO:
    """The array with as many stored elements; those added are out of bounds."""
    k = mat.n_batch
    data, indices = (
        fnp.pad(x, [(0, nse - mat.nse if i == k else 0) for i in range(x.ndim)])
        for x in bcoo.full_batch(mat)
    )
    keep = fnp.arange(nse) < mat.nse
    return BCOO((data, bcoo.limit(indices, keep, mat.sparse_shape)), shape=mat.shape)


def bcoo_rev(operand: BCOO, dimensions: Sequence[int]) -> BCOO:
    """The array backwards along axes.

    Args:
      operand: a BCOO.
      dimensions: the axes.
    """
    axes = ax.canonical_axes(tuple(dimensions), operand.ndim, "bcoo_rev")
    rows = [(n - 1, -1) if i in axes else (0, 1) for i, n in enumerate(operand.shape)]
    made = _stride(operand, [a for a, _ in rows], operand.shape, [k for _, k in rows])
    return BCOO((made.data, made.indices), shape=operand.shape,
                unique_indices=operand.unique_indices)  # fmt: skip


def bcoo_slice(
    mat: BCOO, *, start_indices: Sequence[int], limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> BCOO:  # fmt: skip
    """A slice of the array, as `lax.slice` has it.

    Args:
      mat: the sparse array.
      start_indices, limit_indices: where it begins and ends along each axis.
      strides: a step for each axis; None are ones.
    """
    starts = [operator.index(i) for i in start_indices]
    limits = [operator.index(i) for i in limit_indices]
    steps = [1] * mat.ndim if strides is None else [operator.index(i) for i in strides]
    rows = [*zip(starts, limits, mat.shape, strict=True)]
    if any(not 0 <= a <= b <= n for a, b, n in rows) or min(steps, default=1) < 1:
        raise ValueRangeError(
            f"bcoo_slice: the slice from {starts} to {limits} in steps of {steps} is "
            f"not within the shape {mat.shape}"
        )
    counts = [-(-(b - a) // k) for (a, b, _), k in zip(rows, steps, strict=True)]
    return take_slice(mat, starts, counts, steps)


def bcoo_dynamic_slice(
    mat: BCOO, start_indices: Sequence[Any], slice_sizes: Sequence[int]
) -> BCOO:
    """A slice of known size at a computed place, as `lax.dynamic_slice` has it.

    Args:
      mat: the sparse array.
      start_indices: where it begins along each axis; it is moved into the array.
      slice_sizes: how long it is along each axis.

    Raises:
      ShapeError: there is not one size for each axis, or it is larger than that.
    """
    sizes = ax.check_shape(tuple(slice_sizes), "bcoo_dynamic_slice")
    fits = len(sizes) == mat.ndim == len(start_indices)
    if not fits or any(m > n for m, n in zip(sizes, mat.shape, strict=True)):
        raise ShapeError(
            f"bcoo_dynamic_slice: {len(start_indices)} starts and slices of {sizes} do "
            f"not fit the shape {mat.shape}"
        )
    rows = zip(start_indices, sizes, mat.shape, strict=True)
    starts = [fnp.clip(fnp.where(fnp.asarray(a) < 0, fnp.asarray(a) + n, a), 0, n - m)
              for a, m, n in rows]  # fmt: skip
    return take_slice(mat, starts, list(sizes), [1] * mat.ndim)


def bcoo_gather(
    operand: BCOO,
    start_indices: Value,
    dimension_numbers: gather_scatter.GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: str | gather_scatter.GatherScatterMode | None = None,
    fill_value: Any = None,
) -> BCOO:
    """Windows of the array at computed starts, as `lax.gather` has them.

    The axes of the starts are of the batch, and behind them the layout of the array is
    kept; where the axes of the windows stand between them, all axes become sparse.

    Args:
      operand, start_indices, dimension_numbers, slice_sizes: as in `lax.gather`.
      mode: "promise_in_bounds", the default, and "clip" move windows into the array.
      unique_indices, indices_are_sorted, fill_value: accepted, without effect.

    Raises:
      UnsupportedError: the mode fills or drops.
      ShapeError: the dimension numbers do not fit the shapes or each other.
    """
    mat = bcoo.check_sparse("bcoo_gather", operand)
    how = gather_scatter.mode_of("promise_in_bounds" if mode is None else mode)
    if how is gather_scatter.GatherScatterMode.FILL_OR_DROP:
        raise UnsupportedError(
            f"bcoo_gather: the mode must be promise_in_bounds or clip, got {mode!r}"
        )
    starts = gather_scatter.check_starts("bcoo_gather", start_indices)
    sizes = ax.check_shape(tuple(slice_sizes), "bcoo_gather: slice_sizes")
    windows, offsets = gather_scatter.check_windows(
        "bcoo_gather", mat.shape, starts, dimension_numbers, sizes
    )
    lead = starts.shape[:-1]
    count = math.prod(lead)
    places = {a: starts[..., i] for i, a in enumerate(windows.starting)}
    places |= {a: ax.iota(starts.dtype, lead, i) for a, i in windows.paired}

    def window(*at: Any) -> Any:
        known = dict(zip(places, at, strict=True))
        found = [
            fnp.clip(known.get(a, 0), 0, n - m)
            for a, (n, m) in enumerate(zip(mat.shape, sizes, strict=True))
        ]
        cut = take_slice(mat, found, list(sizes), [1] * mat.ndim)
        return bcoo.full_batch(bcoo_squeeze(cut, dimensions=windows.squeezed))

    flat = [x.reshape(count) for x in places.values()]
    data, indices = (
        x.reshape(*lead, *x.shape[1:]) for x in vmap(window, axis_size=count)(*flat)
    )
    shape = (*lead, *[sizes[a] for a in windows.window_axes])
    found = BCOO((data, indices), shape=shape)
    axes = [*range(len(lead)), *[len(lead) + a for a in windows.window_axes]]
    order = [
        axes.index(a) for a in gather_scatter.result_order(windows, offsets, len(lead))
    ]
    if order[: found.n_batch] != list(range(found.n_batch)):
        found = bcoo.all_sparse(found)
    return bcoo_transpose(found, permutation=order)


def take_slice(
    mat: BCOO, starts: Sequence[Any], counts: Sequence[int], steps: Sequence[int]
) -> BCOO:
    """From each start so many elements, each so many steps from the one before."""
    made = _stride(mat, starts, counts, steps)
    most = math.prod(made.sparse_shape)
    return bcoo.bcoo_sum_duplicates(made, most) if most < mat.nse else made


def _stride(
    mat: BCOO, starts: Sequence[Any], counts: Sequence[int], steps: Sequence[int]
) -> BCOO:
    data, indices, k, last = mat.data, mat.indices, mat.n_batch, mat.ndim - mat.n_dense
    for axis in (*range(k), *range(last, mat.ndim)):
        if (counts[axis], steps[axis]) == (mat.shape[axis], 1):
            continue
        places = starts[axis] + np.arange(counts[axis]) * steps[axis]
        if axis >= last:
            data = fnp.take(data, places, k + 1 + axis - last)
            continue
        data = data if data.shape[axis] == 1 else fnp.take(data, places, axis)
        if indices.shape[axis] != 1:
            indices = fnp.take(indices, places, axis)
    keep = bcoo.inside(indices, mat.sparse_shape)
    rows: list[Any] = []
    for column, axis in zip(bcoo.columns(indices), range(k, last), strict=True):
        moved = column - ax.cast(starts[axis], indices.dtype)
        row = moved // steps[axis]
        keep = keep & (moved % steps[axis] == 0) & (row >= 0) & (row < counts[axis])
        rows.append(row)
    indices = bcoo.stack(rows, keep, counts[k:last], indices.dtype)
    lead = fnp.broadcast_shapes(data.shape[:k], keep.shape[:k])
    data = fnp.broadcast_to(data, (*lead, *data.shape[k:]))
    return BCOO((bcoo.mask(data, keep), indices), shape=counts)


uncheck(__name__)
