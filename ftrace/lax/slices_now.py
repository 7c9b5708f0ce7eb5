"""Slices of arrays of the host at Python's integers, which NumPy takes at once.

Where they start decides nothing but that: eager calls with other starts are repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from typing import cast as cast_to

import numpy as np

from ftrace.array import Array
from ftrace.trace.room import require_room
from ftrace.trace.tape import recording
from ftrace.trace.tracer import aval_of


def is_place(start: Any) -> bool:
    """Is it one integer that NumPy can be told as it is?"""
    return type(start) is int


def slice_now(
    function: Callable[..., Any],
    arrays: Sequence[Any],
    starts: Any,
    sizes: tuple[int, ...],
    negative: bool | Sequence[bool],
) -> Array | None:
    """A slice of arrays of the host by NumPy, where the starts are Python integers."""
    x = arrays[0]
    if not all(type(v) is Array and v.memory.host for v in arrays):
        return None
    if type(starts) is tuple:
        places = cast_to(Any, starts)
        if len(places) != x.ndim or not all(type(part) is int for part in places):
            return None
    elif type(starts) is not int:
        return None
    require_room("dynamic_slice", aval_of(x))
    wraps = (negative,) * x.ndim if isinstance(negative, bool) else tuple(negative)
    if len(wraps) != x.ndim:
        return None
    chosen = partial(function, sizes, wraps)
    made = Array.of(chosen(*[v.numpy() for v in arrays], starts), x.weak_type)
    if recording.tape is not None:
        recording.tape.note(chosen, [*arrays, starts], made)
    return made


def _bounds(start: int, size: int, length: int, wrap: bool) -> Any:
    start = start + size if wrap and start < 0 else start
    start = min(max(start, 0), size - length)
    return slice(start, start + length)


def _window(
    sizes: Sequence[int], wraps: Sequence[bool], x: Any, starts: Sequence[int]
) -> Any:
    return tuple(map(_bounds, starts, x.shape, sizes, wraps))


def sliced(sizes: Any, wraps: Any, x: Any, starts: Any) -> Any:
    return x[_window(sizes, wraps, x, starts)]


def replaced(sizes: Any, wraps: Any, x: Any, part: Any, starts: Any) -> Any:
    result: Any = np.array(x)
    result[_window(sizes, wraps, x, starts)] = part
    return result


def _along(axis: int, ndim: int, start: int) -> tuple[int, ...]:
    return (0,) * axis + (start,) + (0,) * (ndim - axis - 1)


def sliced_along(axis: int, sizes: Any, wraps: Any, x: Any, start: int) -> Any:
    return sliced(sizes, wraps, x, _along(axis, x.ndim, start))


def replaced_along(
    axis: int, sizes: Any, wraps: Any, x: Any, part: Any, start: int
) -> Any:
    return replaced(sizes, wraps, x, part, _along(axis, x.ndim, start))
