"""What emits convolutions and their gradients: sums in tiles of registers.

    for units of blocks:
        panel sums <- 0
        for each block of what is summed over:
            panels of the operands
            for tiles of rows and vectors:      sums <- sums + left · right
        out <- f(sums)

`nchw.py`, `nhwc.py`, `depthwise_nchw.py` and `filter_gradient.py` say where operands
stand, over what tiles run, and which steps of their sums are left out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from ftrace.devices.llvm.contraction.find import Contraction
from ftrace.devices.llvm.contraction.find_windows import Window
from ftrace.devices.llvm.contraction.microkernel import (
    MicroKernel,
    Place,
    Tile,
    Walk,
    open_tiles,
)
from ftrace.devices.llvm.convolution.grouped import FlatColumns
from ftrace.devices.llvm.convolution.skip_padding import Seen, find_seen, worth_asking
from ftrace.devices.llvm.emit.blocked_ranges import Block, Cut, each_block
from ftrace.devices.llvm.emit.staged_kernel import Panel, Stage
from ftrace.devices.llvm.ir.types import Type
from ftrace.devices.llvm.schedule.register_tiles import RegisterTile
from ftrace.devices.llvm.schedule.tiling_ir import Steps, Tiles, cut
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.trace.graph import Node


class Term(NamedTuple):
    """What is added to the sums of a tile.

    Attributes:
      walks: the loops over it, outermost first.
      left, right: where the operands begin, for the tile.
      pitch: elements from one row of the left operand to the next.
      parts: walks that begin later, and where.
    """

    walks: Sequence[Walk]
    left: Place
    right: Place
    pitch: int
    parts: Sequence[tuple[Walk, str]] = ()


class SlidingEmitter(ABC):
    """Emits a convolution into a stage.

    Attributes:
      total: the sum.
      columns: how they are cut; a block is `vectors` of `lanes`.
      rows: how they are cut.
      outer: axes around the blocks.
      depth: how what is summed over is cut, beside the taps.
      sums: their panel, in rows of `pitch`.
      spread: the left operand has vectors where others have numbers; `each` is how
        many elements stand for one.
      adds: tiles are added to what is in the panel.
    """

    rows: Cut
    outer: tuple[Node, ...]
    depth: Cut
    sums: Panel
    adds: bool
    #: Blocks of columns are units inside of blocks of rows, not around them.
    rows_outside = True

    def __init__(
        self,
        plan: Contraction,
        columns: Sequence[Node],
        stage: Stage,
        groups: bool = False,
    ) -> None:
        self.stage = stage
        (self.total,) = plan.reduces
        self.item = self.total.dtype.itemsize
        self.lanes = stage.target.vector_bytes // self.item
        self.columns = self._cut_columns()
        self.vectors = -(-self.columns.length // self.lanes)
        self.pitch = self.vectors * self.lanes
        self.spread, self.each = groups, self.pitch if groups else 1
        self.flat = FlatColumns(stage, columns, self.columns)
        self.micro = MicroKernel(stage.writer, stage.values.ops, stage.values.access)

    def emit(self) -> int:
        """Emits the function; returns how many units it has."""
        stage, cuts = self.stage, [self.rows, self.columns]
        cuts = cuts if self.rows_outside else cuts[::-1]
        self._allocate()
        with stage.units([*self.outer, *[c.blocks for c in cuts]]) as unit:
            outer, inner = map(partial(Block, stage), cuts, unit.blocks)
            blocks = outer, inner
            self.row, self.block = blocks if self.rows_outside else blocks[::-1]
            with outer, inner, self.flat.at(self.block.number, self.block):
                if self.adds:
                    stage.fill(self.sums, 0)
                each_block(stage, self.depth, self._multiply)
                self._complete()
        return unit.count

    @abstractmethod
    def _cut_columns(self) -> Cut:
        """Blocks of columns."""

    @abstractmethod
    def _allocate(self) -> None:
        """Panels for the operands and for the sums."""

    @abstractmethod
    def _multiply(self, depth: Block) -> None:
        """One block of what is summed over: the panels, and the tiles over them."""

    @abstractmethod
    def _complete(self) -> None:
        """What becomes of the sums."""

    def _each_tile(
        self,
        height: int,
        tiling: RegisterTile,
        sums: Place,
        terms: Callable[[Tiles, str, Tiles, str], Iterable[Term]],
    ) -> None:
        """Tiles of so many rows.

        Args:
          sums: where those of the first tile stand.
          terms: of the tiles of columns and of rows that are open.
        """
        t, writer = Type.of(self.total.dtype, self.lanes), self.stage.writer
        for columns in cut(self.vectors, Steps(0, tiling.vectors)):
            across = open_tiles(writer, columns)
            for rows in cut(height, Steps(0, tiling.rows)):
                down = open_tiles(writer, rows)
                tile = Tile(t, rows.copies, columns.copies, 0, (), self.spread)
                state = [t.zero] * (tile.rows * tile.vectors)
                for term in terms(columns, across.index, rows, down.index):
                    state = self._add(tile, term, state)
                place = (self.pitch, down.index), (self.lanes, across.index)
                out = sums.plus(*place)
                self.micro.keep(tile, state, out, self.pitch, self.adds)
                writer.close_loop(down)
            writer.close_loop(across)

    def _add(self, tile: Tile, term: Term, state: list[str]) -> list[str]:
        left, right = term.left, term.right
        for walk, start in term.parts:
            left = left.plus((walk.left, start))
            right = right.plus((walk.right, start))
        tile = replace(tile, pitch=term.pitch)
        return self.micro.sums(tile, term.walks, left, right, state)

    def _find_padding(
        self, node: Node, windows: Mapping[Window, int], together: int
    ) -> dict[Window, Seen]:
        """Windows with taps that see padding alone, where leaving them out pays.

        Args:
          windows: and how many columns of each a tile has.
          together: columns, along all axes, for which the other operand is looked
            through.
        """
        found: dict[Window, Seen] = {}
        if self.stage.target.decides("skip_padding"):
            for window, columns in windows.items():
                seen = find_seen(node, window, self.stage.facts)
                if seen is not None and worth_asking(seen, columns, together):
                    found[window] = seen
        return found
