"""Elementwise kernels, built by hand, against NumPy: in every shape of loop."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from ftrace import dtypes
from ftrace.backends.llvm.render import render
from ftrace.backends.llvm.target import Target, host_target
from ftrace.lower.kernel.ir import (
    INDEX,
    Kernel,
    Store,
    load,
    reduce,
)
from ftrace.trace.graph import Node
from ftrace.trace.primitives import elementwise as ew
from ftrace.trace.primitives.sources import const
from tests.backends.llvm.contraction import test_contractions
from tests.backends.llvm.emit import test_reduction_kernels
from tests.backends.llvm.scalar import test_scalar_ops
from tests.support import run_llvm_kernel
from tests.support.run_llvm_kernel import (
    apply,
    assert_guarded,
    at,
    axes,
    buffer,
    floats,
    guarded,
    make_kernel,
    reduced,
    run,
)

Array = np.ndarray[Any, Any]


pytestmark = pytest.mark.usefixtures("private_cache")


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


@pytest.mark.parametrize("columns", [5, 7])
def test_masked_bytes_are_those_of_a_whole_register(columns: int) -> None:
    """LLVM takes the bits of a narrower mask for its own: it may reach beyond."""
    x = floats(33, columns).astype(np.float64)
    flags, out, less = x > 0, np.zeros_like(x), np.zeros(x.shape, bool)
    i, j = axes(33, columns)
    place = at((i, columns), (j, 1))
    value, flag = load(buffer(0, x), place), load(buffer(1, flags), place)
    stores = (
        Store(2, place, ew.select(flag, value, ew.neg(value))),
        Store(3, place, ew.lt(value, const(0, value.dtype))),
    )
    arrays = [x, flags, out, less]
    kernel = make_kernel((i, j), stores, arrays)
    target = Target.of("x86_64-unknown-linux-gnu", "x86-64-v4")
    text = render(kernel, target).text
    assert "masked.load.v16i8" in text
    assert "masked.store.v16i8" in text
    assert "v8i8" not in text
    run(kernel, arrays)
    np.testing.assert_array_equal(out, np.abs(x))
    np.testing.assert_array_equal(less, x < 0)


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
        test_contractions.convolution(2, 3, (6, 7), 4, 3, 1)[0],
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
        text = render(kernel, target).text
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
    monkeypatch.setattr(run_llvm_kernel, "host_target", lambda: target)
    test_scalar_ops.test_rounding_to_half_precision_is_exact(dtypes.float16)
    test_scalar_ops.test_rounding_to_half_precision_is_exact(dtypes.bfloat16)
    for turned, dtype in product(("", "a", "b"), ("float32", "float64", "int32")):
        test_contractions.test_matrix_product((33, 37, 65), turned, dtype)
    test_reduction_kernels.test_reduce_along_either_axis("max", (9, 70), 1)
    test_masked_loads_touch_nothing_outside(30)
    test_scalar_ops.test_unary_operations_have_the_primitives_meaning(dtypes.float32)


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
    assert render(kernel, host_target()).parallel > 1
    run(kernel, [parts, x, out], 5)
    np.testing.assert_allclose(out, x - parts.sum(), rtol=1e-5, atol=1e-5)


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
    text = render(kernel, small).text
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
