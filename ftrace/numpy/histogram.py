"""Counts of elements: bincount, and histograms of one and more dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ftrace import dtypes, errors
from ftrace.arrays.array import Array, is_array
from ftrace.numpy import axes as ax
from ftrace.numpy.creation import asarray
from ftrace.numpy.curves import diff
from ftrace.numpy.elementwise import promote_inexact
from ftrace.numpy.ranges import linspace
from ftrace.numpy.searching import searchsorted
from ftrace.numpy.selection import maximum
from ftrace.numpy.shape import ravel, stack
from ftrace.numpy.types import is_sequence
from ftrace.trace.bind import bind, bind_compound
from ftrace.trace.primitives.barrier import barrier_p
from ftrace.trace.primitives.indexing import scatter_p
from ftrace.trace.tracing.tracer import (
    Value,
    aval_of,
    concrete,
)

__all__ = [
    "bincount", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd",
]  # fmt: skip


def bincount(
    x: Value,
    weights: Value | None = None,
    minlength: int = 0,
    *,
    length: int | None = None,
    out_sharding: Any = None,
) -> Any:
    """How often each of the numbers 0, 1, 2, … is in a vector.

    Args:
      x: a vector of integers; negative ones count as 0.
      weights: what each adds, instead of 1; bools count as numbers.
      minlength: the least length of the result.
      length: of the result; required where `x` is traced. Greater numbers are left
        out.
      out_sharding: accepted, without effect.

    Returns:
      A vector of int32, or of the dtype of weights that are numbers.

    Raises:
      DtypeError: `x` does not hold integers.
      ShapeError: `x` is no vector, or the weights are not as many.
      ConcretizationTypeError: `x` is traced, and `length` is not given.
    """
    x = ax.as_value(x)
    if x.dtype == dtypes.bool_:
        x = ax.cast(x, dtypes.int32)
    if not dtypes.is_integer(x.dtype):
        raise errors.DtypeError(
            f"bincount takes integers, got {x.dtype}; round and cast them"
        )
    x = ax.vector(x, "bincount: x")
    count = _bins(x, minlength, length)
    if weights is None:
        values = ax.full(x.shape, 1, dtypes.default_dtype("i"))
    else:
        values = ax.as_value(weights)
        if values.shape != x.shape:
            raise errors.ShapeError(
                f"bincount: weights must have the shape of x, {x.shape}, got "
                f"{values.shape}"
            )
        if values.dtype == dtypes.bool_:  # whose sums would be "or"
            values = ax.cast(values, dtypes.int32)
    return _added(x, values, count)


def _bins(x: Any, minlength: int, length: int | None) -> int:
    if length is not None:
        return ax.check_count(length, "bincount: length")
    if ax.is_unknown(x):
        raise errors.ConcretizationTypeError(
            f"bincount: how many bins a traced array of type {aval_of(x)!r} needs is "
            "not known; give length=n"
        )
    least_count = ax.static_int(minlength, "bincount: minlength")
    return max(least_count, int(x.max()) + 1 if x.size else 0, 0)


def _added(places: Any, values: Any, count: int) -> Any:
    """Values added up at places; those behind the end are left out."""
    if dtypes.kind(places.dtype) == "i":
        places = maximum(places, 0)
    # Found on all cores and stored: adding up is one loop, in which a search is slow.
    (places,) = bind_compound(barrier_p, places)
    board = ax.full((count,), 0, values.dtype)
    return bind(scatter_p, board, values, places, arg=((0,), "add"))


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

    Raises:
      ShapeError: the range is no pair.
      ValueRangeError: the number of bins is negative.
      ConcretizationTypeError: a rule is named, and `a` is traced.
    """
    del weights
    x = asarray(dtypes.as_number(a))
    dtype = dtypes.to_inexact(dtypes.settled(x.dtype, x.weak_type))
    if isinstance(bins, str):
        return _edges_by_rule(x, bins, range, dtype)
    if is_sequence(bins) or aval_of(bins).ndim == 1:
        return asarray(bins, dtype)
    count = ax.check_count(bins, "histogram_bin_edges: bins")
    if range is None:
        if x.size == 0:
            ends = [ax.full((), 0, dtype), ax.full((), 1, dtype)]
        else:
            ends = [ax.cast(x.min(), dtype), ax.cast(x.max(), dtype)]
    else:
        pair = asarray(range, dtype)
        if pair.shape != (2,):
            raise errors.ShapeError(
                f"histogram_bin_edges: range must be (least, greatest), got {range!r}"
            )
        ends = list(pair)
    same = ends[0] == ends[1]
    low = ax.choose(same, ends[0] - 0.5, ends[0])
    high = ax.choose(same, ends[1] + 0.5, ends[1])
    return linspace(low, high, count + 1, dtype=dtype)


def _edges_by_rule(x: Any, rule: str, range: Any, dtype: np.dtype[Any]) -> Any:
    if ax.is_unknown(x):
        raise errors.ConcretizationTypeError(
            f"histogram: how many bins {rule!r} gives depends on the values of a "
            "traced array; give their number"
        )
    known = x if is_array(x) else Array.of(concrete(x))
    known.told()
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
      bins, range: as in `histogram_bin_edges`.
      weights: what each number adds, instead of 1; of the shape of `a`.
      density: divide by the sum and by the widths of the bins.

    Returns:
      (counts, edges), both floats.

    Raises:
      ShapeError: the weights do not fit, or `bins` are edges and there is none.
    """
    if weights is None:
        x = ax.strong(*promote_inexact(ax.as_value(a)))
        values = ax.full(x.shape, 1, x.dtype)
    else:
        x, values = promote_inexact(ax.as_value(a), ax.as_value(weights))
        if x.shape != values.shape:
            raise errors.ShapeError(
                f"histogram: weights must have the shape of a, {x.shape}, got "
                f"{values.shape}"
            )
    edges = histogram_bin_edges(a, bins, range)
    places = ravel(_bins_of("histogram", x, edges))
    counts = _added(places, ravel(values), edges.shape[0])[1:]
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
      weights, density: as in `histogramdd`.

    Returns:
      (counts, edges of x, edges of y).
    """
    if _is_several(bins) and len(_listed(bins)) not in (1, 2):
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
    """
    points = ax.as_value(sample)
    if points.ndim != 2 or not points.shape[1]:
        raise errors.ShapeError(
            f"histogramdd: sample must be (points, dimensions), got {points.shape}"
        )
    size, depth = points.shape
    if weights is None:
        (points,) = promote_inexact(points)
        values = ax.full((size,), 1, dtypes.default_dtype("i"))
    else:
        points, values = promote_inexact(points, ax.as_value(weights))
        if values.shape != (size,):
            raise errors.ShapeError(
                f"histogramdd: {size} points need weights of shape ({size},), got "
                f"{values.shape}"
            )
    by_axis: list[Any] = _listed(bins) if _is_several(bins) else [bins] * depth
    ranges: list[Any] = [None] * depth if range is None else list(range)
    if len(by_axis) != depth or len(ranges) != depth:
        raise errors.ShapeError(
            f"histogramdd: {depth} dimensions need as many bins and ranges, got "
            f"{len(by_axis)} and {len(ranges)}"
        )
    places, edges = _cells(points, by_axis, ranges)
    # One more cell before and behind along each axis, which are cut off.
    shape = tuple(e.shape[0] + 1 for e in edges)
    counts = ax.reshape(_added(places, values, prod(shape)), shape)
    counts = ax.shrink(counts, tuple((1, n - 1) for n in shape))
    if density:
        counts = _densities(ax.cast(counts, points.dtype), edges)
    return counts, edges


def _is_several(bins: Any) -> bool:
    return is_sequence(bins) or bool(getattr(bins, "ndim", 0))


def _listed(bins: Any) -> list[Any]:
    return list(bins) if is_sequence(bins) else list(asarray(bins))


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
