"""The limits of this machine, as measured: memory, reading, arithmetic.

Each is the simplest code that reaches it, in LLVM IR, on as many threads as the
libraries have. A limit takes its turn in the rounds of every row that is held to it:
the rates of a machine swing within seconds, a figure from another minute says little.

- memory: the sum of two arrays that are far larger than the caches, written past them
- reading: the sum over all elements of such an array; nothing is written
- arithmetic: chains of fused multiply-adds that stay in registers, those that
  `ft.explain` measures

What costs time in the interpreter has no limit. Next to it, `python_work` is timed: a
piece of Python that stays the same, so that two runs can be compared.
"""

from __future__ import annotations

import ctypes
import os
import platform
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import count
from typing import Any

import numpy as np
from llvmlite import binding as llvm

from benchmarks.options import THREADS
from benchmarks.timing import clock_of
from ftrace.backends.llvm.runtime.peak import multiply_adds

MEMORY, READING, ARITHMETIC = LIMITS = ("memory", "reading", "arithmetic")
PYTHON = "python"

FLOATS = 24 << 20  # per array: 96 MiB
CLAIM = 1 << 18  # floats that a thread takes at a time: none waits long for another
STEPS = 1_500_000  # about five milliseconds


def load_average() -> float:
    """How many other programs wanted to run in the last minute; 0 if unknown."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def describe() -> dict[str, str | int]:
    """What is to be said of this machine next to figures that are kept."""
    return {
        "processor": f"{llvm.get_host_cpu_name()}, {platform.machine()}",
        "cores": os.cpu_count() or 1,
        "system": platform.system(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def python_work() -> int:
    """Calls, tuples and tables for about 100 µs."""
    found: dict[tuple[int, str], list[int]] = {}
    for i in range(400):
        found.setdefault((i % 37, str(i)), []).append(i)
    return sum(map(len, found.values()))


def python_seconds() -> float:
    """Of the piece of Python, undisturbed: of many runs the best."""
    found: list[float] = []
    for _ in range(100):
        start = time.perf_counter()
        python_work()
        found.append(time.perf_counter() - start)
    return min(found)


def reference(name: str, seconds: float) -> Callable[[], float]:
    """The clock of a limit, or of the piece of Python."""
    return python_seconds if name == PYTHON else this_machine().clock(name, seconds)


class Machine:
    """What this machine can do, to be timed next to the libraries."""

    def __init__(self) -> None:
        cores = count()
        self._pool = ThreadPoolExecutor(
            THREADS, initializer=lambda: _stay_on_core(next(cores))
        )
        lanes = _lanes()
        self._native = _Native(_add_text(lanes) + _read_text(lanes))
        self.arrays = [_aligned(FLOATS) for _ in range(3)]
        self.sinks = [_aligned(256) for _ in range(THREADS)]

    def clock(self, limit: str, seconds: float) -> Callable[[], float]:
        """A clock of seconds per byte, or per operation.

        Args:
          limit: one of `LIMITS`.
          seconds: the least that one timing lasts.
        """
        work, amount = self.work(limit)
        clock = clock_of(work, lambda result: result, seconds, each=True)
        return lambda: clock() / amount

    def work(self, limit: str) -> tuple[Callable[[], Any], int]:
        """A limit's loop on all threads, and how many bytes or operations it takes."""
        if limit == MEMORY:
            return self._add(), 3 * 4 * FLOATS
        if limit == READING:
            return self._read(), 4 * FLOATS
        run, operations = multiply_adds()
        work = self._on_all_threads(lambda _: run(STEPS))
        return work, operations * STEPS * THREADS

    def _on_all_threads(self, work: Callable[[int], Any]) -> Callable[[], Any]:
        return lambda: list(self._pool.map(work, range(THREADS)))

    def _add(self) -> Callable[[], Any]:
        return self._claimed("add", [x.ctypes.data for x in self.arrays], 0)

    def _read(self) -> Callable[[], Any]:
        return self._claimed("read", [self.arrays[0].ctypes.data], 1)

    def _claimed(
        self, name: str, arrays: Sequence[int], sinks: int
    ) -> Callable[[], Any]:
        """Work on chunks of arrays, claimed through a counter."""
        types = [ctypes.c_void_p] * (1 + len(arrays) + sinks)
        function = self._native.function(name, *types, ctypes.c_int64)
        counter = np.zeros(1, np.int64)
        address = counter.ctypes.data
        own = [[sink.ctypes.data] * sinks for sink in self.sinks]
        call = self._on_all_threads(
            lambda i: function(address, *arrays, *own[i], FLOATS)
        )

        def work() -> None:
            counter[0] = 0
            call()

        return work


def _stay_on_core(number: int) -> None:
    """Keeps this thread on a core of its own, where the system can do that.

    Threads that were asleep wake on the core of the one that wakes them, and would
    share it for as long as a short loop lasts.
    """
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[number % len(cores)]})


@cache
def this_machine() -> Machine:
    """The machine; made once, for its arrays are large."""
    return Machine()


def _aligned(size: int) -> np.ndarray[Any, Any]:
    raw = np.ones(size + 16, np.float32)
    offset = -raw.ctypes.data % 64 // 4
    return raw[offset : offset + size]


def _lanes() -> int:
    """How many float32 a vector register of this processor holds."""
    features = dict(llvm.get_host_cpu_features())
    if features.get("avx512f"):
        return 16
    return 8 if features.get("avx") else 4


def _claimed_text(name: str, parameters: str, lines: Sequence[str]) -> str:
    """A function whose loop body runs for each chunk that it claims.

    In the lines `%i` is the index of an element and `%j` the next one's, the label of
    the loop is `loop`, and what comes before it is `claimed`.
    """
    return "\n".join(
        [
            f"define void @{name}(ptr %counter, {parameters}, i64 %n) {{",
            "entry:",
            "  br label %claim",
            "claim:",
            f"  %begin = atomicrmw add ptr %counter, i64 {CLAIM} monotonic",
            f"  %end = add i64 %begin, {CLAIM}",
            "  %any = icmp slt i64 %begin, %n",
            "  br i1 %any, label %loop, label %done",
            "loop:",
            "  %i = phi i64 [ %begin, %claim ], [ %j, %loop ]",
            *lines,
            "  %more = icmp slt i64 %j, %end",
            "  br i1 %more, label %loop, label %claim",
            "done:",
            "  ret void",
            "}",
            "",
        ]
    )


def _add_text(lanes: int) -> str:
    vector = f"<{lanes} x float>"
    lines = [
        *[f"  %{x} = getelementptr float, ptr %{x.upper()}, i64 %i" for x in "abc"],
        f"  %x = load {vector}, ptr %a, align 64",
        f"  %y = load {vector}, ptr %b, align 64",
        f"  %z = fadd {vector} %x, %y",
        f"  store {vector} %z, ptr %c, align 64, !nontemporal !0",
        f"  %j = add i64 %i, {lanes}",
    ]
    text = _claimed_text("add", "ptr %A, ptr %B, ptr %C", lines)
    return text + "!0 = !{i32 1}\n"


def _read_text(lanes: int) -> str:
    """Eight vectors at a time, added up in the sink."""
    vector = f"<{lanes} x float>"
    lines: list[str] = []
    sums: list[str] = []
    for k in range(8):
        lines += [
            f"  %o{k} = add i64 %i, {k * lanes}",
            f"  %p{k} = getelementptr float, ptr %A, i64 %o{k}",
            f"  %x{k} = load {vector}, ptr %p{k}, align 64",
        ]
        sums.append(f"%x{k}")
    while len(sums) > 1:
        first, second, *sums = sums
        sums.append(f"%s{len(lines)}")
        lines.append(f"  {sums[-1]} = fadd {vector} {first}, {second}")
    lines += [
        f"  %before = load {vector}, ptr %sink, align 64",
        f"  %after = fadd {vector} %before, {sums[0]}",
        f"  store {vector} %after, ptr %sink, align 64",
        f"  %j = add i64 %i, {8 * lanes}",
    ]
    return _claimed_text("read", "ptr %A, ptr %sink", lines)


class _Native:
    """Compiled IR; keeps the machine code in memory."""

    def __init__(self, text: str) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        target = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(),
            features=llvm.get_host_cpu_features().flatten(),
            opt=2,
        )
        module = llvm.parse_assembly(text)
        self._engine = llvm.create_mcjit_compiler(module, target)
        self._engine.finalize_object()

    def function(self, name: str, *types: Any) -> Any:
        address = self._engine.get_function_address(name)
        return ctypes.CFUNCTYPE(None, *types)(address)
