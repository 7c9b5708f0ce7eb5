"""How elements are distributed: quantiles, and counts of equal or near ones.

A quantile is a sort and a read at one or two places. Where these are, by method, is in
Hyndman and Fan, "Sample quantiles in statistical packages", The American Statistician
50 (1996); with n sorted elements and 0 ≤ q ≤ 1,

    place = n·q + α + q·(1 - α - β) - 1

counted from 0, with a value between its two neighbours.

A histogram is a search of each element among the edges, and a scatter that counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from ftrace import dtypes, errors
from ftrace.numpy import axes as ax, elementwise as ew, logic
from ftrace.numpy.creation import asarray
from ftrace.numpy.cumulative import scan_with
from ftrace.numpy.curves import diff
from ftrace.numpy.joining import stack
from ftrace.numpy.new_arrays import linspace
from ftrace.numpy.reductions import add_along, weights_like
from ftrace.numpy.shape import ravel
from ftrace.numpy.sorting import gather_along, positions_along, searchsorted, sort_along
from ftrace.trace.arrays.array import Array, is_array
from ftrace.trace.bind import bind, bind_compound, elementwise
from ftrace.trace.eager.composite import run_fused
from ftrace.trace.eager.function_objects import member
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.indexing import gather_p, scatter_p
from ftrace.trace.primitives.primitive import barrier_p
from ftrace.trace.tracing.tracer import Value, aval_of, concrete

__all__ = [
    "bincount", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd",
    "median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile",
]  # fmt: skip

# Quantiles: median, quantile, percentile, and their kin without NaN.


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
        axis: ax.Axis = None,
        out: None = None,
        overwrite_input: bool = False,
        method: str = "linear",
        keepdims: bool = False,
        *,
        weights: Value | None = None,
    ) -> Any:
        """Values below which fractions of the elements are.

        Args:
          a: real numbers.
          q: how much is below: a number, or a vector, the first axis of the result.
            A fraction from 0 to 1; of the functions of percent from 0 to 100.
          axis: an axis, several, or None for all.
          out, overwrite_input: not supported.
          method: where a fraction falls between two elements: "linear", "lower",
            "higher", "midpoint", "nearest", or another of NumPy's.
          keepdims: the reduced axes stay, with size 1.
          weights: of the elements, of the shape of `a` or of its reduced axes; with the
            method "inverted_cdf" only.

        Returns:
          An array in the dtype of `a`, or float32 for integers. Where `a` has a NaN it
          is NaN; of functions that leave NaN out only where there is nothing else.

        Raises:
          DtypeError: `a` is complex.
          ShapeError: `q` has more than one axis, or the weights do not fit.
          ValueRangeError: there is no such method, or it takes no weights.
        """
        ax.no_out(name, out)
        if overwrite_input:
            raise errors.ArgumentError(
                f"{name}: overwrite_input=True is not supported, since arrays are "
                "immutable; leave it out"
            )
        a = ax.as_value(a)
        final = dtypes.to_inexact(dtypes.strong_dtype(a.dtype, a.weak_type))
        ew.refuse_complex(name, a)
        q = _fractions(name, q, percent, dtypes.summing_dtype(final))
        errors.one_of(f"{name}: method", method, METHODS)
        if weights is not None and method != "inverted_cdf":
            raise errors.ValueRangeError(
                f'{name}: weights need method="inverted_cdf", got {method!r}'
            )
        axes = ax.canonical_axes(axis, a.ndim, name)
        rows = _rows(ax.cast(a, final), axes)
        q_type = dtypes.to_inexact(q.dtype), aval_of(q).weak_type
        compute, _ = dtypes.promote((dtypes.summing_dtype(final), False), q_type)
        fractions = ax.cast(ax.reshape(q, (q.size, 1)), compute)
        if rows.shape[1] == 0:
            result = ax.full((q.size, rows.shape[0]), np.nan, final)
        elif weights is None:
            ordered = sort_along(rows, 1)
            result = run_fused(
                _of_rows, [ordered, fractions], method=method, skip_nan=skip_nan
            )
        else:
            ew.refuse_complex(f"weights of {name}", weights)
            wide = weights_like(name, ax.as_value(weights), a.shape, axes, axis is None)
            wide = ax.broadcast_to(ax.cast(wide, compute), a.shape)
            result = _of_weighted_rows(rows, _rows(wide, axes), fractions, skip_nan)
        sizes = [1 if i in axes else n for i, n in enumerate(a.shape)]
        kept = [n for i, n in enumerate(sizes) if keepdims or i not in axes]
        return ax.reshape(ax.cast(result, final), (*q.shape, *kept))

    return quantiles


@member(_quantiles, skip_nan=False, percent=False)
def quantile():
    """The values below which the fractions `q` of the elements are.

    Example:
      >>> x = fnp.array([1, 2, 3, 5])
      >>> fnp.quantile(x, 0.5)
      Array(2.5, dtype=float32)
      >>> fnp.quantile(x, fnp.array([0, 0.5, 1]), method="lower")
      Array([1., 2., 5.], dtype=float32)
    """


@member(_quantiles, skip_nan=True, percent=False)
def nanquantile():
    """As `quantile`, of the elements that are not NaN.

    Example:
      >>> fnp.nanquantile(fnp.array([1.0, fnp.nan, 3.0]), 0.5)
      Array(2., dtype=float32)
    """


@member(_quantiles, skip_nan=False, percent=True)
def percentile():
    """As `quantile`, with `q` in percent.

    Example:
      >>> fnp.percentile(fnp.array([[1, 2, 3], [4, 6, 8]]), 50, axis=1)
      Array([2., 6.], dtype=float32)
    """


@member(_quantiles, skip_nan=True, percent=True)
def nanpercentile():
    """As `nanquantile`, with `q` in percent.

    Example:
      >>> fnp.nanpercentile(fnp.array([1.0, fnp.nan, 3.0]), 100)
      Array(3., dtype=float32)
    """


def _medians(name: str, skip_nan: bool):
    find = _quantiles(name, skip_nan, percent=False)

    def medians(
        a: Value,
        axis: ax.Axis = None,
        out: None = None,
        overwrite_input: bool = False,
        keepdims: bool = False,
    ) -> Any:
        """A middle element.

        Args:
          a: real numbers.
          axis: an axis, several, or None for all.
          out, overwrite_input: not supported.
          keepdims: the reduced axes stay, with size 1.

        Returns:
          An array without the reduced axes, in the dtype of `a`; float32 for integers.

        Raises:
          AxisError: there is no such axis.
          DtypeError: `a` is complex.
        """
        return find(a, 0.5, axis, out, overwrite_input, "midpoint", keepdims)

    return medians


@member(_medians, skip_nan=False)
def median():
    """The middle element along `axis`, or of all; the mean of two where there are two.

    NaN where an element is NaN.

    Example:
      >>> fnp.median(fnp.array([5, 1, 3]))
      Array(3., dtype=float32)
      >>> fnp.median(fnp.array([[1, 2], [3, 9]]), axis=1)
      Array([1.5, 6. ], dtype=float32)
    """


@member(_medians, skip_nan=True)
def nanmedian():
    """As `median`, of the elements that are not NaN; NaN where there are none.

    Example:
      >>> fnp.nanmedian(fnp.array([5.0, fnp.nan, 1.0]))
      Array(3., dtype=float32)
    """


# How.


def _fractions(name: str, q: Value, percent: bool, dtype: np.dtype[Any]) -> Any:
    """A scalar or a vector of fractions; of a number in that dtype, weakly."""
    known = isinstance(q, (int, float))
    if percent:
        q = q / 100 if known else elementwise(p.div, q, 100, inexact=True)
    q = ax.full((), q, dtype, True) if known else ax.as_value(q)
    if q.ndim > 1:
        raise errors.ShapeError(
            f"{name}: q must be a scalar or a vector, got shape {q.shape}"
        )
    return q


def _rows(a: Any, axes: tuple[int, ...]) -> Any:
    """A matrix with the `axes` merged into its columns, all others into its rows."""
    rest = tuple(i for i in range(a.ndim) if i not in axes)
    return ax.merge_axes(a, rest, axes)


def _of_rows(x: Any, q: Any, method: str, skip_nan: bool) -> Any:
    """The fractions (Q, 1) of ordered rows (M, N) as (Q, M)."""
    size = x.shape[1]
    if skip_nan:
        present = ax.cast(x == x, q.dtype)
        count = add_along(present, (1,))[None]
    else:
        count = ax.full((1, x.shape[0]), size, q.dtype)

    def read(place: Any) -> Any:
        shape = (q.shape[0], x.shape[0])
        inside = _within(place, count)
        index = ax.broadcast_to(ax.cast(inside, dtypes.int32), shape)
        return bind(gather_p, x, ax.iota(dtypes.int32, shape, 1), index, arg=(0, 1))

    result = _between(method, q, count, read)
    if skip_nan:
        return result
    last = x[:, -1][None]  # where NaN stands
    return ax.choose(last != last, ax.full((), np.nan, result.dtype), result)


def _within(place: Any, count: Any) -> Any:
    """Places from 0 to the last one."""
    return elementwise(p.maximum, elementwise(p.minimum, place, count - 1), 0)


def _quantile_position(method: str, q: Any, count: Any) -> Any:
    """Between which elements fractions are."""
    if method in ("linear", *_STEPWISE):
        return q * (count - 1)
    alpha, beta = _CONTINUOUS[method]
    place = q * count + (q * (1 - alpha - beta) + (alpha - 1))
    return _within(place, count)


def _between(method: str, q: Any, count: Any, read: Callable[[Any], Any]) -> Any:
    """The value of a method; `read` gives the elements at places, which it clips."""
    if method in _OF_COUNTS:
        return _of_counts(method, q * count, read)
    place = _quantile_position(method, q, count)
    floor = elementwise(p.floor, place)
    low, high = read(floor), read(elementwise(p.ceil, place))
    weight = place - floor
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
        return read(elementwise(p.ceil, rank) - 1)
    if method == "averaged_inverted_cdf":
        floor = elementwise(p.floor, rank)
        here, before = read(floor), read(floor - 1)
        return ax.choose(floor == rank, (here + before) * 0.5, here)
    # closest_observation: the nearest place; of two as near the even one, from 1.
    return read(elementwise(p.round_even, rank) - 1)


def _of_weighted_rows(x: Any, weights: Any, q: Any, skip_nan: bool) -> Any:
    """The first element at which the weights before it and its own reach q of all."""
    bad = (weights < 0) | (weights != weights)
    places = positions_along([x], 1)
    x, ordered = gather_along(x, places, 1), gather_along(weights, places, 1)
    missing = x != x
    ignored = missing | ~(ordered >= 0)
    sums = scan_with(ax.choose(ignored, 0, ordered), "sum", 1, False)
    less = sums[None] < (q * sums[:, -1])[..., None]
    index = add_along(ax.cast(less, dtypes.int32), (2,))
    present = ax.cast(~missing, dtypes.int32)
    count = add_along(present, (1,))
    index = _within(index, count if skip_nan else x.shape[1])
    result = bind(gather_p, x, ax.iota(dtypes.int32, index.shape, 1), index, arg=(0, 1))
    nothing = count == 0 if skip_nan else missing.any(1)
    undefined = bad.any(1) | nothing
    return ax.choose(undefined, ax.full((), np.nan, result.dtype), result)


# Counts.


def bincount(
    x: Value,
    weights: Value | None = None,
    minlength: int = 0,
    *,
    length: int | None = None,
) -> Any:
    """How often each of the numbers 0, 1, 2, … is in a vector.

    Args:
      x: a vector of integers; negative ones count as 0.
      weights: what each adds, instead of 1; bools count as numbers.
      minlength: the least length of the result.
      length: of the result; required where `x` is traced. Greater numbers are left
        out.

    Returns:
      A vector of int32, or of the dtype of weights that are numbers.

    Raises:
      DtypeError: `x` does not hold integers.
      ShapeError: `x` is no vector, or the weights are not as many.
      ConcretizationTypeError: `x` is traced, and `length` is not given.

    Example:
      >>> fnp.bincount(fnp.array([0, 2, 2, 3]))
      Array([1, 0, 2, 1], dtype=int32)
      >>> fnp.bincount(fnp.array([0, 2, 2]), weights=fnp.array([0.5, 1.0, 1.0]))
      Array([0.5, 0. , 2. ], dtype=float32)
    """
    x = ax.as_value(x)
    if x.dtype == dtypes.bool_:
        x = ax.cast(x, dtypes.int32)
    x = ax.vector(ax.integers(x, "bincount: the elements"), "bincount: x")
    if length is not None:
        count = ax.check_count(length, "bincount: length")
    else:
        ax.need_known(x, "bincount: the number of bins", "give length=n")
        least = ax.static_int(minlength, "bincount: minlength")
        count = max(least, int(x.max()) + 1 if x.size else 0, 0)
    if weights is None:
        values = ax.full(x.shape, 1, dtypes.default_dtype("i"))
    else:
        values = ax.as_value(weights)
        ax.need_shape(values, "bincount: weights", x.shape)
        if values.dtype == dtypes.bool_:  # whose sums would be "or"
            values = ax.cast(values, dtypes.int32)
    return _add_at(x, values, count)


def _add_at(places: Any, values: Any, count: int) -> Any:
    """Values added up at places; those behind the end are left out."""
    if dtypes.kind(places.dtype) == "i":
        places = logic.maximum(places, 0)
    # Found on all cores and stored: adding up is one loop, in which a search is slow.
    (places,) = bind_compound(barrier_p, places)
    zeros = ax.full((count,), 0, values.dtype)
    return bind(scatter_p, zeros, values, places, arg=((0,), "add"))


# Histograms.


def histogram_bin_edges(
    a: Value,
    bins: Value | str = 10,
    range: Sequence[Value] | Value | None = None,
    weights: Value | None = None,
) -> Any:
    """The edges of the bins of a histogram, one more than there are bins.

    Args:
      a: the numbers.
      bins: their number, the edges themselves, or the name of one of NumPy's rules
        where `a` is known.
      range: (least, greatest) edge; by default those of `a`.
      weights: without effect.

    Returns:
      A vector of floats.

    Raises:
      ShapeError: the range is no pair.
      ValueRangeError: the number of bins is negative.
      ConcretizationTypeError: a rule is named, and `a` is traced.

    Example:
      >>> fnp.histogram_bin_edges(fnp.array([1, 2, 5]), bins=2)
      Array([1., 3., 5.], dtype=float32)
    """
    del weights
    x = asarray(dtypes.as_number(a))
    dtype = dtypes.to_inexact(dtypes.strong_dtype(x.dtype, x.weak_type))
    if isinstance(bins, str):
        return _edges_by_rule(x, bins, range, dtype)
    if ax.is_sequence(bins) or aval_of(bins).ndim == 1:
        return asarray(bins, dtype)
    count = ax.check_count(bins, "histogram_bin_edges: bins")
    if range is None:
        if x.size == 0:
            ends = [ax.full((), 0, dtype), ax.full((), 1, dtype)]
        else:
            ends = [ax.cast(x.min(), dtype), ax.cast(x.max(), dtype)]
    else:
        what = "histogram_bin_edges: range"
        ends = list(ax.need_shape(asarray(range, dtype), what, (2,)))
    same = ends[0] == ends[1]
    low = ax.choose(same, ends[0] - 0.5, ends[0])
    high = ax.choose(same, ends[1] + 0.5, ends[1])
    return linspace(low, high, count + 1, dtype=dtype)


def _edges_by_rule(x: Any, rule: str, range: Any, dtype: np.dtype[Any]) -> Any:
    ax.need_known(x, f"histogram: bins={rule!r}", "give the number of bins")
    known = x if is_array(x) else Array.of(concrete(x))
    known.note_read()
    try:
        edges = np.histogram_bin_edges(known.numpy(), rule, range)
    except ValueError as error:
        raise errors.ValueRangeError(f"histogram: {error}") from None
    return asarray(edges, dtype)


def histogram(
    a: Value,
    bins: Value | str = 10,
    range: Sequence[Value] | Value | None = None,
    weights: Value | None = None,
    density: bool | None = None,
) -> tuple[Any, Any]:
    """How many numbers fall into each of the bins, the last of which is closed.

    Args:
      a: the numbers; the array is flattened.
      bins: their number, the edges themselves, or the name of one of NumPy's rules
        where `a` is known.
      range: (least, greatest) edge; by default those of `a`.
      weights: what each number adds, instead of 1; of the shape of `a`.
      density: divide by the sum and by the widths of the bins.

    Returns:
      (counts, edges), both floats, where NumPy counts in integers.

    Raises:
      ShapeError: the weights do not fit, or `bins` are edges and there is none.

    Example:
      >>> counts, edges = fnp.histogram(fnp.array([1, 2, 2, 5]), bins=2)
      >>> counts
      Array([3., 1.], dtype=float32)
      >>> edges
      Array([1., 3., 5.], dtype=float32)
    """
    if weights is None:
        x = ax.strong(*ew.promote_inexact(ax.as_value(a)))
        values = ax.full(x.shape, 1, x.dtype)
    else:
        x, values = ew.promote_inexact(ax.as_value(a), ax.as_value(weights))
        ax.need_shape(values, "histogram: weights", x.shape)
    edges = histogram_bin_edges(a, bins, range)
    places = ravel(_bins_of("histogram", x, edges))
    counts = _add_at(places, ravel(values), edges.shape[0])[1:]
    if density:
        counts = counts / diff(edges) / counts.sum()
    return counts, edges


def _bins_of(name: str, x: Any, edges: Any) -> Any:
    """In which bin, from 1, numbers are; the last edge belongs to the last bin."""
    last = edges.shape[0] - 1
    if last < 0:
        raise errors.ShapeError(
            f"{name}: bins must have at least one edge, got an array of shape "
            f"{edges.shape}; n bins have n + 1 edges"
        )
    return ax.choose(x == edges[-1], last, searchsorted(edges, x, "right"))


def histogram2d(
    x: Value,
    y: Value,
    bins: Value | Sequence[Value] = 10,
    range: Sequence[Any] | None = None,
    weights: Value | None = None,
    density: bool | None = None,
) -> tuple[Any, Any, Any]:
    """How many points (x, y) fall into each cell of a grid.

    Args:
      x, y: vectors of one size.
      bins: the number of bins, or the edges, for both axes or for each.
      range: a pair of (least, greatest) edges, or of None.
      weights: what each point adds, instead of 1.
      density: divide by the sum and by the areas of the cells.

    Returns:
      (counts, edges of x, edges of y).

    Raises:
      ShapeError: an argument does not fit the points.

    Example:
      >>> x, y = fnp.array([0, 1, 1]), fnp.array([0, 2, 2])
      >>> fnp.histogram2d(x, y, bins=2)[0]
      Array([[1, 0],
             [0, 2]], dtype=int32)
    """
    if _is_several(bins) and len(_as_list(bins)) not in (1, 2):
        bins = [asarray(bins), asarray(bins)]
    sample = stack([ax.as_value(x), ax.as_value(y)], axis=1)
    counts, edges = histogramdd(sample, bins, range, weights, density)
    return counts, edges[0], edges[1]


def histogramdd(
    sample: Value,
    bins: Value | Sequence[Value] = 10,
    range: Sequence[Any] | None = None,
    weights: Value | None = None,
    density: bool | None = None,
) -> tuple[Any, list[Any]]:
    """How many points fall into each cell of a grid.

    Args:
      sample: (points, dimensions).
      bins: the number of bins, or for each dimension its number or its edges.
      range: for each dimension (least, greatest) or None.
      weights: what each point adds, instead of 1.
      density: divide by the sum and by the volumes of the cells.

    Returns:
      (counts, the edges of each dimension).

    Raises:
      ShapeError: an argument does not fit the sample.

    Example:
      >>> counts, edges = fnp.histogramdd(fnp.array([[0, 0], [1, 2], [1, 2]]), bins=2)
      >>> counts
      Array([[1, 0],
             [0, 2]], dtype=int32)
    """
    points = ax.as_value(sample)
    if points.ndim != 2 or not points.shape[1]:
        raise errors.ShapeError(
            f"histogramdd: sample must be (points, dimensions), got {points.shape}"
        )
    size, depth = points.shape
    if weights is None:
        (points,) = ew.promote_inexact(points)
        values = ax.full((size,), 1, dtypes.default_dtype("i"))
    else:
        points, values = ew.promote_inexact(points, ax.as_value(weights))
        ax.need_shape(values, "histogramdd: weights", (size,))
    by_axis: list[Any] = _as_list(bins) if _is_several(bins) else [bins] * depth
    ranges: list[Any] = [None] * depth if range is None else list(range)
    if len(by_axis) != depth or len(ranges) != depth:
        raise errors.ShapeError(
            f"histogramdd: {depth} dimensions need as many bins and ranges, got "
            f"{len(by_axis)} and {len(ranges)}"
        )
    places, edges = _cells(points, by_axis, ranges)
    # One more cell before and behind along each axis, which are cut off.
    shape = tuple(e.shape[0] + 1 for e in edges)
    counts = ax.reshape(_add_at(places, values, prod(shape)), shape)
    counts = ax.shrink(counts, tuple((1, n - 1) for n in shape))
    if density:
        counts = _densities(ax.cast(counts, points.dtype), edges)
    return counts, edges


def _is_several(bins: Any) -> bool:
    return ax.is_sequence(bins) or bool(getattr(bins, "ndim", 0))


def _as_list(bins: Any) -> list[Any]:
    return list(bins) if ax.is_sequence(bins) else list(asarray(bins))


def _cells(points: Any, bins: list[Any], ranges: list[Any]) -> tuple[Any, list[Any]]:
    """The number of the cell of each point, and the edges."""
    edges: list[Any] = []
    places: Any = None
    for axis, (count, ends) in enumerate(zip(bins, ranges, strict=True)):
        x = points[:, axis]
        line = histogram_bin_edges(x, count, ends)
        here = _bins_of("histogramdd", x, line)
        places = here if places is None else places * (line.shape[0] + 1) + here
        edges.append(line)
    return places, edges


def _densities(counts: Any, edges: list[Any]) -> Any:
    counts = counts / counts.sum()
    for axis, line in enumerate(edges):
        others = [a for a in range(len(edges)) if a != axis]
        counts = counts / ax.insert_axes(diff(line), others)
    return counts
