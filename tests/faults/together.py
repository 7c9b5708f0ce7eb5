"""Eight threads compile and call in two processes, which fork in between."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import warnings

import ftrace as ft
from tests.faults.children import PATIENCE, forget, is_right, program, run

THREADS = 8
FORKS = 3


def _work(folder: str) -> list[str]:
    wrong: list[str] = []
    forget()

    def one(number: int) -> None:
        try:
            with ft.config(cache_dir=folder):
                if not is_right(program(number + 0.5), number + 0.5):
                    wrong.append(f"thread {number} is wrong")
        except BaseException as error:
            wrong.append(f"thread {number}: {error!r}")

    threads = [threading.Thread(target=one, args=(k,)) for k in range(THREADS)]
    for thread in threads:
        thread.start()
    children: list[int] = []
    for number in range(FORKS):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads
            child = os.fork()
        if child == 0:
            signal.alarm(PATIENCE)
            os._exit(0 if is_right(program(number + 9.5), number + 9.5) else 1)
        children.append(child)
    for thread in threads:
        thread.join()
    statuses = [os.waitpid(child, 0)[1] for child in children]
    return wrong + [f"a fork ended with {status}" for status in statuses if status]


def work() -> list[str]:
    """What is wrong in the two processes and their forks."""
    with tempfile.TemporaryDirectory() as folder:
        found: list[str] = []
        other = threading.Thread(
            target=lambda: found.extend(run(lambda: _work(folder + "/cache")))
        )
        other.start()
        found += run(lambda: _work(folder + "/cache"))
        other.join()
    return [f"together: {one}" for one in found]
