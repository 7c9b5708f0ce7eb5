"""What Python limits: how deep calls stand in each other, and when it seeks cycles."""

from __future__ import annotations

import gc
import os
import sys
from _thread import get_ident
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from ftrace.errors import NestingError
from ftrace.trace.graph import provenance

# How deep traced functions may stand in each other.
#
# Python counts calls, and between one traced function and the next stand some of ours:
# its limit of 1,000 would be reached by a hundred functions. Where they are nested
# deeper than usual the limit is raised for as long, and an error of ours comes before
# the processor's stack ends.


#: After so many the limit is raised, for as many more.
STEP = 16
#: So many may be nested. One takes up to 2 KiB of the processor's stack, which has
#: 8 MiB in threads and the main thread of Linux; in Python 3.10, where calls of
#: Python's take some as well, about 6. Python 3.12 and 3.13 count calls from C besides,
#: of which each function makes some eight, and allow 10,000.
DEEPEST = 1024 if sys.version_info[:2] in ((3, 10), (3, 12), (3, 13)) else 2048
#: Bodies that may stand in each other: of `checkpoint`, loops, branches and rules of
#: one's own. Every later walk over the graph calls itself for each, up to seven deep.
DEEPEST_BODIES = 96
#: Calls of Python's that are counted for one: ten are ours.
_CALLS = 40


class _Limit:
    """Python's limit: its own, and what we have made of it; for which threads."""

    def __init__(self) -> None:
        self.own = self.raised = 0
        self.threads: set[int] = set()


_state = _Limit()


def allow_depth(depth: int, bodies: int) -> None:
    """Lets functions be nested deeper than `depth`; called for multiples of `STEP`.

    Args:
      bodies: so many of them stay functions in the graph.

    Raises:
      NestingError: they are nested so deep that it never ends, or as good as.
    """
    if bodies >= DEEPEST_BODIES:
        raise NestingError(
            f"{bodies} functions under checkpoint, loops, branches or custom rules "
            "stand in each other, which is the most that is possible; does one call "
            "itself without end? Wrap the whole, or each part by itself"
        )
    if depth >= DEEPEST:
        raise NestingError(
            "functions under transforms call each other a thousand deep and more, "
            "which is the most that is possible; does one call itself without end? "
            "Repetition belongs into lax.fori_loop or lax.scan, which trace their "
            "function once"
        )
    limit = sys.getrecursionlimit()
    if not _state.threads:
        _state.own = limit
    _state.threads.add(get_ident())
    needed = _state.own + (depth + STEP) * _CALLS
    if limit < needed:
        sys.setrecursionlimit(needed)
        _state.raised = needed


def reset_depth() -> None:
    """What was nested in this thread has ended."""
    _state.threads.discard(get_ident())
    if not _state.threads and sys.getrecursionlimit() == _state.raised:
        with suppress(RecursionError):  # the user is as deep without us
            sys.setrecursionlimit(_state.own)


# Walks over graphs without Python's search for cycles among what they make.
#
# A walk over a large graph makes many objects that all stay, and no cycles. Python's
# collector looks through all of them again and again: at 40,000 nodes half of the time
# of a derivative was its.


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
