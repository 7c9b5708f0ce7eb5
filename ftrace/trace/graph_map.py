"""One walk over a graph in which some nodes become others: what many passes are.

add(loop(x)[0], y)   ->   add(made, y),   where change(loop, x) gives (made, …)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ftrace.trace import graph as g
from ftrace.trace.primitives.primitive import item_p
from ftrace.trace.python_limits import without_collection

#: (a node, its new sources) -> what stands in its place; of a node with several results
#: also these, one by one. None: the same operation over its new sources.
Change = Callable[[g.Node, tuple[g.Node, ...]], g.Node | Sequence[g.Node] | None]
#: (a node over its new sources, the numbers of its results that are read) -> likewise
Rule = Callable[[g.Node, Collection[int]], g.Node | Sequence[g.Node] | None]


@without_collection
def exchange(outputs: Sequence[g.Node], change: Change) -> list[g.Node]:
    """The outputs over what `change` makes of each node, sources first."""
    done: dict[g.Node, g.Node] = {}
    several: dict[g.Node, Sequence[g.Node]] = {}
    with g.inherited_origin() as take:
        for node in g.toposort(outputs):
            take(node)
            if node.op is item_p and node.src[0] in several:
                number: int = node.arg
                done[node] = several[node.src[0]][number]
                continue
            src = tuple([done[s] for s in node.src])
            found = change(node, src)
            if found is None:
                done[node] = g.rebuild(node, src)
            elif isinstance(found, g.Node):
                done[node] = found
            else:
                several[node] = found
                done[node] = node  # only its items are asked for
    return [done[node] for node in outputs]


def convert(outputs: Sequence[g.Node], table: Mapping[Any, Rule]) -> list[g.Node]:
    """The outputs over what the rules of a table make of its operations."""
    if not g.has_any(outputs, table):
        return list(outputs)
    read: dict[g.Node, set[int]] = {}
    for node in g.nodes_of(outputs):
        if node.op is item_p and node.src[0].op in table:
            read.setdefault(node.src[0], set()).add(node.arg)

    def change(
        node: g.Node, src: tuple[g.Node, ...]
    ) -> g.Node | Sequence[g.Node] | None:
        rule = table.get(node.op)
        return None if rule is None else rule(g.rebuild(node, src), read.get(node, ()))

    return exchange(outputs, change)
