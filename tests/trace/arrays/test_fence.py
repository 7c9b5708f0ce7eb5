"""Behind a fence an access outside of a buffer ends the process, and only such a one.

Each test runs a program in a process of its own: the environment decides.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.backends.base import get_device
from ftrace.errors import ArgumentError, DeviceError, ValueRangeError
from ftrace.trace.arrays.array import HOST
from ftrace.trace.arrays.buffer import Buffer
from ftrace.transforms.jit.compiled_graph import compile_graph

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="a fence needs mprotect"
)


def run(fence: str, program: str) -> subprocess.CompletedProcess[str]:
    root = str(Path(ft.__file__).parent.parent)
    environment = {**os.environ, "FTRACE_FENCE": fence, "PYTHONPATH": root}
    return subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


#: Prints for each access whether a process that makes it lives on. The kernel reads
#: 1024 elements; at its last call there is one less.
_ACCESSES = """
import ctypes, os
import numpy as np
import ftrace as ft
from ftrace.backends.base import get_device
from ftrace.transforms.jit.compiled_graph import compile_graph

device = get_device("cpu")
graph = ft.make_graph(lambda x: x * 2 + 1)(np.zeros(1024, np.float32))
executable = compile_graph(graph, device).executable

def call(elements):
    short = device.allocate(4 * elements)
    short.nbytes = 4096  # as if there were all
    executable([short])

def lives(access, *arguments):
    child = os.fork()
    if child == 0:
        access(*arguments)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0

for n, dtype in ((1, "float32"), (100, "int8")):
    x = ft.jit(lambda x: x + 1)(np.arange(n, dtype=dtype))
    assert x.tolist() == list(range(1, n + 1))
    begin = x.buffer.memory.ctypes.data
    end = begin + x.nbytes
    for at in (begin - 1, begin, end - 1, end):
        print(lives(ctypes.string_at, at, 1), lives(ctypes.memset, at, 0, 1))
print(lives(call, 1024), lives(call, 1023))
"""


@pytest.mark.parametrize("fence", ["end", "front"])
def test_fence_ends_a_process_that_goes_one_element_too_far(fence: str) -> None:
    done = run(fence, _ACCESSES)
    assert done.returncode == 0, done.stderr
    lives = [word == "True" for word in done.stdout.split()]
    front, end = fence == "front", fence == "end"
    # Where the bytes do not fill a page, the other side of them is no fence.
    assert lives[:-2] == [not front] * 2 + [True] * 4 + [not end] * 2 + lives[:8]
    assert lives[-2:] == [True, not end]


_PROGRAM = """
import numpy as np
import ftrace as ft
import ftrace.numpy as fnp

rng = np.random.default_rng(0)
functions = [
    lambda x: fnp.cumsum(x) + fnp.sort(x)[::-1],
    lambda x: fnp.outer(x[:99], x[:33]) @ x[:33],
    lambda x: ft.lax.scan(lambda c, a: (c + a, c * a), 0 * x[0], x)[1],
    lambda x: ft.grad(lambda x: fnp.sum(fnp.convolve(x, x[:7]) ** 2))(x),
    lambda x: fnp.fft.fft(x[:96]).real,
    lambda x: x.at[fnp.argsort(x)].add(1.0),
]
for device in ("cpu", "interpreter"):
    with ft.default_device(device):
        for n in (99, 1028) if device == "cpu" else (99,):
            x = rng.random(n, np.float32)
            for f in functions:
                want = np.asarray(f(fnp.asarray(x)))
                compiled = ft.jit(f)
                for _ in range(9):
                    np.testing.assert_allclose(compiled(x), want, 2e-4, 1e-4)
print(ft.config.fence)
"""


@pytest.mark.parametrize("fence", ["end", "front"])
def test_programs_run_behind_a_fence(fence: str) -> None:
    done = run(fence, _PROGRAM)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [fence]


_GROUPS = """
import numpy as np
import ftrace as ft

x, w = np.ones((2, 9, 11, 40), np.float32), np.ones((3, 2, 5, 48), np.float32)
layout = ("NHWC", "HWIO", "NHWC")
f = lambda x, w: ft.lax.conv_general_dilated(
    x, w, (1, 1), ((1, 1), (0, 1)), dimension_numbers=layout, feature_group_count=8
)
print(ft.jit(f)(x, w).max())
"""


def test_blocks_of_groups_read_no_filter_behind_the_last() -> None:
    done = run("end", _GROUPS)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == 3 * 2 * 5


def test_fence_is_one_of_the_whole_process() -> None:
    with pytest.raises(ArgumentError, match="FTRACE_FENCE"), ft.config(fence="end"):
        pass
    with pytest.raises(ValueRangeError, match="one of end, front"):
        ft.Config(fence="back")
    assert "FTRACE_FENCE" in run("back", "import ftrace").stderr


@pytest.mark.parametrize("device", ["cpu", "interpreter"])
@pytest.mark.parametrize(
    "given", [np.zeros(7, np.float32), np.zeros(4, np.float64), np.zeros(8, np.int32)]
)
def test_device_refuses_memory_that_is_not_what_the_program_takes(
    device: str, given: np.ndarray
) -> None:
    graph = ft.make_graph(lambda x: fnp.exp(x))(np.zeros(8, np.float32))
    executable = compile_graph(graph, get_device(device)).executable
    executable([Buffer(HOST, np.zeros(8, np.float32), 32)])
    with pytest.raises(DeviceError, match=r"internal error: input 0 .* 32 bytes of"):
        executable([Buffer(HOST, given, given.nbytes)])
