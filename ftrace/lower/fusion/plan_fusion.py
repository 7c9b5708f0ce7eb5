"""Which values are stored, and which kernel computes what.

One walk from the outputs to the inputs. Every use of a value is a *context*: a kernel
and the index at which it needs the value. A value that is needed at one index of one
kernel is computed there; one that is needed elsewhere, or again and again, is computed
anew where that is cheap and stored where it is not:

    outputs, copies, scatters                       are stored
    a reduce whose rows are the kernel's own rows   is computed there (softmax)
    a product whose elements are used again         keeps its epilogue only (matmul)
    work under an expand, or used by two kernels    is stored if it costs something
    values over the same loops                      share a kernel

The walk, and what follows from each decision, are here. Where the decisions are:

    analysis.py       what a value is made of, and what it costs
    drafts.py         kernels and contexts, what is known and decided so far
    merge_policy.py   is a value computed where it is needed; if not, who stores it?
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ftrace.lower.analysis import is_contraction, is_step, root_of, squeeze, weight
from ftrace.lower.fusion import drafts, merge_policy
from ftrace.lower.kernel.affine_index import ZERO
from ftrace.lower.kernel.iota_indices import targets_of
from ftrace.lower.kernel.ir import axis_of
from ftrace.trace.graph import Node
from ftrace.trace.primitives.elementwise import copy
from ftrace.trace.primitives.indexing import scatter_p
from ftrace.trace.primitives.primitive import item_p
from ftrace.trace.primitives.sources import SOURCES, variable_p
from ftrace.trace.python_limits import without_collection

#: The decisions that `config.disabled_rules` can switch off, and what each one does.
DECISIONS = {
    "fuse_elementwise": "elementwise work is computed in the kernel that uses it",
    "fuse_into_reduce": "elementwise work is computed in the reduce that it feeds",
    "fuse_after_reduce": "a reduce stays in the kernel of the work after it",
    "fuse_rows": "a reduce is computed once per row beside the work on that row",
    "split_columns": "a reduce over columns of memory is not done row by row",
    "recompute_cheap": "cheap work is done again in each kernel that uses it",
    "store_intermediates": "a kernel that needs a value itself stores it for others",
    "fuse_siblings": "values over the same loops are stored by one kernel",
    "store_rows": "what is one value per row is stored by a kernel over those rows",
}


@without_collection
def plan_fusion(
    outputs: Sequence[Node],
    forced: Iterable[Node] = (),
    adds_up: drafts.AddsUp | None = None,
) -> drafts.FusionPlan:
    """Decides what is stored and by which kernel.

    Args:
      outputs: nodes without sizes of 0.
      forced: further values to store, as a limit of the device demands.
      adds_up: see `blocking/split_reductions.py`; None where no kernel does that.
    """
    plan = drafts.Planner(outputs, frozenset(forced), adds_up)
    for node in reversed(plan.order):
        if node.op is variable_p:
            continue
        uses = plan.contexts.pop(node, {})
        if node.op is item_p:
            readers = plan.readers.setdefault(node.src[0], set())
            readers |= {context.kernel for context in uses}
        elif plan.has_steps and is_step(node):
            _run_as_step(plan, node)
        elif node.op in (scatter_p, copy) or node in plan.must_store:
            _store(plan, node, uses)
        elif not uses:
            continue  # an index array that counts: nobody reads it
        elif node.op in SOURCES or merge_policy.is_inlined(plan, node, uses):
            _inline(plan, node, uses)
        else:
            _store(plan, node, uses)
    return plan.result


def _inline(plan: drafts.Planner, node: Node, uses: dict[drafts.Context, Any]) -> None:
    kernels = plan.result.inlined.setdefault(node, set())
    own = weight(node)
    alike = drafts.keeps_index(node)
    for context, (factor, path) in uses.items():
        draft = plan.result.drafts[context.kernel]
        kernels.add(context.kernel)
        draft.weight += own
        if alike:
            for source in node.src:
                plan.use_alike(source, context, factor, path)
            continue
        if node.op.family == "reduction":
            draft.reduces += 1
            if is_contraction(node):
                draft.kind = "contract"
        below = drafts.operand_contexts(node, context, draft, draft.ranges, plan.result)
        for source, inner in below:
            new = [a for a in inner.ranges if a not in path and axis_of(a).reduced]
            new.sort(key=axis_of)
            plan.use(source, inner, (*path, *new))


def _store(plan: drafts.Planner, node: Node, uses: dict[drafts.Context, Any]) -> None:
    if node.op is scatter_p:
        _store_scatter(plan, node, uses)
        return
    draft: drafts.Draft | None = None
    free = node not in plan.forced and merge_policy.may_fuse(plan, uses)
    if free and plan.adds_up is not None:
        draft = merge_policy.find_kernel_adding(plan, node, uses)
        if draft is not None:
            _add_up(plan, node, draft, uses)
            return
    if free:
        draft = merge_policy.kernel_for(plan, node, uses)
    if draft is None:
        draft = plan.new_draft(squeeze(node.shape))
    draft.roots.append(node)
    plan.result.stored[node] = draft.number
    plan.feed(draft, {c.kernel for c in uses} - {draft.number})
    here = {c: v for c, v in uses.items() if c.kernel == draft.number}
    root = draft.at(draft.root_indices(node.shape))
    if not any(merge_policy.is_aligned(node, c, draft) for c in here):
        own = root.ranges  # of a value per row the outer ones
        here[root] = (1, tuple(a for a in draft.atoms if a in own))
    _inline(plan, node, here)


def _add_up(
    plan: drafts.Planner,
    node: Node,
    draft: drafts.Draft,
    uses: dict[drafts.Context, Any],
) -> None:
    """A kernel adds the elements of a sum to it, as it comes to them."""
    draft.roots.append(node)
    draft.sums.add(node)
    draft.weight += weight(node)
    plan.result.stored[node] = draft.number
    plan.feed(draft, {c.kernel for c in uses})
    elements = node.src[0]
    at = draft.at(draft.root_indices(elements.shape))
    plan.use(elements, at, tuple(draft.atoms))


def _store_scatter(
    plan: drafts.Planner, node: Node, uses: dict[drafts.Context, Any]
) -> None:
    """First a kernel that stores the operand, then one that applies the updates."""
    x, updates, *_ = node.src
    apply = plan.new_draft(squeeze(updates.shape))
    apply.kind = "scatter"
    apply.scattered = node
    plan.feed(apply, {c.kernel for c in uses})
    prepare = plan.new_draft(squeeze(node.shape))
    prepare.kind = "scatter"
    prepare.roots.append(node)
    plan.feed(prepare, {apply.number})
    plan.result.stored[node] = apply.number
    plan.result.inlined[node] = {prepare.number}
    start = prepare.at(prepare.root_indices(node.shape))
    plan.use(x, start, tuple(prepare.atoms))
    at = apply.root_indices(updates.shape)
    path = tuple(apply.atoms)
    plan.use(updates, apply.at(at), path)
    targets = targets_of(node, at, plan.result.number_of).values()
    for array, here in plan.result.reads([t.where for t in targets], apply):
        plan.use(array, here, path)


def _run_as_step(plan: drafts.Planner, node: Node) -> None:
    draft = plan.new_draft(())
    draft.kind, draft.step = "step", node
    plan.feed(draft, plan.readers.pop(node, set()))
    for source in node.src:
        root = root_of(source)
        at = draft.at((ZERO,) * root.ndim)
        plan.use(root, at, ())
