"""What takes more than a second shows how far it is: on a terminal, on stderr.

    with progress("compiling kernels") as step:
        for job in jobs:
            job()
            step(number, count)

Nothing is shown in the first second, to whoever reads a file or a pipe, beside another
display, from threads, and where the setting `progress` is off. What is shown is gone
when the block ends, whatever ends it.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from ftrace.ground import settings
from ftrace.ground.fork_safe import fresh_after_fork

#: Seconds until something is shown, and from one line to the next.
AFTER, BETWEEN = 1.0, 0.1

Step = Callable[[int, int], object]
_shown = fresh_after_fork(threading.Lock())


def on_terminal() -> bool:
    """Does somebody watch stderr, and want to be told?"""
    stderr: Any = sys.stderr
    if stderr is None or not settings.current().progress:
        return False
    others = type(stderr).__module__.startswith("rich.")  # a display of the user's
    return not others and stderr.isatty()


@contextmanager
def progress(what: str) -> Generator[Step]:
    """A block of steps; what it gives is told how many are done, of how many.

    Args:
      what: the words before the bar.
    """
    watched = threading.current_thread() is threading.main_thread() and on_terminal()
    if not watched or not _shown.acquire(blocking=False):
        yield lambda done, count: None
        return
    bar: _Line | None = None
    latest = time.monotonic() + AFTER - BETWEEN

    def step(done: int, count: int) -> None:
        nonlocal bar, latest
        now = time.monotonic()
        if now - latest >= BETWEEN:
            latest = now
            bar = bar or _bar(what)
            bar.show(done, count)

    try:
        yield step
    finally:
        try:
            if bar is not None:
                bar.end()
        finally:
            _shown.release()


class _Line:
    """One line of text, which takes its own place."""

    def __init__(self, what: str) -> None:
        self.what = what

    def show(self, done: int, count: int) -> None:
        sys.stderr.write(f"\r\033[K{self.what}: {done} of {count}")
        sys.stderr.flush()

    def end(self) -> None:
        sys.stderr.write("\r\033[K")
        sys.stderr.flush()


class _Bar(_Line):
    """The same, by rich."""

    def __init__(self, what: str, rich: Any) -> None:
        super().__init__(what)
        columns = (
            "{task.description}", rich.BarColumn(), rich.MofNCompleteColumn(),
            rich.TimeElapsedColumn(),
        )  # fmt: skip
        console = import_module("rich.console").Console(stderr=True)
        self._bar = rich.Progress(
            *columns, console=console, transient=True, auto_refresh=False,
            redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip
        self._task = self._bar.add_task(what)
        self._bar.start()

    def show(self, done: int, count: int) -> None:
        self._bar.update(self._task, completed=done, total=count, refresh=True)

    def end(self) -> None:
        self._bar.stop()


def _bar(what: str) -> _Line:
    try:
        return _Bar(what, import_module("rich.progress"))
    except ImportError:
        return _Line(what)
