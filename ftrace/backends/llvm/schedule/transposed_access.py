"""Elementwise kernels that read some operands the other way round.

    out[i, j] = f(x[i, j], y[j, i])

Along j the elements of y lie far apart, so that each would come from another line of
the cache. Such a load is turned, square by square, into a panel that the rest of the
kernel reads along j. Where all loads are turned, so is their result: it is computed
along i, and stored along j out of the square of registers.

Where operands are read from their end, the axis is run from its end:

    for i, j: out[i, j] = x[j, n - 1 - i]     ->  for i, j: out[n - 1 - i, j] = x[j, i]

So an array that is rotated is turned square by square as one that is transposed: only
the rows that are written come in another order.
"""

from __future__ import annotations

from dataclasses import replace

from ftrace.backends.llvm.schedule.index_facts import (
    Facts,
    facts_of,
    index_of,
    replace_in_stores,
)
from ftrace.backends.llvm.schedule.layout import Cut, Panel, Part, whole_vectors
from ftrace.backends.llvm.schedule.schedule_tree import Fill, Schedule, Store
from ftrace.backends.llvm.target import Target
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.kernel.ir import (
    INDEX,
    Kernel,
    axis_of,
    load_p,
    reduce_p,
)
from ftrace.lower.register_loops.register_loop import cost
from ftrace.trace.graph import Node, toposort
from ftrace.trace.primitives.elementwise import sub
from ftrace.trace.primitives.sources import const

#: Vectors along each side of a block: 64 KB of floats where a vector has 64 bytes.
SIDE = 8
#: Shorter axes are not worth turning.
_LEAST = 8
#: Operations on an element at most, whose code is repeated for each row of a square.
_LIGHT = 6


@dataclass(frozen=True, eq=False)
class Turned:
    """How a kernel has operands that are turned.

    Attributes:
      outer: the other axes.
      row: the axis along which the operands are contiguous.
      column: the axis along which the results are.
      loads: the operands.
    """

    outer: tuple[Node, ...]
    row: Node
    column: Node
    loads: tuple[Node, ...]


def find_transposed(kernel: Kernel, facts: Facts) -> tuple[Kernel, Turned | None]:
    """A kernel as one with turned operands, maybe with one axis the other way round."""
    plan = _find(kernel, facts)
    if plan is not None or kernel.ordered:
        return kernel, plan
    forms = [facts.affine[index_of(n)].terms for n in kernel.nodes if n.op is load_p]
    for axis in kernel.axes:
        if all(terms.get(axis, 0) != -1 for terms in forms):
            continue
        last = const(axis_of(axis).size - 1, INDEX)
        stores = replace_in_stores(kernel.stores, {axis: sub(last, axis)})
        backwards = replace(kernel, stores=tuple(stores))
        plan = _find(backwards, facts_of(backwards))
        if plan is not None:
            return backwards, plan
    return kernel, None


def _find(kernel: Kernel, facts: Facts) -> Turned | None:
    nodes = kernel.nodes
    if kernel.ordered or any(store.combine for store in kernel.stores):
        return None
    if any(n.op is reduce_p for n in nodes):
        return None
    wide = [a for a in kernel.axes if axis_of(a).size >= _LEAST]
    indices = [store.index for store in kernel.stores]
    columns = [a for a in wide if all(_step(i, a, facts) == 1 for i in indices)]
    if not columns:
        return None
    column = columns[-1]
    loads = [
        n for n in nodes
        if n.op is load_p and column in facts.free[n]
        and _step(index_of(n), column, facts) not in (-1, 0, 1)
    ]  # fmt: skip
    for row in reversed(wide):
        turned = [n for n in loads if _step(index_of(n), row, facts) == 1]
        if row is not column and turned:
            outer = tuple(a for a in kernel.axes if a is not row and a is not column)
            return Turned(outer, row, column, tuple(turned))
    return None


def _step(index: Node, axis: Node, facts: Facts) -> int | None:
    """The coefficient of an axis in an index; None if it is not linear in the axis."""
    form = facts.affine[index]
    if any(a is not axis and axis in facts.free[a] for a in form.terms):
        return None
    return form.terms.get(axis, 0)


def turns_result(plan: Turned, kernel: Kernel, facts: Facts, target: Target) -> bool:
    """Is the result turned? Little is computed of the operands, all of which are."""
    if not target.decides("transposed_results"):
        return False
    if len(kernel.stores) != 1 or kernel.stores[0].valid is not None:
        return False
    row, column = plan.row, plan.column
    nodes = toposort([kernel.stores[0].value])
    for n in nodes:
        if n.op is not load_p or n in plan.loads or row not in facts.free[n]:
            continue
        if column in facts.free[n] or _step(index_of(n), row, facts) not in (0, 1):
            return False
    return sum(map(cost, nodes)) <= _LIGHT


def schedule_transposed(
    plan: Turned, kernel: Kernel, facts: Facts, target: Target
) -> Schedule:
    """Blocks of rows and columns, of which operands, or the result, are turned."""
    items = [n.dtype.itemsize for n in plan.loads]
    whole = turns_result(plan, kernel, facts, target)
    if whole:
        items.append(kernel.stores[0].value.dtype.itemsize)
    lanes = target.vector_bytes // max(items)
    lanes = min(lanes, target.registers) if whole else lanes
    rows, columns = (Cut.of_first([a], SIDE * lanes) for a in (plan.row, plan.column))
    pitch = whole_vectors(columns, lanes)
    parts = Part.of(rows, pitch), Part.of(columns, 1)
    panels = tuple(
        Panel(f"turned{n or ''}", node, rows.length, pitch, parts)
        for n, node in enumerate(() if whole else plan.loads)
    )
    axes, cuts = (plan.row, plan.column), (rows, columns)
    body = *map(Fill, panels), Store(panels, axes, cuts, {}, squares=whole)
    return Schedule(kernel, lanes, (*plan.outer, rows, columns), body)
