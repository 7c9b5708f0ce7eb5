"""The surface held to recorded values: what its tests share.

`data/surface_cases.py` lists expressions; each is evaluated on arrays, and on tracers
whose graph is then evaluated, and both must give what JAX gave.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace.lax as lax
import ftrace.nn as nn
import ftrace.numpy as fnp
import ftrace.ops as ops
import ftrace.scipy.signal as signal
import ftrace.scipy.special as special
from ftrace.errors import FtraceError
from ftrace.scipy.stats import norm
from ftrace.trace.evaluate import evaluate_graph
from ftrace.trace.tracing.scopes import asarray
from ftrace.trace.tracing.trace import trace
from ftrace.trace.tracing.tracer import aval_of
from ftrace.transforms.grad import grad
from tests.data import surface_cases as cases

RECORDED: dict[str, np.ndarray[Any, Any]] = cases.recorded()
INPUTS = {name: RECORDED[name] for name in cases.inputs()}
NAMES = {
    "lax": lax,
    "jnp": fnp,
    "nn": nn,
    "ops": ops,
    "np": np,
    "special": special,
    "norm": norm,
    "signal": signal,
}


def expressions(section: str) -> list[str]:
    return [e for e in cases.expressions(section) if e in RECORDED]


def evaluate_eager(expression: str) -> Any:
    """The value of an expression of arrays."""
    values = {name: asarray(value) for name, value in INPUTS.items()}
    return np.asarray(eval(expression, {**NAMES, **values}))


def evaluate_traced(expression: str) -> Any:
    """The same, with tracers in the place of the arrays it uses."""
    used = compile(expression, "expression", "eval").co_names
    nested = [n for n in INPUTS if n in used]

    def function(*tracers: Any) -> list[Any]:
        values = dict(zip(nested, tracers, strict=True))
        result = eval(expression, {**NAMES, **values})
        return [
            asarray(np.asarray(result)) if isinstance(result, (list, tuple)) else result
        ]

    graph = trace("test", function, [aval_of(INPUTS[n]) for n in nested])
    return evaluate_graph(graph, *[INPUTS[n] for n in nested])[0]


def check_value(expression: str, value: Any) -> None:
    """Holds a value to the recorded one: dtype, shape, and elements to rounding."""
    wanted = RECORDED[expression]
    assert value.dtype == wanted.dtype
    assert value.shape == wanted.shape
    if wanted.dtype.kind in "biu":
        np.testing.assert_array_equal(value, wanted)
        return
    narrow = wanted.dtype == np.float16 or "float16" in expression
    tolerance = 4e-3 if narrow else 3e-5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        np.testing.assert_allclose(value, wanted, rtol=tolerance, atol=tolerance)


# Functions of arrays.


def traced(function: Callable[..., Any], *arguments: Any) -> list[Any]:
    """The results of a function of tracers, by evaluation of its graph."""

    def flat(*tracers: Any) -> list[Any]:
        results = function(*tracers)
        return list(results) if isinstance(results, (list, tuple)) else [results]

    graph = trace("test", flat, [aval_of(x) for x in arguments])
    return evaluate_graph(graph, *arguments)


def gradient(function: Callable[..., Any], *arguments: Any) -> list[Any]:
    """The gradient by each argument, evaluated by NumPy: no device takes part."""
    numbers = tuple(range(len(arguments)))
    return traced(grad(function, argnums=numbers), *arguments)


def check_message(
    call: Callable[[], Any], error: type[Exception], message: str
) -> None:
    """Holds a call to an exception of ours and a part of its message."""
    with pytest.raises(error) as caught:
        call()
    assert isinstance(caught.value, FtraceError)
    assert message in caught.value.message  # str() also shows the line of the test
