"""Depthwise convolutions with channels first: pixels are turned, lanes are channels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.backends.llvm.convolution.find import find_channels
from ftrace.backends.llvm.convolution.nhwc import find_across
from ftrace.backends.llvm.device import render_kernel
from ftrace.backends.llvm.scalar.ops import operations_of
from ftrace.backends.llvm.schedule.index_facts import facts_of
from ftrace.backends.llvm.schedule.schedule_tree import Slide
from ftrace.backends.llvm.target import Target, host_target
from ftrace.lower.kernel.loop_tree import place
from ftrace.lower.legalize.legalize import legalize
from tests.support.convolutions import FORMS, check_form, form, normal, strided
from tests.support.covering import covering

Array = np.ndarray[Any, Any]

WIDE = Target.of("x86_64-unknown-linux-gnu", "x86-64-v4")

# Images, taps, strides, padding, dilation; each channel has its own filter.
_CASES: list[tuple[Any, ...]] = [
    ((3, 32, 7, 7), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),
    ((2, 40, 7, 7), (7, 7), (1, 1), ((3, 3), (3, 3)), (1, 1)),
    ((2, 13, 14, 14), (5, 5), (1, 1), ((2, 2), (2, 2)), (1, 1)),
    ((1, 21, 30, 17), (3, 5), (1, 1), ((1, 0), (2, 3)), (1, 1)),
    ((2, 24, 19, 23), (5, 5), (2, 2), ((2, 2), (2, 2)), (1, 1)),
    ((2, 16, 19, 20), (3, 3), (1, 1), ((2, 2), (2, 2)), (2, 2)),
    ((3, 70, 9, 12), (5, 3), (2, 1), ((2, 2), (1, 1)), (1, 1)),
    ((1, 33, 70, 90), (5, 5), (1, 1), ((2, 2), (2, 2)), (1, 1)),
    ((2, 20, 100), (9,), (1,), ((4, 4),), (1,)),
    ((2, 18, 6, 7, 8), (3, 3, 3), (1, 1, 1), ((1, 1),) * 3, (1, 1, 1)),
]


def row_of(case: Any) -> Any:
    shape, taps, *rest = case
    return (shape, (shape[1], 1, *taps), *rest, shape[1])


def convolution(case: Any) -> Any:
    return strided(row_of(case))


def operands(case: Any) -> tuple[Array, Array]:
    images, filters, *_ = row_of(case)
    x = normal(*images, dtype=np.float32)
    return x, normal(*filters, seed=1, dtype=np.float32)


@pytest.mark.parametrize("shape", [(1, 16, 8, 128), (1, 16, 7, 200), (1, 32, 4, 100)])
def test_blocks_of_one_line(shape: tuple[int, ...]) -> None:
    # With many cores a unit has one line of the images, as long as all of its lines.
    case = (shape, (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1))
    x, w = operands(case)
    for cores in (2, 32):
        target = replace(host_target(), cores=cores)
        (kernel,) = ft.jit(convolution(case)).lower(x, w).kernels
        render_kernel(kernel, target)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    height, width = shape[2:]
    want = sum(
        w[:, 0, i, j][:, None, None] * padded[:, :, i : i + height, j : j + width]
        for i in range(3)
        for j in range(3)
    )
    got = ft.jit(convolution(case))(x, w)
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-5, atol=1e-5)


@covering(1, case=_CASES, name=FORMS, dtype=[np.float32, np.float32, np.float64])
def test_results_are_those_of_the_interpreter(case: Any, name: str, dtype: Any) -> None:
    function = convolution(case)
    check_form(row_of(case), function, form(function, name, fnp.tanh), dtype)


def test_what_is_not_a_number_stays_in_its_channel() -> None:
    case = _CASES[0]
    x, w = operands(case)
    x[1, 4, 5, 5] = np.nan
    wrong = np.isnan(np.asarray(ft.jit(convolution(case))(x, w)))
    assert wrong[1, 4, 4:7, 4:7].all()
    assert wrong.sum() == 9


def test_sums_of_zeros_are_zero_without_a_sign() -> None:
    case = _CASES[0]
    x, w = operands(case)
    found = np.asarray(ft.jit(convolution(case))(x * -0.0, np.abs(w)))
    assert not np.signbit(found[:, :, 0, 0]).any()  # padding is +0


def across_of(function: Any, *arrays: Array) -> Any:
    (kernel,) = ft.jit(function).lower(*arrays).kernels
    legal = legalize(kernel, operations_of(WIDE))
    facts = facts_of(legal)
    plan = find_channels(legal, place(legal), facts, WIDE)
    return plan and find_across(legal, plan, facts, WIDE)


@pytest.mark.parametrize("case", _CASES[:4], ids=str)
def test_depthwise_convolutions_are_found(case: Any) -> None:
    x, w = operands(case)
    found = across_of(convolution(case), x, w)
    (add,) = [s for s in found.statements() if isinstance(s, Slide)]
    assert [r.arg.size for r in add.columns.within] == [case[0][1]]
    assert len(add.images[0].windows) == 2


@pytest.mark.parametrize(
    "case",
    [
        ((2, 5, 14, 14), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),  # few channels
        ((2, 32, 14, 14), (3, 3), (3, 3), ((1, 1), (1, 1)), (1, 1)),  # few taps
        ((2, 32, 14, 14), (1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1)),  # one
    ],
    ids=str,
)
def test_others_are_not(case: Any) -> None:
    x, w = operands(case)
    assert across_of(convolution(case), x, w) is None


def test_channels_that_mix_are_not_found() -> None:
    x, w = (
        normal(2, 32, 14, 14, dtype=np.float32),
        normal(32, 4, 3, 3, dtype=np.float32),
    )

    def grouped(x: Any, w: Any) -> Any:
        return ft.lax.conv_general_dilated(x, w, (1, 1), "SAME", feature_group_count=8)

    assert across_of(grouped, x, w) is None


def test_the_form_can_be_switched_off() -> None:
    case = _CASES[0]
    x, w = operands(case)
    found = np.asarray(ft.jit(convolution(case))(x, w))
    with ft.config(disabled_rules={"channels_across"}):
        other = np.asarray(ft.jit(convolution(case))(x, w))
    np.testing.assert_allclose(found, other, rtol=0, atol=1e-5)
