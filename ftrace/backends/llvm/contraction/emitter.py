"""Carries out the schedule of a product: see `schedule.py`.

The right operand stands in one of these layouts:

    right[k][column]            one row after the other
    right[strip][k][column]     a strip is as wide as a tile of registers
    right[column][k]            vectors run along k

A tile reads its strip from beginning to end: one page after the other, ahead of which
the processor fetches by itself, where rows of the whole operand would be far apart.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from math import prod

from ftrace.backends.llvm.contraction.find import step_sizes
from ftrace.backends.llvm.contraction.schedule import Schedule, TiledRows
from ftrace.backends.llvm.emit.blocked_ranges import (
    NO_STEPS,
    Block,
    Cut,
    Once,
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
from ftrace.backends.llvm.ir.writer import lowest
from ftrace.backends.llvm.schedule.index_facts import index_of
from ftrace.backends.llvm.schedule.tiling_ir import Prefetch, Steps, size_of
from ftrace.lower.kernel.affine_index import render_index, sum_of_terms
from ftrace.lower.kernel.ir import INDEX, Store, axis_of, load, load_p, reduce
from ftrace.trace.graph import Node, substitute, toposort
from ftrace.trace.primitives.elementwise import div, mul, rem, sub
from ftrace.trace.primitives.reduction import identity_of
from ftrace.trace.primitives.sources import const


def _merge(
    stage: Stage, values: list[Node], depth: Block
) -> tuple[list[Node], tuple[Node, ...], dict[Node, Span]]:
    """One range in place of several, where every load walks through them evenly."""
    split, facts = depth.cut.split, stage.facts
    ranges = depth.cut.within
    as_it_is = values, ranges, depth.spans()
    facts.learn(values)
    if len(ranges) < 2:
        return as_it_is
    whole = stage.new_range(depth.cut.length)
    weights = [prod(depth.cut.extents[n:]) for n in range(1, len(ranges) + 1)]
    moved: dict[Node, Node] = {}
    for node in toposort(values):
        if node.op is load_p and not facts.free[node].isdisjoint(ranges):
            form = facts.affine[index_of(node)]
            step = form.terms.get(ranges[-1], 0)
            steps = [form.terms.get(r, 0) for r in ranges]
            if steps != [step * w for w in weights]:
                return as_it_is
            terms = {a: c for a, c in form.terms.items() if a not in ranges}
            if depth.start is not None:
                shift = terms.get(depth.start, 0) + step * weights[0]
                terms[depth.start] = shift
            terms[whole] = step
            index = render_index(sum_of_terms(terms, form.constant))
            moved[node] = load(node.src[0], index, *node.src[2:])
    merged = substitute(values, moved)
    facts.learn(merged)
    if any(not facts.free[v].isdisjoint(ranges) for v in merged):
        return as_it_is
    spans = {} if split is None else {whole: Span("0", depth.count())}
    return merged, (whole,), spans


class ProductEmitter:
    """Carries a schedule out in a stage."""

    def __init__(self, schedule: Schedule, stage: Stage) -> None:
        s = self.schedule = schedule
        self.stage = stage
        self.kind: type[Columns] = PlainColumns
        if s.strips or s.along:
            self.kind = Strips if s.strips else FewColumns
        self.rows = self._rows("0")
        self._allocate()
        self.once = Once(stage) if s.once else None

    def _rows(self, number: str) -> LooseRows | StagedRows:
        rows, height = self.schedule.rows, self.schedule.tile[0]
        if isinstance(rows, TiledRows):
            return LooseRows(self.stage, rows, self.schedule.lanes, number)
        return StagedRows(self.stage, rows, height, number)

    def _allocate(self) -> None:
        """Panels for the operands and for the sums."""
        s, stage, lanes = self.schedule, self.stage, self.schedule.lanes
        whole, columns, free = s.depth, self.kind(stage, s, "0"), stage.facts.free
        plain, high = self.kind is PlainColumns, self.rows.panel_length
        self.right: dict[Node, Panel] = {}
        for node in s.packed:
            shape = columns.shape(whole.positions(free[node]))
            self.right[node] = stage.new_panel(node.dtype, *shape, padded=not plain)
        self.left: dict[Node, Panel] = {}
        self.along = frozenset(filter(self._runs_along, s.left))
        loose = isinstance(s.rows, TiledRows)
        for node in s.left:
            deep = -(-whole.positions(free[node]) // lanes) * lanes
            deep += lanes if loose else 0
            shape = (deep, high) if node in self.along else (high, deep)
            self.left[node] = stage.new_panel(node.dtype, *shape, padded=loose)
        pitch = s.columns.length if s.strips or s.along else s.pitch
        self.offsets = {
            node: stage.new_panel(node.dtype, 1, pitch, True) for node in s.plan.offsets
        }
        pitch += lanes if s.strips else 0
        self.sums = {
            node: stage.new_panel(node.dtype, self.rows.length, pitch, s.strips)
            for node in (() if s.registers else s.plan.reduces)
        }
        if plain:
            # Tiles read beyond the block: what stands there must not slow them down.
            for panel in self.right.values():
                stage.fill(panel, 0, s.columns.length)

    def _runs_along(self, node: Node) -> bool:
        """Is a left operand contiguous along rows of one axis?"""
        rows, facts = self.schedule.rows, self.stage.facts
        if not isinstance(rows, TiledRows):
            return False
        return abs(step_sizes([node], [rows.axis], facts)[rows.axis]) == 1

    def emit(self) -> int:
        """Emits the function; returns how many units it has."""
        s, stage = self.schedule, self.stage
        blocks = () if s.along else (s.columns.blocks,)
        with stage.units([*s.outer, *blocks, *s.inner, s.rows.blocks]) as unit:
            *columns, row = unit.blocks
            self.columns = self.kind(stage, s, *(columns or ["0"]))
            self.number = unit.number
            if s.once:
                shared = prod(map(size_of, s.inner)) * s.rows.blocks
                text = f"udiv i64 {unit.number}, {shared}"
                self.number = stage.writer.pure(text, unit.number)
            self.rows = self._rows(row)
            with self.columns:
                if s.along is not None:
                    self._share(Block(stage, s.depth, "0"))
                with self.rows:
                    self._unit()
        return unit.count

    def _unit(self) -> None:
        s, stage = self.schedule, self.stage
        if s.registers:
            self._add(Block(stage, s.depth, "0"))
            return
        for node, panel in (self.sums | self.offsets).items():
            if s.depth.several:
                stage.fill(panel, identity_of(str(node.arg), node.dtype))
        each_block(stage, s.depth, self._add)
        self._finish()

    # The sums.

    def _add(self, depth: Block) -> None:
        """One block: the panels of operands, and the tiles over them."""
        s = self.schedule
        if self.once is None or s.depth.several:
            self._fill_right(depth)
        elif s.along is None:
            self._share(depth)
        found = self._right_values(depth)
        with self.rows.in_panels() if self.left else nullcontext():
            for node, panel in self.left.items():
                found[node] = panel.load(sum_of(self._fill_left(node, panel, depth)))
            self._tiles(found, depth)

    def _tiles(self, found: dict[Node, Node], depth: Block) -> None:
        """Tiles over a block, of operands that have been found."""
        s, stage, rows, columns = self.schedule, self.stage, self.rows, self.columns
        values = substitute([node.src[0] for node in s.plan.reduces], found)
        ranges, spans = depth.cut.within, dict[Node, Span]()
        if s.along is None:
            values, ranges, spans = _merge(stage, values, depth)
        later = None
        if s.ahead:
            later = Prefetch.of(
                values, columns.column, ranges[-1], s.ahead, stage.facts
            )
        sums = {
            node: reduce(str(node.arg), value, ranges)
            for node, value in zip(s.plan.reduces, values, strict=True)
        }
        stage.run(
            (*rows.axes, *columns.axes), self._stores(sums),
            {**rows.steps, **columns.steps},
            {**spans, **rows.tile_spans, **columns.tile_spans()},
            prefetch=later,
        )  # fmt: skip

    def _stores(self, sums: dict[Node, Node]) -> list[Store]:
        """What is stored of sums in registers."""
        if self.schedule.registers:
            found = sums | self._found_offsets()
            return replaced_stores(self.stage.kernel.stores, found)
        index = sum_of([*self.rows.tile_terms(self.pitch), *self.columns.sums()])
        several = self.schedule.depth.several
        return [
            Store(
                self.sums[node].number, index, total, None,
                str(node.arg) if several else "",
            )
            for node, total in sums.items()
        ]  # fmt: skip

    @property
    def pitch(self) -> int:
        """Of the panels of sums."""
        return next(iter(self.sums.values())).pitch

    # Panels.

    def _share(self, depth: Block) -> None:
        """Fills right panels, unless the unit before did so."""
        if self.once is not None and (self.right or self.offsets):
            self.once.run(self.number, lambda: self._fill_right(depth))

    def _fill_right(self, depth: Block) -> None:
        for node, panel in self.right.items():
            self.columns.fill(panel, node, depth)
        if self.offsets:
            self._fill_offsets(depth)

    def _fill_offsets(self, depth: Block) -> None:
        """Adds up what depends on columns alone, over this block of a sum."""
        columns, found = self.columns, self._right_values(depth)
        values = substitute([node.src[0] for node in self.offsets], found)
        combine = "add" if self.schedule.depth.several else ""
        stores = [
            Store(
                panel.number, sum_of(columns.sums()),
                reduce("add", value, depth.cut.within), None, combine,
            )
            for panel, value in zip(self.offsets.values(), values, strict=True)
        ]  # fmt: skip
        spans = {**depth.spans(), **columns.tile_spans()}
        self.stage.run(columns.axes, stores, columns.steps, spans)

    def _found_offsets(self) -> dict[Node, Node]:
        place = self.columns.final_sums
        return {n: panel.load(sum_of(place())) for n, panel in self.offsets.items()}

    def _right_values(self, depth: Block) -> dict[Node, Node]:
        """The right operands in their panels."""
        return {
            node: panel.load(sum_of(self.columns.place(panel, node, depth)))
            for node, panel in self.right.items()
        }

    def _fill_left(self, node: Node, panel: Panel, depth: Block) -> list[Node]:
        """Fills a panel; returns where its elements stand."""
        rows, lanes = self.rows, self.schedule.lanes
        block, last = rows.panel_block, rows.cut.within[-1]
        free = self.stage.facts.free[node]
        if node in self.along:
            fill_panel(panel, node, last, depth, block, depth, lanes)
            return [*depth.terms(panel.pitch, free), *block.terms(1)]
        fill_panel(panel, node, last, block, depth, depth, lanes)
        return [*rows.panel_terms(panel.pitch), *depth.terms(1, free)]

    # What becomes of the sums.

    def _finish(self) -> None:
        """The kernel's own stores, with the sums read from their panels."""
        stage, rows, columns = self.stage, self.rows, self.columns
        index = sum_of([*rows.terms(self.pitch), *columns.final_sums()])
        found = {n: panel.load(index) for n, panel in self.sums.items()}
        found |= self._found_offsets()
        stores = replaced_stores(stage.kernel.stores, found)
        axes, lanes = [*rows.cut.within, *columns.cut.within], self.schedule.lanes
        run_stores(stage, stores, axes, [columns], lanes, rows.spans())


# Rows: how they are opened, and where they stand in panels.


class LooseRows(Block):
    """Rows of a block along one axis, whose operands are read where they stand.

    Or from a panel in which whole vectors along the rows fit.

    Attributes:
      axes, steps, tile_spans: over which tiles run, and how.
      panel_block, panel_length: rows in a panel of left operands.
    """

    def __init__(self, stage: Stage, rows: TiledRows, lanes: int, number: str) -> None:
        super().__init__(stage, Cut((), rows.axis, rows.length, ()), number)
        self.rows = rows
        self.axes, self.steps = (rows.axis,), {rows.axis: Steps(0, rows.tile)}
        self.length, self.panel_block = rows.length, VectorRows(self, lanes)
        self.panel_length = self.panel_block.cut.size

    def open(self) -> None:
        stage, rows = self.stage, self.rows
        first = stage.scaled(self.number, rows.high)
        last = stage.scaled(self.number, rows.high, rows.high)
        last = lowest(stage.writer, last, stage.values.number(rows.tiles))
        self.begin, self.end = self._row_of(first), self._row_of(last)
        self.tile_spans = {rows.axis: Span(first, last)}
        self.start = stage.new_range(axis_of(rows.axis).size)
        self._opened = stage.open(self.start, self.begin)

    def _row_of(self, tile: str) -> str:
        """The row in which a tile begins; of the tile after the last, the end."""
        parts, number = self.rows.parts, self.stage.values.number
        first, last = parts[0], parts[-1]
        row = self.stage.scaled(tile, last.width)
        if len(parts) == 1:
            return row
        if last.inner:
            return lowest(self.stage.writer, row, number(last.stop))
        higher = lowest(self.stage.writer, tile, number(first.count))
        return self.stage.writer.pure(f"add i64 {row}, {higher}", row, higher)

    def spans(self, steps: Mapping[Node, Steps] = NO_STEPS) -> dict[Node, Span]:
        return {self.rows.axis: Span(self.begin, self.end)}

    def tile_terms(self, pitch: int) -> list[Node]:
        """Where a row is in a panel of sums, in the loop over tiles."""
        return self.terms(pitch)

    def in_panels(self) -> VectorRows:
        """What is open around the tiles of operands in panels."""
        return self.panel_block

    def panel_terms(self, pitch: int) -> list[Node]:
        """Where a row is in a panel of left operands, in the loop over tiles."""
        return self.panel_block.terms(pitch)


class VectorRows(Block):
    """Rows that are open, from a whole vector on: they are filled in vectors."""

    def __init__(self, rows: LooseRows, lanes: int) -> None:
        size = (-(-rows.cut.size // lanes) + 1) * lanes
        super().__init__(rows.stage, Cut((), rows.cut.split, size, ()), "0")
        self.rows, self.lanes = rows, lanes

    def open(self) -> None:
        stage, lanes, begin = self.stage, self.lanes, self.rows.begin
        whole = stage.writer.pure(f"udiv i64 {begin}, {lanes}", begin)
        self.start = stage.new_range(size_of(self.rows.rows.axis))
        self._opened = stage.open(self.start, stage.scaled(whole, lanes))

    def spans(self, steps: Mapping[Node, Steps] = NO_STEPS) -> dict[Node, Span]:
        pure, axis = self.stage.writer.pure, self.rows.rows.axis
        width = steps[axis].width if axis in steps else 1
        begin, end = self.rows.begin, self.rows.end
        up = self.stage.scaled(end, 1, width - 1)
        first = pure(f"udiv i64 {begin}, {width}", begin)
        return {axis: Span(first, pure(f"udiv i64 {up}, {width}", up))}

    def divides(self, width: int) -> bool:
        return width <= self.lanes


class StagedRows(Block):
    """Rows of a block along several axes, whose operands stand in panels: one line."""

    def __init__(self, stage: Stage, cut: Cut, tile: int, number: str) -> None:
        super().__init__(stage, cut, number)
        self.tile, self.panel_block = tile, self
        self.length = self.panel_length = -(-cut.length // tile) * tile

    def open(self) -> None:
        line = self.stage.new_range(self.length)
        super().open()
        self.axes, self.steps = (line,), {line: Steps(0, self.tile, False)}
        self.tile_spans: dict[Node, Span] = {}
        if self.cut.split is not None:
            self.tile_spans[line] = Span("0", tiles_of(self, self.tile))

    def tile_terms(self, pitch: int) -> list[Node]:
        """Where a row is in a panel, in the loop over tiles."""
        return [mul(self.axes[0], const(pitch, INDEX))]

    panel_terms = tile_terms

    def in_panels(self) -> AbstractContextManager[None]:
        """What is open around the tiles of operands in panels: nothing else."""
        return nullcontext()


def tiles_of(block: Block, width: int) -> str:
    """Tiles of `width` that cover the positions of a block."""
    stage = block.stage
    count = stage.scaled(block.count(), 1, width - 1)
    return stage.writer.pure(f"udiv i64 {count}, {width}", count)


# Columns: three layouts of the right operands.


class Columns(Block):
    """The block of columns of a unit, and the right operands in it.

    Attributes:
      axes, steps: of tiles.
    """

    axes: tuple[Node, ...]
    steps: dict[Node, Steps]

    def __init__(self, stage: Stage, schedule: Schedule, number: str) -> None:
        super().__init__(stage, schedule.columns, number)
        self.schedule = schedule
        self.column = schedule.columns.within[-1]
        self._tiles_over(self.column)

    def _tiles_over(self, axis: Node) -> None:
        s = self.schedule
        self.axes, self.steps = (axis,), {axis: Steps(s.lanes, s.tile[1])}

    def free(self, node: Node) -> frozenset[Node]:
        """The ranges of which an operand depends."""
        return self.stage.facts.free[node]

    def shape(self, positions: int) -> tuple[int, int]:
        """The rows of a panel for so many terms of the sums, and their pitch."""
        return positions, self.schedule.pitch

    def fill(self, panel: Panel, node: Node, depth: Block) -> None:
        """Evaluates a right operand."""
        lanes = self.schedule.lanes
        fill_panel(panel, node, self.column, depth, self, depth, lanes)

    @abstractmethod
    def place(self, panel: Panel, node: Node, depth: Block) -> list[Node]:
        """Where an element of a right operand stands, in tiles."""

    def sums(self) -> list[Node]:
        """Where a column stands in a panel of sums, in tiles."""
        return [*self.axes]

    def final_sums(self) -> list[Node]:
        """The same for what becomes of the sums."""
        return self.sums()

    def tile_spans(self) -> dict[Node, Span]:
        return self.spans(self.steps)


class PlainColumns(Columns):
    """Columns along several axes, one after the other: right[k][column]."""

    def open(self) -> None:
        super().open()
        self._tiles_over(self.stage.new_range(self.schedule.pitch))

    def place(self, panel: Panel, node: Node, depth: Block) -> list[Node]:
        return [*self.axes, *depth.terms(panel.pitch, self.free(node))]

    def final_sums(self) -> list[Node]:
        return self.terms(1)

    def tile_spans(self) -> dict[Node, Span]:
        if self.cut.split is None:
            return {}
        (flat,) = self.axes
        return {flat: Span("0", tiles_of(self, self.schedule.width))}


class Strips(Columns):
    """Columns along one axis, some strips of them: right[strip][k][column]."""

    #: Rows of the panel that is asked for: so far apart do its strips lie.
    depth = 1

    def open(self) -> None:
        super().open()
        width = self.schedule.width
        self.first = self.stage.new_range(-(-size_of(self.column) // width))
        base = self.stage.scaled(self.number, self.cut.size // width)
        self._first = self.stage.open(self.first, base)

    def close(self) -> None:
        self.stage.close(self._first)
        super().close()

    def terms(self, weight: int, of: Collection[Node] | None = None) -> list[Node]:
        """Where a column is in a panel of strips of `depth` rows."""
        assert weight == 1
        width = const(self.schedule.width, INDEX)
        strip = sub(div(self.column, width), self.first)
        apart = const(self.depth * self.schedule.width, INDEX)
        return [mul(strip, apart), rem(self.column, width)]

    def shape(self, positions: int) -> tuple[int, int]:
        return positions * (self.cut.size // self.schedule.width), self.schedule.width

    def fill(self, panel: Panel, node: Node, depth: Block) -> None:
        self.depth = depth.cut.positions(self.free(node))
        super().fill(panel, node, depth)

    def place(self, panel: Panel, node: Node, depth: Block) -> list[Node]:
        self.depth = depth.cut.positions(self.free(node))
        return [*self.terms(1), *depth.terms(panel.pitch, self.free(node))]

    def sums(self) -> list[Node]:
        assert self.start is not None
        return [sub(self.column, self.start)]


class FewColumns(Columns):
    """All columns of one short axis, each in a line: right[column][k]."""

    def open(self) -> None:
        s, column = self.schedule, self.column
        assert s.along is not None
        self.steps = {column: Steps(0, size_of(column)), s.along: Steps(s.lanes)}

    def shape(self, positions: int) -> tuple[int, int]:
        return size_of(self.column), self.schedule.pitch

    def fill(self, panel: Panel, node: Node, depth: Block) -> None:
        lanes = self.schedule.lanes
        fill_panel(panel, node, self.column, self, depth, depth, lanes)

    def place(self, panel: Panel, node: Node, depth: Block) -> list[Node]:
        line = mul(self.column, const(panel.pitch, INDEX))
        return [line, *depth.terms(1, self.free(node))]
