"""Matrices made of few numbers: block diagonal, Toeplitz, Hilbert."""

from __future__ import annotations

import numpy as np
import pytest

import ftrace as ft
from ftrace import errors
from ftrace.scipy import linalg
from ftrace.test_util import check_grads


def test_block_diag() -> None:
    got = linalg.block_diag(np.eye(2), 3, np.array([4, 5]), np.zeros((1, 0)))
    want = [
        [1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 3, 0, 0], [0, 0, 0, 4, 5],
        [0, 0, 0, 0, 0],
    ]  # fmt: skip
    np.testing.assert_array_equal(got, want)
    assert got.dtype == np.float64
    assert linalg.block_diag().shape == (1, 0)
    check_grads(linalg.block_diag, (np.ones((2, 1)), np.ones(3)), 1)
    with pytest.raises(errors.ShapeError, match="at most two axes"):
        linalg.block_diag(np.ones((1, 1, 1)))


@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 4), (4, 1), (3, 3), (2, 5), (5, 2)])
def test_toeplitz(n: int, m: int) -> None:
    rng = np.random.default_rng(0)
    c, r = rng.normal(size=(2, n)), rng.normal(size=m)
    i, j = np.indices((n, m))
    want = np.where(i >= j, c[:, np.abs(i - j) % n], r[np.abs(i - j) % m])
    np.testing.assert_array_equal(linalg.toeplitz(c, r), want)
    np.testing.assert_array_equal(ft.jit(linalg.toeplitz)(c, r), want)
    check_grads(linalg.toeplitz, (c, r), 1)


def test_toeplitz_of_a_column_is_hermitian() -> None:
    got = linalg.toeplitz(np.array([1, 2 + 1j, 1 + 2j]))
    want = [[1, 2 - 1j, 1 - 2j], [2 + 1j, 1, 2 - 1j], [1 + 2j, 2 + 1j, 1]]
    np.testing.assert_array_equal(got, want)
    assert linalg.toeplitz(3).shape == (1, 1)
    assert linalg.toeplitz(np.ones(0), np.ones(2)).shape == (0, 2)


def test_hilbert() -> None:
    want = [[1, 1 / 2, 1 / 3], [1 / 2, 1 / 3, 1 / 4], [1 / 3, 1 / 4, 1 / 5]]
    np.testing.assert_allclose(linalg.hilbert(3), want, rtol=1e-6)
    assert linalg.hilbert(0).shape == (0, 0)
    with pytest.raises(errors.ValueRangeError, match="negative"):
        linalg.hilbert(-1)
