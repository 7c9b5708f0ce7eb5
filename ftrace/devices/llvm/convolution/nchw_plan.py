"""Which contractions are convolutions, and the blocks in which they run best."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod

from ftrace import dtypes
from ftrace.devices.llvm.contraction.find import Contraction
from ftrace.devices.llvm.contraction.find_windows import Window, find_windows
from ftrace.devices.llvm.contraction.left_operand import is_even
from ftrace.devices.llvm.schedule.index_facts import Facts, index_of
from ftrace.devices.llvm.schedule.register_tiles import register_tile, rows_together
from ftrace.devices.llvm.schedule.tiling_ir import size_of
from ftrace.devices.llvm.target import Target
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.kernel.ir import INDEX, Kernel, load_p
from ftrace.trace.graph import Node, toposort

#: Terms of a sum that are added up before they are put aside (of 4-byte elements).
DEPTH = 512
#: Cycles that it takes to evaluate a vector of a panel; where its elements are apart.
_FILL, _FILL_APART = 3.0, 6.0
#: Cycles of a block beside its sums.
_BLOCK = 2000.0
#: Fewer products are not worth it.
_LEAST = 1 << 14
#: Blocks of lines that are considered, and parts of the rows.
_MOST_BLOCKS = 32
_PARTS = (1, 2, 4, 8)
#: Outer places that a block takes side by side: so many columns are enough.
_ENOUGH_COLUMNS = 512


@dataclass(frozen=True, eq=False)
class Blocks:
    """How the columns and rows of a convolution are cut.

    Attributes:
      lines: how many values of the window's column a block has.
      beside: places of the axis beside it that a block has.
      parts: blocks of rows.
    """

    lines: int
    beside: int
    parts: int


@dataclass(frozen=True, eq=False)
class Sliding:
    """How a contraction is a convolution.

    Attributes:
      plan: the contraction.
      window: its column is the outermost axis in a block.
      left, right: the operands.
      row: the axis of the rows.
      outer: axes around the blocks.
      beside: an axis outside of the window's column of which a block has several
        places, where all lines are in it; each line has them side by side.
      inner: columns that are whole in a block.
      others: what is summed over beside the taps.
      blocks: how large they are.
    """

    plan: Contraction
    window: Window
    left: Node
    right: Node
    row: Node
    outer: tuple[Node, ...]
    beside: Node | None
    inner: tuple[Node, ...]
    others: tuple[Node, ...]
    blocks: Blocks


def find_sliding(
    kernel: Kernel, plan: Contraction, facts: Facts, target: Target
) -> Sliding | None:
    """The contraction as a convolution, where that pays."""
    if len(plan.rows) != 1 or not is_sum_of_products(kernel, plan):
        return None
    best: tuple[float, Sliding] | None = None
    for window in find_windows(plan.right[0], plan.columns, plan.ranges, facts):
        found = _Choice(plan, window, facts, target).best()
        if found is not None and (best is None or found[0] < best[0]):
            best = found
    return None if best is None else best[1]


def is_sum_of_products(kernel: Kernel, plan: Contraction) -> bool:
    """Is it one sum of one product of floats, known in size and not too short?"""
    if kernel.is_dynamic or len(plan.reduces) != 1:
        return False
    if len(plan.left) != 1 or len(plan.right) != 1:
        return False
    (total,), (left,), (right,) = plan.reduces, plan.left, plan.right
    if total.arg != "add" or total.dtype not in (dtypes.float32, dtypes.float64):
        return False
    if prod(map(size_of, (*kernel.axes, *plan.ranges))) < _LEAST:
        return False
    term = total.src[0]
    if term.op.name != "mul" or set(term.src) != {left, right}:
        return False
    return {left.dtype, right.dtype} == {total.dtype}


class _Choice:
    """The best blocks of a contraction with a window, by about how long they take."""

    def __init__(
        self, plan: Contraction, window: Window, facts: Facts, target: Target
    ) -> None:
        self.plan = plan
        self.window = window
        self.target = target
        (self.left,), (self.right,), (self.row,) = plan.left, plan.right, plan.rows
        self.at = plan.columns.index(window.column)
        self.inner = plan.columns[self.at + 1 :]
        self.outer = (*plan.outer, *plan.columns[: self.at])
        walk = step_sizes(self.left, plan.ranges, facts)
        self.others = [r for r in plan.ranges if r is not window.tap]
        self.others.sort(key=lambda r: -walk[r])
        self.lanes = target.vector_bytes // self.right.dtype.itemsize
        self.depth = prod(size_of(r) for r in plan.ranges)
        even = is_even(self.left, facts)
        row = self.row if even else None
        self.together = rows_together([self.left], row, facts)
        last = self.inner[-1] if self.inner else window.column
        self.fill = fill_cost(self.right, last, facts, self.lanes)
        length = size_of(last)
        self.across = length / -(-length // self.lanes)  # elements of a vector

    def best(self) -> tuple[float, Sliding] | None:
        """The best, and about how many cycles it takes."""
        found = [(self._cycles(b), b) for b in self._candidates()]
        if self.fill is None or not found:
            return None
        cycles, blocks = min(found, key=lambda pair: pair[0])
        if self._without() < cycles * 0.9:
            return None
        outer, beside = self.outer, None
        if blocks.beside > 1:
            *rest, beside = self.plan.columns[: self.at]
            outer = (*self.plan.outer, *rest)
        sliding = Sliding(
            self.plan, self.window, self.left, self.right, self.row, outer, beside,
            self.inner, tuple(self.others), blocks,
        )  # fmt: skip
        return cycles, sliding

    def _candidates(self) -> list[Blocks]:
        """Blocks whose panels fit into the second cache; else the smallest."""
        found = [(self._bytes(blocks), blocks) for blocks in self._shapes()]
        room = self.target.l2 * 3 // 4
        fitting = [blocks for size, blocks in found if size <= room]
        least = min((size for size, _ in found), default=0)
        return fitting or [blocks for size, blocks in found if size == least]

    def _shapes(self) -> Iterator[Blocks]:
        height, lines = size_of(self.row), size_of(self.window.column)
        width = prod(size_of(a) for a in self.inner)
        shapes: list[tuple[int, int]] = []
        for count in (*range(1, _MOST_BLOCKS), *(n * lines // 8 for n in range(1, 9))):
            size = -(-lines // max(count, 1))
            even = lines % size == 0 and size % self.lanes == 0
            if self.inner or size == lines or even:
                shapes.append((size, 1))
        if self.at and self.inner:
            places = size_of(self.plan.columns[self.at - 1])
            most = min(places, max(_ENOUGH_COLUMNS // (lines * width), 1))
            shapes += [(lines, n) for n in range(2, most + 1)]
        for size, beside in dict.fromkeys(shapes):
            for parts in _PARTS:
                rows = height // parts
                if height % parts == 0 and (parts == 1 or rows >= 8):
                    yield Blocks(size, beside, parts)

    def _bytes(self, blocks: Blocks) -> int:
        """Of the panels of a block."""
        item = self.right.dtype.itemsize
        width = prod(size_of(a) for a in self.inner) * blocks.beside
        deep = max(DEPTH * 4 // item // self.window.taps, 1)
        positions = min(prod(size_of(r) for r in self.others), deep)
        groups = self.window.groups
        lines = sum(n * (blocks.lines + self.window.halo(k)) for _, n, k in groups)
        rows = size_of(self.row) // blocks.parts
        return (positions * lines + rows * blocks.lines) * width * item

    def _cycles(self, blocks: Blocks) -> float:
        """Of all units, on all cores."""
        width = prod(size_of(a) for a in self.inner) * blocks.beside
        lines, size = size_of(self.window.column), blocks.lines
        evaluated = self.window.share(size) * size * width * self.depth
        each = self._unit(size_of(self.row) // blocks.parts, size * width, evaluated)
        units = prod(size_of(a) for a in self.outer) * -(-lines // size) * blocks.parts
        if blocks.beside > 1:
            places = size_of(self.plan.columns[self.at - 1])
            units = units // places * -(-places // blocks.beside)
        return each * -(-units // self.target.cores)

    def _unit(self, rows: int, columns: int, evaluated: float) -> float:
        vectors = -(-columns // self.lanes)
        tile = register_tile(rows, vectors, self.target.registers, self.together)
        filled = (self.fill or 0.0) * evaluated / self.across
        return tile.cycles * self.depth + filled + _BLOCK

    def _without(self) -> float:
        """Where each column is evaluated for each tap, in blocks of many places."""
        wide = prod(size_of(a) for a in (*self.outer, *self.plan.columns[self.at :]))
        some = min(wide, 12 * self.lanes)
        each = self._unit(size_of(self.row), some, some * self.depth)
        return each * max(wide / some, 1) / self.target.cores


def fill_cost(node: Node, column: Node, facts: Facts, lanes: int) -> float | None:
    """Cycles that it takes to evaluate a vector; None where that is too slow."""
    cost = 0.0
    for n in toposort([node]):
        if n.op is load_p and column in facts.free[n]:
            stride = facts.stride(index_of(n), column, lanes)
            if stride is None or abs(stride) > 4:
                return None
            cost += _FILL if abs(stride) == 1 else _FILL_APART
        elif n.dtype is not INDEX and n.src:
            cost += 1.0
    return cost


def step_sizes(node: Node, ranges: Iterable[Node], facts: Facts) -> dict[Node, int]:
    """How far apart in memory an operand's elements are along ranges."""
    found = dict.fromkeys(ranges, 0)
    for n in toposort([node]):
        if n.op is load_p:
            terms = facts.affine[index_of(n)].terms
            for r in found:
                found[r] = max(found[r], abs(terms.get(r, 0)))
    return found
