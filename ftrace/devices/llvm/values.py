"""The expressions of a kernel as values in registers.

Each range that is open stands for one number, or for several *copies* (an unrolled
loop), or for the lanes of a vector, or both. A node that depends on the vector range
is a vector, every other a scalar; a node that depends on an unrolled range has a
value for each copy, and is emitted once for each. `at` tells the copies: a number for
each unrolled range that is open, in the order in which they were opened.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ftrace.devices.llvm.facts import Affine, Facts
from ftrace.devices.llvm.access import Access, Term
from ftrace.devices.llvm.scalar import COMPARISONS, Operations, and_masks
from ftrace.devices.llvm.target import Target
from ftrace.devices.llvm.types import Type, first_lanes, index_type, mask_type
from ftrace.devices.llvm.writer import Level, Writer
from ftrace.lower.kernel import (
    INDEX,
    BufferSpec,
    Store,
    load_p,
    range_p,
)
from ftrace.lower.math.term import RARE, RELAXED
from ftrace.trace.graph import Node, constant_value
from ftrace.trace.primitives.source import const_p

At = tuple[int, ...]


@dataclass(eq=False)
class Opened:
    """A range whose loop is open.

    Attributes:
      base: its value in the first copy and lane: an SSA value or a number.
      level: the level of its loop.
      copies: how often it is unrolled, `step` apart.
      slot: its place in `at`; -1 where it has one copy.
      lanes: of the vector; 0 where it is not the vector range.
      masks: for each copy, the lanes that exist; None is all.
      existing: how many lanes of the last copy exist; 0 is all.
    """

    node: Node
    base: str
    level: Level
    copies: int = 1
    step: int = 1
    slot: int = -1
    lanes: int = 0
    masks: Sequence[str | None] = (None,)
    existing: int = 0


class Values:
    """Emits expressions on demand; see the module."""

    def __init__(
        self, writer: Writer, facts: Facts, target: Target, buffers: Sequence[BufferSpec]
    ) -> None:
        self.writer = writer
        self.facts = facts
        self.ops = Operations(writer, target)
        self.access = Access(writer, self.ops)
        self.vector: Opened | None = None
        self.slots = 0
        self._open: dict[Node, Opened] = {}
        self._sizes = [spec.size for spec in buffers]
        self._fixed = {n for n, spec in enumerate(buffers) if spec.written}
        self._pointers: dict[int, str] = {}
        self._known: dict[tuple[object, ...], tuple[str, Level]] = {}
        self._homes: dict[Node, tuple[At, Level]] = {}
        self._saved: list[dict[Node, tuple[At, Level]]] = []

    # Ranges.

    def open(self, opened: Opened) -> None:
        """From now on the range has this meaning, until `close`."""
        if opened.copies > 1:
            opened.slot = self.slots
            self.slots += 1
        if opened.lanes:
            assert self.vector is None
            self.vector = opened
        self._open[opened.node] = opened
        self._saved.append(self._homes)
        self._homes = {}

    def close(self, opened: Opened) -> None:
        if opened.copies > 1:
            self.slots -= 1
        if opened.lanes:
            self.vector = None
        del self._open[opened.node]
        self._homes = self._saved.pop()

    def is_open(self, node: Node) -> bool:
        return node in self._open

    def add_buffer(self, number: int, pointer: str, size: int) -> None:
        """Scratch memory, as a buffer that loads can name."""
        self._pointers[number] = pointer
        self._fixed.add(number)
        self._sizes.extend([0] * (number + 1 - len(self._sizes)))
        self._sizes[number] = size

    def buffer(self, number: int) -> str:
        """The pointer to the kernel's buffer of that number."""
        found = self._pointers.get(number)
        if found is None:
            place = "%buffers"
            if number:
                place = self.writer.pure(f"getelementptr ptr, ptr %buffers, i64 {number}")
            found = self.writer.pure(f"load ptr, ptr {place}, align 8", place)
            self._pointers[number] = found
        return found

    @property
    def lanes(self) -> int:
        return self.vector.lanes if self.vector is not None else 0

    def varies(self, node: Node) -> bool:
        """Does it differ from lane to lane?"""
        v = self.vector
        return v is not None and v.node in self.facts.free[node]

    def type_of(self, node: Node) -> Type:
        lanes = self.lanes if self.varies(node) else 0
        if node.dtype is INDEX:
            return index_type(lanes, lanes > 0 and self.facts.narrow(node))
        return Type.of(node.dtype, lanes)

    def _home(self, node: Node) -> tuple[At, Level]:
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
            slots.update(self._home(node)[0])
        counts = [1] * self.slots
        for r in self._open.values():
            if r.slot in slots:
                counts[r.slot] = r.copies
        return list(itertools.product(*map(range, counts)))

    def mask(self, at: At) -> str | None:
        """The lanes that exist in this copy of the vector range."""
        v = self.vector
        if v is None:
            return None
        return v.masks[at[v.slot] if v.slot >= 0 else 0]

    # Values.

    def value(self, node: Node, at: At) -> str:
        """A vector if the node varies from lane to lane, else a scalar."""
        return self._evaluate(node, False, at)

    def lane0(self, node: Node, at: At) -> str:
        """An index in the first lane."""
        return self._evaluate(node, self.varies(node), at)

    def put(self, node: Node, at: At, text: str) -> None:
        """Makes `text` the value of a node, as long as its ranges stay open."""
        slots, level = self._home(node)
        self._known[node, False, tuple([at[s] for s in slots])] = (text, self._kept(level))

    def _kept(self, home: Level) -> Level:
        """How long a value is known: what a branch computes only within it."""
        anchor = self.writer.anchor
        return anchor if anchor is not None and anchor.depth > home.depth else home

    def _get(self, node: Node, first: bool, at: At) -> str | None:
        slots, _ = self._home(node)
        found = self._known.get((node, first, tuple([at[s] for s in slots])))
        return found[0] if found is not None and found[1].open else None

    def _evaluate(self, node: Node, first: bool, at: At) -> str:
        """Sources first, each once; `first` asks for an index in the first lane."""
        found = self._get(node, first, at)
        if found is not None:
            return found
        pending = [(node, first)]
        while pending:
            n, z = pending[-1]
            if self._get(n, z, at) is not None:
                pending.pop()
                continue
            missing = [s for s in self._needs(n, z) if self._get(*s, at) is None]
            if missing:
                pending.extend(missing)
                continue
            slots, level = self._home(n)
            text = self._emit(n, z, at)
            key = n, z, tuple([at[s] for s in slots])
            self._known[key] = (text, self._kept(level))
            pending.pop()
        found = self._get(node, first, at)
        assert found is not None
        return found

    def _first(self, nodes: Iterable[Node]) -> list[tuple[Node, bool]]:
        return [(n, self.varies(n)) for n in nodes]

    def _stride(self, node: Node) -> int | None:
        v = self.vector
        return 0 if v is None else self.facts.stride(node, v.node, v.lanes)

    def _needs(self, node: Node, first: bool) -> list[tuple[Node, bool]]:
        """What must have a value before this one."""
        if node.op is load_p:
            index = self.facts.affine[node.src[1]]
            rest = [(s, False) for s in node.src[2:]]
            if self._stride(node.src[1]) is not None:
                return self._first(index.terms) + rest
            return [(atom, False) for atom in index.terms] + rest
        form = self.facts.affine.get(node)
        if form is not None and self._stride(node) is not None:
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

    def _rare(self, node: Node) -> list[Node]:
        """The selects that take something rare under the same condition."""
        home = self._home(node)
        return [n for n in self.facts.rare[node.src[0]] if self._home(n) == home]

    def _branch(self, node: Node, at: At) -> str:
        """Computes what is rare where a lane takes it."""
        writer, rare, lanes = self.writer, self._rare(node), self.lanes
        condition = self._wide(node.src[0], lanes, at)
        usual = [self._wide(n.src[2], lanes, at) for n in rare]
        bits = writer.pure(f"bitcast <{lanes} x i1> {condition} to i{lanes}", condition)
        taken = writer.pure(f"icmp ne i{lanes} {bits}, 0", bits)
        branch = writer.open_branch()
        results: list[tuple[str, str, str]] = []
        for n, other in zip(rare, usual, strict=True):
            t = self.type_of(n)
            value = self._wide(n.src[1], lanes, at)
            results.append((t.text, self.ops.select(condition, t, value, other), other))
        found = writer.close_branch(branch, taken, results)
        for n, text in zip(rare, found, strict=True):
            self.put(n, at, text)
        return found[rare.index(node)]

    def _emit(self, node: Node, first: bool, at: At) -> str:
        op = node.op
        if op is const_p:
            return Type.of(node.dtype, 0).constant(constant_value(node))
        if op is load_p:
            return self._load(node, at)
        if node.arg == RARE and self.varies(node):
            return self._branch(node, at)
        form = self.facts.affine.get(node)
        if form is not None:
            if first or not self.varies(node):
                if op is range_p or node not in form.terms:
                    terms, constant = self.terms(form, at)
                    return self.access.sum_terms(terms, constant)
            else:
                stride = self._stride(node)
                if stride is not None:
                    return self._lanes(node, stride, at)
        return self._operation(node, first, at)

    # Index arithmetic.

    def terms(self, form: Affine, at: At) -> tuple[list[Term], int]:
        """An index in the first lane: terms that are not constant, and what is."""
        terms: list[Term] = []
        constant = form.constant
        for atom, coefficient in form.terms.items():
            opened = self._open.get(atom)
            if opened is None:
                terms.append((coefficient, self.lane0(atom, at)))
                continue
            if opened.slot >= 0:
                constant += coefficient * opened.step * at[opened.slot]
            if opened.base.startswith("%"):
                terms.append((coefficient, opened.base))
            else:
                constant += coefficient * int(opened.base)
        return terms, constant

    def _lanes(self, node: Node, stride: int, at: At) -> str:
        """A vector of indices that grow by `stride`."""
        t = self.type_of(node)
        base = self.lane0(node, at)
        if t.bits == 32 and base.startswith("%"):
            base = self.writer.pure(f"trunc i64 {base} to i32", base)
        start = self.ops.splat(base, t)
        if not stride:
            return start
        steps = t.lanewise([stride * lane for lane in range(t.lanes)])
        return self.ops.binary("add", t, start, steps)

    def _as(self, node: Node, t: Type, at: At) -> str:
        """An index as type `t`: 32 or 64 bits."""
        text = self.value(node, at)
        own = self.type_of(node)
        if own.lanes != t.lanes:
            if t.bits == 32 and text.startswith("%"):
                text = self.writer.pure(f"trunc i64 {text} to i32", text)
            return self.ops.splat(text, t)
        if own.bits == t.bits:
            return text
        word = "sext" if own.bits < t.bits else "trunc"
        return self.ops.convert(word, own, t, text)

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
                self._as(s, t, at) if s.dtype is INDEX else self._wide(s, lanes, at)
                for s in src
            ]
        else:
            t = Type.of(operand.dtype, lanes)
            texts = [self._wide(s, lanes, at) for s in src]
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

    def _wide(self, node: Node, lanes: int, at: At) -> str:
        text = self.value(node, at)
        if lanes and not self.varies(node):
            return self.ops.splat(text, Type.of(node.dtype, lanes))
        return text

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
        return text if full.bits == own.bits else self.ops.convert("trunc", full, own, text)

    # Loads.

    def _load(self, node: Node, at: At) -> str:
        buffer, index = node.src[:2]
        valid = node.src[2] if len(node.src) > 2 else None
        number = buffer.arg
        assert isinstance(number, int)
        fixed = number in self._fixed
        base = self.buffer(number)
        size = buffer.dtype.itemsize
        access = self.access
        if not self.varies(node):
            terms, constant = self.terms(self.facts.affine[index], at)
            p = access.pointer(base, terms, constant, size)
            if valid is not None:
                p = access.or_zeros(p, self.value(valid, at))
            return access.load(Type.of(node.dtype, 0), p, fixed)
        t = Type.of(node.dtype, self.lanes)
        mask = self.mask(at)
        uniform: str | None = None
        if valid is not None and self.varies(valid):
            mask = and_masks(self.ops, t.lanes, self.value(valid, at), mask)
        elif valid is not None:
            uniform = self.value(valid, at)
        stride = self._stride(index)
        if stride in (1, -1):
            terms, constant = self.terms(self.facts.affine[index], at)
            if stride < 0:
                constant -= t.lanes - 1
                if mask is not None:
                    mask = self.ops.reverse(mask_type(t.lanes), mask)
            p = access.or_zeros(access.pointer(base, terms, constant, size), uniform)
            if mask is None:
                found = access.load(t, p, fixed)
            else:
                found = access.load_masked(t, p, mask, fixed)
            return self.ops.reverse(t, found) if stride < 0 else found
        if stride in (2, 3, 4) and valid is None:
            found = self._window(node, t, stride, at)
            if found is not None:
                return found
        p, offsets, offset_type = self._scattered(index, base, size, number, at)
        if uniform is not None:
            mask = and_masks(
                self.ops, t.lanes, self.ops.splat(uniform, mask_type(t.lanes)), mask
            )
        return access.gather(t, p, offsets, offset_type, mask, fixed)

    def _window(self, node: Node, t: Type, stride: int, at: At) -> str | None:
        """Every `stride`-th element of vectors side by side, where all may be read."""
        buffer, index = node.src
        form = self.facts.affine[index]
        bounds = self.facts.interval[index]
        number, v = buffer.arg, self.vector
        assert isinstance(number, int)
        assert v is not None
        phase = form.constant % stride
        last = stride - 1 - phase
        if bounds is None or bounds[0] < phase or bounds[1] + last >= self._sizes[number]:
            return None
        masked = self.mask(at) is not None
        terms, constant = self.terms(form.shifted(-phase), at)
        parts: list[str] = []
        for n in range(stride):
            place = constant + n * t.lanes
            p = self.access.pointer(self.buffer(number), terms, place, t.bytes)
            existing = stride * v.existing - n * t.lanes
            if not masked or existing >= t.lanes:
                parts.append(self.access.load(t, p, number in self._fixed))
            elif existing > 0:
                mask = first_lanes(t.lanes, existing)
                parts.append(self.access.load_masked(t, p, mask, number in self._fixed))
            else:
                parts.append(t.zero)
        return self.ops.pick(t, parts, stride, phase)

    def _scattered(
        self, index: Node, base: str, size: int, number: int, at: At
    ) -> tuple[str, str, Type]:
        """An address that is not contiguous: a pointer, and an index per lane."""
        form = self.facts.affine[index]
        stride = self._stride(index)
        small = self._sizes[number] < 1 << 31
        t = index_type(self.lanes, small)
        if stride is not None:
            terms, constant = self.terms(form, at)
            p = self.access.pointer(base, terms, constant, size)
            return p, t.lanewise([stride * lane for lane in range(t.lanes)]), t
        # The sum is an element's number where the access is valid: 32 bits hold it
        # even if they do not hold a part of it.
        total = ""
        uniform = Affine(
            form.constant, {a: c for a, c in form.terms.items() if not self.varies(a)}
        )
        for atom, coefficient in form.terms.items():
            if self.varies(atom):
                part = self._as(atom, t, at)
                if coefficient != 1:
                    part = self.ops.binary("mul", t, part, t.constant(coefficient))
                total = self.ops.binary("add", t, total, part) if total else part
        terms, constant = self.terms(uniform, at)
        if not terms:
            return self.access.pointer(base, [], 0, size), self._shift(total, t, constant), t
        start = self.access.sum_terms(terms, constant)
        if t.bits == 32:
            start = self.writer.pure(f"trunc i64 {start} to i32", start)
        total = self.ops.binary("add", t, total, self.ops.splat(start, t))
        return base, total, t

    def _shift(self, index: str, t: Type, by: int) -> str:
        return self.ops.binary("add", t, index, t.constant(by)) if by else index

    # Stores.

    def store(self, store: Store, at: At) -> None:
        """One copy of a store."""
        v = self.vector
        base = self.buffer(store.buffer)
        size = store.value.dtype.itemsize
        form = self.facts.affine[store.index]
        if v is None or not any(self.varies(e) for e in store.expressions):
            terms, constant = self.terms(form, at)
            p = self.access.pointer(base, terms, constant, size)
            if store.valid is not None:
                p = self.access.or_sink(p, self.value(store.valid, at))
            t = Type.of(store.value.dtype, 0)
            self._store_value(store, t, self.plain(store.value, 0, at), p, at, None)
            return
        t = Type.of(store.value.dtype, v.lanes)
        value = self.plain(store.value, v.lanes, at)
        mask = self.mask(at)
        if store.valid is not None:
            valid = self._wide(store.valid, v.lanes, at)
            mask = and_masks(self.ops, v.lanes, valid, mask)
        stride = self._stride(store.index)
        if stride in (1, -1):
            terms, constant = self.terms(form, at)
            if stride < 0:
                constant -= v.lanes - 1
                value = self.ops.reverse(t, value)
                if mask is not None:
                    mask = self.ops.reverse(mask_type(v.lanes), mask)
            p = self.access.pointer(base, terms, constant, size)
            self._store_value(store, t, value, p, at, mask)
            return
        p, index, kind = self._scattered_store(store, base, size, at)
        if store.combine:
            old = self.access.gather(t, p, index, kind, mask, True)
            value = self.ops.apply(store.combine, t, old, value)
        self.access.scatter(t, value, p, index, kind, mask)

    def may_pair(self, first: Store, second: Store) -> bool:
        """Do two stores fill places side by side, so that together they are whole?"""
        if first.buffer != second.buffer or first.combine or second.combine:
            return False
        if first.valid is not None or second.valid is not None:
            return False
        a, b = self.facts.affine[first.index], self.facts.affine[second.index]
        if b.constant != a.constant + 1 or a.terms != b.terms:
            return False
        return self.vector is not None and self._stride(first.index) == 2

    def store_pair(self, first: Store, second: Store, at: At) -> None:
        """One copy of two stores that `may_pair`: their values in turn."""
        v = self.vector
        assert v is not None
        t = Type.of(first.value.dtype, v.lanes)
        a, b = (self.plain(s.value, v.lanes, at) for s in (first, second))
        terms, constant = self.terms(self.facts.affine[first.index], at)
        base, masked = self.buffer(first.buffer), self.mask(at) is not None
        for n, value in enumerate(self.ops.interleave(t, a, b)):
            p = self.access.pointer(base, terms, constant + n * v.lanes, t.bytes)
            existing = 2 * v.existing - n * v.lanes
            if not masked or existing >= v.lanes:
                self.access.store(t, value, p)
            elif existing > 0:
                mask = first_lanes(v.lanes, existing)
                self.access.store_masked(t, value, p, mask)

    def _scattered_store(
        self, store: Store, base: str, size: int, at: At
    ) -> tuple[str, str, Type]:
        if self.varies(store.index):
            return self._scattered(store.index, base, size, store.buffer, at)
        terms, constant = self.terms(self.facts.affine[store.index], at)
        t = index_type(self.lanes, True)
        return self.access.pointer(base, terms, constant, size), t.zero, t

    def plain(self, node: Node, lanes: int, at: At) -> str:
        """A value in `lanes` lanes as it is stored: an index in all its 64 bits."""
        text = self._wide(node, lanes, at)
        own = self.type_of(node)
        if node.dtype is INDEX and own.lanes and own.bits == 32:
            return self.ops.convert("sext", own, Type.of(node.dtype, lanes), text)
        return text

    def _store_value(
        self, store: Store, t: Type, value: str, p: str, at: At, mask: str | None
    ) -> None:
        if store.combine:
            if mask is None:
                old = self.access.load(t, p, True)
            else:
                old = self.access.load_masked(t, p, mask, True)
            value = self.ops.apply(store.combine, t, old, value)
        if mask is None:
            self.access.store(t, value, p)
        else:
            self.access.store_masked(t, value, p, mask)
