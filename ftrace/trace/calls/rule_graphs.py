"""Users' functions as graphs: of a call at once, of a rule when it is asked for.

closed_over    the arrays and traced values that a Python function closes over
held_p         a concrete array in the midst of a graph
called         a function that is called now -> its graph and what it closed over
bind_call      that call, recorded
Rule           a function that a transform may ask for later
Call           the argument of an operation that is a call: it holds the graph
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from types import FunctionType, MethodType
from typing import Any

from ftrace.errors import UnexpectedTracerError
from ftrace.ground import settings
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.trace.arrays.array import Array, ArrayLike
from ftrace.trace.avals import TOKEN, ShapedArray
from ftrace.trace.body import BodyDraft, close, plan_of
from ftrace.trace.control.scan import map_lanes
from ftrace.trace.graph import Body, Flags, Node, Nodes, dependents, substitute
from ftrace.trace.primitives import sources
from ftrace.trace.primitives.primitive import Batched, Compound, barrier
from ftrace.trace.pytree import tree
from ftrace.trace.tracing import scopes, tracer
from ftrace.trace.tracing.scopes import Scope
from ftrace.trace.tracing.trace import record_compound
from ftrace.trace.tracing.weak_constants import widened

Flat = Callable[..., Sequence[tracer.Value]]


# What a rule closes over. It runs when the function around it has returned. The values
# of that function which it uses become operands of the call: they are looked for in the
# cells, defaults, bound arguments and globals of the rule, in the functions that it
# closes over, and in trees.

#: How many values are looked at; what lies deeper is not found.
_LIMIT = 4096
_OURS = "ftrace."
_PARTIAL: Any = functools.partial


def captured_arrays(values: Iterable[Any]) -> list[ArrayLike]:
    """The arrays among these values and in what they refer to, each once.

    What a rule has stored is there, too, when the function around it has returned: that
    counts when it is used.
    """
    found: dict[int, ArrayLike] = {}
    seen: set[int] = set()
    pending = list(values)
    while pending and len(seen) < _LIMIT:
        value = pending.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, ArrayLike):
            if not tracer.has_ended(
                value
            ):  # else it is an error to use it, not to have it
                found[id(value)] = value
        elif not isinstance(value, (str, bytes, int, float, type)):
            pending.extend(_referents(value))
    return list(found.values())


def captured_by_rules(values: Iterable[Any]) -> list[ArrayLike]:
    """The same of rules, which may also use the axes that have names here."""
    return [*captured_arrays(values), *[axis.index for axis in tracer.stack.axes]]


def _referents(value: Any) -> list[Any]:
    """What a function, an object or a container refers to."""
    if isinstance(value, FunctionType):
        cells = [_content(cell) for cell in value.__closure__ or ()]
        defaults = [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
        known = value.__globals__
        named = [known.get(name) for name in value.__code__.co_names]
        return [*cells, *defaults, *(x for x in named if isinstance(x, ArrayLike))]
    if isinstance(value, MethodType):
        return [value.__func__, value.__self__]
    if isinstance(value, _PARTIAL):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, dict):  # also one that is no tree: its keys have no order
        return [*value.values()]
    if tree.is_node(value):
        return [child for _, child in tree.flatten_one_level_with_keys(value)[0]]
    attributes: dict[str, Any] = getattr(value, "__dict__", {})
    if value.__class__.__module__.startswith(_OURS):  # of jit, say: no caches
        return [x for x in attributes.values() if isinstance(x, FunctionType)]
    return list(attributes.values()) if _is_python_object(value) else []


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


def _is_python_object(value: Any) -> bool:
    """An object of Python: no module, and nothing that is written in C."""
    kind: Any = value.__class__
    return hasattr(value, "__dict__") and hasattr(kind, "__weakref__")


# Held arrays. A function that is traced captures the arrays it uses as inputs of its
# graph. A rule that is traced later, while a graph is being differentiated, has no
# such inputs: there an array is a node. Before a graph is run its held arrays become
# captured ones.


@dataclass(frozen=True)
class Held:
    """The argument: an array, which equals itself alone."""

    array: Array = field(compare=False)
    aval: ShapedArray
    key: int

    def __str__(self) -> str:
        return f"{self.aval!r}"


def _infer(arg: Held) -> tuple[ShapedArray, ...]:
    return (arg.aval,)


def _value(avals: Sequence[ShapedArray], arg: Held) -> list[Any]:
    return [arg.array.numpy()]


def _batch(node: Node, src: Nodes, batched: Flags, size: int) -> Batched:
    return held_p.results(arg=node.arg), [False]


held_p = Compound(
    "held", "source", _infer, _value, _batch, no_derivative="it is a constant",
    doc="a concrete array that a rule closed over", show=str,
)  # fmt: skip


def constant_node(value: tracer.Value) -> Node:
    """The node of a concrete array. What NumPy may change is copied."""
    array = scopes.asarray(scopes.snapshot(value))
    return held_p.results(arg=Held(array, tracer.aval_of(array), id(array)))[0]


# Calls.


@dataclass(frozen=True)
class Call:
    """The argument of an operation that is a call.

    Attributes:
      body: the function.
      effects: the last operand and the last result are tokens.
    """

    body: Body
    effects: bool


def call_compound(name: str, doc: str, batch: Any, **rules: Any) -> Compound:
    """The record of calls: without derivative and batch they are what they call.

    Those with effects are called for one lane after the other.
    """

    def infer(arg: Call, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return tuple(n.aval for n in arg.body.outputs)

    def value(avals: Any, arg: Call, *operands: Any) -> list[Any]:
        return plan_of(arg.body)(operands)

    def lanes(node: Node, src: Nodes, batched: Flags, size: int) -> Batched:
        return (map_lanes if node.arg.effects else batch)(node, src, batched, size)

    return Compound(name, "call", infer, value, lanes, doc=doc, show=str, **rules)


class _CallScope(Scope):
    """The scope of a function that is called now: what it uses may have values."""

    def capture(self, value: tracer.Value) -> Node:
        node = super().capture(value)
        self.bindings[self.inputs.index(node)] = value
        return node


@dataclass(frozen=True)
class Called:
    """A function that was traced to be called.

    The operands are what it closes over, the arguments, and a token if it has effects.

    Attributes:
      body: from the operands to the results, and the token after its effects.
      operands: their values; of the token None.
      closed: how many operands it closes over.
      effects: it has a token.
      exact: positions of an argument that is a weak scalar, and of the free variable
        that is the same with all bits.
    """

    body: Body
    operands: tuple[tracer.Value, ...]
    closed: int
    effects: bool
    exact: tuple[tuple[int, int], ...] = ()


def trace_call(
    transform: str,
    function: Flat,
    values: Sequence[tracer.Value],
    others: Sequence[tracer.Value],
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
    if not scopes.open_scopes():
        return None
    with _CallScope(transform, isolated=True) as scope:
        tracers = [scope.input(tracer.aval_of(x), x) for x in values]
        draft = BodyDraft.of(scope, function, tracers)
        found = [scope.known_bits.get(n) for n in draft.arguments]
    exact = tuple(
        (i, draft.free.index(n.src[1]))
        for i, n in enumerate(found)
        if n is not None and n.op is widened
    )
    closed = [*draft.values]
    known = {id(x) for x in closed}
    extra = [x for x in others if id(x) not in known]
    if not draft.effects and scopes.scope_of([*values, *closed, *extra]) is None:
        return None
    names = [
        sources.variable(tracer.aval_of(x), "closed", i) for i, x in enumerate(extra)
    ]
    inputs = [*draft.free, *names, *draft.arguments, *draft.effects[:1]]
    body = close(inputs, [*draft.outputs, *draft.effects[1:]])
    closed += extra
    token = [None] if draft.effects else []
    operands = (*closed, *values, *token)
    return Called(body, operands, len(closed), bool(draft.effects), exact)


def bind_call(op: Compound, call: Called, arg: Any) -> list[tracer.Value]:
    """Records a call; returns its results."""
    given = [x for x in call.operands if x is not None]
    scope = scopes.current_scope() if call.effects else scopes.scope_of(given)
    assert scope is not None
    nodes = [scope.lift(x) for x in given]
    return record_compound(scope, op, nodes, arg, len(nodes) if call.effects else -1)


@dataclass(frozen=True)
class Rule:
    """A user's function that is traced when a transform asks for it.

    Attributes:
      name: of the function that the rule is about, for messages.
      key: rules with equal keys are equal.
      function: from flat values, and what `trace` is given, to flat values.
      closed: the values of the operands that the call closes over.
      axes: those that had names where the rule was given.
      config: what was in force there.
      traced: the graphs that were asked for.
    """

    name: str
    key: Any
    function: Callable[..., Sequence[tracer.Value]] = field(compare=False, repr=False)
    closed: tuple[tracer.Value, ...] = field(compare=False, repr=False)
    exact: tuple[tuple[int, int], ...] = ()
    axes: tuple[tracer.Axis, ...] = field(
        default_factory=lambda: tracer.stack.axes, repr=False
    )
    config: settings.Config = field(
        compare=False, repr=False, default_factory=settings.current
    )
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
            # Rules backward run later, under what is in force then.
            config = self.config if what in ("jvp", "fwd") else settings.current()
            axes, configured = tracer.standing(*self.axes), settings.standing(config)
            with scopes.returning(), axes, configured:
                found = self.traced[key] = self._trace(what, avals, details)
        return found

    def _trace(self, what: str, avals: Sequence[ShapedArray], details: Any) -> Body:
        count = len(self.closed)
        with Scope(f"the {what} rule of {self.name}", isolated=True) as scope:
            tracers = [scope.input(aval) for aval in avals]
            operands = what in ("jvp", "fwd")
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
                later: set[Node] = set()
                if operands:  # what tells of tangents happens with these
                    moving = [t.node for t in tracers[len(avals) - sum(details[0]) :]]
                    later.update(dependents([*outputs, after], moving))
                held = [n for n in outputs if after not in later or n in later]
                behind = {n: barrier([n, after])[0] for n in held}
                outputs = [behind.get(n, n) for n in outputs]
            return close([t.node for t in tracers], substitute(outputs, mapping))

    def _constant(self, what: str, value: tracer.Value) -> Node:
        if not isinstance(value, tracer.Tracer):
            return constant_node(value)
        where = tracer.line_of(value, "it was made")
        raise UnexpectedTracerError(
            f"the {what} rule of {self.name} uses a traced value of type "
            f"{value.aval!r} that is no argument of {self.name} and is not found in "
            "what the rule closes over (a global variable, or an attribute deep in an "
            f"object); pass it to {self.name} as an argument{where}"
        )
