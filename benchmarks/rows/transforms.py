"""Transforms composed: vmap of grad, derivatives of derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import models
from benchmarks.inputs import integers, normal, weights
from benchmarks.row import Family

FAMILY = Family("transform")
WIDTHS = (64, 128, 10)


@FAMILY.row(
    "per-example gradients of an MLP, 64", lambda: models.mlp_inputs(WIDTHS, 64)
)
def per_example(lib: Any) -> Any:
    loss = models.mlp_loss(lib)

    def of_one(params: Any, x: Any, label: Any) -> Any:
        return loss(params, x[None], label[None])

    return lib.vmap(lib.grad(of_one), in_axes=(None, 0, 0))


@per_example.peer("torch")
def _(torch: Any) -> Any:
    from benchmarks import torch_models

    loss = torch_models.mlp_loss(torch)

    def of_one(params: Any, x: Any, label: Any) -> Any:
        return loss(params, x[None], label[None])

    gradients = torch.func.vmap(torch.func.grad(of_one), in_dims=(None, 0, 0))

    def run(*args: Any) -> Any:
        with torch.enable_grad():
            return gradients(*args)

    return run


def product_inputs() -> tuple[Any, ...]:
    """A point and a direction of a two-layer network, and its data."""
    point = {"a": weights(64, 128, seed=1), "b": weights(128, 10, seed=2)}
    direction = {"a": normal(64, 128, seed=3), "b": normal(128, 10, seed=4)}
    return point, direction, normal(64, 64, seed=5), integers(64, high=10, seed=6)


@FAMILY.row("Hessian-vector product", product_inputs)
def hessian_vector(lib: Any) -> Any:
    def loss(point: Any, x: Any, labels: Any) -> Any:
        logits = lib.np.tanh(x @ point["a"]) @ point["b"]
        return models.cross_entropy(lib, logits, labels)

    def product(point: Any, direction: Any, x: Any, labels: Any) -> Any:
        gradient = lib.grad(lambda p: loss(p, x, labels))
        return lib.jvp(gradient, (point,), (direction,))[1]

    return product


@hessian_vector.peer("torch")
def _(torch: Any) -> Any:
    def product(point: Any, direction: Any, x: Any, labels: Any) -> Any:
        with torch.enable_grad():
            inputs = [point[k].detach().requires_grad_() for k in ("a", "b")]
            logits = torch.tanh(x @ inputs[0]) @ inputs[1]
            loss = torch.nn.functional.cross_entropy(logits, labels.long())
            grads = torch.autograd.grad(loss, inputs, create_graph=True)
            slope = sum(
                (g * direction[k]).sum() for g, k in zip(grads, "ab", strict=True)
            )
            return list(torch.autograd.grad(slope, inputs))

    return product


@hessian_vector.peer("inductor")
def _(torch: Any) -> Any:
    """Forward over reverse: the compiler refuses a graph that is built twice."""

    def loss(point: Any, x: Any, labels: Any) -> Any:
        logits = torch.tanh(x @ point["a"]) @ point["b"]
        return torch.nn.functional.cross_entropy(logits, labels.long())

    def product(point: Any, direction: Any, x: Any, labels: Any) -> Any:
        gradient = torch.func.grad(lambda p: loss(p, x, labels))
        return torch.func.jvp(gradient, (point,), (direction,))[1]

    return product


def rosenbrock(x: Any) -> Any:
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


@FAMILY.row("Hessian of Rosenbrock, 100", lambda: (normal(100),))
def hessian(lib: Any) -> Any:
    return lib.hessian(rosenbrock)


@hessian.peer("torch")
def _(torch: Any) -> Any:
    second = torch.func.hessian(rosenbrock)

    def run(x: Any) -> Any:
        with torch.enable_grad():
            return second(x)

    return run


@hessian.peer("numpy")
def _(_: Any) -> Any:
    """By hand."""

    def second(x: Any) -> Any:
        out = np.zeros((x.size, x.size), np.float32)
        i = np.arange(x.size - 1)
        out[i, i] += 1200 * x[:-1] ** 2 - 400 * x[1:] + 2
        out[i + 1, i + 1] += 200
        out[i, i + 1] = out[i + 1, i] = -400 * x[:-1]
        return out

    return second
