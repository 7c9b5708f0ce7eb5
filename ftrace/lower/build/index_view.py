"""What a kernel computes of each node, and where, before anything is built.

A draft says what is stored. Under a layout, the sizes of its loops, each node that the
kernel needs is asked for in *contexts*: at an index, and where that is valid.

The layout is the one that leaves the least arithmetic. The loops of a draft run over
the shape of what it stores. Other factors of the same row-major space may serve better,
and are tried on paper before anything is built:

    i < 64 with i // 8 and i % 8   ->  i1 < 8, i2 < 8      (split_ranges)
    i < 64, j < 32, all contiguous ->  i < 2048            (merge_ranges)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from heapq import heappop, heappush
from math import prod

from ftrace.ground import settings
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.analysis import reduced_axes
from ftrace.lower.fusion import drafts
from ftrace.lower.kernel import affine_index as ix
from ftrace.lower.kernel.iota_indices import never_meeting, targets_of
from ftrace.lower.kernel.ir import axis_of, range_p
from ftrace.trace.graph import Node
from ftrace.trace.primitives.indexing import axes_and_kind
from ftrace.trace.primitives.sources import const_p, dim_p, iota_p
from ftrace.trace.symbolic import same_size, sample, surely_less


@dataclass(eq=False)
class View:
    """The contexts of one draft under one layout of its ranges."""

    draft: drafts.Draft
    plan: drafts.FusionPlan
    layout: drafts.Layout
    contexts: dict[Node, dict[drafts.Context, None]] = field(
        default_factory=dict[Node, dict[drafts.Context, None]]
    )

    def __post_init__(self) -> None:
        # Of a node in a context; building asks again for what was needed here.
        self._operands: dict[
            tuple[Node, drafts.Context], list[tuple[Node, drafts.Context]]
        ] = {}
        self._facts: list[ix.Index] | None = None
        self.members: list[Node] = []
        self.loaded: set[Node] = set()  # members that another kernel computes
        self.ranges = drafts.Ranges(self.layout)
        self.axes = self.ranges.group(None, self.draft.shape)
        self.shape = self.draft.shape
        self._derive()

    def root_contexts(self) -> list[tuple[Node, drafts.Context]]:
        at, indices = self.draft.at, self.axes.indices
        scattered = self.draft.scattered
        if scattered is not None:
            updates = scattered.src[1]
            where = drafts.root_indices(indices, self.shape, updates.shape)
            targets = targets_of(scattered, where, self.plan.number_of).values()
            read = self.plan.reads([t.where for t in targets], self.draft)
            return [(updates, at(where)), *read]
        sums = self.draft.sums
        roots = [
            n.src[0] if self.draft.kind == "scatter" or n in sums else n
            for n in self.draft.roots
        ]
        return [
            (n, at(drafts.root_indices(indices, self.shape, n.shape))) for n in roots
        ]

    def _derive(self) -> None:
        """Contexts of all nodes of the kernel, from its roots down."""
        pending: list[tuple[int, Node]] = []
        places, inlined = self.plan.order, self.plan.inlined

        def need(node: Node, context: drafts.Context) -> None:
            if node not in self.contexts:
                heappush(pending, (-places[node], node))
            self.contexts.setdefault(node, {})[context] = None

        for node, context in self.root_contexts():
            need(node, context)
        while pending:  # a node after all that need it
            _, node = heappop(pending)
            self.members.append(node)
            if self.draft.number not in inlined.get(node, ()):
                self.loaded.add(node)
                continue
            for context in self.contexts[node]:
                for source, inner in self.operands(node, context):
                    if inner.valid is not None:
                        need(source, inner)
        self.members.reverse()

    def operands(
        self, node: Node, context: drafts.Context
    ) -> list[tuple[Node, drafts.Context]]:
        """What a node needs in a context, and where: see `operand_contexts`."""
        found = self._operands.get((node, context))
        if found is not None:
            return found
        found = drafts.operand_contexts(
            node, context, self.draft, self.ranges, self.plan
        )
        self._operands[node, context] = found
        return found

    def facts(self) -> list[ix.Index]:
        """Every index that the kernel will compute."""
        if self._facts is None:
            self._facts = self._find_facts()
        return self._facts

    def _find_facts(self) -> list[ix.Index]:
        found: dict[ix.Index, None] = {}
        for node, contexts in self.contexts.items():
            for context in contexts:
                if context.valid is None:
                    continue
                found.update(dict.fromkeys(c.position for c in context.valid))
                if node in self.loaded and node.op not in (const_p, dim_p):
                    found[ix.flatten_index(context.indices, node.shape)] = None
                elif node.op is iota_p:
                    axis: int = node.arg
                    found[context.indices[axis]] = None
        for node, context in self.stores():
            found[ix.flatten_index(context.indices, node.shape)] = None
            assert context.valid is not None
            found.update(dict.fromkeys(c.position for c in context.valid))
        return list(found)

    def stores(self) -> list[tuple[Node, drafts.Context]]:
        """What is stored, and at which index of its buffer."""
        if self.draft.scattered is not None:
            return [(self.draft.scattered, self._scatter_index())]
        contexts = [context for _, context in self.root_contexts()]
        pairs = zip(self.draft.roots, contexts, strict=True)
        found = [(n, self._of_sum(n, c)) for n, c in pairs]
        return sorted(found, key=lambda pair: pair[0] not in self.draft.sums)

    def _of_sum(self, node: Node, context: drafts.Context) -> drafts.Context:
        """Where a sum is, of one of whose elements the context is given."""
        if node not in self.draft.sums:
            return context
        axes = reduced_axes(node)
        where = [ix.ZERO if a in axes else i for a, i in enumerate(context.indices)]
        return self.draft.at(tuple(where), context.valid)

    def row_of_sum(self, node: Node) -> ix.Index:
        """Which of the elements that a sum is made of is added now."""
        at = drafts.root_indices(self.axes.indices, self.shape, node.src[0].shape)
        (axis,) = reduced_axes(node)
        return at[axis]

    def _scatter_index(self) -> drafts.Context:
        """Where updates go, and where those are in bounds whose index counts."""
        node = self.draft.scattered
        assert node is not None
        at = drafts.root_indices(self.axes.indices, self.shape, node.src[1].shape)
        found: dict[int, ix.Index] = {}
        valid = ix.ALWAYS
        for axis, target in targets_of(node, at, self.plan.number_of).items():
            found[axis], size = target.where, node.shape[axis]
            if target.counts and not ix.is_within(target.where, 0, size):
                valid |= {ix.Condition(target.where, 0, size)}
        rest = iter(at[node.src[2].ndim :])
        where = tuple(found[a] if a in found else next(rest) for a in range(node.ndim))
        return self.draft.at(where, valid)

    def meeting(self) -> frozenset[int]:
        """Ranges along which several updates may hit the same element."""
        node = self.draft.scattered
        if node is None:
            rows = map(self.row_of_sum, self.draft.sums)
            return frozenset(
                axis_of(a).number for row in rows for a in ix.ranges_of(row)
            )
        batch = drafts.root_indices(self.axes.indices, self.shape, node.src[1].shape)
        ranges = ix.ranges_of_all(batch[: node.src[2].ndim])
        ((_, context),) = self.stores()
        where = context.indices
        positions = [where[a] for a in axes_and_kind(node)[0]]
        whole = ix.flatten_index(where, node.shape)
        disjoint = never_meeting([*positions, whole], ranges)
        return frozenset(axis_of(a).number for a in ranges - disjoint)


#: What `config.disabled_rules` can switch off here.
DECISIONS = {
    "split_ranges": "a range that is divided by a constant becomes two",
    "merge_ranges": "neighbouring ranges that run on contiguously become one",
}

#: A range is split so often at most: a bound of time, with 2 or 32 no row differs.
_SPLITS = 8


def choose_view(draft: drafts.Draft, plan: drafts.FusionPlan) -> View:
    """The view of a draft under the layout that is chosen for it."""
    layout: drafts.Layout = {None: draft.shape}
    view = View(draft, plan, layout)
    for _ in range(_SPLITS if settings.decides("split_ranges") else 0):
        split = split_ranges(view)
        if split is None:
            break
        layout = layout | split
        view = View(draft, plan, layout)
    merged = merge_ranges(view) if settings.decides("merge_ranges") else {}
    return View(draft, plan, layout | merged) if merged else view


def split_ranges(view: View) -> drafts.Layout | None:
    """A layout in which a range that is divided by a constant is two ranges."""
    for index in view.facts():
        for atom, inside in _divided_ranges(index):
            for group in view.ranges.groups:
                if atom in group.atoms:
                    sizes: list[int] = []
                    for number, size in enumerate(group.sizes):
                        ours = _atom_at(group, number) == atom
                        sizes += [size // inside, inside] if ours else [size]
                    return {group.node: tuple(sizes)}
    return None


def _divided_ranges(index: ix.Index) -> list[tuple[Node, int]]:
    """(range, n): splitting the range by n would remove a division."""
    found: list[tuple[Node, int]] = []
    for inner, divisor in ix.divisions_in(index):
        for atom, coefficient in inner.pairs:
            if atom.op is not range_p or not surely_less(0, coefficient):
                continue
            size = ix.size_of(atom)
            inside, left = divmod(divisor, coefficient)
            between = surely_less(1, inside) and surely_less(inside, size)
            if between and same_size((left, size % inside), (0, 0)):
                found.append((atom, inside))
    return found


def _atom_at(group: drafts.Group, number: int) -> Node | None:
    """The atom of the group's range of that number; None for a size of 1."""
    if same_size(group.sizes[number], 1):
        return None
    return group.atoms[sum(not same_size(n, 1) for n in group.sizes[:number])]


def merge_ranges(view: View) -> drafts.Layout:
    """Layouts in which neighbouring ranges that run on contiguously are one."""
    facts = view.facts()
    opaque = {a for index in facts for a in _hidden_ranges(index)}
    result: drafts.Layout = {}
    for group in view.ranges.groups:
        sizes = [n for n in group.sizes if not same_size(n, 1)]
        merged = [sizes[0]] if sizes else []
        for position in range(1, len(sizes)):
            outer, inner = group.atoms[position - 1], group.atoms[position]
            if outer in opaque or inner in opaque:
                joined = False
            else:
                joined = all(_runs_on(index, outer, inner) for index in facts)
                joined = joined and _are_stored_together(view, group, position)
            if joined:
                merged[-1] *= sizes[position]
            else:
                merged.append(sizes[position])
        if not same_size(tuple(merged), group.sizes):
            result[group.node] = tuple(merged)
    return result


def _are_stored_together(view: View, group: drafts.Group, position: int) -> bool:
    """Does no stored value, and no reduce, belong to the outer of two ranges only?"""
    if group.node is not None:
        return True
    sizes = [sample(n) for n in group.sizes if not same_size(n, 1)]
    inside = prod(sizes[position:])
    if view.draft.scattered is not None:
        stored = [view.draft.scattered.src[1]]
    else:
        stored = view.draft.roots
    around = prod(sizes[: position - 1])
    if any(
        sample(n.size) * inside <= prod(sizes) and sample(n.size) > around
        for n in stored
    ):
        return False
    outer, inner = group.atoms[position - 1 : position + 1]
    for inner_group in view.ranges.groups[1:]:
        node = inner_group.node
        assert node is not None
        for context in view.contexts.get(node, ()):
            used = {a for i in context.indices for a, _ in i.pairs}
            if outer in used and inner not in used:
                return False
    return True


def _hidden_ranges(index: ix.Index) -> Iterator[Node]:
    """Ranges inside a division. What an index array is read at is a fact by itself."""
    for inner, _ in ix.divisions_in(index):
        yield from (atom for atom, _ in inner.pairs if atom.op is range_p)


def _runs_on(index: ix.Index, outer: Node, inner: Node) -> bool:
    terms = index.terms
    return same_size(terms.get(outer, 0), ix.size_of(inner) * terms.get(inner, 0))
