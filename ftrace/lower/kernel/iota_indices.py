"""Where index arrays point: those that count are ranges, the others are read.

    x[start + arange(n)]      reads x at  range + (the value of start)
    x.at[2 * arange(n)]       writes at   2·range
    x[i]                      reads x at  (the value of i)

An index array that counts needs no element of it to be read, and a loop over it goes
through memory in steps: the accesses are vectors. A start must be known not to be
negative, and sums must be known to fit their dtype; `values_of` says what is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ftrace import dtypes
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.lower.kernel import affine_index as ix, integer_bounds
from ftrace.trace.graph import Node, constant_value
from ftrace.trace.primitives import broadcast as bc, elementwise as p
from ftrace.trace.primitives.indexing import axes_and_kind
from ftrace.trace.primitives.sources import const_p, dim_p, iota_p
from ftrace.trace.symbolic import bounds as bounds_of_size, upper_bound


class Reading(NamedTuple):
    """The value of an integer array at an index, which is part of another index."""

    array: Node
    indices: tuple[ix.Index, ...]
    valid: ix.Valid | None


#: Gives the number of a reading.
NumberOf = Callable[[Reading], int]


class Position(NamedTuple):
    """An element of an index array.

    Attributes:
      where: what it is, as an index.
      counts: is it not just read? Else it is taken for granted that it is in bounds.
    """

    where: ix.Index
    counts: bool


def position_of(
    array: Node,
    indices: tuple[ix.Index, ...],
    valid: ix.Valid | None,
    size: int,
    number_of: NumberOf,
) -> Position:
    """What an index array along an axis of `size` holds at an index."""
    found = _count(array, indices, valid, number_of, integer_bounds.DEPTH)
    if found is not None and found.counts:
        return found
    return _read(array, indices, valid, number_of, size)


def targets_of(
    scatter: Node, at: tuple[ix.Index, ...], number_of: NumberOf
) -> dict[int, Position]:
    """By each indexed axis where the update at an index of the updates goes."""
    axes, _ = axes_and_kind(scatter)
    return {
        axis: position_of(a, at[: a.ndim], ix.ALWAYS, scatter.shape[axis], number_of)
        for axis, a in zip(axes, scatter.src[2:], strict=True)
    }


def _read(
    array: Node,
    indices: tuple[ix.Index, ...],
    valid: ix.Valid | None,
    number_of: NumberOf,
    size: int,
) -> Position:
    number = number_of(Reading(array, indices, valid))
    return Position(ix.value_index(number, size, ix.ranges_of_all(indices)), False)


def _count(
    node: Node,
    indices: tuple[ix.Index, ...],
    valid: ix.Valid | None,
    number_of: NumberOf,
    depth: int,
) -> Position | None:
    """Counts as far as it can be followed; what does not count is read as a whole.

    None where what is read may be negative.
    """
    op = node.op
    found: Position | None = None
    if op is const_p:
        return Position(ix.constant_index(int(constant_value(node))), False)
    if op is dim_p and integer_bounds.fits(node, bounds_of_size(node.arg)):
        return Position(ix.constant_index(node.arg), False)
    if op is iota_p:
        axis: int = node.arg
        if integer_bounds.fits(node, (0, upper_bound(node.shape[axis]) - 1)):
            found = Position(indices[axis], bool(indices[axis].pairs))
    elif depth and op in bc.SELECTIONS:
        inner, _ = ix.source_index(node, indices, valid)
        return _count(node.src[0], inner, valid, number_of, depth - 1)
    elif depth and op is p.cast_p and dtypes.is_integer(node.src[0].dtype):
        if integer_bounds.fits(node, integer_bounds.values_of(node.src[0])):
            found = _count(node.src[0], indices, valid, number_of, depth - 1)
    elif (
        depth
        and op in (p.add, p.sub, p.mul)
        and integer_bounds.fits(
            node, integer_bounds.exact_values(node, integer_bounds.DEPTH)
        )
    ):
        x, y = (_count(s, indices, valid, number_of, depth - 1) for s in node.src)
        if x is not None and y is not None:
            where = ix.combine(op, x.where, y.where)
            found = None if where is None else Position(where, x.counts or y.counts)
    if found is not None and found.counts:
        return found
    least, most = integer_bounds.values_of(node)
    return None if least < 0 else _read(node, indices, valid, number_of, most + 1)


# What never meets.


def never_meeting(positions: Iterable[ix.Index], ranges: frozenset[Node]) -> set[Node]:
    """Those ranges along which no two iterations have the same positions.

    Iterations that differ in one of them differ in a position, whatever the others are.
    """
    disjoint: set[Node] = set()
    waiting = list(positions)
    while True:
        found = next((part for part in waiting if _is_injective(part, disjoint)), None)
        if found is None:
            return disjoint & ranges
        waiting.remove(found)
        disjoint |= ix.ranges_of(found)


def _is_injective(index: ix.Index, fixed: set[Node]) -> bool:
    """Does it tell apart all values of its ranges, where those of `fixed` stand?"""
    moving = ix.ranges_of(index) - fixed
    direct = [(a, c) for a, c in index.pairs if a in moving]
    rest = index.only(lambda a: a not in moving)
    if not moving or ix.ranges_of(rest) & moving:
        return False
    return ix.is_injective((c, ix.size_of(a)) for a, c in direct)
