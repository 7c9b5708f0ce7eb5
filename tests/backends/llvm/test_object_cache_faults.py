"""The disk cache under bad conditions: full, foreign, shared, cleared, interrupted."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import errors
from ftrace.backends.llvm import device as device_module, object_cache as cache_module
from ftrace.backends.llvm.compile import object_cache
from ftrace.backends.llvm.compile_threads import wait_for_workers
from ftrace.backends.llvm.device import CPU
from ftrace.backends.llvm.kernels import compile_kernels as kernels_module
from ftrace.backends.llvm.object_cache import ObjectCache
from ftrace.errors import CacheWarning

ROOT = Path(__file__).parents[3]


def files_in(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def several(x: Any) -> Any:
    """Kernels of three kinds."""
    for k in range(3):
        x = fnp.cumsum(fnp.tanh(x) * (k + 2)) / x.size + fnp.sum(x) * 0.1
    return x


X = np.linspace(-1, 1, 77, dtype=np.float32)


def compiled() -> tuple[Any, Any]:
    """The results of a program that a new device has compiled, and the device."""
    program, device = ft.jit(several).lower(X).program, CPU()
    (out,) = device.compile(program)([device.copy_in(X)])
    return device.copy_out(out, X.dtype, X.size).copy(), device


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[Path]:
    object_cache.reported = False
    with ft.config(cache_dir=str(tmp_path / "cache")):
        yield tmp_path / "cache"
    object_cache.reported = False


def run_python(program: str, folder: Path, **environment: str) -> Any:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdout=subprocess.PIPE, text=True, cwd=ROOT,
        env={**os.environ, "FTRACE_CACHE_DIR": str(folder), **environment},
    )  # fmt: skip


# Full and read-only


def test_full_disk_is_told_of_once_and_leaves_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    want, _ = compiled()

    class Full:
        def __init__(self, handle: int, mode: str) -> None:
            self.handle = handle

        def __enter__(self) -> Full:
            return self

        def __exit__(self, *_: object) -> None:
            os.close(self.handle)

        def write(self, data: bytes) -> None:
            os.write(self.handle, data[:10])
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(cache_module.os, "fdopen", Full)
    full = folder.parent / "full"
    with ft.config(cache_dir=str(full)), pytest.warns(CacheWarning) as caught:
        found, _ = compiled()
    np.testing.assert_array_equal(found, want)
    assert files_in(full) == []
    (warning,) = caught
    assert "No space left on device" in str(warning.message)
    assert "FTRACE_CACHE_SIZE" in str(warning.message)


def test_a_limit_of_the_system_on_files_is_told_of_once(folder: Path) -> None:
    pytest.importorskip("resource")
    program = """
        import resource, warnings
        import numpy as np
        import ftrace as ft
        resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for factor in (2, 3):
                found = ft.jit(lambda x: ft.numpy.sin(x) * factor)(np.zeros(9))
        print([w.category.__name__ for w in caught], float(found.sum()))
    """
    process = run_python(program, folder)
    assert process.communicate()[0] == "['CacheWarning'] 0.0\n"
    assert all(name.endswith(".ftrace.o") for name in files_in(folder))


def test_read_only_folder_serves_what_it_has(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that an administrator has filled for all users."""
    want, _ = compiled()

    def refuse(*_: object, **__: object) -> Any:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(cache_module.os, "utime", refuse)
    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    monkeypatch.setattr(device_module, "render_kernel", refuse)
    found, _ = compiled()  # and no warning
    np.testing.assert_array_equal(found, want)


# Size


def test_no_cache_of_size_zero(folder: Path) -> None:
    compiled()
    kept = files_in(folder)
    with ft.config(cache_size=0):
        hits = object_cache.hits
        compiled()
        assert object_cache.hits == hits
    assert files_in(folder) == kept


def test_size_is_held(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "WRITES_BETWEEN_SWEEPS", 1)
    cache = ObjectCache()
    with ft.config(cache_size=3500):
        for number in range(9):
            cache.store(b"c" * 1000, str(number))
            assert len(files_in(folder)) <= 3
            for file in folder.iterdir():  # time passes
                os.utime(file, (0, file.stat().st_mtime - 100))
        assert [n for n in range(9) if cache.load(str(n))] == [6, 7, 8]
        cache.store(b"c" * 4000, "larger than all")
        assert cache.load("larger than all") is None
        assert len(files_in(folder)) == 3


def test_small_caches_are_measured_often(folder: Path) -> None:
    with ft.config(cache_size=1 << 20):
        for number in range(400):
            ObjectCache().store(bytes(10_000), str(number))
            assert sum(f.stat().st_size for f in folder.iterdir()) < 2 << 20


@pytest.mark.parametrize("wrong", [-1, 1.5, "many", None])
def test_size_is_a_number_of_bytes(wrong: Any) -> None:
    kinds = (errors.ArgumentError, errors.ValueRangeError)
    with pytest.raises(kinds, match="cache_size must be"), ft.config(cache_size=wrong):
        pass


def test_size_is_read_from_the_environment(folder: Path) -> None:
    program = "import ftrace as ft; print(ft.config.cache_size)"
    process = run_python(program, folder, FTRACE_CACHE_SIZE="12345")
    assert process.communicate()[0] == "12345\n"


# Others


def test_code_of_another_processor_is_not_found(folder: Path) -> None:
    program = """
        import numpy as np
        import ftrace as ft
        from ftrace.backends.llvm.compile import object_cache
        x = np.ones(9, np.float32)
        assert (np.asarray(ft.jit(lambda x: x * 3)(x)) == 3).all()
        print(object_cache.hits, object_cache.misses)
    """
    # The program, the runner, the kernel and its module; the program names the latter.
    for cpu, counts in (("generic", "0 4"), ("", "0 4"), ("generic", "3 0")):
        process = run_python(program, folder, FTRACE_CPU=cpu)
        assert process.communicate()[0] == counts + "\n"


def test_a_file_under_the_name_of_another_is_a_miss(folder: Path) -> None:
    cache = ObjectCache()
    for name in ("one", "two"):
        cache.store(name.encode(), name)
    first, second = folder.iterdir()
    first.write_bytes(second.read_bytes())
    assert {cache.load("one"), cache.load("two")} in ({None, b"one"}, {None, b"two"})


def test_processes_that_compile_at_once_share_a_folder(folder: Path) -> None:
    program = """
        import numpy as np
        from tests.backends.llvm.test_object_cache_faults import X, several
        import ftrace as ft
        print(np.asarray(ft.jit(several)(X)).tobytes().hex())
    """
    processes = [run_python(program, folder) for _ in range(2)]
    results = {process.communicate()[0] for process in processes}
    assert len(results) == 1
    assert len(results.pop()) == 2 * X.nbytes + 1
    assert not [name for name in files_in(folder) if name.startswith(".")]


# Clearing


def test_cache_clear_forgets_in_memory_and_on_disk(folder: Path) -> None:
    ft.cache_clear()
    function = ft.jit(several)
    want = np.asarray(function(X))
    (folder / "notes.txt").write_text("of somebody")
    (folder / ".ftrace-unfinished").write_bytes(b"")
    assert len(files_in(folder)) > 2
    compiled_before = ft.counters("cpu").kernels_compiled
    ft.cache_clear()
    assert files_in(folder) == [".ftrace-unfinished", "notes.txt"]
    np.testing.assert_array_equal(np.asarray(function(X)), want)

    def other(x: Any) -> Any:
        return several(x)

    again = ft.jit(other)
    np.testing.assert_array_equal(np.asarray(again(X)), want)
    assert ft.counters("cpu").kernels_compiled > compiled_before
    assert len(files_in(folder)) > 2


def test_clear_caches_leaves_the_disk(folder: Path) -> None:
    compiled()
    kept = files_in(folder)
    assert len(kept) > 2
    ft.clear_caches()
    assert files_in(folder) == kept


# Ctrl-C


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A process that a shell has put into the background does not hear Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("threads", [1, 2])
def test_interrupted_compilation_leaves_nothing_half_done(
    folder: Path, at: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ft.config(cache_size=0):
        want, _ = compiled()
    render, count = device_module.render_kernel, 0

    def interrupted(kernel: Any, target: Any = None) -> Any:
        nonlocal count
        count += 1
        if count == at + 1:
            signal.raise_signal(signal.SIGINT)
        return render(kernel, target)

    program, device = ft.jit(several).lower(X).program, CPU()
    with monkeypatch.context() as patch, ft.config(threads=threads):
        patch.setattr(device_module, "render_kernel", interrupted)
        with pytest.raises(KeyboardInterrupt):
            device.compile(program)
    if folder.exists():
        assert not [name for name in files_in(folder) if name.startswith(".")]
    (out,) = device.compile(program)([device.copy_in(X)])
    found = device.copy_out(out, X.dtype, X.size)
    np.testing.assert_array_equal(found, want)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_write_is_finished(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace, signals = os.replace, [signal.SIGINT]

    def interrupted(*args: Any) -> None:
        while signals:  # the first time
            signal.raise_signal(signals.pop())
        replace(*args)

    with monkeypatch.context() as patch:
        patch.setattr(cache_module.os, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt), ft.config(threads=1):
            compiled()
        wait_for_workers()
    assert files_in(folder)
    assert not [name for name in files_in(folder) if name.startswith(".")]
    found, _ = compiled()
    assert np.isfinite(found).all()


def test_jobs_that_have_not_begun_are_dropped() -> None:
    done: list[int] = []
    free = threading.Event()

    def job() -> None:
        free.wait(10)
        done.append(1)

    def jobs() -> Iterator[Any]:
        for _ in range(40):
            yield job
        threading.Timer(0.1, free.set).start()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kernels_module.run_all(jobs(), 2)
    wait_for_workers()
    assert len(done) <= 2
