"""held: a concrete array in the midst of a graph.

    held_p(arg=Held(array)) -> array

A function that is traced captures the arrays it uses as inputs of its graph. A rule
that is traced later, while a graph is being differentiated, has no such inputs: there
an array is a node. Before a graph is run its held arrays become captured ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

from ftrace.arrays.array import Array
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Node
from ftrace.trace.primitives.primitive import Compound
from ftrace.trace.tracing.scopes import asarray, owned
from ftrace.trace.tracing.tracer import Value, aval_of


@dataclass(frozen=True)
class Held:
    """The argument: an array, which equals itself alone."""

    array: Array = field(compare=False)
    aval: ShapedArray
    key: int

    def __str__(self) -> str:
        return f"{self.aval!r}"


def _infer(arg: Held) -> tuple[ShapedArray, ...]:
    return (arg.aval,)


def _value(avals: Sequence[ShapedArray], arg: Held) -> list[Any]:
    return [arg.array.numpy()]


def _batch(
    node: Node, src: tuple[Node, ...], batched: tuple[bool, ...], size: int
) -> tuple[list[Node], list[bool]]:
    return held_p.results(arg=node.arg), [False]


held_p = Compound(
    "held", "source", _infer, _value, _batch, no_derivative="it is a constant",
    doc="a concrete array that a rule closed over", show=str,
)  # fmt: skip


def held(value: Value) -> Node:
    """The node of a concrete array. What NumPy may change is copied."""
    array = asarray(owned(value))
    return held_p.results(arg=Held(array, aval_of(array), id(array)))[0]
