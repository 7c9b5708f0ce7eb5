"""Values of a row that are cached from a reduce for the work after it.

    total = the sum of exp(x[j])          total = the sum of (kept[j] = exp(x[j]))
    out[j] = exp(x[j]) / total      ->    out[j] = kept[j] / total

What a reduce has computed for each element of a row, and what comes after computes
again, stays in the first caches: loading it costs less than a few operations do.
"""

from __future__ import annotations

from dataclasses import replace

from ftrace.backends.llvm.schedule.index_facts import Facts, index_of
from ftrace.backends.llvm.target import Target
from ftrace.lower.kernel import ir
from ftrace.trace.graph import Node, substitute
from ftrace.trace.symbolic import same_size

#: Operations that cost more than a store and a load. Kept: softmax of rows of 33 1.5
#: times as fast, of 100 1.6, of 1000 1.35, of 8 the same (AMD EPYC, as all such).
_DEAR = 6


def keep_values(kernel: ir.Kernel, facts: Facts, target: Target) -> ir.Kernel | None:
    """The kernel with values of its rows cached; None if there are none to keep.

    Their buffers come after its own: no arguments, but memory that each thread has.
    """
    if kernel.is_dynamic or not kernel.axes or (kernel.ordered and kernel.scatters):
        return None
    axis = kernel.axes[-1]
    if ir.axis_of(axis).number in kernel.ordered:
        return None
    size = ir.axis_of(axis).size
    if not any(n.op is ir.reduce_p for n in kernel.nodes):
        return None
    found: dict[Node, ir.Store] = {}  # by what is computed again
    replaced: dict[Node, Node] = {}
    for r in _rows_alike(kernel, axis):
        again = _find_computed_again(kernel, r, axis, facts)
        for own, other in again.items():
            if other in found or size * own.dtype.itemsize > target.l2 // 8:
                continue
            number = len(kernel.buffers) + len(found)
            memory = ir.param(number, own.dtype, size)
            found[other] = ir.Store(number, r, own)
            replaced[other] = ir.load(memory, axis)
    if not found:
        return None
    specs = [ir.BufferSpec(n.dtype, size, True) for n in found]
    values = substitute([store.value for store in kernel.stores], replaced)
    stores = map(lambda s, value: replace(s, value=value), kernel.stores, values)
    return replace(
        kernel, stores=(*stores, *found.values()), buffers=(*kernel.buffers, *specs)
    )


def _rows_alike(kernel: ir.Kernel, axis: Node) -> list[Node]:
    """Ranges over which reduces run alone, of the size of the kernel's last axis."""
    size = ir.axis_of(axis).size
    # In the order of the program: a set's order changes from process to process.
    ranges = dict.fromkeys(n.src[1:] for n in kernel.nodes if n.op is ir.reduce_p)
    alone = [r[0] for r in ranges if len(r) == 1]
    return [r for r in alone if same_size(ir.axis_of(r).size, size)]


def _find_computed_again(
    kernel: ir.Kernel, r: Node, axis: Node, facts: Facts
) -> dict[Node, Node]:
    """What is computed along `r` in a reduce and again along `axis`, if it is dear."""
    inside = frozenset((r, *[a for a in kernel.axes if a is not axis]))
    along = [n for n in kernel.nodes if r in facts.free[n] and n.op is not ir.range_p]
    for node in along:
        if node.op is ir.reduce_p or not facts.free[node] <= inside:
            return {}  # an index array, a reduce in a reduce
        if node.op is ir.load_p and facts.affine[index_of(node)].terms.get(r) != 1:
            return {}
    present, cost = set(kernel.nodes), dict[Node, int]()
    pairs = zip(along, substitute(along, {r: axis}), strict=True)
    again = {node: other for node, other in pairs if other in present}
    for node in again:
        cost[node] = sum(cost.get(s, 0) for s in set(node.src)) + _weight(node)
    alone = (n for n in kernel.nodes if n not in again)
    needed = {source for node in alone for source in node.src}
    return {n: again[n] for n in again if cost[n] >= _DEAR and n in needed}


def _weight(node: Node) -> int:
    plain = node.dtype is ir.INDEX or node.op in (ir.load_p, ir.param_p)
    return 0 if plain else 1
