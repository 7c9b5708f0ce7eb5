"""Index arrays that count: accesses in steps, no order where nothing collides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.lower.fusion.drafts import FusionPlan
from ftrace.lower.kernel.affine_index import (
    ALWAYS,
    index_of_atom,
    range_index,
    value_index,
    values_in,
)
from ftrace.lower.kernel.integer_bounds import values_of
from ftrace.lower.kernel.iota_indices import never_meeting, position_of
from ftrace.lower.kernel.ir import make_range
from ftrace.trace.bind import bind
from ftrace.trace.evaluate import evaluate_graph
from ftrace.trace.primitives.indexing import gather_p, scatter_p
from ftrace.trace.tracing.trace import trace
from ftrace.trace.tracing.tracer import aval_of
from pytest_ftrace import DEVICES
from tests.support.covering import covering

X = np.arange(60, dtype=np.float32) / 7
T = np.arange(48, dtype=np.float32).reshape(8, 6) / 7
I32 = np.int32(3)
LANES = np.array([5, 0, -2, 9, 1, 1, 3, 2], np.int32)


def sliced(x: Any, *start: Any, sizes: tuple[int, ...]) -> Any:
    return lax.dynamic_slice(x, start, sizes)


def updated(x: Any, u: Any, *start: Any) -> Any:
    return lax.dynamic_update_slice(x, u, start)


def kernels_of(f: Callable[..., Any], *arguments: Any) -> list[Any]:
    return list(ft.jit(f).lower(*arguments).kernels)


# What is made of them.


def test_a_dynamic_slice_reads_side_by_side() -> None:
    (kernel,) = kernels_of(lambda x, i: sliced(x, i, sizes=(50,)), X, I32)
    assert (
        str(kernel)
        == """\
kernel (i0<50):
  v0 = load buffer1 0
  v1 = lt v0 0
  v2 = add v0 60
  v3 = select v1 v2 v0
  v4 = max v3 0
  v5 = min v4 10
  v6 = cast[i64] v5
  v7 = add i0 v6
  v8 = load buffer2 v7
  buffer0[i0] = v8"""
    )


#: Programs, and the loops of their last kernel.
SHAPES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], tuple[int, ...]]] = {
    "rows are one run": (lambda x, i: sliced(x, i, 0, sizes=(3, 6)), (T, I32), (18,)),
    "columns are not": (lambda x, i: sliced(x, 0, i, sizes=(8, 2)), (T, I32), (8, 2)),
    "updated rows are one run": (
        lambda x, u, i: updated(x, u, i, 0), (T, T[:3], I32), (18,)
    ),
    "a block is not": (
        lambda x, u, i: updated(x, u, i, i), (T, T[:3, :2], I32), (3, 2)
    ),
    "rows by an index array": (
        lambda x, u, i: x.at[i].add(u), (T, T[:3], LANES[:3]), (3, 6)
    ),
    "a table of indices": (
        lambda x, u, i: x.at[i].add(u), (X, T, LANES[:6] + 0 * T.astype("i4")), (48,)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_what_runs_on_is_one_loop(name: str) -> None:
    f, arguments, shape = SHAPES[name]
    assert kernels_of(f, *arguments)[-1].shape == shape


#: Scatters, and the axes of their kernels that must run in order.
ORDERED: dict[str, tuple[Callable[..., Any], tuple[Any, ...], set[int]]] = {
    "slice": (updated, (X, X[:9], I32), set()),
    "block": (updated, (T, T[:3, :2], I32, I32), set()),
    "row": (lambda x, u, i: x.at[i].add(u), (T, T[0], I32), set()),
    "rows": (lambda x, u, i: x.at[i].add(u), (T, T[:3], LANES[:3]), {0}),
    "every other": (
        lambda x, u: x.at[2 * fnp.arange(9) + 1].add(u), (X, X[:9]), set()
    ),
    "in twos": (lambda x, u: x.at[fnp.arange(9) // 2].add(u), (X, X[:9]), {0}),
    "one place": (lambda x, u: x.at[fnp.arange(9) * 0 + 3].add(u), (X, X[:9]), {0}),
    "lanes": (
        lambda x, u, i: ft.vmap(lambda x, u, i: x.at[i].add(u))(x, u, i),
        (T, T, np.tile(LANES[:6], (8, 1))),
        {1},
    ),
    "slices in lanes": (
        lambda x, u, i: ft.vmap(updated)(x, u, i), (T, T[:, :3], LANES), set()
    ),
    "counting beside an index array": (
        lambda x, u, i: x.at[i[:, None], fnp.arange(4) + 1].add(u),
        (T, T[:3, :4], LANES[:3]),
        {0},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ORDERED)
def test_only_axes_that_may_collide_run_in_order(name: str, device: Any) -> None:
    f, arguments, ordered = ORDERED[name]
    assert kernels_of(f, *arguments)[-1].ordered == ordered
    graph = trace("jit", lambda *a: [f(*a)], [aval_of(a) for a in arguments])
    (expected,) = evaluate_graph(graph, *arguments)
    np.testing.assert_allclose(ft.jit(f)(*arguments), expected, rtol=1e-6)


def test_a_clamped_start_needs_no_bounds() -> None:
    kernel = kernels_of(updated, X, X[:9], I32)[-1]
    assert kernel.stores[0].valid is None


def test_a_start_that_may_be_anywhere_is_checked() -> None:
    def f(x: Any, u: Any, i: Any) -> Any:
        return x.at[fnp.maximum(i, 0) + fnp.arange(9)].set(u, mode="drop")

    kernel = kernels_of(f, X, X[:9], np.int16(3))[-1]
    assert kernel.stores[0].valid is not None


# The right elements, wherever the start is.

STARTS = [-1000, -61, -60, -3, -1, 0, 1, 50, 55, 59, 60, 61, 1000]


def clamped(start: int, size: int, length: int) -> int:
    start = start + length if start < 0 else start
    return min(max(start, 0), length - size)


@covering(1, size=[0, 1, 7, 60], device=DEVICES)
def test_slices_at_every_start(device: Any, size: int) -> None:
    read = ft.jit(lambda x, i: sliced(x, i, sizes=(size,)))
    write = ft.jit(updated)
    u = -X[:size]
    for dtype in ("int16", "int32", "int64"):
        for start in STARTS:
            at = clamped(start, size, 60)
            i = np.asarray(start, dtype)
            np.testing.assert_array_equal(read(X, i), X[at : at + size])
            expected = X.copy()
            expected[at : at + size] = u
            np.testing.assert_array_equal(write(X, u, i), expected)


@covering(1, dtype=["int8", "uint8", "uint16", "uint32", "uint64"], device=DEVICES)
def test_slices_by_starts_of_other_dtypes(device: Any, dtype: str) -> None:
    x = np.arange(300, dtype=np.float32)
    read = ft.jit(lambda x, i: sliced(x, i, sizes=(200,)))
    for start in (0, 3, 100, 127):
        at = min(start, 100)
        i = np.asarray(start, dtype)
        np.testing.assert_array_equal(read(x, i), x[at : at + 200])


def test_blocks_at_every_start(device: Any) -> None:
    read = ft.jit(lambda x, i, j: sliced(x, i, j, sizes=(3, 2)))
    write = ft.jit(updated)
    for i in (-9, -2, 0, 4, 7):
        for j in (-7, -1, 0, 3, 9):
            a, b = clamped(i, 3, 8), clamped(j, 2, 6)
            got = read(T, np.int32(i), np.int32(j))
            np.testing.assert_array_equal(got, T[a : a + 3, b : b + 2])
            expected = T.copy()
            expected[a : a + 3, b : b + 2] = -T[:3, :2]
            got = write(T, -T[:3, :2], np.int32(i), np.int32(j))
            np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("start", [0, 240, 250, 255])
def test_an_index_that_wraps_around_is_read(device: Any, start: int) -> None:
    x = np.arange(256, dtype=np.float32)

    def at(x: Any, i: Any) -> Any:
        return x.at[fnp.arange(10, dtype="uint8") + i]

    def read(x: Any, i: Any) -> Any:
        return at(x, i).get(mode="promise_in_bounds", wrap_negative_indices=False)

    def write(x: Any, i: Any) -> Any:
        return at(x, i).set(-1, mode="drop", wrap_negative_indices=False)

    places = np.arange(10, dtype=np.uint8) + np.uint8(start)
    i = np.uint8(start)
    np.testing.assert_array_equal(ft.jit(read)(x, i), x[places])
    expected = x.copy()
    expected[places] = -1
    np.testing.assert_array_equal(ft.jit(write)(x, i), expected)


@covering(
    2,
    start=[-9, -4, -3, -1, 0, 2, 3, 5, 6, 20],
    known=["low", "high", "nothing"],
    device=DEVICES,
)
def test_columns_out_of_bounds_are_not_those_of_other_rows(
    device: Any, known: str, start: int
) -> None:
    def columns(i: Any) -> Any:
        if known == "low":
            i = fnp.maximum(i, 0)
        elif known == "high":
            i = fnp.minimum(i, 4)
        return i + fnp.arange(4)

    def f(x: Any, u: Any, i: Any) -> Any:
        rows = fnp.arange(3)[:, None] + 2
        at = x.at[rows, columns(i)[None]]
        return at.add(u, mode="drop", wrap_negative_indices=False)

    expected, u = T.copy(), T[:3, :4]
    first = {"low": max(start, 0), "high": min(start, 4), "nothing": start}[known]
    for k in range(4):
        if 0 <= first + k < 6:
            expected[2:5, first + k] += u[:, k]
    got = ft.jit(f)(T, u, np.int32(start))
    np.testing.assert_allclose(got, expected, rtol=1e-6)


@covering(
    2,
    kind=["set", "add", "multiply", "min", "max"],
    base=[-70, -6, 0, 56, 70],
    device=DEVICES,
)
def test_updates_that_are_partly_out_of_bounds(
    device: Any, kind: str, base: int
) -> None:
    def f(x: Any, u: Any, i: Any) -> Any:
        start = fnp.clip(i, 0, 100)
        places = start + base + fnp.arange(8)
        return getattr(x.at[places], kind)(u, mode="drop", wrap_negative_indices=False)

    combine: Any = {
        "set": lambda a, b: b, "add": np.add, "multiply": np.multiply,
        "min": np.minimum, "max": np.maximum,
    }[kind]  # fmt: skip
    u = np.linspace(-3, 3, 8, dtype=np.float32)
    for start in (-5, 0, 1, 58):
        expected = X.copy()
        for k in range(8):
            place = min(max(start, 0), 100) + base + k
            if 0 <= place < 60:
                expected[place] = combine(expected[place], u[k])
        got = ft.jit(f)(X, u, np.int32(start))
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_the_last_of_colliding_updates_stays(device: Any) -> None:
    def f(x: Any, u: Any, i: Any, j: Any) -> Any:
        rows = fnp.clip(j, 0, 2) + fnp.arange(6) // 2
        return x.at[rows[:, None], i[None, :]].set(u)

    i = np.array([4, 1, 4, 4], np.int32)
    u = np.arange(24, dtype=np.float32).reshape(6, 4)
    expected = T.copy()
    for a in range(6):
        for b in range(4):
            expected[1 + a // 2, i[b]] = u[a, b]
    np.testing.assert_array_equal(ft.jit(f)(T, u, i, np.int32(1)), expected)


def test_index_arithmetic_that_two_kernels_share(device: Any) -> None:
    def f(x: Any, i: Any) -> Any:
        places = fnp.clip(i, 0, 10) + fnp.arange(9)
        a = fnp.cumsum(x[places])
        return a, x.at[places].add(a), places, fnp.sort(x[::-1][places])

    a, b, places, c = ft.jit(f)(X, I32)
    at = np.arange(3, 12)
    np.testing.assert_array_equal(places, at)
    np.testing.assert_allclose(a, np.cumsum(X[at]), rtol=1e-5)
    np.testing.assert_allclose(b[3:12], X[at] + np.cumsum(X[at]), rtol=1e-5)
    np.testing.assert_array_equal(c, np.sort(X[::-1][at]))


# In place.


@pytest.mark.parametrize(
    "start", [(0, 1), (1, 0), (1, 1)], ids=["columns", "rows", "blocks"]
)
def test_a_slice_of_itself_is_updated_in_place(
    device: Any, start: tuple[int, int]
) -> None:
    sizes = tuple(2 if s else n for s, n in zip(start, T.shape, strict=True))

    def step(i: Any, x: Any) -> Any:
        at = tuple(i if s else 0 for s in start)
        return updated(x, sliced(x, *at, sizes=sizes) * 2 + 1, *at)

    f = ft.jit(lambda x: lax.fori_loop(0, 9, step, x))
    with ft.config(disabled_rules={"promote_loops"}):
        body = str(f.lower(T).program).split("  program:")[1]
    assert "1 steps" in body
    assert "copy" not in body
    expected = T.copy()
    for i in range(9):
        at = [clamped(i, n, m) for n, m in zip(sizes, T.shape, strict=True)]
        part = tuple(
            slice(a, a + n) if s else slice(None)
            for a, n, s in zip(at, sizes, start, strict=True)
        )
        expected[part] = expected[part] * 2 + 1
    np.testing.assert_allclose(f(T), expected, rtol=1e-6)


@pytest.mark.parametrize("shift", [-1, 1])
def test_a_slice_of_another_one_is_not(device: Any, shift: int) -> None:
    def step(i: Any, x: Any) -> Any:
        return updated(x, sliced(x, i + 5 + shift, sizes=(40,)) * 2, i + 5)

    f = ft.jit(lambda x: lax.fori_loop(0, 9, step, x))
    expected = X.copy()
    for i in range(5, 14):
        expected[i : i + 40] = expected[i + shift : i + shift + 40] * 2
    with ft.config(disabled_rules={"promote_loops"}):
        np.testing.assert_allclose(f(X), expected, rtol=1e-6)


def test_colliding_updates_made_of_what_they_change_are_not(device: Any) -> None:
    def f(x: Any, at: Any) -> Any:  # without the surface, which would clamp
        return bind(
            scatter_p, x, bind(gather_p, x, at, arg=(0,)) * 2, at, arg=((0,), "set")
        )

    at = np.array([7, 3, 7, 3, 7, 0], np.int32)
    expected = X.copy()
    expected[at] *= 2
    got = ft.jit(f, donate_argnums=0)(fnp.asarray(X), at)
    np.testing.assert_allclose(got, expected, rtol=1e-6)


# What is known of values.


def test_ranges_never_meet_where_their_positions_differ() -> None:
    i, j = range_index(0, 4), range_index(1, 5)
    a, b = make_range(0, 4, False), make_range(1, 5, False)
    both = frozenset((a, b))
    read_at_a = value_index(0, 9, frozenset((a,)))
    read_at_b = value_index(1, 9, frozenset((b,)))
    assert never_meeting([i, j], both) == both
    assert never_meeting([i * 5 + j], both) == both
    assert never_meeting([i * 4 + j], both) == set()
    assert never_meeting([i - j], both) == set()
    assert never_meeting([read_at_a], both) == set()
    assert never_meeting([i + read_at_b], both) == set()
    assert never_meeting([i, j + read_at_a], both) == both
    assert never_meeting([j + read_at_b], both) == set()


def test_an_index_array_that_does_not_count_is_read_as_a_whole() -> None:
    def f(i: Any) -> Any:
        return [i + 3, fnp.arange(4), fnp.clip(i[0], 0, 9) + fnp.arange(4)]

    graph = trace("jit", f, [aval_of(LANES[:4])])
    at = range_index(0, 4)
    plan = FusionPlan([])
    read, counts, both = (
        position_of(n, (at,), ALWAYS, 9, plan.number_of) for n in graph.outputs
    )
    (value,) = read.where.terms
    assert not read.counts
    assert plan.reading(value).array is graph.outputs[0]
    assert counts == (at, True)
    assert both.counts
    assert both.where - at == index_of_atom(values_in([both.where])[0])


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_values_are_between_the_limits(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(["int8", "uint8", "int32"]))
    info = np.iinfo(dtype)
    value = st.integers(int(info.min), int(info.max))
    small = st.integers(0, 60)
    xs = np.array(data.draw(st.lists(value, min_size=5, max_size=5)), dtype)
    steps = data.draw(
        st.lists(
            st.tuples(
                st.sampled_from(["add", "sub", "mul", "min", "max", "where", "iota"]),
                small,
            ),
            max_size=5,
        )
    )

    def f(x: Any) -> Any:
        y = x
        for name, number in steps:
            k = fnp.asarray(number, dtype)
            y = {
                "add": lambda y=y, k=k: y + k,
                "sub": lambda y=y, k=k: y - k,
                "mul": lambda y=y, k=k: y * k,
                "min": lambda y=y, k=k: fnp.minimum(y, k),
                "max": lambda y=y, k=k: fnp.maximum(y, k),
                "where": lambda y=y, k=k: fnp.where(y < k, y + k, y),
                "iota": lambda y=y: y + fnp.arange(5, dtype=dtype),
            }[name]()
        return [y]

    graph = trace("jit", f, [aval_of(xs)])
    low, high = values_of(graph.outputs[0])
    (found,) = evaluate_graph(graph, xs)
    assert low <= int(np.min(found))
    assert int(np.max(found)) <= high
