"""From a graph to its program: what the stages of `PROGRAM` in `pipeline.py` do.

Each adds to what is known, a `LoweringState`, and looks by itself which decisions are
off. At the end kernels and other steps, in their order, have slots for all values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace

from ftrace.errors import DeviceError
from ftrace.ground import settings
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.ground.limits import Limits
from ftrace.lower.analysis import root_of
from ftrace.lower.assembly import assemble
from ftrace.lower.blocking.split_reductions import kernels_add_up
from ftrace.lower.build import build_kernel as build
from ftrace.lower.build.build_kernel import BuiltKernel, BuiltProgram, BuiltStep
from ftrace.lower.control.canonical_loop import Loop
from ftrace.lower.fusion.drafts import FusionPlan
from ftrace.lower.fusion.plan_fusion import plan_fusion
from ftrace.lower.program import Program
from ftrace.lower.register_loops.register_loop import build_recurrence, register_loop_p
from ftrace.trace import graph as g
from ftrace.trace.calls.inline import loose_tokens
from ftrace.trace.graph import Body, Graph, Node
from ftrace.trace.primitives.indexing import scatter_p


@dataclass(frozen=True, eq=False)
class LoweringState:
    """What has become of a graph by now.

    Attributes:
      graph: after all stages that make graphs.
      limits: of the device.
      given: inputs that may be overwritten; see `assemble.reuse_buffers`.
      simplify_body: what the body of a loop or a branch returns, simplified.
      lower_body: its program; `lowering.lower_body`.
      plan: what is stored, and by which kernel.
      built: the kernels and other steps, by their numbers in the plan.
      sharing: which values have the memory of others.
      program: the result.
    """

    graph: Graph
    limits: Limits
    given: dict[Node, Node | None]
    simplify_body: Callable[[Body], Sequence[Node]]
    lower_body: Callable[..., BuiltProgram]
    plan: FusionPlan = field(default_factory=lambda: FusionPlan([]))
    built: dict[int, BuiltKernel | BuiltStep] = field(
        default_factory=dict[int, BuiltKernel | BuiltStep]
    )
    sharing: assemble.Sharing = field(default_factory=assemble.Sharing)
    program: Program | None = None


def choose_stores(work: LoweringState, forced: Iterable[Node] = ()) -> LoweringState:
    """What is stored, and by which kernel."""
    outputs = work.graph.outputs
    results = [root_of(n) for n in outputs if root_of(n).size] + loose_tokens(outputs)
    adds_up = kernels_add_up(work.limits)
    return replace(work, plan=plan_fusion(results, forced, adds_up))


def build_kernels(work: LoweringState) -> LoweringState:
    """The kernels; they are planned again where they have too many buffers."""
    forced: set[Node] = set()
    most = work.limits.max_buffers
    while True:
        plan = work.plan
        built: dict[int, BuiltKernel | BuiltStep] = dict(build.build_kernels(plan))
        too_many = [
            kernel
            for kernel in built.values()
            if isinstance(kernel, BuiltKernel) and 0 < most < len(kernel.buffers)
        ]
        if not too_many:
            built |= {
                draft.number: _build_step(draft.step, work)
                for draft in plan.drafts
                if draft.step is not None
            }
            return replace(work, built=built)
        forced |= {_splitting_node(kernel, plan, forced) for kernel in too_many}
        work = choose_stores(work, forced)


def share_memory(work: LoweringState) -> LoweringState:
    """What has the memory of what; with that the programs of branches are made."""
    plan, built, sharing = work.plan, dict(work.built), work.sharing
    if settings.decides("reuse_buffers"):
        sharing = assemble.reuse_buffers(plan.drafts, built, plan.outputs, work.given)
    for number, step in built.items():
        if isinstance(step, BuiltStep) and not step.bodies:
            built[number] = _build_branches(step, sharing.owner, work)
    return replace(work, sharing=sharing, built=built)


def assemble_steps(work: LoweringState) -> LoweringState:
    """The steps in order, with slots for all values."""
    sharing, built = work.sharing, work.built
    steps = assemble.ordered_steps(work.plan, sharing, built)
    return replace(work, program=assemble.assemble(work.graph, steps, sharing))


def _build_step(node: Node, work: LoweringState) -> BuiltStep | BuiltKernel:
    """An operation that is a step by itself, with the programs that it runs.

    Those of branches are made when it is known which results have the memory of
    operands: it may be those that a branch leaves as they are, or updates.
    """
    if node.op is register_loop_p:
        return build_recurrence(node, root_of)
    arg = node.arg
    if isinstance(arg, Loop):
        carried = {arg.consts + k: k for k in range(arg.carry)}
        return BuiltStep(node, (work.lower_body(arg.body, work.limits, carried),))
    places: dict[int, int] = {}
    for body in g.bodies_of(arg):
        for k, output in enumerate(work.simplify_body(body)):
            root = root_of(output)
            while root.op is scatter_p:
                root = root_of(root.src[0])
            if output.ndim and root in body.inputs and k not in places.values():
                places.setdefault(body.inputs.index(root), k)
    return BuiltStep(node, (), places)


def _build_branches(
    step: BuiltStep, owner: dict[Node, Node], work: LoweringState
) -> BuiltStep:
    """With programs; a result loses the memory that one of them cannot put it in."""
    operands, results = step.reads[1:], step.writes
    places = {
        i: k for i, k in step.aliases.items() if owner.get(results[k]) is operands[i]
    }
    bodies = g.bodies_of(step.node.arg)
    while True:
        built = tuple(
            [work.lower_body(body, work.limits, places, True) for body in bodies]
        )
        lost = [
            i
            for i, k in places.items()
            if any(b.program.outputs[k] != b.program.inputs[i] for b in built)
        ]
        if not lost:
            return BuiltStep(step.node, built)
        for i in lost:
            del owner[results[places.pop(i)]]


def _splitting_node(built: BuiltKernel, plan: FusionPlan, forced: set[Node]) -> Node:
    """A value inside a kernel that has too many buffers, which reads about half."""
    reads: dict[Node, frozenset[Node]] = {}
    loads = set(built.loads.values())
    best: tuple[int, Node] | None = None
    half = len(loads) / 2
    for node in g.toposort(built.stores.values()):
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
