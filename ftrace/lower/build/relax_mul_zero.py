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
from collections.abc import Callable
from typing import Final

from ftrace import dtypes
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.lower.kernel.ir import Kernel, load_p, reduce_p
from ftrace.trace.graph import Node, constant_value, inherited_origin, make_node
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.primitive import Primitive
from ftrace.trace.primitives.sources import const_p, zeros_like

#: What `config.disabled_rules` can switch off here.
DECISIONS = {
    "relax_products": "a derivative's product looks for zeros only beside infinity"
}

_INFINITY: Final = math.inf
#: Beyond it an interval is taken to reach infinity: rounding could carry it there.
_LARGEST: Final = {1: 1e2, 2: 1e4, 4: 1e37, 8: 1e300}
#: How many causes of NaN are told apart: a bound of time. With 2 or 32 no row differs.
_CAUSES = 8


class Range(NamedTuple):
    """Where an expression is, unless it is NaN.

    Attributes:
      low, high: bounds; an infinite one may be reached.
      nan: nodes of which one is NaN wherever this is; None: it may be NaN by itself.
      carried: nodes that make this NaN wherever they are.
      zeros: nodes that are finite wherever this is zero.
    """

    low: float
    high: float
    nan: frozenset[Node] | None
    carried: frozenset[Node]
    zeros: frozenset[Node]

    @property
    def finite(self) -> bool:
        return self.low > -_INFINITY and self.high < _INFINITY


Bounds = tuple[float, float]

_NOTHING: Final[frozenset[Node]] = frozenset()
_ANYTHING: Final = (-_INFINITY, _INFINITY)


def relax_products(kernel: Kernel, became: dict[Node, Node] | None = None) -> Kernel:
    """The kernel with every `mul_zero` of floats as plain as the facts allow.

    Linear in its expressions.

    Args:
      became: is told what each expression became.
    """
    nodes = kernel.nodes
    if not any(n.op is p.mul_zero and dtypes.is_float(n.dtype) for n in nodes):
        return kernel
    new: dict[Node, Node] = {}
    known: dict[Node, Range] = {}
    with inherited_origin() as take:
        for node in nodes:
            src = tuple([new[s] for s in node.src])
            made = node if src == node.src else _rebuilt(node, src, take)
            if dtypes.is_float(node.dtype) and node.shape == ():
                if node.op is p.mul_zero:
                    made, known[made] = _product(made, *[known[s] for s in made.src])
                elif made not in known:
                    known[made] = _range(made, [known.get(s) for s in made.src])
            new[node] = made
    if became is not None:
        became |= new
    return kernel.over(new)


def _rebuilt(node: Node, src: tuple[Node, ...], take: Callable[[Node], None]) -> Node:
    take(node)
    return make_node(node.op, node.aval, src, node.arg)


def _product(node: Node, a: Range, b: Range) -> tuple[Node, Range]:
    """A product with the questions that are left, and what is known of it."""
    x, y = node.src
    ask_x, ask_y = not _finite_factor_of(y, b, a), not _finite_factor_of(x, a, b)
    low, high = _multiply(a, b, x is y)
    nan, carried = _either(a.nan, b.nan), _few(a.carried | b.carried)
    if ask_x and ask_y:
        return node, _limit(node, low, high, nan, _NOTHING)
    product = make_node(p.mul, node.aval, (x, y))
    if not ask_x and not ask_y:
        return product, _limit(node, low, high, nan, carried)
    asked, facts = (x, a) if ask_x else (y, b)
    is_zero = p.eq(asked, zeros_like(asked))
    chosen = make_node(p.select, node.aval, (is_zero, zeros_like(node), product))
    return chosen, _limit(node, low, high, nan, facts.carried)


def _finite_factor_of(node: Node, own: Range, zero: Range) -> bool:
    """Is `node` finite wherever the other factor is zero?"""
    if node in zero.zeros:
        return True
    return own.finite and own.nan is not None and own.nan <= zero.carried


def _range(node: Node, src: list[Range | None]) -> Range:
    """What is known of an expression from what is known of its operands."""
    name = node.op.name
    own = frozenset((node,))
    if node.op is const_p:
        value = float(constant_value(node))
        if math.isnan(value):
            return Range(*_ANYTHING, None, _NOTHING, own)
        return Range(value, value, _NOTHING, _NOTHING, own)
    if node.op in (load_p, reduce_p):
        return Range(*_ANYTHING, own, own, own)
    if name == "select" and src[1] is not None and src[2] is not None:
        a, b = src[1], src[2]
        nan, carried = _either(a.nan, b.nan), a.carried & b.carried
        return _limit(node, min(a.low, b.low), max(a.high, b.high), nan, carried)
    operands = [s for s in src if s is not None]
    if not operands or len(operands) != len(src):
        return Range(*_ANYTHING, None, _NOTHING, own)  # of integers, of bits
    op, found = node.op, _RULES.get(name)
    if not isinstance(op, Primitive):
        return Range(*_ANYTHING, None, _NOTHING, own)
    carried = _few(_NOTHING.union(*[s.carried for s in operands]))
    if found is not None:
        low, high, safe = found(operands[0], operands[-1], node.src[0] is node.src[-1])
        nan = _either(operands[0].nan, operands[-1].nan) if safe else None
    else:
        low, high = op.range or _ANYTHING
        nan = operands[0].nan if op.range else None
        carried = carried if op.keeps_nan else _NOTHING
    zeros = operands[0].zeros if op.zero_for == "zero" else _NOTHING
    zeros = frozenset(node.src) if op.zero_for == "finite" else zeros
    return _limit(node, low, high, nan, carried, zeros)


def _limit(
    node: Node,
    low: float,
    high: float,
    nan: frozenset[Node] | None,
    carried: frozenset[Node],
    zeros: frozenset[Node] = _NOTHING,
) -> Range:
    largest = _LARGEST[node.dtype.itemsize]
    low = low if low >= -largest else -_INFINITY
    high = high if high <= largest else _INFINITY
    return Range(low, high, nan, carried, _few(zeros | {node}))


def _either(
    a: frozenset[Node] | None, b: frozenset[Node] | None
) -> frozenset[Node] | None:
    if a is None or b is None or len(a | b) > _CAUSES:
        return None
    return a | b


def _few(nodes: frozenset[Node]) -> frozenset[Node]:
    """To know less is safe."""
    return nodes if len(nodes) <= 4 * _CAUSES else _NOTHING


# The bounds of each operation, and whether it is NaN only where an operand is.


def _times(a: float, b: float) -> float:
    return 0.0 if a == 0 or b == 0 else a * b


def _multiply(a: Range, b: Range, same: bool) -> Bounds:
    ends = [_times(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    return (0.0 if same else min(ends)), max(ends)


def _negate(a: Range) -> Range:
    return a._replace(low=-a.high, high=-a.low)


def _sum(a: Range, b: Range, _: bool) -> Rule:
    low = -_INFINITY if -_INFINITY in (a.low, b.low) else a.low + b.low
    high = _INFINITY if _INFINITY in (a.high, b.high) else a.high + b.high
    opposite = not (a.finite or b.finite) and not (
        min(a.low, b.low) > -_INFINITY or max(a.high, b.high) < _INFINITY
    )
    return low, high, not opposite


def _mul(a: Range, b: Range, same: bool) -> Rule:
    safe = same or (a.finite and b.finite)
    safe = safe or not (_has_zero(a) or _has_zero(b))
    safe = safe or (a.finite and not _has_zero(a)) or (b.finite and not _has_zero(b))
    return *_multiply(a, b, same), safe


def _div(a: Range, b: Range, _: bool) -> Rule:
    if _has_zero(b):
        return *_ANYTHING, False
    inverse = b._replace(low=1 / b.high, high=1 / b.low)
    return *_multiply(a, inverse, False), a.finite or b.finite


def _has_zero(a: Range) -> bool:
    return a.low <= 0 <= a.high


def _abs(a: Range, b: Range, _: bool) -> Rule:
    low = 0.0 if _has_zero(a) else min(abs(a.low), abs(a.high))
    return low, max(abs(a.low), abs(a.high)), True


def _exp(a: Range, b: Range, _: bool) -> Rule:
    return 0.0, math.exp(a.high) * 1.1 if a.high < 600 else _INFINITY, True


def _rsqrt(a: Range, b: Range, _: bool) -> Rule:
    if a.low <= 0:
        return 0.0, _INFINITY, False
    return 0.0, 1.1 / math.sqrt(a.low), True


#: Low, high, and: is it NaN only where an operand is?
Rule = tuple[float, float, bool]

#: Of the first and the last operand, and of whether they are the same one.
_RULES: Final[dict[str, Callable[[Range, Range, bool], Rule]]] = {
    "add": _sum,
    "sub": lambda a, b, same: _sum(a, _negate(b), same),
    "mul": _mul,
    "div": _div,
    "max": lambda a, b, _: (max(a.low, b.low), max(a.high, b.high), True),
    "min": lambda a, b, _: (min(a.low, b.low), min(a.high, b.high), True),
    "neg": lambda a, b, _: (-a.high, -a.low, True),
    "abs": _abs,
    "copy": lambda a, b, _: (a.low, a.high, True),
    "stop_gradient": lambda a, b, _: (a.low, a.high, True),
    "exp": _exp,
    "sqrt": lambda a, b, _: (0.0, math.sqrt(max(a.high, 0.0)), a.low >= 0),
    "rsqrt": _rsqrt,
    "sin": lambda a, b, _: (-1.1, 1.1, a.finite),
    "cos": lambda a, b, _: (-1.1, 1.1, a.finite),
}
