"""Carries out the schedule of a convolution: see `schedule.py`.

An image is evaluated once for each line that a block sees, into a panel in which taps,
strides and dilations are distances. Tiles are rows and vectors of columns; the left
operand's numbers are spread over vectors one at a time.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial

from ftrace.devices.llvm.convolution import microkernel
from ftrace.devices.llvm.convolution.operands import Image, Still, next_image
from ftrace.devices.llvm.convolution.schedule import Sliding, laid_flat
from ftrace.devices.llvm.emit.blocked_ranges import (
    Block,
    Cut,
    each_block,
    fill_panel,
    run_stores,
)
from ftrace.devices.llvm.emit.staged_kernel import Stage, replaced_stores, sum_of
from ftrace.devices.llvm.ir.types import Type
from ftrace.devices.llvm.schedule.tiling_ir import Steps, cut
from ftrace.lower.kernel.ir import INDEX, Store, reduce
from ftrace.trace.graph import Node, substitute
from ftrace.trace.primitives.elementwise import add, mul
from ftrace.trace.primitives.sources import const


class SlidingEmitter:
    """Carries a schedule out in a stage."""

    def __init__(self, schedule: Sliding, stage: Stage) -> None:
        self.s, self.stage = schedule, stage
        (self.total,) = schedule.plan.reduces
        self.micro = microkernel.MicroKernel(
            stage.writer, stage.values.ops, stage.values.access
        )
        self.places: dict[Node, str] = {}  # of the open line in its block
        self.height = schedule.rows.extents[-1] if schedule.rows.within else 1
        self._allocate()

    def _allocate(self) -> None:
        """Panels for the operands and for the sums."""
        s, stage = self.s, self.stage
        self.images: list[Image] = []
        for groups in s.images:
            image = Image(s, stage, groups)
            self.images.append(image)
            if s.cleared:
                stage.fill(image.panel, 0)
            if s.by_columns:
                self._end(image)
        self.still = Still(s, stage)
        if self.still.panel is not None:
            stage.fill(self.still.panel, 0, 0 if s.by_columns else s.columns.length)
        rows = s.rows.length if s.kept else self.height
        self.sums = stage.new_panel(self.total.dtype, rows * s.taps, s.pitch)
        if s.turned:
            count = s.rows.length if s.flat_pixel is not None else self.height
            pitch = -(-count // s.lanes) * s.lanes
            rows = s.columns.length
            self.turned = stage.new_panel(self.total.dtype, rows, pitch, True)

    def _end(self, image: Image) -> None:
        """Tiles read beyond the block: what stands there must not slow them down."""
        panel, access = image.panel, self.stage.values.access
        t = Type.of(panel.dtype, self.s.lanes)
        base = self.stage.values.buffer(panel.number)
        for n in range(2):
            p = access.pointer(base, [], panel.size + n * t.lanes, t.bytes)
            access.store(t, t.zero, p)

    def emit(self) -> int:
        """Emits the function; returns how many units it has."""
        s, stage = self.s, self.stage
        cuts = [s.columns, s.rows] if s.by_columns else [s.rows, s.columns]
        with stage.units([*s.outer, *[c.blocks for c in cuts]]) as unit:
            outer, inner = blocks = [*map(partial(Block, stage), cuts, unit.blocks)]
            self.row, self.block = blocks[::-1] if s.by_columns else blocks
            self.flat = self.block
            if s.flat is not None:
                self.flat = Block(stage, s.flat, self.block.number)
            self.of_still = self.row if s.by_columns else self.block
            if s.flat is not None and s.still.axis is s.flat.within[-1]:
                self.of_still = self.flat
            with outer, inner, nullcontext() if s.flat is None else self.flat:
                if s.adds:
                    stage.fill(self.sums, 0)
                each_block(stage, s.depth, self._multiply)
                if s.kept:
                    self._finish()
        return unit.count

    # The sums.

    def _multiply(self, depth: Block) -> None:
        """One block of what is summed over: the panels, and the tiles over them."""
        s = self.s
        along = self.block if s.by_columns else depth if s.by_filters else self.row
        beside = self.row if s.by_filters else depth
        for image in self.images:
            image.fill(along, beside, self.block)
        self.still.fill(depth, self.of_still)
        if s.along_pixels:
            self._pass(depth)
            return
        with ExitStack() as stack:
            for axis in s.rows.within[:-1]:
                stack.enter_context(self._line(axis))
            self._tiles(depth)

    @contextmanager
    def _line(self, axis: Node) -> Generator[None, None, None]:
        """A loop over lines of the block."""
        s, stage = self.s, self.stage
        with stage.loop(self.row.extent(axis)) as index:
            place = self.places[axis] = index
            if axis is s.rows.split and self.row.start is not None:
                begin = stage.scaled(self.row.number, s.rows.size)
                place = stage.values.access.sum_terms([(1, begin), (1, index)])
            with stage.at(axis, place):
                yield

    def _tiles(self, depth: Block) -> None:
        """The tiles of a line, and what becomes of its sums if they are complete."""
        s, stage, writer = self.s, self.stage, self.stage.writer
        t = Type.of(self.total.dtype, s.lanes)
        still = self.still.place(depth, self.of_still)
        left_steps = self.still.steps if s.by_columns else self.images[0].steps
        row = s.rows.within[-1] if s.rows.within else None
        step = left_steps.get(row, 0) if row is not None else 0
        lines = [(left_steps.get(a, 0), i) for a, i in self.places.items()]
        sums = microkernel.Place(stage.values.buffer(self.sums.number))
        if s.kept:
            weights = s.rows.steps(s.pitch * s.taps, s.rows.within)
            sums = sums.plus(*[(weights[a], i) for a, i in self.places.items()])
        height, width = s.tile
        taps = self._taps()
        for part, columns in itertools.product(
            s.parts, cut(s.pitch // s.lanes, Steps(0, width))
        ):
            across = microkernel.open_tiles(writer, columns)
            for rows in cut(self.height, Steps(0, height)):
                down = microkernel.open_tiles(writer, rows)
                pairs = [(n, k) for n in range(rows.copies) for k in part]
                offsets = tuple(n * step + taps[k] for n, k in pairs)
                tile = microkernel.Tile(t, offsets, columns.copies, s.groups)
                state = [t.zero] * (tile.rows * tile.vectors)
                for image in self.images:
                    base = microkernel.Place(stage.values.buffer(image.panel.number))
                    walks, first = self._walks(image, depth)
                    own = still.plus(constant=first)
                    a, b = (own, base) if s.by_columns else (base, own)
                    a = a.plus(*lines, (step, down.index))
                    if s.groups:
                        a = a.plus((s.lanes, across.index))
                    b = b.plus((s.lanes, across.index))
                    state = self.micro.sums(tile, walks, a, b, state)
                out = sums.plus((s.pitch * s.taps, down.index), (s.lanes, across.index))
                places = [(n * s.taps + k) * s.pitch for n, k in pairs]
                self.micro.keep(tile, state, out, places, s.adds)
                writer.close_loop(down)
            writer.close_loop(across)
        if not s.kept:
            self._finish()

    def _pass(self, depth: Block) -> None:
        """Sums of some taps at a time, at all places of columns; lanes are pixels."""
        s, stage = self.s, self.stage
        columns = [*itertools.product(*map(range, s.columns.extents))]
        rights = [
            substitute([s.still.node], {
                a: const(n, INDEX) for a, n in zip(s.columns.within, place, strict=True)
            })[0]
            for place in columns
        ]  # fmt: skip
        for part in s.parts:
            stores: list[Store] = []
            for tap, column in (divmod(k, len(columns)) for k in part):
                pixel = self._pixel(s.numbers[tap], depth)
                total = reduce("add", mul(pixel, rights[column]), depth.cut.within)
                place = const(tap * s.pitch + column, INDEX)
                total = add(self.sums.load(place), total)
                stores.append(Store(self.sums.number, place, total))
            last = depth.cut.within[-1]
            steps = {last: Steps(s.lanes)}
            again = part.start or len(columns) > 1  # it is near
            later = None if again else next_image(s.still.node, last, s)
            stage.run((), stores, steps, depth.spans(), prefetch=later)

    def _pixel(self, taps: Sequence[int], depth: Block) -> Node:
        """What some taps see of the image."""
        for image in self.images:
            at = 0
            pairs = zip(self.s.windows, taps, image.groups, strict=True)
            for window, tap, group in pairs:
                step, kind = divmod(tap, group.apart)
                if not group.first <= kind < group.first + group.classes:
                    break
                at += step * image.steps[window.tap]
                at += (kind - group.first) * image.kinds[window.column]
            else:
                places = [
                    term
                    for r in depth.cut.within
                    for term in depth.terms(image.steps[r], (r,))
                ]
                return image.panel.load(sum_of([const(at, INDEX), *places]))
        raise AssertionError

    def _taps(self) -> list[int]:
        """Where the rows of a tile begin in the image, for each pixel of it."""
        s, steps = self.s, self.images[0].steps
        if not s.by_filters:
            return [0]
        weights = [steps[w.tap] for w in s.windows]
        return [
            sum(k * n for k, n in zip(weights, tap, strict=True)) for tap in s.numbers
        ]

    def _walks(self, image: Image, depth: Block) -> tuple[list[microkernel.Walk], int]:
        """The loops over what is summed over, and where the other operand begins."""
        s, still, own = self.s, self.still.steps, image.steps
        steps = [(depth.extent(r), still.get(r, 0), own.get(r, 0))
                 for r in depth.cut.within]  # fmt: skip
        first = 0
        for window, group in zip(s.windows, image.groups, strict=True):
            if s.by_filters:
                continue
            begin, size = window.steps(still.get(window.tap, 0))
            first += begin + group.first * size
            if group.classes > 1:
                steps.append((str(group.classes), size, image.kinds[window.column]))
            steps.append((str(group.steps), size * group.apart, own[window.tap]))
        walks = [
            microkernel.Walk(n, *((still, image) if s.by_columns else (image, still)))
            for n, still, image in steps
        ]
        if self.still.panel is None and not s.by_columns:  # it is walked through evenly
            walks.sort(key=lambda w: -abs(w.right))
        return walks, first

    # What becomes of the sums.

    def _finish(self) -> None:
        """The kernel's own stores, with the sums read from their panel."""
        s, stage = self.s, self.stage
        stores, block, moved = stage.kernel.stores, self.block, dict[Node, Node]()
        parts = [e for store in stores for e in store.expressions]
        facts = stage.facts
        if s.flat_pixel is not None:
            *_, line, pixel = s.rows.within
            found = laid_flat(parts, (line, pixel), s.flat_pixel, facts, [self.total])
            moved = found or {}
        elif s.flat is not None:
            whole = s.flat.within[-1]
            axes = s.columns.within
            moved = laid_flat(parts, axes, whole, facts, [self.total]) or {}
            block = self.flat if moved else block
        if s.turned:
            self._turn_back(s.flat_pixel or s.rows.within[-1], moved)
            return
        rows = s.rows.within if s.kept else s.rows.within[-1:]
        terms = self.row.terms(s.pitch * s.taps, rows)
        axes = [*rows, *block.cut.within]
        if s.by_filters:
            taps = tuple(w.tap for w in s.windows)
            terms += Block(stage, Cut.whole(taps), "0").terms(s.pitch)
            inside = {*rows, *taps, *s.columns.within}
            axes = [a for a in stage.kernel.axes if a in inside]
            if moved:
                own = [a for a in axes if a not in s.columns.within]
                axes = [*own, *block.cut.within]
        terms += block.terms(1)
        found = {self.total: self.sums.load(sum_of(terms)), **moved}
        blocks = [block, self.row] if s.kept else [block]
        run_stores(stage, replaced_stores(stores, found), axes, blocks, s.lanes)

    def _turn_back(self, pixel: Node, moved: dict[Node, Node]) -> None:
        s, stage, block = self.s, self.stage, self.block
        inside = Block(stage, Cut.whole([pixel]), "0")
        place = [mul(pixel, const(s.pitch, INDEX)), *block.terms(1)]
        sums = self.sums.load(sum_of(place))
        stage.facts.learn([sums])
        fill_panel(self.turned, sums, pixel, block, inside, block, s.lanes)
        back = [*block.terms(self.turned.pitch), pixel]
        found = {self.total: self.turned.load(sum_of(back)), **moved}
        stores = replaced_stores(stage.kernel.stores, found)
        axes = [*block.cut.within, pixel]
        run_stores(stage, stores, axes, [block], s.lanes)
