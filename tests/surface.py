"""The surface held to recorded values: what its tests share.

`data/surface_cases.py` lists expressions; each is evaluated on arrays, and on tracers
whose graph is then evaluated, and both must give what JAX gave.
"""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import ftrace.lax as lax
import ftrace.nn as nn
import ftrace.numpy as fnp
import ftrace.ops as ops
import ftrace.scipy.signal as signal
import ftrace.scipy.special as special
import ftrace.scipy.stats.norm as norm
from ftrace.trace.evaluate import evaluate_graph
from ftrace.trace.tracer import asarray, aval_of, trace

DATA = Path(__file__).parent / "data"


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, DATA / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


cases = _load("surface_cases")
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
        return [asarray(np.asarray(result)) if isinstance(result, (list, tuple)) else result]

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
