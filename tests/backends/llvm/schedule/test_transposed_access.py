"""Turned operands and results: where, to which ends, by non-temporal stores."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.backends.llvm.compile import emit_object, link
from ftrace.backends.llvm.render import render
from ftrace.backends.llvm.schedule.index_facts import facts_of
from ftrace.backends.llvm.schedule.transposed_access import schedule_squares
from ftrace.backends.llvm.target import host_target
from ftrace.lower.kernel.ir import (
    INDEX,
    BufferSpec,
    Kernel,
    Store,
    load,
    make_range,
    param,
)
from ftrace.trace.primitives.elementwise import add, mul
from ftrace.trace.primitives.sources import const


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
    assert "@llvm.prefetch" in render(transposed(side, side), target).text
    assert "@llvm.prefetch" not in render(transposed(64, 64), target).text


def pitches(text: str) -> bool:
    """Does a kernel put squares aside, in a panel?"""
    return "alloca [" in text


def test_results_are_turned_where_all_operands_lie_across() -> None:
    x, y, row = (fnp.ones(s) for s in ((150, 170), (170, 150), (150,)))
    for function, arguments, whole in (
        (lambda x: x.T * 2, (x,), True),
        (lambda x, row: x.T * row, (x, row), True),
        (lambda x, row: (x * row[:, None]).T, (x, row), True),
        (lambda x, y: x.T + y, (x, y), False),
        (lambda x: fnp.tanh(fnp.sin(x.T)), (x,), False),
        (lambda x: (x.T * 2, x.T + 1), (x,), False),
    ):
        (source,) = ft.jit(function).lower(*arguments).sources
        assert pitches(source) is not whole


@pytest.mark.parametrize(
    ("source", "result"),
    [("float32", "float32"), ("float64", "float64"), ("float16", "float16"),
     ("int8", "int8"), ("int8", "float32"), ("float32", "int8"), ("int64", "uint8"),
     ("bool", "bool"), ("complex64", "complex64")],
)  # fmt: skip
def test_results_of_all_types_are_turned_to_their_ends(
    source: str, result: str
) -> None:
    for shape in ((8, 8), (9, 200), (65, 31), (130, 259), (3, 20, 47)):
        x = np.random.default_rng(7).integers(0, 100, shape).astype(source)
        found = ft.jit(lambda x: fnp.swapaxes(x, -1, -2).astype(result))(x)
        np.testing.assert_array_equal(found, np.swapaxes(x, -1, -2).astype(result))


def aligned(size: int) -> np.ndarray[Any, Any]:
    """Sevens that begin at a line of the cache."""
    raw = np.full(size + 16, 7, np.float32)
    start = -raw.ctypes.data % 64 // 4
    return raw[start : start + size]


@pytest.mark.parametrize("shape", [(64, 128), (65, 128), (64, 129), (40, 24)])
def test_results_past_the_caches_are_turned_as_well(shape: tuple[int, int]) -> None:
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    target = replace(host_target(), l3=1 << 10)
    rendered = render(transposed(*shape), target)
    if target.triple.startswith("x86_64"):
        lanes = target.vector_bytes // 4
        assert ("!nontemporal" in rendered.text) is (shape[0] % lanes == 0)
    code = link(emit_object(rendered.text, target), ("kernel",))
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    for shift in (0, 1):  # of whole vectors, and across
        whole = aligned(x.size + 33)
        found = whole[16 + shift : 16 + shift + x.size]
        pointers = (ctypes.c_void_p * 2)(x.ctypes.data, found.ctypes.data)
        for unit in range(rendered.parallel):
            kind(code.address("kernel"))(pointers, unit, unit + 1)
        np.testing.assert_array_equal(found.reshape(shape[::-1]), x.T)
        assert (whole[: 16 + shift] == 7).all()
        assert (whole[16 + shift + x.size :] == 7).all()


@pytest.mark.parametrize("shape", [(1031, 1029), (1024, 2048), (16, 200, 384)])
def test_large_arrays_are_turned_to_their_ends(shape: tuple[int, ...]) -> None:
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    found = ft.jit(lambda x: ft.numpy.swapaxes(x, -1, -2) * 2)(x)
    np.testing.assert_array_equal(np.asarray(found), np.swapaxes(x, -1, -2) * 2)


def across(kernel: Kernel) -> bool:
    """Does it read its operand across lines, one element of each?"""
    return "@llvm.masked.gather" in render(kernel, host_target()).text


@pytest.mark.parametrize("dtype", ["float32", "uint8", "bool"])
@pytest.mark.parametrize("shape", [(120, 90), (65, 33), (9, 300), (3, 70, 50)])
def test_rotations_are_turned_backwards(shape: tuple[int, ...], dtype: str) -> None:
    x = (np.random.default_rng(0).standard_normal(shape) * 50).astype(dtype)
    axes = (x.ndim - 2, x.ndim - 1)
    for count in (1, 2, 3):
        got = ft.jit(lambda x, k=count: fnp.rot90(x, k, axes))(x)
        np.testing.assert_array_equal(np.asarray(got), np.rot90(x, count, axes))
    both = ft.jit(lambda x: fnp.flip(fnp.swapaxes(x, *axes), axes))(x)
    np.testing.assert_array_equal(np.asarray(both), np.flip(x.swapaxes(*axes), axes))
    (kernel,) = ft.jit(lambda x: fnp.rot90(x, 1, axes)).lower(x).kernels
    assert not across(kernel)


@pytest.mark.parametrize("n", [16, 64])
def test_what_is_added_to_an_array_is_turned_and_added(n: int) -> None:
    rng = np.random.default_rng(0)
    z, y = rng.standard_normal((2 * n, n)), rng.standard_normal((n, n))
    want = z.copy()
    want[::2] += y[:, ::-1].T
    add = ft.jit(lambda z, y: z.at[fnp.arange(n) * 2].add(y[:, ::-1].T))
    np.testing.assert_array_equal(np.asarray(add(z, y)), want)


def test_an_axis_is_run_from_its_end_only_to_turn_an_operand() -> None:
    x = fnp.ones((64, 96))
    (kernel,) = ft.jit(lambda x: fnp.flip(x, 0) * 2).lower(x).kernels
    target = host_target()
    assert schedule_squares(kernel, facts_of(kernel), target) is None
    (kernel,) = ft.jit(fnp.rot90).lower(x).kernels
    found = schedule_squares(kernel, facts_of(kernel), target)
    assert found is not None
    assert found.kernel.shape == kernel.shape
    assert found.kernel != kernel
