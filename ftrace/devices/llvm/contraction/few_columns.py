"""Products with few columns: vectors run along what is summed over.

    right[j][k] <- b(k, j)                  once, turned if it stands otherwise
    out[i, j] <- f(the sum over k of a(i, k) · right[j][k])

Vectors along three columns would be mostly empty, and along the rows far apart in
memory. What is summed over may be taps around channels that lie side by side, of which
some are outside of an image: all lanes are, or none. A tile has a vector of partial
sums for each pair of some rows and a column; their lanes are added up at the end. Long
expressions of the sums are computed for all rows of a unit, which is less code.
"""

from __future__ import annotations

from math import prod

from ftrace.devices.llvm.contraction.find import Contraction, is_heavy
from ftrace.devices.llvm.contraction.schedule import LooseRows, Schedule
from ftrace.devices.llvm.emit.blocked_ranges import Cut
from ftrace.devices.llvm.schedule.index_facts import Facts, index_of
from ftrace.devices.llvm.schedule.register_tiles import rows_together
from ftrace.devices.llvm.schedule.tiling_ir import size_of
from ftrace.devices.llvm.target import Target
from ftrace.lower.kernel.ir import Kernel, axis_of, load_p
from ftrace.trace.graph import Node
from ftrace.trace.symbolic.dim import is_dynamic

#: Cycles to add up the lanes of a vector of sums.
_ACROSS = 10.0
#: Rows that make up for the panel of the right operand.
_LEAST_ROWS = 16
#: Rows of a unit, about.
_HEIGHT = 64


def find_dots(
    kernel: Kernel, plan: Contraction, facts: Facts, target: Target
) -> Schedule | None:
    """A contraction as one of few columns, if that is best."""
    sizes = [axis_of(a).size for a in (*kernel.axes, *plan.ranges)]
    if any(map(is_dynamic, sizes)) or len(plan.columns) != 1:
        return None
    (*others, length), (column,) = plan.ranges, plan.columns
    row = max(plan.rows, key=size_of)
    item = max(n.dtype.itemsize for n in (*plan.left, *plan.right, *plan.reduces))
    lanes = target.vector_bytes // item
    wide, deep = size_of(column), prod(map(size_of, plan.ranges))
    if 2 * wide > lanes or deep < 2 * lanes or size_of(row) < _LEAST_ROWS:
        return None
    if others and size_of(length) % lanes:
        return None
    if deep * wide * item * len(plan.right) > target.l1:
        return None
    if not all(_runs_along(n, length, facts) for n in plan.left):
        return None
    # Of sums in vectors of columns, each step takes half a cycle per row.
    if 0.5 * deep <= wide * (0.5 * deep / lanes + _ACROSS):
        return None
    room = target.registers - 1 - wide
    most = rows_together(plan.left, row, facts)
    tile = min(room // ((wide + 1) * len(plan.reduces)), most)
    if tile < 1:
        return None
    return Schedule(
        plan, lanes,
        outer=plan.outer,
        inner=tuple(a for a in plan.rows if a is not row),
        rows=LooseRows(row, tile, _HEIGHT),
        columns=Cut((), None, 1, (column,)),
        vectors=wide,
        depth=Cut((), None, 1, plan.ranges),
        packed=plan.right, left=(),
        pitch=(-(-deep // lanes) + 1) * lanes,
        along=length, once=True, registers=not is_heavy(plan, kernel),
    )  # fmt: skip


def _runs_along(node: Node, length: Node, facts: Facts) -> bool:
    if node.op is not load_p or any(length in facts.free[n] for n in node.src[2:]):
        return False
    form = facts.affine[index_of(node)]
    others = [a for a in form.terms if a is not length]
    if any(length in facts.free[a] for a in others):
        return False
    return form.terms.get(length) == 1
