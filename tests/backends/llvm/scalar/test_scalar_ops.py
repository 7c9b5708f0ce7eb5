"""The operations of LLVM IR against NumPy, in every dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ftrace import dtypes
from ftrace.backends.llvm.target import host_target
from ftrace.lower.kernel.ir import KernelOp, Store, load
from ftrace.lower.legalize.special import TABLES_OF_32, tables_of
from ftrace.lower.legalize.term import RARE, exponent_p, ldexp_p, mantissa_p
from ftrace.trace.graph import make_node
from ftrace.trace.primitives import elementwise as ew
from ftrace.trace.primitives.sources import const
from tests.support.run_llvm_kernel import apply, axes, buffer, floats, make_kernel, run

Array = np.ndarray[Any, Any]


pytestmark = pytest.mark.usefixtures("private_cache")


_SPECIAL = {
    "f": [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.7, -3.7, np.inf, -np.inf,
          np.nan, 1e-40, -1e-40, 1e30, -1e30, 255.0, 256.0, -129.0, 2.0**31, -(2.0**31),
          2.0**32, 2.0**63, -(2.0**63), 2.0**64, 1e-6, 7.0, -7.0],
    "i": [0, 1, -1, 2, -2, 3, 7, -7, 31, 32, 63, 64, 100, -100],
    "u": [0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 63, 64, 100],
    "b": [False, True],
}  # fmt: skip


def samples(dtype: np.dtype[Any]) -> Array:
    kind = dtypes.kind(dtype)
    values = list(_SPECIAL[kind])
    if kind in "iu":
        info = np.iinfo(dtype)
        values += [info.max, info.min, info.max - 1, info.min + 1]
    with np.errstate(all="ignore"):
        return np.array(values).astype(dtype)


def pairs(dtype: np.dtype[Any]) -> tuple[Array, Array]:
    x = samples(dtype)
    a, b = np.meshgrid(x, x)
    return a.ravel().copy(), b.ravel().copy()


def assert_same(got: Array, wanted: Array, zeros_differ: bool = False) -> None:
    wanted = np.asarray(wanted)
    assert got.dtype == wanted.dtype
    with np.errstate(all="ignore"):
        _assert_same(got, wanted, zeros_differ)


def _assert_same(got: Array, wanted: Array, zeros_differ: bool) -> None:
    if dtypes.kind(got.dtype) == "f":
        nan = np.isnan(wanted.astype(np.float64))
        np.testing.assert_array_equal(np.isnan(got.astype(np.float64)), nan)
        got, wanted = got[~nan], wanted[~nan]
        if not zeros_differ:
            np.testing.assert_array_equal(
                np.signbit(got.astype(np.float64)),
                np.signbit(wanted.astype(np.float64)),
            )
    np.testing.assert_array_equal(got, wanted)


_UNARY = {
    "f": [ew.neg, ew.absolute, ew.floor, ew.ceil, ew.truncate, ew.round_even,
          ew.sqrt, ew.copy, ew.stop_gradient],
    "i": [ew.neg, ew.absolute, ew.bit_not],
    "u": [ew.neg, ew.absolute, ew.bit_not, ew.popcount],
    "b": [ew.bit_not],
}  # fmt: skip


_COMPARE = [ew.eq, ew.ne, ew.lt, ew.le, ew.gt, ew.ge]


_BINARY = {
    "f": [ew.add, ew.sub, ew.mul, ew.div, ew.rem, ew.maximum, ew.minimum, ew.mul_zero,
          *_COMPARE],
    "i": [ew.add, ew.sub, ew.mul, ew.div, ew.rem, ew.maximum, ew.minimum, ew.mul_zero,
          ew.bit_and, ew.bit_or, ew.bit_xor, ew.shift_left, ew.shift_right_logical,
          ew.shift_right_arithmetic, *_COMPARE],
    "b": [ew.add, ew.mul, ew.maximum, ew.minimum, ew.bit_and, ew.bit_or, ew.bit_xor,
          *_COMPARE],
}  # fmt: skip


_BINARY["u"] = _BINARY["i"]


_ARITHMETIC = [
    d
    for d in dtypes.ALL
    if dtypes.kind(d) in "biu" or d in (dtypes.float32, dtypes.float64)
]


_STORED = [d for d in dtypes.ALL if dtypes.kind(d) in "biuf"]


def _names(value: Any) -> str:
    return getattr(value, "name", str(value))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", _ARITHMETIC, ids=_names)
def test_unary_operations_have_the_primitives_meaning(dtype: np.dtype[Any]) -> None:
    x = samples(dtype)
    for op in _UNARY[dtypes.kind(dtype)]:
        wanted = op.numpy(None, None, x)
        assert_same(apply(op, [x], wanted.dtype), wanted)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", _ARITHMETIC, ids=_names)
def test_binary_operations_have_the_primitives_meaning(dtype: np.dtype[Any]) -> None:
    x, y = pairs(dtype)
    for op in _BINARY[dtypes.kind(dtype)]:
        wanted = op.numpy(None, None, x, y)
        got = apply(op, [x, y], wanted.dtype)
        assert_same(got, wanted, zeros_differ=op is ew.mul_zero)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "dtype", [d for d in _ARITHMETIC if dtypes.is_integer(d)], ids=_names
)
@pytest.mark.parametrize(
    "op", [ew.div, ew.rem, ew.shift_left, ew.shift_right_arithmetic]
)
def test_operations_with_a_constant_are_the_same(op: Any, dtype: np.dtype[Any]) -> None:
    x = samples(dtype)
    for y in (0, 1, 3, 7, *([-1, -3] if dtypes.kind(dtype) == "i" else [])):
        wanted = op.numpy(None, None, x, np.full_like(x, y))
        got = apply(lambda a, y=y: op(a, const(y, dtype)), [x], dtype)
        assert_same(got, wanted)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("source", _STORED, ids=_names)
def test_casts_saturate_and_round_as_the_primitive(source: np.dtype[Any]) -> None:
    x = samples(source)
    for target in _STORED:
        wanted = ew.convert(x, target)
        got = apply(lambda a, target=target: ew.cast(a, target), [x], target)
        assert_same(got, wanted)


@pytest.mark.parametrize("target", [dtypes.float16, dtypes.bfloat16], ids=_names)
def test_rounding_to_half_precision_is_exact(target: np.dtype[Any]) -> None:
    bits = np.random.default_rng(0).integers(0, 1 << 32, 200_000, np.uint32)
    x = np.concatenate([bits, (np.arange(1 << 16, dtype=np.uint32) << 16) | 0x8000])
    x = x.view(np.float32)
    with np.errstate(all="ignore"):
        wanted = x.astype(target)
        assert_same(apply(lambda a: ew.cast(a, target), [x], target), wanted)
        half = np.arange(1 << 16, dtype=np.uint16).view(target)
        wide = half.astype(np.float32)
        got = apply(lambda a: ew.cast(a, dtypes.float32), [half], dtypes.float32)
    assert_same(got, wide)


def test_bitcast_keeps_the_bits() -> None:
    x = floats(37)
    got = apply(lambda a: ew.bitcast(a, arg=dtypes.uint32), [x], dtypes.uint32)
    np.testing.assert_array_equal(got, x.view(np.uint32))
    y = np.arange(40, dtype=np.int64) - 20
    got = apply(lambda a: ew.bitcast(a, arg=dtypes.float64), [y], dtypes.float64)
    np.testing.assert_array_equal(got.view(np.int64), y)


@pytest.mark.parametrize("dtype", _STORED, ids=_names)
def test_select_takes_every_dtype(dtype: np.dtype[Any]) -> None:
    x = samples(dtype)
    c = np.arange(x.size) % 3 == 0
    got = apply(ew.select, [c, x, x[::-1].copy()], dtype)
    assert_same(got, np.where(c, x, x[::-1]))


def test_no_algebra_is_done_on_floats() -> None:
    a = np.array([1.0, -0.0, 3.14159, 1e8], np.float32)
    big = const(1e8, dtypes.float32)
    got = apply(lambda x: ew.sub(ew.add(x, big), big), [a], dtypes.float32)
    np.testing.assert_array_equal(got, (a + np.float32(1e8)) - np.float32(1e8))
    zero = const(0.0, dtypes.float32)
    got = apply(lambda x: ew.add(x, zero), [a], dtypes.float32)
    assert not np.signbit(got[1])
    got = apply(lambda x, y: ew.add(ew.mul(x, x), y), [a, -a * a], dtypes.float32)
    np.testing.assert_array_equal(got, a * a + -a * a)


@pytest.mark.parametrize("size", [1, 5, 16, 40])
def test_what_is_rarely_taken_is_taken_where_it_must(size: int) -> None:
    """Selects marked rare share a branch; their results meet after it."""
    (i,) = axes(size)
    for places in ([], [0], [size - 1], list(range(size))):
        x, out = floats(size), np.zeros(size, np.float32)
        x[places] += 100
        value = load(buffer(0, x), i)
        far = ew.gt(value, const(50, x.dtype))
        dear = ew.mul(ew.sqrt(ew.absolute(value)), const(3, x.dtype))
        first = ew.select(far, dear, value, arg=RARE)
        second = ew.select(far, ew.neg(dear), ew.neg(value), arg=RARE)
        store = Store(1, i, ew.add(ew.mul(first, second), dear))
        run(make_kernel((i,), (store,), [x, out]), [x, out])
        chosen = np.where(x > 50, np.sqrt(np.abs(x)) * 3, x)
        np.testing.assert_allclose(out, -chosen * chosen + np.sqrt(np.abs(x)) * 3, 1e-5)


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=_names)
def test_scaling_by_powers_of_two(dtype: np.dtype[Any]) -> None:
    if not host_target().avx512:
        pytest.skip("this processor has no such instruction")
    x = np.linspace(-3, 3, 37).astype(dtype)
    n = (np.arange(37) % 20 - 10).astype(dtype)
    got = apply(lambda a, b: make_node(ldexp_p, a.aval, (a, b)), [x, n], dtype)
    np.testing.assert_array_equal(got, np.ldexp(x, n.astype(np.int32)))


@pytest.mark.parametrize("size", [1, 2, 3, 8, 37])
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=_names)
def test_parts_of_numbers(dtype: np.dtype[Any], size: int) -> None:
    """x = m·2^k with m in [3/4, 3/2), also at the ends of the numbers."""
    if not host_target().avx512:
        pytest.skip("this processor has no such instruction")
    info = np.finfo(dtype)
    ends = [0.0, 0.75, 0.7499999, 1.0, 1.5, 1.49999, float(info.tiny) / 8, np.inf]
    x = np.array([*ends, float(info.max), 1e-30, *np.linspace(0.1, 9, 27)], dtype)
    for values in (x[:size], x[-size:]):
        m, k = (
            apply(lambda a, op=op: make_node(op, a.aval, (a,)), [values], dtype)
            for op in (mantissa_p, exponent_p)
        )
        plain = (values > 0) & np.isfinite(values)
        power = k[plain].astype(np.int32)
        assert (m[plain] >= 0.75).all()
        assert (m[plain] < 1.5).all()
        half = np.ldexp(m[plain], power // 2)  # 2^k alone may not be a number
        np.testing.assert_array_equal(np.ldexp(half, power - power // 2), values[plain])
        np.testing.assert_array_equal(m[~plain], 1)
        ends_of = np.where(values[~plain] > 0, np.inf, -np.inf)
        np.testing.assert_array_equal(k[~plain], ends_of)


def test_the_mantissa_of_what_has_no_logarithm_is_nan() -> None:
    if not host_target().avx512:
        pytest.skip("this processor has no such instruction")
    x = np.array([np.nan, -1.0, -np.inf, -1e-40], np.float32)
    got = apply(lambda a: make_node(mantissa_p, a.aval, (a,)), [x], dtypes.float32)
    assert np.isnan(got).all()


@pytest.mark.parametrize("size", [1, 8, 16, 37])
def test_tables_are_looked_up_by_the_last_bits(size: int) -> None:
    if not host_target().avx512:
        pytest.skip("this processor has no such instruction")
    places = np.resize(np.arange(32), size)
    x = (places + 96).astype(np.uint32).view(np.float32)
    for name, (function, row) in TABLES_OF_32.items():
        op, numbers = KernelOp(name), tables_of(function)[row]
        got = apply(lambda a, op=op: make_node(op, a.aval, (a,)), [x], dtypes.float32)
        np.testing.assert_array_equal(got, np.array(numbers, np.float32)[places])
