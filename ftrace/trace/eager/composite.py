"""Compositions as one graph: recorded as such, or done by a plan of NumPy's calls.

    run_fused(matmul, [x, y])   traced values   its operations
                                arrays          its plan, without what lies between
                                on a device     its program

The graph follows from the function, the types of its operands and what is static; that
of a function of a module is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from ftrace.ground.fork_safe import cached_property
from ftrace.trace.arrays.array import Array, recording
from ftrace.trace.backend import backend, count_operation
from ftrace.trace.eager.call_recorder import Tape, Value as Made
from ftrace.trace.eager.dispatch import calls, signature
from ftrace.trace.evaluate import Plan, no_memory
from ftrace.trace.graph import Graph, Node
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
    # What is no function of a module may depend on more than its arguments.
    closed = function.__closure__ is None and "<" not in function.__qualname__
    fused = composite_of(Composite, function, arrays, static, closed)
    name = getattr(function, "__name__", "the operation").lstrip("_")
    return fused.run(name, arrays, arrays)


class Composite:
    """A composition for operands of certain types, evaluated at once.

    Attributes:
      graph: what it computes, of one output.
      part: what it begins with, which may be compiled: see `random/draw.py`.
      captured: the arrays that it holds.
    """

    def __init__(self, graph: Graph, part: Sequence[Node] = ()) -> None:
        self.graph = graph
        self.part = Graph(graph.inputs, tuple(part))
        self.captured = [np.asarray(value) for value in graph.captured]

    @cached_property
    def rest(self) -> Plan:
        """How NumPy goes on from the part."""
        known = (*self.graph.inputs, *self.part.outputs)
        return Plan(self.graph.outputs, known)

    @property
    def is_whole(self) -> bool:
        """Is the part all of it?"""
        return self.part.outputs == self.graph.outputs

    def begin(self, *given: Any) -> Sequence[Any]:
        """The values of the part for those of the operands, all of NumPy."""
        return ()

    def value(self, *given: Any) -> Any:
        """That of the composition."""
        first = self.begin(*given)
        return first[0] if self.is_whole else self.rest([*given, *first])[0]

    def is_for_device(self) -> bool:
        """Is it left to the default device, wherever the operands are?"""
        return False

    def run(self, name: str, arrays: Sequence[Array], given: Sequence[Any]) -> Array:
        """The result.

        Args:
          name: for messages.
          arrays: the operands.
          given: what they were made of, where steps are noted.
        """
        if any(not x.memory.host for x in arrays) or self.is_for_device():
            return backend().run_graph(self.graph, arrays)[0]
        count_operation()
        aval = self.graph.outputs[0].aval
        try:
            result = self.value(*[x.numpy() for x in arrays], *self.captured)
        except MemoryError:
            raise no_memory(name, aval) from None
        made = Array.of(result, aval.weak_type)
        if recording.tape is not None:
            self._note(recording.tape, [*given, *self.captured], made)
        return made

    def _note(self, tape: Tape, given: Sequence[Any], made: Array) -> None:
        if self.is_whole:
            tape.note(self.value, given, made)
            return
        first = [Made(x.dtype, x.size, x.shape) for x in self.part.outputs]
        if first:
            tape.note_several(self.begin, given, first)
        tape.note_plan(self.rest, [*given, *first], made)


K = TypeVar("K", bound=Composite)

#: Bytes per node: of the graph, and of what evaluates it.
_NODE_BYTES = 1500


def composite_of(
    kind: Callable[[Graph], K],
    function: Callable[..., Any],
    arrays: Sequence[Array],
    static: dict[str, Any],
    closed: bool = True,
) -> K:
    """The composite of `function(*arrays, **static)`; what it was before, if closed."""
    # 2 and 2.0, or 0.0 and -0.0, are equal and mean different programs.
    chosen = tuple([(k, v.__class__, v or repr(v)) for k, v in static.items()])
    avals = tuple([aval_of(x) for x in arrays])
    key = signature(function, avals, chosen)
    found: K | None = calls.get(key) if closed else None
    if found is None:
        graph = trace("eager", lambda *xs: [function(*xs, **static)], avals)
        found = kind(graph)
        if closed:
            calls.put(key, found, _NODE_BYTES * len(graph.nodes))
    return found
