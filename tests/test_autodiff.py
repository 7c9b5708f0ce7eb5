"""Derivatives of programs: against formulas, finite differences, and each other."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.errors import (
    ArgumentError,
    DerivativeError,
    DtypeError,
    ShapeError,
    TreeError,
)


def close(got: Any, want: Any, tolerance: float = 1e-5) -> None:
    np.testing.assert_allclose(np.asarray(got), want, rtol=tolerance, atol=tolerance)


def test_grad_of_a_scalar_function_to_the_fifth_order() -> None:
    f: Any = lambda x: fnp.sin(x) * fnp.exp(0.5 * x)  # noqa: E731
    # d/dx of sin(x)·exp(x/2) multiplies the complex amplitude by (1/2 + i).
    x = np.float64(0.7)
    derivative = f
    for order in range(1, 6):
        derivative = ft.grad(derivative)
        amplitude = (0.5 + 1j) ** order * np.exp((0.5 + 1j) * x)
        close(derivative(x), amplitude.imag, 1e-12)
        close(ft.jit(derivative)(x), amplitude.imag, 1e-12)


def test_grad_over_a_pytree_has_its_structure() -> None:
    class Pair(NamedTuple):
        a: Any
        b: Any

    params = {"w": [fnp.ones(3), None], "p": Pair(fnp.array(2.0), (fnp.array(3.0),))}

    def loss(p: Any) -> Any:
        return fnp.sum(p["w"][0] ** 2) * p["p"].a + p["p"].b[0] ** 3

    grads = ft.grad(loss)(params)
    assert isinstance(grads["p"], Pair)
    assert grads["w"][1] is None
    close(grads["w"][0], 4 * np.ones(3))
    close(grads["p"].a, 3.0)
    close(grads["p"].b[0], 27.0)


def test_argnums_and_aux() -> None:
    def f(x: Any, y: Any, *, scale: float) -> Any:
        return scale * x * y, {"sum": x + y, "name": "kept"}

    (value, aux), (dx, dy) = ft.value_and_grad(f, argnums=(0, -1), has_aux=True)(
        3.0, 5.0, scale=2.0
    )
    assert (float(value), float(dx), float(dy)) == (30.0, 10.0, 6.0)
    assert aux["name"] == "kept"
    assert float(aux["sum"]) == 8.0
    gradient, aux = ft.grad(f, has_aux=True)(3.0, 5.0, scale=1.0)
    assert float(gradient) == 5.0


def test_python_control_flow_sees_values_in_transforms_that_are_not_jitted() -> None:
    seen: list[float] = []

    def f(x: Any) -> Any:
        seen.append(float(x))
        total = x
        while total < 10:
            total = total * x
        if total > 20:
            return -total
        return total

    assert float(ft.grad(f)(3.0)) == -27.0
    assert float(ft.grad(f)(2.0)) == 32.0
    assert float(ft.jvp(f, (3.0,), (1.0,))[1]) == -27.0
    assert float(ft.vjp(f, 3.0)[1](1.0)[0]) == -27.0
    assert float(ft.grad(ft.grad(f))(3.0)) == -18.0
    assert seen == [3.0, 2.0, 3.0, 3.0, 3.0]


def test_nested_derivatives_do_not_confuse_their_perturbations() -> None:
    # d/dx (x · d/dy (x + y)) = 1, not 2.
    assert float(ft.grad(lambda x: x * ft.grad(lambda y: x + y)(1.0))(1.0)) == 1.0
    f = ft.grad(lambda x: ft.jvp(lambda y: x * y * y, (x,), (1.0,))[1])
    assert float(f(3.0)) == 12.0  # d/dx 2x² = 4x


@pytest.mark.parametrize("wrap", [lambda f: f, ft.jit], ids=["plain", "jit"])
def test_forward_over_reverse_equals_reverse_over_forward(wrap: Any) -> None:
    a = np.random.default_rng(0).normal(size=(4, 4))

    def f(x: Any) -> Any:
        return fnp.sum(fnp.tanh(a @ x) ** 2)

    x = np.arange(4.0) / 4
    one = wrap(ft.jacfwd(ft.jacrev(f)))(x)
    two = wrap(ft.jacrev(ft.jacfwd(f)))(x)
    three = wrap(ft.jacrev(ft.jacrev(f)))(x)
    close(one, two, 1e-10)
    close(one, three, 1e-10)
    close(one, np.asarray(ft.hessian(f)(x)), 1e-10)
    close(one, np.asarray(one).T, 1e-10)


def test_jacobians_of_trees() -> None:
    def f(p: Any) -> Any:
        return {"u": p["x"] * p["y"], "v": fnp.sum(p["x"])}

    p = {"x": fnp.arange(3.0), "y": fnp.array([1.0, 2.0, 3.0])}
    for jacobian in (ft.jacfwd(f)(p), ft.jacrev(f)(p)):
        close(jacobian["u"]["x"], np.diag([1.0, 2.0, 3.0]))
        close(jacobian["u"]["y"], np.diag([0.0, 1.0, 2.0]))
        close(jacobian["v"]["x"], np.ones(3))
        close(jacobian["v"]["y"], np.zeros(3))


def test_linearize_and_vjp_compute_the_residuals_once() -> None:
    calls: list[int] = []

    def f(x: Any) -> Any:
        calls.append(1)
        return fnp.sin(x) * x

    x = np.linspace(0, 1, 5)
    out, push = ft.linearize(f, x)
    close(push(np.ones(5)), np.cos(x) * x + np.sin(x))
    close(push(2 * np.ones(5)), 2 * (np.cos(x) * x + np.sin(x)))
    out, pull = ft.vjp(f, x)
    close(out, np.sin(x) * x)
    close(pull(np.ones(5))[0], np.cos(x) * x + np.sin(x))
    assert len(calls) == 2


def test_linear_transpose_of_a_matrix_is_its_transpose() -> None:
    a = np.random.default_rng(1).normal(size=(3, 5)).astype(np.float32)
    back = ft.linear_transpose(lambda x: a @ x, ft.ShapeDtypeStruct((5,), np.float32))
    y = np.arange(3, dtype=np.float32)
    close(back(y)[0], a.T @ y)
    with pytest.raises(DerivativeError, match="not linear"):
        ft.linear_transpose(lambda x: x * x, np.float32(1.0))


def test_closed_over_arrays_and_tracers() -> None:
    w = fnp.arange(4.0)

    def outer(x: Any) -> Any:
        def inner(y: Any) -> Any:
            return fnp.sum(w * x * y)

        return ft.grad(inner)(2.0) * x

    close(ft.grad(outer)(3.0), 2 * 6 * 3.0)


def test_the_gradient_of_a_python_number_is_weak() -> None:
    gradient = ft.grad(lambda x: x * x)(3.0)
    assert gradient.weak_type
    assert (fnp.ones(3, "float16") * gradient).dtype == np.float16


def test_what_numpy_changes_later_does_not_reach_a_derivative() -> None:
    x, w = np.ones(4), np.ones(4)
    _, pull = ft.vjp(lambda v: v * v * w, x)
    _, push = ft.linearize(lambda v: v * v * w, x)
    x[0] = w[0] = 7.0
    close(pull(np.ones(4))[0], 2 * np.ones(4))
    close(push(np.ones(4)), 2 * np.ones(4))


def test_lgamma_has_derivatives_of_every_order() -> None:
    # polygamma(1), (2) and (3), from SciPy; below zero by its recurrence.
    wanted = {
        2.5: (0.4903577561002349, -0.23620405164172736, 0.2239058488172521),
        -0.7: (14.28618087263834, -69.44163279863852, 768.1313523268525),
    }
    for x, values in wanted.items():
        derivative = ft.grad(ft.lax.lgamma)
        for value in values:
            derivative = ft.grad(derivative)
            np.testing.assert_allclose(derivative(np.float64(x)), value, rtol=1e-10)


def test_stop_gradient_is_constant() -> None:
    assert float(ft.grad(lambda x: x * ft.lax.stop_gradient(x))(3.0)) == 3.0


def test_gradients_of_integers() -> None:
    with pytest.raises(DerivativeError, match="float dtype"):
        ft.grad(lambda x: x * 1.0)(3)
    gradient = ft.grad(lambda n, x: n * x, argnums=(0, 1), allow_int=True)(3, 2.0)
    assert gradient[0].dtype == ft.float0
    assert float(gradient[1]) == 3.0


def test_holomorphic_derivatives() -> None:
    z = np.complex128(0.3 + 0.4j)
    f = ft.grad(lambda z: fnp.sin(z) * z, holomorphic=True)
    close(f(z), np.cos(z) * z + np.sin(z), 1e-12)
    # A real function of a complex argument: JAX's convention conjugates nothing.
    g = ft.grad(lambda z: fnp.real(z) ** 2 + 3 * fnp.imag(z))(z)
    close(g, 0.6 - 3j, 1e-12)
    with pytest.raises(DerivativeError, match="complex"):
        ft.grad(lambda x: x, holomorphic=True)(1.0)


EDGES: dict[str, tuple[Any, float, float]] = {
    "abs at 0": (lambda x: fnp.abs(x), 0.0, 1.0),
    "relu6 at 0": (lambda x: ft.nn.relu6(x), 0.0, 0.0),
    "relu6 at 6": (lambda x: ft.nn.relu6(x), 6.0, 0.0),
    "cbrt at 0": (lambda x: fnp.cbrt(x), 0.0, math.inf),
    "sqrt at 0": (lambda x: fnp.sqrt(x), 0.0, math.inf),
    "relu at 0": (lambda x: ft.nn.relu(x), 0.0, 0.0),
    "maximum at a tie": (lambda x: fnp.maximum(x, 0.0), 0.0, 0.5),
    "square at 0": (lambda x: x**2, 0.0, 0.0),
    "cube root of a square": (lambda x: x**3, 0.0, 0.0),
    "power of 0": (lambda x: x ** fnp.array(2.0), 0.0, 0.0),
    "where, log not taken": (lambda x: fnp.where(x > 0, fnp.log(x), 0.0), 0.0, 0.0),
    "where, division not taken": (lambda x: fnp.where(x != 0, 1 / x, 0.0), 0.0, 0.0),
    "where, x·log(x)": (lambda x: fnp.where(x > 0, x * fnp.log(x), 0.0), 0.0, 0.0),
    "where, sqrt not taken": (lambda x: fnp.where(x > 0, fnp.sqrt(x), 0.0), 0.0, 0.0),
    "where, exp overflows": (
        lambda x: fnp.where(x < 100, fnp.exp(fnp.where(x < 100, x, 0)), 0.0), 1e4, 0.0
    ),
    "where, exp overflows not taken": (
        lambda x: fnp.where(x < 100, fnp.exp(x), 1.0), 1e4, 0.0
    ),
    "norm at 0": (lambda x: fnp.sqrt(x**2 + x**2), 0.0, 0.0),
}  # fmt: skip


@pytest.mark.parametrize("name", EDGES)
@pytest.mark.parametrize("wrap", [lambda f: f, ft.jit], ids=["plain", "jit"])
def test_derivative_at_an_edge(name: str, wrap: Any) -> None:
    f, x, want = EDGES[name]
    assert float(wrap(ft.grad(f))(np.float32(x))) == want


def test_norm_of_zeros_has_a_zero_gradient() -> None:
    f = ft.grad(lambda x: fnp.sqrt(fnp.sum(x * x)))
    np.testing.assert_array_equal(np.asarray(f(np.zeros(3))), np.zeros(3))


def test_ties_of_a_maximum_share_the_gradient() -> None:
    close(ft.grad(lambda x: fnp.max(x))(np.array([1.0, 3, 3, 0])), [0, 0.5, 0.5, 0])


def test_bad_arguments_say_what_to_do() -> None:
    with pytest.raises(ShapeError, match="must return a scalar"):
        ft.grad(lambda x: x)(np.ones(3))
    with pytest.raises(ArgumentError, match="takes a function"):
        ft.grad(3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="at least 2 positional"):
        ft.grad(lambda x: x, argnums=1)(1.0)
    with pytest.raises(TreeError, match="differ in structure"):
        ft.jvp(lambda x: x, (1.0,), (1.0, 2.0))
    with pytest.raises(ShapeError, match="differ in shape"):
        ft.jvp(lambda x: x, (np.ones(3),), (np.ones(4),))
    with pytest.raises(DtypeError, match="float0"):
        ft.jvp(lambda x: x, (3,), (1.0,))
    with pytest.raises(ArgumentError, match="pair"):
        ft.grad(lambda x: x, has_aux=True)(1.0)
    _, pull = ft.vjp(lambda x: (x, x), 1.0)
    with pytest.raises(TreeError, match="structure must be"):
        pull(1.0)
    with pytest.raises(ArgumentError, match="must be an array"):
        ft.grad(lambda x: 1.0)("text")


def test_an_error_names_the_line_of_the_user() -> None:
    def broken(x: Any) -> Any:
        return fnp.sum(x + fnp.ones(5))  # the line

    with pytest.raises(
        ShapeError, match=r"fnp\.sum\(x \+ fnp\.ones\(5\)\)  # the line"
    ):
        ft.grad(broken)(np.ones(3))
