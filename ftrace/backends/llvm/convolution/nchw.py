"""Convolutions: products whose right operand slides along an axis of the columns.

    out[i, p] = f(the sum over c, t of left(i, c, t) · right(c, p + t), …)

A unit is a block of rows and of lines of columns. The right operand is evaluated once
for each line, not for each pair of a line and a tap, into a panel in which all columns
of the block are one flat axis, and each tap a constant distance. Taps of windows along
the other axes are ranges like c: so nothing is stored beside a line, and no column is
computed that does not exist.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from ftrace.backends.llvm.contraction import find
from ftrace.backends.llvm.convolution import find as convolution
from ftrace.backends.llvm.schedule import (
    layout,
    schedule_tree as tree,
    tiling_ir as tiling,
)
from ftrace.backends.llvm.schedule.index_facts import Facts
from ftrace.backends.llvm.schedule.layout import Cut, Panel, Part, Window, cut_ranges
from ftrace.backends.llvm.target import Target
from ftrace.ground.fast_dataclasses import NamedTuple, dataclass
from ftrace.lower.kernel.ir import Kernel
from ftrace.trace.graph import Node

#: Terms of a sum that are added up before they are put aside (of 4-byte elements).
DEPTH = 512
#: Cycles of a block beside its sums.
_BLOCK = 2000.0
#: Blocks of lines that are considered, and parts of the rows.
_MOST_BLOCKS = 32
_PARTS = (1, 2, 4, 8)
#: Vectors as long as a line come from the second cache in time; of shorter ones a tile
#: takes several times as long, unless all that it reads stays in the first: two of them
#: for each term are this part of it.
_NEAR = 8


@dataclass(frozen=True, eq=False)
class Shape:
    """How a contraction is such a convolution.

    Attributes:
      outer, inner: columns around the window's one, and those inside.
      others: what is summed over beside the taps.
      fill: cycles to evaluate an element of the image.
      deep: terms of a block of `others` at most.
      together: rows that do not push each other out of the cache.
    """

    plan: find.Contraction
    window: Window
    target: Target
    outer: tuple[Node, ...]
    inner: tuple[Node, ...]
    others: tuple[Node, ...]
    fill: float
    deep: int
    together: int
    in_place: bool

    @property
    def rows(self) -> int:
        return tiling.size_of(self.plan.rows[0])

    @property
    def width(self) -> int:
        """Columns of a value of the window's."""
        return prod(map(tiling.size_of, self.inner))

    @property
    def depth(self) -> int:
        return prod(map(tiling.size_of, self.plan.ranges))

    @property
    def item(self) -> int:
        return self.plan.right[0].dtype.itemsize

    @property
    def lanes(self) -> int:
        return self.target.vector_bytes // self.item


class Blocks(NamedTuple):
    """How the columns and rows of a convolution are cut.

    Attributes:
      lines: how many values of the window's column a block has.
      parts: blocks of rows.
    """

    lines: int
    parts: int


def find_sliding(
    kernel: Kernel, plan: find.Contraction, facts: Facts, target: Target
) -> Iterator[tree.Schedule]:
    """The contraction as a convolution, where that pays."""
    if len(plan.rows) != 1 or not convolution.is_sum_of_products(kernel, plan):
        return
    best, least = list[tuple[Shape, Blocks]](), float("inf")
    for window in convolution.find_windows(
        plan.right[0], plan.columns, plan.ranges, facts
    ):
        shape = _shape(plan, window, facts, target)
        candidates = [] if shape is None else _candidates(shape)
        if shape is None or not candidates:
            continue
        found = [(_cycles(shape, blocks), shape, blocks) for blocks in candidates]
        found.sort(key=lambda way: way[0])
        cycles = found[0][0]
        if cycles < least and _without(shape) >= cycles * 0.9:
            best, least = [way[1:] for way in found], cycles
    for shape, blocks in best:
        yield from _schedules(kernel, shape, blocks, facts)


def _shape(
    plan: find.Contraction, window: Window, facts: Facts, target: Target
) -> Shape | None:
    (left,), (right,), (row,) = plan.left, plan.right, plan.rows
    at = plan.columns.index(window.column)
    inner = plan.columns[at + 1 :]
    others = [r for r in plan.ranges if r is not window.tap]
    lanes = target.vector_bytes // right.dtype.itemsize
    last = inner[-1] if inner else window.column
    if not convolution.can_fill(right, last, facts, lanes):
        return None
    fill, length = (
        convolution.fill_cost(right, last, facts, target, lanes),
        tiling.size_of(last),
    )
    terms = DEPTH * 4 // right.dtype.itemsize
    if target.vector_bytes < target.cache_line:
        terms = min(terms, target.l1 // (_NEAR * target.vector_bytes))
    in_place = find.plain_form(left, facts) is not None
    return Shape(
        plan, window, target,
        outer=(*plan.outer, *plan.columns[:at]),
        inner=inner,
        others=tuple(find.in_memory_order([left], others, facts)),
        fill=fill / (length / -(-length // lanes)),
        deep=max(terms // window.taps, 1),
        together=tiling.rows_together([left], row if in_place else None, facts, target),
        in_place=in_place,
    )  # fmt: skip


def _schedules(
    kernel: Kernel, s: Shape, blocks: Blocks, facts: Facts
) -> Iterator[tree.Schedule]:
    """With the best tile of registers, then with that of each width."""
    window, target, lanes = s.window, s.target, s.lanes
    (left,), (right,), (row,) = s.plan.left, s.plan.right, s.plan.rows
    columns = Cut.of_first((window.column, *s.inner), blocks.lines)
    each = s.width * window.lines(blocks.lines)
    room = target.l2 // 2 // (each * s.item)
    depth = cut_ranges(s.others, max(min(s.deep, room), 1))
    rows = Cut.of_first([row], s.rows // blocks.parts)
    pitch = layout.whole_vectors(columns, lanes)
    short = (
        columns.split is not None and tiling.size_of(columns.split) % columns.size > 0
    )
    images = layout.images_of(
        right, (window,), columns, Part.of(depth, 1, facts.free[right]), lanes,
        apart=True, zeros=0 if short else None, behind=True,
    )  # fmt: skip
    still: Panel | Node = left
    if not s.in_place:
        summed = replace(depth, inner=(*depth.inner, window.tap))
        free = facts.free[left]
        deep = layout.not_aliased(summed.positions(free), s.item, lanes)
        parts = Part.of(rows, deep), Part.of(summed, 1, free)
        still = Panel("still", left, rows.length, deep, parts, zeros=0)
    parts = Part.of(rows, pitch), Part.of(columns, 1)
    sums = Panel("sums", s.plan.reduces[0], rows.length, pitch, parts)
    axes, places = (*rows.within, *columns.within), (*s.outer, columns, rows)
    store = tree.StoreResults((sums,), axes, (columns, rows))
    known = rows.length, pitch // lanes, target.registers, target.costs, s.together
    for tile in dict.fromkeys(
        (tiling.register_tile(*known), *tiling.register_tiles(*known))
    ):
        cuts, size = (rows, columns, depth), (tile.rows, tile.vectors)
        add = convolution.sums_over(images, still, *cuts, size, lanes, sums)
        yield tree.Schedule(kernel, lanes, places, convolution.slide(add, store))


def _candidates(s: Shape) -> list[Blocks]:
    """Blocks whose panels fit into the second cache; else the smallest."""
    found = [(_bytes(s, blocks), blocks) for blocks in _ways(s)]
    least = min((size for size, _ in found), default=0)
    room = max(s.target.l2 * 3 // 4, least)
    return [blocks for size, blocks in found if size <= room]


def _ways(s: Shape) -> Iterator[Blocks]:
    height, lines = s.rows, tiling.size_of(s.window.column)
    sizes: dict[int, None] = {}
    for count in (*range(1, _MOST_BLOCKS), *(n * lines // 8 for n in range(1, 9))):
        size = -(-lines // max(count, 1))
        even = lines % size == 0 and size % s.lanes == 0
        if s.inner or size == lines or even:
            sizes[size] = None
    for size in sizes:
        for parts in _PARTS:
            rows = height // parts
            if height % parts == 0 and (parts == 1 or rows >= 8):
                yield Blocks(size, parts)


def _bytes(s: Shape, blocks: Blocks) -> int:
    """Of the panels of a block."""
    positions = min(prod(map(tiling.size_of, s.others)), s.deep)
    rows = s.rows // blocks.parts
    lines = positions * s.window.lines(blocks.lines) + rows * blocks.lines
    return lines * s.width * s.item


def _cycles(s: Shape, blocks: Blocks) -> float:
    """Of all units, on all cores."""
    lines, columns = blocks.lines, blocks.lines * s.width
    evaluated = s.window.share(lines) * columns * s.depth
    each = _unit(s, s.rows // blocks.parts, columns, evaluated)
    units = prod(map(tiling.size_of, s.outer)) * blocks.parts
    units *= -(-tiling.size_of(s.window.column) // lines)
    return each * -(-units // s.target.cores)


def _unit(s: Shape, rows: int, columns: int, evaluated: float) -> float:
    vectors = -(-columns // s.lanes)
    costs = s.target.costs
    tile = tiling.register_tile(rows, vectors, s.target.registers, costs, s.together)
    return tile.cycles * s.depth + s.fill * evaluated + _BLOCK


def _without(s: Shape) -> float:
    """Where each column is evaluated for each tap, in blocks of many places."""
    lines = tiling.size_of(s.window.column)
    wide = prod(map(tiling.size_of, s.outer)) * lines * s.width
    some = min(wide, 12 * s.lanes)
    each = _unit(s, s.rows, some, some * s.depth)
    return each * max(wide / some, 1) / s.target.cores
