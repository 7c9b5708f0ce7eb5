"""Pad in every mode, and roll.

The modes that repeat elements (edge, reflect, symmetric, wrap) are runs of positions:
each run is a slice, a reversed slice or one element repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast as cast_to

import numpy as np

from ftrace import dtypes
from ftrace.errors import ArgumentError, ShapeError, UnsupportedError, one_of
from ftrace.numpy import axes as ax, logic
from ftrace.numpy.arithmetic import remainder, round as rounded
from ftrace.numpy.distributions import median
from ftrace.numpy.editing import along
from ftrace.numpy.functions import apply_along_axis
from ftrace.numpy.joining import concatenate, split
from ftrace.numpy.new_arrays import linspace
from ftrace.numpy.shape import ravel
from ftrace.trace.eager.checked_calls import without_checks
from ftrace.trace.symbolic import is_dynamic
from ftrace.trace.tracing.tracer import Tracer, Value, aval_of, is_value

__all__ = ["pad", "roll"]

Pairs = list[tuple[Any, Any]]

_OPTIONS: dict[str, tuple[str, ...]] = {
    "constant": ("constant_values",), "linear_ramp": ("end_values",),
    **dict.fromkeys(("edge", "empty", "wrap"), ()),
    **dict.fromkeys(("maximum", "mean", "median", "minimum"), ("stat_length",)),
    **dict.fromkeys(("reflect", "symmetric"), ("reflect_type",)),
}  # fmt: skip


def pad(
    array: Value,
    pad_width: Any,
    mode: str | Callable[..., Any] = "constant",
    **kwargs: Any,
) -> Any:
    """More elements around an array.

    Args:
      array: the array.
      pad_width: how many before and after: a number, a pair, a pair per axis, or a
        dictionary from axes to numbers or pairs.
      mode: "constant", "edge", "empty" (zeros), "linear_ramp", "maximum", "mean",
        "median", "minimum", "reflect", "symmetric", "wrap", or a function
        `f(vector, (before, after), axis, kwargs)` that returns the padded vector.
      **kwargs: `constant_values`, `end_values`, `stat_length`, `reflect_type`, as the
        mode has them.

    Returns:
      An array of the dtype of `array`, longer by the widths.

    Raises:
      ShapeError: the widths do not fit the axes, or an empty axis is to be extended.
      UnsupportedError: there is no such mode.
      ValueRangeError: a width is negative.
      ArgumentError: the mode has no such option.

    Example:
      >>> fnp.pad(fnp.array([1, 2, 3]), (1, 2))
      Array([0, 1, 2, 3, 0, 0], dtype=int32)
      >>> fnp.pad(fnp.array([1, 2, 3]), 2, mode="reflect")
      Array([3, 2, 1, 2, 3, 2, 1], dtype=int32)
      >>> fnp.pad(fnp.array([[1]]), ((0, 1), (2, 0)), constant_values=7)
      Array([[7, 7, 1],
             [7, 7, 7]], dtype=int32)
    """
    x = ax.as_value(array)
    widths = _widths(pad_width, x.ndim)
    if callable(mode):
        x = _pad_constant(x, widths, 0)
        for axis, width in enumerate(widths):
            x = apply_along_axis(mode, axis, x, width, axis, kwargs)
        return x
    one_of("pad: mode", mode, _OPTIONS, UnsupportedError)
    if unknown := sorted(kwargs.keys() - _OPTIONS[mode]):
        raise ArgumentError(f"pad: mode {mode!r} has no option {', '.join(unknown)}")
    if mode == "constant":
        return _pad_constant(x, widths, kwargs.get("constant_values", 0))
    if mode == "empty":
        return _pad_constant(x, widths, 0)
    for axis, (before, after) in enumerate(widths):
        if before + after and x.shape[axis] == 0:
            raise ShapeError(
                f"pad: axis {axis} of an array of shape {x.shape} has no elements to "
                f"extend by mode {mode!r}; use mode='constant'"
            )
    if mode == "linear_ramp":
        ends = _pairs("end_values", kwargs.get("end_values", 0), x.ndim)
        return _pad_between(x, widths, ends, _ramp)
    if mode in _STATISTICS:
        lengths = _pairs("stat_length", kwargs.get("stat_length"), x.ndim)
        return _pad_between(x, widths, lengths, partial(_statistic, mode))
    odd = kwargs.get("reflect_type", "even")
    one_of("pad: reflect_type", odd, ("even", "odd"))
    for axis, (before, after) in enumerate(widths):
        if odd == "odd":
            x = _pad_odd(x, axis, before, after, int(mode == "reflect"))
        elif before + after:
            places: Any = np.arange(x.shape[axis], dtype=np.int64)
            x = _runs(x, axis, np.pad(places, (before, after), cast_to(Any, mode)))
    return x


# Arguments.


def _widths(pad_width: Any, ndim: int) -> list[tuple[int, int]]:
    if hasattr(pad_width, "items"):
        pairs: Pairs = [(0, 0)] * ndim
        for axis, width in pad_width.items():
            place = ax.canonical_axis(axis, ndim, "pad")
            pairs[place] = _pairs("pad_width", width, 1)[0]
    else:
        pairs = _pairs("pad_width", pad_width, ndim)
    return [
        (ax.static_int(lo, "pad: pad_width", 0), ax.static_int(hi, "pad: pad_width", 0))
        for lo, hi in pairs
    ]


def _pairs(what: str, value: Any, ndim: int) -> Pairs:
    """A number, a pair, or a pair per axis, as a pair per axis."""
    if not _has_items(value):
        return [(value, value)] * ndim
    parts = _as_list(value)
    if not any(_has_items(part) for part in parts) and len(parts) in (1, 2):
        return [(parts[0], parts[-1])] * ndim
    rows = [_as_list(part) for part in parts]
    if any(len(row) not in (1, 2) for row in rows) or len(rows) not in (1, ndim):
        raise ShapeError(
            f"pad: {what} {value} does not fit {ndim} axes; give a number, a pair, or "
            "a pair per axis"
        )
    pairs = [(row[0], row[-1]) for row in rows]
    return pairs * ndim if len(pairs) == 1 else pairs


def _as_list(value: Any) -> list[Any]:
    return list(value) if _has_items(value) else [value]


def _has_items(value: Any) -> bool:
    """Is it a sequence, or an array with axes?"""
    return ax.is_sequence(value) or (is_value(value) and bool(aval_of(value).shape))


# Modes.


def _pad_constant(x: Any, widths: Sequence[tuple[int, int]], values: Any) -> Any:
    pairs = _pairs("constant_values", values, x.ndim)
    if all(type(v) in (int, float, bool) and v == 0 for pair in pairs for v in pair):
        return ax.pad(x, tuple((lo, hi, 0) for lo, hi in widths))
    for axis, ((before, after), ends) in enumerate(zip(widths, pairs, strict=True)):
        if not before + after:
            continue
        size = x.shape[axis]
        line = ax.line(x.ndim, axis, before + size + after)
        place = ax.iota(dtypes.int32, line, axis)
        low, high = [ax.cast(v, x.dtype) for v in ends]
        x = ax.pad_axis(x, axis, before, after)
        x = ax.choose(logic.less(place, before), low, x) if before else x
        x = ax.choose(logic.less(place, before + size), x, high) if after else x
    return x


def _runs(x: Any, axis: int, positions: Any) -> Any:
    """The elements at positions along an axis, by runs of equal steps."""
    parts: list[Any] = []
    start = 0
    while start < len(positions):
        stop = start + 1
        step = 0
        if stop < len(positions):
            step = int(positions[stop] - positions[start])
            step = step if step in (-1, 1) else 0
            while (
                stop < len(positions) and positions[stop] - positions[stop - 1] == step
            ):
                stop += 1
        low, high = sorted((int(positions[start]), int(positions[stop - 1])))
        part = ax.shrink_axis(x, axis, low, high + 1)
        if step < 0:
            part = ax.flip(part, (axis,))
        if step == 0:
            part = ax.expand(part, ax.with_size(part.shape, axis, stop - start))
        parts.append(part)
        start = stop
    return concatenate(parts, axis)


def _pad_odd(x: Any, axis: int, before: int, after: int, skip: int) -> Any:
    """Reflection through the edge element: 2·edge - mirrored; `skip` omits the edge."""
    while before or after:
        size = x.shape[axis]
        if size == 1:  # nothing to mirror: the edge itself
            return _runs(x, axis, np.zeros(1 + before + after, int))
        reach = size - skip
        low, high = min(before, reach), min(after, reach)
        parts = [x]
        if low:
            mirrored = ax.flip(ax.shrink_axis(x, axis, skip, skip + low), (axis,))
            edge = ax.shrink_axis(x, axis, 0, 1)
            parts.insert(0, edge * 2 - mirrored)
        if high:
            mirrored = ax.shrink_axis(x, axis, size - skip - high, size - skip)
            edge = ax.shrink_axis(x, axis, size - 1, size)
            parts.append(edge * 2 - ax.flip(mirrored, (axis,)))
        x = concatenate(parts, axis)
        before, after = before - low, after - high
    return x


@without_checks
def _pad_between(
    x: Any, widths: Sequence[tuple[int, int]], values: Pairs, end: Callable[..., Any]
) -> Any:
    """Each axis between two blocks: `end(x, axis, value, size, at_end)`."""
    for axis, (sizes, pair) in enumerate(zip(widths, values, strict=True)):
        first = end(x, axis, pair[0], sizes[0], False)
        last = end(x, axis, pair[1], sizes[1], True)
        first, last = [ax.cast(e, x.dtype, x.weak_type) for e in (first, last)]
        x = concatenate([first, x, last], axis)
    return x


def _ramp(x: Any, axis: int, value: Any, size: int, at_end: bool) -> Any:
    """From the edge to a value."""
    place = x.shape[axis] - 1 if at_end else 0
    edge = ax.drop_axes(ax.shrink_axis(x, axis, place, place + 1), (axis,))
    ramp = linspace(value, edge, size, endpoint=False, dtype=x.dtype, axis=axis)
    return ax.flip(ramp, (axis,)) if at_end else ramp


_STATISTICS: dict[str, Callable[[Any, Any], Any]] = {
    "maximum": lambda x, axis: x.max(axis, keepdims=True),
    "minimum": lambda x, axis: x.min(axis, keepdims=True),
    "mean": lambda x, axis: x.mean(axis, keepdims=True),
    "median": lambda x, axis: median(x, axis, keepdims=True),
}


def _statistic(
    mode: str, x: Any, axis: int, length: Any, count: int, at_end: bool
) -> Any:
    """The statistic of `length` elements at an end, `count` times."""
    size = x.shape[axis]
    reach = size
    if length is not None:
        reach = min(ax.static_int(length, "pad: stat_length", 1), size)
    start = size - reach if at_end else 0
    value = _STATISTICS[mode](ax.shrink_axis(x, axis, start, start + reach), axis)
    if dtypes.is_integer(x.dtype) and mode in ("mean", "median"):
        value = rounded(value)
    return ax.expand(value, ax.with_size(x.shape, axis, count))


# Roll.


def roll(a: Value, shift: Any, axis: ax.Axis = None) -> Any:
    """The elements moved along the axes; what leaves at one end enters at the other.

    Args:
      a: the array.
      shift: how far, or how far along each axis; it may be traced.
      axis: the axes; None rolls the flattened array.

    Raises:
      ShapeError: there are not as many shifts as axes.

    Example:
      >>> fnp.roll(fnp.array([1, 2, 3, 4]), 1)
      Array([4, 1, 2, 3], dtype=int32)
      >>> fnp.roll(fnp.array([[1, 2], [3, 4]]), 1, axis=0)
      Array([[3, 4],
             [1, 2]], dtype=int32)
    """
    x = ax.as_value(a)
    if axis is None:
        return ax.reshape(roll(ravel(x), shift, 0), x.shape)
    places, shifts = _as_list(axis), _as_list(shift)
    count = max(len(shifts), len(places))
    shifts = shifts * count if len(shifts) == 1 else shifts
    places = places * count if len(places) == 1 else places
    if len(shifts) != len(places):
        raise ShapeError(f"roll: {len(shifts)} shifts for {len(places)} axes")
    places = [ax.canonical_axis(place, x.ndim, "roll") for place in places]
    for distance, place in zip(shifts, places, strict=True):
        x = _roll_axis(x, distance, place)
    return x


def _roll_axis(x: Any, shift: Any, axis: int) -> Any:
    size = x.shape[axis]
    if isinstance(shift, Tracer) or is_dynamic(size):
        source = remainder(ax.iota(dtypes.int32, (size,), 0) - shift, size)
        return along(x, source, axis)
    cut = -ax.static_int(shift, "roll: shift") % max(size, 1)
    return concatenate(split(x, [cut], axis)[::-1], axis) if cut else x
