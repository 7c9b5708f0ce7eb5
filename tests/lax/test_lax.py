"""ftrace.lax: recorded values, derivatives, strictness."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.lax as lax
import ftrace.numpy as fnp
from ftrace.errors import (
    ArgumentError,
    AxisError,
    ConcretizationTypeError,
    DtypeError,
    FtraceError,
    IndexBoundsError,
    ShapeError,
    ValueRangeError,
)
from ftrace.testing import check_grads
from tests.support import recorded_surface

RNG = np.random.default_rng(9)


@pytest.mark.parametrize("expression", recorded_surface.expressions("lax"))
def test_lax_agrees_with_jax_eager_and_traced(expression: str) -> None:
    recorded_surface.check_value(
        expression, recorded_surface.evaluate_eager(expression)
    )
    recorded_surface.check_value(
        expression, recorded_surface.evaluate_traced(expression)
    )


def _ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


def test_python_numbers_take_the_dtype_of_the_other() -> None:
    for dtype in ("float16", "float32", "float64"):
        x = np.ones(3, dtype)
        assert lax.add(x, 2.0).dtype == dtype
        assert lax.reduce_window(x, 0.0, lax.add, (2,)).dtype == dtype
        assert lax.reduce_window(x, 0, lax.add, (2,)).dtype == dtype
        assert lax.reduce(x, 0, lax.add, (0,)).dtype == dtype
        assert lax.reduce(x, 1, lax.mul, (0,)).dtype == dtype
        assert lax.clamp(0.0, x, 1.0).dtype == dtype
    assert lax.mul(np.ones(3, "uint8"), 2).dtype == "uint8"


def test_clamp_keeps_nan_and_has_no_slope_at_its_bounds() -> None:
    assert np.isnan(lax.clamp(0.0, np.float32(np.nan), 1.0))
    x = np.array([-1.0, 0.0, 0.5, 1.0, 2.0])
    (slope,) = recorded_surface.gradient(lambda v: fnp.sum(lax.clamp(0.0, v, 1.0)), x)
    np.testing.assert_array_equal(slope, [0, 0, 1, 0, 0])


def test_dynamic_slice_with_traced_and_known_starts_is_the_same() -> None:
    x = RNG.standard_normal((6, 7))
    for i in range(-9, 10):
        known = lax.dynamic_slice(x, (i, -i), (2, 3))
        (computed,) = recorded_surface.traced(
            lambda a, j: lax.dynamic_slice(a, (j, -j), (2, 3)), x, np.int32(i)
        )
        np.testing.assert_array_equal(computed, known)


def test_stop_gradient_takes_trees() -> None:
    tree = {"a": _ones(2), "b": (np.arange(3), None)}
    stopped = lax.stop_gradient(tree)
    assert set(stopped) == {"a", "b"}
    (slope,) = recorded_surface.gradient(
        lambda x: fnp.sum(x * lax.stop_gradient(x)), np.array([3.0])
    )
    np.testing.assert_array_equal(slope, [3])


def test_a_start_that_changes_nothing_may_be_of_any_dtype() -> None:
    x, static = np.array([3, -5, 2], "i4"), (1, 2, 3)
    for f, start, whole, pairs in (
        (lax.max, -np.inf, 3, [3, 2]),
        (lax.min, np.inf, -5, [-5, -5]),
        (lax.add, 0.0, 0, [-2, -3]),
    ):
        for run in (lax.reduce, ft.jit(lax.reduce, static_argnums=static)):
            found = run(x, start, f, (0,))
            assert (found, found.dtype) == (whole, "i4")
        for run in (
            lax.reduce_window,
            ft.jit(lax.reduce_window, static_argnums=static),
        ):
            assert run(x, start, f, (2,)).tolist() == pairs
    with pytest.raises(DtypeError, match="one dtype"):
        lax.reduce_window(x, 1.0, lax.max, (2,))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_in_few_bits_are_forbidden_where_that_is_asked(dtype: str) -> None:
    x = fnp.ones((1, 3), dtype)
    for reduce in (lax.reduce_sum, ft.jit(lax.reduce_sum, static_argnums=1)):
        assert reduce(x, (1,)) == 3
        with ft.allow_f16_reductions(False):
            with pytest.raises(DtypeError, match="not allowed"):
                reduce(x, (1,))
            assert reduce(x, (0,)).shape == (3,)  # nothing is added up
            assert lax.reduce_max(x, (1,)) == 1
            assert fnp.sum(x) == 3  # in float32
            assert reduce(x.astype("float32"), (1,)) == 3


def test_reduce_takes_any_associative_function() -> None:
    x = RNG.standard_normal((3, 13))
    places = np.broadcast_to(np.arange(13), x.shape).astype(np.int32)

    def larger(a: Any, b: Any) -> Any:
        first = a[0] >= b[0]
        return fnp.where(first, a[0], b[0]), fnp.where(first, a[1], b[1])

    value, place = lax.reduce((x, places), (-np.inf, 0), larger, (1,))
    np.testing.assert_array_equal(value, x.max(1))
    np.testing.assert_array_equal(place, x.argmax(1))


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_convolution_agrees_with_a_sum_over_taps(mode: str) -> None:
    x, w = RNG.standard_normal((2, 3, 10, 9)), RNG.standard_normal((4, 3, 3, 2))
    pads = {
        "full": ((2, 2), (1, 1)),
        "same": ((1, 1), (0, 1)),
        "valid": ((0, 0), (0, 0)),
    }[mode]
    padded = np.pad(x, ((0, 0), (0, 0), *pads))
    places = (padded.shape[2] - 2, padded.shape[3] - 1)
    wanted = np.zeros((2, 4, *places))
    for i in range(3):
        for j in range(2):
            part = padded[:, :, i : i + places[0], j : j + places[1]]
            wanted += np.einsum("nihw,oi->nohw", part, w[:, :, i, j])
    found = lax.conv_general_dilated(x, w, (1, 1), pads)
    np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_convolution_stores_no_patches() -> None:
    x = RNG.standard_normal((16, 32, 48, 48)).astype(np.float32)
    w = RNG.standard_normal((32, 32, 5, 5)).astype(np.float32)
    lax.conv(x[:1], w, (1, 1), "SAME")
    tracemalloc.start()
    lax.conv(x, w, (1, 1), "SAME")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 12 * x.nbytes  # patches alone would be 25 times x


DIFFERENTIABLE: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "conv": (lambda x, w: lax.conv(x, w, (1, 1), "SAME"), [(2, 3, 6, 5), (4, 3, 3, 2)]),
    "conv strided": (
        lambda x, w: lax.conv(x, w, (2, 3), "VALID"),
        [(2, 3, 6, 8), (4, 3, 3, 2)],
    ),
    "conv dilated": (
        lambda x, w: lax.conv_general_dilated(
            x, w, (1, 2), ((2, 1), (-1, 3)), (2, 1), (1, 2)
        ),
        [(2, 3, 6, 5), (4, 3, 3, 2)],
    ),
    "conv groups": (
        lambda x, w: lax.conv_general_dilated(
            x, w, (1, 1), "SAME", feature_group_count=2
        ),
        [(2, 4, 5, 5), (6, 2, 3, 3)],
    ),
    "conv batch groups": (
        lambda x, w: lax.conv_general_dilated(
            x, w, (1, 1), "SAME", batch_group_count=2
        ),
        [(4, 3, 5, 5), (6, 3, 3, 3)],
    ),
    "conv transpose": (
        lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"),
        [(2, 4, 5, 3), (3, 3, 3, 4)],
    ),
    "max pool": (
        lambda x: lax.reduce_window(x, -np.inf, lax.max, (1, 3, 2), (1, 2, 2), "SAME"),
        [(2, 7, 6)],
    ),
    "sum pool": (lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 3, 2)), [(2, 7, 6)]),
    "cumsum": (lambda x: lax.cumsum(x, 1, reverse=True), [(2, 70)]),
    "cummax": (lambda x: lax.cummax(x, 1), [(2, 70)]),
    "cumlogsumexp": (lambda x: lax.cumlogsumexp(x, 1), [(2, 70)]),
    "dot_general": (
        lambda x, y: lax.dot_general(x, y, (((2,), (1,)), ((0,), (0,)))),
        [(2, 3, 4), (2, 4, 5)],
    ),
    "dynamic_slice": (lambda x: lax.dynamic_slice(x, (1, 2), (2, 3)), [(4, 6)]),
    "dynamic_update_slice": (
        lambda x, u: lax.dynamic_update_slice(x, u, (1, 2)),
        [(4, 6), (2, 3)],
    ),
    "pad": (lambda x: lax.pad(x, 1.0, [(-1, 2, 0), (0, -2, 2)]), [(4, 6)]),
    "integer_pow": (lambda x: lax.integer_pow(x, -3), [(5,)]),
    "reduce": (lambda x: lax.reduce(x, 1.0, lambda a, b: a * b, (0,)), [(5, 3)]),
}


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_lax_derivative_agrees_with_differences(name: str) -> None:
    function, shapes = DIFFERENTIABLE[name]
    arrays = [RNG.standard_normal(s) for s in shapes]
    check_grads(function, arrays, 1, atol=1e-5, rtol=1e-5, eps=1e-6)


MESSAGES: list[tuple[Callable[[], Any], type[FtraceError], str]] = [
    (
        lambda: lax.add(_ones(3), np.arange(3, dtype=np.int32)),
        DtypeError,
        "one dtype, got float32, int32",
    ),
    (lambda: lax.add(_ones(3), 1), DtypeError, "one dtype"),
    (lambda: lax.add(_ones(3), _ones(2, 3)), ShapeError, "same number of axes"),
    (lambda: lax.add(_ones(3), _ones(4)), ShapeError, "do not broadcast"),
    (lambda: lax.add(True, False), DtypeError, "not defined for bool"),
    (lambda: lax.exp(np.arange(3)), DtypeError, "exp is not defined"),
    (
        lambda: lax.select(np.ones(2, bool), _ones(3), _ones(3)),
        ShapeError,
        "the predicate must be a scalar",
    ),
    (
        lambda: lax.select(True, _ones(3), _ones(2)),
        ShapeError,
        "all shapes must be equal",
    ),
    (
        lambda: lax.select_n(np.float32(1), _ones(3), _ones(3)),
        DtypeError,
        "selector must be an integer",
    ),
    (lambda: lax.clamp(_ones(2), _ones(3), 1.0), ShapeError, "min must be a scalar"),
    (lambda: lax.integer_pow(np.arange(3), -1), DtypeError, "no negative power"),
    (lambda: lax.pow(np.arange(3), 2), DtypeError, "float or complex base"),
    (
        lambda: lax.bitcast_convert_type(_ones(3), "float64"),
        ShapeError,
        "last axis must have size 2",
    ),
    (lambda: lax.reshape(_ones(6), (4,)), ShapeError, "(6,) (size 6) into shape (4,)"),
    (lambda: lax.reshape(_ones(6), (-1, 2)), ShapeError, "sizes must be given in full"),
    (lambda: lax.transpose(_ones(2, 3), (0, 0)), AxisError, "not a permutation"),
    (lambda: lax.squeeze(_ones(1, 3), (1,)), ShapeError, "only axes of size 1"),
    (
        lambda: lax.broadcast_in_dim(_ones(3), (2, 4), (1,)),
        ShapeError,
        "does not broadcast to (2, 4)",
    ),
    (lambda: lax.expand_dims(_ones(3), (5,)), AxisError, "out of bounds"),
    (lambda: lax.concatenate([_ones(3), np.arange(3)], 0), DtypeError, "concatenate"),
    (
        lambda: lax.pad(_ones(3), 0.0, [(1, 1)]),
        ShapeError,
        "triple (before, after, between)",
    ),
    (lambda: lax.pad(_ones(3), 0, [(1, 1, 0)]), DtypeError, "lax.pad"),
    (lambda: lax.pad(_ones(3), 0.0, [(-2, -2, 0)]), ShapeError, "takes away more"),
    (
        lambda: lax.slice(_ones(3), (0,), (4,)),
        ShapeError,
        "needs 0 <= start <= stop <= 3, got start 0 and stop 4",
    ),
    (
        lambda: lax.slice(_ones(3), (0, 0), (1, 1)),
        ShapeError,
        "one start, limit and stride",
    ),
    (
        lambda: lax.index_in_dim(_ones(3), 3),
        IndexBoundsError,
        "index 3 is out of bounds",
    ),
    (
        lambda: lax.dynamic_slice(_ones(3), (0,), (4,)),
        ShapeError,
        "must not exceed the shape",
    ),
    (lambda: lax.dynamic_slice(_ones(3), (0.5,), (1,)), DtypeError, "integer scalar"),
    (
        lambda: lax.dynamic_slice(_ones(3), (0, 1), (1,)),
        ShapeError,
        "one start per axis",
    ),
    (lambda: lax.dynamic_update_slice(_ones(3), _ones(4), (0,)), ShapeError, "update"),
    (lambda: lax.iota("bool", 3), DtypeError, "must be numeric"),
    (lambda: lax.argmax(_ones(0), 0, "int32"), ValueRangeError, "no elements"),
    (lambda: lax.reduce_sum(_ones(3), (1,)), AxisError, "out of bounds"),
    (lambda: lax.reduce_and(_ones(3), (0,)), DtypeError, "bools or integers"),
    (lambda: lax.reduce_window(_ones(3), 0, lax.max, (2,)), DtypeError, "one dtype"),
    (lambda: lax.reduce(_ones(3), 1, lax.add, (0,)), DtypeError, "one dtype"),
    (
        lambda: ft.jit(ft.ops.segment_sum)(_ones(2), np.array([0, 1])),
        ConcretizationTypeError,
        "give num_segments=n",
    ),
    (
        lambda: lax.reduce_window(_ones(3), 0.0, lax.add, (2, 2)),
        ShapeError,
        "must hold 1 numbers",
    ),
    (
        lambda: lax.reduce_window(_ones(3), 0.0, lax.add, (2,), padding="MAYBE"),
        ValueRangeError,
        "'SAME', 'SAME_LOWER' or 'VALID'",
    ),
    (
        lambda: lax.dot(_ones(2, 3), _ones(2)),
        ShapeError,
        "lax.dot: the shapes (2, 3) and (2,)",
    ),
    (
        lambda: lax.dot_general(_ones(2, 3), _ones(2, 3), (((0,), (1,)), ((), ()))),
        ShapeError,
        "contracting axes",
    ),
    (
        lambda: lax.dot_general(_ones(2), _ones(2), ((0,), (0,))),
        ArgumentError,
        "dimension_numbers must be",
    ),
    (
        lambda: lax.batch_matmul(_ones(2, 3, 4), _ones(3, 4, 5)),
        ShapeError,
        "all axes but the last two",
    ),
    (
        lambda: lax.conv(_ones(1, 3, 8), _ones(2, 4, 3), (1,), "SAME"),
        ShapeError,
        "the input has 3 features; the kernel takes 4",
    ),
    (
        lambda: lax.conv(_ones(1, 3, 8), _ones(2, 3, 3, 3), (1,), "SAME"),
        ShapeError,
        "as many axes",
    ),
    (
        lambda: lax.conv(_ones(1, 3, 8), _ones(2, 3, 3), (1, 1), "SAME"),
        ShapeError,
        "window_strides must hold 1",
    ),
    (
        lambda: lax.conv_general_dilated(
            _ones(1, 3, 8), _ones(2, 3, 3), (1,), "SAME", (2,)
        ),
        ValueRangeError,
        "conv_transpose",
    ),
    (
        lambda: lax.conv_general_dilated(_ones(1, 3, 8), _ones(2, 3, 3), (1,), (1, 1)),
        ValueRangeError,
        "1 pairs (before, after)",
    ),
    (
        lambda: lax.conv_general_dilated(
            _ones(1, 4, 8), _ones(3, 2, 3), (1,), "SAME", feature_group_count=2
        ),
        ShapeError,
        "cannot be divided",
    ),
    (
        lambda: lax.conv_dimension_numbers((1, 2, 3), (1, 2, 3), ("NCW", "OIX", "NCW")),
        ValueRangeError,
        "same spatial axes",
    ),
    (
        lambda: lax.conv_dimension_numbers((1, 2, 3), (1, 2, 3), ("NCW", "OIW")),
        ArgumentError,
        "three strings",
    ),
    (
        lambda: lax.reduce(_ones(2, 3), 0.0, lambda a, b: 1, (0,)),
        ShapeError,
        "must return as many values of the same shape",
    ),
    (lambda: lax.convert_element_type(_ones(2), None), DtypeError, "got None"),
    (lambda: lax.concatenate([], 0), ValueRangeError, "at least one operand"),
    (lambda: lax.collapse(_ones(2, 3), 0.5), ArgumentError, "must be an integer"),
    (lambda: lax.slice(_ones(2, 3), 0, 1), ShapeError, "per axis of (2, 3)"),
    (lambda: lax.conv_general_permutations("NC"), ValueRangeError, "three strings"),
]


@pytest.mark.parametrize("case", range(len(MESSAGES)))
def test_lax_says_what_is_wrong(case: int) -> None:
    recorded_surface.check_message(*MESSAGES[case])


@pytest.mark.parametrize(
    "call",
    [
        lambda x: lax.expand_dims(x, 1), lambda x: lax.squeeze(x, 0),
        lambda x: lax.reduce_max(x, 0), lambda x: lax.rev(x, 0),
        lambda x: lax.broadcast_in_dim(x, (1, 2, 4), 0),
        lambda x: lax.reduce(x, 0.0, lax.add, 0), lambda x: lax.fft(x, "rfft", 2),
    ],
)  # fmt: skip
def test_one_number_is_no_sequence_of_axes(call: Callable[[Any], Any]) -> None:
    with pytest.raises(ArgumentError, match=r"must be a sequence such as \(0,\)"):
        call(_ones(1, 2))


def test_axes_of_a_product_may_be_single_numbers() -> None:
    x = _ones(2, 3)
    assert lax.dot_general(x, x, ((1, 1), ((), ()))).tolist() == [[3, 3], [3, 3]]


@pytest.mark.parametrize("dtype", ["int4", "int8", "uint8", "int32", "uint32", "int64"])
def test_integers_of_any_width_select(dtype: str) -> None:
    x = _ones(3)
    which = fnp.asarray([2, 0, 1]).astype(dtype)
    for select in (lax.select_n, ft.jit(lax.select_n)):
        assert select(which, 0 * x, x, 2 * x).tolist() == [2, 0, 1]
        many = select(which, *[k * x for k in range(300)])
        assert many.tolist() == [2, 0, 1]
    with ft.config(enable_x64=True):
        assert ft.jit(lax.select)(1, x, 0 * x).tolist() == [1, 1, 1]
    with pytest.raises(DtypeError, match="must be an integer or bool, got float32"):
        lax.select(x, x, x)


def test_a_known_element_of_a_tracer_is_read_by_its_index() -> None:
    x = np.arange(6.0).reshape(2, 3)
    assert ft.grad(lambda x: x.sum() * x.item(1, 2))(x).tolist() == [[5] * 3] * 2
    with pytest.raises(ConcretizationTypeError, match=r"item\(\) needs the value"):
        ft.jit(lambda x: x.item(1, 2))(x)


def test_what_is_empty_has_floats_by_default() -> None:
    assert lax.empty((2,), None).dtype == fnp.empty((2,)).dtype == fnp.float32
    assert lax.empty((2,), int).dtype == fnp.zeros((), int).dtype


def test_symmetric_product() -> None:
    rng = np.random.default_rng(0)
    a, c = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 3, 3))
    want = 2 * a @ a.swapaxes(-1, -2) + 0.5 * c
    got = ft.jit(lambda a, c: lax.linalg.symmetric_product(a, c, alpha=2, beta=0.5))
    np.testing.assert_allclose(got(a, c), want)
    both = lax.linalg.symmetric_product(a, c, alpha=2, beta=0.5, symmetrize_output=True)
    lower = np.tril(want)
    np.testing.assert_allclose(both, lower + np.tril(want, -1).swapaxes(-1, -2))
    with pytest.raises(ShapeError, match="must have the shape"):
        lax.linalg.symmetric_product(a, c[:, :2])
    with pytest.raises(DtypeError, match="one float or complex dtype"):
        lax.linalg.symmetric_product(a, c.astype(np.float32))
