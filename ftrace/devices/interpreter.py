"""The interpreter: programs run kernel by kernel in NumPy, the second oracle.

It compiles nothing and decomposes nothing: a primitive of a kernel is its record's
NumPy meaning. What it shares with the other devices is all of lowering, so that a
result that differs from the graph's evaluation is a fault of lowering, and one that
differs from this device's is a fault of a renderer.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from ftrace.buffer import Buffer, HostAllocator
from ftrace.devices.base import Device, Executable, timed
from ftrace.devices.interpreter_kernel import Evaluation, KernelPlan
from ftrace.lower.kernel import Kernel
from ftrace.lower.program import CopySlot, Program, RunKernel, Slot

Array = np.ndarray[Any, Any]


class Interpreter(Device):
    """NumPy on the host."""

    name = "interpreter"
    host = True

    def __init__(self) -> None:
        super().__init__()
        self.allocator = HostAllocator(self)
        self._plans: dict[Kernel, KernelPlan] = {}
        self._lock = threading.Lock()

    def copy_in(self, array: Array) -> Buffer:
        memory = np.ascontiguousarray(array).reshape(-1)
        return Buffer(self, memory, memory.nbytes)

    def copy_out(self, buffer: Buffer, dtype: np.dtype[Any], size: int) -> Array:
        return _bytes(buffer)[: size * dtype.itemsize].view(dtype)

    def compile(self, program: Program) -> Executable:
        with timed(self.counters, "compile_seconds"):
            plans = [self._plan(step.kernel) for step in program.kernels]
        return InterpretedProgram(self, program, plans)

    def _plan(self, kernel: Kernel) -> KernelPlan:
        with self._lock:
            plan = self._plans.get(kernel)
            if plan is not None:
                self.counters.kernels_cached += 1
                return plan
            plan = self._plans[kernel] = KernelPlan(kernel)
            self.counters.kernels_compiled += 1
            return plan


class InterpretedProgram(Executable):
    """A program with the plan of each of its kernels."""

    def __init__(
        self, device: Interpreter, program: Program, plans: Sequence[KernelPlan]
    ) -> None:
        self.device = device
        self.program = program
        self.plans = plans
        self.aliased = [_is_aliased(program, step) for step in program.kernels]

    @property
    def sources(self) -> tuple[str, ...]:  # type: ignore[override]
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
        kernels = zip(self.plans, self.aliased, strict=True)
        for step in self.program.steps:
            if isinstance(step, CopySlot):
                memories[step.target][:] = memories[step.source]
                continue
            plan, aliased = next(kernels)
            Evaluation(plan, [memories[s] for s in step.slots], aliased).run()
            counters.kernels_run += 1
            counters.operations += step.info.operations
            counters.bytes += step.info.bytes


def _bytes(buffer: Buffer) -> Array:
    memory: Array = buffer.memory
    return memory.view(np.uint8)


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
