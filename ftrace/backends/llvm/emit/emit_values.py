"""The expressions of a kernel as values in registers.

A node is emitted when it is asked for, sources first, in the loop of the last of its
ranges. Each range that is open stands for one number, or for several *copies* (an
unrolled loop), or for the lanes of a vector, or both. A node that depends on the vector
range is a vector, every other a scalar; a node that depends on an unrolled range has a
value for each copy. `at` tells the copies: a number for each unrolled range that is
open, in the order in which they were opened.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any

from ftrace.backends.llvm.emit.addressing import Access, Scaled
from ftrace.backends.llvm.ir import writer as llvm
from ftrace.backends.llvm.scalar.ops import Operations
from ftrace.backends.llvm.schedule.index_facts import Facts, index_of
from ftrace.backends.llvm.schedule.loop_tiling import InRegisters
from ftrace.backends.llvm.target import Target
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.kernel.affine_index import Index
from ftrace.lower.kernel.ir import INDEX, BufferSpec, load_p, range_p
from ftrace.lower.legalize.term import RARE, RELAXED
from ftrace.trace.graph import Node, constant_value
from ftrace.trace.primitives.sources import const_p, dim_p
from ftrace.trace.symbolic import is_dynamic

At = tuple[int, ...]
_NOTHING = InRegisters()


@dataclass(eq=False)
class Opened:
    """A range whose loop is open.

    Attributes:
      base: its value in the first copy and lane: an SSA value or a number.
      level: the level of its loop.
      unroll: how many copies it has, `step` apart.
      slot: its place in `at`; -1 where it has one copy.
      lanes: of the vector; 0 where it is not the vector range.
      masks: for each copy, the lanes that exist; None is all.
      existing: how many lanes of the last copy exist; 0 is all.
      interleave: its copies are computed instruction by instruction, not one by one.
    """

    node: Node
    base: str
    level: llvm.Level
    unroll: int = 1
    step: int = 1
    slot: int = -1
    lanes: int = 0
    masks: Sequence[str | None] = (None,)
    existing: int = 0
    interleave: bool = False


class Expressions(ABC):
    """Emits expressions on demand, where the open ranges have their values.

    Attributes:
      vector: the vector range that is open.
      slots: how many unrolled ranges are open.
      nontemporal: aligned buffers, to which stores are non-temporal.
      registers: what they hold beside tiles of sums.
      padded: scratch memory in which what lies beyond a row's end, up to a whole
        vector, may be read and written.
      dims: the sizes that are known at calls only, each with its place in a buffer
        of int64 behind the kernel's own.
    """

    def __init__(
        self,
        writer: llvm.Writer,
        facts: Facts,
        target: Target,
        buffers: Sequence[BufferSpec],
        nontemporal: frozenset[int] = frozenset(),
        registers: InRegisters = _NOTHING,
    ) -> None:
        self.writer = writer
        self.facts = facts
        self.ops = Operations(writer, target)
        self.access = Access(writer, self.ops, self.number)
        self.vector: Opened | None = None
        self.nontemporal, self.registers = nontemporal, registers
        self.padded: set[int] = set()
        self.slots = 0
        self._open: dict[Node, Opened] = {}
        self.sizes = [spec.size for spec in buffers]
        self.dims: dict[Any, int] = {}
        self._dims_at = len(buffers)
        self.fixed = {n for n, spec in enumerate(buffers) if spec.written}
        self._pointers: dict[int, str] = {}
        # Known while the same ranges are open.
        self._homes: dict[Node, tuple[At, llvm.Level]] = {}
        self._sources: dict[tuple[Node, bool], list[tuple[Node, bool]]] = {}
        self._saved: list[tuple[Any, Any]] = []
        # By the node, and the copies that matter to it.
        self._known: dict[tuple[Node, bool, At | None], tuple[str, llvm.Level]] = {}

    @abstractmethod
    def load(self, node: Node, at: At) -> str:
        """The value of a load."""

    # Ranges.

    @contextmanager
    def within(self, opened: Opened) -> Generator[None, None, None]:
        """Inside, the range has this meaning."""
        if opened.unroll > 1:
            opened.slot = self.slots
            self.slots += 1
        if opened.lanes:
            assert self.vector is None
            self.vector = opened
        self._open[opened.node] = opened
        self._saved.append((self._homes, self._sources))
        self._homes, self._sources = {}, {}
        yield
        if opened.unroll > 1:
            self.slots -= 1
        if opened.lanes:
            self.vector = None
        del self._open[opened.node]
        self._homes, self._sources = self._saved.pop()

    def is_open(self, node: Node) -> bool:
        return node in self._open

    def add_buffer(self, number: int, pointer: str, size: int) -> None:
        """Scratch memory, as a buffer that loads can name."""
        self._pointers[number] = pointer
        self.fixed.add(number)
        self.sizes.extend([0] * (number + 1 - len(self.sizes)))
        self.sizes[number] = size

    def buffer(self, number: int) -> str:
        """The pointer to the kernel's buffer of that number."""
        found = self._pointers.get(number)
        if found is None:
            place = "%buffers"
            if number:
                text = f"getelementptr ptr, ptr %buffers, i64 {number}"
                place = self.writer.pure(text)
            found = self.writer.pure(f"load ptr, ptr {place}, align 8", place)
            self._pointers[number] = found
        return found

    def address(self, base: str, form: Index, at: At, size: int) -> str:
        """Where the first lane's element stands, of so many bytes."""
        return self.access.pointer(base, *self.terms(form, at), size)

    def number(self, size: Any) -> str:
        """A size as text: a dynamic one is read from the buffer behind all others."""
        if not is_dynamic(size):
            return llvm.literal(size)
        place = self.dims.setdefault(size, len(self.dims))
        behind = self.writer.pure(
            f"getelementptr ptr, ptr %buffers, i64 {self._dims_at}"
        )
        p = self.writer.pure(f"load ptr, ptr {behind}, align 8", behind)
        if place:
            p = self.writer.pure(f"getelementptr i64, ptr {p}, i64 {place}", p)
        return self.writer.pure(f"load i64, ptr {p}, align 8", p)

    @property
    def lanes(self) -> int:
        return self.vector.lanes if self.vector is not None else 0

    def varies(self, node: Node) -> bool:
        """Does it differ from lane to lane?"""
        v = self.vector
        return v is not None and v.node in self.facts.free[node]

    def type_of(self, node: Node) -> llvm.Type:
        lanes = self.lanes if self.varies(node) else 0
        if node.dtype is INDEX:
            return llvm.index_type(lanes, lanes > 0 and self.facts.narrow(node))
        return llvm.Type.of(node.dtype, lanes)

    def home(self, node: Node) -> tuple[At, llvm.Level]:
        """The slots of `at` that matter to a node, and the level of its last range."""
        found = self._homes.get(node)
        if found is None:
            ranges = [self._open[r] for r in self.facts.free[node] if r in self._open]
            slots = sorted(r.slot for r in ranges if r.slot >= 0)
            level = self.writer.stack[0]
            for r in ranges:
                if r.level.depth > level.depth:
                    level = r.level
            found = self._homes[node] = (tuple(slots), level)
        return found

    def assignments(self, nodes: Iterable[Node]) -> list[At]:
        """Every `at` for which one of the nodes has another value."""
        slots: set[int] = set()
        for node in nodes:
            slots.update(self.home(node)[0])
        counts = [1] * self.slots
        for r in self._open.values():
            if r.slot in slots:
                counts[r.slot] = r.unroll
        return list(itertools.product(*map(range, counts)))

    def other_copies(self, at: At) -> list[At]:
        """The other copies of the vector, where they are interleaved.

        What is rare is computed for one copy at a time.
        """
        v, anchor = self.vector, self.writer.anchor
        if v is None or not v.interleave or v.slot < 0:
            return []
        if anchor is not None and anchor.depth > v.level.depth:
            return []
        copies = [at[: v.slot] + (n,) + at[v.slot + 1 :] for n in range(v.unroll)]
        return [copy for copy in copies if copy != at]

    def mask(self, at: At) -> str | None:
        """The lanes that exist in this copy of the vector range."""
        v = self.vector
        if v is None:
            return None
        return v.masks[at[v.slot] if v.slot >= 0 else 0]

    # Values in a type.

    def form_stride(self, form: Index) -> int | None:
        """What an index grows by from lane to lane; None if that varies."""
        v = self.vector
        return 0 if v is None else self.facts.form_stride(form, v.node, v.lanes)

    def index_lanes(self, base: str, stride: int, t: llvm.Type) -> str:
        """The vector `base`, `base` + `stride`, … of type `t`."""
        if t.bits == 32 and not isinstance(base, llvm.Constant):
            base = self.writer.pure(f"trunc i64 {base} to i32", base)
        start = self.ops.splat(base, t)
        if not stride:
            return start
        steps = t.lanewise([stride * lane for lane in range(t.lanes)])
        return self.ops.binary("add", t, start, steps)

    def stride(self, node: Node) -> int | None:
        v = self.vector
        return 0 if v is None else self.facts.stride(node, v.node, v.lanes)

    def wide(self, node: Node, lanes: int, at: At) -> str:
        """A value in every lane."""
        text = self._evaluate(node, False, at)
        if lanes and not self.varies(node):
            return self.ops.splat(text, llvm.Type.of(node.dtype, lanes))
        return text

    def plain(self, node: Node, lanes: int, at: At) -> str:
        """A value in `lanes` lanes as it is stored: an index in all its 64 bits."""
        text = self.wide(node, lanes, at)
        if node.dtype is INDEX:
            own = self.type_of(node)
            if own.lanes and own.bits == 32:
                return self.ops.convert(
                    "sext", own, llvm.Type.of(node.dtype, lanes), text
                )
        return text

    def index_as(self, node: Node, t: llvm.Type, at: At) -> str:
        """An index as type `t`: 32 or 64 bits."""
        text = self.value(node, at)
        own = self.type_of(node)
        if own.lanes != t.lanes:
            if t.bits == 32 and not isinstance(text, llvm.Constant):
                text = self.writer.pure(f"trunc i64 {text} to i32", text)
            return self.ops.splat(text, t)
        if own.bits == t.bits:
            return text
        word = "sext" if own.bits < t.bits else "trunc"
        return self.ops.convert(word, own, t, text)

    def terms(self, form: Index, at: At) -> tuple[list[Scaled], int]:
        """An index in the first lane: terms that are not constant, and what is."""
        terms: list[Scaled] = []
        constant = form.constant
        for atom, coefficient in form.pairs:
            opened = self._open.get(atom)
            if opened is None:
                terms.append((coefficient, self.lane0(atom, at)))
                continue
            if opened.slot >= 0:
                constant += coefficient * opened.step * at[opened.slot]
            if isinstance(opened.base, llvm.Constant):
                constant += coefficient * opened.base.value
            else:
                terms.append((coefficient, opened.base))
        return terms, constant

    # Values on demand.

    def forget(self) -> None:
        """What loads read has changed."""
        self._known.clear()

    def value(self, node: Node, at: At) -> str:
        """A vector if the node varies from lane to lane, else a scalar."""
        return self._evaluate(node, False, at)

    def lane0(self, node: Node, at: At) -> str:
        """An index in the first lane."""
        return self._evaluate(node, self.varies(node), at)

    def put(self, node: Node, at: At, text: str) -> None:
        """Makes `text` the value of a node, as long as its ranges stay open."""
        self._keep(node, False, at, text)

    def _lifetime(self, home: llvm.Level, text: str) -> llvm.Level:
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
                needs = self._sources.get((n, z))
                if needs is None:
                    needs = self._sources[n, z] = self._needs(n, z)
                missing = [s for s in needs if self._get(*s, at) is None]
                if missing:
                    pending.extend(missing)
                    continue
                found = self._emit(n, z, at)
                self._keep(n, z, at, found)
                for other in self.other_copies(at):  # has its sources, as this one has
                    if self._get(n, z, other) is None:
                        self._keep(n, z, other, self._emit(n, z, other))
            text = found
            pending.pop()
        return text

    def _keep(self, node: Node, first: bool, at: At, text: str) -> None:
        slots, home = self.home(node)
        copies = tuple([at[s] for s in slots]) if slots else None
        self._known[node, first, copies] = (text, self._lifetime(home, text))

    def _first(self, nodes: Iterable[Node]) -> list[tuple[Node, bool]]:
        return [(n, self.varies(n)) for n in nodes]

    def _atoms(self, form: Index) -> list[tuple[Node, bool]]:
        """What `terms` asks for: not what a range that is open stands for."""
        return self._first(atom for atom, _ in form.pairs if atom not in self._open)

    def _needs(self, node: Node, first: bool) -> list[tuple[Node, bool]]:
        """What must have a value before this one."""
        if node.op is load_p:
            index = self.facts.affine[index_of(node)]
            rest = self._validity_needs(node.src[2]) if len(node.src) > 2 else []
            if self.stride(index_of(node)) is not None:
                return self._atoms(index) + rest
            return [(atom, False) for atom in index.terms] + rest
        form = self.facts.affine.get(node)
        if form is not None and self.stride(node) is not None:
            if node not in form.terms:
                return self._atoms(form)
            if first:
                return self._first(node.src)
            if self.varies(node):
                return [(node, True)]
        if self._is_rare(node):
            rare = self._rare(node)
            return [(s, False) for s in (node.src[0], *[n.src[2] for n in rare])]
        return [(s, first) for s in node.src]

    def _validity_needs(self, valid: Node) -> list[tuple[Node, bool]]:
        found: list[tuple[Node, bool]] = []
        for condition in self.facts.conditions(valid):
            form = condition.form
            if form is not None and self.form_stride(form) is not None:
                found += self._atoms(form)
            found += [(n, False) for n in condition.nodes if form is None]
        return found

    def _is_rare(self, node: Node) -> bool:
        """Does it select something rare, for which a branch pays?"""
        return node.arg == RARE and (self.vector is None or self.varies(node))

    def _rare(self, node: Node) -> list[Node]:
        """The selects that take something rare under the same condition."""
        home = self.home(node)
        return [n for n in self.facts.rare[node.src[0]] if self.home(n) == home]

    def _branch(self, node: Node, at: At) -> str:
        """Computes what is rare where a lane takes it."""
        writer, rare, lanes = self.writer, self._rare(node), self.lanes
        copies = [at, *self.other_copies(at)]
        conditions = [self.wide(node.src[0], lanes, copy) for copy in copies]
        usual = [[self.wide(n.src[2], lanes, copy) for n in rare] for copy in copies]
        some = conditions[0]
        for other in conditions[1:]:
            some = self.ops.binary("or", llvm.mask_type(lanes), some, other)
        taken = self.ops.any_lane(some, lanes)
        branch = writer.open_branch()
        results: list[tuple[str, str, str]] = []
        for copy, condition, others in zip(copies, conditions, usual, strict=True):
            for n, other in zip(rare, others, strict=True):
                t, value = self.type_of(n), self.wide(n.src[1], lanes, copy)
                if lanes:
                    value = self.ops.select(condition, t, value, other)
                results.append((t.text, value, other))
        found = writer.close_branch(branch, taken, results)
        for number, copy in enumerate(copies):
            for n, text in zip(rare, found[number * len(rare) :], strict=False):
                self.put(n, copy, text)
        return found[rare.index(node)]

    def _emit(self, node: Node, first: bool, at: At) -> str:
        op = node.op
        if op is const_p:
            return llvm.Type.of(node.dtype, 0).constant(constant_value(node))
        if op is dim_p:
            return self.number(node.arg)
        if op is load_p:
            return self.load(node, at)
        if self._is_rare(node):
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
            t = llvm.index_type(0, False)
            texts = [self.lane0(s, at) for s in src]
        elif operand.dtype is INDEX:
            narrow = all(self.facts.narrow(s) for s in src if s.dtype is INDEX)
            if node.dtype is INDEX:
                narrow = narrow and self.facts.narrow(node)
            t = llvm.index_type(lanes, narrow)
            texts = [
                self.index_as(s, t, at) if s.dtype is INDEX else self.wide(s, lanes, at)
                for s in src
            ]
        else:
            t = llvm.Type.of(operand.dtype, lanes)
            texts = [self.wide(s, lanes, at) for s in src]
        if name in ("div", "rem") and self._divides_count(*src):
            t = t.integer("u")
        if node.arg == RELAXED and not self.ops.target.fma:
            a, b, c = texts
            return self.ops.apply("add", t, self.ops.apply("mul", t, a, b), c)
        result = self.ops.apply(name, t, *texts)
        return (
            self._narrow(result, t, node) if node.dtype is INDEX and lanes else result
        )

    def _divides_count(self, top: Node, bottom: Node) -> bool:
        """Is it an index that is never negative, by a number: signs would take work?"""
        bounds, by = self.facts.interval.get(top), self.facts.constant(bottom)
        return bounds is not None and bounds[0] >= 0 and by is not None and by > 0

    def _cast(self, node: Node, lanes: int, at: At) -> str:
        (source,) = node.src
        text, have = self.value(source, at), self.type_of(source)
        full = llvm.Type.of(node.dtype, lanes)
        if node.op.name == "bitcast":
            whole = llvm.Type.of(source.dtype, lanes)
            if have.bits != whole.bits:  # a narrow index
                text = self.ops.convert("sext", have, whole, text)
            return self._narrow(self.ops.bitcast(text, whole, full), full, node)
        if have.kind == "f":
            return self._narrow(self.ops.cast(text, have, full), full, node)
        return self.ops.cast(text, have, self.type_of(node))

    def _narrow(self, text: str, t: llvm.Type, node: Node) -> str:
        """A value of type `t` as the type that `type_of` says."""
        own = self.type_of(node)
        return text if t.bits == own.bits else self.ops.convert("trunc", t, own, text)
