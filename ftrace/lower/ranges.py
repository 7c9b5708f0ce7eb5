"""The ranges of a kernel: those that leave the least arithmetic.

The loops of a draft run over the shape of what it stores. Other factors of the same
row-major space may serve better, and are tried on paper before anything is built:

    i < 64 with i // 8 and i % 8   ->  i1 < 8, i2 < 8      (split_ranges)
    i < 64, j < 32, all contiguous ->  i < 2048            (merge_ranges)
"""

from __future__ import annotations

from math import prod

from ftrace import settings
from ftrace.lower.drafts import Draft, Schedule
from ftrace.lower.index import Atom, Index
from ftrace.lower.view import Group, Layout, View
from ftrace.trace.dims import same_size
from ftrace.trace.sizes import sample, surely_less

#: What `config.disabled_rules` can switch off here.
DECISIONS = {
    "split_ranges": "a range that is divided by a constant becomes two",
    "merge_ranges": "neighbouring ranges that run on contiguously become one",
}

#: A range is split so often at most.
_SPLITS = 8


def chosen_view(draft: Draft, plan: Schedule) -> View:
    """The view of a draft under the layout that is chosen for it."""
    disabled = settings.current().disabled_rules
    layout: Layout = {None: draft.shape}
    view = View(draft, plan, layout)
    for _ in range(0 if "split_ranges" in disabled else _SPLITS):
        split = split_ranges(view)
        if split is None:
            break
        layout = layout | split
        view = View(draft, plan, layout)
    merged = {} if "merge_ranges" in disabled else merge_ranges(view)
    return View(draft, plan, layout | merged) if merged else view


def split_ranges(view: View) -> Layout | None:
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
            if between and same_size((left, inner.size % inside), (0, 0)):
                found.append((inner, inside))
    return found


def _atom_at(group: Group, number: int) -> Atom | None:
    """The atom of the group's range of that number; None for a size of 1."""
    if same_size(group.sizes[number], 1):
        return None
    return group.atoms[sum(not same_size(n, 1) for n in group.sizes[:number])]


def merge_ranges(view: View) -> Layout:
    """Layouts in which neighbouring ranges that run on contiguously are one."""
    facts = view.facts()
    opaque = {a for index in facts for t, _ in index.terms for a in _hidden_ranges(t)}
    result: Layout = {}
    for group in view.groups:
        sizes = [n for n in group.sizes if not same_size(n, 1)]
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
        if not same_size(tuple(merged), group.sizes):
            result[group.node] = tuple(merged)
    return result


def _stored_together(view: View, group: Group, position: int) -> bool:
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
    return same_size(
        coefficients.get(outer, 0), inner.size * coefficients.get(inner, 0)
    )
