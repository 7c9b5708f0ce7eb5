"""Steps of eager calls that are loops, beside those that NumPy does whole.

What a call gives once it is native has the bits that Python's code gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax, nn
from ftrace.backends.base import get_device
from ftrace.backends.llvm.call.numpy_loops import NumpyLoops
from ftrace.backends.llvm.runtime.ufunc_loops import NotLoops
from ftrace.trace import tiering
from ftrace.trace.arrays.array import Array

CALLS = tiering.CALLS_BEFORE_RECORD + 3
SHAPES = [(), (0,), (1,), (3, 5), (8, 1), (2, 3, 4), (67,)]


@pytest.fixture(autouse=True)
def cpu() -> Iterator[None]:
    with ft.config(device="cpu", enable_x64=True):
        get_device("cpu").make_native()
        yield


def samples(dtype: Any, shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    kind = np.dtype(dtype)
    draw = np.random.default_rng(seed)
    if kind.kind == "b":
        return np.asarray(draw.random(shape) < 0.5)
    if kind.kind in "iu":
        info = np.iinfo(kind)
        special = [info.min, info.max, 0, 1, 2, 3, 31, 32, 33, 64]
        special += [-1, -2, -31] if kind.kind == "i" else []
        return np.asarray(draw.choice(np.array(special, kind), shape))
    info = np.finfo(kind)
    edge = [info.max, info.tiny, info.smallest_subnormal, np.nan, np.inf, 2.5e9, 0.5]
    special = [0.0, -0.0, 1.0, -1.0, -np.inf, *edge, *(-x for x in edge)]
    found = draw.choice(np.array(special, kind), shape)
    ordinary = draw.normal(size=shape).astype(kind)
    return np.asarray(np.where(draw.random(shape) < 0.6, found, ordinary), kind)


def bits(found: Any) -> list[Any]:
    """What a result is, to the bit, but for which NaN."""
    leaves, _ = ft.tree.flatten(found)
    parts: list[Any] = []
    for leaf in leaves:
        x = np.array(leaf)
        if x.dtype.kind == "f":
            x[np.isnan(x)] = np.nan
        parts.append((x.shape, x.dtype, leaf.weak_type, x.tobytes()))
    return parts


def check(function: Callable[..., Any], *operands: Any) -> None:
    with ft.config(native_calls=False):
        expected = bits(function(*operands))
    for _ in range(CALLS):
        assert bits(function(*operands)) == expected


def of_floats() -> dict[str, Callable[..., Any]]:
    x = fnp
    return {
        "hypot": x.hypot, "fmax": x.fmax, "fmin": x.fmin, "logaddexp": x.logaddexp,
        "copysign": x.copysign, "sums": lambda a, b: x.where(a < b, a + b, a * b - 1.5),
        "heaviside": x.heaviside, "isclose": x.isclose,
        "nan_to_num": lambda a, b: x.nan_to_num(a), "sinc": lambda a, b: x.sinc(b),
        "modf": lambda a, b: x.modf(a), "frexp": lambda a, b: x.frexp(a),
        "sign": lambda a, b: x.sign(a), "spacing": lambda a, b: x.spacing(a),
        "clip": lambda a, b: x.clip(a, -0.5, 0.5),
        "clamp": lambda a, b: lax.clamp(-0.5, a, 0.5),
        "isinf": lambda a, b: x.isinf(a), "signbit": lambda a, b: x.signbit(b),
        "relu": lambda a, b: nn.relu(a), "relu6": lambda a, b: nn.relu6(b),
        "nanmax": lambda a, b: x.nanmax(a, initial=-3.0), "maximum": x.maximum,
        "minimum": x.minimum, "i0": lambda a, b: x.i0(a),
        "cast": lambda a, b: a.astype("int32"),
        "count": lambda a, b: x.count_nonzero(a), "ldexp": lambda a, b: x.ldexp(a, 3),
    }  # fmt: skip


def of_integers() -> dict[str, Callable[..., Any]]:
    x = fnp
    return {
        "lcm": x.lcm, "shifts": lambda a, b: (a << b) ^ (a >> b), "left": x.left_shift,
        "right": x.right_shift, "logical": lax.shift_right_logical, "whole": lax.div,
        "rest": lax.rem, "sign": lambda a, b: x.sign(a), "abs": lambda a, b: abs(a) + 1,
        "bits": lambda a, b: ~a & b | 3, "as_float": lambda a, b: a * 0.5 + b,
        "clip": lambda a, b: x.clip(a, 1, 5), "some": lambda a, b: x.any(a * b),
        "floor": x.floor_divide, "mod": x.remainder,
        "where": lambda a, b: x.where(a > b, a, -b),
    }  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", of_floats())
def test_compositions_of_floats_have_the_bits_of_python(name: str, dtype: str) -> None:
    for shape in SHAPES:
        a, b = (fnp.asarray(samples(dtype, shape, seed)) for seed in (1, 2))
        check(of_floats()[name], a, b)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint8"])
@pytest.mark.parametrize("name", of_integers())
def test_compositions_of_integers_have_the_bits_of_python(
    name: str, dtype: str
) -> None:
    for shape in SHAPES:
        a, b = (fnp.asarray(samples(dtype, shape, seed)) for seed in (1, 2))
        if name == "logical" or dtype[0] == "i" or name != "where":
            check(of_integers()[name], a, b)


@pytest.mark.parametrize("name", ["&", "|", "^", "~", "where", "==", "cast"])
def test_compositions_of_truth_values_have_the_bits_of_python(name: str) -> None:
    functions: dict[str, Callable[..., Any]] = {
        "&": lambda p, q: (p & q) & ~p, "|": lambda p, q: (p | q) & p,
        "^": lambda p, q: (p ^ q) | q, "~": lambda p, q: ~(p & q),
        "where": lambda p, q: fnp.where(p & q, p, ~q),
        "==": lambda p, q: (p == q) & (p != q), "cast": lambda p, q: p * 2.5 + q,
    }  # fmt: skip
    p, q = (fnp.asarray(samples(bool, (5, 7), seed)) for seed in (1, 2))
    check(functions[name], p, q)


def test_one_element_stands_beside_many() -> None:
    x = fnp.asarray(samples("float32", (5, 7), 1))
    one, row = x[:1, :1], x[0]
    check(lambda a, s: fnp.fmax(a, s) * 2.0, x, one)
    check(lambda a, s: fnp.where(a > s, a, s), x, fnp.asarray(0.5))
    check(lambda a, r: fnp.fmax(a, r) + r, x, row)  # that is NumPy's


def test_arrays_of_another_layout_are_left_to_numpy() -> None:
    plain = samples("float32", (6, 4), 1)
    a = fnp.asarray(plain)
    with ft.config(native_calls=False):
        expected = bits(fnp.hypot(a, a))
    raw = np.zeros(plain.nbytes + 1, np.uint8)
    unaligned = raw[1:].view(np.float32).reshape(plain.shape)
    unaligned[:] = plain
    wide = np.repeat(plain, 2, axis=1)[:, ::2]
    for _ in range(CALLS):
        assert bits(fnp.hypot(a, a)) == expected
    for other in (np.asfortranarray(plain), wide, unaligned):
        b = Array(plain.shape, plain.dtype, False, None, other)
        assert bits(fnp.hypot(b, b)) == expected


LOOPS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "an operation": (fnp.add, lambda x: fnp.add(x, x)),
    "a number": (fnp.multiply, lambda x: fnp.multiply(x, 2.5)),
    "broadcast": (fnp.subtract, lambda x: fnp.subtract(x, x[0])),
    "a sum": (fnp.sum, lambda x: fnp.sum(x, 1)),
    "a sum of columns": (fnp.mean, lambda x: fnp.mean(x, 0)),
    "steps": (nn.softmax, nn.softmax),
    "a choice": (nn.relu, nn.relu),
    "a constant": (fnp.ones, lambda x: fnp.ones(3)),
    "an extremum": (fnp.max, lambda x: fnp.max(x, 1)),
    "a position": (fnp.argmax, lambda x: fnp.argmax(x, 1)),
    "a whole quotient": (fnp.floor_divide, lambda x: fnp.floor_divide(x, 2)),
    "a quotient of integers": (
        fnp.floor_divide,
        lambda x: fnp.floor_divide(x.view("int32"), -3),
    ),
    "a remainder": (fnp.remainder, lambda x: fnp.remainder(x.view("int32"), 7)),
    "the greater": (fnp.maximum, lambda x: fnp.maximum(x, -0.5)),
    "a mean of integers": (fnp.mean, lambda x: fnp.mean(x.view("int32"), 0)),
    "a wide cast": (fnp.astype, lambda x: fnp.astype(x, "float64")),
    "a quantile": (lax.erf_inv, lax.erf_inv),
    "parts": (fnp.diff, lambda x: fnp.diff(x, axis=0)),
    "a sign": (fnp.sign, lambda x: fnp.sign(x)),
    "made of constants": (fnp.linspace, lambda x: fnp.linspace(0.0, 1.0, 8)),
}


@pytest.mark.parametrize("name", LOOPS)
def test_calls_are_loops_with_the_same_bits(name: str) -> None:
    function, call = LOOPS[name]
    for shape in ((3, 5), (1, 7), (2, 0), (4, 200)):
        for special in (False, True):
            values = samples(np.float32, shape, 1)
            values = values if special else np.asarray(np.arange(1, 1 + values.size))
            x = fnp.asarray(values.reshape(shape).astype(np.float32))
            try:
                expected = bits(call(x))
            except ft.errors.FtraceError:  # of nothing
                continue
            for _ in range(CALLS):
                found = call(x)
            assert bits(found) == expected, (shape, special)
            plans = [record._plan for record in function._records]
            assert any(plan is not None and plan.loops for plan in plans)


@pytest.mark.parametrize("call", [
    fnp.sum, fnp.mean, fnp.count_nonzero, lambda m: m + fnp.arange(3),
    lambda m: fnp.asarray(m).astype("int32"), lambda m: fnp.ones(3) * m,
])  # fmt: skip
def test_any_byte_but_zero_is_true(call: Any) -> None:
    """As in masks of images, of 0 and 255."""
    mask = np.array([255, 0, 1], np.uint8).view(bool)
    expected = bits(call(np.array([True, False, True])))
    for _ in range(2 * CALLS):
        assert bits(call(mask)) == expected


def test_products_of_matrices_are_no_loops_over_elements() -> None:
    steps = [(np.matmul, ["x0", "x0"], "v0")]
    values = {"x0": np.eye(2, dtype=np.float32), "v0": np.eye(2, dtype=np.float32)}
    with pytest.raises(NotLoops):
        NumpyLoops(steps, values, ["x0"], ["v0"], {})


def test_loops_leave_what_is_not_row_major_to_numpy() -> None:
    x = fnp.asarray(np.arange(12, dtype=np.float32).reshape(3, 4))
    for _ in range(CALLS):
        fnp.exp(x)
    for y in (x.T, x[:, ::2], x[::-1]):
        expected = np.exp(y.numpy())
        for _ in range(CALLS):
            assert (fnp.exp(y).numpy() == expected).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_numbers_beside_arrays_of_16_bits_are_such(dtype: str) -> None:
    for turn in range(2 * CALLS):
        values = 0.25 * np.arange(-turn, 4 - turn, dtype=np.float32)
        x = fnp.asarray(values).astype(dtype)
        np.testing.assert_array_equal(abs(x) < 0.5, abs(values) < 0.5)
        np.testing.assert_allclose(
            fnp.sinc(x).astype("float32"), np.sinc(values), 0, 0.02
        )


NUMBERS = (-1, 300, -(2**31) - 1, 2**63, 10**400, 1e300, -1e39, 1e-320, np.nan, True)
#: What NumPy makes of numbers.
WIDE_NUMBERS = (1 - 2e300j, np.float64(1.00048829), np.float64(-1e39), np.int64(-1))


@pytest.mark.parametrize(
    "dtype", ["uint8", "int8", "uint32", "int64", "float16", "bfloat16", "float32"]
)
@pytest.mark.filterwarnings("error")
def test_numbers_that_do_not_fit_are_what_they_are_at_the_first_call(
    dtype: str,
) -> None:
    functions = (
        lambda x, c: x.clip(c, 2),
        lambda x, c: x + c,
        lambda x, c: fnp.where(x == c, c, x),
    )

    def call(i: int, x: Any, c: Any) -> Any:
        try:
            return bits(functions[i](x, c))
        except ft.errors.FtraceError as error:
            return str(error)

    x = fnp.asarray(np.arange(4, dtype=np.float32)).astype(dtype)
    for i, _ in enumerate(functions):
        for c in (*NUMBERS, *WIDE_NUMBERS):
            with ft.config(native_calls=False):
                expected = call(i, x, c)
            for _ in range(CALLS):
                assert call(i, x, c) == expected, (i, c)
