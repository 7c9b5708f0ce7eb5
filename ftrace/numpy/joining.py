"""Arrays put together: concatenate, stack, repeat, insert and delete.

    concatenate(x, y) = where(position < len(x), x padded behind, y padded before)

pairwise, as a tree, so that many parts cost the logarithm of their number; very many
in groups, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.arrays.array import Array, ArrayLike, is_array, recording
from ftrace.errors import ArgumentError, ShapeError, ValueRangeError
from ftrace.numpy import axes
from ftrace.numpy.elementwise import common_type, less, values_together
from ftrace.numpy.shape import atleast_1d, atleast_2d, atleast_3d, ravel, unstack
from ftrace.trace.bind import bind_compound
from ftrace.trace.evaluate import no_memory, require_room
from ftrace.trace.primitives.barrier import barrier_p
from ftrace.trace.symbolic.dim import is_dynamic
from ftrace.trace.tracing.tracer import Value, aval_of

__all__ = [
    "block", "column_stack", "concat", "concatenate", "dstack", "hstack", "stack",
    "tile", "vstack",
]  # fmt: skip


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
    """
    parts = sequence_of("concatenate", arrays)
    if axis is None:
        parts, axis = [ravel(x) for x in parts], 0
    first = parts[0]
    if first.ndim == 0:
        raise ShapeError("concatenate: arrays without axes cannot be joined; use stack")
    axis = axes.canonical_axis(axis, first.ndim, "concatenate")
    for other in parts[1:]:
        rest = [(x.shape[:axis], x.shape[axis + 1 :]) for x in (first, other)]
        if other.ndim != first.ndim or rest[0] != rest[1]:
            raise ShapeError(
                f"concatenate: shapes {first.shape} and {other.shape} may differ only "
                f"along axis {axis}"
            )
    target, weak = common_type(*parts)
    if dtype is not None:
        target, weak = dtypes.as_dtype(dtype), False
    return _joined([axes.cast(x, target, weak) for x in parts], axis)


def sequence_of(name: str, arrays: Any) -> list[Any]:
    if isinstance(arrays, (ArrayLike, np.ndarray)):
        parts = list(unstack(arrays))
    elif hasattr(arrays, "__iter__"):
        parts = list(arrays)
    else:
        raise ArgumentError(f"{name} takes a sequence of arrays, got {arrays!r:.60}")
    if not parts:
        raise ValueRangeError(f"{name} takes at least one array, got none")
    return values_together(parts)


def _joined(parts: list[Any], axis: int) -> Any:
    """Parts of one dtype that fit together."""
    if len(parts) == 1:
        return parts[0]
    if all(is_array(x) and x.memory.host for x in parts):
        shape = list(parts[0].shape)
        shape[axis] = sum(x.shape[axis] for x in parts)
        aval = aval_of(parts[0]).with_shape(tuple(shape))
        require_room("concatenate", aval)
        try:
            joined = np.concatenate([x.numpy() for x in parts], axis)
        except MemoryError:
            raise no_memory("concatenate", aval) from None
        made = Array.of(joined, parts[0].weak_type)
        if recording.tape is not None:
            recording.tape.note(partial(_concatenated, axis), parts, made)
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


def _concatenated(axis: int, *parts: Any) -> Any:
    return np.concatenate(parts, axis)


def _join_two(x: Any, y: Any, axis: int) -> Any:
    left, right = x.shape[axis], y.shape[axis]

    def padded(value: Any, before: int, after: int) -> Any:
        pads = [(0, 0, 0)] * value.ndim
        pads[axis] = (before, after, 0)
        return axes.pad(value, tuple(pads))

    line = [1] * x.ndim
    line[axis] = left + right
    first = less(axes.iota(dtypes.int32, tuple(line), axis), left)
    return axes.choose(first, padded(x, 0, right), padded(y, left, 0))


def concat(arrays: Sequence[Value], /, *, axis: int | None = 0) -> Any:
    """As `concatenate`."""
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
    """
    axes.no_out("stack", out)
    parts = sequence_of("stack", arrays)
    for x in parts:
        if x.shape != parts[0].shape:
            raise ShapeError(
                f"stack: all shapes must be equal, got {parts[0].shape} and {x.shape}"
            )
    place = axes.canonical_axis(axis, parts[0].ndim + 1, "stack")
    return concatenate([axes.insert_axes(x, (place,)) for x in parts], place, dtype)


def vstack(tup: Sequence[Value] | Value, dtype: Any = None) -> Any:
    """The arrays below each other; vectors are rows."""
    return concatenate([atleast_2d(x) for x in sequence_of("vstack", tup)], 0, dtype)


def hstack(tup: Sequence[Value] | Value, dtype: Any = None) -> Any:
    """The arrays beside each other: along the second axis, vectors along the first."""
    parts = [atleast_1d(x) for x in sequence_of("hstack", tup)]
    return concatenate(parts, 0 if parts[0].ndim == 1 else 1, dtype)


def dstack(tup: Sequence[Value] | Value, dtype: Any = None) -> Any:
    """The arrays behind each other, along the third axis."""
    return concatenate([atleast_3d(x) for x in sequence_of("dstack", tup)], 2, dtype)


def column_stack(tup: Sequence[Value] | Value) -> Any:
    """Vectors as columns, matrices beside each other."""
    parts = sequence_of("column_stack", tup)
    return concatenate(
        [axes.reshape(x, (x.size, 1)) if x.ndim < 2 else x for x in parts], 1
    )


def block(arrays: Any) -> Any:
    """Nested lists of blocks: the innermost along the last axis, and so on outward.

    Raises:
      ShapeError: the lists differ in depth, or the blocks do not fit.
    """
    depth = _block_depth(arrays)
    leaves = values_together(_block_leaves(arrays))
    ndim = max([depth, *(x.ndim for x in leaves)])
    return _block(arrays, iter(leaves), depth, ndim)


def _is_list(arrays: Any) -> bool:
    return isinstance(arrays, list)


def _block_leaves(arrays: Any) -> list[Any]:
    if not _is_list(arrays):
        return [arrays]
    return [leaf for item in arrays for leaf in _block_leaves(item)]


def _block_depth(arrays: Any) -> int:
    if not _is_list(arrays):
        return 0
    depths = {_block_depth(item) for item in arrays}
    if len(depths) != 1:
        raise ShapeError(
            "block: the lists must not be empty and must have one depth, got the "
            f"depths {sorted(depths)}"
        )
    return depths.pop() + 1


def _block(arrays: Any, leaves: Iterator[Any], depth: int, ndim: int) -> Any:
    if not _is_list(arrays):
        value = next(leaves)
        return axes.insert_axes(value, range(ndim - value.ndim))
    parts = [_block(item, leaves, depth - 1, ndim) for item in arrays]
    return concatenate(parts, ndim - depth)


# The same again.


def tile(A: Value, reps: int | Sequence[int]) -> Any:
    """`A` laid out side by side, as often along each axis as `reps` says."""
    value = axes.as_value(A)
    counts = axes.check_shape(reps, "tile")
    if min(counts, default=0) < 0:
        raise ValueRangeError(f"tile: repetitions must not be negative, got {counts}")
    ndim = max(value.ndim, len(counts))
    counts = (1,) * (ndim - len(counts)) + counts
    value = axes.insert_axes(value, range(ndim - value.ndim))
    spread = axes.insert_axes(value, range(0, 2 * ndim, 2))
    pairs = list(zip(counts, value.shape, strict=True))
    repeated = axes.expand(spread, tuple(n for pair in pairs for n in pair))
    return axes.reshape(repeated, tuple(count * size for count, size in pairs))
