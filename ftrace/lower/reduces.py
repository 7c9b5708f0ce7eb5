"""Rules on reductions: fewer, smaller, and, where there is much to add up, parallel."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Final

import numpy as np

from ftrace import dtypes
from ftrace.lower.constants import arg_of
from ftrace.lower.values import is_contraction
from ftrace.trace.dims import same_size
from ftrace.trace.graph import Node
from ftrace.trace.primitives.broadcast import expand, expand_p, reduce_sum_p
from ftrace.trace.primitives.elementwise import (
    add,
    cast,
    cast_p,
    imag,
    make_complex,
    mul,
    real,
)
from ftrace.trace.primitives.movement import (
    move_axis,
    permute_p,
    reshape,
    reshape_p,
    shrink_axis,
)
from ftrace.trace.primitives.reduction import (
    REDUCTIONS,
    reduce,
    reduce_max_p,
    reduce_min_p,
)
from ftrace.trace.primitives.source import const_like
from ftrace.trace.rewrite import Pat, Rule

# Fewer and smaller reduces.


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
    if node.op is permute_p:
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
    while product.op is cast_p:
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
    return reshape(x.op(inner.src[0], arg=tuple(sorted(axes))), x.shape)


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
        return make_complex(times_count(real(x), count), times_count(imag(x), count))
    if dtypes.is_float(x.dtype) and x.dtype.itemsize == 2:
        # The count may not fit 16 bits; sums of such floats are wide as well.
        wide = cast(x, dtypes.float32)
        return cast(mul(wide, const_like(wide, count)), x.dtype, x.aval.weak_type)
    factor = np.array(count).astype(x.dtype)
    return mul(x, const_like(x, factor))


def _extremum_of_expand(x: Node, view: Node) -> Node | None:
    repeated = _repeated_axes(x, view)
    return _without_repeats(x, view, repeated) if repeated else None


REDUCES: Final = (
    Rule(  # reduce[axes](x) -> reduce[axes without those of size 1](x)
        "drop_reduced_axes_of_size_1",
        Pat(REDUCTIONS, Pat(), name="x"),
        _drop_unit_axes,
    ),
    Rule(  # reduce[a](reduce[b](x)) -> reduce[a + b](x), of one kind, no product's
        "merge_reduces",
        Pat(REDUCTIONS, Pat(REDUCTIONS, name="inner"), name="x"),
        _merge_reduces,
        single_use="inner",
    ),
    Rule(  # reduce[a](reshape(reduce[b](x))) -> reshape(reduce[a + b](x)), ones moved
        "merge_reduces_through_reshape",
        Pat(
            REDUCTIONS,
            Pat(reshape_p, Pat(REDUCTIONS, name="inner"), name="view"),
            name="x",
        ),
        _merge_reduces_through_reshape,
        single_use="inner view",
    ),
    Rule(  # sum[a](expand[a: n](x)) -> x·n
        "sum_of_expand_is_multiply",
        Pat(reduce_sum_p, Pat(expand_p, name="view"), name="x"),
        _sum_of_expand,
    ),
    Rule(  # max[a](expand[a: n](x)) -> x
        "extremum_of_expand_is_operand",
        Pat((reduce_max_p, reduce_min_p), Pat(expand_p, name="view"), name="x"),
        _extremum_of_expand,
    ),
)


# Large reduces with small outputs, in two steps, of which the first is parallel. Where
# they are cut depends on shapes alone, so that results do not depend on threads.

LARGE = 1 << 16  # elements per result: from here on a reduce is split …
SMALL = 1 << 12  # … if no more results than these keep a machine busy by themselves
FEW = 64  # so few results that an axis is cut into blocks
WIDE = 64  # elements that one result of the first step takes at least
LONG = 2048  # elements that are worth a step of their own, where blocks are possible
BLOCKS = (64, 1024)  # how many parts an axis is cut into, of all results …
FEWEST = (4, 16)  # … and of each one


def _reduced(x: Node) -> list[int]:
    sizes = x.src[0].shape
    return [a for a in sorted(axes_of(x)) if sizes[a] > 1]


def _is_large(x: Node) -> bool:
    enough = 0 < x.size <= SMALL and x.src[0].size >= LARGE * x.size
    return enough and not is_contraction(x)


def _split_by_axes(x: Node) -> Node | None:
    outer, *inner = _reduced(x)
    source = x.src[0]
    length = prod(source.shape[a] for a in inner)
    if length < WIDE or (length < LONG and _blocks_of(x, outer)):
        return None
    return reduce(x.op, reduce(x.op, source, tuple(inner)), (outer,))


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


def _split_by_blocks(x: Node) -> Node | None:
    outer, *inner = _reduced(x)
    source = x.src[0]
    shape = source.shape
    blocks = _blocks_of(x, outer)
    if not blocks:
        return None
    size = shape[outer] // blocks
    cut = reshape(source, (*shape[:outer], blocks, size, *shape[outer + 1 :]))
    parts = reduce(x.op, cut, (outer + 1, *[a + 1 for a in inner]))
    return reshape(reduce(x.op, parts, (outer,)), x.shape)


def _split_narrow_rows(x: Node) -> Node | None:
    axis, *others = _reduced(x)
    source = x.src[0]
    around, size, inside = source.shape[:axis], source.shape[axis], prod(x.shape[axis:])
    blocks = block_count(size)
    if others or x.size > FEW or blocks is None or not 1 < inside < WIDE:
        return None
    rows, least = size // blocks, -(-WIDE // inside)
    counts = [n for n in range(least, 2 * least) if same_size(rows % n, 0) and rows > n]
    if not counts:
        return None
    sizes = (blocks, rows // counts[0], counts[0])
    found = reshape(source, (*around, *sizes, *source.shape[axis + 1 :]))
    for part in (axis + 1, axis, axis + 2):
        found = reduce(x.op, found, (part,))
    return reshape(found, x.shape)


# Contractions of few results: each part of what is summed over is one of its own.

MANY = 1 << 21  # products that are worth a second step
PLENTY = 1 << 14  # so many results are work enough for all threads
LENGTH = 1024  # terms of a part: about as many as a core keeps in its cache
LEAST_LENGTH = 256  # fewer would cost as much to add up as to multiply
LEAST_PARTS = 8


def _is_long(x: Node) -> bool:
    terms, results = x.src[0].size, x.size
    if not (0 < results <= PLENTY and terms >= MANY and is_contraction(x)):
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
    axes = _reduced(x)
    if len(axes) != 1:
        return None
    (axis,) = axes
    size = x.src[0].shape[axis]
    count = part_count(size)
    length = size // count
    whole = count * length

    def cut(factor: Node) -> Node:
        first = shrink_axis(factor, axis, 0, whole)
        around, inside = factor.shape[:axis], factor.shape[axis + 1 :]
        return move_axis(reshape(first, (*around, count, length, *inside)), axis, 0)

    def rest(factor: Node) -> Node:
        return shrink_axis(factor, axis, whole, size)

    parts = reduce(x.op, _of_factors(x.src[0], cut), (axis + 1,))
    total = reshape(reduce(x.op, parts, (0,)), x.shape)
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


SPLITS: Final = (
    Rule(  # reduce[a, b, …](x) -> reduce[a](reduce[b, …](x)), for few results of many
        "split_reduce_by_axes",
        Pat(REDUCTIONS, Pat(), name="x", where=_is_large),
        _split_by_axes,
    ),
    Rule(  # reduce[a](x) -> reduce[a₃](reduce[a₁](reduce[a₂](x))), a in a₁ × a₂ × a₃
        # of which a₃ are so few rows that they fill vectors side by side
        "split_reduce_of_narrow_rows",
        Pat(REDUCTIONS, Pat(), name="x", where=_is_large),
        _split_narrow_rows,
    ),
    Rule(  # reduce[a](x) -> reduce[a₁](reduce[a₂](x)), where a is cut into a₁ × a₂
        "split_reduce_by_blocks",
        Pat(REDUCTIONS, Pat(), name="x", where=_is_large),
        _split_by_blocks,
    ),
    Rule(  # sum[k](x·y) -> sum[k₁](sum[k₂](x·y)) + rest, where k is cut in k₁ × k₂
        "split_contraction",
        Pat(reduce_sum_p, Pat(), name="x", where=_is_long),
        _split_contraction,
    ),
)
