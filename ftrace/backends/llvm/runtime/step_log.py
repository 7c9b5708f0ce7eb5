"""When the steps of a program ran, as native code notes it; see `records.ObservedStep`.

The rows are given to those who record when no run of the program is under way: at the
end of each, but for those that run at the same time. Where loops have more iterations
than there are rows, the first ones are told; steps that are in no loop have rows of
their own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from operator import itemgetter
from typing import Any

import numpy as np

from ftrace.backends.llvm.runtime.records import LogRow
from ftrace.ground.fork_safe import cached_property, fresh_after_fork
from ftrace.ground.spans import Lines, Span, note_later
from ftrace.lower.program import Program, lines_of, name_of, steps_of

#: Rows of steps outside of loops, and of those within.
ROWS = 1 << 16
#: Pieces of a kernel that a thread did with less between them are one, in seconds.
_GAP = 5e-6
#: Words before the rows, and of a row.
_HEAD, _WIDTH = 2, len(LogRow.fields)


class StepLog:
    """Where the steps of a program note when they ran.

    Args:
      program: that it is of.
      device: its name.
      lined: gives the program with the user's lines, if it has none itself.
    """

    def __init__(
        self, program: Program, device: str, lined: Callable[[], Program] | None
    ) -> None:
        self.next = partial(next, count())
        self._steps = steps_of(program)
        self._names = [name_of(step) for step in self._steps]
        self._device = device
        self._lined = (lambda: program) if lined is None else lined
        # The system gives memory for rows that are written, not for all of them.
        self._rows = [np.zeros(_HEAD + _WIDTH * ROWS, np.int64) for _ in range(2)]
        for rows in self._rows:
            rows[1] = ROWS
        self._running = 0
        self._lock = fresh_after_fork(threading.Lock())

    def address(self, inside: bool) -> int:
        """Of the rows for steps of the program, or for those inside of its steps."""
        return int(self._rows[inside].ctypes.data)

    @contextmanager
    def fill(self) -> Generator[None]:
        """A block in which the program runs."""
        with self._lock:
            self._running += 1
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1
                if not self._running:
                    note_later(partial(self._spans_of, self._take_rows()))

    def _take_rows(self) -> list[Any]:
        """The rows so far, which are taken out."""
        found: list[Any] = []
        for rows in self._rows:
            size = min(int(rows[0]), ROWS)
            taken: Any = rows[_HEAD : _HEAD + _WIDTH * size]
            found.append(taken.copy())
            rows[0] = 0
        return found

    def _spans_of(self, taken: Sequence[Any]) -> Iterator[Span]:
        """Rows as spans, in the order in which they began."""
        rows = [row for part in taken for row in part.reshape(-1, _WIDTH).tolist()]
        # Python's clock counts from another moment on some systems.
        ahead = time.perf_counter_ns() - time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        ahead = ahead if abs(ahead) > 1_000_000 else 0
        for number, thread, start, end in _join_pieces(sorted(rows, key=itemgetter(2))):
            kind, step = ("piece", -1 - number) if number < 0 else ("run", number)
            yield Span(
                kind, self._names[step], (start + ahead) * 1e-9, (end + ahead) * 1e-9,
                thread, (), {"device": self._device}, partial(self._lines_of, step),
                None if number < 0 else self._steps[step],
            )  # fmt: skip

    def _lines_of(self, number: int) -> Lines:
        return self._lines[number]

    @cached_property
    def _lines(self) -> list[Lines]:
        return [lines_of(step) for step in steps_of(self._lined())]


def _join_pieces(rows: list[Any]) -> list[Any]:
    """The rows, of which pieces of a kernel that one thread did in turn are one."""
    found, last = list[Any](), dict[int, Any]()
    for row in rows:
        number, thread, start, end = row
        before = last.get(thread, row)
        near = before is not row and start - before[3] < _GAP * 1e9
        if number < 0 and near and before[0] == number:
            before[3] = end
            continue
        last[thread] = row
        found.append(row)
    return found
