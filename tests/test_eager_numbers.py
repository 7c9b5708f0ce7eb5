"""Eager calls that are given other numbers each time, and functions that NumPy lacks.

A call that is repeated gives the bits of the first of its kind.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax, random
from ftrace.devices.base import get_device
from ftrace.devices.llvm.calling import fronts
from ftrace.errors import DtypeOverflowError
from ftrace.trace.eager import Eager
from ftrace.trace.lacking import kernel_of
from ftrace.trace.primitives import elementwise as p

CALLS = fronts.CALLS_BEFORE + 3


@pytest.fixture(autouse=True)
def cpu() -> Iterator[None]:
    with ft.config(device="cpu"):
        get_device("cpu").make_native()
        yield


def native() -> Any:
    found = vars(get_device("cpu"))["_native"]
    if found is None:
        pytest.skip("no native calls")
    return found


@pytest.mark.parametrize("x64", [False, None, True])
def test_seeds_that_change_give_the_keys_of_a_program(x64: Any) -> None:
    seeds = [*range(CALLS), -1, -7, 1 << 31, (1 << 32) + 5, -(1 << 40), (1 << 64) - 1]
    with ft.config(enable_x64=x64):
        for seed in seeds:
            expected = ft.jit(lambda: random.PRNGKey(seed))()  # noqa: B023
            np.testing.assert_array_equal(random.PRNGKey(seed), expected)
            np.testing.assert_array_equal(random.key(seed), expected)
        with pytest.raises(DtypeOverflowError, match="64 bits"):
            random.PRNGKey(1 << 64)


def test_numbers_that_change_are_folded_in_as_in_a_program() -> None:
    key = random.key(3)
    fold = ft.jit(random.fold_in)
    for number in [*range(CALLS), 1 << 16, (1 << 32) - 1]:
        expected = fold(key, np.uint32(number))
        np.testing.assert_array_equal(random.fold_in(key, number), expected)
    for wrong in (-1, 1 << 32):
        with pytest.raises(DtypeOverflowError, match="32 bits"):
            random.fold_in(key, wrong)


def test_equal_integers_are_one_argument_whichever_objects_they_are() -> None:
    records = native().records
    x = fnp.arange(2000)
    first = fnp.roll(x, int("1234"))
    for _ in range(CALLS):
        fnp.roll(x, int("1234"))
    count = len(records)
    for _ in range(2 * CALLS):
        np.testing.assert_array_equal(fnp.roll(x, int("1234")), first)
    assert len(records) == count


def test_integers_that_change_make_no_records() -> None:
    records = native().records
    x = fnp.arange(2000)
    fnp.roll(x, 1000)
    count = len(records)
    for number in range(1000, 1000 + 20 * CALLS):
        assert np.asarray(fnp.roll(x, number))[number] == 0
    assert len(records) <= count + 3


@pytest.mark.parametrize("big", [1 << 54, (1 << 55) + 1, -(1 << 63)])
def test_large_integers_are_told_apart(big: int) -> None:
    x = fnp.arange(5)
    for number in (big, big + 1) * CALLS:
        expected = np.roll(np.arange(5), number % 5)
        np.testing.assert_array_equal(fnp.roll(x, number), expected)


FUNCTIONS = [lax.erf, lax.erfc, lax.lgamma, lax.digamma]
SHAPES = [(), (1,), (0,), (63,), (64,), (65,), (3, 50), (1024,), (1500,)]


def sample(shape: tuple[int, ...], dtype: Any) -> Any:
    draw = np.random.default_rng(0)
    x = draw.normal(size=shape) * draw.choice([0.1, 1, 4, 30], shape)
    edges = [0.0, -0.0, np.nan, np.inf, -np.inf, -1.0, 1.0, 2.0, -2.5, 6e4, 1e-7]
    return np.where(draw.random(shape) < 0.3, draw.choice(edges, shape), x).astype(
        dtype
    )


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_what_numpy_lacks_is_what_programs_compute(
    function: Any, dtype: Any, shape: tuple[int, ...]
) -> None:
    with ft.config(enable_x64=True):
        x = sample(shape, dtype)
        expected = np.asarray(ft.jit(function)(x))
        a = fnp.asarray(x)
        for _ in range(CALLS):
            found = np.asarray(function(a))
            assert (found.dtype, found.shape) == (expected.dtype, shape)
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_numpy_lacks_is_part_of_chains(dtype: Any) -> None:
    def gelu(x: Any, scale: Any) -> Any:
        return 0.5 * x * (1 + lax.erf(x * scale)) + lax.erfc(scale)

    eager = Eager(gelu, True, __name__)
    with ft.config(enable_x64=True):
        x, scale = fnp.asarray(sample((100,), dtype)), fnp.asarray(dtype(0.7))
        with ft.config(native_calls=False):
            expected = np.asarray(gelu(x, scale))
        for _ in range(CALLS):
            np.testing.assert_array_equal(eager(x, scale), expected)


def test_what_numpy_lacks_needs_no_compiler() -> None:
    x = fnp.asarray(sample((40,), np.float32))
    with ft.config(disable_jit=True):
        found = np.asarray(lax.erf(x))
    exact = [math.erf(v) for v in np.asarray(x, np.float64)]
    np.testing.assert_array_equal(found, np.array(exact, np.float32))


@pytest.mark.parametrize("step", [0, 1])
def test_a_loop_of_blocks_writes_its_elements_alone(step: int) -> None:
    native()
    kernel = kernel_of(p.erf, np.dtype(np.float32))
    assert kernel is not None
    assert kernel.address()
    pointer = ctypes.c_void_p
    loop = ctypes.CFUNCTYPE(
        None, pointer, *[pointer, ctypes.c_int64] * 3, ctypes.c_int64
    )(kernel.address())
    for count in (0, 1, 63, 64, 65, 200):
        x = np.linspace(-3, 3, max(count, 16), dtype=np.float32)
        out = np.full(count + 2, 7, np.float32)
        start = x.ctypes.data
        loop(out[1:].ctypes.data, start, step, start, 0, start, 0, count)
        assert out[0] == out[-1] == 7
        expected = np.asarray(ft.jit(lax.erf)(x))
        whole = expected[:count] if step else np.repeat(expected[:1], count)
        np.testing.assert_array_equal(out[1:-1], whole)


def test_memory_of_results_that_were_read_is_used_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    native()
    memory = get_device("cpu").memory
    total, double = ft.jit(lambda x: x.sum()), ft.jit(lambda x: x * 2)
    x = np.arange(100, dtype=np.float32)

    def use() -> None:
        assert float(total(x)) == 4950
        np.asarray(double(x))
        assert fnp.sin(double(x)).shape == (100,)

    for _ in range(2 * CALLS):
        use()
    obtained: list[int] = []
    obtain = memory.obtain
    monkeypatch.setattr(
        memory, "obtain", lambda size: obtained.append(size) or obtain(size)
    )
    kept = [np.asarray(double(x)) for _ in range(3)]
    for _ in range(10):
        use()
    assert not obtained
    assert all((view == 2 * x).all() and not view.flags.writeable for view in kept)
