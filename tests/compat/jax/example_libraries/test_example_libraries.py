"""`jax.example_libraries`: steps and layers as JAX 0.10.2 has computed them."""

from __future__ import annotations

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.compat.jax.example_libraries import optimizers, stax
from ftrace.errors import ArgumentError, ValueRangeError

SCHEDULES = [
    (optimizers.constant(0.5), [0.5, 0.5]),
    (optimizers.exponential_decay(0.5, 2, 0.25), [0.5, 0.015625]),
    (optimizers.inverse_time_decay(0.5, 2, 1.0), [0.5, 1 / 7]),
    (optimizers.inverse_time_decay(0.5, 2, 1.0, staircase=True), [0.5, 1 / 6]),
    (optimizers.polynomial_decay(0.5, 2, 0.1, 2.0), [0.5, 0.1]),
    (optimizers.piecewise_constant([1, 2], [0.3, 0.2, 0.1]), [0.3, 0.1]),
]
#: Name, arguments, the matrix after three steps of the sum of squares, and a number.
STEPS = [
    ("sgd", (0.1,), [0.512, -1.024, 0.256, 0.0, 1.536]),
    ("momentum", (0.1, 0.9), [0.062, -0.124, 0.031, 0.0, 0.1860001]),
    ("nesterov", (0.1, 0.9), [-0.108352, 0.216704, -0.05417599, 0.0, -0.325056]),
    ("adagrad", (0.1,), [0.9538414, -1.953766, 0.4539948, 0.0, 2.953741]),
    ("rmsprop", (0.1,), [0.3691805, -1.308718, 0.0244353, 0.0, 2.291766]),
    ("rmsprop_momentum", (0.1,), [-0.2682567, -0.6041195, -0.4453085, 0.0, 1.570524]),
    ("adam", (0.1,), [0.7015883, -1.700625, 0.2048732, 0.0, 2.700384]),
    ("adamax", (0.1,), [0.7154996, -1.707648, 0.2309098, 0.0, 2.70501]),
    ("sm3", (0.1,), [0.9538414, -1.953766, 0.4539948, 0.0, 2.953741]),
]


def steps(optimizer: optimizers.Optimizer) -> list[float]:
    """Three compiled steps from a matrix and a number."""
    start = {"w": fnp.array([[1.0, -2.0], [0.5, 0.0]]), "b": fnp.array(3.0)}

    @ft.jit
    def step(
        i: ft.Array, state: optimizers.OptimizerState
    ) -> optimizers.OptimizerState:
        gradients = ft.tree.map(lambda x: 2 * x, optimizer.params_fn(state))
        return optimizer.update_fn(i, gradients, state)

    state = optimizer.init_fn(start)
    for i in range(3):
        state = step(fnp.asarray(i), state)
    packed = optimizers.pack_optimizer_state(optimizers.unpack_optimizer_state(state))
    assert ft.tree.structure(packed) == ft.tree.structure(state)
    found = optimizer.params_fn(packed)
    return [*np.ravel(found["w"]).tolist(), float(found["b"])]


@pytest.mark.parametrize(("name", "given", "expected"), STEPS)
def test_steps_are_those_of_jax(name: str, given: tuple, expected: list[float]) -> None:
    found = steps(getattr(optimizers, name)(*given))
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-7)


def test_schedules_and_norms() -> None:
    for schedule, (first, sixth) in SCHEDULES:
        np.testing.assert_allclose(
            [schedule(0), schedule(5)], [first, sixth], rtol=1e-6
        )
    gradients = {"a": fnp.array([3.0]), "b": fnp.array(4.0)}
    assert optimizers.l2_norm(gradients) == 5.0
    clipped = optimizers.clip_grads(gradients, 1.0)
    np.testing.assert_allclose(clipped["b"], 0.8)


def test_what_cannot_step_is_said() -> None:
    init, update, _ = optimizers.sgd(0.1)
    with pytest.raises(ArgumentError, match="structure of its parameters"):
        update(0, [1.0, 2.0], init([1.0]))
    with pytest.raises(ArgumentError, match="number or a function"):
        optimizers.adam([0.1, 0.2])
    with pytest.raises(ValueRangeError, match="longer by one"):
        optimizers.piecewise_constant([1, 2], [0.1])


def test_a_network_of_all_layers_is_that_of_jax() -> None:
    init, apply = stax.serial(
        stax.Conv(3, (3, 3), padding="SAME"), stax.BatchNorm(), stax.Relu,
        stax.MaxPool((2, 2)), stax.ConvTranspose(2, (2, 2), strides=(2, 2)),
        stax.AvgPool((2, 2), padding="SAME"), stax.SumPool((2, 2)), stax.Flatten,
        stax.FanOut(3),
        stax.parallel(
            stax.Dense(4), stax.Identity,
            stax.shape_dependent(lambda shape: stax.serial(stax.Dense(shape[-1]))),
        ),
        stax.FanInConcat(), stax.Dropout(0.5), stax.FanOut(2), stax.FanInSum,
        stax.LogSoftmax,
    )  # fmt: skip
    shape, params = init(ft.random.PRNGKey(0), (2, 6, 6, 2))
    x = fnp.arange(144.0).reshape(2, 6, 6, 2) / 100
    found = apply(params, x, rng=ft.random.PRNGKey(1))
    assert found.shape == shape
    np.testing.assert_allclose(
        found[1, :5],
        [-25.499176, -13.299468, -25.352131, -25.499176, -13.936599],
        rtol=1e-4,
    )
    with pytest.raises(ValueRangeError, match="Dropout draws"):
        apply(params, x)
