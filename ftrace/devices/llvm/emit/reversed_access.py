"""Axes that are run from their end, where operands are read from their end.

    for i, j: out[i, j] = x[j, n - 1 - i]     ->  for i, j: out[n - 1 - i, j] = x[j, i]

So an array that is rotated is turned square by square as one that is transposed: only
the rows that are written come in another order.
"""

from __future__ import annotations

from dataclasses import replace

from ftrace.devices.llvm.emit.staged_kernel import replaced_stores
from ftrace.devices.llvm.emit.transposed_access import Turned, find_turned
from ftrace.devices.llvm.schedule.index_facts import Facts, facts_of
from ftrace.lower.kernel.ir import INDEX, Kernel, axis_of, load_p
from ftrace.trace.graph import Node
from ftrace.trace.primitives import elementwise as ew
from ftrace.trace.primitives.sources import const


def find_turned_backwards(kernel: Kernel, facts: Facts) -> tuple[Kernel, Turned] | None:
    """The kernel with one axis the other way round, if it then has turned operands."""
    if kernel.ordered:
        return None
    loads = [n for n in kernel.nodes if n.op is load_p]
    for axis in kernel.axes:
        steps = [facts.affine[load.src[1]].terms.get(axis, 0) for load in loads]
        if -1 not in steps:
            continue
        other = _backwards(kernel, axis)
        plan = find_turned(other, facts_of(other))
        if plan is not None:
            return other, plan
    return None


def _backwards(kernel: Kernel, axis: Node) -> Kernel:
    last = const(axis_of(axis).size - 1, INDEX)
    stores = replaced_stores(kernel.stores, {axis: ew.sub(last, axis)})
    return replace(kernel, stores=tuple(stores))
