"""Gradients of convolutions by their filters: the window is what is left of the sum.

    out[c, t, j] = f(the sum over p of left(c, p + t) · right(p, j), …)

The taps t are axes of the result, and the sum runs over the pixels. The left operand is
evaluated once for each pixel that a block sees, into a panel with padding; its numbers
are spread over vectors one at a time, so that taps, strides and dilations are distances
in it. The right operand is evaluated once for each pixel, columns side by side. A tile
is the taps of some channels, and vectors of columns. A unit has all pixels: the result
does not depend on how units are shared.

    out[g, t] = f(the sum over i, p of left(i, g, p + t) · right(i, g, p))

Here nothing is beside the taps but axes that both operands have, as in depthwise ones,
so that there are no columns for vectors; or the right operand has an axis of its own,
too short for them, whose places are written out like taps. So lanes run along the
pixels. The left operand is evaluated once for each pixel of some images, into a panel
without holes: the taps of a window that moves by more than one pixel fall into classes
(see `find.py`), and what a class sees lies side by side. Then one pass over the pixels
adds up all taps, and the right operand is read once for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod

from ftrace.backends.llvm.contraction import find as contraction
from ftrace.backends.llvm.convolution import find as convolution, operands
from ftrace.backends.llvm.schedule import layout, schedule_tree as tree
from ftrace.backends.llvm.schedule.index_facts import Facts
from ftrace.backends.llvm.schedule.layout import Cut, Panel, Part, cut_ranges
from ftrace.backends.llvm.schedule.tiling_ir import size_of, step_cycles
from ftrace.backends.llvm.schedule.windows import Window
from ftrace.backends.llvm.target import Target
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.kernel.ir import Kernel
from ftrace.lower.kernel.loop_tree import ReduceLoop
from ftrace.trace.graph import Node

#: Taps of all windows at most: their tiles are written one after the other; and where
#: lanes are pixels, each being an expression of its own.
_MOST_TAPS, _MOST_SUMS = 128, 64
#: Vectors of a block of columns.
_VECTORS = 8
#: Rows of a unit at least, where there are more than cores need: each fills a panel.
_LEAST_ROWS = 48
#: The part of L2 that each panel may take.
_SHARE = 4
#: Where lanes are pixels: products of the whole kernel at least; registers beside those
#: of the sums; the part of the first cache that images of a block take, and of the
#: second that the panel of one may take.
_LEAST = 1 << 14
_SPARE = 6
#: How many elements ahead a pass over pixels asks for.
_AHEAD = 1024
_PIXELS_SHARE = 2


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
    groups: bool = False

    @property
    def taps(self) -> int:
        return prod(w.taps for w in self.windows)


def find_sliding_sum(
    kernel: Kernel, plan: contraction.Contraction, facts: Facts, target: Target
) -> tree.Schedule | None:
    """The contraction as such a gradient, if it is one."""
    if not convolution.is_sum_of_products(kernel, plan):
        return None
    rows = (plan.left[0], plan.right[0], plan.rows, plan.columns)
    columns = (plan.right[0], plan.left[0], plan.columns, plan.rows)
    for left, right, slid, still in (rows, columns):
        found = _as_sliding(plan, left, right, slid, still, facts)
        if found is None:
            continue
        lanes = target.vector_bytes // right.dtype.itemsize
        if len(still) == 1 and 4 * size_of(still[0]) >= lanes:
            return _schedule(found, kernel, facts, target)
    return None


def find_grouped_sum(
    kernel: Kernel, plan: contraction.Contraction, facts: Facts, target: Target
) -> tree.Schedule | None:
    """The product of groups as such a gradient, if it is one."""
    (left,), (right,) = plan.left, plan.right
    found = _as_sliding(plan, left, right, plan.rows, plan.columns, facts)
    if found is None:
        return None
    found = replace(found, groups=True, channels_last=True)
    return _schedule(found, kernel, facts, target)


def _as_sliding(
    plan: contraction.Contraction, left: Node, right: Node, slid: Sequence[Node],
    still: Sequence[Node], facts: Facts,
) -> Shape | None:  # fmt: skip
    """The same with `left` as the operand that slides."""
    windows, beside = _windows(left, plan.ranges, slid, facts)
    if not windows or len(beside) > 1 or prod(w.taps for w in windows) > _MOST_TAPS:
        return None
    windows.sort(key=lambda w: slid.index(w.tap))
    pixels = [w.column for w in windows]
    others = contraction.in_memory_order(
        [left], [r for r in plan.ranges if r not in pixels], facts
    )
    last = not convolution.can_fill(left, pixels[-1], facts)
    side = beside or [a for a in still[:1] if a in facts.free[left]]
    if last and (not side or not convolution.can_fill(left, side[0], facts)):
        return None
    return Shape(
        plan, tuple(windows), left, right, tuple(beside), tuple(still), tuple(others),
        last,
    )  # fmt: skip


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
    columns = _cut_columns(s, lanes, target)
    pitch = layout.whole_vectors(columns, lanes)
    room = target.l2 // _SHARE // item  # elements of a panel
    rows = _cut_channels(s, columns.blocks, pitch, room, target)
    tile, parts = _tile(s, rows.length, pitch // lanes, target)
    depth = _cut_pixels(s, rows.length, pitch, tile, room, lanes, target)
    known = kernel, s.plan, s.right
    right = operands.right_operand(*known, columns, depth, lanes, facts)
    images = layout.images_of(
        s.left, s.windows, depth, Part.of(rows, 1, facts.free[s.left]), lanes,
        groups=columns if s.groups else None, channels_last=s.channels_last, zeros=0,
    )  # fmt: skip
    sums = _sums(s.plan.reduces[0], s.windows, rows, right.columns, pitch)
    add = tree.Slide(
        images, right.still, rows, columns, depth, tile, sums, True,
        _in_parts(s.taps, parts),
    )  # fmt: skip
    store = _store(kernel, sums, columns, right.moved)
    unit = operands.slide(add, (), (), (store,), right.flat)
    return tree.Schedule(kernel, lanes, (*s.plan.outer, rows, columns), unit)


def _sums(
    total: Node, windows: Sequence[Window], rows: Cut, columns: Cut, pitch: int
) -> Panel:
    """A row of sums for each tap of each row."""
    taps = Cut.whole([w.tap for w in windows])
    parts = (
        Part.of(rows, pitch * taps.length), Part.of(taps, pitch), Part.of(columns, 1)
    )  # fmt: skip
    return Panel("sums", total, rows.length * taps.length, pitch, parts)


def _store(
    kernel: Kernel, sums: Panel, columns: Cut, moved: dict[Node, Node]
) -> tree.Store:
    """What becomes of them, in the order of the result.

    Args:
      moved: what stands for the columns, if they are one range in the sums.
    """
    rows, taps, own = [part.cut for part in sums.parts]
    assert isinstance(rows, Cut)
    assert isinstance(own, Cut)
    inside = {*rows.within, *taps.within, *columns.within}
    axes = [a for a in kernel.axes if a in inside]
    if moved:
        axes = [*[a for a in axes if a not in columns.within], *own.within]
    return tree.Store((sums,), tuple(axes), (own, rows), moved)


def _in_parts(count: int, parts: int) -> tuple[range, ...]:
    """So many taps in parts as equal as can be."""
    edges = [n * count // parts for n in range(parts + 1)]
    return tuple(range(*pair) for pair in pairwise(edges))


def _cut_columns(s: Shape, lanes: int, target: Target) -> Cut:
    """Blocks of columns: whole vectors, where they are not all in one."""
    vectors = -(-prod(map(size_of, s.columns)) // lanes)
    if s.groups:
        each = 1  # with channels, vectors stay near each other
        if not s.channel:  # long rows of memory, but as much for each core
            cores = -(-target.cores // prod(map(size_of, s.plan.outer)))
            rounds = -(-vectors // (_VECTORS * cores))
            each = -(-vectors // (rounds * cores))
        return operands.cut_groups(s.columns, each * lanes)
    each = -(-vectors // -(-vectors // _VECTORS))
    if each < vectors:
        return Cut((), s.columns[0], each * lanes, ())
    return Cut.whole(s.columns)


def _cut_channels(s: Shape, blocks: int, pitch: int, room: int, target: Target) -> Cut:
    """Blocks of channels: enough units, whose sums fit into the second cache.

    Args:
      blocks: of columns, of so many each.
      room: elements of a panel.
    """
    if not s.channel or s.groups:
        return Cut.whole(s.channel)
    size = whole = size_of(s.channel[0])
    others = prod(map(size_of, s.plan.outer)) * blocks
    for n in (n for n in range(1, whole + 1) if whole % n == 0):
        fits = whole // n * s.taps * pitch <= room
        if n > 1 and fits and whole // n * s.taps < _LEAST_ROWS:
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
    each = pitch if s.groups else 1
    step = s.windows[0].stride * line * channels * each
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
    best, least = ((1, 1), s.taps), float("inf")
    for wide in range(1, min(vectors, 4) + 1):
        room = max((target.registers - 2 - wide) // wide, 1)
        if s.channels_last and not s.groups:  # numbers side by side
            high, parts = min(room, channels), s.taps
        else:
            high, parts = min(max(room // s.taps, 1), channels), -(-s.taps // room)
        rows = -(-s.taps // parts) * high
        across, rest = divmod(vectors, wide)
        cycles = across * step_cycles(rows, wide, target.costs)
        cycles += step_cycles(rows, rest, target.costs) if rest else 0.0
        cycles *= parts * -(-channels // high)
        if cycles < least * 0.999:
            best, least = ((high, wide), parts), cycles
    return best


# Few or depthwise filters: lanes are pixels.


def find_sliding_dots(
    kernel: Kernel, loop: ReduceLoop, facts: Facts, target: Target
) -> tree.Schedule | None:
    """The kernel with this sum of products as such a gradient, if it is one."""
    a, b = loop.reduces[0].src[0].src
    for left, right in ((a, b), (b, a)):
        found = _as_dots(kernel, loop, left, right, facts, target)
        if found is not None:
            return found
    return None


def _as_dots(
    kernel: Kernel, loop: ReduceLoop, left: Node, right: Node, facts: Facts,
    target: Target,
) -> tree.Schedule | None:  # fmt: skip
    """The same with `left` as the operand that slides."""
    (total,), ranges = loop.reduces, loop.ranges
    axes = [a for a in kernel.axes if size_of(a) > 1]
    alone = [a for a in axes if a not in facts.free[right]]
    near = convolution.find_windows(left, ranges, alone, facts, saving=False)
    windows = [w for w in near if _is_near(w)]
    taps = [w.tap for w in windows]
    if len(set(taps)) < len(taps):
        return None
    outer = [a for a in axes if a not in taps and a in facts.free[left]]
    beside = [a for a in axes if a not in facts.free[left]]
    taps_of_all = prod(w.taps for w in windows)
    count = taps_of_all * prod(map(size_of, beside))
    if taps_of_all < 4 or count > _MOST_SUMS:
        return None
    if any(a not in facts.free[right] for a in beside):
        return None
    windows.sort(key=lambda w: ranges.index(w.column))
    pixels = [w.column for w in windows]
    lanes = target.vector_bytes // total.dtype.itemsize
    while lanes > 1 and lanes >= 2 * size_of(pixels[-1]):
        lanes //= 2
    if lanes < 2:
        return None
    if not all(convolution.can_fill(n, pixels[-1], facts) for n in (left, right)):
        return None
    item, lines = total.dtype.itemsize, prod(w.lines(w.pixels) for w in windows)
    products = prod(map(size_of, (*axes, *ranges)))
    if products < _LEAST or lines * item > target.l2 // _PIXELS_SHARE:
        return None
    others = [r for r in ranges if r not in pixels]
    images = cut_ranges(others, max(target.l1 // _PIXELS_SHARE // item // lines, 1))
    depth = replace(images, inner=(*images.inner, *pixels))
    parts = -(-count // (target.registers - _SPARE))
    outer += [a for a in kernel.axes if size_of(a) == 1]
    rows, columns = Cut.whole(()), Cut.whole(beside)
    beside_lines = Part.of(rows, 1)
    images = layout.images_of(left, windows, depth, beside_lines, lanes, apart=True)
    ahead = tree.Ahead(1, others[-1]) if others else tree.Ahead(_AHEAD)
    pitch = layout.whole_vectors(columns, lanes)
    sums = _sums(total, windows, rows, columns, pitch)
    fills = [tree.Fill(i, ahead=None if i is not images[0] else ahead) for i in images]
    add = tree.SumPixels(
        images, right, columns, depth, sums, _in_parts(count, parts),
        None if columns.length > 1 else ahead,
    )  # fmt: skip
    blocks = tree.for_blocks(depth, *fills, add)
    unit = (tree.Clear(sums), *blocks, _store(kernel, sums, columns, {}))
    return tree.Schedule(kernel, lanes, (*outer, rows, columns), unit)


def _is_near(window: Window) -> bool:
    """Do its taps see pixels again, or pixels that lie among each other?"""
    if window.turned or min(window.stride, window.dilation) > 1:
        return False
    halo = max(window.halo(g.steps) for g in window.groups)
    return halo < window.pixels and window.share(window.pixels) <= 1
