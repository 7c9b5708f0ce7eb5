"""Graphs derived by un-jitted transforms, ready to run when they are derived again.

    (what is derived, the traced graph) -> the program of the result

An un-jitted transform traces its function at every call, and gets the same nodes. One
look tells which program they became; its calls are native, as those of jit. Where only
numbers are others than before, the program of a family runs (`lift_constants.py`).
"""

# This is the path of every call: the properties of an Array would cost as much again.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

from ftrace.arrays.array import Array
from ftrace.ground import settings
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.ground.settings import Config
from ftrace.ground.tables import LIGHT, Table
from ftrace.trace.graph import Graph, Node, one_order, operations_of
from ftrace.trace.primitives.primitive import Primitive
from ftrace.trace.pytree.structure_cache import Container, Leaf, Part
from ftrace.trace.tracing.scopes import current_scope
from ftrace.trace.tracing.tracer import Value, aval_of
from ftrace.transforms.jit.compiled_graph import (
    CompiledGraph,
    apart,
    apply_graph,
    compile_for_host,
    weight_of,
)
from ftrace.transforms.jit.lift_constants import like_another
from ftrace.transforms.jit.signature_cache import (
    Call,
    Linked,
    Ready,
    exact_of,
    is_on_host,
)


class Prepared(Linked):
    """A graph without effects that uses no tracer, compiled for the host.

    Call it on a value per input of the graph, captured arrays included; it returns a
    list with an array per output.

    Args:
      graph: the graph; its captured arrays are given at each call.
      compiled: the same, compiled.
      config: the configuration under which it is.
    """

    def __init__(self, graph: Graph, compiled: CompiledGraph, config: Config) -> None:
        super().__init__()
        self.graph = Graph(graph.inputs, graph.outputs)
        self.config = config
        self.nbytes, self.shares_inputs = compiled.nbytes, compiled.shares_inputs
        self.executable = compiled.executable
        parts: list[Part] = [Leaf(i) for i in range(len(compiled.avals))]
        layout = Container(list, None, tuple(parts))
        self._ready = Ready(compiled, (), None, layout, (), exact_of(graph.inputs))
        self._places = tuple([Leaf(i) for i in range(len(graph.inputs))])
        self._avals = [node.aval for node in graph.inputs]
        self._calls: dict[tuple[type[Any], ...], Call] = {}  # by classes of arguments

    def is_for(self, config: Config) -> bool:
        """Has it been compiled for this configuration?"""
        if self.config is config:
            return True
        if self.config != config:
            return False
        self.config = config
        with self._lock:
            for call in self._bound:
                if call.bound is not None:
                    call.bound.use(config)
        return True

    def plain_call(self, *values: Value) -> list[Any]:
        """A call in Python's code."""
        if not is_on_host(values):
            return apply_graph(self.graph, values)
        kinds = tuple([x.__class__ for x in values])
        call = self._calls.get(kinds)
        if call is None:
            call = self._calls[kinds] = Call()
        if call.left >= 0:
            bind = self._ready.bind
            given = self.config, self._places, values, self._avals
            self._count(call, partial(bind, *given))
        for x in values:
            if x.__class__ is Array:
                aval_of(x)  # so that native code finds it
        return self._ready.run(values)

    #: Native, once a device has native calls: see `devices.calls`.
    __call__ = plain_call


class _Derived(NamedTuple):
    """What was derived from a graph.

    Attributes:
      ends: its inputs and outputs; None where rules of the user's say what it is: they
        are Python, and run each time.
      program: runs it, with these numbers behind the values and what it captured.
      nbytes: what these weigh without it.
    """

    ends: tuple[tuple[Node, ...], tuple[Node, ...]] | None = None
    program: Prepared | None = None
    numbers: tuple[Array, ...] = ()
    nbytes: int = 0


_NOTHING = _Derived()
#: By the kind, `enable_x64` (constants of rules depend on it) and the graph.
_derived: Table[Hashable, _Derived] = Table(1024)


def derived(kind: Hashable, graph: Graph, derive: Callable[[], Graph]) -> Graph:
    """`derive()`, or what it returned for this graph before.

    Args:
      kind: says what is derived; with the graph it decides the result.
      graph: what it is derived from; the result has its captured arrays.
      derive: called where the result is not known.
    """
    key = (kind, settings.current().enable_x64, graph.inputs, graph.outputs)
    found = None if graph.effects else _derived.get(key)
    if found is not None and found.ends is not None:
        return Graph(*found.ends, graph.captured)
    plain = is_plain(graph)
    whole = derive()
    if plain:
        ends = whole.inputs, whole.outputs
        _keep(key, 0, ends=ends, nbytes=weight_of(whole))
    return whole


def _keep(key: Hashable, beside: int, **parts: Any) -> _Derived:
    made = (_derived.get(key) or _NOTHING)._replace(**parts)
    return _derived.put(key, made, made.nbytes + beside)


def is_plain(graph: Graph) -> bool:
    """Is its derivative ours alone? No effects or bodies, no operation of a user."""
    ops = operations_of(graph.outputs)
    return not graph.effects and all(isinstance(op, Primitive) for op in ops)


def apply_again(graph: Graph, values: Sequence[Value]) -> list[Any]:
    """The outputs of a graph that may well be applied to other values later."""
    return apply_derived("itself", graph, lambda: graph, values)


def apply_derived(
    kind: Hashable,
    graph: Graph,
    derive: Callable[[], Graph],
    values: Sequence[Value],
) -> list[Any]:
    """The outputs of `derived(kind, graph, derive)` for these arguments."""
    if graph.effects or current_scope() is not None:
        return apply_graph(derived(kind, graph, derive), values)
    config = settings.current()
    key = (kind, config.enable_x64, graph.inputs, graph.outputs)
    found = _derived.get(key) or _NOTHING
    if found.program is not None and found.program.is_for(config):
        return _run(found, found.program, values, graph.captured)
    with one_order():
        whole = derived(kind, graph, derive)
        if config.disable_jit or not is_on_host(values):
            return apply_graph(whole, values)
        numbered = like_another(whole, config, _prepare)
        if numbered is not None:
            program, numbers = numbered
            found = _keep(key, 4 * LIGHT, program=program, numbers=numbers)
            return _run(found, program, values, graph.captured)
        results = apply_graph(whole, values)
        prepared = _prepare(whole, config)
    if prepared is not None:
        _keep(key, prepared.nbytes, program=prepared, numbers=())
    return results


def _run(
    found: _Derived,
    program: Prepared,
    values: Sequence[Value],
    captured: Sequence[Array],
) -> list[Any]:
    results = program(*values, *captured, *found.numbers)
    return apart(results, captured) if captured and program.shares_inputs else results


def _prepare(graph: Graph, config: Config) -> Prepared | None:
    compiled = compile_for_host(graph)
    return None if compiled is None else Prepared(graph, compiled, config)
