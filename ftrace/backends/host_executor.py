"""Programs that the host drives step by step: on the interpreter and on OpenCL.

A `Driver` knows how a device runs a kernel, copies, reads and writes; what loops and
branches do with that is the same everywhere. Of a loop nothing is read back but the
predicate, of a branch the index.

A slot that holds stacks is a list with, for each stack, the list of what was pushed.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.backends.base import Counters, Device, Executable, time_block
from ftrace.backends.debug_report import report_exchange, report_run
from ftrace.backends.out_of_memory import require_memory
from ftrace.errors import GraphError, ShapeError
from ftrace.ground import settings
from ftrace.lower import program as prog
from ftrace.trace.arrays.buffer import Buffer
from ftrace.trace.avals import ShapedArray
from ftrace.trace.evaluate import settle
from ftrace.trace.graph import Node
from ftrace.trace.primitives.exchange import Started, start_exchange
from ftrace.trace.primitives.primitive import Compound
from ftrace.trace.symbolic import same_size

Memory = Any  # what the device calls a part of its memory
Memories = list[Memory]


class Driver(ABC):
    """Runs programs on a device.

    Attributes:
      name: of the device.
      counters: the device's.
    """

    name: str
    counters: Counters

    def __init__(self) -> None:
        self._started: dict[Any, Started] = {}  # by the run of a program

    @abstractmethod
    def run_kernel(self, step: prog.RunKernel, memories: Memories) -> None:
        """Runs or enqueues a kernel."""

    @abstractmethod
    def copy(
        self, source: Memory, first: int, target: Memory, to: int, nbytes: int
    ) -> None:
        """Copies bytes from byte `first` of a memory to byte `to` of another."""

    @abstractmethod
    def read(self, memory: Memory, dtype: np.dtype[Any], size: int) -> Any:
        """A NumPy array with so many elements; waits for what was enqueued."""

    @abstractmethod
    def write(self, memory: Memory, array: Any) -> None:
        """Fills a memory with the bytes of an array."""

    @abstractmethod
    def allocate(self, nbytes: int) -> Memory:
        """Memory that lives as long as something refers to it."""

    @abstractmethod
    def place_arena(self, program: prog.Program) -> tuple[dict[int, Memory], Any]:
        """The memory of each slot of the arena, and what keeps it alive."""

    def synchronize(self) -> None:  # noqa: B027  (a device that runs at once has none)
        """Waits until everything that was enqueued has run."""

    # Programs.

    def run(
        self, program: prog.Program, inputs: Sequence[Memory], outputs: Sequence[Memory]
    ) -> None:
        """Runs a program on the memories of its inputs and outputs."""
        memories: Memories = [None] * len(program.slots)
        for number, memory in zip(program.outputs, outputs, strict=True):
            memories[number] = memory
        for number, memory in zip(program.inputs, inputs, strict=True):
            memories[number] = memory
        places, held = self.place_arena(program)
        for number, memory in places.items():
            stacks = program.slots[number].stacks
            memories[number] = [[] for _ in range(stacks)] if stacks else memory
        chosen = settings.current()
        observed = chosen.debug >= 2 or chosen.observed
        for step in program.steps:
            start = time.perf_counter()
            self._run_step(program, step, memories)
            if observed:
                self.synchronize()
                report_run(self.name, step, start, time.perf_counter())
        del held

    def _run_step(
        self, program: prog.Program, step: prog.Step, memories: Memories
    ) -> None:
        if isinstance(step, prog.RunKernel):
            self.run_kernel(step, memories)
            self.counters.kernels_run += 1
            self.counters.operations += step.info.operations
            self.counters.bytes += step.info.bytes
        elif isinstance(step, prog.CallHost):
            self._call_host(program, step, memories)
        elif isinstance(step, prog.RunExchange):
            self._exchange(program, step, memories)
        elif isinstance(step, prog.RunLoop):
            _LoopRun(self, program, step, memories).run()
        else:
            index = int(self.read(memories[step.index], dtypes.int32, 1)[0])
            operands = [memories[s] for s in step.operands]
            results = [memories[s] for s in step.results]
            self.run(step.branches[index], operands, results)

    def _call_host(
        self, program: prog.Program, step: prog.CallHost, memories: Memories
    ) -> None:
        node, slots = step.node, program.slots
        operation = node.op
        assert isinstance(operation, Compound)
        # A slot holds what an operand is a view of: it has its own shape.
        operands = [
            self.read(memories[s], slots[s].dtype, slots[s].size).reshape(source.shape)
            for s, source in zip(step.operands, node.src, strict=True)
        ]
        avals = node.aval.items
        with np.errstate(all="ignore"):
            values = operation.numpy(avals, node.arg, *operands)
        for slot, aval, value in zip(step.results, avals, values, strict=True):
            self.write(memories[slot], checked_result(node, aval, value))

    def _exchange(
        self, program: prog.Program, step: prog.RunExchange, memories: Memories
    ) -> None:
        key, slots = (id(memories), step.nodes), program.slots
        if step.phase != "wait":
            arrays: list[Any] = []
            for node, row in zip(step.nodes, step.split(step.operands), strict=True):
                for s, n in zip(row, node.src, strict=True):
                    x = self.read(memories[s], slots[s].dtype, slots[s].size)
                    arrays.append(x.reshape(n.shape))
            avals = [node.aval.items[0] for node in step.nodes]
            out = [np.empty(aval.shape, aval.dtype) for aval in avals]
            args, rows = [node.arg for node in step.nodes], step.split(arrays)
            self._started[key] = start_exchange(args, rows, out, step.meanwhile)
        if step.phase != "start":
            started = self._started.pop(key)
            for slot, array in zip(step.results, started.finish(), strict=True):
                self.write(memories[slot], array)
            report_exchange(step, started.pending.began, started.pending.ended)


class DrivenProgram(Executable):
    """A program that a driver runs, step by step.

    Attributes:
      most_memory: bytes that the device has at all, if they are its own.
    """

    most_memory: int | None = None

    def __init__(self, device: Device, program: prog.Program, driver: Driver) -> None:
        self.device = device
        self.program = program
        self.driver = driver

    @abstractmethod
    def memory_of(self, buffer: Buffer, nbytes: int) -> Memory:
        """The first bytes of a buffer, as the driver knows them."""

    def __call__(self, inputs: Sequence[Buffer]) -> list[Buffer]:
        program, device = self.program, self.device
        inputs = self.receive(inputs)
        require_memory(device.name, device.allocator, program, self.most_memory)
        owners: dict[int, Buffer] = dict(zip(program.inputs, inputs, strict=True))
        for number in program.outputs:
            if number not in owners:
                owners[number] = device.allocate(program.slots[number].nbytes)
        memories = {
            n: self.memory_of(buffer, program.slots[n].nbytes)
            for n, buffer in owners.items()
        }
        with time_block(device.counters, "run_seconds"):
            self.driver.run(
                program,
                [memories[number] for number in program.inputs],
                [memories[number] for number in program.outputs],
            )
        return [owners[number] for number in program.outputs]


class _LoopRun:
    """One run of a loop."""

    def __init__(
        self,
        driver: Driver,
        program: prog.Program,
        step: prog.RunLoop,
        memories: Memories,
    ) -> None:
        self.driver = driver
        self.slots = program.slots
        self.step = step
        self.memories = memories
        self.consts = [memories[s] for s in step.consts]
        body = step.body
        first = len(step.consts) + len(step.carry)
        self.x_slots = [body.slots[s] for s in body.inputs[first:]]
        last = first - len(step.consts) + len(step.ys)
        outputs = body.outputs[len(step.carry) : last]
        self.y_slots = [body.slots[s] for s in outputs]
        self.flag = driver.allocate(1) if step.predicate >= 0 else None

    def run(self) -> None:
        step, memories = self.step, self.memories
        carry = self._first_carry()
        t = 0
        length = self._length()
        while self._goes_on(t, length):
            at = length - 1 - t if length is not None and step.reverse else t
            targets = self._targets(carry)
            ys = [
                self._new(memories[s], self.slots[s], at, inner)
                for s, inner in zip(step.ys, self.y_slots, strict=True)
            ]
            xs = [
                self._element(memories[s], self.slots[s], at, inner)
                for s, inner in zip(step.xs, self.x_slots, strict=True)
            ]
            outputs = [*targets, *ys] + ([self.flag] if self.flag is not None else [])
            self.driver.run(step.body, [*self.consts, *carry, *xs], outputs)
            for s, inner, y in zip(step.ys, self.y_slots, ys, strict=True):
                self._keep(memories[s], self.slots[s], at, inner, y)
            carry = targets
            t += 1
        for place, last in zip(step.carry, carry, strict=True):
            result = memories[place.result]
            if last is not result:
                self._copy_whole(last, result, place)

    def _copy_whole(self, source: Memory, target: Memory, place: prog.Carry) -> None:
        self.driver.copy(source, 0, target, 0, self.slots[place.result].nbytes)

    def _first_carry(self) -> Memories:
        found: Memories = []
        for place in self.step.carry:
            initial, result = (self.memories[s] for s in (place.initial, place.result))
            if place.spare < 0 and initial is not result:
                self._copy_whole(initial, result, place)
                initial = result
            found.append(initial)
        return found

    def _targets(self, carry: Memories) -> Memories:
        """Where the next carry is written: not where this one is read."""
        found: Memories = []
        for place, current in zip(self.step.carry, carry, strict=True):
            result = self.memories[place.result]
            in_turn = place.spare >= 0 and current is result
            found.append(self.memories[place.spare] if in_turn else result)
        return found

    def _length(self) -> int | None:
        step = self.step
        if step.length is not None or step.predicate >= 0:
            return step.length
        for s in step.xs:
            if self.slots[s].stacks:
                return len(self.memories[s][0])
        raise GraphError("a loop without length, stacks or predicate")

    def _goes_on(self, t: int, length: int | None) -> bool:
        if self.flag is None:
            assert length is not None
            return t < length
        flag = self.memories[self.step.predicate] if t == 0 else self.flag
        return bool(self.driver.read(flag, dtypes.bool_, 1)[0])

    # Elements lie where a device may be unable to give them to a kernel.

    def _element(
        self, memory: Memory, slot: prog.Slot, t: int, inner: prog.Slot
    ) -> Memory:
        if slot.stacks and self.step.length is None:
            return memory[0][t]
        if slot.stacks:
            return memory[t * inner.stacks : (t + 1) * inner.stacks]
        found = self.driver.allocate(inner.nbytes)
        self.driver.copy(memory, t * inner.nbytes, found, 0, inner.nbytes)
        return found

    def _new(self, memory: Memory, slot: prog.Slot, t: int, inner: prog.Slot) -> Memory:
        if slot.stacks and self.step.length is not None:
            return memory[t * inner.stacks : (t + 1) * inner.stacks]
        return self.driver.allocate(inner.nbytes)

    def _keep(
        self, memory: Memory, slot: prog.Slot, t: int, inner: prog.Slot, written: Memory
    ) -> None:
        if not slot.stacks:
            self.driver.copy(written, 0, memory, t * inner.nbytes, inner.nbytes)
        elif self.step.length is None:
            memory[0].insert(0 if self.step.reverse else len(memory[0]), written)


def checked_result(node: Node, aval: ShapedArray, value: Any) -> Any:
    """What the host computed, as an array of the promised type.

    Raises:
      ShapeError: its shape is another one.
    """
    array = settle(value, aval.dtype)
    if not same_size(array.shape, aval.shape):
        raise ShapeError(
            f"{node.op.name} must give an array of shape {aval.shape} here; it gave "
            f"one of shape {array.shape}",
            node.origin,
        )
    return np.ascontiguousarray(array)
