"""Warm host memory: fresh pages cost more than most of the work done on them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ftrace import fence
from ftrace.buffer import Buffer, HostAllocator, Memory
from ftrace.capacity import LARGE, free_memory, machine_memory

HUGE_PAGE = 2 << 20

_getrefcount = getattr(sys, "getrefcount", None)
_new: Callable[[type[Buffer]], Buffer] = object.__new__


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
        self._latest = -1  # the size that was given back last; it has a list

    def trim(self) -> None:
        with self._lock:
            self._latest = -1
            super().trim()
        self._forget()

    @property
    def lock(self) -> threading.RLock:
        """Held while memory changes hands."""
        return self._lock

    def allocate_all(self, wanted: Sequence[tuple[int, int]]) -> list[Buffer]:
        """Buffers of these (bytes, size class); like `allocate`, in one go."""
        device, lists = self.device, self._free
        buffers: list[Buffer] = []
        with self._lock:
            for nbytes, size in wanted:
                buffer = _new(Buffer)  # without its `__init__`: half of the time
                buffer.allocator = None
                buffer.device = device
                buffer.nbytes = nbytes
                free = lists.get(size)
                if free:
                    buffer.memory = free.pop()
                    self.kept -= size
                else:
                    buffer.memory = self._take(size)
                buffer.allocator = self
                self.in_use += size
                buffers.append(buffer)
            if self.in_use > self.peak:
                self.peak = self.in_use
        return buffers

    def obtain(self, size: int) -> Any:
        """Memory of a size class, outside of any buffer."""
        with self._lock:
            return self._take(size)

    def release(self, buffer: Buffer) -> None:
        memory = buffer.memory
        if memory is None:
            return
        size: int = memory.nbytes
        with self._lock:
            if size == self._latest:
                free = self._free[size]
            else:
                free = self._free.setdefault(size, [])
                self._free.move_to_end(size)
                self._latest = size
            # Else a user holds a view of it.
            alone = _getrefcount is not None and _getrefcount(memory.base) == 2
            # No calls: an exception comes before all of it or after it.
            buffer.memory = None
            self.in_use -= size
            if alone:
                self.kept += size
                free += (memory,)
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
                self._latest = -1

    def _obtain(self, nbytes: int) -> Any:
        if nbytes >= LARGE and nbytes > free_memory():
            raise MemoryError
        if nbytes < 2 * HUGE_PAGE or fence.ON:
            return super()._obtain(nbytes)
        raw = np.empty(nbytes + HUGE_PAGE, np.uint8)
        start = -raw.ctypes.data % HUGE_PAGE
        return raw[start : start + nbytes]
