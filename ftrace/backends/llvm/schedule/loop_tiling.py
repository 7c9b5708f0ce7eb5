"""How the loops of a kernel run, as a value, and the tiles that follow from it.

A range of 100 in vectors of 16 lanes, unrolled up to 4 times (`RangeTiling`), is cut in
a tile of 4 vectors and one of 3, of whose last 4 lanes exist (`Tiles`). `Tiling` holds
how every range of a nest of loops runs, and what else `emit/loop_nest.py` does; what
registers hold beside sums says `InRegisters`. Which loops threads share is not in it:
see `schedule_tree.py`.

How much of a product the registers hold is a tile of rows times vectors of sums. Each
sum waits for the one before it, so that a few have to be under way at once; each row
and each vector of the operands is loaded once for all sums that it is part of. The more
of both, the fewer loads for each multiplication, up to the registers that a CPU has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from ftrace.backends.llvm.schedule.index_facts import Facts, index_of
from ftrace.backends.llvm.target import Costs, Target
from ftrace.ground.fast_dataclasses import NamedTuple, dataclass
from ftrace.ground.tables import memo
from ftrace.lower.kernel.affine_index import Index
from ftrace.lower.kernel.ir import Kernel, axis_of, load_p, range_p, reduce_p
from ftrace.lower.kernel.loop_tree import Loop, ReduceLoop
from ftrace.trace.graph import Node, toposort
from ftrace.trace.symbolic import is_dynamic, sample, upper_bound

#: Iterations whose floats are added one after the other; longer sums are made of
#: such blocks, so that their error grows like the square root of the length. In sums
#: of two blocks at most the tile around them does not decide the order.
BLOCK = 64
#: The same where many sums run beside each other and their number bounds the speed.
_LONG_BLOCK, _MANY = 512, 8
#: Elements of some buffer of a kernel that holds tables in registers: filling these
#: takes as long as some vectors of lookups.
_OFTEN = 1 << 12
#: Bytes of a table in registers at most: of sixteen of 64 bytes.
_TABLE = 1 << 10


@dataclass(frozen=True)
class RangeTiling:
    """How one range runs.

    Attributes:
      lanes: of the vector; 0 for one number at a time.
      unroll: how many copies of the body one step has.
      even: numbers are cut in tiles as equal as can be, not in whole ones and a rest.
      masked: every vector is masked, so that the last one needs no code of its own.
      interleave: the copies are computed together, instruction by instruction.
    """

    lanes: int = 0
    unroll: int = 1
    even: bool = True
    masked: bool = False
    interleave: bool = False

    @property
    def width(self) -> int:
        """How far one step goes."""
        return self.unroll * max(self.lanes, 1)

    def __str__(self) -> str:
        if not self.lanes:
            return str(self.unroll)
        return f"{self.unroll} vector{'s' * (self.unroll > 1)} of {self.lanes}"


@dataclass(frozen=True)
class Tiles:
    """A part of a range that is cut into equal tiles.

    Attributes:
      start: where the first begins.
      count: how many there are.
      unroll: vectors (or numbers) in each.
      width: from one to the next.
      tail: lanes of the last vector that exist; 0 is all.
      masked_end: where the range ends, if the vectors are masked to end there.
      inner: steps inside a tile, which are a loop up to `inner_end`; 0: it is one step.
      inner_end: where they end.

    Of a dynamic range all but `unroll`, `width`, `tail` and `inner` may be dynamic.
    """

    start: int
    count: int
    unroll: int
    width: int
    tail: int = 0
    masked_end: int = 0
    inner: int = 0
    inner_end: int = 0

    @property
    def step(self) -> int:
        """How far one step goes."""
        return self.inner or self.width


ONE_BY_ONE = RangeTiling()


class Prefetch(NamedTuple):
    """Elements that are asked for before they are needed, a vector at a time.

    Attributes:
      buffer: of the kernel.
      form: the index, in terms of the ranges that are open where it is done.
      size: bytes of an element.
      write: they will be written.
      near: they belong in the first cache, not in the second.
    """

    buffer: int
    form: Index
    size: int
    write: bool
    near: bool

    @staticmethod
    def of(load: Node, form: Index, near: bool = False) -> Prefetch:
        """What is read by a load, at another index."""
        return Prefetch(int(load.src[0].arg), form, load.dtype.itemsize, False, near)


@dataclass(frozen=True)
class InRegisters:
    """What registers hold in all loops of a kernel.

    Attributes:
      tables: buffers that are looked up there.
      rounded: products are rounded before sums take them in.
    """

    tables: frozenset[int] = frozenset()
    rounded: bool = False

    def lines(self) -> list[str]:
        """As schedules have them."""
        found = [f"buffer{number} in registers" for number in sorted(self.tables)]
        return found + ["products are rounded"] * self.rounded


@dataclass(frozen=True, eq=False)
class Tiling:
    """The decisions for one nest of loops.

    Attributes:
      steps: how each range runs; one by one where it is not named.
      columns: an axis of vectors over columns whose reduces run row by row.
      prefetch: what loops ask for, for those that run later.
      prefetch_along: a range, and what is asked for with each vector while it is open.
      squares: values are evaluated in vectors along one axis, and stored in vectors
        along another, which is unrolled as often as there are lanes.
      next_square: loads that are asked for as the next square has them.
      flat_sums: loops of a sum inside one another are added up as one.
    """

    steps: Mapping[Node, RangeTiling]
    columns: Node | None = None
    prefetch: Mapping[Loop | ReduceLoop, Sequence[Prefetch]] = field(
        default_factory=dict[Loop | ReduceLoop, Sequence[Prefetch]]
    )
    prefetch_along: tuple[Node, Sequence[Prefetch]] | None = None
    squares: bool = False
    next_square: Sequence[Node] = ()
    flat_sums: bool = False

    @property
    def in_tiles(self) -> bool:
        """Do registers hold several rows of sums?"""
        steps = self.steps.items()
        rows = [s for r, s in steps if not s.lanes and not axis_of(r).reduced]
        return any(s.unroll > 1 for s in rows)

    @property
    def order_of_sums(self) -> tuple[str, ...]:
        """In which order terms are added: with the same one bits are the same."""
        pairs = self.steps.items()
        found = [f"{name_of_range(r)} {s}" for r, s in pairs if axis_of(r).reduced]
        by_rows = self.columns and name_of_range(self.columns)
        return tuple(found) if by_rows is None else (*found, by_rows)

    def of(self, node: Node) -> RangeTiling:
        return self.steps.get(node, ONE_BY_ONE)


def cut(size: int, steps: RangeTiling) -> list[Tiles]:
    """A range in tiles: many whole ones, and what is left."""
    if is_dynamic(size):
        return _cut_dynamic(size, steps)
    if not steps.lanes and steps.even:
        return cut_evenly(size, steps.unroll)
    if steps.masked and size % steps.width:
        return [Tiles(0, -(-size // steps.width), steps.unroll, steps.width, 0, size)]
    whole = size // steps.width
    parts: list[Tiles] = []
    if whole:
        parts.append(Tiles(0, whole, steps.unroll, steps.width))
    rest = size - whole * steps.width
    if rest:
        lanes = max(steps.lanes, 1)
        vectors = -(-rest // lanes)
        parts.append(Tiles(size - rest, 1, vectors, vectors * lanes, rest % lanes))
    return parts


def _cut_dynamic(size: Any, steps: RangeTiling) -> list[Tiles]:
    """The same where the size is known at calls only: each part may be empty.

    The last vectors of a dynamic range are masked.
    """
    lanes, width = steps.lanes, steps.width
    if width == 1:
        return [Tiles(0, size, 1, 1)]
    if lanes and steps.masked:
        return [Tiles(0, -(-size // lanes), 1, lanes, 0, size)]
    whole = size // width
    start = whole * width
    rest = size - start
    last = -(-rest // width)  # as many tiles as a range of known size has
    end = size if lanes else 0
    tail = Tiles(start, last, 1, width, 0, end, max(lanes, 1), size)
    return [Tiles(0, whole, steps.unroll, width), tail]


def cut_evenly(size: int, copies: int) -> list[Tiles]:
    """As few tiles as `copies` allows, as equal as can be."""
    count = -(-size // copies)
    small, larger = divmod(size, count)
    parts: list[Tiles] = []
    if larger:
        parts.append(Tiles(0, larger, small + 1, small + 1))
    if count > larger:
        start = larger * (small + 1)
        parts.append(Tiles(start, count - larger, small, small))
    return parts


#: Ranges of schedules are numbered from here, and of what is emitted after them.
OWN_RANGES = (1 << 20) - 8


def name_of_range(r: Node) -> str:
    axis = axis_of(r)
    if axis.number >= OWN_RANGES:
        return f"j{axis.number - OWN_RANGES}"
    return f"{'r' if axis.reduced else 'i'}{axis.number}"


def range_of(loop: ReduceLoop | Loop) -> Node:
    """The range of a loop, or the last one of a reduce."""
    return loop.axis if isinstance(loop, Loop) else loop.ranges[-1]


def size_of(axis: Node) -> int:
    """The size of a range, or one that it may have, for estimates of cost."""
    return sample(axis_of(axis).size)


def equal_tiles(axis: Node, steps: RangeTiling) -> Tiles | None:
    """The tiles of an axis that runs around others, if all of them are alike."""
    if steps.width == 1:
        return Tiles(0, axis_of(axis).size, 1, 1)
    if steps.lanes or is_dynamic(axis_of(axis).size):
        return None
    parts = cut(axis_of(axis).size, steps)
    return parts[0] if len(parts) == 1 else None


#: Rows of a tile at most: those of two vectors in 32 registers. With 12 eight rows of
#: convolutions are cut otherwise, with 16 spread images, with 28 matmul 48³, too; with
#: 16 registers there are 13 at most.
MOST_ROWS = 14

#: How much longer tiles of two heights take than those of one, to be compiled at all.
#: With 1.0 16 rows of products and convolutions have other tiles, as matmul 256³, with
#: 1.1 16 for AVX2.
_UNEVEN = 1.03


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
    rows: int, vectors: int, registers: int, costs: Costs, most: int
) -> RegisterTile:
    """The best tile for so many rows and vectors: the one with the fewest cycles.

    Args:
      rows, vectors: how many there are to be tiled.
      registers: how many vectors the processor holds.
      costs: of single steps on the processor.
      most: rows of a tile at most.
    """
    tiles = register_tiles(rows, vectors, registers, costs, most)
    return min(tiles, key=lambda tile: tile.cycles)


@memo(4096)
def register_tiles(
    rows: int,
    vectors: int,
    registers: int,
    costs: Costs,
    most: int,
    even: bool = False,
) -> tuple[RegisterTile, ...]:
    """The best tile of each width, the narrowest first.

    Args:
      rows, vectors, registers, costs, most: as above.
      even: tiles of two heights take no longer.
    """
    found: list[RegisterTile] = []
    for n in range(1, min(vectors, 4) + 1):
        best = RegisterTile(1, n, float("inf"))
        fitting = (registers - 2 - n) // n
        for m in range(1, max(min(fitting, rows, most), 1) + 1):
            cycles = 0.0
            for across in cut_evenly(rows, m):
                cycles += across.count * row_cycles(across.unroll, n, vectors, costs)
            if rows % m and not even:
                cycles *= _UNEVEN
            if cycles < best.cycles:
                best = RegisterTile(m, n, cycles)
        found.append(best)
    return tuple(found)


def candidate_tiles(
    rows: int, vectors: int, target: Target, most: int
) -> list[tuple[int, int]]:
    """Rows and vectors of the best tile, then those of the best of each width."""
    known = rows, vectors, target.registers, target.costs, most
    tiles = register_tile(*known), *register_tiles(*known)
    return [(tile.rows, tile.vectors) for tile in dict.fromkeys(tiles)]


def row_cycles(rows: int, wide: int, vectors: int, costs: Costs) -> float:
    """Cycles of one step of the loop over the tiles of so many rows, side by side."""
    whole, rest = divmod(vectors, wide)
    cycles = whole * step_cycles(rows, wide, costs)
    return cycles + step_cycles(rows, rest, costs) if rest else cycles


def step_cycles(rows: int, vectors: int, costs: Costs) -> float:
    """Cycles of one step of the loop over a tile.

    It multiplies rows × vectors, loads each vector and spreads one number per row: two
    of either fit in a cycle. A chain of additions takes some cycles per link, and each
    vector comes from a cache that is slower than the registers.
    """
    work = max(rows * vectors, rows + vectors) * 0.5
    return max(work, costs.sum_latency) + costs.fetch * vectors


def rows_together(
    terms: Sequence[Node], row: Node | None, facts: Facts, target: Target
) -> int:
    """How many rows of what the terms load do not push each other out of the cache.

    The other operand needs some of the places that they share.
    """
    found = MOST_ROWS
    for n in toposort(terms):
        if row is None or n.op is not load_p:
            continue
        pitch = facts.affine[index_of(n)].terms.get(row, 0) * n.dtype.itemsize
        if pitch:
            found = min(found, target.rows_cached(pitch) - 2)
    return found


def in_registers(kernel: Kernel, facts: Facts, target: Target) -> InRegisters:
    """What registers hold of a kernel beside its sums."""
    fused = target.fma and target.decides("fuse_multiply_add")
    rounded = not fused and any(n.op is reduce_p for n in kernel.nodes)
    sizes = [0 if is_dynamic(spec.size) else spec.size for spec in kernel.buffers]
    often = target.avx512 and max(sizes, default=0) >= _OFTEN
    small = {
        n for n, spec in enumerate(kernel.buffers)
        if often and 0 < sizes[n] * max(spec.dtype.itemsize, 4) <= _TABLE
        and not spec.written and target.decides("register_tables")
    }  # fmt: skip
    loads = [n for n in kernel.nodes if n.op is load_p] if small else []
    atoms = [(n.src[0].arg, a) for n in loads for a in facts.affine[index_of(n)].terms]
    tables = {number for number, atom in atoms if atom.op is not range_p}
    return InRegisters(frozenset(tables & small), rounded)


def block_of_sums(count: Any, sums: int) -> int:
    """How many of `count` iterations so many sums of floats have in a block; 0: all."""
    block = _LONG_BLOCK if sums >= _MANY else BLOCK
    if is_dynamic(count):
        return _LONG_BLOCK if upper_bound(count) > block else 0
    return block_size(block, count) if count > 2 * block else 0


def block_size(block: int, count: int) -> int:
    """A size of blocks, doubled until there are no more of them than it says."""
    while block * block < count:
        block *= 2
    return block
