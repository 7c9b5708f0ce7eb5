"""Numbers in kernels that are data: kernels that differ in them alone are one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.backends.llvm import device as device_module
from ftrace.backends.llvm.device import CPU, render_kernel
from ftrace.backends.llvm.kernels.compile_kernels import (
    MOST_NUMBERS,
    MOST_NUMBERS_ALIKE,
    general_kernels,
    without_numbers,
)
from ftrace.backends.llvm.target import Target
from ftrace.lower import lower
from ftrace.lower.kernel.ir import Kernel
from ftrace.trace import tiering
from ftrace.trace.primitives.sources import const_p
from ftrace.transforms.jit.compiled_graph import compile_graph


def kernels_of(function: Callable[..., Any], *arguments: Any) -> list[Kernel]:
    program = ft.jit(function).lower(*arguments).program
    return [step.kernel for step in program.kernels]


def general(function: Callable[..., Any], *arguments: Any) -> tuple[Kernel, Any]:
    (kernel,) = kernels_of(function, *arguments)
    return without_numbers(kernel)


X = np.linspace(-3, 3, 21, dtype=np.float32)


def step(a: float, b: float) -> Any:
    def run(x: Any) -> Any:
        return fnp.tanh(x * a) + fnp.where(x > b, x, b) / a

    return run


def test_kernels_that_differ_in_numbers_are_one() -> None:
    first, numbers = general(step(0.3, 0.7), X)
    second, others = general(step(-1.9, 1e-30), X)
    assert first == second
    np.testing.assert_array_equal(numbers, np.float32([0.3, 0.7]))
    np.testing.assert_array_equal(others, np.float32([-1.9, 1e-30]))
    assert len(first.buffers) == 3
    assert not first.buffers[2].written


@pytest.mark.parametrize(
    "number", [0.0, -0.0, 1.0, -1.0, 0.5, 2.0**-40, np.inf, np.nan]
)
def test_numbers_that_decide_how_code_is_written_stay(number: float) -> None:
    kernel, numbers = general(lambda x: x * 3 + x / number, X)
    assert numbers is None or list(numbers) == [3.0]
    alone, none = general(lambda x: fnp.maximum(x, number), X)
    assert none is None
    assert kernel != alone


def test_only_one_dtype_is_loaded() -> None:
    def mixed(x: Any) -> Any:
        return (x * 0.3 + 0.7).astype(np.float64) * np.float64(0.1)

    kernel, numbers = general(mixed, X)
    assert numbers is not None
    assert len(numbers) + len([n for n in kernel.nodes if n.op is const_p]) >= 3
    check(mixed, X)


def test_kernels_of_many_numbers_keep_them() -> None:
    def terms(count: int) -> Any:
        def run(x: Any) -> Any:
            for k in range(count):
                x = x * fnp.float32(1 / (k + 3.5))
                x = fnp.abs(x)
            return x

        return run

    assert general(terms(MOST_NUMBERS), X)[1] is not None
    kernel = general(terms(MOST_NUMBERS + 1), X)
    assert kernel == (kernels_of(terms(MOST_NUMBERS + 1), X)[0], None)


def in_parts(*rows: list[float]) -> Callable[..., Any]:
    """Kernels of one form, one after the other: sums of products by these numbers."""

    def run(x: Any) -> Any:
        for row in rows:
            for number in row:
                x = x * fnp.float32(number) + fnp.float32(number + 0.3)
            x = ft.lax.optimization_barrier(x)
        return x

    return run


def codes_of(function: Callable[..., Any]) -> list[tuple[Kernel, Any]]:
    return list(general_kernels(kernels_of(function, X)).values())


def test_kernels_of_a_program_that_are_alike_are_one_with_many_numbers_too() -> None:
    many = [0.7 + k / 64 for k in range(MOST_NUMBERS)]
    # 2 is not plain, beside others it is a number like them.
    alike = in_parts(many, [3 * number for number in many], [2.0, *many[1:]])
    (first, numbers), *others = codes_of(alike)
    assert {kernel for kernel, _ in others} == {first}
    assert len(numbers) == 2 * MOST_NUMBERS
    assert {tuple(own) for _, own in others} != {tuple(numbers)}
    check(alike, X)
    zero = in_parts(many, [-0.3, *many[1:]])  # -0.3 + 0.3: what adds 0 is another one
    assert len({kernel for kernel, _ in codes_of(zero)}) == 2
    check(zero, X)
    more = [0.7 + k / 64 for k in range(MOST_NUMBERS_ALIKE)]
    assert all(own is None for _, own in codes_of(in_parts(more, more[::-1])))


def test_the_source_of_kernels_from_disk_is_that_of_their_code(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiering, "STORED_NODES", 0)
    many = [0.7 + k / 64 for k in range(MOST_NUMBERS)]
    graph = ft.make_graph(in_parts(many, [3 * number for number in many]))(X)
    texts: list[list[str]] = []
    with ft.config(cache_dir=str(tmp_path)):
        for compiled in (0, 1):
            ft.clear_caches()
            device = CPU()
            executable = compile_graph(graph, device).executable
            assert device.counters.kernels_compiled == 1 - compiled
            texts.append(list(executable.texts()))
    assert texts[0] == texts[1]


def test_reduces_and_indices_keep_theirs() -> None:
    assert general(lambda x: fnp.sum(x * 0.3), X)[1] is None
    kernel, numbers = general(lambda x: x[3:9], X)
    assert numbers is None
    assert kernel == kernels_of(lambda x: x[3:9], X)[0]
    assert general(lambda x: fnp.full(9, 0.3) + fnp.float32(0), X)[1] is None


def check(function: Callable[..., Any], *arguments: Any) -> None:
    want = ft.jit(function).lower(*arguments)
    program = want.program
    with ft.default_device("interpreter"):
        expected = np.asarray(ft.jit(function)(*arguments))
    device = CPU()
    (out,) = device.compile(program)([device.copy_in(a) for a in arguments])
    found = device.copy_out(out, expected.dtype, expected.size)
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-5)


@pytest.mark.parametrize("size", [0, 1, 3, 16, 100])
def test_results_are_those_of_each_kernel(size: int) -> None:
    x = np.linspace(-3, 3, size, dtype=np.float32)
    for a, b in ((0.3, 0.7), (-1.9, 1e-30), (3.0, -0.7)):
        found = ft.jit(step(a, b))(x)
        a32, b32 = np.float32(a), np.float32(b)
        want = np.tanh(x * a32) + np.where(x > b32, x, b32) / a32
        np.testing.assert_allclose(found, want, rtol=1e-6, atol=1e-6)


def test_results_in_loops_branches_and_turned_kernels() -> None:
    def loop(x: Any) -> Any:
        return ft.lax.fori_loop(0, 5, lambda i, c: fnp.sin(c) * 0.3 + 0.7, x)

    def branch(x: Any) -> Any:
        return ft.lax.cond(x[0] > 0, lambda c: c * 0.3, lambda c: c * 0.7, x)

    check(loop, np.ones(300, np.float32))
    check(branch, X)
    check(lambda x: x.T * 0.3 + x * 0.7, np.ones((40, 40), np.float32))


def test_another_number_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    device, count = CPU(), 0

    def counted(kernel: Kernel, target: Target | None = None) -> Any:
        nonlocal count
        count += 1
        return render_kernel(kernel, target)

    monkeypatch.setattr(device_module, "render_kernel", counted)
    results: list[Any] = []

    def descent(rate: float) -> Callable[..., Any]:
        return lambda x, g: x - rate * g

    with ft.config(cache_size=0):
        for rate in (0.1, 0.2, 0.3):
            program = lower(ft.make_graph(descent(rate))(X, X)).program
            (out,) = device.compile(program)([device.copy_in(X)] * 2)
            results.append(device.copy_out(out, X.dtype, X.size).copy())
    assert count == 1
    for rate, found in zip((0.1, 0.2, 0.3), results, strict=True):
        np.testing.assert_allclose(found, X - np.float32(rate) * X, rtol=1e-5)
