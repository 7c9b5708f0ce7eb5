"""Control flow in the form in which programs run it.

    scan, while  ->  loop: one operation, whose body also computes the predicate

`while cond: body` becomes a loop whose body returns, after the carry and what it
pushes, whether there is another iteration: the predicate is computed with the rest of
the body, and the first one in the graph around it.

A loop whose elements have nothing to do with each other runs for each by itself
(`lanes_of`):

    c = g(x)                                          for each element of x:
    while any(p(c)): c = where(p(c), f(c), c)   ->        c = g(x)
                                                          while p(c): c = f(c)

An element for which `p` does not hold any more stays as it is, so that it need not wait
for the others. In registers that is many times faster: the carry does not go through
memory in each iteration, nor at the start.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from ftrace.errors import GraphError
from ftrace.ground.fast_dataclasses import NamedTuple, dataclass
from ftrace.lower.analysis import ELEMENTWISE, weight
from ftrace.trace.avals import TOKEN, ShapedArray
from ftrace.trace.body import BODY_DEPTH, apply_body, close
from ftrace.trace.control.conditional import While, while_p
from ftrace.trace.control.scan import Scan, scan_p, stacked_type
from ftrace.trace.graph import Body, Node, bodies_of, constant_value, toposort
from ftrace.trace.graph_map import Rule, convert
from ftrace.trace.primitives.broadcast import expand_p
from ftrace.trace.primitives.elementwise import bit_not, eq, ne, select
from ftrace.trace.primitives.movement import reshape, reshape_p
from ftrace.trace.primitives.primitive import Compound, items
from ftrace.trace.primitives.reduction import reduce_max_p
from ftrace.trace.primitives.sources import const, const_p, variable
from ftrace.trace.symbolic import any_dynamic, same_size

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
        fits = node.op.family in ELEMENTWISE and same_size(node.shape, shape)
        if node.op is not const_p and not fits:
            return None
        found[node] = _on_scalars(node, found)
    return [found[node] for node in outputs]


def _on_scalars(node: Node, found: dict[Node, Node]) -> Node:
    """A constant, or an elementwise operation on one element of each operand."""
    if node.op is const_p:
        return const(constant_value(node), node.dtype, (), node.aval.weak_type)
    return node.op(*[found[s] for s in node.src], arg=node.arg)


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
        if node.op is const_p or node in self.inside:
            return _on_scalars(node, self.found)
        if node.op is expand_p and same_size(node.src[0].size, 1):
            return self._name(self.scalars, reshape(node.src[0], ()))
        return self._name(self.elements, node)

    def _name(self, group: dict[Node, Node], node: Node) -> Node:
        if node not in group:
            number = len(self.scalars) + len(self.elements)
            group[node] = variable(node.aval.with_shape(()), _LANE_DEPTH, number)
        return group[node]


#: Iterations of a parallel loop that may run at the same time.
LANES = 16


@dataclass(frozen=True)
class Loop:
    """The argument of a loop; its operands are predicate, constants, carry, elements.

    Attributes:
      body: (consts, carry, elements) -> (carry, elements, predicate).
      length, reverse, consts, carry: as of `Scan`.
      predicate: there is a predicate: the first operand, and the body's last output.
      lanes: how many iterations may run at the same time, where they are independent.
      each: the loop of one element, where elements of the carry are independent.
    """

    body: Body
    length: int | None
    reverse: bool
    consts: int
    carry: int
    predicate: bool
    lanes: int = LANES
    each: While | None = None

    def __str__(self) -> str:
        length = "while" if self.length is None else f"length={self.length}"
        return f"{length}, consts={self.consts}, carry={self.carry}"


def _infer(arg: Loop, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
    outputs = arg.body.outputs
    last = len(outputs) - arg.predicate
    carry = [n.aval for n in outputs[: arg.carry]]
    return (
        *carry,
        *(stacked_type(n.aval, arg.length) for n in outputs[arg.carry : last]),
    )


def _not_evaluated(*_: Any) -> Any:
    raise GraphError("a loop exists in lowered programs only")


loop_p = Compound(
    "loop", "loop", _infer, _not_evaluated, _not_evaluated,
    no_derivative="it exists in lowered programs only", show=str,
    doc="what scan and while become in lowering",
)  # fmt: skip


def _loop_of_scan(node: Node, read: Collection[int]) -> Node:
    arg: Scan = node.arg
    loop = Loop(arg.body, arg.length, arg.reverse, arg.consts, arg.carry, False)
    return loop_p(*node.src, arg=loop)


def loop_of_while(arg: While, src: Sequence[Node]) -> Node:
    """The loop of a while; its operands are constants and carry."""
    cond = replace(arg.cond, outputs=tuple(convert(arg.cond.outputs, LOOPS)))
    (first,) = apply_body(cond, src)
    consts = arg.body.inputs[: arg.consts]
    after = arg.body.outputs[: arg.carry]
    (again,) = apply_body(cond, [*consts, *after])
    body = replace(arg.body, outputs=(*arg.body.outputs, again))
    each = loop_of_lane(arg)
    loop = Loop(body, None, False, arg.consts, arg.carry, True, each=each)
    return loop_p(first, *src, arg=loop)


def runs_on_host(body: Body) -> bool:
    """Does anything in the body, or in bodies within it, run on the host in order?"""
    for node in toposort(body.outputs):
        if node.aval is TOKEN or node.op.family == "host":
            return True
        if any(runs_on_host(inner) for inner in bodies_of(node.arg)):
            return True
    return False


#: What makes loops of the operations that have bodies to be repeated.
LOOPS: dict[Any, Rule] = {
    scan_p: _loop_of_scan,
    while_p: lambda node, read: loop_of_while(node.arg, node.src),
}
