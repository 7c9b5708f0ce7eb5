"""Elements taken from and put at indices: take, choose, compress and their kin."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import (
    DtypeError,
    IndexBoundsError,
    ShapeError,
    ValueRangeError,
    one_of,
)
from ftrace.numpy import axes
from ftrace.numpy.arithmetic import remainder
from ftrace.numpy.at import update
from ftrace.numpy.editing import along
from ftrace.numpy.elementwise import equal, truth, values_together
from ftrace.numpy.indexing import check_mode, read_at, widened
from ftrace.numpy.searching import nonzero
from ftrace.numpy.selection import clip
from ftrace.numpy.shape import ravel
from ftrace.numpy.types import is_sequence
from ftrace.trace.tracing.tracer import Tracer, Value, unbound_variable

__all__ = [
    "choose", "compress", "extract", "fill_diagonal", "place", "put",
    "put_along_axis", "take", "take_along_axis",
]  # fmt: skip


def take(
    a: Value,
    indices: Value,
    axis: int | None = None,
    out: None = None,
    mode: str | None = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: Any = None,
) -> Any:
    """The elements at integer indices along an axis, or of the flattened array.

    Args:
      a: the array.
      indices: integers of any shape, which takes the place of the axis.
      axis: None counts in the flattened array.
      out: not supported.
      mode: for indices out of bounds: "fill" (the default for traced ones), "clip",
        "wrap".
      unique_indices, indices_are_sorted: accepted; nothing depends on them.
      fill_value: for "fill"; by default NaN, or the least integer.

    Raises:
      IndexBoundsError: without a mode, a known index is out of bounds.
    """
    axes.no_out("take", out)
    x, axis = axes.flattened(a, axis, "take")
    if not is_sequence(indices):
        indices = axes.as_value(indices)
        if dtypes.kind(indices.dtype) == "b":  # numbers, and no mask
            indices = axes.cast(indices, dtypes.int32)
    before = (slice(None),) * axis
    if mode in ("wrap", "clip"):
        if x.shape[axis] == 0:
            raise IndexBoundsError(f"take: axis {axis} of shape {x.shape} is empty")
        return read_at(
            x, (*before, _in_range(axes.as_value(indices), x.shape[axis], mode))
        )
    return _filled_read(x, (*before, indices), check_mode("take", mode), fill_value)


def _in_range(indices: Any, size: int, mode: str) -> Any:
    """Indices wrapped around, or clipped to, an axis."""
    at = widened(indices, size)
    return remainder(at, size) if mode == "wrap" else clip(at, 0, size - 1)


def _filled_read(
    x: Any, index: Any, mode: str | None, fill_value: Any, wrap: bool = True
) -> Any:
    """Reads; out of bounds raises where all is known, else it is the fill value."""
    traced = isinstance(x, Tracer) or any(isinstance(p, Tracer) for p in index)
    mode = "fill" if traced and mode is None else mode
    return read_at(x, index, mode, fill_value, wrap)


def _along_axis(name: str, x: Any, indices: Any, axis: int) -> tuple[Any, ...]:
    """An index tuple that pairs each index with its own place on the other axes."""
    if indices.ndim != x.ndim:
        raise ShapeError(
            f"{name}: the indices, of shape {indices.shape}, must have as many axes as "
            f"the array, of shape {x.shape}"
        )
    index: list[Any] = []
    for place, size in enumerate(x.shape):
        line = tuple(size if a == place else 1 for a in range(x.ndim))
        index.append(indices if place == axis else axes.iota(dtypes.int32, line, place))
    return tuple(index)


def take_along_axis(
    arr: Value,
    indices: Value,
    axis: int | None = -1,
    mode: str | None = None,
    fill_value: Any = None,
    *,
    wrap_negative_indices: bool | None = None,
) -> Any:
    """For every place of `indices`, the element of `arr` in the same lane.

    Negative indices count from the end, unless `wrap_negative_indices` is False.

    Raises:
      ShapeError: the two differ in rank, or do not broadcast.
      IndexBoundsError: without a mode, a known index is out of bounds.
    """
    x, axis = axes.flattened(arr, axis, "take_along_axis")
    indices = axes.as_value(indices)
    index = _along_axis("take_along_axis", x, indices, axis)
    mode = check_mode("take_along_axis", mode)
    wrap = wrap_negative_indices is not False
    return _filled_read(x, index, mode, fill_value, wrap)


def _not_in_place(name: str, inplace: bool) -> None:
    if inplace:
        raise ValueRangeError(
            f"{name}: arrays are immutable; write inplace=False and use the result"
        )


def put_along_axis(
    arr: Value,
    indices: Value,
    values: Value,
    axis: int | None,
    inplace: bool = True,
    *,
    mode: str | None = None,
) -> Any:
    """A copy of `arr` with `values` at the indices, lane by lane; `inplace=False`.

    Raises:
      ValueRangeError: `inplace` is not False.
    """
    _not_in_place("put_along_axis", inplace)
    x, indices = axes.as_value(arr), axes.as_value(indices)
    if axis is None:
        flat = put_along_axis(ravel(x), indices, values, 0, False, mode=mode)
        return axes.reshape(flat, x.shape)
    axis = axes.canonical_axis(axis, x.ndim, "put_along_axis")
    index = _along_axis("put_along_axis", x, indices, axis)
    values = axes.cast(values, x.dtype)
    return update(x, index, values, "set", check_mode("put_along_axis", mode))


def put(
    a: Value, ind: Value, v: Value, mode: str | None = None, *, inplace: bool = True
) -> Any:
    """A copy of `a` with values at indices of the flattened array; `inplace=False`.

    Raises:
      ValueRangeError: `inplace` is not False.
    """
    _not_in_place("put", inplace)
    x, indices = axes.as_value(a), ravel(axes.as_value(ind))
    if dtypes.kind(indices.dtype) == "b":  # numbers, and no mask
        indices = axes.cast(indices, dtypes.int32)
    values = ravel(axes.cast(v, x.dtype))
    if indices.size == 0 or values.size == 0:
        return x
    values = along(values, np.arange(indices.size) % values.size, 0)
    if mode in ("wrap", "clip"):
        indices, mode = _in_range(indices, x.size, mode), None
    values = axes.cast(values, x.dtype)
    return axes.reshape(
        update(ravel(x), indices, values, "set", check_mode("put", mode)), x.shape
    )


def place(arr: Value, mask: Value, vals: Value, *, inplace: bool = True) -> Any:
    """A copy of `arr` with the values, in turn, where the mask holds; `inplace=False`.

    Raises:
      ValueRangeError: `inplace` is not False, or there are no values.
      ShapeError: the mask has another number of elements.
    """
    _not_in_place("place", inplace)
    x = axes.as_value(arr)
    values = ravel(axes.cast(vals, x.dtype))
    if values.size == 0:
        raise ValueRangeError("place: there must be at least one value")
    flags = ravel(truth(mask))
    if flags.size != x.size:
        raise ShapeError(
            f"place: the array and the mask must have as many elements, got {x.size} "
            f"and {flags.size}"
        )
    (found,) = nonzero(flags, size=_traced_size(flags), fill_value=x.size)
    values = along(values, np.arange(found.shape[0]) % values.size, 0)
    mode = "drop" if isinstance(found, Tracer) else None
    return axes.reshape(
        update(ravel(x), found, axes.cast(values, x.dtype), "set", mode), x.shape
    )


def _traced_size(flags: Any) -> int | None:
    traced = isinstance(flags, Tracer) and unbound_variable(flags.node) is not None
    return flags.shape[0] if traced else None


def choose(
    a: Value, choices: Sequence[Value] | Value, out: None = None, mode: str = "raise"
) -> Any:
    """At each place the element of `choices[a]`, all broadcast together.

    Raises:
      DtypeError: the indices are no integers.
      IndexBoundsError: with mode "raise", an index has no choice.
      ConcretizationTypeError: with mode "raise", the indices are traced.
    """
    axes.no_out("choose", out)
    indices = axes.as_value(a)
    if not (dtypes.is_integer(indices.dtype) or indices.dtype == dtypes.bool_):
        got = indices.dtype.name
        raise DtypeError(f"choose: the indices must be integers, got {got}; cast them")
    parts: Any = choices if is_sequence(choices) else list(axes.as_value(choices))
    options = values_together(parts)
    count = len(options)
    if count == 0:
        raise ValueRangeError("choose: there must be at least one choice")
    one_of("choose: mode", mode, ("raise", "wrap", "clip"))
    if mode != "raise":
        indices = _in_range(indices, count, mode)
    elif not are_inside(np.asarray(indices), count):
        raise IndexBoundsError(f"choose: an index is not from 0 to {count - 1}")
    result = options[-1]
    for number in reversed(range(count - 1)):
        result = axes.choose(equal(indices, number), options[number], result)
    shape = axes.broadcast_shapes("choose", [indices.shape, result.shape])
    return axes.broadcast_to(result, shape)


def compress(
    condition: Value,
    a: Value,
    axis: int | None = None,
    *,
    size: int | None = None,
    fill_value: Value = 0,
    out: None = None,
) -> Any:
    """The slices along an axis, or elements, for which the condition holds.

    Args:
      condition: a vector of bools, no longer than the axis.
      a: the array.
      axis: None takes the flattened array.
      size: how many are returned, required where the condition is traced.
      fill_value: what stands where fewer hold.
      out: not supported.

    Raises:
      NonConcreteBooleanIndexError: the condition is traced, and `size` is not given.
      IndexBoundsError: it holds beyond the end of the axis.
    """
    axes.no_out("compress", out)
    x, axis = axes.flattened(a, axis, "compress")
    flags = axes.vector(truth(condition), "compress: the condition")
    length = x.shape[axis]
    (found,) = nonzero(flags, size=size, fill_value=length)
    if size is None:
        last = int(found[-1]) if found.size else -1
        if last >= length:
            raise IndexBoundsError(
                f"compress: the condition holds at {last}, beyond the axis of size "
                f"{length}"
            )
        return along(x, found, axis)
    before = (slice(None),) * axis
    return read_at(x, (*before, found), "fill", fill_value)


def are_inside(x: Any, count: int) -> bool:
    """Are all places of an axis of so many?"""
    return not x.size or bool(x.min() >= 0 and x.max() < count)


def extract(
    condition: Value, arr: Value, *, size: int | None = None, fill_value: Value = 0
) -> Any:
    """The elements for which the condition holds, as a vector."""
    return compress(ravel(condition), ravel(arr), size=size, fill_value=fill_value)


def fill_diagonal(
    a: Value, val: Value, wrap: bool = False, *, inplace: bool = True
) -> Any:
    """A copy of `a` with `val` on its main diagonal; `inplace=False`.

    Raises:
      ShapeError: there are fewer than two axes, or more and they differ.
      ValueRangeError: `inplace` is not False.
    """
    _not_in_place("fill_diagonal", inplace)
    x = axes.as_value(a)
    if x.ndim < 2 or (x.ndim > 2 and len(set(x.shape)) > 1):
        raise ShapeError(
            f"fill_diagonal takes a matrix, or more axes of one size; got {x.shape}"
        )
    # One step along every axis at once.
    step = sum(prod(x.shape[i:]) for i in range(1, x.ndim + 1))
    end = x.size if wrap or x.ndim > 2 else min(x.size, x.shape[1] * x.shape[1])
    values = ravel(axes.cast(val, x.dtype))
    places = slice(0, end, step)
    count = len(range(end)[places])
    values = along(values, np.arange(count) % values.size, 0)
    return axes.reshape(update(ravel(x), places, values, "set", None), x.shape)
