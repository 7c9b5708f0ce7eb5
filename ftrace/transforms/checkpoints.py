"""The states of a program on disk, step by step, written while it goes on.

    runs/a/            with ft.Checkpoints("runs/a", keep=3) as checkpoints:
      200/                 for step in range(1000):
      300/                     state = train(state)
      400/                     if step % 100 == 0: checkpoints.save(step, state)

Each step is a folder that `save` has written, which is whole once it has an index. The
first process deletes, after each that is whole, what is older than the last few, and
what was begun and never finished.
"""

from __future__ import annotations

import operator
import os
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any

import numpy

from ftrace import errors
from ftrace.ground import process_groups, processes
from ftrace.transforms.array_files import PathLike, as_path
from ftrace.transforms.save_load import load_from
from ftrace.transforms.shard_files import INDEX, Folder, Writing, clean, writing

np: Any = numpy  # whose stubs leave too much unknown
#: Seconds between two looks at a thread and at the other processes.
_LOOK = 5e-3
_STEP = re.compile("0|[1-9][0-9]*")


class _Job(threading.Thread):
    """A thread that writes.

    Attributes:
      error: what it has raised.
      stopped: nobody waits for it any more, nor needs it wait for others.
    """

    def __init__(self, work: Callable[[Callable[[], None]], None]) -> None:
        super().__init__(name="ftrace checkpoint")
        self._work, self.stopped = work, False
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self._work(self._check)
        except BaseException as error:
            self.error = error

    def _check(self) -> None:
        if self.stopped:
            raise errors.ProcessError("another process ended, which had a part of it")


class Checkpoints:
    """The last few states of a program, in a folder.

    Arrays are immutable: `save` keeps them, and a thread writes them. Every method but
    `steps` is for all processes at once, each of which writes and reads its parts; the
    folder must be one that all see. What an error of the thread is raises the next
    method that is called.

    Args:
      folder: where; it is made by the first `save`.
      keep: how many are kept; None is all.

    Raises:
      ArgumentError, ValueRangeError: `folder` is no path, `keep` no count.

    Example:
      >>> import os, tempfile
      >>> states = ft.Checkpoints(os.path.join(tempfile.mkdtemp(), "run"), keep=2)
      >>> for step in range(3):
      ...     states.save(step, {"w": fnp.full(2, step)})
      >>> states.wait()
      >>> states.steps()
      [1, 2]
    """

    def __init__(self, folder: PathLike, keep: int | None = 3) -> None:
        self._folder, self._keep = as_path(folder, "Checkpoints"), keep
        if keep is not None and _count(keep, "Checkpoints: keep") < 1:
            raise errors.ValueRangeError(
                f"Checkpoints: keep is how many are kept, 1 or more, got {keep}; None "
                "keeps all"
            )
        self._job: _Job | None = None

    def __repr__(self) -> str:
        return f"Checkpoints({str(self._folder)!r}, keep={self._keep})"

    def save(self, step: int, tree: Any) -> None:
        """Begins to write a state; the one before is waited for.

        Args:
          step: its number; of one that is there already the state is replaced, once
            the new one is whole.
          tree: what `ft.save` takes. Arrays of NumPy are copied.

        Raises:
          ArgumentError, ValueRangeError: the step is no number, or negative.
          TreeError, DtypeError: the tree holds what cannot be saved.
          FileFormatError: this state, or the one before, cannot be written.
          ProcessError: another process ended, or has another tree.
        """
        number = _count(step, "Checkpoints.save: step")
        if number < 0:
            raise errors.ValueRangeError(
                f"Checkpoints.save: step is 0 or more, got {step}"
            )
        self.wait()
        draft = Writing(self._folder / f"{number}", tree)

        then = partial(self._tidy, number)
        self._job = _Job(lambda check: draft.run(check, then))
        self._job.start()

    def _tidy(self, step: int) -> None:
        """Deletes what is too old, and what was never finished."""
        with writing(self._folder):
            found = self._list_steps()
            others = sorted({*filter(self._has_index, found)} - {step})
            count = len(others) if self._keep is None else self._keep - 1
            kept = {step, *others[max(len(others) - count, 0) :]}
            for other in found:
                if other not in kept:
                    clean(self._folder / f"{other}")

    def _list_steps(self) -> list[int]:
        """The steps for which there is a folder, whole or not."""
        try:
            names = os.listdir(self._folder)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise errors.FileFormatError(
                f"{self._folder}: it cannot be read: {error.strerror}; a folder of "
                "checkpoints was expected"
            ) from error
        return sorted(int(name) for name in names if _STEP.fullmatch(name))

    def _has_index(self, step: int) -> bool:
        return (self._folder / f"{step}" / INDEX).exists()

    def steps(self) -> list[int]:
        """The steps that can be restored, in order."""
        return [step for step in self._list_steps() if self._is_whole(step)]

    def _is_whole(self, step: int) -> bool:
        with suppress(errors.FileFormatError):
            Folder(self._folder / f"{step}").check()
            return True
        return False

    def latest(self) -> int | None:
        """The last step that can be restored; None if there is none.

        What is being written is waited for, and counts.

        Raises:
          FileFormatError: it cannot be written, or the folder cannot be read.
        """
        self.wait()
        found = -1
        if processes.index() == 0:
            there = reversed(self._list_steps())
            found = next((step for step in there if self._is_whole(step)), -1)
        found = int(process_groups.everyone().broadcast(np.array([found]))[0])
        return None if found < 0 else found

    def restore(
        self, step: int | None = None, device: Any = None, *, like: Any = None
    ) -> Any:
        """A state: the last that is whole, or that of a step.

        Args:
          step: which one; None for the last.
          device, like: as `ft.load` takes them.

        Raises:
          FileFormatError: there is none, or not that one.
          TreeError, ShapeError, DtypeError: it is not what `like` says.
        """
        found = self.latest() if step is None else _count(step, "Checkpoints.restore")
        self.wait()
        if found is None or not self._has_index(found):
            which = "checkpoint" if step is None else f"checkpoint of step {found}"
            steps = ", ".join(map(str, self.steps()))
            advice = f"restore one of these: {steps}" if steps else (
                "nothing is: begin with `if checkpoints.latest() is not None`"
            )  # fmt: skip
            raise errors.FileFormatError(
                f"{self._folder}: there is no whole {which}; {advice}"
            )
        path = self._folder / f"{found}"
        return load_from(Folder(path), path, device, like)

    def wait(self) -> None:
        """Returns when what was saved last is whole, on disk, for all processes.

        Raises:
          FileFormatError: a process cannot write it.
          ProcessError: another process ended, or has not written within the time.
        """
        job = self._job
        if job is None:
            return
        try:
            while job.is_alive():
                job.join(_LOOK)
                processes.check(f"for a checkpoint in {self._folder}")
        except errors.ProcessError:
            self._job = None
            job.stopped = True
            raise
        self._job = None
        if job.error is not None:
            raise job.error

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        """`wait`; of an exception that leaves the block that one is raised."""
        if error is None:
            self.wait()
            return
        with suppress(Exception):
            self.wait()


def _count(value: Any, what: str) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise errors.ArgumentError(
            f"{what} is a whole number, got {value!r:.60}"
        ) from None
