"""What is differentiated by a rule is also computed by it.

A call with a rule is a node of its own, and its tangents are others. Once a derivative
has been taken, the values that the rule computes take the place of the call's: the rule
is the one to say what is computed under differentiation, and nothing is done twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ftrace.trace.calls.custom_derivative import custom_jvp_p, custom_vjp_p, follow
from ftrace.trace.calls.subgraphs import HOLDERS, bodies_of, with_bodies
from ftrace.trace.graph import Body, Node, dependents, nodes_of, operations_of, rebuild
from ftrace.trace.graph_map import exchange

_RULED = (custom_jvp_p, custom_vjp_p)


def follow_rules(outputs: Sequence[Node], leaves: Iterable[Node]) -> list[Node]:
    """The outputs, where calls that vary with the leaves are computed by their rules.

    Args:
      outputs: values and their derivatives.
      leaves: what was differentiated.
    """
    if not has_rules(outputs, {}):
        return list(outputs)
    return _Follower().followed(outputs, set(dependents(outputs, leaves)))


def has_rules(outputs: Sequence[Node], known: dict[Body, bool]) -> bool:
    """Does a call with a rule stand among the nodes, or in bodies that they hold?"""
    ops = operations_of(outputs)
    if not ops.keys().isdisjoint(_RULED):
        return True
    holders = {op for op in ops if op.family in HOLDERS}
    for node in nodes_of(outputs) if holders else ():
        for body in bodies_of(node.arg) if node.op in holders else ():
            if body not in known:
                known[body] = has_rules(body.outputs, known)
            if known[body]:
                return True
    return False


class _Follower:
    """One walk; what became of bodies is remembered."""

    def __init__(self) -> None:
        self.bodies: dict[Body, Body] = {}

    def followed(self, outputs: Sequence[Node], varying: set[Node]) -> list[Node]:
        def change(node: Node, src: tuple[Node, ...]) -> Node | Sequence[Node]:
            new = self._rebuilt(node, src, varying)
            found = follow(new) if node in varying else None
            return new if found is None else found

        return exchange(outputs, change)

    def _rebuilt(self, node: Node, src: tuple[Node, ...], varying: set[Node]) -> Node:
        if node.op.family in HOLDERS and node not in varying:
            return rebuild(node, src)
        bodies = bodies_of(node.arg) if node.op.family in HOLDERS else ()
        if node.op in _RULED or not bodies:
            return rebuild(node, src)
        found = [self._body(body) for body in bodies]
        if tuple(found) == bodies:
            return rebuild(node, src)
        return node.op(*src, arg=with_bodies(node.arg, found))

    def _body(self, body: Body) -> Body:
        found = self.bodies.get(body)
        if found is None:
            outputs = self.followed(body.outputs, nodes_of(body.outputs))
            found = self.bodies[body] = Body(body.inputs, tuple(outputs))
        return found
