"""Nests of loops, as a tiling says: over axes, in them reduces and stores.

An axis runs tile after tile; inside one its values are open, as vectors or numbers. A
reduce hands on its accumulators from one step to the next (`accumulators.py`). Of some
ranges only a part runs, a `TileSpan`: that of the block which is open around.

Reduces of columns run row by row where the tiling says so:

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

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from ftrace.backends.llvm.emit.accumulators import Lines, Sum
from ftrace.backends.llvm.emit.emit_memory import Values
from ftrace.backends.llvm.emit.emit_values import Opened
from ftrace.backends.llvm.ir import writer as llvm
from ftrace.backends.llvm.schedule import loop_tiling as tiling
from ftrace.ground.fast_dataclasses import NamedTuple, dataclass
from ftrace.lower.kernel.ir import Store, axis_of
from ftrace.lower.kernel.loop_tree import Loop, ReduceLoop, Statement
from ftrace.trace.graph import Node
from ftrace.trace.symbolic import is_dynamic, lower_bound, same_size

#: Blocks of rows that are added up before their sum is put aside, at least.
_BLOCKS = 16


class SumRow(NamedTuple):
    """Where the sums of a reduce are: `origin` would be that of column 0."""

    node: Node
    origin: str


@dataclass(frozen=True)
class TileSpan:
    """A part of a range: its tiles `first` … `last` - 1, in the order of `cut`.

    Attributes:
      most: it is so many tiles at most; 0 is unknown.
    """

    first: str
    last: str
    most: int = 0


class Nest:
    """Emits loops.

    Args:
      values: emits the expressions in them.
      tiling: how each range runs, and what else is done.
      spans: ranges of which a part runs.
    """

    def __init__(
        self,
        values: Values,
        tiling: tiling.Tiling,
        spans: Mapping[Node, TileSpan] = MappingProxyType({}),
    ) -> None:
        self.values = values
        self.writer = values.writer
        self.tiling = tiling
        self.spans = spans
        self._count = 0

    def block(self, statements: Sequence[Statement]) -> None:
        """Emits the statements in order; a value is made when it is asked for."""
        for statement in statements:
            if isinstance(statement, ReduceLoop):
                self.reduce(statement)
            elif isinstance(statement, Loop) and self.values.is_open(statement.axis):
                self.block(statement.body)
            elif isinstance(statement, Loop):
                self.over(statement, self.spans.get(statement.axis))
        stores = [s for s in statements if isinstance(s, Store)]
        for group in self.values.group(stores):
            self._store(group)

    # Stores.

    def _store(self, group: Sequence[Store]) -> None:
        """Stores that together fill what lies side by side: mostly one."""
        values, tiling, first = self.values, self.tiling, group[0]
        self._prefetch_steps()
        ats = values.assignments(e for store in group for e in store.expressions)
        if tiling.squares:
            (row,) = (r for r, steps in tiling.steps.items() if not steps.lanes)
            values.prefetch_square(tiling.next_square, row, ats)
            values.store_square(first, ats, row)
            return
        for at in ats:
            values.store_group(group, at)

    def _prefetch(self, loop: Loop | ReduceLoop, along: Node) -> None:
        self.values.prefetch_pass(self.tiling.prefetch.get(loop, ()), along)

    def _prefetch_steps(self) -> None:
        along, every = self.tiling.prefetch_along or (None, ())
        if along is not None and self.values.is_open(along):
            self.values.prefetch_steps(every)

    # Ranges.

    @contextmanager
    def opened(
        self, node: Node, base: str, steps: tiling.RangeTiling, tiles: tiling.Tiles
    ) -> Generator[Opened, None, None]:
        """Inside, a tile of a range is open."""
        masks: list[str | None] = [None] * tiles.unroll
        if tiles.tail:
            masks[-1] = llvm.first_lanes(steps.lanes, tiles.tail)
        if tiles.masked_end:
            lanes, copies = steps.lanes, range(tiles.unroll)
            masks = [
                self._lanes_before(tiles.masked_end, base, lanes, n) for n in copies
            ]
        opened = Opened(
            node, base, self.writer.level, tiles.unroll, max(steps.lanes, 1),
            lanes=steps.lanes, masks=masks, existing=tiles.tail,
            interleave=steps.interleave,
        )  # fmt: skip
        with self.values.within(opened):
            yield opened

    def _lanes_before(self, end: Any, base: str, lanes: int, copy: int) -> str:
        """The lanes of a copy of the vector at `base` that are before `end`."""
        writer, t = self.writer, llvm.index_type(lanes, True)
        last = self.values.number(end)
        rest = writer.pure(f"sub i64 {last}, {base}", last, base)
        rest = llvm.lowest(writer, rest, (copy + 1) * lanes)
        count = self.values.index_lanes(rest, 0, t)
        places = range(copy * lanes, (copy + 1) * lanes)
        return self.values.ops.binary("icmp ugt", t, count, t.lanewise(places))

    def over(self, loop: Loop, span: TileSpan | None) -> None:
        """The tiles of an axis that are in a span; None is all of them."""

        def body() -> None:
            self.block(loop.body)
            self._prefetch(loop, loop.axis)

        if loop.axis is self.tiling.columns:
            self.by_rows(loop, span)
        else:
            self.each_tile(loop.axis, span, body)

    def each_tile(
        self, axis: Node, span: TileSpan | None, body: Callable[[], None]
    ) -> None:
        """Runs `body` for the tiles of an axis: each part of it has a loop."""
        steps = self.tiling.of(axis)
        parts = tiling.cut(axis_of(axis).size, steps)
        if span is not None:
            self._span(axis, steps, parts, span, body)
            return
        for tiles in parts:
            stop = tiles.start + tiles.count * tiles.width
            start, stop = map(self.values.number, (tiles.start, stop))
            self.tiles(axis, steps, tiles, start, stop, may_be_empty(tiles), body)

    def _span(
        self, axis: Node, steps: tiling.RangeTiling, parts: Sequence[tiling.Tiles],
        span: TileSpan, body: Callable[[], None],
    ) -> None:  # fmt: skip
        writer = self.writer
        if span.most == 1 and len(parts) == 1:
            one = replace(parts[0], count=1)
            start = self._scale(span.first, one.width, one.start)
            self.tiles(axis, steps, one, start, start, False, body)
            return
        first: Any = 0
        for part in parts:
            begin, end = span.first, span.last
            if part is not parts[0]:
                begin = llvm.highest(writer, begin, self.values.number(first))
            if part is not parts[-1]:
                end = llvm.lowest(writer, end, self.values.number(first + part.count))
            shift = part.start - first * part.width
            start, stop = (self._scale(t, part.width, shift) for t in (begin, end))
            self.tiles(axis, steps, part, start, stop, True, body)
            first += part.count

    def _scale(self, tile: str, width: int, shift: int) -> str:
        return self.values.access.sum_terms([(width, tile)], shift)

    def tiles(
        self, axis: Node, steps: tiling.RangeTiling, tiles: tiling.Tiles, start: str,
        stop: str, guarded: bool, body: Callable[[], None],
    ) -> None:  # fmt: skip
        """The tiles of an axis that begin in start … stop - 1."""
        writer = self.writer
        if same_size(tiles.count, 1) and not guarded:
            writer.open_scope()
            with self.opened(axis, start, steps, tiles):
                body()
            writer.close_scope()
            return
        if tiles.inner:
            stop = llvm.lowest(writer, stop, self.values.number(tiles.inner_end))
        loop = writer.loop(start, stop, tiles.step, guarded)
        with loop as index, self.opened(axis, index, steps, tiles):
            body()

    # Reduces.

    def reduce(self, loop: ReduceLoop) -> None:
        values = self.values
        ranges = sorted(loop.ranges, key=lambda r: self.tiling.of(r).lanes > 0)
        last = ranges[-1]
        steps = self.tiling.of(last)
        sums = self.sums(loop, steps)
        lines = Lines(values, sums, steps)
        results = lines.identities()
        if all(axis_of(r).size for r in ranges):
            results = self._over(loop, ranges, lines, results)
        for number, total in enumerate(sums):
            parts = [results[number + len(sums) * c] for c in range(lines.unroll)]
            text = total.combine_pairwise(self.values, parts)
            if steps.lanes:
                text = values.ops.combine_lanes(str(total.node.arg), total.type, text)
            values.put(total.node, total.at, text)

    def sums(self, loop: ReduceLoop, steps: tiling.RangeTiling) -> list[Sum]:
        """The accumulators of a reduce, whose last range runs in these steps."""
        values = self.values
        found: list[Sum] = []
        for node in loop.reduces:
            lanes = values.lanes if values.varies(node) else 0
            kind = llvm.Type.of(node.dtype, steps.lanes or lanes)
            found += [Sum(node, at, kind) for at in values.assignments([node])]
        return found

    def _over(
        self, loop: ReduceLoop, ranges: list[Node], lines: Lines, state: list[str]
    ) -> list[str]:
        """Runs over the first of the ranges, and inside over the others."""
        node, *others = ranges
        steps = tiling.RangeTiling() if others else self.tiling.of(node)
        inner = 1
        for other in others:
            inner *= -(-tiling.size_of(other) // self.tiling.of(other).width)
        for tiles in tiling.cut(axis_of(node).size, steps):

            def body(
                base: str, carried: list[str], tiles: tiling.Tiles = tiles
            ) -> list[str]:
                with self.opened(node, base, steps, tiles) as opened:
                    if not others:
                        return self.accumulate(loop, opened, lines, carried)
                    apart = lines.rounds and not self.tiling.flat_sums
                    if not apart or inner < tiling.BLOCK // 4:
                        return self._over(loop, others, lines, carried)
                    fresh = self._over(loop, others, lines, lines.identities())
                    return lines.merge(carried, fresh)

            span = self.spans.get(node)
            if span is not None:
                one = tiling.Tiles(0, 0, 1, 1)
                return self._plain_loop(lines, one, span.first, span.last, state, body)
            stop = tiles.start + tiles.count * tiles.width
            stop = tiles.inner_end if tiles.inner else stop
            state = self._loop(lines, tiles, tiles.start, stop, state, body)
        return state

    def _loop(
        self, lines: Lines, tiles: tiling.Tiles, start: Any, stop: Any,
        state: list[str], body: Callable[[str, list[str]], list[str]],
    ) -> list[str]:  # fmt: skip
        writer = self.writer
        first, last = self.values.number(start), self.values.number(stop)
        if same_size(tiles.count, 1):
            writer.open_scope()
            state = body(first, state)
            writer.close_scope(state)
            return state
        block, empty = lines.block(tiles.count), may_be_empty(tiles)
        if not block:
            return self._plain_loop(lines, tiles, first, last, state, body, empty)
        width = block * tiles.width
        with writer.fold(first, last, width, lines.type_carry(state), empty) as loop:
            end = writer.pure(f"add i64 {loop.index}, {width}", loop.index)
            end = llvm.lowest(writer, end, last)
            fresh = lines.identities()
            fresh = self._plain_loop(lines, tiles, loop.index, end, fresh, body)
            loop.following = lines.merge(loop.values, fresh)
        return loop.values

    def _plain_loop(
        self, lines: Lines, tiles: tiling.Tiles, start: str, stop: str,
        state: list[str], body: Callable[[str, list[str]], list[str]],
        guarded: bool = False,
    ) -> list[str]:  # fmt: skip
        firsts = lines.type_carry(state)
        with self.writer.fold(start, stop, tiles.step, firsts, guarded) as loop:
            loop.following = body(loop.index, loop.values)
        return loop.values

    def accumulate(
        self, loop: ReduceLoop, opened: Opened, lines: Lines, state: list[str]
    ) -> list[str]:
        """One iteration: combines each value with its accumulator."""
        self.block(loop.body)
        self._prefetch(loop, loop.ranges[-1])
        values, state = self.values, list(state)
        for number, total in enumerate(lines.sums):
            ats = [total.at]
            if opened.slot >= 0:
                ats = [(*total.at, copy) for copy in range(opened.unroll)]
            if opened.lanes:
                for copy, at in enumerate(ats):
                    place = number + len(lines.sums) * copy
                    mask = opened.masks[copy]
                    state[place] = total.add(values, at, state[place], mask)
            elif total.takes_products(values):
                for at in ats:
                    state[number] = total.add(values, at, state[number], None)
            else:
                lanes = total.type.lanes
                parts = [values.plain(total.node.src[0], lanes, at) for at in ats]
                part = total.combine_pairwise(self.values, parts)
                state[number] = total.combine(values, state[number], part)
        self._prefetch_steps()
        return state

    # Columns, row by row.

    def by_rows(self, loop: Loop, span: TileSpan | None) -> None:
        sums: list[SumRow] = []
        for statement in loop.body:
            if isinstance(statement, ReduceLoop):
                sums += self._sweep(loop, statement, span, sums)
        rest = [s for s in loop.body if not isinstance(s, ReduceLoop)]

        def finish() -> None:
            self._recall(sums)
            self.block(rest)

        self.each_tile(loop.axis, span, finish)

    def _sweep(
        self, loop: Loop, reduce: ReduceLoop, span: TileSpan | None, known: list[SumRow]
    ) -> list[SumRow]:
        """All rows of one reduce; returns where its sums are."""
        writer = self.writer
        *outer, last = reduce.ranges
        blocks = tiling.cut(axis_of(last).size, self.tiling.of(last))
        group = tiling.block_size(_BLOCKS, blocks[0].count)
        sums = [self._sums(node, loop, span, "") for node in reduce.reduces]
        parts: list[SumRow] = []
        if blocks[0].count > 2 * group and any(self._sum(s).rounds for s in sums):
            parts = [self._sums(node, loop, span, ".part") for node in reduce.reduces]

        def add_rows(
            tiles: tiling.Tiles, start: str, stop: str, into: list[SumRow]
        ) -> None:
            """Adds rows start … stop - 1 to the sums, block by block."""

            def body() -> None:
                self._recall(known)
                totals = [self._sum(place) for place in into]
                lines = Lines(self.values, totals, tiling.RangeTiling())
                state = [self._load(place) for place in into]
                state = self.accumulate(reduce, opened, lines, state)
                for place, value in zip(into, state, strict=True):
                    self._put(place, value)

            steps = tiling.RangeTiling(0, tiles.unroll)
            with (
                writer.loop(start, stop, tiles.width) as index,
                self.opened(last, index, steps, tiles) as opened,
            ):
                self.each_tile(loop.axis, span, body)

        self.each_tile(loop.axis, span, lambda: self._clear(sums))
        with ExitStack() as around:
            for r in outer:
                whole = writer.loop(llvm.literal(0), llvm.literal(axis_of(r).size))
                one = Opened(r, around.enter_context(whole), writer.level)
                around.enter_context(self.values.within(one))
            for tiles in blocks:
                first, stop = tiles.start, tiles.start + tiles.count * tiles.width
                begin = llvm.literal(first)
                if not parts or tiles.count <= group:
                    add_rows(tiles, begin, llvm.literal(stop), sums)
                    continue
                width = group * tiles.width
                with writer.loop(begin, llvm.literal(stop), width) as index:
                    end = writer.pure(f"add i64 {index}, {width}", index)
                    end = llvm.lowest(writer, end, stop)
                    self.each_tile(loop.axis, span, lambda: self._clear(parts))
                    add_rows(tiles, index, end, parts)
                    self.each_tile(loop.axis, span, lambda: self._join(sums, parts))
        return sums

    # Sums in memory.

    def _sums(
        self, node: Node, loop: Loop, span: TileSpan | None, suffix: str
    ) -> SumRow:
        """Memory for the sums of a reduce, in the columns of a span."""
        steps = self.tiling.of(loop.axis)
        parts = tiling.cut(axis_of(loop.axis).size, steps)
        tiles = sum(part.count for part in parts)
        if span is not None:
            tiles = min(tiles, span.most or tiles)
        size = node.dtype.itemsize
        self._count += 1
        kind = f"[{tiles * steps.width * size} x i8]"
        name = self.writer.memory(kind, f"%sums{self._count}{suffix}")
        if span is None:
            return SumRow(node, name)
        origin = self.values.access.pointer(name, [(-steps.width, span.first)], 0, size)
        return SumRow(node, origin)

    def _sum(self, place: SumRow) -> Sum:
        return Sum(place.node, (), llvm.Type.of(place.node.dtype, self.values.lanes))

    def _pointer(self, place: SumRow) -> str:
        vector = self.values.vector
        assert vector is not None
        size = place.node.dtype.itemsize
        if isinstance(vector.base, llvm.Constant):
            return self.values.access.pointer(place.origin, [], vector.base.value, size)
        return self.values.access.pointer(place.origin, [(1, vector.base)], 0, size)

    def _load(self, place: SumRow) -> str:
        total = self._sum(place)
        return self.values.access.load(total.type, self._pointer(place), True)

    def _put(self, place: SumRow, value: str) -> None:
        self.values.access.store(self._sum(place).type, value, self._pointer(place))

    def _clear(self, places: list[SumRow]) -> None:
        for place in places:
            self._put(place, self._sum(place).identity)

    def _join(self, sums: list[SumRow], parts: list[SumRow]) -> None:
        for total, part in zip(sums, parts, strict=True):
            a, b = self._load(total), self._load(part)
            self._put(total, self._sum(total).combine(self.values, a, b))

    def _recall(self, places: list[SumRow]) -> None:
        """Makes finished sums the values of their reduces."""
        for place in places:
            self.values.put(place.node, (), self._load(place))


def may_be_empty(tiles: tiling.Tiles) -> bool:
    """Is it known at calls only whether there is a tile?"""
    return is_dynamic(tiles.count) and lower_bound(tiles.count) < 1
