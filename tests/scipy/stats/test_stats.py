"""Distributions: laws over a table, and SciPy's values at a grid of parameters."""

from __future__ import annotations

import pickle
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import ftrace as ft
from ftrace.errors import DtypeError, ShapeError
from ftrace.scipy import stats
from ftrace.testing import check_grads

scipy_stats = pytest.importorskip("scipy.stats")

Grid = tuple[float, ...]

#: The shape parameters of a grid; all distributions of real numbers.
CONTINUOUS: dict[str, tuple[Grid, ...]] = {
    "norm": (), "cauchy": (), "expon": (), "laplace": (), "logistic": (),
    "uniform": (), "gumbel_l": (), "gumbel_r": (),
    "beta": ((0.3, 1.0, 4.0, 70.0), (0.6, 1.0, 2.5, 30.0)),
    "gamma": ((0.05, 0.7, 1.0, 3.0, 45.0, 900.0),),
    "chi2": ((0.2, 1.0, 2.0, 7.5, 60.0),),
    "pareto": ((0.4, 1.0, 6.0),),
    "t": ((0.3, 1.0, 4.0, 1e6),),
    "truncnorm": ((-1.0, 0.5, 3.0, -6.0), (4.0, 1.5, 9.0, -5.0)),
    "gennorm": ((0.5, 1.0, 2.0, 5.0),),
    "vonmises": ((0.1, 1.0, 50.0),),
    "wrapcauchy": ((0.05, 0.5, 0.95),),
}  # fmt: skip
DISCRETE: dict[str, tuple[Grid, ...]] = {
    "bernoulli": ((0.0, 0.2, 1.0),),
    "binom": ((0.0, 3.0, 20.0), (0.0, 0.3, 1.0)),
    "betabinom": ((0.0, 5.0, 30.0), (0.4, 2.0, 9.0), (0.7, 3.0, 20.0)),
    "geom": ((0.02, 0.5, 1.0),),
    "nbinom": ((0.5, 4.0, 20.0), (0.1, 0.5, 0.9)),
    "poisson": ((0.01, 2.0, 40.0, 700.0),),
}
PLACES = ((0.0, 1.0), (-1.5, 0.25), (40.0, 3.0))
PROBABILITIES = np.array([0.0, 1e-4, 0.01, 0.3, 0.5, 0.8, 0.999, 1.0])


def takes_place(name: str) -> bool:
    return name not in ("gennorm", "vonmises", "wrapcauchy")


def grid(name: str) -> tuple[Any, tuple[Any, ...]]:
    """Points of the support, its ends and what is outside, beside parameters."""
    shapes = CONTINUOUS[name]
    if name == "truncnorm":
        a, b = np.array(shapes)
        shapes = np.sort([a, a + 2.5], axis=0), np.sort([b, b - 0.5], axis=0)
        columns = [np.ravel(shapes[0]), np.ravel(shapes[0]) + 2.5]
    else:
        columns = [x.ravel() for x in np.meshgrid(*shapes)] if shapes else []
    places = PLACES if takes_place(name) else ((),)
    reference = getattr(scipy_stats, name)
    points, parameters = [], []
    for row in zip(*columns, strict=True) if columns else [()]:
        for place in places:
            low, high = reference.support(*row, *place)
            inner = reference.ppf(PROBABILITIES[1:-1], *row, *place)
            ends = [x for e in (low, high) for x in (e, e - 1, e + 1)]
            xs = [*inner, *[x for x in ends if np.isfinite(x)], np.nan]
            points += xs
            parameters += [(*row, *place)] * len(xs)
    columns = [np.array(column) for column in zip(*parameters, strict=True)]
    return np.array(points), tuple(columns)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_functions_have_scipy_values(name: str) -> None:
    x, parameters = grid(name)
    module, reference = getattr(stats, name), getattr(scipy_stats, name)
    for function in module.__all__:
        points = x
        if function in ("ppf", "isf"):
            points = np.resize(PROBABILITIES, x.shape)
        with np.errstate(all="ignore"):
            wanted = getattr(reference, function)(points, *parameters)
        got = np.asarray(getattr(module, function)(points, *parameters))
        assert got.dtype == np.float64
        near = {"rtol": 1e-10, "atol": 1e-280}
        np.testing.assert_allclose(got, wanted, **near, err_msg=function)
        # Where a location is added, or the end of a circle, points are rounded.
        if name == "wrapcauchy":
            continue
        own = parameters[-2] == 0 if takes_place(name) else np.full(x.shape, True)
        single = [v[own].astype(np.float32) for v in (points, *parameters)]
        with np.errstate(all="ignore"):
            exact = getattr(reference, function)(*[v.astype(float) for v in single])
        got = np.asarray(getattr(module, function)(*single))
        assert got.dtype == np.float32
        if function.startswith("log"):  # what underflows, and rounded ends
            exact = np.where(exact < -86, got, exact)
        near = {"rtol": 2e-3 if name == "truncnorm" else 2e-4, "atol": 1e-5}
        np.testing.assert_allclose(got, exact, **near, err_msg=function)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_the_slope_of_cdf_is_the_density(name: str) -> None:
    module, reference = getattr(stats, name), getattr(scipy_stats, name)
    shapes = [np.array(column)[-2:].min() for column in CONTINUOUS[name]]
    if name == "truncnorm":
        shapes = [-1.0, 2.0]
    x = reference.ppf(np.array([0.1, 0.4, 0.75, 0.9]), *shapes)
    place = (0.0, 1.0) if takes_place(name) else ()
    arguments = [np.full_like(x, p) for p in (*shapes, *place)]
    density = np.asarray(module.pdf(x, *arguments))
    if "cdf" in module.__all__:
        slope = ft.vmap(ft.grad(module.cdf))(x, *arguments)
        np.testing.assert_allclose(slope, density, rtol=1e-9)
    else:  # its integral is 1, but for the tails
        low, high = reference.ppf(np.array([0.0005, 0.9995]), *shapes)
        points = np.linspace(low, high, 4001)
        total = np.trapezoid(module.pdf(points, *shapes), points)
        np.testing.assert_allclose(total, 0.999, rtol=1e-3)
    if "ppf" in module.__all__:
        back = module.cdf(module.ppf(PROBABILITIES, *shapes), *shapes)
        np.testing.assert_allclose(back, PROBABILITIES, rtol=1e-11)
    if "sf" in module.__all__:
        both = module.sf(x, *arguments) + module.cdf(x, *arguments)
        np.testing.assert_allclose(both, 1, rtol=1e-13)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_log_densities_have_derivatives_in_all_parameters(name: str) -> None:
    log_density = getattr(stats, name).logpdf
    shapes = [np.array(column)[-2:].min() for column in CONTINUOUS[name]]
    if name == "truncnorm":
        shapes = [-1.0, 2.0]
    place = [0.1, 1.3] if takes_place(name) else []
    x = np.array([0.4, 0.9, 1.3]) + 2 * (name == "pareto")
    arguments = [x, *[np.full_like(x, p) for p in (*shapes, *place)]]
    check_grads(log_density, arguments, 1, rtol=2e-6, atol=1e-8, eps=1e-6)


@pytest.mark.parametrize("name", DISCRETE)
def test_masses_have_scipy_values(name: str) -> None:
    k = np.array([-1.0, 0, 1, 2, 3, 5, 20, 33])
    k, *shapes = [v.ravel() for v in np.meshgrid(k, *DISCRETE[name])]
    module, reference = getattr(stats, name), getattr(scipy_stats, name)
    for function in module.__all__:
        for loc in (0, 2) if (name, function) != ("bernoulli", "cdf") else (0,):
            if function in ("entropy", "ppf"):
                continue
            place = (loc,) if loc else ()
            with np.errstate(all="ignore"):
                wanted = getattr(reference, function)(k, *shapes, *place)
            got = getattr(module, function)(k, *shapes, *place)
            np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-300)
            single = [v.astype(np.float32) for v in (k, *shapes)]
            got = getattr(module, function)(*single, *place)
            np.testing.assert_allclose(got, wanted, rtol=3e-4, atol=1e-6)


def test_what_few_discrete_distributions_have() -> None:
    mu = np.array([0, 1e-3, 0.5, 9.9, 60.0, 99.5, 101, 300])
    wanted = scipy_stats.poisson.entropy(mu)
    np.testing.assert_allclose(stats.poisson.entropy(mu), wanted, rtol=1e-9)
    assert stats.poisson.entropy(3.0, np.zeros((2, 1))).shape == (2, 1)
    q = np.array([-0.1, 0.0, 0.5, 0.8, 0.9, 1.0, np.nan])
    np.testing.assert_array_equal(
        stats.bernoulli.ppf(q, 0.2), [np.nan, 0, 0, 0, 1, 1, np.nan]
    )
    np.testing.assert_array_equal(
        stats.bernoulli.cdf(0.5, np.array([0.2, 2.0])), [0.8, np.nan]
    )


def test_parameters_out_of_range_are_nan() -> None:
    x = np.array([-1.0, 1.0])
    bad = [
        stats.beta.logpdf(0.5, -1.0, 2.0), stats.beta.cdf(0.5, 1.0, -2.0),
        stats.gumbel_l.cdf(0.5, 0.0, 0.0), stats.truncnorm.pdf(0.5, 1.0, 0.0),
        stats.vonmises.pdf(0.5, -1.0), stats.wrapcauchy.pdf(0.5, 1.5),
        stats.gamma.cdf(0.5, -1.0), stats.betabinom.pmf(1, 4, -1.0, 1.0),
        stats.norm.logpdf(0.5, 0.0, -1.0), stats.expon.ppf(1.5),
        *stats.gamma.cdf(x, 0.0), *stats.chi2.logsf(x, 0.0),
        stats.gennorm.cdf(0.5, 0.0), stats.betabinom.pmf(np.nan, 4, 1.0, 1.0),
        stats.beta.cdf(0.5, np.inf, np.inf), stats.pareto.sf(0.5, np.nan),
        stats.poisson.entropy(-1.0), stats.poisson.pmf(1, 1.0, np.nan),
        *stats.expon.cdf(x, 0.0, -1.0),
    ]  # fmt: skip
    assert all(np.isnan(x) for x in bad)


def test_a_normal_distribution_without_directions() -> None:
    none = np.zeros((2, 0))
    got = stats.multivariate_normal.logpdf(none, none[0], np.zeros((0, 0)))
    np.testing.assert_array_equal(got, np.zeros(2))


def test_distributions_are_of_real_numbers() -> None:
    with pytest.raises(DtypeError, match=r"cauchy\.cdf is not defined for complex"):
        stats.cauchy.cdf(1j)


def test_distributions_of_vectors_have_scipy_values() -> None:
    alpha = np.array([0.5, 2.0, 3.0])
    x = np.array([[0.2, 0.1], [0.3, 0.6], [0.5, 0.3]])
    wanted = scipy_stats.dirichlet.logpdf(x, alpha)
    np.testing.assert_allclose(stats.dirichlet.logpdf(x, alpha), wanted)
    np.testing.assert_allclose(stats.dirichlet.pdf(x[:2], alpha), np.exp(wanted))
    assert stats.dirichlet.logpdf(2 * x[:, 0], alpha) == -np.inf
    counts, p = np.array([1, 0, 4]), np.array([0.2, 0.3, 0.5])
    wanted = scipy_stats.multinomial.pmf(counts, 5, p)
    np.testing.assert_allclose(stats.multinomial.pmf(counts, 5, p), wanted, rtol=1e-6)
    assert stats.multinomial.logpmf(counts, 6, p) == -np.inf
    generator = np.random.default_rng(0)
    root = generator.normal(size=(4, 3, 3))
    covariances = root @ root.swapaxes(1, 2) + np.eye(3)
    points, mean = generator.normal(size=(5, 3)), generator.normal(size=3)
    log_density = stats.multivariate_normal.logpdf
    wanted = scipy_stats.multivariate_normal(mean, covariances[0]).logpdf(points)
    np.testing.assert_allclose(log_density(points, mean, covariances[0]), wanted)
    several = log_density(points[:, None], mean, covariances)
    assert several.shape == (5, 4)
    np.testing.assert_allclose(several[:, 0], wanted)
    scalar = scipy_stats.multivariate_normal(mean, 2.5 * np.eye(3)).logpdf(points)
    np.testing.assert_allclose(log_density(points, mean, np.array(2.5)), scalar)
    with pytest.raises(ShapeError, match="covariance of shape"):
        log_density(points, mean, covariances[0, :2])
    with pytest.raises(DtypeError, match="must be integers"):
        stats.multinomial.pmf(counts + 0.5, 5, p)


def test_gaussian_kde_has_scipy_values() -> None:
    generator = np.random.default_rng(1)
    for d in (1, 2):
        data, weights = generator.normal(size=(d, 30)), generator.uniform(size=30)
        points = generator.normal(size=(d, 5))
        for method in (None, "silverman", 0.4, lambda kde: kde.neff ** (-1 / 6)):
            ours = stats.gaussian_kde(data, method, weights)
            theirs = scipy_stats.gaussian_kde(data, method, weights)
            np.testing.assert_allclose(ours(points), theirs(points))
            np.testing.assert_allclose(ours.logpdf(points), theirs.logpdf(points))
        mean, cov = np.full(d, 0.3), 0.5 * np.eye(d)
        np.testing.assert_allclose(
            ours.integrate_gaussian(mean, cov), theirs.integrate_gaussian(mean, cov)
        )
        other = stats.gaussian_kde(points)
        wanted = theirs.integrate_kde(scipy_stats.gaussian_kde(points))
        np.testing.assert_allclose(ours.integrate_kde(other), wanted)
        density = ft.jit(lambda kde, x: kde(x))(ours, points)
        np.testing.assert_allclose(density, ours(points))
        assert ours.resample(ft.random.key(0), (7,)).shape == (d, 7)
    one = stats.gaussian_kde(data[0])
    np.testing.assert_allclose(
        one.integrate_box_1d(-1, 0.5),
        scipy_stats.gaussian_kde(data[0]).integrate_box_1d(-1, 0.5),
    )


def test_ranks_modes_and_errors_of_means() -> None:
    x = np.array([[3.0, 1, 4, 1, 5], [9, 2, 6, 5, 3], [5, 5, 8, 9, 7]])
    for axis in (None, 0, 1):
        for method in ("average", "min", "max", "dense", "ordinal"):
            wanted = scipy_stats.rankdata(x, method, axis=axis)
            wanted = wanted if axis is not None else wanted.ravel()
            ranks = stats.rankdata(x, method, axis=axis)
            np.testing.assert_array_equal(ranks, wanted)
        for keep in (False, True):
            wanted = scipy_stats.mode(x, axis=axis, keepdims=keep)
            for got, value in zip(stats.mode(x, axis, keepdims=keep), wanted):  # noqa: B905
                np.testing.assert_array_equal(got, value)
            wanted = scipy_stats.sem(x, axis, keepdims=keep) if axis != 9 else None
            np.testing.assert_allclose(stats.sem(x, axis, keepdims=keep), wanted)
    x[0, 1] = np.nan
    assert np.isnan(np.asarray(stats.rankdata(x, axis=1))).sum() == 5
    wanted = scipy_stats.sem(x, 1, nan_policy="omit")
    np.testing.assert_allclose(stats.sem(x, 1, nan_policy="omit"), wanted)


def test_a_distribution_is_a_module() -> None:
    module = import_module("ftrace.scipy.stats.gamma")
    assert module is stats.gamma
    assert pickle.loads(pickle.dumps(module.cdf)) is module.cdf
    with pytest.raises(TypeError, match=r"gamma\.cdf\(\) missing a required argument"):
        module.cdf(1.0)
    for kind in (np.float16, np.float32):
        assert module.pdf(np.ones(2, kind), np.ones(2, kind)).dtype == kind
    assert stats.expon.pdf(2).dtype == np.float32
