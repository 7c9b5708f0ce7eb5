"""Calls and bodies in graphs: found, replaced, and taken away before all else.

follow_rules   what is differentiated by a rule is also computed by it
inline_calls   call(x) -> the body of the call, applied to x; name(x) -> x, and so for
               constraints; arrays held in bodies become operands of the loops and
               branches that hold these
ready_graph    a graph for execution: no calls, and held arrays are captured ones
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from ftrace import dtypes
from ftrace.trace import graph as g
from ftrace.trace.arrays.array import Array
from ftrace.trace.avals import TOKEN
from ftrace.trace.body import apply_body, close
from ftrace.trace.calls import custom_derivative
from ftrace.trace.calls.checkpoint import checkpoint_p, name_p
from ftrace.trace.calls.rule_graphs import Call, Held, held_p
from ftrace.trace.calls.user_primitive import UserArg
from ftrace.trace.control.conditional import While
from ftrace.trace.control.scan import Scan
from ftrace.trace.effects import callback_p
from ftrace.trace.graph_map import exchange
from ftrace.trace.primitives.elementwise import constraint_p
from ftrace.trace.primitives.primitive import IN_LOOPS, barrier, barrier_p, item_p
from ftrace.trace.primitives.reduction import pvary_p
from ftrace.trace.primitives.sources import const, is_variable, stand_ins
from ftrace.trace.tracing.trace import match_aval
from ftrace.trace.tracing.weak_constants import widened

_RULED = (custom_derivative.custom_jvp_p, custom_derivative.custom_vjp_p)
_VANISHING = (name_p, constraint_p, widened, pvary_p, callback_p)


# Rules. A call with a rule is a node of its own, and its tangents are others. Once a
# derivative has been taken, the values that the rule computes take the place of the
# call's: the rule is the one to say what is computed under differentiation, and nothing
# is done twice.


def follow_rules(outputs: Sequence[g.Node], leaves: Iterable[g.Node]) -> list[g.Node]:
    """The outputs, where calls that vary with the leaves are computed by their rules.

    Args:
      outputs: values and their derivatives.
      leaves: what was differentiated.
    """
    if not any(g.has_any(inner, _RULED) for inner in g.graphs_within(outputs)):
        return list(outputs)
    return _Follower().follow(outputs, set(g.dependents(outputs, leaves)))


class _Walk:
    """One walk; what became of bodies is remembered."""

    def __init__(self) -> None:
        self.bodies: dict[tuple[g.Body, bool], g.Body] = {}


class _Follower(_Walk):
    def follow(
        self, outputs: Sequence[g.Node], varying: set[g.Node], again: bool = False
    ) -> list[g.Node]:
        """`again` tells that they are those of a checkpoint."""

        def change(node: g.Node, src: tuple[g.Node, ...]) -> g.Node | Sequence[g.Node]:
            new = self._rebuild(node, src, varying, again)
            asked = node in varying and not (again and _is_spared(new))
            found = custom_derivative.follow(new) if asked else None
            return new if found is None else found

        return exchange(outputs, change)

    def _rebuild(
        self, node: g.Node, src: tuple[g.Node, ...], varying: set[g.Node], again: bool
    ) -> g.Node:
        if node.op.family in g.HOLDERS and node not in varying:
            return g.rebuild(node, src)
        bodies = g.bodies_of(node.arg) if node.op.family in g.HOLDERS else ()
        if node.op in _RULED or not bodies:
            return g.rebuild(node, src)
        again = again or node.op is checkpoint_p
        return g.rebuild_with(node, src, [self._body(body, again) for body in bodies])

    def _body(self, body: g.Body, again: bool) -> g.Body:
        found = self.bodies.get((body, again))
        if found is None:
            outputs = self.follow(body.outputs, g.nodes_of(body.outputs), again)
            found = self.bodies[body, again] = g.Body(body.inputs, tuple(outputs))
        return found


def _is_spared(node: g.Node) -> bool:
    return isinstance(node.arg, custom_derivative.Ruled) and node.arg.spared


# Calls become what they call.


def _no_constraint(constraint: Any) -> None:
    return None


def inline_calls(
    outputs: Sequence[g.Node], over: Callable[[Any], Any] = _no_constraint,
    told: bool = False,
) -> list[g.Node]:  # fmt: skip
    """The outputs without calls, also in the bodies of loops and branches.

    Args:
      over: what a constraint of how a value is divided is for who divides it; None is
        nothing.
      told: keep callbacks that are told how values lie; nothing runs them.

    Raises:
      DerivativeError: a tangent is needed of a function that has none (custom_vjp).
    """
    return _Inliner(over, told).inline(outputs)


def ready_graph(
    graph: g.Graph, over: Callable[[Any], Any] = _no_constraint, told: bool = False
) -> g.Graph:
    """The graph as it is compiled: without calls, held arrays as captured ones."""
    before = graph.ends
    outputs = inline_calls(before, over, told)
    if tuple(outputs) == before and not g.has_any(before, (held_p,)):
        return graph
    nodes = [n for n in g.toposort(outputs) if n.op is item_p and n.src[0].op is held_p]
    names = stand_ins(nodes, "held")
    found = g.substitute(outputs, dict(zip(nodes, names, strict=True)))
    count = len(graph.outputs)
    tokens = (*graph.effects[:1], *found[count:])
    results = [
        match_aval(new, old.aval)
        for new, old in zip(found[:count], graph.outputs, strict=True)
    ]
    return g.Graph(
        (*graph.inputs, *names),
        tuple(results),
        (*graph.captured, *map(_array, nodes)),
        # Where the first is the last nothing has effects any more.
        tokens if len({*tokens}) > 1 else (),
    )


def _array(node: g.Node) -> Array:
    arg: Held = node.src[0].arg
    return arg.array


class _Inliner(_Walk):
    def __init__(self, over: Callable[[Any], Any], told: bool) -> None:
        super().__init__()
        self._over, self._told = over, told

    def inline(self, outputs: Sequence[g.Node], looped: bool = False) -> list[g.Node]:
        """The outputs; `looped` tells that they are those of the body of a loop."""
        if not any(map(_concerns, g.operations_of(outputs))):
            return list(outputs)
        return exchange(outputs, lambda node, src: self._change(node, src, looped))

    def _change(
        self, node: g.Node, src: tuple[g.Node, ...], looped: bool
    ) -> g.Node | Sequence[g.Node] | None:
        if node.op is custom_derivative.vjp_tangent_p:
            raise custom_derivative.forward_mode_error(node.arg.name, node.origin)
        if isinstance(node.arg, Call):
            return apply_body(self.body(node.arg.body, looped), src)
        if isinstance(node.arg, UserArg):
            expanded = node.arg.expand(src)
            if expanded is None:
                return None
            return apply_body(self.body(expanded, looped), src)
        if node.op is name_p:
            return src[0]
        if node.op is constraint_p:
            constraint = self._over(node.arg)
            return constraint_p(*src, arg=constraint) if constraint else src[0]
        if node.op is callback_p and node.arg.is_told and not self._told:
            return src[:1]
        if node.op is widened:
            return src[1]
        if node.op in (pvary_p, custom_derivative.varies_as_p):
            return src[:1]  # a loop that is run for each device has its own
        if node.op is custom_derivative.where_varies_p:
            return [const(0, dtypes.int32)]
        if node.op is barrier_p:
            vanishes = node.arg == IN_LOOPS and not looped
            return src if vanishes else _barrier(src)
        if node.op.family == "control":
            return self._holder(node, src, looped)
        return None

    def body(self, body: g.Body, looped: bool) -> g.Body:
        found = self.bodies.get((body, looped))
        if found is None:
            outputs = self.inline(body.outputs, looped)
            found = g.Body(body.inputs, tuple(outputs))
            self.bodies[body, looped] = found
        return found

    def _holder(self, node: g.Node, src: tuple[g.Node, ...], looped: bool) -> g.Node:
        """A loop or branch: what its bodies hold becomes operands of it."""
        looped = looped or isinstance(node.arg, (Scan, While))
        bodies = [self.body(body, looped) for body in g.bodies_of(node.arg)]
        return take_in(node, src, bodies, _constants_of(bodies))


def take_in(
    node: g.Node,
    src: tuple[g.Node, ...],
    bodies: Sequence[g.Body],
    used: Sequence[g.Node],
) -> g.Node:
    """`rebuild_with`, where the bodies use some nodes from around, as operands more."""
    if not used:
        return g.rebuild_with(node, src, bodies)
    at = _position_of_constants(node.arg, src)
    names = stand_ins(used, "held")
    mapping = dict(zip(used, names, strict=True))
    first = len(src) - len(bodies[-1].inputs)  # of a branch: the index
    closed = [
        close(
            [*b.inputs[: at - first], *names, *b.inputs[at - first :]],
            g.substitute(b.outputs, mapping),
        )
        for b in bodies
    ]
    arg = g.with_bodies(node.arg, closed)
    if isinstance(arg, (Scan, While)):
        arg = replace(arg, consts=arg.consts + len(used))
    return node.op(*src[:at], *used, *src[at:], arg=arg)


def loose_tokens(outputs: Sequence[g.Node]) -> list[g.Node]:
    """Of effects that happen because something needs a result of a barrier."""
    if not g.has_any(outputs, (barrier_p,)):
        return []
    return [
        token
        for node in g.toposort(outputs)
        if node.op is barrier_p
        for token in node.src
        if token.aval is TOKEN and token.op is item_p
    ]


def _concerns(op: g.Op) -> bool:
    return op.family in ("call", "control", "barrier") or op in _VANISHING


def _barrier(operands: Sequence[g.Node]) -> list[g.Node]:
    """barrier(view(input)) -> view(barrier(input)): the view need not be stored."""
    views: list[list[g.Node]] = []
    roots: dict[g.Node, int] = {}
    for node in operands:
        chain: list[g.Node] = []
        root = node
        while root.op.family == "movement" and len(root.src) == 1:
            chain.append(root)
            root = root.src[0]
        if not is_variable(root):
            chain, root = [], node
        views.append([*chain, root])
        roots.setdefault(root, len(roots))
    behind = barrier(list(roots))
    results: list[g.Node] = []
    for *chain, root in views:
        result = behind[roots[root]]
        for view in reversed(chain):
            result = g.rebuild(view, (result,))
        results.append(result)
    return results


def _constants_of(bodies: Sequence[g.Body]) -> list[g.Node]:
    """The arrays that bodies hold, each once."""
    found: dict[g.Node, None] = {}
    for body in bodies:
        for node in g.toposort(body.outputs):
            if node.op is item_p and node.src[0].op is held_p:
                found[node] = None
    return list(found)


def _position_of_constants(arg: Any, src: Sequence[g.Node]) -> int:
    """The position among the operands at which new constants are put."""
    if isinstance(arg, (Scan, While)):
        return arg.consts
    return 0 if isinstance(arg, Call) else len(src)  # of a call the last is a token
