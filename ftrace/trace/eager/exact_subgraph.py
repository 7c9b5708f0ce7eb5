"""The part of a graph whose values leave no choice: the same bits whoever computes it.

    shift, xor, add of integers, x - 1 of floats     exact
    log, erf_inv, x * y + z of floats                rounded as the device does it

Where a graph begins with such a part, that part may run in compiled code at one call
and in NumPy at another, and nobody can tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.trace.graph import Graph, Node, bodies_of, constant_value, toposort
from ftrace.trace.primitives.broadcast import expand_p
from ftrace.trace.primitives.elementwise import cast_p, mul
from ftrace.trace.primitives.library.sorting import argsort_p
from ftrace.trace.primitives.movement import reshape_p
from ftrace.trace.primitives.primitive import Primitive, item_p
from ftrace.trace.primitives.sources import const_p

_ELEMENTWISE = ("unary", "binary", "compare", "select", "cast")
#: Of integers and bools these are exact, in any order.
_OF_WHOLE = (*_ELEMENTWISE, "reduction")
_WIDE_ENOUGH = frozenset((dtypes.float32, dtypes.float64))


def is_exact(node: Node) -> bool:
    """Has a node the same bits on every device, if its operands have?"""
    if node.op is argsort_p or node.op is item_p:
        return True  # every sort is stable
    if node.op.family == "control" and (bodies := bodies_of(node.arg)):
        parts = [(n, b) for b in bodies for n in toposort(b.outputs)]
        return all(n in body.inputs or is_exact(n) for n, body in parts)
    op, types = node.op, {x.dtype for x in (node, *node.src)}
    exact = isinstance(op, Primitive) and op.exact
    if all(map(_is_whole, types)):
        return exact or op.family in _OF_WHOLE
    if op is mul:
        # It may be rounded together with a sum, or not: where it has to be.
        return all(map(_is_of_float32, node.src))
    mixed = op is not cast_p or types <= _WIDE_ENOUGH
    return exact and mixed and all(_is_whole(t) or t in _WIDE_ENOUGH for t in types)


def _is_of_float32(x: Node) -> bool:
    """Are these values of float32 in float64, whose products have 48 bits?"""
    while x.op in (expand_p, reshape_p):
        (x,) = x.src
    if x.dtype != dtypes.float64:
        return False
    if x.op is const_p:
        value = constant_value(x)
        return bool(np.float32(value) == value)
    return x.op is cast_p and x.src[0].dtype == dtypes.float32


def _is_whole(dtype: np.dtype[Any]) -> bool:
    return dtypes.kind(dtype) in "biuk"


def exact_part(graph: Graph) -> tuple[Sequence[Node], bool]:
    """The last nodes of the part of a graph that is exact, and whether it is all of it.

    What they repeat, move or do not take from the inputs is left to what follows.
    """
    given, exact = set(graph.inputs), set(graph.inputs)
    moving = set[Node]()  # depends on an input
    last: dict[Node, None] = {}
    for node in toposort(graph.outputs):
        if node in given or any(x in given or x in moving for x in node.src):
            moving.add(node)
        if node in given or (exact.issuperset(node.src) and is_exact(node)):
            exact.add(node)
            continue
        for source in node.src:
            while source in exact and source.op in (expand_p, reshape_p):
                (source,) = source.src
            if source in exact and source in moving and source not in given:
                last[source] = None
    if exact.issuperset(graph.outputs):
        return graph.outputs, True
    return tuple(last), False
