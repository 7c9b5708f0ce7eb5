"""A recurrence as LLVM IR: its registers are phi nodes, its lanes a vector.

Lanes are the elements of vectors, several vectors side by side where the processor
would otherwise wait for the last operation; groups of them are the units that threads
share. Where a loop ends in each lane at a time of its own, a lane that is done keeps
its values, and the loop goes on until all are. The last group of lanes begins earlier
where the others leave fewer: its first lanes are computed twice, which needs no masks.

A sum has its terms one after the other, and is the same for any number of lanes.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager

from ftrace.backends.llvm.emit import module as emit
from ftrace.backends.llvm.emit.emit_memory import Values
from ftrace.backends.llvm.emit.emit_values import At, Opened
from ftrace.backends.llvm.ir import writer as llvm
from ftrace.backends.llvm.schedule.index_facts import Facts
from ftrace.backends.llvm.schedule.loop_tiling import in_registers
from ftrace.backends.llvm.target import Target
from ftrace.lower.kernel.ir import Store, axis_of, free_ranges, load_p
from ftrace.lower.register_loops import register_loop as rl
from ftrace.trace.graph import Node, constant_value

#: A register by the number of its buffer, and which of its scalars.
Register = tuple[int, int]
#: Operations until the kernel asks again whether to stop.
LEFT: Register = (-1, 0)

#: Vectors side by side at most: measured, four are best where their registers fit.
_VECTORS = 4
#: Vector registers that these may fill; the others are for what is between. With 4 a
#: Mandelbrot set has half as many vectors side by side, with 64 only a loop in a loop
#: has more.
_FILLED = 16


def register_of(node: Node) -> Register | None:
    """The register that a load reads; None for any other node."""
    if node.op is not load_p or node.src[0].arg < rl.FIRST_REGISTER:
        return None
    return int(node.src[0].arg), int(constant_value(node.src[1]))


def target_of(store: Store) -> Register | None:
    """The register that a store sets; None for one to memory."""
    if store.buffer < rl.FIRST_REGISTER:
        return None
    return store.buffer, int(constant_value(store.index))


def registers_set(block: Sequence[rl.Statement]) -> dict[Register, None]:
    """The registers that a block sets, in order."""
    stores = (s for a in rl.assigns(block) for s in a.stores)
    return dict.fromkeys(r for s in stores if (r := target_of(s)) is not None)


def varying_registers(recurrence: rl.Recurrence) -> set[Register]:
    """Those that differ from lane to lane."""
    found, before = set[Register](), -1
    while recurrence.axes and len(found) != before:
        before = len(found)
        free = free_ranges(recurrence.nodes, of_lanes(recurrence, found))
        blocks = [recurrence.block]
        for block in blocks:
            for statement in block:
                if isinstance(statement, rl.Repeat):
                    blocks.append(statement.block)
                    if (statement.predicate, 0) in found:
                        found.update(registers_set(statement.block))
                    continue
                for store in statement.stores:
                    register = target_of(store)
                    if register is not None and free[store.value] & {*recurrence.axes}:
                        found.add(register)
    return found


def of_lanes(
    recurrence: rl.Recurrence, registers: set[Register]
) -> dict[Node, frozenset[Node]]:
    """The loads of registers, which depend on the lane."""
    lanes = frozenset(recurrence.axes)
    return {n: lanes for n in recurrence.nodes if register_of(n) in registers}


def lanes_for(recurrence: rl.Recurrence, varying: set[Register], target: Target) -> int:
    """How many lanes are computed at once; 0 where there are none."""
    if not recurrence.axes:
        return 0
    size = axis_of(recurrence.axes[0]).size
    widest = max([4, *(s.dtype.itemsize for s in recurrence.registers)])
    lanes = target.vector_bytes // widest
    while lanes > size:
        lanes //= 2
    most, vectors = min(_VECTORS, _FILLED // max(len(varying), 1)), 1
    while 2 * vectors <= most and 2 * vectors * lanes * target.cores <= size:
        vectors *= 2
    return lanes * vectors


class Registers(Values):
    """Emits assignments, of which some are to registers.

    Args:
      varying: the registers that differ from lane to lane.

    Attributes:
      width: how many lanes are computed at once; 0 where there are none.
      held: what is in each register now.
      types: of what is in them.
    """

    def __init__(
        self,
        recurrence: rl.Recurrence,
        target: Target,
        nontemporal: frozenset[int],
        writer: llvm.Writer,
        varying: set[Register],
        width: int,
    ) -> None:
        axes, free = recurrence.axes, of_lanes(recurrence, varying)
        aligned = not width or axis_of(axes[0]).size % width == 0
        facts = Facts([*recurrence.nodes, *axes], free, aligned)
        held = in_registers(recurrence, facts, target)
        super().__init__(writer, facts, target, recurrence.buffers, nontemporal, held)
        self.recurrence, self.width = recurrence, width
        self.held: dict[Register, str] = {}
        self.types: dict[Register, llvm.Type] = {}
        for statement in rl.assigns(recurrence.block):
            for store in statement.stores:
                register = target_of(store)
                if register is not None:
                    lanes = width if register in varying else 0
                    self.types[register] = llvm.Type.of(store.value.dtype, lanes)

    def elements(self, place: str, count: int) -> AbstractContextManager[None]:
        """Inside, so many elements are open, from a place on."""
        (axis,), lanes, level = self.recurrence.axes, self.width, self.writer.level
        existing = count if count < lanes else 0
        masks = (llvm.first_lanes(lanes, count) if existing else None,)
        opened = Opened(axis, place, level, lanes=lanes, masks=masks, existing=existing)
        return self.within(opened)

    def first_of(self, group: str, width: int, size: int) -> str:
        """Where a group of elements begins: earlier where the others leave fewer."""
        first = self.access.sum_terms([(width, group)])
        if size % width:
            first = llvm.lowest(self.writer, first, size - width)
        return first

    def load(self, node: Node, at: At) -> str:
        register = register_of(node)
        return super().load(node, at) if register is None else self.held[register]

    def assign(self, stores: Sequence[Store]) -> dict[Register, str]:
        """Stores to memory; returns what the registers get."""
        found: dict[Register, str] = {}
        outside: list[Store] = []
        for store in stores:
            register = target_of(store)
            if register is None:
                outside.append(store)
            else:
                lanes = self.types[register].lanes
                found[register] = self.plain(store.value, lanes, ())
        outside.sort(key=lambda s: (s.buffer, self.facts.affine[s.index].constant))
        for group in self.group(outside):
            self.store_group(group, ())
        return found

    def hold(self, registers: Iterable[Register], texts: Iterable[str]) -> None:
        """From now on registers hold this."""
        self.held.update(zip(registers, texts, strict=True))
        self.forget()

    @contextmanager
    def loop(
        self,
        start: int,
        stop: int,
        step: int,
        carried: Sequence[Register],
        entry: str = "",
    ) -> Generator[llvm.OpenLoop, None, None]:
        """A loop that hands on what registers hold."""
        writer, bounds = self.writer, (llvm.literal(start), llvm.literal(stop), step)
        firsts = [(self.types[r].text, self.held[r]) for r in carried]
        with writer.fold(*bounds, firsts, entry=entry) as loop:
            self.hold(carried, loop.values)
            yield loop
            loop.following = [self.held[r] for r in carried]
        self.hold(carried, loop.values)


class RegisterLoop(Registers):
    """Emits the statements of a legal recurrence."""

    def __init__(
        self, recurrence: rl.Recurrence, target: Target, nontemporal: frozenset[int]
    ) -> None:
        varying = varying_registers(recurrence)
        width = lanes_for(recurrence, varying, target)
        writer = llvm.Writer()
        super().__init__(recurrence, target, nontemporal, writer, varying, width)
        self.types[LEFT], self.held[LEFT] = llvm.index_type(0, False), str(emit.LONG)

    # Statements.

    def block(self, statements: Sequence[rl.Statement]) -> None:
        for statement in statements:
            if isinstance(statement, rl.Repeat):
                self.repeat(statement)
                continue
            found = self.assign(statement.stores)
            if found:
                self.hold(found, found.values())

    def repeat(self, statement: rl.Repeat) -> None:
        carried = [r for r in registers_set(statement.block) if r in self.held]
        predicate, times, entry = (statement.predicate, 0), statement.times, ""
        if times is None:
            # A lane that does not run the loop around this one need not run this one.
            lanes = self.types[predicate].lanes
            active = self.active if lanes else None
            first = self.ops.all_of(lanes, self.held[predicate], active)
            assert first is not None
            self.held[predicate] = first
            entry = self.any(predicate)
        polls = emit.may_be_long(statement)
        length = 1 if times is None else axis_of(times).size
        with self.loop(0, length, 1, [*carried, *[LEFT] * polls], entry) as loop:
            if polls:
                each = emit.lasting(statement.block)
                self.held[LEFT] = emit.poll(self.writer, self.held[LEFT], each)
            if times is None:
                loop.again = self._iteration(statement, carried)
            else:
                with self.within(Opened(times, loop.index, self.writer.level)):
                    self.block(statement.block)

    def _iteration(self, statement: rl.Repeat, carried: Sequence[Register]) -> str:
        """One iteration of a while; returns whether there is another."""
        predicate = statement.predicate, 0
        if not self.types[predicate].lanes:
            self.block(statement.block)
            return self.held[predicate]
        before = {r: self.held[r] for r in carried}
        outer, self.active = self.active, self.held[predicate]
        on = self.active
        self.block(statement.block)
        for register, old in before.items():
            t, new = self.types[register], self.held[register]
            if register == predicate:
                self.held[register] = self.ops.binary("and", t, on, new)
            else:
                self.held[register] = self.ops.select(on, t, new, old)
        self.active = outer
        return self.any(predicate)

    def any(self, predicate: Register) -> str:
        """Does a predicate hold in some lane?"""
        return self.ops.any_lane(self.held[predicate], self.types[predicate].lanes)

    def units(self) -> int:
        """Each unit is a vector of lanes. Returns how many there are."""
        recurrence, lanes = self.recurrence, self.width
        if not lanes:
            self.block(recurrence.block)
            return 1
        size = axis_of(recurrence.axes[0]).size
        with self.writer.units() as unit:
            first = self.first_of(unit, lanes, size)
            with self.elements(first, lanes):
                self.block(recurrence.block)
        return -(-size // lanes)
