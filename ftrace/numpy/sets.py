"""Sets: unique elements, unions, intersections, differences, membership.

All of them sort, and look at groups of equal elements side by side:

    3 1 3 2   ->   ordered 1 2 3 3     places 1 3 0 2     begins T T T F

How many elements a result has depends on the values: where these are traced, `size=`
says it.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.arrays.array import is_array
from ftrace.errors import ConcretizationTypeError, ValueRangeError
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.numpy import axes as ax
from ftrace.numpy.cumulative import scan_with
from ftrace.numpy.elementwise import promote_together, values_together
from ftrace.numpy.joining import concatenate
from ftrace.numpy.reductions import reduced
from ftrace.numpy.searching import nonzero, searchsorted
from ftrace.numpy.sorting import positions_along, sort_along
from ftrace.trace.bind import bind, do_now, elementwise
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.broadcast import reduce_sum_p
from ftrace.trace.primitives.indexing import gather_p, scatter_p
from ftrace.trace.primitives.reduction import reduce_max_p
from ftrace.trace.tracing.tracer import Tracer, Value, unbound_variable

__all__ = [
    "intersect1d", "isin", "setdiff1d", "setxor1d", "union1d", "unique", "unique_all",
    "unique_counts", "unique_inverse", "unique_values",
]  # fmt: skip


class Groups(NamedTuple):
    """The elements along the leading axis in order, equal ones side by side.

    Attributes:
      ordered: the elements.
      places: where each of them was.
      begins: whether it is the first of its group.
    """

    ordered: Any
    places: Any
    begins: Any


def groups_of(x: Any, equal_nan: bool = True, placed: bool = True) -> Groups:
    """The groups of the elements, or slices, along the leading axis.

    Elements whose places nobody asks for (`placed`) are sorted by themselves, which is
    several times as fast as to sort their places.
    """
    size, width = x.shape[0], prod(x.shape[1:])
    table = ax.reshape(x, (size, width))
    if width == 0 or not (placed or x.ndim > 1):
        places = ax.iota(dtypes.int32, (size,), 0)
        ordered = sort_along(table, 0)
    else:
        columns = [ax.shrink_axis(table, 1, i, i + 1) for i in range(width)]
        places = positions_along([ax.reshape(c, (size,)) for c in columns], 0)
        ordered = bind(gather_p, table, places, arg=(0,))
    before = ax.shrink_axis(ordered, 0, 0, size - 1)
    behind = ax.shrink_axis(ordered, 0, 1, size)
    differs = elementwise(p.ne, behind, before)
    if equal_nan and dtypes.is_inexact(x.dtype):
        both = elementwise(p.bit_and, _missing(before), _missing(behind))
        differs = elementwise(p.bit_and, differs, bind(p.bit_not, both))
    if width:
        later = ax.drop_axes(reduced(reduce_max_p, differs, (1,), True), (1,))
    else:
        later = ax.full((size - 1,), False, dtypes.bool_)
    begins = concatenate([ax.full((1,), True, dtypes.bool_), later])
    return Groups(ax.reshape(ordered, x.shape), places, begins)


def numbers_of(begins: Any) -> Any:
    """For each sorted element the number of its group."""
    counted = scan_with(ax.cast(begins, dtypes.int32), reduce_sum_p, 0, False)
    return elementwise(p.sub, counted, 1)


def _missing(x: Any) -> Any:
    return bind(p.ne, x, x)


def count_of(name: str, flags: Any, size: Any) -> int:
    """How many flags are set, or the number that the user gave instead.

    Raises:
      ConcretizationTypeError: it depends on values that are not known.
    """
    if size is not None:
        return ax.check_count(size, f"{name}: size")
    total = reduced(reduce_sum_p, ax.cast(flags, dtypes.int32), (0,), False)
    if isinstance(total, Tracer) and unbound_variable(total.node) is not None:
        raise ConcretizationTypeError(
            f"{name}: how many elements the result has depends on the values of a "
            f"traced array; give size=n"
        )
    return int(total)


def chosen(values: Any, flags: Any, count: int, fill_value: Any) -> Any:
    """Where the flags are set, the values; behind them the first one, or `fill_value`.

    Along the leading axis; zero where there is none.
    """
    found = _total(flags)
    (places,) = nonzero(flags, size=count)
    result = bind(gather_p, values, places, arg=(0,))
    if count == 0:
        return result
    weak = values.weak_type
    if fill_value is None:
        first, nothing = ax.shrink_axis(result, 0, 0, 1), ax.cast(0, values.dtype, weak)
        fill = ax.choose(elementwise(p.gt, found, 0), first, nothing)
    else:
        fill = ax.cast(fill_value, values.dtype, weak)
    there = elementwise(p.lt, ax.iota(dtypes.int32, (count,), 0), found)
    there = ax.insert_axes(there, range(1, values.ndim))
    return ax.choose(there, result, fill)


def _total(flags: Any) -> Any:
    return reduced(reduce_sum_p, ax.cast(flags, dtypes.int32), (0,), False)


#: Up to so many test elements each is compared with each.
FEW = 16
#: From so many elements on a pass over them per test element takes less time than one
#: over the elements times the test elements.
LONG = 1024


class UniqueAll(NamedTuple):
    """What `unique_all` returns."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCounts(NamedTuple):
    """What `unique_counts` returns."""

    values: Any
    counts: Any


class UniqueInverse(NamedTuple):
    """What `unique_inverse` returns."""

    values: Any
    inverse_indices: Any


# unique


def unique(
    ar: Value,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: Value | None = None,
    sorted: bool = True,
) -> Any:
    """The different elements in ascending order, or the different slices along an axis.

    Args:
      ar: the array.
      return_index: also return where each of them is first.
      return_inverse: also return, for each element, which of them it is.
      return_counts: also return how often each of them is there.
      axis: None takes single elements.
      equal_nan: all NaN are one element.
      size: how many are returned; required where `ar` is traced. More are cut off,
        fewer are filled up.
      fill_value: by default the least element.
      sorted: accepted; they are always in order.

    Returns:
      An array, or a tuple of what is asked for.

    Raises:
      ConcretizationTypeError: `ar` is traced, and `size` is not given.
      ValueRangeError: `ar` is empty, and there is nothing to fill up with.
    """
    x = ax.as_value(ar)
    wanted = (return_index, return_inverse, return_counts)
    place = 0 if axis is None else ax.canonical_axis(axis, x.ndim, "unique")
    rows = ax.reshape(x, (x.size,)) if axis is None else ax.move_axis(x, place, 0)
    found = _unique(rows, size, fill_value, equal_nan, wanted)
    values, inverse = found.values, found.inverse_indices
    if axis is None and return_inverse:
        inverse = ax.reshape(inverse, x.shape)
    else:
        values = ax.move_axis(values, 0, place)
    parts = zip((found.indices, inverse, found.counts), wanted, strict=True)
    extra = [part for part, asked in parts if asked]
    return (values, *extra) if extra else values


def _unique(
    x: Any,
    size: Any,
    fill_value: Any,
    equal_nan: bool,
    wanted: tuple[bool, bool, bool],
) -> UniqueAll:
    """Along the leading axis; of indices, inverse and counts those that are wanted."""
    return_index, return_inverse, return_counts = wanted
    integer = dtypes.default_dtype("i")
    length = x.shape[0]
    if length == 0:
        return _unique_of_none(x, size, fill_value)
    groups = groups_of(x, equal_nan, return_index or return_inverse)
    count = count_of("unique", groups.begins, size)
    values = chosen(groups.ordered, groups.begins, count, fill_value)
    index = inverse = counts = None
    if return_index:
        index = ax.cast(chosen(groups.places, groups.begins, count, None), integer)
    if return_counts or return_inverse:
        number = numbers_of(groups.begins)
        ones, zeros = ax.full((length,), 1, integer), ax.full((count,), 0, integer)
        if return_counts:
            counts = bind(scatter_p, zeros, ones, number, arg=((0,), "add"))
        if return_inverse:
            inverse = bind(
                scatter_p, ax.full((length,), 0, integer), ax.cast(number, integer),
                groups.places, arg=((0,), "set"),
            )  # fmt: skip
    return UniqueAll(values, index, inverse, counts)


def _unique_of_none(x: Any, size: Any, fill_value: Any) -> UniqueAll:
    count = 0 if size is None else ax.check_count(size, "unique: size")
    if count and fill_value is None:
        raise ValueRangeError(
            f"unique: an array of shape {x.shape} has no element to fill up to "
            f"size={count}; give fill_value="
        )
    integer = dtypes.default_dtype("i")
    fill = ax.cast(0 if fill_value is None else fill_value, x.dtype, x.weak_type)
    values = ax.choose(ax.full((count, *x.shape[1:]), True, dtypes.bool_), fill, fill)
    zeros, inverse = ax.full((count,), 0, integer), ax.full((0,), 0, integer)
    return UniqueAll(values, zeros, inverse, zeros)


def unique_values(
    x: Value, /, *, size: int | None = None, fill_value: Value | None = None
) -> Any:
    """The different elements in ascending order; arguments as in `unique`."""
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)


def unique_counts(
    x: Value, /, *, size: int | None = None, fill_value: Value | None = None
) -> UniqueCounts:
    """The different elements, and how often each of them is there."""
    found = unique(
        x, return_counts=True, equal_nan=False, size=size, fill_value=fill_value
    )
    return UniqueCounts(*found)


def unique_inverse(
    x: Value, /, *, size: int | None = None, fill_value: Value | None = None
) -> UniqueInverse:
    """The different elements, and for each element which of them it is."""
    found = unique(
        x, return_inverse=True, equal_nan=False, size=size, fill_value=fill_value
    )
    return UniqueInverse(*found)


def unique_all(
    x: Value, /, *, size: int | None = None, fill_value: Value | None = None
) -> UniqueAll:
    """All that `unique` can return."""
    found = unique(
        x, True, True, True, equal_nan=False, size=size, fill_value=fill_value
    )
    return UniqueAll(*found)


# Two sets.


class _Pair(NamedTuple):
    """The groups of two vectors one after the other.

    Attributes:
      groups: of both.
      split: the size of the first.
      in_first, in_second: for each sorted element, whether its group has elements of
        the first (second) vector; NaN is alone in that.
      second: for each sorted element, the first place of its group in the second one.
    """

    groups: Groups
    split: int
    in_first: Any
    in_second: Any
    second: Any


def _pair(ar1: Value, ar2: Value) -> _Pair:
    first, second = promote_together(ar1, ar2)
    split, total = first.size, first.size + second.size
    parts = [ax.reshape(first, (split,)), ax.reshape(second, (second.size,))]
    groups = groups_of(concatenate(parts))
    number = numbers_of(groups.begins)
    from_first = elementwise(p.lt, groups.places, split)

    def of_group(values: Any, start: int, kind: str) -> Any:
        board = ax.full((total,), start, dtypes.int32)
        board = bind(
            scatter_p, board, ax.cast(values, dtypes.int32), number,
            arg=((0,), kind),
        )  # fmt: skip
        return bind(gather_p, board, number, arg=(0,))

    has_first = ax.cast(of_group(from_first, 0, "max"), dtypes.bool_)
    has_second = of_group(bind(p.bit_not, from_first), 0, "max")
    has_second = ax.cast(has_second, dtypes.bool_)
    behind = ax.choose(from_first, total, groups.places)
    places = elementwise(p.sub, of_group(behind, total, "min"), split)
    return _Pair(groups, split, has_first, has_second, places)


def _is_number(x: Any) -> Any:
    return bind(p.eq, x, x)


def _select(
    name: str, pair: _Pair, flags: Any, size: Any, fill_value: Any
) -> tuple[Any, Any, int]:
    """The values of the groups whose first elements have the flag."""
    flags = elementwise(p.bit_and, flags, pair.groups.begins)
    count = count_of(name, flags, size)
    return chosen(pair.groups.ordered, flags, count, fill_value), flags, count


def _is_empty(ar1: Value, ar2: Value) -> bool:
    return ax.as_value(ar1).size + ax.as_value(ar2).size == 0


def _nothing(ar1: Value, ar2: Value, size: Any, fill_value: Any) -> Any:
    first, _ = promote_together(ar1, ar2)
    fill = 0 if fill_value is None else fill_value
    return _unique_of_none(ax.reshape(first, (0,)), size, fill).values


def union1d(
    ar1: Value,
    ar2: Value,
    *,
    size: int | None = None,
    fill_value: Value | None = None,
) -> Any:
    """The elements of one array or the other, each once, in ascending order.

    Args:
      ar1, ar2: arrays, which are flattened.
      size: how many are returned; required where an array is traced.
      fill_value: what fills the rest; by default the least element.

    Raises:
      ConcretizationTypeError: an array is traced, and `size` is not given.
    """
    parts = promote_together(ar1, ar2)
    joined = concatenate([ax.reshape(x, (x.size,)) for x in parts])
    return unique(joined, size=size, fill_value=fill_value)


def intersect1d(
    ar1: Value,
    ar2: Value,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: Value | None = None,
) -> Any:
    """The elements that both arrays have, each once, in ascending order.

    Args:
      ar1, ar2: arrays, which are flattened.
      assume_unique: accepted, without effect.
      return_indices: also return where each is first in `ar1` and in `ar2`.
      size: how many are returned; required where an array is traced.
      fill_value: what fills the rest; by default the least element, or 0.

    Raises:
      ConcretizationTypeError: an array is traced, and `size` is not given.
    """
    integer = dtypes.default_dtype("i")
    if _is_empty(ar1, ar2):
        nothing = _nothing(ar1, ar2, size, fill_value)
        none = ax.full(nothing.shape, 0, integer)
        return (nothing, none, none) if return_indices else nothing
    pair = _pair(ar1, ar2)
    both = elementwise(p.bit_and, pair.in_first, pair.in_second)
    both = elementwise(p.bit_and, both, _is_number(pair.groups.ordered))
    values, flags, count = _select("intersect1d", pair, both, size, fill_value)
    if not return_indices:
        return values
    ends = pair.split, pair.groups.ordered.shape[0] - pair.split
    places = [
        ax.cast(chosen(part, flags, count, ax.full((), end, part.dtype)), integer)
        for part, end in zip((pair.groups.places, pair.second), ends, strict=True)
    ]
    return (values, *places)


def setdiff1d(
    ar1: Value,
    ar2: Value,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: Value | None = None,
) -> Any:
    """The elements of `ar1` that `ar2` does not have, each once, in ascending order.

    Args:
      ar1, ar2: arrays, which are flattened.
      assume_unique: leave the elements in their order, and all of them there.
      size: how many are returned; required where an array is traced.
      fill_value: what fills the rest; by default 0.

    Raises:
      ConcretizationTypeError: an array is traced, and `size` is not given.
    """
    own = values_together([ar1, ar2])[0]
    fill = 0 if fill_value is None else fill_value
    if own.size == 0:
        return _unique_of_none(ax.reshape(own, (0,)), size, fill).values
    if assume_unique:
        vector = ax.reshape(own, (own.size,))
        flags = isin(vector, ar2, invert=True)
        return chosen(vector, flags, count_of("setdiff1d", flags, size), fill)
    pair = _pair(own, ar2)
    missing = bind(p.bit_not, _is_number(pair.groups.ordered))
    alone = elementwise(p.bit_or, bind(p.bit_not, pair.in_second), missing)
    alone = elementwise(p.bit_and, alone, pair.in_first)
    values, _, _ = _select("setdiff1d", pair, alone, size, fill)
    return ax.cast(values, own.dtype, own.weak_type)


def setxor1d(
    ar1: Value,
    ar2: Value,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: Value | None = None,
) -> Any:
    """The elements that one array alone has, each once, in ascending order.

    Args:
      ar1, ar2: arrays, which are flattened.
      assume_unique: accepted, without effect.
      size: how many are returned; required where an array is traced.
      fill_value: what fills the rest; by default the least element, or 0.

    Raises:
      ConcretizationTypeError: an array is traced, and `size` is not given.
    """
    if _is_empty(ar1, ar2):
        return _nothing(ar1, ar2, size, fill_value)
    pair = _pair(ar1, ar2)
    alone = elementwise(p.ne, pair.in_first, pair.in_second)
    return _select("setxor1d", pair, alone, size, fill_value)[0]


def _isin_now(invert: bool, x: Any, tests: Any) -> Any:
    """One pass over the elements per test element."""
    found: Any = np.equal(x, tests[0])
    same: Any = np.empty_like(found)
    for test in tests[1:]:
        found |= np.equal(x, test, out=same)
    return np.logical_not(found, out=found) if invert else found


def isin(
    element: Value,
    test_elements: Value,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    method: str = "auto",
) -> Any:
    """For each element, whether it is one of the test elements; NaN never is.

    Args:
      element: an array.
      test_elements: an array, which is flattened.
      assume_unique: accepted, without effect.
      invert: whether it is none of them.
      method: "auto", "compare_all", "binary_search" or "sort": how to look.

    Raises:
      ValueRangeError: there is no such method.
    """
    if method not in ("auto", "compare_all", "binary_search", "sort"):
        raise ValueRangeError(
            "isin: the methods are 'auto', 'compare_all', 'binary_search' and 'sort'; "
            f"got {method!r}"
        )
    x, tests = promote_together(element, test_elements)
    if x.size == 0 or tests.size == 0:
        return ax.full(x.shape, invert, dtypes.bool_)
    tests = ax.reshape(tests, (tests.size,))
    known = is_array(x) and is_array(tests)
    if known and method == "auto" and tests.size <= FEW and x.size >= LONG:
        function = partial(_isin_now, invert)
        now = do_now(function, x, tests, dtype=dtypes.bool_, weak=False)
        if now is not None:
            return now
    if method == "compare_all" or (method == "auto" and tests.size <= FEW):
        line = ax.insert_axes(x, (x.ndim,))
        equal = elementwise(p.eq, line, tests)
        found = ax.drop_axes(reduced(reduce_max_p, equal, (x.ndim,), True), (x.ndim,))
    else:
        ordered = sort_along(tests, 0)
        places = elementwise(p.minimum, searchsorted(ordered, x), tests.size - 1)
        found = elementwise(p.eq, bind(gather_p, ordered, places, arg=(0,)), x)
    return bind(p.bit_not, found) if invert else found
