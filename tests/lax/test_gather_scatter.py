"""Gather and scatter: every dtype on every device, all orders of derivative, messages.

Values under JAX's dimension numbers stand in numpy/test_indexing.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import ftrace as ft
import ftrace.lax as lax
import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.errors import (
    ConcretizationTypeError,
    DtypeError,
    IndexBoundsError,
    NonConcreteBooleanIndexError,
    ShapeError,
    ValueRangeError,
)
from ftrace.test_util import check_grads
from ftrace.trace.evaluate import evaluate_graph
from ftrace.trace.tracing.trace import trace
from ftrace.trace.tracing.tracer import aval_of
from tests.support.refusals import refuses

G, S = lax.GatherDimensionNumbers, lax.ScatterDimensionNumbers
ROWS = G((1,), (0,), (0,))
INTO_ROWS = S((1,), (0,), (0,))

# Dtypes.

DTYPES = [
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
]  # fmt: skip
KINDS = ["set", "add", "multiply", "min", "max"]
INDEX = np.array([2, 0, 2, -1, 7, 2, 1], np.int32)


def values_of(dtype: str, *shape: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    values = rng.integers(0 if dtype[0] in "ub" else -4, 5, shape)
    found = values.astype(dtypes.as_dtype(dtype))
    return found + 1j * values[::-1] if dtype.startswith("complex") else found


def in_turn(kind: str, x: Any, index: Any, updates: Any) -> Any:
    """The updates one after the other; those out of bounds are dropped."""
    result = np.array(x)
    combine: Callable[[Any, Any], Any] = {
        "set": lambda a, b: b,
        "add": np.add,
        "multiply": np.multiply,
        "min": np.minimum,
        "max": np.maximum,
    }[kind]
    for place, update in zip(index, updates, strict=True):
        if -len(x) <= place < len(x):
            result[place] = combine(result[place], update)
    return result


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_is_read_and_updated_on_every_device(
    device: Any, dtype: str
) -> None:
    with ft.config(enable_x64=True):
        x, updates = values_of(dtype, 5, 3), values_of(dtype, 7, 3, seed=1)
        read = ft.jit(lambda x, i: x.at[i].get(mode="clip"))(x, INDEX)
        np.testing.assert_array_equal(read, x[np.clip(INDEX, -5, 4)])
        pairs = [
            k for k in KINDS if not (dtype.startswith("c") and k in ("min", "max"))
        ]
        found = ft.jit(lambda x, i, u: [getattr(x.at[i], k)(u) for k in pairs])(
            x, INDEX, updates
        )
        for kind, value in zip(pairs, found, strict=True):
            assert value.dtype == x.dtype
            wanted = in_turn(kind, x, INDEX, updates)
            if kind == "multiply" and dtype.startswith("complex"):  # in polar form
                np.testing.assert_allclose(value, wanted, 1e-5, 1e-4)
            else:
                np.testing.assert_array_equal(value, wanted)


@pytest.mark.parametrize("kind", ["add", "max", "set"])
def test_many_colliding_updates(device: Any, kind: str) -> None:
    rng = np.random.default_rng(4)
    x = np.zeros((40, 6), np.int32)
    index = rng.integers(-45, 45, 3000).astype(np.int32)
    updates = rng.integers(-9, 9, (3000, 6)).astype(np.int32)
    found = ft.jit(lambda x, i, u: getattr(x.at[i], kind)(u))(x, index, updates)
    np.testing.assert_array_equal(found, in_turn(kind, x, index, updates))


# Random dimension numbers, against one window after the other.


@st.composite
def random_windows(draw: Any) -> tuple[Any, ...]:
    """(array, starts, window sizes, dims that are squeezed, start map, mode)."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    ndim = len(shape)
    sizes = tuple(draw(st.integers(1, n)) for n in shape)
    squeezed = tuple(a for a in range(ndim) if sizes[a] == 1 and draw(st.booleans()))
    mapped = draw(st.permutations(range(ndim)))[: draw(st.integers(0, ndim))]
    batch = tuple(draw(st.lists(st.integers(0, 3), max_size=2)))
    seed = draw(st.integers(0, 99))
    starts = np.random.default_rng(seed).integers(-2, 5, (*batch, len(mapped)))
    mode = draw(st.sampled_from(["clip", "fill"]))
    return shape, sizes, squeezed, tuple(mapped), starts.astype(np.int32), mode


def windows_of(case: tuple[Any, ...]) -> Any:
    """For each start the slices of its window; None where it is dropped."""
    shape, sizes, _, mapped, starts, mode = case
    for place in np.ndindex(starts.shape[:-1]):
        first = [0] * len(shape)
        for axis, value in zip(mapped, starts[place], strict=True):
            first[axis] = int(value)
        last = [n - s for n, s in zip(shape, sizes, strict=True)]
        moved = [min(max(f, 0), t) for f, t in zip(first, last, strict=True)]
        inside = moved == first or mode == "clip"
        rows = zip(moved, sizes, strict=True)
        yield place, tuple(slice(f, f + s) for f, s in rows) if inside else None


@settings(max_examples=100)
@given(random_windows())
def test_gather_is_one_window_after_the_other(case: tuple[Any, ...]) -> None:
    shape, sizes, squeezed, mapped, starts, mode = case
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    kept = tuple(n for a, n in enumerate(sizes) if a not in squeezed)
    depth = starts.ndim - 1
    wanted = np.full((*starts.shape[:-1], *kept), -1, np.float32)
    for place, window in windows_of(case):
        if window is not None:
            wanted[place] = x[window].reshape(kept)
    offsets = tuple(range(depth, depth + len(kept)))
    numbers = G(offsets, squeezed, mapped)

    def function(x: Any, i: Any) -> list[Any]:
        return [lax.gather(x, i, numbers, sizes, mode=mode, fill_value=-1)]

    graph = trace("t", function, [aval_of(x), aval_of(starts)])
    np.testing.assert_array_equal(evaluate_graph(graph, x, starts)[0], wanted)


@settings(max_examples=100)
@given(random_windows(), st.sampled_from(["set", "add", "max"]))
def test_scatter_is_one_window_after_the_other(
    case: tuple[Any, ...], kind: str
) -> None:
    shape, sizes, squeezed, mapped, starts, mode = case
    x = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    kept = tuple(n for a, n in enumerate(sizes) if a not in squeezed)
    depth = starts.ndim - 1
    rng = np.random.default_rng(5)
    updates = rng.integers(-9, 30, (*starts.shape[:-1], *kept)).astype(np.int32)
    wanted = x.copy()
    combine: Any = {"set": lambda a, b: b, "add": np.add, "max": np.maximum}[kind]
    for place, window in windows_of(case):
        if window is not None:
            wanted[window] = combine(wanted[window], updates[place].reshape(sizes))
    numbers = S(tuple(range(depth, depth + len(kept))), squeezed, mapped)
    scatter: Any = {"set": lax.scatter, "add": lax.scatter_add, "max": lax.scatter_max}[
        kind
    ]

    def function(x: Any, i: Any, u: Any) -> list[Any]:
        return [scatter(x, i, u, numbers, mode=mode.replace("fill", "drop"))]

    graph = trace("t", function, [aval_of(a) for a in (x, starts, updates)])
    np.testing.assert_array_equal(evaluate_graph(graph, x, starts, updates)[0], wanted)


# Derivatives.

X = np.linspace(0.5, 2.0, 12).reshape(4, 3)
U = np.linspace(-1.5, 1.0, 15).reshape(5, 3)
I = np.array([0, 2, 2, 9, -1])  # noqa: E741
FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "gather": (lambda x: fnp.sin(x[I[:3]]), (X,)),
    "set": (lambda x, u: (x**2).at[I].set(u**3, mode="drop"), (X, U)),
    "add": (lambda x, u: (x**2).at[I].add(u**3, mode="drop"), (X, U)),
    "multiply": (lambda x, u: (x**2).at[I].multiply(u, mode="drop"), (X, U)),
    "divide": (lambda x, u: x.at[I].divide(u, mode="drop"), (X, U)),
    "min": (lambda x, u: (x**2).at[I].min(u**3, mode="drop"), (X, U)),
    "max": (lambda x, u: (x**2).at[I].max(u**3, mode="drop"), (X, U)),
    "power": (lambda x, u: x.at[I].power(u, mode="drop"), (X, U)),
    "windows": (
        lambda x: lax.gather(x**2, I[:2, None], G((1, 2), (), (1,)), (2, 2)), (X,)
    ),
    "scatter_mul": (
        lambda x, u: lax.scatter_mul(x, I[:, None], u, INTO_ROWS), (X, U)
    ),
    "dynamic_slice": (lambda x: lax.dynamic_slice(x**3, (1, 0), (2, 2)), (X,)),
    "dynamic_update_slice": (
        lambda x, u: lax.dynamic_update_slice(x**2, u[:2, :2] ** 2, (1, 1)), (X, U)
    ),
    "segment_prod": (lambda u: ft.ops.segment_prod(u, I, 4), (U,)),
    "complex": (
        lambda x, u: (x + 1j * x).at[I].multiply(u - 2j * u, mode="drop"), (X, U)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_of_two_orders_in_both_modes(name: str) -> None:
    function, arguments = FUNCTIONS[name]
    with ft.config(enable_x64=True):
        check_grads(lambda *a: function(*map(fnp.asarray, a)), arguments, order=2)


def test_a_product_with_zeros_has_its_slope() -> None:
    x = np.array([2.0, 3.0, 0.0], np.float32)
    u = np.array([0.0, 5.0, 0.0, 0.0, 4.0], np.float32)
    i = np.array([0, 0, 1, 1, 2])
    slopes = ft.grad(lambda x, u: fnp.sum(x.at[i].multiply(u)), (0, 1))(x, u)
    np.testing.assert_array_equal(slopes[0], [0, 0, 4])
    np.testing.assert_array_equal(slopes[1], [10, 0, 0, 0, 0])


def test_batched_gradients_of_updates_on_devices(device: Any) -> None:
    xs = np.stack([X, X + 1]).astype(np.float32)
    us = np.stack([U, U * 2]).astype(np.float32)
    indices = np.stack([I, I[::-1]])
    for kind in ("set", "add", "multiply", "max"):

        def loss(x: Any, u: Any, i: Any, kind: str = kind) -> Any:
            return fnp.sum(getattr(x.at[i], kind)(u, mode="drop") ** 2)

        slope = ft.grad(loss, (0, 1))
        found = ft.jit(ft.vmap(slope))(xs, us, indices)
        for lane in range(2):
            wanted = slope(xs[lane], us[lane], indices[lane])
            for part, value in zip(found, wanted, strict=True):
                np.testing.assert_allclose(part[lane], value, 1e-5, 1e-6)


# Messages.


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x, i: lax.gather(x, i, ROWS, (1,)), ShapeError, "one size per axis"),
        (lambda x, i: lax.gather(x, i, ROWS, (2, 3)), ShapeError, "slice size 1"),
        (lambda x, i: lax.gather(x, i, ROWS, (1, 4)), ShapeError, "must fit the array"),
        (lambda x, i: lax.gather(x, i[:, 0], ROWS, (1, 3)), ShapeError, "one entry"),
        (lambda x, i: lax.gather(x, i[0, 0], ROWS, (1, 3)), ShapeError, r"\[None\]"),
        (lambda x, i: lax.gather(x, x, ROWS, (1, 3)), DtypeError, "must be integers"),
        (
            lambda x, i: lax.gather(x, i, G((5,), (0,), (0,)), (1, 3)),
            ShapeError, "offset_dims must be different axes in order, from 0 to 1",
        ),
        (
            lambda x, i: lax.gather(x, i, G((0, 1), (0,), (0,)), (1, 3)),
            ShapeError, "one axis of the result for each",
        ),
        (
            lambda x, i: lax.gather(x, i, G((1,), (0,), (7,)), (1, 3)),
            ShapeError, "different ones of an array of shape",
        ),
        (
            lambda x, i: lax.gather(x, i, G((1,), (), (0,), (0,), (0,)), (1, 3)),
            ShapeError, "different axes of the same sizes",
        ),
        (
            lambda x, i: lax.gather(x, i, ROWS, (1, 3), mode="no"),
            ValueRangeError, "mode must be",
        ),
        (
            lambda x, i: lax.gather(x, i, ROWS, (1, 3), mode="one_hot"),
            ValueRangeError, "nn.one_hot",
        ),
        (
            lambda x, i: lax.scatter(x, i, fnp.ones((5, 4)), INTO_ROWS),
            ShapeError, "must fit the array",
        ),
        (
            lambda x, i: lax.scatter(x, i, fnp.ones((4, 3)), INTO_ROWS),
            ShapeError, "required is that of the indices",
        ),
        (
            lambda x, i: lax.scatter(x, i, fnp.ones(5), INTO_ROWS),
            ShapeError, "update_window_dims",
        ),
        (
            lambda x, i: lax.scatter_add(x, i, fnp.ones((5, 3), int), INTO_ROWS),
            DtypeError, "requires operands of one dtype",
        ),
        (
            lambda x, i: lax.scatter_apply(
                x, i, lambda e: e[0], INTO_ROWS, update_shape=(5, 3)
            ),
            ShapeError, "must have the shape",
        ),
        (lambda x, i: lax.index_take(x, (i[:, 0],), (0, 1)), ShapeError, "per axis"),
        (lambda x, i: lax.index_take(x, (x[0],), (0,)), DtypeError, "integers"),
        (lambda x, i: lax.dynamic_slice(x, (0, 0), (5, 1)), ShapeError, "not exceed"),
        (lambda x, i: lax.dynamic_slice(x, (0,), (1, 1)), ShapeError, "one start per"),
        (
            lambda x, i: ft.ops.segment_sum(x, i[:4, 0], 4, mode="no"),
            ValueRangeError, "mode must be",
        ),
        (lambda x, i: x.at[7].get(), IndexBoundsError, "index 7 is out of bounds"),
        (
            lambda x, i: x.at[-1].set(0.0, wrap_negative_indices=False),
            IndexBoundsError, "index -1 is out of bounds",
        ),
    ],
)  # fmt: skip
def test_bad_input_is_named(call: Any, error: type[Exception], message: str) -> None:
    x, i = fnp.ones((4, 3)), fnp.arange(5)[:, None]
    with refuses(error, message):
        call(x, i)
    with refuses(error, message):
        ft.jit(call)(x, i)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x, i: x[x > 0], NonConcreteBooleanIndexError, "nonzero"),
        (lambda x, i: x.at[x > 0].get(), NonConcreteBooleanIndexError, "where"),
        (lambda x, i: x[: i[0]], IndexBoundsError, "lax.dynamic_slice"),
        (
            lambda x, i: ft.ops.segment_sum(x, i),
            ConcretizationTypeError, "give num_segments",
        ),
    ],
)  # fmt: skip
def test_what_must_be_known_is_named(
    call: Any, error: type[Exception], message: str
) -> None:
    with refuses(error, message):
        ft.jit(call)(fnp.ones(4), fnp.arange(4))


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("rows", [[1, 1, 2], [3, 3, 3], [0, 9, -1, 0], [9, 9], [0, 1]])
def test_a_function_is_applied_as_often_as_windows_have_an_element(
    rows: list[int], compiled: bool
) -> None:
    numbers = lax.ScatterDimensionNumbers((1,), (), (0,))

    def applied(x: Any, starts: Any) -> Any:
        return lax.scatter_apply(
            x, starts, lambda e: e * e + 1, numbers, update_shape=(len(rows), 2)
        )

    x, starts = np.arange(5.0), np.array(rows)[:, None]
    wanted = x.copy()
    for row in rows:
        if 0 <= row <= 3:
            wanted[row : row + 2] = wanted[row : row + 2] ** 2 + 1
    way = ft.jit if compiled else lambda f: f
    np.testing.assert_array_equal(way(applied)(x, starts), wanted)
    both = way(ft.vmap(applied, (0, None)))(np.stack([x, -x]), starts)
    np.testing.assert_array_equal(both[0], wanted)
    step = 1e-6 * np.linspace(1, 2, 5)
    slope = way(ft.grad(lambda x, i: applied(x, i).sum()))(x, starts)
    change = applied(x + step, starts).sum() - applied(x - step, starts).sum()
    np.testing.assert_allclose(slope @ step, change / 2, rtol=1e-6)
