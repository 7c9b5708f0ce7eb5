"""Factorisations of matrices that have none: NaN and infinity spread in one way.

At once, jitted, in batches and on the interpreter; small matrices, which are loops of a
kernel, and large ones, which LAPACK computes. Nothing raises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings as budget, strategies as st

import ftrace as ft
import ftrace.numpy as fnp
import ftrace.scipy.linalg as linalg

#: Sizes of unrolled loops, of loops, and of LAPACK.
SIZES = (1, 2, 4, 6, 7, 13, 16, 17, 25)
Function = Callable[[Any], Any]


def positive(n: int, dtype: Any = np.float32) -> Any:
    x = np.random.default_rng(n).standard_normal((n, n))
    return (x @ x.T + n * np.eye(n)).astype(dtype)


def kinds(x: Any) -> Any:
    """Of each element: is it NaN, +infinity, -infinity, or a number?"""
    x = np.asarray(x)
    return np.isnan(x) * 1 + np.isposinf(x) * 2 + np.isneginf(x) * 3


def everywhere(f: Function, a: Any) -> list[Any]:
    """The kinds of the results, computed in each way."""
    pair = np.stack([positive(len(a), a.dtype), a])
    with ft.config(device="interpreter"):
        interpreted = ft.jit(f)(a)
    found = [f(fnp.asarray(a)), ft.jit(f)(a), ft.jit(ft.vmap(f))(pair)[1], interpreted]
    return [kinds(x) for x in found]


def solve(a: Any) -> Any:
    return fnp.linalg.solve(a, fnp.ones((a.shape[-1], 3), a.dtype))


def substitute(a: Any) -> Any:
    return linalg.solve_triangular(a, fnp.ones((a.shape[-1], 3), a.dtype), lower=True)


def one_column(a: Any) -> Any:
    return linalg.solve_triangular(a, fnp.ones(a.shape[-1], a.dtype), lower=True)


ALIKE: dict[str, Function] = {
    "cholesky": fnp.linalg.cholesky,
    "solve_triangular": substitute,
    "solve_triangular of a column": one_column,
    "determinant": fnp.linalg.det,
}


@st.composite
def spoilt(draw: Any) -> Any:
    """A positive definite matrix with something in one place that does not belong."""
    n = draw(st.sampled_from(SIZES))
    a = positive(n, draw(st.sampled_from([np.float32, np.float64])))
    i, j = draw(st.integers(0, n - 1)), draw(st.integers(0, n - 1))
    a[i, j] = a[j, i] = draw(st.sampled_from([np.nan, np.inf, 0.0, -100.0]))
    if draw(st.booleans()):
        a[i, :] = a[:, i] = 0
    return a


@pytest.mark.parametrize("name", ALIKE)
@budget(max_examples=12)
@given(a=spoilt())
def test_what_is_no_number_stands_in_the_same_places(name: str, a: Any) -> None:
    first, *others = everywhere(ALIKE[name], a)
    for other in others:
        np.testing.assert_array_equal(other, first)


@budget(max_examples=15)
@given(n=st.sampled_from(SIZES), data=st.data())
def test_nan_in_a_matrix_is_in_all_that_depends_on_it(n: int, data: Any) -> None:
    a = positive(n)
    place = st.integers(0, n - 1)
    a[data.draw(place), data.draw(place)] = np.nan
    for f in (fnp.linalg.inv, solve, fnp.linalg.det):
        for found in everywhere(f, a):
            assert (found == 1).all()


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("pivot", [0.0, -1.0])
def test_a_matrix_without_a_root_has_nan_for_a_lower_triangle(
    n: int, pivot: float
) -> None:
    a = positive(n)
    a[n // 2, n // 2] = pivot
    for found in everywhere(fnp.linalg.cholesky, a):
        np.testing.assert_array_equal(found, np.tril(np.ones((n, n), int)))


@pytest.mark.parametrize("n", [2, 6, 12, 20])
def test_nan_leaves_the_rows_of_a_root_before_it_alone(n: int) -> None:
    a = positive(n)
    a[n - 1, n - 1] = np.nan
    wanted = np.zeros((n, n), int)
    wanted[-1, -1] = 1
    for found in everywhere(fnp.linalg.cholesky, a):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("n", [2, 6, 12, 20])
@pytest.mark.parametrize("f", [substitute, one_column])
def test_rows_before_a_zero_on_the_diagonal_are_solved(f: Function, n: int) -> None:
    a = np.tril(positive(n))
    at = n // 2
    a[at, at] = 0
    for found in everywhere(f, a):
        assert (found[:at] == 0).all()
        assert (found[at] >= 2).all()


@pytest.mark.parametrize("n", [1, 3, 8, 16, 20])
def test_a_matrix_of_zeros_has_no_inverse_and_no_exception(n: int) -> None:
    a = np.zeros((n, n), np.float32)
    for found in everywhere(fnp.linalg.inv, a):
        assert (found != 0).all()
    for found in everywhere(fnp.linalg.det, a):
        assert found == 0
    for device in ("cpu", "interpreter"):
        with ft.config(device=device):
            assert float(ft.jit(fnp.linalg.det)(a)) == 0
    sign, log = ft.jit(fnp.linalg.slogdet)(a)
    assert float(sign) == 0
    assert float(log) == -np.inf


# What is no number does not come from numbers: larger matrices, batches, complex ones.

MATRICES = st.tuples(
    st.sampled_from([(), (3,), (2, 3)]),
    st.sampled_from([5, 16, 17, 40, 130]),
    st.sampled_from([np.float32, np.float64, np.complex64, np.complex128]),
)


@budget(max_examples=6)
@given(kind=MATRICES)
def test_large_batched_and_complex_factorisations_are_numpys(kind: Any) -> None:
    lead, n, dtype = kind
    rng = np.random.default_rng(n)
    x = rng.standard_normal((*lead, n, n))
    if np.issubdtype(dtype, np.complexfloating):
        x = x + 1j * rng.standard_normal(x.shape)
    a = (x @ x.conj().swapaxes(-1, -2) / n + np.eye(n)).astype(dtype)
    single = dtype in (np.float32, np.complex64)
    close = {"rtol": 2e-3, "atol": 2e-3} if single else {"rtol": 1e-9, "atol": 1e-9}
    wide = a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)
    b = wide[..., :2]
    cases = (
        (fnp.linalg.cholesky, np.linalg.cholesky(wide)),
        (fnp.linalg.inv, np.linalg.inv(wide)),
        (lambda a: fnp.linalg.solve(a, a[..., :2]), np.linalg.solve(wide, b)),
        (lambda a: fnp.linalg.slogdet(a)[1], np.linalg.slogdet(wide)[1]),
        (fnp.linalg.eigvalsh, np.linalg.eigvalsh(wide)),
        (fnp.linalg.svdvals, np.linalg.svd(wide, compute_uv=False)),
    )
    for f, wanted in cases:
        for found in (f(fnp.asarray(a)), ft.jit(f)(a)):
            np.testing.assert_allclose(np.asarray(found), wanted, **close)
