"""The interpreter: programs run kernel by kernel in NumPy, the second oracle.

It compiles nothing and decomposes nothing: a primitive of a kernel is its record's
NumPy meaning. What it shares with the other devices is all of lowering, so that a
result that differs from the graph's evaluation is a fault of lowering, and one that
differs from this device's is a fault of a renderer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from ftrace.backends.base import Device, Executable, timed
from ftrace.backends.debug_report import report_compiled
from ftrace.backends.host_executor import DrivenProgram, Driver, DynamicProgram
from ftrace.backends.interpreter.kernel import Evaluation, KernelPlan
from ftrace.ground.fork_safe import free_after_fork
from ftrace.ground.tables import Table
from ftrace.lower.kernel.ir import Kernel
from ftrace.lower.program.ir import Program, RunKernel
from ftrace.trace.arrays import guard_pages
from ftrace.trace.arrays.buffer import Buffer, HostAllocator
from ftrace.trace.symbolic.bounds import Sizes

Array = Any  # of NumPy, whose stubs leave too much unknown

#: Plans that are kept for the next program with the same kernel.
PLANS_KEPT = 4096
#: What a plan weighs, roughly, for each node of its kernel, which it keeps.
NODE_BYTES = 1500


class Interpreter(Device):
    """NumPy on the host."""

    name = "interpreter"
    host = True

    def __init__(self) -> None:
        super().__init__()
        self.allocator = HostAllocator(self)
        self._plans: Table[Kernel, KernelPlan] = Table(PLANS_KEPT)
        self._lock = free_after_fork(threading.Lock())

    def copy_in(self, array: Array) -> Buffer:
        memory: Any = np.ascontiguousarray(array)
        memory = memory.reshape(-1)
        return Buffer(self, memory, memory.nbytes)

    def copy_out(self, buffer: Buffer, dtype: np.dtype[Any], size: int) -> Array:
        return _bytes(buffer)[: size * dtype.itemsize].view(dtype)

    def compile(self, program: Program) -> Executable:
        with timed(self.counters, "compile_seconds"), self._lock:
            plans = [self._plan(step) for step in program.kernels]
        if not program.is_dynamic:
            return InterpretedProgram(self, program, plans)
        return DynamicProgram(
            program,
            _texts(program),
            lambda sizes: InterpretedProgram(self, program.at(sizes), plans, sizes),
        )

    def _plan(self, step: RunKernel) -> KernelPlan:
        plan = self._plans.get(step.kernel)
        if plan is not None:
            self.counters.kernels_cached += 1
            return plan
        start = time.perf_counter()
        plan = KernelPlan(step.kernel)
        self._plans.put(step.kernel, plan, NODE_BYTES * len(step.kernel.nodes))
        self.counters.kernels_compiled += 1
        report_compiled(self.name, step, time.perf_counter() - start, "")
        return plan


class InterpretedProgram(DrivenProgram):
    """A program, for certain sizes, with the plan of each of its kernels."""

    def __init__(
        self,
        device: Interpreter,
        program: Program,
        plans: Sequence[KernelPlan],
        sizes: Sizes = MappingProxyType({}),
    ) -> None:
        found = dict(zip(program.kernels, plans, strict=True))
        super().__init__(device, program, _InterpreterDriver(device, found, sizes))

    @property
    def sources(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return _texts(self.program)

    def memory_of(self, buffer: Buffer, nbytes: int) -> Array:
        return _bytes(buffer)[:nbytes]


class _InterpreterDriver(Driver):
    """Memories are NumPy arrays of bytes."""

    name = "interpreter"

    def __init__(
        self, device: Interpreter, plans: dict[RunKernel, KernelPlan], sizes: Sizes
    ) -> None:
        self.device = device
        self.counters = device.counters
        self.plans = plans
        self.sizes = sizes

    def run_kernel(self, step: RunKernel, memories: list[Array]) -> None:
        given = [memories[s] for s in step.slots]
        Evaluation(self.plans[step], given, self.sizes).run()

    def copy(
        self, source: Array, first: int, target: Array, to: int, nbytes: int
    ) -> None:
        target[to : to + nbytes] = source[first : first + nbytes]

    def read(self, memory: Array, dtype: np.dtype[Any], size: int) -> Array:
        return memory[: size * dtype.itemsize].view(dtype)

    def write(self, memory: Array, array: Array) -> None:
        memory[: array.nbytes] = array.reshape(-1).view(np.uint8)

    def allocate(self, nbytes: int) -> Array:
        return (
            guard_pages.fenced(nbytes) if guard_pages.ON else np.empty(nbytes, np.uint8)
        )

    def place_arena(self, program: Program) -> tuple[dict[int, Array], Any]:
        if guard_pages.ON:
            slots = enumerate(program.slots)
            temporary = {n: s.nbytes for n, s in slots if s.place == "arena"}
            return {n: self.allocate(size) for n, size in temporary.items()}, None
        arena = self.device.allocate(program.arena)
        memory = _bytes(arena)
        return {
            number: memory[slot.position : slot.position + slot.nbytes]
            for number, slot in enumerate(program.slots)
            if slot.place == "arena"
        }, arena


def _texts(program: Program) -> tuple[str, ...]:
    return tuple(str(step.kernel) for step in program.kernels)


def _bytes(buffer: Buffer) -> Array:
    return buffer.memory.view(np.uint8)
