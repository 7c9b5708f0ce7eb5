"""The interpreter: kernels in NumPy."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ftrace import dtypes
from ftrace.backends.interpreter import Interpreter, KernelPlan
from ftrace.errors import GraphError
from ftrace.lower.kernel.ir import (
    BufferSpec,
    Kernel,
    KernelInfo,
    Store,
    load,
    param,
    reduce,
)
from ftrace.lower.program import Program, RunKernel, Slot
from ftrace.testing import assert_close
from ftrace.trace.primitives import elementwise as ew
from ftrace.trace.primitives.sources import const
from tests.support import kernel_samples as samples
from tests.support.kernel_samples import (
    Case,
    axes,
    cases,
    copy_slot,
    elementwise_kernel,
    index,
    integer,
    make_program,
    reduced,
    run,
    specs,
)

Array = np.ndarray[Any, Any]
all_cases = pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)


@all_cases
def test_interpreter_computes_each_sample(case: Case) -> None:
    got = run(Interpreter(), case.kernel, case.inputs, case.outputs)
    for result, wanted in zip(got, case.expected, strict=True):
        assert_close(result, wanted, rtol=case.tolerance, scaled=True)


def test_contraction_never_stores_the_product() -> None:
    size = 512
    case = samples.matmul_case(size, size, size)
    assert KernelPlan(case.kernel).contractions
    tracemalloc.start()
    run(Interpreter(), case.kernel, case.inputs, case.outputs)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < size**3


def test_padded_convolution_is_a_matrix_product() -> None:
    case = samples.convolution_case(8, 8, 8, 16, 16)
    assert KernelPlan(case.kernel).contractions


def test_product_that_is_used_elsewhere_is_computed() -> None:
    x, y = np.arange(4.0), np.arange(5.0)
    (i,), (r,) = axes(4), reduced(5)
    product = ew.mul(load(param(0, x.dtype, 4), i), load(param(1, y.dtype, 5), r))
    total = ew.add(reduce("add", product, (r,)), reduce("max", product, (r,)))
    kernel = Kernel((i,), (Store(2, i, total),), specs([x, y], [x]))
    (got,) = run(Interpreter(), kernel, [x, y], [np.zeros(4)])
    np.testing.assert_array_equal(got, x * 10 + x * 4)


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_mul_zero_in_a_sum_lets_zero_win(bad: float) -> None:
    x, y = np.array([0.0, 1.0]), np.array([bad, 2.0])
    (i,), (r,) = axes(2), reduced(2)
    product = ew.mul_zero(load(param(0, x.dtype, 2), i), load(param(1, y.dtype, 2), r))
    kernel = Kernel(
        (i,), (Store(2, i, reduce("add", product, (r,))),), specs([x, y], [x])
    )
    (got,) = run(Interpreter(), kernel, [x, y], [np.zeros(2)])
    np.testing.assert_array_equal(got, [0.0, bad + 2])


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16], ids=str)
def test_short_floats_are_summed_in_32_bits(dtype: np.dtype[Any]) -> None:
    x = np.full(5000, 1, dtype)
    (r,) = reduced(5000)
    total = reduce("add", load(param(0, dtype, 5000), r), (r,))
    kernel = Kernel((), (Store(1, integer(0), total),), specs([x], [x[:1]]))
    (got,) = run(Interpreter(), kernel, [x], [np.zeros(1, dtype)])
    assert got[0] == np.float32(5000).astype(dtype)


@pytest.mark.parametrize("dtype", dtypes.INTEGER, ids=str)
def test_integer_products_wrap_around(dtype: np.dtype[Any]) -> None:
    info = np.iinfo(dtype)
    a = np.array([[info.max, info.min, 3], [1, info.max, info.max]], dtype)
    b = np.array([[info.max, 2], [info.max, info.min], [7, info.max]], dtype)
    i, j = axes(2, 2)
    (r,) = reduced(3)
    x = load(param(0, dtype, 6), index((i, 3), (r, 1)))
    y = load(param(1, dtype, 6), index((r, 2), (j, 1)))
    store = Store(2, index((i, 2), (j, 1)), reduce("add", ew.mul(x, y), (r,)))
    out = np.zeros((2, 2), dtype)
    (got,) = run(
        Interpreter(), Kernel((i, j), (store,), specs([a, b], [out])), [a, b], [out]
    )
    exact = a.astype(object) @ b.astype(object)
    wanted = [[int(v) & (2 ** (8 * dtype.itemsize) - 1) for v in row] for row in exact]
    unsigned = np.array(wanted, np.uint64).astype(np.dtype(f"u{dtype.itemsize}"))
    np.testing.assert_array_equal(got, unsigned.view(dtype))


def _values(dtype: np.dtype[Any]) -> Array:
    """Numbers of a dtype, its extremes among them."""
    kind = dtypes.kind(dtype)
    if kind == "b":
        return np.array([False, True])
    if kind in "iu":
        info = np.iinfo(dtype)
        return np.array([0, 1, 2, 7, 31, 64, info.max, info.min, info.max // 3], dtype)
    plain = np.array([0, 1, -1, 0.5, 2.5, -3.5, 1e-4, 100, np.inf, -np.inf, np.nan])
    real = np.concatenate([plain, -plain[:1]])
    if kind == "c":
        real = (real[:, None] + 1j * real[None, :7]).ravel()
    return real.astype(dtype)


_ELEMENTWISE = [
    record
    for record in samples.elementwise_records()
    if record.name not in ("cast", "bitcast")
]


@pytest.mark.parametrize("record", _ELEMENTWISE, ids=str)
def test_interpreter_gives_each_operation_its_meaning(record: Any) -> None:
    for dtype in dtypes.ALL:
        parts = record.name != "complex" or dtype in (dtypes.float32, dtypes.float64)
        if parts and dtypes.kind(dtype) in record.dtypes:
            _assert_meaning(record, dtype)


def _assert_meaning(record: Any, dtype: np.dtype[Any]) -> None:
    x, y = (a.ravel() for a in np.meshgrid(_values(dtype), _values(dtype)))
    inputs = [x, y][: samples.arity(record)]
    if record.name == "select":
        inputs = [x == y, x, y]
    loads = [load(param(n, a.dtype, a.size), integer(0)) for n, a in enumerate(inputs)]
    aval = record(*loads).aval
    kernel, outputs = elementwise_kernel(record, inputs, aval.dtype)
    (got,) = run(Interpreter(), kernel, inputs, outputs)
    with np.errstate(all="ignore"):
        wanted = np.asarray(record.numpy(aval, None, *inputs)).astype(aval.dtype)
    assert got.tobytes() == wanted.tobytes(), dtype


@pytest.mark.parametrize("offset", [-1, 3])
def test_load_out_of_bounds_is_caught(offset: int) -> None:
    x = np.arange(5.0)
    (i,) = axes(4)
    for at in (
        index((i, 1), offset=offset),
        ew.rem(index((i, 1), offset=offset), integer(9)),
    ):
        value = load(param(0, x.dtype, 5), at)
        kernel = Kernel((i,), (Store(1, i, value),), specs([x], [x[:4]]))
        with pytest.raises(GraphError, match=r"reaches for .* of a buffer of 5"):
            run(Interpreter(), kernel, [x], [np.zeros(4)])


def test_store_reads_before_it_writes() -> None:
    """A buffer that is read and written: reversed in place."""
    x = np.arange(6.0)
    (i,) = axes(6)
    buffer = param(0, x.dtype, 6)
    value = load(buffer, index((i, -1), offset=5))
    kernel = Kernel((i,), (Store(0, i, value),), specs([], [x]))
    (got,) = run(Interpreter(), kernel, [], [x])
    np.testing.assert_array_equal(got, x[::-1])


def test_slots_that_overlap_are_read_before_they_are_written() -> None:
    """Two outputs; the first one's memory is that of the input of the second."""
    f64, (i,) = dtypes.float64, axes(4)
    value = load(param(0, f64, 4), i)
    stores = (Store(1, i, ew.neg(value)), Store(2, i, value))
    buffers = (
        BufferSpec(f64, 4, False), BufferSpec(f64, 4, True), BufferSpec(f64, 4, True),
    )  # fmt: skip
    kernel = Kernel((i,), stores, buffers)
    slots = (
        Slot(f64, (4,), "input", 0), Slot(f64, (4,), "arena", 0),
        Slot(f64, (4,), "output", 0), Slot(f64, (4,), "arena", 0),
    )  # fmt: skip
    info = KernelInfo("test", (), 4, 96)
    steps = (copy_slot(f64, 4, 0, 1), RunKernel(kernel, (1, 3, 2), info))
    device = Interpreter()
    executable = device.compile(Program(slots, steps, (0,), (2,), 128))
    x = np.arange(4.0)
    (result,) = executable([device.copy_in(x)])
    np.testing.assert_array_equal(device.copy_out(result, f64, 4), x)


def test_input_handed_through_is_its_own_buffer() -> None:
    slots = (Slot(dtypes.float32, (3,), "input", 0),)
    device = Interpreter()
    buffer = device.copy_in(np.zeros(3, np.float32))
    executable = device.compile(Program(slots, (), (0,), (0,), 0))
    assert executable([buffer]) == [buffer]


def test_memory_is_shared_with_numpy() -> None:
    device = Interpreter()
    x = np.arange(6.0).reshape(2, 3)
    assert np.shares_memory(device.copy_out(device.copy_in(x), x.dtype, 6), x)
    assert not np.shares_memory(device.copy_in(x.T).memory, x)


def test_kernels_are_planned_once_and_counted() -> None:
    device = Interpreter()
    case = samples.broadcast_case()
    program = make_program(case.kernel)
    executable = device.compile(program)
    device.compile(make_program(replace(case.kernel)))
    executable([device.copy_in(x) for x in (*case.inputs, *case.outputs)])
    counters = device.counters
    assert (counters.kernels_compiled, counters.kernels_cached) == (1, 1)
    assert (counters.kernels_run, counters.operations, counters.bytes) == (1, 1, 1)
    assert executable.sources == (str(case.kernel),)


def test_fma_is_a_product_and_a_sum() -> None:
    from ftrace.lower.kernel.ir import fma_p
    from ftrace.trace.graph import make_node

    x = np.arange(4.0)

    def fma(a: Any) -> Any:
        return make_node(fma_p, a.aval, (a, a, const(1, a.dtype)))  # type: ignore[arg-type]

    kernel, outputs = elementwise_kernel(fma, [x], x.dtype)
    (got,) = run(Interpreter(), kernel, [x], outputs)
    np.testing.assert_array_equal(got, x * x + 1)


def test_masked_load_is_zero_beside_what_it_reads() -> None:
    """Windows that slide over rows."""
    size = 20
    x = np.random.default_rng(0).standard_normal((6, size))
    i, j, k = axes(6, 3, size)
    row = ew.sub(ew.add(i, j), integer(1))
    valid = ew.bit_and(ew.ge(row, integer(0)), ew.lt(row, integer(6)))
    value = load(param(0, x.dtype, x.size), index((row, size), (k, 1)), valid)
    out = np.ones((6, 3, size))
    store = Store(1, index((i, 3 * size), (j, size), (k, 1)), value)
    kernel = Kernel((i, j, k), (store,), specs([x], [out]))
    (got,) = run(Interpreter(), kernel, [x], [out])
    padded = np.pad(x, ((1, 1), (0, 0)))
    for shift in range(3):
        np.testing.assert_array_equal(got[:, shift], padded[shift : shift + 6])


@pytest.mark.parametrize("op", ["add", "mul", "max", "min"])
def test_reduces_of_a_few_elements_are_exact(op: str) -> None:
    x = np.random.default_rng(0).standard_normal((40, 5, 2, 3)).astype(np.float16)
    (i, j), ranges = axes(40, 5), reduced(2, 3)
    at = index((i, 30), (j, 6), (ranges[0], 3), (ranges[1], 1))
    total = reduce(op, load(param(0, x.dtype, x.size), at), ranges)
    store = Store(1, index((i, 5), (j, 1)), total)
    out = np.zeros((40, 5), np.float16)
    (got,) = run(Interpreter(), Kernel((i, j), (store,), specs([x], [out])), [x], [out])
    ufunc = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[
        op
    ]
    wanted = ufunc.reduce(x.reshape(40, 5, 6).astype(np.float64), axis=2)
    np.testing.assert_allclose(got, wanted, rtol=2e-3, atol=1e-3)
