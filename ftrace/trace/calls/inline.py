"""Before all else: calls become what they call.

inline_calls   call(x) -> the body of the call, applied to x; name(x) -> x; arrays held
               in bodies become operands of the loops and branches that hold these
ready_graph    a graph for execution: no calls, and held arrays are captured ones
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ftrace.arrays.array import Array
from ftrace.trace.avals import TOKEN
from ftrace.trace.body import apply_body, close
from ftrace.trace.calls.captured_constant import Held, held_p
from ftrace.trace.calls.custom_derivative import forward_mode_error, vjp_tangent_p
from ftrace.trace.calls.remat_policy import name_p
from ftrace.trace.calls.subgraphs import CALLS, bodies_of, with_bodies
from ftrace.trace.calls.user_primitive import UserArg
from ftrace.trace.control.scan_types import Scan
from ftrace.trace.control.while_loop import While
from ftrace.trace.graph import (
    Body,
    Graph,
    Node,
    Op,
    has_any,
    operations_of,
    rebuild,
    substitute,
    toposort,
)
from ftrace.trace.graph_map import exchange
from ftrace.trace.primitives.barrier import IN_LOOPS, barrier, barrier_p
from ftrace.trace.primitives.primitive import item_p
from ftrace.trace.primitives.sources import is_variable, variable
from ftrace.trace.tracing.trace import match_aval
from ftrace.trace.tracing.weak_constants import widened

_HELD_DEPTH = -12
_VANISHING = (name_p, widened)


def inline_calls(outputs: Sequence[Node]) -> list[Node]:
    """The outputs without calls, also in the bodies of loops and branches.

    Raises:
      DerivativeError: a tangent is needed of a function that has none (custom_vjp).
    """
    return _Inliner().inlined(outputs)


def ready_graph(graph: Graph) -> Graph:
    """The graph as it is compiled: without calls, held arrays as captured ones."""
    tokens = graph.effects[1:]
    before = (*graph.outputs, *tokens)
    outputs = inline_calls(before)
    if tuple(outputs) == before:
        return graph
    nodes = [n for n in toposort(outputs) if n.op is item_p and n.src[0].op is held_p]
    names = [variable(n.aval, _HELD_DEPTH, i) for i, n in enumerate(nodes)]
    found = substitute(outputs, dict(zip(nodes, names, strict=True)))
    count = len(graph.outputs)
    results = [
        match_aval(new, old.aval)
        for new, old in zip(found[:count], graph.outputs, strict=True)
    ]
    return Graph(
        (*graph.inputs, *names),
        tuple(results),
        (*graph.captured, *map(_array, nodes)),
        (*graph.effects[:1], *found[count:]),
    )


def _array(node: Node) -> Array:
    arg: Held = node.src[0].arg
    return arg.array


class _Inliner:
    """One walk; what became of bodies is remembered."""

    def __init__(self) -> None:
        self.bodies: dict[tuple[Body, bool], Body] = {}

    def inlined(self, outputs: Sequence[Node], looped: bool = False) -> list[Node]:
        """The outputs; `looped` tells that they are those of the body of a loop."""
        if not any(map(_concerns, operations_of(outputs))):
            return list(outputs)
        return exchange(outputs, lambda node, src: self._change(node, src, looped))

    def _change(
        self, node: Node, src: tuple[Node, ...], looped: bool
    ) -> Node | Sequence[Node] | None:
        if node.op is vjp_tangent_p:
            raise forward_mode_error(node)
        if isinstance(node.arg, CALLS):
            return apply_body(self.body(node.arg.body, looped), src)
        if isinstance(node.arg, UserArg):
            expanded = node.arg.expanded([s.aval for s in src])
            if expanded is None:
                return None
            return apply_body(self.body(expanded, looped), src)
        if node.op is name_p:
            return src[0]
        if node.op is widened:
            return src[1]
        if node.op is barrier_p:
            vanishes = node.arg == IN_LOOPS and not looped
            return src if vanishes else _barrier(src)
        if node.op.family == "control":
            return self._holder(node, src, looped)
        return None

    def body(self, body: Body, looped: bool) -> Body:
        found = self.bodies.get((body, looped))
        if found is None:
            outputs = self.inlined(body.outputs, looped)
            found = Body(body.inputs, tuple(outputs))
            self.bodies[body, looped] = found
        return found

    def _holder(self, node: Node, src: tuple[Node, ...], looped: bool) -> Node:
        """A loop or branch: what its bodies hold becomes operands of it."""
        before = bodies_of(node.arg)
        looped = looped or isinstance(node.arg, (Scan, While))
        bodies = [self.body(body, looped) for body in before]
        held = _held_in(bodies)
        if not held:
            if tuple(bodies) == before:
                return rebuild(node, src)
            return node.op(*src, arg=with_bodies(node.arg, bodies))
        at = _place_of_constants(node.arg, src)
        names = [variable(n.aval, _HELD_DEPTH, i) for i, n in enumerate(held)]
        mapping = dict(zip(held, names, strict=True))
        first = len(src) - len(bodies[-1].inputs)  # of a branch: the index
        closed = [
            close(
                [*b.inputs[: at - first], *names, *b.inputs[at - first :]],
                substitute(b.outputs, mapping),
            )
            for b in bodies
        ]
        arg = with_bodies(node.arg, closed)
        if isinstance(arg, (Scan, While)):
            arg = replace(arg, consts=arg.consts + len(held))
        return node.op(*src[:at], *held, *src[at:], arg=arg)


def loose_tokens(outputs: Sequence[Node]) -> list[Node]:
    """Of effects that happen because something needs a result of a barrier."""
    if not has_any(outputs, (barrier_p,)):
        return []
    return [
        token
        for node in toposort(outputs)
        if node.op is barrier_p
        for token in node.src
        if token.aval is TOKEN and token.op is item_p
    ]


def _concerns(op: Op) -> bool:
    return op.family in ("call", "control", "barrier") or op in _VANISHING


def _barrier(operands: Sequence[Node]) -> list[Node]:
    """barrier(view(input)) -> view(barrier(input)): the view need not be stored."""
    views: list[list[Node]] = []
    roots: dict[Node, int] = {}
    for node in operands:
        chain: list[Node] = []
        root = node
        while root.op.family == "movement" and len(root.src) == 1:
            chain.append(root)
            root = root.src[0]
        if not is_variable(root):
            chain, root = [], node
        views.append([*chain, root])
        roots.setdefault(root, len(roots))
    behind = barrier(list(roots))
    results: list[Node] = []
    for *chain, root in views:
        result = behind[roots[root]]
        for view in reversed(chain):
            result = rebuild(view, (result,))
        results.append(result)
    return results


def _held_in(bodies: Sequence[Body]) -> list[Node]:
    """The arrays that bodies hold, each once."""
    found: dict[Node, None] = {}
    for body in bodies:
        for node in toposort(body.outputs):
            if node.op is item_p and node.src[0].op is held_p:
                found[node] = None
    return list(found)


def _place_of_constants(arg: Any, src: Sequence[Node]) -> int:
    """The position among the operands at which new constants are put."""
    return arg.consts if isinstance(arg, (Scan, While)) else len(src)
