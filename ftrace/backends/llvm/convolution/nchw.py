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
from ftrace.backends.llvm.schedule import layout, tiling_ir as tiling
from ftrace.backends.llvm.schedule.index_facts import Facts
from ftrace.backends.llvm.schedule.layout import Cut, Panel, Part, Window, cut_ranges
from ftrace.backends.llvm.schedule.schedule_tree import Schedule
from ftrace.backends.llvm.schedule.tiling_ir import size_of
from ftrace.backends.llvm.target import Target
from ftrace.ground.fast_dataclasses import NamedTuple
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


class _Sliding(NamedTuple):
    """How a contraction is such a convolution.

    Attributes:
      columns: the window's, and those inside.
      outer: those around it.
      others: what is summed over beside the taps.
      deep: terms of a block of `others` at most.
      together: rows that do not push each other out of the cache.
      rows, width, units, depth: how many there are; of columns for a line, of axes
        around it, and of terms.
      lanes: of a vector.
      fill: cycles to evaluate an element of the image.
    """

    window: Window
    columns: tuple[Node, ...]
    outer: tuple[Node, ...]
    others: tuple[Node, ...]
    deep: int
    in_place: bool
    together: int
    rows: int
    width: int
    units: int
    depth: int
    lanes: int
    fill: float
    target: Target


def find_sliding(
    kernel: Kernel, plan: find.Contraction, facts: Facts, target: Target
) -> Iterator[Schedule]:
    """The contraction as a convolution, where that pays."""
    if len(plan.rows) != 1 or not convolution.is_sum_of_products(kernel, plan):
        return
    least, best = float("inf"), list[tuple[_Sliding, tuple[int, int]]]()
    for window in convolution.find_windows(
        plan.right[0], plan.columns, plan.ranges, facts
    ):
        s = _sliding(plan, window, facts, target)
        cycles = {} if s is None else _ways(s)
        if s is not None and min(cycles.values(), default=least) < least:
            best = [(s, way) for way in sorted(cycles, key=cycles.__getitem__)]
            least = cycles[best[0][1]]
    for s, way in best:
        yield from _schedules(kernel, plan, s, *way, facts)


def _sliding(
    plan: find.Contraction, window: Window, facts: Facts, target: Target
) -> _Sliding | None:
    (left,), (right,), (row,) = plan.left, plan.right, plan.rows
    at, item = plan.columns.index(window.column), right.dtype.itemsize
    columns, outer = plan.columns[at:], (*plan.outer, *plan.columns[:at])
    lanes, last = target.vector_bytes // item, columns[-1]
    if not convolution.can_fill(right, last, facts, lanes):
        return None
    terms, in_place = DEPTH * 4 // item, find.plain_form(left, facts) is not None
    if target.vector_bytes < target.cache_line:
        terms = min(terms, target.l1 // (_NEAR * target.vector_bytes))
    others = [r for r in plan.ranges if r is not window.tap]
    others = find.in_memory_order([left], others, facts)
    return _Sliding(
        window, columns, outer, tuple(others),
        max(terms // window.taps, 1), in_place,
        tiling.rows_together([left], row if in_place else None, facts, target),
        size_of(row), prod(map(size_of, columns[1:])), prod(map(size_of, outer)),
        prod(map(size_of, plan.ranges)), lanes,
        convolution.fill_cost(right, last, facts, target, lanes), target,
    )  # fmt: skip


def _schedules(
    kernel: Kernel, plan: find.Contraction, s: _Sliding, lines: int, parts: int,
    facts: Facts,
) -> Iterator[Schedule]:  # fmt: skip
    """With the best tile of registers, then with that of each width."""
    (left,), (right,), lanes = plan.left, plan.right, s.lanes
    columns, rows = (
        Cut.of_first(s.columns, lines),
        Cut.of_first(plan.rows, s.rows // parts),
    )
    seen = s.width * s.window.lines(lines) * right.dtype.itemsize
    depth = cut_ranges(s.others, max(min(s.deep, s.target.l2 // 2 // seen), 1))
    short = columns.split is not None and s.window.pixels % columns.size > 0
    images = layout.images_of(
        right, (s.window,), columns, Part.of(depth, 1, facts.free[right]), lanes,
        apart=True, zeros=0 if short else None, behind=True,
    )  # fmt: skip
    still: Panel | Node = left
    if not s.in_place:
        summed = replace(depth, inner=(*depth.inner, s.window.tap))
        free = facts.free[left]
        deep = summed.positions(free)
        deep = layout.not_aliased(deep, right.dtype.itemsize, lanes)
        stand = Part.of(rows, deep), Part.of(summed, 1, free)
        still = Panel("still", left, rows.length, deep, stand, zeros=0)
    vectors = layout.whole_vectors(columns, lanes) // lanes
    yield from convolution.slide(
        kernel, plan, images, still, (rows, columns, depth), (*s.outer, columns, rows),
        lanes, tiling.ways_to_tile(rows.length, vectors, s.target, s.together),
    )  # fmt: skip


def _ways(s: _Sliding) -> dict[tuple[int, int], float]:
    """Cycles with so many lines and parts of the rows, of all units on all cores.

    Panels of a block fit into the second cache; else they are the smallest.
    """
    pixels, target = s.window.pixels, s.target
    counts = (*range(1, _MOST_BLOCKS), *(n * pixels // 8 for n in range(1, 9)))
    sizes = dict.fromkeys(-(-pixels // max(count, 1)) for count in counts)
    terms = min(prod(map(size_of, s.others)), s.deep)
    places, cycles = dict[tuple[int, int], int](), dict[tuple[int, int], float]()
    for size in sizes:
        even = size == pixels or pixels % size == size % s.lanes == 0
        for parts in _PARTS if even or len(s.columns) > 1 else ():
            rows, columns = s.rows // parts, size * s.width
            if parts > 1 and (s.rows % parts or rows < 8):
                continue
            units = s.units * parts * -(-pixels // size)
            each = _unit(s, rows, columns, s.window.share(size) * columns * s.depth)
            cycles[size, parts] = each * -(-units // target.cores)
            places[size, parts] = terms * s.window.lines(size) + rows * size
    room = target.l2 * 3 // 4 // (s.width * target.vector_bytes // s.lanes)
    room = max(room, min(places.values(), default=0))
    return {way: found for way, found in cycles.items() if places[way] <= room}


def _unit(s: _Sliding, rows: int, columns: int, evaluated: float) -> float:
    vectors, registers = -(-columns // s.lanes), s.target.registers
    tile = tiling.register_tile(rows, vectors, registers, s.target.costs, s.together)
    return tile.cycles * s.depth + s.fill * evaluated + _BLOCK
