"""The memory plan: which parts of one arena hold the values between kernels.

A value lives from the step that writes it to the last step that reads it. Values whose
lives do not overlap may share memory: each takes the lowest place in the arena that is
free while it lives, the largest first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ftrace.ground.fast_dataclasses import dataclass

ALIGNMENT = 128


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
    needs = [-(-max(v.nbytes, 1) // ALIGNMENT) * ALIGNMENT for v in lifetimes]
    placed = _Placed(len(needs))
    offsets = [0] * len(needs)
    for i in sorted(range(len(needs)), key=lambda i: (-lifetimes[i].nbytes, i)):
        offsets[i] = placed.lowest_gap(lifetimes[i], needs[i])
        placed.add(offsets[i], needs[i], lifetimes[i])
    size = max([o + n for o, n in zip(offsets, needs, strict=True)], default=0)
    return MemoryPlan(tuple(offsets), size)


class _Placed:
    """The values that have a place, in the order of their places.

    They are rows of numbers, compared all at once: thousands of values that live from a
    forward to a backward pass all overlap.

    Args:
      most: how many there will be.
    """

    def __init__(self, most: int) -> None:
        self._count = 0
        # Rows: offset, end, first step, last step.
        self._rows = np.zeros((4, most), np.int64)

    def lowest_gap(self, life: Lifetime, need: int) -> int:
        """The lowest offset from which `need` bytes are free while a value lives."""
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
