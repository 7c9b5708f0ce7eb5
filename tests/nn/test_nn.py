"""ftrace.nn: recorded values, derivatives at corners, initial values, messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.nn as nn
import ftrace.numpy as fnp
import ftrace.random as random
from ftrace.errors import DtypeError, FtraceError, ShapeError, ValueRangeError
from ftrace.testing import check_grads
from ftrace.trace.tracing.trace import trace
from ftrace.trace.tracing.tracer import aval_of
from tests.support import recorded_surface

RNG = np.random.default_rng(13)


@pytest.mark.parametrize("expression", recorded_surface.expressions("nn"))
def test_nn_agrees_with_jax_eager_and_traced(expression: str) -> None:
    recorded_surface.check_value(
        expression, recorded_surface.evaluate_eager(expression)
    )
    recorded_surface.check_value(
        expression, recorded_surface.evaluate_traced(expression)
    )


# The slopes of jax.nn at the corners.
CORNERS: dict[str, tuple[Callable[..., Any], dict[float, float]]] = {
    "relu": (nn.relu, {-1: 0, 0: 0, 1: 1}),
    "relu6": (nn.relu6, {-1: 0, 0: 0, 3: 1, 6: 0, 7: 0}),
    "leaky_relu": (nn.leaky_relu, {-1: 0.01, 0: 1, 1: 1}),
    "elu": (nn.elu, {0: 1, 1: 1, 200: 1, -200: 0}),
    "hard_tanh": (nn.hard_tanh, {-2: 0, -1: 1, 0: 1, 1: 1, 2: 0}),
    "hard_sigmoid": (nn.hard_sigmoid, {-4: 0, -3: 0, 0: 1 / 6, 3: 0, 4: 0}),
    "hard_silu": (nn.hard_silu, {-4: 0, -3: 0, 0: 0.5, 3: 1, 4: 1}),
    "softplus": (nn.softplus, {0: 0.5, 100: 1, -800: 0}),
    "silu": (nn.silu, {0: 0.5}),
    "gelu": (nn.gelu, {0: 0.5, 50: 1, -50: 0}),
    "sparse_plus": (nn.sparse_plus, {-1: 0, 0: 0.5, 1: 1}),
    "log_sigmoid": (nn.log_sigmoid, {0: 0.5, -900: 1, 900: 0}),
}


@pytest.mark.parametrize("name", CORNERS)
def test_activation_has_the_slope_of_jax_at_its_corners(name: str) -> None:
    function, slopes = CORNERS[name]
    x = np.array(list(slopes), np.float64)
    (found,) = recorded_surface.gradient(lambda v: fnp.sum(function(v)), x)
    np.testing.assert_allclose(found, list(slopes.values()), atol=1e-12)


SMOOTH = [
    nn.sigmoid,
    nn.silu,
    nn.softplus,
    nn.soft_sign,
    nn.elu,
    nn.selu,
    nn.celu,
    nn.gelu,
    nn.glu,
    nn.hard_silu,
    nn.log_sigmoid,
    nn.mish,
    nn.squareplus,
    nn.softmax,
    nn.log_softmax,
    nn.logsumexp,
    nn.standardize,
]


@pytest.mark.parametrize("function", SMOOTH, ids=lambda f: f.__name__)
def test_nn_derivative_agrees_with_differences(function: Callable[..., Any]) -> None:
    x = RNG.standard_normal((3, 8)) * 2
    check_grads(function, (x,), 1, atol=1e-6, rtol=1e-6, eps=1e-6)


def test_attention_derivative_agrees_with_differences() -> None:
    q, k, v = (RNG.standard_normal((2, 3, h, 4)) for h in (4, 2, 2))

    def attend(q: Any, k: Any, v: Any) -> Any:
        return nn.dot_product_attention(q, k, v, is_causal=True)

    check_grads(attend, (q, k, v), 1, atol=2e-3, rtol=2e-3, eps=1e-3)


def test_masked_softmax_ignores_what_is_masked() -> None:
    x = np.array([[1.0, np.inf, 2.0], [np.nan, 0.0, 0.0]])
    mask = np.array([[True, False, True], [False, True, True]])
    value = nn.softmax(x, where=mask)
    np.testing.assert_allclose(
        value, [[1 / (1 + np.e), 0, np.e / (1 + np.e)], [0, 0.5, 0.5]]
    )
    (slope,) = recorded_surface.gradient(
        lambda v: fnp.sum(nn.softmax(v, where=mask)[:, 1]), np.where(mask, x, 0.0)
    )
    assert np.isfinite(slope).all()


def test_logsumexp_bears_infinities() -> None:
    x = np.array([[-np.inf, -np.inf], [np.inf, 0.0], [1000.0, 1000.0]])
    np.testing.assert_allclose(nn.logsumexp(x, 1), [-np.inf, np.inf, 1000 + np.log(2)])
    (slope,) = recorded_surface.gradient(
        lambda v: nn.logsumexp(v), np.array([-np.inf, 0.0])
    )
    np.testing.assert_array_equal(slope, [0, 1])


def test_softmax_has_two_reductions_and_one_exponential() -> None:
    aval = aval_of(np.ones((4, 8), np.float32))
    graph = trace("test", lambda x: [nn.softmax(x)], [aval])
    names = [node.op.name for node in graph.nodes]
    assert (
        names.count("reduce_max")
        == names.count("reduce_sum")
        == names.count("exp")
        == 1
    )
    assert len(names) <= 9


VARIANCES = [
    (nn.initializers.glorot_normal, 2 / (300 + 200)),
    (nn.initializers.glorot_uniform, 2 / (300 + 200)),
    (nn.initializers.he_normal, 2 / 300),
    (nn.initializers.he_uniform, 2 / 300),
    (nn.initializers.lecun_normal, 1 / 300),
    (nn.initializers.lecun_uniform, 1 / 300),
]


@pytest.mark.parametrize("row", range(len(VARIANCES)))
def test_initializer_has_its_variance(row: int) -> None:
    factory, variance = VARIANCES[row]
    weights = np.asarray(factory()(random.key(0), (300, 200)))
    assert weights.dtype == np.float32
    assert abs(weights.mean()) < 3 * np.sqrt(variance / weights.size)
    assert weights.var() == pytest.approx(variance, rel=0.02)


def test_initializers_take_shape_and_dtype() -> None:
    key = random.key(1)
    init = nn.initializers
    for dtype in ("float32", "float64", "float16"):
        for made in (
            init.zeros,
            init.ones,
            init.normal(0.1),
            init.uniform(),
            init.constant(3),
        ):
            assert made(key, (2, 3), dtype).dtype == dtype
    np.testing.assert_array_equal(init.constant(3)(key, (2,)), [3, 3])
    window = init.he_normal()(key, (3, 3, 64, 128))
    assert np.asarray(window).var() == pytest.approx(2 / (9 * 64), rel=0.05)
    drawn = np.asarray(init.truncated_normal(1.0)(key, (1000,)))
    assert abs(drawn).max() <= 2


MESSAGES: list[tuple[Callable[[], Any], type[FtraceError], str]] = [
    (lambda: nn.glu(np.ones(3)), ShapeError, "must have an even size"),
    (lambda: nn.softmax(np.ones(3), 1), ValueError, "axis 1 is out of bounds"),
    (
        lambda: nn.softmax(np.ones(3), where=np.ones(3)),
        ValueRangeError,
        "array of bools",
    ),
    (
        lambda: nn.standardize(np.ones(3), algorithm="slow"),
        ValueRangeError,
        "'fast' or 'stable'",
    ),
    (
        lambda: nn.one_hot(np.arange(3), 2.5),
        TypeError,
        "num_classes must be an integer",
    ),
    (
        lambda: nn.dot_product_attention(
            np.ones((2, 3, 4)), np.ones((2, 3, 5)), np.ones((2, 3, 5))
        ),
        ShapeError,
        "query (batch, T, heads, features)",
    ),
    (
        lambda: nn.dot_product_attention(
            np.ones((2, 3, 4)), np.ones((2, 2, 4)), np.ones((2, 2, 4))
        ),
        ValueRangeError,
        "not a multiple",
    ),
    (
        lambda: nn.dot_product_attention(
            np.ones((2, 3, 4)),
            np.ones((2, 3, 4)),
            np.ones((2, 3, 4)),
            mask=np.ones((2, 2)),
        ),
        DtypeError,
        "mask must be of bools",
    ),
    (
        lambda: nn.dot_product_attention(
            np.ones((2, 3, 4)), np.ones((2, 3, 4)), np.ones((2, 3, 4)), np.ones((3, 5))
        ),
        ShapeError,
        "bias must broadcast",
    ),
    (
        lambda: nn.initializers.he_normal()(random.key(0), (3,)),
        ShapeError,
        "at least two axes",
    ),
    (
        lambda: nn.initializers.variance_scaling(1.0, "fan", "normal"),
        ValueRangeError,
        "mode must be 'fan_in'",
    ),
    (
        lambda: nn.initializers.variance_scaling(1.0, "fan_in", "cauchy"),
        ValueRangeError,
        "distribution must be",
    ),
]


@pytest.mark.parametrize("case", range(len(MESSAGES)))
def test_nn_says_what_is_wrong(case: int) -> None:
    recorded_surface.check_message(*MESSAGES[case])


@pytest.mark.parametrize("x64", [False, True])
def test_integers_become_what_they_are_beside_python_floats(x64: bool) -> None:
    """As in JAX: weak floats in what is piecewise, floats in what is smooth."""
    with ft.config(jax_enable_x64=x64):
        wide = np.float64 if x64 else np.float32
        x = fnp.array([-1, 0, 3], "int8")
        for function in (nn.relu6, nn.leaky_relu, nn.hard_sigmoid, nn.elu, nn.selu):
            assert function(x).dtype == wide
            assert function(x).weak_type
            half = function(x) * fnp.ones(3, "float16")
            assert half.dtype == np.float16
        for function in (nn.softplus, nn.soft_sign, nn.squareplus, nn.mish):
            assert function(x).dtype == np.float32
            assert not function(x).weak_type
        assert fnp.rint(x).dtype == fnp.angle(x).dtype == fnp.unwrap(x).dtype == wide
        assert fnp.trapezoid(x).dtype == np.float32


def test_a_slope_that_is_an_integer_is_no_float() -> None:
    x = fnp.array([-1, 0, 2], "int32")
    for _ in range(8):
        assert ft.nn.leaky_relu(x, 2).dtype == "int32"
        assert ft.nn.leaky_relu(x, 2.0).dtype == "float32"


def test_complex_weights_have_the_variance_that_was_asked_for() -> None:
    key = ft.random.key(0)
    for name in ("glorot_uniform", "lecun_uniform", "he_uniform", "lecun_normal"):
        for dtype in (np.complex64, np.complex128):
            found = getattr(nn.initializers, name)()(key, (400, 300), dtype)
            values = np.asarray(found)
            assert values.dtype == dtype
            fan = {"glorot": 350, "lecun": 400, "he": 200}[name.split("_")[0]]
            assert np.abs(values.mean()) < 0.01 / np.sqrt(fan)
            np.testing.assert_allclose((abs(values) ** 2).mean() * fan, 1, rtol=0.03)
    radii = abs(np.asarray(nn.initializers.he_uniform()(key, (50, 50), np.complex64)))
    assert radii.max() <= np.sqrt(2 * 2 / 50)


def test_what_clips_takes_no_complex_numbers() -> None:
    with pytest.raises(DtypeError, match="complex"):
        nn.sparse_sigmoid(np.array([1j], np.complex64))


def test_logarithms_of_complex_activations_lie_between_minus_pi_and_pi() -> None:
    x = np.array([1.4 - 3.7255j, 1.4 + 9j, -2 + 7j, 30 + 20j])
    wanted = np.log(1 + np.exp(x))
    for f in nn.softplus, ft.jit(nn.softplus):
        np.testing.assert_allclose(f(x), wanted, rtol=1e-13)
    np.testing.assert_allclose(nn.log_sigmoid(-x), -wanted, rtol=1e-13)


def test_logsumexp_of_complex_numbers_has_a_real_logarithm_beside_its_sign() -> None:
    z, b = np.array([1 + 2j, -3 + 0.5j]), np.array([1.0, -2.0])
    for factors in (None, b):
        total = (np.exp(z) * (1 if factors is None else factors)).sum()
        size, sign = ft.nn.logsumexp(z, b=factors, return_sign=True)
        assert size.dtype == np.float64
        np.testing.assert_allclose(size, np.log(abs(total)), rtol=1e-14)
        np.testing.assert_allclose(sign, total / abs(total), rtol=1e-14)
