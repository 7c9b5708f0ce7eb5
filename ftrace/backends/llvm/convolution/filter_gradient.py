"""Gradients of convolutions by their filters: the window is what is left of the sum.

    out[c, t, j] = f(the sum over p of left(c, p + t) · right(p, j), …)

The taps t are axes of the result, and the sum runs over the pixels. The left operand is
evaluated once for each pixel that a block sees, into a panel with padding; its numbers
are spread over vectors one at a time, so that taps, strides and dilations are distances
in it. The right operand is evaluated once for each pixel, columns side by side. A tile
is the taps of some channels, and vectors of columns. A unit has all pixels: the result
does not depend on how units are shared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from math import prod

from ftrace.backends.llvm.contraction import find as contraction
from ftrace.backends.llvm.convolution import find as convolution
from ftrace.backends.llvm.schedule import layout
from ftrace.backends.llvm.schedule.index_facts import Facts
from ftrace.backends.llvm.schedule.layout import Cut, Part, Window
from ftrace.backends.llvm.schedule.schedule_tree import Schedule
from ftrace.backends.llvm.schedule.tiling_ir import row_cycles, size_of
from ftrace.backends.llvm.target import Target
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.lower.kernel.ir import Kernel
from ftrace.trace.graph import Node

#: Taps of all windows at most: their tiles are written one after the other.
_MOST_TAPS = 128
#: Vectors of a block of columns.
_VECTORS = 8
#: Rows of a unit at least, where there are more than cores need: each fills a panel.
_LEAST_ROWS = 48
#: The part of L2 that each panel may take.
_SHARE = 4


class _Sliding(NamedTuple):
    """How a contraction is the gradient of a convolution by its filters.

    Attributes:
      plan: the left operand slides; of groups there are two axes of columns.
      windows: each of a pixel range and an axis of taps.
      channel: the axis that the left operand has beside its taps, if any.
      others: what is summed over beside the pixels.
      channels_last: the left operand is evaluated in vectors of channels.
      taps: of all windows.
      lanes: of a vector, or groups in one.
    """

    plan: contraction.Contraction
    windows: list[Window]
    channel: list[Node]
    others: tuple[Node, ...]
    channels_last: bool
    taps: int
    lanes: int


def find_sliding_sum(
    kernel: Kernel, plan: contraction.Contraction, facts: Facts, target: Target
) -> Iterator[Schedule]:
    """The contraction as such a gradient, if it is one."""
    if not convolution.is_sum_of_products(kernel, plan):
        return
    lanes = target.vector_bytes // plan.reduces[0].dtype.itemsize
    sides = {"rows": plan.columns, "columns": plan.rows}
    ways = plan, replace(plan, left=plan.right, right=plan.left, **sides)
    ways = [
        w for w in ways if len(w.columns) == 1 and 4 * size_of(w.columns[0]) >= lanes
    ]
    groups = convolution.with_groups(kernel, plan, facts, lanes)
    if groups is not None and target.decides("sliding_rows"):
        ways.insert(0, groups)
    for s in filter(None, (_as_sliding(way, lanes, facts) for way in ways)):
        yield from _schedules(s, kernel, facts, target)
        return


def _as_sliding(
    plan: contraction.Contraction, lanes: int, facts: Facts
) -> _Sliding | None:
    """With the left operand as the one that slides."""
    (left,), groups = plan.left, len(plan.columns) > 1
    windows, channel = _windows(plan, facts)
    taps, pixels = prod(w.taps for w in windows), [w.column for w in windows]
    if not windows or len(channel) > 1 or taps > _MOST_TAPS:
        return None
    last = groups or not convolution.can_fill(left, pixels[-1], facts)
    if last and not (channel and convolution.can_fill(left, channel[0], facts)):
        return None
    others = [r for r in plan.ranges if r not in pixels]
    others = tuple(contraction.in_memory_order([left], others, facts))
    return _Sliding(plan, windows, channel, others, last, taps, lanes)


def _windows(
    plan: contraction.Contraction, facts: Facts
) -> tuple[list[Window], list[Node]]:
    """The windows, and the axes beside them.

    Windows that share no pixel (their stride is not less than they are long) save
    nothing; but beside others they make an axis that is not left over.
    """
    slid = plan.rows
    found = [
        w
        for w in convolution.find_windows(
            plan.left[0], plan.ranges, slid, facts, saving=False
        )
        if not w.turned and min(w.stride, w.dilation) == 1 and 2 * w.taps <= w.pixels
    ]
    step = contraction.step_sizes(plan.left, slid, facts)
    found.sort(key=lambda w: (w.share(w.pixels) >= 1, step[w.tap]))
    chosen: dict[Node, Window] = {}
    for window in found:
        saves = window.share(window.pixels) < 1
        if saves or (chosen and len(slid) - len(chosen) > 1):
            chosen.setdefault(window.tap, window)
    windows = [chosen[axis] for axis in slid if axis in chosen]
    return windows, [axis for axis in slid if axis not in chosen]


def _schedules(
    s: _Sliding, kernel: Kernel, facts: Facts, target: Target
) -> Iterator[Schedule]:
    (left,), (right,), (*more, _) = s.plan.left, s.plan.right, s.plan.columns
    columns = convolution.cut_columns(s.plan.columns, s.lanes, _VECTORS)
    lanes = columns.size if more else s.lanes
    pitch = layout.whole_vectors(columns, lanes)
    room = target.l2 // _SHARE // right.dtype.itemsize  # elements of a panel
    rows = _cut_channels(s, columns.blocks, pitch, room, target)
    tile, parts = _tile(s, rows.length, pitch // lanes, target)
    depth = _cut_pixels(s, rows.length, pitch, tile[1] * lanes, room, target)
    images = layout.images_of(
        left, s.windows, depth, Part.of(rows, 1, facts.free[left]), lanes,
        channels_last=s.channels_last, groups=columns if more else None, zeros=0,
    )  # fmt: skip
    still = convolution.still_operand(right, columns, depth, lanes, facts)
    edges = [n * s.taps // parts for n in range(parts + 1)]  # as equal as can be
    yield from convolution.slide(
        kernel, s.plan, images, still, (rows, columns, depth),
        (*s.plan.outer, rows, columns), lanes, [tile], [w.tap for w in s.windows],
        tuple(range(*pair) for pair in pairwise(edges)),
    )  # fmt: skip


def _cut_channels(
    s: _Sliding, blocks: int, pitch: int, room: int, target: Target
) -> Cut:
    """Blocks of channels: enough units, whose sums fit into the second cache.

    Args:
      blocks: of columns, of so many each.
      room: elements of a panel.
    """
    if not s.channel:
        return Cut.whole(())
    size = whole = size_of(s.channel[0])
    others = prod(map(size_of, s.plan.outer)) * blocks
    for n in (n for n in range(1, whole + 1) if whole % n == 0):
        taps = whole // n * s.taps
        few = taps < _LEAST_ROWS and len(s.plan.columns) == 1
        if n > 1 and few and taps * pitch <= room:
            break
        size = whole // n
        if taps * pitch <= room and n * others >= 2 * target.cores:
            break
    return Cut.of_first(s.channel, size)


def _cut_pixels(
    s: _Sliding, channels: int, pitch: int, wide: int, room: int, target: Target
) -> Cut:
    """Blocks of lines: what a tile reads of the right panel stays near it."""
    first, *rest = [w.column for w in s.windows]
    inside, size, lines = prod(map(size_of, rest)), size_of(first), s.windows[1:]
    line = prod(w.reach(w.pixels, w.whole) for w in lines)
    groups = min(wide, s.lanes) if len(s.plan.columns) > 1 else 1
    step = s.windows[0].stride * line * channels * groups
    near = target.l1 // 2 // s.plan.right[0].dtype.itemsize
    most = max(min(room // max(inside * pitch, step), near // (inside * wide)), 1)
    if most < size and not rest:
        most = max(most // s.lanes, 1) * s.lanes  # turned in squares
    elif most < size:
        most = -(-size // -(-size // most))
    return replace(Cut.of_first([first, *rest], most), outer=s.others)


def _tile(
    s: _Sliding, channels: int, vectors: int, target: Target
) -> tuple[tuple[int, int], int]:
    """The best tile, channels and vectors, and in how many parts the taps are."""
    best, least = ((1, 1), s.taps), float("inf")
    for wide in range(1, min(vectors, 4) + 1):
        room = max((target.registers - 2 - wide) // wide, 1)
        high, parts = min(max(room // s.taps, 1), channels), -(-s.taps // room)
        if s.channels_last and len(s.plan.columns) == 1:  # numbers side by side
            high, parts = min(room, channels), s.taps
        rows = -(-s.taps // parts) * high
        cycles = parts * -(-channels // high)
        cycles *= row_cycles(rows, wide, vectors, target.costs)
        if cycles < least * 0.999:
            best, least = ((high, wide), parts), cycles
    return best
