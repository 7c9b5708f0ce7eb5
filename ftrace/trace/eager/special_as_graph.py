"""Primitives whose meaning in NumPy is a composition, as that composition.

Evaluated step by step it has the bits of the meaning (`primitives/special.py`); a tape
notes the steps, which can be done together.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ftrace import dtypes
from ftrace.ground.tables import memo
from ftrace.trace.avals import ShapedArray
from ftrace.trace.evaluate import Plan
from ftrace.trace.graph import Node
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.primitive import Primitive
from ftrace.trace.primitives.sources import const_like, variable
from ftrace.trace.primitives.special import CENTRE, FAR_TAIL, TAIL

_FLOATS = (dtypes.float32, dtypes.float64)


def is_unfolded(op: Primitive, dtype: np.dtype[np.generic]) -> bool:
    """Is there a composition for it?"""
    return op in _COMPOSITIONS and dtype in _FLOATS


@memo(256)
def unfolded(op: Primitive, aval: ShapedArray) -> Plan:
    """The composition, of one operand of a type."""
    x = variable(ShapedArray.of(aval.shape, aval.dtype), 0, 0)
    return Plan([_COMPOSITIONS[op](x)], [x])


def _erf_inv(x: Node) -> Node:
    """As `special.erf_inv`, with the tails computed everywhere."""
    y = p.cast(x, dtypes.float64)

    def number(value: float) -> Node:
        return const_like(y, value)

    def ratio(coefficients: tuple[tuple[float, ...], ...], at: Node) -> Node:
        top, bottom = (_polynomial(c, at) for c in coefficients)
        return p.div(top, bottom)

    z = p.div(y, number(2))
    square = p.sub(number(0.180625), p.mul(z, z))
    middle = p.mul(z, ratio(CENTRE, square))
    rest = p.div(p.sub(number(1), p.absolute(y)), number(2))
    r = p.sqrt(p.neg(p.log(rest)))
    near = ratio(TAIL, p.sub(r, number(1.6)))
    tail = p.select(p.le(r, number(5)), near, ratio(FAR_TAIL, p.sub(r, number(5))))
    infinity = number(np.inf)
    tail = p.select(p.eq(r, infinity), infinity, tail)
    tail = p.select(p.lt(y, number(0)), p.neg(tail), tail)
    central = p.le(p.absolute(z), number(0.425))
    whole = p.select(central, middle, tail)
    return p.cast(p.div(whole, number(float(np.sqrt(2.0)))), x.dtype)


def _polynomial(coefficients: tuple[float, ...], x: Node) -> Node:
    """Horner's rule, highest power first."""
    value = const_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        value = p.add(p.mul(value, x), const_like(x, coefficient))
    return value


def _logistic(x: Node) -> Node:
    one = const_like(x, 1)
    part = p.exp(p.neg(p.absolute(x)))
    top = p.select(p.lt(x, const_like(x, 0)), part, one)
    return p.div(top, p.add(one, part))


def _rsqrt(x: Node) -> Node:
    return p.div(const_like(x, 1), p.sqrt(x))


_COMPOSITIONS: dict[Primitive, Callable[[Node], Node]] = {
    p.erf_inv: _erf_inv,
    p.logistic: _logistic,
    p.rsqrt: _rsqrt,
}
