"""Sorting: sort, argsort, lexsort, partition and their kin.

NaN stands last, -0.0 equals 0.0, and every sort is stable. The host does it, as a step
of the program; what is taken at the positions is a gather.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ftrace import dtypes
from ftrace.errors import ArgumentError, ShapeError, ValueRangeError
from ftrace.numpy.axes import (
    as_value,
    canonical_axis,
    cast,
    flip,
    full,
    iota,
    reshape,
    shrink_axis,
    static_int,
)
from ftrace.numpy.joining import concatenate
from ftrace.numpy.types import is_sequence
from ftrace.trace.fused import run_fused
from ftrace.trace.operations import bind, bind_compound, do_now, elementwise
from ftrace.trace.primitives import elementwise as ops
from ftrace.trace.primitives.host.partition import (
    Partition,
    argpartition_now,
    argpartition_p,
    partition_now,
    partition_p,
)
from ftrace.trace.primitives.host.sorting import argsort_p, sort_p
from ftrace.trace.primitives.indexing import gather_p
from ftrace.trace.tracer import Value

__all__ = [
    "argpartition", "argsort", "lexsort", "partition", "sort", "sort_complex",
]  # fmt: skip

#: Rows of so many elements are sorted at one place only, where that is asked for.
LONG_ROW = 1 << 13


def sort_along(x: Any, axis: int) -> Any:
    """The elements in ascending order along an axis counted from the front."""
    return bind_compound(sort_p, x, arg=axis)[0]


def positions_along(keys: Sequence[Any], axis: int) -> Any:
    """The positions that bring keys of one shape into order; the first counts most."""
    return bind_compound(argsort_p, *keys, arg=axis)[0]


def gather_along(x: Any, places: Any, axis: int) -> Any:
    """Along `axis` the elements at positions, which are in bounds.

    Args:
      x: a value.
      places: integers, of the shape of `x` but for the size of the axis.
      axis: counted from the front.
    """
    if x.ndim == 1:
        return bind(gather_p, x, places, arg=(0,))
    return run_fused(_gather_lanes, [x, places], axis=axis)


def _gather_lanes(x: Any, places: Any, axis: int) -> Any:
    index = [
        places if a == axis else iota(places.dtype, places.shape, a)
        for a in range(x.ndim)
    ]
    return bind(gather_p, x, *index, arg=tuple(range(x.ndim)))


def _operand(name: str, a: Value, axis: int | None) -> tuple[Any, int]:
    """The value and the axis from the front; flattened where the axis is None."""
    x = as_value(a)
    if axis is None:
        return reshape(x, (x.size,)), 0
    return x, canonical_axis(axis, x.ndim, name)


def _check_options(name: str, kind: Any, order: Any) -> None:
    if order is not None:
        raise ArgumentError(
            f"{name}: 'order' names fields of structured arrays, which ftrace does not "
            f"have; got {order!r}"
        )
    if kind not in (None, "quicksort", "mergesort", "heapsort", "stable"):
        raise ValueRangeError(f"{name}: {kind!r} is no kind of sort; leave it out")


def sort(
    a: Value,
    axis: int | None = -1,
    *,
    kind: str | None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
) -> Any:
    """The elements in order along an axis, by default the last.

    Args:
      a: the array.
      axis: None flattens it first.
      kind, stable: accepted; every sort is stable.
      order: not supported.
      descending: from the greatest to the least.

    Raises:
      AxisError: there is no such axis.
    """
    _check_options("sort", kind, order)
    x, axis = _operand("sort", a, axis)
    result = sort_along(x, axis)
    return flip(result, (axis,)) if descending else result


def argsort(
    a: Value,
    axis: int | None = -1,
    *,
    kind: str | None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
    dtype: Any = None,
) -> Any:
    """The positions along an axis that bring the elements into order.

    Arguments and errors are those of `sort`; of equal elements the first comes first,
    also where the order is descending. `dtype` is an integer type, int32 by default.
    """
    _check_options("argsort", kind, order)
    x, axis = _operand("argsort", a, axis)
    chosen = dtypes.default_dtype("i") if dtype is None else dtypes.as_dtype(dtype)
    if not descending:
        return cast(positions_along([x], axis), chosen)
    places = flip(positions_along([flip(x, (axis,))], axis), (axis,))
    return cast(elementwise(ops.sub, x.shape[axis] - 1, places), chosen)


def lexsort(keys: Value | Sequence[Value], axis: int = -1) -> Any:
    """The positions that sort by several keys, of which the last counts most.

    Args:
      keys: a sequence of arrays of one shape, or one array with a key per row.
      axis: along which to sort each key.

    Raises:
      ShapeError: the keys differ in shape.
      ValueRangeError: there is no key.
    """
    if is_sequence(keys):
        parts = [as_value(key) for key in keys]
    else:
        whole = as_value(keys)
        if whole.ndim == 0:
            raise ShapeError("lexsort takes a sequence of keys, got a scalar")
        rows = [shrink_axis(whole, 0, i, i + 1) for i in range(whole.shape[0])]
        parts = [reshape(row, whole.shape[1:]) for row in rows]
    if not parts:
        raise ValueRangeError("lexsort takes at least one key, got none")
    if any(part.shape != parts[0].shape for part in parts):
        raise ShapeError(
            f"lexsort: all keys must have one shape, got {[k.shape for k in parts]}"
        )
    integer = dtypes.default_dtype("i")
    if parts[0].ndim == 0:
        return full((), 0, integer)
    axis = canonical_axis(axis, parts[0].ndim, "lexsort")
    return cast(positions_along(parts[::-1], axis), integer)


def _check_kth(name: str, kth: int, size: int) -> int:
    index = static_int(kth, f"{name}: kth")
    if not -size <= index < size:
        raise ValueRangeError(
            f"{name}: kth={index} is out of bounds for an axis of size {size}"
        )
    return index % size


def partition(a: Value, kth: int, axis: int = -1) -> Any:
    """The element `kth` at its place; before it the lesser ones, behind it the others.

    These stand in an order that is not told.

    Raises:
      ValueRangeError: there is no such place.
    """
    x, axis = _operand("partition", a, axis)
    size = x.shape[axis]
    place = _check_kth("partition", kth, size)
    if _is_long(x, size):
        return bind_compound(partition_p, x, arg=Partition(place, axis))[0]
    if not dtypes.is_complex(x.dtype):
        function = partial(partition_now, place, axis)
        now = do_now(function, x, dtype=x.dtype, weak=x.weak_type)
        if now is not None:
            return now
    ordered = sort_along(x, axis)
    behind = flip(shrink_axis(ordered, axis, place + 1, size), (axis,))
    return concatenate([shrink_axis(ordered, axis, 0, place + 1), behind], axis)


def argpartition(a: Value, kth: int, axis: int = -1) -> Any:
    """The positions that bring an array into the order of a partition.

    Which elements stand where on one side, or of equal ones before the place, is not
    told: it may be another partition than that of `partition`.

    Raises:
      ValueRangeError: there is no such place.
    """
    x, axis = _operand("argpartition", a, axis)
    size = x.shape[axis]
    place = _check_kth("argpartition", kth, size)
    if _is_long(x, size):
        arg = Partition(place, axis)
        found = bind_compound(argpartition_p, x, arg=arg)[0]
        return cast(found, dtypes.default_dtype("i"))
    if not dtypes.is_complex(x.dtype):
        function, integer = (
            partial(argpartition_now, place, axis),
            dtypes.default_dtype("i"),
        )
        now = do_now(function, x, dtype=integer, weak=False)
        if now is not None:
            return now
    places = positions_along([x], axis)
    behind = sort_along(shrink_axis(places, axis, place + 1, size), axis)
    result = concatenate([shrink_axis(places, axis, 0, place + 1), behind], axis)
    return cast(result, dtypes.default_dtype("i"))


def _is_long(x: Any, size: Any) -> bool:
    """Are there rows of which a sort takes several times as long as a partition?"""
    return type(size) is int and size >= LONG_ROW and not dtypes.is_complex(x.dtype)


def sort_complex(a: Value) -> Any:
    """The elements as complex numbers, in order along the last axis.

    Raises:
      AxisError: it is a scalar.
    """
    x, axis = _operand("sort_complex", a, -1)
    dtype = dtypes.to_inexact(x.dtype)
    wide = dtype if dtypes.is_complex(dtype) else dtypes.complex_dtype(dtype)
    if dtypes.is_complex(x.dtype):
        return sort_along(x, axis)
    return cast(sort_along(cast(x, dtype), axis), wide)  # numbers sort faster
