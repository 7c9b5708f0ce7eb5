"""Optimizers: the trajectories of optax, under jit too, and clear errors."""

from __future__ import annotations

import importlib.util
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import errors, optim, tree

_PATH = Path(__file__).parents[1] / "data" / "record_optim.py"
_SPEC = importlib.util.spec_from_file_location("record_optim", _PATH)
assert _SPEC is not None
assert _SPEC.loader is not None
record: Any = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(record)

RECORDED = np.load(record.PATH)
OPTIMIZERS = record.optimizers(optim)
SCHEDULES = record.schedules(optim)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_walk_as_in_optax(name: str) -> None:
    walked = record.steps(optim, OPTIMIZERS[name])
    assert walked.dtype == np.float32
    np.testing.assert_allclose(
        walked, RECORDED[f"optimizer/{name}"], rtol=2e-5, atol=1e-6
    )


def test_searches_walk_as_in_optax() -> None:
    for name, optimizer in record.searches(optim).items():
        walked = record.search(optim, optimizer, ft.value_and_grad, ft.jit)
        np.testing.assert_allclose(
            walked, RECORDED[f"search/{name}"], 1e-3, 1e-3, err_msg=name
        )


def test_losses_are_those_of_optax() -> None:
    for name, value in record.losses(optim).items():
        expected = RECORDED[f"loss/{name}"]
        assert value.dtype == expected.dtype
        np.testing.assert_allclose(value, expected, 2e-5, 1e-6, err_msg=name)


def test_functions_are_those_of_optax() -> None:
    for name, value in record.functions(optim, ft).items():
        expected = RECORDED[f"function/{name}"]
        found = record.flat(ft, value)
        np.testing.assert_allclose(found, expected, 1e-4, 1e-5, err_msg=name)


@pytest.mark.parametrize(
    "name", ["sgd/nesterov", "adam/schedule", "adamw/mask", "clip"]
)
def test_jit_walks_the_same(name: str, device: Any) -> None:
    optimizer = OPTIMIZERS[name]
    walked = record.steps(optim, optimizer, ft.jit(optimizer.update))
    np.testing.assert_allclose(
        walked, RECORDED[f"optimizer/{name}"], rtol=2e-5, atol=1e-6
    )


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_states_keep_their_types(name: str) -> None:
    """So that a step under jit is traced once, and fits a scan."""
    optimizer = OPTIMIZERS[name]
    params = record.parameters()
    grads = record.gradients(params, 0)
    state = optimizer.init(params)
    updates, after = ft.eval_shape(optimizer.update, grads, state, params)

    def kinds(values: Any) -> Any:
        return tree.map(lambda x: (np.shape(x), np.dtype(x.dtype)), values)

    assert tree.structure(state) == tree.structure(after)
    assert kinds(state) == kinds(after)
    assert kinds(updates) == kinds(tree.map(np.asarray, grads))


def test_every_recorded_walk_is_compared() -> None:
    names = [f"optimizer/{n}" for n in OPTIMIZERS] + [
        f"schedule/{n}" for n in SCHEDULES
    ]
    names += [f"search/{n}" for n in record.searches(optim)]
    names += [f"loss/{n}" for n in record.losses(optim)]
    assert {n for n in RECORDED if n[:9] != "function/"} == set(names)


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_are_those_of_optax(name: str) -> None:
    schedule = SCHEDULES[name]
    expected = RECORDED[f"schedule/{name}"]
    np.testing.assert_allclose(record.values(schedule), expected, rtol=1e-5, atol=1e-7)
    traced = record.values(ft.jit(schedule))
    np.testing.assert_allclose(traced, expected, rtol=1e-5, atol=1e-7)
    python = [float(fnp.asarray(schedule(n))) for n in record.COUNTS]
    np.testing.assert_allclose(python, expected, rtol=1e-5, atol=1e-7)


def test_namespaces_of_optax_are_there_or_said_to_be_missing() -> None:
    assert optim.transforms.clip is optim.clip
    assert optim.tree_utils.tree_add is optim.tree.add
    assert "nnls" in dir(optim)
    with pytest.raises(AttributeError, match="not there yet; it is in optax"):
        assert optim.contrib
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        assert optim.nothing


def test_momentum_is_sgd_with_momentum() -> None:
    walked = record.steps(optim, optim.momentum(0.1))
    np.testing.assert_allclose(walked, RECORDED["optimizer/sgd/momentum"], rtol=2e-5)


def test_a_loss_goes_down() -> None:
    def loss(params: Any) -> Any:
        return fnp.sum((params["w"] @ params["w"].T - fnp.eye(3)) ** 2)

    optimizer = optim.chain(optim.clip_by_global_norm(1.0), optim.adam(0.1))

    @ft.jit
    def step(params: Any, state: Any) -> Any:
        value, grads = ft.value_and_grad(loss)(params)
        updates, state = optimizer.update(grads, state, params)
        return optim.apply_updates(params, updates), state, value

    params = {"w": np.linspace(-1, 1, 9, dtype=np.float32).reshape(3, 3)}
    state = optimizer.init(params)
    values: list[float] = []
    for _ in range(60):
        params, state, value = step(params, state)
        values.append(float(value))
    assert values[-1] < 0.01 * values[0]


# Types.


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, np.float64])
def test_parameters_keep_their_dtype(dtype: Any) -> None:
    params = [np.ones(3, dtype)]
    optimizer = optim.adamw(1e-2)
    updates, _ = optimizer.update([np.ones(3, dtype)], optimizer.init(params), params)
    assert updates[0].dtype == dtype
    assert optim.apply_updates(params, updates)[0].dtype == dtype


def test_moments_take_the_dtype_asked_for() -> None:
    params = [np.ones(3, np.float32)]
    for optimizer in (
        optim.adam(0.1, mu_dtype="bfloat16"),
        optim.lion(0.1, mu_dtype="bfloat16"),
    ):
        state = optimizer.init(params)
        for _ in range(2):
            assert state[0].mu[0].dtype == ml_dtypes.bfloat16
            _, state = optimizer.update([np.ones(3, np.float32)], state, params)
    state = optim.sgd(0.1, 0.9, accumulator_dtype="float16").init(params)
    assert state[0].trace[0].dtype == np.float16


def test_no_update_leaves_a_parameter() -> None:
    params = {"a": np.ones(2, np.float32), "b": np.ones(2, np.float32)}
    grads = {"a": np.ones(2, np.float32), "b": None}
    for optimizer in (optim.sgd(0.1), optim.adamw(0.1), optim.clip_by_global_norm(1.0)):
        updates, _ = optimizer.update(grads, optimizer.init(params), params)
        assert updates["b"] is None
        np.testing.assert_array_equal(
            np.asarray(optim.apply_updates(params, updates)["b"]), 1
        )


def test_masked_parameters_have_no_state() -> None:
    params = {"a": np.ones(2, np.float32), "b": np.ones(2, np.float32)}
    optimizer = optim.masked(optim.adam(0.1), {"a": True, "b": False})
    state = optimizer.init(params)
    assert len(tree.leaves(state)) == 3
    updates, _ = optimizer.update(params, state)
    np.testing.assert_array_equal(np.asarray(updates["b"]), 1)
    np.testing.assert_allclose(np.asarray(updates["a"]), -0.1, rtol=1e-5)


def test_a_mask_that_can_be_called_is_a_tree_where_it_holds_bools() -> None:
    class Layer:
        def __init__(self, w: Any, b: Any) -> None:
            self.w, self.b = w, b

        def __call__(self, x: Any) -> Any:
            return self.w * x + self.b

    ft.tree_util.register_pytree_node(
        Layer, lambda x: ((x.w, x.b), None), lambda _, parts: Layer(*parts)
    )
    params = Layer(np.ones(2, np.float32), np.ones(2, np.float32))
    for mask in (Layer(True, False), lambda x: Layer(True, False)):
        optimizer = optim.masked(optim.sgd(0.5), mask)
        updates, _ = optimizer.update(params, optimizer.init(params))
        np.testing.assert_array_equal(np.asarray(updates.w), -0.5)
        np.testing.assert_array_equal(np.asarray(updates.b), 1)


# Clipping.


def test_clipping_keeps_what_is_small() -> None:
    grads = {"a": np.float32([3.0, 0.0]), "b": np.float32([[4.0]])}
    assert float(optim.global_norm(grads)) == 5.0
    for limit, factor in ((10.0, 1.0), (1.0, 0.2)):
        clipped, _ = optim.clip_by_global_norm(limit).update(grads, optim.EmptyState())
        for key, expected in grads.items():
            np.testing.assert_allclose(
                np.asarray(clipped[key]), factor * expected, rtol=1e-6
            )


def test_the_norm_of_complex_numbers() -> None:
    assert float(optim.global_norm([np.complex64([3 + 4j])])) == 5.0


# Bad input.


def test_weight_decay_needs_the_parameters() -> None:
    params = [np.ones(2, np.float32)]
    optimizer = optim.adamw(0.1)
    with pytest.raises(errors.ArgumentError, match=r"update\(grads, state, params\)"):
        optimizer.update(params, optimizer.init(params))


def test_a_chain_is_of_transformations() -> None:
    with pytest.raises(errors.ArgumentError, match="takes pairs"):
        optim.chain(0.1)


def test_the_state_is_of_the_same_optimizer() -> None:
    params = [np.ones(2, np.float32)]
    state = optim.adam(0.1).init(params)
    with pytest.raises(errors.TreeError, match="make it with init"):
        optim.adamw(0.1).update(params, state, params)


def test_gradients_are_of_the_parameters() -> None:
    params = [np.ones(2, np.float32)]
    optimizer = optim.adam(0.1)
    with pytest.raises(errors.TreeError, match="differ in structure"):
        optimizer.update({"w": params[0]}, optimizer.init(params), params)


def test_schedules_check_their_arguments() -> None:
    with pytest.raises(errors.ValueRangeError, match="must be positive, got 0"):
        optim.cosine_decay_schedule(0.1, 0)
    with pytest.raises(errors.ValueRangeError, match="must not be negative"):
        optim.piecewise_constant_schedule(0.1, {3: -1.0})
    with pytest.raises(errors.ValueRangeError, match="take 1 boundaries, got 2"):
        optim.join_schedules([float, float], [1, 2])


_NUMBER = r"must be a number"
_WRONG: dict[str, Any] = {
    "none": None, "text": "a", "list": [0.1], "vector": np.ones(2), "tree": {"a": 1},
}  # fmt: skip


@pytest.mark.parametrize("wrong", _WRONG.values(), ids=_WRONG)
def test_what_is_no_number_is_refused_when_the_optimizer_is_made(wrong: Any) -> None:
    for make in (
        optim.sgd, optim.momentum, optim.adam, optim.adamw, optim.rmsprop,
        optim.adagrad, optim.lion,
    ):  # fmt: skip
        with pytest.raises(errors.ArgumentError, match=f"learning_rate {_NUMBER}"):
            make(wrong)
        with pytest.raises(errors.ArgumentError, match=f"learning_rate {_NUMBER}"):
            make(learning_rate=wrong)
    for make, names in (
        (partial(optim.adam, 0.1), "b1 b2 eps eps_root"),
        (partial(optim.adamw, 0.1), "b1 b2 eps eps_root weight_decay"),
        (partial(optim.rmsprop, 0.1), "decay eps initial_scale"),
        (partial(optim.adagrad, 0.1), "initial_accumulator_value eps"),
        (partial(optim.lion, 0.1), "b1 b2 weight_decay"),
        (partial(optim.momentum, 0.1), "decay"), (optim.scale, "step_size"),
        (optim.trace, "decay"), (optim.scale_by_adam, "b1 b2 eps"),
        (optim.clip, "max_delta"), (optim.clip_by_global_norm, "max_norm"),
        (optim.constant_schedule, "value"), (optim.add_decayed_weights, "weight_decay"),
        (partial(optim.linear_schedule, 1, 0), "transition_steps"),
        (partial(optim.exponential_decay, 1, 2), "decay_rate transition_begin"),
        (partial(optim.cosine_decay_schedule, 1), "decay_steps"),
        (partial(optim.warmup_cosine_decay_schedule, 0, 1, 2), "decay_steps"),
    ):  # fmt: skip
        for name in names.split():
            with pytest.raises(errors.ArgumentError, match=rf"\b{name} {_NUMBER}"):
                make(**{name: wrong})
    with pytest.raises(errors.ArgumentError, match="each factor"):
        optim.piecewise_constant_schedule(1.0, {3: wrong})
    with pytest.raises(errors.ArgumentError, match="each factor"):
        optim.piecewise_interpolate_schedule("linear", 1.0, {3: wrong})
    with pytest.raises(errors.ArgumentError, match="must be a schedule"):
        optim.join_schedules([lambda n: n, wrong], [1])
    with pytest.raises(errors.ArgumentError, match="must be a schedule"):
        optim.scale_by_schedule(wrong)


def test_numbers_arrays_tracers_and_schedules_are_hyperparameters() -> None:
    params = {"a": fnp.ones(2)}

    def step(rate: Any) -> Any:
        optimizer = optim.adam(rate, b1=0.5 + 0 * (1 if callable(rate) else rate))
        return optimizer.update(params, optimizer.init(params))[0]["a"]

    rates = (1, 1.0, np.float32(1), np.float64(1), np.array(1.0), fnp.ones(()))
    for rate in (*rates, optim.constant_schedule(1.0)):
        np.testing.assert_allclose(step(rate), -1, 1e-5)
    np.testing.assert_allclose(ft.jit(step)(1.0), -1, 1e-5)
    assert ft.vmap(step)(fnp.ones(3)).shape == (3, 2)
    optim.sgd(0.1, momentum=None)
    optim.scale_by_learning_rate(None)
    optim.exponential_decay(1.0, 2, 0.5, end_value=None)


def test_update_takes_what_init_returned() -> None:
    params = {"a": fnp.ones(2)}
    whole = [optim.adam(0.1), optim.sgd(0.1, 0.9), optim.rmsprop(0.1, centered=True)]
    parts = [
        optim.scale_by_adam(), optim.trace(0.9), optim.scale_by_rms(),
        optim.scale_by_rms(bias_correction=True), optim.scale_by_stddev(),
        optim.scale_by_rss(), optim.scale_by_lion(),
        optim.scale_by_schedule(lambda n: n),
        optim.add_decayed_weights(lambda n: n), optim.masked(optim.identity(), True),
    ]  # fmt: skip
    for optimizer in whole + parts:
        for wrong in (None, 1, params, (), fnp.ones(())):
            with pytest.raises(errors.TreeError, match=r"init\(params\)"):
                optimizer.update(params, wrong, params)
        optimizer.update(params, optimizer.init(params), params)
