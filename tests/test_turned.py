"""Turned operands: the rows of the next square are asked for where they are far."""

from __future__ import annotations

import numpy as np
import pytest

import ftrace as ft
from ftrace import dtypes
from ftrace.devices.llvm.render import render
from ftrace.devices.llvm.target import host_target
from ftrace.lower.kernel import (
    INDEX,
    BufferSpec,
    Kernel,
    Store,
    load,
    make_range,
    param,
)
from ftrace.trace.primitives.elementwise import add, mul
from ftrace.trace.primitives.source import const


def transposed(rows: int, columns: int) -> Kernel:
    i, j = make_range(0, columns, False), make_range(1, rows, False)
    place = add(mul(i, const(rows, INDEX)), j)
    source = add(mul(j, const(columns, INDEX)), i)
    size = rows * columns
    value = load(param(0, dtypes.float32, size), source)
    specs = tuple(BufferSpec(dtypes.float32, size, n == 1) for n in range(2))
    return Kernel((i, j), (Store(1, place, value),), specs)


def test_rows_are_asked_for_where_the_operand_does_not_fit_in_a_cache() -> None:
    target = host_target()
    side = 64
    while side * side * 4 <= target.l2:
        side *= 2
    assert "@llvm.prefetch" in render(transposed(side, side), target, "k").text
    assert "@llvm.prefetch" not in render(transposed(64, 64), target, "k").text


@pytest.mark.parametrize("shape", [(1031, 1029), (1024, 2048), (16, 200, 384)])
def test_large_arrays_are_turned_to_their_ends(shape: tuple[int, ...]) -> None:
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    found = ft.jit(lambda x: ft.numpy.swapaxes(x, -1, -2) * 2)(x)
    np.testing.assert_array_equal(np.asarray(found), np.swapaxes(x, -1, -2) * 2)
