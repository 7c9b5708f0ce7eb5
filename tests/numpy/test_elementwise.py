"""Elementwise functions: JAX's values and dtypes, slopes at edges, messages."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.errors import ArgumentError, DtypeError, DtypeOverflowError, ShapeError
from ftrace.trace.tracing.trace import trace
from ftrace.trace.tracing.tracer import aval_of
from tests.support.recorded_values import PARTS, check_part
from tests.support.refusals import refuses


@pytest.mark.parametrize("part", range(PARTS))
def test_elementwise_is_what_jax_gives_and_the_same_traced(part: int) -> None:
    check_part("elementwise", part)


FLOATS = ("float16", "bfloat16", "float32", "float64")
SAME_AS_NUMPY = [
    "exp",
    "exp2",
    "expm1",
    "log1p",
    "sqrt",
    "cbrt",
    "sin",
    "cos",
    "tan",
    "arctan",
    "sinh",
    "cosh",
    "tanh",
    "arcsinh",
    "square",
    "absolute",
    "negative",
    "sign",
    "floor",
    "ceil",
    "trunc",
    "rint",
    "isnan",
    "signbit",
    "deg2rad",
]


@pytest.mark.parametrize("name", SAME_AS_NUMPY)
@pytest.mark.parametrize("dtype", FLOATS)
def test_unary_functions_keep_float_dtypes_and_agree_with_numpy(
    name: str, dtype: str
) -> None:
    x = fnp.linspace(0.1, 3, 7).astype(dtype)
    result = getattr(fnp, name)(x)
    wide = np.asarray(x).astype(np.float64)
    wanted = getattr(np, name)(wide)
    assert result.dtype == (bool if wanted.dtype == bool else x.dtype)
    tolerance = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-6, "float64": 1e-14}
    np.testing.assert_allclose(
        np.asarray(result).astype(np.float64), wanted, rtol=tolerance[dtype]
    )


@pytest.mark.parametrize("dtype", ["float64", "int64", "complex128", "uint64"])
def test_64_bit_arrays_stay_64_bit(dtype: str) -> None:
    x = np.ones(3, dtype)
    assert fnp.add(x, 1).dtype == dtype
    assert fnp.multiply(x, x).dtype == dtype
    assert fnp.asarray(x).dtype == dtype


def test_integers_become_the_default_float() -> None:
    assert fnp.exp(np.arange(3, dtype="int64")).dtype == "float32"
    with ft.config(enable_x64=True):
        assert fnp.exp(np.arange(3, dtype="int64")).dtype == "float64"
        assert fnp.exp(1).dtype == "float64"
    with ft.config(enable_x64=False):
        assert fnp.add(np.ones(2), 1).dtype == "float32"


small = st.integers(-40, 40)


@given(st.lists(st.tuples(small, small.filter(bool)), min_size=1, max_size=8))
def test_integer_division_agrees_with_numpy(pairs: list[tuple[int, int]]) -> None:
    a, b = np.array(pairs, "int32").T
    x, y = fnp.asarray(a), fnp.asarray(b)
    np.testing.assert_array_equal(x // y, a // b)
    np.testing.assert_array_equal(x % y, a % b)
    np.testing.assert_array_equal(fnp.fmod(x, y), np.fmod(a, b))
    np.testing.assert_array_equal(fnp.gcd(x, y), np.gcd(a, b))
    np.testing.assert_array_equal(fnp.lcm(x, y), np.lcm(a, b))


@given(st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(0.1, 1e3)), min_size=1))
def test_float_division_agrees_with_numpy(pairs: list[tuple[float, float]]) -> None:
    a, b = np.array(pairs, "float64").T
    x, y = fnp.asarray(a), fnp.asarray(-b)
    np.testing.assert_allclose(x // y, a // -b, rtol=1e-12)
    np.testing.assert_allclose(x % y, a % -b, rtol=1e-12, atol=1e-300)


@given(st.integers(0, 40), st.sampled_from(["int8", "int32", "uint16", "float64"]))
def test_whole_powers_agree_with_numpy(exponent: int, dtype: str) -> None:
    a = np.array([0, 1, 2, 3, 7], dtype)
    x = fnp.asarray(a)
    np.testing.assert_allclose(x**exponent, a**exponent, rtol=1e-13)
    if dtype != "float64":
        exponents = np.full(5, exponent, dtype)
        np.testing.assert_array_equal(fnp.power(x, exponents), a**exponents)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_frexp_and_ldexp_are_inverse_and_exact(dtype: str) -> None:
    info = np.finfo(dtype)
    tiny, low = info.smallest_subnormal, info.tiny
    a = np.array([0, 1, -1.5, info.max, low, tiny, -tiny * 3, 12.25], dtype)
    mantissa, exponent = fnp.frexp(a)
    wanted, powers = np.frexp(a)
    np.testing.assert_array_equal(mantissa, wanted)
    np.testing.assert_array_equal(exponent, powers)
    np.testing.assert_array_equal(fnp.ldexp(mantissa, exponent), a)


def test_i0_is_exact_to_rounding_in_float64() -> None:
    x = np.array([0.0, 0.5, 3.0, 7.99, 8.0, 8.01, 30.0, 700.0])
    np.testing.assert_allclose(fnp.i0(x), np.i0(x), rtol=4e-15)
    np.testing.assert_allclose(fnp.i0(-x), np.i0(x), rtol=4e-15)


# Derivatives at the edges.


def derivative(function: Any, *at: float, argnum: int = 0, order: int = 1) -> float:
    for _ in range(order):
        function = ft.grad(function, argnum)
    return float(function(*at))


@pytest.mark.parametrize(
    ("function", "at", "slopes"),
    [
        (fnp.logaddexp, (2.0, 2.0), (0.5, 0.5)),
        (fnp.logaddexp, (1.0, -math.inf), (1.0, 0.0)),
        (fnp.logaddexp, (-math.inf, 1.0), (0.0, 1.0)),
        (fnp.logaddexp, (1000.0, 0.0), (1.0, 0.0)),
        (fnp.logaddexp, (math.inf, math.inf), (0.5, 0.5)),
        (fnp.logaddexp, (-math.inf, -math.inf), (0.5, 0.5)),
        (fnp.logaddexp2, (2.0, 2.0), (0.5, 0.5)),
        (fnp.hypot, (3.0, 4.0), (0.6, 0.8)),
        (fnp.power, (2.0, 3.0), (12.0, 8 * math.log(2))),
        (fnp.power, (0.0, 2.0), (0.0, 0.0)),
        (fnp.maximum, (1.0, 1.0), (0.5, 0.5)),
        (fnp.copysign, (2.0, -1.0), (-1.0, 0.0)),
        (fnp.where, (True, 1.0, 2.0), (1.0, 0.0)),
    ],
)
def test_slopes_at_edges(
    function: Any, at: tuple[float, ...], slopes: tuple[float, ...]
) -> None:
    first = len(at) - len(slopes)
    for i, slope in enumerate(slopes):
        got = derivative(function, *at, argnum=first + i)
        assert got == pytest.approx(slope, rel=1e-6), (i, got)


def test_slopes_at_zero_are_finite() -> None:
    assert math.isfinite(derivative(fnp.hypot, 0.0, 0.0))
    assert derivative(fnp.sinc, 0.0) == 0
    assert derivative(fnp.sinc, 0.0, order=2) == pytest.approx(
        -(math.pi**2) / 3, rel=1e-6
    )
    assert derivative(fnp.sinc, 0.0, order=4) == pytest.approx(math.pi**4 / 5, rel=1e-4)
    assert derivative(lambda x: x**3, 2.0) == 12
    assert derivative(lambda x: x**-2, 2.0) == -0.25
    assert derivative(lambda x: fnp.ldexp(x, 3), 2.0) == 8


def test_a_whole_exponent_multiplies() -> None:
    x = aval_of(fnp.ones(3))
    graph = trace("jit", lambda v: [v**8], [x])
    assert [n.op.name for n in graph.nodes] == ["variable", "mul", "mul", "mul"]


def test_numbers_alone_are_constants_of_a_traced_function() -> None:
    graph = trace("jit", lambda v: [v * fnp.sqrt(2.0)], [aval_of(fnp.ones(3))])
    assert not graph.captured


# Messages.


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: fnp.add(x, fnp.ones(4)), ShapeError, r"\(2, 3\) and \(4,\)"),
        (lambda x: fnp.where(x > 0, x, fnp.ones(4)), ShapeError, "where.*broadcast"),
        (lambda x: fnp.exp("a"), ArgumentError, "an array or a number is required"),
        (lambda x: fnp.bitwise_and(x, 1), DtypeError, "not defined for float32"),
        (lambda x: fnp.arange(3) ** -1, DtypeError, "negative power"),
        (lambda x: fnp.floor_divide(x * 1j, 2), DtypeError, "complex"),
        (lambda x: fnp.clip(x * 1j, 0, 1), DtypeError, "clip is not defined"),
        (lambda x: fnp.arange(3) + 2**31, DtypeOverflowError, "does not fit int32"),
        (lambda x: fnp.isposinf(x, out=x), NotImplementedError, "'out' is not"),
        (lambda x: fnp.round(fnp.arange(3), -1), DtypeError, "convert it to a float"),
        (lambda x: fnp.where(x > 0, x), ArgumentError, "both x and y"),
        (lambda x: fnp.select([x > 0], []), ValueError, "as many conditions"),
        (lambda x: fnp.where(x > 0, 2**31, fnp.int8(1)), DtypeOverflowError, "int8"),
    ],
)
def test_bad_input_is_named(call: Any, error: type[Exception], message: str) -> None:
    x = fnp.ones((2, 3))
    with refuses(error, message):
        call(x)
    with refuses(error, message):
        trace("jit", lambda v: [call(v)], [aval_of(x)])


COMPARISONS = {
    "equal": operator.eq, "not_equal": operator.ne, "less": operator.lt,
    "less_equal": operator.le, "greater": operator.gt, "greater_equal": operator.ge,
}  # fmt: skip
ENDS = (
    "bool",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
)


@pytest.mark.parametrize("x64", [None, True])
@pytest.mark.parametrize("name", COMPARISONS)
def test_integers_of_any_size_compare_as_numbers(name: str, x64: Any) -> None:
    compare, function = COMPARISONS[name], getattr(fnp, name)
    sizes = {sign * (1 << k) + d for k in (7, 8, 31, 32, 40, 63, 64, 70)
             for sign in (1, -1) for d in (-1, 0)}  # fmt: skip
    for dtype in ENDS:
        least = (
            [0, 1] if dtype == "bool" else [np.iinfo(dtype).min, np.iinfo(dtype).max]
        )
        values = np.array(least, dtype)
        with ft.config(enable_x64=x64):
            x, wanted = fnp.asarray(values), list[Any]()
            for number in sizes:
                met = number
                if x64 and dtype != "bool" and -(1 << 63) <= number < 1 << 63:
                    met = int(np.asarray(number).astype(dtype))  # it wraps, as in JAX
                want = [compare(v, met) for v in values.tolist()]
                turned = [compare(met, v) for v in values.tolist()]
                wanted.append((want, turned))
                assert compare(x, number).tolist() == want, (dtype, number)
                assert compare(number, x).tolist() == turned
                assert function(x, number).tolist() == want
                assert function(number, x).tolist() == turned
                if x64 is None and -(1 << 63) <= number < 1 << 63:
                    assert compare(x, np.int64(number)).tolist() == want
                    assert function(np.int64(number), x).tolist() == turned
            traced = ft.jit(lambda x: [(compare(x, n), compare(n, x)) for n in sizes])
            assert [(a.tolist(), b.tolist()) for a, b in traced(x)] == wanted


def test_huge_integers_compare_with_floats_as_floats() -> None:
    x = fnp.asarray(np.array([2.0**70, 1.0, np.inf, np.nan], np.float32))
    assert (x == 2**70).tolist() == [True, False, False, False]
    assert (x < 2**70).tolist() == [False, True, False, False]
    assert (x > -(2**70)).tolist() == [True, True, True, False]
    with pytest.raises(DtypeOverflowError, match=r"write it as math\.inf"):
        x < 10**400  # noqa: B015
    with pytest.raises(DtypeOverflowError, match="write it as a float"):
        fnp.equal(1, 2**70)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64"])
def test_traced_divisors_are_those_of_numpy(dtype: str) -> None:
    info = np.iinfo(dtype)
    rng = np.random.default_rng(3)
    random = rng.integers(info.min, info.max, 60, np.dtype(dtype).type, endpoint=True)
    x = np.concatenate([random, np.array([0, 1, 12, info.max, info.min], dtype)])
    twelve = np.array(12, dtype)
    with ft.config(enable_x64=True):
        for a, b in ((x, x[::-1].copy()), (x[:, None], x), (x, twelve), (x[:0], x[:0])):
            got = np.asarray(ft.jit(fnp.gcd)(a, b))
            np.testing.assert_array_equal(got, np.gcd(a, b))
            assert got.dtype == dtype
        got = ft.jit(ft.vmap(fnp.gcd, (0, None)))(x, twelve)
        np.testing.assert_array_equal(np.asarray(got), np.gcd(x, twelve))


def test_the_angle_of_complex_numbers_is_that_of_their_formula() -> None:
    y = np.array([1 + 2j, -1.5 + 0.3j, 0j, 2], np.complex64)
    x = np.array([1 + 0.5j, 2 - 1j, 1, 0j], np.complex64)
    wanted = -1j * np.log((x + 1j * y) / np.sqrt(x * x + y * y))
    for angle in (fnp.arctan2, ft.lax.atan2, ft.jit(fnp.arctan2)):
        for _ in range(8):
            np.testing.assert_allclose(angle(y, x), wanted, rtol=3e-6, atol=1e-7)
    np.testing.assert_allclose(fnp.tan(fnp.arctan2(y, x))[:3], y[:3] / x[:3], rtol=1e-5)
    assert fnp.arctan2(fnp.float32(1), x).dtype == np.complex64


def test_functions_of_two_real_numbers_refuse_complex_ones() -> None:
    x = fnp.ones(2, "complex64")
    for function in (ft.scipy.special.kl_div, ft.scipy.special.rel_entr):
        with pytest.raises(DtypeError, match="not defined for complex"):
            function(x, 1.0)


def test_parts_of_complex_numbers_may_be_numbers() -> None:
    x = fnp.ones(3)
    for _ in range(8):
        assert ft.lax.complex(0.5, x).tolist() == [0.5 + 1j] * 3
        assert ft.lax.complex(x, 0.5).tolist() == [1 + 0.5j] * 3


@pytest.mark.parametrize("f", [fnp.left_shift, fnp.right_shift, fnp.power])
@pytest.mark.parametrize("number", [1, 40, 0.5])
def test_one_number_again_and_again_gives_its_shape_to_the_result(
    f: Any, number: float
) -> None:
    dtype = type(number)
    if f is not fnp.power and dtype is float:
        return
    again = fnp.full((3, 2), number, dtype)
    for shape in (), (1,), (2,), (1, 2), (3, 2), (4, 1, 1):
        x = fnp.asarray(np.ones(shape, dtype))
        np.testing.assert_array_equal(
            f(x, again), f(x, fnp.asarray(np.full((3, 2), number, dtype)))
        )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logistic_is_denormal_where_the_exponential_is_infinite(dtype: Any) -> None:
    x = -np.log(np.finfo(dtype).max) - np.array([0.5, 1, 3, 7], dtype)
    now, later = ft.lax.logistic(fnp.asarray(x)), ft.jit(ft.lax.logistic)(x)
    assert (np.asarray(now) > 0).all()
    step = np.finfo(dtype).smallest_subnormal
    np.testing.assert_allclose(now, later, 4 * np.finfo(dtype).eps, 2 * step)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_unwrap_of_short_floats_repeats(dtype: str) -> None:
    x = fnp.asarray([0.0, 2.0, 4.0, 7.0]).astype(dtype)
    for _ in range(14):
        assert fnp.unwrap(x, period=4).tolist() == [0, 2, 4, 3]
