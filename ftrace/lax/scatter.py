"""`lax.scatter` and its kin: windows of an array changed, at starts that are computed.

updates = batch, windows along the indexed axes, other axes
y       = scatter_p(operand, updates, indices);  windows out of bounds get index -1
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ftrace import dtypes
from ftrace.errors import ShapeError
from ftrace.lax.elementwise import check_dtypes
from ftrace.lax.options import GatherScatterMode
from ftrace.lax.starts import (
    Places,
    Windows,
    check_axes,
    check_starts,
    check_windows,
    mode_of,
    only_inside,
    places,
    require,
    with_axis,
)
from ftrace.numpy import axes as moves
from ftrace.numpy.axes import as_value, cast, check_shape, reshape
from ftrace.numpy.elementwise import negative
from ftrace.records import NamedTuple
from ftrace.trace.eager import member
from ftrace.trace.operations import bind
from ftrace.trace.primitives.indexing import gather_p, scatter_p
from ftrace.trace.tracer import Value

__all__ = [
    "ScatterDimensionNumbers", "scatter", "scatter_add", "scatter_apply",
    "scatter_max", "scatter_min", "scatter_mul", "scatter_sub",
]  # fmt: skip


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
        new = negative(as_value(updates)) if negated else updates
        check_dtypes(name, operand, new)
        x, starts = as_value(operand), check_starts(name, scatter_indices)
        new = cast(new, x.dtype)
        windows, through = _checked(name, x, starts, new.shape, dimension_numbers)
        if new.size == 0 or x.size == 0:
            return x
        x, found, inner = _at_places(x, windows, starts, mode)
        new = _ordered_updates(new, inner, found, through, starts.ndim - 1)
        result = bind(scatter_p, x, new, *only_inside(found), arg=(found.axes, kind))
        return reshape(result, windows.shape)

    return scatter


@member(_scatter, "set")
def scatter():
    """`operand` with windows of `updates` set at computed starts.

    Where windows overlap, the last one in row-major order stands.

    Args:
      operand: the array.
      scatter_indices: integers, whose last axis holds the components of each start;
        negative ones are out of bounds.
      updates: the windows, of the dtype of the operand: the axes of the starts but the
        last, in order, around the axes `update_window_dims`.
      dimension_numbers: which axis is what.
      indices_are_sorted, unique_indices: accepted; nothing depends on them.
      mode: for windows that are not wholly in bounds: "drop" (the default) leaves them
        out, "clip" and "promise_in_bounds" move them inside.

    Raises:
      ShapeError: the dimension numbers do not fit the shapes or each other.
      DtypeError: the starts are no integers, or the updates of another dtype.
    """


@member(_scatter, "add")
def scatter_add():
    """`operand` with windows added; arguments and errors as in `scatter`."""


@member(_scatter, "add", negated=True)
def scatter_sub():
    """`operand` with windows subtracted; arguments and errors as in `scatter`."""


@member(_scatter, "mul")
def scatter_mul():
    """`operand` multiplied by windows; arguments and errors as in `scatter`.

    It has a derivative also where windows overlap.
    """


@member(_scatter, "min")
def scatter_min():
    """The lesser of `operand` and windows; arguments and errors as in `scatter`.

    Where several hold the least, each has the same share in the derivative.
    """


@member(_scatter, "max")
def scatter_max():
    """The greater of `operand` and windows; arguments and errors as in `scatter`.

    Where several hold the greatest, each has the same share in the derivative.
    """


def scatter_apply(
    operand: Value,
    scatter_indices: Value,
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
      func: is called once, with the elements of all windows; an element of several
        windows is changed once.
      dimension_numbers: which axis is what.
      update_shape: the shape that the updates of a `scatter` would have.
      indices_are_sorted, unique_indices, mode: as in `scatter`.

    Raises:
      ShapeError: as `scatter`, or `func` gives another shape.
    """
    x, starts = as_value(operand), check_starts("scatter_apply", scatter_indices)
    shape = check_shape(tuple(update_shape), "lax.scatter_apply: update_shape")
    windows, _ = _checked("scatter_apply", x, starts, shape, dimension_numbers)
    if 0 in shape or x.size == 0:
        return x
    x, found, _ = _at_places(x, windows, starts, mode)
    old = bind(gather_p, x, *found.indices, arg=found.axes)
    new = as_value(func(old))
    if new.shape != old.shape:
        raise ShapeError(
            f"lax.scatter_apply: the function must keep the shape {old.shape}, it gave "
            f"{new.shape}"
        )
    updates = cast(new, x.dtype)
    result = bind(scatter_p, x, updates, *only_inside(found), arg=(found.axes, "set"))
    return reshape(result, windows.shape)


def _checked(
    name: str,
    x: Any,
    starts: Any,
    update_shape: tuple[int, ...],
    numbers: ScatterDimensionNumbers,
) -> tuple[Windows, tuple[int, ...]]:
    """The windows, and the axes of the updates that run through them."""
    depth = starts.ndim - 1
    inserted = check_axes(
        name, "inserted_window_dims", numbers.inserted_window_dims, x.ndim
    )
    through = check_axes(
        name, "update_window_dims", numbers.update_window_dims, len(update_shape)
    )
    gone = {*inserted, *numbers.operand_batching_dims}
    kept = [a for a in range(x.ndim) if a not in gone]
    require(
        len(kept) == len(through) and len(update_shape) == depth + len(through),
        name,
        f"updates of shape {update_shape} must have {depth} axes of the indices, and "
        f"update_window_dims {through} one for each of the axes {tuple(kept)} of the "
        f"windows",
    )
    around = tuple(n for a, n in enumerate(update_shape) if a not in through)
    require(
        around == starts.shape[:-1],
        name,
        f"updates of shape {update_shape} have, without update_window_dims {through}, "
        f"the shape {around}; required is that of the indices, {starts.shape[:-1]}",
    )
    sizes = [1] * x.ndim
    for axis, place in zip(kept, through, strict=True):
        sizes[axis] = update_shape[place]
    windows = check_windows(
        name, x.shape, tuple(sizes), starts, numbers.scatter_dims_to_operand_dims,
        numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, inserted,
    )  # fmt: skip
    return windows, through


def _at_places(
    x: Any, windows: Windows, starts: Any, mode: Any
) -> tuple[Any, Places, Windows]:
    """The operand, the places, and the windows, along at least one indexed axis."""
    found = places(windows, starts, mode_of(mode), writing=True)
    if found.axes:
        return x, found, windows
    # The windows are the whole array: it gets an axis that all of them index at 0.
    inner = with_axis(windows)
    zeros = moves.full((*starts.shape[:-1], 1), 0, dtypes.int32)
    return reshape(x, inner.shape), Places((0,), (zeros,), found.inside), inner


def _ordered_updates(
    updates: Any, windows: Windows, found: Places, through: Sequence[int], depth: int
) -> Any:
    """The updates as batch, windows of the indexed axes, other axes."""
    around = [a for a in range(updates.ndim) if a not in through]
    source = dict(zip(windows.kept, through, strict=True))
    others = [a for a in range(len(windows.shape)) if a not in found.axes]
    behind = [*found.axes, *others]
    moved = moves.permute(
        updates, (*around, *[source[a] for a in behind if a in source])
    )
    return reshape(moved, (*moved.shape[:depth], *[windows.sizes[a] for a in behind]))
