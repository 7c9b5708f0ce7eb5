"""Elements taken from, put at and repeated at indices; inserted and deleted."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ftrace import dtypes, errors
from ftrace.ground import settings
from ftrace.numpy import axes as ax, elementwise as ew, logic
from ftrace.numpy.arithmetic import remainder
from ftrace.numpy.at import update
from ftrace.numpy.cumulative import cumsum
from ftrace.numpy.indexing import check_mode, read_at, widen
from ftrace.numpy.joining import concatenate
from ftrace.numpy.linear import matmul
from ftrace.numpy.shape import atleast_1d, ravel, tile
from ftrace.numpy.sorting import nonzero, searchsorted, sort
from ftrace.trace.bind import bind
from ftrace.trace.primitives.indexing import scatter_p
from ftrace.trace.tracing.tracer import Tracer, Value

__all__ = [
    "append", "choose", "compress", "delete", "extract", "fill_diagonal", "insert",
    "place", "put", "put_along_axis", "repeat", "resize", "take", "take_along_axis",
    "trim_zeros",
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
      indices: integers of any shape, which takes the place of the axis; negative ones
        count from the end.
      axis: None counts in the flattened array.
      out: not supported.
      mode: for indices out of bounds: "fill" (the default for traced ones), "clip",
        "wrap".
      unique_indices, indices_are_sorted: accepted; nothing depends on them.
      fill_value: for "fill"; by default NaN, or the least integer.

    Raises:
      IndexBoundsError: without a mode, a known index is out of bounds.
      ValueRangeError: there is no such mode.

    Example:
      >>> x = fnp.array([[1, 2, 3], [4, 5, 6]])
      >>> fnp.take(x, fnp.array([2, 0]), axis=1)
      Array([[3, 1],
             [6, 4]], dtype=int32)
      >>> fnp.take(x, 4)
      Array(5, dtype=int32)
      >>> fnp.take(x, 9, mode="clip")
      Array(6, dtype=int32)
    """
    ax.no_out("take", out)
    if mode == "raise":
        raise errors.UnsupportedError(
            "take: mode 'raise' is that of known indices without a mode: leave it out, "
            "or write 'fill', 'drop', 'clip', 'wrap' or 'promise_in_bounds'"
        )
    x, axis = ax.flatten(a, axis, "take")
    if not ax.is_sequence(indices):
        indices = _as_numbers(indices)
    if mode in ("wrap", "clip"):
        if x.shape[axis] == 0:
            raise errors.IndexBoundsError(
                f"take: axis {axis} of shape {x.shape} is empty"
            )
        places = _in_range(ax.as_value(indices), x.shape[axis], mode)
        return along(x, places, axis)
    before = (slice(None),) * axis
    return _read_or_fill(x, (*before, indices), check_mode("take", mode), fill_value)


def _as_numbers(indices: Value) -> Any:
    """Indices that are no mask, also if they are bools."""
    indices = ax.as_value(indices)
    return ax.cast(indices, dtypes.int32) if indices.dtype == dtypes.bool_ else indices


def _in_range(indices: Any, size: int, mode: str) -> Any:
    """Indices wrapped around, or clipped to, an axis."""
    at = widen(indices, size)
    return remainder(at, size) if mode == "wrap" else logic.clip(at, 0, size - 1)


def _read_or_fill(
    x: Any, index: Any, mode: str | None, fill_value: Any, wrap: bool = True
) -> Any:
    """Reads; out of bounds raises where all is known, else it is the fill value."""
    traced = isinstance(x, Tracer) or any(isinstance(p, Tracer) for p in index)
    if mode is None and (traced or not settings.current().check_static_indices):
        mode = "fill"
    return read_at(x, index, mode, fill_value, wrap)


def _along_axis(name: str, x: Any, indices: Any, axis: int) -> tuple[Any, ...]:
    """An index tuple that pairs each index with its own place on the other axes."""
    if indices.ndim != x.ndim:
        raise errors.ShapeError(
            f"{name}: the indices, of shape {indices.shape}, must have as many axes as "
            f"the array, of shape {x.shape}"
        )
    index: list[Any] = []
    for place, size in enumerate(x.shape):
        line = ax.line(x.ndim, place, size)
        index.append(indices if place == axis else ax.iota(dtypes.int32, line, place))
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

        take_along_axis(x, i, axis=1)[n, m] = x[n, i[n, m]]

    Args:
      arr: the array.
      indices: integers, with as many axes; the other ones broadcast.
      axis: along which to look; None counts in the flattened array.
      mode: for indices out of bounds, as in `take`; or "one_hot": a product with zeros
        and ones, 0 where an index is out of bounds.
      fill_value: for "fill"; by default NaN, or the least integer.
      wrap_negative_indices: negative indices count from the end, unless it is False.

    Raises:
      ShapeError: the two differ in rank, or do not broadcast.
      IndexBoundsError: without a mode, a known index is out of bounds.

    Example:
      >>> x = fnp.array([[3, 1, 2], [4, 6, 5]])
      >>> fnp.take_along_axis(x, fnp.argsort(x), axis=1)
      Array([[1, 2, 3],
             [4, 5, 6]], dtype=int32)
      >>> fnp.take_along_axis(x, fnp.array([[2], [0]]), axis=1)
      Array([[2],
             [4]], dtype=int32)
    """
    x, axis = ax.flatten(arr, axis, "take_along_axis")
    indices = ax.as_value(indices)
    index = _along_axis("take_along_axis", x, indices, axis)
    wrap = wrap_negative_indices is not False
    if mode == "one_hot":
        return _product_of_one_hot(x, indices, axis, wrap)
    mode = check_mode("take_along_axis", mode)
    return _read_or_fill(x, index, mode, fill_value, wrap)


def _product_of_one_hot(x: Any, indices: Any, axis: int, wrap: bool) -> Any:
    size = x.shape[axis]
    if wrap:
        indices = widen(indices, size)
        indices = ax.choose(indices < 0, indices + size, indices)
    places = ax.iota(indices.dtype, (size,), 0)
    hits = ax.move_axis(indices, axis, x.ndim - 1)[..., None] == places
    hits = hits.astype(x.dtype)
    lanes = ax.move_axis(x, axis, x.ndim - 1)[..., None]
    result = matmul(hits, lanes, precision="highest", preferred_element_type=x.dtype)
    return ax.move_axis(result[..., 0], x.ndim - 1, axis)


def _not_in_place(name: str, inplace: bool) -> None:
    if inplace:
        raise errors.ValueRangeError(
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
    """A copy of `arr` with `values` at the indices, lane by lane.

    Args:
      arr: the array.
      indices: integers, with as many axes.
      values: what is put there, in the dtype of `arr`; they broadcast to the indices.
      axis: along which; None counts in the flattened array.
      inplace: must be False: arrays are immutable.
      mode: for indices out of bounds: "drop" (the default for traced ones), "clip".

    Raises:
      ValueRangeError: `inplace` is not False.

    Example:
      >>> x, i = fnp.array([[3, 1], [4, 6]]), fnp.array([[1], [0]])
      >>> fnp.put_along_axis(x, i, 0, axis=1, inplace=False)
      Array([[3, 0],
             [0, 6]], dtype=int32)
    """
    _not_in_place("put_along_axis", inplace)
    x, indices = ax.as_value(arr), ax.as_value(indices)
    if axis is None:
        flat = put_along_axis(ravel(x), indices, values, 0, False, mode=mode)
        return ax.reshape(flat, x.shape)
    axis = ax.canonical_axis(axis, x.ndim, "put_along_axis")
    index = _along_axis("put_along_axis", x, indices, axis)
    values = ax.cast(values, x.dtype)
    return update(x, index, values, "set", check_mode("put_along_axis", mode))


def put(
    a: Value, ind: Value, v: Value, mode: str | None = None, *, inplace: bool = True
) -> Any:
    """A copy of `a` with values at indices of the flattened array.

    Args:
      a: the array.
      ind: integers.
      v: the values, in the dtype of `a`; fewer are repeated.
      mode: for indices out of bounds: "clip", "wrap", or "drop".
      inplace: must be False: arrays are immutable.

    Raises:
      ValueRangeError: `inplace` is not False.

    Example:
      >>> fnp.put(fnp.array([[1, 2], [3, 4]]), fnp.array([0, 3]), 9, inplace=False)
      Array([[9, 2],
             [3, 9]], dtype=int32)
    """
    _not_in_place("put", inplace)
    x, indices = ax.as_value(a), ravel(_as_numbers(ind))
    values = ax.cast(v, x.dtype)
    if indices.size == 0 or values.size == 0:
        return x
    if mode in ("wrap", "clip"):
        indices, mode = _in_range(indices, x.size, mode), None
    return _set_flat(x, indices, indices.size, values, check_mode("put", mode))


def _set_flat(x: Any, places: Any, count: int, values: Value, mode: str | None) -> Any:
    """`x` with values, repeated or cut, at places of the flattened array."""
    new = resize(values, count)
    return ax.reshape(update(ravel(x), places, new, "set", mode), x.shape)


def place(arr: Value, mask: Value, vals: Value, *, inplace: bool = True) -> Any:
    """A copy of `arr` with the values, in turn, where the mask holds.

    Args:
      arr: the array.
      mask: of as many elements.
      vals: the values, in the dtype of `arr`; fewer are repeated.
      inplace: must be False: arrays are immutable.

    Raises:
      ValueRangeError: `inplace` is not False, or there are no values.
      ShapeError: the mask has another number of elements.

    Example:
      >>> x = fnp.array([1, 2, 3, 4])
      >>> fnp.place(x, x > 2, fnp.array([10, 20]), inplace=False)
      Array([ 1,  2, 10, 20], dtype=int32)
    """
    _not_in_place("place", inplace)
    x = ax.as_value(arr)
    values = ax.cast(vals, x.dtype)
    if values.size == 0:
        raise errors.ValueRangeError("place: there must be at least one value")
    flags = ravel(logic.truth(mask))
    if flags.size != x.size:
        raise errors.ShapeError(
            f"place: the array and the mask must have as many elements, got {x.size} "
            f"and {flags.size}"
        )
    size = x.size if ax.is_unknown(flags) else None
    (found,) = nonzero(flags, size=size, fill_value=x.size)
    mode = "drop" if isinstance(found, Tracer) else None
    return _set_flat(x, found, found.shape[0], values, mode)


def choose(
    a: Value, choices: Sequence[Value] | Value, out: None = None, mode: str = "raise"
) -> Any:
    """At each place the element of `choices[a]`, all broadcast together.

    Args:
      a: integers: which choice.
      choices: a sequence of arrays, or one array, taken apart along its first axis.
      out: not supported.
      mode: for integers that name no choice: "raise", "wrap" or "clip".

    Raises:
      DtypeError: the indices are no integers.
      IndexBoundsError: with mode "raise", an index has no choice.
      ConcretizationTypeError: with mode "raise", the indices are traced.

    Example:
      >>> fnp.choose(fnp.array([0, 1, 0]), [fnp.array([1, 2, 3]), 10])
      Array([ 1, 10,  3], dtype=int32)
    """
    ax.no_out("choose", out)
    indices = ax.as_value(a)
    if indices.dtype != dtypes.bool_:
        ax.integers(indices, "choose: the indices")
    parts: Any = choices if ax.is_sequence(choices) else list(ax.as_value(choices))
    options = ew.values_together(parts)
    count = len(options)
    if count == 0:
        raise errors.ValueRangeError("choose: there must be at least one choice")
    errors.one_of("choose: mode", mode, ("raise", "wrap", "clip"))
    if mode != "raise":
        indices = _in_range(indices, count, mode)
    elif not are_inside(np.asarray(indices), count):
        raise errors.IndexBoundsError(f"choose: an index is not from 0 to {count - 1}")
    result = options[-1]
    for number in reversed(range(count - 1)):
        result = ax.choose(logic.equal(indices, number), options[number], result)
    shape = ax.broadcast_shapes("choose", [indices.shape, result.shape])
    return ax.broadcast_to(result, shape)


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
      ConcretizationTypeError: the condition is traced, and `size` is not given.
      IndexBoundsError: it holds beyond the end of the axis.

    Example:
      >>> fnp.compress(fnp.array([True, False, True]), fnp.array([1, 2, 3]))
      Array([1, 3], dtype=int32)
    """
    ax.no_out("compress", out)
    x, axis = ax.flatten(a, axis, "compress")
    flags = ax.vector(logic.truth(condition), "compress: the condition")
    length = x.shape[axis]
    (found,) = nonzero(flags, size=size, fill_value=length)
    if size is None:
        last = int(found[-1]) if found.size else -1
        if last >= length:
            raise errors.IndexBoundsError(
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
    """The elements for which the condition holds, as a vector.

    Args:
      condition: bools, of as many elements as the array.
      arr: the array.
      size: how many are returned, required where the condition is traced.
      fill_value: what stands where fewer hold.

    Raises:
      ConcretizationTypeError: the condition is traced, and `size` is not given.

    Example:
      >>> x = fnp.array([[1, 2], [3, 4]])
      >>> fnp.extract(x % 2 == 0, x)
      Array([2, 4], dtype=int32)
    """
    return compress(ravel(condition), ravel(arr), size=size, fill_value=fill_value)


def fill_diagonal(
    a: Value, val: Value, wrap: bool = False, *, inplace: bool = True
) -> Any:
    """A copy of `a` with `val` on its main diagonal.

    Args:
      a: a matrix, or an array of more axes, all of one size.
      val: a number, or values in the dtype of `a`; fewer are repeated.
      wrap: in a tall matrix the diagonal begins anew below.
      inplace: must be False: arrays are immutable.

    Raises:
      ShapeError: there are fewer than two axes, or more and they differ.
      ValueRangeError: `inplace` is not False.

    Example:
      >>> fnp.fill_diagonal(fnp.zeros((2, 2), int), 5, inplace=False)
      Array([[5, 0],
             [0, 5]], dtype=int32)
    """
    _not_in_place("fill_diagonal", inplace)
    x = ax.as_value(a)
    if x.ndim < 2 or (x.ndim > 2 and len(set(x.shape)) > 1):
        raise errors.ShapeError(
            f"fill_diagonal takes a matrix, or more axes of one size; got {x.shape}"
        )
    # One step along every axis at once.
    step = sum(prod(x.shape[i:]) for i in range(1, x.ndim + 1))
    end = x.size if wrap or x.ndim > 2 else min(x.size, x.shape[1] * x.shape[1])
    places = slice(0, end, step)
    return _set_flat(x, places, len(range(end)[places]), ax.cast(val, x.dtype), None)


#: NumPy for positions that are known: without its stubs, which ask for dtypes.
_host: Any = np


def along(a: Any, positions: Any, axis: int) -> Any:
    """The elements of `a` at positions along one axis."""
    return read_at(a, (slice(None),) * axis + (positions,))


# Repeat.


def repeat(
    a: Value,
    repeats: Value | Sequence[int],
    axis: int | None = None,
    *,
    total_repeat_length: int | None = None,
) -> Any:
    """Each element as often as `repeats` says, along an axis or flattened.

    Args:
      a: the array.
      repeats: one number, or one per element.
      axis: along which to repeat; None flattens first.
      total_repeat_length: the size of the result, required where `repeats` is traced:
        what is longer is cut off, what is shorter repeats the last element.

    Raises:
      ConcretizationTypeError: `repeats` is traced, and the size is not given.
      ShapeError: there are not as many repeats as elements.
      ValueRangeError: repeats are no integers, or negative.

    Example:
      >>> fnp.repeat(fnp.array([1, 2]), 3)
      Array([1, 1, 1, 2, 2, 2], dtype=int32)
      >>> fnp.repeat(fnp.array([[1, 2], [3, 4]]), fnp.array([2, 1]), axis=0)
      Array([[1, 2],
             [1, 2],
             [3, 4]], dtype=int32)
    """
    a, axis = ax.flatten(atleast_1d(a), axis, "repeat")
    if total_repeat_length is not None:
        ax.check_count(total_repeat_length, "repeat: total_repeat_length")
    size = a.shape[axis]
    if ax.is_unknown(repeats):
        return _repeat_traced(a, repeats, axis, total_repeat_length)
    counts: Any = ax.host_array(repeats, "repeat: repeats")
    if counts.dtype.kind not in "biu" or counts.min(initial=0) < 0:
        raise errors.ValueRangeError(
            f"repeat: repeats must be integers from 0, got {repeats!r}"
        )
    if counts.size == 1 and total_repeat_length is None:
        return _repeat_evenly(a, int(counts.reshape(())), axis)
    if counts.shape not in ((), (1,), (size,)):
        raise errors.ShapeError(
            f"repeat: {counts.shape} repeats for an axis of size {size}"
        )
    positions = _host.repeat(np.arange(size), np.broadcast_to(counts, (size,)))
    if total_repeat_length is not None:
        last = positions[-1:] if positions.size else np.zeros(1, int)
        positions = np.append(positions, last.repeat(total_repeat_length))
        positions = positions[:total_repeat_length]
    return along(a, positions, axis)


def _repeat_evenly(a: Any, count: int, axis: int) -> Any:
    spread = ax.insert_axes(a, (axis + 1,))
    shape = (*a.shape[: axis + 1], count, *a.shape[axis + 1 :])
    merged = ax.with_size(a.shape, axis, a.shape[axis] * count)
    return ax.reshape(ax.expand(spread, shape), merged)


def _repeat_traced(a: Any, repeats: Any, axis: int, total: int | None) -> Any:
    if total is None:
        raise errors.ConcretizationTypeError(
            "repeat: the size of the result depends on traced repeats; give "
            "total_repeat_length=n, or mark them in static_argnums of jit if they are "
            "Python values"
        )
    if repeats.dtype.itemsize < 4:  # their sum may not fit
        repeats = ax.cast(repeats, dtypes.int32)
    counts = ax.broadcast_to(repeats, (a.shape[axis],), "repeat")
    # The position grows by one where an element ends; ends behind the last are dropped.
    ends = cumsum(counts)
    ones = ax.full(counts.shape, 1, dtypes.int32)
    zeros = ax.full((total,), 0, dtypes.int32)
    marks = bind(scatter_p, zeros, ones, ends, arg=((0,), "add"))
    return along(a, cumsum(marks), axis)


def resize(a: Value, new_shape: Any) -> Any:
    """The elements of `a`, repeated or cut off, in another shape.

    Args:
      a: the array.
      new_shape: an int or several.

    Raises:
      ShapeError: a size is negative.

    Example:
      >>> fnp.resize(fnp.array([1, 2, 3]), (2, 2))
      Array([[1, 2],
             [3, 1]], dtype=int32)
    """
    shape = ax.check_sizes(new_shape, "resize")
    flat, total = ravel(a), prod(shape)
    if flat.size == 0 or total == 0:
        return ax.full(shape, 0, flat.dtype, flat.weak_type)
    return ax.reshape(tile(flat, -(-total // flat.size))[:total], shape)


# Put in and take out.


def append(arr: Value, values: Value, axis: int | None = None) -> Any:
    """`values` behind `arr` along an axis; without an axis both are flattened.

    Args:
      arr: the array.
      values: of the same shape but for the axis.
      axis: along which; None flattens both.

    Raises:
      ShapeError: they do not fit together.

    Example:
      >>> fnp.append(fnp.array([1, 2]), 3)
      Array([1, 2, 3], dtype=int32)
      >>> fnp.append(fnp.array([[1, 2]]), fnp.array([[3, 4]]), axis=0)
      Array([[1, 2],
             [3, 4]], dtype=int32)
    """
    if axis is None:
        return concatenate([ravel(x) for x in ew.values_together([arr, values])])
    return concatenate([arr, values], axis)


def insert(arr: Value, obj: Any, values: Value, axis: int | None = None) -> Any:
    """`values` before the positions `obj`, which refer to `arr` as it is.

    Positions that are traced are clipped to the axis.

    Args:
      arr: the array.
      obj: an integer, several, a slice, or a mask.
      values: what is put in, in the dtype of `arr`; they broadcast.
      axis: along which; None flattens first.

    Raises:
      IndexBoundsError: a position that is known is out of bounds.

    Example:
      >>> fnp.insert(fnp.array([1, 2, 3]), 1, 9)
      Array([1, 9, 2, 3], dtype=int32)
      >>> fnp.insert(fnp.array([1, 2, 3]), fnp.array([0, 2]), fnp.array([8, 9]))
      Array([8, 1, 2, 9, 3], dtype=int32)
    """
    arr, axis = ax.flatten(arr, axis, "insert")
    size = arr.shape[axis]
    place = _clip if ax.is_unknown(obj) else _positions
    positions = place("insert", obj, size, size)
    weak = arr.weak_type and ew.common_type(arr, values)[1]
    arr, values = (ax.cast(x, arr.dtype, weak) for x in (arr, values))
    if positions.ndim == 0:
        values = _one_block(values, arr, axis)
        positions = np.zeros(values.shape[axis], np.int32) + positions
    shape = ax.with_size(arr.shape, axis, positions.size)
    values = ax.broadcast_to(values, shape, "insert")
    if positions.size == 0:
        return arr
    return along(concatenate([arr, values], axis), _sources(positions, size), axis)


def _sources(positions: Any, size: int) -> Any:
    """Where the elements of the result stand in the old and, behind them, the new.

    Methods alone, which arrays of NumPy have as well: what is known stays so.
    """
    count = positions.size
    numbers = np.arange(size + count, dtype=np.int32)
    order = positions.argsort(kind="stable")
    places = positions[order] + numbers[:count]
    new_before = places.searchsorted(numbers, side="right")
    old, new = numbers - new_before, order[new_before - 1] + size
    return old + (places[new_before - 1] == numbers) * (new - old)


def _clip(name: str, obj: Any, size: int, last: int) -> Any:
    """Traced positions, counted from the front and from 0 to `last`."""
    if not dtypes.is_integer(obj.dtype):
        raise errors.ArgumentError(
            f"{name}: positions must be integers, got {obj.aval!r}"
        )
    obj = widen(obj, size)
    return logic.clip(ax.choose(obj < 0, obj + size, obj), 0, last)


def _one_block(values: Any, arr: Any, axis: int) -> Any:
    """Values for one position: moved to the axis as NumPy does for an integer."""
    values = ax.insert_axes(values, range(arr.ndim - values.ndim))
    values = ax.move_axis(values, 0, axis)
    shape = ax.with_size(arr.shape, axis, values.shape[axis])
    return ax.broadcast_to(values, shape, "insert")


def delete(
    arr: Value,
    obj: Any,
    axis: int | None = None,
    *,
    assume_unique_indices: bool = False,
) -> Any:
    """`arr` without the positions `obj`.

    Args:
      arr: the array.
      obj: an integer, several, a slice, or a mask.
      axis: along which; None flattens first.
      assume_unique_indices: the integers differ: then they may be traced.

    Raises:
      IndexBoundsError: a position is out of bounds.
      ConcretizationTypeError: the positions are traced, and neither one integer, which
        is clipped to the axis, nor integers of which the caller says that they differ.

    Example:
      >>> fnp.delete(fnp.array([1, 2, 3, 4]), fnp.array([0, 2]))
      Array([2, 4], dtype=int32)
      >>> fnp.delete(fnp.array([[1, 2], [3, 4]]), 0, axis=1)
      Array([[2],
             [4]], dtype=int32)
    """
    arr, axis = ax.flatten(arr, axis, "delete")
    size = arr.shape[axis]
    if ax.is_unknown(obj) and obj.ndim == 0 and obj.dtype != dtypes.bool_ and size:
        gap = _clip("delete", obj, size, size - 1)
        numbers = ax.iota(dtypes.int32, (size - 1,), 0)
        return along(arr, numbers + ax.cast(gap <= numbers, dtypes.int32), axis)
    if assume_unique_indices and ax.is_unknown(obj) and obj.dtype != dtypes.bool_:
        return _without(arr, ravel(obj), axis)
    return along(arr, np.flatnonzero(_retained_mask(obj, size)), axis)


def _without(arr: Any, places: Any, axis: int) -> Any:
    """Without traced positions that differ.

    The k-th of them in order, less k, is how many elements stay before it.
    """
    size, count = arr.shape[axis], places.shape[0]
    if count > size:
        raise errors.IndexBoundsError(
            f"delete: {count} positions of an axis of size {size}"
        )
    places = ax.cast(_clip("delete", places, size, size - 1), dtypes.int32)
    before = sort(places) - ax.iota(dtypes.int32, (count,), 0)
    numbers = ax.iota(dtypes.int32, (size - count,), 0)
    return along(arr, numbers + searchsorted(before, numbers, side="right"), axis)


def _retained_mask(obj: Any, size: int) -> np.ndarray[Any, Any]:
    """Of each position along an axis, whether it stays."""
    mask = None if isinstance(obj, slice) else ax.host_array(obj, "delete: obj")
    if mask is not None and mask.dtype == np.bool_:
        if mask.shape != (size,):
            raise errors.IndexBoundsError(
                f"delete: a mask of shape {mask.shape} for an axis of size {size}"
            )
        return ~mask
    kept = np.ones(operator.index(size), np.bool_)
    kept[_positions("delete", obj, size, size - 1)] = False
    return kept


def _positions(name: str, obj: Any, size: int, last: int) -> np.ndarray[Any, Any]:
    """Known positions along an axis, counted from the front."""
    if isinstance(obj, slice):
        return np.arange(*obj.indices(size))
    found = np.asarray(obj)
    if found.dtype == np.bool_:
        return np.nonzero(found)[0]
    if found.size == 0:
        return np.zeros(found.shape, np.int64)
    if found.dtype.kind not in "iu":
        raise errors.ArgumentError(
            f"{name}: positions must be integers, got {obj!r:.60}"
        )
    if found.min() < -size or found.max() > last:
        raise errors.IndexBoundsError(
            f"{name}: positions {found.tolist()} do not fit an axis of size {size}"
        )
    return np.where(found < 0, found + size, found).astype(np.int64)


def trim_zeros(
    filt: Value, trim: str = "fb", axis: int | Sequence[int] | None = None
) -> Any:
    """An array whose values are known, without zeros in front ("f") and behind ("b").

    Args:
      filt: the array.
      trim: at which ends.
      axis: along which: of all parts across it that are zero; None for all axes.

    Raises:
      ConcretizationTypeError: the array is traced.
      ValueRangeError: `trim` names another end, or none.

    Example:
      >>> fnp.trim_zeros(fnp.array([0, 0, 1, 0, 2, 0]))
      Array([1, 0, 2], dtype=int32)
    """
    filt, ends = ax.as_value(filt), str(trim).lower()
    errors.one_of("trim_zeros: trim", ends, ("fb", "bf", "f", "b"))
    places = np.nonzero(np.asarray(filt)) if filt.ndim else ()
    parts = [slice(None)] * filt.ndim
    for i in ax.canonical_axes(axis, filt.ndim, "trim_zeros"):
        found = places[i]
        low, high = (int(found.min()), int(found.max()) + 1) if found.size else (0, 0)
        front = "f" in ends or not found.size
        behind = "b" in ends or not found.size
        parts[i] = slice(low if front else None, high if behind else None)
    return filt[tuple(parts)]
