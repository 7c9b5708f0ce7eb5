"""Parts of arrays under JAX's `lax` names, at positions known or computed.

Computed starts follow JAX: a negative one counts from the end, and a slice that would
reach beyond the array is moved inside.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.arrays.array import is_array
from ftrace.errors import DtypeError, IndexBoundsError, ShapeError, ValueRangeError
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lax.elementwise import GatherScatterMode, check_dtypes
from ftrace.numpy import axes as moves
from ftrace.numpy import elementwise as ew
from ftrace.numpy.at import at
from ftrace.numpy.selection import maximum, minimum
from ftrace.trace.avals import Shape
from ftrace.trace.bind import bind, elementwise
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.indexing import gather_p, scatter_p
from ftrace.trace.symbolic.bounds import surely_at_most, surely_less
from ftrace.trace.symbolic.dim import is_dynamic
from ftrace.trace.tracing.scopes import current_scope
from ftrace.trace.tracing.tracer import Value, aval_of

__all__ = [
    "dynamic_index_in_dim", "dynamic_slice", "dynamic_slice_in_dim",
    "dynamic_update_index_in_dim", "dynamic_update_slice",
    "dynamic_update_slice_in_dim", "index_in_dim", "slice", "slice_in_dim",
]  # fmt: skip

# Known positions.


def slice(
    operand: Value,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Any:
    """The elements from start to limit, per axis, every n-th of them.

    Raises:
      ShapeError: the bounds or strides do not fit the shape.
    """
    x = moves.as_value(operand)
    starts = moves.check_shape(tuple(start_indices), "lax.slice")
    limits = moves.check_shape(tuple(limit_indices), "lax.slice")
    steps = (
        (1,) * x.ndim
        if strides is None
        else moves.check_shape(tuple(strides), "lax.slice")
    )
    if (
        not len(starts) == len(limits) == len(steps) == x.ndim
        or min(steps, default=1) < 1
    ):
        raise ShapeError(
            "lax.slice: one start, limit and stride (of 1 or more) per axis of "
            f"{x.shape} are required, got {starts}, {limits} and {steps}"
        )
    return moves.stride(moves.shrink(x, tuple(zip(starts, limits, strict=True))), steps)


def slice_in_dim(
    operand: Value,
    start_index: int | None,
    limit_index: int | None,
    stride: int = 1,
    axis: int = 0,
) -> Any:
    """A slice along one axis; negative bounds count from the end."""
    x = moves.as_value(operand)
    place = moves.canonical_axis(axis, x.ndim, "lax.slice_in_dim")
    size = x.shape[place]
    start = (
        0 if start_index is None else moves.static_int(start_index, "lax.slice_in_dim")
    )
    limit = (
        size
        if limit_index is None
        else moves.static_int(limit_index, "lax.slice_in_dim")
    )
    starts, limits, steps = [0] * x.ndim, list(x.shape), [1] * x.ndim
    starts[place] = start + size if start < 0 else start
    limits[place] = limit + size if limit < 0 else limit
    steps[place] = moves.static_int(stride, "lax.slice_in_dim: stride")
    return slice(x, starts, limits, steps)


def index_in_dim(
    operand: Value, index: int, axis: int = 0, keepdims: bool = True
) -> Any:
    """One position along one axis.

    Raises:
      IndexBoundsError: there is no such position.
    """
    x = moves.as_value(operand)
    place = moves.canonical_axis(axis, x.ndim, "lax.index_in_dim")
    size = x.shape[place]
    position = moves.static_int(index, "lax.index_in_dim: index")
    if not -size <= position < size:
        raise IndexBoundsError(
            f"lax.index_in_dim: index {position} is out of bounds for axis {place} of "
            f"{x.shape}"
        )
    start = position % size
    part = moves.shrink_axis(x, place, start, start + 1)
    return part if keepdims else moves.drop_axes(part, (place,))


# Computed positions.


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
    else:
        vector = moves.as_value(start_indices)
        if vector.ndim != 1:
            raise ShapeError(
                f"{name}: start_indices must be a sequence of scalars or a vector, got "
                f"{aval_of(vector)!r}"
            )
        parts = [index_in_dim(vector, i, 0, False) for i in range(vector.shape[0])]
    if len(parts) != len(shape):
        raise ShapeError(
            f"{name}: one start per axis of {shape} is required, got {len(parts)}"
        )
    wraps = [negative] * len(shape) if isinstance(negative, bool) else negative
    rows = zip(parts, shape, sizes, wraps, strict=True)
    return [_start(name, part, n, size, wrap) for part, n, size, wrap in rows]


def _start(name: str, start: Any, size: int, length: int, wrap: bool) -> Any:
    last = size - length
    if _is_known(start):
        start = int(start)  # so that the slice is a view
    if type(start) is int and not is_dynamic(last):
        start = start + size if wrap and start < 0 else start
        return min(max(start, 0), last)
    value = moves.as_value(start)
    if value.ndim or not dtypes.is_integer(value.dtype):
        raise DtypeError(
            f"{name}: each start must be an integer scalar, got {aval_of(value)!r}"
        )
    if not is_dynamic(last) and last == 0:
        return 0
    if value.dtype.itemsize < 4:  # so that the size fits
        value = moves.cast(value, dtypes.int32)
    if dtypes.kind(value.dtype) == "i":
        if wrap:
            behind = elementwise(p.lt, value, 0)
            value = moves.choose(behind, elementwise(p.add, value, size), value)
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

    Args:
      operand: the array.
      start_indices: integer scalars, one per axis, or a vector of them.
      slice_sizes: the shape of the result.
      allow_negative_indices: a negative start counts from the end.

    Raises:
      ShapeError: the sizes exceed the shape, or a start is missing.
    """
    x = moves.as_value(operand)
    sizes = _checked_sizes("lax.dynamic_slice", x, slice_sizes)
    starts = _starts(
        "lax.dynamic_slice", start_indices, x.shape, sizes, allow_negative_indices
    )
    for axis, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        if type(start) is int:
            x = moves.shrink_axis(x, axis, start, start + size)
        else:
            found = bind(gather_p, x, _positions(start, (size,), 0), arg=(axis,))
            x = moves.move_axis(found, 0, axis)
    return x


def _checked_sizes(name: str, x: Any, slice_sizes: Sequence[int]) -> tuple[int, ...]:
    sizes = moves.check_shape(tuple(slice_sizes), name)
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
    return elementwise(p.add, moves.iota(dtype, shape, axis), start)


def dynamic_slice_in_dim(
    operand: Value,
    start_index: Value,
    slice_size: int,
    axis: int = 0,
    *,
    allow_negative_indices: bool = True,
) -> Any:
    """A slice of known size at a computed position of one axis; else whole."""
    x = moves.as_value(operand)
    place = moves.canonical_axis(axis, x.ndim, "lax.dynamic_slice_in_dim")
    starts: list[Any] = [0] * x.ndim
    sizes = list(x.shape)
    starts[place], sizes[place] = start_index, slice_size
    return dynamic_slice(
        x, starts, sizes, allow_negative_indices=allow_negative_indices
    )


def dynamic_index_in_dim(
    operand: Value,
    index: Value,
    axis: int = 0,
    keepdims: bool = True,
    *,
    allow_negative_indices: bool = True,
) -> Any:
    """One computed position along one axis."""
    x = moves.as_value(operand)
    place = moves.canonical_axis(axis, x.ndim, "lax.dynamic_index_in_dim")
    part = dynamic_slice_in_dim(
        x, index, 1, place, allow_negative_indices=allow_negative_indices
    )
    return part if keepdims else moves.drop_axes(part, (place,))


def dynamic_update_slice(
    operand: Value,
    update: Value,
    start_indices: Any,
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Any:
    """The operand with `update` in the place of its elements at a computed position.

    Raises:
      ShapeError: the update has another number of axes, or is larger.
      DtypeError: the dtypes differ.
    """
    x, part = moves.as_value(operand), moves.as_value(update)
    part = moves.cast(part, check_dtypes("dynamic_update_slice", x, part))
    sizes = _checked_sizes("lax.dynamic_update_slice: update", x, part.shape)
    starts = _starts(
        "lax.dynamic_update_slice",
        start_indices,
        x.shape,
        sizes,
        allow_negative_indices,
    )
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
    part = moves.permute(part, axes + rest)
    return bind(scatter_p, x, part, *indices, arg=(axes, "set"))


def dynamic_update_slice_in_dim(
    operand: Value,
    update: Value,
    start_index: Value,
    axis: int,
    *,
    allow_negative_indices: bool = True,
) -> Any:
    """`dynamic_update_slice` at a computed position of one axis."""
    x, part = moves.as_value(operand), moves.as_value(update)
    place = moves.canonical_axis(axis, x.ndim, "lax.dynamic_update_slice_in_dim")
    starts: list[Any] = [0] * x.ndim
    starts[place] = start_index
    return dynamic_update_slice(
        x, part, starts, allow_negative_indices=allow_negative_indices
    )


def dynamic_update_index_in_dim(
    operand: Value,
    update: Value,
    index: Value,
    axis: int,
    *,
    allow_negative_indices: bool = True,
) -> Any:
    """One computed position along one axis replaced; the update may lack the axis."""
    x, part = moves.as_value(operand), moves.as_value(update)
    place = moves.canonical_axis(axis, x.ndim, "lax.dynamic_update_index_in_dim")
    if part.ndim == x.ndim - 1:
        part = moves.insert_axes(part, (place,))
    elif part.ndim != x.ndim:
        raise ShapeError(
            "lax.dynamic_update_index_in_dim: the update must have the axes of the "
            f"operand, {x.shape}, with or without axis {place}; got {part.shape}"
        )
    return dynamic_update_slice_in_dim(
        x, part, index, place, allow_negative_indices=allow_negative_indices
    )


# Windows of an array at computed starts: what `gather` and `scatter` share.
#
#     index along an axis = start + position in the window
#
# The axes along which a window is the whole axis, wherever it starts, need no index.


Axes = tuple[int, ...]


@dataclass(frozen=True)
class Windows:
    """Which windows of an array are meant.

    Attributes:
      shape: the shape of the array.
      sizes: the shape of each window.
      starting: the axes of the array to which the components of a start belong.
      paired: (axis of the array, axis of the starts) that run together.
      squeezed: the axes of the array, of window size 1, that a window does not have.
    """

    shape: Shape
    sizes: Shape
    starting: Axes
    paired: tuple[tuple[int, int], ...]
    squeezed: Axes

    @property
    def kept(self) -> Axes:
        """The axes of the array that a window has."""
        return tuple(a for a in range(len(self.shape)) if a not in self.squeezed)


@dataclass(frozen=True, eq=False)
class Places:
    """Where the elements of windows stand.

    Attributes:
      axes: the axes of the array that are indexed, in order.
      indices: per such axis; their shape is the batch and then the window sizes of
        these axes.
      inside: which windows are in bounds, in the shape of the batch; None is all.
    """

    axes: Axes
    indices: tuple[Any, ...]
    inside: Any


def mode_of(mode: str | GatherScatterMode | None) -> GatherScatterMode:
    """A mode; None is "fill" or "drop".

    Raises:
      ValueRangeError: there is no such mode, or it is ONE_HOT.
    """
    found = GatherScatterMode.from_any(mode)
    if found is GatherScatterMode.ONE_HOT:
        raise ValueRangeError(
            "the mode ONE_HOT has no meaning for windows; write nn.one_hot(i, n) @ x"
        )
    return found


def require(name: str, holds: bool, message: str) -> None:
    """Raises ShapeError unless the condition holds."""
    if not holds:
        raise ShapeError(f"lax.{name}: {message}")


def check_axes(name: str, what: str, axes: Sequence[int], ndim: int) -> Axes:
    """Axes in order, all from 0 to ndim - 1 and different."""
    found = moves.check_shape(tuple(axes), f"lax.{name}: {what}")
    require(
        name,
        list(found) == sorted(set(found)) and all(0 <= a < ndim for a in found),
        f"{what} must be different axes in order, from 0 to {ndim - 1}, got {found}",
    )
    return found


def check_starts(name: str, starts: Value) -> Any:
    """Starts as a value whose last axis holds the components of each start."""
    found = moves.as_value(starts)
    if not dtypes.is_integer(found.dtype):
        raise DtypeError(
            f"lax.{name}: the indices must be integers, got {aval_of(found)!r}"
        )
    require(
        name,
        found.ndim > 0,
        "the indices need a last axis, with one entry per axis that they start; write "
        "indices[None]",
    )
    return found


def check_windows(
    name: str,
    shape: Shape,
    sizes: Shape,
    starts: Any,
    starting: Sequence[int],
    array_batch: Sequence[int],
    starts_batch: Sequence[int],
    squeezed: Axes,
) -> Windows:
    """Windows, once their numbers are known to fit each other.

    Raises:
      ShapeError: they do not.
    """
    need, ndim, depth = partial(require, name), len(shape), starts.ndim - 1
    first = moves.check_shape(tuple(starting), f"lax.{name}")
    need(
        len(set(first)) == len(first) and all(0 <= a < ndim for a in first),
        f"the starts must belong to different axes of an array of shape {shape}, got "
        f"{first}",
    )
    need(
        len(first) == starts.shape[-1],
        f"the last axis of the indices, of shape {starts.shape}, must have one entry "
        f"per axis that they start, which are {first}",
    )
    ours = check_axes(name, "operand_batching_dims", array_batch, ndim)
    theirs = moves.check_shape(tuple(starts_batch), f"lax.{name}")
    need(
        len(set(theirs)) == len(theirs) and all(0 <= a < depth for a in theirs),
        f"the batching dims of the indices must be different axes, not the last, of "
        f"shape {starts.shape}, got {theirs}",
    )
    need(
        [shape[a] for a in ours] == [starts.shape[a] for a in theirs],
        f"the axes {ours} of shape {shape} and {theirs} of the indices of shape "
        f"{starts.shape} run together and must have the same sizes",
    )
    need(
        len({*squeezed, *ours}) == len(squeezed) + len(ours) and not {*first} & {*ours},
        f"the batching dims {ours} must not be among the axes of the starts, {first}, "
        f"or of the windows of one element, {squeezed}",
    )
    need(
        all(0 <= n <= m for n, m in zip(sizes, shape, strict=True)),
        f"the windows, of shape {sizes}, must fit the array of shape {shape}",
    )
    pairs = tuple(zip(ours, theirs, strict=True))
    return Windows(shape, sizes, first, pairs, tuple(sorted((*squeezed, *ours))))


def places(
    windows: Windows, starts: Any, mode: GatherScatterMode, writing: bool
) -> Places:
    """The index arrays of windows.

    With a mode that fills or drops, the windows that are not in bounds are told by
    `inside`, and moved into the array; with all others they are only moved. A window
    that is smaller than its axis gets an index along it also where it always starts
    at 0 if it is `writing`, as a scatter takes no part of an axis.
    """
    batch = starts.shape[:-1]
    drops = mode is GatherScatterMode.FILL_OR_DROP
    at: dict[int, Any] = {}
    inside: Any = None
    for number, axis in enumerate(windows.starting):
        last = windows.shape[axis] - windows.sizes[axis]
        start = moves.shrink_axis(starts, len(batch), number, number + 1)
        start = _signed(moves.reshape(start, batch), windows.shape[axis])
        if drops:
            here = ew.bitwise_and(
                ew.greater_equal(start, 0), ew.less_equal(start, last)
            )
            inside = here if inside is None else ew.bitwise_and(inside, here)
        if last:
            at[axis] = minimum(maximum(start, 0), last)
    for axis, place in windows.paired:
        at[axis] = moves.iota(dtypes.int32, batch, place)
    for axis, (size, whole) in enumerate(
        zip(windows.sizes, windows.shape, strict=True)
    ):
        if writing and size != whole and axis not in at:
            at[axis] = moves.full(batch, 0, dtypes.int32)
    if writing and not at:
        at[0] = moves.full(batch, 0, dtypes.int32)
    axes = tuple(sorted(at))
    shape = (*batch, *[windows.sizes[a] for a in axes])
    common = max([at[a].dtype for a in axes], key=_width, default=dtypes.int32)
    indices = [
        _window_index(moves.cast(at[a], common), shape, len(batch) + i)
        for i, a in enumerate(axes)
    ]
    return Places(axes, tuple(indices), inside)


def _width(dtype: Any) -> int:
    return dtype.itemsize


def _signed(start: Any, size: int) -> Any:
    """A start in a signed dtype that holds the size of its axis."""
    if dtypes.kind(start.dtype) == "u":
        if dtypes.limits(start.dtype)[1] > size:
            start = minimum(start, size)  # which is out of bounds, too
        return moves.cast(
            start, dtypes.int32 if surely_less(size, 2**31) else dtypes.int64
        )
    wide = start.dtype if start.dtype.itemsize >= 4 else dtypes.int32
    return moves.cast(start, wide if surely_less(size, 2**31) else dtypes.int64)


def _window_index(start: Any, shape: Shape, axis: int) -> Any:
    """start + position along one axis of a shape that begins with start's."""
    lined = moves.reshape(start, start.shape + (1,) * (len(shape) - start.ndim))
    lined = moves.expand(lined, shape)
    if shape[axis] == 1:
        return lined
    return ew.add(lined, moves.iota(start.dtype, shape, axis))


def only_inside(found: Places) -> tuple[Any, ...]:
    """The indices, of which one is -1 throughout each window that is out of bounds."""
    if found.inside is None:
        return found.indices
    first, *others = found.indices
    return (moves.choose(spread(found.inside, first.shape), first, -1), *others)


def spread(mask: Any, shape: Shape) -> Any:
    """A mask with more axes at the end, to a shape."""
    mask = moves.reshape(mask, mask.shape + (1,) * (len(shape) - mask.ndim))
    return moves.expand(mask, shape)
