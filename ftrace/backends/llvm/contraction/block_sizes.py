"""How large the blocks of a matrix product are: a small model of what they cost.

A piece of work fills panels and multiplies tiles. Larger blocks fill less often;
smaller ones fit into the caches, and every core finds one at the end. The model counts
cycles for each way to cut, and takes the least.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from ftrace.backends.llvm.runtime.work_estimate import PIECES_PER_THREAD
from ftrace.backends.llvm.schedule.tiling_ir import (
    MOST_ROWS,
    RegisterTile,
    register_tile,
    register_tiles,
)
from ftrace.backends.llvm.target import Target
from ftrace.ground.fast_dataclasses import dataclass

#: How much of L2 panels may take: of right operands, of sums that are worked on later,
#: of sums that more is added to, and of left operands. The last two are read from one
#: end to the other, and may come from further away.
_RIGHT, _SUMS, _TOTALS, _LEFT = 0.5, 0.25, 1.0, 2.0
#: Strips that there should be room for where left operands are filled for them again.
_STRIPS = 8
#: Cycles to fill a vector of a panel: a load that waits for a slow cache, and a store.
#: The same where the operand is larger than L2, and than half of L3.
_FILL, _FILL_FAR, _FILL_FARTHEST = 4.0, 11.0, 30.0
#: The same to read the left operand, of which the next part is fetched ahead.
_STREAM, _STREAM_FAR = 0.5, 1.0
#: Cycles of a tile for each line of the left operand, which no longer is in L1; and how
#: much more they count where a tile is chosen: the fewer streams, the better.
_LINE, _STREAMS = 1.0, 4.0
#: Cycles to begin and end a tile, and for a result to be read from its panel again.
_TILE, _FINISH = 40.0, 6.0
#: Cycles to add to a vector of a panel of sums, and to one that is not in L2.
_ADD_AGAIN, _ADD_FAR = 2.0, 4.0
#: Terms of a sum in a shallow block; cycles to begin a tile of one, to add to a vector
#: of sums, to wait for a vector that is read where it stands, the same from beyond L2,
#: and from a left operand that lies across, far beyond L2; and for a line of a left
#: operand whose rows push each other out of the cache.
_SHALLOW = 32
_TILE_AGAIN, _ADD, _READ, _PUSHED = 1.0, 0.15, 1.0, 1.0
_READ_FAR, _READ_ACROSS = 2.0, 12.0
#: Panels, whose time is known better, are left for ways that take a little less only;
#: for rows that push each other out of the cache, where that takes a fifth less.
_SURE, _SURE_CLOSE = 1.1, 1.25
#: Ways to cut that are looked at.
_WAYS = 24


@dataclass(frozen=True)
class Load:
    """What is to be multiplied.

    Attributes:
      rows, vectors, depth: the sizes; columns in vectors.
      item: bytes of an element.
      outer: how many such products there are.
      others: how often the right operands serve for further rows.
      right, left, sums: how many panels of each there are; without right ones the
        sums need no blocks.
      heavy: the sums go through panels in any case.
      together: rows of a tile at most.
      apart: right rows that do not push each other out of the first cache, if all
        operands can be read where they stand; else 0.
    """

    rows: int
    vectors: int
    depth: int
    item: int
    outer: int = 1
    others: int = 1
    right: int = 1
    left: int = 0
    sums: int = 1
    heavy: bool = False
    together: int = MOST_ROWS
    apart: int = 0


@dataclass(frozen=True)
class Blocks:
    """How it is cut.

    Attributes:
      tile: of registers.
      strips: of a unit, each as wide as a tile.
      tiles: rows of a unit, in tiles.
      depth: terms of a sum that make a block.
      cycles: what it takes in all, on as many cores as there are.
      shallow: few terms at a time are added to sums that stay in the first cache. No
        operand needs a panel then: right ones are read once, row by row.
    """

    tile: RegisterTile
    strips: int
    tiles: int
    depth: int
    cycles: float
    shallow: bool = False


@lru_cache(maxsize=1024)
def choose_blocks(target: Target, load: Load) -> Blocks:
    """The cheapest way to cut."""
    deep = min(_deep_ways(target, load), key=_cycles_of)
    few = min(_SHALLOW, load.apart)
    may = load.right and 0 < few < load.depth and target.decides("few_rows")
    ways = _shallow_ways(target, load, few) if may else ()
    shallow = min(ways, key=_cycles_of, default=deep)
    sure = _SURE if load.apart >= _SHALLOW else _SURE_CLOSE
    return deep if deep.cycles <= shallow.cycles * sure else shallow


def _cycles_of(blocks: Blocks) -> float:
    return blocks.cycles


def _shallow_ways(target: Target, load: Load, depth: int) -> Iterator[Blocks]:
    """Ways to cut with few terms at a time."""
    tile = register_tile(load.rows, load.vectors, target.registers, MOST_ROWS)
    total = -(-load.vectors // tile.vectors)
    tiles = -(-load.rows // tile.rows)
    wide = tile.vectors * target.vector_bytes
    for parts in _ways(1, tiles):
        high = -(-tiles // parts)
        column = wide * (tile.rows * high * load.sums + depth * load.right)
        most = target.l1 * 3 // 2 // column
        for count in _ways(-(-total // most), total) if most else ():
            strips = -(-total // count)
            cycles = _shallow_cycles(target, load, tile, strips, high, depth)
            yield Blocks(tile, strips, high, depth, cycles, True)


def _shallow_cycles(
    target: Target, load: Load, tile: RegisterTile, strips: int, high: int, depth: int
) -> float:
    total = -(-load.vectors // tile.vectors)
    tiles = -(-load.rows // tile.rows)
    blocks = -(-load.depth // depth)
    step = tile.cycles / (total * tiles)
    again = _TILE_AGAIN + _ADD * tile.rows * tile.vectors * load.sums
    again += _PUSHED * tile.rows if tile.rows > load.together else 0.0
    cycles = strips * high * (step * load.depth + again * blocks)
    rows = high * tile.rows
    far = load.depth * load.vectors * target.vector_bytes > target.l2
    read = _READ_FAR if far else _READ
    cycles += strips * tile.vectors * load.depth * read * load.right
    lanes = target.vector_bytes // load.item
    nbytes = load.depth * load.rows * load.item
    read = _READ_FAR if nbytes > target.l2 else _READ
    if load.left and nbytes > 4 * target.l2:
        read = _READ_ACROSS
    cycles += rows / lanes * load.depth * read
    cycles += tile.vectors * strips * rows * (_FINISH + 1) * load.sums
    units = load.outer * -(-total // strips) * load.others * -(-tiles // high)
    pieces, size = shared(units, target.cores)
    return cycles * (-(-pieces // target.cores) + 0.15) * size


def _deep_ways(target: Target, load: Load) -> Iterator[Blocks]:
    """Ways to cut where each element of a panel is used as often as can be."""
    tile = _deep_tile(target, load)
    strip = tile.vectors * target.vector_bytes * max(load.right, 1)
    room = int(target.l2 * _RIGHT)
    total = -(-load.vectors // tile.vectors)
    depth = _depth(target, load, strip, total)
    tiles = -(-load.rows // tile.rows)
    row = depth * load.item * load.left
    most = max(min(room // (depth * strip), total), 1) if load.right else total
    least = 1
    if load.left:
        least = -(-tiles // max(int(target.l2 * _LEFT) // (tile.rows * row), 1))
    for count in _ways(-(-total // most), total):
        strips = -(-total // count)
        fewest = least
        if load.heavy or depth < load.depth:
            sums = strips * tile.vectors * target.vector_bytes * tile.rows * load.sums
            part = _SUMS if load.heavy else _TOTALS
            fewest = max(-(-tiles // max(int(target.l2 * part) // sums, 1)), least)
        for parts in _ways(fewest, tiles):
            high = -(-tiles // parts)
            if load.left and high > 1 and high * tile.rows * row > target.l2 * _LEFT:
                continue
            cycles = _cycles(target, load, tile, strips, high, depth)
            yield Blocks(tile, strips, high, depth, cycles)


def _deep_tile(target: Target, load: Load) -> RegisterTile:
    """The best tile where each strip reads all lines of the left operand again.

    Wide ones have fewer strips. How deep a block is, and with it the order in which
    terms are added, depends on the tile: cores do not count here.
    """
    sizes = load.rows, load.vectors, target.registers, load.together
    if not load.right:
        return register_tile(*sizes)

    def cycles(tile: RegisterTile) -> float:
        strips = -(-load.vectors // tile.vectors)
        lines = strips * load.rows * load.item / 64
        return tile.cycles + lines * _LINE * _STREAMS

    tiles = register_tiles(*sizes, uneven=1.0)
    return min(reversed(tiles), key=cycles)


def _depth(target: Target, load: Load, strip: int, strips: int) -> int:
    """Terms of a sum in a block: all, or equal parts that are whole vectors.

    Left operands in panels are filled again for each block of columns: several strips
    should fit beside each other.
    """
    room = int(target.l2 * _RIGHT)
    lanes = target.vector_bytes // load.item
    least = min(strips, 2) if load.left else 1
    if not load.right or load.depth * strip * least <= room:
        return load.depth
    most = min(strips, _STRIPS) if load.left else 1
    deep = max(room // (strip * most), 1)
    each = -(-load.depth // -(-load.depth // deep))
    each = -(-each // lanes) * lanes
    return max(each if each <= deep else each - lanes, 16)


def _ways(least: int, most: int) -> list[int]:
    """Numbers of parts to try: the small ones, and some larger."""
    found: list[int] = []
    number = least
    while number <= most and len(found) < _WAYS:
        found.append(number)
        number += 1 if len(found) < _WAYS // 2 else max(number // 4, 1)
    return found


def _cycles(
    target: Target, load: Load, tile: RegisterTile, strips: int, high: int, depth: int
) -> float:
    """What it takes with units of so many strips and tiles of rows."""
    total = -(-load.vectors // tile.vectors)
    tiles = -(-load.rows // tile.rows)
    across, down = -(-total // strips), -(-tiles // high)
    units = load.outer * across * load.others * down
    step = tile.cycles / (total * tiles) + tile.rows * load.item / 64 * _LINE
    multiply = strips * high * (step * load.depth + _TILE)
    rows = high * tile.rows
    lines = tile.vectors * strips * rows
    several = depth < load.depth
    if load.heavy or several:
        blocks = -(-load.depth // depth)
        near = lines * target.vector_bytes * load.sums <= target.l2 // 2
        add = _ADD_AGAIN if near else _ADD_FAR
        multiply += lines * (_FINISH + add * blocks) * load.sums
    lanes = target.vector_bytes // load.item
    fill = _fill_cycles(target, load.depth * load.vectors * target.vector_bytes)
    right = strips * tile.vectors * load.depth * fill * load.right
    nbytes = load.depth * load.rows * load.item
    stream = _STREAM_FAR if nbytes > target.l2 else _STREAM
    left = rows / lanes * load.depth * stream
    fill = _fill_cycles(target, nbytes)
    left += load.left * (rows / lanes + 1) * load.depth * fill
    pieces, size = shared(units, target.cores)
    again = size if several else -(-size // (load.others * down))
    piece = size * (multiply + left) + again * right
    # The last piece is late by a part of itself.
    return (-(-pieces // target.cores) + 0.15) * piece


def _fill_cycles(target: Target, nbytes: int) -> float:
    """What a vector of a panel costs that comes from an operand of so many bytes."""
    if nbytes <= target.l2:
        return _FILL
    return _FILL_FAR if nbytes <= target.l3 // 2 else _FILL_FARTHEST


def shared(units: int, cores: int) -> tuple[int, int]:
    """Into how many pieces the pool cuts units, and of how many units each is."""
    wished = min(units, PIECES_PER_THREAD * cores) if cores > 1 else 1
    size = -(-units // wished)
    return -(-units // size), size
