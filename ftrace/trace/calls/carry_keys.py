"""Random keys in programs: devices move the bits of a key as a number.

    key<fry>[3] = reshape x   ->   u64[3] = reshape x

Only moving operations take keys, so that all that is left of them is their dtype. It
goes before a graph is compiled; its arguments and results keep it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ftrace import dtypes
from ftrace.trace.avals import ShapedArray, Stack
from ftrace.trace.calls.inline import HOLDERS, inline_calls
from ftrace.trace.graph import (
    Body,
    Graph,
    Node,
    bodies_of,
    make_node,
    rebuild,
    rebuild_with,
    toposort,
)
from ftrace.trace.graph_map import exchange
from ftrace.trace.primitives.elementwise import bitcast


def carry_keys(graph: Graph) -> Graph:
    """The graph over numbers: keys have the dtype of their `carrier`."""
    if not _has_keys(graph.inputs, graph.outputs, {}):
        return graph
    inputs = tuple(map(_source, graph.inputs))
    outputs = tuple(_converted(inline_calls(graph.outputs)))
    return Graph(inputs, outputs, graph.captured)


def _has_keys(
    inputs: Sequence[Node], outputs: Sequence[Node], known: dict[Body, bool]
) -> bool:
    nodes = toposort(outputs)  # in the order that the next passes ask for
    found = {node.aval.dtype for node in nodes}  # few, for all the nodes
    found |= {node.aval.dtype for node in inputs}
    if any(map(dtypes.is_key, found)):
        return True
    for holder in [node for node in nodes if node.op.family in HOLDERS]:
        for body in bodies_of(holder.arg):
            if body not in known:
                known[body] = _has_keys(body.inputs, body.outputs, known)
            if known[body]:
                return True
    return False


def _converted(outputs: Sequence[Node]) -> list[Node]:
    bodies: dict[Body, Body] = {}

    def change(node: Node, src: tuple[Node, ...]) -> Node | None:
        if not node.src:
            return _source(node)
        if node.op is bitcast:
            kind = dtypes.carrier(node.dtype)
            return src[0] if src[0].dtype == kind else bitcast(*src, arg=kind)
        found = bodies_of(node.arg) if node.op.family in HOLDERS else ()
        if not found:
            return rebuild(node, src)
        for body in found:
            if body not in bodies:
                inputs = tuple(map(_source, body.inputs))
                bodies[body] = Body(inputs, tuple(_converted(body.outputs)))
        return rebuild_with(node, src, [bodies[body] for body in found])

    return exchange(outputs, change)


def _source(node: Node) -> Node:
    """A node without operands, of numbers."""
    aval = _carried(node.aval)
    return node if aval is node.aval else make_node(node.op, aval, (), node.arg)


def _carried(aval: ShapedArray) -> Any:
    if isinstance(aval, Stack):
        return Stack.of_element(_carried(aval.element), aval.lanes)
    if dtypes.is_key(aval.dtype):
        return aval.with_dtype(dtypes.carrier(aval.dtype))
    return aval
