"""Products of matrices as users write them: every shape, layout and thread count."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ftrace as ft
from ftrace import settings

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
