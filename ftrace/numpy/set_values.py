"""Sets of arrays of NumPy's: what `sets.py` composes, where all values are at hand.

Elements are brought into order by a stable sort, so that of equal ones (0 and -0) the
first stands for all.
"""

from __future__ import annotations

from typing import Any

import numpy

from ftrace.trace.primitives.host.order import argsort, places_in_order, sort_values

np: Any = numpy  # whose stubs leave too much unknown

Array = Any  # numpy.ndarray


def _begins(ordered: Array, equal_nan: bool) -> Array:
    """Whether each is the first of those that are equal."""
    begins = np.empty(ordered.shape, np.bool_)
    begins[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=begins[1:])
    if equal_nan and ordered.dtype.kind == "f" and np.isnan(ordered[-1]):
        missing = np.isnan(ordered)
        begins[1:] &= ~(missing[1:] & missing[:-1])
    return begins


def unique(
    x: Array,
    equal_nan: bool,
    wanted: tuple[bool, bool, bool],
    integer: Any,
) -> Any:
    """The different elements; where wanted, first places, numbers and counts."""
    flat = x.reshape(-1)
    if not any(wanted):
        ordered = sort_values(flat, 0)
        return ordered[_begins(ordered, equal_nan)]
    places = places_in_order(flat)
    ordered = flat[places]
    begins = _begins(ordered, equal_nan)
    found = _described(begins, places, wanted, integer)
    if wanted[1]:
        found[wanted[0]] = found[wanted[0]].reshape(x.shape)
    return (ordered[begins], *found)


def unique_along(
    x: Array,
    axis: int,
    equal_nan: bool,
    wanted: tuple[bool, bool, bool],
    integer: Any,
) -> Any:
    """The different slices along an axis, likewise; they have elements."""
    slices = np.moveaxis(x, axis, 0)
    table = slices.reshape(len(slices), -1)
    places = argsort(list(table.T), 0)
    ordered = table[places]
    differs = ordered[1:] != ordered[:-1]
    if equal_nan and ordered.dtype.kind == "f":
        missing = np.isnan(ordered)
        differs &= ~(missing[1:] & missing[:-1])
    begins = np.ones(len(ordered), np.bool_)
    differs.any(1, out=begins[1:])
    values = ordered[begins].reshape(-1, *slices.shape[1:])
    found = _described(begins, places, wanted, integer)
    values = np.ascontiguousarray(np.moveaxis(values, 0, axis))
    return (values, *found) if found else values


def _described(
    begins: Array, places: Array, wanted: tuple[bool, bool, bool], integer: Any
) -> list[Array]:
    """Where wanted: the first place of each, which of them each is, how often it is."""
    found: list[Array] = []
    if wanted[0]:
        found.append(places[begins].astype(integer))
    if wanted[1]:
        numbers = np.empty(places.shape, integer)
        numbers[places] = begins.cumsum() - 1
        found.append(numbers)
    if wanted[2]:
        (firsts,) = begins.nonzero()
        counts = np.empty(firsts.size, integer)
        counts[-1] = places.size - firsts[-1]
        np.subtract(firsts[1:], firsts[:-1], out=counts[:-1], casting="unsafe")
        found.append(counts)
    return found


def of_two(x: Array, y: Array, kind: str, integer: Any) -> Any:
    """The different elements that both have, that x alone has, or that one alone has.

    Args:
      kind: "both", "first" or "one"; "places" of both also says where each is first. A
        NaN of x and one of y are not equal.
      integer: the dtype of places.
    """
    joined = np.concatenate((x.reshape(-1), y.reshape(-1)))
    places = places_in_order(joined)
    ordered = joined[places]
    begins = _begins(ordered, True)
    (firsts,) = begins.nonzero()
    from_x = places < x.size
    # Of equal elements those of x come first.
    lasts = np.empty_like(firsts)
    lasts[:-1], lasts[-1] = firsts[1:], ordered.size
    lasts -= 1
    in_x, in_y = from_x[firsts], ~from_x[lasts]
    values = ordered[firsts]
    if kind == "one":
        return values[in_x != in_y]
    number = values == values
    if kind == "places":
        chosen = in_x & in_y & number
        of_x = np.add.reduceat(from_x, firsts, dtype=np.intp)
        in_second = places[(firsts + of_x)[chosen]] - x.size
        at = places[firsts[chosen]], in_second
        return values[chosen], *[part.astype(integer) for part in at]
    return values[in_x & in_y & number if kind == "both" else in_x & ~(in_y & number)]
