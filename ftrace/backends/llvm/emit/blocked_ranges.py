"""Lists of ranges cut in blocks, the block that is open, and panels of two blocks.

A panel is filled by evaluating an expression over two blocks, in whole vectors. Where
the expression's loads are contiguous along another range than the panel is, it is
evaluated along that range, and squares of registers are turned.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from math import prod
from types import MappingProxyType

from ftrace.backends.llvm.emit.emit_values import Opened
from ftrace.backends.llvm.emit.loop_nest import Span
from ftrace.backends.llvm.emit.staged_kernel import Panel, Stage, sum_of
from ftrace.backends.llvm.ir.writer import lowest
from ftrace.backends.llvm.schedule.index_facts import Facts, index_of
from ftrace.backends.llvm.schedule.tiling_ir import Prefetch, Steps, size_of
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.kernel.ir import INDEX, Store, axis_of, load_p
from ftrace.trace.graph import Node, toposort
from ftrace.trace.primitives.elementwise import mul, sub
from ftrace.trace.primitives.sources import const
from ftrace.trace.symbolic.bounds import upper_bound
from ftrace.trace.symbolic.dim import is_dynamic

#: Bytes of pieces of rows that are asked for before they are needed.
_AHEAD = 2 << 10
_ONE = Steps()
#: Where every range runs one by one.
NO_STEPS: Mapping[Node, Steps] = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class Cut:
    """A list of ranges in blocks.

    Attributes:
      outer: ranges that run one by one around the blocks.
      split: the range that is cut; None where a block is all of the inner ones.
      size: of a block of `split`.
      inner: ranges that are whole in a block.
      order: the ranges of a block as they lie in a panel, if not as they run.
    """

    outer: tuple[Node, ...]
    split: Node | None
    size: int
    inner: tuple[Node, ...]
    order: tuple[Node, ...] = ()

    @staticmethod
    def whole(ranges: Sequence[Node]) -> Cut:
        """All of some ranges in one block."""
        return Cut((), None, 1, tuple(ranges))

    @staticmethod
    def of_first(ranges: Sequence[Node], size: int) -> Cut:
        """Blocks of so many values of the first range; one, where that is all."""
        first, *rest = ranges
        if size >= axis_of(first).size:
            return Cut.whole(ranges)
        return Cut((), first, size, tuple(rest))

    @property
    def within(self) -> tuple[Node, ...]:
        """The ranges that run in a block, outermost first."""
        return self.inner if self.split is None else (self.split, *self.inner)

    @property
    def extents(self) -> tuple[int, ...]:
        """How far each of them goes in a block."""
        sizes = tuple(axis_of(r).size for r in self.inner)
        return sizes if self.split is None else (self.size, *sizes)

    @property
    def length(self) -> int:
        """Positions in a block."""
        return prod(self.extents)

    def positions(self, free: Collection[Node]) -> int:
        """The same where only these ranges count."""
        sizes = zip(self.within, self.extents, strict=True)
        return prod(size for r, size in sizes if r in free)

    @property
    def several(self) -> bool:
        """Is it more than one block?"""
        return is_dynamic(self.blocks) or self.blocks > 1 or bool(self.outer)

    def steps(self, weight: int, free: Collection[Node]) -> dict[Node, int]:
        """How far apart positions in a block are along each range, last one first.

        Args:
          weight: of the innermost range.
          free: only these ranges have places of their own.
        """
        found: dict[Node, int] = {}
        sizes = dict(zip(self.within, self.extents, strict=True))
        for r in (self.order or self.within)[::-1]:
            if r in free:
                found[r] = weight
                weight *= sizes[r]
        return found

    @property
    def blocks(self) -> int:
        """Of one choice of the outer ranges."""
        return 1 if self.split is None else -(-axis_of(self.split).size // self.size)


def cut_ranges(ranges: Sequence[Node], length: int, multiple: int = 1) -> Cut:
    """Blocks of about `length`: inner ranges are whole, one is split.

    It is split evenly; but the innermost range in blocks that `multiple` divides, and
    what is left.
    """
    inner: list[Node] = []
    rest = list(ranges)
    width = 1
    while rest and not is_dynamic(axis_of(rest[-1]).size):
        if width * axis_of(rest[-1]).size * 3 > length * 4:
            break
        inner.insert(0, rest.pop())
        width *= axis_of(inner[0]).size
    if not rest or width * 2 > length:
        return Cut(tuple(rest), None, 1, tuple(inner))
    split = rest.pop()
    if not inner and multiple > 1:
        size = max(length // multiple, 1) * multiple
    else:
        size = max(length // width, 1)
        if not is_dynamic(axis_of(split).size):
            size = -(-axis_of(split).size // -(-axis_of(split).size // size))
    return Cut(tuple(rest), split, size, tuple(inner))


def each_block(stage: Stage, cut: Cut, run: Callable[[Block], None]) -> None:
    """Emits loops over all blocks of a cut, and in them what `run` does."""
    number, text = stage.values.number, "0"
    with ExitStack() as stack:
        for r in cut.outer:
            index = stack.enter_context(stage.loop(number(axis_of(r).size)))
            stack.enter_context(stage.at(r, index))
        if is_dynamic(cut.blocks) or cut.blocks > 1:
            text = stack.enter_context(stage.loop(number(cut.blocks)))
        run(stack.enter_context(Block(stage, cut, text)))


def run_stores(
    stage: Stage,
    stores: Sequence[Store],
    axes: Sequence[Node],
    blocks: Sequence[Block],
    lanes: int,
    spans: Mapping[Node, Span] = MappingProxyType({}),
) -> None:
    """What becomes of the sums of some blocks, in vectors along the last of the axes.

    Args:
      lanes: of a vector at most.
      spans: of axes that are in no block.
    """
    last, widest = axes[-1], max(store.value.dtype.itemsize for store in stores)
    lanes = min(stage.target.vector_bytes // widest, lanes)
    while lanes > 1 and not all(block.fits(last, lanes) for block in blocks):
        lanes //= 2
    steps, found = {last: Steps(lanes)}, dict[Node, Span]()
    for block in blocks:
        found |= block.spans(steps)
    stage.run(axes, stores, steps, {**found, **spans})


class Once:
    """What several units in a row share, and the first of them makes."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        for number in range(len(stage.kernel.buffers)):
            stage.values.buffer(number)  # known in the branch, and after it
        self._made = stage.writer.here("alloca i64")
        stage.writer.effect(f"store i64 -1, ptr {self._made}")

    def run(self, number: str, make: Callable[[], None]) -> None:
        """Runs `make` unless what is of this number was made last."""
        writer = self.stage.writer
        last = writer.here(f"load i64, ptr {self._made}")
        fresh = writer.here(f"icmp ne i64 {last}, {number}")
        branch = writer.open_branch()
        make()
        writer.effect(f"store i64 {number}, ptr {self._made}")
        writer.close_branch(branch, fresh, ())


class Block:
    """The block of a cut: in a `with` statement it is open, and code is for it.

    Args:
      number: of the block.
    """

    def __init__(self, stage: Stage, cut: Cut, number: str) -> None:
        self.stage = stage
        self.cut = cut
        self.number = number
        self.start: Node | None = None
        self._opened: Opened | None = None

    def __enter__(self) -> Block:
        self.open()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()

    def open(self) -> None:
        """Opens a range that names where the block begins in the split range."""
        if self.cut.split is not None:
            self.start = self.stage.new_range(axis_of(self.cut.split).size)
            base = self.stage.scaled(self.number, self.cut.size)
            self._opened = self.stage.open(self.start, base)

    def close(self) -> None:
        if self._opened is not None:
            self.stage.close(self._opened)

    def spans(self, steps: Mapping[Node, Steps] = NO_STEPS) -> dict[Node, Span]:
        """The part of the split range that is in the block, in its steps."""
        split = self.cut.split
        if split is None:
            return {}
        width = steps.get(split, _ONE).width
        total = -(-axis_of(split).size // width)
        each = self.cut.size // width
        assert each * width == self.cut.size
        first = self.stage.scaled(self.number, each)
        last = self.stage.scaled(self.number, each, each)
        number = self.stage.values.number(total)
        return {split: Span(first, lowest(self.stage.writer, last, number))}

    def divides(self, width: int) -> bool:
        """Does every block begin at a multiple of `width`?"""
        return self.cut.size % width == 0

    def fits(self, r: Node, lanes: int) -> bool:
        """May a range that runs in the block do so in so many lanes?"""
        if r is self.cut.split:
            return self.divides(lanes)
        return lanes < 2 * axis_of(r).size

    def terms(self, weight: int, of: Collection[Node] | None = None) -> list[Node]:
        """The position in the block, times `weight`, as the terms of an index.

        Args:
          of: only these ranges have places of their own.
        """
        cut = self.cut
        found: list[Node] = []
        for r, step in cut.steps(weight, cut.within if of is None else of).items():
            place = r
            if r is cut.split and self.start is not None:
                place = sub(r, self.start)
            found.append(mul(place, const(step, INDEX)))
        return found

    def extent(self, r: Node) -> str:
        """How far a range goes in this block, which may be the last and short."""
        size = axis_of(r).size
        if r is not self.cut.split or self.start is None:
            return str(size)
        if size % self.cut.size == 0:
            return str(self.cut.size)
        return self._length()

    def _length(self) -> str:
        """Of the part of the split range."""
        (span,) = self.spans().values()
        text = f"sub i64 {span.last}, {span.first}"
        return self.stage.writer.pure(text, span.last, span.first)

    def count(self) -> str:
        """Positions in this block, which may be the last and short."""
        cut = self.cut
        if cut.split is None:
            return str(cut.length)
        return self.stage.scaled(self._length(), cut.length // cut.size)


# Panels.


def fill_panel(
    panel: Panel,
    node: Node,
    minor: Node,
    major: Block,
    inside: Block,
    summed: Block,
    lanes: int,
) -> None:
    """Evaluates `node` for two blocks, into a panel.

    Args:
      minor: the range along which the panel is contiguous; of what is summed over it
        is the last one that the node has.
      major: its position is the row of the panel.
      inside: its position is the column.
      summed: that of the two of which only those ranges count that the node has.
      lanes: of a vector at most.
    """
    stage = panel.stage
    facts = stage.facts
    held = [r for r in summed.cut.within if r in facts.free[node]]
    if inside is summed and held:
        minor = held[-1]
    terms: list[Node] = []
    ranges: list[Node] = []
    for block, weight in ((major, panel.pitch), (inside, 1)):
        own = held if block is summed else block.cut.within
        terms += block.terms(weight, own)
        ranges += own
    index = sum_of(terms)
    vector = _vector_of(node, ranges, minor, (major, inside), lanes, facts)
    width = _lanes_of(node, vector, (major, inside), lanes)
    store = Store(panel.number, index, node)
    steps = {vector: Steps(width, _copies(vector, width, (major, inside)))}
    if vector is not minor:
        steps[vector] = Steps(width)
        steps[minor] = Steps(0, width, False)
    spans = major.spans(steps) | inside.spans(steps)
    spans = {r: span for r, span in spans.items() if r in ranges}
    if vector is minor:
        outer = [r for r in ranges if r is not vector]
        along = outer[-1] if outer and ranges[-1] is vector else None
        prefetch = None
        if along is not None and (
            ahead := _rows_ahead(node, vector, along, (major, inside), stage)
        ):
            prefetch = Prefetch([node], along, ahead)
        stage.run(ranges, [store], steps, spans, prefetch=prefetch)
        return
    others = [r for r in ranges if r is not vector and r is not minor]
    # Along the vectors memory runs on: the processor fetches what comes next.
    stage.run([*others, minor, vector], [store], steps, spans, squares=True)


def _rows_ahead(
    node: Node, vector: Node, along: Node, blocks: Sequence[Block], stage: Stage
) -> int:
    """How many rows ahead a load from beyond L2 is asked for; 0: it is not.

    Rows of a panel are short pieces of rows far apart, of which each is another page:
    the processor does not see in time where the next one begins.
    """
    if node.op is not load_p:
        return 0
    buffer, _, *valid = node.src
    number, size = buffer.arg, node.dtype.itemsize
    assert isinstance(number, int)
    far = not valid and upper_bound(stage.values.sizes[number]) * size > stage.target.l2
    if not far or not stage.target.decides("fetch_ahead"):
        return 0
    split = [b.cut.size for b in blocks if b.cut.split is vector]
    piece = min([size_of(vector), *split]) * size
    pitch = abs(stage.facts.affine[index_of(node)].terms.get(along, 0)) * size
    return -(-_AHEAD // piece) if pitch > piece else 0


def _copies(vector: Node, width: int, blocks: Sequence[Block]) -> int:
    """How many vectors to fill at once: blocks have to be whole numbers of them."""
    split = [b for b in blocks if b.cut.split is vector]
    copies = 4
    while copies > 1 and size_of(vector) < width * copies:
        copies //= 2
    while copies > 1 and not all(b.divides(width * copies) for b in split):
        copies //= 2
    return copies


def _vector_of(
    node: Node,
    ranges: Sequence[Node],
    minor: Node,
    blocks: Sequence[Block],
    lanes: int,
    facts: Facts,
) -> Node:
    """The range along which an expression is best evaluated."""
    loads = [n for n in toposort([node]) if n.op is load_p]
    most = blocks[0].stage.target.most_apart
    best, least = minor, float("inf")
    for r in ranges:
        width, size = _lanes_of(node, r, blocks, lanes), size_of(r)
        sizes = [b.cut.size for b in blocks if b.cut.split in (r, minor)]
        if r is not minor and any(s % width for s in sizes):
            continue
        cost = 1.0
        for n in loads:
            if r in facts.free[n]:
                stride = facts.stride(index_of(n), r, width)
                if stride is not None and 2 <= stride <= most:
                    cost += 1.5 * stride  # picked from vectors side by side
                else:
                    cost += 1 if stride in (-1, 0, 1) else 2 + width
        if r is not minor:  # turning: shuffles, and a store per lane
            copies = min(width, size_of(minor))
            cost += width * (width.bit_length() / 2 + 1) / copies
        cost *= -(-size // width) / size
        if cost < least:
            best, least = r, cost
    return best


def _lanes_of(node: Node, r: Node, blocks: Sequence[Block], lanes: int) -> int:
    """How many elements of an expression make a vector along a range."""
    target = blocks[0].stage.target
    loads = [n.dtype.itemsize for n in toposort([node]) if n.op is load_p]
    found = min(target.vector_bytes // max([node.dtype.itemsize, *loads]), lanes)
    split = [b for b in blocks if b.cut.split is r]
    while not all(b.divides(found) for b in split):
        found //= 2
    if not split:
        while found >= 2 * size_of(r) and found > 1:
            found //= 2
    return found
