"""Stage 2d: sums over rows, added up by kernels that pass over these rows anyway.

    y[i, j] = f(x[i, j], …)              part[b, j] = the sum of g(x[i, j], …)
    s[j] = the sum over i of             over block b of rows i,
           g(x[i, j], …)             ->  by the kernel of y: it reads x once
                                         s[j] = the sum over b of part[b, j]

The gradient of a layer's scale and shift is such a sum, beside that of its input. Here
the sum is cut in two; `hosts.py` gives the first half to the other kernel, if there is
one that may run then. Blocks depend on the sizes alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod

from ftrace import dtypes, settings
from ftrace.limits import Limits
from ftrace.lower.values import (
    elements_of_sum,
    is_contraction,
    reduced_axes,
    shared_dear,
)
from ftrace.trace.avals import Shape
from ftrace.trace.dims import any_dynamic, same_size
from ftrace.trace.exchange import exchange
from ftrace.trace.graph import Node, rebuild, toposort
from ftrace.trace.primitives.broadcast import expand_p, reduce_sum_p
from ftrace.trace.primitives.elementwise import cast
from ftrace.trace.primitives.movement import reshape, reshape_p
from ftrace.trace.primitives.reduction import reduce

#: What `config.disabled_rules` can switch off here.
DECISIONS = {
    "sum_beside_rows": "a sum over rows is added up where these rows are passed over",
}

#: Elements that come from a cache anyway are no reason: so many times its size are.
_LEAST = 2
#: Bytes of a row of sums: it stays in the first cache, and is not too short.
_ROW_BYTES = (256, 16 << 10)
#: Rows of a block, about, and how many blocks there are: enough for all threads.
_ROWS = 64
_BLOCKS = (16, 1024)

#: Values that are looked at for what two have in common.
_NEAR = 64

_ELEMENTWISE = ("unary", "binary", "compare", "select", "cast")


def sums_in_parts(outputs: Sequence[Node], limits: Limits) -> list[Node]:
    """The outputs with sums in two halves, where another kernel may do the first."""
    order = toposort(outputs)
    least = _LEAST * limits.cache
    wanted = {n: b for n in order if (b := _blocks_of(n, least))}
    chosen = wanted and _with_company(wanted, order, outputs)
    if not chosen:
        return list(outputs)

    def change(node: Node, src: tuple[Node, ...]) -> Node | None:
        return _in_parts(rebuild(node, src), wanted[node]) if node in chosen else None

    return exchange(outputs, change)


def _blocks_of(node: Node, least: int) -> int:
    """Into how many blocks of rows a sum is cut; 0 if it is none that is meant."""
    if node.op is not reduce_sum_p or any_dynamic(node.src[0].shape):
        return 0
    source = node.src[0]
    if (
        dtypes.kind(node.dtype) not in "fiu"
        or source.size * node.dtype.itemsize < least
    ):
        return 0
    axes = reduced_axes(node)
    kept = [
        a for a, n in enumerate(source.shape) if not same_size(n, 1) and a not in axes
    ]
    if not axes or not kept or axes[-1] > kept[0] or is_contraction(node):
        return 0
    low, high = _ROW_BYTES
    if not low <= node.size * node.dtype.itemsize <= high:
        return 0
    return _block_count(tuple(source.shape[a] for a in axes))


def _block_count(loops: Shape) -> int:
    """How many blocks of about `_ROWS` rows there are in loops; 0: none will do."""
    rows = prod(loops)
    low, high = _BLOCKS
    best = min(max(rows // _ROWS, low), high)
    counts = range(max(low, best // 4), min(high, rows // 2, best * 4) + 1)
    found = [
        n
        for n in counts
        if same_size(rows % n, 0) and _are_parts((rows // n, 1), loops)
    ]
    return min(found, key=lambda n: max(n / best, best / n), default=0)


def _with_company(
    wanted: dict[Node, int], order: Sequence[Node], outputs: Sequence[Node]
) -> set[Node]:
    """Those of whose elements another value is made that does not wait for them."""
    number = {node: 1 << k for k, node in enumerate(wanted)}
    after: dict[Node, int] = {}  # the sums that a value is made of
    for node in order:
        bits = number.get(node, 0)
        for source in node.src:
            bits |= after[source]
        after[node] = bits
    stored = _large_stored(order, outputs, {n.src[0].size for n in wanted})
    shared = shared_dear(order)
    stored += [e for e in map(elements_of_sum, wanted) if e in shared]
    beside = {root: _elements_of(root) for root in stored}
    found: set[Node] = set()
    for node in wanted:
        mine = _elements_of(node.src[0])
        if any(map(is_contraction, mine)):  # the product's kernel has no such loops
            continue
        for root, theirs in beside.items():
            if not after[root] & number[node] and not mine.isdisjoint(theirs):
                found.add(node)
    return found


def _large_stored(
    order: Sequence[Node], outputs: Sequence[Node], sizes: set[int]
) -> list[Node]:
    """Values of these sizes, elementwise, that are stored: results, and operands."""
    stored = dict.fromkeys(_beneath(n) for n in outputs)
    for node in order:
        family = node.op.family
        if family not in (*_ELEMENTWISE, "movement", "reduction", "source"):
            stored.update(dict.fromkeys(map(_beneath, node.src)))
        elif is_contraction(node):
            for factor in node.src[0].src:
                stored[_beneath(factor)] = None
    return [n for n in stored if n.size in sizes and n.op.family in _ELEMENTWISE]


def _beneath(node: Node) -> Node:
    while node.op.family == "movement":
        node = node.src[0]
    return node


def _elements_of(root: Node) -> set[Node]:
    """The arrays that a value is made of, element by element, and the value itself."""
    found: set[Node] = set()
    seen = {root}
    pending = [root]
    while pending and len(seen) < _NEAR:
        node = pending.pop()
        if same_size(node.size, root.size) and node.op not in (expand_p, reshape_p):
            found.add(node)
        inside = node.op.family in _ELEMENTWISE or node.op in (expand_p, reshape_p)
        for source in node.src if inside else ():
            if source not in seen and same_size(source.size, root.size):
                seen.add(source)
                pending.append(source)
    return found


def _in_parts(node: Node, blocks: int) -> Node:
    """The sum over blocks of the sums within them."""
    source, axes = node.src[0], reduced_axes(node)
    rows = prod(source.shape[a] for a in axes)
    shape: Shape = (blocks, rows // blocks, node.size)
    if node.dtype.itemsize == 2 and dtypes.is_float(node.dtype):
        source = cast(source, dtypes.float32)  # the halves are not rounded
    parts = reduce(reduce_sum_p, reshape(source, shape), (1,))
    whole = reshape(reduce(reduce_sum_p, parts, (0,)), node.shape)
    return whole if whole.dtype == node.dtype else cast(whole, node.dtype)


# For the schedule.


def kernels_add_up(limits: Limits) -> Callable[[Node, Shape], bool] | None:
    """Tells whether a kernel over loops may add up the elements of a sum.

    None where no kernel does that.
    """
    if not limits.cache or "sum_beside_rows" in settings.current().disabled_rules:
        return None
    return partial(_adds_up, _LEAST * limits.cache)


def _adds_up(least: int, node: Node, loops: Shape) -> bool:
    """Threads share the blocks: there must be many. Rows and columns must be loops."""
    if node.op is not reduce_sum_p or is_contraction(node):
        return False
    source, axes = node.src[0], reduced_axes(node)
    if any_dynamic((*source.shape, *loops)) or not same_size(source.size, prod(loops)):
        return False
    if source.size * source.dtype.itemsize < least:
        return False
    if len(axes) != 1 or dtypes.kind(node.dtype) not in "fiu":
        return False
    blocks = prod(source.shape[: axes[0]])
    columns = prod(source.shape[axes[0] + 1 :])
    low, high = _ROW_BYTES
    if blocks < _BLOCKS[0] or not low <= columns * node.dtype.itemsize <= high:
        return False
    return _are_parts((source.shape[axes[0]], columns), loops)


def _are_parts(sizes: Shape, loops: Shape) -> bool:
    """Are the innermost of some loops of these sizes, if loops may be cut?"""
    left = list(loops)
    for place, size in enumerate(reversed(sizes)):
        while size > 1 and left:
            inner = left.pop()
            if size % inner and (place == 0 or inner % size):
                return False
            if inner > size:
                left.append(inner // size)
                inner = size
            size //= inner
        if size > 1:
            return False
    return True
