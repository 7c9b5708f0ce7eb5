"""Products of matrices as users write them: every shape, layout and thread count."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.ground import settings
from tests.support.covering import covering

Array = np.ndarray[Any, Any]


def normals(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def assert_product(found: Any, a: Array, b: Array) -> None:
    """Within the bound for sums of products, whatever their order."""
    wide = np.float64 if a.dtype == np.float32 else np.longdouble
    wanted = a.astype(wide) @ b.astype(wide)
    bound = abs(a).astype(wide) @ abs(b).astype(wide)
    error = abs(np.asarray(found).astype(wide) - wanted)
    eps = np.finfo(a.dtype).eps
    # A sum of n terms in blocks has an error of about sqrt(n) roundings.
    assert (error <= 8 * eps * np.sqrt(a.shape[-1]) * bound + 1e-30).all()


# Long sums of few results.


@pytest.mark.parametrize("size", [1 << 14, 16_411, 20_000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_long_sum_is_cut_into_parts(size: int, dtype: Any) -> None:
    a, b = normals(size, 16, dtype=dtype), normals(size, 9, dtype=dtype, seed=1)
    f = ft.jit(lambda a, b: a.T @ b, device="cpu")
    assert_product(f(a, b), np.ascontiguousarray(a.T), b)
    (parts, *_) = f.lower(a, b).kernels
    assert parts.shape[0] >= 8
    with settings.config(disabled_rules={"split_contraction"}):
        whole = ft.jit(lambda a, b: a.T @ b, device="cpu")
        assert len(whole.lower(a, b).kernels) == 1
        assert_product(whole(a, b), np.ascontiguousarray(a.T), b)


def test_parts_of_a_sum_do_not_depend_on_threads() -> None:
    a, b = normals(16_411, 16), normals(16_411, 9, seed=1)
    f = ft.jit(lambda a, b: a.T @ b * 2, device="cpu")
    found: list[bytes] = []
    for threads in (1, 2, 3, 5):
        with ft.set_threads(threads):
            found.append(np.asarray(f(a, b)).tobytes())
    assert len(set(found)) == 1


def test_infinities_stay_in_their_rows() -> None:
    a, b = normals(16, 1 << 14), normals(1 << 14, 8, seed=1)
    a[3, 77] = np.inf
    b[:, 5] = -0.0
    found = np.asarray(ft.jit(lambda a, b: a @ b, device="cpu")(a, b))
    with np.errstate(invalid="ignore"):
        wanted = a @ b
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(wanted))
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))


# Few columns.


@covering(
    2,
    columns=[2, 3, 4, 7, 8],
    length=[37, 300, 512, 1031],
    dtype=[np.float32, np.float64],
)
def test_products_of_few_columns(columns: int, length: int, dtype: Any) -> None:
    a = normals(61, length, dtype=dtype)
    b = normals(length, columns, dtype=dtype, seed=1)
    turned = np.ascontiguousarray(b.T)
    f = ft.jit(lambda a, b: a @ b, device="cpu")
    g = ft.jit(lambda a, b: fnp.maximum(a @ b.T + 1, 0), device="cpu")
    assert_product(f(a, b), a, b)
    np.testing.assert_allclose(
        np.asarray(g(a, turned)), np.maximum(a @ b + 1, 0), rtol=1e-4, atol=1e-4
    )


def test_long_expressions_of_few_columns() -> None:
    a, b = normals(70, 300) / 20, normals(300, 3, seed=1)

    def product(a: Any, b: Any) -> Any:
        y = a @ b
        return fnp.tanh(y) * fnp.exp(-y * y) + y / (1 + abs(y)) - 2

    found = np.asarray(ft.jit(product, device="cpu")(a, b))
    y = a.astype(np.float64) @ b
    wanted = np.tanh(y) * np.exp(-y * y) + y / (1 + abs(y)) - 2
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_few_columns_in_batches() -> None:
    a, b = normals(3, 40, 301), normals(3, 301, 3, seed=1)
    f = ft.jit(lambda a, b: a @ b, device="cpu")
    assert_product(f(a, b), a, b)
    assert_product(f(a, b[0]), a, b[0])
    assert_product(f(a.reshape(3, 4, 10, 301), b[0]), a.reshape(3, 4, 10, 301), b[0])


def test_bits_of_few_columns_do_not_depend_on_threads() -> None:
    a, b = normals(5000, 301), normals(301, 3, seed=1)
    f = ft.jit(lambda a, b: a @ b, device="cpu")
    found: list[bytes] = []
    for threads in (1, 2, 5):
        with ft.set_threads(threads):
            found.append(np.asarray(f(a, b)).tobytes())
    assert len(set(found)) == 1


@pytest.mark.parametrize("columns", [2, 3])
@pytest.mark.parametrize("length", [2, 9, 33])
def test_few_columns_of_short_sums(columns: int, length: int) -> None:
    a, b = normals(333, length), normals(length, columns, seed=1)
    f = ft.jit(lambda a, b: a @ b, device="cpu")
    assert_product(f(a, b), a, b)
    c, d = normals(70, 16, length), normals(70, length, columns, seed=1)
    assert_product(f(c, d), c, d)


# Many small products.


@pytest.mark.parametrize("sizes", [(12, 12, 12), (8, 5, 21), (24, 7, 9), (9, 70, 5)])
@pytest.mark.parametrize("turned", ["", "a", "b", "ab"])
@pytest.mark.parametrize("count", [1, 60])
def test_small_products(sizes: tuple[int, int, int], turned: str, count: int) -> None:
    m, k, n = sizes
    a, b = normals(count, m, k), normals(count, k, n, seed=1)
    x = np.ascontiguousarray(a.swapaxes(1, 2)) if "a" in turned else a
    y = np.ascontiguousarray(b.swapaxes(1, 2)) if "b" in turned else b

    def product(x: Any, y: Any) -> Any:
        x = x.swapaxes(1, 2) if "a" in turned else x
        return x @ (y.swapaxes(1, 2) if "b" in turned else y)

    assert_product(ft.jit(product, device="cpu")(x, y), a, b)


@pytest.mark.parametrize("dtype", [fnp.float16, fnp.bfloat16])
@pytest.mark.parametrize("sizes", [(1, 3, 1), (1, 64, 1), (1, 3, 64), (5, 7, 2)])
def test_products_of_16_bit_floats_are_not_rounded_before_the_sum(
    dtype: Any, sizes: tuple[int, int, int]
) -> None:
    rng = np.random.default_rng(8)
    rows, inner, columns = sizes
    x = rng.normal(size=(rows, inner)).astype(dtype)
    y = rng.normal(size=(inner, columns)).astype(dtype)
    wide = x.astype(np.float64), y.astype(np.float64)
    exact = wide[0] @ wide[1]
    allowed = float(fnp.finfo(dtype).eps) / 2 * np.abs(exact)
    allowed += inner * 2.0**-23 * (np.abs(wide[0]) @ np.abs(wide[1]))
    for found in (fnp.asarray(x) @ fnp.asarray(y), ft.jit(fnp.matmul)(x, y)):
        assert (np.abs(np.asarray(found, np.float64) - exact) <= allowed).all()
