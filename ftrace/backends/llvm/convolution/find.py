"""Which kernels are convolutions: windows, groups, and what it costs to evaluate them.

Contractions (see `contraction/find.py`) with a window (see `schedule/windows.py`) are
convolutions, and these are:

    groups    out[p, g, o] = the sum over c, t of left(p + t, g, c) · right(g, c, t, o)
    channels  out[g, p] = the sum over t of left(g, p + t) · right(g, t)

Groups and their places lie side by side in the result, channels do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd, prod

from ftrace.backends.llvm.contraction.find import FLOATS, Contraction, product_loop
from ftrace.backends.llvm.schedule.index_facts import Facts, index_of
from ftrace.backends.llvm.schedule.tiling_ir import size_of
from ftrace.backends.llvm.schedule.windows import Window
from ftrace.backends.llvm.target import Target
from ftrace.lower.kernel.affine_index import Index
from ftrace.lower.kernel.ir import INDEX, Kernel, axis_of, load_p, range_p
from ftrace.lower.kernel.loop_tree import ReduceLoop, Statement
from ftrace.trace.graph import Node, toposort
from ftrace.trace.symbolic.dim import is_dynamic

#: Fewer products are not worth it.
_LEAST = 1 << 14


def find_windows(
    node: Node,
    columns: Sequence[Node],
    ranges: Sequence[Node],
    facts: Facts,
    saving: bool = True,
) -> list[Window]:
    """The windows in an operand; outer columns first.

    Args:
      saving: only those of which each pixel is in more than one.
    """
    forms = _forms(node, facts)
    if forms is None:
        return []
    found: list[Window] = []
    for column in columns:
        size = axis_of(column).size
        if is_dynamic(size):
            continue
        fitting = [_window(column, r, forms) for r in ranges]
        windows = [w for w in fitting if w is not None and w.taps <= size]
        if saving:
            windows = [w for w in windows if w.share(size) < 1]
        if windows:
            found.append(min(windows, key=lambda w: w.share(size)))
    return found


def _window(column: Node, tap: Node, forms: Sequence[Index]) -> Window | None:
    """How the two go together, if they do so wherever one of them stands."""
    size = axis_of(tap).size
    if is_dynamic(size) or size < 2:
        return None
    ratio: tuple[int, int, bool] | None = None
    for form in forms:
        a, b = form.terms.get(column, 0), form.terms.get(tap, 0)
        if not a and not b:
            continue
        if not a or not b:
            return None
        here = (abs(a) // gcd(a, b), abs(b) // gcd(a, b), a * b < 0)
        if ratio not in (None, here):
            return None
        ratio = here
    return None if ratio is None else Window(column, tap, *ratio)


def _forms(node: Node, facts: Facts) -> list[Index] | None:
    """Every sum of ranges on which an operand depends, if it does so by sums alone."""
    found: list[Index] = []
    for load in _loads(node):
        if load is None:
            return None
        found.append(facts.affine[index_of(load)])
        for condition in facts.conditions(load.src[2] if len(load.src) > 2 else None):
            if condition.form is None:
                return None
            found.append(condition.form)
    if any(atom.op is not range_p for form in found for atom in form.terms):
        return None
    return found


def _loads(node: Node) -> Iterator[Node | None]:
    """The loads below an operand; None where it depends on an index otherwise."""
    pending, seen = [node], {node}
    while pending:
        n = pending.pop()
        if n.op is load_p:
            yield n
            continue
        if n.op is range_p:
            yield None
        fresh = [s for s in n.src if s not in seen]
        seen.update(fresh)
        pending += fresh


# Sums of products, and of groups.


def is_sum_of_products(kernel: Kernel, plan: Contraction) -> bool:
    """Is it one sum of one product of floats, known in size and not too short?"""
    if kernel.is_dynamic or len(plan.reduces) != 1:
        return False
    (total,), factors = plan.reduces, (*plan.left, *plan.right)
    if len(plan.left) != 1 or len(factors) != 2:
        return False
    if total.arg != "add" or total.dtype not in FLOATS:
        return False
    if prod(map(size_of, (*kernel.axes, *plan.ranges))) < _LEAST:
        return False
    term = total.src[0]
    if term.op.name != "mul" or set(term.src) != set(factors):
        return False
    return {factor.dtype for factor in factors} == {total.dtype}


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
    groups, *places = columns
    width = prod(map(size_of, places))
    if 2 * width > lanes or 2 * size_of(groups) * width < lanes:
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
        rows = tuple(a for a in axes if a in of_left and a not in of_right)
        if not rows or not set(columns) <= of_right or groups not in of_left:
            continue
        if of_left.isdisjoint(places):
            outer = tuple(a for a in axes if a not in rows)
            return Contraction(
                outer, rows, tuple(columns), loop.ranges, (left,), (right,), (total,)
            )
    return None


def _side_by_side(kernel: Kernel, term: Node, facts: Facts) -> list[Node] | None:
    """The groups and their places, as they lie in the result; groups of one alone."""
    store, *more = kernel.stores
    terms = facts.affine[store.index].terms
    axes = [a for a in kernel.axes if size_of(a) > 1 and a in terms]
    axes.sort(key=lambda a: abs(terms[a]))
    if more or not axes or terms[axes[0]] != 1:
        return None
    last, *rest = axes
    if all(last in facts.free[factor] for factor in term.src):
        return [last]
    if not rest or terms[rest[0]] != size_of(last):
        return None
    return [rest[0], last]


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


# What it costs to evaluate an operand.


def can_fill(node: Node, column: Node, facts: Facts, lanes: int = 16) -> bool:
    """Is it evaluated in vectors along a column, from elements that are close by?"""
    loads = [n for n in toposort([node]) if n.op is load_p and column in facts.free[n]]
    strides = (facts.stride(index_of(n), column, lanes) for n in loads)
    return all(stride is not None and abs(stride) <= 4 for stride in strides)


def fill_cost(
    node: Node, column: Node, facts: Facts, target: Target, lanes: int
) -> float:
    """Cycles that it takes to evaluate a vector of an operand that can be filled."""
    cost = 0.0
    for n in toposort([node]):
        if n.op is load_p and column in facts.free[n]:
            near = abs(facts.stride(index_of(n), column, lanes) or 0) == 1
            cost += target.costs.fill * (1 if near else 2)
        elif n.dtype is not INDEX and n.src:
            cost += 1.0
    return cost
