"""Loops whose elements end apart, and whole-number powers, which are such loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax

INTEGERS = ("int32", "int64", "uint32", "int16", "uint8")


def collatz(x: Any) -> Any:
    """Steps until each is 1."""

    def more(carry: Any) -> Any:
        return fnp.any(carry[0] != 1)

    def step(carry: Any) -> Any:
        x, count = carry
        after = fnp.where(x % 2 == 0, x // 2, 3 * x + 1)
        done = x == 1
        return fnp.where(done, x, after), fnp.where(done, count, count + 1)

    return lax.while_loop(more, step, (x, fnp.zeros_like(x)))[1]


def halved_together(x: Any) -> Any:
    """All elements go on as long as one is large."""
    return lax.while_loop(lambda x: fnp.any(x > 1), lambda x: x / 2, x)


def halved_by_neighbours(x: Any) -> Any:
    """An element that is done stays, but reads others until then."""

    def step(x: Any) -> Any:
        return fnp.where(x > 1, x / 2 - abs(fnp.flip(x)) / 64, x)

    return lax.while_loop(lambda x: fnp.any(x > 1), step, x)


def halved_by_itself(x: Any) -> Any:
    def step(x: Any) -> Any:
        return fnp.where(x > 1, x / 2, x)

    return lax.while_loop(lambda x: fnp.any(x > 1), step, x)


def test_collatz_steps_of_each_number() -> None:
    x = np.arange(1, 1001, dtype=np.int32)
    wanted = []
    for n in x.tolist():
        count = 0
        while n != 1:
            n, count = (n // 2 if n % 2 == 0 else 3 * n + 1), count + 1
        wanted.append(count)
    np.testing.assert_array_equal(ft.jit(collatz)(x), wanted)
    np.testing.assert_array_equal(ft.jit(collatz)(x.reshape(10, 20, 5)).ravel(), wanted)
    assert ft.jit(collatz)(x[:0]).shape == (0,)


@pytest.mark.parametrize(
    "function", [halved_together, halved_by_neighbours, halved_by_itself]
)
def test_loops_have_the_same_bits_either_way(function: Any) -> None:
    x = np.random.default_rng(0).normal(0, 50, (30, 7)).astype(np.float32)
    x[0, :3] = np.nan, -np.nan, -0.0
    found = np.asarray(ft.jit(function)(x))
    with ft.config(disabled_rules={"promote_loops"}):
        other = np.asarray(ft.jit(function)(x))
    assert found.tobytes() == other.tobytes()


@pytest.mark.parametrize("dtype", INTEGERS)
def test_traced_powers_are_those_of_numpy(dtype: str) -> None:
    info, random = np.iinfo(dtype), np.random.default_rng(0)
    x = random.integers(max(info.min, -9), 10, (40, 5)).astype(dtype)
    n = random.integers(0, 70, (40, 5)).astype(dtype)
    x[0], n[0] = info.max, info.max
    power = ft.jit(lambda x, n: x**n)
    np.testing.assert_array_equal(power(x, n), x**n)
    np.testing.assert_array_equal(power(x[:, :1], n[:1]), x[:, :1] ** n[:1])
    np.testing.assert_array_equal(power(x[3, 2], n), x[3, 2] ** n)
    np.testing.assert_array_equal(power(x[3, 2], n[0, 1]), x[3, 2] ** n[0, 1])
    np.testing.assert_array_equal(ft.jit(ft.vmap(power.__wrapped__))(x, n), x**n)
    assert power(x[:0], n[:0]).shape == (0, 5)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_traced_negative_powers_are_those_of_known_ones(dtype: str) -> None:
    x = np.array([-2, -1, 0, 1, 2, 3], dtype).repeat(4)
    n = np.tile(np.array([-3, -2, -1, 2], dtype), 6)
    found = ft.jit(lambda x, n: x**n)(x, n)
    np.testing.assert_array_equal(found, fnp.asarray(x) ** fnp.asarray(n))
