"""Convolutions with channels last: products whose left operand slides along the rows.

    out[p, j] = f(the sum over c, t of left(p + t, c) · right(j, c, t), …)

A unit is a block of lines of pixels, and of columns. The left operand is evaluated once
for each pixel that the block sees, into a panel with padding, unless it can be read
where it stands: its numbers are spread over vectors one at a time, so that taps and
strides are distances in it and nothing else. Tiles are pixels of one line beside each
other, and vectors of columns:

    for each block of c:
        panel left[pixel, c] <- left               masked, strided or fused as it is
        panel right[c, t, j] <- right              unless it is plain
        for each line of the block:
            panel sums[p, j] <- sums + left · right
            out <- f(sums)                         after the last block of c
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import prod

from ftrace.devices.llvm.ir.blocks import Block, Cut, cut_ranges, each_block, run_stores
from ftrace.devices.llvm.ir.types import Type
from ftrace.devices.llvm.ir.writer import OpenLoop
from ftrace.devices.llvm.loops.nest import Span
from ftrace.devices.llvm.loops.ranges import Opened
from ftrace.devices.llvm.loops.staging import Panel, Stage, replaced_stores, sum_of
from ftrace.devices.llvm.loops.tiles import Steps, cut
from ftrace.devices.llvm.products.microkernel import (
    MicroKernel,
    Place,
    Tile,
    Walk,
    open_tiles,
)
from ftrace.devices.llvm.products.register_tiles import register_tile
from ftrace.devices.llvm.products.windows import Window
from ftrace.devices.llvm.sliding.groups import (
    FlatColumns,
    Pixels,
    cut_groups,
    spread_groups,
)
from ftrace.devices.llvm.sliding.padding import (
    Seen,
    can_look_through,
    find_seen,
    is_finite,
    worth_asking,
)
from ftrace.devices.llvm.sliding.plan import DEPTH
from ftrace.devices.llvm.sliding.rows_plan import SlidingRows, column_blocks
from ftrace.lower.kernel import INDEX, Store, axis_of
from ftrace.records import dataclass
from ftrace.trace.graph import Node, substitute
from ftrace.trace.primitives.elementwise import add, mul
from ftrace.trace.primitives.source import const

#: The first class of a window, how many, and the taps of each.
_Group = tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class Taps:
    """A loop over the taps of a window, in the panel of an image.

    Attributes:
      group: of classes; None where the loop is over these themselves.
      count: how many steps it has.
      left: elements in the panel from one to the next.
      each: how many taps a step is.
    """

    window: Window
    group: _Group | None
    count: int
    left: int
    each: int


@dataclass(eq=False)
class Image:
    """A panel of the left operand: the lines of one group of classes of each window.

    Attributes:
      groups: of each window.
      step: elements from one pixel to the next along each axis of the rows.
      taps: the loops over the taps.
    """

    panel: Panel
    groups: tuple[_Group, ...]
    step: dict[Node, int]
    taps: list[Taps]


class SlidingRowsProduct:
    """Emits a convolution with channels last into a stage."""

    def __init__(self, sliding: SlidingRows, stage: Stage) -> None:
        self.sliding = sliding
        self.stage = stage
        s, target = sliding, stage.target
        (self.total,) = s.plan.reduces
        item = self.total.dtype.itemsize
        self.lanes = target.vector_bytes // item
        self.width = axis_of(s.pixel).size
        self.columns = self._cut_columns()
        self.vectors = -(-self.columns.length // self.lanes)
        self.tile = register_tile(self.width, self.vectors, target.registers)
        self.pitch = self.vectors * self.lanes
        self.spread = self.pitch if s.groups else 1
        self.flat = FlatColumns(stage, s.plan.columns, self.columns)
        first, *rest = (*s.lines, s.pixel)
        whole = s.size == axis_of(first).size
        if whole:
            self.rows = Cut((), None, 1, (first, *rest))
        else:
            self.rows = Cut((), first, s.size, tuple(rest))
        taps = prod(w.taps for w in s.windows)
        deep = max(DEPTH * 4 // item // taps, 1)
        self.depth = cut_ranges(s.others, deep, self.lanes)
        self.several = self.depth.blocks > 1 or bool(self.depth.outer)
        self.kept = self.several  # the sums of all lines, not of one
        self.micro = MicroKernel(stage.writer, stage.values.ops, stage.values.access)
        self.at: dict[Node, str] = {}  # of the open line

    def _cut_columns(self) -> Cut:
        """Blocks of columns: whole vectors, where they are not all in one."""
        axes = self.sliding.plan.columns
        if self.sliding.groups:
            return cut_groups(axes, self.sliding.vectors * self.lanes)
        vectors = -(-axis_of(axes[0]).size // self.lanes)
        blocks = column_blocks(vectors)
        if blocks > 1:
            return Cut((), axes[0], -(-vectors // blocks) * self.lanes, ())
        return Cut((), None, 1, axes)

    def emit(self) -> int:
        """Emits the function; returns how many units it has."""
        s, stage = self.sliding, self.stage
        self._allocate()
        with stage.units([*s.outer, self.rows.blocks, self.columns.blocks]) as unit:
            row, column = unit.blocks
            self.row = Block(stage, self.rows, row)
            self.block = Block(stage, self.columns, column)
            with self.row, self.block, self.flat.at(column, self.block):
                if self.several:
                    stage.fill(self.sums, 0)
                each_block(stage, self.depth, self._multiply)
                if self.kept:
                    self._complete()
        return unit.count

    def _complete(self) -> None:
        """What becomes of the sums of all lines of the block."""
        self._each_line(self._finish)

    # Panels.

    def _allocate(self) -> None:
        s, stage = self.sliding, self.stage
        depth = Block(stage, self.depth, "0")
        inside = depth.positions(s.left) * self.spread
        self.images: list[Image] = []
        for groups in itertools.product(*[w.groups for w in s.windows]):
            self.images.append(self._image(groups, inside))
        taps = tuple(w.tap for w in s.windows)
        self.right = self.flat.factor(s.right, self.depth, taps, self.pitch)
        if self.right.panel is not None:
            stage.fill(self.right.panel, 0, self.columns.length)
        lines = self.rows.length // self.width if self.kept else 1
        self.sums = stage.new_panel(self.total.dtype, lines * self.width, self.pitch)
        self.seen = self._find_seen()

    def _find_seen(self) -> dict[Window, Seen]:
        """Windows with taps that see padding alone, where leaving them out pays."""
        s, stage = self.sliding, self.stage
        found: dict[Window, Seen] = {}
        if s.groups or not stage.target.decides("skip_padding"):
            return found
        blocks = Block(stage, self.depth, "0"), Block(stage, self.columns, "0")
        for window in s.windows:
            seen = find_seen(s.left, window, stage.facts)
            pixels = self.tile.rows if window.column is s.pixel else 1
            if window.column is self.rows.split is s.pixel:
                continue
            if seen is not None and worth_asking(seen, pixels, self.rows.length):
                found[window] = seen
        return found if found and can_look_through(self.right, *blocks) else {}

    def _image(self, groups: tuple[_Group, ...], inside: int) -> Image:
        """The panel for some groups of classes: its axes, from the innermost on."""
        s, stage = self.sliding, self.stage
        windows = {w.column: (w, g) for w, g in zip(s.windows, groups, strict=True)}
        step: dict[Node, int] = {}
        taps: list[Taps] = []
        weight = inside
        rows = zip(self.rows.within[::-1], self.rows.extents[::-1], strict=True)
        for axis, size in rows:
            step[axis] = weight
            if axis not in windows:
                weight *= size
                continue
            window, group = windows[axis]
            _, classes, count = group
            sign = -1 if window.turned else 1
            left, jump = weight * window.dilation, sign * window.stride
            taps.append(Taps(window, group, count, left, jump))
            weight *= size + window.halo(count)
            if classes > 1:
                taps.append(Taps(window, None, classes, weight, sign))
            weight *= classes
        panel = stage.new_panel(s.left.dtype, weight // inside, inside)
        return Image(panel, groups, step, taps[::-1])

    def _fill_image(self, image: Image, depth: Block) -> None:
        """Evaluates the left operand once for each pixel of a group of classes."""
        s, stage = self.sliding, self.stage
        windows = zip(s.windows, image.groups, strict=True)
        found = {w.column: (w, g) for w, g in windows}
        moved: dict[Node, Node] = {}
        spans: dict[Node, Span] = {}
        ranges: list[Node] = []
        terms: list[Node] = []
        extents = zip(self.rows.within, self.rows.extents, strict=True)
        for axis, size in extents:
            halo, classes = 0, 1
            if axis in found:
                window, (first, classes, count) = found[axis]
                halo = window.halo(count)
                kind = stage.new_range(classes)
                ranges.append(kind)
                weight = image.step[axis] * (size + halo)
                terms.append(mul(kind, const(weight, INDEX)))
                moved[window.tap] = window.tap_of(add(kind, const(first, INDEX)))
            line = stage.new_range(size + halo)
            ranges.append(line)
            terms.append(mul(line, const(image.step[axis], INDEX)))
            moved[axis] = line
            if axis is self.rows.split and self.row.start is not None:
                moved[axis] = add(line, self.row.start)
                count = stage.scaled(self.row.extent(axis), 1, halo)
                if axis_of(axis).size % size:
                    spans[line] = Span("0", count)
        (value,) = substitute([s.left], moved)
        pixels = Pixels(terms, ranges, spans)
        if s.groups and spread_groups(
            image.panel, value, s.plan.columns, depth, self.block, self.pitch, pixels
        ):
            return
        self._evaluate(image, value, pixels, depth)

    def _evaluate(
        self,
        image: Image,
        value: Node,
        pixels: Pixels,
        depth: Block,
    ) -> None:
        """Fills a panel."""
        s, stage = self.sliding, self.stage
        terms, ranges, spans = pixels.terms, pixels.ranges, pixels.spans
        terms += depth.terms(self.spread, s.left)
        ranges += [r for r in depth.cut.within if r in stage.facts.free[s.left]]
        if s.groups:
            terms += self.block.terms(1)
            ranges += self.columns.within
        last, lanes = ranges[-1], self.lanes
        cut_of_last = self.block if s.groups else depth
        while lanes > 1 and not cut_of_last.fits(last, lanes):
            lanes //= 2
        steps = {last: Steps(lanes)}
        if s.groups:
            spans |= self.block.spans(steps)
        spans |= {r: p for r, p in depth.spans(steps).items() if r in ranges}
        stage.run(
            ranges, [Store(image.panel.number, sum_of(terms), value)], steps, spans
        )

    # The sums.

    def _multiply(self, depth: Block) -> None:
        """One block of what is summed over: the panels, and the tiles over them."""
        for image in self.images:
            self._fill_image(image, depth)
        self.right.fill(depth, self.flat.of_right(self.block), self.lanes)
        self.finite = ""
        if self.seen:
            self.finite = is_finite(self.right, depth, self.block)
        self._each_line(partial(self._line, depth))

    def _each_line(self, run: Callable[[], None]) -> None:
        """Loops over the lines of the block."""
        s, stage, writer = self.sliding, self.stage, self.stage.writer
        opened: list[tuple[OpenLoop, Opened]] = []
        for axis in s.lines:
            loop = writer.open_loop("0", self.row.extent(axis), 1)
            place = loop.index
            if axis is self.rows.split and self.row.start is not None:
                begin = stage.scaled(self.row.number, self.rows.size)
                place = stage.values.access.sum_terms([(1, begin), (1, loop.index)])
            opened.append((loop, stage.open(axis, place)))
            self.at[axis] = place
        places = [loop.index for loop, _ in opened]
        self.places = dict(zip(s.lines, places, strict=True))
        run()
        for loop, o in reversed(opened):
            stage.close(o)
            writer.close_loop(loop)

    def _line(self, depth: Block) -> None:
        """The tiles of a line, and what becomes of its sums if they are complete."""
        s, stage, writer = self.sliding, self.stage, self.stage.writer
        t, buffer = Type.of(self.total.dtype, self.lanes), stage.values.buffer
        right = self.right.place(depth, self.flat.of_right(self.block))
        sums = Place(buffer(self.sums.number), tuple(self._sum_terms()))
        for columns in cut(self.vectors, Steps(0, self.tile.vectors)):
            across = open_tiles(writer, columns)
            for rows in cut(self.width, Steps(0, self.tile.rows)):
                down = open_tiles(writer, rows)
                tile = Tile(t, rows.copies, columns.copies, 0, (), s.groups)
                state = [t.zero] * (rows.copies * columns.copies)
                for image in self.images:
                    pixels = down.index, rows.copies
                    walks, first, skipped = self._walks(image, depth, *pixels)
                    step = image.step[s.pixel]
                    tile = replace(tile, pitch=step)
                    terms = [(image.step[a], i) for a, i in self.places.items()]
                    a = Place(buffer(image.panel.number), tuple(terms))
                    a = a.plus((step, down.index))
                    if s.groups:
                        a = a.plus((self.lanes, across.index))
                    b = right.plus((self.lanes, across.index), constant=first)
                    for walk, start in skipped:
                        a, b = a.plus((walk.left, start)), b.plus((walk.right, start))
                    state = self.micro.sums(tile, walks, a, b, state)
                out = sums.plus((self.pitch, down.index), (self.lanes, across.index))
                self.micro.keep(tile, state, out, self.pitch, self.several)
                writer.close_loop(down)
            writer.close_loop(across)
        if not self.kept:
            self._finish()

    def _walks(
        self, image: Image, depth: Block, pixel: str, count: int
    ) -> tuple[list[Walk], int, list[tuple[Walk, str]]]:
        """The loops over what is summed over, and where the first right row is.

        Args:
          pixel, count: those of the tile.

        Returns:
          The loops; the place of the first row; loops that begin later, and where.
        """
        s, right = self.sliding, self.right.steps()
        left = depth.cut.steps(self.spread, self.stage.facts.free[s.left])
        walks = [
            Walk(depth.extent(r), left.get(r, 0), right.get(r, 0))
            for r in depth.cut.within
        ]
        skipped: list[tuple[Walk, str]] = []
        for taps in image.taps:
            window = taps.window
            walk = Walk(
                str(taps.count), taps.left, right.get(window.tap, 0) * taps.each
            )
            if taps.group is not None and window in self.seen:
                walk, start = self._part(walk, taps, pixel, count)
                skipped.append((walk, start))
            walks.append(walk)
        if self.right.panel is None:  # it is walked through evenly
            walks.sort(key=lambda w: -abs(w.right))
        begin = 0
        for window, (first, _, _) in zip(s.windows, image.groups, strict=True):
            start, size = window.steps(right.get(window.tap, 0))
            begin += start + first * size
        return walks, begin, skipped

    def _part(self, walk: Walk, taps: Taps, pixel: str, count: int) -> tuple[Walk, str]:
        """The steps of a window that a tile needs, and the first of them."""
        assert taps.group is not None
        window, writer = taps.window, self.stage.writer
        first = last = self.at.get(window.column, pixel)
        if window.column is self.sliding.pixel:
            last = self.stage.scaled(pixel, 1, count - 1)
        seen = self.seen[window]
        start, steps = seen.steps(writer, first, last, taps.group, self.finite)
        return Walk(steps, walk.left, walk.right), start

    # What becomes of the sums.

    def _sum_terms(self) -> list[tuple[int, str]]:
        """Where the sums of the open line begin."""
        if not self.kept:
            return []
        steps = self.rows.steps(self.pitch * self.width, self.sliding.lines)
        return [(step, self.places[axis]) for axis, step in steps.items()]

    def _finish(self) -> None:
        """The kernel's own stores for a line, with the sums read from their panel."""
        s, stage = self.sliding, self.stage
        stores, moved, block = self.flat.of_stores(self.total, self.block)
        terms = [mul(s.pixel, const(self.pitch, INDEX)), *block.terms(1)]
        if self.kept:
            terms += self.row.terms(self.pitch * self.width, of=s.lines)
        found = {self.total: self.sums.load(sum_of(terms)), **moved}
        stores = replaced_stores(stores, found)
        axes = [s.pixel, *block.cut.within]
        run_stores(stage, stores, axes, [block], self.lanes)
