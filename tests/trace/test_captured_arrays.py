"""What a traced function captures is held as it is: no larger, and once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax, nn

X = np.linspace(-1, 1, 7 * 5, dtype=np.float32).reshape(7, 5)
W = np.linspace(0, 1, 5 * 6, dtype=np.float32).reshape(5, 6)
IMAGES = np.linspace(0, 1, 2 * 3 * 8 * 8, dtype=np.float32).reshape(2, 3, 8, 8)
FILTERS = np.linspace(0, 1, 4 * 3 * 3 * 3, dtype=np.float32).reshape(4, 3, 3, 3)
_CONTRACT = (((1,), (0,)), ((), ()))

#: Functions of a traced operand and a captured one.
FUNCTIONS: dict[str, tuple[Callable[[Any, Any], Any], Any, Any]] = {
    "operator": (lambda x, w: x @ w, X, W),
    "matmul": (fnp.matmul, X, W),
    "dot": (fnp.dot, X, W),
    "einsum": (partial(fnp.einsum, "ij,jk->ik"), X, W),
    "tensordot": (lambda x, w: fnp.tensordot(x, w, 1), X, W),
    "dot_general": (lambda x, w: lax.dot_general(x, w, _CONTRACT), X, W),
    "lax.dot": (lax.dot, X, W),
    "batched": (lambda x, w: fnp.matmul(x[:, None], w), X, W),
    "convolve": (lambda x, w: fnp.convolve(x[0], w), X, W[0]),
    "convolution": (lambda x, w: lax.conv(x, w, (1, 1), "SAME"), IMAGES, FILTERS),
    "after softmax": (lambda x, w: nn.softmax(x) @ w, X, W),
    "bias": (lambda x, w: x + w, X, X[0]),
    "where": (lambda x, w: fnp.where(x > 0, x, w), X, X[0]),
    "outer": (lambda x, w: fnp.outer(x[0], w), X, W[0]),
    "loss": (lambda w, x: ft.grad(lambda w: fnp.sum((x @ w) ** 2))(w), W, X),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("kind", [np.asarray, fnp.asarray])
def test_captured_arrays_are_no_larger_than_they_are(
    name: str, kind: Callable[[Any], Any]
) -> None:
    function, x, w = FUNCTIONS[name]
    held = kind(w)
    jitted = ft.jit(lambda x: function(x, held))
    graph = jitted.lower(x).graph
    assert [array.size for array in graph.captured] == [w.size]
    np.testing.assert_allclose(jitted(x), ft.jit(function)(x, w), rtol=1e-5)
