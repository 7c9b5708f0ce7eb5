"""Matrix products and convolutions, built by hand, against NumPy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import ftrace as ft
from ftrace import dtypes
from ftrace.backends.llvm.contraction.find import (
    find_contraction,
    is_worthwhile,
    reads_in_place,
)
from ftrace.backends.llvm.schedule.index_facts import facts_of
from ftrace.backends.llvm.target import Target
from ftrace.lower.kernel.ir import INDEX, Kernel, Store, load, reduce
from ftrace.lower.kernel.loop_tree import build_loops as placed
from ftrace.trace.primitives import elementwise as ew
from ftrace.trace.primitives.sources import const
from tests.support.covering import covering
from tests.support.run_llvm_kernel import (
    assert_guarded,
    at,
    axes,
    buffer,
    floats,
    guarded,
    inside,
    make_kernel,
    reduced,
    run,
)

Array = np.ndarray[Any, Any]

_strategies = import_module("ftrace.backends.llvm.contraction.strategies")


def _in_small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of few terms and rows."""
    ways = _strategies.candidate_blocks

    def small(target: Target, load: Any) -> Iterator[Any]:
        return (replace(b, depth=48, tiles=2) for b in ways(target, load))

    monkeypatch.setattr(_strategies, "is_worthwhile", lambda *_: True)
    monkeypatch.setattr(_strategies, "candidate_blocks", small)


pytestmark = pytest.mark.usefixtures("private_cache")


def _product(a: Array, b: Array) -> Array:
    return (a.astype(np.float64) @ b.astype(np.float64)).astype(a.dtype)


_SHAPES = [
    (1, 1, 1), (2, 3, 4), (8, 48, 16), (17, 33, 65), (64, 64, 64), (5, 100, 7),
    (100, 5, 300), (33, 10, 129), (70, 130, 600), (3, 1, 500), (1, 200, 50),
]  # fmt: skip


@covering(
    2, shape=_SHAPES, turned=["", "a", "b", "ab"], dtype=["float32", "float64", "int32"]
)
def test_matrix_product(shape: tuple[int, int, int], turned: str, dtype: str) -> None:
    m, n, k = shape
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, k)) * 4, rng.standard_normal((k, n)) * 4
    a, b = np.trunc(a).astype(dtype), np.trunc(b).astype(dtype)
    x = np.ascontiguousarray(a.T) if "a" in turned else a
    y = np.ascontiguousarray(b.T) if "b" in turned else b
    out = guarded(np.zeros((m, n), dtype))
    arrays = [x, y, out]
    i, j = axes(m, n)
    (r,) = reduced(k)
    left = at((r, m), (i, 1)) if "a" in turned else at((i, k), (r, 1))
    right = at((j, k), (r, 1)) if "b" in turned else at((r, n), (j, 1))
    product = ew.mul(load(buffer(0, x), left), load(buffer(1, y), right))
    total = reduce("add", product, (r,))
    value = ew.maximum(total, const(-3, total.dtype))
    store = Store(2, at((i, n), (j, 1)), value)
    run(make_kernel((i, j), (store,), arrays), arrays, 3)
    np.testing.assert_array_equal(out, np.maximum(a @ b, -3))
    assert_guarded(out)


def _by_patches(c: int, side: int) -> tuple[Kernel, list[Array], Array]:
    """out[i, c, u, v] = the sum over p, q of a[i, p, q] · b[c, p, u, q, v]."""
    rng = np.random.default_rng(0)
    a = rng.integers(-4, 5, (20, 9, 14)).astype(np.float32)
    b = rng.integers(-4, 5, (c, 9, side, 14, side)).astype(np.float32)
    out = np.zeros((20, c, side, side), np.float32)
    i, channel, u, v = axes(20, c, side, side)
    p, q = reduced(9, 14)
    left = load(buffer(0, a), at((i, 126), (p, 14), (q, 1)))
    each = side * side * 14
    right = load(
        buffer(1, b),
        at((channel, 9 * each), (p, each), (u, side * 14), (q, side), (v, 1)),
    )
    total = reduce("add", ew.mul(left, right), (p, q))
    index = at((i, c * side**2), (channel, side**2), (u, side), (v, 1))
    arrays = [a, b, out]
    kernel = make_kernel((i, channel, u, v), (Store(2, index, total),), arrays)
    return kernel, arrays, np.einsum("ipq,cpuqv->icuv", a, b)


def test_columns_that_fill_no_vector_alone_are_put_side_by_side() -> None:
    target = Target.of("x86_64-unknown-linux-gnu", "x86-64-v4")
    for side, narrow in ((4, True), (16, False)):
        kernel, arrays, expected = _by_patches(3, side)
        facts = facts_of(kernel)
        plan = find_contraction(kernel, placed(kernel), facts)
        assert plan is not None
        assert reads_in_place(plan, facts)
        assert is_worthwhile(plan, facts, target) == narrow
        run(kernel, arrays, 2)
        np.testing.assert_array_equal(arrays[2], expected)


@covering(1, shape=_SHAPES, turned=["", "a", "b", "ab"])
def test_matrix_product_in_blocks(
    shape: tuple[int, int, int], turned: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same in blocks, though they do not pay at these sizes."""
    _in_small_blocks(monkeypatch)
    for dtype in ("float32", "float64", "int32"):
        test_matrix_product(shape, turned, dtype)


def convolution(
    batch: int, channels: int, size: tuple[int, int], out_channels: int, window: int,
    stride: int, arrays: Sequence[Array] = (),
) -> tuple[Kernel, list[Array], Array]:  # fmt: skip
    """A padded convolution: a masked load, three ranges to sum over."""
    h, w = size
    pad = window // 2
    oh, ow = (h + 2 * pad - window) // stride + 1, (w + 2 * pad - window) // stride + 1
    x = floats(batch, channels, h, w)
    f = floats(out_channels, channels, window, window, seed=1)
    out = guarded(np.zeros((batch, out_channels, oh, ow), np.float32))
    n, o, y, z = axes(batch, out_channels, oh, ow)
    c, u, v = reduced(channels, window, window)
    row = at((y, stride), (u, 1), offset=-pad)
    column = at((z, stride), (v, 1), offset=-pad)
    valid = inside((row, h), (column, w))
    pixel = load(
        buffer(0, x),
        at((n, channels * h * w), (c, h * w), (row, w), (column, 1)),
        valid,
    )
    taps = window * window
    weight = load(
        buffer(1, f), at((o, channels * taps), (c, taps), (u, window), (v, 1))
    )
    total = reduce("add", ew.mul(pixel, weight), (c, u, v))
    index = at((n, out_channels * oh * ow), (o, oh * ow), (y, ow), (z, 1))
    kernel = make_kernel((n, o, y, z), (Store(2, index, total),), [x, f, out])
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (window, window), (2, 3))
    windows = windows[:, :, ::stride, ::stride]
    wanted = np.einsum("ncyxuv,ocuv->noyx", windows, f, optimize=True)
    return kernel, [x, f, out], wanted


_CONVOLUTIONS = [
    (2, 3, (6, 7), 4, 3, 1), (1, 16, (20, 20), 9, 3, 1), (3, 5, (15, 33), 8, 3, 2),
    (2, 1, (8, 8), 16, 5, 1), (1, 40, (5, 5), 20, 1, 1), (4, 2, (30, 3), 3, 3, 1),
]  # fmt: skip


@pytest.mark.parametrize("case", _CONVOLUTIONS)
@pytest.mark.parametrize("blocks", [False, True])
def test_convolution(case: Any, blocks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if blocks:
        _in_small_blocks(monkeypatch)
    kernel, arrays, wanted = convolution(*case)
    run(kernel, arrays, 3)
    np.testing.assert_allclose(arrays[-1], wanted, rtol=1e-4, atol=1e-4)
    assert_guarded(arrays[-1])


@pytest.mark.parametrize("case", _CONVOLUTIONS)
def test_convolution_with_channels_last(case: Any) -> None:
    """The masked operand is the left one, and has three axes of rows."""
    batch, channels, (h, w), out_channels, window, _ = case
    pad = window // 2
    x = floats(batch, h, w, channels)
    f = floats(window, window, channels, out_channels, seed=1)
    out = guarded(np.zeros((batch, h, w, out_channels), np.float32))
    n, y, z, o = axes(batch, h, w, out_channels)
    u, v, c = reduced(window, window, channels)
    row, column = at((y, 1), (u, 1), offset=-pad), at((z, 1), (v, 1), offset=-pad)
    valid = inside((row, h), (column, w))
    index = at((n, h * w * channels), (row, w * channels), (column, channels), (c, 1))
    pixel = load(buffer(0, x), index, valid)
    place = at((u, window * channels * out_channels), (v, channels * out_channels),
               (c, out_channels), (o, 1))  # fmt: skip
    total = reduce("add", ew.mul(pixel, load(buffer(1, f), place)), (u, v, c))
    index = at(
        (n, h * w * out_channels), (y, w * out_channels), (z, out_channels), (o, 1)
    )
    kernel = make_kernel((n, y, z, o), (Store(2, index, total),), [x, f, out])
    run(kernel, [x, f, out], 3)
    padded = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (window, window), (1, 2))
    wanted = np.einsum("nyxcuv,uvco->nyxo", windows, f, optimize=True)
    np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-4)
    assert_guarded(out)


@pytest.mark.parametrize("case", _CONVOLUTIONS)
def test_gradient_of_a_convolution_by_its_weights(case: Any) -> None:
    """The sum runs over images and pixels; the window is among the axes."""
    batch, channels, (h, w), out_channels, window, _ = case
    pad = window // 2
    x, g = floats(batch, channels, h, w), floats(batch, out_channels, h, w, seed=1)
    out = guarded(np.zeros((out_channels, channels, window, window), np.float32))
    arrays = [x, g, out]
    o, c, u, v = axes(out_channels, channels, window, window)
    n, y, z = reduced(batch, h, w)
    row, column = at((y, 1), (u, 1), offset=-pad), at((z, 1), (v, 1), offset=-pad)
    valid = inside((row, h), (column, w))
    index = at((n, channels * h * w), (c, h * w), (row, w), (column, 1))
    pixel = load(buffer(0, x), index, valid)
    slope = load(
        buffer(1, g), at((n, out_channels * h * w), (o, h * w), (y, w), (z, 1))
    )
    total = reduce("add", ew.mul(slope, pixel), (n, y, z))
    taps = window * window
    place = at((o, channels * taps), (c, taps), (u, window), (v, 1))
    run(make_kernel((o, c, u, v), (Store(2, place, total),), arrays), arrays, 2)
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (window, window), (2, 3))
    wanted = np.einsum("ncyxuv,noyx->ocuv", windows, g, optimize=True)
    np.testing.assert_allclose(out, wanted, rtol=1e-3, atol=1e-3)
    assert_guarded(out)


def test_a_contraction_takes_work_before_and_after() -> None:
    """Casts and masks at the operands, a bias and a residual at the result."""
    m, n, k = 37, 75, 90
    a, b = floats(m, k).astype(np.float16), floats(n, k, seed=1)
    bias, old = floats(n, seed=2), floats(m, n, seed=3)
    out, double = guarded(np.zeros((m, n), np.float32)), guarded(np.zeros((m, n)))
    arrays = [a, b, bias, old, out, double]
    i, j = axes(m, n)
    (r,) = reduced(k)
    x = ew.cast(load(buffer(0, a), at((i, k), (r, 1))), dtypes.float32)
    y = load(buffer(1, b), at((j, k), (r, 1)), ew.lt(ew.add(j, r), const(100, INDEX)))
    total = reduce("add", ew.mul(x, ew.maximum(y, const(0, y.dtype))), (r,))
    value = ew.add(total, load(buffer(2, bias), j))
    value = ew.add(value, load(buffer(3, old), at((i, n), (j, 1))))
    place = at((i, n), (j, 1))
    stores = (Store(4, place, value), Store(5, place, ew.cast(total, dtypes.float64)))
    run(make_kernel((i, j), stores, arrays), arrays, 2)
    kept = np.where(np.arange(n)[:, None] + np.arange(k) < 100, np.maximum(b, 0), 0)
    product = a.astype(np.float64) @ kept.T
    np.testing.assert_allclose(out, product + bias + old, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(double, product, rtol=1e-5, atol=1e-5)
    assert_guarded(out)
    assert_guarded(double)


def test_rows_of_a_batch_share_the_second_operand() -> None:
    """x[b, i, k]·w[j, k]: two axes of rows; and a sum of absolute differences."""
    x, w = floats(3, 40, 50), floats(70, 50, seed=1)
    out, far = np.zeros((3, 40, 70), np.float32), np.zeros((3, 40, 70), np.float32)
    arrays = [x, w, out, far]
    b, i, j = axes(3, 40, 70)
    (r,) = reduced(50)
    left = load(buffer(0, x), at((b, 2000), (i, 50), (r, 1)))
    right = load(buffer(1, w), at((j, 50), (r, 1)))
    place = at((b, 2800), (i, 70), (j, 1))
    stores = (
        Store(2, place, reduce("add", ew.mul(left, right), (r,))),
        Store(3, place, reduce("max", ew.absolute(ew.sub(left, right)), (r,))),
    )
    run(make_kernel((b, i, j), stores, arrays), arrays, 2)
    np.testing.assert_allclose(out, x @ w.T, rtol=1e-4, atol=1e-4)
    difference = np.abs(x[:, :, None] - w).max(-1)
    np.testing.assert_array_equal(far, difference)


def test_results_do_not_depend_on_the_split() -> None:
    """Bit for bit: reductions never straddle units."""
    kernel, arrays, _ = convolution(3, 12, (30, 30), 20, 3, 1)
    results: list[Array] = []
    for pieces in (1, 2, 5, 1000):
        arrays[-1][...] = 0
        run(kernel, arrays, pieces)
        results.append(np.array(arrays[-1]))
    for other in results[1:]:
        np.testing.assert_array_equal(results[0].view(np.uint32), other.view(np.uint32))


@pytest.mark.parametrize(("rows", "length"), [(4099, 1100), (70, 70001)])
def test_rows_of_a_large_matrix_are_read_several_at_once(
    rows: int, length: int
) -> None:
    source = np.random.default_rng(0)
    matrix = source.normal(size=(rows, length)).astype(np.float32)
    vector = source.normal(size=length).astype(np.float32)
    matrix[5, 3], matrix[rows - 1, 7] = np.nan, np.inf
    found: list[Any] = []
    for threads in (1, 2):
        with ft.set_threads(threads):
            found.append(np.asarray(ft.jit(lambda a, x: a @ x)(matrix, vector)))
    assert found[0].tobytes() == found[1].tobytes()
    with np.errstate(invalid="ignore"):
        wanted = matrix.astype(np.float64) @ vector
    np.testing.assert_allclose(found[0], wanted, rtol=1e-4, atol=1e-3)
