"""Products of eager calls that are native: whatever is around the product of matrices.

Matrices of equal sizes are the sharpest test: a transpose that is forgotten fits, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.backends.base import get_device
from ftrace.trace.tiering import CALLS_BEFORE_RECORD as CALLS_BEFORE

DTYPES = ("float32", "float64", "int32", "int8", "complex64", "float16", "bool")
MATRICES = [
    f"{''.join(x)},{''.join(y)}->{''.join(out)}"
    for x in permutations("ij")
    for y in permutations("jk")
    for out in permutations("ik")
]
STACKS = [
    f"{''.join(x)},bjk->{''.join(out)}"
    for x in permutations("bij")
    for out in permutations("bik")
]
OTHERS = ["ij,ij->", "ij,ji->", "ij,ij->i", "ij,ij->j", "ij,ji->i", "ij,kl->ikjl"]


@pytest.fixture(autouse=True)
def cpu() -> Iterator[None]:
    with ft.config(device="cpu", enable_x64=True):
        get_device("cpu").make_native()
        yield


def numbers(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Any:
    """Whole numbers, whose products are exact in any order."""
    x = np.random.default_rng(seed).integers(-3, 4, shape)
    return (x + 1j * x[::-1] if dtype == "complex64" else x).astype(dtype)


def views_of(x: Any) -> list[Any]:
    """The same elements, or others, in other places of memory."""
    turned = np.ascontiguousarray(x.T).T
    spaced = np.repeat(x, 2, -1)[..., ::2]
    return [x, turned, spaced, x[::-1], np.broadcast_to(x[:1], x.shape)]


def check(function: Any, expected: Any, *operands: Any) -> None:
    """Native calls give what NumPy gives, and what Python's code gives."""
    arrays = [fnp.asarray(x) for x in operands]
    for _ in range(CALLS_BEFORE + 2):
        found = np.asarray(function(*arrays))
        np.testing.assert_array_equal(found, expected)
        assert found.shape == np.shape(expected)


@pytest.mark.parametrize("terms", [*MATRICES, *STACKS, *OTHERS])
def test_axes_in_any_order(terms):
    sides = terms.split("->")[0].split(",")
    x, y = (numbers((5,) * len(side), "float32", i) for i, side in enumerate(sides))
    check(lambda a, b: fnp.einsum(terms, a, b), np.einsum(terms, x, y), x, y)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("terms", ["ij,jk->ik", "ij,kj->ik", "ji,jk->ki", "ij,ij->"])
def test_any_dtype_and_any_strides(terms, dtype):
    x, y = numbers((6, 6), dtype), numbers((6, 6), dtype, 1)
    for a in views_of(x):
        for b in views_of(y)[1:3]:
            expected = np.einsum(terms, a, b)
            check(lambda p, q: fnp.einsum(terms, p, q), expected, a, b)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_vectors_of_any_strides(dtype):
    m, v = numbers((6, 6), dtype), numbers((12,), dtype, 1)
    for x in (v[:6], v[::2], v[5::-1], np.broadcast_to(v[:1], (6,))):
        for a in views_of(m):
            check(fnp.matmul, a @ x, a, x)
            check(fnp.matmul, x @ a, x, a)
            check(fnp.dot, np.dot(a, x), a, x)
        check(fnp.dot, np.dot(x, x[::-1]), x, x[::-1])


def test_products_of_one_shape_and_of_other_strides_take_turns():
    x, y = numbers((7, 7), "float32"), numbers((7, 7), "float32", 1)
    pairs = [(a, b) for a in views_of(x) for b in views_of(y)]
    arrays = [(fnp.asarray(a), fnp.asarray(b)) for a, b in pairs]
    for _ in range(CALLS_BEFORE + 2):
        for (a, b), (p, q) in zip(pairs, arrays, strict=True):
            np.testing.assert_array_equal(fnp.inner(p, q), np.inner(a, b))
            np.testing.assert_array_equal(fnp.tensordot(p, q, 1), a @ b)
            found = fnp.tensordot(p, q, ((0,), (1,)))
            np.testing.assert_array_equal(found, np.tensordot(a, b, ((0,), (1,))))


def test_batches_of_vectors_and_matrices():
    x, y = numbers((4, 4, 4), "float32"), numbers((4, 4, 4), "float32", 1)
    for a in views_of(x):
        v = y[0]
        check(fnp.matvec, np.einsum("bij,bj->bi", a, v), a, v)
        check(fnp.vecmat, np.einsum("bi,bij->bj", v, a), v, a)
        check(fnp.vecdot, np.vecdot(a, y), a, y)
        check(fnp.matmul, a @ y, a, y)
        expected = np.tensordot(a, y, ((0, 1), (0, 2)))
        check(lambda p, q: fnp.tensordot(p, q, ((0, 1), (0, 2))), expected, a, y)
