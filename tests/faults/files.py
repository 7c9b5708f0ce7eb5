"""Each file operation of the disk cache fails in each way, or the process ends."""

from __future__ import annotations

import errno
import os
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import ftrace as ft
from ftrace.backends.llvm import object_cache
from ftrace.errors import CacheWarning
from tests.faults.children import ENDED, forget, is_right, program, run

FAULTS = ("ENOSPC", "EIO", "EACCES", "short", "killed")
#: The status of a process that ends at an operation.
KILLED = 9
_NAMES = ("stat", "lstat", "fstat", "open", "mkdir", "replace", "utime", "unlink",
          "scandir", "fdopen")  # fmt: skip


class _Short:
    """A file of which only the half of what is written arrives."""

    def __init__(self, handle: int, mode: str) -> None:
        self._file: Any = os.fdopen(handle, mode)

    def __enter__(self) -> _Short:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, data: bytes) -> None:
        self._file.write(data[: len(data) // 2])


class Failing:
    """The module `os`, of which the n-th file operation fails; 0 counts them."""

    def __init__(self, number: int, fault: str) -> None:
        self.count, self._number, self._fault = 0, number, fault

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        return self._failing(real, name) if name in _NAMES else real

    def _failing(self, real: Callable[..., Any], name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            if self.count != self._number:
                return real(*args, **kwargs)
            if self._fault == "killed":
                os._exit(KILLED)
            if self._fault == "short":
                return (_Short if name == "fdopen" else real)(*args, **kwargs)
            number = getattr(errno, self._fault)
            if name == "fdopen":
                os.close(args[0])
            raise OSError(number, os.strerror(number))

        return call


def _run_program(folder: str, number: int, fault: str) -> int:
    """The number of operations of a program that finds a cache, or makes one."""
    failing: Any = Failing(number, fault)
    real = object_cache.os
    object_cache.os = failing
    try:
        with ft.config(cache_dir=folder, threads=1), warnings.catch_warnings():
            warnings.simplefilter("ignore", CacheWarning)
            forget()
            assert is_right(program(2.5), 2.5)
    finally:
        object_cache.os = real
    return failing.count


def operations() -> int:
    """How many file operations there are, of a cold start and a warm one."""
    with tempfile.TemporaryDirectory() as folder:
        return max(_run_program(folder + "/cache", 0, "") for _ in range(2))


def fail(number: int, fault: str) -> list[str]:
    """What is wrong after the n-th operation has failed, and in the next process."""
    with tempfile.TemporaryDirectory() as folder:
        where = folder + "/cache"

        def first() -> None:
            _run_program(where, number, fault)

        def second() -> None:
            _run_program(where, 0, "")

        wrong = run(first)
        if wrong == [f"{ENDED} {KILLED}"] and fault == "killed":
            wrong = []
        wrong += run(second)
    return [f"operation {number}, {fault}: {one}" for one in wrong]
