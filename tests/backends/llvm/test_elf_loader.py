"""Object code is loaded without LLVM where that is possible, and by LLVM elsewhere."""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ftrace as ft
from ftrace.backends.llvm import (
    compile as compile_module,
    object_cache as machine_module,
)
from ftrace.backends.llvm.compile import generate, link
from ftrace.backends.llvm.elf_loader import load
from ftrace.backends.llvm.target import Target, host_target
from ftrace.ground import settings

HERE = sys.platform == "linux" and platform.machine() == "x86_64"
only_here = pytest.mark.skipif(not HERE, reason="LLVM loads object code here")

#: Constants, a table, memory that is written, calls of its own and of others.
TEXT = """
@table = private constant [4 x i64] [i64 3, i64 5, i64 7, i64 11], align 64
@calls = global i64 0
@start = global i64 40
@where = global ptr @start
declare i64 @labs(i64)
declare i64 @theirs(i64)

define internal i64 @own(i64 %i) noinline {
  %place = getelementptr i64, ptr @table, i64 %i
  %value = load i64, ptr %place
  ret i64 %value
}

define i64 @count() {
  %before = load i64, ptr @calls
  %after = add i64 %before, 1
  store i64 %after, ptr @calls
  %place = load ptr, ptr @where
  %start = load i64, ptr %place
  %sum = add i64 %after, %start
  ret i64 %sum
}

define i64 @apply(i64 %i, i64 %x) {
  %a = call i64 @own(i64 %i)
  %b = call i64 @labs(i64 %x)
  %c = call i64 @theirs(i64 %b)
  %sum = add i64 %a, %c
  ret i64 %sum
}

define double @scaled(double %x) {
  %y = fmul double %x, 0x3FF3C0CA428C59FB
  ret double %y
}
"""
NAMES = ("apply", "count", "scaled")


@ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
def theirs(x: int) -> int:
    return 1000 * x


IMPORTS = {"theirs": ctypes.cast(theirs, ctypes.c_void_p).value or 0}


def nothing(*_: object) -> None:
    """Stands for `load` where it cannot load anything."""


def check(addresses: Any) -> None:
    number = ctypes.c_int64
    apply = ctypes.CFUNCTYPE(number, number, number)(addresses("apply"))
    count = ctypes.CFUNCTYPE(number)(addresses("count"))
    scaled = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(addresses("scaled"))
    assert [apply(i, -2) for i in range(4)] == [2003, 2005, 2007, 2011]
    assert [count(), count(), count()] == [41, 42, 43]
    assert scaled(2.0) == 2.0 * float.fromhex("0x1.3c0ca428c59fbp+0")


@only_here
def test_code_runs_as_where_llvm_loads_it() -> None:
    code = generate(TEXT)
    first, second = load(code, NAMES, IMPORTS), load(code, NAMES, IMPORTS)
    assert first is not None
    assert second is not None
    for loaded in (first, second):  # each has memory of its own
        check(loaded.__getitem__)
    check(compile_module._load_by_llvm(code, NAMES, IMPORTS).__getitem__)  # pyright: ignore[reportPrivateUsage]


def test_what_cannot_be_loaded_is_left_to_llvm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compile_module, "load", nothing)
    check(link(generate(TEXT), NAMES, IMPORTS).address)


@only_here
def test_other_object_code_is_none() -> None:
    code = generate(TEXT)
    arm = Target.of("aarch64-unknown-linux-gnu")
    small = "define i64 @two() {\n  ret i64 2\n}\n"
    assert load(generate(small), ("two",), {}) is not None
    assert load(b"", (), {}) is None
    assert load(code[:30], (), {}) is None
    assert load(b"\x7fELF" + code[4:4] + bytes(200), (), {}) is None
    llvm: Any = pytest.importorskip("llvmlite.binding")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    assert load(generate(small, arm), ("two",), {}) is None
    macos = replace(host_target(), triple="x86_64-apple-macosx")
    assert load(generate(small, macos), ("two",), {}) is None


@only_here
@pytest.mark.parametrize(
    "text",
    [
        "@x = thread_local global i64 1\n"
        "define i64 @f() {\n  %v = load i64, ptr @x\n  ret i64 %v\n}\n",
        "declare i64 @nowhere_to_be_found(i64)\n"
        "define i64 @f() {\n  %v = call i64 @nowhere_to_be_found(i64 1)\n"
        "  ret i64 %v\n}\n",
        "@x = common global i64 0\n"
        "define i64 @f() {\n  %v = load i64, ptr @x\n  ret i64 %v\n}\n",
        "define i64 @g() {\n  ret i64 1\n}\n",
    ],
    ids=["thread-local", "unknown symbol", "common", "another name"],
)
def test_what_is_not_known_here_is_none(text: str) -> None:
    assert load(generate(text), ("f",), {}) is None


def maps() -> int:
    return len(Path("/proc/self/maps").read_text().splitlines())


@only_here
def test_memory_goes_with_its_owner() -> None:
    code = generate("define i64 @f() {\n  ret i64 2\n}\n")
    gc.collect()
    before = maps()
    kept = [load(code, ("f",), {}) for _ in range(50)]
    assert None not in kept
    during = maps()
    kept.clear()
    gc.collect()
    kept.append(load(code, ("f",), {}))  # now the pages of the others go
    # Neighbours are one line each: at least some are freed, and none is left.
    assert maps() <= max(before + 5, during - 1)


@only_here
def test_code_cannot_be_written() -> None:
    loaded = load(generate("define i64 @f() {\n  ret i64 2\n}\n"), ("f",), {})
    assert loaded is not None
    address = loaded["f"]
    for line in Path("/proc/self/maps").read_text().splitlines():
        start, end = (int(part, 16) for part in line.split()[0].split("-"))
        if start <= address < end:
            assert line.split()[1] == "r-xp"
            return
    raise AssertionError


# The facts of the machine


def test_facts_are_read_where_nothing_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    real = machine_module._ask_llvm  # pyright: ignore[reportPrivateUsage]

    def counted() -> Any:
        asked.append(1)
        return real()

    def found() -> Any:
        monkeypatch.setattr(machine_module.machine, "found", None)
        return machine_module.machine()

    monkeypatch.setattr(machine_module, "_ask_llvm", counted)
    with settings.config(cache_dir=str(tmp_path)):
        first = found()
        assert first == real()
        if sys.platform != "linux":
            return
        assert found() == first
        assert len(asked) == 1
        # Another processor, other files, a damaged file, no cache: LLVM is asked.
        monkeypatch.setattr(machine_module, "_processor", lambda: "another")
        assert found() == first
        assert len(asked) == 2

        def later(path: str, facts: os.stat_result) -> str:
            return f"{path} {facts.st_size} later"

        monkeypatch.setattr(machine_module, "_stamp_of", later)
        assert found() == first
        assert len(asked) == 3
        for file in tmp_path.iterdir():
            file.write_bytes(file.read_bytes()[:-1])
        assert found() == first
        assert len(asked) == 4
    with settings.config(cache_size=0):
        assert found() == first
    assert len(asked) == 5


def test_an_edit_changes_the_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [x if x.endswith(".py") else f"{x}/a.py" for x in machine_module.SOURCES]
    for name in (*files, "backends/llvm/inner/b.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1")
    monkeypatch.setattr(machine_module, "_PACKAGE", str(tmp_path))
    read: list[int] = []
    digest = machine_module.digest_of_sources

    def counted() -> str:
        read.append(1)
        return digest()

    def found() -> str:
        monkeypatch.setattr(machine_module.sources, "found", None)
        return machine_module.sources()

    monkeypatch.setattr(machine_module, "digest_of_sources", counted)
    with settings.config(cache_dir=str(tmp_path / "cache")):
        first = found()
        assert first == digest() == found()
        assert len(read) == 1  # the sizes and times of the files are what they were
        (tmp_path / "backends/llvm/inner/b.py").write_text("x = 22")
        assert found() == digest() != first
        assert len(read) == 2
        (tmp_path / "dtypes.py").unlink()
        assert found() == ""
    assert digest() == ""


def test_a_process_ends_while_workers_sleep(tmp_path: Path) -> None:
    program = """
import numpy as np, ftrace as ft, ftrace.numpy as fnp
with ft.config(threads=2):
    x = np.ones(1 << 20, np.float32)
    print(float(ft.jit(lambda x: fnp.sin(x).sum())(x)))
"""
    for _ in range(3):
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"FTRACE_CACHE_DIR": str(tmp_path)},
            check=True, timeout=100, capture_output=True,
        )  # fmt: skip


def test_results_are_the_same_where_llvm_loads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = np.linspace(-5, 5, 1001, dtype=np.float32)

    def f(x: Any) -> Any:
        return ft.numpy.sin(x) * 2 + x[::-1].sum()

    first = np.asarray(ft.jit(f)(x))
    monkeypatch.setattr(compile_module, "load", nothing)
    ft.clear_caches()
    np.testing.assert_array_equal(np.asarray(ft.jit(f)(x)), first)


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux")
def test_llvm_keeps_nothing_of_what_it_has_compiled() -> None:
    program = """
import resource
from ftrace.backends.llvm.compile import generate
for n in range(200):
    numbers = ", ".join(f"i64 {n * 1000 + i}" for i in range(1000))
    generate(f"@table = constant [1000 x i64] [{numbers}]")
    if n in (50, 199):
        with open("/proc/self/statm") as file:
            print(int(file.read().split()[1]) * resource.getpagesize())
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    before, after = map(int, done.stdout.split())
    assert after - before < 5e6  # a context that stays takes 17


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux")
def test_what_llvm_has_freed_goes_back_from_all_threads() -> None:
    program = """
import resource, threading
from ftrace.backends.llvm.compile import generate
store = "%v{0} = getelementptr i8, ptr %p, i64 {0}\\nstore i8 0, ptr %v{0}\\n"
body = "".join(store.format(n * 100) for n in range(5000))
text = f"define void @f(ptr %p) {{\\n{body}ret void\\n}}"
for count in (1, 4):
    threads = [threading.Thread(target=generate, args=(text,)) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with open("/proc/self/statm") as file:
        print(int(file.read().split()[1]) * resource.getpagesize())
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    before, after = map(int, done.stdout.split())
    assert after - before < 8e6
