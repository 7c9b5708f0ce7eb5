"""Locks that a forked child finds free, and what a process makes once.

A child has none of the threads that may have held a lock when its process forked. The
one that forks takes such a lock before, and both let go of it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")


class _Lock(Protocol):
    def acquire(self) -> bool: ...
    def release(self) -> None: ...


Lock = TypeVar("Lock", bound=_Lock)


def free_after_fork(lock: Lock) -> Lock:
    """The lock, which stays as long as the process."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=lock.acquire,
            after_in_parent=lock.release,
            after_in_child=lock.release,
        )
    return lock


class Once(Generic[T]):
    """What a process makes when it is first asked for, and then keeps.

    Args:
      make: makes it.

    Attributes:
      found: what was made; None if nothing was.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._lock = free_after_fork(threading.RLock())
        self._begun = False
        self.found: T | None = None

    def __call__(self) -> T:
        found = self.found
        if found is None:
            with self._lock:
                if self.found is None:
                    self.found = self._make()
                found = self.found
        return found

    def begin(self) -> None:
        """Begins to make it in a thread, beside what the caller does next."""
        if self.found is None and not self._begun:
            self._begun = True
            run = copy_context().run
            threading.Thread(target=run, args=(self._try,), daemon=False).start()

    def _try(self) -> None:
        with suppress(Exception):  # who needs it finds the same
            self()
