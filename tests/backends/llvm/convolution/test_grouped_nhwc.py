"""Grouped convolutions with channels last: vectors hold several groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ftrace as ft
from ftrace.backends.llvm.convolution.find import with_groups
from ftrace.backends.llvm.target import Target
from tests.support.convolutions import FORMS, check_form, form, normal, strided
from tests.support.covering import covering
from tests.support.run_llvm_kernel import kernel_of, plan_of

Array = np.ndarray[Any, Any]

#: Places are few where they fill no vector: the vectors are those of one processor.
WIDE = Target.of("x86_64-unknown-linux-gnu", "x86-64-v4")

# Images, filters (of all output channels), strides, padding, dilation, groups.
_CASES: list[tuple[Any, ...]] = [
    ((2, 9, 11, 32), (3, 3, 4, 32), (1, 1), ((1, 1), (1, 1)), (1, 1), 8),
    ((2, 9, 11, 28), (3, 3, 4, 14), (1, 1), ((1, 1), (1, 1)), (1, 1), 7),
    ((2, 9, 11, 40), (3, 2, 5, 48), (1, 1), ((1, 1), (0, 1)), (1, 1), 8),
    ((2, 12, 11, 32), (3, 3, 2, 64), (2, 2), ((1, 1), (1, 1)), (1, 1), 16),
    ((2, 12, 13, 64), (3, 3, 8, 16), (1, 1), ((2, 2), (2, 2)), (2, 2), 8),
    ((1, 15, 14, 36), (5, 3, 2, 36), (3, 2), ((2, 2), (1, 1)), (1, 1), 18),
    ((2, 14, 15, 32), (5, 2, 4, 32), (2, 2), ((2, 2), (0, 0)), (1, 1), 8),
    ((2, 16, 13, 48), (3, 3, 6, 8), (1, 1), ((1, 1), (1, 1)), (1, 1), 8),
    ((3, 9, 12, 24), (3, 3, 1, 48), (1, 1), ((1, 1), (1, 1)), (1, 1), 24),
    ((2, 40, 32), (3, 4, 32), (1,), ((1, 1),), (1,), 8),
    ((1, 6, 7, 8, 32), (2, 3, 3, 2, 32), (1, 1, 1), ((1, 1),) * 3, (1, 1, 1), 16),
]


def convolution(case: Any) -> Any:
    return strided(case, last=True)


@covering(1, case=_CASES, name=FORMS, dtype=[np.float32, np.float32, np.float64])
def test_results_are_those_of_the_interpreter(case: Any, name: str, dtype: Any) -> None:
    function = convolution(case)
    check_form(case, function, form(function, name), dtype)


def groups_of(function: Any, *arrays: Array) -> Any:
    kernel = kernel_of(function, *arrays, target=WIDE)
    return with_groups(kernel, *plan_of(kernel), 16)


def test_groups_of_few_places_are_found() -> None:
    case = _CASES[0]
    x, w = normal(*case[0], dtype=np.float32), normal(*case[1], dtype=np.float32)
    plan = groups_of(convolution(case), x, w)
    assert len(plan.columns) == 2


@pytest.mark.parametrize("groups", [1, 2])
def test_groups_of_many_places_are_not(groups: int) -> None:
    x = normal(2, 9, 11, 64, dtype=np.float32)
    w = normal(3, 3, 64 // groups, 64, dtype=np.float32)
    case = (x.shape, w.shape, (1, 1), ((1, 1), (1, 1)), (1, 1), groups)
    assert groups_of(convolution(case), x, w) is None


def test_groups_that_lie_apart_are_not() -> None:
    x, w = normal(2, 32, 9, 11, dtype=np.float32), normal(32, 4, 3, 3, dtype=np.float32)

    def first(x: Any, w: Any) -> Any:
        return ft.lax.conv_general_dilated(x, w, (1, 1), "SAME", feature_group_count=8)

    assert groups_of(first, x, w) is None


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("channels", [3, 16, 33, 64])
def test_filters_of_a_depthwise_loss_are_those_of_the_reference(
    channels: int, stride: int, threads: int
) -> None:
    """What the gradient multiplies is a result with its channels first."""
    x = normal(3, 12, 13, channels, dtype=np.float32)
    w = normal(5, 5, 1, channels, dtype=np.float32)

    def loss(w: Any, x: Any) -> Any:
        made = ft.lax.conv_general_dilated(
            x, w, (stride, stride), "SAME", feature_group_count=channels,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )  # fmt: skip
        return (made**2).sum()

    with ft.config(threads=threads):
        found = ft.jit(ft.grad(loss))(w, x)
    with ft.default_device("interpreter"):
        want = np.asarray(ft.jit(ft.grad(loss))(w, x))
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5 * np.abs(want).max())
