"""Matrix products: contractions with one axis of rows and one of columns in a block.

A unit is a block of rows and some strips of columns:

    for each block of k:
        right[strip][k][j] <- b(j, k)      unless the unit before it did
        left[k][i] <- a(i, k)              unless it can be read where it stands
        out <- f(the sum)                  in tiles of registers

Where k is one block and f is light, results go from registers to where they belong;
else the sums of a unit stand in a panel until all of them are known. How large blocks
are is decided in `block_sizes.py`.
"""

from __future__ import annotations

from math import prod

from ftrace.devices.llvm.contraction.block_sizes import Load, choose_blocks
from ftrace.devices.llvm.contraction.find import (
    Contraction,
    is_far,
    is_heavy,
    reads_in_place,
    rows_apart,
)
from ftrace.devices.llvm.contraction.schedule import LooseRows, Schedule, walk
from ftrace.devices.llvm.emit.blocked_ranges import Cut, cut_ranges
from ftrace.devices.llvm.schedule.index_facts import Facts
from ftrace.devices.llvm.schedule.register_tiles import rows_together
from ftrace.devices.llvm.schedule.tiling_ir import size_of
from ftrace.devices.llvm.target import Target
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.kernel.ir import Kernel, axis_of
from ftrace.trace.graph import Node
from ftrace.trace.symbolic.dim import is_dynamic

#: Multiplications that make up for a panel of sums.
_WORTH_SUMS = 1 << 12
#: Rows of fewer columns make vectors that are mostly empty.
_SHORT_ROWS = 4
#: The axes of a block should be so long; where nothing is filled two rows will do.
LONG_ROWS, FEW_ROWS = 8, 2


@dataclass(frozen=True, eq=False)
class Shape:
    """A contraction as a matrix product.

    Attributes:
      row, column: the axes of a block.
      outer: the others that both operands have, or the right ones.
      rows: other axes of rows: the right operands are the same for all of them.
      heavy: what becomes of a sum is a long expression.
    """

    row: Node
    column: Node
    outer: tuple[Node, ...]
    rows: tuple[Node, ...]
    heavy: bool


def as_matrices(
    plan: Contraction, kernel: Kernel, long: int = LONG_ROWS
) -> Shape | None:
    """The contraction as matrix products, if blocks of one axis each are enough.

    Args:
      long: what the axis of rows has to be.
    """
    sizes = [axis_of(a).size for a in (*kernel.axes, *plan.ranges)]
    if any(map(is_dynamic, sizes)):
        return None
    row = max(plan.rows, key=size_of)
    column = plan.columns[-1]
    if not plan.loose and len(plan.rows) > 1:
        return None
    if size_of(row) < long or len(plan.columns) > 1:
        return None
    return Shape(
        row, column, (*plan.outer, *plan.columns[:-1]),
        tuple(a for a in plan.rows if a is not row), is_heavy(plan, kernel),
    )  # fmt: skip


def without_panels(plan: Contraction, kernel: Kernel, facts: Facts) -> Shape | None:
    """The same where the operands are best read in place.

    Loops over tiles alone would be as fast, but what becomes of the sums may be a long
    expression, which they repeat for each register of a tile. And vectors of two or
    three columns would be mostly empty: only tiles, which share what is read, pay.
    """
    if not reads_in_place(plan, facts):
        return None
    work = prod(size_of(a) for a in (*plan.rows, *plan.columns, *plan.ranges))
    shape = as_matrices(plan, kernel)
    if shape is None:
        return None
    if size_of(shape.column) < _SHORT_ROWS:
        work *= prod(map(size_of, shape.outer))
    elif not shape.heavy:
        return None
    return shape if work >= _WORTH_SUMS else None


def as_panels(
    plan: Contraction, shape: Shape, facts: Facts, target: Target, packed: bool = True
) -> Schedule:
    """A matrix product.

    Args:
      packed: the right operands stand in panels; else they are read in place.
    """
    item = max(n.dtype.itemsize for n in (*plan.left, *plan.right, *plan.reduces))
    lanes = target.vector_bytes // item
    blocks = choose_blocks(
        target,
        Load(
            rows=size_of(shape.row),
            vectors=-(-size_of(shape.column) // lanes),
            depth=prod(size_of(r) for r in plan.ranges),
            item=item,
            outer=prod(map(size_of, shape.outer)),
            others=prod(map(size_of, shape.rows)),
            right=len(plan.right) if packed else 0,
            left=0 if plan.loose else len(plan.left),
            sums=len(plan.reduces),
            heavy=shape.heavy,
            together=rows_together(plan.left, shape.row if plan.loose else None, facts),
            apart=rows_apart(plan, facts),
        ),
    )
    tile, width = blocks.tile, blocks.tile.vectors * lanes
    depth = cut_ranges(walk(plan, facts), blocks.depth, lanes)
    registers = not (depth.blocks > 1 or depth.outer or shape.heavy)
    asks, in_place = target.decides("fetch_ahead"), plan.loose or blocks.shallow
    size = prod(size_of(r) for r in (*plan.columns, *plan.ranges)) * item
    far = size * len(plan.right) > target.l2
    # Narrow tiles have more to load than to multiply, and no room for questions.
    next_rows = registers and in_place and tile.vectors > 1 and is_far(plan, target)
    return Schedule(
        plan, lanes,
        outer=shape.outer,
        inner=shape.rows,
        rows=LooseRows(shape.row, tile.rows, blocks.tiles * tile.rows),
        columns=Cut((), shape.column, width * blocks.strips, ()),
        vectors=tile.vectors,
        depth=depth,
        packed=plan.right if packed and not blocks.shallow else (),
        left=() if in_place else plan.left,
        pitch=width, strips=True, once=True, registers=registers,
        ahead=depth.length if blocks.shallow and far and asks else 0,
        next_rows=next_rows and asks,
    )  # fmt: skip
