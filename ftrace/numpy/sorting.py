"""Sorting, and where something is: nonzero, places in sorted arrays, extrema.

NaN stands last, -0.0 equals 0.0, and every sort is stable. It is one operation
(`trace/primitives/library/sorting.py`), of which lowering makes kernels
(`lower/library/sort_kernels.py`); what is taken at the positions is a gather.

The place of an extremum is a reduction of positions:

    m = max(x);  index = min(position where x == m or x is NaN)

Of a long vector the greatest of each block are found first: only the block that has the
greatest of these is looked through once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ftrace import dtypes, errors
from ftrace.numpy import axes as ax, elementwise as ew, logic
from ftrace.numpy.cumulative import cumsum
from ftrace.numpy.joining import concatenate, split, stack
from ftrace.numpy.reductions import is_nan, reduce_by, without_nan
from ftrace.trace.arrays.array import Array, is_array
from ftrace.trace.bind import bind, bind_compound, do_now, elementwise
from ftrace.trace.eager.composite import run_fused
from ftrace.trace.eager.function_objects import member
from ftrace.trace.primitives import elementwise as p, reduction as red
from ftrace.trace.primitives.indexing import gather_p, scatter_p
from ftrace.trace.primitives.library import sorting as library
from ftrace.trace.primitives.primitive import Primitive
from ftrace.trace.symbolic import any_dynamic, upper_bound
from ftrace.trace.tiering import LONG_ROW
from ftrace.trace.tracing.tracer import Value, concrete

__all__ = [
    "argmax", "argmin", "argpartition", "argsort", "argwhere", "digitize",
    "flatnonzero", "lexsort", "nanargmax", "nanargmin", "nonzero", "partition",
    "searchsorted", "sort", "sort_complex", "where",
]  # fmt: skip


def sort_along(x: Any, axis: int) -> Any:
    """The elements in ascending order along an axis counted from the front."""
    return bind_compound(library.sort_p, x, arg=axis)[0]


def positions_along(keys: Sequence[Any], axis: int) -> Any:
    """The positions that bring keys of one shape into order; the first counts most."""
    return bind_compound(library.argsort_p, *keys, arg=axis)[0]


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
        raise errors.ArgumentError(
            f"{name}: 'order' names fields of structured arrays, which ftrace does not "
            f"have; got {order!r}"
        )
    errors.one_of(f"{name}: kind", kind, _KINDS)


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

    NaN stands last, and -0.0 equals 0.0. Every sort is stable.

    Args:
      a: the array. Complex numbers are ordered by real, then by imaginary part.
      axis: None flattens it first.
      kind, stable: accepted; every sort is stable.
      order: not supported.
      descending: from the greatest to the least.

    Raises:
      AxisError: there is no such axis.

    Example:
      >>> x = fnp.array([[3, 1, 2], [0, 5, 4]])
      >>> fnp.sort(x)
      Array([[1, 2, 3],
             [0, 4, 5]], dtype=int32)
      >>> fnp.sort(x, axis=0)
      Array([[0, 1, 2],
             [3, 5, 4]], dtype=int32)
      >>> fnp.sort(x, axis=None, descending=True)
      Array([5, 4, 3, 2, 1, 0], dtype=int32)
    """
    _check_options("sort", kind, order)
    x, axis = ax.flatten(a, axis, "sort")
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

    Of equal elements the first comes first, also where the order is descending.

    Args:
      a: the array.
      axis: None flattens it first.
      kind, stable: accepted; every sort is stable.
      order: not supported.
      descending: from the greatest to the least.
      dtype: an integer dtype; None is int32.

    Returns:
      An array of integers of the shape of `a`: `take_along_axis` with it sorts.

    Raises:
      AxisError: there is no such axis.

    Example:
      >>> fnp.argsort(fnp.array([30, 10, 20]))
      Array([1, 2, 0], dtype=int32)
    """
    _check_options("argsort", kind, order)
    x, axis = ax.flatten(a, axis, "argsort")
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

    Returns:
      An array of int32 of the shape of one key.

    Raises:
      ShapeError: the keys differ in shape.
      ValueRangeError: there is no key.

    Example:
      >>> last, first = fnp.array([2, 1, 2]), fnp.array([7, 8, 6])
      >>> fnp.lexsort([first, last])
      Array([1, 2, 0], dtype=int32)
    """
    if ax.is_sequence(keys):
        parts = [ax.as_value(key) for key in keys]
    else:
        parts = list(ax.need_axes("lexsort", keys, 1))
    if not parts:
        raise errors.ValueRangeError("lexsort takes at least one key, got none")
    integer, ndim = dtypes.default_dtype("i"), len(ax.one_shape("lexsort", parts))
    if ndim == 0:
        return ax.full((), 0, integer)
    axis = ax.canonical_axis(axis, ndim, "lexsort")
    return ax.cast(positions_along(parts[::-1], axis), integer)


def _partition(
    name: str, a: Value, kth: int, axis: int
) -> tuple[Any, library.Partition]:
    """The value, and how it is divided: at a place that there is."""
    x, axis = ax.flatten(a, axis, name)
    size = x.shape[axis]
    index = ax.static_int(kth, f"{name}: kth", -size, size - 1)
    return x, library.Partition(index % size, axis)


def partition(a: Value, kth: int, axis: int = -1) -> Any:
    """The element `kth` at its place; before it the lesser ones, behind it the others.

    These stand in an order that is not told.

    Args:
      a: the array.
      kth: a place along the axis; a Python integer.
      axis: along which; None flattens first.

    Raises:
      ValueRangeError: there is no such place.

    Example:
      >>> fnp.partition(fnp.array([5, 1, 4, 2]), 1)[:2]
      Array([1, 2], dtype=int32)
    """
    x, arg = _partition("partition", a, kth, axis)
    if _is_long(x, x.shape[arg.axis]):
        return bind_compound(library.partition_p, x, arg=arg)[0]
    before, behind = split(sort_along(x, arg.axis), [arg.kth + 1], arg.axis)
    return concatenate([before, ax.flip(behind, (arg.axis,))], arg.axis)


def argpartition(a: Value, kth: int, axis: int = -1) -> Any:
    """The positions that bring an array into the order of a partition.

    Which elements stand where on one side, or of equal ones before the place, is not
    told: it may be another partition than that of `partition`.

    Args:
      a: the array.
      kth: a place along the axis; a Python integer.
      axis: along which; None flattens first.

    Returns:
      An array of int32 of the shape of `a`.

    Raises:
      ValueRangeError: there is no such place.

    Example:
      >>> fnp.argpartition(fnp.array([5, 1, 4, 2]), 1)[:2]
      Array([1, 3], dtype=int32)
    """
    x, arg = _partition("argpartition", a, kth, axis)
    if _is_long(x, x.shape[arg.axis]):
        found = bind_compound(library.argpartition_p, x, arg=arg)[0]
        return ax.cast(found, dtypes.default_dtype("i"))
    places = positions_along([x], arg.axis)
    before, behind = split(places, [arg.kth + 1], arg.axis)
    result = concatenate([before, sort_along(behind, arg.axis)], arg.axis)
    return ax.cast(result, dtypes.default_dtype("i"))


def _is_long(x: Any, size: Any) -> bool:
    """Are there rows of which a sort takes several times as long as a partition?"""
    return type(size) is int and size >= LONG_ROW and not dtypes.is_complex(x.dtype)


def sort_complex(a: Value) -> Any:
    """The elements as complex numbers, in order along the last axis.

    They are ordered by real part, then by imaginary part.

    Args:
      a: an array of one axis or more.

    Raises:
      AxisError: it is a scalar.

    Example:
      >>> fnp.sort_complex(fnp.array([2, 1 + 1j, 1]))
      Array([1.+0.j, 1.+1.j, 2.+0.j], dtype=complex64)
    """
    x, axis = ax.flatten(a, -1, "sort_complex")
    dtype = dtypes.to_inexact(x.dtype)
    wide = dtype if dtypes.is_complex(dtype) else dtypes.complex_dtype(dtype)
    if dtypes.is_complex(x.dtype):
        return sort_along(x, axis)
    return ax.cast(sort_along(ax.cast(x, dtype), axis), wide)  # numbers sort faster


# Where something is.


def nonzero(
    a: Value, *, size: int | None = None, fill_value: Any = None
) -> tuple[Any, ...]:
    """The indices of the elements that are not zero, an array per axis.

    Args:
      a: the array.
      size: how many indices are returned: more are cut off, fewer are filled up.
        Required where `a` is traced.
      fill_value: an integer, or one per axis; 0 by default.

    Returns:
      A tuple of vectors of int32: `a[nonzero(a)]` is what is not zero, row by row.

    Raises:
      ConcretizationTypeError: `a` is traced, and `size` is not given.
      ShapeError: there are no axes.

    Example:
      >>> fnp.nonzero(fnp.array([[0, 5], [6, 0]]))
      (Array([0, 1], dtype=int32), Array([1, 0], dtype=int32))
      >>> ft.jit(lambda x: fnp.nonzero(x, size=3, fill_value=-1))(fnp.array([0, 5, 6]))
      (Array([ 1,  2, -1], dtype=int32),)
    """
    a = ax.need_axes("nonzero", a, 1, instead="use atleast_1d")
    if size is not None:
        count = ax.check_count(size, "nonzero: size")
        return _first_nonzero(a, count, _fills(fill_value, a.ndim))
    if ax.is_unknown(a):
        raise errors.ConcretizationTypeError(
            f"nonzero: how many elements of a traced array of type {a.aval!r} are not "
            "zero is not known; give size=n, or use where(condition, x, y)"
        )
    known = a if is_array(a) else Array.of(concrete(a))
    known.note_read()  # how many there are decides the shape
    integer = dtypes.default_dtype("i")
    return tuple(Array.of(x.astype(integer)) for x in np.nonzero(known.numpy()))


def _fills(fill_value: Any, ndim: int) -> list[int]:
    if ax.is_sequence(fill_value):
        if len(fill_value) != ndim:
            raise errors.ShapeError(
                f"nonzero: {len(fill_value)} fill values for {ndim} axes"
            )
        return [int(f) for f in fill_value]
    return [0 if fill_value is None else int(fill_value)] * ndim


def _first_nonzero(a: Any, size: int, fills: list[int]) -> tuple[Any, ...]:
    if any_dynamic((size, a.size)):
        return _by_ranks(a, size, fills)
    integer = dtypes.default_dtype("i")
    if size == 0 or a.size == 0:
        return tuple(ax.full((size,), fill, integer) for fill in fills)
    flat = ax.reshape(logic.truth(a), (a.size,))
    (places,) = bind_compound(library.positions_p, flat, arg=size)
    there = places < a.size
    places = ax.cast(places, np.dtype(f"u{places.dtype.itemsize}"))  # quick to divide
    results: list[Any] = []
    inside = a.size
    for length, fill in zip(a.shape, fills, strict=True):
        before, inside = inside, inside // length
        place = elementwise(p.rem, places, before) if before < a.size else places
        place = elementwise(p.div, place, inside) if inside > 1 else place
        results.append(
            ax.choose(there, ax.cast(place, integer), ax.full((), fill, integer))
        )
    return tuple(results)


def _by_ranks(a: Any, size: int, fills: list[int]) -> tuple[Any, ...]:
    """Each element that is not zero writes its indices at its rank among them."""
    flat = ax.reshape(logic.truth(a), (a.size,))
    rank = cumsum(ax.cast(flat, dtypes.int32)) - 1
    target = ax.choose(flat, rank, size)  # out of bounds: the scatter drops it
    integer = dtypes.default_dtype("i")
    results: list[Any] = []
    for axis, fill in enumerate(fills):
        place = ax.reshape(ax.iota(integer, a.shape, axis), (a.size,))
        filled = ax.full((size,), fill, integer)
        results.append(bind(scatter_p, filled, place, target, arg=((0,), "set")))
    return tuple(results)


def where(
    condition: Value,
    x: Value | None = None,
    y: Value | None = None,
    /,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """`x` where the condition holds, `y` elsewhere; alone, the indices where it does.

    Args:
      condition: bools; numbers count as true where they are not zero.
      x, y: the values; all three broadcast together, and these two promote.
      size: without `x` and `y`: how many indices the result has, for `jit`.
      fill_value: the indices beyond those that there are, by default 0.

    Raises:
      ArgumentError: only one of x and y is given.
      ConcretizationTypeError: the condition alone, traced, and without `size`.

    Example:
      >>> x = fnp.array([-1, 0, 2])
      >>> fnp.where(x > 0, x, 10)
      Array([10, 10,  2], dtype=int32)
      >>> fnp.where(x > -1)
      (Array([1, 2], dtype=int32),)
    """
    if x is None and y is None:
        return nonzero(condition, size=size, fill_value=fill_value)
    if x is None or y is None:
        raise errors.ArgumentError("where takes the condition alone, or both x and y")
    return ax.choose(condition, x, y)


def flatnonzero(a: Value, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The indices of the elements that are not zero, in the flattened array.

    Args:
      a: the array.
      size: how many are returned; required where `a` is traced.
      fill_value: what fills the rest; 0 by default.

    Returns:
      A vector of int32.

    Raises:
      ConcretizationTypeError: `a` is traced, and `size` is not given.

    Example:
      >>> fnp.flatnonzero(fnp.array([[0, 5], [6, 0]]))
      Array([1, 2], dtype=int32)
    """
    a = ax.as_value(a)
    return nonzero(ax.reshape(a, (a.size,)), size=size, fill_value=fill_value)[0]


def argwhere(a: Value, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The indices of the elements that are not zero, a row per element.

    Args:
      a: the array.
      size: how many rows are returned; required where `a` is traced.
      fill_value: an integer, or one per axis, for the rows beyond; 0 by default.

    Returns:
      (elements, axes) int32.

    Raises:
      ConcretizationTypeError: `a` is traced, and `size` is not given.

    Example:
      >>> fnp.argwhere(fnp.array([[0, 5], [6, 0]]))
      Array([[0, 1],
             [1, 0]], dtype=int32)
    """
    a = ax.as_value(a)
    if a.ndim == 0:
        return ax.full(
            (flatnonzero(a, size=size).shape[0], 0), 0, dtypes.default_dtype("i")
        )
    found = nonzero(a, size=size, fill_value=fill_value)
    return stack(found, axis=1)


_METHODS = ("scan", "scan_unrolled", "sort", "compare_all")


def searchsorted(
    a: Value,
    v: Value,
    side: str = "left",
    sorter: Value | None = None,
    *,
    method: str = "scan",
) -> Any:
    """Where values would stand in a sorted vector; NaN stands last.

    Args:
      a: a vector in ascending order.
      v: the values.
      side: "left" before equal elements, "right" behind them.
      sorter: indices that bring `a` into order.
      method: "scan", "scan_unrolled", "sort" or "compare_all"; accepted, the search is
        always binary.

    Returns:
      An array of int32 of the shape of `v`, from 0 to the length of `a`.

    Raises:
      ShapeError: `a` is no vector.
      ValueRangeError: the side is neither "left" nor "right", or there is no such
        method.

    Example:
      >>> fnp.searchsorted(fnp.array([1, 3, 3, 5]), fnp.array([0, 3, 9]))
      Array([0, 1, 4], dtype=int32)
      >>> fnp.searchsorted(fnp.array([1, 3, 3, 5]), 3, side="right")
      Array(3, dtype=int32)
    """
    errors.one_of("searchsorted: method", method, _METHODS)
    errors.one_of("searchsorted: side", side, ("left", "right"))
    a, v = ew.promote_together(a, v)
    a = ax.vector(a, "searchsorted: a")
    if sorter is not None:
        a = bind(gather_p, a, ax.as_value(sorter), arg=(0,))
    if not dtypes.is_complex(a.dtype):
        function = partial(_search_now, side)
        found = do_now(function, a, v, dtype=dtypes.int32, weak=False)
        if found is not None:
            return found
    return _bisect(a, v, side == "right")


def _search_now(side: Any, a: Any, v: Any) -> Any:
    """The places by NumPy, whose order is ours but for complex numbers."""
    if dtypes.is_float(a.dtype) and a.dtype.itemsize == 2:
        a, v = a.astype(np.float32), v.astype(np.float32)
    return a.searchsorted(v, side)


def _bisect(a: Any, v: Any, right: bool) -> Any:
    """Binary search, all values at once: log2(n) gathers."""
    size = a.shape[0]
    low, high = ax.full(v.shape, 0, dtypes.int32), ax.full(v.shape, size, dtypes.int32)
    for _ in range(upper_bound(size).bit_length()):
        middle = elementwise(p.div, low + high, 2)
        # A lane that is done stands at low == high, which may be behind the end.
        place = elementwise(p.minimum, middle, size - 1)
        element = bind(gather_p, a, place, arg=(0,))
        behind = (element < v) | (element == v) if right else element < v
        if dtypes.is_inexact(a.dtype):  # NaN equals NaN and ends the order
            behind = behind | ((v != v) if right else (v != v) & (element == element))
        open_ = low < high
        low = ax.choose(open_ & behind, middle + 1, low)
        high = ax.choose(open_ & ~behind, middle, high)
    return low


def digitize(
    x: Value, bins: Value, right: bool = False, *, method: str | None = None
) -> Any:
    """In which bin each value is; the bins ascend or descend.

    Args:
      x: the values.
      bins: a vector of edges; bin i is from `bins[i - 1]` up to, without, `bins[i]`.
      right: the upper edge belongs to a bin, and not the lower one.
      method: as of `searchsorted`; without effect.

    Returns:
      An array of int32 of the shape of `x`: 0 before the first edge, the number of
      edges behind the last.

    Raises:
      ShapeError: `bins` is no vector.

    Example:
      >>> fnp.digitize(fnp.array([0.5, 1.0, 7.0]), fnp.array([1.0, 2.0, 4.0]))
      Array([0, 1, 3], dtype=int32)
    """
    x, bins = ax.as_value(x), ax.vector(bins, "digitize: bins")
    if bins.shape[0] == 0:
        return ax.full(x.shape, 0, dtypes.int32)
    errors.one_of("digitize: method", method, (None, *_METHODS))
    side = "left" if right else "right"
    first, last = bins[0], bins[-1]
    descends = (first > last) | (first != first) & (last == last)  # NaN is greatest
    ascending = ax.choose(descends, ax.flip(bins, (0,)), bins)
    found = searchsorted(ascending, x, side)
    return ax.choose(descends, bins.shape[0] - found, found)


# Where the extremum stands.


def position_of(primitive: Primitive, a: Any, axis: int) -> Any:
    """Where the extremum stands first along `axis`, which stays with size 1."""
    return run_fused(first_position, [a], primitive=primitive, axis=axis)


def first_position(a: Any, primitive: Primitive, axis: int) -> Any:
    """Where the extremum stands first along `axis`, which stays with size 1."""
    length = _block_length(a.shape)
    return _of_blocks(a, primitive, length) if length else _first(a, primitive, axis)


#: A vector of so many elements has blocks, and so many elements has each at the least.
_LONG, _BLOCK = 1 << 16, 1 << 12


def _block_length(shape: tuple[Any, ...]) -> int:
    """Elements of a block of a long vector: a divisor; 0 if it has none."""
    if len(shape) != 1 or any_dynamic(shape) or shape[0] < _LONG:
        return 0
    lengths = range(_BLOCK, 4 * _BLOCK)
    return next((n for n in lengths if shape[0] % n == 0), 0)


def _of_blocks(a: Any, primitive: Primitive, length: int) -> Any:
    rows = ax.reshape(a, (a.shape[0] // length, length))
    block = _first(reduce_by(primitive, rows, (1,), False), primitive, 0)
    row = ax.reshape(bind(gather_p, rows, block, arg=(0,)), (length,))
    return block * length + _first(row, primitive, 0)


def _first(a: Any, primitive: Primitive, axis: int) -> Any:
    size = a.shape[axis]
    extremum = ax.expand(bind(primitive, a, arg=(axis,)), a.shape)
    here = a == extremum
    if dtypes.is_float(a.dtype):
        here = here | (a != a)
    dtype = dtypes.default_dtype("i")
    if upper_bound(size) > dtypes.limits(dtype)[1]:
        dtype = dtypes.int64
    numbers = ax.iota(dtype, a.shape, axis)
    beyond = ax.full(a.shape, size - 1, dtype)
    return bind(red.reduce_min_p, bind(p.select, here, numbers, beyond), arg=(axis,))


def _positions(name: str, primitive: Primitive, skip_nan: bool = False):
    def positions(
        a: Value,
        axis: int | None = None,
        out: None = None,
        keepdims: bool | None = None,
    ) -> Any:
        """The index of an extremum.

        Args:
          a: the array; real.
          axis: along which to look; None counts in the flattened array.
          out: not supported.
          keepdims: the axis stays, with size 1.

        Returns:
          An array of int32 without the axis.

        Raises:
          DtypeError: `a` is complex.
          ValueRangeError: the axis has no elements.
        """
        ax.no_out(name, out)
        ew.refuse_complex(name, a, instead="; compare abs(x)")
        whole, (x, place) = axis is None, ax.flatten(a, axis, name)
        if not x.shape[place]:
            raise errors.ValueRangeError(
                f"{name}: the array of shape {ax.shape_of(a)} has no elements along "
                f"its axis {place}"
            )
        missing = is_nan(x) if skip_nan else None
        if missing is not None:
            x = without_nan(x, red.identity(primitive, x.dtype))
        result = position_of(primitive, x, place)
        if missing is not None:
            nothing = reduce_by(red.reduce_min_p, missing, (place,), True)
            result = ax.choose(nothing, ax.full((), -1, result.dtype), result)
        if not keepdims:
            return ax.drop_axes(result, (place,))
        return ax.reshape(result, (1,) * len(ax.shape_of(a))) if whole else result

    return positions


@member(_positions, red.reduce_max_p)
def argmax():
    """The index of the first greatest element; the first NaN where there is one.

    Example:
      >>> fnp.argmax(fnp.array([1, 7, 7]))
      Array(1, dtype=int32)
      >>> fnp.argmax(fnp.array([[1, 5], [7, 2]]), axis=1)
      Array([1, 0], dtype=int32)
    """


@member(_positions, red.reduce_min_p)
def argmin():
    """The index of the first least element; the first NaN where there is one.

    Example:
      >>> fnp.argmin(fnp.array([[1, 5], [7, 2]]), axis=0)
      Array([0, 1], dtype=int32)
    """


@member(_positions, red.reduce_max_p, skip_nan=True)
def nanargmax():
    """The index of the first greatest element, NaN left out; -1 where all are NaN.

    Example:
      >>> fnp.nanargmax(fnp.array([1.0, fnp.nan, 3.0]))
      Array(2, dtype=int32)
    """


@member(_positions, red.reduce_min_p, skip_nan=True)
def nanargmin():
    """The index of the first least element, NaN left out; -1 where all are NaN.

    Example:
      >>> fnp.nanargmin(fnp.array([2.0, fnp.nan, 1.0]))
      Array(2, dtype=int32)
    """
