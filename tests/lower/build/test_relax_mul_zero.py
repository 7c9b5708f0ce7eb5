"""Products of derivatives: where zeros beside infinity need not be looked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.nn as nn
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.lower import lower
from ftrace.trace.graph import toposort

SPECIAL = np.array(
    [0.0, -0.0, 1.0, -1.0, 0.5, -3.0, 20.0, -120.0, 1e-40, 3e38, -3e38,
     np.inf, -np.inf, np.nan],
    np.float32,
)  # fmt: skip
PAIRS = [np.repeat(SPECIAL, len(SPECIAL)), np.tile(SPECIAL, len(SPECIAL))]


def count(f: Callable[..., Any], arrays: list[Any], name: str) -> int:
    """How many operations of a name are in the kernels of a function."""
    program = lower(ft.make_graph(f)(*arrays)).program
    roots = [e for step in program.kernels for s in step.kernel.stores
             for e in s.expressions]  # fmt: skip
    return sum(n.op.name == name for n in toposort(roots))


def total_gradient(f: Callable[..., Any]) -> Callable[..., Any]:
    return ft.grad(lambda *xs: fnp.sum(f(*xs)), argnums=(0, 1))


#: Functions of two arrays, and how many products of their gradients are left that have
#: to look at both factors.
ROWS: dict[str, tuple[Any, int]] = {
    "both finite": (lambda x, y: fnp.tanh(x) * nn.sigmoid(x), 0),
    "zero at zero": (lambda x, y: fnp.sin(fnp.tanh(x)) * fnp.tanh(x), 0),
    "one to look at": (lambda x, y: x * nn.sigmoid(x) * fnp.tanh(x), 0),
    "NaN from elsewhere": (lambda x, y: fnp.tanh(x) * fnp.tanh(y), 2),
    "nothing known": (lambda x, y: x * y * (x + y), 2),
    "clipped": (lambda x, y: fnp.exp(fnp.clip(x, -1, 1)) * fnp.tanh(x), 0),
    "zero at one": (lambda x, y: x * y * lax.stop_gradient(fnp.log(fnp.tanh(x))), 2),
    "sums of infinities": (lambda x, y: (fnp.exp(x) - x) * fnp.tanh(x) * y, 4),
}


@pytest.mark.parametrize("name", ROWS)
def test_products_are_relaxed_where_and_only_where_that_is_safe(name: str) -> None:
    f, left = ROWS[name]
    gradient = total_gradient(f)
    with ft.config(disabled_rules={"relax_mul_zero"}):
        plain = ft.jit(gradient)(*PAIRS)
        before = count(gradient, PAIRS, "mul_zero")
    assert (before > left) == (left == 0)
    assert count(gradient, PAIRS, "mul_zero") == left
    for got, want in zip(ft.jit(gradient)(*PAIRS), plain, strict=True):
        got, want = np.asarray(got), np.asarray(want)
        np.testing.assert_array_equal(got, want)  # any zero equals any other
