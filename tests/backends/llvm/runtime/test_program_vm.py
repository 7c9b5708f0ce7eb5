"""The CPU's native runner: loops, stacks and branches, in programs made by hand."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ftrace import dtypes
from ftrace.backends.llvm.device import CPU
from ftrace.backends.llvm.runtime import program_table
from ftrace.ground import settings
from ftrace.lower.program import Program
from ftrace.trace.avals import Shape
from ftrace.trace.graph import Node
from ftrace.trace.primitives.broadcast import broadcast_leading
from ftrace.trace.primitives.elementwise import add, copy, lt, mul, sub
from ftrace.trace.primitives.sources import const, const_like
from tests.support.assembly import Assembly, kernel_of, of, plus_one, results_of, run

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
BOOL, I64 = dtypes.bool_, dtypes.int64


@pytest.fixture(scope="module")
def cpu() -> CPU:
    return CPU()


@pytest.fixture(autouse=True, params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    with settings.config(threads=request.param):
        yield request.param


def resident_bytes() -> int:
    """What the process has in memory now; where that is unknown, 0."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * resource.getpagesize()


# Carry


@pytest.mark.parametrize("length", [0, 1, 2, 3, 10, 1001])
@pytest.mark.parametrize("shape", [(), (7,), (300, 200)])
@pytest.mark.parametrize("spare", [True, False])
def test_loop_carries_a_value(cpu: CPU, length: int, shape: Shape, spare: bool) -> None:
    if length > 100 and len(shape) > 1:
        length = 101
    a = Assembly()
    x, y = a.input(shape), a.output(shape)
    other = a.temporary(shape) if spare else -1
    a.loop(kernel_of(plus_one, of(shape)), carry=[(x, y, other)], length=length)
    value = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    (found,) = run(cpu, a.program, value)
    np.testing.assert_array_equal(found, value + length)


@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 9])
def test_loop_exchanges_its_carries(cpu: CPU, length: int) -> None:
    a = Assembly()
    x, y = a.input((5,)), a.input((5,))
    p, q = a.output((5,)), a.output((5,))
    body = kernel_of(lambda x, y: [sub(y, x), add(x, y)], of((5,)), of((5,)))
    rows = [(x, p, a.temporary((5,))), (y, q, a.temporary((5,)))]
    a.loop(body, carry=rows, length=length)
    u, v = np.arange(5), np.arange(5) * 10 + 3
    found = run(cpu, a.program, u, v)
    for _ in range(length):
        u, v = v - u, u + v
    np.testing.assert_array_equal(found, [u, v])


@pytest.mark.parametrize("length", [0, 1, 2, 5, 6])
def test_carries_with_one_and_with_two_places_mix(cpu: CPU, length: int) -> None:
    a = Assembly()
    x, y = a.input((4,)), a.input((4,))
    p, q = a.output((4,)), a.output((4,))
    body = kernel_of(lambda x, y: [add(x, y), plus_one(y)], of((4,)), of((4,)))
    a.loop(body, carry=[(x, p, a.temporary((4,))), (y, q, -1)], length=length)
    u, v = np.arange(4), np.arange(4) * 7
    found = run(cpu, a.program, u, v)
    for _ in range(length):
        u, v = u + v, v + 1
    np.testing.assert_array_equal(found, [u, v])


def test_a_carry_may_begin_where_it_ends(cpu: CPU) -> None:
    a = Assembly()
    x, kept, y = a.input(), a.temporary(), a.output()
    a.compute(copy, x, to=kept)
    a.loop(kernel_of(plus_one, of()), carry=[(kept, kept, -1)], length=5)
    a.compute(copy, kept, to=y)
    assert run(cpu, a.program, 10) == [15]


def test_the_first_value_of_a_carry_is_not_written(cpu: CPU) -> None:
    a = Assembly()
    x, y = a.input((3,)), a.output((3,))
    a.loop(kernel_of(plus_one, of((3,))), carry=[(x, y, a.temporary((3,)))], length=4)
    value = np.arange(3)
    for _ in range(2):
        (found,) = run(cpu, a.program, value)
        np.testing.assert_array_equal(found, np.arange(3) + 4)
    np.testing.assert_array_equal(value, np.arange(3))


# While


def counting(stop: int) -> Program:
    """A body: x -> x + 1, and whether it is below `stop` then."""

    def body(x: Node) -> list[Node]:
        after = plus_one(x)
        return [after, lt(after, const_like(x, stop))]

    return kernel_of(body, of())


@pytest.mark.parametrize("spare", [True, False])
@pytest.mark.parametrize("start", [7, 6, 5, 3, 0, 9, -1000])
def test_predicate_ends_a_loop(cpu: CPU, start: int, spare: bool) -> None:
    a = Assembly()
    x, y, begins = a.input(), a.output(), a.temporary(dtype=BOOL)
    a.compute(lambda x: lt(x, const_like(x, 7)), x, to=begins)
    row = (x, y, a.temporary() if spare else -1)
    a.loop(counting(7), carry=[row], predicate=begins)
    assert run(cpu, a.program, start) == [max(start, 7)]


# Elements


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [0, 1, 2, 9])
@pytest.mark.parametrize("shape", [(), (5,)])
def test_loop_goes_over_elements(
    cpu: CPU, length: int, shape: Shape, reverse: bool
) -> None:
    """The running sum, and that plus a constant, of every element."""
    a = Assembly()
    c, x, xs = a.input(shape), a.input(shape), a.input((length, *shape))
    y, ys = a.output(shape), a.output((length, *shape))
    body = kernel_of(lambda c, x, e: [add(x, e), add(add(x, e), c)], *[of(shape)] * 3)
    row = (x, y, a.temporary(shape))
    a.loop(body, [c], [row], [xs], [ys], length, reverse)
    random = np.random.default_rng(length)
    constant, total = random.integers(-99, 99, (2, *shape))
    elements = random.integers(-99, 99, (length, *shape))
    found = run(cpu, a.program, constant, total, elements)
    wanted = np.zeros_like(elements)
    for t in range(length)[::-1] if reverse else range(length):
        total = total + elements[t]
        wanted[t] = total + constant
    np.testing.assert_array_equal(found[0], total)
    np.testing.assert_array_equal(found[1], wanted)


# Stacks


def push_then_read(shape: Shape, stop: int, reverse: bool) -> Program:
    """A while that pushes what it sees of a counter, a scan that reads it again."""
    a = Assembly()
    x, y = a.input(), a.output()
    total, begins = a.output(shape), a.temporary(dtype=BOOL)
    zero, stack = a.temporary(shape), a.temporary(shape, stacks=1)
    spare = a.temporary()
    other = a.temporary(shape)

    def body(x: Node) -> list[Node]:
        after = plus_one(x)
        twice = broadcast_leading(add(x, x), shape)
        return [after, twice, lt(after, const_like(x, stop))]

    a.compute(lambda x: lt(x, const_like(x, stop)), x, to=begins)
    a.compute(lambda x: broadcast_leading(sub(x, x), shape), x, to=zero)
    a.loop(kernel_of(body, of()), carry=[(x, y, spare)], ys=[stack], predicate=begins)
    # total -> 3 * total + element, modulo 2 ** 64: the order shows
    read = kernel_of(
        lambda t, e: add(mul(t, const_like(t, 3)), e), of(shape), of(shape)
    )
    a.loop(read, carry=[(zero, total, other)], xs=[stack], reverse=reverse)
    return a.program


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", [(), (3,), (600,)])
@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 200, 12_345])
def test_stack_keeps_what_was_pushed(
    cpu: CPU, shape: Shape, count: int, reverse: bool
) -> None:
    found = run(cpu, push_then_read(shape, count, reverse), 0)
    assert found[0] == count
    total = 0
    for t in range(count)[::-1] if reverse else range(count):
        total = (3 * total + 2 * t) % 2**64
    total -= 2**64 if total >= 2**63 else 0
    np.testing.assert_array_equal(found[1], np.full(shape, total))


def test_stacks_give_their_memory_back(cpu: CPU) -> None:
    """Each run pushes 12 MB; a hundred of them would be seen."""
    executable = cpu.compile(push_then_read((300,), 5000, True))
    results_of(cpu, executable, [0])
    before = resident_bytes()
    for _ in range(100):
        results_of(cpu, executable, [0])
    assert resident_bytes() - before < 100 << 20


@pytest.mark.skipif(resident_bytes() == 0, reason="needs /proc")
def test_memory_of_stacks_is_kept_until_it_is_trimmed(cpu: CPU) -> None:
    cpu.memory.trim()  # what is too much goes with all that others have left
    executable = cpu.compile(push_then_read((2000,), 8191, True))
    results_of(cpu, executable, [0])  # the last chunk has 65 MB
    kept = resident_bytes()
    results_of(cpu, executable, [0])
    again = resident_bytes()
    cpu.memory.trim()
    assert again - kept < 20 << 20
    assert kept - resident_bytes() > 40 << 20  # malloc may keep the smaller ones


def pushing_lanes(lanes: int, parallel: bool) -> Program:
    """A loop over lanes: each pushes squares on a stack, and one more reads them."""
    inner = Assembly()
    x, stack = inner.input(), inner.output(stacks=1)
    begins, y = inner.temporary(dtype=BOOL), inner.temporary()

    def step(x: Node) -> list[Node]:
        after = plus_one(x)
        return [after, mul(x, x), lt(after, const_like(x, 100))]

    inner.compute(lambda x: lt(x, const_like(x, 100)), x, to=begins)
    row = (x, y, inner.temporary())
    inner.loop(kernel_of(step, of()), carry=[row], ys=[stack], predicate=begins)

    reading = Assembly()
    stack = reading.input(stacks=1)
    total, zero = reading.output(), reading.temporary()
    reading.compute(lambda: const(0, I64), to=zero)
    fold = kernel_of(lambda t, e: add(add(t, t), e), of(), of())
    row = (zero, total, reading.temporary())
    reading.loop(fold, carry=[row], xs=[stack], reverse=True)

    a = Assembly()
    xs, totals = a.input((lanes,)), a.output((lanes,))
    stacks = a.temporary(stacks=lanes)
    split = {"length": lanes, "lanes": 4 if parallel else 1}
    a.loop(inner.program, xs=[xs], ys=[stacks], **split)
    a.loop(reading.program, xs=[stacks], ys=[totals], **split)
    return a.program


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("lanes", [1, 3, 8, 50])
def test_arrays_of_stacks_have_one_per_iteration(
    cpu: CPU, lanes: int, parallel: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program_table, "WORTH_A_THREAD", 1)
    starts = np.arange(lanes) * 13 % 120
    (found,) = run(cpu, pushing_lanes(lanes, parallel), starts)
    for start, total in zip(starts, found, strict=True):
        wanted = np.int64(0)
        for t in range(start, 100)[::-1]:
            wanted = np.int64(((2 * int(wanted) + t * t) + 2**63) % 2**64 - 2**63)
        assert total == wanted


# Nested loops, branches


def nested(rows: int, columns: int) -> Program:
    """x -> for each of some rows: for each column: x = 2 x + column * row."""
    inner = kernel_of(
        lambda c, x, e: add(add(x, x), mul(c, e)), of((3,)), of((3,)), of((3,))
    )
    middle = Assembly()
    table, x, row = middle.input((columns, 3)), middle.input((3,)), middle.input((3,))
    y = middle.output((3,))
    middle.loop(inner, [row], [(x, y, middle.temporary((3,)))], [table], length=columns)
    a = Assembly()
    table, x = a.input((columns, 3)), a.input((3,))
    xs, y = a.input((rows, 3)), a.output((3,))
    a.loop(middle.program, [table], [(x, y, a.temporary((3,)))], [xs], length=rows)
    return a.program


@pytest.mark.parametrize("rows", [0, 1, 4])
@pytest.mark.parametrize("columns", [0, 1, 5])
def test_loops_nest(cpu: CPU, rows: int, columns: int) -> None:
    random = np.random.default_rng(rows + columns)
    table = random.integers(-9, 9, (columns, 3))
    start, elements = (
        random.integers(-9, 9, (1, 3))[0],
        random.integers(-9, 9, (rows, 3)),
    )
    x = start
    for row in elements:
        for column in table:
            x = 2 * x + column * row
    (found,) = run(cpu, nested(rows, columns), table, start, elements)
    np.testing.assert_array_equal(found, x)


def branches() -> list[Program]:
    """Of (x, y): two results; what is handed through; one twice; with an arena."""
    exchanged = Assembly()
    x, y = exchanged.input((4,)), exchanged.input((4,))
    exchanged.outputs = [y, x]
    twice = Assembly()
    x, y = twice.input((4,)), twice.input((4,))
    total = twice.output((4,))
    twice.outputs = [total, total]
    twice.compute(mul, x, y, to=total)
    own = Assembly()  # which needs an arena
    x, y = own.input((4,)), own.input((4,))
    between, p, q = own.temporary((4,)), own.output((4,)), own.output((4,))
    own.compute(add, x, y, to=between)
    own.compute(plus_one, between, to=p)
    own.compute(add, between, x, to=q)
    first = kernel_of(lambda x, y: [sub(y, x), add(x, y)], of((4,)), of((4,)))
    return [first, exchanged.program, twice.program, own.program]


def branched(index: int, x: Any, y: Any) -> tuple[Any, Any]:
    index = min(max(index, 0), 3)
    return [
        lambda: (y - x, x + y),
        lambda: (y, x),
        lambda: (x * y, x * y),
        lambda: (x + y + 1, x + y + x),
    ][index]()


@pytest.mark.parametrize("index", [0, 1, 2, 3, -1, 4, 2**31 - 1, -(2**31)])
def test_branch_runs_the_program_of_its_index(cpu: CPU, index: int) -> None:
    a = Assembly()
    i, x, y = a.input(dtype=dtypes.int32), a.input((4,)), a.input((4,))
    p, q = a.output((4,)), a.output((4,))
    a.branch(i, branches(), [x, y], [p, q])
    u, v = np.arange(4), np.arange(4) * 5 + 2
    found = run(cpu, a.program, np.int32(index), u, v)
    np.testing.assert_array_equal(found, branched(index, u, v))


def test_branches_in_a_loop(cpu: CPU) -> None:
    body = Assembly()
    x, y = body.input((4,)), body.input((4,))
    index = body.input(dtype=dtypes.int32)
    p, q = body.output((4,)), body.output((4,))
    body.branch(index, branches(), [x, y], [p, q])
    a = Assembly()
    x, y = a.input((4,)), a.input((4,))
    indices = a.input((9,), dtypes.int32)
    p, q = a.output((4,)), a.output((4,))
    rows = [(x, p, a.temporary((4,))), (y, q, a.temporary((4,)))]
    a.loop(body.program, carry=rows, xs=[indices], length=9)
    chosen = np.array([0, 3, 1, 2, 2, 0, 1, 3, 0], np.int32)
    u, v = np.arange(4), np.arange(4) + 1
    found = run(cpu, a.program, u, v, chosen)
    for index in chosen:
        u, v = branched(int(index), u, v)
    np.testing.assert_array_equal(found, [u, v])


# Parallel loops


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [0, 1, 2, 7, 8, 9, 100])
@pytest.mark.parametrize("lanes", [1, 2, 8])
def test_iterations_of_a_parallel_loop_have_their_own_arena(
    cpu: CPU, length: int, lanes: int, reverse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program_table, "WORTH_A_THREAD", 1)
    body = Assembly()
    c, x = body.input((50,)), body.input((50,))
    between, y = body.temporary((50,)), body.output((50,))
    body.loop(
        kernel_of(lambda c, x: add(mul(x, x), c), of((50,)), of((50,))),
        [c], [(x, between, body.temporary((50,)))], length=20,
    )  # fmt: skip
    body.compute(add, between, x, to=y)
    a = Assembly()
    c, xs, ys = a.input((50,)), a.input((length, 50)), a.output((length, 50))
    a.loop(
        body.program, [c], xs=[xs], ys=[ys], length=length, reverse=reverse,
        lanes=lanes,
    )  # fmt: skip
    random = np.random.default_rng(length)
    constant, elements = (
        random.integers(-9, 9, 50),
        random.integers(-9, 9, (length, 50)),
    )
    executable = cpu.compile(a.program)
    wanted = elements.copy()
    for _ in range(20):
        wanted = wanted * wanted + constant
    for _ in range(5):
        (found,) = results_of(cpu, executable, [constant, elements])
        np.testing.assert_array_equal(found, wanted + elements)


# Everything at once


def test_many_callers_run_loops_at_once(cpu: CPU) -> None:
    pushes = cpu.compile(push_then_read((3,), 500, True))
    wanted = results_of(cpu, pushes, [0])
    lanes = cpu.compile(pushing_lanes(8, True))
    starts = np.arange(8) * 11
    also = results_of(cpu, lanes, [starts])

    def work(number: int) -> bool:
        with settings.config(threads=1 + number % 3):
            for _ in range(40):
                found = results_of(cpu, pushes, [0])
                same = all((f == w).all() for f, w in zip(found, wanted, strict=True))
                if not same or (results_of(cpu, lanes, [starts])[0] != also[0]).any():
                    return False
        return True

    with ThreadPoolExecutor(6) as callers:
        assert all(callers.map(work, range(12)))


@needs_fork
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_loops_run_in_a_forked_child(cpu: CPU, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_table, "WORTH_A_THREAD", 1)
    executable = cpu.compile(pushing_lanes(8, True))
    starts = np.arange(8) * 11
    wanted = results_of(cpu, executable, [starts])
    child = os.fork()
    if child == 0:
        status = 1
        try:
            found = results_of(cpu, executable, [starts])
            status = 0 if (found[0] == wanted[0]).all() else 2
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_counters_multiply_by_known_lengths(cpu: CPU) -> None:
    """A loop of unknown length counts as one iteration; see `CPUExecutable`."""
    cpu.counters.reset()
    run(cpu, nested(4, 5), *map(np.zeros, [(5, 3), 3, (4, 3)], [np.int64] * 3))
    assert cpu.counters.kernels_run == 20
    assert cpu.counters.bytes == 20 * 4 * 24
    cpu.counters.reset()
    run(cpu, push_then_read((3,), 500, True), 0)
    assert cpu.counters.kernels_run == 5  # before the loops 2, then 2 and 1
