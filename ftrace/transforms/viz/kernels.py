"""What runs: each kernel with its statements, its schedule in words, and its code."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ftrace.lower.build.build_kernel import BuiltKernel
from ftrace.lower.kernel import ir
from ftrace.lower.kernel.loop_tree import render_tree
from ftrace.lower.register_loops.register_loop import Recurrence
from ftrace.trace.graph import Node
from ftrace.trace.primitives.reduction import COMBINES
from ftrace.transforms.partition.collectives import Entry
from ftrace.transforms.viz.explain import Explanation, Part
from ftrace.transforms.viz.tables import Tables

#: Kernels whose machine code is shown, the first ones that differ: it has to be
#: compiled again.
_ASSEMBLED = 24


def kernels_as_data(explained: Explanation, tables: Tables) -> list[dict[str, Any]]:
    """The steps of the program in order, those of bodies behind what runs them."""
    texts = _Texts()
    found: list[dict[str, Any]] = []

    def add(part: Part, parent: int, depth: int) -> None:
        built, number = part.built, len(found)
        written = set[Node]() if built is None else {*built.writes}
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
            "schedule": texts.schedule(part),
            "loops": tables.text(_loops(part)),
            "statements": _statements(part, tables),
            "source": tables.text(part.source),
            "assembly": tables.text(texts.assembly(part)),
            "nodes": tables.numbers(part.nodes),
            "stores": tables.numbers(n for n in part.nodes if n in written),
        }
        found.append(row)
        for inner in part.inner:
            add(inner, number, depth + 1)

    for part in explained.kernels:
        add(part, -1, 0)
    return found


class _Texts:
    """What it takes time to say of a kernel: once for those that are equal."""

    def __init__(self) -> None:
        self._schedules: dict[Any, str] = {}
        self._assemblies: dict[str, str] = {}

    def schedule(self, part: Part) -> str:
        kernel = part.kernel
        if kernel not in self._schedules:
            self._schedules[kernel] = part.schedule
        return self._schedules[kernel]

    def assembly(self, part: Part) -> str:
        known, source = self._assemblies, part.source
        if source not in known:
            known[source] = part.assembly if len(known) < _ASSEMBLED else ""
        return known[source]


def _loops(part: Part) -> str:
    """Where each statement is computed, without the lines that stand beside those."""
    kernel = part.kernel
    return render_tree(kernel) if type(kernel) is ir.Kernel else ""


def _statements(part: Part, tables: Tables) -> list[list[Any]]:
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


def collectives_as_data(entries: Sequence[Entry], tables: Tables) -> list[list[Any]]:
    """What devices tell each other: kind, axis, type, bytes, times, why, line."""
    return [
        [
            e.kind, str(e.axis), repr(e.aval), e.nbytes, e.times, e.operation,
            tables.lines.find(e.origin),
        ]
        for e in entries
    ]  # fmt: skip
