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
from ftrace.testing import assert_close
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
    dtypes.complex64: 1e-5, dtypes.float64: 1e-12, dtypes.complex128: 1e-12,
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
    assert not any(isinstance(value, Tracer) for value in found)
    assert_close([*found], [*wanted], rtol=TOLERANCE, atol=TOLERANCE)


def close(found: Any, wanted: Any) -> None:
    """The same numbers, up to rounding in the less precise dtype."""
    limits = {"rtol": TOLERANCE, "atol": TOLERANCE}
    assert_close(found, np.asarray(wanted), check_dtypes=False, **limits)


def check_batched(function: Callable[..., Any], *operands: Any) -> None:
    """vmap against a loop over the leading axis."""
    mapped = tree.leaves(ft.vmap(function)(*operands))
    lanes = [
        tree.leaves(function(*[asarray(x[i]) for x in operands]))
        for i in range(operands[0].shape[0])
    ]
    for k, result in enumerate(mapped):
        close(result, np.stack([np.asarray(lane[k]) for lane in lanes]))
