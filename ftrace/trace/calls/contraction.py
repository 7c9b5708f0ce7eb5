"""Sums of products that are contractions: what `dot_general` says of its operands.

    reduce_sum[axes](mul(view of x, view of y))  ->  dot_general(x, y)

Along each axis of the product at least one operand varies; where both do, it is summed
(contracted) or kept (a batch axis), where one does, it is kept.
"""

from __future__ import annotations

from typing import Any

from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.trace.avals import Shape
from ftrace.trace.graph import Node

Axes = tuple[int, ...]


class Contraction(NamedTuple):
    """A product of two arrays.

    Attributes:
      operands: the arrays.
      contracting, batch: of each operand the axes, in the same order.
      shape: of the product: batch axes, then those of each operand.
      order: the axes of the result in these.
    """

    operands: tuple[Node, Node]
    contracting: tuple[Axes, Axes]
    batch: tuple[Axes, Axes]
    shape: Shape
    order: Axes


def contraction_of(product: Node, summed: Axes) -> Contraction | None:
    """What a sum of a product along these axes is; None if it is none."""
    left, right = map(_view, product.src)
    if left is None or right is None:
        return None
    (x, of_x), (y, of_y) = left, right
    both = [a for a in range(product.ndim) if a in of_x and a in of_y]
    if any(a not in both for a in summed) or not summed:
        return None
    kept = [a for a in range(product.ndim) if a not in summed]
    if any(a not in of_x and a not in of_y for a in kept):
        return None
    batch = [a for a in kept if a in both]
    own = [[a for a in kept if a in of and a not in both] for of in (of_x, of_y)]
    for of, operand, mine in ((of_x, x, own[0]), (of_y, y, own[1])):
        mine.sort(key=lambda a, of=of: of[a])
        if len(of) != operand.ndim:  # an axis of the operand is no axis of the product
            return None
    made = [*batch, *own[0], *own[1]]
    return Contraction(
        (x, y),
        (tuple(of_x[a] for a in summed), tuple(of_y[a] for a in summed)),
        (tuple(of_x[a] for a in batch), tuple(of_y[a] for a in batch)),
        tuple(product.shape[a] for a in made),
        tuple(made.index(a) for a in kept),
    )


def _view(node: Node) -> tuple[Node, dict[int, int]] | None:
    """What an operand is a view of, and which axes of it the axes of the view are."""
    axes: list[Any] = list(range(node.ndim))  # of the product's axes, those of `node`
    while True:
        if node.op.name == "expand":
            (x,) = node.src
            same = [a == b for a, b in zip(x.shape, node.shape, strict=True)]
            axes = [None if a is None or not same[a] else a for a in axes]
            node = x
        elif node.op.name == "reshape":
            (x,) = node.src
            places = _inserted(x.shape, node.shape)
            if places is None:
                break
            axes = [None if a is None else places.get(a) for a in axes]
            node = x
        elif node.op.name == "permute" and any(a is None for a in axes):
            axes = [None if a is None else node.arg[a] for a in axes]
            (node,) = node.src
        else:
            break
    found = {i: a for i, a in enumerate(axes) if a is not None}
    return (node, found) if len({*found.values()}) == len(found) else None


def _inserted(short: Shape, long: Shape) -> dict[int, int] | None:
    """Of a reshape that inserts axes of size 1: axis after -> axis before."""
    found: dict[int, int] = {}
    i = 0
    for k, size in enumerate(long):
        if i < len(short) and short[i] == size:
            found[k] = i
            i += 1
        elif size != 1:
            return None
    return found if i == len(short) else None
