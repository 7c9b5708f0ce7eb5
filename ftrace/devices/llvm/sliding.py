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

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from ftrace.devices.llvm.blocks import Block, Cut, cut_ranges, each_block
from ftrace.devices.llvm.contraction import Contraction
from ftrace.devices.llvm.facts import Affine, Facts, index_of
from ftrace.devices.llvm.microkernel import MicroKernel, Place, Tile, Walk, open_tiles
from ftrace.devices.llvm.nest import Span, digits
from ftrace.devices.llvm.staging import Panel, Stage, replaced_stores, sum_of
from ftrace.devices.llvm.target import Target
from ftrace.devices.llvm.tiling import Steps, cut, register_tile, rows_together, size_of
from ftrace.devices.llvm.types import Type
from ftrace.devices.llvm.windows import Window, find_windows
from ftrace.lower.kernel import INDEX, Kernel, Store, axis_of, load_p, range_p
from ftrace.trace.graph import Node, substitute, toposort
from ftrace.trace.primitives.elementwise import add, mul, sub
from ftrace.trace.primitives.source import const

#: Terms of a sum that are added up before they are put aside (of 4-byte elements).
DEPTH = 512
#: Cycles that it takes to evaluate a vector of a panel; where its elements are apart.
_FILL, _FILL_APART = 3.0, 6.0
#: Cycles of a block beside its sums.
_BLOCK = 2000.0
#: Fewer products are not worth it.
_LEAST = 1 << 14
#: Blocks of lines that are considered, and parts of the rows.
_MOST_BLOCKS = 32
_PARTS = (1, 2, 4, 8)


@dataclass(frozen=True, eq=False)
class Sliding:
    """How a contraction is a convolution.

    Attributes:
      plan: the contraction.
      window: its column is the outermost axis in a block.
      left, right: the operands.
      row: the axis of the rows.
      outer: axes around the blocks.
      inner: columns that are whole in a block.
      others: what is summed over beside the taps.
      lines: how many values of the window's column a block has.
      parts: blocks of rows.
    """

    plan: Contraction
    window: Window
    left: Node
    right: Node
    row: Node
    outer: tuple[Node, ...]
    inner: tuple[Node, ...]
    others: tuple[Node, ...]
    lines: int
    parts: int


def find_sliding(
    kernel: Kernel, plan: Contraction, facts: Facts, target: Target
) -> Sliding | None:
    """The contraction as a convolution, where that pays."""
    if len(plan.rows) != 1 or not is_sum_of_products(kernel, plan):
        return None
    (left,), (right,), (row,) = plan.left, plan.right, plan.rows
    if not is_even(left, facts) or row not in facts.affine[index_of(left)].terms:
        return None
    best: tuple[float, Sliding] | None = None
    for window in find_windows(right, plan.columns, plan.ranges, facts):
        found = _choose(plan, window, left, right, row, facts, target)
        if found is not None and (best is None or found[0] < best[0]):
            best = found
    return None if best is None else best[1]


def is_sum_of_products(kernel: Kernel, plan: Contraction) -> bool:
    """Is it one sum of one product of floats, known in size and not too short?"""
    if kernel.is_dynamic or len(plan.reduces) != 1:
        return False
    if len(plan.left) != 1 or len(plan.right) != 1:
        return False
    (total,), (left,), (right,) = plan.reduces, plan.left, plan.right
    if total.arg != "add" or total.dtype not in (np.float32, np.float64):
        return False
    if prod(map(size_of, (*kernel.axes, *plan.ranges))) < _LEAST:
        return False
    term = total.src[0]
    if term.op.name != "mul" or set(term.src) != {left, right}:
        return False
    return {left.dtype, right.dtype} == {total.dtype}


def is_even(node: Node, facts: Facts) -> bool:
    """Is it a load, nowhere masked, at an index that is a sum of ranges?"""
    if node.op is not load_p or len(node.src) > 2:
        return False
    return all(atom.op is range_p for atom in facts.affine[index_of(node)].terms)


def _choose(
    plan: Contraction,
    window: Window,
    left: Node,
    right: Node,
    row: Node,
    facts: Facts,
    target: Target,
) -> tuple[float, Sliding] | None:
    """The best blocks, and about how many cycles they take."""
    at = plan.columns.index(window.column)
    inner = plan.columns[at + 1 :]
    outer = (*plan.outer, *plan.columns[:at])
    walk = facts.affine[index_of(left)].terms
    others = [r for r in plan.ranges if r is not window.tap]
    others.sort(key=lambda r: -abs(walk.get(r, 0)))
    item, lanes = right.dtype.itemsize, target.vector_bytes // right.dtype.itemsize
    width = prod(size_of(a) for a in inner)
    height, lines = axis_of(row).size, axis_of(window.column).size
    depth = prod(size_of(r) for r in plan.ranges)
    units = prod(size_of(a) for a in outer)
    together = rows_together([left], row, facts)
    last = inner[-1] if inner else window.column
    fill = fill_cost(right, last, facts, lanes)
    if fill is None:
        return None
    across = size_of(last) / -(-size_of(last) // lanes)  # elements of a vector

    def cost(rows: int, columns: int, evaluated: float) -> float:
        """Cycles of a unit."""
        vectors = -(-columns // lanes)
        tile = register_tile(rows, vectors, target.registers, together)
        return tile.cycles * depth + fill * evaluated / across + _BLOCK

    best: tuple[float, int, int] | None = None
    for blocks in range(1, min(lines, _MOST_BLOCKS) + 1):
        size = -(-lines // blocks)
        if -(-lines // size) != blocks:
            continue
        if not inner and blocks > 1 and (lines % blocks or size % lanes):
            continue
        evaluated = window.share(size) * size * width * depth
        if (size + window.halo(window.taps)) * width * item * 8 > target.l2:
            continue
        for parts in _PARTS:
            if height % parts or (parts > 1 and height // parts < 8):
                continue
            count = units * blocks * parts
            each = cost(height // parts, size * width, evaluated)
            total = each * -(-count // target.cores)
            if best is None or total < best[0]:
                best = (total, size, parts)
    if best is None:
        return None
    # Without the window: all columns of several outer positions side by side.
    wide = units * lines * width
    flat = cost(height, min(wide, 12 * lanes), min(wide, 12 * lanes) * depth)
    if flat * max(wide / (12 * lanes), 1) / target.cores < best[0] * 0.9:
        return None
    found = Sliding(
        plan, window, left, right, row, outer, inner, tuple(others), best[1], best[2]
    )
    return best[0], found


def fill_cost(node: Node, column: Node, facts: Facts, lanes: int) -> float | None:
    """Cycles that it takes to evaluate a vector; None where that is too slow."""
    cost = 0.0
    for n in toposort([node]):
        if n.op is load_p and column in facts.free[n]:
            stride = facts.stride(index_of(n), column, lanes)
            if stride is None or abs(stride) > 4:
                return None
            cost += _FILL if abs(stride) == 1 else _FILL_APART
        elif n.dtype is not INDEX and n.src:
            cost += 1.0
    return cost


class SlidingProduct:
    """Emits a convolution into a stage."""

    def __init__(self, sliding: Sliding, stage: Stage) -> None:
        self.sliding = sliding
        self.stage = stage
        s, target = sliding, stage.target
        (self.total,) = s.plan.reduces
        item = self.total.dtype.itemsize
        self.lanes = target.vector_bytes // item
        self.width = prod(axis_of(a).size for a in s.inner)
        columns = s.lines * self.width
        self.vectors = -(-columns // self.lanes)
        self.pitch = self.vectors * self.lanes
        self.height = axis_of(s.row).size // s.parts
        most = rows_together([s.left], s.row, stage.facts)
        self.tile = register_tile(self.height, self.vectors, target.registers, most)
        each = sum(n * self._lines(steps) for _, n, steps in s.window.groups)
        room = target.l2 // 2 // (each * self.width * item)
        deep = min(DEPTH * 4 // item // s.window.taps, room)
        self.depth = _cut(s.others, max(deep, 1))
        self.several = self.depth.blocks > 1 or bool(self.depth.outer)
        lines = axis_of(s.window.column).size
        if s.lines < lines:
            self.columns = Cut((), s.window.column, s.lines, s.inner)
        else:
            self.columns = Cut((), None, 1, (s.window.column, *s.inner))
        self.even = lines % s.lines == 0
        self.micro = MicroKernel(stage.writer, stage.values.ops, stage.values.access)

    def _lines(self, steps: int) -> int:
        return self.sliding.lines + self.sliding.window.halo(steps)

    def emit(self) -> int:
        """Emits the function; returns how many units it has."""
        s, stage, writer = self.sliding, self.stage, self.stage.writer
        self._allocate()
        unit = writer.open_loop("%begin", "%end", 1, guarded=True)
        sizes = [*[axis_of(a).size for a in s.outer], self.columns.blocks, s.parts]
        *places, block, part = digits(writer, unit.index, sizes)
        opened = [stage.open(a, p) for a, p in zip(s.outer, places, strict=True)]
        self.block = Block(stage, self.columns, block)
        self.block.open()
        self.row_start = stage.new_range(axis_of(s.row).size)
        rows = stage.open(self.row_start, stage.scaled(part, self.height))
        self._accumulate()
        self._finish(part)
        stage.close(rows)
        self.block.close()
        for o in reversed(opened):
            stage.close(o)
        writer.close_loop(unit)
        stage.release()
        return prod(sizes)

    def _allocate(self) -> None:
        """A panel for each group of classes, and one for the sums."""
        s, stage = self.sliding, self.stage
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

    def _accumulate(self) -> None:
        if self.several:
            self.stage.fill(self.sums, 0)
        each_block(self.stage, self.depth, self._multiply)

    def _multiply(self, depth: Block) -> None:
        """One block of what is summed over: the panels, and the tiles over them."""
        s, stage, writer = self.sliding, self.stage, self.stage.writer
        for panel, group in zip(self.panels, s.window.groups, strict=True):
            self._fill(panel, group, depth)
        lanes, t = self.lanes, Type.of(self.total.dtype, self.lanes)
        form = stage.facts.affine[index_of(s.left)]
        pitch = form.terms[s.row]
        left = self._left(form, depth)
        strips = [
            (
                panel,
                group[0] * form.terms.get(s.window.tap, 0),
                self._walks(panel, group, depth, form),
            )
            for panel, group in zip(self.panels, s.window.groups, strict=True)
        ]
        sums = Place(stage.values.buffer(self.sums.number))
        for columns in cut(self.vectors, Steps(0, self.tile.vectors)):
            across = open_tiles(writer, columns)
            for rows in cut(self.height, Steps(0, self.tile.rows)):
                down = open_tiles(writer, rows)
                tile = Tile(t, rows.copies, columns.copies, pitch)
                state = [t.zero] * (tile.rows * tile.vectors)
                a = left.plus((pitch, down.index))
                for panel, first, walks in strips:
                    b = Place(stage.values.buffer(panel.number))
                    b = b.plus((lanes, across.index))
                    from_first = a.plus(constant=first)
                    state = self.micro.sums(tile, walks, from_first, b, state)
                out = sums.plus((self.pitch, down.index), (lanes, across.index))
                self.micro.keep(tile, state, out, self.pitch, self.several)
                writer.close_loop(down)
            writer.close_loop(across)

    def _left(self, form: Affine, depth: Block) -> Place:
        """Where the left operand stands in the first row of the block."""
        s, stage = self.sliding, self.stage
        values = stage.values
        within = {*self.depth.within, s.window.tap, s.row}
        terms = {a: c for a, c in form.terms.items() if a not in within}
        terms[self.row_start] = form.terms[s.row]
        split = self.depth.split
        if split is not None and depth.start is not None and split in form.terms:
            terms[depth.start] = form.terms[split]
        found, constant = values.terms(Affine(form.constant, terms), ())
        number = s.left.src[0].arg
        assert isinstance(number, int)
        return Place(values.buffer(number), tuple(found), constant)

    def _walks(
        self,
        panel: Panel,
        group: tuple[int, int, int],
        depth: Block,
        form: Affine,
    ) -> list[Walk]:
        """The loops over what is summed over in the block."""
        s, stage = self.sliding, self.stage
        _, classes, steps = group
        walks: list[Walk] = []
        weight = panel.pitch
        free = stage.facts.free[s.right]
        cut_ = depth.cut
        for r, size in zip(cut_.within[::-1], cut_.extents[::-1], strict=True):
            count = depth.extent(r)
            held = r in free
            walks.insert(0, Walk(count, form.terms.get(r, 0), weight if held else 0))
            weight *= size if held else 1
        tap = form.terms.get(s.window.tap, 0)
        line = self.width
        if classes > 1:
            walks.append(Walk(str(classes), tap, self._lines(steps) * line))
        step = s.window.dilation * line
        walks.append(Walk(str(steps), tap * s.window.stride, step))
        return walks

    # Panels.

    def _fill(self, panel: Panel, group: tuple[int, int, int], depth: Block) -> None:
        """Evaluates the right operand once for each line of the classes of a group."""
        s, stage = self.sliding, self.stage
        first, classes, steps = group
        line = stage.new_range(self._lines(steps))
        kind = stage.new_range(classes)
        place: Node = line
        if self.block.start is not None:
            place = add(place, self.block.start)
        tap = add(kind, const(first, INDEX)) if classes > 1 else const(first, INDEX)
        (value,) = substitute([s.right], {s.window.column: place, s.window.tap: tap})
        terms = depth.terms(panel.pitch, s.right)
        weight = self.width
        terms.append(mul(line, const(weight, INDEX)))
        terms.append(mul(kind, const(weight * self._lines(steps), INDEX)))
        for a in s.inner:
            weight //= axis_of(a).size
            terms.append(mul(a, const(weight, INDEX)))
        ranges = [r for r in depth.cut.within if r in stage.facts.free[s.right]]
        ranges += [kind, line, *s.inner]
        last = ranges[-1]
        lanes = self.lanes
        while lanes >= 2 * axis_of(last).size:
            lanes //= 2
        spans = {r: span for r, span in depth.spans({}).items() if r in ranges}
        if not self.even and s.inner:
            count = stage.scaled(
                self.block.extent(s.window.column), 1, s.window.halo(steps)
            )
            spans[line] = Span("0", count)
        store = Store(panel.number, sum_of(terms), value)
        stage.run(ranges, [store], {last: Steps(lanes)}, spans)

    # What becomes of the sums.

    def _finish(self, part: str) -> None:
        """The kernel's own stores, with the sums read from their panel."""
        s, stage = self.sliding, self.stage
        row = mul(sub(s.row, self.row_start), const(self.pitch, INDEX))
        index = sum_of([row, *self.block.terms(1)])
        stores = replaced_stores(
            stage.kernel.stores, {self.total: self.sums.load(index)}
        )
        widest = max(store.value.dtype.itemsize for store in stores)
        lanes = min(stage.target.vector_bytes // widest, self.lanes)
        axes = [s.row, *self.columns.within]
        last = axes[-1]
        if last is not self.columns.split:
            while lanes >= 2 * axis_of(last).size:
                lanes //= 2
        steps = {last: Steps(lanes)}
        spans = self.block.spans(steps)
        begin = stage.scaled(part, self.height)
        spans[s.row] = Span(begin, stage.scaled(part, self.height, self.height))
        stage.run(axes, stores, steps, spans)


def _cut(ranges: Sequence[Node], length: int) -> Cut:
    """Blocks of at most `length`, as equal as can be."""
    return cut_ranges(ranges, length)
