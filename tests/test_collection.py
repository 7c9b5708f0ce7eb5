"""Walks pause Python's collector, and leave it as they found it."""

from __future__ import annotations

import gc
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.trace.collection import without_collection


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
