"""Edges of plain functions: sizes of nothing, steps, integers, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import signal

import ftrace as ft
import ftrace.lax as lax
import ftrace.nn as nn
import ftrace.numpy as fnp
import ftrace.ops as ops
import ftrace.random as random
import ftrace.scipy.fft as transforms
import ftrace.scipy.linalg as linalg
import ftrace.scipy.signal as signals
import ftrace.scipy.special as special
from ftrace.errors import (
    ArgumentError,
    DtypeError,
    FtraceError,
    IndexBoundsError,
    ShapeError,
    ValueRangeError,
)
from ftrace.flatten_util import ravel_pytree

EACH_WAY: list[Callable[[Any], Any]] = [lambda f: f, ft.jit]


@pytest.mark.parametrize("way", EACH_WAY)
@pytest.mark.parametrize(
    ("function", "x", "y"),
    [
        (fnp.vecdot, (0, 3), (1, 3)),
        (fnp.vecdot, (1, 3), (0, 3)),
        (fnp.matmul, (0, 2, 3), (1, 3, 4)),
        (fnp.matmul, (1, 2, 3), (0, 3, 4)),
        (lambda x, y: fnp.einsum("ij,ij->i", x, y), (0, 3), (1, 3)),
    ],
)
def test_products_repeat_an_axis_of_size_one_zero_times(
    way: Any, function: Any, x: tuple[int, ...], y: tuple[int, ...]
) -> None:
    result = way(function)(fnp.ones(x), fnp.ones(y))
    assert result.shape[0] == result.size == 0


def test_differences_of_nothing_are_nothing() -> None:
    np.testing.assert_array_equal(fnp.ediff1d(fnp.zeros((0, 3)), to_end=1), [1])
    assert fnp.diff(fnp.zeros((0, 3)), axis=0).shape == (0, 3)
    assert lax.unstack(fnp.zeros((0, 3))) == ()
    assert fnp.ix_(fnp.zeros(0))[0].dtype == np.int32


@pytest.mark.parametrize("value", [0, 3])
def test_place_of_a_scalar_is_a_row_without_columns(value: int) -> None:
    assert fnp.argwhere(fnp.array(value)).shape == (int(value != 0), 0)
    with pytest.raises(ShapeError, match="atleast_1d"):
        fnp.nonzero(fnp.array(value))


def test_empty_array_shows_its_shape() -> None:
    assert repr(fnp.zeros((0, 3))) == "Array([], shape=(0, 3), dtype=float32)"
    assert repr(fnp.zeros(0)) == "Array([], shape=(0,), dtype=float32)"


@pytest.mark.parametrize("way", EACH_WAY)
@pytest.mark.parametrize("x2", [0.0, 2.0, np.inf])
def test_quotient_rounded_down_is_a_step(way: Any, x2: float) -> None:
    slopes = way(ft.grad(fnp.floor_divide, argnums=(0, 1)))(3.0, x2)
    np.testing.assert_array_equal(slopes, [0, 0])


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_mantissa_has_the_power_of_two_for_a_derivative(dtype: str) -> None:
    x = fnp.array([3.0, -0.1, 1.0, 2.0**-14, 0.0], dtype)
    mantissa, exponent = fnp.frexp(x)
    np.testing.assert_array_equal(mantissa, np.frexp(np.asarray(x))[0])
    np.testing.assert_array_equal(exponent, np.frexp(np.asarray(x))[1])
    slopes = ft.vmap(ft.grad(lambda v: fnp.frexp(v)[0]))(x)
    np.testing.assert_array_equal(slopes, np.ldexp(1.0, -np.asarray(exponent)))


@pytest.mark.parametrize("x", [1e-310, 1.7e308, -2.5, 1e-38, np.inf, -0.0])
def test_mantissa_is_exact_over_the_whole_range(x: float) -> None:
    found = [np.asarray(part) for part in fnp.frexp(np.float64(x))]
    np.testing.assert_array_equal(found, np.frexp(x))
    assert np.signbit(found[0]) == np.signbit(x)


@pytest.mark.parametrize("way", EACH_WAY)
@pytest.mark.parametrize("period", [3.0, -3, 1.5])
def test_broken_line_repeats_with_its_period(way: Any, period: float) -> None:
    x, xp, fp = np.array([1.0, 5.0, -3.5]), np.array([0.0, 4.0, 2.0]), np.ones(3)
    fp[1] = 2
    found = way(lambda x: fnp.interp(x, xp, fp, period=period))(x)
    np.testing.assert_allclose(found, np.interp(x, xp, fp, period=period), rtol=1e-6)


def test_broken_line_has_no_period_of_zero() -> None:
    with pytest.raises(ValueRangeError, match="period"):
        fnp.interp(1.0, fnp.arange(3), fnp.arange(3), period=0)


@pytest.mark.parametrize("way", EACH_WAY)
def test_upper_bound_wins_where_bounds_cross(way: Any) -> None:
    found = way(lax.clamp)(3.0, fnp.array([1.0, 2.5, 5.0]), 2.0)
    np.testing.assert_array_equal(found, [2, 2, 2])


def test_leaky_relu_of_integers_follows_its_slope() -> None:
    x = fnp.array([-1, 2])
    assert nn.leaky_relu(x, 2).dtype == np.int32
    assert nn.leaky_relu(x).dtype == np.float32
    np.testing.assert_array_equal(nn.leaky_relu(x, 2), [-2, 2])


@pytest.mark.parametrize("way", EACH_WAY)
def test_softmax_of_complex_numbers_adds_up_to_one(way: Any) -> None:
    x = fnp.array([1j, 2, 2j + 90])
    np.testing.assert_allclose(way(nn.softmax)(x).sum(), 1, rtol=1e-6)
    np.testing.assert_allclose(
        np.exp(way(nn.log_softmax)(x)), nn.softmax(x), rtol=1e-5, atol=1e-30
    )


def test_bits_of_bools_are_counted() -> None:
    found = fnp.bitwise_count(fnp.array([True, False]))
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, [1, 0])


def test_function_of_places_is_mapped() -> None:
    found = fnp.fromfunction(lambda i, j: fnp.ones(2) * i + j, (2, 3))
    wanted = np.add.outer(np.arange(2), np.arange(3))[..., None] * np.ones(2)
    np.testing.assert_array_equal(found, wanted)


def test_counts_are_strong_where_the_values_are_weak() -> None:
    found = fnp.unique_all(5.0)
    assert found.values.weak_type
    assert not any(part.weak_type for part in found[1:])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_cosine_transform_of_16_bits_is_computed_in_32(dtype: str) -> None:
    found = transforms.dct(fnp.ones(3, dtype))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, [6, 0, 0], atol=1e-6)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: ft.jit(fnp.from_dlpack)(fnp.ones(2)), ArgumentError),
        (lambda: nn.initializers.glorot_normal()(KEY, (2, 0, 3)), ShapeError),
        (lambda: nn.initializers.normal()(KEY, 2.5), FtraceError),
        (lambda: linalg.expm(fnp.ones((1, 1), "bfloat16")), DtypeError),
        (lambda: ft.jit(linalg.expm)(fnp.ones((2, 2), "float16")), DtypeError),
    ],
)
def test_refusals_are_errors_of_ours(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        call()


KEY = random.PRNGKey(0)


@pytest.mark.parametrize("size", [(2, 2), (3, 4), (4, 3), (5, 6), (1, 2)])
@pytest.mark.parametrize("mode", ["same", "full"])
def test_correlation_of_matrices_has_scipys_middle(
    size: tuple[int, int], mode: str
) -> None:
    rng = np.random.default_rng(3)
    x, k = rng.standard_normal((4, 5)), rng.standard_normal(size)
    for name in ("correlate2d", "convolve2d"):
        found = getattr(signals, name)(x, k, mode)
        wanted = getattr(signal, name)(x, k, mode)
        np.testing.assert_allclose(found, wanted, atol=1e-12)


@pytest.mark.parametrize("way", EACH_WAY)
def test_bound_of_nan_makes_nan(way: Any) -> None:
    x, nan = fnp.array([1.0, 5.0]), fnp.array(np.nan)
    assert np.isnan(way(lax.clamp)(nan, x, 2.0)).all()
    assert np.isnan(way(lax.clamp)(0.0, x, nan)).all()


@pytest.mark.parametrize("way", EACH_WAY)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_parts_of_a_number_have_its_sign_and_their_slopes(way: Any, dtype: str) -> None:
    x = np.array([-0.0, 0.0, -2.0, 2.0, -1.5, -np.inf, np.inf], dtype)
    for found, wanted in zip(way(fnp.modf)(x), np.modf(x), strict=True):
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))
    slopes = way(ft.vmap(ft.grad(lambda v: fnp.modf(v)[0])))(x[:5])
    np.testing.assert_array_equal(slopes, np.ones(5))


def test_masks_beyond_the_array_are_refused() -> None:
    flags = np.ones(5, bool)
    for way in EACH_WAY:
        with pytest.raises(IndexBoundsError, match="size 3"):
            way(lambda x: fnp.compress(flags, x))(fnp.arange(3))
    with pytest.raises(ShapeError, match="as many"):
        fnp.place(fnp.arange(3), flags, 9, inplace=False)


@pytest.mark.parametrize("way", EACH_WAY)
def test_parts_of_weak_complex_numbers_are_weak(way: Any) -> None:
    for function in (fnp.abs, fnp.real, fnp.imag):
        assert way(function)(1j).weak_type
    assert not way(fnp.isnan)(1j).weak_type


@pytest.mark.parametrize("way", EACH_WAY)
def test_logarithm_of_a_sum_has_an_angle_between_minus_and_plus_pi(way: Any) -> None:
    x, y = np.array([1 + 33j, 2 - 50j, 0.5j]), np.array([1 + 3.1j, 0.1 + 9j, 1j])
    wanted = np.log(np.exp(x) + np.exp(y))
    np.testing.assert_allclose(way(fnp.logaddexp)(x, y), wanted, rtol=1e-12)


def test_relu_of_complex_numbers_orders_as_maximum_does() -> None:
    x = fnp.array([1j, -1, 9])
    np.testing.assert_array_equal(nn.relu(x), fnp.maximum(x, 0))
    np.testing.assert_array_equal(ft.jit(nn.relu6)(x), [1j, 0, 6])


def test_scale_by_a_bool_is_by_one_or_two() -> None:
    np.testing.assert_array_equal(fnp.ldexp(3.0, np.array([True, False])), [6, 3])


@pytest.mark.parametrize("dtype", ["uint64", "uint8", "int32"])
def test_number_of_segments_follows_from_ids_of_any_integers(dtype: str) -> None:
    ids = np.array([0, 2], dtype)
    np.testing.assert_array_equal(ops.segment_sum(fnp.ones(2), ids), [1, 0, 1])
    assert ops.segment_sum(fnp.ones(0), ids[:0]).shape == (0,)


def test_factors_of_a_sum_of_exponentials_promote_with_the_exponents() -> None:
    with ft.config(enable_x64=True):
        exponents, factors = np.ones(2, np.uint64), np.ones(2, np.float32)
        assert nn.logsumexp(exponents, b=factors).dtype == np.float32
        assert nn.logsumexp(exponents, b=exponents).dtype == np.float64


@pytest.mark.parametrize(
    "call",
    [
        lambda x, y: nn.logsumexp(x, b=y),
        lambda x, y: random.weibull_min(KEY, x, y),
        fnp.linspace,
        fnp.float_power,
    ],
)
def test_shapes_that_do_not_meet_are_named(call: Any) -> None:
    with pytest.raises(ShapeError, match="do not broadcast"):
        call(fnp.ones(3), fnp.ones(2))


@pytest.mark.parametrize("way", EACH_WAY)
def test_zeta_has_its_limits(way: Any) -> None:
    x = np.array([30.0, 2, 2, 2.5, np.inf, np.inf, np.inf, 3, 1, 0.5])
    q = np.array([0.0, 0, -3, -0.5, 1, 2, 0.5, np.inf, 0, 2])
    wanted = [np.inf, np.inf, np.inf, np.nan, 1, 0, np.inf, 0, np.inf, np.nan]
    np.testing.assert_array_equal(way(special.zeta)(x, q), wanted)
    assert special.polygamma(1, 0.0) == np.inf


@pytest.mark.parametrize("axis", [None, 0, -1])
def test_scalar_is_repeated_as_a_vector_of_one(axis: int | None) -> None:
    np.testing.assert_array_equal(fnp.repeat(5, 3, axis=axis), [5, 5, 5])


def test_vector_of_a_tree_of_weak_numbers_is_weak() -> None:
    vector, unravel = ravel_pytree({"a": 1, "b": [2]})
    assert vector.weak_type
    assert unravel(vector)["a"].weak_type
    assert not ravel_pytree([1, fnp.ones(2, int)])[0].weak_type
    assert not ravel_pytree([1, 2.5])[0].weak_type
    assert ravel_pytree([1.0, fnp.ones(2, "float16")])[0].dtype == np.float32


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_angle_of_one_number_is_not_of_16_bits(dtype: str) -> None:
    assert fnp.angle(fnp.ones((), dtype)).dtype == np.float32
    assert fnp.angle(fnp.ones(2, dtype)).dtype == dtype


@pytest.mark.parametrize("dtype", ["int32", "uint32"])
def test_great_integer_factors_of_a_sum_of_exponentials_do_not_wrap(dtype: str) -> None:
    factors = np.array([np.iinfo(dtype).max, 3], dtype)
    with ft.config(enable_x64=False):
        found = nn.logsumexp(np.int32(0), b=factors)
    np.testing.assert_allclose(found, np.log(factors.sum(dtype=float)), rtol=1e-6)


def test_update_without_axes_is_refused_where_there_are_more() -> None:
    with pytest.raises(ShapeError, match="as many axes"):
        lax.dynamic_update_index_in_dim(fnp.ones((2, 3)), 0.5, 0, -1)


def test_repeated_calls_on_complex_numbers_find_no_missing_loop() -> None:
    x = fnp.array([0.0, 0.0, 2.0])
    for k in range(40):  # after some calls they are native records
        y = fnp.array([-2 - 1j, -2 + 0.5j, 0.6j * k])
        assert fnp.histogram2d(x, y, bins=3)[0].sum() == 3


def test_histogram_of_no_dimensions_is_refused() -> None:
    with pytest.raises(ShapeError, match="points, dimensions"):
        fnp.histogramdd(fnp.zeros((4, 0)), bins=3)
