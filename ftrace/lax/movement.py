"""Shapes and positions under JAX's `lax` names: broadcast, reshape, pad, iota."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import DtypeError, ShapeError
from ftrace.lax.elementwise import check_dtypes
from ftrace.numpy import axes as ax
from ftrace.numpy.creation import asarray, type_like
from ftrace.numpy.elementwise import values_together
from ftrace.numpy.new_arrays import filled
from ftrace.numpy.shape import concatenate as joined, tile as repeat_whole
from ftrace.trace.bind import bind_compound, broadcast_shapes as common_shape
from ftrace.trace.flatten_arguments import flatten_values
from ftrace.trace.primitives.barrier import barrier_p
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
    """The dtype of a value, or the dtype that a name stands for."""
    if isinstance(x, (str, type, np.dtype)):
        return dtypes.canonicalize(dtypes.as_dtype(x))
    return aval_of(x).dtype


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape to which all of them broadcast, by NumPy's rules.

    Raises:
      ShapeError: there is none.
    """
    checked = [ax.check_shape(shape, "lax.broadcast_shapes") for shape in shapes]
    what = "lax.broadcast_shapes: Incompatible shapes for broadcasting"
    return common_shape(what, checked) if checked else ()


def broadcast(operand: Value, sizes: Sequence[int], *, out_sharding: Any = None) -> Any:
    """The operand repeated along new leading axes of these sizes."""
    shape = ax.check_shape(sizes, "lax.broadcast") + aval_of(operand).shape
    return ax.broadcast_to(operand, shape, "lax.broadcast")


def broadcast_like(arr: Value, like_arr: Value) -> Any:
    """The array broadcast to the shape of another, by NumPy's rules."""
    return ax.broadcast_to(arr, aval_of(like_arr).shape, "lax.broadcast_like")


def shape_as_value(shape: Sequence[int]) -> Any:
    """The sizes of a shape as an array of integers."""
    sizes = ax.check_sizes(shape, "lax.shape_as_value")
    return asarray(sizes, dtypes.default_dtype("i"))


def stage(x: Value, /) -> Any:
    """The value as an array, which is traced where a function is being traced."""
    return asarray(x)


def broadcast_in_dim(
    operand: Value,
    shape: Sequence[int],
    broadcast_dimensions: Sequence[int],
    *,
    out_sharding: Any = None,
) -> Any:
    """The operand in a larger shape.

    Args:
      operand: the array.
      shape: of the result.
      broadcast_dimensions: for each axis of the operand, the axis of the result.
      out_sharding: accepted, without effect.

    Raises:
      ShapeError: a size is neither 1 nor that of its axis in `shape`.
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
    if any(n not in (1, target[a]) for n, a in zip(x.shape, places, strict=True)):
        raise ShapeError(
            f"lax.broadcast_in_dim: {x.shape} does not fit {target} at the axes "
            f"{places}: each size must be equal or 1"
        )
    x = ax.permute(x, tuple(int(a) for a in np.argsort(places)))
    missing = [a for a in range(len(target)) if a not in places]
    return ax.expand(ax.insert_axes(x, missing), target)


def broadcast_to_rank(x: Value, rank: int) -> Any:
    """`x` with leading axes of size 1, up to `rank` axes."""
    value = ax.as_value(x)
    return ax.insert_axes(value, range(max(rank - value.ndim, 0)))


def reshape(
    operand: Value,
    new_sizes: Sequence[int],
    dimensions: Sequence[int] | None = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """The same elements in another shape; `dimensions` are permuted first.

    Raises:
      ShapeError: the shape has another number of elements, or a negative size.
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
    """The axes from `start_dimension` up to `stop_dimension` as one."""
    x = ax.as_value(operand)
    low, high, _ = slice(start_dimension, stop_dimension).indices(x.ndim)
    if low >= high:
        raise ShapeError(
            f"lax.collapse: there are no axes from {start_dimension} to "
            f"{stop_dimension} of {x.shape}"
        )
    merged = prod(x.shape[low:high])
    return ax.reshape(x, (*x.shape[:low], merged, *x.shape[high:]))


def squeeze(array: Value, dimensions: Sequence[int]) -> Any:
    """The array without these axes, which have size 1.

    Raises:
      ShapeError: one has another size.
    """
    x = ax.as_value(array)
    axes = ax.canonical_axes(tuple(dimensions), x.ndim, "lax.squeeze")
    if any(x.shape[a] != 1 for a in axes):
        raise ShapeError(
            f"lax.squeeze: the axes {axes} of {x.shape} must have size 1; use an index "
            "to choose from a longer one"
        )
    return ax.drop_axes(x, axes)


def expand_dims(array: Value, dimensions: Sequence[int]) -> Any:
    """The array with axes of size 1 where the result has the axes `dimensions`."""
    x = ax.as_value(array)
    wanted = tuple(dimensions)
    axes = ax.canonical_axes(wanted, x.ndim + len(wanted), "lax.expand_dims")
    return ax.insert_axes(x, axes)


def transpose(operand: Value, permutation: Sequence[int]) -> Any:
    """The axes in another order.

    Raises:
      AxisError: it is no permutation of them.
    """
    x = ax.as_value(operand)
    return ax.permute(x, ax.check_shape(permutation, "lax.transpose: permutation"))


def rev(operand: Value, dimensions: Sequence[int]) -> Any:
    """The elements in reverse order along these axes."""
    x = ax.as_value(operand)
    return ax.flip(x, ax.canonical_axes(tuple(dimensions), x.ndim, "lax.rev"))


def tile(operand: Value, reps: Sequence[int]) -> Any:
    """The operand repeated as a whole, as often along each axis as `reps` says.

    Raises:
      ShapeError: there is not one count per axis.
    """
    x = ax.as_value(operand)
    counts = ax.check_shape(reps, "lax.tile")
    if len(counts) != x.ndim or any(n < 0 for n in counts):
        raise ShapeError(
            f"lax.tile: reps {counts} must hold a count for each axis of {x.shape}"
        )
    return repeat_whole(x, counts)


# Joining and dividing.


def concatenate(operands: Sequence[Value], dimension: int) -> Any:
    """The operands after each other along one axis.

    Raises:
      DtypeError: their dtypes differ.
      ShapeError: they differ in size along another axis.
    """
    check_dtypes("concatenate", *operands)
    return joined(list(operands), axis=dimension)


def stack(operands: Sequence[Value], axis: int = 0) -> Any:
    """The operands, of one shape, along a new axis.

    Raises:
      ShapeError: their shapes differ.
    """
    values = values_together(operands)
    if any(v.shape != values[0].shape for v in values):
        raise ShapeError(f"lax.stack: the shapes differ: {[v.shape for v in values]}")
    place = ax.canonical_axis(axis, values[0].ndim + 1, "lax.stack")
    return concatenate([ax.insert_axes(v, (place,)) for v in values], place)


def unstack(x: Value, axis: int = 0) -> tuple[Any, ...]:
    """The slices along one axis, without it."""
    value, place = ax.along(x, axis, "lax.unstack")
    if value.shape[place] == 0:
        return ()
    slices = split(value, [1] * value.shape[place], place)
    return tuple(ax.drop_axes(part, (place,)) for part in slices)


def split(operand: Value, sizes: Sequence[int], axis: int = 0) -> list[Any]:
    """Consecutive parts of these sizes along one axis.

    Raises:
      ShapeError: the sizes do not add up to the size of the axis.
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
    """
    x = ax.as_value(operand)
    check_dtypes("pad", x, padding_value)
    if aval_of(padding_value).shape != ():
        raise ShapeError(
            f"lax.pad: padding_value must be a scalar, got {aval_of(padding_value)!r}"
        )
    what = "lax.pad: each count"
    config = [tuple(ax.static_int(n, what) for n in c) for c in padding_config]
    if len(config) != x.ndim or any(len(c) != 3 or c[2] < 0 for c in config):
        raise ShapeError(
            f"lax.pad: padding_config must hold for each axis of {x.shape} a triple "
            f"(before, after, between) with between >= 0, got {config}"
        )
    windows = [ax.Window(1, 1, 1, lo, hi, gap) for lo, hi, gap in config]
    return ax.padded(x, windows, padding_value)


# New arrays.


def full(
    shape: Sequence[int],
    fill_value: Value,
    dtype: Dtype = None,
    *,
    sharding: Any = None,
) -> Any:
    """A scalar at every position.

    Raises:
      ShapeError: the value is not a scalar.
    """
    of_any_size = dtype is not None and type(fill_value) is int
    aval = aval_of(0 if of_any_size else fill_value)
    if aval.shape != ():
        raise ShapeError(f"lax.full: fill_value must be a scalar, got {aval!r}")
    return filled("lax.full", ax.check_sizes(shape, "lax.full"), fill_value, dtype)


def full_like(
    x: Any,
    fill_value: Value,
    dtype: Dtype = None,
    shape: Sequence[int] | None = None,
    sharding: Any = None,
) -> Any:
    """A scalar at every position of the shape of `x`, in its dtype."""
    aval = type_like(dtypes.as_number(x))
    natural = dtypes.settled(aval.dtype, aval.weak_type)
    target = aval.shape if shape is None else shape
    return full(target, fill_value, natural if dtype is None else dtype)


def zeros_like_array(x: Value) -> Any:
    """Zeros in the shape and dtype of `x`."""
    return full_like(x, 0)


def empty(shape: Sequence[int], dtype: Dtype, *, out_sharding: Any = None) -> Any:
    """An array whose elements do not matter; they are zero, float32 for None."""
    return full(shape, 0, dtypes.default_dtype("f") if dtype is None else dtype)


def iota(dtype: Dtype, size: int) -> Any:
    """0, 1, 2, … in a dtype."""
    return broadcasted_iota(dtype, (size,), 0)


def broadcasted_iota(
    dtype: Dtype, shape: Sequence[int], dimension: int, *, out_sharding: Any = None
) -> Any:
    """The position along one axis, at every position of a shape.

    Raises:
      DtypeError: the dtype is bool.
      ShapeError: a size is negative.
    """
    wanted = dtypes.canonicalize(dtypes.as_dtype(dtype))
    if wanted == dtypes.bool_:
        raise DtypeError("lax.iota: the dtype must be numeric, got bool")
    sizes = ax.check_sizes(shape, "lax.broadcasted_iota")
    axis = ax.canonical_axis(dimension, len(sizes), "lax.broadcasted_iota")
    return ax.iota(wanted, sizes, axis)


def optimization_barrier(operand: Any) -> Any:
    """The arrays of a tree, none of which can be used before all have been computed.

    What is computed of the results is not merged with what is computed of `operand`.

    Raises:
      ArgumentError: a leaf is no array.
    """
    values, treedef = flatten_values(operand, "optimization_barrier: the operand ")
    if not values:
        return operand
    return tree.unflatten(treedef, bind_compound(barrier_p, *values))
