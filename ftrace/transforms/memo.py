"""What was derived from a graph before, so that it is not derived again.

Un-jitted transforms trace their function at every call. Nodes are interned: the same
function traced for the same types is the same graph, and so is its derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from ftrace import settings
from ftrace.tables import Table, clear_tables
from ftrace.trace.graph import Graph, Node, bury, operations_of
from ftrace.trace.primitives.record import Primitive
from ftrace.trace.recall import forget_calls

#: Bytes that a node of a graph takes, with what keeps it apart from others.
NODE_BYTES = 600

#: The inputs and outputs of derived graphs.
_derived: Table[Hashable, tuple[tuple[Node, ...], tuple[Node, ...]]] = Table(1024)


def derived(kind: Hashable, graph: Graph, derive: Callable[[], Graph]) -> Graph:
    """`derive()`, or what it returned for this graph before.

    Args:
      kind: says what is derived; with the graph it decides the result.
      graph: what it is derived from; the result has its captured arrays.
      derive: called where the result is not known. What rules of the user's say is
        not kept: they are Python, and run each time.
    """
    x64 = settings.current().enable_x64  # constants of rules depend on it
    key = (kind, x64, graph.inputs, graph.outputs)
    found = _derived.get(key) if not graph.effects else None
    if found is not None:
        return Graph(*found, graph.captured)
    plain = is_plain(graph)
    whole = derive()
    if plain:
        _derived.put(key, (whole.inputs, whole.outputs), weight_of(whole))
    return whole


def is_plain(graph: Graph) -> bool:
    """Is its derivative ours alone? No effects or bodies, no operation of a user."""
    ops = operations_of(graph.outputs)
    return not graph.effects and all(isinstance(op, Primitive) for op in ops)


def weight_of(graph: Graph) -> int:
    """What its nodes weigh, in bytes, if nobody else has them."""
    return NODE_BYTES * sum(operations_of(graph.outputs).values())


def forget_all() -> None:
    """Empties every table, and that of what was traced."""
    clear_tables()
    forget_calls()
    bury()
