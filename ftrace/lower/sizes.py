"""Kernels for known sizes of their dynamic dimensions.

A device that compiles nothing, as the interpreter, takes kernels whose sizes are
numbers: `kernel_at` replaces every dynamic dimension by its number.
"""

from __future__ import annotations

from dataclasses import replace

from ftrace.lower.kernel import (
    INDEX,
    Kernel,
    Store,
    axis_of,
    make_range,
    param,
    param_p,
    range_p,
)
from ftrace.lower.program import Program, RunBranch, RunKernel, RunLoop, Step
from ftrace.trace.graph import Node, make_node, toposort
from ftrace.trace.primitives.source import const, dim_p
from ftrace.trace.sizes import Sizes, evaluate


def program_at(program: Program, sizes: Sizes) -> Program:
    """A program for these sizes, its kernels included."""
    return _with_kernels(program.at(sizes), sizes)


def _with_kernels(program: Program, sizes: Sizes) -> Program:
    def changed(step: Step) -> Step:
        if isinstance(step, RunKernel):
            return replace(step, kernel=kernel_at(step.kernel, sizes))
        if isinstance(step, RunLoop):
            return replace(step, body=_with_kernels(step.body, sizes))
        if isinstance(step, RunBranch):
            branches = [_with_kernels(b, sizes) for b in step.branches]
            return replace(step, branches=tuple(branches))
        return step

    return replace(program, steps=tuple(map(changed, program.steps)))


def kernel_at(kernel: Kernel, sizes: Sizes) -> Kernel:
    """A kernel for these sizes of its dynamic dimensions."""
    roots = [e for store in kernel.stores for e in store.expressions]
    new: dict[Node, Node] = {}
    for node in toposort([*roots, *kernel.axes]):
        new[node] = _node_at(node, sizes, new)
    stores = tuple(
        Store(
            store.buffer,
            new[store.index],
            new[store.value],
            None if store.valid is None else new[store.valid],
            store.combine,
        )
        for store in kernel.stores
    )
    buffers = tuple(
        replace(spec, size=evaluate(spec.size, sizes)) for spec in kernel.buffers
    )
    axes = tuple(new[axis] for axis in kernel.axes)
    return Kernel(axes, stores, buffers, kernel.ordered)


def _node_at(node: Node, sizes: Sizes, new: dict[Node, Node]) -> Node:
    if node.op is range_p:
        axis = axis_of(node)
        return make_range(axis.number, evaluate(axis.size, sizes), axis.reduced)
    if node.op is param_p:
        number: int = node.arg
        return param(number, node.dtype, evaluate(node.size, sizes))
    if node.op is dim_p:
        return const(evaluate(node.arg, sizes), INDEX)
    return make_node(node.op, node.aval, tuple([new[s] for s in node.src]), node.arg)
