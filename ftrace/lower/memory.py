"""The memory plan: which parts of one arena hold the values between kernels.

A value lives from the step that writes it to the last step that reads it. Values whose
lives do not overlap may share memory: each takes the lowest place in the arena that is
free while it lives, the largest first.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from operator import itemgetter

import numpy as np

from ftrace.records import dataclass

ALIGNMENT = 128
#: Values from which on it pays to compare them all at once.
MANY = 150


@dataclass(frozen=True)
class Lifetime:
    """A value of `nbytes` that lives from step `first` to `last`, both included."""

    nbytes: int
    first: int
    last: int


@dataclass(frozen=True)
class MemoryPlan:
    """Where each value lies.

    Attributes:
      offsets: in bytes, one per lifetime; multiples of `ALIGNMENT`.
      size: bytes of the arena.
    """

    offsets: tuple[int, ...]
    size: int


def plan_memory(lifetimes: Sequence[Lifetime]) -> MemoryPlan:
    """Packs values into an arena."""
    offsets = [0] * len(lifetimes)
    many = len(lifetimes) > MANY
    placed = _ManyPlaced(len(lifetimes)) if many else _Placed()
    size = 0
    order = sorted(range(len(lifetimes)), key=lambda i: (-lifetimes[i].nbytes, i))
    for i in order:
        life = lifetimes[i]
        need = -(-max(life.nbytes, 1) // ALIGNMENT) * ALIGNMENT
        offset = placed.lowest_gap(life, need)
        offsets[i] = offset
        size = max(size, offset + need)
        placed.add(offset, need, life)
    return MemoryPlan(tuple(offsets), size)


class _Placed:
    """The values that have a place, in the order of their places."""

    def __init__(self) -> None:
        self._spans: list[tuple[int, int, Lifetime]] = []

    def lowest_gap(self, life: Lifetime, need: int) -> int:
        """The lowest offset from which `need` bytes are free while a value lives."""
        offset = 0
        for start, end, other in self._spans:
            if other.last < life.first or other.first > life.last:
                continue
            if start - offset >= need:
                break
            offset = max(offset, end)
        return offset

    def add(self, offset: int, need: int, life: Lifetime) -> None:
        insort(self._spans, (offset, offset + need, life), key=itemgetter(0))


class _ManyPlaced:
    """The same for many values: rows of numbers, compared all at once.

    Thousands of values that live from a forward to a backward pass all overlap.

    Args:
      capacity: how many there will be.
    """

    def __init__(self, capacity: int) -> None:
        self._count = 0
        # Rows: offset, end, first step, last step.
        self._rows = np.zeros((4, capacity), np.int64)

    def lowest_gap(self, life: Lifetime, need: int) -> int:
        offset, end, first, last = self._rows[:, : self._count]
        living = (last >= life.first) & (first <= life.last)
        if not living.any():
            return 0
        ends = np.maximum.accumulate(end[living])
        before = np.concatenate(([0], ends[:-1]))  # where what lies below it ends
        fits = offset[living] - before >= need
        place = int(fits.argmax())
        return int(before[place] if fits[place] else ends[-1])

    def add(self, offset: int, need: int, life: Lifetime) -> None:
        rows, count = self._rows, self._count
        place = int(rows[0, :count].searchsorted(offset))
        rows[:, place + 1 : count + 1] = rows[:, place:count]
        rows[:, place] = offset, offset + need, life.first, life.last
        self._count += 1
