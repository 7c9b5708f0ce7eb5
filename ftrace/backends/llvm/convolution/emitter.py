"""Carries out the schedule of a convolution: see `schedule.py`.

One operand slides, the *image*: it is evaluated once for each line that a block sees,
into a panel in which taps, strides and dilations are distances. A group has too few
places for a vector; but groups lie side by side, so that a vector has all places of
some groups. Each lane then has a number of its own, spread into the panel once, which
serves all taps. Channels that do not mix at all (depthwise) are groups of one place,
and need no spreading. The other operand is read where it stands, or from a panel.

Tiles are rows and vectors of columns; the left operand's numbers are spread over
vectors one at a time.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from math import prod

from ftrace.backends.llvm.contraction.find import plain_form
from ftrace.backends.llvm.convolution import microkernel
from ftrace.backends.llvm.convolution.find import Group
from ftrace.backends.llvm.convolution.schedule import Sliding, laid_flat
from ftrace.backends.llvm.emit.blocked_ranges import (
    Block,
    Cut,
    each_block,
    fill_panel,
    run_stores,
)
from ftrace.backends.llvm.emit.loop_nest import Span
from ftrace.backends.llvm.emit.staged_kernel import (
    Panel,
    Stage,
    replaced_stores,
    sum_of,
)
from ftrace.backends.llvm.ir.types import Type
from ftrace.backends.llvm.schedule.tiling_ir import Prefetch, Spread, Steps, cut
from ftrace.lower.kernel.affine_index import ZERO, sum_of_terms
from ftrace.lower.kernel.ir import INDEX, Store, axis_of, load, load_p, reduce
from ftrace.trace.graph import Node, substitute, toposort
from ftrace.trace.primitives.elementwise import add, bit_and, lt, mul
from ftrace.trace.primitives.sources import const

#: How many elements ahead a pass over pixels asks for.
_AHEAD = 1024


def not_aliased(pitch: int, item: int, lanes: int) -> int:
    """A pitch with which rows do not share the sets of the first cache."""
    return pitch + lanes if pitch * item % 1024 == 0 else pitch


class Still:
    """The operand that does not slide.

    Attributes:
      panel: None where it is read where it stands.
      steps: elements from one step to the next of each range of a block.
    """

    def __init__(self, s: Sliding, stage: Stage) -> None:
        self.s, self.stage = s, stage
        self.node, self.axis, in_place = s.still
        self.positions, self.panel = s.positions, None
        self.form = plain_form(self.node, stage.facts) or ZERO
        self.steps: Mapping[Node, int] = self.form.terms
        if in_place:
            return
        free, dtype = stage.facts.free[self.node], self.node.dtype
        count = self.positions.positions(free)
        if s.by_columns:
            pitch = not_aliased(count, dtype.itemsize, s.lanes)
            self.panel: Panel | None = stage.new_panel(dtype, s.rows.length, pitch)
            self.steps = self.positions.steps(1, free) | {self.axis: pitch}
        else:
            self.panel = stage.new_panel(dtype, count, s.pitch)
            self.steps = self.positions.steps(s.pitch, free) | {self.axis: 1}

    def fill(self, depth: Block, block: Block) -> None:
        """Evaluates it for a block, unless it is read where it stands.

        Args:
          depth: of what is summed over.
          block: of its axis.
        """
        if self.panel is None:
            return
        summed = Block(self.stage, self.positions, depth.number)
        summed.start = depth.start
        blocks = (block, summed) if self.s.by_columns else (summed, block)
        fill_panel(self.panel, self.node, self.axis, *blocks, summed, self.s.lanes)

    def place(self, depth: Block, block: Block) -> microkernel.Place:
        """Where it stands for the first row or column and the first step."""
        values, form = self.stage.values, self.form
        if self.panel is not None:
            return microkernel.Place(values.buffer(self.panel.number))
        within = {*self.positions.within, self.axis}
        terms = {a: c for a, c in form.terms.items() if a not in within}
        for part in (depth, block):
            split = part.cut.split
            if split is not None and part.start is not None and split in form.terms:
                terms[part.start] = form.terms[split]
        found, constant = values.terms(sum_of_terms(terms, form.constant), ())
        number = self.node.src[0].arg
        assert isinstance(number, int)
        return microkernel.Place(values.buffer(number), tuple(found), constant)


class Image:
    """A panel of the operand that slides: what some taps of each window see.

    Attributes:
      groups: of the taps of each window.
      steps: elements from one value to the next of each axis, range and tap.
      kinds: the same of the classes of a window, by its pixel.
    """

    def __init__(self, s: Sliding, stage: Stage, groups: tuple[Group, ...]) -> None:
        self.s, self.stage, self.groups = s, stage, groups
        free, item = stage.facts.free[s.slides], s.slides.dtype.itemsize
        self.windows = {
            w.column: (w, g) for w, g in zip(s.windows, groups, strict=True)
        }
        self.each = s.pitch if s.groups else 1
        beside = s.beside.positions(free)
        inside = beside * self.each if s.channels_last else 1
        self.steps, self.kinds, weight = dict[Node, int](), dict[Node, int](), inside
        sizes = dict(zip(s.along.within, s.along.extents, strict=True))
        for axis in self.axes[::-1]:
            if axis not in self.windows:
                self.steps[axis] = weight
                weight *= sizes[axis]
                continue
            window, group = self.windows[axis]
            self.steps[axis] = weight * (window.stride // group.apart)
            self.steps[window.tap] = weight * window.dilation
            weight *= window.reach(sizes[axis], group)
            self.kinds[axis] = weight
            weight *= group.classes
        self.sizes, rows, pitch = sizes, weight // inside, inside
        if not s.channels_last:
            rows, pitch = beside, not_aliased(weight, item, s.lanes)
        self.unit = self.each if s.channels_last else pitch
        self.steps |= s.beside.steps(self.unit, free)
        self.panel = stage.new_panel(s.slides.dtype, rows, pitch)

    @property
    def axes(self) -> Sequence[Node]:
        """As they lie in the panel, outermost first."""
        return self.s.along.order or self.s.along.within

    def fill(self, along: Block, beside: Block, columns: Block) -> None:
        """Evaluates the operand once for each line that a block sees.

        Args:
          along: the block that windows slide along.
          beside: of what the image has beside its lines.
          columns: of the columns; of groups vectors run along them.
        """
        s, stage, moved = self.s, self.stage, dict[Node, Node]()
        lanes = s.lanes
        ranges: list[Node] = []
        terms: list[Node] = []
        spans: dict[Node, Span] = {}
        within: Node | None = None
        for axis in self.axes:
            start = along.start if axis is along.cut.split else None
            if axis not in self.windows:
                ranges.append(axis)
                terms += along.terms(self.steps[axis], (axis,))
                continue
            window, group = self.windows[axis]
            by = window.stride // group.apart
            line = stage.new_range(window.reach(self.sizes[axis], group))
            weight = self.steps[window.tap] // window.dilation
            terms.append(mul(line, const(weight, INDEX)))
            number: Node = const(group.first, INDEX)
            if group.classes > 1:
                kind = stage.new_range(group.classes)
                ranges.append(kind)
                terms.append(mul(kind, const(self.kinds[axis], INDEX)))
                number = add(kind, number)
            ranges.append(line)
            # Which pixel and tap see it does not matter: by·u + dilation·v = 1.
            v = pow(window.dilation, -1, by) if by > 1 else 0
            u = (1 - window.dilation * v) // by
            pixel, tap = _times(line, u), _times(line, v)
            moved[axis] = pixel if start is None else add(pixel, start)
            moved[window.tap] = window.tap_of(add(tap, number))
            if start is None or axis_of(axis).size % along.cut.size == 0:
                continue
            if axis is self.axes[-1] and not (s.channels_last or s.groups):
                # A vector may reach beyond the last pixel.
                place = add(line, mul(start, const(by, INDEX)))
                all_of_them = window.reach(window.pixels, group)
                within = lt(place, const(all_of_them, INDEX))
            else:
                behind = window.reach(along.cut.size, group) - by * along.cut.size
                spans[line] = Span("0", stage.scaled(along.extent(axis), by, behind))
        (value,) = substitute([s.slides], moved)
        if within is not None:
            value = _loaded_within(value, within)
        known = terms, ranges, spans
        if s.groups and not s.turned and self._spread(value, beside, columns, *known):
            return
        free = stage.facts.free[s.slides]
        terms += beside.terms(self.unit, stage.facts.free[s.slides])
        others = [r for r in beside.cut.within if r in free]
        ranges = [*ranges, *others] if s.channels_last else [*others, *ranges]
        blocks = [along, beside]
        if s.groups:
            terms += columns.terms(1)
            ranges += columns.cut.within
            blocks.append(columns)
        if s.turned:
            ranges[-2:] = ranges[:-3:-1]
        last = ranges[-1]
        while lanes > 1 and not all(b.fits(last, lanes) for b in blocks):
            lanes //= 2
        steps = {last: Steps(lanes)}
        if s.turned:
            steps[ranges[-2]] = Steps(0, lanes, False)
        for block in blocks:
            if block.cut.split in ranges:
                spans |= block.spans(steps)
        store = Store(self.panel.number, sum_of(terms), value)
        again = any(group.first for group in self.groups)
        later = None if again else next_image(value, last, s)
        stage.run(ranges, [store], steps, spans, squares=s.turned, prefetch=later)

    def _spread(
        self,
        value: Node,
        beside: Block,
        columns: Block,
        terms: Sequence[Node],
        ranges: Sequence[Node],
        spans: Mapping[Node, Span],
    ) -> bool:
        """Fills the panel with whole vectors of channels, spread over their places.

        Args:
          beside: what is summed over.
          columns: the groups, and their places.
          terms, ranges, spans: of the lines.

        Returns:
          False where channels do not lie in whole vectors; then nothing is done.
        """
        stage, facts, s = self.stage, self.stage.facts, self.s
        facts.learn([value])
        held = [r for r in beside.cut.within if r in facts.free[value]]
        if not held or held[-1] is beside.cut.split:
            return False
        (*others, channel), (groups, *rest) = held, s.plan.columns
        places, channels = prod(axis_of(a).size for a in rest), axis_of(channel).size
        lanes = stage.target.vector_bytes // value.dtype.itemsize
        count = lanes // channels
        most = columns.cut.extents[0]
        while count > 1 and (most % count or axis_of(groups).size % count):
            count //= 2
        if count < 1 or channels * count < 4 or channels & (channels - 1):
            return False
        part = stage.new_range(most // count)
        inside = stage.new_range(channels * count)
        first = const(0, INDEX) if columns.start is None else columns.start
        place = add(mul(part, const(channels * count, INDEX)), inside)
        place = add(mul(first, const(channels, INDEX)), place)
        moved = laid_flat([value], (groups, channel), place, facts)
        if moved is None:
            return False
        # The channel, which is the first of them, is left out.
        apart = beside.terms(s.pitch, facts.free[value])[1:]
        (value,) = substitute([value], moved)
        index = sum_of([*terms, *apart, mul(part, const(count * places, INDEX))])
        own = {r: span for r, span in beside.spans().items() if r in others}
        if columns.start is not None:
            extent = columns.extent(groups)
            text = stage.writer.pure(f"udiv i64 {extent}, {count}", extent)
            own[part] = Span("0", text)
        stage.run(
            [*ranges, *others, part, inside], [Store(self.panel.number, index, value)],
            {inside: Steps(channels * count)}, {**own, **spans},
            spread=Spread(channels, places, count, s.pitch),
        )  # fmt: skip
        return True


def next_image(value: Node, last: Node, s: Sliding) -> Prefetch | None:
    """What is read of it, which is too short for the processor to ask for it.

    Args:
      last: along which vectors run: where no image follows, elements ahead are read.
    """
    if not s.along_pixels:
        return None
    pixels = [w.column for w in s.windows]
    others = [r for r in (*s.depth.outer, *s.depth.within) if r not in pixels]
    loads = [n for n in toposort([value]) if n.op is load_p]
    return Prefetch(loads, others[-1]) if others else Prefetch(loads, last, _AHEAD)


def _times(line: Node, by: int) -> Node:
    return mul(line, const(by, INDEX)) if by else const(0, INDEX)


def _loaded_within(value: Node, valid: Node) -> Node:
    """The same; nothing is read where it is not valid."""
    moved: dict[Node, Node] = {}
    for n in toposort([value]):
        if n.op is load_p:
            both = [bit_and(valid, condition) for condition in n.src[2:]]
            moved[n] = load(n.src[0], n.src[1], both[0] if both else valid)
    return substitute([value], moved)[0]


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
