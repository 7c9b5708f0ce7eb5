"""What stands above and is used from below: it runs graphs as programs of a device.

backend             it; `transforms` registers it when ftrace is imported
count_operation     counts towards native eager calls
RecordedCallable    a function whose calls of known kinds are native
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np

from ftrace.trace import tiering
from ftrace.trace.arrays.array import Array
from ftrace.trace.graph import Graph
from ftrace.trace.primitives.primitive import Compound

Program = Callable[..., list[Array]]


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
      calls_left: so many eager operations are done before that.
    """

    run_graph: Callable[[Graph, Sequence[Array]], list[Array]]
    compiles: Callable[[], bool]
    program_of: Callable[[Graph], Program]
    has_compiled: Callable[[], bool]
    run_call: Callable[[Callable[..., Any], bool, Any, Any], Any]
    run_operation: Callable[[Compound, Any, Sequence[Array]], Any]
    make_native: Callable[[], None]
    calls_left: int = tiering.CALLS_BEFORE_NATIVE


backend = Backend()


def count_operation() -> None:
    """Counts an eager operation that Python's code does."""
    backend.calls_left -= 1
    if backend.calls_left == 0:
        backend.make_native()


class Record(Protocol):
    """A kind of calls, and what is done, in a form that a device does by itself.

    Attributes:
      address: of it in memory.
      in_use: does a function have it?
    """

    address: int
    in_use: bool


#: Kinds of calls of one function that are native; the others are not.
RECORDS = 32


class RecordedCallable:
    """A function that keeps records of the kinds of calls that came often.

    A device may put its own code in the place of `__call__`, which looks for a record
    that fits. What it does not know comes to the method `plain_call`.

    Attributes:
      entry: the name of that code.
    """

    # Native code finds the records through a slot, which has a fixed place.
    __slots__ = ("_links", "_records")

    entry: ClassVar[str]

    def __init__(self) -> None:
        self._links: Any = None  # an array: how many records, and their addresses
        self._records: list[Record] = []

    def add_record(self, record: Record) -> None:
        """One more; the oldest goes where there are too many."""
        # Whatever is raised meanwhile, all live that the links name.
        self._records = known = [record, *self._records]
        addresses = [x.address for x in known[:RECORDS]]
        self._links = np.array([len(addresses), *addresses], np.int64)
        for old in known[RECORDS:]:
            old.in_use = False
        self._records = known[:RECORDS]

    def forget_records(self) -> None:
        self._links, self._records = None, []
