"""Shapes: sizes, reshapes, axes in another order, broadcasting, flips, tiles."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ftrace import errors
from ftrace.numpy import axes as ax
from ftrace.trace.avals import Shape
from ftrace.trace.bind import broadcast_shapes as common_shape
from ftrace.trace.symbolic import is_dynamic, symbols_of
from ftrace.trace.tracing.tracer import Value, aval_of, is_value

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "broadcast_shapes",
    "broadcast_to", "expand_dims", "flip", "fliplr", "flipud", "moveaxis", "ndim",
    "permute_dims", "ravel", "reshape", "rollaxis", "rot90", "shape", "size", "squeeze",
    "swapaxes", "tile", "transpose",
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


# Tiling.


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
    given = ax.entries(reps)
    given = (reps,) if given is None else given
    counts = tuple(ax.check_count(count, "tile: reps") for count in given)
    ndim = max(value.ndim, len(counts))
    counts = (1,) * (ndim - len(counts)) + counts
    value = ax.insert_axes(value, range(ndim - value.ndim))
    spread = ax.insert_axes(value, range(0, 2 * ndim, 2))
    pairs = list(zip(counts, value.shape, strict=True))
    repeated = ax.expand(spread, tuple(n for pair in pairs for n in pair))
    return ax.reshape(repeated, tuple(count * size for count, size in pairs))
