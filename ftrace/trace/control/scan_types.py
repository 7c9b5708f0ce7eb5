"""The argument of a scan, and the types of what it runs over and makes."""

from __future__ import annotations

from ftrace.errors import GraphError
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.trace.avals import ShapedArray, Stack
from ftrace.trace.graph import Body
from ftrace.trace.symbolic.dim import same_size


@dataclass(frozen=True)
class Scan:
    """The argument of a scan.

    Attributes:
      body: (consts, carry, elements) -> (carry, elements).
      length: how many elements; None where the stacks among `xs` tell.
      reverse: from the last element to the first.
      consts, carry: how many operands each of them has; the others are `xs`.
    """

    body: Body
    length: int | None
    reverse: bool
    consts: int
    carry: int

    def __str__(self) -> str:
        length = "as stacked" if self.length is None else f"length={self.length}"
        order = ", reverse" if self.reverse else ""
        return f"{length}{order}, consts={self.consts}, carry={self.carry}"


def element_type(aval: ShapedArray, length: int | None) -> ShapedArray:
    """The type of one element of an operand that a scan runs over."""
    if isinstance(aval, Stack):
        if aval.lanes:
            return Stack.of_element(aval.element, aval.lanes[1:])
        return aval.element
    if length is None or aval.ndim == 0 or not same_size(aval.shape[0], length):
        raise GraphError(f"scan of length {length} over an operand of type {aval!r}")
    return aval.with_shape(aval.shape[1:])


def stacked_type(aval: ShapedArray, length: int | None) -> ShapedArray:
    """The type of all elements of a result."""
    if isinstance(aval, Stack):
        if length is None:
            raise GraphError("a stack cannot hold stacks")
        return Stack.of_element(aval.element, (length, *aval.lanes))
    if length is None:
        return Stack.of_element(aval)
    return aval.with_shape((length, *aval.shape))
