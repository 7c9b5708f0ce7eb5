"""Slices under JAX's `lax` names, at positions that are known or computed.

At a computed position to read is a gather, and to write a scatter, along the axes whose
starts are not known.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import DtypeError, IndexBoundsError, ShapeError
from ftrace.lax.elementwise import check_dtypes
from ftrace.numpy import axes as ax
from ftrace.numpy.at import at
from ftrace.trace.arrays.array import is_array
from ftrace.trace.bind import bind, elementwise
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.indexing import gather_p, scatter_p
from ftrace.trace.symbolic import is_dynamic, surely_at_most
from ftrace.trace.tracing.scopes import current_scope, tell_of_indices
from ftrace.trace.tracing.tracer import Value, aval_of

__all__ = [
    "dynamic_index_in_dim", "dynamic_slice", "dynamic_slice_in_dim",
    "dynamic_update_index_in_dim", "dynamic_update_slice",
    "dynamic_update_slice_in_dim", "index_in_dim", "slice", "slice_in_dim",
]  # fmt: skip

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
    starts, limits, steps = (ax.check_shape(n, "lax.slice") for n in given)
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
    sizes = ax.check_shape(slice_sizes, name)
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
