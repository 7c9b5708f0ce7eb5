"""Kernels written by hand, and how to run one on a device: shared by device tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.backends.base import Device
from ftrace.lower.kernel.ir import (
    INDEX,
    BufferSpec,
    Kernel,
    KernelInfo,
    Store,
    load,
    make_range,
    param,
    reduce,
)
from ftrace.lower.program import Program, RunKernel, Slot
from ftrace.trace.graph import Node
from ftrace.trace.primitives import elementwise as ew
from ftrace.trace.primitives.primitive import PRIMITIVES, Primitive
from ftrace.trace.primitives.sources import const

Array = np.ndarray[Any, Any]

#: What processors have instructions for.
PLAIN: frozenset[str] = frozenset((
    "add", "sub", "mul", "div", "rem", "max", "min", "neg", "abs", "floor", "ceil",
    "trunc", "round", "sqrt", "fma", "eq", "ne", "lt", "le", "gt", "ge", "and", "or",
    "xor", "not", "shl", "shr", "sar", "popcount", "select", "cast", "bitcast",
    "mul_zero", "is_finite", "copy", "stop_gradient",
))  # fmt: skip


@dataclass
class Case:
    """A kernel with its arguments.

    Attributes:
      inputs: an array per buffer that is read only.
      outputs: the initial contents of each buffer that is written.
      expected: their contents after the run.
    """

    name: str
    kernel: Kernel
    inputs: list[Array]
    outputs: list[Array]
    expected: list[Array]
    tolerance: float = 0.0
    complex: bool = False
    notes: dict[str, Any] = field(default_factory=dict)


def index(*terms: tuple[Node, int], offset: int = 0) -> Node:
    """Offset + the sum of range · coefficient."""
    total = None
    for axis, coefficient in terms:
        term = axis if coefficient == 1 else ew.mul(axis, integer(coefficient))
        total = term if total is None else ew.add(total, term)
    if total is None:
        return integer(offset)
    return ew.add(total, integer(offset)) if offset else total


def integer(value: int) -> Node:
    return const(value, INDEX)


def axes(*sizes: int) -> tuple[Node, ...]:
    return tuple(make_range(i, size, False) for i, size in enumerate(sizes))


def reduced(*sizes: int, first: int = 10) -> tuple[Node, ...]:
    return tuple(make_range(first + i, size, True) for i, size in enumerate(sizes))


def specs(inputs: Sequence[Array], outputs: Sequence[Array]) -> tuple[BufferSpec, ...]:
    return tuple(
        [BufferSpec(x.dtype, x.size, False) for x in inputs]
        + [BufferSpec(x.dtype, x.size, True) for x in outputs]
    )


def make_program(kernel: Kernel) -> Program:
    """The kernel over inputs: those that it reads, then those that it overwrites."""
    numbers = range(len(kernel.buffers))
    inputs = sorted(numbers, key=lambda n: kernel.buffers[n].written)
    slots = tuple(
        Slot(spec.dtype, (spec.size,), "input", inputs.index(n))
        for n, spec in enumerate(kernel.buffers)
    )
    step = RunKernel(kernel, tuple(numbers), KernelInfo("test", (), 1, 1))
    outputs = tuple(n for n in numbers if kernel.buffers[n].written)
    return Program(slots, (step,), tuple(inputs), outputs, 0)


def copy_slot(dtype: Any, size: int, source: int, target: int) -> RunKernel:
    """A step that copies one slot to another."""
    (i,) = axes(size)
    store = Store(1, i, load(param(0, dtype, size), i))
    buffers = BufferSpec(dtype, size, False), BufferSpec(dtype, size, True)
    info = KernelInfo("copy", (), 0, 2 * size * dtype.itemsize)
    return RunKernel(Kernel((i,), (store,), buffers), (source, target), info)


def run(
    device: Device, kernel: Kernel, inputs: Sequence[Array], outputs: Sequence[Array]
) -> list[Array]:
    """The contents of the written buffers after one run."""
    program = make_program(kernel)
    executable = device.compile(program)
    buffers = [device.copy_in(np.array(x)) for x in (*inputs, *outputs)]
    results = executable(buffers)
    device.synchronize()
    return [
        np.array(device.copy_out(b, x.dtype, x.size)).reshape(x.shape)
        for b, x in zip(results, outputs, strict=True)
    ]


def elementwise_kernel(
    function: Any, inputs: Sequence[Array], result: np.dtype[Any]
) -> tuple[Kernel, list[Array]]:
    """`function` of the elements of arrays of one size; and the empty output."""
    (i,) = axes(inputs[0].size)
    values = [load(param(n, x.dtype, x.size), i) for n, x in enumerate(inputs)]
    output = np.zeros(inputs[0].size, result)
    store = Store(len(inputs), i, function(*values))
    return Kernel((i,), (store,), specs(inputs, [output])), [output]


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


def _floats(*shape: int) -> Array:
    return _rng().standard_normal(shape).astype(np.float32)


def broadcast_case() -> Case:
    """out[i, j] = x[i]·2 + y[j]."""
    x, y, out = _floats(5), _floats(7), np.zeros((5, 7), np.float32)
    i, j = axes(5, 7)
    a, b = load(param(0, x.dtype, 5), i), load(param(1, y.dtype, 7), j)
    value = ew.add(ew.mul(a, const(2, x.dtype)), b)
    store = Store(2, index((i, 7), (j, 1)), value)
    kernel = Kernel((i, j), (store,), specs([x, y], [out]))
    return Case("broadcast", kernel, [x, y], [out], [x[:, None] * 2 + y])


def transpose_case() -> Case:
    """out[i, j] = x[j, i], stored backwards."""
    x, out = _floats(6, 4), np.zeros((4, 6), np.float32)
    i, j = axes(4, 6)
    value = load(param(0, x.dtype, 24), index((j, 4), (i, 1)))
    store = Store(1, index((i, -6), (j, -1), offset=23), value)
    kernel = Kernel((i, j), (store,), specs([x], [out]))
    return Case("transpose", kernel, [x], [out], [x.T[::-1, ::-1]])


def pad_case() -> Case:
    """out[i] = x[i - 2] where 2 <= i < 7, zero elsewhere."""
    x, out = _floats(5), np.ones(10, np.float32)
    (i,) = axes(10)
    valid = ew.bit_and(ew.ge(i, integer(2)), ew.lt(i, integer(7)))
    value = load(param(0, x.dtype, 5), ew.sub(i, integer(2)), valid)
    kernel = Kernel((i,), (Store(1, i, value),), specs([x], [out]))
    return Case("pad", kernel, [x], [out], [np.pad(x, (2, 3))])


def masked_store_case() -> Case:
    """Only every third element is stored."""
    x, out = _floats(12), np.ones(12, np.float32)
    (i,) = axes(12)
    valid = ew.eq(ew.rem(i, integer(3)), integer(0))
    value = load(param(0, x.dtype, 12), i)
    kernel = Kernel((i,), (Store(1, i, value, valid),), specs([x], [out]))
    expected = np.where(np.arange(12) % 3 == 0, x, 1).astype(np.float32)
    return Case("masked_store", kernel, [x], [out], [expected])


def gather_case() -> Case:
    """out[i, j] = x[at[i], j]."""
    x, at = _floats(6, 3), np.array([5, 0, 5, 2], np.int32)
    out = np.zeros((4, 3), np.float32)
    i, j = axes(4, 3)
    row = ew.cast(load(param(1, at.dtype, 4), i), INDEX)
    value = load(param(0, x.dtype, 18), ew.add(ew.mul(row, integer(3)), j))
    kernel = Kernel(
        (i, j), (Store(2, index((i, 3), (j, 1)), value),), specs([x, at], [out])
    )
    return Case("gather", kernel, [x, at], [out], [x[at]])


def rows_case() -> Case:
    """Row sums and row maxima in one loop, stored by one kernel."""
    x = _floats(9, 37)
    sums, tops = np.zeros(9, np.float32), np.zeros(9, np.float32)
    (i,), (r,) = axes(9), reduced(37)
    value = load(param(0, x.dtype, x.size), index((i, 37), (r, 1)))
    stores = (
        Store(1, i, reduce("add", value, (r,))),
        Store(2, i, reduce("max", value, (r,))),
    )
    kernel = Kernel((i,), stores, specs([x], [sums, tops]))
    return Case("rows", kernel, [x], [sums, tops], [x.sum(1), x.max(1)], 1e-5)


def columns_case() -> Case:
    """Sums along the first axis."""
    x, out = _floats(130, 17), np.zeros(17, np.float32)
    (i,), (r,) = axes(17), reduced(130)
    value = load(param(0, x.dtype, x.size), index((r, 17), (i, 1)))
    kernel = Kernel((i,), (Store(1, i, reduce("add", value, (r,))),), specs([x], [out]))
    return Case("columns", kernel, [x], [out], [x.sum(0)], 1e-5)


def full_sum_case() -> Case:
    """No axes at all: the sum of everything, and of a value that does not vary."""
    x, out = _floats(11, 13), np.zeros(2, np.float32)
    r, s = reduced(11, 13)
    value = load(param(0, x.dtype, x.size), index((r, 13), (s, 1)))
    one = const(1, x.dtype)
    stores = (
        Store(1, integer(0), reduce("add", value, (r, s))),
        Store(1, integer(1), reduce("add", one, (r, s))),
    )
    kernel = Kernel((), stores, specs([x], [out]))
    expected = np.array([x.sum(), x.size], np.float32)
    return Case("full_sum", kernel, [x], [out], [expected], 1e-5)


def empty_reduce_case() -> Case:
    """A reduce over nothing is its identity."""
    out = np.ones(6, np.float32)
    (i,), (r,) = axes(3), reduced(0)
    value = ew.cast(r, dtypes.float32)
    stores = (
        Store(0, i, reduce("mul", value, (r,))),
        Store(0, index((i, 1), offset=3), reduce("max", value, (r,))),
    )
    kernel = Kernel((i,), stores, specs([], [out]))
    expected = np.array([1, 1, 1, *[-np.inf] * 3], np.float32)
    return Case("empty_reduce", kernel, [], [out], [expected])


def softmax_case(rows: int = 5, columns: int = 50) -> Case:
    """A row kernel: two reduces, then an axis that runs over the row again."""
    x, out = _floats(rows, columns) * 4, np.zeros((rows, columns), np.float32)
    i, j = axes(rows, columns)
    r, s = reduced(columns, columns)
    buffer = param(0, x.dtype, x.size)

    def at(column: Node) -> Node:
        return load(buffer, index((i, columns), (column, 1)))

    top = reduce("max", at(r), (r,))
    total = reduce("add", ew.exp(ew.sub(at(s), top)), (s,))
    value = ew.div(ew.exp(ew.sub(at(j), top)), total)
    kernel = Kernel(
        (i, j), (Store(1, index((i, columns), (j, 1)), value),), specs([x], [out])
    )
    shifted = np.exp(x - x.max(1, keepdims=True))
    expected = shifted / shifted.sum(1, keepdims=True)
    return Case("softmax", kernel, [x], [out], [expected], 1e-6)


def matmul_case(m: int = 33, n: int = 29, k: int = 70, dtype: Any = np.float32) -> Case:
    """A @ b, with a bias and a rectifier on the result."""
    a, b, c = _floats(m, k), _floats(k, n), _floats(n)
    if np.dtype(dtype).kind in "iu":
        a, b, c = [np.round(5 * x) for x in (a, b, c)]
    a, b, c = [x.astype(dtype) for x in (a, b, c)]
    out = np.zeros((m, n), dtype)
    i, j = axes(m, n)
    (r,) = reduced(k)
    x = load(param(0, a.dtype, a.size), index((i, k), (r, 1)))
    y = load(param(1, b.dtype, b.size), index((r, n), (j, 1)))
    total = reduce("add", ew.mul(x, y), (r,))
    value = ew.add(total, load(param(2, c.dtype, n), j))
    value = ew.maximum(value, const(0, a.dtype))
    kernel = Kernel(
        (i, j), (Store(3, index((i, n), (j, 1)), value),), specs([a, b, c], [out])
    )
    wide = np.float64 if np.dtype(dtype).kind not in "iuc" else dtype
    product = a.astype(wide) @ b.astype(wide) + c.astype(wide)
    expected = np.maximum(product, 0).astype(dtype)
    tolerance = {2: 0.04, 4: 1e-5, 8: 1e-12}[np.dtype(dtype).itemsize]
    return Case(
        f"matmul_{np.dtype(dtype).name}",
        kernel,
        [a, b, c],
        [out],
        [expected],
        tolerance,
    )


def batched_matmul_case(batch: int = 3, m: int = 9, n: int = 20, k: int = 17) -> Case:
    """a[b] @ t[b].T: an axis that both operands have."""
    a, t = _floats(batch, m, k), _floats(batch, n, k)
    out = np.zeros((batch, m, n), np.float32)
    h, i, j = axes(batch, m, n)
    (r,) = reduced(k)
    x = load(param(0, a.dtype, a.size), index((h, m * k), (i, k), (r, 1)))
    y = load(param(1, t.dtype, t.size), index((h, n * k), (j, k), (r, 1)))
    total = reduce("add", ew.mul(x, y), (r,))
    at = index((h, m * n), (i, n), (j, 1))
    kernel = Kernel((h, i, j), (Store(2, at, total),), specs([a, t], [out]))
    return Case(
        "batched_matmul", kernel, [a, t], [out], [a @ t.transpose(0, 2, 1)], 1e-5
    )


def convolution_case(
    n: int = 2, c: int = 3, o: int = 4, h: int = 6, w: int = 7, k: int = 3
) -> Case:
    """A padded convolution: a masked load, three ranges to sum over."""
    x, f = _floats(n, c, h, w), _floats(o, c, k, k)
    out = np.zeros((n, o, h, w), np.float32)
    b, q, y, z = axes(n, o, h, w)
    s, u, v = reduced(c, k, k)
    row = ew.sub(ew.add(y, u), integer(k // 2))
    column = ew.sub(ew.add(z, v), integer(k // 2))
    valid = None
    for place, size in ((row, h), (column, w)):
        inside = ew.bit_and(ew.ge(place, integer(0)), ew.lt(place, integer(size)))
        valid = inside if valid is None else ew.bit_and(valid, inside)
    at = index((b, c * h * w), (s, h * w), (row, w), (column, 1))
    pixel = load(param(0, x.dtype, x.size), at, valid)
    weight = load(
        param(1, f.dtype, f.size), index((q, c * k * k), (s, k * k), (u, k), (v, 1))
    )
    total = reduce("add", ew.mul(pixel, weight), (s, u, v))
    store = Store(2, index((b, o * h * w), (q, h * w), (y, w), (z, 1)), total)
    kernel = Kernel((b, q, y, z), (store,), specs([x, f], [out]))
    padded = np.pad(x, ((0, 0), (0, 0), (k // 2, k // 2), (k // 2, k // 2)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (k, k), (2, 3))
    expected = np.einsum("bcyxuv,ocuv->boyx", windows, f)
    return Case("convolution", kernel, [x, f], [out], [expected], 1e-5)


def scatter_case(combine: str = "add") -> Case:
    """out[at[i], j] combined with x[i, j], in order; some indices are out of bounds."""
    x, at = _floats(8, 3), np.array([1, 4, 1, -1, 0, 4, 9, 4], np.int64)
    out = np.full((5, 3), 0.5, np.float32)
    i, j = axes(8, 3)
    row = load(param(1, at.dtype, 8), i)
    valid = ew.bit_and(ew.ge(row, integer(0)), ew.lt(row, integer(5)))
    value = load(param(0, x.dtype, x.size), index((i, 3), (j, 1)))
    place = ew.add(ew.mul(row, integer(3)), j)
    store = Store(2, place, value, valid, combine)
    kernel = Kernel((i, j), (store,), specs([x, at], [out]), frozenset((0,)))
    expected = out.copy()
    for number, target in enumerate(at):
        if 0 <= target < 5:
            old = expected[target]
            expected[target] = {
                "": lambda o, v: v, "add": np.add, "mul": np.multiply,
                "min": np.minimum, "max": np.maximum,
            }[combine](old, x[number])  # fmt: skip
    return Case(f"scatter_{combine or 'set'}", kernel, [x, at], [out], [expected])


def repeated_scatter_case() -> Case:
    """An update that does not depend on the ordered axis counts in each iteration."""
    out = np.zeros(2, np.int32)
    (i,) = axes(5)
    store = Store(0, integer(1), const(1, out.dtype), None, "add")
    kernel = Kernel((i,), (store,), specs([], [out]), frozenset((0,)))
    return Case("repeated_scatter", kernel, [], [out], [np.array([0, 5], np.int32)])


def complex_case() -> Case:
    """out[i] = the sum over j of conj(x[i, j])·y[j]."""
    rng = _rng()
    x = (rng.standard_normal((4, 6)) + 1j * rng.standard_normal((4, 6))).astype(
        np.complex64
    )
    y = (rng.standard_normal(6) + 1j * rng.standard_normal(6)).astype(np.complex64)
    out = np.zeros(4, np.complex64)
    (i,), (r,) = axes(4), reduced(6)
    a = ew.conj(load(param(0, x.dtype, 24), index((i, 6), (r, 1))))
    b = load(param(1, y.dtype, 6), r)
    total = reduce("add", ew.mul(a, b), (r,))
    kernel = Kernel((i,), (Store(2, i, total),), specs([x, y], [out]))
    return Case("complex", kernel, [x, y], [out], [x.conj() @ y], 1e-5, complex=True)


def nested_reduce_case() -> Case:
    """The maximum over rows of the row sums: a reduce inside a reduce."""
    x, out = _floats(3, 6, 8), np.zeros(3, np.float32)
    (i,) = axes(3)
    r, s = reduced(6, 8)
    value = load(param(0, x.dtype, x.size), index((i, 48), (r, 8), (s, 1)))
    total = reduce("max", reduce("add", value, (s,)), (r,))
    kernel = Kernel((i,), (Store(1, i, total),), specs([x], [out]))
    return Case("nested_reduce", kernel, [x], [out], [x.sum(2).max(1)], 1e-5)


def mean_shift_case() -> Case:
    """Layer normalisation's shape: mean, then variance about it, then the row."""
    rows, columns = 6, 40
    x, out = _floats(rows, columns), np.zeros((rows, columns), np.float32)
    i, j = axes(rows, columns)
    r, s = reduced(columns, columns)
    share = const(1 / columns, x.dtype)

    def centred(column: Node) -> Node:
        element = load(param(0, x.dtype, x.size), index((i, columns), (column, 1)))
        return ew.sub(element, mean)

    first = load(param(0, x.dtype, x.size), index((i, columns), (r, 1)))
    mean = ew.mul(reduce("add", first, (r,)), share)
    square = ew.mul(centred(s), centred(s))
    variance = ew.mul(reduce("add", square, (s,)), share)
    value = ew.mul(centred(j), ew.rsqrt(ew.add(variance, const(1e-5, x.dtype))))
    kernel = Kernel(
        (i, j), (Store(1, index((i, columns), (j, 1)), value),), specs([x], [out])
    )
    mu = x.mean(1, keepdims=True)
    expected = (x - mu) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    return Case("layer_norm", kernel, [x], [out], [expected], 1e-5)


def cases() -> list[Case]:
    return [
        broadcast_case(), transpose_case(), pad_case(), masked_store_case(),
        gather_case(), rows_case(), columns_case(), full_sum_case(),
        empty_reduce_case(), softmax_case(), nested_reduce_case(), mean_shift_case(),
        matmul_case(), matmul_case(dtype=np.float64), matmul_case(dtype=np.int32),
        matmul_case(dtype=np.float16), batched_matmul_case(), convolution_case(),
        *[scatter_case(kind) for kind in ("", "add", "mul", "min", "max")],
        repeated_scatter_case(), complex_case(),
    ]  # fmt: skip


def elementwise_records() -> list[Primitive]:
    """The primitives that compute one element of one or more.

    `widened` is gone before kernels are made (`trace/calls/inline.py`).
    """
    families = ("unary", "binary", "compare", "select", "identity")
    records = [r for r in PRIMITIVES.values() if r.family in families]
    return [r for r in records if r.name != "widened"]


def arity(record: Primitive) -> int:
    return {"unary": 1, "identity": 1, "binary": 2, "compare": 2, "select": 3}[
        record.family
    ]
