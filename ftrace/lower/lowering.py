"""All stages of lowering, put together: see the docstring of the package."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from ftrace import settings
from ftrace.errors import ArgumentError, DeviceError, GraphError
from ftrace.lower.assemble import assemble
from ftrace.lower.beside import DECISIONS as SUMS
from ftrace.lower.beside import kernels_add_up, sums_in_parts
from ftrace.lower.build import BuiltKernel
from ftrace.lower.compounds import DECISIONS as COMPOUNDS
from ftrace.lower.compounds import compounds_as_parts
from ftrace.lower.control import Loop, bodies_of, control_to_loops
from ftrace.lower.drafts import Schedule
from ftrace.lower.extrema import DECISIONS as EXTREMA
from ftrace.lower.extrema import extrema_as_kernels
from ftrace.lower.factors import DECISIONS as FACTORING
from ftrace.lower.factors import factors_as_kernels
from ftrace.lower.finite import DECISIONS as PRODUCTS
from ftrace.lower.fourier import DECISIONS as TRANSFORMS
from ftrace.lower.fourier import transforms_as_kernels
from ftrace.lower.inplace import DECISIONS as SHARING
from ftrace.lower.inplace import Sharing, share_memory
from ftrace.lower.isomorphic import build_kernels
from ftrace.lower.loops import DECISIONS as LOOPS
from ftrace.lower.loops import simplify_loops
from ftrace.lower.movement import MOVEMENT
from ftrace.lower.order import ordered_drafts
from ftrace.lower.ordering import DECISIONS as SORTING
from ftrace.lower.ordering import sorts_as_kernels
from ftrace.lower.parted import DECISIONS as PARTS
from ftrace.lower.parted import filters_in_parts
from ftrace.lower.program import Program
from ftrace.lower.ranges import DECISIONS as RANGES
from ftrace.lower.recurrence import DECISIONS as REGISTERS
from ftrace.lower.recurrence import built_recurrence, register_loop_p
from ftrace.lower.registers import loops_in_registers
from ftrace.lower.rendering import DECISIONS as RENDERING
from ftrace.lower.running import DECISIONS as RUNNING
from ftrace.lower.running import runs_as_kernels
from ftrace.lower.schedule import DECISIONS as SCHEDULING
from ftrace.lower.schedule import schedule
from ftrace.lower.simplify import SIMPLIFY, SPLIT
from ftrace.lower.slices import DECISIONS as SLICES
from ftrace.lower.slices import in_slices
from ftrace.lower.spec import GRAPH_SPEC, check_after
from ftrace.lower.step import BuiltStep
from ftrace.lower.values import root_of
from ftrace.records import dataclass
from ftrace.tables import memo
from ftrace.trace.calls.inline import inline_calls, loose_tokens
from ftrace.trace.collection import without_collection
from ftrace.trace.graph import Body, Graph, Node, toposort
from ftrace.trace.primitives.elementwise import copy
from ftrace.trace.primitives.source import is_variable
from ftrace.trace.rewrite import RULE_NAMES, PatternMatcher, rewrite

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


@without_collection
def lower(
    graph: Graph,
    max_buffers: int = 0,
    donated: Iterable[Node] = (),
    recurrences: bool = False,
    cache: int = 0,
) -> Lowered:
    """The program of a graph.

    Args:
      graph: closed; its inputs are the program's, captured arrays included.
      max_buffers: how many buffers one kernel can take; 0 is no limit.
      donated: inputs whose memory the program may overwrite.
      recurrences: the device runs small loops in registers.
      cache: bytes of the cache that a core has for itself; 0 where that is no help.
    """
    outputs = inline_calls(graph.outputs)
    prepared = control_to_loops(simplify_loops(outputs))
    simplified = Graph(graph.inputs, tuple(simplify_graph(prepared)))
    given: dict[Node, Node | None] = dict.fromkeys(donated)
    found = in_slices(simplified.outputs, cache)
    if recurrences:
        found = loops_in_registers(found, simplified_outputs)
        found = runs_as_kernels(extrema_as_kernels(found))
        found = host_as_kernels(found)
    found = filters_in_parts(sums_in_parts(found, cache), cache)
    final = Graph(graph.inputs, tuple(found))
    plan, program = _program(final, max_buffers, given, recurrences, cache)
    return Lowered(graph, simplified, plan, program)


def host_as_kernels(outputs: Sequence[Node]) -> list[Node]:
    """The outputs, with kernels for what the host computes on other devices."""
    found = sorts_as_kernels(factors_as_kernels(outputs))
    return transforms_as_kernels(found)


def simplified_outputs(body: Body) -> Sequence[Node]:
    """What a body returns, after all rewrites."""
    chosen = settings.current()
    return _simplified(body, chosen.disabled_rules, chosen.check_specs)


@memo(32)  # a loop that is too large for registers asks again
def _simplified(body: Body, disabled: frozenset[str], check: bool) -> tuple[Node, ...]:
    return tuple(simplify_graph(control_to_loops(simplify_loops(body.outputs))))


def lower_body(
    body: Body,
    max_buffers: int = 0,
    carry: range = range(0),
    recurrences: bool = False,
    cache: int = 0,
) -> Program:
    """The program of a body: each output has memory of its own, also what it got.

    An input of `carry`, whose next value is the output of its number there, may be
    overwritten by that, and is, where that is safe.
    """
    outputs: list[Node] = []
    taken: set[Node] = set()
    simplified = in_slices(simplified_outputs(body), cache)
    if recurrences:
        simplified = loops_in_registers(simplified, simplified_outputs)
        simplified = runs_as_kernels(extrema_as_kernels(simplified))
        simplified = host_as_kernels(simplified)
    simplified = filters_in_parts(sums_in_parts(simplified, cache), cache)
    for node in simplified:
        root = root_of(node)
        while is_variable(root) or root in taken:  # the third copy is one of a copy
            node = root = copy(node)
        taken.add(root)
        outputs.append(node)
    graph = Graph(body.inputs, tuple(outputs))
    given: dict[Node, Node | None] = {
        body.inputs[i]: root_of(outputs[k]) for k, i in enumerate(carry)
    }
    return _program(graph, max_buffers, given, recurrences, cache)[1]


def _program(
    graph: Graph,
    max_buffers: int,
    given: dict[Node, Node | None],
    recurrences: bool,
    cache: int,
) -> tuple[Schedule, Program]:
    """What is stored, and the program that does it.

    Args:
      graph: after all rewrites.
      max_buffers: how many buffers one kernel can take; 0 is no limit.
      given: inputs that may be overwritten; see `share_memory`.
      recurrences: bodies may have small loops in registers.
      cache: what slices of large values in bodies should fit in; 0 is no slices.
    """
    roots = [root_of(n) for n in graph.outputs if root_of(n).size]
    outputs = roots + loose_tokens(graph.outputs)
    forced: set[Node] = set()
    while True:
        plan = schedule(outputs, forced, kernels_add_up(cache))
        built: dict[int, BuiltKernel | BuiltStep] = dict(build_kernels(plan))
        built |= {
            d.number: build_step(d.step, max_buffers, recurrences, cache)
            for d in plan.drafts
            if d.step is not None
        }
        too_many = [
            b
            for b in built.values()
            if isinstance(b, BuiltKernel) and 0 < max_buffers < len(b.kernel.buffers)
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


def build_step(
    node: Node, max_buffers: int, recurrences: bool, cache: int = 0
) -> BuiltStep | BuiltKernel:
    """An operation that is a step by itself, with the programs that it runs."""
    if node.op is register_loop_p:
        return built_recurrence(node, root_of)
    arg, carry = node.arg, range(0)
    if isinstance(arg, Loop):
        carry = range(arg.consts, arg.consts + arg.carry)
    programs = tuple(
        lower_body(body, max_buffers, carry, recurrences, cache)
        for body in bodies_of(node)
    )
    return BuiltStep(node, programs)


def rule_names() -> frozenset[str]:
    """The names that `config.disabled_rules` may hold: rules and decisions."""
    decisions = (
        SCHEDULING, RANGES, LOOPS, SHARING, REGISTERS, PRODUCTS, RUNNING, SLICES,
        FACTORING, SORTING, TRANSFORMS, RENDERING, SUMS, PARTS, EXTREMA, COMPOUNDS,
    )  # fmt: skip
    return frozenset(RULE_NAMES.union(*decisions))


def check_disabled_rules(names: frozenset[str]) -> None:
    """Raises ArgumentError for a name that is no rule's."""
    for name in sorted(names - rule_names()):
        close = difflib.get_close_matches(name, rule_names(), 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ArgumentError(f"disabled_rules: there is no rule {name!r}{hint}")


@without_collection
def simplify_graph(outputs: Sequence[Node]) -> list[Node]:
    """The outputs after all rewrites."""
    check = settings.current().check_specs
    if check:
        GRAPH_SPEC.check(outputs)
    nodes = compounds_as_parts(outputs)
    for name, matcher in PASSES:
        nodes = rewrite(nodes, matcher)
        if check:
            check_after(name, nodes)
            for old, new in zip(outputs, nodes, strict=True):
                if old.shape != new.shape or old.dtype != new.dtype:
                    raise GraphError(f"{name} turned {old!r} into {new!r}")
    return nodes


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
