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

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod

from ftrace.devices.llvm.contraction.find import Contraction
from ftrace.devices.llvm.contraction.find_windows import Window, find_windows
from ftrace.devices.llvm.convolution.find import (
    cut_groups,
    fill_cost,
    is_sum_of_products,
    step_sizes,
)
from ftrace.devices.llvm.convolution.schedule import (
    Sliding,
    flat_columns,
    right_columns,
)
from ftrace.devices.llvm.convolution.skip_padding import Seen, find_padding
from ftrace.devices.llvm.convolution.still_operand import can_look_through
from ftrace.devices.llvm.emit.blocked_ranges import Cut
from ftrace.devices.llvm.schedule.index_facts import Facts
from ftrace.devices.llvm.schedule.tiling_ir import size_of, step_cycles
from ftrace.devices.llvm.target import Target
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

    plan: Contraction
    windows: tuple[Window, ...]
    left: Node
    right: Node
    channel: tuple[Node, ...]
    columns: tuple[Node, ...]
    others: tuple[Node, ...]
    channels_last: bool
    groups: bool = False

    @property
    def taps(self) -> int:
        return prod(w.taps for w in self.windows)


def find_sliding_sum(
    kernel: Kernel, plan: Contraction, facts: Facts, target: Target
) -> Sliding | None:
    """The contraction as such a gradient, if it is one."""
    if not is_sum_of_products(kernel, plan):
        return None
    rows = (plan.left[0], plan.right[0], plan.rows, plan.columns)
    columns = (plan.right[0], plan.left[0], plan.columns, plan.rows)
    for left, right, slid, still in (rows, columns):
        found = _as_sliding(plan, left, right, slid, still, facts)
        if found is None:
            continue
        lanes = target.vector_bytes // right.dtype.itemsize
        if len(still) == 1 and 4 * size_of(still[0]) >= lanes:
            return _schedule(found, facts, target)
    return None


def find_grouped_sum(plan: Contraction, facts: Facts, target: Target) -> Sliding | None:
    """The product of groups as such a gradient, if it is one."""
    (left,), (right,) = plan.left, plan.right
    found = _as_sliding(plan, left, right, plan.rows, plan.columns, facts)
    if found is None:
        return None
    found = replace(found, groups=True, channels_last=True)
    return _schedule(found, facts, target)


def _as_sliding(
    plan: Contraction,
    left: Node,
    right: Node,
    slid: Sequence[Node],
    still: Sequence[Node],
    facts: Facts,
) -> Shape | None:
    """The same with `left` as the operand that slides."""
    windows, beside = _windows(left, plan.ranges, slid, facts)
    if not windows or len(beside) > 1 or prod(w.taps for w in windows) > _MOST_TAPS:
        return None
    windows.sort(key=lambda w: slid.index(w.tap))
    pixels = [w.column for w in windows]
    walk = step_sizes(left, plan.ranges, facts)
    others = sorted((r for r in plan.ranges if r not in pixels), key=lambda r: -walk[r])
    last = fill_cost(left, pixels[-1], facts, 16) is None
    side = beside or [a for a in still[:1] if a in facts.free[left]]
    if last and (not side or fill_cost(left, side[0], facts, 16) is None):
        return None
    return Shape(
        plan,
        tuple(windows),
        left,
        right,
        tuple(beside),
        tuple(still),
        tuple(others),
        last,
    )


def _windows(
    left: Node, pixels: Sequence[Node], slid: Sequence[Node], facts: Facts
) -> tuple[list[Window], list[Node]]:
    """The windows, and the axes beside them.

    Windows that share no pixel (their stride is not less than they are long) save
    nothing; but beside others they make an axis that is not left over.
    """
    found = [
        w
        for w in find_windows(left, pixels, slid, facts, saving=False)
        if not w.turned and min(w.stride, w.dilation) == 1 and 2 * w.taps <= w.pixels
        if w.stride <= 2 * w.taps  # else most of the panel would not be read
    ]
    step = step_sizes(left, slid, facts)
    found.sort(key=lambda w: (w.share(w.pixels) >= 1, step[w.tap]))
    chosen: dict[Node, Window] = {}
    for window in found:
        saves = window.share(window.pixels) < 1
        if saves or (chosen and len(slid) - len(chosen) > 1):
            chosen.setdefault(window.tap, window)
    return list(chosen.values()), [a for a in slid if a not in chosen]


def _schedule(shape: Shape, facts: Facts, target: Target) -> Sliding:
    s, item = shape, shape.right.dtype.itemsize
    lanes = target.vector_bytes // item
    columns = _cut_columns(s, lanes, target)
    pitch = -(-columns.length // lanes) * lanes
    room = target.l2 // _SHARE // item  # elements of a panel
    rows = _cut_channels(s, columns.blocks, pitch, room, target)
    flat = flat_columns(s.columns, columns, facts)
    skips: tuple[Seen, ...] = ()
    if not s.groups and target.decides("skip_padding"):
        # A tile has taps side by side of all windows but the first, where it has more
        # than one.
        windows = s.windows if s.channels_last else s.windows[:1]
        high = dict.fromkeys(windows, 1)
        skips = find_padding(s.left, high, rows.length * s.taps, facts)
    tile, parts = _tile(s, rows.length, pitch // lanes, bool(skips), target)
    depth = _cut_pixels(s, rows.length, pitch, tile, room, lanes, target)
    still = right_columns(s.right, columns, flat, depth, pitch, facts)
    if skips and not can_look_through(still, columns, lanes):
        skips = ()
        tile, parts = _tile(s, rows.length, pitch // lanes, False, target)
    edges = [n * s.taps // parts for n in range(parts + 1)]
    return Sliding(
        s.plan, lanes, s.windows, s.left, still, s.plan.outer, rows, columns, depth,
        depth, tile, tuple(range(*pair) for pair in pairwise(edges)), flat,
        s.channels_last, s.groups, cleared=True, adds=True, skips=skips,
    )  # fmt: skip


def _cut_columns(s: Shape, lanes: int, target: Target) -> Cut:
    """Blocks of columns: whole vectors, where they are not all in one."""
    vectors = -(-prod(map(size_of, s.columns)) // lanes)
    if s.groups:
        each = 1  # with channels, vectors stay near each other
        if not s.channel:  # long rows of memory, but as much for each core
            cores = -(-target.cores // prod(map(size_of, s.plan.outer)))
            rounds = -(-vectors // (_VECTORS * cores))
            each = -(-vectors // (rounds * cores))
        return cut_groups(s.columns, each * lanes)
    each = -(-vectors // -(-vectors // _VECTORS))
    if each < vectors:
        return Cut((), s.columns[0], each * lanes, ())
    return Cut((), None, 1, s.columns)


def _cut_channels(s: Shape, blocks: int, pitch: int, room: int, target: Target) -> Cut:
    """Blocks of channels: enough units, whose sums fit into the second cache.

    Args:
      blocks: of columns, of so many each.
      room: elements of a panel.
    """
    if not s.channel or s.groups:
        return Cut((), None, 1, s.channel)
    size = whole = size_of(s.channel[0])
    others = prod(map(size_of, s.plan.outer)) * blocks
    for n in (n for n in range(1, whole + 1) if whole % n == 0):
        fits = whole // n * s.taps * pitch <= room
        if n > 1 and fits and whole // n * s.taps < _LEAST_ROWS:
            break
        size = whole // n
        if fits and n * others >= 2 * target.cores:
            break
    if size == whole:
        return Cut((), None, 1, s.channel)
    return Cut((), s.channel[0], size, ())


def _cut_pixels(
    s: Shape, channels: int, pitch: int, tile: tuple[int, int], room: int, lanes: int,
    target: Target,
) -> Cut:  # fmt: skip
    """Blocks of lines: what a tile reads of the right panel stays near it."""
    first, *rest = [w.column for w in s.windows]
    inside = prod(map(size_of, rest))
    line = prod(w.reach(w.pixels, w.whole) for w in s.windows[1:])
    each = pitch if s.groups else 1
    step = s.windows[0].stride * line * channels * each
    strip = inside * tile[1] * lanes
    near = target.l1 // 2 // s.right.dtype.itemsize
    most = max(min(room // max(inside * pitch, step), near // strip), 1)
    size = size_of(first)
    if most >= size:
        return Cut(s.others, None, 1, (first, *rest))
    size = -(-size // -(-size // most))
    if not rest:  # turned in squares
        size = max(most // lanes, 1) * lanes
    return Cut(s.others, first, size, tuple(rest))


def _tile(
    s: Shape, channels: int, vectors: int, skips: bool, target: Target
) -> tuple[tuple[int, int], int]:
    """The best tile, channels and vectors, and in how many parts the taps are."""
    best, least = ((1, 1), s.taps), float("inf")
    for wide in range(1, min(vectors, 4) + 1):
        room = max((target.registers - 2 - wide) // wide, 1)
        if s.channels_last and not s.groups:  # numbers side by side
            high, parts = min(room, channels), s.taps
        else:
            whole = s.windows[0].taps if skips else 1
            each = s.taps // whole
            high, parts = min(max(room // each, 1), channels), -(-each // room) * whole
        rows = -(-s.taps // parts) * high
        across, rest = divmod(vectors, wide)
        cycles = across * step_cycles(rows, wide)
        cycles += step_cycles(rows, rest) if rest else 0.0
        cycles *= parts * -(-channels // high)
        if cycles < least * 0.999:
            best, least = ((high, wide), parts), cycles
    return best
