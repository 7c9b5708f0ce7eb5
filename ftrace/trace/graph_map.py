"""Walks over a graph in which some nodes become others: what many passes are; batching.

add(loop(x)[0], y)   ->   add(made, y),   where change(loop, x) gives (made, …)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ftrace.trace.graph import (
    Node,
    dependents,
    has_any,
    inherited_origin,
    nodes_of,
    rebuild,
    toposort,
)
from ftrace.trace.primitives.broadcast import broadcast_leading
from ftrace.trace.primitives.movement import move_axis
from ftrace.trace.primitives.primitive import compound_of, item_p, items, primitive_of
from ftrace.trace.python_limits import without_collection

#: (a node, its new sources) -> what stands in its place; of a node with several results
#: also these, one by one. None: the same operation over its new sources.
Change = Callable[[Node, tuple[Node, ...]], Node | Sequence[Node] | None]
#: (a node over its new sources, the numbers of its results that are read) -> likewise
Rule = Callable[[Node, Collection[int]], Node | Sequence[Node] | None]


@without_collection
def exchange(outputs: Sequence[Node], change: Change) -> list[Node]:
    """The outputs over what `change` makes of each node, sources first."""
    done: dict[Node, Node] = {}
    several: dict[Node, Sequence[Node]] = {}
    with inherited_origin() as take:
        for node in toposort(outputs):
            take(node)
            if node.op is item_p and node.src[0] in several:
                number: int = node.arg
                done[node] = several[node.src[0]][number]
                continue
            src = tuple([done[s] for s in node.src])
            found = change(node, src)
            if found is None:
                done[node] = rebuild(node, src)
            elif isinstance(found, Node):
                done[node] = found
            else:
                several[node] = found
                done[node] = node  # only its items are asked for
    return [done[node] for node in outputs]


def convert(outputs: Sequence[Node], table: Mapping[Any, Rule]) -> list[Node]:
    """The outputs over what the rules of a table make of its operations."""
    if not has_any(outputs, table):
        return list(outputs)
    read: dict[Node, set[int]] = {}
    for node in nodes_of(outputs):
        if node.op is item_p and node.src[0].op in table:
            read.setdefault(node.src[0], set()).add(node.arg)

    def change(node: Node, src: tuple[Node, ...]) -> Node | Sequence[Node] | None:
        rule = table.get(node.op)
        return None if rule is None else rule(rebuild(node, src), read.get(node, ()))

    return exchange(outputs, change)


# Batching: every node has one more leading axis.


@without_collection
def batch_nodes(
    outputs: Sequence[Node], leaves: Mapping[Node, Node], size: int
) -> list[tuple[Node, bool]]:
    """The outputs for batched leaves.

    Args:
      outputs: nodes in terms of the keys of `leaves` and anything else.
      leaves: for each leaf the node that has its elements along a leading axis.
      size: of that axis.

    Returns:
      For each output (node, batched): batched ones have the leading axis too.
    """
    known: dict[Node, tuple[Node, bool]] = {n: (b, True) for n, b in leaves.items()}
    several: dict[Node, tuple[list[Node], list[bool]]] = {}  # of compounds
    with inherited_origin() as take:
        for node in dependents(outputs, leaves):
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
                again = rebuild(node, sources)
                known[node] = again, False
                if compound is not None:
                    results = items(again)
                    several[node] = results, [False] * len(results)
            elif compound is not None:
                several[node] = compound.batch(node, sources, flags, size)
            else:
                known[node] = primitive_of(node).batch(node, sources, flags), True
    return [known.get(node, (node, False)) for node in outputs]


def place_axis(node: Node, batched: bool, axis: int, size: int) -> Node:
    """The output with its batch axis moved to `axis`; broadcast if it has none."""
    if not batched:
        node = broadcast_leading(node, (size, *node.shape))
    return move_axis(node, 0, axis)
