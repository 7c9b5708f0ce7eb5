"""Small images with channels last: some of them share the weights of a block."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ftrace as ft
from ftrace.backends.llvm.convolution.find import cut_columns
from ftrace.backends.llvm.schedule.schedule_tree import Accumulate
from ftrace.lower.kernel.ir import make_range
from tests.backends.llvm.convolution.test_window_detection import (
    expected,
    nhwc_schedule_of,
)
from tests.support.convolutions import gradient, strided
from tests.support.run_llvm_kernel import kernel_of

Array = np.ndarray[Any, Any]


def _normal(shape: Any, seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _last(x: Array) -> Array:
    return np.ascontiguousarray(np.moveaxis(x, 1, -1))


def _filters(w: Array) -> Array:
    return np.ascontiguousarray(np.moveaxis(w, (0, 1), (-1, -2)))


@pytest.mark.parametrize(("images", "inside", "outside", "sides", "pad"), [
    (8, 32, 512, (7, 7), 1), (5, 24, 48, (4, 6), 1), (13, 16, 33, (9, 5), 2),
    (3, 40, 300, (6, 6), 0), (9, 16, 32, (20,), 1), (5, 8, 24, (4, 5, 5), 1),
    (7, 16, 32, (11, 11), 1), (6, 16, 32, (12, 12), 1),
])  # fmt: skip
def test_small_images_side_by_side(
    images: int, inside: int, outside: int, sides: tuple[int, ...], pad: int
) -> None:
    x = _normal((images, inside, *sides), 1)
    w = _normal((outside, inside, *[3 for _ in sides]), 2)
    ones = tuple(1 for _ in sides)
    pads = tuple((pad, pad) for _ in sides)
    row = x.shape, w.shape, ones, pads, ones, 1
    wanted = expected(x, w, ones, pads, ones)
    function = strided(row, last=True)
    results: list[Array] = []
    for threads in (1, 2):
        with ft.config(threads=threads):
            results.append(np.asarray(ft.jit(function)(_last(x), _filters(w))))
    scale = np.abs(wanted).max()
    np.testing.assert_allclose(results[0], _last(wanted), rtol=0, atol=1e-5 * scale)
    np.testing.assert_array_equal(results[0], results[1])
    y = _normal(wanted.shape, 3)
    by_image = np.asarray(
        ft.jit(gradient(function, 0))(_last(x), _filters(w), _last(y))
    )
    with ft.config(device="interpreter"):
        given = _last(x), _filters(w), _last(y)
        other = np.asarray(ft.jit(gradient(function, 0))(*given))
    np.testing.assert_allclose(by_image, other, rtol=0, atol=1e-5 * np.abs(other).max())


def test_only_small_images_share_a_block() -> None:
    def images_of(images: int, side: int) -> tuple[int, int]:
        x, w = _normal((images, side, side, 64), 1), _normal((3, 3, 64, 256), 2)
        row = (None, None, (1, 1), ((1, 1), (1, 1)), (1, 1), 1)
        found = nhwc_schedule_of(kernel_of(strided(row, last=True), x, w))
        assert found is not None
        (add,) = [s for s in found.statements() if isinstance(s, Accumulate)]
        return len(add.rows.cut.within) - 1, add.rows.cut.size

    assert images_of(64, 7)[0] == 2
    assert 1 < images_of(64, 7)[1] < 64
    assert images_of(16, 14)[0] == 1


def test_blocks_of_columns_are_alike_where_they_can_be() -> None:
    columns = [(make_range(0, 16 * n, False),) for n in (1, 12, 16, 20, 24, 32, 34)]
    blocks = [cut_columns(column, 16, 12, 16).blocks for column in columns]
    assert blocks == [1, 1, 2, 2, 2, 2, 3]
