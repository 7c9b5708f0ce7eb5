"""Rules on gathers and scatters, and on comparisons with positions that are such.

    zeros.at[arange(n), i].add(u)             ->  where(k == i, u, 0)
    x.at[i].add(u)                            ->  x + the sum over b of
                                                  zeros.at[b, i[b]].add(u[b])
    sum over k of where(k == i, f(k), 0)      ->  f(i) where 0 <= i < n, else 0
    sum over b of where(k == i(b), f(b), 0)   ->  zeros, with f(b) added at i(b)

A scatter is stored, and what works on it waits for that; a `where` joins the work. This
is the transpose of `take_along_axis` and of an element at a computed index. A base that
is no constant stays a scatter, as it may be updated in place.

The first of the sums is what `one_hot(i, n) @ table` computes, the second its gradient
and a histogram. With `where` both are exact. With a product, `(k == i)·f(k)`, they are
so where f is finite; beside an infinity or a NaN that is not picked the sum is NaN
(0·∞), and what replaces it is not: an embedding need not spoil all rows to show one bad
one. The second adds up in the order of b, and so may round otherwise than the sum. Each
is switched off by its name in `config.disabled_rules`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ftrace import dtypes
from ftrace.lower import analysis
from ftrace.lower.simplify import algebra
from ftrace.trace.avals import Shape
from ftrace.trace.graph import Node, constant_value
from ftrace.trace.primitives import (
    broadcast as bc,
    elementwise as p,
    indexing,
    movement as mv,
    reduction as red,
    sources,
)
from ftrace.trace.rewrite import Pat, Rule
from ftrace.trace.symbolic import any_dynamic, same_size

#: How far below a sum a comparison is looked for. With 2 the gradient of one_hot(4096
#: of 1000) @ (1000, 64) stores 18 MB, not 0.8; with 32 no row differs.
_DEPTH = 8
#: How many nodes of a summand are looked at to see whether it holds a reduction. With 8
#: sum(one_hot(i of 1000) * f(x), 1) of six sines computes them for all 1000; with 128
#: no row differs.
_CONE = 32
#: From so many positions on, adding in turn is faster than a sum for each of them: the
#: gradient of one_hot(4096 of 1000) @ (1000, 64) takes a 14th of the time. With 4 that
#: of 64 of 10 is added in turn, too; with 64 no row differs.
_MANY_POSITIONS = 16

# What is known of a value along one of its axes.


def _without(shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], 1, *shape[axis + 1 :])


def _constant_along(node: Node, axis: int, depth: int = _DEPTH) -> Node | None:
    """The node with size 1 along an axis, if it does not vary along it."""
    shape = _without(node.shape, axis)
    if same_size(node.shape[axis], 1):
        return node
    if node.op is sources.const_p or (node.op is sources.iota_p and node.arg != axis):
        return analysis.slice_op(node, (), shape)
    if node.op is bc.expand_p and same_size(node.src[0].shape[axis], 1):
        return bc.expand(node.src[0], shape)
    if depth == 0 or node.op not in (*analysis.KEEPING, *algebra.ELEMENTWISE_OPS):
        return None
    place = analysis.axis_below(node, axis) if node.op in analysis.KEEPING else axis
    if place is None:
        return None
    parts = [_constant_along(s, place, depth - 1) for s in node.src]
    found = [part for part in parts if part is not None]
    return analysis.slice_op(node, found, shape) if len(found) == len(parts) else None


def _find_picked(node: Node, axis: int, depth: int = _DEPTH) -> Node | None:
    """i, with size 1 along the axis, if the node is 1 or true where position == i."""
    if depth == 0:
        return None
    if node.op in analysis.KEEPING:
        place = analysis.axis_below(node, axis)
        inner = None if place is None else _find_picked(node.src[0], place, depth - 1)
        if inner is None:
            return None
        return analysis.slice_op(node, (inner,), _without(node.shape, axis))
    if node.op is p.cast_p and node.src[0].dtype == dtypes.bool_:
        return _find_picked(node.src[0], axis, depth - 1)
    if node.op is p.select:
        mask, one, zero = node.src
        if algebra.is_bits(one, 1) and algebra.is_bits(zero, 0):
            return _find_picked(mask, axis, depth - 1)
        return None
    if node.op is not p.eq or not dtypes.is_integer(node.src[0].dtype):
        return None
    for positions, index in (node.src, node.src[::-1]):
        if analysis.counts_along(positions, axis):
            return _constant_along(index, axis)
    return None


def _may_pick(node: Node) -> bool:
    """A quick look: is there a comparison below movement and casts?"""
    while node.op in analysis.KEEPING or node.op is p.cast_p:
        node = node.src[0]
    return node.op is p.eq or node.op is p.select


def _factors(body: Node) -> list[tuple[Node, Node]]:
    """(mask or 0-1 number, f) of which a summand is the product."""
    if body.op is p.select:
        mask, f, other = body.src
        zero = other.op is sources.const_p and constant_value(other) == 0
        return [(mask, f)] if zero and _may_pick(mask) else []
    if body.op is p.mul:
        pairs = (body.src, body.src[::-1])
        return [(m, f) for m, f in pairs if _may_pick(m)]
    if body.op is p.cast_p and body.src[0].dtype == dtypes.bool_:
        return [(body, sources.const_like(body, 1))] if _may_pick(body) else []
    return []


# Loads.


def _core(node: Node) -> Node:
    """The node before it was expanded."""
    return node.src[0] if node.op is bc.expand_p else node


def _varies(node: Node) -> list[int]:
    return [a for a, n in enumerate(node.shape) if not same_size(n, 1)]


def _is_reduced(f: Node) -> bool:
    """Does f, up to the next values that are surely stored, hold a reduction?"""
    near = analysis.nodes_near(f, _CONE, lambda node: node.src)
    return len(near) >= _CONE or any(node.op in red.REDUCTIONS for node in near)


def _load(f: Node, index: Node, axis: int) -> Node | None:
    """f at an index along an axis, which gets size 1; zero where out of bounds."""
    size, shape = f.shape[axis], _without(f.shape, axis)
    source, at = _core(f), _core(index)
    if source.op is sources.const_p:
        found = algebra.move_constant(source, shape)
    elif same_size(source.shape[axis], 1):
        found = bc.expand(source, shape)
    else:
        both = {*_varies(source)} & {*_varies(at)}
        if both and _is_reduced(source):
            return None  # it stands in the kernel of that reduction, as a sum
        found = _gather(source, at, axis, shape)
    inside = bc.expand(indexing.in_bounds([at], [size]), shape)
    return p.select(inside, found, sources.zeros_like(found))


def _index_arrays(
    at: Node, batch: list[int], axis: int, indexed: list[int]
) -> list[Node]:
    """The index along `axis`, and positions along the others that it runs with."""
    sizes = tuple(at.shape[a] for a in batch)
    if len(batch) == 1 and analysis.counts_along(at, batch[0]):
        index = sources.iota(at.dtype, sizes, 0)
    else:
        index = mv.reshape(at, sizes)
    if len(indexed) > 1 and index.dtype.itemsize < 4:  # so that all positions fit
        index = p.cast(index, dtypes.int32)
    return [
        index if a == axis else sources.iota(index.dtype, sizes, batch.index(a))
        for a in indexed
    ]


def _gather(source: Node, at: Node, axis: int, shape: Shape) -> Node:
    batch = [a for a in range(at.ndim) if not same_size(at.shape[a], 1)]
    kept = [a for a in _varies(source) if a != axis]
    indexed = sorted([axis, *[a for a in kept if a in batch]])
    rest = [a for a in kept if a not in batch]
    dense = sorted([axis, *kept])
    arrays = _index_arrays(at, batch, axis, indexed)
    found = indexing.gather(
        mv.reshape(source, tuple(source.shape[a] for a in dense)),
        [
            indexing.clamp(i, source.shape[a])
            for a, i in zip(indexed, arrays, strict=True)
        ],
        tuple(dense.index(a) for a in indexed),
    )
    stand = [*batch, *rest]
    order = sorted(stand)
    found = mv.permute(found, tuple(stand.index(a) for a in order))
    lined = tuple(
        found.shape[order.index(a)] if a in order else 1 for a in range(len(shape))
    )
    return bc.expand(mv.reshape(found, lined), shape)


def _fold_pick(x: Node, body: Node) -> Node | None:
    axes: tuple[int, ...] = algebra.arg_of(x)
    for mask, f in _factors(body):
        for axis in axes:
            if same_size(body.shape[axis], 1):
                continue
            index = _find_picked(mask, axis)
            found = None if index is None else _load(f, index, axis)
            if found is None:
                continue
            others = tuple(a for a in axes if a != axis)
            if others:
                return red.reduce(bc.reduce_sum_p, found, others)
            exact = dtypes.is_integer(x.dtype)
            return (
                found if exact else p.add(found, sources.zeros_like(found))
            )  # -0 becomes 0
    return None


# Updates.


def _fold_spread(x: Node, body: Node) -> Node | None:
    axes: tuple[int, ...] = algebra.arg_of(x)
    if dtypes.is_float(x.dtype) and x.dtype.itemsize == 2:
        return None  # its sums are wider
    for mask, f in _factors(body):
        for axis in range(body.ndim):
            if axis in axes or body.shape[axis] < _MANY_POSITIONS:
                continue
            index = _find_picked(mask, axis)
            values = None if index is None else _constant_along(f, axis)
            if index is not None and values is not None:
                found = _scatter_along(x, values, _core(index), axis)
                if found is not None:
                    return found
    return None


def _scatter_along(x: Node, values: Node, at: Node, axis: int) -> Node | None:
    """Zeros like x with values added at an index along an axis."""
    axes: tuple[int, ...] = algebra.arg_of(x)
    batch = _varies(at)
    if not any(a in axes for a in batch):
        return None
    values = red.reduce(
        bc.reduce_sum_p, values, tuple(a for a in axes if a not in batch)
    )
    indexed = sorted([axis, *[a for a in batch if a not in axes]])
    arrays = _index_arrays(at, batch, axis, indexed)
    others = [a for a in range(x.ndim) if a not in batch and a != axis]
    updates = mv.permute(values, (*batch, *others, axis))
    sizes = tuple(at.shape[a] for a in batch)
    rest = tuple(n for a, n in enumerate(x.shape) if a not in indexed)
    zeros = sources.const(0, x.dtype, x.shape)
    return indexing.scatter(
        zeros, mv.reshape(updates, (*sizes, *rest)), arrays, tuple(indexed), "add"
    )


def _sum_of(op: Any) -> Pat:
    return Pat(bc.reduce_sum_p, Pat(op, name="body"), name="x")


ONE_HOT: Final = (
    # sum[k](where(k == i, f, 0)) -> where(0 <= i < n, f[i], 0)
    Rule("fold_sum_of_one_hot_select", _sum_of(p.select), _fold_pick),
    # sum[k]((k == i)·f) -> where(0 <= i < n, f[i], 0)
    Rule("fold_sum_of_one_hot", _sum_of((p.mul, p.cast_p)), _fold_pick),
    # sum[b](where(k == i[b], f[b], 0)) -> zeros.at[i].add(f)
    Rule("fold_sum_into_scatter", _sum_of((p.select, p.mul, p.cast_p)), _fold_spread),
)


def _lanes(x: Node) -> dict[int, int] | None:
    """Axis of the result -> axis of the batch, where the index only counts.

    None if some axis of the batch has no such index, so that updates may collide.
    """
    axes, _ = indexing.axes_and_kind(x)
    indices = x.src[2:]
    wanted = [c for c, n in enumerate(indices[0].shape) if not same_size(n, 1)]
    found: dict[int, int] = {}
    for axis, index in zip(axes, indices, strict=True):
        place = analysis.find_counted_axis(index)
        if place is None or place in found.values():
            continue
        if same_size(index.shape[place], x.shape[axis]):
            found[axis] = place
    return found if len(found) == len(wanted) else None


def _lay_out(node: Node, x: Node, lanes: dict[int, int], rest: Sequence[int]) -> Node:
    """Values of batch, or batch and rest, as the axes of x that they belong to."""
    depth = x.src[2].ndim
    source = dict(lanes)
    if node.ndim > depth:
        source |= {axis: depth + i for i, axis in enumerate(rest)}
    order = [source[a] for a in sorted(source)]
    units = [a for a in range(node.ndim) if a not in order]
    moved = mv.permute(node, (*order, *units))
    shape = tuple(node.shape[source[a]] if a in source else 1 for a in range(x.ndim))
    return bc.expand(mv.reshape(moved, shape), x.shape)


def _scatter_as_select(x: Node) -> Node | None:
    lanes = _lanes(x)
    axes, kind = indexing.axes_and_kind(x)
    base, updates, *indices = x.src
    if lanes is None or len(lanes) == len(axes):
        return None
    rest = [a for a in range(x.ndim) if a not in axes]
    mask: Node | None = None
    for axis, index in zip(axes, indices, strict=True):
        if axis not in lanes:
            at = _lay_out(index, x, lanes, rest)
            here = p.eq(at, sources.iota(at.dtype, x.shape, axis))
            mask = here if mask is None else p.bit_and(mask, here)
    assert mask is not None
    new = _lay_out(updates, x, lanes, rest)
    if kind in red.COMBINES_BY_NAME:
        new = red.COMBINES_BY_NAME[kind](base, new)
    return p.select(mask, new, base)


def _fits(x: Node) -> bool:
    """Can the index dtypes hold every position?"""
    axes, _ = indexing.axes_and_kind(x)
    return x.src[0].op is sources.const_p and all(
        dtypes.limits(index.dtype)[1] >= x.shape[axis] - 1
        for axis, index in zip(axes, x.src[2:], strict=True)
    )


def _products(x: Node) -> Node:
    """Each update becomes the product of all those of its element, and is set.

    Devices combine no pairs of numbers in memory. It takes time in the square of the
    number of updates.
    """
    axes, _ = indexing.axes_and_kind(x)
    base, updates, *indices = x.src
    count = indices[0].size
    width = updates.size // count
    same: Node | None = None
    for index in indices:
        ours = bc.expand(mv.reshape(index, (count, 1)), (count, count))
        theirs = bc.expand(mv.reshape(index, (1, count)), (count, count))
        here = p.eq(ours, theirs)
        same = here if same is None else p.bit_and(same, here)
    assert same is not None
    whole = (count, count, width)
    factors = bc.expand(mv.reshape(updates, (1, count, width)), whole)
    factors = p.select(
        indexing.trailing(same, whole), factors, sources.const_like(factors, 1)
    )
    whole_product = red.reduce(red.reduce_prod_p, factors, (1,))
    whole_product = algebra.multiply_complex(whole_product) or whole_product
    product = mv.reshape(whole_product, updates.shape)
    return indexing.scatter(
        base,
        p.mul(indexing.read_back(base, indices, axes), product),
        indices,
        axes,
        "set",
    )


def _is_chosen_update(x: Node) -> bool:
    """Does a `where` choose between an array and that with few of its elements set?"""
    _, new, old = x.src
    if new.op is not indexing.scatter_p or new.src[0] is not old:
        return False
    updates = new.src[1]
    few = not any_dynamic(x.shape) and updates.size * 2 <= x.size
    return few and indexing.axes_and_kind(new)[1] == "set"


def _choose_updates(x: Node) -> Node:
    mask, new, _ = x.src
    axes, kind = indexing.axes_and_kind(new)
    base, updates, *indices = new.src
    chosen = indexing.read_back(mask, indices, axes)
    updates = p.select(chosen, updates, indexing.read_back(base, indices, axes))
    return indexing.scatter(base, updates, indices, axes, kind)


def _is_complex_product(x: Node) -> bool:
    return dtypes.is_complex(x.dtype) and indexing.axes_and_kind(x)[1] == "mul"


SCATTERS: Final = (
    # c.at[arange(n), i].add(u) -> where(k == i, c + u, c)
    Rule(
        "fold_scatter_without_collisions",
        Pat(indexing.scatter_p, name="x", where=_fits),
        _scatter_as_select,
    ),
    # where(m, x.at[i].set(u), x) -> x.at[i].set(where(m[i], u, x[i]))
    Rule(
        "push_where_into_update",
        Pat(p.select, name="x", where=_is_chosen_update),
        _choose_updates,
    ),
    # x.at[i].multiply(u) -> x.at[i].set(x[i] * product of all u there), complex
    Rule(
        "lower_complex_scatter_multiply",
        Pat(indexing.scatter_p, name="x", where=_is_complex_product),
        _products,
    ),
)
