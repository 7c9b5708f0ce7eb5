"""Lists of ranges cut in blocks, and the block that is open."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from math import prod
from types import MappingProxyType

from ftrace.devices.llvm.emit.emit_values import Opened
from ftrace.devices.llvm.emit.loops import Span
from ftrace.devices.llvm.emit.staged_kernel import Stage
from ftrace.devices.llvm.ir.writer import OpenLoop, lowest
from ftrace.devices.llvm.schedule.tiling_ir import Steps
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.kernel.ir import INDEX, Store, axis_of
from ftrace.trace.graph import Node
from ftrace.trace.primitives.elementwise import mul, sub
from ftrace.trace.primitives.sources import const
from ftrace.trace.symbolic.dim import is_dynamic

_ONE = Steps()


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
    writer = stage.writer
    loops: list[tuple[OpenLoop, Opened]] = []
    for r in cut.outer:
        loop = writer.open_loop("0", stage.values.number(axis_of(r).size), 1)
        loops.append((loop, stage.open(r, loop.index)))
    if not is_dynamic(cut.blocks) and cut.blocks == 1:
        block = Block(stage, cut, "0")
        with block:
            run(block)
    else:
        loop = writer.open_loop("0", stage.values.number(cut.blocks), 1)
        block = Block(stage, cut, loop.index)
        with block:
            run(block)
        writer.close_loop(loop)
    for loop, opened in reversed(loops):
        stage.close(opened)
        writer.close_loop(loop)


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


class Opening(ABC):
    """A part of a kernel's ranges: in a `with` statement code is for this part."""

    @abstractmethod
    def open(self) -> None:
        """From here on code is for this part."""

    @abstractmethod
    def close(self) -> None:
        """To here it was."""

    def __enter__(self) -> None:
        self.open()

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()


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


class Block(Opening):
    """The block of a cut that is open: code around it says which.

    Args:
      number: of the block.
    """

    def __init__(self, stage: Stage, cut: Cut, number: str) -> None:
        self.stage = stage
        self.cut = cut
        self.number = number
        self.start: Node | None = None
        self._opened: Opened | None = None

    def open(self) -> None:
        """Opens a range that names where the block begins in the split range."""
        if self.cut.split is not None:
            self.start = self.stage.new_range(axis_of(self.cut.split).size)
            base = self.stage.scaled(self.number, self.cut.size)
            self._opened = self.stage.open(self.start, base)

    def close(self) -> None:
        if self._opened is not None:
            self.stage.close(self._opened)

    def spans(self, steps: Mapping[Node, Steps]) -> dict[Node, Span]:
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

    def terms(
        self, weight: int, node: Node | None = None, of: Collection[Node] | None = None
    ) -> list[Node]:
        """The position in the block, times `weight`, as the terms of an index.

        With `node`, of those ranges only on which it depends; or of these ranges.
        """
        cut = self.cut
        free = cut.within if of is None else of
        if node is not None:
            free = self.stage.facts.free[node]
        found: list[Node] = []
        for r, step in cut.steps(weight, free).items():
            place = r
            if r is cut.split and self.start is not None:
                place = sub(r, self.start)
            found.append(mul(place, const(step, INDEX)))
        return found

    def positions(self, node: Node | None = None) -> int:
        """How many positions a block has; with `node`, of its ranges only."""
        cut = self.cut
        return prod(
            size
            for r, size in zip(cut.within, cut.extents, strict=True)
            if node is None or r in self.stage.facts.free[node]
        )

    def extent(self, r: Node) -> str:
        """How far a range goes in this block, which may be the last and short."""
        size = axis_of(r).size
        if r is not self.cut.split or self.start is None:
            return str(size)
        if size % self.cut.size == 0:
            return str(self.cut.size)
        span = self.spans({})[r]
        text = f"sub i64 {span.last}, {span.first}"
        return self.stage.writer.pure(text, span.last, span.first)

    def count(self) -> str:
        """Positions in this block, which may be the last and short."""
        if self.cut.split is None:
            return str(self.cut.length)
        span = self.spans({})[self.cut.split]
        size = self.stage.writer.pure(
            f"sub i64 {span.last}, {span.first}", span.last, span.first
        )
        return self.stage.scaled(size, self.cut.length // self.cut.size)
