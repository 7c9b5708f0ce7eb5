"""What the tests of sorting and of running reductions share: values from JAX."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import ftrace as ft
import ftrace.lax as lax
import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.trace.evaluate import evaluate_graph
from ftrace.trace.pytree import tree
from ftrace.trace.tracing.scopes import asarray
from ftrace.trace.tracing.trace import trace
from ftrace.trace.tracing.tracer import Tracer, aval_of
from tests.data import sorting_cases as cases

RECORDED = cases.recorded()
INPUTS = cases.inputs()
NAMES = {
    "n": fnp, "lax": lax, "random": ft.random, "vjp": ft.vjp, "jvp": ft.jvp,
}  # fmt: skip

WORD = re.compile(r"[a-z]\w*")

#: Relative and absolute error that is allowed.
TOLERANCE = {
    dtypes.float16: 2e-3, dtypes.bfloat16: 1.6e-2, dtypes.float32: 1e-5,
    dtypes.complex64: 1e-5,
}  # fmt: skip


def evaluate(expression: str) -> Any:
    """The value of an expression of arrays."""
    values = {name: asarray(value) for name, value in INPUTS.items()}
    return eval(expression, {**NAMES, **values})


def check_recorded(expression: str) -> None:
    """An expression, eagerly, against what JAX gave."""
    compare(tree.leaves(evaluate(expression)), RECORDED[expression])


def check_traced(expression: str) -> None:
    """An expression of tracers, by evaluation of its graph, against what JAX gave."""
    names = [name for name in INPUTS if name in WORD.findall(expression)]

    def function(*tracers: Any) -> list[Any]:
        values = {**NAMES, **dict(zip(names, tracers, strict=True))}
        return tree.leaves(eval(expression, values))

    graph = trace("test", function, [aval_of(INPUTS[name]) for name in names])
    found = evaluate_graph(graph, *[INPUTS[name] for name in names])
    compare(found, RECORDED[expression])


def compare(found: Sequence[Any], wanted: Sequence[Any]) -> None:
    """Values of the same dtypes and shapes, equal up to rounding."""
    assert len(found) == len(wanted)
    for value, expected in zip(found, wanted, strict=True):
        assert not isinstance(value, Tracer)
        array = np.asarray(value)
        assert array.dtype == expected.dtype
        assert array.shape == expected.shape
        close(array, expected)


def close(array: Any, expected: Any) -> None:
    """The same numbers, up to rounding in the dtype of the first."""
    array = np.asarray(array)
    tolerance = TOLERANCE.get(array.dtype, 1e-12)
    wide = np.complex128 if array.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(
        array.astype(wide), np.asarray(expected).astype(wide), tolerance, tolerance
    )


def check_batched(function: Callable[..., Any], *operands: Any) -> None:
    """vmap against a loop over the leading axis."""
    mapped = tree.leaves(ft.vmap(function)(*operands))
    lanes = [
        tree.leaves(function(*[asarray(x[i]) for x in operands]))
        for i in range(operands[0].shape[0])
    ]
    for k, result in enumerate(mapped):
        close(result, np.stack([np.asarray(lane[k]) for lane in lanes]))
