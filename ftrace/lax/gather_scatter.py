"""`lax.gather`, `lax.scatter` and its kin: windows of an array at computed starts.

found = gather_p along the indexed axes        batch, windows, other axes
y     = where(window in bounds, found, fill)   axes moved to their places

updates = batch, windows along the indexed axes, other axes
y       = scatter_p(operand, updates, indices);  windows out of bounds get index -1
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import ShapeError, ValueRangeError, one_of
from ftrace.ground.fast_dataclasses import NamedTuple, dataclass
from ftrace.lax.elementwise import check_dtypes
from ftrace.numpy import axes as ax, elementwise as ew, logic
from ftrace.numpy.arithmetic import remainder
from ftrace.numpy.at import apply_repeatedly
from ftrace.numpy.indexing import default_fill, widen
from ftrace.trace.avals import Shape
from ftrace.trace.bind import bind
from ftrace.trace.eager.function_objects import member
from ftrace.trace.primitives.broadcast import Axes
from ftrace.trace.primitives.indexing import gather_p, scatter_p
from ftrace.trace.symbolic import surely_less
from ftrace.trace.tracing.tracer import Value, aval_of
from ftrace.typing import ArrayLike

__all__ = [
    "GatherDimensionNumbers", "GatherScatterMode", "ScatterDimensionNumbers", "gather",
    "index_take", "scatter", "scatter_add", "scatter_apply", "scatter_max",
    "scatter_min", "scatter_mul", "scatter_sub",
]  # fmt: skip


class GatherScatterMode(enum.Enum):
    """What happens at indices out of bounds."""

    CLIP = 0
    FILL_OR_DROP = 1
    PROMISE_IN_BOUNDS = 2
    ONE_HOT = 3

    @staticmethod
    def from_any(mode: str | GatherScatterMode | None) -> GatherScatterMode:
        """The mode of a name: "clip", "fill", "drop" or "promise_in_bounds".

        Raises:
          ValueRangeError: there is no such mode.
        """
        if isinstance(mode, GatherScatterMode):
            return mode
        one_of("mode", mode, _MODES)
        return _MODES[mode]


_DROPS = GatherScatterMode.FILL_OR_DROP
_MODES: dict[str | None, GatherScatterMode] = {
    None: _DROPS, "fill": _DROPS, "drop": _DROPS,
    **{m.name.lower(): m for m in GatherScatterMode if m is not _DROPS},
}  # fmt: skip


class GatherDimensionNumbers(NamedTuple):
    """Which axis is what in a `gather`.

    Attributes:
      offset_dims: the axes of the result that run through a window, in order.
      collapsed_slice_dims: the axes of the operand, of window size 1, that a window
        loses.
      start_index_map: the axis of the operand for each component of a start.
      operand_batching_dims: the axes of the operand, of window size 1, that run
        together with …
      start_indices_batching_dims: … these axes of the starts.
    """

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()


class ScatterDimensionNumbers(NamedTuple):
    """Which axis is what in a `scatter`.

    Attributes:
      update_window_dims: the axes of the updates that run through a window, in order.
      inserted_window_dims: the axes of the operand, of window size 1, that a window of
        the updates lacks.
      scatter_dims_to_operand_dims: the axis of the operand for each component of a
        start.
      operand_batching_dims: the axes of the operand that run together with …
      scatter_indices_batching_dims: … these axes of the starts.
    """

    update_window_dims: Sequence[int]
    inserted_window_dims: Sequence[int]
    scatter_dims_to_operand_dims: Sequence[int]
    operand_batching_dims: Sequence[int] = ()
    scatter_indices_batching_dims: Sequence[int] = ()


DimensionNumbers = GatherDimensionNumbers | ScatterDimensionNumbers


# Windows of an array at computed starts.
#
#     index along an axis = start + position in the window
#
# The axes along which a window is the whole axis, wherever it starts, need no index.


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
    def window_axes(self) -> Axes:
        """The axes of the array that a window has."""
        return tuple(a for a in range(len(self.shape)) if a not in self.squeezed)


@dataclass(frozen=True, eq=False)
class Positions:
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


def _require(name: str, holds: bool, message: str) -> None:
    """Raises ShapeError unless the condition holds."""
    if not holds:
        raise ShapeError(f"lax.{name}: {message}")


def _check_axes(name: str, what: str, axes: Sequence[int], ndim: int) -> Axes:
    """Axes in order, all from 0 to ndim - 1 and different."""
    found = ax.check_shape(axes, f"lax.{name}: {what}")
    _require(
        name,
        _are_axes(found, ndim) and list(found) == sorted(found),
        f"{what} must be different axes in order, from 0 to {ndim - 1}, got {found}",
    )
    return found


def check_starts(name: str, starts: Value) -> Any:
    """Starts as a value whose last axis holds the components of each start."""
    found = ax.integers(starts, f"lax.{name}: the indices")
    return ax.need_axes(f"lax.{name}", found, 1, "indices", "write indices[None]")


def check_windows(
    name: str,
    shape: Shape,
    starts: Any,
    numbers: DimensionNumbers,
    sizes: Shape | None,
    updates: Shape = (),
) -> tuple[Windows, Axes]:
    """The windows, and the axes of the result or of the updates that are theirs.

    Args:
      sizes: those of the windows; None where the updates have them.

    Raises:
      ShapeError: the numbers do not fit the shapes or each other.
    """
    need, ndim, depth = partial(_require, name), len(shape), starts.ndim - 1
    through, squeezed, starting, ours, theirs = map(tuple, numbers)
    words = numbers._fields
    first = ax.check_shape(starting, f"lax.{name}")
    need(
        _are_axes(first, ndim) and len(first) == starts.shape[-1],
        f"the last axis of the indices, of shape {starts.shape}, must have one entry "
        f"for each axis that they start, different ones of an array of shape {shape}; "
        f"these are {first}",
    )
    squeezed = _check_axes(name, words[1], squeezed, ndim)
    ours = _check_axes(name, words[3], ours, ndim)
    gone = tuple(sorted((*squeezed, *ours)))
    kept = [a for a in range(ndim) if a not in gone]
    through = _check_axes(name, words[0], through, depth + len(kept))
    need(
        len(through) == len(kept),
        f"{words[0]} {through} must name one axis of the "
        f"{'updates' if sizes is None else 'result'} for each of the axes "
        f"{tuple(kept)} of the windows",
    )
    if sizes is None:
        _check_updates(name, updates, starts.shape[:-1], words[0], through)
        known = dict(zip(kept, through, strict=True))
        sizes = tuple(updates[known[a]] if a in known else 1 for a in range(ndim))
    need(
        len(sizes) == ndim and all(sizes[a] <= 1 for a in gone),
        f"slice_sizes {sizes} must have one size per axis of shape {shape}; the axes "
        f"{gone}, which the windows lose, must have slice size 1",
    )
    theirs = ax.check_shape(theirs, f"lax.{name}")
    need(
        _are_axes(theirs, depth)
        and [shape[a] for a in ours] == [starts.shape[a] for a in theirs]
        and len({*gone}) == len(gone)
        and not {*first} & {*ours},
        f"the batching dims {ours} of shape {shape} and {theirs} of the indices of "
        f"shape {starts.shape} must be different axes of the same sizes, and none of "
        f"the starts, {first}, or of the windows of one element, {squeezed}",
    )
    need(
        all(0 <= n <= m for n, m in zip(sizes, shape, strict=True)),
        f"the windows, of shape {sizes}, must fit the array of shape {shape}",
    )
    pairs = tuple(zip(ours, theirs, strict=True))
    return Windows(shape, sizes, first, pairs, gone), through


def _check_updates(
    name: str, updates: Shape, batch: Shape, what: str, through: Axes
) -> None:
    """Raises unless updates have the batch of the indices around their windows."""
    need = partial(_require, name)
    need(
        len(updates) == len(batch) + len(through),
        f"updates of shape {updates} must have the {len(batch)} axes of the indices "
        f"and the axes {what} {through}",
    )
    around = tuple(n for a, n in enumerate(updates) if a not in through)
    need(
        around == batch,
        f"updates of shape {updates} have, without {what} {through}, the shape "
        f"{around}; required is that of the indices, {batch}",
    )


def _are_axes(axes: Sequence[int], ndim: int) -> bool:
    return len(set(axes)) == len(axes) and all(0 <= a < ndim for a in axes)


def _find_positions(
    windows: Windows, starts: Any, mode: GatherScatterMode, writing: bool
) -> Positions:
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
        start = ax.shrink_axis(starts, len(batch), number, number + 1)
        start = _make_signed(ax.reshape(start, batch), windows.shape[axis])
        if drops:
            here = (start >= 0) & (start <= last)
            inside = here if inside is None else inside & here
        if last:
            at[axis] = logic.minimum(logic.maximum(start, 0), last)
    for axis, place in windows.paired:
        at[axis] = ax.iota(dtypes.int32, batch, place)
    if writing:
        pairs = zip(windows.sizes, windows.shape, strict=True)
        parts = [a for a, (size, whole) in enumerate(pairs) if size != whole]
        for axis in parts or ([] if at else [0]):
            at.setdefault(axis, ax.full(batch, 0, dtypes.int32))
    axes = tuple(sorted(at))
    shape = (*batch, *[windows.sizes[a] for a in axes])
    common = _widest([at[a].dtype for a in axes])
    indices = [
        _window_index(ax.cast(at[a], common), shape, len(batch) + i)
        for i, a in enumerate(axes)
    ]
    return Positions(axes, tuple(indices), inside)


def _widest(found: Sequence[Any]) -> Any:
    return max(found, key=lambda dtype: dtype.itemsize, default=dtypes.int32)


def _make_signed(start: Any, size: int) -> Any:
    """A start in a signed dtype that holds the size of its axis."""
    unsigned = dtypes.kind(start.dtype) == "u"
    if unsigned and dtypes.limits(start.dtype)[1] > size:
        start = logic.minimum(start, size)  # which is out of bounds, too
    wide = dtypes.int32 if unsigned or start.dtype.itemsize < 4 else start.dtype
    return ax.cast(start, wide if surely_less(size, 2**31) else dtypes.int64)


def _window_index(start: Any, shape: Shape, axis: int) -> Any:
    """start + position along one axis of a shape that begins with start's."""
    lined = _expand(start, shape)
    if shape[axis] == 1:
        return lined
    return lined + ax.iota(start.dtype, shape, axis)


def _only_inside(found: Positions) -> tuple[Any, ...]:
    """The indices, of which one is -1 throughout each window that is out of bounds."""
    if found.inside is None:
        return found.indices
    first, *others = found.indices
    return (ax.choose(_expand(found.inside, first.shape), first, -1), *others)


def _expand(mask: Any, shape: Shape) -> Any:
    """A value with more axes at the end, to a shape."""
    mask = ax.reshape(mask, mask.shape + (1,) * (len(shape) - mask.ndim))
    return ax.expand(mask, shape)


# Reading and writing them.


def gather(
    operand: Value,
    start_indices: Value,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: str | GatherScatterMode | None = None,
    fill_value: Any = None,
) -> Any:
    """Windows of `operand` at computed starts. Negative starts are out of bounds.

    Args:
      operand: the array.
      start_indices: integers, whose last axis holds the components of each start.
      dimension_numbers: which axis is what.
      slice_sizes: the shape of each window, before it loses axes.
      unique_indices, indices_are_sorted: accepted; nothing depends on them.
      mode: for windows that are not wholly in bounds: "clip" and "promise_in_bounds"
        (the default) move them inside, "fill" gives the fill value throughout.
      fill_value: by default NaN, the least integer, the greatest (if unsigned), True.

    Returns:
      the axes of the windows at `offset_dims`, and around them, in order, the axes of
      `start_indices` but the last.

    Raises:
      ShapeError: the dimension numbers do not fit the shapes or each other.
      DtypeError: the starts are no integers.
      ValueRangeError: there is no such mode.

    Example:
      >>> x = fnp.array([[1, 2, 3], [4, 5, 6]])
      >>> rows = lax.GatherDimensionNumbers(
      ...     offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
      >>> lax.gather(x, fnp.array([[1], [0], [1]]), rows, slice_sizes=(1, 3))
      Array([[4, 5, 6],
             [1, 2, 3],
             [4, 5, 6]], dtype=int32)
    """
    x, starts = ax.as_value(operand), check_starts("gather", start_indices)
    sizes = ax.check_shape(slice_sizes, "lax.gather: slice_sizes")
    windows, offsets = check_windows(
        "gather", x.shape, starts, dimension_numbers, sizes
    )
    how = mode_of("promise_in_bounds" if mode is None else mode)
    batch = starts.shape[:-1]
    order = result_order(windows, offsets, len(batch))
    whole = (*batch, *sizes)
    result_shape = tuple(whole[place] for place in order)
    if 0 in result_shape:
        return ax.full(result_shape, 0, x.dtype, x.weak_type)
    found = _find_positions(windows, starts, how, writing=False)
    parts = _take_windows(x, windows, found, batch)  # batch + the operand's axes
    if found.inside is not None:
        fill = default_fill(x.dtype) if fill_value is None else fill_value
        mask = _expand(found.inside, (*batch, *[1] * x.ndim))
        parts = ax.choose(mask, parts, ax.cast(fill, x.dtype))
    dropped = tuple(len(batch) + a for a in windows.squeezed)
    return ax.reshape(ax.permute(parts, (*order, *dropped)), result_shape)


def result_order(windows: Windows, offsets: Sequence[int], depth: int) -> list[int]:
    """For each axis of the result, where it stands in batch + the operand's axes."""
    through = iter(windows.window_axes)
    around = iter(range(depth))
    count = depth + len(windows.window_axes)
    return [depth + next(through) if i in offsets else next(around)
            for i in range(count)]  # fmt: skip


def _take_windows(x: Any, windows: Windows, found: Positions, batch: Shape) -> Any:
    """The windows: the batch, and then the axes of the operand."""
    depth = len(batch)
    bounds = [
        (0, x.shape[a] if a in found.axes else windows.sizes[a]) for a in range(x.ndim)
    ]
    region = ax.shrink(x, tuple(bounds))
    if not found.axes:
        return ax.broadcast_to(region, (*batch, *region.shape))
    parts = bind(gather_p, region, *found.indices, arg=found.axes)
    others = [a for a in range(x.ndim) if a not in found.axes]
    behind = [*found.axes, *others]
    return ax.permute(
        parts, (*range(depth), *[depth + behind.index(a) for a in range(x.ndim)])
    )


def index_take(src: Value, idxs: Any, axes: Sequence[int]) -> Any:
    """The elements at several indices at once, one per axis; they count modulo it.

    Args:
      src: the array.
      idxs: one vector of integers per axis.
      axes: the axes that are indexed.

    Returns:
      the vectors' axis, then the axes of `src` that are not indexed.

    Raises:
      ShapeError: the vectors differ in size, or are not as many as axes.

    Example:
      >>> x = fnp.array([[1, 2, 3], [4, 5, 6]])
      >>> lax.index_take(x, (fnp.array([0, 1]), fnp.array([2, 0])), (0, 1))
      Array([3, 4], dtype=int32)
    """
    x = ax.as_value(src)
    vectors = [ax.integers(i, "lax.index_take: indices") for i in idxs]
    found = tuple(ax.canonical_axis(a, x.ndim, "lax.index_take") for a in axes)
    if len(vectors) != len(found) or len({v.shape for v in vectors}) > 1:
        raise ShapeError(
            f"lax.index_take: one vector per axis of {tuple(axes)}, all of one size, "
            f"are required, got shapes {[v.shape for v in vectors]}"
        )
    sizes = [x.shape[a] for a in found]
    pairs = sorted(zip(found, vectors, sizes, strict=True), key=lambda row: row[0])
    indices = [remainder(widen(v, n), n) for _, v, n in pairs]
    common = _widest([i.dtype for i in indices])
    return bind(
        gather_p, x, *[ax.cast(i, common) for i in indices], arg=tuple(sorted(found))
    )


def _scatter(name: str, kind: str, negated: bool = False):
    def scatter(
        operand: Value,
        scatter_indices: Value,
        updates: Value,
        dimension_numbers: ScatterDimensionNumbers,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
    ) -> Any:
        """Windows at computed starts, combined with what stands there.

        Args:
          operand: the array.
          scatter_indices: integers, whose last axis holds the components of each start;
            negative ones are out of bounds.
          updates: the windows, of the dtype of the operand: the axes of the starts but
            the last, in order, around the axes `update_window_dims`.
          dimension_numbers: which axis is what: `ScatterDimensionNumbers`.
          indices_are_sorted, unique_indices: accepted; nothing depends on them.
          mode: for windows that are not wholly in bounds: "drop" (the default) leaves
            them out, "clip" and "promise_in_bounds" move them inside.

        Raises:
          ShapeError: the dimension numbers do not fit the shapes or each other.
          DtypeError: the starts are no integers, or the updates of another dtype.
        """
        new = ew.negative(ax.as_value(updates)) if negated else updates
        check_dtypes(name, operand, new)
        x, numbers = _with_an_axis(operand, dimension_numbers)
        starts = check_starts(name, scatter_indices)
        new = ax.cast(new, x.dtype)
        windows, through = check_windows(
            name, x.shape, starts, numbers, None, new.shape
        )
        if new.size and x.size:
            found = _find_positions(windows, starts, mode_of(mode), writing=True)
            new = _order_updates(new, windows, found, through, starts.ndim - 1)
            inside = _only_inside(found)
            x = bind(scatter_p, x, new, *inside, arg=(found.axes, kind))
        return ax.reshape(x, aval_of(operand).shape)

    return scatter


@member(_scatter, "set")
def scatter():
    """`operand` with windows of `updates` set at computed starts.

    Where windows overlap, the last one in row-major order stands.

    Example:
      >>> one_axis = lax.ScatterDimensionNumbers(
      ...     update_window_dims=(), inserted_window_dims=(0,),
      ...     scatter_dims_to_operand_dims=(0,))
      >>> at, updates = fnp.array([[3], [0]]), fnp.array([7.0, 8.0])
      >>> lax.scatter(fnp.zeros(4), at, updates, one_axis)
      Array([8., 0., 0., 7.], dtype=float32)
    """


@member(_scatter, "add")
def scatter_add():
    """`operand` with windows of `updates` added at computed starts.

    What several windows hit gets all of them.

    Example:
      >>> one_axis = lax.ScatterDimensionNumbers(
      ...     update_window_dims=(), inserted_window_dims=(0,),
      ...     scatter_dims_to_operand_dims=(0,))
      >>> at = fnp.array([[1], [1], [2]])
      >>> lax.scatter_add(fnp.zeros(3), at, fnp.array([1.0, 10.0, 5.0]), one_axis)
      Array([ 0., 11.,  5.], dtype=float32)
    """


@member(_scatter, "add", negated=True)
def scatter_sub():
    """`operand` with windows of `updates` subtracted at computed starts.

    Example:
      >>> one_axis = lax.ScatterDimensionNumbers(
      ...     update_window_dims=(), inserted_window_dims=(0,),
      ...     scatter_dims_to_operand_dims=(0,))
      >>> lax.scatter_sub(fnp.ones(2), fnp.array([[1]]), fnp.array([3.0]), one_axis)
      Array([ 1., -2.], dtype=float32)
    """


@member(_scatter, "mul")
def scatter_mul():
    """`operand` multiplied by windows of `updates` at computed starts.

    It has a derivative also where windows overlap.

    Example:
      >>> one_axis = lax.ScatterDimensionNumbers(
      ...     update_window_dims=(), inserted_window_dims=(0,),
      ...     scatter_dims_to_operand_dims=(0,))
      >>> at = fnp.array([[1], [1]])
      >>> lax.scatter_mul(fnp.ones(3), at, fnp.array([2.0, 3.0]), one_axis)
      Array([1., 6., 1.], dtype=float32)
    """


@member(_scatter, "min")
def scatter_min():
    """The lesser of `operand` and windows of `updates` at computed starts.

    Where several hold the least, each has the same share in the derivative.

    Example:
      >>> one_axis = lax.ScatterDimensionNumbers(
      ...     update_window_dims=(), inserted_window_dims=(0,),
      ...     scatter_dims_to_operand_dims=(0,))
      >>> lax.scatter_min(fnp.zeros(3), fnp.array([[1]]), fnp.array([-3.0]), one_axis)
      Array([ 0., -3.,  0.], dtype=float32)
    """


@member(_scatter, "max")
def scatter_max():
    """The greater of `operand` and windows of `updates` at computed starts.

    Where several hold the greatest, each has the same share in the derivative.

    Example:
      >>> one_axis = lax.ScatterDimensionNumbers(
      ...     update_window_dims=(), inserted_window_dims=(0,),
      ...     scatter_dims_to_operand_dims=(0,))
      >>> at = fnp.array([[1], [1]])
      >>> lax.scatter_max(fnp.zeros(3), at, fnp.array([2.0, -3.0]), one_axis)
      Array([0., 2., 0.], dtype=float32)
    """


def scatter_apply(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    func: Callable[[Any], Any],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: Sequence[int] = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Any:
    """`operand` with an elementwise function applied to windows at computed starts.

    Args:
      operand: the array.
      scatter_indices: as in `scatter`.
      func: is called with the elements of all windows, again for those that several
        windows have, as often as they do.
      dimension_numbers: which axis is what.
      update_shape: the shape that the updates of a `scatter` would have.
      unique_indices: no element is in two windows: `func` is called once.
      indices_are_sorted, mode: as in `scatter`.

    Raises:
      ShapeError: as `scatter`, or `func` gives another shape.

    Example:
      >>> dims = lax.ScatterDimensionNumbers((), (0,), (0,))
      >>> x, at = fnp.array([1.0, 4.0]), fnp.array([[1]])
      >>> lax.scatter_apply(x, at, fnp.sqrt, dims, update_shape=(1,))
      Array([1., 2.], dtype=float32)
    """
    x, numbers = _with_an_axis(operand, dimension_numbers)
    starts = check_starts("scatter_apply", scatter_indices)
    shape = ax.check_shape(update_shape, "lax.scatter_apply: update_shape")
    windows, _ = check_windows("scatter_apply", x.shape, starts, numbers, None, shape)
    if 0 in shape or x.size == 0:
        return ax.as_value(operand)
    found = _find_positions(windows, starts, mode_of(mode), writing=True)
    old = bind(gather_p, x, *found.indices, arg=found.axes)
    inside = _only_inside(found)
    repeats: Any = np.ones(old.shape, np.int32)
    if not unique_indices:
        counts = ax.full(x.shape, 0, dtypes.int32)
        counts = bind(scatter_p, counts, repeats, *inside, arg=(found.axes, "add"))
        repeats = bind(gather_p, counts, *found.indices, arg=found.axes)

    new = apply_repeatedly("lax.scatter_apply", func, old, repeats)
    result = bind(scatter_p, x, new, *inside, arg=(found.axes, "set"))
    return ax.reshape(result, aval_of(operand).shape)


def _with_an_axis(
    operand: Value, numbers: ScatterDimensionNumbers
) -> tuple[Any, ScatterDimensionNumbers]:
    """A scalar as a vector, whose axis windows do not have."""
    x = ax.as_value(operand)
    if x.ndim:
        return x, numbers
    inserted = (*numbers.inserted_window_dims, 0)
    return ax.reshape(x, (1,)), numbers._replace(inserted_window_dims=inserted)


def _order_updates(
    updates: Any, windows: Windows, found: Positions, through: Sequence[int], depth: int
) -> Any:
    """The updates as batch, windows of the indexed axes, other axes."""
    around = [a for a in range(updates.ndim) if a not in through]
    source = dict(zip(windows.window_axes, through, strict=True))
    others = [a for a in range(len(windows.shape)) if a not in found.axes]
    behind = [*found.axes, *others]
    moved = ax.permute(updates, (*around, *[source[a] for a in behind if a in source]))
    return ax.reshape(
        moved, (*moved.shape[:depth], *[windows.sizes[a] for a in behind])
    )
