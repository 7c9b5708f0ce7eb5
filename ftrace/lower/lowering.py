"""From a graph to its program: the stages of the pipeline, and those after them.

At the end kernels and other steps, in their order, get slots for all values.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from math import prod
from typing import Any

from ftrace import dtypes
from ftrace.errors import DeviceError
from ftrace.ground import settings
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.ground.limits import ANY_DEVICE, Limits
from ftrace.lower.analysis.cost import root_of
from ftrace.lower.assembly.buffer_reuse import Sharing, ordered_drafts, share_memory
from ftrace.lower.blocking.split_reductions import kernels_add_up
from ftrace.lower.build.build_kernel import BuiltKernel, BuiltStep, build_kernels
from ftrace.lower.control.canonical_loop import Loop, runs_on_host
from ftrace.lower.pipeline import simplified_body, simplify_graph, suit_device
from ftrace.lower.program import ir
from ftrace.lower.register_loops.register_loop import built_recurrence, register_loop_p
from ftrace.lower.schedule.drafts import Schedule
from ftrace.lower.schedule.schedule import schedule
from ftrace.trace.avals import ShapedArray, Stack
from ftrace.trace.calls.inline import inline_calls, loose_tokens
from ftrace.trace.graph import Body, Graph, Node, bodies_of, toposort
from ftrace.trace.primitives.elementwise import copy
from ftrace.trace.primitives.sources import is_variable
from ftrace.trace.python_limits import without_collection
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


@dataclass(frozen=True, eq=False)
class Lowered:
    """A program and how it came about.

    Attributes:
      graph: what was lowered.
      simplified: the graph after the rewrites.
      plan: what is stored.
      program: the result.
    """

    graph: Graph
    simplified: Graph
    plan: Schedule
    program: ir.Program


@without_collection
def lower(
    graph: Graph, limits: Limits = ANY_DEVICE, donated: Iterable[Node] = ()
) -> Lowered:
    """The program of a graph.

    Args:
      graph: closed; its inputs are the program's, captured arrays included.
      limits: of the device.
      donated: inputs whose memory the program may overwrite.
    """
    outputs = simplify_graph(inline_calls(graph.outputs))
    simplified = Graph(graph.inputs, tuple(outputs))
    final = Graph(graph.inputs, tuple(suit_device(simplified.outputs, limits)))
    plan, program = _program(final, limits, dict.fromkeys(donated))
    return Lowered(graph, simplified, plan, program)


def lower_body(body: Body, limits: Limits, carry: range = range(0)) -> ir.Program:
    """The program of a body: each output has memory of its own, also what it got.

    An input of `carry`, whose next value is the output of its number there, may be
    overwritten by that, and is, where that is safe.
    """
    outputs: list[Node] = []
    taken: set[Node] = set()
    for node in suit_device(simplified_body(body), limits):
        root = root_of(node)
        while is_variable(root) or root in taken:  # the third copy is one of a copy
            node = root = copy(node)
        taken.add(root)
        outputs.append(node)
    graph = Graph(body.inputs, tuple(outputs))
    given: dict[Node, Node | None] = {
        body.inputs[i]: root_of(outputs[k]) for k, i in enumerate(carry)
    }
    return _program(graph, limits, given)[1]


def _program(
    graph: Graph, limits: Limits, given: dict[Node, Node | None]
) -> tuple[Schedule, ir.Program]:
    """What is stored, and the program that does it.

    Args:
      graph: after all stages.
      limits: of the device.
      given: inputs that may be overwritten; see `share_memory`.
    """
    roots = [root_of(n) for n in graph.outputs if root_of(n).size]
    outputs = roots + loose_tokens(graph.outputs)
    forced: set[Node] = set()
    while True:
        plan = schedule(outputs, forced, kernels_add_up(limits))
        built: dict[int, BuiltKernel | BuiltStep] = dict(build_kernels(plan))
        built |= {
            d.number: build_step(d.step, limits)
            for d in plan.drafts
            if d.step is not None
        }
        too_many = [
            b
            for b in built.values()
            if isinstance(b, BuiltKernel)
            and 0 < limits.max_buffers < len(b.kernel.buffers)
        ]
        if not too_many:
            break
        forced |= {_splitting_node(b, plan, forced) for b in too_many}
    sharing = Sharing()
    if "share_memory" not in settings.current().disabled_rules:
        sharing = share_memory(plan.drafts, built, outputs, given)
    order = [d.number for d in ordered_drafts(plan, sharing, built)]
    steps = [
        sharing.kernels.get(n, built[n]) for n in order if n not in sharing.dropped
    ]
    return plan, assemble(graph, steps, sharing)


def build_step(node: Node, limits: Limits) -> BuiltStep | BuiltKernel:
    """An operation that is a step by itself, with the programs that it runs."""
    if node.op is register_loop_p:
        return built_recurrence(node, root_of)
    arg, carry = node.arg, range(0)
    if isinstance(arg, Loop):
        carry = range(arg.consts, arg.consts + arg.carry)
    return BuiltStep(
        node, tuple(lower_body(body, limits, carry) for body in bodies_of(node.arg))
    )


def _splitting_node(built: BuiltKernel, plan: Schedule, forced: set[Node]) -> Node:
    """A value inside a kernel that has too many buffers, which reads about half."""
    reads: dict[Node, frozenset[Node]] = {}
    loads = set(built.loads.values())
    best: tuple[int, Node] | None = None
    half = len(loads) / 2
    for node in toposort(built.stores.values()):
        if node in loads:
            reads[node] = frozenset((node,))
            continue
        reads[node] = frozenset[Node]().union(*[reads[s] for s in node.src])
        inner = node not in plan.stored and node not in forced
        if inner and node.op.family not in ("movement", "source"):
            distance = round(abs(len(reads[node]) - half) * 2)
            if len(reads[node]) > 1 and (best is None or distance < best[0]):
                best = (distance, node)
    if best is None:
        raise DeviceError(
            f"a kernel needs {len(built.kernel.buffers)} buffers, more than the device "
            f"can give it, and cannot be split"
        )
    return best[1]
