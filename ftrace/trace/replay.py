"""A composition that was traced before, recorded again without running its Python.

Matrix products, softmax and their like are many operations each, whose shapes and
axes are worked out anew at every call. For operands of the same types the nodes are
the same but for their sources.
"""

from __future__ import annotations

from collections.abc import Sequence

from ftrace.origin import user_origin
from ftrace.trace.dims import any_dynamic
from ftrace.trace.graph import Graph, Node, make_node, making_nodes_of
from ftrace.trace.primitives.record import Primitive
from ftrace.trace.primitives.source import is_variable


class Recording:
    """The operations of a graph, in order.

    Args:
      graph: one that `is_replayable`.
    """

    __slots__ = ("_leaves", "_outputs", "_steps", "inputs")

    def __init__(self, graph: Graph) -> None:
        self.inputs = graph.inputs
        places = {node: i for i, node in enumerate(graph.inputs)}
        given = set(graph.inputs)
        nodes = [n for n in graph.nodes if n not in given]
        #: Constants and the like: these are the same in every graph.
        self._leaves = [n for n in nodes if not n.src]
        inner = [n for n in nodes if n.src]
        for node in (*self._leaves, *inner):
            places[node] = len(places)
        self._steps = [(n, tuple(places[s] for s in n.src)) for n in inner]
        self._outputs = [places[n] for n in graph.outputs]

    def replay(self, operands: Sequence[Node]) -> list[Node]:
        """The outputs for other inputs, of the same types; made at the user's line."""
        made = [*operands, *self._leaves]
        origin = user_origin()
        with making_nodes_of(origin):
            for node, sources in self._steps:
                src = tuple([made[i] for i in sources])
                new = make_node(node.op, node.aval, src, node.arg)
                new.origin = origin
                made.append(new)
        return [made[i] for i in self._outputs]


def is_replayable(graph: Graph) -> bool:
    """Is it made of its inputs and constants alone, by operations without bodies?"""
    given = set(graph.inputs)
    return (
        not graph.captured
        and not graph.effects
        and all(
            isinstance(n.op, Primitive)
            and (n in given or not is_variable(n))
            and not any_dynamic(n.aval.shape)
            for n in graph.nodes
        )
    )
