"""From a schedule's draft to a kernel: expressions over well-chosen ranges.

The loops of a draft run over the shape of what it stores. Other factors of the same
row-major space may serve better, and are tried on paper before anything is built:

    i < 64 with i // 8 and i % 8   ->  i1 < 8, i2 < 8      (split_ranges)
    i < 64, j < 32, all contiguous ->  i < 2048            (merge_ranges)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from math import prod
from typing import Any

from ftrace import settings
from ftrace.lower.drafts import (
    Context,
    Draft,
    ReduceRanges,
    Schedule,
    operand_contexts,
    reduce_key,
    root_indices,
)
from ftrace.lower.finite import relax_products
from ftrace.lower.index import (
    ALWAYS,
    ZERO,
    Atom,
    Condition,
    Index,
    Valid,
    flatten_index,
    is_within,
    range_index,
    range_node,
    ranges_of,
    ranges_of_all,
    render_index,
    render_valid,
    unflatten_index,
    value_numbers,
)
from ftrace.lower.kernel import (
    INDEX,
    BufferSpec,
    Kernel,
    KernelInfo,
    Store,
    load,
    load_p,
    param,
    reduce,
)
from ftrace.lower.positions import (
    Reading,
    never_meeting,
    targets_of,
    values_of,
)
from ftrace.lower.values import reduced_axes, weight
from ftrace.origin import Origin
from ftrace.trace.avals import Shape, ShapedArray
from ftrace.trace.graph import Node, inherited_origin, make_node
from ftrace.trace.primitives.elementwise import (
    bit_and,
    cast,
    ge,
    lt,
    select,
)
from ftrace.trace.primitives.indexing import axes_and_kind, gather_p
from ftrace.trace.primitives.source import const, const_p, dim_p, iota_p, zeros_like
from ftrace.trace.sizes import sample, surely_less

_REDUCE_NAME = {
    "reduce_sum": "add", "reduce_prod": "mul", "reduce_max": "max", "reduce_min": "min",
}  # fmt: skip
_IDENTITIES = ("copy", "stop_gradient")

#: What `config.disabled_rules` can switch off here.
DECISIONS = {
    "split_ranges": "a range that is divided by a constant becomes two",
    "merge_ranges": "neighbouring ranges that run on contiguously become one",
}

#: The sizes of the loops of a group of ranges: of the kernel (None) or of a reduce.
Layout = dict[Any, Shape]


@dataclass(frozen=True, eq=False)
class BuiltKernel:
    """A kernel, and the value that each of its buffers holds.

    Attributes:
      stores: values that it stores, by the number of the kernel's buffer.
      loads: values that it reads, likewise.
    """

    kernel: Kernel
    info: KernelInfo
    stores: dict[int, Node]
    loads: dict[int, Node]

    @property
    def buffers(self) -> list[Node]:
        """The value in each buffer of the kernel, in order."""
        both = self.stores | self.loads
        return [both[i] for i in range(len(both))]


def build_kernel(draft: Draft, plan: Schedule) -> BuiltKernel:
    """The kernel of a draft, over the ranges that leave the least arithmetic."""
    disabled = settings.current().disabled_rules
    layout: Layout = {None: draft.shape}
    view = _View(draft, plan, layout)
    for _ in range(0 if "split_ranges" in disabled else 8):
        split = split_ranges(view)
        if split is None:
            break
        layout = layout | split
        view = _View(draft, plan, layout)
    merged = {} if "merge_ranges" in disabled else merge_ranges(view)
    if merged:
        view = _View(draft, plan, layout | merged)
    built = view.build()
    if "relax_products" in disabled:
        return built
    return replace(built, kernel=relax_products(built.kernel))


@dataclass(eq=False)
class _Group(ReduceRanges):
    """Ranges in the layout's sizes; `node` is the first reduce that asked for them."""

    node: Node | None = None
    sizes: Shape = ()


@dataclass(eq=False)
class _View:
    """The contexts of one draft under one layout of its ranges."""

    draft: Draft
    plan: Schedule
    layout: Layout
    groups: list[_Group] = field(default_factory=list[_Group])
    contexts: dict[Node, dict[Context, None]] = field(
        default_factory=dict[Node, dict[Context, None]]
    )
    next_range: int = 0

    def __post_init__(self) -> None:
        # Of a node in a context; building asks again for what was needed here.
        self._operands: dict[tuple[Node, Context], list[tuple[Node, Context]]] = {}
        self._facts: list[Index] | None = None
        self.by_key: dict[Any, _Group] = {}
        self.arrays: dict[int, tuple[Node, Context]] = {}
        self.members: list[Node] = []
        self.axes = self._new_group(None, self.draft.shape, False)
        self.shape = self.draft.shape
        self._derive()

    # What `operand_contexts` asks of a draft.
    def ranges_for(self, key: Any, sizes: Sequence[int]) -> ReduceRanges:
        found = self.by_key.get(key)
        if found is None:
            found = self._new_group(self._asking, tuple(sizes), True)
            self.by_key[key] = found
        return found

    def _new_group(self, node: Node | None, sizes: Shape, reduced: bool) -> _Group:
        chosen = self.layout.get(node, sizes)
        ranges: list[Index] = []
        for size in chosen:
            ranges.append(range_index(self.next_range, size, reduced))
            self.next_range += 1
        atoms = [a for r in ranges for a, _ in r.terms]
        indices = (
            ranges
            if chosen == sizes
            else list(unflatten_index(flatten_index(ranges, chosen), sizes))
        )
        group = _Group(atoms, indices, node, chosen)
        self.groups.append(group)
        return group

    def is_loaded(self, node: Node) -> bool:
        return self.draft.number not in self.plan.inlined.get(node, ())

    def root_contexts(self) -> list[tuple[Node, Context]]:
        number, indices = self.draft.number, self.axes.indices
        scattered = self.draft.scattered
        if scattered is not None:
            updates = scattered.src[1]
            at = root_indices(indices, self.shape, updates.shape)
            read = [r for t in targets_of(scattered, at) for r, _ in t.readings]
            return [(updates, Context(number, at, ALWAYS))] + [
                (r.array, Context(number, r.indices, r.valid)) for r in read
            ]
        sums = self.draft.sums
        roots = [
            n.src[0] if self.draft.kind == "scatter" or n in sums else n
            for n in self.draft.roots
        ]
        return [
            (n, Context(number, root_indices(indices, self.shape, n.shape), ALWAYS))
            for n in roots
        ]

    def _derive(self) -> None:
        """Contexts of all nodes of the kernel, from its roots down."""
        pending: list[tuple[int, Node]] = []

        def need(node: Node, context: Context) -> None:
            if node not in self.contexts:
                heappush(pending, (-node.serial, node))
            self.contexts.setdefault(node, {})[context] = None

        for node, context in self.root_contexts():
            need(node, context)
        while pending:  # a node after all that need it
            _, node = heappop(pending)
            self.members.append(node)
            if self.is_loaded(node):
                continue
            for context in self.contexts[node]:
                for source, inner in self.operands(node, context):
                    if inner.valid is not None:
                        need(source, inner)
        self.members.reverse()

    def operands(self, node: Node, context: Context) -> list[tuple[Node, Context]]:
        """What a node needs in a context, and where: see `operand_contexts`."""
        found = self._operands.get((node, context))
        if found is not None:
            return found
        self._asking = node
        plan = self.plan
        found = operand_contexts(
            node, context, self.ranges_for, plan.number_of, plan.levels[node]
        )
        if node.op is gather_p:
            self._note_readings(found[1:])
        self._operands[node, context] = found
        return found

    def _note_readings(self, found: Sequence[tuple[Node, Context]]) -> None:
        for array, here in found:
            reading = Reading(array, here.indices, here.valid)
            self.arrays[self.plan.number_of(reading)] = (array, here)

    def facts(self) -> list[Index]:
        """Every index that the kernel will compute."""
        if self._facts is None:
            self._facts = self._find_facts()
        return self._facts

    def _find_facts(self) -> list[Index]:
        found: dict[Index, None] = {}
        for node, contexts in self.contexts.items():
            for context in contexts:
                if context.valid is None:
                    continue
                found.update(dict.fromkeys(c.position for c in context.valid))
                if self.is_loaded(node) and node.op not in (const_p, dim_p):
                    found[flatten_index(context.indices, node.shape)] = None
                elif node.op is iota_p:
                    axis: int = node.arg
                    found[context.indices[axis]] = None
        for node, context in self.stored():
            found[flatten_index(context.indices, node.shape)] = None
            assert context.valid is not None
            found.update(dict.fromkeys(c.position for c in context.valid))
        return list(found)

    def stored(self) -> list[tuple[Node, Context]]:
        """What is stored, and at which index of its buffer."""
        if self.draft.scattered is not None:
            return [(self.draft.scattered, self._scattered_at())]
        contexts = [context for _, context in self.root_contexts()]
        pairs = zip(self.draft.roots, contexts, strict=True)
        found = [(n, self._of_sum(n, c)) for n, c in pairs]
        return sorted(found, key=lambda pair: pair[0] not in self.draft.sums)

    def _of_sum(self, node: Node, context: Context) -> Context:
        """Where a sum is, of one of whose elements the context is given."""
        if node not in self.draft.sums:
            return context
        axes = reduced_axes(node)
        where = [ZERO if a in axes else i for a, i in enumerate(context.indices)]
        return context._replace(indices=tuple(where))

    def row_of_sum(self, node: Node) -> Index:
        """Which of the elements that a sum is made of is added now."""
        at = root_indices(self.axes.indices, self.shape, node.src[0].shape)
        (axis,) = reduced_axes(node)
        return at[axis]

    def _scattered_at(self) -> Context:
        """Where updates go, and where those are in bounds whose index counts."""
        node = self.draft.scattered
        assert node is not None
        axes, _ = axes_and_kind(node)
        at = root_indices(self.axes.indices, self.shape, node.src[1].shape)
        found: dict[int, Index] = {}
        valid = ALWAYS
        for axis, target in zip(axes, targets_of(node, at), strict=True):
            size = node.shape[axis]
            found[axis] = target.as_index(self.plan.number_of, size)
            if target.ranges.terms and not is_within(found[axis], 0, size):
                valid |= {Condition(found[axis], 0, size)}
        rest = iter(at[node.src[2].ndim :])
        where = tuple(found[a] if a in found else next(rest) for a in range(node.ndim))
        return Context(self.draft.number, where, valid)

    def meeting(self) -> frozenset[int]:
        """Ranges along which several updates may hit the same element."""
        node = self.draft.scattered
        if node is None:
            rows = map(self.row_of_sum, self.draft.sums)
            return frozenset(a.number for row in rows for a in ranges_of(row))
        batch = root_indices(self.axes.indices, self.shape, node.src[1].shape)
        ranges = ranges_of_all(batch[: node.src[2].ndim])
        ((_, (_, where, _)),) = self.stored()
        positions = [where[a] for a in axes_and_kind(node)[0]]
        whole = flatten_index(where, node.shape)
        apart = never_meeting([*positions, whole], ranges)
        return frozenset(a.number for a in ranges - apart)

    def build(self) -> BuiltKernel:
        return _Builder(self).build()


def _ranges_divided(index: Index) -> list[tuple[Atom, int]]:
    """(range, n): splitting the range by n would remove a division."""
    found: list[tuple[Atom, int]] = []
    pending = [a for a, _ in index.terms]
    while pending:
        atom = pending.pop()
        if atom.inner is None:
            continue
        pending.extend(a for a, _ in atom.inner.terms)
        for inner, coefficient in atom.inner.terms:
            if inner.kind != "range" or not surely_less(0, coefficient):
                continue
            inside, left = divmod(atom.divisor, coefficient)
            between = surely_less(1, inside) and surely_less(inside, inner.size)
            if left == 0 and between and inner.size % inside == 0:
                found.append((inner, inside))
    return found


def split_ranges(view: _View) -> Layout | None:
    """A layout in which a range that is divided by a constant is two ranges."""
    for index in view.facts():
        for atom, inside in _ranges_divided(index):
            for group in view.groups:
                if atom in group.atoms:
                    sizes: list[int] = []
                    for number, size in enumerate(group.sizes):
                        ours = _atom_at(group, number) == atom
                        sizes += [size // inside, inside] if ours else [size]
                    return {group.node: tuple(sizes)}
    return None


def _atom_at(group: _Group, number: int) -> Atom | None:
    """The atom of the group's range of that number; None for a size of 1."""
    if group.sizes[number] == 1:
        return None
    return group.atoms[sum(n != 1 for n in group.sizes[:number])]


def merge_ranges(view: _View) -> Layout:
    """Layouts in which neighbouring ranges that run on contiguously are one."""
    facts = view.facts()
    opaque = {a for index in facts for t, _ in index.terms for a in _hidden_ranges(t)}
    result: Layout = {}
    for group in view.groups:
        sizes = [n for n in group.sizes if n != 1]
        merged = [sizes[0]] if sizes else []
        for position in range(1, len(sizes)):
            outer, inner = group.atoms[position - 1], group.atoms[position]
            if outer in opaque or inner in opaque:
                joined = False
            else:
                joined = all(_runs_on(index, outer, inner) for index in facts)
                joined = joined and _stored_together(view, group, position)
            if joined:
                merged[-1] *= sizes[position]
            else:
                merged.append(sizes[position])
        if tuple(merged) != group.sizes:
            result[group.node] = tuple(merged)
    return result


def _stored_together(view: _View, group: _Group, position: int) -> bool:
    """Does no stored value, and no reduce, belong to the outer of two ranges only?"""
    if group.node is not None:
        return True
    sizes = [sample(n) for n in group.sizes if n != 1]
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
    for inner_group in view.groups[1:]:
        node = inner_group.node
        assert node is not None
        for context in view.contexts.get(node, ()):
            used = {a for i in context.indices for a, _ in i.terms}
            if outer in used and inner not in used:
                return False
    return True


def _hidden_ranges(atom: Atom) -> list[Atom]:
    """Ranges inside a division. What an index array is read at is a fact by itself."""
    found: list[Atom] = []
    pending = [atom.inner] if atom.inner is not None else []
    while pending:
        for inner, _ in pending.pop().terms:
            if inner.kind == "range":
                found.append(inner)
            if inner.inner is not None:
                pending.append(inner.inner)
    return found


def _runs_on(index: Index, outer: Atom, inner: Atom) -> bool:
    coefficients = dict(index.terms)
    return coefficients.get(outer, 0) == inner.size * coefficients.get(inner, 0)


class _Builder:
    """Builds the expressions of one view."""

    def __init__(self, view: _View) -> None:
        self.view = view
        self.values: dict[int, Node] = {}
        self.expressions: dict[tuple[Node, Context], Node] = {}
        self.buffers: dict[Node, int] = {}
        self.origins: dict[Origin, None] = {}
        self.valid_nodes: dict[Valid, Node | None] = {}

    def build(self) -> BuiltKernel:
        view = self.view
        stored = view.stored()
        stores = {self._buffer(node): node for node, _ in stored}
        with inherited_origin() as take:
            self._express_all(take)
            made = [s for node, context in stored for s in self._stores(node, context)]
        loads = {i: n for n, i in self.buffers.items() if i not in stores}
        values = stores | loads
        specs = tuple(
            BufferSpec(values[i].dtype, values[i].size, i in stores)
            for i in range(len(values))
        )
        axes = tuple(range_node(a) for a in view.axes.atoms)
        kernel = Kernel(axes, tuple(made), specs, self.view.meeting())
        return BuiltKernel(kernel, self._info(specs), stores, loads)

    def _buffer(self, node: Node) -> int:
        return self.buffers.setdefault(node, len(self.buffers))

    def _express_all(self, take: Callable[[Node], None]) -> None:
        """Expressions from the roots on demand: operands and index arrays first."""
        expressions, readings = self.expressions, self.view.plan.readings
        pending: list[tuple[Node, Context, list[tuple[Node, Context]] | None]]
        pending = [(*root, None) for root in self.view.root_contexts()]
        while pending:
            node, context, needs = pending[-1]
            if (node, context) in expressions:
                pending.pop()
                continue
            if needs is None:
                needs = self._needs(node, context)
                missing = [need for need in needs if need not in expressions]
                if missing:
                    pending[-1] = (node, context, needs)
                    pending += [(*need, None) for need in reversed(missing)]
                    continue
            pending.pop()
            take(node)
            expressions[node, context] = made = self._expression(node, context)
            if readings:
                reading = Reading(node, context.indices, context.valid)
                number = readings.get(reading)
                if number is not None:
                    self.values[number] = cast(made, INDEX)

    def _needs(self, node: Node, context: Context) -> list[tuple[Node, Context]]:
        """What must be expressed before `node` is."""
        if node.op in (const_p, dim_p):
            return []
        needs: list[tuple[Node, Context]] = []
        if not self.view.is_loaded(node):
            inner = self.view.operands(node, context)
            needs = [(s, c) for s, c in inner if c.valid is not None]
        assert context.valid is not None
        if not self.view.arrays:
            return needs
        used = [*context.indices, *(c.position for c in context.valid)]
        return needs + [self.view.arrays[n] for n in value_numbers(used)]

    def _expression(self, node: Node, context: Context) -> Node:
        scalar = ShapedArray.of((), node.dtype)
        if node.op is const_p:
            return make_node(const_p, scalar, (), node.arg)
        if node.op is dim_p:
            return cast(const(node.arg, INDEX), node.dtype)
        if self.view.is_loaded(node):
            return self._load(node, context)
        if node.op is iota_p:
            axis: int = node.arg
            return cast(self._index(context.indices[axis]), node.dtype)
        inner = self.view.operands(node, context)
        if node.op.family == "movement":
            return self._moved(node, context, inner[0][1])
        sources = [self.expressions[need] for need in inner]
        if node.op.family == "reduction":
            sizes = [node.src[0].shape[a] for a in reduced_axes(node)]
            key = reduce_key(node, context, self.view.plan.levels[node])
            group = self.view.ranges_for(key, sizes)
            if not group.atoms:
                return sources[0]
            ranges = tuple(range_node(a) for a in group.atoms)
            return reduce(_REDUCE_NAME[node.op.name], sources[0], ranges)
        if node.op is gather_p or node.op.name in _IDENTITIES:
            return sources[0]
        return make_node(node.op, scalar, tuple(sources), node.arg)

    def _load(self, node: Node, context: Context) -> Node:
        index = self._index(flatten_index(context.indices, node.shape))
        assert context.valid is not None
        buffer = param(self._buffer(node), node.dtype, node.size)
        return load(buffer, index, self._valid(context.valid))

    def _moved(self, node: Node, context: Context, inner: Context) -> Node:
        """The operand's value, and zero where the movement has no operand."""
        if inner.valid is None:
            return const(0, node.dtype)
        value = self.expressions[node.src[0], inner]
        if inner.valid == context.valid or _is_masked(value):
            return value
        valid = self._valid(inner.valid)
        assert valid is not None
        return select(valid, value, zeros_like(value))

    def _index(self, index: Index) -> Node:
        return render_index(index, self.values)

    def _valid(self, valid: Valid) -> Node | None:
        if valid not in self.valid_nodes:
            self.valid_nodes[valid] = render_valid(valid, self.values)
        return self.valid_nodes[valid]

    def _store(self, node: Node, context: Context) -> Store:
        draft = self.view.draft
        buffer = self.buffers[node]
        if draft.scattered is not None:
            return self._scatter(node, buffer, context)
        index = self._index(flatten_index(context.indices, node.shape))
        value = node.src[0] if draft.kind == "scatter" else node
        return Store(buffer, index, self.expressions[value, context])

    def _stores(self, node: Node, context: Context) -> list[Store]:
        if node not in self.view.draft.sums:
            return [self._store(node, context)]
        index = self._index(flatten_index(context.indices, node.shape))
        first = self._valid(ALWAYS | {Condition(self.view.row_of_sum(node), 0, 1)})
        whole = dict(self.view.root_contexts())
        element = self.expressions[node.src[0], whole[node.src[0]]]
        buffer, zero = self.buffers[node], const(0, node.dtype)
        return [
            Store(buffer, index, zero, first),
            Store(buffer, index, element, combine="add"),
        ]

    def _scatter(self, node: Node, buffer: int, context: Context) -> Store:
        """Drops updates that are out of bounds."""
        axes, kind = axes_and_kind(node)
        updates, at = self.view.root_contexts()[0]
        assert context.valid is not None
        valid = self._valid(context.valid)
        for axis, target in zip(axes, targets_of(node, at.indices), strict=True):
            if target.ranges.terms:
                continue  # see `_scattered_at`
            index = self._index(context.indices[axis])
            ((read, _),) = target.readings
            for part in _in_bounds(index, read.array, node.shape[axis]):
                valid = part if valid is None else bit_and(valid, part)
        index = self._index(flatten_index(context.indices, node.shape))
        combine = "" if kind == "set" else kind
        return Store(buffer, index, self.expressions[updates, at], valid, combine)

    def _info(self, specs: tuple[BufferSpec, ...]) -> KernelInfo:
        names: list[str] = []
        operations = 0
        places: dict[Any, Origin] = {}
        for node in self.view.members:
            if self.view.is_loaded(node):
                continue
            origin = node.origin
            if origin is not None:
                places.setdefault((origin.code, origin.offset), origin)
            if node.op.family not in ("movement", "source"):
                names.append(node.op.name)
                size = node.src[0].size if node.op.family == "reduction" else node.size
                operations += size * max(1, min(weight(node), 10))
        size = sum(spec.size * spec.dtype.itemsize for spec in specs)
        dims = "x".join(map(str, self.view.shape)) or "1"
        last_first = dict.fromkeys(reversed(names))
        main = [n for n in last_first if n not in ("cast", "select")]
        title = "_".join(main[:3]) or "copy"
        origins: dict[str, Origin] = {}
        for origin in places.values():
            origins.setdefault(str(origin), origin)
        return KernelInfo(
            f"{title}_{dims}", tuple(origins.values()), operations, size, tuple(names)
        )


def _in_bounds(index: Node, array: Node, size: int) -> list[Node]:
    """The comparisons that it takes to see that an element of `array` is in bounds."""
    low, high = values_of(array)
    parts: list[Node] = []
    if low < 0:
        parts.append(ge(index, const(0, INDEX)))
    if high >= size:
        parts.append(lt(index, const(size, INDEX)))
    return parts


def _is_masked(value: Node) -> bool:
    """Is it zero already where the access is not valid?"""
    while value.op.name == "cast":
        value = value.src[0]
    return value.op is load_p and len(value.src) == 3
