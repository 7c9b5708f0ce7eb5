"""Nodes and texts, each once and by number, as the page has them.

    op     src      type  line
    mul    0 1      f32[3]  12
    add    2 1      f32[3]  12      a column is a list; texts and lines are numbers

A graph is the numbers of its outputs: the page walks it by `src`, as `toposort` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ftrace.errors import Origin
from ftrace.lower.analysis import is_contraction
from ftrace.trace import graph as g
from ftrace.trace.primitives.sources import is_variable
from ftrace.transforms.viz.source_lines import SourceLines

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
                if node.op.family in _HOLDERS and (held := [*g.bodies_in(node.arg)]):
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


#: Families of operations that have bodies in their argument.
_HOLDERS = ("control", "call", "loop")
#: What operations of a family are shown as, where that is not its name.
_KINDS = {
    **dict.fromkeys(("unary", "binary", "compare", "select", "cast"), "elementwise"),
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
