"""Is a value computed by the kernels that need it, or stored for them?

It is computed where that is cheap: a sum of two loaded values anywhere, a costly chain
in one kernel and once per element, a reduce where its rows are the kernel's own. What
is long, or under an `expand`, or a reduce within the sums of a product, is stored.
"""

from __future__ import annotations

from math import prod
from typing import Any

from ftrace.lower.across import reduces_columns
from ftrace.lower.drafts import Context
from ftrace.lower.index import ALWAYS, complexity
from ftrace.lower.plan import ENOUGH, NESTED, Plan, ends_before
from ftrace.lower.values import CHEAP, RECOMPUTE, is_contraction, root_of
from ftrace.trace.dims import same_size
from ftrace.trace.graph import Node
from ftrace.trace.sizes import sample

INDEX_LIMIT = 100  # atoms in the indices of one use
WINDOWED = 16  # operations that are rather done for all windows that see an element


def is_inlined(plan: Plan, node: Node, uses: dict[Context, Any]) -> bool:
    if node.op.family == "reduction":
        return reduce_is_inlined(plan, node, uses)
    cost = plan.costs[node]
    if node.op.family == "movement":
        return all(_is_plain(context) for context in uses)
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
        slides = slides or context.places > 0
    if plan.disabled and not may_fuse(plan, uses):
        return False
    if again and (cost > CHEAP or any(_in_product(plan, c) for c in uses)):
        return False
    if slides and cost > 1 and any(_overlap(node, c) * cost > WINDOWED for c in uses):
        return False
    if len(kernels) > 1 and not _is_done_again(plan, node, cost, len(kernels)):
        return False
    return cost * (len(uses) - len(kernels)) <= RECOMPUTE


def reduce_is_inlined(plan: Plan, node: Node, uses: dict[Context, Any]) -> bool:
    if len(uses) != 1:
        return False
    ((context, (factor, _)),) = uses.items()
    draft = plan.result.drafts[context.kernel]
    rows = context.ranges
    if factor != 1 or context.valid != ALWAYS or draft.kind == "scatter":
        return False
    if not same_size(prod(a.size for a in rows), node.size):
        return False
    whole = rows == set(draft.atoms)
    if ("fuse_after_reduce" if whole else "fuse_rows") in plan.disabled:
        return False
    if is_contraction(node):
        return whole and draft.reduces == 0
    if draft.kind == "contract":
        return False
    if not whole and _adds_up_columns(plan, node, context):
        return False
    nested = any(a.reduced for a in rows)
    return not nested or sample(node.src[0].size) <= NESTED


def _adds_up_columns(plan: Plan, node: Node, context: Context) -> bool:
    if "split_columns" in plan.disabled:
        return False
    return reduces_columns(node, context, plan.must_store)


def may_fuse(plan: Plan, uses: dict[Context, Any]) -> bool:
    """Are the decisions by which its users would compute it switched on?"""
    if not plan.disabled:
        return True
    inside = [any(a.reduced for a in c.ranges) for c in uses]
    return not (
        ("fuse_into_reduce" in plan.disabled and any(inside))
        or ("fuse_elementwise" in plan.disabled and not all(inside))
    )


def _is_done_again(plan: Plan, node: Node, cost: int, kernels: int) -> bool:
    """Is a value that several kernels need computed in each of them?"""
    if "recompute_cheap" in plan.disabled:
        return False
    if node not in plan.epilogue:
        return cost <= CHEAP and kernels <= 4
    # What all of it is made of is stored: the contraction, or the first step after.
    first = any(plan.users.get(root_of(s)) == 1 for s in node.src)
    return not first and cost <= RECOMPUTE and kernels == 2


def _is_plain(context: Context) -> bool:
    """Is the index short? Reshapes of transposes of reshapes make it grow fast."""
    return sum(complexity(index) for index in context.indices) <= INDEX_LIMIT


def _overlap(node: Node, context: Context) -> int:
    """How many windows see each element; 0 where none slide over it."""
    found = context.places // max(sample(node.size), 1)
    return found if found > 1 else 0  # each place is asked for by one


def _in_product(plan: Plan, context: Context) -> bool:
    """Is it an operand of a contraction?"""
    draft = plan.result.drafts[context.kernel]
    return draft.kind == "contract" and any(a.reduced for a in context.ranges)
