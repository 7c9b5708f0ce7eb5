"""What runs: each kernel with its statements, its schedule in words, and its code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ftrace.lower.build.build_kernel import BuiltKernel
from ftrace.lower.kernel import ir
from ftrace.lower.kernel.loop_tree import render_tree
from ftrace.trace.graph import Node
from ftrace.trace.primitives.reduction import COMBINES
from ftrace.transforms.jit.explain import Explanation, Part
from ftrace.transforms.partition.collectives import Entry
from ftrace.transforms.viz.steps import Walk, members_of
from ftrace.transforms.viz.tables import Tables

#: Kernels whose machine code is shown, the first ones that differ: it has to be
#: compiled again.
_ASSEMBLED = 24


def kernels_as_data(
    explained: Explanation, walked: Walk, tables: Tables
) -> list[dict[str, Any]]:
    """The steps of the program in order, those of bodies behind what runs them."""
    members = members_of(walked.work)
    if len(members) != len(explained.kernels):  # it is not known which is which
        members = [(list[Node](), None) for _ in explained.kernels]
    stored = walked.work.plan.stored
    texts = _Texts()
    found: list[dict[str, Any]] = []

    def add(part: Part, nodes: Sequence[Node], built: Any, depth: int) -> None:
        row = {
            "name": part.name,
            "depth": depth,
            "lines": tables.lines_of(nodes) or tables.find_lines(part.origins),
            "operations": part.operations,
            "bytes": part.nbytes,
            "seconds": part.seconds,
            "limit": "" if explained.most is None else part.limit(explained.most),
            "schedule": texts.schedule(part),
            "loops": tables.text(_loops(part)),
            "statements": _statements(part, built, tables),
            "source": tables.text(part.source),
            "assembly": tables.text(texts.assembly(part)),
            "nodes": tables.numbers(nodes),
            "stores": tables.numbers(n for n in nodes if n in stored),
        }
        found.append(row)
        for inner in part.inner:
            add(inner, (), None, depth + 1)

    for part, (nodes, built) in zip(explained.kernels, members, strict=True):
        add(part, nodes, built, depth=0)
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


def _statements(
    part: Part, built: BuiltKernel | None, tables: Tables
) -> list[list[Any]]:
    """The statements of a kernel: text, line, and the node that each computes."""
    kernel = part.kernel
    if type(kernel) is not ir.Kernel:
        text = "" if kernel is None else str(kernel)
        return [[line, -1, -1] for line in text.splitlines()]
    values = {} if built is None else built.values
    stored = {} if built is None else built.stores
    rows = ir.kernel_lines(kernel)
    first_store = len(rows) - len(kernel.stores)
    found: list[list[Any]] = []
    for place, (text, expression) in enumerate(rows):
        candidates = [n for n in values.get(expression, ()) if tables.find(n) >= 0]
        if place >= first_store:
            store = kernel.stores[place - first_store]
            candidates = [stored[store.buffer]] if store.buffer in stored else []
        node = min(candidates, key=lambda n: _is_view(n, expression), default=None)
        known = (-1, -1) if node is None else (tables.line(node), tables.find(node))
        found.append([text, *known])
    return found


def _is_view(node: Node, expression: Node) -> bool:
    """Is a value only a view of what an expression computes, or a copy of it?"""
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
