"""Where a NaN comes from: the first operation that made one, wherever it stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.errors import ArgumentError, NonFiniteError, TracerBoolConversionError


def difference(x: Any) -> Any:
    y = x / (x - 1)
    z = y * 2
    return z - z


def logs(c: Any, x: Any) -> Any:
    c = fnp.log(c - x)
    return c, c * 2


X, ONES = fnp.arange(3.0), fnp.ones(5)
#: Program, argument, and the operation, index, operands and function of its origin.
CASES: list[tuple[Callable[..., Any], Any, tuple[Any, ...]]] = [
    (difference, X, ("sub", (1,), (np.inf, np.inf), "difference")),
    (ft.jit(difference), X, ("sub", (1,), (np.inf, np.inf), "difference")),
    (ft.vmap(difference), X, ("sub", (1,), (np.inf, np.inf), "difference")),
    (lambda x: lax.scan(logs, 3.0, x), ONES, ("log", (), None, "logs")),
    (lambda x: lax.while_loop(lambda c: c < 3, lambda c: c / (x - x), x), 1.0,
     ("div", (), (1.0, 0.0), "<lambda>")),
    (lambda x: lax.cond(x > 0, lambda x: fnp.sqrt(-x), lambda x: x, x), 4.0,
     ("sqrt", (), (-4.0,), "<lambda>")),
    (ft.grad(lambda x: fnp.sqrt(x).sum()), fnp.zeros(2),
     ("div", (0,), (0.5, 0.0), "<lambda>")),
    (lambda x: {"a": x, "b": [x * 2, fnp.log(x)]}, X,
     ("log", (0,), (0.0,), "<lambda>")),
    (lambda x: (x * 3e38).astype("float16"), fnp.float32(10.0),
     ("mul", (), None, "<lambda>")),
    (fnp.sin, fnp.array([0.0, np.nan]), ("sin", (1,), None, None)),
    (lambda x: x + fnp.inf, 1.0, ("add", (), (1.0, np.inf), "<lambda>")),
    (lambda x: fnp.linalg.cholesky(-x), fnp.eye(2), ("cholesky", (0, 0), None, None)),
    (lambda x: ft.pure_callback(np.log, x, x) + 1, X,
     ("pure_callback", (0,), None, "<lambda>")),
    (lambda x: (x - x) / fnp.sum(x - x), X, ("div", (0,), (0.0, 0.0), "<lambda>")),
    (lambda x: x @ x, fnp.full((2, 2), 3e38), ("reduce_sum", (0, 0, 0), (), None)),
]  # fmt: skip


@pytest.mark.parametrize(("fun", "x", "expected"), CASES)
def test_the_first_operation_is_named(fun: Any, x: Any, expected: Any) -> None:
    found: Any = ft.nan_origin(fun)(x)
    name, index, operands, function = expected
    assert (found.name, found.index) == (name, index)
    if operands is not None:
        assert found.operands == operands
    assert function is None or found.origin.function == function
    assert f"{name} made " in str(found).partition("\n")[0]
    assert found.summary in str(found)


def test_what_holds_it_already_is_named() -> None:
    nan = fnp.array([1.0, np.nan])
    found = ft.nan_origin(lambda p, y: p["w"] * y)({"w": nan}, 2.0)
    assert found is not None
    assert found.summary.startswith(
        "the argument p['w'] is not finite; first met: mul made nan of nan and 2.0"
    )
    for fun, x, holder in (
        (lambda x: x + fnp.inf, 1.0, "an argument or a constant"),
        (lambda x: x + nan, X[:2], "an argument or a constant"),
        (fnp.log, X, ""),
    ):
        found = ft.nan_origin(fun)(x)
        assert found is not None
        assert found.holder == holder


def test_a_nan_is_told_with_the_infinity_before_it() -> None:
    found: Any = ft.nan_origin(difference)(X)
    assert (found.before.name, found.before.operands) == ("div", (1.0, 0.0))
    lines = str(found).splitlines()
    assert "return z - z" in lines[2]
    assert "from" in lines[3]
    assert "z = y * 2" in lines[4]
    assert lines[5].startswith("before it div made inf of 1.0 and 0.0")
    assert "y = x / (x - 1)" in lines[7]


def test_a_derivative_is_named_with_both_lines() -> None:
    def root(w: Any) -> Any:
        return fnp.sum(fnp.sqrt(w))

    def slope(w: Any) -> Any:
        return ft.grad(root)(w)

    for fun in (slope, ft.jit(slope), lambda w: ft.jvp(root, (w,), (w + 1,))[1]):
        found: Any = ft.nan_origin(fun)(fnp.zeros(3))
        text = str(found).splitlines()
        assert text[0].startswith("the derivative of sqrt: div made inf of 0.5 and 0.0")
        assert "in root" in text[1]
        assert "derivative taken at" in text[3]
        assert text[3].endswith(("in slope", "in <lambda>"))
        assert "grad(root)" in text[4] or "jvp(root" in text[4]
    found = ft.nan_origin(ft.grad(lambda w: (w * 3e38 * 3.0).sum()))(1e-3)
    assert found is not None
    assert found.summary.startswith("the derivative of multiply (backward): mul made")
    found = ft.nan_origin(lambda w: (w * 3e38 * 3.0).sum())(fnp.ones(2))
    assert found is not None
    assert found.summary.startswith("mul made inf")


def test_the_iterations_of_loops_are_named() -> None:
    def row(c: Any, x: Any) -> Any:
        return lax.fori_loop(0, 4, lambda i, c: c / (x - i), c), None

    def rows(x: Any) -> Any:
        return lax.scan(row, 1.0, x)[0]

    x = fnp.array([9.0, 8.0, 2.0])
    for fun in (rows, ft.jit(rows)):
        found: Any = ft.nan_origin(fun)(x)
        assert [number for _, number in found.iterations] == [2, 2]
        assert ", in scan at iteration 2, in " in found.summary
    found = ft.nan_origin(lambda x: lax.scan(row, 1.0, x, reverse=True)[0])(x[::-1])
    assert found.iterations[0] == ("scan", 0)
    steps = lambda x: lax.while_loop(lambda c: c < 1e20, lambda c: c * 1e15, x)  # noqa: E731
    found = ft.nan_origin(lambda x: fnp.log(0 - steps(x)))(1.0)
    assert (found.name, found.iterations) == ("log", ())


@pytest.mark.parametrize(
    "fun", [fnp.sin, lambda x: fnp.where(x > 0, fnp.log(x), 0), lambda x: x.astype(int)]
)
def test_finite_results_have_no_origin(fun: Any) -> None:
    assert ft.nan_origin(fun)(X) is None


def test_static_arguments_keys_and_numbers() -> None:
    of_static = ft.jit(lambda x, n: fnp.log(x) * n, static_argnums=1)
    assert "log made -inf of 0.0" in str(ft.nan_origin(of_static)(0.0, 3))
    of_key = lambda key: fnp.log(ft.random.uniform(key, (3,)) - 2)  # noqa: E731
    assert "log made nan" in str(ft.nan_origin(of_key)(ft.random.key(0)))
    assert ft.nan_origin(lambda x: x * 1e300)(1.0) is not None


def test_a_function_may_branch_on_values() -> None:
    def branches(x: Any, y: Any) -> Any:
        return x * y if x > 0 else fnp.log(x) * y

    assert "log made nan of -1.0" in str(ft.nan_origin(branches)(-1.0, y=2.0))
    assert ft.nan_origin(branches)(fnp.array(1.0), 2.0) is None
    with pytest.raises(TracerBoolConversionError):
        ft.nan_origin(ft.jit(branches))(-1.0, 2.0)
    assert ft.bisect(branches, fnp.array(1.0), 2.0, path=None).agrees


def test_effects_happen_once(capsys: pytest.CaptureFixture[str]) -> None:
    def prints(x: Any) -> Any:
        ft.debug.print("here")
        return fnp.log(x)

    assert ft.nan_origin(prints)(0.0) is not None
    assert capsys.readouterr().out == "here\n"


def test_bad_input() -> None:
    with pytest.raises(ArgumentError, match="nan_origin"):
        ft.nan_origin(3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ArgumentError, match="must be an array or a number"):
        ft.nan_origin(fnp.sin)("a")


def test_settings_name_the_same_operation() -> None:
    with ft.debug_infs(), pytest.raises(NonFiniteError, match="log made -inf of"):
        ft.jit(fnp.log)(X)
    with ft.debug_nans(), pytest.raises(NonFiniteError, match="in cholesky: cholesky"):
        ft.jit(fnp.linalg.cholesky)(-fnp.eye(2))
    with ft.debug_nans(), pytest.raises(NonFiniteError) as caught:
        ft.jit(difference)(X)
    message = str(caught.value)
    assert "invalid value (nan) encountered in sub: sub made nan of inf" in message
    assert "before it div made inf of 1.0 and 0.0 at element (1,)" in message
    assert "return z - z" in message
