"""Whole steps of training: loss, gradients, update."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import models, torch_models
from benchmarks.libraries import map_tree
from benchmarks.row import Family

FAMILY = Family("training step")
SMALL = (64, 128, 10)
MEDIUM = (784, 512, 512, 10)
HEADS = 8


@FAMILY.row("MLP small, sgd, batch 64", lambda: models.mlp_inputs(SMALL, 64))
def small_mlp(lib: Any) -> Any:
    return models.sgd_step(lib, models.mlp_loss(lib))


@small_mlp.peer("torch")
def _(torch: Any) -> Any:
    return torch_models.sgd_step(torch, torch_models.mlp_loss(torch))


def medium_inputs() -> tuple[Any, ...]:
    params, x, labels = models.mlp_inputs(MEDIUM, 256)
    zeros = map_tree(np.zeros_like, params)
    return params, zeros, zeros, x, labels


# The first step of Adam moves by the sign of a gradient, whatever its size: where it
# is zero but for rounding, libraries differ by the whole step. Hence the tolerance.
@FAMILY.row("MLP medium, adam, batch 256", medium_inputs, tolerance=3e-2)
def medium_mlp(lib: Any) -> Any:
    return models.adam_step(lib, models.mlp_loss(lib))


@medium_mlp.peer("torch")
def _(torch: Any) -> Any:
    return torch_models.adam_step(torch, torch_models.mlp_loss(torch))


@FAMILY.row("CNN small, sgd, batch 64 of 28²", lambda: models.cnn_inputs(64))
def small_cnn(lib: Any) -> Any:
    return models.sgd_step(lib, models.cnn_loss(lib))


@FAMILY.row(
    "CNN medium, sgd, batch 32 of 3·48²",
    lambda: models.cnn_inputs(32, 48, (3, 32, 64)),
)
def medium_cnn(lib: Any) -> Any:
    return models.sgd_step(lib, models.cnn_loss(lib))


@small_cnn.peer("torch")
@medium_cnn.peer("torch")
def _(torch: Any) -> Any:
    return torch_models.sgd_step(torch, torch_models.cnn_loss(torch))


@FAMILY.row("transformer block 2×64×128", lambda: models.block_inputs(2, 64, 128))
def small_block(lib: Any) -> Any:
    return models.sgd_step(lib, models.block_loss(lib, HEADS))


@small_block.peer("torch")
def _(torch: Any) -> Any:
    return torch_models.sgd_step(torch, torch_models.block_loss(torch, HEADS))


@FAMILY.row("transformer block 4×256×256", lambda: models.block_inputs(4, 256, 256))
def medium_block(lib: Any) -> Any:
    return models.sgd_step(lib, models.block_loss(lib, HEADS))


@medium_block.peer("torch")
def _(torch: Any) -> Any:
    return torch_models.sgd_step(torch, torch_models.block_loss(torch, HEADS))
