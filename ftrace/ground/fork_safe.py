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
from collections.abc import Callable, Iterable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from itertools import islice
from operator import methodcaller
from time import monotonic, sleep
from typing import Any, Generic, Protocol, TypeVar, overload

from ftrace.ground.weak_tables import WeakValues

T = TypeVar("T")


class _Lock(Protocol):
    def acquire(self) -> bool: ...
    def release(self) -> None: ...


Lock = TypeVar("Lock", bound=_Lock)


#: Who begins what forks wait for takes it for a moment. It is the last to be taken.
gate = threading.RLock()
#: Those that one that forks takes, the last one first, after these waits; what they
#: wait for may begin again until all are taken.
_locks: list[_Lock] = [gate]
_waits: list[tuple[Callable[[], object], Callable[[], bool]]] = []
_take, _give = methodcaller("acquire"), methodcaller("release")
_renew = methodcaller("_at_fork_reinit")  # as the standard library does
#: Those that a child has anew.
_of_objects: WeakValues[int, Any] = WeakValues()
#: Goes through an iterator.
_exhaust: Callable[[Iterable[object]], None] = deque[object](maxlen=0).extend


class _Forking(threading.local):
    """What a thread that forks has taken; others may fork at the same time.

    Attributes:
      let_go: called behind the fork, in parent and child.
      tell: then called in the parent.
      renew: then called in the child.
    """

    def __init__(self) -> None:
        self.taken: deque[_Lock] = deque()
        self.let_go: Callable[[], object] = int
        self.tell: Callable[[], object] = int
        self.renew: Callable[[], object] = int


_forking = _Forking()


def free_after_fork(lock: Lock) -> Lock:
    """The lock, which stays as long as the process."""
    with gate:  # there are no more of them when a process forks than it has taken
        _locks.append(lock)
    return lock


def fresh_after_fork(lock: T) -> T:
    """The lock, of an object, for which no fork waits: a child finds it as if new.

    What it guards must be of use after each step that a thread may have been at.
    """
    return _of_objects.put(id(lock), lock)


def before_forks(wait: Callable[[], object], is_busy: Callable[[], bool]) -> None:
    """Has a process that forks wait; it holds none of the locks then."""
    _waits.append((wait, is_busy))


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


def _is_mine(lock: Any) -> bool:
    return getattr(lock, "_is_owned", bool)()


def _let_go() -> Callable[[], object]:
    """What releases all that this thread has taken then, the last one first."""
    taken = _forking.taken
    last_first = islice(iter(taken.pop, None), len(taken))
    return partial(_exhaust, map(_give, last_first))


def _before_fork() -> None:
    """Takes all locks. Python prints what is raised here, and forks.

    Whatever arrives, no lock that is taken is forgotten: each of these steps is in C
    alone. Ctrl-C arrives behind the fork.
    """
    interrupted = ready = False
    end = 0.0
    while not ready:
        try:
            end = end or monotonic() + _PATIENCE
            _let_go()()
            for wait, _ in _waits:
                wait()
            while _is_imported_elsewhere() and monotonic() < end:
                sleep(0.001)
            locks, taken = _locks[::-1], _forking.taken
            while len(taken) < len(locks):
                taken.extend(filter(_take, locks[len(taken) :]))
            others = [lock for lock in _of_objects.values() if not _is_mine(lock)]
            _forking.renew = partial(_exhaust, map(_renew, others))
            _forking.let_go = _let_go()
            _forking.tell = _thread.interrupt_main if interrupted else int
            # An import that has begun meanwhile may wait for the locks.
            ready = len(locks) == len(_locks) and (
                not any(is_busy() for _, is_busy in _waits)
                and (not _is_imported_elsewhere() or monotonic() >= end)
            )
        except KeyboardInterrupt:
            interrupted = True


if hasattr(os, "register_at_fork"):
    # Python prints what is raised behind a fork, and goes on. So nothing of it is
    # written in Python: a signal that has arrived meanwhile waits until it is over.
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=partial(methodcaller("let_go"), _forking),
        after_in_child=partial(methodcaller("let_go"), _forking),
    )
    os.register_at_fork(
        after_in_parent=partial(methodcaller("tell"), _forking),
        after_in_child=partial(methodcaller("renew"), _forking),
    )
    # Or those would be alive at the next fork, and so for ever.
    os.register_at_fork(after_in_parent=partial(setattr, _forking, "renew", int))


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
