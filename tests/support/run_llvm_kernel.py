"""Kernels built by hand or of functions, and run: what tests of their code share."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

import ftrace as ft
from ftrace.backends.llvm.compile import emit_object, link
from ftrace.backends.llvm.contraction.find import Contraction, find_contraction
from ftrace.backends.llvm.kernels.function_library import addresses
from ftrace.backends.llvm.render import render
from ftrace.backends.llvm.scalar.ops import operations_of
from ftrace.backends.llvm.schedule.index_facts import Facts, facts_of
from ftrace.backends.llvm.target import Target, host_target
from ftrace.lower.kernel.ir import (
    INDEX,
    BufferSpec,
    Kernel,
    Store,
    load,
    make_range,
    param,
)
from ftrace.lower.kernel.loop_tree import build_loops
from ftrace.lower.legalize.legalize import legalize
from ftrace.trace.arrays.buffer import fenced_copy
from ftrace.trace.graph import Node
from ftrace.trace.primitives import elementwise as ew
from ftrace.trace.primitives.sources import const

Array = np.ndarray[Any, Any]


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


def inside(*places: tuple[Node, int]) -> Node:
    """Where each place is one of its axis: at least 0 and below the size."""
    checks = [
        ew.bit_and(ew.ge(place, const(0, INDEX)), ew.lt(place, const(size, INDEX)))
        for place, size in places
    ]
    return reduce(ew.bit_and, checks)


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


def legal_kernels(
    function: Any, *arrays: Any, target: Target | None = None
) -> list[Kernel]:
    """The kernels of a program, in operations that a processor has."""
    operations = operations_of(target or host_target())
    return [legalize(k, operations) for k in ft.jit(function).lower(*arrays).kernels]


def kernel_of(function: Any, *arrays: Any, target: Target | None = None) -> Kernel:
    """The only one of them."""
    (kernel,) = legal_kernels(function, *arrays, target=target)
    return kernel


def plan_of(kernel: Kernel) -> tuple[Contraction, Facts]:
    facts = facts_of(kernel)
    plan = find_contraction(kernel, build_loops(kernel), facts)
    assert plan is not None
    return plan, facts


Code = Callable[[Any, int, int], None]


def linked(kernel: Kernel, target: Target | None = None) -> tuple[Code, int]:
    """The function of a kernel, for pointers and a part of its domain; its units."""
    rendered = render(kernel, target or host_target())
    assert rendered.parallel >= 1
    assert rendered.grain >= 1
    calls = addresses(rendered.module.calls)
    code = link(emit_object(rendered.text), ("kernel",), calls)
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    function = kind(code.address("kernel"))

    def call(pointers: Any, begin: int, end: int, keep: Any = code) -> None:
        function(pointers, begin, end)

    return call, rendered.parallel


def run(
    kernel: Kernel,
    arrays: Sequence[Array],
    pieces: int = 1,
    target: Target | None = None,
) -> None:
    """Runs a kernel on arrays, in place, its domain cut in so many pieces.

    Behind a fence it has done the same: it touches nothing else, wherever they lie.
    """
    function, units = linked(kernel, target)
    copies = behind_fence(arrays)
    for places in (copies, arrays):
        pointers = (ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in places])
        count = min(pieces, units)
        for n in range(count):
            function(pointers, units * n // count, units * (n + 1) // count)
    for copy, array in zip(copies, arrays, strict=True):
        assert copy.tobytes() == array.tobytes()


def behind_fence(arrays: Sequence[Array]) -> list[Array]:
    """Copies that end where memory does; of one array there is one."""
    copies = {id(a): fenced_copy(a).reshape(a.shape) for a in arrays}
    return [copies[id(a)] for a in arrays]


def check(
    kernel: Kernel, arrays: Sequence[Array], wanted: Array, target: Target, pieces: int
) -> None:
    """A kernel that writes all of its last array, which held something else."""
    arrays[-1][...] = 77
    run(kernel, arrays, pieces, target)
    np.testing.assert_array_equal(arrays[-1], wanted)


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
