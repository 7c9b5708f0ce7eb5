"""Gradients by filters: the sums are right, in any blocks and for any pieces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import ftrace as ft
from ftrace.backends.llvm.convolution.strategies import schedule_filter_gradient
from ftrace.backends.llvm.schedule.schedule_tree import Schedule
from ftrace.backends.llvm.target import Target, host_target
from ftrace.lower.kernel.ir import Kernel
from tests.backends.llvm.convolution.test_window_detection import normal, run
from tests.support.convolutions import gradient, strided
from tests.support.covering import covering
from tests.support.run_llvm_kernel import kernel_of, plan_of

Array = np.ndarray[Any, Any]

# Images, filters, strides, padding, dilation, groups.
_CASES: list[tuple[Any, ...]] = [
    ((2, 8, 14, 14), (16, 8, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    ((1, 5, 17, 13), (9, 5, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    ((2, 6, 40, 37), (9, 6, 5, 4), (1, 1), ((2, 2), (0, 3)), (1, 1), 1),
    ((2, 8, 28, 28), (72, 8, 3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1), 1),
    ((1, 3, 64, 64), (8, 3, 7, 7), (2, 2), ((3, 3), (3, 3)), (1, 1), 1),
    ((1, 3, 61, 61), (24, 3, 11, 11), (4, 4), ((0, 0), (2, 2)), (1, 1), 1),
    ((2, 8, 28, 28), (8, 8, 3, 3), (1, 1), ((2, 2), (2, 2)), (2, 2), 1),
    ((2, 8, 40, 40), (8, 8, 5, 3), (3, 1), ((4, 4), (0, 0)), (1, 3), 1),
    ((2, 16, 28, 28), (40, 4, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 4),
    ((7, 34, 9, 9), (150, 34, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    ((2, 1, 28, 28), (32, 1, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    ((2, 6, 30, 31), (16, 6, 5, 3), (3, 3), ((2, 2), (1, 1)), (1, 1), 1),
    ((3, 3, 28, 28), (16, 3, 3, 2), (2, 2), ((1, 1), (0, 0)), (1, 1), 1),
    ((2, 32, 28, 28), (32, 4, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 8),
    ((3, 6, 1000), (10, 6, 5), (1,), ((0, 0),), (1,), 1),
    ((3, 1, 4003), (64, 1, 80), (4,), ((0, 0),), (1,), 1),
    ((3, 6, 1003), (10, 6, 5), (2,), ((2, 2),), (1,), 1),
    ((1, 4, 10, 12, 9), (8, 4, 3, 3, 3), (1, 1, 1), ((1, 1),) * 3, (1, 1, 1), 1),
]


def by_filters(case: Any, last: bool) -> Any:
    return gradient(strided(case, last), 1)


def one_kernel(case: Any, last: bool, arrays: Sequence[Array]) -> Kernel:
    """The gradient, not added up in parts."""
    with ft.config(disabled_rules={"split_filter_gradients"}):
        return kernel_of(by_filters(case, last), *arrays)


def expected(case: Any, x: Array, y: Array) -> Array:
    """By sliding windows, in float64."""
    _, filters, strides, pads, dilation, groups = case
    space = tuple(range(2, x.ndim))
    padded: Any = np.pad(x.astype(np.float64), ((0, 0), (0, 0), *pads))
    reach = [(k - 1) * d + 1 for k, d in zip(filters[2:], dilation, strict=True)]
    seen: Any = np.lib.stride_tricks.sliding_window_view(padded, reach, space)
    seen = seen[(slice(None),) * 2 + tuple(slice(None, None, s) for s in strides)]
    dilated = tuple(slice(None, None, d) for d in dilation)
    seen = seen[(slice(None),) * x.ndim + dilated]
    n, c, *rest = seen.shape
    seen = seen.reshape(n, groups, c // groups, *rest)
    result: Any = y.astype(np.float64)
    result = result.reshape(n, groups, -1, *y.shape[2:])
    p, k = "xyz"[: len(space)], "uvw"[: len(space)]
    found: Any = np.einsum(f"ngc{p}{k},ngo{p}->goc{k}", seen, result, optimize=True)
    return found.reshape(filters)


def operands(case: Any, last: bool, dtype: Any = np.float32) -> tuple[Array, ...]:
    """The image, filters, and what comes back; as they are, and in their layout."""
    x, w = normal(*case[0], dtype=dtype), normal(*case[1], seed=1, dtype=dtype)
    shape = ft.eval_shape(strided(case), x, w).shape
    y = normal(*shape, seed=2, dtype=dtype)
    if not last:
        return x, y, x, w, y
    moved = [np.ascontiguousarray(np.moveaxis(a, 1, -1)) for a in (x, y)]
    w = np.ascontiguousarray(np.moveaxis(w, (0, 1), (-1, -2)))
    return x, y, moved[0], w, moved[1]


def read_by(kernel: Kernel, arrays: Sequence[Array]) -> list[Array]:
    """What comes back and the image, in the kernel's order: it reads no filters."""
    image, _, back = arrays
    in_order = kernel.buffers[1].size == back.size
    return [back, image] if in_order else [image, back]


def sum_of(kernel: Kernel, target: Target | None = None) -> Schedule | None:
    plan, facts = plan_of(kernel)
    return next(
        schedule_filter_gradient(kernel, plan, facts, target or host_target()), None
    )


def in_order(found: Any, case: Any, last: bool) -> Array:
    if not last:
        return found.reshape(case[1])
    out, into, *space = case[1]
    return np.moveaxis(found.reshape(*space, into, out), (-1, -2), (0, 1))


@covering(1, case=_CASES, last=[False, True], dtype=[np.float32, np.float64])
def test_a_gradient_by_filters_is_what_windows_give(
    case: Any, last: bool, dtype: Any
) -> None:
    x, y, *arrays = operands(case, last, dtype)
    kernel = one_kernel(case, last, arrays)
    used = read_by(kernel, arrays)
    wanted = expected(case, x, y)
    bound = (1e-5 if dtype is np.float32 else 1e-13) * np.abs(wanted).max()
    once = run(kernel, used, 1)
    np.testing.assert_allclose(in_order(once, case, last), wanted, rtol=0, atol=bound)
    np.testing.assert_array_equal(once, run(kernel, used, 5))


@covering(1, case=_CASES, last=[False, True])
def test_small_caches_make_small_blocks(case: Any, last: bool) -> None:
    small = Target.of(
        host_target().triple, host_target().cpu, host_target().features,
        caches=(4 << 10, 32 << 10, 1 << 20), cores=7,
    )  # fmt: skip
    x, y, *arrays = operands(case, last)
    kernel = one_kernel(case, last, arrays)
    used = read_by(kernel, arrays)
    wanted = expected(case, x, y)
    found = in_order(run(kernel, used, 3, small), case, last)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("case", [_CASES[0], _CASES[3], _CASES[9]], ids=str)
def test_gradients_by_filters_slide(case: Any, last: bool) -> None:
    arrays = operands(case, last)[2:]
    assert sum_of(one_kernel(case, last, arrays)) is not None


def test_other_contractions_do_not() -> None:
    """A convolution; a product; windows without overlap; too few columns."""
    case = ((2, 8, 14, 14), (16, 8, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1)
    x, w = normal(*case[0]), normal(*case[1], seed=1)
    assert sum_of(kernel_of(strided(case), x, w)) is None
    a, b = normal(70, 80), normal(80, 90)
    assert sum_of(kernel_of(ft.numpy.matmul, a, b)) is None
    for images, filters, stride in (
        ((2, 8, 32, 32), (16, 8, 4, 4), 4),
        ((8, 8, 32, 32), (3, 8, 3, 3), 1),
    ):
        case = (images, filters, (stride,) * 2, ((0, 0),) * 2, (1, 1), 1)
        arrays = operands(case, False)[2:]
        wide = Target.of("x86_64-unknown-linux-gnu", "x86-64-v4")
        assert sum_of(one_kernel(case, False, arrays), wide) is None


_TARGETS = [
    Target.of("x86_64-unknown-linux-gnu", "x86-64"),
    Target.of("x86_64-unknown-linux-gnu", "x86-64-v3"),
    Target.of("x86_64-unknown-linux-gnu", "x86-64-v4"),
]


@covering(1, target=_TARGETS, last=[False, True], case=_CASES[::4])
def test_on_other_processors(target: Target, case: Any, last: bool) -> None:
    here = host_target()
    if here.triple[:6] != target.triple[:6] or here.vector_bytes < target.vector_bytes:
        pytest.skip("this processor cannot run it")
    x, y, *arrays = operands(case, last)
    kernel = one_kernel(case, last, arrays)
    used = read_by(kernel, arrays)
    wanted = expected(case, x, y)
    found = in_order(run(kernel, used, 2, target), case, last)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


def test_infinities_stay_where_they_are() -> None:
    """Padding multiplies nothing: neither with infinity nor with NaN."""
    case = ((1, 8, 20, 20), (16, 8, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1)
    x, y, *arrays = operands(case, False)
    x[0, 3, 7, 7] = np.inf
    x[0, 4, 12, 12] = np.nan
    wanted = expected(case, x, y)
    found = np.asarray(ft.jit(by_filters(case, False))(x, arrays[1], y))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
