"""A graph as its author wrote it: what one call of a function made is one line.

    k:f32[96,32] = matmul c a        # net.py:3 (layer)
        d:f32[96,1,64] = reshape[(96, 1, 64)] c
        …                            unfolded: the operations that it is made of

Nodes that one public function made have one object as their origin, which has its name.
The operations of a derivative have those of the operations that they are derived from,
and backwards their own: `softmax`, and `softmax_backward`.

A region must be something that can be computed in one piece. So nodes are of one region
if they were made by one call, and so many other calls stand before them:

    depth(node) = max over its sources s of depth(s), plus 1 where s is of another call

Where all that use a node are in one later region of its call, it is there, too. A view,
or a table of numbers, that two calls have made is one node: it is in the regions of
both.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping, Sequence
from html import escape
from typing import Any

from ftrace.errors import Origin
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.ground.text_tables import Shown
from ftrace.trace import graph as g
from ftrace.trace.primitives.sources import const_p, is_variable


@dataclass(frozen=True, eq=False, repr=False)
class Region(Shown):
    """The nodes of a graph that one call of a function made.

    Attributes:
      name: of the function, or of the operation where there is one alone.
      nodes: sources first.
      inputs: what it takes from around it.
      outputs: which of its nodes are used around it.
      origin: the user's line.
      names: of all nodes of the graph, in texts.
    """

    name: str
    nodes: tuple[g.Node, ...]
    inputs: tuple[g.Node, ...]
    outputs: tuple[g.Node, ...]
    origin: Origin | None
    names: Mapping[g.Node, str]

    @property
    def folded(self) -> str:
        """In one line."""
        if len(self.nodes) == 1:
            return g.line_of(self.nodes[0], self.names)
        results = ", ".join(f"{self.names[n]}:{n.aval!r}" for n in self.outputs)
        operands = " ".join(self.names[n] for n in self.inputs)
        return g.with_line(f"{results} = {self.name} {operands}", self.origin)

    def __str__(self) -> str:
        inner = [] if len(self.nodes) == 1 else [g.line_of(n, self.names) for n in self]
        return "\n    ".join([self.folded, *inner])

    def __iter__(self) -> Any:
        return iter(self.nodes)


def regions_of(graph: g.Graph) -> list[Region]:
    """The regions of a graph, in an order in which they can be computed."""
    names = g.names_of(graph)
    ends = graph.ends
    nodes = [n for n in g.toposort(ends) if names[n] and not is_variable(n)]
    home = _homes(nodes)
    shared = _find_shared(nodes, home, {*ends})
    users: dict[g.Node, set[Any]] = {node: {None} for node in ends}
    members: dict[Any, list[g.Node]] = {}
    for node in nodes:
        for key in shared.get(node, (home[node],)):
            members.setdefault(key, []).append(node)
            for source in node.src:
                users.setdefault(source, set()).add(key)
    found: list[Region] = []
    for key in _in_order(members):
        inside = members[key]
        used = [n for n in inside if n not in shared and users.get(n, set()) - {key}]
        taken = [n for n in _operands(inside) if names[n]]
        last = inside[-1]
        called = last.origin.called if last.origin is not None else ""
        name = called.strip("_") or last.op.name
        parts = tuple(inside), tuple(taken), tuple(used)
        found.append(Region(name, *parts, last.origin, names))
    return found


def _find_shared(
    nodes: Sequence[g.Node], home: Mapping[g.Node, Any], ends: Collection[g.Node]
) -> dict[g.Node, set[Any]]:
    """Nodes that two calls have made, and the regions that each of them is in.

    These are views, and what is made of numbers alone: they were interned, and the call
    that made them last may not even be near.
    """
    free, light = set[g.Node](), set[g.Node]()
    for node in nodes:
        if not any(is_variable(s) or (s in home and s not in free) for s in node.src):
            free.add(node)
        own = [s for s in node.src if home.get(s) == home[node]]
        moves = node in free or node.op.family == "movement"
        if moves and light.issuperset(own) and node not in ends:
            light.add(node)
    firm = {home[n][0] for n in nodes if n not in light}
    used: dict[g.Node, set[Any]] = {}
    found: dict[g.Node, set[Any]] = {}
    for node in reversed(nodes):
        around = used.get(node, set())
        if node in light and home[node][0] in firm and around - {home[node]}:
            found[node] = around
        for source in node.src:
            used.setdefault(source, set()).update(found.get(node, {home[node]}))
    return found


def _operands(nodes: Sequence[g.Node]) -> list[g.Node]:
    """What nodes take from around them, as their last one reads it from left to right.

    That is the order of the call, whichever operand was there first.
    """
    inside, found, seen = {*nodes}, list[g.Node](), set[g.Node]()
    pending = list(nodes)
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        if node in inside:
            pending += reversed(node.src)
        else:
            found.append(node)
    return found


def _homes(nodes: Sequence[g.Node]) -> dict[g.Node, Any]:
    """The region of each node: the call that made it, and its depth."""
    depth: dict[g.Node, int] = {}
    home: dict[g.Node, Any] = {}
    users: dict[g.Node, list[g.Node]] = {}
    for node in nodes:
        call = _call_of(node)
        inside = [s for s in node.src if s in depth and s.op is not const_p]
        before = [(depth[s], home[s][0] != call) for s in inside]
        depth[node] = max([d + other for d, other in before], default=0)
        home[node] = call, depth[node]
        for source in node.src:
            users.setdefault(source, []).append(node)
    for node in reversed(nodes):
        around = {home[n] for n in users.get(node, ())}
        if len(around) == 1 and (key := around.pop())[0] == home[node][0]:
            home[node] = key
    return home


def _call_of(node: g.Node) -> int:
    """Which call made a node; numbers are nobody's, and nodes that no call made."""
    origin = node.origin
    if origin is None or not origin.called or node.op is const_p:
        return -node.serial - 1
    return id(origin.call)


def _in_order(members: Mapping[Any, Sequence[g.Node]]) -> list[Any]:
    """The regions, sources first, else as they stand in the graph."""
    place = {key: i for i, key in enumerate(members)}
    makers = {node: key for key, nodes in members.items() for node in nodes}
    feeds: dict[Any, set[Any]] = {key: set() for key in members}
    waiting = dict.fromkeys(members, 0)
    for key, nodes in members.items():
        taken = {s for n in nodes for s in n.src} - {*nodes}
        before = {makers[s] for s in taken if s in makers}
        waiting[key] = len(before)
        for other in before:
            feeds[other].add(key)
    ready = [place[key] for key, count in waiting.items() if not count]
    keys, found = list(members), list[Any]()
    heapq.heapify(ready)
    while ready:
        found.append(keys[heapq.heappop(ready)])
        for key in feeds[found[-1]]:
            waiting[key] -= 1
            if not waiting[key]:
                heapq.heappush(ready, place[key])
    assert len(found) == len(members), "regions need each other"
    return found


def html_of(graph: g.Graph) -> str:
    """The graph for notebooks: a line for each region, which unfolds."""
    heading, *_, result = str(graph).splitlines()
    unfolded = "".join(
        f"<details><summary><code>{escape(region.folded)}</code></summary>"
        f"<pre>{escape(str(region))}</pre></details>"
        for region in regions_of(graph)
    )
    return f"<code>{escape(heading)}</code>{unfolded}<code>{escape(result)}</code>"


def outline(graph: g.Graph) -> str:
    """The graph as text, a line for each region."""
    heading, *_, result = str(graph).splitlines()
    lines = [f"  {region.folded}" for region in regions_of(graph)]
    return "\n".join([heading, *lines, result])
