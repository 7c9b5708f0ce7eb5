"""What stands above and is used from below; `transforms` sets it when it is imported.

hooks            the functions
count_operation  counts towards native eager calls
Compiled         a graph as a program of the processor
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ftrace import settings
from ftrace.array import Array
from ftrace.settings import Config
from ftrace.trace.graph import Graph
from ftrace.trace.primitives.record import Compound

#: Who does less in eager code shall not wait for native code to be made ready.
CALLS_BEFORE_NATIVE = 2000

Program = Callable[..., list[Array]]


class Hooks:
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
      make_native: lets eager calls be native, where there is such code.
      calls_left: so many eager operations are done before that.
    """

    run_graph: Callable[[Graph, Sequence[Array]], list[Array]] | None = None
    prepare: Callable[[Graph, Config], Program | None] | None = None
    has_compiled: Callable[[], bool] = bool
    run_call: Callable[[Callable[..., Any], bool, Any, Any], Any] | None = None
    run_operation: Callable[[Compound, Any, Sequence[Array]], Any] | None = None
    make_native: Callable[[], None] | None = None
    calls_left: int = CALLS_BEFORE_NATIVE


hooks = Hooks()


def count_operation() -> None:
    """Counts an eager operation that Python's code does."""
    hooks.calls_left -= 1
    if hooks.calls_left == 0 and hooks.make_native is not None:
        hooks.make_native()


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
            if config != self._config and hooks.prepare is not None:
                self._program = hooks.prepare(self._graph, config)
            self._config = config
        return self._program
