"""Functions of elements that kernels call, where they do not stand in the kernel.

    declare { <16 x i32>, … } @ftrace_far_angle_v16f32(<16 x float>)

`far_angle` is long and seldom needed. The others are those that a kernel uses many
times: its code would not fit into the processor's caches, and takes long to make.

A name tells the formula and the type of its operands, so that from the name alone the
function is made: once per process at the most, when a kernel that calls it is linked,
and mostly from the disk cache.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Iterable
from functools import cache
from math import prod
from typing import Final

import numpy as np

from ftrace import dtypes
from ftrace.devices.llvm.blas import ROUTINE, routine_address
from ftrace.devices.llvm.compile import Code, cache_key, generate, kept, link
from ftrace.devices.llvm.expressions import Expressions
from ftrace.devices.llvm.fourier_tables import ROOTS, roots_address
from ftrace.devices.llvm.ordering_keys import SORT
from ftrace.devices.llvm.runner.signals import POLL, STOP
from ftrace.devices.llvm.runtime import runtime
from ftrace.devices.llvm.scalar import CALLED, PREFIX, Operations, operations_of
from ftrace.devices.llvm.scratch import SYMBOLS, scratch
from ftrace.devices.llvm.target import Target, host_target
from ftrace.devices.llvm.types import Type
from ftrace.devices.llvm.writer import Writer
from ftrace.lower.kernel import Kernel, KernelOp, axis_of, range_p
from ftrace.lower.math.decompose import decompose, formula
from ftrace.lower.math.reduction import far_angle
from ftrace.lower.math.term import Term
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import make_node
from ftrace.trace.primitives.host.sorters import sorter
from ftrace.trace.sizes import upper_bound

#: A kernel with so many uses of functions calls those that it uses several times.
MANY = 32
SEVERAL = 8
#: A call takes a nanosecond for each vector, a use that stands in the kernel two
#: milliseconds to compile: kernels of so few elements call sooner.
SMALL = 1 << 12
MANY_IN_SMALL = 4
SEVERAL_IN_SMALL = 2

_argument_p = KernelOp("argument")
_lock = threading.RLock()  # none is made twice; one may call another
_DTYPES: Final = {"f32": dtypes.float32, "f64": dtypes.float64}
_SYMBOL: Final = re.compile(rf"{PREFIX}(\w+)_(?:v(\d+))?(f32|f64)")
_DECLARED: Final = re.compile(rf"^declare .* @({PREFIX}\w+)\(", re.MULTILINE)


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


def symbols_in(text: str) -> tuple[str, ...]:
    """The functions of the library that a module calls."""
    head = text.partition("\ndefine ")[0]
    return tuple(_DECLARED.findall(head)) if PREFIX in head else ()


def addresses(symbols: Iterable[str]) -> dict[str, int]:
    """Where these functions are; they stay as long as the process."""
    return {symbol: _address(symbol) for symbol in symbols}


def _address(symbol: str) -> int:
    if symbol.startswith(ROUTINE):
        return routine_address(symbol)
    if symbol.startswith(ROOTS):
        return roots_address(symbol)
    if symbol.startswith(SORT):
        return _sort_address(symbol)
    return _code_of(symbol).address(symbol)


def _sort_address(symbol: str) -> int:
    kind, size = symbol[len(SORT)], int(symbol[len(SORT) + 1 :]) // 8
    address = sorter(np.dtype(f"{kind}{size}"))
    assert address is not None  # lowering has asked for it
    return address


def _code_of(symbol: str) -> Code:
    if symbol in SYMBOLS:
        return scratch()
    return runtime().code if symbol in (POLL, STOP) else _loaded(symbol)


def prepare(symbol: str) -> None:
    """Makes a function if it is a formula, beside the kernels that call it."""
    theirs = symbol.startswith((ROUTINE, SORT, ROOTS))
    if symbol not in (*SYMBOLS, POLL, STOP) and not theirs:
        _loaded(symbol)


def _loaded(symbol: str) -> Code:
    with _lock:
        return _load(symbol)


@cache
def _load(symbol: str) -> Code:
    def make() -> bytes:
        text = function_text(symbol, host_target())
        return " ".join(symbols_in(text)).encode() + b"\n" + generate(text)

    whole = kept(("library", *cache_key(symbol)), make)
    calls, _, code = whole.partition(b"\n")
    return link(code, (symbol,), addresses(calls.decode().split()))


def function_text(symbol: str, target: Target) -> str:
    """The module of one function."""
    found = _SYMBOL.fullmatch(symbol)
    assert found is not None, symbol
    name, lanes, dtype = found[1], int(found[2] or 0), _DTYPES[found[3]]
    aval = ShapedArray.of((), dtype)
    operands = [make_node(_argument_p, aval, (), n) for n in range(CALLED.get(name, 1))]
    terms = map(Term, operands)
    has = operations_of(target)
    if name == "far_angle":
        results = far_angle(*terms)
    else:
        results = (formula(name, has)(*terms),)
    roots = decompose([term.node for term in results], has)
    writer = Writer()
    given = [f"%x{n}" for n in range(len(operands))]
    known = dict(zip(operands, given, strict=True))
    ops = Operations(writer, target)
    expressions = Expressions(ops, roots, lanes, known.__getitem__, known)
    types = [Type.of(root.dtype, lanes) for root in roots]
    whole, packed = f"{{ {', '.join(map(str, types))} }}", "poison"
    for number, (t, root) in enumerate(zip(types, roots, strict=True)):
        part = f"{t} {expressions.value(root)}, {number}"
        packed = writer.here(f"insertvalue {whole} {packed}, {part}")
    parameters = ", ".join(f"{Type.of(dtype, lanes)} {x}" for x in given)
    return "\n".join([
        f'target triple = "{target.triple}"',
        *writer.declared,
        f"define {whole} @{symbol}({parameters}) nounwind {{",
        "entry:",
        *writer.level.lines,
        f"  ret {whole} {packed}",
        "}",
        "",
    ])  # fmt: skip
