"""Eager calls that are given other numbers each time, and functions that NumPy lacks.

A call that is repeated gives the bits of the first of its kind.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax, nn, random
from ftrace.backends.base import get_device
from ftrace.errors import DtypeOverflowError, ValueRangeError
from ftrace.scipy import special
from ftrace.scipy.stats import norm
from ftrace.trace import tiering
from ftrace.trace.eager.function_objects import Eager
from tests.support.key_numbers import numbers

CALLS = tiering.CALLS_BEFORE_RECORD + 3


@pytest.fixture(autouse=True)
def cpu() -> Iterator[None]:
    with ft.config(device="cpu"):
        get_device("cpu").make_native()
        yield


def native() -> Any:
    found = vars(get_device("cpu"))["_native"]
    if found is None:
        pytest.skip("no native calls")
    return found


@pytest.mark.parametrize("x64", [False, None, True])
def test_seeds_that_change_give_the_keys_of_a_program(x64: Any) -> None:
    seeds = [*range(CALLS), -1, -7, 1 << 31, (1 << 32) + 5, -(1 << 40), (1 << 63) - 1]
    with ft.config(enable_x64=x64):
        for seed in seeds:
            expected = ft.jit(lambda: random.PRNGKey(seed))()  # noqa: B023
            np.testing.assert_array_equal(random.PRNGKey(seed), expected)
            np.testing.assert_array_equal(numbers(random.key(seed)), expected)
        with pytest.raises(DtypeOverflowError, match="64 bits"):
            random.PRNGKey(1 << 63)


def test_numbers_that_change_are_folded_in_as_in_a_program() -> None:
    key = random.key(3)
    fold = ft.jit(random.fold_in)
    for number in [*range(CALLS), 1 << 16, (1 << 32) - 1]:
        expected = numbers(fold(key, np.uint32(number)))
        np.testing.assert_array_equal(numbers(random.fold_in(key, number)), expected)
    for wrong in (-1, 1 << 32):
        with pytest.raises(DtypeOverflowError, match="32 bits"):
            random.fold_in(key, wrong)


def test_equal_integers_are_one_argument_whichever_objects_they_are() -> None:
    roll: Any = fnp.roll
    x = fnp.arange(2000)
    first = fnp.roll(x, int("1234"))
    for _ in range(CALLS):
        fnp.roll(x, int("1234"))
    count = len(roll._records)
    for _ in range(2 * CALLS):
        np.testing.assert_array_equal(fnp.roll(x, int("1234")), first)
    assert len(roll._records) == count


def test_integers_that_change_make_no_records() -> None:
    roll: Any = fnp.roll
    x = fnp.arange(2000)
    fnp.roll(x, 1000)
    count = len(roll._records)
    for number in range(1000, 1000 + 5 * CALLS):
        assert np.asarray(fnp.roll(x, number))[number] == 0
    assert len(roll._records) <= count + 3


@pytest.mark.parametrize("big", [1 << 54, (1 << 55) + 1, -(1 << 63)])
def test_large_integers_are_told_apart(big: int) -> None:
    x = fnp.arange(5)
    for number in (big, big + 1) * CALLS:
        expected = np.roll(np.arange(5), number % 5)
        np.testing.assert_array_equal(fnp.roll(x, number), expected)


FUNCTIONS = [lax.erf, lax.erfc, lax.lgamma, lax.digamma]
SHAPES = [(), (1,), (0,), (63,), (64,), (65,), (3, 50), (1024,), (1500,)]


def sample(shape: tuple[int, ...], dtype: Any) -> Any:
    draw = np.random.default_rng(0)
    x = draw.normal(size=shape) * draw.choice([0.1, 1, 4, 30], shape)
    edges = [0.0, -0.0, np.nan, np.inf, -np.inf, -1.0, 1.0, 2.0, -2.5, 6e4, 1e-7]
    return np.where(draw.random(shape) < 0.3, draw.choice(edges, shape), x).astype(
        dtype
    )


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_what_numpy_lacks_has_the_same_bits_at_each_call(
    function: Any, dtype: Any, shape: tuple[int, ...]
) -> None:
    with ft.config(enable_x64=True):
        x = sample(shape, dtype)
        a = fnp.asarray(x)
        expected = np.asarray(function(a))
        near = np.asarray(ft.jit(function)(x))
        eps = float(np.finfo(dtype).eps)
        np.testing.assert_allclose(expected, near, rtol=16 * eps, atol=16 * eps)
        for _ in range(CALLS):
            found = np.asarray(function(a))
            assert (found.dtype, found.shape) == (expected.dtype, shape)
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_numpy_lacks_is_part_of_chains(dtype: Any) -> None:
    def gelu(x: Any, scale: Any) -> Any:
        return 0.5 * x * (1 + lax.erf(x * scale)) + lax.erfc(scale)

    eager = Eager(gelu, (float,), __name__)
    with ft.config(enable_x64=True):
        x, scale = fnp.asarray(sample((100,), dtype)), fnp.asarray(dtype(0.7))
        with ft.config(native_calls=False):
            expected = np.asarray(gelu(x, scale))
        for _ in range(CALLS):
            np.testing.assert_array_equal(eager(x, scale), expected)


def test_what_numpy_lacks_needs_no_compiler() -> None:
    x = fnp.asarray(sample((40,), np.float32))
    with ft.config(disable_jit=True):
        found = np.asarray(lax.erf(x))
    exact = [math.erf(v) for v in np.asarray(x, np.float64)]
    np.testing.assert_array_equal(found, np.array(exact, np.float32))


def test_memory_of_results_that_were_read_is_used_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    native()
    memory = get_device("cpu").memory
    total, double = ft.jit(lambda x: x.sum()), ft.jit(lambda x: x * 2)
    x = np.arange(100, dtype=np.float32)

    def use() -> None:
        assert float(total(x)) == 4950
        np.asarray(double(x))
        assert fnp.sin(double(x)).shape == (100,)

    for _ in range(2 * CALLS):
        use()
    obtained: list[int] = []
    obtain = memory.obtain
    monkeypatch.setattr(
        memory, "obtain", lambda size: obtained.append(size) or obtain(size)
    )
    # From Python 3.12 on `asarray` asks for a buffer, which holds the Array itself.
    kept = [double(x).__array__() for _ in range(3)]
    for _ in range(10):
        use()
    assert not obtained
    assert all((view == 2 * x).all() and not view.flags.writeable for view in kept)


SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.0, np.inf, -np.inf, np.nan, 1e-42, 3e38, 0.3]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(), (11,), (1, 11), (4, 11)], ids=str)
def test_half_powers_are_powers_whatever_exponent_comes_next(
    dtype: Any, shape: tuple[int, ...]
) -> None:
    with ft.config(enable_x64=True):
        x = fnp.asarray(np.resize(np.array(SPECIAL, dtype), shape))
        exponents = [0.5] * CALLS + [2.5, 0.5, -0.5, -0.0, np.nan, 0.5]
        for exponent in exponents:
            found = np.asarray(x**exponent)
            with ft.config(native_calls=False):
                expected = np.asarray(x**exponent)
            np.testing.assert_array_equal(found, expected)
            np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))
            with np.errstate(all="ignore"):
                # Of one exponent, 1/2, NumPy takes the root.
                both = np.asarray(x), np.full(shape, exponent, dtype)
                exact = np.array([*map(math_power, *(v.ravel() for v in both))])
                exact = exact.reshape(shape).astype(dtype)
            np.testing.assert_allclose(found, exact, 1e-6)


def math_power(x: Any, y: Any) -> float:
    try:
        return math.pow(x, y)
    except OverflowError:
        return math.inf
    except ValueError:  # of 0 to less than 0, or of less than 0 to no integer
        return math.inf if x == 0 else math.nan


CALLED_WITHOUT_ARRAYS = [
    lambda: fnp.array([1.0, 2.5, -0.0]),
    lambda: fnp.asarray([[1, 2], [3, 4]]),
    lambda: fnp.array([1, 2.5, 3]),
    lambda: fnp.array([True, False]),
    lambda: fnp.array([1, 2], dtype="float32"),
    lambda: fnp.array([1.5, -2.5], dtype=int),
    lambda: fnp.asarray([]),
    lambda: fnp.asarray(range(7)),
    lambda: fnp.float32(3),
    lambda: fnp.int8(3),
    lambda: fnp.arange(0.0, 1.0, 0.125),
    lambda: fnp.tril_indices(4, 1),
    lambda: fnp.diag_indices(3),
    lambda: fnp.mgrid[0:3, 1:5],
    lambda: fnp.ogrid[0:3, 1:5:2],
]


@pytest.mark.parametrize("number", range(len(CALLED_WITHOUT_ARRAYS)))
def test_calls_without_arrays_make_new_arrays_each_time(number: int) -> None:
    function = CALLED_WITHOUT_ARRAYS[number]
    with ft.config(native_calls=False):
        expected = ft.tree.leaves(function())
    memory: set[int] = set()
    results = [ft.tree.leaves(function()) for _ in range(CALLS)]
    for found in results:
        for x, y in zip(found, expected, strict=True):
            assert (x.dtype, x.shape, x.weak_type) == (y.dtype, y.shape, y.weak_type)
            assert np.asarray(x).tobytes() == np.asarray(y).tobytes()
            if x.size > 1:
                memory.add(np.asarray(x).ctypes.data)
    if expected[0].size > 1:
        assert len(memory) == CALLS * len(expected)


def test_lists_that_change_are_read_each_time() -> None:
    numbers = [1.0, 2.0]
    for k in range(3 * CALLS):
        numbers[k % 2] = float(k // CALLS)
        np.testing.assert_array_equal(fnp.asarray(numbers), np.float32(numbers))
    for wrong in ([300, "a"], [[1.0], 2.0]):
        with pytest.raises((TypeError, ValueError)):
            fnp.array(wrong)
    for large in ([1 << 40, 1.0], [1 << 40]):
        np.testing.assert_array_equal(fnp.array(large), large)
    with ft.config(enable_x64=False):
        np.testing.assert_allclose(fnp.array([1 << 40, 1.0]), [1 << 40, 1.0])
        with pytest.raises(DtypeOverflowError):
            fnp.array([1 << 40])
    with pytest.raises(DtypeOverflowError):
        fnp.array([300], dtype="uint8")


def test_lists_of_arrays_are_stacked() -> None:
    x, y = fnp.arange(3.0), fnp.asarray(np.float32([4, 5, 6]))
    weak = fnp.asarray(2.0)
    for _ in range(CALLS):
        found = fnp.array([x, y])
        np.testing.assert_array_equal(found, [[0, 1, 2], [4, 5, 6]])
        scalars = fnp.asarray([weak, 1, x[2]])
        np.testing.assert_array_equal(scalars, [2, 1, 2])
        assert (scalars.dtype, scalars.weak_type) == (np.float32, False)
        nested = fnp.array([[weak, x[1]], [1, 2.5]], dtype="int32")
        np.testing.assert_array_equal(nested, [[2, 1], [1, 2]])
        assert nested.dtype == np.int32


def test_answers_without_arrays_are_those_of_the_function() -> None:
    x = fnp.arange(4)
    for _ in range(CALLS):
        assert fnp.can_cast("int32", "float64") is True
        assert fnp.can_cast("float64", "int32") is False
        assert fnp.promote_types("int32", "float16") == np.float16
        assert fnp.result_type("float32", x) == np.float32
        assert fnp.broadcast_shapes((8, 1), (1, 4)) == (8, 4)
        assert fnp.issubdtype("int32", fnp.integer) is True
    with ft.config(enable_x64=True):
        assert fnp.result_type(1.0, 2) == np.float64


def test_values_that_a_function_reads_are_no_answer_to_keep() -> None:
    first = Eager(lambda x: int(x[0]), (), __name__)
    shape = Eager(lambda x: x.shape, (), __name__)
    for k in range(CALLS):
        x = fnp.full((k + 1,), k)
        assert first(x) == k
        assert shape(x) == (k + 1,)


def test_distributions_and_segments_repeat_themselves() -> None:
    x = np.linspace(-3, 3, 30, dtype=np.float32)
    ids = fnp.asarray(np.arange(30) % 4)
    for k in range(CALLS):
        given = fnp.asarray(x + k)
        for function in (norm.pdf, norm.cdf, norm.logpdf, norm.ppf):
            expected = ft.jit(function)(given, 0.5, 2.0)
            np.testing.assert_allclose(function(given, 0.5, 2.0), expected, 1e-5, 1e-6)
        found = ft.ops.segment_sum(given, ids, num_segments=5)
        sums = [np.asarray(given)[np.asarray(ids) == n].sum() for n in range(5)]
        np.testing.assert_allclose(found, sums, 1e-4)


def test_known_functions_are_recognised_once() -> None:
    x = fnp.asarray(np.float32([[1, 5], [7, 3]]))
    for _ in range(3):
        assert float(lax.reduce(x, 0.0, lax.add, (0, 1))) == 16
        assert float(lax.reduce(x, -np.inf, lax.max, (0, 1))) == 7
        truths = lax.reduce(x > 2, False, lax.max, (0,))
        np.testing.assert_array_equal(truths, [True, True])


def test_public_functions_are_constants_and_those_of_users_are_called() -> None:
    x = fnp.asarray(np.float32([[1, 5, 2, 8], [7, 3, 4, 6]]))
    called: list[int] = []

    def own(a: Any, b: Any) -> Any:
        called.append(1)
        return a + b

    for k in range(CALLS):
        assert float(lax.reduce(x, 0.0, lax.add, (0, 1))) == 36
        windows = lax.reduce_window(x, -np.inf, lax.max, (1, 2), (1, 2), "VALID")
        np.testing.assert_array_equal(windows, [[5, 8], [7, 6]])
        before = len(called)
        assert float(lax.reduce(x, 0.0, own, (0, 1))) == 36
        assert len(called) > before
        parts = fnp.piecewise(x, [x < 3, x > 6], [0.0, k + 0.5])
        np.testing.assert_array_equal(parts[0], [0, 0, 0, k + 0.5])
        twice = fnp.piecewise(x, [x > 6], [lambda v, k=k: v * k, 1.0])
        np.testing.assert_array_equal(twice[1], [7 * k, 1, 1, 1])
        over = fnp.apply_over_axes(fnp.sum, x, [0, 1])
        assert (over.shape, float(over[0, 0])) == ((1, 1), 36)


def test_exponents_that_are_integers_of_arrays_may_change() -> None:
    x = fnp.asarray(np.float32([2, 3]))
    for k in [2] * CALLS + [3, 2, 0, -1] * 3:
        expected = np.float32([2, 3]) ** np.float32(k)
        np.testing.assert_allclose(x ** fnp.asarray(np.int32(k)), expected, 1e-6)
        np.testing.assert_allclose(x ** np.int64(k), expected, 1e-6)


def test_slices_start_where_arrays_say() -> None:
    x = fnp.arange(40).reshape(5, 8)
    host = np.asarray(x)
    starts = [(0, 0), (2, 3), (-1, -2), (9, 9), (-9, 1)]
    sliced = ft.jit(lax.dynamic_slice, static_argnums=2)
    for k in range(4 * CALLS):
        i, j = starts[k % len(starts)]
        at = fnp.asarray(np.int32(i)), fnp.asarray(np.int32(j))
        expected = sliced(x, at, (2, 3))
        vector = fnp.asarray(np.int32((i, j)))
        for given in (at, (i, at[1]), [at[0], j], vector, (i, j)):
            found = lax.dynamic_slice(x, given, (2, 3))
            np.testing.assert_array_equal(found, expected)
        part = fnp.asarray(np.full((2, 3), k, np.int32))
        updated = lax.dynamic_update_slice(x, part, at)
        place = np.clip(
            [n + m * (n < 0) for n, m in zip((i, j), (5, 8), strict=True)], 0, (3, 5)
        )
        whole = host.copy()
        whole[place[0] : place[0] + 2, place[1] : place[1] + 3] = k
        np.testing.assert_array_equal(updated, whole)
        row = lax.dynamic_index_in_dim(x, at[0], keepdims=False)
        np.testing.assert_array_equal(row, host[np.clip(i + 5 * (i < 0), 0, 4)])


@pytest.mark.parametrize("size", [3, 1000, 3000])
def test_repeats_are_those_of_numpy(size: int) -> None:
    x = np.arange(size * 2, dtype=np.float32).reshape(2, size)
    counts = np.arange(size) % 4
    a, c = fnp.asarray(x), fnp.asarray(counts)
    for k in range(CALLS):
        np.testing.assert_array_equal(fnp.repeat(a, 3), np.repeat(x, 3))
        np.testing.assert_array_equal(fnp.repeat(a, 2, axis=0), np.repeat(x, 2, 0))
        np.testing.assert_array_equal(a.repeat(0, axis=1), np.repeat(x, 0, 1))
        found = fnp.repeat(a, (c + k) % 4, axis=1)
        np.testing.assert_array_equal(found, np.repeat(x, (counts + k) % 4, 1))
    with pytest.raises(ValueRangeError, match="from 0"):
        fnp.repeat(a, c - 1, axis=1)


@pytest.mark.parametrize(
    ("shape", "axes", "lies"),
    [((2, 31, 31, 32), (0, 1, 2), (32,)), ((4000, 32), 0, (32,)),
     ((32, 70, 70), (1, 2), (32, 1, 1)), ((70, 32, 70), (0, 2), (32, 1))],
)  # fmt: skip
def test_sums_of_what_repeats_are_as_exact_as_others(
    shape: Any, axes: Any, lies: Any
) -> None:
    row = (1 + np.random.default_rng(0).random(lies)).astype(np.float32)
    x = np.broadcast_to(row, shape)
    np.testing.assert_allclose(fnp.sum(x, axes), x.sum(axes, float), 2e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1 << 14, (1 << 14) + 1, 50_000])
def test_long_dot_products_are_as_exact_as_sums(size: int, dtype: Any) -> None:
    draw = np.random.default_rng(0)
    x, y = draw.random(size).astype(dtype), draw.random(size).astype(dtype)
    with ft.config(enable_x64=True):
        a, b = fnp.asarray(x), fnp.asarray(y)
        exact = math.fsum(x.astype(float) * y)
        first = np.asarray(a @ b)
        for function in (fnp.dot, fnp.vdot, fnp.inner, lambda a, b: a @ b):
            for _ in range(CALLS):
                found = np.asarray(function(a, b))
                assert found.tobytes() == first.tobytes()
        assert abs(float(first) - exact) <= exact * np.finfo(dtype).eps * 4
        strided = np.asarray(fnp.dot(a[::2], b[::-2]))
        assert strided.dtype == dtype
        np.testing.assert_allclose(strided, x[::2].astype(float) @ y[::-2], 1e-5)


@pytest.mark.parametrize("shape", [(40_000,), (300, 200), (4, 100, 100)])
@pytest.mark.parametrize("widths", [1, (2, 0), (0, 3), 0])
def test_large_paddings_are_those_of_numpy(shape: Any, widths: Any) -> None:
    x = np.random.default_rng(0).random(shape, np.float32)
    np.testing.assert_array_equal(fnp.pad(fnp.asarray(x), widths), np.pad(x, widths))


def test_numbers_are_rounded_as_by_the_function() -> None:
    for k in range(CALLS):
        x = fnp.asarray(np.float32(k + 0.625))
        assert float(round(x, 1)) == float(fnp.round(x, 1))
        whole = round(x)
        assert (int(whole), whole.dtype) == (round(k + 0.625), np.int32)


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int16", "int32", "float16", "float64", "complex128"]
)
def test_elements_are_copies_that_keep_no_array(dtype: str) -> None:
    with ft.config(enable_x64=True):
        for k in range(CALLS):
            x = np.arange(k, k + 20).reshape(4, 5).astype(dtype)
            a = fnp.asarray(x)
            for row, expected in zip(list(a), x, strict=True):
                np.testing.assert_array_equal(np.asarray(row), expected)
            elements = [*a[1], *fnp.unstack(a[:, 2]), a[3, 4], a[0][1]]
            numbers = [*x[1], *x[:, 2], x[3, 4], x[0, 1]]
            for element, number in zip(elements, numbers, strict=True):
                host = np.asarray(element)
                assert (element.dtype, element.shape) == (x.dtype, ())
                assert host.tobytes() == number.tobytes()
                assert not np.shares_memory(host, x)
                assert not host.flags.writeable


@pytest.mark.parametrize("x64", [False, None, True])
def test_numbers_are_arrays_of_their_types(x64: Any) -> None:
    with ft.config(enable_x64=x64):
        for value in (True, 3, -(1 << 31), 2.5, -0.0, 1e300, math.nan, 1 + 2j):
            for dtype in (None, "float32", np.float64, "int32", bool):
                if isinstance(value, (float, complex)) and dtype in ("int32", bool):
                    continue
                if isinstance(value, complex) and dtype is not None:
                    continue
                traced = ft.jit(lambda: fnp.asarray(value, dtype))()  # noqa: B023
                found = fnp.asarray(value, dtype)
                assert (found.dtype, found.weak_type) == (
                    traced.dtype,
                    traced.weak_type,
                )
                assert np.asarray(found).tobytes() == np.asarray(traced).tobytes()
    with ft.config(enable_x64=False), pytest.raises(DtypeOverflowError):
        fnp.asarray(1 << 31)


@pytest.mark.parametrize("seen", ["transposed", "strided", "reversed", "row"])
def test_chains_take_arrays_in_any_order(seen: str) -> None:
    draw = np.random.default_rng(0)
    views = {
        "transposed": lambda x: x.T,
        "strided": lambda x: x[:, ::2],
        "reversed": lambda x: x[::-1, ::-1],
        "row": lambda x: x[:, 1],
    }
    functions = [nn.gelu, fnp.sinc, nn.silu, lambda x: fnp.logaddexp(x, 0.5)]
    functions += [lambda x: fnp.logaddexp(x, x[..., :1]), lambda x: fnp.fmod(x, x + 2)]
    functions += [lambda x: nn.glu(fnp.concatenate([x, x], -1))]
    for k in range(CALLS):
        x = fnp.asarray(draw.normal(size=(6, 8)).astype(np.float32))
        view = views[seen](x)
        ordered = fnp.asarray(np.ascontiguousarray(np.asarray(view)))
        for function in functions:
            found, expected = function(view), function(ordered)
            assert found.shape == expected.shape, k
            assert np.asarray(found).tobytes() == np.asarray(expected).tobytes()


def test_signs_of_complex_numbers_are_the_same_in_all_modes() -> None:
    parts = np.array([0.0, -0.0, 1.0, -3e38, 1e-45, np.inf, -np.inf, np.nan], "f")
    x = np.empty((8, 8), np.complex64)
    x.real, x.imag = parts, parts[:, None]
    with ft.config(device="interpreter"):
        meant = np.asarray(ft.jit(fnp.sign)(x))
    for found in (fnp.sign(x), fnp.sign(fnp.asarray(x)), ft.jit(fnp.sign)(x)):
        np.testing.assert_allclose(np.asarray(found), meant, rtol=3e-7)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "bool"])
def test_single_loops_take_arrays_in_any_order(dtype: str) -> None:
    def functions(x: Any, y: Any) -> list[Any]:
        found = [x == y, fnp.where(x == y, x, y), x != y]
        if x.dtype.kind == "f":
            found += [x + y, x * y, x**0.5, lax.erf(x), x < y, -x, fnp.sign(x)]
        else:
            found += [x | y, ~x]
        if x.dtype.kind in "iu":
            found += [x << y, x >> 1, fnp.maximum(x, y)]
        return found

    with ft.config(enable_x64=True):
        draw = np.random.default_rng(0)
        for _ in range(CALLS):
            x = draw.integers(0, 3, (6, 8)).astype(dtype)
            y = draw.integers(0, 3, (8, 6)).astype(dtype)
            turned = fnp.asarray(x).T, fnp.asarray(y)
            strided = fnp.asarray(x)[:, ::2], fnp.asarray(y.T)[:, ::-2]
            for seen in (turned, turned[::-1], strided):
                plain = [fnp.asarray(np.array(part, order="C")) for part in seen]
                both = zip(functions(*seen), functions(*plain), strict=True)
                for found, expected in both:
                    assert found.shape == expected.shape
                    assert np.asarray(found).tobytes() == np.asarray(expected).tobytes()


def test_compositions_of_what_numpy_lacks_have_one_set_of_bits() -> None:
    functions = [special.ndtr, special.log_ndtr, norm.cdf, special.gammaln]
    functions += [lambda x: nn.gelu(x, approximate=False), special.digamma]
    with ft.config(native_calls=False):
        x = fnp.asarray(sample((50,), np.float32))
        expected = [np.asarray(f(x)) for f in functions]
    for _ in range(CALLS):
        for function, want in zip(functions, expected, strict=True):
            np.testing.assert_array_equal(function(x), want)


def test_what_numpy_lacks_is_done_at_once_while_something_is_traced() -> None:
    x = fnp.asarray(np.float32([0.5, 1.5]))
    found = ft.jit(lambda y: y + lax.erf(x) * lax.lgamma(x))(x)
    np.testing.assert_allclose(found, x + lax.erf(x) * lax.lgamma(x), 1e-6)
    slope = ft.grad(lambda y: (y * lax.erf(x)).sum())(x)
    np.testing.assert_array_equal(slope, lax.erf(x))
    twice = ft.vmap(lambda y: y * lax.digamma(x))(fnp.stack([x, x]))
    np.testing.assert_allclose(twice[1], x * lax.digamma(x), 1e-6)


@pytest.mark.parametrize("function", [fnp.add, fnp.not_equal, fnp.greater])
def test_a_number_beside_a_scalar_of_numpys_keeps_its_shape(function: Any) -> None:
    for _ in range(CALLS + 3):
        found = function(1, np.int16(3))
        assert found.shape == np.asarray(found).shape == (found + 1).shape == ()


@pytest.mark.parametrize("shape", [(40, 40), (1000,), (5,)])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_composition_with_a_step_of_the_host_has_one_set_of_bits(
    shape: tuple[int, ...], reverse: bool
) -> None:
    x = fnp.asarray(sample(shape, np.float32))
    first = np.asarray(lax.cumlogsumexp(x, reverse=reverse))
    for _ in range(CALLS + 3):
        np.testing.assert_array_equal(lax.cumlogsumexp(x, reverse=reverse), first)
