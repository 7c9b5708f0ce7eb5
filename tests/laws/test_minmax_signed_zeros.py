"""Extrema of numbers with zeros of both signs: -0 is less than +0, everywhere.

The laws are those of IEEE 754-2019 and of JAX, held to the order of the bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st

import ftrace as ft
import ftrace.lax as lax
import ftrace.numpy as fnp
from ftrace.testing import assert_same_bits
from ftrace.trace.primitives import reference

SPECIAL = (-np.inf, -1.0, -1e-40, -0.0, 0.0, 1e-40, 2.0, np.inf, np.nan)
DTYPES = (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)


def ordered(x: Any) -> Any:
    """Integers in the order of floats, -0 before +0; NaN is apart."""
    bits = x.view(f"i{x.dtype.itemsize}").astype(np.int64)
    lowest = -(1 << (8 * x.dtype.itemsize - 1))
    return np.where(bits < 0, lowest - bits - 1, bits)


def extremum(word: str, x: Any, y: Any) -> Any:
    """The greater (`max`) or the lesser, element by element, by the order of bits."""
    first = ordered(x) >= ordered(y) if word == "max" else ordered(x) <= ordered(y)
    found = np.where(first, x, y)
    nan = np.isnan(x.astype(float)) | np.isnan(y.astype(float))
    return np.where(nan, np.full((), np.nan, x.dtype), found)


def running(word: str, x: Any) -> Any:
    total = x.copy()
    for i in range(1, len(x)):
        total[i] = extremum(word, total[i - 1 : i], x[i : i + 1])[0]
    return total


def special(dtype: Any, least: int = 1) -> st.SearchStrategy[Any]:
    element = st.sampled_from(SPECIAL)
    return st.lists(element, min_size=least, max_size=70).map(
        lambda v: np.array(v).astype(dtype)
    )


def everywhere(f: Callable[..., Any], *arguments: Any) -> list[Any]:
    """At once, and jitted: with the test's device as the default."""
    return [f(*map(fnp.asarray, arguments)), ft.jit(f)(*arguments)]


WORDS = {
    "max": (fnp.maximum, fnp.max, lax.cummax),
    "min": (fnp.minimum, fnp.min, lax.cummin),
}


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_extremum_of_every_pair_is_that_of_the_bits(
    device: Any, word: str, dtype: Any
) -> None:
    grid = np.meshgrid(SPECIAL, SPECIAL)
    x, y = (a.ravel().astype(dtype) for a in grid)
    for found in everywhere(WORDS[word][0], x, y):
        assert_same_bits(found, extremum(word, x, y))


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("bound", SPECIAL)
@pytest.mark.parametrize("first", [True, False])
def test_extremum_with_a_number_in_the_code_is_that_of_the_bits(
    device: Any, word: str, bound: float, first: bool
) -> None:
    x = np.array(SPECIAL * 5, np.float32)
    number, f = np.float32(bound), WORDS[word][0]
    one = (lambda x: f(x, number)) if first else (lambda x: f(number, x))
    for found in everywhere(one, x):
        assert_same_bits(found, extremum(word, x, np.full_like(x, bound)))


@pytest.mark.parametrize("word", WORDS)
@given(x=special(np.float32))
def test_reduced_and_running_extrema_are_those_of_the_bits(word: str, x: Any) -> None:
    _, whole, along = WORDS[word]
    wanted = running(word, x)
    for name in ("cpu", "interpreter"):
        with ft.config(device=name):
            for found in everywhere(whole, x):
                assert_same_bits(found, wanted[-1])
            for found in everywhere(along, x):
                assert_same_bits(found, wanted)
            for found in everywhere(lambda x: along(x, reverse=True), x):
                assert_same_bits(found, running(word, x[::-1])[::-1])


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("axis", [0, 1])
def test_extrema_of_many_rows_and_columns_are_those_of_the_bits(
    device: Any, word: str, axis: int
) -> None:
    zeros = np.random.default_rng(3).choice([-0.0, 0.0, -0.0], (37, 45))
    x = zeros.astype(np.float32)
    wanted = np.moveaxis(running(word, np.moveaxis(x, axis, 0))[-1:], 0, axis)
    whole = WORDS[word][1]
    for found in everywhere(lambda x: whole(x, axis=axis, keepdims=True), x):
        assert_same_bits(found, wanted)


@pytest.mark.parametrize("word", WORDS)
@given(data=st.data(), x=special(np.float32))
def test_scattered_extrema_are_those_of_the_bits(word: str, data: Any, x: Any) -> None:
    values = data.draw(special(np.float32))
    at = st.integers(0, len(x) - 1)
    index = np.array(
        data.draw(st.lists(at, min_size=len(values), max_size=len(values))), np.int32
    )
    wanted = x.copy()
    for i, value in zip(index, values, strict=True):
        wanted[i] = extremum(word, wanted[i : i + 1], np.array([value]))[0]
    for name in ("cpu", "interpreter"):
        with ft.config(device=name):
            for found in everywhere(
                lambda x, i, v: getattr(x.at[i], word)(v), x, index, values
            ):
                assert_same_bits(found, wanted)


@given(x=special(np.float32))
def test_clip_and_relu_keep_to_the_order_of_the_bits(x: Any) -> None:
    zero, less = np.zeros_like(x), np.full_like(x, -0.0)
    for name in ("cpu", "interpreter"):
        with ft.config(device=name):
            for found in everywhere(lambda x: fnp.maximum(x, 0), x):
                assert_same_bits(found, extremum("max", x, zero))
            for found in everywhere(lambda x: fnp.clip(x, -0.0, 1.0), x):
                assert_same_bits(
                    found, extremum("min", extremum("max", x, less), zero + 1)
                )


def test_order_of_operands_is_of_no_importance() -> None:
    """The extremum of -0 and +0 has one sign, whichever of them comes first."""
    x, y = np.float32([-0.0, 0.0]), np.float32([0.0, -0.0])
    f = ft.jit(lambda x, y: (fnp.maximum(x, y), fnp.maximum(y, x)))
    first, second = f(x, y)
    assert_same_bits(first, np.float32([0, 0]))
    assert_same_bits(second, np.float32([0, 0]))


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.bool_])
def test_extrema_of_other_numbers_are_numpys(dtype: Any) -> None:
    x, y = np.array([0, 1, 1, 0], dtype), np.array([1, 0, 1, 0], dtype)
    assert (reference.maximum(x, y) == np.maximum(x, y)).all()
    assert reference.minimum.reduce(x) == np.minimum.reduce(x)
    assert (reference.maximum.accumulate(x) == np.maximum.accumulate(x)).all()
    z = x.copy()
    reference.maximum.at(z, np.array([0, 0]), np.array([1, 0], dtype))
    assert z[0] == 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_of_one_element_each_are_the_elements(device: Any, dtype: Any) -> None:
    x = np.array([-0.0, 0.0, -1.5, np.nan, -np.inf], dtype)
    samples = [(x[:, None], 1), (x[None, :, None], (0, 2)), (x[:1, None], None)]
    for function in (fnp.sum, fnp.mean):
        for value, axis in samples:
            want = np.signbit(value.reshape(-1))
            array = fnp.asarray(value)
            for _ in range(12):  # Python's code, then what it was found to do
                found = function(array, axis)
                np.testing.assert_array_equal(np.signbit(found).reshape(-1), want)
            jitted = ft.jit(function, static_argnums=1)
            found = jitted(value, axis)
            np.testing.assert_array_equal(np.signbit(found).reshape(-1), want)
    empty = fnp.sum(fnp.zeros((0, 5), dtype), 1)
    assert empty.shape == (0,)
    assert not np.signbit(fnp.sum(fnp.zeros(0, dtype)))


@pytest.mark.parametrize("shape", [(3,), (100,), (40, 3), (3, 40), (500, 70)])
def test_sums_of_negative_zeros_are_positive(
    device: Any, shape: tuple[int, ...]
) -> None:
    """A sum of several terms begins with +0; of one it is the term."""
    x = np.full(shape, -0.0, np.float32)
    for axis in range(len(shape)):
        for function in (fnp.sum, fnp.mean, fnp.cumsum):
            for found in (
                function(x, axis),
                ft.jit(function, static_argnums=1)(x, axis),
            ):
                assert not np.signbit(np.asarray(found)).any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (2, 3), (5, 1), (70, 40)])
def test_a_product_over_one_term_is_the_term(
    device: Any, dtype: Any, rows: int, columns: int
) -> None:
    """−0 stays −0, with and without `jit`, as it does in a sum over an axis of 1."""
    x, y = np.full((rows, 1), -0.0, dtype), np.ones((1, columns), dtype)
    products: list[Callable[[Any, Any], Any]] = [
        lambda x, y: x @ y,
        lambda x, y: fnp.einsum("ij,jk->ki", x, y),
        lambda x, y: fnp.tensordot(x, y, 1),
        lambda x, y: fnp.dot(x[0], y[:, 0]),
        lambda x, y: fnp.matmul(fnp.stack([x, x]), y),
        lambda x, y: fnp.sum(x[:, :, None] * y, axis=1),
    ]
    jitted = ft.jit(lambda x, y: [product(x, y) for product in products])(x, y)
    at_once = [product(fnp.asarray(x), fnp.asarray(y)) for product in products]
    for found in (*at_once, *jitted):
        assert (np.asarray(found) == 0).all()
        assert np.signbit(found).all()
