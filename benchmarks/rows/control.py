"""Loops inside of programs: differential equations, recurrences, searches."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.inputs import normal, weights
from benchmarks.row import Family

FAMILY = Family("control flow")
STEPS = 1000


def rk4(lib: Any, slope: Any, steps: int, h: float) -> Any:
    """The classical Runge-Kutta method, `steps` times."""

    def step(_: Any, y: Any) -> Any:
        a = slope(y)
        b = slope(y + h / 2 * a)
        c = slope(y + h / 2 * b)
        d = slope(y + h * c)
        return y + h / 6 * (a + 2 * b + 2 * c + d)

    return lambda y: lib.lax.fori_loop(0, steps, step, y)


def predator(lib: Any) -> Any:
    """Lotka and Volterra's equations."""
    return lambda y: lib.np.stack(
        [y[0] * (1.1 - 0.4 * y[1]), y[1] * (0.1 * y[0] - 0.4)]
    )


START = np.array([10.0, 5.0], np.float32)


@FAMILY.row("ODE, 1,000 rk4 steps of 2 variables", lambda: (START,))
def ode(lib: Any) -> Any:
    return rk4(lib, predator(lib), STEPS, 0.01)


@FAMILY.row("gradient of that ODE", lambda: (START,))
def ode_gradient(lib: Any) -> Any:
    solve = rk4(lib, predator(lib), STEPS, 0.01)
    return lib.grad(lambda y: lib.np.sum(solve(y)))


def many_starts() -> tuple[Any, ...]:
    return (5 + np.abs(normal(1024, 2)),)


@FAMILY.row("that ODE for 1,024 starts, by vmap", many_starts)
def ode_lanes(lib: Any) -> Any:
    return lib.vmap(rk4(lib, predator(lib), STEPS, 0.01))


def recurrent_inputs(length: int, batch: int, width: int) -> tuple[Any, ...]:
    params = {"a": weights(width, width, seed=1), "b": weights(width, width, seed=2)}
    return params, normal(length, batch, width, seed=3)


def recurrent_loss(lib: Any) -> Any:
    def loss(params: Any, xs: Any) -> Any:
        def cell(state: Any, x: Any) -> Any:
            state = lib.np.tanh(state @ params["a"] + x @ params["b"])
            return state, lib.np.sum(state * state)

        first = lib.np.zeros(xs.shape[1:], "float32")
        return lib.np.sum(lib.lax.scan(cell, first, xs)[1])

    return loss


@FAMILY.row(
    "RNN scan, 128 × 32 × 64, with gradient", lambda: recurrent_inputs(128, 32, 64)
)
def rnn(lib: Any) -> Any:
    return lib.value_and_grad(recurrent_loss(lib))


@FAMILY.row(
    "RNN scan, 64 × 64 × 256, with gradient", lambda: recurrent_inputs(64, 64, 256)
)
def large_rnn(lib: Any) -> Any:
    return lib.value_and_grad(recurrent_loss(lib))


def root_inputs() -> tuple[Any, ...]:
    return (np.exp(normal(4096) * 4).astype(np.float32),)


@FAMILY.row("square roots by while_loop, 4,096 lanes", root_inputs)
def roots(lib: Any) -> Any:
    """Newton's method until it stands still; each lane takes as long as it takes."""

    def root(x: Any) -> Any:
        def goes_on(state: Any) -> Any:
            y, before, count = state
            return (lib.np.abs(y - before) > 1e-5 * y) & (count < 200)

        def step(state: Any) -> Any:
            y, _, count = state
            return (y + x / y) / 2, y, count + 1

        return lib.lax.while_loop(goes_on, step, (x + 1, x, 0))[0]

    return lib.vmap(root)


@FAMILY.row("matrix power by while_loop, 64 × 64", lambda: (weights(64, 64, seed=1),))
def power(lib: Any) -> Any:
    """The largest eigenvalue by power iteration, 100 steps."""

    def run(a: Any) -> Any:
        def step(state: Any) -> Any:
            count, v = state
            w = a @ v
            return count + 1, w / lib.np.sqrt(lib.np.sum(w * w))

        first = (0, lib.np.ones(64, "float32"))
        return lib.lax.while_loop(lambda s: s[0] < 100, step, first)[1]

    return run


@FAMILY.row("update in place, 10,000 rows of 64 in 1M", lambda: (normal(16384, 64),))
def in_place(lib: Any) -> Any:
    def run(table: Any) -> Any:
        def step(i: Any, t: Any) -> Any:
            return t.at[i + 1].set(t[i] * 0.5 + t[i + 1])

        return lib.lax.fori_loop(0, 10_000, step, table)

    return run
