"""The n-th allocation fails: an error of ours, or none, and nothing is lost."""

from __future__ import annotations

from typing import Any

import ftrace as ft
from ftrace.backends.base import get_device
from ftrace.backends.llvm.runtime.runtime import WarmAllocator
from tests.faults.children import program, run


def fail(number: int) -> list[str]:
    """What is wrong after the n-th piece of new memory was not to be had."""

    def fault() -> list[str]:
        device: Any = get_device("cpu")
        obtain, count = WarmAllocator._obtain, 0
        device.memory.trim()
        before = device.memory.in_use

        def failing(self: WarmAllocator, nbytes: int) -> Any:
            nonlocal count
            count += 1
            if number <= count <= number + 1:  # also when it is tried again
                raise MemoryError
            return obtain(self, nbytes)

        WarmAllocator._obtain = failing
        try:
            program(3.5)
        except ft.errors.OutOfMemoryError:
            pass
        finally:
            WarmAllocator._obtain = obtain
        lost = device.memory.in_use - before
        return [f"{lost} bytes are lost"] if lost > 0 else []

    return [f"allocation {number}: {one}" for one in run(fault)]
