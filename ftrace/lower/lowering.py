"""From a graph to its program: the stages of the pipeline, and those after them."""

from __future__ import annotations

from collections.abc import Iterable

from ftrace import settings
from ftrace.errors import DeviceError
from ftrace.limits import ANY_DEVICE, Limits
from ftrace.lower.assemble import assemble
from ftrace.lower.build import BuiltKernel
from ftrace.lower.control import Loop, bodies_of
from ftrace.lower.drafts import Schedule
from ftrace.lower.inplace import Sharing, share_memory
from ftrace.lower.isomorphic import build_kernels
from ftrace.lower.order import ordered_drafts
from ftrace.lower.pipeline import simplified_body, simplify_graph, suit_device
from ftrace.lower.program import Program
from ftrace.lower.recurrence import built_recurrence, register_loop_p
from ftrace.lower.schedule import schedule
from ftrace.lower.split_reductions import kernels_add_up
from ftrace.lower.step import BuiltStep
from ftrace.lower.values import root_of
from ftrace.records import dataclass
from ftrace.trace.calls.inline import inline_calls, loose_tokens
from ftrace.trace.collection import without_collection
from ftrace.trace.graph import Body, Graph, Node, toposort
from ftrace.trace.primitives.elementwise import copy
from ftrace.trace.primitives.source import is_variable


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
    program: Program


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


def lower_body(body: Body, limits: Limits, carry: range = range(0)) -> Program:
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
) -> tuple[Schedule, Program]:
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
        node, tuple(lower_body(body, limits, carry) for body in bodies_of(node))
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
