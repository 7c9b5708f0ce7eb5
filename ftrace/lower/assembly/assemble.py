"""Slots for all values of a program, and its steps.

Values that are needed for a time share an arena; inputs and outputs are the caller's.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import prod
from typing import Any

from ftrace import dtypes
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower import program as ir
from ftrace.lower.analysis import root_of
from ftrace.lower.assembly.buffer_reuse import Sharing
from ftrace.lower.build.build_kernel import BuiltKernel, BuiltStep
from ftrace.lower.control.canonical_loop import Loop, runs_on_host
from ftrace.trace.avals import ShapedArray, Stack
from ftrace.trace.graph import Graph, Node
from ftrace.trace.primitives.sources import is_variable
from ftrace.trace.symbolic.dim import any_dynamic, is_dynamic


@dataclass(eq=False)
class _Temporary:
    """Memory that a program needs for a time: of a value, or for a step.

    Attributes:
      aval: what it holds.
      first, last: the steps between which it is in use.
    """

    aval: ShapedArray
    value: str
    first: int
    last: int


def assemble(
    graph: Graph, built: Sequence[BuiltKernel | BuiltStep], sharing: Sharing
) -> ir.Program:
    """Slots for all values, and the steps that fill them."""
    owner = sharing.root
    work = [b for b in built if isinstance(b, BuiltKernel) or not _is_barrier(b)]
    # All that has a slot, by node, or by a name of its own for a step's scratch.
    temporaries: dict[Hashable, _Temporary] = {}
    behind: set[Node] = set()  # values that a barrier gives on
    for number, step in enumerate(work):
        used = [(owner(n), n.aval, n.op.name) for n in step.buffers]
        if isinstance(step, BuiltStep):
            scratch = _scratch(step)
            used = [*(((number, k), a, "scratch") for k, a in scratch), *used]
        for key, aval, name in used:
            known = temporaries.setdefault(key, _Temporary(aval, name, number, number))
            known.last = number
        behind.update(n for n in step.buffers if root_of(n) is not n)
    slots: list[ir.Slot] = []
    number_of: dict[Hashable, int] = {}

    def add_slot(
        key: Hashable, aval: ShapedArray, name: str, place: str, at: int
    ) -> None:
        number_of[key] = len(slots)
        stacks = prod(aval.lanes) if isinstance(aval, Stack) else 0
        element = aval.element if isinstance(aval, Stack) else aval
        slots.append(ir.Slot(element.dtype, element.shape, place, at, name, stacks))

    for i, node in enumerate(graph.inputs):
        add_slot(node, node.aval, node.op.name, "input", i)
    roots = [owner(root_of(n)) for n in graph.outputs]
    for i, node in enumerate(roots):
        if node not in number_of:
            add_slot(node, node.aval, node.op.name, "output", i)
    rest = {k: t for k, t in temporaries.items() if k not in number_of}
    lifetimes = tuple(_lifetime(t, len(work)) for t in rest.values())
    if any_dynamic(life.nbytes for life in lifetimes):
        plan = ir.MemoryPlan((0,) * len(rest), 0)  # `Program.at` makes one
    else:
        plan = ir.plan_memory(lifetimes)
    for (key, temporary), offset in zip(rest.items(), plan.offsets, strict=True):
        assert not (isinstance(key, Node) and is_variable(key))
        add_slot(key, temporary.aval, temporary.value, "arena", offset)
    for node in sharing.owner:
        if owner(node) in number_of:
            number_of[node] = number_of[owner(node)]
    for node in behind:
        number_of[node] = number_of[owner(node)]
    steps = tuple(
        _step(b, i, number_of) for i, b in enumerate(work) if _writes_something(b)
    )
    inputs = tuple(number_of[n] for n in graph.inputs)
    outputs = tuple(number_of[n] for n in roots)
    return ir.Program(tuple(slots), steps, inputs, outputs, plan.size, lifetimes)


def _is_barrier(step: BuiltStep) -> bool:
    """Its results are its operands: there is nothing to run."""
    return step.node.op.family == "barrier"


def _lifetime(temporary: _Temporary, steps: int) -> ir.Lifetime:
    aval = temporary.aval
    if isinstance(aval, Stack):  # its header is looked at when the program ends
        return ir.Lifetime(ir.STACK_HEADER * prod(aval.lanes), 0, steps)
    nbytes = aval.size * aval.dtype.itemsize
    return ir.Lifetime(nbytes, temporary.first, temporary.last)


def _scratch(step: BuiltStep) -> list[tuple[Any, ShapedArray]]:
    """What a step needs beside its operands and results: (key, type)."""
    if not step.programs:
        return []
    arena = max(program.arena for program in step.programs)
    arg = step.node.arg
    if not isinstance(arg, Loop):
        return [("arena", _bytes(arena))]
    rounded = -(-arena // ir.ALIGNMENT) * ir.ALIGNMENT
    return [
        ("arena", _bytes(rounded * _lanes(arg))),
        *(
            (("spare", k), n.aval)
            for k, n in enumerate(arg.body.outputs[: arg.carry])
            if not step.updates_in_place(k)
        ),
    ]


def _bytes(count: int) -> ShapedArray:
    return ShapedArray.of((count,), dtypes.uint8)


def _lanes(arg: Loop) -> int:
    """How many iterations may run at the same time."""
    if arg.carry or arg.length is None or arg.predicate or runs_on_host(arg.body):
        return 1
    if is_dynamic(arg.length):
        return arg.lanes  # at most: `Program.at` knows the length
    return max(1, min(arg.length, arg.lanes))


def _writes_something(built: BuiltKernel | BuiltStep) -> bool:
    """Is there an element to compute? An operand of the host may have none."""
    if not isinstance(built, BuiltKernel) or not built.stores:
        return True
    return any(node.size for node in built.stores.values())


def _step(
    built: BuiltKernel | BuiltStep, number: int, number_of: dict[Hashable, int]
) -> ir.Step:
    if isinstance(built, BuiltKernel):
        slots = tuple(number_of[n] for n in built.buffers)
        return ir.RunKernel(built.kernel, slots, built.info)
    node = built.node
    operands = tuple(number_of[n] for n in built.reads)
    results = tuple(number_of[n] for n in built.writes)
    if not built.programs:
        return ir.CallHost(node, operands, results)
    scratch = number_of[number, "arena"]
    if not isinstance(node.arg, Loop):
        return ir.RunBranch(operands[0], built.programs, operands[1:], results, scratch)
    arg = node.arg
    given = operands[arg.predicate :]
    first = arg.consts + arg.carry
    carry = tuple(
        ir.Carry(initial, results[k], number_of.get((number, ("spare", k)), -1))
        for k, initial in enumerate(given[arg.consts : first])
    )
    return ir.RunLoop(
        built.programs[0],
        given[: arg.consts],
        carry,
        given[first:],
        results[arg.carry :],
        arg.length,
        arg.reverse,
        operands[0] if arg.predicate else -1,
        scratch,
        _lanes(arg),
    )
