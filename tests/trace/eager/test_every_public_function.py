"""Eager calls of the whole namespace: the n-th gives what Python's code gives.

The values differ from call to call, so that nothing that was learned of one call may
hold values of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax, nn
from ftrace.backends.base import get_device
from ftrace.errors import IndexBoundsError
from ftrace.testing import assert_same_bits
from ftrace.trace import tiering
from ftrace.trace.arrays.array import is_array
from ftrace.trace.eager.function_objects import Eager
from ftrace.trace.pytree import tree
from ftrace.trace.tiering import RECORDS
from tests.support.call_samples import plain

CALLS = tiering.CALLS_BEFORE_RECORD + 3


@pytest.fixture(autouse=True)
def native() -> Iterator[None]:
    with ft.config(native_calls=True, device="cpu"):
        get_device("cpu").make_native()
        yield


def same(found: Any, expected: Any) -> None:
    assert [*map(type, tree.leaves(found))] == [*map(type, tree.leaves(expected))]
    assert_same_bits(found, expected, check_weak_type=True)


class Given:
    """Arrays of several kinds; those of another seed have other values."""

    def __init__(self, seed: int) -> None:
        draw = np.random.default_rng(seed)
        numbers = draw.normal(size=(12,)).astype(np.float32)
        numbers[seed % 12] = [0.0, -0.0, 1.0, -2.0][seed % 4]
        self.a = fnp.asarray(numbers)
        self.b = fnp.asarray(draw.random(12).astype(np.float32) + 0.25)
        self.m = fnp.asarray(draw.normal(size=(4, 3)).astype(np.float32))
        self.k = fnp.asarray(draw.normal(size=(3, 3)).astype(np.float32))
        self.s = fnp.matmul(self.k, self.k.T) + fnp.eye(3)
        self.v = fnp.asarray(draw.normal(size=3).astype(np.float32))
        self.i = fnp.asarray(draw.integers(-6, 7, 12).astype(np.int32))
        self.j = fnp.asarray(draw.integers(1, 7, 12).astype(np.int32))
        self.p = fnp.asarray(draw.random(12) < 0.5)
        self.t = fnp.sort(self.b)
        self.places = fnp.asarray(draw.integers(0, 3, 5).astype(np.int32))
        self.key = ft.random.key(seed)
        self.host = draw.normal(size=12).astype(np.float32)
        self.wide = draw.normal(size=12)
        self.whole = draw.integers(-3, 4, 12).astype(np.int32)
        self.long = draw.integers(-(2**40), 2**40, 12)
        self.mask = draw.random(12) < 0.5
        self.number = np.float32(draw.normal())
        self.double = np.float64(draw.normal())
        self.float = float(draw.normal())
        self.int = int(draw.integers(-4, 4))

    def in_numpy(self, kind: str) -> Given:
        """With floats as arrays of NumPy's."""
        for name, x in vars(self).items():
            if is_array(x) and x.dtype == np.float32:
                array = np.repeat(np.array(x, kind.removesuffix(", strided")), 2, -1)
                array = array[..., ::2]
                setattr(self, name, array if "strided" in kind else array.copy())
        return self


def check(function: Callable[[Given], Any], kind: str = "") -> None:
    for seed in range(2 * CALLS):
        given = Given(seed).in_numpy(kind) if kind else Given(seed)
        with np.errstate(all="ignore"):
            same(function(given), plain(function, given))


FUNCTIONS: dict[str, Callable[[Given], Any]] = {
    "several results": lambda g: fnp.modf(g.a),
    "frexp": lambda g: fnp.frexp(g.a),
    "divmod": lambda g: divmod(g.a, g.b),
    "divmod of integers": lambda g: fnp.divmod(g.i, g.j),
    "split": lambda g: fnp.split(g.a, 3),
    "unstack": lambda g: fnp.unstack(g.m),
    "meshgrid": lambda g: fnp.meshgrid(g.v, g.v),
    "broadcast_arrays": lambda g: fnp.broadcast_arrays(g.k, g.v),
    "svd": lambda g: fnp.linalg.svd(g.m),
    "eigh": lambda g: fnp.linalg.eigh(g.s),
    "qr": lambda g: fnp.linalg.qr(g.m),
    "slogdet": lambda g: fnp.linalg.slogdet(g.s),
    "solve": lambda g: fnp.linalg.solve(g.s, g.v),
    "inv": lambda g: fnp.linalg.inv(g.s),
    "lstsq": lambda g: fnp.linalg.lstsq(g.m, g.m[:, 0]),
    "norm": lambda g: fnp.linalg.norm(g.m, axis=1),
    "fft": lambda g: fnp.fft.fft(g.a),
    "nonzero": lambda g: fnp.nonzero(g.p),
    "compress": lambda g: fnp.compress(g.p, g.a),
    "extract": lambda g: fnp.extract(g.p, g.a),
    "flatnonzero": lambda g: fnp.flatnonzero(g.p),
    "argwhere": lambda g: fnp.argwhere(g.p),
    "unique": lambda g: fnp.unique(g.i),
    "unique with counts": lambda g: fnp.unique(g.i, return_counts=True),
    "union1d": lambda g: fnp.union1d(g.i, g.j),
    "bincount": lambda g: fnp.bincount(g.j),
    "histogram": lambda g: fnp.histogram(g.a, "auto"),
    "gcd": lambda g: fnp.gcd(g.i, g.j),
    "lcm": lambda g: fnp.lcm(g.i, g.j),
    "gcd of two": lambda g: fnp.gcd(g.j * 6, g.j * 4),
    "power": lambda g: g.b**g.a,
    "powers of integers": lambda g: fnp.power(g.i, g.j),
    "one integer power": lambda g: g.a ** g.j[0],
    "floor": lambda g: g.a // g.b,
    "floor by a number": lambda g: g.a // (g.float + 0.1),
    "remainder": lambda g: g.a % g.b,
    "remainder by a number": lambda g: g.a % (g.float + 0.1),
    "copysign": lambda g: fnp.copysign(g.b, g.a),
    "heaviside": lambda g: fnp.heaviside(g.a, g.b),
    "searchsorted": lambda g: fnp.searchsorted(g.t, g.a, "right"),
    "searchsorted, one": lambda g: fnp.searchsorted(g.t, g.float),
    "digitize": lambda g: fnp.digitize(g.a, g.t),
    "interp": lambda g: fnp.interp(g.a, g.t, g.b),
    "take": lambda g: fnp.take(g.a, g.places),
    "take rows": lambda g: g.m.take(g.places, axis=0),
    "take along": lambda g: fnp.take_along_axis(g.m, fnp.argsort(g.m, 1), 1),
    "choose": lambda g: fnp.choose(g.places[:3], [g.v, g.v + 1, g.v + 2]),
    "repeat": lambda g: g.a.repeat(2),
    "sort": lambda g: (g.a.sort(), g.a.argsort()),
    "partition": lambda g: (fnp.partition(g.a, 3), fnp.sort(g.a.partition(3))),
    "view": lambda g: g.a.view("int32"),
    "median": lambda g: fnp.median(g.m, axis=0),
    "quantile": lambda g: fnp.quantile(g.a, 0.3),
    "std": lambda g: (g.m.std(0), fnp.var(g.m, axis=1, ddof=1), g.a.std()),
    "sums of products": lambda g: (g.a @ g.b, fnp.dot(g.v, g.v), fnp.inner(g.k, g.v)),
    "nan_to_num": lambda g: fnp.nan_to_num(fnp.log(g.a)),
    "clip": lambda g: fnp.clip(g.a, -g.b, g.float),
    "where": lambda g: fnp.where(g.p, g.a, g.float),
    "select": lambda g: fnp.select([g.p, g.a > 0], [g.a, g.b]),
    "diag": lambda g: (fnp.diag(g.v), fnp.diag(g.k), g.k.diagonal()),
    "pad": lambda g: fnp.pad(g.a, 2),
    "delete": lambda g: fnp.delete(g.a, 3),
    "append": lambda g: fnp.append(g.a, g.b),
    "convolve": lambda g: fnp.convolve(g.a, g.v),
    "cumulative": lambda g: (g.m.cumsum(0), fnp.cumprod(g.m, axis=1)),
    "trim": lambda g: fnp.trim_zeros(fnp.where(g.p, g.a, 0.0)),
    "all equal": lambda g: (fnp.array_equal(g.a, g.b), fnp.allclose(g.a, g.a)),
    "lax": lambda g: (lax.add(g.a, g.b), lax.rsqrt(g.b), lax.top_k(g.a, 3)),
    "lax.select": lambda g: lax.select(g.p, g.a, g.b),
    "lax.clamp": lambda g: lax.clamp(-0.5, g.a, 0.5),
    "lax.dynamic_slice": lambda g: lax.dynamic_slice(g.a, (g.int,), (4,)),
    "lax.dynamic_slice by an array": lambda g: lax.dynamic_slice(g.a, (g.i[0],), (4,)),
    "lax.dynamic_update_slice": lambda g: lax.dynamic_update_slice(g.a, g.v, (g.int,)),
    "nn": lambda g: (nn.relu(g.a), nn.gelu(g.a), nn.silu(g.a), nn.softplus(g.a)),
    "nn.softmax": lambda g: (nn.softmax(g.m), nn.log_softmax(g.m, axis=0)),
    "nn.one_hot": lambda g: nn.one_hot(g.places, 4),
    "nn.leaky_relu": lambda g: nn.leaky_relu(g.a, g.float),
    "random": lambda g: (ft.random.split(g.key), ft.random.normal(g.key, (3,))),
    "random.randint": lambda g: ft.random.randint(g.key, (4,), g.int, 9),
    "random.fold_in": lambda g: ft.random.fold_in(g.key, abs(g.int)),
    "random.permutation": lambda g: ft.random.permutation(g.key, g.a),
    "arrays of NumPy": lambda g: (g.a + g.host, g.host * g.a, g.a - g.wide),
    "integers of NumPy": lambda g: (g.i + g.whole, g.whole * g.a, g.i + g.long),
    "long integers of NumPy": lambda g: (g.a * g.long, fnp.maximum(g.long, g.a)),
    "sums of NumPy's integers": lambda g: (
        fnp.sum(g.whole), fnp.sum(g.long), fnp.mean(g.whole), fnp.mean(g.mask),
        fnp.max(g.long), fnp.any(g.mask), fnp.cumsum(g.whole), fnp.prod(g.mask),
        fnp.sum(g.a, where=g.mask), fnp.average(g.a, weights=abs(g.whole) + 1),
    ),
    "products with NumPy's integers": lambda g: (
        fnp.matmul(g.whole.reshape(4, 3), g.k), fnp.outer(g.whole, g.mask),
        fnp.einsum("ij,i->j", g.m, g.whole[:4]), fnp.convolve(g.a, g.whole[:3]),
        nn.one_hot(g.whole, 3), nn.squareplus(g.whole, g.whole), fnp.diff(g.long),
    ),
    "buffers": lambda g: fnp.frombuffer(g.host),
    "arrays shown": lambda g: (g.m.T, g.m.mT, g.m.real, g.m.imag, g.i.T),
    "masks of NumPy": lambda g: (fnp.where(g.mask, g.a, 0.0), g.mask | g.p),
    "alone": lambda g: (fnp.sin(g.host), fnp.maximum(g.host, g.whole)),
    "converted": lambda g: fnp.negative(g.wide),
    "powers of NumPy": lambda g: (g.b**g.host, fnp.power(g.i, abs(g.whole))),
    "numbers of NumPy": lambda g: (g.a * g.number, g.double - g.a, g.b**g.number),
    "bounds of NumPy": lambda g: fnp.clip(g.a, -abs(g.number), abs(g.double)),
    "one place": lambda g: (g.a[g.int], g.m[g.int], g.m[g.int, 0]),
    "parts at a place": lambda g: (g.m[g.int, 1:], g.m[..., g.int % 3]),
    "new axes at a place": lambda g: g.m[None, g.int],
    "slices": lambda g: g.a[abs(g.int) :],
    "places of arrays": lambda g: (g.m[g.places, 1], g.k[:, g.places]),
    "one place of an array": lambda g: g.m[g.i[0] % 4],
    "pairs of places": lambda g: g.k[g.places, g.places],
    "lists of places": lambda g: g.m[[0, abs(g.int) % 4]],
    "masks": lambda g: (g.a[g.p], g.m[g.m > 0]),
    "rows": lambda g: list(g.m),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_calls_give_what_python_gives(name: str) -> None:
    check(FUNCTIONS[name])


@pytest.mark.parametrize("kind", ["float32", "float64", "float32, strided"])
@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n != "partition"])
def test_calls_with_arrays_of_numpy_give_what_python_gives(
    name: str, kind: str
) -> None:
    check(FUNCTIONS[name], kind)


BINARY = (
    "add", "arctan2", "bitwise_and", "bitwise_or", "copysign", "divide", "equal",
    "float_power", "floor_divide", "fmax", "fmin", "fmod", "greater", "heaviside",
    "left_shift", "less_equal", "logaddexp", "logical_and", "maximum", "minimum",
    "multiply", "not_equal", "power", "remainder", "right_shift", "subtract",
)  # fmt: skip


@pytest.mark.parametrize("name", BINARY)
def test_operands_of_numpy_are_operands(name: str) -> None:
    function: Any = getattr(fnp, name)
    whole = "bitwise" in name or "shift" in name

    def call(g: Given) -> Any:
        left, right = (g.j, abs(g.whole)) if whole else (g.b, g.host)
        if whole:
            return function(left, right), function(right, left)
        numbers = function(left, g.number), function(g.double, left)
        return function(left, right), function(right, left), numbers

    check(call)


def test_operands_of_numpy_may_change_afterwards() -> None:
    host = np.ones(4, np.float32)
    x = fnp.asarray(np.arange(4, dtype=np.float32))
    for n in range(2 * CALLS):
        result = x + host
        host += 1
        np.testing.assert_array_equal(result, np.arange(4) + n + 1)


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_calls_with_arrays_of_numpy_are_native(kind: str) -> None:
    x, y = np.ones((3, 4), kind), fnp.ones(4)
    for function, args in (
        (fnp.hypot, (x, y)), (fnp.hypot, (y, x)), (fnp.sum, (x,)), (fnp.exp, (x,)),
        (fnp.mean, (x, 1)),
    ):  # fmt: skip
        known: Any = function
        for _ in range(CALLS + 1):
            known(*args)
        want = plain(known, *args)
        with mock.patch.object(known, "behind", None):
            same(known(*args), want)


@pytest.mark.parametrize("name", ["asarray", "array", "reshape", "ravel", "add", "sum"])
def test_what_shows_an_array_of_numpy_shows_it_each_time(name: str) -> None:
    function: Any = getattr(fnp, name)
    host = np.ones((4, 1), np.float32)
    args = {"reshape": ((2, 2),), "add": (0.0,)}.get(name, ())
    shared = [
        np.may_share_memory(np.asarray(function(host, *args)), host)
        for _ in range(2 * CALLS)
    ]
    assert shared == [name in ("asarray", "reshape", "ravel")] * len(shared)


def test_places_out_of_bounds_are_errors_each_time() -> None:
    x = fnp.asarray(np.arange(5.0))
    for n in range(2 * CALLS):
        assert float(x[n % 5]) == n % 5
        with pytest.raises(IndexBoundsError, match=f"index {n + 5} is out of bounds"):
            x[n + 5]


def test_results_that_are_arguments_stay_themselves() -> None:
    m, v = fnp.ones((2, 3)), fnp.ones(3)
    for _ in range(2 * CALLS):
        first, second = fnp.broadcast_arrays(m, v)
        assert first is m
        assert second.shape == (2, 3)


def test_a_function_keeps_the_latest_kinds_of_calls() -> None:
    x = fnp.asarray(np.arange(6.0))
    known: Any = fnp.full_like
    for n in range(3 * RECORDS):
        for _ in range(tiering.CALLS_BEFORE_RECORD + 1):
            fnp.full_like(x, n)
        same(x + 1, plain(lambda: x + 1))
        assert len(known._records) <= RECORDS


def test_all_functions_of_arrays_can_be_native() -> None:
    for module in (fnp, fnp.linalg, fnp.fft, lax, nn, ft.random):
        assert sum(type(x) is Eager for x in vars(module).values()) > 5
    assert not isinstance(fnp.vectorize, Eager)
    assert not isinstance(lax.scan, Eager)
