"""Checkpoints: what is finished stays, whatever happens to disks and processes."""

from __future__ import annotations

import builtins
import errno
import itertools
import os
import random
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import md5
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import errors
from ftrace.ground import process_groups
from ftrace.transforms import shard_files

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
FILES = 2  # of one process: the index, and its arrays


def state(step: int) -> dict[str, Any]:
    return {"a": np.full(1000, step), "b": [np.arange(500.0) + step], "step": step}


def check(folder: Path, least: int, most: int) -> int:
    """The latest is whole and of such a step; returns which."""
    checkpoints = ft.Checkpoints(folder)
    step = checkpoints.latest()
    assert step is not None
    assert least <= step <= most
    found = checkpoints.restore()
    assert found["step"] == step
    np.testing.assert_array_equal(found["a"], state(step)["a"])
    np.testing.assert_array_equal(found["b"][0], state(step)["b"][0])
    return step


@contextmanager
def slow() -> Iterator[threading.Event]:
    """A block in which nothing is written until the event is set."""
    gate, write = threading.Event(), shard_files.write_safetensors

    def wait(*args: Any) -> None:
        assert gate.wait(30)
        write(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shard_files, "write_safetensors", wait)
        try:
            yield gate
        finally:
            gate.set()


# What it does.


def test_the_last_few_are_kept_and_the_latest_restored(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "a"
    with ft.Checkpoints(str(folder), keep=2) as checkpoints:
        assert (checkpoints.latest(), checkpoints.steps()) == (None, [])
        for step in (0, 5, 10, 100):
            checkpoints.save(step, state(step))
        assert checkpoints.latest() == 100
    assert checkpoints.steps() == [10, 100]
    assert sorted(os.listdir(folder)) == ["10", "100"]
    assert checkpoints.restore(10)["step"] == 10
    like = checkpoints.restore(like=state(0))
    assert type(like["a"]) is ft.Array
    checkpoints.save(np.int64(100), {"other": np.ones(3)})  # in its place
    checkpoints.wait()
    assert list(checkpoints.restore()) == ["other"]
    assert len(os.listdir(folder / "100")) == FILES
    checkpoints.save(7, state(7))  # the one that was just saved is never deleted
    checkpoints.wait()
    assert checkpoints.steps() == [7, 100]
    every = ft.Checkpoints(tmp_path / "every", keep=None)
    for step in range(5):
        every.save(step, step)
    assert every.latest() == 4
    assert [every.restore(step) for step in every.steps()] == [0, 1, 2, 3, 4]


def test_the_program_goes_on_while_a_thread_writes(tmp_path: Path) -> None:
    double = ft.jit(lambda x: x * 2, donate_argnums=0)
    checkpoints = ft.Checkpoints(tmp_path)
    x, own = fnp.arange(100_000.0), np.arange(3.0)
    small = fnp.ones(3)
    with slow() as gate:
        checkpoints.save(1, {"x": x, "own": own, "small": small})
        own[:] = 7  # NumPy's arrays may change, and ours may be given up
        y = double(x)
        again = double(y)
        small.delete()
        assert x.is_deleted()
        assert checkpoints.steps() == []
        gate.set()
        assert checkpoints.latest() == 1
    found = checkpoints.restore()
    np.testing.assert_array_equal(found["x"], np.arange(100_000.0))
    np.testing.assert_array_equal(found["own"], np.arange(3.0))
    np.testing.assert_array_equal(found["small"], np.ones(3))
    np.testing.assert_array_equal(again, np.arange(100_000.0) * 4)


def test_what_goes_wrong_in_the_thread_is_raised_by_the_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    checkpoints = ft.Checkpoints(tmp_path)
    checkpoints.save(1, state(1))
    calls: list[Callable[[], Any]] = [
        checkpoints.wait, checkpoints.latest, checkpoints.restore,
        lambda: checkpoints.save(3, state(3)),
        lambda: checkpoints.__exit__(None, None, None),
    ]  # fmt: skip
    for call in calls:
        checkpoints.wait()
        with monkeypatch.context() as patch:
            patch.setattr(shard_files, "write_safetensors", full)
            checkpoints.save(2, state(2))
            with pytest.raises(errors.FileFormatError, match=r"2: it cannot.*No space"):
                call()
        checkpoints.wait()  # it is told once
        assert checkpoints.steps() == [1]
        assert os.listdir(tmp_path) == ["1"]
    monkeypatch.setattr(shard_files, "write_safetensors", full)
    with pytest.raises(ZeroDivisionError), checkpoints:
        checkpoints.save(1 // (checkpoints.save(2, state(2)) is not None), 0)
    check(tmp_path, 1, 1)


def test_what_is_no_checkpoint_says_so(tmp_path: Path) -> None:
    checkpoints = ft.Checkpoints(tmp_path)
    wrong, bad = errors.ArgumentError, errors.FileFormatError
    (tmp_path / "file").touch()
    rows: list[tuple[Callable[[], Any], Any, str]] = [
        (lambda: ft.Checkpoints(3), wrong, "a path is required"),
        (lambda: ft.Checkpoints("x", keep=0), errors.ValueRangeError, "1 or more"),
        (lambda: ft.Checkpoints("x", keep=1.5), wrong, "a whole number, got 1.5"),
        (lambda: checkpoints.save("a", 1), wrong, "step is a whole number"),
        (lambda: checkpoints.save(-1, 1), errors.ValueRangeError, "0 or more"),
        (lambda: checkpoints.save(1, object()), errors.TreeError, "got object"),
        (lambda: checkpoints.restore(), bad, "no whole checkpoint.*none.*latest"),
        (lambda: checkpoints.restore(3), bad, "no whole checkpoint of step 3"),
        (ft.Checkpoints(tmp_path / "file").latest, bad, "cannot be read"),
        (lambda: ft.Checkpoints(tmp_path / "file").save(1, 1), bad, "cannot be writt"),
    ]  # fmt: skip
    for function, kind, message in rows:
        with pytest.raises(kind, match=message):
            function()
    checkpoints.save(1, state(1))
    checkpoints.wait()
    with pytest.raises(errors.ShapeError, match="'a'"):
        checkpoints.restore(like={**state(1), "a": np.ones(3, int)})


def test_one_that_was_cut_off_is_not_the_latest(tmp_path: Path) -> None:
    checkpoints = ft.Checkpoints(tmp_path)
    for step in (1, 2):
        checkpoints.save(step, state(step))
    checkpoints.wait()
    (shard,) = (tmp_path / "2").glob("*.safetensors")
    os.truncate(shard, 100)
    (tmp_path / "3").mkdir()
    (tmp_path / "3" / "0123456789ab-0.safetensors").touch()
    (tmp_path / "notes").mkdir()
    (tmp_path / "04").touch()
    check(tmp_path, 1, 1)
    with pytest.raises(errors.FileFormatError, match=r"cut off.*has 100 bytes of"):
        checkpoints.restore(2)
    checkpoints.save(4, state(4))
    checkpoints.wait()
    assert sorted(os.listdir(tmp_path)) == ["04", "1", "2", "4", "notes"]
    assert checkpoints.steps() == [1, 4]


# Faults at every operation on files. What has been written outlives a process, if not
# its machine: nothing is put on the disk here, which takes its time.


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", int)


_CALLERS = ("ftrace.transforms.shard_files", "ftrace.transforms.checkpoints",
            "pathlib", "os")  # fmt: skip
_NAMES = ("open", "fsync", "replace", "unlink", "rmdir", "mkdir", "listdir", "stat")


@contextmanager
def fault(number: int, do: Callable[[], Any]) -> Iterator[list[str]]:
    """A block whose n-th operation on files does something else; lists them."""
    done: list[str] = []

    def failing(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            if sys._getframe(1).f_globals["__name__"] in _CALLERS:
                done.append(name)
                if len(done) == number:
                    do()
            return real(*args, **options)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in _NAMES:
            patch.setattr(os, name, failing(name, getattr(os, name)))
        patch.setattr(builtins, "open", failing("open", builtins.open))
        yield done


def in_child(function: Callable[[], Any]) -> int:
    """How a child ends that does this."""
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            function()
            os._exit(0)
        os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def save(folder: Path, step: int) -> None:
    with ft.Checkpoints(folder, keep=1) as checkpoints:
        checkpoints.save(step, state(step))


def operations(folder: Path, save: Callable[[Path, int], None]) -> range:
    """The numbers of the operations of a `save` where there is one already."""
    save(folder, 1)
    with fault(0, int) as done:
        save(folder, 2)
    assert len(done) > 15
    return range(1, len(done) + 1)


def fail() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def saves_with_fault(save: Callable[[], None], number: int) -> bool:
    """Does it save, though an operation on files fails? Else it says so."""
    try:
        with fault(number, fail):
            save()
    except errors.FileFormatError as error:
        return "No space left" not in str(error)
    return True


@pytest.mark.usefixtures("quick")
def test_a_folder_has_the_old_tree_or_the_new_one(tmp_path: Path) -> None:
    def save(folder: Path, step: int) -> None:
        ft.save(folder, state(step))

    for number in operations(tmp_path / "first", save):
        folder = tmp_path / f"{number}"
        save(folder, 1)
        done = saves_with_fault(partial(save, folder, 2), number)
        found = ft.load(folder)
        assert found["step"] in ([2] if done else [1, 2])
        np.testing.assert_array_equal(found["a"], state(found["step"])["a"])
        save(folder, 3)
        assert ft.load(folder)["step"] == 3
        assert len(os.listdir(folder)) == FILES


def check_after_fault(folder: Path, least: int) -> None:
    check(folder, least, 2)
    save(folder, 3)
    check(folder, 3, 3)
    assert os.listdir(folder) == ["3"]
    assert len(os.listdir(folder / "3")) == FILES


@pytest.mark.usefixtures("quick")
def test_a_file_operation_that_fails_loses_nothing(tmp_path: Path) -> None:
    for number in operations(tmp_path / "first", save):
        folder = tmp_path / f"{number}"
        save(folder, 1)
        done = saves_with_fault(partial(save, folder, 2), number)
        check_after_fault(folder, 2 if done else 1)


def save_and_die(folder: Path, number: int) -> None:
    with fault(number, lambda: os.kill(os.getpid(), signal.SIGKILL)):
        save(folder, 2)


@pytest.mark.usefixtures("quick")
@forks
def test_a_process_that_is_killed_at_any_operation_loses_nothing(
    tmp_path: Path,
) -> None:
    for number in operations(tmp_path / "first", save):
        folder = tmp_path / f"{number}"
        save(folder, 1)
        assert in_child(partial(save_and_die, folder, number)) == -signal.SIGKILL
        check_after_fault(folder, 1)


@forks
def test_a_disk_that_is_full_is_told(tmp_path: Path) -> None:
    import resource

    save(tmp_path, 1)

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
        with pytest.raises(errors.FileFormatError, match=r"File too large.*with room"):
            save(tmp_path, 2)

    assert in_child(limited) == 0
    check(tmp_path, 1, 1)
    assert os.listdir(tmp_path) == ["1"]


# Two processes that are killed at random, many times. They are started without MPI,
# of which a checkpoint needs only that all know the same word.


class _Both:
    """A group of two processes that tell each other nothing."""

    size = 2

    def __init__(self, place: int, round_: int) -> None:
        self.rank, self._words = place, map(f"{round_} {{}}".format, itertools.count())

    def agree(self, *_: object) -> None:
        pass

    def broadcast(self, _: object) -> Any:
        return np.frombuffer(md5(next(self._words).encode()).digest()[:6], np.uint8)


def run_process(place: int, round_: int, folder: Path, first: int, told: int) -> None:
    both: Any = _Both(place, round_)
    process_groups.everyone = lambda: both
    checkpoints = ft.Checkpoints(folder, keep=2)
    for step in itertools.count(first):
        checkpoints.save(step, state(step))
        if place == 0 and step > first:  # the one before is whole
            os.write(told, struct.pack("i", step - 1))


def start(*args: Any) -> int:
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            run_process(*args)
        os._exit(1)
    return child


@pytest.mark.usefixtures("quick")
@forks
def test_processes_that_are_killed_at_random_lose_nothing(tmp_path: Path) -> None:
    draw, last = random.Random(int(time.time())), 0
    for round_ in range(20):
        reads, writes = os.pipe()
        args = round_, tmp_path, last + 1, writes
        children = [start(place, *args) for place in (0, 1)]
        os.close(writes)
        finished = struct.unpack("i", os.read(reads, 4))[0]
        time.sleep(draw.uniform(0, 0.02))
        draw.shuffle(children)
        for child in children:
            os.kill(child, signal.SIGKILL)
            time.sleep(draw.uniform(0, 0.004))
        for child in children:
            os.waitpid(child, 0)
        rest = os.read(reads, 1 << 16)
        os.close(reads)
        for (step,) in struct.iter_unpack("i", rest):
            finished = step
        last = check(tmp_path, finished, finished + 2)
    save(tmp_path, last + 1)
    assert os.listdir(tmp_path) == [f"{last + 1}"]
    assert len(os.listdir(tmp_path / f"{last + 1}")) == FILES
