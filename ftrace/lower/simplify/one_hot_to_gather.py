"""Rules on comparisons with positions: sums that pick one element become indexed loads.

    sum over k of where(k == i, f(k), 0)      ->  f(i) where 0 <= i < n, else 0
    sum over b of where(k == i(b), f(b), 0)   ->  zeros, with f(b) added at i(b)

The first is what `one_hot(i, n) @ table` computes, the second its gradient and a
histogram. With `where` both are exact. With a product, `(k == i)·f(k)`, they are so
where f is finite; beside an infinity or a NaN that is not picked the sum is NaN (0·∞),
and what replaces it is not: an embedding need not spoil all rows to show one bad one.
The second adds up in the order of b, and so may round otherwise than the sum. Each is
switched off by its name in `config.disabled_rules`.
"""

from __future__ import annotations

from typing import Any, Final

from ftrace import dtypes
from ftrace.lower.analysis.axis_alignment import KEEPING, axis_below, counted_axis
from ftrace.lower.analysis.cost import nodes_near
from ftrace.lower.simplify import fold_constants
from ftrace.trace.avals import Shape
from ftrace.trace.graph import Node, constant_value
from ftrace.trace.primitives.broadcast import expand, expand_p, reduce_sum_p
from ftrace.trace.primitives.elementwise import add, cast, cast_p, eq, mul, select
from ftrace.trace.primitives.indexing import clamp, gather, in_bounds, scatter
from ftrace.trace.primitives.movement import permute, permute_p, reshape, reshape_p
from ftrace.trace.primitives.reduction import REDUCTIONS, reduce
from ftrace.trace.primitives.sources import (
    const,
    const_like,
    const_p,
    iota,
    iota_p,
    zeros_like,
)
from ftrace.trace.rewrite import Pat, Rule
from ftrace.trace.symbolic.dim import same_size

#: How far below a sum a comparison is looked for.
_DEPTH = 8
#: How many nodes of a summand are looked at to see whether it holds a reduction.
_CONE = 32
#: From so many positions on, adding in turn is faster than a sum for each of them.
MANY = 16

# What is known of a value along one of its axes.


def _without(shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], 1, *shape[axis + 1 :])


def _moved(node: Node, source: Node, axis: int) -> Node:
    """The movement of `node` on its source, of which that axis has size 1 now."""
    if node.op is permute_p:
        return permute(source, fold_constants.arg_of(node))
    shape = _without(node.shape, axis)
    return reshape(source, shape) if node.op is reshape_p else expand(source, shape)


def counts_along(node: Node, axis: int) -> bool:
    """Is the node, everywhere, the position along the axis?"""
    return counted_axis(node, node.shape[axis]) == axis


def _constant_along(node: Node, axis: int, depth: int = _DEPTH) -> Node | None:
    """The node with size 1 along an axis, if it does not vary along it."""
    if same_size(node.shape[axis], 1):
        return node
    if node.op is const_p:
        return fold_constants.move_constant(node, _without(node.shape, axis))
    if node.op is iota_p and node.arg != axis:
        return iota(node.dtype, _without(node.shape, axis), fold_constants.arg_of(node))
    if node.op is expand_p and same_size(node.src[0].shape[axis], 1):
        return expand(node.src[0], _without(node.shape, axis))
    if depth == 0:
        return None
    if node.op in KEEPING:
        place = axis_below(node, axis)
        inner = (
            None if place is None else _constant_along(node.src[0], place, depth - 1)
        )
        return None if inner is None else _moved(node, inner, axis)
    if node.op not in fold_constants.ELEMENTWISE:
        return None
    parts = [_constant_along(s, axis, depth - 1) for s in node.src]
    found = [part for part in parts if part is not None]
    return node.op(*found, arg=node.arg) if len(found) == len(parts) else None


def _picked(node: Node, axis: int, depth: int = _DEPTH) -> Node | None:
    """i, with size 1 along the axis, if the node is 1 or true where position == i."""
    if depth == 0:
        return None
    if node.op in KEEPING:
        place = axis_below(node, axis)
        inner = None if place is None else _picked(node.src[0], place, depth - 1)
        return None if inner is None else _moved(node, inner, axis)
    if node.op is cast_p and node.src[0].dtype == dtypes.bool_:
        return _picked(node.src[0], axis, depth - 1)
    if node.op is select:
        mask, one, zero = node.src
        if fold_constants.is_bits(one, 1) and fold_constants.is_bits(zero, 0):
            return _picked(mask, axis, depth - 1)
        return None
    if node.op is not eq or not dtypes.is_integer(node.src[0].dtype):
        return None
    for positions, index in (node.src, node.src[::-1]):
        if counts_along(positions, axis):
            return _constant_along(index, axis)
    return None


def _may_pick(node: Node) -> bool:
    """A quick look: is there a comparison below movement and casts?"""
    while node.op in KEEPING or node.op is cast_p:
        node = node.src[0]
    return node.op is eq or node.op is select


def _factors(body: Node) -> list[tuple[Node, Node]]:
    """(mask or 0-1 number, f) of which a summand is the product."""
    if body.op is select:
        mask, f, other = body.src
        zero = other.op is const_p and constant_value(other) == 0
        return [(mask, f)] if zero and _may_pick(mask) else []
    if body.op is mul:
        pairs = (body.src, body.src[::-1])
        return [(m, f) for m, f in pairs if _may_pick(m)]
    if body.op is cast_p and body.src[0].dtype == dtypes.bool_:
        return [(body, const_like(body, 1))] if _may_pick(body) else []
    return []


# Loads.


def _core(node: Node) -> Node:
    """The node before it was expanded."""
    return node.src[0] if node.op is expand_p else node


def _varies(node: Node) -> list[int]:
    return [a for a, n in enumerate(node.shape) if not same_size(n, 1)]


def _is_reduced(f: Node) -> bool:
    """Does f, up to the next values that are surely stored, hold a reduction?"""
    near = nodes_near(f, _CONE, lambda node: node.src)
    return len(near) >= _CONE or any(node.op in REDUCTIONS for node in near)


def _load(f: Node, index: Node, axis: int) -> Node | None:
    """f at an index along an axis, which gets size 1; zero where out of bounds."""
    size, shape = f.shape[axis], _without(f.shape, axis)
    source, at = _core(f), _core(index)
    if source.op is const_p:
        found = fold_constants.move_constant(source, shape)
    elif same_size(source.shape[axis], 1):
        found = expand(source, shape)
    else:
        both = {*_varies(source)} & {*_varies(at)}
        if both and _is_reduced(source):
            return None  # it stands in the kernel of that reduction, as a sum
        found = _gathered(source, at, axis, shape)
    inside = expand(in_bounds([at], [size]), shape)
    return select(inside, found, zeros_like(found))


def _index_arrays(
    at: Node, batch: list[int], axis: int, indexed: list[int]
) -> list[Node]:
    """The index along `axis`, and positions along the others that it runs with."""
    sizes = tuple(at.shape[a] for a in batch)
    if len(batch) == 1 and counts_along(at, batch[0]):
        index = iota(at.dtype, sizes, 0)
    else:
        index = reshape(at, sizes)
    if len(indexed) > 1 and index.dtype.itemsize < 4:  # so that all positions fit
        index = cast(index, dtypes.int32)
    return [
        index if a == axis else iota(index.dtype, sizes, batch.index(a))
        for a in indexed
    ]


def _gathered(source: Node, at: Node, axis: int, shape: Shape) -> Node:
    batch = [a for a in range(at.ndim) if not same_size(at.shape[a], 1)]
    kept = [a for a in _varies(source) if a != axis]
    indexed = sorted([axis, *[a for a in kept if a in batch]])
    rest = [a for a in kept if a not in batch]
    dense = sorted([axis, *kept])
    arrays = _index_arrays(at, batch, axis, indexed)
    found = gather(
        reshape(source, tuple(source.shape[a] for a in dense)),
        [clamp(i, source.shape[a]) for a, i in zip(indexed, arrays, strict=True)],
        tuple(dense.index(a) for a in indexed),
    )
    stand = [*batch, *rest]
    order = sorted(stand)
    found = permute(found, tuple(stand.index(a) for a in order))
    lined = tuple(
        found.shape[order.index(a)] if a in order else 1 for a in range(len(shape))
    )
    return expand(reshape(found, lined), shape)


def _fold_pick(x: Node, body: Node) -> Node | None:
    axes: tuple[int, ...] = fold_constants.arg_of(x)
    for mask, f in _factors(body):
        for axis in axes:
            if same_size(body.shape[axis], 1):
                continue
            index = _picked(mask, axis)
            found = None if index is None else _load(f, index, axis)
            if found is None:
                continue
            others = tuple(a for a in axes if a != axis)
            if others:
                return reduce(reduce_sum_p, found, others)
            exact = dtypes.is_integer(x.dtype)
            return found if exact else add(found, zeros_like(found))  # -0 becomes 0
    return None


# Updates.


def _fold_spread(x: Node, body: Node) -> Node | None:
    axes: tuple[int, ...] = fold_constants.arg_of(x)
    if dtypes.is_float(x.dtype) and x.dtype.itemsize == 2:
        return None  # its sums are wider
    for mask, f in _factors(body):
        for axis in range(body.ndim):
            if axis in axes or body.shape[axis] < MANY:
                continue
            index = _picked(mask, axis)
            values = None if index is None else _constant_along(f, axis)
            if index is not None and values is not None:
                found = _spread(x, values, _core(index), axis)
                if found is not None:
                    return found
    return None


def _spread(x: Node, values: Node, at: Node, axis: int) -> Node | None:
    """Zeros like x with values added at an index along an axis."""
    axes: tuple[int, ...] = fold_constants.arg_of(x)
    batch = _varies(at)
    if not any(a in axes for a in batch):
        return None
    values = reduce(reduce_sum_p, values, tuple(a for a in axes if a not in batch))
    indexed = sorted([axis, *[a for a in batch if a not in axes]])
    arrays = _index_arrays(at, batch, axis, indexed)
    others = [a for a in range(x.ndim) if a not in batch and a != axis]
    updates = permute(values, (*batch, *others, axis))
    sizes = tuple(at.shape[a] for a in batch)
    rest = tuple(n for a, n in enumerate(x.shape) if a not in indexed)
    zeros = const(0, x.dtype, x.shape)
    return scatter(
        zeros, reshape(updates, (*sizes, *rest)), arrays, tuple(indexed), "add"
    )


def _sum_of(op: Any) -> Pat:
    return Pat(reduce_sum_p, Pat(op, name="body"), name="x")


ONE_HOT: Final = (
    # sum[k](where(k == i, f, 0)) -> where(0 <= i < n, f[i], 0)
    Rule("fold_sum_of_picked", _sum_of(select), _fold_pick),
    # sum[k]((k == i)·f) -> where(0 <= i < n, f[i], 0)
    Rule("fold_sum_of_one_hot", _sum_of((mul, cast_p)), _fold_pick),
    # sum[b](where(k == i[b], f[b], 0)) -> zeros.at[i].add(f)
    Rule("fold_sum_of_spread", _sum_of((select, mul, cast_p)), _fold_spread),
)
