"""Reduces over a few elements that lie side by side, or in a window: written out.

    out[i] = the sum over c of x[3·i + c]  ->  x[3·i] + x[3·i + 1] + x[3·i + 2]

Lengths of vectors in space, pairs that are added: along i the elements are a few apart,
and all that lies between them is read as well (see `unroll_short_axes.py`). The order
is that of the loop, and products are added without being rounded. The mean over squares
of 2×2 pixels is such a reduce as well: one of its axes lies side by side.

Windows with borders are written out too, element by element:

    out[i] = the sum over k of x[2·i + k - 1]  (where that is in x)  ·  w[k]
    out[i] = the sum over k of y[(i + 1 - k) / 2]  (where that is even)  ·  w[k]

What is left of the questions in the first is where a row begins and ends, and there
the loops are cut (see `split_at_boundaries.py`). In the second, the derivative, half
the elements of the window are known to be in a hole once i is written out as two rows
in turn.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod

from ftrace import dtypes
from ftrace.devices.llvm.schedule.index_facts import Facts, index_of
from ftrace.devices.llvm.schedule.unroll_short_axes import (
    LEAST,
    longest,
    most_expressions,
    rebuilt,
)
from ftrace.devices.llvm.target import Target
from ftrace.lower.kernel.ir import INDEX, Kernel, axis_of, fma_p, load_p, reduce_p
from ftrace.trace.graph import Node, make_node, toposort
from ftrace.trace.primitives.elementwise import mul
from ftrace.trace.primitives.reduction import COMBINES_BY_NAME, identity_of
from ftrace.trace.primitives.sources import const

#: Elements of a window at most, and results for each of them at least: with fewer of
#: these the loops are not cut at borders, and vectors that ask at each element are
#: slower than gathers.
_MOST_TAPS = 25
_RESULTS_FOR_TAP = 1 << 10
#: The same where vectors read all that one axis of the window skips, and no border.
_MOST_BESIDE = 16


def without_short_reduces(kernel: Kernel, facts: Facts, target: Target) -> Kernel:
    """The kernel with its reduces over elements side by side written out."""
    reduces = [n for n in kernel.nodes if n.op is reduce_p]
    if not reduces or kernel.ordered or kernel.is_dynamic:
        return kernel
    if any(n.dtype is INDEX for n in reduces):
        return kernel
    total = 0
    for node in reduces:
        value, *short = node.src
        ranges = frozenset(short)
        inside = [n for n in toposort([value]) if facts.free[n] & ranges]
        total += prod(axis_of(r).size for r in short) * len(inside)
        if any(n.op is reduce_p for n in inside):
            return kernel
        if not _is_beside(inside, short, kernel, facts, target):
            return kernel
    if total > most_expressions(kernel):
        return kernel
    new: dict[Node, Node] = {}
    for node in kernel.nodes:
        if node.op is reduce_p:
            new[node] = _combined(node, new, facts, target)
        else:
            new[node] = rebuilt(node, tuple([new[s] for s in node.src]))
    return replace(kernel, stores=tuple(store.over(new) for store in kernel.stores))


def _is_beside(
    inside: list[Node],
    short: list[Node],
    kernel: Kernel,
    facts: Facts,
    target: Target,
) -> bool:
    """Are the elements of a reduce those that a step of an axis skips, or a window?"""
    taps, most = prod(axis_of(r).size for r in short), longest(target)
    if (len(short) == 1 or taps <= _MOST_BESIDE) and any(
        _stands_beside(inside, a, r, facts, most) for a in kernel.axes for r in short
    ):
        return True
    if taps > _MOST_TAPS:
        return False
    if prod(kernel.shape) < _RESULTS_FOR_TAP * max(taps, 8):
        return False
    return any(_moves_in_windows(inside, a, short, facts, most) for a in kernel.axes)


def _moves_in_windows(
    inside: list[Node], long: Node, short: list[Node], facts: Facts, most: int
) -> bool:
    """Do windows with borders move along it, or their derivatives?"""
    if axis_of(long).size < LEAST:
        return False
    for node in inside:
        if node.op is not load_p or len(node.src) < 3:
            continue
        terms = facts.affine[index_of(node)].terms
        if 1 <= terms.get(long, 0) <= most and any(r in terms for r in short):
            return True
        holes = any(n.op.name == "rem" for n in toposort([node.src[2]]))
        if holes and terms.get(long) == 1:
            return True
    return False


def _stands_beside(
    inside: list[Node], long: Node, short: Node, facts: Facts, most: int
) -> bool:
    """Do all loads over a short range run through what one step of an axis skips?"""
    if not 2 <= axis_of(short).size <= most or axis_of(long).size < LEAST:
        return False
    forms = [facts.affine[index_of(n)].terms for n in inside if n.op is load_p]
    return bool(forms) and all(
        terms.get(short) == 1 and axis_of(short).size <= terms.get(long, 0) <= most
        for terms in forms
    )


def _combined(
    reduce: Node, known: dict[Node, Node], facts: Facts, target: Target
) -> Node:
    """The value of a reduce, step by step."""
    value, *short = reduce.src
    ranges = frozenset(short)
    inside = [n for n in toposort([value]) if facts.free[n] & ranges]
    found = const(identity_of(str(reduce.arg), reduce.dtype), reduce.dtype)
    fused = target.fma and reduce.arg == "add" and value.op is mul
    fused = fused and dtypes.kind(reduce.dtype) == "f"
    for places in product(*(range(axis_of(r).size) for r in short)):
        new = {r: const(p, INDEX) for r, p in zip(short, places, strict=True)}
        for node in inside:
            if node not in new:
                src = tuple([new.get(s) or known.get(s, s) for s in node.src])
                new[node] = rebuilt(node, src)
        if fused:
            factors = [new.get(s) or known.get(s, s) for s in value.src]
            found = make_node(fma_p, reduce.aval, (*factors, found))
        else:
            found = COMBINES_BY_NAME[str(reduce.arg)](found, new.get(value) or value)
    return found
