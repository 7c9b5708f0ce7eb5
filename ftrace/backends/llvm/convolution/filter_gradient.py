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

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod

from ftrace.backends.llvm.contraction import find as contraction
from ftrace.backends.llvm.convolution import find as convolution
from ftrace.backends.llvm.schedule import layout, schedule_tree as tree
from ftrace.backends.llvm.schedule.index_facts import Facts
from ftrace.backends.llvm.schedule.layout import Cut, Panel, Part, Window
from ftrace.backends.llvm.schedule.tiling_ir import size_of, step_cycles
from ftrace.backends.llvm.target import Target
from ftrace.ground.fast_dataclasses import dataclass
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


@dataclass(frozen=True, eq=False)
class Shape:
    """How a contraction is the gradient of a convolution by its filters.

    Attributes:
      windows: each of a pixel range and an axis of taps.
      left, right: the operand that slides, and the other one.
      channel: the axis that the left one has beside its taps, if any.
      columns: the axis of the right one; of groups, the two that lie side by side.
      others: what is summed over beside the pixels.
      channels_last: the left one is evaluated in vectors of channels.
    """

    plan: contraction.Contraction
    windows: tuple[Window, ...]
    left: Node
    right: Node
    channel: tuple[Node, ...]
    columns: tuple[Node, ...]
    others: tuple[Node, ...]
    channels_last: bool

    @property
    def groups(self) -> bool:
        return len(self.columns) > 1

    @property
    def taps(self) -> int:
        return prod(w.taps for w in self.windows)


def find_sliding_sum(
    kernel: Kernel, plan: contraction.Contraction, facts: Facts, target: Target
) -> Iterator[tree.Schedule]:
    """The contraction as such a gradient, if it is one."""
    if not convolution.is_sum_of_products(kernel, plan):
        return
    lanes = target.vector_bytes // plan.reduces[0].dtype.itemsize
    groups = convolution.with_groups(kernel, plan, facts, lanes)
    if groups is not None and target.decides("sliding_rows"):
        sides = groups.left[0], groups.right[0], groups.rows, groups.columns
        found = _as_sliding(groups, *sides, facts)
        if found is not None:
            yield _schedule(found, kernel, facts, target)
            return
    rows = (plan.left[0], plan.right[0], plan.rows, plan.columns)
    columns = (plan.right[0], plan.left[0], plan.columns, plan.rows)
    for left, right, slid, still in (rows, columns):
        if len(still) != 1 or 4 * size_of(still[0]) < lanes:
            continue
        found = _as_sliding(plan, left, right, slid, still, facts)
        if found is not None:
            yield _schedule(found, kernel, facts, target)
            return


def _as_sliding(
    plan: contraction.Contraction, left: Node, right: Node, slid: Sequence[Node],
    columns: tuple[Node, ...], facts: Facts,
) -> Shape | None:  # fmt: skip
    """The same with `left` as the operand that slides."""
    windows, beside = _windows(left, plan.ranges, slid, facts)
    if not windows or len(beside) > 1 or prod(w.taps for w in windows) > _MOST_TAPS:
        return None
    windows.sort(key=lambda w: slid.index(w.tap))
    pixels = [w.column for w in windows]
    last = len(columns) > 1 or not convolution.can_fill(left, pixels[-1], facts)
    if last and not (beside and convolution.can_fill(left, beside[0], facts)):
        return None
    others = [r for r in plan.ranges if r not in pixels]
    others = contraction.in_memory_order([left], others, facts)
    sides = tuple(beside), columns, tuple(others)
    return Shape(plan, tuple(windows), left, right, *sides, last)


def _windows(
    left: Node, pixels: Sequence[Node], slid: Sequence[Node], facts: Facts
) -> tuple[list[Window], list[Node]]:
    """The windows, and the axes beside them.

    Windows that share no pixel (their stride is not less than they are long) save
    nothing; but beside others they make an axis that is not left over.
    """
    found = [
        w
        for w in convolution.find_windows(left, pixels, slid, facts, saving=False)
        if not w.turned and min(w.stride, w.dilation) == 1 and 2 * w.taps <= w.pixels
        if w.stride <= 2 * w.taps  # else most of the panel would not be read
    ]
    step = contraction.step_sizes([left], slid, facts)
    found.sort(key=lambda w: (w.share(w.pixels) >= 1, step[w.tap]))
    chosen: dict[Node, Window] = {}
    for window in found:
        saves = window.share(window.pixels) < 1
        if saves or (chosen and len(slid) - len(chosen) > 1):
            chosen.setdefault(window.tap, window)
    return list(chosen.values()), [a for a in slid if a not in chosen]


def _schedule(
    shape: Shape, kernel: Kernel, facts: Facts, target: Target
) -> tree.Schedule:
    s, item = shape, shape.right.dtype.itemsize
    lanes = target.vector_bytes // item
    columns = _cut_columns(s.columns, lanes)
    lanes = columns.size if s.groups else lanes
    pitch = layout.whole_vectors(columns, lanes)
    room = target.l2 // _SHARE // item  # elements of a panel
    rows = _cut_channels(s, columns.blocks, pitch, room, target)
    tile, parts = _tile(s, rows.length, pitch // lanes, target)
    depth = _cut_pixels(s, rows.length, pitch, tile, room, lanes, target)
    beside = Part.of(rows, 1, facts.free[s.left])
    images = layout.images_of(
        s.left, s.windows, depth, beside, lanes, channels_last=s.channels_last,
        groups=columns if s.groups else None, zeros=0,
    )  # fmt: skip
    taps = Cut.whole([w.tap for w in s.windows])
    places = (
        Part.of(rows, pitch * taps.length), Part.of(taps, pitch), Part.of(columns, 1)
    )  # fmt: skip
    height = rows.length * taps.length
    sums = Panel("sums", s.plan.reduces[0], height, pitch, places)
    still = convolution.still_operand(s.right, columns, depth, lanes, facts)
    cuts = rows, columns, depth
    add = convolution.sums_over(
        images, still, *cuts, tile, lanes, sums, _in_parts(s.taps, parts)
    )
    inside = {*rows.within, *taps.within, *columns.within}
    axes = tuple(a for a in kernel.axes if a in inside)
    store = tree.StoreResults((sums,), axes, (columns, rows))
    places = (*s.plan.outer, rows, columns)
    return tree.Schedule(kernel, lanes, places, convolution.slide(add, store))


def _in_parts(count: int, parts: int) -> tuple[range, ...]:
    """So many taps in parts as equal as can be."""
    edges = [n * count // parts for n in range(parts + 1)]
    return tuple(range(*pair) for pair in pairwise(edges))


def _cut_columns(columns: tuple[Node, ...], lanes: int) -> Cut:
    """Blocks of columns: whole vectors, if they are not all in one; of groups one."""
    *groups, column = columns
    if groups:
        return convolution.cut_groups(columns, lanes)
    vectors = -(-size_of(column) // lanes)
    each = -(-vectors // -(-vectors // _VECTORS))
    return Cut((), column, each * lanes, ()) if each < vectors else Cut.whole([column])


def _cut_channels(s: Shape, blocks: int, pitch: int, room: int, target: Target) -> Cut:
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
        fits = whole // n * s.taps * pitch <= room
        if n > 1 and fits and whole // n * s.taps < _LEAST_ROWS and not s.groups:
            break
        size = whole // n
        if fits and n * others >= 2 * target.cores:
            break
    return Cut.of_first(s.channel, size)


def _cut_pixels(
    s: Shape, channels: int, pitch: int, tile: tuple[int, int], room: int, lanes: int,
    target: Target,
) -> Cut:  # fmt: skip
    """Blocks of lines: what a tile reads of the right panel stays near it."""
    first, *rest = [w.column for w in s.windows]
    inside = prod(map(size_of, rest))
    line = prod(w.reach(w.pixels, w.whole) for w in s.windows[1:])
    step = s.windows[0].stride * line * channels * (lanes if s.groups else 1)
    strip = inside * tile[1] * lanes
    near = target.l1 // 2 // s.right.dtype.itemsize
    most = max(min(room // max(inside * pitch, step), near // strip), 1)
    size = most
    if most < size_of(first):
        size = -(-size_of(first) // -(-size_of(first) // most))
        size = size if rest else max(most // lanes, 1) * lanes  # turned in squares
    return replace(Cut.of_first([first, *rest], size), outer=s.others)


def _tile(
    s: Shape, channels: int, vectors: int, target: Target
) -> tuple[tuple[int, int], int]:
    """The best tile, channels and vectors, and in how many parts the taps are."""
    taps = s.taps
    best, least = ((1, 1), taps), float("inf")
    for wide in range(1, min(vectors, 4) + 1):
        room = max((target.registers - 2 - wide) // wide, 1)
        high, parts = min(max(room // taps, 1), channels), -(-taps // room)
        if s.channels_last and not s.groups:  # numbers side by side
            high, parts = min(room, channels), taps
        rows = -(-taps // parts) * high
        across, rest = divmod(vectors, wide)
        cycles = across * step_cycles(rows, wide, target.costs)
        cycles += step_cycles(rows, rest, target.costs) if rest else 0.0
        cycles *= parts * -(-channels // high)
        if cycles < least * 0.999:
            best, least = ((high, wide), parts), cycles
    return best
