"""Decisions about the code of kernels: each can be switched off, and changes no result.

Every program has more than one way through the renderer, so that for each decision at
least one has other code without it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.backends.llvm.codegen_options import DECISIONS
from ftrace.backends.llvm.device import render_kernel
from ftrace.backends.llvm.target import Target
from ftrace.backends.rule_names import rule_names

Array = Any
F = Callable[..., Any]
WIDE = Target.of("x86_64-unknown-linux-gnu", "x86-64-v4", "+avx512bf16,+avx512vnni")


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def convolution(stride: int = 1) -> F:
    return lambda x, w: ft.lax.conv_general_dilated(x, w, (stride, stride), "SAME")


def channels_last(x: Array, w: Array) -> Any:
    numbers = ("NHWC", "HWIO", "NHWC")
    return ft.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=numbers)


def by_image(x: Array, w: Array) -> Any:
    return ft.grad(lambda x: (convolution(2)(x, w) ** 2).sum())(x)


def by_filters(x: Array, w: Array) -> Any:
    return ft.grad(lambda w: (convolution()(x, w) ** 2).sum() / 1000)(w)


def long_chain(x: Array) -> Any:
    for _ in range(12):
        x = fnp.sin(x) * x + 0.5
    return x


#: For each decision a program whose code it changes, and its arguments.
PROGRAMS: dict[str, tuple[F, tuple[Array, ...]]] = {
    "piecewise_polynomials": (lambda x: fnp.tanh(x) + ft.lax.erf(x), (normal(300),)),
    "register_tables": (
        lambda t, i: t[i],
        (normal(200), np.arange(5000, dtype=np.int32) * 7 % 200),
    ),
    "interleave_vectors": (long_chain, (normal(1 << 16),)),
    "split_strides": (by_image, (normal(2, 8, 20, 20), normal(16, 8, 3, 3))),
    "block_for_cache": (fnp.matmul, (normal(300, 1200), normal(1200, 600))),
    "pack_panels": (lambda x, y: x.T @ y, (normal(300, 200), normal(300, 280))),
    "few_rows": (fnp.matmul, (normal(40, 1700), normal(1700, 450))),
    "bfloat16_dot_product": (
        lambda x, y: fnp.matmul(x, y, preferred_element_type=fnp.float32),
        (normal(70, 80).astype(ft.dtypes.bfloat16),
         normal(80, 90).astype(ft.dtypes.bfloat16))),
    "integer_dot_product": (
        lambda x, y: fnp.matmul(x, y, preferred_element_type="int32"),
        (np.ones((72, 128), np.int8), np.ones((128, 80), np.int8)),
    ),
    "few_columns": (fnp.matmul, (normal(100, 300), normal(300, 3))),
    "direct_convolution_nchw": (
        convolution(), (normal(2, 16, 20, 20), normal(32, 16, 3, 3))
    ),
    "direct_filter_gradient": (
        by_filters, (normal(4, 32, 20, 20), normal(32, 32, 3, 3))
    ),
    "direct_convolution_nhwc": (
        channels_last, (normal(2, 20, 20, 16), normal(3, 3, 16, 32))
    ),
    "register_transpose": (lambda x, y: x.T + y, (normal(150, 170), normal(170, 150))),
    "transpose_results": (lambda x: x.T * 2, (normal(150, 170),)),
    "unroll_short_axes": (lambda x, y: x * y[:, None], (normal(5000, 3), normal(5000))),
    "split_index_sets": (
        lambda x, y: fnp.concatenate([x, y]) * 2, (normal(100, 70), normal(60, 70))),
    "cache_rows": (lambda x: ft.nn.softmax(x, axis=-1), (normal(60, 700),)),
    "prefetch": (lambda x: ft.nn.softmax(x), (normal(2000, 700),)),
    "fuse_multiply_add": (
        lambda x, y: (x * y).sum(1), (normal(90, 80), normal(90, 80))),
    "nontemporal_stores": (lambda x: x + 1, (normal(1 << 22),)),
    "unroll_vectors": (lambda x: x + 1, (normal(1000, 70),)),
    "limit_unrolling": (lambda x, y: fnp.tanh(x @ y), (normal(16, 4), normal(4, 20))),
    "register_tiles": (lambda x: x.sum(0), (normal(30, 500),)),
    "interchange_column_sums": (lambda x: x.sum(0), (normal(300, 500),)),
}  # fmt: skip


def texts(function: F, arguments: tuple[Array, ...], without: tuple[str, ...]) -> Any:
    """The code of the kernels of a program, for one processor."""
    target = replace(WIDE, without=without)
    kernels = ft.jit(function).lower(*arguments).kernels
    return [render_kernel(kernel, target).text for kernel in kernels]


def test_every_decision_has_a_program_and_a_name() -> None:
    assert set(PROGRAMS) == set(DECISIONS)
    assert rule_names() >= set(DECISIONS)


@pytest.mark.parametrize("name", DECISIONS)
def test_a_decision_changes_code_that_it_is_about(name: str) -> None:
    function, arguments = PROGRAMS[name]
    assert texts(function, arguments, ()) != texts(function, arguments, (name,))


@pytest.mark.parametrize("name", DECISIONS)
def test_a_result_is_the_same_without_a_decision(name: str) -> None:
    function, arguments = PROGRAMS[name]
    wanted = np.asarray(ft.jit(function)(*arguments))
    with ft.config(disabled_rules={name}):
        found = np.asarray(ft.jit(function)(*arguments))
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-4)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_result_is_the_same_without_any_decision(program: str) -> None:
    function, arguments = PROGRAMS[program]
    with ft.config(device="interpreter"):
        wanted = np.asarray(ft.jit(function)(*arguments))
    with ft.config(disabled_rules=set(DECISIONS)):
        for threads in (1, 2):
            with ft.set_threads(threads):
                found = np.asarray(ft.jit(function)(*arguments))
            np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-4)


#: One for each kind: between passes over rows, a panel of far rows, an operand that is
#: read in place, a transpose; and its arguments.
ASKED_FOR: dict[str, tuple[F, tuple[tuple[int, ...], ...]]] = {
    "rows": (ft.nn.softmax, ((4096, 1000),)),
    "panel": (lambda x, y: fnp.sin(x) @ y.T, ((512, 2048), (2048, 2048))),
    "in place": (fnp.matmul, ((7, 2048), (2048, 2048))),
    "transpose": (lambda x: x.T + 1, ((2048, 2048),)),
}


@pytest.mark.parametrize("kind", ASKED_FOR)
def test_nothing_is_asked_for_ahead_where_that_is_switched_off(kind: str) -> None:
    function, shapes = ASKED_FOR[kind]
    arrays = [np.zeros(shape, np.float32) for shape in shapes]
    usual, without = (
        "".join(texts(function, tuple(arrays), off)) for off in ((), ("prefetch",))
    )
    assert "call void @llvm.prefetch" in usual
    assert "call void @llvm.prefetch" not in without


@pytest.mark.parametrize("f", [lambda x: x + 1, lambda x: fnp.cumsum(x, 1)])
def test_no_store_is_non_temporal_where_that_is_switched_off(f: F) -> None:
    x = np.zeros((2048, 4096), np.float32)
    for off, some in (((), True), (("nontemporal_stores",), False)):
        (text,) = texts(f, (x,), off)
        assert ("!nontemporal" in text) is some


@pytest.mark.parametrize("off", [(), ("fuse_multiply_add",)])
def test_a_schedule_says_where_products_are_rounded(off: tuple[str, ...]) -> None:
    function, arguments = PROGRAMS["fuse_multiply_add"]
    (kernel,) = ft.jit(function).lower(*arguments).kernels
    (tiling,) = render_kernel(kernel, replace(WIDE, without=off)).schedules
    assert ("products are rounded" in str(tiling)) is bool(off)


def test_code_is_short_where_it_runs_seldom_only() -> None:
    """Another order of the loops, but the same sums: not a bit differs."""
    for rows, light, same in (
        (16, False, False),
        (16, True, True),
        (4000, False, True),
    ):
        x, y = normal(rows, 4), normal(4, 20)

        def product(x: Any, y: Any, light: bool = light) -> Any:
            return x @ y if light else fnp.tanh(x @ y)

        (short,), (long,) = (
            texts(product, (x, y), without) for without in ((), ("limit_unrolling",))
        )
        assert (short == long) is same
        assert same or 2 * len(short) < len(long)
        wanted = np.asarray(ft.jit(product)(x, y))
        with ft.config(disabled_rules={"limit_unrolling"}):
            found = np.asarray(ft.jit(product)(x, y))
        np.testing.assert_array_equal(found, wanted)


def test_code_is_kept_apart_by_what_is_switched_off() -> None:
    """The same kernel, in one process: first with a decision, then without."""
    f = ft.jit(lambda x: x.sum(0))
    x = normal(300, 500)
    with ft.config(disabled_rules={"interchange_column_sums"}):
        f(x)
        (without,) = f.lower(x).sources
    f(x)
    (usual,) = f.lower(x).sources
    assert without != usual


@pytest.mark.parametrize(("columns", "rows"), [(8192, "4"), (512, "")])
def test_several_rows_are_read_at_once_where_they_are_long(
    columns: int, rows: str
) -> None:
    shapes = ((1 << 22) // columns, columns), (columns,)
    arrays = [ft.ShapeDtypeStruct(shape, np.float32) for shape in shapes]
    (kernel,) = ft.jit(fnp.matmul).lower(*arrays).kernels
    (schedule,) = render_kernel(kernel, WIDE).schedules
    assert (f"for each i0 by {rows}:" in str(schedule)) == bool(rows)
