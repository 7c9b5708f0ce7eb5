"""The program: buffers, and the steps that fill them, in order.

    program = slots, steps, inputs, outputs
    slot    = an array in memory: an input, an output, or a part of the arena
    step    = RunKernel(kernel, slots) | CopySlot(source, target)

A device compiles a program into an `Executable`, once per shape signature.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ftrace.lower.kernel import Kernel, KernelInfo
from ftrace.trace.avals import Shape


@dataclass(frozen=True)
class Slot:
    """An array of a program.

    Attributes:
      dtype, shape: of the array; it is stored contiguously, row-major.
      place: "input", "output" or "arena".
      position: which input or output; for the arena the offset in bytes.
      value: the name of what it holds, for people.
    """

    dtype: np.dtype[Any]
    shape: Shape
    place: str
    position: int
    value: str = ""

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize


@dataclass(frozen=True)
class RunKernel:
    """Run a kernel on slots, in the order of the kernel's buffers."""

    kernel: Kernel
    slots: tuple[int, ...]
    info: KernelInfo


@dataclass(frozen=True)
class CopySlot:
    """Copy one slot to another of the same size in bytes."""

    source: int
    target: int


Step = RunKernel | CopySlot


@dataclass(frozen=True)
class Program:
    """What one jitted function runs for one shape signature.

    Attributes:
      slots: all arrays.
      steps: in the order in which they run.
      inputs: for each argument its slot.
      outputs: for each result its slot: an output, or an input handed through.
      arena: bytes of temporary memory that the steps share.
    """

    slots: tuple[Slot, ...]
    steps: tuple[Step, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    arena: int

    @property
    def kernels(self) -> list[RunKernel]:
        return [step for step in self.steps if isinstance(step, RunKernel)]

    def __str__(self) -> str:
        lines = [f"program: {len(self.steps)} steps, arena of {self.arena} bytes"]
        for step in self.steps:
            if isinstance(step, CopySlot):
                lines.append(f"  copy {step.source} -> {step.target}")
            else:
                lines.append(f"  {step.info.name} {' '.join(map(str, step.slots))}")
        return "\n".join(lines)
