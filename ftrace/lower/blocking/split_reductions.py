"""Long reductions in steps, of which threads share the first: one table, `SPLITS`.

    reduce[a, b](x)  ->  reduce[a₁](reduce[a₂, b](x)), where a is cut in a₁ × a₂

    where                              what is cut                into
    results are few, of many           the first axis             blocks
    … and their rows narrow            the one axis               lines of vectors
    … and other axes long              the first axis             its elements
    few sums of many products          the one axis (split-K)     parts, and a rest
    gradients by few filters           the images                 blocks
    sums over rows that a kernel       all rows                   blocks
    passes over anyway

The first four are rules, for every device; the others, of `needs_cache`, suit threads
and their caches.
Where a reduction is cut depends on sizes alone: it is the same, in every bit, for any
number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from math import prod

from ftrace import dtypes
from ftrace.ground import settings
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.ground.limits import Limits
from ftrace.lower import analysis
from ftrace.trace.avals import Shape
from ftrace.trace.graph import Node, Op, bits_below, rebuild, toposort, views_over
from ftrace.trace.graph_map import exchange
from ftrace.trace.primitives import (
    broadcast as bc,
    elementwise as p,
    movement as mv,
    reduction as red,
)
from ftrace.trace.rewrite import Pat, Rule
from ftrace.trace.symbolic import any_dynamic, same_size


class Split(NamedTuple):
    """How one kind of long reductions is cut.

    Attributes:
      name: by which `config.disabled_rules` switches it off.
      asks: is a reduction of that kind?
      count_blocks: into how many the first axis that it reduces is cut, by its size.
      of: the operations that are cut.
      needs_cache: it is cut for devices with caches, by a decision of `block_sums`;
        if not, for all, by a rule.
      does: what it does, of a decision.
      lines: how many rows of the axis stay side by side, for a third step.
      ahead: in what the first step stores the parts are the first axis.
      rest: what the parts leave over of the axis is reduced apart.
      rows: all axes that are reduced are one axis.
    """

    name: str
    asks: Callable[[Node], bool]
    count_blocks: Callable[[Node, int], int | None]
    of: Collection[Op] = tuple(red.REDUCTIONS)
    needs_cache: bool = False
    does: str = ""
    lines: Callable[[Node, int], int] = lambda x, size: 1
    ahead: bool = False
    rest: bool = False
    rows: bool = False

    def cut(self, x: Node) -> Node | None:
        """The reduction in steps; None where it is not of that kind."""
        axes = analysis.reduced_axes(x)
        if x.op not in self.of or not axes or not self.asks(x):
            return None
        shape = x.src[0].shape
        if self.rows:
            shape, axes = (prod(shape[a] for a in axes), x.size), [0]
        axis, *others = axes
        size, lines = shape[axis], self.lines(x, shape[axis])
        parts = lines and self.count_blocks(x, size // lines)
        if not parts:
            return None
        whole = size // lines // parts * parts * lines if self.rest else size
        sizes = (parts, whole // lines // parts, lines)

        def in_parts(factor: Node) -> Node:
            first = mv.shrink_axis(mv.reshape(factor, shape), axis, 0, whole)
            cut = (*shape[:axis], *sizes, *shape[axis + 1 :])
            return mv.move_axis(mv.reshape(first, cut), axis, 0 if self.ahead else axis)

        def rest(factor: Node) -> Node:
            return mv.shrink_axis(factor, axis, whole, size)

        # Partial sums of halves are not rounded.
        half = x.dtype.itemsize == 2 and dtypes.is_float(x.dtype)
        source = x.src[0]
        if half and x.op is bc.reduce_sum_p and not analysis.is_contraction(x):
            source = p.cast(source, dtypes.float32)
        found = _of_factors(x, source, in_parts)
        inner = (axis + 1, *[a + 2 for a in others])
        long = [a for a in inner if not same_size(found.shape[a], 1)]
        found = red.reduce(x.op, found, tuple(long))
        found = red.reduce(x.op, found, (0 if self.ahead else axis,))
        if lines > 1:
            found = red.reduce(x.op, found, (axis + 2,))
        found = mv.reshape(found, x.shape)
        found = found if found.dtype == x.dtype else p.cast(found, x.dtype)
        if same_size(whole, size):
            return found
        return p.add(found, red.reduce(x.op, _of_factors(x, source, rest), (axis,)))


def _of_factors(x: Node, source: Node, change: Callable[[Node], Node]) -> Node:
    """What is reduced, changed; of a contraction its factors are, before any cast."""
    if not analysis.is_contraction(x):
        return change(source)
    if source.op is p.cast_p:
        return p.cast(_of_factors(x, source.src[0], change), source.dtype)
    return source.op(*map(change, source.src))


def divisor_near(
    about: float, least: int, most: int, size: int, fits: Callable[[int], bool] = bool
) -> int | None:
    """A divisor of a size between two numbers, as near to the wished one as may be."""
    found = [n for n in range(least, most + 1) if same_size(size % n, 0) and fits(n)]
    return min(found, key=lambda n: max(n / about, about / n), default=None)


# What is asked of a reduction, and into how many parts its axis is cut.

#: Elements per result: from here on a reduce is split. With 2¹⁸ the sum of 131,072 and
#: the gradient of a bias (CNN medium) are one kernel; with 2¹⁴ that of CNN small is
#: two.
LARGE_REDUCE = 1 << 16
#: More results keep a machine busy by themselves. With 2¹⁰ or 2¹⁴ no row differs, with
#: 64 sums of (1000, 100, 784) over the first and the last axis are one kernel.
SMALL = 1 << 12
#: So few results that an axis is cut into blocks. With 256 the parts of the sum of 16M
#: are cut again, into 8 KB, not 1; with 16 the sums of 64 rows of 2¹⁸ are one kernel.
FEW_RESULTS = 64
# Bytes of rows side by side: sums of four vectors, which registers hold. Of 3M rows of
# three float64 lines of 72 took 5 times as long as those of 24 (AMD EPYC).
LINE = 256
#: Elements that one result of the first step takes at least. With 256 the sum of (2¹⁸,
#: 64) is two kernels, not three; with 16 no row differs. With 2048 sums of (256, 128,
#: 28, 28) but over the channels are one kernel, which takes several times as long.
WIDE = 64
#: Elements that are worth a step of their own, where blocks are possible. With 4096 the
#: gradient of a bias of (64, 64, 56, 56) stores 2 KB, not 17; with 512 no row differs.
LONG = 2048
#: How many parts an axis is cut into, of all results, and of each one. With 4 times as
#: many the sum of 16M stores 4 KB, not 1, and those of 64 rows of 2¹⁸ 8 KB, not 2.
BLOCKS = (64, 1024)
FEWEST = (4, 16)


def _is_large(x: Node, most: int = SMALL) -> bool:
    enough = 0 < x.size <= most and x.src[0].size >= LARGE_REDUCE * x.size
    return enough and not analysis.is_contraction(x)


def _has_few_results(x: Node) -> bool:
    return _is_large(x, FEW_RESULTS) and _inner_length(x) < LONG


def _has_long_rows(x: Node) -> bool:
    return _is_large(x) and _inner_length(x) >= WIDE


def _inner_length(x: Node) -> int:
    return prod(x.src[0].shape[a] for a in analysis.reduced_axes(x)[1:])


def _has_narrow_rows(x: Node) -> bool:
    return (
        _is_large(x, FEW_RESULTS)
        and len(analysis.reduced_axes(x)) == 1
        and _row_size(x) > 1
    )


def _row_size(x: Node) -> int:
    return prod(x.shape[analysis.reduced_axes(x)[0] :])


def _rows_of_a_line(x: Node, size: int) -> int:
    most = LINE // (_row_size(x) * x.dtype.itemsize)
    counts = range(most, max(most // 2, 1), -1)
    return next((n for n in counts if same_size(size % n, 0)), 0)


def _blocks(x: Node, size: int) -> int | None:
    """A divisor near the middle of BLOCKS; those of all results keep threads busy."""
    low, high = (max(n // x.size, f) for n, f in zip(BLOCKS, FEWEST, strict=True))
    return _divisor_between(low, high, size)


def _divisor_between(low: int, high: int, size: int) -> int | None:
    return divisor_near((low * high) ** 0.5, low, high, size, lambda n: n < size)


def _blocks_of_lines(x: Node, size: int) -> int | None:
    return _divisor_between(*BLOCKS, size)


def _each(x: Node, size: int) -> int:
    return size


# Contractions of few results: each part of what is summed over is one of its own.

#: Products that are worth a second step. With 2²³ 65,536 terms of 8×8 are one kernel,
#: with 2¹⁹ the gaussian kernel 4096² has one more.
MANY = 1 << 21
#: So many results are work enough for all threads: with 2¹² 8192 terms of 128×128 are
#: one kernel, with 2¹⁶ no row differs.
PLENTY = 1 << 14
#: Terms of a part: about as many as a core keeps in its cache. With 4096 2¹⁸ terms of
#: 128×64 store 2 MB, not 8, with 256 34.
LENGTH = 1024
#: Parts at least. With 32 causal attention 1×8×2048×64 is four kernels, not five; with
#: 2 the second step of 65,536 terms of 8×8 is cut again.
LEAST_BLOCKS = 8


def _is_long_contraction(x: Node) -> bool:
    terms, results = x.src[0].size, x.size
    if not (0 < results <= PLENTY and terms >= MANY and analysis.is_contraction(x)):
        return False
    length = terms // results
    long = length >= max(LONG, results // 4)
    return long and len(analysis.reduced_axes(x)) == 1


def _blocks_in_cache(x: Node, size: int) -> int:
    about = min(max(size // LENGTH, LEAST_BLOCKS), BLOCKS[1])
    least = max(about * 2 // 3, LEAST_BLOCKS)
    return divisor_near(about, least, about * 4 // 3, size) or about


# Gradients by few filters, added up in parts that threads can share.
#
#     w[t, o] = the sum over i, p of       part[b, t, o] = the sum over i of block b, p
#               x[i, p + t]·y[i, p, o]  ->                 of x[i, p + t]·y[i, p, o]
#                                          w[t, o] = the sum over b of part[b, t, o]
#
# A few filters are one short block of sums, and the sums run over all images.

#: Elements of a result at most: more are enough work for all threads as they are. With
#: 2¹⁷ one strided convolution is cut that is not a gradient, without it most are; with
#: 2¹³ six gradients of 32 filters or more are not.
_FEW_FILTERS = 1 << 15
#: Products at least. With 2²⁵ 8 images of 32 × 4→4, 28², are not cut; with 2²¹ CNN
#: small stores 5 KB more.
_MANY_PRODUCTS = 1 << 23
#: How many blocks of images there are. With at most 4 or 16 the gradients by filters
#: 32→64 of 16 and 32 images are cut otherwise; with at least 1 or 4 no row differs.
_IMAGE_BLOCKS = (2, 8)


def _is_by_few_filters(x: Node) -> bool:
    source = x.src[0]
    few = x.size <= _FEW_FILTERS and source.size >= _MANY_PRODUCTS
    wide = dtypes.kind(x.dtype) == "f" and x.dtype.itemsize >= 4
    large = few and wide and analysis.is_contraction(x)
    return large and any(map(_has_windows, source.src))


def _image_blocks(x: Node, size: int) -> int | None:
    low, high = _IMAGE_BLOCKS
    return divisor_near(high, low, high, size)


def _has_windows(node: Node) -> bool:
    """Does a window slide over what is only moved?"""
    return any(view.op is mv.shear_p for view in views_over(node))


# Sums over rows, added up by kernels that pass over these rows anyway.
#
#     y[i, j] = f(x[i, j], …)              part[b, j] = the sum of g(x[i, j], …)
#     s[j] = the sum over i of             over block b of rows i,
#            g(x[i, j], …)             ->  by the kernel of y: it reads x once
#                                          s[j] = the sum over b of part[b, j]
#
# The gradient of a layer's scale and shift is such a sum, beside that of its input.
# Here the sum is cut in two; `fusion/merge_policy.py` gives the first half to the
# other kernel, if there is one that may run then.

#: Bytes of a row of sums: it stays in the first cache, and is not too short. With 4
#: times as many or a quarter no row differs; without bounds the gradient of a layer
#: norm of 4096×1024 is three kernels, not two, and stores 51 MB, not 17.
_SUMS_BYTES = (256, 16 << 10)
#: Rows of a block, about: with 256 that gradient stores 0.4 MB less, with 16 1.6 more.
_ROWS = 64
#: How many blocks there are: enough for all threads. With 4 times as many or a quarter
#: no row differs.
_ROW_BLOCKS = (16, 1024)


def _is_beyond_cache(x: Node, limits: Limits) -> bool:
    """Elements that come from a cache anyway are no reason."""
    return x.src[0].size * x.src[0].dtype.itemsize >= limits.cache


def _adds_rows(x: Node, columns: int) -> bool:
    """Is it a sum of numbers that a kernel can add up, in a row of so many columns?"""
    low, high = _SUMS_BYTES
    return (
        x.op is bc.reduce_sum_p
        and dtypes.kind(x.dtype) in "fiu"
        and low <= columns * x.dtype.itemsize <= high
        and not analysis.is_contraction(x)
    )


def _is_over_rows(x: Node) -> bool:
    axes = analysis.reduced_axes(x)
    shape = x.src[0].shape
    kept = [a for a, n in enumerate(shape) if not same_size(n, 1) and a not in axes]
    return bool(kept) and axes[-1] < kept[0] and _adds_rows(x, x.size)


def _row_blocks(x: Node, rows: int) -> int | None:
    """How many blocks of about `_ROWS` rows there are in the loops over them."""
    loops = tuple(x.src[0].shape[a] for a in analysis.reduced_axes(x))
    low, high = _ROW_BLOCKS
    about = min(max(rows // _ROWS, low), high)
    return divisor_near(
        about, max(low, about // 4), min(high, rows // 2, about * 4), rows,
        lambda n: _are_inner_loops((rows // n, 1), loops),
    )  # fmt: skip


def _with_company(
    wanted: Collection[Node], order: Sequence[Node], outputs: Sequence[Node]
) -> set[Node]:
    """Those of whose elements another value is made that does not wait for them."""
    number = {node: 1 << k for k, node in enumerate(wanted)}
    after = bits_below(order, number)  # the sums that a value is made of
    stored = _large_stored(order, outputs, {n.src[0].size for n in wanted})
    shared = analysis.find_shared_dear(order)
    stored += [e for e in map(analysis.elements_of_sum, wanted) if e in shared]
    elements = {root: _elements_of(root) for root in stored}
    found: set[Node] = set()
    for node in wanted:
        mine = _elements_of(node.src[0])
        if any(map(analysis.is_contraction, mine)):
            continue  # the product's kernel has no such loops
        for root, theirs in elements.items():
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
        if family not in (*analysis.ELEMENTWISE, "movement", "reduction", "source"):
            stored.update(dict.fromkeys(map(_beneath, node.src)))
        elif analysis.is_contraction(node):
            for factor in node.src[0].src:
                stored[_beneath(factor)] = None
    found = [n for n in stored if n.op.family in analysis.ELEMENTWISE]
    return [n for n in found if n.size in sizes]


def _beneath(node: Node) -> Node:
    *_, source = views_over(node)
    return source


def _elements_of(root: Node) -> set[Node]:
    """The arrays that a value is made of, element by element, and the value itself."""

    def below(node: Node) -> list[Node]:
        if node.op.family not in analysis.ELEMENTWISE and node.op not in (
            bc.expand_p,
            mv.reshape_p,
        ):
            return []
        return [s for s in node.src if same_size(s.size, root.size)]

    near = analysis.nodes_near(root, analysis.NEAR, below)
    return {n for n in near if n.op not in (bc.expand_p, mv.reshape_p)}


# The table.

#: In this order; what is added up after the first step is a kernel of its own. The
#: figures: float32 but where another dtype is named, two cores of an AMD EPYC with
#: AVX-512, how many times as fast as with the row switched off.
SPLITS: tuple[Split, ...] = (
    # reduce[a](x) -> reduce(reduce[a₁](reduce[a₂](x))), by lines of narrow rows
    # 1.4 to 2 for rows of 2 and 3, 8 for bfloat16 and 20 for int8; 1 from rows of 16 on
    Split(
        "split_reduce_of_narrow_rows", _has_narrow_rows, _blocks_of_lines,
        lines=_rows_of_a_line,
    ),
    # reduce[a, b](x) -> reduce[a₁](reduce[a₂, b](x)), where results are few
    # A sum of 16M: 1, one core is as fast as memory; it is for machines of more cores.
    Split("split_reduce_by_blocks", _has_few_results, _blocks),
    # reduce[a, b](x) -> reduce[a](reduce[b](x)), where b is long
    # The greatest of (64, 8, 8, 4096) along the first and the last axis: 1.5 to 2.3.
    Split("split_reduce_by_axes", _has_long_rows, _each),
    # sum[a](x·y) -> sum[a₁](sum[a₂](x·y)) + sum[the rest of a](x·y), of few results
    # (4, 1M) @ (1M, 4): 2; (64, 100000) @ (100000, 64): 1 to 1.5.
    Split(
        "split_contraction", _is_long_contraction, _blocks_in_cache, (bc.reduce_sum_p,),
        ahead=True, rest=True,
    ),
    # 32 filters of 3×3 over 64 images of 28×28: 1.9; of 32 channels each its own: 1.
    Split(
        "split_filter_gradients", _is_by_few_filters, _image_blocks, (bc.reduce_sum_p,),
        needs_cache=True, ahead=True,
        does="gradients by few filters are added up in blocks of images",
    ),
    # The gradient of a layer norm of 4096×1024: 2.
    Split(
        "fuse_sums_over_rows", _is_over_rows, _row_blocks, (bc.reduce_sum_p,),
        needs_cache=True, rows=True,
        does="a sum over rows is added up where these rows are passed over",
    ),
)  # fmt: skip
RULES = tuple(
    Rule(how.name, Pat(how.of, Pat(), name="x"), how.cut)
    for how in SPLITS if not how.needs_cache
)  # fmt: skip
_OF_CACHES = {how.name: how for how in SPLITS if how.needs_cache}
#: What `config.disabled_rules` can switch off here, besides the rules.
DECISIONS = {name: how.does for name, how in _OF_CACHES.items()}


def block_sums(outputs: Sequence[Node], limits: Limits) -> Sequence[Node]:
    """The outputs with sums in two steps, where threads or kernels share the first."""
    order = toposort(outputs)
    sums = [
        n for n in order if n.op is bc.reduce_sum_p and not any_dynamic(n.src[0].shape)
    ]
    chosen: dict[Node, Split] = {}
    for name, how in _OF_CACHES.items():
        wanted = [n for n in sums if how.cut(n)] if settings.decides(name) else ()
        if how.rows:
            wanted = [n for n in wanted if _is_beyond_cache(n, limits)]
            wanted = _with_company(wanted, order, outputs) if wanted else ()
        chosen |= dict.fromkeys(wanted, how)

    def change(node: Node, src: tuple[Node, ...]) -> Node | None:
        how = chosen.get(node)
        return None if how is None else how.cut(rebuild(node, src))

    return exchange(outputs, change) if chosen else outputs


# For the fusion plan.


def kernels_add_up(limits: Limits) -> Callable[[Node, Shape], bool] | None:
    """Tells whether a kernel over loops may add up the elements of a sum.

    None where no kernel does that.
    """
    does = limits.cache and settings.decides("fuse_sums_over_rows")
    return partial(_adds_up, limits) if does else None


def _adds_up(limits: Limits, x: Node, loops: Shape) -> bool:
    """Threads share the blocks: there must be many. Rows and columns must be loops."""
    if x.op is not bc.reduce_sum_p:
        return False
    shape, axes = x.src[0].shape, analysis.reduced_axes(x)
    if any_dynamic((*shape, *loops)) or not same_size(x.src[0].size, prod(loops)):
        return False
    if len(axes) != 1 or prod(shape[: axes[0]]) < _ROW_BLOCKS[0]:
        return False
    columns = prod(shape[axes[0] + 1 :])
    of_rows = _adds_rows(x, columns) and _is_beyond_cache(x, limits)
    return of_rows and _are_inner_loops((shape[axes[0]], columns), loops)


def _are_inner_loops(sizes: Shape, loops: Shape) -> bool:
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
