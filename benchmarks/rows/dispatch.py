"""What a call costs when there is next to nothing to compute."""

from __future__ import annotations

from typing import Any

from benchmarks import models, torch_models
from benchmarks.inputs import normal
from benchmarks.row import Family, Row

FAMILY = Family("dispatch")


def nested(leaves: int) -> Any:
    """Small arrays in dicts of four, or one array."""
    arrays = [normal(4, seed=i) for i in range(leaves)]
    if leaves == 1:
        return arrays[0]
    names = ("w", "b", "m", "v")
    return {
        f"layer{i}": dict(zip(names, arrays[i : i + 4], strict=False))
        for i in range(0, leaves, 4)
    }


def call_of(leaves: int) -> Row:
    """A jitted call with so many arrays in and out."""

    @FAMILY.row(
        f"jitted call, {leaves} {'leaf' if leaves == 1 else 'leaves'}",
        lambda: (nested(leaves),),
        wait="once",
    )
    def row(lib: Any) -> Any:
        return lambda tree: lib.tree.map(lambda x: x + 1, tree)

    return row


for count in (1, 10, 50, 60):
    call_of(count)


def small() -> tuple[Any, ...]:
    return normal(64), normal(64, seed=1)


@FAMILY.row("eager a + b, 64", small, jit=False, wait="once")
def eager_add(_: Any) -> Any:
    return lambda a, b: a + b


@eager_add.peer("torch", "numpy")
def _(_: Any) -> Any:
    return lambda a, b: a + b


@FAMILY.row("eager sum(tanh(a·b + a)²), 64", small, jit=False, wait="once")
def eager_expression(lib: Any) -> Any:
    return lambda a, b: lib.np.sum(lib.np.tanh(a * b + a) ** 2)


@eager_expression.peer("torch", "numpy")
def _(module: Any) -> Any:
    return lambda a, b: module.sum(module.tanh(a * b + a) ** 2)


@FAMILY.row("eager softmax, 64", lambda: (normal(64),), jit=False, wait="once")
def eager_softmax(lib: Any) -> Any:
    return lib.nn.softmax


@eager_softmax.peer("torch")
def _(torch: Any) -> Any:
    return lambda x: torch.softmax(x, -1)


@FAMILY.row(
    "un-jitted gradient of an MLP 16-32-4, batch 8",
    lambda: models.mlp_inputs((16, 32, 4), 8),
    jit=False,
)
def eager_gradient(lib: Any) -> Any:
    return lib.grad(models.mlp_loss(lib))


@eager_gradient.peer("torch")
def _(torch: Any) -> Any:
    both = torch_models.value_and_grad(torch, torch_models.mlp_loss(torch))
    return lambda *args: both(*args)[1]
