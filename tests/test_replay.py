"""Compositions are recorded again without running their Python: the same graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.errors import ShapeError
from ftrace.trace import fused
from ftrace.trace.replay import is_replayable

X = np.arange(12, dtype=np.float32).reshape(3, 4)


#: The (shape, scale) for which the composition has run.
SEEN: list[Any] = []


def plain(x: Any, scale: float = 2.0) -> Any:
    return fnp.sum(fnp.exp(x) * scale, axis=-1)


def composed(x: Any, scale: float = 2.0) -> Any:
    SEEN.append((x.shape, scale))
    return plain(x, scale)


def run(x: Any, **static: Any) -> Any:
    return fused.run_fused(composed, [x], **static)


@pytest.fixture(autouse=True)
def forgotten() -> None:
    fused._fused.clear()
    SEEN.clear()


def test_python_runs_once_per_types_and_statics() -> None:
    graphs = [ft.make_graph(lambda x: run(x) + run(2 * x))(X) for _ in range(2)]
    assert graphs[0].outputs == graphs[1].outputs  # interned: the same nodes
    assert len(SEEN) == 1
    ft.make_graph(lambda x: run(x, scale=3.0))(X)
    ft.make_graph(run)(X[:2])
    ft.make_graph(run)(X.astype(np.float64))
    assert len(SEEN) == 4


def test_the_graph_is_the_one_that_python_makes() -> None:
    expected = ft.make_graph(lambda x: plain(x) * 2)(X)
    for _ in range(2):
        assert ft.make_graph(lambda x: run(x) * 2)(X).outputs == expected.outputs


def test_operands_are_of_any_kind() -> None:
    captured = fnp.asarray(X)
    for _ in range(2):
        graph = ft.make_graph(lambda x: run(captured) + run(x) + run(X))(X)
        assert len(graph.captured) == 2
    expected = np.exp(X).sum(-1) * 6
    found = ft.jit(lambda x: run(captured) + run(x) + run(X))(X)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_the_line_of_the_user_is_the_latest() -> None:

    def first(x: Any) -> Any:
        return ft.nn.softmax(x)

    def second(x: Any) -> Any:
        return ft.nn.softmax(x)

    for function in (first, second, first):
        graph = ft.make_graph(function)(X)
        assert graph.outputs[0].origin is not None
        assert graph.outputs[0].origin.function == function.__name__


def test_derivatives_and_batches_of_replayed_products() -> None:
    w = np.ones((4, 5), np.float32)
    for _ in range(2):
        slope = ft.grad(lambda w: fnp.sum((X @ w) ** 2))(w)
        np.testing.assert_allclose(slope, 2 * X.T @ (X @ w))
        rows = ft.vmap(lambda x: x @ w)(X)
        np.testing.assert_allclose(rows, X @ w)


def test_weak_types_stay() -> None:
    def total(x: Any) -> Any:
        return fnp.sum(x * 2)

    for x in (2.0, np.float32(2.0)):
        expected = ft.make_graph(total)(x).outputs[0]
        for _ in range(2):
            found = ft.make_graph(lambda x: fused.run_fused(total, [x]))(x)
            assert found.outputs[0] is expected


def test_mistakes_are_told_each_time() -> None:
    for _ in range(2):
        with pytest.raises(ShapeError, match="matmul"):
            ft.make_graph(lambda x: x @ x)(X)


def test_what_holds_arrays_or_bodies_is_run_again() -> None:
    held = ft.make_graph(lambda x: x + fnp.asarray(X))(X)
    assert not is_replayable(held)
    looped = ft.make_graph(lambda x: ft.lax.fori_loop(0, 3, lambda _, y: y * 2, x))(X)
    assert not is_replayable(looped)
    assert is_replayable(ft.make_graph(lambda x: fnp.sin(x) * 2)(X))
