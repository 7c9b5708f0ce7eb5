"""Slices of axes whose sizes may be dynamic."""

from __future__ import annotations

from typing import Any, NoReturn

from ftrace.errors import DynamicDimensionError, ValueRangeError
from ftrace.trace.symbolic.bounds import surely_at_most, surely_less
from ftrace.trace.symbolic.dim import (
    any_dynamic,
    bounds,
    is_dynamic,
    symbols_of,
    undecided,
)


def dynamic_slice_bounds(part: slice, size: Any) -> tuple[tuple[Any, Any], Any]:
    """((start, stop), step) of a slice; the stop is next to the last element.

    Raises:
      DynamicDimensionError: it depends on sizes which elements those are.
    """
    step = 1 if part.step is None else part.step
    if type(step) is not int:
        undecided(step, "==", 1)
    if step == 0:
        raise ValueRangeError("the step of a slice must not be 0")
    first, last = (0, size) if step > 0 else (size - 1, -1)
    start = first if part.start is None else _place(part, part.start, size, step)
    stop = last if part.stop is None else _place(part, part.stop, size, step)
    count = -((start - stop) // step)
    low, high = bounds(count)
    if high < 1:
        return (0, 0), 1
    if low < 1:
        _unclear(part, size, "may be empty")
    end = start + (count - 1) * step
    lowest, highest = (start, end) if step > 0 else (end, start)
    return (lowest, highest + 1), 1 if high == 1 else step


def _place(part: slice, given: Any, size: Any, step: int) -> Any:
    """Where a bound of a slice is, counted from the front and inside the axis."""
    place = given if is_dynamic(given) else int(given)
    if surely_less(place, 0):
        place = place + size
    low, high = (0, size) if step > 0 else (-1, size - 1)
    if surely_at_most(low, place) and surely_at_most(place, high):
        return place
    for end in (low, high):
        if surely_at_most(place, end) if end is low else surely_at_most(end, place):
            return end
    _unclear(part, size, "may reach beyond its end")


def _unclear(part: slice, size: Any, what: str) -> NoReturn:
    text = ":".join("" if b is None else str(b) for b in (part.start, part.stop))
    text += "" if part.step is None else f":{part.step}"
    symbols = ", ".join(
        f"{s.name} in {s.min}..{s.max}" for s in sorted(symbols_of((size,)))
    )
    raise DynamicDimensionError(
        f"the slice [{text}] of an axis of size {size} {what}, for some sizes of the "
        f"range ({symbols}). Give the dimension a range in which it does not, as in "
        'ftrace.Dim("batch", min=8), or use ftrace.numpy.where'
    )


def steps_between(low: Any, high: Any, step: int) -> Any:
    """len(range(low, high, step)) of a range that is not empty, or of numbers."""
    if not any_dynamic((low, high)):
        return len(range(low, high, step))
    return -((low - high) // step)
