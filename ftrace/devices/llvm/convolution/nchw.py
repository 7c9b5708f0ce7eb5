"""Convolutions: products whose right operand slides along an axis of the columns.

    out[i, p] = f(the sum over c, t of left(i, c, t) · right(c, p + t), …)

A unit is a block of rows and of lines of columns. The right operand is evaluated once
for each line, not for each pair of a line and a tap, into a panel in which all columns
of the block are one flat axis, and each tap a constant distance:

    for each block of c:
        panel right[c, line, column] <- right      masked, strided or fused as it is
        panel sums[i, p] <- sums + left · right    in tiles of registers
    out <- f(sums)

Taps of windows along the other axes are ranges like c: so nothing is stored beside a
line, and no column is computed that does not exist.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from ftrace.devices.llvm.contraction.find_windows import find_windows
from ftrace.devices.llvm.contraction.left_operand import Factor
from ftrace.devices.llvm.contraction.microkernel import (
    Place,
    Walk,
)
from ftrace.devices.llvm.convolution.emitter import SlidingEmitter, Term
from ftrace.devices.llvm.convolution.nchw_plan import DEPTH, Sliding
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
from ftrace.devices.llvm.emit.staged_kernel import Panel, Stage, replaced_stores, sum_of
from ftrace.devices.llvm.ir.types import Type
from ftrace.devices.llvm.schedule.register_tiles import (
    RegisterTile,
    register_tile,
    rows_together,
)
from ftrace.devices.llvm.schedule.tiling_ir import Steps, Tiles
from ftrace.lower.kernel.ir import INDEX, Store, axis_of
from ftrace.trace.graph import Node, substitute
from ftrace.trace.primitives.elementwise import add, mul, sub
from ftrace.trace.primitives.sources import const


class SlidingProduct(SlidingEmitter):
    """Emits a convolution into a stage."""

    rows_outside = False

    def __init__(self, sliding: Sliding, stage: Stage) -> None:
        self.sliding = s = sliding
        super().__init__(s.plan, (s.window.column,), stage)
        self.width = prod(axis_of(a).size for a in s.inner) * s.blocks.beside
        self.outer = s.outer
        self.height = axis_of(s.row).size // s.blocks.parts
        each = sum(n * self._lines(steps) for _, n, steps in s.window.groups)
        room = stage.target.l2 // 2 // (each * self.width * self.item)
        deep = min(DEPTH * 4 // self.item // s.window.taps, room)
        self.depth = cut_ranges(s.others, max(deep, 1))
        self.adds = self.depth.several
        self.rows = Cut((), s.row, self.height, ())
        if s.blocks.parts == 1:
            self.rows = Cut((), None, 1, (s.row,))

    def _cut_columns(self) -> Cut:
        s, column = self.sliding, self.sliding.window.column
        lines = axis_of(column).size
        self.even = lines % s.blocks.lines == 0
        if s.beside is not None:
            self.even = axis_of(s.beside).size % s.blocks.beside == 0
            return Cut((), s.beside, s.blocks.beside, (column, *s.inner))
        if s.blocks.lines < lines:
            return Cut((), column, s.blocks.lines, s.inner)
        return Cut((), None, 1, (column, *s.inner))

    def _lines(self, steps: int) -> int:
        """Lines of a class with so many taps."""
        return self.sliding.blocks.lines + self.sliding.window.halo(steps)

    def _allocate(self) -> None:
        """A panel for each group of classes, and one for the sums."""
        s, stage = self.sliding, self.stage
        taps = (s.window.tap,)
        self.left = Factor.of_rows(stage, s.left, s.row, self.depth, taps, self.height)
        whole = Block(stage, self.depth, "0")
        count = whole.positions(s.right)
        item = s.right.dtype.itemsize
        self.panels: list[Panel] = []
        for _, classes, steps in s.window.groups:
            pitch = classes * self._lines(steps) * self.width
            if pitch * item % 1024 == 0:  # rows would push each other out of L1
                pitch += self.lanes
            panel = stage.new_panel(s.right.dtype, count, pitch)
            self.panels.append(panel)
            self._clear(panel)
        self.sums = stage.new_panel(self.total.dtype, self.height, self.pitch)
        self.seen, self.around = self._find_seen()
        if self.left.panel is not None and (self.seen is not None or self.around):
            stage.fill(self.left.panel, 0)  # what is between rows is looked at, too

    def _find_seen(self) -> tuple[Seen | None, dict[Node, tuple[Node, Seen]]]:
        """Which taps see padding alone, where leaving them out pays.

        Returns:
          Of the window; of ranges that slide along axes around the blocks, with these.
        """
        s, stage = self.sliding, self.stage
        blocks = (Block(stage, cut_, "0") for cut_ in (self.depth, self.rows))
        if not can_look_through(self.left, *blocks):
            return None, {}
        lines = -(-self._tiling().vectors * self.lanes // self.width) + 1
        together = s.blocks.lines * self.width
        whole = self.depth.inner
        others = find_windows(s.right, s.outer, whole, stage.facts, saving=False)
        windows = {s.window: lines} | dict.fromkeys(others, 1)
        found = self._find_padding(s.right, windows, together)
        own = found.pop(s.window, None)
        return own, {w.tap: (w.column, seen) for w, seen in found.items()}

    def _tiling(self) -> RegisterTile:
        s, stage = self.sliding, self.stage
        row = s.row if self.left.panel is None else None
        most = rows_together([s.left], row, stage.facts)
        return register_tile(self.height, self.vectors, stage.target.registers, most)

    def _clear(self, panel: Panel) -> None:
        """Tiles read beyond the block: what stands there must not slow them down."""
        stage = self.stage
        if not self.even:
            stage.fill(panel, 0)
        t = Type.of(panel.dtype, self.lanes)
        base, access = stage.values.buffer(panel.number), stage.values.access
        for n in range(2):
            p = access.pointer(base, [], panel.size + n * self.lanes, t.bytes)
            access.store(t, t.zero, p)

    # The sums.

    def _multiply(self, depth: Block) -> None:
        """One block of what is summed over: the panels, and the tiles over them."""
        s, stage = self.sliding, self.stage
        self.left.fill(depth, self.row, self.lanes)
        for panel, group in zip(self.panels, s.window.groups, strict=True):
            self._fill(panel, group, depth)
        pitch, left = self.left.pitch, self.left.place(depth, self.row)
        begin, tap = s.window.steps(self.left.steps().get(s.window.tap, 0))
        finite = ""
        if self.seen is not None or self.around:
            finite = is_finite(self.left, depth, self.row)
        strips = [
            (panel, group, begin + group[0] * tap)
            + self._walks(panel, group, depth, finite)
            for panel, group in zip(self.panels, s.window.groups, strict=True)
        ]

        def terms(
            columns: Tiles, across: str, rows: Tiles, down: str
        ) -> Iterator[Term]:
            for panel, group, first, walks, later in strips:
                a = left.plus((pitch, down), constant=first)
                b = Place(stage.values.buffer(panel.number), ((self.lanes, across),))
                parts = list(later)
                if self.seen is not None:
                    where = across, columns.copies
                    walk, start = self._part(walks[-1], group, finite, *where)
                    parts.append((walk, start))
                    # Not innermost: a loop of a known length is written out.
                    walks = [*walks[:-2], walk, *walks[-2:-1]]
                yield Term(walks, a, b, pitch, parts)

        sums = Place(stage.values.buffer(self.sums.number))
        self._each_tile(self.height, self._tiling(), sums, terms)

    def _walks(
        self, panel: Panel, group: tuple[int, int, int], depth: Block, finite: str
    ) -> tuple[list[Walk], list[tuple[Walk, str]]]:
        """The loops over what is summed over; and those that begin later, and where."""
        s, left = self.sliding, self.left.steps()
        _, classes, steps = group
        walks: list[Walk] = []
        later: list[tuple[Walk, str]] = []
        right = depth.cut.steps(panel.pitch, self.stage.facts.free[s.right])
        for r in depth.cut.within[::-1]:
            walk = Walk(depth.extent(r), left.get(r, 0), right.get(r, 0))
            if r in self.around:
                column, seen = self.around[r]
                place = next(o.base for o in self.stage.opened if o.node is column)
                start, count = seen.range(self.stage.writer, place, finite)
                walk = replace(walk, count=count)
                later.append((walk, start))
            walks.insert(0, walk)
        _, tap = s.window.steps(left.get(s.window.tap, 0))
        if classes > 1:
            walks.append(Walk(str(classes), tap, self._lines(steps) * self.width))
        step = s.window.dilation * self.width
        walks.append(Walk(str(steps), tap * s.window.stride, step))
        return walks, later

    def _part(
        self, walk: Walk, group: tuple[int, int, int], finite: str, at: str, count: int
    ) -> tuple[Walk, str]:
        """The steps of a window that some vectors need, and the first of them."""
        assert self.seen is not None
        stage, writer = self.stage, self.stage.writer
        ends: list[str] = []
        for plus in (0, count * self.lanes - 1):
            place = stage.scaled(at, self.lanes, plus)
            line = writer.pure(f"udiv i64 {place}, {self.width}", place)
            if self.columns.split is self.sliding.window.column:
                begin = stage.scaled(self.block.number, self.columns.size)
                line = writer.pure(f"add i64 {line}, {begin}", line, begin)
            ends.append(line)
        start, steps = self.seen.steps(writer, ends[0], ends[1], group, finite)
        return Walk(steps, walk.left, walk.right), start

    # Panels.

    def _fill(self, panel: Panel, group: tuple[int, int, int], depth: Block) -> None:
        """Evaluates the right operand once for each line of the classes of a group."""
        s, stage = self.sliding, self.stage
        column = s.window.column
        first, classes, steps = group
        line, kind = stage.new_range(self._lines(steps)), stage.new_range(classes)
        place: Node = line
        if self.columns.split is column and self.block.start is not None:
            place = add(place, self.block.start)
        tap = s.window.tap_of(add(kind, const(first, INDEX)))
        (value,) = substitute([s.right], {column: place, s.window.tap: tap})
        terms = depth.terms(panel.pitch, s.right) + self._within_line()
        terms.append(mul(line, const(self.width, INDEX)))
        terms.append(mul(kind, const(self.width * self._lines(steps), INDEX)))
        ranges = [r for r in depth.cut.within if r in stage.facts.free[s.right]]
        ranges += [kind, line, *([] if s.beside is None else [s.beside]), *s.inner]
        last = ranges[-1]
        lanes = self.lanes
        while lanes >= 2 * axis_of(last).size:
            lanes //= 2
        spans = {r: span for r, span in depth.spans({}).items() if r in ranges}
        if s.beside is not None:
            spans |= self.block.spans({})
        elif not self.even and s.inner:
            count = stage.scaled(self.block.extent(column), 1, s.window.halo(steps))
            spans[line] = Span("0", count)
        store = Store(panel.number, sum_of(terms), value)
        stage.run(ranges, [store], {last: Steps(lanes)}, spans)

    def _within_line(self) -> list[Node]:
        """Where a column is in its line."""
        s = self.sliding
        line = Block(self.stage, Cut((), s.beside, s.blocks.beside, s.inner), "0")
        line.start = self.block.start if s.beside is not None else None
        return line.terms(1)[::-1]

    # What becomes of the sums.

    def _complete(self) -> None:
        """The kernel's own stores, with the sums read from their panel."""
        s, stage, column = self.sliding, self.stage, self.sliding.window.column
        line: Node = column
        if self.columns.split is column and self.block.start is not None:
            line = sub(column, self.block.start)
        terms = [*self.row.terms(self.pitch), mul(line, const(self.width, INDEX))]
        index = sum_of([*terms, *self._within_line()])
        found = {self.total: self.sums.load(index)}
        stores = replaced_stores(stage.kernel.stores, found)
        axes, blocks = [s.row, *self.columns.within], [self.block, self.row]
        run_stores(stage, stores, axes, blocks, self.lanes)
