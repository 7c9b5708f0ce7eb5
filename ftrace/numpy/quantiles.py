"""Quantiles: median, quantile, percentile, and their kin without NaN.

Each is a sort and a read at one or two places. Where these are, by method, is in
Hyndman and Fan, "Sample quantiles in statistical packages", The American Statistician
50 (1996); with n sorted elements and 0 ≤ q ≤ 1,

    place = n·q + α + q·(1 - α - β) - 1

counted from 0, with a value between its two neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import ArgumentError, DtypeError, ShapeError, ValueRangeError
from ftrace.numpy.axes import (
    Axis,
    as_value,
    broadcast_to,
    canonical_axes,
    cast,
    choose,
    expand,
    full,
    iota,
    no_out,
    permute,
    reshape,
    shrink_axis,
)
from ftrace.numpy.cumulative import scan_with
from ftrace.numpy.reductions import reduced, widened
from ftrace.numpy.sorting import gather_along, positions_along, sort_along
from ftrace.trace.eager import member
from ftrace.trace.operations import bind, elementwise
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.broadcast import reduce_sum_p
from ftrace.trace.primitives.indexing import gather_p
from ftrace.trace.primitives.reduction import reduce_max_p
from ftrace.trace.tracer import Value, aval_of

__all__ = [
    "median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile",
]  # fmt: skip

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
    no_out(name, out)
    if overwrite_input:
        raise ArgumentError(
            f"{name}: overwrite_input=True is not supported, since arrays are "
            "immutable; leave it out"
        )


def _fraction(q: Value) -> Any:
    if isinstance(q, (int, float)):
        return q / 100
    return elementwise(p.div, q, 100, inexact=True)


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
    a = as_value(a)
    final = dtypes.to_inexact(dtypes.settled(a.dtype, a.weak_type))
    fraction = q if isinstance(q, (int, float)) else None
    if fraction is not None:
        q = full((), fraction, widened(final), True)
    q = as_value(q)
    if dtypes.is_complex(a.dtype):
        raise DtypeError(f"{name} is not defined for complex numbers, got {a.dtype}")
    if q.ndim > 1:
        raise ShapeError(f"{name}: q must be a scalar or a vector, got shape {q.shape}")
    if method not in METHODS:
        raise ValueRangeError(
            f"{name}: the methods are {', '.join(METHODS)}; got {method!r}"
        )
    if weights is not None and method != "inverted_cdf":
        raise ValueRangeError(
            f'{name}: weights need method="inverted_cdf", got {method!r}'
        )
    axes = canonical_axes(axis, a.ndim, name)
    rows = _rows(cast(a, final), axes)
    known = _known_fraction(fraction, method, rows.shape[1], skip_nan)
    fractions = reshape(q, (q.size, 1))
    compute, _ = dtypes.promote((widened(final), False), _type_of(q))
    if rows.shape[1] == 0:
        result = full((q.size, rows.shape[0]), np.nan, final)
    elif known is not None:
        result = _at_place(rows, np.dtype(compute).type(known), method)
    elif weights is None:
        result = _of_rows(rows, cast(fractions, compute), method, skip_nan)
    else:
        wide = _weights_like(name, as_value(weights), a.shape, axes, axis is None)
        wide = _rows(cast(wide, compute), axes)
        result = _of_weighted_rows(rows, wide, cast(fractions, compute), skip_nan)
    kept = tuple(
        1 if i in axes else n
        for i, n in enumerate(a.shape)
        if keepdims or i not in axes
    )
    return reshape(cast(result, final), q.shape + kept)


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

    def read(place: Any) -> Any:
        at = int(min(max(place, 0), size - 1))
        return reshape(shrink_axis(x, 1, at, at + 1), (1, x.shape[0]))

    place = _place(method, fraction, fraction.dtype.type(size))
    floor = np.floor(place)
    weight = full((), place - floor, fraction.dtype)
    result = _mixed(method, read(floor), read(np.ceil(place)), weight)
    return _nan_where_last_is(x, result)


def _type_of(q: Any) -> tuple[np.dtype[Any], bool]:
    return dtypes.to_inexact(q.dtype), aval_of(q).weak_type


def _rows(a: Any, axes: tuple[int, ...]) -> Any:
    """A matrix with the `axes` merged into its columns, all others into its rows."""
    rest = tuple(i for i in range(a.ndim) if i not in axes)
    columns = prod(a.shape[i] for i in axes)
    rows = prod(a.shape[i] for i in rest)
    return reshape(permute(a, rest + axes), (rows, columns))


def _weights_like(
    name: str, weights: Any, shape: tuple[int, ...], axes: tuple[int, ...], whole: bool
) -> Any:
    if dtypes.is_complex(weights.dtype):
        raise DtypeError(f"{name}: weights must be real, got {weights.dtype}")
    if weights.shape == shape:
        return weights
    wanted = tuple(shape[i] for i in axes)
    if whole or weights.shape != wanted:
        raise ShapeError(
            f"{name}: the weights must have shape {shape}"
            f"{'' if whole else f' or {wanted}'}, got {weights.shape}"
        )
    order = tuple(sorted(range(len(axes)), key=axes.__getitem__))
    line = tuple(n if i in axes else 1 for i, n in enumerate(shape))
    return broadcast_to(reshape(permute(weights, order), line), shape)


def _missing(x: Any) -> Any:
    return bind(p.ne, x, x)


def _of_rows(x: Any, q: Any, method: str, skip_nan: bool) -> Any:
    """The fractions (Q, 1) of the rows (M, N) as (Q, M)."""
    x = sort_along(x, 1)
    size = x.shape[1]
    if skip_nan:
        present = cast(bind(p.eq, x, x), q.dtype)
        count = reshape(reduced(reduce_sum_p, present, (1,), True), (1, x.shape[0]))
    else:
        count = full((1, x.shape[0]), size, q.dtype)

    def read(place: Any) -> Any:
        last = elementwise(p.sub, count, 1)
        inside = elementwise(p.maximum, elementwise(p.minimum, place, last), 0)
        shape = (q.shape[0], x.shape[0])
        index = broadcast_to(cast(inside, dtypes.int32), shape)
        return bind(gather_p, x, iota(dtypes.int32, shape, 1), index, arg=(0, 1))

    result = _between(method, q, count, read)
    return result if skip_nan else _nan_where_last_is(x, result)


def _nan_where_last_is(x: Any, result: Any) -> Any:
    """NaN stands last in rows that have one."""
    size = x.shape[1]
    last = reshape(shrink_axis(x, 1, size - 1, size), (1, x.shape[0]))
    return choose(_missing(last), full((), np.nan, result.dtype), result)


def _place(method: str, q: Any, count: Any) -> Any:
    """Between which elements a fraction is: a number, or a scalar of NumPy's."""
    alpha, beta = _CONTINUOUS.get(method, (1.0, 1.0))
    if method in ("linear", *_STEPWISE):
        return q * (count - 1)
    place = q * count + (q * (1 - alpha - beta) + (alpha - 1))
    return min(max(place, 0), count - 1)


def _between(method: str, q: Any, count: Any, read: Callable[[Any], Any]) -> Any:
    """The value of a method; `read` gives the elements at places, which it clips."""
    if method in _OF_COUNTS:
        return _of_counts(method, elementwise(p.mul, q, count), read)
    alpha, beta = _CONTINUOUS.get(method, (1.0, 1.0))
    if method in ("linear", *_STEPWISE):
        place = elementwise(p.mul, q, elementwise(p.sub, count, 1))
    else:
        share = elementwise(p.add, elementwise(p.mul, q, 1 - alpha - beta), alpha - 1)
        place = elementwise(p.add, elementwise(p.mul, q, count), share)
        place = elementwise(p.maximum, place, 0)
        place = elementwise(p.minimum, place, elementwise(p.sub, count, 1))
    floor = elementwise(p.floor, place)
    low, high = read(floor), read(elementwise(p.ceil, place))
    return _mixed(method, low, high, elementwise(p.sub, place, floor))


def _mixed(method: str, low: Any, high: Any, weight: Any) -> Any:
    """What a method makes of two neighbours."""
    match method:
        case "lower":
            return low
        case "higher":
            return high
        case "midpoint":
            return elementwise(p.mul, elementwise(p.add, low, high), 0.5)
        case "nearest":
            return choose(elementwise(p.le, weight, 0.5), low, high)
        case _:
            below = elementwise(p.mul, low, elementwise(p.sub, 1, weight))
            return elementwise(p.add, below, elementwise(p.mul, high, weight))


def _of_counts(method: str, rank: Any, read: Callable[[Any], Any]) -> Any:
    """Methods that step from element to element; `rank` is n·q."""
    if method == "inverted_cdf":
        return read(elementwise(p.sub, elementwise(p.ceil, rank), 1))
    if method == "averaged_inverted_cdf":
        floor = elementwise(p.floor, rank)
        here, before = read(floor), read(elementwise(p.sub, floor, 1))
        mean = elementwise(p.mul, elementwise(p.add, here, before), 0.5)
        return choose(elementwise(p.eq, floor, rank), mean, here)
    # closest_observation: the nearest place; of two as near the even one, from 1.
    return read(elementwise(p.sub, elementwise(p.round_even, rank), 1))


def _of_weighted_rows(x: Any, weights: Any, q: Any, skip_nan: bool) -> Any:
    """The first element at which the weights before it and its own reach q of all."""
    bad = elementwise(p.bit_or, elementwise(p.lt, weights, 0), _missing(weights))
    places = positions_along([x], 1)
    x, ordered = gather_along(x, places, 1), gather_along(weights, places, 1)
    missing = _missing(x)
    ignored = elementwise(
        p.bit_or, missing, bind(p.bit_not, elementwise(p.ge, ordered, 0))
    )
    sums = scan_with(choose(ignored, 0, ordered), reduce_sum_p, 1, False)
    rows, size = x.shape
    total = reshape(shrink_axis(sums, 1, size - 1, size), (1, rows))
    target = reshape(elementwise(p.mul, q, total), (q.shape[0], rows, 1))
    less = elementwise(p.lt, reshape(sums, (1, rows, size)), target)
    index = reduced(reduce_sum_p, cast(less, dtypes.int32), (2,), False)
    present = cast(bind(p.bit_not, missing), dtypes.int32)
    count = reshape(reduced(reduce_sum_p, present, (1,), True), (1, rows))
    last = elementwise(
        p.sub, count if skip_nan else full((1, rows), size, count.dtype), 1
    )
    index = elementwise(p.maximum, elementwise(p.minimum, index, last), 0)
    result = bind(gather_p, x, iota(dtypes.int32, index.shape, 1), index, arg=(0, 1))
    undefined = reduced(reduce_max_p, bad, (1,), True)
    if skip_nan:
        nothing = reshape(elementwise(p.eq, count, 0), (rows, 1))
    else:
        nothing = reduced(reduce_max_p, missing, (1,), True)
    undefined = reshape(elementwise(p.bit_or, undefined, nothing), (1, rows))
    undefined = expand(undefined, result.shape)
    return choose(undefined, full((), np.nan, result.dtype), result)
