"""Compositions as one graph: recorded as such, or done by a plan of NumPy's calls.

    run_fused(matmul, [x, y])   traced values   its operations
                                arrays          its plan, without what lies between
                                on a device     its program

The graph follows from the function, the types of its operands and what is static; that
of a function of a module is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from ftrace.ground import settings
from ftrace.ground.fork_safe import cached_property
from ftrace.ground.tables import Table
from ftrace.trace.arrays.array import Array, recording
from ftrace.trace.avals import ShapedArray
from ftrace.trace.backend import backend, count_operation
from ftrace.trace.evaluate import Plan, no_memory
from ftrace.trace.graph import Graph
from ftrace.trace.tracing.scopes import asarray, scope_of
from ftrace.trace.tracing.trace import trace
from ftrace.trace.tracing.tracer import Value, aval_of


def run_fused(
    function: Callable[..., Any], operands: Sequence[Value], **static: Any
) -> Any:
    """`function(*operands, **static)` as one graph: recorded, or run at once.

    For compositions whose intermediate values must not be made one by one, such as
    matrix products. `function` takes and returns arrays only; the graphs of functions
    of a module are kept, by the types of the operands and the static arguments.
    """
    if scope_of(operands) is not None:
        return function(*operands, **static)
    arrays = [asarray(x) for x in operands]
    avals = tuple([aval_of(x) for x in arrays])

    def make() -> Composite:
        return Composite(trace("eager", lambda *xs: [function(*xs, **static)], avals))

    # What is no function of a module may depend on more than its arguments.
    closed = function.__closure__ is None and "<" not in function.__qualname__
    fused = kept(function, avals, static, make) if closed else make()
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


class Composite:
    """A composition for operands of certain types.

    Attributes:
      graph: what it computes.
      captured: the arrays that it holds.
      plan: how NumPy computes it.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.captured = [np.asarray(value) for value in graph.captured]

    @cached_property
    def plan(self) -> Plan:
        return Plan(self.graph.outputs, self.graph.inputs)


class _Kept(Protocol):
    graph: Graph


K = TypeVar("K", bound=_Kept)

#: Eager compositions by function, types, static arguments and promotion rules.
_composites: Table[Any, Any] = Table(3072)
#: Bytes per node: of the graph, and of what evaluates it.
_NODE_BYTES = 1500


def kept(
    function: Callable[..., Any],
    avals: tuple[ShapedArray, ...],
    static: dict[str, Any],
    make: Callable[[], K],
) -> K:
    """`make()`, or what it made before for this function, these types and arguments."""
    # 2 and 2.0, or 0.0 and -0.0, are equal and mean different programs.
    chosen = tuple([(k, v.__class__, v or repr(v)) for k, v in static.items()])
    key = (function, avals, chosen, settings.current().enable_x64)
    found: K | None = _composites.get(key)
    if found is None:
        found = make()
        _composites.put(key, found, _NODE_BYTES * len(found.graph.nodes))
    return found
