"""Holds ftrace.numpy against what JAX gave for the same expressions.

tests/data/numpy_expressions.py   the expressions
tests/data/record_numpy.py        runs them in JAX; its JSON is committed
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.errors import (
    ConcretizationTypeError,
    FtraceError,
    NonConcreteBooleanIndexError,
)
from ftrace.trace.arrays.array import Array
from ftrace.trace.evaluate import evaluate_graph
from ftrace.trace.tracing.trace import trace
from ftrace.trace.tracing.tracer import Tracer, aval_of
from tests.data.numpy_expressions import GROUPS, variables

DATA = Path(__file__).parents[1] / "data"
#: The expressions of a group are shared out among so many tests.
PARTS = 8

#: Relative error that is allowed, by dtype: a few units in the last place.
TOLERANCE = {
    "float32": 3e-6, "complex64": 4e-6, "float16": 2e-3, "bfloat16": 1.6e-2,
}  # fmt: skip


#: Where ftrace differs on purpose, and why.
DIFFERS = {
    "n.modf(special)": "the fraction of an infinity is 0, as in NumPy and C",
    "n.modf(n.array([1.5, -1.5, inf, -inf, nan]))": "as above",
    "n.arctan2(c, x)": "not defined for complex numbers, as in NumPy",
    "i + n.array([1], 'uint32')": "dtypes are honoured: int32 and uint32 give int64",
    "n.insert(x, 7, 5)": "eager code raises out of bounds",
    "k[9]": "as above",
    "k[0, -4]": "as above",
    "k.at[5].set(1)": "as above",
}
#: Here JAX's weak types follow from how it computes; ours from the operands alone.
OTHER_WEAKNESS = {
    "n.heaviside(i, 2.5)", "n.hypot(i, 2.5)", "n.logaddexp2(i, 2.5)",
    "n.unravel_index(-1, (2, 3))", "n.choose(i, [i, i * 1.5], mode='clip')",
}  # fmt: skip
SCALARS_ALONE = re.compile(r"\((\d|\d.0, \d|\d, \d)\)$")


@functools.cache
def recorded(group: str) -> dict[str, Any]:
    """The expressions of a group and what JAX gave."""
    found = json.loads((DATA / f"numpy_{group}.json").read_text())
    assert list(found) == list(dict.fromkeys(GROUPS[group])), "run record_numpy.py"
    return found


def run(expression: str, jit: Callable[..., Any] = ft.jit) -> Any:
    """An expression on concrete arrays."""
    return eval(expression, variables(fnp, jit))


def check(expression: str, expected: Any) -> None:
    """An expression against its record."""
    if expression in DIFFERS:
        return
    if isinstance(expected, dict) and "error" in expected:
        try:
            result = run(expression)
        except FtraceError:
            return
        raise AssertionError(f"{expression} gave {result}; JAX raises {expected}")
    compare(run(expression), expected, expression)


def compare(result: Any, expected: Any, where: str) -> None:
    if isinstance(expected, list):
        assert len(result) == len(expected), where
        for part, wanted in zip(result, expected, strict=True):
            compare(part, wanted, where)
        return
    if "name" in expected:
        assert np.dtype(result).name == expected["name"], where
        return
    if "python" in expected:
        assert result == expected["python"], (where, result, expected)
        return
    assert result.dtype.name == expected["dtype"], (where, result)
    assert result.shape == tuple(expected["shape"]), (where, result)
    if where not in OTHER_WEAKNESS and not SCALARS_ALONE.search(where):
        weak = bool(getattr(result, "weak_type", False))
        assert weak == expected["weak"] or result.dtype == bool, (where, result)
    values = expected["values"]
    if dtypes.is_complex(result.dtype):
        values = [complex(*v) for v in values]
        wide = np.complex128
    else:
        wide = np.float64
    got = np.asarray(result).astype(wide)
    rtol = TOLERANCE.get(expected["dtype"], 0)
    wanted_array = np.array(values, wide).reshape(result.shape)
    np.testing.assert_allclose(
        got, wanted_array, rtol=rtol, atol=rtol / 3, err_msg=where
    )


def check_traced(expression: str) -> None:
    """An expression on tracers gives what it gives on concrete arrays."""
    try:
        eager = run(expression, lambda f: f)
    except FtraceError:
        return
    concrete = variables(fnp, lambda f: f)
    names = [name for name, value in concrete.items() if isinstance(value, Array)]
    shape: list[Any] = []

    def function(*tracers: Any) -> list[Any]:
        result = eval(
            expression, {**concrete, **dict(zip(names, tracers, strict=True))}
        )
        leaves = list(flattened(result))
        shape.extend(leaves)
        return [leaf for leaf in leaves if isinstance(leaf, (Array, Tracer))]

    arrays = [concrete[name] for name in names]
    try:
        graph = trace("jit", function, [aval_of(x) for x in arrays])
    except (ConcretizationTypeError, NonConcreteBooleanIndexError):
        return
    except FtraceError as error:
        if "traced" not in str(error):
            raise
        return
    results = iter(evaluate_graph(graph, *[np.asarray(x) for x in arrays]))
    wanted = list(flattened(eager))
    assert len(wanted) == len(shape), expression
    for leaf, expected in zip(shape, wanted, strict=True):
        if not isinstance(expected, Array):
            assert leaf == expected, expression
            continue
        value = next(results)
        assert value.dtype == expected.dtype, (expression, value.dtype, expected.dtype)
        assert leaf.weak_type == expected.weak_type, (expression, leaf, expected)
        np.testing.assert_array_equal(
            value.astype(_comparable(value)),
            expected.numpy().astype(_comparable(value)),
            err_msg=expression,
        )


def check_part(group: str, part: int) -> None:
    """One in so many expressions of a group, on arrays and on tracers."""
    wrong: list[str] = []
    for expression in list(recorded(group))[part::PARTS]:
        try:
            check(expression, recorded(group)[expression])
            check_traced(expression)
        except Exception as error:  # the others are asked all the same
            wrong.append(f"{expression}: {type(error).__name__}: {error}")
    assert not wrong, "\n".join(wrong)


def _comparable(value: Any) -> Any:
    return np.float32 if value.dtype == dtypes.bfloat16 else value.dtype


def flattened(value: Any) -> Any:
    """The leaves of nested tuples and lists."""
    if isinstance(value, (tuple, list)):
        for part in value:
            yield from flattened(part)
    else:
        yield value
