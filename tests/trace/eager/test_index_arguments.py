"""Eager calls at places that change: `x[i]`, `x.at[i].set(v)` and computed slices.

Every test runs twice: with native calls, where this interpreter has them, and without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.backends.base import get_device
from ftrace.trace import tiering

CALLS = tiering.CALLS_BEFORE_RECORD + 3
KINDS: dict[str, Callable[[Any, Any], Any]] = {
    "set": lambda x, y: y, "add": lambda x, y: x + y, "multiply": lambda x, y: x * y,
    "min": np.minimum, "max": np.maximum, "subtract": lambda x, y: x - y,
    "divide": lambda x, y: x / y,
}  # fmt: skip


@pytest.fixture(params=["native", "plain"], autouse=True)
def mode(request: pytest.FixtureRequest) -> Iterator[str]:
    with ft.config(native_calls=request.param == "native", device="cpu"):
        get_device("cpu").make_native()
        yield request.param


def table() -> Any:
    return np.arange(24, dtype=np.float32).reshape(4, 6) - 7.5


def changed(x: Any, index: Any, kind: str, value: Any) -> Any:
    result = x.copy()
    with np.errstate(all="ignore"):
        result[index] = KINDS[kind](result[index], x.dtype.type(value))
    return result


def equal(found: Any, expected: Any) -> None:
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(np.asarray(found), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_updates_at_changing_places_are_those_of_numpy(kind: str) -> None:
    x, a = table(), fnp.asarray(table())
    for n in range(CALLS + 5):
        i, j, value = n % 4, -1 - n % 6, 0.5 * n - 2
        for index in (i, j % 4 - 4, (i, j), np.int64(i), (slice(None), np.int32(j))):
            found = getattr(a.at[index], kind)(value)
            equal(found, changed(x, index, kind, value))
    equal(a, x)  # it is as it was


@pytest.mark.parametrize("kind", KINDS)
def test_updates_by_arrays_and_masks_are_those_of_numpy(kind: str) -> None:
    x, a = table(), fnp.asarray(table())
    for n in range(CALLS + 3):
        rows = np.array([n % 4, (n + 2) % 4], np.int32)
        mask = (x + n) % 3 < 1
        for index in (rows, mask, (slice(1, None), rows), (rows, np.array([n % 6, 0]))):
            parts = index if isinstance(index, tuple) else (index,)
            ours = tuple(
                fnp.asarray(p) if isinstance(p, np.ndarray) else p for p in parts
            )
            expected = changed(x, index, kind, 1.5)
            equal(getattr(a.at[ours], kind)(1.5), expected)
            equal(getattr(a.at[index], kind)(1.5), expected)


@pytest.mark.filterwarnings("ignore:scatter inputs:FutureWarning")
def test_values_are_arrays_and_numbers_of_any_dtype() -> None:
    x, a = table(), fnp.asarray(table())
    for n in range(CALLS + 2):
        row = np.arange(6, dtype=np.int32) * n
        for value in (row, fnp.asarray(row), np.float64(n), n % 2 == 1):
            expected = x.copy()
            expected[n % 4] = np.asarray(value)
            equal(a.at[n % 4].set(value), expected)
        whole = fnp.asarray(row).at[n % 6].add(2.75)
        expected = row.copy()
        expected[n % 6] = np.float32(row[n % 6]) + 2.75
        equal(whole, expected)


def test_powers_at_places_are_those_of_numpy() -> None:
    x, a = table(), fnp.asarray(table())
    for n in range(CALLS):
        expected = x.copy()
        expected[n % 4] = x[n % 4] ** 3
        found = np.asarray(a.at[n % 4].power(3.0))
        np.testing.assert_allclose(found, expected, 1e-6)


def test_repeated_indices_are_repeated() -> None:
    a, rows = fnp.zeros(5), fnp.asarray(np.array([1, 1, 3], np.int32))
    for n in range(CALLS):
        equal(a.at[rows].add(n + 0.5), np.float32([0, 2 * n + 1, 0, n + 0.5, 0]))


def test_places_out_of_bounds_are_refused_each_time() -> None:
    a = fnp.asarray(table())
    for n in range(CALLS):
        a.at[n % 4].set(1.0), a[n % 4], a[np.int64(n % 4)]
    for wrong in (4, -5, np.int64(17), (0, 6)):
        with pytest.raises(ft.errors.IndexBoundsError, match="out of bounds"):
            a.at[wrong].set(1.0)
        with pytest.raises(ft.errors.IndexBoundsError, match="out of bounds"):
            a[wrong]
    rows = fnp.asarray(np.array([1, 2], np.int32))
    for _ in range(CALLS):
        a.at[rows].set(0.0)
    with pytest.raises(ft.errors.IndexBoundsError):
        a.at[rows + 3].set(0.0)
    for _ in range(CALLS):
        with pytest.raises(ft.errors.ShapeError, match="broadcast"):
            a.at[0].set(fnp.ones(5))


def test_traced_updates_are_recorded() -> None:
    a = fnp.asarray(table())
    for n in range(CALLS):
        a.at[n % 4].add(2.0)
    slope = ft.grad(lambda x: fnp.sum(x.at[1].multiply(3.0) ** 2))(a)
    expected = 2 * table()
    expected[1] *= 9
    equal(slope, expected)
    equal(ft.jit(lambda x, i: x.at[i].set(0.0))(a, 3), changed(table(), 3, "set", 0))


def test_numbers_of_numpy_are_indices() -> None:
    x, a = table(), fnp.asarray(table())
    for n in range(CALLS):
        for kind in (np.int32, np.int64, np.uint8):
            equal(a[kind(n % 4)], x[n % 4])
            equal(a[kind(n % 4), ::2], x[n % 4, ::2])
        rows = np.array([n % 4, 0])
        equal(a[rows], x[rows])
        equal(a[[n % 4, 0]], x[[n % 4, 0]])
        equal(a[x[:, 0] > n - 5], x[x[:, 0] > n - 5])


def test_computed_slices_are_moved_inside(mode: str) -> None:
    x, a = table(), fnp.asarray(table())
    part = np.full((2, 3), -1, np.float32)
    for n in range(-9, CALLS + 2):
        row = min(max(n + 4 if n < 0 else n, 0), 2)
        column = min(max(3 - n + 6 if n > 3 else 3 - n, 0), 3)
        here = (slice(row, row + 2), slice(column, column + 3))
        equal(lax.dynamic_slice(a, (n, 3 - n), (2, 3)), x[here])
        equal(lax.dynamic_slice(a, [n, 3 - n], (2, 3)), x[here])
        expected = x.copy()
        expected[here] = part
        equal(lax.dynamic_update_slice(a, fnp.asarray(part), (n, 3 - n)), expected)
        one = min(max(n + 4 if n < 0 else n, 0), 3)
        equal(lax.dynamic_index_in_dim(a, n, keepdims=False), x[one])
        equal(lax.dynamic_slice_in_dim(a, n, 2, axis=0), x[row : row + 2])
        expected = x.copy()
        expected[one] = 5
        update = fnp.full((6,), 5.0)
        equal(lax.dynamic_update_index_in_dim(a, update, n, 0), expected)
        bounded = min(max(n, 0), 2)
        found = lax.dynamic_slice(a, (n, 0), (2, 6), allow_negative_indices=False)
        equal(found, x[bounded : bounded + 2])


def test_arguments_by_name_are_told_apart() -> None:
    x, a = table(), fnp.asarray(table())
    for n in range(CALLS + 4):
        size = 1 + n % 3
        found = lax.dynamic_slice(
            slice_sizes=(size, 6), start_indices=(0, 0), operand=a
        )
        equal(found, x[:size])
        found = lax.dynamic_slice(a, slice_sizes=(size, 6), start_indices=(1, 0))
        equal(found, x[1 : 1 + size])


def test_errors_of_computed_slices_stay() -> None:
    a = fnp.asarray(table())
    for _ in range(CALLS):
        lax.dynamic_slice(a, (1, 1), (2, 2))
        with pytest.raises(ft.errors.ShapeError, match="exceed"):
            lax.dynamic_slice(a, (0, 0), (5, 6))
        with pytest.raises(ft.errors.ShapeError, match="one start per axis"):
            lax.dynamic_slice(a, (0,), (2, 2))
        with pytest.raises(ft.errors.DtypeError):
            lax.dynamic_slice(a, (0, 1.5), (2, 2))


def test_numbers_of_numpy_are_operands() -> None:
    a = fnp.asarray(np.arange(5, dtype=np.int32) + 1)
    for n in range(CALLS):
        for kind in (np.int32, np.int64, np.uint8, np.float32, np.complex64):
            number = kind(n % 4 + 2)
            wanted = fnp.promote_types(np.int32, np.int32 if kind is np.int64 else kind)
            equal(a + number, (np.arange(1, 6) + number).astype(wanted))
        # An exponent decides what is done.
        exponent = np.int32(n % 3 + 1)
        equal(a**exponent, (np.arange(5, dtype=np.int32) + 1) ** exponent)
        equal(fnp.power(a, exponent), (np.arange(5, dtype=np.int32) + 1) ** exponent)


def test_padding_takes_functions_and_modes() -> None:
    def fives(vector: Any, width: Any, axis: int, options: Any) -> Any:
        return vector.at[: width[0]].set(5.0)

    x = np.arange(4, dtype=np.float32)
    a = fnp.asarray(x)
    for n in range(CALLS):
        width = 1 + n % 2
        equal(fnp.pad(a, width), np.pad(x, width))
        equal(fnp.pad(a, width, mode="edge"), np.pad(x, width, mode="edge"))
        assert fnp.pad(a, width, mode=fives)[0] == 5
    for shape in ((3, 1), (1, 4)):
        assert fnp.broadcast_shapes(shape, (1, 1)) == shape
    assert fnp.broadcast_shapes() == ()
    with pytest.raises(ft.errors.ShapeError):
        fnp.broadcast_shapes((3,), (4,))
    with pytest.raises(ft.errors.ArgumentError):
        fnp.broadcast_shapes((3.0,), (1,))
    assert fnp.broadcast_shapes((3,), (1,)) == (3,)


def test_truth_values_and_complex_numbers_are_operands() -> None:
    values = {
        dtype: np.arange(4).astype(dtype)
        for dtype in ("float32", "int32", "uint8", "bool", "complex64", "float16")
    }
    functions: list[Callable[[Any, Any], Any]] = [
        lambda x, y: x * y, lambda x, y: y + x, lambda x, y: x == y,
        lambda x, y: fnp.where(x == x, x, y),
    ]  # fmt: skip
    for x in values.values():
        for number in (True, False, 2 + 1j, complex(-0.0, 1), complex(0.0, 1)):
            for function in functions:
                expected = function(fnp.asarray(x), fnp.asarray(number))
                for _ in range(CALLS):
                    found = function(fnp.asarray(x), number)
                    assert found.weak_type == expected.weak_type
                    equal(found, np.asarray(expected))
                    assert np.asarray(found).tobytes() == np.asarray(expected).tobytes()


@pytest.mark.parametrize(
    "read",
    [
        lambda x, i: fnp.take(x, i, mode="fill"),
        lambda x, i: fnp.take_along_axis(x, i, 0, mode="fill"),
        lambda x, i: fnp.take_along_axis(x, i, 0, mode="clip"),
        lambda x, i: x.at[i].get(mode="fill", fill_value=0),
        lambda x, i: x.at[i].get(mode="clip"),
        lambda x, i: x.at[i].add(1, mode="clip"),
        lambda x, i: x[i, None],
    ],
)
def test_indices_decide_at_every_call_what_is_read(read: Any) -> None:
    x = fnp.arange(33.0)
    rows = [np.arange(n, n + 4) for n in (0, 9, 20)]
    wanted = [np.asarray(ft.jit(read)(x, fnp.asarray(row))) for row in rows]
    for _ in range(CALLS):
        for row, want in zip(rows, wanted, strict=True):
            np.testing.assert_array_equal(read(x, fnp.asarray(row.copy())), want)
