"""Un-jitted derivatives are derived once: the same graph has the same derivative."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.ground.tables import Table
from ftrace.trace import autodiff


@pytest.fixture
def derivations(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one with every walk that differentiates a graph."""
    ft.clear_caches()
    seen: list[int] = []

    plain = autodiff.gradient_nodes

    def counted(*args: Any) -> Any:
        seen.append(1)
        return plain(*args)

    monkeypatch.setattr(autodiff, "gradient_nodes", counted)
    return seen


def test_a_gradient_is_derived_once_per_graph(derivations: list[int]) -> None:
    calls: list[int] = []

    def loss(x: Any, power: int) -> Any:
        calls.append(1)
        return fnp.sum(fnp.sin(x) ** power)

    x = np.arange(3, dtype=np.float32)
    first = ft.grad(loss)(x, 2)
    again = ft.grad(loss)(x + 1, 2)
    assert (len(calls), len(derivations)) == (2, 1)  # the function runs each time
    np.testing.assert_allclose(first, 2 * np.sin(x) * np.cos(x), rtol=1e-6)
    np.testing.assert_allclose(again, np.sin(2 * (x + 1)), rtol=1e-5, atol=1e-6)
    ft.grad(loss)(x, 3)
    ft.grad(loss)(x[:2], 2)
    assert len(derivations) == 3  # another graph, another derivative


def test_captured_arrays_are_those_of_the_call(derivations: list[int]) -> None:
    x = np.ones(3, np.float32)

    def gradient(weight: Any) -> Any:
        return ft.grad(lambda x: fnp.sum(fnp.asarray(weight) * x))(x)

    for value in (2.0, 5.0):
        weight = np.full(3, value, np.float32)
        np.testing.assert_array_equal(gradient(weight), weight)
    assert len(derivations) == 1


def test_rules_of_users_run_every_time(derivations: list[int]) -> None:
    calls: list[int] = []

    @ft.custom_jvp
    def f(x: Any) -> Any:
        return fnp.sin(x)

    @f.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        calls.append(1)
        return f(*primals), 3.0 * tangents[0]

    for _ in range(2):
        np.testing.assert_allclose(ft.grad(lambda x: fnp.sum(f(x)))(1.0), 3.0)
    assert len(derivations) == 2
    assert calls


def test_a_jvp_knows_which_arguments_vary() -> None:
    def f(x: Any, y: Any) -> Any:
        return x * y

    one, two = np.float32(1), np.float32(2)
    for _ in range(2):
        assert ft.jvp(f, (one, two), (one, np.float32(0)))[1] == 2
        assert ft.jvp(f, (one, two), (np.float32(0), one))[1] == 1
    assert ft.jvp(lambda x: f(x, two), (one,), (one,))[1] == 2


def test_nested_gradients_of_tracers(derivations: list[int]) -> None:
    third = ft.grad(ft.grad(ft.grad(lambda x: x**4)))
    for x in (1.0, 2.0):
        np.testing.assert_allclose(third(x), 24 * x, rtol=1e-6)
    assert len(derivations) == 3
    np.testing.assert_allclose(ft.jit(third)(3.0), 72.0, rtol=1e-6)


def test_memo_forgets_what_was_used_longest_ago() -> None:
    memo: Table[str, int] = Table(2)
    memo.put("a", 1)
    memo.put("b", 2)
    assert memo.get("a") == 1
    memo.put("c", 3)
    assert [memo.get(key) for key in "abc"] == [1, None, 3]
    memo.clear()
    assert memo.get("a") is None
