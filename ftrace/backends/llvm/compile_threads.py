"""Threads that compile: no signal arrives in them.

Python raises what the handler of a signal raises in the main thread, between any two
instructions. Between those of llvmlite that take LLVM's lock and that let it go, it
would leave the lock taken for good. So LLVM is called in threads of ours. The main
thread waits for them; an exception ends its wait, and what has begun is finished
without it. Forks, and the end of the process, wait until nothing is under way.
"""

from __future__ import annotations

import _thread
import atexit
from _queue import Empty, SimpleQueue
from collections.abc import Callable, Iterable
from contextvars import copy_context
from functools import partial
from threading import main_thread
from typing import Any, TypeVar

from ftrace.ground.fork_safe import before_forks, gate
from ftrace.ground.progress import Step

T = TypeVar("T")
#: Of a job its number, what it returned, and what it raised.
_Outcome = tuple[int, Any, BaseException | None]
_Waiting = SimpleQueue["tuple[int, Callable[[], Any]] | None"]

#: For each call of ours on a thread that a fork would stop a lock that it holds until
#: it ends.
_under_way: dict[Any, None] = {}


def wait_for_workers() -> None:
    """Waits until nothing is under way."""
    for ended in list(_under_way):
        with ended:
            pass  # it has ended


before_forks(wait_for_workers, lambda: any(e.locked() for e in list(_under_way)))
atexit.register(wait_for_workers)


def is_main() -> bool:
    """Is this the thread in which Python runs handlers of signals?"""
    return _thread.get_ident() == main_thread().ident


def shield(function: Callable[..., T], *args: Any) -> T:
    """`function(*args)`, where no signal arrives."""
    if not is_main():
        return _under_way_until_end(function, *args)
    (result,) = run_all([partial(function, *args)], 1)
    return result


def run_all(
    jobs: Iterable[Callable[[], T]], threads: int, step: Step | None = None
) -> list[T]:
    """The results of jobs, on other threads while the next ones are prepared.

    Where there are no new threads, as at the end of a process, they run on this one.

    Args:
      step: is told how many are done, of how many.
    """
    if threads <= 1 and not is_main():
        return [job() for job in jobs]
    threads = max(threads, 1)
    waiting: _Waiting = SimpleQueue()
    done: SimpleQueue[_Outcome] = SimpleQueue()
    results: dict[int, T] = {}
    count = workers = 0
    try:
        for job in jobs:
            waiting.put((count, partial(copy_context().run, job)))
            count += 1
            if workers < threads and _begin(waiting, done):
                workers += 1
            if step is not None:
                step(done.qsize(), count)
        for _ in range(threads):
            waiting.put(None)
        if not workers:
            _work(waiting, done)
        for _ in range(count):
            number, result, error = done.get()
            if error is not None:
                raise error
            results[number] = result
            if step is not None:
                step(len(results) + done.qsize(), count)
    except BaseException:  # also Ctrl-C: what has not begun is not done
        _cancel(waiting, threads)
        raise
    return [results[number] for number in range(count)]


def _begin(waiting: _Waiting, done: SimpleQueue[_Outcome]) -> bool:
    """Begins a thread that does jobs; False if the system gives none."""
    try:
        _thread.start_new_thread(_under_way_until_end, (_work, waiting, done))
    except RuntimeError:
        return False
    return True


def _under_way_until_end(function: Callable[..., T], *args: Any) -> T:
    """`function(*args)`, for whose end a fork waits: a child would not see it."""
    ended = _thread.allocate_lock()
    ended.acquire()
    try:
        with gate:  # none begins while a process forks
            _under_way[ended] = None
        return function(*args)
    finally:
        ended.release()
        _under_way.pop(ended, None)


def _work(waiting: _Waiting, done: SimpleQueue[_Outcome]) -> None:
    while (entry := waiting.get()) is not None:
        number, job = entry
        try:
            done.put((number, job(), None))
        except BaseException as error:
            done.put((number, None, error))


def _cancel(waiting: _Waiting, threads: int) -> None:
    """Takes back what has not begun; the threads end."""
    try:
        while True:
            waiting.get_nowait()
    except Empty:
        for _ in range(threads):
            waiting.put(None)
