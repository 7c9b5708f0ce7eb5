"""Arrays joined and split along an axis.

    concatenate(x, y) = where(position < len(x), x padded behind, y padded before)

pairwise, as a tree, so that many parts cost the logarithm of their number; very many
in groups, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ftrace import dtypes, errors
from ftrace.numpy import axes as ax, elementwise as ew, logic
from ftrace.numpy.shape import atleast_1d, atleast_2d, atleast_3d, ravel
from ftrace.trace.arrays.array import Array, ArrayLike, recording
from ftrace.trace.bind import bind_compound
from ftrace.trace.eager.function_objects import member
from ftrace.trace.evaluate import no_memory, require_memory
from ftrace.trace.primitives.primitive import barrier_p
from ftrace.trace.pytree import tree
from ftrace.trace.symbolic import is_dynamic
from ftrace.trace.tracing.tracer import Value, aval_of

__all__ = [
    "array_split", "block", "column_stack", "concat", "concatenate", "dsplit", "dstack",
    "hsplit", "hstack", "split", "stack", "unstack", "vsplit", "vstack",
]  # fmt: skip


# Splitting.


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


def _splits(name: str, axis: Callable[[int], int]):
    def split_along(ary: Value, indices_or_sections: Any) -> list[Any]:
        """Parts along an axis, which follows from their number.

        Args:
          ary: the array.
          indices_or_sections: how many parts; or where each part but the first begins.

        Returns:
          A list of arrays.

        Raises:
          ShapeError: the size is no multiple of the number of sections.
        """
        return split(ary, indices_or_sections, axis(len(ax.shape_of(ary))))

    return split_along


@member(_splits, lambda ndim: 1 if ndim > 1 else 0)
def hsplit():
    """Parts along the second axis, or the only one.

    Example:
      >>> fnp.hsplit(fnp.array([[1, 2], [3, 4]]), 2)
      [Array([[1],
             [3]], dtype=int32), Array([[2],
             [4]], dtype=int32)]
    """


@member(_splits, lambda ndim: 0)
def vsplit():
    """Parts along the first axis.

    Example:
      >>> fnp.vsplit(fnp.array([[1, 2], [3, 4]]), 2)
      [Array([[1, 2]], dtype=int32), Array([[3, 4]], dtype=int32)]
    """


@member(_splits, lambda ndim: 2)
def dsplit():
    """Parts along the third axis.

    Example:
      >>> [part.shape for part in fnp.dsplit(fnp.zeros((2, 3, 4)), 2)]
      [(2, 3, 2), (2, 3, 2)]
    """


def _is_count(sections: Any) -> bool:
    return not hasattr(sections, "__iter__") or getattr(sections, "shape", None) == ()


def _split_at(ary: Any, axis: int, size: int, indices: Any) -> list[Any]:
    places = [ax.static_index(i, "split: each index") for i in indices]
    bounds = [slice(None, i).indices(size)[1] for i in places]
    starts, stops = [0, *bounds], [*bounds, size]
    return [
        ax.shrink_axis(ary, axis, start, max(start, stop))
        for start, stop in zip(starts, stops, strict=True)
    ]


# Joining.


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
    first = logic.less(ax.iota(dtypes.int32, line, axis), left)
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
