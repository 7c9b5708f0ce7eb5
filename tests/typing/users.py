"""A program of a user's, with the types that a checker must find in it.

tests/surface/test_types.py runs pyright and mypy over it, and the program itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from typing_extensions import assert_type

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import Array, lax, nn, optim, random
from ftrace.scipy import linalg, optimize, special, stats
from ftrace.typing import ArrayLike


class Weights(NamedTuple):
    w: Array
    b: Array


def loss(weights: Weights, x: ArrayLike, scale: float = 1.0) -> Array:
    return (fnp.tanh(x @ weights.w + weights.b) * scale).sum()


# What functions return, and what they take.

ones = fnp.ones((3, 3))
assert_type(ones, Array)
assert_type(fnp.sin(1.0) + np.ones(3), Array)
assert_type(fnp.sum([ones][0], axis=0), Array)
assert_type(fnp.einsum("ij,jk->ik", ones, ones), Array)
assert_type(fnp.where(ones > 0, ones, 0), Array)
assert_type(fnp.split(ones, 3), list[Array])
assert_type(fnp.add(1, ones), Array)
assert_type(fnp.linalg.inv(ones), Array)
assert_type(fnp.fft.fft(ones), Array)
assert_type(lax.dot(ones, ones), Array)
assert_type(nn.relu(ones), Array)
assert_type(random.normal(random.key(0), (3,)), Array)
assert_type(special.erf(0.5), Array)
assert_type(linalg.cholesky(fnp.eye(3)), Array)
assert_type(stats.norm.logpdf(0.5, scale=2.0), Array)
assert_type(stats.rankdata(ones), Array)
found = optimize.minimize(lambda x: (x**2).sum(), ones[0], method="BFGS")
assert_type(found.x, Array)
assert_type(found.hess_inv, Array | None)

# Optimizers.

adam = optim.adam(1e-3, b1=0.8)
assert_type(adam, optim.GradientTransformationExtraArgs)
state: Any = adam.init(ones)
updates, state = adam.update(ones, state, ones)
assert_type(optim.chain(adam, optim.clip(1.0)).init(ones), Any)
assert_type(optim.global_norm([ones]), Array)
assert_type(optim.apply_updates(ones, updates), Any)
assert_type(optim.huber_loss(ones, 0.0), Array)

# Operators and methods of arrays.

assert_type(ones + 1, Array)
assert_type(2.0 * ones, Array)
assert_type(ones @ ones, Array)
assert_type(ones == ones, Array)
assert_type(-ones, Array)
assert_type(ones[0], Array)
assert_type(ones.T, Array)
assert_type(ones.sum(axis=0).reshape(3, 1).astype("float16"), Array)
assert_type(ones.at[0].set(1.0), Array)
assert_type(ones.shape, tuple[int, ...])
assert_type(ones.ndim, int)
assert_type(float(ones.mean()), float)

# Transforms keep the parameters of a function.

weights = Weights(ones, fnp.zeros(3))
jitted = ft.jit(loss)
assert_type(jitted(weights, ones, scale=2.0), Array)
assert_type(ft.vmap(loss)(weights, ones), Array)
assert_type(ft.value_and_grad(loss)(weights, ones), tuple[Array, Any])
assert_type(ft.checkpoint(loss)(weights, ones), Array)
assert_type(ft.jvp(fnp.sin, (1.0,), (1.0,)), tuple[Array, Array])
value, pull = ft.vjp(loss, weights, ones)
assert_type(value, Array)
assert_type(pull(1.0), tuple[Any, ...])
gradient: Callable[[Weights, ArrayLike, float], Any] = ft.grad(loss)
assert_type(jitted.trace_count, int)
assert_type(ft.explain(loss)(weights, ones, scale=2.0).name, str)
assert_type(ft.nan_origin(jitted)(weights, ones), ft.debug.NonFinite | None)
assert_type(ft.zero_gradients(loss)(weights, ones), str)
shown: Callable[[Weights, ArrayLike, float], Any] = ft.viz(loss)

# What is carried keeps its type.

assert_type(fnp.linalg.eigh(ones).eigenvalues, Array)


def running(carry: Array, x: Array) -> tuple[Array, Array]:
    return carry + x, carry * x


carried, each = lax.scan(running, ones[0], ones)
assert_type(carried, Array)
assert_type(each, Array)
assert_type(lax.while_loop(lambda c: c.sum() < 9, lambda c: c + 1, ones), Array)
assert_type(jitted.lower(weights, ones).as_text(), str)


@ft.jit
def decorated(x: Array, power: int = 2) -> Array:
    return x**power


@ft.jit(static_argnames="power")
def configured(x: Array, power: int = 2) -> Array:
    return x**power


@partial(ft.jit, static_argnums=1)
def partially(x: Array, power: int = 2) -> Array:
    return x**power


@ft.custom_jvp
def with_rule(x: Array) -> Array:
    return x


class Model:
    def __init__(self) -> None:
        self.w = ones

    @partial(ft.jit, static_argnums=0)
    def old(self, x: Array) -> Array:
        return self.w @ x

    @ft.jit(static_argnums=0)
    def call(self, x: Array) -> Array:
        return self.w @ x


assert_type(decorated(ones, power=3), Array)
assert_type(configured(ones, power=3), Array)
assert_type(Model().call(ones), Array)
partially(ones, 3)  # of `partial` each checker knows less, and none complains
Model().old(ones)


@with_rule.defjvp
def _rule(primals: Any, tangents: Any) -> Any:
    return primals[0], tangents[0]


assert_type(with_rule(ones), Array)
