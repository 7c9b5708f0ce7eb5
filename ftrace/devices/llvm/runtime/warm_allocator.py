"""Warm host memory: fresh pages cost more than most of the work done on them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ftrace.arrays import guard_pages
from ftrace.arrays.buffer import Buffer, HostAllocator, Memory
from ftrace.arrays.memory_limit import LARGE, free_memory, machine_memory

HUGE_PAGE = 2 << 20


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
        buffers: list[Buffer] = []
        with self._lock:
            for nbytes, size in wanted:
                buffers.append(self._lend(self._take(size), nbytes, size))
        return buffers

    def obtain(self, size: int) -> Any:
        """Memory of a size class, outside of any buffer."""
        with self._lock:
            return self._take(size)

    def _obtain(self, nbytes: int) -> Any:
        if nbytes >= LARGE and nbytes > free_memory():
            raise MemoryError
        if nbytes < 2 * HUGE_PAGE or guard_pages.ON:
            return super()._obtain(nbytes)
        raw = np.empty(nbytes + HUGE_PAGE, np.uint8)
        start = -raw.ctypes.data % HUGE_PAGE
        return raw[start : start + nbytes]
