"""Convolutions: products whose right operand slides along an axis of the columns.

    out[i, p] = f(the sum over c, t of left(i, c, t) · right(c, p + t), …)

A unit is a block of rows and of lines of columns. The right operand is evaluated once
for each line, not for each pair of a line and a tap, into a panel in which all columns
of the block are one flat axis, and each tap a constant distance. Taps of windows along
the other axes are ranges like c: so nothing is stored beside a line, and no column is
computed that does not exist.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ftrace.backends.llvm.contraction.find import (
    Contraction,
    in_memory_order,
    plain_form,
)
from ftrace.backends.llvm.convolution.find import (
    Window,
    fill_cost,
    find_windows,
    is_sum_of_products,
)
from ftrace.backends.llvm.convolution.schedule import DEPTH, Operand, Sliding
from ftrace.backends.llvm.emit.blocked_ranges import Cut, cut_ranges
from ftrace.backends.llvm.schedule.index_facts import Facts
from ftrace.backends.llvm.schedule.tiling_ir import (
    register_tile,
    rows_together,
    size_of,
)
from ftrace.backends.llvm.target import Target
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.lower.kernel.ir import Kernel
from ftrace.trace.graph import Node

#: Cycles of a block beside its sums.
_BLOCK = 2000.0
#: Blocks of lines that are considered, and parts of the rows.
_MOST_BLOCKS = 32
_PARTS = (1, 2, 4, 8)
#: Bytes of a line of the cache. Vectors as long as one come from the second cache in
#: time; of shorter ones a tile takes several times as long, unless all that it reads
#: stays in the first: two of them for each term are this part of it.
LINE = 64
_NEAR = 8
#: Outer places that a block takes side by side: so many columns are enough.
_ENOUGH_COLUMNS = 512


class Blocks(NamedTuple):
    """How the columns and rows of a convolution are cut.

    Attributes:
      lines: how many values of the window's column a block has.
      beside: places that a block has of the axis outside of it, where all lines are in
        a block; each line has them side by side.
      parts: blocks of rows.
    """

    lines: int
    beside: int
    parts: int


def find_sliding(
    kernel: Kernel, plan: Contraction, facts: Facts, target: Target
) -> Sliding | None:
    """The contraction as a convolution, where that pays."""
    if len(plan.rows) != 1 or not is_sum_of_products(kernel, plan):
        return None
    found = [
        _Choice(plan, window, facts, target)
        for window in find_windows(plan.right[0], plan.columns, plan.ranges, facts)
    ]
    pairs = [(cycles, c) for c in found if (cycles := c.cycles) is not None]
    return min(pairs, key=lambda pair: pair[0])[1].schedule() if pairs else None


class _Choice:
    """The best blocks of a contraction with a window, by about how long they take.

    Attributes:
      inner: columns inside the window's; there are `width` of them.
      beside: places of the axis outside of it.
      deep: terms of a block of what is summed over, beside the taps.
      cycles: of the best blocks; None where this does not pay.
    """

    def __init__(
        self, plan: Contraction, window: Window, facts: Facts, target: Target
    ) -> None:
        self.plan, self.window = plan, window
        self.facts, self.target = facts, target
        (self.left,), (self.right,), (self.row,) = plan.left, plan.right, plan.rows
        at = plan.columns.index(window.column)
        self.outer = (*plan.outer, *plan.columns[:at])
        self.beside, self.inner = plan.columns[:at][-1:], plan.columns[at + 1 :]
        self.width = prod(map(size_of, self.inner))
        others = [r for r in plan.ranges if r is not window.tap]
        self.others = in_memory_order([self.left], others, facts)
        self.item = item = self.right.dtype.itemsize
        self.lanes = target.vector_bytes // item
        terms = DEPTH * 4 // item
        if target.vector_bytes < LINE:
            terms = min(terms, target.l1 // (_NEAR * target.vector_bytes))
        self.deep = max(terms // window.taps, 1)
        self.depth = prod(map(size_of, plan.ranges))
        self.in_place = plain_form(self.left, facts) is not None
        row = self.row if self.in_place else None
        self.together = rows_together([self.left], row, facts)
        last = self.inner[-1] if self.inner else window.column
        fill, length = fill_cost(self.right, last, facts, self.lanes), size_of(last)
        self.cycles: float | None = None
        candidates = self._candidates()
        if fill is not None and candidates:
            self.fill = fill / (length / -(-length // self.lanes))  # of an element
            found = [(self._cycles(blocks), blocks) for blocks in candidates]
            cycles, self.blocks = min(found, key=lambda pair: pair[0])
            if self._without() >= cycles * 0.9:
                self.cycles = cycles

    def schedule(self) -> Sliding:
        """With the best blocks."""
        window, blocks, target = self.window, self.blocks, self.target
        columns, outer = self._cut_columns()
        each = self.width * blocks.beside * window.lines(blocks.lines)
        room = target.l2 // 2 // (each * self.item)
        depth = cut_ranges(self.others, max(min(self.deep, room), 1))
        height = size_of(self.row) // blocks.parts
        vectors = -(-columns.length // self.lanes)
        tile = register_tile(height, vectors, target.registers, self.together)
        split, size = columns.split, columns.size
        return Sliding(
            self.plan, self.lanes, (window,), self.right,
            Operand(self.left, self.row, self.in_place), outer,
            Cut.of_first([self.row], height), columns, depth, columns,
            (tile.rows, tile.vectors), channels_last=False, adds=depth.several,
            cleared=split is not None and size_of(split) % size > 0,
        )  # fmt: skip

    def _cut_columns(self) -> tuple[Cut, tuple[Node, ...]]:
        """Blocks of columns, and the axes around them."""
        column, blocks = self.window.column, self.blocks
        inside = (column, *self.inner)
        if blocks.beside == 1:
            return Cut.of_first(inside, blocks.lines), self.outer
        order = (column, *self.beside, *self.inner)
        return Cut((), self.beside[0], blocks.beside, inside, order), self.outer[:-1]

    def _candidates(self) -> list[Blocks]:
        """Blocks whose panels fit into the second cache; else the smallest."""
        found = [(self._bytes(blocks), blocks) for blocks in self._shapes()]
        least = min((size for size, _ in found), default=0)
        room = max(self.target.l2 * 3 // 4, least)
        return [blocks for size, blocks in found if size <= room]

    def _shapes(self) -> Iterator[Blocks]:
        height, lines = size_of(self.row), size_of(self.window.column)
        shapes: list[tuple[int, int]] = []
        for count in (*range(1, _MOST_BLOCKS), *(n * lines // 8 for n in range(1, 9))):
            size = -(-lines // max(count, 1))
            even = lines % size == 0 and size % self.lanes == 0
            if self.inner or size == lines or even:
                shapes.append((size, 1))
        if self.beside and self.inner:
            places = size_of(*self.beside)
            most = min(places, max(_ENOUGH_COLUMNS // (lines * self.width), 1))
            shapes += [(lines, n) for n in range(2, most + 1)]
        for size, beside in dict.fromkeys(shapes):
            for parts in _PARTS:
                rows = height // parts
                if height % parts == 0 and (parts == 1 or rows >= 8):
                    yield Blocks(size, beside, parts)

    def _bytes(self, blocks: Blocks) -> int:
        """Of the panels of a block."""
        positions = min(prod(map(size_of, self.others)), self.deep)
        rows = size_of(self.row) // blocks.parts
        lines = positions * self.window.lines(blocks.lines) + rows * blocks.lines
        return lines * self.width * blocks.beside * self.item

    def _cycles(self, blocks: Blocks) -> float:
        """Of all units, on all cores."""
        lines, columns = blocks.lines, blocks.lines * self.width * blocks.beside
        evaluated = self.window.share(lines) * columns * self.depth
        each = self._unit(size_of(self.row) // blocks.parts, columns, evaluated)
        units = prod(map(size_of, self.outer)) * blocks.parts
        units *= -(-size_of(self.window.column) // lines)
        if blocks.beside > 1:
            places = size_of(*self.beside)
            units = units // places * -(-places // blocks.beside)
        return each * -(-units // self.target.cores)

    def _unit(self, rows: int, columns: int, evaluated: float) -> float:
        vectors = -(-columns // self.lanes)
        tile = register_tile(rows, vectors, self.target.registers, self.together)
        return tile.cycles * self.depth + self.fill * evaluated + _BLOCK

    def _without(self) -> float:
        """Where each column is evaluated for each tap, in blocks of many places."""
        lines = size_of(self.window.column)
        wide = prod(map(size_of, self.outer)) * lines * self.width
        some = min(wide, 12 * self.lanes)
        each = self._unit(size_of(self.row), some, some * self.depth)
        return each * max(wide / some, 1) / self.target.cores
