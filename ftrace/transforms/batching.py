"""Batching: a walk over a graph that gives every node one more leading axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ftrace.trace.graph import Node, dependents, inherited_origin
from ftrace.trace.primitives.broadcast import broadcast_leading
from ftrace.trace.primitives.movement import move_axis
from ftrace.trace.primitives.record import primitive_of


def batch_nodes(
    outputs: Sequence[Node], leaves: Mapping[Node, Node]
) -> list[tuple[Node, bool]]:
    """The outputs for batched leaves.

    Args:
      outputs: nodes in terms of the keys of `leaves` and anything else.
      leaves: for each leaf the node that has its elements along a leading axis.

    Returns:
      For each output (node, batched): batched ones have the leading axis too.
    """
    known: dict[Node, Node] = dict(leaves)
    with inherited_origin() as take:
        for node in dependents(outputs, leaves):
            if node in known:
                continue
            flags = tuple(s in known for s in node.src)
            sources = tuple(known.get(s, s) for s in node.src)
            take(node)
            known[node] = primitive_of(node).batch(node, sources, flags)
    return [(known.get(node, node), node in known) for node in outputs]


def place_axis(node: Node, batched: bool, axis: int, size: int) -> Node:
    """The output with its batch axis moved to `axis`; broadcast if it has none."""
    if not batched:
        node = broadcast_leading(node, (size, *node.shape))
    return move_axis(node, 0, axis)
