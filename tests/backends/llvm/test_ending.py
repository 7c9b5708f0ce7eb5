"""The end of a process while daemon threads still work: it ends as it should."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.call_samples import ROOT

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")

#: Each child starts a thread that works, and ends after a moment.
START = """
import os, random, sys, threading, time
import numpy as np
import ftrace as ft, ftrace.numpy as fnp

def loss(p, x):
    return sum(((x @ l["w"] + l["b"]) ** 2).sum() for l in p["layers"])

p = {"layers": [{"w": np.ones((3, 3), np.float32), "b": np.ones(3, np.float32)}
                for _ in range(20)]}
x = np.ones((2, 3), np.float32)

class Box:
    def __init__(self, content):
        self.content = content
    def slowly(self):
        time.sleep(0.0001)
        return (self.content,), None
ft.tree_util.register_pytree_node(Box, Box.slowly, lambda _, c: Box(*c))
boxes = [Box(i) for i in range(50)]

def train(step):
    q = p
    while True:
        q = ft.tree.map(lambda a, b: a - 0 * b, q, step(q, x))

def compile_kernels():
    with ft.config(cache_size=0):
        for k in range(10**9):
            ft.jit(lambda x: fnp.sin(x) * k + fnp.cumsum(x, 0))(x)

def loop_in_native_code():
    ft.jit(lambda x: ft.lax.fori_loop(0, 10**12, lambda i, c: c * 0.5 + x, x))(x)

def flatten():
    while True:
        ft.tree.flatten(p)
        ft.tree.leaves_with_path(p)

def flatten_boxes():
    while True:
        ft.tree.map(lambda x: x, boxes)

def work():
    WORK

WORK_FIRST
failed = 0
for _ in range(int(sys.argv[1])):
    child = os.fork()
    if child == 0:
        break
    failed += os.waitpid(child, 0)[1] != 0
else:
    print(failed)
    sys.exit()
threading.Thread(target=work, daemon=True).start()
time.sleep(0.01 + 0.02 * random.random())
"""
WORKS = {
    "flatten()": "",
    "flatten_boxes()": "",
    "train(ft.grad(loss))": "ft.grad(loss)(p, x)",
    "step = ft.jit(ft.grad(loss)); train(step)": "",
    "compile_kernels()": "",
    "loop_in_native_code()": "",
}


@pytest.mark.parametrize("work", WORKS)
def test_a_daemon_thread_that_works_does_not_abort_the_end(work: str) -> None:
    program = START.replace("WORK_FIRST", WORKS[work]).replace("WORK", work)
    ends = os.environ.get("ENDS", "4")
    done = subprocess.run(
        [sys.executable, "-c", program, ends],
        capture_output=True, text=True, check=True, cwd=ROOT, timeout=300,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.stdout == "0\n", done.stderr
    assert done.stderr == ""


@pytest.mark.parametrize("keeps", [False, True])
def test_code_is_compiled_in_a_handler_of_the_end(keeps: bool, tmp_path: Path) -> None:
    program = """
import atexit
import numpy as np
import ftrace as ft, ftrace.numpy as fnp
f = ft.jit(lambda x: fnp.sin(x) @ fnp.cos(x))
def late():
    print([round(float(v), 4) for v in (f(np.ones(8)), ft.grad(f)(np.ones(8))[0])])
atexit.register(late)
"""
    folder = str(tmp_path) if keeps else os.devnull
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True, text=True, check=True, cwd=ROOT, timeout=300,
        env={**os.environ, "PYTHONPATH": str(ROOT), "FTRACE_CACHE_DIR": folder},
    )  # fmt: skip
    assert done.stdout == "[3.6372, -0.4161]\n", done.stderr
    assert done.stderr == ""
