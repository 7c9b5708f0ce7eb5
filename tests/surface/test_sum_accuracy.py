"""Sums of many numbers have the accuracy that docs/accuracy.md tells of.

Along any axis, of any layout, as a call of its own as in compiled code: the error is
that of a few roundings, not of as many as there are terms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from docs.accuracy import OF_EQUAL_TERMS, OF_SUMS
from ftrace import lax
from tests.support.covering import covering

Array = Any
DTYPES = (np.float32, np.float64)

#: Shapes, and the axes to add up: leading, last, in the middle, several.
PLACES = [
    ((100000,), (0,)), ((10000, 10), (0,)), ((10, 10000), (1,)), ((10000, 10), (0, 1)),
    ((10, 3000, 7), (1,)), ((300, 10, 300), (0, 2)), ((30, 20, 500), (1, 2)),
    ((300, 30, 7), (0, 1)), ((129, 10), (0,)), ((1000, 1000), (0,)),
    ((8, 3, 64, 64), (0, 2, 3)), ((64, 2, 2, 2, 64), (0, 2, 4)), ((300007, 3), (0,)),
]  # fmt: skip


def layouts(x: Array) -> Iterator[Array]:
    """The same numbers, in other places of memory."""
    yield x
    yield np.asfortranarray(x)
    wide = np.zeros([2 * n for n in x.shape], x.dtype)
    every_second = wide[tuple(slice(None, None, 2) for _ in x.shape)]
    every_second[...] = x
    yield every_second
    yield x[::-1]
    if x.ndim > 1:
        yield np.ascontiguousarray(x.swapaxes(0, 1)).swapaxes(0, 1)


def errors(function: Callable[..., Any], arrays: Any, want: Array) -> Iterator[Array]:
    """Of a call of its own and of a compiled one."""
    for call in (function, ft.jit(function)):
        got = np.asarray(call(*map(fnp.asarray, arrays)))
        yield np.abs(got.astype(want.dtype) - want)


def rounding(dtype: Any) -> float:
    return float(np.finfo(dtype).eps) / 2


@covering(1, {("shape", "axes"): PLACES}, dtype=DTYPES)
def test_sum_has_its_accuracy_along_any_axis_of_any_layout(
    shape: tuple[int, ...], axes: tuple[int, ...], dtype: Any
) -> None:
    rng = np.random.default_rng(sum(shape))
    one = dtype(0.1)
    terms = int(np.prod([shape[a] for a in axes]))
    with ft.config(enable_x64=True):
        for values, most in (
            (rng.random(shape).astype(dtype), OF_SUMS["sum"]),
            (rng.standard_normal(shape).astype(dtype), OF_SUMS["sum"]),
            (np.full(shape, one), min(terms - 1, OF_EQUAL_TERMS)),
        ):
            for x in layouts(values):
                wide = x.astype(np.longdouble)
                for error in errors(lambda x: fnp.sum(x, axes), [x], wide.sum(axes)):
                    unit = rounding(dtype) * np.abs(wide).sum(axes)
                    assert np.all(error <= most * unit), (error / unit).max()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_sum_of_16_bits_is_rounded_once(dtype: Any) -> None:
    x = np.full((20000, 7), dtype(0.1))
    want = x.astype(np.float64).sum(0).astype(np.float32).astype(dtype)
    for call in (fnp.sum, ft.jit(fnp.sum, static_argnums=1)):
        for values in layouts(x):
            np.testing.assert_array_equal(np.asarray(call(values, 0)), want)


def test_sum_gives_the_same_bits_at_each_call() -> None:
    rng = np.random.default_rng(0)
    for shape, axes in PLACES:
        for x in layouts(rng.random(shape, np.float32)):
            values = fnp.asarray(x)
            first = np.asarray(values.sum(axes))
            for _ in range(12):
                np.testing.assert_array_equal(np.asarray(values.sum(axes)), first)


class Row(NamedTuple):
    """A function of arrays that adds up along their first axis, and what it means."""

    name: str
    call: Callable[..., Any]
    meaning: Callable[..., Any]


def _windows(x: Array) -> Array:
    return np.lib.stride_tricks.sliding_window_view(x, 5000, 0).sum(-1)


def _average(x: Array) -> Array:
    weights = x[:, :1]
    return (x * weights).sum(0) / weights.sum()


ROWS = [
    Row("sum", lambda x: fnp.sum(x, 0), lambda x: x.sum(0)),
    Row("mean", lambda x: fnp.mean(x, 0), lambda x: x.mean(0)),
    Row("nansum", lambda x: fnp.nansum(x, 0), lambda x: x.sum(0)),
    Row("nanmean", lambda x: fnp.nanmean(x, 0), lambda x: x.mean(0)),
    Row("average", lambda x: fnp.average(x, 0, x[:, 0]), _average),
    Row("trapezoid", lambda x: fnp.trapezoid(x, axis=0),
        lambda x: np.trapezoid(x, axis=0)),
    Row("var", lambda x: fnp.var(x, 0), lambda x: x.var(0)),
    Row("std", lambda x: fnp.std(x, 0), lambda x: x.std(0)),
    Row("nanvar", lambda x: fnp.nanvar(x, 0), lambda x: x.var(0)),
    Row("nanstd", lambda x: fnp.nanstd(x, 0), lambda x: x.std(0)),
    Row("norm", lambda x: fnp.linalg.norm(x, axis=0),
        lambda x: np.sqrt((x * x).sum(0))),
    Row("cov", lambda x: fnp.cov(x, rowvar=False),
        lambda x: (x - x.mean(0)).T @ (x - x.mean(0)) / (len(x) - 1)),
    Row("dot", lambda x: fnp.dot(x[:, 0], x[:, 1]),
        lambda x: (x[:, 0] * x[:, 1]).sum()),
    Row("vecdot", lambda x: fnp.vecdot(x, x, axis=0), lambda x: (x * x).sum(0)),
    Row("einsum('ij->j')", lambda x: fnp.einsum("ij->j", x), lambda x: x.sum(0)),
    Row("einsum('ij,ij->j')", lambda x: fnp.einsum("ij,ij->j", x, x),
        lambda x: (x * x).sum(0)),
    Row("logsumexp", lambda x: ft.nn.logsumexp(x, 0),
        lambda x: np.log(np.exp(x).sum(0))),
    Row("softmax", lambda x: ft.nn.softmax(x, 0),
        lambda x: np.exp(x) / np.exp(x).sum(0)),
    Row("log_softmax", lambda x: ft.nn.log_softmax(x, 0),
        lambda x: x - np.log(np.exp(x).sum(0))),
    Row("standardize", lambda x: ft.nn.standardize(x, 0, epsilon=0),
        lambda x: (x - x.mean(0)) / x.std(0)),
    Row("reduce", lambda x: lax.reduce(x, x.dtype.type(0), lax.add, (0,)),
        lambda x: x.sum(0)),
    Row("reduce_window", lambda x: lax.reduce_window(
        x, x.dtype.type(0), lax.add, (5000, 1), (1, 1), "valid"), _windows),
]  # fmt: skip


def test_every_function_of_the_table_is_tried() -> None:
    assert [row.name for row in ROWS] == list(OF_SUMS)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_function_of_sums_has_its_accuracy(row: Row, dtype: Any) -> None:
    rng = np.random.default_rng(1)
    rows = 5010 if row.name == "reduce_window" else 20000
    with ft.config(enable_x64=True):
        for x in layouts(rng.random((rows, 10)).astype(dtype)):
            want = np.asarray(row.meaning(x.astype(np.longdouble)))
            for error in errors(row.call, [x], want):
                units = error.max() / np.abs(want).max() / rounding(dtype)
                assert units <= OF_SUMS[row.name], float(units)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("left", "right"),
    [((10000,), (10000, 10)), ((10, 10000), (10000, 10)), ((10, 10000), (10000,)),
     ((2, 5, 9001), (2, 9001, 3))],
)  # fmt: skip
def test_few_long_products_are_added_up_in_parts(
    left: tuple[int, ...], right: tuple[int, ...], dtype: Any
) -> None:
    rng = np.random.default_rng(2)
    a, b = rng.random(left).astype(dtype), rng.random(right).astype(dtype)
    want = a.astype(np.longdouble) @ b.astype(np.longdouble)
    with ft.config(enable_x64=True):
        for x in (a, np.asfortranarray(a)):
            for error in errors(lambda x, y: x @ y, [x, b], want):
                assert (error / want).max() <= 20 * rounding(dtype)


def test_running_sum_of_float32_is_rounded_once() -> None:
    x = np.random.default_rng(3).random((10000, 10), np.float32)
    want = x.astype(np.float64).cumsum(0)
    for error in errors(lambda x: fnp.cumsum(x, 0), [x], want):
        assert (error / want).max() <= 1.001 * rounding(np.float32)


#: Of places and terms, into so many bins.
AT_PLACES: dict[str, Callable[[Array, Array, int], Any]] = {
    "at": lambda i, x, n: fnp.zeros((n, *x.shape[1:]), x.dtype).at[i].add(x),
    "bincount": lambda i, x, n: fnp.bincount(i, x, length=n),
    "segment_sum": lambda i, x, n: ft.ops.segment_sum(x, i, n),
    "histogram": lambda i, x, n: fnp.histogram(i, n, (0, n), weights=x)[0],
    "scatter_add": lambda i, x, n: lax.scatter_add(
        fnp.zeros((n, *x.shape[1:]), x.dtype), i[:, None], x, _ROWS_OF[x.ndim]
    ),
}
_ROWS_OF = {
    1: lax.ScatterDimensionNumbers((), (0,), (0,)),
    2: lax.ScatterDimensionNumbers((1,), (0,), (0,)),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize("name", AT_PLACES)
def test_sums_at_places_are_as_exact_without_jit(name: str, dtype: str) -> None:
    rng = np.random.default_rng(4)
    for count, bins, row in ((100000, 1, ()), (40000, 7, ()), (3000, 2, (5,))):
        if row and name in ("bincount", "histogram"):
            continue
        if dtype == "complex64" and name == "histogram":
            continue
        places = rng.integers(0, bins, count).astype(np.int32)
        x = rng.random((count, *row)).astype(dtype)
        want = np.zeros((bins, *row), np.result_type(dtype, np.longdouble))
        for n in range(bins):
            want[n] = x[places == n].astype(want.dtype).sum(0)
        i, terms = fnp.asarray(places), fnp.asarray(x)
        run = lambda i, x, n=bins: AT_PLACES[name](i, x, n)  # noqa: E731
        jitted = np.abs(np.asarray(ft.jit(run)(i, terms)) - want).max()
        for _ in range(3):
            found = np.abs(np.asarray(run(i, terms)) - want).max()
            unit = rounding(dtype) * np.abs(want).max()
            assert found <= max(jitted, 16 * unit), (found / unit, jitted / unit)


def test_sums_at_places_keep_the_sign_of_zeros() -> None:
    x, i = -np.zeros(2, np.float32), np.zeros(40000, np.int32)
    for dtype in ("float32", "float64", "float16"):
        for value, want in ((-0.0, [True, True]), (0.0, [False, True])):
            zeros = fnp.asarray(x.astype(dtype))
            for values in (value, np.full(40000, value, dtype)):
                added = zeros.at[i].add(values)
                assert np.signbit(added).tolist() == want
    many = fnp.zeros(3).at[i].add(0.1)
    np.testing.assert_allclose(many, [np.float32(0.1) * 40000.0, 0, 0], 1e-6)
