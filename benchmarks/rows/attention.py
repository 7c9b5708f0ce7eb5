"""Values much larger than all around them: attention, kernels, distances."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.inputs import normal, weights
from benchmarks.row import Family, Row

FAMILY = Family("attention")


def causal(lib: Any) -> Any:
    def attention(q: Any, k: Any, v: Any) -> Any:
        scores = lib.np.einsum("bhqd,bhkd->bhqk", q, k) * q.shape[-1] ** -0.5
        rows = lib.np.arange(q.shape[2])
        scores = lib.np.where(rows[:, None] >= rows, scores, -np.inf)
        return lib.np.einsum("bhqk,bhkd->bhqd", lib.nn.softmax(scores, -1), v)

    return attention


def causal_in_torch(torch: Any) -> Any:
    attention = torch.nn.functional.scaled_dot_product_attention
    return lambda q, k, v: attention(q, k, v, is_causal=True)


def inputs(*shape: int) -> tuple[Any, ...]:
    return tuple(normal(*shape, seed=n) for n in range(3))


def forward(*shape: int) -> Row:
    """Causal attention of (batch, heads, positions, features)."""
    name = "×".join(map(str, shape))
    batch, heads, length, size = shape
    flops = 4 * batch * heads * length * length * size
    row = FAMILY.row(f"causal {name}", lambda: inputs(*shape), flops=flops)(causal)
    row.peer("torch")(causal_in_torch)
    return row


def backward(*shape: int) -> Row:
    """The same, with the gradients of a loss."""
    name = "×".join(map(str, shape))

    @FAMILY.row(f"causal, gradients {name}", lambda: inputs(*shape))
    def row(lib: Any) -> Any:
        f = causal(lib)
        return lib.value_and_grad(lambda *a: lib.np.mean(f(*a) ** 2), (0, 1, 2))

    @row.peer("torch")
    def _(torch: Any) -> Any:
        f = causal_in_torch(torch)

        def step(*given: Any) -> Any:
            with torch.enable_grad():
                leaves = [x.detach().requires_grad_() for x in given]
                loss = (f(*leaves) ** 2).mean()
                return loss.detach(), torch.autograd.grad(loss, leaves)

        return step

    return row


for sizes in ((4, 8, 256, 64), (1, 8, 2048, 64), (2, 4, 777, 32)):
    forward(*sizes)
    backward(*sizes)


def points(count: int, others: int, size: int) -> tuple[Any, ...]:
    first = normal(count, size)
    return first, normal(others, size, seed=1), normal(others, 4, seed=2)


def gaussian(lib: Any) -> Any:
    def smooth(x: Any, y: Any, v: Any) -> Any:
        squares = lib.np.sum(x**2, -1)[:, None] + lib.np.sum(y**2, -1)
        return lib.np.exp(-0.1 * (squares - 2 * x @ y.T)) @ v

    return smooth


FAMILY.row("gaussian kernel · values 4096²", lambda: points(4096, 4096, 16))(gaussian)


@FAMILY.row("gaussian kernel · values, gradients 2048²", lambda: points(2048, 2048, 16))
def gaussian_gradients(lib: Any) -> Any:
    f = gaussian(lib)
    return lib.value_and_grad(lambda *a: lib.np.sum(f(*a)), (0, 1, 2))


@FAMILY.row("kernel regression 4096²", lambda: points(4096, 4096, 8))
def regression(lib: Any) -> Any:
    def smooth(x: Any, y: Any, v: Any) -> Any:
        distances = lib.np.sum((x[:, None] - y[None]) ** 2, -1)
        return lib.nn.softmax(-distances, -1) @ v

    return smooth


@FAMILY.row("nearest of 500 for 20,000 points", lambda: points(20_000, 500, 16)[:2])
def nearest(lib: Any) -> Any:
    def assign(x: Any, y: Any) -> Any:
        squares = lib.np.sum(x**2, -1)[:, None] + lib.np.sum(y**2, -1)
        return lib.np.argmin(squares - 2 * x @ y.T, 1)

    return assign


def logits_inputs() -> tuple[Any, ...]:
    labels = (np.arange(4096) * 37 % 8000).astype(np.int32)
    return normal(4096, 64), weights(64, 8000, seed=1), labels


@FAMILY.row("cross-entropy of 4096×64 @ 64×8000, gradients", logits_inputs)
def cross_entropy(lib: Any) -> Any:
    def loss(x: Any, w: Any, labels: Any) -> Any:
        chances = lib.nn.log_softmax(x @ w)
        return -lib.np.mean(lib.np.take_along_axis(chances, labels[:, None], 1))

    return lib.value_and_grad(loss, (0, 1))


@cross_entropy.peer("torch")
def _(torch: Any) -> Any:
    def step(x: Any, w: Any, labels: Any) -> Any:
        with torch.enable_grad():
            leaves = [t.detach().requires_grad_() for t in (x, w)]
            entropy = torch.nn.functional.cross_entropy
            loss = entropy(leaves[0] @ leaves[1], labels.long())
            return loss.detach(), torch.autograd.grad(loss, leaves)

    return step
