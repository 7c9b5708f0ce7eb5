"""Memory: calls that need more than there is, and what is kept and shared of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import errors
from ftrace.backends import out_of_memory
from ftrace.backends.base import get_device
from ftrace.backends.llvm import device as cpu_device
from ftrace.numpy import indexing
from ftrace.trace import bind, evaluate
from ftrace.trace.arrays import buffer as buffers
from ftrace.trace.arrays.buffer import free_memory, machine_memory


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if there were a megabyte."""
    monkeypatch.setattr(out_of_memory, "free_memory", lambda: 1 << 20)
    monkeypatch.setattr(buffers, "free_memory", lambda: 1 << 20)


def test_what_is_free_is_a_part_of_what_the_machine_has() -> None:
    assert free_memory() > 0
    if Path("/proc/meminfo").exists():
        assert free_memory() < 2 * machine_memory() + (1 << 40)


def test_a_container_has_what_its_group_may_take(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(buffers, "_GROUP", tmp_path)
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("700000\n")
    (tmp_path / "memory.stat").write_text("anon 5\ninactive_file 100\nactive_file 20\n")
    assert buffers.machine_memory() == 1_000_000
    assert free_memory() == 300_120
    (tmp_path / "memory.max").write_text("max\n")
    assert free_memory() > 300_120
    monkeypatch.setattr(buffers, "_MEMINFO", tmp_path / "none")
    assert free_memory() == 1 << 62  # nobody can say


def outer(x: Any) -> Any:
    table = fnp.sin(x[:, None] * x[None, :])
    return fnp.cumsum(table, 1) + fnp.cumsum(table, 0)


def stacked(x: Any) -> Any:
    def body(c: Any, v: Any) -> Any:
        return fnp.sin(c) * v, c[:, None] * c[None, :]

    return ft.lax.scan(body, x, fnp.arange(500.0))[1]


@pytest.mark.parametrize("function", [outer, stacked])
def test_a_call_that_needs_more_memory_than_there_is_names_the_largest_arrays(
    device: Any, function: Any
) -> None:
    size = int((machine_memory() * 0.8) ** 0.5)
    if function is stacked:
        size //= 8
    x = fnp.linspace(0, 1, size)
    compiled = ft.jit(function)
    for _ in range(2):
        with pytest.raises(errors.OutOfMemoryError) as caught:
            compiled(x)
    message = str(caught.value)
    assert isinstance(caught.value, MemoryError)
    assert f"{device.name} has no memory for this call: it needs " in message
    assert "are free" in message
    assert f"float32[{'500,' * (function is stacked)}{size},{size}]" in message
    assert "test_memory_limits.py" in message
    assert f"in {'body' if function is stacked else 'outer'}" in message
    small = np.linspace(0, 1, 5, dtype=np.float32)
    assert np.isfinite(np.asarray(compiled(small))).all()  # the next call works
    assert float(x[-1]) == 1.0  # and the argument is as it was


def loop(x: Any, n: Any) -> Any:
    def body(c: Any) -> Any:
        return c[0] + 1, fnp.sin(c[1]) * fnp.cos(c[1])

    return fnp.sum(ft.lax.while_loop(lambda c: c[0] < n, body, (0, x))[1])


def test_a_loop_that_grows_stacks_finds_no_memory(little: None) -> None:
    x = fnp.full((1 << 18,), 0.5)  # a megabyte
    derivative = ft.jit(ft.grad(loop))
    few = np.asarray(derivative(x, 3))
    device = get_device("cpu")
    before = device.allocator.in_use
    with pytest.raises(errors.OutOfMemoryError, match="use `checkpoint`"):
        derivative(x, 300)
    assert device.allocator.in_use == before
    np.testing.assert_array_equal(np.asarray(derivative(x, 3)), few)
    assert float(x[0]) == 0.5


def test_an_array_of_more_than_there_is_is_refused(little: None) -> None:
    device = get_device("cpu")
    with pytest.raises(errors.OutOfMemoryError, match="has no memory for"):
        device.allocate(buffers.LARGE_ALLOCATION)
    assert device.allocate(1000).nbytes == 1000


#: Operations that are done at once, with a result of four megabytes or more.
EAGER: dict[str, Callable[[], Any]] = {
    "sum of broadcast operands": lambda: fnp.ones((1 << 10, 1)) + fnp.ones(1 << 10),
    "number": lambda: fnp.ones((1 << 10, 1 << 10)) * 2,
    "other dtype": lambda: fnp.ones((1 << 10, 1 << 10)).astype(np.float64),
    "unary": lambda: fnp.exp(fnp.ones((1 << 10, 1 << 10))),
    "outer": lambda: fnp.outer(fnp.ones(1 << 10), fnp.ones(1 << 10)),
    "product": lambda: fnp.ones((1 << 10, 2)) @ fnp.ones((2, 1 << 10)),
    "positions": lambda: fnp.arange(1 << 20),
    "between": lambda: fnp.linspace(0, 1, 1 << 20),
    "unit matrix": lambda: fnp.eye(1 << 10),
    "running sum": lambda: fnp.cumsum(fnp.ones((1 << 10, 1 << 10)), 1),
    "sorted": lambda: fnp.sort(fnp.ones((1 << 10, 1 << 10))),
    "padded": lambda: fnp.pad(fnp.ones(3), (1 << 20, 0)),
    "joined": lambda: fnp.concatenate([fnp.ones(1 << 19), fnp.ones(1 << 19)]),
    "repeated": lambda: fnp.repeat(fnp.ones(1 << 10), 1 << 10) + 1,
    "taken": lambda: fnp.ones(4)[fnp.zeros(1 << 20, int)],
    "updated": lambda: fnp.ones((1 << 10, 1 << 10)).at[0].set(2.0),
    "copied": lambda: fnp.array(fnp.ones((1 << 10, 1 << 10))),
    "for NumPy": lambda: np.array(fnp.ones((1 << 10, 1 << 10))),
    "in another shape": lambda: fnp.reshape(
        fnp.broadcast_to(fnp.arange(1 << 10), (1 << 10, 1 << 10)), -1
    ),
    "chosen": lambda: fnp.where(fnp.ones((1 << 10, 1)) > 0, fnp.ones(1 << 10), 0),
    "random": lambda: ft.random.normal(ft.random.key(0), (1 << 20,)),
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked for a megabyte and more."""
    monkeypatch.setattr(buffers, "LARGE_ALLOCATION", 1 << 20)
    monkeypatch.setattr(out_of_memory, "LARGE_ALLOCATION", 1 << 20)
    monkeypatch.setattr(cpu_device, "LARGE_ALLOCATION", 1 << 20)
    for module in (bind, evaluate, indexing):
        monkeypatch.setattr(module, "ASKED", 1 << 16)


@pytest.mark.usefixtures("little", "asked")
@pytest.mark.parametrize("name", EAGER)
def test_an_operation_is_refused_before_it_takes_what_is_not_there(name: str) -> None:
    ft.clear_caches()  # of what was asked for before
    with pytest.raises(errors.OutOfMemoryError) as caught:
        EAGER[name]()
    assert isinstance(caught.value, MemoryError)
    assert float(fnp.ones(3).sum()) == 3


@pytest.mark.usefixtures("little", "asked")
def test_views_take_no_memory_however_large_they_are() -> None:
    x = fnp.ones((1 << 10, 1 << 12))
    assert x.T.reshape(-1).shape == (1 << 22,)
    assert fnp.broadcast_to(fnp.arange(4), (1 << 20, 4)).T[0].shape == (1 << 20,)
    assert float(x[3, 5]) == 1.0


@pytest.mark.usefixtures("asked")
def test_operations_of_what_there_is_are_done() -> None:
    for name, operation in EAGER.items():
        assert np.asarray(operation()).size >= 1 << 20, name


def test_what_is_kept_is_given_up_before_a_call_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device = get_device("cpu")
    wanted = buffers.LARGE_ALLOCATION
    asked: list[int] = []

    def free() -> int:
        asked.append(device.allocator.cached)
        return wanted * 4 if device.allocator.cached == 0 else 0

    f = ft.jit(lambda x: fnp.broadcast_to(x, (wanted // 4 + 1,)) + 1.0)
    del_me = ft.jit(lambda x: fnp.sin(x))(fnp.ones(1 << 20))
    del del_me
    assert device.allocator.cached > 0
    monkeypatch.setattr(out_of_memory, "free_memory", free)
    monkeypatch.setattr(buffers, "free_memory", free)
    assert float(f(np.float32(1))[-1]) == 2.0
    assert asked[0] > 0
    assert asked[1] == 0


# Sharing.


def test_numpy_sees_the_memory_of_an_array() -> None:
    x = ft.jit(lambda n: fnp.arange(1000.0) + n)(1.0)
    one, two = np.asarray(x), np.asarray(x)
    assert one.ctypes.data == two.ctypes.data
    assert (
        one.ctypes.data == x.__array_interface__["data"][0]
        if hasattr(x, "__array_interface__")
        else True
    )
    assert one.ctypes.data % 64 == 0


def test_a_donated_argument_gives_its_memory() -> None:
    step = ft.jit(lambda w, g: w - 0.1 * g, donate_argnums=0)
    w, g = fnp.ones(10_000) * 2, fnp.ones(10_000)
    w = step(w, g)
    places = [np.asarray(w).ctypes.data]
    for _ in range(4):
        w = step(w, g)
        places.append(np.asarray(w).ctypes.data)
    assert len(set(places)) == 1
    shown = np.asarray(w)  # memory that a user sees is not overwritten
    new = step(w, g)
    assert np.asarray(new).ctypes.data != shown.ctypes.data
    np.testing.assert_allclose(shown, 1.5, rtol=1e-6)


def test_what_a_program_computes_on_the_way_shares_memory() -> None:
    def chain(x: Any) -> Any:
        for _ in range(10):
            x = fnp.cumsum(x, 0)
            x = fnp.cumsum(x, 1)
        return x

    x = np.ones((300, 300), np.float32)
    program = ft.jit(chain).lower(x).program
    assert program.arena <= 2.5 * x.nbytes
    assert sum(life.nbytes for life in program.lifetimes) >= 15 * x.nbytes
