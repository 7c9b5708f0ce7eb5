"""Indexing held to JAX's values and gradients, to loops, and on every device.

`data/indexing_cases.py` lists the expressions. NumPy evaluates each one's graph, its
gradient's and its batched graph; the devices run them by the dozen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.lax as lax
import ftrace.numpy as fnp
import ftrace.ops as ops
from ftrace.errors import IndexBoundsError, NonConcreteBooleanIndexError
from ftrace.trace.evaluate import evaluate_graph
from ftrace.trace.tracer import asarray, aval_of, trace
from tests.data import indexing_cases as cases

RECORDED: dict[str, np.ndarray[Any, Any]] = cases.recorded()
INPUTS = {name: RECORDED[name] for name in cases.inputs()}
NAMES = cases.names(lax, fnp, ops, ft.nn.one_hot)
ALL = [e for s in cases.SECTIONS for e in cases.expressions(s) if e in RECORDED]
#: Where JAX's slopes are not those of its values: it drops the cotangents of elements
#: that were clipped into the array, and divides by zero beside a clipped extremum.
OTHER_SLOPES = {
    "x[out]", "x[:, out]", "x[bytes]", "x[i][j]", "x[i - 9]", "cube[i[:3], :, p]",
    "cube[i[:2], 1, ::2]", "four[:, i[:2], :, j[:, :2]]",
    "x.at[-7:9, -8].max(9.0, mode='clip')",
    "ops.segment_max(v, ids, 4, mode='clip', indices_are_sorted=False)",
    *[e for e in cases.expressions("scatters") if "_max(cube" in e],
    *[e for e in cases.expressions("gathers") if "mode" not in e],
}  # fmt: skip
SLOPES = [
    e
    for e in ALL
    if any(cases.slope_name(e, n) in RECORDED for n in cases.varying(e))
    and e not in OTHER_SLOPES
]
FLOATS = [
    e
    for e in ALL
    if RECORDED[e].dtype.kind == "f"
    and cases.varying(e)
    and np.isfinite(RECORDED[e]).all()
]
CHUNK = 12


def function_of(expression: str, free: list[str]) -> Callable[..., Any]:
    """The expression as a function of some of its arrays."""
    code = compile(expression, "expression", "eval")
    fixed = {name: asarray(INPUTS[name]) for name in cases.used(expression)}

    def function(*values: Any) -> Any:
        return eval(code, NAMES | fixed | dict(zip(free, values, strict=True)))

    return function


def masks_of(expression: str) -> set[str]:
    """The arrays on whose values a mask depends that must be known."""
    traced = cases.used(expression)
    try:
        trace("t", lambda *a: [function_of(expression, traced)(*a)], avals(traced))
    except NonConcreteBooleanIndexError:
        return set(traced)
    return set()


def avals(names: list[str]) -> list[Any]:
    return [aval_of(INPUTS[name]) for name in names]


def free_of(expression: str) -> list[str]:
    known = masks_of(expression)
    return [name for name in cases.used(expression) if name not in known]


def slope_of(expression: str) -> tuple[Callable[..., Any], list[str]]:
    """The gradient by the float arrays, as a function of all arrays."""
    free = cases.used(expression)
    wanted = cases.varying(expression)
    value = function_of(expression, free)

    def total(*values: Any) -> Any:
        result = value(*values)
        return fnp.sum(result * cases.weights(result.shape))

    return ft.grad(total, argnums=tuple(free.index(n) for n in wanted)), free


def check(found: Any, name: str) -> None:
    wanted = RECORDED[name]
    found = np.asarray(found)
    assert found.dtype == wanted.dtype, name
    assert found.shape == wanted.shape, name
    if wanted.dtype.kind in "biu":
        np.testing.assert_array_equal(found, wanted, name)
    else:
        np.testing.assert_allclose(found, wanted, 2e-5, 2e-6, err_msg=name)


@pytest.mark.parametrize("expression", ALL)
def test_traced_indexing_gives_what_jax_gives(expression: str) -> None:
    free = free_of(expression)
    graph = trace("t", lambda *a: [function_of(expression, free)(*a)], avals(free))
    (found,) = evaluate_graph(graph, *[INPUTS[n] for n in free])
    check(found, expression)


@pytest.mark.parametrize("expression", ALL)
def test_eager_indexing_gives_what_jax_gives_or_an_index_error(expression: str) -> None:
    try:
        found = function_of(expression, [])()
    except IndexBoundsError:
        with pytest.raises(IndexError, match="is out of bounds for axis"):
            function_of(expression, [])()
    else:
        check(found, expression)


@pytest.mark.parametrize("expression", SLOPES)
def test_gradients_of_indexing_are_those_of_jax(expression: str) -> None:
    slope, free = slope_of(expression)
    graph = trace("t", lambda *a: list(slope(*a)), avals(free))
    found = evaluate_graph(graph, *[INPUTS[n] for n in free])
    for name, value in zip(cases.varying(expression), found, strict=True):
        check(value, cases.slope_name(expression, name))


@pytest.mark.parametrize("expression", FLOATS)
def test_derivatives_of_indexing_are_finite_differences(expression: str) -> None:
    free = free_of(expression)
    wanted = [n for n in cases.varying(expression) if n in free]
    if not wanted:
        return
    rng = np.random.default_rng(1)
    inputs = {n: INPUTS[n] for n in free}
    inputs |= {n: INPUTS[n].astype(np.float64) for n in wanted}
    moves = {n: rng.standard_normal(inputs[n].shape) for n in wanted}
    weights = cases.weights(RECORDED[expression].shape).astype(np.float64)
    value = function_of(expression, free)

    def function(*arrays: Any) -> Any:
        given = inputs | dict(zip(wanted, arrays, strict=True))
        return fnp.sum(value(*[given[n] for n in free]) * weights)

    def both(*arrays: Any) -> list[Any]:
        slope = ft.grad(function, argnums=tuple(range(len(wanted))))(*arrays)
        tangents = tuple(moves[n] for n in wanted)
        _, tangent = ft.jvp(function, arrays, tangents)
        return [function(*arrays), tangent, *slope]

    graph = trace("t", both, [aval_of(inputs[n]) for n in wanted])

    def at(step: float) -> list[Any]:
        return evaluate_graph(graph, *[inputs[n] + step * moves[n] for n in wanted])

    step = 1e-6
    _, tangent, *slopes = at(0.0)
    difference = (at(step)[0] - at(-step)[0]) / (2 * step)
    inner = sum(
        np.sum(s * moves[n], dtype=np.float64)
        for s, n in zip(slopes, wanted, strict=True)
    )
    np.testing.assert_allclose(tangent, difference, 1e-6, 1e-7)
    np.testing.assert_allclose(inner, tangent, 1e-10, 1e-10)


@pytest.mark.parametrize("expression", ALL)
def test_vmap_of_indexing_is_a_loop(expression: str) -> None:
    free = [n for n in free_of(expression) if INPUTS[n].dtype != bool]
    if not free:
        return
    lanes = {n: [INPUTS[n], np.flip(INPUTS[n]).copy()] for n in free}
    value = function_of(expression, free)
    alone = trace("t", lambda *a: [value(*a)], avals(free))
    for shared in {None, free[0], free[-1]}:
        axes = tuple(None if n == shared else 0 for n in free)
        if all(axis is None for axis in axes):
            continue
        stacked = [lanes[n][0] if n == shared else np.stack(lanes[n]) for n in free]
        graph = trace(
            "t",
            lambda *a, axes=axes: [ft.vmap(value, axes)(*a)],
            [aval_of(s) for s in stacked],
        )
        (found,) = evaluate_graph(graph, *stacked)
        for lane, part in enumerate(found):
            given = [lanes[n][0 if n == shared else lane] for n in free]
            (wanted,) = evaluate_graph(alone, *given)
            np.testing.assert_allclose(part, wanted, 1e-5, 1e-6)


def chunks(expressions: list[str]) -> list[list[str]]:
    return [expressions[i : i + CHUNK] for i in range(0, len(expressions), CHUNK)]


@pytest.mark.parametrize("number", range(len(chunks(ALL))))
def test_indexing_on_devices(device: Any, number: int) -> None:
    expressions = chunks(ALL)[number]
    masks = set[str]().union(*[masks_of(e) for e in expressions])
    names = [n for n in INPUTS if n not in masks]

    def function(*values: Any) -> list[Any]:
        given = dict(zip(names, values, strict=True))
        results: list[Any] = []
        for e in expressions:
            free = [n for n in cases.used(e) if n in given]
            results.append(function_of(e, free)(*[given[n] for n in free]))
        return results

    found = ft.jit(function)(*[INPUTS[n] for n in names])
    for expression, value in zip(expressions, found, strict=True):
        check(value, expression)


@pytest.mark.parametrize("number", range(len(chunks(SLOPES))))
def test_gradients_of_indexing_on_devices(device: Any, number: int) -> None:
    expressions = chunks(SLOPES)[number]
    names = list(INPUTS)

    def function(*values: Any) -> list[Any]:
        given = dict(zip(names, values, strict=True))
        pairs = [slope_of(e) for e in expressions]
        return [slope(*[given[n] for n in free]) for slope, free in pairs]

    found = ft.jit(function)(*INPUTS.values())
    for expression, slopes in zip(expressions, found, strict=True):
        for name, slope in zip(cases.varying(expression), slopes, strict=True):
            check(slope, cases.slope_name(expression, name))
