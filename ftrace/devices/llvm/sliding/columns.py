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

from dataclasses import replace
from math import prod

from ftrace.devices.llvm.ir.blocks import Block, Cut, cut_ranges, each_block, run_stores
from ftrace.devices.llvm.ir.types import Type
from ftrace.devices.llvm.loops.nest import Span
from ftrace.devices.llvm.loops.staging import Panel, Stage, replaced_stores, sum_of
from ftrace.devices.llvm.loops.tiles import Steps, cut
from ftrace.devices.llvm.products.factors import Factor
from ftrace.devices.llvm.products.microkernel import (
    MicroKernel,
    Place,
    Tile,
    Walk,
    open_tiles,
)
from ftrace.devices.llvm.products.register_tiles import (
    RegisterTile,
    register_tile,
    rows_together,
)
from ftrace.devices.llvm.products.windows import find_windows
from ftrace.devices.llvm.sliding.padding import (
    Seen,
    can_look_through,
    find_seen,
    is_finite,
    worth_asking,
)
from ftrace.devices.llvm.sliding.plan import DEPTH, Sliding
from ftrace.lower.kernel import INDEX, Store, axis_of
from ftrace.trace.graph import Node, substitute
from ftrace.trace.primitives.elementwise import add, mul, sub
from ftrace.trace.primitives.source import const


class SlidingProduct:
    """Emits a convolution into a stage."""

    def __init__(self, sliding: Sliding, stage: Stage) -> None:
        self.sliding = sliding
        self.stage = stage
        s, target = sliding, stage.target
        (self.total,) = s.plan.reduces
        item = self.total.dtype.itemsize
        self.lanes = target.vector_bytes // item
        self.width = prod(axis_of(a).size for a in s.inner) * s.blocks.beside
        self.vectors = -(-s.blocks.lines * self.width // self.lanes)
        self.pitch = self.vectors * self.lanes
        self.height = axis_of(s.row).size // s.blocks.parts
        each = sum(n * self._lines(steps) for _, n, steps in s.window.groups)
        room = target.l2 // 2 // (each * self.width * item)
        deep = min(DEPTH * 4 // item // s.window.taps, room)
        self.depth = cut_ranges(s.others, max(deep, 1))
        self.several = self.depth.blocks > 1 or bool(self.depth.outer)
        self._cut()
        self.micro = MicroKernel(stage.writer, stage.values.ops, stage.values.access)

    def _cut(self) -> None:
        """How the columns and the rows are cut."""
        s, column = self.sliding, self.sliding.window.column
        lines = axis_of(column).size
        self.even = lines % s.blocks.lines == 0
        if s.beside is not None:
            self.columns = Cut((), s.beside, s.blocks.beside, (column, *s.inner))
            self.even = axis_of(s.beside).size % s.blocks.beside == 0
        elif s.blocks.lines < lines:
            self.columns = Cut((), column, s.blocks.lines, s.inner)
        else:
            self.columns = Cut((), None, 1, (column, *s.inner))
        if s.blocks.parts > 1:
            self.rows = Cut((), s.row, self.height, ())
        else:
            self.rows = Cut((), None, 1, (s.row,))

    def _lines(self, steps: int) -> int:
        """Lines of a class with so many taps."""
        return self.sliding.blocks.lines + self.sliding.window.halo(steps)

    def emit(self) -> int:
        """Emits the function; returns how many units it has."""
        s, stage = self.sliding, self.stage
        self._allocate()
        with stage.units([*s.outer, self.columns.blocks, self.rows.blocks]) as unit:
            column, row = unit.blocks
            self.block = Block(stage, self.columns, column)
            self.row = Block(stage, self.rows, row)
            with self.block, self.row:
                if self.several:
                    stage.fill(self.sums, 0)
                each_block(stage, self.depth, self._multiply)
                self._finish()
        return unit.count

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
        if not stage.target.decides("skip_padding"):
            return None, {}
        if not can_look_through(self.left, *blocks):
            return None, {}
        lines = -(-self._tiling().vectors * self.lanes // self.width) + 1
        together = s.blocks.lines * self.width
        found: dict[Node, tuple[Node, Seen]] = {}
        whole = self.depth.inner
        for window in (
            s.window, *find_windows(s.right, s.outer, whole, stage.facts, saving=False)
        ):  # fmt: skip
            seen = find_seen(s.right, window, stage.facts)
            columns = lines if window is s.window else 1
            if seen is not None and worth_asking(seen, columns, together):
                found[window.tap] = window.column, seen
        own = found.pop(s.window.tap, None)
        return None if own is None else own[1], found

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
        s, stage, writer = self.sliding, self.stage, self.stage.writer
        self.left.fill(depth, self.row, self.lanes)
        for panel, group in zip(self.panels, s.window.groups, strict=True):
            self._fill(panel, group, depth)
        lanes, t = self.lanes, Type.of(self.total.dtype, self.lanes)
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
        tiling = self._tiling()
        sums = Place(stage.values.buffer(self.sums.number))
        for columns in cut(self.vectors, Steps(0, tiling.vectors)):
            across = open_tiles(writer, columns)
            for rows in cut(self.height, Steps(0, tiling.rows)):
                down = open_tiles(writer, rows)
                tile = Tile(t, rows.copies, columns.copies, pitch)
                state = [t.zero] * (tile.rows * tile.vectors)
                a = left.plus((pitch, down.index))
                for panel, group, first, walks, later in strips:
                    b = Place(stage.values.buffer(panel.number))
                    b = b.plus((lanes, across.index))
                    from_first, begun = a.plus(constant=first), list(later)
                    if self.seen is not None:
                        where = across.index, columns.copies
                        walk, start = self._part(walks[-1], group, finite, *where)
                        begun.append((walk, start))
                        # Not innermost: a loop of a known length is written out.
                        walks = [*walks[:-2], walk, *walks[-2:-1]]
                    for walk, start in begun:
                        from_first = from_first.plus((walk.left, start))
                        b = b.plus((walk.right, start))
                    state = self.micro.sums(tile, walks, from_first, b, state)
                out = sums.plus((self.pitch, down.index), (lanes, across.index))
                self.micro.keep(tile, state, out, self.pitch, self.several)
                writer.close_loop(down)
            writer.close_loop(across)

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
        weight = self.width
        terms: list[Node] = []
        if s.beside is not None and self.block.start is not None:
            weight //= s.blocks.beside
            place = sub(s.beside, self.block.start)
            terms.append(mul(place, const(weight, INDEX)))
        for a in s.inner:
            weight //= axis_of(a).size
            terms.append(mul(a, const(weight, INDEX)))
        return terms

    # What becomes of the sums.

    def _finish(self) -> None:
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
