"""Batching: a walk over a graph that gives every node one more leading axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ftrace import dtypes
from ftrace.ground.spans import in_span
from ftrace.trace import graph as g
from ftrace.trace.primitives.broadcast import broadcast_leading, reduce_sum
from ftrace.trace.primitives.elementwise import add, mul
from ftrace.trace.primitives.exchange import communicate, lanes, process_rank, vary
from ftrace.trace.primitives.movement import move_axis, reshape, shrink_axis
from ftrace.trace.primitives.primitive import compound_of, item_p, items, primitive_of
from ftrace.trace.primitives.sources import const, iota
from ftrace.trace.python_limits import without_collection

#: Operations whose batch looks to it itself: in a body what lanes share meets what
#: they have again, and would differ twice.
_BY_BATCH = ("collective", "control", "call")


def of_each(sources: g.Nodes, flags: g.Flags) -> g.Nodes:
    """The sources of an operation, where processes differ once some of them do."""
    ranks = lanes.ranks
    if ranks is None or all(flags):
        return sources
    return tuple([
        s if has or not dtypes.is_inexact(s.dtype) else vary(s, ranks)
        for s, has in zip(sources, flags, strict=True)
    ])  # fmt: skip


def sum_lanes(x: g.Node) -> g.Node:
    """The sum over a leading axis of lanes, those of other processes among them."""
    total = reshape(reduce_sum(x, (0,)), x.shape[1:])
    ranks = lanes.ranks
    return total if ranks is None else communicate(total, "sum", ranks)


@in_span("transform", "vmap")
@without_collection
def batch_nodes(
    outputs: Sequence[g.Node], leaves: Mapping[g.Node, g.Node], size: int
) -> list[tuple[g.Node, bool]]:
    """The outputs for batched leaves.

    Args:
      outputs: nodes in terms of the keys of `leaves` and anything else.
      leaves: for each leaf the node that has its elements along a leading axis.
      size: of that axis.

    Returns:
      For each output (node, batched): batched ones have the leading axis too.
    """
    known: dict[g.Node, tuple[g.Node, bool]] = {n: (b, True) for n, b in leaves.items()}
    several: dict[g.Node, tuple[list[g.Node], list[bool]]] = {}  # of compounds
    with g.inherited_origin() as take:
        for node in g.dependents(outputs, leaves):
            if node in known:
                continue
            take(node)
            if node.op is item_p:
                number: int = node.arg
                results, has_axis = several[node.src[0]]
                known[node] = results[number], has_axis[number]
                continue
            pairs = [known.get(s, (s, False)) for s in node.src]
            sources = tuple(source for source, _ in pairs)
            flags = tuple(batched for _, batched in pairs)
            compound = compound_of(node)
            if not any(flags):  # what it depends on has come to be the same for all
                again = g.rebuild(node, sources)
                known[node] = again, False
                if compound is not None:
                    results = items(again)
                    several[node] = results, [False] * len(results)
                continue
            if node.op.family not in _BY_BATCH:
                sources = of_each(sources, flags)
            if compound is not None:
                several[node] = compound.batch(node, sources, flags, size)
            else:
                known[node] = primitive_of(node).batch(node, sources, flags), True
    return [known.get(node, (node, False)) for node in outputs]


def place_axis(node: g.Node, batched: bool, axis: int, size: int) -> g.Node:
    """The output with its batch axis moved to `axis`; broadcast if it has none."""
    if not batched:
        if lanes.ranks is not None:
            node = vary(node, lanes.ranks)
        node = broadcast_leading(node, (size, *node.shape))
    return move_axis(node, 0, axis)


def lane_numbers(size: int) -> g.Node:
    """The numbers of the lanes; in several processes those of this one."""
    numbers, ranks = iota(dtypes.int32, (size,), 0), lanes.ranks
    if ranks is None:
        return numbers
    first = mul(process_rank(ranks), const(size, dtypes.int32))
    return add(broadcast_leading(first, (size,)), numbers)


def first_of(node: g.Node) -> g.Node:
    """The first along the leading axis."""
    return reshape(shrink_axis(node, 0, 0, 1), node.shape[1:])
