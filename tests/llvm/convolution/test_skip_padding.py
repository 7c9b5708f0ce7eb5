"""Taps that see padding alone are left out, and nothing changes."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import ftrace as ft
from ftrace.devices.llvm.contraction.find_windows import Window
from ftrace.devices.llvm.convolution.skip_padding import Bounds, Seen
from ftrace.lower.kernel.ir import make_range

Array = np.ndarray[Any, Any]

#: Images, channels in and out, sides, window, stride, dilation, padding.
CASES = [
    (2, 32, 32, (28, 28), 3, 1, 6, (6, 6)), (2, 32, 32, (32, 32), 3, 1, 12, (12, 12)),
    (1, 48, 40, (33, 30), 3, 1, 9, (9, 9)), (3, 16, 24, (14, 15), 5, 1, 1, (2, 2)),
    (2, 32, 33, (7, 9), 5, 1, 1, (2, 2)), (1, 32, 32, (40, 36), 5, 2, 3, (6, 6)),
    (2, 24, 32, (16, 20), 7, 1, 2, (9, 3)), (2, 32, 32, (200,), 3, 1, 60, (60, 60)),
    (1, 16, 16, (9, 11, 12), 3, 1, 4, (4, 4)),
    (2, 32, 32, (12, 44), 3, 1, 14, (14, 14)),
]  # fmt: skip


def _operands(case: Any, last: bool, dtype: Any) -> tuple[Any, Array, Array]:
    images, inside, outside, sides, window, stride, dilation, pads = case
    rng = np.random.default_rng(7)
    x = rng.standard_normal((images, inside, *sides)).astype(dtype)
    w = rng.standard_normal((outside, inside, *[window for _ in sides])).astype(dtype)
    names = "HWD"[: len(sides)]
    layout = (f"NC{names}", f"OI{names}", f"NC{names}")
    if last:
        x, w = np.moveaxis(x, 1, -1), np.moveaxis(w, (0, 1), (-1, -2))
        layout = (f"N{names}C", f"{names}IO", f"N{names}C")

    def convolve(x: Any, w: Any) -> Any:
        return ft.lax.conv_general_dilated(
            x, w, [stride for _ in sides], [pads for _ in sides],
            rhs_dilation=[dilation for _ in sides], dimension_numbers=layout,
        )  # fmt: skip

    return convolve, np.ascontiguousarray(x), np.ascontiguousarray(w)


def _both(convolve: Any) -> Any:
    """The convolution, and its gradients by the image and by the filters."""

    def both(x: Any, w: Any, back: Any) -> Any:
        y, pull = ft.vjp(convolve, x, w)
        return y, *pull(back)

    return ft.jit(both)


def _results(
    both: Any, convolve: Any, x: Array, w: Array, special: Any = None
) -> list[Array]:
    y = ft.eval_shape(convolve, x, w)
    back = np.cos(np.arange(y.size)).reshape(y.shape).astype(y.dtype)
    if special is not None:
        back[tuple(n // 3 for n in y.shape)] = special
    return [np.asarray(a) for a in both(x, w, back)]


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_taps_beside_the_image_change_nothing(case: Any, last: bool) -> None:
    both = _both(_operands(case, last, np.float32)[0])
    for special in (None, np.nan, np.inf):
        _assert_unchanged(both, case, last, special)


def _assert_unchanged(both: Any, case: Any, last: bool, special: float | None) -> None:
    convolve, x, w = _operands(case, last, np.float32)
    if special is not None:  # of one output and one tap, the first or the last
        w[tuple(0 if n < 8 else 3 for n in w.shape)] = special
        w[tuple(n - 1 if n < 8 else 5 for n in w.shape)] = special
    found = _results(both, convolve, x, w, special)
    with ft.config(disabled_rules=("skip_padding",)):
        plain = _results(both, convolve, x, w, special)
    for one, other in zip(found, plain, strict=True):
        np.testing.assert_array_equal(np.isfinite(one), np.isfinite(other))
        if special is None:  # the order of adding may differ
            scale = np.abs(other).max()
            np.testing.assert_allclose(one, other, rtol=0, atol=2e-6 * scale)
    with ft.config(device="interpreter"):
        wanted = _results(both, convolve, x, w, special)
    # What stands between the elements that strides skip is never multiplied.
    same = (0, 2) if case[5] > 1 and special is not None else (0, 1, 2)
    for n in same:
        np.testing.assert_array_equal(np.isfinite(found[n]), np.isfinite(wanted[n]))
        np.testing.assert_allclose(found[n], wanted[n], rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("last", [False, True])
def test_special_values_reach_what_they_reach_without_a_window(last: bool) -> None:
    """A weight that sees padding alone makes NaN all the same."""
    convolve, x, w = _operands(CASES[0], last, np.float64)
    w[tuple(0 if n < 8 else 3 for n in w.shape)] = np.inf
    found = _results(_both(convolve), convolve, x, w)[0]
    line = found[:, 0, :, 3] if last else found[:, 3, 0]
    assert np.isnan(line).all()


def test_threads_change_nothing() -> None:
    convolve, x, w = _operands(CASES[0], True, np.float32)
    results: list[list[Array]] = []
    for threads in (1, 2, 3):
        with ft.config(threads=threads):
            results.append(_results(_both(convolve), convolve, x, w))
    for other in results[1:]:
        for one, two in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(one, two)


def test_taps_that_are_needed_are_those_that_some_column_sees() -> None:
    column = make_range(0, 20, False)
    for taps, stride, dilation, before, size in product(
        (2, 3, 5), (1, 2, 3), (1, 4), (0, 3, 9), (13, 30)
    ):
        window = Window(column, make_range(1, taps, True), stride, dilation)
        seen = Seen(window, (Bounds(stride, dilation, before, before + size),))
        for first, count in product(range(20), (1, 4)):
            places = range(first, first + count)
            needed = [
                k
                for k in range(taps)
                if any(0 <= stride * p + dilation * k - before < size for p in places)
            ]
            begin, end = seen.numbers(first, first + count - 1)
            assert set(needed) <= set(range(begin, end))
            if count == 1:
                assert needed == list(range(begin, end))
