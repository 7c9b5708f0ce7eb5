"""What of a recurrence differs from lane to lane, and how many lanes run at once."""

from __future__ import annotations

from collections.abc import Sequence

from ftrace.devices.llvm.target import Target
from ftrace.lower.kernel import Store, axis_of, load_p
from ftrace.lower.recurrence import (
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
