"""Strategies for convolutions and their gradients: contractions one of which slides.

    schedule_nchw             the right operand slides along an axis of the columns
    schedule_nhwc             the left operand slides along the rows, or groups do
    schedule_filter_gradient  the window is what is left of the sum

Each gives schedules (`schedule/schedule_tree.py`) of what it is for: the best by its
model, then others that may be better. What slides is evaluated once for each place that
a block sees, into an image with padding, in which taps, strides and dilations are
distances; `find.slide` makes the units that all of them have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise, product
from math import prod

from ftrace.backends.llvm.contraction import find as contraction
from ftrace.backends.llvm.contraction.find import Contraction, in_memory_order
from ftrace.backends.llvm.convolution import find as convolution
from ftrace.backends.llvm.schedule import layout, loop_tiling as tiling
from ftrace.backends.llvm.schedule.index_facts import Facts
from ftrace.backends.llvm.schedule.layout import Cut, Panel, Term, Window, cut_ranges
from ftrace.backends.llvm.schedule.loop_tiling import size_of
from ftrace.backends.llvm.schedule.schedule_tree import Schedule
from ftrace.backends.llvm.target import Target
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.lower.kernel.ir import Kernel
from ftrace.trace.graph import Node

#: Terms of a sum that are added up before they are put aside (of 4-byte elements). With
#: 256 five rows put them aside more often, with 1024 8 of 128→128, 7² does less often.
DEPTH = 512
#: The part of the second cache that each panel may take: of sums, of groups, or for a
#: gradient. With 8 the gradients of three rows of groups, channels last, have smaller
#: blocks, with 2 no row differs.
_SHARE = 4

# Channels first.

#: Images whose vectors have so many times the lanes are put side by side: one by one 8
#: of 7² with 512 channels take 1.26 times as long (AMD EPYC). With 1.0 five rows of 14²
#: are, too; with 1.2 8 of 128→128, 7² is not, with the vectors of AVX2.
_SHORT = 1.1
#: How many times as long sums take for which pairs of a column and a tap fill a panel:
#: they do where lines are short, as the 7 that 5×5 taps by 2 leave of 14², in half
#: of the time. With 1.2 the gradient by images, strided 16 of 32→64, 28², is such a
#: one, with 2.0 spread images are none.
_PAIRS = 1.6
#: Blocks of lines that are considered: a bound of compile time. With 2 32 of 64→64, 56²
#: is cut otherwise, with 8 7×7 taps by 2 of 224² are 14 units, not 8; with 64 neither.
_MOST_BLOCKS = 32
#: Parts of the rows, and images side by side: another bound. With 1 and 2 8 of 128→128,
#: 7² is cut otherwise, without 8 16 of 64→64, 3²; with 16 32 of 128→128, 5².
_BLOCK_COUNTS = (1, 2, 4, 8)
#: Vectors as long as a line come from the second cache in time; of shorter ones a tile
#: takes several times as long, unless all that it reads stays in the first: two of them
#: for each term are this part of it. With 4 or 16 the code for AVX2 of seven or eight
#: rows is another one.
_NEAR = 8


class _Way(NamedTuple):
    """Blocks of a convolution.

    Attributes:
      lines: of the axis that the window slides along.
      parts: blocks of the rows.
      beside: values of the axis before that one which are in a block: small images.
    """

    lines: int
    parts: int
    beside: int


class _AlongColumns(NamedTuple):
    """How a contraction is such a convolution.

    Attributes:
      columns: the window's, and those inside.
      outer: those around it.
      others: what is summed over beside the taps.
      deep: terms of a block of `others` at most.
      together: rows that do not push each other out of the cache.
      rows, width, units, images, depth: how many there are; of columns for a line, of
        axes around it, of the last of these, and of terms.
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
    images: int
    depth: int
    lanes: int
    fill: float
    target: Target


def schedule_nchw(
    kernel: Kernel, plan: Contraction, facts: Facts, target: Target
) -> Iterator[Schedule]:
    """The contraction as a convolution, where that pays.

        out[i, p] = f(the sum over c, t of left(i, c, t) · right(c, p + t), …)

    A unit is a block of rows and of lines of columns. The right operand is evaluated
    once for each line, not for each pair of a line and a tap, into a panel in which all
    columns of the block are one flat axis, and each tap a constant distance. Taps of
    windows along the other axes are ranges like c: so nothing is stored beside a line,
    and no column is computed that does not exist. Images that fill few vectors are side
    by side in a block.
    """
    if len(plan.rows) != 1 or not convolution.is_sum_of_products(kernel, plan):
        return
    least, best = float("inf"), list[tuple[_AlongColumns, _Way]]()
    for window in convolution.find_windows(
        plan.right[0], plan.columns, plan.ranges, facts
    ):
        s = _window_costs(plan, window, facts, target)
        cycles = {} if s is None else _candidates(s)
        least = least if s is None else min(least, _without_window(s, plan))
        if s is not None and min(cycles.values(), default=least) < least:
            best = [(s, way) for way in sorted(cycles, key=cycles.__getitem__)]
            least = cycles[best[0][1]]
    for s, way in best:
        yield from _along_columns(kernel, plan, s, way, facts)


def _window_costs(
    plan: Contraction, window: Window, facts: Facts, target: Target
) -> _AlongColumns | None:
    (left,), (right,), (row,) = plan.left, plan.right, plan.rows
    at, item = plan.columns.index(window.column), right.dtype.itemsize
    columns, outer = plan.columns[at:], (*plan.outer, *plan.columns[:at])
    lanes, last = target.vector_bytes // item, columns[-1]
    if not convolution.can_fill(right, last, facts, lanes):
        return None
    terms, in_place = DEPTH * 4 // item, contraction.plain_form(left, facts) is not None
    if target.vector_bytes < target.cache_line:
        terms = min(terms, target.l1 // (_NEAR * target.vector_bytes))
    others = [r for r in plan.ranges if r is not window.tap]
    others = in_memory_order([left], others, facts)
    return _AlongColumns(
        window, columns, outer, tuple(others),
        max(terms // window.taps, 1), in_place,
        tiling.rows_together([left], row if in_place else None, facts, target),
        size_of(row), prod(map(size_of, columns[1:])), prod(map(size_of, outer)),
        size_of(outer[-1]) if at else 1,
        prod(map(size_of, plan.ranges)), lanes,
        convolution.fill_cost(right, last, facts, target, lanes), target,
    )  # fmt: skip


def _along_columns(
    kernel: Kernel, plan: Contraction, s: _AlongColumns, way: _Way, facts: Facts
) -> Iterator[Schedule]:
    """With the best tile of registers, then with that of each width."""
    (left,), (right,), lanes, outer = plan.left, plan.right, s.lanes, s.outer
    lines, parts, beside = way
    columns = Cut.of_first(s.columns, lines)
    if beside > 1:
        *outer, image = outer
        first, *inner = s.columns
        columns = Cut.of_first((image, *s.columns), beside)
        columns = replace(columns, order=(first, image, *inner))
    rows = Cut.of_first(plan.rows, s.rows // parts)
    seen = s.width * beside * s.window.lines(lines) * right.dtype.itemsize
    depth = cut_ranges(s.others, max(min(s.deep, s.target.l2 // 2 // seen), 1))
    short = lines < s.window.pixels and s.window.pixels % lines > 0
    images = layout.images_of(
        right, (s.window,), columns, Term.of(depth, 1, facts.free[right]), lanes,
        s.target, by_class=True, zeros=0 if short else None, behind=True,
    )  # fmt: skip
    still: Panel | Node = left
    if not s.in_place:
        summed = replace(depth, inner=(*depth.inner, s.window.tap))
        free = facts.free[left]
        deep = summed.positions(free)
        deep = layout.not_aliased(deep, right.dtype.itemsize, lanes, s.target)
        stand = Term.of(rows, deep), Term.of(summed, 1, free)
        still = Panel("still", left, rows.length, deep, stand, zeros=0)
    vectors = layout.whole_vectors(columns, lanes) // lanes
    yield from convolution.slide(
        kernel, plan, facts, images, still, (rows, columns, depth),
        (*outer, columns, rows), lanes, s.target,
        tiling.candidate_tiles(rows.length, vectors, s.target, s.together),
    )  # fmt: skip


def _candidates(s: _AlongColumns) -> dict[_Way, float]:
    """Cycles of all units on all cores.

    Panels of a block fit into the second cache; else they are the smallest.
    """
    pixels, target = s.window.pixels, s.target
    counts = (*range(1, _MOST_BLOCKS), *(n * pixels // 8 for n in range(1, 9)))
    sizes = dict.fromkeys(-(-pixels // max(count, 1)) for count in counts)
    terms = min(prod(map(size_of, s.others)), s.deep)
    places, cycles = dict[_Way, int](), dict[_Way, float]()
    lines, image = len(s.columns) > 1, pixels * s.width
    short = lines and -(-image // s.lanes) * s.lanes > _SHORT * image
    for size, parts, beside in product(sizes, _BLOCK_COUNTS, _BLOCK_COUNTS):
        rows, columns = s.rows // parts, size * s.width * beside
        if s.rows % parts:
            continue
        if beside > 1 and not (short and size == pixels and s.images % beside == 0):
            continue
        if size < pixels and not lines and (pixels % size or size % s.lanes):
            continue
        units = s.units // beside * parts * -(-pixels // size)
        each = _unit(s, rows, columns, s.window.share(size) * columns * s.depth)
        way = _Way(size, parts, beside)
        cycles[way] = each * -(-units // target.cores)
        places[way] = (terms * s.window.lines(size) + rows * size) * beside
    budget = target.l2 * 3 // 4 // (s.width * target.vector_bytes // s.lanes)
    budget = max(budget, min(places.values(), default=0))
    return {way: found for way, found in cycles.items() if places[way] <= budget}


def _without_window(s: _AlongColumns, plan: Contraction) -> float:
    """Cycles as any other contraction: all columns are flat, and none is shared."""
    columns = prod(map(size_of, plan.columns))
    each = _PAIRS * _unit(s, s.rows, columns, 0) + s.fill * columns * s.depth
    return each * prod(map(size_of, plan.outer)) / s.target.cores


def _unit(s: _AlongColumns, rows: int, columns: int, evaluated: float) -> float:
    vectors, costs = -(-columns // s.lanes), s.target.costs
    tile = tiling.register_tile(rows, vectors, s.target.registers, costs, s.together)
    return tile.cycles * s.depth + s.fill * evaluated + costs.begin_block


# Channels last.

#: Pixels of a line at least, which are the rows of a tile: of 2 a product takes 0.66
#: cycles by its model, of 4 0.56, of 14 0.52. With 8 64 of 7², depthwise, are plain
#: loops, with 1 no row differs.
_LEAST_LINE = 4
#: Bytes of the columns at least, where there are no groups: with 8 16→3 channels of 40²
#: are such a convolution, with 64 the row of four groups of 8→8 is none for AVX2.
_LEAST_COLUMNS = 32
#: Pixels of a block, however many units cores ask for: each reads all weights. Without
#: it 8 images of 14² with 64 channels are 112 units of a line for 16 cores, not 32;
#: with 1000 two rows of 14² and 7² are 4 units for two cores, not 8.
_FEW_PIXELS = 64
#: Images of fewer pixels share the weights of a block: one by one 8 images of 7² with
#: 512 channels take 1.4 times as long (AMD EPYC). With 32 8 of 64, 7², depthwise, do
#: so, with 256 six rows of 14² share them; with 64 no row differs.
_MANY_PIXELS = 128
#: Vectors in a row of a block of columns. With 6 three rows of 64 channels have two
#: blocks for AVX2, with 8 or 24 no row differs.
_FEWEST_ROW_VECTORS = 12
#: And where such blocks are not alike: a bound of code. With 12 512 channels of 7² are
#: 579 instructions, not 337; with 24 no row differs.
_MOST_ROW_VECTORS = 16


def schedule_nhwc(
    kernel: Kernel, plan: Contraction, facts: Facts, target: Target
) -> Iterator[Schedule]:
    """The contraction as a convolution with channels last, if it is one.

        out[p, j] = f(the sum over c, t of left(p + t, c) · right(j, c, t), …)
        out[p, g, o] = f(the sum over c, t of left(p + t, g, c) · right(g, c, t, o), …)

    A unit is a block of lines of pixels, and of columns. The left operand is evaluated
    once for each pixel that the block sees, into a panel with padding: its numbers are
    spread over vectors one at a time, so that taps and strides are distances in it and
    nothing else. Tiles are pixels of one line beside each other, and vectors of
    columns.

    A group has too few places for vectors. So lanes are groups: that panel has a vector
    of them where it would have a number, and for each place of a group there is one of
    sums. Where groups do not lie side by side, it is filled, and results are stored, in
    squares that are transposed.
    """
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
    if not windows or size_of(plan.rows[-1]) < _LEAST_LINE:
        return
    if convolution.is_depthwise(plan):
        line = size_of(plan.rows[-1]) * target.vector_bytes
        whole = not others and line <= target.l2 // _SHARE
        if not whole or not convolution.pays_in_groups(
            plan, [*windows.values()], facts, lanes
        ):
            return
    elif more or not others or not convolution.can_fill(left, others[-1], facts, lanes):
        return
    if groups is None and size_of(column) * item < _LEAST_COLUMNS:
        return
    plan = groups or plan
    columns = convolution.cut_columns(
        plan.columns, lanes, _FEWEST_ROW_VECTORS, _MOST_ROW_VECTORS
    )
    deep = max(DEPTH * 4 // item // prod(w.taps for w in windows.values()), 1)
    depth = cut_ranges(others, deep, lanes)
    known = list(windows.values()), columns, depth
    yield from _along_rows(kernel, plan, *known, facts, target)


def _along_rows(
    kernel: Kernel, plan: Contraction, windows: list[Window], columns: Cut, depth: Cut,
    facts: Facts, target: Target,
) -> Iterator[Schedule]:  # fmt: skip
    """With the best tile of registers, then with that of each width."""
    (left,), (right,), (total,) = plan.left, plan.right, plan.reduces
    lanes, groups = target.vector_bytes // total.dtype.itemsize, len(plan.columns) > 1
    lanes = min(columns.size, lanes) if columns.order else lanes
    pitch = layout.whole_vectors(columns, lanes)
    of_number = lanes if columns.order else pitch  # places of each in an image
    each = max(pitch, depth.length * of_number) if groups else pitch
    budget = target.l2 // _SHARE // total.dtype.itemsize // each
    rows, outer = _cut_rows(plan, windows, columns.blocks, budget, target)
    summed = replace(depth, inner=(*depth.inner, *[w.tap for w in windows]))
    still = convolution.still_operand(right, columns, summed, lanes, facts, target)
    images = layout.images_of(
        left, windows, rows, Term.of(depth, 1, facts.free[left]), lanes,
        target, channels_last=True, groups=columns if groups else None,
    )  # fmt: skip
    yield from convolution.slide(
        kernel, plan, facts, images, still, (rows, columns, depth),
        (*outer, rows, columns), lanes, target,
        tiling.candidate_tiles(
            rows.extents[-1], pitch // lanes, target, tiling.MOST_ROWS
        ),
    )  # fmt: skip


def _cut_rows(
    plan: Contraction, windows: list[Window], columns: int, budget: int, target: Target
) -> tuple[Cut, tuple[Node, ...]]:
    """Blocks of lines, and the axes around them: small images are several in a block.

    Args:
      columns: blocks of them.
      budget: pixels of a block at most.
    """
    at = min(plan.rows.index(w.column) for w in windows)
    if at and prod(map(size_of, plan.rows[at:])) < _MANY_PIXELS:
        at -= 1
    first, *rest = rows = plan.rows[at:]
    outer = (*plan.outer, *plan.rows[:at])
    units = columns * prod(map(size_of, outer))
    size, inside = size_of(first), prod(map(size_of, rest))
    while rest and size > 1:
        few = units * -(-size_of(first) // size) < 4 * target.cores
        if size * inside <= budget and (size * inside <= _FEW_PIXELS or not few):
            break
        size = -(-size // 2)
    return Cut.of_first(rows, size), outer


# Gradients by the filters.

#: Taps of all windows at most, a bound of code: tiles are written one after the other.
#: With 1000 16×16 taps of 64² are 1549 instructions, not 591, and 3629 for AVX2, not
#: 406; with 48 the row of 7×7 taps of 14² is no such gradient.
_MOST_TAPS = 128
#: Vectors of a block of columns. With 4 four rows of 64 channels have two blocks for
#: AVX2, with 16 no row differs.
_VECTORS = 8


class _OfFilters(NamedTuple):
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

    plan: Contraction
    windows: list[Window]
    channel: list[Node]
    others: tuple[Node, ...]
    channels_last: bool
    taps: int
    lanes: int


def schedule_filter_gradient(
    kernel: Kernel, plan: Contraction, facts: Facts, target: Target
) -> Iterator[Schedule]:
    """The contraction as the gradient of a convolution by its filters, if it is one.

        out[c, t, j] = f(the sum over p of left(c, p + t) · right(p, j), …)

    The taps t are axes of the result, and the sum runs over the pixels. The left
    operand is evaluated once for each pixel that a block sees, into a panel with
    padding; its numbers are spread over vectors one at a time, so that taps, strides
    and dilations are distances in it. The right operand is evaluated once for each
    pixel, columns side by side. A tile is the taps of some channels, and vectors of
    columns. A unit has all pixels: the result does not depend on how units are shared.
    """
    if not convolution.is_sum_of_products(kernel, plan):
        return
    lanes = target.vector_bytes // plan.reduces[0].dtype.itemsize
    sides = {"rows": plan.columns, "columns": plan.rows}
    ways = plan, replace(plan, left=plan.right, right=plan.left, **sides)
    ways = [
        w for w in ways if len(w.columns) == 1 and 4 * size_of(w.columns[0]) >= lanes
    ]
    groups = convolution.with_groups(kernel, plan, facts, lanes)
    if groups is not None and target.decides("direct_convolution_nhwc"):
        ways.insert(0, groups)
    for s in filter(None, (_as_sliding(way, lanes, facts) for way in ways)):
        yield from _of_filters(s, kernel, facts, target)
        return


def _as_sliding(plan: Contraction, lanes: int, facts: Facts) -> _OfFilters | None:
    """With the left operand as the one that slides."""
    (left,), groups = plan.left, len(plan.columns) > 1
    windows, channel = _windows(plan, facts)
    taps, pixels = prod(w.taps for w in windows), [w.column for w in windows]
    if not windows or len(channel) > 1 or taps > _MOST_TAPS:
        return None
    along = channel or (plan.columns[:1] if groups else ())
    along_pixels = convolution.can_fill(left, pixels[-1], facts, lanes)
    last = groups or not along_pixels
    along_channels = along and convolution.can_fill(left, along[0], facts, lanes)
    if not along_pixels and not along_channels:
        return None
    if convolution.is_depthwise(plan) and not convolution.pays_in_groups(
        plan, windows, facts, lanes
    ):
        return None
    others = [r for r in plan.ranges if r not in pixels]
    others = tuple(in_memory_order([left], others, facts))
    return _OfFilters(plan, windows, channel, others, last, taps, lanes)


def _windows(plan: Contraction, facts: Facts) -> tuple[list[Window], list[Node]]:
    """The windows, and the axes beside them.

    Windows that share no pixel (their stride is not less than they are long) save
    nothing; but beside others they make an axis that is not left over.
    """
    slid, pixels_per_tap = plan.rows, 1 if convolution.is_depthwise(plan) else 2
    found = [
        w
        for w in convolution.find_windows(
            plan.left[0], plan.ranges, slid, facts, saving=False
        )
        if not w.reversed
        and min(w.stride, w.dilation) == 1
        and pixels_per_tap * w.taps <= w.pixels
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


def _of_filters(
    s: _OfFilters, kernel: Kernel, facts: Facts, target: Target
) -> Iterator[Schedule]:
    (left,), (right,), (*more, _) = s.plan.left, s.plan.right, s.plan.columns
    columns = convolution.cut_columns(s.plan.columns, s.lanes, _VECTORS)
    lanes = min(columns.size, s.lanes) if columns.order else s.lanes
    pitch = layout.whole_vectors(columns, lanes)
    budget = target.l2 // _SHARE // right.dtype.itemsize  # elements of a panel
    rows = _cut_channels(s, columns.blocks, pitch, budget, target)
    tile, parts = _tile(s, rows.length, pitch // lanes, target)
    several = parts > 1 or rows.length > tile[0]
    wide = tile[1] * lanes
    depth = _cut_pixels(s, rows.length, pitch, wide, several, budget, target)
    images = layout.images_of(
        left, s.windows, depth, Term.of(rows, 1, facts.free[left]), lanes, target,
        channels_last=s.channels_last, groups=columns if more else None, zeros=0,
    )  # fmt: skip
    still = convolution.still_operand(right, columns, depth, lanes, facts, target)
    edges = [n * s.taps // parts for n in range(parts + 1)]  # as equal as can be
    yield from convolution.slide(
        kernel, s.plan, facts, images, still, (rows, columns, depth),
        (*s.plan.outer, rows, columns), lanes, target, [tile],
        [w.tap for w in s.windows], tuple(range(*pair) for pair in pairwise(edges)),
    )  # fmt: skip


def _cut_channels(
    s: _OfFilters, blocks: int, pitch: int, budget: int, target: Target
) -> Cut:
    """Blocks of channels: enough units, whose sums fit into the second cache.

    Args:
      blocks: of columns, of so many each.
      budget: elements of a panel.
    """
    if not s.channel:
        return Cut.whole(())
    size = whole = size_of(s.channel[0])
    others = prod(map(size_of, s.plan.outer)) * blocks
    for n in (n for n in range(1, whole + 1) if whole % n == 0):
        size = whole // n
        if size * s.taps * pitch <= budget and n * others >= 2 * target.cores:
            break
    return Cut.of_first(s.channel, size)


def _cut_pixels(
    s: _OfFilters, channels: int, pitch: int, wide: int, several: bool, budget: int,
    target: Target,
) -> Cut:  # fmt: skip
    """Blocks of lines: what `several` tiles read of the right panel stays near it."""
    first, *rest = [w.column for w in s.windows]
    inside, size, lines = prod(map(size_of, rest)), size_of(first), s.windows[1:]
    line = prod(w.reach(w.pixels, w.whole) for w in lines)
    groups = min(wide, s.lanes) if len(s.plan.columns) > 1 else 1
    step = s.windows[0].stride * line * channels * groups
    most = budget // max(inside * pitch, step)
    if several:
        near = target.l1 // 2 // s.plan.right[0].dtype.itemsize
        most = min(most, near // (inside * wide))
    most = max(most, 1)
    if most < size and not rest:
        most = max(most // s.lanes, 1) * s.lanes  # transposed in squares
    elif most < size:
        most = -(-size // -(-size // most))
    return replace(Cut.of_first([first, *rest], most), outer=s.others)


def _tile(
    s: _OfFilters, channels: int, vectors: int, target: Target
) -> tuple[tuple[int, int], int]:
    """The best tile, channels and vectors, and in how many parts the taps are."""
    best, least = ((1, 1), s.taps), float("inf")
    side_by_side = s.channels_last and len(s.plan.columns) == 1  # numbers of an image
    for wide in range(1, min(vectors, 4) + 1):
        fitting = max((target.registers - 2 - wide) // wide, 1)
        ways = [(min(max(fitting // s.taps, 1), channels), -(-s.taps // fitting))]
        if side_by_side:
            ways.insert(0, (min(fitting, channels), s.taps))
        for high, parts in ways:
            rows = -(-s.taps // parts) * high
            cycles = parts * -(-channels // high)
            cycles *= tiling.row_cycles(rows, wide, vectors, target.costs)
            if cycles < least:
                best, least = ((high, wide), parts), cycles
    return best
