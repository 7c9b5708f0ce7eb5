"""Schedules of products as text: what a strategy chose can be read, and is golden."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import ftrace as ft
from ftrace.backends.llvm.contraction.strategies import (
    block_for_cache,
    pack_panels,
    schedule_dots,
)
from ftrace.backends.llvm.convolution.strategies import (
    schedule_filter_gradient,
    schedule_nchw,
    schedule_nhwc,
)
from ftrace.backends.llvm.device import render_kernel
from ftrace.backends.llvm.render import Case
from ftrace.backends.llvm.schedule.choose_tiling import schedule_loops
from ftrace.backends.llvm.schedule.schedule_tree import Schedule
from ftrace.backends.llvm.schedule.vector_cost import VectorCosts
from ftrace.backends.llvm.target import Target
from tests.support.run_llvm_kernel import kernel_of, legal_kernels, plan_of

CACHES = (32 << 10, 1 << 20, 32 << 20)
WIDE = Target.of("x86_64-unknown-linux-gnu", "x86-64-v4", "", CACHES, cores=2)


def few_columns(case: Case) -> Schedule | None:
    return next(schedule_dots(case.kernel, *plan_of(case.kernel), WIDE), None)


def matrix(case: Case) -> Schedule | None:
    return next(pack_panels(case.kernel, *plan_of(case.kernel), WIDE), None)


def blocks(case: Case) -> Schedule | None:
    return next(block_for_cache(case.kernel, *plan_of(case.kernel), WIDE))


GOLDEN: dict[str, tuple[Callable[[Case], Schedule | None], tuple[int, ...], str]] = {
    "few columns": (few_columns, (500, 300, 3), """
for units of i0 by 63:
    once for all i0 by 63:
        fill right[i1][r2]
    out <- f(… · right)    7 rows × 3 columns, r2 in vectors of 16"""),
    "matrix": (matrix, (512, 2000, 500), """
for units of i1 by 64, i0:
    once for all i0:
        fill right[strip][r2][i1], 8 rows ahead
    out <- f(… · right)    6 rows × 4 vectors of 16"""),
    "few rows": (matrix, (16, 4096, 4096), """
for units of i1 by 512, i0:
    clear sums
    for each r2 by 16:
        sums[i0][i1] += …    8 rows × 2 vectors of 16, 16 terms ahead
    out <- f(sums[i0][i1])"""),
    "in blocks": (blocks, (333, 777, 555), """
for units of i1 by 64, i0 by 168:
    once for all i0 by 168:
        fill right[r2][i1], 8 rows ahead
    sums[i0][i1] <- … · right    6 rows × 4 vectors of 16
    out <- f(sums[i0][i1])"""),
}  # fmt: skip


@pytest.mark.parametrize("name", GOLDEN)
def test_a_schedule_prints_as_the_loops_that_it_stands_for(name: str) -> None:
    strategy, (n, k, m), text = GOLDEN[name]
    a, b = np.ones((n, k), np.float32), np.ones((k, m), np.float32)
    case = Case(kernel_of(lambda a, b: a @ b, a, b, target=WIDE), WIDE)
    assert str(strategy(case)) == text.lstrip()


def convolution(stride: int = 1) -> Any:
    return lambda x, w: ft.lax.conv_general_dilated(x, w, (stride, stride), "SAME")


def channels_last(groups: int = 1) -> Any:
    return lambda x, w: ft.lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=groups,
    )  # fmt: skip


def by_filters(x: Any, w: Any, y: Any) -> Any:
    return ft.grad(lambda w: (convolution()(x, w) * y).sum())(w)


def of_plan(find: Any) -> Any:
    return lambda case: next(find(case.kernel, *plan_of(case.kernel), WIDE), None)


#: The strategy, a program and the shapes of its arrays.
CONVOLUTIONS: dict[str, tuple[Any, Any, tuple[tuple[int, ...], ...], str]] = {
    "channels first": (
        of_plan(schedule_nchw), convolution(2),
        ((16, 32, 28, 28), (64, 32, 3, 3)), """
for units of i0, i2 × i3, i1:
    fill image[r6 × r5][line of i2 × i3]
    fill image1[r6 × r5][line of i2 × i3]
    sums[i1][i2 × i3] <- (image + image1) · …    8 rows × 2 vectors of 16
    out <- f(sums[i1][i2 × i3])"""),
    "channels last": (
        of_plan(schedule_nhwc), channels_last(),
        ((8, 14, 14, 64), (3, 3, 64, 64)), """
for units of i0, i1 × i2, i3:
    fill image[line of i1 × i2][r6]
    sums[i1 × i2][i3] <- image · …    14 rows × 2 vectors of 16
    out <- f(sums[i1 × i2][i3])"""),
    "groups": (
        of_plan(schedule_nhwc), channels_last(8),
        ((4, 14, 14, 32), (3, 3, 4, 32)), """
for units of i0, i1 by 7 × i2, i3 by 8 × i4:
    fill image[line of i1 by 7 × i2][r7][i3]
    fill still[r7 × r5 × r6][i4 × i3]
    sums[i1 × i2][i3 × i4] <- image · still    14 rows × 2 vectors of 8
    out <- f(sums[i1 × i2][i3 × i4])"""),
    "by filters": (
        of_plan(schedule_filter_gradient), by_filters,
        ((8, 32, 28, 28), (64, 32, 3, 3), (8, 64, 28, 28)), """
for units of i0, i2, i1:
    clear sums
    for each r5 by 4 × r6:
        fill image[i2][line of r5 by 4 × r6]
        fill still[r5 × r6][i1], transposed, a square ahead
        sums[i2][i3 × i4][i1] += image · still    1 rows × 9 taps × 2 vectors of 16
    out <- f(sums[i2][i3 × i4][i1])"""),
}  # fmt: skip


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_the_schedule_of_a_convolution_prints_as_its_loops(name: str) -> None:
    strategy, function, shapes, text = CONVOLUTIONS[name]
    arrays = [np.ones(shape, np.float32) for shape in shapes]
    case = Case(legal_kernels(function, *arrays, target=WIDE)[0], WIDE)
    assert str(strategy(case)) == text.lstrip()


#: Loops of other kernels, and how they run.
LOOPS: dict[str, tuple[Any, tuple[tuple[int, int], ...], str]] = {
    "tile of sums": (lambda a, b: a @ b, ((64, 64), (64, 64)), """
for units of i0 by 8, i1 by 32:
    for each i0 by 8:
        for each i1 by 2 vectors of 16:
            for each r2:
                sum += …
            buffer0 <- …"""),
    "columns, row by row": (lambda x: x.sum(0), ((2048, 1024),), """
for units of i0 by 512:
    for each r1 by 8:
        for each i0 by 1 vector of 16:
            sum += …
    for each i0 by 1 vector of 16:
        buffer0 <- …"""),
    "all as one": (lambda x: x.max(), ((3, 50),), """
for each r0 by 8 vectors of 16:
    max of …
buffer0 <- …"""),
}  # fmt: skip


@pytest.mark.parametrize("name", LOOPS)
def test_loops_of_a_kernel_print_as_they_run(name: str) -> None:
    function, shapes, text = LOOPS[name]
    arrays = [np.ones(shape, np.float32) for shape in shapes]
    case = Case(kernel_of(function, *arrays, target=WIDE), WIDE)
    costs = VectorCosts(case.kernel, case.facts, WIDE)
    assert str(next(schedule_loops(case.block, costs))) == text.lstrip()


#: Programs of matrices of 2048², which no second cache holds, and what is asked for.
AHEAD: dict[str, tuple[Any, str]] = {
    "result": (lambda x, y: x.T * 2, """
for units of i0 by 128, i1 by 128:
    buffer0 past the caches
    out <- f(…), transposed, a square ahead"""),
    "operand": (lambda x, y: x.T + y, """
for units of i0 by 128, i1 by 128:
    buffer0 past the caches
    fill transposed[i0][i1], transposed, a square ahead
    out <- f(transposed[i0][i1])"""),
}  # fmt: skip


@pytest.mark.parametrize("off", [(), ("prefetch",)])
@pytest.mark.parametrize("name", AHEAD)
def test_a_schedule_says_what_is_asked_for_ahead(
    name: str, off: tuple[str, ...]
) -> None:
    function, text = AHEAD[name]
    x = ft.ShapeDtypeStruct((2048, 2048), np.float32)
    (kernel,) = ft.jit(function, device="cpu").lower(x, x).kernels
    rendered = render_kernel(kernel, replace(WIDE, without=off))
    wanted = text.lstrip() if not off else text.lstrip().replace(", a square ahead", "")
    assert [str(s) for s in rendered.schedules] == [wanted]
    assert ("call void @llvm.prefetch" in rendered.text) is not bool(off)
