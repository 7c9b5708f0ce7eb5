"""Convolutions whose left operand slides along the rows: numbers of pixels.

    out[p, j] = f(the sum over c, t of left(p + t, c) · right(j, c, t), …)
    out[p, g, o] = f(the sum over c, t of left(p + t, g, c) · right(g, c, t, o), …)
    out[g, p] = f(the sum over t of left(g, p + t) · right(g, t), …)

A unit is a block of lines of pixels, and of columns. The left operand is evaluated once
for each pixel that the block sees, into a panel with padding: its numbers are spread
over vectors one at a time, so that taps and strides are distances in it and nothing
else. Tiles are pixels of one line beside each other, and vectors of columns.

Groups have a vector of that panel for each number (see `operands.py`). Channels that do
not lie side by side are turned (the third form): vectors along the pixels are half
empty where lines are short, lie across the lines of the cache for every tap but one,
and must be picked apart where windows move by more than one. Short lines are turned
back together, where they lie side by side.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ftrace.backends.llvm.contraction.find import Contraction, in_memory_order
from ftrace.backends.llvm.convolution import find as convolution, operands
from ftrace.backends.llvm.schedule import layout, schedule_tree as tree
from ftrace.backends.llvm.schedule.index_facts import Facts
from ftrace.backends.llvm.schedule.layout import Cut, Flat, Panel, Part, cut_ranges
from ftrace.backends.llvm.schedule.tiling_ir import OWN_RANGES, register_tile, size_of
from ftrace.backends.llvm.schedule.windows import Window
from ftrace.backends.llvm.target import Target
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.kernel.ir import Kernel, make_range
from ftrace.trace.graph import Node

#: Vectors of a block of channels side by side that do not mix, from the best on.
_ABREAST = (3, 2)
#: Pixels of a block at least, where there are more than cores need.
_FEW_PIXELS = 64
#: Images of fewer pixels share the weights of a block.
_MANY_PIXELS = 128
#: Vectors in a row of a block of columns; where such blocks are not alike.
_VECTORS, _EVEN_VECTORS = 12, 16
#: Times that each pixel is read at least, where vectors need no spreading; and where
#: it is turned.
_LEAST_TAPS, _LEAST_TAPS_TURNED = 4.0, 3.0
#: The part of a vector that lines fill at least, or they are turned back together.
_FULL = 0.8
#: The number of a range in place of a line and a pixel.
_FLAT_PIXEL = OWN_RANGES + 2


@dataclass(frozen=True, eq=False)
class Shape:
    """How a contraction is such a convolution.

    Attributes:
      windows: each with another axis of the rows.
      outer: axes around the blocks.
      rows: axes of the rows that are in a block, the one that is cut first; tiles are
        made of the last one.
      others: what is summed over beside the taps.
      size: how many values of the first of `rows` a block has.
      vectors: of groups in a block, for each of which one stands in the panel.
    """

    plan: Contraction
    target: Target
    windows: tuple[Window, ...]
    outer: tuple[Node, ...]
    rows: tuple[Node, ...]
    others: tuple[Node, ...]
    size: int
    vectors: int = 1

    @property
    def left(self) -> Node:
        return self.plan.left[0]

    @property
    def pixel(self) -> Node:
        return self.rows[-1]

    @property
    def pixels(self) -> int:
        """That a block sees."""
        windows, found = {w.column: w for w in self.windows}, 1
        sizes = self.size, *map(size_of, self.rows[1:])
        for axis, size in zip(self.rows, sizes, strict=True):
            window = windows.get(axis)
            found *= size if window is None else window.reach(size, window.whole)
        return found

    @property
    def taps_of_pixel(self) -> float:
        """How often a pixel of a panel is read, about."""
        taps = prod(w.taps for w in self.windows)
        whole = replace(self, size=size_of(self.rows[0]))
        return taps * prod(map(size_of, self.rows)) / whole.pixels

    @property
    def spread_bytes(self) -> int:
        """Of the panel with a vector for each number, of a block."""
        each = self.vectors * self.target.vector_bytes
        return prod(map(size_of, self.others)) * each * self.pixels

    def in_cache(self) -> Shape | None:
        """The same in blocks whose panels fit into the second cache, or nearly."""
        found, room = self, self.target.l2
        while found.size > 1 and len(found.rows) > 1 and found.spread_bytes > room:
            found = replace(found, size=-(-found.size // 2))
        return found if found.spread_bytes <= 2 * room else None


def find_sliding_rows(
    kernel: Kernel, plan: Contraction, facts: Facts, target: Target
) -> tree.Schedule | None:
    """The contraction as a convolution with channels last, if it is one."""
    if len(plan.rows) < 2 or len(plan.columns) != 1:
        return None
    if not convolution.is_sum_of_products(kernel, plan):
        return None
    (right,), (column,) = plan.right, plan.columns
    item = right.dtype.itemsize
    vectors = -(-size_of(column) * item // target.vector_bytes)
    blocks = column_blocks(vectors)
    found = _as_rows(plan, facts, target, blocks, _MANY_PIXELS)
    if found is None or not found.others or size_of(found.pixel) < 4:
        return None
    if not convolution.can_fill(found.left, found.others[-1], facts):
        return None
    if size_of(column) * item < 32:
        return None
    lanes = target.vector_bytes // item
    columns = Cut.whole(plan.columns)
    if blocks > 1:
        columns = Cut((), column, -(-vectors // blocks) * lanes, ())
    return _schedule(found, columns, kernel, facts)


def column_blocks(vectors: int) -> int:
    """In how many blocks columns are: of blocks that are alike no panel is needed."""
    blocks = -(-vectors // _VECTORS)
    fewer = -(-vectors // _EVEN_VECTORS)
    return fewer if vectors % blocks and vectors % fewer == 0 else blocks


def find_grouped_rows(
    kernel: Kernel, plan: Contraction, facts: Facts, target: Target
) -> tree.Schedule | None:
    """The product of groups as a convolution, if it is one."""
    whole = _group_vectors(plan, target)
    found = _as_rows(plan, facts, target, whole)
    if found is None or size_of(found.pixel) < 2:
        return None
    chosen = found.in_cache()
    if not found.others and len(plan.columns) == 1:
        # Its vectors lie as they should, and could be read where they stand.
        if found.taps_of_pixel < _LEAST_TAPS:
            return None
        abreast = [replace(found, vectors=n) for n in _ABREAST if whole % n == 0]
        fitting = [s for s in abreast if s.spread_bytes <= target.l2 // 2]
        chosen = fitting[0] if fitting else chosen
    return None if chosen is None else _of_groups(chosen, kernel, facts)


def find_across(
    kernel: Kernel, plan: Contraction, facts: Facts, target: Target
) -> tree.Schedule | None:
    """A product of channels that lie apart as one of turned operands, if that pays."""
    found = _as_rows(plan, facts, target, _group_vectors(plan, target))
    if found is None or found.others or size_of(found.pixel) < 2:
        return None
    if not convolution.can_fill(found.left, found.pixel, facts):
        return None
    if len(found.rows) == 1:
        found = replace(found, size=size_of(found.pixel))
    taken = None if found.taps_of_pixel < _LEAST_TAPS_TURNED else found.in_cache()
    return None if taken is None else _of_groups(taken, kernel, facts, turned=True)


def _group_vectors(plan: Contraction, target: Target) -> int:
    """Vectors of columns that are groups."""
    lanes = target.vector_bytes // plan.reduces[0].dtype.itemsize
    return -(-prod(map(size_of, plan.columns)) // lanes)


def _of_groups(
    shape: Shape, kernel: Kernel, facts: Facts, turned: bool = False
) -> tree.Schedule:
    lanes = shape.target.vector_bytes // shape.plan.reduces[0].dtype.itemsize
    columns = operands.cut_groups(shape.plan.columns, shape.vectors * lanes)
    return _schedule(shape, columns, kernel, facts, True, turned)


def _schedule(
    shape: Shape,
    columns: Cut,
    kernel: Kernel,
    facts: Facts,
    groups: bool = False,
    turned: bool = False,
) -> tree.Schedule:
    plan, target, windows = shape.plan, shape.target, shape.windows
    (total,), left = plan.reduces, shape.left
    item = total.dtype.itemsize
    lanes = target.vector_bytes // item
    rows = Cut.of_first(shape.rows, shape.size)
    deep = max(operands.DEPTH * 4 // item // prod(w.taps for w in windows), 1)
    depth = cut_ranges(shape.others, deep, lanes)
    pitch = layout.whole_vectors(columns, lanes)
    tile = register_tile(
        size_of(shape.pixel), pitch // lanes, target.registers, target.costs
    )
    summed = replace(depth, inner=(*depth.inner, *[w.tap for w in windows]))
    right = operands.right_operand(
        kernel, plan, plan.right[0], columns, summed, lanes, facts
    )
    images = layout.images_of(
        left, windows, rows, Part.of(depth, 1, facts.free[left]), lanes,
        groups=columns if groups else None, turned=turned,
    )  # fmt: skip
    pixels = _pixels(kernel, plan, rows, lanes, facts) if turned else None
    # Sums of all lines are kept where they are several, or are turned back together.
    together = pixels is not None and pixels.cut.within != rows.within[-1:]
    kept = depth.several or together
    inside = rows.within if kept else rows.within[-1:]
    parts = Part(rows, pitch, inside), Part.of(right.columns, 1)
    height = rows.length if kept else rows.extents[-1]
    sums = Panel("sums", total, height, pitch, parts)
    if pixels is not None:
        after = _turn_back(sums, columns, pixels, kernel, plan, lanes, facts)
    else:
        axes = (*inside, *right.columns.within)
        cuts = (right.columns, rows) if kept else (right.columns,)
        after = (tree.Store((sums,), axes, cuts, right.moved),)
    add = tree.Slide(
        images, right.still, rows, columns, depth, (tile.rows, tile.vectors), sums,
        depth.several,
    )  # fmt: skip
    ends = ((), after) if kept else (after, ())
    unit = operands.slide(add, rows.within[:-1], *ends, right.flat)
    return tree.Schedule(kernel, lanes, (*shape.outer, rows, columns), unit)


def _pixels(
    kernel: Kernel, plan: Contraction, rows: Cut, lanes: int, facts: Facts
) -> Flat:
    """What is turned back together: a line, or short ones, if the results allow it."""
    line, width = Flat(Cut.whole(rows.within[-1:]), rows), rows.extents[-1]
    if len(rows.within) != 2 or rows.split is not None:
        return line
    flat = make_range(_FLAT_PIXEL, rows.length, False)
    facts.learn([flat])
    moved = operands.lay_results_flat(kernel, plan, rows.within, flat, facts)
    full = width >= _FULL * (-(-width // lanes) * lanes)
    return line if not moved or full else Flat(Cut.whole([flat]), rows)


def _turn_back(
    sums: Panel, columns: Cut, pixels: Flat, kernel: Kernel, plan: Contraction,
    lanes: int, facts: Facts,
) -> tuple[tree.Statement, ...]:  # fmt: skip
    """Sums of pixels as results that lie along them."""
    (pixel,), axes, moved = pixels.cut.within, pixels.of.within, dict[Node, Node]()
    if pixel not in axes:
        moved = operands.lay_results_flat(kernel, plan, axes, pixel, facts)
    parts = Part.of(pixels.cut, sums.pitch), Part.of(columns, 1)
    source, pitch = replace(sums, parts=parts), layout.whole_vectors(pixels.cut, lanes)
    parts = Part.of(columns, pitch), Part.of(pixels.cut, 1)
    turned = Panel("turned", sums.node, columns.length, pitch, parts, True)
    store = tree.Store((turned,), (*columns.within, pixel), (columns,), moved)
    return tree.Fill(turned, source), store


def _as_rows(
    plan: Contraction, facts: Facts, target: Target, columns: int = 1, enough: int = 0
) -> Shape | None:
    """The contraction with windows among its rows, and so many blocks of columns.

    Args:
      enough: an image of fewer pixels is not a block for itself.
    """
    (left,) = plan.left
    windows: dict[Node, Window] = {}  # one for each axis of taps
    for window in convolution.find_windows(left, plan.rows, plan.ranges, facts):
        windows.setdefault(window.tap, window)
    if not windows:
        return None
    others = [r for r in plan.ranges if r not in windows]
    others = in_memory_order([left], others, facts)
    at = min(plan.rows.index(w.column) for w in windows.values())
    if at and prod(map(size_of, plan.rows[at:])) < enough:
        at -= 1
    rows = plan.rows[at:]
    outer = (*plan.outer, *plan.rows[:at])
    units = columns * prod(map(size_of, outer))
    size, inside = size_of(rows[0]), prod(map(size_of, rows[1:]))
    while len(rows) > 1 and units * -(-size_of(rows[0]) // size) < 4 * target.cores:
        if size * inside <= _FEW_PIXELS or size == 1:
            break
        size = -(-size // 2)
    return Shape(
        plan, target, tuple(windows.values()), outer, rows, tuple(others), size
    )
