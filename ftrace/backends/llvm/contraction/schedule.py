"""How a product runs, as data, and the strategies that say how.

    for units of columns and rows:                  what threads share
        panel sums[i, j] <- 0
        once, or for each block of k:
            panel right[…] <- b(j, k)               any expression, turned if need be
            panel left[i, k] <- a(i, k)             unless it is read where it stands
            sums[i, j] <- sums[i, j] + left · right in tiles of registers
        out <- f(sums)

A contraction and a processor give a `Schedule`, or None. Printed it is that diagram;
`emitter.py` carries it out. Blocks of k have a fixed size: the result does not depend
on how units are shared. The scheme is that of the BLIS library (Van Zee and van de
Geijn, 2015), with panels filled by arbitrary expressions.

    in_blocks    any contraction, in blocks that fit in the caches
    as_panels    matrix products: one axis of rows and one of columns in a block
    find_dots    few columns: vectors run along what is summed over
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from ftrace.backends.llvm.contraction import find as contraction
from ftrace.backends.llvm.contraction.block_sizes import Load, choose_blocks
from ftrace.backends.llvm.emit.blocked_ranges import Cut, cut_ranges
from ftrace.backends.llvm.schedule import tiling_ir as tiling
from ftrace.backends.llvm.schedule.index_facts import Facts
from ftrace.backends.llvm.target import Target
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.kernel.ir import Kernel, axis_of
from ftrace.trace.graph import Node
from ftrace.trace.symbolic.bounds import sample
from ftrace.trace.symbolic.dim import is_dynamic

#: Vectors in a row of panel b, and rows of it (of 4-byte elements): 768 bytes × 512
#: stay in L2, and the rows of the other operand that a tile needs in L1.
VECTORS = 12
DEPTH = 512
#: Rows of a block: each element of panel b is used so often.
HEIGHT = 256
LEAST_HEIGHT = 64
#: Multiplications that make up for a panel of sums.
_WORTH_SUMS = 1 << 12
#: Rows of fewer columns make vectors that are mostly empty.
_SHORT_ROWS = 4
#: The axes of a block should be so long; where nothing is filled two rows will do.
LONG_ROWS, FEW_ROWS = 8, 2
#: Cycles to add up the lanes of a vector of sums.
_ACROSS = 10.0
#: Rows that make up for the panel of the right operand.
_LEAST_ROWS = 16
#: Rows of a unit, about.
_UNIT_ROWS = 64


@dataclass(frozen=True, eq=False)
class TiledRows:
    """Rows along one axis in blocks of tiles: operands are read where they stand.

    Tiles are cut from the whole axis: some are a row higher.

    Attributes:
      tile: rows of a tile.
      height: rows of a block, about.
    """

    axis: Node
    tile: int
    height: int

    @property
    def parts(self) -> list[tiling.Tiles]:
        return tiling.cut(axis_of(self.axis).size, tiling.Steps(0, self.tile))

    @property
    def tiles(self) -> int:
        return sum(part.count for part in self.parts)

    @property
    def high(self) -> int:
        """Tiles of a block: blocks are as equal as can be."""
        tiles, high = self.tiles, max(self.height // self.tile, 1)
        return high if is_dynamic(tiles) else -(-tiles // -(-tiles // high))

    @property
    def blocks(self) -> int:
        return -(-self.tiles // self.high)

    @property
    def length(self) -> int:
        """Rows of a block."""
        return self.high * self.parts[0].copies


@dataclass(frozen=True, eq=False)
class Schedule:
    """How a contraction runs.

    Attributes:
      plan: the contraction.
      lanes: of a vector.
      outer: axes whose values are units of their own.
      inner: other axes of rows: the right operands are the same for all of them.
      rows: how rows are cut; as a cut their operands stand in panels.
      columns: how columns are cut.
      tile: rows and vectors of a tile.
      depth: how what is summed over is cut.
      packed: right operands that stand in panels.
      left: left operands that do.
      pitch: columns (or terms) of a row of a right panel.
      strips: right panels are strips as wide as a tile.
      along: vectors run along this range, not along the columns.
      once: units in a row that share right panels fill them once.
      registers: results go from registers to where they belong.
      ahead: how many terms ahead right operands are asked for.
    """

    plan: contraction.Contraction
    lanes: int
    outer: tuple[Node, ...]
    inner: tuple[Node, ...]
    rows: TiledRows | Cut
    columns: Cut
    tile: tuple[int, int]
    depth: Cut
    packed: tuple[Node, ...]
    left: tuple[Node, ...]
    pitch: int
    strips: bool = False
    along: Node | None = None
    once: bool = False
    registers: bool = False
    ahead: int = 0

    @property
    def width(self) -> int:
        """Columns of a tile."""
        return self.tile[1] * self.lanes

    def __str__(self) -> str:
        layout = "[column][k]" if self.along else "[k][column]"
        layout = f"[strip]{layout}" if self.strips else layout
        rows, vectors = self.tile
        tile = f"{vectors} vectors of {self.lanes}"
        if self.along:
            along = f"{name_of(self.along)} in vectors of {self.lanes}"
            tile = f"{vectors} columns, {along}"
        columns = () if self.along else (self.columns,)
        places = [*self.outer, *columns, *self.inner, self.rows]
        lines = [f"for each {', '.join(map(name_of, places))}:"]
        if self.depth.several:
            lines.append("    panel sums[row][column] <- 0")
        lines.append(f"    for each {name_of(self.depth)}:")
        once = "once, " if self.once and not self.depth.several else ""
        lines += [f"        {once}panel right{layout} <- b(…)" for _ in self.packed]
        lines += ["        panel left[row][k] <- a(…)" for _ in self.left]
        lines.append(f"        sums += a · b    {rows} rows × {tile}")
        if self.ahead:
            lines.append(f"            prefetch b, {self.ahead} terms ahead")
        kept = "in registers" if self.registers else "of the panel of sums"
        return "\n".join([*lines, f"    out <- f(sums)    {kept}"])


def name_of(part: Node | Cut | TiledRows) -> str:
    """A range, or how ranges are cut."""
    if isinstance(part, TiledRows):
        return f"{name_of(part.axis)} by {part.length}"
    if isinstance(part, Cut):
        split = [] if part.split is None else [f"{name_of(part.split)} by {part.size}"]
        return " × ".join(
            [*map(name_of, part.outer), *split, *map(name_of, part.inner)]
        )
    axis = axis_of(part)
    return f"{'r' if axis.reduced else 'i'}{axis.number}"


def in_blocks(plan: contraction.Contraction, facts: Facts, target: Target) -> Schedule:
    """Any contraction.

    A unit is a block of rows and columns:

    panel c[i, j] <- 0
    for each block of k:
        panel b[k, j] <- b(j, k)           any expression, turned where it is turned
        panel a[i, k] <- a(i, k)           unless it can be read where it stands
        panel c[i, j] <- c[i, j] + the sum in tiles of registers
    out <- f(c)
    """
    item = max(n.dtype.itemsize for n in (*plan.left, *plan.right, *plan.reduces))
    lanes = target.vector_bytes // item
    row = max(plan.rows, key=tiling.size_of)
    height = prod(tiling.size_of(a) for a in ((row,) if plan.loose else plan.rows))
    together = tiling.rows_together(plan.left, row if plan.loose else None, facts)
    columns, tile = _cut_columns(plan.columns, height, lanes, together, target)
    step = tile.vectors * lanes
    pitch = -(-columns.length // step) * step
    room = target.l2 // 2 // (pitch * item * len(plan.right))
    deep = max(min(DEPTH * 4 // item, room), 16)
    outer = (*plan.outer, *columns.outer)
    units = sample(columns.blocks) * prod(map(tiling.size_of, outer))
    rows, others = _cut_rows(plan, row, tile.rows, units, target.cores)
    return Schedule(
        plan, lanes,
        outer=(*outer, *others),
        inner=(),
        rows=rows,
        columns=columns,
        tile=(tile.rows, tile.vectors),
        depth=cut_ranges(_walk(plan, facts), deep, lanes),
        packed=plan.right,
        left=() if plan.loose else plan.left,
        pitch=pitch,
    )  # fmt: skip


def _walk(plan: contraction.Contraction, facts: Facts) -> list[Node]:
    """What is summed over, in the order in which the left operands lie in memory."""
    return contraction.in_memory_order(plan.left or plan.right, plan.ranges, facts)


def _cut_columns(
    columns: Sequence[Node], height: int, lanes: int, together: int, target: Target
) -> tuple[Cut, tiling.RegisterTile]:
    """Blocks of columns that fill whole vectors and tiles best."""
    registers, column = target.registers, columns[-1]
    last = -(-tiling.size_of(column) // lanes)
    tile = tiling.register_tile(height, last, registers, together)
    found = cut_ranges(columns, VECTORS * lanes, tile.vectors * lanes)
    if found.split is column:
        return found, tile
    best = (float("inf"), found, tile)
    sizes = range(1, found.size + 1) if found.split is not None else (1,)
    for size in sizes:
        part = replace(found, size=size)
        tile = tiling.register_tile(
            height, -(-part.length // lanes), registers, together
        )
        # A block has costs of its own.
        cycles = (tile.cycles + 1) * sample(part.blocks)
        if cycles < best[0]:
            best = (cycles, part, tile)
    return best[1], best[2]


def _cut_rows(
    plan: contraction.Contraction, row: Node, tile: int, columns: int, cores: int
) -> tuple[TiledRows | Cut, list[Node]]:
    """High blocks, but enough of them for all cores; and the rows around them.

    Args:
      columns: blocks of columns, at all places around them.
    """
    height = HEIGHT
    while True:
        if plan.loose:
            others = [a for a in plan.rows if a is not row]
            rows: TiledRows | Cut = TiledRows(row, tile, height)
        else:
            rows = cut_ranges(plan.rows, height)
            others = list(rows.outer)
        units = columns * sample(rows.blocks) * prod(map(tiling.size_of, others))
        enough = 4 * cores if height > LEAST_HEIGHT else cores
        if units >= enough or height // 4 < tile:
            return rows, others
        height //= 2


def without_panels(
    kernel: Kernel, plan: contraction.Contraction, facts: Facts, target: Target
) -> Schedule | None:
    """A matrix product whose operands are best read in place.

    Loops over tiles alone would be as fast, but what becomes of the sums may be a long
    expression, which they repeat for each register of a tile. And vectors of two or
    three columns would be mostly empty: only tiles, which share what is read, pay.
    """
    if not contraction.reads_in_place(plan, facts):
        return None
    work = prod(tiling.size_of(a) for a in (*plan.rows, *plan.columns, *plan.ranges))
    if tiling.size_of(plan.columns[-1]) < _SHORT_ROWS:
        work *= prod(map(tiling.size_of, plan.outer))
    elif not contraction.is_heavy(plan, kernel):
        return None
    if work < _WORTH_SUMS:
        return None
    return as_panels(kernel, plan, facts, target, packed=False)


def as_panels(
    kernel: Kernel,
    plan: contraction.Contraction,
    facts: Facts,
    target: Target,
    long: int = LONG_ROWS,
    packed: bool = True,
) -> Schedule | None:
    """A matrix product, if blocks of one axis each are enough.

    A unit is a block of rows and some strips of columns:

        for each block of k:
            right[strip][k][j] <- b(j, k)      unless the unit before it did
            left[k][i] <- a(i, k)              unless it can be read where it stands
            out <- f(the sum)                  in tiles of registers

    Where k is one block and f is light, results go from registers to where they belong;
    else the sums of a unit stand in a panel until all of them are known. How large
    blocks are is decided in `block_sizes.py`.

    Args:
      long: what the axis of rows has to be.
      packed: the right operands stand in panels; else they are read in place.
    """
    sizes = [axis_of(a).size for a in (*kernel.axes, *plan.ranges)]
    *more, column = plan.columns
    if any(map(is_dynamic, sizes)) or more:
        return None
    row = max(plan.rows, key=tiling.size_of)
    others = tuple(a for a in plan.rows if a is not row)
    if tiling.size_of(row) < long or (others and not plan.loose):
        return None
    heavy = contraction.is_heavy(plan, kernel)
    item = max(n.dtype.itemsize for n in (*plan.left, *plan.right, *plan.reduces))
    lanes = target.vector_bytes // item
    blocks = choose_blocks(
        target,
        Load(
            rows=tiling.size_of(row),
            vectors=-(-tiling.size_of(column) // lanes),
            depth=prod(tiling.size_of(r) for r in plan.ranges),
            item=item,
            outer=prod(map(tiling.size_of, plan.outer)),
            others=prod(map(tiling.size_of, others)),
            right=len(plan.right) if packed else 0,
            left=0 if plan.loose else len(plan.left),
            sums=len(plan.reduces),
            heavy=heavy,
            together=tiling.rows_together(
                plan.left, row if plan.loose else None, facts
            ),
            apart=contraction.rows_apart(plan, facts),
        ),
    )
    tile, width = blocks.tile, blocks.tile.vectors * lanes
    depth = cut_ranges(_walk(plan, facts), blocks.depth, lanes)
    registers = not (depth.blocks > 1 or depth.outer or heavy)
    asks, in_place = target.decides("fetch_ahead"), plan.loose or blocks.shallow
    size = prod(tiling.size_of(r) for r in (*plan.columns, *plan.ranges)) * item
    far = size * len(plan.right) > target.l2
    return Schedule(
        plan, lanes,
        outer=plan.outer,
        inner=others,
        rows=TiledRows(row, tile.rows, blocks.tiles * tile.rows),
        columns=Cut((), column, width * blocks.strips, ()),
        tile=(tile.rows, tile.vectors),
        depth=depth,
        packed=plan.right if packed and not blocks.shallow else (),
        left=() if in_place else plan.left,
        pitch=width, strips=True, once=True, registers=registers,
        ahead=depth.length if blocks.shallow and far and asks else 0,
    )  # fmt: skip


def find_dots(
    kernel: Kernel, plan: contraction.Contraction, facts: Facts, target: Target
) -> Schedule | None:
    """A contraction as one of few columns, if that is best.

        right[j][k] <- b(k, j)                  once, turned if it stands otherwise
        out[i, j] <- f(the sum over k of a(i, k) · right[j][k])

    Vectors along three columns would be mostly empty, and along the rows far apart in
    memory. What is summed over may be taps around channels that lie side by side, of
    which some are outside of an image: all lanes are, or none. A tile has a vector of
    partial sums for each pair of some rows and a column; their lanes are added up at
    the end. Long expressions of the sums are computed for all rows of a unit, which is
    less code.
    """
    sizes = [axis_of(a).size for a in (*kernel.axes, *plan.ranges)]
    if any(map(is_dynamic, sizes)) or len(plan.columns) != 1:
        return None
    (*others, length), (column,) = plan.ranges, plan.columns
    row = max(plan.rows, key=tiling.size_of)
    item = max(n.dtype.itemsize for n in (*plan.left, *plan.right, *plan.reduces))
    lanes = target.vector_bytes // item
    wide, deep = tiling.size_of(column), prod(map(tiling.size_of, plan.ranges))
    if 2 * wide > lanes or deep < 2 * lanes or tiling.size_of(row) < _LEAST_ROWS:
        return None
    if others and tiling.size_of(length) % lanes:
        return None
    if deep * wide * item * len(plan.right) > target.l1:
        return None
    if not all(contraction.runs_along(n, length, facts) for n in plan.left):
        return None
    # Of sums in vectors of columns, each step takes half a cycle per row.
    if 0.5 * deep <= wide * (0.5 * deep / lanes + _ACROSS):
        return None
    room = target.registers - 1 - wide
    most = tiling.rows_together(plan.left, row, facts)
    tile = min(room // ((wide + 1) * len(plan.reduces)), most)
    if tile < 1:
        return None
    return Schedule(
        plan, lanes,
        outer=plan.outer,
        inner=tuple(a for a in plan.rows if a is not row),
        rows=TiledRows(row, tile, _UNIT_ROWS),
        columns=Cut.whole(plan.columns),
        tile=(tile, wide),
        depth=Cut.whole(plan.ranges),
        packed=plan.right, left=(),
        pitch=(-(-deep // lanes) + 1) * lanes,
        along=length, once=True, registers=not contraction.is_heavy(plan, kernel),
    )  # fmt: skip
