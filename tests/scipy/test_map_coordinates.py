"""Interpolation is that of jax.scipy.ndimage 0.10, whose numbers these are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import errors
from ftrace.scipy import ndimage

IMAGE = np.array([[1, 2, 4], [7, 11, 16]], np.float32)
PLACES = [
    np.array([-1.3, -0.5, 0.25, 0.5, 1.7, 2.6], np.float32),
    np.array([-2.2, 0.5, 1.5, 1.75, 2.5, 4.3], np.float32),
]
INTERPOLATED = {
    ("constant", 0): [-3, -3, 4, 16, -3, -3],
    ("constant", 1): [-3, -0.75, 5.625, 9.125, -0.15, -3],
    ("nearest", 0): [1, 2, 4, 16, 16, 16],
    ("nearest", 1): [1, 1.5, 5.625, 9.125, 16, 16],
    ("wrap", 0): [11, 11, 4, 16, 1, 11],
    ("wrap", 1): [7.68, 5.25, 5.625, 9.125, 5.2, 8.54],
    ("mirror", 0): [16, 11, 4, 16, 2, 7],
    ("mirror", 1): [11.58, 5.25, 5.625, 9.125, 6.15, 5.44],
    ("reflect", 0): [2, 2, 4, 16, 16, 2],
    ("reflect", 1): [5.28, 1.5, 5.625, 9.125, 16, 4.94],
}


@pytest.mark.parametrize(("mode", "order"), INTERPOLATED)
def test_map_coordinates(mode: str, order: int) -> None:
    def f(x: Any, *places: Any) -> Any:
        return ndimage.map_coordinates(x, places, order, mode, cval=-3.0)

    want = INTERPOLATED[mode, order]
    for function in (f, ft.jit(f)):
        np.testing.assert_allclose(function(IMAGE, *PLACES), want, rtol=1e-5)


def test_derivatives_of_map_coordinates() -> None:
    def of_rows(rows: Any) -> Any:
        return fnp.sum(ndimage.map_coordinates(IMAGE, [rows, PLACES[1]], 1, "mirror"))

    def of_image(x: Any) -> Any:
        return fnp.sum(ndimage.map_coordinates(x, PLACES, 1, "reflect"))

    want = [11.4, -7.5, 10.5, 11.25, -10.5, 6.9]
    np.testing.assert_allclose(ft.grad(of_rows)(PLACES[0]), want, rtol=1e-5)
    want = [[0.68, 1.98, 0.89], [0.12, 0.77, 1.56]]
    np.testing.assert_allclose(ft.grad(of_image)(IMAGE), want, rtol=1e-5)


def test_map_coordinates_of_integers() -> None:
    x = np.array([1, 4, 9])
    got = ndimage.map_coordinates(x, [np.array([0.5, 1.3, 2.5])], 1, "nearest")
    np.testing.assert_array_equal(got, [3, 6, 9])
    assert got.dtype == x.dtype
    got = ndimage.map_coordinates(x, [np.array([-1, 2, 3])], 1, "wrap")
    np.testing.assert_array_equal(got, [9, 9, 1])
    one = ndimage.map_coordinates(x[:1], [np.array([-1, 2, 3])], 0, "mirror")
    np.testing.assert_array_equal(one, [1, 1, 1])


def test_map_coordinates_refuses() -> None:
    with pytest.raises(errors.ShapeError, match="one array of coordinates per axis"):
        ndimage.map_coordinates(IMAGE, PLACES[:1], 1)
    with pytest.raises(errors.ValueRangeError, match="order must be 0 or 1"):
        ndimage.map_coordinates(IMAGE, PLACES, 3)
    with pytest.raises(errors.ValueRangeError, match="mode must be 'constant'"):
        ndimage.map_coordinates(IMAGE, PLACES, 1, "grid-wrap")
