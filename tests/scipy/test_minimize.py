"""Minima are found for every float, in one loop of the graph, or it says why not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import errors
from ftrace.scipy.optimize import minimize


def rosenbrock(x: Any, scale: Any = 100.0) -> Any:
    return fnp.sum((1 - x[:-1]) ** 2 + scale * (x[1:] - x[:-1] ** 2) ** 2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [2, 5])
def test_minimize(dtype: Any, size: int) -> None:
    start = np.linspace(0, 2, size).astype(dtype)
    found = minimize(ft.jit(rosenbrock), start, (50.0,), tol=1e-4)
    assert found.success, found
    assert found.status == 0
    assert found.x.dtype == found.fun.dtype == found.jac.dtype == dtype
    np.testing.assert_allclose(found.x, np.ones(size), atol=2e-3)
    assert found.nfev == found.njev > found.nit > 5
    assert np.max(np.abs(found.jac)) <= 1e-4
    assert found.hess_inv is not None
    assert found.hess_inv.shape == (size, size)


def test_the_inverse_of_the_hessian_of_a_quadratic_function() -> None:
    h = np.array([[4.0, 1], [1, 2]])
    b = np.array([1.0, -2])
    found = minimize(lambda x: 0.5 * x @ h @ x - b @ x, np.zeros(2), method="BFGS")
    np.testing.assert_allclose(found.x, np.linalg.solve(h, b), atol=1e-5)
    assert found.hess_inv is not None
    np.testing.assert_allclose(found.hess_inv, np.linalg.inv(h), rtol=0.1)


def test_minimize_says_why_it_stopped() -> None:
    start = np.array([-1.2, 1.0])
    early = minimize(rosenbrock, start, options={"maxiter": 3})
    assert (early.success, early.status, early.nit) == (False, 1, 3)
    nowhere = minimize(lambda x: fnp.sum(fnp.log(x)), np.array([-1.0]))
    assert not nowhere.success
    unknown = minimize(lambda x: fnp.sum(x) * np.nan, np.ones(2))
    assert np.isnan(unknown.x).all()
    down = minimize(fnp.sum, np.array([0.5, -0.5]))
    assert (down.success, down.status, down.nfev) == (False, 5, 11)
    np.testing.assert_array_equal(down.x, [0.5, -0.5])
    there = minimize(rosenbrock, np.ones(2))
    assert (there.success, there.nit, there.nfev) == (True, 0, 1)


LIMITED = "l-bfgs-experimental-do-not-rely-on-this"


@pytest.mark.parametrize("method", ["BFGS", LIMITED])
def test_minimize_is_a_loop_of_the_graph(method: str) -> None:
    starts = np.array([[-1.2, 1.0], [2.0, 0.5], [1.0, 1.0]])

    def solve(x: Any, scale: Any) -> Any:
        options = {"maxcor": 3, "ftol": 0} if method == LIMITED else {}
        return minimize(rosenbrock, x, (scale,), method=method, options=options)

    many = ft.jit(ft.vmap(solve, (0, None)))(starts, 30.0)
    assert many.success.all()
    np.testing.assert_allclose(many.x, np.ones((3, 2)), atol=1e-4)
    one = solve(starts[0], 30.0)
    assert (one.nit, one.nfev) == (many.nit[0], many.nfev[0])
    assert (one.hess_inv is None) == (method == LIMITED)
    target = np.array([1.0, 2 - 3j])
    found = minimize(
        lambda z: (fnp.abs(z - target) ** 2).sum(), 0 * target, method=method
    )
    np.testing.assert_allclose(found.x, target, atol=1e-5)
    steep = minimize(lambda x: fnp.mean((1e4 * x) ** 2), fnp.ones(2), method=method)
    np.testing.assert_allclose(steep.x, 0, atol=1e-6)


def test_minimize_refuses() -> None:
    start = np.array([-1.2, 1.0])
    with pytest.raises(errors.ValueRangeError, match="'BFGS'"):
        minimize(rosenbrock, start, method="nelder-mead")
    with pytest.raises(errors.ShapeError, match="x0 must be a vector"):
        minimize(rosenbrock, np.ones((2, 2)))
    with pytest.raises(errors.ArgumentError, match="tuple"):
        minimize(rosenbrock, start, [1.0])  # pyright: ignore[reportArgumentType]
    with pytest.raises(errors.ArgumentError, match=r"unknown options \['disp'\]"):
        minimize(rosenbrock, start, options={"disp": True})


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_minimize_takes_every_float(dtype: str) -> None:
    found = minimize(lambda x: ((x - 1) ** 2).sum(), fnp.zeros(3, dtype), method="BFGS")
    assert found.x.dtype == fnp.dtype(dtype)
    assert fnp.abs(found.x.astype("float32") - 1).max() < 0.1
