"""A kernel as LLVM IR for a processor: `render`.

    kernel -> place() -> Tiling -> Nest -> text

The text is a module with one function, `void name(ptr buffers, i64 begin, i64 end)`,
that runs a part of the kernel's parallel domain. What it computes does not depend on
how the domain is split.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ftrace.devices.llvm.contraction import (
    Contraction,
    find_contraction,
    is_worthwhile,
)
from ftrace.devices.llvm.facts import Facts
from ftrace.devices.llvm.nest import Nest, fused_products
from ftrace.devices.llvm.product import Product
from ftrace.devices.llvm.staging import Stage
from ftrace.devices.llvm.target import Target
from ftrace.devices.llvm.tiling import Chooser
from ftrace.devices.llvm.turned import Turned, find_turned, render_turned
from ftrace.devices.llvm.values import Values
from ftrace.devices.llvm.writer import Writer
from ftrace.lower.kernel import Kernel, axis_of
from ftrace.lower.place import place

#: Operations of elements that pay for waking another thread.
_WORTH_A_THREAD = 40_000


@dataclass(frozen=True)
class Rendered:
    """The code of a kernel.

    Attributes:
      text: LLVM IR.
      parallel: how many units its domain has.
      grain: how many units are worth a thread's while.
    """

    text: str
    parallel: int
    grain: int


def render(kernel: Kernel, target: Target, name: str) -> Rendered:
    """The code of a legal kernel (see `lower/legalize.py`), as function `name`."""
    block = place(kernel)
    roots = [e for store in kernel.stores for e in store.expressions]
    facts = Facts([*roots, *kernel.axes])
    plan = find_contraction(kernel, block, facts)
    if plan is not None and is_worthwhile(plan, facts, target):
        return _render_staged(kernel, facts, target, name, plan)
    turned = find_turned(kernel, facts)
    if turned is not None:
        return _render_staged(kernel, facts, target, name, turned)
    tiling = Chooser(kernel, block, facts, target).choose()
    writer = Writer()
    values = Values(writer, facts, target, kernel.buffers)
    nest = Nest(values, tiling, fused_products(kernel, target))
    units = 1
    if tiling.parallel:
        units = nest.parallel()
    else:
        nest.block(block)
    worth = max(_WORTH_A_THREAD, 8 * tiling.setup_operations)
    grain = -(-worth * units // tiling.operations)
    return Rendered(_module(writer, target, name), units, max(grain, 1))


def _render_staged(
    kernel: Kernel, facts: Facts, target: Target, name: str, plan: Contraction | Turned
) -> Rendered:
    """A kernel that runs block by block, in parts."""
    writer = Writer()
    values = Values(writer, facts, target, kernel.buffers)
    stage = Stage(kernel, target, facts, values)
    nodes = kernel.nodes
    if isinstance(plan, Contraction):
        units = Product(plan, stage).emit()
        ranges = [*kernel.axes, *plan.ranges]
        each = 2
    else:
        units = render_turned(plan, stage)
        ranges = [*kernel.axes]
        each = len(nodes)
    operations = each * prod(axis_of(r).size for r in ranges)
    grain = max(-(-_WORTH_A_THREAD * units // operations), 1)
    return Rendered(_module(writer, target, name), units, grain)


def _module(writer: Writer, target: Target, name: str) -> str:
    return f'target triple = "{target.triple}"\n{writer.function(name)}'

