"""Sums along axes in NumPy, whose rounding errors do not grow with the terms.

NumPy adds pairs of pairs along the axis on which elements lie side by side. Along any
other one it adds row after row to the same total, whose error grows with their number.
Many rows are added in parts here, and then these:

    x[n, c]  ->  reshape x[p, b, e, c]  ->  sum over b  ->  the same of x[p·e, c]

A part has about `_TERMS` terms, and p is such that its totals stay in the cache. How
an array is cut follows from its shape and strides alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ftrace.ground.tables import memo

Array = Any  # numpy.ndarray
Shape = tuple[int, ...]
_Step = Callable[[Array], Array]

_add: Any = np.add  # the stubs know nothing of Any
_reduce = _add.reduce

#: So many terms NumPy may add in any order; more of them where the sum takes no longer
#: than to cut it would, as compiled code does.
_FEW, _FEW_OF_SMALL, _SMALL = 32, 128, 1 << 14
#: Terms of a part, about; errors of parts are evened out by the next step, so that the
#: parts of the last one are fewer.
_TERMS, _LAST = 64, 16
#: Bytes of totals that are added to side by side: they stay in the nearest cache.
_NEAR = 1 << 13
#: From so many terms on a sum along neighbours is as good in NumPy.
_PAIRS = 8
#: Shapes and strides for which it is remembered how they are cut.
_WAYS_KEPT = 1024


def sum_along(x: Array, axes: Shape, dtype: np.dtype[Any]) -> Array:
    """The sum along axes, which stay with size 1, added up in `dtype`."""
    function, more = sum_of(x.shape, axes, dtype)
    return function(x, *more)


@memo(_WAYS_KEPT)
def sum_of(
    shape: Shape, axes: Shape, dtype: np.dtype[Any]
) -> tuple[Callable[..., Array], tuple[Any, ...]]:
    """The same for arrays of a shape: a function, and what it takes after the array."""
    terms = prod([shape[a] for a in axes])
    if terms == 1:
        return np.array, (dtype,)  # NumPy adds 0, and -0 becomes 0
    size = prod(shape)
    is_short = terms <= _FEW or (terms <= _FEW_OF_SMALL and size <= _SMALL)
    if is_short or dtype.kind not in "fc" or terms == max(shape) == size:
        return _reduce, (axes, dtype, None, True, 0)  # of -0 alone it is +0
    return partial(_sum, axes, dtype), ()


def _sum(axes: Shape, dtype: np.dtype[Any], x: Array) -> Array:
    """Of arrays of one shape, by the strides that they have."""
    x = x.astype(dtype, copy=False)
    for step in _way(x.shape, x.strides, x.itemsize, axes):
        x = step(x)
    return x


@memo(_WAYS_KEPT)
def _way(shape: Shape, strides: Shape, item: int, axes: Shape) -> list[_Step]:
    """The steps of a sum."""
    steps = [abs(step) for step in strides]
    near_first = sorted(
        (a for a, n in enumerate(shape) if n != 1), key=lambda a: (steps[a], -a)
    )
    neighbours: list[int] = []  # the axes on which terms lie side by side, as if one
    reach = None
    for a in near_first:
        # What repeats has no neighbours: NumPy adds it up one by one.
        if a not in axes or not strides[a] or reach not in (None, strides[a]):
            break
        neighbours.append(a)
        reach = strides[a] * shape[a]
    across = [a for a in near_first if a in axes and a not in neighbours]
    if prod([shape[a] for a in across]) <= _FEW:
        return [_whole(axes)]
    sizes, merged_strides, merged_axes = _merge(shape, strides, axes)
    if len(merged_axes) < len(across):
        kept = tuple(1 if a in axes else n for a, n in enumerate(shape))
        inside = _way(sizes, merged_strides, item, merged_axes)
        return [_shaped(sizes), *inside, _shaped(kept)]
    found: list[_Step] = []
    last = _whole(tuple(neighbours))
    paired = prod([shape[a] for a in neighbours]) >= _PAIRS
    if paired:
        found.append(last)
    left = list(shape)
    for a in neighbours if paired else ():
        left[a] = 1
    for a in sorted(across, key=shape.__getitem__, reverse=True):
        apart = prod([n for n, s in zip(left, steps, strict=True) if s < steps[a]])
        found += _cuts(tuple(left), a, apart * item)
        left[a] = 1
    return found if paired or not neighbours else [*found, last]


def _merge(shape: Shape, strides: Shape, axes: Shape) -> tuple[Shape, Shape, Shape]:
    """Neighbours that are added up, or not, as one axis, where that is a view."""
    found: list[tuple[int, int, bool]] = []
    for a, (n, step) in enumerate(zip(shape, strides, strict=True)):
        if n == 1:
            continue
        if found and found[-1][1:] == (step * n, a in axes):
            found[-1] = (found[-1][0] * n, step, a in axes)
        else:
            found.append((n, step, a in axes))
    sizes, steps, added = zip(*found, strict=True)
    return sizes, steps, tuple(a for a, is_added in enumerate(added) if is_added)


def _shaped(shape: Shape) -> _Step:
    return lambda x: x.reshape(shape)


def _whole(axes: Shape) -> _Step:
    """A sum that NumPy does alone."""
    return lambda x: _reduce(x, axes, None, None, True, 0)


def _cuts(shape: Shape, axis: int, inside: int) -> list[_Step]:
    """The steps of a sum along an axis across `inside` bytes side by side."""
    found: list[_Step] = []
    before, size, after = shape[:axis], shape[axis], shape[axis + 1 :]
    whole = (slice(None),) * axis
    while size > _FEW:
        count, each = _parts(size, inside)
        parts = count // each
        terms = size // count
        used = count * terms
        rest = None
        if used < size:
            rest = (*whole, slice(0, size - used)), (*whole, slice(used, None))
        taken = None if rest is None else (*whole, slice(0, used))
        cut = (*before, parts, terms, each, *after)
        merged = (*before, count, *after)
        found.append(partial(_add_parts, taken, cut, axis + 1, merged, rest))
        size = count
    found.append(_whole((axis,)))
    return found


def _parts(size: int, inside: int) -> tuple[int, int]:
    """How many parts so many terms are added up in, and how many of them together.

    Args:
      inside: the bytes of a term of all totals.
    """
    most = min(size // _LAST, max(size // _TERMS, _LAST))
    each = min(max(_NEAR // inside, 1), most)
    most -= most % each
    counts = range(most, 3 * most // 4, -each)
    return next((n for n in counts if size % n == 0), most), each


def _add_parts(
    taken: Any, cut: Shape, axis: int, merged: Shape, rest: Any, x: Array
) -> Array:
    """One more term in each of the first parts where they do not divide the axis."""
    whole = x if taken is None else x[taken]
    found = _reduce(whole.reshape(cut), axis).reshape(merged)
    if rest is not None:
        first = found[rest[0]]
        first += x[rest[1]]
    return found


# Sums at places.

#: Terms for each place from which on they do not meet the total one by one.
_CROWD = 4
#: So many terms of float64 make a part.
_PART = 1 << 14


def add_at(x: Array, index: Any, values: Array) -> None:
    """`x[index] += values`, as often as each place is in the index.

    Where many terms meet in few places they are added up in float64; those of float64
    in parts, as compiled code does, and then these.
    """
    count = values.size
    arrays: Any = index if index.__class__ is tuple else (index,)
    if count == 1:  # for all places
        count = max(map(np.size, arrays))
    few = count < _FEW_OF_SMALL or count < _CROWD * x.size
    if few or x.dtype.kind in "biu":
        _add.at(x, index, values)
        return
    wide = np.dtype(np.complex128 if x.dtype.kind == "c" else np.float64)
    if x.dtype != wide:
        total = x.astype(wide)
        _add.at(total, index, values.astype(wide))
        with np.errstate(over="ignore"):
            x[...] = total
    elif _is_by_rows(x, arrays, values):
        each = max(_PART, _CROWD * x.size)
        for i in range(0, len(values), each):
            part = x if i == 0 else -np.zeros_like(x)  # -0.0 changes nothing
            rows = slice(i, i + each)
            _add.at(part, tuple([a[rows] for a in arrays]), values[rows])
            if i:
                x += part
    else:
        _add.at(x, index, values)


def _is_by_rows(x: Array, arrays: Any, values: Array) -> bool:
    """Is there a row of values for each element of the indices, vectors of integers?"""
    return values.ndim == x.ndim - len(arrays) + 1 and all(
        type(a) is np.ndarray and a.dtype.kind in "iu" and a.shape == values.shape[:1]
        for a in arrays
    )
