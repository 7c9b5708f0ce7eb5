"""Shapes: JAX's values and dtypes; NumPy's for random shapes; messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.errors import (
    ArgumentError,
    AxisError,
    DtypeError,
    ShapeError,
    ValueRangeError,
)
from ftrace.trace.evaluate import evaluate_graph
from ftrace.trace.tracing.trace import trace
from ftrace.trace.tracing.tracer import aval_of
from tests.support.covering import covering
from tests.support.recorded_values import PARTS, check_part
from tests.support.refusals import refuses


@pytest.mark.parametrize("part", range(PARTS))
def test_shape_function_is_what_jax_gives_and_the_same_traced(part: int) -> None:
    check_part("shape", part)


shapes = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)


def numbered(shape: tuple[int, ...], dtype: str = "float32") -> Any:
    size = int(np.prod(shape))
    return (np.arange(size) * 7 % 11).reshape(shape).astype(dtype)


def agree(function: Any, module_args: Any, a: Any) -> None:
    """`function(module, array)` is the same in NumPy, eager and traced."""
    wanted = function(np, a, *module_args)
    x = fnp.asarray(a)
    eager = function(fnp, x, *module_args)
    graph = trace("jit", lambda v: [function(fnp, v, *module_args)], [aval_of(x)])
    (traced,) = evaluate_graph(graph, a)
    np.testing.assert_allclose(eager, wanted, rtol=1e-6)
    np.testing.assert_array_equal(np.asarray(eager), traced)
    assert eager.shape == wanted.shape


MODES = (
    "constant", "edge", "linear_ramp", "maximum", "mean", "median", "minimum",
    "reflect", "symmetric", "wrap",
)  # fmt: skip


@given(shapes, st.sampled_from(MODES), st.data())
def test_pad_agrees_with_numpy(shape: tuple[int, ...], mode: str, data: Any) -> None:
    pair = st.tuples(st.integers(0, 6), st.integers(0, 6))
    widths = data.draw(st.tuples(*[pair for _ in shape[:2]]))
    widths = widths + ((0, 0),) * (len(shape) - len(widths))
    options: dict[str, Any] = {}
    if mode in ("reflect", "symmetric"):
        options["reflect_type"] = data.draw(st.sampled_from(["even", "odd"]))
    if mode == "constant":
        options["constant_values"] = data.draw(
            st.tuples(st.integers(0, 3), st.integers(0, 3))
        )
    agree(lambda n, v: n.pad(v, widths, mode, **options), (), numbered(shape))


@given(shapes, st.data())
def test_moves_of_axes_agree_with_numpy(shape: tuple[int, ...], data: Any) -> None:
    ndim = len(shape)
    axis = st.integers(-ndim, ndim - 1)
    a = numbered(shape, "int32")
    i, j = data.draw(axis), data.draw(axis)
    order = data.draw(st.permutations(range(ndim)))
    agree(lambda n, v: n.transpose(v, order), (), a)
    agree(lambda n, v: n.swapaxes(v, i, j), (), a)
    agree(lambda n, v: n.moveaxis(v, i, j), (), a)
    agree(lambda n, v: n.flip(v, i), (), a)
    agree(lambda n, v: n.expand_dims(v, i), (), a)
    agree(lambda n, v: n.roll(v, j, i), (), a)
    agree(lambda n, v: n.repeat(v, 3, i), (), a)
    agree(lambda n, v: n.diff(v, axis=i), (), a)
    agree(lambda n, v: n.ravel(v, order="F"), (), a)
    if i % ndim != j % ndim:
        agree(lambda n, v: n.diagonal(v, 1, i, j), (), a)
        agree(lambda n, v: n.rot90(v, 3, (i, j)), (), a)


@given(shapes, st.data())
def test_joining_and_taking_apart_are_inverse(
    shape: tuple[int, ...], data: Any
) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    cuts = sorted(data.draw(st.lists(st.integers(0, shape[axis]), max_size=3)))
    a = numbered(shape)
    agree(lambda n, v: n.concatenate(n.split(v, cuts, axis), axis), (), a)
    agree(lambda n, v: n.stack([v, v * 2, v], axis), (), a)
    if hasattr(np, "unstack"):  # since NumPy 2.1
        agree(lambda n, v: n.stack(list(n.unstack(v, axis=axis)), axis), (), a)
    agree(lambda n, v: n.stack(list(n.moveaxis(v, axis, 0)), axis), (), a)


@given(st.integers(1, 6), st.integers(1, 6), st.sampled_from(["full", "same", "valid"]))
def test_convolve_and_correlate_agree_with_numpy(n: int, m: int, mode: str) -> None:
    a, v = numbered((n,)) + 1j, numbered((m,)) * (1 - 0.5j)
    for name in ("convolve", "correlate"):
        wanted = getattr(np, name)(a, v, mode)
        got = getattr(fnp, name)(a.astype("complex64"), v.astype("complex64"), mode)
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


@given(st.lists(st.floats(-3, 9), min_size=1, max_size=9))
def test_interp_and_searchsorted_agree_with_numpy(points: list[float]) -> None:
    x = np.array(points)
    xp = np.array([-1.0, 0.0, 0.5, 2.0, 2.5, 6.0])
    fp = xp**2 - 3
    np.testing.assert_allclose(fnp.interp(x, xp, fp), np.interp(x, xp, fp), atol=1e-9)
    for side in ("left", "right"):
        np.testing.assert_array_equal(
            fnp.searchsorted(xp, x, side), np.searchsorted(xp, x, side)
        )


def test_negative_zero_and_nan_survive_joining() -> None:
    a = np.array([-0.0, np.nan, 1.0], "float32")
    graph = trace("jit", lambda v: [fnp.concatenate([v, v, v])], [aval_of(a)])
    (joined,) = evaluate_graph(graph, a)
    np.testing.assert_array_equal(np.signbit(joined), np.signbit(np.tile(a, 3)))


def test_a_thousand_parts_are_joined_by_few_operations_in_a_row() -> None:
    def function(x: Any) -> list[Any]:
        return [fnp.stack([x[i] * 2 for i in range(1000)])]

    graph = trace("jit", function, [aval_of(fnp.ones(1000))])
    depth: dict[Any, int] = {}
    for node in graph.nodes:
        depth[node] = 1 + max((depth[s] for s in node.src), default=0)
    assert max(depth.values()) < 40


def test_repeat_and_nonzero_with_traced_counts() -> None:
    x, counts = fnp.arange(4.0), fnp.array([2, 0, 3, 1])
    repeat = ft.jit(lambda v, c: fnp.repeat(v, c, total_repeat_length=8))
    np.testing.assert_array_equal(repeat(x, counts), [0, 0, 2, 2, 2, 3, 3, 3])


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int64"])
@pytest.mark.parametrize("missing", [-5, 0, 3])
def test_traced_counts_of_many_elements(dtype: str, missing: int) -> None:
    random = np.random.default_rng(0)
    counts = random.integers(0, 4, 1000).astype(dtype)
    x = random.standard_normal((1000, 2)).astype(np.float32)
    total = int(counts.sum()) - missing

    @ft.jit
    def repeat(x: Any, counts: Any) -> Any:
        return fnp.repeat(x, counts, axis=0, total_repeat_length=total)

    found = np.asarray(repeat(x, counts))
    whole = np.repeat(x, counts, axis=0)[:total]
    np.testing.assert_array_equal(found[: len(whole)], whole)
    assert (found[len(whole) :] == x[-1]).all()  # as often as there are too few


def test_functions_of_slices() -> None:
    m = fnp.arange(6.0).reshape(2, 3)
    summed = fnp.apply_along_axis(lambda v: fnp.stack([v.sum(), v.max()]), 1, m)
    np.testing.assert_array_equal(summed, [[3, 2], [12, 5]])
    outer = fnp.vectorize(lambda a, b: a * b + 1)
    np.testing.assert_array_equal(outer(m[:, None], m[0]), m[:, None] * m[0] + 1)
    product = fnp.vectorize(fnp.dot, signature="(n),(n)->()")
    np.testing.assert_array_equal(product(m, m[0]), [5, 14])
    excluded = fnp.vectorize(lambda a, n: a**n, excluded={1})
    np.testing.assert_array_equal(excluded(m, 2), m**2)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m: fnp.reshape(m, (4, 2)), ShapeError, r"shape \(2, 3\) \(size 6\)"),
        (lambda m: fnp.reshape(m, (-1, -1)), ShapeError, "at most one size"),
        (
            lambda m: m.reshape(5),
            ShapeError,
            r"cannot reshape array of shape \(2, 3\) \(size 6\) into shape \(5,\)",
        ),
        (lambda m: fnp.transpose(m, (0, 0)), AxisError, "duplicate"),
        (lambda m: fnp.transpose(m, (0,)), AxisError, "not a permutation"),
        (lambda m: fnp.swapaxes(m, 0, 3), AxisError, "swapaxes: axis 3"),
        (lambda m: fnp.squeeze(m, 0), ShapeError, "only axes of size 1"),
        (lambda m: fnp.concatenate([m, m[0]]), ShapeError, r"\(2, 3\) and \(3,\)"),
        (lambda m: fnp.concatenate([]), ValueRangeError, "at least one array"),
        (lambda m: fnp.stack([m, m[0]]), ShapeError, "all shapes must be equal"),
        (lambda m: fnp.split(m, 2, 1), ShapeError, "use array_split"),
        (lambda m: fnp.pad(m, 1, "no"), ValueRangeError, "mode must be 'constant'"),
        (lambda m: fnp.pad(m, ((1, 1),) * 3), ShapeError, "does not fit 2 axes"),
        (lambda m: fnp.pad(m, 1, "edge", end_values=1), ArgumentError, "no option"),
        (lambda m: fnp.pad(m, -1), ValueRangeError, "at least 0"),
        (lambda m: fnp.broadcast_to(m, (2, 4)), ShapeError, "does not broadcast"),
        (lambda m: fnp.gradient(m[:1]), ShapeError, "at least two elements"),
        (lambda m: fnp.repeat(m, fnp.arange(5), 0), ShapeError, "axis of size 2"),
        (lambda m: fnp.roll(m, (1, 2, 3), (0, 1)), ShapeError, "shifts"),
        (lambda m: fnp.convolve(m, m), ShapeError, "two vectors"),
        (lambda m: fnp.interp(m, m, m), ShapeError, "must be a vector"),
        (lambda m: fnp.interp(m, m[0] + 1j, m[0]), DtypeError, "have no order"),
        (lambda m: fnp.interp(1j, m[0], m[0]), DtypeError, "have no order"),
        (lambda m: fnp.choose(m, [1, 2], mode="clip"), DtypeError, "be integers"),
        (lambda m: fnp.block([m, [m]]), ShapeError, "one depth"),
        (lambda m: fnp.vectorize(abs, signature="x")(m), ValueRangeError, "reads like"),
        (
            lambda m: fnp.diag(fnp.ones((1, 1, 1))),
            ShapeError,
            "no matrix must be a vector",
        ),
    ],
)
def test_bad_input_is_named(call: Any, error: type[Exception], message: str) -> None:
    with refuses(error, message):
        call(fnp.ones((2, 3)))


@covering(1, count=[17, 40, 70], axis=[0, 1])
def test_very_many_parts_are_joined_as_a_few_are(count: int, axis: int) -> None:
    """They go in groups; values, derivatives and batches are those of one join."""
    rng = np.random.default_rng(count)
    widths = rng.integers(0, 9, count)
    x = rng.standard_normal((40, int(widths.sum()))).astype(np.float32)
    cuts = np.cumsum(widths)[:-1]
    if axis == 0:
        x = np.ascontiguousarray(x.T)

    def parted(x: Any) -> Any:
        parts = fnp.split(x, cuts.tolist(), axis)
        return fnp.concatenate([p * (n + 1) for n, p in enumerate(parts)], axis)

    scale = np.repeat(np.arange(1, count + 1), widths).astype(np.float32)
    scale = scale[:, None] if axis == 0 else scale
    np.testing.assert_array_equal(np.asarray(ft.jit(parted)(x)), x * scale)
    slope = ft.jit(ft.grad(lambda x: (parted(x) ** 2).sum()))(x)
    np.testing.assert_allclose(np.asarray(slope), 2 * x * scale * scale, rtol=1e-6)
    batch = np.stack([x, -x])
    several = ft.jit(ft.vmap(parted))(batch)
    np.testing.assert_array_equal(np.asarray(several), batch * scale)


def test_few_parts_are_one_kernel_and_very_many_are_some() -> None:
    def kernels(count: int, width: int) -> int:
        parts = [np.ones((100, width), np.float32)] * count
        return len(ft.jit(lambda *p: fnp.concatenate(p, 1)).lower(*parts).kernels)

    assert kernels(16, 40) == 1
    assert 1 < kernels(64, 40) <= 9
    assert kernels(20, 0) <= 1


def test_parts_of_dynamic_sizes_are_joined() -> None:
    joined = ft.jit(
        lambda x: fnp.concatenate([x, x[1:], fnp.zeros(1)]), dynamic={"x": {0: "n"}}
    )
    for n in (2, 5, 40_000):
        x = np.arange(n, dtype=np.float32)
        np.testing.assert_array_equal(joined(x), [*x, *x[1:], 0])
