"""Small tables that are held in registers: to look a number up is to permute them.

    Before: v = gather(table + index)
    After:  t0, t1, …: vectors of the table, before the loop
            v = permute(t0, index, t1), or of the next pair where a bit of index is set

A gather reads memory once for each lane, even from the first cache. AVX-512 permutes
two registers at once by an index per lane; so up to sixteen of them hold a table, of
256 elements with 32 bits or less, or of 128 with 64.
"""

from __future__ import annotations

from ftrace import dtypes
from ftrace.devices.llvm.emit.addressing import Access, memory_type
from ftrace.devices.llvm.ir.types import Type, first_lanes
from ftrace.devices.llvm.scalar.avx512 import from_table
from ftrace.devices.llvm.scalar.instructions import Instructions

#: Bits of a register, and how many of them hold a table at most.
_BITS = 512
_MOST = 16


def _bits(t: Type) -> int:
    """Of a table's element in a register."""
    return 64 if t.bits == 64 else 32


def fits(size: int, t: Type) -> bool:
    """Do registers hold so many elements?"""
    return 0 < size <= _MOST * (_BITS // _bits(t))


def look_up(
    o: Instructions,
    memory: Access,
    t: Type,
    base: str,
    size: int,
    index: str,
    kind: Type,
) -> str:
    """The elements at `index`, of type `kind`, from a table of `size` at `base`.

    An index outside of the table gives any of its elements, or 0.
    """
    element = memory_type(t)
    number = Type.of(dtypes.int64 if _bits(t) == 64 else dtypes.int32, 0)
    lanes = _BITS // number.bits
    wide = number.with_lanes(lanes)
    table = _table(o, memory, element.integer().with_lanes(lanes), wide, base, size)
    places = number.with_lanes(t.lanes)
    if kind.bits != places.bits:
        word = "sext" if kind.bits < places.bits else "trunc"
        index = o.convert(word, kind, places, index)
    found = from_table(table)(o, places, index)
    stored = element.integer()
    if stored.bits != places.bits:
        found = o.convert("trunc", places, stored, found)
    if t.kind == "b":
        return o.binary("icmp ne", stored, found, stored.zero)
    if stored.text == t.text:
        return found
    return o.convert("bitcast", stored, t, found)


def _table(
    o: Instructions, memory: Access, element: Type, wide: Type, base: str, size: int
) -> list[str]:
    """Its vectors, an even number of them."""
    table: list[str] = []
    for first in range(0, size, wide.lanes):
        distance = first * element.bits // 8
        p = o.pure(f"getelementptr i8, ptr {base}, i64 {distance}", base)
        count = min(size - first, wide.lanes)
        if count < wide.lanes:
            mask = first_lanes(wide.lanes, count)
            part = memory.load_masked(element, p, mask, False)
        else:
            part = memory.load(element, p, False)
        if element.bits != wide.bits:
            part = o.convert("zext", element, wide, part)
        table.append(part)
    return table + [table[-1]] * (len(table) % 2)
