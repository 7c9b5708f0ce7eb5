"""Which kernel, of those there are, may store one more value?

    kernel_that_has_it       one that computes the value for itself
    kernel_that_reduces_it   one over rows, that reduces each row of the value
    kernel_alike             one over the same loops
    kernel_over_rows         one that needs the same rows: a value per row, or of rows
    kernel_that_adds_up      one over the elements of a sum: see `split_reductions.py`

Each gives None where there is none, and never a kernel that has to run before one that
reads the value.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any

from ftrace.lower.across import are_columns
from ftrace.lower.drafts import Context, Draft
from ftrace.lower.index import ALWAYS, Atom, flatten_index, ranges_of_all
from ftrace.lower.inlining import reduce_is_inlined
from ftrace.lower.plan import (
    ELEMENTWISE,
    ENOUGH,
    KERNEL_LIMIT,
    NESTED,
    Plan,
    ends_before,
)
from ftrace.lower.values import (
    RECOMPUTE,
    elements_of_sum,
    is_contraction,
    root_of,
    squeeze,
)
from ftrace.trace.avals import Shape
from ftrace.trace.dims import same_size
from ftrace.trace.graph import Node
from ftrace.trace.primitives.broadcast import expand_p, reduce_sum_p
from ftrace.trace.primitives.elementwise import copy
from ftrace.trace.primitives.movement import reshape_p
from ftrace.trace.sizes import sample

ROOTS = 8  # values that one kernel stores
MANY = 16  # rows that are work for all threads
_NEAR = 64  # nodes that are looked at for what two kernels have in common


def kernel_that_has_it(
    plan: Plan, node: Node, uses: dict[Context, Any]
) -> Draft | None:
    """A kernel that computes the value anyway, and can store it as well."""
    kernels = {context.kernel for context in uses}
    for number in sorted(kernels):
        draft = plan.result.drafts[number]
        if draft.kind in ("scatter", "step") or len(draft.roots) >= ROOTS:
            continue
        here = [c for c in uses if c.kernel == number]
        aligned = [c for c in here if is_aligned(node, c, draft)]
        if len(aligned) != 1 or node.op is copy:
            continue
        if node.op.family == "reduction":
            here_only = {aligned[0]: uses[aligned[0]]}
            if len(here) > 1 or not reduce_is_inlined(plan, node, here_only):
                continue
        elif plan.costs_below(node) * (len(here) - 1) > RECOMPUTE or (
            draft.weight > ENOUGH and ends_before(draft, node)
        ):
            continue
        if not plan.precedence.is_before(kernels - {number}, number):
            return draft
    return None


def kernel_that_reduces_it(
    plan: Plan, node: Node, uses: dict[Context, Any]
) -> Draft | None:
    """A kernel of rows that reduces each row of a value: it can store it as well.

    Its loops grow. Each row is computed twice, from what is then in the cache.
    """
    shape = squeeze(node.shape)
    if node.op.family not in ELEMENTWISE or node in plan.epilogue:
        return None
    kernels = {context.kernel for context in uses}
    for number in sorted(kernels):
        draft = plan.result.drafts[number]
        here = [c for c in uses if c.kernel == number]
        if len(here) != 1 or draft.kind != "map" or draft.sums:
            continue
        if not draft.shape or not _are_rows(draft.shape, shape):
            continue
        if len(draft.roots) >= ROOTS or not _is_row(node, here[0], draft):
            continue
        if _lies_across(plan, node, here[0], draft.atoms):
            continue
        cost = plan.costs_below(node)
        if cost > RECOMPUTE or draft.weight + cost > KERNEL_LIMIT:
            continue
        if not plan.precedence.is_before(kernels - {number}, number):
            draft.widen(shape)
            return draft
    return None


def kernel_alike(plan: Plan, node: Node, uses: dict[Context, Any]) -> Draft | None:
    """A kernel over the same loops that may store this value too.

    Of several, one that reads what a large reduce adds up; and the second half of
    a reduce as late as may be, for where it runs its first half has to run before.
    """
    if is_contraction(node) or node.op is copy:
        return None
    shape = squeeze(node.shape)
    readers = _readers_of_elements(plan, node)
    found: Draft | None = None
    kernels = {context.kernel for context in uses}
    alike = [d for d in _open(plan) if same_size(d.shape, shape)]
    soon = plan.precedence.soon_after(kernels) if alike else ()
    for draft in reversed(alike) if _is_second_half(node) else alike:
        if draft.number in soon:
            continue
        if _has_another_contraction(plan, node, draft):
            continue
        if found is not None and draft.number not in readers:
            continue
        if not plan.precedence.is_before(kernels, draft.number):
            if not readers or draft.number in readers:
                return draft
            found = draft
    return found


def kernel_over_rows(plan: Plan, node: Node, uses: dict[Context, Any]) -> Draft | None:
    """A kernel over rows of which one of both stores a value for each.

    The other one's values are the rows' elements, and both need the same ones:
    they are read once. The kernel's loops grow where it had only rows so far.
    """
    shape = squeeze(node.shape)
    if not shape or node.op is copy or is_contraction(node):
        return None
    kernels = {context.kernel for context in uses}
    for draft in _open(plan):
        if not draft.shape:
            continue
        rows, whole = sorted((shape, draft.shape), key=len)
        if not _are_rows(rows, whole):
            continue
        if draft.number in plan.precedence.soon_after(kernels):
            continue
        short = (node,) if shape is rows else draft.roots
        if not all(plan.result.levels[n] for n in short):
            continue
        if draft.sums and len(shape) > len(draft.shape):
            continue
        if _both_need(plan, node, draft, whole, len(rows)) and not (
            plan.precedence.is_before(kernels, draft.number)
        ):
            draft.widen(shape)
            return draft
    return None


def kernel_that_adds_up(
    plan: Plan, node: Node, uses: dict[Context, Any]
) -> Draft | None:
    """A kernel over the elements of a sum that needs what they are made of."""
    assert plan.adds_up is not None
    if node.op is not reduce_sum_p or plan.contractions_of(node):
        return None
    kernels = {context.kernel for context in uses}
    for draft in _open(plan):
        if draft.number in kernels or not plan.adds_up(node, draft.shape):
            continue
        if _both_need(plan, node, draft, draft.shape, len(draft.shape) - 1) and not (
            plan.precedence.is_before(kernels, draft.number)
        ):
            return draft
    elements = elements_of_sum(node)
    shape = squeeze(elements.shape)
    if plan.will_be_stored(elements) and elements.op.family in ELEMENTWISE:
        return plan.new_draft(shape) if plan.adds_up(node, shape) else None
    return None


def _open(plan: Plan) -> list[Draft]:
    """The latest kernels that may store one more value, the last one first."""
    return [
        d
        for d in plan.result.drafts[:-33:-1]
        if d.kind == "map" and len(d.roots) < ROOTS and d.weight + 64 <= KERNEL_LIMIT
    ]


def is_aligned(node: Node, context: Context, draft: Draft) -> bool:
    """Does the kernel compute each element of `node` once, at its loops' pace?"""
    if context.valid != ALWAYS or node.shape == ():
        return context.valid == ALWAYS and not context.ranges
    position = flatten_index(context.indices, node.shape)
    depth = len(context.ranges)
    outer = draft.indices[:depth]
    return same_size(position, flatten_index(outer, draft.shape[:depth])) and (
        same_size(prod(draft.shape[:depth]), node.size)
    )


def _readers_of_elements(plan: Plan, node: Node) -> set[int]:
    """Of a large reduce, the kernels that need what its elements are made of."""
    found: set[int] = set()
    if node.op.family != "reduction" or sample(node.src[0].size) < NESTED:
        return found
    size, seen = node.src[0].size, {node}
    pending = [node]
    while pending and len(seen) < _NEAR:
        for source in pending.pop().src:
            if source not in seen and same_size(source.size, size):
                seen.add(source)
                pending.append(source)
                found |= {c.kernel for c in plan.contexts.get(source, ())}
    return found


def _both_need(plan: Plan, node: Node, draft: Draft, whole: Shape, depth: int) -> bool:
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
            if not same_size(squeeze(source.shape), whole):
                continue
            long = [a for a, n in enumerate(source.shape) if not same_size(n, 1)]
            first = long[depth]
            for context in plan.contexts.get(source, ()):
                outer = ranges_of_all(context.indices[:first])
                if context.kernel == draft.number and outer == rows:
                    return not _lies_across(plan, source, context, rows)
    return False


def _lies_across(
    plan: Plan, node: Node, context: Context, rows: Iterable[Atom]
) -> bool:
    """Would a kernel of rows that computes a value go down columns of memory?"""
    if "split_columns" in plan.disabled:
        return False
    return are_columns(node, context, set(rows), plan.must_store - {node})


def _has_another_contraction(plan: Plan, node: Node, draft: Draft) -> bool:
    """Would one of two contractions have to leave the kernel of its epilogue?"""
    mine = plan.contractions_of(node)
    if not mine:
        return False
    others = map(plan.contractions_of, draft.roots)
    return any(other and mine != other for other in others)


def _are_rows(rows: Shape, whole: Shape) -> bool:
    """Are the loops of one shape the outer ones of another, of enough rows?"""
    inside = len(whole) - len(rows)
    return same_size(whole[: len(rows)], rows) and (
        inside == 1 or (inside > 1 and sample(prod(rows)) >= MANY)
    )


def _is_second_half(node: Node) -> bool:
    """Is it a reduce of what another one of its kind gives?"""
    return node.op.family == "reduction" and root_of(node.src[0]).op is node.op


def _is_row(node: Node, context: Context, draft: Draft) -> bool:
    """Are the indices of a use those of the loops, and then ranges of a reduce?"""
    sizes = zip(context.indices, node.shape, strict=True)
    pairs = [(i, n) for i, n in sizes if not same_size(n, 1)]
    depth = len(draft.shape)
    outer = [i for i, _ in pairs[:depth]]
    if context.valid != ALWAYS or not same_size(outer, draft.indices):
        return False
    inner = [(tuple(c for _, c in i.terms), i, n) for i, n in pairs[depth:]]
    return all(
        same_size(c, (1,))
        and same_size(i.constant, 0)
        and i.terms[0][0].reduced
        and same_size(i.terms[0][0].size, n)
        for c, i, n in inner
    )
