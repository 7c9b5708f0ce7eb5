"""How each loop of a kernel runs: one by one, unrolled, or in the lanes of a vector."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

from ftrace import dtypes
from ftrace.devices.llvm.facts import Facts
from ftrace.devices.llvm.target import Target
from ftrace.lower.kernel import INDEX, Kernel, axis_of, load_p, param_p, range_p, reduce_p
from ftrace.lower.place import Let, Loop, ReduceLoop, Statement
from ftrace.lower.kernel import Store
from ftrace.trace.graph import Node


@dataclass(frozen=True)
class Steps:
    """How one range runs.

    Attributes:
      lanes: of the vector; 0 for one number at a time.
      copies: how often it is unrolled.
    """

    lanes: int = 0
    copies: int = 1

    @property
    def width(self) -> int:
        """How far one step goes."""
        return self.copies * max(self.lanes, 1)


@dataclass(frozen=True)
class Tiles:
    """A part of a range that is cut into equal tiles.

    Attributes:
      start: where the first begins.
      count: how many there are.
      copies: vectors (or numbers) in each.
      width: from one to the next.
      tail: lanes of the last vector that exist; 0 is all.
    """

    start: int
    count: int
    copies: int
    width: int
    tail: int = 0


def cut(size: int, steps: Steps) -> list[Tiles]:
    """A range in tiles: many whole ones, and what is left."""
    if not steps.lanes:
        return _cut_evenly(size, steps.copies)
    whole = size // steps.width
    parts: list[Tiles] = []
    if whole:
        parts.append(Tiles(0, whole, steps.copies, steps.width))
    rest = size - whole * steps.width
    if rest:
        vectors = -(-rest // steps.lanes)
        width = vectors * steps.lanes
        parts.append(Tiles(size - rest, 1, vectors, width, rest % steps.lanes))
    return parts


def _cut_evenly(size: int, copies: int) -> list[Tiles]:
    """As few tiles as `copies` allows, as equal as can be."""
    count = -(-size // copies)
    small, larger = divmod(size, count)
    parts: list[Tiles] = []
    if larger:
        parts.append(Tiles(0, larger, small + 1, small + 1))
    if count > larger:
        start = larger * (small + 1)
        parts.append(Tiles(start, count - larger, small, small))
    return parts


@dataclass(eq=False)
class Tiling:
    """The decisions for one kernel.

    Attributes:
      steps: how each range runs; one by one where it is not named.
      parallel: the loops, outermost first, whose iterations are the units.
      chunk: tiles of the last parallel loop that make a unit.
      work: operations in one unit, roughly.
    """

    steps: dict[Node, Steps] = field(default_factory=dict[Node, Steps])
    parallel: list[Loop] = field(default_factory=list[Loop])
    chunk: int = 1
    work: int = 1

    def of(self, node: Node) -> Steps:
        return self.steps.get(node, _ONE_BY_ONE)


_ONE_BY_ONE = Steps()
