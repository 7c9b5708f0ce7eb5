"""Solvers with implicit derivatives: the equation tells the derivative."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import errors, lax
from ftrace.scipy.sparse.linalg import bicgstab, cg, gmres
from ftrace.test_util import check_grads

RNG = np.random.default_rng(0)
N = 4
MATRIX = RNG.normal(size=(N, N)) + 4 * np.eye(N)
RIGHT = RNG.normal(size=N)


def newton(f: Callable[..., Any], x: Any) -> Any:
    def step(state: Any) -> Any:
        count, x = state
        return count + 1, x - f(x) / ft.grad(f)(x)

    return lax.while_loop(lambda s: s[0] < 20, step, (0, x))[1]


def root(t: Any) -> Any:
    """The cube root."""
    return lax.custom_root(lambda x: x**3 - t, 1.0, newton, lambda g, y: y / g(1.0))


def test_custom_root_derivatives_are_those_of_the_root() -> None:
    t = np.asarray(2.0)
    np.testing.assert_allclose(root(t), 2 ** (1 / 3), rtol=1e-15)
    first, second = 2 ** (-2 / 3) / 3, -2 / 9 * 2 ** (-5 / 3)
    np.testing.assert_allclose(ft.grad(root)(t), first, rtol=1e-13)
    np.testing.assert_allclose(ft.jvp(root, (t,), (t,))[1], first * 2, rtol=1e-13)
    np.testing.assert_allclose(ft.jacfwd(ft.grad(root))(t), second, rtol=1e-13)
    found = ft.jit(ft.vmap(ft.grad(ft.grad(root))))(np.asarray([2.0, 3.0]))
    np.testing.assert_allclose(found, [second, -2 / 9 * 3 ** (-5 / 3)], rtol=1e-12)


def test_custom_root_takes_trees_and_aux() -> None:
    def f(x: Any, t: Any) -> Any:
        return {"a": x["a"] * 2 - t, "b": x["b"] - x["a"]}

    def solved(t: Any) -> Any:
        def solve(f: Any, guess: Any) -> Any:
            return {"a": t / 2, "b": t / 2 + 0 * guess["b"]}, (7, fnp.sin(t))

        def tangent_solve(g: Any, y: Any) -> Any:
            return {"a": y["a"] / 2, "b": y["b"] + y["a"] / 2}

        guess = {"a": 0.0, "b": 0.0}
        return lax.custom_root(partial(f, t=t), guess, solve, tangent_solve, True)

    x, (seven, _) = ft.jit(solved)(3.0)
    assert (x["a"], x["b"], seven) == (1.5, 1.5, 7)
    x, aux = ft.jacfwd(solved)(3.0)
    assert (x["a"], x["b"], aux[1]) == (0.5, 0.5, 0.0)


def by_jacobian(matvec: Any, b: Any) -> Any:
    jacobian = ft.jacobian(matvec, holomorphic=np.iscomplexobj(b))
    return lax.stop_gradient(fnp.linalg.solve(jacobian(b), b))


def solve(a: Any, b: Any, symmetric: bool = False) -> Any:
    other = None if symmetric else by_jacobian
    return lax.custom_linear_solve(lambda x: a @ x, b, by_jacobian, other, symmetric)


def test_custom_linear_solve_derivatives_are_those_of_the_inverse() -> None:
    check_grads(solve, (MATRIX, RIGHT), 2)
    check_grads(lambda a, b: solve(a + a.T, b, True), (MATRIX, RIGHT), 2, ["rev"])
    complex_matrix = MATRIX + 1j * MATRIX[::-1]
    check_grads(solve, (complex_matrix, RIGHT * (1 + 2j)), 1)
    many, right = np.stack([MATRIX, 2 * MATRIX]), np.stack([RIGHT, -RIGHT])
    for axes in ((0, 0), (0, None), (None, 0)):
        args = [x if a == 0 else x[0] for x, a in zip((many, right), axes, strict=True)]
        found = ft.vmap(ft.jacrev(solve), axes)(*args)
        for k in range(2):
            one = [x[k] if a == 0 else x for x, a in zip(args, axes, strict=True)]
            np.testing.assert_allclose(found[k], ft.jacrev(solve)(*one), rtol=1e-10)


def test_custom_linear_solve_without_a_transposed_solver_has_forward_mode() -> None:
    def solve(b: Any) -> Any:
        return lax.custom_linear_solve(lambda x: 2 * x, b, lambda f, b: b / 2)

    assert ft.jvp(solve, (3.0,), (1.0,)) == (1.5, 0.5)
    with pytest.raises(errors.DerivativeError, match="transpose_solve"):
        ft.grad(solve)(3.0)


def test_solvers_refuse_what_is_not_like_the_unknown() -> None:
    with pytest.raises(errors.TreeError, match="structure of initial_guess"):
        lax.custom_root(lambda x: (x, x), 0.0, lambda f, x: x, lambda g, y: y)
    with pytest.raises(errors.TreeError, match="solve"):
        lax.custom_root(lambda x: x, 0.0, lambda f, x: (x, x), lambda g, y: y)
    with pytest.raises(errors.ShapeError, match="matvec"):
        lax.custom_linear_solve(lambda x: x[:1], RIGHT, lambda f, b: b)
    with pytest.raises(errors.ArgumentError, match="pair"):
        lax.custom_linear_solve(lambda x: x, 1.0, lambda f, b: b, has_aux=True)


ITERATIVE = {
    "cg": (cg, MATRIX @ MATRIX.T),
    "bicgstab": (bicgstab, MATRIX),
    "gmres": (gmres, MATRIX),
    "gmres, incremental": (partial(gmres, solve_method="incremental"), MATRIX),
}


@pytest.mark.parametrize("name", ITERATIVE)
def test_iterative_solvers_solve_and_differentiate(name: str) -> None:
    solver, a = ITERATIVE[name]
    for factor in (1, 1 + 0.5j):
        m = a * factor if name != "cg" else a + (factor - 1) * (a - a.T)
        x, _ = solver(m, RIGHT * factor, tol=1e-10)
        np.testing.assert_allclose(m @ np.asarray(x), RIGHT * factor, rtol=1e-8)

    def solved(a: Any, b: Any) -> Any:
        a = (a + a.T) / 2 if name == "cg" else a
        return solver(a, b, tol=1e-12)[0]

    check_grads(solved, (a, RIGHT), 1)
    b = {"a": np.ones((2, 2), np.float32), "b": np.ones(3, np.float32)}
    found, _ = solver(lambda x: {"a": 2 * x["a"], "b": 4 * x["b"]}, b, M=lambda x: x)
    np.testing.assert_allclose(found["a"], 0.5, rtol=1e-5)
    np.testing.assert_allclose(found["b"], 0.25, rtol=1e-5)
    assert found["a"].dtype == np.float32
    begun, _ = solver(a, RIGHT, x0=0 * RIGHT + 3, maxiter=0)
    np.testing.assert_array_equal(begun, 3.0)


def test_of_a_singular_matrix_gmres_gives_nan_and_says_so() -> None:
    for method in ("batched", "incremental"):
        x, info = gmres(0 * MATRIX, RIGHT, solve_method=method)
        assert np.isnan(x).all()
        assert info == -1


def test_iterative_solvers_refuse_what_does_not_fit() -> None:
    with pytest.raises(errors.TreeError):
        cg(lambda x: x, RIGHT, x0={"a": RIGHT})
    with pytest.raises(errors.ShapeError):
        gmres(lambda x: x, RIGHT, x0=RIGHT[:1])
    with pytest.raises(errors.ShapeError):
        bicgstab(np.ones((2, 3)), RIGHT)
    with pytest.raises(errors.ArgumentError):
        cg(3, RIGHT)
    with pytest.raises(errors.ValueRangeError):
        gmres(MATRIX, RIGHT, solve_method="other")
