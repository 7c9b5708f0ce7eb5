"""Schedules tried on the machine itself: `ft.config(tune=True)`.

Strategies give a kernel schedules, first the one that a model of the processor prefers
(`candidate_parts` in `render.py`). Those that add in the same order as that one are
compiled, run on memory of the kernel's sizes, held to the same bits, and timed in turn.
The number of the fastest is cached on disk: the next process need not try again.

So results are those of kernels that are not tuned, bit by bit.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.backends.llvm.compile import cache_key, object_cache
from ftrace.backends.llvm.emit.module import Rendered
from ftrace.backends.llvm.kernels.compile_kernels import CompiledKernel, compile_kernels
from ftrace.backends.llvm.runtime.runtime import runtime
from ftrace.backends.llvm.target import Target, host_target
from ftrace.ground import settings
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.assembly.serialize import kernel_identity
from ftrace.lower.kernel.ir import BufferSpec, Kernel, KernelInfo
from ftrace.trace.arrays.buffer import Buffer

#: Gives what renders a kernel, in each way to run it that there is.
Ways = Callable[[Kernel, Target], Iterator[Callable[[], Rendered]]]
Allocate = Callable[[int], Buffer]
#: Memory for a parameter: what owns it, and its bytes.
Memory = tuple[Buffer, Any]

#: How many schedules are tried.
MOST_SCHEDULES = 24
#: Rounds of timings. After the second and each later one the slower half goes, down to
#: so many that are left.
ROUNDS, FINALISTS = 12, 3
#: Seconds of one timing: shorter runs are repeated.
LEAST = 1e-3
#: Seconds for all timings of a kernel, when one run is not longer than that.
BUDGET = 1.0
#: How much faster than the first a schedule must be to take its place.
GAIN = 0.97


@dataclass(frozen=True)
class Candidate:
    """A way to run a kernel, compiled.

    Attributes:
      number: among all ways; 0 is taken without tuning.
      words: its schedule.
    """

    number: int
    words: str
    compiled: CompiledKernel


def compile_tuned(
    kernels: Mapping[Kernel, KernelInfo], ways: Ways, threads: int, allocate: Allocate
) -> list[CompiledKernel]:
    """The code of kernels, each in the fastest schedule for this machine.

    Args:
      kernels: no two of them equal, and how they are called.
      ways: to run a kernel on a processor.
      threads: how many threads run them.
      allocate: gives memory, as programs get it.
    """
    numbers = {kernel: _find_choice(kernel, threads) for kernel in kernels}
    unknown = [kernel for kernel, number in numbers.items() if number is None]
    for n, kernel in enumerate(unknown, 1):
        _show_progress(n, len(unknown), kernels[kernel].name)
        numbers[kernel] = _tune(kernel, ways, threads, allocate)

    def compile_chosen(kernel: Kernel, number: int) -> CompiledKernel:
        def render(kernel: Kernel) -> Rendered:
            return next(islice(ways(kernel, host_target()), number, None))()

        (code,) = compile_kernels([kernel], render, 1, way=number)
        return code

    return [compile_chosen(kernel, number or 0) for kernel, number in numbers.items()]


def _show_progress(number: int, count: int, name: str) -> None:
    """A line for each kernel; on a terminal it takes the place of the one before."""
    line = f"tuning kernels: {number} of {count}, {name}"
    _show(line, "" if sys.stderr.isatty() and number < count else "\n")


def _show(line: str, end: str = "\n") -> None:
    if not settings.current().progress:
        return
    begin = "\r\033[K" if sys.stderr.isatty() else ""
    sys.stderr.write(begin + line + end)
    sys.stderr.flush()


def _choice_key(kernel: Kernel, threads: int) -> tuple[str, ...] | None:
    identity = kernel_identity(kernel)
    if identity is None:
        return None
    return ("schedule", str(threads), *cache_key(identity))


def _find_choice(kernel: Kernel, threads: int) -> int | None:
    """The number that was found before; it is 0 for what cannot be tried."""
    if type(kernel) is not Kernel or kernel.is_dynamic:
        return 0
    key = _choice_key(kernel, threads)
    if key is None:
        return 0
    found = object_cache.load(*key)
    return int(found) if found is not None and found.isdigit() else None


def _tune(kernel: Kernel, ways: Ways, threads: int, allocate: Allocate) -> int:
    """The number of the fastest schedule, which is cached on disk."""
    candidates = list(candidates_of(kernel, ways))
    number = 0
    if len(candidates) > 1:
        with suppress(MemoryError):
            memory = [_fill(spec, allocate) for spec in kernel.buffers]
            alike = list(with_same_bits(kernel, candidates, memory, threads))
            number = fastest(alike, memory, threads)
    key = _choice_key(kernel, threads)
    if key is not None:
        object_cache.store(str(number).encode(), *key)
    return number


def candidates_of(kernel: Kernel, ways: Ways) -> Iterator[Candidate]:
    """The ways to run a kernel whose code differs, but not the order of its sums."""
    seen: set[tuple[str, int]] = set()
    first: Any = None
    for number, render in enumerate(ways(kernel, host_target())):
        rendered = render()
        order = [schedule.order_of_sums for schedule in rendered.schedules]
        first, code = first or order, (rendered.text, rendered.grain)
        if code in seen or order != first:
            continue
        seen.add(code)
        own = {kernel: rendered}.__getitem__
        (made,) = compile_kernels([kernel], own, 1, way=number)
        yield Candidate(number, "\n".join(map(str, rendered.schedules)), made)
        if len(seen) == MOST_SCHEDULES:
            return


def _fill(spec: BufferSpec, allocate: Allocate) -> Memory:
    buffer = allocate(spec.size * spec.dtype.itemsize)
    memory = buffer.memory.view(np.uint8)[: spec.size * spec.dtype.itemsize]
    _write_numbers(spec, memory)
    return buffer, memory


def _write_numbers(spec: BufferSpec, memory: Any) -> None:
    """Numbers near one; positions are all the first."""
    values = memory.view(spec.dtype)
    if dtypes.is_inexact(spec.dtype):
        pattern = np.random.default_rng(0).uniform(0.5, 1.5, 1021).astype(spec.dtype)
        for start in range(0, spec.size, pattern.size):
            part = values[start : start + pattern.size]
            part[...] = pattern[: part.size]
    else:
        memory[...] = 0


def with_same_bits(
    kernel: Kernel,
    candidates: Sequence[Candidate],
    memory: Sequence[Memory],
    threads: int,
) -> Iterator[Candidate]:
    """Those whose results are those of the first."""
    expected: list[bytes] | None = None
    for candidate in candidates:
        for spec, (_, part) in zip(kernel.buffers, memory, strict=True):
            _write_numbers(spec, part)
        _runner(candidate.compiled, memory, threads)()
        written = {store.buffer for store in kernel.stores}
        found = [memory[number][1].tobytes() for number in sorted(written)]
        expected = expected or found
        if found == expected:
            yield candidate


def fastest(
    candidates: Sequence[Candidate], memory: Sequence[Memory], threads: int
) -> int:
    """The number of the candidate that runs fastest on this memory.

    The candidates take turns, so that whatever slows one of them slows the others, and
    the first one is in all rounds: successive halving (Jamieson and Talwalkar, 2016).
    """
    clocks = {c: _clock(_runner(c.compiled, memory, threads)) for c in candidates}
    best = dict.fromkeys(candidates, float("inf"))
    field, begin = list(candidates), time.perf_counter()
    for number in range(ROUNDS):
        best |= {c: min(best[c], clocks[c]()) for c in field}
        if time.perf_counter() - begin > BUDGET:
            break
        if number:
            others = sorted(field[1:], key=best.__getitem__)
            field = [field[0], *others[: max(len(field) // 2, FINALISTS)]]
    winner = min(best, key=best.__getitem__)
    if best[winner] >= GAIN * best[candidates[0]]:
        winner = candidates[0]
    _show_tried(best, winner)
    return winner.number


def _show_tried(seconds: Mapping[Candidate, float], winner: Candidate) -> None:
    """The time of each, and how it runs: what is not as in the first."""
    first = next(iter(seconds))
    lines = first.words.splitlines()
    for c in sorted(seconds, key=seconds.__getitem__):
        own = [line.strip() for line in c.words.splitlines() if line not in lines]
        words = f"\n{'':16}".join(lines) if c is first else "; ".join(own or lines[-1:])
        mark = "*" if c is winner else " "
        _show(f" {mark}{seconds[c] * 1e6:10.1f} µs  {words}")


def _runner(
    compiled: CompiledKernel, memory: Sequence[Memory], threads: int
) -> Callable[[], None]:
    """Runs a kernel once on this memory."""
    addresses = [part.ctypes.data for _, part in memory]
    pointers = (ctypes.c_void_p * max(len(addresses), 1))(*addresses)
    made = compiled.made
    arguments = compiled.address, pointers, made.units, made.grain, threads
    return partial(runtime().parallel, *arguments)


def _clock(run: Callable[[], None]) -> Callable[[], float]:
    """Seconds of one run, measured over as many as it takes to see the difference."""
    run()
    start = time.perf_counter()
    run()
    once = time.perf_counter() - start
    count = max(1, round(LEAST / max(once, 1e-7)))

    def seconds() -> float:
        start = time.perf_counter()
        for _ in range(count):
            run()
        return (time.perf_counter() - start) / count

    return seconds
