"""Collectives: what the instances of a function along a named axis do together.

The axis is one that `vmap(…, axis_name=…)`, `pmap` or `shard_map` has named. A value
that is the same for all instances because it is known (a number, an array from outside)
is not traced: its sum is computed at once.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import ArgumentError, DtypeError, ShapeError, ValueRangeError, one_of
from ftrace.numpy import reductions
from ftrace.numpy.axes import (
    as_value,
    canonical_axis,
    cast,
    move_axis,
    reshape,
    several,
    static_int,
)
from ftrace.numpy.new_arrays import arange, zeros_like
from ftrace.numpy.sorting import where
from ftrace.trace.bind import bind_compound
from ftrace.trace.calls.varying import UNKNOWN, vary, varying_here
from ftrace.trace.eager.function_objects import member
from ftrace.trace.flatten_arguments import flatten_values, is_int
from ftrace.trace.primitives import reduction as red
from ftrace.trace.primitives.movement import merge_shape
from ftrace.trace.primitives.primitive import Compound
from ftrace.trace.pytree import tree
from ftrace.trace.symbolic import same_size
from ftrace.trace.tracing.tracer import Axis, Tracer, Value, aval_of, axis_of

__all__ = [
    "all_gather", "all_to_all", "axis_index", "axis_size", "pbroadcast", "pcast",
    "pmax", "pmean", "pmin", "ppermute", "pshuffle", "psum", "psum_scatter",
    "pswapaxes", "pvary", "ragged_all_to_all",
]  # fmt: skip

Groups = Sequence[Sequence[int]] | None


_TUPLE: type[Any] = tuple


def _names(axis_name: Any) -> tuple[Any, ...]:
    return axis_name if isinstance(axis_name, _TUPLE) else (axis_name,)


def _axes(what: str, axis_name: Any) -> list[Axis]:
    if isinstance(axis_name, (list, set, frozenset)):
        raise ArgumentError(
            f"{what}: the axis must be a name or a tuple of names, got {axis_name!r}"
        )
    return [axis_of(name, what) for name in _names(axis_name)]


def _map(what: str, function: Callable[[Value], Any], x: Any) -> Any:
    values, treedef = flatten_values(x, f"{what}: the operand ")
    return tree.unflatten(treedef, [function(value) for value in values])


def _along(op: Compound, axis: Axis, x: Value, *more: Value) -> Any:
    arg = red.NamedAxis(axis.name, axis.size, axis.checked)
    return bind_compound(op, x, axis.index, *more, arg=arg)[0]


# Reductions.


def _reduction(
    name: str,
    op: Compound,
    positional: Callable[..., Any],
    of_constant: Callable[[Value, int], Any],
):
    def reduce(x: Any, axis_name: Any, *, axis_index_groups: Groups = None) -> Any:
        """Combines the values of all instances.

        Args:
          x: an array, or a pytree of them.
          axis_name: the name of an axis, or a tuple of names; an int is an axis of `x`.
          axis_index_groups: lists of instances, each of which is by itself.

        Returns:
          Of the shape and dtype of `x` (sums of bools int32), the same everywhere.

        Raises:
          AxisNameError: no axis has that name.
        """
        names = _names(axis_name)
        numbers = tuple([n for n in names if is_int(n)])
        named = _axes(name, tuple([n for n in names if not is_int(n)]))

        def of_value(value: Value) -> Any:
            if op is red.psum_p and aval_of(value).dtype == dtypes.bool_:
                value = cast(value, dtypes.int32)
            if numbers:
                value = positional(value, axis=numbers)
            if axis_index_groups is not None:
                rows = _group_members(name, named, axis_index_groups, value, op)
                return positional(rows, axis=0)
            if not isinstance(value, Tracer):
                return of_constant(value, prod(axis.size for axis in named))
            for axis in named:
                value = _along(op, axis, value)
            return value

        return _map(name, of_value, x)

    return reduce


@member(_reduction, red.psum_p, reductions.sum, operator.mul)
def psum():
    """The sum over all instances along an axis; of a Python number n times that.

    Example:
      >>> ft.vmap(lambda x: x / lax.psum(x, "i"), axis_name="i")(fnp.array([1.0, 3.0]))
      Array([0.25, 0.75], dtype=float32)
      >>> ft.vmap(lambda x: lax.psum(1, "i"), axis_name="i")(fnp.zeros(5))
      Array([5, 5, 5, 5, 5], dtype=int32, weak_type=True)
    """


@member(_reduction, red.pmax_p, reductions.max, lambda x, n: x)
def pmax():
    """The greatest value of all instances along an axis.

    Example:
      >>> f = ft.vmap(lambda x: x - lax.pmax(x, "i"), axis_name="i")
      >>> f(fnp.array([1.0, 5.0, 3.0]))
      Array([-4.,  0., -2.], dtype=float32)
    """


@member(_reduction, red.pmin_p, reductions.min, lambda x, n: x)
def pmin():
    """The least value of all instances along an axis.

    Example:
      >>> ft.vmap(lambda x: lax.pmin(x, "i"), axis_name="i")(fnp.array([4, 2, 3]))
      Array([2, 2, 2], dtype=int32)
    """


def pmean(x: Any, axis_name: Any, *, axis_index_groups: Groups = None) -> Any:
    """The mean over all instances along an axis; integers become floats.

    Args:
      x, axis_name, axis_index_groups: as those of `psum`.

    Returns:
      Of the shape of `x`, and of a float dtype: the same for all instances.

    Raises:
      AxisNameError: no axis has that name.

    Example:
      >>> f = ft.vmap(lambda x: x - lax.pmean(x, "i"), axis_name="i")
      >>> f(fnp.array([1.0, 3.0, 8.0]))
      Array([-3., -1.,  4.], dtype=float32)
    """
    _axes("pmean", tuple([n for n in _names(axis_name) if not is_int(n)]))
    count = psum(1, axis_name, axis_index_groups=axis_index_groups)
    total = psum(x, axis_name, axis_index_groups=axis_index_groups)
    return tree.map(lambda value: value / count, total)


def pargmin(x: Any, axis_name: Any) -> Any:
    """The first instance along one axis whose value is the least.

    Args:
      x: an array.
      axis_name: the name of an axis.

    Returns:
      Its number: int32, of the shape of `x`.

    Raises:
      AxisNameError: no axis has that name.
    """
    return _rank_of_best(x, pmin(x, axis_name), axis_name)


def pargmax(x: Any, axis_name: Any) -> Any:
    """The first instance along one axis whose value is the greatest.

    Args:
      x: an array.
      axis_name: the name of an axis.

    Returns:
      Its number: int32, of the shape of `x`.

    Raises:
      AxisNameError: no axis has that name.
    """
    return _rank_of_best(x, pmax(x, axis_name), axis_name)


def _rank_of_best(x: Any, best: Any, axis_name: Any) -> Any:
    (axis,) = _axes("pargmin, pargmax", axis_name)
    return pmin(where(x == best, axis.index, axis.size), axis_name)


# Where an instance is.


def axis_index(axis_name: Any) -> Any:
    """The number of this instance along an axis: an int32 scalar.

    Args:
      axis_name: the name of an axis; of a tuple the first one counts slowest.

    Raises:
      AxisNameError: no axis has that name.

    Example:
      >>> ft.vmap(lambda x: x + 100 * lax.axis_index("i"), axis_name="i")(fnp.arange(3))
      Array([  0, 101, 202], dtype=int32)
    """
    first, *others = _axes("axis_index", axis_name)
    index: Any = first.index
    for axis in others:
        index = index * axis.size + axis.index
    return index


def axis_size(axis_name: Any) -> int:
    """How many instances there are along an axis; along a tuple of them, in all.

    Args:
      axis_name: the name of an axis, or a tuple of names.

    Returns:
      An int of Python's, so that shapes may depend on it.

    Raises:
      AxisNameError: no axis has that name.

    Example:
      >>> f = ft.vmap(lambda x: x * fnp.ones(lax.axis_size("i")), axis_name="i")
      >>> f(fnp.arange(2.0))
      Array([[0., 0.],
             [1., 1.]], dtype=float32)
    """
    return prod(axis.size for axis in _axes("axis_size", axis_name))


# Gathering.


def _gather(axes: Sequence[Axis], x: Value, op: Compound = red.all_gather_p) -> Any:
    """The values of all instances, along a new leading axis."""
    sizes = prod(axis.size for axis in axes)
    single = aval_of(x).shape
    for axis in reversed(axes):
        x = _along(op, axis, x)
    return reshape(x, (sizes, *single))


def _integers(what: str, rows: Any) -> list[list[int]]:
    """Rows of integers, as users write them.

    Raises:
      ArgumentError: they are none.
    """
    found = [several(row, f"{what}, each entry,") for row in several(rows, what)]
    return [[static_int(i, f"{what}, each number,") for i in row] for row in found]


def _table(
    what: str, axes: Sequence[Axis], groups: Any, fill: bool = False
) -> np.ndarray[Any, Any]:
    """The groups as rows, checked; `fill`: shorter ones name nobody, -1, at the end."""
    size = prod(axis.size for axis in axes)
    rows = _integers(f"{what}: axis_index_groups", groups)
    listed = sorted(i for row in rows for i in row)
    lengths = {len(row) for row in rows}
    if (len(lengths) != 1 and not fill) or listed != list(range(size)):
        raise ValueRangeError(
            f"{what}: axis_index_groups must be lists{'' if fill else ' of one length'}"
            f" that name each of the {size} instances once, got {groups!r:.120}"
        )
    longest = max(lengths, default=0)
    rows = [row + [-1] * (longest - len(row)) for row in rows]
    return np.asarray(rows, np.int32)


def _row_of_instance(table: np.ndarray[Any, Any], axes: Sequence[Axis]) -> Any:
    """The row of this instance in a table with one for each."""
    return as_value(table)[axis_index(tuple(axis.name for axis in axes))]


def _group_members(
    what: str, axes: Sequence[Axis], groups: Any, x: Value, op: Compound | None = None
) -> Any:
    """The values of the instances of this one's group, along a new leading axis.

    Args:
      op: a reduction that follows, for which the groups may be of several lengths.
    """
    if groups is None:
        return _gather(axes, x)
    table = _table(what, axes, groups, fill=op is not None)
    group_of = {int(i): n for n, row in enumerate(table) for i in row if i >= 0}
    own = table[[group_of[i] for i in range(len(group_of))]]
    first = np.where(own < 0, own[:, :1], own)
    rows = _gather(axes, x)[_row_of_instance(first, axes)]
    if op is not red.psum_p or own.min() >= 0:
        return rows  # who stands for nobody is there already
    there = _row_of_instance(own >= 0, axes)
    there = reshape(there, (*there.shape, *[1] * (rows.ndim - 1)))
    return where(there, rows, cast(0, rows.dtype))


def _rank_in_group(what: str, axes: Sequence[Axis], groups: Any) -> Any:
    """At which place of its group this instance is."""
    table = _table(what, axes, groups)
    return _row_of_instance(np.argsort(table.ravel()) % table.shape[1], axes)


def _join(x: Any, axis: int, tiled: bool) -> Any:
    """The leading axis in another place; tiled: as the outer part of the axis there."""
    axis = canonical_axis(axis, x.ndim - 1 if tiled else x.ndim, "axis")
    x = move_axis(x, 0, axis)
    return reshape(x, merge_shape(x.shape, axis)) if tiled else x


def _split(what: str, x: Any, axis: int, size: int, tiled: bool) -> Any:
    """The axis, tiled: the outer part of it, as a leading one of that size."""
    axis = canonical_axis(axis, x.ndim, what)
    n = x.shape[axis]
    parted = tiled and size > 0  # no instances have no parts
    if not (same_size(n % size, 0) if parted else same_size(n, size)):
        wanted = f"a multiple of {size}" if tiled else f"{size}"
        raise ShapeError(
            f"{what}: the size of axis {axis} must be {wanted}, for {size} instances "
            f"along the named axis, got shape {x.shape}; tiled=True takes multiples"
        )
    if tiled:
        part = n // max(size, 1)
        x = reshape(x, (*x.shape[:axis], size, part, *x.shape[axis + 1 :]))
    return move_axis(x, axis, 0)


def _each_axis(op: Compound, axes: Sequence[Axis], rows: Any) -> Any:
    """An operation on rows, one per instance along several axes, axis by axis."""
    takes_away = op is red.psum_scatter_p
    rest = rows.shape[1:]
    rows = reshape(rows, (*[axis.size for axis in axes], *rest))
    for number, axis in enumerate(axes):
        place = 0 if takes_away else number
        rows = _along(op, axis, move_axis(rows, place, 0))
        rows = rows if takes_away else move_axis(rows, 0, place)
    return rows if takes_away else reshape(rows, (prod(a.size for a in axes), *rest))


def all_gather(
    x: Any, axis_name: Any, *, axis_index_groups: Groups = None, axis: int = 0,
    tiled: bool = False, to: str = "varying",
) -> Any:  # fmt: skip
    """The values of all instances along an axis, in one array.

    Args:
      x: an array, or a pytree of them.
      axis_name: the name of an axis, or a tuple of names.
      axis_index_groups: lists of instances, each of which is by itself; of one size.
      axis: where the new axis is put.
      tiled: they are concatenated along `axis`, which `x` has.
      to: "invarying" makes of them one value that all instances share, within
        `shard_map` with check_vma.

    Returns:
      (instances, …) with the new axis at `axis`; with `tiled` that axis of `x` is so
      many times as long.

    Raises:
      AxisNameError: no axis has that name.
      ArgumentError: "invarying" of groups.

    Example:
      >>> ft.vmap(lambda x: lax.all_gather(x, "i"), axis_name="i")(fnp.array([1, 2, 3]))
      Array([[1, 2, 3],
             [1, 2, 3],
             [1, 2, 3]], dtype=int32)
    """
    what = "all_gather"
    one_of(f"{what}: to", to, ("varying", "invarying", "reduced"))
    axes = _axes(what, axis_name)
    if to == "invarying" and axis_index_groups is not None:
        raise ArgumentError(f"{what}: to='invarying' takes no axis_index_groups")

    def of_value(value: Value) -> Any:
        if to == "invarying":
            rows = _gather(axes, value, red.all_gather_invariant_p)
            return _join(rows, axis, tiled)
        return _join(_group_members(what, axes, axis_index_groups, value), axis, tiled)

    return _map(what, of_value, x)


def psum_scatter(
    x: Any, axis_name: Any, *, scatter_dimension: int = 0,
    axis_index_groups: Groups = None, tiled: bool = False,
) -> Any:  # fmt: skip
    """Of the sum over all instances, each instance its own part.

    Args:
      x: an array, or a pytree of them.
      axis_name: the name of an axis, or a tuple of names.
      scatter_dimension: the axis of `x` that is divided; it has the size of the named
        axis and vanishes, unless `tiled` is true: then a multiple of it.
      axis_index_groups: lists of instances, each of which is by itself; of one size.
      tiled: the axis does not vanish.

    Raises:
      AxisNameError: no axis has that name.
      ShapeError: the size of the axis does not fit.

    Example:
      >>> x = fnp.array([[1, 2], [30, 40]])
      >>> ft.vmap(lambda row: lax.psum_scatter(row, "i"), axis_name="i")(x)
      Array([31, 42], dtype=int32)
    """
    what = "psum_scatter"
    axes = _axes(what, axis_name)

    def of_value(value: Value) -> Any:
        value = as_value(value)
        if axis_index_groups is None:
            size = prod(axis.size for axis in axes)
            rows = _split(what, value, scatter_dimension, size, tiled)
            return _each_axis(red.psum_scatter_p, axes, rows)
        rows = _group_members(what, axes, axis_index_groups, value)
        total = reductions.sum(rows, axis=0)
        rows = _split(what, total, scatter_dimension, rows.shape[0], tiled)
        return rows[_rank_in_group(what, axes, axis_index_groups)]

    return _map(what, of_value, x)


def all_to_all(
    x: Any, axis_name: Any, split_axis: int, concat_axis: int, *,
    axis_index_groups: Groups = None, tiled: bool = False,
) -> Any:  # fmt: skip
    """Each instance sends a part to each other one, and has one of each then.

    Args:
      x: an array, or a pytree of them.
      axis_name: the name of an axis, or a tuple of names.
      split_axis: the axis of `x` that is divided among the instances; it has the size
        of the named axis and vanishes, unless `tiled` is true: then a multiple of it.
      concat_axis: where the parts are put: as a new axis, or concatenated if `tiled`.
      axis_index_groups: lists of instances, each of which is by itself; of one size.
      tiled: no axis vanishes, and none is new.

    Raises:
      AxisNameError: no axis has that name.
      ShapeError: the size of the axis does not fit.

    Example:
      >>> x = fnp.array([[1, 2], [3, 4]])  # a row per instance
      >>> ft.vmap(lambda row: lax.all_to_all(row, "i", 0, 0), axis_name="i")(x)
      Array([[1, 3],
             [2, 4]], dtype=int32)
    """
    what = "all_to_all"
    axes = _axes(what, axis_name)
    size = prod(axis.size for axis in axes)

    def of_value(value: Value) -> Any:
        if axis_index_groups is None:
            rows = _split(what, as_value(value), split_axis, size, tiled)
            rows = _each_axis(red.all_to_all_p, axes, rows)
            return _join(rows, concat_axis, tiled)
        group = _table(what, axes, axis_index_groups).shape[1]
        rows = _split(what, as_value(value), split_axis, group, tiled)
        rows = _group_members(what, axes, axis_index_groups, rows)
        mine = rows[:, _rank_in_group(what, axes, axis_index_groups)]
        return _join(mine, concat_axis, tiled)

    return _map(what, of_value, x)


def ragged_all_to_all(
    operand: Any, output: Any, input_offsets: Any, send_sizes: Any,
    output_offsets: Any, recv_sizes: Any, *, axis_name: Any,
    axis_index_groups: Groups = None,
) -> Any:  # fmt: skip
    """Each instance sends some of its rows to each other one, as many as it says.

    To instance j of its group goes operand[input_offsets[j] :][: send_sizes[j]], which
    stands there in the result from row output_offsets[j] on.

    Args:
      operand: of shape (rows, …).
      output: of the same dtype and other axes; what nobody sends to stays as it is.
      input_offsets, send_sizes, output_offsets: integers of shape (instances,).
      recv_sizes: how many rows come from each: what the others' `send_sizes` say.
      axis_name: the name of an axis, or a tuple of names.
      axis_index_groups: lists of instances, each of which is by itself; of one size.

    Raises:
      AxisNameError: no axis has that name.
      ShapeError: the offsets and sizes are no vectors of one length, or rows of the
        operand are not those of the output.
      DtypeError: they are no integers, or the arrays differ in dtype.

    Example:
      >>> x, starts = fnp.arange(4).reshape(2, 2), fnp.array([0, 1])
      >>> ones, places = fnp.ones(2, int), fnp.array([[0, 0], [1, 1]])
      >>> send = lambda x, at: lax.ragged_all_to_all(
      ...     x, x, starts, ones, at, ones, axis_name="i")
      >>> ft.vmap(send, axis_name="i")(x, places)
      Array([[0, 2],
             [1, 3]], dtype=int32)
    """
    what, groups = "ragged_all_to_all", axis_index_groups
    axes = _axes(what, axis_name)
    x, found = as_value(operand), as_value(output)
    vectors = input_offsets, send_sizes, output_offsets, recv_sizes
    starts, sizes, places, received = map(as_value, vectors)
    _check_ragged(x, found, [starts, sizes, places, received])

    def of_all(value: Value) -> Any:
        return all_gather(value, axis_name, axis_index_groups=groups)

    me = axis_index(axis_name) if groups is None else _rank_in_group(what, axes, groups)
    starts, sizes, places = (of_all(v)[:, me, None] for v in (starts, sizes, places))
    row = arange(x.shape[0], dtype=starts.dtype)
    sent = (row >= starts) & (row < starts + sizes)
    place = where(sent, places + row - starts, found.shape[0]).reshape(-1)
    rows = of_all(x).reshape(-1, *x.shape[1:])
    return found.at[place].set(rows, mode="drop")


def _check_ragged(x: Value, output: Value, vectors: Sequence[Value]) -> None:
    """Raises for operands of `ragged_all_to_all` that do not fit."""
    if x.dtype != output.dtype:
        raise DtypeError(
            f"ragged_all_to_all: operand and output must have one dtype, got {x.dtype} "
            f"and {output.dtype}; convert one with .astype"
        )
    if not x.shape or not output.shape or not same_size(x.shape[1:], output.shape[1:]):
        raise ShapeError(
            "ragged_all_to_all: operand and output are rows of one shape, got shapes "
            f"{x.shape} and {output.shape}"
        )
    if any(v.dtype.kind not in "iu" for v in vectors):
        listed = ", ".join(str(v.dtype) for v in vectors)
        raise DtypeError(
            f"ragged_all_to_all: offsets and sizes must be integers, got {listed}"
        )
    shapes = {v.shape for v in vectors}
    if len(shapes) != 1 or vectors[0].ndim != 1:
        listed = ", ".join(str(v.shape) for v in vectors)
        raise ShapeError(
            "ragged_all_to_all: offsets and sizes are vectors with an element for each "
            f"instance, got shapes {listed}"
        )


def pswapaxes(
    x: Any, axis_name: Any, axis: int, *, axis_index_groups: Groups = None
) -> Any:
    """The named axis and an axis of `x` of the same size change places.

    Args:
      x: an array, or a pytree of them.
      axis_name: the name of an axis.
      axis: the axis of `x`.
      axis_index_groups: lists of instances, each of which is by itself; of one size.

    Raises:
      AxisNameError: no axis has that name.
      ShapeError: the sizes differ.

    Example:
      >>> x = fnp.arange(4).reshape(2, 2)
      >>> ft.vmap(lambda x: lax.pswapaxes(x, "i", 0), axis_name="i")(x)
      Array([[0, 2],
             [1, 3]], dtype=int32)
    """
    groups = axis_index_groups
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=groups)


# From one instance to another.


def ppermute(x: Any, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Any:
    """Each instance sends its value to another one; who gets none has zeros.

    Args:
      x: an array, or a pytree of them.
      axis_name: the name of an axis, or a tuple of names: the first one counts slowest.
      perm: pairs (source, destination); each instance is in either place at most once.

    Raises:
      AxisNameError: no axis has that name.
      ValueRangeError: an instance is named twice, or does not exist.

    Example:
      >>> ft.vmap(lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2)]), axis_name="i")(
      ...     fnp.array([10, 20, 30]))
      Array([ 0, 10, 20], dtype=int32)
    """
    what = "ppermute"
    axes = _axes(what, axis_name)
    size = prod(axis.size for axis in axes)
    pairs = _integers(f"{what}: perm", perm)
    columns = list(zip(*pairs, strict=False)) or [(), ()]
    if any(len(pair) != 2 for pair in pairs) or any(
        len({*column}) < len(column) or not all(0 <= i < size for i in column)
        for column in columns
    ):
        raise ValueRangeError(
            f"{what}: perm must be pairs (source, destination) that name each of the "
            f"{size} instances once at most, got {pairs}"
        )
    tables = np.full((2, size), -1, np.int32)
    for a, b in pairs:
        tables[0, b], tables[1, a] = a, b
    source, target = [_row_of_instance(table, axes) for table in tables]
    op = red.ppermute_p

    def of_value(value: Value) -> Any:
        if len(axes) == 1:
            return _along(op, axes[0], value, source, target)
        found = _gather(axes, value)[source]
        return where(source >= 0, found, zeros_like(found))

    return _map(what, of_value, x)


def pshuffle(x: Any, axis_name: Any, perm: Sequence[int]) -> Any:
    """Instance i gets the value of instance `perm[i]`.

    Args:
      x: an array, or a pytree of them.
      axis_name: the name of an axis, or a tuple of names.
      perm: a permutation of the numbers of the instances.

    Raises:
      AxisNameError: no axis has that name.
      ValueRangeError: `perm` is no permutation of the instances.

    Example:
      >>> ft.vmap(lambda x: lax.pshuffle(x, "i", [2, 0, 1]), axis_name="i")(
      ...     fnp.array([10, 20, 30]))
      Array([30, 10, 20], dtype=int32)
    """
    sources = [
        static_int(i, "pshuffle: each of perm") for i in several(perm, "pshuffle: perm")
    ]
    if sorted(sources) != list(range(axis_size(axis_name))):
        raise ValueRangeError(
            f"pshuffle: perm must be a permutation of the {axis_size(axis_name)} "
            f"instances, got {sources}"
        )
    return ppermute(x, axis_name, list(zip(sources, range(len(sources)), strict=True)))


def pbroadcast(x: Any, axis_name: Any, source: int) -> Any:
    """Every instance gets the value of one of them.

    Args:
      x: an array, or a pytree of them.
      axis_name: the name of an axis.
      source: the number of that instance.

    Raises:
      AxisNameError: no axis has that name.

    Example:
      >>> ft.vmap(lambda x: lax.pbroadcast(x, "i", 1), axis_name="i")(fnp.arange(3))
      Array([1, 1, 1], dtype=int32)
    """
    axes = _axes("pbroadcast", axis_name)
    return _map("pbroadcast", lambda value: _gather(axes, value)[source], x)


def pcast(x: Any, axis_name: Any, *, to: str) -> Any:
    """`x`, which from there on is that of each device along an axis.

    Within `shard_map` with check_vma a gradient in `x` is one for all devices where `x`
    is the same on all of them, and sums what each adds; one in what `pcast` returns is
    that of each device.

    Args:
      x: an array, or a pytree of them.
      axis_name: the name of an axis, or a tuple of names.
      to: "varying".

    Raises:
      AxisNameError: no axis has that name.
      ArgumentError: `to` is another word.
      ValueRangeError: `x` is that of each device already.

    Example:
      >>> one = lambda x: lax.pcast(1.0, "i", to="varying") * x
      >>> ft.vmap(one, axis_name="i")(fnp.arange(2))
      Array([0., 1.], dtype=float32, weak_type=True)
    """
    one_of("pcast: to", to, ("varying", "reduced", "unreduced"))
    axes = [axis for axis in _axes("pcast", axis_name) if axis.checked]
    along = varying_here()
    if to != "varying" or not axes or along is None:
        return x

    def of_value(value: Value) -> Any:
        found = along.of(value)
        if UNKNOWN not in found and found & {axis.name for axis in axes}:
            raise ValueRangeError(
                f"pcast: Unsupported pcast from=varying, {to=}: the operand differs "
                f"between devices along {axis_name!r} already; leave the call out"
            )
        return vary(value, axes)

    return _map("pcast", of_value, x)


def pvary(x: Any, axis_name: Any) -> Any:
    """`pcast(x, axis_name, to="varying")`.

    Args:
      x: an array, or a pytree of them.
      axis_name: the name of an axis, or a tuple of names.

    Example:
      >>> ft.vmap(lambda x: lax.pvary(1.0, "i") * x, axis_name="i")(fnp.arange(2))
      Array([0., 1.], dtype=float32, weak_type=True)
    """
    return pcast(x, axis_name, to="varying")
