"""Tiles of sums in registers: the innermost loops where windows slide over images.

    sums[i, j] += left(i, k) · right(k, j)      i < rows, j < vectors

Both operands stand in memory, the left one as numbers that are spread over a vector
(where lanes are groups: as vectors), the right one as vectors. `k` is
a nest of loops, in which both walk evenly. Tiles of other products are loops of a nest
(`loop_nest.py`, `accumulators.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ftrace.backends.llvm.emit.addressing import Access, Term
from ftrace.backends.llvm.ir.writer import Type, Writer
from ftrace.backends.llvm.scalar.ops import Operations
from ftrace.backends.llvm.schedule.tiling_ir import RangeTiling, cut
from ftrace.ground.fast_dataclasses import dataclass

#: Products that are written one after the other at most.
_UNROLLED = 48


@dataclass(frozen=True)
class Walk:
    """A loop of a sum, and how far each step of it goes, in elements.

    Attributes:
      count: how many steps: a number, or a value.
    """

    count: str
    left: int
    right: int


@dataclass(frozen=True)
class Address:
    """A place in memory: a pointer, and terms in elements."""

    base: str
    terms: tuple[Term, ...] = ()
    constant: int = 0

    def plus(self, *terms: Term, constant: int = 0) -> Address:
        return Address(self.base, (*self.terms, *terms), self.constant + constant)


@dataclass(frozen=True)
class Tile:
    """The shape of a tile.

    Attributes:
      type: of a vector of sums.
      offsets: where each row of the left operand begins.
      vectors: how many there are.
      spread: the left operand has vectors, not numbers.
    """

    type: Type
    offsets: tuple[int, ...]
    vectors: int
    spread: bool = False

    @property
    def rows(self) -> int:
        return len(self.offsets)


def each_tile(writer: Writer, size: int, most: int) -> Iterator[tuple[str, int]]:
    """Loops over tiles of at most so many: where one begins, and how many it has."""
    for tiles in cut(size, RangeTiling(0, most)):
        stop = tiles.start + tiles.count * tiles.width
        loop = writer.open_loop(str(tiles.start), str(stop), tiles.width)
        yield loop.index, tiles.copies
        writer.close_loop(loop)


def _copies(count: str, tile: Tile, registers: int) -> int:
    """How often a loop over steps of a tile is unrolled.

    LLVM loads the vectors of all copies first. Where no register is left for them, sums
    go to memory and back with each step: 6 × 2 of 16 registers took 1.5 times as long.
    """
    if not count.isdigit():
        return 1
    sums = tile.rows * tile.vectors
    most = min(_UNROLLED // sums, (registers - 1 - sums) // tile.vectors)
    return max(n for n in range(1, max(most, 1) + 1) if int(count) % n == 0)


class MicroKernel:
    """Emits tiles."""

    def __init__(self, writer: Writer, ops: Operations, access: Access) -> None:
        self.writer = writer
        self.ops = ops
        self.access = access

    def sums(
        self,
        tile: Tile,
        walks: Sequence[Walk],
        a: Address,
        b: Address,
        state: list[str],
    ) -> list[str]:
        """Adds to the sums of a tile, row by row, what loops inside one another give.

        Args:
          walks: the loops, outermost first.
          a, b: where the operands begin.
          state: the sums before.
        """
        if not walks:
            return self._step(tile, a, b, state)
        walk, inner = walks[0], walks[1:]
        copies = 1 if inner else _copies(walk.count, tile, self.ops.target.registers)
        loop = None
        if walk.count != str(copies):
            carried = [(tile.type.text, text) for text in state]
            loop = self.writer.open_loop("0", walk.count, copies, carried)
            a, b = a.plus((walk.left, loop.index)), b.plus((walk.right, loop.index))
            state = [name for _, _, name in loop.carried]
        for n in range(copies):
            here = a.plus(constant=n * walk.left), b.plus(constant=n * walk.right)
            state = self.sums(tile, inner, *here, state)
        return state if loop is None else self.writer.close_loop(loop, state)

    def _step(self, tile: Tile, a: Address, b: Address, state: list[str]) -> list[str]:
        """One step: rows × vectors products are added."""
        t, found = tile.type, list(state)
        p = self.pointer(b, t)
        vectors = [
            self.access.load(t, self._at(p, j * t.lanes * t.bytes), True)
            for j in range(tile.vectors)
        ]
        element = t.with_lanes(0)
        q = self.pointer(a, t)
        for i in range(tile.rows):
            place = self._at(q, tile.offsets[i] * t.bytes)
            each = self.access.load(t if tile.spread else element, place, True)
            each = each if tile.spread else self.ops.splat(each, t)
            for j, vector in enumerate(vectors):
                at = i * tile.vectors + j
                found[at] = self._add(t, vector, each, found[at])
        return found

    def _add(self, t: Type, a: str, b: str, total: str) -> str:
        if self.ops.target.fma:
            return self.ops.call("fma", t, a, b, total)
        return self.ops.apply("add", t, total, self.ops.apply("mul", t, a, b))

    def pointer(self, place: Address, t: Type) -> str:
        return self.access.pointer(
            place.base, list(place.terms), place.constant, t.bytes
        )

    def _at(self, p: str, offset: int) -> str:
        if not offset:
            return p
        return self.writer.pure(f"getelementptr i8, ptr {p}, i64 {offset}", p)

    def keep(
        self, tile: Tile, state: Sequence[str], out: Address, rows: Sequence[int],
        add: bool,
    ) -> None:  # fmt: skip
        """Stores the sums of a tile, or adds them to what is there.

        Args:
          rows: where each row stands, from `out` on.
        """
        t = tile.type
        p = self.pointer(out, t)
        for i, row in enumerate(rows):
            for j in range(tile.vectors):
                place = self._at(p, (row + j * t.lanes) * t.bytes)
                text = state[i * tile.vectors + j]
                if add:
                    old = self.access.load(t, place, True)
                    text = self.ops.apply("add", t, old, text)
                self.access.store(t, text, place)
