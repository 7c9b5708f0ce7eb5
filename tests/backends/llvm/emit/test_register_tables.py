"""Small tables in registers: what is looked up is what memory has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.backends.llvm.device import render_kernel
from ftrace.backends.llvm.target import Target

Array = np.ndarray[Any, Any]
WIDE = Target.of("x86_64-unknown-linux-gnu", "x86-64-v4")
MIDDLE = Target.of("x86_64-unknown-linux-gnu", "x86-64-v3")


def table_of(size: int, dtype: str) -> Array:
    numbers = np.random.default_rng(size).standard_normal(size) * 50
    return numbers.astype(dtype)


def indices(size: int, count: int, dtype: str = "int32") -> Array:
    return np.random.default_rng(count).integers(0, size, count).astype(dtype)


@pytest.mark.parametrize("size", [1, 16, 17, 33, 100, 129, 256])
@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint16", "float16", "int32", "float32"]
)
def test_a_table_is_looked_up_as_memory_is(dtype: str, size: int) -> None:
    table, where = table_of(size, dtype), indices(size, 5001, "uint8")
    got = ft.jit(lambda t, i: t[i])(table, where)
    np.testing.assert_array_equal(got, table[where])


@pytest.mark.parametrize("dtype", ["int64", "float64"])
@pytest.mark.parametrize("size", [5, 64, 128, 129])
def test_a_table_of_64_bits_is_looked_up_as_memory_is(dtype: str, size: int) -> None:
    table, where = table_of(size, dtype), indices(size, 4100)
    with ft.config(enable_x64=True):
        got = ft.jit(lambda t, i: t[i] + t[size - 1 - i])(table, where)
    np.testing.assert_array_equal(got, table[where] + table[size - 1 - where])


def test_numbers_keep_their_bits() -> None:
    table = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40], np.float32)
    where = indices(6, 5000)
    got = np.asarray(ft.jit(lambda t, i: t[i])(table, where))
    np.testing.assert_array_equal(got.view(np.int32), table[where].view(np.int32))


def test_what_is_outside_of_the_table_is_what_was_asked_for() -> None:
    table, where = table_of(200, "float32"), np.arange(-300, 4700, dtype=np.int32)
    got = ft.jit(lambda t, i: fnp.take(t, i, mode="fill", fill_value=7.0))(table, where)
    inside = (where >= -200) & (where < 200)
    np.testing.assert_array_equal(got, np.where(inside, table[where % 200], 7))
    clipped = ft.jit(lambda t, i: fnp.take(t, i, mode="clip"))(table, where)
    np.testing.assert_array_equal(clipped, table[np.clip(where, 0, 199)])


def test_rows_of_a_small_table() -> None:
    table, where = table_of(64, "float32").reshape(16, 4), indices(16, 5000)
    np.testing.assert_array_equal(ft.jit(lambda t, i: t[i])(table, where), table[where])


def held(f: Any, target: Target, *arguments: Array) -> bool:
    (kernel,) = ft.jit(f).lower(*arguments).kernels
    code = render_kernel(kernel, target)
    found = "vpermi2var" in code.text
    assert ("in registers" in "".join(map(str, code.schedules))) is found
    return found


def look_up(table: Any, where: Any) -> Any:
    return table[where]


def test_tables_are_held_where_they_fit_and_it_pays() -> None:
    where = indices(100, 5000)
    assert held(look_up, WIDE, table_of(256, "float32"), where)
    assert held(look_up, WIDE, table_of(256, "uint8"), where)
    assert not held(look_up, WIDE, table_of(257, "float32"), where)
    assert not held(look_up, WIDE, table_of(256, "float32"), where[:500])
    assert not held(look_up, MIDDLE, table_of(256, "float32"), where)


def test_a_table_that_is_written_is_read_from_memory() -> None:
    def twice(table: Any, where: Any) -> Any:
        return table.at[where].add(1.0)[where]

    table, where = table_of(100, "float32"), indices(100, 5000)
    counts = np.bincount(where, minlength=100).astype(np.float32)
    got = ft.jit(twice)(table, where)
    np.testing.assert_allclose(got, (table + counts)[where], rtol=1e-5, atol=1e-3)
