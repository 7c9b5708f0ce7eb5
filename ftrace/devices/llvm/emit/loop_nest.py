"""The loops of a kernel, as the schedule says: reduces, inside those over axes.

s = s + a·b         a sum takes a product in without rounding it
s₀, s₁, … s₇        an unrolled loop has several of each: their sum comes last
blocks of 64        floats are added in blocks, and these one after the other

Reduces of columns run row by row where the schedule says so:

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

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from ftrace import dtypes
from ftrace.devices.llvm.emit.emit_memory import Values
from ftrace.devices.llvm.emit.emit_values import At, Opened
from ftrace.devices.llvm.emit.loops import Loops, Span, may_be_empty
from ftrace.devices.llvm.ir.types import Type
from ftrace.devices.llvm.ir.writer import lowest
from ftrace.devices.llvm.scalar import avx512
from ftrace.devices.llvm.scalar.instructions import Row
from ftrace.devices.llvm.schedule.tiling_ir import Steps, Tiles, Tiling, cut, size_of
from ftrace.devices.llvm.target import Target
from ftrace.ground.fast_dataclasses import NamedTuple, dataclass
from ftrace.lower.kernel.ir import (
    Kernel,
    axis_of,
    byte_quads_p,
    pairs_p,
    reduce_p,
    word_pairs_p,
)
from ftrace.lower.kernel.loop_tree import Loop, ReduceLoop
from ftrace.lower.legalize.math.term import RELAXED
from ftrace.trace.graph import Node, Op
from ftrace.trace.primitives.reduction import identity_of
from ftrace.trace.symbolic.bounds import upper_bound
from ftrace.trace.symbolic.dim import is_dynamic, same_size

#: What adds the products of a group to a sum.
_GROUPS: dict[Op, Row] = {
    pairs_p: avx512.add_pairs,
    word_pairs_p: avx512.add_word_pairs,
    byte_quads_p: avx512.add_byte_quads,
}
#: Blocks of rows that are added up before their sum is put aside, at least.
_BLOCKS = 16
#: Iterations whose floats are added one after the other; longer sums are made of
#: such blocks, so that their error grows like the square root of the length.
BLOCK = 64
#: The same where many sums run beside each other and their number bounds the speed.
LONG_BLOCK = 512


@dataclass(frozen=True)
class Sum:
    """One accumulator: a reduce, for one choice of the copies around it."""

    node: Node
    at: At
    type: Type

    @property
    def identity(self) -> str:
        return self.type.constant(identity_of(str(self.node.arg), self.node.dtype))

    @property
    def rounds(self) -> bool:
        return self.node.arg == "add" and self.type.kind == "f"


#: What a value becomes of two partial ones.
Combine = Callable[[Sum, str, str], str]


class Lines:
    """The accumulators of one reduce loop: its sums, several times where unrolled."""

    def __init__(self, sums: list[Sum], steps: Steps) -> None:
        self.sums = sums
        self.copies = steps.copies if steps.lanes else 1
        self.rounds = any(total.rounds for total in sums)

    def identities(self) -> list[str]:
        return [total.identity for total in self.sums] * self.copies

    def carried(self, state: list[str]) -> list[tuple[str, str]]:
        kinds = [total.type.text for total in self.sums] * self.copies
        return list(zip(kinds, state, strict=True))

    def merge(self, combine: Combine, old: list[str], new: list[str]) -> list[str]:
        totals = self.sums * self.copies
        return [
            combine(total, a, b) for total, a, b in zip(totals, old, new, strict=True)
        ]

    def block(self, count: Any) -> int:
        """How many of `count` iterations to add up before the sum is put aside."""
        many = len(self.sums) * self.copies >= 8
        block = LONG_BLOCK if many else BLOCK
        if is_dynamic(count):
            return LONG_BLOCK if self.rounds and upper_bound(count) > block else 0
        if not self.rounds or count <= 2 * block:
            return 0
        return _block_size(block, count)


def _block_size(block: int, count: int) -> int:
    """A size of blocks, doubled until there are no more of them than it says."""
    while block * block < count:
        block *= 2
    return block


def products_of(value: Node) -> list[tuple[bool, tuple[Node, ...]]]:
    """a·b, or a·b ± c·d, as factors and whether they are subtracted; else nothing."""
    name, src = value.op.name, value.src
    if name == "mul":
        return [(False, src)]
    if name == "fma" and value.arg == RELAXED:
        *first, last = src
        less = last.op.name == "neg"
        last = last.src[0] if less else last
        return (
            [(False, tuple(first)), (less, last.src)] if last.op.name == "mul" else []
        )
    if name not in ("add", "sub") or any(s.op.name != "mul" for s in src):
        return []
    a, b = src
    return [(False, a.src), (name == "sub", b.src)]


def fused_products(kernel: Kernel, target: Target) -> frozenset[Node]:
    """Terms of sums that are made of products which the sum need not round."""
    if not target.fma or not target.decides("unrounded_products"):
        return frozenset()
    return frozenset(
        node.src[0]
        for node in kernel.nodes
        if node.op is reduce_p
        and node.arg == "add"
        and dtypes.kind(node.dtype) == "f"
        and products_of(node.src[0])
    )


class Place(NamedTuple):
    """Where the sums of a reduce are: `origin` would be that of column 0."""

    node: Node
    origin: str


class Nest(Loops):
    """Emits loops.

    Args:
      values, tiling, spans: see `Loops`.
      fused: products that a sum takes in without rounding them.
    """

    def __init__(
        self,
        values: Values,
        tiling: Tiling,
        fused: frozenset[Node],
        spans: Mapping[Node, Span] = MappingProxyType({}),
    ) -> None:
        super().__init__(values, tiling, spans)
        self.fused = fused
        self._count = 0

    # Reduces.

    def reduce(self, loop: ReduceLoop) -> None:
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
        self._ask()
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

    # Columns, row by row.

    def by_rows(self, loop: Loop, span: Span | None) -> None:
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
        *outer, last = reduce.ranges
        blocks = cut(axis_of(last).size, Steps(0, self.tiling.rows, even=False))
        group = _block_size(_BLOCKS, blocks[0].count)
        sums = [self._place(node, loop, span, "") for node in reduce.reduces]
        parts: list[Place] = []
        if blocks[0].count > 2 * group and any(self._sum(s).rounds for s in sums):
            parts = [self._place(node, loop, span, ".part") for node in reduce.reduces]

        def add_rows(tiles: Tiles, start: str, stop: str, into: list[Place]) -> None:
            """Adds rows start … stop - 1 to the sums, block by block."""
            text = writer.open_loop(start, stop, tiles.width)
            opened = self.open(last, text.index, Steps(0, tiles.copies), tiles)

            def body() -> None:
                self._recall(known)
                lines = Lines([self._sum(place) for place in into], Steps())
                state = [self._load(place) for place in into]
                state = self.accumulate(reduce, opened, lines, state)
                for place, value in zip(into, state, strict=True):
                    self._put(place, value)

            self.each_tile(loop.axis, span, body)
            self.values.close(opened)
            writer.close_loop(text)

        self.each_tile(loop.axis, span, lambda: self._clear(sums))
        loops = [writer.open_loop("0", str(axis_of(r).size), 1) for r in outer]
        ranges = [
            Opened(r, t.index, t.level) for r, t in zip(outer, loops, strict=True)
        ]
        for opened in ranges:
            self.values.open(opened)
        for tiles in blocks:
            first, stop = tiles.start, tiles.start + tiles.count * tiles.width
            if parts and tiles.count > group:
                width = group * tiles.width
                text = writer.open_loop(str(first), str(stop), width)
                end = writer.pure(f"add i64 {text.index}, {width}", text.index)
                end = lowest(writer, end, stop)
                self.each_tile(loop.axis, span, lambda: self._clear(parts))
                add_rows(tiles, text.index, end, parts)
                self.each_tile(loop.axis, span, lambda: self._join(sums, parts))
                writer.close_loop(text)
            else:
                add_rows(tiles, str(first), str(stop), sums)
        for opened, text in zip(reversed(ranges), reversed(loops), strict=True):
            self.values.close(opened)
            writer.close_loop(text)
        return sums

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

    def _put(self, place: Place, value: str) -> None:
        self.values.access.store(self._sum(place).type, value, self._pointer(place))

    def _clear(self, places: list[Place]) -> None:
        for place in places:
            self._put(place, self._sum(place).identity)

    def _join(self, sums: list[Place], parts: list[Place]) -> None:
        for total, part in zip(sums, parts, strict=True):
            a, b = self._load(total), self._load(part)
            self._put(total, self.combine(self._sum(total), a, b))

    def _recall(self, places: list[Place]) -> None:
        """Makes finished sums the values of their reduces."""
        for place in places:
            self.values.put(place.node, (), self._load(place))
