"""Graphs that differ by numbers alone share a program, and give the same bits."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Node
from ftrace.trace.tracing.trace import trace
from ftrace.transforms.jit import eager_programs
from ftrace.transforms.jit.eager_programs import MOST_NUMBERS, numbers_of
from tests.support.covering import covering

X = fnp.asarray(np.linspace(-2, 3, 24, dtype=np.float32).reshape(4, 6))
NUMBERS = [0.3, 0.7, -1.25, 2.2, 0.1, -0.0, 1e30]


@pytest.fixture(autouse=True)
def forgetful() -> Any:
    ft.clear_caches()
    yield
    ft.clear_caches()


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The graphs that are made ready to run, one after the other."""
    graphs: list[Any] = []
    plain = eager_programs.program_of

    def noted(graph: Any) -> Any:
        graphs.append(graph)
        return plain(graph)

    monkeypatch.setattr(eager_programs, "program_of", noted)
    return graphs


def loss(x: Any, c: Any) -> Any:
    return fnp.mean((fnp.tanh(x * c) - c) ** 2 / (c * c + 1.5) + fnp.maximum(x, c))


def chosen(x: Any, c: Any) -> Any:
    return fnp.sum(fnp.where(x > c, x + c, c - x) * 0.5)


def powered(x: Any, c: Any) -> Any:
    return fnp.sum(abs(x) ** c)


def gradient(f: Any, c: Any) -> Any:
    return ft.grad(f)(X, c)


def scaled(x: Any, c: Any) -> Any:
    return fnp.sum(x[..., 1:] * c) + fnp.sum(fnp.sort(x)[..., 0] * c) + c


def directional(f: Any, c: Any) -> Any:
    return ft.jvp(lambda x: f(x, c), (X,), (X + 1,))[1]


def batched(f: Any, c: Any) -> Any:
    return ft.vmap(lambda row: f(row, c))(X)


def pulled(f: Any, c: Any) -> Any:
    value, pull = ft.vjp(lambda x: f(x, c), X)
    return pull(fnp.ones_like(value))[0]


TRANSFORMS = [gradient, directional, batched, pulled]


@covering(1, transform=TRANSFORMS, f=[loss, chosen, powered, scaled])
def test_numbers_that_vary_give_the_bits_of_constants(transform: Any, f: Any) -> None:
    together = [np.asarray(transform(f, c)) for c in NUMBERS]
    for c, found in zip(NUMBERS, together, strict=True):
        ft.clear_caches()
        alone = np.asarray(transform(f, c))
        np.testing.assert_array_equal(found.view(np.int32), alone.view(np.int32))


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("f", [loss, scaled])
def test_numbers_that_vary_are_compiled_twice(
    transform: Any, f: Any, compiled: Any
) -> None:
    transform(f, 0.3)
    transform(f, 0.7)
    some = len(compiled)
    for c in (1.7, 2.3, 0.9, -4.2):
        transform(f, c)
    assert len(compiled) == some


def test_a_number_that_is_a_result_may_be_given_away() -> None:
    double = ft.jit(lambda x: x * 2, donate_argnums=0)
    for _ in range(4):
        for c in (0.3, 0.7, 1.7):
            value, (slope,) = ft.value_and_grad(lambda x, c=c: x[0] * 0 + c)(X[0, :1])
            assert float(double(value)) == 2 * np.float32(c)
            assert float(double(slope)) == 0.0


def test_a_number_seen_before_is_found_at_once(compiled: Any) -> None:
    first = [np.asarray(gradient(loss, c)) for c in NUMBERS]
    some = len(compiled)
    for c, expected in zip(NUMBERS, first, strict=True):
        np.testing.assert_array_equal(gradient(loss, c), expected)
    assert len(compiled) == some


def test_numbers_of_python_keep_their_values() -> None:
    def f(x: Any, n: Any) -> Any:
        if n > 2:
            x = -x
        for _ in range(n):
            x = x + n
        return fnp.sum(x.reshape(n, -1)[0] * float(n) * x[0, 0])

    for n in (1, 2, 3, 4, 6):
        expected = ft.jit(ft.grad(lambda x, n=n: f(x, n)))(X)
        np.testing.assert_allclose(ft.grad(f)(X, n), expected, rtol=1e-6)


def test_integers_vary_too() -> None:
    positions = fnp.arange(12)
    for n in (1, 2, 7, -3):
        found = ft.vmap(lambda i, n=n: i * n - n)(positions)
        np.testing.assert_array_equal(found, np.arange(12) * n - n)


def test_special_numbers_vary() -> None:
    for c in (1.0, 0.0, -0.0, np.nan, np.inf, -np.inf):
        with np.errstate(all="ignore"):
            found = np.asarray(ft.vmap(lambda x, c=c: x * c + c)(X))
            expected = np.asarray(X) * np.float32(c) + np.float32(c)
        np.testing.assert_array_equal(found, expected)
        zeros = expected == 0
        np.testing.assert_array_equal(
            np.signbit(found[zeros]), np.signbit(expected[zeros])
        )


def test_other_settings_get_a_program_of_their_own() -> None:
    expected = np.asarray(gradient(loss, 0.9))
    ft.clear_caches()
    gradient(loss, 0.3)
    gradient(loss, 0.7)
    with ft.config(threads=1):
        np.testing.assert_array_equal(gradient(loss, 0.9), expected)
    with ft.config(disable_jit=True):
        np.testing.assert_allclose(gradient(loss, 1.1), gradient(loss, 1.1), rtol=1e-5)


def test_threads_share_a_family() -> None:
    errors: list[BaseException] = []
    expected = {c: np.asarray(X) * np.float32(c) + np.float32(c) for c in range(40)}

    def work(seed: int) -> None:
        try:
            for c in range(seed, 40):
                found = ft.vmap(lambda x, c=c: x * c + c)(X)
                more = 0.25 if seed % 2 else c + 0.5  # varies in some threads
                ft.vmap(lambda x, c=c, d=more: x * (c + 0.5) - d)(X)
                np.testing.assert_array_equal(found, expected[c])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def _outputs(f: Any) -> tuple[Node, ...]:
    aval = ShapedArray.of((3,), np.dtype(np.float32))
    return trace("jit", lambda x: [f(x)], [aval]).outputs


def _values(f: Any) -> list[float]:
    return [
        float(np.frombuffer(node.arg, node.dtype)[0])
        for node in numbers_of(_outputs(f))
    ]


def test_operands_of_arithmetic_are_numbers() -> None:
    assert _values(lambda x: (x * 0.5 + 3.0) / 7.0) == [0.5, 3.0, 7.0]
    assert _values(lambda x: fnp.where(x > 2.5, x, 4.5)) == [2.5, 4.5]


def test_results_and_what_is_moved_are_numbers() -> None:
    assert _values(lambda x: fnp.float32(3.5)) == [3.5]
    assert 4.5 in _values(lambda x: fnp.pad(fnp.full(3, 4.5), 2) + x[0])
    assert 4.5 in _values(lambda x: x.at[x.astype(int)].add(4.5))


def test_what_decides_code_is_no_number() -> None:
    assert _values(lambda x: x**2.25) == []
    assert _values(lambda x: fnp.exp(x)) == []
    assert _values(lambda x: x * 0.5 + fnp.arctan2(x, 0.5)) == []
    assert _values(lambda x: x * 0.5 + fnp.arctan2(x, fnp.full(3, 0.5))) == []
    assert 4.5 not in _values(lambda x: fnp.full(3, 4.5).at[x.astype(int)].set(x))


def test_graphs_of_very_many_numbers_are_left_alone() -> None:
    def f(x: Any) -> Any:
        for i in range(MOST_NUMBERS + 1):
            x = fnp.tanh(x * (i + 0.25))
        return x

    assert _values(f) == []
