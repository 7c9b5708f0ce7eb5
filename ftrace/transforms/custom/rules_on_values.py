"""Rules of the user's in a derivative that is not jitted: they run with values.

    g(x)  in a function under grad       x is traced by the grad, its value is known
    the rule of g                        runs with that value at once
    its results                          new variables of the trace, bound to them
    their tangents                       known to the level, in terms of those of x

What a rule is given, and so what it stores on objects, belongs to the level around the
derivative: an Array, or a traced value of the derivative around. That stays good when
the function under the derivative has returned.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any

from ftrace import dtypes
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.trace.arrays.array import ArrayLike
from ftrace.trace.autodiff import extend_tangents, tangents_of_leaves
from ftrace.trace.avals import TOKEN, ShapedArray
from ftrace.trace.bind import bind
from ftrace.trace.calls.custom_derivative import closure_error
from ftrace.trace.effects import rehearsal
from ftrace.trace.graph import Graph, Node, substitute, toposort
from ftrace.trace.primitives.elementwise import cast_p
from ftrace.trace.primitives.primitive import Results
from ftrace.trace.primitives.sources import is_variable, scope_and_position, variable
from ftrace.trace.tracing import scopes, tracer as tr
from ftrace.trace.tracing.scopes import Scope
from ftrace.transforms.jit.compiled_graph import apply_graph
from ftrace.transforms.jit.eager_programs import apply_again

#: A level, which cotangents there are, and these -> cotangents of what varies.
Backward = Callable[["Level", tuple[bool, ...], Sequence[Node]], list[Node]]


class Level:
    """What is known in a scope of a derivative whose arguments have values.

    Attributes:
      scope: the scope.
      moving: for each result of a rule its tangent.
      known: values of nodes, of the level around the scope.
      backward: rules that run when cotangents are known.
      ran: which of them have, and for which cotangents.
      entered: of one call of a pullback: the variables of what its rules returned, and
        that.
    """

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.moving: dict[Node, Node] = {}
        self.known: dict[Node, tr.Value] = {}
        self.backward: list[Backward] = []
        self.ran: list[tuple[int, tuple[bool, ...], Sequence[Node]]] = []
        self.entered: list[tuple[Node, tr.Value]] | None = None
        count = scope.arguments - scope.along
        leaves = scope.inputs[:count]
        self._tangents: dict[Node, Node | None] = {}
        if scope.along:
            varying = [n for n in leaves if dtypes.is_inexact(n.dtype)]
            given = scope.inputs[count : scope.arguments]
            self._tangents.update(zip(varying, given, strict=True))
        else:
            self._tangents.update(tangents_of_leaves(leaves))
        self._several: dict[Node, Results] = {}

    def tangents(self, values: Sequence[tr.Value]) -> list[Node | None]:
        """The tangents of values in this scope; None is zero."""
        nodes = [self._node(x) for x in values]
        extend_tangents(
            [n for n in nodes if n is not None], self._tangents, self._several
        )
        return [None if n is None else self._tangents[n] for n in nodes]

    def settle(self, values: Sequence[tr.Value], name: str) -> list[Any]:
        """What a rule returned, at the level around.

        Raises:
          DerivativeError: it varies with what is differentiated.
        """
        if any(t is not None for t in self.tangents(values)):
            raise closure_error(name)
        return self.move_out(values)

    def results(
        self, values: Sequence[tr.Value], avals: Sequence[ShapedArray],
        tangents: Sequence[Node | None],
    ) -> list[tr.Tracer]:  # fmt: skip
        """What a rule returned, as traced values with these tangents."""
        found: list[tr.Tracer] = []
        for value, aval, tangent in zip(values, avals, tangents, strict=True):
            node = self.enter(value, aval)
            self._tangents[node] = tangent
            if tangent is not None:
                self.moving[node] = tangent
            found.append(self.scope.wrap(node))
        return found

    def later(self, rule: Backward) -> Later:
        """A rule that runs when cotangents are known."""
        self.backward.append(rule)
        return Later(weakref.ref(self), len(self.backward) - 1)

    def run(
        self, number: int, present: tuple[bool, ...], cts: Sequence[Node]
    ) -> list[Node]:
        """Runs a rule for cotangents; the variables of what it returned."""
        self.ran.append((number, present, cts))
        return self.backward[number](self, present, cts)

    def _node(self, value: tr.Value) -> Node | None:
        mine = isinstance(value, tr.Tracer) and value.scope is self.scope
        return value.node if mine else None

    def move_out(self, values: Sequence[tr.Value]) -> list[Any]:
        """The same values at the level around: what they are computed from there."""
        nodes = [self._node(x) for x in values]
        found = iter(self.values_of([n for n in nodes if n is not None]))
        return [
            _lasting(x) if n is None else next(found)
            for x, n in zip(values, nodes, strict=True)
        ]

    def values_of(self, nodes: Sequence[Node]) -> list[Any]:
        """The values of nodes at the level around."""
        for node in nodes:
            if node not in self.known and self._is_input(node):
                self.known[node] = _lasting(self._binding(node))
        missing = [n for n in nodes if n not in self.known]
        if missing:
            sources, graph = self._way(missing)
            operands = [
                self.known[n] if n in self.known else self._binding(n) for n in sources
            ]
            run = apply_again if scopes.current_scope() is None else apply_graph
            self.known.update(zip(missing, run(graph, operands), strict=True))
        return [self.known[n] for n in nodes]

    def _is_input(self, node: Node) -> bool:
        mine = is_variable(node) and node.aval is not TOKEN
        return mine and scope_and_position(node)[0] == self.scope.depth

    def _binding(self, node: Node) -> tr.Value:
        return self.scope.bindings[scope_and_position(node)[1]]

    def _way(self, nodes: Sequence[Node]) -> tuple[list[Node], Graph]:
        """Known nodes, and the graph that leads from them to these."""
        sources: list[Node] = []
        names: dict[Node, Node] = {}
        for node in toposort(nodes, self.known):
            for source in node.src:
                if source in self.known and source not in names:
                    sources.append(source)
                    names[source] = variable(source.aval, "known", len(names))
            if node.aval is TOKEN and is_variable(node):
                names[node] = rehearsal()
            elif self._is_input(node):
                sources.append(node)
        inputs = [names.get(n, n) for n in sources]
        outputs = substitute(nodes, names) if names else nodes
        return sources, Graph(tuple(inputs), tuple(outputs))

    def enter(self, value: tr.Value, aval: ShapedArray) -> Node:
        """A new variable of the scope, for a value of the level around."""
        value = _lasting(value)
        got = tr.aval_of(value)
        if got.dtype != aval.dtype or got.weak_type != aval.weak_type:
            value = bind(cast_p, value, arg=(aval.dtype, aval.weak_type))
        scope = self.scope
        if self.entered is None:
            node = scope.input(aval, value).node
            scope.captured.append(value)
        else:
            number = len(scope.inputs) + len(self.entered)
            node = variable(aval, scope.depth, number)
            self.entered.append((node, value))
        self.known[node] = value
        return node

    def apply(
        self, graph: Graph, values: Sequence[tr.Value], others: Sequence[Node] = ()
    ) -> list[Any]:
        """The outputs of a graph of the scope; see `complete`."""
        return apply_again(*self.complete(graph, values, others))

    def complete(
        self, graph: Graph, values: Sequence[tr.Value], others: Sequence[Node] = ()
    ) -> tuple[Graph, list[tr.Value]]:
        """A graph of the scope with all that has entered it as inputs, and operands.

        Args:
          graph: the graph.
          values: of the arguments, and of the other inputs.
          others: inputs beside the arguments.
        """
        scope, count = self.scope, self.scope.arguments
        entered = [*zip(scope.inputs[count:], scope.captured, strict=True)]
        entered += self.entered or ()
        traced = [(n, x) for n, x in entered if isinstance(x, tr.Tracer)]
        kept = [(n, x) for n, x in entered if not isinstance(x, tr.Tracer)]
        inputs = [*graph.inputs[:count], *others, *[n for n, _ in (*traced, *kept)]]
        captured = tuple([x for _, x in kept])
        whole = Graph(tuple(inputs), graph.outputs, captured, graph.effects)
        return whole, [*values, *[x for _, x in traced]]

    @contextmanager
    def running(self) -> Generator[None]:
        """A block in which a rule runs: it sees the scopes around this one alone.

        Traced values of this one are those around in it, be the function returned or
        not. A scope that the rule opens may have the depth of this one.
        """
        is_open = not self.scope.closed
        depth = self.scope.depth if is_open else len(tr.stack.scopes)
        with scopes.hide_scopes(depth, min(tr.stack.floor, depth)) as inner:
            for scope in inner:
                scope.closed = True
            tr.stack.running.append(self)
            try:
                yield
            finally:
                tr.stack.running.pop()
                for scope in inner:
                    scope.closed = False

    @contextmanager
    def in_call(self, values: Mapping[Node, tr.Value]) -> Generator[Level]:
        """The level in a call of a pullback, in which other variables have values.

        It leaves no trace: other threads may call the same one.
        """
        level = copy(self)
        level.known, level.ran, level.entered = {**self.known, **values}, [], []
        _calls.levels.append((self, level))
        try:
            yield level
        finally:
            _calls.levels.pop()


class _Calls(threading.local):
    """The levels of pullbacks that this thread calls, and those of the calls."""

    def __init__(self) -> None:
        self.levels: list[tuple[Level, Level]] = []


_calls = _Calls()


@dataclass(frozen=True, eq=False)
class Later:
    """A rule of a level, in the argument of a node: nodes hold no levels.

    The table of nodes holds their arguments, and a level holds nodes.
    """

    level: weakref.ref[Level]
    number: int

    def __call__(self, present: tuple[bool, ...], cts: Sequence[Node]) -> list[Node]:
        level = self.level()
        assert level is not None, "the graph that is differentiated holds it"
        for one, called in reversed(_calls.levels):
            if one is level:
                level = called
                break
        return level.run(self.number, present, cts)


def _lasting(value: tr.Value) -> Any:
    """A value as rules get it: with all bits; what NumPy may change is copied."""
    value = scopes.with_all_bits(value)
    plain = isinstance(value, ArrayLike)
    return value if plain else scopes.asarray(scopes.snapshot(value))


def level_of(values: Sequence[tr.Value]) -> Level | None:
    """The level at which a call of a function with rules has values; None without.

    Where devices differ it is the graph that tells of tangents where they do.
    """
    if not any(isinstance(x, tr.Tracer) for x in values):
        return None
    if any(axis.checked for axis in tr.stack.axes):
        return None
    scope = scopes.scope_of(values)
    if scope is None or scope.transform not in tr.DIFFERENTIATING:
        return None
    around = [s for s in scopes.open_scopes() if s.depth <= scope.depth]
    if not all(
        (s.bound or s.transform in tr.IN_LANES) and not s.isolated for s in around
    ):
        return None
    if scope.level is None:
        scope.level = Level(scope)
    return scope.level


def varies(tracer: tr.Tracer) -> bool:
    """Is it of a scope of a derivative, and has a tangent there?"""
    scope = tracer.scope
    if scope.transform not in tr.DIFFERENTIATING:
        return False
    level: Level = scope.level or Level(scope)
    return level.tangents([tracer]) != [None]
