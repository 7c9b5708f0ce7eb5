"""Long reductions in steps, of which threads share the first.

    reduce[a](x)  ->  reduce[…](… reduce[…](x in another shape))

    where                              what is cut                into
    results are few, of many           the reduced axes           all but the first one
    … and their rows narrow            the one axis               rows that fill vectors
    … and no axis is long enough       the first axis             blocks
    few sums of many products          the one axis (split-K)     parts, and a rest
    gradients by few filters           the images                 blocks
    sums over rows that a kernel       all rows                   blocks
    passes over anyway

The first four are rules, for every device; the others suit threads and their caches.
Where a reduction is cut depends on sizes alone: it is the same, in every bit, for any
number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, Final

import numpy as np

from ftrace import dtypes
from ftrace.ground import settings
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.ground.limits import Limits
from ftrace.lower.analysis import cost
from ftrace.trace.avals import Shape
from ftrace.trace.graph import Node, rebuild, toposort
from ftrace.trace.graph_map import exchange
from ftrace.trace.primitives import movement
from ftrace.trace.primitives.broadcast import expand_p, reduce_sum_p
from ftrace.trace.primitives.elementwise import add, cast
from ftrace.trace.primitives.reduction import REDUCTIONS, reduce
from ftrace.trace.rewrite import Pat, Rule
from ftrace.trace.symbolic.dim import any_dynamic, same_size

#: What `config.disabled_rules` can switch off here, besides the rules.
DECISIONS = {
    "sum_beside_rows": "a sum over rows is added up where these rows are passed over",
    "filters_in_parts": "gradients by few filters are added up in blocks of images",
}


class ReductionSteps(NamedTuple):
    """How a reduction is done in steps.

    Attributes:
      shape: that what is reduced is taken to have.
      axes: which of them each step reduces.
      ahead: an axis that is moved before the others: its parts do not lie among them.
      dtype: in which the steps are computed, if it is another one.
    """

    shape: Shape
    axes: tuple[tuple[int, ...], ...]
    ahead: int = 0
    dtype: np.dtype[Any] | None = None


def in_steps(x: Node, steps: ReductionSteps) -> Node:
    """A reduction, step by step."""
    found = x.src[0] if steps.dtype is None else cast(x.src[0], steps.dtype)
    found = movement.move_axis(movement.reshape(found, steps.shape), steps.ahead, 0)
    for axes in steps.axes:
        found = reduce(x.op, found, axes)
    found = movement.reshape(found, x.shape)
    return found if steps.dtype is None else cast(found, x.dtype)


# Large reduces with small outputs.

LARGE = 1 << 16  # elements per result: from here on a reduce is split …
SMALL = 1 << 12  # … if no more results than these keep a machine busy by themselves
FEW = 64  # so few results that an axis is cut into blocks
WIDE = 64  # elements that one result of the first step takes at least
LONG = 2048  # elements that are worth a step of their own, where blocks are possible
BLOCKS = (64, 1024)  # how many parts an axis is cut into, of all results …
FEWEST = (4, 16)  # … and of each one


def _is_large(x: Node) -> bool:
    enough = 0 < x.size <= SMALL and x.src[0].size >= LARGE * x.size
    return enough and not cost.is_contraction(x)


def _by_axes(x: Node) -> ReductionSteps | None:
    outer, *inner = cost.reduced_axes(x)
    shape = x.src[0].shape
    length = prod(shape[a] for a in inner)
    if length < WIDE or (length < LONG and _blocks_of(x, outer)):
        return None
    return ReductionSteps(shape, (tuple(inner), (outer,)))


def block_count(size: int, results: int = 1) -> int | None:
    """A divisor of `size` near the middle of BLOCKS: so many parts it is cut into.

    Args:
      results: that are cut alike; the parts of all of them keep threads busy.
    """
    low, high = (
        max(n // results, least) for n, least in zip(BLOCKS, FEWEST, strict=True)
    )
    middle = (low * high) ** 0.5
    divisors = [n for n in range(low, high + 1) if same_size(size % n, 0)]
    return min(divisors, key=lambda n: max(n / middle, middle / n), default=None)


def _blocks_of(x: Node, axis: int) -> int:
    """Into how many blocks of several rows an axis is cut; 0 if it is not."""
    size = x.src[0].shape[axis]
    blocks = block_count(size, x.size)
    return 0 if x.size > FEW or blocks is None or same_size(blocks, size) else blocks


def _by_blocks(x: Node) -> ReductionSteps | None:
    outer, *inner = cost.reduced_axes(x)
    blocks = _blocks_of(x, outer)
    if not blocks:
        return None
    shape = _cut(x.src[0].shape, outer, blocks)
    return ReductionSteps(shape, ((outer + 1, *[a + 1 for a in inner]), (outer,)))


def _cut(shape: Shape, axis: int, parts: int) -> Shape:
    """The shape with an axis in so many parts, each as long as the others."""
    size = shape[axis] // parts
    return (*shape[:axis], parts, size, *shape[axis + 1 :])


def _by_narrow_rows(x: Node) -> ReductionSteps | None:
    axis, *others = cost.reduced_axes(x)
    shape = x.src[0].shape
    size, inside = shape[axis], prod(x.shape[axis:])
    blocks = block_count(size)
    if others or x.size > FEW or blocks is None or not 1 < inside < WIDE:
        return None
    rows, least = size // blocks, -(-WIDE // inside)
    counts = [n for n in range(least, 2 * least) if same_size(rows % n, 0) and rows > n]
    if not counts:
        return None
    cut = _cut(_cut(shape, axis, blocks), axis + 1, rows // counts[0])
    return ReductionSteps(cut, ((axis + 1,), (axis,), (axis + 2,)))


# Contractions of few results: each part of what is summed over is one of its own.

MANY = 1 << 21  # products that are worth a second step
PLENTY = 1 << 14  # so many results are work enough for all threads
LENGTH = 1024  # terms of a part: about as many as a core keeps in its cache
LEAST_LENGTH = 256  # fewer would cost as much to add up as to multiply
LEAST_PARTS = 8


def _is_long(x: Node) -> bool:
    terms, results = x.src[0].size, x.size
    if not (0 < results <= PLENTY and terms >= MANY and cost.is_contraction(x)):
        return False
    length = terms // results
    return length >= max(LEAST_PARTS * LEAST_LENGTH, results // 4)


def part_count(size: int) -> int:
    """How many parts an axis is cut into; what does not divide is left over."""
    wished = min(max(size // LENGTH, LEAST_PARTS), BLOCKS[1])
    near = range(max(wished * 2 // 3, LEAST_PARTS), wished * 4 // 3 + 1)
    divisors = [n for n in near if same_size(size % n, 0)]
    return min(divisors, key=lambda n: abs(n - wished), default=wished)


def _split_contraction(x: Node) -> Node | None:
    axes = cost.reduced_axes(x)
    if len(axes) != 1:
        return None
    (axis,) = axes
    size = x.src[0].shape[axis]
    count = part_count(size)
    whole = size // count * count

    def cut(factor: Node) -> Node:
        first = movement.shrink_axis(factor, axis, 0, whole)
        return movement.move_axis(
            movement.reshape(first, _cut(first.shape, axis, count)), axis, 0
        )

    def rest(factor: Node) -> Node:
        return movement.shrink_axis(factor, axis, whole, size)

    parts = reduce(x.op, _of_factors(x.src[0], cut), (axis + 1,))
    total = movement.reshape(reduce(x.op, parts, (0,)), x.shape)
    if same_size(whole, size):
        return total
    return add(total, reduce(x.op, _of_factors(x.src[0], rest), (axis,)))


def _of_factors(product: Node, change: Callable[[Node], Node]) -> Node:
    """The product of changed factors, cast as the product is."""
    casts: list[Node] = []
    while product.op.name == "cast":
        casts.append(product)
        product = product.src[0]
    found = product.op(*map(change, product.src))
    for c in reversed(casts):
        found = cast(found, c.dtype)
    return found


def _rule(name: str, steps_of: Callable[[Node], ReductionSteps | None]) -> Rule:
    def split(x: Node) -> Node | None:
        steps = steps_of(x)
        return None if steps is None else in_steps(x, steps)

    return Rule(name, Pat(REDUCTIONS, Pat(), name="x", where=_is_large), split)


SPLITS: Final = (
    # reduce[a, b, …](x) -> reduce[a](reduce[b, …](x)), for few results of many
    _rule("split_reduce_by_axes", _by_axes),
    # reduce[a](x) -> reduce[a₃](reduce[a₁](reduce[a₂](x))), a in a₁ × a₂ × a₃
    # of which a₃ are so few rows that they fill vectors side by side
    _rule("split_reduce_of_narrow_rows", _by_narrow_rows),
    # reduce[a](x) -> reduce[a₁](reduce[a₂](x)), where a is cut into a₁ × a₂
    _rule("split_reduce_by_blocks", _by_blocks),
    # sum[k](x·y) -> sum[k₁](sum[k₂](x·y)) + rest, where k is cut in k₁ × k₂
    Rule(
        "split_contraction",
        Pat(reduce_sum_p, Pat(), name="x", where=_is_long),
        _split_contraction,
    ),
)


# For a device with threads and caches.


def sums_in_steps(outputs: Sequence[Node], limits: Limits) -> Sequence[Node]:
    """The outputs with sums in two steps, where threads or kernels share the first."""
    disabled = settings.current().disabled_rules
    order = toposort(outputs)
    chosen: dict[Node, ReductionSteps] = {}
    if "sum_beside_rows" not in disabled:
        chosen |= _sums_beside(order, outputs, _LEAST * limits.cache)
    if "filters_in_parts" not in disabled:
        chosen |= {n: steps for n in order if (steps := _filters(n))}
    if not chosen:
        return outputs

    def change(node: Node, src: tuple[Node, ...]) -> Node | None:
        steps = chosen.get(node)
        return None if steps is None else in_steps(rebuild(node, src), steps)

    return exchange(outputs, change)


# Gradients by filters, added up in parts that threads can share.
#
#     w[t, o] = the sum over i, p of       part[b, t, o] = the sum over i of block b, p
#               x[i, p + t]·y[i, p, o]  ->                 of x[i, p + t]·y[i, p, o]
#                                          w[t, o] = the sum over b of part[b, t, o]
#
# A few filters are one short block of sums, and the sums run over all images.

#: Elements of a result at most: more are enough work for all threads as they are.
_FEW_FILTERS = 1 << 15
#: Products at least; and in how many parts they are added up.
_MANY_PRODUCTS = 1 << 23
_PARTS = (8, 7, 6, 5, 4, 3, 2)


def _filters(node: Node) -> ReductionSteps | None:
    """The sum over blocks of the outermost axis of the sums within them."""
    if node.op is not reduce_sum_p or any_dynamic(node.src[0].shape):
        return None
    source = node.src[0]
    few = node.size <= _FEW_FILTERS and source.size >= _MANY_PRODUCTS
    if not few or not cost.is_contraction(node):
        return None
    if dtypes.kind(node.dtype) != "f" or node.dtype.itemsize < 4:
        return None
    axes = cost.reduced_axes(node)
    if not axes or not any(_has_windows(factor) for factor in source.src):
        return None
    first = axes[0]
    size = source.shape[first]
    parts = next((n for n in _PARTS if same_size(size % n, 0)), 0)
    if not parts:
        return None
    shape = _cut(source.shape, first, parts)
    return ReductionSteps(shape, (tuple(a + 1 for a in axes), (0,)), ahead=first)


def _has_windows(node: Node) -> bool:
    """Does a window slide over what is only moved?"""
    while node.op.family == "movement" or node.op.name == "expand":
        if node.op is movement.shear_p:
            return True
        node = node.src[0]
    return False


# Sums over rows, added up by kernels that pass over these rows anyway.
#
#     y[i, j] = f(x[i, j], …)              part[b, j] = the sum of g(x[i, j], …)
#     s[j] = the sum over i of             over block b of rows i,
#            g(x[i, j], …)             ->  by the kernel of y: it reads x once
#                                          s[j] = the sum over b of part[b, j]
#
# The gradient of a layer's scale and shift is such a sum, beside that of its input.
# Here the sum is cut in two; `schedule/merge_policy.py` gives the first half to the
# other kernel, if there is one that may run then.

#: Elements that come from a cache anyway are no reason: so many times its size are.
_LEAST = 2
#: Bytes of a row of sums: it stays in the first cache, and is not too short.
_ROW_BYTES = (256, 16 << 10)
#: Rows of a block, about, and how many blocks there are: enough for all threads.
_ROWS = 64
_ROW_BLOCKS = (16, 1024)

#: Values that are looked at for what two have in common.
_NEAR = 64


def _sums_beside(
    order: Sequence[Node], outputs: Sequence[Node], least: int
) -> dict[Node, ReductionSteps]:
    """Sums in two halves, where another kernel may do the first."""
    wanted = {n: b for n in order if (b := _row_blocks_of(n, least))}
    chosen = wanted and _with_company(wanted, order, outputs)
    return {node: _by_rows(node, wanted[node]) for node in chosen}


def _by_rows(node: Node, blocks: int) -> ReductionSteps:
    """The sum over blocks of the sums within them; the halves are not rounded."""
    rows = prod(node.src[0].shape[a] for a in cost.reduced_axes(node))
    half = node.dtype.itemsize == 2 and dtypes.is_float(node.dtype)
    dtype = dtypes.float32 if half else None
    return ReductionSteps(
        (blocks, rows // blocks, node.size), ((1,), (0,)), dtype=dtype
    )


def _row_blocks_of(node: Node, least: int) -> int:
    """Into how many blocks of rows a sum is cut; 0 if it is none that is meant."""
    if node.op is not reduce_sum_p or any_dynamic(node.src[0].shape):
        return 0
    source = node.src[0]
    if (
        dtypes.kind(node.dtype) not in "fiu"
        or source.size * node.dtype.itemsize < least
    ):
        return 0
    axes = cost.reduced_axes(node)
    kept = [
        a for a, n in enumerate(source.shape) if not same_size(n, 1) and a not in axes
    ]
    if not axes or not kept or axes[-1] > kept[0] or cost.is_contraction(node):
        return 0
    low, high = _ROW_BYTES
    if not low <= node.size * node.dtype.itemsize <= high:
        return 0
    return _block_count(tuple(source.shape[a] for a in axes))


def _block_count(loops: Shape) -> int:
    """How many blocks of about `_ROWS` rows there are in loops; 0: none will do."""
    rows = prod(loops)
    low, high = _ROW_BLOCKS
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
    shared = cost.shared_dear(order)
    stored += [e for e in map(cost.elements_of_sum, wanted) if e in shared]
    beside = {root: _elements_of(root) for root in stored}
    found: set[Node] = set()
    for node in wanted:
        mine = _elements_of(node.src[0])
        if any(
            map(cost.is_contraction, mine)
        ):  # the product's kernel has no such loops
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
        if family not in (*cost.ELEMENTWISE, "movement", "reduction", "source"):
            stored.update(dict.fromkeys(map(_beneath, node.src)))
        elif cost.is_contraction(node):
            for factor in node.src[0].src:
                stored[_beneath(factor)] = None
    return [n for n in stored if n.size in sizes and n.op.family in cost.ELEMENTWISE]


def _beneath(node: Node) -> Node:
    while node.op.family == "movement":
        node = node.src[0]
    return node


def _elements_of(root: Node) -> set[Node]:
    """The arrays that a value is made of, element by element, and the value itself."""

    def below(node: Node) -> list[Node]:
        if node.op.family not in cost.ELEMENTWISE and node.op not in (
            expand_p,
            movement.reshape_p,
        ):
            return []
        return [s for s in node.src if same_size(s.size, root.size)]

    near = cost.nodes_near(root, _NEAR, below)
    return {n for n in near if n.op not in (expand_p, movement.reshape_p)}


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
    if node.op is not reduce_sum_p or cost.is_contraction(node):
        return False
    source, axes = node.src[0], cost.reduced_axes(node)
    if any_dynamic((*source.shape, *loops)) or not same_size(source.size, prod(loops)):
        return False
    if source.size * source.dtype.itemsize < least:
        return False
    if len(axes) != 1 or dtypes.kind(node.dtype) not in "fiu":
        return False
    blocks = prod(source.shape[: axes[0]])
    columns = prod(source.shape[axes[0] + 1 :])
    low, high = _ROW_BYTES
    if blocks < _ROW_BLOCKS[0] or not low <= columns * node.dtype.itemsize <= high:
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
