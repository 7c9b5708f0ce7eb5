"""The CPU's runtime: the pool, the native runner, its memory and its disk cache."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import ftrace.backends  # noqa: F401  (registers the devices)
from ftrace import dtypes
from ftrace.backends.base import get_device, platform_names
from ftrace.backends.llvm import device as device_module, target
from ftrace.backends.llvm.compile import Code, emit_object, link, object_cache
from ftrace.backends.llvm.device import CPU, CPUExecutable
from ftrace.backends.llvm.emit.module import Module, Rendered
from ftrace.backends.llvm.object_cache import ObjectCache, machine, sources
from ftrace.backends.llvm.render import render
from ftrace.backends.llvm.runtime import thread_pool
from ftrace.backends.llvm.runtime.runtime import Runtime, runtime
from ftrace.backends.llvm.target import Target, host_target
from ftrace.errors import CacheWarning, DeviceError
from ftrace.ground import settings
from ftrace.lower import lower
from ftrace.lower.kernel.ir import (
    BufferSpec,
    Kernel,
    KernelInfo,
    Store,
    load,
    make_range,
    param,
    reduce,
)
from ftrace.lower.program import Program, RunKernel, Slot
from ftrace.trace.arrays.buffer import HUGE_PAGE
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Graph
from ftrace.trace.primitives import elementwise
from ftrace.trace.primitives.elementwise import add, mul
from ftrace.trace.primitives.sources import const, variable

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
needs_threads = pytest.mark.skipif(os.name != "posix", reason="needs POSIX threads")

# target[i] = 2 * source[i] + plus, one element per unit
DOUBLE_AND_ADD = """
define void @{kernel}(ptr %buffers, i64 %begin, i64 %end) {{
entry:
  %source = load ptr, ptr %buffers
  %at = getelementptr ptr, ptr %buffers, i64 1
  %target = load ptr, ptr %at
  br label %check
check:
  %i = phi i64 [ %begin, %entry ], [ %next, %body ]
  %more = icmp ult i64 %i, %end
  br i1 %more, label %body, label %out
body:
  %from = getelementptr i64, ptr %source, i64 %i
  %value = load i64, ptr %from
  %twice = mul i64 %value, 2
  %sum = add i64 %twice, {plus}
  %to = getelementptr i64, ptr %target, i64 %i
  store i64 %sum, ptr %to
  %next = add i64 %i, 1
  br label %check
out:
  ret void
}}
"""


def double_and_add(size: int, plus: int) -> Kernel:
    i = make_range(0, size, False)
    value = load(param(0, dtypes.int64, size), i)
    two, more = const(2, dtypes.int64), const(plus, dtypes.int64)
    return Kernel(
        axes=(i,),
        stores=(Store(1, i, add(mul(value, two), more)),),
        buffers=(
            BufferSpec(dtypes.int64, size, False),
            BufferSpec(dtypes.int64, size, True),
        ),
    )


def products(n: int) -> Kernel:
    """The matrix product of two squares of n × n."""
    i, j, k = (make_range(m, n, m == 2) for m in range(3))
    width = const(n, dtypes.int64)
    f32 = dtypes.float32
    left = load(param(0, f32, n * n), add(mul(i, width), k))
    right = load(param(1, f32, n * n), add(mul(k, width), j))
    total = reduce("add", mul(left, right), (k,))
    operand, result = BufferSpec(f32, n * n, False), BufferSpec(f32, n * n, True)
    store = Store(2, add(mul(i, width), j), total)
    return Kernel((i, j), (store,), (operand, operand, result))


def rendered() -> str:
    kernels = [double_and_add(1000, 3), products(64)]
    return "".join(render(k, host_target()).text for k in kernels)


def plain_render(kernel: Kernel, target: Target | None = None) -> Rendered:
    """Stands in for the renderer: these tests are about what runs its code."""
    (store,) = kernel.stores
    plus = [n for n in store.value.src if n.op.name == "const"]
    (value,) = np.frombuffer(plus[0].arg, np.int64)
    write = DOUBLE_AND_ADD.format
    module = Module({}, (lambda name: write(kernel=name, plus=value),))
    return Rendered(module, kernel.shape[0], 16)


def with_cores(count: int) -> CPU:
    """A device that takes the machine to have so many cores."""
    device = CPU()
    device.cores = count
    return device


@pytest.fixture(scope="module", autouse=True)
def facts() -> None:
    """What is known of the machine and our sources: no test finds a file of it."""
    machine()
    sources()


@pytest.fixture
def cpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[CPU]:
    monkeypatch.setattr(device_module, "render_kernel", plain_render)
    with settings.config(cache_dir=str(tmp_path / "cache")):
        yield with_cores(8)


def run_kernel(size: int, plus: int, source: int, target: int) -> RunKernel:
    info = KernelInfo(f"double_{size}", (), 2 * size, 16 * size)
    return RunKernel(double_and_add(size, plus), (source, target), info)


def chain(size: int, length: int, plus: int = 1) -> Program:
    """A program: x -> 2 x + plus, `length` times, by way of two halves of the arena."""
    slots = [
        Slot(dtypes.int64, (size,), "input", 0),
        Slot(dtypes.int64, (size,), "output", 0),
        Slot(dtypes.int64, (size,), "arena", 0),
        Slot(dtypes.int64, (size,), "arena", 8 * size),
    ]
    path = [0, *[2 + k % 2 for k in range(length - 1)], 1]
    steps = [run_kernel(size, plus, a, b) for a, b in pairwise(path)]
    return Program(tuple(slots), tuple(steps), (0,), (1,), 16 * size)


def expected(x: np.ndarray, length: int, plus: int = 1) -> np.ndarray:
    for _ in range(length):
        x = 2 * x + plus
    return x


def call(executable: CPUExecutable, *arrays: np.ndarray) -> list[np.ndarray]:
    device = executable.device
    results = executable([device.copy_in(a) for a in arrays])
    return [device.copy_out(r, dtypes.int64, r.nbytes // 8).copy() for r in results]


@pytest.fixture(scope="module")
def doubling() -> Code:
    return link(
        emit_object(DOUBLE_AND_ADD.format(kernel="kernel", plus=1)), ("kernel",)
    )


def in_parallel(code: Code, x: np.ndarray, grain: int, threads: int) -> np.ndarray:
    y = np.zeros_like(x)
    pointers = np.array([x.ctypes.data, y.ctypes.data])
    runtime().parallel(
        code.address("kernel"), pointers.ctypes.data, len(x), grain, threads
    )
    return y


# The pool


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 31, 1000, 65536])
@pytest.mark.parametrize("grain", [0, 1, 16])
def test_pool_computes_every_unit_once(
    doubling: Code, size: int, threads: int, grain: int
) -> None:
    x = np.arange(size)
    np.testing.assert_array_equal(in_parallel(doubling, x, grain, threads), 2 * x + 1)


def test_pool_serves_many_callers_at_once(doubling: Code) -> None:
    def work(number: int) -> bool:
        x = np.arange(500 + number)
        return all(
            (in_parallel(doubling, x, 7, 1 + (number + k) % 5) == 2 * x + 1).all()
            for k in range(300)
        )

    with ThreadPoolExecutor(8) as callers:
        assert all(callers.map(work, range(16)))


def test_pool_wakes_workers_that_sleep(doubling: Code) -> None:
    x = np.arange(10_000)
    for _ in range(5):
        time.sleep(0.02)  # longer than they spin
        np.testing.assert_array_equal(in_parallel(doubling, x, 16, 3), 2 * x + 1)


@needs_threads
def test_pool_costs_no_time_when_idle(doubling: Code) -> None:
    in_parallel(doubling, np.arange(10_000), 16, 3)
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(0.2)
    assert time.process_time() - before < 0.05


def _core_of(thread: int) -> int:
    """The core on which a thread of this process ran last (proc(5), field 39)."""
    fields = Path(f"/proc/self/task/{thread}/stat").read_text().rpartition(")")[2]
    return int(fields.split()[36])


@needs_fork
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux's call")
@pytest.mark.skipif(target.available_cores() < 2, reason="there is no other core")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_worker_leaves_its_callers_core_and_may_use_all_others(doubling: Code) -> None:
    x = np.arange(10_000)

    def child() -> bool:
        cores = os.sched_getaffinity(0)
        in_parallel(doubling, x, 16, 2)
        threads = {int(name) for name in os.listdir("/proc/self/task")}
        (worker,) = threads - {threading.get_native_id()}
        crowded = min(cores)
        time.sleep(0.05)  # until it sleeps, and asks the system for nothing
        os.sched_setaffinity(0, {crowded})
        os.sched_setaffinity(worker, {crowded})
        for _ in range(100):  # with nowhere to go it stays, and works
            if not (in_parallel(doubling, x, 16, 2) == 2 * x + 1).all():
                return False
        time.sleep(0.05)
        stayed = os.sched_getaffinity(worker) == {crowded}
        os.sched_setaffinity(worker, cores)
        deadline = time.monotonic() + 20
        while _core_of(worker) == crowded and time.monotonic() < deadline:
            in_parallel(doubling, x, 16, 2)
        left = _core_of(worker) != crowded
        while os.sched_getaffinity(worker) != cores and time.monotonic() < deadline:
            time.sleep(0.001)  # it is on its way
        return stayed and left and os.sched_getaffinity(worker) == cores

    assert _in_child(child) == 0


def _in_child(work: Callable[[], bool]) -> int:
    """The exit status of a forked child that does the work; 9 if it hangs."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if work() else 2
        finally:
            os._exit(status)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return 9


@needs_fork
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_pool_starts_no_more_workers_than_asked_for(doubling: Code) -> None:
    def child() -> bool:  # which begins without any
        counts: list[int] = []
        for size, threads in [(1000, 1), (10, 4), (1000, 3), (1000, 2), (1000, 5)]:
            in_parallel(doubling, np.arange(size), 16, threads)
            counts.append(runtime().workers())
        return counts == [0, 0, 2, 2, 4]  # the second is too little to share

    assert _in_child(child) == 0


@needs_fork
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_pool_works_in_a_forked_child(cpu: CPU) -> None:
    x = np.arange(100_000)
    executable = cpu.compile(chain(len(x), 3))
    with settings.config(threads=3):
        call(executable, x)

        def child() -> bool:
            fresh = runtime().workers() == 0
            (y,) = call(executable, x)
            (z,) = call(cpu.compile(chain(77, 2, plus=5)), x[:77])  # compiles, too
            started = runtime().workers() == 2 or os.name != "posix"
            right = (y == expected(x, 3)).all() and (z == expected(x[:77], 2, 5)).all()
            return fresh and started and bool(right)

        for _ in range(3):
            assert _in_child(child) == 0
        (y,) = call(executable, x)
    np.testing.assert_array_equal(y, expected(x, 3))


@needs_fork
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_fork_while_other_threads_run_and_compile(cpu: CPU) -> None:
    x = np.arange(20_000)
    executable = cpu.compile(chain(len(x), 2))
    stop = threading.Event()

    def run() -> None:
        with settings.config(threads=2):
            while not stop.is_set():
                call(executable, x)

    def compile_new() -> None:
        plus = 100
        while not stop.is_set():
            plus += 1
            cpu.compile(chain(10, 1, plus))

    others = [threading.Thread(target=t) for t in (run, run, compile_new)]
    for thread in others:
        thread.start()
    try:

        def child() -> bool:
            (y,) = call(executable, x)
            (z,) = call(cpu.compile(chain(10, 1, 99)), x[:10])
            return bool((y == expected(x, 2)).all() and (z == 2 * x[:10] + 99).all())

        for _ in range(5):
            assert _in_child(child) == 0
    finally:
        stop.set()
        for thread in others:
            thread.join()


def test_process_ends_while_workers_sleep_and_run() -> None:
    program = f"""
        import sys, threading
        sys.path[:0] = {sys.path!r}
        import numpy as np
        from tests.backends.llvm.runtime.test_runtime import *
        device_module.render_kernel = plain_render
        cpu = with_cores(8)
        executable = cpu.compile(chain(100_000, 3))
        x = np.arange(100_000)
        def forever():
            while True:
                call(executable, x)
        settings.MACHINE_THREADS = 3
        settings.config.update("threads", 3)
        for _ in range(2):
            threading.Thread(target=forever, daemon=True).start()
        call(executable, x)
    """
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)],
            capture_output=True, text=True, timeout=60, check=False,
            cwd=Path(__file__).parents[4],
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("machine", ["x86_64", "arm64", "AMD64", "riscv64"])
def test_pool_is_valid_code_for_every_machine(
    machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    emit_object(thread_pool.runner_ir(1 << 20))  # LLVM is ready after this
    llvm = pytest.importorskip("llvmlite.binding")
    monkeypatch.setattr(platform, "machine", lambda: machine)
    llvm.parse_assembly(thread_pool.runner_ir(1 << 20)).verify()


def test_without_threads_jobs_run_on_the_caller(
    doubling: Code, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target, "has_threads", lambda: False)
    alone = Runtime()
    x = np.arange(100)
    y = np.zeros_like(x)
    pointers = np.array([x.ctypes.data, y.ctypes.data])
    alone.parallel(doubling.address("kernel"), pointers.ctypes.data, 100, 1, 4)
    np.testing.assert_array_equal(y, 2 * x + 1)
    assert alone.workers() == 0


# Executables


@pytest.mark.parametrize("length", [1, 2, 3, 10])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_executable_runs_its_steps_in_order(
    cpu: CPU, length: int, threads: int
) -> None:
    x = np.arange(5000)
    executable = cpu.compile(chain(len(x), length))
    with settings.config(threads=threads):
        (y,) = call(executable, x)
    np.testing.assert_array_equal(y, expected(x, length))


def test_thread_count_changes_from_call_to_call(cpu: CPU) -> None:
    x = np.arange(50_000)
    executable = cpu.compile(chain(len(x), 2))
    for threads in (1, 4, 2, None, 7, 1, 3):
        with settings.config(threads=threads):
            assert cpu.threads == (threads or cpu.threads)
            (y,) = call(executable, x)
        np.testing.assert_array_equal(y, expected(x, 2))


def test_executables_share_equal_kernels(cpu: CPU) -> None:
    first = cpu.compile(chain(100, 1))
    assert (cpu.counters.kernels_compiled, cpu.counters.kernels_cached) == (1, 0)
    second = cpu.compile(chain(100, 3))
    assert (cpu.counters.kernels_compiled, cpu.counters.kernels_cached) == (1, 3)
    cpu.compile(chain(101, 1))
    assert cpu.counters.kernels_compiled == 2
    assert first.sources[0] == second.sources[2]
    x = np.arange(100)
    np.testing.assert_array_equal(call(first, x)[0], expected(x, 1))
    np.testing.assert_array_equal(call(second, x)[0], expected(x, 3))


def test_threads_compile_a_kernel_once(cpu: CPU) -> None:
    with ThreadPoolExecutor(8) as callers:
        list(callers.map(cpu.compile, [chain(100, 2)] * 16))
    assert cpu.counters.kernels_compiled == 1
    assert cpu.counters.kernels_cached == 31


def test_calls_of_one_executable_may_overlap(cpu: CPU) -> None:
    executable = cpu.compile(chain(3000, 4))

    def work(number: int) -> bool:
        x = np.arange(3000) + number
        with settings.config(threads=1 + number % 3):
            return all(
                (call(executable, x)[0] == expected(x, 4)).all() for _ in range(100)
            )

    with ThreadPoolExecutor(6) as callers:
        assert all(callers.map(work, range(12)))
    assert cpu.allocator.in_use == 0


def test_output_handed_through_is_the_inputs_buffer(cpu: CPU) -> None:
    program = chain(10, 1)
    program = Program(program.slots, program.steps, (0,), (0, 1, 0, 1), 0)
    x = cpu.copy_in(np.arange(10))
    results = cpu.compile(program)([x])
    assert results[0] is x
    assert results[2] is x
    assert results[1] is results[3]
    assert results[1] is not x


def test_program_without_steps_or_elements(cpu: CPU) -> None:
    slots = (Slot(dtypes.int64, (0,), "input", 0),)
    x = cpu.copy_in(np.zeros(0, np.int64))
    assert cpu.compile(Program(slots, (), (0,), (0,), 0))([x]) == [x]
    (y,) = call(cpu.compile(chain(0, 2)), np.zeros(0, np.int64))
    assert y.size == 0


def test_counters_count_what_ran(cpu: CPU) -> None:
    executable = cpu.compile(chain(100, 3))
    for _ in range(4):
        call(executable, np.arange(100))
    counters = cpu.counters
    assert counters.kernels_run == 12
    assert counters.operations == 4 * 3 * 200
    assert counters.bytes == 4 * 3 * 1600
    assert counters.run_seconds > 0
    assert counters.compile_seconds > 0


def test_debug_levels_print(cpu: CPU, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.arange(64)
    with settings.config(debug=0):
        call(cpu.compile(chain(64, 2, 1)), x)
    assert capsys.readouterr().err == ""
    with settings.config(debug=1):
        (y,) = call(cpu.compile(chain(64, 2, 2)), x)
    text = capsys.readouterr().err
    assert text.count("compiled double_64") == 1
    assert "ran" not in text
    with settings.config(debug=3):
        (y,) = call(cpu.compile(chain(64, 2, 3)), x)
    text = capsys.readouterr().err
    assert text.count("ran double_64") == 2
    assert "define void @kernel" in text
    np.testing.assert_array_equal(y, expected(x, 2, 3))


def test_devices_are_found_by_name() -> None:
    assert {"cpu", "interpreter", "opencl"} <= set(platform_names())
    device = get_device("cpu")
    assert isinstance(device, CPU)
    assert get_device("cpu") is device
    assert device.host
    with pytest.raises(DeviceError, match="there is no device 'gpu'"):
        get_device("gpu")


def test_cpu_agrees_with_the_interpreter() -> None:
    aval = ShapedArray.of((33, 70), dtypes.float32)
    a, b = variable(aval, 0, 0), variable(aval, 0, 1)
    outputs = (elementwise.tanh(mul(a, b)), a, add(elementwise.exp(a), b))
    program = lower(Graph((a, b), outputs)).program
    values = np.random.default_rng(0).standard_normal((2, 33, 70), np.float32)
    results: list[list[np.ndarray]] = []
    for name in ("cpu", "interpreter"):
        device = get_device(name)
        buffers = device.compile(program)([device.copy_in(v) for v in values])
        results.append([device.copy_out(r, dtypes.float32, 2310) for r in buffers])
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_code_that_llvm_does_not_take_is_a_device_error() -> None:
    with pytest.raises(DeviceError, match="does not take"):
        emit_object("define void @kernel(")
    with pytest.raises(DeviceError, match="does not take"):
        emit_object("define i32 @kernel() {\nloop:\n  br label %loop\n}\n")


def test_code_that_llvm_refused_is_let_go_of_in_order() -> None:
    # A module that ends after its context is a segmentation fault.
    program = """
        import gc
        from ftrace.backends.llvm.compile import emit_object
        from ftrace.errors import DeviceError

        errors = []
        for _ in range(20):
            try:
                emit_object("define i32 @f() { loop: br label %loop }")
            except DeviceError as error:
                errors.append(error)  # its frames hold what LLVM was given
        errors[0].all = errors
        del errors
        gc.collect()
        print("ended")
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "ended\n", done.stderr


# Memory


def test_arena_and_outputs_are_reused(cpu: CPU) -> None:
    executable = cpu.compile(chain(4096, 3))
    x = cpu.copy_in(np.arange(4096))
    places: set[int] = set()
    for _ in range(10):
        (y,) = executable([x])
        places.add(y.memory.ctypes.data)
        del y
    assert len(places) == 1
    assert cpu.allocator.in_use == 0
    assert cpu.allocator.peak == 3 * 8 * 4096
    assert cpu.allocator.cached == 3 * 8 * 4096
    cpu.allocator.trim()
    assert cpu.allocator.cached == 0


def test_memory_that_a_view_shows_is_not_reused(cpu: CPU) -> None:
    executable = cpu.compile(chain(1000, 1))
    x = np.arange(1000)
    (buffer,) = executable([cpu.copy_in(x)])
    view = cpu.copy_out(buffer, dtypes.int64, 1000)
    del buffer
    for k in range(3):
        executable([cpu.copy_in(x + k + 1)])
    np.testing.assert_array_equal(view, 2 * x + 1)


@pytest.mark.parametrize("nbytes", [0, 1, 100, 1 << 20, 4 * HUGE_PAGE, 9_999_999])
def test_memory_is_aligned(cpu: CPU, nbytes: int) -> None:
    memory = cpu.allocate(nbytes).memory
    assert memory.nbytes >= nbytes
    step = HUGE_PAGE if nbytes >= 2 * HUGE_PAGE else 64
    assert memory.ctypes.data % step == 0


def test_numpy_goes_in_and_out_without_a_copy(cpu: CPU) -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    buffer = cpu.copy_in(x)
    assert np.shares_memory(buffer.memory, x)
    assert np.shares_memory(cpu.copy_out(buffer, dtypes.float32, 24), x)
    turned = cpu.copy_in(x.T)
    assert not np.shares_memory(turned.memory, x)
    np.testing.assert_array_equal(
        cpu.copy_out(turned, dtypes.float32, 24), x.T.reshape(-1)
    )
    odd = np.zeros(33, np.uint8)[1:].view(np.float32)
    assert not np.shares_memory(cpu.copy_in(odd).memory, odd)
    assert cpu.copy_in(np.zeros((0, 3))).nbytes == 0


# The disk cache


def text_of(plus: int) -> str:
    return DOUBLE_AND_ADD.format(kernel="kernel", plus=plus)


def files_in(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def test_cache_serves_the_next_process(tmp_path: Path) -> None:
    program = """
        import sys
        from tests.backends.llvm.runtime.test_runtime import *
        device_module.render_kernel = plain_render
        cpu = CPU()
        (y,) = call(cpu.compile(chain(100, 2)), np.arange(100))
        assert (y == expected(np.arange(100), 2)).all()
        sys.stdout.write(f"{object_cache.hits} {object_cache.misses}")
    """

    def run() -> str:
        environment = {**os.environ, "FTRACE_CACHE_DIR": str(tmp_path / "a" / "b")}
        return subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)],
            capture_output=True, text=True, timeout=60, check=True, env=environment,
            cwd=Path(__file__).parents[4],
        ).stdout  # fmt: skip

    assert run() == "0 3"  # the runner, the kernel and its module
    # The kernel's code has a file of its own; so have the machine and our sources.
    assert len(files_in(tmp_path / "a" / "b")) == 5
    assert run() == "3 0"


def test_rendered_text_is_the_same_in_every_process() -> None:
    program = """
        import sys
        from tests.backends.llvm.runtime.test_runtime import rendered
        sys.stdout.write(rendered())
    """

    def run(seed: str) -> str:
        return subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)],
            capture_output=True, text=True, timeout=60, check=True,
            cwd=Path(__file__).parents[4],
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout  # fmt: skip

    first = run("1")
    assert "define void @kernel" in first
    assert run("2") == first


def test_kernels_of_a_program_are_compiled_in_parallel(
    cpu: CPU, tmp_path: Path
) -> None:
    size = 100
    slots = (
        Slot(dtypes.int64, (size,), "input", 0),
        *[Slot(dtypes.int64, (size,), "output", k) for k in range(8)],
    )
    steps = tuple(run_kernel(size, k + 1, k, k + 1) for k in range(8))
    program = Program(slots, steps, (0,), tuple(range(1, 9)), 0)
    with settings.config(threads=3):
        results = call(cpu.compile(program), np.arange(size))
    x = np.arange(size)
    for k, y in enumerate(results):
        x = 2 * x + k + 1
        np.testing.assert_array_equal(y, x)
    kept = len(files_in(tmp_path / "cache"))
    assert kept in (8, 9)  # the kernels; the runner if this is the first test


def test_cache_returns_what_was_stored(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path / "cache")
    assert cache.load("a", "b") is None
    cache.store(b"code", "a", "b")
    assert cache.load("a", "b") == b"code"
    assert cache.load("ab", "") is None
    assert (cache.hits, cache.misses) == (1, 2)


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: b"",
        lambda whole: whole[:20],
        lambda whole: whole[:-1],
        lambda whole: whole[:-1] + bytes([whole[-1] ^ 1]),
        lambda whole: b"some other program's file" * 10,
        lambda whole: whole + b"x",
    ],
)
def test_damaged_file_is_a_miss(
    cpu: CPU, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    whole_text = text_of(31)
    code = emit_object(whole_text)
    (file,) = files_in(tmp_path / "cache")
    file.write_bytes(damage(file.read_bytes()))
    misses = object_cache.misses
    assert emit_object(whole_text) == code
    assert object_cache.misses == misses + 1
    hits = object_cache.hits
    assert emit_object(whole_text) == code  # it was written anew
    assert object_cache.hits == hits + 1


def test_folder_that_cannot_be_used_is_no_cache(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("not a folder")
    (tmp_path / "cache" / "deeper").mkdir(parents=True)
    for folder in (str(file), str(file / "below"), "/dev/null/x", "with\0null"):
        object_cache.reported = False
        with (
            settings.config(cache_dir=folder),
            pytest.warns(CacheWarning, match="FTRACE_CACHE_DIR to a folder"),
        ):
            assert emit_object(text_of(32))
        with settings.config(cache_dir=folder):  # said once
            assert emit_object(text_of(32))
    assert file.read_text() == "not a folder"


def test_folder_in_place_of_a_file_is_a_miss(tmp_path: Path) -> None:
    object_cache.reported = False
    with settings.config(cache_dir=str(tmp_path)):
        code = emit_object(text_of(33))
        (file,) = files_in(tmp_path)
        file.unlink()
        file.mkdir()
        with pytest.warns(CacheWarning, match="no regular file"):
            assert emit_object(text_of(33)) == code
    assert files_in(tmp_path) == [file]  # and nothing unfinished was left


def test_read_only_folder_is_no_cache(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o500)
    object_cache.reported = True
    with settings.config(cache_dir=str(folder)):
        assert emit_object(text_of(34))
    folder.chmod(0o700)
    if os.geteuid() != 0:  # root writes anywhere
        assert files_in(folder) == []


def test_write_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "replace", refuse)
    cache = ObjectCache(tmp_path)
    with pytest.warns(CacheWarning):
        cache.store(b"code", "a")
    assert cache.load("a") is None
    assert files_in(tmp_path) == []


def test_sweep_removes_what_was_read_longest_ago(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path)
    foreign = tmp_path / "notes.o"
    foreign.write_bytes(b"x" * 9000)
    for number in range(6):
        cache.store(b"c" * 1000, str(number))
        for file in files_in(tmp_path):  # time passes
            os.utime(file, (file.stat().st_atime, file.stat().st_mtime - 100))
    assert cache.load("1") is not None
    ObjectCache(tmp_path, limit=5000).sweep()
    kept = [number for number in range(6) if cache.load(str(number)) is not None]
    assert kept == [1, 3, 4, 5]
    assert foreign.exists()


def test_sweep_removes_what_was_never_finished(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path)
    old, new = tmp_path / ".ftrace-old", tmp_path / ".ftrace-new"
    old.write_bytes(b"")
    new.write_bytes(b"")
    os.utime(old, (0, 0))
    cache.sweep()
    assert files_in(tmp_path) == [new]


def test_many_writers_and_sweepers_do_no_harm(tmp_path: Path) -> None:
    def work(number: int) -> bool:
        cache = ObjectCache(tmp_path, limit=20_000)
        for k in range(40):
            key, code = str(k % 10), bytes([k % 10]) * 3000
            cache.store(code, key)
            if cache.load(key) not in (code, None):
                return False
            if k % 5 == number % 5:
                cache.sweep()
        return True

    with ThreadPoolExecutor(6) as writers:
        assert all(writers.map(work, range(12)))
    assert not [file for file in files_in(tmp_path) if file.name.startswith(".")]
