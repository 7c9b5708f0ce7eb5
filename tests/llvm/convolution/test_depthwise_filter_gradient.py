"""Depthwise gradients by filters: all taps in one pass, right in any blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ftrace as ft
from ftrace.backends.llvm.contraction.find import product_loop
from ftrace.backends.llvm.convolution.filter_gradient import find_sliding_dots
from ftrace.backends.llvm.schedule.index_facts import facts_of
from ftrace.backends.llvm.schedule.schedule_tree import Schedule
from ftrace.backends.llvm.target import Target, host_target
from ftrace.lower.kernel.ir import Kernel
from ftrace.lower.kernel.loop_tree import place
from tests.llvm.convolution.test_filter_gradient import expected, operands, read_by
from tests.llvm.convolution.test_window_detection import kernel_of, normal, run
from tests.support.convolutions import gradient, strided
from tests.support.covering import covering

Array = np.ndarray[Any, Any]

pytestmark = pytest.mark.usefixtures("private_cache")


def depthwise(
    images: int, channels: int, space: Any, taps: Any, stride: int = 1,
    pad: int = 1, dilation: int = 1,
) -> tuple[Any, ...]:  # fmt: skip
    """A row of `tests/support/convolutions.py`."""
    n = len(space)
    return (
        (images, channels, *space), (channels, 1, *taps), (stride,) * n,
        ((pad, pad),) * n, (dilation,) * n, channels,
    )  # fmt: skip


_CASES = [
    depthwise(3, 5, (28, 28), (3, 3)),
    depthwise(3, 5, (28, 29), (3, 3), 2),
    depthwise(2, 3, (57, 40), (5, 5), 2, 2),
    depthwise(7, 40, (7, 7), (3, 3)),
    depthwise(5, 6, (14, 15), (7, 7), pad=3),
    depthwise(2, 4, (30, 31), (3, 3), pad=2, dilation=2),
    depthwise(2, 4, (40, 41), (3, 5), 3, 0),
    depthwise(3, 3, (21, 23), (4, 3), 2, 3),
    depthwise(3, 4, (1003,), (9,), pad=4),
    depthwise(3, 4, (999,), (5,), 2, 0),
    depthwise(2, 3, (9, 10, 11), (3, 3, 3)),
    depthwise(1, 4, (60, 60), (3, 3)),
]


def by_filters(case: Any) -> Any:
    return gradient(strided(case), 1)


def dots_of(kernel: Kernel, target: Target | None = None) -> Schedule | None:
    loop = product_loop(kernel, place(kernel))
    found = facts_of(kernel), target or host_target()
    return None if loop is None else find_sliding_dots(kernel, loop, *found)


def close(found: Array, wanted: Array, bound: float = 1e-5) -> None:
    """Both in the order of memory."""
    assert found.size == wanted.size
    scale = float(np.abs(wanted).max())
    result: list[float] = found.ravel().tolist()
    np.testing.assert_allclose(result, wanted.ravel(), rtol=0, atol=bound * scale)


@covering(1, case=_CASES, dtype=[np.float32, np.float64])
def test_a_depthwise_gradient_is_what_windows_give(case: Any, dtype: Any) -> None:
    x, y, *arrays = operands(case, False, dtype)
    kernel = kernel_of(by_filters(case), *arrays)
    assert dots_of(kernel) is not None
    used = read_by(kernel, arrays)
    once = run(kernel, used, 1)
    close(once, expected(case, x, y), 1e-5 if dtype is np.float32 else 1e-13)
    np.testing.assert_array_equal(once, run(kernel, used, 5))


@pytest.mark.parametrize("case", _CASES, ids=str)
def test_small_caches_make_small_blocks(case: Any) -> None:
    """Images are cut into blocks, of which the last is shorter."""
    here = host_target()
    x, y, *arrays = operands(case, False)
    kernel = kernel_of(by_filters(case), *arrays)
    used = read_by(kernel, arrays)
    for first in (1 << 10, 4 << 10):
        caches = (first, 64 << 10, 1 << 20)
        small = Target.of(here.triple, here.cpu, here.features, caches, 7)
        assert dots_of(kernel, small) is not None
        close(run(kernel, used, 3, small), expected(case, x, y))


@covering(1, cpu=["x86-64", "x86-64-v3", "x86-64-v4"], case=_CASES)
def test_on_other_processors(cpu: str, case: Any) -> None:
    target, here = Target.of("x86_64-unknown-linux-gnu", cpu), host_target()
    if here.triple[:6] != target.triple[:6] or here.vector_bytes < target.vector_bytes:
        pytest.skip("this processor cannot run it")
    x, y, *arrays = operands(case, False)
    kernel = kernel_of(by_filters(case), *arrays)
    close(run(kernel, read_by(kernel, arrays), 2, target), expected(case, x, y))


def test_other_kernels_have_another_form() -> None:
    """Channels that mix; rows without windows; an image that is too large."""
    mixed = ((4, 3, 28, 28), (3, 3, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1)
    assert dots_of(kernel_of(by_filters(mixed), *operands(mixed, False)[2:])) is None
    a, b = normal(70, 4, 80), normal(70, 80)
    assert dots_of(kernel_of(without_windows, a, b)) is None
    case = _CASES[0]
    kernel = kernel_of(by_filters(case), *operands(case, False)[2:])
    tiny = Target.of("x86_64-unknown-linux-gnu", "x86-64", "", (1024, 2048, 4096), 1)
    assert dots_of(kernel, tiny) is None


def without_windows(a: Any, b: Any) -> Any:
    return (a * b[:, None]).sum(2)


@pytest.mark.parametrize("stride", [1, 2])
def test_infinities_stay_where_they_are(stride: int) -> None:
    """No pixel meets another one than it should, in vectors at the end of a row."""
    case = depthwise(2, 4, (13, 21), (3, 3), stride, 0)
    x, y, _, w, _ = operands(case, False)
    x[0, 0, :, -1], x[0, 1, -1], x[1, 2, 0, 0] = np.inf, -np.inf, np.nan
    with np.errstate(invalid="ignore"):
        wanted = expected(case, x, y)
    assert np.isfinite(wanted[0, 0, :, 0]).all()  # only the last taps see that column
    found = np.asarray(ft.jit(by_filters(case))(x, w, y))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_operands_are_evaluated_as_they_are_fused() -> None:
    """The image after a function, the cotangent scaled, and the result halved."""
    case = _CASES[1]
    x, y, _, w, _ = operands(case, False)

    def program(x: Any, w: Any, y: Any) -> Any:
        scaled = y * ft.numpy.exp(y)
        return by_filters(case)(ft.numpy.tanh(x), w, scaled) / 2 + w

    wanted = expected(case, np.tanh(x), y * np.exp(y)) / 2 + w
    close(np.asarray(ft.jit(program)(x, w, y)), wanted)
