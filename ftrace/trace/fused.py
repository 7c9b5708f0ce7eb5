"""Compositions as one graph: recorded as such, or done by a plan of NumPy's calls.

    run_fused(matmul, [x, y])   traced values   the nodes that it made the last time
                                arrays          its plan, without what lies between
                                on a device     its program

The graph follows from the function, the types of its operands and what is static; that
of a function of a module is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ftrace import settings
from ftrace.array import Array
from ftrace.locks import cached_property
from ftrace.tables import Table
from ftrace.trace.avals import ShapedArray
from ftrace.trace.backend import backend, count_operation
from ftrace.trace.dims import any_dynamic
from ftrace.trace.evaluate import Plan
from ftrace.trace.graph import Graph
from ftrace.trace.replay import Recording, is_replayable
from ftrace.trace.room import no_memory
from ftrace.trace.scopes import Scope, asarray, scope_of
from ftrace.trace.tape import recording
from ftrace.trace.tracer import Tracer, Value, aval_of
from ftrace.trace.tracing import match_aval, trace


def run_fused(
    function: Callable[..., Any], operands: Sequence[Value], **static: Any
) -> Any:
    """`function(*operands, **static)` as one graph: recorded, or run at once.

    For compositions whose intermediate values must not be made one by one, such as
    matrix products. `function` takes and returns arrays only; the graphs of functions
    of a module are kept, by the types of the operands and the static arguments.
    """
    scope = scope_of(operands)
    if scope is not None:
        return _record_again(function, operands, static, scope)
    arrays = [asarray(x) for x in operands]
    fused = _fused_for(function, tuple([aval_of(x) for x in arrays]), static)
    graph, plan = fused.graph, fused.plan
    if any(not x.memory.host for x in arrays):
        return backend.run_graph(graph, arrays)[0]
    count_operation()
    try:
        (result,) = plan([*[x.numpy() for x in arrays], *fused.captured])
    except MemoryError:
        name = getattr(function, "__name__", "the operation").lstrip("_")
        raise no_memory(name, graph.outputs[0].aval) from None
    made = Array.of(result, graph.outputs[0].aval.weak_type)
    if recording.tape is not None:
        recording.tape.note_plan(plan, [*arrays, *fused.captured], made)
    return made


def _record_again(
    function: Callable[..., Any],
    operands: Sequence[Value],
    static: dict[str, Any],
    scope: Scope,
) -> Any:
    """`function` of traced values: recorded as before, or by running it."""
    avals = tuple([aval_of(x) for x in operands])
    if not (
        _is_of_a_module(function)
        and _are_hashable(static)
        and not any(any_dynamic(a.shape) for a in avals)
    ):
        return function(*operands, **static)
    recording = _fused_for(function, avals, static).recording
    if recording is None:
        return function(*operands, **static)
    nodes = [
        match_aval(scope.lift(x), given.aval)
        for x, given in zip(operands, recording.inputs, strict=True)
    ]
    (node,) = recording.replay(nodes)
    return Tracer(node, scope)


class _Fused:
    """A composition for operands of certain types.

    Attributes:
      graph: what it computes.
      plan: how NumPy computes it.
      captured: the arrays that it holds.
      recording: how it is recorded in another graph; None if by running it again.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.captured = [np.asarray(value) for value in graph.captured]
        self.recording = Recording(graph) if is_replayable(graph) else None

    @cached_property
    def plan(self) -> Plan:
        return Plan(self.graph.outputs, self.graph.inputs, with_kernels=True)


#: Eager compositions by function, types, static arguments and promotion rules.
_fused: Table[Any, _Fused] = Table(2048)
#: Bytes per node: of the graph, its plan and its recording.
_NODE_BYTES = 1200


def _is_of_a_module(function: Callable[..., Any]) -> bool:
    """Does it depend on its arguments alone? A closure may not."""
    return function.__closure__ is None and "<" not in function.__qualname__


def _are_hashable(static: dict[str, Any]) -> bool:
    try:
        hash(tuple(static.values()))
    except TypeError:
        return False
    return True


def _fused_for(
    function: Callable[..., Any], avals: tuple[ShapedArray, ...], static: dict[str, Any]
) -> _Fused:
    # 2 and 2.0, or 0.0 and -0.0, are equal and mean different programs.
    chosen = tuple([(k, v.__class__, v or repr(v)) for k, v in static.items()])
    key = (function, avals, chosen, settings.current().enable_x64)
    fused = _fused.get(key)
    if fused is None:
        graph = trace("eager", lambda *xs: [function(*xs, **static)], avals)
        fused = _Fused(graph)
        if _is_of_a_module(function):
            _fused.put(key, fused, _NODE_BYTES * len(graph.nodes))
    return fused
