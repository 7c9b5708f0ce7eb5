"""Kernels on blocks of one size as loops over any number of elements.

    block_loop(out, left, its step, …, how many elements)

takes what the loops of `elements.py` take. What is left after whole blocks is computed
in a block of its own, which ones fill up. All lanes of a kernel compute alike, so that
an element's bits do not depend on where it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ftrace.devices.llvm.calling.lanes import WIDTHS
from ftrace.devices.llvm.compiling.compile import Code, emit_object, link
from ftrace.devices.llvm.compiling.made import CompiledKernel
from ftrace.devices.llvm.runner.function import Function
from ftrace.lower.program import Program, RunKernel
from ftrace.records import NamedTuple

_KINDS = {"float32": "float", "float64": "double"}
_NAME = "block_loop"
_KERNEL = """
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @kernel(ptr, i64, i64)
"""


class Block(NamedTuple):
    """A kernel that computes each element of a block from one of another.

    Attributes:
      address: of its function.
      units: how many it has.
      elements: of a block.
      dtype: the name of their dtype.
      source, target: which of its buffers are read and written.
    """

    address: int
    units: int
    elements: int
    dtype: str
    source: int
    target: int


def element_loop(
    program: Program, kernels: Sequence[CompiledKernel]
) -> tuple[int, Code] | None:
    """The address of the loop of a program, and what keeps it; None if it has none.

    Args:
      program: its only kernel makes each element of its output from one of its input.
      kernels: the code of its kernels.
    """
    block = _block_of(program, kernels)
    if block is None:
        return None
    text = _KERNEL + _loop(block).text
    code = link(emit_object(text), [_NAME], {"kernel": block.address})
    return code.address(_NAME), code


def _block_of(program: Program, kernels: Sequence[CompiledKernel]) -> Block | None:
    if len(program.steps) != 1 or len(program.slots) != 2 or len(kernels) != 1:
        return None
    (step,), (kernel,) = program.steps, kernels
    if not isinstance(step, RunKernel) or kernel.dims or kernel.numbers is not None:
        return None
    (source,), (target,) = program.inputs, program.outputs
    given, made = program.slots[source], program.slots[target]
    dtype: Any = made.dtype
    name: str = dtype.name
    if given.dtype != made.dtype or given.shape != made.shape or name not in _KINDS:
        return None
    order = tuple(step.slots)
    places = order.index(source), order.index(target)
    return Block(kernel.address, kernel.units, prod(made.shape), name, *places)


def _loop(block: Block) -> Function:
    parameters = ["ptr %out"]
    for side in ("left", "right", "third"):
        parameters += [f"ptr %{side}", f"i64 %from_{side}"]
    f = Function(_NAME, "void", *parameters, "i64 %count", visible=True)
    kind, many = _KINDS[block.dtype], block.elements
    width = WIDTHS[kind]
    buffers, room, found = f.place("ptr", 2), f.place(kind, many), f.place(kind, many)

    def run(source: str, target: str) -> None:
        f.set_slot(buffers, block.source, source)
        f.set_slot(buffers, block.target, target)
        f.do(f"call void @kernel(ptr {buffers}, i64 0, i64 {block.units})")

    def at(base: str, index: str | int) -> str:
        return f.let(f"getelementptr {kind}, ptr {base}, i64 {index}")

    with f.when(f.let("icmp eq i64 %from_left, 0")):  # one number for all
        number = f.load(kind, "%left")
        with f.repeat(many) as i:
            f.store(kind, number, at(room, i))
        run(room, found)
        result = f.load(kind, found)
        with f.repeat("%count") as i:
            f.do(f"store {kind} {result}, ptr {at('%out', i)}, align {width}")
        f.give()
    with f.repeat(f.let(f"udiv i64 %count, {many}")) as i:
        first = f.let(f"mul i64 {i}, {many}")
        run(at("%left", first), at("%out", first))
    rest = f.let(f"urem i64 %count, {many}")
    with f.when(f.let(f"icmp ne i64 {rest}, 0")):
        first, nbytes = (
            f.let(f"sub i64 %count, {rest}"),
            f.let(f"mul i64 {rest}, {width}"),
        )
        with f.repeat(many) as i:
            f.store(kind, "1.0", at(room, i))
        f.copy(room, at("%left", first), nbytes)
        run(room, found)
        f.copy(at("%out", first), found, nbytes)
    f.give()
    return f
