"""Contractions in blocks that fit in the caches.

A unit is a block of rows and columns:

    panel c[i, j] <- 0
    for each block of k:
        panel b[k, j] <- b(j, k)              any expression, turned where it is turned
        panel a[i, k] <- a(i, k)              unless it can be read where it stands
        panel c[i, j] <- c[i, j] + the sum    in tiles of registers
    out <- f(c)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from ftrace.devices.llvm.contraction.find import Contraction
from ftrace.devices.llvm.contraction.schedule import (
    LooseRows,
    Schedule,
    StagedRows,
    walk,
)
from ftrace.devices.llvm.emit.blocked_ranges import Cut, cut_ranges
from ftrace.devices.llvm.schedule.index_facts import Facts
from ftrace.devices.llvm.schedule.register_tiles import (
    RegisterTile,
    register_tile,
    rows_together,
)
from ftrace.devices.llvm.schedule.tiling_ir import size_of
from ftrace.devices.llvm.target import Target
from ftrace.trace.graph import Node
from ftrace.trace.symbolic.bounds import sample

#: Vectors in a row of panel b, and rows of it (of 4-byte elements): 768 bytes × 512
#: stay in L2, and the rows of the other operand that a tile needs in L1.
VECTORS = 12
DEPTH = 512
#: Rows of a block: each element of panel b is used so often.
HEIGHT = 256
LEAST_HEIGHT = 64


def in_blocks(plan: Contraction, facts: Facts, target: Target) -> Schedule:
    """Any contraction."""
    item = max(n.dtype.itemsize for n in (*plan.left, *plan.right, *plan.reduces))
    lanes = target.vector_bytes // item
    row = max(plan.rows, key=size_of)
    height = prod(size_of(a) for a in ((row,) if plan.loose else plan.rows))
    together = rows_together(plan.left, row if plan.loose else None, facts)
    columns, tile = _cut_columns(plan.columns, height, lanes, together, target)
    step = tile.vectors * lanes
    pitch = -(-columns.length // step) * step
    room = target.l2 // 2 // (pitch * item * len(plan.right))
    deep = max(min(DEPTH * 4 // item, room), 16)
    outer = (*plan.outer, *columns.outer)
    units = sample(columns.blocks) * prod(map(size_of, outer))
    rows, others = _cut_rows(plan, row, tile.rows, units, target.cores)
    return Schedule(
        plan, lanes,
        outer=(*outer, *others),
        inner=(),
        rows=rows,
        columns=columns,
        vectors=tile.vectors,
        depth=cut_ranges(walk(plan, facts), deep, lanes),
        packed=plan.right,
        left=() if plan.loose else plan.left,
        pitch=pitch,
    )  # fmt: skip


def _cut_columns(
    columns: Sequence[Node], height: int, lanes: int, together: int, target: Target
) -> tuple[Cut, RegisterTile]:
    """Blocks of columns that fill whole vectors and tiles best."""
    registers, column = target.registers, columns[-1]
    last = -(-size_of(column) // lanes)
    tile = register_tile(height, last, registers, together)
    found = cut_ranges(columns, VECTORS * lanes, tile.vectors * lanes)
    if found.split is column:
        return found, tile
    best = (float("inf"), found, tile)
    sizes = range(1, found.size + 1) if found.split is not None else (1,)
    for size in sizes:
        part = replace(found, size=size)
        tile = register_tile(height, -(-part.length // lanes), registers, together)
        # A block has costs of its own.
        cycles = (tile.cycles + 1) * sample(part.blocks)
        if cycles < best[0]:
            best = (cycles, part, tile)
    return best[1], best[2]


def _cut_rows(
    plan: Contraction, row: Node, tile: int, columns: int, cores: int
) -> tuple[LooseRows | StagedRows, list[Node]]:
    """High blocks, but enough of them for all cores; and the rows around them.

    Args:
      columns: blocks of columns, at all places around them.
    """
    height = HEIGHT
    while True:
        if plan.loose:
            others = [a for a in plan.rows if a is not row]
            rows: LooseRows | StagedRows = LooseRows(row, tile, height)
        else:
            found = cut_ranges(plan.rows, height)
            others, rows = list(found.outer), StagedRows(found, tile)
        units = columns * sample(rows.blocks) * prod(map(size_of, others))
        enough = 4 * cores if height > LEAST_HEIGHT else cores
        if units >= enough or height // 4 < tile:
            return rows, others
        height //= 2
