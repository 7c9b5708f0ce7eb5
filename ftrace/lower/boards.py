"""Many updates of few places: added up in parts, on boards of their own.

    x.at[i].add(u)  ->  x + the sum over b of zeros.at[b, i[b]].add(u[b])

One board is written by one thread, in the order of the updates. Where there are many
more updates than places, each block of them has a board, and the boards are added up.
How many there are depends on shapes alone, so that results do not depend on threads.
"""

from __future__ import annotations

from typing import Final

from ftrace import dtypes
from ftrace.lower.constants import arg_of
from ftrace.lower.onehot import counts_along
from ftrace.trace.dims import any_dynamic, same_size
from ftrace.trace.graph import Node, constant_value
from ftrace.trace.primitives.broadcast import reduce_sum_p
from ftrace.trace.primitives.indexing import axes_and_kind, scatter, scatter_p
from ftrace.trace.primitives.movement import reshape, shrink_axis
from ftrace.trace.primitives.reduction import reduce, reduce_max_p, reduce_min_p
from ftrace.trace.primitives.source import const, const_p, iota
from ftrace.trace.rewrite import Pat, Rule

MANY = 1 << 15  # updates that are worth a second step
MOST_BOARDS, FEWEST_BOARDS = 64, 8
#: Updates for each place of all boards: these are filled, and read once more.
_PER_PLACE = 4
#: Elements of an update; those of wider ones are shared by threads as they are.
_NARROW = 16
#: Bytes: boards of several threads share no line, nor two that are fetched together.
_LINES = 128

_REDUCES: Final = {"add": reduce_sum_p, "min": reduce_min_p, "max": reduce_max_p}


def _size_of_board(x: Node) -> int:
    """Elements along the first indexed axis of a board, whose end is never read."""
    axis = axes_and_kind(x)[0][0]
    size = x.shape[axis]
    row = x.size // size * x.dtype.itemsize
    while row * size % _LINES:
        size += 1
    return size


def board_count(x: Node) -> int:
    """How many boards a scatter is cut into; 0 if it is not."""
    axes, _ = axes_and_kind(x)
    updates = x.src[2].size
    places = x.size // x.shape[axes[0]] * _size_of_board(x)
    count = MOST_BOARDS
    while count * places * _PER_PLACE > updates:
        count //= 2
    return count if count >= FEWEST_BOARDS else 0


def _is_crowded(x: Node) -> bool:
    _, kind = axes_and_kind(x)
    base, updates, *indices = x.src
    if kind not in _REDUCES or base.op is not const_p or any_dynamic(updates.shape):
        return False
    count = indices[0].size
    if count < MANY or same_size(x.size, 0) or updates.size > _NARROW * count:
        return False
    if dtypes.kind(x.dtype) not in "iuf":
        return False
    # -0.0 + 0.0 is 0.0: a base of -0.0 would lose its sign.
    if kind == "add" and any(arg_of(base)):
        return False
    apart = any(
        counts_along(index, place) and n > 1
        for index in indices
        for place, n in enumerate(index.shape)
    )
    return not apart


def _on_boards(x: Node) -> Node | None:
    """The boards are filled, combined, and what is left over is added."""
    boards = board_count(x)
    if not boards:
        return None
    axes, kind = axes_and_kind(x)
    base, updates, *indices = x.src
    count, rest = indices[0].size, updates.shape[indices[0].ndim :]
    updates = reshape(updates, (count, *rest))
    indices = [reshape(index, (count,)) for index in indices]
    each = count // boards
    whole = boards * each

    def cut(node: Node) -> Node:
        first = shrink_axis(node, 0, 0, whole)
        return reshape(first, (boards, each, *node.shape[1:]))

    size = _size_of_board(x)
    shape = list(x.shape)
    shape[axes[0]] = size
    board = const(constant_value(base), x.dtype, (boards, *shape))
    number = iota(dtypes.int32, (boards, each), 0)
    moved = (0, *[a + 1 for a in axes])
    filled = scatter(board, cut(updates), [number, *map(cut, indices)], moved, kind)
    total = reshape(reduce(_REDUCES[kind], filled, (0,)), tuple(shape))
    total = shrink_axis(total, axes[0], 0, x.shape[axes[0]])
    if whole < count:
        left = [shrink_axis(node, 0, whole, count) for node in (updates, *indices)]
        total = scatter(total, left[0], left[1:], axes, kind)
    return total


BOARDS: Final = (
    Rule(  # zeros.at[i].add(u) -> sum over b of zeros.at[b, i[b]].add(u[b])
        "scatter_on_boards",
        Pat(scatter_p, name="x", where=_is_crowded),
        _on_boards,
    ),
)
