"""Reduces of columns, row by row: memory is read in the order in which it lies.

    sums[j] = the sum over i of f(x[i, j])

With the sums of a few columns in registers each row would be read a few elements at a
time, and every row would be another page. Here a unit takes a stretch of columns with
its sums in the first cache, and adds a block of rows to them in one sweep:

    for rows i … i + 7:
      for vectors of columns j:
        part[j] += x[i, j] + … + x[i + 7, j]

Parts are added to the sums after a number of blocks that grows with the square root of
the length, as errors do then. Neither depends on how columns are shared by threads.
"""

from __future__ import annotations

from ftrace import dtypes
from ftrace.devices.llvm.emit.accumulators import Lines, Sum
from ftrace.devices.llvm.emit.loop_nest import Nest, Span
from ftrace.devices.llvm.emit.open_ranges import Opened
from ftrace.devices.llvm.ir.types import Type
from ftrace.devices.llvm.ir.writer import lowest
from ftrace.devices.llvm.schedule.tiling_ir import Steps, Tiles, cut
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.lower.kernel.ir import axis_of
from ftrace.lower.kernel.loop_tree import Loop, ReduceLoop
from ftrace.trace.graph import Node

#: Blocks of rows that are added up before their sum is put aside, at least.
_BLOCKS = 16


class Place(NamedTuple):
    """Where the sums of a reduce are: `origin` would be that of column 0."""

    node: Node
    origin: str


class _Sweep(NamedTuple):
    """A reduce of columns: the part of its rows that are cut alike."""

    loop: Loop
    reduce: ReduceLoop
    span: Span | None
    tiles: Tiles
    known: list[Place]


class Columns(Nest):
    """Emits loops; those of `tiling.columns` as the module says."""

    _count = 0

    def over(self, loop: Loop, span: Span | None) -> None:
        if loop is not self.tiling.columns:
            super().over(loop, span)
            return
        sums: list[Place] = []
        for statement in loop.body:
            if isinstance(statement, ReduceLoop):
                sums += self._sweep(loop, statement, span, sums)
        rest = [s for s in loop.body if not isinstance(s, ReduceLoop)]

        def finish() -> None:
            self._recall(sums)
            self.block(rest)

        self.each_tile(loop.axis, span, finish)

    def _sweep(
        self, loop: Loop, reduce: ReduceLoop, span: Span | None, known: list[Place]
    ) -> list[Place]:
        """All rows of one reduce; returns where its sums are."""
        writer = self.writer
        outer, last = reduce.ranges[:-1], reduce.ranges[-1]
        blocks = cut(axis_of(last).size, Steps(0, self.tiling.rows, even=False))
        group = _group(blocks[0].count)
        grouped = blocks[0].count > 2 * group and _rounds(reduce)
        sums = [self._place(node, loop, span, "") for node in reduce.reduces]
        parts = [self._place(n, loop, span, ".part") for n in reduce.reduces if grouped]
        self.each_tile(loop.axis, span, lambda: self._clear(sums))
        loops = [writer.open_loop("0", str(axis_of(r).size), 1) for r in outer]
        ranges = [
            Opened(r, t.index, t.level) for r, t in zip(outer, loops, strict=True)
        ]
        for opened in ranges:
            self.values.open(opened)
        for tiles in blocks:
            first, stop = tiles.start, tiles.start + tiles.count * tiles.width
            sweep = _Sweep(loop, reduce, span, tiles, known)
            if parts and tiles.count > group:
                width = group * tiles.width
                text = writer.open_loop(str(first), str(stop), width)
                end = writer.pure(f"add i64 {text.index}, {width}", text.index)
                end = lowest(writer, end, stop)
                self.each_tile(loop.axis, span, lambda: self._clear(parts))
                self._rows(sweep, text.index, end, parts)
                self.each_tile(loop.axis, span, lambda: self._join(sums, parts))
                writer.close_loop(text)
            else:
                self._rows(sweep, str(first), str(stop), sums)
        for opened, text in zip(reversed(ranges), reversed(loops), strict=True):
            self.values.close(opened)
            writer.close_loop(text)
        return sums

    def _rows(self, sweep: _Sweep, start: str, stop: str, into: list[Place]) -> None:
        """Adds rows start … stop - 1 to the sums, block by block."""
        text = self.writer.open_loop(start, stop, sweep.tiles.width)
        last = sweep.reduce.ranges[-1]
        steps = Steps(0, sweep.tiles.copies)
        opened = self.open(last, text.index, steps, sweep.tiles)

        def body() -> None:
            self._recall(sweep.known)
            lines = Lines([self._sum(place) for place in into], Steps())
            state = [self._load(place) for place in into]
            state = self.accumulate(sweep.reduce, opened, lines, state)
            for place, value in zip(into, state, strict=True):
                self._store(place, value)

        self.each_tile(sweep.loop.axis, sweep.span, body)
        self.values.close(opened)
        self.writer.close_loop(text)

    # Sums in memory.

    def _place(self, node: Node, loop: Loop, span: Span | None, suffix: str) -> Place:
        """Memory for the sums of a reduce, in the columns of a span."""
        steps = self.tiling.of(loop.axis)
        parts = cut(axis_of(loop.axis).size, steps)
        tiles = sum(part.count for part in parts)
        if span is not None:
            tiles = min(tiles, self.tiling.chunk)
        size = node.dtype.itemsize
        self._count += 1
        kind = f"[{tiles * steps.width * size} x i8]"
        name = self.writer.memory(kind, f"%sums{self._count}{suffix}")
        if span is None:
            return Place(node, name)
        origin = self.values.access.pointer(name, [(-steps.width, span.first)], 0, size)
        return Place(node, origin)

    def _sum(self, place: Place) -> Sum:
        return Sum(place.node, (), Type.of(place.node.dtype, self.values.lanes))

    def _pointer(self, place: Place) -> str:
        vector = self.values.vector
        assert vector is not None
        size = place.node.dtype.itemsize
        if vector.base.startswith("%"):
            return self.values.access.pointer(place.origin, [(1, vector.base)], 0, size)
        return self.values.access.pointer(place.origin, [], int(vector.base), size)

    def _load(self, place: Place) -> str:
        total = self._sum(place)
        return self.values.access.load(total.type, self._pointer(place), True)

    def _store(self, place: Place, value: str) -> None:
        self.values.access.store(self._sum(place).type, value, self._pointer(place))

    def _clear(self, places: list[Place]) -> None:
        for place in places:
            self._store(place, self._sum(place).identity)

    def _join(self, sums: list[Place], parts: list[Place]) -> None:
        for total, part in zip(sums, parts, strict=True):
            a, b = self._load(total), self._load(part)
            self._store(total, self.combine(self._sum(total), a, b))

    def _recall(self, places: list[Place]) -> None:
        """Makes finished sums the values of their reduces."""
        for place in places:
            self.values.put(place.node, (), self._load(place))


def _group(count: int) -> int:
    """How many of so many blocks are added up before their sum is put aside."""
    group = _BLOCKS
    while group * group < count:
        group *= 2
    return group


def _rounds(reduce: ReduceLoop) -> bool:
    return any(n.arg == "add" and dtypes.kind(n.dtype) == "f" for n in reduce.reduces)
