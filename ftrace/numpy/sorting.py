"""Sorting: sort, argsort, lexsort, partition and their kin.

NaN stands last, -0.0 equals 0.0, and every sort is stable. The host does it, as a step
of the program; what is taken at the positions is a gather.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.arrays.array import ArrayLike
from ftrace.errors import ArgumentError, ShapeError, ValueRangeError, one_of
from ftrace.numpy import axes as ax
from ftrace.numpy.axes import Axis
from ftrace.numpy.cumulative import scan_with
from ftrace.numpy.elementwise import refuse_complex
from ftrace.numpy.reductions import reduced, weights_like, widened
from ftrace.numpy.shape import concatenate, split
from ftrace.numpy.types import is_sequence
from ftrace.trace.bind import bind, bind_compound, elementwise
from ftrace.trace.eager.composite import run_fused
from ftrace.trace.eager.dispatch import member
from ftrace.trace.primitives import elementwise as ops
from ftrace.trace.primitives.broadcast import reduce_sum_p
from ftrace.trace.primitives.indexing import gather_p
from ftrace.trace.primitives.library.sorting import (
    Partition,
    argpartition_p,
    argsort_p,
    partition_p,
    sort_p,
)
from ftrace.trace.tracing.tracer import Value, aval_of

__all__ = [
    "argpartition", "argsort", "lexsort", "median", "nanmedian", "nanpercentile",
    "nanquantile", "partition", "percentile", "quantile", "sort", "sort_complex",
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
        places if a == axis else ax.iota(places.dtype, places.shape, a)
        for a in range(x.ndim)
    ]
    return bind(gather_p, x, *index, arg=tuple(range(x.ndim)))


_KINDS = (None, "quicksort", "mergesort", "heapsort", "stable")


def _check_options(name: str, kind: Any, order: Any) -> None:
    if order is not None:
        raise ArgumentError(
            f"{name}: 'order' names fields of structured arrays, which ftrace does not "
            f"have; got {order!r}"
        )
    one_of(f"{name}: kind", kind, _KINDS)


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
    x, axis = ax.flattened(a, axis, "sort")
    result = sort_along(x, axis)
    return ax.flip(result, (axis,)) if descending else result


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
    x, axis = ax.flattened(a, axis, "argsort")
    chosen = dtypes.default_dtype("i") if dtype is None else dtypes.as_dtype(dtype)
    if not descending:
        return ax.cast(positions_along([x], axis), chosen)
    places = ax.flip(positions_along([ax.flip(x, (axis,))], axis), (axis,))
    return ax.cast(x.shape[axis] - 1 - places, chosen)


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
        parts = [ax.as_value(key) for key in keys]
    else:
        whole = ax.as_value(keys)
        if whole.ndim == 0:
            raise ShapeError("lexsort takes a sequence of keys, got a scalar")
        parts = list(whole)
    if not parts:
        raise ValueRangeError("lexsort takes at least one key, got none")
    if any(part.shape != parts[0].shape for part in parts):
        raise ShapeError(
            f"lexsort: all keys must have one shape, got {[k.shape for k in parts]}"
        )
    integer = dtypes.default_dtype("i")
    if parts[0].ndim == 0:
        return ax.full((), 0, integer)
    axis = ax.canonical_axis(axis, parts[0].ndim, "lexsort")
    return ax.cast(positions_along(parts[::-1], axis), integer)


def _partitioned(name: str, a: Value, kth: int, axis: int) -> tuple[Any, Partition]:
    """The value, and how it is divided: at a place that there is."""
    x, axis = ax.flattened(a, axis, name)
    index, size = ax.static_int(kth, f"{name}: kth"), x.shape[axis]
    if not -size <= index < size:
        raise ValueRangeError(
            f"{name}: kth={index} is out of bounds for an axis of size {size}"
        )
    return x, Partition(index % size, axis)


def partition(a: Value, kth: int, axis: int = -1) -> Any:
    """The element `kth` at its place; before it the lesser ones, behind it the others.

    These stand in an order that is not told.

    Raises:
      ValueRangeError: there is no such place.
    """
    x, arg = _partitioned("partition", a, kth, axis)
    if _is_long(x, x.shape[arg.axis]):
        return bind_compound(partition_p, x, arg=arg)[0]
    before, behind = split(sort_along(x, arg.axis), [arg.place + 1], arg.axis)
    return concatenate([before, ax.flip(behind, (arg.axis,))], arg.axis)


def argpartition(a: Value, kth: int, axis: int = -1) -> Any:
    """The positions that bring an array into the order of a partition.

    Which elements stand where on one side, or of equal ones before the place, is not
    told: it may be another partition than that of `partition`.

    Raises:
      ValueRangeError: there is no such place.
    """
    x, arg = _partitioned("argpartition", a, kth, axis)
    if _is_long(x, x.shape[arg.axis]):
        found = bind_compound(argpartition_p, x, arg=arg)[0]
        return ax.cast(found, dtypes.default_dtype("i"))
    places = positions_along([x], arg.axis)
    before, behind = split(places, [arg.place + 1], arg.axis)
    result = concatenate([before, sort_along(behind, arg.axis)], arg.axis)
    return ax.cast(result, dtypes.default_dtype("i"))


def _is_long(x: Any, size: Any) -> bool:
    """Are there rows of which a sort takes several times as long as a partition?"""
    return type(size) is int and size >= LONG_ROW and not dtypes.is_complex(x.dtype)


def sort_complex(a: Value) -> Any:
    """The elements as complex numbers, in order along the last axis.

    Raises:
      AxisError: it is a scalar.
    """
    x, axis = ax.flattened(a, -1, "sort_complex")
    dtype = dtypes.to_inexact(x.dtype)
    wide = dtype if dtypes.is_complex(dtype) else dtypes.complex_dtype(dtype)
    if dtypes.is_complex(x.dtype):
        return sort_along(x, axis)
    return ax.cast(sort_along(ax.cast(x, dtype), axis), wide)  # numbers sort faster


# Quantiles: median, quantile, percentile, and their kin without NaN.
#
# Each is a sort and a read at one or two places. Where these are, by method, is in
# Hyndman and Fan, "Sample quantiles in statistical packages", The American Statistician
# 50 (1996); with n sorted elements and 0 ≤ q ≤ 1,
#
#     place = n·q + α + q·(1 - α - β) - 1
#
# counted from 0, with a value between its two neighbours.


#: α and β of the methods that interpolate.
_CONTINUOUS = {
    "linear": (1.0, 1.0),
    "interpolated_inverted_cdf": (0.0, 1.0),
    "hazen": (0.5, 0.5),
    "weibull": (0.0, 0.0),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
}
_STEPWISE = ("lower", "higher", "midpoint", "nearest")
_OF_COUNTS = ("inverted_cdf", "averaged_inverted_cdf", "closest_observation")
METHODS = (*_CONTINUOUS, *_STEPWISE, *_OF_COUNTS)


def _quantiles(name: str, skip_nan: bool, percent: bool):
    def quantiles(
        a: Value,
        q: Value,
        axis: Axis = None,
        out: None = None,
        overwrite_input: bool = False,
        method: str = "linear",
        keepdims: bool = False,
        *,
        weights: Value | None = None,
    ) -> Any:
        _check_in_place(name, out, overwrite_input)
        fraction = _fraction(q) if percent else q
        return _quantile(name, a, fraction, axis, method, keepdims, skip_nan, weights)

    return quantiles


@member(_quantiles, skip_nan=False, percent=False)
def quantile():
    """The values below which the fractions `q` of the elements are.

    Args:
      a: real numbers.
      q: a fraction from 0 to 1, or a vector of them, the first axis of the result.
      axis: an axis, several, or None for all.
      out, overwrite_input: not supported.
      method: where a fraction falls between two elements: "linear", "lower",
        "higher", "midpoint", "nearest", or another of NumPy's.
      keepdims: the reduced axes stay, with size 1.
      weights: of the elements, of the shape of `a` or of its reduced axes; with the
        method "inverted_cdf" only.

    Returns:
      An array in the dtype of `a`, or float32 for integers; NaN where `a` has one.

    Raises:
      DtypeError: `a` is complex.
      ShapeError: `q` has more than one axis, or the weights do not fit.
      ValueRangeError: there is no such method, or it takes no weights.
    """


@member(_quantiles, skip_nan=True, percent=False)
def nanquantile():
    """As `quantile`, of the elements that are not NaN; NaN where there are none."""


@member(_quantiles, skip_nan=False, percent=True)
def percentile():
    """As `quantile`, with `q` in percent."""


@member(_quantiles, skip_nan=True, percent=True)
def nanpercentile():
    """As `nanquantile`, with `q` in percent."""


def _medians(name: str, skip_nan: bool):
    def medians(
        a: Value,
        axis: Axis = None,
        out: None = None,
        overwrite_input: bool = False,
        keepdims: bool = False,
    ) -> Any:
        _check_in_place(name, out, overwrite_input)
        return _quantile(name, a, 0.5, axis, "midpoint", keepdims, skip_nan, None)

    return medians


@member(_medians, skip_nan=False)
def median():
    """The middle element along `axis`, or of all; the mean of two where there are two.

    Arguments and errors are those of `quantile`.
    """


@member(_medians, skip_nan=True)
def nanmedian():
    """As `median`, of the elements that are not NaN; NaN where there are none."""


# How.


def _check_in_place(name: str, out: Any, overwrite_input: bool) -> None:
    ax.no_out(name, out)
    if overwrite_input:
        raise ArgumentError(
            f"{name}: overwrite_input=True is not supported, since arrays are "
            "immutable; leave it out"
        )


def _fraction(q: Value) -> Any:
    if isinstance(q, (int, float)):
        return q / 100
    return elementwise(ops.div, q, 100, inexact=True)


def _quantile(
    name: str,
    a: Value,
    q: Value,
    axis: Axis,
    method: str,
    keepdims: bool,
    skip_nan: bool,
    weights: Value | None,
) -> Any:
    a = ax.as_value(a)
    final = dtypes.to_inexact(dtypes.settled(a.dtype, a.weak_type))
    fraction = q if isinstance(q, (int, float)) else None
    if fraction is not None:
        q = ax.full((), fraction, widened(final), True)
    q = ax.as_value(q)
    refuse_complex(name, a)
    if q.ndim > 1:
        raise ShapeError(f"{name}: q must be a scalar or a vector, got shape {q.shape}")
    one_of(f"{name}: method", method, METHODS)
    if weights is not None and method != "inverted_cdf":
        raise ValueRangeError(
            f'{name}: weights need method="inverted_cdf", got {method!r}'
        )
    axes = ax.canonical_axes(axis, a.ndim, name)
    rows = _rows(ax.cast(a, final), axes)
    known = _known_fraction(fraction, method, rows.shape[1], skip_nan)
    fractions = ax.reshape(q, (q.size, 1))
    compute, _ = dtypes.promote((widened(final), False), _type_of(q))
    if rows.shape[1] == 0:
        result = ax.full((q.size, rows.shape[0]), np.nan, final)
    elif known is not None:
        result = _at_place(rows, np.dtype(compute).type(known), method)
    elif weights is None:
        result = _of_rows(rows, ax.cast(fractions, compute), method, skip_nan)
    else:
        refuse_complex(f"weights of {name}", weights)
        wide = weights_like(name, ax.as_value(weights), a.shape, axes, axis is None)
        wide = _rows(ax.broadcast_to(ax.cast(wide, compute), a.shape), axes)
        result = _of_weighted_rows(rows, wide, ax.cast(fractions, compute), skip_nan)
    kept = tuple(
        1 if i in axes else n
        for i, n in enumerate(a.shape)
        if keepdims or i not in axes
    )
    return ax.reshape(ax.cast(result, final), q.shape + kept)


def _known_fraction(
    fraction: float | None, method: str, size: Any, skip_nan: bool
) -> float | None:
    """A fraction that is known in Python, where it says at which place to look."""
    if fraction is None or skip_nan or type(size) is not int or size == 0:
        return None
    return fraction if 0 <= fraction <= 1 and method not in _OF_COUNTS else None


def _at_place(x: Any, fraction: Any, method: str) -> Any:
    """The fraction of the rows (M, N) as (1, M): a slice of the rows in order."""
    x = sort_along(x, 1)
    size = x.shape[1]
    place = _place(method, fraction, fraction.dtype.type(size))
    floor = np.floor(place)
    low, high = (x[:, int(min(max(at, 0), size - 1))] for at in (floor, np.ceil(place)))
    weight = ax.full((), place - floor, fraction.dtype)
    return _nan_where_last_is(x, _mixed(method, low[None], high[None], weight))


def _type_of(q: Any) -> tuple[np.dtype[Any], bool]:
    return dtypes.to_inexact(q.dtype), aval_of(q).weak_type


def _rows(a: Any, axes: tuple[int, ...]) -> Any:
    """A matrix with the `axes` merged into its columns, all others into its rows."""
    rest = tuple(i for i in range(a.ndim) if i not in axes)
    columns = prod(a.shape[i] for i in axes)
    rows = prod(a.shape[i] for i in rest)
    return ax.reshape(ax.permute(a, rest + axes), (rows, columns))


def _of_rows(x: Any, q: Any, method: str, skip_nan: bool) -> Any:
    """The fractions (Q, 1) of the rows (M, N) as (Q, M)."""
    x = sort_along(x, 1)
    size = x.shape[1]
    if skip_nan:
        present = ax.cast(x == x, q.dtype)
        count = reduced(reduce_sum_p, present, (1,), False)[None]
    else:
        count = ax.full((1, x.shape[0]), size, q.dtype)

    def read(place: Any) -> Any:
        shape = (q.shape[0], x.shape[0])
        inside = _within(place, count)
        index = ax.broadcast_to(ax.cast(inside, dtypes.int32), shape)
        return bind(gather_p, x, ax.iota(dtypes.int32, shape, 1), index, arg=(0, 1))

    result = _between(method, q, count, read)
    return result if skip_nan else _nan_where_last_is(x, result)


def _within(place: Any, count: Any) -> Any:
    """Places from 0 to the last one."""
    return elementwise(ops.maximum, elementwise(ops.minimum, place, count - 1), 0)


def _nan_where_last_is(x: Any, result: Any) -> Any:
    """NaN stands last in rows that have one."""
    last = x[:, -1][None]
    return ax.choose(last != last, ax.full((), np.nan, result.dtype), result)


def _place(method: str, q: Any, count: Any) -> Any:
    """Between which elements fractions are: of arrays, or of NumPy's scalars."""
    if method in ("linear", *_STEPWISE):
        return q * (count - 1)
    alpha, beta = _CONTINUOUS[method]
    place = q * count + (q * (1 - alpha - beta) + (alpha - 1))
    if isinstance(place, ArrayLike):
        return _within(place, count)
    return min(max(place, 0), count - 1)


def _between(method: str, q: Any, count: Any, read: Callable[[Any], Any]) -> Any:
    """The value of a method; `read` gives the elements at places, which it clips."""
    if method in _OF_COUNTS:
        return _of_counts(method, q * count, read)
    place = _place(method, q, count)
    floor = elementwise(ops.floor, place)
    low, high = read(floor), read(elementwise(ops.ceil, place))
    return _mixed(method, low, high, place - floor)


def _mixed(method: str, low: Any, high: Any, weight: Any) -> Any:
    """What a method makes of two neighbours."""
    match method:
        case "lower":
            return low
        case "higher":
            return high
        case "midpoint":
            return (low + high) * 0.5
        case "nearest":
            return ax.choose(weight <= 0.5, low, high)
        case _:
            return low * (1 - weight) + high * weight


def _of_counts(method: str, rank: Any, read: Callable[[Any], Any]) -> Any:
    """Methods that step from element to element; `rank` is n·q."""
    if method == "inverted_cdf":
        return read(elementwise(ops.ceil, rank) - 1)
    if method == "averaged_inverted_cdf":
        floor = elementwise(ops.floor, rank)
        here, before = read(floor), read(floor - 1)
        return ax.choose(floor == rank, (here + before) * 0.5, here)
    # closest_observation: the nearest place; of two as near the even one, from 1.
    return read(elementwise(ops.round_even, rank) - 1)


def _of_weighted_rows(x: Any, weights: Any, q: Any, skip_nan: bool) -> Any:
    """The first element at which the weights before it and its own reach q of all."""
    bad = (weights < 0) | (weights != weights)
    places = positions_along([x], 1)
    x, ordered = gather_along(x, places, 1), gather_along(weights, places, 1)
    missing = x != x
    ignored = missing | ~(ordered >= 0)
    sums = scan_with(ax.choose(ignored, 0, ordered), reduce_sum_p, 1, False)
    less = sums[None] < (q * sums[:, -1])[..., None]
    index = reduced(reduce_sum_p, ax.cast(less, dtypes.int32), (2,), False)
    present = ax.cast(~missing, dtypes.int32)
    count = reduced(reduce_sum_p, present, (1,), False)
    index = _within(index, count if skip_nan else x.shape[1])
    result = bind(gather_p, x, ax.iota(dtypes.int32, index.shape, 1), index, arg=(0, 1))
    nothing = count == 0 if skip_nan else missing.any(1)
    undefined = bad.any(1) | nothing
    return ax.choose(undefined, ax.full((), np.nan, result.dtype), result)
