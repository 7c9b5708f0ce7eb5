"""Schedules tried on the machine itself: `ft.config(tune=True)`.

How a kernel runs follows from what is known of the processor: how wide its vectors
are, how many registers and how much cache it has (`llvm/target.py`). Other schedules
are therefore those for a processor that is a little different. Each is compiled and
timed on memory of the kernel's sizes, in turn with the others, and the name of the
fastest is kept on disk: the next process need not try again.

Every schedule computes what the kernel says; sums may be added in another order.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.backends.llvm.compile import cache_key, object_cache
from ftrace.backends.llvm.emit.module import Rendered
from ftrace.backends.llvm.kernels.compile_kernels import CompiledKernel, compile_kernels
from ftrace.backends.llvm.runtime.runtime import runtime
from ftrace.backends.llvm.target import Target, host_target
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.assembly.serialize import kernel_identity
from ftrace.lower.kernel.ir import BufferSpec, Kernel, KernelInfo
from ftrace.lower.register_loops.register_loop import Recurrence
from ftrace.trace.arrays.buffer import Buffer

RenderFor = Callable[[Kernel, Target], Rendered]
Allocate = Callable[[int], Buffer]

#: What is tried: a name, and the processor that the schedule is made for.
SCHEDULES: Mapping[str, Callable[[Target], Target]] = {
    "default": lambda t: t,
    "half vectors": lambda t: replace(t, vector_bytes=max(t.vector_bytes // 2, 16)),
    "half the registers": lambda t: replace(t, registers=t.registers // 2),
    "half of L1": lambda t: replace(t, l1=t.l1 // 2),
    "half of L2": lambda t: replace(t, l2=t.l2 // 2),
    "twice L2": lambda t: replace(t, l2=t.l2 * 2),
    "past the caches": lambda t: replace(t, l3=0),
    "through the caches": lambda t: replace(t, l3=1 << 62),
    "more pieces": lambda t: replace(t, cores=t.cores * 4),
    "one piece": lambda t: replace(t, cores=1),
}
#: Timings of each schedule; the best of them counts.
ROUNDS = 7
#: Seconds of one timing: shorter runs are repeated.
LEAST = 1e-3
#: Seconds for all timings of a kernel, when one run is not longer than that.
BUDGET = 0.5
#: How much faster than the default a schedule must be to take its place.
GAIN = 0.97


@dataclass(frozen=True)
class Candidate:
    """A schedule of a kernel, compiled."""

    name: str
    compiled: CompiledKernel


def compile_tuned(
    kernels: Mapping[Kernel, KernelInfo],
    render: RenderFor,
    threads: int,
    allocate: Allocate,
) -> list[CompiledKernel]:
    """The code of kernels, each in the fastest schedule for this machine.

    Args:
      kernels: no two of them equal, and how they are called.
      render: the text of a kernel for a processor.
      threads: how many threads run them.
      allocate: gives memory, as programs get it.
    """
    names = {kernel: _find_choice(kernel, threads) for kernel in kernels}
    unknown = [kernel for kernel, name in names.items() if name is None]
    for number, kernel in enumerate(unknown, 1):
        names[kernel] = _tune(kernel, render, threads, allocate)
        _show_progress(number, len(unknown), kernels[kernel].name)
    return [_compile(k, name or "default", render) for k, name in names.items()]


def _show_progress(number: int, count: int, name: str) -> None:
    """A line for each kernel; on a terminal it takes the place of the one before."""
    line = f"tuning kernels: {number} of {count}, {name}"
    if sys.stderr.isatty():
        line = f"\r\033[K{line}"
    end = "" if sys.stderr.isatty() and number < count else "\n"
    sys.stderr.write(line + end)
    sys.stderr.flush()


def _compile(kernel: Kernel, name: str, render: RenderFor) -> CompiledKernel:
    target = SCHEDULES[name](host_target())
    (code,) = compile_kernels([kernel], lambda k: render(k, target), 1, target)
    return code


def _choice_key(kernel: Kernel, threads: int) -> tuple[str, ...] | None:
    identity = kernel_identity(kernel)
    if identity is None:
        return None
    return ("schedule", str(threads), *cache_key(identity))


def _find_choice(kernel: Kernel, threads: int) -> str | None:
    """The name of the schedule that was found before; what cannot be tried has none."""
    looped = isinstance(kernel, Recurrence) and kernel.scan is None
    if looped or kernel.is_dynamic:
        return "default"
    key = _choice_key(kernel, threads)
    if key is None:
        return "default"
    found = object_cache.load(*key)
    name = "" if found is None else found.decode("utf-8", "replace")
    return name if name in SCHEDULES else None


def _tune(kernel: Kernel, render: RenderFor, threads: int, allocate: Allocate) -> str:
    """The name of the fastest schedule, which is kept on disk."""
    candidates = list(candidates_of(kernel, render))
    name = "default"
    if len(candidates) > 1:
        with suppress(MemoryError):
            memory = [_fill(spec, allocate) for spec in kernel.buffers]
            name = fastest(candidates, memory, threads)
    key = _choice_key(kernel, threads)
    if key is not None:
        object_cache.store(name.encode(), *key)
    return name


def candidates_of(kernel: Kernel, render: RenderFor) -> Iterator[Candidate]:
    """The schedules of a kernel whose code differs, the default first."""
    seen: set[tuple[str, int]] = set()
    for name, change in SCHEDULES.items():
        target = change(host_target())
        rendered = render(kernel, target)
        code = rendered.text, rendered.grain
        if code not in seen:
            seen.add(code)
            yield Candidate(name, _compile(kernel, name, render))


def _fill(spec: BufferSpec, allocate: Allocate) -> Any:
    """Memory for a parameter: numbers near one; positions are all the first."""
    buffer = allocate(spec.size * spec.dtype.itemsize)
    memory = buffer.memory.view(np.uint8)[: spec.size * spec.dtype.itemsize]
    values = memory.view(spec.dtype)
    if dtypes.is_inexact(spec.dtype):
        pattern = np.linspace(0.5, 1.5, 1021).astype(spec.dtype)
        for start in range(0, spec.size, pattern.size):
            part = values[start : start + pattern.size]
            part[...] = pattern[: part.size]
    else:
        memory[...] = 0
    return buffer, memory


def fastest(
    candidates: Sequence[Candidate], memory: Sequence[tuple[Any, Any]], threads: int
) -> str:
    """The name of the candidate that runs fastest on this memory.

    The candidates take turns, so that whatever slows one of them slows the others.
    """
    addresses = [part.ctypes.data for _, part in memory]
    pointers = (ctypes.c_void_p * max(len(addresses), 1))(*addresses)
    clocks = {c.name: _clock(c.compiled, pointers, threads) for c in candidates}
    best = {name: clock() for name, clock in clocks.items()}
    begin = time.perf_counter()
    for _ in range(ROUNDS):
        for name, clock in clocks.items():
            best[name] = min(best[name], clock())
        if time.perf_counter() - begin > BUDGET:
            break
    winner = min(best, key=best.__getitem__)
    default = candidates[0].name
    return winner if best[winner] < GAIN * best[default] else default


def _clock(
    compiled: CompiledKernel, pointers: Any, threads: int
) -> Callable[[], float]:
    """Seconds of one run, measured over as many as it takes to see the difference."""
    parallel = runtime().parallel
    arguments = compiled.address, pointers, compiled.units, compiled.grain, threads
    parallel(*arguments)
    start = time.perf_counter()
    parallel(*arguments)
    once = time.perf_counter() - start
    count = max(1, round(LEAST / max(once, 1e-7)))

    def seconds() -> float:
        start = time.perf_counter()
        for _ in range(count):
            parallel(*arguments)
        return (time.perf_counter() - start) / count

    return seconds
