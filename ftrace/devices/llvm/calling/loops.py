"""Loops of our own: one operation of NumPy on small arrays, without a call of NumPy.

A step whose result IEEE 754 fixes to the bit needs no particular code to make it. For
arrays of one shape and dtype, row-major, the code here makes the array of the result,
runs the loop of the operation, and leaves the rest to `fronts.py`:

    looped    the result of a `Loop` for the arguments of a call
    data_of   where the values of one argument are
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ftrace.devices.llvm.calling.entry import MISS
from ftrace.devices.llvm.calling.memory import BufferObject
from ftrace.devices.llvm.calling.objects import ObjectFunction
from ftrace.devices.llvm.calling.probe import DATA, DTYPE, FLAGS, ORDERLY, Offsets
from ftrace.devices.llvm.runner.function import Function
from ftrace.devices.llvm.runner.records import Word

#: Elements that are computed side by side.
LANES = 16
#: Elements at the most; above, the calls hardly count.
MOST = 1 << 14

#: Of operands: a number that never changes, an array, a float of Python's.
CONSTANT, ARRAY, FLOAT32, FLOAT64 = range(4)

_FLOATS = {"float32": "float", "float64": "double"}
_INTEGERS = {"int32": "i32", "int64": "i64"}
_ARITHMETIC = {"add": "add", "subtract": "sub", "multiply": "mul"}
_COMPARISONS = {
    "equal": ("oeq", "eq"), "not_equal": ("une", "ne"), "less": ("olt", "slt"),
    "less_equal": ("ole", "sle"), "greater": ("ogt", "sgt"),
    "greater_equal": ("oge", "sge"),
}  # fmt: skip
#: Where a float of Python's has its number.
_NUMBER = 16


class Loop(NamedTuple):
    """One operation.

    Attributes:
      function: the loop.
      elements: how many.
      operand, dtype: the dtypes of NumPy of the operands and of the result.
      ndim, sizes: the shape of the result.
      left, right: `Operand`s.
    """

    function: Word
    elements: Word
    operand: Word
    dtype: Word
    ndim: Word
    sizes: Word
    left: Word
    right: Word


class Operand(NamedTuple):
    """What a loop reads.

    Attributes:
      kind: one of the above.
      leaf: its number among the arguments.
      data: of a constant: `LANES` copies of it.
      step: elements from one to the next: 1 or, of numbers, 0.
    """

    kind: Word
    leaf: Word
    data: Word
    step: Word


class _Code(NamedTuple):
    """An instruction, with places for the type and the operands, and what it gives."""

    element: str
    text: str
    compares: bool


def _codes() -> dict[str, _Code]:
    """All loops by name."""
    found: dict[str, _Code] = {}
    for dtype, kind in _FLOATS.items():
        for name, code in (*_ARITHMETIC.items(), ("divide", "div")):
            text = f"f{code} {{kind}} {{left}}, {{right}}"
            found[f"{name}_{dtype}"] = _Code(kind, text, False)
        found[f"negative_{dtype}"] = _Code(kind, "fneg {kind} {left}", False)
        for name, code in (("absolute", "fabs"), ("sqrt", "sqrt")):
            text = f"call {{kind}} @llvm.{code}.{{suffix}}({{kind}} {{left}})"
            found[f"{name}_{dtype}"] = _Code(kind, text, False)
    for dtype, kind in _INTEGERS.items():
        for name, code in _ARITHMETIC.items():
            text = f"{code} {{kind}} {{left}}, {{right}}"
            found[f"{name}_{dtype}"] = _Code(kind, text, False)
    for dtype, kind in {**_FLOATS, **_INTEGERS}.items():
        for name, codes in _COMPARISONS.items():
            code = f"fcmp {codes[0]}" if dtype in _FLOATS else f"icmp {codes[1]}"
            text = f"{code} {{kind}} {{left}}, {{right}}"
            found[f"{name}_{dtype}"] = _Code(kind, text, True)
    return found


_CODES = _codes()


def loop_names() -> Sequence[str]:
    """Of each loop: the operation and the dtype of its operands."""
    return list(_CODES)


def compares(name: str) -> bool:
    """Are the results of a loop truth values?"""
    return _CODES[name].compares


def exported(name: str) -> str:
    """The name of the function of a loop."""
    return f"loop_{name}"


def loops_ir(offsets: Offsets, immortal: bool) -> str:
    """All functions of loops."""
    functions = [_loop(exported(name), code) for name, code in _CODES.items()]
    functions += [_data_of(offsets), _looped(immortal)]
    return _declarations() + "".join(f.text for f in functions)


def _declarations() -> str:
    lines: list[str] = []
    for kind, short in (("float", "f32"), ("double", "f64")):
        for code in ("fabs", "sqrt"):
            wide = f"<{LANES} x {kind}>"
            lines.append(f"declare {wide} @llvm.{code}.v{LANES}{short}({wide})")
            if (code, short) != ("fabs", "f64"):  # that one is known already
                lines.append(f"declare {kind} @llvm.{code}.{short}({kind})")
    return "\n".join(lines) + "\n"


# The loops.


def _loop(name: str, code: _Code) -> Function:
    parameters = (
        "ptr noalias %out", "ptr %left", "i64 %from_left", "ptr %right",
        "i64 %from_right", "i64 %count",
    )  # fmt: skip
    f = Function(name, "void", *parameters, visible=True)
    whole = f.let(f"udiv i64 %count, {LANES}")
    done = f.let(f"mul i64 {whole}, {LANES}")
    with f.repeat(whole) as i:
        _compute(f, code, f.let(f"mul i64 {i}, {LANES}"), LANES)
    with f.repeat("%count", done) as i:
        _compute(f, code, i, 1)
    f.give()
    return f


def _compute(f: Function, code: _Code, index: str, lanes: int) -> None:
    """So many elements from an index on."""
    element = code.element
    short = {"float": "f32", "double": "f64"}.get(element, element)

    def many(kind: str) -> str:
        return kind if lanes == 1 else f"<{lanes} x {kind}>"

    def load(side: str) -> str:
        place = f.let(f"mul i64 {index}, %from_{side}")
        place = f.let(f"getelementptr {element}, ptr %{side}, i64 {place}")
        return f.let(f"load {many(element)}, ptr {place}, align {_width(element)}")

    operands = {"left": load("left")}
    if "{right}" in code.text:
        operands["right"] = load("right")
    suffix = short if lanes == 1 else f"v{lanes}{short}"
    value = f.let(code.text.format(kind=many(element), suffix=suffix, **operands))
    made = element
    if code.compares:
        value, made = f.let(f"zext {many('i1')} {value} to {many('i8')}"), "i8"
    place = f.let(f"getelementptr {made}, ptr %out, i64 {index}")
    f.do(f"store {many(made)} {value}, ptr {place}, align {_width(made)}")


def _width(kind: str) -> int:
    return {"i8": 1, "i32": 4, "float": 4, "i64": 8, "double": 8}[kind]


# Arguments and results.


def _data_of(offsets: Offsets) -> Function:
    """Where an operand is, if it is as a loop wants it, or null; runs no Python."""
    parameters = ("ptr %loop", "ptr %operand", "ptr %given", "ptr %room")
    f = ObjectFunction("data_of", "ptr", *parameters)
    state, operand = f.state(), f.view("%operand", Operand)
    kind = operand.number("kind")
    with f.when(f.equal("i64", kind, CONSTANT)):
        f.give(operand.pointer("data"))
    thing = f.slot("%given", operand.number("leaf"))
    with f.when(f.equal("i64", kind, ARRAY)):
        host = f.at(thing, offsets.host)
        missing = f.equal("ptr", host, "null")
        none = f.equal("ptr", host, state.pointer("none"))
        with f.when(f.let(f"or i1 {missing}, {none}")):
            _give_buffer(f, f.at(thing, offsets.buffer))
        _give_host(f, host)
    number = f.load("double", f.beyond(thing, _NUMBER))
    with f.when(f.equal("i64", kind, FLOAT32)):
        _give_copies(f, "float", f.let(f"fptrunc double {number} to float"))
    _give_copies(f, "double", number)
    return f


def _give_buffer(f: ObjectFunction, buffer: str) -> None:
    """The memory of a buffer of the device, and ends."""
    with f.when(f.equal("ptr", buffer, "null")):
        f.give("null")
    with f.when(f.differ("ptr", f.type_of(buffer), f.state().pointer("buffer"))):
        f.give("null")
    f.give(f.view(buffer, BufferObject).pointer("data"))


def _give_host(f: ObjectFunction, host: str) -> None:
    """The memory of an array of NumPy's, and ends."""
    with f.when(f.differ("ptr", f.type_of(host), f.state().pointer("ndarray"))):
        f.give("null")
    dtype = f.view("%loop", Loop).pointer("operand")
    with f.when(f.differ("ptr", f.at(host, DTYPE), dtype)):
        f.give("null")
    flags = f.load("i32", f.beyond(host, FLAGS))
    with f.when(f.differ("i32", f.let(f"and i32 {flags}, {ORDERLY}"), ORDERLY)):
        f.give("null")
    f.give(f.at(host, DATA))


def _give_copies(f: Function, kind: str, number: str) -> None:
    """The room, full of a number, and ends."""
    wide = f"<{LANES} x {kind}>"
    first = f.let(f"insertelement {wide} poison, {kind} {number}, i64 0")
    mask = f"<{LANES} x i32> zeroinitializer"
    copies = f.let(f"shufflevector {wide} {first}, {wide} poison, {mask}")
    f.do(f"store {wide} {copies}, ptr %room, align 64")
    f.give("%room")


def _looped(immortal: bool) -> Function:
    """An Array; or MISS, where NumPy shall do it."""
    parameters = ("ptr %loop", "ptr %given", "ptr %made")
    f = ObjectFunction("looped", "ptr", *parameters, immortal=immortal)
    loop, state = f.view("%loop", Loop), f.state()
    places: list[str] = []
    for side in ("left", "right"):
        room = f.place("i64", LANES)
        operands = f"ptr %loop, ptr {loop.pointer(side)}, ptr %given, ptr {room}"
        places.append(f.let(f"call ptr @data_of({operands})"))
        with f.when(f.equal("ptr", places[-1], "null")):
            f.give(MISS)
    dtype = loop.pointer("dtype")
    f.hold(dtype)  # the array takes it over
    ndim = f.let(f"trunc i64 {loop.number('ndim')} to i32")
    operands = (
        f"ptr {state.pointer('ndarray')}, ptr {dtype}, i32 {ndim}, "
        f"ptr {loop.pointer('sizes')}, ptr null, ptr null, i32 0, ptr null"
    )
    host = f.let(f"call ptr {state.pointer('new_ndarray')}({operands})")
    with f.when(f.equal("ptr", host, "null")):
        f.do("call void @PyErr_Clear()")  # no memory: NumPy will say so
        f.give(MISS)
    left, right = (f.view(loop.pointer(s), Operand) for s in ("left", "right"))
    operands = (
        f"ptr {f.at(host, DATA)}, ptr {places[0]}, i64 {left.number('step')}, "
        f"ptr {places[1]}, i64 {right.number('step')}, i64 {loop.number('elements')}"
    )
    f.do(f"call void {loop.pointer('function')}({operands})")
    pair = f"ptr {state.pointer('none')}, ptr {host}"
    result = f.let(f"call ptr @new_array(ptr %made, {pair})")
    f.let_go(host)
    f.give(result)
    return f
