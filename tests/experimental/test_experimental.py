"""ftrace.experimental: differential equations, Taylor mode, recurrent layers."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import errors, lax
from ftrace.experimental import mesh_utils, multihost_utils, rnn
from ftrace.experimental.jet import jet, jet2, zero_series
from ftrace.experimental.ode import odeint
from ftrace.test_util import check_grads

RNG = np.random.default_rng(3)


# Differential equations.


def pendulum(y: Any, t: Any, m: Any, g: Any) -> Any:
    angle, speed = y
    return [speed, -m * speed - g * fnp.sin(angle)]


def test_odeint_follows_the_exact_solution() -> None:
    times = np.linspace(0, 2, 5)
    tree = {"a": np.float64(1), "b": np.ones((2, 2), np.complex128)}
    y = odeint(lambda y, t: {"a": -2 * y["a"], "b": 1j * t * y["b"]}, tree, times)
    np.testing.assert_allclose(y["a"], np.exp(-2 * times), atol=1e-7)
    wanted = np.exp(0.5j * times**2)
    np.testing.assert_allclose(y["b"][:, 1, 0], wanted, atol=1e-7)
    short = odeint(lambda y, t: -y, np.ones(1), times, mxstep=1)
    assert abs(short[-1, 0] - math.exp(-2)) > 1e-4
    still = odeint(lambda y, t: 0 * y, np.ones(2, np.float32), times.astype("float32"))
    np.testing.assert_array_equal(still, np.ones((5, 2)))
    assert still.dtype == np.float32
    for wrong in (np.arange(3), 1.0):
        with pytest.raises(errors.FtraceError, match="odeint"):
            odeint(lambda y, t: y, 1.0, wrong)
    with pytest.raises(errors.ArgumentError):
        odeint(lambda y, t, c: y, 1.0, times, "c")


@pytest.mark.parametrize(
    ("slope", "times", "known"),
    [
        (lambda y, t: y**2, [0, 0.5, 0.9, 1.5], [1, 2, 10, math.nan]),
        (lambda y, t: y * math.nan, [0, 1], [1, math.nan]),
        (lambda y, t: y * 0 + math.inf, [0, 1], [1, math.nan]),
        (lambda y, t: -y, [1, 0], [1, math.nan]),
        (lambda y, t: -y, [0, 0, 1, 1], [1, 1, math.exp(-1), math.exp(-1)]),
    ],
    ids=["blow up", "nan", "inf", "backwards", "the same time"],
)
def test_odeint_ends_where_steps_end(slope: Any, times: Any, known: Any) -> None:
    found = odeint(slope, 1.0, np.array(times, np.float32))
    np.testing.assert_allclose(found, known, rtol=1e-4)


def test_odeint_ends_where_its_slope_becomes_nan() -> None:
    """Then the last step is extrapolated, as by JAX."""
    times = np.array([0, 0.1, 1, 2], np.float32)
    found = odeint(lambda y, t: fnp.sqrt(y) - 1, np.array([0.2]), times)
    np.testing.assert_allclose(found[1], 0.1413325, rtol=1e-4)


def test_odeint_has_the_adjoint_as_derivative() -> None:
    args = (np.array([3.0, 0.0]), np.linspace(0, 1, 4), np.float64(0.25), np.float64(9))
    check_grads(partial(odeint, pendulum), args, 1, ["rev"], atol=1e-4, rtol=1e-4)

    def closed(c: Any) -> Any:
        return odeint(lambda y, t: -c * y, np.float64(1), np.array([0.0, 1.0]))[-1]

    c = np.array([1.0, 2.0])
    np.testing.assert_allclose(ft.vmap(ft.grad(closed))(c), -np.exp(-c), rtol=1e-6)
    second = ft.grad(ft.grad(closed))(c[0])
    np.testing.assert_allclose(second, np.exp(-1), rtol=1e-5)


# Taylor mode.

FUNCTIONS: list[Callable[..., Any]] = [
    fnp.sin,
    lambda x: fnp.tanh(x) * fnp.exp(x) / x**1.5,
    ft.nn.softmax,
    ft.nn.silu,
    lambda x: fnp.linalg.inv(fnp.outer(x, x) + fnp.eye(3)),
    lambda x: lax.scan(lambda c, _: (fnp.sin(c), c), x, None, length=3)[0],
    lambda x: lax.cond(x[0] > 0, fnp.sin, fnp.cos, x),
]


@pytest.mark.parametrize("k", range(len(FUNCTIONS)))
def test_jet_gives_all_derivatives_along_a_curve(k: int) -> None:
    f, order = FUNCTIONS[k], 3
    x, terms = RNG.uniform(0.5, 1.5, 3), [RNG.normal(size=3) for _ in range(order)]

    def along(s: Any) -> Any:
        parts = [s**i * t / math.factorial(i) for i, t in enumerate([x, *terms])]
        return f(sum(parts))

    value, found = jet(f, (x,), (terms,))
    np.testing.assert_allclose(value, f(x), rtol=1e-12)
    derivatives: list[Any] = [along]
    for _ in range(order):
        derivatives.append(ft.jacfwd(derivatives[-1]))
    for wanted, one in zip(derivatives[1:], found, strict=True):
        np.testing.assert_allclose(one, wanted(np.float64(0)), rtol=1e-9, atol=1e-9)


def test_jet_of_several_arguments_and_of_coefficients() -> None:
    a, b = RNG.normal(size=(2, 3)), RNG.normal(size=(3, 2))
    second = RNG.normal(size=(2, 3))
    value, terms = jet(fnp.dot, (a, b), ([a, second], zero_series))
    np.testing.assert_allclose(value, a @ b)
    np.testing.assert_allclose(terms, [a @ b, second @ b])
    _, terms = jet2(lambda x: {"a": fnp.exp(x)}, (0.0,), ((1.0, 0.0, 0.0),))
    np.testing.assert_allclose(terms["a"], [1, 1 / 2, 1 / 6], rtol=1e-6)
    assert ft.grad(lambda x: jet(fnp.sin, (x,), ((1.0, 0.0),))[1][1])(0.0) == -1
    assert jet(lambda x: 3, (1.0,), ((1.0,),)) == (3, [0])
    with pytest.raises(errors.TreeError):
        jet(fnp.add, (1.0, 1.0), ((1.0,), (1.0, 2.0)))
    with pytest.raises(errors.ArgumentError):
        jet(fnp.sum, ([1.0],), ((1.0,),))


def test_jet_of_a_product_grows_as_the_square_of_the_order() -> None:
    def count(order: int) -> int:
        series = [[1.0] * order] * 2
        made = ft.make_graph(lambda x, y: jet(fnp.multiply, (x, y), series))(1.0, 2.0)
        return str(made).count("mul")

    assert count(16) < 5 * count(8)


# The rest.


def test_lstm_is_its_equations() -> None:
    sizes = (3, 2, 2, True)
    weights = rnn.init_lstm_weight(ft.random.PRNGKey(0), *sizes)
    assert weights.shape == (rnn.get_num_params_in_lstm(*sizes),)
    x = RNG.normal(size=(2, 5, 3)).astype(np.float32)
    zero = np.zeros((4, 2, 2), np.float32)
    lengths = np.array([5, 3], np.int32)
    y, h, c = rnn.lstm(x, zero, zero, weights, lengths, *sizes[:3], 0.0, True)
    assert (y.shape, h.shape, c.shape) == ((2, 5, 4), (4, 2, 2), (4, 2, 2))
    w_ih, w_hh, b_ih, b_hh = rnn.unpack_lstm_weights(weights, *sizes)

    def run(k: int, sequence: Any) -> list[Any]:
        state, cell, outputs = np.zeros(2), np.zeros(2), list[Any]()
        for row in sequence:
            gates = w_ih[k] @ row + b_ih[k] + w_hh[k] @ state + b_hh[k]
            i, f, g, o = np.split(np.asarray(gates), 4)
            i, f, o = (1 / (1 + np.exp(-v)) for v in (i, f, o))
            cell = f * cell + i * np.tanh(g)
            state = o * np.tanh(cell)
            outputs.append(state)
        return outputs

    for lane, length in enumerate(lengths):
        sequence: Any = x[lane, :length]
        for layer in range(2):
            back = run(2 * layer + 1, sequence[::-1])[::-1]
            sequence = np.concatenate([run(2 * layer, sequence), back], -1)
        np.testing.assert_allclose(y[lane, :length], sequence, rtol=1e-5, atol=1e-6)
        assert not np.any(y[lane, length:])
        np.testing.assert_allclose(h[2, lane], sequence[-1, :2], rtol=1e-5)
    with pytest.raises(errors.ValueRangeError):
        rnn.lstm(x, zero, zero, weights, lengths, *sizes[:3], 0.5, True)


def test_one_process_is_a_mesh_of_one() -> None:
    mesh = mesh_utils.create_device_mesh((1, 1), ft.devices()[:1])
    assert mesh.shape == (1, 1)
    with pytest.raises(errors.ValueRangeError):
        mesh_utils.create_device_mesh((2,), ft.devices()[:1])
    gathered = multihost_utils.process_allgather({"a": fnp.ones(2)})
    assert gathered["a"].shape == (1, 2)
