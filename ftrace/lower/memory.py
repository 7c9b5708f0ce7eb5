"""The memory plan: which parts of one arena hold the values between kernels.

A value lives from the step that writes it to the last step that reads it. Values whose
lives do not overlap may share memory: each takes the lowest place in the arena that is
free while it lives, the largest first.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass

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
    offsets = [0] * len(lifetimes)
    placed: list[tuple[int, int, int, int]] = []  # offset, end, first, last; sorted
    size = 0
    order = sorted(range(len(lifetimes)), key=lambda i: (-lifetimes[i].nbytes, i))
    for i in order:
        life = lifetimes[i]
        need = -(-max(life.nbytes, 1) // ALIGNMENT) * ALIGNMENT
        offset = 0
        for start, end, first, last in placed:
            if last < life.first or first > life.last:
                continue
            if start - offset >= need:
                break
            offset = max(offset, end)
        offsets[i] = offset
        size = max(size, offset + need)
        insort(placed, (offset, offset + need, life.first, life.last))
    return MemoryPlan(tuple(offsets), size)
