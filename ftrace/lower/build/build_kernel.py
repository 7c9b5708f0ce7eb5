"""From the draft of a kernel to the kernel: an expression for each node and place.

The ranges are chosen first (`index_view.py`). Then each store gets its expression, from
the operands up; what other kernels stored is loaded, and what movement is left becomes
arithmetic on indices, with a mask where a place has no element.

The layers of a network, and the steps of an unrolled loop, make the same kernel again
and again, of other values. Two drafts are *isomorphic* where their values in the order
of the graph pair off: the same operation over the partners of the same operands,
computed or loaded alike. What is built of the one is then the kernel of the other: 12
transformer layers with gradient are lowered in 0.17 s, one by one in 0.27.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import field, replace
from typing import Any

from ftrace import dtypes
from ftrace.errors import Origin
from ftrace.ground import settings
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.analysis import root_of, weight
from ftrace.lower.build.index_view import View, choose_view
from ftrace.lower.build.relax_mul_zero import relax_mul_zero
from ftrace.lower.control.canonical_loop import Loop
from ftrace.lower.fusion.drafts import Context, Draft, FusionPlan
from ftrace.lower.kernel import affine_index as ix, ir
from ftrace.lower.kernel.element_builder import ElementBuilder
from ftrace.lower.kernel.integer_bounds import values_of
from ftrace.lower.kernel.iota_indices import targets_of
from ftrace.lower.program import (
    CallHost,
    Program,
    RunExchange,
    RunKernel,
    Step,
    programs_of,
)
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Graph, Node, inherited_origin, make_node, views_over
from ftrace.trace.primitives.elementwise import bit_and, cast, ge, lt
from ftrace.trace.primitives.indexing import axes_and_kind, gather_p
from ftrace.trace.primitives.primitive import items
from ftrace.trace.primitives.reduction import COMBINES
from ftrace.trace.primitives.sources import const, const_p, dim_p, is_variable


@dataclass(frozen=True, eq=False)
class BuiltStep:
    """An operation that is a step by itself.

    Attributes:
      node: the operation.
      bodies: those that it runs.
      aliases: of branches, the numbers of operands, each with that of the result that
        may have its memory.
    """

    node: Node
    bodies: tuple[BuiltProgram, ...]
    aliases: Mapping[int, int] = field(default_factory=dict[int, int])

    @property
    def programs(self) -> tuple[Program, ...]:
        """Of its bodies."""
        return tuple([body.program for body in self.bodies])

    @property
    def reads(self) -> list[Node]:
        """The values that it takes, one for each operand."""
        return [root_of(s) for s in self.node.src]

    @property
    def writes(self) -> list[Node]:
        """Its results."""
        return items(self.node)

    @property
    def buffers(self) -> list[Node]:
        """All of them."""
        return [*self.reads, *self.writes]

    def updates_in_place(self, k: int) -> bool:
        """Does each iteration write the carry number k where it reads it?"""
        arg = self.node.arg
        if not isinstance(arg, Loop):
            return False
        (body,) = self.programs
        return body.outputs[k] == body.inputs[arg.consts + k]

    def carried_in_place(self) -> list[tuple[Node, Node]]:
        """The (first value, result) of each carry that is updated in place.

        Likewise of branches, which may leave a value where it is, or write it there.
        """
        arg = self.node.arg
        if not isinstance(arg, Loop):
            operands = self.reads[1:]
            return [(operands[i], self.writes[k]) for i, k in self.aliases.items()]
        initial = self.reads[arg.predicate + arg.consts :]
        return [
            (initial[k], self.writes[k])
            for k in range(arg.carry)
            if self.updates_in_place(k)
        ]


@dataclass(frozen=True, eq=False)
class BuiltKernel:
    """A kernel, and the value that each of its buffers holds.

    Attributes:
      stores: values that it stores, by the number of the kernel's buffer.
      loads: values that it reads, likewise.
      expressions: what was built of each value in a context.
      partners: values in whose place others are there, for which it was built first.
    """

    kernel: ir.Kernel
    info: ir.KernelInfo
    stores: dict[int, Node]
    loads: dict[int, Node]
    expressions: Mapping[tuple[Node, Context], Node] = field(
        default_factory=dict[tuple[Node, Context], Node]
    )
    partners: Mapping[Node, Node] = field(default_factory=dict[Node, Node])

    @property
    def values(self) -> dict[Node, list[Node]]:
        """For each expression the values that it computes: views are the same one."""
        found: dict[Node, list[Node]] = {}
        for (node, _), expression in self.expressions.items():
            found.setdefault(expression, []).append(self.partners.get(node, node))
        return found

    @property
    def reads(self) -> Iterable[Node]:
        return self.loads.values()

    @property
    def writes(self) -> Iterable[Node]:
        return self.stores.values()

    @property
    def buffers(self) -> list[Node]:
        """The value in each buffer of the kernel, in order."""
        both = self.stores | self.loads
        return [both[i] for i in range(len(both))]


@dataclass(frozen=True, eq=False)
class BuiltProgram:
    """A program, and how it came about.

    Attributes:
      graph: after all stages that make graphs.
      plan: what is stored, and by which kernel.
      built: the kernels and other steps, by their numbers in the plan.
      program: the result.
    """

    graph: Graph
    plan: FusionPlan
    built: Mapping[int, BuiltKernel | BuiltStep]
    program: Program

    def members(self) -> list[tuple[list[Node], BuiltKernel | BuiltStep | None]]:
        """For each step of the program the nodes that it computes, and what it is."""
        plan = self.plan
        computed: list[dict[Node, None]] = [dict.fromkeys(d.roots) for d in plan.drafts]
        for node, numbers in plan.inlined.items():
            for number in numbers:
                computed[number][node] = None
        drafts: dict[int, int] = {}  # by the id of what the step has of it
        for number, built in self.built.items():
            if isinstance(built, BuiltKernel):
                drafts[id(built.info)] = number
            else:
                computed[number][built.node] = None
                drafts[id(built.programs[0] if built.bodies else built.node)] = number
        numbers = [drafts.get(id(_mark(step)), -1) for step in self.program.steps]
        return [([*computed[n]] if n >= 0 else [], self.built.get(n)) for n in numbers]


def _mark(step: Step) -> Any:
    """By what a step of a program is known in the fusion plan."""
    if isinstance(step, RunKernel):
        return step.info
    if isinstance(step, CallHost):
        return step.node
    return step.nodes[0] if isinstance(step, RunExchange) else programs_of(step)[0]


def build_kernel(draft: Draft, plan: FusionPlan) -> BuiltKernel:
    """The kernel of a draft, over the ranges that leave the least arithmetic."""
    built = _Builder(choose_view(draft, plan)).build()
    decides = settings.decides("relax_mul_zero")
    became = relax_mul_zero(built.kernel) if decides else None
    if not became:
        return built
    kernel, rows = built.kernel.over(became), built.expressions.items()
    expressions = {key: became.get(value, value) for key, value in rows}
    return replace(built, kernel=kernel, expressions=expressions)


Work = Generator[tuple[Node, Context], Any, Any]


class _Builder(ElementBuilder[tuple[Node, Context]]):
    """Builds the expressions of one view."""

    def __init__(self, view: View) -> None:
        super().__init__()
        self.view = view
        self.buffers: dict[Node, int] = {}

    def build(self) -> BuiltKernel:
        view = self.view
        stored = view.stores()
        stores = {self._buffer(node): node for node, _ in stored}
        with inherited_origin() as self.take:
            for root in reversed(view.root_contexts()):
                self.element(root)
            made = [s for node, context in stored for s in self._stores(node, context)]
        loads = {i: n for n, i in self.buffers.items() if i not in stores}
        values = stores | loads
        specs = tuple(
            ir.BufferSpec(values[i].dtype, values[i].size, i in stores)
            for i in range(len(values))
        )
        axes = tuple(view.axes.atoms)
        kernel = ir.Kernel(axes, tuple(made), specs, self.view.meeting())
        info = self._info(kernel, stores)
        return BuiltKernel(kernel, info, stores, loads, self.expressions)

    def _buffer(self, node: Node) -> int:
        return self.buffers.setdefault(node, len(self.buffers))

    def express(self, key: tuple[Node, Context]) -> Work:
        """Operands and index arrays come first."""
        node, context = key
        view, (indices, valid) = self.view, (context.indices, context.valid)
        assert valid is not None
        given, loaded = node.op in (const_p, dim_p), node in view.loaded
        inner = [] if given or loaded else view.operands(node, context)
        needs = [need for need in inner if need[1].valid is not None]
        count = len(needs)  # none, where a movement has no operand
        if view.plan.readings and not given:
            used = [*indices, *(c.position for c in valid)]
            needs += view.plan.reads(used, view.draft)
        found: list[Node] = []
        for need in needs:
            found.append(self._round_operand(need[0], (yield need)))
        src = tuple(found[:count])
        self.take(node)
        if loaded and not given:
            return self.load(self._buffer(node), node, indices, valid)
        if not inner:
            return self.source(node, indices)
        if not src:
            return const(0, node.dtype)
        if node.op.family == "movement":
            inside = inner[0][1].valid
            assert inside is not None
            return self.mask_outside(src[0], inside, valid)
        if node.op.family == "reduction":
            group = view.ranges.of_reduce(node, context, view.plan.levels[node])
            ranges, name = tuple(group.atoms), COMBINES[node.op].name
            return ir.reduce(name, src[0], ranges) if ranges else src[0]
        if node.op is gather_p or node.op.family == "identity":
            return src[0]
        scalar = ShapedArray.of((), node.dtype)
        return make_node(node.op, scalar, src, node.arg)

    def _round_operand(self, node: Node, value: Node) -> Node:
        """What an operation takes: other kernels load the same number."""
        if value.op is ir.load_p or not rounds_operand(node, self.view.plan):
            return value
        return cast(cast(value, dtypes.float32), node.dtype)

    def value_in_index(self, atom: Node) -> Node:
        view = self.view
        (read,) = view.plan.reads([ix.index_of_atom(atom)], view.draft)
        return cast(self.expressions[read], ir.INDEX)

    def _store(self, node: Node, context: Context) -> ir.Store:
        draft = self.view.draft
        buffer = self.buffers[node]
        if draft.scattered is not None:
            return self._scatter(node, buffer, context)
        index = self.render(ix.flatten_index(context.indices, node.shape))
        value = node.src[0] if draft.kind == "scatter" else node
        return ir.Store(buffer, index, self.expressions[value, context])

    def _stores(self, node: Node, context: Context) -> list[ir.Store]:
        if node not in self.view.draft.sums:
            return [self._store(node, context)]
        index = self.render(ix.flatten_index(context.indices, node.shape))
        first = self.valid_node(
            ix.ALWAYS | {ix.Condition(self.view.row_of_sum(node), 0, 1)}
        )
        whole = dict(self.view.root_contexts())
        element = self.expressions[node.src[0], whole[node.src[0]]]
        buffer, zero = self.buffers[node], const(0, node.dtype)
        return [
            ir.Store(buffer, index, zero, first),
            ir.Store(buffer, index, element, combine="add"),
        ]

    def _scatter(self, node: Node, buffer: int, context: Context) -> ir.Store:
        """Drops updates that are out of bounds."""
        _, kind = axes_and_kind(node)
        updates, at = self.view.root_contexts()[0]
        plan = self.view.plan
        assert context.valid is not None
        valid = self.valid_node(context.valid)
        for axis, target in targets_of(node, at.indices, plan.number_of).items():
            if target.counts:
                continue  # see `_scatter_index`
            index = self.render(target.where)
            (value,) = target.where.terms
            for part in _in_bounds(index, plan.reading(value).array, node.shape[axis]):
                valid = part if valid is None else bit_and(valid, part)
        index = self.render(ix.flatten_index(context.indices, node.shape))
        combine = "" if kind == "set" else kind
        return ir.Store(buffer, index, self.expressions[updates, at], valid, combine)

    def _info(self, kernel: ir.Kernel, stores: dict[int, Node]) -> ir.KernelInfo:
        names: list[str] = []
        operations = 0
        computed = [n for n in self.view.members if n not in self.view.loaded]
        for node in computed:
            if node.op.family not in ("movement", "source"):
                names.append(node.op.name)
                if node.op.family == "reduction":  # one each, whatever it weighs
                    operations += node.src[0].size
                else:
                    operations += node.size * max(1, min(weight(node), 10))
        dims = "x".join(map(str, self.view.shape)) or "1"
        last_first = dict.fromkeys(reversed(names))
        main = [n for n in last_first if n not in ("cast", "select")]
        title = "_".join(main[:3]) or "copy"
        return ir.KernelInfo(
            f"{title}_{dims}",
            origins_of(computed),
            operations,
            kernel.nbytes,
            tuple(names),
            lines_of_values(stores),
        )


def lines_of_values(stores: Mapping[int, Node]) -> tuple[Origin | None, ...]:
    """The user's lines of what a kernel stores, in the order of its buffers.

    What is moved in the end was made by another line.
    """
    made = [[*views_over(node)][-1] for _, node in sorted(stores.items())]
    return tuple([node.origin for node in made])


def lines_of_expressions(built: BuiltKernel) -> ir.Lines:
    """The user's lines that the expressions of a kernel compute.

    Arguments have none, and a view is of its operand's line.
    """
    found: dict[Node, Origin] = {}
    for expression, nodes in built.values.items():
        made = sorted(nodes, key=lambda n: n.op.family == "movement")
        lines = [n.origin for n in made if n.origin and not is_variable(n)]
        if lines:
            found[expression] = lines[0]
    return found


def rounds_operand(node: Node, plan: FusionPlan) -> bool:
    """Is it rounded to 16 bits also where it is computed, as it is where it is loaded?

    Else an element would not be equal to the maximum that another kernel took of it.
    """
    return dtypes.is_half(node.dtype) and node in plan.stored


def origins_of(nodes: Iterable[Node]) -> tuple[Origin, ...]:
    """The user's lines that made the nodes, each once."""
    places: dict[tuple[int, int], Origin] = {}  # to hash code takes long
    for origin in dict.fromkeys([node.origin for node in nodes]):
        if origin is not None:
            places.setdefault((id(origin.code), origin.offset), origin)
    origins: dict[str, Origin] = {}
    for origin in places.values():
        origins.setdefault(str(origin), origin)
    return tuple(origins.values())


def _in_bounds(index: Node, array: Node, size: int) -> list[Node]:
    """The comparisons that it takes to see that an element of `array` is in bounds."""
    low, high = values_of(array)
    parts: list[Node] = []
    if low < 0 or high > dtypes.limits(ir.INDEX)[1]:  # the upper half of uint64, too
        parts.append(ge(index, const(0, ir.INDEX)))
    if high >= size:
        parts.append(lt(index, const(size, ir.INDEX)))
    return parts


def build_kernels(plan: FusionPlan) -> Iterator[tuple[int, BuiltKernel]]:
    """The kernels of those drafts that are no steps, by the draft's number."""
    known: dict[Any, tuple[BuiltKernel, list[Node]]] = {}
    for draft, computed in _nodes_of_drafts(plan):
        if draft.step is not None:
            continue
        found = _structure_of(draft, computed, plan)
        if found is None:
            yield draft.number, build_kernel(draft, plan)
            continue
        structure, values = found
        if structure in known:
            built, others = known[structure]
            now = dict(zip(others, values, strict=True))
            lines = origins_of(reversed(computed))
            stores = {i: now[n] for i, n in built.stores.items()}
            stored = lines_of_values(stores)
            built = BuiltKernel(
                built.kernel,
                replace(built.info, origins=lines, stored=stored),
                stores,
                {i: now[n] for i, n in built.loads.items()},
                built.expressions,
                now,
            )
        else:
            built = build_kernel(draft, plan)
            known[structure] = built, values
        yield draft.number, built


def _nodes_of_drafts(plan: FusionPlan) -> list[tuple[Draft, list[Node]]]:
    """What each draft computes, in the order in which it was decided on."""
    found: list[list[Node]] = [[] for _ in plan.drafts]
    for node, numbers in plan.inlined.items():
        for number in numbers:
            found[number].append(node)
    for draft in plan.drafts:
        found[draft.number] += sorted(draft.sums, key=plan.order.__getitem__)
    return list(zip(plan.drafts, found, strict=True))


def _structure_of(
    draft: Draft, computed: list[Node], plan: FusionPlan
) -> tuple[Any, list[Node]] | None:
    """What is equal for isomorphic drafts, and the values that pair off.

    None where index arrays are read, whose numbers are those of the plan.
    """
    if draft.kind == "scatter":
        return None
    number_of = {node: i for i, node in enumerate(computed)}
    values = list(computed)
    loaded: list[Any] = []
    parts: list[Any] = []
    places: dict[int, int] = {}  # of levels: reduces of one level may share ranges
    for node in computed:
        if node.op is gather_p:
            return None
        sources: list[int] = []
        for source in node.src:
            number = number_of.get(source)
            if number is None:
                number = number_of[source] = len(values)
                values.append(source)
                loaded.append(source.aval)
            sources.append(number)
        level = 0
        if node.op.family == "reduction":
            level = places.setdefault(plan.levels[node], len(places))
        rounds = rounds_operand(node, plan)
        parts.append((node.op, node.aval, node.arg, tuple(sources), level, rounds))
    roots = tuple([number_of[n] for n in draft.roots])
    sums = frozenset([number_of[n] for n in draft.sums])
    structure = (draft.shape, draft.kind, roots, sums, tuple(parts), tuple(loaded))
    return structure, values
