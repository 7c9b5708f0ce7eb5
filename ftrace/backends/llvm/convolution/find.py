"""Which kernels are convolutions, and what it costs to evaluate what they read.

Contractions (see `contraction/find.py`) with a window (see `schedule/layout.py`) are
convolutions. The operand that has it is the *image*, the other one is *still*. Windows
slide along columns, along rows, or along what is summed over, where the taps are rows:
the gradient by the filters. Columns may be groups and their places.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from math import gcd, prod

from ftrace import dtypes
from ftrace.backends.llvm.contraction.find import (
    Contraction,
    contiguous_axis,
    plain_form,
    runs_along,
)
from ftrace.backends.llvm.schedule import layout, schedule_tree as tree
from ftrace.backends.llvm.schedule.fill import fill
from ftrace.backends.llvm.schedule.index_facts import Facts, index_of
from ftrace.backends.llvm.schedule.layout import Cut, Panel, Term, Window
from ftrace.backends.llvm.schedule.loop_tiling import RangeTiling, size_of
from ftrace.backends.llvm.target import Target
from ftrace.lower.kernel.affine_index import Index
from ftrace.lower.kernel.ir import (
    INDEX,
    Kernel,
    axis_of,
    load_p,
    make_range,
    product_of,
    range_p,
)
from ftrace.lower.kernel.loop_tree import Statement, reduce_loop
from ftrace.trace.graph import Node, toposort, walk
from ftrace.trace.symbolic import is_dynamic, same_size

#: The numbers that tiles of registers add up.
FLOATS = (dtypes.float32, dtypes.float64)
#: Fewer products are not worth the code. This bounds its size: without it 3×3 taps of
#: 8² pixels of 16 channels, each by itself, are 320 instructions, not 126, and 2→4
#: channels 159, not 96. With 2¹⁸ no row differs, with 2²⁰ five are other loops.
_LEAST_PRODUCTS = 1 << 14
#: So far apart elements are picked from vectors side by side. With 1 strided 16 of
#: 32→64, 28² and its gradient by filters are no convolutions, with 2 or 16 no row
#: differs.
_CLOSE = 4
#: The number of the axis that is the only place of groups.
_PLACE = -1
#: What it takes to evaluate an element of an image, in the time of a tap. With 5 the
#: depthwise rows of 28², 5×5 by 2, and of 56², gradients, are plain loops; with 1.25 or
#: 3.5 no row differs.
_FILL = 2.5
#: Loops over more terms than these are not written out, and take so many times as long.
#: With 8 3×3 taps of three depthwise rows are panels, with 1000 5×5 and 7×7 of three
#: are loops; with 16 no row differs. With 1.0 six rows are loops, with 3.0 none.
_WRITTEN_OUT, _LONG_LOOP = 12, 1.5
#: And so many where an operand lies the other way. With 1.0 3×3 taps of 28² pixels,
#: whose 32 channels are last in images and first in filters, are loops of 3795
#: instructions, and of 2863 for AVX2, not 243 and 276; with 1.5 or 6.0 they are not.
_GATHER = 3.0


def find_windows(
    node: Node,
    columns: Sequence[Node],
    ranges: Sequence[Node],
    facts: Facts,
    saving: bool = True,
) -> list[Window]:
    """The windows in an operand; outer columns first.

    Args:
      saving: only those of which each pixel is in more than one.
    """
    forms = _forms(node, facts)
    if forms is None:
        return []
    found: list[Window] = []
    for column in columns:
        size = axis_of(column).size
        if is_dynamic(size):
            continue
        fitting = [_window(column, r, forms) for r in ranges]
        windows = [w for w in fitting if w is not None and w.taps <= size]
        if saving:
            windows = [w for w in windows if w.share(size) < 1]
        if windows:
            found.append(min(windows, key=lambda w: w.share(size)))
    return found


def _window(column: Node, tap: Node, forms: Sequence[Index]) -> Window | None:
    """How the two go together, if they do so wherever one of them stands."""
    size = axis_of(tap).size
    if is_dynamic(size) or size < 2:
        return None
    ratio: tuple[int, int, bool] | None = None
    for form in forms:
        a, b = form.terms.get(column, 0), form.terms.get(tap, 0)
        if not a and not b:
            continue
        if not a or not b:
            return None
        here = (abs(a) // gcd(a, b), abs(b) // gcd(a, b), a * b < 0)
        if ratio not in (None, here):
            return None
        ratio = here
    return None if ratio is None else Window(column, tap, *ratio)


def _forms(node: Node, facts: Facts) -> list[Index] | None:
    """Every sum of ranges on which an operand depends, if it does so by sums alone."""
    found: list[Index] = []
    for load in walk([node], lambda n: () if n.op is load_p else n.src):
        if load.op is range_p:
            return None
        if load.op is not load_p:
            continue
        found.append(facts.affine[index_of(load)])
        for condition in facts.conditions(load.src[2] if len(load.src) > 2 else None):
            if condition.form is None:
                return None
            found.append(condition.form)
    if any(atom.op is not range_p for form in found for atom in form.terms):
        return None
    return found


# Sums of products.


def is_sum_of_products(kernel: Kernel, plan: Contraction) -> bool:
    """Is it one sum of one product of floats, known in size and not too short?"""
    if kernel.is_dynamic or len(plan.reduces) != 1:
        return False
    (total,), factors = plan.reduces, (*plan.left, *plan.right)
    if len(plan.left) != 1 or len(factors) != 2:
        return False
    if prod(map(size_of, (*kernel.axes, *plan.ranges))) < _LEAST_PRODUCTS:
        return False
    term = product_of(total)
    if term is None or set(term.src) != set(factors) or total.dtype not in FLOATS:
        return False
    return {factor.dtype for factor in factors} == {total.dtype}


def find_depthwise(
    kernel: Kernel, block: Sequence[Statement], facts: Facts
) -> Contraction | None:
    """The kernel as a product of groups of one place, which is an axis of its own.

        out[p, g] = f(the sum over t of left(p + t, g) · right(t, g))
        out[t, g] = f(the sum over p of left(p + t, g) · right(p, g))

    Groups lie side by side in memory, or the pixels do.
    """
    loop, free = reduce_loop(kernel, block), facts.free
    if kernel.is_dynamic or loop is None or len(loop.reduces) > 1:
        return None
    term = product_of(loop.reduces[0])
    if term is None:
        return None
    long = [a for a in kernel.axes if size_of(a) > 1]
    both = [a for a in long if all(a in free[x] for x in term.src)]
    if not both:
        return None
    contiguous = contiguous_axis(kernel, facts)
    groups = contiguous if contiguous in both else both[-1]
    place, axes = make_range(_PLACE, 1, False), [a for a in kernel.axes if a != groups]
    for left, right in (term.src, term.src[::-1]):
        rows = tuple([a for a in axes if a in free[left] and a not in free[right]])
        if rows:
            outer = tuple([a for a in axes if a not in rows])
            return Contraction(
                outer, rows, (groups, place), loop.ranges, (left,), (right,),
                tuple(loop.reduces),
            )  # fmt: skip
    return None


def is_depthwise(plan: Contraction) -> bool:
    """Is it of groups of one place?"""
    return any(axis_of(a).number == _PLACE for a in plan.columns)


def with_groups(
    kernel: Kernel, plan: Contraction, facts: Facts, lanes: int
) -> Contraction | None:
    """The same with columns that are groups and their places, side by side.

        out[p, g, o] = f(the sum over c, t of left(p + t, g, c) · right(g, c, t, o), …)

    A group has too few places for a vector; a vector has a place of many groups.
    """
    if is_depthwise(plan):
        return plan
    (store, *more), (*others, column) = kernel.stores, plan.columns
    both = (*plan.left, *plan.right)
    terms, width = facts.affine[store.index].terms, size_of(column)
    for axis in plan.outer:
        if terms.get(axis) == width and all(axis in facts.free[n] for n in both):
            if more or others or 2 * width > lanes:
                return None
            outer = tuple(a for a in plan.outer if a is not axis)
            return replace(plan, outer=outer, columns=(axis, column))
    return None


def cut_columns(columns: tuple[Node, ...], lanes: int, *most: int) -> Cut:
    """Blocks of whole vectors of columns, which are alike if they can be.

    Of groups it is a vector of them, one place of all after the other; few groups are
    whole, with their places side by side.

    Args:
      most: vectors in a block; what comes later is taken if only so they are alike.
    """
    *groups, last = columns
    if groups and size_of(last) > 1 and 4 * size_of(groups[0]) <= lanes:
        return Cut.whole(columns)
    if groups:
        lanes = min(lanes, 1 << (size_of(groups[0]) - 1).bit_length())
        return Cut((), groups[0], lanes, (last,), (last, groups[0]))
    vectors = -(-size_of(last) // lanes)
    ways = [-(-vectors // each) for each in most]
    blocks = next((n for n in ways if vectors % n == 0), ways[0])
    return Cut.of_first(columns, -(-vectors // blocks) * lanes)


# What it costs to evaluate an operand.


def can_fill(node: Node, column: Node, facts: Facts, lanes: int) -> bool:
    """Is it evaluated in vectors along a column, from elements that are close by?"""
    loads = [n for n in toposort([node]) if n.op is load_p and column in facts.free[n]]
    strides = (facts.stride(index_of(n), column, lanes) for n in loads)
    return all(stride is not None and abs(stride) <= _CLOSE for stride in strides)


def fill_cost(
    node: Node, column: Node, facts: Facts, target: Target, lanes: int
) -> float:
    """Cycles to evaluate an element of an operand that can be filled, in vectors."""
    cost = 0.0
    for n in toposort([node]):
        if n.op is load_p and column in facts.free[n]:
            near = abs(facts.stride(index_of(n), column, lanes) or 0) == 1
            cost += target.costs.fill * (1 if near else 2)
        elif n.dtype is not INDEX and n.src:
            cost += 1.0
    return cost / (size_of(column) / -(-size_of(column) // lanes))


def pays_in_groups(
    plan: Contraction, windows: Sequence[Window], facts: Facts, lanes: int
) -> bool:
    """Is a depthwise convolution quicker with groups as lanes than in plain loops?

    Both do what there is of each tap, in vectors that may be half empty: of groups, or
    of what lies close by in memory. Loops over many terms are not written out, and an
    image has to be filled. Of 16 lanes, in the time of loops (AMD EPYC): 3×3 taps of
    28² pixels with 32 groups, side by side, 1.3; 5×5 0.7, the gradient by them 0.7, of
    7×7 and 384 groups 0.4; pixels side by side, 5×5 by 2 of 14² 0.3, of 3 groups 2, and
    the gradient by the filters of 3 groups, side by side, 1.4.
    """
    (left,), (right,), (groups, _) = plan.left, plan.right, plan.columns

    def lanes_per_element(axis: Node) -> float:
        return -(-size_of(axis) // lanes) * lanes / size_of(axis)

    pixels = windows[-1].column
    close = [a for a in (groups, pixels) if can_fill(left, a, facts, lanes)]
    beside = min(close or [pixels], key=lanes_per_element)
    panels, loops = lanes_per_element(groups), lanes_per_element(beside)
    taps = prod(w.taps for w in windows)
    seen = prod(w.lines(w.pixels) / w.pixels for w in windows)
    loops *= taps if can_fill(right, beside, facts, lanes) else taps * _GATHER
    loops *= _LONG_LOOP if prod(map(size_of, plan.ranges)) > _WRITTEN_OUT else 1.0
    return panels * (taps + _FILL * seen) < loops


# How they run.


def still_operand(
    node: Node, columns: Cut, summed: Cut, lanes: int, facts: Facts, target: Target
) -> Panel | Node:
    """It is read where it stands if vectors of it are side by side, near each other.

    So far apart that they share a set of the first cache they push each other out.
    """
    width, free = layout.whole_vectors(columns, lanes), facts.free[node]
    axis, form = columns.within[0], plain_form(node, facts)
    one = len([r for r in columns.within if size_of(r) > 1]) < 2
    if one and form is not None and runs_along(node, axis, facts):
        steps = [abs(form.terms.get(r, 0)) for r in (*summed.outer, *summed.within)]
        step = min((n for n in steps if n), default=0) * node.dtype.itemsize
        # All columns that tiles read have to be there.
        rests = axis_of(axis).size % width, columns.length % width
        if step < target.l1_way and same_size(rests, (0, 0)):
            return node
    across = Term(columns, 1, columns.order or columns.within)
    parts = Term.of(summed, width, free), across
    high = summed.positions(free)
    return Panel("still", node, high, width, parts, zeros=columns.length)


def slide(
    kernel: Kernel, plan: Contraction, facts: Facts, images: tuple[layout.Image, ...],
    still: Panel | Node, cuts: tuple[Cut, Cut, Cut], places: Sequence[Node | Cut],
    lanes: int, target: Target, tiles: Iterable[tuple[int, int]],
    taps: Sequence[Node] = (), parts: tuple[range, ...] = (),
) -> Iterator[tree.Schedule]:  # fmt: skip
    """Schedules of units that fill operands for each block, over which tiles run.

    Args:
      cuts: the rows, the columns and what is summed over.
      places: what tells units apart.
      tiles: rows and vectors of each, which is made of the last range of the rows.
      taps: those that are rows.
      parts: see `Accumulate`.
    """
    rows, columns, depth = cuts
    pitch, windows = layout.whole_vectors(columns, lanes), Cut.whole(taps)
    stand = Term.of(rows, pitch * windows.length), Term.of(windows, pitch)
    stand = (*stand[: 2 if taps else 1], Term.of(columns, 1))
    high = rows.length * windows.length
    sums = Panel("sums", plan.reduces[0], high, pitch, stand)
    place = columns.within[-1] if columns.order else None
    inside = {*rows.within, *windows.within, *columns.within} - {place}
    all_axes = dict.fromkeys((*kernel.axes, *columns.within))  # also the only place
    axes = tuple(axis for axis in all_axes if axis in inside)
    last, squares = _last_axes_of_stores(
        kernel, plan, columns, inside - {rows.split}, facts
    )
    axes = (*(axis for axis in axes if axis not in last), *last)
    store = tree.StoreResults((sums,), axes, (columns, rows), squares, place)
    panels = (still,) if isinstance(still, Panel) else ()
    fills = [fill(memory, lanes, facts, target) for memory in (*images, *panels)]
    for high, wide in tiles:
        across, down = tree.TiledCut(columns, RangeTiling(lanes, wide), True), None
        if rows.within:
            steps = layout.even_tiles(rows.extents[-1], high)
            down = tree.TiledCut(rows, steps, len(rows.within) == 1)
        add = tree.Accumulate(
            (sums.node,), panels, down, across, depth, (sums,), images=images,
            taps=parts,
        )  # fmt: skip
        unit = (*tree.for_blocks(depth, *fills, add), store)
        unit = (*map(tree.Clear, (sums,) if depth.several else ()), *unit)
        yield tree.Schedule(kernel, lanes, tuple(places), unit)


def _last_axes_of_stores(
    kernel: Kernel, plan: Contraction, columns: Cut, inside: Collection[Node],
    facts: Facts,
) -> tuple[tuple[Node, ...], bool]:  # fmt: skip
    """The last axes over which stores run, and if they are exchanged.

    Sums of groups lie with these side by side. Where results do not, squares of sums
    are transposed; but not what else is read along with results.
    """
    along = contiguous_axis(kernel, facts)
    if along is None or along not in inside:
        return (), False
    if not columns.order or along in columns.within:
        return (), False
    values = [store.value for store in kernel.stores]
    loads = walk(values, lambda n: () if n in plan.reduces else n.src)
    plain = all(
        store.valid is None and facts.affine[store.index].terms.get(along) == 1
        for store in kernel.stores
    )
    if not plain or any(n.op is load_p and along in facts.free[n] for n in loads):
        return (along,), False
    return (columns.within[0], along), True
