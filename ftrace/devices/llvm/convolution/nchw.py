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

from ftrace.devices.llvm.contraction.find import Contraction
from ftrace.devices.llvm.contraction.find_windows import Window, find_windows
from ftrace.devices.llvm.convolution.find import (
    fill_cost,
    is_sum_of_products,
    step_sizes,
)
from ftrace.devices.llvm.convolution.schedule import (
    DEPTH,
    Operand,
    Sliding,
    is_even,
    with_taps,
)
from ftrace.devices.llvm.convolution.skip_padding import Seen, find_padding
from ftrace.devices.llvm.convolution.still_operand import can_look_through
from ftrace.devices.llvm.emit.blocked_ranges import Cut, cut_ranges
from ftrace.devices.llvm.schedule.index_facts import Facts
from ftrace.devices.llvm.schedule.tiling_ir import register_tile, rows_together, size_of
from ftrace.devices.llvm.target import Target
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.lower.kernel.ir import Kernel

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
    """The best blocks of a contraction with a window, by about how long they take."""

    def __init__(
        self, plan: Contraction, window: Window, facts: Facts, target: Target
    ) -> None:
        self.plan, self.window = plan, window
        self.facts, self.target = facts, target
        (self.left,), (self.right,), (self.row,) = plan.left, plan.right, plan.rows
        self.at = plan.columns.index(window.column)
        self.inner = plan.columns[self.at + 1 :]
        self.outer = (*plan.outer, *plan.columns[: self.at])
        walk = step_sizes(self.left, plan.ranges, facts)
        self.others = [r for r in plan.ranges if r is not window.tap]
        self.others.sort(key=lambda r: -walk[r])
        item = self.right.dtype.itemsize
        self.lanes = target.vector_bytes // item
        terms = DEPTH * 4 // item
        if target.vector_bytes < LINE:
            terms = min(terms, target.l1 // (_NEAR * target.vector_bytes))
        self.deep = max(terms // window.taps, 1)
        self.depth = prod(size_of(r) for r in plan.ranges)
        even = is_even(self.left, facts)
        row = self.row if even else None
        self.together = rows_together([self.left], row, facts)
        last = self.inner[-1] if self.inner else window.column
        self.fill = fill_cost(self.right, last, facts, self.lanes)
        length = size_of(last)
        self.across = length / -(-length // self.lanes)  # elements of a vector
        self.cycles: float | None = None
        found = [(self._cycles(b), b) for b in self._candidates()]
        if self.fill is not None and found:
            cycles, self.blocks = min(found, key=lambda pair: pair[0])
            if self._without() >= cycles * 0.9:
                self.cycles = cycles

    def schedule(self) -> Sliding:
        """With the best blocks."""
        window, blocks, target, facts = (
            self.window, self.blocks, self.target, self.facts
        )  # fmt: skip
        item, outer = self.right.dtype.itemsize, self.outer
        columns = self._cut_columns()
        if blocks.beside > 1:
            outer = (*self.plan.outer, *self.plan.columns[: self.at - 1])
        width = prod(map(size_of, self.inner)) * blocks.beside
        each = width * sum(
            g.classes * window.reach(blocks.lines, g) for g in window.groups
        )
        room = target.l2 // 2 // (each * item)
        depth = cut_ranges(self.others, max(min(self.deep, room), 1))
        height = size_of(self.row) // blocks.parts
        rows = Cut((), self.row, height, ())
        if blocks.parts == 1:
            rows = Cut((), None, 1, (self.row,))
        vectors = -(-columns.length // self.lanes)
        tile = register_tile(height, vectors, target.registers, self.together)
        still = Operand.of_rows(
            self.left, self.row, with_taps(depth, [window.tap]), height, self.lanes,
            facts,
        )  # fmt: skip
        skips: tuple[Seen, ...] = ()
        looks = can_look_through(still, rows, self.lanes)
        if looks and target.decides("skip_padding"):
            lines = -(-tile.vectors * self.lanes // width) + 1
            others = find_windows(self.right, outer, depth.inner, facts, saving=False)
            windows = {window: lines} | dict.fromkeys(others, 1)
            skips = find_padding(self.right, windows, blocks.lines * width, facts)
        return Sliding(
            self.plan, self.lanes, (window,), self.right, still, outer, rows, columns,
            depth, columns, (tile.rows, tile.vectors), channels_last=False,
            adds=depth.several, skips=skips,
            cleared=columns.split is not None
            and size_of(columns.split) % columns.size > 0,
        )  # fmt: skip

    def _cut_columns(self) -> Cut:
        column, blocks = self.window.column, self.blocks
        if blocks.beside > 1:
            beside = self.plan.columns[self.at - 1]
            inside = (column, *self.inner)
            return Cut((), beside, blocks.beside, inside, (column, beside, *self.inner))
        if blocks.lines < size_of(column):
            return Cut((), column, blocks.lines, self.inner)
        return Cut((), None, 1, (column, *self.inner))

    def _candidates(self) -> list[Blocks]:
        """Blocks whose panels fit into the second cache; else the smallest."""
        found = [(self._bytes(blocks), blocks) for blocks in self._shapes()]
        room = self.target.l2 * 3 // 4
        fitting = [blocks for size, blocks in found if size <= room]
        least = min((size for size, _ in found), default=0)
        return fitting or [blocks for size, blocks in found if size == least]

    def _shapes(self) -> Iterator[Blocks]:
        height, lines = size_of(self.row), size_of(self.window.column)
        width = prod(size_of(a) for a in self.inner)
        shapes: list[tuple[int, int]] = []
        for count in (*range(1, _MOST_BLOCKS), *(n * lines // 8 for n in range(1, 9))):
            size = -(-lines // max(count, 1))
            even = lines % size == 0 and size % self.lanes == 0
            if self.inner or size == lines or even:
                shapes.append((size, 1))
        if self.at and self.inner:
            places = size_of(self.plan.columns[self.at - 1])
            most = min(places, max(_ENOUGH_COLUMNS // (lines * width), 1))
            shapes += [(lines, n) for n in range(2, most + 1)]
        for size, beside in dict.fromkeys(shapes):
            for parts in _PARTS:
                rows = height // parts
                if height % parts == 0 and (parts == 1 or rows >= 8):
                    yield Blocks(size, beside, parts)

    def _bytes(self, blocks: Blocks) -> int:
        """Of the panels of a block."""
        item = self.right.dtype.itemsize
        width = prod(size_of(a) for a in self.inner) * blocks.beside
        positions = min(prod(size_of(r) for r in self.others), self.deep)
        reach, groups = self.window.reach, self.window.groups
        lines = sum(g.classes * reach(blocks.lines, g) for g in groups)
        rows = size_of(self.row) // blocks.parts
        return (positions * lines + rows * blocks.lines) * width * item

    def _cycles(self, blocks: Blocks) -> float:
        """Of all units, on all cores."""
        width = prod(size_of(a) for a in self.inner) * blocks.beside
        lines, size = size_of(self.window.column), blocks.lines
        evaluated = self.window.share(size) * size * width * self.depth
        each = self._unit(size_of(self.row) // blocks.parts, size * width, evaluated)
        units = prod(size_of(a) for a in self.outer) * -(-lines // size) * blocks.parts
        if blocks.beside > 1:
            places = size_of(self.plan.columns[self.at - 1])
            units = units // places * -(-places // blocks.beside)
        return each * -(-units // self.target.cores)

    def _unit(self, rows: int, columns: int, evaluated: float) -> float:
        vectors = -(-columns // self.lanes)
        tile = register_tile(rows, vectors, self.target.registers, self.together)
        filled = (self.fill or 0.0) * evaluated / self.across
        return tile.cycles * self.depth + filled + _BLOCK

    def _without(self) -> float:
        """Where each column is evaluated for each tap, in blocks of many places."""
        wide = prod(size_of(a) for a in (*self.outer, *self.plan.columns[self.at :]))
        some = min(wide, 12 * self.lanes)
        each = self._unit(size_of(self.row), some, some * self.depth)
        return each * max(wide / some, 1) / self.target.cores
