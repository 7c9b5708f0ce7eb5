"""Kernels that pass over rows: values that they keep, memory that they ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.nn as nn
import ftrace.numpy as fnp
from ftrace.backends.llvm.device import render_kernel
from ftrace.backends.llvm.target import Target, host_target
from ftrace.lower import lower

#: Whose masks of loads and stores cost something.
AVX2 = Target.of("x86_64-unknown-linux-gnu", "x86-64-v3")


def text_of(f: Callable[..., Any], *arrays: Any, target: Target | None = None) -> str:
    kernels = lower(ft.make_graph(f)(*arrays)).program.kernels
    return "\n".join(render_kernel(step.kernel, target).text for step in kernels)


def softmax(x: Any) -> Any:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def centred(x: Any) -> Any:
    y = fnp.tanh(x)
    return y - fnp.mean(y, -1, keepdims=True)


def scaled(x: Any) -> Any:
    y = fnp.exp(x)
    return y / fnp.sum(y, -1, keepdims=True) + fnp.max(y, -1, keepdims=True)


def scaled_numpy(x: Any) -> Any:
    y = np.exp(x)
    return y / y.sum(-1, keepdims=True) + y.max(-1, keepdims=True)


ROWS: dict[str, tuple[Any, Any]] = {
    "softmax": (nn.softmax, softmax),
    "centred": (centred, lambda x: np.tanh(x) - np.tanh(x).mean(-1, keepdims=True)),
    "scaled": (scaled, scaled_numpy),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize(
    "shape",
    [(40, 64), (33, 1000), (700, 300), (5, 10_001), (4097,), (3, 7, 129), (90, 31)],
)
@pytest.mark.parametrize("name", ROWS)
def test_rows_with_kept_values(name: str, shape: tuple[int, ...], dtype: Any) -> None:
    f, reference = ROWS[name]
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    got = np.asarray(ft.jit(f)(x))
    with ft.config(threads=1):
        alone = np.asarray(ft.jit(f)(x))
    np.testing.assert_array_equal(got, alone)
    tolerance = 4e-3 if dtype == np.float16 else 4e-6
    want = reference(x.astype(np.float64))
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def test_special_values_are_kept_as_they_are() -> None:
    x = np.zeros((3, 200), np.float32)
    x[0, 7], x[1, 8], x[2, 9] = np.inf, -np.inf, np.nan
    got = np.asarray(ft.jit(nn.softmax)(x))
    assert np.isnan(got[0]).all()
    assert np.isnan(got[2]).all()
    np.testing.assert_allclose(got[1], np.where(x[1] < 0, 0, 1 / 199), rtol=1e-5)


def test_what_is_dear_and_computed_again_is_kept_and_nothing_else() -> None:
    x, short = np.ones((50, 500), np.float32), np.ones((500, 20), np.float32)
    wide = np.ones((2, 200_000), np.float32)

    def cheap(x: Any) -> Any:
        return x + 1 - fnp.mean(x + 1, -1, keepdims=True)

    assert "%kept" in text_of(nn.softmax, x)
    assert "%kept" in text_of(nn.softmax, short)
    assert "%kept" not in text_of(cheap, x)
    assert "%kept" not in text_of(nn.softmax, wide)
    assert "%kept" not in text_of(lambda x: fnp.sum(fnp.exp(x), -1), x)


def test_rows_are_kept_where_this_costs_less_than_lanes_that_are_rows() -> None:
    def skewness(x: Any) -> Any:
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return fnp.sum(((x - mean) / fnp.sqrt(variance + 1e-5)) ** 3)

    for columns in (9, 15):
        x = np.ones((1000, columns), np.float32)
        text = text_of(ft.grad(skewness), x, target=AVX2)
        assert ("%kept" in text) is (columns == 15)


def test_the_end_of_a_row_is_kept_whole_and_stored_in_pieces() -> None:
    for columns in (31, 32):
        x = np.ones((50, columns), np.float32)
        text = text_of(nn.softmax, x, target=AVX2)
        assert text.count("call <8 x float> @llvm.masked.load") == (columns == 31)
        assert "%kept" in text
        assert "masked.store" not in text
        for lanes in (2, 4):
            assert (f"store <{lanes} x float>" in text) is (columns == 31)


def test_rows_are_asked_for_where_several_passes_are_over_large_arrays() -> None:
    large, small = np.ones((4096, 600), np.float32), np.ones((64, 600), np.float32)
    assert "prefetch" in text_of(nn.softmax, large)
    assert "prefetch" not in text_of(nn.softmax, small)
    assert "prefetch" not in text_of(lambda x: fnp.sum(x, -1), large)
    assert "prefetch" not in text_of(lambda x: fnp.exp(x), large)


def test_a_pass_over_all_of_memory_is_left_to_the_processor() -> None:
    size = host_target().l3 // 4 + (1 << 20)
    x = np.ones(size, np.float32)
    assert "prefetch" not in text_of(fnp.sum, x)
    assert float(ft.jit(fnp.sum)(x)) == size
