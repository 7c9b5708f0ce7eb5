"""Memory: how much there is, buffers of it wherever it is, and their allocators.

Allocators keep what is freed for reuse, and give it up before anything is refused.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import weakref
from abc import ABC, abstractmethod
from collections import OrderedDict, deque
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from typing import Any, Final, Protocol

import numpy as np

from ftrace.errors import DeviceError, OutOfMemoryError
from ftrace.ground import settings
from ftrace.ground.fork_safe import fresh_after_fork
from ftrace.ground.weak_tables import WeakValues

#: Bytes: a line of the caches, and pages, as x86-64 and most of AArch64 have them.
ALIGNMENT = 64
HUGE_PAGE, _PAGE = 2 << 20, 1 << 12
#: Bytes from which on copies of NumPy's arrays start at a cache line, as results of
#: programs do. Other processes read what does not at 70 % of the rate (16 MB by
#: process_vm_readv, Zen 4). To find the place takes 4 µs, a fifth of a copy of 1 MB.
LONG = 1 << 22


# How much memory there is, asked before much of it is taken.
#
# Linux gives out memory that it does not have, and ends the process that uses it: what
# is large is compared with what is free, and refused.


#: The part of the machine's memory that nobody asks for before taking it.
UNASKED = 64

_MEMINFO = "/proc/meminfo"
_GROUP = "/sys/fs/cgroup"  # of a container, with control groups version 2


def machine_memory() -> int:
    """Bytes of memory, or what the container may take of it (cgroup v2)."""
    sizes = [4 << 30]
    if "SC_PHYS_PAGES" in getattr(os, "sysconf_names", ()):
        sizes = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    with suppress(OSError, ValueError):  # no container, or "max"
        sizes.append(int(_of_group("memory.max")))
    return min(sizes)


def free_memory() -> int:
    """Bytes that this process can still take; very many where nobody can say."""
    sizes = [1 << 62]
    with suppress(OSError, ValueError, KeyError):
        facts = _table(_read(_MEMINFO), ":")
        sizes.append((facts["MemAvailable"] + facts.get("SwapFree", 0)) << 10)
    with suppress(OSError, ValueError):
        most = int(_of_group("memory.max"))
        used = int(_of_group("memory.current"))
        facts = _table(_of_group("memory.stat"), " ")
        cached = facts.get("inactive_file", 0) + facts.get("active_file", 0)
        sizes.append(most - used + cached)
    return max(min(sizes), 0)


def _read(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read()


def _of_group(name: str) -> str:
    return _read(os.path.join(_GROUP, name))


def _table(text: str, mark: str) -> dict[str, int]:
    """The lines `name, mark, number` of a file of the kernel's."""
    rows = (line.partition(mark) for line in text.splitlines())
    return {name: int(rest.split()[0]) for name, _, rest in rows if rest.strip()}


#: From so many bytes on it is asked whether they are there.
LARGE_ALLOCATION = machine_memory() // UNASKED

#: The allocators: they give up what they keep before anything is refused.
keepers: Final[WeakValues[int, Allocator]] = WeakValues()


def has_memory(nbytes: int) -> bool:
    """Is there memory for so much, also without what is cached for reuse?"""
    if nbytes < LARGE_ALLOCATION or nbytes <= free_memory():
        return True
    for keeper in keepers.values():
        keeper.trim()
    return nbytes <= free_memory()


# Buffers, and what gives them out.


class Memory(Protocol):
    """The part of a device that its buffers need."""

    name: str
    host: bool

    def copy_out(self, buffer: Buffer, dtype: np.dtype[Any], size: int) -> Any: ...


class Buffer:
    """A piece of a device's memory, given back when the last reference goes.

    No finaliser does that: an exception of a signal would be printed and lost in it.
    Its allocator has a reference to it; see `Allocator`.

    Attributes:
      device: where it is.
      memory: on the host a one-dimensional, contiguous NumPy array of any dtype;
        elsewhere the driver's handle.
      nbytes: how much of it is used.
    """

    __slots__ = ("__weakref__", "allocator", "device", "memory", "nbytes")

    def __init__(
        self,
        device: Memory,
        memory: Any,
        nbytes: int,
        allocator: Allocator | None = None,
    ) -> None:
        self.device = device
        self.memory = memory
        self.nbytes = nbytes
        self.allocator = allocator

    def __repr__(self) -> str:
        return f"<buffer of {self.nbytes} bytes on {self.device.name}>"


def _references_of_calls() -> int:
    """References that two calls, one in the other, and `count` hold to an argument.

    In CPython 3.10 a call holds one besides the function's variable; since 3.14 not
    even the variable does, where that of the caller outlives it.
    """
    count = getattr(sys, "getrefcount", None)
    if count is None:
        return 0

    def inside(value: object) -> int:
        return count(value)

    def around(value: object) -> int:
        return inside(value)

    value = object()
    return around(value) - 1  # the variable


_HELD_BY_CALLS = _references_of_calls()


def is_exclusive(buffer: Buffer, holders: int) -> bool:
    """Do but `holders` references, this call and the one around it see the memory?

    False where the interpreter cannot say.
    """
    count = getattr(sys, "getrefcount", None)
    if count is None or buffer.allocator is None:
        return False
    if count(buffer) > holders + _HELD_BY_CALLS:
        return False
    memory = buffer.memory
    return not isinstance(memory, np.ndarray) or count(memory.base) == 2


class _Loan(weakref.ref[Buffer]):
    """A buffer that was given out, and what comes back when it is gone.

    Attributes:
      memory: None if it is not cached, and goes with the buffer.
      size: the bytes that were taken.
    """

    __slots__ = ("memory", "size")
    memory: Any
    size: int


class Allocator(ABC):
    """Gives out buffers; keeps freed memory by size, and reuses the latest first.

    That a buffer is gone is noted in C alone; its memory is taken back when the
    allocator is asked for something next.

    When more than `limit` bytes are cached the least recently freed ones go; when an
    allocation fails all of them go and it is tried once more.

    Args:
      device: whose memory it is.
      limit: bytes cached at the most.

    Attributes:
      peak: the most bytes that were in use at one time.
    """

    peak: int = 0

    def __init__(self, device: Memory, limit: int = 1 << 30) -> None:
        self.device = device
        self.limit = limit
        self._free: OrderedDict[int, list[Any]] = OrderedDict()
        self._in_use = self._cached = 0
        self._lent: dict[_Loan, None] = {}
        self._returned: deque[_Loan] = deque()
        self._note: Any = self._returned.append
        self._lock = fresh_after_fork(threading.RLock())
        keepers.put(id(self), self)

    @abstractmethod
    def _obtain(self, nbytes: int) -> Any:
        """New memory from the device; MemoryError where there is none."""

    @abstractmethod
    def _reusable(self, memory: Any) -> bool:
        """Does nobody else see this memory?"""

    @staticmethod
    def size_class(nbytes: int) -> int:
        """The bytes that are really taken: at most an eighth more, few sizes."""
        if nbytes <= 512:
            return -(-max(nbytes, 1) // ALIGNMENT) * ALIGNMENT
        step = 1 << (nbytes.bit_length() - 4)
        return -(-nbytes // step) * step

    @property
    def in_use(self) -> int:
        """Bytes in buffers that are alive."""
        self._take_back()
        return self._in_use

    @property
    def cached(self) -> int:
        """Bytes that are free and cached for reuse."""
        self._take_back()
        return self._cached

    def allocate(self, nbytes: int) -> Buffer:
        """Uninitialised memory of `nbytes` bytes.

        Raises:
          OutOfMemoryError: the device has none left, also after giving back all
            that was cached.
        """
        size = self.size_class(nbytes)
        with self._lock:
            return self._lend(self._take(size), nbytes, size)

    def _lend(self, memory: Any, nbytes: int, size: int) -> Buffer:
        buffer = Buffer(self.device, memory, nbytes, self)
        loan = _Loan(buffer, self._note)
        # No calls: an exception comes before all of it or after it.
        loan.memory = memory if size <= self.limit else None
        loan.size = size
        self._lent[loan] = None
        self._in_use += size
        if self._in_use > self.peak:
            self.peak = self._in_use
        return buffer

    def _take(self, size: int) -> Any:
        if self._returned:
            self._take_back()
        free = self._free.get(size)
        if free:
            self._cached -= size
            return free.pop()
        try:
            return self._obtain(size)
        except MemoryError:
            self.trim()
        try:
            return self._obtain(size)
        except MemoryError:
            raise OutOfMemoryError(
                f"{self.device.name} has no memory for {size} bytes; "
                f"{self.in_use} bytes are in use by arrays that are alive"
            ) from None

    def _take_back(self) -> None:
        """The memory of buffers that are gone: it is free now."""
        with self._lock:
            while self._returned:
                loan = self._returned[0]
                memory, size = loan.memory, loan.size
                held = (
                    (memory,) if memory is not None and self._reusable(memory) else ()
                )
                free = self._free.setdefault(size, [])
                self._free.move_to_end(size)
                # No calls: an exception comes before all of it or after it.
                del self._returned[0], self._lent[loan]
                self._in_use -= size
                if held:
                    self._cached += size
                    free += held
            if self._cached > self.limit:
                self._drop_oldest()

    def _drop_oldest(self) -> None:
        while self._cached > self.limit:
            size, memories = next(iter(self._free.items()))
            if memories:  # a class whose memory is all in use has none
                del memories[0]
                self._cached -= size
            if not memories:
                del self._free[size]

    def trim(self) -> None:
        """Gives all memory that is cached back to the device."""
        with self._lock:
            self._take_back()
            self._free.clear()
            self._cached = 0


# Memory that ends at a page which nobody may touch: FTRACE_FENCE=1.
#
#     | no access | …unused… | the bytes of a buffer | no access |       end
#     | no access | the bytes of a buffer | …unused… | no access |       front
#
# A kernel that reads or writes one element too far faults at once, where it stands, in
# place of changing what lies beside it. The first byte has no alignment but that of the
# elements. What nobody has written yet is NaN, or -1.


#: Are buffers fenced? It is a setting of the process.
FENCED: Final = bool(settings.current().fence)
_AT_FRONT: Final = settings.current().fence == "front"

#: Each byte of what nobody has written: NaN, or -1.
_UNWRITTEN: Final = 0xFF


def allocate_fenced(nbytes: int) -> Any:
    """An array of so many bytes beside a page that is not there.

    Raises:
      MemoryError: the system has no more memory, or no more maps.
    """
    mmap: Any = import_module("mmap")  # only behind a fence
    page: int = mmap.PAGESIZE
    rounded = -(-nbytes // page) * page
    try:
        whole: Any = np.frombuffer(mmap.mmap(-1, rounded + 2 * page), np.uint8)
    except OSError:
        raise MemoryError from None
    first = whole.ctypes.data
    whole[page : page + rounded] = _UNWRITTEN
    for fence in (first, first + page + rounded):
        if _protect()(fence, page, 0):
            raise MemoryError
    start = page if _AT_FRONT else page + rounded - nbytes
    return whole[start : start + nbytes]


def fenced_copy(array: Any) -> Any:
    """The elements of an array, one after the other, in fenced memory."""
    memory = allocate_fenced(array.nbytes).view(array.dtype)
    memory.reshape(array.shape)[...] = array
    return memory


@lru_cache(maxsize=1)
def _protect() -> Any:
    """`mprotect` of the C library."""
    if sys.platform == "win32":
        raise DeviceError("FTRACE_FENCE needs a system with mprotect; do not set it")
    found = ctypes.CDLL(None, use_errno=True).mprotect
    found.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return found


# On the host.


#: Bytes from which on a buffer has a place in a page, and how far that of the next one
#: is beyond it. A processor that compares addresses by their last 12 bits takes a load
#: for one of what has just been stored 4096 bytes away, and waits: side by side, as
#: malloc puts them, buffers begin 64 or 128 bytes apart there. Of 256 KB running sums
#: along the first axis would take 1 to 3 times as long, by chance, and x + 1 1 to 1.25.
_PLACED, _APART = 1 << 15, 25 * ALIGNMENT


def allocate_aligned(nbytes: int, place: int | None = None) -> Any:
    """Bytes that start at a cache line; many at a huge page.

    For huge pages NumPy asks the system by itself. Behind fences they are fenced.

    Args:
      place: of the first one in its page, if there are not so many.
    """
    if FENCED:
        return allocate_fenced(nbytes)
    step = ALIGNMENT if place is None else _PAGE
    if nbytes >= 2 * HUGE_PAGE:
        step, place = HUGE_PAGE, None
    raw = np.empty(nbytes + step, np.uint8)
    start = ((place or 0) - raw.ctypes.data) % step
    return raw[start : start + nbytes]


def copy_aligned(array: Any, dtype: Any = None) -> Any:
    """The elements of an array of NumPy's, row by row, in memory of their own.

    Args:
      dtype: the same in another order of bytes.
    """
    if array.nbytes < LONG or FENCED:
        return np.array(array, dtype, order="C")
    raw = allocate_aligned(array.nbytes + _PAGE)
    # At about the same place of a page as theirs: 64 MB into fresh memory take 10 to
    # 14 ms, where they stand in front of it 20 (glibc 2.36, which goes round caches).
    start = -(-(array.ctypes.data % _PAGE) // ALIGNMENT) * ALIGNMENT
    made: Any = np.ndarray(array.shape, dtype or array.dtype, raw, start)
    made[...] = array
    return made


class HostAllocator(Allocator):
    """Aligned host memory, as NumPy arrays of bytes; or fenced, and never reused."""

    _place: int = 0

    def __init__(self, device: Memory, limit: int = 1 << 30) -> None:
        super().__init__(device, 0 if FENCED else limit)

    @staticmethod
    def size_class(nbytes: int) -> int:
        return nbytes if FENCED else Allocator.size_class(nbytes)

    def _obtain(self, nbytes: int) -> Any:
        if nbytes < _PLACED:
            return allocate_aligned(nbytes)
        self._place = (self._place + _APART) % _PAGE
        return allocate_aligned(nbytes, self._place)

    def _reusable(self, memory: Any) -> bool:
        # A NumPy view that a user holds refers to the owner of the bytes: the array
        # `raw` of `allocate_aligned`, which otherwise only `memory` and the call below
        # refer to.
        if not hasattr(sys, "getrefcount"):
            return False
        return sys.getrefcount(memory.base) == 2
