"""Primitives without operands: constants, iota, and the variables of a graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ftrace.errors import GraphError
from ftrace.trace.avals import Shape, ShapedArray
from ftrace.trace.graph import Flags, Node, Nodes, constant_bits, make_node
from ftrace.trace.primitives.primitive import Array, Primitive
from ftrace.trace.symbolic import is_dynamic, same_size


def _stored_aval(arg: Any, *avals: ShapedArray) -> ShapedArray:
    raise GraphError("a source is made with const(), iota() or variable()")


def _without_lanes(node: Node, src: Nodes, batched: Flags) -> Node:
    return node


def no_tangent(node: Node, tangents: Sequence[Node | None]) -> None:
    return None


def _const_value(aval: ShapedArray, bits: bytes) -> Array:
    return np.broadcast_to(np.frombuffer(bits, aval.dtype)[0], aval.shape)


def _iota_value(aval: ShapedArray, axis: int) -> Array:
    shape = [1] * aval.ndim
    shape[axis] = aval.shape[axis]
    values: Array = np.arange(aval.shape[axis]).astype(aval.dtype)
    return np.broadcast_to(values.reshape(shape), aval.shape)


def _refuse(aval: ShapedArray, arg: Any) -> Any:
    raise GraphError(f"the variable {arg} of type {aval!r} has no value here")


const_p = Primitive(
    "const", "source", _stored_aval, _const_value, _without_lanes, jvp=no_tangent,
    exact=True, doc="one scalar at every position; keyed by dtype and bits",
    show=lambda arg: "",
)  # fmt: skip

iota_p = Primitive(
    "iota", "source", _stored_aval, _iota_value, _without_lanes, jvp=no_tangent,
    exact=True, doc="0, 1, 2, … along one axis", show=lambda axis: f"axis={axis}",
)  # fmt: skip


def _refuse_dim(aval: ShapedArray, size: Any) -> Any:
    raise GraphError(f"the dynamic dimension {size} has no value here")


dim_p = Primitive(
    "dim", "source", _stored_aval, _refuse_dim, _without_lanes, jvp=no_tangent,
    doc="the size of a dynamic dimension, at every position",
)  # fmt: skip

variable_p = Primitive(
    "variable", "source", _stored_aval, _refuse, _without_lanes, jvp=no_tangent,
    doc="an input of a graph; arg is (depth of its scope, position)",
)  # fmt: skip

#: Those of graphs, and of them those that are alike wherever they are computed.
SOURCES = (const_p, dim_p, iota_p, variable_p)
CONSTANTS = (const_p, iota_p)


def const(
    value: Any, dtype: np.dtype[Any], shape: Shape = (), weak: bool = False
) -> Node:
    """The scalar `value`, converted to `dtype`, at every position of `shape`.

    A dynamic dimension becomes the node that reads it when the program runs.
    """
    if is_dynamic(value):
        return make_node(dim_p, ShapedArray.of(shape, dtype, weak), (), value)
    bits = constant_bits(value, dtype)
    return make_node(const_p, ShapedArray.of(shape, dtype, weak), (), bits)


def const_like(node: Node, value: Any) -> Node:
    """The scalar `value` in the shape and dtype of `node`."""
    return const(value, node.dtype, node.shape)


def zeros_like(node: Node) -> Node:
    return const(0, node.dtype, node.shape)


def iota(dtype: np.dtype[Any], shape: Shape, axis: int) -> Node:
    """The position along `axis`, at every position of `shape`."""
    if same_size(shape[axis], 1):
        return const(0, dtype, shape)
    return make_node(iota_p, ShapedArray.of(shape, dtype), (), axis)


#: Depths of variables of no scope, whose depths are 0 and more: they stand for values
#: while graphs are taken apart. Kinds that may meet in one graph differ.
DEPTHS = {
    "tangent": -1, "residual": -2, "cotangent": -7, "pullback": -15,  # of derivatives
    "body": -3, "body_tangent": -4, "batch": -5,  # of what stands for itself
    "lane": -6, "linear": -8, "total": -27,  # of scans
    "closed": -9, "saved": -10, "outer": -11, "held": -12, "known": -13,  # of calls
    "unused": -14, "rank": -16, "local": -17,
    "own": -18, "own_late": -19, "part": -20, "whole": -21,  # of what a process has
    "axis": -22, "operator": -23, "number": -51,
    "first": -24, "second": -25, "split": -26,  # of loops that become one, or several
    "slice": -40,  # and one less for each slice around
}  # fmt: skip


def variable(aval: ShapedArray, depth: int | str, index: int) -> Node:
    """Input number `index` of the scope at `depth`, or of a kind in `DEPTHS`."""
    number = DEPTHS[depth] if isinstance(depth, str) else depth
    return make_node(variable_p, aval, (), (number, index))


def variables(avals: Iterable[ShapedArray], depth: int | str) -> list[Node]:
    return [variable(aval, depth, i) for i, aval in enumerate(avals)]


def stand_ins(nodes: Iterable[Node], depth: int | str) -> list[Node]:
    """Variables in the place of these nodes."""
    return variables([node.aval for node in nodes], depth)


def is_variable(node: Node) -> bool:
    return node.op is variable_p


def scope_and_position(node: Node) -> tuple[int, int]:
    """Of a variable: the depth of its scope, and its number among the inputs."""
    return node.arg
