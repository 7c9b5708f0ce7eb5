"""Each kernel of a program, run on a device and in NumPy, on the same numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ftrace.backends.base import Device, Executable, get_device
from ftrace.backends.interpreter import Evaluation, InterpreterDriver, KernelPlan
from ftrace.lower.kernel import ir
from ftrace.lower.program import Program, RunKernel, Slot
from ftrace.testing.program_parts import Again, add_jitter
from ftrace.trace.graph import Node

Values = Any  # an array of NumPy's, whose stubs leave too much unknown

Wrong = Callable[[Sequence[Values], Sequence[Values], Again], Any]

#: How often a kernel of a loop is compared.
_VISITS = 3


class _Differs(Exception):
    """A kernel that differs: nothing runs after it."""


def first_wrong_kernel(
    program: Program,
    arrays: Sequence[Values],
    device: Device,
    wrong: Wrong,
) -> str:
    """The name of the first kernel that computes something else on a device.

    Args:
      arrays: the inputs of the program.
      wrong: of the device's results, NumPy's, and what computes these once more
        with other last bits: do they differ?

    Returns:
      Its name; "" where there is none, or where a program cannot run so.
    """
    if any(slot.stacks for slot in program.slots) or program.is_dynamic:
        return ""
    inputs = [_bytes(np.array(x, order="C")) for x in arrays]
    outputs = [np.zeros(program.slots[n].nbytes, np.uint8) for n in program.outputs]
    try:
        _Walk(program, device, wrong).run(program, inputs, outputs)
    except _Differs as found:
        return str(found)
    return ""


class _Walk(InterpreterDriver):
    """Runs a program in NumPy, and each of its kernels on a device as well."""

    def __init__(self, program: Program, device: Device, wrong: Wrong) -> None:
        plain = [s for s in program.kernels if type(s.kernel) is ir.Kernel]
        host: Any = get_device("interpreter")
        super().__init__(host, {s: KernelPlan(s.kernel) for s in plain}, {})
        self.target = device
        self.wrong = wrong
        self.visits = Counter[RunKernel]()
        self.compiled: dict[RunKernel, Executable] = {}

    def run_kernel(self, step: RunKernel, memories: list[Any]) -> None:
        if step not in self.plans:  # a library's, whose meaning is its operation's
            for slot, copy in self._on_device(step, memories).items():
                memories[slot][...] = copy
            return
        self.visits[step] += 1
        if self.visits[step] > _VISITS:
            return super().run_kernel(step, memories)
        before = {n: memories[n].copy() for n in step.slots}
        copies = self._on_device(step, memories)
        super().run_kernel(step, memories)

        def written(found: Any) -> list[Values]:
            pairs = zip(step.slots, step.buffers, strict=True)
            return [_numbers(found[n], spec) for n, spec in pairs if spec.written]

        def again(random: np.random.Generator) -> list[Values]:
            given = dict(before)
            for n, spec in zip(step.slots, step.buffers, strict=True):
                numbers = _numbers(before[n], spec)
                other = numbers.copy() if spec.written else add_jitter(numbers, random)
                given[n] = _bytes(other)
            buffers = [given[n] for n in step.slots]
            _Jittered(self.plans[step], buffers, random).run()
            return written(given)

        if self.wrong(written(copies), written(memories), again):
            raise _Differs(step.info.name)
        return None

    def _on_device(self, step: RunKernel, memories: list[Any]) -> dict[int, Values]:
        """What the slots that a kernel writes hold after it has run on the device."""
        device, slots = self.target, list(dict.fromkeys(step.slots))
        if step not in self.compiled:
            self.compiled[step] = device.compile(_alone(step, slots, memories))
        pairs = zip(step.slots, step.buffers, strict=True)
        written = {s for s, spec in pairs if spec.written}
        given = [device.copy_in(_copy_aligned(memories[s])) for s in slots]
        found = self.compiled[step](given)
        return {
            s: device.copy_out(x, np.dtype(np.uint8), memories[s].size)
            for s, x in zip([s for s in slots if s in written], found, strict=True)
        }


class _Jittered(Evaluation):
    """One run of a kernel in which the last bits of each value are others."""

    def __init__(
        self, plan: KernelPlan, memories: Sequence[Values], random: np.random.Generator
    ) -> None:
        super().__init__(plan, memories, {})
        self.random = random

    def _evaluate(self, node: Node) -> Values:
        value = super()._evaluate(node)
        return add_jitter(value, self.random) if node.src else value


def _alone(step: RunKernel, slots: Sequence[int], memories: list[Any]) -> Program:
    """A program of one kernel, which writes its inputs."""
    place = {s: i for i, s in enumerate(slots)}
    kind = np.dtype(np.uint8)
    given = [Slot(kind, (memories[s].size,), "input", i) for s, i in place.items()]
    run = RunKernel(step.kernel, tuple([place[s] for s in step.slots]), step.info)
    pairs = zip(step.slots, step.buffers, strict=True)
    written = {place[s] for s, spec in pairs if spec.written}
    return Program(
        tuple(given), (run,), tuple(range(len(given))), tuple(sorted(written)), 0
    )  # fmt: skip


def _numbers(memory: Values, spec: ir.BufferSpec) -> Values:
    """The numbers of a kernel's buffer."""
    return memory[: spec.size * spec.dtype.itemsize].view(spec.dtype)


def _bytes(array: Values) -> Values:
    return array.reshape(-1).view(np.uint8)


def _copy_aligned(memory: Values) -> Values:
    """A copy of some bytes where a device may write."""
    room = np.empty(memory.size + 128, np.uint8)
    start = -room.ctypes.data % 128
    found = room[start : start + memory.size]
    found[...] = memory
    return found
