"""What a process makes once, and locks that forked children find free."""

from __future__ import annotations

import ast
import os
import re
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import ftrace as ft
from ftrace.backends import base
from ftrace.backends.base import Device, get_device
from ftrace.backends.llvm.compile_threads import shield
from ftrace.ground.fork_safe import (
    Once,
    cached_property,
    free_after_fork,
    fresh_after_fork,
)


def test_threads_that_ask_together_have_the_same() -> None:
    made: list[object] = []
    barrier = threading.Barrier(4)

    def make() -> object:
        made.append(object())
        return made[-1]

    once = Once(make)
    found: list[object] = []

    def ask() -> None:
        barrier.wait()
        found.append(once())

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert once.found is once()
    assert found == made * 4


def test_what_fails_is_tried_again() -> None:
    made: list[int] = []
    failed = threading.Event()

    def make() -> int:
        made.append(len(made))
        if len(made) == 1:
            failed.set()
            raise ValueError
        return 5

    once = Once(make)
    once.begin()
    once.begin()  # a second time does nothing
    failed.wait()
    assert once.found is None
    assert [once(), once()] == [5, 5]
    assert made == [0, 1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_child_finds_a_lock_free_that_a_thread_held() -> None:
    lock = free_after_fork(threading.Lock())
    held, let_go = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            let_go.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    threading.Timer(0.1, let_go.set).start()
    child = os.fork()
    if child == 0:
        os._exit(int(not lock.acquire(timeout=5)))
    assert os.waitpid(child, 0)[1] == 0
    thread.join()
    assert lock.acquire(timeout=5)
    lock.release()  # every later fork of this process waits for it


class Slow(Loader, MetaPathFinder):
    """Finds a module of ours that takes its time, and tells when that begins."""

    def __init__(self) -> None:
        self.begun = threading.Event()

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name == "ftrace.slow" else None

    def exec_module(self, module: ModuleType) -> None:
        self.begun.set()
        time.sleep(0.3)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_child_may_import_what_a_thread_was_importing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow = Slow()
    monkeypatch.setattr(sys, "meta_path", [slow, *sys.meta_path])
    thread = threading.Thread(target=import_module, args=("ftrace.slow",))
    thread.start()
    slow.begun.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        import_module("ftrace.slow")
        os._exit(0)
    thread.join()
    sys.modules.pop("ftrace.slow")
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_threads_may_fork_at_the_same_time() -> None:
    lock, statuses = free_after_fork(threading.RLock()), []

    def work() -> None:
        for _ in range(8):
            child = os.fork()
            if child == 0:
                os._exit(int(not lock.acquire(timeout=5)))
            statuses.append(os.waitpid(child, 0)[1])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [0] * 32
    assert lock.acquire(timeout=5)
    lock.release()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_child_has_no_property_to_wait_for() -> None:
    made, done = threading.Event(), threading.Event()

    class Slow:
        def __init__(self, wait: bool) -> None:
            self.wait = wait

        @cached_property
        def value(self) -> int:
            if self.wait:
                made.set()
                done.wait(60)
            return 3

    thread = threading.Thread(target=lambda: Slow(True).value)
    thread.start()
    assert made.wait(60)
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        os._exit(0 if Slow(False).value == 3 else 1)
    done.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_no_property_of_ours_holds_a_lock() -> None:
    """On Python 3.10 and 3.11 that of functools does."""
    package = Path(__file__).parents[2] / "ftrace"
    for path in package.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"from functools import .*cached_property", text), path


#: What makes locks of threads, or has one.
MAKERS = {
    "Barrier", "BoundedSemaphore", "Condition", "Event", "Lock", "RLock", "Semaphore",
    "allocate_lock",
}  # fmt: skip
OURS = ("free_after_fork", "fresh_after_fork")


def _bare_locks(tree: ast.AST) -> Iterator[int]:
    """Lines that name a maker of locks, but in an annotation or for one of ours."""
    fine: set[ast.AST] = set()
    modules: set[str] = set()
    for node in ast.walk(tree):  # what stands around goes before what is inside
        if isinstance(node, ast.Import):
            threads = [a for a in node.names if a.name in ("threading", "_thread")]
            modules |= {alias.asname or alias.name for alias in threads}
        if isinstance(node, ast.ImportFrom) and node.module in ("threading", "_thread"):
            yield from [node.lineno for name in node.names if name.name in MAKERS]
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in OURS:
            fine |= {arg.func for arg in node.args if isinstance(arg, ast.Call)}
        for annotation in ("annotation", "returns"):
            if found := getattr(node, annotation, None):
                fine |= set(ast.walk(found))
        if isinstance(node, ast.Attribute) and node.attr in MAKERS:
            owner = getattr(node.value, "id", "")
            if owner in modules and node not in fine:
                yield node.lineno


def test_every_lock_of_ours_is_free_in_a_child() -> None:
    package = Path(__file__).parents[2] / "ftrace"
    bare: dict[str, list[str]] = {}
    for path in package.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if not any(name in text for name in MAKERS):
            continue
        for line in _bare_locks(ast.parse(text)):
            file = str(path.relative_to(package))
            bare.setdefault(file, []).append(text.splitlines()[line - 1].strip())
    assert bare == {
        "ground/fork_safe.py": ["gate = threading.RLock()"],  # in the list by itself
        # One for whose end a fork waits.
        "backends/llvm/compile_threads.py": ["ended = _thread.allocate_lock()"],
    }


def test_a_lock_that_is_not_ours_is_found() -> None:
    fine = "a = free_after_fork(threading.Lock())\ndef f(x: Lock) -> threading.RLock: 0"
    bare = "import threading as t\na = t.Lock()\nb = field(default_factory=t.RLock)"
    assert not list(_bare_locks(ast.parse(fine)))
    assert sorted(_bare_locks(ast.parse(bare))) == [2, 3]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_child_makes_the_device_that_a_thread_was_making(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, go = threading.Event(), threading.Event()
    me, cpu = threading.get_ident(), get_device("cpu")

    def make(number: int) -> Device:
        if threading.get_ident() != me:
            begun.set()
            go.wait()
            inner = free_after_fork(threading.Lock())
            with inner:
                time.sleep(0.2)
        return cpu

    monkeypatch.setitem(vars(base)["_platforms"], "slow", (make, lambda: 1))
    monkeypatch.setattr(base, "devices_in_use", {})
    thread = threading.Thread(target=get_device, args=("slow",))
    thread.start()
    begun.wait()
    threading.Timer(0.1, go.set).start()
    for _ in range(3):  # before and while a lock of the device is held
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            get_device("slow")
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        go.wait()
    thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_child_calls_what_a_thread_was_tracing() -> None:
    begun = threading.Event()

    @ft.jit
    def double(x: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            begun.set()
            time.sleep(0.5)
        return x * 2

    thread = threading.Thread(target=double, args=(np.ones(3),))
    thread.start()
    begun.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        os._exit(int(double(np.ones(4))[3]))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_a_fork_keeps_no_lock_of_what_is_gone() -> None:
    lock: Any = fresh_after_fork(threading.Lock())
    gone = weakref.ref(lock)
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    del lock
    assert gone() is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_a_function_that_is_traced_may_fork() -> None:
    @ft.jit
    def double(x: Any) -> Any:
        child = os.fork()
        if child == 0:
            return x * 3
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        return x * 2

    me = os.getpid()
    found = int(double(np.ones(4))[3])
    if os.getpid() != me:
        os._exit(found)
    assert found == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_ctrl_c_behind_a_fork_arrives_and_holds_no_lock() -> None:
    program = """
import _thread, os, signal, threading
signal.signal(signal.SIGINT, signal.default_int_handler)
os.register_at_fork(after_in_parent=_thread.interrupt_main)  # first, and in C alone
from ftrace.ground.fork_safe import free_after_fork
lock = free_after_fork(threading.RLock())
arrived, free = 0, []
for _ in range(3):
    try:
        if os.fork() == 0:
            os._exit(0)
    except KeyboardInterrupt:
        arrived += 1
other = threading.Thread(target=lambda: free.append(lock.acquire(timeout=5)))
other.start()
other.join()
assert (arrived, free) == (3, [True]), (arrived, free)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_fork_waits_for_what_threads_of_users_compile() -> None:
    begun, seen = threading.Event(), []

    def compile_something() -> None:
        begun.set()
        time.sleep(0.3)
        seen.append(1)

    thread = threading.Thread(target=shield, args=(compile_something,))
    thread.start()
    begun.wait()
    child = os.fork()
    if child == 0:
        os._exit(len(seen))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    thread.join()
