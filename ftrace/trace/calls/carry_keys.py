"""Random keys and numbers of few bits in programs: devices move their bits.

    key<fry>[3] = reshape x   ->   u64[3] = reshape x
    f8_e5m2[3] = reshape x    ->   u8[3] = reshape x

Only moving operations take keys, and beside them casts numbers of few bits, so that all
that is left of them is their dtype. It goes before a graph is compiled; its arguments
and results keep it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ftrace import dtypes
from ftrace.trace.avals import ShapedArray, Stack
from ftrace.trace.calls.inline import HOLDERS, inline_calls
from ftrace.trace.calls.narrow_casts import narrow, widen
from ftrace.trace.graph import (
    Body,
    Graph,
    Node,
    bodies_of,
    constant_value,
    make_node,
    rebuild,
    rebuild_with,
    toposort,
)
from ftrace.trace.graph_map import exchange
from ftrace.trace.primitives.elementwise import bitcast, cast, cast_p
from ftrace.trace.primitives.sources import const, const_p, iota_p


def carry_keys(graph: Graph) -> Graph:
    """The graph over numbers: what they carry has the dtype of its `carrier`."""
    if not _has_carried(graph.inputs, graph.outputs, {}):
        return graph
    inputs = tuple(map(_source, graph.inputs))
    outputs = tuple(_converted(inline_calls(graph.outputs)))
    return Graph(inputs, outputs, graph.captured)


def _has_carried(
    inputs: Sequence[Node], outputs: Sequence[Node], known: dict[Body, bool]
) -> bool:
    nodes = toposort(outputs)  # in the order that the next passes ask for
    found = {node.aval.dtype for node in nodes}  # few, for all the nodes
    found |= {node.aval.dtype for node in inputs}
    if any(map(dtypes.is_carried, found)):
        return True
    for holder in [node for node in nodes if node.op.family in HOLDERS]:
        for body in bodies_of(holder.arg):
            if body not in known:
                known[body] = _has_carried(body.inputs, body.outputs, known)
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
        if node.op is cast_p:
            return _cast(node, src[0])
        found = bodies_of(node.arg) if node.op.family in HOLDERS else ()
        if not found:
            return rebuild(node, src)
        for body in found:
            if body not in bodies:
                inputs = tuple(map(_source, body.inputs))
                bodies[body] = Body(inputs, tuple(_converted(body.outputs)))
        return rebuild_with(node, src, [bodies[body] for body in found])

    return exchange(outputs, change)


def _cast(node: Node, x: Node) -> Node:
    """A cast from or to a dtype of few bits, of the codes of its numbers."""
    source, target = node.src[0].dtype, node.dtype
    if source == target:
        return x
    wide = widen(x, source) if dtypes.is_narrow(source) else x
    if dtypes.is_narrow(target):
        return narrow(wide, target)
    return cast(wide, target, node.aval.weak_type)


def _source(node: Node) -> Node:
    """A node without operands, of numbers that programs move."""
    aval = _carried(node.aval)
    if aval is node.aval:
        return node
    if dtypes.is_narrow(node.dtype) and node.op is const_p:
        code: Any = constant_value(node).view(aval.dtype)
        return const(code, aval.dtype, aval.shape)
    if dtypes.is_narrow(node.dtype) and node.op is iota_p:
        wide = make_node(node.op, aval.with_dtype(dtypes.float32), (), node.arg)
        return narrow(wide, node.dtype)
    return make_node(node.op, aval, (), node.arg)


def _carried(aval: ShapedArray) -> Any:
    if isinstance(aval, Stack):
        return Stack.of_element(_carried(aval.element), aval.lanes)
    if dtypes.is_carried(aval.dtype):
        return aval.with_dtype(dtypes.carrier(aval.dtype))
    return aval
