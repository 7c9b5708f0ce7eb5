"""Reductions of ftrace.numpy: recorded values, derivatives, messages."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.errors import AxisError, FtraceError, ShapeError, ValueRangeError
from ftrace.testing import check_grads
from tests.support import recorded_surface

RNG = np.random.default_rng(3)


@pytest.mark.parametrize("expression", recorded_surface.expressions("reductions"))
def test_reduction_agrees_with_jax_eager_and_traced(expression: str) -> None:
    recorded_surface.check_value(
        expression, recorded_surface.evaluate_eager(expression)
    )
    recorded_surface.check_value(
        expression, recorded_surface.evaluate_traced(expression)
    )


@pytest.mark.parametrize("dtype", ["int64", "uint64", "float64"])
def test_sum_keeps_64_bits(dtype: str) -> None:
    x = np.arange(5).astype(dtype)
    for function in (fnp.sum, fnp.prod, fnp.max, fnp.cumsum):
        assert function(x).dtype == dtype
    assert fnp.sum(np.full(4, 2**40)) == 2**42


def test_narrow_floats_accumulate_in_float32() -> None:
    ones = np.ones(5000, np.float16)
    assert fnp.sum(ones) == 5000
    assert fnp.mean(np.full(5000, 1000, np.float16)) == 1000
    assert fnp.cumsum(ones)[-1] == 5000
    assert fnp.prod(np.array([300, 300, 0.001, 0.5], np.float16)) == pytest.approx(
        45, rel=2e-3
    )


def test_variance_of_large_values_is_exact() -> None:
    x = (RNG.standard_normal((3, 50)) + 1e4).astype(np.float32)
    wanted = x.astype(np.float64).var(1)
    np.testing.assert_allclose(fnp.var(x, 1), wanted, rtol=1e-3)


@pytest.mark.parametrize("size", [1, 2, 7, 8, 9, 63, 64, 65, 512, 513, 1000])
def test_cumsum_of_every_size_agrees_with_numpy(size: int) -> None:
    x = RNG.standard_normal((2, size))
    np.testing.assert_allclose(fnp.cumsum(x, 1), np.cumsum(x, 1), atol=1e-12)
    np.testing.assert_allclose(fnp.cumprod(x, 1), np.cumprod(x, 1), atol=1e-12)


def test_cumsum_keeps_infinity_behind_its_position() -> None:
    x = np.ones(20)
    x[11] = np.inf
    assert np.isfinite(np.asarray(fnp.cumsum(x))[:11]).all()
    assert np.isinf(np.asarray(fnp.cumsum(x))[11:]).all()


def test_reductions_of_nothing_give_their_identity() -> None:
    x = np.zeros((0, 3), np.float32)
    np.testing.assert_array_equal(fnp.sum(x, 0), [0, 0, 0])
    np.testing.assert_array_equal(fnp.prod(x, 0), [1, 1, 1])
    assert not fnp.any(x)
    assert fnp.all(x)
    assert fnp.cumsum(x, 0).shape == (0, 3)
    assert np.isnan(fnp.mean(x))


def test_reduction_takes_traced_methods_and_numpy_functions() -> None:
    values = recorded_surface.traced(
        lambda x: [x.sum(0), np.sum(x, axis=1), x.mean(), x.argmax(1)],
        recorded_surface.INPUTS["x"],
    )
    x = recorded_surface.INPUTS["x"]
    for value, wanted in zip(
        values, [x.sum(0), x.sum(1), x.mean(), x.argmax(1)], strict=True
    ):
        np.testing.assert_allclose(value, wanted, rtol=1e-5, atol=1e-5)


DIFFERENTIABLE: dict[str, Callable[..., Any]] = {
    "sum": lambda x: fnp.sum(x, 1),
    "prod": lambda x: fnp.prod(x, 1),
    "max": lambda x: fnp.max(x, 0),
    "mean where": lambda x: fnp.mean(x, 1, where=recorded_surface.INPUTS["b"]),
    "var": lambda x: fnp.var(x, 1, ddof=1),
    "std": lambda x: fnp.std(x),
    "cumsum": lambda x: fnp.cumsum(x, 1),
    "cumsum long": lambda x: fnp.cumsum(fnp.tile(x, (1, 20)), 1),
    "cumprod": lambda x: fnp.cumprod(x, 1),
    "average": lambda x: fnp.average(x, 1, recorded_surface.INPUTS["wt"]),
    "cov": fnp.cov,
    "corrcoef": fnp.corrcoef,
    "nanmean": lambda x: fnp.nanmean(x, 1),
    "ptp": lambda x: fnp.ptp(x, 1),
}


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_reduction_derivative_agrees_with_differences(name: str) -> None:
    x = RNG.standard_normal((4, 6))
    check_grads(DIFFERENTIABLE[name], (x,), 1, atol=1e-6, rtol=1e-6, eps=1e-6)


def test_derivatives_at_edges() -> None:
    zero_row = np.array([2.0, 0.0, 3.0, 0.0])
    (prod_slope,) = recorded_surface.gradient(fnp.prod, np.array([2.0, 0.0, 3.0]))
    np.testing.assert_array_equal(prod_slope, [0, 6, 0])
    (cumprod_slope,) = recorded_surface.gradient(
        lambda x: fnp.sum(fnp.cumprod(x)), zero_row
    )
    np.testing.assert_array_equal(cumprod_slope, [1, 8, 0, 0])
    (max_slope,) = recorded_surface.gradient(fnp.max, np.array([1.0, 3.0, 3.0]))
    np.testing.assert_array_equal(max_slope, [0, 0.5, 0.5])
    (nan_slope,) = recorded_surface.gradient(fnp.nansum, np.array([1.0, np.nan, 3.0]))
    np.testing.assert_array_equal(nan_slope, [1, 0, 1])


MESSAGES: list[tuple[Callable[[], Any], type[FtraceError], str]] = [
    (
        lambda: fnp.sum(np.ones((2, 3)), 2),
        AxisError,
        "axis 2 is out of bounds for an array of 2",
    ),
    (lambda: fnp.sum(np.ones((2, 3)), (0, -2)), AxisError, "duplicate value in 'axis'"),
    (
        lambda: fnp.max(np.ones((0, 3)), 0),
        ValueRangeError,
        "no elements along the axes",
    ),
    (
        lambda: fnp.max(np.ones(3), where=np.ones(3, bool)),
        ValueRangeError,
        "give initial=",
    ),
    (lambda: fnp.sum(np.ones(3), where=np.ones(3)), ValueRangeError, "array of bools"),
    (
        lambda: fnp.sum(np.ones(3), out=np.ones(())),
        FtraceError,
        "'out' is not supported",
    ),
    (
        lambda: fnp.sum(np.ones(3), initial=np.ones(3)),
        FtraceError,
        "initial must be a scalar",
    ),
    (
        lambda: fnp.argmax(np.ones((0,))),
        ValueRangeError,
        "no elements along its axis 0",
    ),
    (lambda: fnp.argmax(np.ones(2, complex)), TypeError, "not defined for complex"),
    (lambda: fnp.argmax(np.ones(2), 1), AxisError, "out of bounds"),
    (lambda: fnp.sum([1, 2]), TypeError, "an array or a number is required"),
    (lambda: fnp.sum(np.ones(3), 1.5), TypeError, "axis must be an integer"),
    (lambda: fnp.var(np.ones(3), ddof=1, correction=1), ValueRangeError, "not both"),
    (
        lambda: fnp.var(np.ones(3, complex), dtype="float32"),
        ValueRangeError,
        "real part",
    ),
    (
        lambda: fnp.average(np.ones((2, 3)), weights=np.ones(3)),
        ValueError,
        "give axis=",
    ),
    (
        lambda: fnp.average(np.ones((2, 3)), 0, np.ones(3)),
        ValueError,
        "must have shape (2, 3) or (2,)",
    ),
    (lambda: fnp.cov(np.ones((2, 2, 2))), ValueError, "at most 2 dimensions"),
    (
        lambda: fnp.cov(np.ones((2, 3)), fweights=np.ones(3)),
        TypeError,
        "must be integers",
    ),
    (lambda: fnp.cov(np.ones((2, 3)), np.ones((2, 4))), ValueError, "m has 3 samples"),
    (lambda: fnp.cumulative_sum(np.ones((2, 3))), ValueError, "needs axis="),
]


@pytest.mark.parametrize("case", range(len(MESSAGES)))
def test_reduction_says_what_is_wrong(case: int) -> None:
    recorded_surface.check_message(*MESSAGES[case])


@pytest.mark.parametrize(
    ("m", "y", "rowvar"),
    [
        ((5, 2), (1, 5), False), ((5, 1), (1, 5), False), ((5, 3), (5, 2), False),
        ((5,), (1, 5), False), ((2, 5), (1, 5), True), ((0, 5), (2, 5), True),
        ((5, 0), (1, 5), False), ((1, 5), None, False),
    ],
)  # fmt: skip
def test_covariance_reads_rows_and_columns_as_numpy_does(
    m: tuple[int, ...], y: tuple[int, ...] | None, rowvar: bool
) -> None:
    first, more = RNG.random(m), None if y is None else RNG.random(y)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = np.cov(first, more, rowvar)
    for cov in (fnp.cov, ft.jit(fnp.cov, static_argnums=2)):
        np.testing.assert_allclose(cov(first, more, rowvar), wanted, rtol=1e-6)


@pytest.mark.parametrize(("m", "y"), [((), (1, 5)), ((1, 5), (1, 5)), ((1, 5), (5, 1))])
def test_covariance_of_unlike_numbers_of_samples_is_refused(m: Any, y: Any) -> None:
    with pytest.raises(ShapeError, match="samples"):
        fnp.cov(np.ones(m), np.ones(y), rowvar=False)


@pytest.mark.parametrize("size", [1 << 16, 70_000, 65_537, 300_000])
@pytest.mark.parametrize("dtype", ["float32", "int8", "uint16", "bool"])
def test_extremum_of_a_long_vector_stands_first(size: int, dtype: str) -> None:
    """Of ties, in one block and in several, and of NaN."""
    rng = np.random.default_rng(size)
    random = rng.standard_normal(size)
    last = np.zeros(size)
    last[-1], last[7] = 1, -1
    rows = [random, np.round(random), last, np.zeros(size)]
    samples = [(x > 0 if dtype == "bool" else (x * 9).astype(dtype)) for x in rows]
    if dtype == "float32":
        missing = np.array(random, np.float32)
        missing[[size // 2, size - 3]] = np.nan
        samples += [missing, np.full(size, -np.inf, np.float32)]
    for x in samples:
        for ours, other in ((fnp.argmax, np.argmax), (fnp.argmin, np.argmin)):
            assert int(ft.jit(ours)(x)) == int(ours(x)) == other(x)
    stack = np.stack(samples)
    np.testing.assert_array_equal(
        ft.jit(ft.vmap(fnp.argmax))(stack), np.argmax(stack, 1)
    )


@pytest.mark.parametrize("name", ["var", "std", "nanvar", "nanstd"])
@pytest.mark.parametrize("masked", [False, True])
def test_what_is_taken_off_the_count_may_be_traced(name: str, masked: bool) -> None:
    x = np.array([[1.0, 2, 4, 7], [2, 2, 3, 9]])
    where = np.array([[True] * 4, [False, True, True, True]]) if masked else None

    def spread(lost: Any) -> Any:
        given = {} if where is None else {"where": where}
        return getattr(fnp, name)(x, axis=1, ddof=lost, **given)

    for lost in (0, 1, 1.5, 4):
        wanted = np.asarray(spread(lost))
        for found in (
            ft.jit(spread)(lost),
            spread(fnp.asarray(lost)),
            ft.vmap(spread)(np.array([lost]))[0],
        ):
            np.testing.assert_allclose(found, wanted, rtol=1e-14)
    check_grads(spread, (np.float64(1.0),), 1, rtol=1e-5, atol=0, eps=1e-6)
    with pytest.raises(ft.errors.ShapeError, match="ddof must be a scalar"):
        spread(np.ones(2))


@pytest.mark.parametrize("name", ["max", "min"])
def test_complex_extrema_begin_with_initial(name: str) -> None:
    x = np.array([[1 + 2j, 1 - 1j, 0.5], [3, -1j, 2]], np.complex64)
    where = np.array([[True, False, True], [False] * 3])
    function, numpy = getattr(fnp, name), getattr(np, name)
    for initial in (0.7, 1 + 1j, -9.0, 9.0):
        for given in ({}, {"axis": 0}, {"axis": 1, "keepdims": True}):
            call = lambda x: function(x, initial=initial, where=where, **given)  # noqa: B023, E731
            wanted = numpy(x, initial=initial, where=where, **given)
            np.testing.assert_array_equal(call(x), wanted)
            np.testing.assert_array_equal(ft.jit(call)(x), wanted)
    assert function(x[:0], initial=2j) == 2j
    nan = np.array([1 + 1j, complex(np.nan, 3)])
    np.testing.assert_array_equal(function(nan), nan[1])


@pytest.mark.parametrize("name", ["max", "min"])
def test_slopes_of_complex_extrema_are_shared_by_equal_numbers(name: str) -> None:
    x = np.array([5 + 1j, 5 + 2j, 5 + 2j, 5 + 1j, 5 + 1j], np.complex128)
    part = lambda x: getattr(fnp, name)(x).real  # noqa: E731
    wanted = (x == getattr(np, name)(x)) / np.count_nonzero(x == getattr(np, name)(x))
    for slope in (ft.grad(part)(x), ft.jit(ft.grad(part))(x)):
        np.testing.assert_allclose(slope, wanted, rtol=1e-15)


def test_lax_extrema_of_complex_numbers_are_those_of_numpy() -> None:
    x = np.array([1 + 2j, 1 - 1j, 2, 1], np.complex64)
    for name, numpy in (("max", np.maximum), ("min", np.minimum)):
        function = getattr(ft.lax, name)
        for found in (function(x, x[::-1]), ft.jit(function)(x, x[::-1])):
            np.testing.assert_array_equal(found, numpy(x, x[::-1]))
