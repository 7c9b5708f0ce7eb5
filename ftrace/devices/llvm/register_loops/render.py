"""A recurrence as LLVM IR: its registers are phi nodes, its lanes a vector.

    recurrence -> Lines -> text

Lanes are the elements of vectors, several vectors side by side where the processor
would otherwise wait for the last operation; groups of them are the units that threads
share. Where a loop ends in each lane at a time of its own, a lane that is done keeps
its values, and the loop goes on until all are. The last group of lanes begins earlier
where the others leave fewer: its first lanes are computed twice, which needs no masks.

A sum has its terms one after the other, and is the same for any number of lanes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ftrace.devices.llvm.emit.interrupt_polls import LONG, lasting, may_be_long, poll
from ftrace.devices.llvm.emit.nontemporal_stores import module
from ftrace.devices.llvm.emit.rendered import Rendered
from ftrace.devices.llvm.ir.types import Type
from ftrace.devices.llvm.ir.writer import Writer, lowest
from ftrace.devices.llvm.register_loops.lane_memory import (
    LaneMemory,
    Register,
    Variation,
    lanes_for,
    register_of,
    registers_set,
    stores_of,
    target_of,
)
from ftrace.devices.llvm.runtime.work_estimate import WORTH_A_THREAD
from ftrace.devices.llvm.scalar.ops import and_masks
from ftrace.devices.llvm.target import Target
from ftrace.lower.kernel.ir import axis_of, load_p, range_p
from ftrace.lower.register_loops.register_loop import (
    Assign,
    Recurrence,
    Repeat,
    Statement,
)
from ftrace.trace.graph import Node

#: How much shorter a loop of unknown length may be than it is taken to be.
_SHORTER = 100


class Lines(LaneMemory):
    """Emits the statements of a legal recurrence.

    Attributes:
      held: what is in each register now.
      known: as long as the registers hold what they do.
      left: operations until the kernel asks again whether to stop.
    """

    def __init__(
        self,
        recurrence: Recurrence,
        target: Target,
        variation: Variation,
        lanes: int,
    ) -> None:
        super().__init__(recurrence, target, variation, lanes, Writer())
        self.held: dict[Register, str] = {}
        self.types: dict[Register, Type] = {}
        for store in stores_of(recurrence):
            register = target_of(store)
            if register is not None:
                width = lanes if register in variation.registers else 0
                self.types[register] = Type.of(store.value.dtype, width)
        self.left = str(LONG)

    # Statements.

    def block(self, statements: Sequence[Statement]) -> None:
        for statement in statements:
            if isinstance(statement, Assign):
                self.assign(statement)
            else:
                self.repeat(statement)

    def assign(self, statement: Assign) -> None:
        found: dict[Register, str] = {}
        beside = self.beside(statement.stores)
        for store in statement.stores:
            register = target_of(store)
            if register is not None:
                lanes = self.types[register].lanes
                found[register] = self.wide(store.value, lanes)
            elif store not in beside:
                self.store(store)
            elif beside[store]:
                self.store_beside(beside[store])
        if found:
            self.held.update(found)
            self.known.clear()

    def repeat(self, statement: Repeat) -> None:
        inside = registers_set(statement.block)
        carried = [r for r in inside if r in self.held]
        predicate = statement.predicate, 0
        if statement.predicate >= 0 and self.types[predicate].lanes:
            # A lane that does not run the loop around this one need not run this one.
            first = and_masks(self.ops, self.lanes, self.held[predicate], self.active)
            assert first is not None
            self.held[predicate] = first
        pairs = [(self.types[r].text, self.held[r]) for r in carried]
        times = statement.times
        length = 1 if times is None else axis_of(times).size
        entry = None if times is not None else self.any(predicate)
        polls = may_be_long(statement)
        if polls:
            pairs.append(("i64", self.left))
        loop = self.writer.open_loop("0", str(length), 1, pairs)
        names = [name for _, _, name in loop.carried]
        before = names[: len(carried)]
        self.held.update(zip(carried, before, strict=True))
        if polls:
            self.left = poll(self.writer, names[-1], lasting(statement.block))
        self.known.clear()
        if times is not None:
            self.ranges[times] = loop.index
        if entry is None:
            self.block(statement.block)
            updated = [self.held[r] for r in carried]
            updated += [self.left] if polls else []
            results = self.writer.close_loop(loop, updated)
        else:
            updated, again = self._iteration(statement, carried, before)
            updated.append(self.left)
            results = self.writer.close_while(loop, entry, again, updated)
        self.held.update(zip(carried, results, strict=False))
        if polls:
            self.left = results[-1]
        self.known.clear()

    def _iteration(
        self, statement: Repeat, carried: Sequence[Register], before: Sequence[str]
    ) -> tuple[list[str], str]:
        """What one iteration of a while hands on, and whether there is another."""
        predicate = statement.predicate, 0
        if not self.types[predicate].lanes:
            self.block(statement.block)
            return [self.held[r] for r in carried], self.held[predicate]
        outer, self.active = self.active, self.held[predicate]
        on = self.active
        self.block(statement.block)
        for register, old in zip(carried, before, strict=True):
            t = self.types[register]
            if register == predicate:
                new = self.ops.binary("and", t, on, self.held[register])
            else:
                new = self.ops.select(on, t, self.held[register], old)
            self.held[register] = new
        self.active = outer
        return [self.held[r] for r in carried], self.any(predicate)

    def any(self, predicate: Register) -> str:
        """Does a predicate hold in some lane?"""
        text, lanes = self.held[predicate], self.types[predicate].lanes
        if not lanes:
            return text
        pure = self.writer.pure
        bits = pure(f"bitcast <{lanes} x i1> {text} to i{lanes}", text)
        return pure(f"icmp ne i{lanes} {bits}, 0", bits)

    # Values.

    def needs(self, node: Node) -> Iterator[Node]:
        if node.op is not load_p:
            yield from super().needs(node)
        elif register_of(node) is None:
            terms = self.facts.affine[node.src[1]].terms
            yield from (atom for atom in terms if atom.op is not range_p)
            yield from node.src[2:]

    def read(self, node: Node) -> str:
        if node.op is range_p:
            return self._range(node)
        register = register_of(node)
        return self.load(node) if register is None else self.held[register]

    def _range(self, node: Node) -> str:
        text = self.ranges[node]
        if node is not self.variation.lane:
            return text
        t = Type.of(node.dtype, self.lanes)
        steps = t.lanewise(range(self.lanes))
        return self.ops.binary("add", t, self.ops.splat(text, t), steps)


def render_recurrence(recurrence: Recurrence, target: Target, name: str) -> Rendered:
    """The code of a legal recurrence, as function `name`."""
    writer, units = write_recurrence(recurrence, target)
    text = module(target, name, frozenset(), lambda _: writer)
    each = max(recurrence.operations // units, 1)
    if any(isinstance(s, Repeat) and s.times is None for s in recurrence.block):
        each //= _SHORTER  # a short loop must not wait for threads to wake
    return Rendered(text, units, -(-WORTH_A_THREAD // max(each, 1)))


def write_recurrence(recurrence: Recurrence, target: Target) -> tuple[Writer, int]:
    """The function of a legal recurrence, and how many units it has."""
    variation = Variation(recurrence)
    lanes = lanes_for(recurrence, variation, target)
    lines = Lines(recurrence, target, variation, lanes)
    if not lanes:
        lines.block(recurrence.block)
        return lines.writer, 1
    (axis,) = recurrence.axes
    size, writer = axis_of(axis).size, lines.writer
    unit = writer.open_loop("%begin", "%end", 1, guarded=True)
    first = lines.access.sum_terms([(lanes, unit.index)])
    if size % lanes:
        first = lowest(writer, first, size - lanes)
    lines.ranges[axis] = first
    lines.block(recurrence.block)
    writer.close_loop(unit)
    return writer, -(-size // lanes)
