"""Shapes under JAX's `lax` names: reshape, broadcast, concatenate, pad, iota."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.errors import DtypeError, ShapeError
from ftrace.lax.elementwise import check_dtypes
from ftrace.numpy import axes as ax
from ftrace.numpy.creation import asarray
from ftrace.numpy.data_types import type_like
from ftrace.numpy.new_arrays import fill
from ftrace.numpy.shape import broadcast_shapes
from ftrace.trace.bind import bind_compound
from ftrace.trace.eager.result_memory import place_like, place_result
from ftrace.trace.flatten_arguments import flatten_values
from ftrace.trace.primitives.primitive import barrier_p
from ftrace.trace.pytree import tree
from ftrace.trace.tracing.tracer import Value, aval_of

__all__ = [
    "broadcast", "broadcast_in_dim", "broadcast_like", "broadcast_shapes",
    "broadcast_to_rank", "broadcasted_iota", "collapse", "concatenate", "dtype",
    "empty", "expand_dims", "full", "full_like", "iota", "optimization_barrier", "pad",
    "reshape", "rev", "shape_as_value", "split", "squeeze", "stack", "stage", "tile",
    "transpose", "unstack", "zeros_like_array",
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
    given = ax.several(broadcast_dimensions, "broadcast_in_dim: broadcast_dimensions")
    places = ax.canonical_axes(given, len(target), "broadcast_in_dim")
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
    ends = [
        None if end is None else ax.static_int(end, "lax.collapse: a dimension")
        for end in (start_dimension, stop_dimension)
    ]
    low, high, _ = slice(*ends).indices(x.ndim)
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
    return fnp.squeeze(array, ax.several(dimensions, "lax.squeeze: dimensions"))


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
    return fnp.expand_dims(array, ax.several(dimensions, "lax.expand_dims: dimensions"))


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
    return fnp.flip(operand, ax.several(dimensions, "lax.rev: dimensions"))


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
