"""Running reductions as kernels: each element combined with all before it.

    cumulate, recurrence  ->  register_loop(scan)      `by_kernels`

The derivative of a running maximum or minimum is made of kernels where no elements tie:

    y = cummax(x); ȳ -> x̄        an element that is the maximum for a while gets the
                                 cotangents of that while, and the others get zero

    y     = running maximum of x
    tied  = x[i] == y[i-1] somewhere, or NaN
    x̄     = select(x == y, sums of ȳ up to the next element with x == y, 0)     not tied
            the host's walk over pairs, which divides shares as JAX does            tied

The sums run backwards over (does a new maximum come next?, cotangent).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import prod
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.ground import settings
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.lower.kernel import ir
from ftrace.lower.register_loops import register_loop as rl
from ftrace.trace.avals import Shape
from ftrace.trace.body import close
from ftrace.trace.control.conditional import Branches, cond_p
from ftrace.trace.graph import Node
from ftrace.trace.primitives import elementwise as p, reduction as red, sources
from ftrace.trace.primitives.library import scan
from ftrace.trace.primitives.movement import reshape, shift_axis
from ftrace.trace.primitives.primitive import items
from ftrace.trace.symbolic import same_size

#: What `config.disabled_rules` can switch off here.
DECISIONS = {
    "native_scan": "a running reduction becomes a kernel, not a host call",
    "blocked_scan": "long rows are cut in blocks, of which threads run several",
    "native_extremum_tangent": "a running extremum without ties has its derivative "
    "from kernels, not from the host",
}


class Operator(NamedTuple):
    """An associative function of two tuples of scalars.

    Attributes:
      combine: of the left and the right operand.
      wide: the dtype in which it is computed, for operands of a dtype.
      start: what is the left operand of the first element of each row.
    """

    combine: Callable[[Sequence[Node], Sequence[Node]], Sequence[Node]]
    wide: Callable[[np.dtype[Any]], np.dtype[Any]] = scan.wide_dtype
    start: float | None = None


def run_along(
    node: Node,
    operands: Sequence[Node],
    operator: Operator,
    axis: int,
    reverse: bool,
    *,
    name: str = "",
    shape: Shape = (),
    starts: Sequence[Node] = (),
) -> Node:
    """The running combinations of the last of some arrays of one shape, by a kernel.

    Args:
      node: the operation that the kernel does, or a part of it.
      operands: the arrays.
      operator: what combines their elements.
      axis: along which.
      reverse: from the last to the first.
      name: for people; else it is that of the operation.
      shape: the one that they are taken to have, if it is another.
      starts: for each array what comes before each row, wide; none for nothing.
    """
    shape = shape or operands[0].shape
    wide = [operator.wide(x.dtype) for x in operands]
    count, result, none = len(operands), operands[-1], sources.const(0, ir.INDEX)
    place = ir.make_range(0, prod(shape), False)
    numbers = [rl.FIRST_REGISTER + n for n in range(2 * count)]
    right, left = (
        [ir.load(ir.param(n, d, 1), none) for n, d in zip(part, wide, strict=True)]
        for part in (numbers[:count], numbers[count:])
    )
    elements = [
        p.cast(ir.load(ir.param(1 + k, x.dtype, x.size), place), wide[k])
        for k, x in enumerate(operands)
    ]
    stored = p.cast(left[-1], result.dtype)
    parts = (
        [ir.Store(n, none, x) for n, x in zip(numbers[:count], elements, strict=True)],
        [
            ir.Store(n, none, x)
            for n, x in zip(numbers[count:], operator.combine(left, right), strict=True)
        ],
        [ir.Store(0, place, stored)],
    )
    loaded, results = [*operands, *starts], [result.aval]
    kernel = rl.Recurrence(
        (place,), (), rl.buffers_of(results, loaded),
        block=tuple(rl.Assign(tuple(stores)) for stores in parts),
        registers=tuple(ir.BufferSpec(d, 1, True) for d in wide * 2),
        scan=rl.Scan(
            prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :]), reverse,
            bool(starts), operator.start,
        ),
    )  # fmt: skip
    return rl.kernel_step(kernel, kernel.operations, node, loaded, results, name)[0]


# The rule.


def by_kernels(node: Node, read: Collection[int]) -> Sequence[Node] | None:
    """The kernel of a running reduction; None where the host is asked."""
    operator = OPERATORS[node.op](node)
    if operator is None:
        return None
    arg, blocks = node.arg, _blocks_of(node)
    if blocks:
        return [_in_blocks(node, operator, blocks)]
    return [run_along(node, node.src, operator, arg.axis, arg.reverse)]


# Long rows: what each block comes to, what comes before each, and then the blocks.

#: So few rows leave threads idle (one of 1M: 1.7 times as fast in blocks, on two). With
#: 64 20 rows of 2¹⁸ are four kernels, not one, with 4 8 rows are one.
_FEW_ROWS = 16
#: Rows of so many elements are worth two passes. With 2¹⁹ one of 2¹⁸ is one kernel;
#: with 2¹⁵ no row differs.
_LONG = 1 << 17
#: Into so many blocks they are cut, about: 4 times as many store 1 KB more, not 0.3.
_BLOCKS = (16, 64, 256)
#: Each block has whole vectors, if it can: else 10M elements, as 64 blocks, are not
#: stored by non-temporal stores. With 16 or 256 no row differs.
_WIDTH = 64


def _blocks_of(node: Node) -> int:
    """Into how many blocks each row is cut; 0 if it stays as it is."""
    if node.op is not scan.cumulate_p or node.arg.kind not in red.BY_NAME:
        return 0
    if not settings.decides("blocked_scan"):
        return 0
    x = node.src[0]
    axis: int = node.arg.axis
    size = x.shape[axis]
    if size < _LONG or prod(x.shape[:axis]) >= _FEW_ROWS or x.size // size >= _FEW_ROWS:
        return 0
    if dtypes.kind(x.dtype) not in "fiu" or prod(x.shape[axis + 1 :]) > 1:
        return 0
    low, best, high = _BLOCKS
    counts = [n for n in range(low, high + 1) if same_size(size % n, 0)]
    counts = [n for n in counts if same_size(size // n % _WIDTH, 0)] or counts
    return min(counts, key=lambda n: max(n / best, best / n), default=0)


def _in_blocks(node: Node, operator: Operator, blocks: int) -> Node:
    (x,), arg = node.src, node.arg
    kind: str = arg.kind
    axis: int = arg.axis
    reverse: bool = arg.reverse
    rows, size = prod(x.shape[:axis]), x.shape[axis] // blocks
    wide = p.cast(reshape(x, (rows, blocks, size)), operator.wide(x.dtype))
    whole = red.BY_NAME[kind]
    totals = reshape(red.reduce(whole, wide, (2,)), (rows, blocks))
    own = Operator(operator.combine, as_it_is)
    sums = run_along(node, [totals], own, 1, reverse)
    first = blocks - 1 if reverse else 0
    place = sources.iota(dtypes.int32, totals.shape, 1)
    nothing = red.identity_like(whole, totals)
    moved = shift_axis(sums, 1, -1 if reverse else 1)
    before = p.select(p.eq(place, sources.const_like(place, first)), nothing, moved)
    shape = (rows * blocks, size)
    begun = Operator(operator.combine, operator.wide)  # with +0, or sums that did
    return run_along(node, [x], begun, 1, reverse, shape=shape, starts=[before])


def _cumulate(node: Node) -> Operator | None:
    kind: str = node.arg.kind
    if dtypes.is_complex(node.src[0].dtype) and kind not in ("sum", "prod"):
        return None  # complex numbers are compared by the host
    apply = _KINDS[kind]

    def combine(left: Sequence[Node], right: Sequence[Node]) -> Sequence[Node]:
        return [apply(left[0], right[0])]

    if kind in scan.EXTREMA:
        return Operator(combine, as_it_is)
    # A sum begins with +0: that of nothing but -0 is +0.
    starts = kind == "sum" and dtypes.is_inexact(node.src[0].dtype)
    return Operator(combine, start=0.0 if starts else None)


def as_it_is(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """For operators that need no wider numbers."""
    return dtype


def _log_sum(a: Node, b: Node) -> Node:
    """log(eᵃ + eᵇ): the greater one, and what the other adds to it."""
    high, low = p.maximum(a, b), p.minimum(a, b)
    infinite = p.eq(
        p.absolute(high), sources.const_like(high, np.inf)
    )  # of two -inf, say
    gap = p.select(infinite, sources.const_like(high, 0), p.sub(low, high))
    return p.select(infinite, high, p.add(high, p.log1p(p.exp(gap))))


_KINDS: dict[str, Callable[[Node, Node], Node]] = {
    "sum": p.add, "prod": p.mul, "max": p.maximum, "min": p.minimum,
    "logsumexp": _log_sum,
}  # fmt: skip


def _two_steps(left: Sequence[Node], right: Sequence[Node]) -> Sequence[Node]:
    """y -> a·y + b, followed by another such step, is one such step."""
    (a, b), (c, d) = left, right
    return [p.mul(a, c), p.add(p.mul(c, b), d)]


OPERATORS: dict[Any, Callable[[Node], Operator | None]] = {
    scan.cumulate_p: _cumulate,
    scan.recurrence_p: lambda node: Operator(_two_steps),
}


# The derivative of a running maximum or minimum.

#: Fewer elements are not worth several kernels; 1M take a 27th of the host's time. With
#: 2¹⁴ 100×100 are the host's, with 2¹⁰ no row differs, with 0 64 take six kernels.
_LEAST_ELEMENTS = 1 << 12


def tangent_by_kernels(node: Node, read: Collection[int]) -> Node | None:
    """A choice between kernels and the host; None: it is the host's."""
    (x, t), arg = node.src, node.arg
    if arg.ties or x.size < _LEAST_ELEMENTS:
        return None
    if not (dtypes.is_float(x.dtype) and dtypes.is_float(t.dtype)):
        return None
    run = scan.Running(arg.kind, arg.axis, arg.reverse)
    cumulated = scan.cumulate_p(x, arg=run)
    y = (by_kernels(cumulated, ()) or items(cumulated))[0]
    operands = [x, y, t]
    names = sources.stand_ins(operands, "operator")
    kernels = (_collect if arg.transposed else _hand_on)(node, names)
    by_host = scan.extremum_tangent_p.results(
        names[0], names[2], arg=arg._replace(ties=True)
    )
    bodies = (close(names, [kernels]), close(names, by_host))
    return cond_p(_is_tied(x, y, arg), *operands, arg=Branches(bodies))


def _is_tied(x: Node, y: Node, arg: scan.Share) -> Node:
    """1 if an element equals the extremum of those before it, or is NaN; else 0."""
    place = sources.iota(dtypes.int32, x.shape, arg.axis)
    first = x.shape[arg.axis] - 1 if arg.reverse else 0
    later = p.ne(place, sources.const_like(place, first))
    same = p.bit_and(p.eq(x, shift_axis(y, arg.axis, -1 if arg.reverse else 1)), later)
    tied = p.cast(p.bit_or(same, p.ne(x, x)), np.dtype(np.int32))
    return reshape(red.reduce(red.reduce_max_p, tied, tuple(range(x.ndim))), ())


def _hand_on(node: Node, names: Sequence[Node]) -> Node:
    """The tangents of the elements that are the extrema."""
    x, _, t = names
    arg: scan.Share = node.arg
    before = p.gt if arg.kind == "max" else p.lt

    def combine(left: Sequence[Node], right: Sequence[Node]) -> Sequence[Node]:
        (a, s), (b, u) = left, right
        first = before(a, b)
        return [p.select(first, a, b), p.select(first, s, u)]

    operator = Operator(combine, as_it_is)
    return run_along(node, [x, t], operator, arg.axis, arg.reverse)


def _collect(node: Node, names: Sequence[Node]) -> Node:
    """The cotangents added up at the elements from which the extrema came."""
    x, y, t = names
    arg: scan.Share = node.arg
    here = p.eq(x, y)
    new = p.cast(here, np.dtype(np.uint8))
    ends = shift_axis(new, arg.axis, 1 if arg.reverse else -1)

    def combine(left: Sequence[Node], right: Sequence[Node]) -> Sequence[Node]:
        (behind, s), (end, u) = left, right
        ended = p.ne(end, sources.const_like(end, 0))
        return [p.maximum(behind, end), p.select(ended, u, p.add(s, u))]

    sums = run_along(
        node, [ends, t], Operator(combine), arg.axis, not arg.reverse,
        name="extremum_cotangent",
    )  # fmt: skip
    return p.select(here, sums, sources.zeros_like(sums))
