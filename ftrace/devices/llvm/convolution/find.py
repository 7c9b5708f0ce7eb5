"""Which kernels are convolutions, and what it costs to evaluate what slides.

    groups    out[p, g, o] = the sum over c, t of left(p + t, g, c) · right(g, c, t, o)
    channels  out[g, p] = the sum over t of left(g, p + t) · right(g, t)

Groups and their places lie side by side in the result, channels do not. All other
convolutions are contractions (see `contraction/find.py`) with a window.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from ftrace.devices.llvm.contraction.find import FLOATS, Contraction, product_loop
from ftrace.devices.llvm.emit.blocked_ranges import Cut
from ftrace.devices.llvm.schedule.index_facts import Facts, index_of
from ftrace.devices.llvm.schedule.tiling_ir import size_of
from ftrace.devices.llvm.target import Target
from ftrace.lower.kernel.ir import INDEX, Kernel, axis_of, load_p
from ftrace.lower.kernel.loop_tree import ReduceLoop, Statement
from ftrace.trace.graph import Node, toposort

#: Cycles that it takes to evaluate a vector of a panel; where its elements are apart.
_FILL, _FILL_APART = 3.0, 6.0
#: Fewer products are not worth it.
_LEAST = 1 << 14


def is_sum_of_products(kernel: Kernel, plan: Contraction) -> bool:
    """Is it one sum of one product of floats, known in size and not too short?"""
    if kernel.is_dynamic or len(plan.reduces) != 1:
        return False
    if len(plan.left) != 1 or len(plan.right) != 1:
        return False
    (total,), (left,), (right,) = plan.reduces, plan.left, plan.right
    if total.arg != "add" or total.dtype not in FLOATS:
        return False
    if prod(map(size_of, (*kernel.axes, *plan.ranges))) < _LEAST:
        return False
    term = total.src[0]
    if term.op.name != "mul" or set(term.src) != {left, right}:
        return False
    return {left.dtype, right.dtype} == {total.dtype}


def find_groups(
    kernel: Kernel, block: Sequence[Statement], facts: Facts, target: Target
) -> Contraction | None:
    """The kernel as a product whose columns are groups and their places, if it is one.

    The left operand has the groups, too, but not the places.
    """
    loop = product_loop(kernel, block)
    columns = loop and _side_by_side(kernel, loop.reduces[0].src[0], facts)
    if loop is None or columns is None:
        return None
    lanes = target.vector_bytes // loop.reduces[0].dtype.itemsize
    places = size_of(columns[1]) if len(columns) > 1 else 1
    if 2 * places > lanes or 2 * size_of(columns[0]) * places < lanes:
        return None
    return _with_columns(kernel, loop, columns, facts)


def _with_columns(
    kernel: Kernel, loop: ReduceLoop, columns: Sequence[Node], facts: Facts
) -> Contraction | None:
    """The sum of products of groups and their places, which one operand has alone."""
    (total,), (groups, *places) = loop.reduces, columns
    axes = [a for a in kernel.axes if size_of(a) > 1 and a not in columns]
    a, b = total.src[0].src
    for left, right in ((a, b), (b, a)):
        of_left, of_right = facts.free[left], facts.free[right]
        rows = [a for a in axes if a in of_left and a not in of_right]
        if not rows or not set(columns) <= of_right or groups not in of_left:
            continue
        if of_left.isdisjoint(places):
            outer = tuple(a for a in axes if a not in rows)
            return Contraction(
                outer, tuple(rows), tuple(columns), loop.ranges, (left,), (right,), (),
                (total,), False,
            )  # fmt: skip
    return None


def _side_by_side(kernel: Kernel, term: Node, facts: Facts) -> list[Node] | None:
    """The groups and their places, as they lie in the result; groups of one alone."""
    store, *more = kernel.stores
    if more:
        return None
    terms = facts.affine[store.index].terms
    axes = [a for a in kernel.axes if size_of(a) > 1 and a in terms]
    axes.sort(key=lambda a: abs(terms[a]))
    if not axes or terms[axes[0]] != 1:
        return None
    last, *rest = axes
    if all(last in facts.free[factor] for factor in term.src):
        return [last]
    if not rest or terms[rest[0]] != size_of(last):
        return None
    return [rest[0], last]


def cut_groups(columns: Sequence[Node], length: int) -> Cut:
    """Blocks of about so many columns: whole groups."""
    groups, *places = columns
    each = prod(axis_of(a).size for a in places)
    count = axis_of(groups).size
    size = min(max(length // each, 1), count)
    if size == count:
        return Cut((), None, 1, tuple(columns))
    return Cut((), groups, size, tuple(places))


def find_channels(
    kernel: Kernel, block: Sequence[Statement], facts: Facts, target: Target
) -> Contraction | None:
    """The kernel as products of channels that do not lie side by side, if it is one."""
    loop = product_loop(kernel, block)
    if loop is None or len(kernel.stores) != 1:
        return None
    (total,), (store,) = loop.reduces, kernel.stores
    axes = [a for a in kernel.axes if size_of(a) > 1]
    both = [a for a in axes if all(a in facts.free[s] for s in total.src[0].src)]
    lanes = target.vector_bytes // total.dtype.itemsize
    if len(both) != 1 or 2 * size_of(both[0]) < lanes:
        return None
    plan = _with_columns(kernel, loop, both, facts)
    if plan is None or plan.outer or not is_sum_of_products(kernel, plan):
        return None
    return plan if facts.affine[store.index].terms.get(plan.rows[-1]) == 1 else None


def fill_cost(node: Node, column: Node, facts: Facts, lanes: int) -> float | None:
    """Cycles that it takes to evaluate a vector; None where that is too slow."""
    cost = 0.0
    for n in toposort([node]):
        if n.op is load_p and column in facts.free[n]:
            stride = facts.stride(index_of(n), column, lanes)
            if stride is None or abs(stride) > 4:
                return None
            cost += _FILL if abs(stride) == 1 else _FILL_APART
        elif n.dtype is not INDEX and n.src:
            cost += 1.0
    return cost


def step_sizes(node: Node, ranges: Iterable[Node], facts: Facts) -> dict[Node, int]:
    """How far apart in memory an operand's elements are along ranges."""
    found = dict.fromkeys(ranges, 0)
    for n in toposort([node]):
        if n.op is load_p:
            terms = facts.affine[index_of(n)].terms
            for r in found:
                found[r] = max(found[r], abs(terms.get(r, 0)))
    return found
