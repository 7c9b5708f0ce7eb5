"""The accumulators of reduces: what is combined in registers, and in which order.

s = s + a·b         a sum takes a product in without rounding it
s₀, s₁, … s₇        an unrolled loop has several of each: their sum comes last
blocks of 64        floats are added in blocks, and these one after the other
"""

from __future__ import annotations

from typing import Any

from ftrace import dtypes
from ftrace.backends.llvm.emit.emit_memory import Values
from ftrace.backends.llvm.emit.emit_values import At
from ftrace.backends.llvm.ir.writer import Type
from ftrace.backends.llvm.scalar import avx512
from ftrace.backends.llvm.scalar.instructions import Row
from ftrace.backends.llvm.schedule.loop_tiling import RangeTiling, block_of_sums
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.kernel.ir import byte_quads_p, fma_p, pairs_p, word_pairs_p
from ftrace.lower.legalize.term import RELAXED
from ftrace.trace.graph import Node, Op
from ftrace.trace.primitives.elementwise import add, mul, neg, sub
from ftrace.trace.primitives.reduction import identity_of

#: What adds the products of a group to a sum.
_GROUPS: dict[Op, Row] = {
    pairs_p: avx512.add_pairs,
    word_pairs_p: avx512.add_word_pairs,
    byte_quads_p: avx512.add_byte_quads,
}


@dataclass(frozen=True)
class Sum:
    """One accumulator: a reduce, for one choice of the copies around it."""

    node: Node
    at: At
    type: Type

    @property
    def identity(self) -> str:
        return self.type.constant(identity_of(str(self.node.arg), self.node.dtype))

    @property
    def rounds(self) -> bool:
        return self.node.arg == "add" and self.type.kind == "f"

    def combine(self, values: Values, a: str, b: str) -> str:
        return values.ops.apply(str(self.node.arg), self.type, a, b)

    def combine_pairwise(self, values: Values, parts: list[str]) -> str:
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2], strict=False)
            joined = [self.combine(values, a, b) for a, b in pairs]
            parts = joined + parts[len(parts) & ~1 :]
        return parts[0]

    def takes_products(self, values: Values) -> bool:
        """Does it take products in that it need not round?

        Another reduce of the same products, as their maximum, needs them rounded.
        """
        value = self.node.src[0]
        if self.node.arg != "add" or value.op in _GROUPS:
            return self.node.arg == "add"
        fused = dtypes.kind(self.node.dtype) == "f" and not values.registers.rounded
        return fused and bool(products_of(value))

    def add(self, values: Values, at: At, old: str, mask: str | None) -> str:
        """`old` combined with the value that the reduce has now."""
        t, value = self.type, self.node.src[0]
        add_group = _GROUPS.get(value.op)
        if add_group is not None:
            a, b = (values.plain(s, t.lanes, at) for s in value.src)
            new = add_group(values.ops, t, old, a, b)
        elif self.takes_products(values):
            new = old
            for negative, factors in products_of(value):
                a, b = (values.plain(s, t.lanes, at) for s in factors)
                if negative:
                    a = values.ops.apply("neg", t, a)
                new = values.ops.call("fma", t, a, b, new)
        else:
            new = self.combine(values, old, values.plain(value, t.lanes, at))
        return new if mask is None else values.ops.select(mask, t, new, old)


class Lines:
    """The accumulators of one reduce loop: its sums, several times where unrolled."""

    def __init__(self, values: Values, sums: list[Sum], steps: RangeTiling) -> None:
        self.values = values
        self.sums = sums
        self.unroll = steps.unroll if steps.lanes else 1
        self.rounds = any(total.rounds for total in sums)

    def identities(self) -> list[str]:
        return [total.identity for total in self.sums] * self.unroll

    def type_carry(self, state: list[str]) -> list[tuple[str, str]]:
        kinds = [total.type.text for total in self.sums] * self.unroll
        return list(zip(kinds, state, strict=True))

    def merge(self, old: list[str], new: list[str]) -> list[str]:
        triples = zip(self.sums * self.unroll, old, new, strict=True)
        return [total.combine(self.values, a, b) for total, a, b in triples]

    def block(self, count: Any) -> int:
        """How many of `count` iterations to add up before the sum is put aside."""
        sums = len(self.sums) * self.unroll
        return block_of_sums(count, sums) if self.rounds else 0


def products_of(value: Node) -> list[tuple[bool, tuple[Node, ...]]]:
    """a·b, or a·b ± c·d, as factors and whether they are subtracted; else nothing."""
    op, src = value.op, value.src
    if op is mul:
        return [(False, src)]
    if op is fma_p and value.arg == RELAXED:
        *first, last = src
        less = last.op is neg
        last = last.src[0] if less else last
        if last.op is not mul:
            return []
        return [(False, tuple(first)), (less, last.src)]
    if op not in (add, sub) or any(s.op is not mul for s in src):
        return []
    a, b = src
    return [(False, a.src), (op is sub, b.src)]
