"""Is a value computed by the kernels that need it, or stored, and then by which kernel?

It is computed where that is cheap: a sum of two loaded values anywhere, a costly chain
in one kernel and once per element, a reduce where its rows are the kernel's own. What
is long, or under an `expand`, or a reduce within the sums of a product, is stored.

A reduce beside the work on its rows may walk down columns of memory, which is asked
before it is decided:

    softmax(x, axis=1)     its rows are rows of memory: maximum, sum and quotient of a
                           row are computed while it is in the cache
    softmax(x.T, axis=1)   its rows are columns: each element is on a line of its own,
                           and three walks down a column take longer than three kernels
                           of which each reads whole lines

The answer depends on what the reduce adds up alone: on how it reads the values that
surely lie in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from math import prod
from typing import Any

from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.lower import analysis
from ftrace.lower.fusion.drafts import (
    ENOUGH,
    KERNEL_LIMIT,
    NESTED,
    Context,
    Draft,
    Planner,
    ends_before,
)
from ftrace.lower.kernel import affine_index as ix
from ftrace.lower.kernel.ir import axis_of, range_p
from ftrace.trace.avals import Shape
from ftrace.trace.graph import Node
from ftrace.trace.primitives.broadcast import expand_p, reduce_sum_p
from ftrace.trace.primitives.elementwise import copy
from ftrace.trace.primitives.movement import reshape_p
from ftrace.trace.primitives.sources import is_variable
from ftrace.trace.symbolic import same_size, sample

#: The uses of a value: see `Planner.contexts`.
Uses = dict[Context, Any]

_FAR = 1 << 20  # numbers of ranges that no kernel has


def are_columns(
    node: Node, context: Context, rows: Set[Node], stored: frozenset[Node]
) -> bool:
    """Are the rows of a value columns of all the arrays that it is made of?

    Args:
      rows: of the ranges of the context those that go from row to row.
    """
    size = sample(node.size)
    found = False
    for array, indices in _arrays(node, context, stored):
        if 2 * sample(array.size) < size:
            continue  # a value per row or per column
        position = ix.flatten_index(indices, array.shape)
        if not any(same_size(abs(c), 1) and atom in rows for atom, c in position.pairs):
            return False
        found = True
    return found


def _arrays(
    node: Node, context: Context, stored: frozenset[Node]
) -> Iterator[tuple[Node, tuple[ix.Index, ...]]]:
    """What a value is made of in memory, and where that is read."""
    pending = [(node, context.indices, 0)]
    numbers = {context.indices: 0}  # indices are deep
    seen = {(node, 0)}
    while pending:
        node, indices, number = pending.pop()
        if node in stored or is_variable(node) or analysis.is_contraction(node):
            yield node, indices
            continue
        family = node.op.family
        if analysis.is_step(node) or family in ("indexing", "reduction", "source"):
            continue
        if family == "movement":
            indices, valid = ix.source_index(node, indices, context.valid)
            if valid is None:
                continue
            number = numbers.setdefault(indices, len(numbers))
        for source in node.src:
            if len(seen) < analysis.NEAR and (source, number) not in seen:
                seen.add((source, number))
                pending.append((source, indices, number))


#: Atoms in the indices of one use. No row has 10; 12 reshapes and transposes of 12,600
#: elements by turns are lowered in 0.03 s, without a limit in 20.
INDEX_LIMIT = 100
#: Operations that are rather done for all windows that see an element. 16 of 32×56²:
#: means of 3×3 of gelu take 2.9 times as long if it is done for each, maxima by 2 1.7.
WINDOWED = 16
#: So many kernels do a cheap value again, each, rather than that it is stored. With 1
#: the gradient of maxima of 2×2 and n-body forces differ, with 2 or 1000 no row.
_KERNELS_AGAIN = 4


def is_inlined(plan: Planner, node: Node, uses: Uses) -> bool:
    if node.op.family == "reduction":
        return reduce_is_inlined(plan, node, uses)
    cost = plan.costs[node]
    if node.op.family == "movement":
        return all(_is_short_index(context) for context in uses)
    if cost == 0:
        return True
    drafts = plan.result.drafts
    kernels: set[int] = set()
    again = slides = False
    for context, (factor, _) in uses.items():
        draft = drafts[context.kernel]
        if draft.weight > ENOUGH and ends_before(draft, node):
            return False
        kernels.add(context.kernel)
        again = again or factor > 1
        slides = slides or context.window_positions > 0
    if plan.disabled and not may_fuse(plan, uses):
        return False
    if again and (cost > analysis.CHEAP or any(_in_product(plan, c) for c in uses)):
        return False
    if slides and cost > 1 and any(_overlap(node, c) * cost > WINDOWED for c in uses):
        return False
    if len(kernels) > 1 and not _is_done_again(plan, node, cost, len(kernels)):
        return False
    return cost * (len(uses) - len(kernels)) <= analysis.RECOMPUTE


def reduce_is_inlined(plan: Planner, node: Node, uses: Uses) -> bool:
    if len(uses) != 1:
        return False
    ((context, (factor, _)),) = uses.items()
    draft = plan.result.drafts[context.kernel]
    rows = context.ranges
    if factor != 1 or context.valid != ix.ALWAYS or draft.kind == "scatter":
        return False
    if not same_size(prod(ix.size_of(a) for a in rows), node.size):
        return False
    whole = rows == set(draft.atoms)
    if ("fuse_after_reduce" if whole else "fuse_rows") in plan.disabled:
        return False
    if analysis.is_contraction(node):
        return whole and draft.reduces == 0
    if draft.kind == "contract":
        return False
    if not whole and _adds_up_columns(plan, node, context):
        return False
    nested = any(axis_of(a).reduced for a in rows)
    return not nested or sample(node.src[0].size) <= NESTED


def _adds_up_columns(plan: Planner, node: Node, context: Context) -> bool:
    """Does a reduce that a kernel needs, row by row, add up columns of memory?"""
    if "split_columns" in plan.disabled:
        return False
    inner = list(context.indices)
    for number, axis in enumerate(analysis.reduced_axes(node)):
        inner[axis] = ix.range_index(_FAR + number, node.src[0].shape[axis], True)
    within = Context(context.kernel, tuple(inner), context.valid)
    return are_columns(node.src[0], within, context.ranges, plan.must_store)


def may_fuse(plan: Planner, uses: Uses) -> bool:
    """Are the decisions by which its users would compute it switched on?"""
    if not plan.disabled:
        return True
    inside = [any(axis_of(a).reduced for a in c.ranges) for c in uses]
    return not (
        ("fuse_into_reduce" in plan.disabled and any(inside))
        or ("fuse_elementwise" in plan.disabled and not all(inside))
    )


def _is_done_again(plan: Planner, node: Node, cost: int, kernels: int) -> bool:
    """Is a value that several kernels need computed in each of them?"""
    if "recompute_cheap" in plan.disabled:
        return False
    if node not in plan.epilogue:
        return cost <= analysis.CHEAP and kernels <= _KERNELS_AGAIN
    # What all of it is made of is stored: the contraction, or the first step after.
    first = any(plan.users.get(analysis.root_of(s)) == 1 for s in node.src)
    return not first and cost <= analysis.RECOMPUTE and kernels == 2


def _is_short_index(context: Context) -> bool:
    """Is the index short? Reshapes of transposes of reshapes make it grow fast."""
    return sum(len(ix.atoms_in(index)) for index in context.indices) <= INDEX_LIMIT


def _overlap(node: Node, context: Context) -> int:
    """How many windows see each element; 0 where none slide over it."""
    found = context.window_positions // max(sample(node.size), 1)
    return found if found > 1 else 0  # each place is asked for by one


def _in_product(plan: Planner, context: Context) -> bool:
    """Is it an operand of a contraction?"""
    draft = plan.result.drafts[context.kernel]
    return draft.kind == "contract" and any(axis_of(a).reduced for a in context.ranges)


#: Values that one kernel stores. A step of Adam (MLP medium) is 12 kernels, with 4 it
#: is 13, with 2 20; none has more.
ROOTS = 8
#: The latest kernels that are looked at for one more value: a bound of time. With 1
#: cross-entropy of 256×10,000 differs, with 4 or 100,000 no row.
_LATEST = 32
#: Rows of several axes that are work for all threads. x + 1 and the sums of 16×32
#: images of 56² in one kernel: 1.4 times as fast; of 2×3 images of 200²: 1.
MANY = 16


def _users(plan: Planner, uses: Uses) -> Iterator[tuple[Draft, list[Context]]]:
    """The kernels that need a value and may store one more, and where they do."""
    for number in sorted({context.kernel for context in uses}):
        draft = plan.result.drafts[number]
        if len(draft.roots) < ROOTS:
            yield draft, [c for c in uses if c.kernel == number]


def _find_computing(plan: Planner, node: Node, uses: Uses) -> Iterator[Draft]:
    """Kernels that compute the value anyway, and can store it as well."""
    for draft, here in _users(plan, uses):
        if draft.kind in ("scatter", "step"):
            continue
        aligned = [c for c in here if is_aligned(node, c, draft)]
        if len(aligned) != 1 or node.op is copy:
            continue
        if node.op.family == "reduction":
            here_only = {aligned[0]: uses[aligned[0]]}
            if len(here) > 1 or not reduce_is_inlined(plan, node, here_only):
                continue
        elif plan.costs_below(node) * (len(here) - 1) > analysis.RECOMPUTE or (
            draft.weight > ENOUGH and ends_before(draft, node)
        ):
            continue
        yield draft


def _find_reducing(plan: Planner, node: Node, uses: Uses) -> Iterator[Draft]:
    """Kernels of rows that reduce each row of a value: they can store it as well.

    Each row is computed twice, from what is then in the cache.
    """
    shape = analysis.squeeze(node.shape)
    if node.op.family not in analysis.ELEMENTWISE or node in plan.epilogue:
        return
    for draft, here in _users(plan, uses):
        if len(here) != 1 or draft.kind != "map" or draft.sums:
            continue
        if not draft.shape or not _are_rows(draft.shape, shape):
            continue
        if not _is_row(node, here[0], draft) or _lies_across(
            plan, node, here[0], draft.atoms
        ):
            continue
        cost = plan.costs_below(node)
        if cost <= analysis.RECOMPUTE and draft.weight + cost <= KERNEL_LIMIT:
            yield draft


def _find_same_loops(plan: Planner, node: Node, uses: Uses) -> Iterator[Draft]:
    """Kernels over the same loops that may store this value too.

    Of several, one that reads what a large reduce adds up; and the second half of
    a reduce as late as may be, for where it runs its first half has to run before.
    """
    if analysis.is_contraction(node) or node.op is copy:
        return
    shape = analysis.squeeze(node.shape)
    readers = _readers_of_elements(plan, node)
    alike = [d for d in _open(plan) if same_size(d.shape, shape)]
    if _is_second_half(node):
        alike.reverse()
    users = {context.kernel for context in uses}
    for draft in sorted(alike, key=lambda d: d.number not in readers):
        if draft.number in users or _has_another_contraction(plan, node, draft):
            continue
        yield draft


def _find_over_rows(plan: Planner, node: Node, uses: Uses) -> Iterator[Draft]:
    """Kernels over rows of which one of both stores a value for each.

    The other one's values are the rows' elements, and both need the same ones:
    they are read once. The kernel's loops grow where it had only rows so far.
    """
    shape = analysis.squeeze(node.shape)
    if not shape or node.op is copy or analysis.is_contraction(node):
        return
    kernels = {context.kernel for context in uses}
    for draft in _open(plan):
        if not draft.shape:
            continue
        rows, whole = sorted((shape, draft.shape), key=len)
        if not _are_rows(rows, whole):
            continue
        if draft.number in kernels:
            continue
        short = (node,) if shape is rows else draft.roots
        if not all(plan.result.levels[n] for n in short):
            continue
        if draft.sums and len(shape) > len(draft.shape):
            continue
        if _both_need(plan, node, draft, whole, len(rows)):
            yield draft


class Candidate(NamedTuple):
    """A way to find a kernel that can store a value.

    Attributes:
      name: the decision by which it may be switched off.
      finds: such kernels, the best first.
      widens: the kernel gets the loops that the value has inside of its own.
    """

    name: str
    finds: Callable[[Planner, Node, Uses], Iterable[Draft]]
    widens: bool = False


#: In this order; a value for which there is none has a kernel of its own. The figures
#: are those of one core of an AMD EPYC.
CANDIDATES = (
    Candidate("store_intermediates", _find_computing),
    # x², its row sums and maxima 8192×1000: 1.7 times as fast.
    Candidate("store_rows", _find_reducing, widens=True),
    Candidate("fuse_siblings", _find_same_loops),
    # x + 1 beside the row sums of x 4096×2048: 1.6 times as fast; logsumexp: 1.3.
    Candidate("store_rows", _find_over_rows, widens=True),
)


def kernel_for(plan: Planner, node: Node, uses: Uses) -> Draft | None:
    """The first candidate that waits for nothing that reads the value."""
    kernels = {context.kernel for context in uses}
    for candidate in CANDIDATES:
        if candidate.name in plan.disabled:
            continue
        for draft in candidate.finds(plan, node, uses):
            others = kernels - {draft.number}
            if plan.wait_alike(node, draft) and not plan.precedence.is_before(
                others, draft.number
            ):
                if candidate.widens:
                    draft.widen(analysis.squeeze(node.shape))
                return draft
    return None


def find_kernel_adding(plan: Planner, node: Node, uses: Uses) -> Draft | None:
    """A kernel over the elements of a sum that needs what they are made of."""
    assert plan.adds_up is not None
    if node.op is not reduce_sum_p or plan.contractions_of(node):
        return None
    kernels = {context.kernel for context in uses}
    for draft in _open(plan):
        if draft.number in kernels or not plan.adds_up(node, draft.shape):
            continue
        if (
            _both_need(plan, node, draft, draft.shape, len(draft.shape) - 1)
            and not (plan.precedence.is_before(kernels, draft.number))
            and plan.wait_alike(node, draft)
        ):
            return draft
    elements = analysis.elements_of_sum(node)
    shape = analysis.squeeze(elements.shape)
    if plan.will_be_stored(elements) and elements.op.family in analysis.ELEMENTWISE:
        return plan.new_draft(shape) if plan.adds_up(node, shape) else None
    return None


def _open(plan: Planner) -> list[Draft]:
    """The latest kernels that may store one more value, the last one first."""
    return [
        d
        for d in plan.result.drafts[: -_LATEST - 1 : -1]
        if d.kind == "map" and len(d.roots) < ROOTS and d.weight <= ENOUGH
    ]


def is_aligned(node: Node, context: Context, draft: Draft) -> bool:
    """Does the kernel compute each element of `node` once, at its loops' pace?"""
    if context.valid != ix.ALWAYS or node.shape == ():
        return context.valid == ix.ALWAYS and not context.ranges
    position = ix.flatten_index(context.indices, node.shape)
    depth = len(context.ranges)
    outer = draft.indices[:depth]
    return same_size(position, ix.flatten_index(outer, draft.shape[:depth])) and (
        same_size(prod(draft.shape[:depth]), node.size)
    )


def _readers_of_elements(plan: Planner, node: Node) -> set[int]:
    """Of a large reduce, the kernels that need what its elements are made of."""
    found: set[int] = set()
    if node.op.family != "reduction" or sample(node.src[0].size) < NESTED:
        return found
    size = node.src[0].size
    for source in analysis.nodes_near(
        node, analysis.NEAR, lambda n: [s for s in n.src if same_size(s.size, size)]
    ):
        if source is not node:
            found |= {c.kernel for c in plan.contexts.get(source, ())}
    return found


def _both_need(
    plan: Planner, node: Node, draft: Draft, whole: Shape, depth: int
) -> bool:
    """Do a kernel and a value need an array of that shape, row by row?

    The first `depth` of its axes, of those of more than 1, are the rows.
    """
    rows = set(draft.atoms[:depth])

    def below(above: Node) -> Sequence[Node]:
        moves = above.op.family == "movement"
        return () if moves and above.op not in (expand_p, reshape_p) else above.src

    for source in analysis.nodes_near(node, analysis.NEAR, below):
        if source is node or not same_size(analysis.squeeze(source.shape), whole):
            continue
        long = [a for a, n in enumerate(source.shape) if not same_size(n, 1)]
        for context in plan.contexts.get(source, ()):
            outer = ix.ranges_of_all(context.indices[: long[depth]])
            if context.kernel == draft.number and outer == rows:
                return not _lies_across(plan, source, context, rows)
    return False


def _lies_across(
    plan: Planner, node: Node, context: Context, rows: Iterable[Node]
) -> bool:
    """Would a kernel of rows that computes a value go down columns of memory?"""
    if "split_columns" in plan.disabled:
        return False
    return are_columns(node, context, set(rows), plan.must_store - {node})


def _has_another_contraction(plan: Planner, node: Node, draft: Draft) -> bool:
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
    return node.op.family == "reduction" and analysis.root_of(node.src[0]).op is node.op


def _is_row(node: Node, context: Context, draft: Draft) -> bool:
    """Are the indices of a use those of the loops, and then ranges of a reduce?"""
    sizes = zip(context.indices, node.shape, strict=True)
    pairs = [(i, n) for i, n in sizes if not same_size(n, 1)]
    depth = len(draft.shape)
    outer = tuple([i for i, _ in pairs[:depth]])
    if context.valid != ix.ALWAYS or not same_size(outer, draft.indices):
        return False
    inner = [(ix.atom_of(i), n) for i, n in pairs[depth:]]
    return all(
        atom is not None
        and atom.op is range_p
        and axis_of(atom).reduced
        and same_size(ix.size_of(atom), n)
        for atom, n in inner
    )
