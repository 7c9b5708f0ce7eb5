"""The memory plan: which parts of one arena hold the values between kernels.

A value lives from the step that writes it to the last step that reads it. Values whose
lives do not overlap may share memory: each takes the lowest place in the arena that is
free while it lives, the largest first.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import pairwise
from operator import itemgetter

import numpy as np

from ftrace.ground.fast_dataclasses import dataclass

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
    needs = [-(-max(v.nbytes, 1) // ALIGNMENT) * ALIGNMENT for v in lifetimes]
    order = sorted(range(len(needs)), key=lambda i: (-lifetimes[i].nbytes, i))
    alike = [i for i in order if needs[i] == needs[order[0]]]
    if any(lifetimes[i].first > lifetimes[k].first for i, k in pairwise(alike)):
        alike = []
    offsets = [0] * len(needs)
    for i, column in zip(alike, _columns(lifetimes, alike), strict=True):
        offsets[i] = column * needs[i]
    rest = order[len(alike) :]
    spans = [(offsets[i], offsets[i] + needs[i], lifetimes[i]) for i in alike]
    spans.sort(key=itemgetter(0))
    placed = _ManyPlaced(spans, len(rest)) if len(needs) > MANY else _Placed(spans)
    for i in rest:
        offsets[i] = placed.lowest_gap(lifetimes[i], needs[i])
        placed.add(offsets[i], needs[i], lifetimes[i])
    size = max([o + n for o, n in zip(offsets, needs, strict=True)], default=0)
    return MemoryPlan(tuple(offsets), size)


def _columns(lifetimes: Sequence[Lifetime], alike: Sequence[int]) -> Iterator[int]:
    """The places of values of one size, the first to live first: the lowest free."""
    free: list[int] = []
    taken: list[tuple[int, int]] = []  # by the steps that end it
    for i in alike:
        life = lifetimes[i]
        while taken and taken[0][0] < life.first:
            heappush(free, heappop(taken)[1])
        column = heappop(free) if free else len(taken)
        heappush(taken, (life.last, column))
        yield column


_Span = tuple[int, int, Lifetime]


class _Placed:
    """The values that have a place, in the order of their places."""

    def __init__(self, spans: list[_Span]) -> None:
        self._spans = spans

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
      spans: those that there are.
      more: how many there will be beside them.
    """

    def __init__(self, spans: list[_Span], more: int) -> None:
        self._count = len(spans)
        # Rows: offset, end, first step, last step.
        self._rows = np.zeros((4, len(spans) + more), np.int64)
        starts, ends = [s for s, _, _ in spans], [e for _, e, _ in spans]
        lives = [v.first for _, _, v in spans], [v.last for _, _, v in spans]
        self._rows[:, : len(spans)] = starts, ends, *lives

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
