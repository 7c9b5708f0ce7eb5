"""Functions that kernels call: seldom needed, and too long to stand in each of them.

    declare { <16 x i32>, … } @ftrace_far_angle_v16f32(<16 x float>)

A name tells the formula and the type of the operand, so that from the name alone the
function is made: once per process at the most, when a kernel that calls it is linked,
and mostly from the disk cache.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Final

from ftrace import dtypes
from ftrace.devices.llvm.compile import Code, cache_key, generate, kept, link
from ftrace.devices.llvm.scalar import PREFIX, Operations, operations_of
from ftrace.devices.llvm.target import Target, host_target
from ftrace.devices.llvm.types import Type
from ftrace.devices.llvm.writer import Writer
from ftrace.lower.kernel import KernelOp
from ftrace.lower.math.decompose import decompose
from ftrace.lower.math.reduction import far_angle
from ftrace.lower.math.term import RELAXED, Term
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Node, constant_value, make_node, toposort
from ftrace.trace.primitives.source import const_p

FORMULAS: Final[dict[str, Callable[[Term], Sequence[Term]]]] = {"far_angle": far_angle}

_argument_p = KernelOp("argument")
_DTYPES: Final = {"f32": dtypes.float32, "f64": dtypes.float64}
_SYMBOL: Final = re.compile(rf"{PREFIX}(\w+)_(?:v(\d+))?(f32|f64)")
_DECLARED: Final = re.compile(rf"^declare .* @({PREFIX}\w+)\(", re.MULTILINE)


def symbols_in(text: str) -> tuple[str, ...]:
    """The functions of the library that a module calls."""
    head = text.partition("\ndefine ")[0]
    return tuple(_DECLARED.findall(head)) if PREFIX in head else ()


def addresses(symbols: Iterable[str]) -> dict[str, int]:
    """Where these functions are; they stay as long as the process."""
    return {symbol: _loaded(symbol).address(symbol) for symbol in symbols}


@cache
def _loaded(symbol: str) -> Code:
    def make() -> bytes:
        return generate(function_text(symbol, host_target()))

    return link(kept(("library", *cache_key(symbol)), make), (symbol,))


def function_text(symbol: str, target: Target) -> str:
    """The module of one function."""
    found = _SYMBOL.fullmatch(symbol)
    assert found is not None, symbol
    name, lanes, dtype = found[1], int(found[2] or 0), _DTYPES[found[3]]
    argument = make_node(_argument_p, ShapedArray.of((), dtype), ())
    results = [term.node for term in FORMULAS[name](Term(argument))]
    roots = decompose(results, operations_of(target))
    writer = Writer()
    values = _emit(Operations(writer, target), roots, {argument: "%x"}, lanes)
    types = [Type.of(root.dtype, lanes) for root in roots]
    whole = f"{{ {', '.join(map(str, types))} }}"
    packed = "poison"
    for number, (t, root) in enumerate(zip(types, roots, strict=True)):
        packed = writer.pure(
            f"insertvalue {whole} {packed}, {t} {values[root]}, {number}"
        )
    return "\n".join([
        f'target triple = "{target.triple}"',
        *writer.declared,
        f"define {whole} @{symbol}({Type.of(dtype, lanes)} %x) nounwind {{",
        *writer.level.lines,
        f"  ret {whole} {packed}",
        "}",
        "",
    ])  # fmt: skip


def _emit(
    ops: Operations, roots: Sequence[Node], values: dict[Node, str], lanes: int
) -> dict[Node, str]:
    """The values of expressions of elements, in straight lines."""
    for node in toposort(roots):
        if node in values:
            continue
        own = Type.of(node.dtype, lanes)
        texts = [values[s] for s in node.src]
        name = node.op.name
        if node.op is const_p:
            values[node] = own.constant(constant_value(node))
            continue
        t = Type.of(node.src[-1].dtype, lanes)
        if name in ("cast", "bitcast"):
            values[node] = (ops.cast if name == "cast" else ops.bitcast)(
                texts[0], t, own
            )
        elif name == "select":
            values[node] = ops.select(texts[0], t, texts[1], texts[2])
        elif node.arg == RELAXED and not ops.target.fma:
            product = ops.apply("mul", t, texts[0], texts[1])
            values[node] = ops.apply("add", t, product, texts[2])
        else:
            values[node] = ops.apply(name, t, *texts)
    return values
