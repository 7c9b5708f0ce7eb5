"""Functions that look at values: each call gives what NumPy gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.backends.base import get_device
from ftrace.errors import FtraceError
from ftrace.testing import assert_same_bits
from ftrace.trace import tiering
from ftrace.trace.arrays.array import Array

#: The eighth is learned, and two more are native.
CALLS = tiering.CALLS_BEFORE_RECORD + 3
NAN = float("nan")
FLOATS = [
    [0.5, -0.0, 0.0, 0.5, NAN, 2.0, NAN, -1.0, float("inf")],
    [-0.0, 0.0, -0.0],
    [3.0],
    [NAN, NAN],
]
OTHERS = [[0.0, 2.0, NAN, -1.0, 7.0], [0.0, -0.0], [NAN], [4.0, 4.0]]
INTEGERS = [[3, 1, 3, 0, 7, 1], [5], [-2, -2, 4, 0], [-3, -1]]

#: Of a namespace, `ftrace.numpy` or NumPy, and arrays.
Function = Callable[..., Any]


@pytest.fixture(params=["native", "plain"], autouse=True)
def mode(request: pytest.FixtureRequest) -> Iterator[str]:
    with ft.config(native_calls=request.param == "native", device="cpu"):
        get_device("cpu").make_native()
        yield request.param


def leaves(x: Any) -> list[Any]:
    return list(x) if isinstance(x, tuple) else [x]


def same(found: Any, expected: Any) -> None:
    """Equal bits and types, but for which NaN it is."""
    assert type(found) is type(expected)
    assert all(isinstance(x, Array) for x in leaves(found))
    assert_same_bits(found, expected, check_weak_type=True)


def repeated(function: Function, *args: Any) -> None:
    """All calls have NumPy's values, and the bits and types of one in Python."""
    with ft.config(native_calls=False):
        expected = function(fnp, *args)
    with np.errstate(invalid="ignore"):
        wanted = function(np, *map(np.asarray, args))
    for x, y in zip(leaves(expected), leaves(wanted), strict=True):
        np.testing.assert_array_equal(np.asarray(x), y)
    for _ in range(CALLS):
        same(function(fnp, *args), expected)


OF_ONE: dict[str, Function] = {
    "unique": lambda m, x: m.unique(x),
    "unique, NaN apart": lambda m, x: m.unique(x, equal_nan=False),
    "unique_all": lambda m, x: tuple(m.unique_all(x)),
    "unique with all": lambda m, x: m.unique(x, True, True, True),
    "unique of a weak type": lambda m, x: m.unique(x.sum() * 0 + 1),
    "counts": lambda m, x: m.unique(x, return_counts=True),
    "inverse": lambda m, x: m.unique(x.reshape(1, -1), return_inverse=True),
    "nonzero": lambda m, x: m.nonzero(x),
    "nonzero of a matrix": lambda m, x: m.nonzero(m.stack([x, x * 0, x])),
    "flatnonzero": lambda m, x: m.flatnonzero(x),
    "argwhere": lambda m, x: m.argwhere(m.stack([x * 0, x])),
    "compress": lambda m, x: m.compress(x > 0, x),
    "compress along": lambda m, x: m.compress(x > 0, m.stack([x, x]), axis=1),
    "extract": lambda m, x: m.extract(x == x, x),
}


@pytest.mark.parametrize("values", [*FLOATS, *INTEGERS], ids=str)
@pytest.mark.parametrize("name", OF_ONE)
def test_functions_of_one_array_are_those_of_numpy(
    name: str, values: list[Any]
) -> None:
    for dtype in ("float32", "int32") if type(values[0]) is int else ("float32",):
        repeated(OF_ONE[name], fnp.asarray(values, dtype))


OF_TWO: dict[str, Function] = {
    "union1d": lambda m, x, y: m.union1d(x, y),
    "intersect1d": lambda m, x, y: m.intersect1d(x, y),
    "setdiff1d": lambda m, x, y: m.setdiff1d(x, y),
    "setxor1d": lambda m, x, y: m.setxor1d(x, y),
    "digitize": lambda m, x, y: m.digitize(x, m.sort(y)),
    "digitize, falling": lambda m, x, y: m.digitize(
        x, m.append(m.flip(m.sort(y)), -5), True
    ),
}


@pytest.mark.parametrize("first", FLOATS, ids=str)
@pytest.mark.parametrize("second", OTHERS, ids=str)
@pytest.mark.parametrize("name", OF_TWO)
def test_functions_of_two_arrays_are_those_of_numpy(
    name: str, first: list[Any], second: list[Any]
) -> None:
    given = [fnp.asarray(v, "float32") for v in (first, second)]
    repeated(OF_TWO[name], *given)
    repeated(OF_TWO[name], given[0], fnp.asarray([3, 1, 3]))


@pytest.mark.parametrize("values", INTEGERS, ids=str)
@pytest.mark.parametrize("dtype", ["int8", "int32", "uint8", "uint32"])
def test_counts_are_those_of_numpy(values: list[int], dtype: str) -> None:
    x = fnp.asarray(np.array(values).astype(dtype) % 100)
    repeated(lambda m, x: m.bincount(x), x)
    repeated(lambda m, x: m.bincount(x, minlength=5), x)


def test_other_values_of_the_same_type_have_results_of_their_own_size() -> None:
    x, y = fnp.asarray([1, 1, 2, 2]), fnp.asarray([4, 1, 2, 3])
    for given, count in ((x, 2), (y, 4), (x, 2), (y, 4)):
        for _ in range(CALLS):
            assert fnp.unique(given).shape == (count,)
            assert fnp.nonzero(given - 1)[0].shape == (min(count, 3),)
            assert fnp.bincount(given).shape == (3 if count == 2 else 5,)


def test_what_is_decided_by_values_is_decided_at_each_call() -> None:
    inside, outside = fnp.asarray([0, 2, 1]), fnp.asarray([0, 3, 1])
    rising, falling = fnp.asarray([1.0, 2.0]), fnp.asarray([2.0, 1.0])
    for _ in range(CALLS):
        assert fnp.ravel_multi_index((inside, inside), (3, 3)).tolist() == [0, 8, 4]
        assert fnp.choose(inside, [inside, inside + 5, inside]).tolist() == [0, 2, 6]
        assert fnp.digitize(fnp.asarray([1.5]), rising).tolist() == [1]
    for _ in range(3):
        with pytest.raises(FtraceError, match="bounds"):
            fnp.ravel_multi_index((inside, outside), (3, 3))
        with pytest.raises(FtraceError, match="not from 0 to 2"):
            fnp.choose(outside, [inside, inside, inside])
        assert fnp.digitize(fnp.asarray([1.5]), falling).tolist() == [1]
        assert fnp.digitize(fnp.asarray([2.5]), falling).tolist() == [0]
        assert fnp.digitize(fnp.asarray([2.5]), rising).tolist() == [2]


def test_what_follows_an_array_of_unknown_size_is_not_repeated() -> None:
    """Its size decides what else is done: such calls stay with Python."""
    values = (
        fnp.asarray([[1.0, 0.0], [0.0, 0.0]]),
        fnp.asarray([[1.0, 2.0], [0.0, 3.0]]),
    )
    for _ in range(CALLS):
        for x in values:
            rows = fnp.argwhere(x.reshape(4))
            assert rows.tolist() == np.argwhere(np.asarray(x).reshape(4)).tolist()
            trimmed = fnp.trim_zeros(x.reshape(4))
            assert trimmed.tolist() == np.trim_zeros(np.asarray(x).reshape(4)).tolist()


def test_traced_values_need_a_size_as_before() -> None:
    x = fnp.asarray([1, 1, 2])
    for _ in range(CALLS):
        fnp.unique(x)
    with pytest.raises(FtraceError, match="size"):
        ft.jit(fnp.unique)(x)
    assert ft.jit(lambda x: fnp.unique(x, size=2))(x).tolist() == [1, 2]
