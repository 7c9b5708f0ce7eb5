"""Graphs derived by un-jitted transforms, ready to run when they are derived again.

    (what is derived, the traced graph) -> the program of the result

An un-jitted transform traces its function at every call, and gets the same nodes. One
look tells which program they became; its calls are native, as those of jit. Where only
numbers are others than before, the program of a family runs (`numbers.py`).
"""

# This is the path of every call: the properties of an Array would cost as much again.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

from ftrace import settings
from ftrace.array import Array
from ftrace.settings import Config
from ftrace.tables import LIGHT, Table
from ftrace.trace.graph import Graph, one_order
from ftrace.trace.layout import Container, Leaf, Part
from ftrace.trace.scopes import current_scope
from ftrace.trace.tracer import Value, aval_of
from ftrace.transforms.execute import (
    CompiledGraph,
    apart,
    apply_graph,
    compile_for_host,
)
from ftrace.transforms.known import Call, Linked, Ready, exact_of, is_on_host
from ftrace.transforms.memo import derived
from ftrace.transforms.numbers import Numbered, like_another


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


_prepared: Table[Hashable, Prepared | Numbered] = Table(1024)


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
    key = (kind, graph.inputs, graph.outputs)
    found = _prepared.get(key)
    if found is not None and found.is_for(config):
        return _run(found, values, graph.captured)
    with one_order():
        whole = derived(kind, graph, derive)
        if config.disable_jit or not is_on_host(values):
            return apply_graph(whole, values)
        numbered = like_another(whole, config, _prepare)
        if numbered is not None:
            _prepared.put(key, numbered, 4 * LIGHT)
            return _run(numbered, values, graph.captured)
        results = apply_graph(whole, values)
        prepared = _prepare(whole, config)
    if prepared is not None:
        _prepared.put(key, prepared, prepared.nbytes)
    return results


def _run(
    program: Prepared | Numbered, values: Sequence[Value], captured: Sequence[Array]
) -> list[Any]:
    results = program(*values, *captured)
    return apart(results, captured) if captured and program.shares_inputs else results


def _prepare(graph: Graph, config: Config) -> Prepared | None:
    compiled = compile_for_host(graph)
    return None if compiled is None else Prepared(graph, compiled, config)
