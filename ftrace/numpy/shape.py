"""Shapes, and arrays put together and taken apart.

    concatenate(x, y) = where(position < len(x), x padded behind, y padded before)

pairwise, as a tree, so that many parts cost the logarithm of their number; very many
in groups, one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ftrace import dtypes, errors
from ftrace.numpy import axes as ax, elementwise as ew
from ftrace.trace.arrays.array import Array, ArrayLike, recording
from ftrace.trace.avals import Shape
from ftrace.trace.bind import bind_compound, broadcast_shapes as common_shape
from ftrace.trace.evaluate import no_memory, require_memory
from ftrace.trace.primitives.primitive import barrier_p
from ftrace.trace.pytree import tree
from ftrace.trace.symbolic import is_dynamic, symbols_of
from ftrace.trace.tracing.tracer import Value, aval_of, is_value

__all__ = [
    "array_split", "atleast_1d", "atleast_2d", "atleast_3d", "block",
    "broadcast_arrays", "broadcast_shapes", "broadcast_to", "column_stack", "concat",
    "concatenate", "dsplit", "dstack", "expand_dims", "flip", "fliplr", "flipud",
    "hsplit", "hstack", "moveaxis", "ndim", "permute_dims", "ravel", "reshape",
    "rollaxis", "rot90", "shape", "size", "split", "squeeze", "stack", "swapaxes",
    "tile", "transpose", "unstack", "vsplit", "vstack",
]  # fmt: skip


def shape(a: Value) -> tuple[int, ...]:
    """The sizes of the axes.

    Args:
      a: an array, a number, or nested lists of numbers.

    Returns:
      A tuple of Python integers, known while tracing too.

    Example:
      >>> fnp.shape(fnp.zeros((2, 3)))
      (2, 3)
    """
    if is_value(a):
        return aval_of(a).shape
    return tuple(a.shape) if hasattr(a, "shape") else np.asarray(a).shape


def ndim(a: Value) -> int:
    """The number of axes.

    Args:
      a: an array, a number, or nested lists of numbers.

    Returns:
      A Python integer, known while tracing too.

    Example:
      >>> fnp.ndim(fnp.zeros((2, 3)))
      2
    """
    return len(shape(a))


def size(a: Value, axis: int | tuple[int, ...] | None = None) -> int:
    """The number of elements, or the size of an axis or the product of several.

    Args:
      a: an array, a number, or nested lists of numbers.
      axis: an axis, several, or None for all.

    Returns:
      A Python integer, known while tracing too.

    Raises:
      AxisError: there is no such axis.

    Example:
      >>> fnp.size(fnp.zeros((2, 3)))
      6
      >>> fnp.size(fnp.zeros((2, 3)), axis=1)
      3
    """
    sizes = shape(a)
    return prod(sizes[i] for i in ax.canonical_axes(axis, len(sizes), "size"))


def reshape(a: Value, shape: Any, order: str = "C", *, copy: bool | None = None) -> Any:
    """The same elements in another shape.

    Args:
      a: the array.
      shape: an int or several; one of them may be -1: what is left.
      order: "C": the last axis runs fastest; "F": the first one.
      copy: accepted, without effect.

    Raises:
      ShapeError: the number of elements differs.
      ValueRangeError: the order is neither "C" nor "F".

    Example:
      >>> x = fnp.arange(6)
      >>> fnp.reshape(x, (2, 3))
      Array([[0, 1, 2],
             [3, 4, 5]], dtype=int32)
      >>> fnp.reshape(x, (-1, 2))
      Array([[0, 1],
             [2, 3],
             [4, 5]], dtype=int32)
      >>> fnp.reshape(x, (2, 3), order="F")
      Array([[0, 2, 4],
             [1, 3, 5]], dtype=int32)
    """
    a = ax.as_value(a)
    target = _resolve(a.shape, ax.check_shape(shape, "reshape"), a.size)
    if order == "F":
        return transpose(ax.reshape(transpose(a), target[::-1]))
    errors.one_of("reshape: order", order, ("C", "F", "A", "K"))
    return ax.reshape(a, target)


def _resolve(shape: Shape, target: Shape, size: int) -> Shape:
    """The target with -1 replaced by what the other sizes leave."""
    unknown = [a for a, n in enumerate(target) if n == -1]
    known = prod(n for n in target if n != -1)
    if len(unknown) > 1:
        raise errors.ShapeError(f"reshape: at most one size may be -1, got {target}")
    if any(n < -1 for n in target):
        raise errors.ShapeError(f"reshape: sizes must not be negative, got {target}")
    if is_dynamic(size) or is_dynamic(known):
        return _resolve_dynamic(shape, target, size, known, bool(unknown))
    if unknown and known and size % known == 0:
        target = tuple(size // known if n == -1 else n for n in target)
    elif unknown or known != size:
        raise errors.ShapeError(
            f"reshape: cannot reshape array of shape {shape} (size {size}) into shape "
            f"{target}" + ("" if unknown else f" (size {known})")
        )
    return target


def _resolve_dynamic(
    shape: Shape, target: Shape, size: Any, known: Any, open_axis: bool
) -> Shape:
    """The target where sizes are dynamic: it must fit for all of them."""
    left = size - size // known * known if open_axis else size - known
    if not is_dynamic(left) and left == 0:
        return tuple([n if is_dynamic(n) or n != -1 else size // known for n in target])
    need = f"a multiple of {known}" if open_axis else str(known)
    names = ", ".join(sorted(repr(s.name) for s in symbols_of((size, known))))
    raise errors.DynamicDimensionError(
        f"reshape: an array of shape {shape} has {size} elements, which must be {need} "
        f"to fit the shape {target}, for all sizes of {names}. Use -1 for the axis "
        f"that takes what is left, or take {names} out of `dynamic`"
    )


def ravel(a: Value, order: str = "C") -> Any:
    """All elements along one axis.

    Args:
      a: the array.
      order: "C": row by row; "F": column by column.

    Raises:
      ValueRangeError: there is no such order.

    Example:
      >>> x = fnp.array([[1, 2], [3, 4]])
      >>> fnp.ravel(x)
      Array([1, 2, 3, 4], dtype=int32)
      >>> fnp.ravel(x, order="F")
      Array([1, 3, 2, 4], dtype=int32)
    """
    return reshape(a, (prod(ax.shape_of(a)),), order)


def transpose(a: Value, axes: Sequence[int] | None = None) -> Any:
    """The axes in another order, by default reversed.

    Args:
      a: the array.
      axes: a permutation: axis i of the result is axis `axes[i]` of `a`.

    Raises:
      AxisError: `axes` is not a permutation.

    Example:
      >>> fnp.transpose(fnp.array([[1, 2, 3], [4, 5, 6]]))
      Array([[1, 4],
             [2, 5],
             [3, 6]], dtype=int32)
      >>> fnp.transpose(fnp.zeros((2, 3, 4)), (1, 2, 0)).shape
      (3, 4, 2)
    """
    a = ax.as_value(a)
    if axes is None:
        return ax.permute(a, tuple(reversed(range(a.ndim))))
    order = ax.canonical_axes(axes, a.ndim, "transpose")
    if len(order) != a.ndim:
        raise errors.AxisError(
            f"transpose: {axes} is not a permutation of the {a.ndim} axes of "
            f"an array of shape {a.shape}"
        )
    return ax.permute(a, order)


def permute_dims(a: Value, /, axes: Sequence[int]) -> Any:
    """The axes in another order.

    Args:
      a: the array.
      axes: a permutation: axis i of the result is axis `axes[i]` of `a`.

    Raises:
      AxisError: `axes` is not a permutation.

    Example:
      >>> fnp.permute_dims(fnp.zeros((2, 3, 4)), (1, 2, 0)).shape
      (3, 4, 2)
    """
    return transpose(a, axes)


def swapaxes(a: Value, axis1: int, axis2: int) -> Any:
    """Two axes exchanged.

    Args:
      a: the array.
      axis1, axis2: the axes.

    Raises:
      AxisError: there is no such axis.

    Example:
      >>> fnp.swapaxes(fnp.zeros((2, 3, 4)), 0, 2).shape
      (4, 3, 2)
    """
    ndim = len(ax.shape_of(a))
    i, j = (ax.canonical_axis(axis, ndim, "swapaxes") for axis in (axis1, axis2))
    order = list(range(ndim))
    order[i], order[j] = j, i
    return ax.permute(a, tuple(order))


def moveaxis(
    a: Value, source: int | Sequence[int], destination: int | Sequence[int]
) -> Any:
    """Axes moved to other places; the rest keep their order.

    Args:
      a: the array.
      source: an axis, or several.
      destination: where they are in the result; as many.

    Raises:
      AxisError: there are not as many sources as destinations.

    Example:
      >>> fnp.moveaxis(fnp.zeros((2, 3, 4)), 0, -1).shape
      (3, 4, 2)
      >>> fnp.moveaxis(fnp.zeros((2, 3, 4)), (0, 1), (1, 2)).shape
      (4, 2, 3)
    """
    ndim = len(ax.shape_of(a))
    sources = ax.canonical_axes(source, ndim, "moveaxis")
    destinations = ax.canonical_axes(destination, ndim, "moveaxis")
    if len(sources) != len(destinations):
        raise errors.AxisError(
            f"moveaxis: {len(sources)} sources and {len(destinations)} destinations"
        )
    order = [axis for axis in range(ndim) if axis not in sources]
    for place, axis in sorted(zip(destinations, sources, strict=True)):
        order.insert(place, axis)
    return ax.permute(a, tuple(order))


def rollaxis(a: Value, axis: int, start: int = 0) -> Any:
    """One axis moved to stand before the axis `start`.

    Args:
      a: the array.
      axis: the axis that moves.
      start: before which one; the number of axes for the last place.

    Raises:
      AxisError: there is no such axis.

    Example:
      >>> fnp.rollaxis(fnp.zeros((2, 3, 4)), 2).shape
      (4, 2, 3)
    """
    ndim = len(ax.shape_of(a))
    source = ax.canonical_axis(axis, ndim, "rollaxis")
    if not -ndim <= start <= ndim:
        raise errors.AxisError(f"rollaxis: start {start} does not fit {ndim} axes")
    place = start + ndim if start < 0 else start
    return moveaxis(a, source, place - 1 if source < place else place)


def expand_dims(a: Value, axis: int | Sequence[int]) -> Any:
    """New axes of size 1, where the result has them.

    Args:
      a: the array.
      axis: the place of the new axis in the result, or several places.

    Raises:
      AxisError: the result has no such axis.

    Example:
      >>> fnp.expand_dims(fnp.array([1, 2]), 0)
      Array([[1, 2]], dtype=int32)
      >>> fnp.expand_dims(fnp.zeros((2, 3)), (0, -1)).shape
      (1, 2, 3, 1)
    """
    ndim = len(ax.shape_of(a))
    count = len(axis) if isinstance(axis, Sequence) else 1
    return ax.insert_axes(a, ax.canonical_axes(axis, ndim + count, "expand_dims"))


def squeeze(a: Value, axis: int | Sequence[int] | None = None) -> Any:
    """Without axes of size 1: all of them, or those named.

    Args:
      a: the array.
      axis: an axis, or several, of size 1; None drops all there are.

    Raises:
      ShapeError: an axis that is named has another size.

    Example:
      >>> fnp.squeeze(fnp.zeros((1, 3, 1))).shape
      (3,)
      >>> fnp.squeeze(fnp.zeros((1, 3, 1)), axis=0).shape
      (3, 1)
    """
    a = ax.as_value(a)
    if axis is None:
        return ax.drop_axes(a, [i for i, n in enumerate(a.shape) if n == 1])
    axes = ax.canonical_axes(axis, a.ndim, "squeeze")
    if any(a.shape[i] != 1 for i in axes):
        raise errors.ShapeError(
            f"squeeze: only axes of size 1 can be dropped; axes {axes} of an array of "
            f"shape {a.shape}"
        )
    return ax.drop_axes(a, axes)


def atleast_1d(*arys: Value) -> Any:
    """The arrays with at least one axis; a list of them where several are given.

    Args:
      *arys: arrays or numbers.

    Example:
      >>> fnp.atleast_1d(3)
      Array([3], dtype=int32, weak_type=True)
    """
    return _each(arys, {0: (0,)})


def atleast_2d(*arys: Value) -> Any:
    """The arrays with at least two axes, new ones in front.

    Args:
      *arys: arrays or numbers; of several the result is a list.

    Example:
      >>> fnp.atleast_2d(fnp.array([1, 2]))
      Array([[1, 2]], dtype=int32)
    """
    return _each(arys, {0: (0, 1), 1: (0,)})


def atleast_3d(*arys: Value) -> Any:
    """The arrays with at least three axes: (N,) becomes (1, N, 1).

    Args:
      *arys: arrays or numbers; of several the result is a list.

    Example:
      >>> fnp.atleast_3d(fnp.zeros((2, 3))).shape
      (2, 3, 1)
    """
    return _each(arys, {0: (0, 1, 2), 1: (0, 2), 2: (2,)})


def _each(arys: Sequence[Value], added: dict[int, tuple[int, ...]]) -> Any:
    """The arrays with the axes that are added for their rank."""
    results = [ax.insert_axes(x, added.get(len(ax.shape_of(x)), ())) for x in arys]
    return results[0] if len(results) == 1 else results


# Broadcasting.


def broadcast_to(array: Value, shape: Any) -> Any:
    """`array` repeated to a shape by NumPy's rules.

    Axes are matched from the last; one of size 1, or one that is missing in front,
    repeats. Nothing is copied in a compiled program.

    Args:
      array: the array.
      shape: an int or several.

    Raises:
      ShapeError: it does not broadcast to the shape.

    Example:
      >>> fnp.broadcast_to(fnp.array([1, 2, 3]), (2, 3))
      Array([[1, 2, 3],
             [1, 2, 3]], dtype=int32)
    """
    return ax.broadcast_to(array, ax.check_shape(shape, "broadcast_to"))


def broadcast_shapes(*shapes: Any) -> Shape:
    """The shape to which all the shapes broadcast.

    Args:
      *shapes: ints, or tuples of them.

    Raises:
      ShapeError: they do not, or a size is negative.

    Example:
      >>> fnp.broadcast_shapes((2, 1), (3,), (4, 1, 1))
      (4, 2, 3)
    """
    checked = [ax.check_sizes(s, "broadcast_shapes") for s in shapes]
    what = "broadcast_shapes: Incompatible shapes for broadcasting"
    return common_shape(what, checked) if checked else ()


def broadcast_arrays(*args: Value) -> list[Any]:
    """The arrays broadcast to one shape.

    Args:
      *args: arrays or numbers.

    Returns:
      A list of arrays; their dtypes stay.

    Raises:
      ShapeError: their shapes do not broadcast together.

    Example:
      >>> fnp.broadcast_arrays(fnp.array([1, 2]), fnp.array([[3], [4]]))
      [Array([[1, 2],
             [1, 2]], dtype=int32), Array([[3, 3],
             [4, 4]], dtype=int32)]
    """
    arrays = [ax.as_value(x) for x in args]
    if not arrays:
        return []
    shape = common_shape("broadcast_arrays", [x.shape for x in arrays])
    return [ax.broadcast_to(x, shape) for x in arrays]


# Flips and turns.


def flip(m: Value, axis: int | Sequence[int] | None = None) -> Any:
    """The elements in reverse order along the axes, by default all.

    Args:
      m: the array.
      axis: an axis, several, or None for all.

    Raises:
      AxisError: there is no such axis.

    Example:
      >>> x = fnp.array([[1, 2], [3, 4]])
      >>> fnp.flip(x)
      Array([[4, 3],
             [2, 1]], dtype=int32)
      >>> fnp.flip(x, axis=1)
      Array([[2, 1],
             [4, 3]], dtype=int32)
    """
    return ax.flip(m, ax.canonical_axes(axis, len(ax.shape_of(m)), "flip"))


def fliplr(m: Value) -> Any:
    """The columns in reverse order.

    Args:
      m: an array of two axes or more; the second one is reversed.

    Raises:
      ShapeError: there are fewer axes.

    Example:
      >>> fnp.fliplr(fnp.array([[1, 2], [3, 4]]))
      Array([[2, 1],
             [4, 3]], dtype=int32)
    """
    return flip(ax.need_axes("fliplr", m, 2), 1)


def flipud(m: Value) -> Any:
    """The rows in reverse order.

    Args:
      m: an array of one axis or more; the first one is reversed.

    Raises:
      ShapeError: there is no axis.

    Example:
      >>> fnp.flipud(fnp.array([[1, 2], [3, 4]]))
      Array([[3, 4],
             [1, 2]], dtype=int32)
    """
    return flip(ax.need_axes("flipud", m, 1), 0)


def rot90(m: Value, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Any:
    """Turned by 90° k times, from the first axis toward the second.

    Args:
      m: an array of two axes or more.
      k: how often; negative the other way round.
      axes: the two axes of the plane.

    Raises:
      AxisError: there are no such axes.

    Example:
      >>> fnp.rot90(fnp.array([[1, 2], [3, 4]]))
      Array([[2, 4],
             [1, 3]], dtype=int32)
    """
    first, second = ax.canonical_axes(axes, len(ax.shape_of(m)), "rot90")
    for _ in range(ax.static_int(k, "rot90: k") % 4):
        m = swapaxes(flip(m, second), first, second)
    return ax.as_value(m)


# Taking apart.


def unstack(x: Value, /, *, axis: int = 0) -> tuple[Any, ...]:
    """The parts along an axis, without it.

    Args:
      x: the array.
      axis: along which it is taken apart.

    Returns:
      A tuple of arrays, as many as the axis is long.

    Raises:
      ShapeError: the array has no axes.

    Example:
      >>> fnp.unstack(fnp.array([[1, 2], [3, 4]]), axis=1)
      (Array([1, 3], dtype=int32), Array([2, 4], dtype=int32))
    """
    x = ax.need_axes("unstack", x, 1)
    axis = ax.canonical_axis(axis, x.ndim, "unstack")
    before = (slice(None),) * axis
    return tuple([x[(*before, i)] for i in range(x.shape[axis])])


def array_split(
    ary: Value, indices_or_sections: int | Sequence[int], axis: int = 0
) -> list[Any]:
    """Parts along an axis: at indices, or a number of nearly equal ones.

    Args:
      ary: the array.
      indices_or_sections: how many parts, the first of which may be longer by one; or
        where each part but the first begins.
      axis: along which.

    Returns:
      A list of arrays.

    Example:
      >>> fnp.array_split(fnp.arange(5), 2)
      [Array([0, 1, 2], dtype=int32), Array([3, 4], dtype=int32)]
    """
    ary, axis = ax.along(ary, axis, "array_split")
    size = ary.shape[axis]
    if not _is_count(indices_or_sections):
        return _split_at(ary, axis, size, indices_or_sections)
    count = ax.static_int(indices_or_sections, "array_split: sections", 1)
    small, more = divmod(size, count)
    bounds = [min(i, more) + i * small for i in range(1, count)]
    return _split_at(ary, axis, size, bounds)


def split(
    ary: Value, indices_or_sections: int | Sequence[int], axis: int = 0
) -> list[Any]:
    """Parts along an axis: at indices, or a number of equal ones.

    Args:
      ary: the array.
      indices_or_sections: how many parts; or where each part but the first begins.
      axis: along which.

    Returns:
      A list of arrays.

    Raises:
      ShapeError: the size is no multiple of the number of sections.

    Example:
      >>> fnp.split(fnp.arange(4), 2)
      [Array([0, 1], dtype=int32), Array([2, 3], dtype=int32)]
      >>> fnp.split(fnp.arange(4), [1])
      [Array([0], dtype=int32), Array([1, 2, 3], dtype=int32)]
    """
    value, place = ax.along(ary, axis, "split")
    if _is_count(indices_or_sections):
        count = ax.static_int(indices_or_sections, "split: sections")
        if count < 1 or value.shape[place] % count:
            raise errors.ShapeError(
                f"split: axis {place} of an array of shape {value.shape} cannot be "
                f"divided into {count} equal parts; use array_split"
            )
    return array_split(value, indices_or_sections, place)


def hsplit(ary: Value, indices_or_sections: Any) -> list[Any]:
    """Parts along the second axis, or the only one.

    Args:
      ary: the array.
      indices_or_sections: how many parts; or where each part but the first begins.

    Returns:
      A list of arrays.

    Raises:
      ShapeError: the size is no multiple of the number of sections.

    Example:
      >>> fnp.hsplit(fnp.array([[1, 2], [3, 4]]), 2)
      [Array([[1],
             [3]], dtype=int32), Array([[2],
             [4]], dtype=int32)]
    """
    return split(ary, indices_or_sections, 1 if len(ax.shape_of(ary)) > 1 else 0)


def vsplit(ary: Value, indices_or_sections: Any) -> list[Any]:
    """Parts along the first axis.

    Args:
      ary: the array.
      indices_or_sections: how many parts; or where each part but the first begins.

    Returns:
      A list of arrays.

    Raises:
      ShapeError: the size is no multiple of the number of sections.

    Example:
      >>> fnp.vsplit(fnp.array([[1, 2], [3, 4]]), 2)
      [Array([[1, 2]], dtype=int32), Array([[3, 4]], dtype=int32)]
    """
    return split(ary, indices_or_sections, 0)


def dsplit(ary: Value, indices_or_sections: Any) -> list[Any]:
    """Parts along the third axis.

    Args:
      ary: the array.
      indices_or_sections: how many parts; or where each part but the first begins.

    Returns:
      A list of arrays.

    Raises:
      ShapeError: the size is no multiple of the number of sections.

    Example:
      >>> [part.shape for part in fnp.dsplit(fnp.zeros((2, 3, 4)), 2)]
      [(2, 3, 2), (2, 3, 2)]
    """
    return split(ary, indices_or_sections, 2)


def _is_count(sections: Any) -> bool:
    return not hasattr(sections, "__iter__") or getattr(sections, "shape", None) == ()


def _split_at(ary: Any, axis: int, size: int, indices: Any) -> list[Any]:
    places = [ax.static_int(i, "split: each index") for i in indices]
    bounds = [slice(None, i).indices(size)[1] for i in places]
    starts, stops = [0, *bounds], [*bounds, size]
    return [
        ax.shrink_axis(ary, axis, start, max(start, stop))
        for start, stop in zip(starts, stops, strict=True)
    ]


# Put together.


#: More parts are joined in groups, which are stored: in one kernel each element asks at
#: every border on which side of it it stands, unless they are few.
_MANY = 16
_GROUP = 8
#: Elements times parts: where they are fewer, to ask takes less time than to store.
_MUCH = 1 << 15


def concatenate(
    arrays: Sequence[Value] | Value, axis: int | None = 0, dtype: Any = None
) -> Any:
    """The arrays one after the other along an axis.

    Args:
      arrays: of one rank, and of one shape but for that axis.
      axis: None flattens them first.
      dtype: of the result, by default what theirs promote to.

    Raises:
      ShapeError: they differ in another size or in rank, or have no axes.
      ValueRangeError: there are none.

    Example:
      >>> x, y = fnp.array([[1, 2]]), fnp.array([[3, 4]])
      >>> fnp.concatenate([x, y])
      Array([[1, 2],
             [3, 4]], dtype=int32)
      >>> fnp.concatenate([x, y], axis=1)
      Array([[1, 2, 3, 4]], dtype=int32)
      >>> fnp.concatenate([x, y], axis=None, dtype=float)
      Array([1., 2., 3., 4.], dtype=float32)
    """
    parts = sequence_of("concatenate", arrays)
    if axis is None:
        parts, axis = [ravel(x) for x in parts], 0
    first = ax.need_axes("concatenate", parts[0], 1, instead="use stack")
    axis = ax.canonical_axis(axis, first.ndim, "concatenate")
    for other in parts[1:]:
        rest = [(x.shape[:axis], x.shape[axis + 1 :]) for x in (first, other)]
        if other.ndim != first.ndim or rest[0] != rest[1]:
            raise errors.ShapeError(
                f"concatenate: shapes {first.shape} and {other.shape} may differ only "
                f"along axis {axis}"
            )
    target, weak = ew.common_type(*parts)
    if dtype is not None:
        target, weak = dtypes.as_dtype(dtype), False
    return _join([ax.cast(x, target, weak) for x in parts], axis)


def sequence_of(name: str, arrays: Any) -> list[Any]:
    if isinstance(arrays, (ArrayLike, np.ndarray)):
        parts = list(unstack(arrays))
    elif hasattr(arrays, "__iter__"):
        parts = list(arrays)
    else:
        raise errors.ArgumentError(
            f"{name} takes a sequence of arrays, got {arrays!r:.60}"
        )
    if not parts:
        raise errors.ValueRangeError(f"{name} takes at least one array, got none")
    return ew.values_together(parts)


def _join(parts: list[Any], axis: int) -> Any:
    """Parts of one dtype that fit together."""
    if len(parts) == 1:
        return parts[0]
    if all(type(x) is Array and x.memory.host for x in parts):
        size = sum(x.shape[axis] for x in parts)
        aval = aval_of(parts[0]).with_shape(ax.with_size(parts[0].shape, axis, size))
        require_memory("concatenate", aval)
        try:
            joined = np.concatenate([x.numpy() for x in parts], axis)
        except MemoryError:
            raise no_memory("concatenate", aval) from None
        made = Array.of(joined, parts[0].weak_type)
        if recording.tape is not None:
            recording.tape.note(partial(_concatenate, axis), parts, made)
        return made
    parts = [x for x in parts if x.shape[axis]] or parts[:1]
    size = sum(x.size for x in parts)
    if not is_dynamic(size) and size * len(parts) >= _MUCH:
        while len(parts) > _MANY:
            groups = [parts[n : n + _GROUP] for n in range(0, len(parts), _GROUP)]
            parts = [bind_compound(barrier_p, _tree(g, axis))[0] for g in groups]
    return _tree(parts, axis)


def _tree(parts: list[Any], axis: int) -> Any:
    """Joined pairwise."""
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=False)
        last = parts[-1:] if len(parts) % 2 else []
        parts = [_join_two(x, y, axis) for x, y in pairs] + last
    return parts[0]


def _concatenate(axis: int, *parts: Any) -> Any:
    return np.concatenate(parts, axis)


def _join_two(x: Any, y: Any, axis: int) -> Any:
    left, right = x.shape[axis], y.shape[axis]
    line = ax.line(x.ndim, axis, left + right)
    first = ew.less(ax.iota(dtypes.int32, line, axis), left)
    padded = ax.pad_axis(x, axis, 0, right), ax.pad_axis(y, axis, left, 0)
    return ax.choose(first, *padded)


def concat(arrays: Sequence[Value], /, *, axis: int | None = 0) -> Any:
    """As `concatenate`, by the array API's name.

    Args:
      arrays: of one rank, and of one shape but for the axis.
      axis: along which; None flattens them first.

    Raises:
      ShapeError: they differ in another size or in rank, or have no axes.
      ValueRangeError: there are none.

    Example:
      >>> fnp.concat([fnp.array([1, 2]), fnp.array([3])])
      Array([1, 2, 3], dtype=int32)
    """
    return concatenate(arrays, axis)


def stack(
    arrays: Sequence[Value] | Value, axis: int = 0, out: None = None, dtype: Any = None
) -> Any:
    """The arrays, all of one shape, along a new axis.

    Args:
      arrays: the arrays.
      axis: where the result has the new axis.
      out: not supported.
      dtype: of the result, by default what theirs promote to.

    Raises:
      ShapeError: their shapes differ.
      ValueRangeError: there are none.

    Example:
      >>> x, y = fnp.array([1, 2]), fnp.array([3, 4])
      >>> fnp.stack([x, y])
      Array([[1, 2],
             [3, 4]], dtype=int32)
      >>> fnp.stack([x, y], axis=1)
      Array([[1, 3],
             [2, 4]], dtype=int32)
    """
    ax.no_out("stack", out)
    parts = sequence_of("stack", arrays)
    place = ax.canonical_axis(axis, len(ax.one_shape("stack", parts)) + 1, "stack")
    return concatenate([ax.insert_axes(x, (place,)) for x in parts], place, dtype)


def vstack(tup: Sequence[Value] | Value, dtype: Any = None) -> Any:
    """The arrays below each other; vectors are rows.

    Args:
      tup: arrays of one shape but for the first axis.
      dtype: of the result, by default what theirs promote to.

    Raises:
      ShapeError: they differ in another size.
      ValueRangeError: there are none.

    Example:
      >>> fnp.vstack([fnp.array([1, 2]), fnp.array([[3, 4], [5, 6]])])
      Array([[1, 2],
             [3, 4],
             [5, 6]], dtype=int32)
    """
    return concatenate([atleast_2d(x) for x in sequence_of("vstack", tup)], 0, dtype)


def hstack(tup: Sequence[Value] | Value, dtype: Any = None) -> Any:
    """The arrays beside each other: along the second axis, vectors along the first.

    Args:
      tup: arrays of one shape but for that axis.
      dtype: of the result, by default what theirs promote to.

    Raises:
      ShapeError: they differ in another size.
      ValueRangeError: there are none.

    Example:
      >>> fnp.hstack([fnp.array([1, 2]), fnp.array([3])])
      Array([1, 2, 3], dtype=int32)
      >>> fnp.hstack([fnp.array([[1], [2]]), fnp.array([[3], [4]])])
      Array([[1, 3],
             [2, 4]], dtype=int32)
    """
    parts = [atleast_1d(x) for x in sequence_of("hstack", tup)]
    return concatenate(parts, 0 if parts[0].ndim == 1 else 1, dtype)


def dstack(tup: Sequence[Value] | Value, dtype: Any = None) -> Any:
    """The arrays behind each other, along the third axis.

    Args:
      tup: arrays of one shape but for that axis.
      dtype: of the result, by default what theirs promote to.

    Raises:
      ShapeError: they differ in another size.
      ValueRangeError: there are none.

    Example:
      >>> fnp.dstack([fnp.zeros((2, 3)), fnp.zeros((2, 3))]).shape
      (2, 3, 2)
    """
    return concatenate([atleast_3d(x) for x in sequence_of("dstack", tup)], 2, dtype)


def column_stack(tup: Sequence[Value] | Value) -> Any:
    """Vectors as columns, matrices beside each other.

    Args:
      tup: arrays of one or two axes, with as many rows.

    Raises:
      ShapeError: they differ in their rows.
      ValueRangeError: there are none.

    Example:
      >>> fnp.column_stack([fnp.array([1, 2]), fnp.array([3, 4])])
      Array([[1, 3],
             [2, 4]], dtype=int32)
    """
    return concatenate(list(map(as_columns, sequence_of("column_stack", tup))), 1)


def as_columns(x: Any) -> Any:
    """A vector as a column; a matrix stays."""
    return ax.reshape(x, (x.size, 1)) if x.ndim < 2 else x


def block(arrays: Any) -> Any:
    """Nested lists of blocks: the innermost along the last axis, and so on outward.

    Args:
      arrays: an array, or nested lists of arrays.

    Raises:
      ShapeError: the lists differ in depth, or the blocks do not fit.

    Example:
      >>> one, two = fnp.ones((2, 2), int), fnp.full((2, 1), 2)
      >>> fnp.block([[one, two], [3, 4, 5]])
      Array([[1, 1, 2],
             [1, 1, 2],
             [3, 4, 5]], dtype=int32)
    """
    depth = _block_depth(arrays)
    leaves, treedef = tree.flatten(arrays, lambda x: not isinstance(x, list))
    leaves = ew.values_together(leaves)
    ndim = max([depth, *(x.ndim for x in leaves)])
    leaves = [ax.insert_axes(x, range(ndim - x.ndim)) for x in leaves]
    return _block(tree.unflatten(treedef, leaves), ndim - depth)


def _is_list(arrays: Any) -> bool:
    return isinstance(arrays, list)


def _block_depth(arrays: Any) -> int:
    if not _is_list(arrays):
        return 0
    depths = {_block_depth(item) for item in arrays}
    if len(depths) != 1:
        raise errors.ShapeError(
            "block: the lists must not be empty and must have one depth, got the "
            f"depths {sorted(depths)}"
        )
    return depths.pop() + 1


def _block(arrays: Any, axis: int) -> Any:
    if not _is_list(arrays):
        return arrays
    return concatenate([_block(item, axis + 1) for item in arrays], axis)


# The same again.


def tile(A: Value, reps: int | Sequence[int]) -> Any:
    """`A` laid out side by side, as often along each axis as `reps` says.

    Args:
      A: the array.
      reps: an int or several; where there are more than axes, new axes stand in front.

    Example:
      >>> fnp.tile(fnp.array([1, 2]), 3)
      Array([1, 2, 1, 2, 1, 2], dtype=int32)
      >>> fnp.tile(fnp.array([1, 2]), (2, 1))
      Array([[1, 2],
             [1, 2]], dtype=int32)
    """
    value = ax.as_value(A)
    counts = ax.check_sizes(reps, "tile")
    ndim = max(value.ndim, len(counts))
    counts = (1,) * (ndim - len(counts)) + counts
    value = ax.insert_axes(value, range(ndim - value.ndim))
    spread = ax.insert_axes(value, range(0, 2 * ndim, 2))
    pairs = list(zip(counts, value.shape, strict=True))
    repeated = ax.expand(spread, tuple(n for pair in pairs for n in pair))
    return ax.reshape(repeated, tuple(count * size for count, size in pairs))
