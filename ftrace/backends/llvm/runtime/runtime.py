"""What a process has once: the thread pool and the native runner; warm memory.

    run(entry, objects, threads) -> status

The entry is that of a program's table, which stays as it is after compilation;
`objects` are this call's arrays, as Python objects: the runner reads each one's data
pointer itself, which costs a nanosecond where Python needs half a microsecond.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ftrace.backends.llvm import target
from ftrace.backends.llvm.compile import emit_own, link
from ftrace.backends.llvm.ir.symbols import GIVE, POLL, STOP, TAKE
from ftrace.ground.fork_safe import Once
from ftrace.trace.arrays import buffer as buffers
from ftrace.trace.arrays.buffer import (
    FENCED,
    LARGE_ALLOCATION,
    Buffer,
    HostAllocator,
    Memory,
)

#: Stacks keep at most this part of the machine's memory for the next ones.
CACHED_SHARE = 8

_EXPORTED = (
    "run", "copy", "run_kernel", "run_host", "run_exchange", "run_branch", "run_loop",
    "observe_step", "observe_piece",
    "parallel", "pool_reset", "pool_workers", "reset_chunks", "forget_chunks",
    "run_pointers", "ask_memory", POLL, STOP, TAKE, GIVE,
)  # fmt: skip


class Runtime:
    """The compiled runner of this process.

    Attributes:
      code: all of it.
      run: `run(entry, packed objects, threads)` -> status. It is called with the GIL,
        which the runner releases if the entry says so: for less than a microsecond
        that costs more than it gives. It raises what a host call has raised.
      run_pointers: the address of the same for packed pointers.
      handlers: the address of each handler by its name, and that of the kernel `copy`.
      parallel: `parallel(kernel, pointers, units, grain, threads)`; for tests.
      reset: forgets the workers; a forked child has none of them.
      workers: how many threads were started.
      forget_chunks: gives the memory back that is kept warm.
    """

    def __init__(self) -> None:
        probe = np.zeros(1)
        # The data pointer stands first in NumPy's array, after the object's head: part
        # of NumPy's C interface since its beginning.
        data = id(probe) + object.__basicsize__
        assert ctypes.c_size_t.from_address(data).value == probe.ctypes.data
        limit = buffers.machine_memory() // CACHED_SHARE
        facts = limit, target.has_threads(), sys.platform, platform.machine(), FENCED
        code = emit_own("runner", facts, partial(_text, limit))
        self.code = link(code, _EXPORTED)
        address = self.code.address

        def function(name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
            return ctypes.CFUNCTYPE(result, *arguments)(address(name))

        i64, pointer = ctypes.c_int64, ctypes.c_void_p
        run = ctypes.PYFUNCTYPE(ctypes.c_int, pointer, ctypes.c_char_p, i64)
        self.run: Callable[[int, bytes, int], int] = run(address("run"))
        self.parallel = function("parallel", None, pointer, pointer, i64, i64, i64)
        self.reset = function("pool_reset", None)
        self.workers = function("pool_workers", i64)
        self.forget_chunks = function("forget_chunks", None)
        self._reset_chunks = function("reset_chunks", None)
        self.run_pointers = address("run_pointers")
        # No callback of ctypes: it would print what a signal raises, and go on.
        ctypes.c_void_p.from_address(address("ask_memory")).value = id(_has_memory)
        self.handlers = {name: address(name) for name in _EXPORTED[1:9]}
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin_anew)

    def _begin_anew(self) -> None:  # as a method it keeps the code in memory
        self.reset()
        self._reset_chunks()


def _text(limit: int) -> str:
    from ftrace.backends.llvm.runtime.thread_pool import runner_ir

    return runner_ir(limit)


def _has_memory(nbytes: int) -> bool:
    return nbytes <= buffers.free_memory()


#: The runner; compiled at the first call.
runtime = Once(Runtime)


def prepare_runtime() -> None:
    """Begins to make the runner, beside what the caller does next."""
    if target.has_threads():
        runtime.begin()


# Warm memory: fresh pages cost more than most of the work done on them.


class WarmAllocator(HostAllocator):
    """Host memory that is cached: up to a quarter of what the machine has.

    Several buffers are had at once, which is what one call of a program needs.

    Args:
      forget: gives other memory back to the system, when this one is trimmed.
    """

    def __init__(self, device: Memory, forget: Callable[[], object]) -> None:
        super().__init__(device, limit=max(1 << 30, buffers.machine_memory() // 4))
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
        if nbytes >= LARGE_ALLOCATION and nbytes > buffers.free_memory():
            raise MemoryError
        return super()._obtain(nbytes)
