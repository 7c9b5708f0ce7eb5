"""Operations on scalars of a kernel, folded as they are made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.lower.constants import evaluate_scalar
from ftrace.lower.legalize import PLAIN
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Node, constant_value, make_node
from ftrace.trace.primitives.elementwise import bit_and, bit_or, select
from ftrace.trace.primitives.record import Primitive
from ftrace.trace.primitives.source import const, const_p

#: The operations whose result every machine rounds alike: of constants a constant.
_FOLDED = PLAIN | {"sign", "popcount", "nextafter", "real", "imag", "conj"}


def scalar(node: Node, src: Sequence[Node]) -> Node:
    """An elementwise operation of a graph on scalars."""
    aval = ShapedArray.of((), node.dtype)
    return _simplified(make_node(node.op, aval, tuple(src), node.arg))


def folded(op: Any, dtype: np.dtype[Any], src: tuple[Node, ...]) -> Node:
    """An operation on scalars; of constants it is a constant."""
    return _simplified(make_node(op, ShapedArray.of((), dtype), src))


def _simplified(node: Node) -> Node:
    src = node.src
    known_op = isinstance(node.op, Primitive)  # not what legal kernels have, as fma
    if known_op and node.op.name in _FOLDED and all(s.op is const_p for s in src):
        return const(evaluate_scalar(node), node.dtype)
    if node.op is select:
        if src[0].op is const_p:
            return src[1] if constant_value(src[0]) else src[2]
        if src[1] is src[2]:
            return src[1]
    if node.op is bit_and and node.dtype == dtypes.bool_:
        for known, other in (src, src[::-1]):
            if known.op is const_p:
                return other if constant_value(known) else known
    if node.op is bit_or and node.dtype == dtypes.bool_:
        for known, other in (src, src[::-1]):
            if known.op is const_p:
                return known if constant_value(known) else other
    if node.op.name == "mul_zero":
        for known in src:
            if known.op is const_p and not constant_value(known):
                return const(0, node.dtype)
    return node
