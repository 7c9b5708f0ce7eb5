"""Convolutions of few output channels: vectors run along what is summed over."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import ftrace as ft
from ftrace.backends.llvm.contraction.strategies import schedule_dots
from ftrace.backends.llvm.schedule.schedule_tree import Schedule
from ftrace.backends.llvm.target import Target, host_target
from tests.backends.llvm.convolution.test_filter_gradient import operands
from tests.backends.llvm.convolution.test_window_detection import normal, run
from tests.support.convolutions import spread, strided
from tests.support.run_llvm_kernel import kernel_of, plan_of

Array = np.ndarray[Any, Any]

pytestmark = pytest.mark.usefixtures("private_cache")

_WIDE = replace(host_target(), vector_bytes=64, registers=32, l1=48 << 10)
_CPUS = ["x86-64", "x86-64-v3", "x86-64-v4"]


def mixed(
    images: int, channels: int, filters: int, space: Any, taps: Any, stride: int = 1,
    pad: int = 1, dilation: int = 1,
) -> tuple[Any, ...]:  # fmt: skip
    """A row of `tests/support/convolutions.py` without groups."""
    n = len(space)
    return (
        (images, channels, *space), (filters, channels, *taps), (stride,) * n,
        ((pad, pad),) * n, (dilation,) * n, 1,
    )  # fmt: skip


def processor(cpu: str) -> Target:
    target, here = Target.of("x86_64-unknown-linux-gnu", cpu), host_target()
    if here.triple[:6] != target.triple[:6] or here.vector_bytes < target.vector_bytes:
        pytest.skip("this processor cannot run it")
    return target


_LAST = [
    mixed(2, 16, 3, (20, 21), (3, 3)),
    mixed(1, 48, 2, (19, 33), (1, 5), 1, 2),
    mixed(2, 32, 3, (40, 37), (3, 3), 2),
    mixed(2, 32, 4, (20, 24), (3, 3), 1, 3, 3),
    mixed(3, 16, 3, (70,), (7,), 1, 3),
    mixed(1, 16, 2, (6, 7, 17), (3, 3, 3)),
]


def close(found: Any, wanted: Any, bound: float = 1e-5) -> None:
    found = np.asarray(found).reshape(np.shape(wanted))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=bound * np.abs(wanted).max())


def few_columns(function: Any, arrays: Any, target: Target = _WIDE) -> Schedule | None:
    kernel = kernel_of(function, *arrays)
    return next(schedule_dots(kernel, *plan_of(kernel), target), None)


def last_operands(case: Any, dtype: Any = np.float32) -> tuple[Array, ...]:
    """The image and the filters, with channels first, and last."""
    x, _, image, filters, _ = operands(case, True, dtype)
    return x, normal(*case[1], seed=1, dtype=dtype), image, filters


def in_float64(case: Any, x: Array, w: Array) -> Array:
    """By sliding windows, with channels last."""
    _, _, strides, pads, dilation, _ = case
    space = tuple(range(2, x.ndim))
    padded: Any = np.pad(x.astype(np.float64), ((0, 0), (0, 0), *pads))
    reach = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilation, strict=True)]
    seen: Any = np.lib.stride_tricks.sliding_window_view(padded, reach, space)
    seen = seen[(slice(None),) * 2 + tuple(slice(None, None, s) for s in strides)]
    seen = seen[(slice(None),) * x.ndim + tuple(slice(None, None, d) for d in dilation)]
    summed = (1, *range(x.ndim, seen.ndim))
    return np.tensordot(seen, w.astype(np.float64), (summed, tuple(range(1, w.ndim))))


@pytest.mark.parametrize("case", _LAST, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_few_output_channels_side_by_side(case: Any, dtype: Any) -> None:
    x, w, *arrays = last_operands(case, dtype)
    assert few_columns(strided(case, True), arrays) is not None
    kernel = kernel_of(strided(case, True), *arrays)
    once = run(kernel, arrays, 1)
    bound = 1e-5 if dtype is np.float32 else 1e-13
    close(once, in_float64(case, x, w), bound)
    np.testing.assert_array_equal(once, run(kernel, arrays, 5))


@pytest.mark.parametrize("cpu", _CPUS)
@pytest.mark.parametrize("case", _LAST, ids=str)
def test_few_output_channels_on_other_processors(cpu: str, case: Any) -> None:
    x, w, *arrays = last_operands(case)
    kernel = kernel_of(strided(case, True), *arrays)
    close(run(kernel, arrays, 2, processor(cpu)), in_float64(case, x, w))


@pytest.mark.parametrize("turned", [False, True])
def test_products_of_few_columns(turned: bool) -> None:
    a, b = normal(333, 777), normal(777, 3, seed=1)

    def product(a: Any, b: Any) -> Any:
        return ft.nn.gelu(a @ (b.T if turned else b) + 1)

    arrays = a, np.ascontiguousarray(b.T) if turned else b
    assert few_columns(product, arrays) is not None
    found = np.asarray(ft.jit(product)(*arrays))
    with ft.config(device="interpreter"):
        close(found, ft.jit(product)(*arrays))
    with ft.set_threads(1):
        np.testing.assert_array_equal(found, ft.jit(product)(*arrays))


def test_other_convolutions_have_vectors_of_channels() -> None:
    """Many output channels; input channels that fill no vector."""
    many, ragged = mixed(2, 16, 16, (20, 20), (3, 3)), mixed(2, 24, 3, (20, 20), (3, 3))
    assert few_columns(strided(many, True), last_operands(many)[2:]) is None
    assert few_columns(strided(ragged, True), last_operands(ragged)[2:]) is None


def test_borders_of_infinite_images() -> None:
    """What is outside of an image is not read: it is zero."""
    case = mixed(1, 16, 3, (20, 20), (3, 3))
    x, w, image, filters = last_operands(case)
    image[0, 0, 0, 3] = x[0, 3, 0, 0] = np.inf
    found = np.asarray(ft.jit(strided(case, True))(image, filters))
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(found, in_float64(case, x, w), rtol=1e-4, atol=1e-4)
    assert np.isfinite(found[0, 2:, 2:]).all()
    assert np.isinf(found[0, 0, 0]).all()


def test_few_output_channels_of_a_spread_image() -> None:
    case = mixed(2, 16, 3, (17, 16), (4, 4), 2, 2)
    x, w, image, filters = last_operands(case)
    wide = np.zeros((2, 16, 33, 31), np.float32)
    wide[:, :, ::2, ::2] = x
    found = np.asarray(ft.jit(spread(case, True))(image, filters))
    dense = mixed(2, 16, 3, (33, 31), (4, 4), 1, 2)
    close(found, in_float64(dense, wide, w))
