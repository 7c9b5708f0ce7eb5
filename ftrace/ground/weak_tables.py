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
from collections.abc import Callable, Hashable
from types import FunctionType
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

#: Removes a key from a dict if its reference is dead, in one step.
_remove_dead: Any = vars(_weakref)["_remove_dead_weakref"]


class Reference(weakref.ref[V]):
    """A reference that knows its key."""

    __slots__ = ("key",)
    key: Any


class OfFunctions(Generic[V]):
    """Values by function, as long as that lives; one that holds it until `forget`."""

    def __init__(self) -> None:
        self._values: dict[weakref.ref[FunctionType], V] = {}

    def keep(self, function: FunctionType, value: V) -> V:
        """The value that is there; else this one, which is there from now on."""
        reference = weakref.ref(function, self._values.pop)
        return self._values.setdefault(reference, value)

    def get(self, function: FunctionType) -> V | None:
        return self._values.get(weakref.ref(function))

    def forget(self, idle: Callable[[V], bool]) -> None:
        for reference, value in list(self._values.items()):
            if idle(value):
                self._values.pop(reference, None)


class WeakValues(Generic[K, V]):
    """Values by key, as long as anyone has them.

    Threads use it without a lock, which one that forks would take out of turn.

    Attributes:
      references: to the values; those to dead ones are still there.
      dead: of those, the ones to bury; `note` adds one.
    """

    def __init__(self) -> None:
        self.references: dict[K, Reference[V]] = {}
        self.dead: deque[Reference[V]] = deque()
        self.note: Any = self.dead.append

    def __len__(self) -> int:
        self.bury()
        return len(self.references)

    def get(self, key: K) -> V | None:
        reference = self.references.get(key)
        return None if reference is None else reference()

    def put(self, key: K, value: V) -> V:
        reference = Reference(value, self.note)
        reference.key = key
        self.references[key] = reference
        if self.dead:
            self.bury()
        return value

    def keep(self, key: K, value: V) -> V:
        """The value that is there; else this one, which is there from now on.

        Of those that threads put there at the same time one stays.
        """
        reference = Reference(value, self.note)
        reference.key = key
        while (kept := self.references.setdefault(key, reference)) is not reference:
            other = kept()
            if other is not None:
                return other
            _remove_dead(self.references, key)
        if self.dead:
            self.bury()
        return value

    def values(self) -> list[V]:
        found = [reference() for reference in list(self.references.values())]
        return [value for value in found if value is not None]

    def clear(self) -> None:
        self.references.clear()
        self.dead.clear()  # which have their keys

    def bury(self) -> None:
        """Removes what is left of the dead."""
        while self.dead:
            try:
                dead = self.dead[0]  # it goes last: an exception may come between
                # Another thread may have put a value under the same key.
                _remove_dead(self.references, dead.key)
                self.dead.remove(dead)
                del dead  # with it others die, which join the queue
            except (IndexError, ValueError):  # another thread has been here
                continue
