"""Gradients by few filters: sums over blocks of images, for any number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ftrace as ft
from tests.support.covering import covering

Array = np.ndarray[Any, Any]
RULE = "split_filter_gradients"


def normal(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def by_filters(x: Any, w: Any, y: Any, last: bool, groups: int, stride: int) -> Any:
    numbers = ("NHWC", "HWIO", "NHWC") if last else None

    def forward(w: Any) -> Any:
        return ft.lax.conv_general_dilated(
            x, w, (stride, stride), "SAME", dimension_numbers=numbers,
            feature_group_count=groups,
        )  # fmt: skip

    return ft.vjp(forward, w)[1](y)[0]


# Images, channels, filters, pixels, taps, stride, groups.
_CASES = [
    (24, 1, 32, 40, 3, 1, 1),
    (6, 3, 48, 64, 7, 2, 1),
    (8, 32, 32, 66, 3, 1, 32),
    (7, 16, 16, 60, 3, 1, 4),
]


def operands(case: Any, last: bool, dtype: Any = np.float32) -> tuple[Array, ...]:
    n, c, o, size, taps, stride, groups = case
    x, w = normal(n, c, size, size, dtype=dtype), normal(o, c // groups, taps, taps)
    y = normal(n, o, -(-size // stride), -(-size // stride), seed=2, dtype=dtype)
    w = w.astype(dtype)
    if not last:
        return x, w, y
    x, y = (np.ascontiguousarray(np.moveaxis(a, 1, -1)) for a in (x, y))
    return x, np.ascontiguousarray(np.moveaxis(w, (0, 1), (-1, -2))), y


def program_of(case: Any, last: bool) -> Any:
    *_, stride, groups = case

    def program(x: Any, w: Any, y: Any) -> Any:
        return by_filters(x, w, y, last, groups, stride)

    return program


@covering(1, case=_CASES, last=[False, True])
def test_sums_in_parts_are_the_sums(case: Any, last: bool) -> None:
    arrays, program = operands(case, last), program_of(case, last)
    found = np.asarray(ft.jit(program)(*arrays))
    with ft.config(device="interpreter"):
        wanted = np.asarray(ft.jit(program)(*(a.astype(np.float64) for a in arrays)))
    bound = 2e-6 * float(np.abs(wanted).max())
    np.testing.assert_allclose(found, wanted, rtol=0, atol=bound)
    for threads in (1, 2, 5):
        with ft.set_threads(threads):
            np.testing.assert_array_equal(ft.jit(program)(*arrays), found)
    with ft.config(disabled_rules={RULE}):
        whole = np.asarray(ft.jit(program)(*arrays))
    np.testing.assert_allclose(whole, wanted, rtol=0, atol=bound)


def kernels(case: Any, last: bool = False) -> int:
    return len(ft.jit(program_of(case, last)).lower(*operands(case, last)).kernels)


@pytest.mark.parametrize("last", [False, True])
def test_parts_are_a_kernel_and_their_sum_another(last: bool) -> None:
    assert kernels(_CASES[0], last) == 2
    with ft.config(disabled_rules={RULE}):
        assert kernels(_CASES[0], last) == 1


@pytest.mark.parametrize(
    "case",
    [
        (24, 1, 8, 20, 3, 1, 1),  # few products
        (16, 64, 64, 14, 3, 1, 1),  # many filters
        (11, 2, 16, 64, 3, 1, 1),  # 11 images are not so many blocks
        (64, 16, 64, 32, 1, 1, 1),  # no window
    ],
    ids=str,
)
def test_other_sums_are_whole(case: Any) -> None:
    assert kernels(case) == 1


def test_what_is_not_a_number_stays_in_its_filter() -> None:
    case = _CASES[0]
    x, w, y = operands(case, False)
    y[3, 5, 7, 9] = np.nan
    found = np.asarray(ft.jit(program_of(case, False))(x, w, y))
    assert np.isnan(found[5]).all()
    assert np.isnan(found).sum() == 9
