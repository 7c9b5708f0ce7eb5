"""Kernels while they are put together, and the places where they need values.

A *draft* is a kernel of which it is known which loops it has and what it stores. Every
use of a value is a *context*: the draft, and the index at which it needs the value. For
a value that is computed in a context, `operand_contexts` says what that needs in turn:

    y = x.T             in kernel 0 at (i, j):   x at (j, i)
    y = sum(x, axis=1)  in kernel 0 at (i,):     x at (i, r), r a range of the reduce
    y = x[n]            in kernel 0 at (i,):     n at (i,), x at (what n is there,)

A `FusionPlan` is a list of drafts, and for each value the draft that stores it.

A `Planner` makes one: facts about the graph, and what was decided.
The facts are there before the first decision: the order in which values are decided on,
what must be stored, what each value costs down to what is loaded, of which contractions
it is made. The rest grows while `plan_fusion.py` walks: the kernels, which of them run
before which others, and the contexts in which values are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from math import prod
from typing import Any

from ftrace.ground import settings
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.ground.tables import memo
from ftrace.lower import analysis
from ftrace.lower.kernel import affine_index as ix
from ftrace.lower.kernel.iota_indices import Reading, position_of
from ftrace.trace.avals import Shape
from ftrace.trace.graph import Node, bits_below, operations_of, toposort
from ftrace.trace.primitives.broadcast import reduce_sum_p
from ftrace.trace.primitives.exchange import exchange_p
from ftrace.trace.primitives.indexing import gather_p
from ftrace.trace.primitives.movement import reshape_p
from ftrace.trace.primitives.primitive import Compound, compound_of
from ftrace.trace.primitives.sources import SOURCES, is_variable
from ftrace.trace.symbolic import same_size, sample


class Context:
    """A use of a value: the kernel, the index, and where the index is one.

    Of a kernel's equal ones are one object, which `Draft.at` gives: indices are deep,
    and what computes element by element needs its operands in the context that it has.

    Attributes:
      ranges: those on which the indices depend.
      window_positions: at how many places a window that slides is; 0 where none slides.
    """

    __slots__ = ("indices", "kernel", "ranges", "valid", "window_positions")

    def __init__(
        self, kernel: int, indices: tuple[ix.Index, ...], valid: ix.Valid | None
    ) -> None:
        self.kernel = kernel
        self.indices = indices
        self.valid = valid
        self.ranges = ix.ranges_of_all(indices)
        self.window_positions = _count_positions(indices)


@memo(ix.REMEMBERED)
def _count_positions(indices: tuple[ix.Index, ...]) -> int:
    # A sum of one atom, if that is no quotient, has one range; of none, none.
    sums = [i for i in indices if len(i.pairs) > 1 or not ix.is_affine(i)]
    if not sums or all(len(ix.ranges_of(index)) < 2 for index in sums):
        return 0
    return prod([sample(ix.size_of(a)) for a in ix.ranges_of_all(indices)])


#: The sizes of the ranges of a group: of the loops (None), or of those of a reduce.
Layout = dict[Any, Shape]


@dataclass(eq=False)
class Group:
    """The ranges of a kernel's loops, or of reduces that run in one loop.

    Attributes:
      node: the first reduce that asked for them; None of the loops.
      sizes: of the ranges.
      atoms: the ranges, outermost first.
      indices: for each loop, or reduced axis, its index in terms of the ranges.
    """

    node: Node | None
    sizes: Shape
    atoms: list[Node]
    indices: tuple[ix.Index, ...]


class Ranges:
    """The ranges of a kernel, in the sizes of a layout where that has others."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.groups: list[Group] = []
        self._of_reduces: dict[Any, Group] = {}
        self._next = 0

    def new(self, size: int, reduced: bool) -> ix.Index:
        index = ix.range_index(self._next, size, reduced)
        self._next += 1
        return index

    def group(self, node: Node | None, sizes: Shape) -> Group:
        chosen = self.layout.get(node, sizes)
        indices = tuple([self.new(size, node is not None) for size in chosen])
        atoms = [a for index in indices for a, _ in index.pairs]
        if chosen is not sizes and not same_size(chosen, sizes):
            indices = ix.unflatten_index(ix.flatten_index(indices, chosen), sizes)
        self.groups.append(group := Group(node, chosen, atoms, indices))
        return group

    def of_reduce(self, node: Node, context: Context, level: int) -> Group:
        """The ranges of a reduce; some share theirs."""
        sizes = tuple(node.src[0].shape[a] for a in analysis.reduced_axes(node))
        alone = node if analysis.is_contraction(node) else None
        key = sizes, context.ranges, level, context.valid, alone
        found = self._of_reduces.get(key)
        if found is None:
            found = self._of_reduces[key] = self.group(node, sizes)
        return found


@dataclass(eq=False)
class Draft:
    """A kernel while it is put together.

    Attributes:
      shape: sizes of the loops that it was made for, none of them 1.
      ranges: of its loops, and of its reduces.
      roots: the values that it stores.
      kind: "map", or "contract" with one contraction and its epilogue, or "scatter",
        or "step" for an operation that is a step of the program by itself.
      scattered: the scatter whose updates it applies.
      step: the compound that is this step.
      sums: those of `roots` to which each row of the loops adds: see
        `blocking/split_reductions.py`.
      feeds: kernels that read what it stores.
      weight: operations per iteration, roughly.
    """

    number: int
    shape: Shape
    roots: list[Node] = field(default_factory=list[Node])
    kind: str = "map"
    scattered: Node | None = None
    step: Node | None = None
    sums: set[Node] = field(default_factory=set[Node])
    feeds: set[int] = field(default_factory=set[int])
    weight: int = 0
    reduces: int = 0

    def __post_init__(self) -> None:
        self._contexts: dict[tuple[tuple[ix.Index, ...], ix.Valid | None], Context] = {}
        self.ranges = Ranges({})
        loops = self.ranges.group(None, self.shape)
        self.atoms, self.indices = loops.atoms, loops.indices

    def widen(self, shape: Shape) -> None:
        """Adds the loops that `shape` has inside of the kernel's own."""
        for size in shape[len(self.shape) :]:
            index = self.ranges.new(size, False)
            self.indices = (*self.indices, index)
            self.atoms.append(index.pairs[0][0])
            self.shape = (*self.shape, size)

    def root_indices(self, shape: Shape) -> tuple[ix.Index, ...]:
        """The index of a value of that shape which this kernel stores.

        The value has an element per iteration of all loops, or of the outer ones.
        """
        return root_indices(self.indices, self.shape, shape)

    def at(
        self, indices: tuple[ix.Index, ...], valid: ix.Valid | None = ix.ALWAYS
    ) -> Context:
        """The context of the kernel at an index."""
        found = self._contexts.get((indices, valid))
        if found is None:
            found = Context(self.number, indices, valid)
            self._contexts[indices, valid] = found
        return found


@dataclass(eq=False)
class FusionPlan:
    """What `plan_fusion` decided.

    Attributes:
      drafts: the kernels; those that are read come after those that read.
      stored: for each stored value the kernel that stores it.
      inlined: for each value the kernels that compute it.
      levels: for each value how many reduces are below it.
      order: of the values in the order in which the graph was read.
      readings: values of index arrays at an index, by their numbers.
    """

    outputs: list[Node]
    drafts: list[Draft] = field(default_factory=list[Draft])
    stored: dict[Node, int] = field(default_factory=dict[Node, int])
    inlined: dict[Node, set[int]] = field(default_factory=dict[Node, set[int]])
    levels: dict[Node, int] = field(default_factory=dict[Node, int])
    order: dict[Node, int] = field(default_factory=dict[Node, int])
    readings: list[Reading] = field(default_factory=list[Reading])
    _numbers: dict[Reading, int] = field(default_factory=dict[Reading, int])

    def number_of(self, reading: Reading) -> int:
        """The number of a reading: the same one for the same reading."""
        number = self._numbers.setdefault(reading, len(self.readings))
        if number == len(self.readings):
            self.readings.append(reading)
        return number

    def reading(self, value: Node) -> Reading:
        """What the value is that is an atom of an index."""
        number: int = value.arg.number
        return self.readings[number]

    def reads(
        self, indices: Iterable[ix.Index], draft: Draft
    ) -> list[tuple[Node, Context]]:
        """The index arrays whose values are in indices of a draft, and where."""
        found = map(self.reading, ix.values_in(indices))
        return [(r.array, draft.at(r.indices, r.valid)) for r in found]


def root_indices(
    indices: tuple[ix.Index, ...], loops: Shape, shape: Shape
) -> tuple[ix.Index, ...]:
    """The index of a value of `shape` that has an element per iteration of loops."""
    depth = 0
    while not same_size(prod(loops[:depth]), prod(shape)):
        depth += 1
    if same_size(analysis.squeeze(shape), loops[:depth]):
        positions = iter(indices)
        return tuple(ix.ZERO if same_size(n, 1) else next(positions) for n in shape)
    return ix.unflatten_index(ix.flatten_index(indices[:depth], loops[:depth]), shape)


def operand_contexts(
    node: Node, context: Context, draft: Draft, ranges: Ranges, plan: FusionPlan
) -> list[tuple[Node, Context]]:
    """What a node, computed in a context of a draft, needs, and where.

    Those are its operands; of a gather the array, and then what its index arrays read.
    """
    if keeps_index(node):
        return [(source, context) for source in node.src]
    indices, valid = context.indices, context.valid
    family = node.op.family
    if family == "movement":
        where, inside = ix.source_index(node, indices, valid)
        return [(node.src[0], draft.at(where, inside))]
    if family == "reduction":
        group = ranges.of_reduce(node, context, plan.levels[node])
        inner = list(indices)
        for axis, index in zip(analysis.reduced_axes(node), group.indices, strict=True):
            inner[axis] = index
        return [(node.src[0], draft.at(tuple(inner), valid))]
    return _gather_contexts(node, context, draft, plan)


def keeps_index(node: Node) -> bool:
    """Is an element computed from the operands' elements at its own index?"""
    return node.op.family not in ("movement", "reduction") and node.op is not gather_p


def _gather_contexts(
    node: Node, context: Context, draft: Draft, plan: FusionPlan
) -> list[tuple[Node, Context]]:
    indices, valid = context.indices, context.valid
    axes: tuple[int, ...] = node.arg
    source, *arrays = node.src
    depth = arrays[0].ndim
    at, rest = indices[:depth], iter(indices[depth:])
    found = {
        axis: position_of(array, at, valid, source.shape[axis], plan.number_of).where
        for axis, array in zip(axes, arrays, strict=True)
    }
    where = tuple(found[a] if a in found else next(rest) for a in range(source.ndim))
    return [(source, draft.at(where, valid)), *plan.reads(found.values(), draft)]


class Precedence:
    """Which kernels run after which, by their numbers: one reads what another stores.

    Of each kernel it is known, as bits of a number, which run after it.
    """

    def __init__(self) -> None:
        self._after: dict[int, int] = {}
        self._before: dict[int, set[int]] = {}

    def add(self, kernel: int, readers: Iterable[int] = ()) -> None:
        """Notes that `readers` read what a kernel stores; no way leads back to it."""
        after, before = self._after, self._before
        after.setdefault(kernel, 0)
        before.setdefault(kernel, set())
        behind = 0
        for reader in readers:
            behind |= 1 << reader | after[reader]
            before[reader].add(kernel)
        pending = [kernel]
        while pending:
            earlier = pending.pop()
            if behind & ~after[earlier]:
                after[earlier] |= behind
                pending += before[earlier]

    def is_before(self, kernels: Iterable[int], target: int) -> bool:
        """Does a kernel of these run before `target`, or is it one of them?"""
        return any(k == target or self._after[k] >> target & 1 for k in kernels)


#: Operations in one kernel, and from which on it ends where a step begins like the one
#: it began with, and stores no value beside those that it has. No row has as many; 60
#: steps of rk4, unrolled, are compiled in 1.2 s, without the second number in 1.9.
KERNEL_LIMIT, ENOUGH = 600, 450
#: Costs are counted up to here, beyond all that they are compared with: where each step
#: uses the one before it twice they double.
_COSTLY = 10_000
#: Elements of a reduce that may run inside another one. With 2²⁰ sums over all images
#: or heads (causal attention 4×8×256×64, gradients) are left to one thread.
NESTED = 1 << 14
#: Contractions that are told apart of those from which a value is made. No row has as
#: many: a sum over all layers of a network would be made of each.
CONTRACTIONS = 8

#: May a kernel over loops of these sizes add up the elements of a sum?
AddsUp = Callable[[Node, Shape], bool]


class Planner:
    """What `plan_fusion` knows, and what it has decided.

    Attributes:
      adds_up: see `plan_fusion`.
      result: the kernels so far, and what each stores and computes.
      disabled: names of decisions that are switched off.
      forced: see `plan_fusion`.
      order: the nodes; they are decided on from the last to the first.
      has_steps: some nodes are steps of the program by themselves.
      must_store: values that are stored, whatever they cost.
      shared: values that are dear and have several users, where sums wait for them.
      precedence: which kernels run before which.
      readers: kernels that read what a step computes.
      contexts: for each value its contexts, with how often each computes it too much
        and the ranges of the loops around it, outermost first.
      costs: for each value the operations down to what is loaded.
      epilogue: what is computed from a contraction, element by element: better with it,
        and stored where several kernels need it, than that the bare sums are stored.
        Of each such value the contractions.
      users: of a contraction, how many use it.
      waits: for each value, as bits of a number, the exchanges between processes that
        it waits for, where there are any.
    """

    def __init__(
        self, outputs: Sequence[Node], forced: frozenset[Node], adds_up: AddsUp | None
    ) -> None:
        self.adds_up = adds_up
        self.result = FusionPlan(list(outputs))
        self.disabled = settings.current().disabled_rules
        self.forced = forced
        self.order = toposort(outputs)
        self.must_store = forced | {n for n in outputs if not is_variable(n)}
        self.has_steps = any(isinstance(op, Compound) for op in operations_of(outputs))
        for node in self.order if self.has_steps else ():
            if compound_of(node) is not None:
                roots = map(analysis.root_of, node.src)
                self.must_store |= {r for r in roots if r.size and not is_variable(r)}
        self.shared: set[Node] = set()
        self.precedence = Precedence()
        self.readers: dict[Node, set[int]] = {}
        self.contexts: dict[Node, dict[Context, tuple[int, tuple[Node, ...]]]] = {}
        self.costs: dict[Node, int] = {}
        self.epilogue: dict[Node, frozenset[Node]] = {}
        self.users: dict[Node, int] = {}
        self.waits: dict[Node, int] = {}
        if self.has_steps and any(op is exchange_p for op in operations_of(outputs)):
            moving = [n for n in self.order if n.op is exchange_p and n.arg.moves]
            self.waits = bits_below(
                self.order, {n: 1 << k for k, n in enumerate(moving)}
            )
        if adds_up is not None:
            self.order = self._sums_last()
        self._measure()

    def _measure(self) -> None:
        """Per node: operations below it down to what is loaded; reduces below it."""
        levels, places, costs = self.result.levels, self.result.order, self.costs
        for place, node in enumerate(self.order):
            places[node] = place
            family, level, total = node.op.family, 0, 0
            for source in node.src:
                total += costs[source]
                if levels[source] > level:
                    level = levels[source]
            levels[node] = level + (family == "reduction")
            if self.users and node.op is not reshape_p:
                for root in {analysis.root_of(s) for s in node.src}:
                    if root in self.users:
                        self.users[root] += 1
            if self.has_steps and analysis.is_step(node):
                levels[node] = costs[node] = 0
                continue
            if node in self.must_store or node.op in SOURCES:
                costs[node] = 0
                continue
            if family == "reduction":
                # A reduce is stored, or done once per row, whoever uses it.
                costs[node] = 0
                if analysis.is_contraction(node):
                    self.epilogue[node] = frozenset((node,))
                    self.users[node] = 0
                continue
            contractions = self.contractions_of(node) if self.epilogue else None
            if contractions:
                self.epilogue[node] = contractions
            costs[node] = min(total + analysis.weight(node), _COSTLY)

    def wait_alike(self, node: Node, draft: Draft) -> bool:
        """Does a value wait for the same exchanges as what a kernel stores?

        Else the kernel would keep it from others, which could run meanwhile.
        """
        waits = self.waits
        return not waits or all(waits[node] == waits[root] for root in draft.roots)

    def _sums_last(self) -> list[Node]:
        """The nodes in an order in which sums wait for kernels that may add them up."""
        halves = [n for n in self.order if n.op is reduce_sum_p and self._is_half(n)]
        if not halves:
            return self.order
        self.shared = analysis.find_shared_dear(self.order)
        elements = map(analysis.elements_of_sum, halves)
        stored = map(self.will_be_stored, elements)
        late = {n: 1 if known else 2 for n, known in zip(halves, stored, strict=True)}
        for node in reversed(self.order):
            if node in late:
                for source in node.src:
                    late[source] = max(late[node], late.get(source, 0))
        return sorted(self.order, key=lambda n: -late.get(n, 0))

    def will_be_stored(self, node: Node) -> bool:
        return node in self.must_store or node in self.shared

    def _is_half(self, node: Node) -> bool:
        assert self.adds_up is not None
        elements = analysis.elements_of_sum(node)
        return self.adds_up(node, analysis.squeeze(elements.shape))

    def costs_below(self, node: Node) -> int:
        """The cost of a stored value, were it not stored."""
        operands = sum([self.costs[s] for s in node.src])
        return min(operands + analysis.weight(node), _COSTLY)

    def contractions_of(self, node: Node) -> frozenset[Node]:
        """Those from which a value is computed element by element: the latest.

        A sum over all layers of a network is made of a contraction of each of them.
        """
        found = {self.epilogue[s] for s in node.src if s in self.epilogue}
        if len(found) < 2:
            return found.pop() if found else frozenset()
        joined = frozenset[Node]().union(*found)
        if len(joined) > CONTRACTIONS:
            latest = sorted(joined, key=self.result.order.__getitem__)[-CONTRACTIONS:]
            joined = frozenset(latest)
        return joined

    def use(self, node: Node, context: Context, path: tuple[Node, ...]) -> None:
        """Notes that a kernel needs `node`; only as far in as its ranges reach."""
        ranges = context.ranges
        depth = max((k + 1 for k, a in enumerate(path) if a in ranges), default=0)
        around = path[:depth]
        factor = prod(sample(ix.size_of(a)) for a in around if a not in ranges)
        self.use_alike(node, context, factor, around)

    def use_alike(
        self, node: Node, context: Context, factor: int, around: tuple[Node, ...]
    ) -> None:
        """Notes that a kernel needs `node` where it needs what is made of it."""
        known = self.contexts.setdefault(node, {})
        before = known.get(context)
        if before is None or before[0] < factor:
            known[context] = (factor, around)

    def new_draft(self, shape: Shape) -> Draft:
        draft = Draft(len(self.result.drafts), shape)
        self.result.drafts.append(draft)
        self.precedence.add(draft.number)
        return draft

    def feed(self, draft: Draft, readers: set[int]) -> None:
        """Notes that these kernels read what one stores."""
        draft.feeds |= readers
        self.precedence.add(draft.number, readers)


def ends_before(draft: Draft, node: Node) -> bool:
    """Does a kernel of more than `ENOUGH` operations leave this one to another?

    Of an unrolled loop it ends between two steps if it can: it stores little there,
    and the kernels of all steps are the same one.
    """
    if draft.weight + analysis.weight(node) > KERNEL_LIMIT:
        return True
    root = draft.roots[0] if draft.roots else node
    return (
        root is not node
        and (root.op, root.aval) == (node.op, node.aval)
        and [s.op for s in root.src] == [s.op for s in node.src]
    )
