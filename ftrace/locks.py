"""Locks that a forked child finds free, and what a process makes once.

A child has none of the threads that may have held a lock when its process forked. The
one that forks takes such a lock before, and both let go of it. Python's own locks of
modules are not ours to take: it waits until no other thread imports what we import
when it is first needed.
"""

from __future__ import annotations

import _frozen_importlib
import _thread
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from operator import methodcaller
from time import monotonic, sleep
from typing import Any, Generic, Protocol, TypeVar, overload

T = TypeVar("T")


class _Lock(Protocol):
    def acquire(self) -> bool: ...
    def release(self) -> None: ...


Lock = TypeVar("Lock", bound=_Lock)


#: Those that one that forks takes, the last one first, after these waits.
_locks: list[_Lock] = []
_waits: list[Callable[[], object]] = []
_take = methodcaller("acquire")


class _Forking(threading.local):
    """Those that this thread has taken; others may fork at the same time."""

    def __init__(self) -> None:
        self.taken: deque[_Lock] = deque()


_forking = _Forking()


def free_after_fork(lock: Lock) -> Lock:
    """The lock, which stays as long as the process."""
    _locks.append(lock)
    return lock


def before_forks(wait: Callable[[], object]) -> None:
    """Has a process that forks wait; it holds none of the locks then."""
    _waits.append(wait)


#: Seconds after which a fork waits for imports no longer: they may wait for it.
_PATIENCE = 20.0
#: Packages that we import when they are first needed.
_LATE = frozenset(("ftrace", "llvmlite", "numpy", "optree", "pyopencl", "scipy"))


def _is_imported_elsewhere() -> bool:
    """Does another thread import one of them now? Its lock would stay taken."""
    me, known = _thread.get_ident(), getattr(_frozen_importlib, "_module_locks", {})
    for name, reference in list(known.items()):
        if name.partition(".")[0] in _LATE:
            owner = getattr(reference(), "owner", None)
            if owner not in (None, me):
                return True
    return False


def _before_fork() -> None:
    interrupted, end = False, monotonic() + _PATIENCE
    ready = False
    while not ready:
        _after_fork()
        try:
            for wait in _waits:
                wait()
            while _is_imported_elsewhere() and monotonic() < end:
                sleep(0.001)
        except KeyboardInterrupt:  # Python would print it, and fork
            interrupted = True
            continue
        locks, taken = _locks[::-1], _forking.taken
        while len(taken) < len(locks):
            try:  # in C alone: what is taken is noted
                taken.extend(filter(_take, locks[len(taken) :]))
            except KeyboardInterrupt:
                interrupted = True
        try:  # an import that has begun meanwhile may wait for them
            ready = not _is_imported_elsewhere() or monotonic() >= end
        except KeyboardInterrupt:
            interrupted = True
    if interrupted:
        _thread.interrupt_main()  # it arrives behind the fork


def _after_fork() -> None:
    taken = _forking.taken
    while taken:
        taken.pop().release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork
    )


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
            with suppress(RuntimeError):  # no new threads, as at the process's end
                threading.Thread(target=run, args=(self._try,), daemon=False).start()

    def _try(self) -> None:
        with suppress(Exception):  # who needs it finds the same
            self()


class cached_property(Generic[T]):
    """A value of an object, made when it is first asked for; threads may each make one.

    That of `functools` holds a lock for all objects of a class while it makes a value,
    until Python 3.12: a child that is forked meanwhile waits for it for ever.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> cached_property[T]: ...
    @overload
    def __get__(self, instance: object, owner: type[Any]) -> T: ...
    def __get__(self, instance: Any, owner: type[Any]) -> Any:
        if instance is None:
            return self
        return instance.__dict__.setdefault(self._name, self._make(instance))
