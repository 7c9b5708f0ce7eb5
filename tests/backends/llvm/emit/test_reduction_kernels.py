"""Reductions and scatters, built by hand, against NumPy."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from ftrace.backends.llvm.render import render
from ftrace.backends.llvm.target import host_target
from ftrace.lower.kernel.ir import INDEX, Store, load, reduce
from ftrace.trace.graph import Node
from ftrace.trace.primitives import elementwise as ew
from ftrace.trace.primitives.sources import const
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


pytestmark = pytest.mark.usefixtures("private_cache")


_NUMPY = {"add": np.sum, "mul": np.prod, "max": np.max, "min": np.min}


@pytest.mark.parametrize("op", list(_NUMPY))
@pytest.mark.parametrize(
    "shape", [(1, 1), (3, 7), (5, 64), (2, 1000), (130, 17), (9, 70)]
)
@pytest.mark.parametrize("axis", [0, 1])
def test_reduce_along_either_axis(op: str, shape: tuple[int, int], axis: int) -> None:
    n = shape[1]
    for dtype in (np.float32, np.int32, np.float64):
        x = (np.random.default_rng(0).integers(1, 3, shape)).astype(dtype)
        if op == "mul":
            x = np.where(np.arange(x.size).reshape(shape) % 50 == 0, 2, 1).astype(dtype)
        out = guarded(np.zeros(shape[1 - axis], dtype))
        (i,), (r,) = axes(shape[1 - axis]), reduced(shape[axis])
        index = at((r, n), (i, 1)) if axis == 0 else at((i, n), (r, 1))
        store = Store(1, i, reduce(op, load(buffer(0, x), index), (r,)))
        run(make_kernel((i,), (store,), [x, out]), [x, out], 3)
        np.testing.assert_array_equal(out, _NUMPY[op](x, axis).astype(dtype))
        assert_guarded(out)


def test_a_sum_and_a_maximum_of_the_same_products() -> None:
    x, y = floats(30, 200), floats(30, 200, seed=1)
    out, high = guarded(np.zeros(30, np.float32)), guarded(np.zeros(30, np.float32))
    arrays = [x, y, out, high]
    (i,), (r,) = axes(30), reduced(200)
    place = at((i, 200), (r, 1))
    product = ew.mul(load(buffer(0, x), place), load(buffer(1, y), place))
    stores = (
        Store(2, i, reduce("add", product, (r,))),
        Store(3, i, reduce("max", product, (r,))),
    )
    run(make_kernel((i,), stores, arrays), arrays)
    np.testing.assert_allclose(out, (x * y).sum(1), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(high, (x * y).max(1))


@pytest.mark.parametrize("size", [1, 5, 100, 4097])
def test_nan_wins_in_an_extremum(size: int) -> None:
    x = floats(size)
    for place in {0, size // 2, size - 1}:
        for op in ("max", "min"):
            y, out = x.copy(), np.zeros(1, np.float32)
            y[place] = np.nan
            (r,) = reduced(size)
            store = Store(1, const(0, INDEX), reduce(op, load(buffer(0, y), r), (r,)))
            run(make_kernel((), (store,), [y, out]), [y, out])
            assert np.isnan(out[0])


@pytest.mark.parametrize("size", [1, 63, 1000, 4096, 100_000, 3_000_001])
def test_long_sums_are_as_accurate_as_pairwise(size: int) -> None:
    x = np.random.default_rng(0).random(size).astype(np.float32)
    out = np.zeros(1, np.float32)
    (r,) = reduced(size)
    store = Store(1, const(0, INDEX), reduce("add", load(buffer(0, x), r), (r,)))
    run(make_kernel((), (store,), [x, out]), [x, out])
    exact = x.sum(dtype=np.float64)
    assert abs(out[0] - exact) <= max(2 * abs(float(x.sum()) - exact), exact * 2e-7)


def test_reduce_over_two_ranges_in_any_order() -> None:
    x = floats(13, 9, 21)
    for kept in (0, 1, 2):
        others = [a for a in range(3) if a != kept]
        out = guarded(np.zeros(x.shape[kept], np.float32))
        (i,), (r, s) = axes(x.shape[kept]), reduced(*[x.shape[a] for a in others])
        strides = (9 * 21, 21, 1)
        place = at((i, strides[kept]), (r, strides[others[0]]), (s, strides[others[1]]))
        store = Store(1, i, reduce("add", load(buffer(0, x), place), (r, s)))
        run(make_kernel((i,), (store,), [x, out]), [x, out])
        np.testing.assert_allclose(out, x.sum(tuple(others)), rtol=1e-5, atol=1e-5)
        assert_guarded(out)


@pytest.mark.parametrize("columns", [1, 7, 64, 200])
def test_a_row_kernel_keeps_its_passes_apart(columns: int) -> None:
    """Normalisation: maximum, sum of squares about it, and the row again."""
    rows = 19
    x, out = floats(rows, columns), guarded(np.zeros((rows, columns), np.float32))
    i, j = axes(rows, columns)
    r, s = reduced(columns, columns)

    def element(column: Node) -> Node:
        return load(buffer(0, x), at((i, columns), (column, 1)))

    top = reduce("max", element(r), (r,))
    shifted = ew.sub(element(s), top)
    total = reduce("add", ew.mul(shifted, shifted), (s,))
    value = ew.div(ew.sub(element(j), top), ew.add(total, const(1, x.dtype)))
    store = Store(1, at((i, columns), (j, 1)), value)
    run(make_kernel((i, j), (store,), [x, out]), [x, out], 4)
    high = x.max(1, keepdims=True)
    wanted = (x - high) / (((x - high) ** 2).sum(1, keepdims=True) + 1)
    np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=1e-6)
    assert_guarded(out)


@pytest.mark.parametrize("combine", ["", "add", "mul", "max", "min"])
@pytest.mark.parametrize("columns", [1, 3, 40, 500])
def test_scatter_combines_in_order(combine: str, columns: int) -> None:
    index = np.array([1, 4, 1, -1, 0, 4, 9, 4, 4, 1], np.int64)
    x, out = floats(10, columns), guarded(np.full((5, columns), 0.5, np.float32))
    wanted = np.array(out)
    arrays = [x, index, out]
    i, j = axes(10, columns)
    row = load(buffer(1, index), i)
    valid = inside((row, 5))
    value = load(buffer(0, x), at((i, columns), (j, 1)))
    store = Store(2, at((row, columns), (j, 1)), value, valid, combine)
    run(make_kernel((i, j), (store,), arrays, frozenset((0,))), arrays, 3)
    meaning: Any = {"": lambda a, b: b, "add": np.add, "mul": np.multiply,
                    "max": np.maximum, "min": np.minimum}[combine]  # fmt: skip
    for n, target in enumerate(index):
        if 0 <= target < 5:
            wanted[target] = meaning(wanted[target], x[n])
    np.testing.assert_array_equal(out, wanted)
    assert_guarded(out)


@pytest.mark.parametrize(
    "shape", [(1000, 3000), (130, 9001), (70, 40_000), (2500, 129), (5, 4099)]
)
def test_long_columns_are_summed_in_strips(shape: tuple[int, int]) -> None:
    m, n = shape
    x = (np.random.default_rng(0).integers(-4, 5, shape)).astype(np.float32)
    out, high = guarded(np.zeros(n, np.float32)), guarded(np.zeros(n, np.float32))
    (i,), (r,) = axes(n), reduced(m)
    value = load(buffer(0, x), at((r, n), (i, 1)))
    stores = (
        Store(1, i, reduce("add", value, (r,))),
        Store(2, i, reduce("max", value, (r,))),
    )
    run(make_kernel((i,), stores, [x, out, high]), [x, out, high], 3)
    np.testing.assert_array_equal(out, x.sum(0))
    np.testing.assert_array_equal(high, x.max(0))
    assert_guarded(out)
    assert_guarded(high)


def test_columns_are_read_by_rows_where_rows_are_long() -> None:
    def by_rows(m: int, n: int, step: int) -> bool:
        x, out = floats(m, n * step), np.zeros(n, np.float32)
        (i,), (r,) = axes(n), reduced(m)
        value = load(buffer(0, x), at((r, n * step), (i, step)))
        kernel = make_kernel((i,), (Store(1, i, reduce("add", value, (r,))),), [x, out])
        run(kernel, [x, out], 3)
        np.testing.assert_allclose(out, x[:, ::step].sum(0), rtol=1e-4, atol=1e-3)
        return "%sums" in render(kernel, host_target()).text

    assert by_rows(3000, 500, 1)
    few = 3 * host_target().vector_bytes // 4
    assert not by_rows(3000, few, 1)  # a row fits in registers
    assert not by_rows(10, 500, 1)  # few elements
    assert not by_rows(300, 500, 3)  # not side by side


def test_long_sums_of_columns_are_as_accurate_as_pairwise() -> None:
    x = np.abs(floats(40_000, 200)) + 1
    out = np.zeros(200, np.float32)
    (i,), (r,) = axes(200), reduced(40_000)
    value = load(buffer(0, x), at((r, 200), (i, 1)))
    kernel = make_kernel((i,), (Store(1, i, reduce("add", value, (r,))),), [x, out])
    run(kernel, [x, out])
    np.testing.assert_allclose(out, x.astype(np.float64).sum(0), rtol=6e-7)


def test_sums_along_columns_may_use_each_other() -> None:
    """The variance about the mean, in strips of columns."""
    m, n = 1000, 2500
    x = floats(m, n)
    out, middle = guarded(np.zeros(n, np.float32)), guarded(np.zeros(n, np.float32))
    (i,), (r, s) = axes(n), reduced(m, m)
    share = const(1 / m, x.dtype)
    element = load(buffer(0, x), at((r, n), (i, 1)))
    mean = ew.mul(reduce("add", element, (r,)), share)
    centred = ew.sub(load(buffer(0, x), at((s, n), (i, 1))), mean)
    variance = ew.mul(reduce("add", ew.mul(centred, centred), (s,)), share)
    kernel = make_kernel(
        (i,), (Store(1, i, variance), Store(2, i, mean)), [x, out, middle]
    )
    run(kernel, [x, out, middle], 3)
    np.testing.assert_allclose(out, x.var(0), rtol=1e-4)
    np.testing.assert_allclose(middle, x.mean(0), rtol=1e-4, atol=1e-6)
    assert_guarded(out)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint64, np.float64])
def test_what_a_reduce_reads_fills_a_register(dtype: type) -> None:
    """Numbers of the dtype that positions have are numbers like others."""
    x, out = np.ones(4096, dtype), np.zeros(1, dtype)
    (i,), (r,) = axes(1), reduced(4096)
    store = Store(1, i, reduce("max", load(buffer(0, x), at((i, 4096), (r, 1))), (r,)))
    target = host_target()
    text = render(make_kernel((i,), (store,), [x, out]), target).text
    lanes, bits = target.vector_bytes // x.itemsize, 8 * x.itemsize
    kind = "double" if dtype is np.float64 else f"i{bits}"
    loads = set(re.findall(r"load <(\d+) x (\w+)>", text))
    assert loads == {(str(lanes), kind)}
