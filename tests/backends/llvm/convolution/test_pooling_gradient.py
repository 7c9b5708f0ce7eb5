"""Pooling by windows that overlap, and its gradient, against NumPy loops."""

from __future__ import annotations

from typing import Any

import numpy as np

import ftrace as ft
from tests.support.covering import covering

Array = np.ndarray[Any, Any]

#: Window, stride, dilation, padding, and the size of both axes of an image.
CASES = [
    (3, 2, 1, (1, 1), (24, 37)), (3, 1, 1, (1, 1), (20, 33)),
    (5, 1, 1, (2, 2), (12, 14)), (3, 2, 1, (0, 1), (17, 48)),
    (2, 1, 1, (0, 0), (9, 19)), (3, 1, 2, (2, 2), (14, 21)),
    (5, 3, 1, (2, 1), (31, 40)), (6, 5, 1, (0, 0), (26, 31)),
]  # fmt: skip


def _places(case: Any, axis: int) -> list[list[int]]:
    """For each window along an axis, the places in it that are in the image."""
    size, stride, dilation, (before, after), shape = case
    n = shape[axis]
    count = (n + before + after - (size - 1) * dilation - 1) // stride + 1
    starts = [o * stride - before for o in range(count)]
    return [
        [p for p in range(s, s + size * dilation, dilation) if 0 <= p < n]
        for s in starts
    ]


def _greatest(x: Array, y: Array | None, case: Any) -> tuple[Array, Array]:
    """The maxima of windows of the last two axes, and the gradient by x."""
    rows, columns = _places(case, 0), _places(case, 1)
    found = np.zeros((*x.shape[:-2], len(rows), len(columns)), x.dtype)
    back = np.zeros(x.shape, np.float64)
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            part = x[..., row, :][..., column]
            most = part.max((-2, -1), keepdims=True)
            found[..., i, j] = most[..., 0, 0]
            if y is None:
                continue
            here = part == most
            share = (
                y[..., i : i + 1, j : j + 1]
                / np.maximum(here.sum((-2, -1)), 1)[..., None, None]
            )
            for a, r in enumerate(row):
                for b, c in enumerate(column):
                    back[..., r, c] += np.where(here[..., a, b], share[..., 0, 0], 0)
    return found, back


def _pooled(case: Any, last: bool) -> Any:
    size, stride, dilation, pads, _ = case

    def around(n: Any, one: Any) -> Any:
        return (one, n, n, one) if last else (one, one, n, n)

    def pooled(x: Any) -> Any:
        return ft.lax.reduce_window(
            x, -np.inf, ft.lax.max, around(size, 1), around(stride, 1),
            around(pads, (0, 0)), window_dilation=around(dilation, 1),
        )  # fmt: skip

    return pooled


@covering(2, values=["different", "ties", "special"], last=[False, True], case=CASES)
def test_pooling_and_its_gradient(case: Any, last: bool, values: str) -> None:
    rng = np.random.default_rng(5)
    x: Array = rng.standard_normal((2, 16, *case[-1])).astype(np.float32)
    if values == "ties":
        x = np.round(x)
    if values == "special":
        x.flat[::97] = np.inf
        x.flat[3::89] = -np.inf
        x.flat[5::101] = np.nan
    wanted, _ = _greatest(x, None, case)
    y: Array = rng.standard_normal(wanted.shape).astype(np.float32)
    _, back = _greatest(x, y, case)
    pooled = _pooled(case, last)

    def both(x: Any, y: Any) -> Any:
        found, pull = ft.vjp(pooled, x)
        return found, pull(y)[0]

    def gradient_alone(x: Any, y: Any) -> Any:
        return both(x, y)[1]

    def turned(a: Array, to: int) -> Array:
        return np.moveaxis(a, 1, -1) if last and to else a

    given = np.ascontiguousarray(turned(x, 1)), np.ascontiguousarray(turned(y, 1))
    for rules in ((), ("unshear_before_select", "unshear_before_sum_of_selects")):
        with ft.config(disabled_rules=rules):
            found, gradient = map(np.asarray, ft.jit(both)(*given))
            alone = np.asarray(ft.jit(gradient_alone)(*given))
        np.testing.assert_array_equal(found, turned(wanted, 1))
        np.testing.assert_allclose(gradient, turned(back, 1), rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(alone, gradient)
