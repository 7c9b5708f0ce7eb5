"""The expressions of a kernel as values in registers.

A node is emitted when it is asked for, sources first, once for each choice of the
copies on which it depends (see `open_ranges.py`), and in the loop of the last of its
ranges.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ftrace.devices.llvm.emit.emit_memory import Elements
from ftrace.devices.llvm.emit.open_ranges import At
from ftrace.devices.llvm.ir.types import Type, index_type
from ftrace.devices.llvm.ir.writer import Level, Writer
from ftrace.devices.llvm.schedule.index_facts import Facts, index_of
from ftrace.devices.llvm.target import Target
from ftrace.lower.kernel.ir import INDEX, BufferSpec, load_p, range_p
from ftrace.lower.legalize.math.term import RARE, RELAXED
from ftrace.trace.graph import Node, constant_value
from ftrace.trace.primitives.elementwise import COMPARISONS
from ftrace.trace.primitives.sources import const_p, dim_p


class Values(Elements):
    """Emits expressions on demand; see the module."""

    def __init__(
        self,
        writer: Writer,
        facts: Facts,
        target: Target,
        buffers: Sequence[BufferSpec],
        streamed: frozenset[int] = frozenset(),
    ) -> None:
        super().__init__(writer, facts, target, buffers, streamed)
        # By the node, and the copies that matter to it.
        self._known: dict[tuple[Node, bool, At | None], tuple[str, Level]] = {}

    # Values.

    def value(self, node: Node, at: At) -> str:
        """A vector if the node varies from lane to lane, else a scalar."""
        return self._evaluate(node, False, at)

    def lane0(self, node: Node, at: At) -> str:
        """An index in the first lane."""
        return self._evaluate(node, self.varies(node), at)

    def put(self, node: Node, at: At, text: str) -> None:
        """Makes `text` the value of a node, as long as its ranges stay open."""
        self._keep(node, False, at, text)

    def _kept(self, home: Level, text: str) -> Level:
        """How long a value is known: what a branch computes only within it.

        What joins after a branch inside a loop exists in that loop only, also where
        the value does not vary with it.
        """
        depth = self.writer.depth(text)
        if depth > home.depth:
            home = self.writer.stack[depth]
        anchor = self.writer.anchor
        return anchor if anchor is not None and anchor.depth > home.depth else home

    def _get(self, node: Node, first: bool, at: At) -> str | None:
        slots = (self._homes.get(node) or self.home(node))[0]
        copies = tuple([at[s] for s in slots]) if slots else None
        found = self._known.get((node, first, copies))
        return found[0] if found is not None and found[1].open else None

    def _evaluate(self, node: Node, first: bool, at: At) -> str:
        """Sources first, each once; `first` asks for an index in the first lane."""
        found = self._get(node, first, at)
        if found is not None:
            return found
        pending = [(node, first)]
        text = ""
        while pending:
            n, z = pending[-1]
            found = self._get(n, z, at)
            if found is None:
                missing = [s for s in self._needs(n, z) if self._get(*s, at) is None]
                if missing:
                    pending.extend(missing)
                    continue
                found = self._emit(n, z, at)
                self._keep(n, z, at, found)
                for other in self.beside(at):  # has its sources, as this one has
                    if self._get(n, z, other) is None:
                        self._keep(n, z, other, self._emit(n, z, other))
            text = found
            pending.pop()
        return text

    def _keep(self, node: Node, first: bool, at: At, text: str) -> None:
        slots, home = self.home(node)
        copies = tuple([at[s] for s in slots]) if slots else None
        self._known[node, first, copies] = (text, self._kept(home, text))

    def _first(self, nodes: Iterable[Node]) -> list[tuple[Node, bool]]:
        return [(n, self.varies(n)) for n in nodes]

    def _stride(self, node: Node) -> int | None:
        v = self.vector
        return 0 if v is None else self.facts.stride(node, v.node, v.lanes)

    def _needs(self, node: Node, first: bool) -> list[tuple[Node, bool]]:
        """What must have a value before this one."""
        if node.op is load_p:
            index = self.facts.affine[index_of(node)]
            rest = self._validity_needs(node.src[2]) if len(node.src) > 2 else []
            if self.stride(index_of(node)) is not None:
                return self._first(index.terms) + rest
            return [(atom, False) for atom in index.terms] + rest
        form = self.facts.affine.get(node)
        if form is not None and self.stride(node) is not None:
            if node not in form.terms:
                return self._first(form.terms)
            if first:
                return self._first(node.src)
            if self.varies(node):
                return [(node, True)]
        if node.arg == RARE and self.varies(node):
            rare = self._rare(node)
            return [(s, False) for s in (node.src[0], *[n.src[2] for n in rare])]
        return [(s, first) for s in node.src]

    def _validity_needs(self, valid: Node) -> list[tuple[Node, bool]]:
        found: list[tuple[Node, bool]] = []
        for condition in self.facts.conditions(valid):
            form = condition.form
            if form is not None and self.form_stride(form) is not None:
                found += self._first(form.terms)
            found += [(n, False) for n in condition.nodes if form is None]
        return found

    def _rare(self, node: Node) -> list[Node]:
        """The selects that take something rare under the same condition."""
        home = self.home(node)
        return [n for n in self.facts.rare[node.src[0]] if self.home(n) == home]

    def _branch(self, node: Node, at: At) -> str:
        """Computes what is rare where a lane takes it."""
        writer, rare, lanes = self.writer, self._rare(node), self.lanes
        copies = [at, *self.beside(at)]
        conditions = [self.wide(node.src[0], lanes, copy) for copy in copies]
        usual = [[self.wide(n.src[2], lanes, copy) for n in rare] for copy in copies]
        some = conditions[0]
        for other in conditions[1:]:
            some = writer.pure(f"or <{lanes} x i1> {some}, {other}", some, other)
        bits = writer.pure(f"bitcast <{lanes} x i1> {some} to i{lanes}", some)
        taken = writer.pure(f"icmp ne i{lanes} {bits}, 0", bits)
        branch = writer.open_branch()
        results: list[tuple[str, str, str]] = []
        for copy, condition, others in zip(copies, conditions, usual, strict=True):
            for n, other in zip(rare, others, strict=True):
                t, value = self.type_of(n), self.wide(n.src[1], lanes, copy)
                chosen = self.ops.select(condition, t, value, other)
                results.append((t.text, chosen, other))
        found = writer.close_branch(branch, taken, results)
        for number, copy in enumerate(copies):
            for n, text in zip(rare, found[number * len(rare) :], strict=False):
                self.put(n, copy, text)
        return found[rare.index(node)]

    def _emit(self, node: Node, first: bool, at: At) -> str:
        op = node.op
        if op is const_p:
            return Type.of(node.dtype, 0).constant(constant_value(node))
        if op is dim_p:
            return self.number(node.arg)
        if op is load_p:
            return self.load(node, at)
        if node.arg == RARE and self.varies(node):
            return self._branch(node, at)
        form = self.facts.affine.get(node)
        if form is not None:
            if first or not self.varies(node):
                if op is range_p or node not in form.terms:
                    terms, constant = self.terms(form, at)
                    return self.access.sum_terms(terms, constant)
            else:
                stride = self.stride(node)
                if stride is not None:
                    return self._lanes(node, stride, at)
        return self._operation(node, first, at)

    def _lanes(self, node: Node, stride: int, at: At) -> str:
        """A vector of indices that grow by `stride`."""
        return self.index_lanes(self.lane0(node, at), stride, self.type_of(node))

    # Operations.

    def _operation(self, node: Node, first: bool, at: At) -> str:
        name, src = node.op.name, node.src
        lanes = self.lanes if self.varies(node) and not first else 0
        if name in ("cast", "bitcast"):
            return self._cast(node, lanes, at)
        operand = src[-1]
        if first:
            t = index_type(0, False)
            texts = [self.lane0(s, at) for s in src]
        elif operand.dtype is INDEX:
            narrow = all(self.facts.narrow(s) for s in src if s.dtype is INDEX)
            if node.dtype is INDEX:
                narrow = narrow and self.facts.narrow(node)
            t = index_type(lanes, narrow)
            texts = [
                self.index_as(s, t, at) if s.dtype is INDEX else self.wide(s, lanes, at)
                for s in src
            ]
        else:
            t = Type.of(operand.dtype, lanes)
            texts = [self.wide(s, lanes, at) for s in src]
        if name == "select":
            condition, a, b = texts
            return self.ops.select(condition, t, a, b)
        if node.arg == RELAXED and not self.ops.target.fma:
            a, b, c = texts
            return self.ops.apply("add", t, self.ops.apply("mul", t, a, b), c)
        result = self.ops.apply(name, t, *texts)
        if node.dtype is INDEX and name not in COMPARISONS and lanes:
            own = self.type_of(node)
            if own.bits != t.bits:
                result = self.ops.convert("trunc", t, own, result)
        return result

    def _cast(self, node: Node, lanes: int, at: At) -> str:
        (source,) = node.src
        text = self.value(source, at)
        have, want = self.type_of(source), self.type_of(node)
        if node.dtype is INDEX and lanes and want.bits == 32 and have.kind != "f":
            want = index_type(lanes, True)
            if have.kind != "b" and have.bits == 32:
                return text  # the value fits: the bits are the same
        if node.op.name == "bitcast":
            full = Type.of(source.dtype, lanes)
            if have.bits != full.bits:  # a narrow index
                text, have = self.ops.convert("sext", have, full, text), full
            result = self.ops.bitcast(text, have, Type.of(node.dtype, lanes))
            return self._narrowed(result, node, lanes)
        if want.bits == 32 and node.dtype is INDEX and have.kind == "f":
            full = Type.of(node.dtype, lanes)
            return self._narrowed(self.ops.cast(text, have, full), node, lanes)
        return self.ops.cast(text, have, want)

    def _narrowed(self, text: str, node: Node, lanes: int) -> str:
        """A full index as the type that `type_of` says."""
        full, own = Type.of(node.dtype, lanes), self.type_of(node)
        if full.bits == own.bits:
            return text
        return self.ops.convert("trunc", full, own, text)
