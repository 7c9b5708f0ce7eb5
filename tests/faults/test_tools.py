"""Tools that look at a function: whatever it is, and whatever is wrong with it.

Each takes what a user may have for a function; raises at once, with a class of ours,
where it cannot; leaves no file behind then; and its work grows with the program.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.errors import FtraceError
from ftrace.testing import check
from ftrace.testing.programs import lowered_text
from tests.lower.test_size import calls_of
from tests.support.call_samples import ROOT


def _profiled(folder: Path, f: Any, *args: Any) -> Any:
    with ft.profile(folder / "profile.json"):
        return ft.jit(f)(*args)


def _without_compiles(folder: Path, f: Any, *args: Any) -> Any:
    jitted = f if hasattr(f, "misses") else ft.jit(f)
    jitted(*args)
    with ft.no_compiles():
        jitted(*args)
    return jitted.misses, jitted.cache_info()


def _replayed(folder: Path, f: Any, *args: Any) -> Any:
    ft.record(folder / "program.npz", f, *args)
    return ft.replay(folder / "program.npz")


#: Each is given a folder for its files, a function and its arguments.
TOOLS: dict[str, Callable[..., Any]] = {
    "explain": lambda folder, f, *args: ft.explain(f)(*args),
    "viz": lambda folder, f, *args: ft.viz(f, folder, show=False)(*args),
    "nan_origin": lambda folder, f, *args: ft.nan_origin(f)(*args),
    "zero_gradients": lambda folder, f, *args: ft.zero_gradients(f)(*args),
    "make_graph": lambda folder, f, *args: ft.make_graph(f)(*args),
    "bisect": lambda folder, f, *args: ft.bisect(f, *args, path=folder / "bisect.py"),
    "record": _replayed,
    "check": lambda folder, f, *args: check(f, *args, devices=["cpu"]),
    "check_grads": lambda folder, f, *args: ft.test_util.check_grads(f, args, 1),
    "profile": _profiled,
    "no_compiles": _without_compiles,
    "lowered_text": lambda folder, f, *args: lowered_text(f, *args),
}
X = np.linspace(0.5, 1.5, 6, dtype=np.float32)


def loss(x: Any) -> Any:
    return fnp.sum(fnp.tanh(x) * x)


class Model:
    def __init__(self) -> None:
        self.scale = 2.0

    def __call__(self, x: Any) -> Any:
        return loss(x) * self.scale

    def of(self, x: Any) -> Any:
        return loss(x) * self.scale

    @ft.jit
    def jitted(self: Any, x: Any) -> Any:
        return loss(x)

    @staticmethod
    def still(x: Any) -> Any:
        return loss(x)


def scaled(x: Any, scale: Any = 1.0, *, power: int = 1) -> Any:
    return loss(x) * scale**power


#: What a user may have for a function of one array.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "function": loss,
    "lambda": lambda x: loss(x),
    "partial": partial(scaled, scale=2.0, power=2),
    "method": Model().of,
    "static method": Model.still,
    "instance": Model(),
    "public": fnp.linalg.norm,
    "jit": ft.jit(loss),
    "jit of a partial": ft.jit(partial(scaled, power=2)),
    "donated": ft.jit(lambda x: x * 2.0, donate_argnums=0),
    "static": ft.jit(partial(scaled, power=3), static_argnames="power"),
    "grad": ft.grad(loss),
    "vmap": ft.vmap(fnp.square),
    "custom_jvp": ft.custom_jvp(loss),
    "named": ft.named_call(loss, name="any name, of / whatever"),
}
FUNCTIONS["custom_jvp"].defjvps(lambda t, ans, x: fnp.vdot(t, ft.grad(loss)(x)))  # pyright: ignore[reportFunctionMemberAccess]


#: Those that call the function itself: an array that it is given may be gone then.
CALLING = ("check", "check_grads", "no_compiles", "profile")


@pytest.mark.parametrize("kind", FUNCTIONS)
@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_takes_whatever_can_be_called(
    tool: str, kind: str, tmp_path: Path
) -> None:
    x = X if tool in CALLING else fnp.asarray(X)
    TOOLS[tool](tmp_path, FUNCTIONS[kind], x)
    assert x.sum() == 6  # it was not given up
    assert not [*tmp_path.rglob("*.tmp")]


def _fails(x: Any) -> Any:
    raise ZeroDivisionError("mine")


def _asks(x: Any) -> Any:
    return x if x.sum() > 0 else -x


def _adds(x: Any) -> Any:
    return x + fnp.ones(5)


def _yields(x: Any) -> Any:
    yield x


def _texts(x: Any) -> Any:
    return "text"


STRUCT = ft.ShapeDtypeStruct((6,), "float32")
#: What goes wrong: function, arguments, and the class that is raised.
WRONG: dict[str, tuple[Any, tuple[Any, ...], type[BaseException]]] = {
    "raises": (_fails, (X,), ZeroDivisionError),
    "does not fit": (_adds, (X,), FtraceError),
    "no function": (3, (X,), FtraceError),
    "a function that yields": (_yields, (X,), FtraceError),
    "the result of a call": (fnp.ones(3), (X,), FtraceError),
    "a text": (loss, ("text",), (FtraceError, AssertionError)),
    "an object": (loss, (object(),), (FtraceError, AssertionError)),
    "no arguments": (loss, (), TypeError),
    "too many arguments": (loss, (X, X), TypeError),
    "returns a text": (_texts, (X,), (FtraceError, AssertionError)),
}


@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize("tool", TOOLS)
def test_what_is_wrong_is_raised_and_no_file_stays(
    tool: str, kind: str, tmp_path: Path
) -> None:
    function, args, error = WRONG[kind]
    with pytest.raises(error):
        TOOLS[tool](tmp_path, function, *args)
    left = {path.name for path in tmp_path.iterdir()}
    assert left <= {"profile.json"}  # a profile of what failed


#: Those that need values.
OF_VALUES = ("nan_origin", "zero_gradients", "bisect", "record")


@pytest.mark.parametrize("tool", OF_VALUES)
def test_shapes_and_traced_values_are_refused(tool: str, tmp_path: Path) -> None:
    with pytest.raises(FtraceError, match="values are needed, got shapes"):
        TOOLS[tool](tmp_path, loss, STRUCT)
    for transform in (ft.jit, ft.grad, ft.vmap):
        with pytest.raises(FtraceError, match=r"values are needed, got a traced f32"):
            transform(lambda x: TOOLS[tool](tmp_path, fnp.sum, x))(X)
    assert not [*tmp_path.iterdir()]


OF_SHAPES = ("explain", "viz", "lowered_text")


@pytest.mark.parametrize("tool", [*OF_VALUES, *OF_SHAPES])
def test_what_closes_over_a_traced_value_is_refused(tool: str, tmp_path: Path) -> None:
    with pytest.raises(FtraceError, match="closes over a traced value"):
        ft.jit(lambda x: TOOLS[tool](tmp_path, lambda y: loss(x) * y, 2.0))(X)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("tool", OF_SHAPES)
def test_within_a_trace_shapes_are_enough(tool: str, tmp_path: Path) -> None:
    found: list[Any] = []
    ft.jit(lambda x: found.append(TOOLS[tool](tmp_path, loss, x)) or x)(X)
    TOOLS[tool](tmp_path, loss, STRUCT)
    assert str(found[0])


FILES: dict[str, Callable[[Any], Any]] = {
    "viz": lambda path: ft.viz(loss, path, show=False)(X),
    "record": lambda path: ft.record(path, loss, X),
    "profile": lambda path: ft.profile(path).__enter__(),
    "save_device_memory_profile": ft.profiler.save_device_memory_profile,
}


@pytest.mark.parametrize("tool", FILES)
def test_a_file_that_cannot_be_written_is_told_before_the_work(
    tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "a.npz").mkdir()
    ran: list[int] = []
    monkeypatch.setattr(f"{__name__}.loss", lambda x: ran.append(1))
    places = (tmp_path / "file" / "a.npz", Path("/proc/a.npz"), tmp_path / "no/a.npz")
    for path in (*places, *[tmp_path / "a.npz"] * (tool != "viz")):
        with pytest.raises(FtraceError, match="cannot be written"):
            FILES[tool](path)
    for name in (3, X, loss):
        with pytest.raises(FtraceError, match=r"the name of a file, got .*; write"):
            FILES[tool](name)
    assert not ran
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a.npz", "file"]
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.skipif(os.name != "posix", reason="there are no such files")
@pytest.mark.parametrize("tool", ["viz", "profile", "save_device_memory_profile"])
def test_what_is_no_file_of_a_disk_stays(tool: str, tmp_path: Path) -> None:
    pipe, got = tmp_path / "pipe", list[bytes]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    if tool == "profile":
        with ft.profile(pipe):
            pass
    else:
        FILES[tool](pipe)
    reader.join(60)
    assert pipe.is_fifo()
    assert len(got[0]) > 10
    assert [*tmp_path.iterdir()] == [pipe]


def chain(x: Any, length: int) -> Any:
    for _ in range(length):
        x = fnp.sin(x) * 1.25 + x
    return x.sum()


#: `check` compiles a dozen of programs: it says nothing about the tools.
GROWING = sorted({*TOOLS} - {"check", "check_grads", "no_compiles", "make_graph"})


@pytest.mark.parametrize("tool", GROWING)
def test_work_grows_with_the_length_of_a_program(tool: str, tmp_path: Path) -> None:
    def calls(length: int) -> int:
        with ft.config(cache_size=0, threads=1):
            ft.cache_clear()
            return calls_of(
                lambda: str(TOOLS[tool](tmp_path, lambda x: chain(x, length), X))
            )

    calls(10)
    assert calls(80) <= 2.4 * calls(40)


#: What a program of a user's runs, where there is no terminal, and how it is told so.
PROGRAM = """
import sys
import numpy as np
import ftrace as ft, ftrace.numpy as fnp

def f(x):
    return fnp.sum(fnp.sin(x) * x)

x = np.ones(7, np.float32)
with ft.profile():
    ft.jit(f)(x)
ft.explain(f)(x).show()
picture = ft.viz(f, sys.argv[1])(x)
print(ft.bisect(f, x), ft.zero_gradients(f)(x), ft.nan_origin(f)(x))
ft.print_environment_info()
"""
NO_TERMINAL = {
    "pipe": {},
    "dumb": {"TERM": "dumb"},
    "no color": {"NO_COLOR": "1", "TERM": "xterm-256color", "DISPLAY": ""},
    "no temporary folder": {"TMPDIR": "/proc/none"},
    "ascii": {"PYTHONIOENCODING": "ascii"},
}


@pytest.mark.parametrize("place", NO_TERMINAL)
def test_without_a_terminal_text_is_plain(place: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT), **NO_TERMINAL[place]},
        cwd=tmp_path, capture_output=True, check=False, timeout=300,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\x1b" not in done.stdout
    assert b"f on cpu, " in done.stdout
    assert b"profile of " in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["f.html"]


@pytest.mark.skipif(os.name != "posix", reason="signals are sent to a process")
def test_who_reads_no_more_gets_no_traceback() -> None:
    done = subprocess.run(
        f"{sys.executable} -m ftrace | head -1", shell=True, capture_output=True,
        text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    assert (done.stderr, done.stdout.count("\n")) == ("", 1)


LONG = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
import ftrace as ft, ftrace.numpy as fnp, numpy as np
from pathlib import Path
from tests.faults.test_tools import TOOLS, chain
print("begun", flush=True)
try:
    TOOLS[sys.argv[1]](Path(sys.argv[2]), lambda x: chain(x, 20_000), np.ones(64))
except KeyboardInterrupt:
    print("whole" if ft.grad(lambda x: x**3)(2.0) == 12 else "broken")
"""


@pytest.mark.thorough
@pytest.mark.skipif(os.name != "posix", reason="signals are sent to a process")
@pytest.mark.parametrize("tool", ["explain", "viz", "bisect", "record", "profile"])
def test_an_interrupted_tool_leaves_no_file(tool: str, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", LONG, tool, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as child:  # fmt: skip
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "begun\n"
            time.sleep(1.5)
            child.send_signal(signal.SIGINT)
            out, error = child.communicate(timeout=120)
        finally:
            child.kill()
    assert (out, child.returncode) == ("whole\n", 0), error
    assert {path.name for path in tmp_path.iterdir()} <= {"profile.json"}
