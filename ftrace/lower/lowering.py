"""From a graph to its program: what takes graphs through the stages of `pipeline.py`.

    for stage in DEVICE_INDEPENDENT, DEVICE_SPECIFIC:
        outputs = run_stage(stage, outputs, limits)
    for stage in PROGRAM:
        work = stage.make(work)

Those of graphs are also for the bodies of loops and branches.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any

from ftrace.errors import GraphError
from ftrace.ground import settings
from ftrace.ground.fast_dataclasses import NamedTuple, dataclass
from ftrace.ground.limits import ANY_DEVICE, Limits
from ftrace.ground.progress import progress
from ftrace.ground.spans import span
from ftrace.ground.tables import memo
from ftrace.lower.analysis import root_of
from ftrace.lower.build.build_kernel import BuiltProgram
from ftrace.lower.fusion.drafts import FusionPlan
from ftrace.lower.make_program import LoweringState
from ftrace.lower.pipeline import (
    DEVICE_INDEPENDENT,
    DEVICE_SPECIFIC,
    PIPELINE,
    PROGRAM,
    ProgramStage,
    Stage,
)
from ftrace.lower.program import Program
from ftrace.lower.spec import GRAPH_SPEC, check_after
from ftrace.trace import graph as g
from ftrace.trace.graph import Body, Graph, Node
from ftrace.trace.graph_map import Rule, convert
from ftrace.trace.primitives.elementwise import copy
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
    return run_stages(body.outputs, ANY_DEVICE, DEVICE_INDEPENDENT[1:])


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
    for stage in (*DEVICE_INDEPENDENT, *DEVICE_SPECIFIC):
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
    return run_stages(outputs, ANY_DEVICE, DEVICE_INDEPENDENT)


# From a graph to its program.


def _make_program(
    graph: Graph,
    limits: Limits,
    given: dict[Node, Node | None],
    stages: Iterable[ProgramStage] = PROGRAM,
) -> BuiltProgram:
    work = LoweringState(graph, limits, given, simplified_body, lower_body)
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
    stages, numbers = len(PIPELINE), count(1)
    with progress("lowering") as step:

        def report_steps(some: Iterable[Any]) -> Any:
            for stage in some:
                yield stage
                step(next(numbers), stages)

        independent = report_steps(DEVICE_INDEPENDENT)
        outputs = run_stages(graph.outputs, ANY_DEVICE, independent)
        simplified = Graph(graph.inputs, tuple(outputs))
        outputs = run_stages(outputs, limits, report_steps(DEVICE_SPECIFIC))
        final = Graph(graph.inputs, tuple(outputs))
        program = report_steps(PROGRAM)
        built = _make_program(final, limits, dict.fromkeys(donated), program)
        return Lowering(graph, simplified, built)


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
    found = run_stages(simplified_body(body), limits, DEVICE_SPECIFIC)
    for k, node in enumerate(found):
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
    return _make_program(graph, limits, given)
