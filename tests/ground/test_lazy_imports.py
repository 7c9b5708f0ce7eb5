"""What the first call of a jitted function loads, and what it leaves for later."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ftrace.backends.llvm.compile import emit_own, generate
from ftrace.backends.llvm.object_cache import sources
from ftrace.backends.llvm.runtime import runtime as runtime_module
from ftrace.ground import settings
from ftrace.ground.fork_safe import Once

PROGRAM = """
import sys
import numpy as np
import ftrace as ft, ftrace.numpy as fnp

def long(x, y):
    for _ in range(20):
        x = fnp.tanh(x) * y + 1
    return (x @ y).sum(0), x

x = np.ones((4, 4), np.float32)
found = [ft.jit(lambda x: x + 1)(x), *ft.jit(long)(x, x)]
sys.stderr.write(str([np.asarray(y).tolist() for y in found]))
print(*[name for name in sys.modules if name.startswith(("ftrace.", *{others}))])
"""
#: Of the standard library: each brings many more.
OTHERS = (
    "llvmlite",
    "concurrent.futures",
    "importlib.metadata",
    "logging",
    "socket",
    "email",
)


def run_python(program: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def loaded(folder: Path, program: str = PROGRAM) -> set[str]:
    code = program.replace("{others}", repr(OTHERS))
    return set(run_python(code, FTRACE_CACHE_DIR=str(folder)).split())


def test_programs_from_disk_need_nothing_that_makes_them(tmp_path: Path) -> None:
    cold = loaded(tmp_path)
    makers = {
        "ftrace.lower.lowering", "ftrace.lower.library.lapack_kernels",
        "ftrace.backends.llvm.kernels.compile_kernels",
        "ftrace.backends.llvm.render",
        "ftrace.backends.llvm.runtime.thread_pool",
    }  # fmt: skip
    assert makers <= cold
    warm = loaded(tmp_path)
    assert "ftrace.backends.llvm.device" in warm
    assert not makers & warm
    if sys.platform == "linux" and platform.machine() == "x86_64":
        assert "llvmlite" not in warm
    assert not {name for name in warm if name.startswith(OTHERS[1:])}
    assert not {name for name in warm if name.startswith("ftrace.lower.legalize")}
    calls = "ftrace.backends.llvm.call"
    assert not {name for name in cold | warm if name.startswith(calls)}


def test_native_calls_from_disk_need_no_text(tmp_path: Path) -> None:
    often = """
import sys
import numpy as np
import ftrace as ft

f, x = ft.jit(lambda x: x + 1), np.ones(4, np.float32)
for _ in range(20):
    f(x)
print(*[name for name in sys.modules if name.startswith("ftrace.")])
"""
    text, calls = (f"ftrace.backends.llvm.call.{n}" for n in ("entry", "install"))
    cold = loaded(tmp_path, often)
    if text not in cold:
        pytest.skip("this interpreter has no native calls")
    warm = loaded(tmp_path, often)
    assert calls in warm
    assert text not in warm


def test_what_a_process_lowered_first_is_on_disk_for_the_next(tmp_path: Path) -> None:
    """Small programs too; those after them are lowered, which is quicker by then."""
    many = """
import sys
import numpy as np
import ftrace as ft
from ftrace.backends.llvm.compile import object_cache
from ftrace.trace import tiering

tiering.STORED_FIRST = 3
for n in range(5):
    ft.jit(lambda x: x[:n] * (n + 2.5))(np.ones(8, np.float32))
print(object_cache.misses, "ftrace.lower.lowering" in sys.modules)
"""
    folder = str(tmp_path)
    cold, loaded = run_python(many, FTRACE_CACHE_DIR=folder).split()
    assert loaded == "True"
    warm, loaded = run_python(many, FTRACE_CACHE_DIR=folder).split()
    assert loaded == "True"
    assert int(cold) > int(warm) == 0
    three = many.replace("range(5)", "range(3)")
    assert run_python(three, FTRACE_CACHE_DIR=folder).split() == ["0", "False"]


def test_decisions_of_a_device_are_known_before_it_is_loaded() -> None:
    wrong = """
import sys
import ftrace as ft
from ftrace.errors import ArgumentError

try:
    with ft.config(disabled_rules={"prefetc"}):
        pass
except ArgumentError as error:
    print(error)
print({"llvmlite", "ftrace.backends.llvm.device"} & set(sys.modules))
"""
    message, *_, loaded = run_python(wrong).splitlines()
    assert message.endswith("did you mean 'prefetch'?")
    assert loaded == "set()"


def text_of(value: int) -> str:
    return f"define i64 @own() {{\n  ret i64 {value}\n}}\n"


def test_a_text_of_ours_is_not_made_where_its_code_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []

    def emit(value: int, *facts: int) -> bytes:
        def text() -> str:
            made.append(value)
            return text_of(value)

        return emit_own("test", facts, text)

    with settings.config(cache_dir=str(tmp_path)):
        first = emit(1, 10)
        assert emit(1, 10) == first == generate(text_of(1))
        assert made == [1]
        assert emit(2, 20) != first  # other facts
        assert made == [1, 2]
        # Other sources, as after an edit.
        monkeypatch.setattr(sources, "found", "other")
        assert emit(3, 10) == generate(text_of(3))
        # Without sources, as in an archive, the text itself is the key.
        monkeypatch.setattr(sources, "found", "")
        assert emit(4, 10) == generate(text_of(4))
        assert emit(4, 10) == generate(text_of(4))
        assert made == [1, 2, 3, 4, 4]


def test_threads_that_begin_together_share_the_runner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[object] = []

    class Counted:
        def __init__(self) -> None:
            barrier.wait()
            made.append(self)

    barrier = threading.Barrier(2)
    monkeypatch.setattr(runtime_module, "runtime", Once(Counted))
    runtime_module.prepare_runtime()
    runtime_module.prepare_runtime()
    found: list[object] = []
    threads = [
        threading.Thread(target=lambda: found.append(runtime_module.runtime()))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    barrier.wait()
    for thread in threads:
        thread.join()
    assert found == made * 4
    assert len(made) == 1


def test_native_calls_without_jit_need_no_formulas() -> None:
    code = """
import sys
import ftrace.backends.llvm.call.record_eager
print(*[name for name in sys.modules if name.startswith("ftrace.lower.legalize")])
"""
    assert not run_python(code).split()
