"""Groups of equal elements: what sets are made of.

    3 1 3 2   ->   ordered 1 2 3 3     places 1 3 0 2     begins T T T F

Elements are sorted, so that equal ones stand side by side. What is chosen of them has a
size that depends on the values, or that the user gives.
"""

from __future__ import annotations

from math import prod
from typing import Any

from ftrace import dtypes
from ftrace.errors import ConcretizationTypeError
from ftrace.numpy.axes import (
    cast,
    check_count,
    choose,
    drop_axes,
    full,
    insert_axes,
    iota,
    reshape,
    shrink_axis,
)
from ftrace.numpy.cumulative import scan_with
from ftrace.numpy.joining import concatenate
from ftrace.numpy.reductions import reduced
from ftrace.numpy.searching import nonzero
from ftrace.numpy.sorting import positions_along, sort_along
from ftrace.records import NamedTuple
from ftrace.trace.operations import bind, elementwise
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.broadcast import reduce_sum_p
from ftrace.trace.primitives.indexing import gather_p
from ftrace.trace.primitives.reduction import reduce_max_p
from ftrace.trace.tracer import Tracer, unbound_variable


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
    table = reshape(x, (size, width))
    if width == 0 or not (placed or x.ndim > 1):
        places = iota(dtypes.int32, (size,), 0)
        ordered = sort_along(table, 0)
    else:
        columns = [shrink_axis(table, 1, i, i + 1) for i in range(width)]
        places = positions_along([reshape(c, (size,)) for c in columns], 0)
        ordered = bind(gather_p, table, places, arg=(0,))
    before = shrink_axis(ordered, 0, 0, size - 1)
    behind = shrink_axis(ordered, 0, 1, size)
    differs = elementwise(p.ne, behind, before)
    if equal_nan and dtypes.is_inexact(x.dtype):
        both = elementwise(p.bit_and, _missing(before), _missing(behind))
        differs = elementwise(p.bit_and, differs, bind(p.bit_not, both))
    if width:
        later = drop_axes(reduced(reduce_max_p, differs, (1,), True), (1,))
    else:
        later = full((size - 1,), False, dtypes.bool_)
    begins = concatenate([full((1,), True, dtypes.bool_), later])
    return Groups(reshape(ordered, x.shape), places, begins)


def numbers_of(begins: Any) -> Any:
    """For each sorted element the number of its group."""
    counted = scan_with(cast(begins, dtypes.int32), reduce_sum_p, 0, False)
    return elementwise(p.sub, counted, 1)


def _missing(x: Any) -> Any:
    return bind(p.ne, x, x)


def count_of(name: str, flags: Any, size: Any) -> int:
    """How many flags are set, or the number that the user gave instead.

    Raises:
      ConcretizationTypeError: it depends on values that are not known.
    """
    if size is not None:
        return check_count(size, f"{name}: size")
    total = reduced(reduce_sum_p, cast(flags, dtypes.int32), (0,), False)
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
        first, nothing = shrink_axis(result, 0, 0, 1), cast(0, values.dtype, weak)
        fill = choose(elementwise(p.gt, found, 0), first, nothing)
    else:
        fill = cast(fill_value, values.dtype, weak)
    there = elementwise(p.lt, iota(dtypes.int32, (count,), 0), found)
    there = insert_axes(there, range(1, values.ndim))
    return choose(there, result, fill)


def _total(flags: Any) -> Any:
    return reduced(reduce_sum_p, cast(flags, dtypes.int32), (0,), False)
