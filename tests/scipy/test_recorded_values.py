"""ftrace.scipy and ftrace.ops: recorded values, derivatives, messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace.numpy as fnp
import ftrace.ops as ops
import ftrace.scipy.signal as signal
import ftrace.scipy.special as special
from ftrace import config, grad, jit, random
from ftrace.errors import (
    ArgumentError,
    ConcretizationTypeError,
    DtypeError,
    FtraceError,
    ShapeError,
    ValueRangeError,
)
from ftrace.scipy.stats import norm
from ftrace.testing import check_grads
from tests.support import recorded_surface

RNG = np.random.default_rng(17)


@pytest.mark.parametrize("expression", recorded_surface.expressions("scipy"))
def test_scipy_agrees_with_jax_eager_and_traced(expression: str) -> None:
    recorded_surface.check_value(
        expression, recorded_surface.evaluate_eager(expression)
    )
    recorded_surface.check_value(
        expression, recorded_surface.evaluate_traced(expression)
    )


def _positive(*shape: int) -> Any:
    return np.abs(RNG.standard_normal(shape)) + 0.2


DIFFERENTIABLE: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "xlogy": (special.xlogy, [RNG.standard_normal(6), _positive(6)]),
    "entr": (special.entr, [_positive(6)]),
    "logit": (special.logit, [_positive(6) / 5]),
    "gammaln": (special.gammaln, [_positive(6)]),
    "betaln": (special.betaln, [_positive(6), _positive(6)]),
    "i1e": (special.i1e, [RNG.standard_normal(6) * 9]),
    "i0e": (special.i0e, [RNG.standard_normal(6) * 9]),
    "zeta": (special.zeta, [_positive(6) + 1.5, _positive(6)]),
    "ndtr": (special.ndtr, [RNG.standard_normal(6)]),
    "log_ndtr": (special.log_ndtr, [np.array([-30.0, -12, -1, 0, 3, 9])]),
    "ndtri": (special.ndtri, [np.array([1e-6, 0.01, 0.3, 0.5, 0.8, 0.999])]),
    "logpdf": (
        norm.logpdf,
        [RNG.standard_normal(6), RNG.standard_normal(6), _positive(6)],
    ),
    "logcdf": (norm.logcdf, [RNG.standard_normal(6) * 4]),
    "segment_sum": (
        lambda x: ops.segment_sum(x, np.array([0, 2, 0]), 3),
        [RNG.standard_normal((3, 2))],
    ),
    "convolve": (signal.convolve, [RNG.standard_normal(7), RNG.standard_normal(3)]),
}


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_scipy_derivative_agrees_with_differences(name: str) -> None:
    function, arguments = DIFFERENTIABLE[name]
    step = 1e-8 if name == "ndtri" else 1e-6
    check_grads(function, arguments, 1, atol=2e-5, rtol=2e-5, eps=step)


def test_xlogy_at_zero_keeps_its_slope() -> None:
    x, y = np.array([0.0, 0.0, 2.0]), np.array([0.0, 3.0, 0.5])
    np.testing.assert_allclose(special.xlogy(x, y), [0, 0, 2 * np.log(0.5)])
    slope_x, slope_y = recorded_surface.gradient(
        lambda a, b: fnp.sum(special.xlogy(a, b)[1:]), x, y
    )
    np.testing.assert_allclose(slope_x, [0, np.log(3), np.log(0.5)])
    np.testing.assert_allclose(slope_y, [0, 0, 4])
    assert np.isnan(special.xlogy(np.nan, 1.0))


def test_quantile_is_the_inverse_of_the_distribution() -> None:
    q = np.array([0.0, 1e-300, 1e-20, 1e-5, 0.02, 0.3, 0.5, 0.9, 0.999999, 1.0])
    z = np.asarray(special.ndtri(q))
    assert z[0] == -np.inf
    assert z[-1] == np.inf
    np.testing.assert_allclose(special.ndtr(z)[1:-1], q[1:-1], rtol=1e-12)
    assert np.isnan(np.asarray(special.ndtri(np.array([-0.1, 1.1])))).all()


def test_quantiles_have_at_least_the_default_width() -> None:
    q = np.array([0.25, 0.5], np.float32)
    for quantile in (norm.ppf, norm.isf):
        for function in (quantile, jit(quantile)):
            assert function(q).dtype == np.float32
            assert function(q.astype(np.float64)).dtype == np.float64
            with config(enable_x64=True):
                assert function(q).dtype == np.float64


def test_segments_without_their_number_need_known_ids() -> None:
    x, ids = np.arange(6.0).reshape(3, 2), np.array([1, 0, 1])
    np.testing.assert_array_equal(ops.segment_sum(x, ids), [[2, 3], [4, 6]])
    with pytest.raises(ConcretizationTypeError):
        recorded_surface.traced(ops.segment_sum, x, ids)


@pytest.mark.parametrize("order", [np.int32(4), np.array(4), fnp.int32(4)])
def test_static_arguments_are_integers_of_any_kind(order: Any) -> None:
    x = np.linspace(-15.0, 1.0, 7)
    for _ in range(3):
        found = special.log_ndtr(x, series_order=order)
        np.testing.assert_array_equal(found, special.log_ndtr(x, 4))


def test_calls_that_do_not_fit_are_refused_by_name() -> None:
    missing = r"^betaln\(\) missing 1 required positional argument: 'b'"
    for call in (special.betaln, jit(special.betaln)):
        with pytest.raises(TypeError, match=missing):
            call(np.ones(2))
    with pytest.raises(TypeError, match=r"^gamma\(\) got an unexpected keyword"):
        special.gamma(y=1.0)
    with pytest.raises(TypeError, match=r"^normal\(\) missing 1 required"):
        random.normal()


MESSAGES: list[tuple[Callable[[], Any], type[FtraceError], str]] = [
    (
        lambda: ops.segment_sum(np.ones(3), np.ones(3), 2),
        DtypeError,
        "segment_ids must be integers",
    ),
    (
        lambda: ops.segment_sum(np.ones(3), np.arange(4), 2),
        ShapeError,
        "must match the leading axes",
    ),
    (
        lambda: ops.segment_max(np.ones(3), np.arange(3), -1),
        ValueRangeError,
        "must not be negative",
    ),
    (lambda: special.polygamma(1.5, np.ones(2)), DtypeError, "n must be an integer"),
    (lambda: special.factorial(3, exact=True), ValueRangeError, "math.factorial"),
    (lambda: special.log_ndtr(np.ones(2), -1), ValueRangeError, "must not be negative"),
    (
        lambda: special.log_ndtr(np.ones(2), fnp.ones(2)),
        ArgumentError,
        "log_ndtr: series_order must be an integer, got Array",
    ),
    (
        lambda: special.betaln(np.ones(2), np.ones(3)),
        ShapeError,
        "betaln: shapes (2,) and (3,) do not broadcast",
    ),
    (
        lambda: signal.convolve(np.ones(3), np.ones(3), "half"),
        ValueRangeError,
        "'full', 'same' or 'valid'",
    ),
    (lambda: signal.convolve(np.ones(3), np.ones((3, 3))), ShapeError, "as many axes"),
    (
        lambda: signal.convolve(np.ones((2, 5)), np.ones((3, 3))),
        ShapeError,
        "at least as large",
    ),
    (
        lambda: signal.convolve2d(np.ones(3), np.ones(3)),
        ShapeError,
        "matrices are required",
    ),
    (
        lambda: signal.convolve2d(np.ones((3, 3)), np.ones((3, 3)), boundary="wrap"),
        ValueRangeError,
        "boundary='fill'",
    ),
]


@pytest.mark.parametrize("case", range(len(MESSAGES)))
def test_scipy_says_what_is_wrong(case: int) -> None:
    recorded_surface.check_message(*MESSAGES[case])


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("kinds", ["ff", "fc", "cc", "ii"])
def test_fftconvolve_agrees_with_the_sum(mode: str, kinds: str) -> None:
    shapes: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
        ((1,), (1,)), ((7,), (3,)), ((3,), (8,)), ((5, 6), (2, 3)), ((4, 1), (4, 1)),
    ]  # fmt: skip
    for first, second in shapes:
        x, k = (
            RNG.standard_normal(shape) + (1j * RNG.random(shape) if kind == "c" else 0)
            if kind != "i"
            else RNG.integers(-3, 4, shape)
            for shape, kind in zip((first, second), kinds, strict=True)
        )
        jitted = jit(signal.fftconvolve, static_argnums=2)
        for call in (signal.fftconvolve, jitted):
            found = call(x, k, mode)
            want = signal.convolve(x, k, mode)
            assert found.shape == want.shape
            assert found.dtype == want.dtype
            tolerance = 1e-5 if kinds == "ii" else 1e-12
            np.testing.assert_allclose(found, want, rtol=tolerance, atol=tolerance)


def test_fftconvolve_along_some_axes_broadcasts_the_others() -> None:
    x, k = RNG.standard_normal((3, 7)), RNG.standard_normal((1, 4))
    want = [np.convolve(row, k[0]) for row in x]
    np.testing.assert_allclose(signal.fftconvolve(x, k, axes=1), want, atol=1e-12)
    with pytest.raises(ShapeError, match="as many axes"):
        signal.fftconvolve(x, k[0])
    with pytest.raises(ShapeError, match="at least as large"):
        signal.fftconvolve(np.ones((2, 5)), np.ones((3, 3)), "valid")
    with pytest.raises(ValueRangeError, match="mode must be"):
        signal.fftconvolve(x, k, "half")
    larger = signal.fftconvolve(np.ones((2, 5)), np.ones((3, 3)))
    assert larger.shape == (4, 7)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("power", [2, 3, 5])
def test_zeta_of_what_is_below_zero_begins_with_its_first_term(
    power: int, dtype: str
) -> None:
    near = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-6, "float64": 1e-13}
    q = fnp.array([-0.5, -1.25, -7.25, -40.75, 0.5, 3.25], dtype)
    s = fnp.full_like(q, power)
    for zeta in (special.zeta, jit(special.zeta)):
        found, later, first = zeta(s, q), zeta(s, q + 1), q ** (-s)
        assert found.dtype == q.dtype
        found, later, first = (
            np.asarray(v).astype(np.float64) for v in (found, later, first)
        )
        assert np.isfinite(found).all()
        size = abs(found) + abs(later) + abs(first)
        assert (abs(found - later - first) <= near[dtype] * size).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_polygamma_is_the_derivative_of_digamma(dtype: str) -> None:
    x = fnp.array([-3.2, -0.7, 0.5, 2.5, 40.0], dtype)
    near = {"float16": 2e-2, "bfloat16": 5e-2, "float32": 2e-5, "float64": 1e-10}
    derivative: Callable[..., Any] = special.digamma
    for n in (1, 2, 3):
        derivative = grad(derivative)
        wanted = [derivative(np.float64(v)) for v in np.asarray(x)]
        found = np.asarray(special.polygamma(n, x)).astype(np.float64)
        np.testing.assert_allclose(found, wanted, rtol=near[dtype])
