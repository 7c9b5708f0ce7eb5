"""Elementwise kernels that read some operands the other way round.

    out[i, j] = f(x[i, j], y[j, i])

Along j the elements of y lie far apart, so that each would come from another line of
the cache. Such a load is transposed, square by square, into a panel that the rest of
the kernel reads along j. Where all loads are transposed, so is their result: it is
computed along i, and stored along j out of the square of registers.

Where operands are read from their end, the axis is run from its end:

    for i, j: out[i, j] = x[j, n - 1 - i]     ->  for i, j: out[n - 1 - i, j] = x[j, i]

So a rotated array is transposed square by square as a transposed one is: only the rows
that are written come in another order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ftrace.backends.llvm.schedule.fill import fill
from ftrace.backends.llvm.schedule.index_facts import (
    Facts,
    facts_of,
    index_of,
    replace_in_stores,
)
from ftrace.backends.llvm.schedule.layout import Cut, Panel, Term, whole_vectors
from ftrace.backends.llvm.schedule.prefetch import far_rows, loads_along
from ftrace.backends.llvm.schedule.schedule_tree import Schedule, StoreResults
from ftrace.backends.llvm.target import Target
from ftrace.lower.kernel import ir
from ftrace.lower.register_loops.register_loop import cost
from ftrace.trace.graph import Node, toposort
from ftrace.trace.primitives.elementwise import sub
from ftrace.trace.primitives.sources import const

#: Vectors along each side of a block: 64 KB of floats where a vector has 64 bytes. With
#: 4 NCHW → NHWC + relu takes 2.3 times as long, with 16 1000×300 1.3 times (AMD EPYC).
SIDE = 8
#: Shorter axes are not worth it; 20×1000 not transposed takes 2.7 times as long.
_SHORTEST_AXIS = 8
#: Operations on an element at most, whose code is repeated for each row of a square.
#: With 0 NCHW → NHWC + relu is not transposed, with 3 or 50 no row differs.
_LIGHT = 6


def schedule_squares(
    kernel: ir.Kernel, facts: Facts, target: Target
) -> Schedule | None:
    """A kernel with transposed operands, maybe with one axis the other way round."""
    found = _find(kernel, facts, target)
    if found is not None or kernel.ordered:
        return found
    forms = [facts.affine[index_of(n)].terms for n in kernel.nodes if n.op is ir.load_p]
    for axis in kernel.axes:
        if all(terms.get(axis, 0) != -1 for terms in forms):
            continue
        last = const(ir.axis_of(axis).size - 1, ir.INDEX)
        stores = replace_in_stores(kernel.stores, {axis: sub(last, axis)})
        backwards = replace(kernel, stores=tuple(stores))
        found = _find(backwards, facts_of(backwards), target)
        if found is not None:
            return found
    return None


def _find(kernel: ir.Kernel, facts: Facts, target: Target) -> Schedule | None:
    nodes = kernel.nodes
    combines = any(store.combine for store in kernel.stores)
    if kernel.ordered or combines or any(n.op is ir.reduce_p for n in nodes):
        return None
    wide = [a for a in kernel.axes if ir.axis_of(a).size >= _SHORTEST_AXIS]
    indices = [store.index for store in kernel.stores]
    columns = [a for a in wide if all(_step(i, a, facts) == 1 for i in indices)]
    if not columns:
        return None
    column = columns[-1]
    loads = [
        n for n in nodes
        if n.op is ir.load_p and column in facts.free[n]
        and _step(index_of(n), column, facts) not in (-1, 0, 1)
    ]  # fmt: skip
    for row in reversed(wide):
        transposed = [n for n in loads if _step(index_of(n), row, facts) == 1]
        if row is not column and transposed:
            return _schedule(kernel, row, column, transposed, facts, target)
    return None


def _step(index: Node, axis: Node, facts: Facts) -> int | None:
    """The coefficient of an axis in an index; None if it is not linear in the axis."""
    form = facts.affine[index]
    if any(a is not axis and axis in facts.free[a] for a in form.terms):
        return None
    return form.terms.get(axis, 0)


def _transposes_result(
    kernel: ir.Kernel, row: Node, column: Node, transposed: Sequence[Node], facts: Facts
) -> bool:
    """Is the result transposed? Little is computed of the operands, which all are."""
    if len(kernel.stores) != 1 or kernel.stores[0].valid is not None:
        return False
    nodes = toposort([kernel.stores[0].value])
    for n in nodes:
        if n.op is not ir.load_p or n in transposed or row not in facts.free[n]:
            continue
        if column in facts.free[n] or _step(index_of(n), row, facts) not in (0, 1):
            return False
    return sum(map(cost, nodes)) <= _LIGHT


def _schedule(
    kernel: ir.Kernel, row: Node, column: Node, transposed: Sequence[Node],
    facts: Facts, target: Target,
) -> Schedule:  # fmt: skip
    """Blocks of rows and columns, of which operands, or the result, are transposed.

    Args:
      row: the axis along which the operands are contiguous.
      column: the axis along which the results are.
      transposed: the operands.
    """
    outer = [a for a in kernel.axes if a is not row and a is not column]
    items = [n.dtype.itemsize for n in transposed]
    lanes = target.vector_bytes // max(items)
    whole = target.decides("transpose_results")
    whole = whole and _transposes_result(kernel, row, column, transposed, facts)
    if whole:
        items.append(kernel.stores[0].value.dtype.itemsize)
        lanes = min(target.vector_bytes // max(items), target.registers)
    rows, columns = (Cut.of_first([a], SIDE * lanes) for a in (row, column))
    pitch = whole_vectors(columns, lanes)
    parts = Term.of(rows, pitch), Term.of(columns, 1)
    panels = tuple(
        Panel("transposed", node, rows.length, pitch, parts)
        for node in (() if whole else transposed)
    )
    values = [store.value for store in kernel.stores] if whole else []
    far = far_rows(loads_along(values, row, facts), column, facts, target)
    store = StoreResults(panels, (row, column), (rows, columns), whole, prefetch=far)
    body = (*[fill(panel, lanes, facts, target) for panel in panels], store)
    return Schedule(kernel, lanes, (*outer, rows, columns), body)
