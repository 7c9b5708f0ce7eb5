"""Shapes and positions under JAX's `lax` names: reshape, broadcast, slice, iota."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.errors import DtypeError, IndexBoundsError, ShapeError
from ftrace.lax.elementwise import check_dtypes
from ftrace.numpy import axes as ax
from ftrace.numpy.at import at
from ftrace.numpy.creation import asarray, type_like
from ftrace.numpy.new_arrays import fill
from ftrace.numpy.shape import broadcast_shapes
from ftrace.trace.arrays.array import is_array
from ftrace.trace.bind import bind, bind_compound, elementwise
from ftrace.trace.eager.dispatch import place_like, place_result
from ftrace.trace.flatten_arguments import flatten_values
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.indexing import gather_p, scatter_p
from ftrace.trace.primitives.primitive import barrier_p
from ftrace.trace.pytree import tree
from ftrace.trace.symbolic import is_dynamic, surely_at_most
from ftrace.trace.tracing.scopes import current_scope, tell_of_indices
from ftrace.trace.tracing.tracer import Value, aval_of

__all__ = [
    "broadcast", "broadcast_in_dim", "broadcast_like", "broadcast_shapes",
    "broadcast_to_rank", "broadcasted_iota", "collapse", "concatenate", "dtype",
    "dynamic_index_in_dim", "dynamic_slice", "dynamic_slice_in_dim",
    "dynamic_update_index_in_dim", "dynamic_update_slice",
    "dynamic_update_slice_in_dim", "empty", "expand_dims", "full", "full_like",
    "index_in_dim", "iota", "optimization_barrier", "pad", "reshape", "rev",
    "shape_as_value", "slice", "slice_in_dim", "split", "squeeze", "stack", "stage",
    "tile", "transpose", "unstack", "zeros_like_array",
]  # fmt: skip

Dtype = Any

# Shapes.


def dtype(x: Any) -> np.dtype[Any]:
    """The dtype of a value, or the dtype that a name stands for.

    Args:
      x: an array, a number, or what names a dtype.

    Example:
      >>> lax.dtype(fnp.ones(3))
      dtype('float32')
    """
    if isinstance(x, (str, type, np.dtype)):
        return dtypes.as_dtype(x)
    return aval_of(x).dtype


def broadcast(operand: Value, sizes: Sequence[int]) -> Any:
    """The operand repeated along new leading axes of these sizes.

    Args:
      operand: the array.
      sizes: of the new axes.

    Returns:
      Of shape (*sizes, *operand.shape).

    Example:
      >>> lax.broadcast(fnp.array([1, 2]), (3,))
      Array([[1, 2],
             [1, 2],
             [1, 2]], dtype=int32)
    """
    shape = ax.check_shape(sizes, "lax.broadcast") + aval_of(operand).shape
    return ax.broadcast_to(operand, shape, "lax.broadcast")


def broadcast_like(arr: Value, like_arr: Value) -> Any:
    """The array broadcast to the shape of another, by NumPy's rules.

    Args:
      arr: the array.
      like_arr: an array to whose shape it broadcasts.

    Raises:
      ShapeError: it does not.

    Example:
      >>> lax.broadcast_like(1.0, fnp.zeros(3))
      Array([1., 1., 1.], dtype=float32, weak_type=True)
    """
    return ax.broadcast_to(arr, aval_of(like_arr).shape, "lax.broadcast_like")


def shape_as_value(shape: Sequence[int]) -> Any:
    """The sizes of a shape as an array of integers.

    Example:
      >>> lax.shape_as_value((2, 3))
      Array([2, 3], dtype=int32)
    """
    sizes = ax.check_sizes(shape, "lax.shape_as_value")
    return asarray(sizes, dtypes.default_dtype("i"))


def stage(x: Value, /) -> Any:
    """The value as an array, which is traced where a function is being traced.

    Args:
      x: an array or a number.

    Example:
      >>> lax.stage(2.0)
      Array(2., dtype=float32, weak_type=True)
    """
    return asarray(x)


def broadcast_in_dim(
    operand: Value, shape: Sequence[int], broadcast_dimensions: Sequence[int]
) -> Any:
    """The operand in a larger shape.

    Args:
      operand: the array.
      shape: of the result.
      broadcast_dimensions: for each axis of the operand, the axis of the result.

    Raises:
      ShapeError: a size is neither 1 nor that of its axis in `shape`.

    Example:
      >>> lax.broadcast_in_dim(fnp.array([1, 2]), (2, 3), (0,))
      Array([[1, 1, 1],
             [2, 2, 2]], dtype=int32)
    """
    x = ax.as_value(operand)
    target = ax.check_shape(shape, "lax.broadcast_in_dim")
    places = ax.canonical_axes(
        tuple(broadcast_dimensions), len(target), "broadcast_in_dim"
    )
    if len(places) != x.ndim:
        raise ShapeError(
            f"lax.broadcast_in_dim: broadcast_dimensions {places} must name an axis of "
            f"{target} for each axis of {x.shape}"
        )
    x = ax.permute(x, tuple(int(a) for a in np.argsort(places)))
    missing = [a for a in range(len(target)) if a not in places]
    x = ax.insert_axes(x, missing)
    return ax.broadcast_to(x, target, "lax.broadcast_in_dim")


def broadcast_to_rank(x: Value, rank: int) -> Any:
    """`x` with leading axes of size 1, up to `rank` axes.

    Args:
      x: an array; one that has as many axes, or more, is returned as it is.
      rank: how many axes the result has at least.

    Example:
      >>> lax.broadcast_to_rank(fnp.ones(3), 2)
      Array([[1., 1., 1.]], dtype=float32)
    """
    value = ax.as_value(x)
    return ax.insert_axes(value, range(max(rank - value.ndim, 0)))


def reshape(
    operand: Value, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None
) -> Any:
    """The same elements, row by row, in another shape.

    Args:
      operand: the array.
      new_sizes: the shape of the result; unlike in `fnp.reshape` no size is -1.
      dimensions: an order in which the axes of the operand are taken before.

    Raises:
      ShapeError: the shape has another number of elements, or a negative size.
      AxisError: `dimensions` is no permutation of the axes.

    Example:
      >>> lax.reshape(fnp.array([[1, 2, 3], [4, 5, 6]]), (3, 2))
      Array([[1, 2],
             [3, 4],
             [5, 6]], dtype=int32)
      >>> lax.reshape(fnp.array([[1, 2, 3], [4, 5, 6]]), (6,), dimensions=(1, 0))
      Array([1, 4, 2, 5, 3, 6], dtype=int32)
    """
    x = ax.as_value(operand)
    shape = ax.check_shape(new_sizes, "lax.reshape")
    if any(n < 0 for n in shape):
        raise ShapeError(
            f"lax.reshape: the sizes must be given in full, got {shape}; "
            "ftrace.numpy.reshape takes -1"
        )
    if dimensions is not None:
        x = transpose(x, dimensions)
    return ax.reshape(x, shape)


def collapse(
    operand: Value, start_dimension: int, stop_dimension: int | None = None
) -> Any:
    """The axes from `start_dimension` up to `stop_dimension` as one.

    Args:
      operand: the array.
      start_dimension: the first of them; negative ones count from the end.
      stop_dimension: the one behind the last; by default all up to the end.

    Raises:
      ShapeError: there are no such axes.

    Example:
      >>> lax.collapse(fnp.zeros((2, 3, 4, 5)), 1, 3).shape
      (2, 12, 5)
    """
    x = ax.as_value(operand)
    low, high, _ = builtins.slice(start_dimension, stop_dimension).indices(x.ndim)
    if low >= high:
        raise ShapeError(
            f"lax.collapse: there are no axes from {start_dimension} to "
            f"{stop_dimension} of {x.shape}"
        )
    merged = prod(x.shape[low:high])
    return ax.reshape(x, (*x.shape[:low], merged, *x.shape[high:]))


def squeeze(array: Value, dimensions: Sequence[int]) -> Any:
    """The array without these axes, which have size 1.

    Args:
      array: the array.
      dimensions: the axes; negative ones count from the end.

    Raises:
      AxisError: there is no such axis.
      ShapeError: one has another size.

    Example:
      >>> lax.squeeze(fnp.zeros((1, 3, 1)), (0, 2)).shape
      (3,)
    """
    return fnp.squeeze(array, tuple(dimensions))


def expand_dims(array: Value, dimensions: Sequence[int]) -> Any:
    """The array with axes of size 1 where the result has the axes `dimensions`.

    Args:
      array: the array.
      dimensions: axes of the result; negative ones count from its end.

    Raises:
      AxisError: the result has no such axis, or one is named twice.

    Example:
      >>> lax.expand_dims(fnp.zeros((3, 4)), (0, 2)).shape
      (1, 3, 1, 4)
    """
    return fnp.expand_dims(array, tuple(dimensions))


def transpose(operand: Value, permutation: Sequence[int]) -> Any:
    """The axes in another order.

    Args:
      operand: the array.
      permutation: for each axis of the result, the axis of the operand.

    Raises:
      AxisError: it is no permutation of them.

    Example:
      >>> lax.transpose(fnp.zeros((2, 3, 4)), (2, 0, 1)).shape
      (4, 2, 3)
    """
    x = ax.as_value(operand)
    return ax.permute(x, ax.check_shape(permutation, "lax.transpose: permutation"))


def rev(operand: Value, dimensions: Sequence[int]) -> Any:
    """The elements in reverse order along these axes.

    Args:
      operand: the array.
      dimensions: the axes.

    Raises:
      AxisError: there is no such axis, or it is named twice.

    Example:
      >>> lax.rev(fnp.array([[1, 2, 3], [4, 5, 6]]), (1,))
      Array([[3, 2, 1],
             [6, 5, 4]], dtype=int32)
    """
    return fnp.flip(operand, tuple(dimensions))


def tile(operand: Value, reps: Sequence[int]) -> Any:
    """The operand repeated as a whole, as often along each axis as `reps` says.

    Args:
      operand: the array.
      reps: a count for each axis.

    Raises:
      ShapeError: there is not one count per axis.

    Example:
      >>> lax.tile(fnp.array([[1, 2]]), (2, 2))
      Array([[1, 2, 1, 2],
             [1, 2, 1, 2]], dtype=int32)
    """
    x = ax.as_value(operand)
    counts = ax.check_shape(reps, "lax.tile")
    if len(counts) != x.ndim or any(n < 0 for n in counts):
        raise ShapeError(
            f"lax.tile: reps {counts} must hold a count for each axis of {x.shape}"
        )
    return fnp.tile(x, counts)


# Joining and dividing.


def concatenate(operands: Sequence[Value], dimension: int) -> Any:
    """The operands after each other along one axis.

    Args:
      operands: arrays of one dtype (nothing is promoted), and of one shape but for this
        axis.
      dimension: the axis.

    Raises:
      DtypeError: their dtypes differ.
      ShapeError: they differ in size along another axis.

    Example:
      >>> lax.concatenate([fnp.array([[1, 2]]), fnp.array([[3, 4], [5, 6]])], 0)
      Array([[1, 2],
             [3, 4],
             [5, 6]], dtype=int32)
    """
    check_dtypes("concatenate", *operands)
    return fnp.concatenate(list(operands), dimension)


def stack(operands: Sequence[Value], axis: int = 0) -> Any:
    """The operands, of one shape, along a new axis.

    Args:
      operands: arrays of one shape and dtype.
      axis: where the result has the new axis.

    Raises:
      ShapeError: their shapes differ.

    Example:
      >>> lax.stack([fnp.array([1, 2]), fnp.array([3, 4])], axis=1)
      Array([[1, 3],
             [2, 4]], dtype=int32)
    """
    check_dtypes("stack", *operands)
    return fnp.stack(list(operands), axis)


def unstack(x: Value, axis: int = 0) -> tuple[Any, ...]:
    """The slices along one axis, without it.

    Args:
      x: an array.
      axis: the axis.

    Example:
      >>> lax.unstack(fnp.array([[1, 2], [3, 4]]))
      (Array([1, 2], dtype=int32), Array([3, 4], dtype=int32))
    """
    return fnp.unstack(x, axis=axis)


def split(operand: Value, sizes: Sequence[int], axis: int = 0) -> list[Any]:
    """Consecutive parts of these sizes along one axis.

    Args:
      operand: the array.
      sizes: of the parts; unlike in `fnp.split` no positions.
      axis: the axis.

    Raises:
      ShapeError: the sizes do not add up to the size of the axis.

    Example:
      >>> lax.split(fnp.arange(5), (2, 3))
      [Array([0, 1], dtype=int32), Array([2, 3, 4], dtype=int32)]
    """
    x, place = ax.along(operand, axis, "lax.split")
    parts = ax.check_shape(sizes, "lax.split")
    if sum(parts) != x.shape[place] or any(n < 0 for n in parts):
        raise ShapeError(
            f"lax.split: the sizes {parts} must add up to {x.shape[place]}, the size "
            f"of axis {place} of {x.shape}"
        )
    ends = zip(parts, accumulate(parts), strict=True)
    return [ax.shrink_axis(x, place, end - n, end) for n, end in ends]


# Parts at known positions.


def slice(
    operand: Value,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Any:
    """The elements from start to limit, per axis, every n-th of them.

    Args:
      operand: the array.
      start_indices: for each axis the first element.
      limit_indices: for each axis the end, which is not included. Both count from the
        front: a negative one is refused.
      strides: for each axis how far elements are apart; by default 1.

    Raises:
      ShapeError: the bounds or strides do not fit the shape.

    Example:
      >>> lax.slice(fnp.array([[1, 2, 3], [4, 5, 6]]), (0, 0), (2, 3), (1, 2))
      Array([[1, 3],
             [4, 6]], dtype=int32)
    """
    x = ax.as_value(operand)
    every = (1,) * x.ndim if strides is None else strides
    given = start_indices, limit_indices, every
    starts, limits, steps = (ax.check_shape(tuple(n), "lax.slice") for n in given)
    fits = len(starts) == len(limits) == len(steps) == x.ndim
    if not fits or min(steps, default=1) < 1:
        raise ShapeError(
            "lax.slice: one start, limit and stride (of 1 or more) per axis of "
            f"{x.shape} are required, got {starts}, {limits} and {steps}"
        )
    return ax.stride(ax.shrink(x, tuple(zip(starts, limits, strict=True))), steps)


def slice_in_dim(
    operand: Value,
    start_index: int | None,
    limit_index: int | None,
    stride: int = 1,
    axis: int = 0,
) -> Any:
    """A slice along one axis; negative bounds count from the end.

    Args:
      operand: the array.
      start_index, limit_index: the bounds, as in x[start:limit]; None is the end there.
      stride: how far elements are apart.
      axis: the axis.

    Raises:
      AxisError: there is no such axis.
      ShapeError: the bounds or the stride do not fit its size.

    Example:
      >>> lax.slice_in_dim(fnp.array([0, 10, 20, 30, 40]), 1, -1, stride=2)
      Array([10, 30], dtype=int32)
    """
    name = "lax.slice_in_dim"
    x, place = ax.along(operand, axis, name)
    size = x.shape[place]

    def bound(index: int | None, default: int) -> int:
        found = default if index is None else ax.static_int(index, name)
        return found + size if found < 0 else found

    starts = ax.with_size((0,) * x.ndim, place, bound(start_index, 0))
    limits = ax.with_size(x.shape, place, bound(limit_index, size))
    step = ax.static_int(stride, f"{name}: stride")
    return slice(x, starts, limits, ax.line(x.ndim, place, step))


def index_in_dim(
    operand: Value, index: int, axis: int = 0, keepdims: bool = True
) -> Any:
    """One position along one axis.

    Args:
      operand: the array.
      index: an integer; a negative one counts from the end.
      axis: the axis.
      keepdims: the axis stays, with size 1.

    Raises:
      AxisError: there is no such axis.
      IndexBoundsError: there is no such position.

    Example:
      >>> lax.index_in_dim(fnp.array([[1, 2], [3, 4]]), -1, axis=1, keepdims=False)
      Array([2, 4], dtype=int32)
    """
    x, place = ax.along(operand, axis, "lax.index_in_dim")
    size = x.shape[place]
    position = ax.static_int(index, "lax.index_in_dim: index")
    if not -size <= position < size:
        raise IndexBoundsError(
            f"lax.index_in_dim: index {position} is out of bounds for axis {place} of "
            f"{x.shape}"
        )
    start = position % size
    part = ax.shrink_axis(x, place, start, start + 1)
    return part if keepdims else ax.drop_axes(part, (place,))


# Parts at computed positions: a negative start counts from the end, and a slice that
# would reach beyond the array is moved inside.


def _starts(
    name: str,
    start_indices: Any,
    shape: tuple[int, ...],
    sizes: tuple[int, ...],
    negative: bool | Sequence[bool],
) -> list[Any]:
    """Per axis the first position as a Python int where it is known, else a scalar."""
    parts: list[Any]
    if isinstance(start_indices, (list, tuple)):
        parts = [*start_indices]  # pyright: ignore[reportUnknownArgumentType]
        if arrays := [part for part in parts if hasattr(part, "dtype")]:
            check_dtypes(f"{name.removeprefix('lax.')}: start_indices", *arrays)
    else:
        vector = ax.vector(start_indices, f"{name}: start_indices")
        parts = [index_in_dim(vector, i, 0, False) for i in range(vector.shape[0])]
    if len(parts) != len(shape):
        raise ShapeError(
            f"{name}: one start per axis of {shape} is required, got {len(parts)}"
        )
    wraps = [negative] * len(shape) if isinstance(negative, bool) else negative
    rows = enumerate(zip(parts, sizes, wraps, strict=True))
    return [_start(name, part, k, shape, n, wrap) for k, (part, n, wrap) in rows]


def _start(
    name: str, start: Any, axis: int, shape: tuple[Any, ...], length: int, wrap: bool
) -> Any:
    size = shape[axis]
    last = size - length
    if _is_known(start):
        start = int(start)  # so that the slice is a view
    if type(start) is int and not is_dynamic(last):
        start = start + size if wrap and start < 0 else start
        if not 0 <= start <= last:
            tell_of_indices([(start, axis, last + 1)], shape)
        return min(max(start, 0), last)
    value = ax.as_value(start)
    if value.ndim or not dtypes.is_integer(value.dtype):
        raise DtypeError(
            f"{name}: each start must be an integer scalar, got {aval_of(value)!r}"
        )
    if not is_dynamic(last) and last == 0 and not tell_of_indices([], shape):
        return 0
    if value.dtype.itemsize < 4:  # so that the size fits
        value = ax.cast(value, dtypes.int32)
    signed = dtypes.kind(value.dtype) == "i"
    if signed and wrap:
        behind = elementwise(p.lt, value, 0)
        value = ax.choose(behind, elementwise(p.add, value, size), value)
    if not is_dynamic(last):
        tell_of_indices([(value, axis, last + 1)], shape)
    if signed:
        value = elementwise(p.maximum, value, 0)
    return elementwise(p.minimum, value, last)


def _is_known(value: Any) -> bool:
    """Is it an integer that can be read without waiting, in eager code?"""
    if is_array(value) and value.shape == () and value.memory.host:
        return current_scope() is None and dtypes.is_integer(value.dtype)
    return isinstance(value, np.integer)


def dynamic_slice(
    operand: Value,
    start_indices: Any,
    slice_sizes: Sequence[int],
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Any:
    """A slice of known sizes at a computed position.

    A start that is too large is moved, so that the slice is within the array; so is a
    negative one that is too small.

    Args:
      operand: the array.
      start_indices: integer scalars, one per axis, or a vector of them.
      slice_sizes: the shape of the result.
      allow_negative_indices: a negative start counts from the end.

    Returns:
      An array of shape `slice_sizes`.

    Raises:
      ShapeError: the sizes exceed the shape, or a start is missing.
      DtypeError: the starts have several dtypes.

    Example:
      >>> x = fnp.array([[0, 1, 2, 3], [10, 11, 12, 13]])
      >>> f = ft.jit(lambda i: lax.dynamic_slice(x, (0, i), (2, 2)))
      >>> f(1)
      Array([[ 1,  2],
             [11, 12]], dtype=int32)
      >>> f(100)
      Array([[ 2,  3],
             [12, 13]], dtype=int32)
    """
    x = ax.as_value(operand)
    sizes = _check_sizes("lax.dynamic_slice", x, slice_sizes)
    starts = _starts(
        "lax.dynamic_slice", start_indices, x.shape, sizes, allow_negative_indices
    )
    for axis, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        if type(start) is int:
            x = ax.shrink_axis(x, axis, start, start + size)
        else:
            found = bind(gather_p, x, _positions(start, (size,), 0), arg=(axis,))
            x = ax.move_axis(found, 0, axis)
    return x


def _check_sizes(name: str, x: Any, slice_sizes: Sequence[int]) -> tuple[int, ...]:
    sizes = ax.check_shape(tuple(slice_sizes), name)
    fits = len(sizes) == x.ndim and all(
        0 <= n <= m for n, m in zip(sizes, x.shape, strict=True)
    )
    if not fits:
        raise ShapeError(
            f"{name}: the sizes {sizes} must not exceed the shape {x.shape}, and have "
            "as many axes"
        )
    return sizes


def _positions(start: Any, shape: tuple[int, ...], axis: int) -> Any:
    """start, start + 1, … along one axis of a shape."""
    dtype = dtypes.int32 if type(start) is int else start.dtype
    return elementwise(p.add, ax.iota(dtype, shape, axis), start)


def dynamic_slice_in_dim(
    operand: Value,
    start_index: Value,
    slice_size: int,
    axis: int = 0,
    *,
    allow_negative_indices: bool = True,
) -> Any:
    """A slice of known size at a computed position of one axis; the others are whole.

    Args:
      operand: the array.
      start_index: an integer scalar; one that is too large is moved inside.
      slice_size: how many elements.
      axis: the axis.
      allow_negative_indices: a negative start counts from the end.

    Raises:
      ShapeError: the axis is shorter than the slice.

    Example:
      >>> lax.dynamic_slice_in_dim(fnp.array([0, 10, 20, 30]), fnp.array(1), 2)
      Array([10, 20], dtype=int32)
    """
    x, place = ax.along(operand, axis, "lax.dynamic_slice_in_dim")
    starts = ax.with_size((0,) * x.ndim, place, start_index)
    sizes, wrap = ax.with_size(x.shape, place, slice_size), allow_negative_indices
    return dynamic_slice(x, starts, sizes, allow_negative_indices=wrap)


def dynamic_index_in_dim(
    operand: Value,
    index: Value,
    axis: int = 0,
    keepdims: bool = True,
    *,
    allow_negative_indices: bool = True,
) -> Any:
    """One computed position along one axis.

    Args:
      operand: the array.
      index: an integer scalar; one that is too large is the last.
      axis: the axis.
      keepdims: the axis stays, with size 1.
      allow_negative_indices: a negative index counts from the end.

    Raises:
      ShapeError: the axis has no elements.

    Example:
      >>> x = fnp.array([[1, 2], [3, 4], [5, 6]])
      >>> lax.dynamic_index_in_dim(x, fnp.array(1), keepdims=False)
      Array([3, 4], dtype=int32)
    """
    x, place = ax.along(operand, axis, "lax.dynamic_index_in_dim")
    wrap = allow_negative_indices
    part = dynamic_slice_in_dim(x, index, 1, place, allow_negative_indices=wrap)
    return part if keepdims else ax.drop_axes(part, (place,))


def dynamic_update_slice(
    operand: Value,
    update: Value,
    start_indices: Any,
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Any:
    """The operand with `update` in the place of its elements at a computed position.

    Args:
      operand: the array.
      update: an array of its dtype and number of axes, not larger along any.
      start_indices: integer scalars, one per axis, or a vector of them. One that is too
        large is moved, so that all of the update is within the operand.
      allow_negative_indices: a negative start counts from the end.

    Raises:
      ShapeError: the update has another number of axes, or is larger.
      DtypeError: the dtypes differ.

    Example:
      >>> lax.dynamic_update_slice(fnp.zeros(5), fnp.array([1.0, 2.0]), (fnp.array(1),))
      Array([0., 1., 2., 0., 0.], dtype=float32)
      >>> lax.dynamic_update_slice(fnp.zeros(5), fnp.array([1.0, 2.0]), (9,))
      Array([0., 0., 0., 1., 2.], dtype=float32)
    """
    x, part = ax.as_value(operand), ax.as_value(update)
    part = ax.cast(part, check_dtypes("dynamic_update_slice", x, part))
    name = "lax.dynamic_update_slice"
    sizes = _check_sizes(f"{name}: update", x, part.shape)
    starts = _starts(name, start_indices, x.shape, sizes, allow_negative_indices)
    if is_array(x) and is_array(part) and all(type(start) is int for start in starts):
        pairs = zip(starts, sizes, strict=True)
        place = tuple([builtins.slice(start, start + size) for start, size in pairs])
        return at(x)[place].set(part)
    pairs = enumerate(zip(sizes, x.shape, strict=True))
    axes = tuple(a for a, (n, m) in pairs if not surely_at_most(m, n))
    if not axes:
        return part
    if part.size == 0:
        return x
    block = tuple(sizes[a] for a in axes)
    indices = [_positions(starts[a], block, i) for i, a in enumerate(axes)]
    rest = tuple(a for a in range(x.ndim) if a not in axes)
    part = ax.permute(part, axes + rest)
    return bind(scatter_p, x, part, *indices, arg=(axes, "set"))


def dynamic_update_slice_in_dim(
    operand: Value,
    update: Value,
    start_index: Value,
    axis: int,
    *,
    allow_negative_indices: bool = True,
) -> Any:
    """`dynamic_update_slice` at a computed position of one axis.

    Args:
      operand: the array.
      update: an array of its dtype and number of axes.
      start_index: an integer scalar; of the other axes it is 0.
      axis: the axis.
      allow_negative_indices: a negative start counts from the end.

    Raises:
      ShapeError: the update has another number of axes, or is larger.
      DtypeError: the dtypes differ.

    Example:
      >>> column = fnp.ones((2, 1))
      >>> lax.dynamic_update_slice_in_dim(fnp.zeros((2, 3)), column, 1, axis=1)
      Array([[0., 1., 0.],
             [0., 1., 0.]], dtype=float32)
    """
    x, place = ax.along(operand, axis, "lax.dynamic_update_slice_in_dim")
    starts = ax.with_size((0,) * x.ndim, place, start_index)
    wrap = allow_negative_indices
    return dynamic_update_slice(x, update, starts, allow_negative_indices=wrap)


def dynamic_update_index_in_dim(
    operand: Value,
    update: Value,
    index: Value,
    axis: int,
    *,
    allow_negative_indices: bool = True,
) -> Any:
    """One computed position along one axis replaced; the update may lack the axis.

    Args:
      operand: the array.
      update: an array of its dtype, with or without the axis.
      index: an integer scalar; one that is too large is the last.
      axis: the axis.
      allow_negative_indices: a negative index counts from the end.

    Raises:
      ShapeError: the update has another number of axes, or is larger.
      DtypeError: the dtypes differ.

    Example:
      >>> lax.dynamic_update_index_in_dim(fnp.zeros((2, 3)), fnp.ones(3), 1, axis=0)
      Array([[0., 0., 0.],
             [1., 1., 1.]], dtype=float32)
    """
    x, place = ax.along(operand, axis, "lax.dynamic_update_index_in_dim")
    part = ax.as_value(update)
    if part.ndim == x.ndim - 1:
        part = ax.insert_axes(part, (place,))
    wrap = allow_negative_indices
    return dynamic_update_slice_in_dim(
        x, part, index, place, allow_negative_indices=wrap
    )


# Padding.


def pad(
    operand: Value, padding_value: Value, padding_config: Sequence[Sequence[int]]
) -> Any:
    """The operand with a value before, after and between its elements.

    Args:
      operand: the array.
      padding_value: a scalar of the same dtype.
      padding_config: for each axis (before, after, between); a negative count before
        or after takes elements away.

    Raises:
      ShapeError: there is not one such triple per axis.
      DtypeError: the dtypes differ.

    Example:
      >>> lax.pad(fnp.array([1, 2, 3]), 0, [(2, 1, 0)])
      Array([0, 0, 1, 2, 3, 0], dtype=int32)
      >>> lax.pad(fnp.array([1, 2, 3]), 0, [(-1, 0, 1)])
      Array([0, 2, 0, 3], dtype=int32)
    """
    x = ax.as_value(operand)
    check_dtypes("pad", x, padding_value)
    ax.scalar_type(padding_value, "lax.pad: padding_value")
    what = "lax.pad: each count"
    config = [tuple(ax.static_int(n, what) for n in c) for c in padding_config]
    if len(config) != x.ndim or any(len(c) != 3 or c[2] < 0 for c in config):
        raise ShapeError(
            f"lax.pad: padding_config must hold for each axis of {x.shape} a triple "
            f"(before, after, between) with between >= 0, got {config}"
        )
    windows = [ax.Window(1, 1, 1, lo, hi, gap) for lo, hi, gap in config]
    return ax.pad_windows(x, windows, padding_value)


# New arrays.


def full(shape: Sequence[int], fill_value: Value, dtype: Dtype = None) -> Any:
    """A scalar at every position.

    Args:
      shape: of the result.
      fill_value: a number, or an array without axes.
      dtype: of the result, by default that of the value.

    Raises:
      ShapeError: the value is not a scalar.

    Example:
      >>> lax.full((2, 3), 7)
      Array([[7, 7, 7],
             [7, 7, 7]], dtype=int32, weak_type=True)
    """
    of_any_size = dtype is not None and type(fill_value) is int
    ax.scalar_type(0 if of_any_size else fill_value, "lax.full: fill_value")
    sizes = ax.check_sizes(shape, "lax.full")
    return fill("lax.full", sizes, fill_value, dtype)


def full_like(
    x: Any,
    fill_value: Value,
    dtype: Dtype = None,
    shape: Sequence[int] | None = None,
    sharding: Any = None,
) -> Any:
    """A scalar at every position of the shape of `x`, in its dtype.

    Args:
      x: an array, or anything with a shape and a dtype.
      fill_value: a number, or an array without axes.
      dtype, shape: in the place of those of `x`.
      sharding: where the result is, as `device_put` takes it.

    Raises:
      ShapeError: the value is not a scalar.

    Example:
      >>> lax.full_like(fnp.array([1, 2, 3]), 7.9)
      Array([7, 7, 7], dtype=int32)
    """
    aval = type_like(dtypes.as_number(x))
    natural = dtypes.strong_dtype(aval.dtype, aval.weak_type)
    target = aval.shape if shape is None else shape
    made = full(target, fill_value, natural if dtype is None else dtype)
    return place_result(place_like(made, x), sharding)


def zeros_like_array(x: Value) -> Any:
    """Zeros in the shape and dtype of `x`.

    Example:
      >>> lax.zeros_like_array(fnp.array([1, 2]))
      Array([0, 0], dtype=int32)
    """
    return full_like(x, 0)


def empty(shape: Sequence[int], dtype: Dtype) -> Any:
    """An array whose elements do not matter; they are zero, float32 for None.

    Args:
      shape: of the result.
      dtype: of the result.

    Example:
      >>> lax.empty((2, 3), fnp.float32).shape
      (2, 3)
    """
    dtype = dtypes.default_dtype("f") if dtype is None else dtype
    return full(shape, 0, dtype)


def iota(dtype: Dtype, size: int) -> Any:
    """0, 1, 2, … in a dtype.

    Args:
      dtype: of numbers.
      size: how many.

    Raises:
      DtypeError: the dtype is bool.
      ShapeError: the size is negative.

    Example:
      >>> lax.iota(np.float32, 4)
      Array([0., 1., 2., 3.], dtype=float32)
    """
    return broadcasted_iota(dtype, (size,), 0)


def broadcasted_iota(dtype: Dtype, shape: Sequence[int], dimension: int) -> Any:
    """The position along one axis, at every position of a shape.

    Args:
      dtype: of numbers.
      shape: of the result.
      dimension: the axis along which it counts.

    Raises:
      DtypeError: the dtype is bool.
      ShapeError: a size is negative.

    Example:
      >>> lax.broadcasted_iota(np.int32, (2, 3), 1)
      Array([[0, 1, 2],
             [0, 1, 2]], dtype=int32)
    """
    wanted = dtypes.as_dtype(dtype)
    if wanted == dtypes.bool_:
        raise DtypeError("lax.iota: the dtype must be numeric, got bool")
    sizes = ax.check_sizes(shape, "lax.broadcasted_iota")
    axis = ax.canonical_axis(dimension, len(sizes), "lax.broadcasted_iota")
    return ax.iota(wanted, sizes, axis)


def optimization_barrier(operand: Any, /) -> Any:
    """The arrays of a tree, none of which can be used before all have been computed.

    What is computed of the results is not merged with what is computed of `operand`.

    Args:
      operand: a pytree of arrays.

    Returns:
      The same tree with the same values.

    Raises:
      ArgumentError: a leaf is no array.

    Example:
      >>> lax.optimization_barrier(fnp.ones(2) + 1)
      Array([2., 2.], dtype=float32)
    """
    values, treedef = flatten_values(operand, "optimization_barrier: the operand ")
    if not values:
        return operand
    return tree.unflatten(treedef, bind_compound(barrier_p, *values))
