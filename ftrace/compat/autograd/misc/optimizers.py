"""Gradient descent for containers of numbers: `optimize(grad, x0, callback)`.

Each takes `grad(x, i)`, where i is the number of steps done, and `callback(x, i, g)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ftrace.compat.autograd import numpy as np
from ftrace.compat.autograd.misc.flatten import flatten

Step = Callable[[Any, Any, int], tuple[Any, Any]]  # (state, g, i) -> (change, state)


def _descend(
    grad: Any, x0: Any, callback: Any, num_iters: int, begin: float, step: Step
) -> Any:
    x, unflatten = flatten(x0)
    state = tuple(np.full(len(x), begin) for _ in range(2))
    for i in range(num_iters):
        g = flatten(grad(unflatten(x), i))[0]
        if callback:
            callback(unflatten(x), i, unflatten(g))
        change, state = step(state, g, i)
        x = x + change
    return unflatten(x)


def sgd(
    grad: Any, x: Any, callback: Any = None, num_iters: int = 200,
    step_size: float = 0.1, mass: float = 0.9,
) -> Any:  # fmt: skip
    """Gradient descent with momentum."""

    def step(state: Any, g: Any, i: int) -> tuple[Any, Any]:
        velocity = mass * state[0] - (1.0 - mass) * g
        return step_size * velocity, (velocity, state[1])

    return _descend(grad, x, callback, num_iters, 0.0, step)


def rmsprop(
    grad: Any, x: Any, callback: Any = None, num_iters: int = 100,
    step_size: float = 0.1, gamma: float = 0.9, eps: float = 1e-8,
) -> Any:  # fmt: skip
    """Gradients over the root of the running mean of their squares (Hinton, 2012)."""

    def step(state: Any, g: Any, i: int) -> tuple[Any, Any]:
        square = state[0] * gamma + g**2 * (1 - gamma)
        return -step_size * g / (np.sqrt(square) + eps), (square, state[1])

    return _descend(grad, x, callback, num_iters, 1.0, step)


def adam(
    grad: Any, x: Any, callback: Any = None, num_iters: int = 100,
    step_size: float = 0.001, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8,
) -> Any:  # fmt: skip
    """Adam (Kingma, Ba, 2015)."""

    def step(state: Any, g: Any, i: int) -> tuple[Any, Any]:
        m, v = (1 - b1) * g + b1 * state[0], (1 - b2) * g**2 + b2 * state[1]
        mean, square = m / (1 - b1 ** (i + 1)), v / (1 - b2 ** (i + 1))
        return -step_size * mean / (np.sqrt(square) + eps), (m, v)

    return _descend(grad, x, callback, num_iters, 0.0, step)
