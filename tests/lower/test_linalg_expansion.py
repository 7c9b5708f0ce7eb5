"""Operations of linear algebra that are lowered as others, put together."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.lower.library.library_table import COMPOUNDS
from ftrace.lower.program import CallHost
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import toposort
from ftrace.trace.graph_map import convert
from ftrace.trace.linalg_compositions import cofactors_p, pinv_p
from ftrace.trace.primitives.library.factors import svd_p
from ftrace.trace.primitives.sources import variable
from tests.support.covering import covering

pytest.importorskip("scipy")

DTYPES = ("float32", "float64", "complex64", "complex128")
RULE = ("expand_compounds",)


def sample(*shape: int, dtype: str = "float32") -> Any:
    rng = np.random.default_rng(sum(shape) + len(shape))
    x: Any = rng.standard_normal(shape)
    if "complex" in dtype:
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def host_calls(function: Any, *arrays: Any) -> list[str]:
    steps = ft.jit(lambda *a: function(*a)).lower(*arrays).program.steps
    return [step.node.op.name for step in steps if isinstance(step, CallHost)]


def assert_as_the_whole(function: Any, *arrays: Any) -> None:
    """With the rule and without it: the same values, and no call of the host."""
    with ft.config(enable_x64=True):
        assert host_calls(function, *arrays) == []
        got = ft.jit(lambda *a: function(*a))(*arrays)
        with ft.config(disabled_rules=RULE):
            assert host_calls(function, *arrays)
            want = ft.jit(lambda *a: function(*a))(*arrays)
    precision = np.finfo(arrays[0].dtype).eps
    for one, other in zip(ft.tree.leaves(got), ft.tree.leaves(want), strict=True):
        assert one.dtype == other.dtype
        one, other = np.asarray(one), np.asarray(other)
        bound = 2e4 * precision * max(np.abs(other).max(initial=0), 1)
        np.testing.assert_allclose(one, other, rtol=0, atol=bound)


@covering(1, dtype=DTYPES, shape=[(1, 1), (4, 9), (3, 8, 5), (2, 1, 6, 6)])
def test_pseudoinverses_are_those_of_the_host(
    shape: tuple[int, ...], dtype: str
) -> None:
    a = sample(*shape, dtype=dtype)
    poor = np.array(a)
    poor[..., 0] = poor[..., -1] if shape[-1] > 1 else 0
    for x in (a, poor, np.zeros_like(a)):
        assert_as_the_whole(fnp.linalg.pinv, x)
    if shape[-1] == shape[-2]:
        mirrored = a + a.conj().swapaxes(-1, -2)
        assert_as_the_whole(lambda x: fnp.linalg.pinv(x, hermitian=True), mirrored)


@covering(2, dtype=DTYPES, shape=[(7, 6), (4, 9), (90, 5)], columns=[(), (1,), (3,)])
def test_least_squares_are_those_of_the_host(
    shape: tuple[int, int], columns: tuple[int, ...], dtype: str
) -> None:
    a, b = sample(*shape, dtype=dtype), sample(shape[0], *columns, dtype=dtype)
    assert_as_the_whole(fnp.linalg.lstsq, a, b)
    a[:, 1] = a[:, 0]
    assert_as_the_whole(fnp.linalg.lstsq, a, b)


@covering(1, dtype=DTYPES, n=[4, 7, 30])
def test_gradients_of_determinants_are_those_of_the_host(n: int, dtype: str) -> None:
    a = sample(n, n, dtype=dtype) / np.sqrt(n).astype(dtype)
    poor, none = np.array(a), np.zeros_like(a)
    poor[:, 0] = poor[:, 1]

    def gradient(x: Any) -> Any:
        return ft.grad(lambda y: fnp.sum(fnp.linalg.det(y).real))(x)

    for x in (a, poor, none, np.stack([a, poor, 2 * a])):
        assert_as_the_whole(gradient, x)


def test_gradient_of_a_determinant_that_is_no_single_number() -> None:
    """det is 1e-60, and its cofactors 1e-48: zero in 32 bits, and not NaN."""
    a = np.diag(np.full(5, 1e-12, np.float32))
    gradient = ft.jit(ft.grad(fnp.linalg.det))(a)
    np.testing.assert_array_equal(gradient, 0)
    large = np.diag(np.array([1e-12, 1e-12, 1e-12, 1e-12, 1e30], np.float32))
    want = np.diag([1e-6, 1e-6, 1e-6, 1e-6, 0])
    np.testing.assert_allclose(ft.jit(ft.grad(fnp.linalg.det))(large), want, rtol=1e-5)


def test_what_is_not_finite_is_nan() -> None:
    a = sample(2, 6, 6)
    a[1, 2, 3] = np.nan
    found = np.asarray(ft.jit(fnp.linalg.pinv)(a))
    assert np.isfinite(found[0]).all()
    assert np.isnan(found[1]).all()
    gradient = np.asarray(ft.jit(ft.grad(lambda x: fnp.sum(fnp.linalg.det(x))))(a))
    assert np.isnan(gradient[1]).all()


def test_parts_stand_in_bodies_of_loops() -> None:
    a = sample(4, 6, 6)

    def inverses(x: Any) -> Any:
        return lax.scan(lambda c, y: (c, fnp.linalg.pinv(y)), 0.0, x)[1]

    np.testing.assert_allclose(
        ft.jit(inverses)(a), np.linalg.inv(a), rtol=1e-2, atol=1e-3
    )


def test_empty_matrices_and_others_are_left_alone() -> None:
    empty = variable(ShapedArray.of((0, 3), np.dtype(np.float32)), 0, 0)
    rtol = variable(ShapedArray.of((), np.dtype(np.float32)), 0, 1)
    whole = pinv_p.results(empty, rtol, arg=False)
    assert convert(whole, COMPOUNDS) == whole
    square = variable(ShapedArray.of((3, 3), np.dtype(np.float32)), 0, 2)
    other = svd_p.results(square, arg="full")
    assert convert(other, COMPOUNDS) == other
    parts = convert(cofactors_p.results(square), COMPOUNDS)
    assert not any(node.op is cofactors_p for node in toposort(parts))


@covering(2, dtype=DTYPES, shape=[(2,), (5,), (3, 20), (2, 2, 7)], columns=[1, 3])
def test_tridiagonal_systems_are_solved_without_the_host(
    shape: tuple[int, ...], columns: int, dtype: str
) -> None:
    below, middle, above = (sample(*shape, dtype=dtype) for _ in range(3))
    b = sample(*shape, columns, dtype=dtype)
    middle = middle + np.asarray(5, dtype)
    with ft.config(enable_x64=True):
        assert host_calls(lax.linalg.tridiagonal_solve, below, middle, above, b) == []
        got = ft.jit(lax.linalg.tridiagonal_solve)(below, middle, above, b)
    want = lax.linalg.tridiagonal_solve(below, middle, above, b)
    bound = 1e3 * np.finfo(dtype).eps * np.abs(want).max()
    np.testing.assert_allclose(got, want, rtol=0, atol=bound)


def test_a_singular_tridiagonal_system_is_nan_and_others_are_not() -> None:
    below, middle, above = (np.ones((3, 5), np.float32) for _ in range(3))
    middle = 4 * middle
    below[1, 1] = middle[1, 1] = above[1, 1] = 0
    b = np.ones((3, 5, 2), np.float32)
    for solve in (lax.linalg.tridiagonal_solve, ft.jit(lax.linalg.tridiagonal_solve)):
        missing = np.isnan(np.asarray(solve(below, middle, above, b))).any((1, 2))
        assert missing.tolist() == [False, True, False]
    perturbed = partial(lax.linalg.tridiagonal_solve, perturb_singular=True)
    x = np.abs(np.asarray(perturbed(below, middle, above, b)))
    np.testing.assert_array_equal(x[::2], np.abs(solve(below, middle, above, b))[::2])
    assert x[1].max() > 1e4
    assert np.isfinite(x).all()
    zero = np.zeros(3, np.float32)
    assert (np.asarray(perturbed(zero, zero, zero, b[0, :3])) > 1e6).all()
