"""The loops of a kernel, as `tiling` decided: axes, reduces, stores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Any

from ftrace.devices.llvm.emit.accumulators import BLOCK, Lines, Sum, products_of
from ftrace.devices.llvm.emit.emit_values import Values
from ftrace.devices.llvm.emit.open_ranges import At, Opened
from ftrace.devices.llvm.ir.types import Type, first_lanes, index_type
from ftrace.devices.llvm.ir.writer import digits, highest, lowest
from ftrace.devices.llvm.scalar.avx512 import (
    Row,
    add_byte_quads,
    add_pairs,
    add_word_pairs,
)
from ftrace.devices.llvm.schedule.prefetch import Fetch
from ftrace.devices.llvm.schedule.tiling_ir import (
    Steps,
    Tiles,
    Tiling,
    cut,
    equal_tiles,
    size_of,
)
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.kernel.ir import (
    Store,
    axis_of,
    byte_quads_p,
    pairs_p,
    word_pairs_p,
)
from ftrace.lower.kernel.loop_tree import Loop, ReduceLoop, Statement
from ftrace.trace.graph import Node, Op
from ftrace.trace.symbolic.bounds import lower_bound
from ftrace.trace.symbolic.dim import is_dynamic, same_size

#: What adds the products of a group to a sum.
_GROUPS: dict[Op, Row] = {
    pairs_p: add_pairs, word_pairs_p: add_word_pairs, byte_quads_p: add_byte_quads,
}  # fmt: skip


@dataclass(frozen=True)
class Span:
    """A part of a range: its tiles `first` … `last` - 1, in the order of `cut`."""

    first: str
    last: str


class Nest:
    """Emits loops.

    Args:
      values: emits the expressions in them.
      tiling: how each range runs.
      fused: products that a sum takes in without rounding them.
      spans: ranges of which a part runs.
      ahead: the memory that loops ask for before it is needed.
    """

    def __init__(
        self,
        values: Values,
        tiling: Tiling,
        fused: frozenset[Node],
        spans: Mapping[Node, Span] = MappingProxyType({}),
        ahead: Mapping[Loop | ReduceLoop, Sequence[Fetch]] = MappingProxyType({}),
    ) -> None:
        self.values = values
        self.writer = values.writer
        self.tiling = tiling
        self.fused = fused
        self.spans = spans
        self.ahead = ahead

    def block(self, statements: Sequence[Statement]) -> None:
        """Emits the statements in order; a value is made when it is asked for."""
        held: list[Store] = []  # they may be a part of a group
        for statement in statements:
            if isinstance(statement, Store):
                if held and not self.values.may_join(held, statement):
                    self.stores(held)
                    held = []
                held.append(statement)
                if self.values.is_whole(held):
                    self.group(held)
                    held = []
            elif isinstance(statement, Loop):
                self.axis(statement)
            elif isinstance(statement, ReduceLoop):
                self.reduce(statement)
        self.stores(held)

    def stores(self, stores: Sequence[Store]) -> None:
        for store in stores:
            self.store(store)

    def store(self, store: Store) -> None:
        for at in self.values.assignments(store.expressions):
            self.values.store(store, at)

    def group(self, stores: Sequence[Store]) -> None:
        """Stores that together fill what lies side by side."""
        expressions = [e for store in stores for e in store.expressions]
        for at in self.values.assignments(expressions):
            self.values.store_group(stores, at)

    def fetch(self, loop: Loop | ReduceLoop, range_: Node) -> None:
        """Asks for the memory that `schedule/prefetch.py` has chosen for this loop."""
        values, vector = self.values, self.values.vector
        for fetch in self.ahead.get(loop, ()):
            if vector is None or (fetch.write and fetch.buffer in values.streamed):
                continue
            width = vector.lanes * fetch.size
            for at in values.assignments([range_]):
                copy = at[vector.slot] if vector.slot >= 0 else 0
                if copy * width % 64:  # its line has been asked for
                    continue
                terms, constant = values.terms(fetch.form, at)
                base = values.buffer(fetch.buffer)
                p = values.access.pointer(base, terms, constant, fetch.size)
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

    def axis(self, loop: Loop) -> None:
        """An axis, or the part of it that was asked for."""
        if self.values.is_open(loop.axis):
            self.block(loop.body)
            return
        self.over(loop, self.spans.get(loop.axis))

    def over(self, loop: Loop, span: Span | None) -> None:
        """The tiles of an axis that are in a span; None is all of them."""

        def body() -> None:
            self.block(loop.body)
            self.fetch(loop, loop.axis)

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

    def parallel(self) -> int:
        """The units begin … end - 1 of the parallel loops; returns their number."""
        self.block(self.tiling.setup)
        loops, writer = self.tiling.parallel, self.writer
        last = loops[-1]
        steps = self.tiling.of(last.axis)
        parts = cut(axis_of(last.axis).size, steps)
        total = sum(part.count for part in parts)
        chunks = -(-total // self.tiling.chunk)
        unit = writer.open_loop("%begin", "%end", 1, guarded=True)
        outer = loops[:-1]
        tiles = [equal_tiles(loop.axis, self.tiling) for loop in outer]
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

    def strips(self, loop: Loop, block: Sequence[Statement]) -> int:
        """The units begin … end - 1: all of a block, over a strip of one loop in it."""
        parts = cut(axis_of(loop.axis).size, self.tiling.of(loop.axis))
        total = sum(part.count for part in parts)
        unit = self.writer.open_loop("%begin", "%end", 1, guarded=True)
        self.spans = {loop.axis: self._chunk(unit.index, total)}
        self.block(block)
        self.writer.close_loop(unit)
        return -(-total // self.tiling.chunk)

    # Reduces.

    def reduce(self, loop: ReduceLoop) -> None:
        """Emits the loops of a reduce; afterwards its values are known."""
        values = self.values
        ranges = sorted(loop.ranges, key=lambda r: self.tiling.of(r).lanes > 0)
        last = ranges[-1]
        steps = self.tiling.of(last)
        sums = self.sums(loop, steps)
        lines = Lines(sums, steps)
        results = lines.identities()
        if all(axis_of(r).size for r in ranges):
            results = self._over(loop, ranges, lines, results)
        for number, total in enumerate(sums):
            parts = [results[number + len(sums) * c] for c in range(lines.copies)]
            text = self._pairwise(total, parts)
            if steps.lanes:
                text = values.ops.combine_lanes(str(total.node.arg), total.type, text)
            values.put(total.node, total.at, text)

    def sums(self, loop: ReduceLoop, steps: Steps) -> list[Sum]:
        """The accumulators of a reduce, whose last range runs in these steps."""
        values = self.values
        found: list[Sum] = []
        for node in loop.reduces:
            lanes = values.lanes if values.varies(node) else 0
            kind = Type.of(node.dtype, steps.lanes or lanes)
            found += [Sum(node, at, kind) for at in values.assignments([node])]
        return found

    def _pairwise(self, total: Sum, parts: list[str]) -> str:
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2], strict=False)
            joined = [self.combine(total, a, b) for a, b in pairs]
            parts = joined + parts[len(parts) & ~1 :]
        return parts[0]

    def combine(self, total: Sum, a: str, b: str) -> str:
        return self.values.ops.apply(str(total.node.arg), total.type, a, b)

    def _over(
        self, loop: ReduceLoop, ranges: list[Node], lines: Lines, state: list[str]
    ) -> list[str]:
        """Runs over the first of the ranges, and inside over the others."""
        node, *others = ranges
        steps = Steps() if others else self.tiling.of(node)
        inner = 1
        for other in others:
            inner *= -(-size_of(other) // self.tiling.of(other).width)
        for tiles in cut(axis_of(node).size, steps):

            def body(base: str, carried: list[str], tiles: Tiles = tiles) -> list[str]:
                opened = self.open(node, base, steps, tiles)
                if others and lines.rounds and inner >= BLOCK // 4:
                    fresh = self._over(loop, others, lines, lines.identities())
                    found = lines.merge(self.combine, carried, fresh)
                else:
                    found = self._inside(loop, others, lines, carried, opened)
                self.values.close(opened)
                return found

            span = self.spans.get(node)
            if span is not None:
                one = Tiles(0, 0, 1, 1)
                return self._plain_loop(lines, one, span.first, span.last, state, body)
            stop = tiles.start + tiles.count * tiles.width
            stop = tiles.stop if tiles.inner else stop
            state = self._loop(lines, tiles, tiles.start, stop, state, body)
        return state

    def _inside(
        self,
        loop: ReduceLoop,
        others: list[Node],
        lines: Lines,
        state: list[str],
        opened: Opened,
    ) -> list[str]:
        if others:
            return self._over(loop, others, lines, state)
        return self.accumulate(loop, opened, lines, state)

    def _loop(
        self,
        lines: Lines,
        tiles: Tiles,
        start: Any,
        stop: Any,
        state: list[str],
        body: Callable[[str, list[str]], list[str]],
    ) -> list[str]:
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
        outer = writer.open_loop(first, last, width, lines.carried(state), empty)
        end = writer.pure(f"add i64 {outer.index}, {width}", outer.index)
        end = lowest(writer, end, last)
        fresh = lines.identities()
        fresh = self._plain_loop(lines, tiles, outer.index, end, fresh, body)
        carried = [name for _, _, name in outer.carried]
        return writer.close_loop(outer, lines.merge(self.combine, carried, fresh))

    def _plain_loop(
        self,
        lines: Lines,
        tiles: Tiles,
        start: str,
        stop: str,
        state: list[str],
        body: Callable[[str, list[str]], list[str]],
        guarded: bool = False,
    ) -> list[str]:
        writer, carried = self.writer, lines.carried(state)
        text = writer.open_loop(start, stop, tiles.step, carried, guarded)
        state = body(text.index, [name for _, _, name in text.carried])
        return writer.close_loop(text, state)

    def accumulate(
        self, loop: ReduceLoop, opened: Opened, lines: Lines, state: list[str]
    ) -> list[str]:
        """One iteration: combines each value with its accumulator."""
        self.block(loop.body)
        self.fetch(loop, loop.ranges[-1])
        state = list(state)
        for number, total in enumerate(lines.sums):
            ats = [total.at]
            if opened.slot >= 0:
                ats = [(*total.at, copy) for copy in range(opened.copies)]
            if opened.lanes:
                for copy, at in enumerate(ats):
                    place = number + len(lines.sums) * copy
                    mask = opened.masks[copy]
                    state[place] = self._add(total, at, state[place], mask)
            elif self._takes_products(total):
                for at in ats:
                    state[number] = self._add(total, at, state[number], None)
            else:
                lanes = total.type.lanes
                parts = [self.values.plain(total.node.src[0], lanes, at) for at in ats]
                part = self._pairwise(total, parts)
                state[number] = self.combine(total, state[number], part)
        return state

    def _takes_products(self, total: Sum) -> bool:
        """Another reduce of the same products, as their maximum, needs them rounded."""
        value = total.node.src[0]
        return total.node.arg == "add" and (value in self.fused or value.op in _GROUPS)

    def _add(self, total: Sum, at: At, old: str, mask: str | None) -> str:
        """`old` combined with the value that the reduce has now."""
        values, t = self.values, total.type
        value = total.node.src[0]
        add_group = _GROUPS.get(value.op)
        if add_group is not None:
            a, b = (values.plain(s, t.lanes, at) for s in value.src)
            new = add_group(values.ops, t, old, a, b)
        elif self._takes_products(total):
            new = old
            for negative, factors in products_of(value):
                a, b = (values.plain(s, t.lanes, at) for s in factors)
                if negative:
                    a = values.ops.apply("neg", t, a)
                new = values.ops.call("fma", t, a, b, new)
        else:
            new = self.combine(total, old, values.plain(value, t.lanes, at))
        return new if mask is None else values.ops.select(mask, t, new, old)


def may_be_empty(tiles: Tiles) -> bool:
    """Is it known at calls only whether there is a tile?"""
    return is_dynamic(tiles.count) and lower_bound(tiles.count) < 1
