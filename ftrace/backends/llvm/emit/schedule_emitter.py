"""Carries schedules out, statement by statement: see `schedule/schedule_tree.py`.

Sums are added up in tiles of registers, in one of two ways. Any expression of operands
is a small kernel of its own, whose loops run in tiles (`Accumulate`): loops of a nest
(`loop_nest.py`, `accumulators.py`). Where windows slide over an image (`Slide`), both
operands stand in memory, and each step of a loop goes as far in it as the one before:

    sums[i, j] += left(i, k) · right(k, j)      i < rows, j < vectors

The left one stands there as numbers that are spread over a vector (where lanes are
groups: as vectors), the right one as vectors. `k` is a nest of loops, in which both
walk evenly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from math import prod
from typing import Any

from ftrace.backends.llvm.emit import blocked_ranges
from ftrace.backends.llvm.emit.addressing import Access, Term
from ftrace.backends.llvm.emit.loop_nest import Span
from ftrace.backends.llvm.emit.staged_kernel import Scratch, Stage
from ftrace.backends.llvm.ir.writer import Type, Writer
from ftrace.backends.llvm.scalar.ops import Operations
from ftrace.backends.llvm.schedule import index_facts, layout, schedule_tree as tree
from ftrace.backends.llvm.schedule.tiling_ir import Prefetch, RangeTiling, cut, size_of
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.kernel.affine_index import sum_of_terms
from ftrace.lower.kernel.ir import INDEX, Store, axis_of, reduce
from ftrace.trace.graph import Node, substitute
from ftrace.trace.primitives.elementwise import mul
from ftrace.trace.primitives.sources import const
from ftrace.trace.symbolic import is_dynamic

# Tiles of sums where windows slide.

#: Products that are written one after the other at most.
_UNROLLED = 48


@dataclass(frozen=True)
class Walk:
    """A loop of a sum, and how far each step of it goes, in elements.

    Attributes:
      count: how many steps: a number, or a value.
    """

    count: str
    left: int
    right: int


@dataclass(frozen=True)
class Address:
    """A place in memory: a pointer, and terms in elements."""

    base: str
    terms: tuple[Term, ...] = ()
    constant: int = 0

    def plus(self, *terms: Term, constant: int = 0) -> Address:
        return Address(self.base, (*self.terms, *terms), self.constant + constant)


@dataclass(frozen=True)
class Tile:
    """The shape of a tile.

    Attributes:
      type: of a vector of sums.
      offsets: where each row of the left operand begins.
      vectors: how many there are.
      spread: the left operand has vectors, not numbers.
    """

    type: Type
    offsets: tuple[int, ...]
    vectors: int
    spread: bool = False

    @property
    def rows(self) -> int:
        return len(self.offsets)


def each_tile(writer: Writer, size: int, most: int) -> Iterator[tuple[str, int]]:
    """Loops over tiles of at most so many: where one begins, and how many it has."""
    for tiles in cut(size, RangeTiling(0, most)):
        stop = tiles.start + tiles.count * tiles.width
        loop = writer.open_loop(str(tiles.start), str(stop), tiles.width)
        yield loop.index, tiles.copies
        writer.close_loop(loop)


def _copies(count: str, tile: Tile, registers: int) -> int:
    """How often a loop over steps of a tile is unrolled.

    LLVM loads the vectors of all copies first. Where no register is left for them, sums
    go to memory and back with each step: 6 × 2 of 16 registers took 1.5 times as long.
    """
    if not count.isdigit():
        return 1
    sums = tile.rows * tile.vectors
    most = min(_UNROLLED // sums, (registers - 1 - sums) // tile.vectors)
    return max(n for n in range(1, max(most, 1) + 1) if int(count) % n == 0)


class MicroKernel:
    """Emits tiles."""

    def __init__(self, writer: Writer, ops: Operations, access: Access) -> None:
        self.writer = writer
        self.ops = ops
        self.access = access

    def sums(
        self,
        tile: Tile,
        walks: Sequence[Walk],
        a: Address,
        b: Address,
        state: list[str],
    ) -> list[str]:
        """Adds to the sums of a tile, row by row, what loops inside one another give.

        Args:
          walks: the loops, outermost first.
          a, b: where the operands begin.
          state: the sums before.
        """
        if not walks:
            return self._step(tile, a, b, state)
        walk, inner = walks[0], walks[1:]
        copies = 1 if inner else _copies(walk.count, tile, self.ops.target.registers)
        loop = None
        if walk.count != str(copies):
            carried = [(tile.type.text, text) for text in state]
            loop = self.writer.open_loop("0", walk.count, copies, carried)
            a, b = a.plus((walk.left, loop.index)), b.plus((walk.right, loop.index))
            state = [name for _, _, name in loop.carried]
        for n in range(copies):
            here = a.plus(constant=n * walk.left), b.plus(constant=n * walk.right)
            state = self.sums(tile, inner, *here, state)
        return state if loop is None else self.writer.close_loop(loop, state)

    def _step(self, tile: Tile, a: Address, b: Address, state: list[str]) -> list[str]:
        """One step: rows × vectors products are added."""
        t, found = tile.type, list(state)
        p = self.pointer(b, t)
        vectors = [
            self.access.load(t, self._at(p, j * t.lanes * t.bytes), True)
            for j in range(tile.vectors)
        ]
        element = t.with_lanes(0)
        q = self.pointer(a, t)
        for i in range(tile.rows):
            place = self._at(q, tile.offsets[i] * t.bytes)
            each = self.access.load(t if tile.spread else element, place, True)
            each = each if tile.spread else self.ops.splat(each, t)
            for j, vector in enumerate(vectors):
                at = i * tile.vectors + j
                found[at] = self._add(t, vector, each, found[at])
        return found

    def _add(self, t: Type, a: str, b: str, total: str) -> str:
        if self.ops.target.fma:
            return self.ops.call("fma", t, a, b, total)
        return self.ops.apply("add", t, total, self.ops.apply("mul", t, a, b))

    def pointer(self, place: Address, t: Type) -> str:
        return self.access.pointer(
            place.base, list(place.terms), place.constant, t.bytes
        )

    def _at(self, p: str, offset: int) -> str:
        if not offset:
            return p
        return self.writer.pure(f"getelementptr i8, ptr {p}, i64 {offset}", p)

    def keep(
        self, tile: Tile, state: Sequence[str], out: Address, rows: Sequence[int],
        add: bool,
    ) -> None:  # fmt: skip
        """Stores the sums of a tile, or adds them to what is there.

        Args:
          rows: where each row stands, from `out` on.
        """
        t = tile.type
        p = self.pointer(out, t)
        for i, row in enumerate(rows):
            for j in range(tile.vectors):
                place = self._at(p, (row + j * t.lanes) * t.bytes)
                text = state[i * tile.vectors + j]
                if add:
                    old = self.access.load(t, place, True)
                    text = self.ops.apply("add", t, old, text)
                self.access.store(t, text, place)


# Statements.

#: Where the operand of a slide stands that keeps still; elements from one step to the
#: next of each range.
_Still = tuple[Address, Mapping[Node, int]]


class ScheduleEmitter:
    """Carries a schedule out in a stage.

    Attributes:
      memory: of panels and images.
      blocks: that are open.
      lines: ranges of tiles that run through all those of a block.
      made, numbers: what units share, and of which units this one is.
    """

    def __init__(self, schedule: tree.Schedule, stage: Stage) -> None:
        self.schedule, self.stage = schedule, stage
        for view in schedule.views:
            stage.new_view(view.buffer, view.group)
        self.memory: dict[tuple[str, Node], Scratch] = {}
        for found in schedule.memory():
            padded = isinstance(found, layout.Panel) and found.padded
            dtype, size = found.node.dtype, (found.rows, found.pitch)
            self.memory[found.key] = stage.new_panel(dtype, *size, padded)
        for found in schedule.memory():
            self._clear_at_first(found)
        self.made = {
            s: self._nothing_made()
            for s in schedule.statements()
            if isinstance(s, tree.Once)
        }
        self.blocks: dict[layout.Blocked, blocked_ranges.Block] = {}
        self.lines: dict[layout.Blocked, Node] = {}

    def emit(self) -> int:
        """Emits the function; returns how many units it has."""
        with self.stage.units(self.schedule.places) as unit, ExitStack() as opened:
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
        found = blocked_ranges.Block(self.stage, of, "0")
        for block in self.blocks.values():
            if of.split is not None and block.cut.split is of.split:
                found.number, found.start = block.number, block.start
        return found

    def _open(self, of: layout.Blocked, number: str, opened: ExitStack) -> None:
        stage = self.stage
        if isinstance(of, layout.VectorRows):
            found = blocked_ranges.VectorBlock(self.blocks[of.rows], of)
        else:
            found = blocked_ranges.Block(stage, of, number)
        found.open(opened)
        self.blocks[of] = found

    def for_each(self, s: tree.ForEach) -> None:
        with ExitStack() as opened:
            for place in s.places:
                self._enter(place, opened)
            self.run(s.body)

    def _enter(self, place: Any, opened: ExitStack) -> None:
        """Opens a loop over the blocks of a cut."""
        stage, number, text = self.stage, self.stage.values.number, "0"
        if isinstance(place, layout.VectorRows):
            self._open(place, text, opened)
        else:
            for r in place.outer:
                index = opened.enter_context(stage.loop(number(axis_of(r).size)))
                opened.enter_context(stage.at(r, index))
            if is_dynamic(place.blocks) or place.blocks > 1:
                text = opened.enter_context(stage.loop(number(place.blocks)))
            self._open(place, text, opened)

    def _nothing_made(self) -> str:
        """Where the number stands of the units for which something was made last."""
        stage, writer = self.stage, self.stage.writer
        for number in range(len(stage.kernel.buffers)):
            stage.values.buffer(number)  # known in the branch, and after it
        made = writer.here("alloca i64")
        writer.effect(f"store i64 -1, ptr {made}")
        return made

    def _number(self, s: tree.Once, unit: str) -> str:
        """The number of the units that share it."""
        sizes = [size_of(p) if isinstance(p, Node) else p.blocks for p in s.sharing]
        return self.stage.writer.pure(f"udiv i64 {unit}, {prod(sizes)}", unit)

    def once(self, s: tree.Once) -> None:
        writer, made, number = self.stage.writer, self.made[s], self.numbers[s]
        last = writer.here(f"load i64, ptr {made}")
        fresh = writer.here(f"icmp ne i64 {last}, {number}")
        branch = writer.open_branch()
        self.run(s.body)
        writer.effect(f"store i64 {number}, ptr {made}")
        writer.close_branch(branch, fresh, ())

    # Memory.

    def place(self, parts: Sequence[layout.Part]) -> Node:
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
        return {p.node: self.memory[p.key].load(self.place(p.parts)) for p in panels}

    def _clear_at_first(self, found: layout.Memory) -> None:
        memory, stage = self.memory[found.key], self.stage
        if found.zeros is not None:
            stage.fill(memory, 0, found.zeros)
        if isinstance(found, layout.Panel) or not found.behind:
            return
        access, base = stage.values.access, stage.values.buffer(memory.number)
        t = Type.of(memory.dtype, self.schedule.lanes)
        for n in range(2):
            p = access.pointer(base, [], memory.size + n * t.lanes, t.bytes)
            access.store(t, t.zero, p)

    def clear(self, s: tree.Clear) -> None:
        self.stage.fill(self.memory[s.panel.key], s.value)

    def fill(self, s: tree.Fill) -> None:
        panel, memory = s.panel, self.memory[s.panel.key]
        if isinstance(panel, layout.Image):
            along, beside = self.block(panel.along), self.block(panel.beside.cut)
            columns = panel.columns and self.block(panel.columns.cut)
            lanes = self.schedule.lanes
            blocked_ranges.fill_image(memory, panel, along, beside, columns, lanes)
            return
        blocks = [self.block(part.cut) for part in panel.parts]
        blocked_ranges.fill_panel(
            memory, panel.node, panel.parts, blocks, self.schedule.lanes
        )

    # Sums of any expressions.

    def accumulate(self, s: tree.Accumulate) -> None:
        stage, depth, later = self.stage, self.block(s.depth), None
        steps, spans = dict[Node, RangeTiling](), dict[Node, Span]()
        for tiled in (s.rows, s.columns):
            if tiled is not None:
                self._tile(tiled, steps, spans)
        axes = tuple(steps)
        values = [node.src[0] for node in s.totals]
        values = substitute(values, self.loads(s.operands))
        ranges, spans = depth.cut.within, depth.spans() | spans
        if s.along is not None:
            steps[ranges[-1]] = s.along
        if s.ahead:
            column = s.columns.cut.within[-1]
            later = Prefetch.of(values, column, ranges[-1], s.ahead, stage.facts)
        sums = {
            node: reduce(str(node.arg), value, ranges)
            for node, value in zip(s.totals, values, strict=True)
        }
        stage.run(axes, self._stores(s, sums), steps, spans, prefetch=later)
        self.lines.clear()

    def _tile(
        self, tiled: tree.Tiled, steps: dict[Node, RangeTiling], spans: dict[Node, Span]
    ) -> None:
        """How loops over the tiles of a block run: their steps, and parts of ranges."""
        stage, block = self.stage, self.block(tiled.cut)
        if not tiled.flat:
            own = dict.fromkeys(tiled.cut.within, tiled.steps)
            steps |= own
            spans |= block.spans(own)
            return
        line = self.lines[tiled.cut] = stage.new_range(tiled.length)
        steps[line] = tiled.steps
        if block.cut.split is not None:
            width = tiled.steps.width
            count = stage.scaled(block.count(), 1, width - 1)
            tiles = stage.writer.pure(f"udiv i64 {count}, {width}", count)
            spans[line] = Span("0", tiles)

    def _stores(self, s: tree.Accumulate, sums: dict[Node, Node]) -> list[Store]:
        """What is stored of sums in registers."""
        if not s.into:
            found = sums | self.loads(s.finished)
            return index_facts.replace_in_stores(self.stage.kernel.stores, found)
        return [
            Store(
                self.memory[panel.key].number, self.place(panel.parts),
                sums[panel.node], None, str(panel.node.arg) if s.depth.several else "",
            )
            for panel in s.into
        ]  # fmt: skip

    # Sums over windows.

    def slide(self, s: tree.Slide) -> None:
        """Tiles of rows and vectors of each line, for each part of the taps."""
        writer, (rows, vectors) = self.stage.writer, s.tile
        wide = s.into.pitch // self.schedule.lanes
        height = s.rows.extents[-1] if s.rows.within else 1
        still = self._still(s)
        with ExitStack() as opened:
            block, lines = self.block(s.rows), dict[Node, str]()
            for axis in s.rows.within[:-1]:
                loop = self.stage.loop(block.extent(axis))
                lines[axis] = opened.enter_context(loop)
            for part in s.parts:
                for across in each_tile(writer, wide, vectors):
                    for down in each_tile(writer, height, rows):
                        self._slide_tile(s, still, part, lines, across, down)

    def _slide_tile(
        self, s: tree.Slide, operand: _Still, part: range, lines: Mapping[Node, str],
        *at: tuple[str, int],
    ) -> None:  # fmt: skip
        """The sums of one tile, over all images, in registers, and where they go.

        Args:
          lines: the position in the block of each axis of the rows around it.
          at: its first vector and how many it has, and the same of its rows.
        """
        (still, steps), ((vector, vectors), (row, rows)) = operand, at
        values, lanes, taps = self.stage.values, self.schedule.lanes, s.taps
        left = steps if s.by_columns else s.images[0].steps
        step = left.get(s.rows.within[-1], 0) if s.rows.within else 0
        pairs = [(n, k) for n in range(rows) for k in part]
        offsets = tuple(n * step + taps[k] for n, k in pairs)
        t = Type.of(s.into.node.dtype, lanes)
        spread = s.images[0].columns is not None
        tile = Tile(t, offsets, vectors, spread)
        micro = MicroKernel(self.stage.writer, values.ops, values.access)
        state = [t.zero] * (tile.rows * tile.vectors)
        for image in s.images:
            base = Address(self._buffer(image))
            walks, first = self._walks(s, image, steps)
            moved = still.plus(constant=first)
            a, b = (moved, base) if s.by_columns else (base, moved)
            a = a.plus(*[(left.get(r, 0), i) for r, i in lines.items()], (step, row))
            b = b.plus((lanes, vector))
            state = micro.sums(tile, walks, a, b, state)
        weights, pitch = s.into.parts[0], s.into.pitch
        assert weights.cut is s.rows
        sums = Address(self._buffer(s.into))
        own = s.rows.steps(weights.weight, s.rows.within)
        sums = sums.plus(*[(own[r], i) for r, i in lines.items()])
        out = sums.plus((weights.weight, row), (lanes, vector))
        places = [n * weights.weight + k * pitch for n, k in pairs]
        micro.keep(tile, state, out, places, s.adds)

    def _buffer(self, memory: layout.Memory) -> str:
        return self.stage.values.buffer(self.memory[memory.key].number)

    def _still(self, s: tree.Slide) -> _Still:
        """Where the other operand stands for the first row or column and step.

        And elements from one step to the next of each range.
        """
        stage, values, node = self.stage, self.stage.values, s.still
        if isinstance(node, layout.Panel):
            return Address(self._buffer(node)), node.steps()
        form = stage.facts.affine[index_facts.index_of(node)]
        terms = {a: c for a, c in form.terms.items() if values.is_open(a)}
        for block in self.blocks.values():
            split = block.cut.split
            if split in form.terms and block.start is not None:
                terms[block.start] = form.terms[split]
        found, constant = values.terms(sum_of_terms(terms, form.constant), ())
        number = int(node.src[0].arg)
        place = Address(values.buffer(number), tuple(found), constant)
        return place, form.terms

    def _walks(
        self, s: tree.Slide, image: layout.Image, still: Mapping[Node, int]
    ) -> tuple[list[Walk], int]:
        """The loops over what is summed over, and where the other operand begins."""
        own, depth, first = image.steps, self.block(s.depth), 0
        steps = [(depth.extent(r), still.get(r, 0), own.get(r, 0))
                 for r in depth.cut.within]  # fmt: skip
        for window, group in () if s.by_filters else image.windows:
            begin, size = window.steps(still.get(window.tap, 0))
            first += begin + group.first * size
            if group.classes > 1:
                steps.append((str(group.classes), size, image.kinds[window.column]))
            steps.append((str(group.steps), size * group.apart, own[window.tap]))
        walks = [
            Walk(n, *((still, image) if s.by_columns else (image, still)))
            for n, still, image in steps
        ]
        if not isinstance(s.still, layout.Panel) and not s.by_columns:
            walks.sort(key=lambda w: -abs(w.right))  # it is walked through evenly
        return walks, first

    # What becomes of the sums.

    def store(self, s: tree.StoreResults) -> None:
        stage, found = self.stage, self.loads(s.panels)
        stores = index_facts.replace_in_stores(stage.kernel.stores, found)
        blocks, lanes = [self.block(of) for of in s.cuts], self.schedule.lanes
        if s.place is not None:
            each = [{s.place: const(n, INDEX)} for n in range(size_of(s.place))]
            parts = [index_facts.replace_in_stores(stores, moved) for moved in each]
            stores = [store for part in parts for store in part]
        axes, last = s.axes, s.axes[-1]
        if s.squares:
            steps = {axes[0]: RangeTiling(lanes), last: RangeTiling(0, lanes, False)}
            # What is read lies side by side along the first axis, what is written along
            # the last: through the caches that counts more, for whose lines are read.
            if stores[0].buffer in stage.values.streamed:
                axes = axes[::-1]
        else:
            widest = max(store.value.dtype.itemsize for store in stores)
            lanes = min(stage.target.vector_bytes // widest, lanes)
            steps = {last: RangeTiling(blocked_ranges.fit_lanes(last, blocks, lanes))}
        spans: dict[Node, Span] = {}
        for block in blocks:
            spans |= block.spans(steps)
        stage.run(axes, stores, steps, spans, squares=s.squares)


_EMIT: dict[type[tree.Statement], Callable[[ScheduleEmitter, Any], None]] = {
    tree.ForEach: ScheduleEmitter.for_each,
    tree.Once: ScheduleEmitter.once,
    tree.Clear: ScheduleEmitter.clear,
    tree.Fill: ScheduleEmitter.fill,
    tree.Accumulate: ScheduleEmitter.accumulate,
    tree.Slide: ScheduleEmitter.slide,
    tree.StoreResults: ScheduleEmitter.store,
}
