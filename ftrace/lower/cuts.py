"""How a region is cut: which axes become loops, and how many rows are a block.

Of the axes along which slices are independent, the outer ones become loops until a
slice is small enough, and the next one is cut into blocks. Results that slices add to
are small, or the axis is left whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ftrace.lower.region import Region
from ftrace.records import dataclass
from ftrace.trace.dims import same_size
from ftrace.trace.primitives.source import iota_p

#: Rows of a block, at least: fewer keep the product of matrices from its pace.
_FEW_ROWS = 64
#: Loops of fewer iterations may leave threads idle.
FEW_ITERATIONS = 8
#: Into how many parts blocks are split that add to a result.
_PARTS = 8


@dataclass(frozen=True)
class Cut:
    """A class of axes of `size`, cut into `count` pieces of one size."""

    number: int
    size: int
    count: int

    @property
    def piece(self) -> int:
        return self.size // self.count


@dataclass(frozen=True)
class Plan:
    """How a region is cut.

    Attributes:
      outer: whose slices have size 1, outermost first.
      number: of the class that is cut into blocks; of the last of them all.
      size: of its axes.
      parts: into how many parts they are cut first, of which each adds up results of
        its own; 1 where nothing is added up, or there are slices enough.
      blocks: how many blocks a part has.
    """

    outer: tuple[Cut, ...]
    number: int
    size: int
    parts: int
    blocks: int


def plan_cuts(region: Region, target: int) -> Plan | None:
    """Blocks whose peak has about `target` bytes; None if there is but one."""
    axes = _axes(region)
    elements = prod(region.shape)
    inside = elements * region.itemsize
    outer: list[Cut] = []
    for number, size in axes:
        last = number == axes[-1][0]
        results = sum(node.size for node in region.ends[number])
        if inside // size > target and not last:
            if 2 * results * size <= elements:  # each slice has results of its own
                outer.append(Cut(number, size, size))
                inside //= size
        elif 2 * results <= elements:
            inside //= size
            return _in_blocks(region, tuple(outer), number, size, inside, target, last)
    if not outer:
        return None
    end = outer.pop()
    return Plan(tuple(outer), end.number, end.size, 1, end.size)


def _axes(region: Region) -> list[tuple[int, int]]:
    """Classes that may be cut and their sizes, outermost first.

    Heads come before rows, wherever they stand: all inputs of a head are its own, but
    its rows share the columns.
    """
    axes = [
        (number, size)
        for number, size in zip(region.peak, region.shape, strict=True)
        if number is not None
    ]
    whole = any(
        number is None and not same_size(size, 1)
        for number, size in zip(region.peak, region.shape, strict=True)
    )
    if not whole and len(axes) > 1:
        axes.pop()  # what is contiguous in memory is read whole
    return sorted(axes, key=lambda axis: _shared(region, axis[0]))


def _shared(region: Region, number: int) -> int:
    """Elements of inputs of which all slices of a class need the same."""
    inputs = {i for i in region.inputs.values() if i.node.op is not iota_p}
    return sum(i.node.size for i in inputs if number not in i.classes)


def _in_blocks(
    region: Region,
    outer: tuple[Cut, ...],
    number: int,
    size: int,
    inside: int,
    target: int,
    last: bool,
) -> Plan | None:
    """Blocks of a class, of which a slice of size 1 has a peak of `inside` bytes."""
    iterations = prod(c.size for c in outer)
    # What blocks add to should not be moved more often than their own values.
    summed = _summed_bytes(region, number, [c.number for c in outer])
    rows = max(max(target, summed // 4) // inside, 1)
    if last and _shared(region, number):
        rows = max(rows, _FEW_ROWS)
    rows = min(rows, size)
    if same_size(rows, size) and not outer:
        return None
    parts = 1
    if summed and iterations < FEW_ITERATIONS:
        parts = min(_PARTS, -(-size // rows), size * inside // (2 * summed))
        parts = parts if parts > iterations else 1
    return Plan(outer, number, size, parts, _blocks(size, rows * parts))


def _summed_bytes(region: Region, number: int, outer: Sequence[int]) -> int:
    """Bytes of the results that blocks of a class add to, of one slice of the outer."""
    found = 0
    for node in region.ends[number]:
        pairs = zip(node.shape, region.classes[node], strict=True)
        found += prod(n for n, c in pairs if c not in outer) * region.itemsize
    return found


def _blocks(size: int, most: int) -> int:
    """How many blocks of at most so many rows; if it can be, all of one size."""
    least = -(-size // most)
    exact = (n for n in range(least, 2 * least) if same_size(size % n, 0))
    return next(exact, least)
