"""Traced functions and containers nested as deep as nobody writes them by hand."""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.errors import NestingError
from ftrace.trace.python_limits import DEEPEST

X = np.float32(0.5)


def chain(
    wrap: Callable[..., Any], count: int, after: Callable[[Any], Any] = lambda x: x * 1
) -> Callable[..., Any]:
    """Distinct functions, each of which calls the one before under a transform."""
    f = wrap(lambda x: fnp.sin(x))
    for _ in range(count):
        f = wrap(lambda x, f=f: after(f(x)))
    return f


def test_hundreds_of_jits_of_one_function_are_that_function() -> None:
    f: Any = fnp.sin
    for _ in range(400):
        f = ft.jit(f)
    for _ in range(10):
        assert abs(float(f(X)) - np.sin(0.5)) < 1e-6


def test_a_thousand_functions_under_jit_may_call_each_other() -> None:
    deep = chain(ft.jit, 1000, after=lambda x: x)
    np.testing.assert_allclose(float(deep(X)), np.sin(0.5), rtol=1e-6)


@pytest.mark.parametrize("outer", [ft.grad, ft.jit, ft.vmap])
def test_hundreds_may_under_other_transforms(outer: Any) -> None:
    limit = sys.getrecursionlimit()
    x = np.full(2, 0.5, np.float32) if outer is ft.vmap else X
    found = outer(chain(ft.jit, 300))(x)
    want = np.cos(0.5) if outer is ft.grad else np.sin(0.5)
    np.testing.assert_allclose(np.asarray(found), want, rtol=1e-6)
    assert sys.getrecursionlimit() == limit


@pytest.mark.parametrize("between", [lambda f: f, ft.grad, partial])
def test_the_signature_of_jits_of_jits_is_that_of_the_function(between: Any) -> None:
    def f(x: Any, mode: str) -> Any:
        return x * len(mode)

    g: Any = f
    for _ in range(40):
        g = ft.jit(between(g))
    assert list(inspect.signature(g).parameters) == ["x", "mode"]
    assert list(g.__signature__.parameters) == ["x", "mode"]


def test_the_stack_of_a_thread_is_deep_enough() -> None:
    found: list[float] = []
    deep = chain(ft.jit, DEEPEST - 149, after=lambda x: x)
    thread = threading.Thread(target=lambda: found.append(float(deep(X))))
    thread.start()
    thread.join()
    np.testing.assert_allclose(found, np.sin(0.5), rtol=1e-6)


def test_a_function_that_calls_itself_without_end_is_told_so() -> None:
    limit = sys.getrecursionlimit()

    def f(x: Any, n: int) -> Any:
        return ft.jit(f, static_argnums=1)(x, n + 1)

    with pytest.raises(NestingError, match="call itself without end"):
        f(X, 0)
    assert sys.getrecursionlimit() == limit
    assert float(ft.jit(fnp.sin)(X)) > 0  # nothing is left open
    with pytest.raises(RecursionError):
        f(X, 0)


TRANSFORMS: dict[str, Callable[..., Any]] = {
    "jit": ft.jit,
    "grad": ft.grad,
    "jit of grad": lambda f: ft.jit(ft.grad(f)),
    "vmap": lambda f: lambda x: ft.vmap(f)(x[None]),
    "grad of jit": lambda f: ft.grad(ft.jit(f)),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_bodies_stand_in_each_other_or_are_refused_by_name(name: str) -> None:
    few, many = (chain(ft.checkpoint, n) for n in (80, 1000))
    assert np.isfinite(np.asarray(TRANSFORMS[name](few)(X))).all()
    for _ in range(2):
        with pytest.raises(NestingError, match="checkpoint, loops, branches"):
            TRANSFORMS[name](many)(X)
    assert np.isfinite(np.asarray(TRANSFORMS[name](few)(X))).all()


def test_bodies_that_are_called_now_are_as_deep_as_python_calls() -> None:
    assert float(chain(ft.checkpoint, 200)(X)) > 0
    with pytest.raises(NestingError, match="deeper than Python can call"):
        chain(ft.checkpoint, 1000)(X)


def test_derivatives_may_be_nested() -> None:
    f: Any = fnp.sin
    for _ in range(12):
        f = ft.grad(f)
    assert abs(float(f(X)) - np.sin(0.5)) < 1e-5


def test_deep_containers_pass_or_are_refused_by_name() -> None:
    def nested(depth: int) -> Any:
        found: Any = X
        for _ in range(depth):
            found = [found]
        return found

    (leaf,) = ft.tree.leaves(ft.jit(lambda t: ft.tree.map(fnp.sin, t))(nested(500)))
    assert abs(float(leaf) - np.sin(0.5)) < 1e-6
    for use in (ft.tree.leaves, ft.jit(lambda t: t), ft.grad(ft.tree.leaves)):
        with pytest.raises(NestingError, match="nested deeper"):
            use(nested(5000))


@pytest.mark.parametrize("transform", [ft.vmap, lambda f: ft.grad(lambda x: f(x)[0])])
def test_what_depends_on_no_argument_may_be_kept(transform: Any) -> None:
    """As in a table of results; JAX computes it at once where nothing is jitted."""
    kept: dict[str, Any] = {}
    ones = fnp.ones(3)

    def f(x: Any) -> Any:
        kept.update(constant=fnp.arange(3) * ones, varying=x * fnp.zeros(3))
        return x

    transform(f)(ones)
    np.testing.assert_array_equal(kept["constant"] + 1, [1, 2, 3])
    np.testing.assert_array_equal(ft.jit(lambda x: x * kept["constant"])(2), [0, 2, 4])
    assert ft.vmap(lambda x: x + kept["constant"])(ones).shape == (3, 3)
    with pytest.raises(ft.errors.UnexpectedTracerError):
        kept["varying"] + 1


def test_a_bool_that_vmap_does_not_map_is_a_choice() -> None:
    seen: list[Any] = []

    def f(x: Any, choice: bool) -> Any:
        seen.append(choice)
        return ft.jit(lambda x: x * 2 if choice else x)(x)

    mapped = ft.jit(lambda x: ft.vmap(f, in_axes=(0, None))(x, True))
    np.testing.assert_array_equal(mapped(fnp.ones(3)), [2, 2, 2])
    assert seen == [True]
