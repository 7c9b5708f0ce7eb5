"""Bodies: the closed graphs that loops, branches and calls hold.

trace_body   a user's function -> Draft: its graph, and what it took from outside
close        inputs, outputs -> Body with canonical variables
linearize    body -> what it must remember, and its derivative as a linear graph
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest

from ftrace import dtypes
from ftrace.errors import GraphError
from ftrace.ground import settings
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.ground.tables import memo
from ftrace.trace.autodiff import jvp_nodes, split_known
from ftrace.trace.avals import TOKEN, ShapedArray, Stack
from ftrace.trace.effects import check_repeatable, rehearsal
from ftrace.trace.evaluate import Plan
from ftrace.trace.graph import Body, Node, dependents, substitute, toposort
from ftrace.trace.primitives.elementwise import cast
from ftrace.trace.primitives.sources import is_variable, variable, zeros_like
from ftrace.trace.tracing.scopes import Scope, restore, standing
from ftrace.trace.tracing.tracer import Value

#: Depths of variables that belong to no scope: of bodies, and of their tangents.
BODY_DEPTH = -3
BODY_TANGENT_DEPTH = -4


def close(inputs: Sequence[Node], outputs: Sequence[Node]) -> Body:
    """The body with these inputs: variables, of which the outputs use no others."""
    names = [variable(n.aval, BODY_DEPTH, i) for i, n in enumerate(inputs)]
    mapping = {old: new for old, new in zip(inputs, names, strict=True) if old != new}
    found = substitute(outputs, mapping) if mapping else outputs
    if settings.current().check_specs:
        check_closed(names, found)
    return Body(tuple(names), tuple(found))


def check_closed(inputs: Sequence[Node], outputs: Sequence[Node]) -> None:
    """Raises GraphError where outputs use variables that are no inputs."""
    own = set(inputs)
    for node in toposort(outputs):
        if is_variable(node) and node not in own:
            raise GraphError(f"a body uses {node!r}, which is none of its inputs")


def apply_body(body: Body, operands: Sequence[Node]) -> list[Node]:
    """The outputs of a body for these operands, as nodes of the graph around it."""
    return substitute(body.outputs, dict(zip(body.inputs, operands, strict=True)))


@memo(1024)
def plan_of(body: Body) -> Plan:
    """The NumPy evaluation of a body: call it on one array per input."""
    return Plan(body.outputs, body.inputs)


@dataclass(frozen=True)
class Draft:
    """A function that was traced to become a body.

    Attributes:
      arguments: its variables.
      outputs: what it returned.
      free: variables that stand for values of scopes around it.
      values: these values.
      effects: the tokens before and after its effects, or ().
      wide: positions of arguments that are weak scalars, of which it wanted all bits.
      exact: positions of an argument that is a weak scalar, and of the free variable
        that is the same with all bits.
    """

    arguments: tuple[Node, ...]
    outputs: tuple[Node, ...]
    free: tuple[Node, ...]
    values: tuple[Value, ...]
    effects: tuple[Node, ...]
    wide: tuple[int, ...] = ()
    exact: tuple[tuple[int, int], ...] = ()


def trace_body(
    transform: str,
    function: Callable[..., Sequence[Value]],
    avals: Sequence[ShapedArray],
    given: Sequence[Value] = (),
) -> Draft:
    """Traces a function that will run at times of its own: all it uses is an input.

    Args:
      given: what the first arguments stand for.
    """
    state, count = standing(), len(avals)
    try:
        with Scope(transform, isolated=True) as scope:
            scope.exact, scope.arguments = True, count
            rows = zip_longest(avals, given)
            tracers = [scope.input(aval, None, value) for aval, value in rows]
            outputs = tuple(scope.lift(x) for x in function(*tracers))
            if scope.wide:
                rounded = {
                    wide: cast(tracers[i].node, wide.dtype, True)
                    for i, wide in scope.wide.items()
                }
                outputs = tuple(substitute(outputs, rounded))
                scope.tokens = tuple(substitute(scope.tokens, rounded))
            inputs = tuple(scope.inputs)
            imported = tuple(scope.imported)
            return Draft(
                inputs[:count], outputs, inputs[count:], imported, scope.tokens,
                tuple(scope.wide),
            )  # fmt: skip
    except BaseException:
        restore(state)
        raise


@dataclass(frozen=True)
class Linearized:
    """The derivative of a body.

    Attributes:
      tangents: for each input the variable of its tangent; None where it has none.
      outputs: for each output its tangent, linear in these; None is zero.
      residuals: what the tangents need of the body's own values: nodes of the body.
    """

    tangents: tuple[Node | None, ...]
    outputs: tuple[Node | None, ...]
    residuals: tuple[Node, ...]


@memo(4096)
def linearize(body: Body, varying: tuple[bool, ...]) -> Linearized:
    """The derivative of a body in those inputs that vary."""
    tangents = tuple(
        _tangent_of(node, i) if varies and dtypes.is_inexact(node.dtype) else None
        for i, (node, varies) in enumerate(zip(body.inputs, varying, strict=True))
    )
    leaves = {
        node: tangent
        for node, tangent in zip(body.inputs, tangents, strict=True)
        if tangent is not None
    }
    outputs = tuple(
        None if t is None else _strong(t, node)
        for t, node in zip(jvp_nodes(body.outputs, leaves), body.outputs, strict=True)
    )
    moving = [t for t in outputs if t is not None]
    residuals = split_known(moving, list(leaves.values()))
    again = {n: rehearsal() for n in residuals if n.aval is TOKEN}
    if again:  # what is run again for its stacks has had its effects
        moving = substitute(moving, again)
        check_repeatable(moving)
        rest = iter(moving)
        outputs = tuple(None if t is None else next(rest) for t in outputs)
    kept = tuple(n for n in residuals if n not in again)
    return Linearized(tangents, outputs, kept)


def _tangent_of(node: Node, position: int) -> Node:
    aval = node.aval if isinstance(node.aval, Stack) else node.aval.strong()
    return variable(aval, BODY_TANGENT_DEPTH, position)


def _strong(tangent: Node, primal: Node) -> Node:
    if isinstance(tangent.aval, Stack):
        return tangent
    return cast(tangent, primal.dtype)


def varying_carry(
    body: Body, flags: Sequence[bool], carry: range
) -> tuple[tuple[bool, ...], Linearized]:
    """Which inputs of a loop's body vary once the carry has gone around.

    Args:
      body: its first outputs are the next values of the inputs `carry`.
      flags: which inputs vary at first.

    Returns:
      The flags with those of the carry complete, and the derivative for them.
    """
    current = list(flags)
    while True:
        found = linearize(body, tuple(current))
        before = list(current)
        for k, i in enumerate(carry):
            if found.outputs[k] is not None:
                current[i] = True
        if current == before:
            return tuple(current), found


def depends_on(nodes: Sequence[Node], leaves: Sequence[Node]) -> set[Node]:
    """Those of the nodes, and what is below them, that use one of the leaves."""
    return set(dependents(nodes, leaves))


def or_zeros(node: Node | None, like: Node) -> Node:
    """The node, or zeros in the type of another one."""
    return node if node is not None else strong_zeros(like)


def strong_zeros(like: Node) -> Node:
    assert not isinstance(like.aval, Stack), "an empty stack is no value"
    return zeros_like(like)
