"""Scatters of many updates to few places: private copies, added up (privatization).

    x = zeros.at[i].add(u)  ->  part[b] = zeros.at[i[b]].add(u[b]), for each block b
                                x = the sum over b of part[b]

One thread adds to a copy, in the order of the updates. Where there are many more
updates than places, each block of them has a copy. How many there are depends on shapes
alone, so that results do not depend on threads. Minima and maxima are made in the same
way.
"""

from __future__ import annotations

from typing import Final

from ftrace import dtypes
from ftrace.lower import analysis
from ftrace.trace.graph import Node, constant_value
from ftrace.trace.primitives import (
    broadcast as bc,
    indexing,
    movement as mv,
    reduction as red,
    sources,
)
from ftrace.trace.rewrite import Pat, Rule
from ftrace.trace.symbolic import any_dynamic, same_size

#: Updates that are worth a second step, on two threads: 1M of 256 places 1.9 times as
#: fast, 131,072 rows of 8 of 100 2.3; 65,536 of 16 1.6. With 2¹⁷ the last is one
#: kernel, with 2¹³ 16,384 of 64 are two.
MANY = 1 << 15
#: With 256 copies 1M of 256 places store 0.5 MB, not 0.13, with 16 0.03; if 32 are the
#: fewest, 1M of 10,000 have none, if 2 are, no row differs.
MOST_COPIES, FEWEST_COPIES = 64, 8
#: Updates for each place of all copies: these are filled, and read once more. With 16
#: 1M of 10,000 have no copies, with 1 they store 5.2 MB, not 1.4.
_PER_POSITION = 4
#: Elements of an update; those of wider ones are shared by threads as they are. With 64
#: those of 64 have copies of 64 KB, with 4 131,072 rows of 8 none.
_NARROW = 16
#: Bytes: copies of several threads share no line, nor two that are fetched together: a
#: law of the processor. With 512 131,072 rows of 8 of 100 take a kernel more.
_LINES = 128

_REDUCES: Final = {
    "add": bc.reduce_sum_p,
    "min": red.reduce_min_p,
    "max": red.reduce_max_p,
}


def _size_of_copy(x: Node) -> int:
    """Elements along the first indexed axis of a copy, whose end is never read."""
    axis = indexing.axes_and_kind(x)[0][0]
    size = x.shape[axis]
    row = x.size // size * x.dtype.itemsize
    while row * size % _LINES:
        size += 1
    return size


def copy_count(x: Node) -> int:
    """How many private copies a scatter is cut into; 0 if it is not."""
    axes, _ = indexing.axes_and_kind(x)
    updates = x.src[2].size
    places = x.size // x.shape[axes[0]] * _size_of_copy(x)
    count = MOST_COPIES
    while count * places * _PER_POSITION > updates:
        count //= 2
    return count if count >= FEWEST_COPIES else 0


def _is_crowded(x: Node) -> bool:
    _, kind = indexing.axes_and_kind(x)
    base, updates, *indices = x.src
    if (
        kind not in _REDUCES
        or base.op is not sources.const_p
        or any_dynamic(updates.shape)
    ):
        return False
    count = indices[0].size
    if count < MANY or same_size(x.size, 0) or updates.size > _NARROW * count:
        return False
    if dtypes.kind(x.dtype) not in "iuf":
        return False
    # -0.0 + 0.0 is 0.0: a base of -0.0 would lose its sign.
    if kind == "add" and any(base.arg):
        return False
    return all(analysis.find_counted_axis(index) is None for index in indices)


def _privatize(x: Node) -> Node | None:
    """Private copies are filled, combined, and what is left over is added."""
    copies = copy_count(x)
    if not copies:
        return None
    axes, kind = indexing.axes_and_kind(x)
    base, updates, *indices = x.src
    count, rest = indices[0].size, updates.shape[indices[0].ndim :]
    updates = mv.reshape(updates, (count, *rest))
    indices = [mv.reshape(index, (count,)) for index in indices]
    each = count // copies
    whole = copies * each

    def cut(node: Node) -> Node:
        first = mv.shrink_axis(node, 0, 0, whole)
        return mv.reshape(first, (copies, each, *node.shape[1:]))

    size = _size_of_copy(x)
    shape = list(x.shape)
    shape[axes[0]] = size
    private = sources.const(constant_value(base), x.dtype, (copies, *shape))
    number = sources.iota(dtypes.int32, (copies, each), 0)
    moved = (0, *[a + 1 for a in axes])
    filled = indexing.scatter(
        private, cut(updates), [number, *map(cut, indices)], moved, kind
    )
    total = mv.reshape(red.reduce(_REDUCES[kind], filled, (0,)), tuple(shape))
    total = mv.shrink_axis(total, axes[0], 0, x.shape[axes[0]])
    if whole < count:
        left = [mv.shrink_axis(node, 0, whole, count) for node in (updates, *indices)]
        total = indexing.scatter(total, left[0], left[1:], axes, kind)
    return total


RULES: Final = (
    # zeros.at[i].add(u) -> sum over b of zeros.at[b, i[b]].add(u[b])
    Rule(
        "privatize_scatter",
        Pat(indexing.scatter_p, name="x", where=_is_crowded),
        _privatize,
    ),
)
