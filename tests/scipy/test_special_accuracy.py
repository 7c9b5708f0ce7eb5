"""Compositions keep their bounds, in units in the last place, compiled and at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from docs.accuracy import OF_COMPOSITIONS
from ftrace import nn
from ftrace.scipy import special
from tests.lower.legalize.test_decomposition_accuracy import errors

RECORDED = np.load(Path(__file__).parents[1] / "data" / "special.npz")
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "polygamma(1)": partial(special.polygamma, 1),
    "polygamma(4)": partial(special.polygamma, 4),
    "zeta(x, q)": special.zeta,
    "sici": lambda x: special.sici(x)[0],
    "fresnel": lambda x: special.fresnel(x)[0],
    "xlog1py": lambda *x: special.xlog1py(*x, *x),
    "gelu(approximate=False)": partial(nn.gelu, approximate=False),
}


#: Small arrays at hand are computed by NumPy's functions, which are off by more.
OF_NUMPY = 1.5


def function_of(name: str) -> Callable[..., Any]:
    homes = (special, fnp, nn)
    return FUNCTIONS.get(name) or next(
        getattr(home, name) for home in homes if hasattr(home, name)
    )


def worst(name: str, key: str, kind: Any, compiled: bool) -> tuple[float, Any]:
    *arguments, values, lost = RECORDED[key]
    function = ft.jit(function_of(name)) if compiled else function_of(name)
    with ft.config(enable_x64=True):
        got = np.asarray(function(*[x.astype(kind) for x in arguments]))
    assert got.dtype == kind
    error = errors(got, values, lost if kind is np.float64 else 0.0)
    place = int(np.argmax(error))
    return error[place], [x[place] for x in arguments]


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("name", OF_COMPOSITIONS)
def test_composition_keeps_its_bounds(name: str, compiled: bool) -> None:
    _, single, double = OF_COMPOSITIONS[name]
    if not compiled:
        single, double = single + OF_NUMPY, double + OF_NUMPY
    error, where = worst(name, name, np.float32, compiled)
    assert error <= single, where
    for key in (name, f"{name}/wide"):
        error, where = worst(name, key, np.float64, compiled)
        assert error <= double, where


@pytest.mark.parametrize(
    "name", ["i0", "i0e", "i1", "i1e", "ndtr", "log_ndtr", "gamma"]
)
def test_16_bit_floats_are_rounded_once(name: str) -> None:
    x = np.linspace(-8, 8, 200).astype(np.float16)
    function = function_of(name)
    wanted = np.asarray(function(x.astype(np.float32))).astype(np.float16)
    np.testing.assert_array_equal(function(x), wanted)
    np.testing.assert_array_equal(ft.jit(function)(x), wanted)


#: The derivative by another function.
SLOPES: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "i0": (special.i1, np.linspace(-20, 20, 101)),
    "i0e": (lambda x: special.i1e(x) - np.sign(x) * special.i0e(x), np.arange(-20, 20)),
    "i1": (
        lambda x: special.i0(x) - special.i1(x) / x, np.linspace(0.01, 20, 101)
    ),
    "ndtr": (
        lambda x: np.exp(-x * x / 2) / np.sqrt(2 * np.pi), np.linspace(-20, 20, 101)
    ),
    "log_ndtr": (
        lambda x: np.exp(-x * x / 2 - special.log_ndtr(x)) / np.sqrt(2 * np.pi),
        np.linspace(-30, 30, 101),
    ),
    "gamma": (
        lambda x: special.gamma(x) * special.digamma(x), np.linspace(0.05, 150, 101)
    ),
    "factorial": (
        lambda x: special.gamma(x + 1) * special.digamma(x + 1), np.arange(0, 150, 1.5)
    ),
    "logit": (lambda x: 1 / (x * (1 - x)), np.linspace(0.001, 0.999, 101)),
    "squareplus": (
        lambda x: (1 + x / np.sqrt(x * x + 4)) / 2, np.linspace(-30, 30, 101)
    ),
    "sinc": (
        lambda x: (np.cos(np.pi * x) - np.sinc(x)) / x, np.linspace(0.3, 9, 101)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SLOPES)
def test_derivatives_are_those_of_the_functions(name: str) -> None:
    slope, points = SLOPES[name]
    with ft.config(enable_x64=True):
        x = np.asarray(points, np.float64)
        got = ft.vmap(ft.grad(function_of(name)))(x)
        np.testing.assert_allclose(got, np.asarray(slope(x)), rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize("of", [np.float32, np.float64])
def test_values_at_the_edges(of: Any) -> None:
    inf, nan = np.inf, np.nan
    with ft.config(enable_x64=True):
        x = np.array([-inf, -1e38, -0.0, 0.0, 1e38, inf, nan], of)
        wanted: dict[str, list[float]] = {
            "i0": [inf, inf, 1, 1, inf, inf, nan],
            "i1": [-inf, -inf, -0.0, 0, inf, inf, nan],
            "ndtr": [0, 0, 0.5, 0.5, 1, 1, nan],
            "gamma": [nan, nan, -inf, inf, inf, inf, nan],
            "factorial": [0, 0, 1, 1, inf, inf, nan],
        }
        for name, values in wanted.items():
            for function in (function_of(name), ft.jit(function_of(name))):
                got = np.asarray(function(x))
                np.testing.assert_array_equal(got, np.array(values, of))
                assert (np.signbit(got) == np.signbit(values)).all()
        p = np.array([0, 1, 0.5, -0.1, 1.5, nan], of)
        np.testing.assert_array_equal(special.logit(p)[:3], [-inf, inf, 0])
        slopes = ft.vmap(ft.grad(special.logit))(p[:3])
        np.testing.assert_array_equal(slopes, [inf, inf, 4])
        np.testing.assert_array_equal(special.ndtri(p)[:3], [-inf, inf, 0])
        assert np.isnan(np.asarray(special.logit(p)[3:])).all()
        same = special.kl_div(np.array([0, 2, 3], of), np.array([2, 2, 3], of))
        np.testing.assert_array_equal(same, [2, 0, 0])


def test_log_beta_is_symmetric_and_continuous_where_its_formula_changes() -> None:
    x = np.array([0.01, 1.0, 3.0, 9.99, 10.0, 10.01, 200.0])
    with ft.config(enable_x64=True):
        got: Any = np.asarray(special.betaln(x[:, None], x))
        np.testing.assert_array_equal(got, got.T)
        # B(a, b) = B(a + 1, b) + B(a, b + 1)
        parts = [special.betaln(x[:, None] + 1, x), special.betaln(x[:, None], x + 1)]
        sums = np.logaddexp(*map(np.asarray, parts))
        np.testing.assert_allclose(got, sums, rtol=1e-13, atol=2e-14)
        slope = ft.vmap(ft.grad(special.betaln))(x, x)
        wanted = special.digamma(x) - special.digamma(2 * x)
        np.testing.assert_allclose(slope, wanted, rtol=1e-12)
        assert np.isnan(special.betaln(np.nan, 20.0))
        np.testing.assert_allclose(special.betaln(-0.5, 30.0), 2.953470169, rtol=1e-9)
