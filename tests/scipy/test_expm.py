"""The exponential of matrices: its value, its derivatives, its batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.errors import ShapeError
from ftrace.scipy.linalg import expm, expm_frechet
from ftrace.testing import check_grads
from tests.support.covering import covering

scipy_linalg: Any = pytest.importorskip("scipy.linalg")
KINDS = ["float32", "float64", "complex64", "complex128"]


def _matrices(rng: Any, shape: tuple[int, ...], scale: float, dtype: str) -> Any:
    x = rng.standard_normal(shape) * scale / np.sqrt(shape[-1])
    if dtype.startswith("complex"):
        x = x + 1j * rng.standard_normal(shape) * scale / np.sqrt(shape[-1])
    return x.astype(dtype)


def _error(got: Any, a: Any) -> float:
    """Of the norm, in units of the last place of the dtype; SciPy's in double."""
    wide = a.astype("complex128" if a.dtype.kind == "c" else "float64")
    want = scipy_linalg.expm(wide)
    size = np.linalg.norm(want)
    return float(np.linalg.norm(np.asarray(got) - want) / size / np.finfo(a.dtype).eps)


@covering(
    1,
    {
        ("device", "n"): [
            ("cpu", 1), ("cpu", 2), ("cpu", 40), ("interpreter", 17), ("opencl", 17),
        ]
    },
    dtype=KINDS,
)  # fmt: skip
def test_exponential_is_exact_to_what_the_norm_leaves(
    dtype: str, n: int, device: Any
) -> None:
    jitted = ft.jit(expm)
    for scale in (0.0, 1e-3, 0.3, 2.0):
        a = _matrices(np.random.default_rng(n), (n, n), scale, dtype)
        for got in (expm(a), jitted(a)):
            assert got.dtype == dtype
            assert not got.weak_type
            assert _error(got, a) <= 6 * max(1, np.linalg.norm(a, 1)), scale


@pytest.mark.parametrize("dtype", KINDS)
def test_each_matrix_of_a_batch_is_squared_as_often_as_it_needs(dtype: str) -> None:
    rng = np.random.default_rng(0)
    scales = [0.0, 0.1, 30.0, 1.0, 3.0, 0.01]
    a = np.stack([_matrices(rng, (5, 5), s, dtype) for s in scales]).reshape(2, 3, 5, 5)
    got = np.asarray(ft.jit(expm)(a))
    for batched in (expm(a), ft.vmap(expm)(a), ft.jit(ft.vmap(ft.vmap(expm)))(a)):
        np.testing.assert_allclose(batched, got, rtol=2e-3 if "64" in dtype else 1e-3)
    for index in np.ndindex(2, 3):
        alone = np.asarray(ft.jit(expm)(a[index]))
        bound = 1e-3 * np.abs(alone).max()
        np.testing.assert_allclose(got[index], alone, rtol=0, atol=bound)


def test_matrices_that_are_not_finite_or_too_large_are_nan() -> None:
    a = np.zeros((4, 2, 2), np.float32)
    a[1, 0, 1] = np.inf
    a[2, 1, 1] = np.nan
    a[3] = np.eye(2) * 1e9
    for function in (expm, ft.jit(expm)):
        got = np.asarray(function(a))
        np.testing.assert_array_equal(got[0], np.eye(2))
        assert np.isnan(got[1:]).all()


def test_more_squarings_than_asked_for_are_nan() -> None:
    a = np.eye(3) * np.array([1.0, 10.0, 40.0])[:, None, None]
    got = np.asarray(ft.jit(lambda x: expm(x, max_squarings=0))(a))
    assert np.isfinite(got[:2]).all()
    assert np.isnan(got[2]).all()


def test_no_rows_and_no_matrices() -> None:
    for shape in ((0, 0), (0, 3, 3), (2, 0, 0)):
        a = np.zeros(shape, np.float32)
        assert expm(a).shape == ft.jit(expm)(a).shape == shape


@pytest.mark.parametrize("scale", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("jit", [False, True])
def test_derivatives_are_those_along_directions(scale: float, jit: bool) -> None:
    rng = np.random.default_rng(3)
    a, e = rng.standard_normal((2, 6, 6))
    a *= scale / np.sqrt(6)
    wrap: Any = ft.jit if jit else lambda f: f
    value, change = wrap(expm_frechet)(a, e)
    want_value, want = scipy_linalg.expm_frechet(a, e)
    np.testing.assert_allclose(value, want_value, rtol=1e-10)
    size = np.abs(want).max()
    np.testing.assert_allclose(change, want, rtol=0, atol=1e-11 * size)
    gradient = wrap(ft.grad(lambda x: fnp.sum(expm(x) * e)))(a)
    _, transposed = scipy_linalg.expm_frechet(a.T, e)
    size = np.abs(transposed).max()
    np.testing.assert_allclose(gradient, transposed, rtol=0, atol=1e-11 * size)


def test_second_derivatives_are_differences_of_first() -> None:
    rng = np.random.default_rng(4)
    a, d, e = rng.standard_normal((3, 4, 4))

    def along(x: Any) -> Any:
        return expm_frechet(x, fnp.asarray(d), compute_expm=False)

    check_grads(along, (a,), 1, rtol=1e-6, atol=1e-7, eps=1e-5)
    twice = ft.grad(lambda x: fnp.sum(ft.grad(lambda y: fnp.sum(expm(y)))(x) * e))(a)
    assert np.isfinite(np.asarray(twice)).all()


def test_directions_have_the_shape_of_the_matrices() -> None:
    with pytest.raises(ShapeError, match="direction"):
        expm_frechet(np.eye(3), np.eye(4))
