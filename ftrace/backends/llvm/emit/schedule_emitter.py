"""Carries schedules out, statement by statement: see `schedule/schedule_tree.py`.

Sums are added up in tiles of registers. Any expression of operands is a small kernel of
its own, whose loops run in tiles: loops of a nest (`loop_nest.py`, `accumulators.py`).
Where windows slide over an image, taps are distances in it, and each step of a loop
goes as far as the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from math import prod
from typing import Any

from ftrace.backends.llvm.emit import blocked_ranges
from ftrace.backends.llvm.emit.loop_nest import Nest, TileSpan
from ftrace.backends.llvm.emit.staged_kernel import StagedKernel
from ftrace.backends.llvm.ir.writer import Type, literal
from ftrace.backends.llvm.schedule import index_facts, layout, schedule_tree as tree
from ftrace.backends.llvm.schedule.loop_tiling import RangeTiling, size_of
from ftrace.backends.llvm.schedule.prefetch import loads_along, prefetch_along
from ftrace.lower.kernel.ir import INDEX, Store, axis_of, reduce
from ftrace.trace.graph import Node, substitute
from ftrace.trace.primitives.elementwise import add, mul, rem, sub
from ftrace.trace.primitives.sources import const
from ftrace.trace.symbolic import is_dynamic, same_size


class ScheduleEmitter:
    """Carries a schedule out in a staged kernel.

    Attributes:
      memory: of panels and images.
      blocks: that are open.
      lines: ranges of tiles that run through all those of a block.
      made, numbers: what units share, and of which units this one is.
    """

    def __init__(self, schedule: tree.Schedule, staged: StagedKernel) -> None:
        self.schedule, self.staged = schedule, staged
        for view in schedule.views:
            staged.new_view(view.buffer, view.group)
        self.memory = staged.new_panels(schedule.memory())
        for found in schedule.memory():
            self._clear_at_first(found)
        self.made = {
            s: self._unit_made_last()
            for s in schedule.statements()
            if isinstance(s, tree.Once)
        }
        self.blocks: dict[layout.Blocked, blocked_ranges.Block] = {}
        self.lines: dict[layout.Blocked, Node] = {}

    def emit(self) -> int:
        """Emits the function; returns how many units it has."""
        self.run(self.schedule.setup)
        with (
            self.staged.units(self.schedule.unit_places) as unit,
            ExitStack() as opened,
        ):
            self.numbers = {s: self._number(s, unit.number) for s in self.made}
            for of, number in unit.blocks.items():
                self._open(of, number, opened)
            self.run(self.schedule.unit)
        return unit.count

    def run(self, body: Sequence[tree.Statement]) -> None:
        for statement in body:
            _EMIT[type(statement)](self, statement)

    # Blocks.

    def block(self, of: layout.Blocked) -> blocked_ranges.Block:
        """The block of a cut: one that is open, maybe of the same range, or all."""
        found = self.blocks.get(of)
        if found is not None:
            return found
        assert isinstance(of, layout.Cut)
        found = blocked_ranges.Block(self.staged, of, literal(0))
        for block in self.blocks.values():
            if of.split is not None and block.cut.split is of.split:
                found.number, found.start = block.number, block.start
        return found

    def _open(self, of: layout.Blocked, number: str, opened: ExitStack) -> None:
        staged = self.staged
        if isinstance(of, layout.VectorRows):
            found = blocked_ranges.VectorBlock(self.blocks[of.rows], of)
        else:
            found = blocked_ranges.Block(staged, of, number)
        if self.schedule.names_places:
            found.open(opened)
        self.blocks[of] = found

    def for_each(self, s: tree.ForEach) -> None:
        with ExitStack() as opened:
            for place in s.blocks:
                self._enter(place, opened)
            self.run(s.body)

    def _enter(self, place: Any, opened: ExitStack) -> None:
        """Opens a loop over the blocks of a cut."""
        staged, number, text = self.staged, self.staged.values.number, literal(0)
        if isinstance(place, layout.VectorRows):
            self._open(place, text, opened)
        else:
            for r in place.outer:
                loop = staged.writer.loop(literal(0), number(axis_of(r).size))
                index = opened.enter_context(loop)
                opened.enter_context(staged.at(r, index))
            if is_dynamic(place.blocks) or place.blocks > 1:
                loop = staged.writer.loop(literal(0), number(place.blocks))
                text = opened.enter_context(loop)
            self._open(place, text, opened)

    def _unit_made_last(self) -> str:
        """Where the number stands of the units for which something was made last."""
        staged, writer = self.staged, self.staged.writer
        for number in range(len(staged.kernel.buffers)):
            staged.values.buffer(number)  # known in the branch, and after it
        made = writer.here("alloca i64")
        writer.effect(f"store i64 -1, ptr {made}")
        return made

    def _number(self, s: tree.Once, unit: str) -> str:
        """The number of the units that share it."""
        places = s.sharing
        sizes = [axis_of(p).size if isinstance(p, Node) else p.blocks for p in places]
        count = self.staged.values.number(prod(sizes))
        return self.staged.writer.pure(f"udiv i64 {unit}, {count}", unit, count)

    def once(self, s: tree.Once) -> None:
        writer, made, number = self.staged.writer, self.made[s], self.numbers[s]
        last = writer.here(f"load i64, ptr {made}")
        fresh = writer.here(f"icmp ne i64 {last}, {number}")
        branch = writer.open_branch()
        self.run(s.body)
        writer.effect(f"store i64 {number}, ptr {made}")
        writer.close_branch(branch, fresh, ())

    # Memory.

    def index_of(self, parts: Sequence[layout.Term]) -> Node:
        """Where an element stands."""
        terms: list[Node] = []
        for part in parts:
            if part.cut in self.lines:
                weight = const(part.weight, INDEX)
                terms.append(mul(self.lines[part.cut], weight))
            else:
                terms += self.block(part.cut).terms(part)
        return index_facts.sum_of(terms)

    def loads(self, panels: Sequence[layout.Panel]) -> dict[Node, Node]:
        """What stands in panels, in place of what they are filled with."""
        return {p.node: self.memory[p.key].load(self.index_of(p.terms)) for p in panels}

    def _clear_at_first(self, found: layout.Memory) -> None:
        memory, staged = self.memory[found.key], self.staged
        if found.zeros is not None:
            staged.set_constant(memory, 0, found.zeros)
        if isinstance(found, layout.Panel) or not found.behind:
            return
        access, base = staged.values.access, staged.values.buffer(memory.number)
        t = Type.of(memory.dtype, self.schedule.lanes)
        for n in range(2):
            p = access.pointer(base, [], memory.size + n * t.lanes, t.bytes)
            access.store(t, t.zero, p)

    def clear(self, s: tree.Clear) -> None:
        self.staged.set_constant(self.memory[s.panel.key], s.value)

    def fill(self, s: tree.Fill) -> None:
        panel, memory = s.panel, self.memory[s.panel.key]
        if isinstance(panel, layout.Image):
            along, others = self.block(panel.along), self.block(panel.others.cut)
            columns = panel.columns and self.block(panel.columns.cut)
            lanes = self.schedule.lanes
            blocked_ranges.fill_image(memory, s, along, others, columns, lanes)
            return
        blocks = [self.block(part.cut) for part in panel.terms]
        blocked_ranges.fill_panel(memory, s, blocks)

    # Sums.

    def accumulate(self, s: tree.Accumulate) -> None:
        """All sums; of what each image has, and of some taps where these are rows."""
        if not s.images:
            self._add_up(s, None, [{}])
        for image in s.images:
            names = [window.tap for window, _ in image.windows]
            taps = [dict(zip(names, numbers, strict=True)) for numbers in image.taps]
            for part in s.taps:
                self._add_up(s, image, [taps[k] for k in part])
            if not s.taps:
                self._add_up(s, image, [{}])

    def _add_up(
        self, s: tree.Accumulate, image: layout.Image | None,
        taps: Sequence[Mapping[Node, int]],
    ) -> None:  # fmt: skip
        staged, depth, later = self.staged, self.block(s.depth), None
        steps, spans = dict[Node, RangeTiling](), dict[Node, TileSpan]()
        moved = {} if s.rows is None else self._tile(s.rows, steps, spans)
        moved |= self._tile(s.columns, steps, spans)
        axes = tuple(steps)
        values = [node.src[0] for node in s.totals]
        values = substitute(values, self.loads(s.operands))
        ranges, spans = depth.cut.within, depth.spans() | spans
        if s.along is not None:
            steps[ranges[-1]] = s.along
        if s.prefetch:
            loads = loads_along(values, s.columns.cut.within[-1], staged.facts)
            later = prefetch_along(loads, ranges[-1], s.prefetch, staged.facts)
        stores: list[Store] = []
        for at in taps:
            sums: dict[Node, Node] = {}
            for node, value in zip(s.totals, values, strict=True):
                if image is None:
                    sums[node] = reduce(str(node.arg), value, ranges)
                else:
                    sums[node] = self._sum_windows(s, image, value, moved, at)
            more = s.depth.several or image not in (None, *s.images[:1])
            stores += self._epilogue(s, sums, at, more)
        how = {"prefetch_along": later, "flat_sums": image is not None}
        staged.run(axes, stores, steps, spans, **how)
        self.lines.clear()

    def _tile(
        self,
        tiled: tree.TiledCut,
        steps: dict[Node, RangeTiling],
        spans: dict[Node, TileSpan],
    ) -> dict[Node, Node]:
        """How loops over the tiles of a block run: their steps, and parts of ranges.

        Of several ranges the last one runs in tiles. Where all are one range, returns
        what stands for a single one.
        """
        staged, block, within = self.staged, self.block(tiled.cut), tiled.cut.within
        if not tiled.flat:
            own = dict.fromkeys(within, RangeTiling()) | {within[-1]: tiled.steps}
            steps |= own
            spans |= block.spans(own)
            return {}
        line = self.lines[tiled.cut] = staged.new_range(tiled.length)
        steps[line] = tiled.steps
        split = block.cut.split
        short = split and not same_size(axis_of(split).size % block.cut.size, 0)
        if short and not tiled.cut.order:  # else what there is may stand anywhere
            width = tiled.steps.width
            count = staged.scale(block.count(), 1, width - 1)
            tiles = staged.writer.pure(f"udiv i64 {count}, {width}", count)
            spans[line] = TileSpan(literal(0), tiles)
        long = [r for r in within if size_of(r) > 1] or [within[-1]]
        if len(long) > 1:
            return {}
        place = line if block.start is None else add(line, block.start)
        return dict.fromkeys(within, const(0, INDEX)) | {long[0]: place}

    def _epilogue(
        self, s: tree.Accumulate, sums: dict[Node, Node], at: Mapping[Node, int],
        more: bool,
    ) -> list[Store]:  # fmt: skip
        """What is stored of sums in registers.

        Args:
          more: they are added to what is there.
        """
        if not s.into:
            found = sums | self.loads(s.finished)
            return index_facts.replace_in_stores(self.staged.kernel.stores, found)
        known = {tap: const(number, INDEX) for tap, number in at.items()}
        places = substitute([self.index_of(panel.terms) for panel in s.into], known)
        return [
            Store(
                self.memory[panel.key].number, place, sums[panel.node], None,
                str(panel.node.arg) if more else "",
            )
            for panel, place in zip(s.into, places, strict=True)
        ]  # fmt: skip

    # Sums over windows.

    def _sum_windows(
        self, s: tree.Accumulate, image: layout.Image, value: Node,
        moved: Mapping[Node, Node], at: Mapping[Node, int],
    ) -> Node:  # fmt: skip
        """The sum of what windows see of an image, of its taps or of one.

        Args:
          value: the product.
          moved: what stands for ranges of tiles.
        """
        terms, moved = self._pixel(image), dict(moved)
        ranges = list(s.depth.within)
        for window, group in image.windows:
            step = image.steps[window.tap]
            if window.tap in at:
                terms.append(const(at[window.tap] * step, INDEX))
                continue
            number: Node = const(group.first, INDEX)
            kind = group.classes, image.kinds[window.column], 1
            for count, by, stride in (kind, (group.steps, step, group.stride)):
                if count > 1:
                    ranges.append(r := self.staged.new_range(count, True))
                    terms.append(mul(r, const(by, INDEX)))
                    number = add(number, mul(r, const(stride, INDEX)))
            moved[window.tap] = window.tap_of(number)
        pixel = self.memory[image.key].load(index_facts.sum_of(terms))
        (still,) = [source for source in value.src if source is not image.node]
        (still,) = substitute([still], moved)
        self.staged.facts.learn([still])
        weights = self.staged.facts.affine[index_facts.index_of(still)].terms
        ranges.sort(key=lambda r: -abs(weights.get(r, 0)))  # in memory order
        product = mul(still, pixel)
        return reduce("add", product, tuple(ranges)) if ranges else product

    def _pixel(self, image: layout.Image) -> list[Node]:
        """Where a pixel of the block stands in an image: the terms of its place."""
        along, terms = self.block(image.along), [self.index_of((image.others,))]
        if image.columns is not None:  # lanes are groups
            groups = image.columns.cut
            assert isinstance(groups, layout.Cut)
            place = self.lines[groups]
            terms.append(
                rem(place, const(groups.size, INDEX)) if groups.order else place
            )
        line, ranges = self.lines.get(image.along), image.along.within
        if line is not None and len(ranges) > 1:
            return [*terms, line]  # all of them are one there as well
        for r in ranges:
            place = r if line is None else line
            if line is None and r is along.cut.split and along.start is not None:
                place = sub(r, along.start)
            terms.append(mul(place, const(image.steps[r], INDEX)))
        return terms

    # Loops of the kernel.

    def loops(self, s: tree.Loops) -> None:
        several = [block for block in self.blocks.values() if block.cut.several]
        spans = [pair for b in several for pair in b.spans(s.tiling.steps).items()]
        Nest(self.staged.values, s.tiling, dict(spans)).block(s.body)

    # What becomes of the sums.

    def store(self, s: tree.StoreResults) -> None:
        staged, found = self.staged, self.loads(s.panels)
        stores = index_facts.replace_in_stores(staged.kernel.stores, found)
        lanes = self.schedule.lanes
        if s.group is not None:
            each = [{s.group: const(n, INDEX)} for n in range(size_of(s.group))]
            parts = [index_facts.replace_in_stores(stores, moved) for moved in each]
            stores = [store for part in parts for store in part]
        axes, last = s.axes, s.axes[-1]
        if s.squares:
            steps = {axes[-2]: RangeTiling(lanes), last: RangeTiling(0, lanes, False)}
            # What is read lies side by side along the first axis, what is written along
            # the last: through the caches that counts more, for whose lines are read.
            if stores[0].buffer in staged.values.nontemporal:
                axes = (*axes[:-2], *axes[:-3:-1])
        else:
            widest = max(store.value.dtype.itemsize for store in stores)
            lanes = min(staged.target.vector_bytes // widest, lanes)
            steps = {last: RangeTiling(layout.fit_lanes(last, s.cuts, lanes))}
        pairs = [pair for of in s.cuts for pair in self.block(of).spans(steps).items()]
        spans = dict(pairs)
        how = {"squares": s.squares, "next_square": s.prefetch}
        staged.run(axes, stores, steps, spans, **how)


_EMIT: dict[type[tree.Statement], Callable[[ScheduleEmitter, Any], None]] = {
    tree.ForEach: ScheduleEmitter.for_each,
    tree.Once: ScheduleEmitter.once,
    tree.Clear: ScheduleEmitter.clear,
    tree.Fill: ScheduleEmitter.fill,
    tree.Accumulate: ScheduleEmitter.accumulate,
    tree.StoreResults: ScheduleEmitter.store,
    tree.Loops: ScheduleEmitter.loops,
}
