"""Loops whose elements have nothing to do with each other: each runs by itself.

    c = g(x)                                          for each element of x:
    while any(p(c)): c = where(p(c), f(c), c)   ->        c = g(x)
                                                          while p(c): c = f(c)

An element for which `p` does not hold any more stays as it is, so that it need not wait
for the others. In registers that is many times faster: the carry does not go through
memory in each iteration, nor at the start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ftrace.lower.alignment import ELEMENTWISE
from ftrace.lower.values import weight
from ftrace.records import NamedTuple
from ftrace.trace.body import BODY_DEPTH, apply_body, close
from ftrace.trace.control.loop import While
from ftrace.trace.dims import any_dynamic, same_size
from ftrace.trace.graph import Body, Node, constant_value, toposort
from ftrace.trace.primitives.broadcast import expand_p
from ftrace.trace.primitives.elementwise import bit_not, eq, ne, select
from ftrace.trace.primitives.movement import reshape, reshape_p
from ftrace.trace.primitives.record import items
from ftrace.trace.primitives.reduction import reduce_max_p
from ftrace.trace.primitives.source import const, const_p, variable

#: Fewer elements are as well off beside each other.
FEWEST = 4
#: Operations that make the first carry: so many are done again if others need it too.
_STARTING = 32
_LANE_DEPTH = -7

#: Makes the loop of a while over its carry.
LoopOf = Callable[[While, Sequence[Node]], Node]


def loop_of_lane(arg: While) -> While | None:
    """The loop of one element; None if elements depend on each other."""
    carry = arg.body.inputs
    shapes = {node.shape for node in carry}
    if arg.consts or len(shapes) != 1 or len(arg.body.outputs) != len(carry):
        return None
    if any_dynamic(*shapes) or carry[0].size < FEWEST:
        return None
    (predicate,) = arg.cond.outputs
    holds = _of_all(predicate)
    if holds is None:
        return None
    (again,) = apply_body(close(arg.cond.inputs, [holds]), carry)
    pairs = zip(carry, arg.body.outputs, strict=True)
    if not all(_stays(old, new, again) for old, new in pairs):
        return None
    outputs = _scalars([*arg.body.outputs, again], carry)
    if outputs is None:
        return None
    *after, once_more = outputs
    names = [_scalar(node, k) for k, node in enumerate(carry)]
    return While(close(names, [once_more]), close(names, after), 0)


def _of_all(predicate: Node) -> Node | None:
    """What must hold of any element, if that is what a predicate asks."""
    while predicate.op is reshape_p:
        predicate = predicate.src[0]
    if predicate.op is not reduce_max_p:
        return None
    (source,) = predicate.src
    axes: tuple[int, ...] = predicate.arg
    return source if axes == tuple(range(source.ndim)) else None


def _stays(old: Node, new: Node, again: Node) -> bool:
    """Is the next value of the carry the old one where the predicate does not hold?"""
    if new is old:
        return True
    if new.op is not select:
        return False
    condition, yes, no = new.src
    return (condition is again and no is old) or (
        _opposite(condition, again) and yes is old
    )


def _opposite(x: Node, y: Node) -> bool:
    if x.op is bit_not or y.op is bit_not:
        return (x.op is bit_not and x.src[0] is y) or (
            y.op is bit_not and y.src[0] is x
        )
    return x.src == y.src and (x.op, y.op) in ((eq, ne), (ne, eq))


def _scalar(node: Node, number: int) -> Node:
    return variable(node.aval.with_shape(()), BODY_DEPTH, number)


def _scalars(outputs: list[Node], carry: tuple[Node, ...]) -> list[Node] | None:
    """The same for one element, if every operation has one element of each operand."""
    shape = carry[0].shape
    found = {node: _scalar(node, k) for k, node in enumerate(carry)}
    for node in toposort(outputs):
        if node in found:
            continue
        if node.op is const_p:
            weak = node.aval.weak_type
            found[node] = const(constant_value(node), node.dtype, (), weak)
        elif node.op.family in ELEMENTWISE and same_size(node.shape, shape):
            found[node] = node.op(*[found[s] for s in node.src], arg=node.arg)
        else:
            return None
    return [found[node] for node in outputs]


class Lanes(NamedTuple):
    """What runs for each element, and over what.

    Attributes:
      body: (scalars, elements) -> the carry after the loop, as far as it is wanted.
      scalars, elements: its operands, without axes and with all axes of the carry.
    """

    body: Body
    scalars: list[Node]
    elements: list[Node]


def lanes_of(
    each: While, carry: Sequence[Node], wanted: Sequence[int], loop_of: LoopOf
) -> Lanes:
    """The loop of each element, and the work that makes its first carry.

    Args:
      each: the loop of one element.
      carry: what it begins with, of all elements.
      wanted: which parts of the carry are needed afterwards.
      loop_of: makes the loop, in a graph.
    """
    start = _Start(carry)
    first = [start.scalar(node) for node in carry]
    after = items(loop_of(each, first))
    scalars, elements = list(start.scalars), list(start.elements)
    names = [*start.scalars.values(), *start.elements.values()]
    body = close(names, [after[k] for k in wanted])
    return Lanes(body, scalars, elements)


class _Start:
    """Elements of the first carry, made of scalars and of elements that are stored."""

    def __init__(self, carry: Sequence[Node]) -> None:
        self.shape = carry[0].shape
        self.scalars: dict[Node, Node] = {}
        self.elements: dict[Node, Node] = {}
        self.inside = self._made_here(carry)
        self.found: dict[Node, Node] = {}

    def _made_here(self, carry: Sequence[Node]) -> set[Node]:
        """The nearest elementwise operations behind the carry."""
        inside: set[Node] = set()
        waiting = list(carry)
        while waiting and len(inside) < _STARTING:
            node = waiting.pop(0)
            fits = node.op.family in ELEMENTWISE and same_size(node.shape, self.shape)
            if fits and weight(node) <= 1 and node not in inside:
                inside.add(node)
                waiting += node.src
        return inside

    def scalar(self, last: Node) -> Node:
        """The element of a node that belongs to this lane."""
        pending = [last]
        while pending:
            node = pending[-1]
            sources = node.src if node in self.inside else ()
            missing = [s for s in sources if s not in self.found]
            if not missing:
                self.found[node] = self._made(pending.pop())
            pending += missing
        return self.found[last]

    def _made(self, node: Node) -> Node:
        if node.op is const_p:
            value = constant_value(node)
            return const(value, node.dtype, (), node.aval.weak_type)
        if node in self.inside:
            return node.op(*[self.found[s] for s in node.src], arg=node.arg)
        if node.op is expand_p and same_size(node.src[0].size, 1):
            return self._name(self.scalars, reshape(node.src[0], ()))
        return self._name(self.elements, node)

    def _name(self, group: dict[Node, Node], node: Node) -> Node:
        if node not in group:
            number = len(self.scalars) + len(self.elements)
            group[node] = variable(node.aval.with_shape(()), _LANE_DEPTH, number)
        return group[node]
