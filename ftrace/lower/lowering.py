"""From a graph to its program: all stages of lowering, in two lists.

    for stage in PIPELINE: outputs = stage(outputs, limits)     a graph of a graph
    for stage in PROGRAM: work = stage.make(work)               the program of the graph

Those of graphs are also for the bodies of loops and branches. At the end kernels and
other steps, in their order, get slots for all values.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import count
from math import prod
from typing import Any, Final

from ftrace.errors import ArgumentError, DeviceError, GraphError
from ftrace.ground import settings
from ftrace.ground.fast_dataclasses import NamedTuple, dataclass
from ftrace.ground.limits import ANY_DEVICE, Limits
from ftrace.ground.progress import progress
from ftrace.ground.spans import span
from ftrace.ground.tables import memo
from ftrace.lower.analysis import root_of
from ftrace.lower.assembly import assemble, overlap
from ftrace.lower.blocking import privatize_scatters, split_reductions, tile_regions
from ftrace.lower.build import index_view, relax_mul_zero
from ftrace.lower.build.build_kernel import (
    BuiltKernel,
    BuiltProgram,
    BuiltStep,
    build_kernels,
)
from ftrace.lower.control import canonical_loop, simplify_loops
from ftrace.lower.kernel import codegen_options
from ftrace.lower.library import fft_kernels, lapack_kernels, scan_kernels, sort_kernels
from ftrace.lower.movement.reorder import CHAINS, EXCHANGES, PUSHES
from ftrace.lower.movement.sliding_window_sums import CHOICES, WINDOWS
from ftrace.lower.program import Program
from ftrace.lower.register_loops import promote_loops
from ftrace.lower.register_loops.register_loop import build_recurrence, register_loop_p
from ftrace.lower.schedule import schedule as scheduling
from ftrace.lower.schedule.drafts import FusionPlan
from ftrace.lower.simplify.algebra import (
    ALGEBRA,
    CONSTANTS,
    LOGIC,
    REDUCES,
    multiply_complex,
)
from ftrace.lower.simplify.indexing import ONE_HOT, SCATTERS
from ftrace.lower.spec import GRAPH_SPEC, check_after
from ftrace.trace import linalg_compositions as compositions
from ftrace.trace.calls.inline import inline_calls, loose_tokens
from ftrace.trace.graph import (
    Body,
    Graph,
    Node,
    bodies_of,
    has_any,
    lines_in,
    toposort,
)
from ftrace.trace.graph_map import Rule, convert
from ftrace.trace.primitives.broadcast import reduce_sum_p
from ftrace.trace.primitives.elementwise import copy
from ftrace.trace.primitives.exchange import exchange_p, lower_exchange
from ftrace.trace.primitives.indexing import scatter_p
from ftrace.trace.primitives.library.fft import fft_p
from ftrace.trace.primitives.library.scan import extremum_tangent_p
from ftrace.trace.primitives.movement import permute_p
from ftrace.trace.primitives.primitive import items
from ftrace.trace.primitives.reduction import reduce_prod_p
from ftrace.trace.primitives.sources import is_variable
from ftrace.trace.python_limits import without_collection
from ftrace.trace.rewrite import RULE_NAMES, Fired, PatternMatcher, rewrite
from ftrace.trace.symbolic import any_dynamic, same_size


@dataclass(frozen=True, eq=False)
class Stage:
    """One stage of lowering that makes a graph of a graph.

    Attributes:
      name: for people, and in `SPECS` (`spec.py`), which says of some what they leave.
      make: rules; or a table, of operations and what makes others of them (`convert`);
        or a function of the outputs and the limits.
      decisions: what `config.disabled_rules` can switch off in it, and what that does.
        It is left out where all are off.
      needs: what a device has that needs it; of others it is left out.
      of: operations without which there is nothing to do; () is any graph.
      about: what it does, in a sentence.
    """

    name: str
    make: PatternMatcher | dict[Any, Rule] | Callable[..., Sequence[Node]]
    decisions: Mapping[str, str] = field(default_factory=dict[str, str])
    needs: Callable[[Limits], object] = lambda limits: True
    of: Collection[Any] = ()
    about: str = ""

    def __call__(
        self, outputs: Sequence[Node], limits: Limits, fired: Fired | None = None
    ) -> Sequence[Node]:
        make = self.make
        if not self.needs(limits):
            return outputs
        if self.of and not has_any(outputs, self.of):
            return outputs
        if self.decisions and not any(map(settings.decides, self.decisions)):
            return outputs
        if callable(make):
            return make(outputs, limits)
        if isinstance(make, PatternMatcher):
            return rewrite(outputs, make, fired)
        if fired is not None:
            make = {op: _telling(op.name, rule, fired) for op, rule in make.items()}
        return convert(outputs, make)


def _telling(name: str, rule: Rule, fired: Fired) -> Rule:
    """The same rule, which tells what it makes of nodes, by the operation's name."""

    def telling(node: Node, read: Collection[int]) -> Node | Sequence[Node] | None:
        found = rule(node, read)
        if found is not None and found is not node:
            made = [found] if isinstance(found, Node) else found
            fired(name, node, made[0])
        return found

    return telling


#: Rules that make the graph simpler.
SIMPLIFY: Final = PatternMatcher(
    (*CONSTANTS, *ALGEBRA, *LOGIC, *ONE_HOT, *SCATTERS, *REDUCES)
)
#: Movements merge, vanish, and move to where they cost least. The normal form,
#: from the loads to the outputs:
#:
#:     loads  ->  shrink, stride, permute, reshape, pad, expand  ->  work  ->  copy
#:
#: Every rule brings a graph nearer to this form and none leads away, so that rewriting
#: ends: each moves one operation past another that must stand above it, or makes the
#: graph smaller.
MOVEMENT: Final = PatternMatcher((*CHAINS, *EXCHANGES, *PUSHES, *WINDOWS, *CHOICES))
#: Runs when the graph is simple, as `merge_reduces` would undo it, and when it is known
#: what runs slice by slice: parts of a sum that large values end in would store these.
SPLIT: Final = PatternMatcher((*split_reductions.RULES, *privatize_scatters.RULES))


def _inline(outputs: Sequence[Node], limits: Limits) -> Sequence[Node]:
    """Reaches into bodies as well, which begin with the stages after it."""
    return inline_calls(outputs)


def simplified_body(body: Body) -> Sequence[Node]:
    """What a body returns, after the stages that need nothing of a device."""
    chosen = settings.current()
    known = lines_in(body.outputs), chosen.disabled_rules, chosen.check_specs
    return _simplify(body, *known)


@memo(32)  # a loop that is too large for registers asks again
def _simplify(
    body: Body, lines: Collection[Any], disabled: frozenset[str], check: bool
) -> Sequence[Node]:
    return run_stages(body.outputs, ANY_DEVICE, SIMPLIFYING[1:])


def _of_known_sizes(rule: Rule, *decisions: str) -> Rule:
    """A rule for operations whose shapes are known and have elements.

    Args:
      rule: makes others of an operation.
      decisions: those that switch it off.
    """

    def guarded(node: Node, read: Collection[int]) -> Node | Sequence[Node] | None:
        shapes = [x.shape for x in (*node.src, *items(node))]
        known = not any(any_dynamic(shape) or not prod(shape) for shape in shapes)
        return rule(node, read) if known and settings.decides(*decisions) else None

    return guarded


COMPOUNDS: dict[Any, Rule] = dict.fromkeys(
    compositions.COMPOSITIONS, _of_known_sizes(lapack_kernels.expand_composition)
)
LOOPS: dict[Any, Rule] = {
    canonical_loop.loop_p: partial(promote_loops.by_recurrence, simplified_body)
}
#: Library operations, and what makes kernels of them.
LIBRARY: dict[Any, Rule] = {
    op: _of_known_sizes(rule, *decisions)
    for ops, rule, *decisions in (
        (scan_kernels.OPERATORS, scan_kernels.by_kernels, "native_scan"),
        (
            (extremum_tangent_p,), scan_kernels.tangent_by_kernels,
            "native_scan", "native_extremum_tangent",
        ),
        (lapack_kernels.FACTORS, lapack_kernels.by_kernels),
        (sort_kernels.SORTS, sort_kernels.by_kernels, "native_sort"),
        ((fft_p,), fft_kernels.by_kernels, "native_fft"),
    )
    for op in ops
}  # fmt: skip

#: The stages that make a graph of a graph. What these leave is the graph that people
#: are shown, and the body of which it is asked whether it fits into registers.
SIMPLIFYING: Final = (
    Stage("calls", _inline, about="calls become what they call"),
    Stage(
        "ranks", {exchange_p: lower_exchange},
        about="what all have alike is not told to them, what they send lies in rows",
    ),
    Stage(
        "loops", simplify_loops.simplify_loops, simplify_loops.DECISIONS,
        of=simplify_loops.CONTROL, about="loops and branches lose what they need not",
    ),
    Stage("control", canonical_loop.LOOPS, about="loops of all kinds become one kind"),
    Stage(
        "compounds", COMPOUNDS, lapack_kernels.COMPOSITION_DECISIONS,
        about="operations of linear algebra become several smaller ones",
    ),
    Stage(
        "products", {reduce_prod_p: multiply_complex},
        about="products of complex numbers are those of halves",
    ),
    Stage("simplify", SIMPLIFY, about="algebra, constants, sums over equal elements"),
    Stage(
        "movement", SIMPLIFY + MOVEMENT,
        about="views merge, vanish, and move to where they cost least",
    ),
)  # fmt: skip
#: Those that depend on the device, or look for work that others have left whole.
SUITING: Final = (
    Stage(
        "slices", tile_regions.in_slices, tile_regions.DECISIONS, lambda has: has.cache,
        about="what does not fit into the cache is computed slice by slice",
    ),
    Stage("split", SPLIT, about="long sums become sums of parts, for many threads"),
    Stage(
        "registers", LOOPS, promote_loops.DECISIONS, lambda has: has.recurrences,
        about="small loops become one kernel that keeps its values in registers",
    ),
    Stage(
        "library", LIBRARY | {permute_p: fft_kernels.merge_permutations},
        scan_kernels.DECISIONS | lapack_kernels.DECISIONS
        | sort_kernels.DECISIONS | fft_kernels.DECISIONS,
        lambda has: has.recurrences, LIBRARY,
        "sorts, factorizations, running sums become kernels",
    ),
    Stage(
        "sums", split_reductions.sums_in_steps, split_reductions.DECISIONS,
        lambda has: has.cache, (reduce_sum_p,),
        "large sums in two steps, shared by threads or kernels",
    ),
)  # fmt: skip
PIPELINE: Final = (*SIMPLIFYING, *SUITING)


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
            outputs = stage(outputs, limits, fired)
        if check and outputs is not before:
            check_after(stage.name, outputs)
            for old, new in zip(before, outputs, strict=True):
                if not same_size(old.shape, new.shape) or old.dtype != new.dtype:
                    raise GraphError(f"{stage.name} turned {old!r} into {new!r}")
    return outputs


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
    for stage in PIPELINE:
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
      given: inputs that may be overwritten; see `reuse_buffers`.
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
    adds_up = split_reductions.kernels_add_up(work.limits)
    return replace(work, plan=scheduling.schedule(results, forced, adds_up))


def _build(work: LoweringState) -> LoweringState:
    """The kernels; they are planned again where they have too many buffers."""
    forced: set[Node] = set()
    most = work.limits.max_buffers
    while True:
        plan = work.plan
        built: dict[int, BuiltKernel | BuiltStep] = dict(build_kernels(plan))
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


class ProgramStage(NamedTuple):
    """One stage of lowering that comes after those of graphs.

    Attributes:
      name: for people.
      make: adds to what is known; it looks by itself which decisions are off.
      decisions: what `config.disabled_rules` can switch off in it, and what that does.
        Those of `code` are for the devices, which look when they write the kernels.
    """

    name: str
    make: Callable[[LoweringState], LoweringState]
    decisions: Mapping[str, str]


#: The stages that make the program of a graph. `code` puts its steps together; the code
#: of the kernels is a device's.
PROGRAM = (
    ProgramStage("schedule", _schedule, scheduling.DECISIONS),
    ProgramStage("kernels", _build, index_view.DECISIONS | relax_mul_zero.DECISIONS),
    ProgramStage("memory", _reuse_buffers, assemble.DECISIONS),
    ProgramStage("code", _assemble, overlap.DECISIONS | codegen_options.DECISIONS),
)


def _make_program(
    work: LoweringState, stages: Iterable[ProgramStage] = PROGRAM
) -> BuiltProgram:
    for stage in stages:
        with span("pass", stage.name):
            work = stage.make(work)
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
    stages = len(SIMPLIFYING) + len(SUITING) + len(PROGRAM)
    numbers = count(1)
    with progress("lowering") as step:

        def report_steps(some: Iterable[Any]) -> Any:
            for stage in some:
                yield stage
                step(next(numbers), stages)

        outputs = run_stages(graph.outputs, ANY_DEVICE, report_steps(SIMPLIFYING))
        simplified = Graph(graph.inputs, tuple(outputs))
        outputs = run_stages(simplified.outputs, limits, report_steps(SUITING))
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
    if isinstance(arg, canonical_loop.Loop):
        carried = {arg.consts + k: k for k in range(arg.carry)}
        return BuiltStep(node, (lower_body(arg.body, limits, carried),))
    places: dict[int, int] = {}
    for body in bodies_of(arg):
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
    bodies = bodies_of(step.node.arg)
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


# Names.


def rule_names() -> frozenset[str]:
    """The names that `config.disabled_rules` may hold: rules and decisions."""
    stages = (*PIPELINE, *PROGRAM)
    return frozenset(RULE_NAMES.union(*[stage.decisions for stage in stages]))


def check_disabled_rules(names: frozenset[str]) -> None:
    """Raises ArgumentError for a name that is no rule's."""
    for name in sorted(names - rule_names()):
        close = difflib.get_close_matches(name, rule_names(), 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ArgumentError(f"disabled_rules: there is no rule {name!r}{hint}")
