"""How deep traced functions may stand in each other.

Python counts calls, and between one traced function and the next stand some of ours:
its limit of 1,000 would be reached by a hundred functions. Where they are nested deeper
than usual the limit is raised for as long, and an error of ours comes before the
processor's stack ends.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from threading import get_ident

from ftrace.errors import NestingError

#: After so many the limit is raised, for as many more.
STEP = 16
#: So many may be nested. One takes up to 2 KiB of the processor's stack, which has
#: 8 MiB in threads and the main thread of Linux.
DEEPEST = 2048
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


def make_room(depth: int, bodies: int) -> None:
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
            f"{depth} functions under transforms call each other, which is the most "
            "that is possible; does one call itself without end? Repetition belongs "
            "into lax.fori_loop or lax.scan, which trace their function once"
        )
    limit = sys.getrecursionlimit()
    if not _state.threads:
        _state.own = limit
    _state.threads.add(get_ident())
    needed = _state.own + (depth + STEP) * _CALLS
    if limit < needed:
        sys.setrecursionlimit(needed)
        _state.raised = needed


def give_room_back() -> None:
    """What was nested in this thread has ended."""
    _state.threads.discard(get_ident())
    if not _state.threads and sys.getrecursionlimit() == _state.raised:
        with suppress(RecursionError):  # the user is as deep without us
            sys.setrecursionlimit(_state.own)
