"""What dies runs no Python code of ours, wherever that is.

An exception of a signal that arrives in a finaliser, or in the callback of a weak
reference, is printed and lost: Ctrl-C, too.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ftrace as ft
from ftrace.backends.base import get_device
from ftrace.backends.llvm.compile import generate, link
from ftrace.ground.tables import Shared, Table
from ftrace.ground.weak_tables import WeakValues
from ftrace.trace.arrays.buffer import HostAllocator
from ftrace.trace.avals import ShapedArray


class Thing:
    """What may be referred to weakly."""


def compiled() -> Any:
    f = ft.jit(lambda x: (x * 3 + 0.125).sum())
    for n in range(1, 9):
        f(np.ones(n))
    return f


KNOWN: WeakValues[int, Thing] = WeakValues()
SHARED: Shared[int, Thing] = Shared(0)
ALLOCATOR = HostAllocator(get_device("cpu"))
CODE = "define i64 @three() {\n  ret i64 3\n}\n"
OURS = str(Path(ft.__file__).parent)  # what else runs belongs to other libraries
MADE: dict[str, Callable[[], Any]] = {
    "a buffer": lambda: ALLOCATOR.allocate(1000),
    "a buffer of the device": lambda: get_device("cpu").allocate(1000),
    "machine code": lambda: link(generate(CODE), ("three",)),
    "a type": lambda: ShapedArray.of((3, 1, 4, 1, 5, 9), np.dtype(np.int8)),
    "a value": lambda: KNOWN.put(1, Thing()),
    "a shared value": lambda: SHARED.put(1, Thing(), 1),
    "a table": lambda: Table[int, int](),
    "a compiled function": compiled,
    "an array": lambda: ft.numpy.ones(1000) + 1,
}


@pytest.mark.parametrize("name", MADE)
def test_nothing_of_ours_runs_where_something_dies(name: str) -> None:
    made = [MADE[name]()]
    gc.collect()
    ran: list[str] = []

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(OURS):
            ran.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        made.clear()
        gc.collect()
    finally:
        sys.setprofile(None)
    assert ran == []


def test_the_memory_of_a_buffer_that_is_gone_is_used_again() -> None:
    allocator = HostAllocator(get_device("cpu"))
    buffer = allocator.allocate(1000)
    place = buffer.memory.ctypes.data
    buffer = None
    assert (allocator.in_use, allocator.cached) == (0, allocator.size_class(1000))
    again = allocator.allocate(1000)
    assert again.memory.ctypes.data == place
    assert allocator.cached == 0


def test_memory_that_is_too_large_to_be_kept_goes_at_once() -> None:
    allocator = HostAllocator(get_device("cpu"), limit=500)
    buffer = allocator.allocate(1000)
    owner = buffer.memory.base
    held = sys.getrefcount(owner)
    del buffer
    assert sys.getrefcount(owner) == held - 1
    assert (allocator.in_use, allocator.cached) == (0, 0)
