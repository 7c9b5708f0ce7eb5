"""Shapes: reshape, transpose, broadcast, axes of size 1, flips and turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ftrace import errors
from ftrace.arrays.array import Array
from ftrace.ground.tables import memo
from ftrace.numpy import axes as ax
from ftrace.trace.avals import Shape
from ftrace.trace.bind import broadcast_shapes as common_shape
from ftrace.trace.symbolic.dim import is_dynamic, symbols_of
from ftrace.trace.tracing.tracer import Value

__all__ = [
    "array_split", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays",
    "broadcast_shapes", "broadcast_to", "dsplit", "expand_dims", "flip", "fliplr",
    "flipud", "hsplit", "moveaxis", "permute_dims", "ravel", "reshape", "rollaxis",
    "rot90", "split", "squeeze", "swapaxes", "transpose", "unstack", "vsplit",
]  # fmt: skip


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
    """
    a = ax.as_value(a)
    target = _resolved(a.shape, ax.check_shape(shape, "reshape"), a.size)
    if order == "F":
        return transpose(ax.reshape(transpose(a), target[::-1]))
    errors.one_of("reshape: order", order, ("C", "F", "A", "K"))
    return ax.reshape(a, target)


def _resolved(shape: Shape, target: Shape, size: int) -> Shape:
    """The target with -1 replaced by what the other sizes leave."""
    unknown = [a for a, n in enumerate(target) if n == -1]
    known = 1
    for n in target:
        known *= 1 if n == -1 else n
    if len(unknown) > 1:
        raise errors.ShapeError(f"reshape: at most one size may be -1, got {target}")
    if any(n < -1 for n in target):
        raise errors.ShapeError(f"reshape: sizes must not be negative, got {target}")
    if is_dynamic(size) or is_dynamic(known):
        return _resolved_dynamic(shape, target, size, known, bool(unknown))
    if unknown and known and size % known == 0:
        target = tuple(size // known if n == -1 else n for n in target)
    elif unknown or known != size:
        raise errors.ShapeError(
            f"reshape: an array of shape {shape} has {size} elements and does not fit "
            f"the shape {target}" + (f" with {known}" if not unknown else "")
        )
    return target


def _resolved_dynamic(
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
    """All elements along one axis."""
    return reshape(a, (-1,) if shape_size(a) else (0,), order)


def shape_size(a: Value) -> int:
    """The number of elements."""
    total = 1
    for n in ax.shape_of(a):
        total *= n
    return total


def transpose(a: Value, axes: Sequence[int] | None = None) -> Any:
    """The axes in another order, by default reversed.

    Raises:
      AxisError: `axes` is not a permutation.
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
    """The axes in another order."""
    return transpose(a, axes)


def swapaxes(a: Value, axis1: int, axis2: int) -> Any:
    """Two axes exchanged."""
    ndim = len(ax.shape_of(a))
    i, j = (
        ax.canonical_axis(axis1, ndim, "swapaxes"),
        ax.canonical_axis(axis2, ndim, "swapaxes"),
    )
    order = list(range(ndim))
    order[i], order[j] = j, i
    return ax.permute(a, tuple(order))


def moveaxis(
    a: Value, source: int | Sequence[int], destination: int | Sequence[int]
) -> Any:
    """Axes moved to other places; the rest keep their order.

    Raises:
      AxisError: there are not as many sources as destinations.
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
    """One axis moved to stand before the axis `start`."""
    ndim = len(ax.shape_of(a))
    source = ax.canonical_axis(axis, ndim, "rollaxis")
    if not -ndim <= start <= ndim:
        raise errors.AxisError(f"rollaxis: start {start} does not fit {ndim} axes")
    place = start + ndim if start < 0 else start
    return moveaxis(a, source, place - 1 if source < place else place)


def expand_dims(a: Value, axis: int | Sequence[int]) -> Any:
    """New axes of size 1, where the result has them."""
    ndim = len(ax.shape_of(a))
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    return ax.insert_axes(a, ax.canonical_axes(axis, ndim + count, "expand_dims"))


def squeeze(a: Value, axis: int | Sequence[int] | None = None) -> Any:
    """Without axes of size 1: all of them, or those named.

    Raises:
      ShapeError: an axis that is named has another size.
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
    """The arrays with at least one axis; a list of them where several are given."""
    return _each(arys, {0: (0,)})


def atleast_2d(*arys: Value) -> Any:
    """The arrays with at least two axes, new ones in front."""
    return _each(arys, {0: (0, 1), 1: (0,)})


def atleast_3d(*arys: Value) -> Any:
    """The arrays with at least three axes: (N,) becomes (1, N, 1)."""
    return _each(arys, {0: (0, 1, 2), 1: (0, 2), 2: (2,)})


def _each(arys: Sequence[Value], added: dict[int, tuple[int, ...]]) -> Any:
    """The arrays with the axes that are added for their rank."""
    results = [ax.insert_axes(x, added.get(len(ax.shape_of(x)), ())) for x in arys]
    return results[0] if len(results) == 1 else results


# Broadcasting.


def broadcast_to(array: Value, shape: Any) -> Any:
    """`array` repeated to a shape by NumPy's rules.

    Raises:
      ShapeError: it does not broadcast to the shape.
    """
    return ax.broadcast_to(array, ax.check_shape(shape, "broadcast_to"))


def broadcast_shapes(*shapes: Any) -> Shape:
    """The shape to which all the shapes broadcast.

    Raises:
      ShapeError: they do not.
    """
    if all(type(s) is tuple and set(map(type, s)) <= _INTEGER for s in shapes):
        return _broadcast_known(shapes)
    return common_shape(
        "broadcast_shapes", [ax.check_shape(s, "broadcast_shapes") for s in shapes]
    )


_INTEGER = {int}


@memo(1024)
def _broadcast_known(shapes: tuple[Shape, ...]) -> Shape:
    checked = [ax.check_shape(s, "broadcast_shapes") for s in shapes]
    return common_shape("broadcast_shapes", checked) if checked else ()


def broadcast_arrays(*args: Value) -> list[Any]:
    """The arrays broadcast to one shape.

    Raises:
      ShapeError: their shapes do not broadcast together.
    """
    arrays = [ax.as_value(x) for x in args]
    if not arrays:
        return []
    shape = common_shape("broadcast_arrays", [x.shape for x in arrays])
    return [ax.broadcast_to(x, shape) for x in arrays]


# Flips and turns.


def flip(m: Value, axis: int | Sequence[int] | None = None) -> Any:
    """The elements in reverse order along the axes, by default all."""
    return ax.flip(m, ax.canonical_axes(axis, len(ax.shape_of(m)), "flip"))


def fliplr(m: Value) -> Any:
    """The columns in reverse order."""
    _at_least("fliplr", m, 2)
    return flip(m, 1)


def flipud(m: Value) -> Any:
    """The rows in reverse order."""
    _at_least("flipud", m, 1)
    return flip(m, 0)


def _at_least(name: str, m: Value, ndim: int) -> None:
    if len(ax.shape_of(m)) < ndim:
        raise errors.ShapeError(
            f"{name} takes at least {ndim} axes, got shape {ax.shape_of(m)}"
        )


def rot90(m: Value, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Any:
    """Turned by 90° k times, from the first axis toward the second."""
    first, second = ax.canonical_axes(axes, len(ax.shape_of(m)), "rot90")
    match ax.static_int(k, "rot90: k") % 4:
        case 0:
            return ax.as_value(m)
        case 1:
            return swapaxes(flip(m, second), first, second)
        case 2:
            return flip(m, (first, second))
        case _:
            return flip(swapaxes(m, first, second), second)


# Taking apart.


def unstack(x: Value, /, *, axis: int = 0) -> tuple[Any, ...]:
    """The parts along an axis, without it.

    Raises:
      ShapeError: the array has no axes.
    """
    x = ax.as_value(x)
    if x.ndim == 0:
        raise errors.ShapeError(
            "unstack takes at least one axis, got an array without axes"
        )
    axis = ax.canonical_axis(axis, x.ndim, "unstack")
    if axis == 0 and type(x) is Array:
        return tuple([x[i] for i in range(x.shape[0])])
    parts = [ax.shrink_axis(x, axis, i, i + 1) for i in range(x.shape[axis])]
    return tuple(ax.drop_axes(part, (axis,)) for part in parts)


def array_split(
    ary: Value, indices_or_sections: int | Sequence[int], axis: int = 0
) -> list[Any]:
    """Parts along an axis: at indices, or a number of nearly equal ones."""
    ary, axis, size = _sized("array_split", ary, axis)
    if not _is_count(indices_or_sections):
        return _split_at(ary, axis, size, indices_or_sections)
    count = ax.static_int(indices_or_sections, "array_split: sections")
    if count < 1:
        raise errors.ValueRangeError(f"array_split: at least one section, got {count}")
    small, more = divmod(size, count)
    bounds = [min(i, more) + i * small for i in range(1, count)]
    return _split_at(ary, axis, size, bounds)


def split(
    ary: Value, indices_or_sections: int | Sequence[int], axis: int = 0
) -> list[Any]:
    """Parts along an axis: at indices, or a number of equal ones.

    Raises:
      ShapeError: the size is no multiple of the number of sections.
    """
    value, place, size = _sized("split", ary, axis)
    if _is_count(indices_or_sections):
        count = ax.static_int(indices_or_sections, "split: sections")
        if count < 1 or size % count:
            raise errors.ShapeError(
                f"split: axis {place} of an array of shape {value.shape} cannot be "
                f"divided into {count} equal parts; use array_split"
            )
    return array_split(value, indices_or_sections, place)


def hsplit(ary: Value, indices_or_sections: Any) -> list[Any]:
    """Parts along the second axis, or the only one."""
    return split(ary, indices_or_sections, 1 if len(ax.shape_of(ary)) > 1 else 0)


def vsplit(ary: Value, indices_or_sections: Any) -> list[Any]:
    """Parts along the first axis."""
    return split(ary, indices_or_sections, 0)


def dsplit(ary: Value, indices_or_sections: Any) -> list[Any]:
    """Parts along the third axis."""
    return split(ary, indices_or_sections, 2)


def _sized(name: str, ary: Value, axis: int) -> tuple[Any, int, int]:
    ary = ax.as_value(ary)
    axis = ax.canonical_axis(axis, ary.ndim, name)
    return ary, axis, ary.shape[axis]


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
