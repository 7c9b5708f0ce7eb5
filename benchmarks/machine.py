"""The limits of this machine: memory bandwidth and floating-point peak, as measured.

Both come from the simplest code that reaches them, in LLVM IR, on as many threads as
the libraries have: a sum of two arrays that are far larger than the caches, written
past them, and chains of fused multiply-adds that stay in registers.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import binding as llvm

from benchmarks.options import THREADS

FLOATS = 24 << 20  # per array: 96 MiB
CHAINS = 12  # independent sums: more than latency × throughput, fewer than registers
STEPS = 1_500_000  # about five milliseconds


@dataclass(frozen=True)
class Machine:
    """Limits on the threads in use.

    Attributes:
      bandwidth: bytes per second from and to memory.
      peak: float32 operations per second.
    """

    bandwidth: float
    peak: float

    def best_of(self, other: Machine | None) -> Machine:
        """The higher of each limit in two measurements."""
        if other is None:
            return self
        return Machine(max(self.bandwidth, other.bandwidth), max(self.peak, other.peak))


def load_average() -> float:
    """How many other programs wanted to run in the last minute; 0 if unknown."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def measure_machine(repetitions: int = 20) -> Machine:
    """Both limits, each the best of several runs."""
    lanes = _lanes()
    module = _Native(_fma_text(lanes) + _add_text(lanes))
    fma = module.function("fma", ctypes.c_int64, ctypes.c_void_p)
    add = module.function("add", *[ctypes.c_void_p] * 3, ctypes.c_int64)
    with ThreadPoolExecutor(THREADS) as pool:

        def best(work: Callable[[int], Any]) -> float:
            seconds: list[float] = []
            for _ in range(repetitions):
                start = time.perf_counter()
                list(pool.map(work, range(THREADS)))
                seconds.append(time.perf_counter() - start)
            return min(seconds)

        sinks = [np.zeros(256, np.float32) for _ in range(THREADS)]
        operations = 2 * lanes * CHAINS * STEPS * THREADS
        peak = operations / best(lambda i: fma(STEPS, sinks[i].ctypes.data))

        arrays = [_aligned(FLOATS) for _ in range(3)]
        share = FLOATS // THREADS // 64 * 64

        def work(i: int) -> None:
            begin = 4 * i * share
            add(*[x.ctypes.data + begin for x in arrays], share)

        bandwidth = 3 * 4 * share * THREADS / best(work)
    return Machine(bandwidth, peak)


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


def _fma_text(lanes: int) -> str:
    vector = f"<{lanes} x float>"
    names = range(CHAINS)
    phis = [
        f"  %a{k} = phi {vector} [ splat (float {k}.0), %entry ], [ %n{k}, %loop ]"
        for k in names
    ]
    steps = [
        f"  %n{k} = call {vector} @llvm.fma.v{lanes}f32({vector} %a{k}, "
        f"{vector} splat (float 0.5), {vector} splat (float 1.0))"
        for k in names
    ]
    sums = [
        f"  %p{k} = getelementptr {vector}, ptr %out, i64 {k}\n"
        f"  store {vector} %n{k}, ptr %p{k}, align 4"
        for k in names
    ]
    return "\n".join(
        [
            f"declare {vector} @llvm.fma.v{lanes}f32({vector}, {vector}, {vector})",
            "define void @fma(i64 %count, ptr %out) {",
            "entry:",
            "  br label %loop",
            "loop:",
            "  %i = phi i64 [ 0, %entry ], [ %j, %loop ]",
            *phis,
            *steps,
            "  %j = add i64 %i, 1",
            "  %more = icmp slt i64 %j, %count",
            "  br i1 %more, label %loop, label %done",
            "done:",
            *sums,
            "  ret void",
            "}",
            "",
        ]
    )


def _add_text(lanes: int) -> str:
    vector = f"<{lanes} x float>"
    pointers = [
        f"  %{x} = getelementptr float, ptr %{x.upper()}, i64 %i" for x in "abc"
    ]
    return "\n".join(
        [
            "define void @add(ptr %A, ptr %B, ptr %C, i64 %n) {",
            "entry:",
            "  br label %loop",
            "loop:",
            "  %i = phi i64 [ 0, %entry ], [ %j, %loop ]",
            *pointers,
            f"  %x = load {vector}, ptr %a, align 64",
            f"  %y = load {vector}, ptr %b, align 64",
            f"  %z = fadd {vector} %x, %y",
            f"  store {vector} %z, ptr %c, align 64, !nontemporal !0",
            f"  %j = add i64 %i, {lanes}",
            "  %more = icmp slt i64 %j, %n",
            "  br i1 %more, label %loop, label %done",
            "done:",
            "  ret void",
            "}",
            "!0 = !{i32 1}",
            "",
        ]
    )


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
