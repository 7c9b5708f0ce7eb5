"""The accumulators of a reduce: what they begin with, and what they take in.

s = s + a·b         a sum takes a product in without rounding it
s₀, s₁, … s₇        an unrolled loop has several of each: their sum comes last
blocks of 64        floats are added in blocks, and these one after the other
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ftrace import dtypes
from ftrace.devices.llvm.emit.open_ranges import At
from ftrace.devices.llvm.ir.types import Type
from ftrace.devices.llvm.schedule.tiling_ir import Steps
from ftrace.devices.llvm.target import Target
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.kernel.ir import Kernel, reduce_p
from ftrace.lower.legalize.math.term import RELAXED
from ftrace.trace.graph import Node
from ftrace.trace.primitives.reduction import identity_of
from ftrace.trace.symbolic.bounds import upper_bound
from ftrace.trace.symbolic.dim import is_dynamic

#: Iterations whose floats are added one after the other; longer sums are made of
#: such blocks, so that their error grows like the square root of the length.
BLOCK = 64
#: The same where many sums run beside each other and their number bounds the speed.
LONG_BLOCK = 512


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


#: What a value becomes of two partial ones.
Combine = Callable[[Sum, str, str], str]


class Lines:
    """The accumulators of one reduce loop: its sums, several times where unrolled."""

    def __init__(self, sums: list[Sum], steps: Steps) -> None:
        self.sums = sums
        self.copies = steps.copies if steps.lanes else 1
        self.rounds = any(total.rounds for total in sums)

    def identities(self) -> list[str]:
        return [total.identity for total in self.sums] * self.copies

    def carried(self, state: list[str]) -> list[tuple[str, str]]:
        kinds = [total.type.text for total in self.sums] * self.copies
        return list(zip(kinds, state, strict=True))

    def merge(self, combine: Combine, old: list[str], new: list[str]) -> list[str]:
        totals = self.sums * self.copies
        return [
            combine(total, a, b) for total, a, b in zip(totals, old, new, strict=True)
        ]

    def block(self, count: Any) -> int:
        """How many of `count` iterations to add up before the sum is put aside."""
        many = len(self.sums) * self.copies >= 8
        block = LONG_BLOCK if many else BLOCK
        if is_dynamic(count):
            return LONG_BLOCK if self.rounds and upper_bound(count) > block else 0
        if not self.rounds or count <= 2 * block:
            return 0
        while block * block < count:
            block *= 2
        return block


def products_of(value: Node) -> list[tuple[bool, tuple[Node, ...]]]:
    """a·b, or a·b ± c·d, as factors and whether they are subtracted; else nothing."""
    name, src = value.op.name, value.src
    if name == "mul":
        return [(False, src)]
    if name == "fma" and value.arg == RELAXED:
        *first, last = src
        less = last.op.name == "neg"
        last = last.src[0] if less else last
        return (
            [(False, tuple(first)), (less, last.src)] if last.op.name == "mul" else []
        )
    if name not in ("add", "sub") or any(s.op.name != "mul" for s in src):
        return []
    a, b = src
    return [(False, a.src), (name == "sub", b.src)]


def fused_products(kernel: Kernel, target: Target) -> frozenset[Node]:
    """Terms of sums that are made of products which the sum need not round."""
    if not target.fma or not target.decides("unrounded_products"):
        return frozenset()
    return frozenset(
        node.src[0]
        for node in kernel.nodes
        if node.op is reduce_p
        and node.arg == "add"
        and dtypes.kind(node.dtype) == "f"
        and products_of(node.src[0])
    )
