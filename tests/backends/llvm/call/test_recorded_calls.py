"""Eager calls that are learned: the bits are those of Python's code, step by step."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
import ftrace.random as random
from ftrace import lax
from ftrace.backends.base import get_device
from ftrace.testing import assert_same_bits
from ftrace.trace import tiering
from ftrace.trace.primitives import reference as special

#: The eighth is learned, and two more are native.
CALLS = tiering.CALLS_BEFORE_RECORD + 3


@pytest.fixture(autouse=True)
def native() -> Iterator[None]:
    with ft.config(native_calls=True, device="cpu"):
        get_device("cpu").make_native()
        yield


def samples(dtype: Any, shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    """Ordinary numbers, and all special ones beside each other."""
    kind = np.dtype(dtype)
    draw = np.random.default_rng(seed)
    if kind == np.bool_:
        return draw.random(shape) < 0.5
    if kind.kind in "iu":
        info = np.iinfo(kind)
        special = [info.min, info.max, info.max - 1, 0, 1, 2, 7, 31, 32, 63, 64]
        ordinary = draw.integers(info.min, info.max, shape, kind, endpoint=True)
    else:
        info = np.finfo(kind)
        edge = [info.max, info.tiny, info.smallest_subnormal, info.eps, np.nan, np.inf]
        wide = [0.5, 2.5, 3e9, 2.0**31, 2.0**63, 2.0**64, 255.5, 1e-30]
        special = [0.0, 1.0, *edge, *wide]
        special += [-x for x in special]
        ordinary = (draw.normal(size=shape) * 100).astype(kind)
    chosen = draw.choice(np.array(special, kind), shape)
    return np.where(draw.random(shape) < 0.6, chosen, ordinary).astype(kind)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "hypot": lambda x, y: fnp.hypot(x, y),
    "modf": lambda x, y: fnp.modf(x),
    "frexp": lambda x, y: fnp.frexp(x),
    "sinc": lambda x, y: fnp.sinc(x),
    "i0": lambda x, y: fnp.i0(x),
    "clip": lambda x, y: fnp.clip(x, -1, y),
    "sign": lambda x, y: fnp.sign(x),
    "logaddexp": lambda x, y: fnp.logaddexp(x, y),
    "median": lambda x, y: fnp.median(x),
    "rounded": lambda x, y: fnp.round(x, 2),
    "interp": lambda x, y: fnp.interp(x, fnp.arange(5.0), fnp.arange(5.0) ** 2),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5), (2, 300)], ids=str)
def test_calls_that_are_learned_give_the_bits_of_python(
    name: str, shape: tuple[int, ...]
) -> None:
    function = FUNCTIONS[name]
    values = [samples("float32", shape, seed) for seed in (1, 2)]
    with ft.config(native_calls=False):
        expected = function(*map(fnp.asarray, values))
    for order in (False, True):  # the second time as NumPy keeps a transposed array
        given = [v.T.copy().T if order else v for v in values]
        for _ in range(CALLS):
            found = function(*map(fnp.asarray, given))
            pairs = (
                zip(found, expected, strict=True)
                if isinstance(expected, tuple)
                else [(found, expected)]
            )
            for left, right in pairs:
                assert_same_bits(left, right)


DRAWS: dict[str, Callable[[Any], Any]] = {
    "split": lambda key: random.split(key),
    "fold_in": lambda key: random.fold_in(key, 7),
    "uniform": lambda key: random.uniform(key, (33,)),
    "normal": lambda key: random.normal(key, (4, 9)),
    "bernoulli": lambda key: random.bernoulli(key, 0.3, (65,)),
    "randint": lambda key: random.randint(key, (64,), -5, 100),
    "categorical": lambda key: random.categorical(key, fnp.arange(8.0)),
    "permutation": lambda key: random.permutation(key, 31),
    "truncated_normal": lambda key: random.truncated_normal(key, -1.0, 2.0, (64,)),
}


@pytest.mark.parametrize("name", DRAWS)
def test_the_numbers_of_a_key_stay_the_same_when_a_call_is_learned(name: str) -> None:
    function = DRAWS[name]
    for seed in range(3):
        key = random.PRNGKey(seed)
        with ft.config(native_calls=False):
            expected = function(key)
        for _ in range(CALLS):
            assert_same_bits(function(key), expected)


@pytest.mark.parametrize("name", DRAWS)
def test_the_numbers_of_a_key_stay_the_same_when_a_part_is_compiled(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [random.PRNGKey(seed) for seed in range(3 * CALLS)]
    with ft.config(native_calls=False):
        expected = [DRAWS[name](key) for key in keys]
    monkeypatch.setattr(tiering, "DRAWS_SPENT", 0)
    monkeypatch.setattr(tiering, "DRAWS_SPENT_IN_ALL", 0)
    for key, values in zip(keys, expected, strict=True):
        assert_same_bits(DRAWS[name](key), values)


def test_results_of_several_steps_are_freed() -> None:
    x = fnp.asarray(samples("float32", (50,), 1))
    for _ in range(CALLS):
        fnp.modf(x)
    kept = [fnp.modf(x) for _ in range(3)]
    dtype = np.dtype(np.float32)
    before = sys.getrefcount(dtype)
    for _ in range(100):
        fnp.modf(x)
    assert abs(sys.getrefcount(dtype) - before) < 50
    del kept


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [1, 7, 64, 300])
def test_a_recorded_primitive_has_the_bits_of_its_meaning(
    dtype: str, size: int
) -> None:
    kind = np.dtype(dtype)
    edges = [0.0, -0.0, 1.0, -1.0, 2.0, np.nan, np.inf, 0.85, -0.85, 1e-300, 1 - 1e-7]
    draw = np.random.default_rng(size)
    x = np.where(draw.random(size) < 0.3, draw.choice(edges, size), 0.0).astype(kind)
    x = np.where(x == 0, (draw.random(size) * 2 - 1).astype(kind), x)
    with ft.config(enable_x64=True):
        with np.errstate(all="ignore"):
            expected = special.erf_inv(x)
        given = fnp.asarray(x)
        for _ in range(CALLS):
            assert_same_bits(lax.erf_inv(given), expected)


def test_transposed_arrays_have_the_bits_of_ordered_ones() -> None:
    x = fnp.asarray(samples("float32", (9, 7), 1))
    for _ in range(CALLS):
        assert_same_bits(
            fnp.hypot(x.T, x.T + 1),
            fnp.hypot(
                fnp.asarray(np.asarray(x).T.copy()),
                fnp.asarray(np.asarray(x).T.copy()) + 1,
            ),
        )
        found = fnp.linalg.cholesky(fnp.eye(4) * 2 + 1)
        np.testing.assert_allclose(found @ found.T, np.eye(4) * 2 + 1, rtol=1e-5)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("sizes", [(5, 3), (3, 5), (4, 4), (1, 6), (6, 2)], ids=str)
def test_eager_convolutions_are_those_of_the_composition(
    mode: str, sizes: tuple[int, int]
) -> None:
    draw = np.random.default_rng(0)
    x, y = (draw.integers(-9, 9, n).astype(np.float32) for n in sizes)  # exact
    for a, b in ((x, y), (np.where(x == x[0], np.inf, x).astype(np.float32), y)):
        for function, of_numpy in (
            (fnp.convolve, np.convolve), (fnp.correlate, np.correlate),
        ):  # fmt: skip
            expected = ft.jit(lambda a, b, f=function: f(a, b, mode))(a, b)
            for _ in range(CALLS):
                found = function(fnp.asarray(a), fnp.asarray(b), mode)
                assert found.weak_type == expected.weak_type
                assert_same_bits(found, expected)
            if np.isfinite(a).all():
                assert_same_bits(found, of_numpy(a, b, mode))
