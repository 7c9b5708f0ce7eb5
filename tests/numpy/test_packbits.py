"""packbits and unpackbits, held to NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from tests.support.covering import covering

SHAPES = [(0,), (1,), (7,), (9,), (3, 17), (16, 5), (2, 9, 3), (100, 33), (70_001,)]


@covering(1, order=["big", "little"], dtype=["bool", "uint8", "int32"], shape=SHAPES)
def test_packed_bits_are_those_of_numpy(
    shape: tuple[int, ...], dtype: str, order: Any
) -> None:
    random = np.random.default_rng(0)
    x = (random.integers(-1, 2, shape) * 256 // 255).astype(dtype)
    axes = (None, *range(len(shape)))

    def packed(x: Any) -> list[Any]:
        return [fnp.packbits(x, axis, order) for axis in axes]

    for results in (packed(x), ft.jit(packed)(x)):
        for axis, result in zip(axes, results, strict=True):
            assert result.dtype == np.uint8
            wanted = np.packbits(x.astype(bool), axis, order)
            np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("order", ["big", "little"])
def test_bits_come_back(order: Any) -> None:
    x = np.random.default_rng(1).random((5, 4000)) < 0.5

    @ft.jit
    def round_trip(x: Any) -> Any:
        return fnp.unpackbits(fnp.packbits(x, 1, order), 1, bitorder=order)

    np.testing.assert_array_equal(round_trip(x), x)


def test_lanes_are_packed_by_themselves() -> None:
    x = np.random.default_rng(2).random((6, 19)) < 0.5
    found = ft.vmap(fnp.packbits)(x)
    np.testing.assert_array_equal(found, np.packbits(x, 1))
