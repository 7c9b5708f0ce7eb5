"""Contractions: sums of products whose operands each lack an axis of the other.

    out[i, j] = f(the sum over k of a(i, k) · b(j, k), …)

The *columns* are the axes of b, the one that is contiguous in memory last; the *row*
axis is one of a's. A unit is a block of rows and columns:

    for each block of k:
        panel b[k, j] <- b(j, k)              any expression, turned where it is turned
        panel c[i, j] <- c[i, j] + the sum    in tiles of registers
    out <- f(c)

Blocks of k have a fixed size: the result does not depend on how blocks are shared.
Sums along columns without a second operand run in the same way, without panel b.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from ftrace.devices.llvm.facts import Facts
from ftrace.devices.llvm.nest import Span, digits, identity, lowest
from ftrace.devices.llvm.staging import Dim, Panel, Stage, sum_of
from ftrace.devices.llvm.target import Target
from ftrace.devices.llvm.tiling import Steps, Tiles, cut, register_tile
from ftrace.devices.llvm.values import Opened
from ftrace.devices.llvm.writer import OpenLoop
from ftrace.lower.kernel import (
    INDEX,
    Kernel,
    Store,
    axis_of,
    load_p,
    reduce,
)
from ftrace.lower.place import Let, Loop, ReduceLoop, Statement
from ftrace.trace.graph import Node, substitute, toposort

#: Vectors in a row of a panel, and rows of it (of 4-byte elements): 768 bytes × 512
#: stay in L2, and the rows of the other operand that a tile needs in L1.
_VECTORS = 12
_DEPTH = 512
#: Rows of a block: each element of panel b is used so often.
_HEIGHT = 256
_LEAST_HEIGHT = 64
#: Rows that a sum along columns takes at a time.
_STREAM = 16


@dataclass(frozen=True, eq=False)
class Cut:
    """A list of ranges in blocks.

    Attributes:
      outer: ranges that are run one by one around the blocks.
      split: the range that is cut; None where a block is all of the inner ones.
      size: of a block of `split`.
      inner: ranges that are whole in a block.
    """

    outer: tuple[Node, ...]
    split: Node | None
    size: int
    inner: tuple[Node, ...]

    @property
    def within(self) -> tuple[Node, ...]:
        """The ranges that run in a block, outermost first."""
        return self.inner if self.split is None else (self.split, *self.inner)

    @property
    def extents(self) -> tuple[int, ...]:
        sizes = tuple(axis_of(r).size for r in self.inner)
        return sizes if self.split is None else (self.size, *sizes)

    @property
    def length(self) -> int:
        return prod(self.extents)

    @property
    def blocks(self) -> int:
        return 1 if self.split is None else -(-axis_of(self.split).size // self.size)


def cut_ranges(ranges: Sequence[Node], length: int, multiple: int = 1) -> Cut:
    """Blocks of about `length`: inner ranges are whole, one is split.

    It is split evenly; but the innermost range in blocks that `multiple` divides, and
    what is left.
    """
    inner: list[Node] = []
    rest = list(ranges)
    width = 1
    while rest and width * axis_of(rest[-1]).size * 3 <= length * 4:
        inner.insert(0, rest.pop())
        width *= axis_of(inner[0]).size
    if not rest or width * 2 > length:
        return Cut(tuple(rest), None, 1, tuple(inner))
    split = rest.pop()
    size = axis_of(split).size
    if not inner and multiple > 1:
        each = max(length // multiple, 1) * multiple
    else:
        most = max(length // width, 1)
        each = -(-size // -(-size // most))
    return Cut(tuple(rest), split, each, tuple(inner))


@dataclass(frozen=True, eq=False)
class Contraction:
    """How a kernel runs as a contraction.

    Attributes:
      outer: axes that both operands have, or neither; and rows beyond `row`.
      row: the axis of the tiles' rows; None if there is no second operand.
      columns: the axes of the columns.
      ranges: what is summed over.
      operands: the expressions that stand in panel b.
      reduces: the sums.
    """

    outer: tuple[Node, ...]
    row: Node | None
    columns: tuple[Node, ...]
    ranges: tuple[Node, ...]
    operands: tuple[Node, ...]
    reduces: tuple[Node, ...]


def find_contraction(
    kernel: Kernel, block: Sequence[Statement], facts: Facts
) -> Contraction | None:
    """The kernel as a contraction, if it is one."""
    loop = _only_reduce(kernel, block)
    column = _contiguous_axis(kernel, facts)
    if loop is None or column is None:
        return None
    free = facts.free
    terms = [r.src[0] for r in loop.reduces]
    loads = [n for n in toposort(terms) if n.op is load_p]
    moving = [n for n in loads if column in free[n]]
    if not moving or not all(column in free[r] for r in loop.reduces):
        return None
    right = frozenset[Node]().union(*[free[n] for n in moving])
    left = frozenset[Node]().union(*[free[n] for n in loads if n not in moving])
    axes = [a for a in kernel.axes if axis_of(a).size > 1]
    rows = [a for a in axes if a in left and a not in right]
    columns = [a for a in axes if a in right and a not in left]
    if column not in columns:
        return None
    row = max(rows, key=lambda a: axis_of(a).size) if rows else None
    columns.remove(column)
    columns.append(column)
    outer = tuple(a for a in kernel.axes if a is not row and a not in columns)
    operands = _operands(terms, frozenset(rows), frozenset(columns), facts)
    return Contraction(
        outer, row, tuple(columns), loop.ranges, tuple(operands), tuple(loop.reduces)
    )


def _only_reduce(kernel: Kernel, block: Sequence[Statement]) -> ReduceLoop | None:
    """The one reduce loop of a kernel, inside all of its axes."""
    if kernel.ordered or any(store.combine for store in kernel.stores):
        return None
    while True:
        inner = [s for s in block if not isinstance(s, Let)]
        if len(inner) != 1 or not isinstance(inner[0], Loop):
            break
        block = inner[0].body
    loops = [s for s in block if isinstance(s, ReduceLoop)]
    if len(loops) != 1 or any(isinstance(s, Loop) for s in block):
        return None
    (loop,) = loops
    if not all(isinstance(s, Let) for s in loop.body):
        return None
    return loop if all(axis_of(r).size for r in loop.ranges) else None


def _contiguous_axis(kernel: Kernel, facts: Facts) -> Node | None:
    """The axis along which the first store is contiguous."""
    form = facts.affine[kernel.stores[0].index]
    for axis in reversed(kernel.axes):
        if form.terms.get(axis) == 1 and axis_of(axis).size > 1:
            return axis
    return None


def _operands(
    terms: Sequence[Node], rows: frozenset[Node], columns: frozenset[Node], facts: Facts
) -> list[Node]:
    """The largest expressions that depend on columns and not on rows."""
    found: list[Node] = []
    pending = list(terms)
    seen = set(pending)
    while pending:
        node = pending.pop()
        free = facts.free[node]
        if not free & columns:
            continue
        if not free & rows and node.op.name != "const":
            found.append(node)
            continue
        for source in node.src:
            if source not in seen and source.shape == ():
                seen.add(source)
                pending.append(source)
    return found


def is_plain(node: Node, column: Node, facts: Facts) -> bool:
    """Is it a load that needs no panel: contiguous, and nowhere masked?"""
    if node.op is not load_p or len(node.src) > 2:
        return False
    form = facts.affine[node.src[1]]
    others = [a for a in form.terms if a is not column]
    return form.terms.get(column) == 1 and all(column not in facts.free[a] for a in others)


def is_worthwhile(plan: Contraction, facts: Facts, target: Target) -> bool:
    """Do blocks pay? Small plain products run as well straight from memory."""
    column = plan.columns[-1]
    depth = prod(axis_of(r).size for r in plan.ranges)
    width = prod(axis_of(a).size for a in plan.columns)
    item = max(n.dtype.itemsize for n in plan.operands)
    plain = all(is_plain(n, column, facts) for n in plan.operands)
    bytes_ = depth * width * item
    if plan.row is None:
        long = bytes_ > target.l2 // 2 and depth > 64 and width * item >= 4096
        return plain and len(plan.columns) == 1 and long
    height = axis_of(plan.row).size
    if height < 4 or depth < 4 or width < 4:
        return False
    if not plain:
        return height * depth * width >= 1 << 14
    pitch = _row_bytes(plan, column, facts) * item
    aliased = pitch % 2048 == 0 and bytes_ > target.l1
    return height >= 16 and (bytes_ > target.l2 * 3 // 4 or (aliased and depth > 256))


def _row_bytes(plan: Contraction, column: Node, facts: Facts) -> int:
    """From one row of an operand to the next, in elements."""
    form = facts.affine[plan.operands[0].src[1]]
    return max(abs(form.terms.get(r, 0)) for r in plan.ranges)



class ContractionCode:
    """Emits a contraction into a stage, in blocks."""

    def __init__(self, plan: Contraction, stage: Stage) -> None:
        self.plan = plan
        self.stage = stage
        target = stage.target
        item = max(n.dtype.itemsize for n in (*plan.operands, *plan.reduces))
        self.lanes = lanes = target.vector_bytes // item
        self.column = plan.columns[-1]
        if plan.row is None:
            wide = max(target.l1 // 3 // item, lanes)
            self.columns = cut_ranges(plan.columns, wide, 4 * lanes)
            self.tile = (1, 4)
        else:
            height = axis_of(plan.row).size
            last = -(-axis_of(self.column).size // lanes)
            self.tile = register_tile(height, last, target)
            multiple = self.tile[1] * lanes
            self.columns = cut_ranges(plan.columns, _VECTORS * lanes, multiple)
            if self.columns.split is not self.column:
                vectors = -(-self.columns.length // lanes)
                self.tile = register_tile(height, vectors, target)
        step = self.tile[1] * lanes
        self.pitch = -(-self.columns.length // step) * step
        room = target.l2 // 2 // (self.pitch * item * len(plan.operands))
        deep = min(_DEPTH * 4 // item, room)
        self.depth = cut_ranges(plan.ranges, max(deep, 16), lanes)
        self.height = self._height()

    def _height(self) -> int:
        """Tiles of rows in a block."""
        if self.plan.row is None:
            return 1
        tiles = -(-axis_of(self.plan.row).size // self.tile[0])
        most = max(_HEIGHT // self.tile[0], 1)
        others = self.columns.blocks * prod(
            axis_of(a).size for a in (*self.plan.outer, *self.columns.outer)
        )
        least = max(_LEAST_HEIGHT // self.tile[0], 1)
        while most > least and others * -(-tiles // most) < 4 * self.stage.target.cores:
            most = -(-most // 2)
        return -(-tiles // -(-tiles // most))

    def emit(self) -> int:
        """Emits the function; returns how many units it has."""
        plan, stage, writer = self.plan, self.stage, self.stage.writer
        self._allocate()
        unit = writer.open_loop("%begin", "%end", 1, guarded=True)
        outer = (*plan.outer, *self.columns.outer)
        parts = self._row_parts()
        tiles = sum(part.count for part in parts)
        blocks = -(-tiles // self.height)
        sizes = [*[axis_of(a).size for a in outer], self.columns.blocks, blocks]
        *places, column, row = digits(writer, unit.index, sizes)
        opened = [stage.open(a, p) for a, p in zip(outer, places, strict=True)]
        self.spans: dict[Node, Span] = {}
        self.starts: dict[Node, Node] = {}
        if self.columns.split is not None:
            opened.append(self._open_start(self.columns, column))
        if plan.row is not None:
            first = self._scaled(row, self.height)
            last = lowest(writer, self._scaled(row, self.height, self.height), tiles)
            begin, end = self._row_of(first), self._row_of(last)
            self.row_tiles, self.row_span = Span(first, last), Span(begin, end)
            self.row_start = stage.new_range(axis_of(plan.row).size)
            opened.append(stage.open(self.row_start, begin))
        self.column_block = column
        self._accumulate()
        self._finish()
        for o in reversed(opened):
            stage.close(o)
        writer.close_loop(unit)
        stage.release()
        return prod(sizes)

    # Places of blocks.

    def _scaled(self, number: str, by: int, plus: int = 0) -> str:
        return self.stage.values.access.sum_terms([(by, number)], plus)

    def _row_parts(self) -> list[Tiles]:
        if self.plan.row is None:
            return [Tiles(0, 1, 1, 1)]
        return cut(axis_of(self.plan.row).size, Steps(0, self.tile[0]))

    def _row_of(self, tile: str) -> str:
        """The row in which a tile begins: the first tiles are a row higher."""
        parts = self._row_parts()
        row = self._scaled(tile, parts[-1].width)
        if len(parts) == 1:
            return row
        extra = lowest(self.stage.writer, tile, parts[0].count)
        return self.stage.writer.pure(f"add i64 {row}, {extra}", row, extra)

    def _open_start(self, cut_: Cut, block: str) -> Opened:
        """Opens a range that names where the block begins in the split range."""
        assert cut_.split is not None
        start = self.stage.new_range(axis_of(cut_.split).size)
        self.starts[cut_.split] = start
        return self.stage.open(start, self._scaled(block, cut_.size))

    def _span(self, cut_: Cut, block: str, width: int) -> dict[Node, Span]:
        """The part of the split range that is in a block, in tiles of `width`."""
        if cut_.split is None:
            return {}
        total = -(-axis_of(cut_.split).size // width)
        each = cut_.size // width
        first = self._scaled(block, each)
        last = lowest(self.stage.writer, self._scaled(block, each, each), total)
        return {cut_.split: Span(first, last)}

    def _terms(self, cut_: Cut, weight: int, node: Node | None = None) -> list[Node]:
        """The place in a block as terms of an index; of what `node` depends on."""
        start = self.starts.get(cut_.split) if cut_.split is not None else None
        ranges = cut_.within
        if node is not None:
            free = self.stage.facts.free[node]
            ranges = tuple(r for r in ranges if r in free)
        found: list[Node] = []
        for r in reversed(ranges):
            size = cut_.size if r is cut_.split else axis_of(r).size
            found.append(Dim(r, start if r is cut_.split else None, weight).term())
            weight *= size
        return found

    # Panels.

    def _allocate(self) -> None:
        plan, stage = self.plan, self.stage
        self.operands: dict[Node, Panel] = {}
        if plan.row is not None:
            for node in plan.operands:
                free = stage.facts.free[node]
                extents = zip(self.depth.within, self.depth.extents, strict=True)
                rows = prod(size for r, size in extents if r in free)
                panel = stage.new_panel(node.dtype, rows, self.pitch)
                self.operands[node] = panel
        height = self.height * self.tile[0] if plan.row is not None else 1
        self.sums = {
            node: stage.new_panel(node.dtype, height, self.pitch)
            for node in plan.reduces
        }
        for panel in self.operands.values():
            stage.fill(panel, 0, self.columns.length)

    def _sum_index(self, column: Sequence[Node]) -> Node:
        terms = list(column)
        if self.plan.row is not None:
            terms.append(Dim(self.plan.row, self.row_start, self.pitch).term())
        return sum_of(terms)

    # The sums.

    def _accumulate(self) -> None:
        """Fills the panels of sums, block by block of what is summed over."""
        stage, writer = self.stage, self.stage.writer
        outer = prod(axis_of(r).size for r in self.depth.outer)
        self.several = outer * self._depth_blocks() > 1
        if self.several:
            for node, panel in self.sums.items():
                stage.fill(panel, identity(str(node.arg), node.dtype))
        loops: list[tuple[OpenLoop, Opened]] = []
        for r in self.depth.outer:
            loop = writer.open_loop("0", str(axis_of(r).size), 1)
            loops.append((loop, stage.open(r, loop.index)))
        if self.plan.row is None:
            self._stream()
        elif self.depth.split is None:
            self._product("0")
        else:
            loop = writer.open_loop("0", str(self.depth.blocks), 1)
            start = self._open_start(self.depth, loop.index)
            self._product(loop.index)
            stage.close(start)
            writer.close_loop(loop)
        for loop, opened in reversed(loops):
            stage.close(opened)
            writer.close_loop(loop)

    def _depth_blocks(self) -> int:
        if self.plan.row is None and self.depth.within:
            return -(-axis_of(self.depth.within[-1]).size // _STREAM)
        return self.depth.blocks

    def _product(self, block: str) -> None:
        """One block: the panels of operands, and the tiles over them."""
        for node, panel in self.operands.items():
            self._fill(node, panel, block)
        stage, plan = self.stage, self.plan
        row = plan.row
        assert row is not None
        column = stage.new_range(self.pitch)
        panels = {
            node: panel.load(sum_of([column, *self._terms(self.depth, self.pitch, node)]))
            for node, panel in self.operands.items()
        }
        index = self._sum_index([column])
        stores: list[Store] = []
        for node, panel in self.sums.items():
            (value,) = substitute([node.src[0]], panels)
            total = reduce(str(node.arg), value, self.depth.within)
            combine = str(node.arg) if self.several else ""
            stores.append(Store(panel.number, index, total, None, combine))
        steps = {row: Steps(0, self.tile[0]), column: Steps(self.lanes, self.tile[1])}
        spans = {row: self.row_tiles, **self._span(self.depth, block, 1)}
        if self.columns.split is not None:
            spans[column] = Span("0", self._column_tiles())
        stage.run((row, column), stores, steps, spans)

    def _column_tiles(self) -> str:
        """Tiles that cover the columns of this block: the last one may be short."""
        writer, split = self.stage.writer, self.columns.split
        assert split is not None
        span = self._span(self.columns, self.column_block, 1)[split]
        count = writer.pure(f"sub i64 {span.last}, {span.first}", span.last, span.first)
        inner = prod(axis_of(r).size for r in self.columns.inner)
        step = self.tile[1] * self.lanes
        total = self._scaled(count, inner, step - 1)
        return writer.pure(f"udiv i64 {total}, {step}", total)

    def _fill(self, node: Node, panel: Panel, block: str) -> None:
        """Evaluates an operand for a block, into its panel."""
        stage, facts, column = self.stage, self.stage.facts, self.column
        free = facts.free[node]
        ranges = [r for r in (*self.depth.within, *self.columns.within) if r in free]
        vector = self._vector_of(node, ranges)
        lanes = self._lanes_of(node, vector)
        index = sum_of(
            [*self._terms(self.columns, 1), *self._terms(self.depth, self.pitch, node)]
        )
        store = Store(panel.number, index, node)
        steps = {vector: Steps(lanes)}
        if vector is not column and column in free:
            steps[column] = Steps(0, lanes, False)
        spans: dict[Node, Span] = {}
        for cut_, number in ((self.depth, block), (self.columns, self.column_block)):
            if cut_.split in free:
                width = steps.get(cut_.split, Steps()).width
                spans |= self._span(cut_, number, width)
        if vector is column or column not in free:
            stage.run(ranges, [store], steps, spans)
            return
        others = [r for r in ranges if r is not vector and r is not column]
        stage.turn([*others, vector, column], store, steps, spans)

    def _vector_of(self, node: Node, ranges: Sequence[Node]) -> Node:
        """The range along which an operand is best evaluated."""
        facts = self.stage.facts
        loads = [n for n in toposort([node]) if n.op is load_p]

        def cost(r: Node) -> float:
            lanes, size = self._lanes_of(node, r), axis_of(r).size
            vectors = -(-size // lanes)
            total = 2.0 if r is self.column else 4.0  # what turning costs
            for n in loads:
                if r in facts.free[n]:
                    stride = facts.stride(n.src[1], r, lanes)
                    total += 1 if stride in (-1, 0, 1) else 2 + lanes
            return total * vectors / size

        usable = [r for r in ranges if r is self.column or self._may_turn(node, r)]
        return min(usable, key=cost)

    def _may_turn(self, node: Node, r: Node) -> bool:
        lanes = self._lanes_of(node, r)
        column = self.column
        if lanes != self._lanes_of(node, column):
            return False
        if self.depth.split is r and self.depth.size % lanes:
            return False
        return not (self.columns.split is r or self.columns.split is column and self.columns.size % lanes)

    def _lanes_of(self, node: Node, r: Node) -> int:
        widest = max(
            (n.dtype.itemsize for n in toposort([node]) if n.shape == () and n.dtype is not INDEX),
            default=8,
        )
        lanes = self.stage.target.vector_bytes // max(widest, node.dtype.itemsize)
        if r is self.column and r in self.columns.inner or r in self.depth.inner:
            size = axis_of(r).size
            while lanes >= 2 * size:
                lanes //= 2
        return lanes

    def _stream(self) -> None:
        """Sums along columns: a few rows at a time, added up before they are stored."""
        stage, writer = self.stage, self.stage.writer
        *outer, last = self.depth.within
        loops: list[tuple[OpenLoop, Opened]] = []
        for r in outer:
            loop = writer.open_loop("0", str(axis_of(r).size), 1)
            loops.append((loop, stage.open(r, loop.index)))
        column = self.column
        index = self._sum_index(self._terms(self.columns, 1))
        stores = [
            Store(panel.number, index, reduce(str(n.arg), n.src[0], (last,)), None, str(n.arg))
            for n, panel in self.sums.items()
        ]
        steps = {column: Steps(self.lanes, self.tile[1])}
        spans = self._span(self.columns, self.column_block, steps[column].width)
        for tiles in cut(axis_of(last).size, Steps(0, _STREAM)):
            stop = tiles.start + tiles.count * tiles.width
            loop = writer.open_loop(str(tiles.start), str(stop), tiles.width)
            stage.run([column], stores, steps, spans, {last: (loop.index, tiles)})
            writer.close_loop(loop)
        for loop, opened in reversed(loops):
            stage.close(opened)
            writer.close_loop(loop)

    # What becomes of the sums.

    def _finish(self) -> None:
        """The kernel's own stores, with the sums read from their panels."""
        stage, plan = self.stage, self.plan
        index = self._sum_index(self._terms(self.columns, 1))
        found: dict[Node, Node] = {n: p.load(index) for n, p in self.sums.items()}
        stores: list[Store] = []
        for store in stage.kernel.stores:
            parts = substitute(store.expressions, found)
            valid = parts[2] if store.valid is not None else None
            stores.append(Store(store.buffer, parts[0], parts[1], valid))
        widest = max(store.value.dtype.itemsize for store in stores)
        lanes = min(stage.target.vector_bytes // max(widest, 1), self.lanes)
        column = self.column
        if column in self.columns.inner:
            while lanes >= 2 * axis_of(column).size:
                lanes //= 2
        steps = {column: Steps(lanes)}
        width = lanes if self.columns.split is column else 1
        spans = self._span(self.columns, self.column_block, width)
        axes = list(self.columns.within)
        if plan.row is not None:
            axes.insert(0, plan.row)
            spans[plan.row] = self.row_span
        stage.run(axes, stores, steps, spans)
