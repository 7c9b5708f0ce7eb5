"""Why gradients are zero: what is named is what makes them so, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.errors import DerivativeError

X = np.linspace(0.2, 0.9, 12, dtype=np.float32).reshape(3, 4)


ONES = np.ones((2, 4), np.float32)


def scan(step: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: lax.scan(lambda c, v: (c + step(v), None), 0.0, x[0])[0]


#: A function whose gradient is zero in its argument, and what is said.
ZEROS: dict[str, tuple[Callable[[Any], Any], Any, str]] = {
    "argmax": (lambda x: fnp.argmax(x, 1).sum() * 1.0, X, "argmax has none"),
    "round": (lambda x: fnp.round(x).sum(), X, "round has none"),
    "astype": (lambda x: x.astype(int).sum(), X, "astype has none"),
    "compare": (lambda x: fnp.mean(x > 0.5), X, "greater has none"),
    "sign": (ft.jit(lambda x: ft.jit(fnp.sign)(x).sum()), X, "sign has none"),
    "stop_gradient": (lambda x: (lax.stop_gradient(x) * 2).sum(), X, "stop_gradient"),
    "a product with 0": (lambda x: (x * 0.0).sum(), X, "multiply has none"),
    "unused": (lambda x: fnp.sum(fnp.ones(3)), X, "x: the results do not depend on it"),
    "shape": (lambda x: fnp.ones(3) * x.shape[0], X, "the results do not depend on it"),
    "an integer": (lambda x: x * 2.0, 3, "has no gradient; give it in a float's dtype"),
    "a rounding in a loop": (scan(fnp.floor), X, "scan has none"),
    "dead relu": (lambda x: ft.nn.relu(x - 5).sum(), X, "relu made zeros"),
    "dead maximum": (lambda x: fnp.maximum(x - 5, 0).sum(), X, "maximum made zeros"),
    "clipped": (lambda x: fnp.clip(x, 2, 3).sum(), X, "clip made zeros"),
    "saturated": (lambda x: fnp.tanh(x * 1000).sum(), X, "tanh made zeros"),
    "cancelled": (lambda x: (x - x).sum(), X, "subtract made zeros"),
    "softmax": (lambda x: ft.nn.softmax(x).sum(), ONES, "softmax made zeros"),
    "a minimum": (lambda x: (x**2).sum(), np.zeros(3), "x: as x is zero"),
    "in a loop": (scan(lambda v: fnp.maximum(v - 9, 0)), X, "maximum made zeros"),
    "a dead layer in a loop": (
        lambda x: lax.scan(lambda c, v: (ft.nn.relu(c + v), v), -ONES[0], -x)[0].sum(),
        ONES,
        "relu made zeros",
    ),
    "a while that ends in zeros": (
        lambda x: lax.fori_loop(0, 3, lambda _, c: fnp.maximum(c - 9, 0), x).sum(),
        X,
        "maximum made zeros",
    ),
    "samples": (
        lambda x: ft.random.categorical(ft.random.key(0), x).sum() * 1.0,
        X,
        "categorical has none",
    ),
}


@pytest.mark.parametrize("name", ZEROS)
def test_what_makes_a_gradient_zero_is_named(name: str) -> None:
    fun, x, said = ZEROS[name]
    if not isinstance(x, int):
        summed = ft.grad(lambda x: fnp.sum(fun(x) * 1.0))
        assert not np.any(summed(x))
    text = ft.zero_gradients(fun)(x)
    assert " is zero for 1 of 1 arguments\n" in text
    assert said in text
    if "made" in said or "has none" in said:
        assert "test_zero_gradients.py" in text


MOVING: list[tuple[Callable[..., Any], Any]] = [
    (lambda x: x.sum(), X),
    (lambda x: fnp.where(x > 0.5, x, 0.0).sum(), X),
    (lambda x: fnp.sort(x).max(), X),
    (scan(fnp.sin), X),
    (lambda x: fnp.round(x).sum() + x[0, 0], X),
    (lambda x: ft.nn.softmax(x), X),
    (lambda x: fnp.linalg.svd(x, compute_uv=False), X),
    (lambda x: x * 1j, X),
    (lambda x: x, fnp.bfloat16(2)),
    (ft.checkpoint(lambda x: fnp.sin(x)), X),
    (lambda x: lax.while_loop(lambda c: c < 9, lambda c: c * 2, x), 1.5),
    (lambda x: lax.cond(x > 0, fnp.sin, fnp.cos, x), 1.5),
]


@pytest.mark.parametrize(("fun", "x"), MOVING)
def test_other_gradients_are_not(fun: Any, x: Any) -> None:
    assert ft.zero_gradients(fun)(x).endswith(" is zero for none of 1 arguments")


def test_each_argument_has_its_own_reason() -> None:
    def loss(params: Any, x: Any, *, rate: Any) -> Any:
        hidden = x @ params["in"]
        return (hidden @ params["out"]).sum()

    params = {"in": np.ones((4, 2), "f"), "out": np.zeros((2, 3), "f")}
    lines = ft.zero_gradients(loss)(params, X, rate=0.1).splitlines()
    assert lines == [
        "the gradient of loss is zero for 3 of 4 arguments",
        "params['in']: as params['out'] is zero",
        "x: as params['out'] is zero",
        "rate: the results do not depend on it",
    ]


def test_what_has_no_derivative_says_so() -> None:
    def through(x: Any) -> Any:
        return ft.pure_callback(np.sin, x, x)

    with pytest.raises(DerivativeError):
        ft.zero_gradients(through)(X)


def test_rules_of_users_are_followed() -> None:
    @ft.custom_jvp
    def still(x: Any) -> Any:
        return x * 2

    still.defjvp(lambda xs, ts: (still(*xs), 0.0 * ts[0]))
    assert "1 of 1" in ft.zero_gradients(still)(X)
