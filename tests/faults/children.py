"""One fault in a child process, and what must hold after it."""

from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.backends.base import get_device
from ftrace.backends.llvm.compile_threads import wait_for_workers
from ftrace.ground import fork_safe
from ftrace.trace.graph import provenance
from ftrace.trace.tracing.tracer import open_in_all_threads, stack

X = np.linspace(-1, 1, 77, dtype=np.float32)
#: Seconds after which a child hangs.
PATIENCE = 120
#: A lock that is still held after so many seconds is lost.
HELD = 20.0


def several(x: Any, factor: float) -> Any:
    """Kernels of three kinds, a loop and a host operation."""
    x = fnp.cumsum(fnp.tanh(x) * factor) / x.size + fnp.sum(x) * 0.1
    x = ft.lax.fori_loop(0, 3, lambda i, c: fnp.sin(c) + i, x)
    return fnp.sort(x) + fnp.tanh(x)


def program(factor: float) -> list[np.ndarray[Any, Any]]:
    """Traced, compiled, called until calls are native, and dropped."""

    def loss(x: Any) -> Any:
        return fnp.sum(several(x, factor) ** 2)

    f, g = ft.jit(lambda x: several(x, factor)), ft.jit(ft.grad(loss))
    found = [f(X) for _ in range(8)]
    found += [g(X), ft.grad(loss)(X), ft.vmap(lambda x: x * factor)(X)]
    return [np.array(value) for value in found]


def forget() -> None:
    """What was compiled before is compiled again; the disk cache stays as it is."""
    device: Any = get_device("cpu")
    ft.clear_caches()
    device._kernels.clear()


@cache
def wanted(factor: float) -> list[np.ndarray[Any, Any]]:
    """What the interpreter finds; children have what was asked for before."""
    with ft.default_device("interpreter"):
        return program(factor)


def is_right(found: list[Any], factor: float) -> bool:
    return all(
        np.allclose(a, b, rtol=1e-4, atol=1e-5)
        for a, b in zip(found, wanted(factor), strict=True)
    )


def open_files() -> int:
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


def complaints(files: int) -> list[str]:
    """What is left behind."""
    wait_for_workers()
    found: list[str] = []
    if not gc.isenabled():
        found.append("the collector is off")
    if stack.scopes or stack.floor or open_in_all_threads:
        found.append(f"open scopes: {stack.scopes} {len(open_in_all_threads)}")
    if provenance.origin is not None or provenance.caller is not None:
        found.append("an origin is left")
    if open_files() > files:
        found.append(f"{open_files() - files} files are open")
    held: list[Any] = []

    def look() -> None:  # in another thread: this one may have what it holds
        known = [x for x in gc.get_objects() if type(x) in _LOCKS]
        for lock in {id(x): x for x in [*fork_safe._locks, *known]}.values():
            if lock.acquire(timeout=HELD):
                lock.release()
            else:
                held.append(lock)

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    return found + [f"held: {lock}" for lock in held]


_LOCKS = (type(threading.RLock()),)
#: What is wrong with a child that said nothing.
ENDED = "ended with status"


def run(
    fault: Callable[[], Any], files: Callable[[], int] = open_files, tries: float = 1.5
) -> list[str]:
    """What is wrong after a fault in a child: `fault` runs the program.

    It returns complaints of its own, or None.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reader)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.alarm(PATIENCE)
            before = files()
            found = list(fault() or [])
            for factor in (tries, tries + 1):  # as before, and anew
                if not is_right(program(factor), factor):
                    found.append("the next call is wrong")
            found += complaints(before)
            status = 0
        except BaseException:
            found = [traceback.format_exc()]
        os.write(writer, "\n".join(found).encode()[:60_000])
        sys.stderr.flush()
        os._exit(status)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        told = pipe.read().decode("utf-8", "replace")
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        return [f"ended by signal {os.WTERMSIG(status)}"]
    if status and not told:
        return [f"{ENDED} {os.WEXITSTATUS(status)}"]
    return [told] if told else []


def warm() -> None:
    """Loads what the program needs, so that no import is under way at a fault."""
    with ft.config(threads=1, cache_dir=tempfile.mkdtemp()):
        for _ in range(2):
            assert is_right(program(1.5), 1.5)
    wanted(2.5)
