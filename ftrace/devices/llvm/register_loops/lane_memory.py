"""What of a recurrence differs from lane to lane, and its loads and stores.

They are of a lane's element, or of those of all lanes at once:

contiguous   the index grows by 1 from lane to lane
rows         by 2 or 4, and all of a row is read or written: vectors side by side
gather       any other way; lanes that have ended read nothing
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from ftrace import dtypes
from ftrace.devices.llvm.emit.addressing import Access, Term
from ftrace.devices.llvm.ir.types import Type, mask_type
from ftrace.devices.llvm.ir.writer import Writer
from ftrace.devices.llvm.scalar.ops import Operations, and_masks
from ftrace.devices.llvm.scalar.straight_line import Expressions
from ftrace.devices.llvm.schedule.index_facts import Facts
from ftrace.devices.llvm.target import Target
from ftrace.lower.kernel.ir import Store, axis_of, load_p, range_p
from ftrace.lower.register_loops.register_loop import (
    FIRST_REGISTER,
    Assign,
    Recurrence,
    Statement,
    assigns,
)
from ftrace.trace.graph import Node, constant_value, toposort

#: A register by the number of its buffer, and which of its scalars.
Register = tuple[int, int]

#: Vectors side by side at most: measured, four are best where their registers fit.
_VECTORS = 4
#: Vector registers that these may fill; the others are for what is between.
_FILLED = 16


def register_of(node: Node) -> Register | None:
    """The register that a load reads; None for any other node."""
    if node.op is not load_p:
        return None
    number: int = node.src[0].arg
    if number < FIRST_REGISTER:
        return None
    return number, int(constant_value(node.src[1]))


def target_of(store: Store) -> Register | None:
    """The register that a store sets; None for one to memory."""
    if store.buffer < FIRST_REGISTER:
        return None
    return store.buffer, int(constant_value(store.index))


def registers_set(block: Sequence[Statement]) -> dict[Register, None]:
    """The registers that a block sets, in order."""
    stores = (s for a in assigns(block) for s in a.stores)
    return dict.fromkeys(r for s in stores if (r := target_of(s)) is not None)


class Variation:
    """Which expressions differ from lane to lane."""

    def __init__(self, recurrence: Recurrence) -> None:
        self.lane = recurrence.axes[0] if recurrence.axes else None
        self.registers: set[Register] = set()
        self._known: dict[Node, bool] = {}
        if self.lane is None:
            return
        before = -1
        while len(self.registers) != before:
            before = len(self.registers)
            self._known = {}
            self._spread(recurrence.block)

    def _spread(self, block: Sequence[Statement]) -> None:
        for statement in block:
            if isinstance(statement, Assign):
                for store in statement.stores:
                    register = target_of(store)
                    if register is not None and self.of(store.value):
                        self.registers.add(register)
                continue
            self._spread(statement.block)
            if (statement.predicate, 0) in self.registers:
                self.registers.update(registers_set(statement.block))

    def of(self, node: Node) -> bool:
        if self.lane is None:
            return False
        known = self._known
        if node not in known:
            for n in toposort([node]):
                if n in known:
                    continue
                register = register_of(n)
                if register is not None:
                    known[n] = register in self.registers
                else:
                    known[n] = n is self.lane or any(known[s] for s in n.src)
        return known[node]


def lanes_for(recurrence: Recurrence, variation: Variation, target: Target) -> int:
    """How many lanes are computed at once; 0 where there are none."""
    if not recurrence.axes:
        return 0
    size = axis_of(recurrence.axes[0]).size
    widest = max([4, *(s.dtype.itemsize for s in recurrence.registers)])
    lanes = target.vector_bytes // widest
    while lanes > size:
        lanes //= 2
    held = max(len(variation.registers), 1)
    vectors = 1
    while (
        2 * vectors <= min(_VECTORS, _FILLED // held)
        and 2 * vectors * lanes * target.cores <= size
    ):
        vectors *= 2
    return lanes * vectors


def stores_of(recurrence: Recurrence) -> list[Store]:
    """All stores, in order."""
    return [s for a in assigns(recurrence.block) for s in a.stores]


class LaneMemory(Expressions, ABC):
    """Emits expressions of some or one lane, and accesses to memory.

    Args:
      recurrence: as `legalize_registers` leaves it.
      variation: of it.
      lanes: of a vector; 0 where it has none.
      writer: into which.

    Attributes:
      ranges: the value of each range now; of the lanes, that of the first one.
      active: the lanes that have not ended; None is all.
    """

    def __init__(
        self,
        recurrence: Recurrence,
        target: Target,
        variation: Variation,
        lanes: int,
        writer: Writer,
    ) -> None:
        self.recurrence = recurrence
        self.target = target
        self.variation = variation
        self.writer = writer
        super().__init__(Operations(writer, target), recurrence.nodes, lanes, self.read)
        self.access = Access(writer, self.ops)
        self.ranges: dict[Node, str] = {}
        self.active: str | None = None
        indices = [n.src[1] for n in recurrence.nodes if n.op is load_p]
        indices += [s.index for s in stores_of(recurrence)]
        self.facts = Facts([*indices, *recurrence.axes])

    @abstractmethod
    def read(self, node: Node) -> str:
        """The value of a load or of a range."""

    def lanes_of(self, node: Node) -> int:
        return self.lanes if self.variation.of(node) else 0

    def wide(self, node: Node, lanes: int) -> str:
        """A value in every lane."""
        text = self.value(node)
        if lanes and not self.variation.of(node):
            return self.ops.splat(text, Type.of(node.dtype, lanes))
        return text

    def _buffer(self, number: int) -> str:
        pure = self.writer.pure
        place = "%buffers"
        if number:
            place = pure(f"getelementptr ptr, ptr %buffers, i64 {number}")
        return pure(f"load ptr, ptr {place}, align 8", place)

    def _address(self, index: Node) -> tuple[list[Term], list[Term], int, int]:
        """Terms that are one for all lanes, those that are not; stride; constant."""
        form = self.facts.affine[index]
        same: list[Term] = []
        apart: list[Term] = []
        for atom, coefficient in form.terms.items():
            if atom.op is range_p:
                same.append((coefficient, self.ranges[atom]))
            else:
                varies = self.variation.of(atom)
                (apart if varies else same).append((coefficient, self.value(atom)))
        lane = self.variation.lane
        stride = 0 if lane is None else form.terms.get(lane, 0)
        return same, apart, stride, form.constant

    def load(self, node: Node) -> str:
        buffer, index, *rest = node.src
        base, size = self._buffer(int(buffer.arg)), buffer.dtype.itemsize
        valid = rest[0] if rest else None
        same, apart, stride, constant = self._address(index)
        lanes = self.lanes_of(node)
        t = Type.of(node.dtype, lanes)
        mask = None if valid is None else self.value(valid)
        one = mask if valid is not None and not self.lanes_of(valid) else None
        if not lanes or (stride == 1 and not apart):
            p = self.access.pointer(base, same, constant, size)
            p = self.access.or_zeros(p, one)
            if mask is None or one is not None:
                return self.access.load(t, p, False)
            return self.access.load_masked(t, p, mask, False)
        if valid is None and self._is_rows(index, int(buffer.arg)) and not apart:
            p = self.access.pointer(base, same, constant - constant % stride, size)
            parts = [
                self.access.load(t, self._next(p, n * lanes * size), False)
                for n in range(stride)
            ]
            return self.ops.pick(t, parts, stride, constant % stride)
        if valid is not None:
            mask = self.wide(valid, lanes)
        mask = and_masks(self.ops, lanes, mask, self.active)
        place, offsets, kind = self._places(base, size, same, apart, stride, constant)
        return self.access.gather(t, place, offsets, kind, mask, False)

    def _places(
        self,
        base: str,
        size: int,
        same: list[Term],
        apart: list[Term],
        stride: int,
        constant: int,
    ) -> tuple[str, str, Type]:
        """A pointer, and for each lane a distance from it in elements."""
        t = Type.of(dtypes.int64, self.lanes)
        offsets = t.lanewise([stride * lane for lane in range(self.lanes)])
        for coefficient, value in apart:
            part = value
            if coefficient != 1:
                part = self.ops.binary("mul", t, value, t.constant(coefficient))
            offsets = self.ops.binary("add", t, part, offsets)
        return self.access.pointer(base, same, constant, size), offsets, t

    def _next(self, p: str, distance: int) -> str:
        """A pointer so many bytes further."""
        if not distance:
            return p
        return self.writer.pure(f"getelementptr i8, ptr {p}, i64 {distance}", p)

    def _is_rows(self, index: Node, buffer: int) -> bool:
        """Are the elements of all lanes in short rows that lie side by side?"""
        form = self.facts.affine[index]
        lane = self.variation.lane
        stride = 0 if lane is None else form.terms.get(lane, 0)
        return (
            stride in (2, 4)
            and self.recurrence.buffers[buffer].size % stride == 0
            and all(c % stride == 0 for c in form.terms.values())
        )

    def beside(self, stores: Sequence[Store]) -> dict[Store, Sequence[Store]]:
        """Stores that together fill rows: a first one with its group, and others."""
        groups: dict[object, list[Store]] = {}
        for store in stores:
            if target_of(store) is None and self._is_rows(store.index, store.buffer):
                form = self.facts.affine[store.index]
                stride = form.terms[self.recurrence.axes[0]]
                row = form.constant // stride
                key = store.buffer, stride, row, frozenset(form.terms.items())
                groups.setdefault(key, []).append(store)
        found: dict[Store, Sequence[Store]] = {}
        for group in groups.values():
            form = self.facts.affine[group[0].index]
            if len(group) == form.terms[self.recurrence.axes[0]]:
                found.update((store, ()) for store in group)
                found[group[0]] = group
        return found

    def store_beside(self, group: Sequence[Store]) -> None:
        """Whole rows of all lanes, by stores of vectors side by side."""
        order = sorted(group, key=lambda s: self.facts.affine[s.index].constant)
        first = order[0]
        same, _, stride, constant = self._address(first.index)
        t, size = Type.of(first.value.dtype, self.lanes), first.value.dtype.itemsize
        parts = [self.wide(s.value, self.lanes) for s in order]
        if stride == 4:
            a, b = (self.ops.interleave(t, parts[k::2]) for k in (0, 1))
            pairs = list(zip(a, b, strict=True))
        else:
            pairs = [(parts[0], parts[1])]
        rows = [row for pair in pairs for row in self.ops.interleave(t, pair)]
        p = self.access.pointer(self._buffer(first.buffer), same, constant, size)
        for n, row in enumerate(rows):
            self.access.store(t, row, self._next(p, n * self.lanes * size))

    def store(self, store: Store) -> None:
        """A store to memory."""
        base, size = self._buffer(store.buffer), store.value.dtype.itemsize
        same, apart, stride, constant = self._address(store.index)
        lanes = self.lanes if stride else 0
        assert not apart
        assert lanes or not self.lanes_of(store.value)
        t, value = Type.of(store.value.dtype, lanes), self.wide(store.value, lanes)
        p = self.access.pointer(base, same, constant, size)
        if stride in (0, 1):
            self.access.store(t, value, p)
            return
        p, offsets, kind = self._places(base, size, same, apart, stride, constant)
        everywhere = mask_type(lanes).constant(True)
        self.access.scatter(t, value, p, offsets, kind, everywhere)
