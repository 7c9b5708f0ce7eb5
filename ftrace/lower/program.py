"""The program: buffers, and the steps that fill them, in order.

    program = slots, steps, inputs, outputs
    slot    = an array in memory: an input, an output, or a part of the arena
    step    = RunKernel(kernel, slots)
            | CallHost(operation, operands, results)
            | RunExchange(operations, operands, results, part)
            | RunBranch(index, branches, operands, results)
            | RunLoop(body, consts, carry, xs, ys)

Branches and bodies are programs themselves. Their inputs and outputs are slots of the
program around them, or parts of these; their arenas are parts of its arena. A device
compiles a program into an `Executable`, once per shape signature. Where shapes are
dynamic (`trace/symbolic.py`) it is compiled once, and `at` gives the arrays and the
arena for the sizes of a call.

The memory plan says which parts of one arena hold the values between kernels. A value
lives from the step that writes it to the last step that reads it. Values whose lives do
not overlap may share memory: each takes the lowest place in the arena that is free
while it lives, the largest first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from math import prod
from typing import Any, TypeVar

import numpy as np

from ftrace.errors import Origin
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.kernel import ir
from ftrace.trace import symbolic as sym
from ftrace.trace.avals import Shape, ShapedArray
from ftrace.trace.graph import Node, making_nodes_of
from ftrace.trace.primitives.sources import variable

T = TypeVar("T")
#: What `isinstance` is asked for, so that the parts stay untyped.
_TUPLE: tuple[type[Any], ...] = (tuple,)

#: Of values in an arena, in bytes: OpenCL devices ask for no more in parts of a buffer.
ALIGNMENT = 128


@dataclass(frozen=True)
class Lifetime:
    """A value of `nbytes` that lives from step `first` to `last`, both included."""

    nbytes: int
    first: int
    last: int


@dataclass(frozen=True)
class MemoryPlan:
    """Where each value lies.

    Attributes:
      offsets: in bytes, one per lifetime; multiples of `ALIGNMENT`.
      size: bytes of the arena.
    """

    offsets: tuple[int, ...]
    size: int


#: After a value of so many bytes the next one begins so far beyond its place in a page:
#: see `allocate_aligned`. Else cummax of cumsum of cummax of 64×64×16, along the first
#: axis, takes 1.7 times as long.
_LARGE, _APART, _PAGE = 1 << 15, 13 * ALIGNMENT, 1 << 12


def room_for(nbytes: int) -> int:
    """What a value takes of the arena."""
    least = -(-max(nbytes, 1) // ALIGNMENT) * ALIGNMENT
    return least if nbytes < _LARGE else least + (_APART - least) % _PAGE


def plan_memory(lifetimes: Sequence[Lifetime]) -> MemoryPlan:
    """Packs values into an arena, each at the lowest place that is free while it lives.

    Those that have a place are rows of numbers, compared all at once: thousands of
    values that live from a forward to a backward pass all overlap.
    """
    needs = [room_for(v.nbytes) for v in lifetimes]
    offsets = [0] * len(needs)
    rows = np.zeros((4, len(needs)), np.int64)  # offset, end, first step, last step
    order = sorted(range(len(needs)), key=lambda i: (-lifetimes[i].nbytes, i))
    for count, i in enumerate(order):
        life, need = lifetimes[i], needs[i]
        offset, end, first, last = rows[:, :count]
        living = (last >= life.first) & (first <= life.last)
        if living.any():
            ends = np.maximum.accumulate(end[living])
            before = np.concatenate(([0], ends[:-1]))  # where what lies below it ends
            fits = offset[living] - before >= need
            gap = int(fits.argmax())
            offsets[i] = int(before[gap] if fits[gap] else ends[-1])
        place = int(offset.searchsorted(offsets[i]))
        rows[:, place + 1 : count + 1] = rows[:, place:count]
        rows[:, place] = offsets[i], offsets[i] + need, life.first, life.last
    size = max([o + n for o, n in zip(offsets, needs, strict=True)], default=0)
    return MemoryPlan(tuple(offsets), size)


#: Bytes of a stack's header, where a device keeps it in a slot.
STACK_HEADER = 512


@dataclass(frozen=True)
class Slot:
    """An array of a program.

    Attributes:
      dtype, shape: of the array; it is stored contiguously, row-major.
      storage: "input", "output" or "arena".
      position: which input or output; for the arena the offset in bytes.
      value: the name of what it holds, for people.
      stacks: 0 for an array; else the slot holds so many stacks, one after the other,
        and `dtype` and `shape` are those of what is pushed.
    """

    dtype: np.dtype[Any]
    shape: Shape
    storage: str
    position: int
    value: str = ""
    stacks: int = 0

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes in memory: of a stack its header only; it grows elsewhere."""
        return self.stacks * STACK_HEADER or self.size * self.dtype.itemsize


@dataclass(frozen=True, eq=False)
class RunKernel:
    """Run a kernel on slots, in the order of the kernel's buffers."""

    kernel: ir.Kernel
    slots: tuple[int, ...]
    info: ir.KernelInfo

    @property
    def buffers(self) -> tuple[ir.BufferSpec, ...]:
        """What the kernel reads and writes."""
        return self.kernel.buffers

    @property
    def bounded(self) -> bool:
        """Is it known how long the kernel runs at the most?"""
        return self.kernel.bounded


@dataclass(frozen=True, eq=False)
class CallHost:
    """Compute something on the host: `operation.numpy(avals, arg, *operands)`.

    Attributes:
      node: the operation, its argument, the types of operands and results, and the
        user's line.
      operands, results: slots; one per operand and result.
    """

    node: Node
    operands: tuple[int, ...]
    results: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class RunExchange:
    """Do something together with other processes, or begin or finish it.

    Attributes:
      nodes: the operations; several of one kind are one message.
      operands, results: slots, of all operations one behind the other. Between the
        beginning and the end they belong to the exchange.
      phase: "start", "wait", or "whole" for both at once.
      meanwhile: do kernels run between the two?
    """

    nodes: tuple[Node, ...]
    operands: tuple[int, ...]
    results: tuple[int, ...]
    phase: str
    meanwhile: bool

    def split(self, operands: Sequence[T]) -> list[list[T]]:
        """The operands, or what belongs to them, operation by operation."""
        rest = iter(operands)
        return [[next(rest) for _ in node.src] for node in self.nodes]


@dataclass(frozen=True, eq=False)
class RunBranch:
    """Run one of several programs.

    Attributes:
      index: the slot of an int32: which one.
      branches: programs with one input per operand and one output per result.
      operands, results: slots.
      scratch: the slot, of bytes, in which the chosen branch has its arena.
    """

    index: int
    branches: tuple[Program, ...]
    operands: tuple[int, ...]
    results: tuple[int, ...]
    scratch: int


@dataclass(frozen=True)
class Carry:
    """Where a value that goes around a loop is kept.

    Attributes:
      initial: the slot of its first value, which is not written.
      result: the slot in which its last value must be at the end.
      spare: a slot of the same size: the iterations write `result` and `spare` in
        turn. -1 where one is enough: an iteration may write where it reads.
    """

    initial: int
    result: int
    spare: int


@dataclass(frozen=True, eq=False)
class RunLoop:
    """Run a program again and again.

    The inputs of the body are those of `consts`, `carry` and one element of each of
    `xs`; its outputs the next carry, one element of each of `ys`, and with
    `predicate` whether there is another iteration.

    Attributes:
      body: no output of it is an input handed through, none stands there twice.
      consts, xs, ys: slots. Where a slot of `xs` or `ys` holds one stack and `length`
        is None, elements are popped from its bottom (its top if `reverse`) or pushed;
        else element number t lies at t times the size of an element, and an array of
        stacks has one stack per iteration.
      carry: see `Carry`.
      length: how many iterations; None where stacks or the predicate tell.
      reverse: elements from the last to the first.
      predicate: the slot of a bool: is there a first iteration? -1 if the length tells.
      scratch: the slot, of bytes, in which the body has its arena: `lanes` arenas one
        after the other, each a multiple of the alignment.
      lanes: how many iterations may run at the same time, on several threads: where it
        is more than one there is no carry, and nothing of it runs on the host.
    """

    body: Program
    consts: tuple[int, ...]
    carry: tuple[Carry, ...]
    xs: tuple[int, ...]
    ys: tuple[int, ...]
    length: int | None
    reverse: bool
    predicate: int
    scratch: int
    lanes: int = 1


Step = RunKernel | CallHost | RunExchange | RunBranch | RunLoop


@dataclass(frozen=True)
class Program:
    """What one jitted function runs for one shape signature.

    Attributes:
      slots: all arrays.
      steps: in the order in which they run.
      inputs: for each argument its slot.
      outputs: for each result its slot: an output, or an input handed through.
      arena: bytes of temporary memory that the steps share.
      lifetimes: of the slots in the arena, in their order.

    A stack in the arena is empty when the program begins, and what it has grown is
    given back when the program ends, however it ends.
    """

    slots: tuple[Slot, ...]
    steps: tuple[Step, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    arena: int
    lifetimes: tuple[Lifetime, ...] = ()

    @property
    def is_dynamic(self) -> bool:
        """Are there sizes that only a call knows?"""
        if any(sym.any_dynamic(slot.shape) for slot in self.slots):
            return True
        return any(map(_is_dynamic, self.steps))

    def at(self, sizes: sym.Sizes) -> Program:
        """The program for these sizes of the dynamic dimensions; kernels stay."""
        steps = tuple([_step_at(step, sizes) for step in self.steps])
        needed = {step.scratch: _scratch_bytes(step) for step in steps
                  if isinstance(step, (RunBranch, RunLoop))}  # fmt: skip
        placed = self.in_arena
        plan = plan_memory(
            [
                replace(life, nbytes=needed.get(n, sym.evaluate(life.nbytes, sizes)))
                for n, life in zip(placed, self.lifetimes, strict=True)
            ]
        )
        offsets = dict(zip(placed, plan.offsets, strict=True))
        slots = tuple(
            replace(
                slot,
                shape=(needed[n],)
                if n in needed
                else sym.evaluate_shape(slot.shape, sizes),
                position=offsets.get(n, slot.position),
            )
            for n, slot in enumerate(self.slots)
        )
        return replace(self, slots=slots, steps=steps, arena=plan.size)

    @property
    def kernels(self) -> list[RunKernel]:
        """The kernels of its steps, those of branches and bodies included."""
        return [step for step in steps_of(self) if isinstance(step, RunKernel)]

    @property
    def in_arena(self) -> list[int]:
        """The slots that are parts of the arena."""
        return [n for n, slot in enumerate(self.slots) if slot.storage == "arena"]

    @property
    def overlaps(self) -> bool:
        """Is anything started and waited for later?"""
        exchanges = [s for s in steps_of(self) if isinstance(s, RunExchange)]
        return any(step.phase != "whole" for step in exchanges)

    @property
    def written_slots(self) -> set[int]:
        """The slots that its steps write."""
        return {slot for step in self.steps for slot in results_of(step)}

    def __str__(self) -> str:
        lines = [f"program: {len(self.steps)} steps, arena of {self.arena} bytes"]
        for step in self.steps:
            lines.append("  " + describe(step))
            for inner in programs_of(step):
                lines += ["  " + line for line in str(inner).splitlines()]
        return "\n".join(lines)


def programs_of(step: Step) -> tuple[Program, ...]:
    """The programs that a step runs: branches, or a body."""
    if isinstance(step, RunLoop):
        return (step.body,)
    return step.branches if isinstance(step, RunBranch) else ()


def results_of(step: Step) -> list[int]:
    """The slots that a step writes."""
    if isinstance(step, RunKernel):
        pairs = zip(step.slots, step.buffers, strict=True)
        return [slot for slot, spec in pairs if spec.written]
    if isinstance(step, RunLoop):
        return [*(c.result for c in step.carry), *step.ys]
    return [*step.results]


def steps_of(program: Program) -> list[Step]:
    """Its steps, each before those of the programs that it runs."""
    found: list[Step] = []
    for step in program.steps:
        found.append(step)
        for inner in programs_of(step):
            found += steps_of(inner)
    return found


def name_of(step: Step) -> str:
    """A step by the name of its kernel, or in words."""
    if isinstance(step, RunKernel):
        return step.info.name
    if isinstance(step, RunBranch):
        return f"one of {len(step.branches)} branches"
    if isinstance(step, RunLoop):
        return "while loop" if step.length is None else f"loop of {step.length}"
    return describe(step)


def lines_of(step: Step) -> tuple[Origin, ...]:
    """The user's lines that a step computes."""
    if isinstance(step, RunKernel):
        return tuple(step.info.origins)
    if isinstance(step, CallHost):
        nodes: Sequence[Node] = (step.node,)
    else:
        nodes = step.nodes if isinstance(step, RunExchange) else ()
    inner = [s for program in programs_of(step) for s in program.steps]
    lines = [line for each in inner for line in lines_of(each)]
    own = [node.origin for node in nodes if node.origin is not None]
    return tuple(dict.fromkeys([*lines, *own]))


def lines_of_results(step: Step) -> dict[int, Origin]:
    """The slots that a step writes, and the user's lines of what it writes there."""
    slots, lines = results_of(step), lines_of(step)
    own: Sequence[Origin | None] = ()
    if isinstance(step, RunKernel):
        own = step.info.stored
    elif isinstance(step, RunExchange):
        own = [node.origin for node in step.nodes]
    elif isinstance(step, RunLoop):
        made: dict[int, Origin] = {}
        for inner in step.body.steps:
            made |= lines_of_results(inner)
        own = [made.get(slot) for slot in step.body.outputs]
    found = dict.fromkeys(slots, lines[-1]) if lines else {}
    rows = zip(slots, own, strict=False)
    return found | {slot: line for slot, line in rows if line is not None}


def describe(step: Step) -> str:
    """One line about a step."""
    if isinstance(step, RunKernel):
        return f"{step.info.name} {' '.join(map(str, step.slots))}"
    if isinstance(step, CallHost):
        return f"host {step.node.op.name} {step.operands} -> {step.results}"
    if isinstance(step, RunExchange):
        what = step.nodes[0].arg if len(step.nodes) == 1 else (
            f"{len(step.nodes)} of {step.nodes[0].arg}"
        )  # fmt: skip
        return f"{step.phase} {what} {step.operands} -> {step.results}"
    if isinstance(step, RunBranch):
        return f"branch on {step.index}: {step.operands} -> {step.results}"
    carry = ", ".join(f"{c.initial} -> {c.result}" for c in step.carry)
    length = "while" if step.length is None else str(step.length)
    return (
        f"loop {length}: consts {step.consts}, carry {carry}, xs {step.xs}, "
        f"ys {step.ys}"
    )


def _is_dynamic(step: Step) -> bool:
    if isinstance(step, RunKernel):
        return step.kernel.is_dynamic
    if isinstance(step, RunLoop) and sym.is_dynamic(step.length):
        return True
    return any(inner.is_dynamic for inner in programs_of(step))


def _scratch_bytes(step: RunBranch | RunLoop) -> int:
    """What the arenas of a step's programs take."""
    if isinstance(step, RunBranch):
        return max(branch.arena for branch in step.branches)
    return -(-step.body.arena // ALIGNMENT) * ALIGNMENT * step.lanes


def _step_at(step: Step, sizes: sym.Sizes) -> Step:
    """A step for these sizes."""
    if isinstance(step, RunKernel):
        return replace(step, info=_info_at(step.info, sizes))
    if isinstance(step, RunLoop) and step.length is not None:
        length = sym.evaluate(step.length, sizes)
        step = replace(step, length=length, lanes=max(min(step.lanes, length), 1))
    if isinstance(step, CallHost):
        types = [
            s.aval.with_shape(sym.evaluate_shape(s.shape, sizes)) for s in step.node.src
        ]
        operands = [variable(aval, 0, i) for i, aval in enumerate(types)]
        arg = _argument_at(step.node.arg, sizes)
        with making_nodes_of(step.node.origin):
            node = step.node.op(*operands, arg=arg)
        return replace(step, node=node)
    if isinstance(step, RunExchange):
        return step
    if isinstance(step, RunBranch):
        return replace(step, branches=tuple([b.at(sizes) for b in step.branches]))
    return replace(step, body=step.body.at(sizes))


def _argument_at(arg: Any, sizes: sym.Sizes) -> Any:
    """An operation's argument, which may hold sizes at any depth."""
    if sym.is_dynamic(arg):
        return sym.evaluate(arg, sizes)
    if isinstance(arg, _TUPLE):
        parts = [_argument_at(part, sizes) for part in arg]
        return arg.__class__(*parts) if hasattr(arg, "_fields") else tuple(parts)
    if is_dataclass(arg) and not isinstance(arg, type):
        values = {f.name: getattr(arg, f.name) for f in fields(arg)}
        new = {k: _argument_at(v, sizes) for k, v in values.items()}
        return replace(arg, **new) if new != values else arg
    if isinstance(arg, ShapedArray):
        return arg.with_shape(sym.evaluate_shape(arg.shape, sizes))
    return arg


def _info_at(info: ir.KernelInfo, sizes: sym.Sizes) -> ir.KernelInfo:
    return replace(
        info,
        operations=sym.evaluate(info.operations, sizes),
        bytes=sym.evaluate(info.bytes, sizes),
    )
