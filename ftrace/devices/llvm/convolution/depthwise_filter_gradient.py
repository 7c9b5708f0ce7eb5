"""Gradients of convolutions by few filters: lanes run along the pixels.

    out[g, t] = f(the sum over i, p of left(i, g, p + t) · right(i, g, p))

Nothing is beside the taps but axes that both operands have, as in depthwise ones, so
that there are no columns for vectors; or the right operand has an axis of its own, too
short for them, whose places are written out like taps. The left operand is evaluated
once for each pixel of some images, into a panel without holes: the taps of a window
that moves by more than one pixel fall into classes (see `contraction/find_windows.py`),
and what a class sees lies side by side. Then one pass over the pixels adds up all taps,
and the right operand is read once for them. A unit has all pixels: the result does not
depend on how units are shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod

from ftrace.devices.affine_forms import Affine
from ftrace.devices.llvm.contraction.find import Contraction, product_loop
from ftrace.devices.llvm.contraction.find_windows import Window, find_windows
from ftrace.devices.llvm.convolution.find import fill_cost
from ftrace.devices.llvm.convolution.schedule import Operand, Sliding
from ftrace.devices.llvm.emit.blocked_ranges import Cut, cut_ranges
from ftrace.devices.llvm.schedule.index_facts import Facts
from ftrace.devices.llvm.schedule.tiling_ir import size_of
from ftrace.devices.llvm.target import Target
from ftrace.lower.kernel.ir import Kernel
from ftrace.lower.kernel.loop_tree import Statement
from ftrace.trace.graph import Node

#: Taps of all windows at most: each is an expression of its own.
_MOST_TAPS = 64
#: Products of the whole kernel at least.
_LEAST = 1 << 14
#: Registers beside those of the sums.
_SPARE = 6
#: The part of the first cache that images of a block take; and of the second that the
#: panel of one may take.
_SHARE = 2


def find_sliding_dots(
    kernel: Kernel, block: Sequence[Statement], facts: Facts, target: Target
) -> Sliding | None:
    """The kernel as such a gradient, if it is one."""
    loop = product_loop(kernel, block)
    if loop is None:
        return None
    (total,) = loop.reduces
    term = total.src[0]
    for left, right in (term.src, term.src[::-1]):
        found = _as_dots(kernel, total, left, right, loop.ranges, facts, target)
        if found is not None:
            return found
    return None


def _as_dots(
    kernel: Kernel,
    total: Node,
    left: Node,
    right: Node,
    ranges: Sequence[Node],
    facts: Facts,
    target: Target,
) -> Sliding | None:
    """The same with `left` as the operand that slides."""
    axes = [a for a in kernel.axes if size_of(a) > 1]
    alone = [a for a in axes if a not in facts.free[right]]
    near = find_windows(left, ranges, alone, facts, saving=False)
    windows = [w for w in near if _is_near(w)]
    taps = [w.tap for w in windows]
    if len(set(taps)) < len(taps):
        return None
    outer = [a for a in axes if a not in taps and a in facts.free[left]]
    beside = [a for a in axes if a not in facts.free[left]]
    count = prod(w.taps for w in windows)
    if count < 4 or count * prod(map(size_of, beside)) > _MOST_TAPS:
        return None
    if any(a not in facts.free[right] for a in beside):
        return None
    windows.sort(key=lambda w: ranges.index(w.column))
    pixels = [w.column for w in windows]
    lanes = target.vector_bytes // total.dtype.itemsize
    while lanes > 1 and lanes >= 2 * size_of(pixels[-1]):
        lanes //= 2
    if lanes < 2 or any(fill_cost(n, pixels[-1], facts, 16) is None
                        for n in (left, right)):  # fmt: skip
        return None
    item = total.dtype.itemsize
    sizes = [sum(g.classes * w.reach(w.pixels, g) for g in w.groups) for w in windows]
    products = prod(map(size_of, (*axes, *ranges)))
    if products < _LEAST or prod(sizes) * item > target.l2 // _SHARE:
        return None
    others = [r for r in ranges if r not in pixels]
    images = cut_ranges(others, max(target.l1 // _SHARE // item // prod(sizes), 1))
    depth = replace(images, inner=(*images.inner, *pixels))
    count *= prod(map(size_of, beside))
    parts = -(-count // (target.registers - _SPARE))
    edges = [n * count // parts for n in range(parts + 1)]
    outer += [a for a in kernel.axes if size_of(a) == 1]
    plan = Contraction(
        tuple(outer), tuple(taps), tuple(beside), tuple(ranges), (left,), (right,), (),
        (total,), False,
    )  # fmt: skip
    still = Operand(right, pixels[-1], depth, Affine(0, {}), 0)
    rows, columns = Cut((), None, 1, ()), Cut((), None, 1, plan.columns)
    return Sliding(
        plan, lanes, tuple(windows), left, still, plan.outer, rows, columns, depth,
        depth, (1, 1), tuple(range(*pair) for pair in pairwise(edges)),
        along_pixels=True, adds=True,
    )  # fmt: skip


def _is_near(window: Window) -> bool:
    """Do its taps see pixels again, or pixels that lie among each other?"""
    if window.turned or min(window.stride, window.dilation) > 1:
        return False
    halo = max(window.halo(g.steps) for g in window.groups)
    return halo < window.pixels and window.share(window.pixels) <= 1
