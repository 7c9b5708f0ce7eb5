"""What was derived from a graph before, so that it is not derived again.

Un-jitted transforms trace their function at every call. Nodes are interned: the same
function traced for the same types is the same graph, and so is its derivative.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from ftrace import settings
from ftrace.locks import free_after_fork
from ftrace.trace.graph import Graph, Node
from ftrace.trace.primitives.record import Primitive
from ftrace.trace.recall import forget_calls

T = TypeVar("T")


_memos: list[Memo[Any]] = []


class Memo(Generic[T]):
    """The results of a function by key; those used longest ago go first.

    Args:
      size: how many are kept.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._entries: OrderedDict[Hashable, T] = OrderedDict()
        self._lock = free_after_fork(threading.Lock())
        _memos.append(self)

    def get(self, key: Hashable) -> T | None:
        with self._lock:
            found = self._entries.get(key)
            if found is not None:
                self._entries.move_to_end(key)
            return found

    def put(self, key: Hashable, value: T) -> T:
        with self._lock:
            self._entries[key] = value
            while len(self._entries) > self.size:
                self._entries.popitem(last=False)
        return value

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()


#: The inputs and outputs of derived graphs.
_derived: Memo[tuple[tuple[Node, ...], tuple[Node, ...]]] = Memo(1024)


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
    whole = derive()
    if is_plain(graph):
        _derived.put(key, (whole.inputs, whole.outputs))
    return whole


def is_plain(graph: Graph) -> bool:
    """Is its derivative ours alone? No effects or bodies, no operation of a user."""
    return not graph.effects and all(isinstance(n.op, Primitive) for n in graph.nodes)


def forget_all() -> None:
    """Empties every memory, and that of what was traced."""
    for memo in _memos:
        memo.clear()
    forget_calls()
