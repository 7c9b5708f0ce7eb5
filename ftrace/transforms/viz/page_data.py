"""What a page tells, as data: its steps, its kernels, and what both refer to by number.

    op     src      type  line
    mul    0 1      f32[3]  12
    add    2 1      f32[3]  12      a column is a list; texts and lines are numbers

A graph is the numbers of its outputs: the page walks it by `src`, as `toposort` does.
A step of the walk (the graph as traced, for each device, after each pass, in kernels)
has the numbers of the nodes that it ends in, and which step it came from; the page
finds out what came and went. A step of lowering has the rules that fired as well.
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import field
from functools import partial
from types import CodeType
from typing import Any

from ftrace.errors import Origin
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.analysis import is_contraction
from ftrace.lower.build.build_kernel import BuiltKernel
from ftrace.lower.kernel import ir
from ftrace.lower.kernel.loop_tree import render_tree
from ftrace.lower.lowering import Firing, passes_of
from ftrace.lower.register_loops.register_loop import Recurrence
from ftrace.trace import graph as g
from ftrace.trace.graph import Graph, Node
from ftrace.trace.primitives.primitive import ELEMENTWISE
from ftrace.trace.primitives.reduction import COMBINES
from ftrace.trace.primitives.sources import is_variable
from ftrace.transforms.partition.collectives import Collective
from ftrace.transforms.viz.explain import Explanation, StepReport
from ftrace.transforms.viz.explain_sharding import format_type

#: Lines around those of a module, which has no end that would be worth showing.
_AROUND = 2


class SourceLines:
    """The lines so far, by number."""

    def __init__(self) -> None:
        self._origins: list[Origin] = []
        self._numbers: dict[tuple[str, int], int] = {}
        self._known: dict[tuple[int, int], int] = {}

    def number(self, origin: Origin | None) -> int:
        """The number of a line; -1 where it is not known."""
        if origin is None:
            return -1
        place = id(origin.code), origin.offset  # to find its line takes long
        found = self._known.get(place)
        if found is None:
            key = origin.file, origin.line
            found = self._numbers.setdefault(key, len(self._numbers))
            self._known[place] = found
            if found == len(self._origins):
                self._origins.append(origin)
        return found

    def find(self, origin: Origin | None) -> int:
        """The number of a line that has one; else -1."""
        known = origin is not None and (origin.file, origin.line)
        return self._numbers.get(known, -1) if known else -1

    def as_data(self) -> dict[str, Any]:
        """The lines as [file, line, function], and of each file the code around them.

        A block of code is the number of its first line, and its lines.
        """
        files = list(dict.fromkeys([origin.file for origin in self._origins]))
        return {
            "lines": [[files.index(o.file), o.line, o.function] for o in self._origins],
            "files": [
                {"name": os.path.basename(file), "path": file, "blocks": _blocks(own)}
                for file in files
                for own in [[o for o in self._origins if o.file == file]]
            ],
        }


def _blocks(origins: Iterable[Origin]) -> list[tuple[int, list[str]]]:
    """The functions of one file in which the lines are, those that meet as one."""
    (*origins,) = origins
    lines = [line.rstrip("\n") for line in linecache.getlines(origins[0].file)]
    if not lines:  # a file of another machine, or none
        return [(origin.line, [origin.text]) for origin in origins]
    found: list[tuple[int, int]] = []
    for first, last in sorted(_extent(origin, lines) for origin in origins):
        if found and first <= found[-1][1] + 1:
            first, last = found[-1][0], max(found.pop()[1], last)
        found.append((first, last))
    return [(first, lines[first - 1 : last]) for first, last in found]


def _extent(origin: Origin, lines: list[str]) -> tuple[int, int]:
    """The first and the last line of the function that a line is in."""
    line, count = origin.line, len(lines)
    if origin.function == "<module>":
        return max(line - _AROUND, 1), min(line + _AROUND, count)
    first, last = min(origin.code.co_firstlineno, line), max(_last(origin.code), line)
    while last < count and lines[last].lstrip()[:1] in (")", "]", "}"):
        last += 1
    return first, min(last, count)


def _last(code: CodeType) -> int:
    """The last line of a function, and of those that are written in it."""
    inner = [_last(c) for c in code.co_consts if isinstance(c, CodeType)]
    return max([n for _, _, n in code.co_lines() if n is not None] + inner, default=1)


#: Letters of an argument that are shown.
_LETTERS = 120


class Tables:
    """What the steps of a page refer to.

    Args:
      roots: all nodes that anything refers to, and what they need.
      names: of inputs, as the user calls them.
    """

    def __init__(self, roots: Sequence[g.Node], names: Mapping[g.Node, str]) -> None:
        self.lines = SourceLines()
        self._texts: dict[str, int] = {}
        self._numbers: dict[g.Node, int] = {}
        self._bodies: dict[int, list[g.Body]] = {}
        self._names = names
        self._add(roots)
        self._line: dict[g.Node, int] = {}
        self._calls: dict[g.Node, Origin] = {}
        for node in self._numbers:
            given = is_variable(node) or g.is_constant(node)
            origin = None if given else node.origin  # an input's is the call
            if origin is None:
                lines = [self._line.get(source, -1) for source in node.src]
                self._line[node] = max(lines, default=-1) if node.src else -1
                continue
            self._line[node] = self.lines.number(origin)
            if origin.called:
                self._calls[node] = origin.call

    def _add(self, roots: Sequence[g.Node]) -> None:
        """Gives numbers to nodes and to those in bodies, sources first."""
        pending = [roots]
        while pending:
            for node in g.toposort(pending.pop(), self._numbers):
                number = self._numbers[node] = len(self._numbers)
                if node.op.family in g.HOLDERS and (held := [*g.bodies_in(node.arg)]):
                    self._bodies[number] = held
                    pending += [(*body.inputs, *body.outputs) for body in held]

    def text(self, text: str) -> int:
        return self._texts.setdefault(text, len(self._texts))

    def numbers(self, nodes: Iterable[g.Node]) -> list[int]:
        return [self._numbers[node] for node in nodes]

    def find(self, node: g.Node) -> int:
        """The number of a node; -1 of one that is not there."""
        return self._numbers.get(node, -1)

    def line(self, node: g.Node) -> int:
        """The number of a node's line; -1 where it has none."""
        return self._line[node]

    def lines_of(self, nodes: Iterable[g.Node]) -> list[int]:
        """The lines of some nodes, each once."""
        found = dict.fromkeys([self._line[n] for n in nodes if n in self._line])
        return [line for line in found if line >= 0]

    def find_lines(self, origins: Iterable[Origin]) -> list[int]:
        """The numbers of lines of which there are nodes."""
        numbers = dict.fromkeys(map(self.lines.find, origins))
        return [number for number in numbers if number >= 0]

    def as_data(self) -> dict[str, Any]:
        """The columns; call it last, when all texts are known."""
        types = {node.aval: repr(node.aval) for node in self._numbers}
        origins = {id(origin): origin for origin in self._calls.values()}
        calls = {key: number for number, key in enumerate(origins)}
        nodes = {
            "op": [self.text(node.op.name) for node in self._numbers],
            "kind": [self.text(_kind(node)) for node in self._numbers],
            "arg": [self.text(self._argument(node)) for node in self._numbers],
            "type": [self.text(types[node.aval]) for node in self._numbers],
            "line": list(self._line.values()),
            "call": [calls.get(id(self._calls.get(n)), -1) for n in self._numbers],
            "src": [self.numbers(node.src) for node in self._numbers],
            "bodies": {
                number: [
                    [self.numbers(body.inputs), self.numbers(body.outputs)]
                    for body in bodies
                ]
                for number, bodies in self._bodies.items()
            },
        }
        named = [self.text(origin.called.strip("_")) for origin in origins.values()]
        lists = {"calls": named, "texts": list(self._texts)}
        return {"nodes": nodes, **lists, **self.lines.as_data()}

    def _argument(self, node: g.Node) -> str:
        if node in self._names:
            return self._names[node]
        if g.is_constant(node):
            return str(g.constant_value(node))
        if node.arg is None or self._numbers[node] in self._bodies:
            return ""
        text = node.op.render(node).removeprefix(node.op.name).strip("[]")
        return text if len(text) <= _LETTERS else text[:_LETTERS] + "…"


#: What operations of a family are shown as, where that is not its name.
_KINDS = {
    **dict.fromkeys(ELEMENTWISE, "elementwise"),
    **dict.fromkeys(("call", "loop"), "control"),
    **dict.fromkeys(("identity", "barrier", "item"), "movement"),
    "host": "library",
    "source": "input",
}


def _kind(node: g.Node) -> str:
    if is_contraction(node):
        return "product"
    if g.is_constant(node) or node.op.name in ("iota", "dim"):
        return "constant" if g.is_constant(node) else "indexing"
    if node.op.name == "exchange":
        return "collective"
    return _KINDS.get(node.op.family, node.op.family)


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

    def _renewals(self, before: Graph) -> Iterator[tuple[Node, Node]]:
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
            "renewed": [tables.numbers(pair) for pair in self._renewals(graph_before)],
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
    names = _name_inputs(graph.inputs, explained.leaves)
    names |= _name_inputs(closed.inputs, explained.leaves)
    names |= _name_inputs(explained.graph.inputs, explained.leaves)
    made = None if divided is None else divided.made
    if divided is not None and made is not None:
        mesh, whole, _, _, specs = divided
        types = {node: format_type(node, spec) for node, spec in specs.items()}
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


def parts_of(parts: Sequence[StepReport]) -> Iterator[StepReport]:
    """The steps of a program, and behind each those of its bodies."""
    for part in parts:
        yield part
        yield from parts_of(part.inner)


def _name_inputs(inputs: Sequence[Node], leaves: Sequence[str]) -> dict[Node, str]:
    """The inputs by the names of the arguments; the others were captured."""
    captured = [f"captured {i}" for i in range(len(inputs) - len(leaves))]
    return dict(zip(inputs, [*leaves, *captured], strict=False))


#: Kernels whose machine code is shown, the first ones that differ: it has to be
#: compiled again.
_ASSEMBLED = 24


def kernels_as_data(explained: Explanation, tables: Tables) -> list[dict[str, Any]]:
    """The steps of the program in order, those of bodies behind what runs them."""
    schedules, assemblies = dict[Any, str](), dict[str, str]()
    found: list[dict[str, Any]] = []

    def add(part: StepReport, parent: int, depth: int) -> None:
        built, number = part.built, len(found)
        written = set[Node]() if built is None else {*built.writes}
        # What takes time to say of a kernel is said once for those that are equal.
        if part.kernel not in schedules:
            schedules[part.kernel] = part.schedule
        if part.source not in assemblies:
            shown = len(assemblies) < _ASSEMBLED
            assemblies[part.source] = part.assembly if shown else ""
        row = {
            "name": part.name,
            "depth": depth,
            "parent": parent,
            "body": part.body,
            "bodies": [
                [tables.numbers(graph.inputs), tables.numbers(graph.outputs)]
                for graph in part.bodies
            ],
            "lines": tables.lines_of(part.nodes) or tables.find_lines(part.origins),
            "operations": part.operations,
            "bytes": part.nbytes,
            "seconds": part.seconds,
            "limit": "" if explained.most is None else part.limit(explained.most),
            "schedule": schedules[part.kernel],
            "loops": tables.text(_loops(part)),
            "statements": _statements(part, tables),
            "source": tables.text(part.source),
            "assembly": tables.text(assemblies[part.source]),
            "nodes": tables.numbers(part.nodes),
            "stores": tables.numbers(n for n in part.nodes if n in written),
        }
        found.append(row)
        for inner in part.inner:
            add(inner, number, depth + 1)

    for part in explained.kernels:
        add(part, -1, 0)
    return found


def _loops(part: StepReport) -> str:
    """Where each statement is computed, without the lines that stand beside those."""
    kernel = part.kernel
    return render_tree(kernel) if type(kernel) is ir.Kernel else ""


def _statements(part: StepReport, tables: Tables) -> list[list[Any]]:
    """The statements of a kernel: text, line, and the node that each computes."""
    kernel, built = part.kernel, part.built
    if kernel is None:
        return []
    values, stored = dict[Node, list[Node]](), dict[int, Node]()
    if isinstance(built, BuiltKernel):
        values, stored = built.values, built.stores
    rows = _rows(kernel)
    first_store = len(rows) - len(kernel.stores)
    found: list[list[Any]] = []
    for place, (text, expression) in enumerate(rows):
        of = values.get(expression, ()) if expression else ()
        candidates = [n for n in of if tables.find(n) >= 0]
        if place >= first_store:
            store = kernel.stores[place - first_store]
            candidates = [stored[store.buffer]] if store.buffer in stored else []
        node = min(candidates, key=partial(_is_view, expression), default=None)
        known = (-1, -1) if node is None else (tables.line(node), tables.find(node))
        found.append([text, *known])
    return found


def _rows(kernel: ir.Kernel) -> Sequence[tuple[str, Node | None]]:
    """The lines of a kernel as text, each with what it computes."""
    if type(kernel) is ir.Kernel:
        return ir.kernel_lines(kernel)
    head, *rest = str(kernel).splitlines()
    lines = [(line, None) for line in rest]
    return [(head, None), *(kernel.lines if isinstance(kernel, Recurrence) else lines)]


def _is_view(expression: Node | None, node: Node) -> bool:
    """Is a value only a view of what an expression computes, or a copy of it?"""
    if expression is None:
        return False
    combines = COMBINES.get(node.op)
    if expression.op is ir.reduce_p:
        return combines is None or combines.name != expression.arg
    return node.op is not expression.op


def collectives_as_data(found: Sequence[Collective], tables: Tables) -> list[list[Any]]:
    """What devices tell each other: kind, axis, type, bytes, times, why, line."""
    return [
        [
            e.kind, str(e.axis), repr(e.aval), e.nbytes, e.times, e.operation,
            tables.lines.find(e.origin),
        ]
        for e in found
    ]  # fmt: skip
