"""Schedules of products as text: what a strategy chose can be read, and is golden."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace as ft
from ftrace.devices.llvm.contraction.blocked import in_blocks
from ftrace.devices.llvm.contraction.few_columns import find_dots
from ftrace.devices.llvm.contraction.matmul import as_matrices, as_panels
from ftrace.devices.llvm.contraction.schedule import Schedule
from ftrace.devices.llvm.render.select_strategy import Case
from ftrace.devices.llvm.scalar.ops import operations_of
from ftrace.devices.llvm.target import Target
from ftrace.lower.legalize.legalize import legalize

CACHES = (32 << 10, 1 << 20, 32 << 20)
WIDE = Target.of("x86_64-unknown-linux-gnu", "x86-64-v4", "", CACHES, cores=2)


def few_columns(case: Case) -> Schedule | None:
    assert case.plan is not None
    return find_dots(case.kernel, case.plan, case.facts, WIDE)


def matrix(case: Case) -> Schedule | None:
    assert case.plan is not None
    shape = as_matrices(case.plan, case.kernel)
    return shape and as_panels(case.plan, shape, case.facts, WIDE)


def blocks(case: Case) -> Schedule | None:
    assert case.plan is not None
    return in_blocks(case.plan, case.facts, WIDE)


GOLDEN: dict[str, tuple[Callable[[Case], Schedule | None], tuple[int, ...], str]] = {
    "few columns": (few_columns, (500, 300, 3), """
for each i0 by 63:
    for each r2:
        once, panel right[column][k] <- b(…)
        sums += a · b    7 rows × 3 columns, r2 in vectors of 16
    out <- f(sums)    in registers"""),
    "matrix": (matrix, (512, 2000, 500), """
for each i1 by 64, i0 by 516:
    for each r2:
        once, panel right[strip][k][column] <- b(…)
        sums += a · b    6 rows × 4 vectors of 16
    out <- f(sums)    in registers"""),
    "few rows": (matrix, (16, 4096, 4096), """
for each i1 by 512, i0 by 16:
    panel sums[row][column] <- 0
    for each r2 by 16:
        sums += a · b    8 rows × 2 vectors of 16
            prefetch b, 16 terms ahead
    out <- f(sums)    of the panel of sums"""),
    "in blocks": (blocks, (333, 777, 555), """
for each i1 by 192, i0 by 117:
    panel sums[row][column] <- 0
    for each r2 by 512:
        panel right[k][column] <- b(…)
        sums += a · b    9 rows × 3 vectors of 16
    out <- f(sums)    of the panel of sums"""),
}  # fmt: skip


@pytest.mark.parametrize("name", GOLDEN)
def test_a_schedule_prints_as_the_loops_that_it_stands_for(name: str) -> None:
    strategy, (n, k, m), text = GOLDEN[name]
    a, b = np.ones((n, k), np.float32), np.ones((k, m), np.float32)
    product: Any = ft.jit(lambda a, b: a @ b, device="cpu").lower(a, b)
    case = Case(legalize(product.kernels[0], operations_of(WIDE)), WIDE)
    assert str(strategy(case)) == text.lstrip()
