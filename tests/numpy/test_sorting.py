"""Sorting, quantiles, sets, histograms, random orders: values, derivatives, batching.

The values are those of JAX: data/sorting_cases.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

import ftrace as ft
import ftrace.lax as lax
import ftrace.numpy as fnp
from ftrace import dtypes, errors
from ftrace.lower.program import CallHost
from ftrace.numpy.distributions import METHODS
from ftrace.test_util import check_grads
from ftrace.trace.evaluate import evaluate_graph
from ftrace.trace.primitives.library import sorting
from ftrace.trace.pytree import tree
from ftrace.trace.tracing.trace import trace
from ftrace.trace.tracing.tracer import aval_of
from tests.support import ordered_effects
from tests.support.covering import covering

CASES = [
    e for e in ordered_effects.RECORDED if "cum" not in e and "associative" not in e
]
#: How many elements these have depends on values.
EAGER = {
    e for e in CASES
    if any(f"n.{name}" in e for name in (
        "unique", "union1d", "intersect1d", "setdiff1d", "setxor1d", "nonzero",
        "argwhere", "bincount",
    ))
    and "size=" not in e and ", length=" not in e
}  # fmt: skip

#: Distinct numbers, far apart for finite differences.
DISTINCT = (np.random.default_rng(5).permutation(40).reshape(4, 10) / 4 - 4.9).astype(
    np.float32
)
TIED = (np.random.default_rng(6).integers(-2, 3, (4, 10)) / 2).astype(np.float32)


@pytest.mark.parametrize("expression", CASES)
def test_values_are_those_of_jax(expression: str) -> None:
    ordered_effects.check_recorded(expression)


@pytest.mark.parametrize("expression", [e for e in CASES if e not in EAGER])
def test_traced_values_are_those_of_jax(expression: str) -> None:
    ordered_effects.check_traced(expression)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "sort": fnp.sort,
    "sort_first_axis": lambda x: fnp.sort(x, 0),
    "sort_descending": lambda x: fnp.sort(x, None, descending=True),
    "sort_pair": lambda x: lax.sort((x, x * 3), dimension=0),
    "sort_by_two": lambda x: lax.sort((fnp.floor(x), -x, x * x), num_keys=2)[2],
    "key_val": lambda x: lax.sort_key_val(-x, x * x)[1],
    "partition": lambda x: fnp.partition(x, 2),
    "top_k": lambda x: lax.top_k(x, 3)[0],
    "top_k_first_axis": lambda x: lax.top_k(x, 2, axis=0)[0],
    "approx_min_k": lambda x: lax.approx_min_k(x, 3)[0],
    "median": lambda x: fnp.median(x, -1),
    "quantile": lambda x: fnp.quantile(x, fnp.array([0.2, 0.7]), 0),
    "nanquantile": lambda x: fnp.nanquantile(x, 0.4),
    "unique": lambda x: fnp.unique(x, size=12),
    "histogram": lambda x: fnp.histogram(x * 0 + 0.1, 3, (-1, 1), weights=x)[0],
}
INTEGERS: dict[str, Callable[[Any], Any]] = {
    "argsort": fnp.argsort,
    "argsort_descending": lambda x: fnp.argsort(x, 0, descending=True),
    "lexsort": lambda x: fnp.lexsort((x, fnp.floor(x))),
    "argpartition": lambda x: fnp.argpartition(x, 3),
    "top_k": lambda x: lax.top_k(x, 4)[1],
    "searchsorted": lambda x: fnp.searchsorted(fnp.arange(-3.0, 4.0), x),
    "digitize": lambda x: fnp.digitize(x, fnp.array([2.0, 0.0, -1.0])),
    "unique": lambda x: fnp.unique(x, True, True, True, size=9)[1:],
    "isin": lambda x: fnp.isin(x, fnp.arange(-9.0, 9.0)),
    "histogram": lambda x: fnp.histogram(x, 4, (-2, 2)),
    "bincount": lambda x: fnp.bincount((x.ravel() * 2).astype(int), length=5),
    "nonzero": lambda x: fnp.nonzero(x, size=20, fill_value=-1),
    "intersect": lambda x: fnp.intersect1d(x[0], x[1], return_indices=True, size=4),
    "setdiff": lambda x: fnp.setdiff1d(x[0], x[1], size=6),
    "setxor": lambda x: fnp.setxor1d(x[0], x[1], size=6),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_are_finite_differences(name: str) -> None:
    with ft.disable_jit():
        check_grads(FUNCTIONS[name], (DISTINCT,), 2)


@pytest.mark.parametrize("method", METHODS)
def test_derivatives_of_each_method_are_finite_differences(method: str) -> None:
    def function(x: Any) -> Any:
        return fnp.quantile(x, fnp.array([0.21, 0.64]), 1, method=method)

    with ft.disable_jit():
        check_grads(function, (DISTINCT,), 1)


@pytest.mark.parametrize("name", [*FUNCTIONS, *(f"int {n}" for n in INTEGERS)])
def test_vmap_is_a_loop(name: str) -> None:
    whole = INTEGERS[name[4:]] if name.startswith("int ") else FUNCTIONS[name]
    lanes = np.stack([TIED, DISTINCT, -DISTINCT])
    with ft.disable_jit():
        ordered_effects.check_batched(whole, lanes)


@pytest.mark.parametrize("name", [*FUNCTIONS, *(f"int {n}" for n in INTEGERS)])
def test_devices_agree_under_jit(name: str, device: Any) -> None:
    function = INTEGERS[name[4:]] if name.startswith("int ") else FUNCTIONS[name]
    with ft.disable_jit():
        wanted = tree.leaves(function(fnp.asarray(TIED)))
    found = tree.leaves(ft.jit(function)(TIED))
    for value, expected in zip(found, wanted, strict=True):
        ordered_effects.close(value, expected)


@pytest.mark.parametrize("name", ["sort", "sort_pair", "top_k", "median", "quantile"])
def test_devices_agree_on_gradients_and_lanes(name: str, device: Any) -> None:
    def slope(x: Any) -> Any:
        leaves = tree.leaves(FUNCTIONS[name](x))
        return sum((leaf * leaf).sum() for leaf in leaves)

    lanes = np.stack([TIED, DISTINCT])
    with ft.disable_jit():
        wanted = [np.asarray(ft.grad(slope)(x)) for x in lanes]
    ordered_effects.close(ft.jit(ft.vmap(ft.grad(slope)))(lanes), np.stack(wanted))


def test_a_sort_inside_a_loop_runs_on_every_device(device: Any) -> None:
    def step(carry: Any, _: Any) -> tuple[Any, Any]:
        return fnp.sort(carry * fnp.array([1.0, -2.0, 0.5])), carry[0]

    start = np.array([1, 2, 3], np.float32)
    last, firsts = ft.jit(lambda x: lax.scan(step, x, None, length=4))(start)
    expected: list[Any] = []
    for _ in range(4):
        expected.append(start[0])
        start = np.sort(start * np.array([1.0, -2.0, 0.5], np.float32))
    ordered_effects.close(last, start)
    ordered_effects.close(firsts, expected)


# NumPy's order, for any shape and value.

DTYPES = [
    np.dtype(t) for t in (
        "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64",
        "uint64", "float16", "float32", "float64", ml_dtypes.bfloat16,
    )
]  # fmt: skip
VALUES = st.sampled_from([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.5, 2.0, 300.0])


@st.composite
def arrays(draw: st.DrawFn) -> tuple[Any, int]:
    """An array of any dtype with ties and special values, and an axis."""
    dtype = draw(st.sampled_from(DTYPES))
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=7))
    size = int(np.prod(shape))
    if dtype.kind in "fV":
        values: Any = draw(st.lists(VALUES, min_size=size, max_size=size))
    elif dtype.kind == "b":
        values = draw(st.lists(st.booleans(), min_size=size, max_size=size))
    else:
        info = np.iinfo(dtype)
        edge = st.sampled_from([info.min, info.max, 0, 1, 2])
        values = draw(st.lists(edge, min_size=size, max_size=size))
    array = np.array(values, np.float64 if dtype.kind in "fV" else dtype)
    return array.astype(dtype).reshape(shape), draw(st.integers(0, len(shape) - 1))


def _bits(x: Any) -> Any:
    """NaN as one number, all else as it is, signs of zeros included."""
    array = np.asarray(x)
    if array.dtype.kind not in "fV":
        return array
    wide = array.astype(np.float64)
    return np.where(np.isnan(wide), np.nan, wide).view(np.int64)


@given(arrays())
def test_sorts_are_stable_with_nan_last(case: tuple[Any, int]) -> None:
    x, axis = case
    key = x.astype(np.float64) if x.dtype.kind in "fV" else x
    places = np.argsort(key, axis, kind="stable")
    np.testing.assert_array_equal(sorting.argsort(axis, x), places)
    ordered_values = np.take_along_axis(x, places, axis)
    np.testing.assert_array_equal(
        _bits(sorting.sort_values(axis, x)), _bits(ordered_values)
    )


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("rows", [1, 2])
def test_negative_zeros_survive_sorts_of_all_lengths(rows: int, dtype: Any) -> None:
    """NumPy's vector code makes zeros of them, where there are enough elements."""
    rng = np.random.default_rng(0)
    values = np.array([np.nan, 0.0, -0.0, 1, -1, np.inf], dtype)
    for size in [*range(1, 300), 1500, 5000]:
        x = values[rng.integers(0, 6, (rows, size))]
        x[:, 1::2] = -1
        places = np.argsort(x, -1, kind="stable")
        wanted = _bits(np.take_along_axis(x, places, -1))
        np.testing.assert_array_equal(_bits(sorting.sort_values(1, x)), wanted)
        np.testing.assert_array_equal(_bits(fnp.sort(x)), wanted)


@given(arrays(), st.integers(0, 3))
def test_lexicographic_sorts_refine_each_other(
    case: tuple[Any, int], seed: int
) -> None:
    x, axis = case
    second = np.random.default_rng(seed).integers(0, 3, x.shape).astype(np.int8)
    key = x.astype(np.float64) if x.dtype.kind in "fV" else x
    by_second = np.argsort(second, axis, kind="stable")
    by_both = np.argsort(np.take_along_axis(key, by_second, axis), axis, kind="stable")
    wanted = np.take_along_axis(by_second, by_both, axis)
    np.testing.assert_array_equal(sorting.argsort(axis, x, second), wanted)


@given(arrays(), st.data())
def test_top_positions_are_the_first_of_a_descending_sort(
    case: tuple[Any, int], data: st.DataObject
) -> None:
    x, axis = case
    count = data.draw(st.integers(0, x.shape[axis]))
    largest = data.draw(st.booleans())
    places = sorting.top_positions(sorting.TopK(count, axis, largest), x)
    assert places.shape == (*x.shape[:axis], count, *x.shape[axis + 1 :])
    if places.size == 0:
        return
    taken = np.moveaxis(np.take_along_axis(x, places, axis), axis, -1)
    rows = np.moveaxis(x, axis, -1).reshape(-1, x.shape[axis])
    indices = np.moveaxis(places, axis, -1).reshape(-1, count)
    for row, chosen, found in zip(rows, taken.reshape(-1, count), indices, strict=True):

        def rank(i: int, row: Any = row) -> Any:
            if row.dtype.kind not in "fV":
                key = (int(row[i]),)
            else:
                value = float(row[i])
                missing = value != value
                key = (missing, 0 if missing else value, not np.signbit(value))
            sign = -1 if largest else 1
            return (*[sign * part for part in key], i)

        expected = sorted(range(row.size), key=rank)[:count]
        assert list(found) == expected
        np.testing.assert_array_equal(_bits(chosen), _bits(row[expected]))


@given(st.integers(0, 5), st.booleans(), st.integers(1, 40))
def test_the_least_of_long_rows_are_those_of_a_sort(
    seed: int, largest: bool, count: int
) -> None:
    x = np.random.default_rng(seed).integers(-30, 30, (2, 5000)).astype(np.float32)
    keys = -x if largest else x
    wanted = np.argsort(keys, -1, kind="stable")[:, :count]
    np.testing.assert_array_equal(
        sorting.top_positions(sorting.TopK(count, 1, largest), x), wanted
    )


@given(arrays(), st.sampled_from(["left", "right"]))
def test_searches_of_arrays_and_of_tracers_agree(
    case: tuple[Any, int], side: str
) -> None:
    x = case[0]
    a = sorting.sort_values(0, x.ravel())
    found = fnp.searchsorted(fnp.asarray(a), fnp.asarray(x), side)
    graph = trace(
        "test", lambda a, v: [fnp.searchsorted(a, v, side)], [aval_of(a), aval_of(x)]
    )
    (traced,) = evaluate_graph(graph, a, x)
    np.testing.assert_array_equal(np.asarray(found), traced)
    assert found.dtype == traced.dtype == np.int32
    assert found.shape == x.shape


@given(arrays())
def test_unique_agrees_with_numpy(case: tuple[Any, int]) -> None:
    x, _ = case
    if x.dtype.kind == "V":
        return
    found = fnp.unique(fnp.asarray(x), True, True, True)
    wanted = np.unique(x, True, True, True)
    for value, expected in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(value), expected)


@given(arrays())
def test_unique_without_places_has_the_same_values(case: tuple[Any, int]) -> None:
    x, _ = case
    if x.dtype.kind == "V" or not x.size:
        return
    values, counts = np.unique(x, return_counts=True)
    found = fnp.unique(fnp.asarray(x), return_counts=True)
    for got, want in zip(found, (values, counts), strict=True):
        np.testing.assert_array_equal(np.asarray(got), want)
    size = len(values)
    traced = ft.jit(lambda x: fnp.unique(x, size=size + 1))(x)
    np.testing.assert_array_equal(np.asarray(traced)[:size], values)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("skip", [False, True])
@given(st.integers(1, 9), st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.73, 1.0]))
def test_quantiles_agree_with_numpy(
    method: str, skip: bool, size: int, q: float
) -> None:
    x = (np.arange(3 * size) * 7 % 11).astype(np.float64).reshape(3, size)
    if skip:
        x[0, 0] = np.nan
    name = "nanquantile" if skip else "quantile"
    wanted = getattr(np, name)(x, q, axis=1, method=method)
    found = np.asarray(getattr(fnp, name)(fnp.asarray(x), q, 1, method=method))
    if method == "nearest":  # halves go down, as in JAX; in NumPy to the even place
        sides = [
            getattr(np, name)(x, q, axis=1, method=side) for side in ("lower", "higher")
        ]
        with np.errstate(invalid="ignore"):
            near = [np.isclose(found, side, equal_nan=True) for side in sides]
        assert np.logical_or(*near).all()
        return
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


def test_a_permutation_holds_every_element_once() -> None:
    key = ft.random.key(9)
    for size in (0, 1, 2, 500):
        found = np.asarray(ft.random.permutation(key, size))
        np.testing.assert_array_equal(np.sort(found), np.arange(size))


def _traced(function: Callable[..., Any]) -> Callable[[], Any]:
    return lambda: ft.jit(function)(fnp.arange(4))


X = fnp.arange(6.0).reshape(2, 3)
WRONG: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: fnp.sort(X, 2), errors.AxisError, "axis 2 is out of bounds"),
    (lambda: fnp.sort(fnp.float32(3)), errors.AxisError, "none: it has no axes"),
    (lambda: fnp.sort(X, order="f"), errors.ArgumentError, "structured"),
    (lambda: fnp.sort(X, kind="bogo"), errors.ValueRangeError, "kind must be"),
    (lambda: fnp.partition(X, 3), errors.ValueRangeError, "kth must be from -3 to 2"),
    (lambda: fnp.lexsort(()), errors.ValueRangeError, "at least one key"),
    (lambda: fnp.lexsort((X, X[0])), errors.ShapeError, "shapes must be equal"),
    (lambda: lax.sort((X, X[0])), errors.ShapeError, "all shapes must be equal"),
    (lambda: lax.sort((X,), num_keys=2), errors.ValueRangeError, "num_keys must be"),
    (lambda: lax.top_k(X, 4), errors.ValueRangeError, "k must be from 0"),
    (lambda: lax.top_k(X, -1), errors.ValueRangeError, "k must be from 0"),
    (lambda: lax.top_k(X + 1j, 1), errors.DtypeError, "complex"),
    (lambda: fnp.quantile(X, X), errors.ShapeError, "scalar or a vector"),
    (
        lambda: fnp.quantile(X, 0.5, method="x"),
        errors.ValueRangeError,
        "method must be",
    ),
    (lambda: fnp.quantile(X, 0.5, weights=X), errors.ValueRangeError, "inverted_cdf"),
    (
        lambda: fnp.quantile(X, 0.5, 0, method="inverted_cdf", weights=X[0]),
        errors.ShapeError,
        "weights must have shape",
    ),
    (lambda: fnp.median(X + 1j), errors.DtypeError, "complex"),
    (lambda: fnp.median(X, overwrite_input=True), errors.ArgumentError, "immutable"),
    (_traced(fnp.unique), errors.ConcretizationTypeError, "give size="),
    (
        _traced(lambda x: fnp.union1d(x, x)),
        errors.ConcretizationTypeError,
        "give size=",
    ),
    (_traced(fnp.bincount), errors.ConcretizationTypeError, "give length="),
    (lambda: fnp.bincount(X[0]), errors.DtypeError, "must be integers"),
    (lambda: fnp.bincount(fnp.zeros((2, 2), int)), errors.ShapeError, "a vector"),
    (lambda: fnp.isin(X, X, method="x"), errors.ValueRangeError, "method must be"),
    (lambda: fnp.searchsorted(X, 1), errors.ShapeError, "a must be a vector"),
    (lambda: fnp.searchsorted(X[0], 1, method="x"), errors.ValueRangeError, "method"),
    (
        lambda: fnp.histogram(X, 3, weights=X[0]),
        errors.ShapeError,
        "must have the shape",
    ),
    (lambda: fnp.histogramdd(X, [1, 2]), errors.ShapeError, "as many bins"),
    (lambda: fnp.histogram(X, []), errors.ShapeError, "at least one edge"),
    (lambda: fnp.histogram(X, -1), errors.ValueRangeError, "bins must not be negative"),
    (lambda: fnp.histogramdd(X, [[]] * 3), errors.ShapeError, "at least one edge"),
    (
        lambda: fnp.unique(fnp.zeros(0), size=2),
        errors.ValueRangeError,
        "give fill_value=",
    ),
    (
        lambda: ft.random.permutation(ft.random.key(0), 2.5),
        errors.DtypeError,
        "integer or an array",
    ),
    (
        lambda: ft.random.permutation(ft.random.key(0), X, 2),
        errors.AxisError,
        "axis 2 is out of bounds",
    ),
    (
        lambda: ft.random.categorical(
            ft.random.key(0), X[0], shape=(4,), replace=False
        ),
        errors.ValueRangeError,
        "at most 3 draws",
    ),
]


@pytest.mark.parametrize("case", range(len(WRONG)))
def test_messages_say_what_was_required(case: int) -> None:
    call, kind, part = WRONG[case]
    with pytest.raises(kind) as caught:
        call()
    assert isinstance(caught.value, errors.FtraceError)
    assert part in caught.value.message


PARTITIONED = [
    np.dtype(name)
    for name in ("int8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
                 "float16", "float32", "float64")
] + [dtypes.bfloat16]  # fmt: skip


def _assert_partition(x: Any, found: Any, place: int, axis: int) -> None:
    """The same elements, with both zeros; what should be before a place is there."""
    assert found.dtype == x.dtype
    wanted, ours = (
        np.moveaxis(sorting.sort_values(axis, v), axis, 0) for v in (x, found)
    )
    np.testing.assert_array_equal(ours.astype(float), wanted.astype(float))
    if dtypes.is_float(found.dtype):
        for zeros in (wanted, ours):
            assert np.signbit(zeros).sum() == np.signbit(wanted).sum()
    rows = np.moveaxis(found, axis, 0)
    np.testing.assert_array_equal(
        rows[place].astype(float), wanted[place].astype(float)
    )
    for part, kept in (
        (rows[:place], wanted[:place]), (rows[place:], wanted[place:])
    ):  # fmt: skip
        again = sorting.sort_values(0, part)
        np.testing.assert_array_equal(again.astype(float), kept.astype(float))


@covering(
    1,
    {("shape", "axis"): [((9001,), 0), ((8192, 3), 0), ((9, 8200), 1)]},
    dtype=PARTITIONED,
    few=[False, True],
)
def test_a_long_partition_has_the_elements_of_a_sort(
    dtype: np.dtype[Any], shape: tuple[int, ...], axis: int, few: bool
) -> None:
    x: Any = np.random.default_rng(0).integers(
        0 if dtype.kind == "u" else -99, 99, shape
    )
    x = (x // 40 if few else x).astype(dtype)
    if dtypes.is_float(dtype):
        flat = x.reshape(-1)
        flat[5::70], flat[6::70], flat[7::70] = np.nan, -0.0, 0.0
        flat[9], flat[10] = np.inf, -np.inf
    if dtype == np.uint32:
        x[..., 0] = np.iinfo(dtype).max
    size = shape[axis]
    with ft.config(enable_x64=True):
        for place in (0, 100, size - 1):
            both = (
                lambda x, place=place: fnp.partition(x, place, axis),
                lambda x, place=place: fnp.argpartition(x, place, axis),
            )
            for values, places in (both, map(ft.jit, both)):
                _assert_partition(x, np.asarray(values(x)), place, axis)
                taken = np.take_along_axis(x, np.asarray(places(x)), axis)
                _assert_partition(x, taken, place, axis)


@pytest.mark.parametrize("jit", [False, True])
def test_tangents_of_a_long_partition_move_with_the_elements(jit: bool) -> None:
    """Whichever partition it is: its sum with weights is that of x with the slopes."""
    rng = np.random.default_rng(1)
    x = rng.permutation(3 * 8192).reshape(3, 8192).astype(np.float32) % 5000
    weights = rng.integers(0, 9, x.shape).astype(np.float32)

    def loss(x: Any) -> Any:
        return (fnp.partition(x, 70).astype(float) * weights).sum()

    with ft.config(enable_x64=True):
        function = ft.value_and_grad(loss)
        value, slope = (ft.jit(function) if jit else function)(x)
    np.testing.assert_array_equal(np.sort(slope, 1), np.sort(weights, 1))
    assert value == (x.astype(float) * np.asarray(slope, float)).sum()


def test_lanes_of_a_long_partition(device: Any) -> None:
    x = np.random.default_rng(2).integers(0, 999, (2, 3, 8200)).astype(np.int32)
    found = ft.jit(ft.vmap(lambda x: fnp.partition(x, 5)))(x)
    _assert_partition(x, np.asarray(found), 5, 2)


def test_only_long_rows_are_partitioned_by_the_host() -> None:
    def hosts(size: int, rows: int, *off: str) -> list[str]:
        x = np.zeros((rows, size), np.float32)
        with ft.config(disabled_rules=set(off)):
            program = ft.jit(lambda x: fnp.partition(x, 3)).lower(x).program
        return [s.node.op.name for s in program.steps if isinstance(s, CallHost)]

    assert hosts(1 << 13, 1) == ["partition"]
    assert hosts((1 << 13) - 1, 1) == []
    assert hosts(1 << 13, 5) == []
    assert hosts(1 << 13, 1, "partition_keys") == []


def test_positions_of_unsigned_numbers_of_64_bits_have_a_fill() -> None:
    """It is the greatest of them, and no Python number that int64 could hold."""
    x = np.arange(4, dtype=np.uint64)
    with ft.config(enable_x64=True):
        found = ft.jit(lambda x, i: fnp.take_along_axis(x, i, 0))(x, np.array([1, 9]))
    np.testing.assert_array_equal(found, np.array([1, 2**64 - 1], np.uint64))


@pytest.mark.parametrize("size", [None, 2])
def test_intersect1d_takes_its_elements_from_the_first_array(size: int | None):
    x, y = fnp.array([1.0, 2.0, 3.0, 5.0]), fnp.array([2.0, 5.0, 7.0, 5.0])

    def total(x: Any, y: Any) -> Any:
        return (fnp.intersect1d(x, y, size=size) ** 2).sum()

    assert ft.grad(total)(x, y).tolist() == [0, 4, 0, 10]
    assert ft.grad(total, 1)(x, y).tolist() == [0, 0, 0, 0]
    filled = ft.grad(lambda x: (fnp.intersect1d(x, y, size=4) ** 2).sum())(x)
    assert filled.tolist() == [0, 12, 0, 10]
