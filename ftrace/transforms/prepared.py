"""Graphs derived by un-jitted transforms, ready to run when they are derived again.

    (what is derived, the traced graph) -> the program of the result

An un-jitted transform traces its function at every call, and gets the same nodes. One
look tells which program they became; its calls are native, as those of jit. Where only
numbers are others than before, the program of a family runs (`numbers.py`).
"""

# This is the path of every call: the properties of an Array would cost as much again.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from ftrace import settings
from ftrace.array import Array
from ftrace.devices.base import Executable, get_device
from ftrace.devices.calls import Bound, Signature
from ftrace.locks import fresh_after_fork
from ftrace.settings import Config
from ftrace.tables import LIGHT, Table
from ftrace.trace.all_bits import is_exact
from ftrace.trace.graph import Graph, one_order
from ftrace.trace.layout import Container, Leaf, Part
from ftrace.trace.scopes import as_input, asarray, current_scope, owned
from ftrace.trace.tiering import CALLS_BEFORE_BOUND
from ftrace.trace.tracer import Value, aval_of
from ftrace.transforms.execute import (
    CompiledGraph,
    apart,
    apply_graph,
    compile_for_host,
)
from ftrace.transforms.known import Linked, is_on_host
from ftrace.transforms.memo import derived
from ftrace.transforms.numbers import Numbered, like_another

#: Kinds of arguments (arrays, NumPy's arrays, numbers) whose calls are native.
_BOUND_KEPT = 4


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
        self.graph = Graph(graph.inputs, graph.outputs)
        self.config = config
        self._compiled = compiled
        self._avals = tuple([node.aval for node in graph.inputs])
        self._exact = [i for i, aval in enumerate(self._avals) if is_exact(aval)]
        self._links: Any = None
        # By the classes of the arguments, after how many calls they become native.
        self._left: dict[tuple[type[Any], ...], int] = {}
        self._bound: list[Bound] = []
        self._lock = fresh_after_fork(threading.Lock())

    @property
    def shares_inputs(self) -> bool:
        """Is an output the memory of an input?"""
        return self._compiled.shares_inputs

    @property
    def nbytes(self) -> int:
        """What it takes in memory, roughly."""
        return self._compiled.nbytes

    @property
    def executable(self) -> Executable:
        """What the device made of it."""
        return self._compiled.executable

    def is_for(self, config: Config) -> bool:
        """Has it been compiled for this configuration?"""
        if self.config is config:
            return True
        if self.config != config:
            return False
        self.config = config
        with self._lock:
            for bound in self._bound:
                bound.use(config)
        return True

    def plain_call(self, *values: Value) -> list[Any]:
        """A call in Python's code."""
        if not is_on_host(values):
            return apply_graph(self.graph, values)
        kinds = tuple([x.__class__ for x in values])
        left = self._left.get(kinds, CALLS_BEFORE_BOUND)
        if left >= 0:
            self._left[kinds] = left - 1
            if left == 0:
                self._bind_once(kinds)
        arrays = [x if x.__class__ is Array else asarray(x) for x in values]
        for i in self._exact:
            arrays[i] = as_input(values[i], self._avals[i])
        for array in arrays:
            aval_of(array)  # so that native code finds it
        if self._compiled.shares_inputs and np.ndarray in kinds:
            arrays = [asarray(owned(x)) for x in values]
        return self._compiled(arrays)

    #: Native, once a device has native calls: see `devices.calls`.
    __call__ = plain_call

    def _bind_once(self, kinds: tuple[type[Any], ...]) -> None:
        """Lets calls like this one be native from now on, where they can be."""
        with self._lock:
            made = self._bind(kinds) if len(self._bound) < _BOUND_KEPT else None
            if made is None:
                return
            self._bound.append(made)
            addresses = [bound.address for bound in self._bound]
            self._links = np.array([len(addresses), *addresses], np.int64)
        made.serve(Prepared, "_links", "plain_call")

    def _bind(self, kinds: tuple[type[Any], ...]) -> Bound | None:
        compiled = self._compiled
        leaves = tuple(zip(kinds, self._avals, strict=True))
        outputs: list[Part] = [Leaf(i) for i in range(len(compiled.avals))]
        signature = Signature(
            self.config,
            tuple([Leaf(i) for i in range(len(leaves))]),
            {},
            leaves,
            (),
            (),
            compiled.overwritten,
            Container(list, None, tuple(outputs)),
            tuple(compiled.avals),
        )
        return compiled.executable.bind(signature)


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


def prepare_for_processor(graph: Graph, config: Config) -> Prepared | None:
    """The program; None where the default device is not the processor."""
    return _prepare(graph, config) if get_device().keeps_programs else None
