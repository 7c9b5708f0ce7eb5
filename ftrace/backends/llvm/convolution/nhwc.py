"""Convolutions whose left operand slides along the rows: numbers of pixels.

    out[p, j] = f(the sum over c, t of left(p + t, c) · right(j, c, t), …)
    out[p, g, o] = f(the sum over c, t of left(p + t, g, c) · right(g, c, t, o), …)

A unit is a block of lines of pixels, and of columns. The left operand is evaluated once
for each pixel that the block sees, into a panel with padding: its numbers are spread
over vectors one at a time, so that taps and strides are distances in it and nothing
else. Tiles are pixels of one line beside each other, and vectors of columns.

A group has too few places for vectors. So lanes are groups: that panel has a vector of
them where it would have a number, and for each place of a group there is one of sums.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from ftrace.backends.llvm.contraction.find import Contraction, in_memory_order
from ftrace.backends.llvm.convolution import find as convolution
from ftrace.backends.llvm.schedule import (
    layout,
    schedule_tree as tree,
    tiling_ir as tiling,
)
from ftrace.backends.llvm.schedule.index_facts import Facts
from ftrace.backends.llvm.schedule.layout import Cut, Part, Window, cut_ranges
from ftrace.backends.llvm.target import Target
from ftrace.lower.kernel.ir import Kernel
from ftrace.trace.graph import Node

#: Terms of a sum that are added up before they are put aside (of 4-byte elements).
DEPTH = 512
#: Pixels of a block at least, where there are more than cores need.
_FEW_PIXELS = 64
#: Images of fewer pixels share the weights of a block.
_MANY_PIXELS = 128
#: Vectors in a row of a block of columns; where such blocks are not alike.
_VECTORS = 12, 16
#: The part of the second cache that the sums, or the panel of groups, may take.
_SHARE = 4


def find_sliding_rows(
    kernel: Kernel, plan: Contraction, facts: Facts, target: Target
) -> Iterator[tree.Schedule]:
    """The contraction as a convolution with channels last, if it is one."""
    if not convolution.is_sum_of_products(kernel, plan):
        return
    (left,), (*more, column) = plan.left, plan.columns
    item = left.dtype.itemsize
    lanes = target.vector_bytes // item
    groups = convolution.with_groups(kernel, plan, facts, lanes)
    windows: dict[Node, Window] = {}  # one for each axis of taps
    for window in convolution.find_windows(left, plan.rows, plan.ranges, facts):
        windows.setdefault(window.tap, window)
    others = [r for r in plan.ranges if r not in windows]
    others = in_memory_order([left], others, facts)
    if not windows or not others or more or tiling.size_of(plan.rows[-1]) < 4:
        return
    if not convolution.can_fill(left, others[-1], facts):
        return
    if groups is None and tiling.size_of(column) * item < 32:
        return
    plan = groups or plan
    columns = convolution.cut_columns(plan.columns, lanes, *_VECTORS)
    deep = max(DEPTH * 4 // item // prod(w.taps for w in windows.values()), 1)
    depth = cut_ranges(others, deep, lanes)
    known = list(windows.values()), columns, depth
    yield from _schedules(kernel, plan, *known, facts, target)


def _schedules(
    kernel: Kernel, plan: Contraction, windows: list[Window], columns: Cut, depth: Cut,
    facts: Facts, target: Target,
) -> Iterator[tree.Schedule]:  # fmt: skip
    """With the best tile of registers, then with that of each width."""
    (left,), (right,), (total,) = plan.left, plan.right, plan.reduces
    lanes, groups = target.vector_bytes // total.dtype.itemsize, len(plan.columns) > 1
    lanes = columns.size if groups else lanes
    pitch = layout.whole_vectors(columns, lanes)
    each = max(pitch, depth.length * lanes) if groups else pitch
    room = target.l2 // _SHARE // total.dtype.itemsize // each
    rows, outer = _cut_rows(plan, windows, columns.blocks, room, target)
    summed = replace(depth, inner=(*depth.inner, *[w.tap for w in windows]))
    still = convolution.still_operand(right, columns, summed, lanes, facts)
    images = layout.images_of(
        left, windows, rows, Part.of(depth, 1, facts.free[left]), lanes,
        channels_last=True, groups=columns if groups else None,
    )  # fmt: skip
    yield from convolution.slide(
        kernel, plan, images, still, (rows, columns, depth), (*outer, rows, columns),
        lanes, tiling.ways_to_tile(rows.extents[-1], pitch // lanes, target),
        place=columns.within[1] if groups else None,
    )  # fmt: skip


def _cut_rows(
    plan: Contraction, windows: list[Window], columns: int, room: int, target: Target
) -> tuple[Cut, tuple[Node, ...]]:
    """Blocks of lines, and the axes around them: small images are several in a block.

    Args:
      columns: blocks of them.
      room: pixels of a block at most.
    """
    at = min(plan.rows.index(w.column) for w in windows)
    if at and prod(map(tiling.size_of, plan.rows[at:])) < _MANY_PIXELS:
        at -= 1
    first, *rest = rows = plan.rows[at:]
    outer = (*plan.outer, *plan.rows[:at])
    units = columns * prod(map(tiling.size_of, outer))
    size, inside = tiling.size_of(first), prod(map(tiling.size_of, rest))
    while rest and size > 1:
        few = units * -(-tiling.size_of(first) // size) < 4 * target.cores
        if size * inside <= room and (size * inside <= _FEW_PIXELS or not few):
            break
        size = -(-size // 2)
    return Cut.of_first(rows, size), outer
