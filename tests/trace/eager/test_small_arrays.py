"""Eager operations that are calls of ufuncs: the bits are NumPy's, whatever comes.

Every test runs twice: with native calls, where this interpreter has them, and without.
"""

from __future__ import annotations

import operator
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.backends.base import get_device
from ftrace.testing import assert_same_bits
from ftrace.trace import tiering
from ftrace.trace.arrays.array import Array
from tests.support.covering import covering

#: The eighth is learned, and two more are native.
CALLS = tiering.CALLS_BEFORE_RECORD + 3
SHAPES = [(), (0,), (1,), (5, 3), (16,), (64,), (7, 9, 2), (130, 131)]
OPERATORS = [operator.add, operator.sub, operator.mul]
COMPARISONS = [
    operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge,
]  # fmt: skip
UNARY = [operator.neg, operator.abs, "sqrt"]
NUMBERS = [0.0, -0.0, 1.0, -2.5, float("inf"), float("-inf"), float("nan"), 1e-45]


@pytest.fixture(params=["native", "plain"], autouse=True)
def mode(request: pytest.FixtureRequest) -> Iterator[str]:
    with ft.config(native_calls=request.param == "native", device="cpu"):
        get_device("cpu").make_native()
        yield request.param


def samples(dtype: Any, shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    """Ordinary numbers, and all special ones beside each other."""
    kind = np.dtype(dtype)
    draw = np.random.default_rng(seed)
    if kind.kind == "i":
        info = np.iinfo(kind)
        special = [info.min, info.max, -1, 0, 1, info.max // 2]
        ordinary = draw.integers(info.min, info.max, shape, kind, endpoint=True)
    else:
        info = np.finfo(kind)
        edge = [info.max, info.tiny, info.smallest_subnormal, info.eps, np.nan, np.inf]
        special = [0.0, -0.0, 1.0, -1.0, -np.inf, *edge, *(-x for x in edge)]
        ordinary = draw.normal(size=shape).astype(kind)
    chosen = draw.choice(np.array(special, kind), shape)
    return np.where(draw.random(shape) < 0.6, chosen, ordinary).astype(kind)


def repeated(function: Callable[..., Any], expected: Any, *args: Any) -> None:
    for _ in range(CALLS):
        assert_same_bits(function(*args), expected)


def of_numpy(function: Any, *args: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.asarray(function(*args))


def dtypes() -> list[str]:
    return ["float32", "float64", "int32", "int64"]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", dtypes())
def test_operations_of_two_arrays_give_the_bits_of_numpy(
    dtype: str, shape: tuple[int, ...]
) -> None:
    with ft.config(enable_x64=True):
        x, y = samples(dtype, shape, 1), samples(dtype, shape, 2)
        a, b = fnp.asarray(x), fnp.asarray(y)
        floats = [operator.truediv] if dtype.startswith("f") else []
        for operation in (*OPERATORS, *COMPARISONS, *floats):
            repeated(operation, of_numpy(operation, x, y), a, b)
            repeated(operation, of_numpy(operation, x, x), a, a)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_operations_of_one_array_give_the_bits_of_numpy(
    dtype: str, shape: tuple[int, ...]
) -> None:
    with ft.config(enable_x64=True):
        x = samples(dtype, shape, 3)
        a = fnp.asarray(x)
        for operation in UNARY:
            if isinstance(operation, str):
                expected = of_numpy(getattr(np, operation), x)
                repeated(getattr(fnp, operation), expected, a)
            else:
                repeated(operation, of_numpy(operation, x), a)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numbers_beside_arrays_are_rounded_as_numpy_rounds_them(dtype: str) -> None:
    with ft.config(enable_x64=True):
        x = samples(dtype, (37,), 4)
        a, kind = fnp.asarray(x), np.dtype(dtype).type
        for operation in (*OPERATORS, operator.truediv, *COMPARISONS):
            for _ in range(2):
                for number in (*NUMBERS, 0.1, 1e300, -1e300, 1e-320, 3):
                    with np.errstate(all="ignore"):
                        value: Any = kind(number)
                        after, first = operation(x, value), operation(value, x)
                    assert_same_bits(operation(a, number), after)
                    assert_same_bits(operation(number, a), first)


def test_integers_wrap_around() -> None:
    x = np.array([2**31 - 1, -(2**31), 5], np.int32)
    a = fnp.asarray(x)
    for operation, number in ((operator.add, 7), (operator.mul, 3), (operator.sub, 9)):
        expected = operation(x, np.int32(number))
        repeated(lambda z, op=operation, n=number: op(z, n), expected, a)


@pytest.mark.parametrize("layout", ["turned", "strided", "unaligned"])
def test_arrays_of_another_layout_are_left_to_numpy(layout: str) -> None:
    plain = np.arange(12, dtype=np.float32).reshape(3, 4) + 0.5
    a = fnp.asarray(plain)
    repeated(operator.add, plain + plain, a, a)
    if layout == "turned":
        other = np.asfortranarray(plain)
    elif layout == "strided":
        other = np.repeat(plain, 2, axis=1)[:, ::2]
    else:
        raw = np.zeros(plain.nbytes + 1, np.uint8)
        other = raw[1:].view(np.float32).reshape(3, 4)
        other[:] = plain
    b = Array(plain.shape, plain.dtype, False, None, other)
    assert_same_bits(a + b, plain + plain)
    assert_same_bits(b - a, plain - plain)


def test_results_of_programs_are_operands() -> None:
    x = np.arange(40, dtype=np.float32)
    double = ft.jit(lambda z: z * 2)
    for _ in range(CALLS + 4):
        assert_same_bits(
            double(fnp.asarray(x)) - double(fnp.asarray(x + 1)), x * 2 - (x + 1) * 2
        )


def test_deleted_arrays_are_refused() -> None:
    spent = ft.jit(lambda z: z + 1, donate_argnums=0)
    a, b = fnp.asarray(np.ones(77, np.float32)), fnp.asarray(np.ones(77, np.float32))
    repeated(operator.add, np.full(77, 2, np.float32), a, b)
    spent(b)
    with pytest.raises(ft.errors.DeletedArrayError):
        a + b


def test_nothing_is_told_of_floating_point_errors() -> None:
    x = np.array([0.0, -1.0, 3e38], np.float32)
    a = fnp.asarray(x)
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        for _ in range(CALLS):
            a / a, a * a, fnp.sqrt(a), a * 1e300, a < float("nan")
            assert np.add(np.float32(1), np.float32(1)) == 2


def test_weak_types_stay() -> None:
    weak = fnp.asarray(2.0)
    for _ in range(CALLS):
        assert (weak + weak).weak_type == weak.weak_type
        assert (weak * 2).weak_type == weak.weak_type
        assert not (fnp.ones(3) * 2.0).weak_type


def test_no_reference_is_lost_or_kept() -> None:
    a, b = fnp.ones((6, 6)), fnp.ones((6, 6))
    for _ in range(CALLS):
        a + b, a * 2.5, -a, a < b
    dtype, number = a.dtype, 2.5
    things = (a, b, a.numpy(), number, dtype, np.dtype(np.bool_), a.shape)
    before = [sys.getrefcount(x) for x in things]
    for _ in range(500):
        a + b, a * number, -a, a < b
    after = [sys.getrefcount(x) for x in things]
    assert max(abs(x - y) for x, y in zip(before, after, strict=True)) < 20


@pytest.mark.parametrize("shapes", [
    ((4, 8), (4, 1)), ((4, 8), (8,)), ((3, 1, 5), (2, 5)), ((1, 7), (6, 1)),
    ((2, 3, 4), (3, 1)), ((2, 3, 4, 5), (2, 1, 4, 1)), ((3,), (1,)), ((1, 1), ()),
])  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_operands_are_broadcast_as_by_numpy(dtype: str, shapes: Any) -> None:
    x, y = (samples(dtype, shape, i) for i, shape in enumerate(shapes))
    a, b = fnp.asarray(x), fnp.asarray(y)
    for operation in (*OPERATORS, operator.lt):
        repeated(operation, of_numpy(operation, x, y), a, b)
        repeated(operation, of_numpy(operation, y, x), b, a)


#: Sums along neighbours and across them, of few terms and of many, of one group of axes
#: and of two, and the axes.
SUMS = [
    ((5,), (0,)), ((7,), (0,)), ((8,), (0,)), ((129,), (0,)), ((257,), (0,)),
    ((500,), (0,)), ((511,), (0,)), ((1000,), (0,)), ((70001,), (0,)), ((6, 300), (1,)),
    ((4, 5, 6), (1, 2)), ((33, 1000), (0,)), ((129, 10), (0,)), ((130, 131), (0,)),
    ((1000, 3), (0,)), ((2, 1500, 24), (1,)), ((3, 9, 1), (1,)), ((3, 1, 9), (1,)),
    ((2, 40, 10, 30), (1, 2)), ((3000, 5), (0,)), ((4, 3, 20), (0, 2)), ((0, 3), (0,)),
    ((8, 3, 32, 32), (0, 1)), ((16, 16, 65), (0,)),
]  # fmt: skip


@covering(1, {("shape", "axes"): SUMS}, dtype=[*dtypes(), "uint32", "float16"])
def test_sums_have_the_bits_of_the_first_call(
    dtype: str, shape: tuple[int, ...], axes: tuple[int, ...]
) -> None:
    with ft.config(enable_x64=True):
        x = (np.random.default_rng(4).normal(size=shape) * 1000).astype(dtype)
        for values in (x, -x * 0, np.asfortranarray(x), x[::-1]):
            a = fnp.asarray(values)
            repeated(lambda a: fnp.sum(a, axes), np.asarray(fnp.sum(a, axes)), a)
            running = np.asarray(fnp.cumsum(a, axes[-1]))
            repeated(lambda a: fnp.cumsum(a, axes[-1]), running, a)
            back = np.asarray(lax.cumsum(a, axes[-1], reverse=True))
            repeated(lambda a: lax.cumsum(a, axes[-1], reverse=True), back, a)
