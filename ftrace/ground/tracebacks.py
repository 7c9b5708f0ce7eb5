"""What a traceback shows: the user's lines, without the frames of ftrace between them.

    File "train.py", line 8, in <module>
      step(params, batch)
    File "train.py", line 3, in layer          16 frames of ftrace were above this one,
      return fnp.tanh(x @ w)                   and 5 below
    ShapeError: matmul: the shapes …

Only what is shown is changed: an exception keeps all of its frames for a debugger, a
log, or whoever else looks. Frames are left out of exceptions of ours, of what led to
them, and of those that the user's code has raised; what goes wrong within ftrace is
shown whole.

`traceback="full"`, in the environment `FTRACE_TRACEBACK=full`, shows all frames.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from itertools import product
from types import FrameType, FunctionType, TracebackType
from typing import Any

from ftrace.errors import FtraceError, is_internal, is_ours
from ftrace.ground import settings


def _without_ours(
    traceback: TracebackType | None,
) -> tuple[TracebackType | None, int]:
    """The frames of users, and how many others there were.

    Frames of a library that stand below one of ours go with it: it called them.
    """
    kept, count, inside = list[TracebackType](), 0, False
    while traceback is not None:
        frame = traceback.tb_frame
        inside = is_ours(frame) or (inside and is_internal(frame.f_code))
        if inside:
            count += 1
        else:
            kept.append(traceback)
        traceback = traceback.tb_next
    shown: TracebackType | None = None
    for each in reversed(kept):
        shown = TracebackType(shown, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return shown, count


def _related_to(error: BaseException) -> list[BaseException]:
    """What is shown beside an exception: its cause, its context, those of a group."""
    related = [error.__cause__, error.__context__, *getattr(error, "exceptions", ())]
    return [each for each in related if each is not None]


def _chain(error: BaseException | None) -> list[tuple[BaseException, bool]]:
    """An exception with all that is shown beside it, and is each told by one of ours?

    That has put into words what led to it, within ftrace.
    """
    found: dict[int, tuple[BaseException, bool]] = {}
    pending = [] if error is None else [(error, False)]
    while pending:
        each, told = pending.pop()
        if id(each) not in found:
            found[id(each)] = each, told
            told = isinstance(each, FtraceError)
            pending += [(other, told) for other in _related_to(each)]
    return list(found.values())


def _is_users(error: BaseException) -> bool:
    """Has the user's code raised it, or have we, so that our frames tell nothing?"""
    last, ours = error.__traceback__, list[FrameType]()  # since the user's last line
    while last is not None:
        ours = [*ours, last.tb_frame] if is_ours(last.tb_frame) else []
        last = last.tb_next
    if not ours or isinstance(error, FtraceError):
        return True
    known = ours[-1].f_locals
    if type(error) is AttributeError:  # of the name that a `__getattr__` was given
        return len(ours) == 1 and any(
            type(x) is str and x == error.name for x in known.values()
        )
    hand_on = all({"args", "kwargs"}.issubset(frame.f_locals) for frame in ours)
    return type(error) is TypeError and _refuses(str(error), ours[-1], hand_on)


def _refuses(message: str, frame: FrameType, of_ours: bool = False) -> bool:
    """Is it a user's function that takes no such arguments as this frame gives it?

    Python raises that in the frame of the caller: two() missing 1 required …

    Args:
      of_ours: or one of ours, where the arguments are as the user's line gave them?
    """
    name, parenthesis, _ = message.partition("() ")
    if not parenthesis:
        return False
    called = list(frame.f_locals.values())
    for value, attribute in product(tuple(called), frame.f_code.co_names):
        with suppress(Exception):  # a property may raise anything
            called.append(getattr(value, attribute))
    return any(
        type(x) is FunctionType
        and x.__qualname__ == name
        and (of_ours or not is_internal(x.__code__))
        for x in called
    )


@contextmanager
def fold_frames(error: BaseException | None) -> Generator[int]:
    """A block in which an exception has the user's frames alone; how many others."""
    whole = [
        (each, each.__traceback__, each.__suppress_context__)
        for each, told in _chain(error)
        if told or _is_users(each)
    ]
    left_out = 0
    try:
        for each, traceback, _ in whole:
            shown, count = _without_ours(traceback)
            if shown is not None or each is not error:
                each.__traceback__ = shown
                left_out += count
        for each, _, _ in whole:
            met = each.__context__
            if isinstance(each, FtraceError) and met and met.__traceback__ is None:
                each.__suppress_context__ = True  # it was met within ftrace alone
        yield left_out
    finally:
        for each, traceback, suppressed in whole:
            each.__traceback__ = traceback
            each.__suppress_context__ = suppressed


def shows_all() -> bool:
    """Do the settings want all frames?"""
    return settings.current().traceback == "full"


def _show_folded(error: BaseException | None, show: Callable[[], Any]) -> None:
    """Shows an exception as the settings want it."""
    if error is None or shows_all():
        show()
        return
    with fold_frames(error) as count:
        show()
    if count and sys.stderr is not None:
        frames = (
            "1 frame of ftrace is" if count == 1 else f"{count} frames of ftrace are"
        )
        sys.stderr.write(f"({frames} left out: FTRACE_TRACEBACK=full shows all)\n")


def show_users_frames() -> None:
    """Tracebacks that nobody catches show no frames of ours, here and in notebooks."""
    at_end, of_threads = sys.excepthook, threading.excepthook

    def hook(kind: Any, error: BaseException, traceback: Any) -> None:
        def show() -> None:
            at_end(kind, error, getattr(error, "__traceback__", None) or traceback)

        _show_folded(error, show)

    def hook_of_threads(given: Any) -> None:
        _show_folded(given.exc_value, lambda: of_threads(given))

    sys.excepthook, threading.excepthook = hook, hook_of_threads
    notebook: Any = sys.modules.get("IPython")
    shell = notebook.get_ipython() if notebook is not None else None
    if shell is None or shell.custom_exceptions:
        return

    def in_notebook(
        self: Any, kind: Any, error: BaseException, _: Any, tb_offset: Any = None
    ) -> None:
        def show() -> None:
            shown = kind, error, error.__traceback__
            self.showtraceback(shown, tb_offset=tb_offset)

        _show_folded(error, show)

    shell.set_custom_exc((Exception,), in_notebook)
