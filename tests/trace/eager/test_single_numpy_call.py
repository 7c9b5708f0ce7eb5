"""Functions that NumPy does in one step where all is at hand: values, types, refusals.

Each is held to NumPy, and to the composition that it has under jit.
"""

from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.errors import ArgumentError, IndexBoundsError, ShapeError
from ftrace.numpy.distributions import METHODS
from ftrace.testing import assert_same_bits
from tests.support.covering import covering

SPECIAL = [-0.0, 0.0, np.nan, np.inf, -np.inf, 1.5]
DTYPES = ("bool", "int8", "uint32", "int64", "float16", "float32", "float64")


def numbers(shape: Any, dtype: str = "float32", seed: int = 0) -> Any:
    """Small numbers, with zeros of both signs, infinities and NaN among floats."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 5, shape).astype(dtype)
    if x.dtype.kind == "f" and x.size:
        x.flat[rng.integers(0, x.size, len(SPECIAL))] = SPECIAL
    return x


def places(size: int, count: int, seed: int) -> Any:
    return np.random.default_rng(seed).integers(-size, size, count)


REMOVED = [
    [], [0], [-1], [3, 3, -2], [0, 1], [7, 8], [4, 3, 5], list(range(9)),
    slice(2, 7, 2),
    slice(None), slice(5, 2), slice(None, None, -3), 4, np.arange(9) % 2 == 0,
    np.zeros(9, bool), np.ones(9, bool), list(range(1, 9)), list(range(8)),
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("removed", REMOVED, ids=str)
def test_delete_is_that_of_numpy(removed, dtype):
    x, m = numbers(9, dtype), numbers((9, 9), dtype, 1)
    assert_same_bits(fnp.delete(x, removed), np.delete(x, removed))
    for axis in (0, 1, -1):
        assert_same_bits(fnp.delete(m, removed, axis), np.delete(m, removed, axis))
        traced = ft.jit(lambda v, axis=axis: fnp.delete(v, removed, axis))(m)
        assert_same_bits(fnp.delete(m, removed, axis), traced)


def test_delete_takes_new_positions_each_time():
    x = numbers(50)
    a = fnp.asarray(x)
    for seed in range(60):
        at = places(50, 5, seed)
        assert_same_bits(fnp.delete(a, at), np.delete(x, at))
        assert_same_bits(fnp.delete(a, fnp.asarray(at)), np.delete(x, at))
        assert_same_bits(fnp.delete(a, at.tolist()), np.delete(x, at))
        assert_same_bits(fnp.delete(a, x > seed % 5), np.delete(x, x > seed % 5))


def test_delete_refuses_what_is_out_of_bounds():
    for removed in ([9], [-10], np.ones(8, bool)):
        with pytest.raises(IndexBoundsError):
            fnp.delete(fnp.ones(9), removed)
    with pytest.raises(ArgumentError, match="integers"):
        fnp.delete(fnp.ones(9), [1.5])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("at", [[], [0], [9], [3, 3, -2, 0], [5, 1, 5], [-9, 9, 9]])
def test_insert_is_that_of_numpy(at, dtype):
    x, m = numbers(9, dtype), numbers((2, 9, 3), dtype, 1)
    at = np.array(at, int)
    new = numbers(at.size, dtype, 2)
    assert_same_bits(fnp.insert(x, at, new), np.insert(x, at, new))
    for value in (1, numbers((at.size, 3), dtype, 3)):
        assert_same_bits(fnp.insert(m, at, value, 1), np.insert(m, at, value, 1))
        traced = ft.jit(lambda v, value=value: fnp.insert(v, at, value, 1))(m)
        assert_same_bits(fnp.insert(m, at, value, 1), traced)


def test_insert_takes_new_positions_each_time():
    x = numbers(50)
    a = fnp.asarray(x)
    for seed in range(60):
        at, new = places(50, 5, seed), numbers(5, seed=seed)
        assert_same_bits(fnp.insert(a, at, new), np.insert(x, at, new))
        assert_same_bits(fnp.insert(a, at.tolist(), 7.0), np.insert(x, at, 7.0))


@pytest.mark.parametrize("endpoint", [True, False])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("shapes", [((), ()), ((3,), ()), ((), (2, 3)), ((3,), (2, 1))])
def test_long_linspace_is_the_composition_of_many_short_ones(shapes, dtype, endpoint):
    rng = np.random.default_rng(0)
    start, stop = (rng.standard_normal(s).astype(dtype) for s in shapes)
    num = 5000
    found = np.asarray(fnp.linspace(start, stop, num, endpoint))
    assert found.dtype == dtype
    # The same operations one after the other, which do not depend on the length.
    t = np.arange(num, dtype="int32").astype(dtype)
    t = (t / np.dtype(dtype).type(num - endpoint)).reshape(num, *[1] * (found.ndim - 1))
    one = np.dtype(dtype).type(1)
    expected = start * (one - t) + stop * t
    if endpoint:
        expected[-1] = stop
    assert_same_bits(found, expected)
    if dtype != "float16":
        exact = np.linspace(start.astype("f8"), stop.astype("f8"), num, endpoint)
        tolerance = 4 * np.finfo(dtype).eps
        np.testing.assert_allclose(found, exact, rtol=0, atol=tolerance * 4)
    moved = fnp.linspace(start, stop, num, endpoint, axis=-1)
    assert_same_bits(moved, np.moveaxis(found, 0, -1))


def test_long_linspace_of_numbers_integers_and_infinities():
    assert fnp.linspace(0, 1, 5000).dtype == fnp.linspace(0, 1, 50).dtype
    assert not fnp.linspace(0.0, 1.0, 5000).weak_type
    whole = fnp.linspace(0, 9998, 4999 + 1, dtype=int, endpoint=False)
    np.testing.assert_array_equal(whole[:2], [0, 1])
    odd = np.asarray(fnp.linspace(0.0, np.inf, 5000))
    assert odd[-1] == np.inf
    assert odd.shape == fnp.linspace(0.0, 1j, 5000).shape


@pytest.mark.parametrize("dtype", [*DTYPES, "complex64"])
@pytest.mark.parametrize("count", [1, 2, 16, 17])
@pytest.mark.parametrize("shape", [(1023,), (1024,), (40, 50), (0,), ()])
def test_isin_is_that_of_numpy(shape, count, dtype):
    x, tests = numbers(shape, dtype), numbers(count, dtype, 1)
    both = ft.jit(lambda a, b: [fnp.isin(a, b, invert=i) for i in (False, True)])
    for invert, found in zip((False, True), both(x, tests), strict=True):
        expected = np.isin(x, tests, invert=invert)
        assert_same_bits(fnp.isin(x, tests, invert=invert), expected)
        assert_same_bits(found, expected)


def test_isin_of_two_dtypes_compares_their_promoted_values():
    x = np.arange(2000, dtype="int32")
    tests = np.array([1.5, 3.0, np.nan], "float32")
    assert_same_bits(fnp.isin(x, tests), np.isin(x, tests))
    assert_same_bits(
        fnp.isin(x.astype("float32"), np.array([3, 1])), np.isin(x, [3, 1])
    )


@pytest.mark.parametrize("count", [1, 2, 17, 100])
@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 4)])
def test_stack_is_that_of_numpy(shape, count):
    parts = [numbers(shape, seed=seed) for seed in range(count)]
    arrays = [fnp.asarray(x) for x in parts]
    for axis in range(-1 - len(shape), len(shape) + 1):
        assert_same_bits(fnp.stack(arrays, axis), np.stack(parts, axis))
        jitted = ft.jit(lambda *xs, axis=axis: fnp.stack(xs, axis))
        assert_same_bits(jitted(*parts[:17]), np.stack(parts[:17], axis))


def test_stack_promotes_and_refuses():
    a, b = fnp.ones(3, "float32"), fnp.ones(3, "int32")
    assert fnp.stack([a, b]).dtype == fnp.concatenate([a, b]).dtype
    assert fnp.stack([b, b], dtype="float32").dtype == np.float32
    weak = fnp.asarray(2.0)
    assert fnp.stack([weak, weak]).weak_type == fnp.concatenate(
        [weak[None], weak[None]]
    ).weak_type  # fmt: skip
    with pytest.raises(ShapeError, match="equal"):
        fnp.stack([a, fnp.ones(4)])


@pytest.mark.parametrize("dtype", [*DTYPES, "complex64", "complex128"])
@pytest.mark.parametrize("shape", [(0,), (1,), (257,), (3, 40)])
def test_sort_complex_sorts_as_complex_numbers(shape, dtype):
    x = numbers(shape, dtype)
    found = fnp.sort_complex(x)
    wide = np.asarray(x).astype(found.dtype)
    np.testing.assert_array_equal(found, np.sort(wide))
    assert_same_bits(ft.jit(fnp.sort_complex)(x), found)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "float16"])
def test_weighed_bincount_is_that_of_numpy(dtype):
    x = np.random.default_rng(0).integers(-2, 40, 3000)
    w = (np.arange(3000) % 7).astype(dtype)
    a, b = fnp.asarray(x), fnp.asarray(w)
    for least in (0, 7, 60):
        expected = np.bincount(np.maximum(x, 0), w, least).astype(dtype)
        assert_same_bits(fnp.bincount(a, b, least), expected)
    assert_same_bits(fnp.bincount(a, b, length=20), expected[:20])
    none = np.zeros(0, "int32")
    assert_same_bits(fnp.bincount(none, np.zeros(0, dtype)), np.zeros(0, dtype))
    assert_same_bits(fnp.bincount(none, np.zeros(0, dtype), 3), np.zeros(3, dtype))
    with pytest.raises(ShapeError, match="weights"):
        fnp.bincount(a, b[:-1])


def test_weighed_bincount_counts_anew_each_time():
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x, w = rng.integers(0, 3 + seed, 30), rng.standard_normal(30)
        found = fnp.bincount(fnp.asarray(x), fnp.asarray(w))
        assert_same_bits(found, np.bincount(x, w))


@pytest.mark.parametrize("shape", [(), (0,), (5,), (3, 4)])
def test_arrays_say_how_often_how_far_and_how_large(shape):
    x = numbers(shape)
    a = fnp.asarray(x)
    for reps in ([2], [2, 0], [1, 3, 2]):
        for given in (reps, np.array(reps)):
            assert_same_bits(fnp.tile(a, given), np.tile(x, reps))
    for size in ([7], [2, 3], [0, 3], [40, 2]):
        for given in (size, np.array(size)):
            assert_same_bits(fnp.resize(a, given), np.resize(x, size))
    axes = tuple(range(x.ndim))
    for shift in axes and ([1] * x.ndim, [-7] * x.ndim, [0] * x.ndim, [100] * x.ndim):
        for given in (shift, np.array(shift, int)):
            assert_same_bits(fnp.roll(a, given, axes), np.roll(x, shift, axes))
    assert_same_bits(fnp.roll(a, np.array(2)), np.roll(x, 2))
    assert_same_bits(fnp.roll(a, np.array([2])), np.roll(x, 2))


def test_roll_moves_one_axis_twice_and_refuses():
    a = fnp.arange(12.0).reshape(3, 4)
    assert_same_bits(
        fnp.roll(a, np.array([1, 2]), (1, 1)), np.roll(np.asarray(a), 3, 1)
    )
    with pytest.raises(ShapeError, match="shifts"):
        fnp.roll(a, np.array([1, 2, 3]), (0, 1))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "float16"])
@pytest.mark.parametrize(
    "shape", [(1,), (7,), (64,), (300,), (4, 9), (3, 0), (2, 3, 5)]
)
def test_the_greatest_and_least_few_are_those_of_a_stable_sort(shape, dtype):
    x = numbers(shape, dtype) if shape[-1] < 200 else places(200, 300, 0).astype(dtype)
    for count in {0, 1, shape[-1] // 9, shape[-1]} - {shape[-1] + 1}:
        for function in (lax.top_k, lax.approx_min_k):
            values, at = function(fnp.asarray(x), count)
            traced = ft.jit(lambda v, f=function, k=count: f(v, k))(x)
            assert_same_bits(values, traced[0])
            assert_same_bits(at, traced[1])
            assert_same_bits(values, np.take_along_axis(x, np.asarray(at), -1))


def test_the_greatest_few_put_nan_first_and_negative_zero_behind_zero():
    x = np.array([0.0, -0.0, 1.0, np.nan, 0.0, -1.0, np.nan], np.float32)
    assert_same_bits(lax.top_k(x, 7)[1], np.array([3, 6, 2, 0, 4, 1, 5], np.int32))
    assert_same_bits(
        lax.approx_min_k(x, 7)[1], np.array([5, 1, 0, 4, 2, 3, 6], np.int32)
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_interp_is_the_composition(dtype):
    rng = np.random.default_rng(0)
    for size in (1, 2, 3, 20, 100):
        xp = np.sort(rng.standard_normal(size)).astype(dtype)
        fp, x = rng.standard_normal((2, size)).astype(dtype)
        for at in (x, xp, x.reshape(-1, 1), x[0], np.array([np.nan, np.inf, -np.inf])):
            at = np.asarray(at, dtype)
            found, traced = fnp.interp(at, xp, fp), ft.jit(fnp.interp)(at, xp, fp)
            assert (found.dtype, found.shape) == (traced.dtype, traced.shape)
            np.testing.assert_allclose(found, traced, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("xp", "fp"),
    [
        ([0, 1, 1], [1, 2, 3]),
        ([0, 0, 1], [1, 2, 3]),
        ([0, 1, 1, 2], [1, 2, 3, 4]),
        ([0, 1, np.inf], [1, 2, 3]),
        ([0, 1, 2], [1, np.inf, 3]),
        ([0, 1, 2], [1, np.nan, 3]),
        ([0, 1, np.nan], [1, 2, 3]),
    ],
    ids=str,
)
def test_interp_of_special_points_is_the_composition(xp, fp):
    xp, fp = np.array(xp, np.float32), np.array(fp, np.float32)
    x = np.array([-1, 0, 0.5, 1, 1.5, 2, 3, np.inf, np.nan], np.float32)
    assert_same_bits(fnp.interp(x, xp, fp), ft.jit(fnp.interp)(x, xp, fp))


@covering(1, method=METHODS, dtype=["float16", "float32", "float64", "int32"])
def test_a_fraction_in_python_is_one_in_an_array(dtype, method):
    for shape in ((1,), (2,), (9,), (4, 10), (3, 1)):
        x = numbers(shape, dtype)
        for fraction in (0, 1, 0.5, 0.3, 0.999, 1 / 3):
            q = fnp.asarray(fraction, "float32" if dtype != "float64" else "float64")
            for axis in (None, 0, -1):
                found = fnp.quantile(x, fraction, axis, method=method)
                assert_same_bits(
                    found, fnp.quantile(x, q, axis, method=method).astype(found.dtype)
                )
    for fraction in (-0.5, 1.5, np.nan):
        found = fnp.quantile(x, fraction, method=method)
        assert_same_bits(
            found, ft.jit(lambda v, q: fnp.quantile(v, q, method=method))(x, fraction)
        )


@pytest.mark.parametrize("dtype", ["float32", "complex64", "int32"])
def test_the_cross_product_is_the_composition(dtype):
    rng = np.random.default_rng(0)
    for one, other in (
        ((3,), (3,)),
        ((4, 3), (3,)),
        ((2, 1, 3), (5, 3)),
        ((0, 3), (3,)),
    ):
        x, y = rng.integers(-3, 4, one), rng.integers(-3, 4, other)
        x, y = x.astype(dtype), y.astype(dtype)
        assert_same_bits(fnp.cross(x, y), ft.jit(fnp.cross)(x, y))
        assert_same_bits(fnp.cross(x, y), np.cross(x, y) + np.zeros((), dtype))
    assert_same_bits(fnp.cross(x[:, :2], y), ft.jit(fnp.cross)(x[:, :2], y))


@pytest.mark.parametrize("weights", [None, [0.5, 1.0, 2.0, 4.0, 8.0]])
def test_bins_count_negative_numbers_as_zero(weights):
    x = np.array([-3, 2, 0, -1, 2], np.int32)
    w = None if weights is None else np.array(weights, np.float32)
    expected = [3, 0, 2] if weights is None else [6.5, 0, 9]
    for least in (0, 2, 6):
        found = fnp.bincount(x, w, least)
        full = expected + [0] * (least - len(expected))
        assert_same_bits(found, np.array(full, np.int32 if w is None else np.float32))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_partitions_stand_as_a_sort_with_its_end_turned_round(dtype):
    for shape, axis in (((9,), 0), ((5, 4), 0), ((5, 4), 1), ((2, 6, 3), 1)):
        x = numbers(shape, dtype)
        for place in range(shape[axis]):
            found = fnp.partition(x, place, axis)
            assert_same_bits(
                found, ft.jit(lambda v, k=place, a=axis: fnp.partition(v, k, a))(x)
            )
            at = fnp.argpartition(x, place, axis)
            assert_same_bits(
                at, ft.jit(lambda v, k=place, a=axis: fnp.argpartition(v, k, a))(x)
            )


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "float64"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_different_slices_are_those_of_the_composition(axis, dtype):
    x = np.random.default_rng(0).integers(0, 2, (6, 2, 3)).astype(dtype)
    x[4:] = x[:2]
    if x.dtype.kind == "f":
        x[0, 0, 0] = x[4, 0, 0] = np.nan
        x[1, 1, 1], x[5, 1, 1] = 0.0, -0.0
    for equal_nan in (True, False):
        options: Any = {"axis": axis, "equal_nan": equal_nan}
        now = fnp.unique(x, True, True, True, **options)
        size = now[0].shape[axis]

        def composed(v: Any, size: int = size, options: Any = options) -> Any:
            return fnp.unique(v, True, True, True, size=size, **options)

        for one, other in zip(now, ft.jit(composed)(x), strict=True):
            assert_same_bits(one, other)
        assert_same_bits(fnp.unique(x, **options), now[0])


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8"])
def test_common_elements_and_their_places_are_those_of_numpy(dtype):
    for seed in range(20):
        draw = np.random.default_rng(seed)
        x, y = draw.integers(0, 9, (2, 3)).astype(dtype), draw.integers(3, 14, 12)
        y = y.astype(dtype)
        if seed == 0 and dtype == "float32":
            x[0, :2], y[3:5] = [np.nan, -0.0], [np.nan, 0.0]
        found = fnp.intersect1d(x, y, return_indices=True)
        for one, other in zip(
            found, np.intersect1d(x, y, return_indices=True), strict=True
        ):
            np.testing.assert_array_equal(one, other)
        assert {found[1].dtype, found[2].dtype} == {fnp.asarray(1).dtype}
    nothing = fnp.intersect1d(x, x + 50, return_indices=True)
    assert [part.shape for part in nothing] == [(0,)] * 3


def test_interp_gives_the_values_outside():
    xp, fp = np.array([0, 1, 2], np.float32), np.array([3, 5, 4], np.float32)
    x = np.array([-1, 0, 0.5, 2, 2.5, np.nan], np.float32)
    for left, right in ((0.0, None), (None, -1), (7, 0.1), (0.0, "extrapolate")):
        found = fnp.interp(x, xp, fp, left, right)
        traced = ft.jit(lambda v, o=(left, right): fnp.interp(v, xp, fp, *o))(x)
        assert_same_bits(found, traced)
