"""The interpreter: programs run kernel by kernel in NumPy, the second oracle.

It compiles nothing and decomposes nothing: a primitive of a kernel is its record's
NumPy meaning. What it shares with the other devices is all of lowering, so that a
result that differs from the graph's evaluation is a fault of lowering, and one that
differs from this device's is a fault of a renderer.

In a kernel every range is one NumPy axis. A value is an array with an axis for each
range that it depends on and for no other, in the order of the loops; operands are
broadcast to each other where they meet. A load indexes the buffer, a reduce is a
ufunc's `reduce` over the axes of its ranges, and when all values are known they are
stored. The sum of a product over ranges of both its factors is a matrix product: the
product itself is never stored.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.backends.base import Device, Executable, executable_of, time_block
from ftrace.backends.debug_report import report_compiled
from ftrace.backends.host_executor import DrivenProgram, Driver
from ftrace.errors import GraphError
from ftrace.ground.fork_safe import free_after_fork
from ftrace.ground.tables import Table
from ftrace.lower.kernel import ir
from ftrace.lower.program import Program, RunKernel
from ftrace.trace.arrays.buffer import FENCED, Buffer, HostAllocator, allocate_fenced
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Node, walk
from ftrace.trace.primitives import elementwise as p, reduction as red
from ftrace.trace.primitives.indexing import UFUNCS
from ftrace.trace.primitives.numpy_sums import PreparedProduct, sum_along
from ftrace.trace.primitives.primitive import Array, Primitive
from ftrace.trace.primitives.sources import dim_p
from ftrace.trace.symbolic import Sizes, evaluate

#: Plans that are cached for the next program with the same kernel.
PLANS_CACHED = 4096
#: What a plan weighs, roughly, for each node of its kernel, which it keeps.
NODE_BYTES = 1500


class Interpreter(Device):
    """NumPy on the host."""

    name = "interpreter"
    host = True

    def __init__(self, number: int = 0) -> None:
        super().__init__(number)
        self.allocator = HostAllocator(self)
        self._plans: Table[ir.Kernel, KernelPlan] = Table(PLANS_CACHED)
        self._lock = free_after_fork(threading.Lock())

    def copy_in(self, array: Array) -> Buffer:
        memory: Any = np.ascontiguousarray(array)
        memory = memory.reshape(-1)
        return Buffer(self, memory, memory.nbytes)

    def copy_out(self, buffer: Buffer, dtype: np.dtype[Any], size: int) -> Array:
        return _bytes(buffer)[: size * dtype.itemsize].view(dtype)

    def compile(self, program: Program) -> Executable:
        with time_block(self.counters, "compile_seconds"), self._lock:
            plans = [self._plan(step) for step in program.kernels]

        make = partial(InterpretedProgram, self, plans)
        return executable_of(make, program, partial(_texts, program))

    def _plan(self, step: RunKernel) -> KernelPlan:
        plan = self._plans.get(step.kernel)
        if plan is not None:
            self.counters.kernels_cached += 1
            return plan
        start = time.perf_counter()
        plan = KernelPlan(step.kernel)
        self._plans.put(step.kernel, plan, NODE_BYTES * len(step.kernel.nodes))
        self.counters.kernels_compiled += 1
        report_compiled(self.name, step, time.perf_counter() - start, "")
        return plan


class InterpretedProgram(DrivenProgram):
    """A program, for certain sizes, with the plan of each of its kernels."""

    def __init__(
        self,
        device: Interpreter,
        plans: Sequence[KernelPlan],
        program: Program,
        sizes: Sizes,
    ) -> None:
        found = dict(zip(program.kernels, plans, strict=True))
        super().__init__(device, program, InterpreterDriver(device, found, sizes))
        self.texts = partial(_texts, program)

    def memory_of(self, buffer: Buffer, nbytes: int) -> Array:
        return _bytes(buffer)[:nbytes]


class InterpreterDriver(Driver):
    """Memories are NumPy arrays of bytes."""

    name = "interpreter"

    def __init__(
        self, device: Interpreter, plans: dict[RunKernel, KernelPlan], sizes: Sizes
    ) -> None:
        super().__init__()
        self.device = device
        self.counters = device.counters
        self.plans = plans
        self.sizes = sizes

    def run_kernel(self, step: RunKernel, memories: list[Array]) -> None:
        given = [memories[s] for s in step.slots]
        Evaluation(self.plans[step], given, self.sizes).run()

    def copy(
        self, source: Array, first: int, target: Array, to: int, nbytes: int
    ) -> None:
        target[to : to + nbytes] = source[first : first + nbytes]

    def read(self, memory: Array, dtype: np.dtype[Any], size: int) -> Array:
        return memory[: size * dtype.itemsize].view(dtype)

    def write(self, memory: Array, array: Array) -> None:
        memory[: array.nbytes] = array.reshape(-1).view(np.uint8)

    def allocate(self, nbytes: int) -> Array:
        return allocate_fenced(nbytes) if FENCED else np.empty(nbytes, np.uint8)

    def place_arena(self, program: Program) -> tuple[dict[int, Array], Any]:
        slots = {number: program.slots[number] for number in program.in_arena}
        if FENCED:
            return {n: self.allocate(slot.nbytes) for n, slot in slots.items()}, None
        arena = self.device.allocate(program.arena)
        memory = _bytes(arena)
        parts = {
            n: memory[s.position : s.position + s.nbytes] for n, s in slots.items()
        }
        return parts, arena


def _texts(program: Program) -> list[str]:
    return [str(step.kernel) for step in program.kernels]


def _bytes(buffer: Buffer) -> Array:
    return buffer.memory.view(np.uint8)


# A kernel evaluated in NumPy: the meaning of its loops, as directly as NumPy says it.

Ranges = tuple[Node, ...]


class KernelPlan:
    """What is known of a kernel before it runs.

    Attributes:
      kernel: what it evaluates.
      ranges: for each value its ranges, which are the axes of its array.
      contractions: the reduces that are done as matrix products.
      order: what is computed, sources first: no product of a contraction.
    """

    def __init__(self, kernel: ir.Kernel) -> None:
        self.kernel = kernel
        free = ir.free_ranges(kernel.roots)
        loops = dict.fromkeys(kernel.axes)
        for node in kernel.nodes:
            if node.op is ir.reduce_p:
                loops.update(dict.fromkeys(node.src[1:]))
        places = {loop: place for place, loop in enumerate(loops)}
        self.ranges = {
            node: tuple(sorted(free[node], key=places.__getitem__))
            for node in kernel.nodes
        }
        self.contractions = set(filter(self._is_contraction, kernel.nodes))

        def below(node: Node) -> Sequence[Node]:
            if node not in self.contractions:
                return node.src
            product, *ranges = node.src
            return (*product.src, *ranges)

        needed = set(walk(kernel.roots, below))
        nodes = [node for node in kernel.nodes if node.op is not ir.param_p]
        self.order = [node for node in nodes if node in needed]

    def _is_contraction(self, node: Node) -> bool:
        """Is it a sum of a product that is larger than both of its operands?"""
        value = ir.product_of(node, (p.mul, p.mul_zero))
        if value is None or value.dtype == dtypes.bool_:
            return False
        size, closed = len(self.ranges[value]), set(node.src[1:])
        return all(
            closed <= set(self.ranges[s]) and len(self.ranges[s]) < size
            for s in value.src
        )

    def ranges_of(self, store: ir.Store) -> Ranges:
        """The loops around a store; one that combines runs in every ordered loop."""
        needed = {r for e in store.expressions for r in self.ranges[e]}
        if store.combine:
            needed |= self.kernel.ordered_axes
        return tuple(axis for axis in self.kernel.axes if axis in needed)


class Evaluation:
    """One run of a kernel on the bytes of its buffers.

    Args:
      plan: of the kernel.
      memories: for each buffer its bytes, as an array of uint8.
      sizes: of the dynamic dimensions.
    """

    def __init__(
        self, plan: KernelPlan, memories: Sequence[Array], sizes: Sizes
    ) -> None:
        self.plan = plan
        self.sizes = sizes
        self.buffers = [
            memory[: evaluate(spec.size, sizes) * spec.dtype.itemsize].view(spec.dtype)
            for memory, spec in zip(memories, plan.kernel.buffers, strict=True)
        ]
        self.values: dict[Node, Array] = {}

    def run(self) -> None:
        with np.errstate(all="ignore"):
            for node in self.plan.order:
                self.values[node] = self._evaluate(node)
            for store in self.plan.kernel.stores:
                self._store(store)

    # Values.

    def _size(self, range_: Node) -> int:
        return evaluate(ir.axis_of(range_).size, self.sizes)

    def _shape(self, ranges: Ranges) -> tuple[int, ...]:
        return tuple(map(self._size, ranges))

    def _value(self, node: Node, ranges: Ranges) -> Array:
        """The value of a node with an axis, of size 1 if need be, for each range."""
        value, have = self.values[node], self.plan.ranges[node]
        if have == ranges or not have:
            return value
        return value[tuple(slice(None) if r in have else None for r in ranges)]

    def _evaluate(self, node: Node) -> Array:
        if node.op is ir.range_p:
            return np.arange(self._size(node), dtype=ir.INDEX)
        if node.op is dim_p:
            return np.asarray(evaluate(node.arg, self.sizes), ir.INDEX)
        if node.op is ir.load_p:
            return self._load(node)
        if node.op is ir.reduce_p:
            return np.asarray(self._reduce(node)).astype(node.dtype, copy=False)
        operands = [self._value(s, self.plan.ranges[node]) for s in node.src]
        if node.op is ir.fma_p:
            a, b, c = operands
            return np.asarray(a * b + c)
        record = node.op
        assert isinstance(record, Primitive), f"{node!r} has no meaning in a kernel"
        if node.op.name == "complex":  # it takes operands of one shape
            operands = list(np.broadcast_arrays(*operands))
        result = np.asarray(record.numpy(node.aval, node.arg, *operands))
        return result.astype(node.dtype, copy=False)

    # Memory.

    def _load(self, node: Node) -> Array:
        number: Any = node.src[0].arg
        buffer, ranges = self.buffers[number], self.plan.ranges[node]
        at = self._value(node.src[1], ranges)
        if len(node.src) == 2:
            return buffer[_check_bounds(node, at, buffer.size)]
        valid = self._value(node.src[2], ranges)
        if not buffer.size:
            return np.zeros(self._shape(ranges), node.dtype)
        at = _check_bounds(node, np.where(valid, at, 0), buffer.size)
        return np.where(valid, buffer[at], np.zeros((), node.dtype))

    def _store(self, store: ir.Store) -> None:
        ranges = self.plan.ranges_of(store)
        shape = self._shape(ranges)
        index, value, *valid = (
            np.broadcast_to(self._value(e, ranges), shape).ravel()
            for e in store.expressions
        )
        if valid:
            index, value = index[valid[0]], value[valid[0]]
        buffer = self.buffers[store.buffer]
        index = _check_bounds(store.value, index, buffer.size)
        if store.combine:
            UFUNCS[store.combine].at(buffer, index, value)
        else:
            buffer[index] = value

    # Reduces.

    def _reduce(self, node: Node) -> Array:
        value, *closed = node.src
        if 0 in map(self._size, closed):
            shape = self._shape(self.plan.ranges[node])
            return np.full(shape, red.identity_of(node.arg, node.dtype), node.dtype)
        dtype = _accumulator(node)
        if node in self.plan.contractions:
            if value.op is p.mul or all(
                np.isfinite(self.values[s]).all() for s in value.src
            ):
                return self._contract(node, dtype)
            self.values[value] = self._evaluate(value)
        own = self.plan.ranges[value]
        absent = tuple(r for r in closed if r not in own)
        ranges = (*absent, *own)
        # A value that does not depend on a range counts once per iteration of it.
        array = np.broadcast_to(self._value(value, ranges), self._shape(ranges))
        axes = tuple(i for i, r in enumerate(ranges) if r in closed)
        if node.arg == "add":
            return sum_along(array, axes, dtype).squeeze(axes)
        return UFUNCS[str(node.arg)].reduce(array, axis=axes, dtype=dtype)

    def _contract(self, node: Node, dtype: np.dtype[Any]) -> Array:
        product = node.src[0]
        ranges = self.plan.ranges[product]
        shape = self._shape(ranges)
        axes = tuple(i for i, r in enumerate(ranges) if r in node.src[1:])
        kept = tuple(1 if i in axes else n for i, n in enumerate(shape))
        x, y = (self._value(s, ranges).astype(dtype, copy=False) for s in product.src)
        multiply = PreparedProduct(shape, axes, ShapedArray.of(kept, dtype))
        return multiply(x, y).squeeze(axes)


def _check_bounds(node: Node, index: Array, size: int) -> Array:
    """NumPy takes negative indices from the end; a kernel must not."""
    if index.size and (index.min() < 0 or index.max() >= size):
        raise GraphError(
            f"a kernel reaches for {index.min()} … {index.max()} of a buffer of {size} "
            "elements",
            node.origin,
        )
    return index


def _accumulator(node: Node) -> np.dtype[Any]:
    """16-bit floats are added and multiplied in 32 bits."""
    narrow = dtypes.is_half(node.dtype)
    return dtypes.float32 if narrow and node.arg in ("add", "mul") else node.dtype
