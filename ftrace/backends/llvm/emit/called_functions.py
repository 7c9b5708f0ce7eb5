"""Which functions a kernel calls, and of what they consist.

Their code is made in `kernels/function_library.py`.
"""

from __future__ import annotations

from collections import Counter
from math import prod
from typing import Final

from ftrace import dtypes
from ftrace.backends.llvm.emit.emit_memory import Values
from ftrace.backends.llvm.emit.emit_values import Opened
from ftrace.backends.llvm.emit.module import Module, module_for
from ftrace.backends.llvm.ir.symbols import Formula
from ftrace.backends.llvm.ir.writer import Type, Writer, literal
from ftrace.backends.llvm.scalar.ops import CALLED, operations_of
from ftrace.backends.llvm.schedule.index_facts import Facts
from ftrace.backends.llvm.target import Target
from ftrace.lower.kernel.ir import Kernel, KernelOp, axis_of, make_range, range_p
from ftrace.lower.legalize.legalize import decompose, formula
from ftrace.lower.legalize.term import Term
from ftrace.lower.legalize.trigonometry import far_angle
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import make_node
from ftrace.trace.symbolic import upper_bound

#: A kernel with so many uses of functions calls those that it uses several times.
MANY = 32
SEVERAL = 8
#: A call takes a nanosecond for each vector, a use that stands in the kernel two
#: milliseconds to compile: kernels of so few elements call sooner.
SMALL = 1 << 12
MANY_IN_SMALL = 4
SEVERAL_IN_SMALL = 2

_argument_p = KernelOp("argument")
_DTYPES: Final = {32: dtypes.float32, 64: dtypes.float64}


def called_in(kernel: Kernel) -> frozenset[str]:
    """Names of the operations that a kernel's code should call functions for."""
    uses = Counter(node.op.name for node in kernel.nodes if node.op.name in CALLED)
    many, several = MANY, SEVERAL
    if uses and _elements(kernel) <= SMALL:
        many, several = MANY_IN_SMALL, SEVERAL_IN_SMALL
    if uses.total() < many:
        return frozenset()
    return frozenset(name for name, count in uses.items() if count >= several)


def _elements(kernel: Kernel) -> int:
    """How often an expression of a kernel is computed at the most."""
    ranges = {node for node in kernel.nodes if node.op is range_p}
    return prod(upper_bound(axis_of(node).size) for node in ranges.union(kernel.axes))


def write_called(symbol: str, target: Target) -> Module:
    """The module of one function."""
    name, lanes, bits = Formula.of(symbol)
    dtype = _DTYPES[bits]
    aval = ShapedArray.of((), dtype)
    operands = [make_node(_argument_p, aval, (), n) for n in range(CALLED.get(name, 1))]
    terms = map(Term, operands)
    has = operations_of(target)
    if name == "far_angle":
        results = far_angle(*terms)
    else:
        results = (formula(name, has)(*terms),)
    roots = decompose([term.node for term in results], has)
    writer, lane = Writer(), make_range(0, lanes, False)
    facts = Facts([*roots, lane], dict.fromkeys(operands, frozenset((lane,))))
    values = Values(writer, facts, target, ())
    given = [f"%x{n}" for n in range(len(operands))]
    types = [Type.of(root.dtype, lanes) for root in roots]
    whole, packed = f"{{ {', '.join(map(str, types))} }}", "poison"
    with values.within(Opened(lane, literal(0), writer.level, lanes=lanes)):
        for operand, text in zip(operands, given, strict=True):
            values.put(operand, (), text)
        for number, (t, root) in enumerate(zip(types, roots, strict=True)):
            part = f"{t} {values.plain(root, lanes, ())}, {number}"
            packed = writer.here(f"insertvalue {whole} {packed}, {part}")
    parameters = ", ".join(f"{Type.of(dtype, lanes)} {x}" for x in given)
    head = f"{whole} @{symbol}({parameters}) nounwind"
    text = writer.text(head, f"{whole} {packed}")
    return module_for(target, {**writer.declared, text: ""})
