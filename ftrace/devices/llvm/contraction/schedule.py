"""How a product runs, as data.

    for units of columns and rows:                  what threads share
        panel sums[i, j] <- 0
        once, or for each block of k:
            panel right[…] <- b(j, k)               any expression, turned if need be
            panel left[i, k] <- a(i, k)             unless it is read where it stands
            sums[i, j] <- sums[i, j] + left · right in tiles of registers
        out <- f(sums)

Strategies say what of it happens, and how large the parts are (`strategies.py`): a
contraction and a processor give a `Schedule`, or None.
Printed it is that diagram; `emitter.py` carries it out. Blocks of k have a fixed size:
the result does not depend on how units are shared. The scheme is that of the BLIS
library (Van Zee and van de Geijn, 2015), with panels filled by arbitrary expressions.
"""

from __future__ import annotations

from ftrace.devices.llvm.contraction.find import Contraction
from ftrace.devices.llvm.emit.blocked_ranges import Block, Cut, Opening
from ftrace.devices.llvm.emit.loop_nest import Span
from ftrace.devices.llvm.emit.staged_kernel import Stage
from ftrace.devices.llvm.ir.writer import lowest
from ftrace.devices.llvm.schedule.index_facts import Facts, index_of
from ftrace.devices.llvm.schedule.tiling_ir import Steps, cut
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.kernel.ir import INDEX, axis_of, load_p
from ftrace.trace.graph import Node, toposort
from ftrace.trace.primitives.elementwise import mul, sub
from ftrace.trace.primitives.sources import const
from ftrace.trace.symbolic.dim import is_dynamic


class LooseRows(Opening):
    """Rows of a block along one axis, whose operands are read where they stand.

    Once open, rows say over which axes tiles run and how (`axes`, `steps`, `spans`),
    where a tile's sums stand in a panel (`terms`), and the same for what becomes of
    them (`final_…`). Tiles are cut from the whole axis: some are a row higher.
    """

    def __init__(self, axis: Node, tile: int, height: int) -> None:
        self.axis = axis
        self.tile = tile
        self.parts = cut(axis_of(axis).size, Steps(0, tile))
        self.tiles = sum(part.count for part in self.parts)
        self.height = max(height // tile, 1)
        if not is_dynamic(self.tiles):  # blocks as equal as can be
            self.height = -(-self.tiles // -(-self.tiles // self.height))
        self.blocks = -(-self.tiles // self.height)
        self.length = self.height * self.parts[0].copies
        self.axes = self.final_axes = (axis,)
        self.steps = {axis: Steps(0, tile)}

    def at(self, stage: Stage, number: str) -> LooseRows:
        """The block of this number, to be opened."""
        self.stage, self.number = stage, number
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

    def __init__(self, cut_: Cut, tile: int) -> None:
        self.cut = cut_
        self.tile = tile
        self.blocks = cut_.blocks
        self.length = -(-cut_.length // tile) * tile
        self.final_axes = cut_.within

    def at(self, stage: Stage, number: str) -> StagedRows:
        """The block of this number, to be opened."""
        self.stage = stage
        self.block = Block(stage, self.cut, number)
        self.line = stage.new_range(self.length)
        self.axes = (self.line,)
        self.steps = {self.line: Steps(0, self.tile, False)}
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


@dataclass(frozen=True, eq=False)
class Schedule:
    """How a contraction runs.

    Attributes:
      plan: the contraction.
      lanes: of a vector.
      outer: axes whose values are units of their own.
      inner: other axes of rows: the right operands are the same for all of them.
      rows: how rows are cut.
      columns: how columns are cut.
      vectors: of a tile.
      depth: how what is summed over is cut.
      packed: right operands that stand in panels.
      left: left operands that do.
      pitch: columns (or terms) of a row of a right panel.
      strips: right panels are strips as wide as a tile.
      along: vectors run along this range, not along the columns.
      once: units in a row that share right panels fill them once.
      registers: results go from registers to where they belong.
      ahead: how many terms ahead right operands are asked for.
      next_rows: each tile asks for the rows of the next one.
    """

    plan: Contraction
    lanes: int
    outer: tuple[Node, ...]
    inner: tuple[Node, ...]
    rows: LooseRows | StagedRows
    columns: Cut
    vectors: int
    depth: Cut
    packed: tuple[Node, ...]
    left: tuple[Node, ...]
    pitch: int
    strips: bool = False
    along: Node | None = None
    once: bool = False
    registers: bool = False
    ahead: int = 0
    next_rows: bool = False

    @property
    def width(self) -> int:
        """Columns of a tile."""
        return self.vectors * self.lanes

    def __str__(self) -> str:
        layout = "[column][k]" if self.along else "[k][column]"
        layout = f"[strip]{layout}" if self.strips else layout
        tile = f"{self.vectors} vectors of {self.lanes}"
        if self.along:
            along = f"{name_of(self.along)} in vectors of {self.lanes}"
            tile = f"{self.vectors} columns, {along}"
        columns = () if self.along else (self.columns,)
        places = [*self.outer, *columns, *self.inner, self.rows]
        lines = [f"for each {', '.join(map(name_of, places))}:"]
        if self.depth.several:
            lines.append("    panel sums[row][column] <- 0")
        lines.append(f"    for each {name_of(self.depth)}:")
        once = "once, " if self.once and not self.depth.several else ""
        lines += [f"        {once}panel right{layout} <- b(…)" for _ in self.packed]
        lines += ["        panel left[row][k] <- a(…)" for _ in self.left]
        lines.append(f"        sums += a · b    {self.rows.tile} rows × {tile}")
        if self.ahead:
            lines.append(f"            prefetch b, {self.ahead} terms ahead")
        if self.next_rows:
            lines.append("            prefetch a, of the next tile")
        kept = "in registers" if self.registers else "of the panel of sums"
        return "\n".join([*lines, f"    out <- f(sums)    {kept}"])


def name_of(part: Node | Cut | LooseRows | StagedRows) -> str:
    """A range, or how ranges are cut."""
    if isinstance(part, LooseRows):
        return f"{name_of(part.axis)} by {part.length}"
    if isinstance(part, StagedRows):
        part = part.cut
    if isinstance(part, Cut):
        split = [] if part.split is None else [f"{name_of(part.split)} by {part.size}"]
        return " × ".join(
            [*map(name_of, part.outer), *split, *map(name_of, part.inner)]
        )
    axis = axis_of(part)
    return f"{'r' if axis.reduced else 'i'}{axis.number}"


def walk(plan: Contraction, facts: Facts) -> list[Node]:
    """What is summed over, in the order in which the left operands lie in memory.

    Their loads then walk through it evenly, and it becomes one loop.
    """
    steps: dict[Node, int] = dict.fromkeys(plan.ranges, 0)
    for n in toposort(plan.left or plan.right):
        if n.op is load_p:
            terms = facts.affine[index_of(n)].terms
            for r in steps:
                steps[r] = max(steps[r], abs(terms.get(r, 0)))
    return sorted(plan.ranges, key=lambda r: -steps[r])
