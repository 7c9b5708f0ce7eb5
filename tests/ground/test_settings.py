"""Settings: what they take, what they refuse, and how far a change of them reaches."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import errors
from ftrace.backends.base import get_device
from ftrace.backends.llvm import target as targets
from ftrace.ground import settings
from ftrace.ground.settings import CPUS, MAX_THREADS
from ftrace.trace import python_limits
from tests.support.refusals import refuses


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = ft.config.threads
    yield
    ft.config.update("threads", before)


def outcome(program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **variables},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def seen_by_another_thread() -> int:
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(ft.config.threads))
    thread.start()
    thread.join()
    return found[0]


# Threads.


def test_set_threads_holds_from_then_on_for_all_threads() -> None:
    ft.set_threads(3)
    assert ft.config.threads == 3
    assert seen_by_another_thread() == 3
    cpu: Any = get_device("cpu")
    assert cpu.threads == min(3, cpu.cores)
    ft.set_threads(np.int64(2))  # type: ignore[arg-type]
    assert ft.config.threads == 2


def test_set_threads_for_a_block_is_the_blocks_own() -> None:
    ft.set_threads(4)
    with ft.set_threads(1):
        assert ft.config.threads == 1
        assert seen_by_another_thread() == 4
        with ft.set_threads(2):
            assert ft.config.threads == 2
        assert ft.config.threads == 1
    assert ft.config.threads == 4
    assert seen_by_another_thread() == 4


def test_set_threads_inside_config_changes_the_block_and_the_default() -> None:
    ft.set_threads(4)
    with ft.config(threads=3, debug=0):
        with ft.set_threads(2):
            assert ft.config.threads == 2
        assert ft.config.threads == 3
        ft.set_threads(1)
        assert (ft.config.threads, seen_by_another_thread()) == (1, 1)
    assert ft.config.threads == 1


@pytest.mark.parametrize("block", [lambda mesh: mesh, ft.set_mesh])
def test_a_context_follows_the_default_after_the_block_of_a_mesh(block: Any) -> None:
    ft.set_threads(2)
    with block(ft.make_mesh((1,), ("x",))):
        pass
    with ft.config(debug=0):
        ft.set_threads(1)
    assert ft.config.threads == 1


def test_set_threads_ends_with_its_block_also_after_an_exception() -> None:
    ft.set_threads(2)
    with pytest.raises(KeyError), ft.set_threads(1):
        raise KeyError
    assert ft.config.threads == 2


def test_none_takes_all_cores() -> None:
    with ft.set_threads(None):
        assert ft.config.threads is None
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
        assert 1 <= get_device("cpu").threads <= max(cores, os.cpu_count() or 1)  # type: ignore[attr-defined]


@pytest.mark.parametrize("wrong", [True, 1.0, "2", [1], np.float32(2)])
def test_a_count_that_is_no_whole_number_is_refused(wrong: Any) -> None:
    with pytest.raises(
        errors.ArgumentError, match="must be a whole number or None, got"
    ):
        ft.set_threads(wrong)
    with (
        pytest.raises(errors.ArgumentError, match="threads must be a whole number or"),
        ft.config(threads=wrong),
    ):
        pass


@pytest.mark.parametrize("wrong", [0, -1, 5, MAX_THREADS, 10**30])
def test_a_count_of_threads_that_cannot_be_is_refused(
    wrong: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "MACHINE_THREADS", 4)
    before = ft.config.threads
    message = rf"from 1 to 4, which is what this machine has; got {wrong}; None takes"
    with pytest.raises(errors.ValueRangeError, match=f"^set_threads: .*{message}"):
        ft.set_threads(wrong)
    with pytest.raises(errors.ValueRangeError, match=f"^threads must be {message}"):
        ft.config.update("threads", wrong)
    with pytest.raises(errors.ValueRangeError, match=message), ft.config(threads=wrong):
        pass
    assert ft.config.threads == before
    with ft.set_threads(4), ft.config(threads=1):
        assert ft.config.threads == 1


def test_the_machine_has_as_many_threads_as_it_says() -> None:
    program = "import ftrace as ft; print(ft.config.threads); ft.set_threads({})"
    most = os.cpu_count() or 1
    done = outcome(program.format(most), FTRACE_THREADS=str(most))
    assert (done.stdout.split(), done.stderr) == ([str(most)], "")
    done = outcome(program.format(most + 1))
    assert f"must be from 1 to {most}, which is what this machine" in done.stderr


def test_more_threads_than_cores_count_as_their_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cpu: Any = get_device("cpu")
    monkeypatch.setattr(cpu, "cores", 3)
    counts = {1: 1, 2: 2, 3: 3, 4: 3, MAX_THREADS: 3, None: 3}
    for count, used in counts.items():
        with ft.set_threads(count):
            assert cpu.threads == used


def test_any_number_of_threads_gives_the_same_bits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(get_device("cpu"), "cores", 40)
    f = ft.jit(lambda x: (fnp.sum(fnp.sin(x)), fnp.exp(x)))
    x = np.random.default_rng(0).normal(size=300_001).astype(np.float32)
    with ft.set_threads(1):
        want = [np.asarray(y) for y in f(x)]
    for count in (2, 7, 40):
        with ft.set_threads(count):
            for a, b in zip(f(x), want, strict=True):
                np.testing.assert_array_equal(np.asarray(a), b)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("FTRACE_THREADS", "many", "written in digits, got 'many'"),
        ("FTRACE_THREADS", "-1", "variable FTRACE_THREADS must be from 1 to"),
        ("FTRACE_THREADS", "1.5", "written in digits, got '1.5'"),
        ("FTRACE_THREADS", "²", "must be a whole number, written in digits, got '²'"),
        ("FTRACE_THREADS", "0", "variable FTRACE_THREADS must be from 1 to"),
        (
            "FTRACE_THREADS",
            "4095",
            "is what this machine has; got 4095; None takes all",
        ),
        ("FTRACE_DEBUG", "yes", "FTRACE_DEBUG must be a whole number, written"),
        ("FTRACE_CACHE_SIZE", "-1", "variable FTRACE_CACHE_SIZE must be 0 or more"),
        ("FTRACE_CACHE_SIZE", "1e9", "FTRACE_CACHE_SIZE must be a whole number, wri"),
        ("FTRACE_CPU", "i486", "FTRACE_CPU must be one of generic, x86-64"),
    ],
)
def test_a_bad_environment_is_told_when_ftrace_is_imported(
    name: str, value: str, message: str
) -> None:
    done = outcome("import ftrace", PYTHONIOENCODING="utf-8", **{name: value})
    assert done.returncode == 1
    assert message in done.stderr


def test_the_environment_sets_the_threads_once() -> None:
    program = """
import os
import ftrace as ft
os.environ["FTRACE_THREADS"] = "7"
print(ft.config.threads)
with ft.set_threads(None):
    print(ft.config.threads)
print(ft.config.threads)
"""
    done = outcome(program, FTRACE_THREADS="1")
    assert (done.stdout.split(), done.stderr) == (["1", "None", "1"], "")


def test_a_device_that_does_not_exist_is_told_at_its_first_use() -> None:
    program = "import ftrace as ft; ft.jit(lambda x: x + 1)(1.0)"
    done = outcome(program, FTRACE_DEVICE="gpu")
    assert "there is no device 'gpu'; the devices are cpu" in done.stderr


# Folders.


@pytest.mark.parametrize("wrong", [3, None, ["a"]])
def test_a_cache_folder_must_be_a_path(wrong: Any) -> None:
    with (
        pytest.raises(errors.ArgumentError, match="cache_dir must be the path of a"),
        ft.config(cache_dir=wrong),
    ):
        pass


def test_a_cache_folder_may_be_any_path(tmp_path: Path) -> None:
    for folder in (tmp_path, str(tmp_path), os.fsencode(tmp_path)):
        with ft.config(cache_dir=folder):
            assert ft.config.cache_dir == str(tmp_path)


# Processors.


def test_the_processor_is_one_for_the_process() -> None:
    for change in (
        lambda: ft.config.update("cpu", "x86-64"),
        lambda: ft.config(cpu="x86-64").__enter__(),
    ):
        with pytest.raises(errors.ArgumentError, match="variable FTRACE_CPU before"):
            change()
    with pytest.raises(errors.ValueRangeError, match="cpu must be one of generic"):
        ft.Config(cpu="i486")


PROGRAM = """
import numpy as np
import ftrace as ft, ftrace.numpy as fnp
from ftrace.backends.llvm.target import host_target
x = np.linspace(-3, 3, 700).reshape(20, 35).astype(np.float32)
def f(x):
    h = (x.astype(fnp.bfloat16) * 2).astype(fnp.float16)
    return fnp.sum(fnp.tanh(x @ x.T) + fnp.max(x, 1)) + fnp.sum(h.astype(x.dtype))
print(host_target().vector_bytes, float(ft.jit(f)(x)), ft.jit(f).lower(x).sources[0])
"""


@cache
def value_with_code_for_this_processor() -> float:
    return float(outcome(PROGRAM, FTRACE_CPU="").stdout.split(maxsplit=2)[1])


@pytest.mark.parametrize(
    ("cpu", "vector_bytes"),
    [("generic", 16), ("x86-64-v2", 16), ("x86-64-v3", 32)],
)
def test_code_is_generated_for_the_processor_that_was_asked_for(
    cpu: str, vector_bytes: int, tmp_path: Path
) -> None:
    here = targets.host_target()
    if not here.triple.startswith("x86_64") or here.vector_bytes < vector_bytes:
        pytest.skip("this machine cannot run code for that processor")
    done = outcome(PROGRAM, FTRACE_CPU=cpu, FTRACE_CACHE_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    width, value, source = done.stdout.split(maxsplit=2)
    assert int(width) == vector_bytes
    assert f"<{vector_bytes // 2} x float>" not in source
    assert float(value) == pytest.approx(value_with_code_for_this_processor(), rel=1e-5)


def test_a_processor_that_this_machine_is_not_is_refused() -> None:
    x86 = "x86_64-unknown-linux-gnu"
    few = {"sse2": True, "avx2": True}
    with pytest.raises(errors.DeviceError, match=r"avx512f.*choose a lower level"):
        targets.restrict("x86-64-v4", x86, few)
    with pytest.raises(errors.DeviceError, match=r"but this machine is aarch64"):
        targets.restrict("x86-64-v3", "aarch64-unknown-linux-gnu", {})
    assert targets.restrict("generic", "aarch64-apple-darwin", {}) == "generic"
    assert targets.restrict("generic", x86, few) == "x86-64"


def test_every_setting_and_processor_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
    for field in fields(ft.Config):
        assert f"| `{field.name}` |" in text
    for cpu in CPUS:
        assert f"`{cpu}`" in text


WRONG: list[tuple[str, Any, type[Exception], str]] = [
    ("disable_jit", "false", errors.ArgumentError, "disable_jit must be True or False"),
    ("check_specs", "no", errors.ArgumentError, "check_specs must be True or False"),
    ("native_calls", None, errors.ArgumentError, "native_calls must be True or False"),
    ("tune", 2, errors.ArgumentError, "tune must be True or False, got int: 2"),
    ("enable_x64", "yes", errors.ArgumentError, "must be None, True or False, got str"),
    ("debug", "a", errors.ArgumentError, "debug must be a whole number, got str: 'a'"),
    ("device", 3, errors.ArgumentError, "device must be the name of a device, got int"),
    ("device", "foo", errors.DeviceError, "no device 'foo'; the devices are cpu"),
    ("disabled_rules", "foo", errors.ArgumentError, r"must be names .* got str: 'foo'"),
    ("disabled_rules", 3, errors.ArgumentError, "must be names of rules, as {'merge_"),
    ("disabled_rules", [3], errors.ArgumentError, "must be names of rules, as {'merge"),
    ("disabled_rules", {"foo"}, errors.ArgumentError, "there is no rule 'foo'"),
    ("disabled_rules", {"movement"}, errors.ArgumentError, "stage .* merge_reshapes,"),
    ("disabled_rules", {"calls"}, errors.ArgumentError, "a stage .* without rules"),
    ("cache_memory", 1.5, errors.ArgumentError, "cache_memory must be a whole number"),
    ("cache_size", -1, errors.ValueRangeError, "cache_size must be 0 or more"),
]


@pytest.mark.parametrize(("name", "value", "kind", "message"), WRONG)
def test_a_setting_is_checked_where_it_is_set(
    name: str, value: Any, kind: type[Exception], message: str
) -> None:
    before = settings.current()
    with refuses(kind, message):
        ft.config.update(name, value)
    with refuses(kind, message), ft.config(**{name: value}):
        pass
    assert settings.current() == before


def test_every_setting_is_checked() -> None:
    for name in settings.Config.__dataclass_fields__:
        with pytest.raises(errors.FtraceError):
            settings.Config(**{name: object()})  # pyright: ignore[reportArgumentType]


def test_names_of_rules_are_checked_without_a_look_at_all_objects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    off = {"disabled_rules": {"merge_reshapes"}}
    with ft.config(**off):  # what checks them is loaded
        pass
    monkeypatch.setattr(python_limits, "put_away", pytest.fail)
    with ft.config(**off), ft.config(threads=1):
        pass
