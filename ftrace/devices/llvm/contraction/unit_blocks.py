"""The operands of a unit of a product: where they stand in panels.

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

from ftrace.devices.llvm.contraction.schedule import LooseRows, Schedule, tiles_of
from ftrace.devices.llvm.emit.blocked_ranges import Block, Cut
from ftrace.devices.llvm.emit.loop_nest import Span
from ftrace.devices.llvm.emit.pack_panel import fill_panel
from ftrace.devices.llvm.emit.staged_kernel import Panel, Stage
from ftrace.devices.llvm.schedule.tiling_ir import Steps, size_of
from ftrace.lower.kernel.ir import INDEX
from ftrace.trace.graph import Node
from ftrace.trace.primitives.elementwise import div, mul, rem, sub
from ftrace.trace.primitives.sources import const


class RowBlock(Block):
    """Rows along one axis, for a panel of them; whole vectors along the rows fit.

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
        self.axes = (self.column,)
        self.steps = {self.column: Steps(schedule.lanes, schedule.vectors)}

    def new_panel(self, node: Node, depth: Block) -> Panel:
        """For a right operand."""
        rows, pitch = self.shape(depth.positions(node))
        return self.stage.new_panel(node.dtype, rows, pitch, padded=True)

    def shape(self, positions: int) -> tuple[int, int]:
        """The rows of a panel for so many terms of the sums, and their pitch."""
        return positions, self.schedule.pitch

    def fill(self, panel: Panel, node: Node, depth: Block) -> None:
        lanes = self.schedule.lanes
        fill_panel(panel, node, self.column, depth, self, depth, lanes)

    @abstractmethod
    def place(self, panel: Panel, node: Node, depth: Block) -> list[Node]:
        """Where an element of a right operand stands, in tiles."""

    @abstractmethod
    def sums(self) -> list[Node]:
        """Where a column stands in a panel of sums, in tiles."""

    def final_sums(self) -> list[Node]:
        """The same for what becomes of the sums."""
        return self.sums()

    def tile_spans(self) -> dict[Node, Span]:
        return self.spans(self.steps)


class PlainColumns(Columns):
    """Columns along several axes, one after the other: right[k][column]."""

    def open(self) -> None:
        super().open()
        flat = self.stage.new_range(self.schedule.pitch)
        self.axes = (flat,)
        self.steps = {flat: Steps(self.schedule.lanes, self.schedule.vectors)}

    def new_panel(self, node: Node, depth: Block) -> Panel:
        return self.stage.new_panel(node.dtype, *self.shape(depth.positions(node)))

    def place(self, panel: Panel, node: Node, depth: Block) -> list[Node]:
        return [*self.axes, *depth.terms(panel.pitch, node)]

    def sums(self) -> list[Node]:
        return [*self.axes]

    def final_sums(self) -> list[Node]:
        return self.terms(1)

    def tile_spans(self) -> dict[Node, Span]:
        if self.cut.split is None:
            return {}
        (flat,) = self.axes
        width = self.steps[flat].width
        return {flat: Span("0", tiles_of(self.stage, self, width))}


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

    def terms(
        self, weight: int, node: Node | None = None, of: Collection[Node] | None = None
    ) -> list[Node]:
        """Where a column is in a panel of strips of `depth` rows."""
        assert weight == 1
        width = const(self.schedule.width, INDEX)
        strip = sub(div(self.column, width), self.first)
        apart = const(self.depth * self.schedule.width, INDEX)
        return [mul(strip, apart), rem(self.column, width)]

    def shape(self, positions: int) -> tuple[int, int]:
        return positions * (self.cut.size // self.schedule.width), self.schedule.width

    def fill(self, panel: Panel, node: Node, depth: Block) -> None:
        self.depth = depth.positions(node)
        super().fill(panel, node, depth)

    def place(self, panel: Panel, node: Node, depth: Block) -> list[Node]:
        self.depth = depth.positions(node)
        return [*self.terms(1), *depth.terms(panel.pitch, node)]

    def sums(self) -> list[Node]:
        assert self.start is not None
        return [sub(self.column, self.start)]


class FewColumns(Columns):
    """All columns of one short axis, each in a line: right[column][k]."""

    def open(self) -> None:
        s, (column,) = self.schedule, self.axes
        assert s.along is not None
        copies = 2 if size_of(s.along) >= 4 * s.lanes else 1
        self.steps = {
            column: Steps(0, size_of(column)), s.along: Steps(s.lanes, copies)
        }  # fmt: skip

    def shape(self, positions: int) -> tuple[int, int]:
        return size_of(self.column), self.schedule.pitch

    def fill(self, panel: Panel, node: Node, depth: Block) -> None:
        along, lanes = self.schedule.along, self.schedule.lanes
        assert along is not None
        fill_panel(panel, node, along, self, depth, depth, lanes)

    def place(self, panel: Panel, node: Node, depth: Block) -> list[Node]:
        line = mul(self.column, const(panel.pitch, INDEX))
        return [line, *depth.terms(1, node)]

    def sums(self) -> list[Node]:
        return [self.column]
