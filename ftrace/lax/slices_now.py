"""Slices of arrays of the host at Python's integers, which NumPy takes at once.

Where they start decides nothing but that: eager calls with other starts are repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.array import Array
from ftrace.trace.room import require_room
from ftrace.trace.tape import recording
from ftrace.trace.tracer import aval_of


def slice_now(
    function: Callable[..., Any],
    arrays: Sequence[Any],
    starts: Any,
    sizes: tuple[int, ...],
    negative: bool | Sequence[bool],
) -> Array | None:
    """A slice of arrays of the host by NumPy, where the starts are known.

    They are Python integers, arrays of the host without axes, or one vector.
    """
    x = arrays[0]
    if not all(type(v) is Array and v.memory.host for v in arrays):
        return None
    parts: list[Any] = []
    known: Any = starts
    if type(starts) in (tuple, list):
        parts = [*starts]
        if not all(type(part) is int for part in parts):
            if not all(map(is_start, parts)):
                return None
            known = tuple([int(_number_of(part)) for part in parts])
    elif is_start(starts):
        parts = [starts]
        known = int(_number_of(starts))
    elif _is_host(starts) and starts.ndim == 1:
        known = tuple(starts.numpy().tolist())
    else:
        return None
    if type(known) is not int and len(known) != x.ndim:
        return None
    require_room("dynamic_slice", aval_of(x))
    wraps = (negative,) * x.ndim if isinstance(negative, bool) else tuple(negative)
    if len(wraps) != x.ndim:
        return None
    chosen = partial(function, sizes, wraps)
    made = Array.of(chosen(*[v.numpy() for v in arrays], known), x.weak_type)
    if recording.tape is not None:
        if known is starts:
            recording.tape.note(chosen, [*arrays, starts], made)
        elif parts:
            again = partial(_from, chosen, len(arrays), type(known) is int)
            recording.tape.note(again, [*arrays, *parts], made)
        else:
            again = partial(_from_vector, chosen)
            recording.tape.note(again, [*arrays, starts], made)
    return made


def is_start(start: Any) -> bool:
    """Is it one integer whose value is at hand?"""
    if type(start) is int:
        return True
    return _is_host(start) and start.ndim == 0


def _is_host(x: Any) -> bool:
    return type(x) is Array and x.memory.host and dtypes.is_integer(x.dtype)


def _number_of(start: Any) -> Any:
    return start if type(start) is int else start.numpy()


def _from(function: Any, arrays: int, alone: bool, *values: Any) -> Any:
    starts = tuple([int(x) for x in values[arrays:]])
    return function(*values[:arrays], starts[0] if alone else starts)


def _from_vector(function: Any, *values: Any) -> Any:
    *arrays, starts = values
    return function(*arrays, tuple(starts.tolist()))


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


_ALL = slice(None)


def _line(axis: int, sizes: Any, wraps: Any, x: Any, start: int) -> Any:
    part = _bounds(start, x.shape[axis], sizes[axis], wraps[axis])
    return (_ALL,) * axis + (part,) if axis else part


def sliced_along(axis: int, sizes: Any, wraps: Any, x: Any, start: int) -> Any:
    return x[_line(axis, sizes, wraps, x, start)]


def replaced_along(
    axis: int, sizes: Any, wraps: Any, x: Any, part: Any, start: int
) -> Any:
    result: Any = np.array(x)
    index = [slice(0, n) for n in sizes]
    index[axis] = _bounds(start, x.shape[axis], sizes[axis], wraps[axis])
    result[tuple(index)] = part
    return result
