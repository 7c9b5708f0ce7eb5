"""From a graph to its program: what takes graphs through the stages of `pipeline.py`.

    for stage in SIMPLIFYING, SUITING: outputs = run_stage(stage, outputs, limits)
    for stage in PROGRAM: work = _STEPS[stage.name](work)

Those of graphs are also for the bodies of loops and branches. At the end kernels and
other steps, in their order, get slots for all values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import count
from typing import Any

from ftrace.errors import DeviceError, GraphError
from ftrace.ground import settings
from ftrace.ground.fast_dataclasses import NamedTuple, dataclass
from ftrace.ground.limits import ANY_DEVICE, Limits
from ftrace.ground.progress import progress
from ftrace.ground.spans import span
from ftrace.ground.tables import memo
from ftrace.lower.analysis import root_of
from ftrace.lower.assembly import assemble
from ftrace.lower.blocking.split_reductions import kernels_add_up
from ftrace.lower.build import build_kernel as build
from ftrace.lower.build.build_kernel import BuiltKernel, BuiltProgram, BuiltStep
from ftrace.lower.control.canonical_loop import Loop
from ftrace.lower.pipeline import PIPELINE, PROGRAM, SIMPLIFYING, SUITING, Stage
from ftrace.lower.program import Program
from ftrace.lower.register_loops.register_loop import build_recurrence, register_loop_p
from ftrace.lower.schedule import schedule as scheduling
from ftrace.lower.schedule.drafts import FusionPlan
from ftrace.lower.spec import GRAPH_SPEC, check_after
from ftrace.trace import graph as g
from ftrace.trace.calls.inline import loose_tokens
from ftrace.trace.graph import Body, Graph, Node
from ftrace.trace.graph_map import Rule, convert
from ftrace.trace.primitives.elementwise import copy
from ftrace.trace.primitives.indexing import scatter_p
from ftrace.trace.primitives.sources import is_variable
from ftrace.trace.python_limits import without_collection
from ftrace.trace.rewrite import Fired, PatternMatcher, rewrite
from ftrace.trace.symbolic import same_size


def run_stage(
    stage: Stage, outputs: Sequence[Node], limits: Limits, fired: Fired | None = None
) -> Sequence[Node]:
    """The outputs after a stage of graphs; `fired` is told of each rule that fires."""
    make = stage.make
    if not stage.needs(limits) or (stage.of and not g.has_any(outputs, stage.of)):
        return outputs
    if stage.decisions and not any(map(settings.decides, stage.decisions)):
        return outputs
    if callable(make):
        return make(outputs, limits)
    if isinstance(make, PatternMatcher):
        return rewrite(outputs, make, fired)
    assert make is not None
    if stage.bodies:
        make = {op: partial(rule, simplified_body) for op, rule in make.items()}
    if fired is not None:
        make = {op: _telling(op.name, rule, fired) for op, rule in make.items()}
    return convert(outputs, make)


def _telling(name: str, rule: Rule, fired: Fired) -> Rule:
    """The same rule, which tells what it makes of nodes, by the operation's name."""

    def telling(node: Node, read: Collection[int]) -> Node | Sequence[Node] | None:
        found = rule(node, read)
        if found is not None and found is not node:
            fired(name, node, found if isinstance(found, Node) else found[0])
        return found

    return telling


@without_collection
def run_stages(
    outputs: Sequence[Node],
    limits: Limits,
    stages: Iterable[Stage],
    fired: Fired | None = None,
) -> Sequence[Node]:
    """The outputs after some stages; `fired` is told of each rule that fires."""
    check = settings.current().check_specs
    if check:
        GRAPH_SPEC.check(outputs)
    for stage in stages:
        before = outputs
        with span("pass", stage.name):
            outputs = run_stage(stage, outputs, limits, fired)
        if check and outputs is not before:
            check_after(stage.name, outputs)
            for old, new in zip(before, outputs, strict=True):
                if not same_size(old.shape, new.shape) or old.dtype != new.dtype:
                    raise GraphError(f"{stage.name} turned {old!r} into {new!r}")
    return outputs


def simplified_body(body: Body) -> Sequence[Node]:
    """What a body returns, after the stages that need nothing of a device."""
    chosen = settings.current()
    known = g.lines_in(body.outputs), chosen.disabled_rules, chosen.check_specs
    return _simplify(body, *known)


@memo(32)  # a loop that is too large for registers asks again
def _simplify(
    body: Body, lines: Collection[Any], disabled: frozenset[str], check: bool
) -> Sequence[Node]:
    return run_stages(body.outputs, ANY_DEVICE, SIMPLIFYING[1:])


class Firing(NamedTuple):
    """A rule that has fired.

    Attributes:
      rule: its name; of a table the name of the operation.
      node: what it replaced.
      made: what stands in its place, the first of several.
    """

    rule: str
    node: Node
    made: Node


class Pass(NamedTuple):
    """A stage that changed a graph.

    Attributes:
      stage: which.
      graph: as it left it.
      fired: the rules that fired, in their order; not those in bodies of loops.
      rebuilt: nodes of which operands were replaced, each by what it is of others.
    """

    stage: Stage
    graph: Graph
    fired: list[Firing]
    rebuilt: dict[Node, Node]


def passes_of(graph: Graph, limits: Limits) -> list[Pass]:
    """What a graph is after each stage that changed it, and how it came about."""
    outputs, found = graph.outputs, list[Pass]()
    for stage in (*SIMPLIFYING, *SUITING):
        firings, before = list[Firing](), outputs

        def note(*parts: Any, firings: list[Firing] = firings) -> None:
            firings.append(Firing(*parts))

        outputs = tuple(run_stages(outputs, limits, (stage,), note))
        if outputs != before:
            fired = [firing for firing in firings if firing.rule]
            rebuilt = {node: made for rule, node, made in firings if not rule}
            found.append(Pass(stage, Graph(graph.inputs, outputs), fired, rebuilt))
    return found


def simplify_graph(outputs: Sequence[Node]) -> Sequence[Node]:
    """The outputs after all stages that need nothing of a device."""
    return run_stages(outputs, ANY_DEVICE, SIMPLIFYING)


# From a graph to its program.


@dataclass(frozen=True, eq=False)
class LoweringState:
    """What has become of a graph by now.

    Attributes:
      graph: after all stages that make graphs.
      limits: of the device.
      given: inputs that may be overwritten; see `assemble.reuse_buffers`.
      plan: what is stored, and by which kernel.
      built: the kernels and other steps, by their numbers in the plan.
      sharing: which values have the memory of others.
      program: the result.
    """

    graph: Graph
    limits: Limits
    given: dict[Node, Node | None]
    plan: FusionPlan = field(default_factory=lambda: FusionPlan([]))
    built: dict[int, BuiltKernel | BuiltStep] = field(
        default_factory=dict[int, BuiltKernel | BuiltStep]
    )
    sharing: assemble.Sharing = field(default_factory=assemble.Sharing)
    program: Program | None = None


def _schedule(work: LoweringState, forced: Iterable[Node] = ()) -> LoweringState:
    outputs = work.graph.outputs
    results = [root_of(n) for n in outputs if root_of(n).size] + loose_tokens(outputs)
    adds_up = kernels_add_up(work.limits)
    return replace(work, plan=scheduling.schedule(results, forced, adds_up))


def _build(work: LoweringState) -> LoweringState:
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
                draft.number: build_step(draft.step, work.limits)
                for draft in plan.drafts
                if draft.step is not None
            }
            return replace(work, built=built)
        forced |= {_splitting_node(kernel, plan, forced) for kernel in too_many}
        work = _schedule(work, forced)


def _reuse_buffers(work: LoweringState) -> LoweringState:
    """What has the memory of what; with that the programs of branches are made."""
    plan, built, sharing = work.plan, dict(work.built), work.sharing
    if settings.decides("reuse_buffers"):
        sharing = assemble.reuse_buffers(plan.drafts, built, plan.outputs, work.given)
    for number, step in built.items():
        if isinstance(step, BuiltStep) and not step.bodies:
            built[number] = _build_branches(step, sharing.owner, work.limits)
    return replace(work, sharing=sharing, built=built)


def _assemble(work: LoweringState) -> LoweringState:
    sharing, built = work.sharing, work.built
    steps = assemble.ordered_steps(work.plan, sharing, built)
    return replace(work, program=assemble.assemble(work.graph, steps, sharing))


#: What the stages of `PROGRAM` do: each adds to what is known, and looks by itself
#: which decisions are off.
_STEPS: dict[str, Callable[[LoweringState], LoweringState]] = {
    "schedule": _schedule, "kernels": _build,
    "memory": _reuse_buffers, "code": _assemble,
}  # fmt: skip


def _make_program(
    work: LoweringState, stages: Iterable[Stage] = PROGRAM
) -> BuiltProgram:
    for stage in stages:
        with span("pass", stage.name):
            work = _STEPS[stage.name](work)
    assert work.program is not None
    return BuiltProgram(work.graph, work.plan, work.built, work.program)


@dataclass(frozen=True, eq=False)
class Lowering:
    """A program and how it came about.

    Attributes:
      graph: what was lowered.
      simplified: the graph after the rewrites.
      built: the program, with what each kernel computes.
    """

    graph: Graph
    simplified: Graph
    built: BuiltProgram

    @property
    def plan(self) -> FusionPlan:
        """What is stored."""
        return self.built.plan

    @property
    def program(self) -> Program:
        """The result."""
        return self.built.program


@without_collection
def lower(
    graph: Graph, limits: Limits = ANY_DEVICE, donated: Iterable[Node] = ()
) -> Lowering:
    """The program of a graph.

    Args:
      graph: closed; its inputs are the program's, captured arrays included.
      limits: of the device.
      donated: inputs whose memory the program may overwrite.
    """
    stages, numbers = len(PIPELINE), count(1)
    with progress("lowering") as step:

        def report_steps(some: Iterable[Any]) -> Any:
            for stage in some:
                yield stage
                step(next(numbers), stages)

        outputs = run_stages(graph.outputs, ANY_DEVICE, report_steps(SIMPLIFYING))
        simplified = Graph(graph.inputs, tuple(outputs))
        outputs = run_stages(outputs, limits, report_steps(SUITING))
        final = Graph(graph.inputs, tuple(outputs))
        work = LoweringState(final, limits, dict.fromkeys(donated))
        return Lowering(graph, simplified, _make_program(work, report_steps(PROGRAM)))


def lower_body(
    body: Body, limits: Limits, places: Mapping[int, int], stays: bool = False
) -> BuiltProgram:
    """The program of a body: each output has memory of its own, also what it got.

    Args:
      places: numbers of inputs that may be overwritten, and are, where that is safe, by
        the output of that number.
      stays: such an output may also be the input as it is.
    """
    outputs: list[Node] = []
    taken: set[Node] = set()
    home = {k: body.inputs[i] for i, k in places.items()} if stays else {}
    for k, node in enumerate(run_stages(simplified_body(body), limits, SUITING)):
        root = root_of(node)
        # The third copy is one of a copy.
        while root is not home.get(k) and (is_variable(root) or root in taken):
            node = root = copy(node)
        taken.add(root)
        outputs.append(node)
    graph = Graph(body.inputs, tuple(outputs))
    given: dict[Node, Node | None] = {
        body.inputs[i]: root_of(outputs[k]) for i, k in places.items()
    }
    return _make_program(LoweringState(graph, limits, given))


def build_step(node: Node, limits: Limits) -> BuiltStep | BuiltKernel:
    """An operation that is a step by itself, with the programs that it runs.

    Those of branches are made when it is known which results have the memory of
    operands: it may be those that a branch leaves as they are, or updates.
    """
    if node.op is register_loop_p:
        return build_recurrence(node, root_of)
    arg = node.arg
    if isinstance(arg, Loop):
        carried = {arg.consts + k: k for k in range(arg.carry)}
        return BuiltStep(node, (lower_body(arg.body, limits, carried),))
    places: dict[int, int] = {}
    for body in g.bodies_of(arg):
        for k, output in enumerate(simplified_body(body)):
            root = root_of(output)
            while root.op is scatter_p:
                root = root_of(root.src[0])
            if output.ndim and root in body.inputs and k not in places.values():
                places.setdefault(body.inputs.index(root), k)
    return BuiltStep(node, (), places)


def _build_branches(
    step: BuiltStep, owner: dict[Node, Node], limits: Limits
) -> BuiltStep:
    """With programs; a result loses the memory that one of them cannot put it in."""
    operands, results = step.reads[1:], step.writes
    places = {
        i: k for i, k in step.aliases.items() if owner.get(results[k]) is operands[i]
    }
    bodies = g.bodies_of(step.node.arg)
    while True:
        built = tuple([lower_body(body, limits, places, True) for body in bodies])
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
