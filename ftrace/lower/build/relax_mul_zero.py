"""Products of derivatives that need not look for zeros beside infinity.

`mul_zero(x, y)` is x·y, and zero where either is zero, even beside infinity and NaN.
Most factors are known to be finite there: tanh(a) is, unless a is NaN, and then the
other factor is NaN too and not zero. What is left to be asked is asked:

    mul_zero(x, y)  ->  x·y                       finite each where the other is zero
                    ->  select(y == 0, 0, x·y)    only y has to be looked at

For every expression of a kernel: an interval that holds it unless it is NaN, what
makes it NaN, and what is known where it is zero.
"""

from __future__ import annotations

import math
from typing import Final

from ftrace import dtypes
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.lower.kernel.ir import Kernel, load_p, rebuild, reduce_p
from ftrace.trace.graph import Node, constant_value, inherited_origin, make_node
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.primitive import Primitive
from ftrace.trace.primitives.ranges import ANYTHING, Interval, multiply
from ftrace.trace.primitives.sources import const_p, zeros_like

#: What `config.disabled_rules` can switch off here.
DECISIONS = {
    "relax_mul_zero": "a derivative's product looks for zeros only beside infinity"
}

#: Beyond it an interval is taken to reach infinity: rounding could carry it there.
_LARGEST: Final = {1: 1e2, 2: 1e4, 4: 1e37, 8: 1e300}
#: How many causes of NaN are told apart: a bound of time. With 1 the gradient of
#: swish·tanh differs, with 2 or 32 no row.
_CAUSES = 8


class Known(NamedTuple):
    """What is known of an expression.

    Attributes:
      range: where it is, unless it is NaN.
      nan: nodes of which one is NaN wherever this is; None: it may be NaN by itself.
      carried: nodes that make this NaN wherever they are.
      zeros: nodes that are finite wherever this is zero.
    """

    range: Interval
    nan: frozenset[Node] | None
    carried: frozenset[Node]
    zeros: frozenset[Node]


_NOTHING: Final[frozenset[Node]] = frozenset()


def relax_mul_zero(kernel: Kernel) -> dict[Node, Node]:
    """What expressions become with every `mul_zero` as plain as the facts allow.

    Linear in them. Nothing where there is none of floats.
    """
    nodes = kernel.nodes
    if not any(n.op is p.mul_zero and dtypes.is_float(n.dtype) for n in nodes):
        return {}
    new: dict[Node, Node] = {}
    known: dict[Node, Known] = {}
    with inherited_origin() as take:
        for node in nodes:
            src = tuple([new[s] for s in node.src])
            if src != node.src:
                take(node)
            made = rebuild(node, src)
            if dtypes.is_float(node.dtype) and node.shape == ():
                if node.op is p.mul_zero:
                    made, known[made] = _product(made, *[known[s] for s in made.src])
                elif made not in known:
                    known[made] = _known_of(made, [known.get(s) for s in made.src])
            new[node] = made
    return new


def _product(node: Node, a: Known, b: Known) -> tuple[Node, Known]:
    """A product with the questions that are left, and what is known of it."""
    x, y = node.src
    ask_x, ask_y = not _finite_factor_of(y, b, a), not _finite_factor_of(x, a, b)
    found = multiply(a.range, b.range, x is y)
    nan, carried = _either(a.nan, b.nan), _few(a.carried | b.carried)
    if ask_x and ask_y:
        return node, _limit(node, found, nan, _NOTHING)
    product = make_node(p.mul, node.aval, (x, y))
    if not ask_x and not ask_y:
        return product, _limit(node, found, nan, carried)
    asked, facts = (x, a) if ask_x else (y, b)
    is_zero = p.eq(asked, zeros_like(asked))
    chosen = make_node(p.select, node.aval, (is_zero, zeros_like(node), product))
    return chosen, _limit(node, found, nan, facts.carried)


def _finite_factor_of(node: Node, own: Known, zero: Known) -> bool:
    """Is `node` finite wherever the other factor is zero?"""
    if node in zero.zeros:
        return True
    return own.range.finite and own.nan is not None and own.nan <= zero.carried


def _known_of(node: Node, src: list[Known | None]) -> Known:
    """What is known of an expression from what is known of its operands."""
    own = frozenset((node,))
    nothing = Known(ANYTHING, None, _NOTHING, own)
    if node.op is const_p:
        value = float(constant_value(node))
        if math.isnan(value):
            return nothing
        return Known(Interval(value, value), _NOTHING, _NOTHING, own)
    if node.op in (load_p, reduce_p):
        return Known(ANYTHING, own, own, own)
    if node.op is p.select and src[1] is not None and src[2] is not None:
        a, b = src[1], src[2]
        nan, carried = _either(a.nan, b.nan), a.carried & b.carried
        low, high = min(a.range.low, b.range.low), max(a.range.high, b.range.high)
        return _limit(node, Interval(low, high), nan, carried)
    operands = [s for s in src if s is not None]
    op = node.op
    if not operands or len(operands) != len(src) or not isinstance(op, Primitive):
        return nothing  # of integers, of bits
    found, safe, first, last = ANYTHING, False, operands[0], operands[-1]
    if callable(op.range):
        same = node.src[0] is node.src[-1]
        found, safe = op.range(first.range, last.range, same)
    elif op.range is not None:
        found, safe = Interval(*op.range), True
    nan = _either(first.nan, last.nan) if safe else None
    carried = _few(_NOTHING.union(*[s.carried for s in operands]))
    carried = carried if op.keeps_nan else _NOTHING
    zeros = first.zeros if op.zero_for == "zero" else _NOTHING
    zeros = frozenset(node.src) if op.zero_for == "finite" else zeros
    return _limit(node, found, nan, carried, zeros)


def _limit(
    node: Node,
    found: Interval,
    nan: frozenset[Node] | None,
    carried: frozenset[Node],
    zeros: frozenset[Node] = _NOTHING,
) -> Known:
    largest = _LARGEST[node.dtype.itemsize]
    low = found.low if found.low >= -largest else -math.inf
    high = found.high if found.high <= largest else math.inf
    return Known(Interval(low, high), nan, carried, _few(zeros | {node}))


def _either(
    a: frozenset[Node] | None, b: frozenset[Node] | None
) -> frozenset[Node] | None:
    if a is None or b is None or len(a | b) > _CAUSES:
        return None
    return a | b


def _few(nodes: frozenset[Node]) -> frozenset[Node]:
    """To know less is safe."""
    return nodes if len(nodes) <= _CAUSES else _NOTHING
