"""Contractions in blocks that fit in the caches.

A unit is a block of rows and columns:

    panel c[i, j] <- 0
    for each block of k:
        panel b[k, j] <- b(j, k)              any expression, turned where it is turned
        panel a[i, k] <- a(i, k)              unless it can be read where it stands
        panel c[i, j] <- c[i, j] + the sum    in tiles of registers
    out <- f(c)

Blocks of k have a fixed size: the result does not depend on how units are shared. The
scheme is that of the BLIS library (Van Zee and van de Geijn, 2015), with panels filled
by arbitrary expressions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from ftrace.devices.llvm.ir.blocks import Block, Cut, Opening, cut_ranges, each_block
from ftrace.devices.llvm.ir.writer import lowest
from ftrace.devices.llvm.loops.accumulators import identity
from ftrace.devices.llvm.loops.facts import Facts, index_of
from ftrace.devices.llvm.loops.nest import Span
from ftrace.devices.llvm.loops.staging import Panel, Stage, replaced_stores, sum_of
from ftrace.devices.llvm.loops.tiles import Steps, cut, size_of
from ftrace.devices.llvm.products.contraction import Contraction
from ftrace.devices.llvm.products.filling import fill_panel
from ftrace.devices.llvm.products.register_tiles import (
    RegisterTile,
    register_tile,
    rows_together,
)
from ftrace.lower.kernel import INDEX, Store, axis_of, load, load_p, reduce
from ftrace.trace.dims import is_dynamic
from ftrace.trace.graph import Node, substitute, toposort
from ftrace.trace.primitives.elementwise import mul, sub
from ftrace.trace.primitives.source import const
from ftrace.trace.sizes import sample

#: Vectors in a row of panel b, and rows of it (of 4-byte elements): 768 bytes × 512
#: stay in L2, and the rows of the other operand that a tile needs in L1.
VECTORS = 12
DEPTH = 512
#: Rows of a block: each element of panel b is used so often.
HEIGHT = 256
LEAST_HEIGHT = 64


class LooseRows(Opening):
    """Rows of a block along one axis, whose operands are read where they stand.

    Tiles are cut from the whole axis: some are a row higher than others.
    """

    def __init__(self, stage: Stage, axis: Node, tile: int, height: int) -> None:
        self.stage = stage
        self.axis = axis
        self.parts = cut(axis_of(axis).size, Steps(0, tile))
        self.tiles = sum(part.count for part in self.parts)
        self.height = max(height // tile, 1)
        if not is_dynamic(self.tiles):  # blocks as equal as can be
            self.height = -(-self.tiles // -(-self.tiles // self.height))
        self.blocks = -(-self.tiles // self.height)
        self.length = self.height * self.parts[0].copies
        self.axes = self.final_axes = (axis,)
        self.steps = {axis: Steps(0, tile)}

    def at(self, number: str) -> LooseRows:
        """The block of this number, to be opened."""
        self.number = number
        return self

    def open(self) -> None:
        stage = self.stage
        first = stage.scaled(self.number, self.height)
        last = stage.scaled(self.number, self.height, self.height)
        last = lowest(stage.writer, last, stage.values.number(self.tiles))
        self.begin, self.end = begin, end = self._row_of(first), self._row_of(last)
        self.spans = {self.axis: Span(first, last)}
        self.final_spans = {self.axis: Span(begin, end)}
        self.start = stage.new_range(axis_of(self.axis).size)
        self._opened = stage.open(self.start, begin)

    def close(self) -> None:
        self.stage.close(self._opened)

    def _row_of(self, tile: str) -> str:
        """The row in which a tile begins; of the tile after the last, the end."""
        first, last = self.parts[0], self.parts[-1]
        row = self.stage.scaled(tile, last.width)
        if len(self.parts) == 1:
            return row
        number = self.stage.values.number
        if last.inner:
            return lowest(self.stage.writer, row, number(last.stop))
        higher = lowest(self.stage.writer, tile, number(first.count))
        return self.stage.writer.pure(f"add i64 {row}, {higher}", row, higher)

    def terms(self, pitch: int) -> list[Node]:
        """Where a row is in a panel, in the loop over tiles."""
        return [mul(sub(self.axis, self.start), const(pitch, INDEX))]

    final_terms = terms


class StagedRows(Opening):
    """Rows of a block along several axes, whose operands stand in panels."""

    def __init__(self, stage: Stage, cut_: Cut, tile: int) -> None:
        self.stage = stage
        self.cut = cut_
        self.tile = tile
        self.blocks = cut_.blocks
        self.length = -(-cut_.length // tile) * tile
        self.line = stage.new_range(self.length)
        self.axes = (self.line,)
        self.final_axes = cut_.within
        self.steps = {self.line: Steps(0, tile, False)}

    def at(self, number: str) -> StagedRows:
        """The block of this number, to be opened."""
        self.block = Block(self.stage, self.cut, number)
        return self

    def open(self) -> None:
        self.block.open()
        self.final_spans = self.block.spans({})
        self.spans: dict[Node, Span] = {}
        if self.cut.split is not None:
            last = tiles_of(self.stage, self.block, self.tile)
            self.spans[self.line] = Span("0", last)

    def close(self) -> None:
        self.block.close()

    def terms(self, pitch: int) -> list[Node]:
        return [mul(self.line, const(pitch, INDEX))]

    def final_terms(self, pitch: int) -> list[Node]:
        """Where a row is in a panel, in loops over the axes."""
        return self.block.terms(pitch)


def tiles_of(stage: Stage, block: Block, width: int) -> str:
    """Tiles of `width` that cover the positions of a block."""
    count = stage.scaled(block.count(), 1, width - 1)
    return stage.writer.pure(f"udiv i64 {count}, {width}", count)


def walk(plan: Contraction, ranges: Sequence[Node], facts: Facts) -> list[Node]:
    """What is summed over, in the order in which the left operands lie in memory.

    Their loads then walk through it evenly, and it becomes one loop.
    """
    steps: dict[Node, int] = dict.fromkeys(ranges, 0)
    for n in toposort(plan.left or plan.right):
        if n.op is load_p:
            terms = facts.affine[index_of(n)].terms
            for r in steps:
                steps[r] = max(steps[r], abs(terms.get(r, 0)))
    return sorted(ranges, key=lambda r: -steps[r])


def merged(
    stage: Stage, values: list[Node], depth: Block
) -> tuple[list[Node], tuple[Node, ...], dict[Node, Span]]:
    """One range in place of several, where every load walks through them evenly."""
    split, facts = depth.cut.split, stage.facts
    ranges = depth.cut.within
    as_it_is = values, ranges, depth.spans({})
    facts.learn(values)
    if len(ranges) < 2:
        return as_it_is
    whole = stage.new_range(depth.cut.length)
    weights = [1]
    for size in depth.cut.extents[:0:-1]:
        weights.insert(0, weights[0] * size)
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
            parts = [mul(a, const(c, INDEX)) for a, c in terms.items() if c]
            index = sum_of([const(form.constant, INDEX), *parts])
            moved[node] = load(node.src[0], index, *node.src[2:])
    merged = substitute(values, moved)
    facts.learn(merged)
    if any(not facts.free[v].isdisjoint(ranges) for v in merged):
        return as_it_is
    spans = {} if split is None else {whole: Span("0", depth.count())}
    return merged, (whole,), spans


class Product:
    """Emits a contraction into a stage."""

    def __init__(self, plan: Contraction, stage: Stage) -> None:
        self.plan = plan
        self.stage = stage
        target = stage.target
        nodes = (*plan.left, *plan.right, *plan.reduces)
        item = max(n.dtype.itemsize for n in nodes)
        self.lanes = target.vector_bytes // item
        self.column = plan.columns[-1]
        row = max(plan.rows, key=size_of)
        axes = (row,) if plan.loose else plan.rows
        height = prod(size_of(a) for a in axes)
        loose = row if plan.loose else None
        self.together = rows_together(plan.left, loose, stage.facts)
        self.column_cut, self.tile = self._cut_columns(height)
        step = self.tile.vectors * self.lanes
        self.pitch = -(-self.column_cut.length // step) * step
        room = target.l2 // 2 // (self.pitch * item * len(plan.right))
        deep = max(min(DEPTH * 4 // item, room), 16)
        self.depth_cut = cut_ranges(
            walk(plan, plan.ranges, stage.facts), deep, self.lanes
        )
        depth = self.depth_cut
        self.several = is_dynamic(depth.blocks) or depth.blocks > 1 or bool(depth.outer)
        self.outer = [*plan.outer, *self.column_cut.outer]
        self.rows = self._choose_rows(row)

    def _cut_columns(self, height: int) -> tuple[Cut, RegisterTile]:
        """Blocks of columns that fill whole vectors and tiles best."""
        lanes, registers = self.lanes, self.stage.target.registers
        last = -(-size_of(self.column) // lanes)
        tile = register_tile(height, last, registers, self.together)
        found = cut_ranges(self.plan.columns, VECTORS * lanes, tile.vectors * lanes)
        if found.split is self.column:
            return found, tile
        best = (float("inf"), found, tile)
        sizes = range(1, found.size + 1) if found.split is not None else (1,)
        for size in sizes:
            part = replace(found, size=size)
            vectors = -(-part.length // lanes)
            tile = register_tile(height, vectors, registers, self.together)
            cycles = (tile.cycles + 1) * sample(
                part.blocks
            )  # a block has costs of its own
            if cycles < best[0]:
                best = (cycles, part, tile)
        return best[1], best[2]

    def _choose_rows(self, row: Node) -> LooseRows | StagedRows:
        """High blocks, but enough of them for all cores."""
        plan, stage, tile = self.plan, self.stage, self.tile.rows
        columns = sample(self.column_cut.blocks) * prod(size_of(a) for a in self.outer)
        height = HEIGHT
        while True:
            if plan.loose:
                others = [a for a in plan.rows if a is not row]
                rows: LooseRows | StagedRows = LooseRows(stage, row, tile, height)
            else:
                found = cut_ranges(plan.rows, height)
                others = list(found.outer)
                rows = StagedRows(stage, found, tile)
            units = columns * sample(rows.blocks) * prod(map(size_of, others))
            cores = stage.target.cores
            enough = 4 * cores if height > LEAST_HEIGHT else cores
            if units >= enough or height // 4 < tile:
                break
            height //= 2
        self.outer += others
        return rows

    def emit(self) -> int:
        """Emits the function; returns how many units it has."""
        stage = self.stage
        self._allocate()
        places = [*self.outer, self.column_cut.blocks, self.rows.blocks]
        with stage.units(places) as unit:
            column, row = unit.blocks
            self.columns = Block(stage, self.column_cut, column)
            with self.columns, self.rows.at(row):
                if self.several:
                    for node, panel in self.sums.items():
                        stage.fill(panel, identity(str(node.arg), node.dtype))
                each_block(stage, self.depth_cut, self._multiply)
                self._finish()
        return unit.count

    # Panels.

    def _allocate(self) -> None:
        """Panels for the operands and for the sums."""
        plan, stage, rows = self.plan, self.stage, self.rows
        whole = Block(stage, self.depth_cut, "0")
        self.right: dict[Node, Panel] = {}
        self.left: dict[Node, Panel] = {}
        for node in plan.right:
            count = whole.positions(node)
            self.right[node] = stage.new_panel(node.dtype, count, self.pitch)
        if isinstance(rows, StagedRows):
            for node in plan.left:
                wide = -(-whole.positions(node) // self.lanes) * self.lanes
                self.left[node] = stage.new_panel(node.dtype, rows.length, wide)
        self.sums = {
            node: stage.new_panel(node.dtype, rows.length, self.pitch)
            for node in plan.reduces
        }
        # Tiles read beyond the block: what stands there must not slow them down.
        for panel in self.right.values():
            stage.fill(panel, 0, self.column_cut.length)

    # The sums.

    def _multiply(self, depth: Block) -> None:
        """One block: the panels of operands, and the tiles over them."""
        stage, rows = self.stage, self.rows
        column = stage.new_range(self.pitch)
        found: dict[Node, Node] = {}
        for node, panel in self.right.items():
            fill_panel(panel, node, self.column, depth, self.columns, depth, self.lanes)
            found[node] = panel.load(sum_of([column, *depth.terms(self.pitch, node)]))
        for node, panel in self.left.items():
            assert isinstance(rows, StagedRows)
            used = [r for r in depth.cut.within if r in stage.facts.free[node]]
            last = used[-1] if used else rows.final_axes[-1]
            fill_panel(panel, node, last, rows.block, depth, depth, self.lanes)
            place = [*rows.terms(panel.pitch), *depth.terms(1, node)]
            found[node] = panel.load(sum_of(place))
        values = substitute([node.src[0] for node in self.sums], found)
        values, ranges, spans = merged(stage, values, depth)
        index = sum_of([column, *rows.terms(self.pitch)])
        stores = [
            Store(
                panel.number, index, reduce(str(node.arg), value, ranges), None,
                str(node.arg) if self.several else "",
            )
            for (node, panel), value in zip(self.sums.items(), values, strict=True)
        ]  # fmt: skip
        steps = {**rows.steps, column: Steps(self.lanes, self.tile.vectors)}
        spans |= rows.spans
        if self.column_cut.split is not None:
            width = steps[column].width
            spans[column] = Span("0", tiles_of(stage, self.columns, width))
        stage.run((*rows.axes, column), stores, steps, spans)

    # What becomes of the sums.

    def _finish(self) -> None:
        """The kernel's own stores, with the sums read from their panels."""
        stage, rows, column = self.stage, self.rows, self.column
        index = sum_of([*self.columns.terms(1), *rows.final_terms(self.pitch)])
        found: dict[Node, Node] = {n: p.load(index) for n, p in self.sums.items()}
        stores = replaced_stores(stage.kernel.stores, found)
        widest = max(store.value.dtype.itemsize for store in stores)
        lanes = min(stage.target.vector_bytes // widest, self.lanes)
        if column is not self.column_cut.split:
            while lanes >= 2 * axis_of(column).size:
                lanes //= 2
        steps = {column: Steps(lanes)}
        spans = self.columns.spans(steps) | rows.final_spans
        stage.run([*rows.final_axes, *self.column_cut.within], stores, steps, spans)
