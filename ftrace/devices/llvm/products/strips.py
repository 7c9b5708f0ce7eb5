"""Blocks of a matrix product in panels of strips.

    right[strip][k][column]      a strip is as wide as a tile of registers

A tile reads its strip from beginning to end: one page after the other, ahead of which
the processor fetches by itself, where rows of the whole operand would be far apart.
"""

from __future__ import annotations

from collections.abc import Mapping

from ftrace.devices.llvm.ir.blocks import Block, Cut
from ftrace.devices.llvm.loops.nest import Span
from ftrace.devices.llvm.loops.staging import Stage
from ftrace.devices.llvm.loops.tiles import Steps, size_of
from ftrace.devices.llvm.products.product import LooseRows
from ftrace.lower.kernel import INDEX
from ftrace.trace.graph import Node
from ftrace.trace.primitives.elementwise import div, mul, rem, sub
from ftrace.trace.primitives.source import const


class StripBlock(Block):
    """A block of columns, some strips of it, that is open.

    Args:
      width: columns of a strip.
      strips: of the block.
      number: of the block.
    """

    def __init__(
        self, stage: Stage, column: Node, width: int, strips: int, number: str
    ) -> None:
        super().__init__(stage, Cut((), column, width * strips, ()), number)
        self.column = column
        self.width = width
        self.strips = strips
        #: Rows of the panel that is asked for: so far apart do its strips lie.
        self.depth = 1

    def open(self) -> None:
        super().open()
        self.first = self.stage.new_range(-(-size_of(self.column) // self.width))
        base = self.stage.scaled(self.number, self.strips)
        self._first = self.stage.open(self.first, base)

    def close(self) -> None:
        self.stage.close(self._first)
        super().close()

    def terms(self, weight: int, node: Node | None = None) -> list[Node]:
        """Where a column is in a panel of strips of `depth` rows."""
        assert weight == 1
        width = const(self.width, INDEX)
        strip = sub(div(self.column, width), self.first)
        apart = const(self.depth * self.width, INDEX)
        return [mul(strip, apart), rem(self.column, width)]


class RowBlock(Block):
    """The rows of a unit, for a panel of them; whole vectors along the rows fit.

    Args:
      rows: the rows that are open.
      lanes: of a vector at most.
    """

    def __init__(self, stage: Stage, rows: LooseRows, lanes: int) -> None:
        size = (-(-rows.length // lanes) + 1) * lanes
        super().__init__(stage, Cut((), rows.axis, size, ()), "0")
        self.rows = rows
        self.lanes = lanes

    def open(self) -> None:
        stage, lanes = self.stage, self.lanes
        begin = self.rows.begin
        whole = stage.writer.pure(f"udiv i64 {begin}, {lanes}", begin)
        self.start = stage.new_range(size_of(self.rows.axis))
        self._opened = stage.open(self.start, stage.scaled(whole, lanes))

    def spans(self, steps: Mapping[Node, Steps]) -> dict[Node, Span]:
        pure, axis = self.stage.writer.pure, self.rows.axis
        width = steps[axis].width if axis in steps else 1
        begin, end = self.rows.begin, self.rows.end
        up = self.stage.scaled(end, 1, width - 1)
        first = pure(f"udiv i64 {begin}, {width}", begin)
        return {axis: Span(first, pure(f"udiv i64 {up}, {width}", up))}

    def divides(self, width: int) -> bool:
        return width <= self.lanes
