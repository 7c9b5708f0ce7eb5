"""Which values are stored, and which kernel computes what.

One walk from the outputs to the inputs. Every use of a value is a *context*: a kernel
and the index at which it needs the value. A value that is needed at one index of one
kernel is computed there; one that is needed elsewhere, or again and again, is computed
anew where that is cheap and stored where it is not:

    outputs, copies, scatters                       are stored
    a reduce whose rows are the kernel's own rows   is computed there (softmax)
    a product whose elements are used again (matmul)   keeps its epilogue only
    work under an expand, or used by two kernels    is stored if it costs something
    values over the same loops                      share a kernel
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

from ftrace import settings
from ftrace.lower.index import (
    ALWAYS,
    ZERO,
    Atom,
    Index,
    Valid,
    complexity,
    flatten_index,
    range_index,
    ranges_of_all,
    source_index,
    unflatten_index,
)
from ftrace.lower.positions import NumberOf, Reading, position_of, targets_of
from ftrace.lower.precedence import Precedence
from ftrace.trace.avals import Shape
from ftrace.trace.collection import without_collection
from ftrace.trace.graph import Node, toposort
from ftrace.trace.primitives.broadcast import expand_p, reduce_sum_p
from ftrace.trace.primitives.elementwise import copy, is_reused, mul, mul_zero
from ftrace.trace.primitives.indexing import gather_p, scatter_p
from ftrace.trace.primitives.movement import reshape_p
from ftrace.trace.primitives.record import compound_of, item_p
from ftrace.trace.primitives.source import is_variable
from ftrace.trace.sizes import sample

CHEAP = 4  # operations that are rather done again than stored and loaded
RECOMPUTE = 40  # operations that may be done again inside one kernel
NESTED = 1 << 14  # elements of a reduce that may run inside another one
KERNEL_LIMIT = 600  # operations in one kernel
INDEX_LIMIT = 100  # atoms in the indices of one use
ROOTS = 8  # values that one kernel stores
MANY = 16  # rows that are work for all threads
CONTRACTIONS = 8  # that are told apart of those from which a value is made
_NEAR = 64  # nodes that are looked at for what two kernels have in common

#: The decisions that `config.disabled_rules` can switch off, and what each one does.
DECISIONS = {
    "fuse_elementwise": "elementwise work is computed in the kernel that uses it",
    "fuse_into_reduce": "elementwise work is computed in the reduce that it feeds",
    "fuse_after_reduce": "a reduce stays in the kernel of the work after it",
    "fuse_rows": "a reduce is computed once per row beside the work on that row",
    "recompute_cheap": "cheap work is done again in each kernel that uses it",
    "store_beside": "a kernel that computes a value for itself stores it for others",
    "share_loops": "values over the same loops are stored by one kernel",
    "store_rows": "what is one value per row is stored by a kernel over those rows",
}

_COSTLY = frozenset((
    "exp", "exp2", "expm1", "log", "log2", "log1p", "pow", "sin", "cos", "tan", "asin",
    "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "atan2", "erf",
    "erfc", "erf_inv", "lgamma", "digamma", "logistic", "cbrt",
))  # fmt: skip
_ELEMENTWISE = ("unary", "binary", "compare", "select", "cast")
_SOURCES = ("const", "dim", "iota", "variable")


class Context(NamedTuple):
    """A use of a value: the kernel, the index, and where the index is one."""

    kernel: int
    indices: tuple[Index, ...]
    valid: Valid | None


@dataclass(eq=False)
class ReduceRanges:
    """The ranges of one or more reduces that run in one loop.

    Attributes:
      atoms: the ranges, outermost first.
      indices: for each reduced axis its index in terms of the ranges.
    """

    atoms: list[Atom]
    indices: list[Index]


@dataclass(eq=False)
class Draft:
    """A kernel while it is put together.

    Attributes:
      shape: sizes of the loops that it was made for, none of them 1.
      atoms: the ranges of its loops, outermost first.
      indices: for each size of `shape` its index in terms of the ranges.
      roots: the values that it stores.
      kind: "map", or "contract" with one contraction and its epilogue, or "scatter",
        or "step" for an operation that is a step of the program by itself.
      scattered: the scatter whose updates it applies.
      step: the compound that is this step.
      sums: those of `roots` to which each row of the loops adds: see `beside.py`.
      feeds: kernels that read what it stores.
      weight: operations per iteration, roughly.
    """

    number: int
    shape: Shape
    atoms: list[Atom] = field(default_factory=list[Atom])
    indices: list[Index] = field(default_factory=list[Index])
    roots: list[Node] = field(default_factory=list[Node])
    kind: str = "map"
    scattered: Node | None = None
    step: Node | None = None
    sums: set[Node] = field(default_factory=set[Node])
    feeds: set[int] = field(default_factory=set[int])
    weight: int = 0
    reduces: int = 0
    next_range: int = 0
    reduce_ranges: dict[Any, ReduceRanges] = field(
        default_factory=dict[Any, ReduceRanges]
    )

    def __post_init__(self) -> None:
        for size in self.shape:
            self.indices.append(self.new_range(size))
        self.atoms = [index.terms[0][0] for index in self.indices]

    def widen(self, shape: Shape) -> None:
        """Adds the loops that `shape` has inside of the kernel's own."""
        for size in shape[len(self.shape) :]:
            index = self.new_range(size)
            self.indices.append(index)
            self.atoms.append(index.terms[0][0])
            self.shape = (*self.shape, size)

    def new_range(self, size: int, reduced: bool = False) -> Index:
        index = range_index(self.next_range, size, reduced)
        self.next_range += 1
        return index

    def root_indices(self, shape: Shape) -> tuple[Index, ...]:
        """The index of a value of that shape which this kernel stores.

        The value has an element per iteration of all loops, or of the outer ones.
        """
        return root_indices(self.indices, self.shape, shape)

    def ranges_for(self, key: Any, sizes: Sequence[int]) -> ReduceRanges:
        """The ranges of the reduces with that key: the same ones for the same key."""
        found = self.reduce_ranges.get(key)
        if found is None:
            indices = [self.new_range(n, True) for n in sizes]
            atoms = [a for index in indices for a, _ in index.terms]
            found = self.reduce_ranges[key] = ReduceRanges(atoms, indices)
        return found


@dataclass(eq=False)
class Schedule:
    """What `schedule` decided.

    Attributes:
      drafts: the kernels; those that are read come after those that read.
      stored: for each stored value the kernel that stores it.
      inlined: for each value the kernels that compute it.
      levels: for each value how many reduces are below it.
      readings: numbers for the values of index arrays at an index.
    """

    outputs: list[Node]
    drafts: list[Draft] = field(default_factory=list[Draft])
    stored: dict[Node, int] = field(default_factory=dict[Node, int])
    inlined: dict[Node, set[int]] = field(default_factory=dict[Node, set[int]])
    levels: dict[Node, int] = field(default_factory=dict[Node, int])
    readings: dict[Reading, int] = field(default_factory=dict[Reading, int])

    def number_of(self, reading: Reading) -> int:
        """The number of a reading: the same one for the same reading."""
        return self.readings.setdefault(reading, len(self.readings))


def root_indices(
    indices: Sequence[Index], loops: Shape, shape: Shape
) -> tuple[Index, ...]:
    """The index of a value of `shape` that has an element per iteration of loops."""
    depth = 0
    while prod(loops[:depth]) != prod(shape):
        depth += 1
    if squeeze(shape) == loops[:depth]:
        positions = iter(indices)
        return tuple(ZERO if n == 1 else next(positions) for n in shape)
    return unflatten_index(flatten_index(indices[:depth], loops[:depth]), shape)


def is_step(node: Node) -> bool:
    """Is it an operation that is a step of the program, or one of its results?"""
    return node.op is item_p or compound_of(node) is not None


def root_of(node: Node) -> Node:
    """The value whose memory a value is: reshapes and barriers share it."""
    while True:
        if node.op is reshape_p:
            node = node.src[0]
        elif node.op is item_p and node.src[0].op.family == "barrier":
            number: int = node.arg
            node = node.src[0].src[number]
        else:
            return node


def elements_of_sum(node: Node) -> Node:
    """What a sum adds up, in the shape and the dtype in which it is computed."""
    node = root_of(node.src[0])
    while node.op.name == "cast":
        node = root_of(node.src[0])
    return node


def shared_dear(order: Iterable[Node]) -> set[Node]:
    """Values with several users that are rather stored than computed again."""
    used: set[Node] = set()
    found: set[Node] = set()
    for node in order:
        for source in set(node.src):
            if source in used and weight(source) > CHEAP:
                found.add(source)
            used.add(source)
    return found


def squeeze(shape: Shape) -> Shape:
    return tuple(n for n in shape if n != 1)


def is_contraction(node: Node) -> bool:
    """A sum of products of which both factors are used again: matmul, convolution."""
    if node.op is not reduce_sum_p:
        return False
    product = node.src[0]
    while product.op.name == "cast":
        product = product.src[0]
    return product.op in (mul, mul_zero) and all(is_reused(s) for s in product.src)


def reduced_axes(node: Node) -> list[int]:
    axes: tuple[int, ...] = node.arg
    return [a for a in sorted(axes) if node.src[0].shape[a] != 1]


#: Gives the ranges of the reduces with a key, for the sizes of their axes.
RangesFor = Callable[[Any, Sequence[int]], ReduceRanges]


def operand_contexts(
    node: Node,
    context: Context,
    ranges_for: RangesFor,
    number_of: NumberOf,
    level: int,
) -> list[tuple[Node, Context]]:
    """What a node, computed in a context, needs, and where.

    Those are its operands; of a gather the array, and then what its index arrays read.
    """
    kernel, indices, valid = context
    family = node.op.family
    if family == "movement":
        where, inside = source_index(node, indices, valid)
        return [(node.src[0], Context(kernel, where, inside))]
    if family == "reduction":
        axes = reduced_axes(node)
        key = reduce_key(node, context, level)
        ranges = ranges_for(key, [node.src[0].shape[a] for a in axes])
        inner = list(indices)
        for axis, index in zip(axes, ranges.indices, strict=True):
            inner[axis] = index
        return [(node.src[0], Context(kernel, tuple(inner), valid))]
    if node.op is gather_p:
        return _gather_contexts(node, context, number_of)
    return [(source, context) for source in node.src]


def reduce_key(node: Node, context: Context, level: int) -> Any:
    """Reduces with one key share their ranges."""
    sizes = tuple(node.src[0].shape[a] for a in reduced_axes(node))
    rows = ranges_of_all(context.indices)
    alone = node if is_contraction(node) else None
    return sizes, rows, level, context.valid, alone


def _gather_contexts(
    node: Node, context: Context, number_of: NumberOf
) -> list[tuple[Node, Context]]:
    kernel, indices, valid = context
    axes: tuple[int, ...] = node.arg
    source, *arrays = node.src
    depth = arrays[0].ndim
    positions = [position_of(array, indices[:depth], valid) for array in arrays]
    found = {
        axis: position.as_index(number_of, source.shape[axis])
        for axis, position in zip(axes, positions, strict=True)
    }
    rest = iter(indices[depth:])
    where = tuple(found[a] if a in found else next(rest) for a in range(source.ndim))
    read = [r for position in positions for r, _ in position.readings]
    return [
        (source, Context(kernel, where, valid)),
        *((r.array, Context(kernel, r.indices, r.valid)) for r in read),
    ]


#: May a kernel over loops of these sizes add up the elements of a sum?
AddsUp = Callable[[Node, Shape], bool]


@without_collection
def schedule(
    outputs: Sequence[Node],
    forced: Iterable[Node] = (),
    adds_up: AddsUp | None = None,
) -> Schedule:
    """Decides what is stored and by which kernel.

    Args:
      outputs: nodes without sizes of 0.
      forced: further values to store, as a limit of the device demands.
      adds_up: see `beside.py`; None where no kernel does that.
    """
    return _Scheduler(outputs, frozenset(forced), adds_up).run()


class _Scheduler:
    def __init__(
        self,
        outputs: Sequence[Node],
        forced: frozenset[Node],
        adds_up: AddsUp | None,
    ) -> None:
        self.adds_up = adds_up
        self.result = Schedule(list(outputs))
        self.disabled = settings.current().disabled_rules
        self.forced = forced
        self.order = toposort(outputs)
        self.must_store = forced | {n for n in outputs if not is_variable(n)}
        for node in self.order:
            if compound_of(node) is not None:
                roots = map(root_of, node.src)
                self.must_store |= {r for r in roots if r.size and not is_variable(r)}
        self.shared: set[Node] = set()  # see `_sums_last`
        self.precedence = Precedence()
        # Kernels that read what a step computes.
        self.readers: dict[Node, set[int]] = {}
        # For each value its contexts, with how often each computes it too much and
        # the ranges of the loops around it, outermost first.
        self.contexts: dict[Node, dict[Context, tuple[int, tuple[Atom, ...]]]] = {}
        self.costs: dict[Node, int] = {}
        # What is computed from a contraction, element by element: better with it, and
        # stored where several kernels need it, than that the bare sums are stored.
        # Of each such value the contractions; of a contraction, how many use it.
        self.epilogue: dict[Node, frozenset[Node]] = {}
        self.users: dict[Node, int] = {}
        if adds_up is not None:
            self.order = self._sums_last()
        self._measure()

    def _measure(self) -> None:
        """Per node: operations below it down to what is loaded; reduces below it."""
        levels = self.result.levels
        for node in self.order:
            below = [levels[s] for s in node.src]
            levels[node] = max(below, default=0) + (node.op.family == "reduction")
            if node.op is not reshape_p:
                for root in {root_of(s) for s in node.src}:
                    if root in self.users:
                        self.users[root] += 1
            if is_step(node):
                levels[node] = self.costs[node] = 0
                continue
            if node in self.must_store or node.op.name in _SOURCES:
                self.costs[node] = 0
                continue
            if node.op.family == "reduction":
                # A reduce is stored, or done once per row, whoever uses it.
                self.costs[node] = 0
                if is_contraction(node):
                    self.epilogue[node] = frozenset((node,))
                    self.users[node] = 0
                continue
            contractions = self._contractions_of(node)
            if contractions:
                self.epilogue[node] = contractions
            total = sum(self.costs[s] for s in node.src) + weight(node)
            self.costs[node] = min(total, 10_000)

    def run(self) -> Schedule:
        for node in reversed(self.order):
            if is_variable(node):
                continue
            uses = self.contexts.pop(node, {})
            if node.op is item_p:
                readers = self.readers.setdefault(node.src[0], set())
                readers |= {context.kernel for context in uses}
            elif is_step(node):
                self._run_as_step(node)
            elif node.op in (scatter_p, copy) or node in self.must_store:
                self._store(node, uses)
            elif not uses:
                continue  # an index array that counts: nobody reads it
            elif node.op.name in _SOURCES or self._is_inlined(node, uses):
                self._inline(node, uses)
            else:
                self._store(node, uses)
        return self.result

    def _sums_last(self) -> list[Node]:
        """The nodes in an order in which sums wait for kernels that may add them up."""
        halves = [n for n in self.order if n.op is reduce_sum_p and self._is_half(n)]
        if not halves:
            return self.order
        self.shared = shared_dear(self.order)
        late = {n: 1 if self._will_be_stored(elements_of_sum(n)) else 2 for n in halves}
        for node in reversed(self.order):
            if node in late:
                for source in node.src:
                    late[source] = max(late[node], late.get(source, 0))
        return sorted(self.order, key=lambda n: -late.get(n, 0))

    def _will_be_stored(self, node: Node) -> bool:
        return node in self.must_store or node in self.shared

    def _is_half(self, node: Node) -> bool:
        assert self.adds_up is not None
        return self.adds_up(node, squeeze(elements_of_sum(node).shape))

    # Decisions.

    def _is_inlined(self, node: Node, uses: dict[Context, Any]) -> bool:
        if node.op.family == "reduction":
            return self._reduce_is_inlined(node, uses)
        cost = self.costs[node]
        if node.op.family == "movement":
            return all(self._is_plain(context) for context in uses)
        if cost == 0:
            return True
        drafts = self.result.drafts
        kernels = {context.kernel for context in uses}
        own = weight(node)
        if any(drafts[k].weight + own > KERNEL_LIMIT for k in kernels):
            return False
        if not self._may_fuse(uses):
            return False
        again = max(factor for factor, _ in uses.values()) > 1
        if again and (cost > CHEAP or any(self._in_product(c) for c in uses)):
            return False
        if len(kernels) > 1 and not self._is_done_again(node, cost, len(kernels)):
            return False
        return cost * (len(uses) - len(kernels)) <= RECOMPUTE

    def _is_done_again(self, node: Node, cost: int, kernels: int) -> bool:
        """Is a value that several kernels need computed in each of them?"""
        if "recompute_cheap" in self.disabled:
            return False
        if node not in self.epilogue:
            return cost <= CHEAP and kernels <= 4
        # What all of it is made of is stored: the contraction, or the first step after.
        first = any(self.users.get(root_of(s)) == 1 for s in node.src)
        return not first and cost <= RECOMPUTE and kernels == 2

    @staticmethod
    def _is_plain(context: Context) -> bool:
        """Is the index short? Reshapes of transposes of reshapes make it grow fast."""
        return sum(complexity(index) for index in context.indices) <= INDEX_LIMIT

    def _may_fuse(self, uses: dict[Context, Any]) -> bool:
        """Are the decisions by which its users would compute it switched on?"""
        if not self.disabled:
            return True
        inside = [any(a.reduced for a in ranges_of_all(c.indices)) for c in uses]
        return not (
            ("fuse_into_reduce" in self.disabled and any(inside))
            or ("fuse_elementwise" in self.disabled and not all(inside))
        )

    def _in_product(self, context: Context) -> bool:
        """Is it an operand of a contraction?"""
        draft = self.result.drafts[context.kernel]
        rows = ranges_of_all(context.indices)
        return draft.kind == "contract" and any(a.reduced for a in rows)

    def _reduce_is_inlined(self, node: Node, uses: dict[Context, Any]) -> bool:
        if len(uses) != 1:
            return False
        ((context, (factor, _)),) = uses.items()
        draft = self.result.drafts[context.kernel]
        rows = ranges_of_all(context.indices)
        if factor != 1 or context.valid != ALWAYS or draft.kind == "scatter":
            return False
        if prod(a.size for a in rows) != node.size:
            return False
        whole = rows == set(draft.atoms)
        if ("fuse_after_reduce" if whole else "fuse_rows") in self.disabled:
            return False
        if is_contraction(node):
            return whole and draft.reduces == 0
        if draft.kind == "contract":
            return False
        nested = any(a.reduced for a in rows)
        return not nested or sample(node.src[0].size) <= NESTED

    # Consequences.

    def _inline(self, node: Node, uses: dict[Context, Any]) -> None:
        kernels = self.result.inlined.setdefault(node, set())
        for context, (_, path) in uses.items():
            draft = self.result.drafts[context.kernel]
            kernels.add(context.kernel)
            draft.weight += weight(node)
            level = self.result.levels[node]
            if node.op.family == "reduction":
                draft.reduces += 1
                if is_contraction(node):
                    draft.kind = "contract"
            below = operand_contexts(
                node, context, draft.ranges_for, self.result.number_of, level
            )
            for source, inner in below:
                ranges = ranges_of_all(inner.indices)
                around = path + tuple(
                    sorted(a for a in ranges if a not in path and a.reduced)
                )
                self._use(source, inner, around)

    def _use(self, node: Node, context: Context, path: tuple[Atom, ...]) -> None:
        """Notes that a kernel needs `node`; only as far in as its ranges reach."""
        ranges = ranges_of_all(context.indices)
        depth = max((k + 1 for k, a in enumerate(path) if a in ranges), default=0)
        around = path[:depth]
        factor = prod(sample(a.size) for a in around if a not in ranges)
        known = self.contexts.setdefault(node, {})
        if context not in known or known[context][0] < factor:
            known[context] = (factor, around)

    def _store(self, node: Node, uses: dict[Context, Any]) -> None:
        if node.op is scatter_p:
            self._store_scatter(node, uses)
            return
        draft: Draft | None = None
        free = node not in self.forced and self._may_fuse(uses)
        if free and self.adds_up is not None:
            draft = self._kernel_that_adds_up(node, uses)
            if draft is not None:
                self._add_up(node, draft, uses)
                return
        if free and "store_beside" not in self.disabled:
            draft = self._kernel_that_has_it(node, uses)
        if draft is None and free and "store_rows" not in self.disabled:
            draft = self._kernel_that_reduces_it(node, uses)
        if draft is None and free and "share_loops" not in self.disabled:
            draft = self._kernel_alike(node, uses)
        if draft is None and free and "store_rows" not in self.disabled:
            draft = self._kernel_over_rows(node, uses)
        if draft is None:
            draft = self._new_draft(squeeze(node.shape))
        draft.roots.append(node)
        self.result.stored[node] = draft.number
        self._feed(draft, {c.kernel for c in uses} - {draft.number})
        here = {c: v for c, v in uses.items() if c.kernel == draft.number}
        root = Context(draft.number, draft.root_indices(node.shape), ALWAYS)
        if not any(self._is_aligned(node, c, draft) for c in here):
            own = ranges_of_all(root.indices)  # of a value per row the outer ones
            here[root] = (1, tuple(a for a in draft.atoms if a in own))
        self._inline(node, here)

    def _add_up(self, node: Node, draft: Draft, uses: dict[Context, Any]) -> None:
        """A kernel adds the elements of a sum to it, as it comes to them."""
        draft.roots.append(node)
        draft.sums.add(node)
        draft.weight += weight(node)
        self.result.stored[node] = draft.number
        self._feed(draft, {c.kernel for c in uses})
        elements = node.src[0]
        at = Context(draft.number, draft.root_indices(elements.shape), ALWAYS)
        self._use(elements, at, tuple(draft.atoms))

    def _run_as_step(self, node: Node) -> None:
        draft = self._new_draft(())
        draft.kind, draft.step = "step", node
        self._feed(draft, self.readers.pop(node, set()))
        for source in node.src:
            root = root_of(source)
            at = Context(draft.number, (ZERO,) * root.ndim, ALWAYS)
            self._use(root, at, ())

    def _new_draft(self, shape: Shape) -> Draft:
        draft = Draft(len(self.result.drafts), shape)
        self.result.drafts.append(draft)
        self.precedence.add(draft.number)
        return draft

    def _feed(self, draft: Draft, readers: set[int]) -> None:
        """Notes that these kernels read what one stores."""
        draft.feeds |= readers
        self.precedence.add(draft.number, readers)

    def _is_aligned(self, node: Node, context: Context, draft: Draft) -> bool:
        """Does the kernel compute each element of `node` once, at its loops' pace?"""
        if context.valid != ALWAYS or node.shape == ():
            return context.valid == ALWAYS and not ranges_of_all(context.indices)
        position = flatten_index(context.indices, node.shape)
        depth = len(ranges_of_all(context.indices))
        outer = draft.indices[:depth]
        return position == flatten_index(outer, draft.shape[:depth]) and (
            prod(draft.shape[:depth]) == node.size
        )

    def _kernel_that_has_it(self, node: Node, uses: dict[Context, Any]) -> Draft | None:
        """A kernel that computes the value anyway, and can store it as well."""
        kernels = {context.kernel for context in uses}
        for number in sorted(kernels):
            draft = self.result.drafts[number]
            here = [c for c in uses if c.kernel == number]
            aligned = [c for c in here if self._is_aligned(node, c, draft)]
            if len(aligned) != 1 or draft.kind in ("scatter", "step"):
                continue
            if node.op is copy or len(draft.roots) >= ROOTS:
                continue
            if node.op.family == "reduction":
                here_only = {aligned[0]: uses[aligned[0]]}
                if len(here) > 1 or not self._reduce_is_inlined(node, here_only):
                    continue
            elif (
                self.costs_below(node) * (len(here) - 1) > RECOMPUTE
                or draft.weight + weight(node) > KERNEL_LIMIT
            ):
                continue
            if not self.precedence.is_before(kernels - {number}, number):
                return draft
        return None

    def _kernel_that_reduces_it(
        self, node: Node, uses: dict[Context, Any]
    ) -> Draft | None:
        """A kernel of rows that reduces each row of a value: it can store it as well.

        Its loops grow. Each row is computed twice, from what is then in the cache.
        """
        shape = squeeze(node.shape)
        if node.op.family not in _ELEMENTWISE or node in self.epilogue:
            return None
        kernels = {context.kernel for context in uses}
        for number in sorted(kernels):
            draft = self.result.drafts[number]
            here = [c for c in uses if c.kernel == number]
            if len(here) != 1 or draft.kind != "map" or draft.sums:
                continue
            if not draft.shape or not _are_rows(draft.shape, shape):
                continue
            if len(draft.roots) >= ROOTS or not _is_row(node, here[0], draft):
                continue
            cost = self.costs_below(node)
            if cost > RECOMPUTE or draft.weight + cost > KERNEL_LIMIT:
                continue
            if not self.precedence.is_before(kernels - {number}, number):
                draft.widen(shape)
                return draft
        return None

    def costs_below(self, node: Node) -> int:
        """The cost of a stored value, were it not stored."""
        return min(sum(self.costs[s] for s in node.src) + weight(node), 10_000)

    def _kernel_alike(self, node: Node, uses: dict[Context, Any]) -> Draft | None:
        """A kernel over the same loops that may store this value too.

        Of several, one that reads what a large reduce adds up; and the second half of
        a reduce as late as may be, for where it runs its first half has to run before.
        """
        if is_contraction(node) or node.op is copy:
            return None
        shape = squeeze(node.shape)
        readers = self._readers_of_elements(node)
        found: Draft | None = None
        kernels = {context.kernel for context in uses}
        latest = self.result.drafts[-32:]
        for draft in latest if _is_second_half(node) else reversed(latest):
            if draft.shape != shape or draft.kind != "map" or draft.number in kernels:
                continue
            if len(draft.roots) >= ROOTS or draft.weight + 64 > KERNEL_LIMIT:
                continue
            if self._has_another_contraction(node, draft):
                continue
            if found is not None and draft.number not in readers:
                continue
            if not self.precedence.is_before(kernels, draft.number):
                if not readers or draft.number in readers:
                    return draft
                found = draft
        return found

    def _readers_of_elements(self, node: Node) -> set[int]:
        """Of a large reduce, the kernels that need what its elements are made of."""
        found: set[int] = set()
        if node.op.family != "reduction" or sample(node.src[0].size) < NESTED:
            return found
        size, seen = node.src[0].size, {node}
        pending = [node]
        while pending and len(seen) < _NEAR:
            for source in pending.pop().src:
                if source not in seen and source.size == size:
                    seen.add(source)
                    pending.append(source)
                    found |= {c.kernel for c in self.contexts.get(source, ())}
        return found

    def _kernel_over_rows(self, node: Node, uses: dict[Context, Any]) -> Draft | None:
        """A kernel over rows of which one of both stores a value for each.

        The other one's values are the rows' elements, and both need the same ones:
        they are read once. The kernel's loops grow where it had only rows so far.
        """
        shape = squeeze(node.shape)
        if not shape or node.op is copy or is_contraction(node):
            return None
        kernels = {context.kernel for context in uses}
        for draft in reversed(self.result.drafts[-32:]):
            if draft.kind != "map" or draft.number in kernels or not draft.shape:
                continue
            if len(draft.roots) >= ROOTS or draft.weight + 64 > KERNEL_LIMIT:
                continue
            rows, whole = sorted((shape, draft.shape), key=len)
            if not _are_rows(rows, whole):
                continue
            short = (node,) if shape is rows else draft.roots
            if not all(self.result.levels[n] for n in short):
                continue
            if draft.sums and len(shape) > len(draft.shape):
                continue
            if self._both_need(node, draft, whole, len(rows)) and not (
                self.precedence.is_before(kernels, draft.number)
            ):
                draft.widen(shape)
                return draft
        return None

    def _kernel_that_adds_up(
        self, node: Node, uses: dict[Context, Any]
    ) -> Draft | None:
        """A kernel over the elements of a sum that needs what they are made of."""
        assert self.adds_up is not None
        if node.op is not reduce_sum_p or self._contractions_of(node):
            return None
        kernels = {context.kernel for context in uses}
        for draft in reversed(self.result.drafts[-32:]):
            if draft.kind != "map" or draft.number in kernels:
                continue
            if len(draft.roots) >= ROOTS or draft.weight + 64 > KERNEL_LIMIT:
                continue
            if not self.adds_up(node, draft.shape):
                continue
            if self._both_need(node, draft, draft.shape, len(draft.shape) - 1) and not (
                self.precedence.is_before(kernels, draft.number)
            ):
                return draft
        elements = elements_of_sum(node)
        shape = squeeze(elements.shape)
        if self._will_be_stored(elements) and elements.op.family in _ELEMENTWISE:
            return self._new_draft(shape) if self.adds_up(node, shape) else None
        return None

    def _both_need(self, node: Node, draft: Draft, whole: Shape, depth: int) -> bool:
        """Do a kernel and a value need an array of that shape, row by row?

        The first `depth` of its axes, of those of more than 1, are the rows.
        """
        rows = set(draft.atoms[:depth])
        seen: set[Node] = {node}
        pending = [node]
        while pending and len(seen) < _NEAR:
            above = pending.pop()
            if above.op.family == "movement" and above.op not in (expand_p, reshape_p):
                continue
            for source in above.src:
                if source in seen:
                    continue
                seen.add(source)
                pending.append(source)
                if squeeze(source.shape) != whole:
                    continue
                first = [a for a, n in enumerate(source.shape) if n != 1][depth]
                for context in self.contexts.get(source, ()):
                    outer = ranges_of_all(context.indices[:first])
                    if context.kernel == draft.number and outer == rows:
                        return True
        return False

    def _has_another_contraction(self, node: Node, draft: Draft) -> bool:
        """Would one of two contractions have to leave the kernel of its epilogue?"""
        mine = self._contractions_of(node)
        others = [self._contractions_of(root) for root in draft.roots]
        return bool(mine) and any(other and mine != other for other in others)

    def _contractions_of(self, node: Node) -> frozenset[Node]:
        """Those from which a value is computed element by element: the latest.

        A sum over all layers of a network is made of a contraction of each of them.
        """
        found = {self.epilogue[s] for s in node.src if s in self.epilogue}
        if len(found) < 2:
            return found.pop() if found else frozenset()
        joined = frozenset[Node]().union(*found)
        if len(joined) > CONTRACTIONS:
            latest = sorted(joined, key=lambda n: n.serial)[-CONTRACTIONS:]
            joined = frozenset(latest)
        return joined

    def _store_scatter(self, node: Node, uses: dict[Context, Any]) -> None:
        """First a kernel that stores the operand, then one that applies the updates."""
        x, updates, *_ = node.src
        apply = self._new_draft(squeeze(updates.shape))
        apply.kind = "scatter"
        apply.scattered = node
        self._feed(apply, {c.kernel for c in uses})
        prepare = self._new_draft(squeeze(node.shape))
        prepare.kind = "scatter"
        prepare.roots.append(node)
        self._feed(prepare, {apply.number})
        self.result.stored[node] = apply.number
        self.result.inlined[node] = {prepare.number}
        start = Context(prepare.number, prepare.root_indices(node.shape), ALWAYS)
        self._use(x, start, tuple(prepare.atoms))
        at = apply.root_indices(updates.shape)
        path = tuple(apply.atoms)
        self._use(updates, Context(apply.number, at, ALWAYS), path)
        for target in targets_of(node, at):
            for reading, _ in target.readings:
                here = Context(apply.number, reading.indices, reading.valid)
                self._use(reading.array, here, path)


def _are_rows(rows: Shape, whole: Shape) -> bool:
    """Are the loops of one shape the outer ones of another, of enough rows?"""
    inside = len(whole) - len(rows)
    return whole[: len(rows)] == rows and (
        inside == 1 or (inside > 1 and sample(prod(rows)) >= MANY)
    )


def _is_second_half(node: Node) -> bool:
    """Is it a reduce of what another one of its kind gives?"""
    return node.op.family == "reduction" and root_of(node.src[0]).op is node.op


def _is_row(node: Node, context: Context, draft: Draft) -> bool:
    """Are the indices of a use those of the loops, and then ranges of a reduce?"""
    pairs = [p for p in zip(context.indices, node.shape, strict=True) if p[1] != 1]
    depth = len(draft.shape)
    if context.valid != ALWAYS or [i for i, _ in pairs[:depth]] != draft.indices:
        return False
    inner = [(tuple(c for _, c in i.terms), i, n) for i, n in pairs[depth:]]
    return all(
        c == (1,)
        and i.constant == 0
        and i.terms[0][0].reduced
        and i.terms[0][0].size == n
        for c, i, n in inner
    )


def weight(node: Node) -> int:
    """Operations that one element of a node costs, its operands aside."""
    family = node.op.family
    if family in ("movement", "source", "identity", "cast"):
        return 0
    if family == "reduction":
        return 2
    if node.op.name in _COSTLY:
        return 20 if node.op.name in ("lgamma", "digamma", "erf_inv", "pow") else 10
    return 3 if family == "indexing" else 1
