"""Steps of eager calls that are views."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.backends.base import get_device
from ftrace.trace import tiering
from ftrace.trace.arrays.array import Array

CALLS = tiering.CALLS_BEFORE_RECORD + 3
SHAPES = [(), (1,), (6,), (0, 3), (4, 6), (2, 3, 4)]
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "transpose": lambda x: x.T,
    "reshape": lambda x: x.reshape(-1),
    "reversed": fnp.flip,
    "repeated": lambda x: fnp.repeat(x, 3),
    "broadcast": lambda x: fnp.broadcast_to(x, (2, *x.shape)),
    "tiled": lambda x: fnp.tile(x, 2),
    "turned twice": lambda x: fnp.flip(x.T).reshape(-1),
    "summed": fnp.sum,
    "rolled": lambda x: fnp.roll(x, 1),
    "axes": lambda x: x[None, ..., None],
    "stacked": lambda x: fnp.stack([x, x], axis=-1),
}


@pytest.fixture(autouse=True)
def cpu() -> Iterator[None]:
    with ft.config(device="cpu"):
        get_device("cpu").make_native()
        yield


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "complex64", "float16"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_views_are_those_of_numpy(name: str, shape: Any, dtype: str) -> None:
    function = FUNCTIONS[name]
    values = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    with ft.config(native_calls=False):
        expected = np.asarray(function(fnp.asarray(values)))
    turned = values.T.copy().T  # elements in another order in memory
    for _ in range(CALLS):
        for given in (values, turned):
            found = function(Array.of(given))
            assert found.dtype == expected.dtype
            assert found.shape == expected.shape
            np.testing.assert_array_equal(np.asarray(found), expected)


def test_a_view_keeps_what_it_shows() -> None:
    def view() -> Any:
        return fnp.asarray(np.arange(1000.0, dtype=np.float32)).reshape(10, 100)

    x = [view() for _ in range(CALLS)]
    y = [a.T for a in x]
    del x
    gc.collect()
    others = [np.full(1000, -1, np.float32) for _ in range(50)]
    for a in y:
        np.testing.assert_array_equal(a[:, 3], np.arange(300, 400))
    assert len(others) == 50


def test_no_reference_is_lost_or_kept() -> None:
    a = fnp.asarray(np.arange(12, dtype=np.float32).reshape(3, 4))
    for _ in range(CALLS):
        a.T, a.reshape(-1), fnp.repeat(a, 2)
    things = (a, a.numpy(), a.dtype, a.shape)
    before = [sys.getrefcount(x) for x in things]
    for _ in range(500):
        a.T, a.reshape(-1), fnp.repeat(a, 2)
    after = [sys.getrefcount(x) for x in things]
    assert max(abs(x - y) for x, y in zip(before, after, strict=True)) < 20


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "nancumsum"])
def test_running_reductions_go_from_one_to_the_next(name: str) -> None:
    rows = np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32)
    rows[2, 3], rows[0, :2] = np.nan, -0.0
    a = fnp.asarray(rows)
    for axis in (0, 1, -1):
        expected = getattr(np, name)(rows, axis=axis)
        for _ in range(CALLS):
            found = np.asarray(getattr(fnp, name)(a, axis=axis))
            np.testing.assert_allclose(found, expected, 1e-5)
            if name != "nancumsum":
                # A running sum begins with +0, so that none is -0.
                signed = expected + 0 if name == "cumsum" else expected
                assert np.array_equal(np.signbit(found), np.signbit(signed))


def test_integer_powers_wrap_and_vanish_as_before() -> None:
    bases = np.array([0, 1, -1, 2, -3, 7, 46341, 3], np.int32)
    powers = np.array([0, 5, 7, 31, 3, 40, 2, -2], np.int32)
    expected = [1, 1, -1, -(2**31), -27, None, 2147488281 - 2**32, 0]
    expected[5] = int(np.power(np.int32(7), np.int32(40)))
    for _ in range(CALLS):
        found = fnp.power(fnp.asarray(bases), fnp.asarray(powers))
        assert found.tolist() == expected
        found = fnp.power(fnp.asarray(bases[:7]), fnp.asarray(powers[:7]))
        assert found.tolist() == expected[:7]
        with pytest.raises(ft.errors.ShapeError):
            fnp.power(fnp.asarray(bases), fnp.asarray(powers[:3]))


def test_quotients_and_remainders_keep_the_signs_of_zeros() -> None:
    values = np.array([0.0, -0.0, 1.5, -1.5, 3.0, -3.0, 0.25, np.inf, np.nan], "f4")
    x, y = (v.ravel() for v in np.meshgrid(values, values))
    a, b = fnp.asarray(x), fnp.asarray(y)
    with ft.config(native_calls=False):
        plain = [np.asarray(f(a, b)) for f in (fnp.floor_divide, fnp.remainder)]
    for _ in range(CALLS):
        for found, expected in zip(fnp.divmod(a, b), plain, strict=True):
            np.testing.assert_array_equal(found, expected)
            kept = ~np.isnan(expected)
            signs = np.signbit(np.asarray(found))[kept]
            assert np.array_equal(signs, np.signbit(expected)[kept])


def test_lists_of_numbers_are_arrays_of_the_default_dtypes() -> None:
    cases: list[tuple[Any, Any]] = [
        ([1, 2, 3], np.int32), ([1.0, -0.0], np.float32), ([True, 1], np.int32),
        ([1, 2.5], np.float32), ([[1], [2]], np.int32), ([2**40], np.int64),
        ([], np.float32), ([1j], np.complex64), ((1, 2), np.int32),
    ]  # fmt: skip
    for _ in range(CALLS):
        for values, dtype in cases:
            found = fnp.asarray(values)
            assert found.dtype == dtype
            assert not found.weak_type
            np.testing.assert_array_equal(np.asarray(found), np.asarray(values))
    with ft.config(enable_x64=True):
        assert fnp.asarray([1, 2]).dtype == np.int64
        assert fnp.array([1.5]).dtype == np.float64
    with pytest.raises(ft.errors.DtypeOverflowError):
        fnp.asarray([2**70])
    mine = np.arange(3.0, dtype=np.float32)
    copied, shared = fnp.array(mine), fnp.asarray(mine)
    mine[0] = 7
    assert copied[0] == 0
    assert shared[0] == 7


def test_integers_are_places_of_one_record() -> None:
    x = fnp.asarray(np.arange(12, dtype=np.float32).reshape(4, 3))
    for _ in range(CALLS):
        for k in (0, 3, -1, -4, 2):
            row = x[k]
            np.testing.assert_array_equal(row, np.asarray(x)[k])
            assert float(row[k % 3]) == 3 * (k % 4) + k % 3
    for far in (4, -5, 1 << 40):
        with pytest.raises(ft.errors.IndexBoundsError, match="index"):
            x[far]
    small = fnp.asarray(np.arange(4, dtype=np.int8))
    for k in range(4):
        assert [int(small[k]) for _ in range(CALLS)] == [k] * CALLS
