"""What stands above and is used from below: it runs graphs as programs of a device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ftrace.ground.fast_dataclasses import dataclass
from ftrace.trace import tiering
from ftrace.trace.arrays.array import Array
from ftrace.trace.graph import Graph
from ftrace.trace.primitives.primitive import Compound

Program = Callable[..., list[Array]]


@dataclass(frozen=True)
class Backend:
    """What stands above.

    Attributes:
      run_graph: runs a graph on the device of its arguments.
      compiles: are eager calls compiled: is the default device the processor?
      program_of: a graph without effects, compiled when it is first called with values.
      has_compiled: has this process compiled anything?
      run_call: does a call outside of all traces, if its arrays are large: given the
        function, whether numbers are operands of it, and its arguments. It returns
        None where NumPy shall compute the result.
      run_operation: does an operation with several results, likewise: given it, its
        argument and the operands.
      make_native: lets eager calls be native, where there is such code.
    """

    run_graph: Callable[[Graph, Sequence[Array]], list[Array]]
    compiles: Callable[[], bool]
    program_of: Callable[[Graph], Program]
    has_compiled: Callable[[], bool]
    run_call: Callable[[Callable[..., Any], bool, Any, Any], Any]
    run_operation: Callable[[Compound, Any, Sequence[Array]], Any]
    make_native: Callable[[], None]


_registered: list[Backend] = []


def register(made: Backend) -> None:
    """From now on graphs run by it."""
    _registered[:] = [made]


def backend() -> Backend:
    """The one that is registered; `ftrace` does that when it is imported."""
    return _registered[0]


#: Eager operations that Python's code has done.
operations = tiering.Tally()


def count_operation() -> None:
    """Counts an eager operation that Python's code does."""
    done = operations.spent = operations.spent + 1
    # Also where another thread counts on meanwhile.
    if done == tiering.CALLS_BEFORE_NATIVE:
        backend().make_native()
