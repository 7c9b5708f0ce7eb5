"""Short axes that take turns in memory: written out, step by step.

    out[3·i + c] = f(i, c)   c < 3   ->   out[3·i] = f(i, 0); out[3·i + 1] = f(i, 1); …
    out[n·c + i] = x[3·i + c]        ->   out[i] = x[3·i]; out[n + i] = x[3·i + 1]; …

Colours of pixels, coordinates of points, real and imaginary parts: along i the places
are a few apart, and along c there are only those few. As stores and loads over i alone
they make whole vectors, for together they touch all that lies in between: see
`Elements.store_group` and `Elements.load`.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ftrace.devices.llvm.schedule.index_facts import Facts, index_of
from ftrace.devices.llvm.target import Target
from ftrace.lower.kernel.ir import (
    INDEX,
    Kernel,
    Store,
    axis_of,
    fma_p,
    load_p,
    reduce_p,
)
from ftrace.lower.register_loops.scalar_elements import scalar
from ftrace.trace.graph import Node, constant_value, make_node
from ftrace.trace.primitives.sources import const, const_p
from ftrace.trace.symbolic.dim import same_size

#: Steps of a short axis at most: as many vectors are put together from each other;
#: and the same where a vector holds a whole line of the cache.
_LONGEST = 8
_LONGEST_OF_LINES = 12
#: A longer axis beside it has so many steps.
LEAST = 8
#: What is written out has so many expressions at most, and so many if it runs briefly.
_EXPRESSIONS = 1500
_EXPRESSIONS_OF_FEW = 200
_FEW = 1 << 12


def longest(target: Target) -> int:
    """How many steps a short axis has at most."""
    return _LONGEST if target.vector_bytes < 64 else _LONGEST_OF_LINES


def most_expressions(kernel: Kernel) -> int:
    """How many expressions of a kernel are worth their code."""
    return _EXPRESSIONS if prod(kernel.shape) > _FEW else _EXPRESSIONS_OF_FEW


def without_short_axes(kernel: Kernel, facts: Facts, target: Target) -> Kernel:
    """The kernel with a short axis written out, if it has one."""
    if kernel.ordered or kernel.is_dynamic or len(kernel.axes) < 2:
        return kernel
    if any(store.combine or store.valid is not None for store in kernel.stores):
        return kernel
    most = longest(target)
    for axis in reversed(kernel.axes):
        size = axis_of(axis).size
        if not 2 <= size <= most:
            continue
        own = [n for n in kernel.nodes if axis in facts.free[n]]
        if size * len(own) > most_expressions(kernel):
            continue
        if any(_takes_turns(kernel, axis, long, facts, most) for long in kernel.axes):
            return _written_out(kernel, axis)
    return kernel


def _takes_turns(
    kernel: Kernel, short: Node, long: Node, facts: Facts, most: int
) -> bool:
    """Do stores or loads over both axes lie side by side, and stores not apart?"""
    if axis_of(long).size < LEAST:
        return False
    size, found = axis_of(short).size, False
    for store in kernel.stores:
        terms = facts.affine[store.index].terms
        if any(a is not short and short in facts.free[a] for a in terms):
            return False
        step = terms.get(long)
        together = same_size(step, size) and terms.get(short) == 1
        if not together and step != 1:
            return False
        found = found or together
    if any(n.op is reduce_p and short in facts.free[n] for n in kernel.nodes):
        return False
    for node in kernel.nodes:
        if node.op is load_p and not found:
            terms = facts.affine[index_of(node)].terms
            step = terms.get(long, 0)
            found = terms.get(short) == 1 and size <= step <= most
    return found


def _written_out(kernel: Kernel, axis: Node) -> Kernel:
    stores: list[list[Store]] = []
    for place in range(axis_of(axis).size):
        new: dict[Node, Node] = {axis: const(place, INDEX)}
        for node in kernel.nodes:
            if node not in new:
                new[node] = rebuilt(node, tuple([new[s] for s in node.src]))
        stores.append(
            [
                replace(store, index=new[store.index], value=new[store.value])
                for store in kernel.stores
            ]
        )
    axes = tuple(a for a in kernel.axes if a is not axis)
    in_turn = tuple(store for turn in zip(*stores, strict=True) for store in turn)
    return replace(kernel, axes=axes, stores=in_turn)


def rebuilt(node: Node, src: tuple[Node, ...]) -> Node:
    """A node of other sources; what is known of constants is folded."""
    if src == node.src:
        return node
    if node.op is load_p:
        if len(src) == 3 and src[2].op is const_p:
            if not constant_value(src[2]):
                return const(0, node.dtype)
            src = src[:2]
        return make_node(node.op, node.aval, src, node.arg)
    if node.dtype is INDEX and not all(s.op is const_p for s in src):
        return make_node(node.op, node.aval, src, node.arg)
    if node.op is reduce_p:
        return make_node(node.op, node.aval, src, node.arg)
    if node.op is fma_p:
        for old, found in zip(node.src[:2], src[:2], strict=True):
            if old.op is load_p and found.op is const_p:
                return src[2]  # nothing is there: it adds nothing
    return scalar(node, src)
