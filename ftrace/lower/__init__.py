"""Lowering: from a graph to a program, stage by stage.

    1 simplify   rewrites that make the graph smaller       simplify.py
    2 movement   movement merges, and moves to the loads    movement.py
    3 schedule   what is stored, and by which kernel        schedule.py
    4 index      movement becomes index arithmetic          index.py, build.py
    5 loops      expressions take their place in loops      place.py
    6 memory     values share an arena                      memory.py
    7 program    steps in order                             below

`PASSES` is the list of the first two; each leaves a graph that `spec.py` describes.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from ftrace import settings
from ftrace.errors import ArgumentError, DeviceError, GraphError
from ftrace.lower.build import DECISIONS as BUILDING
from ftrace.lower.build import BuiltKernel, build_kernel
from ftrace.lower.memory import Lifetime, plan_memory
from ftrace.lower.movement import MOVEMENT
from ftrace.lower.program import Program, RunKernel, Slot
from ftrace.lower.schedule import DECISIONS as SCHEDULING
from ftrace.lower.schedule import Draft, Schedule, schedule
from ftrace.lower.simplify import SIMPLIFY, SPLIT
from ftrace.lower.spec import GRAPH_SPEC, check_after
from ftrace.trace.graph import Graph, Node, toposort
from ftrace.trace.primitives.movement import reshape_p
from ftrace.trace.primitives.source import is_variable
from ftrace.trace.rewrite import PatternMatcher, rewrite

PASSES: tuple[tuple[str, PatternMatcher], ...] = (
    ("simplify", SIMPLIFY),
    ("movement", SIMPLIFY + MOVEMENT),
    ("split", SPLIT),
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
    program: Program


def lower(graph: Graph, max_buffers: int = 0) -> Lowered:
    """The program of a graph.

    Args:
      graph: closed; its inputs are the program's, captured arrays included.
      max_buffers: how many buffers one kernel can take; 0 is no limit.
    """
    check_disabled_rules(settings.current().disabled_rules)
    simplified = Graph(graph.inputs, tuple(simplify_graph(graph.outputs)))
    outputs = [n for n in simplified.outputs if root_of(n).size]
    forced: set[Node] = set()
    while True:
        plan = schedule([root_of(n) for n in outputs], forced)
        built = [build_kernel(d, plan) for d in ordered_drafts(plan)]
        too_many = [b for b in built if 0 < max_buffers < len(b.kernel.buffers)]
        if not too_many:
            break
        forced |= {_splitting_node(b, plan, forced) for b in too_many}
    return Lowered(graph, simplified, plan, assemble(simplified, built))


def rule_names() -> frozenset[str]:
    """The names that `config.disabled_rules` may hold: rules and decisions."""
    rules = {rule.name for _, matcher in PASSES for rule in matcher}
    return frozenset(rules | set(SCHEDULING) | set(BUILDING))


def check_disabled_rules(names: frozenset[str]) -> None:
    """Raises ArgumentError for a name that is no rule's."""
    for name in sorted(names - rule_names() if names else names):
        close = difflib.get_close_matches(name, rule_names(), 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ArgumentError(f"disabled_rules: there is no rule {name!r}{hint}")


def simplify_graph(outputs: Sequence[Node]) -> list[Node]:
    """The outputs after all rewrites."""
    check = settings.current().check_specs
    if check:
        GRAPH_SPEC.check(outputs)
    nodes = list(outputs)
    for name, matcher in PASSES:
        nodes = rewrite(nodes, matcher)
        if check:
            check_after(name, nodes)
            for old, new in zip(outputs, nodes, strict=True):
                if old.shape != new.shape or old.dtype != new.dtype:
                    raise GraphError(f"{name} turned {old!r} into {new!r}")
    return nodes


def root_of(node: Node) -> Node:
    """The value whose memory an output is: reshapes share it."""
    while node.op is reshape_p:
        node = node.src[0]
    return node


def ordered_drafts(plan: Schedule) -> list[Draft]:
    """The kernels in an order in which each finds what it reads.

    Raises:
      GraphError: some kernels wait for each other.
    """
    waiting = {d.number: 0 for d in plan.drafts}
    for draft in plan.drafts:
        for reader in draft.feeds:
            waiting[reader] += 1
    # Later drafts are nearer to the inputs; among those that are ready they go first.
    ready = [d.number for d in plan.drafts if waiting[d.number] == 0]
    order: list[Draft] = []
    while ready:
        draft = plan.drafts[ready.pop()]
        order.append(draft)
        for reader in sorted(draft.feeds):
            waiting[reader] -= 1
            if waiting[reader] == 0:
                ready.append(reader)
    if len(order) != len(plan.drafts):
        stuck = [d.roots for d in plan.drafts if waiting[d.number] > 0]
        raise GraphError(f"these kernels wait for each other: {stuck}")
    return order


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


def assemble(graph: Graph, kernels: Sequence[BuiltKernel]) -> Program:
    """Slots for all values, and the steps that fill them."""
    roots = [root_of(n) for n in graph.outputs]
    first: dict[Node, int] = {}
    last: dict[Node, int] = {}
    for step, built in enumerate(kernels):
        for node in built.buffers:
            first.setdefault(node, step)
            last[node] = step
    position = {node: i for i, node in reversed(list(enumerate(roots)))}
    temporary = [n for n in first if not is_variable(n) and n not in position]
    plan = plan_memory(
        [Lifetime(n.size * n.dtype.itemsize, first[n], last[n]) for n in temporary]
    )
    offsets = dict(zip(temporary, plan.offsets, strict=True))
    slots: list[Slot] = []
    number: dict[Node, int] = {}

    def add_slot(node: Node, place: str, at: int) -> None:
        number[node] = len(slots)
        slots.append(Slot(node.dtype, node.shape, place, at, node.op.name))

    for i, node in enumerate(graph.inputs):
        add_slot(node, "input", i)
    for node, i in position.items():
        if node not in number:
            add_slot(node, "output", i)
    for node in temporary:
        add_slot(node, "arena", offsets[node])
    steps = tuple(
        RunKernel(b.kernel, tuple(number[n] for n in b.buffers), b.info)
        for b in kernels
    )
    inputs = tuple(number[n] for n in graph.inputs)
    return Program(
        tuple(slots), steps, inputs, tuple(number[n] for n in roots), plan.size
    )
