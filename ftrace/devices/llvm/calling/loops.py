"""Loops of our own: steps on small arrays, without a call of NumPy.

A step whose result is fixed to the bit needs no particular code to make it. For arrays
of one shape the code here makes the array of the result, runs the loop of the operation
(`element_loops.py`), and leaves the rest to `fronts.py`. What is not row-major is
copied before:

    looped         the result of a `Loop` for the arguments of a call
    looped_values  the same as an array of NumPy, for the values of a record
    data_of        where the elements of one operand are
"""

from __future__ import annotations

from ftrace.devices.llvm.calling.entry import MISS
from ftrace.devices.llvm.calling.lanes import LANES
from ftrace.devices.llvm.calling.memory import BufferObject
from ftrace.devices.llvm.calling.objects import ObjectFunction
from ftrace.devices.llvm.calling.probe import DATA, DTYPE, FLAGS, ORDERLY, Offsets
from ftrace.devices.llvm.runner.function import Function, View
from ftrace.devices.llvm.runner.records import Word
from ftrace.records import NamedTuple

#: Elements at the most; above, the calls hardly count.
MOST = 1 << 14
#: The same of those that are added up: NumPy lets other threads run meanwhile.
MOST_SUMMED = 1 << 18

#: Of operands: elements that never change, an array, a float of Python's, one element
#: of an array for all of the result's: of 1, 4 or 8 bytes; an array that is row-major.
CONSTANT, ARRAY, FLOAT32, FLOAT64, ONE8, ONE32, ONE64, ORDERED = range(8)

#: Where a float of Python's has its number.
_NUMBER = 16


class Loop(NamedTuple):
    """One operation.

    Attributes:
      function: the loop.
      elements: how many.
      dtype: the dtype of NumPy of the result.
      ndim, sizes: the shape of the result.
      first, second, third: `Operand`s; of fewer the last one is repeated.
      exponent: after so many arguments comes a float that has to be 1/2, or this is no
        such loop; 0 if there is none.
    """

    function: Word
    elements: Word
    dtype: Word
    ndim: Word
    sizes: Word
    first: Word
    second: Word
    third: Word
    exponent: Word = 0


_OPERANDS = ("first", "second", "third")


class Operand(NamedTuple):
    """What a loop reads.

    Attributes:
      kind: one of the above.
      leaf: its number among the arguments or values.
      data: of a constant: its elements, or `LANES` copies of the only one.
      step: elements from one to the next: 1 or, of numbers, 0.
      dtype: the dtype of NumPy of an array.
    """

    kind: Word
    leaf: Word
    data: Word
    step: Word
    dtype: Word


def loops_ir(offsets: Offsets, immortal: bool) -> str:
    """All functions of loops."""
    functions = [
        _buffer_data(), _host_data(), _data_of(offsets), _in_order(offsets),
        _release_copies(), _looped_values(immortal), _looped(immortal),
    ]  # fmt: skip
    return "".join(f.text for f in functions)


def _data_of(offsets: Offsets) -> Function:
    """Where an operand is, if it is as a loop wants it, or null; runs no Python."""
    f = ObjectFunction("data_of", "ptr", "ptr %operand", "ptr %given", "ptr %room")
    state, operand = f.state(), f.view("%operand", Operand)
    kind = operand.number("kind")
    with f.when(f.equal("i64", kind, CONSTANT)):
        f.give(operand.pointer("data"))
    thing = f.slot("%given", operand.number("leaf"))
    with f.when(f.equal("i64", kind, FLOAT32)):
        number = f.load("double", f.beyond(thing, _NUMBER))
        _give_copies(f, "float", f.let(f"fptrunc double {number} to float"))
    with f.when(f.equal("i64", kind, FLOAT64)):
        _give_copies(f, "double", f.load("double", f.beyond(thing, _NUMBER)))
    data, dtype = f.variable("ptr", "null"), f"ptr {operand.pointer('dtype')}"
    with f.when(f.equal("ptr", f.type_of(thing), state.pointer("ndarray"))):
        f.store("ptr", f.let(f"call ptr @host_data(ptr {thing}, {dtype})"), data)
    with f.when(f.equal("ptr", f.type_of(thing), state.pointer("array"))):
        host = f.at(thing, offsets.host)
        missing = f.equal("ptr", host, "null")
        none = f.equal("ptr", host, state.pointer("none"))
        absent = f.let(f"or i1 {missing}, {none}")
        with f.when(absent):
            buffer = f.at(thing, offsets.buffer)
            f.store("ptr", f.let(f"call ptr @buffer_data(ptr {buffer})"), data)
        with f.when(f.let(f"xor i1 {absent}, true")):
            f.store("ptr", f.let(f"call ptr @host_data(ptr {host}, {dtype})"), data)
    found = f.load("ptr", data)
    for alike in (ARRAY, ORDERED):
        with f.when(f.equal("i64", kind, alike)):
            f.give(found)
    with f.when(f.equal("ptr", found, "null")):
        f.give(found)
    for one, element in ((ONE8, "i8"), (ONE32, "i32")):
        with f.when(f.equal("i64", kind, one)):
            _give_copies(f, element, f.load(element, found))
    _give_copies(f, "i64", f.load("i64", found))
    return f


def _in_order(offsets: Offsets) -> Function:
    """A row-major copy of an `ARRAY` that lies in another order; null if it is none."""
    f = ObjectFunction("in_order", "ptr", "ptr %operand", "ptr %given")
    state, operand = f.state(), f.view("%operand", Operand)
    with f.when(f.differ("i64", operand.number("kind"), ARRAY)):
        f.give("null")
    with f.when(f.equal("i64", state.number("new_copy"), 0)):
        f.give("null")
    thing = f.variable("ptr", f.slot("%given", operand.number("leaf")))
    kind = f.type_of(f.load("ptr", thing))
    with f.when(f.equal("ptr", kind, state.pointer("array"))):
        f.store("ptr", f.at(f.load("ptr", thing), offsets.host), thing)
    host = f.load("ptr", thing)
    with f.when(f.equal("ptr", host, "null")):
        f.give("null")
    with f.when(f.differ("ptr", f.type_of(host), state.pointer("ndarray"))):
        f.give("null")
    with f.when(f.differ("ptr", f.at(host, DTYPE), operand.pointer("dtype"))):
        f.give("null")
    call = f"ptr {state.pointer('new_copy')}(ptr {host}, i32 0)"
    made = f.let(f"call {call}")
    with f.when(f.equal("ptr", made, "null")):
        f.do("call void @PyErr_Clear()")  # no memory: NumPy will say so
    f.give(made)
    return f


def _release_copies() -> Function:
    f = ObjectFunction("release_copies", "void", "ptr %kept")
    with f.repeat(len(_OPERANDS)) as i:
        copy = f.slot("%kept", i)
        with f.when(f.differ("ptr", copy, "null")):
            f.let_go(copy)
    f.give()
    return f


def _buffer_data() -> Function:
    f = ObjectFunction("buffer_data", "ptr", "ptr %buffer")
    with f.when(f.equal("ptr", "%buffer", "null")):
        f.give("null")
    with f.when(f.differ("ptr", f.type_of("%buffer"), f.state().pointer("buffer"))):
        f.give("null")
    f.give(f.view("%buffer", BufferObject).pointer("data"))
    return f


def _host_data() -> Function:
    """Of an array of a dtype whose elements lie in their order."""
    f = ObjectFunction("host_data", "ptr", "ptr %host", "ptr %dtype")
    with f.when(f.differ("ptr", f.type_of("%host"), f.state().pointer("ndarray"))):
        f.give("null")
    with f.when(f.differ("ptr", f.at("%host", DTYPE), "%dtype")):
        f.give("null")
    flags = f.load("i32", f.beyond("%host", FLAGS))
    with f.when(f.differ("i32", f.let(f"and i32 {flags}, {ORDERLY}"), ORDERLY)):
        f.give("null")
    f.give(f.at("%host", DATA))
    return f


def _give_copies(f: Function, kind: str, number: str) -> None:
    """The room, full of a number, and ends."""
    wide = f"<{LANES} x {kind}>"
    first = f.let(f"insertelement {wide} poison, {kind} {number}, i64 0")
    mask = f"<{LANES} x i32> zeroinitializer"
    copies = f.let(f"shufflevector {wide} {first}, {wide} poison, {mask}")
    f.do(f"store {wide} {copies}, ptr %room, align 64")
    f.give("%room")


def _looped_values(immortal: bool) -> Function:
    """An array of NumPy's; or null, where NumPy shall do it: then nothing is raised."""
    parameters = ("ptr %loop", "ptr %given")
    f = ObjectFunction("looped_values", "ptr", *parameters, immortal=immortal)
    loop, state = f.view("%loop", Loop), f.state()
    exponent = loop.number("exponent")
    with f.when(f.differ("i64", exponent, 0)):
        leaf = f.slot("%given", f.let(f"sub i64 {exponent}, 1"))
        number = f.load("double", f.beyond(leaf, _NUMBER))
        with f.when(f.let(f"fcmp une double {number}, 0.5")):
            f.give("null")
    kept = f.place("ptr", len(_OPERANDS))
    for number in range(len(_OPERANDS)):
        f.set_slot(kept, number, "null")
    places = _places(f, loop, kept)
    host = f.new_ndarray(state, loop)
    with f.when(f.equal("ptr", host, "null")):
        f.do("call void @PyErr_Clear()")  # no memory: NumPy will say so
        f.do(f"call void @release_copies(ptr {kept})")
        f.give("null")
    given = [f"ptr {f.at(host, DATA)}"]
    for name, place in zip(_OPERANDS, places, strict=True):
        step = f.view(loop.pointer(name), Operand).number("step")
        given += [f"ptr {place}", f"i64 {step}"]
    given.append(f"i64 {loop.number('elements')}")
    f.do(f"call void {loop.pointer('function')}({', '.join(given)})")
    f.do(f"call void @release_copies(ptr {kept})")
    f.give(host)
    return f


def _places(f: ObjectFunction, loop: View, kept: str) -> list[str]:
    """Where the operands are, in order: of others copies are kept, or null is given."""
    places: list[str] = []
    before = "null"
    for number, name in enumerate(_OPERANDS):
        row, found = loop.pointer(name), f.variable("ptr", "null")
        if number:  # where there are fewer, the last is repeated
            with f.when(f.equal("ptr", row, before)):
                f.store("ptr", places[-1], found)
        with f.when(f.equal("ptr", f.load("ptr", found), "null")):
            room = f.place("i64", LANES)
            operands = f"ptr {row}, ptr %given, ptr {room}"
            f.store("ptr", f.let(f"call ptr @data_of({operands})"), found)
        with f.when(f.equal("ptr", f.load("ptr", found), "null")):
            copy = f.let(f"call ptr @in_order(ptr {row}, ptr %given)")
            f.set_slot(kept, number, copy)
            with f.when(f.equal("ptr", copy, "null")):
                f.do(f"call void @release_copies(ptr {kept})")
                f.give("null")
            f.store("ptr", f.at(copy, DATA), found)
        places.append(f.load("ptr", found))
        before = row
    return places


def _looped(immortal: bool) -> Function:
    """An Array; or MISS, where NumPy shall do it."""
    parameters = ("ptr %loop", "ptr %given", "ptr %made")
    f = ObjectFunction("looped", "ptr", *parameters, immortal=immortal)
    host = f.let("call ptr @looped_values(ptr %loop, ptr %given)")
    with f.when(f.equal("ptr", host, "null")):
        f.give(MISS)
    pair = f"ptr {f.state().pointer('none')}, ptr {host}"
    result = f.let(f"call ptr @new_array(ptr %made, {pair})")
    f.let_go(host)
    f.give(result)
    return f
