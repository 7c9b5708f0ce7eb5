"""Caches: what need not be made again, all of it within one limit of bytes.

    Table    what was made, by key       graphs, programs, records of calls
    Shared   the same, while it lives    a program that several functions use
    memo     results of one function     what is soon made again

All tables share `settings.cache_memory`. Where they hold more, what was used longest
ago goes, whichever table has it. The latest entries of each table stay whatever they
weigh: who calls one large program again and again does not wait for it each time. What
a table holds goes with it, so that of a function goes with the function. Nobody weighs
a memo: it is emptied where the limit is reached.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any, Generic, ParamSpec, TypeVar

from ftrace.ground import settings
from ftrace.ground.fork_safe import free_after_fork
from ftrace.ground.weak_tables import WeakValues

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
P = ParamSpec("P")

#: Bytes of an entry that nobody has weighed.
LIGHT = 1000
#: How many entries of a table stay, if nothing else is said.
LATEST = 16


class Entry(Generic[V]):
    """What is cached, its weight, and when it was used last."""

    __slots__ = ("nbytes", "used", "value")

    def __init__(self, value: V, nbytes: int, used: int) -> None:
        self.value = value
        self.nbytes = nbytes
        self.used = used


class _Budget:
    """The tables, and roughly what they hold.

    Attributes:
      clock: goes on by one where something is put into a table or found there.
      held: bytes; what went with its table counts until they are counted anew.
      swept: the clock when they were gone through last.
      memos: what empties each of them.
    """

    def __init__(self) -> None:
        self.clock = self.held = self.swept = 0
        self.memos: list[Callable[[], object]] = []
        self._stayed = 0  # when it was looked at last
        self._tables: WeakValues[int, Table[Any, Any]] = WeakValues()
        self._lock = free_after_fork(threading.RLock())

    def add(self, table: Table[Any, Any]) -> None:
        with self._lock:
            self._tables.put(id(table), table)

    def tables(self) -> list[Table[Any, Any]]:
        with self._lock:
            return self._tables.values()

    def grow(self, nbytes: int) -> None:
        self.held += nbytes
        limit = settings.current().cache_memory
        if self.held <= limit:
            return
        # Where all that is left has to stay, it is not looked at each time.
        if self.held > self._stayed + limit // 4 and self._lock.acquire(blocking=False):
            try:
                self._sweep(limit)
                self._stayed = self.held
            finally:
                self._lock.release()

    def shrink(self, nbytes: int) -> None:
        self.held -= nbytes
        self._stayed = min(self._stayed, self.held)

    def _sweep(self, limit: int) -> None:
        """Lets go of what was used longest ago; then a quarter of the limit is free."""
        for empty in self.memos:
            empty()
        self.swept = self.clock
        self.held = 0
        found: list[tuple[int, Table[Any, Any], Any, Entry[Any]]] = []
        for table in self._tables.values():
            entries = table.by_age()
            self.held += sum(entry.nbytes for _, entry in entries)
            old = entries[: max(len(entries) - table.latest, 0)]
            found += [(entry.used, table, key, entry) for key, entry in old]
        found.sort(key=lambda item: item[0])
        for _, table, key, entry in found:
            if self.held <= limit * 3 // 4:
                break
            if not table.is_needed(entry.value):
                table.drop(key)


_budget = _Budget()


class Table(Generic[K, V]):
    """What was made, by key; what was used longest ago goes first.

    Args:
      most: how many entries there may be; None is any number.
      latest: so many of them stay whatever they weigh.
      is_needed: of which others it is asked, too.
      forgotten: told of what goes: key and value.
    """

    def __init__(
        self,
        most: int | None = None,
        latest: int = LATEST,
        is_needed: Callable[[V], bool] = lambda value: False,
        forgotten: Callable[[K, V], None] = lambda key, value: None,
    ) -> None:
        self.most = most
        self.latest = latest
        self.is_needed = is_needed
        self._forgotten = forgotten
        self._entries: dict[K, Entry[V]] = {}
        _budget.add(self)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def nbytes(self) -> int:
        """What the entries weigh."""
        return sum(entry.nbytes for entry in list(self._entries.values()))

    @property
    def idle(self) -> bool:
        """Was none of it used since the tables were gone through?"""
        return all(x.used <= _budget.swept for x in list(self._entries.values()))

    def get(self, key: K) -> V | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        _budget.clock = entry.used = _budget.clock + 1
        return entry.value

    def once(self, key: K, make: Callable[[], V], nbytes: int = LIGHT) -> V:
        """The value of a key, which is made where there is none."""
        found = self.get(key)
        return self.put(key, make(), nbytes) if found is None else found

    def put(self, key: K, value: V, nbytes: int = LIGHT) -> V:
        if key in self._entries:
            self.drop(key)
        _budget.clock += 1
        self._entries[key] = Entry(value, nbytes, _budget.clock)
        if self.most is not None and len(self._entries) > self.most:
            excess = len(self._entries) - self.most + self.most // 4
            for old, _ in self.by_age()[:excess]:
                self.drop(old)
        _budget.grow(nbytes)
        return value

    def drop(self, key: K) -> None:
        """Forgets an entry, if it is there."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            _budget.shrink(entry.nbytes)
            self._forgotten(key, entry.value)

    def by_age(self) -> list[tuple[K, Entry[V]]]:
        """The entries, those used longest ago first."""
        return sorted(self._entries.items(), key=lambda item: item[1].used)

    def clear(self) -> None:
        for key in list(self._entries):
            self.drop(key)


class Shared(Generic[K, V]):
    """What was made, by key, while anyone has it; the latest is cached for others.

    Args:
      most: so many are kept that nobody else has.
    """

    def __init__(self, most: int) -> None:
        self._alive: WeakValues[K, V] = WeakValues()
        self._latest: Table[K, V] = Table(most)

    def __len__(self) -> int:
        return len(self._alive)

    def get(self, key: K) -> V | None:
        found = self._latest.get(key)
        return self._alive.get(key) if found is None else found

    def put(self, key: K, value: V, nbytes: int) -> V:
        self._alive.put(key, value)
        return self._latest.put(key, value, nbytes)

    def clear(self) -> None:
        self._alive.clear()
        self._latest.clear()


def memo(most: int, typed: bool = False) -> Callable[[Callable[P, V]], Callable[P, V]]:
    """As `lru_cache`, and emptied where the limit is reached."""

    def remember(function: Callable[P, V]) -> Callable[P, V]:
        made: Any = lru_cache(most, typed)(function)
        on_limit(made.cache_clear)
        return made

    return remember


def on_limit(forget: Callable[[], object]) -> None:
    """Has `forget` empty a memo where the limit is reached."""
    _budget.memos.append(forget)


def clear_tables() -> None:
    """Empties all memos and tables."""
    _budget.swept = _budget.clock
    for empty in _budget.memos:
        empty()
    for table in _budget.tables():
        table.clear()
