"""Products of short numbers by instructions that multiply groups of them.

    the sum over k of a(i, k) · b(k, j)
        = the sum over h of a(i, 2h) · b(2h, j) + a(i, 2h + 1) · b(2h + 1, j)

A *group* is two or four numbers side by side in 32 bits. Between memory and the
instruction it is treated as one number that nothing is calculated with: panels, tiles
and sums are those of a product whose sum is that much shorter. Where a left operand
lies along k, its groups are read where they stand; others are put together as a panel
is filled. The last products of a sum that is no whole number of groups are added when
all others are in it.

bfloat16   in pairs. Each product is exact, sums are rounded to nearest in float32. The
           instruction takes subnormal operands as zeros, and makes such sums zeros.
int16      in pairs; also what fits in it. Sums wrap, as those of int32 do.
8 bits     four by four. One factor has no sign: where both have, 128 is added to the
           left one, and 128 times the sum over h of b is taken off the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.backends.llvm.contraction.find import Contraction, is_in_place, step_sizes
from ftrace.backends.llvm.schedule.index_facts import Facts, index_of, replace_in_stores
from ftrace.backends.llvm.schedule.loop_tiling import OWN_RANGES, size_of
from ftrace.backends.llvm.schedule.schedule_tree import GroupView
from ftrace.backends.llvm.target import Target
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.kernel import ir
from ftrace.lower.kernel.affine_index import render_index, sum_of_terms
from ftrace.trace.graph import Node, substitute
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.sources import const
from ftrace.trace.symbolic import is_dynamic, same_size

#: 128 in each of four parts: as numbers without sign, or what turns signs into 128.
_SIGNS = -0x7F7F7F80
#: The number of the range of groups.
_GROUP_RANGE = OWN_RANGES


@dataclass(frozen=True)
class Groups:
    """Which groups a product has.

    Attributes:
      op: what one of them adds to a sum.
      count: numbers of a group.
      dtype: of a group, as far as memory and registers are concerned.
      number: the dtype that numbers have in a group; None: of 8 bits, as they are.
    """

    op: ir.KernelOp
    count: int
    dtype: np.dtype[Any]
    number: np.dtype[Any] | None

    @property
    def bits(self) -> int:
        """Of a number."""
        return 32 // self.count


_PAIRS = Groups(ir.pairs_p, 2, dtypes.float32, dtypes.bfloat16)
_WORDS = Groups(ir.word_pairs_p, 2, dtypes.int32, dtypes.int16)
_BYTES = Groups(ir.byte_quads_p, 4, dtypes.int32, None)

_SMALL = frozenset((dtypes.int8, dtypes.uint8, dtypes.int16))


def choose_groups(plan: Contraction, target: Target) -> Groups | None:
    """The groups that the processor multiplies, if all sums are of such products."""
    pairs = target.pairs and target.decides("bfloat16_dot_product")
    integers = target.groups and target.decides("integer_dot_product")
    for groups, has in ((_PAIRS, pairs), (_BYTES, integers), (_WORDS, integers)):
        if has and _has_groups(plan, groups):
            return groups
    return None


def _has_groups(plan: Contraction, groups: Groups) -> bool:
    if not any(_may_group(r, plan, groups.count) for r in plan.ranges):
        return False
    if groups is _BYTES and not _is_one_matrix(plan):
        return False
    return all(
        node.dtype == groups.dtype and _fits(node, plan, groups)
        for node in plan.reduces
    )


def _is_one_matrix(plan: Contraction) -> bool:
    """May what is taken off the results stand in a panel?"""
    sizes = [ir.axis_of(a).size for a in (*plan.outer, *plan.rows, *plan.columns)]
    sizes += [ir.axis_of(r).size for r in plan.ranges]
    one = max(len(plan.rows), len(plan.columns)) < 2
    return one and not any(map(is_dynamic, sizes))


def _may_group(r: Node, plan: Contraction, count: int) -> bool:
    """Is it of a known size: whole groups, or alone?"""
    size = ir.axis_of(r).size
    if is_dynamic(size):
        return False
    return same_size(size % count, 0) or len(plan.ranges) == 1


def _fits(total: Node, plan: Contraction, groups: Groups) -> bool:
    """Is it a sum of products of one left operand with one right one, both short?"""
    value = ir.product_of(total)
    if value is None or any(s.op is not p.cast_p for s in value.src):
        return False
    a, b = sorted(value.src, key=lambda s: s in plan.right)
    if a not in plan.left or b not in plan.right:
        return False
    found = {s.src[0].dtype for s in value.src}
    if groups is _PAIRS:
        return found == {dtypes.bfloat16}
    if groups is _WORDS:
        return found <= _SMALL
    return found <= _SMALL - {dtypes.int16} and dtypes.int8 in found


def in_groups(
    kernel: ir.Kernel, plan: Contraction, groups: Groups, facts: Facts
) -> tuple[ir.Kernel, Contraction, tuple[GroupView, ...]]:
    """The kernel over groups, as a contraction, and what it sees as groups."""
    r = _find_grouped_range(plan, groups, facts)
    place = ir.make_range(_GROUP_RANGE, size_of(r) // groups.count, False)
    facts.learn([place])
    made = _Group(kernel, groups, r, place, facts)
    ranges = tuple(made.place if x is r else x for x in plan.ranges)
    found = {node: made.of(node) for node in (*plan.left, *plan.right)}
    pairs = {
        node: sorted(node.src[0].src, key=lambda s: s in plan.right)
        for node in plan.reduces
    }
    # Left operands with signs whose right factors have signs, too.
    shifted = {
        a
        for a, b in pairs.values()
        if groups is _BYTES and a.src[0].dtype == b.src[0].dtype == dtypes.int8
    }
    signs = const(_SIGNS, dtypes.int32)
    for node in shifted:
        found[node] = p.bit_xor(found[node], signs)
    sums: dict[Node, Node] = {}
    totals: dict[Node, Node] = {}
    offsets: list[Node] = []
    for node, (a, b) in pairs.items():
        factors = found[a], found[b]
        if groups is _BYTES and a.src[0].dtype != dtypes.uint8 and a not in shifted:
            factors = found[b], found[a]
        total = sums[node] = ir.reduce("add", groups.op(*factors), ranges)
        if a in shifted:
            offset = ir.reduce("add", groups.op(signs, found[b]), ranges)
            offsets.append(offset)
            total = p.sub(total, offset)
        totals[node] = _with_last(total, node.src[0], r, groups.count)
    facts.learn(list(totals.values()))
    stores = replace_in_stores(kernel.stores, totals)
    lefts, rights = (tuple(found[n] for n in ns) for ns in (plan.left, plan.right))
    plan = replace(
        plan, ranges=ranges, left=lefts, right=rights, offsets=tuple(offsets),
        reduces=tuple(sums.values()),
        loose=is_in_place(lefts, plan.rows, frozenset(ranges), facts),
    )  # fmt: skip
    return replace(kernel, stores=tuple(stores)), plan, tuple(made.views)


def _with_last(total: Node, product: Node, r: Node, count: int) -> Node:
    """The sum, and what has no partners in a range of another size."""
    size = size_of(r)
    for place in range(size - size % count, size):
        (last,) = substitute([product], {r: const(place, ir.INDEX)})
        total = p.add(total, last)
    return total


def _find_grouped_range(plan: Contraction, groups: Groups, facts: Facts) -> Node:
    """The range along which groups lie: one along which an operand is contiguous."""

    def worth(r: Node) -> tuple[bool, bool, int]:
        return runs(plan.left, r), runs(plan.right, r), size_of(r)

    def runs(nodes: Sequence[Node], r: Node) -> bool:
        return any(step_sizes([n], [r], facts)[r] == 1 for n in nodes)

    ranges = [r for r in plan.ranges if _may_group(r, plan, groups.count)]
    return max(ranges, key=worth)


class _Group:
    """Expressions of numbers as expressions of groups of them.

    Args:
      r: the range along which they are grouped.
      place: the range of the groups.

    Attributes:
      views: of buffers in which groups stand.
    """

    def __init__(
        self, kernel: ir.Kernel, groups: Groups, r: Node, place: Node, facts: Facts
    ) -> None:
        self.kernel = kernel
        self.facts = facts
        self.views: list[GroupView] = []
        self.groups = groups
        self.r = r
        self.place = place
        first = p.mul(place, const(groups.count, ir.INDEX))
        self.places = [p.add(first, const(n, ir.INDEX)) for n in range(groups.count)]

    def of(self, node: Node) -> Node:
        """A widened number: a group of it."""
        (value,) = node.src
        return self._in_memory(value) or self._put_together(value)

    def _in_memory(self, value: Node) -> Node | None:
        """Numbers that lie side by side, where a group begins at a whole place."""
        if value.op is not ir.load_p or value.src[2:]:
            return None
        facts, count = self.facts, self.groups.count
        form = facts.affine[index_of(value)]
        others = [atom for atom in form.terms if atom is not self.r]
        if value.dtype.itemsize * count != 4 or form.terms.get(self.r) != 1:
            return None
        if form.constant % count:
            return None
        if any(form.terms[a] % count or self.r in facts.free[a] for a in others):
            return None
        terms = {a: form.terms[a] // count for a in others} | {self.place: 1}
        index = render_index(sum_of_terms(terms, form.constant // count))
        number = value.src[0].arg
        assert isinstance(number, int)
        buffers = self.kernel.buffers
        view, size = len(buffers) + len(self.views), buffers[number].size // count
        self.views.append(GroupView(number, count))
        return ir.load(ir.param(view, self.groups.dtype, size), index)

    def _put_together(self, value: Node) -> Node:
        bits = self.groups.bits
        whole: Node | None = None
        for n, place in enumerate(self.places):
            part = self._bits(substitute([value], {self.r: place})[0])
            if n:
                part = p.shift_left(part, const(n * bits, dtypes.uint32))
            whole = part if whole is None else p.bit_or(whole, part)
        assert whole is not None
        return p.bitcast(whole, arg=self.groups.dtype)

    def _bits(self, value: Node) -> Node:
        number = self.groups.number
        if number is not None and value.dtype != number:
            value = p.cast(value, number)
        short = dtypes.uint8 if self.groups.bits == 8 else dtypes.uint16
        if value.dtype != short:
            value = p.bitcast(value, arg=short)
        return p.cast(value, dtypes.uint32)
