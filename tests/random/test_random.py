"""Random numbers: those of JAX, bit for bit, however they are drawn."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import special

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import errors, random
from tests.support.key_numbers import numbers
from tests.support.refusals import refuses

_PATH = Path(__file__).parents[1] / "data" / "record_random.py"
_SPEC = importlib.util.spec_from_file_location("record_random", _PATH)
assert _SPEC is not None
assert _SPEC.loader is not None
record: Any = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(record)

DRAWS = record.draws(random)
RECORDED = np.load(record.PATH)
TOLERANCE = {2: 4e-3, 4: 4e-6, 8: 1e-13}
KEY = random.key(3)

#: One call per sampler, for laws that hold for all of them.
SAMPLERS = {
    "bits": lambda key: random.bits(key, (5,)),
    "uniform": lambda key: random.uniform(key, (2, 3)),
    "uniform_range": lambda key: random.uniform(key, (7,), minval=-0.3, maxval=2),
    "randint": lambda key: random.randint(key, (7,), -3, 1000),
    "randint8": lambda key: random.randint(key, (7,), 0, 256, "uint8"),
    "bernoulli": lambda key: random.bernoulli(key, 0.3, (9,)),
    "rademacher": lambda key: random.rademacher(key, (9,)),
    "normal": lambda key: random.normal(key, (3, 2)),
    "truncated_normal": lambda key: random.truncated_normal(key, -1, 2, (5,)),
    "exponential": lambda key: random.exponential(key, (5,)),
    "gumbel": lambda key: random.gumbel(key, (5,)),
    "laplace": lambda key: random.laplace(key, (5,)),
    "logistic": lambda key: random.logistic(key, (5,)),
    "cauchy": lambda key: random.cauchy(key, (5,)),
    "categorical": lambda key: random.categorical(key, np.zeros(4, "f4"), shape=(6,)),
    "gamma": lambda key: random.gamma(key, np.array([0.2, 3], "f4")),
    "poisson": lambda key: random.poisson(key, np.array([0.5, 40], "f4")),
    "binomial": lambda key: random.binomial(key, 50, np.array([0.1, 0.4], "f4")),
    "split": lambda key: random.split(key, 3),
    "fold_in": lambda key: random.fold_in(key, 7),
}


def as_floats(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if values.dtype == np.uint16:
        values = values.view(ml_dtypes.bfloat16)
    return values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)


def assert_same(name: str, drawn: Any, expected: Any) -> None:
    """The same bits; the same up to the rounding of log and the like."""
    drawn, expected = numbers(drawn), numbers(expected)
    assert drawn.dtype == expected.dtype
    if expected.dtype.kind in "iub" or name.startswith("uniform"):
        np.testing.assert_array_equal(drawn, expected)
    else:
        np.testing.assert_allclose(drawn, expected, rtol=2e-6, atol=2e-6)


# What JAX draws.


@pytest.mark.parametrize("name", [n for n in DRAWS if n.startswith("exact")])
def test_bits_are_those_of_jax(name: str) -> None:
    with ft.config(enable_x64=True if "/x64/" in name else None):
        drawn = record.storable(DRAWS[name]())
    expected = RECORDED[name]
    assert drawn.dtype == expected.dtype
    np.testing.assert_array_equal(drawn, expected)


@pytest.mark.parametrize("name", [n for n in DRAWS if n.startswith("close")])
def test_values_are_those_of_jax_to_rounding(name: str) -> None:
    drawn = record.storable(DRAWS[name]())
    expected = RECORDED[name]
    assert drawn.dtype == expected.dtype
    assert drawn.shape == expected.shape
    part = drawn.real if drawn.dtype.kind == "c" else drawn
    tolerance = TOLERANCE[part.dtype.itemsize]
    np.testing.assert_allclose(
        as_floats(drawn), as_floats(expected), rtol=tolerance, atol=tolerance
    )


def test_every_recorded_value_is_compared() -> None:
    assert set(RECORDED) == set(DRAWS)


# The same numbers by any route.


@pytest.mark.parametrize("name", SAMPLERS)
def test_jit_draws_the_same(name: str, device: Any) -> None:
    sampler = SAMPLERS[name]
    assert_same(name, ft.jit(sampler)(KEY), sampler(KEY))


@pytest.mark.parametrize("name", SAMPLERS)
def test_vmap_over_keys_is_a_loop(name: str) -> None:
    sampler = SAMPLERS[name]
    keys = random.split(KEY, 4)
    expected = np.stack([numbers(sampler(key)) for key in keys])
    assert_same(name, ft.vmap(sampler)(keys), expected)


def test_vmap_over_bounds_keeps_the_bits_of_the_key() -> None:
    highs = np.array([1.0, 2.0, 4.0], np.float32)
    drawn = ft.vmap(lambda high: random.uniform(KEY, (5,), maxval=high))(highs)
    expected = np.asarray(random.uniform(KEY, (5,))) * highs[:, None]
    np.testing.assert_array_equal(np.asarray(drawn), expected)


def test_large_draws_are_the_same() -> None:
    for sampler in (random.bits, random.uniform, random.normal):
        large, small = sampler(KEY, (1 << 19,)), sampler(KEY, (1000,))
        np.testing.assert_allclose(
            np.asarray(large)[:1000], np.asarray(small), rtol=2e-6, atol=2e-6
        )


def test_a_function_that_is_traced_draws_nothing() -> None:
    shape = ft.eval_shape(lambda key: random.normal(key, (1 << 40,)), KEY)
    assert shape.shape == (1 << 40,)
    closed = ft.eval_shape(lambda: random.normal(KEY, (1 << 40,)))
    assert closed.shape == (1 << 40,)


def test_bounds_have_derivatives() -> None:
    def mean(low: Any, high: Any) -> Any:
        return ft.numpy.mean(random.uniform(KEY, (50,), minval=low, maxval=high))

    left, right = ft.grad(mean, argnums=(0, 1))(0.0, 3.0)
    share = float(np.mean(np.asarray(random.uniform(KEY, (50,)))))
    np.testing.assert_allclose([left, right], [1 - share, share], rtol=1e-5)


def test_gamma_samples_move_with_their_parameter_at_a_fixed_quantile() -> None:
    a = np.array([0.05, 0.3, 1, 1.5, 2, 7, 40, 3e3, 2e5, 3e6])
    for quantile in (0.003, 0.4, 0.7, 0.9999):
        x = special.gammaincinv(a, quantile)
        step = 1e-4 * a
        ends = [special.gammaincinv(a + s * step, quantile) for s in (-1, 1)]
        slope = (ends[1] - ends[0]) / (2 * step)
        kept = x > 1e-30
        found = np.asarray(ft.lax.random_gamma_grad(a, x))
        np.testing.assert_allclose(found[kept], slope[kept], rtol=1e-5)


def test_what_is_made_of_gamma_samples_has_derivatives() -> None:
    a = np.array([0.3, 1.0, 4.0], np.float32)

    def draw(a: Any, log: bool = False) -> Any:
        return (random.loggamma if log else random.gamma)(KEY, a)

    x, slope = ft.jvp(draw, (a,), (fnp.ones(3),))
    np.testing.assert_allclose(slope, ft.lax.random_gamma_grad(a, x), rtol=1e-6)
    log_slope = ft.grad(lambda a: draw(a, log=True).sum())(a)
    np.testing.assert_allclose(log_slope, slope / x, rtol=1e-4)
    # Probabilities add up to 1, whatever the parameters.
    jacobian = ft.jacrev(lambda a: random.dirichlet(KEY, a))(a)
    np.testing.assert_allclose(jacobian.sum(0), 0, atol=1e-6)
    assert fnp.isfinite(ft.grad(lambda a: random.t(KEY, a).sum())(a)).all()
    slopes = ft.lax.random_gamma_grad(
        np.array([1.0, np.nan, -1.0, 2.0]), np.array([0, 1, 1, -1.0])
    )
    np.testing.assert_array_equal(slopes, [0, np.nan, np.nan, np.nan])


def test_truncated_normal_follows_its_bounds() -> None:
    slope = ft.grad(lambda low: random.truncated_normal(KEY, low, 2.0, ()))(0.5)
    values = [float(random.truncated_normal(KEY, b, 2.0, ())) for b in (0.49, 0.51)]
    np.testing.assert_allclose(slope, (values[1] - values[0]) / 0.02, rtol=1e-2)


# What the samples are like.


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(0, 9))
def test_samples_lie_in_their_range(seed: int, n: int) -> None:
    key = random.key(seed)
    u = np.asarray(random.uniform(key, (n, 3), minval=-2.0, maxval=0.5))
    assert ((u >= -2) & (u < 0.5)).all()
    i = np.asarray(random.randint(key, (n, 3), 5, 9))
    assert ((i >= 5) & (i < 9)).all()
    t = np.asarray(random.truncated_normal(key, -0.5, 0.25, (n, 3)))
    assert ((t > -0.5) & (t < 0.25)).all()


@pytest.mark.parametrize(
    ("name", "mean", "variance"),
    [
        ("uniform", 0.5, 1 / 12),
        ("normal", 0.0, 1.0),
        ("exponential", 1.0, 1.0),
        ("laplace", 0.0, 2.0),
        ("gumbel", np.euler_gamma, np.pi**2 / 6),
        ("logistic", 0.0, np.pi**2 / 3),
    ],
)
def test_moments(name: str, mean: float, variance: float) -> None:
    n = 20_000
    x = np.asarray(getattr(random, name)(KEY, (n,)))
    assert abs(x.mean() - mean) < 5 * np.sqrt(variance / n)
    assert abs(x.var() / variance - 1) < 0.1


def test_categorical_draws_by_probability() -> None:
    p = np.array([0.1, 0.2, 0.7], np.float32)
    drawn = np.asarray(random.categorical(KEY, np.log(p), shape=(20_000,)))
    np.testing.assert_allclose(np.bincount(drawn) / drawn.size, p, atol=0.02)


def test_split_keys_are_independent_of_their_number() -> None:
    np.testing.assert_array_equal(
        numbers(random.split(KEY, 5)[:3]), numbers(random.split(KEY, 3))
    )


def test_the_highest_precision_of_gumbel_is_that_of_jax() -> None:
    for draw in (random.gumbel, ft.jit(random.gumbel, static_argnums=(1, 2, 3))):
        made = draw(KEY, (4,), np.float32, "highest")
        np.testing.assert_allclose(
            made, [2.5647566, -1.0235124, -0.04578255, -1.3121184], 1e-6
        )
    with ft.config(enable_x64=False):
        made = random.gumbel(KEY, (1000,), mode="highest")
        assert np.isfinite(np.asarray(made)).all()
        assert random.categorical(KEY, np.zeros(3, "f4"), mode="highest") in (0, 1, 2)


def test_orthogonal_matrices_of_complex_numbers_are_unitary() -> None:
    q = np.asarray(random.orthogonal(KEY, 4, (2,), np.complex64, m=3))
    np.testing.assert_allclose(q.conj().mT @ q, np.eye(3)[None].repeat(2, 0), atol=1e-6)


# Choice.


def test_choice_draws_rows() -> None:
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    drawn = random.choice(KEY, rows, (5, 2))
    index = np.asarray(random.randint(KEY, (5, 2), 0, 4))
    np.testing.assert_array_equal(np.asarray(drawn), rows[index])
    drawn = random.choice(KEY, rows, (5,), axis=1)
    index = np.asarray(random.randint(KEY, (5,), 0, 3))
    np.testing.assert_array_equal(np.asarray(drawn), rows[:, index])


def test_choice_draws_by_probability() -> None:
    p = np.array([0.0, 0.25, 0.75], np.float32)
    drawn = np.asarray(random.choice(KEY, 3, (20_000,), p=p))
    np.testing.assert_allclose(
        np.bincount(drawn, minlength=3) / drawn.size, p, atol=0.02
    )


# Shapes and seeds.


@pytest.mark.parametrize(
    "shape", [3, (3,), [3], np.int64(3), np.array([3]), range(3, 4)]
)
def test_shapes_are_sequences_of_integers(shape: Any) -> None:
    assert random.normal(KEY, shape).shape == (3,)


def test_a_shape_is_required_where_no_parameter_has_one() -> None:
    with pytest.raises(TypeError, match=r"random\.normal: shape, where it"):
        random.normal(KEY, None)


def test_seeds_may_be_traced() -> None:
    seeds = np.arange(4, dtype=np.int32)
    expected = np.stack([numbers(random.key(int(s))) for s in seeds])
    np.testing.assert_array_equal(numbers(ft.vmap(random.key)(seeds)), expected)
    np.testing.assert_array_equal(numbers(ft.jit(random.key)(3)), expected[3])


@pytest.mark.parametrize("enabled", [True, False])
def test_the_64_bit_switch_is_that_of_jax(enabled: bool) -> None:
    with ft.config(enable_x64=enabled):
        assert random.normal(KEY, (2,)).dtype == ("float64" if enabled else "float32")
        assert random.randint(KEY, (2,), 0, 5).dtype == (
            "int64" if enabled else "int32"
        )
        high = (1 << 40) >> 32 if enabled else 0
        assert np.asarray(random.PRNGKey(1 << 40)).tolist() == [high, 0]
        high = (1 << 32) - 1 if enabled else 0
        assert np.asarray(random.PRNGKey(-1)).tolist() == [high, (1 << 32) - 1]


#: Distributions by the number that they take.
OF_NUMBERS: dict[str, Any] = {
    "bernoulli": lambda p: random.bernoulli(KEY, p, (9,)),
    "bernoulli_high": lambda p: random.bernoulli(KEY, p, (9,), mode="high"),
    "geometric": lambda p: random.geometric(KEY, p, (9,)),
    "uniform": lambda p: random.uniform(KEY, (9,), minval=-p, maxval=p),
    "truncated_normal": lambda p: random.truncated_normal(KEY, -p, p, (9,)),
    "triangular": lambda p: random.triangular(KEY, -p, 0.0, p, (9,)),
    "wald": lambda p: random.wald(KEY, p, (9,)),
    "pareto": lambda p: random.pareto(KEY, p, (9,)),
    "rayleigh": lambda p: random.rayleigh(KEY, p, (9,)),
    "lognormal": lambda p: random.lognormal(KEY, p, (9,)),
    "weibull_min": lambda p: random.weibull_min(KEY, p, p, (9,)),
    "maxwell": lambda p: random.double_sided_maxwell(KEY, p, p, (9,)),
}


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_numbers_of_numpy_draw_what_pythons_draw(name: str) -> None:
    run = OF_NUMBERS[name]
    wanted = np.asarray(run(0.5))
    for _ in range(8):
        for found in (run(np.float64(0.5)), ft.jit(run)(np.float64(0.5))):
            assert found.dtype == wanted.dtype
            np.testing.assert_allclose(found, wanted, 1e-6)
    with ft.config(enable_x64=True):
        np.testing.assert_array_equal(run(np.float64(0.5)), run(0.5))


def test_bounds_of_integers_fit_the_dtype() -> None:
    for dtype in ("int8", "uint8", "int32", "uint32", "int64"):
        least, greatest = np.iinfo(dtype).min, np.iinfo(dtype).max
        found = random.randint(KEY, (99,), int(least), int(greatest) + 1, dtype)
        assert found.dtype == dtype
        for one in (int, np.int64):
            for low, high in ((0, 2**40), (-(2**40), 0)):
                if dtype == "int64":
                    continue
                with pytest.raises(errors.DtypeOverflowError, match="does not fit"):
                    random.randint(KEY, (3,), one(low), one(high), dtype)
        with pytest.raises(errors.DtypeOverflowError, match="bound inf does not fit"):
            random.randint(KEY, (3,), 0, np.inf, dtype)
        # Of an array what lies beyond is moved to the end.
        wide = np.array([2**40] * 9)
        beyond = min(2**40, int(greatest) + 1)
        np.testing.assert_array_equal(
            random.randint(KEY, (9,), 0, wide, dtype),
            random.randint(KEY, (9,), 0, beyond, dtype),
        )
    with pytest.raises(errors.DtypeOverflowError, match="does not fit int32"):
        random.choice(KEY, 2**40, (3,))


# Bad input.


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: random.normal(5), errors.ArgumentError, "a key is required"),
        (
            lambda: random.normal(np.zeros(3, np.uint32)),
            errors.ArgumentError,
            r"got uint32 of shape \(3,\)",
        ),
        (lambda: random.normal(np.zeros(2, np.int32)), TypeError, "got int32"),
        (
            lambda: random.normal(random.split(KEY)),
            errors.ValueRangeError,
            "takes a single key.*use vmap",
        ),
        (lambda: random.normal(KEY, (-1,)), errors.ShapeError, "must not be negative"),
        (
            lambda: random.normal(KEY, (2.5,)),
            errors.ArgumentError,
            "must be an integer",
        ),
        (lambda: random.normal(KEY, (), int), errors.DtypeError, "float or complex"),
        (lambda: random.beta(KEY, 1j, 2.0), errors.DtypeError, "complex numbers"),
        (lambda: random.uniform(KEY, (), int), errors.DtypeError, "draws float"),
        (
            lambda: random.uniform(KEY, (2,), minval=np.zeros(3)),
            errors.ShapeError,
            "do not broadcast",
        ),
        (lambda: random.randint(KEY, (), 0, 1, float), errors.DtypeError, "integer"),
        (lambda: random.bits(KEY, (), int), errors.DtypeError, "unsigned"),
        (lambda: random.bernoulli(KEY, 1), errors.DtypeError, "must be a float"),
        (lambda: random.key(1.5), errors.DtypeError, "seed must be an integer"),
        (lambda: random.key(np.arange(2)), errors.ValueRangeError, "must be a scalar"),
        (lambda: random.key(1 << 64), OverflowError, "64 bits"),
        (lambda: random.key(0, impl="mt"), ValueError, "threefry2x32"),
        (lambda: random.fold_in(KEY, -1), OverflowError, "unsigned integer of 32"),
        (
            lambda: random.categorical(KEY, np.zeros((2, 3), "f4"), shape=(4,)),
            errors.ShapeError,
            "must end in that of the logits",
        ),
        (
            lambda: random.categorical(KEY, np.zeros((3, 0), "f4")),
            errors.ValueRangeError,
            "no categories",
        ),
        (
            lambda: random.choice(KEY, 5, (6,), replace=False),
            errors.ValueRangeError,
            "without replacement",
        ),
        (
            lambda: random.choice(KEY, 5, (2,), p=np.ones(4, np.float32)),
            errors.ShapeError,
            "one probability per element",
        ),
    ],
)
def test_bad_input_is_named(call: Any, error: type[Exception], message: str) -> None:
    with refuses(error, message):
        call()
