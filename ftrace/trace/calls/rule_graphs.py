"""Users' functions as graphs: of a call at once, of a rule when it is asked for.

trace_call   a function that is called now -> its graph and what it closed over
Rule         a function that a transform may ask for later
widen        a body for one example -> for a batch
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from ftrace.errors import UnexpectedTracerError
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.trace.avals import REHEARSAL, TOKEN, ShapedArray
from ftrace.trace.batching import batch_nodes
from ftrace.trace.body import Draft, close
from ftrace.trace.calls.captured_constant import held
from ftrace.trace.control.scan import batched_inputs
from ftrace.trace.evaluate import evaluate
from ftrace.trace.graph import Body, Node, substitute, toposort
from ftrace.trace.primitives import sources
from ftrace.trace.primitives.barrier import barrier
from ftrace.trace.primitives.broadcast import broadcast_leading
from ftrace.trace.primitives.primitive import Compound
from ftrace.trace.tracing.scopes import (
    Scope,
    current_scope,
    open_scopes,
    restore,
    scope_of,
    standing,
)
from ftrace.trace.tracing.trace import current_token
from ftrace.trace.tracing.tracer import Tracer, Value, aval_of
from ftrace.trace.tracing.weak_constants import widened

_CLOSED_DEPTH = -9
Flat = Callable[..., Sequence[Value]]


class _CallScope(Scope):
    """The scope of a function that is called now: what it uses may have values."""

    def import_tracer(self, value: Tracer) -> Node:
        node = super().import_tracer(value)
        self.bindings[self.inputs.index(node)] = value
        return node


def trace_call(transform: str, function: Flat, values: Sequence[Value]) -> Draft:
    """Traces a function that becomes the body of a call, for these arguments."""
    with _CallScope(transform, isolated=True) as scope:
        tracers = [scope.input(aval_of(x), x) for x in values]
        outputs = tuple(scope.lift(x) for x in function(*tracers))
        count = len(values)
        inputs = tuple(scope.inputs)
        imported = tuple(scope.imported)
        arguments, free = inputs[:count], inputs[count:]
        found = [scope.known_bits.get(n) for n in arguments]
        exact = [
            (i, free.index(n.src[1]))
            for i, n in enumerate(found)
            if n is not None and n.op is widened
        ]
        return Draft(
            arguments, outputs, free, imported, scope.tokens, exact=tuple(exact)
        )


@dataclass(frozen=True)
class Called:
    """A function that was traced to be called.

    The operands are what it closes over, the arguments, and a token if it has effects.

    Attributes:
      body: from the operands to the results, and the token after its effects.
      operands: their values; of the token None.
      closed: how many operands it closes over.
      effects: it has a token.
      exact: as of `Draft`.
    """

    body: Body
    operands: tuple[Value, ...]
    closed: int
    effects: bool
    exact: tuple[tuple[int, int], ...] = ()


def called(
    transform: str, function: Flat, values: Sequence[Value], others: Sequence[Value]
) -> Called | None:
    """Traces a function for a call.

    Args:
      transform: for messages.
      function: returns a flat list of values.
      values: its arguments.
      others: what its rules close over.

    Returns:
      The call; None if nothing in it is traced, so that the function may just run.
    """
    if not open_scopes():
        return None
    draft = trace_call(transform, function, values)
    closed = [*draft.values]
    known = {id(x) for x in closed}
    extra = [x for x in others if id(x) not in known]
    if not draft.effects and scope_of([*values, *closed, *extra]) is None:
        return None
    names = [
        sources.variable(aval_of(x), _CLOSED_DEPTH, i) for i, x in enumerate(extra)
    ]
    inputs = [*draft.free, *names, *draft.arguments, *draft.effects[:1]]
    body = close(inputs, [*draft.outputs, *draft.effects[1:]])
    closed += extra
    token = [None] if draft.effects else []
    operands = (*closed, *values, *token)
    return Called(body, operands, len(closed), bool(draft.effects), draft.exact)


def bind_call(op: Compound, call: Called, arg: Any) -> list[Value]:
    """Records a call; returns its results."""
    given = [x for x in call.operands if x is not None]
    scope = current_scope() if call.effects else scope_of(given)
    assert scope is not None
    nodes = [scope.lift(x) for x in given]
    if not call.effects:
        return [scope.wrap(n) for n in op.results(*nodes, arg=arg)]
    *results, token = op.results(*nodes, current_token(scope), arg=arg)
    scope.tokens = (scope.tokens[0], token)
    return [scope.wrap(n) for n in results]


class _Later:
    """The value of a node, once the function around it has returned."""

    def __init__(self, node: Node, scopes: Sequence[Scope]) -> None:
        self.node = node
        self.scopes = scopes

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        known: dict[Node, Any] = {}
        for leaf in toposort([self.node]):
            if leaf.aval is TOKEN and sources.is_variable(leaf):
                known[leaf] = np.uint8(REHEARSAL)
            elif sources.is_variable(leaf):
                depth, index = sources.scope_and_position(leaf)
                binding = self.scopes[depth].bindings[index]
                if isinstance(binding, Tracer):
                    binding = _Later(binding.node, self.scopes)
                known[leaf] = np.asarray(binding)
        return np.asarray(evaluate([self.node], known)[0])


def later_values(operands: Sequence[Value]) -> tuple[Any, ...]:
    """Values of operands for who asks later; () where nothing has values."""
    scopes = tuple(open_scopes())
    if not all(s.bound and not s.isolated for s in scopes):
        return ()
    return tuple(
        _Later(x.node, scopes) if isinstance(x, Tracer) else x
        for x in operands
        if x is not None
    )


@dataclass(frozen=True)
class Rule:
    """A user's function that is traced when a transform asks for it.

    Attributes:
      name: of the function that the rule is about, for messages.
      key: rules with equal keys are equal.
      function: from flat values, and what `trace` is given, to flat values.
      closed: the values of the operands that the call closes over.
      values: those of all operands, where Python may ask for them; or ().
      traced: the graphs that were asked for.
    """

    name: str
    key: Any
    function: Callable[..., Sequence[Value]] = field(compare=False, repr=False)
    closed: tuple[Value, ...] = field(compare=False, repr=False)
    values: tuple[Any, ...] = field(compare=False, repr=False, default=())
    exact: tuple[tuple[int, int], ...] = ()
    traced: dict[Any, Body] = field(
        compare=False, repr=False, default_factory=dict[Any, Body]
    )

    def trace(self, what: str, avals: Sequence[ShapedArray], *details: Any) -> Body:
        """The rule for operands of these types, the closed ones first.

        Raises:
          UnexpectedTracerError: it uses a traced value that is no operand.
        """
        key = (what, tuple(avals), details)
        found = self.traced.get(key)
        if found is None:
            state = standing()
            try:
                found = self.traced[key] = self._trace(what, avals, details)
            except BaseException:
                restore(state)
                raise
        return found

    def _trace(self, what: str, avals: Sequence[ShapedArray], details: Any) -> Body:
        count = len(self.closed)
        with Scope(f"the {what} rule of {self.name}", isolated=True) as scope:
            tracers = [scope.input(aval) for aval in avals]
            operands = what in ("jvp", "fwd")
            for i, value in enumerate(self.values[: None if operands else count]):
                scope.bindings[i] = value
            for value, mine in zip(self.closed, tracers, strict=False):
                scope.adopt(value, mine.node)
            if operands:
                for i, k in self.exact:
                    node = tracers[count + i].node
                    scope.known_bits[node] = widened(node, tracers[k].node)
            outputs = [scope.lift(x) for x in self.function(*details, tracers[count:])]
            mapping = {
                name: self._constant(what, value)
                for name, value in zip(
                    scope.inputs[len(avals) :], scope.imported, strict=True
                )
            }
            if scope.tokens:  # the effects happen where the results are computed
                before, after = scope.tokens
                mapping[before] = sources.const(0, TOKEN.dtype)
                outputs = barrier([*outputs, after])[:-1]
            return close([t.node for t in tracers], substitute(outputs, mapping))

    def _constant(self, what: str, value: Value) -> Node:
        if not isinstance(value, Tracer):
            return held(value)
        made = value.origin
        where = f"\n  it was made at {made.describe()}" if made else ""
        raise UnexpectedTracerError(
            f"the {what} rule of {self.name} uses a traced value of type "
            f"{value.aval!r} that is no argument of {self.name} and is not found in "
            "what the rule closes over (a global variable, or an attribute deep in an "
            f"object); pass it to {self.name} as an argument{where}"
        )


def widen(body: Body, flags: Sequence[bool], size: int) -> Body:
    """A body for a batch: all of its results have a leading axis."""
    inputs = batched_inputs(body, flags, size)
    leaves = {n: b for n, b, f in zip(body.inputs, inputs, flags, strict=True) if f}
    outputs = [
        node if has else broadcast_leading(node, (size, *node.shape))
        for node, has in batch_nodes(body.outputs, leaves, size)
    ]
    return close(inputs, outputs)
