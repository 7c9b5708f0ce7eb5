"""The loops of a kernel over its axes, as the schedule says, and its stores.

What is read later is asked for where the schedule says so. The processor does the same
by itself where one loop runs on and on. It does not see in time where the next of many
short pieces begins: rows that are far apart, the pixels of another image, the rows of a
tile of which it has seen too few lines.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Any

from ftrace.devices.llvm.emit.emit_memory import Values
from ftrace.devices.llvm.emit.emit_values import At, Opened
from ftrace.devices.llvm.ir.types import Type, first_lanes, index_type
from ftrace.devices.llvm.ir.writer import digits, highest, lowest
from ftrace.devices.llvm.schedule.index_facts import index_of
from ftrace.devices.llvm.schedule.tiling_ir import (
    Fetch,
    Spread,
    Steps,
    Tiles,
    Tiling,
    cut,
    equal_tiles,
)
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.kernel.ir import Store, axis_of, load_p
from ftrace.lower.kernel.loop_tree import Loop, ReduceLoop, Statement
from ftrace.trace.graph import Node, toposort
from ftrace.trace.symbolic.bounds import lower_bound, upper_bound
from ftrace.trace.symbolic.dim import is_dynamic, same_size


@dataclass(frozen=True)
class Span:
    """A part of a range: its tiles `first` … `last` - 1, in the order of `cut`."""

    first: str
    last: str


class Loops(ABC):
    """Emits loops over axes.

    Args:
      values: emits the expressions in them.
      tiling: how each range runs, and what else is done.
      spans: ranges of which a part runs.
    """

    def __init__(
        self,
        values: Values,
        tiling: Tiling,
        spans: Mapping[Node, Span] = MappingProxyType({}),
    ) -> None:
        self.values = values
        self.writer = values.writer
        self.tiling = tiling
        self.spans = spans

    @abstractmethod
    def reduce(self, loop: ReduceLoop) -> None:
        """Emits the loops of a reduce; afterwards its values are known."""

    @abstractmethod
    def by_rows(self, loop: Loop, span: Span | None) -> None:
        """Emits a loop over columns whose reduces run row by row."""

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
        for group in self.values.grouped(stores):
            self._store(group)

    # Stores.

    def _store(self, group: Sequence[Store]) -> None:
        """Stores that together fill what lies side by side: mostly one."""
        self._ask()
        ats = self.values.assignments(e for store in group for e in store.expressions)
        if self.tiling.squares:
            self._store_squares(group[0], ats)
            return
        for at in ats:
            if self.tiling.spread is None:
                self.values.store_group(group, at)
            else:
                self._store_spread(group[0], self.tiling.spread, at)

    def _store_squares(self, store: Store, ats: Sequence[At]) -> None:
        """Squares of registers, with lanes and copies exchanged."""
        values, vector = self.values, self.values.vector
        assert vector is not None
        lanes = vector.lanes
        t = Type.of(store.value.dtype, lanes)
        self._ask_for_squares(store, ats)
        rows = [values.plain(store.value, lanes, at) for at in ats]
        columns = values.ops.transpose(t, rows + [t.zero] * (lanes - len(rows)))
        stride = values.facts.stride(store.index, vector.node, lanes)
        assert stride is not None
        base, size = values.buffer(store.buffer), store.value.dtype.itemsize
        form = values.facts.affine[store.index]
        mask: str | None = None
        if len(rows) < lanes and store.buffer not in values.padded:
            mask = first_lanes(lanes, len(rows))
        past = store.buffer in values.streamed and len(rows) == lanes
        past = past and all(
            values.rows_are_aligned(form, t, r)
            for r, steps in self.tiling.steps.items()
            if not steps.lanes
        )
        for lane in range(vector.existing or lanes):
            p = values.address(base, form.shifted(stride * lane), ats[0], size)
            values.access.store(t, columns[lane], p, mask, past)

    def _ask_for_squares(self, store: Store, ats: Sequence[At]) -> None:
        """Asks for the rows of the next square, whose places no processor guesses.

        They go to the second cache: those of one square often share a set of the first.
        """
        values, vector = self.values, self.values.vector
        assert vector is not None
        for node in toposort([store.value]):
            if node.op is not load_p or len(ats) < 2:
                continue
            buffer, index, *valid = node.src
            number, size = buffer.arg, node.dtype.itemsize
            form = values.facts.affine[index]
            assert isinstance(number, int)
            nbytes = upper_bound(values.sizes[number]) * size
            small = nbytes <= values.ops.target.l2
            if small or valid or form.terms.get(vector.node) != 1:
                continue
            (_, first), (_, second) = (values.terms(form, at) for at in ats[:2])
            step = (second - first) * len(ats)
            if abs(step) * size >= 64 * len(ats):
                for at in ats:
                    self._prefetch(Fetch.of(node, form.shifted(step)), at)

    def _store_spread(self, store: Store, how: Spread, at: At) -> None:
        """Each channel of a vector, repeated for the places of its group."""
        values, vector = self.values, self.values.vector
        assert vector is not None
        t = Type.of(store.value.dtype, vector.lanes)
        base, room = (
            values.buffer(store.buffer),
            values.ops.target.vector_bytes // t.bytes,
        )
        lanes = [g for g in range(how.groups) for _ in range(how.places)]
        value = values.plain(store.value, t.lanes, at)
        form = values.facts.affine[store.index]
        for channel in range(how.channels):
            for first in range(0, len(lanes), room):
                found = [
                    g * how.channels + channel for g in lanes[first : first + room]
                ]
                text = values.ops.shuffle(t, value, "poison", found)
                place = form.shifted(channel * how.pitch + first)
                p = values.address(base, place, at, t.bytes)
                values.access.store(t.with_lanes(len(found)), text, p)

    # What is asked for before it is needed.

    def fetch(self, loop: Loop | ReduceLoop, range_: Node) -> None:
        """Asks for the memory that `schedule/prefetch.py` has chosen for this loop."""
        values, vector = self.values, self.values.vector
        for fetch in self.tiling.ahead.get(loop, ()):
            if vector is None or (fetch.write and fetch.buffer in values.streamed):
                continue
            width = vector.lanes * fetch.size
            for at in values.assignments([range_]):
                copy = at[vector.slot] if vector.slot >= 0 else 0
                if not copy * width % 64:  # else its line has been asked for
                    self._prefetch(fetch, at)

    def _ask(self) -> None:
        """Asks for what is read some steps later."""
        values, vector, asked = self.values, self.values.vector, self.tiling.prefetch
        if asked is None or vector is None or not values.is_open(asked.along):
            return
        for node in asked.loads:
            form, size = values.facts.affine[index_of(node)], node.dtype.itemsize
            later = asked.steps * form.terms.get(asked.along, 0)
            step = abs(form.terms.get(vector.node, 0))
            if not later:
                continue
            for at in values.assignments([node]):
                for part in range(0, vector.lanes * step * size, 64):
                    line = form.shifted(later + part // size)
                    self._prefetch(Fetch.of(node, line), at)

    def _prefetch(self, fetch: Fetch, at: At) -> None:
        values = self.values
        base = values.buffer(fetch.buffer)
        p = values.address(base, fetch.form, at, fetch.size)
        values.access.prefetch(p, fetch.write, fetch.near)

    # Ranges.

    def open(self, node: Node, base: str, steps: Steps, tiles: Tiles) -> Opened:
        masks: list[str | None] = [None] * tiles.copies
        if tiles.tail:
            masks[-1] = first_lanes(steps.lanes, tiles.tail)
        if tiles.end:
            lanes, copies = steps.lanes, range(tiles.copies)
            masks = [self._lanes_before(tiles.end, base, lanes, n) for n in copies]
        opened = Opened(
            node, base, self.writer.level, tiles.copies, max(steps.lanes, 1),
            lanes=steps.lanes, masks=masks, existing=tiles.tail,
            abreast=steps.abreast,
        )  # fmt: skip
        self.values.open(opened)
        return opened

    def _lanes_before(self, end: Any, base: str, lanes: int, copy: int) -> str:
        """The lanes of a copy of the vector at `base` that are before `end`."""
        writer, t = self.writer, index_type(lanes, True)
        last = self.values.number(end)
        rest = writer.pure(f"sub i64 {last}, {base}", last, base)
        rest = lowest(writer, rest, (copy + 1) * lanes)
        count = self.values.index_lanes(rest, 0, t)
        places = range(copy * lanes, (copy + 1) * lanes)
        return self.values.ops.binary("icmp ugt", t, count, t.lanewise(places))

    def over(self, loop: Loop, span: Span | None) -> None:
        """The tiles of an axis that are in a span; None is all of them."""

        def body() -> None:
            self.block(loop.body)
            self.fetch(loop, loop.axis)

        if loop is self.tiling.columns:
            self.by_rows(loop, span)
        else:
            self.each_tile(loop.axis, span, body)

    def each_tile(
        self, axis: Node, span: Span | None, body: Callable[[], None]
    ) -> None:
        """Runs `body` for the tiles of an axis: each part of it has a loop."""
        steps = self.tiling.of(axis)
        parts = cut(axis_of(axis).size, steps)
        if span is not None:
            self._span(axis, steps, parts, span, body)
            return
        for tiles in parts:
            stop = tiles.start + tiles.count * tiles.width
            start, stop = map(self.values.number, (tiles.start, stop))
            self.tiles(axis, steps, tiles, start, stop, may_be_empty(tiles), body)

    def _span(
        self,
        axis: Node,
        steps: Steps,
        parts: Sequence[Tiles],
        span: Span,
        body: Callable[[], None],
    ) -> None:
        writer = self.writer
        first: Any = 0
        for part in parts:
            begin, end = span.first, span.last
            if part is not parts[0]:
                begin = highest(writer, begin, self.values.number(first))
            if part is not parts[-1]:
                end = lowest(writer, end, self.values.number(first + part.count))
            shift = part.start - first * part.width
            start, stop = (self._scale(t, part.width, shift) for t in (begin, end))
            self.tiles(axis, steps, part, start, stop, True, body)
            first += part.count

    def _scale(self, tile: str, width: int, shift: int) -> str:
        return self.values.access.sum_terms([(width, tile)], shift)

    def tiles(
        self,
        axis: Node,
        steps: Steps,
        tiles: Tiles,
        start: str,
        stop: str,
        guarded: bool,
        body: Callable[[], None],
    ) -> None:
        """The tiles of an axis that begin in start … stop - 1."""
        writer = self.writer
        if same_size(tiles.count, 1) and not guarded:
            writer.open_scope()
            opened = self.open(axis, start, steps, tiles)
            body()
            self.values.close(opened)
            writer.close_scope()
            return
        if tiles.inner:
            stop = lowest(writer, stop, self.values.number(tiles.stop))
        text = writer.open_loop(start, stop, tiles.step, guarded=guarded)
        opened = self.open(axis, text.index, steps, tiles)
        body()
        self.values.close(opened)
        writer.close_loop(text)

    # Parallel loops.

    def function(self, block: Sequence[Statement]) -> int:
        """The units begin … end - 1 of a kernel; returns their number."""
        if self.tiling.parallel:
            return self._parallel()
        if self.tiling.strips is not None:
            return self._strips(self.tiling.strips, block)
        self.block(block)
        return 1

    def _parallel(self) -> int:
        """Units of the parallel loops."""
        self.block(self.tiling.setup)
        loops, writer = self.tiling.parallel, self.writer
        last = loops[-1]
        steps = self.tiling.of(last.axis)
        parts = cut(axis_of(last.axis).size, steps)
        total = sum(part.count for part in parts)
        chunks = -(-total // self.tiling.chunk)
        unit = writer.open_loop("%begin", "%end", 1, guarded=True)
        outer = loops[:-1]
        tiles = [equal_tiles(loop.axis, self.tiling.of(loop.axis)) for loop in outer]
        sizes = [axis_of(loop.axis).size for loop in outer]
        sizes = [n if t is None else t.count for t, n in zip(tiles, sizes, strict=True)]
        sizes.append(chunks)
        texts = [self.values.number(n) if is_dynamic(n) else n for n in sizes]
        *places, chunk = digits(writer, unit.index, texts)
        opened: list[Opened] = []
        for loop, place, part in zip(outer, places, tiles, strict=True):
            if part is not None and part.copies > 1:
                base = self._scale(place, part.width, 0)
                opened.append(
                    self.open(loop.axis, base, self.tiling.of(loop.axis), part)
                )
            else:
                opened.append(Opened(loop.axis, place, writer.level))
                self.values.open(opened[-1])
        self.over(last, None if same_size(chunks, 1) else self._chunk(chunk, total))
        for o in reversed(opened):
            self.values.close(o)
        writer.close_loop(unit)
        return prod(sizes)

    def _chunk(self, chunk: str, total: Any) -> Span:
        """The tiles of a chunk of an axis."""
        size = self.tiling.chunk
        end = self._scale(chunk, size, size)
        end = lowest(self.writer, end, self.values.number(total))
        return Span(self._scale(chunk, size, 0), end)

    def _strips(self, loop: Loop, block: Sequence[Statement]) -> int:
        """Units of all of a block, over a strip of one loop in it."""
        parts = cut(axis_of(loop.axis).size, self.tiling.of(loop.axis))
        total = sum(part.count for part in parts)
        unit = self.writer.open_loop("%begin", "%end", 1, guarded=True)
        self.spans = {loop.axis: self._chunk(unit.index, total)}
        self.block(block)
        self.writer.close_loop(unit)
        return -(-total // self.tiling.chunk)


def may_be_empty(tiles: Tiles) -> bool:
    """Is it known at calls only whether there is a tile?"""
    return is_dynamic(tiles.count) and lower_bound(tiles.count) < 1
