"""From a function to its graph, and from a graph back to traced values.

trace    runs a function on tracers: what it did is the graph
inline   a graph, once more, as operations of a scope
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from inspect import isframe
from typing import Any

from ftrace.errors import TracingError
from ftrace.ground import settings
from ftrace.ground.spans import span
from ftrace.trace.avals import TOKEN, ShapedArray
from ftrace.trace.graph import Graph, Node, nodes_of, substitute
from ftrace.trace.primitives import sources
from ftrace.trace.primitives.elementwise import cast
from ftrace.trace.primitives.primitive import Compound
from ftrace.trace.tracing import scopes
from ftrace.trace.tracing.scopes import Scope
from ftrace.trace.tracing.tracer import Tracer, Value, stack


def trace(
    transform: str,
    function: Callable[..., Sequence[Value]],
    avals: Sequence[ShapedArray],
    bindings: Sequence[scopes.Binding] | None = None,
    along: int = 0,
    known: Sequence[Value] | None = None,
    exact: bool = False,
    meant: Sequence[Value] = (),
) -> Graph:
    """Runs `function` on tracers, one per aval; its results become a graph.

    Args:
      transform: for messages.
      function: returns a flat list of values.
      avals: the types of the arguments.
      bindings: their values, where Python may ask for them.
      along: so many of the last arguments are tangents of the others of inexact dtype.
      known: of arguments that Python may ask for, though others have no values, what
        they stand for; None for the others.
      exact: an argument that is a weak scalar may have 64 bits in the graph.
      meant: what the arguments stand for, whatever Python may ask for.

    Returns:
      The graph. It may use variables of scopes around this one.
    """
    with scopes.returning():
        # A composition of ours within a trace is a part of that.
        within = transform == "eager" and bool(stack.scopes)
        told = nullcontext() if within else span("trace", transform, None)
        with told, Scope(transform) as scope:
            scope.bound, scope.exact = bindings is not None, exact
            scope.arguments, scope.along, scope.meant = len(avals), along, meant
            values = bindings or known or [None] * len(avals)
            rows = zip(avals, values, strict=True)
            tracers = [scope.input(*row) for row in rows]
            outputs = tuple(scope.lift(x) for x in function(*tracers))
            captured = tuple(scope.captured)
            # The scope lives as long as a tracer does; residuals need not.
            level, scope.level = scope.level, None
            graph = Graph(tuple(scope.inputs), outputs, captured, scope.tokens, level)
            graph = _with_wide(graph, scope.wide) if scope.wide else graph
        if settings.current().check_tracer_leaks:
            del tracers
            _check_leaks(scope)
        return graph


def _check_leaks(scope: Scope) -> None:
    """Raises where a traced value outlives its function."""
    gc.collect()
    objects = gc.get_objects()
    found = [x for x in objects if type(x) is Tracer and x.scope is scope]
    # What scopes hold stays as long as a rule that is traced later needs it.
    inner = [vars(x).values() for x in objects if type(x) is Scope]
    own = {id(objects), id(found), *(id(held) for values in inner for held in values)}
    kept = [
        x
        for x in found
        if any(id(y) not in own and not isframe(y) for y in gc.get_referrers(x))
    ]
    if kept:
        first = kept[0]
        made = f", made at {first.origin.describe()}" if first.origin else ""
        raise TracingError(
            f"Leaked trace: {len(kept)} traced values of a function under "
            f"{scope.transform} are kept by something after it has returned; the first "
            f"has type {first.aval!r}{made}. Return them instead of storing them"
        )


def _with_wide(graph: Graph, wide: dict[int, Node]) -> Graph:
    """The graph with some arguments at 64 bits."""
    inputs = list(graph.inputs)
    mapping: dict[Node, Node] = {}
    for position, node in wide.items():
        narrow = inputs[position].aval
        mapping[inputs[position]] = cast(node, narrow.dtype, narrow.weak_type)
        inputs[position] = node
    graph = graph.with_ends(substitute(graph.ends, mapping))
    return replace(graph, inputs=tuple(inputs))


def outer_scope(graph: Graph, operands: Sequence[Value]) -> Scope | None:
    """The scope in which a graph is applied: of its operands and free variables."""
    if graph.effects and scopes.current_scope() is not None:
        return scopes.current_scope()
    scope = scopes.scope_of(operands)
    for node in free_variables(graph):
        depth, _ = sources.scope_and_position(node)
        if scope is None or depth > scope.depth:
            scope = stack.scopes[depth]
    return scope


def free_variables(graph: Graph) -> list[Node]:
    """Tracers of transforms around it, which the graph uses."""
    own = {*graph.inputs, *graph.effects}
    nodes = nodes_of((*graph.outputs, *graph.effects))
    return [n for n in nodes if sources.is_variable(n) and n not in own]


def effects_as_output(graph: Graph) -> Graph:
    """The graph with the token after its effects as last output, before them zero."""
    if not graph.effects:
        return graph
    before, after = graph.effects
    start = sources.const(0, TOKEN.dtype)
    outputs = substitute((*graph.outputs, after), {before: start})
    return Graph(graph.inputs, tuple(outputs), graph.captured)


def has_free_variables(graph: Graph) -> bool:
    """Does it use tracers of a transform around it?"""
    return bool(free_variables(graph))


def inline(graph: Graph, operands: Sequence[Value], scope: Scope) -> list[Tracer]:
    """The outputs of a graph for these arguments, as tracers of `scope`."""
    values = [*operands, *graph.captured]
    mapping = {
        node: lift_as(scope, value, node.aval)
        for node, value in zip(graph.inputs, values, strict=True)
    }
    if graph.effects:
        before, after = graph.effects
        mapping[before] = current_token(scope)
        *nodes, token = substitute((*graph.outputs, after), mapping)
        scope.tokens = (scope.tokens[0], token)
    else:
        nodes = substitute(graph.outputs, mapping)
    return [Tracer(node, scope) for node in nodes]


def current_token(scope: Scope) -> Node:
    """The token after the last effect of the scope."""
    if not scope.tokens:
        # Its position is no argument's: whoever runs the graph gives it any value.
        first = sources.variable(TOKEN, scope.depth, -1)
        scope.tokens = (first, first)
    return scope.tokens[-1]


def record_compound(
    scope: Scope, op: Compound, nodes: Sequence[Node], arg: Any, token: int = -1
) -> list[Tracer]:
    """The results of an operation in a scope, but for the token of its effects.

    Args:
      token: at which operand that stands; -1 if it has no effects.
    """
    operands = list(nodes)
    if token >= 0:
        operands.insert(token, current_token(scope))
    results = op.results(*operands, arg=arg)
    for node in results:
        if node.aval is TOKEN:
            scope.tokens = (scope.tokens[0], node)
    return [Tracer(node, scope) for node in results if node.aval is not TOKEN]


def match_aval(node: Node, aval: ShapedArray) -> Node:
    """`node`, cast if only dtype or weakness differ from `aval`."""
    if node.aval is aval:
        return node
    return scopes.as_type(node, aval.dtype, aval.weak_type)


def lift_as(scope: Scope, value: Value, aval: ShapedArray) -> Node:
    """The node of a value of this shape; a number of Python's with all its bits."""
    if type(value) in (float, complex):
        return sources.const(value, aval.dtype, (), aval.weak_type)
    return match_aval(scope.lift(value), aval)
