"""Compositions that short arrays of the host have from NumPy or LAPACK in one step.

A call that is repeated gives the bits of the first of its kind.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.backends.base import get_device
from ftrace.errors import ArgumentError, ValueRangeError
from ftrace.trace import tiering
from ftrace.trace.primitives.library import lapack_numpy

CALLS = tiering.CALLS_BEFORE_RECORD + 3
EDGES = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.5, -1.5, 1.5], np.float32)


@pytest.fixture(autouse=True)
def cpu() -> Iterator[None]:
    with ft.config(device="cpu"):
        get_device("cpu").make_native()
        yield


def repeated(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a call once it is learned, the same as that of the first one."""
    first = np.asarray(function(*arguments))
    for _ in range(CALLS):
        found = function(*arguments)
    last = np.asarray(found)
    assert (last.dtype, last.shape) == (first.dtype, first.shape)
    assert last.tobytes() == first.tobytes()
    return last


@pytest.mark.parametrize("count", [None, 0, 5, 19, -3, 100])
@pytest.mark.parametrize("order", ["big", "little"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_bits_of_bytes_are_those_of_numpy(axis: Any, order: Any, count: Any) -> None:
    x = np.random.default_rng(0).integers(0, 256, (3, 4), np.uint8)

    def unpacked(a: Any) -> Any:
        return fnp.unpackbits(a, axis=axis, count=count, bitorder=order)

    found = repeated(unpacked, fnp.asarray(x))
    if count != -3:  # NumPy refuses to leave out bits of several rows by its own count
        np.testing.assert_array_equal(found, np.unpackbits(x, axis, count, order))
    np.testing.assert_array_equal(found, ft.jit(unpacked)(x))


@pytest.mark.parametrize("order", ["C", "F"])
def test_places_by_number_are_those_of_numpy_and_bounds_are_watched(order: Any) -> None:
    rows, columns = np.array([[0, 2, 1], [1, 1, 0]]), np.array([3, 0, 2])

    def raveled(i: Any, j: Any) -> Any:
        return fnp.ravel_multi_index((i, j), (3, 4), order=order)

    i, j = fnp.asarray(rows), fnp.asarray(columns)
    found = repeated(raveled, i, j)
    want = np.ravel_multi_index((rows, columns), (3, 4), order=order)
    np.testing.assert_array_equal(found, want)
    with pytest.raises(ValueRangeError, match="axis of size 4"):
        raveled(i, fnp.asarray([3, 0, 4]))
    with pytest.raises(ValueRangeError, match="axis of size 3"):
        raveled(i - 1, j)


SYSTEMS = {
    "ordinary": np.random.default_rng(1).normal(size=(7, 7)),
    "exchanged": np.eye(5)[[3, 0, 4, 1, 2]] + 0.01,
    "singular": np.ones((4, 4)),
    "zero": np.zeros((3, 3)),
    "not a number": np.where(np.eye(4) > 0, np.nan, 1.0),
    "infinite": np.where(np.eye(4) > 0, np.inf, 1.0),
    "single": np.array([[2.0]]),
    "complex": np.eye(3) * 1j + np.arange(9).reshape(3, 3),
}


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("columns", [None, 1, 3])
def test_systems_have_the_bits_of_their_steps(name: str, columns: Any) -> None:
    a = SYSTEMS[name]
    a = fnp.asarray(a.astype(np.complex64 if a.dtype.kind == "c" else np.float32))
    shape = a.shape[:1] if columns is None else (a.shape[0], columns)
    b = fnp.asarray(np.random.default_rng(2).normal(size=shape).astype(a.dtype))
    factors, pivots = lapack_numpy.lu(np.asarray(a))
    order = lapack_numpy.permutation(pivots, len(a))
    for function, arguments in ((fnp.linalg.solve, (a, b)), (fnp.linalg.inv, (a,))):
        found = repeated(function, *arguments)
        right = np.eye(len(a), dtype=a.dtype) if function is fnp.linalg.inv else b
        right = np.asarray(right).reshape(len(a), -1)
        with np.errstate(all="ignore"):
            want = lapack_numpy.solve_lu(factors, order, right, False, False)
        want = want.reshape(found.shape)
        np.testing.assert_array_equal(np.isnan(found), np.isnan(want))
        kept = ~np.isnan(found)
        assert found[kept].tobytes() == want[kept].tobytes()
        compiled = np.asarray(ft.jit(function)(*arguments))
        close = np.isfinite(want) & np.isfinite(compiled)
        np.testing.assert_allclose(found[close], compiled[close], 1e-4, 1e-5)


@pytest.mark.parametrize("shape", [(1,), (0,), (5,), (64,), (65,), (4, 3), (2, 0)])
def test_an_array_iterates_over_its_parts(shape: tuple[int, ...]) -> None:
    x = fnp.asarray(np.random.default_rng(3).normal(size=shape).astype(np.float32))
    for _ in range(CALLS):
        parts = list(x)
    assert len(parts) == shape[0]
    for i, part in enumerate(parts):
        assert type(part) is ft.Array
        assert part.shape == shape[1:]
        np.testing.assert_array_equal(part, np.asarray(x)[i])


def test_an_array_without_axes_has_no_parts() -> None:
    with pytest.raises(ArgumentError, match="without axes"):
        iter(fnp.asarray(1.0))


def test_parts_of_traced_arrays_have_derivatives() -> None:
    x = fnp.asarray([1.0, 2.0, 3.0])

    def product(x: Any) -> Any:
        first, second, third = x
        return first * second * third

    np.testing.assert_array_equal(ft.grad(product)(x), [6, 3, 2])


@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (5, 3), (1, 1), (2, 3, 4), (0, 3)])
@pytest.mark.parametrize("offset", [0, 1, -1, 2, -2, 9])
def test_diagonals_are_movement(shape: tuple[int, ...], offset: int) -> None:
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    x = fnp.asarray(values)

    def diagonal(x: Any) -> Any:
        return fnp.diagonal(x, offset, -2, -1)

    want = values.diagonal(offset, -2, -1)
    np.testing.assert_array_equal(repeated(diagonal, x), want)
    np.testing.assert_array_equal(
        ft.jit(lambda x: diagonal(x * 2) + 1)(x), want * 2 + 1
    )
    mask = np.zeros(shape, np.float32)
    rows, columns = np.indices(shape[-2:])
    mask[..., columns - rows == offset] = 1
    found = ft.grad(lambda x: fnp.sum(diagonal(x)))(x)
    np.testing.assert_array_equal(found, mask)


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint32", "float64", "int8"])
def test_the_greatest_of_a_short_row_are_those_of_a_matrix(dtype: str) -> None:
    draw = np.random.default_rng(4)
    x = draw.choice(EDGES, 40) if "float" in dtype else draw.integers(0, 99, 40)
    with ft.config(enable_x64=True):
        row = fnp.asarray(x.astype(dtype))
        for k in (0, 1, 7, 40):
            values, places = lax.top_k(row, k)
            _, want = lax.top_k(row[None], k)
            np.testing.assert_array_equal(places, want[0])
            np.testing.assert_array_equal(values, np.asarray(row)[np.asarray(places)])


def _by_keys(axis: int, *keys: Any) -> Any:
    return fnp.lexsort(keys, axis)


def test_of_several_keys_the_last_counts_most() -> None:
    draw = np.random.default_rng(5)
    keys = [draw.choice(EDGES, (3, 30)), draw.choice(EDGES, (3, 30))]
    for axis in (0, 1):
        sort = partial(_by_keys, axis)
        found = repeated(sort, *map(fnp.asarray, keys))
        for lane in range(keys[0].shape[1 - axis]):
            minor, major = (k.take(lane, 1 - axis) for k in keys)

            def order(i: int, minor: Any = minor, major: Any = major) -> Any:
                pair = major[i], minor[i]
                return [(bool(np.isnan(x)), 0.0 if np.isnan(x) else x) for x in pair]

            want = sorted(range(len(minor)), key=order)
            np.testing.assert_array_equal(found.take(lane, 1 - axis), want)


@pytest.mark.parametrize("function", [fnp.array, fnp.copy, lambda x: x.copy()])
def test_copies_are_new_memory_each_time(function: Any) -> None:
    x = fnp.asarray(EDGES)
    made = [function(x) for _ in range(CALLS)]
    hosts = [np.asarray(copy) for copy in (x, *made)]
    for i, one in enumerate(hosts):
        assert one.tobytes() == EDGES.tobytes()
        assert not any(np.shares_memory(one, other) for other in hosts[:i])


@pytest.mark.parametrize("length", [1, 2, 7, 12, 64])
def test_short_transforms_have_the_bits_of_numpy(length: int) -> None:
    x = np.random.default_rng(6).normal(size=(3, length)).astype(np.float32)
    given = fnp.asarray(x)
    for name, value in (("fft", x.astype(np.complex64)), ("rfft", x)):
        found = repeated(getattr(fnp.fft, name), given)
        assert found.tobytes() == getattr(np.fft, name)(value).tobytes()


def test_eigenvalues_of_what_is_not_finite_are_no_numbers() -> None:
    good = np.diag(np.array([3.0, 1e30, 2.0], np.float32))
    bad = np.where(np.eye(3) > 0, np.float32(np.nan), good)
    found = np.asarray(fnp.linalg.eigvalsh(fnp.asarray(np.stack([good, bad]))))
    np.testing.assert_allclose(found[0], np.array([2, 3, 1e30], np.float32), 1e-6)
    assert np.isnan(found[1]).all()


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_eigenvalues_alone_are_those_beside_vectors(dtype: Any, lower: bool) -> None:
    draw = np.random.default_rng(7)
    a = draw.normal(size=(2, 6, 6)).astype(dtype)
    if dtype == np.complex64:
        a = a + np.complex64(1j) * draw.normal(size=a.shape).astype(np.float32)
    triangle = "L" if lower else "U"
    unread = np.triu(np.ones((6, 6)), 1) if lower else np.tril(np.ones((6, 6)), -1)
    a[:, unread > 0] = np.nan  # what is not read

    def alone(a: Any) -> Any:
        return fnp.linalg.eigvalsh(a, triangle, symmetrize_input=False)

    found = repeated(alone, fnp.asarray(a))
    beside = fnp.linalg.eigh(fnp.asarray(a), triangle, False).eigenvalues
    np.testing.assert_allclose(found, beside, 1e-5, 1e-5)
    np.testing.assert_allclose(found, np.linalg.eigvalsh(a, triangle), 1e-5, 1e-5)
    assert np.isnan(repeated(fnp.linalg.eigvalsh, fnp.asarray(a))).all()


def test_special_functions_of_short_arrays_are_those_of_python() -> None:
    ordinary = [0.3, 7.5, -2.5, 1e-30, 3e38, np.inf, -np.inf, np.nan, 0.0, -0.0]
    with ft.config(enable_x64=True, disable_jit=True):  # where nothing is compiled
        for name, poles in (("erf", []), ("erfc", []), ("lgamma", [-1.0, 1e308])):
            column = np.array(ordinary + poles)[:, None]
            given = fnp.asarray(column)
            found = repeated(getattr(lax, name), given)
            assert found.shape == given.shape
            for value, got in zip(
                np.asarray(given).ravel(), found.ravel(), strict=True
            ):
                try:
                    want = getattr(math, name)(value)
                except (ValueError, OverflowError):
                    want = math.inf
                assert np.float64(want).tobytes() == got.tobytes() or np.isnan(want)
