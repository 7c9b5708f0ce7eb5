"""Spans of time, for whoever records where time goes.

    with span("pass", "movement"):      a block, on this thread
        ...
    note("run", name, start, end)       what has been, by `time.perf_counter`

Every stage tells of itself in this way, from tracing to the steps of programs. Where
nobody records, that is a look at an empty list; a call that is native does not even do
that: while somebody records, the setting `observed` is another one, and no calls under
it are native.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from time import perf_counter
from types import MappingProxyType
from typing import Any, Final, ParamSpec, TypeVar

from ftrace.errors import Origin, user_origin
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.ground.fork_safe import fresh_after_fork
from ftrace.ground.settings import config

P = ParamSpec("P")
T = TypeVar("T")
Lines = Sequence[Origin]
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})

#: What `observed` may be: steps of programs are told, or also eager calls.
STEPS, CALLS = 1, 2


class Span(NamedTuple):
    """What was done from when to when.

    Attributes:
      kind: of what is done: "trace", "pass", "run" and so on, see `profiler`.
      name: what is done.
      start, end: in seconds, by `time.perf_counter`.
      thread: that did it, as the system names it.
      lines: the user's lines for which it was done.
      more: what else is known.
      find_lines: finds the lines, where that takes time.
      step: of a program, where it is the run of one.
    """

    kind: str
    name: str
    start: float
    end: float
    thread: int
    lines: Lines
    more: dict[str, Any]
    find_lines: Callable[[], Lines] | None = None
    step: Any = None

    def with_lines(self) -> Span:
        """The same, of which the lines are known."""
        if self.find_lines is None:
            return self
        return self._replace(lines=self.find_lines(), find_lines=None)


class Recorder:
    """What has been told since `begin`.

    Attributes:
      spans: in the order in which they ended.
      later: what gives more of them: see `finish`.
      threads: the names of those threads that Python knows.
      overhead: the seconds that it took to tell of eager calls.
    """

    overhead = 0.0

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.later: list[Callable[[], Iterable[Span]]] = []
        self.threads: dict[int, str] = {}

    def add(self, made: Span) -> None:
        self.spans.append(made)
        if made.thread not in self.threads:
            known = {each.ident: each.name for each in threading.enumerate()}
            self.threads[made.thread] = known.get(made.thread, "")

    def finish(self) -> list[Span]:
        """All spans, also those that native code has noted."""
        for make in self.later:
            for made in make():
                self.add(made)
        self.later.clear()
        return self.spans


#: Those who record now, in any thread.
recorders: Final[list[Recorder]] = []
_lock = fresh_after_fork(threading.Lock())


def begin(recorder: Recorder) -> None:
    """From now on the recorder is told, of all threads, until `end`."""
    with _lock:
        recorders.append(recorder)
        config.update("observed", CALLS)


def end(recorder: Recorder) -> None:
    """From now on it is not."""
    with _lock:
        recorders.remove(recorder)
        if not recorders:
            config.update("observed", 0)


@contextmanager
def steps_of_programs() -> Generator[list[Span]]:
    """A block; the list has the steps of the programs that ran in it, when it ends.

    Those within loops and branches are among them, each time that they ran.
    """
    recorder, found = Recorder(), list[Span]()
    recorders.append(recorder)
    try:
        with config(observed=STEPS):
            yield found
    finally:
        recorders.remove(recorder)
        found += [each for each in recorder.finish() if each.step is not None]


def note(
    kind: str, name: str, start: float, end: float, lines: Lines = (),
    more: Mapping[str, Any] = NOTHING, step: Any = None,
) -> None:  # fmt: skip
    """Tells those who record of a span of this thread."""
    thread = threading.get_ident()
    made = Span(kind, name, start, end, thread, lines, {**more}, step=step)
    for recorder in list(recorders):
        recorder.add(made)


def note_overhead(seconds: float) -> None:
    """Tells those who record what the telling took."""
    for recorder in list(recorders):
        recorder.overhead += seconds


def note_later(make: Callable[[], Iterable[Span]]) -> None:
    """The same of spans that are made when they are asked for: that takes time."""
    for recorder in list(recorders):
        recorder.later.append(make)


class span:  # read as a function
    """A block of which those who record are told.

    Args:
      kind, name, more: see `Span`.
      lines: likewise; None is the user's line that is at work.

    Attributes:
      seconds: that it took, once it has ended.
    """

    __slots__ = ("_kind", "_lines", "_name", "_start", "more", "seconds")

    def __init__(
        self, kind: str, name: str, lines: Lines | None = (), **more: Any
    ) -> None:
        self._kind, self._name, self._lines = kind, name, lines
        self.more = more

    def __enter__(self) -> None:
        self._start = self.seconds = 0.0
        if recorders:
            if self._lines is None:
                origin = user_origin()
                self._lines = () if origin is None else (origin,)
            self._start = perf_counter()

    def __exit__(self, _: Any, error: BaseException | None, __: Any) -> None:
        if self._start:
            failed = {} if error is None else {"error": type(error).__name__}
            end = perf_counter()
            self.seconds = end - self._start
            lines, more = self._lines or (), self.more | failed
            note(self._kind, self._name, self._start, end, lines, more)


def in_span(kind: str, name: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A function, each call of which is such a block."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            if not recorders:
                return function(*args, **kwargs)
            with span(kind, name):
                return function(*args, **kwargs)

        return call

    return decorate
