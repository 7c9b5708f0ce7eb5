"""The CPU's native runner: loops, branches and host calls, in programs made by hand."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import ftrace.devices  # noqa: F401  (registers the devices)
from ftrace import dtypes, settings
from ftrace.devices.llvm.device import CPU
from ftrace.lower import lower
from ftrace.lower.memory import ALIGNMENT
from ftrace.lower.program import (
    CallHost,
    Carry,
    CopySlot,
    Program,
    RunBranch,
    RunKernel,
    RunLoop,
    Slot,
    Step,
)
from ftrace.trace.avals import Bundle, Shape, ShapedArray
from ftrace.trace.graph import Graph, Node, make_node
from ftrace.trace.primitives.broadcast import broadcast_leading
from ftrace.trace.primitives.elementwise import add, lt, mul, sub
from ftrace.trace.primitives.record import COMPOUNDS, Compound
from ftrace.trace.primitives.source import const_like, variable

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
Array = np.ndarray[Any, Any]
I64 = dtypes.int64
F32 = dtypes.float32
BOOL = dtypes.bool_


@pytest.fixture(scope="module")
def cpu() -> CPU:
    return CPU()


@pytest.fixture(autouse=True, params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Any:
    with settings.config(threads=request.param):
        yield request.param


class Assembly:
    """A program that is put together slot by slot, each with its own memory."""

    def __init__(self) -> None:
        self.slots: list[Slot] = []
        self.steps: list[Step] = []
        self.inputs: list[int] = []
        self.outputs: list[int] = []
        self.arena = 0

    def input(self, shape: Shape = (), dtype: Any = I64, stacks: int = 0) -> int:
        self.inputs.append(len(self.slots))
        place = len(self.inputs) - 1
        self.slots.append(Slot(np.dtype(dtype), shape, "input", place, "", stacks))
        return self.inputs[-1]

    def output(self, shape: Shape = (), dtype: Any = I64, stacks: int = 0) -> int:
        self.outputs.append(len(self.slots))
        place = len(self.outputs) - 1
        self.slots.append(Slot(np.dtype(dtype), shape, "output", place, "", stacks))
        return self.outputs[-1]

    def temporary(self, shape: Shape = (), dtype: Any = I64, stacks: int = 0) -> int:
        slot = Slot(np.dtype(dtype), shape, "arena", self.arena, "", stacks)
        self.slots.append(slot)
        self.arena += -(-max(slot.nbytes, 1) // ALIGNMENT) * ALIGNMENT
        return len(self.slots) - 1

    def scratch(self, *programs: Program, lanes: int = 1) -> int:
        nbytes = max(-(-p.arena // ALIGNMENT) * ALIGNMENT for p in programs)
        return self.temporary((max(nbytes * lanes, 1),), dtypes.uint8)

    def compute(self, function: Callable[..., Node], *slots: int, to: int) -> None:
        """A kernel: the slot `to` becomes `function` of the others."""
        program = kernel_of(function, *[self.slots[s] for s in slots])
        (step,) = program.steps
        assert isinstance(step, RunKernel)
        outer = dict(zip(program.inputs, slots, strict=True))
        outer[program.outputs[0]] = to
        places = tuple(outer[s] for s in step.slots)
        self.steps.append(RunKernel(step.kernel, places, step.info))

    def loop(
        self,
        body: Program,
        consts: Sequence[int] = (),
        carry: Sequence[tuple[int, int, int]] = (),
        xs: Sequence[int] = (),
        ys: Sequence[int] = (),
        length: int | None = None,
        reverse: bool = False,
        predicate: int = -1,
        parallel: bool = False,
        lanes: int = 1,
    ) -> None:
        rows = tuple(Carry(*row) for row in carry)
        scratch = self.scratch(body, lanes=lanes)
        self.steps.append(
            RunLoop(
                body,
                tuple(consts),
                rows,
                tuple(xs),
                tuple(ys),
                length,
                reverse,
                predicate,
                scratch,
                parallel,
                lanes,
            )
        )

    def branch(
        self,
        index: int,
        branches: Sequence[Program],
        operands: Sequence[int],
        results: Sequence[int],
    ) -> None:
        scratch = self.scratch(*branches)
        places = tuple(operands), tuple(results)
        self.steps.append(RunBranch(index, tuple(branches), *places, scratch))

    def host(
        self, op: Compound, operands: Sequence[int], results: Sequence[int]
    ) -> None:
        def aval(slot: int) -> ShapedArray:
            return ShapedArray.of(self.slots[slot].shape, self.slots[slot].dtype)

        src = tuple(variable(aval(s), 0, i) for i, s in enumerate(operands))
        bundle = Bundle.of_items(tuple(aval(s) for s in results))
        node = make_node(op, bundle, src, None)
        self.steps.append(CallHost(node, tuple(operands), tuple(results)))

    @property
    def program(self) -> Program:
        return Program(
            tuple(self.slots),
            tuple(self.steps),
            tuple(self.inputs),
            tuple(self.outputs),
            self.arena,
        )


def kernel_of(function: Callable[..., Any], *types: Slot) -> Program:
    """The lowered program of a function of nodes with one or several results."""
    inputs = tuple(
        variable(ShapedArray.of(t.shape, t.dtype), 0, i) for i, t in enumerate(types)
    )
    found = function(*inputs)
    outputs = tuple(found) if isinstance(found, (list, tuple)) else (found,)
    return lower(Graph(inputs, outputs)).program


def of(shape: Shape = (), dtype: Any = I64) -> Slot:
    return Slot(np.dtype(dtype), shape, "input", 0)


def plus_one(x: Node) -> Node:
    return add(x, const_like(x, 1))


def run(cpu: CPU, program: Program, *arrays: Any) -> list[Array]:
    executable = cpu.compile(program)
    return results_of(cpu, executable, arrays)


def results_of(cpu: CPU, executable: Any, arrays: Sequence[Any]) -> list[Array]:
    buffers = executable([cpu.copy_in(np.asarray(a)) for a in arrays])
    found: list[Array] = []
    program = executable.program
    for number, buffer in zip(program.outputs, buffers, strict=True):
        slot = program.slots[number]
        flat = cpu.copy_out(buffer, slot.dtype, slot.size)
        found.append(flat.copy().reshape(slot.shape))
    return found


_hosts = iter(range(1_000_000))


def host_op(function: Callable[..., Sequence[Any]], name: str = "") -> Compound:
    """A compound whose meaning is a function of arrays; it leaves no trace."""
    name = name or f"host_{next(_hosts)}"
    before = COMPOUNDS.pop(name, None)
    op = Compound(
        name, "host", lambda *_: (), lambda avals, arg, *xs: function(*xs),
        lambda *_: ([], []), no_derivative="a test",
    )  # fmt: skip
    del COMPOUNDS[name]
    if before is not None:
        COMPOUNDS[name] = before
    return op


# Carry


@pytest.mark.parametrize("length", [0, 1, 2, 3, 10, 1001])
@pytest.mark.parametrize("shape", [(), (7,), (300, 200)])
@pytest.mark.parametrize("spare", [True, False])
def test_loop_carries_a_value(cpu: CPU, length: int, shape: Shape, spare: bool) -> None:
    if length > 100 and len(shape) > 1:
        length = 101
    a = Assembly()
    x, y = a.input(shape), a.output(shape)
    other = a.temporary(shape) if spare else -1
    a.loop(kernel_of(plus_one, of(shape)), carry=[(x, y, other)], length=length)
    value = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    (found,) = run(cpu, a.program, value)
    np.testing.assert_array_equal(found, value + length)


@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 9])
def test_loop_exchanges_its_carries(cpu: CPU, length: int) -> None:
    a = Assembly()
    x, y = a.input((5,)), a.input((5,))
    p, q = a.output((5,)), a.output((5,))
    body = kernel_of(lambda x, y: [sub(y, x), add(x, y)], of((5,)), of((5,)))
    rows = [(x, p, a.temporary((5,))), (y, q, a.temporary((5,)))]
    a.loop(body, carry=rows, length=length)
    u, v = np.arange(5), np.arange(5) * 10 + 3
    found = run(cpu, a.program, u, v)
    for _ in range(length):
        u, v = v - u, u + v
    np.testing.assert_array_equal(found, [u, v])


@pytest.mark.parametrize("length", [0, 1, 2, 5, 6])
def test_carries_with_one_and_with_two_places_mix(cpu: CPU, length: int) -> None:
    a = Assembly()
    x, y = a.input((4,)), a.input((4,))
    p, q = a.output((4,)), a.output((4,))
    body = kernel_of(lambda x, y: [add(x, y), plus_one(y)], of((4,)), of((4,)))
    a.loop(body, carry=[(x, p, a.temporary((4,))), (y, q, -1)], length=length)
    u, v = np.arange(4), np.arange(4) * 7
    found = run(cpu, a.program, u, v)
    for _ in range(length):
        u, v = u + v, v + 1
    np.testing.assert_array_equal(found, [u, v])


def test_a_carry_may_begin_where_it_ends(cpu: CPU) -> None:
    a = Assembly()
    x, kept, y = a.input(), a.temporary(), a.output()
    a.steps.append(CopySlot(x, kept))
    a.loop(kernel_of(plus_one, of()), carry=[(kept, kept, -1)], length=5)
    a.steps.append(CopySlot(kept, y))
    assert run(cpu, a.program, 10) == [15]


def test_the_first_value_of_a_carry_is_not_written(cpu: CPU) -> None:
    a = Assembly()
    x, y = a.input((3,)), a.output((3,))
    a.loop(kernel_of(plus_one, of((3,))), carry=[(x, y, a.temporary((3,)))], length=4)
    value = np.arange(3)
    for _ in range(2):
        (found,) = run(cpu, a.program, value)
        np.testing.assert_array_equal(found, np.arange(3) + 4)
    np.testing.assert_array_equal(value, np.arange(3))


# While


def counting(stop: int) -> Program:
    """A body: x -> x + 1, and whether it is below `stop` then."""

    def body(x: Node) -> list[Node]:
        after = plus_one(x)
        return [after, lt(after, const_like(x, stop))]

    return kernel_of(body, of())


@pytest.mark.parametrize("spare", [True, False])
@pytest.mark.parametrize("start", [7, 6, 5, 3, 0, 9, -1000])
def test_predicate_ends_a_loop(cpu: CPU, start: int, spare: bool) -> None:
    a = Assembly()
    x, y, begins = a.input(), a.output(), a.temporary(dtype=BOOL)
    a.compute(lambda x: lt(x, const_like(x, 7)), x, to=begins)
    row = (x, y, a.temporary() if spare else -1)
    a.loop(counting(7), carry=[row], predicate=begins)
    assert run(cpu, a.program, start) == [max(start, 7)]


# Elements


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [0, 1, 2, 9])
@pytest.mark.parametrize("shape", [(), (5,)])
def test_loop_goes_over_elements(
    cpu: CPU, length: int, shape: Shape, reverse: bool
) -> None:
    """The running sum, and that plus a constant, of every element."""
    a = Assembly()
    c, x, xs = a.input(shape), a.input(shape), a.input((length, *shape))
    y, ys = a.output(shape), a.output((length, *shape))
    body = kernel_of(lambda c, x, e: [add(x, e), add(add(x, e), c)], *[of(shape)] * 3)
    row = (x, y, a.temporary(shape))
    a.loop(body, [c], [row], [xs], [ys], length, reverse)
    random = np.random.default_rng(length)
    constant, total = random.integers(-99, 99, (2, *shape))
    elements = random.integers(-99, 99, (length, *shape))
    found = run(cpu, a.program, constant, total, elements)
    wanted = np.zeros_like(elements)
    for t in range(length)[::-1] if reverse else range(length):
        total = total + elements[t]
        wanted[t] = total + constant
    np.testing.assert_array_equal(found[0], total)
    np.testing.assert_array_equal(found[1], wanted)


# Stacks


def push_then_read(shape: Shape, stop: int, reverse: bool) -> Program:
    """A while that pushes what it sees of a counter, a scan that reads it again."""
    a = Assembly()
    x, y = a.input(), a.output()
    total, begins = a.output(shape), a.temporary(dtype=BOOL)
    zero, stack = a.temporary(shape), a.temporary(shape, stacks=1)
    spare = a.temporary()
    other = a.temporary(shape)

    def body(x: Node) -> list[Node]:
        after = plus_one(x)
        twice = broadcast_leading(add(x, x), shape)
        return [after, twice, lt(after, const_like(x, stop))]

    a.compute(lambda x: lt(x, const_like(x, stop)), x, to=begins)
    a.compute(lambda x: broadcast_leading(sub(x, x), shape), x, to=zero)
    a.loop(kernel_of(body, of()), carry=[(x, y, spare)], ys=[stack], predicate=begins)
    # total -> 3 * total + element, modulo 2 ** 64: the order shows
    read = kernel_of(
        lambda t, e: add(mul(t, const_like(t, 3)), e), of(shape), of(shape)
    )
    a.loop(read, carry=[(zero, total, other)], xs=[stack], reverse=reverse)
    return a.program


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", [(), (3,), (600,)])
@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 200, 12_345])
def test_stack_keeps_what_was_pushed(
    cpu: CPU, shape: Shape, count: int, reverse: bool
) -> None:
    found = run(cpu, push_then_read(shape, count, reverse), 0)
    assert found[0] == count
    total = 0
    for t in range(count)[::-1] if reverse else range(count):
        total = (3 * total + 2 * t) % 2**64
    total -= 2**64 if total >= 2**63 else 0
    np.testing.assert_array_equal(found[1], np.full(shape, total))
