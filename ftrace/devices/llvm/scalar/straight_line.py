"""Expressions of scalars as straight code, each once, given what their loads read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

from ftrace.devices.llvm.ir.types import Type
from ftrace.devices.llvm.scalar.ops import Operations
from ftrace.lower.kernel.ir import load_p, range_p
from ftrace.lower.legalize.math.term import RARE, RELAXED
from ftrace.trace.graph import Node, constant_value, toposort
from ftrace.trace.primitives.sources import const_p


class Expressions:
    """Emits expressions, as vectors of so many lanes, where the writer stands.

    Args:
      ops: of the writer.
      roots: all that will be asked for.
      lanes: 0 for scalars.
      read: the value of a load, or of a range.
      known: what has a value already.
    """

    def __init__(
        self,
        ops: Operations,
        roots: Sequence[Node],
        lanes: int,
        read: Callable[[Node], str],
        known: Mapping[Node, str] = MappingProxyType({}),
    ) -> None:
        self.ops = ops
        self.lanes = lanes
        self.known = dict(known)
        self._read = read
        self._rare: dict[Node, list[Node]] = {}
        for node in toposort(roots):
            if node.arg == RARE:
                self._rare.setdefault(node.src[0], []).append(node)

    def lanes_of(self, node: Node) -> int:
        """Of a value: 0 for a scalar."""
        return self.lanes

    def wide(self, node: Node, lanes: int) -> str:
        """A value in every lane."""
        return self.value(node)

    def value(self, node: Node) -> str:
        pending, known = [node], self.known
        while pending:
            n = pending[-1]
            missing = [] if n in known else [s for s in self.needs(n) if s not in known]
            if missing:
                pending.extend(missing)
                continue
            if n not in known:
                known[n] = self._emit(n)
            pending.pop()
        return known[node]

    def needs(self, node: Node) -> Iterator[Node]:
        """What must have a value before a node gets one."""
        if node.op is load_p:
            return
        if node.arg == RARE:
            yield node.src[0]
            yield from (n.src[2] for n in self._rare[node.src[0]])
        else:
            yield from node.src

    def _emit(self, node: Node) -> str:
        ops, lanes = self.ops, self.lanes_of(node)
        own = Type.of(node.dtype, lanes)
        if node.op is const_p:
            return own.constant(constant_value(node))
        if node.op is load_p or node.op is range_p:
            return self._read(node)
        if node.arg == RARE:
            return self._branch(node)
        texts = [self.wide(s, lanes) for s in node.src]
        t, name = Type.of(node.src[-1].dtype, lanes), node.op.name
        if name in ("cast", "bitcast"):
            convert = ops.cast if name == "cast" else ops.bitcast
            return convert(texts[0], Type.of(node.src[0].dtype, lanes), own)
        if name == "select":
            return ops.select(texts[0], t, texts[1], texts[2])
        if node.arg == RELAXED and not ops.target.fma:
            product = ops.apply("mul", t, texts[0], texts[1])
            return ops.apply("add", t, product, texts[2])
        return ops.apply(name, t, *texts)

    def _branch(self, node: Node) -> str:
        """Computes what is rare where it is taken, in some lane."""
        writer, condition = self.ops.writer, node.src[0]
        lanes = self.lanes_of(condition)
        group = [n for n in self._rare[condition] if self.lanes_of(n) >= lanes]
        others = [self.wide(n.src[2], self.lanes_of(n)) for n in group]
        taken = on = self.known[condition]
        if lanes:
            bits = writer.pure(f"bitcast <{lanes} x i1> {on} to i{lanes}", on)
            taken = writer.pure(f"icmp ne i{lanes} {bits}, 0", bits)
        known, self.known = self.known, dict(self.known)
        branch = writer.open_branch()
        results: list[tuple[str, str, str]] = []
        for n, other in zip(group, others, strict=True):
            t = Type.of(n.dtype, self.lanes_of(n))
            value = self.wide(n.src[1], t.lanes)
            if lanes:
                value = self.ops.select(on, t, value, other)
            results.append((t.text, value, other))
        self.known = known
        found = writer.close_branch(branch, taken, results)
        known.update(zip(group, found, strict=True))
        return known[node]
