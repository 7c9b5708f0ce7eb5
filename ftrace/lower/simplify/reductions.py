"""Rules on reductions: fewer and smaller ones."""

from __future__ import annotations

from math import prod
from typing import Final

import numpy as np

from ftrace import dtypes
from ftrace.lower.analysis.cost import is_contraction
from ftrace.lower.simplify.fold_constants import arg_of
from ftrace.trace.graph import Node
from ftrace.trace.primitives import elementwise as p, movement
from ftrace.trace.primitives.broadcast import expand, expand_p, reduce_sum_p
from ftrace.trace.primitives.reduction import (
    REDUCTIONS,
    reduce,
    reduce_max_p,
    reduce_min_p,
)
from ftrace.trace.primitives.sources import const_like
from ftrace.trace.rewrite import Pat, Rule
from ftrace.trace.symbolic.dim import same_size


def axes_of(node: Node) -> tuple[int, ...]:
    return arg_of(node)


def _drop_unit_axes(x: Node) -> Node | None:
    source = x.src[0]
    axes = tuple(a for a in axes_of(x) if not same_size(source.shape[a], 1))
    return None if axes and axes == x.arg else reduce(x.op, source, axes)


def _repeats(node: Node) -> set[int]:
    """The axes along which a value is one element many times, as far as that shows."""
    if node.op is expand_p:
        pairs = zip(node.src[0].shape, node.shape, strict=True)
        return {a for a, (n, m) in enumerate(pairs) if not same_size(n, m)} | _repeats(
            node.src[0]
        )
    if node.op is movement.permute_p:
        below = _repeats(node.src[0])
        return {i for i, a in enumerate(arg_of(node)) if a in below}
    return set()


def _is_sum_of_results(inner: Node, axes: set[int]) -> bool:
    """Are sums over these axes sums of the elements of a product of matrices?

    One loop over all products would load each factor again and again.
    """
    if not is_contraction(inner):
        return False
    product = inner.src[0]
    while product.op is p.cast_p:
        product = product.src[0]
    return any(not axes.isdisjoint(_repeats(factor)) for factor in product.src)


def _merge_reduces(x: Node, inner: Node) -> Node | None:
    if x.op is not inner.op or _is_sum_of_results(inner, set(axes_of(x))):
        return None
    axes = tuple(sorted({*axes_of(x), *axes_of(inner)}))
    return reduce(x.op, inner.src[0], axes)


def _repeated_axes(x: Node, view: Node) -> tuple[int, ...]:
    """The reduced axes along which the operand only repeats its elements."""
    sizes = view.src[0].shape
    return tuple(a for a in axes_of(x) if same_size(sizes[a], 1) and view.shape[a] > 1)


def _without_repeats(x: Node, view: Node, repeated: tuple[int, ...]) -> Node:
    shape = tuple(1 if a in repeated else n for a, n in enumerate(view.shape))
    axes = tuple(a for a in axes_of(x) if a not in repeated)
    return reduce(x.op, expand(view.src[0], shape), axes)


def _merge_reduces_through_reshape(x: Node, view: Node, inner: Node) -> Node | None:
    """Where the reshape only moves axes of size 1, the other axes correspond."""
    ahead = [a for a, n in enumerate(view.shape) if not same_size(n, 1)]
    behind = [a for a, n in enumerate(inner.shape) if not same_size(n, 1)]
    sizes = [view.shape[a] for a in ahead], [inner.shape[a] for a in behind]
    if x.op is not inner.op or not same_size(sizes[0], sizes[1]):
        return None
    same = dict(zip(ahead, behind, strict=True))
    outer = {same[a] for a in axes_of(x) if a in same}
    if _is_sum_of_results(inner, outer):
        return None
    axes = outer.union(axes_of(inner))
    return movement.reshape(x.op(inner.src[0], arg=tuple(sorted(axes))), x.shape)


def _sum_of_expand(x: Node, view: Node) -> Node | None:
    repeated = _repeated_axes(x, view)
    if not repeated:
        return None
    count = prod(view.shape[a] for a in repeated)
    return times_count(_without_repeats(x, view, repeated), count)


def times_count(x: Node, count: int) -> Node:
    """`count` times x, as the sum of so many would give it."""
    if dtypes.is_complex(x.dtype):
        # Part by part: ∞·(n + 0i) would be NaN.
        return p.make_complex(
            times_count(p.real(x), count), times_count(p.imag(x), count)
        )
    if dtypes.is_float(x.dtype) and x.dtype.itemsize == 2:
        # The count may not fit 16 bits; sums of such floats are wide as well.
        wide = p.cast(x, dtypes.float32)
        return p.cast(p.mul(wide, const_like(wide, count)), x.dtype, x.aval.weak_type)
    factor = np.array(count).astype(x.dtype)
    return p.mul(x, const_like(x, factor))


def _extremum_of_expand(x: Node, view: Node) -> Node | None:
    repeated = _repeated_axes(x, view)
    return _without_repeats(x, view, repeated) if repeated else None


REDUCES: Final = (
    # reduce[axes](x) -> reduce[axes without those of size 1](x)
    Rule(
        "drop_reduced_axes_of_size_1", Pat(REDUCTIONS, Pat(), name="x"), _drop_unit_axes
    ),
    # reduce[a](reduce[b](x)) -> reduce[a + b](x), of one kind, no product's
    Rule(
        "merge_reduces",
        Pat(REDUCTIONS, Pat(REDUCTIONS, name="inner"), name="x"),
        _merge_reduces,
        single_use="inner",
    ),
    # reduce[a](reshape(reduce[b](x))) -> reshape(reduce[a + b](x)), ones moved
    Rule(
        "merge_reduces_through_reshape",
        Pat(
            REDUCTIONS,
            Pat(movement.reshape_p, Pat(REDUCTIONS, name="inner"), name="view"),
            name="x",
        ),
        _merge_reduces_through_reshape,
        single_use="inner view",
    ),
    # sum[a](expand[a: n](x)) -> x·n
    Rule(
        "sum_of_expand_is_multiply",
        Pat(reduce_sum_p, Pat(expand_p, name="view"), name="x"),
        _sum_of_expand,
    ),
    # max[a](expand[a: n](x)) -> x
    Rule(
        "extremum_of_expand_is_operand",
        Pat((reduce_max_p, reduce_min_p), Pat(expand_p, name="view"), name="x"),
        _extremum_of_expand,
    ),
)
