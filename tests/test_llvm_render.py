"""The LLVM renderer: hand-built kernels against NumPy, in every shape of loop."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from ftrace import dtypes, settings
from ftrace.devices.llvm.compile import emit_object, link
from ftrace.devices.llvm.library import addresses, symbols_in
from ftrace.devices.llvm.render import render
from ftrace.devices.llvm.target import Target, host_target
from ftrace.lower.kernel import (
    INDEX,
    BufferSpec,
    Kernel,
    Store,
    load,
    make_range,
    param,
    reduce,
)
from ftrace.lower.math.term import RARE, ldexp_p
from ftrace.trace.graph import Node, make_node
from ftrace.trace.primitives import elementwise as ew
from ftrace.trace.primitives.source import const

Array = np.ndarray[Any, Any]

_render = import_module("ftrace.devices.llvm.render")
_product_code = import_module("ftrace.devices.llvm.product")


@pytest.fixture(autouse=True, scope="module")
def _private_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with settings.config(cache_dir=str(tmp_path_factory.mktemp("cache"))):
        yield


def at(*terms: tuple[Node, int], offset: int = 0) -> Node:
    """offset + the sum of range · coefficient."""
    total = const(offset, INDEX)
    for axis, coefficient in terms:
        total = ew.add(total, ew.mul(axis, const(coefficient, INDEX)))
    return total


def axes(*sizes: int) -> tuple[Node, ...]:
    return tuple(make_range(n, size, False) for n, size in enumerate(sizes))


def reduced(*sizes: int, first: int = 10) -> tuple[Node, ...]:
    return tuple(make_range(first + n, size, True) for n, size in enumerate(sizes))


def buffer(number: int, array: Array) -> Node:
    return param(number, array.dtype, array.size)


def make_kernel(
    kernel_axes: Sequence[Node],
    stores: Sequence[Store],
    arrays: Sequence[Array],
    ordered: frozenset[int] = frozenset(),
) -> Kernel:
    written = {s.buffer for s in stores}
    specs = [BufferSpec(a.dtype, a.size, n in written) for n, a in enumerate(arrays)]
    return Kernel(tuple(kernel_axes), tuple(stores), tuple(specs), ordered)


def run(
    kernel: Kernel,
    arrays: Sequence[Array],
    pieces: int = 1,
    target: Target | None = None,
) -> None:
    """Runs a kernel on arrays, in place, its domain cut in so many pieces."""
    rendered = render(kernel, target or host_target(), "kernel")
    calls = addresses(symbols_in(rendered.text))
    code = link(emit_object(rendered.text), ("kernel",), calls)
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(
        code.address("kernel")
    )
    pointers = (ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays])
    units = rendered.parallel
    assert units >= 1
    assert rendered.grain >= 1
    pieces = min(pieces, units)
    for n in range(pieces):
        function(pointers, units * n // pieces, units * (n + 1) // pieces)


def guarded(array: Array) -> Array:
    """A copy between bytes that must not change: see `assert_guarded`."""
    size = array.nbytes
    raw = np.full(size + 256, 0xA5, np.uint8)
    start = 128 + (-(raw.ctypes.data + 128)) % max(array.itemsize, 1)
    inside = raw[start : start + size].view(array.dtype).reshape(array.shape)
    inside[...] = array
    return inside


def assert_guarded(array: Array) -> None:
    raw = array
    while isinstance(raw.base, np.ndarray):
        raw = raw.base
    start = array.ctypes.data - raw.ctypes.data
    assert (raw[:start] == 0xA5).all()
    assert (raw[start + array.nbytes :] == 0xA5).all()


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def apply(
    function: Callable[..., Node], inputs: Sequence[Array], result: np.dtype[Any]
) -> Array:
    """`function` of the elements of arrays of one size, through the renderer."""
    (i,) = axes(inputs[0].size)
    values = [load(buffer(n, x), i) for n, x in enumerate(inputs)]
    arrays = [*[guarded(x) for x in inputs], guarded(np.zeros(inputs[0].size, result))]
    store = Store(len(inputs), i, function(*values))
    run(make_kernel((i,), (store,), arrays), arrays)
    for array in arrays:
        assert_guarded(array)
    return arrays[-1]


# Operations.

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
    "f": [ew.neg, ew.absolute, ew.sign, ew.floor, ew.ceil, ew.truncate, ew.round_even,
          ew.sqrt, ew.is_finite, ew.copy, ew.stop_gradient],
    "i": [ew.neg, ew.absolute, ew.sign, ew.bit_not],
    "u": [ew.neg, ew.absolute, ew.sign, ew.bit_not, ew.popcount],
    "b": [ew.bit_not],
}  # fmt: skip
_COMPARE = [ew.eq, ew.ne, ew.lt, ew.le, ew.gt, ew.ge]
_BINARY = {
    "f": [ew.add, ew.sub, ew.mul, ew.div, ew.rem, ew.maximum, ew.minimum, ew.mul_zero,
          ew.nextafter, *_COMPARE],
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


# Elementwise kernels.


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.bool_])
def test_every_length_has_its_tail(dtype: Any) -> None:
    for size in range(1, 71):
        x = (floats(size) > 0).astype(dtype)
        got = apply(lambda a: ew.maximum(a, a), [x], np.dtype(dtype))
        np.testing.assert_array_equal(got, x)


@pytest.mark.parametrize("pieces", [1, 2, 7])
def test_the_domain_can_be_split_anywhere(pieces: int) -> None:
    x = floats(1_000_003)
    out = guarded(np.zeros_like(x))
    (i,) = axes(x.size)
    store = Store(1, i, ew.add(load(buffer(0, x), i), const(1, x.dtype)))
    run(make_kernel((i,), (store,), [x, out]), [x, out], pieces)
    np.testing.assert_array_equal(out, x + 1)
    assert_guarded(out)


@pytest.mark.parametrize(
    "shape", [(1, 1), (3, 5), (17, 16), (16, 17), (40, 50), (7, 130)]
)
def test_loads_may_be_broadcast_transposed_and_reversed(shape: tuple[int, int]) -> None:
    m, n = shape
    row, column, turned, back = floats(n), floats(m), floats(n, m), floats(m, n)
    out = guarded(np.zeros(shape, np.float32))
    arrays = [row, column, turned, back, out]
    i, j = axes(m, n)
    parts = [
        load(buffer(0, row), j),
        load(buffer(1, column), i),
        load(buffer(2, turned), at((j, m), (i, 1))),
        load(buffer(3, back), at((i, -n), (j, -1), offset=m * n - 1)),
    ]
    value = ew.add(ew.add(parts[0], parts[1]), ew.add(parts[2], parts[3]))
    run(make_kernel((i, j), (Store(4, at((i, n), (j, 1)), value),), arrays), arrays)
    wanted = (row + column[:, None]) + (turned.T + back[::-1, ::-1])
    np.testing.assert_array_equal(out, wanted)
    assert_guarded(out)


@pytest.mark.parametrize("size", [5, 16, 33, 70])
@pytest.mark.parametrize("step", [-3, -2, 2, 3, 4])
def test_strided_loads_and_stores(size: int, step: int) -> None:
    span = abs(step) * (size - 1) + 1
    x, out = guarded(floats(span)), guarded(np.zeros(span, np.float32))
    (i,) = axes(size)
    place = at((i, step), offset=0 if step > 0 else span - 1)
    run(
        make_kernel((i,), (Store(1, place, load(buffer(0, x), place)),), [x, out]),
        [x, out],
    )
    wanted = np.zeros_like(x)
    wanted[::step] = x[::step]
    np.testing.assert_array_equal(out, wanted)
    assert_guarded(out)


@pytest.mark.parametrize("size", [4, 30, 100])
def test_masked_loads_touch_nothing_outside(size: int) -> None:
    """A pad, along an axis that is in vectors and along one that is not."""
    x = guarded(floats(size, size))
    out = guarded(np.ones((size + 5, size + 7), np.float32))
    i, j = axes(size + 5, size + 7)

    def inside(axis: Node, low: int) -> Node:
        return ew.bit_and(
            ew.ge(axis, const(low, INDEX)), ew.lt(axis, const(low + size, INDEX))
        )

    valid = ew.bit_and(inside(i, 2), inside(j, 3))
    place = at((ew.sub(i, const(2, INDEX)), size), (ew.sub(j, const(3, INDEX)), 1))
    value = load(buffer(0, x), place, valid)
    store = Store(1, at((i, size + 7), (j, 1)), value)
    run(make_kernel((i, j), (store,), [x, out]), [x, out])
    np.testing.assert_array_equal(out, np.pad(x, ((2, 3), (3, 4))))
    assert_guarded(out)


@pytest.mark.parametrize("shape", [(6, 4), (5, 16), (3, 48), (9, 7)])
def test_division_in_an_index(shape: tuple[int, int]) -> None:
    """A reshape that did not merge: out[i] = x[i % m, i // m]."""
    m, n = shape
    x, out = floats(m, n), np.zeros(m * n, np.float32)
    (i,) = axes(m * n)
    row, column = ew.rem(i, const(m, INDEX)), ew.div(i, const(m, INDEX))
    store = Store(1, i, load(buffer(0, x), at((row, n), (column, 1))))
    run(make_kernel((i,), (store,), [x, out]), [x, out])
    np.testing.assert_array_equal(out, x.T.ravel())
    row, column = ew.div(i, const(n, INDEX)), ew.rem(i, const(n, INDEX))
    store = Store(1, i, load(buffer(0, x), at((row, n), (column, 1))))
    run(make_kernel((i,), (store,), [x, out]), [x, out])
    np.testing.assert_array_equal(out, x.ravel())


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint64])
def test_gather_by_an_index_array(dtype: Any) -> None:
    x = floats(50, 3)
    index = np.random.default_rng(1).integers(0, 50, 77).astype(dtype)
    out = guarded(np.zeros((77, 3), np.float32))
    i, j = axes(77, 3)
    row = ew.cast(load(buffer(1, index), i), INDEX)
    value = load(buffer(0, x), at((row, 3), (j, 1)))
    run(make_kernel((i, j), (Store(2, at((i, 3), (j, 1)), value),), [x, index, out]),
        [x, index, out])  # fmt: skip
    np.testing.assert_array_equal(out, x[index])
    assert_guarded(out)


def test_positions_as_values() -> None:
    out, shown = np.zeros(100, np.int64), np.zeros(100, np.float32)
    (i,) = axes(100)
    square = ew.mul(i, i)
    stores = (Store(0, i, square), Store(1, i, ew.cast(square, dtypes.float32)))
    run(make_kernel((i,), stores, [out, shown]), [out, shown])
    np.testing.assert_array_equal(out, np.arange(100) ** 2)
    np.testing.assert_array_equal(shown, np.arange(100, dtype=np.float32) ** 2)


def test_large_integers_are_not_indices() -> None:
    x = np.array([2**62, -(2**63), 2**63 - 1, 5], np.int64).repeat(5)
    got = apply(lambda a: ew.mul(ew.add(a, a), const(3, INDEX)), [x], INDEX)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(got, (x + x) * 3)


def test_a_kernel_without_axes_runs_once() -> None:
    x, out = floats(1), np.zeros(1, np.float32)
    zero = const(0, INDEX)
    store = Store(1, zero, ew.add(load(buffer(0, x), zero), const(1, x.dtype)))
    run(make_kernel((), (store,), [x, out]), [x, out])
    np.testing.assert_array_equal(out, x + 1)


# Reductions.

_NUMPY = {"add": np.sum, "mul": np.prod, "max": np.max, "min": np.min}


@pytest.mark.parametrize("op", list(_NUMPY))
@pytest.mark.parametrize(
    "shape", [(1, 1), (3, 7), (5, 64), (2, 1000), (130, 17), (9, 70)]
)
@pytest.mark.parametrize("axis", [0, 1])
def test_reduce_along_either_axis(op: str, shape: tuple[int, int], axis: int) -> None:
    n = shape[1]
    for dtype in (np.float32, np.int32, np.float64):
        x = (np.random.default_rng(0).integers(1, 3, shape)).astype(dtype)
        if op == "mul":
            x = np.where(np.arange(x.size).reshape(shape) % 50 == 0, 2, 1).astype(dtype)
        out = guarded(np.zeros(shape[1 - axis], dtype))
        (i,), (r,) = axes(shape[1 - axis]), reduced(shape[axis])
        index = at((r, n), (i, 1)) if axis == 0 else at((i, n), (r, 1))
        store = Store(1, i, reduce(op, load(buffer(0, x), index), (r,)))
        run(make_kernel((i,), (store,), [x, out]), [x, out], 3)
        np.testing.assert_array_equal(out, _NUMPY[op](x, axis).astype(dtype))
        assert_guarded(out)


def test_a_sum_and_a_maximum_of_the_same_products() -> None:
    x, y = floats(30, 200), floats(30, 200, seed=1)
    out, high = guarded(np.zeros(30, np.float32)), guarded(np.zeros(30, np.float32))
    arrays = [x, y, out, high]
    (i,), (r,) = axes(30), reduced(200)
    place = at((i, 200), (r, 1))
    product = ew.mul(load(buffer(0, x), place), load(buffer(1, y), place))
    stores = (
        Store(2, i, reduce("add", product, (r,))),
        Store(3, i, reduce("max", product, (r,))),
    )
    run(make_kernel((i,), stores, arrays), arrays)
    np.testing.assert_allclose(out, (x * y).sum(1), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(high, (x * y).max(1))


@pytest.mark.parametrize("size", [1, 5, 100, 4097])
def test_nan_wins_in_an_extremum(size: int) -> None:
    x = floats(size)
    for place in {0, size // 2, size - 1}:
        for op in ("max", "min"):
            y, out = x.copy(), np.zeros(1, np.float32)
            y[place] = np.nan
            (r,) = reduced(size)
            store = Store(1, const(0, INDEX), reduce(op, load(buffer(0, y), r), (r,)))
            run(make_kernel((), (store,), [y, out]), [y, out])
            assert np.isnan(out[0])


@pytest.mark.parametrize("size", [1, 63, 1000, 4096, 100_000, 3_000_001])
def test_long_sums_are_as_accurate_as_pairwise(size: int) -> None:
    x = np.random.default_rng(0).random(size).astype(np.float32)
    out = np.zeros(1, np.float32)
    (r,) = reduced(size)
    store = Store(1, const(0, INDEX), reduce("add", load(buffer(0, x), r), (r,)))
    run(make_kernel((), (store,), [x, out]), [x, out])
    exact = x.sum(dtype=np.float64)
    assert abs(out[0] - exact) <= max(2 * abs(float(x.sum()) - exact), exact * 2e-7)


def test_reduce_over_two_ranges_in_any_order() -> None:
    x = floats(13, 9, 21)
    for kept in (0, 1, 2):
        others = [a for a in range(3) if a != kept]
        out = guarded(np.zeros(x.shape[kept], np.float32))
        (i,), (r, s) = axes(x.shape[kept]), reduced(*[x.shape[a] for a in others])
        strides = (9 * 21, 21, 1)
        place = at((i, strides[kept]), (r, strides[others[0]]), (s, strides[others[1]]))
        store = Store(1, i, reduce("add", load(buffer(0, x), place), (r, s)))
        run(make_kernel((i,), (store,), [x, out]), [x, out])
        np.testing.assert_allclose(out, x.sum(tuple(others)), rtol=1e-5, atol=1e-5)
        assert_guarded(out)


@pytest.mark.parametrize("columns", [1, 7, 64, 200])
def test_a_row_kernel_keeps_its_passes_apart(columns: int) -> None:
    """Normalisation: maximum, sum of squares about it, and the row again."""
    rows = 19
    x, out = floats(rows, columns), guarded(np.zeros((rows, columns), np.float32))
    i, j = axes(rows, columns)
    r, s = reduced(columns, columns)

    def element(column: Node) -> Node:
        return load(buffer(0, x), at((i, columns), (column, 1)))

    top = reduce("max", element(r), (r,))
    shifted = ew.sub(element(s), top)
    total = reduce("add", ew.mul(shifted, shifted), (s,))
    value = ew.div(ew.sub(element(j), top), ew.add(total, const(1, x.dtype)))
    store = Store(1, at((i, columns), (j, 1)), value)
    run(make_kernel((i, j), (store,), [x, out]), [x, out], 4)
    high = x.max(1, keepdims=True)
    wanted = (x - high) / (((x - high) ** 2).sum(1, keepdims=True) + 1)
    np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=1e-6)
    assert_guarded(out)


# Scatters.


@pytest.mark.parametrize("combine", ["", "add", "mul", "max", "min"])
@pytest.mark.parametrize("columns", [1, 3, 40, 500])
def test_scatter_combines_in_order(combine: str, columns: int) -> None:
    index = np.array([1, 4, 1, -1, 0, 4, 9, 4, 4, 1], np.int64)
    x, out = floats(10, columns), guarded(np.full((5, columns), 0.5, np.float32))
    wanted = np.array(out)
    arrays = [x, index, out]
    i, j = axes(10, columns)
    row = load(buffer(1, index), i)
    valid = ew.bit_and(ew.ge(row, const(0, INDEX)), ew.lt(row, const(5, INDEX)))
    value = load(buffer(0, x), at((i, columns), (j, 1)))
    store = Store(2, at((row, columns), (j, 1)), value, valid, combine)
    run(make_kernel((i, j), (store,), arrays, frozenset((0,))), arrays, 3)
    meaning: Any = {"": lambda a, b: b, "add": np.add, "mul": np.multiply,
                    "max": np.maximum, "min": np.minimum}[combine]  # fmt: skip
    for n, target in enumerate(index):
        if 0 <= target < 5:
            wanted[target] = meaning(wanted[target], x[n])
    np.testing.assert_array_equal(out, wanted)
    assert_guarded(out)


# Contractions.


def _product(a: Array, b: Array) -> Array:
    return (a.astype(np.float64) @ b.astype(np.float64)).astype(a.dtype)


_SHAPES = [
    (1, 1, 1), (2, 3, 4), (8, 48, 16), (17, 33, 65), (64, 64, 64), (5, 100, 7),
    (100, 5, 300), (33, 10, 129), (70, 130, 600), (3, 1, 500), (1, 200, 50),
]  # fmt: skip


@pytest.mark.parametrize("shape", _SHAPES)
@pytest.mark.parametrize("turned", ["", "a", "b", "ab"])
def test_matrix_product(shape: tuple[int, int, int], turned: str) -> None:
    m, n, k = shape
    for dtype in (np.float32, np.float64, np.int32):
        rng = np.random.default_rng(0)
        a, b = rng.standard_normal((m, k)) * 4, rng.standard_normal((k, n)) * 4
        a, b = np.trunc(a).astype(dtype), np.trunc(b).astype(dtype)
        x = np.ascontiguousarray(a.T) if "a" in turned else a
        y = np.ascontiguousarray(b.T) if "b" in turned else b
        out = guarded(np.zeros((m, n), dtype))
        arrays = [x, y, out]
        i, j = axes(m, n)
        (r,) = reduced(k)
        left = at((r, m), (i, 1)) if "a" in turned else at((i, k), (r, 1))
        right = at((j, k), (r, 1)) if "b" in turned else at((r, n), (j, 1))
        product = ew.mul(load(buffer(0, x), left), load(buffer(1, y), right))
        total = reduce("add", product, (r,))
        value = ew.maximum(total, const(-3, total.dtype))
        store = Store(2, at((i, n), (j, 1)), value)
        run(make_kernel((i, j), (store,), arrays), arrays, 3)
        np.testing.assert_array_equal(out, np.maximum(a @ b, -3))
        assert_guarded(out)


@pytest.mark.parametrize("shape", _SHAPES)
@pytest.mark.parametrize("turned", ["", "a", "b", "ab"])
def test_matrix_product_in_blocks(
    shape: tuple[int, int, int], turned: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same in blocks, though they do not pay at these sizes."""
    monkeypatch.setattr(_render, "is_worthwhile", lambda *_: True)
    monkeypatch.setattr(_product_code, "DEPTH", 48)
    monkeypatch.setattr(_product_code, "HEIGHT", 20)
    test_matrix_product(shape, turned)


def convolution(
    batch: int, channels: int, size: tuple[int, int], out_channels: int, window: int,
    stride: int, arrays: Sequence[Array] = (),
) -> tuple[Kernel, list[Array], Array]:  # fmt: skip
    """A padded convolution: a masked load, three ranges to sum over."""
    h, w = size
    pad = window // 2
    oh, ow = (h + 2 * pad - window) // stride + 1, (w + 2 * pad - window) // stride + 1
    x = floats(batch, channels, h, w)
    f = floats(out_channels, channels, window, window, seed=1)
    out = guarded(np.zeros((batch, out_channels, oh, ow), np.float32))
    n, o, y, z = axes(batch, out_channels, oh, ow)
    c, u, v = reduced(channels, window, window)
    row = at((y, stride), (u, 1), offset=-pad)
    column = at((z, stride), (v, 1), offset=-pad)
    valid = None
    for place, length in ((row, h), (column, w)):
        inside = ew.bit_and(
            ew.ge(place, const(0, INDEX)), ew.lt(place, const(length, INDEX))
        )
        valid = inside if valid is None else ew.bit_and(valid, inside)
    pixel = load(
        buffer(0, x),
        at((n, channels * h * w), (c, h * w), (row, w), (column, 1)),
        valid,
    )
    taps = window * window
    weight = load(
        buffer(1, f), at((o, channels * taps), (c, taps), (u, window), (v, 1))
    )
    total = reduce("add", ew.mul(pixel, weight), (c, u, v))
    index = at((n, out_channels * oh * ow), (o, oh * ow), (y, ow), (z, 1))
    kernel = make_kernel((n, o, y, z), (Store(2, index, total),), [x, f, out])
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (window, window), (2, 3))
    windows = windows[:, :, ::stride, ::stride]
    wanted = np.einsum("ncyxuv,ocuv->noyx", windows, f, optimize=True)
    return kernel, [x, f, out], wanted


_CONVOLUTIONS = [
    (2, 3, (6, 7), 4, 3, 1), (1, 16, (20, 20), 9, 3, 1), (3, 5, (15, 33), 8, 3, 2),
    (2, 1, (8, 8), 16, 5, 1), (1, 40, (5, 5), 20, 1, 1), (4, 2, (30, 3), 3, 3, 1),
]  # fmt: skip


@pytest.mark.parametrize("case", _CONVOLUTIONS)
@pytest.mark.parametrize("blocks", [False, True])
def test_convolution(case: Any, blocks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if blocks:
        monkeypatch.setattr(_render, "is_worthwhile", lambda *_: True)
        monkeypatch.setattr(_product_code, "DEPTH", 48)
    kernel, arrays, wanted = convolution(*case)
    run(kernel, arrays, 3)
    np.testing.assert_allclose(arrays[-1], wanted, rtol=1e-4, atol=1e-4)
    assert_guarded(arrays[-1])


@pytest.mark.parametrize("case", _CONVOLUTIONS)
def test_convolution_with_channels_last(case: Any) -> None:
    """The masked operand is the left one, and has three axes of rows."""
    batch, channels, (h, w), out_channels, window, _ = case
    pad = window // 2
    x = floats(batch, h, w, channels)
    f = floats(window, window, channels, out_channels, seed=1)
    out = guarded(np.zeros((batch, h, w, out_channels), np.float32))
    n, y, z, o = axes(batch, h, w, out_channels)
    u, v, c = reduced(window, window, channels)
    row, column = at((y, 1), (u, 1), offset=-pad), at((z, 1), (v, 1), offset=-pad)
    valid = None
    for place, length in ((row, h), (column, w)):
        inside = ew.bit_and(
            ew.ge(place, const(0, INDEX)), ew.lt(place, const(length, INDEX))
        )
        valid = inside if valid is None else ew.bit_and(valid, inside)
    index = at((n, h * w * channels), (row, w * channels), (column, channels), (c, 1))
    pixel = load(buffer(0, x), index, valid)
    place = at((u, window * channels * out_channels), (v, channels * out_channels),
               (c, out_channels), (o, 1))  # fmt: skip
    total = reduce("add", ew.mul(pixel, load(buffer(1, f), place)), (u, v, c))
    index = at(
        (n, h * w * out_channels), (y, w * out_channels), (z, out_channels), (o, 1)
    )
    kernel = make_kernel((n, y, z, o), (Store(2, index, total),), [x, f, out])
    run(kernel, [x, f, out], 3)
    padded = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (window, window), (1, 2))
    wanted = np.einsum("nyxcuv,uvco->nyxo", windows, f, optimize=True)
    np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-4)
    assert_guarded(out)


@pytest.mark.parametrize("case", _CONVOLUTIONS)
def test_gradient_of_a_convolution_by_its_weights(case: Any) -> None:
    """The sum runs over images and pixels; the window is among the axes."""
    batch, channels, (h, w), out_channels, window, _ = case
    pad = window // 2
    x, g = floats(batch, channels, h, w), floats(batch, out_channels, h, w, seed=1)
    out = guarded(np.zeros((out_channels, channels, window, window), np.float32))
    arrays = [x, g, out]
    o, c, u, v = axes(out_channels, channels, window, window)
    n, y, z = reduced(batch, h, w)
    row, column = at((y, 1), (u, 1), offset=-pad), at((z, 1), (v, 1), offset=-pad)
    valid = None
    for place, length in ((row, h), (column, w)):
        inside = ew.bit_and(
            ew.ge(place, const(0, INDEX)), ew.lt(place, const(length, INDEX))
        )
        valid = inside if valid is None else ew.bit_and(valid, inside)
    index = at((n, channels * h * w), (c, h * w), (row, w), (column, 1))
    pixel = load(buffer(0, x), index, valid)
    slope = load(
        buffer(1, g), at((n, out_channels * h * w), (o, h * w), (y, w), (z, 1))
    )
    total = reduce("add", ew.mul(slope, pixel), (n, y, z))
    taps = window * window
    place = at((o, channels * taps), (c, taps), (u, window), (v, 1))
    run(make_kernel((o, c, u, v), (Store(2, place, total),), arrays), arrays, 2)
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (window, window), (2, 3))
    wanted = np.einsum("ncyxuv,noyx->ocuv", windows, g, optimize=True)
    np.testing.assert_allclose(out, wanted, rtol=1e-3, atol=1e-3)
    assert_guarded(out)


def test_a_contraction_takes_work_before_and_after() -> None:
    """Casts and masks at the operands, a bias and a residual at the result."""
    m, n, k = 37, 75, 90
    a, b = floats(m, k).astype(np.float16), floats(n, k, seed=1)
    bias, old = floats(n, seed=2), floats(m, n, seed=3)
    out, double = guarded(np.zeros((m, n), np.float32)), guarded(np.zeros((m, n)))
    arrays = [a, b, bias, old, out, double]
    i, j = axes(m, n)
    (r,) = reduced(k)
    x = ew.cast(load(buffer(0, a), at((i, k), (r, 1))), dtypes.float32)
    y = load(buffer(1, b), at((j, k), (r, 1)), ew.lt(ew.add(j, r), const(100, INDEX)))
    total = reduce("add", ew.mul(x, ew.maximum(y, const(0, y.dtype))), (r,))
    value = ew.add(total, load(buffer(2, bias), j))
    value = ew.add(value, load(buffer(3, old), at((i, n), (j, 1))))
    place = at((i, n), (j, 1))
    stores = (Store(4, place, value), Store(5, place, ew.cast(total, dtypes.float64)))
    run(make_kernel((i, j), stores, arrays), arrays, 2)
    kept = np.where(np.arange(n)[:, None] + np.arange(k) < 100, np.maximum(b, 0), 0)
    product = a.astype(np.float64) @ kept.T
    np.testing.assert_allclose(out, product + bias + old, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(double, product, rtol=1e-5, atol=1e-5)
    assert_guarded(out)
    assert_guarded(double)


def test_rows_of_a_batch_share_the_second_operand() -> None:
    """x[b, i, k]·w[j, k]: two axes of rows; and a sum of absolute differences."""
    x, w = floats(3, 40, 50), floats(70, 50, seed=1)
    out, far = np.zeros((3, 40, 70), np.float32), np.zeros((3, 40, 70), np.float32)
    arrays = [x, w, out, far]
    b, i, j = axes(3, 40, 70)
    (r,) = reduced(50)
    left = load(buffer(0, x), at((b, 2000), (i, 50), (r, 1)))
    right = load(buffer(1, w), at((j, 50), (r, 1)))
    place = at((b, 2800), (i, 70), (j, 1))
    stores = (
        Store(2, place, reduce("add", ew.mul(left, right), (r,))),
        Store(3, place, reduce("max", ew.absolute(ew.sub(left, right)), (r,))),
    )
    run(make_kernel((b, i, j), stores, arrays), arrays, 2)
    np.testing.assert_allclose(out, x @ w.T, rtol=1e-4, atol=1e-4)
    difference = np.abs(x[:, :, None] - w).max(-1)
    np.testing.assert_array_equal(far, difference)


@pytest.mark.parametrize(
    "shape", [(1000, 3000), (130, 9001), (70, 40_000), (2500, 129), (5, 4099)]
)
def test_long_columns_are_summed_in_strips(shape: tuple[int, int]) -> None:
    m, n = shape
    x = (np.random.default_rng(0).integers(-4, 5, shape)).astype(np.float32)
    out, high = guarded(np.zeros(n, np.float32)), guarded(np.zeros(n, np.float32))
    (i,), (r,) = axes(n), reduced(m)
    value = load(buffer(0, x), at((r, n), (i, 1)))
    stores = (
        Store(1, i, reduce("add", value, (r,))),
        Store(2, i, reduce("max", value, (r,))),
    )
    run(make_kernel((i,), stores, [x, out, high]), [x, out, high], 3)
    np.testing.assert_array_equal(out, x.sum(0))
    np.testing.assert_array_equal(high, x.max(0))
    assert_guarded(out)
    assert_guarded(high)


def test_columns_are_read_by_rows_where_rows_are_long() -> None:
    def by_rows(m: int, n: int, step: int) -> bool:
        x, out = floats(m, n * step), np.zeros(n, np.float32)
        (i,), (r,) = axes(n), reduced(m)
        value = load(buffer(0, x), at((r, n * step), (i, step)))
        kernel = make_kernel((i,), (Store(1, i, reduce("add", value, (r,))),), [x, out])
        run(kernel, [x, out], 3)
        np.testing.assert_allclose(out, x[:, ::step].sum(0), rtol=1e-4, atol=1e-3)
        return "%sums" in render(kernel, host_target(), "kernel").text

    assert by_rows(3000, 500, 1)
    few = 3 * host_target().vector_bytes // 4
    assert not by_rows(3000, few, 1)  # a row fits in registers
    assert not by_rows(10, 500, 1)  # few elements
    assert not by_rows(300, 500, 3)  # not side by side


def test_long_sums_of_columns_are_as_accurate_as_pairwise() -> None:
    x = np.abs(floats(40_000, 200)) + 1
    out = np.zeros(200, np.float32)
    (i,), (r,) = axes(200), reduced(40_000)
    value = load(buffer(0, x), at((r, 200), (i, 1)))
    kernel = make_kernel((i,), (Store(1, i, reduce("add", value, (r,))),), [x, out])
    run(kernel, [x, out])
    np.testing.assert_allclose(out, x.astype(np.float64).sum(0), rtol=6e-7)


def test_sums_along_columns_may_use_each_other() -> None:
    """The variance about the mean, in strips of columns."""
    m, n = 1000, 2500
    x = floats(m, n)
    out, middle = guarded(np.zeros(n, np.float32)), guarded(np.zeros(n, np.float32))
    (i,), (r, s) = axes(n), reduced(m, m)
    share = const(1 / m, x.dtype)
    element = load(buffer(0, x), at((r, n), (i, 1)))
    mean = ew.mul(reduce("add", element, (r,)), share)
    centred = ew.sub(load(buffer(0, x), at((s, n), (i, 1))), mean)
    variance = ew.mul(reduce("add", ew.mul(centred, centred), (s,)), share)
    kernel = make_kernel(
        (i,), (Store(1, i, variance), Store(2, i, mean)), [x, out, middle]
    )
    run(kernel, [x, out, middle], 3)
    np.testing.assert_allclose(out, x.var(0), rtol=1e-4)
    np.testing.assert_allclose(middle, x.mean(0), rtol=1e-4, atol=1e-6)
    assert_guarded(out)


def test_results_do_not_depend_on_the_split() -> None:
    """Bit for bit: reductions never straddle units."""
    kernel, arrays, _ = convolution(3, 12, (30, 30), 20, 3, 1)
    results: list[Array] = []
    for pieces in (1, 2, 5, 1000):
        arrays[-1][...] = 0
        run(kernel, arrays, pieces)
        results.append(np.array(arrays[-1]))
    for other in results[1:]:
        np.testing.assert_array_equal(results[0].view(np.uint32), other.view(np.uint32))


# Other processors.

_TARGETS = [
    Target.of("x86_64-unknown-linux-gnu", "x86-64"),
    Target.of("x86_64-unknown-linux-gnu", "x86-64-v3"),
    Target.of("x86_64-unknown-linux-gnu", "x86-64-v4"),
    Target.of("aarch64-unknown-linux-gnu", "generic"),
]


def _kernels() -> list[Kernel]:
    x, y = floats(100, 70), floats(70, 90)
    out = np.zeros((100, 90), np.float32)
    i, j = axes(100, 90)
    (r,) = reduced(70)
    product = ew.mul(load(buffer(0, x), at((i, 70), (r, 1))),
                     load(buffer(1, y), at((j, 70), (r, 1))))  # fmt: skip
    store = Store(2, at((i, 90), (j, 1)), reduce("add", product, (r,)))
    half = floats(50).astype(np.float16)
    (k,) = axes(50)
    widened = ew.cast(load(buffer(0, half), k), dtypes.float32)
    narrowed = ew.cast(ew.cast(widened, dtypes.bfloat16), dtypes.float16)
    return [
        make_kernel((i, j), (store,), [x, y, out]),
        convolution(2, 3, (6, 7), 4, 3, 1)[0],
        make_kernel((k,), (Store(1, k, narrowed),), [half, half]),
    ]


@pytest.mark.parametrize("target", _TARGETS, ids=lambda t: f"{t.triple[:7]}-{t.cpu}")
def test_code_for_other_processors_is_accepted(target: Target) -> None:
    llvm = pytest.importorskip("llvmlite.binding")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=1
    )
    for kernel in _kernels():
        text = render(kernel, target, "kernel").text
        module = llvm.parse_assembly(text)
        module.verify()
        assert machine.emit_object(module)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("target", _TARGETS[:3], ids=lambda t: t.cpu)
def test_narrower_processors_compute_the_same(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What this machine can run of the code for others."""
    here = host_target()
    if here.triple[:6] != target.triple[:6] or here.vector_bytes < target.vector_bytes:
        pytest.skip("this processor cannot run that code")
    monkeypatch.setitem(globals(), "host_target", lambda: target)
    test_rounding_to_half_precision_is_exact(dtypes.float16)
    test_rounding_to_half_precision_is_exact(dtypes.bfloat16)
    for turned in ("", "a", "b"):
        test_matrix_product((33, 37, 65), turned)
    test_reduce_along_either_axis("max", (9, 70), 1)
    test_masked_loads_touch_nothing_outside(30)
    test_unary_operations_have_the_primitives_meaning(dtypes.float32)


def test_a_value_of_the_whole_array_is_used_in_parallel() -> None:
    """A reduce outside of all axes is repeated in every unit, where it is brief."""
    parts, x = floats(40), floats(300, 500)
    out = guarded(np.zeros((300, 500), np.float32))
    (r,) = reduced(40)
    i, j = axes(300, 500)
    total = reduce("add", load(buffer(0, parts), r), (r,))
    place = at((i, 500), (j, 1))
    store = Store(2, place, ew.sub(load(buffer(1, x), place), total))
    kernel = make_kernel((i, j), (store,), [parts, x, out])
    assert render(kernel, host_target(), "kernel").parallel > 1
    run(kernel, [parts, x, out], 5)
    np.testing.assert_allclose(out, x - parts.sum(), rtol=1e-5, atol=1e-5)


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
    if not host_target().scale:
        pytest.skip("this processor has no such instruction")
    x = np.linspace(-3, 3, 37).astype(dtype)
    n = (np.arange(37) % 20 - 10).astype(dtype)
    got = apply(lambda a, b: make_node(ldexp_p, a.aval, (a, b)), [x, n], dtype)
    np.testing.assert_array_equal(got, np.ldexp(x, n.astype(np.int32)))


@pytest.mark.parametrize("size", [1, 7, 16, 33, 100])
def test_pairs_of_stores_fill_what_lies_side_by_side(size: int) -> None:
    """Complex numbers: every second element of an array, twice."""
    x = np.random.default_rng(0).standard_normal((size, 2)).astype(np.float32)
    out = guarded(np.zeros((size, 2), np.float32))
    (i,) = axes(size)
    even, odd = at((i, 2)), at((i, 2), offset=1)
    a, b = load(buffer(0, x), even), load(buffer(0, x), odd)
    stores = (Store(1, even, ew.sub(a, b)), Store(1, odd, ew.mul(a, b)))
    run(make_kernel((i,), stores, [x, out]), [x, out])
    np.testing.assert_array_equal(out[:, 0], x[:, 0] - x[:, 1])
    np.testing.assert_array_equal(out[:, 1], x[:, 0] * x[:, 1])
    assert_guarded(out)


@pytest.mark.parametrize("shape", [(8, 8), (100, 37), (300, 130), (2, 65, 70)])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.float64])
def test_transposed_operands_are_turned(shape: tuple[int, ...], dtype: Any) -> None:
    *batch, m, n = shape
    count = int(np.prod(batch))
    x = (floats(count, m, n) * 10).astype(dtype)
    y = (floats(count, n, m, seed=1) * 10).astype(dtype)
    out = guarded(np.zeros((count, m, n), dtype))
    b, i, j = axes(count, m, n)
    place = at((b, m * n), (i, n), (j, 1))
    turned = load(buffer(1, y), at((b, m * n), (j, m), (i, 1)))
    store = Store(2, place, ew.maximum(load(buffer(0, x), place), turned))
    run(make_kernel((b, i, j), (store,), [x, y, out]), [x, y, out], 3)
    np.testing.assert_array_equal(out, np.maximum(x, y.transpose(0, 2, 1)))
    assert_guarded(out)


@pytest.mark.parametrize("shift", [0, 4])
@pytest.mark.parametrize("shape", [(3000,), (50, 64), (64, 50)])
def test_large_results_go_past_the_caches(shape: tuple[int, ...], shift: int) -> None:
    """Where the memory is aligned, and in vectors that are; else they are stored."""
    small = replace(host_target(), l3=1)
    x = floats(*shape)
    raw = np.zeros(x.nbytes + 128, np.uint8)
    start = -raw.ctypes.data % 64 + shift
    out = raw[start : start + x.nbytes].view(np.float32).reshape(shape)
    ranges = axes(*shape)
    strides = [int(np.prod(shape[n + 1 :])) for n in range(len(shape))]
    place = at(*zip(ranges, strides, strict=True))
    store = Store(1, place, ew.mul(load(buffer(0, x), place), const(2, x.dtype)))
    kernel = make_kernel(ranges, (store,), [x, out])
    text = render(kernel, small, "kernel").text
    assert ("nontemporal" in text) == (shape[-1] != 50)
    run(kernel, [x, out], 2, small)
    np.testing.assert_array_equal(out, 2 * x)


@pytest.mark.parametrize("size", [1, 15, 16, 17, 100, 1000])
@pytest.mark.parametrize("step", [1, 2, -1])
def test_long_bodies_are_masked_throughout(size: int, step: int) -> None:
    """They are compiled once, whatever is left in the last vector."""
    x, y = guarded(floats(2 * size)), floats(size, seed=1)
    out = guarded(np.zeros(2 * size, np.float32))
    (i,) = axes(size)
    place = at((i, step), offset=size if step < 0 else 0)
    value, wanted = (
        load(buffer(0, x), place),
        x[size:0:-1] if step < 0 else x[: step * size : step],
    )
    a = load(buffer(1, y), i)
    for n in range(50):
        value = ew.add(ew.mul(value, a), const(n, y.dtype))
        wanted = wanted * y + np.float32(n)
    stores = [Store(2, place, value)]
    if step == 2:
        stores.append(Store(2, at((i, 2), offset=1), ew.neg(value)))
    run(make_kernel((i,), stores, [x, y, out]), [x, y, out], 3)
    got = out[size:0:-1] if step < 0 else out[: step * size : step]
    np.testing.assert_array_equal(got, wanted)
    if step == 2:
        np.testing.assert_array_equal(out[1::2], -wanted)
    assert_guarded(out)
