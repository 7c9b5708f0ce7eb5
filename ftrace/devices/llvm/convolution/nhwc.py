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
from collections.abc import Callable, Iterator
from functools import partial
from math import prod

from ftrace.devices.llvm.contraction.find_windows import Window
from ftrace.devices.llvm.contraction.microkernel import (
    Place,
    Walk,
)
from ftrace.devices.llvm.convolution.emitter import SlidingEmitter, Term
from ftrace.devices.llvm.convolution.grouped import (
    Pixels,
    cut_groups,
    spread_groups,
)
from ftrace.devices.llvm.convolution.nchw_plan import DEPTH
from ftrace.devices.llvm.convolution.nhwc_plan import SlidingRows, column_blocks
from ftrace.devices.llvm.convolution.skip_padding import (
    Seen,
    can_look_through,
    is_finite,
)
from ftrace.devices.llvm.emit.blocked_ranges import (
    Block,
    Cut,
    cut_ranges,
    run_stores,
)
from ftrace.devices.llvm.emit.loop_nest import Span
from ftrace.devices.llvm.emit.open_ranges import Opened
from ftrace.devices.llvm.emit.staged_kernel import Panel, Stage, replaced_stores, sum_of
from ftrace.devices.llvm.ir.writer import OpenLoop
from ftrace.devices.llvm.schedule.register_tiles import register_tile
from ftrace.devices.llvm.schedule.tiling_ir import Steps, Tiles
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.kernel.ir import INDEX, Store, axis_of
from ftrace.trace.graph import Node, substitute
from ftrace.trace.primitives.elementwise import add, mul
from ftrace.trace.primitives.sources import const

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


class SlidingRowsProduct(SlidingEmitter):
    """Emits a convolution with channels last into a stage."""

    def __init__(self, sliding: SlidingRows, stage: Stage) -> None:
        self.sliding = s = sliding
        super().__init__(s.plan, s.plan.columns, stage, s.groups)
        self.outer = s.outer
        self.width = axis_of(s.pixel).size
        self.tile = register_tile(self.width, self.vectors, stage.target.registers)
        first, *rest = (*s.lines, s.pixel)
        self.rows = Cut((), first, s.size, tuple(rest))
        if s.size == axis_of(first).size:
            self.rows = Cut((), None, 1, (first, *rest))
        taps = prod(w.taps for w in s.windows)
        deep = max(DEPTH * 4 // self.item // taps, 1)
        self.depth = cut_ranges(s.others, deep, self.lanes)
        self.adds = self.kept = self.depth.several  # the sums of all lines, not of one
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

    def _complete(self) -> None:
        """What becomes of the sums of all lines of the block."""
        if self.kept:
            self._each_line(self._finish)

    # Panels.

    def _allocate(self) -> None:
        s, stage = self.sliding, self.stage
        depth = Block(stage, self.depth, "0")
        inside = depth.positions(s.left) * self.each
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
        if s.groups:
            return {}
        cut_pixel = s.pixel if self.rows.split is s.pixel else None
        windows = {
            w: self.tile.rows if w.column is s.pixel else 1
            for w in s.windows
            if w.column is not cut_pixel
        }
        found = self._find_padding(s.left, windows, self.rows.length)
        blocks = Block(stage, self.depth, "0"), Block(stage, self.columns, "0")
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
        terms += depth.terms(self.each, s.left)
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
        s, buffer = self.sliding, self.stage.values.buffer
        right = self.right.place(depth, self.flat.of_right(self.block))
        sums = Place(buffer(self.sums.number), tuple(self._sum_terms()))

        def terms(
            columns: Tiles, across: str, rows: Tiles, down: str
        ) -> Iterator[Term]:
            for image in self.images:
                walks, first, skipped = self._walks(image, depth, down, rows.copies)
                step = image.step[s.pixel]
                lines = [(image.step[a], i) for a, i in self.places.items()]
                a = Place(buffer(image.panel.number), (*lines, (step, down)))
                if s.groups:
                    a = a.plus((self.lanes, across))
                b = right.plus((self.lanes, across), constant=first)
                yield Term(walks, a, b, step, skipped)

        self._each_tile(self.width, self.tile, sums, terms)
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
        left = depth.cut.steps(self.each, self.stage.facts.free[s.left])
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
