"""`lax.gather`: windows of an array, at starts that are computed.

found = gather_p along the indexed axes        batch, windows, other axes
y     = where(window in bounds, found, fill)   axes moved to their places
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ftrace import dtypes
from ftrace.errors import DtypeError, ShapeError
from ftrace.lax.options import GatherScatterMode
from ftrace.lax.starts import (
    Places,
    Windows,
    check_axes,
    check_starts,
    check_windows,
    mode_of,
    places,
    require,
    spread,
)
from ftrace.numpy import axes as moves
from ftrace.numpy.arithmetic import remainder
from ftrace.numpy.axes import (
    as_value,
    canonical_axis,
    cast,
    check_shape,
    choose,
    full,
    reshape,
)
from ftrace.numpy.bounds import default_fill, widened
from ftrace.records import NamedTuple
from ftrace.trace.avals import Shape
from ftrace.trace.operations import bind
from ftrace.trace.primitives.indexing import gather_p
from ftrace.trace.tracer import Value

__all__ = ["GatherDimensionNumbers", "gather", "index_take"]


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
    """
    x, starts = as_value(operand), check_starts("gather", start_indices)
    sizes = check_shape(tuple(slice_sizes), "lax.gather: slice_sizes")
    windows, offsets = _checked(x, starts, dimension_numbers, sizes)
    how = mode_of("promise_in_bounds" if mode is None else mode)
    batch = starts.shape[:-1]
    order = _result_order(windows, offsets, len(batch))
    whole = (*batch, *sizes)
    result_shape = tuple(whole[place] for place in order)
    if 0 in result_shape:
        return full(result_shape, 0, x.dtype, x.weak_type)
    found = places(windows, starts, how, writing=False)
    parts = _parts(x, windows, found, batch)  # batch + the operand's axes
    if found.inside is not None:
        fill = default_fill(x.dtype) if fill_value is None else fill_value
        parts = choose(
            spread(found.inside, (*batch, *[1] * x.ndim)),
            parts,
            cast(fill, x.dtype),
        )
    dropped = tuple(len(batch) + a for a in windows.squeezed)
    return reshape(moves.permute(parts, (*order, *dropped)), result_shape)


def _checked(
    x: Any, starts: Any, numbers: GatherDimensionNumbers, sizes: Shape
) -> tuple[Windows, tuple[int, ...]]:
    name = "gather"
    require(
        len(sizes) == x.ndim,
        name,
        f"slice_sizes {sizes} must have one size per axis of shape {x.shape}",
    )
    collapsed = check_axes(
        name, "collapsed_slice_dims", numbers.collapsed_slice_dims, x.ndim
    )
    windows = check_windows(
        name, x.shape, sizes, starts, numbers.start_index_map,
        numbers.operand_batching_dims, numbers.start_indices_batching_dims, collapsed,
    )  # fmt: skip
    require(
        all(sizes[a] <= 1 for a in windows.squeezed),
        name,
        f"the axes {windows.squeezed}, which the windows lose, must have slice size 1, "
        f"got slice_sizes {sizes}",
    )
    count = len(windows.kept)
    offsets = check_axes(
        name, "offset_dims", numbers.offset_dims, starts.ndim - 1 + count
    )
    require(
        len(offsets) == count,
        name,
        f"offset_dims {offsets} must name one axis of the result for each of the axes "
        f"{windows.kept} of the windows",
    )
    return windows, offsets


def _result_order(windows: Windows, offsets: Sequence[int], depth: int) -> list[int]:
    """For each axis of the result, where it stands in batch + the operand's axes."""
    through = iter(windows.kept)
    around = iter(range(depth))
    count = depth + len(windows.kept)
    return [depth + next(through) if i in offsets else next(around)
            for i in range(count)]  # fmt: skip


def _parts(x: Any, windows: Windows, found: Places, batch: Shape) -> Any:
    """The windows: the batch, and then the axes of the operand."""
    depth = len(batch)
    bounds = [
        (0, x.shape[a] if a in found.axes else windows.sizes[a]) for a in range(x.ndim)
    ]
    region = moves.shrink(x, tuple(bounds))
    if not found.axes:
        return moves.broadcast_to(region, (*batch, *region.shape))
    parts = bind(gather_p, region, *found.indices, arg=found.axes)
    others = [a for a in range(x.ndim) if a not in found.axes]
    behind = [*found.axes, *others]
    return moves.permute(
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
    """
    x = as_value(src)
    vectors = [as_value(i) for i in idxs]
    found = tuple(canonical_axis(a, x.ndim, "lax.index_take") for a in axes)
    if len(vectors) != len(found) or len({v.shape for v in vectors}) > 1:
        raise ShapeError(
            f"lax.index_take: one vector per axis of {tuple(axes)}, all of one size, "
            f"are required, got shapes {[v.shape for v in vectors]}"
        )
    if any(not dtypes.is_integer(v.dtype) for v in vectors):
        names = [v.dtype.name for v in vectors]
        raise DtypeError(f"lax.index_take: indices must be integers, got {names}")
    sizes = [x.shape[a] for a in found]
    pairs = sorted(zip(found, vectors, sizes, strict=True), key=lambda row: row[0])
    indices = [remainder(widened(v, n), n) for _, v, n in pairs]
    common = max((i.dtype for i in indices), key=lambda d: d.itemsize)
    return bind(
        gather_p, x, *[cast(i, common) for i in indices], arg=tuple(sorted(found))
    )
