"""Programs put together by hand, step by step, and run on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.backends.llvm.device import CPU
from ftrace.lower import lower
from ftrace.lower.program import (
    ALIGNMENT,
    CallHost,
    Carry,
    Program,
    RunBranch,
    RunKernel,
    RunLoop,
    Slot,
    Step,
)
from ftrace.trace.avals import Bundle, Shape, ShapedArray
from ftrace.trace.graph import Graph, Node, make_node
from ftrace.trace.primitives.elementwise import add
from ftrace.trace.primitives.primitive import COMPOUNDS, Compound
from ftrace.trace.primitives.sources import const_like, variable

Array = np.ndarray[Any, Any]
I64 = dtypes.int64


class Assembly:
    """A program that is put together slot by slot, each with its own memory."""

    def __init__(self) -> None:
        self.slots: list[Slot] = []
        self.steps: list[Step] = []
        self.inputs: list[int] = []
        self.outputs: list[int] = []
        self.arena = 0

    def input(self, shape: Shape = (), dtype: Any = I64, stacks: int = 0) -> int:
        self.inputs.append(len(self.slots))
        place = len(self.inputs) - 1
        self.slots.append(Slot(np.dtype(dtype), shape, "input", place, "", stacks))
        return self.inputs[-1]

    def output(self, shape: Shape = (), dtype: Any = I64, stacks: int = 0) -> int:
        self.outputs.append(len(self.slots))
        place = len(self.outputs) - 1
        self.slots.append(Slot(np.dtype(dtype), shape, "output", place, "", stacks))
        return self.outputs[-1]

    def temporary(self, shape: Shape = (), dtype: Any = I64, stacks: int = 0) -> int:
        slot = Slot(np.dtype(dtype), shape, "arena", self.arena, "", stacks)
        self.slots.append(slot)
        self.arena += -(-max(slot.nbytes, 1) // ALIGNMENT) * ALIGNMENT
        return len(self.slots) - 1

    def scratch(self, *programs: Program, lanes: int = 1) -> int:
        nbytes = max(-(-p.arena // ALIGNMENT) * ALIGNMENT for p in programs)
        return self.temporary((max(nbytes * lanes, 1),), dtypes.uint8)

    def compute(self, function: Callable[..., Node], *slots: int, to: int) -> None:
        """A kernel: the slot `to` becomes `function` of the others."""
        program = kernel_of(function, *[self.slots[s] for s in slots])
        (step,) = program.steps
        assert isinstance(step, RunKernel)
        outer = dict(zip(program.inputs, slots, strict=True))
        outer[program.outputs[0]] = to
        places = tuple(outer[s] for s in step.slots)
        self.steps.append(RunKernel(step.kernel, places, step.info))

    def loop(
        self,
        body: Program,
        consts: Sequence[int] = (),
        carry: Sequence[tuple[int, int, int]] = (),
        xs: Sequence[int] = (),
        ys: Sequence[int] = (),
        length: int | None = None,
        reverse: bool = False,
        predicate: int = -1,
        lanes: int = 1,
    ) -> None:
        rows = tuple(Carry(*row) for row in carry)
        scratch = self.scratch(body, lanes=lanes)
        self.steps.append(
            RunLoop(
                body,
                tuple(consts),
                rows,
                tuple(xs),
                tuple(ys),
                length,
                reverse,
                predicate,
                scratch,
                lanes,
            )
        )

    def branch(
        self,
        index: int,
        branches: Sequence[Program],
        operands: Sequence[int],
        results: Sequence[int],
    ) -> None:
        scratch = self.scratch(*branches)
        places = tuple(operands), tuple(results)
        self.steps.append(RunBranch(index, tuple(branches), *places, scratch))

    def host(
        self, op: Compound, operands: Sequence[int], results: Sequence[int]
    ) -> None:
        def aval(slot: int) -> ShapedArray:
            return ShapedArray.of(self.slots[slot].shape, self.slots[slot].dtype)

        src = tuple(variable(aval(s), 0, i) for i, s in enumerate(operands))
        bundle = Bundle.of_items(tuple(aval(s) for s in results))
        node = make_node(op, bundle, src, None)
        self.steps.append(CallHost(node, tuple(operands), tuple(results)))

    @property
    def program(self) -> Program:
        return Program(
            tuple(self.slots),
            tuple(self.steps),
            tuple(self.inputs),
            tuple(self.outputs),
            self.arena,
        )


def kernel_of(function: Callable[..., Any], *types: Slot) -> Program:
    """The lowered program of a function of nodes with one or several results."""
    inputs = tuple(
        variable(ShapedArray.of(t.shape, t.dtype), 0, i) for i, t in enumerate(types)
    )
    found = function(*inputs)
    outputs = tuple(found) if isinstance(found, (list, tuple)) else (found,)
    return lower(Graph(inputs, outputs)).program


def of(shape: Shape = (), dtype: Any = I64) -> Slot:
    return Slot(np.dtype(dtype), shape, "input", 0)


def plus_one(x: Node) -> Node:
    return add(x, const_like(x, 1))


def run(cpu: CPU, program: Program, *arrays: Any) -> list[Array]:
    executable = cpu.compile(program)
    return results_of(cpu, executable, arrays)


def results_of(cpu: CPU, executable: Any, arrays: Sequence[Any]) -> list[Array]:
    buffers = executable([cpu.copy_in(np.asarray(a)) for a in arrays])
    found: list[Array] = []
    program = executable.program
    for number, buffer in zip(program.outputs, buffers, strict=True):
        slot = program.slots[number]
        flat = cpu.copy_out(buffer, slot.dtype, slot.size)
        found.append(flat.copy().reshape(slot.shape))
    return found


_hosts = iter(range(1_000_000))


def host_op(function: Callable[..., Sequence[Any]], name: str = "") -> Compound:
    """A compound whose meaning is a function of arrays; it leaves no trace."""
    name = name or f"host_{next(_hosts)}"
    before = COMPOUNDS.pop(name, None)
    op = Compound(
        name, "host", lambda *_: (), lambda avals, arg, *xs: function(*xs),
        lambda *_: ([], []), no_derivative="a test",
        calls_back=before is not None and before.calls_back,
    )  # fmt: skip
    del COMPOUNDS[name]
    if before is not None:
        COMPOUNDS[name] = before
    return op
