"""Scratch memory of kernels: blocks are aligned, one's own, and used again."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
from collections.abc import Callable

from ftrace.backends.llvm.ir.symbols import GIVE, TAKE
from ftrace.backends.llvm.runtime.runtime import runtime
from ftrace.backends.llvm.runtime.warm_memory import PAGE, SLOTS


def functions() -> tuple[Callable[[int], int], Callable[[int], None]]:
    code = runtime().code
    take = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_int64)(code.address(TAKE))
    give = ctypes.CFUNCTYPE(None, ctypes.c_size_t)(code.address(GIVE))
    return take, give


def test_blocks_begin_at_a_cache_line_and_hold_what_was_asked_for() -> None:
    take, give = functions()
    for nbytes in (1, 4096, PAGE - 128, PAGE, 3 * PAGE + 1):
        block = take(nbytes)
        assert block % 64 == 0
        ctypes.memset(block, 255, nbytes)
        give(block)


def test_a_block_that_was_given_back_is_used_again() -> None:
    take, give = functions()
    first = take(1000)
    give(first)
    assert take(1000) == first
    give(first)


def test_blocks_that_are_out_are_never_the_same() -> None:
    take, give = functions()
    blocks = [take(100) for _ in range(SLOTS + 5)]  # more than are kept
    assert len(set(blocks)) == len(blocks)
    for block in blocks:
        give(block)


def test_threads_do_not_get_the_same_block() -> None:
    take, give = functions()
    wrong: list[int] = []

    def work(mark: int) -> None:
        for _ in range(300):
            block = take(8)
            place = ctypes.c_int64.from_address(block)
            place.value = mark
            for _ in range(20):
                if place.value != mark:
                    wrong.append(mark)
            give(block)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


_WITHOUT_MEMORY = r"""
import re
import numpy as np
import ftrace as ft
from ftrace.backends.llvm.runtime import runtime
from ftrace.backends.llvm.compile import generate

def without_memory(name, facts, text):
    return generate(re.sub(r"@malloc\(i64 %\w+\)", "@malloc(i64 -4096)", text()))

runtime.emit_own = without_memory
a = np.ones((700, 900), np.float32)
product = ft.jit(lambda a, b: a @ b)
for threads in (1, 2):
    for native in (True, False):
        with ft.set_threads(threads), ft.config(native_calls=native):
            try:
                product(a, np.ones((900, 1100), np.float32))
            except ft.errors.OutOfMemoryError as error:
                assert "what this call works in" in str(error)
            else:
                raise AssertionError("it found memory")
assert float(product(a[:2, :2], a[:2, :2])[0, 0]) == 2  # a small one works on the stack
"""


def test_a_kernel_without_scratch_ends_its_call_with_an_error() -> None:
    command = [sys.executable, "-c", _WITHOUT_MEMORY]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
