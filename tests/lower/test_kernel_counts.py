"""How many kernels a program takes, and that no product is ever stored."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.lower.analysis import is_contraction

X = np.linspace(-2, 2, 64 * 100, dtype=np.float32).reshape(64, 100)
P = tuple[Any, ...]


def layer_norm(x: Any) -> Any:
    centred = x - fnp.mean(x, -1, keepdims=True)
    return centred / fnp.sqrt(fnp.mean(centred**2, -1, keepdims=True) + 1e-5)


def with_gradient(f: Any) -> Any:
    def both(x: Any, ct: Any) -> Any:
        out, pull = ft.vjp(f, x)
        return out, pull(ct)[0]

    return both


def gelu_dense(x: Any, w: Any, b: Any) -> Any:
    return ft.nn.gelu(x @ w + b)


def normed(x: Any) -> Any:
    return ft.nn.standardize(x, axis=-1)


W = np.ones((100, 32), np.float32)
B = np.ones(32, np.float32)
IMAGES = np.ones((4, 3, 8, 8), np.float32)
FILTERS = np.ones((5, 3, 3, 3), np.float32)


def convolve(x: Any, w: Any) -> Any:
    return ft.lax.conv_general_dilated(x, w, (1, 1), "SAME")


#: name: (function, arguments, kernels)
COUNTS: dict[str, tuple[Any, P, int]] = {
    "a chain of elementwise operations": (lambda x: fnp.tanh(x * 2 + 1) ** 2, (X,), 1),
    "elementwise work into a reduce": (lambda x: fnp.sum(fnp.exp(x), 1), (X,), 1),
    "elementwise work after a reduce": (lambda x: fnp.log(fnp.sum(x, 1)) * 2, (X,), 1),
    "softmax": (lambda x: ft.nn.softmax(x), (X,), 1),
    "log_softmax": (lambda x: ft.nn.log_softmax(x), (X,), 1),
    "log_softmax with its gradient": (with_gradient(ft.nn.log_softmax), (X, X), 1),
    "logsumexp": (lambda x: ft.nn.logsumexp(x, axis=1), (X,), 1),
    "layer norm": (layer_norm, (X,), 1),
    "standardize": (normed, (X,), 1),
    "two outputs over the same loops": (lambda x: (fnp.sin(x), x * 2), (X,), 1),
    "mean and variance": (lambda x: (fnp.mean(x, 1), fnp.var(x, 1)), (X,), 1),
    "transpose of a transpose": (lambda x: (x.T + 1).T, (X,), 1),
    "matrix product": (lambda x, w: x @ w, (X, W), 1),
    "matrix product with its epilogue": (gelu_dense, (X, W, B), 1),
    "transposed operands": (lambda x, w: w.T @ x.T, (X, W), 1),
    "einsum": (lambda x: fnp.einsum("ij,kj->ik", x, x), (X,), 1),
    "convolution with bias and relu": (
        lambda x, w: ft.nn.relu(convolve(x, w) + 1.0), (IMAGES, FILTERS), 1
    ),
    "gather with work around it": (
        lambda x, i: fnp.exp(x)[i] * 2, (X, np.arange(5)), 1
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTS)
def test_number_of_kernels(name: str) -> None:
    f, arguments, count = COUNTS[name]
    stages = ft.jit(f).lower(*arguments)
    assert len(stages.kernels) == count, stages.program


def mlp_loss(params: Any, x: Any, y: Any) -> Any:
    for w, b in params[:-1]:
        x = ft.nn.relu(x @ w + b)
    w, b = params[-1]
    return -fnp.mean(fnp.sum(ft.nn.log_softmax(x @ w + b) * y, axis=-1))


def mlp_arguments(sizes: P) -> P:
    params = [
        (np.ones((n, m), np.float32), np.ones(m, np.float32))
        for n, m in pairwise(sizes)
    ]
    x, y = (np.ones((64, sizes[i]), np.float32) for i in (0, -1))
    return params, x, y


#: layers of the network: kernels of a training step with adam, at the most. Per layer:
#: a product with its epilogue, its two gradients with the update, a sum for the bias.
STEPS = {(20, 10): 5, (784, 256, 10): 9, (784, 256, 128, 10): 13}


@pytest.mark.parametrize("sizes", STEPS)
def test_number_of_kernels_of_a_training_step(sizes: P) -> None:
    params, x, y = mlp_arguments(sizes)
    optimizer = ft.optim.adam(1e-3)

    def step(params: Any, state: Any, x: Any, y: Any) -> Any:
        value, grads = ft.value_and_grad(mlp_loss)(params, x, y)
        updates, state = optimizer.update(grads, state, params)
        return ft.optim.apply_updates(params, updates), state, value

    stages = ft.jit(step).lower(params, optimizer.init(params), x, y)
    assert len(stages.kernels) <= STEPS[sizes], stages.program


CONTRACTIONS: dict[str, tuple[Any, P]] = {
    "matmul": (lambda a, b: a @ b, ((96, 80), (80, 72))),
    "batched": (lambda a, b: a @ b, ((6, 30, 40), (6, 40, 20))),
    "transposed": (lambda a, b: a.T @ b.T, ((80, 96), (72, 80))),
    "einsum": (
        lambda a, b: fnp.einsum("bij,bkj->bik", a, b),
        ((4, 30, 40), (4, 20, 40)),
    ),
    "tensordot": (lambda a, b: fnp.tensordot(a, b, 2), ((20, 6, 8), (6, 8, 30))),
    "outer": (lambda a, b: fnp.outer(a, b) @ fnp.ones(50), ((40,), (50,))),
    "convolution": (convolve, ((4, 8, 10, 10), (12, 8, 3, 3))),
    "strided": (
        lambda x, w: ft.lax.conv_general_dilated(x, w, (2, 2), "SAME"),
        ((4, 8, 10, 10), (12, 8, 3, 3)),
    ),
    "mapped": (ft.vmap(lambda a, b: a @ b, (0, None)), ((6, 30, 40), (40, 20))),
}


@pytest.mark.parametrize("name", CONTRACTIONS)
@pytest.mark.parametrize("gradient", [False, True], ids=["value", "gradient"])
def test_no_product_is_stored(name: str, gradient: bool) -> None:
    f, shapes = CONTRACTIONS[name]
    arrays = [np.ones(s, np.float32) for s in shapes]
    if gradient:
        stages = ft.jit(ft.grad(lambda *xs: fnp.sum(f(*xs) ** 2), (0, 1))).lower(
            *arrays
        )
    else:
        stages = ft.jit(f).lower(*arrays)
    products = [n for n in stages.simplified.nodes if is_contraction(n)]
    largest = max(s.size for s in stages.program.slots)
    assert products or name == "outer"
    for node in products:
        assert largest < node.src[0].size / 2, stages.program


@pytest.mark.parametrize(("name", "times"), [("cpu", 3), ("interpreter", 16)])
def test_a_large_product_stays_within_the_memory_of_its_operands(
    name: str, times: int
) -> None:
    size = 2048
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, size, size)).astype(np.float32)
    with ft.default_device(name):
        f = ft.jit(lambda x, y: x @ y)
        assert f.lower(a, b).program.arena == 0
        tracemalloc.start()
        product = np.asarray(f(a, b))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < times * a.nbytes
    rows = rng.integers(0, size, 8)
    np.testing.assert_allclose(product[rows], a[rows] @ b, rtol=2e-3, atol=2e-3)
