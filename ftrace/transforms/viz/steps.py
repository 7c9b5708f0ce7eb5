"""What is walked: the graph as traced, for each device, after each pass, in kernels.

A step has the numbers of the nodes that it ends in, and which step it came from; the
page finds out what came and went. A step of lowering has the rules that fired as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import field
from typing import Any

from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.lowering import Firing, passes_of
from ftrace.trace.graph import Graph, Node
from ftrace.transforms.partition.explain import typed
from ftrace.transforms.viz.explain import Explanation, Part
from ftrace.transforms.viz.tables import Tables

#: Rules that are listed one by one, of those that fired in a pass, the first ones.
_LISTED = 4000


@dataclass(frozen=True, eq=False)
class Walked:
    """A step.

    Attributes:
      name, about: for people.
      graph: after it.
      before: the number of the step whose graph it changed; -1 where it shows another.
      fired, rebuilt: the rules that fired, and what was made anew of other operands.
      types: of values, where they say more than the nodes do.
    """

    name: str
    about: str
    graph: Graph
    before: int = -1
    fired: Sequence[Firing] = ()
    rebuilt: Mapping[Node, Node] = field(default_factory=dict[Node, Node])
    types: Mapping[Node, str] = field(default_factory=dict[Node, str])

    @property
    def ends(self) -> tuple[Node, ...]:
        return (*self.graph.outputs, *self.graph.effects)

    @property
    def roots(self) -> Iterator[Node]:
        """All nodes that it refers to."""
        yield from (*self.graph.inputs, *self.ends)
        for firing in self.fired[:_LISTED]:
            yield from (firing.node, firing.made)

    def _with_ends(
        self, rows: Sequence[Firing], before: Graph
    ) -> Iterator[tuple[str, Node, Node, Node, Node]]:
        """Rows with what a node was before the pass, and what was made is after it."""
        became = {f.node: f.made for f in self.fired} | dict(self.rebuilt)
        was: dict[Node, Node] = {}
        for old, new in became.items():
            was.setdefault(new, old)
        first, last = set(before.nodes), set(self.graph.nodes)
        for rule, node, made in rows:
            yield (
                rule,
                node,
                made,
                _follow(was, node, first),
                _follow(became, made, last),
            )

    def _renewed(self, before: Graph) -> Iterator[tuple[Node, Node]]:
        """Nodes that are new for their operands alone, behind what they were."""
        was = {new: old for old, new in self.rebuilt.items()}
        first = set(before.nodes)
        for node in self.graph.nodes:
            old = node if node in first else _follow(was, node, first)
            if old is not node:
                yield old, node

    def as_data(self, tables: Tables, graph_before: Graph) -> dict[str, Any]:
        types = {
            tables.find(node): tables.text(text)
            for node, text in self.types.items()
            if tables.find(node) >= 0
        }
        rows = self.fired[:_LISTED]
        return {
            "name": self.name,
            "about": self.about,
            "before": self.before,
            "inputs": tables.numbers(self.graph.inputs),
            "outputs": tables.numbers(self.ends),
            "fired": [
                [tables.text(rule), *tables.numbers(nodes)]
                for rule, *nodes in self._with_ends(rows, graph_before)
            ],
            "renewed": [tables.numbers(pair) for pair in self._renewed(graph_before)],
            "unlisted": len(self.fired) - len(rows),
            "types": types,
        }


def _follow(table: Mapping[Node, Node], node: Node, ends: Set[Node]) -> Node:
    """What a node leads to that is one of the ends; itself where nothing is."""
    seen, now = set[Node](), node
    while now not in ends:
        seen.add(now)
        found = table.get(now)
        if found is None or found in seen:
            return node
        now = found
    return now


@dataclass(frozen=True, eq=False)
class Walk:
    """All steps of a program.

    Attributes:
      steps: in their order.
      names: of inputs, as the user calls them.
      bodies: of the steps of the program that are loops and branches.
    """

    steps: list[Walked]
    names: dict[Node, str]
    bodies: Sequence[Graph] = ()

    def as_data(self, tables: Tables) -> list[dict[str, Any]]:
        befores = [self.steps[step.before].graph for step in self.steps]
        rows = zip(self.steps, befores, strict=True)
        return [step.as_data(tables, before) for step, before in rows]

    @property
    def roots(self) -> list[Node]:
        """What all steps refer to."""
        own = [node for step in self.steps for node in step.roots]
        return own + [n for g in self.bodies for n in (*g.inputs, *g.outputs)]


def walk(explained: Explanation) -> Walk:
    """The steps of a program."""
    divided, closed = explained.divided, explained.closed
    about = "what the function does, operation by operation"
    graph = closed if divided is None else divided.graph
    steps = [Walked("traced", about, graph)]
    names = _named(graph.inputs, explained.leaves)
    names |= _named(closed.inputs, explained.leaves)
    names |= _named(explained.graph.inputs, explained.leaves)
    if divided is not None:
        mesh, whole, made, specs = divided
        types = {node: typed(node, spec) for node, spec in specs.items()}
        sizes = ", ".join(f"{name} {n}" for name, n in mesh.shape_tuple)
        about = f"how each value is divided over the mesh ({sizes})"
        steps.append(Walked("sharded", about, whole, types=types))
        about = "what each device does with its parts, and the collectives"
        steps.append(Walked("per device", about, made.graph))
        places = made.graph.inputs[-len(mesh.axis_names) :]
        names |= {
            n: f"place along {a}" for n, a in zip(places, mesh.axis_names, strict=True)
        }
        about = "the program of one device: collectives are steps of it"
        steps.append(Walked("exchanges", about, closed))
    before = len(steps) - 1
    for stage, graph, fired, rebuilt in passes_of(closed, explained.device.limits):
        steps.append(Walked(stage.name, stage.about, graph, before, fired, rebuilt))
        before = len(steps) - 1
    about = "what is computed in one pass over memory"
    steps.append(Walked("kernels", about, explained.built.graph, before))
    bodies = [graph for part in parts_of(explained.kernels) for graph in part.bodies]
    return Walk(steps, names, bodies)


def parts_of(parts: Sequence[Part]) -> Iterator[Part]:
    """The steps of a program, and behind each those of its bodies."""
    for part in parts:
        yield part
        yield from parts_of(part.inner)


def _named(inputs: Sequence[Node], leaves: Sequence[str]) -> dict[Node, str]:
    """The inputs by the names of the arguments; the others were captured."""
    captured = [f"captured {i}" for i in range(len(inputs) - len(leaves))]
    return dict(zip(inputs, [*leaves, *captured], strict=False))
