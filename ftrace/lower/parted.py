"""Stage 2e: gradients by filters, added up in parts that threads can share.

    w[t, o] = the sum over i, p of       part[b, t, o] = the sum over i of block b, p
              x[i, p + t]·y[i, p, o]  ->                 of x[i, p + t]·y[i, p, o]
                                         w[t, o] = the sum over b of part[b, t, o]

A few filters are one short block of sums, and the sums run over all images. Blocks of
images depend on the sizes alone: the result is the same for any number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence

from ftrace import dtypes
from ftrace.limits import Limits
from ftrace.lower.values import is_contraction, reduced_axes
from ftrace.trace.dims import any_dynamic, same_size
from ftrace.trace.exchange import exchange
from ftrace.trace.graph import Node, rebuild, toposort
from ftrace.trace.primitives.broadcast import reduce_sum_p
from ftrace.trace.primitives.movement import permute, reshape, shear_p
from ftrace.trace.primitives.reduction import reduce

#: What `config.disabled_rules` can switch off here.
DECISIONS = {
    "filters_in_parts": "gradients by few filters are added up in blocks of images",
}

#: Elements of a result at most: more are enough work for all threads as they are.
_FEW = 1 << 15
#: Products at least; and in how many parts they are added up.
_MANY = 1 << 23
_PARTS = (8, 7, 6, 5, 4, 3, 2)


def filters_in_parts(outputs: Sequence[Node], limits: Limits) -> list[Node]:
    """The outputs with long sums of products over windows in two steps."""
    chosen = {n: p for n in toposort(outputs) if (p := _parts_of(n))}
    if not chosen:
        return list(outputs)

    def change(node: Node, src: tuple[Node, ...]) -> Node | None:
        return _in_parts(rebuild(node, src), chosen[node]) if node in chosen else None

    return exchange(outputs, change)


def _parts_of(node: Node) -> int:
    """In how many parts a sum is added up; 0 if it is none that is meant."""
    if node.op is not reduce_sum_p or any_dynamic(node.src[0].shape):
        return 0
    source = node.src[0]
    if node.size > _FEW or source.size < _MANY or not is_contraction(node):
        return 0
    if dtypes.kind(node.dtype) != "f" or node.dtype.itemsize < 4:
        return 0
    axes = reduced_axes(node)
    if not axes or not any(_has_windows(factor) for factor in source.src):
        return 0
    size = source.shape[axes[0]]
    return next((n for n in _PARTS if same_size(size % n, 0)), 0)


def _has_windows(node: Node) -> bool:
    """Does a window slide over what is only moved?"""
    while node.op.family == "movement" or node.op.name == "expand":
        if node.op is shear_p:
            return True
        node = node.src[0]
    return False


def _in_parts(node: Node, parts: int) -> Node:
    """The sum over blocks of the outermost axis of the sums within them."""
    source, axes = node.src[0], reduced_axes(node)
    first = axes[0]
    shape = source.shape
    size = shape[first] // parts
    cut = reshape(source, (*shape[:first], parts, size, *shape[first + 1 :]))
    order = [a for a in range(cut.ndim) if a != first]
    ahead = permute(cut, (first, *order))  # parts do not lie among each other
    within = reduce(reduce_sum_p, ahead, tuple(1 + a for a in axes))
    return reshape(reduce(reduce_sum_p, within, (0,)), node.shape)
