"""Walks over graphs without Python's search for cycles among what they make.

A walk over a large graph makes many objects that all stay, and no cycles. Python's
collector looks through all of them again and again: at 40,000 nodes half of the time
of a derivative was its.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class _Pauses:
    """How many pauses there are, in all threads; was the collector on before?"""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = 0
        self.was_on = False

    def begin(self) -> None:
        with self.lock:
            if self.count == 0:
                self.was_on = gc.isenabled()
                gc.disable()
            self.count += 1

    def end(self) -> None:
        with self.lock:
            self.count -= 1
            if self.count == 0 and self.was_on:
                gc.enable()

    def end_all(self) -> None:
        """In a child process: the threads that had begun are not in it."""
        self.lock = threading.Lock()
        if self.count and self.was_on:
            gc.enable()
        self.count = 0


_pauses = _Pauses()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pauses.end_all)


class paused_collection:  # reads as a statement: `with paused_collection()`
    """A block in which cycles are not looked for; blocks may be nested.

    It is for our own walks, not for functions of users.
    """

    __slots__ = ()

    def __enter__(self) -> None:
        _pauses.begin()

    def __exit__(self, *_: object) -> None:
        _pauses.end()


class importing(paused_collection):
    """A block of imports.

    What they make stays, and there are no cycles to be found in it: it is put with what
    is old, so that the next search does not look through it.
    """

    __slots__ = ()

    def __exit__(self, *_: object) -> None:
        # Who has put objects away for good keeps them there.
        if hasattr(gc, "freeze") and not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
        _pauses.end()


def without_collection(function: Callable[P, R]) -> Callable[P, R]:
    """The function, during which cycles are not looked for."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Any:
        with paused_collection():
            return function(*args, **kwargs)

    return call
