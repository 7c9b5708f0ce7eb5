"""What programs call on the host, what ends them, and what is told of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ftrace as ft
from ftrace import dtypes, lax
from ftrace.backends.llvm import target
from ftrace.backends.llvm.device import CPU
from ftrace.backends.llvm.runtime import program_table
from ftrace.backends.llvm.runtime.runtime import Runtime, runtime
from ftrace.errors import OutOfMemoryError, ShapeError
from ftrace.ground import settings
from ftrace.lower.program import Program
from ftrace.trace.primitives.elementwise import add, lt
from ftrace.trace.primitives.sources import const_like
from tests.support.assembly import (
    Array,
    Assembly,
    host_op,
    kernel_of,
    of,
    plus_one,
    results_of,
    run,
)  # fmt: skip

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
BOOL, F32, I64 = dtypes.bool_, dtypes.float32, dtypes.int64


@pytest.fixture(scope="module")
def cpu() -> CPU:
    return CPU()


@pytest.fixture(autouse=True, params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    with settings.config(threads=request.param):
        yield request.param


class Odd(Exception):
    """What the host raises here."""


def test_host_computes_a_step(cpu: CPU) -> None:
    a = Assembly()
    x, y = a.input((3, 4), F32), a.input((0, 2))
    between, count = a.temporary((4, 3), F32), a.output()
    z, empty = a.output((4, 3), F32), a.output((2, 0))

    def meaning(x: Array, y: Array) -> list[Any]:
        assert (x.shape, x.dtype, y.shape) == ((3, 4), F32, (0, 2))
        return [x.T, x.size + y.size, y.T]

    a.host(host_op(meaning), [x, y], [between, count, empty])
    a.compute(plus_one, between, to=z)
    value = np.arange(12, dtype=np.float32).reshape(3, 4)
    found = run(cpu, a.program, value, np.zeros((0, 2), np.int64))
    assert found[0] == 12
    np.testing.assert_array_equal(found[1], value.T + 1)
    assert found[2].shape == (2, 0)


def test_host_sees_every_dtype(cpu: CPU) -> None:
    for dtype in dtypes.SHORT:
        if dtype.itemsize == 0:  # float0
            continue
        a = Assembly()
        x, y = a.input((5,), dtype), a.output((5,), dtype)
        a.host(host_op(lambda x: [x[::-1]]), [x], [y])
        value = np.array([0, 1, 1, 0, 1]).astype(dtype)
        assert run(cpu, a.program, value)[0].tobytes() == value[::-1].tobytes()


def host_in_loops(op: Any, rows: int, columns: int) -> Assembly:
    """x -> op(x) + 1 again and again, in a loop in a loop."""
    inner = Assembly()
    x, between, y = inner.input((3,)), inner.temporary((3,)), inner.output((3,))
    inner.host(op, [x], [between])
    inner.compute(plus_one, between, to=y)
    middle = Assembly()
    x, y = middle.input((3,)), middle.output((3,))
    row = (x, y, middle.temporary((3,)))
    middle.loop(inner.program, carry=[row], length=columns)
    a = Assembly()
    x, y = a.input((3,)), a.output((3,))
    a.loop(middle.program, carry=[(x, y, a.temporary((3,)))], length=rows)
    return a


def test_host_runs_in_nested_loops(cpu: CPU) -> None:
    op = host_op(lambda x: [x * 2])
    (found,) = run(cpu, host_in_loops(op, 3, 4).program, np.arange(3))
    value = np.arange(3)
    for _ in range(12):
        value = value * 2 + 1
    np.testing.assert_array_equal(found, value)


@pytest.mark.parametrize("kind", [Odd, KeyboardInterrupt, SystemExit, RecursionError])
def test_what_the_host_raises_reaches_the_caller(
    cpu: CPU, kind: type[BaseException]
) -> None:
    calls: list[int] = []

    def meaning(x: Array) -> list[Array]:
        calls.append(1)
        if len(calls) == 7:
            raise kind("the seventh")
        return [x]

    executable = cpu.compile(host_in_loops(host_op(meaning), 3, 4).program)
    with pytest.raises(kind, match="the seventh") as caught:
        results_of(cpu, executable, [np.arange(3)])
    assert len(calls) == 7
    notes = getattr(caught.value, "__notes__", [""])
    assert "support/assembly.py" in notes[0] or sys.version_info < (3, 11)
    del caught
    for _ in range(3):  # and everything stays usable
        (found,) = results_of(cpu, executable, [np.arange(3)])
        np.testing.assert_array_equal(found, np.arange(3) + 12)
    assert cpu.allocator.in_use == 0


def test_an_exception_empties_the_stacks(cpu: CPU) -> None:
    """A while that pushes 20 MB until the host has had enough."""
    body = Assembly()
    x = body.input()
    y, big, again = body.output(), body.output((500_000,)), body.output(dtype=BOOL)

    def meaning(x: Array) -> list[Any]:
        if x == 5:
            raise Odd
        return [np.full(500_000, x), True]

    body.compute(plus_one, x, to=y)
    body.host(host_op(meaning), [x], [big, again])
    a = Assembly()
    x, begins, y = a.input(), a.input(dtype=BOOL), a.output()
    stack = a.temporary((500_000,), stacks=1)
    row = (x, y, a.temporary())
    a.loop(body.program, carry=[row], ys=[stack], predicate=begins)
    executable = cpu.compile(a.program)
    most = 0
    for number in range(60):
        with pytest.raises(Odd):
            results_of(cpu, executable, [0, np.bool_(True)])
        if number == 10:
            most = resident_bytes()
    assert resident_bytes() - most < 200 << 20


def resident_bytes() -> int:
    """What the process has in memory now; where that is unknown, 0."""
    try:
        return 4096 * int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0


def test_result_of_another_shape_is_refused(cpu: CPU) -> None:
    for wrong in (lambda x: [x[:2]], lambda x: [x[0]], lambda x: [[x]]):
        executable = cpu.compile(host_in_loops(host_op(wrong), 1, 1).program)
        with pytest.raises(ShapeError, match=r"must give an array of shape \(3,\)"):
            results_of(cpu, executable, [np.arange(3)])


def test_operands_are_read_only_and_callbacks_get_copies(cpu: CPU) -> None:
    kept: list[Array] = []

    def meaning(x: Array) -> list[Array]:
        assert not x.flags.writeable
        kept.append(x)
        return [x + 1]

    for name in ("", "callback", "pure_callback"):
        kept.clear()
        op = host_op(meaning, name)
        run(cpu, host_in_loops(op, 2, 2).program, np.zeros(3, np.int64))
        if name:
            np.testing.assert_array_equal(np.stack(kept)[:, 0], [0, 2, 4, 6])


def test_host_may_run_programs_itself(cpu: CPU) -> None:
    """Also ones that raise in turn."""
    own = cpu.compile(host_in_loops(host_op(lambda x: [x]), 2, 2).program)
    bad = cpu.compile(host_in_loops(host_op(lambda x: [x[:1]]), 2, 2).program)

    def meaning(x: Array) -> list[Array]:
        with pytest.raises(ShapeError):
            results_of(cpu, bad, [x])
        return results_of(cpu, own, [x])

    (found,) = run(cpu, host_in_loops(host_op(meaning), 2, 3).program, np.arange(3))
    np.testing.assert_array_equal(found, np.arange(3) + 6 * 5)


def test_many_callers_use_the_host_at_once(cpu: CPU) -> None:
    def meaning(x: Array) -> list[Array]:
        if x[0] % 7 == 6:
            raise Odd(int(x[1]))
        return [x]

    executable = cpu.compile(host_in_loops(host_op(meaning), 5, 10).program)

    def work(number: int) -> bool:
        for k in range(50):
            value = np.array([7 * 100, number, k])
            try:
                results_of(cpu, executable, [value])
            except Odd as error:
                if error.args != (number + 6,):
                    return False
            else:
                return False
        return True

    with ThreadPoolExecutor(6) as callers:
        assert all(callers.map(work, range(12)))
    assert cpu.allocator.in_use == 0


@needs_fork
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_host_runs_in_a_forked_child(cpu: CPU) -> None:
    executable = cpu.compile(host_in_loops(host_op(lambda x: [x]), 3, 4).program)
    results_of(cpu, executable, [np.arange(3)])
    child = os.fork()
    if child == 0:
        status = 1
        try:
            (found,) = results_of(cpu, executable, [np.arange(3)])
            status = 0 if (found == np.arange(3) + 12).all() else 2
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


# What ends a program


def endless_program(pushed: int = 0) -> Program:
    """A loop that counts far; it may make room for so many numbers each time."""
    body = Assembly()
    x, y = body.input(), body.output()
    cell = body.output((pushed,)) if pushed else -1
    again = body.output(dtype=BOOL)
    body.compute(plus_one, x, to=y)
    body.compute(lambda x: lt(x, const_like(x, 10**15)), x, to=again)
    a = Assembly()
    x, begins, y = a.input(), a.input(dtype=BOOL), a.output()
    stacks = [a.temporary((pushed,), stacks=1)] if cell >= 0 else []
    row = (x, y, a.temporary())
    a.loop(body.program, carry=[row], ys=stacks, predicate=begins)
    return a.program


def test_stack_without_memory_is_our_error(cpu: CPU) -> None:
    """No machine has 2 ** 60 bytes for one cell."""
    executable = cpu.compile(endless_program(1 << 57))
    for _ in range(2):
        with pytest.raises(OutOfMemoryError, match="loops remember"):
            executable([cpu.copy_in(np.array(v)) for v in (0, True)])
    assert cpu.allocator.in_use == 0


def test_lane_without_memory_ends_all_of_them(
    cpu: CPU, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program_table, "WORTH_A_THREAD", 1)
    pushed = endless_program(1 << 57)
    a = Assembly()
    starts, begins, ends = a.input((9,)), a.input((9,), BOOL), a.output((9,))
    a.loop(pushed, xs=[starts, begins], ys=[ends], length=9, lanes=4)
    executable = cpu.compile(a.program)
    flags = np.zeros(9, bool)
    (found,) = results_of(cpu, executable, [np.arange(9), flags])
    np.testing.assert_array_equal(found, np.arange(9))
    flags[5] = True
    with pytest.raises(OutOfMemoryError):
        results_of(cpu, executable, [np.arange(9), flags])


@pytest.mark.skipif(os.name != "posix", reason="needs signals of POSIX")
def test_long_loop_ends_at_an_interrupt(threads: int) -> None:
    program = f"""
        import sys
        sys.path[:0] = {sys.path!r}
        from tests.backends.llvm.runtime.test_host_calls import *
        signal.signal(signal.SIGINT, signal.default_int_handler)  # also in background
        cpu = CPU()
        executable = cpu.compile(endless_program())
        settings.config.update("threads", {threads})
        sys.stdout.write("begun\\n"); sys.stdout.flush()
        try:
            executable([cpu.copy_in(np.array(v)) for v in (0, True)])
        except KeyboardInterrupt:
            sys.stdout.write("interrupted")
        program = host_in_loops(host_op(lambda x: [x]), 3, 4).program
        found = run(cpu, program, np.arange(3))
        sys.stdout.write(f" {{found[0].tolist()}} {{cpu.memory.in_use}}")
    """
    done = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        cwd=Path(__file__).parents[4],
    )  # fmt: skip
    assert done.stdout is not None
    assert done.stdout.readline() == "begun\n"
    time.sleep(0.5)
    start = time.monotonic()
    done.send_signal(signal.SIGINT)
    out, error = done.communicate(timeout=60)
    assert time.monotonic() - start < 5
    assert (out, error) == ("interrupted [12, 13, 14] 0", "")


def ticks_during(call: Callable[[], Any]) -> int:
    """How often another thread of Python gets to run during a call."""
    ticks: list[float] = []
    stop = threading.Event()

    def tick() -> None:
        while not stop.wait(0.001):
            ticks.append(time.monotonic())

    other = threading.Thread(target=tick)
    other.start()
    start = time.monotonic()
    call()
    end = time.monotonic()
    stop.set()
    other.join()
    return sum(start < t < end for t in ticks)


def test_other_threads_run_while_a_loop_does(cpu: CPU) -> None:
    executable = cpu.compile(counting_to(30_000_000))
    assert ticks_during(lambda: results_of(cpu, executable, [0])) > 10


def test_other_threads_run_while_a_kernel_loops() -> None:
    """A while with a small body is one kernel, which may run for long, too."""

    def count(x: Any) -> Any:
        return lax.while_loop(lambda c: c < 300_000_000, lambda c: c + 1, x)

    with settings.config(device="cpu"):
        function = ft.jit(count)
        function(300_000_000)
        assert ticks_during(lambda: function(0).block_until_ready()) > 10


def counting_to(count: int) -> Program:
    a = Assembly()
    x, y = a.input(), a.output()
    a.loop(kernel_of(plus_one, of()), carry=[(x, y, a.temporary())], length=count)
    return a.program


# What is told


def test_debug_tells_of_every_step(
    cpu: CPU, capsys: pytest.CaptureFixture[str]
) -> None:
    executable = cpu.compile(host_in_loops(host_op(lambda x: [x]), 2, 2).program)
    with settings.config(debug=2):
        (found,) = results_of(cpu, executable, [np.arange(3)])
    np.testing.assert_array_equal(found, np.arange(3) + 4)
    text = capsys.readouterr().err
    assert text.count("cpu: ran loop of 2") == 1
    bad = host_in_loops(host_op(lambda x: [x[:1]]), 2, 2)
    with settings.config(debug=2), pytest.raises(ShapeError):
        run(cpu, bad.program, np.arange(3))


def test_host_is_not_called_by_several_threads(
    cpu: CPU, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program_table, "WORTH_A_THREAD", 1)
    callers: list[int] = []

    def meaning(x: Array) -> list[Array]:
        callers.append(threading.get_ident())
        return [x]

    a = Assembly()
    xs, ys = a.input((8, 3)), a.output((8, 3))
    body = host_in_loops(host_op(meaning), 1, 2).program
    a.loop(body, xs=[xs], ys=[ys], length=8, lanes=4)
    value = np.arange(24).reshape(8, 3)
    np.testing.assert_array_equal(run(cpu, a.program, value)[0], value + 2)
    assert set(callers) == {threading.get_ident()}
    assert len(callers) == 16


def test_runner_is_valid_code_without_posix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "has_threads", lambda: False)
    alone = Runtime()
    assert alone.workers() == 0
    assert alone.handlers.keys() == runtime().handlers.keys()


def test_stack_filled_from_its_top_is_given_back_if_that_fails(cpu: CPU) -> None:
    """The number of cells is that of another stack; the host stops half-way."""

    def meaning(x: Array) -> list[Array]:
        if x == 500:
            raise Odd
        return [np.full(20_000, x)]

    push = Assembly()
    x = push.input()
    y, cell, again = push.output(), push.output(), push.output(dtype=BOOL)
    push.compute(plus_one, x, to=y)
    push.compute(lambda x: add(x, x), x, to=cell)
    push.compute(lambda x: lt(x, const_like(x, 999)), x, to=again)
    copy = Assembly()
    element, big = copy.input(), copy.output((20_000,))
    copy.host(host_op(lambda x: meaning(x // 2)), [element], [big])

    a = Assembly()
    x, begins, y = a.input(), a.input(dtype=BOOL), a.output()
    first, second = a.temporary(stacks=1), a.temporary((20_000,), stacks=1)
    a.loop(push.program, carry=[(x, y, a.temporary())], ys=[first], predicate=begins)
    a.loop(copy.program, xs=[first], ys=[second], reverse=True)
    executable = cpu.compile(a.program)
    most = 0
    for number in range(40):  # each fills 80 MB
        with pytest.raises(Odd):
            results_of(cpu, executable, [0, np.bool_(True)])
        if number == 5:
            most = resident_bytes()
    assert resident_bytes() - most < 200 << 20
