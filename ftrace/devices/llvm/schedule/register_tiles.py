"""How much of a product the registers hold: rows times vectors of sums.

Each sum waits for the one before it, so that a few have to be under way at once; each
row and each vector of the operands is loaded once for all sums that it is part of. The
more of both, the fewer loads for each multiplication, up to the registers that a CPU
has.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ftrace.devices.llvm.schedule.index_facts import Facts, index_of
from ftrace.devices.llvm.schedule.tiling_ir import cut_evenly
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.ground.tables import memo
from ftrace.lower.kernel.ir import load_p
from ftrace.trace.graph import Node, toposort

#: Rows of a tile at most.
MOST_ROWS = 14

#: Cycles of a step of a tile at least; those that a vector takes to come from L2; and
#: how much longer tiles of two heights take than those of one, to be compiled at all.
_LATENCY = 4.25
_FETCH = 0.25
_UNEVEN = 1.03
#: A tile that takes the same, but for rounding, is no better than one before it.
_BETTER = 0.999


@dataclass(frozen=True)
class RegisterTile:
    """A tile of accumulators that stays in registers.

    Attributes:
      rows, vectors: its size.
      cycles: that one step of the loop over all tiles takes.
    """

    rows: int
    vectors: int
    cycles: float


@memo(4096)
def register_tile(
    rows: int, vectors: int, registers: int, most: int = MOST_ROWS
) -> RegisterTile:
    """The best tile for so many rows and vectors: the one with the fewest cycles.

    Args:
      rows, vectors: how many there are to be tiled.
      registers: how many vectors the processor holds.
      most: rows of a tile at most.
    """
    best, *others = register_tiles(rows, vectors, registers, most)
    for tile in others:
        if tile.cycles < best.cycles * _BETTER:
            best = tile
    return best


@memo(4096)
def register_tiles(
    rows: int,
    vectors: int,
    registers: int,
    most: int = MOST_ROWS,
    uneven: float = _UNEVEN,
) -> tuple[RegisterTile, ...]:
    """The best tile of each width, the narrowest first.

    Args:
      rows, vectors, registers, most: as above.
      uneven: how much longer tiles of two heights take.
    """
    found: list[RegisterTile] = []
    for n in range(1, min(vectors, 4) + 1):
        best = RegisterTile(1, n, float("inf"))
        room = (registers - 2 - n) // n
        for m in range(1, max(min(room, rows, most), 1) + 1):
            cycles = 0.0
            for across in cut_evenly(rows, m):
                whole, rest = divmod(vectors, n)
                steps = whole * step_cycles(across.copies, n)
                steps += step_cycles(across.copies, rest) if rest else 0.0
                cycles += across.count * steps
            if rows % m and n * m > 8:
                cycles *= uneven
            if cycles < best.cycles * _BETTER:
                best = RegisterTile(m, n, cycles)
        found.append(best)
    return tuple(found)


def step_cycles(rows: int, vectors: int) -> float:
    """Cycles of one step of the loop over a tile.

    It multiplies rows × vectors, loads each vector and spreads one number per row: two
    of either fit in a cycle. A chain of additions takes four cycles per link, and each
    vector comes from a cache that is slower than the registers.
    """
    work = max(rows * vectors, rows + vectors) * 0.5
    return max(work, _LATENCY) + _FETCH * vectors


def rows_together(terms: Sequence[Node], row: Node | None, facts: Facts) -> int:
    """How many rows of what the terms load do not push each other out of the cache.

    A first-level cache has 64 sets of lines of 64 bytes, and at least 8 in a set, of
    which the other operand needs some.
    """
    found = MOST_ROWS
    for n in toposort(terms):
        if row is None or n.op is not load_p:
            continue
        pitch = facts.affine[index_of(n)].terms.get(row, 0) * n.dtype.itemsize
        if pitch:
            found = min(found, 8 * 4096 // math.gcd(pitch, 4096) - 2)
    return found
