"""Kernels in which the answers to questions of position are known.

Short axes and reduces are written out, step by step:

    out[3·i + c] = f(i, c)   c < 3   ->   out[3·i] = f(i, 0); out[3·i + 1] = f(i, 1); …
    out[n·c + i] = x[3·i + c]        ->   out[i] = x[3·i]; out[n + i] = x[3·i + 1]; …

Colours of pixels, coordinates of points, real and imaginary parts: along i the places
are a few apart, and along c there are only those few. As stores and loads over i alone
they make whole vectors, for together they touch all that lies in between: see
`Values.store_group` and `Values.load`.

Reduces over a few elements that lie side by side, or in a window, are written out too:

    out[i] = the sum over c of x[3·i + c]  ->  x[3·i] + x[3·i + 1] + x[3·i + 2]

Lengths of vectors in space, pairs that are added: along i the elements are a few apart,
and all that lies between them is read as well (see above). The order is that of the
loop, and products are added without being rounded. The mean over squares of 2×2 pixels
is such a reduce as well: one of its axes lies side by side.

Windows with borders are written out too, element by element:

    out[i] = the greatest over k of x[2·i + k - 1]  (where that is in x)

What is left of the questions is where a row begins and ends, and there the loops are
cut (see below).

Loops are cut in pieces:

    out[i] = a[i] if i < 100 else b[i - 100]     ->  i < 100:  out[i] = a[i]
                                                     else:     out[i] = b[i - 100]

Concatenations, pads, rolls and stencils ask at each element on which side of a border
it is. Only few borders are there, so that the loops are cut at them, and a border that
is not at the edge of a vector gets a vector of its own, which asks as before.

    boxes      pieces along the outer axes, which threads share
    segments   pieces along the last axis, one after the other in each row
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from math import prod

from ftrace import dtypes
from ftrace.backends.llvm.schedule.index_facts import Facts, facts_of, index_of
from ftrace.backends.llvm.target import Target
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.lower.kernel import affine_index as ix, ir
from ftrace.lower.kernel.loop_tree import Let, Loop, Statement, build_loops
from ftrace.lower.register_loops.scalar_elements import scalar
from ftrace.trace.graph import Node, Op, constant_value, make_node, toposort
from ftrace.trace.primitives import elementwise as p, reduction as red
from ftrace.trace.primitives.sources import const, const_p
from ftrace.trace.symbolic import same_size

#: A longer axis beside it has so many steps, which fill a vector of AVX2. With 4 the
#: greatest of 2×2 of 2000 images of 8² is 154 instructions, and 594 for AVX2, not 62
#: and 63; with 64 six rows of 28² and 56² are not written out.
_LEAST_STEPS = 8
#: What is written out or cut has so many expressions at most: a bound of code. With 400
#: the gradients of the depthwise row of 56² are not cut, and 4 of 30,000 results of 200
#: operations each, transposed, are 476 instructions, not 1297; with more no row
#: differs.
_EXPRESSIONS = 1500
#: And so many with few results: 300 for each of 4 that are 60 operations are 220
#: instructions, with the bound above 786. With 2³⁰ results three rows are not written
#: out, with 2⁸ or 2¹⁶ no row differs.
_EXPRESSIONS_OF_FEW = 200
_FEW_RESULTS = 1 << 12
#: Elements of a window at most, a bound of code: with 49 the greatest of 7×7 by 2 of
#: 512 images of 56² is 2461 instructions, not 151, and 5728 for AVX2; with 4 four rows
#: of 3×3 are not written out, with 9 no row differs.
_MOST_TAPS = 25
#: Results for each of them at least: with fewer of these the loops are not cut at
#: borders, and vectors that ask at each element are slower than gathers. With 256 3×3
#: by 2 of 32 images of 28² is 145 instructions, not 95, with 2¹⁴ no row differs.
_RESULTS_FOR_TAP = 1 << 10
#: The same where vectors read all that one axis of the window skips, and no border:
#: with 64 the mean of 7×7 by 7 is 1679 instructions, not 68, and 10,699 for AVX2; with
#: 2 two rows of 2×2 are not written out, with 4 no row differs.
_MOST_ADJACENT = 16
#: Fewer elements are not worth more code. With 2¹² the borders of two depthwise rows
#: are cut again, with 2¹⁴ those of the greatest of 3×3 by 2 are not.
_LEAST_CUT = 1 << 13
#: Pieces of one axis at most, a bound of time: without it 200 images that are moved by
#: one row more each are made as 419 pieces of 3205 expressions, all of them in vain,
#: not 19. With 4 two rows are not cut, with 10 no row differs.
_PIECES = 40
#: Numbers of the ranges of segments: beyond those of any other range.
_NUMBERS = 1 << 20

# Expressions over others.


def stores_over(
    kernel: ir.Kernel,
    facts: Facts,
    places: Mapping[Node, ix.Index],
    replaced: Callable[[Node, dict[Node, Node]], Node | None] = lambda node, new: None,
) -> tuple[ir.Store, ...]:
    """The stores of a kernel of which some ranges are elsewhere: see `move`.

    Some store nothing any more.

    Args:
      replaced: what a node becomes, given what its sources have become; None for what
        `move` or `rebuild` makes of it.
    """
    new: dict[Node, Node] = {}
    places = dict(places)
    for node in kernel.nodes:
        found = replaced(node, new) or move(node, facts, places)
        new[node] = found or rebuild(node, tuple([new[s] for s in node.src]))
    stores: list[ir.Store] = []
    for store in kernel.stores:
        index, value, *rest = [new[e] for e in store.expressions]
        known = rest[0] if rest and rest[0].op is const_p else None
        if known is None or constant_value(known):
            valid = rest[0] if rest and known is None else None
            stores.append(replace(store, index=index, value=value, valid=valid))
    return tuple(stores)


def move(node: Node, facts: Facts, places: dict[Node, ix.Index]) -> Node | None:
    """A range, a division or a comparison with a constant where ranges have moved.

    None where nothing is left out of it. What is left of a comparison has no common
    factor.

    Args:
      places: where the ranges have moved. Divisions of which nothing is left join them.
    """
    if facts.free[node].isdisjoint(places):
        return None
    if node in facts.affine:
        if node.op is p.div or node.op is p.rem:
            top, bottom = (facts.affine[s].over(places) for s in node.src)
            found = None if bottom.pairs else _divide(node.op, top, bottom.constant)
            if found is not None:
                places[node] = found
        return ix.render_index(places[node]) if node in places else None
    bound = facts.bound_of(node)
    form = bound.form.over(places) if bound is not None else None
    if bound is None or form is None or not ix.is_affine(form):
        return None
    (low, high), limit = ix.bounds(form), bound.limit
    if low >= limit or high < limit:
        return const((high < limit) == bound.below, dtypes.bool_)
    terms = ix.Index(form.pairs, 0)
    factor = terms.common_divisor()
    if factor == 1:
        return None
    least = const(-(-(limit - form.constant) // factor), ir.INDEX)
    index = ix.render_index(ix.divide(terms, factor))
    return (p.lt if bound.below else p.ge)(index, least)


def _divide(op: Op, top: ix.Index, by: int) -> ix.Index | None:
    """A quotient or remainder that is a sum of ranges; it is rounded towards zero."""
    if by < 1 or not ix.is_affine(top):
        return None
    if ix.bounds(top)[0] < 0 and top.common_divisor() % by:
        return None
    found = (ix.divide if op is p.div else ix.remainder)(top, by)
    return found if ix.is_affine(found) else None


def rebuild(node: Node, src: tuple[Node, ...]) -> Node:
    """A node of other sources; what is known of constants is folded."""
    if src == node.src:
        return node
    if node.op is ir.load_p and src[2:] and src[2].op is const_p:
        if not constant_value(src[2]):
            return const(0, node.dtype)
        src = src[:2]
    varies = node.dtype is ir.INDEX and not all(s.op is const_p for s in src)
    if varies or node.op in (ir.load_p, ir.reduce_p):
        return ir.rebuild(node, src)
    return scalar(node, src)


# Written out.


def _most_expressions(kernel: ir.Kernel) -> int:
    """How many expressions of a kernel are worth their code."""
    return _EXPRESSIONS if prod(kernel.shape) > _FEW_RESULTS else _EXPRESSIONS_OF_FEW


def without_short_axes(kernel: ir.Kernel, facts: Facts, target: Target) -> ir.Kernel:
    """The kernel with a short axis written out, if it has one."""
    if kernel.ordered or kernel.is_dynamic or len(kernel.axes) < 2:
        return kernel
    if any(store.combine or store.valid is not None for store in kernel.stores):
        return kernel
    most = target.most_strided
    for axis in reversed(kernel.axes):
        size = ix.size_of(axis)
        if not 2 <= size <= most:
            continue
        own = [n for n in kernel.nodes if axis in facts.free[n]]
        if size * len(own) > _most_expressions(kernel):
            continue
        if any(_takes_turns(kernel, axis, long, facts, most) for long in kernel.axes):
            places = map(ix.constant_index, range(size))
            turns = [stores_over(kernel, facts, {axis: at}) for at in places]
            axes = tuple(a for a in kernel.axes if a is not axis)
            in_turn = tuple(s for turn in zip(*turns, strict=True) for s in turn)
            return replace(kernel, axes=axes, stores=in_turn)
    return kernel


def _takes_turns(
    kernel: ir.Kernel, short: Node, long: Node, facts: Facts, most: int
) -> bool:
    """Do stores or loads over both axes lie side by side, and stores not apart?"""
    if ix.size_of(long) < _LEAST_STEPS:
        return False
    size, found = ix.size_of(short), False
    for store in kernel.stores:
        terms = facts.affine[store.index].terms
        if any(a is not short and short in facts.free[a] for a in terms):
            return False
        step = terms.get(long)
        together = same_size(step, size) and terms.get(short) == 1
        if not together and step != 1:
            return False
        found = found or together
    if any(n.op is ir.reduce_p and short in facts.free[n] for n in kernel.nodes):
        return False
    for node in kernel.nodes:
        if node.op is ir.load_p and not found:
            terms = facts.affine[index_of(node)].terms
            step = terms.get(long, 0)
            found = terms.get(short) == 1 and size <= step <= most
    return found


def without_short_reduces(kernel: ir.Kernel, facts: Facts, target: Target) -> ir.Kernel:
    """The kernel with its reduces over elements side by side written out."""
    reduces = [n for n in kernel.nodes if n.op is ir.reduce_p]
    if not reduces or kernel.ordered or kernel.is_dynamic:
        return kernel
    if any(n.dtype is ir.INDEX for n in reduces):
        return kernel
    total = 0
    for node in reduces:
        value, *short = node.src
        ranges = frozenset(short)
        inside = [n for n in toposort([value]) if facts.free[n] & ranges]
        total += prod(ix.size_of(r) for r in short) * len(inside)
        if any(n.op is ir.reduce_p for n in inside):
            return kernel
        if not _is_adjacent(inside, short, kernel, facts, target):
            return kernel
    if total > _most_expressions(kernel):
        return kernel

    def steps(node: Node, new: dict[Node, Node]) -> Node | None:
        return _combine(node, new, facts, target) if node.op is ir.reduce_p else None

    return replace(kernel, stores=stores_over(kernel, facts, {}, steps))


def _is_adjacent(
    inside: list[Node],
    short: list[Node],
    kernel: ir.Kernel,
    facts: Facts,
    target: Target,
) -> bool:
    """Are the elements of a reduce those that a step of an axis skips, or a window?"""
    taps, most = prod(ix.size_of(r) for r in short), target.most_strided
    if (len(short) == 1 or taps <= _MOST_ADJACENT) and any(
        _runs_within(inside, a, r, facts, most) for a in kernel.axes for r in short
    ):
        return True
    if taps > _MOST_TAPS:
        return False
    if prod(kernel.shape) < _RESULTS_FOR_TAP * max(taps, 8):
        return False
    return any(_moves_in_windows(inside, a, short, facts, most) for a in kernel.axes)


def _moves_in_windows(
    inside: list[Node], long: Node, short: list[Node], facts: Facts, most: int
) -> bool:
    """Do windows with borders move along it?"""
    if ix.size_of(long) < _LEAST_STEPS:
        return False
    for node in inside:
        if node.op is not ir.load_p or len(node.src) < 3:
            continue
        terms = facts.affine[index_of(node)].terms
        if 1 <= terms.get(long, 0) <= most and any(r in terms for r in short):
            return True
    return False


def _runs_within(
    inside: list[Node], long: Node, short: Node, facts: Facts, most: int
) -> bool:
    """Do all loads over a short range run through what one step of an axis skips?"""
    if not 2 <= ix.size_of(short) <= most or ix.size_of(long) < _LEAST_STEPS:
        return False
    forms = [facts.affine[index_of(n)].terms for n in inside if n.op is ir.load_p]
    return bool(forms) and all(
        terms.get(short) == 1 and ix.size_of(short) <= terms.get(long, 0) <= most
        for terms in forms
    )


def _combine(
    reduce: Node, known: dict[Node, Node], facts: Facts, target: Target
) -> Node:
    """The value of a reduce, step by step."""
    value, *short = reduce.src
    ranges = frozenset(short)
    inside = [n for n in toposort([value]) if facts.free[n] & ranges]
    found = const(red.identity_of(str(reduce.arg), reduce.dtype), reduce.dtype)
    fused = target.fma and ir.product_of(reduce) and dtypes.kind(reduce.dtype) == "f"
    for places in product(*(range(ix.size_of(r)) for r in short)):
        new: dict[Node, Node] = {}
        moved = dict(zip(short, map(ix.constant_index, places), strict=True))
        for node in inside:
            src = tuple([new.get(s) or known.get(s, s) for s in node.src])
            new[node] = move(node, facts, moved) or rebuild(node, src)
        if fused:
            factors = [new.get(s) or known.get(s, s) for s in value.src]
            found = make_node(ir.fma_p, reduce.aval, (*factors, found))
        else:
            found = red.COMBINES_BY_NAME[str(reduce.arg)](
                found, new.get(value) or value
            )
    return found


# Cut.


class Segments(NamedTuple):
    """A kernel whose rows are in pieces: `axes` take the place of its last one."""

    kernel: ir.Kernel
    block: list[Statement]
    facts: Facts
    axes: list[Node]


def boxes(kernel: ir.Kernel, target: Target) -> list[ir.Kernel]:
    """The kernel in pieces along the axes that rows stand in; mostly it is one."""
    if not _may_cut(kernel):
        return [kernel]
    outer = kernel.axes[:-1] or kernel.axes
    found = [kernel]
    for number in [ir.axis_of(axis).number for axis in outer]:
        found = [piece for box in found for piece in _cut_box(box, number, target)]
    if len(found) > _PIECES or sum(len(k.nodes) for k in found) > _EXPRESSIONS:
        return [kernel]
    return found


def _cut_box(box: ir.Kernel, number: int, target: Target) -> list[ir.Kernel]:
    axis = next((a for a in box.axes if ir.axis_of(a).number == number), None)
    if axis is None:
        return [box]
    facts = facts_of(box)
    points = _borders(box, axis, facts)
    if len(box.axes) == 1:
        points = _round_to_vectors(points, axis, _lanes(box, target))
    if not points or len(points) >= _PIECES:
        return [box]
    pieces = [_piece(box, axis, a, b, number, facts) for a, b in _between(points, axis)]
    return [piece for piece in pieces if piece.stores]


def segments(kernel: ir.Kernel, facts: Facts, target: Target) -> Segments | None:
    """The kernel with its rows in pieces; None where they have no borders."""
    if len(kernel.axes) < 2 or not _may_cut(kernel):
        return None
    axis = kernel.axes[-1]
    borders = _borders(kernel, axis, facts)
    points = _round_to_vectors(borders, axis, _lanes(kernel, target))
    if not points or len(points) >= _PIECES:
        return None
    pieces = [
        _piece(kernel, axis, a, b, _NUMBERS + n, facts)
        for n, (a, b) in enumerate(_between(points, axis))
    ]
    pieces = [piece for piece in pieces if piece.stores]
    if sum(len(piece.nodes) for piece in pieces) > _EXPRESSIONS:
        return None
    own = [piece.axes[-1] for piece in pieces]
    stores = tuple(store for piece in pieces for store in piece.stores)
    whole = replace(kernel, axes=(*kernel.axes[:-1], *own), stores=stores)
    return Segments(whole, _merge([*map(build_loops, pieces)]), facts_of(whole), own)


def _lanes(kernel: ir.Kernel, target: Target) -> int:
    widest = max(store.value.dtype.itemsize for store in kernel.stores)
    return max(target.vector_bytes // widest, 1)


def _round_to_vectors(points: Sequence[int], axis: Node, lanes: int) -> list[int]:
    """Borders at whole vectors, before and behind those that are not."""
    found: set[int] = set()
    for point in points:
        found |= {point // lanes * lanes, -(-point // lanes) * lanes}
    return sorted(at for at in found if 0 < at < ix.size_of(axis))


def _may_cut(kernel: ir.Kernel) -> bool:
    if kernel.is_dynamic or kernel.ordered or not kernel.axes:
        return False
    if any(store.combine for store in kernel.stores):
        return False
    small = prod(kernel.shape) < _LEAST_CUT
    return not small and not any(n.op is ir.reduce_p for n in kernel.nodes)


def _merge(blocks: Sequence[list[Statement]]) -> list[Statement]:
    """Blocks that have their outer loops in common as one: inside, one by one."""
    result: list[Statement] = []
    for block in blocks:
        last = result[-1] if result else None
        for statement in block:
            if isinstance(statement, Let):
                result.insert(0, statement)
            elif (
                isinstance(statement, Loop)
                and isinstance(last, Loop)
                and last.axis is statement.axis
            ):
                last.body[:] = _merge([last.body, statement.body])
            else:
                result.append(statement)
    return result


# Borders.


def _borders(kernel: ir.Kernel, axis: Node, facts: Facts) -> list[int]:
    """Where on an axis the answer to a question changes, in order.

    None are told where the axis is divided: pieces would begin inside of its tiles.
    """
    found: set[int] = set()
    for node in kernel.nodes:
        if axis not in facts.free[node]:
            continue
        if node.op in (p.div, p.rem) and node.dtype is ir.INDEX:
            return []
        bound = facts.bound_of(node)
        if bound is not None and list(bound.form.terms) == [axis]:
            step, limit = bound.form.terms[axis], bound.limit
            found.add(-(-limit // step) if step > 0 else limit // step + 1)
    return sorted(at for at in found if 0 < at < ix.size_of(axis))


def _between(points: Sequence[int], axis: Node) -> list[tuple[int, int]]:
    ends = [0, *points, ix.size_of(axis)]
    return list(pairwise(ends))


# One piece.


def _piece(
    kernel: ir.Kernel, axis: Node, start: int, stop: int, number: int, facts: Facts
) -> ir.Kernel:
    """The part of a kernel where `start` <= axis < `stop`."""
    if (number, stop - start) == ir.axis_of(axis)[:2]:
        return kernel
    own = ir.make_range(number, stop - start, False)
    single = stop - start == 1 and number < _NUMBERS
    place_of = ix.constant_index(start)
    if not single:
        place_of = ix.index_of_atom(own) + start
    axes = [own if a is axis else a for a in kernel.axes if a is not axis or not single]
    stores = stores_over(kernel, facts, {axis: place_of})
    return replace(kernel, axes=tuple(axes), stores=stores)
