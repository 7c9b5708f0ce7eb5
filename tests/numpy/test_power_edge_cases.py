"""Powers where they are easily got wrong: zeros, infinities, NaN, whole exponents."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import ftrace as ft
import ftrace.numpy as fnp

BASES = (-np.inf, -3.0, -2.5, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, 3.0, np.inf, np.nan)
EXPONENTS = (*BASES, -2.0, 1.5, 1 / 3, -1 / 3, 4.0, 5.0)


def c_power(x: float, y: float) -> float:
    """C's pow, by Python's, which raises where C returns infinity or NaN."""
    try:
        return math.pow(x, y)
    except OverflowError:
        return math.inf
    except ValueError:
        if x == 0:  # to a negative power; odd ones keep the sign
            is_odd = math.isfinite(y) and y % 2 == 1
            return math.copysign(math.inf, x) if is_odd else math.inf
        return math.nan


def assert_same(found: Any, wanted: Any) -> None:
    """Close, infinities and NaN the same, and the signs of zeros."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    known = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found)[known], np.signbit(wanted)[known])


def at_once_and_jitted(f: Any, *arguments: Any) -> list[Any]:
    return [f(*map(fnp.asarray, arguments)), ft.jit(f)(*arguments)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_powers_are_those_of_c(device: Any, dtype: Any) -> None:
    grid = np.meshgrid(np.array(BASES, dtype), np.array(EXPONENTS, dtype))
    x, y = (a.ravel() for a in grid)
    wanted = np.array([c_power(a, b) for a, b in zip(x, y, strict=True)], dtype)
    for found in at_once_and_jitted(lambda x, y: x**y, x, y):
        assert_same(found, wanted)


@pytest.mark.parametrize("exponent", EXPONENTS)
def test_one_exponent_for_all_is_that_for_each(device: Any, exponent: float) -> None:
    """NumPy's loops know exponents that repeat, and have other values for them."""
    x = np.array(BASES * 3, np.float32)
    power = float(np.float32(exponent))
    wanted = np.array([c_power(float(a), power) for a in x], np.float32)
    for found in at_once_and_jitted(lambda x: x**exponent, x):
        assert_same(found, wanted)
    for found in at_once_and_jitted(lambda x, y: x**y, x, np.float32(exponent)):
        assert_same(found, wanted)


@pytest.mark.parametrize("exponent", [-3, -2, -1, 0, 1, 2, 3, 7])
def test_whole_exponents_are_products(device: Any, exponent: int) -> None:
    x = np.array(BASES, np.float32)
    wanted = np.array([c_power(float(a), exponent) for a in x], np.float32)
    for found in at_once_and_jitted(lambda x: x**exponent, x):
        assert_same(found, wanted)


@pytest.mark.parametrize("dtype", [ft.numpy.float16, ft.numpy.bfloat16])
@pytest.mark.parametrize("exponent", [-7, -2, 2, 3, 4, 7, 10])
def test_whole_powers_of_16_bit_floats_are_rounded_once(
    device: Any, dtype: Any, exponent: int
) -> None:
    x = np.random.default_rng(3).uniform(0.5, 2, 300).astype(dtype)
    wanted = (x.astype(np.float64) ** exponent).astype(dtype)
    functions = lambda x: x**exponent, lambda x: ft.lax.integer_pow(x, exponent)
    for function in functions:
        for found in at_once_and_jitted(function, x):
            np.testing.assert_array_equal(np.asarray(found), wanted)


@pytest.mark.parametrize("exponent", [-2, -3, -10, -149])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_inverses_of_large_powers_are_denormal(
    device: Any, dtype: Any, exponent: int
) -> None:
    tiny = float(np.finfo(dtype).tiny)
    x = (tiny * np.array([0.9, 0.1, 0.01, 3.0])) ** (1 / exponent)
    x = np.concatenate([x, -x]).astype(dtype)
    wanted = np.array([math.pow(a, exponent) for a in x.astype(np.float64)])
    for found in at_once_and_jitted(lambda x: x**exponent, x):
        allowed = abs(exponent) * np.finfo(dtype).eps * np.abs(wanted)
        allowed += np.finfo(dtype).smallest_subnormal
        assert (np.abs(np.asarray(found, np.float64) - wanted) <= allowed).all()


def test_nothing_to_the_power_of_nothing_is_one(device: Any) -> None:
    for dtype in (np.float32, np.int32, np.float16):
        for found in at_once_and_jitted(lambda x, y: x**y, *np.zeros((2, 3), dtype)):
            assert (np.asarray(found) == 1).all()


@given(
    x=st.lists(st.integers(-5, 5), min_size=1, max_size=20),
    y=st.integers(0, 40),
    width=st.sampled_from([np.int8, np.int32, np.int64, np.uint8]),
)
def test_powers_of_integers_wrap_around(x: list[int], y: int, width: Any) -> None:
    base = np.array(x).astype(width)
    bits = 8 * base.itemsize
    wanted = np.array([pow(int(b), y, 1 << bits) for b in base], object)
    wanted = np.array([int(w) for w in wanted], np.uint64).astype(width)
    exponents = np.full(base.shape, y, width)
    for name in ("cpu", "interpreter"):
        with ft.config(device=name):
            for found in at_once_and_jitted(lambda a, b: a**b, base, exponents):
                np.testing.assert_array_equal(found, wanted)


def test_negative_powers_of_integers_are_zero_but_of_units() -> None:
    x, y = np.int32([-2, -1, 1, 3, -1]), np.int32([-1, -3, -5, -2, -2])
    for found in at_once_and_jitted(lambda x, y: x**y, x, y):
        assert np.asarray(found).tolist() == [0, -1, 1, 0, 1]


@pytest.mark.parametrize(
    ("exponent", "wanted"),
    [
        (0.5, [0, np.inf, np.inf, 0]),
        (2.0, [-np.inf, -0.0, 0.0, np.inf]),
        (3, [np.inf, 0, 0, np.inf]),
        (1.0, [1, 1, 1, 1]),
        (0, [0, 0, 0, 0]),
        (-1.0, [-0.0, -np.inf, -np.inf, -0.0]),
        (-2.0, [0.0, np.inf, -np.inf, -0.0]),
    ],
)
def test_slopes_at_zeros_and_infinities_are_those_of_jax(
    exponent: float, wanted: list[float]
) -> None:
    x = np.float32([-np.inf, -0.0, 0.0, np.inf])
    slopes = ft.vmap(ft.grad(lambda x: x**exponent))
    for found in at_once_and_jitted(slopes, x):
        assert_same(found, np.float32(wanted))


def tangents_along_ones(f: Any, x: Any) -> Any:
    return ft.jvp(f, (x,), (fnp.ones_like(x),))[1]


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_slopes_of_negative_powers_are_infinite_at_zero(device: Any, name: str) -> None:
    dtype = fnp.dtype(name)
    tiny = float(fnp.finfo(dtype).smallest_subnormal)
    x = np.array([0.0, -0.0, tiny, -tiny, np.inf, -np.inf, 1.0, -1.0]).astype(dtype)
    wanted: list[Any] = []
    slopes: list[Any] = []
    for exponent in (-1, -2, -3, -8, -17):
        sizes = np.array([np.inf] * 4 + [0] * 2 + [-exponent] * 2)
        signs = np.copysign(1.0, x.astype(float)) ** (exponent - 1)
        for f in (
            lambda x, n=exponent: x**n,
            lambda x, n=exponent: ft.lax.integer_pow(x, n),
        ):
            slopes += [ft.vmap(ft.grad(f)), partial(tangents_along_ones, f)]
            wanted += [-sizes * signs] * 2
    at_once = [slope(x) for slope in slopes]
    jitted = ft.jit(lambda x: [slope(x) for slope in slopes])(x)
    for found in (at_once, jitted):
        np.testing.assert_array_equal(np.asarray(found, float), wanted)


def test_powers_and_quotients_of_integers_are_weak_alike_with_and_without_jit() -> None:
    mask = np.array([True, False])
    cases = [
        (lambda x: fnp.power(x, mask), False),
        (lambda x: fnp.floor_divide(x, 2), True),
        (lambda x: fnp.divmod(x, 2)[0], True),
        (lambda x: fnp.floor_divide(x, np.int32(2)), False),
    ]
    for function, weak in cases:
        assert function(3).weak_type == weak
        assert ft.jit(function)(3).weak_type == weak


@pytest.mark.parametrize("power", [ft.lax.pow, fnp.power, fnp.float_power])
@pytest.mark.parametrize(
    "exponents", [(2, 3, 0, 1, -1), (0.3, 0.7, 0.5, 2.0, -0.5)], ids=["whole", "other"]
)
def test_slopes_of_powers_do_not_depend_on_how_the_exponent_is_given(
    power: Any, exponents: tuple[float, ...]
) -> None:
    """Powers that differ by their exponent alone share code where they can."""
    x = np.float32([0.5, 1, 2, 3])
    for exponent in exponents:
        wanted = exponent * x.astype(float) ** (exponent - 1)
        for n in (exponent, np.float32(exponent), np.full(4, exponent, np.float32)):
            f = partial(lambda n, x: power(x, n).sum(), n)
            slopes = [ft.grad(f), partial(tangents_of_each, f)]
            if not np.shape(n):
                slopes.append(ft.vmap(ft.grad(f)))
            for found in (at_once_and_jitted(slope, x) for slope in slopes):
                np.testing.assert_allclose(found, [wanted, wanted], rtol=1e-5)


def tangents_of_each(f: Any, x: Any) -> Any:
    return ft.vmap(lambda direction: ft.jvp(f, (x,), (direction,))[1])(fnp.eye(4))
