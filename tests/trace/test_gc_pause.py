"""Walks pause Python's collector, and leave it as they found it."""

from __future__ import annotations

import dis
import gc
import os
import signal
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.errors import user_origin
from ftrace.trace import python_limits
from ftrace.trace.graph import making_nodes_of, provenance
from ftrace.trace.python_limits import importing, without_collection
from tests.faults.interrupts import SIGINT, STEPS


@pytest.fixture(scope="module", autouse=True)
def nothing_is_put_away() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    was_on = gc.isenabled()
    gc.enable()
    yield
    (gc.enable if was_on else gc.disable)()


@without_collection
def paused(function: Callable[[], object] = bool) -> None:
    assert not gc.isenabled()
    function()
    assert not gc.isenabled()


def test_the_collector_is_on_again_after_the_outermost_call() -> None:
    paused(paused)
    assert gc.isenabled()


def test_who_turned_it_off_keeps_it_off() -> None:
    gc.disable()
    without_collection(bool)()
    assert not gc.isenabled()


def test_an_exception_ends_the_pause() -> None:
    @without_collection
    def fail() -> None:
        assert not gc.isenabled()
        raise KeyError("it")

    with pytest.raises(KeyError):
        fail()
    assert gc.isenabled()


def test_an_exception_where_a_block_ends_leaves_no_origin() -> None:
    @without_collection
    def interrupted() -> None:
        making_nodes_of(user_origin()).__enter__()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert provenance.origin is None


def test_threads_pause_together() -> None:
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        paused(lambda: (inside.set(), leave.wait(10)))

    thread = threading.Thread(target=other)
    thread.start()
    assert inside.wait(10)
    paused()
    assert not gc.isenabled()
    leave.set()
    thread.join()
    assert gc.isenabled()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_collects_although_another_thread_paused() -> None:
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        paused(lambda: (inside.set(), leave.wait(10)))

    thread = threading.Thread(target=other)
    thread.start()
    assert inside.wait(10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads that a child does not have
        child = os.fork()
        if child == 0:
            os._exit(0 if gc.isenabled() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    leave.set()
    thread.join()


def test_the_functions_of_users_are_traced_with_the_collector_on() -> None:
    seen: list[bool] = []

    def loss(x: Any) -> Any:
        seen.append(gc.isenabled())
        return fnp.sum(fnp.sin(x) ** 2)

    x = np.ones((2, 3), np.float32)
    for function in (ft.grad(loss), ft.jit(ft.grad(loss)), ft.vmap(ft.grad(loss))):
        function(x)
        assert gc.isenabled()
    assert len(seen) == 3
    assert all(seen)


def interrupted_at(number: int, function: Callable[[], object]) -> int:
    """Calls it; Ctrl-C at the n-th step of the module. How many steps there were."""
    steps = 0

    def step(frame: Any, event: str, _: Any) -> Any:
        nonlocal steps
        if frame.f_code.co_filename != python_limits.__file__:
            return None
        frame.f_trace_opcodes = True
        name = dis.opname[frame.f_code.co_code[frame.f_lasti]]
        if event == "opcode" and name.startswith(("RESUME", *STEPS)):
            steps += 1
            if steps == number:
                SIGINT.fire  # it sends the signal, without a call
        return step

    sys.settrace(step)
    try:
        function()
    finally:
        sys.settrace(None)
    return steps


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs POSIX signals")
def test_an_interrupted_import_leaves_the_search_as_it_was() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        steps = interrupted_at(0, lambda: importing(bool))
        assert steps > 5
        for number in range(1, steps + 1):
            with pytest.raises(KeyboardInterrupt):
                interrupted_at(number, lambda: importing(bool))
            assert gc.isenabled(), number
    finally:
        signal.signal(signal.SIGINT, before)


def test_threads_that_take_turns_do_not_put_the_search_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(python_limits, "MOST_UNSEARCHED", 500)
    inside, leave = threading.Event(), threading.Event()

    @without_collection
    def stay() -> None:
        inside.set()
        leave.wait()

    class Cycle:
        def __init__(self) -> None:
            self.itself = self

    @without_collection
    def walk() -> weakref.ref[Cycle]:
        made = weakref.ref(Cycle())
        for _ in range(1000):
            Cycle()
        return made

    thread = threading.Thread(target=stay)
    thread.start()
    inside.wait()
    assert walk()() is None
    assert not gc.isenabled()
    leave.set()
    thread.join()
    assert gc.isenabled()
