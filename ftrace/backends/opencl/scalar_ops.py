"""OpenCL C for scalars: one row per operation, and the functions that rows call.

A 16-bit float is computed in float, so that no device needs cl_khr_fp16. Signed
integers wrap around: they are added and multiplied as unsigned ones. In memory bool is
a uchar of 0 or 1. A 16-bit float is its bits, a ushort.

The names of functions that are called are collected; a source holds those it needs.
They are what OpenCL C has under another meaning, or not at all: 16-bit floats, division
of integers that never traps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import GraphError
from ftrace.lower.kernel.ir import fma_p
from ftrace.lower.legalize.term import RELAXED
from ftrace.trace.graph import Node, constant_value, is_constant

Dtype = np.dtype[Any]

C_TYPES: dict[Dtype, str] = {
    dtypes.bool_: "uchar",
    dtypes.int8: "char", dtypes.int16: "short",
    dtypes.int32: "int", dtypes.int64: "long",
    dtypes.uint8: "uchar", dtypes.uint16: "ushort",
    dtypes.uint32: "uint", dtypes.uint64: "ulong",
    dtypes.float16: "ushort", dtypes.bfloat16: "ushort",
    dtypes.float32: "float", dtypes.float64: "double",
}  # fmt: skip


def value_type(dtype: Dtype) -> str:
    """The type of a variable; bools are uchar in memory only."""
    return "bool" if dtype == dtypes.bool_ else C_TYPES[dtype]


def wrapping(dtype: Dtype) -> str:
    """The unsigned type in which an integer type is added and multiplied."""
    return "ulong" if dtype.itemsize == 8 else "uint"


def literal(value: Any, dtype: Dtype) -> str:
    """A constant of a dtype, to the bit."""
    scalar: Any = np.asarray(value).astype(dtype)
    category = dtypes.kind(dtype)
    if dtypes.is_half(dtype):
        return f"(ushort){int(scalar.view(np.uint16)):#x}"
    if category == "f":
        return _float_literal(scalar, dtype)
    number = int(scalar)
    if category == "b" or dtype.itemsize < 4:
        return f"({C_TYPES[dtype]}){number}"
    suffix = {"int": "", "long": "L", "uint": "u", "ulong": "UL"}[C_TYPES[dtype]]
    if category == "i" and number == np.iinfo(dtype).min:
        return f"({number + 1}{suffix} - 1)"
    return f"{number}{suffix}" if number >= 0 else f"({number}{suffix})"


def _float_literal(scalar: Any, dtype: Dtype) -> str:
    single = dtype == dtypes.float32
    if not np.isfinite(scalar):
        bits = int(scalar.view(np.uint32 if single else np.uint64))
        return f"as_float({bits:#x}u)" if single else f"as_double({bits:#x}UL)"
    text = float(scalar).hex() + ("f" if single else "")
    return f"({text})" if text.startswith("-") else text


#: An operation by kinds of dtypes: C, in which `_write` fills in the operands and what
#: follows from the dtype; `@name` calls a function of `helper_source`.
Row = dict[str, str]


def _infix(symbol: str, of_bools: str = "") -> Row:
    wrapped = f"({{c}})(({{wide}}){{0}} {symbol} ({{wide}}){{1}})"
    plain = f"{{0}} {symbol} {{1}}"
    return {"iu": wrapped, "f": plain, "b": of_bools or plain}


def _extremum(symbol: str, lesser: str) -> Row:
    first = f"{{0}} {symbol} {{1}}"  # NaN wins, and of zeros one by its sign
    of_floats = f"{first} || {{0}} != {{0}} || ({{0}} == {{1}} && signbit({lesser}))"
    return {"f": f"({of_floats}) ? {{0}} : {{1}}", "iub": f"({first}) ? {{0}} : {{1}}"}


def _call(name: str) -> Row:
    return {"iubf": f"{name}({{0}})"}


def _operator(symbol: str) -> Row:
    return {"iubf": f"{{0}} {symbol} {{1}}"}


def _shift(shifted: str) -> str:
    return f"({{wide}}){{1}} < {{bits}} ? ({{c}})({shifted}) : ({{c}})0"


_MUL = _infix("*", "{0} & {1}")
_SHIFT_RIGHT = _shift("({unsigned}){0} >> {1}")
_ROWS: dict[str, Row] = {
    "add": _infix("+", "{0} | {1}"), "sub": _infix("-"), "mul": _MUL,
    "mul_zero": {
        kinds: f"({{0}} == 0 || {{1}} == 0) ? {{zero}} : {product}"
        for kinds, product in _MUL.items()
    },
    "div": {"f": "{0} / {1}", "iub": "@quotient"},
    "rem": {"f": "fmod({0}, {1})", "iub": "@remainder"},
    "neg": {"f": "-{0}", "iub": "({c})(0 - ({wide}){0})"},
    "abs": {
        "f": "fabs({0})", "u": "{0}", "ib": "({c})({0} < 0 ? 0 - ({wide}){0} : {0})",
    },
    "max": _extremum(">", "{1}"), "min": _extremum("<", "{0}"),
    "floor": _call("floor"), "ceil": _call("ceil"), "trunc": _call("trunc"),
    "round": _call("rint"), "sqrt": _call("sqrt"), "popcount": _call("popcount"),
    "fma": {"iubf": "fma({0}, {1}, {2})"}, "select": {"iub": "{0} ? {1} : {2}"},
    "eq": _operator("=="), "ne": _operator("!="), "lt": _operator("<"),
    "le": _operator("<="), "gt": _operator(">"), "ge": _operator(">="),
    "and": _operator("&"), "or": _operator("|"), "xor": _operator("^"),
    "not": {"b": "!{0}", "iuf": "({c})~{0}"},
    "shl": {"iub": _shift("({wide}){0} << {1}")}, "shr": {"iub": _SHIFT_RIGHT},
    "sar": {
        "u": _SHIFT_RIGHT,
        "ib": "({c})({0} >> (({wide}){1} > {last} ? {last} : {1}))",
    },
}  # fmt: skip


def _write(row: Row, dtype: Dtype, x: list[str], used: set[str]) -> str:
    kind, bits = dtypes.kind(dtype), 8 * dtype.itemsize
    text = next(text for kinds, text in row.items() if kind in kinds)
    if text.startswith("@"):
        used.add(name := f"{text[1:]}_{C_TYPES[dtype]}")
        return f"{name}({', '.join(x)})"
    return text.format(
        *x, c=C_TYPES[dtype], wide=wrapping(dtype), zero=literal(0, dtype),
        unsigned=C_TYPES[np.dtype(f"u{dtype.itemsize}")], bits=bits, last=bits - 1,
    )  # fmt: skip


#: The operations that can be written; `legalize` decomposes every other one.
SUPPORTED = frozenset(("const", "cast", "bitcast", "copy", "stop_gradient", *_ROWS))


def combine(op: str, dtype: Dtype, x: str, y: str, used: set[str]) -> str:
    """The expression of a reduce's or a store's operation."""
    if dtypes.is_half(dtype):
        wide = [widen(v, dtype, used) for v in (x, y)]
        both = [f"({w})" for w in wide]
        return narrow(_write(_ROWS[op], dtypes.float32, both, used), dtype, used)
    return _write(_ROWS[op], dtype, [x, y], used)


def expression(
    node: Node, operands: Sequence[str], used: set[str], index: Dtype | None = None
) -> str:
    """The C expression of an elementwise node; helpers that it calls join `used`.

    Args:
      operands: names or literals: they may be written more than once.
      index: the dtype of index arithmetic of which all values fit into it.
    """
    x = list(operands)
    source = index or node.src[0].dtype
    name = node.op.name
    if name == "cast":
        return convert(x[0], source, index or node.dtype, used)
    if name == "bitcast":
        return _bitcast(x[0], source, node.dtype)
    if name in ("copy", "stop_gradient"):
        return x[0]
    if dtypes.is_half(source):
        wide = [f"({widen(operand, source, used)})" for operand in x]
        text = _arithmetic(node, dtypes.float32, wide, used)
        return narrow(text, node.dtype, used) if node.dtype == source else text
    if _divides_plainly(node, index):
        symbol = "/" if name == "div" else "%"
        return f"({C_TYPES[index or node.dtype]})({x[0]} {symbol} {x[1]})"
    return _arithmetic(node, source, x, used)


def _arithmetic(node: Node, dtype: Dtype, x: list[str], used: set[str]) -> str:
    if node.op is fma_p and node.arg == RELAXED:
        return _write({"f": "@multiply_add"}, dtype, x, used)
    row = _ROWS.get(node.op.name)
    if row is None:
        raise GraphError(f"OpenCL has no row for {node!r}", node.origin)
    return _write(row, dtype, x, used)


def _divides_plainly(node: Node, index: Dtype | None) -> bool:
    """An integer division that needs no care: by a constant, or of an index."""
    if node.op.name not in ("div", "rem") or dtypes.kind(node.dtype) not in "iu":
        return False
    if index is not None:
        return True
    divisor = node.src[1]
    return is_constant(divisor) and int(constant_value(divisor)) not in (0, -1)


def widen(x: str, dtype: Dtype, used: set[str]) -> str:
    """A 16-bit float as a float."""
    name = "float_of_half" if dtype == dtypes.float16 else "float_of_bfloat"
    used.add(name)
    return f"{name}({x})"


def narrow(x: str, dtype: Dtype, used: set[str]) -> str:
    """A float as a 16-bit float."""
    name = "half_of_float" if dtype == dtypes.float16 else "bfloat_of_float"
    used.add(name)
    return f"{name}({x})"


def convert(x: str, source: Dtype, target: Dtype, used: set[str]) -> str:
    """A cast as `ftrace.trace.primitives.reference.convert` defines it."""
    if source == target:
        return x
    if dtypes.is_half(source):
        x, source = widen(x, source, used), dtypes.float32
    if target == dtypes.bool_:
        return f"({x}) != 0"
    if dtypes.is_half(target):
        return narrow(f"(float)({x})", target, used)
    if dtypes.kind(source) == "f" and dtypes.kind(target) in "iu":
        return f"({x} == {x} ? convert_{C_TYPES[target]}_sat({x}) : 0)"
    return f"({C_TYPES[target]})({x})"


def _bitcast(x: str, source: Dtype, target: Dtype) -> str:
    if C_TYPES[source] == C_TYPES[target]:
        return x
    return f"as_{C_TYPES[target]}({x})"


# Functions that kernels call.


_SHORT_FLOATS = {
    "float_of_half": """
float float_of_half(ushort h) { return vload_half(0, (const half *)&h); }
""",
    "half_of_float": """
ushort half_of_float(float x) {
  ushort h;
  vstore_half_rte(x, 0, (half *)&h);
  return h;
}
""",
    "float_of_bfloat": """
float float_of_bfloat(ushort h) { return as_float((uint)h << 16); }
""",
    "bfloat_of_float": """
ushort bfloat_of_float(float x) {
  uint bits = as_uint(x), quiet = bits >> 16 | 0x40u;
  uint rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  return (ushort)((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}
""",
}


def helper_source(name: str) -> str:
    """The source of a helper function: `quotient_int`, `multiply_add_float`, …."""
    if name in _SHORT_FLOATS:
        return _SHORT_FLOATS[name].lstrip()
    kind, _, types = name.partition("_")
    return {
        "quotient": _quotient, "remainder": _remainder, "multiply": _multiply_add,
    }[kind](name, types)  # fmt: skip


def _quotient(name: str, c_type: str) -> str:
    """x/0 is -1, and the least number over -1 wraps around."""
    unsigned = c_type.startswith("u")
    negated = "" if unsigned else f"y == -1 ? ({c_type})(0 - (u{c_type})x) : "
    unsafe = "y == 0" if unsigned else "y == 0 || y == -1"
    return (
        f"{c_type} {name}({c_type} x, {c_type} y) {{\n"
        f"  {c_type} q = x / (({unsafe}) ? ({c_type})1 : y);\n"
        f"  return y == 0 ? ({c_type})-1 : {negated}q;\n}}\n"
    )


def _remainder(name: str, c_type: str) -> str:
    """X rem 0 is x."""
    unsafe = "y == 0" if c_type.startswith("u") else "y == 0 || y == -1"
    return (
        f"{c_type} {name}({c_type} x, {c_type} y) {{\n"
        f"  {c_type} r = x % (({unsafe}) ? ({c_type})1 : y);\n"
        f"  return y == 0 ? x : r;\n}}\n"
    )


def _multiply_add(name: str, types: str) -> str:
    """a·b + c, rounded once where that is fast and twice elsewhere."""
    c_type = types.removeprefix("add_")
    value = "a * b + c"
    if c_type.startswith(("int", "long")):
        a, b, c = (f"as_u{c_type}({x})" for x in "abc")
        value = f"as_{c_type}({a} * {b} + {c})"
    return (
        f"{c_type} {name}({c_type} a, {c_type} b, {c_type} c) {{\n"
        f"  #pragma OPENCL FP_CONTRACT ON\n  return {value};\n}}\n"
    )
