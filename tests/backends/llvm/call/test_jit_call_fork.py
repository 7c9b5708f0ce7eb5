"""Calls in processes of their own, and what native code finds in an interpreter."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys

import pytest

from ftrace.backends.llvm.call import object_layout
from ftrace.backends.llvm.call.entry import native_ir
from tests.support.call_samples import PROGRAM, ROOT, run


@pytest.mark.parametrize("native", ["0", "1"])
def test_objects_live_to_the_end_of_the_process(native: str) -> None:
    text = PROGRAM + (
        "class Late:\n"
        "    def __del__(self):\n"
        "        self.kept = None\n"
        "late = Late(); late.kept = step(value); sys.late = late\n"
        "print(got['b'][0].tolist(), bool(step._records))\n"
    )
    out = run(text, FTRACE_NATIVE_CALLS=native)
    native_there = native == "1" and object_layout.offsets() is not None
    assert out == f"[2.0, 2.0, 2.0, 2.0, 2.0] {native_there}\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_calls_natively() -> None:
    text = PROGRAM + (
        "child = os.fork()\n"
        "for _ in range(100):\n"
        "    got = step(got | {'a': got['a']}) if False else step({'a': got['a']})\n"
        "if child == 0:\n"
        "    os._exit(0 if got['a'].tolist() == [102.0] * 5 else 1)\n"
        "print(os.waitpid(child, 0)[1], got['a'].tolist())\n"
    )
    assert run(text, FTRACE_THREADS="1") == "0 [102.0, 102.0, 102.0, 102.0, 102.0]\n"


def test_other_threads_call_while_calls_become_native() -> None:
    # What another thread may do at any moment is done before each class is given a
    # native method: it calls, and traces.
    run("""
import ftrace as ft, ftrace.numpy as fnp
from ftrace.backends.llvm.call import install
x = fnp.ones(3)
given, make = [], install.Native._method_of
def check_and_make(self, kind, name, function):
    method = make(self, kind, name, function)
    given.append(kind.__name__)
    assert float(fnp.sum(x)) == float(x.sum()) == 3
    assert "sin" in str(ft.make_graph(lambda x: fnp.sin(x) + x.sum())(x))
    return method
install.Native._method_of = check_and_make
step = ft.jit(lambda x: x + 1)
while not given:
    step(x), fnp.sin(x)
assert set(given) >= {"Jitted", "Eager", "Array"}, given
""")


def test_importing_loads_no_compiler() -> None:
    text = "import sys, ftrace, ftrace.numpy\nprint('llvmlite' in sys.modules)"
    assert run(text) == "False\n"


def test_an_unknown_interpreter_has_no_native_calls() -> None:
    text = (
        "from ftrace.backends.llvm.call import object_layout as probe\n"
        "probe.VERSIONS = ()\n" + PROGRAM + "print(bool(step._records), got['a'][0])\n"
    )
    assert run(text) == "False 2.0\n"


@pytest.mark.parametrize("case", ["as it is", "off", "unknown"])
def test_the_module_says_whether_calls_are_native(case: str) -> None:
    """As `python -m ftrace` does."""
    unknown = (
        "from ftrace.backends.llvm.call import object_layout as probe\n"
        "probe._is_known = lambda: False\n"
    )
    text = (unknown if case == "unknown" else "") + (
        "import runpy\nrunpy.run_module('ftrace', run_name='__main__')\n"
    )
    out = run(text, FTRACE_NATIVE_CALLS="0" if case == "off" else "1")
    known = case == "as it is" and object_layout.offsets() is not None
    assert f"native calls: {'yes' if known else 'no: '}" in out
    assert ("CPython 3.10 to 3.14" in out) == (not known and case != "off")


@pytest.mark.parametrize("filter", ["default", "error"])
def test_native_code_that_cannot_be_made_is_told_once(filter: str) -> None:
    if object_layout.offsets() is None:
        pytest.skip("no native calls")
    text = (
        "import warnings\n"
        f"warnings.simplefilter({filter!r})\n"
        "from ftrace.backends.llvm.call import install\n"
        "install._EXPORTED += ('no_such_function',)\n" + PROGRAM +
        "print(bool(step._records), got['a'][0])\n"
    )  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True,
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.stdout == "False 2.0\n"
    told = 1 if filter == "default" else 0
    assert done.stderr.count("NativeCallsWarning: calls cannot be native") == told
    assert done.stderr.count("no_such_function") >= told


def test_native_code_names_functions_that_every_version_has() -> None:
    places = object_layout.offsets()
    if places is None:
        pytest.skip("no native calls")
    named = set(re.findall(r"declare [^@]*@(_?Py\w+)\(", native_ir(places, 1)))
    assert "PyObject_VectorcallMethod" in named
    # Private ones come and go: this one is what the public macro Py_DECREF calls.
    assert {name for name in named if name.startswith("_")} == {"_Py_Dealloc"}
    assert all(hasattr(ctypes.pythonapi, name) for name in named)


def test_the_probe_sees_objects_that_lie_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("ITEMS", "DATA", "SHAPE", "DTYPE", "FLAGS", "DEALLOC"):
        with monkeypatch.context() as patch:
            patch.setattr(object_layout, name, getattr(object_layout, name) + 8)
            assert object_layout.offsets() is None
