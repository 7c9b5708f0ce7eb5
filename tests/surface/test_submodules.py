"""lax.linalg, scipy.linalg, scipy.ndimage, scipy.optimize and debug."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import debug, errors
from ftrace.lax import linalg as lax_linalg
from ftrace.scipy import linalg, ndimage
from ftrace.scipy.optimize import minimize
from ftrace.test_util import check_grads

# Matrices.


def test_symmetric_product() -> None:
    rng = np.random.default_rng(0)
    a, c = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 3, 3))
    want = 2 * a @ a.swapaxes(-1, -2) + 0.5 * c
    got = ft.jit(lambda a, c: lax_linalg.symmetric_product(a, c, alpha=2, beta=0.5))
    np.testing.assert_allclose(got(a, c), want)
    both = lax_linalg.symmetric_product(a, c, alpha=2, beta=0.5, symmetrize_output=True)
    lower = np.tril(want)
    np.testing.assert_allclose(both, lower + np.tril(want, -1).swapaxes(-1, -2))
    with pytest.raises(errors.ShapeError, match="must have the shape"):
        lax_linalg.symmetric_product(a, c[:, :2])
    with pytest.raises(errors.DtypeError, match="one float or complex dtype"):
        lax_linalg.symmetric_product(a, c.astype(np.float32))


def test_block_diag() -> None:
    got = linalg.block_diag(np.eye(2), 3, np.array([4, 5]), np.zeros((1, 0)))
    want = [
        [1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 3, 0, 0], [0, 0, 0, 4, 5],
        [0, 0, 0, 0, 0],
    ]  # fmt: skip
    np.testing.assert_array_equal(got, want)
    assert got.dtype == np.float64
    assert linalg.block_diag().shape == (1, 0)
    check_grads(linalg.block_diag, (np.ones((2, 1)), np.ones(3)), 1)
    with pytest.raises(errors.ShapeError, match="at most two axes"):
        linalg.block_diag(np.ones((1, 1, 1)))


@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 4), (4, 1), (3, 3), (2, 5), (5, 2)])
def test_toeplitz(n: int, m: int) -> None:
    rng = np.random.default_rng(0)
    c, r = rng.normal(size=(2, n)), rng.normal(size=m)
    i, j = np.indices((n, m))
    want = np.where(i >= j, c[:, np.abs(i - j) % n], r[np.abs(i - j) % m])
    np.testing.assert_array_equal(linalg.toeplitz(c, r), want)
    np.testing.assert_array_equal(ft.jit(linalg.toeplitz)(c, r), want)
    check_grads(linalg.toeplitz, (c, r), 1)


def test_toeplitz_of_a_column_is_hermitian() -> None:
    got = linalg.toeplitz(np.array([1, 2 + 1j, 1 + 2j]))
    want = [[1, 2 - 1j, 1 - 2j], [2 + 1j, 1, 2 - 1j], [1 + 2j, 2 + 1j, 1]]
    np.testing.assert_array_equal(got, want)
    assert linalg.toeplitz(3).shape == (1, 1)
    assert linalg.toeplitz(np.ones(0), np.ones(2)).shape == (0, 2)


def test_hilbert() -> None:
    want = [[1, 1 / 2, 1 / 3], [1 / 2, 1 / 3, 1 / 4], [1 / 3, 1 / 4, 1 / 5]]
    np.testing.assert_allclose(linalg.hilbert(3), want, rtol=1e-6)
    assert linalg.hilbert(0).shape == (0, 0)
    with pytest.raises(errors.ValueRangeError, match="negative"):
        linalg.hilbert(-1)


# Interpolation. The numbers are what jax.scipy.ndimage 0.10 gives.

IMAGE = np.array([[1, 2, 4], [7, 11, 16]], np.float32)
PLACES = [
    np.array([-1.3, -0.5, 0.25, 0.5, 1.7, 2.6], np.float32),
    np.array([-2.2, 0.5, 1.5, 1.75, 2.5, 4.3], np.float32),
]
INTERPOLATED = {
    ("constant", 0): [-3, -3, 4, 16, -3, -3],
    ("constant", 1): [-3, -0.75, 5.625, 9.125, -0.15, -3],
    ("nearest", 0): [1, 2, 4, 16, 16, 16],
    ("nearest", 1): [1, 1.5, 5.625, 9.125, 16, 16],
    ("wrap", 0): [11, 11, 4, 16, 1, 11],
    ("wrap", 1): [7.68, 5.25, 5.625, 9.125, 5.2, 8.54],
    ("mirror", 0): [16, 11, 4, 16, 2, 7],
    ("mirror", 1): [11.58, 5.25, 5.625, 9.125, 6.15, 5.44],
    ("reflect", 0): [2, 2, 4, 16, 16, 2],
    ("reflect", 1): [5.28, 1.5, 5.625, 9.125, 16, 4.94],
}


@pytest.mark.parametrize(("mode", "order"), INTERPOLATED)
def test_map_coordinates(mode: str, order: int) -> None:
    def f(x: Any, *places: Any) -> Any:
        return ndimage.map_coordinates(x, places, order, mode, cval=-3.0)

    want = INTERPOLATED[mode, order]
    for function in (f, ft.jit(f)):
        np.testing.assert_allclose(function(IMAGE, *PLACES), want, rtol=1e-5)


def test_derivatives_of_map_coordinates() -> None:
    def of_rows(rows: Any) -> Any:
        return fnp.sum(ndimage.map_coordinates(IMAGE, [rows, PLACES[1]], 1, "mirror"))

    def of_image(x: Any) -> Any:
        return fnp.sum(ndimage.map_coordinates(x, PLACES, 1, "reflect"))

    want = [11.4, -7.5, 10.5, 11.25, -10.5, 6.9]
    np.testing.assert_allclose(ft.grad(of_rows)(PLACES[0]), want, rtol=1e-5)
    want = [[0.68, 1.98, 0.89], [0.12, 0.77, 1.56]]
    np.testing.assert_allclose(ft.grad(of_image)(IMAGE), want, rtol=1e-5)


def test_map_coordinates_of_integers() -> None:
    x = np.array([1, 4, 9])
    got = ndimage.map_coordinates(x, [np.array([0.5, 1.3, 2.5])], 1, "nearest")
    np.testing.assert_array_equal(got, [3, 6, 9])
    assert got.dtype == x.dtype
    got = ndimage.map_coordinates(x, [np.array([-1, 2, 3])], 1, "wrap")
    np.testing.assert_array_equal(got, [9, 9, 1])
    one = ndimage.map_coordinates(x[:1], [np.array([-1, 2, 3])], 0, "mirror")
    np.testing.assert_array_equal(one, [1, 1, 1])


def test_map_coordinates_refuses() -> None:
    with pytest.raises(errors.ShapeError, match="one array of coordinates per axis"):
        ndimage.map_coordinates(IMAGE, PLACES[:1], 1)
    with pytest.raises(errors.ValueRangeError, match="order must be 0 or 1"):
        ndimage.map_coordinates(IMAGE, PLACES, 3)
    with pytest.raises(errors.ValueRangeError, match="mode must be 'constant'"):
        ndimage.map_coordinates(IMAGE, PLACES, 1, "grid-wrap")


# Minima.


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


# Printing.


def printing(x: Any) -> Any:
    y = x * x
    debug.print("{:.2f} and {y}", x, y=y, ordered=True)
    return y


def test_print_where_values_are_known(capsys: pytest.CaptureFixture[str]) -> None:
    runs = (
        lambda: printing(fnp.asarray(3.0)),
        lambda: ft.grad(printing)(3.0),
        lambda: ft.jvp(printing, (3.0,), (1.0,)),
        lambda: ft.vjp(printing, 3.0),
        lambda: ft.hessian(printing)(3.0),
    )
    for run in runs:
        run()
        assert capsys.readouterr().out == "3.00 and 9.0\n"
    with ft.disable_jit():
        ft.jit(printing)(3.0)
    assert capsys.readouterr().out == "3.00 and 9.0\n"
    debug.print("{{{}}}", {"a": fnp.arange(2)})
    assert "[0, 1]" in capsys.readouterr().out


def test_callback_gets_arrays() -> None:
    seen: list[Any] = []

    def f(x: Any) -> Any:
        debug.callback(lambda *args, **kw: seen.append((args, kw)), [x], "name", k=1)
        return fnp.sum(x)

    ft.grad(f)(np.arange(3.0))
    ((values, name), kw) = seen[0]
    assert isinstance(values[0], ft.Array)
    np.testing.assert_array_equal(values[0], np.arange(3.0))
    assert (name, kw) == ("name", {"k": 1})
    with pytest.raises(errors.ArgumentError, match="takes a function"):
        debug.callback(3)  # pyright: ignore[reportArgumentType]


def test_options_of_an_effect_come_first_if_there_is_nothing_else(
    capsys: pytest.CaptureFixture[str],
) -> None:
    seen: list[Any] = []
    debug.print(ordered=True)("{ordered}", ordered=1)  # pyright: ignore[reportOptionalCall]
    debug.callback(ordered=True)(seen.append, 2)  # pyright: ignore[reportOptionalCall]
    assert (capsys.readouterr().out, seen) == ("1\n", [2])
    for call in (debug.print, debug.log, debug.callback):
        with pytest.raises(errors.ArgumentError, match="got NoneType"):
            call(ordered=True, x=1)


def test_print_checks_its_format() -> None:
    with pytest.raises(errors.ArgumentError, match="asks for the argument 1"):
        debug.print("{} {}", 1)
    with pytest.raises(errors.ArgumentError, match="does not use"):
        debug.print("{}", 1, y=2)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_minimize_takes_every_float(dtype: str) -> None:
    found = ft.scipy.optimize.minimize(
        lambda x: ((x - 1) ** 2).sum(), fnp.zeros(3, dtype), method="BFGS"
    )
    assert found.x.dtype == fnp.dtype(dtype)
    assert fnp.abs(found.x.astype("float32") - 1).max() < 0.1


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_unwrap_of_short_floats_repeats(dtype: str) -> None:
    x = fnp.asarray([0.0, 2.0, 4.0, 7.0]).astype(dtype)
    for _ in range(14):
        assert fnp.unwrap(x, period=4).tolist() == [0, 2, 4, 3]
