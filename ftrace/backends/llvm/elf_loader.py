"""Object code into memory, without LLVM: for x86-64 on Linux.

    one mapping = code, constants | what is written
    relocation  = 64 bits at a place: the address of a symbol + a number

Our code is in LLVM's large model: it names what it uses by whole addresses and needs no
other relocation. Object code that has one, or sections of kinds that are not known
here, is for LLVM to load. What unwinds stacks is left out: no exception passes through
our code.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import sys
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from ftrace.ground.fast_dataclasses import NamedTuple

# Names and numbers of the System V ABI (ELF-64, and its supplement for AMD64).
_MAGIC: Final = b"\x7fELF\x02\x01\x01"  # 64 bits, little-endian
_RELOCATABLE: Final = b"\x01\x00\x3e\x00"  # for x86-64
_PROGBITS, _SYMTAB, _RELA, _NOBITS, _UNWIND = 1, 2, 4, 8, 0x70000001
_WRITE, _ALLOC, _EXECUTE, _THREAD_LOCAL = 1, 2, 4, 0x400
_UNDEFINED, _ABSOLUTE, _LOCAL = 0, 0xFFF1, 0
_ADDRESS_64: Final = 1
_SECTION: Final = np.dtype(
    [("name", "<u4"), ("type", "<u4"), ("flags", "<u8"), ("address", "<u8"),
     ("offset", "<u8"), ("size", "<u8"), ("link", "<u4"), ("info", "<u4"),
     ("align", "<u8"), ("each", "<u8")]
)  # fmt: skip
_SYMBOL: Final = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"),
     ("value", "<u8"), ("size", "<u8")]
)  # fmt: skip
_RELOCATION: Final = np.dtype(
    [("place", "<u8"), ("type", "<u4"), ("symbol", "<u4"), ("addend", "<u8")]
)
_PAGE: Final = mmap.PAGESIZE
_LINE: Final = 64  # of the caches
_EIGHT: Final = np.arange(8, dtype=np.uint64)
_NO_MEMORY: Final = ctypes.c_void_p(-1).value


class Loaded:
    """Object code in memory; it stays as long as this object, or the process.

    That one is gone is noted in C alone: a signal may arrive wherever it dies. Its
    pages go when the next code is loaded. At the end of the process nothing is taken
    away: workers may sleep in it.

    Attributes:
      addresses: of the functions that were asked for.
      nbytes: of all of it.
    """

    def __init__(self, start: int, size: int) -> None:
        self.addresses: dict[str, int] = {}
        self.nbytes = size
        pages = _Pages(self, _gone.append)
        pages.start, pages.size = start, size
        _alive.add(pages)

    def __getitem__(self, name: str) -> int:
        """Where the function of that name begins."""
        return self.addresses[name]


class _Pages(weakref.ref[Loaded]):
    """Where code is."""

    __slots__ = ("size", "start")
    start: int
    size: int


_alive: set[_Pages] = set()
_gone: deque[_Pages] = deque()


def _unmap() -> None:
    """Takes away the code that nobody has."""
    try:
        while True:
            pages = _gone.popleft()
            _alive.discard(pages)
            _system().munmap(pages.start, pages.size)
    except IndexError:
        return


def load(
    code: bytes, names: Sequence[str], imports: Mapping[str, int]
) -> Loaded | None:
    """Loads object code; None if that is left to LLVM.

    Args:
      code: object code.
      names: the functions of it whose addresses will be asked for.
      imports: addresses of functions that are not of this process.
    """
    if not _is_known_here() or code[:7] != _MAGIC or code[16:20] != _RELOCATABLE:
        return None
    _unmap()
    try:
        layout = _lay_out(code)
    except (ValueError, IndexError):  # a part of it is missing
        return None
    if layout is None:
        return None
    found = _addresses_elsewhere(layout, imports)
    return None if found is None else _map_code(layout, names, found)


@cache
def _is_known_here() -> bool:
    return sys.platform == "linux" and platform.machine() == "x86_64"


class _Layout(NamedTuple):
    """Object code, and where its parts will be.

    Attributes:
      code: all of it.
      addresses: of each section, where it begins in the mapping; -1 if it is left out.
      copies: of those that have bytes: where they are, how many, and where they go.
      fixed: bytes of the mapping that nobody writes: whole pages.
      size: bytes of the mapping.
      symbols: all of them.
      names: where their names begin.
      relocations: where the section that they change begins, and they.
    """

    code: bytes
    addresses: list[int]
    copies: list[tuple[int, int, int]]
    fixed: int
    size: int
    symbols: Any
    names: int
    relocations: list[tuple[int, Any]]

    def name(self, symbol: int) -> str:
        start = self.names + int(self.symbols["name"][symbol])
        return self.code[start : self.code.index(b"\0", start)].decode()


def _lay_out(code: bytes) -> _Layout | None:
    """None where there are kinds of sections or relocations that are not known here."""
    start, count = int.from_bytes(code[40:48], "little"), code[60] + (code[61] << 8)
    sections: list[Any] = np.frombuffer(code, _SECTION, count, start).tolist()
    places: list[int] = [-1] * count
    parts: list[tuple[int, int, int]] = []
    wanted = [n for n, s in enumerate(sections) if s[2] & _ALLOC and s[1] != _UNWIND]
    # Code first, which LLVM has aligned as if it began a page.
    wanted.sort(key=lambda n: (sections[n][2] & _WRITE, -(sections[n][2] & _EXECUTE)))
    position, fixed = 0, None
    for number in wanted:
        _, kind, flags, _, offset, size, _, _, align, _ = sections[number]
        if kind not in (_PROGBITS, _NOBITS) or flags & _THREAD_LOCAL:
            return None
        if flags & _WRITE and fixed is None:
            fixed = position = position + -position % _PAGE
        position += -position % max(align, _LINE)
        places[number] = position
        if kind == _PROGBITS:
            parts.append((offset, size, position))
        position += size
    whole = position + -position % _PAGE
    symbols, names = None, 0
    relocations: list[tuple[int, Any]] = []
    for _, kind, _, _, offset, size, link, info, _, each in sections:
        if kind == _SYMTAB:
            symbols = np.frombuffer(code, _SYMBOL, size // each, offset)
            names = sections[link][4]
        elif kind == _RELA and places[info] >= 0:
            found: Any = np.frombuffer(code, _RELOCATION, size // each, offset)
            if (found["type"] != _ADDRESS_64).any():
                return None
            relocations.append((places[int(info)], found))
    if symbols is None or whole == 0:
        return None
    fixed = whole if fixed is None else fixed
    return _Layout(code, places, parts, fixed, whole, symbols, names, relocations)


def _addresses_elsewhere(
    layout: _Layout, imports: Mapping[str, int]
) -> dict[int, int] | None:
    """Of symbols that are not in the code, the addresses; None if one is not found."""
    found: dict[int, int] = {}
    (numbers,) = np.nonzero(layout.symbols["section"] == _UNDEFINED)
    for number in numbers[1:].tolist():  # the first symbol is none
        name = layout.name(number)
        address = imports.get(name) or _address_in_process(name)
        if address is None:
            return None
        found[number] = address
    return found


def _address_in_process(name: str) -> int | None:
    try:
        function = getattr(_system(), name)
    except AttributeError:
        return None
    return ctypes.cast(function, ctypes.c_void_p).value


def _map_code(
    layout: _Layout, names: Sequence[str], elsewhere: dict[int, int]
) -> Loaded | None:
    """The code in a mapping of its own; None where the system refuses that."""
    start = _map_pages(layout.size)
    if start is None:
        return None
    loaded = Loaded(start, layout.size)
    values = _values(layout, start, elsewhere)
    if values is None:
        return None
    image = np.zeros(layout.size, np.uint8)
    whole = np.frombuffer(layout.code, np.uint8)
    for offset, size, place in layout.copies:
        image[place : place + size] = whole[offset : offset + size]
    for place, found in layout.relocations:
        written = values[found["symbol"]] + found["addend"]
        places = (found["place"] + np.uint64(place))[:, None] + _EIGHT
        image[places] = written.view(np.uint8).reshape(-1, 8)
    ctypes.memmove(start, image.ctypes.data, layout.size)
    if _system().mprotect(start, layout.fixed, mmap.PROT_READ | mmap.PROT_EXEC):
        return None
    asked = set(names)
    for number in np.nonzero(layout.symbols["info"] >> 4 != _LOCAL)[0].tolist():
        name = layout.name(number)
        if name in asked:
            loaded.addresses[name] = int(values[number])
    return loaded if len(loaded.addresses) == len(asked) else None


def _values(layout: _Layout, start: int, elsewhere: dict[int, int]) -> Any:
    """The address of each symbol; None if one is of a kind that is not known here."""
    inside = layout.symbols["section"].astype(np.int64)
    inside[inside == _ABSOLUTE] = _UNDEFINED
    if (inside >= len(layout.addresses)).any():
        return None
    bases = np.array([start + max(p, 0) for p in layout.addresses], np.uint64)
    bases[_UNDEFINED] = 0
    values = bases[inside] + layout.symbols["value"]
    for number, address in elsewhere.items():
        values[number] = address
    return values


def _map_pages(size: int) -> int | None:
    """Pages that can be written; None where there are none."""
    system = _system()
    ours = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    start = system.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, ours, -1, 0)
    return None if start == _NO_MEMORY else start


@cache
def _system() -> Any:
    """The C library and all else in this process."""
    found: Any = ctypes.CDLL(None)
    address, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    found.mmap.restype = address
    found.mmap.argtypes = (address, size, number, number, number, ctypes.c_int64)
    found.munmap.argtypes = (address, size)
    found.mprotect.argtypes = (address, size, number)
    return found
