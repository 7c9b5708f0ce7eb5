"""Sets: unique elements, unions, intersections, differences, membership.

All of them sort, and look at groups of equal elements side by side:

    3 1 3 2   ->   ordered 1 2 3 3     places 1 3 0 2     begins T T T F

How many elements a result has depends on the values: where these are traced, `size=`
says it.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, TypeVar

import numpy as np

from ftrace import dtypes
from ftrace.errors import ValueRangeError, one_of
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.numpy import axes as ax, elementwise as ew, logic
from ftrace.numpy.cumulative import cumsum, scan_with
from ftrace.numpy.joining import concatenate
from ftrace.numpy.shape import ravel
from ftrace.numpy.sorting import nonzero, positions_along, searchsorted, sort_along
from ftrace.trace.bind import bind
from ftrace.trace.eager.function_objects import member
from ftrace.trace.primitives.indexing import gather_p, scatter_p
from ftrace.trace.tracing.tracer import Value

__all__ = [
    "intersect1d", "isin", "setdiff1d", "setxor1d", "union1d", "unique", "unique_all",
    "unique_counts", "unique_inverse", "unique_values",
]  # fmt: skip


T = TypeVar("T")


class Groups(NamedTuple):
    """The elements along the leading axis in order, equal ones side by side.

    Attributes:
      ordered: the elements.
      where: where each of them was.
      begins: whether it is the first of its group.
    """

    ordered: Any
    where: Any
    begins: Any


def groups_of(x: Any, equal_nan: bool = True, placed: bool = True) -> Groups:
    """The groups of the elements, or slices, along the leading axis.

    Elements whose places nobody asks for (`placed`) are sorted by themselves, which is
    several times as fast as to sort their places.
    """
    if equal_nan and dtypes.is_complex(x.dtype):  # in order, and equal: by both parts
        x = ax.choose(x == x, x, ax.cast(complex(np.nan, np.nan), x.dtype))
    size, width = x.shape[0], prod(x.shape[1:])
    table = ax.reshape(x, (size, width))
    if width == 0 or not (placed or x.ndim > 1):
        places = ax.iota(dtypes.int32, (size,), 0)
        ordered = sort_along(table, 0)
    else:
        places = positions_along([table[:, i] for i in range(width)], 0)
        ordered = bind(gather_p, table, places, arg=(0,))
    before, behind = ordered[:-1], ordered[1:]
    differs = behind != before
    if equal_nan and dtypes.is_inexact(x.dtype):
        differs = differs & ~((before != before) & (behind != behind))
    begins = concatenate([ax.full((1,), True, dtypes.bool_), differs.any(1)])
    return Groups(ax.reshape(ordered, x.shape), places, begins)


def choose(name: str, values: Any, flags: Any, size: Any, fill_value: Any) -> Any:
    """Where the flags are set, the values, along the leading axis.

    Args:
      name: of the function, for messages.
      values, flags: of one size along that axis.
      size: how many are returned; None where the flags are known: all.
      fill_value: what fills the rest; by default the first one, or 0 if there is none.

    Raises:
      ConcretizationTypeError: how many there are depends on values that are not known.
    """
    if size is not None:
        size = ax.check_count(size, f"{name}: size")
    else:
        ax.need_known(flags, f"{name}: the size of the result", "give size=n")
    fill, weak = fill_value, values.weak_type
    if fill is not None:
        fill = ax.cast(fill, values.dtype, weak)
    (places,) = nonzero(flags, size=size)
    result = bind(gather_p, values, places, arg=(0,))
    if not size:
        return result
    found = flags.sum()
    if fill is None:
        fill = ax.choose(found > 0, result[:1], ax.cast(0, values.dtype, weak))
    there = ax.iota(dtypes.int32, (size,), 0) < found
    return ax.choose(ax.insert_axes(there, range(1, values.ndim)), result, fill)


#: Up to so many test elements each is compared with each.
FEW_TESTS = 16


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

    Example:
      >>> x = fnp.array([3, 1, 3, 2])
      >>> fnp.unique(x)
      Array([1, 2, 3], dtype=int32)
      >>> fnp.unique(x, return_counts=True)
      (Array([1, 2, 3], dtype=int32), Array([1, 1, 2], dtype=int32))
      >>> ft.jit(lambda x: fnp.unique(x, size=4, fill_value=-1))(x)
      Array([ 1,  2,  3, -1], dtype=int32)
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
    x: Any, size: Any, fill_value: Any, equal_nan: bool, wanted: tuple[bool, bool, bool]
) -> UniqueAll:
    """Along the leading axis; of indices, inverse and counts those that are wanted."""
    return_index, return_inverse, return_counts = wanted
    integer = dtypes.default_dtype("i")
    length = x.shape[0]
    if length == 0:
        return _unique_of_none(x, size, fill_value)
    groups = groups_of(x, equal_nan, return_index or return_inverse)
    values = choose("unique", groups.ordered, groups.begins, size, fill_value)
    index = inverse = counts = None
    if return_index:
        index = choose("unique", groups.where, groups.begins, size, None)
        index = ax.cast(index, integer)
    if return_counts or return_inverse:
        number = cumsum(groups.begins, dtype=dtypes.int32) - 1
        zeros, nothing = (ax.full((n,), 0, integer) for n in (len(values), length))
        if return_counts:
            ones = ax.full((length,), 1, integer)
            counts = bind(scatter_p, zeros, ones, number, arg=((0,), "add"))
        if return_inverse:
            number = ax.cast(number, integer)
            inverse = bind(scatter_p, nothing, number, groups.where, arg=((0,), "set"))
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
    """The different elements in ascending order; each NaN is one of its own.

    Args:
      x: the array.
      size: how many are returned; required where `x` is traced.
      fill_value: what fills the rest; by default the least element.

    Raises:
      ConcretizationTypeError: `x` is traced, and `size` is not given.

    Example:
      >>> fnp.unique_values(fnp.array([3, 1, 3, 2]))
      Array([1, 2, 3], dtype=int32)
    """
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)


def _find_unique(name: str, made: Callable[..., T], **asked: bool):
    def parts(
        x: Value, /, *, size: int | None = None, fill_value: Value | None = None
    ) -> T:
        """Different elements, and more; each NaN is one of its own.

        Args:
          x: the array.
          size: how many are returned; required where `x` is traced.
          fill_value: what fills the rest; by default the least element.

        Raises:
          ConcretizationTypeError: `x` is traced, and `size` is not given.
        """
        given: Any = {**asked, "size": size, "fill_value": fill_value}
        return made(*unique(x, equal_nan=False, **given))

    parts.__annotations__["return"] = made
    return parts


@member(_find_unique, UniqueCounts, return_counts=True)
def unique_counts():
    """The different elements, and how often each of them is there.

    Example:
      >>> fnp.unique_counts(fnp.array([3, 1, 3, 2])).counts
      Array([1, 1, 2], dtype=int32)
    """


@member(_find_unique, UniqueInverse, return_inverse=True)
def unique_inverse():
    """The different elements, and for each element which of them it is.

    Example:
      >>> fnp.unique_inverse(fnp.array([3, 1, 3, 2])).inverse_indices
      Array([2, 0, 2, 1], dtype=int32)
    """


@member(
    _find_unique, UniqueAll, return_index=True, return_inverse=True, return_counts=True
)
def unique_all():
    """All that `unique` can return: values, indices, inverse_indices, counts.

    Example:
      >>> fnp.unique_all(fnp.array([3, 1, 3, 2])).indices
      Array([1, 3, 0], dtype=int32)
    """


# Two sets.


class _Sides(NamedTuple):
    """The groups of two vectors one after the other.

    In each group the elements of the first vector stand before those of the second.

    Attributes:
      groups: of both.
      first: for each sorted element, whether it is of the first vector.
      ends: whether it is the last of its group.
    """

    groups: Groups
    first: Any
    ends: Any


def _sides(x: Any, y: Any) -> _Sides:
    groups = groups_of(concatenate([ravel(x), ravel(y)]))
    last = ax.full((1,), True, dtypes.bool_)
    ends = concatenate([groups.begins[1:], last])
    return _Sides(groups, groups.where < x.size, ends)


def _nothing(x: Any, size: Any, fill_value: Any) -> Any:
    fill = 0 if fill_value is None else fill_value
    return _unique_of_none(ax.full((0,), 0, x.dtype), size, fill).values


def union1d(
    ar1: Value, ar2: Value, *, size: int | None = None, fill_value: Value | None = None
) -> Any:
    """The elements of one array or the other, each once, in ascending order.

    Args:
      ar1, ar2: arrays, which are flattened.
      size: how many are returned; required where an array is traced.
      fill_value: what fills the rest; by default the least element.

    Raises:
      ConcretizationTypeError: an array is traced, and `size` is not given.

    Example:
      >>> fnp.union1d(fnp.array([3, 1]), fnp.array([1, 2]))
      Array([1, 2, 3], dtype=int32)
    """
    joined = concatenate([ravel(x) for x in ew.promote_together(ar1, ar2)])
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

    Example:
      >>> fnp.intersect1d(fnp.array([3, 1, 1]), fnp.array([1, 2, 3]))
      Array([1, 3], dtype=int32)
    """
    x, y = ew.promote_together(ar1, ar2)
    integer = dtypes.default_dtype("i")
    if x.size == 0 or y.size == 0:
        nothing = _nothing(x, size, fill_value)
        none = ax.full(nothing.shape, 0, integer)
        return (nothing, none, none) if return_indices else nothing
    (ordered, places, begins), first, _ = _sides(x, y)
    # The first element of the second vector, behind those of the first one.
    before = concatenate([ax.full((1,), False, dtypes.bool_), first[:-1]])
    both = before & ~first & ~begins & (ordered == ordered)
    numbers = ax.iota(dtypes.int32, places.shape, 0)
    start = scan_with(ax.choose(begins, numbers, 0), "max", 0, False)
    # The result is made of elements of the first vector, which its gradient goes to.
    values = bind(gather_p, ordered, start, arg=(0,))
    values = choose("intersect1d", values, both, size, fill_value)
    if not return_indices:
        return values
    parts = (bind(gather_p, places, start, arg=(0,)), x.size), (places - x.size, y.size)
    found = [
        choose("intersect1d", part, both, size, ax.full((), end, part.dtype))
        for part, end in parts
    ]
    return values, *[ax.cast(part, integer) for part in found]


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

    Example:
      >>> fnp.setdiff1d(fnp.array([3, 1, 4]), fnp.array([1, 2]))
      Array([3, 4], dtype=int32)
    """
    own = ew.values_together([ar1, ar2])[0]
    fill = 0 if fill_value is None else fill_value
    if own.size == 0:
        return _nothing(own, size, fill)
    if assume_unique:
        vector = ravel(own)
        flags = isin(vector, ar2, invert=True)
        return choose("setdiff1d", vector, flags, size, fill)
    (ordered, _, begins), first, ends = _sides(*ew.promote_together(own, ar2))
    alone = ax.choose(ordered == ordered, ends, begins) & first
    values = choose("setdiff1d", ordered, alone, size, fill)
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
      assume_unique: what is repeated in one array counts as in both.
      size: how many are returned; required where an array is traced.
      fill_value: what fills the rest; by default the least element, or 0.

    Raises:
      ConcretizationTypeError: an array is traced, and `size` is not given.

    Example:
      >>> fnp.setxor1d(fnp.array([3, 1]), fnp.array([1, 2]))
      Array([2, 3], dtype=int32)
    """
    x, y = ew.promote_together(ar1, ar2)
    if x.size + y.size == 0:
        return _nothing(x, size, fill_value)
    (ordered, _, begins), first, ends = _sides(x, y)
    # A NaN differs from those of the other array: each array keeps one.
    false = ax.full((1,), False, dtypes.bool_)
    apart = ordered != ordered
    ends = ends | apart & ~concatenate([first[1:], false])
    begins = begins | apart & concatenate([false, first[:-1]])
    alone = begins & ends if assume_unique else ax.choose(first, ends, begins)
    return choose("setxor1d", ordered, alone, size, fill_value)


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

    Returns:
      An array of bools of the shape of `element`.

    Raises:
      ValueRangeError: there is no such method.

    Example:
      >>> fnp.isin(fnp.array([1, 2, 3]), fnp.array([3, 1]))
      Array([ True, False,  True], dtype=bool)
    """
    one_of("isin: method", method, ("auto", "compare_all", "binary_search", "sort"))
    x, tests = ew.promote_together(element, test_elements)
    if x.size == 0 or tests.size == 0:
        return ax.full(x.shape, invert, dtypes.bool_)
    tests = ax.reshape(tests, (tests.size,))
    if method == "compare_all" or (method == "auto" and tests.size <= FEW_TESTS):
        found = (ax.insert_axes(x, (x.ndim,)) == tests).any(-1)
    else:
        ordered = sort_along(tests, 0)
        places = logic.minimum(searchsorted(ordered, x), tests.size - 1)
        found = bind(gather_p, ordered, places, arg=(0,)) == x
    return ~found if invert else found
