"""Ctrl-C: KeyboardInterrupt arrives, and what was begun is begun anew, or finished."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

#: What runs when the signal comes, in a process that says when it begins.
MOMENTS = {
    "tracing": """
        def f(x):
            for i in range(300_000):
                x = fnp.sin(x) + i
            return x
        begin()
        ft.jit(f)(x)
    """,
    "compiling": """
        def f(x):
            return [fnp.sort(fnp.sin(x * n).reshape(-1, n), 0).sum(0)
                    for n in range(1, 400) if 27720 % n == 0 or n > 40
                    for x in [fnp.ones(n * 60)]]
        begin()
        for n in range(10_000):
            ft.jit(lambda x: (f(x), x * n))(x)
    """,
    "a kernel": """
        f = ft.jit(lambda x: ft.lax.fori_loop(0, 30, lambda i, y: fnp.sin(y @ y), x))
        big = fnp.ones((1500, 1500))
        f(big)
        begin()
        while True:
            f(big)
    """,
    "eager calls": """
        begin()
        while True:
            x = fnp.sin(x) + 1
    """,
    "tuning": """
        begin()
        with ft.config(tune=True):
            for n in range(1, 10_000):
                ft.jit(lambda x: fnp.sin(x @ x) * n)(fnp.ones((64 + n, 64 + n)))
    """,
}
PROGRAM = """
import signal
import sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
import ftrace as ft
import ftrace.numpy as fnp

x = fnp.ones(27720)

def begin():
    print("begun", flush=True)

def moment():
    global x
{moment}

try:
    moment()
except KeyboardInterrupt:
    pass
else:
    sys.exit("it ended before the signal came")
y = ft.jit(lambda x: (fnp.sin(x) * 2).sum())(fnp.zeros(100))
assert y == 0 and (fnp.ones((50, 50)) @ fnp.ones(50)).tolist() == [50] * 50
assert ft.grad(lambda x: x**3)(2.0) == 12
print("whole")
"""


@pytest.mark.thorough
@pytest.mark.skipif(os.name != "posix", reason="signals are sent to a process")
@pytest.mark.parametrize("moment", MOMENTS)
def test_an_interrupt_arrives_and_leaves_nothing_half_made(
    moment: str, tmp_path: Path
) -> None:
    body = textwrap.indent(textwrap.dedent(MOMENTS[moment]), "    ")
    cache = tmp_path / "cache"
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(moment=body)],
        env={**os.environ, "FTRACE_CACHE_DIR": str(cache), "FTRACE_PROGRESS": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "begun\n"
            time.sleep(0.3)
            child.send_signal(signal.SIGINT)
            out, error = child.communicate(timeout=60)
        finally:
            child.kill()
    assert (out, child.returncode) == ("whole\n", 0), error
    left = [path.name for path in cache.rglob("*") if path.name.startswith(".ftrace-")]
    assert left == []  # no file that was not finished
