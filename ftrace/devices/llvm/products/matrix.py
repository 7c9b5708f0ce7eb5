"""Matrix products: contractions with one axis of rows and one of columns in a block.

A unit is a block of rows and some strips of columns:

    for each block of k:
        right[strip][k][j] <- b(j, k)      unless the unit before it did
        left[k][i] <- a(i, k)              unless it can be read where it stands
        out <- f(the sum)                  in tiles of registers

Where k is one block and f is light, results go from registers to where they belong;
else the sums of a unit stand in a panel until all of them are known. How large blocks
are is decided in `sharing.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod

from ftrace.devices.llvm.ir.blocks import Block, Once, cut_ranges, each_block
from ftrace.devices.llvm.loops.accumulators import identity
from ftrace.devices.llvm.loops.facts import Facts, index_of
from ftrace.devices.llvm.loops.nest import Span
from ftrace.devices.llvm.loops.prefetching import Prefetch
from ftrace.devices.llvm.loops.staging import Panel, Stage, replaced_stores, sum_of
from ftrace.devices.llvm.loops.tiles import Steps, size_of
from ftrace.devices.llvm.products.contraction import (
    Contraction,
    is_far,
    is_heavy,
    reads_in_place,
    rows_apart,
)
from ftrace.devices.llvm.products.filling import fill_panel
from ftrace.devices.llvm.products.product import LooseRows, merged, walk
from ftrace.devices.llvm.products.register_tiles import rows_together
from ftrace.devices.llvm.products.sharing import Blocks, Load, choose_blocks
from ftrace.devices.llvm.products.strips import RowBlock, StripBlock
from ftrace.lower.kernel import INDEX, Kernel, Store, axis_of, load_p, reduce
from ftrace.records import dataclass
from ftrace.trace.dims import is_dynamic
from ftrace.trace.graph import Node, substitute, toposort
from ftrace.trace.primitives.elementwise import mul, sub
from ftrace.trace.primitives.source import const

#: Multiplications that make up for a panel of sums.
_WORTH_SUMS = 1 << 12
#: Rows of fewer columns make vectors that are mostly empty.
_SHORT_ROWS = 4
#: The axes of a block should be so long; where nothing is filled two rows will do.
LONG_ROWS, FEW_ROWS = 8, 2


@dataclass(frozen=True, eq=False)
class Shape:
    """A contraction as a matrix product.

    Attributes:
      row, column: the axes of a block.
      outer: the others that both operands have, or the right ones.
      rows: other axes of rows: the right operands are the same for all of them.
      heavy: what becomes of a sum is a long expression.
    """

    row: Node
    column: Node
    outer: tuple[Node, ...]
    rows: tuple[Node, ...]
    heavy: bool


def as_matrices(
    plan: Contraction, kernel: Kernel, long: int = LONG_ROWS
) -> Shape | None:
    """The contraction as matrix products, if blocks of one axis each are enough.

    Args:
      long: what the axis of rows has to be.
    """
    sizes = [axis_of(a).size for a in (*kernel.axes, *plan.ranges)]
    if any(map(is_dynamic, sizes)):
        return None
    row = max(plan.rows, key=size_of)
    column = plan.columns[-1]
    if not plan.loose and len(plan.rows) > 1:
        return None
    if size_of(row) < long or len(plan.columns) > 1:
        return None
    return Shape(
        row, column, (*plan.outer, *plan.columns[:-1]),
        tuple(a for a in plan.rows if a is not row), is_heavy(plan, kernel),
    )  # fmt: skip


def without_panels(plan: Contraction, kernel: Kernel, facts: Facts) -> Shape | None:
    """The same where the operands are best read in place.

    Loops over tiles alone would be as fast, but what becomes of the sums may be a long
    expression, which they repeat for each register of a tile. And vectors of two or
    three columns would be mostly empty: only tiles, which share what is read, pay.
    """
    if not reads_in_place(plan, facts):
        return None
    work = prod(size_of(a) for a in (*plan.rows, *plan.columns, *plan.ranges))
    shape = as_matrices(plan, kernel)
    if shape is None:
        return None
    if size_of(shape.column) < _SHORT_ROWS:
        work *= prod(map(size_of, shape.outer))
    elif not shape.heavy:
        return None
    return shape if work >= _WORTH_SUMS else None


class MatrixProduct:
    """Emits a matrix product into a stage.

    Args:
      packed: the right operands stand in panels; else they are read in place.
    """

    def __init__(
        self, plan: Contraction, shape: Shape, stage: Stage, packed: bool = True
    ) -> None:
        self.plan = plan
        self.shape = shape
        self.stage = stage
        nodes = (*plan.left, *plan.right, *plan.reduces)
        self.item = max(n.dtype.itemsize for n in nodes)
        self.lanes = stage.target.vector_bytes // self.item
        self.blocks = self._choose(plan.right if packed else ())
        shallow = self.blocks.shallow
        self.packed = plan.right if packed and not shallow else ()
        self.in_place = plan.loose or shallow
        tile = self.blocks.tile
        self.width = tile.vectors * self.lanes
        self.rows = LooseRows(
            stage, shape.row, tile.rows, self.blocks.tiles * tile.rows
        )
        ranges = walk(plan, plan.ranges, stage.facts)
        self.depth = cut_ranges(ranges, self.blocks.depth, self.lanes)
        self.several = self.depth.blocks > 1 or bool(self.depth.outer)
        self.direct = not self.several and not shape.heavy
        self.ahead = self.depth.length if shallow and self._is_far() else 0
        self.later: Prefetch | None = None
        self.asks = self.direct and self.in_place and self._asks_for_rows()

    def _choose(self, packed: Sequence[Node]) -> Blocks:
        plan, shape, stage = self.plan, self.shape, self.stage
        loose = shape.row if plan.loose else None
        return choose_blocks(
            stage.target,
            Load(
                rows=size_of(shape.row),
                vectors=-(-size_of(shape.column) // self.lanes),
                depth=prod(size_of(r) for r in plan.ranges),
                item=self.item,
                outer=prod(map(size_of, shape.outer)),
                others=prod(map(size_of, shape.rows)),
                right=len(packed),
                left=0 if plan.loose else len(plan.left),
                sums=len(plan.reduces),
                heavy=shape.heavy,
                together=rows_together(plan.left, loose, stage.facts),
                apart=rows_apart(plan, stage.facts),
            ),
        )

    def _is_far(self) -> bool:
        """Do the right operands come from beyond the second cache?"""
        plan, target = self.plan, self.stage.target
        size = prod(size_of(r) for r in (*plan.columns, *plan.ranges)) * self.item
        return size * len(plan.right) > target.l2 and target.decides("fetch_ahead")

    def _asks_for_rows(self) -> bool:
        """Does each tile wait for the left operands?

        Narrow tiles have more to load than to multiply, and no room for questions.
        """
        target = self.stage.target
        wide = self.blocks.tile.vectors > 1
        return wide and is_far(self.plan, target) and target.decides("fetch_ahead")

    def emit(self) -> int:
        """Emits the function; returns how many units it has."""
        stage, writer, shape = self.stage, self.stage.writer, self.shape
        self._allocate()
        self.once = Once(stage)
        strips = -(-size_of(shape.column) // self.width)
        across, down = -(-strips // self.blocks.strips), self.rows.blocks
        with stage.units([*shape.outer, across, *shape.rows, down]) as unit:
            column, row = unit.blocks
            self.columns = StripBlock(
                stage, shape.column, self.width, self.blocks.strips, column
            )
            shared = prod(map(size_of, shape.rows)) * down
            number = writer.pure(f"udiv i64 {unit.number}, {shared}", unit.number)
            with self.columns, self.rows.at(row):
                self._run(number)
        return unit.count

    # Panels.

    def _allocate(self) -> None:
        plan, stage, lanes = self.plan, self.stage, self.lanes
        whole = Block(stage, self.depth, "0")
        self.right: dict[Node, Panel] = {}
        self.left: dict[Node, Panel] = {}
        self.sums: dict[Node, Panel] = {}
        for node in self.packed:
            count = whole.positions(node) * self.blocks.strips
            self.right[node] = stage.new_panel(node.dtype, count, self.width, True)
        self.row_block = RowBlock(stage, self.rows, lanes)
        high = self.row_block.cut.size
        self.along = frozenset(n for n in plan.left if self._runs_along_rows(n))
        for node in () if self.in_place else plan.left:
            deep = whole.positions(node)
            deep = -(-deep // lanes) * lanes + lanes
            shape = (deep, high) if node in self.along else (high, deep)
            self.left[node] = stage.new_panel(node.dtype, *shape, padded=True)
        self.offsets = {
            node: stage.new_panel(node.dtype, 1, self.width * self.blocks.strips, True)
            for node in plan.offsets
        }
        if not self.direct:
            pitch = self.width * self.blocks.strips + lanes
            for node in plan.reduces:
                panel = stage.new_panel(node.dtype, self.rows.length, pitch, True)
                self.sums[node] = panel

    def _runs_along_rows(self, node: Node) -> bool:
        """Is it contiguous along the rows?"""
        facts = self.stage.facts
        loads = [n for n in toposort([node]) if n.op is load_p]
        steps = [facts.affine[index_of(n)].terms.get(self.shape.row, 0) for n in loads]
        return any(abs(step) == 1 for step in steps)

    # A unit.

    def _run(self, number: str) -> None:
        if self.direct:
            depth = Block(self.stage, self.depth, "0")
            if self.right or self.offsets:
                self.once.run(number, partial(self._fill_right, depth))
            self._multiply_into_place(depth)
            return
        for node, panel in (self.sums | self.offsets).items():
            if self.several:
                self.stage.fill(panel, identity(str(node.arg), node.dtype))
        each_block(self.stage, self.depth, partial(self._multiply, number))
        index = sum_of(self._in_sums())
        found = {n: panel.load(index) for n, panel in self.sums.items()}
        found |= self._found_offsets()
        self._finish(replaced_stores(self.stage.kernel.stores, found))

    def _multiply_into_place(self, depth: Block) -> None:
        """All of the sums, and what becomes of them, in registers."""
        reduces = self.plan.reduces
        values, ranges, spans = self._open_values(depth)
        found = {
            node: reduce(str(node.arg), value, ranges)
            for node, value in zip(reduces, values, strict=True)
        }
        found |= self._found_offsets()
        self._tiles(replaced_stores(self.stage.kernel.stores, found), spans)

    def _multiply(self, number: str, depth: Block) -> None:
        """One block of what is summed over, added to the panels of sums."""
        if self.several:
            self._fill_right(depth)
        elif self.right or self.offsets:
            self.once.run(number, partial(self._fill_right, depth))
        values, ranges, spans = self._open_values(depth)
        index = sum_of(self._in_sums())
        combine = "{}" if self.several else ""
        stores = [
            Store(
                panel.number, index, reduce(str(node.arg), value, ranges), None,
                combine.format(node.arg),
            )
            for (node, panel), value in zip(self.sums.items(), values, strict=True)
        ]  # fmt: skip
        self._tiles(stores, spans)

    def _found_offsets(self) -> dict[Node, Node]:
        place = self._in_columns()
        return {node: panel.load(place) for node, panel in self.offsets.items()}

    def _in_columns(self) -> Node:
        """Where a column stands in a panel of one row."""
        assert self.columns.start is not None
        return sub(self.shape.column, self.columns.start)

    def _in_sums(self) -> list[Node]:
        """Where a result stands in a panel of sums."""
        pitch = next(iter(self.sums.values())).pitch
        row = sub(self.shape.row, self.rows.start)
        return [mul(row, const(pitch, INDEX)), self._in_columns()]

    def _fill_right(self, depth: Block) -> None:
        column, columns = self.shape.column, self.columns
        for node, panel in self.right.items():
            columns.depth = depth.positions(node)
            fill_panel(panel, node, column, depth, columns, depth, self.lanes)
        self._fill_offsets(depth)

    def _fill_offsets(self, depth: Block) -> None:
        """Adds up what depends on columns alone, over this block of a sum."""
        if not self.offsets:
            return
        found = self._right_values(depth)
        values = substitute([node.src[0] for node in self.offsets], found)
        combine = "add" if self.several else ""
        stores = [
            Store(
                panel.number, self._in_columns(),
                reduce("add", value, depth.cut.within), None, combine,
            )
            for panel, value in zip(self.offsets.values(), values, strict=True)
        ]  # fmt: skip
        steps = {self.shape.column: Steps(self.lanes, self.blocks.tile.vectors)}
        spans = {**depth.spans({}), **self.columns.spans(steps)}
        self.stage.run((self.shape.column,), stores, steps, spans)

    def _right_values(self, depth: Block) -> dict[Node, Node]:
        """The right operands in their panels."""
        columns, found = self.columns, dict[Node, Node]()
        for node, panel in self.right.items():
            columns.depth = depth.positions(node)
            place = [*columns.terms(1), *depth.terms(self.width, node)]
            found[node] = panel.load(sum_of(place))
        return found

    def _open_values(
        self, depth: Block
    ) -> tuple[list[Node], tuple[Node, ...], dict[Node, Span]]:
        """What is summed, over panels, of which the left ones are filled now."""
        found = self._right_values(depth)
        if self.left:
            self.row_block.open()
        for node, panel in self.left.items():
            found[node] = panel.load(sum_of(self._fill_left(node, panel, depth)))
        values = substitute([node.src[0] for node in self.plan.reduces], found)
        values, ranges, spans = merged(self.stage, values, depth)
        if self.ahead:
            column, facts = self.shape.column, self.stage.facts
            self.later = Prefetch.of(values, column, ranges[-1], self.ahead, facts)
        return values, ranges, spans

    def _fill_left(self, node: Node, panel: Panel, depth: Block) -> list[Node]:
        """Fills a panel; returns where its elements stand."""
        row, rows, lanes = self.shape.row, self.row_block, self.lanes
        if node in self.along:
            fill_panel(panel, node, row, depth, rows, depth, lanes)
            return [*depth.terms(panel.pitch, node), *rows.terms(1)]
        free = self.stage.facts.free[node]
        used = [r for r in depth.cut.within if r in free]
        fill_panel(panel, node, used[-1] if used else row, rows, depth, depth, lanes)
        return [*rows.terms(panel.pitch), *depth.terms(1, node)]

    def _tiles(self, stores: list[Store], spans: dict[Node, Span]) -> None:
        shape = self.shape
        wide = Steps(self.lanes, self.blocks.tile.vectors)
        steps = {**self.rows.steps, shape.column: wide}
        spans = {**spans, **self.rows.spans, **self.columns.spans(steps)}
        axes = shape.row, shape.column
        rows = shape.row if self.asks else None
        self.stage.run(axes, stores, steps, spans, prefetch=self.later, rows=rows)
        if self.left:
            self.row_block.close()

    def _finish(self, stores: list[Store]) -> None:
        column = self.shape.column
        widest = max(store.value.dtype.itemsize for store in stores)
        lanes = min(self.stage.target.vector_bytes // widest, self.lanes)
        steps = {column: Steps(lanes)}
        spans = {**self.columns.spans(steps), **self.rows.final_spans}
        self.stage.run((self.shape.row, column), stores, steps, spans)
