"""Between which integers values are: elements of a graph's arrays, and of a kernel's.

arange(8) * 2 + 1   1 … 15
x % n               0 … n - 1, where x is not negative and n not zero
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ftrace import dtypes
from ftrace.lower.kernel.ir import axis_of, range_p
from ftrace.trace.graph import Node, Op, constant_value, toposort
from ftrace.trace.primitives import broadcast as bc, elementwise as p
from ftrace.trace.primitives.indexing import gather_p
from ftrace.trace.primitives.sources import const_p, dim_p, iota_p
from ftrace.trace.symbolic import bounds as bounds_of_size, upper_bound

#: How many operations of an index array are looked through. With 1 the gradient of x[i]
#: asks of each update whether it is in bounds; with 24 no row differs.
DEPTH = 6
#: Numbers beyond it are not followed.
_LIMIT = 1 << 62

#: The least and the greatest value.
Interval = tuple[int, int]

# Elements of arrays.


def fits(node: Node, values: Interval | None) -> bool:
    """Can the dtype of a node hold what it is computed to be?"""
    low, high = dtypes.limits(node.dtype)
    return values is not None and low <= values[0] and values[1] <= high


def values_of(node: Node, depth: int = DEPTH) -> Interval:
    """Between which integers the elements of an integer array are."""
    found = exact_values(node, depth) if depth else None
    if found is not None and fits(node, found):
        return found
    low, high = dtypes.limits(node.dtype)
    return int(low), int(high)


def exact_values(node: Node, depth: int) -> Interval | None:
    """The same, if its dtype had no limits; None where nothing is known."""
    op = node.op
    if op is iota_p:
        axis: int = node.arg
        return 0, max(upper_bound(node.shape[axis]) - 1, 0)
    if op is p.cast_p and not _is_whole(node.src[0]):
        return None
    if op in bc.SELECTIONS or op is gather_p:
        return values_of(node.src[0], depth - 1)
    return _combine(node, lambda s: values_of(s, depth - 1))


def _is_whole(node: Node) -> bool:
    return dtypes.kind(node.dtype) in "biu"


# Expressions of kernels.


def intervals(roots: Iterable[Node]) -> dict[Node, Interval | None]:
    """The interval of each expression below the roots."""
    known: dict[Node, Interval | None] = {}
    for node in toposort(roots):
        known[node] = interval_of(node, known)
    return known


def interval_of(node: Node, known: Mapping[Node, Interval | None]) -> Interval | None:
    """Least and greatest value of an integer; None if it may be anything."""
    if node.shape != () or dtypes.kind(node.dtype) not in "biu":
        return None
    if node.op is range_p:
        return 0, max(upper_bound(axis_of(node).size) - 1, 0)
    if node.src and node.dtype.itemsize < 8:
        low, high = dtypes.limits(node.dtype)
        return int(low), int(high)
    found = _combine(node, known.__getitem__)
    if found is None or found[0] < -_LIMIT or found[1] > _LIMIT:
        return None
    return found


# Operations.


def _combine(node: Node, of: Callable[[Node], Interval | None]) -> Interval | None:
    """Between which integers an operation is, by those of its operands."""
    op = node.op
    if op is const_p:
        value = int(constant_value(node))
        return value, value
    if op is dim_p:
        return bounds_of_size(node.arg)
    if op in _SAME or op is p.neg:
        x = of(node.src[0])
        return (-x[1], -x[0]) if x is not None and op is p.neg else x
    rule = _RULES.get(op)
    if rule is None:
        return None
    x, y = (of(s) for s in node.src[-2:])
    return None if x is None or y is None else rule(x, y)


def _hull(*parts: Interval) -> Interval:
    lows, highs = zip(*parts, strict=True)
    return min(lows), max(highs)


def _quotient(x: Interval, y: Interval) -> Interval | None:
    if y[0] <= 0:
        return None
    reach = max(-x[0], x[1])
    return (x[0] // y[1], x[1] // y[0]) if x[0] >= 0 else (-reach, reach)


def _remainder(x: Interval, y: Interval) -> Interval | None:
    if y[0] <= 0:
        return None
    if x[0] >= 0:
        return x if x[1] < y[0] else (0, min(x[1], y[1] - 1))
    reach = min(max(-x[0], x[1]), y[1] - 1)
    return -reach, reach


#: What gives its operand.
_SAME = (p.cast_p, p.copy, p.stop_gradient)
_RULES: dict[Op, Callable[[Interval, Interval], Interval | None]] = {
    p.add: lambda x, y: (x[0] + y[0], x[1] + y[1]),
    p.sub: lambda x, y: (x[0] - y[1], x[1] - y[0]),
    p.mul: lambda x, y: _hull(*((a * b, a * b) for a in x for b in y)),
    p.maximum: lambda x, y: (max(x[0], y[0]), max(x[1], y[1])),
    p.minimum: lambda x, y: (min(x[0], y[0]), min(x[1], y[1])),
    p.select: _hull,
    p.div: _quotient,
    p.rem: _remainder,
}
