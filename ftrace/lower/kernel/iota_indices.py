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
from typing import Any

from ftrace import dtypes
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.lower.kernel import affine_index as ix
from ftrace.trace.graph import Node, constant_value
from ftrace.trace.primitives import elementwise as ops
from ftrace.trace.primitives.broadcast import expand_p
from ftrace.trace.primitives.indexing import gather_p
from ftrace.trace.primitives.movement import permute_p, reshape_p, shrink_p, stride_p
from ftrace.trace.primitives.sources import const_p, dim_p, iota_p
from ftrace.trace.symbolic.bounds import sample, surely_less, upper_bound
from ftrace.trace.symbolic.dim import bounds as bounds_of_size

#: How many operations of an index array are looked through.
_DEPTH = 6
#: Movements of which every element is one of the operand.
_MOVES = (expand_p, permute_p, reshape_p, shrink_p, stride_p)

Limits = tuple[int, int]


class Reading(NamedTuple):
    """The value of an integer array at an index, which is part of another index."""

    array: Node
    indices: tuple[ix.Index, ...]
    valid: ix.Valid | None


#: Gives the number of a reading.
NumberOf = Callable[[Reading], int]


class Position(NamedTuple):
    """An element of an index array: `ranges` + the sum of factor · reading.

    Attributes:
      ranges: the part that is known; without terms the array is just read.
      readings: what is read, with its factors.
    """

    ranges: ix.Index
    readings: tuple[tuple[Reading, int], ...]

    def as_index(self, number_of: NumberOf, size: int) -> ix.Index:
        """As an index along an axis of `size`.

        Of an array that is just read it is taken for granted that it is in bounds.
        """
        total = self.ranges
        for reading, factor in self.readings:
            high = values_of(reading.array)[1] + 1 if self.ranges.terms else size
            ranges = ix.ranges_of_all(reading.indices)
            total += ix.value_index(number_of(reading), high, ranges) * factor
        return total


def position_of(
    array: Node, indices: tuple[ix.Index, ...], valid: ix.Valid | None
) -> Position:
    """What an index array holds at an index."""
    found = _counted(array, indices, valid, _DEPTH)
    low = min((values_of(r.array)[0] for r, _ in found.readings), default=0)
    if found.ranges.terms and low >= 0:
        return found
    return _read(array, indices, valid)


def targets_of(scatter: Node, at: tuple[ix.Index, ...]) -> list[Position]:
    """Along each indexed axis where the update at an index of the updates goes."""
    return [position_of(a, at[: a.ndim], ix.ALWAYS) for a in scatter.src[2:]]


def _read(
    array: Node, indices: tuple[ix.Index, ...], valid: ix.Valid | None
) -> Position:
    return Position(ix.ZERO, ((Reading(array, indices, valid), 1),))


def _counted(
    node: Node, indices: tuple[ix.Index, ...], valid: ix.Valid | None, depth: int
) -> Position:
    """Counts as far as it can be followed; what does not count is read as a whole."""
    op = node.op
    found: Position | None = None
    if op is const_p:
        return Position(ix.constant_index(int(constant_value(node))), ())
    if op is dim_p and _fits(node, bounds_of_size(node.arg)):
        return Position(ix.constant_index(node.arg), ())
    if op is iota_p:
        axis: int = node.arg
        if _fits(node, (0, upper_bound(node.shape[axis]) - 1)):
            found = Position(indices[axis], ())
    elif depth and op in _MOVES:
        inner, _ = ix.source_index(node, indices, valid)
        return _counted(node.src[0], inner, valid, depth - 1)
    elif depth and op is ops.cast_p and dtypes.is_integer(node.src[0].dtype):
        if _fits(node, values_of(node.src[0])):
            found = _counted(node.src[0], indices, valid, depth - 1)
    elif (
        depth
        and op in (ops.add, ops.sub, ops.mul)
        and _fits(node, _exact(node, _DEPTH))
    ):
        x, y = (_counted(s, indices, valid, depth - 1) for s in node.src)
        found = _combined(op, x, y)
    if found is None or not found.ranges.terms:
        return _read(node, indices, valid)
    return found


def _combined(op: Any, x: Position, y: Position) -> Position | None:
    if op is ops.mul:
        if x.readings or x.ranges.terms:
            x, y = y, x
        if x.readings or x.ranges.terms:
            return None
        return _scaled(y, x.ranges.constant)
    y = _scaled(y, -1) if op is ops.sub else y
    return Position(x.ranges + y.ranges, x.readings + y.readings)


def _scaled(x: Position, factor: int) -> Position:
    return Position(x.ranges * factor, tuple((r, f * factor) for r, f in x.readings))


def _fits(node: Node, values: Limits | None) -> bool:
    """Can the dtype of a node hold what it is computed to be?"""
    low, high = dtypes.limits(node.dtype)
    return values is not None and low <= values[0] and values[1] <= high


# The least and the greatest value.


def values_of(node: Node, depth: int = _DEPTH) -> Limits:
    """Between which integers the elements of an integer array are."""
    found = _exact(node, depth) if depth else None
    if found is not None and _fits(node, found):
        return found
    low, high = dtypes.limits(node.dtype)
    return int(low), int(high)


def _exact(node: Node, depth: int) -> Limits | None:
    """The same, if its dtype had no limits; None where nothing is known."""
    op = node.op
    if op is iota_p:
        axis: int = node.arg
        return 0, max(upper_bound(node.shape[axis]) - 1, 0)
    if op is ops.cast_p and not _is_whole(node.src[0]):
        return None
    if op in _MOVES or op is gather_p:
        return values_of(node.src[0], depth - 1)
    return combine_limits(node, lambda s: values_of(s, depth - 1))


def _is_whole(node: Node) -> bool:
    return dtypes.kind(node.dtype) in "biu"


def combine_limits(node: Node, of: Callable[[Node], Limits | None]) -> Limits | None:
    """Between which integers an operation is, by those of its operands."""
    name = node.op.name
    if node.op is const_p:
        value = int(constant_value(node))
        return value, value
    if node.op is dim_p:
        return bounds_of_size(node.arg)
    if name in ("cast", "copy", "stop_gradient", "neg"):
        x = of(node.src[0])
        return (-x[1], -x[0]) if x is not None and name == "neg" else x
    rule = _RULES.get(name)
    if rule is None:
        return None
    x, y = (of(s) for s in node.src[-2:])
    return None if x is None or y is None else rule(x, y)


def _hull(*parts: Limits) -> Limits:
    lows, highs = zip(*parts, strict=True)
    return min(lows), max(highs)


def _quotient(x: Limits, y: Limits) -> Limits | None:
    if y[0] <= 0:
        return None
    reach = max(-x[0], x[1])
    return (x[0] // y[1], x[1] // y[0]) if x[0] >= 0 else (-reach, reach)


def _remainder(x: Limits, y: Limits) -> Limits | None:
    if y[0] <= 0:
        return None
    if x[0] >= 0:
        return x if x[1] < y[0] else (0, min(x[1], y[1] - 1))
    reach = min(max(-x[0], x[1]), y[1] - 1)
    return -reach, reach


_RULES: dict[str, Callable[[Limits, Limits], Limits | None]] = {
    "add": lambda x, y: (x[0] + y[0], x[1] + y[1]),
    "sub": lambda x, y: (x[0] - y[1], x[1] - y[0]),
    "mul": lambda x, y: _hull(*((a * b, a * b) for a in x for b in y)),
    "max": lambda x, y: (max(x[0], y[0]), max(x[1], y[1])),
    "min": lambda x, y: (min(x[0], y[0]), min(x[1], y[1])),
    "select": _hull,
    "div": _quotient,
    "rem": _remainder,
}

# What never meets.


def never_meeting(
    positions: Iterable[ix.Index], ranges: frozenset[ix.Atom]
) -> set[ix.Atom]:
    """Those ranges along which no two iterations have the same positions.

    Iterations that differ in one of them differ in a position, whatever the others are.
    """
    apart: set[ix.Atom] = set()
    waiting = list(positions)
    while True:
        found = next((p for p in waiting if _is_injective(p, apart)), None)
        if found is None:
            return apart & ranges
        waiting.remove(found)
        apart |= ix.ranges_of(found)


def _is_injective(index: ix.Index, fixed: set[ix.Atom]) -> bool:
    """Does it tell apart all values of its ranges, where those of `fixed` stand still?

    It does if each coefficient is larger than all that the smaller ones can add up to.
    """
    moving = ix.ranges_of(index) - fixed
    direct = {a: c for a, c in index.terms if a in moving}
    rest = [a for a, _ in index.terms if a not in moving and a.kind != "range"]
    hidden = ix.ranges_of_all(tuple([ix.Index(((a, 1),), 0) for a in rest]))
    if not moving or hidden & moving:
        return False
    reach = 0
    for atom, factor in sorted(direct.items(), key=lambda term: abs(sample(term[1]))):
        step = factor if surely_less(0, factor) else -factor
        if not surely_less(reach, step):
            return False
        reach += step * (atom.size - 1)
    return True
