"""Updates kept small: each element, or the length of all of them together."""

from __future__ import annotations

from typing import Any

import ftrace.numpy as fnp
from ftrace.optim.base import (
    GradientTransformation,
    Scalar,
    Tree,
    each,
    hyperparameters,
    init_empty,
    stateless,
)
from ftrace.trace import tree


@hyperparameters
def clip(max_delta: Scalar) -> GradientTransformation:
    """Every element of the updates, moved into [-max_delta, max_delta]."""
    return stateless(lambda update: fnp.clip(update, -max_delta, max_delta))


def global_norm(updates: Tree) -> Any:
    """The root of the sum of the squares of all elements of all arrays."""
    total: Any = 0.0
    for x in tree.leaves(updates):
        total = total + fnp.sum(fnp.square(fnp.abs(x)))
    return fnp.sqrt(total)


@hyperparameters
def clip_by_global_norm(max_norm: Scalar) -> GradientTransformation:
    """All updates scaled down together where their global norm exceeds `max_norm`.

    Source: R. Pascanu, T. Mikolov, Y. Bengio, "On the difficulty of training
    recurrent neural networks", 2013.
    """

    def update(updates: Tree, state: Tree, params: Tree | None = None) -> Any:
        norm = global_norm(updates)
        small = norm < max_norm

        def shorten(x: Any) -> Any:
            return fnp.where(small, x, x / norm.astype(x.dtype) * max_norm)

        return each(shorten, updates), state

    return GradientTransformation(init_empty, update)
