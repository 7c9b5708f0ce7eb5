"""Indexing: JAX's values and dtypes; NumPy's for random indices; modes; messages."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.errors import (
    ArgumentError,
    ConcretizationTypeError,
    DtypeError,
    ImmutableError,
    IndexBoundsError,
    NonConcreteBooleanIndexError,
    ShapeError,
    ValueRangeError,
)
from ftrace.numpy import indexing
from ftrace.trace.evaluate import evaluate_graph
from ftrace.trace.tracing.trace import trace
from ftrace.trace.tracing.tracer import aval_of
from tests.support.recorded_values import PARTS, check_part
from tests.support.refusals import refuses


@pytest.mark.filterwarnings("ignore:scatter inputs:FutureWarning")
@pytest.mark.parametrize("part", range(PARTS))
def test_index_gives_what_jax_gives_and_the_same_traced(part: int) -> None:
    check_part("indexing", part)


SHAPE = (3, 4, 2, 5)
VALUES = np.arange(120, dtype="int32").reshape(SHAPE)


@st.composite
def random_index(draw: Any) -> tuple[Any, ...]:
    """A valid index of SHAPE: integers, slices, None, Ellipsis, arrays, masks."""
    count = draw(st.integers(0, 4))
    batch = draw(st.sampled_from([(), (2,), (1,), (3, 2)]))
    parts: list[Any] = []
    sizes = list(SHAPE[:count])
    while sizes:
        size = sizes.pop(0)
        match draw(st.sampled_from("isamnM" if sizes else "isamn")):
            case "M":
                covered = size * sizes[0]
                flags = np.arange(covered) < (batch or (1,))[-1]
                mixed = draw(st.permutations(flags.tolist()))
                parts.append(np.array(mixed).reshape(size, sizes.pop(0)))
            case "i":
                parts.append(draw(st.integers(-size, size - 1)))
            case "s":
                bound = st.none() | st.integers(-size - 1, size + 1)
                step = st.none() | st.sampled_from([1, 2, -1, -2, 3])
                parts.append(slice(draw(bound), draw(bound), draw(step)))
            case "a":
                numbers = st.integers(-size, size - 1)
                shape = draw(st.sampled_from([batch, batch[-1:]]))
                flat = draw(st.lists(numbers, min_size=6, max_size=6))
                parts.append(np.array(flat)[: int(np.prod(shape))].reshape(shape))
            case "m":
                flags = np.zeros(size, bool)
                flags[: (batch or (1,))[-1]] = True
                parts.append(draw(st.permutations(flags.tolist()).map(np.array)))
            case _:
                parts.append(slice(None))
    if draw(st.booleans()):
        rest = len(parts)
        parts.insert(draw(st.integers(0, rest)), None)
    if count == 4 and draw(st.booleans()):
        # Ellipsis stands where nothing is missing; it still parts the arrays.
        parts.insert(draw(st.integers(0, len(parts))), Ellipsis)
    return tuple(parts)


def numpy_reads(index: Any) -> Any:
    """NumPy's answer; None where the index arrays do not broadcast."""
    try:
        return VALUES[index]
    except IndexError:
        return None


@settings(max_examples=150)
@given(random_index())
def test_reading_agrees_with_numpy(index: tuple[Any, ...]) -> None:
    wanted = numpy_reads(index)
    if wanted is None:
        return
    x = fnp.asarray(VALUES)
    np.testing.assert_array_equal(x[index], wanted)
    graph = trace("jit", lambda v: [v[index]], [aval_of(x)])
    (traced,) = evaluate_graph(graph, VALUES)
    np.testing.assert_array_equal(traced, wanted)
    assert traced.shape == wanted.shape


UFUNCS: dict[str, Any] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "multiply": np.multiply,
}


def traceable(index: tuple[Any, ...]) -> list[int]:
    """Where an index has integers or arrays of them."""
    return [
        i
        for i, part in enumerate(index)
        if isinstance(part, (int, np.ndarray)) and np.asarray(part).dtype != bool
    ]


@settings(max_examples=150)
@given(random_index())
def test_reading_with_traced_indices_agrees_with_numpy(index: tuple[Any, ...]) -> None:
    wanted = numpy_reads(index)
    if wanted is None:
        return
    places = traceable(index)
    arrays = [np.asarray(index[i], "int32") for i in places]
    x = fnp.asarray(VALUES)

    def function(v: Any, *indices: Any) -> list[Any]:
        parts = list(index)
        for i, traced in zip(places, indices, strict=True):
            parts[i] = traced
        return [v[tuple(parts)]]

    graph = trace("jit", function, [aval_of(a) for a in (x, *arrays)])
    (traced,) = evaluate_graph(graph, VALUES, *arrays)
    np.testing.assert_array_equal(traced, wanted)
    assert traced.shape == wanted.shape


def numpy_updates(index: tuple[Any, ...], kind: str) -> Any:
    """What is put at an index, and what VALUES become; None for a wrong index."""
    place = numpy_reads(index)
    if place is None:
        return None
    new = (np.arange(place.size, dtype="int32") % 7 + 1).reshape(place.shape)
    wanted = VALUES.copy()
    if kind == "set":
        wanted[index] = new
    else:
        UFUNCS[kind].at(wanted, index, new)
    return new, wanted


@settings(max_examples=150)
@given(random_index(), st.sampled_from(["set", "add", "max", "multiply"]))
def test_updates_with_traced_indices_agree_with_numpy(
    index: tuple[Any, ...], kind: str
) -> None:
    updated = numpy_updates(index, kind)
    if updated is None:
        return
    new, wanted = updated
    places = traceable(index)
    arrays = [np.asarray(index[i], "int32") for i in places]

    def function(v: Any, u: Any, *indices: Any) -> list[Any]:
        parts = list(index)
        for i, traced in zip(places, indices, strict=True):
            parts[i] = traced
        return [getattr(v.at[tuple(parts)], kind)(u)]

    graph = trace("jit", function, [aval_of(a) for a in (VALUES, new, *arrays)])
    (traced,) = evaluate_graph(graph, VALUES, new, *arrays)
    np.testing.assert_array_equal(traced, wanted)


@settings(max_examples=150)
@given(random_index(), st.sampled_from(["set", "add", "min", "multiply"]))
def test_updates_agree_with_numpy(index: tuple[Any, ...], kind: str) -> None:
    updated = numpy_updates(index, kind)
    if updated is None:
        return
    new, wanted = updated
    x = fnp.asarray(VALUES)
    np.testing.assert_array_equal(getattr(x.at[index], kind)(new), wanted)
    graph = trace(
        "jit", lambda v, u: [getattr(v.at[index], kind)(u)], [aval_of(x), aval_of(new)]
    )
    (traced,) = evaluate_graph(graph, VALUES, new)
    np.testing.assert_array_equal(traced, wanted)
    np.testing.assert_array_equal(x, np.arange(120).reshape(SHAPE))


def test_a_slice_is_movement_alone_and_a_known_index_needs_no_mask() -> None:
    x = aval_of(fnp.ones((4, 6)))
    moved = trace("jit", lambda v: [v[1:3, ::-2, None]], [x])
    assert {n.op.family for n in moved.nodes} == {"source", "movement"}
    known = trace("jit", lambda v: [v[fnp.arange(3)]], [x])
    assert {n.op.name for n in known.nodes} == {"variable", "iota", "gather"}


def test_modes_inside_jit() -> None:
    x, at = fnp.arange(3.0), fnp.array([-1, -4, 5])
    np.testing.assert_array_equal(ft.jit(lambda v, i: v[i])(x, at), [2, 0, 2])
    filled = ft.jit(lambda v, i: v.at[i].get(mode="fill", fill_value=9.0))(x, at)
    np.testing.assert_array_equal(filled, [2, 9, 9])
    taken = ft.jit(fnp.take)(x, at)
    np.testing.assert_array_equal(taken, [2, np.nan, np.nan])
    dropped = ft.jit(lambda v, i: v.at[i].set(7.0))(x, at)
    np.testing.assert_array_equal(dropped, [0, 1, 7])
    clipped = ft.jit(lambda v, i: v.at[i].add(1.0, mode="clip"))(x, at)
    np.testing.assert_array_equal(clipped, [1, 1, 4])
    wrapped = fnp.take_along_axis(x, at, 0, "fill", 9.0, wrap_negative_indices=False)
    np.testing.assert_array_equal(wrapped, [9, 9, 9])
    listed = ft.jit(lambda v, i: v[[i, 0]])(x, 2)
    np.testing.assert_array_equal(listed, [2, 0])
    captured = ft.jit(lambda i: x[[i, 0]] + x.at[[0, i]].set(5.0)[:2])(2)
    np.testing.assert_array_equal(captured, [7, 1])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int64", "uint32"])
def test_narrow_and_wide_index_dtypes(dtype: str) -> None:
    x = fnp.arange(300.0)
    at = np.array([0, 100, -1 if dtype[0] == "i" else 7], dtype)
    read = ft.jit(lambda v, i: v[i])
    np.testing.assert_array_equal(read(x, at), np.arange(300.0)[at])
    np.testing.assert_array_equal(x[at], np.arange(300.0)[at])


def test_masks_that_are_traced_update_by_where() -> None:
    x = fnp.arange(6.0).reshape(2, 3)
    zeroed = ft.jit(lambda v: v.at[v > 2].set(0))(x)
    np.testing.assert_array_equal(zeroed, [[0, 1, 2], [0, 0, 0]])
    rows = ft.jit(lambda v: v.at[v[:, 0] > 0].add(fnp.arange(3.0)))(x)
    np.testing.assert_array_equal(rows, [[0, 1, 2], [3, 5, 7]])
    roots = ft.jit(lambda v: v.at[v > 3].apply(fnp.square))(x)
    np.testing.assert_array_equal(roots, [[0, 1, 2], [3, 16, 25]])
    one = ft.jit(lambda v: v.at[v > 3].divide(v[:1, :1] + 2))(x)
    np.testing.assert_array_equal(one, [[0, 1, 2], [3, 2, 2.5]])


@pytest.mark.parametrize(
    "kind", ["set", "add", "subtract", "multiply", "divide", "power", "min", "max"]
)
def test_lists_are_put_as_their_array(kind: str) -> None:
    def update(x: Any, values: Any) -> Any:
        return getattr(x.at[:2], kind)(values)

    def of_list(x: Any) -> Any:
        return update(x, [2, (x[0] + 1)])

    def of_array(x: Any) -> Any:
        return update(x, fnp.stack([fnp.full_like(x[0], 2), x[0] + 1]))

    x, rows = fnp.arange(1.0, 4), fnp.arange(1.0, 7).reshape(2, 3)
    for way in (lambda f: f, ft.jit, ft.jacobian):
        np.testing.assert_array_equal(way(of_list)(x), way(of_array)(x))
    np.testing.assert_array_equal(ft.vmap(of_list)(rows), ft.vmap(of_array)(rows))
    for values in [5, np.int8(1)], (True, 2.5), [[3, 4]], range(2):
        put = update(x, values)
        np.testing.assert_array_equal(put, update(x, fnp.array(values)))
    with refuses(ArgumentError, rf"^at\[\].{kind[:3]}\w*: None of type"):
        update(x, [1, None])
    with refuses(ArgumentError, rf"^at\[\].{kind[:3]}\w*: 'ab' of type str"):
        update(x, "ab")


def test_masks_work_in_gradients_that_are_not_jitted() -> None:
    slope = ft.grad(lambda v: (v[v > 1] ** 2).sum())(fnp.arange(4.0))
    np.testing.assert_array_equal(slope, [0, 0, 4, 6])


def test_large_masks_are_left_to_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their positions are not counted first to see whether there is room."""
    x = np.arange(1 << 21, dtype=np.float32).reshape(1 << 10, -1) % 7
    wanted = x[x > 3], x[x[:, 0] > 3]

    def refuse(*_: Any) -> None:
        raise AssertionError("taken apart")

    monkeypatch.setattr(indexing, "parse_and_check", refuse)
    given = fnp.asarray(x)
    np.testing.assert_array_equal(given[given > 3], wanted[0])
    np.testing.assert_array_equal(given[given[:, 0] > 3], wanted[1])


def test_derivatives_of_reading_and_updating() -> None:
    x, at = fnp.arange(4.0), fnp.array([1, 1, 3])
    slope = ft.grad(lambda v: (v[at] * fnp.array([1.0, 10.0, 100.0])).sum())(x)
    np.testing.assert_array_equal(slope, [0, 11, 0, 100])
    slope = ft.grad(lambda u: x.at[at[1:]].set(u).prod())(fnp.array([2.0, 5.0]))
    np.testing.assert_array_equal(slope, [0, 0])
    slope = ft.grad(lambda v: (v.at[1:3].set(7.0) ** 2).sum())(x)
    np.testing.assert_array_equal(slope, [0, 0, 0, 6])


def test_iteration_and_unpacking() -> None:
    a, b = fnp.arange(4.0).reshape(2, 2)
    assert (a + b).tolist() == [2, 4]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: x[9], IndexBoundsError, "index 9 is out of bounds for axis 0"),
        (lambda x: x[0, -7], IndexBoundsError, "axis 1 of size 3"),
        (lambda x: x[0, 0, 0], IndexBoundsError, "too many indices"),
        (lambda x: x[..., ...], IndexBoundsError, "only one Ellipsis"),
        (lambda x: x[1.0], DtypeError, "an integer or bool"),
        (lambda x: x["a"], DtypeError, "an integer or bool"),
        (lambda x: x[fnp.ones(2)], DtypeError, "an integer or bool"),
        (lambda x: x[:: fnp.array(0)], ValueRangeError, "step"),
        (lambda x: x["a":], DtypeError, "bounds of a slice"),
        (
            lambda x: x[np.array([True] * 5)],
            IndexBoundsError,
            r"\(5,\).* axis 0 of size 2",
        ),
        (lambda x: x[:, [True, False]], IndexBoundsError, r"\(2,\).*axis 1 of size 3"),
        (lambda x: x[fnp.array([0, 1]), np.arange(3)], ShapeError, "do not broadcast"),
        (lambda x: x.at[0].set(fnp.ones(4)), ShapeError, r"^at\[\].set: values of"),
        (lambda x: x.at[9].add(1), IndexBoundsError, "index 9"),
        (lambda x: x.at[0].set(1, mode="no"), ValueRangeError, "mode must be"),
        (lambda x: x.__setitem__(0, 1), ImmutableError, r"x.at\[i\].set"),
        (lambda x: fnp.put(x, 0, 1), ValueRangeError, "inplace=False"),
        (
            lambda x: fnp.take_along_axis(x, fnp.arange(2), 1),
            ShapeError,
            "as many axes",
        ),
        (lambda x: fnp.compress(x, x), ShapeError, "must be a vector"),
    ],
)
def test_bad_input_is_named(call: Any, error: type[Exception], message: str) -> None:
    with refuses(error, message):
        call(fnp.ones((2, 3)))
    with refuses(error, message):
        trace("jit", lambda v: [call(v)], [aval_of(fnp.ones((2, 3)))])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x, i: x[fnp.array([5])], IndexBoundsError, "index 5"),
        (lambda x, i: x.at[np.array([5])].set(0), IndexBoundsError, "give a mode"),
        (lambda x, i: fnp.take(x, 5), IndexBoundsError, "out of bounds"),
    ],
)
def test_eager_arrays_of_indices_are_checked(
    call: Any, error: type[Exception], message: str
) -> None:
    with refuses(error, message):
        call(fnp.arange(3.0), 1)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x, i: x[x > i], NonConcreteBooleanIndexError, "write where"),
        (lambda x, i: x[i:], IndexBoundsError, "lax.dynamic_slice"),
        (lambda x, i: fnp.nonzero(x), ConcretizationTypeError, "size=n"),
        (lambda x, i: x.at[x > 1].set(x), NonConcreteBooleanIndexError, "where"),
        (
            lambda x, i: fnp.repeat(x, x.astype(int)),
            ConcretizationTypeError,
            "total_repeat_length",
        ),
    ],
)
def test_what_needs_values_says_what_to_write(
    call: Any, error: type[Exception], message: str
) -> None:
    with refuses(error, message):
        ft.jit(call)(fnp.arange(3.0), 1)


@pytest.mark.parametrize(
    ("shape", "axis", "positions"),
    [
        ((5,), None, [0, 5, 2, 2, -1]),
        ((5,), 0, 3),
        ((2, 3), 1, [3, 0]),
        ((2, 3), 0, -1),
        ((2, 3), None, [1, 1]),
        ((0,), 0, [0, 0]),
    ],
)
def test_insert_at_traced_positions_is_that_at_known_ones(
    shape: Any, axis: int | None, positions: Any
) -> None:
    x = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    at = np.array(positions, "int32")
    new = np.arange(at.size, dtype="float32") + 10 if axis is None else 7.0
    found = ft.jit(lambda v, i: fnp.insert(v, i, new, axis))(x, at)
    np.testing.assert_array_equal(found, np.insert(x, at, new, axis))


def test_delete_at_a_traced_position_is_that_at_a_known_one() -> None:
    x = np.arange(6.0, dtype="float32").reshape(2, 3)
    deleted = ft.jit(lambda v, i: fnp.delete(v, i, 1))
    for position in (0, 1, 2, -1):
        np.testing.assert_array_equal(deleted(x, position), np.delete(x, position, 1))


def test_take_reads_bools_as_numbers() -> None:
    x, at = fnp.array([2.0, 3.0, 5.0]), np.array([True, False])
    for take in (fnp.take, ft.jit(fnp.take)):
        np.testing.assert_array_equal(take(x, at), np.take(np.asarray(x), at))


@pytest.mark.parametrize("value", [2**64 - 1, 2**63, 2**63 + 2])
def test_indices_that_int64_does_not_hold_are_out_of_bounds(value: int) -> None:
    x = fnp.arange(5.0)
    one = fnp.asarray(np.uint64(value))
    several = fnp.asarray(np.array([1, value, 2], np.uint64))
    reads = (
        (4.0, lambda v, i: v[i]),
        (-1.0, lambda v, i: v.at[i].get(mode="fill", fill_value=-1)),
    )
    for _ in range(12):
        for index in (one, several, np.asarray(several), value, np.uint64(value)):
            with pytest.raises(IndexBoundsError):
                x[index]
            with pytest.raises(IndexBoundsError):
                x.at[index].set(9.0)
        with pytest.raises(IndexBoundsError):
            fnp.take_along_axis(x, several, 0)
    for outside, read in reads:
        for index, wanted in ((one, outside), (several, [1.0, outside, 2.0])):
            assert ft.jit(read)(x, index).tolist() == wanted
            assert ft.jit(partial(read, i=index))(x).tolist() == wanted


@pytest.mark.parametrize("value", [2**64 - 1, 2**63, 2**63 + 2])
@pytest.mark.parametrize("kind", ["set", "add", "multiply", "max"])
def test_updates_where_int64_does_not_reach_are_dropped(kind: str, value: int) -> None:
    def update(v: Any, i: Any) -> Any:
        return getattr(v.at[i], kind)(9.0)

    x = fnp.arange(5.0)
    one = fnp.asarray(np.uint64(value))
    several = fnp.asarray(np.array([1, value, 2], np.uint64))
    wanted = update(x, fnp.array([1, 2])).tolist()
    assert ft.jit(update)(x, several).tolist() == wanted
    assert ft.jit(partial(update, i=several))(x).tolist() == wanted
    assert ft.jit(update)(x, one).tolist() == x.tolist()
    assert ft.jit(partial(update, i=one))(x).tolist() == x.tolist()


def test_bools_are_numbers_where_places_are_put() -> None:
    def put(a: Any, places: Any) -> Any:
        return fnp.put(a, places, np.array([5, 6, 7]), inplace=False)

    places = np.array([True, False, True])
    for call in put, ft.jit(put):
        np.testing.assert_array_equal(call(np.zeros(3), places), [6, 7, 0])


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64", "uint64"])
@pytest.mark.parametrize("mode", ["raise", "clip"])
def test_positions_in_a_flat_array_are_integers_that_hold_them(
    dtype: str, mode: str
) -> None:
    places = (np.array([150, 3], dtype), np.array([150, 7], dtype))
    found = fnp.ravel_multi_index(places, (200, 200), mode=mode)
    assert fnp.issubdtype(found.dtype, fnp.integer)
    np.testing.assert_array_equal(found, [30150, 607])


@pytest.mark.filterwarnings("ignore:scatter inputs:FutureWarning")
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint64"])
def test_updates_of_integers_by_floats_are_computed_in_floats(dtype: str) -> None:
    x = fnp.array([1, 2, 3], dtype)
    for update, wanted in (
        (lambda x, u: x.at[1:].multiply(u), [1, 5, 8]),
        (lambda x, u: x.at[np.array([1, 2])].multiply(u), [1, 5, 8]),
        (lambda x, u: x.at[0].add(u), [3, 2, 3]),
    ):
        for found in (
            *[update(x, 2.7) for _ in range(9)],
            ft.jit(update)(x, 2.7),
            ft.jit(lambda x, update=update: update(x, 2.7))(x),
        ):
            assert found.dtype == x.dtype
            np.testing.assert_array_equal(found, wanted)


def test_getitem_takes_arrays_of_numpy_as_ours() -> None:
    x = np.arange(3)
    assert int(fnp.getitem(x, 2)) == 2
    with pytest.raises(IndexBoundsError, match="index 9 is out of bounds"):
        fnp.getitem(x, np.array([0, 9]))


def test_apply_counts_repeats_of_traced_indices() -> None:
    def f(x: Any, i: Any, k: Any = 2.0) -> Any:
        return x.at[i].apply(lambda v: v * k)

    x, i = fnp.arange(1.0, 4.0), fnp.array([0, 0, 1, -3, 7])
    for g in (ft.jit(f), lambda x, i, k: f(x, i[:4], k)):
        assert g(x, i, 2.0).tolist() == [8, 4, 3]
        assert ft.grad(lambda x, k, g=g: g(x, i, k).sum(), 1)(x, 2.0) == 3 * 2**2 + 2
    rows = ft.vmap(f, (None, 0))(x, fnp.array([[0, 0], [1, 2]]))
    assert rows.tolist() == [[4, 2, 3], [1, 4, 6]]
    once = ft.jit(lambda x, i: x.at[i].apply(fnp.square, unique_indices=True))
    assert once(x, fnp.array([1, 1])).tolist() == [1, 4, 3]


def test_an_update_takes_all_numbers_that_its_array_holds() -> None:
    with ft.config(jax_enable_x64=False):
        x = fnp.zeros(1, "uint32")
        assert x.at[0].set(2**32 - 1).tolist() == [2**32 - 1]
        assert ft.jit(lambda x: x.at[0].max(2**32 - 1))(x).tolist() == [2**32 - 1]
