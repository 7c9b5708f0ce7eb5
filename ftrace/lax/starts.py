"""Windows of an array at computed starts: what `gather` and `scatter` share.

    index along an axis = start + position in the window

The axes along which a window is the whole axis, wherever it starts, need no index.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ftrace import dtypes
from ftrace.errors import DtypeError, ShapeError, ValueRangeError
from ftrace.lax.options import GatherScatterMode
from ftrace.numpy import axes as moves
from ftrace.numpy.axes import as_value, cast, check_shape, choose, iota, reshape
from ftrace.numpy.elementwise import (
    add,
    bitwise_and,
    greater_equal,
    less_equal,
)
from ftrace.numpy.selection import maximum, minimum
from ftrace.records import dataclass
from ftrace.trace.avals import Shape
from ftrace.trace.sizes import surely_less
from ftrace.trace.tracer import Value, aval_of

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


def require(holds: bool, name: str, message: str) -> None:
    """Raises ShapeError unless the condition holds."""
    if not holds:
        raise ShapeError(f"lax.{name}: {message}")


def check_axes(name: str, what: str, axes: Sequence[int], ndim: int) -> Axes:
    """Axes in order, all from 0 to ndim - 1 and different."""
    found = check_shape(tuple(axes), f"lax.{name}: {what}")
    require(
        list(found) == sorted(set(found)) and all(0 <= a < ndim for a in found),
        name,
        f"{what} must be different axes in order, from 0 to {ndim - 1}, got {found}",
    )
    return found


def check_starts(name: str, starts: Value) -> Any:
    """Starts as a value whose last axis holds the components of each start."""
    found = as_value(starts)
    if not dtypes.is_integer(found.dtype):
        raise DtypeError(
            f"lax.{name}: the indices must be integers, got {aval_of(found)!r}"
        )
    require(
        found.ndim > 0,
        name,
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
    ndim, depth = len(shape), starts.ndim - 1
    first = check_shape(tuple(starting), f"lax.{name}")
    require(
        len(set(first)) == len(first) and all(0 <= a < ndim for a in first),
        name,
        f"the starts must belong to different axes of an array of shape {shape}, got "
        f"{first}",
    )
    require(
        len(first) == starts.shape[-1],
        name,
        f"the last axis of the indices, of shape {starts.shape}, must have one entry "
        f"per axis that they start, which are {first}",
    )
    ours = check_axes(name, "operand_batching_dims", array_batch, ndim)
    theirs = check_shape(tuple(starts_batch), f"lax.{name}")
    require(
        len(set(theirs)) == len(theirs) and all(0 <= a < depth for a in theirs),
        name,
        f"the batching dims of the indices must be different axes, not the last, of "
        f"shape {starts.shape}, got {theirs}",
    )
    require(
        [shape[a] for a in ours] == [starts.shape[a] for a in theirs],
        name,
        f"the axes {ours} of shape {shape} and {theirs} of the indices of shape "
        f"{starts.shape} run together and must have the same sizes",
    )
    require(
        len({*squeezed, *ours}) == len(squeezed) + len(ours) and not {*first} & {*ours},
        name,
        f"the batching dims {ours} must not be among the axes of the starts, {first}, "
        f"or of the windows of one element, {squeezed}",
    )
    require(
        all(0 <= n <= m for n, m in zip(sizes, shape, strict=True)),
        name,
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
        start = _signed(reshape(start, batch), windows.shape[axis])
        if drops:
            here = bitwise_and(greater_equal(start, 0), less_equal(start, last))
            inside = here if inside is None else bitwise_and(inside, here)
        if last:
            at[axis] = minimum(maximum(start, 0), last)
    for axis, place in windows.paired:
        at[axis] = iota(dtypes.int32, batch, place)
    for axis, (size, whole) in enumerate(
        zip(windows.sizes, windows.shape, strict=True)
    ):
        if writing and size != whole and axis not in at:
            at[axis] = moves.full(batch, 0, dtypes.int32)
    axes = tuple(sorted(at))
    shape = (*batch, *[windows.sizes[a] for a in axes])
    common = max([at[a].dtype for a in axes], key=_width, default=dtypes.int32)
    indices = [
        _window_index(cast(at[a], common), shape, len(batch) + i)
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
        return cast(start, dtypes.int32 if surely_less(size, 2**31) else dtypes.int64)
    wide = start.dtype if start.dtype.itemsize >= 4 else dtypes.int32
    return cast(start, wide if surely_less(size, 2**31) else dtypes.int64)


def _window_index(start: Any, shape: Shape, axis: int) -> Any:
    """start + position along one axis of a shape that begins with start's."""
    lined = reshape(start, start.shape + (1,) * (len(shape) - start.ndim))
    lined = moves.expand(lined, shape)
    if shape[axis] == 1:
        return lined
    return add(lined, iota(start.dtype, shape, axis))


def only_inside(found: Places) -> tuple[Any, ...]:
    """The indices, of which one is -1 throughout each window that is out of bounds."""
    if found.inside is None:
        return found.indices
    first, *others = found.indices
    return (choose(spread(found.inside, first.shape), first, -1), *others)


def spread(mask: Any, shape: Shape) -> Any:
    """A mask with more axes at the end, to a shape."""
    mask = reshape(mask, mask.shape + (1,) * (len(shape) - mask.ndim))
    return moves.expand(mask, shape)


def with_axis(windows: Windows) -> Windows:
    """The same windows of the array with another axis, of size 1, in front."""
    return Windows(
        (1, *windows.shape),
        (1, *windows.sizes),
        tuple(a + 1 for a in windows.starting),
        tuple((a + 1, b) for a, b in windows.paired),
        (0, *(a + 1 for a in windows.squeezed)),
    )
