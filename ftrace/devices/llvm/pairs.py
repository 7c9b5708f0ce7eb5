"""Products of bfloat16 by an instruction that multiplies pairs of them.

    the sum over k of a(i, k) · b(k, j)
        = the sum over h of a(i, 2h) · b(2h, j) + a(i, 2h + 1) · b(2h + 1, j)

A *pair* is two numbers side by side in 32 bits. Between memory and the instruction it
is treated as a float32 that nothing is calculated with: panels, tiles and sums are
those of a product of float32 whose sum is half as long. Where a left operand lies along
k, its pairs are read where they stand; others are put together as a panel is filled.
The last of an odd number of products is added to the sum when all others are in it.

Each product of two bfloat16 is exact, sums are rounded to nearest in float32. The
instruction takes subnormal operands as zeros, and makes subnormal sums zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ftrace import dtypes
from ftrace.devices.llvm.contraction import Contraction, is_in_place
from ftrace.devices.llvm.facts import Facts, index_of
from ftrace.devices.llvm.staging import Stage, replaced_stores, sum_of
from ftrace.devices.llvm.target import Target
from ftrace.devices.llvm.tiles import size_of
from ftrace.lower.kernel import (
    INDEX,
    axis_of,
    load,
    load_p,
    pairs_p,
    param,
    reduce,
)
from ftrace.trace.dims import is_dynamic
from ftrace.trace.graph import Node, substitute, toposort
from ftrace.trace.primitives.elementwise import (
    add,
    bit_or,
    bitcast,
    cast,
    cast_p,
    mul,
    shift_left,
)
from ftrace.trace.primitives.source import const

#: Where fewer are added up, the last of an odd number costs more than pairs save.
_LONG = 64


def multiplies_pairs(plan: Contraction, target: Target) -> bool:
    """Is every sum one of products of two bfloat16, and has the processor pairs?"""
    if not target.pairs or not target.decides("bfloat16_pairs"):
        return False
    return any(_may_halve(r, plan) for r in plan.ranges) and all(
        node.arg == "add" and node.dtype == dtypes.float32 and _is_product(node, plan)
        for node in plan.reduces
    )


def _may_halve(r: Node, plan: Contraction) -> bool:
    """Is it of a known size, and of an odd one only where it is long, and alone?"""
    size = axis_of(r).size
    if is_dynamic(size):
        return False
    return size % 2 == 0 or (size >= _LONG and len(plan.ranges) == 1)


def _is_product(total: Node, plan: Contraction) -> bool:
    """Is it a sum of products of one left operand with one right one?"""
    value = total.src[0]
    if value.op is not mul or not all(map(_is_widened, value.src)):
        return False
    a, b = value.src
    return (a in plan.left and b in plan.right) or (b in plan.left and a in plan.right)


def _is_widened(node: Node) -> bool:
    """Is it a bfloat16, so that no bit of it is lost?"""
    return node.op is cast_p and node.src[0].dtype == dtypes.bfloat16


def in_pairs(plan: Contraction, stage: Stage) -> Contraction:
    """The same contraction over pairs; the stage's kernel is written anew."""
    facts = stage.facts
    r = _halved(plan, facts)
    half = stage.new_range(size_of(r) // 2)
    pairs = _Pairs(stage, r, half)
    ranges = tuple(half if x is r else x for x in plan.ranges)
    left = {node: pairs.of(node) for node in plan.left}
    right = {node: pairs.of(node) for node in plan.right}
    found = {**left, **right}
    sums: dict[Node, Node] = {}
    totals: dict[Node, Node] = {}
    for node in plan.reduces:
        a, b = node.src[0].src
        sums[node] = reduce("add", pairs_p(found[a], found[b]), ranges)
        totals[node] = _with_last(sums[node], node.src[0], r)
    facts.learn(list(totals.values()))
    stores = replaced_stores(stage.kernel.stores, totals)
    stage.kernel = replace(stage.kernel, stores=tuple(stores))
    lefts, rights = tuple(left.values()), tuple(right.values())
    return replace(
        plan, ranges=ranges, left=lefts, right=rights,
        loads=tuple(n for n in toposort([*lefts, *rights]) if n.op is load_p),
        reduces=tuple(sums.values()),
        loose=is_in_place(lefts, plan.rows, frozenset(ranges), facts),
    )  # fmt: skip


def _with_last(total: Node, product: Node, r: Node) -> Node:
    """The sum, and what has no partner in a range of odd size."""
    if size_of(r) % 2 == 0:
        return total
    (last,) = substitute([product], {r: const(size_of(r) - 1, INDEX)})
    return add(total, last)


def _halved(plan: Contraction, facts: Facts) -> Node:
    """The range along which pairs lie: one along which an operand is contiguous."""

    def worth(r: Node) -> tuple[bool, bool, int]:
        return _runs_along(plan.left, r), _runs_along(plan.right, r), size_of(r)

    def _runs_along(nodes: Sequence[Node], r: Node) -> bool:
        return any(_is_contiguous(n, r, facts) for n in nodes)

    return max((r for r in plan.ranges if _may_halve(r, plan)), key=worth)


def _is_contiguous(node: Node, r: Node, facts: Facts) -> bool:
    loads = [n for n in toposort([node]) if n.op is load_p]
    return any(facts.affine[index_of(n)].terms.get(r) == 1 for n in loads)


class _Pairs:
    """Expressions of numbers as expressions of pairs of them.

    Args:
      r: the range along which they are pairs.
      half: the range of the pairs.
    """

    def __init__(self, stage: Stage, r: Node, half: Node) -> None:
        self.stage = stage
        self.r = r
        self.half = half
        self.even = mul(half, const(2, INDEX))
        self.odd = add(self.even, const(1, INDEX))

    def of(self, node: Node) -> Node:
        """A widened bfloat16: two of it, in the bits of a float32."""
        (value,) = node.src
        return self._in_memory(value) or self._put_together(value)

    def _in_memory(self, value: Node) -> Node | None:
        """Two numbers that lie side by side, where a pair begins at an even place."""
        if value.op is not load_p or value.src[2:]:
            return None
        facts = self.stage.facts
        form = facts.affine[index_of(value)]
        others = [atom for atom in form.terms if atom is not self.r]
        if form.terms.get(self.r) != 1 or form.constant % 2:
            return None
        if any(form.terms[a] % 2 or self.r in facts.free[a] for a in others):
            return None
        terms = [mul(a, const(form.terms[a] // 2, INDEX)) for a in others]
        index = sum_of([const(form.constant // 2, INDEX), *terms, self.half])
        number = value.src[0].arg
        assert isinstance(number, int)
        view, size = self.stage.new_view(number, 2)
        return load(param(view, dtypes.float32, size), index)

    def _put_together(self, value: Node) -> Node:
        low, high = (
            self._bits(substitute([value], {self.r: place})[0])
            for place in (self.even, self.odd)
        )
        upper = shift_left(high, const(16, dtypes.uint32))
        return bitcast(bit_or(low, upper), arg=dtypes.float32)

    def _bits(self, value: Node) -> Node:
        return cast(bitcast(value, arg=dtypes.uint16), dtypes.uint32)
