"""What is asked of sizes, which may be numbers or dynamic dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd
from typing import Any, NoReturn

from ftrace.errors import DynamicDimensionError, ValueRangeError
from ftrace.trace.symbolic import dim
from ftrace.trace.symbolic.dim import Dim

#: What a dimension is taken for where cost is estimated.
_SAMPLE = 1024

#: Sizes of dynamic dimensions, by name.
Sizes = Mapping[str, int]


def surely_less(a: Any, b: Any) -> bool:
    """Is a < b for all sizes?"""
    if type(a) is not Dim and type(b) is not Dim:
        return a < b
    return dim.bounds(b - a)[0] > 0


def surely_at_most(a: Any, b: Any) -> bool:
    """Is a <= b for all sizes?"""
    if type(a) is not Dim and type(b) is not Dim:
        return a <= b
    return dim.bounds(b - a)[0] >= 0


def lower_bound(size: Any) -> int:
    return dim.bounds(size)[0]


def upper_bound(size: Any) -> int:
    return dim.bounds(size)[1]


def common_divisor(*values: Any) -> Any:
    """A number or a Dim that divides all of the values: not always the greatest."""
    numbers = [v for v in values if type(v) is not Dim]
    dims = [v for v in values if type(v) is Dim]
    if not dims:
        return gcd(*numbers)
    contents = gcd(*numbers, *[c for d in dims for _, c in d.terms])
    nonzero = [v for v in values if type(v) is Dim or v != 0]
    for candidate in dims:
        if all(_divides(candidate, v) for v in nonzero):
            return candidate
    return contents


def _divides(divisor: Dim, value: Any) -> bool:
    if dim.bounds(divisor)[0] <= 0:
        return False
    rest: Any = value - value // divisor * divisor
    return dim.same_size(rest, 0)


def sample(size: Any) -> int:
    """A size that it may have, for estimates of cost."""
    if type(size) is not Dim:
        return size
    return evaluate(size, _Samples())


class _Samples(dict[str, int]):
    """For each name a size in the middle of things; `_value` looks at the ranges."""

    def __missing__(self, name: str) -> int:
        return _SAMPLE


def evaluate(size: Any, sizes: Sizes) -> int:
    """The number that a size is, given those of the named dimensions."""
    if type(size) is not Dim:
        return size
    total = 0
    for monomial, coefficient in size.terms:
        for atom, power in monomial:
            coefficient *= _value(atom, sizes) ** power
        total += coefficient
    return total


def _value(atom: dim.Symbol | dim.Quotient, sizes: Sizes) -> int:
    if isinstance(atom, dim.Symbol):
        found = sizes[atom.name]
        inside = isinstance(sizes, _Samples)
        return min(max(found, atom.min), atom.max) if inside else found
    return evaluate(atom.numerator, sizes) // evaluate(atom.divisor, sizes)


def evaluate_shape(shape: tuple[Any, ...], sizes: Sizes) -> tuple[int, ...]:
    return tuple([evaluate(n, sizes) for n in shape])


# Slices of axes whose sizes may be dynamic.


def dynamic_slice_bounds(part: slice, size: Any) -> tuple[tuple[Any, Any], Any]:
    """((start, stop), step) of a slice; the stop is next to the last element.

    Raises:
      DynamicDimensionError: it depends on sizes which elements those are.
    """
    step = 1 if part.step is None else part.step
    if type(step) is not int:
        dim.undecided(step, "==", 1)
    if step == 0:
        raise ValueRangeError("the step of a slice must not be 0")
    first, last = (0, size) if step > 0 else (size - 1, -1)
    start = first if part.start is None else _place(part, part.start, size, step)
    stop = last if part.stop is None else _place(part, part.stop, size, step)
    count = -((start - stop) // step)
    low, high = dim.bounds(count)
    if high < 1:
        return (0, 0), 1
    if low < 1:
        _unclear(part, size, "may be empty")
    end = start + (count - 1) * step
    lowest, highest = (start, end) if step > 0 else (end, start)
    return (lowest, highest + 1), 1 if high == 1 else step


def _place(part: slice, given: Any, size: Any, step: int) -> Any:
    """Where a bound of a slice is, counted from the front and inside the axis."""
    place = given if dim.is_dynamic(given) else int(given)
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
        f"{s.name} in {s.min}..{s.max}" for s in sorted(dim.symbols_of((size,)))
    )
    raise DynamicDimensionError(
        f"the slice [{text}] of an axis of size {size} {what}, for some sizes of the "
        f"range ({symbols}). Give the dimension a range in which it does not, as in "
        'ftrace.Dim("batch", min=8), or use ftrace.numpy.where'
    )


def steps_between(low: Any, high: Any, step: int) -> Any:
    """len(range(low, high, step)) of a range that is not empty, or of numbers."""
    if not dim.any_dynamic((low, high)):
        return len(range(low, high, step))
    return -((low - high) // step)
