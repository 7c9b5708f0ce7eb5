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
from ftrace.ground.settings import config
from ftrace.lower import lower
from ftrace.trace.evaluate import evaluate_graph
from ftrace.trace.tracing.scopes import asarray
from ftrace.trace.tracing.trace import trace
from ftrace.trace.tracing.tracer import aval_of
from pytest_ftrace import DEVICES
from tests.data import indexing_cases as cases
from tests.support.covering import covering

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
CHUNK = 48


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


@covering(1, number=range(len(chunks(ALL))), device=DEVICES)
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


@covering(1, number=range(len(chunks(SLOPES))), device=DEVICES)
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


TABLE = np.ones((50, 8), np.float32)
ROWS = (np.arange(20) % 7).astype(np.int32)
VALUES = np.ones((20, 8), np.float32)
LOGITS = np.linspace(-3, 3, 1000, dtype=np.float32).reshape(20, 50)
WHERE = np.int32(3)


def one_hot_loss(x: Any, labels: Any) -> Any:
    picked = ft.nn.one_hot(labels, 50) * ft.nn.log_softmax(x)
    return -fnp.mean(fnp.sum(picked, -1))


def indexed_loss(x: Any, labels: Any) -> Any:
    found = fnp.take_along_axis(ft.nn.log_softmax(x), labels[:, None], 1)
    return -fnp.mean(found)


def one_hot_step(x: Any, i: Any, y: Any) -> Any:
    loss = lambda x: fnp.sum((ft.nn.one_hot(i, 50) @ x - y) ** 2)  # noqa: E731
    return x - 0.1 * ft.grad(loss)(x)


#: name: (function, arguments, kernels). A scatter takes two: one makes what it starts
#: from, the other computes the updates and applies them.
COUNTS: dict[str, tuple[Any, Any, int]] = {
    "gather between elementwise work": (
        lambda x, i: fnp.tanh(fnp.exp(x)[i] * 2 + 1), (TABLE, ROWS), 1
    ),
    "gather into a norm": (
        lambda x, i: ft.nn.standardize(x[i], axis=-1), (TABLE, ROWS), 1
    ),
    "gather into a sum": (lambda x, i: fnp.sum(fnp.sin(x[i]), 1), (TABLE, ROWS), 1),
    "lax.gather with fill": (
        lambda x, i: lax.gather(
            fnp.exp(x), i[:, None], lax.GatherDimensionNumbers((1,), (0,), (0,)),
            (1, 8), mode="fill",
        ) * 2,
        (TABLE, ROWS), 1,
    ),
    "dynamic_slice between elementwise work": (
        lambda x, p: fnp.sin(lax.dynamic_slice(fnp.exp(x), (p, 0), (4, 8))),
        (TABLE, WHERE), 1,
    ),
    "scatter-add of computed updates to a computed array": (
        lambda x, i, y: (x * 2).at[i].add(fnp.exp(y)), (TABLE, ROWS, VALUES), 2
    ),
    "work after a scatter": (
        lambda x, i, y: fnp.tanh(x.at[i].add(y)), (TABLE, ROWS, VALUES), 3
    ),
    "gradient of a gather": (
        ft.grad(lambda x, i: fnp.sum(fnp.sin(x[i]))), (TABLE, ROWS), 2
    ),
    "segment_sum of computed rows": (
        lambda y, i: ft.ops.segment_sum(fnp.exp(y), i, 7), (VALUES, ROWS), 2
    ),
    "a slice that is set": (
        lambda x, y: x.at[2:22].set(fnp.exp(y)) * 2, (TABLE, VALUES), 1
    ),
    "a mask that is set": (lambda x: fnp.exp(x.at[x > 0].set(0)), (TABLE,), 1),
    "one_hot @ table": (
        lambda x, i: fnp.exp(ft.nn.one_hot(i, 50) @ x), (TABLE, ROWS), 1
    ),
    "a step of gradient descent through one_hot": (
        one_hot_step, (TABLE, ROWS, VALUES), 3
    ),
    "cross entropy by one_hot, with its gradient": (
        ft.value_and_grad(one_hot_loss), (LOGITS, ROWS), 2
    ),
    "cross entropy by an index, with its gradient": (
        ft.value_and_grad(indexed_loss), (LOGITS, ROWS), 2
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTS)
def test_indexing_fuses_with_the_work_around_it(name: str) -> None:
    f, arguments, count = COUNTS[name]
    stages = ft.jit(f).lower(*arguments)
    assert len(stages.kernels) == count, stages.program


RULES = {"fold_sum_of_one_hot_select", "fold_sum_of_one_hot", "fold_sum_into_scatter"}


def multiplications(f: Any, arguments: Any) -> int:
    graph = trace("t", lambda *a: [f(*a)], [aval_of(a) for a in arguments])
    return sum(step.info.operations for step in lower(graph).program.kernels)


def test_one_hot_products_do_the_work_of_an_index() -> None:
    by_hand = lambda x, i: fnp.where((i >= 0) & (i < 50), 1, 0)[:, None] * x[i]  # noqa: E731
    product = lambda x, i: ft.nn.one_hot(i, 50) @ x  # noqa: E731
    folded = multiplications(product, (TABLE, ROWS))
    assert folded <= 2 * multiplications(by_hand, (TABLE, ROWS))
    with config(disabled_rules=RULES):
        assert multiplications(product, (TABLE, ROWS)) > 5 * folded


def test_rows_that_are_not_picked_do_not_spoil_a_one_hot_product(device: Any) -> None:
    table = np.array([[1, 2], [np.nan, np.inf], [3, -0.0]], np.float32)
    index = np.array([2, 0, 5, 2], np.int32)
    product = ft.jit(lambda i, t: ft.nn.one_hot(i, 3) @ t)
    wanted = np.array([[3, 0], [1, 2], [0, 0], [3, 0]], np.float32)
    np.testing.assert_array_equal(product(index, table), wanted)
    with config(disabled_rules=RULES):
        plain = ft.jit(lambda i, t: ft.nn.one_hot(i, 3) @ t)(index, table)
    assert np.isnan(np.asarray(plain)).all()


def test_where_of_positions_is_exact(device: Any) -> None:
    values = np.array([1, np.nan, -0.0, np.inf, -5], np.float32)

    def pick(v: Any, i: Any) -> Any:
        return fnp.sum(fnp.where(i[:, None] == fnp.arange(5), v, 0), 1)

    index = np.array([3, 2, 1, 0, 4, -1, 5, 2**31 - 1, -(2**31)], np.int32)
    found = np.asarray(ft.jit(pick)(values, index))
    with config(disabled_rules=RULES):
        plain = np.asarray(ft.jit(pick)(values, index))
    assert found.tobytes() == plain.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "int32", "int8", "complex64", "float16"])
def test_histograms_by_comparison_are_counted(device: Any, dtype: str) -> None:
    index = np.array([3, 17, 3, -1, 40, 0, 3], np.int32)
    weights = np.arange(1, 8).astype(dtype)

    def count(i: Any, w: Any) -> Any:
        hits = i[:, None] == fnp.arange(20)
        return fnp.sum(hits, 0), fnp.sum(hits * w[:, None], 0)

    wanted = np.zeros(20, int), np.zeros(20, dtype)
    for place, weight in zip(index, weights, strict=True):
        if 0 <= place < 20:
            wanted[0][place] += 1
            wanted[1][place] += weight
    for found, value in zip(ft.jit(count)(index, weights), wanted, strict=True):
        np.testing.assert_array_equal(found, value)


@pytest.mark.parametrize(
    ("f", "x", "wanted"),
    [
        (
            lambda x: fnp.zeros(3).at[fnp.array([0, 0, 1])].max(x),
            [np.nan, 1, 2],
            [0, 0, 1],
        ),
        (lambda x: fnp.zeros(2).at[fnp.zeros(2, int)].max(x), [np.nan, np.nan], [0, 0]),
        (lambda x: x.at[fnp.arange(2)].max(1.0), [np.nan, 1, np.nan], [0, 0.5, 1]),
        (
            lambda x: ops.segment_max(x, fnp.array([0, 0, 1]), 2),
            [np.nan, 1, 2],
            [0, 0, 1],
        ),
        (lambda x: x.at[fnp.array([0])].min(np.nan), [np.nan, 2, np.nan], [0, 1, 1]),
    ],
)
def test_a_nan_takes_no_gradient_of_a_scattered_extremum(
    f: Any, x: list[float], wanted: list[float]
) -> None:
    """Where nothing is scattered the gradient passes, also by a NaN."""
    g = ft.grad(lambda x: f(x).sum())
    for found in (g(np.array(x)), ft.jit(g)(np.array(x))):
        np.testing.assert_array_equal(found, wanted)
