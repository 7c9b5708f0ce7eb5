"""NumPy's functions of stacked matrices.

Each has the bits of the function of NumPy's that it stands for, and what is not to be
factorised is NaN.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
import ftrace.scipy.linalg as scipy_linalg
from ftrace.backends.base import get_device
from ftrace.ground.errstate import ignore_errors, restore_errors
from ftrace.trace.avals import ShapedArray
from ftrace.trace.bind import bind_compound
from ftrace.trace.linalg_compositions import det_p
from ftrace.trace.primitives.library import lapack_numpy
from ftrace.trace.primitives.library.factors import eig_p, eigh_p, eigvals_p, svd_p
from ftrace.trace.primitives.library.systems import cholesky_p, slogdet_p
from ftrace.trace.tiering import CALLS_BEFORE_RECORD as CALLS_BEFORE

DTYPES = ("float32", "float64", "complex64", "complex128")
SHAPES = [(1, 1), (3, 3), (8, 8), (4, 5, 5), (2, 3, 2, 2), (0, 4, 4)]
PLAIN: dict[str, Any] = {
    "eigh": lambda x: np.linalg.eigh(x, "L"),
    "eigh_up": lambda x: np.linalg.eigh(x, "U"),
    "svd_full": lambda x: np.linalg.svd(x),
    "svd_reduced": lambda x: np.linalg.svd(x, full_matrices=False),
    "svdvals": lambda x: np.linalg.svdvals(x),
    "cholesky": lambda x: np.linalg.cholesky(x),
    "det": lambda x: np.linalg.det(x),
    "slogdet": lambda x: np.linalg.slogdet(x),
}


def meaning(op: Any, arg: Any = None) -> Any:
    def compute(x: Any) -> Any:
        return op.numpy(op.infer(arg, ShapedArray.of(x.shape, x.dtype)), arg, x)

    return compute


LOOPS: dict[str, Any] = {
    "eigh": lambda x: meaning(eigh_p, True)(x)[::-1],
    "eigh_up": lambda x: meaning(eigh_p, False)(x)[::-1],
    "svd_full": meaning(svd_p, "full"),
    "svd_reduced": meaning(svd_p, "reduced"),
    "svdvals": meaning(svd_p, "values"),
    "cholesky": meaning(cholesky_p),
    "det": meaning(det_p),
    "slogdet": meaning(slogdet_p),
}
FAILING = ("cholesky", "eigh", "svd_full")


@pytest.fixture(autouse=True)
def cpu() -> Iterator[None]:
    with ft.config(device="cpu", enable_x64=True):
        get_device("cpu").make_native()
        yield


def matrices(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Any:
    """Hermitian ones with positive eigenvalues."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    x = x @ x.conj().swapaxes(-1, -2) + np.eye(shape[-1])
    return x.astype(dtype)


def quietly(function: Any, *operands: Any) -> Any:
    token = ignore_errors()
    try:
        return function(*operands)
    finally:
        restore_errors(token)


def several(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, tuple) else (value,)


def check_same(found: Any, expected: Any) -> None:
    for one, other in zip(found, several(expected), strict=True):
        one, other = np.asarray(one), np.asarray(other)
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", PLAIN)
def test_a_function_has_the_bits_of_numpy(name, dtype, shape):
    x = matrices(shape, dtype)
    check_same(quietly(LOOPS[name], x), PLAIN[name](x))
    turned = x.swapaxes(-1, -2)
    check_same(quietly(LOOPS[name], turned), PLAIN[name](turned))


@pytest.mark.parametrize("dtype", DTYPES)
def test_eigenvectors_of_both_sides_are_multiplied_by_their_values(dtype):
    x = matrices((3, 5, 5), dtype) + np.triu(matrices((3, 5, 5), dtype, 2))
    values, left, right = bind_compound(eig_p, fnp.asarray(x))
    (alone,) = meaning(eigvals_p)(x)
    assert values.dtype == alone.dtype == left.dtype == right.dtype
    values, left, right = map(np.asarray, (values, left, right))
    atol = 1e-5 * np.abs(x).max()
    np.testing.assert_allclose(alone, values, 2e-4, atol)
    np.testing.assert_allclose(x @ right, right * values[..., None, :], 2e-4, atol)
    turned = left.conj().swapaxes(-1, -2)
    np.testing.assert_allclose(turned @ x, turned * values[..., None], 2e-4, atol)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FAILING)
def test_what_fails_is_nan_and_the_rest_of_the_batch_is_not(name, dtype):
    x = matrices((3, 4, 4), dtype)
    x[1] = np.nan if name in ("eigh", "svd_full") else 0
    found = quietly(LOOPS[name], x)
    for result in found:
        assert np.isnan(result[1]).any()
        assert np.isfinite(result[[0, 2]]).all()
    check_same([r[0] for r in found], several(PLAIN[name](x[0])))


@pytest.mark.parametrize("shape", [(2, 2), (4, 2, 2), (4, 3, 3), (2, 3, 8, 8)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_batches_of_systems_are_those_of_numpy_and_of_jit(dtype, shape):
    a, b = matrices(shape, dtype), matrices(shape, dtype, 1)
    single = np.dtype(dtype).itemsize == (8 if "complex" in dtype else 4)
    rtol = 1e-3 if single else 1e-9
    x, y = fnp.asarray(a), fnp.asarray(b)
    for function, wide in (
        (fnp.linalg.inv, np.linalg.inv(a.astype("complex128"))),
        (fnp.linalg.det, np.linalg.det(a.astype("complex128"))),
        (lambda v: fnp.linalg.solve(v, y), np.linalg.solve(a.astype("complex128"), b)),
    ):
        atol = rtol * abs(wide).max()
        for found in (function(x), ft.jit(function)(x)):
            assert found.dtype == dtype
            np.testing.assert_allclose(np.asarray(found), wide, rtol=rtol, atol=atol)


def test_many_small_systems_are_solved_by_one_program_not_row_by_row(monkeypatch):
    monkeypatch.setattr(lapack_numpy, "eliminate", None)
    monkeypatch.setattr(lapack_numpy, "substitute", None)
    a, b = matrices((600, 3, 3), "float32"), matrices((600, 3, 3), "float32", 1)
    np.testing.assert_allclose(fnp.linalg.inv(a), np.linalg.inv(a), rtol=1e-3)
    np.testing.assert_allclose(fnp.linalg.solve(a, b), np.linalg.solve(a, b), rtol=1e-2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_singular_matrices_of_a_batch_are_as_under_jit(dtype):
    a = matrices((3, 3, 3), dtype)
    a[1] = 0
    b = matrices((3, 3, 3), dtype, 1)
    for function in (fnp.linalg.inv, lambda v: fnp.linalg.solve(v, b)):
        found, traced = np.asarray(function(a)), np.asarray(ft.jit(function)(a))
        assert not np.isfinite(found[1]).any()
        np.testing.assert_array_equal(np.isfinite(found), np.isfinite(traced))
    found = np.asarray(fnp.linalg.det(a))
    assert found[1] == 0


NATIVE: dict[str, Any] = {
    "eig": lambda x: fnp.linalg.eig(x),
    "eigh": lambda x: fnp.linalg.eigh(x),
    "inv of a batch": lambda x: fnp.linalg.inv(x),
    "slogdet": lambda x: fnp.linalg.slogdet(x),
    "qr": lambda x: (fnp.linalg.qr(x), fnp.linalg.qr(x, "r")),
    "svd": lambda x: fnp.linalg.svd(x),
    "lstsq": lambda x: fnp.linalg.lstsq(x[0], x[1, :, 0]),
    "lstsq of a matrix": lambda x: fnp.linalg.lstsq(x[0, :, :2], x[1]),
    "cho_solve": lambda x: scipy_linalg.cho_solve((x[0], True), x[1, 0]),
    "triangular": lambda x: scipy_linalg.solve_triangular(x[0], x[1, 0]),
    "lu": lambda x: scipy_linalg.lu(x[0]),
    "toeplitz": lambda x: scipy_linalg.toeplitz(x[0, 0]),
    "dot": lambda x: fnp.dot(x[0, 0], x[1, 1]),
    "vdot": lambda x: fnp.vdot(x, x + 1),
    "norm": lambda x: fnp.linalg.norm(x),
    "norm of rows": lambda x: fnp.linalg.norm(x, axis=-1),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NATIVE)
def test_native_calls_have_the_bits_of_those_in_python(name, dtype):
    function = NATIVE[name]
    arrays = [fnp.asarray(matrices((3, 6, 6), dtype, i)) for i in range(3)]
    views = [fnp.asarray(np.asarray(x)[:, ::-1, ::-1].swapaxes(1, 2)) for x in arrays]
    views += [fnp.asarray(np.broadcast_to(matrices((6, 6), dtype), (3, 6, 6)))]
    if "inv" in name or "eig" in name or "lstsq" in name:
        views = []  # no matrices that all of these take
    with ft.config(native_calls=False):
        expected = [ft.tree.leaves(function(x)) for x in (*arrays, *views)]
    for _ in range(CALLS_BEFORE + 2):
        for x, before in zip((*arrays, *views), expected, strict=True):
            check_same(ft.tree.leaves(function(x)), tuple(before))


def test_least_squares_are_those_of_the_composition():
    for shape, seed in (((8, 8), 0), ((20, 3), 1), ((3, 7), 2)):
        a = np.random.default_rng(seed).standard_normal(shape).astype("float32")
        b = np.random.default_rng(9).standard_normal((shape[0], 2)).astype("float32")
        a[:, 1] = a[:, 0]  # of less rank
        for columns in (b, b[:, 0]):
            now = fnp.linalg.lstsq(a, columns)
            traced = ft.jit(fnp.linalg.lstsq)(a, columns)
            for one, other in zip(now, traced, strict=True):
                assert (one.dtype, one.weak_type) == (other.dtype, other.weak_type)
                np.testing.assert_allclose(one, other, rtol=2e-3, atol=2e-5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_triangle_alone_is_that_of_qr(dtype):
    for shape in ((5, 3), (3, 5), (2, 4, 4)):
        x = matrices((*shape[:-2], 5, 5), dtype)[..., : shape[-2], : shape[-1]]
        both = fnp.linalg.qr(x)
        check_same((fnp.linalg.qr(x, "r"),), (np.asarray(both.R),))
