"""The interpreter: programs run kernel by kernel in NumPy, the second oracle.

It compiles nothing and decomposes nothing: a primitive of a kernel is its record's
NumPy meaning. What it shares with the other devices is all of lowering, so that a
result that differs from the graph's evaluation is a fault of lowering, and one that
differs from this device's is a fault of a renderer.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np

from ftrace.buffer import Buffer, HostAllocator
from ftrace.devices.base import Device, Executable, timed
from ftrace.devices.interpreter_kernel import Evaluation
from ftrace.devices.interpreter_plan import KernelPlan
from ftrace.devices.report import report_compiled, report_run
from ftrace.lower.kernel import Kernel
from ftrace.lower.program import CopySlot, Program, RunKernel, Slot

Array = Any  # of NumPy, whose stubs leave too much unknown

#: Plans that are kept for the next program with the same kernel.
PLANS_KEPT = 4096


class Interpreter(Device):
    """NumPy on the host."""

    name = "interpreter"
    host = True

    def __init__(self) -> None:
        super().__init__()
        self.allocator = HostAllocator(self)
        self._plans: OrderedDict[Kernel, KernelPlan] = OrderedDict()
        self._lock = threading.Lock()

    def copy_in(self, array: Array) -> Buffer:
        memory: Any = np.ascontiguousarray(array)
        memory = memory.reshape(-1)
        return Buffer(self, memory, memory.nbytes)

    def copy_out(self, buffer: Buffer, dtype: np.dtype[Any], size: int) -> Array:
        return _bytes(buffer)[: size * dtype.itemsize].view(dtype)

    def compile(self, program: Program) -> Executable:
        with timed(self.counters, "compile_seconds"), self._lock:
            plans = [self._plan(step) for step in program.kernels]
            while len(self._plans) > PLANS_KEPT:
                self._plans.popitem(last=False)
        return InterpretedProgram(self, program, plans)

    def _plan(self, step: RunKernel) -> KernelPlan:
        plan = self._plans.get(step.kernel)
        if plan is not None:
            self._plans.move_to_end(step.kernel)
            self.counters.kernels_cached += 1
            return plan
        start = time.perf_counter()
        plan = self._plans[step.kernel] = KernelPlan(step.kernel)
        self.counters.kernels_compiled += 1
        report_compiled(self.name, step, time.perf_counter() - start, "")
        return plan


class InterpretedProgram(Executable):
    """A program with the plan of each of its kernels."""

    def __init__(
        self, device: Interpreter, program: Program, plans: Sequence[KernelPlan]
    ) -> None:
        self.device = device
        self.program = program
        self._plans = plans
        self._aliased = [_is_aliased(program, step) for step in program.kernels]

    @property
    def sources(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return tuple(str(step.kernel) for step in self.program.kernels)

    def __call__(self, inputs: Sequence[Buffer]) -> list[Buffer]:
        program = self.program
        owners: dict[int, Buffer] = dict(zip(program.inputs, inputs, strict=True))
        for number in program.outputs:
            if number not in owners:
                owners[number] = self.device.allocate(program.slots[number].nbytes)
        arena = self.device.allocate(program.arena)
        memories = [
            _slot_bytes(slot, owners.get(number, arena))
            for number, slot in enumerate(program.slots)
        ]
        with timed(self.device.counters, "run_seconds"):
            self._run_steps(memories)
        return [owners[number] for number in program.outputs]

    def _run_steps(self, memories: list[Array]) -> None:
        counters = self.device.counters
        kernels = zip(self._plans, self._aliased, strict=True)
        for step in self.program.steps:
            start = time.perf_counter()
            if isinstance(step, CopySlot):
                memories[step.target][:] = memories[step.source]
            else:
                plan, aliased = next(kernels)
                Evaluation(plan, [memories[s] for s in step.slots], aliased).run()
                counters.kernels_run += 1
                counters.operations += step.info.operations
                counters.bytes += step.info.bytes
            report_run(self.device.name, step, time.perf_counter() - start)


def _bytes(buffer: Buffer) -> Array:
    return buffer.memory.view(np.uint8)


def _slot_bytes(slot: Slot, buffer: Buffer) -> Array:
    first = slot.position if slot.place == "arena" else 0
    return _bytes(buffer)[first : first + slot.nbytes]


def _is_aliased(program: Program, step: RunKernel) -> bool:
    """Does a buffer that the kernel writes overlap one that it reads?"""
    specs = step.kernel.buffers
    slots = [program.slots[number] for number in step.slots]
    written = [s for s, spec in zip(slots, specs, strict=True) if spec.written]
    read = [s for s, spec in zip(slots, specs, strict=True) if not spec.written]
    return any(_overlap(a, b) for a in written for b in read)


def _overlap(a: Slot, b: Slot) -> bool:
    if a.place != b.place:
        return False
    if a.place != "arena":
        return a.position == b.position
    ends = min(a.position + a.nbytes, b.position + b.nbytes)
    return max(a.position, b.position) < ends
