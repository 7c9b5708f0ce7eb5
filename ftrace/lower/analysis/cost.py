"""What a value is made of, and what it costs: questions that many stages ask.

    reshape(x), barrier(x)   have the memory of x, their *root*
    sum(a * b)               is a *contraction* where a and b are both used again
    sin(x) + 1               has a *weight* of 10 + 1 operations for each element

The answers depend on the graph alone: no stage's decisions change them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ftrace.ground.tables import memo
from ftrace.trace.avals import Shape
from ftrace.trace.graph import Node, Op
from ftrace.trace.primitives.broadcast import reduce_sum_p
from ftrace.trace.primitives.elementwise import is_reused, mul, mul_zero
from ftrace.trace.primitives.movement import reshape_p
from ftrace.trace.primitives.primitive import Compound, Primitive, item_p
from ftrace.trace.symbolic.dim import same_size

#: Families of operations of which an element depends on the same element of operands.
ELEMENTWISE = ("unary", "binary", "compare", "select", "cast")
CHEAP = 4  # operations that are rather done again than stored and loaded
RECOMPUTE = 40  # operations that may be done again inside one kernel


def is_step(node: Node) -> bool:
    """Is it an operation that is a step of the program, or one of its results?"""
    return node.op is item_p or isinstance(node.op, Compound)


def root_of(node: Node) -> Node:
    """The value whose memory a value is: reshapes and barriers share it."""
    while True:
        if node.op is reshape_p:
            node = node.src[0]
        elif node.op is item_p and node.src[0].op.family == "barrier":
            number: int = node.arg
            node = node.src[0].src[number]
        else:
            return node


def squeeze(shape: Shape) -> Shape:
    return tuple(n for n in shape if not same_size(n, 1))


def is_contraction(node: Node) -> bool:
    """A sum of products of which both factors are used again: matmul, convolution."""
    if node.op is not reduce_sum_p:
        return False
    product = node.src[0]
    while product.op.name == "cast":
        product = product.src[0]
    return product.op in (mul, mul_zero) and all(is_reused(s) for s in product.src)


def reduced_axes(node: Node) -> list[int]:
    axes: tuple[int, ...] = node.arg
    return [a for a in sorted(axes) if not same_size(node.src[0].shape[a], 1)]


def elements_of_sum(node: Node) -> Node:
    """What a sum adds up, in the shape and the dtype in which it is computed."""
    node = root_of(node.src[0])
    while node.op.name == "cast":
        node = root_of(node.src[0])
    return node


def shared_dear(order: Iterable[Node]) -> set[Node]:
    """Values with several users that are rather stored than computed again."""
    used: set[Node] = set()
    found: set[Node] = set()
    for node in order:
        for source in set(node.src):
            if source in used and weight(source) > CHEAP:
                found.add(source)
            used.add(source)
    return found


def nodes_near(
    root: Node, most: int, below: Callable[[Node], Iterable[Node]]
) -> dict[Node, None]:
    """What `below` leads to from a value, itself first, until it is so many values."""
    seen = {root: None}
    pending = [root]
    while pending and len(seen) < most:
        for source in below(pending.pop()):
            if source not in seen:
                seen[source] = None
                pending.append(source)
    return seen


def weight(node: Node) -> int:
    """Operations that one element of a node costs, its operands aside."""
    return _weight_of(node.op)


@memo(1024)
def _weight_of(op: Op) -> int:
    if op.family in ("movement", "source", "identity", "cast"):
        return 0
    if op.family == "reduction":
        return 2
    if op.family == "indexing":
        return 3
    return op.cost if isinstance(op, Primitive) else 1
