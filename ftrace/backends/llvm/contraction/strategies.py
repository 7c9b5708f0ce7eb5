"""Strategies for products: how a contraction runs on a processor.

    schedule_dots        few columns: vectors run along what is summed over
    schedule_blocks      what is worth blocks that fit in the caches:
        pack_panels      matrix products: one axis of rows and of columns in a block
        block_for_cache  any contraction

Each gives schedules (`schedule/schedule_tree.py`) of what it is for: the best by its
model, then others that may be better. The scheme of blocks is that of the BLIS library
(Van Zee and van de Geijn, 2015), with panels filled by arbitrary expressions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from math import prod

from ftrace.backends.llvm.contraction import find as contraction
from ftrace.backends.llvm.contraction.block_sizes import Load, candidate_blocks
from ftrace.backends.llvm.contraction.dot_product_instructions import (
    choose_groups,
    in_groups,
)
from ftrace.backends.llvm.contraction.find import Contraction, is_worthwhile
from ftrace.backends.llvm.schedule import (
    layout,
    loop_tiling as tiling,
    schedule_tree as tree,
)
from ftrace.backends.llvm.schedule.fill import fill
from ftrace.backends.llvm.schedule.index_facts import Facts
from ftrace.backends.llvm.schedule.layout import Cut, Panel, Term, cut_ranges, cut_tiles
from ftrace.backends.llvm.schedule.schedule_tree import Schedule, Statement, TiledCut
from ftrace.backends.llvm.target import Target
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.lower.kernel.ir import Kernel, axis_of
from ftrace.trace.graph import Node
from ftrace.trace.symbolic import is_dynamic

#: Multiplications that make up for a panel of sums: with one a gelu of a product of 8³
#: takes 35 µs, not 1 (AMD EPYC).
_WORTH_SUMS = 1 << 12
#: With few columns: rows of a unit, about. 16 and 256 take the same time.
_UNIT_ROWS = 64


class _UnitCuts(NamedTuple):
    """How the sums of a unit are cut.

    Attributes:
      rows, columns: how tiles run over them.
      depth: what is summed over.
      lanes: of a vector at most.
    """

    rows: TiledCut
    columns: TiledCut
    depth: Cut
    lanes: int
    facts: Facts
    target: Target

    def fill(self, panel: Panel) -> Statement:
        return fill(panel, self.lanes, self.facts, self.target)

    def term_of(self, node: Node, weight: int = 1) -> Term:
        """What is summed over that an operand has."""
        return Term.of(self.depth, weight, self.facts.free[node])

    def terms(self, node: Node) -> int:
        """Terms of a sum in a block, as far as an operand has them."""
        return self.depth.positions(self.facts.free[node])

    def sums(
        self, nodes: Sequence[Node], pitch: int, padded: bool
    ) -> tuple[Panel, ...]:
        """Panels for sums of rows and columns."""
        parts = Term.of(self.rows.cut, pitch), Term.of(self.columns.cut, 1)
        size = self.rows.length, pitch
        return tuple(Panel("sums", node, *size, parts, padded) for node in nodes)


def _left_panels(plan: Contraction, tiles: _UnitCuts) -> list[Panel]:
    """Left operands, along the rows where they lie so in memory."""
    found, lanes = list[Panel](), tiles.lanes
    rows, flat = tiles.rows.cut, tiles.rows.flat
    splits = rows.split is not None and not flat
    around = layout.VectorRows(rows, lanes) if splits else rows
    high = tiles.rows.length if flat else layout.whole_vectors(around, lanes)
    for node in plan.left:
        deep = -(-tiles.terms(node) // lanes) * lanes + (0 if flat else lanes)
        size, parts = (high, deep), (Term.of(around, deep), tiles.term_of(node))
        steps = contraction.step_sizes([node], rows.within, tiles.facts)
        if not flat and steps[rows.within[-1]] == 1:
            size, parts = (deep, high), (tiles.term_of(node, high), Term.of(around, 1))
        found.append(Panel("left", node, *size, parts, not flat))
    return found


def _unit(
    plan: Contraction,
    tiles: _UnitCuts,
    right: Sequence[Panel],
    left: Sequence[Panel],
    into: tuple[Panel, ...],
    sharing: tuple[Node | Cut, ...],
    prefetch: int = 0,
    along: tiling.RangeTiling | None = None,
) -> tuple[Statement, ...]:
    """The sums of a unit, and what becomes of them.

    Args:
      right, left: operands that stand in panels, which are filled.
      into: where sums are put; results go from registers to where they belong if it is
        nowhere.
      sharing: units that differ in these alone fill right panels once.
      prefetch, along: see `Accumulate`.
    """
    rows, columns, depth, *_ = tiles
    part = Term.of(columns.cut, 1)
    offsets = tuple(
        Panel("offsets", node, 1, columns.length, (part,), True)
        for node in plan.offsets
    )
    shared: list[Statement] = [*map(tiles.fill, right)]
    if offsets:
        operands = plan.offsets, tuple(right)
        shared.append(tree.Accumulate(*operands, None, columns, depth, offsets))
    if shared and sharing and not depth.several:
        shared = [tree.Once(sharing, tuple(shared))]
    operands = plan.reduces, (*right, *left)
    add = tree.Accumulate(
        *operands, rows, columns, depth, into, offsets, along, prefetch
    )
    own: tuple[Statement, ...] = (*map(tiles.fill, left), add)
    around = [p.cut for panel in left for p in panel.terms if p.cut is not depth]
    if around and around[0] is not rows.cut:
        own = (tree.ForEach((around[0],), own),)
    blocks = tree.for_blocks(depth, *shared, *own)
    if not into:
        return blocks
    sums, axes = (*into, *offsets), (*rows.cut.within, *columns.cut.within)
    store = tree.StoreResults(sums, axes, (columns.cut, rows.cut))
    clears = map(tree.Clear, sums if depth.several else ())
    return (*clears, *blocks, store)


def block_for_cache(
    kernel: Kernel, plan: Contraction, facts: Facts, target: Target
) -> Iterator[Schedule]:
    """Any contraction.

    A unit is a block of rows and columns:

    panel c[i, j] <- 0
    for each block of k:
        panel b[k, j] <- b(j, k)           any expression, transposed where it is
        panel a[i, k] <- a(i, k)           unless it can be read where it stands
        panel c[i, j] <- c[i, j] + the sum in tiles of registers
    out <- f(c)
    """
    row = max(plan.rows, key=tiling.size_of)
    others = [a for a in plan.rows if plan.loose and a is not row]
    load = replace(_load(plan, row, others, True, facts, target), conflict_free=0)
    lanes = target.vector_bytes // load.item
    for blocks in candidate_blocks(target, load):
        tile, height = blocks.tile, blocks.tiles * blocks.tile.rows
        step = tile.vectors * lanes
        columns = cut_ranges(plan.columns, blocks.strips * step, step)
        pitch = -(-columns.length // step) * step
        rows, steps = cut_tiles(row, tile.rows, height)
        if not plan.loose:
            rows, steps = (
                cut_ranges(plan.rows, height), tiling.RangeTiling(0, tile.rows, False)
            )  # fmt: skip
            others = list(rows.outer)
        tiles = _UnitCuts(
            TiledCut(rows, steps, not plan.loose),
            TiledCut(columns, tiling.RangeTiling(lanes, tile.vectors), True),
            cut_ranges(_walk(plan, facts), blocks.depth, lanes), lanes, facts, target,
        )  # fmt: skip
        # Tiles read beyond the block: what stands there must not slow them down.
        right = [
            Panel(
                "right", node, tiles.terms(node), pitch,
                (tiles.term_of(node, pitch), Term.of(columns, 1)), zeros=columns.length,
            )
            for node in plan.right
        ]  # fmt: skip
        left = [] if plan.loose else _left_panels(plan, tiles)
        sums = tiles.sums(plan.reduces, pitch, False)
        sharing = (*others, rows)
        unit = _unit(plan, tiles, right, left, sums, sharing)
        outer = (*plan.outer, *columns.outer, columns)
        yield Schedule(kernel, lanes, (*outer, *sharing), unit)


def _walk(plan: Contraction, facts: Facts) -> list[Node]:
    """What is summed over, in the order in which the left operands lie in memory."""
    return contraction.in_memory_order(plan.left or plan.right, plan.ranges, facts)


def pack_panels(
    kernel: Kernel,
    plan: Contraction,
    facts: Facts,
    target: Target,
) -> Iterator[Schedule]:
    """A matrix product, if blocks of one axis each are enough.

    A unit is a block of rows and some strips of columns:

        for each block of k:
            right[strip][k][j] <- b(j, k)      unless the unit before it did
            left[k][i] <- a(i, k)              unless it can be read where it stands
            out <- f(the sum)                  in tiles of registers

    Where k is one block and f is light, results go from registers to where they belong;
    else the sums of a unit stand in a panel until all of them are known. How large
    blocks are is decided in `block_sizes.py`: the best first.
    """
    sizes = [axis_of(a).size for a in (*kernel.axes, *plan.ranges)]
    *more, column = plan.columns
    if any(map(is_dynamic, sizes)) or more:
        return
    row = max(plan.rows, key=tiling.size_of)
    others = tuple(a for a in plan.rows if a is not row)
    if others and not plan.loose:
        return
    heavy = contraction.is_heavy(plan, kernel)
    load = _load(plan, row, others, heavy, facts, target)
    item, lanes = load.item, target.vector_bytes // load.item
    for blocks in candidate_blocks(target, load):
        tile, width = blocks.tile, blocks.tile.vectors * lanes
        columns = Cut((), column, width * blocks.strips, (), strip=width)
        rows, steps = cut_tiles(row, tile.rows, blocks.tiles * tile.rows)
        tiles = _UnitCuts(
            TiledCut(rows, steps),
            TiledCut(columns, tiling.RangeTiling(lanes, tile.vectors)),
            cut_ranges(_walk(plan, facts), blocks.depth, lanes), lanes, facts, target,
        )  # fmt: skip
        right, left, sums = list[Panel](), list[Panel](), tuple[Panel, ...]()
        if not blocks.shallow:
            right = [_in_strips(tiles, columns, node) for node in plan.right]
        if not (plan.loose or blocks.shallow):
            left = _left_panels(plan, tiles)
        if tiles.depth.several or heavy:
            sums = tiles.sums(plan.reduces, columns.length + lanes, True)
        size = prod(tiling.size_of(r) for r in (*plan.columns, *plan.ranges)) * item
        far = size * len(plan.right) > target.l2 and target.decides("prefetch")
        prefetch = tiles.depth.length if blocks.shallow and far else 0
        sharing = (*others, rows)
        unit = _unit(plan, tiles, right, left, sums, sharing, prefetch)
        yield Schedule(kernel, lanes, (*plan.outer, columns, *sharing), unit)


def _load(
    plan: Contraction,
    row: Node,
    others: Sequence[Node],
    heavy: bool,
    facts: Facts,
    target: Target,
) -> Load:
    """What the model of blocks has to know: see `Load`, and above."""
    item = max(n.dtype.itemsize for n in (*plan.left, *plan.right, *plan.reduces))
    moved = row if plan.loose else None
    width = prod(map(tiling.size_of, plan.columns))
    return Load(
        rows=prod(map(tiling.size_of, (row,) if plan.loose else plan.rows)),
        vectors=-(-width * item // target.vector_bytes),
        depth=prod(map(tiling.size_of, plan.ranges)),
        item=item,
        outer=prod(map(tiling.size_of, plan.outer)),
        others=prod(map(tiling.size_of, others)),
        right=len(plan.right),
        left=0 if plan.loose else len(plan.left),
        sums=len(plan.reduces),
        heavy=heavy,
        together=tiling.rows_together(plan.left, moved, facts, target),
        conflict_free=contraction.conflict_free_rows(plan, facts, target),
    )


def _in_strips(tiles: _UnitCuts, columns: Cut, node: Node) -> Panel:
    """A right operand in strips as wide as a tile.

    A tile reads its strip from beginning to end: one page after the other, ahead of
    which the processor fetches by itself, where rows of the whole operand would be far
    apart.
    """
    width, deep = columns.strip, tiles.terms(node)
    across = Term.of(columns, 1)._replace(strips=deep * width)
    rows, parts = deep * (columns.size // width), (tiles.term_of(node, width), across)
    return Panel("right", node, rows, width, parts, True)


def schedule_dots(
    kernel: Kernel, plan: Contraction, facts: Facts, target: Target
) -> Iterator[Schedule]:
    """A contraction as one of few columns, if that is best.

        right[j][k] <- b(k, j)                  once, transposed if it stands otherwise
        out[i, j] <- f(the sum over k of a(i, k) · right[j][k])

    Vectors along three columns would be mostly empty, and along the rows far apart in
    memory. What is summed over may be taps around channels that lie side by side, of
    which some are outside of an image: all lanes are, or none. A tile has a vector of
    partial sums for each pair of some rows and a column; their lanes are added up at
    the end.
    """
    sizes = [axis_of(a).size for a in (*kernel.axes, *plan.ranges)]
    (*others, length), (*more, column) = plan.ranges, plan.columns
    if any(map(is_dynamic, sizes)) or more:
        return
    row = max(plan.rows, key=tiling.size_of)
    item = max(n.dtype.itemsize for n in (*plan.left, *plan.right, *plan.reduces))
    lanes = target.vector_bytes // item
    wide, deep = tiling.size_of(column), prod(map(tiling.size_of, plan.ranges))
    if 2 * wide > lanes or deep < 2 * lanes:
        return
    if others and tiling.size_of(length) % lanes:
        return
    if deep * wide * item * len(plan.right) > target.l1:
        return
    if not all(contraction.runs_along(n, length, facts) for n in plan.left):
        return
    # Of sums in vectors of columns, each step takes half a cycle per row.
    if 0.5 * deep <= wide * (0.5 * deep / lanes + target.costs.add_lanes):
        return
    fitting = (target.registers - 1 - wide) // ((wide + 1) * len(plan.reduces))
    tile = min(fitting, tiling.rows_together(plan.left, row, facts, target))
    if tile < 1:
        return
    columns, (rows, steps) = Cut.whole(plan.columns), cut_tiles(row, tile, _UNIT_ROWS)
    tiles = _UnitCuts(
        TiledCut(rows, steps),
        TiledCut(columns, tiling.RangeTiling(0, wide)), Cut.whole(plan.ranges),
        lanes, facts, target,
    )  # fmt: skip
    pitch = (-(-deep // lanes) + 1) * lanes
    across = Term.of(columns, pitch)
    right = [
        Panel("right", node, wide, pitch, (across, tiles.term_of(node)), True)
        for node in plan.right
    ]
    heavy = contraction.is_heavy(plan, kernel)
    sums = tiles.sums(plan.reduces if heavy else (), columns.length, False)
    sharing = (*[a for a in plan.rows if a is not row], rows)
    along = tiling.RangeTiling(lanes)
    unit = _unit(plan, tiles, right, (), sums, sharing, along=along)
    yield Schedule(kernel, lanes, (*plan.outer, *sharing), unit)


def schedule_blocks(
    kernel: Kernel, plan: Contraction, facts: Facts, target: Target
) -> Iterator[Schedule]:
    """Any contraction; of groups where the processor multiplies them."""
    if not (is_worthwhile(plan, facts, target) or _saves_code(kernel, plan, facts)):
        return
    groups, views = choose_groups(plan, target), tuple[tree.GroupView, ...]()
    if groups is not None:
        kernel, plan, views = in_groups(kernel, plan, groups, facts)
    known = kernel, plan, facts, target
    found = block_for_cache(*known)
    if target.decides("pack_panels"):
        found = chain(pack_panels(*known), found)
    yield from (replace(schedule, views=views) for schedule in found)


def _saves_code(kernel: Kernel, plan: Contraction, facts: Facts) -> bool:
    """Is a long expression made of the sums of a small product?

    Loops over tiles alone would be as fast, but repeat it for each register of a tile:
    9 to 14 times as much code was measured, which takes as much longer to compile.
    """
    work = prod(tiling.size_of(a) for a in (*plan.rows, *plan.columns, *plan.ranges))
    if work < _WORTH_SUMS or not contraction.reads_in_place(plan, facts):
        return False
    return contraction.is_heavy(plan, kernel)
