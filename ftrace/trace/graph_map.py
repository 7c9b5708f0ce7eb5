"""One walk over a graph in which some nodes become others: what many passes are.

add(loop(x)[0], y)   ->   add(made, y),   where change(loop, x) gives (made, …)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ftrace.trace.graph import (
    Node,
    has_any,
    inherited_origin,
    nodes_of,
    rebuild,
    toposort,
)
from ftrace.trace.primitives.primitive import item_p
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
