"""Walks over graphs without Python's search for cycles among what they make.

A walk over a large graph makes many objects that all stay, and no cycles. Python's
collector looks through all of them again and again: at 40,000 nodes half of the time
of a derivative was its.
"""

from __future__ import annotations

import gc
import os
from _thread import get_ident
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from ftrace.trace.graph import provenance

P = ParamSpec("P")
R = TypeVar("R")


#: The threads that pause.
_blocks: dict[int, None] = {}
#: So many objects may be made until cycles are looked for where a walk ends, though
#: others go on: threads that take turns would put it off for ever.
MOST_UNSEARCHED = 200_000


def _end_all() -> None:
    """In a child process: the threads that had begun are not in it."""
    others = [thread for thread in _blocks if thread != get_ident()]
    for thread in others:
        del _blocks[thread]
    if others and not _blocks:
        gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_end_all)


def without_collection(function: Callable[P, R]) -> Callable[P, R]:
    """The function, during which cycles are not looked for.

    It is for our own walks, not for functions of users.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Any:
        blocks = _blocks
        if not blocks and not gc.isenabled():  # the user has turned it off
            return function(*args, **kwargs)
        me = get_ident()
        if me in blocks:
            return function(*args, **kwargs)
        outer = provenance.origin
        # Of each statement that counts no call comes before: Ctrl-C comes behind calls.
        try:
            blocks[me] = None
            gc.disable()
            return function(*args, **kwargs)
        finally:
            del blocks[me]
            provenance.origin = outer  # Ctrl-C may have kept a block from doing so
            if not blocks:
                gc.enable()
            elif gc.get_count()[0] > MOST_UNSEARCHED:
                gc.collect()

    return call


def importing(load: Callable[[], R]) -> R:
    """What a function returns that imports; what it makes stays, and has no cycles."""
    result = without_collection(load)()
    put_away()
    return result


def put_away() -> None:
    """Puts all that was made with what is old: the next search does not look there."""
    # Who has put objects away for good keeps them there.
    if hasattr(gc, "freeze") and not gc.get_freeze_count():
        try:
            gc.freeze()
        finally:
            gc.unfreeze()
