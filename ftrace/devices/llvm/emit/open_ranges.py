"""The ranges that are open while the body of a loop is written.

Each stands for one number, or for several *copies* (an unrolled loop), or for the
lanes of a vector, or both. A node that depends on the vector range is a vector, every
other a scalar; a node that depends on an unrolled range has a value for each copy.
`at` tells the copies: a number for each unrolled range that is open, in the order in
which they were opened.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

from ftrace.devices.affine_forms import Affine
from ftrace.devices.llvm.emit.addressing import Access, Term
from ftrace.devices.llvm.ir.types import Type, index_type
from ftrace.devices.llvm.ir.writer import Level, Writer
from ftrace.devices.llvm.scalar.ops import Operations
from ftrace.devices.llvm.schedule.index_facts import Facts
from ftrace.devices.llvm.target import Target
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.kernel.ir import INDEX, BufferSpec
from ftrace.trace.graph import Node
from ftrace.trace.symbolic.dim import is_dynamic

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
      abreast: its copies are computed instruction by instruction, not one by one.
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
    abreast: bool = False


class Ranges(ABC):
    """The open ranges, and the pointers to buffers.

    Attributes:
      vector: the vector range that is open.
      slots: how many unrolled ranges are open.
      streamed: aligned buffers, to which stores go past the caches.
      padded: scratch memory in which what lies beyond a row's end, up to a whole
        vector, may be read and written.
      dims: the sizes that are known at calls only, each with its place in a buffer
        of int64 behind the kernel's own.
    """

    def __init__(
        self,
        writer: Writer,
        facts: Facts,
        target: Target,
        buffers: Sequence[BufferSpec],
        streamed: frozenset[int] = frozenset(),
    ) -> None:
        self.writer = writer
        self.facts = facts
        self.ops = Operations(writer, target)
        self.access = Access(writer, self.ops, self.number)
        self.vector: Opened | None = None
        self.streamed = streamed
        self.padded: set[int] = set()
        self.slots = 0
        self._open: dict[Node, Opened] = {}
        self.sizes = [spec.size for spec in buffers]
        self.dims: dict[Any, int] = {}
        self._dims_at = len(buffers)
        self.fixed = {n for n, spec in enumerate(buffers) if spec.written}
        self._pointers: dict[int, str] = {}
        self._homes: dict[Node, tuple[At, Level]] = {}
        self._saved: list[dict[Node, tuple[At, Level]]] = []

    # What is written elsewhere: the values of expressions.

    @abstractmethod
    def value(self, node: Node, at: At) -> str:
        """A vector if the node varies from lane to lane, else a scalar."""

    @abstractmethod
    def lane0(self, node: Node, at: At) -> str:
        """An index in the first lane."""

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

    def number(self, size: Any) -> str:
        """A size as text: a dynamic one is read from the buffer behind all others."""
        if not is_dynamic(size):
            return str(size)
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

    def type_of(self, node: Node) -> Type:
        lanes = self.lanes if self.varies(node) else 0
        if node.dtype is INDEX:
            return index_type(lanes, lanes > 0 and self.facts.narrow(node))
        return Type.of(node.dtype, lanes)

    def home(self, node: Node) -> tuple[At, Level]:
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
                counts[r.slot] = r.copies
        return list(itertools.product(*map(range, counts)))

    def beside(self, at: At) -> list[At]:
        """The other copies of the vector, where they are computed abreast.

        What is rare is computed for one copy at a time.
        """
        v, anchor = self.vector, self.writer.anchor
        if v is None or not v.abreast or v.slot < 0:
            return []
        if anchor is not None and anchor.depth > v.level.depth:
            return []
        copies = [at[: v.slot] + (n,) + at[v.slot + 1 :] for n in range(v.copies)]
        return [copy for copy in copies if copy != at]

    def mask(self, at: At) -> str | None:
        """The lanes that exist in this copy of the vector range."""
        v = self.vector
        if v is None:
            return None
        return v.masks[at[v.slot] if v.slot >= 0 else 0]

    # Values in a type.

    def form_stride(self, form: Affine) -> int | None:
        """What an index grows by from lane to lane; None if that varies."""
        total = 0
        for atom, coefficient in form.terms.items():
            part = self.stride(atom)
            if part is None:
                return None
            total += coefficient * part
        return total

    def index_lanes(self, base: str, stride: int, t: Type) -> str:
        """The vector `base`, `base` + `stride`, … of type `t`."""
        if t.bits == 32 and base.startswith("%"):
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
        text = self.value(node, at)
        if lanes and not self.varies(node):
            return self.ops.splat(text, Type.of(node.dtype, lanes))
        return text

    def plain(self, node: Node, lanes: int, at: At) -> str:
        """A value in `lanes` lanes as it is stored: an index in all its 64 bits."""
        text = self.wide(node, lanes, at)
        own = self.type_of(node)
        if node.dtype is INDEX and own.lanes and own.bits == 32:
            return self.ops.convert("sext", own, Type.of(node.dtype, lanes), text)
        return text

    def index_as(self, node: Node, t: Type, at: At) -> str:
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
