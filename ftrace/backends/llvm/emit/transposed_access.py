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

from ftrace.backends.llvm.emit.blocked_ranges import Block, Cut, fill_panel, run_stores
from ftrace.backends.llvm.emit.staged_kernel import Stage, replaced_stores, sum_of
from ftrace.backends.llvm.schedule.index_facts import Facts, facts_of, index_of
from ftrace.backends.llvm.schedule.tiling_ir import Steps
from ftrace.backends.llvm.target import Target
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.kernel.ir import INDEX, Kernel, axis_of, load_p, reduce_p
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
        stores = replaced_stores(kernel.stores, {axis: sub(last, axis)})
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


def render_transposed(plan: Turned, stage: Stage) -> int:
    """Emits the function; returns how many units it has."""
    if turns_result(plan, stage.kernel, stage.facts, stage.target):
        return _render_whole(plan, stage)
    items = [n.dtype.itemsize for n in plan.loads]
    lanes = stage.target.vector_bytes // max(items)
    cuts = [Cut.of_first([a], SIDE * lanes) for a in (plan.row, plan.column)]
    pitch = -(-cuts[1].length // lanes) * lanes
    panels = {n: stage.new_panel(n.dtype, cuts[0].length, pitch) for n in plan.loads}
    with stage.units([*plan.outer, *[c.blocks for c in cuts]]) as unit:
        row, column = unit.blocks
        rows, columns = Block(stage, cuts[0], row), Block(stage, cuts[1], column)
        with rows, columns:
            for node, panel in panels.items():
                fill_panel(panel, node, plan.column, rows, columns, rows, lanes)
            index = sum_of([*rows.terms(pitch), *columns.terms(1)])
            found: dict[Node, Node] = {n: p.load(index) for n, p in panels.items()}
            stores = replaced_stores(stage.kernel.stores, found)
            run_stores(stage, stores, [plan.row, plan.column], [rows, columns], lanes)
    return unit.count


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


def _render_whole(plan: Turned, stage: Stage) -> int:
    """Emits the function where the result is turned; returns how many units it has."""
    (store,), target = stage.kernel.stores, stage.target
    items = [n.dtype.itemsize for n in plan.loads] + [store.value.dtype.itemsize]
    lanes = min(target.vector_bytes // max(items), target.registers)
    cuts = [Cut.of_first([a], SIDE * lanes) for a in (plan.row, plan.column)]
    steps = {plan.row: Steps(lanes), plan.column: Steps(0, lanes, False)}
    # What is read lies side by side along the row, what is written along the column:
    # through the caches the latter counts more, for whose lines are read as well.
    axes = [plan.row, plan.column]
    if store.buffer in stage.values.streamed:
        axes.reverse()
    with stage.units([*plan.outer, *[c.blocks for c in cuts]]) as unit:
        row, column = unit.blocks
        rows, columns = Block(stage, cuts[0], row), Block(stage, cuts[1], column)
        with rows, columns:
            spans = rows.spans(steps) | columns.spans(steps)
            stage.run(axes, [store], steps, spans, squares=True)
    return unit.count
