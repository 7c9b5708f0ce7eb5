"""What stands above and is used from below: it runs graphs as programs of a device.

backend          it; `transforms.backend` registers it when ftrace is imported
count_operation  counts towards native eager calls
Compiled         a graph as a program of the processor
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ftrace import settings
from ftrace.array import Array
from ftrace.settings import Config
from ftrace.trace import tiering
from ftrace.trace.graph import Graph
from ftrace.trace.primitives.record import Compound, Primitive

Program = Callable[..., list[Array]]


class Backend:
    """What stands above.

    Attributes:
      run_graph: runs a graph on the device of its arguments.
      prepare: compiles a graph without effects under a configuration, for calls on
        NumPy's arrays; None where the default device is not the processor.
      has_compiled: has this process compiled anything?
      run_call: does a call outside of all traces, if its arrays are large: given the
        function, whether numbers are operands of it, and its arguments. It returns
        None where NumPy shall compute the result.
      run_operation: does an operation with several results, likewise: given it, its
        argument and the operands.
      find_kernel: what computes a function of elements that NumPy lacks, for arrays of
        a dtype; None where Python shall do it.
      make_native: lets eager calls be native, where there is such code.
      calls_left: so many eager operations are done before that.
    """

    run_graph: Callable[[Graph, Sequence[Array]], list[Array]]
    prepare: Callable[[Graph, Config], Program | None]
    has_compiled: Callable[[], bool]
    run_call: Callable[[Callable[..., Any], bool, Any, Any], Any]
    run_operation: Callable[[Compound, Any, Sequence[Array]], Any]
    find_kernel: Callable[[Primitive, np.dtype[Any]], Any]
    make_native: Callable[[], None]
    calls_left: int = tiering.CALLS_BEFORE_NATIVE


backend = Backend()


def count_operation() -> None:
    """Counts an eager operation that Python's code does."""
    backend.calls_left -= 1
    if backend.calls_left == 0:
        backend.make_native()


class Compiled:
    """A graph without effects, compiled when it is first asked for."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._config: Config | None = None
        self._program: Program | None = None

    def program(self) -> Program | None:
        """Its program under the configuration of the day; None if there is none."""
        config = settings.current()
        if config is not self._config:
            if config != self._config:
                self._program = backend.prepare(self._graph, config)
            self._config = config
        return self._program
