"""Fourier transforms: JAX's values, derivatives, batches, devices and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import errors, lax
from ftrace.scipy import fft as cosine
from ftrace.test_util import check_grads
from tests.data.linalg_cases import expressions
from tests.support.linalg_cases import check
from tests.support.refusals import refuses

KINDS = ("fft", "ifft", "rfft", "irfft")
LENGTHS = [(1,), (2,), (4,), (5,), (3, 4), (2, 3, 5)]


def sample(kind: str, lengths: tuple[int, ...], *lead: int) -> Any:
    """An operand of the transform, with leading axes; complex where it may be."""
    rng = np.random.default_rng(0)
    last = lengths[-1] // 2 + 1 if kind == "irfft" else lengths[-1]
    shape = (*lead, *lengths[:-1], last)
    x = rng.standard_normal(shape)
    return x if kind == "rfft" else x + 1j * rng.standard_normal(shape)


@pytest.mark.parametrize("expression", expressions("fft"))
def test_value_is_that_of_jax(expression: str) -> None:
    check(expression)


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_transform_is_numpys(kind: str, lengths: tuple[int, ...]) -> None:
    x = sample(kind, lengths, 2)
    axes = tuple(range(-len(lengths), 0))
    want = getattr(np.fft, f"{kind}n")(x, lengths, axes)
    np.testing.assert_allclose(lax.fft(x, kind, lengths), want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_are_differences(kind: str, lengths: tuple[int, ...]) -> None:
    x = sample(kind, lengths, 2)
    check_grads(lambda x: lax.fft(x, kind, lengths) ** 2, (x,), 2)


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_transpose_pairs_as_the_transform(kind: str, lengths: tuple[int, ...]) -> None:
    x = sample(kind, lengths)
    y, back = ft.vjp(lambda x: lax.fft(x, kind, lengths), x)
    rng = np.random.default_rng(1)
    ct = rng.standard_normal(y.shape)
    if np.iscomplexobj(y):
        ct = ct + 1j * rng.standard_normal(y.shape)
    (cotangent,) = back(ct.astype(y.dtype))
    left = np.sum(ct * np.asarray(y)).real
    np.testing.assert_allclose(np.sum(np.asarray(cotangent) * x).real, left)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("axis", [0, 1])
def test_vmap_is_a_loop(kind: str, axis: int) -> None:
    x = np.moveaxis(sample(kind, (3, 4), 5), 0, axis)

    def function(x: Any) -> Any:
        return lax.fft(x, kind, (3, 4))

    want = np.stack([np.asarray(function(row)) for row in np.moveaxis(x, axis, 0)])
    np.testing.assert_allclose(ft.vmap(function, axis)(x), want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_program_with_a_transform(device: Any, kind: str, dtype: str) -> None:
    x = sample(kind, (8,), 3)
    x = x.astype(dtype if kind == "rfft" else np.result_type(dtype, np.complex64))

    def function(x: Any) -> Any:
        y = lax.fft(x * 2, kind, (8,))
        return fnp.abs(y).sum(), y * y

    total, squares = ft.jit(function)(x)
    y = np.asarray(
        getattr(np.fft, kind)(2 * x.astype(complex if kind != "rfft" else float), 8)
    )
    tolerance = 1e-5 if dtype == "float32" else 1e-11
    np.testing.assert_allclose(total, np.abs(y).sum(), rtol=tolerance)
    np.testing.assert_allclose(squares, y * y, rtol=tolerance, atol=100 * tolerance)
    assert squares.dtype == (dtype if kind == "irfft" else np.result_type(dtype, "c8"))


def test_convolution_theorem_has_the_gradient_of_a_convolution(device: Any) -> None:
    rng = np.random.default_rng(2)
    x, k = rng.standard_normal(16), rng.standard_normal(16)

    def fast(x: Any, k: Any) -> Any:
        y = fnp.fft.irfft(fnp.fft.rfft(x) * fnp.fft.rfft(k))
        return fnp.sum(fnp.tanh(y))

    def slow(x: Any, k: Any) -> Any:
        turn = (np.arange(16)[:, None] - np.arange(16)) % 16
        return fnp.sum(fnp.tanh(fnp.take(k, turn) @ x))

    got, want = (ft.jit(ft.grad(f, argnums=(0, 1)))(x, k) for f in (fast, slow))
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)


def test_transform_inside_a_loop() -> None:
    """Steps of a spectral solver of the heat equation, against one long step."""
    x = np.exp(-(np.linspace(-3, 3, 32) ** 2))
    decay = np.exp(-((np.fft.rfftfreq(32) * 2 * np.pi) ** 2) * 0.1)

    def step(_: Any, u: Any) -> Any:
        return fnp.fft.irfft(fnp.fft.rfft(u) * decay, n=32)

    got = ft.jit(lambda x: lax.fori_loop(0, 10, step, x))(x)
    want = np.fft.irfft(np.fft.rfft(x) * decay**10, 32)
    np.testing.assert_allclose(got, want, rtol=1e-10)
    check_grads(lambda x: lax.fori_loop(0, 3, step, x), (x,), 1)


# Cosine transforms.


def cosines(n: int, kind: int) -> Any:
    """The matrix of a cosine transform, by its definition."""
    places = np.arange(n)
    matrix = 2 * np.cos(np.pi * np.outer(places, 2 * places + 1) / (2 * n))
    if kind == 2:
        return matrix
    matrix[0] = 1
    return matrix.T


@pytest.mark.parametrize("norm", [None, "backward", "ortho", "forward"])
@pytest.mark.parametrize("n", [1, 2, 5, 8])
@pytest.mark.parametrize("kind", [2, 3])
def test_cosine_transform_is_its_sum(kind: int, n: int, norm: str | None) -> None:
    x = np.random.default_rng(0).standard_normal((3, n))
    want = x @ cosines(n, kind).T
    got = np.asarray(cosine.dct(x, kind, norm=norm))
    if norm == "ortho":
        np.testing.assert_allclose(np.sum(got**2), np.sum(x**2))
    else:
        divisor = 2 * n if norm == "forward" else 1
        np.testing.assert_allclose(got, want / divisor, atol=1e-12)
    np.testing.assert_allclose(cosine.idct(got, kind, norm=norm), x, atol=1e-12)
    check_grads(lambda x: cosine.dct(x, kind, norm=norm) ** 2, (x,), 2)


def test_cosine_transforms_along_axes(device: Any) -> None:
    x = np.random.default_rng(0).standard_normal((3, 4, 5))
    got = ft.jit(lambda x: cosine.dctn(x, axes=(0, 2)))(x)
    want = np.einsum("ijk,ai,bk->ajb", x, cosines(3, 2), cosines(5, 2))
    np.testing.assert_allclose(got, want, atol=1e-10)
    np.testing.assert_allclose(cosine.idctn(got, axes=(0, 2)), x, atol=1e-12)
    longer = cosine.dct(x, n=7, axis=1)
    padded = np.pad(x, [(0, 0), (0, 3), (0, 0)])
    np.testing.assert_allclose(longer, cosine.dct(padded, axis=1), atol=1e-12)
    one = cosine.dctn(x, s=3, axes=1)
    np.testing.assert_array_equal(one, cosine.dct(x, n=3, axis=1))
    shorter = cosine.dctn(x, s=(2, 3))
    np.testing.assert_allclose(shorter, cosine.dctn(x[:, :2, :3], axes=(1, 2)))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: fnp.fft.fft(x, norm="x"), errors.ValueRangeError, "'ortho'"),
        (lambda x: fnp.fft.fft(x, 0), errors.ValueRangeError, "at least 1"),
        (lambda x: fnp.fft.fft(x, axis=3), errors.AxisError, "axis 3"),
        (lambda x: fnp.fft.rfft(x * 1j), errors.DtypeError, "use fft for complex"),
        (lambda x: fnp.fft.fft2(x, axes=(0,)), errors.AxisError, "two axes"),
        (lambda x: fnp.fft.fftn(x, (2,), (0, 1)), errors.ShapeError, "one length per"),
        (lambda x: fnp.fft.fftn(x, axes=(0, 0)), errors.AxisError, "duplicate"),
        (lambda x: lax.fft(x, "dct", (4,)), errors.ValueRangeError, "'fft', 'ifft'"),
        (lambda x: lax.fft(x, "fft", (5,)), errors.ShapeError, "pad or slice"),
        (lambda x: lax.fft(x, "fft", (2, 3, 4)), errors.ShapeError, "of the operand"),
        (lambda x: cosine.dct(x, 5), errors.ValueRangeError, "2 or 3"),
        (lambda x: cosine.dct(x, norm="x"), errors.ValueRangeError, "'ortho'"),
        (lambda x: cosine.dct(x, n=0), errors.ValueRangeError, "at least 1"),
        (lambda x: cosine.dctn(x, s=(2,), axes=(0, 1)), errors.ShapeError, "per axis"),
    ],
)
def test_bad_input_is_named(call: Any, error: type[Exception], message: str) -> None:
    with refuses(error, message):
        call(np.ones((3, 4)))


@pytest.mark.parametrize("name", ["irfft", "hfft", "irfft2", "irfftn"])
def test_the_inverse_of_nothing_is_nothing(name: str) -> None:
    found = getattr(fnp.fft, name)(np.zeros((3, 0), np.float32))
    assert (found.shape, found.dtype) == ((3, 0), np.float32)
    assert getattr(fnp.fft, name)(np.zeros((0, 0), np.complex128)).shape == (0, 0)


@pytest.mark.parametrize("name", ["fftn", "ifftn", "irfftn"])
def test_a_transform_along_no_axis_has_the_dtype_of_a_spectrum(name: str) -> None:
    for x in (np.ones(3, np.uint32), np.ones((), bool), np.ones(2, np.complex64)):
        assert getattr(fnp.fft, name)(x, axes=()).dtype == np.complex64
