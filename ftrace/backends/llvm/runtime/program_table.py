"""Programs as the native runner reads them: records in memory.

Nested programs stand in the same block. Their slots are references into the frame of
the program around them, or into the scratch memory that it gives them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ftrace.backends.debug_report import report_exchange
from ftrace.backends.host_executor import checked_result
from ftrace.backends.llvm.runtime import records as r
from ftrace.backends.llvm.runtime.messages import messages_of
from ftrace.backends.llvm.runtime.step_log import StepLog
from ftrace.backends.llvm.runtime.warm_memory import cell_bytes, first_log
from ftrace.backends.llvm.runtime.work_estimate import (
    LASTING,
    WORTH_A_THREAD,
    own_work_of,
    work_of,
)
from ftrace.ground import process_groups, processes
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.lower import program as prog
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Node
from ftrace.trace.primitives.exchange import Started, start_exchange, waiting_for
from ftrace.trace.primitives.primitive import Array, Compound

#: Copies of less are not worth a second thread.
COPY_GRAIN = 1 << 18


class NativeKernel(NamedTuple):
    """A compiled kernel as a program runs it.

    Attributes:
      sizes: the object that holds its dynamic sizes, its last buffer; -1: it has none.
      numbers: the address of its numbers, its last buffer; 0: it has none.
    """

    address: int
    units: int
    grain: int
    sizes: int
    numbers: int


class HostCall:
    """A step that the host computes; the runner calls it on the address of a frame.

    The operands are read-only and show the program's memory, which is theirs during
    the call only; a user's function gets copies.

    Raises:
      ShapeError: a result has another shape than its type says.
      Exception: whatever the operation raises, with a note that names it.
    """

    def __init__(self, step: prog.CallHost) -> None:
        assert isinstance(step.node.op, Compound)
        self.node = step.node
        self.op = step.node.op
        self._copies = self.op.calls_back
        types = step.node.aval.items
        self._operands = [
            _SlotArray(slot, node.aval)
            for slot, node in zip(step.operands, step.node.src, strict=True)
        ]
        self._results = [
            _SlotArray(slot, aval)
            for slot, aval in zip(step.results, types, strict=True)
        ]

    def __call__(self, frame: int) -> None:
        try:
            self._compute(frame)
        except BaseException as error:
            if not self._copies:  # a callback of a user has named it already
                _add_note(error, self.node)
            raise

    def _compute(self, frame: int) -> None:
        operands = [operand.view(frame) for operand in self._operands]
        if self._copies:
            operands = [np.array(operand) for operand in operands]
        for operand in operands:
            operand.flags.writeable = False
        types = self.node.aval.items
        values = self.op.numpy(types, self.node.arg, *operands)
        for result, value in zip(self._results, values, strict=True):
            result.view(frame)[...] = checked_result(self.node, result.aval, value)


def _add_note(error: Any, node: Node) -> None:
    """Names the user's line, where Python has notes (3.11 and later)."""
    if node.origin is not None and hasattr(error, "add_note"):
        error.add_note(f"in {node.op.name}, called at {node.origin.describe()}")


#: Where the handle of a group is that is not there yet.
_NO_GROUP = ctypes.c_size_t(0)


class ExchangeCall:
    """Steps by which processes do something together: its start, its end, or both.

    The runner calls one of its methods on the address of a frame. MPI gets the memory
    of the program, where operands and results stay in their places until the end. What
    `messages_of` knows is sent by native code, from the second time on.
    """

    def __init__(self, step: prog.RunExchange) -> None:
        self.step = step
        self.args = [node.arg for node in step.nodes]
        self._operands = [
            _SlotArray(slot, source.aval)
            for node, row in zip(step.nodes, step.split(step.operands), strict=True)
            for source, slot in zip(node.src, row, strict=True)
        ]
        avals = [node.aval.items[0] for node in step.nodes]
        rows = zip(step.results, avals, strict=True)
        self._results = [_SlotArray(slot, aval) for slot, aval in rows]
        self._started: dict[int, Started] = {}
        self._handle: Any = None

    def start(self, frame: int, record: int) -> None:
        self._started[frame] = self._begin(frame, True)

    def wait(self, frame: int, record: int) -> None:
        self._finish(self._started.pop(frame))

    def whole(self, frame: int, record: int) -> None:
        self._finish(self._begin(frame, False))

    def first(self, frame: int, record: int) -> None:
        """`whole`; the next time there is a group for native code."""
        self.whole(frame, record)
        place = record + r.WORD * r.ExchangeStep.fields.index("group")
        self._handle = self.args[0].ranks.own.handle  # which native code reads
        ctypes.c_size_t.from_address(place).value = ctypes.addressof(self._handle)

    def late(self, requests: int, count: int, failed: int, statuses: int) -> None:
        """Waits for what native code has begun."""
        mpi, arg = processes.native(), self.args[0]
        assert mpi is not None
        kind = {4: ctypes.c_int, 8: ctypes.c_size_t}[mpi.request]  # MPICH, Open MPI
        handles: Any = (kind * count).from_address(requests)
        with self._noting():
            arg.ranks.own.resume(waiting_for(arg), handles, failed, statuses)

    def _begin(self, frame: int, meanwhile: bool) -> Started:
        operands = [operand.view(frame) for operand in self._operands]
        out = [result.view(frame) for result in self._results]
        rows = self.step.split(operands) if len(operands) > 1 else [operands]
        return start_exchange(self.args, rows, out, meanwhile)

    def _finish(self, started: Started) -> None:
        with self._noting():
            started.finish()
        report_exchange(self.step, started.pending.began, started.pending.ended)

    @contextmanager
    def _noting(self) -> Generator[None]:
        try:
            yield
        except BaseException as error:
            _add_note(error, self.step.nodes[0])
            raise


class _SlotArray:
    """An array that lies in a slot of a program."""

    def __init__(self, slot: int, aval: ShapedArray) -> None:
        self.aval = aval
        self._at = slot * ctypes.sizeof(ctypes.c_size_t)
        self._bytes = ctypes.c_byte * (aval.size * aval.dtype.itemsize)

    def view(self, frame: int) -> Array:
        """The array in this frame; writable."""
        address = ctypes.c_size_t.from_address(frame + self._at).value
        memory: Any = self._bytes.from_address(address)
        return np.ndarray(self.aval.shape, self.aval.dtype, memory)


class Table:
    """A program and all that it runs, in memory.

    Args:
      program: its kernels are `kernels`, in the order of `program.kernels`.
      objects: for each slot which object of a call it is in, and how many bytes after
        the object's beginning.
      handlers: the addresses of the runner's functions.

    Attributes:
      work: what one run does.
      entry: what `run` takes.
    """

    def __init__(
        self,
        program: prog.Program,
        kernels: Sequence[NativeKernel],
        objects: Sequence[tuple[int, int]],
        handlers: Mapping[str, int],
    ) -> None:
        self.work = work_of(program)
        self.program = program
        pairs = list(objects)
        last: dict[int, int] = {}
        for number, kernel in enumerate(kernels):
            if kernel.sizes >= 0 or kernel.numbers:
                last[number] = len(pairs)
                # A call has no scratch memory: an offset into it is an address.
                fixed = r.SCRATCH, kernel.numbers
                pairs.append(fixed if kernel.numbers else (kernel.sizes, 0))
        references = [r.Reference(*pair) for pair in pairs]
        self._objects = max((number for number, _ in pairs), default=-1) + 1
        self._written = kernels, handlers, last
        self._references = references
        self.entry, self._memory = self.observe(None)

    def observe(self, log: StepLog | None) -> tuple[int, Any]:
        """The same program; where there is a log, each of its steps notes when it ran.

        Returns:
          What `run` takes, and what has the memory in which it is.
        """
        writer = _Writer(*self._written, log)
        _, record = writer.write(self.program, self._references)
        return self._enter(writer, record, 0 if self.work.brief else 1)

    def telling(self, tell: Callable[[int], object]) -> tuple[int, Any]:
        """The same program; it calls `tell` on its frame's address after each step.

        Returns:
          What `run` takes, and what has the memory in which it is.
        """
        writer = _Writer(*self._written, tells=True)
        steps, record = writer.write(self.program, self._references)
        block = writer.block
        teller = block.add(*r.HostStep(writer.handlers["run_host"], id(tell)))
        both = [word for step in steps for word in (step, teller)]
        program = len(both), block.add(*both), *record[2:]
        return self._enter(writer, program, 1)

    def _enter(
        self, writer: _Writer, program: Sequence[r.Word], released: int
    ) -> tuple[int, Any]:
        block = writer.block
        entry = block.add(*r.Entry(block.add(*program), self._objects, released))
        block.freeze()
        return block.settle(entry), writer  # which has what the records refer to


class _Writer:
    """Writes programs into a block; it keeps alive what the block refers to.

    Args:
      sizes: for kernels, by number, the place of their sizes or numbers in the frame.
      log: where the steps note when they ran; None if they do not.
      tells: somebody is told of each step.
    """

    def __init__(
        self,
        kernels: Sequence[NativeKernel],
        handlers: Mapping[str, int],
        sizes: Mapping[int, int],
        log: StepLog | None = None,
        tells: bool = False,
    ) -> None:
        self.block = r.RecordBlock()
        self._mpi = None if tells or log is not None else processes.native()
        self._log = log
        self._depth = 0
        self.handlers = handlers
        self._kernels = kernels
        self._next = 0  # kernel
        self._sizes = sizes
        self._host_calls: list[Any] = []
        self._exchanges: dict[Any, ExchangeCall] = {}

    def write(
        self,
        program: prog.Program,
        references: Sequence[r.Reference],
        results: Sequence[tuple[int, int]] = (),
    ) -> tuple[list[r.Offset], r.ProgramRecord]:
        """The steps of a program and its record.

        Args:
          references: one per slot; more of them are places of the program around it.
          results: copies that are made at the end, between such slots.
        """
        self._depth += 1
        steps = [self._step(program, step) for step in program.steps]
        self._depth -= 1
        for source, target in results:
            steps.append(self._copy(source, target, program.slots[source].nbytes))
        stacks = [
            r.Headers(number, slot.stacks, *_cells(slot))
            for number, slot in enumerate(program.slots)
            if slot.stacks and slot.storage == "arena"
        ]
        return steps, r.ProgramRecord(
            len(steps),
            self.block.add(*steps),
            *self.block.rows(references),
            *self.block.rows(stacks),
            int(program.overlaps),
        )

    def _nest(
        self,
        program: prog.Program,
        references: Sequence[r.Reference],
        results: Sequence[tuple[int, int]] = (),
    ) -> r.ProgramRecord:
        """A program in a step; the sizes of its kernels follow what it refers to."""
        outer = self._sizes
        every = [*references]
        inner: dict[int, int] = {}
        for number in range(self._next, self._next + len(program.kernels)):
            if number in outer:
                inner[number] = len(every)
                every.append(r.Reference(outer[number], 0))
        self._sizes = inner
        _, record = self.write(program, every, results)
        self._sizes = outer
        return record

    def _step(self, program: prog.Program, step: prog.Step) -> r.Offset:
        log = self._log
        if log is None:
            return self._plain_step(program, step)
        number = log.next()
        kernel = (0, 0)
        if isinstance(step, prog.RunKernel):
            kernel = self._kernels[self._next][:2]
        log = log.address(self._depth > 1)
        inner = self._plain_step(program, step)
        handler = self.handlers["observe_step"]
        return self.block.add(*r.ObservedStep(handler, inner, *kernel, log, number))

    def _plain_step(self, program: prog.Program, step: prog.Step) -> r.Offset:
        if isinstance(step, prog.RunKernel):
            number, slots = self._next, step.slots
            self._next += 1
            kernel = self._kernels[number]
            if number in self._sizes:
                slots = (*slots, self._sizes[number])
            each = max(step.info.operations // max(kernel.units, 1), 1)
            address = kernel.address
            if self._log is not None:
                address = self.handlers["observe_piece"]
            return self._kernel(
                address, slots, kernel.units, kernel.grain, LASTING // each
            )
        if isinstance(step, prog.RunBranch):
            return self._branch(step)
        if isinstance(step, prog.RunLoop):
            return self._loop(program, step)
        if isinstance(step, prog.RunExchange):
            return self._exchange(step)
        return self._host_call(HostCall(step))

    def _host_call(self, call: Any) -> r.Offset:
        return self.block.add(*r.HostStep(self.handlers["run_host"], self._id(call)))

    def _id(self, call: Any) -> int:
        """The address of an object that is called."""
        self._host_calls.append(call)
        return id(call)

    def _exchange(self, step: prog.RunExchange) -> r.Offset:
        both = self._exchanges.setdefault(step.nodes, ExchangeCall(step))
        mpi = self._mpi
        found = messages_of(step, mpi) if mpi else None
        begin, late, facts = getattr(both, step.phase), 0, [0] * 16
        if found is not None and mpi is not None:
            rows, (kind, *rest) = found
            begin, late = both.first, self._id(both.late)
            facts = [*mpi[2:], kind, *self.block.rows(rows), *rest]
        handler = self.handlers["run_exchange"]
        places = map(ctypes.addressof, (_NO_GROUP, process_groups.cut))
        record = r.ExchangeStep(handler, self._id(begin), late, *places, *facts)
        return self.block.add(*record)

    def _kernel(
        self,
        address: int,
        slots: Sequence[int],
        units: int,
        grain: int,
        quantum: int,
    ) -> r.Offset:
        listed = self.block.words(slots)
        handler = self.handlers["run_kernel"]
        quantum = max(quantum, grain)
        record = r.KernelStep(handler, address, *listed, units, grain, quantum)
        return self.block.add(*record)

    def _copy(self, source: int, target: int, nbytes: int) -> r.Offset:
        slots = (source, target)
        copy = self.handlers["copy"]
        return self._kernel(copy, slots, nbytes, COPY_GRAIN, LASTING)

    # Branches.

    def _branch(self, step: prog.RunBranch) -> r.Offset:
        places = [self._write_branch(step, branch) for branch in step.branches]
        handler, programs = self.handlers["run_branch"], self.block.words(places)
        return self.block.add(
            *r.BranchStep(handler, step.index, *programs, max(step.scratch, 0))
        )

    def _write_branch(self, step: prog.RunBranch, branch: prog.Program) -> r.Offset:
        """A branch; what it hands through, or gives twice, it copies at its end."""
        known = {
            slot: r.Reference(operand, 0)
            for slot, operand in zip(branch.inputs, step.operands, strict=True)
        }
        more: list[r.Reference] = []
        copies: list[tuple[int, int]] = []
        for slot, result in zip(branch.outputs, step.results, strict=True):
            place = r.Reference(result, 0)
            if known.setdefault(slot, place) != place:
                copies.append((slot, len(branch.slots) + len(more)))
                more.append(place)
        references = [*_references(branch, known), *more]
        record = self._nest(branch, references, copies)
        return self.block.add(*record)

    # Loops.

    def _loop(self, program: prog.Program, step: prog.RunLoop) -> r.Offset:
        elements = _Elements(program, step)
        body, carry = step.body, step.carry
        known = dict(elements.references)
        after_consts = body.inputs[len(step.consts) :]
        for slot, const in zip(body.inputs, step.consts, strict=False):
            known[slot] = r.Reference(const, 0)
        carries: list[r.CarryRow] = []
        for read, written, kept in zip(after_consts, body.outputs, carry, strict=False):
            known[read] = r.Reference(kept.initial, 0)
            known[written] = r.Reference(kept.result, 0)
            spare = kept.result if kept.spare == -1 else kept.spare
            places = kept.initial, kept.result, spare, body.slots[read].nbytes
            carries.append(r.CarryRow(read, written, *places))
        again = -1
        if step.predicate >= 0:
            again = body.outputs[-1]
            known[again] = r.Reference(step.predicate, 0)
        record = self._nest(body, _references(body, known))
        own_work = own_work_of(body)
        return self.block.add(
            *r.LoopStep(
                self.handlers["run_loop"],
                self.block.add(*record),
                max(step.scratch, 0),
                -(-body.arena // prog.ALIGNMENT) * prog.ALIGNMENT,
                _lanes(step),
                -1 if step.length is None else step.length,
                step.predicate,
                again,
                int(step.reverse),
                own_work.cost + 1,
                *self.block.rows(carries),
                *self.block.rows(elements.moves),
                *self.block.rows(elements.reads),
                *self.block.rows(elements.pushes),
            )
        )


class _Elements:
    """Where a loop's body finds the elements of `xs` and puts those of `ys`.

    Attributes:
      references: of the body's slots, at the first iteration.
      moves: the slots that go on by a step.
      reads, pushes: the slots that are cells of stacks.
    """

    def __init__(self, program: prog.Program, step: prog.RunLoop) -> None:
        self.references: dict[int, r.Reference] = {}
        self.moves: list[r.MoveRow] = []
        self.reads: list[r.StackRow] = []
        self.pushes: list[r.StackRow] = []
        self._slots = program.slots
        self._step = step
        body, carried = step.body, len(step.carry)
        read = body.inputs[len(step.consts) + carried :]
        written = body.outputs[carried : carried + len(step.ys)]
        for inner, outer in zip(read, step.xs, strict=True):
            self._add(inner, outer, self.reads)
        for inner, outer in zip(written, step.ys, strict=True):
            self._add(inner, outer, self.pushes)

    def _add(self, inner: int, outer: int, cells: list[r.StackRow]) -> None:
        element, step = self._step.body.slots[inner], self._step
        if self._slots[outer].stacks == 1 and not element.stacks:
            cells.append(r.StackRow(inner, outer, *_cells(self._slots[outer])))
            self.references[inner] = r.Reference(outer, 0)
        elif step.reverse:
            assert step.length is not None, "where is the last of so many elements?"
            last = max(step.length - 1, 0) * element.nbytes
            self.references[inner] = r.Reference(outer, last)
            self.moves.append(r.MoveRow(inner, -element.nbytes))
        else:
            self.references[inner] = r.Reference(outer, 0)
            self.moves.append(r.MoveRow(inner, element.nbytes))


def _references(
    program: prog.Program, known: Mapping[int, r.Reference]
) -> list[r.Reference]:
    """Where each slot of a nested program is."""

    def reference(number: int, slot: prog.Slot) -> r.Reference:
        if slot.storage == "arena":
            return r.Reference(r.SCRATCH, slot.position)
        return known[number]

    return [reference(number, slot) for number, slot in enumerate(program.slots)]


def _cells(stack: prog.Slot) -> tuple[int, int]:
    """The bytes of a cell, and how many the first chunk has, as a power of two."""
    size = cell_bytes(stack.size * stack.dtype.itemsize)
    return size, first_log(size)


def _lanes(step: prog.RunLoop) -> int:
    """Into how many lanes a loop is split: each is worth a thread's while."""
    work = work_of(step.body)
    if step.lanes == 1 or step.length is None or work.on_host:
        return 1
    cost = (work.likely_cost + 1) * step.length
    return max(min(step.lanes, step.length, cost // WORTH_A_THREAD), 1)
