"""What is known while anyone has it, without Python's code where it dies.

Things die anywhere. An exception of a signal that arrives in a finaliser, or in the
callback of a weak reference, is printed and lost, with Ctrl-C among them; those of the
standard library are written in Python. Here that something has died is noted in C
alone, and what remembers it is removed when the next one is put.
"""

from __future__ import annotations

import _weakref
import weakref
from collections import deque
from collections.abc import Hashable
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

#: Removes a key from a dict if its reference is dead, in one step.
_remove_dead: Any = vars(_weakref)["_remove_dead_weakref"]


class _Reference(weakref.ref[V]):
    __slots__ = ("key",)
    key: Any


class WeakValues(Generic[K, V]):
    """Values by key, as long as anyone has them.

    Threads use it without a lock, which one that forks would take out of turn.
    """

    def __init__(self) -> None:
        self._references: dict[K, _Reference[V]] = {}
        self._dead: deque[_Reference[V]] = deque()
        self._note: Any = self._dead.append

    def __len__(self) -> int:
        self._bury()
        return len(self._references)

    def get(self, key: K) -> V | None:
        reference = self._references.get(key)
        return None if reference is None else reference()

    def put(self, key: K, value: V) -> V:
        reference = _Reference(value, self._note)
        reference.key = key
        if self._dead:
            self._bury()
        self._references[key] = reference
        return value

    def values(self) -> list[V]:
        found = [reference() for reference in list(self._references.values())]
        return [value for value in found if value is not None]

    def clear(self) -> None:
        self._references.clear()
        self._dead.clear()  # which have their keys

    def _bury(self) -> None:
        try:
            while True:  # another thread may have put a value under the same key
                _remove_dead(self._references, self._dead.popleft().key)
        except IndexError:
            return
