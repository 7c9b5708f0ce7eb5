"""Contractions: sums of products whose operands each lack an axis of the other.

    out[i, j] = f(the sum over k of a(i, k) · b(j, k), …)

The *columns* are the axes of b, the one that is contiguous in memory last; the *rows*
are the axes of a. Any expressions may stand for a, b and the product, and any reduce
for the sum.

This file finds them; `strategies.py` says how they run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from ftrace.backends.llvm.schedule.index_facts import Facts, index_of
from ftrace.backends.llvm.schedule.loop_tiling import MOST_ROWS, rows_together, size_of
from ftrace.backends.llvm.target import Target
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.kernel.affine_index import Index
from ftrace.lower.kernel.ir import INDEX, Kernel, axis_of, load_p, range_p
from ftrace.lower.kernel.loop_tree import Statement, reduce_loop
from ftrace.trace.graph import Node, toposort, walk
from ftrace.trace.symbolic import is_dynamic

#: Fewer rows than this in the longest of several row axes are put together: one by one
#: 32×7×7 rows of 256 numbers by 256² take 1.16 times as long (AMD EPYC).
_FEW_ROWS = 64
#: So few lines of the cache are not pushed out between one tile and the next; the two
#: strided gradients of convolutions by their images are on either side of it.
_FEW_STEPS = 64
#: Products that are worth filling a panel; in each of many matrices: if all small ones
#: went without, 300 of 10×10 @ (10×10).T would take 4.4 times as long, and if none did,
#: 2000 of 6×6 2.1 times (AMD EPYC, as all such figures here).
_WORTH_PANELS, _LITTLE = 1 << 13, 1 << 9
#: Rows, columns and terms that are worth a block: with 2 the forces of 1024 bodies are
#: in blocks, with 8 no row differs.
_FEWEST = 4
#: Rows of right operands, of so many terms, push each other out where they lie on few
#: sets of the cache. With 0 or 2048 no row differs.
_DEEP = 256
#: How many times as many terms a sum has as there are columns: in blocks 100 of
#: 4×64 @ (4×64).T would take 2.3 times as long.
_LONG_SUM = 8
#: Operations per result that are not worth repeating in the code of each register. With
#: 0 bfloat16 512³ has a panel of sums, with 50 int8 512³ and gelu of 256×512×512 do
#: not.
_LIGHT = 6


@dataclass(frozen=True, eq=False)
class Contraction:
    """How a kernel is a contraction.

    Attributes:
      outer: axes that both operands have, or neither.
      rows: axes of the left operands.
      columns: axes of the right operands.
      ranges: what is summed over.
      left, right: the largest expressions that depend on rows, or columns, alone.
      reduces: the sums.
      loose: the left operands can be used where they stand in memory: one axis of
        rows suffices.
      offsets: sums that depend on columns alone, and that results are reduced by.
    """

    outer: tuple[Node, ...]
    rows: tuple[Node, ...]
    columns: tuple[Node, ...]
    ranges: tuple[Node, ...]
    left: tuple[Node, ...]
    right: tuple[Node, ...]
    reduces: tuple[Node, ...]
    loose: bool = False
    offsets: tuple[Node, ...] = ()


def find_contraction(
    kernel: Kernel, block: Sequence[Statement], facts: Facts
) -> Contraction | None:
    """The kernel as a contraction, if it is one."""
    loop = reduce_loop(kernel, block)
    column = contiguous_axis(kernel, facts)
    if loop is None or column is None:
        return None
    free, ranges, reduces = facts.free, loop.ranges, loop.reduces
    terms = [r.src[0] for r in reduces]
    loads = [n for n in toposort(terms) if n.op is load_p]
    moving = [n for n in loads if column in free[n]]
    if not moving or not all(column in free[r] for r in reduces):
        return None
    right = frozenset[Node]().union(*[free[n] for n in moving])
    left = frozenset[Node]().union(*[free[n] for n in loads if n not in moving])
    axes = [a for a in kernel.axes if size_of(a) > 1]
    rows = [a for a in axes if a in left and a not in right]
    columns = [a for a in axes if a in right and a not in left]
    if column not in columns or not rows:
        return None
    columns.remove(column)
    columns.append(column)
    lefts = _operands(terms, frozenset(rows), frozenset(columns), facts)
    rights = _operands(terms, frozenset(columns), frozenset(rows), facts)
    loose = is_in_place(lefts, rows, frozenset(ranges), facts)
    return Contraction(
        tuple(a for a in kernel.axes if a not in rows and a not in columns),
        tuple(rows), tuple(columns), ranges, tuple(lefts), tuple(rights),
        tuple(reduces), loose,
    )  # fmt: skip


def contiguous_axis(kernel: Kernel, facts: Facts) -> Node | None:
    """The axis along which the first store is contiguous, or nearly."""
    terms = facts.affine[kernel.stores[0].index].terms
    axes = [a for a in reversed(kernel.axes) if size_of(a) > 1 and a in terms]
    found = min(axes, key=lambda a: abs(terms[a]), default=None)
    return found if found is not None and terms[found] > 0 else None


def _operands(
    terms: Sequence[Node], own: frozenset[Node], others: frozenset[Node], facts: Facts
) -> list[Node]:
    """The largest expressions that depend on some of `own` and on none of `others`."""
    free = facts.free

    def below(node: Node) -> list[Node]:
        if free[node].isdisjoint(own) or free[node].isdisjoint(others):
            return []
        return [source for source in node.src if source.shape == ()]

    found = [n for n in walk(terms, below) if not free[n].isdisjoint(own)]
    return [n for n in found if free[n].isdisjoint(others)]


def is_in_place(
    lefts: Sequence[Node], rows: Sequence[Node], ranges: frozenset[Node], facts: Facts
) -> bool:
    """Can left operands be used where they stand, along one axis of rows?"""
    return all(_is_loose(n, ranges, facts) for n in lefts) and (
        len(rows) < 2 or max(size_of(a) for a in rows) >= _FEW_ROWS
    )


def _is_loose(node: Node, ranges: frozenset[Node], facts: Facts) -> bool:
    """Can it be read where it stands, once per row of a tile?

    It should be contiguous along one of the ranges, or every step takes a line of the
    cache for a few elements.
    """
    if facts.free[node].isdisjoint(ranges):
        return True
    form = plain_form(node, facts)
    if form is None:
        return False
    walked = {r: form.terms[r] for r in ranges if r in form.terms}
    steps = prod(map(size_of, walked))
    return steps < _FEW_STEPS or any(abs(step) == 1 for step in walked.values())


def plain_form(node: Node, facts: Facts) -> Index | None:
    """The index of a load that is nowhere masked, if it is a sum of ranges."""
    if node.op is not load_p or len(node.src) > 2:
        return None
    form = facts.affine[index_of(node)]
    return form if all(atom.op is range_p for atom in form.terms) else None


def runs_along(node: Node, r: Node, facts: Facts) -> bool:
    """Is it a load, contiguous along a range, that is masked for all of it or none?"""
    if node.op is not load_p or any(r in facts.free[n] for n in node.src[2:]):
        return False
    terms = facts.affine[index_of(node)].terms
    others = [a for a in terms if a is not r]
    return terms.get(r) == 1 and all(r not in facts.free[a] for a in others)


def needs_no_panel(node: Node, column: Node, facts: Facts) -> bool:
    """Is it a load that needs no panel: contiguous, and nowhere masked?"""
    return len(node.src) == 2 and runs_along(node, column, facts)


def step_sizes(
    nodes: Sequence[Node], ranges: Iterable[Node], facts: Facts
) -> dict[Node, int]:
    """How far apart in memory elements of operands are along ranges."""
    found = dict.fromkeys(ranges, 0)
    for n in toposort(nodes):
        if n.op is load_p:
            terms = facts.affine[index_of(n)].terms
            for r in found:
                found[r] = max(found[r], abs(terms.get(r, 0)))
    return found


def in_memory_order(
    nodes: Sequence[Node], ranges: Sequence[Node], facts: Facts
) -> list[Node]:
    """Ranges in the order in which operands lie in memory.

    Loads then walk through it evenly, and ranges become one loop.
    """
    steps = step_sizes(nodes, ranges, facts)
    return sorted(ranges, key=lambda r: -steps[r])


def conflict_free_rows(plan: Contraction, facts: Facts, target: Target) -> int:
    """Right rows that do not push each other out of the first cache.

    Where some operand cannot be read where it stands there are none.
    """
    column, found = plan.columns[-1], 1 << 10
    for n in (*plan.left, *plan.right):
        form = plain_form(n, facts)
        if form is None:
            return 0
        terms = form.terms
        pitch = min((abs(terms[r]) for r in plan.ranges if r in terms), default=0)
        cached = target.rows_cached(pitch * n.dtype.itemsize)
        if n in plan.right:
            if terms.get(column) != 1:
                return 0
            found = min(found, cached)
        elif pitch > 1:  # it lies across, and takes the places of right rows
            found = min(found, cached // 2)
    return found


def is_worthwhile(plan: Contraction, facts: Facts, target: Target) -> bool:
    """Do blocks pay? Small plain products run as well straight from memory."""
    depth = prod(size_of(r) for r in plan.ranges)
    width = prod(size_of(a) for a in plan.columns)
    item = max(n.dtype.itemsize for n in plan.right)
    footprint = depth * width * item
    in_place = reads_in_place(plan, facts) and not _is_narrow(plan, target)
    height = prod(size_of(a) for a in plan.rows)
    least = 2 if in_place else _FEWEST
    if height < least or depth < _FEWEST or width < _FEWEST:
        return False
    if not in_place:
        each = height * depth * width
        times = prod(size_of(a) for a in plan.outer)
        # Vectors along a long sum of few columns are full, and need no panel.
        plain = all(needs_no_panel(n, plan.columns[-1], facts) for n in plan.right)
        along = not plain and depth >= _LONG_SUM * width
        return each >= _WORTH_PANELS or (
            each * times >= _WORTH_PANELS and each >= _LITTLE and not along
        )
    pitch = max(
        abs(facts.affine[index_of(n)].terms.get(r, 0)) * item
        for n in plan.right
        for r in plan.ranges
    )
    far = footprint > target.l2 * 3 // 4
    if height > 2 * MOST_ROWS:
        # Rows of a multiple of half a way begin on two sets of the first cache: with
        # vectors of 32 bytes 1000×350 @ 350×512 would take 2.6 times as long, with 64
        # the same.
        pushed = pitch % (target.l1_way // 2) == 0 and depth > _DEEP
        return far or pushed
    if far and depth > _DEEP and _is_one_matrix(plan) and target.decides("few_rows"):
        return bool(conflict_free_rows(plan, facts, target))
    row = max(plan.rows, key=size_of)
    together = rows_together(plan.left, row, facts, target)
    aliased = pitch % (target.l1_way // 4) == 0
    aliased = aliased or together < min(size_of(row), MOST_ROWS)
    return aliased and depth > _DEEP and far and height >= _FEWEST


def _is_narrow(plan: Contraction, target: Target) -> bool:
    """Would vectors along the last column be half empty, where others lie beside it?

    "ij,kjl->ikl" of 100, 100, 50 and 4 would take 4.9 times as long.
    """
    lanes = target.vector_bytes // max(n.dtype.itemsize for n in plan.right)
    last = plan.columns[-1]
    return len(plan.columns) > 1 and 2 * size_of(last) <= lanes


def _is_one_matrix(plan: Contraction) -> bool:
    """Has it one axis of rows and one of columns, and one to sum over?"""
    axes = (*plan.rows, *plan.columns, *plan.ranges)
    return len(axes) == 3 and not any(is_dynamic(axis_of(a).size) for a in axes)


def reads_in_place(plan: Contraction, facts: Facts) -> bool:
    """Can all operands be read where they stand?"""
    column = plan.columns[-1]
    return plan.loose and all(needs_no_panel(n, column, facts) for n in plan.right)


def is_heavy(plan: Contraction, kernel: Kernel) -> bool:
    """Is what becomes of the sums a long expression?"""

    def below(node: Node) -> list[Node]:
        last = node in plan.reduces or node.dtype is INDEX
        return [s for s in node.src if s.shape == () and not last]

    found = walk([store.value for store in kernel.stores], below)
    return sum(1 for node in found if below(node)) > _LIGHT
