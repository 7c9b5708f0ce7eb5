"""Compositions in traces: recorded again without the function, as if it had run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.trace.eager.composite import run_fused
from ftrace.trace.graph import render_graph
from ftrace.trace.tiering import TRACED_BEFORE_GRAPH

#: How often a composition runs: then its graph is recorded again.
RUNS = TRACED_BEFORE_GRAPH + 1
_ran: list[int] = []


def _scaled_product(x: Any, y: Any, scale: float = 2.0) -> Any:
    _ran.append(1)
    return (x * y).sum(-1) * scale


def _of_concrete(x: Any) -> Any:
    return x + fnp.arange(x.shape[0])


@pytest.fixture(autouse=True)
def counted() -> Iterator[None]:
    ft.clear_caches()
    _ran.clear()
    yield
    ft.clear_caches()


X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_function_runs_seldom_for_operands_of_the_same_types() -> None:
    def f(x: Any, y: Any) -> Any:
        first = run_fused(_scaled_product, [x, y])
        return first + run_fused(_scaled_product, [y, x])

    for function in (f, lambda x, y: f(x, y) * 2, lambda x, y: f(x, y) * 3):
        found = ft.jit(function)(X, X + 1)
        want = function(X, X + 1)
        np.testing.assert_allclose(found, want, rtol=1e-6)
    assert len(_ran) == RUNS


def test_other_types_and_other_static_values_are_others() -> None:
    def f(x: Any, scale: float) -> Any:
        return run_fused(_scaled_product, [x, x], scale=scale)

    for scale in (2.0, 2, -0.0, 0.0):
        for x in (X, X[:1], X.astype(np.int32)):
            before = len(_ran)
            found = ft.make_graph(lambda x, s=scale: f(x, s))(x)
            for _ in range(RUNS):
                again = ft.make_graph(lambda x, s=scale: f(x, s))(x)
            assert len(_ran) == before + RUNS
            assert found.outputs[0].aval is again.outputs[0].aval


def test_nodes_are_those_that_the_function_makes() -> None:
    x = fnp.asarray(X)
    again = ft.make_graph(lambda x: run_fused(_scaled_product, [x, x]))
    plain = ft.make_graph(lambda x: _scaled_product(x, x))
    for _ in range(RUNS + 1):
        found, want = again(x), plain(x)
        assert render_graph(found, False) == render_graph(want, False)


def test_each_call_has_its_own_line() -> None:
    lines: list[int] = []

    def f(x: Any) -> Any:
        first = run_fused(_scaled_product, [x, x])
        second = run_fused(_scaled_product, [x, x + 1])
        lines.extend((first.origin.line, second.origin.line))
        return first + second

    for _ in range(RUNS):
        lines.clear()
        ft.make_graph(f)(X)
    assert lines[1] == lines[0] + 1


def test_what_types_do_not_decide_runs_again() -> None:
    def of_numbers(x: Any) -> Any:  # all their bits may be wanted
        return run_fused(_scaled_product, [x[None], x[None, None][0]])

    for value in (2, 2.5):
        assert ft.jit(of_numbers)(value) == 2 * value * value
    _ran.clear()

    def of_any_length(x: Any) -> Any:
        return run_fused(_scaled_product, [x, x])

    for count in (1, 2):
        jitted = ft.jit(of_any_length, dynamic={"x": {0: "n"}})
        for n in (2, 5):
            x = np.ones((n, 3), np.float32)
            np.testing.assert_array_equal(jitted(x), np.full(n, 6, np.float32))
        assert len(_ran) == count


def test_held_arrays_are_captured_by_each_graph() -> None:
    for _ in range(RUNS + 1):
        graph = ft.make_graph(lambda x: run_fused(_of_concrete, [x]))(X[:, :2])
        assert graph.outputs[0].shape == (2, 2)
        found = ft.jit(lambda x: run_fused(_of_concrete, [x]))(X[:, :2])
        np.testing.assert_array_equal(found, X[:, :2] + np.arange(2))
