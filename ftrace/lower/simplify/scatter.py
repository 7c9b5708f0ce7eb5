"""Rules on gathers and scatters: those that are something else, and those in parts.

    x[arange(n)]                   ->  x
    zeros.at[arange(n), i].add(u)  ->  where(k == i, u, 0)
    x.at[i].add(u)                 ->  x + the sum over b of zeros.at[b, i[b]].add(u[b])

A scatter is stored, and what works on it waits for that; a `where` joins the work. This
is the transpose of `take_along_axis` and of an element at a computed index. A base that
is no constant stays a scatter, as it may be updated in place.

Many updates of few places are added up on *boards*. One board is written by one thread,
in the order of the updates. Where there are many more updates than places, each block
of them has a board, and the boards are added up. How many there are depends on shapes
alone, so that results do not depend on threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ftrace import dtypes
from ftrace.lower.simplify.fold_constants import arg_of
from ftrace.lower.simplify.one_hot_to_gather import counts_along
from ftrace.trace.graph import Node, constant_value
from ftrace.trace.primitives.broadcast import expand, reduce_sum_p
from ftrace.trace.primitives.elementwise import bit_and, eq, mul, select
from ftrace.trace.primitives.indexing import (
    axes_and_kind,
    gather_p,
    read_back,
    scatter,
    scatter_p,
    trailing,
)
from ftrace.trace.primitives.movement import permute, reshape, shrink_axis
from ftrace.trace.primitives.reduction import (
    COMBINES_BY_NAME,
    reduce,
    reduce_max_p,
    reduce_min_p,
    reduce_prod_p,
)
from ftrace.trace.primitives.sources import const, const_like, const_p, iota
from ftrace.trace.rewrite import Pat, Rule
from ftrace.trace.symbolic.dim import any_dynamic, same_size


def _lanes(x: Node) -> dict[int, int] | None:
    """Axis of the result -> axis of the batch, where the index only counts.

    None if some axis of the batch has no such index, so that updates may collide.
    """
    axes, _ = axes_and_kind(x)
    indices = x.src[2:]
    wanted = [c for c, n in enumerate(indices[0].shape) if not same_size(n, 1)]
    found: dict[int, int] = {}
    for axis, index in zip(axes, indices, strict=True):
        for place in wanted:
            same = same_size(index.shape[place], x.shape[axis])
            if same and place not in found.values() and counts_along(index, place):
                found[axis] = place
                break
    return found if len(found) == len(wanted) else None


def _laid_out(node: Node, x: Node, lanes: dict[int, int], rest: Sequence[int]) -> Node:
    """Values of batch, or batch and rest, as the axes of x that they belong to."""
    depth = x.src[2].ndim
    source = dict(lanes)
    if node.ndim > depth:
        source |= {axis: depth + i for i, axis in enumerate(rest)}
    order = [source[a] for a in sorted(source)]
    units = [a for a in range(node.ndim) if a not in order]
    moved = permute(node, (*order, *units))
    shape = tuple(node.shape[source[a]] if a in source else 1 for a in range(x.ndim))
    return expand(reshape(moved, shape), x.shape)


def _scatter_as_select(x: Node) -> Node | None:
    lanes = _lanes(x)
    axes, kind = axes_and_kind(x)
    base, updates, *indices = x.src
    if lanes is None or len(lanes) == len(axes):
        return None
    rest = [a for a in range(x.ndim) if a not in axes]
    mask: Node | None = None
    for axis, index in zip(axes, indices, strict=True):
        if axis not in lanes:
            at = _laid_out(index, x, lanes, rest)
            here = eq(at, iota(at.dtype, x.shape, axis))
            mask = here if mask is None else bit_and(mask, here)
    assert mask is not None
    new = _laid_out(updates, x, lanes, rest)
    if kind in COMBINES_BY_NAME:
        new = COMBINES_BY_NAME[kind](base, new)
    return select(mask, new, base)


def _fits(x: Node) -> bool:
    """Can the index dtypes hold every position?"""
    axes, _ = axes_and_kind(x)
    return x.src[0].op is const_p and all(
        dtypes.limits(index.dtype)[1] >= x.shape[axis] - 1
        for axis, index in zip(axes, x.src[2:], strict=True)
    )


def _products(x: Node) -> Node:
    """Each update becomes the product of all those of its element, and is set.

    Devices combine no pairs of numbers in memory. It takes time in the square of the
    number of updates.
    """
    axes, _ = axes_and_kind(x)
    base, updates, *indices = x.src
    count = indices[0].size
    width = updates.size // count
    same: Node | None = None
    for index in indices:
        ours = expand(reshape(index, (count, 1)), (count, count))
        theirs = expand(reshape(index, (1, count)), (count, count))
        here = eq(ours, theirs)
        same = here if same is None else bit_and(same, here)
    assert same is not None
    whole = (count, count, width)
    factors = expand(reshape(updates, (1, count, width)), whole)
    factors = select(trailing(same, whole), factors, const_like(factors, 1))
    product = reshape(reduce(reduce_prod_p, factors, (1,)), updates.shape)
    return scatter(
        base, mul(read_back(base, indices, axes), product), indices, axes, "set"
    )


def _is_complex_product(x: Node) -> bool:
    return dtypes.is_complex(x.dtype) and axes_and_kind(x)[1] == "mul"


def _gather_as_movement(x: Node) -> Node | None:
    """Each index counts along its own axis of the batch: the elements only move."""
    axes: tuple[int, ...] = arg_of(x)
    source, *indices = x.src
    batch = indices[0].shape
    places: list[int] = []
    for axis, index in zip(axes, indices, strict=True):
        for place, size in enumerate(batch):
            fits = 1 < size <= source.shape[axis] and place not in places
            if fits and counts_along(index, place):
                places.append(place)
                break
        else:
            return None
    if any(not same_size(n, 1) and c not in places for c, n in enumerate(batch)):
        return None
    for axis, place in zip(axes, places, strict=True):
        source = shrink_axis(source, axis, 0, batch[place])
    order = [axis for _, axis in sorted(zip(places, axes, strict=True))]
    rest = [a for a in range(source.ndim) if a not in axes]
    return reshape(permute(source, (*order, *rest)), x.shape)


SCATTERS: Final = (
    # x[arange(n)] -> x[:n]
    Rule(
        "gather_of_positions_is_movement", Pat(gather_p, name="x"), _gather_as_movement
    ),
    # c.at[arange(n), i].add(u) -> where(k == i, c + u, c)
    Rule(
        "scatter_without_collisions_is_select",
        Pat(scatter_p, name="x", where=_fits),
        _scatter_as_select,
    ),
    # x.at[i].multiply(u) -> x.at[i].set(x[i] * product of all u there), complex
    Rule(
        "scatter_complex_products",
        Pat(scatter_p, name="x", where=_is_complex_product),
        _products,
    ),
)


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
    # zeros.at[i].add(u) -> sum over b of zeros.at[b, i[b]].add(u[b])
    Rule("scatter_on_boards", Pat(scatter_p, name="x", where=_is_crowded), _on_boards),
)
