"""Loops and branches that do the same thing become one.

    scan(x, body -> a), scan(x, body -> a, b)  ->  scan(x, body -> a, b)

The derivative of a loop is a linear loop over what the loop must remember, and this
comes from the loop once more, with more results. What is computed twice would cost
time; an effect that happens twice is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ftrace.ground.fast_dataclasses import dataclass
from ftrace.trace.control.conditional import Branches, While, cond_p, while_p
from ftrace.trace.control.scan import Scan, scan_p
from ftrace.trace.graph import Body, Graph, Node, toposort
from ftrace.trace.graph_map import exchange
from ftrace.trace.primitives.primitive import items
from ftrace.trace.tracing.trace import effects_as_output

_CONTROL = (scan_p, while_p, cond_p)


@dataclass(frozen=True)
class _Merged:
    """What becomes of a node: its argument, and where each of its results is now."""

    arg: Any
    places: list[int]


def closed_graph(graph: Graph) -> Graph:
    """The graph as it is run: its last token is an output, no effect is there twice."""
    if not graph.effects:
        return graph
    whole = effects_as_output(graph)
    return replace(whole, outputs=tuple(merge_control(whole.outputs)))


def merge_control(outputs: Sequence[Node]) -> list[Node]:
    """The outputs with loops and branches over the same operands merged."""
    nodes = toposort(outputs)
    groups: dict[Any, list[Node]] = {}
    for node in nodes:
        if node.op in _CONTROL:
            groups.setdefault((node.op, node.src, _frame(node.arg)), []).append(node)
    if not groups:
        return list(outputs)
    merged: dict[Node, _Merged] = {}
    for group in groups.values():
        merged.update(zip(group, _merge([n.arg for n in group]), strict=True))

    def change(node: Node, src: tuple[Node, ...]) -> Sequence[Node] | None:
        if node not in merged:
            return None
        results = items(node.op(*src, arg=merged[node].arg))
        return [results[place] for place in merged[node].places]

    return exchange(outputs, change)


def _frame(arg: Any) -> Any:
    """What must be equal for two of them to become one, beside the carry."""
    if isinstance(arg, Branches):
        return tuple(body.inputs for body in arg.bodies)
    if isinstance(arg, While):
        return arg.cond, arg.consts, arg.body.inputs
    assert isinstance(arg, Scan)
    return arg.body.inputs, arg.length, arg.reverse, arg.consts, arg.carry


def _merge(args: Sequence[Any]) -> list[_Merged]:
    """One argument for all of them where that is possible."""
    rows = [_columns(arg) for arg in args]
    merged = _merge_columns([column for row in rows for column in row])
    found: list[list[tuple[Node, ...]]] = []
    for row in rows:
        found.append(merged[: len(row)])
        merged = merged[len(row) :]
    # The carry goes around: it is the same in all, or they are not the same loop.
    carry = 0 if isinstance(args[0], Branches) else args[0].carry
    if any(row[:carry] != found[0][:carry] for row in found):
        return [
            _Merged(_with_columns(arg, row), list(range(len(row))))
            for arg, row in zip(args, found, strict=True)
        ]
    union = list(found[0])
    places: list[list[int]] = []
    for row in found:
        mine = list(range(carry))
        for column in row[carry:]:
            if column not in union[carry:]:
                union.append(column)
            mine.append(union.index(column, carry))
        places.append(mine)
    arg = _with_columns(args[0], union)
    return [_Merged(arg, mine) for mine in places]


def _columns(arg: Any) -> list[tuple[Node, ...]]:
    """For each result the node, or the nodes, that compute it."""
    if isinstance(arg, Branches):
        return list(zip(*(body.outputs for body in arg.bodies), strict=True))
    return [(node,) for node in arg.body.outputs]


def _with_columns(arg: Any, columns: Sequence[tuple[Node, ...]]) -> Any:
    if isinstance(arg, Branches):
        outputs = zip(*columns, strict=True) if columns else [()] * len(arg.bodies)
        bodies = zip(arg.bodies, outputs, strict=True)
        return Branches(tuple(Body(body.inputs, tuple(o)) for body, o in bodies))
    outputs = tuple(node for (node,) in columns)
    return replace(arg, body=Body(arg.body.inputs, outputs))


def _merge_columns(columns: list[tuple[Node, ...]]) -> list[tuple[Node, ...]]:
    """The columns after what is inside of them has been merged, branch by branch."""
    if not columns:
        return []
    branches = [merge_control(nodes) for nodes in zip(*columns, strict=True)]
    return list(zip(*branches, strict=True))
