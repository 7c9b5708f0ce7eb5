"""How large the blocks of a matrix product are: a small model of what they cost.

A piece of work fills panels and multiplies tiles. Larger blocks fill less often;
smaller ones fit into the caches, and every core finds one at the end. The model counts
cycles for each way to cut, and takes the least.
"""

from __future__ import annotations

from collections.abc import Iterator

from ftrace.backends.llvm.runtime.work_estimate import PIECES_PER_THREAD
from ftrace.backends.llvm.schedule import loop_tiling as tiling
from ftrace.backends.llvm.target import Target
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.ground.tables import memo

#: How much of L2 panels may take: of right operands, and the others together, which are
#: read from one end to the other, and may come from further away.
_RIGHT, _OTHERS = 0.5, 2.0
#: Strips that there should be room for where left operands are filled for them again:
#: with 1 a.T @ b of 4096 terms takes 1.06 times as long, of 8000 1.12 (AMD EPYC, as all
#: such).
_STRIPS = 8
#: How much more a line of the left operand counts where a tile is chosen: the fewer
#: streams, the better: with 1 a product of 512³ takes 1.16 times as long, one of
#: 700×900×500 2.1 times.
_STREAMS = 4.0
#: Terms of a sum in a shallow block. Without such blocks 8×2048×2048 takes 2.1 times as
#: long, 16×4096×4096 3.3 times.
_SHALLOW = 32
#: Panels, whose time is known better, are left for ways that take a little less only;
#: for rows that push each other out of the cache, where that takes a fifth less. Where
#: they are left too soon 512³ takes 1.1 times as long, 1024³ 2.4 times.
_SURE, _SURE_CLOSE = 1.1, 1.25
#: Ways to cut that are looked at: a bound of compile time; with a quarter of them seven
#: rows of products are cut otherwise.
_WAYS = 24


@dataclass(frozen=True)
class Load:
    """What is to be multiplied.

    Attributes:
      rows, vectors, depth: the sizes; columns in vectors.
      item: bytes of an element.
      outer: how many such products there are.
      others: how often the right operands serve for further rows.
      right, left, sums: how many panels of each there are.
      heavy: the sums go through panels in any case.
      together: rows of a tile at most.
      conflict_free: right rows that do not push each other out of the first cache, if
        all operands can be read where they stand; else 0.
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
    together: int = tiling.MOST_ROWS
    conflict_free: int = 0


@dataclass(frozen=True)
class Blocks:
    """How it is cut.

    Attributes:
      tile: of registers.
      strips: of a unit, each as wide as a tile.
      tiles: rows of a unit, in tiles.
      depth: terms of a sum that make a block.
      cycles: what it takes in all, on as many cores as there are.
      shallow: few terms at a time are added to sums that stay in the first cache, or
        all to sums in registers. No operand needs a panel then: right ones are read
        row by row, once or from the first cache.
    """

    tile: tiling.RegisterTile
    strips: int
    tiles: int
    depth: int
    cycles: float
    shallow: bool = False


@memo(1024)
def choose_blocks(target: Target, load: Load) -> Blocks:
    """The cheapest way to cut."""
    deep = min(_deep_blocks(target, load, _deep_tile(target, load)), key=_cycles_of)
    shallow = min(_all_shallow(target, load), key=_cycles_of, default=deep)
    sure = _SURE if load.conflict_free >= _SHALLOW else _SURE_CLOSE
    return deep if deep.cycles <= shallow.cycles * sure else shallow


def candidate_blocks(target: Target, load: Load) -> Iterator[Blocks]:
    """The cheapest way, then others with as many terms in a block, by their cost.

    Of each tile those are looked at whose units differ most.
    """
    best, found = choose_blocks(target, load), list[Blocks]()
    yield best
    sizes = load.rows, load.vectors, target.registers, target.costs, load.together
    for tile in () if best.shallow else (best.tile, *tiling.register_tiles(*sizes)):
        ways = [w for w in _deep_blocks(target, load, tile) if w.depth == best.depth]
        ways.sort(key=_cycles_of, reverse=True)
        found += {w.strips * w.tiles.bit_length(): w for w in ways}.values()
    yield from sorted(found, key=_cycles_of)


def _cycles_of(blocks: Blocks) -> float:
    return blocks.cycles


def _all_shallow(target: Target, load: Load) -> Iterator[Blocks]:
    """Ways with few terms at a time, and with all where the first cache holds them."""
    few = min(_SHALLOW, load.conflict_free, load.depth)
    depth = load.depth if load.depth <= load.conflict_free else few
    if few and target.decides("few_rows"):
        for terms in dict.fromkeys((few, depth)):
            yield from _shallow_blocks(target, load, terms)


def _shallow_blocks(target: Target, load: Load, depth: int) -> Iterator[Blocks]:
    """Ways to cut with so many terms at a time."""
    sizes = load.rows, load.vectors, target.registers, target.costs
    tile = tiling.register_tile(*sizes, tiling.MOST_ROWS)
    total = -(-load.vectors // tile.vectors)
    tiles = -(-load.rows // tile.rows)
    wide = tile.vectors * target.vector_bytes
    for parts in _part_counts(1, tiles):
        high = -(-tiles // parts)
        column = wide * (tile.rows * high * load.sums + depth * load.right)
        most = target.l1 * 3 // 2 // column
        for count in _part_counts(-(-total // most), total) if most else ():
            strips = -(-total // count)
            cycles = _shallow_cycles(target, load, tile, strips, high, depth)
            yield Blocks(tile, strips, high, depth, cycles, True)


def _shallow_cycles(
    target: Target,
    load: Load,
    tile: tiling.RegisterTile,
    strips: int,
    high: int,
    depth: int,
) -> float:
    costs = target.costs
    total = -(-load.vectors // tile.vectors)
    tiles = -(-load.rows // tile.rows)
    blocks = -(-load.depth // depth)
    step = tile.cycles / (total * tiles)
    again = costs.again + costs.resume * tile.rows * tile.vectors * load.sums
    again += costs.pushed_out * tile.rows if tile.rows > load.together else 0.0
    again *= blocks if depth < load.depth else 0
    cycles = strips * high * (step * load.depth + again)
    rows = high * tile.rows
    far = load.depth * load.vectors * target.vector_bytes > target.l2
    read = costs.read_far if far else costs.read
    cycles += strips * tile.vectors * load.depth * read * load.right
    lanes = target.vector_bytes // load.item
    nbytes = load.depth * load.rows * load.item
    read = costs.read_far if nbytes > target.l2 else costs.read
    if load.left and nbytes > 4 * target.l2:
        read = costs.read_across
    cycles += rows / lanes * load.depth * read
    cycles += tile.vectors * strips * rows * (costs.finish + 1) * load.sums
    units = load.outer * -(-total // strips) * load.others * -(-tiles // high)
    pieces, size = share_units(units, target.cores)
    return cycles * (-(-pieces // target.cores) + 0.15) * size


def _deep_blocks(
    target: Target, load: Load, tile: tiling.RegisterTile
) -> Iterator[Blocks]:
    """Ways to cut where each element of a panel is used as often as can be."""
    strip = tile.vectors * target.vector_bytes * load.right
    budget = int(target.l2 * _RIGHT)
    total = -(-load.vectors // tile.vectors)
    depth = _depth(target, load, strip, total)
    tiles = -(-load.rows // tile.rows)
    most = max(min(budget // (depth * strip), total), 1)
    for count in _part_counts(-(-total // most), total):
        strips = -(-total // count)
        row = depth * load.item * load.left
        if load.heavy or depth < load.depth:
            row += strips * tile.vectors * target.vector_bytes * load.sums
        high = max(int(target.l2 * _OTHERS) // max(tile.rows * row, 1), 1)
        for parts in _part_counts(-(-tiles // high), tiles):
            high = -(-tiles // parts)
            cycles = _cycles(target, load, tile, strips, high, depth)
            yield Blocks(tile, strips, high, depth, cycles)


def _deep_tile(target: Target, load: Load) -> tiling.RegisterTile:
    """The best tile where each strip reads all lines of the left operand again.

    Wide ones have fewer strips. How deep a block is, and with it the order in which
    terms are added, depends on the tile: cores do not count here.
    """
    sizes = load.rows, load.vectors, target.registers, target.costs, load.together

    def cycles(tile: tiling.RegisterTile) -> float:
        strips = -(-load.vectors // tile.vectors)
        lines = strips * load.rows * load.item / target.cache_line
        return tile.cycles + lines * target.costs.line * _STREAMS

    tiles = tiling.register_tiles(*sizes, even=True)
    return min(reversed(tiles), key=cycles)


def _depth(target: Target, load: Load, strip: int, strips: int) -> int:
    """Terms of a sum in a block: all, or equal parts that are whole vectors.

    Left operands in panels are filled again for each block of columns: several strips
    should fit beside each other.
    """
    budget = int(target.l2 * _RIGHT)
    lanes = target.vector_bytes // load.item
    least = min(strips, 2) if load.left else 1
    if load.depth * strip * least <= budget:
        return load.depth
    most = min(strips, _STRIPS) if load.left else 1
    deep = max(budget // (strip * most), 1)
    each = -(-load.depth // -(-load.depth // deep))
    each = -(-each // lanes) * lanes
    return max(each if each <= deep else each - lanes, 16)


def _part_counts(least: int, most: int) -> list[int]:
    """Numbers of parts to try: the small ones, and some larger."""
    found: list[int] = []
    number = least
    while number <= most and len(found) < _WAYS:
        found.append(number)
        number += 1 if len(found) < _WAYS // 2 else max(number // 4, 1)
    return found


def _cycles(
    target: Target,
    load: Load,
    tile: tiling.RegisterTile,
    strips: int,
    high: int,
    depth: int,
) -> float:
    """What it takes with units of so many strips and tiles of rows."""
    costs = target.costs
    total = -(-load.vectors // tile.vectors)
    tiles = -(-load.rows // tile.rows)
    across, down = -(-total // strips), -(-tiles // high)
    units = load.outer * across * load.others * down
    step = (
        tile.cycles / (total * tiles)
        + tile.rows * load.item / target.cache_line * costs.line
    )
    multiply = strips * high * (step * load.depth + costs.begin_tile)
    rows = high * tile.rows
    lines = tile.vectors * strips * rows
    several = depth < load.depth
    if load.heavy or several:
        blocks = -(-load.depth // depth)
        near = lines * target.vector_bytes * load.sums <= target.l2 // 2
        add = costs.add_again if near else costs.add_far
        multiply += lines * (costs.finish + add * blocks) * load.sums
    lanes = target.vector_bytes // load.item
    fill = _fill_cycles(target, load.depth * load.vectors * target.vector_bytes)
    right = strips * tile.vectors * load.depth * fill * load.right
    nbytes = load.depth * load.rows * load.item
    stream = costs.stream_far if nbytes > target.l2 else costs.stream
    left = rows / lanes * load.depth * stream
    fill = _fill_cycles(target, nbytes)
    left += load.left * (rows / lanes + 1) * load.depth * fill
    pieces, size = share_units(units, target.cores)
    again = size if several else -(-size // (load.others * down))
    piece = size * (multiply + left) + again * right
    # The last piece is late by a part of itself.
    return (-(-pieces // target.cores) + 0.15) * piece


def _fill_cycles(target: Target, nbytes: int) -> float:
    """What a vector of a panel costs that comes from an operand of so many bytes."""
    costs = target.costs
    if nbytes <= target.l2:
        return costs.fill
    return costs.fill_l3 if nbytes <= target.l3 // 2 else costs.fill_memory


def share_units(units: int, cores: int) -> tuple[int, int]:
    """Into how many pieces the pool cuts units, and of how many units each is."""
    wished = min(units, PIECES_PER_THREAD * cores) if cores > 1 else 1
    size = -(-units // wished)
    return -(-units // size), size
