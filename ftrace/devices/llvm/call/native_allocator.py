"""Allocator and counters of the device whose calls are native.

The objects stay what they are, so that whoever holds them sees the same; their class
changes. What Python counts and what native code counts is added up when it is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ftrace.arrays.buffer import Buffer
from ftrace.devices.base import Counters
from ftrace.devices.llvm.call.cpython.records import State
from ftrace.devices.llvm.call.install import Native
from ftrace.devices.llvm.runtime.warm_allocator import WarmAllocator


def _sum_of(name: str, word: str, unit: float = 1) -> Any:
    """A property: the attribute of that name, and a word of the native state."""
    index = State._fields.index(word)

    def get(self: Any) -> Any:
        return self.__dict__.get(name, 0) + _scaled(self)

    def put(self: Any, value: Any) -> None:
        self.__dict__[name] = value - _scaled(self)

    def _scaled(self: Any) -> Any:
        counted = int(self.__dict__["native"].words[index])
        return counted if unit == 1 else counted * unit

    return property(get, put)


class NativeCounters(Counters):
    """Counters to which native calls add."""

    native: Native

    kernels_run = _sum_of("kernels_run", "kernels")
    operations = _sum_of("operations", "operations")
    bytes = _sum_of("bytes", "bytes")
    run_seconds = _sum_of("run_seconds", "nanoseconds", 1e-9)

    def ran(self, kernels: int, operations: int, nbytes: int, seconds: float) -> None:
        own = vars(self)
        own["kernels_run"] += kernels
        own["operations"] += operations
        own["bytes"] += nbytes
        own["run_seconds"] += seconds


class NativeAllocator(WarmAllocator):
    """Gives out buffers that native code takes back.

    Memory of buffers from before goes back to the system.
    """

    native: Native

    @property
    def in_use(self) -> int:
        self._take_back()
        return self._in_use + int(self.native.words[_IN_USE])

    @property
    def kept(self) -> int:
        return int(self.native.words[_KEPT])

    @property
    def peak(self) -> int:
        before = self._in_use
        highest = int(self.native.words[_PEAK])
        return max(self.__dict__["peak"], before + highest)

    @peak.setter
    def peak(self, value: int) -> None:
        own = vars(self)
        own["peak"] = value
        self.native.words[_PEAK] = value - self._in_use

    def allocate(self, nbytes: int) -> Buffer:
        return self.allocate_all([(nbytes, self.size_class(nbytes))])[0]

    def allocate_all(self, wanted: Sequence[tuple[int, int]]) -> list[Buffer]:
        native = self.native
        take, number_of = native.take, native.number_of
        buffers: list[Buffer] = []
        for nbytes, size in wanted:
            number = number_of(size)
            buffers.append(take(number, nbytes) or native.more(number, nbytes))
        return buffers

    def _reusable(self, memory: Any) -> bool:
        return False

    def trim(self) -> None:
        super().trim()
        self.native.trim()


_IN_USE, _KEPT, _PEAK = map(State._fields.index, ("in_use", "kept", "peak"))


def count_natively(native: Native) -> None:
    """Lets the device of native calls have such an allocator and such counters."""
    device = native.device
    allocator: Any = device.memory
    with allocator.lock:
        allocator.trim()  # its lists are not used any more
        allocator.__dict__.setdefault("peak", 0)
        allocator.native = native
        allocator.__class__ = NativeAllocator
    device.counters.native = native
    device.counters.__class__ = NativeCounters
