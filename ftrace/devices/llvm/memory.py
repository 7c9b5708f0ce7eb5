"""Warm host memory: fresh pages cost more than most of the work done on them."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ftrace.buffer import Buffer, HostAllocator, Memory

HUGE_PAGE = 2 << 20

_getrefcount = getattr(sys, "getrefcount", None)


class WarmAllocator(HostAllocator):
    """Host memory that is kept: up to a quarter of what the machine has.

    Large buffers start at a huge page (for those NumPy asks the system by itself).
    Several buffers are had at once, which is what one call of a program needs.

    Args:
      forget: gives other memory back to the system, when this one is trimmed.
    """

    def __init__(self, device: Memory, forget: Callable[[], object]) -> None:
        super().__init__(device, limit=max(1 << 30, machine_memory() // 4))
        self._forget = forget

    def trim(self) -> None:
        super().trim()
        self._forget()

    @property
    def lock(self) -> threading.RLock:
        """Held while memory changes hands."""
        return self._lock

    def allocate_all(self, wanted: Sequence[tuple[int, int]]) -> list[Buffer]:
        """Buffers of these (bytes, size class); like `allocate`, in one go."""
        device = self.device
        buffers: list[Buffer] = []
        with self._lock:
            for nbytes, size in wanted:
                free = self._free.get(size)
                if free:
                    memory = free.pop()
                    self.kept -= size
                else:
                    memory = self._take(size)
                self.in_use += size
                buffers.append(Buffer(device, memory, nbytes, self))
            if self.in_use > self.peak:
                self.peak = self.in_use
        return buffers

    def obtain(self, size: int) -> Any:
        """Memory of a size class, outside of any buffer."""
        with self._lock:
            return self._take(size)

    def release(self, buffer: Buffer) -> None:
        memory, buffer.memory = buffer.memory, None
        size: int = memory.nbytes
        with self._lock:
            self.in_use -= size
            if _getrefcount is None or _getrefcount(memory.base) != 2:
                return  # a user holds a view of it
            free = self._free.get(size)
            if free is None:
                free = self._free[size] = []
            free.append(memory)
            self._free.move_to_end(size)
            self.kept += size
            if self.kept > self.limit:
                self._drop_oldest()

    def _drop_oldest(self) -> None:
        while self.kept > self.limit:
            size, memories = next(iter(self._free.items()))
            if memories:
                del memories[0]
                self.kept -= size
            if not memories:
                del self._free[size]

    def _obtain(self, nbytes: int) -> Any:
        if nbytes < 2 * HUGE_PAGE:
            return super()._obtain(nbytes)
        raw = np.empty(nbytes + HUGE_PAGE, np.uint8)
        start = -raw.ctypes.data % HUGE_PAGE
        return raw[start : start + nbytes]


def machine_memory() -> int:
    """Bytes of memory, or what the container may take of it (cgroup v2)."""
    sizes = [4 << 30]
    if "SC_PHYS_PAGES" in getattr(os, "sysconf_names", ()):
        sizes = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    with suppress(OSError, ValueError):  # no container, or "max"
        sizes.append(int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return min(sizes)
