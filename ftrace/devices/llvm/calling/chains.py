"""Chains: many operations on elements in one call, with no array of NumPy's between.

    modf(x)   ->   trunc, abs, eq, sub, select, lt, …    one pass over blocks of x

What is between lies in rooms: memory for a block, which all chains share. Numbers that
stand for all elements have `LANES` copies in rooms of their own. An argument that is
not as expected leaves the call to Python's code.

    run_chain   the method of a chain: arrays of NumPy's, or a tuple of them
    operands_of where the values of an argument are
    splat       copies of one number
    do_all      some operations on so many elements
"""

from __future__ import annotations

from ftrace.devices.llvm.calling.lanes import LANES
from ftrace.devices.llvm.calling.objects import ObjectFunction, objects_ir
from ftrace.devices.llvm.calling.probe import DATA, DTYPE, FLAGS, ITEMS, ORDERLY
from ftrace.devices.llvm.runner.function import Function, View
from ftrace.devices.llvm.runner.records import Word
from ftrace.records import NamedTuple

#: Elements that go through all operations at a time.
BLOCK = 256
#: Where a number of NumPy's has its value.
_NUMBER = 16


class Chain(NamedTuple):
    """A chain.

    Attributes:
      elements: how many.
      inputs, given: how many, and their `Input`s.
      places, bases: how many, and for each where it begins; null of arrays.
      strides: for each how many bytes it moves on from block to block.
      once, first: operations on numbers, and how many.
      several, then: on each block.
      single, last: on one element, after all.
      outputs, made: how many, and their `Output`s.
      fallback: does the same in Python.
    """

    elements: Word
    inputs: Word
    given: Word
    places: Word
    bases: Word
    strides: Word
    once: Word
    first: Word
    several: Word
    then: Word
    single: Word
    last: Word
    outputs: Word
    made: Word
    fallback: Word


class Input(NamedTuple):
    """Elements of an argument.

    Attributes:
      number: of the argument.
      dtype: of the array.
      scalar: the class of a number that may come instead.
      place: where they are put.
      width: of a number that stands for all, its bytes; else 0.
      offset: bytes before the first.
    """

    number: Word
    dtype: Word
    scalar: Word
    place: Word
    width: Word
    offset: Word


class Output(NamedTuple):
    """An array that is made."""

    place: Word
    dtype: Word
    ndim: Word
    sizes: Word


class Operation(NamedTuple):
    """A loop of `element_loops.py`, the places of its operands, and their steps."""

    function: Word
    out: Word
    left: Word
    from_left: Word
    right: Word
    from_right: Word
    third: Word
    from_third: Word


def chains_ir(immortal: bool) -> str:
    """The native code of chains."""
    functions = [_operand(), _splat(), _do_all(), _run_chain(immortal)]
    return objects_ir(immortal) + "".join(f.text for f in functions)


def _operand() -> Function:
    """Where the values of an argument are; null if it is not as expected."""
    f = ObjectFunction("operand", "ptr", "ptr %input", "ptr %thing")
    row, kind = f.view("%input", Input), f.type_of("%thing")
    offset = row.number("offset")
    with f.when(f.equal("ptr", kind, f.state().pointer("ndarray"))):
        with f.when(f.differ("ptr", f.at("%thing", DTYPE), row.pointer("dtype"))):
            f.give("null")
        flags = f.load("i32", f.beyond("%thing", FLAGS))
        orderly = f.let(f"and i32 {flags}, {ORDERLY}")
        with f.when(f.differ("i32", orderly, ORDERLY)):
            f.give("null")
        f.give(f.beyond(f.at("%thing", DATA), offset))
    with f.when(f.equal("ptr", kind, row.pointer("scalar"))):
        f.give(f.beyond("%thing", _NUMBER))
    f.give("null")
    return f


def _splat() -> Function:
    """`LANES` copies of so many bytes."""
    f = Function("splat", "void", "ptr %room", "ptr %from", "i64 %width")
    for width, kind in ((1, "i8"), (4, "i32"), (8, "i64")):
        with f.when(f.let(f"icmp eq i64 %width, {width}")):
            value = f.let(f"load {kind}, ptr %from, align 1")
            wide = f"<{LANES} x {kind}>"
            first = f.let(f"insertelement {wide} poison, {kind} {value}, i64 0")
            mask = f"<{LANES} x i32> zeroinitializer"
            all_ = f.let(f"shufflevector {wide} {first}, {wide} poison, {mask}")
            f.do(f"store {wide} {all_}, ptr %room, align 64")
            f.give()
    f.give()
    return f


def _do_all() -> Function:
    parameters = ("ptr %rows", "i64 %many", "ptr %places", "i64 %count")
    f = Function("do_all", "void", *parameters)
    with f.repeat("%many") as i:
        row = f.view("%rows", Operation, i)
        operands = [f"ptr {f.slot('%places', row.number('out'))}"]
        for side in ("left", "right", "third"):
            operands.append(f"ptr {f.slot('%places', row.number(side))}")
            operands.append(f"i64 {row.number(f'from_{side}')}")
        listed = ", ".join([*operands, "i64 %count"])
        f.do(f"call void {row.pointer('function')}({listed})")
    f.give()
    return f


def _run_chain(immortal: bool) -> Function:
    """METH_FASTCALL of a tuple whose first item is the address of the chain."""
    parameters = ("ptr %self", "ptr %args", "i64 %count")
    f = ObjectFunction("run_chain", "ptr", *parameters, visible=True, immortal=immortal)
    address = f.let(f"call i64 @PyLong_AsSsize_t(ptr {f.at('%self', ITEMS)})")
    chain = f.view(f.let(f"inttoptr i64 {address} to ptr"), Chain)
    total = chain.number("places")
    places = f.pointers(f.let(f"add i64 {total}, 1"))
    f.copy(places, chain.pointer("bases"), f.let(f"shl i64 {total}, 3"))
    outputs = chain.number("outputs")
    made = f.pointers(f.let(f"add i64 {outputs}, 1"))
    filled = _arrays(f, chain, places, made)
    with f.when(f.differ("i64", f.load("i64", filled), outputs)):
        f.do("call void @PyErr_Clear()")  # no memory: NumPy will say so
        _leave(f, chain, made, f.load("i64", filled))
    _operands(f, chain, places, made, outputs)
    _compute(f, chain, places)
    with f.when(f.equal("i64", outputs, 1)):
        f.give(f.slot(made, 0))
    whole = f.let(f"call ptr @PyTuple_New(i64 {outputs})")
    with f.when(f.equal("ptr", whole, "null")):
        with f.repeat(outputs) as i:
            f.let_go(f.slot(made, i))
        f.give("null")
    f.copy(f.beyond(whole, ITEMS), made, f.let(f"shl i64 {outputs}, 3"))
    f.give(whole)
    return f


def _arrays(f: ObjectFunction, chain: View, places: str, made: str) -> str:
    """Makes the arrays; where it is counted how many there are."""
    state, filled = f.state(), f.variable("i64", 0)
    with f.repeat(chain.number("outputs")) as i:
        row = f.view(chain.pointer("made"), Output, i)
        array = f.new_ndarray(state, row)
        f.stop_if(f.equal("ptr", array, "null"))
        f.set_slot(made, i, array)
        f.set_slot(places, row.number("place"), f.at(array, DATA))
        f.store("i64", f.let(f"add i64 {i}, 1"), filled)
    return filled


def _operands(
    f: ObjectFunction, chain: View, places: str, made: str, outputs: str
) -> None:
    """Finds all arguments. No code of Python's runs from here on: rooms are shared."""
    with f.repeat(chain.number("inputs")) as i:
        row = f.view(chain.pointer("given"), Input, i)
        thing = f.slot("%args", row.number("number"))
        data = f.let(f"call ptr @operand(ptr {row.address}, ptr {thing})")
        with f.when(f.equal("ptr", data, "null")):
            _leave(f, chain, made, outputs)
        width = row.number("width")
        alone = f.differ("i64", width, 0)
        place = f.word(places, row.number("place"))
        with f.when(alone):
            room = f.load("ptr", place)
            f.do(f"call void @splat(ptr {room}, ptr {data}, i64 {width})")
        with f.when(f.let(f"xor i1 {alone}, true")):
            f.store("ptr", data, place)


def _leave(f: ObjectFunction, chain: View, made: str, filled: str) -> None:
    """Leaves the call to Python's code; the arrays that were made go."""
    with f.repeat(filled) as i:
        f.let_go(f.slot(made, i))
    call = f"ptr {chain.pointer('fallback')}, ptr %args, i64 %count, ptr null"
    f.give(f.let(f"call ptr @PyObject_VectorcallDict({call})"))


def _compute(f: ObjectFunction, chain: View, places: str) -> None:
    def do(count: str, rows: str, elements: str | int) -> None:
        operands = f"ptr {chain.pointer(rows)}, i64 {chain.number(count)}"
        f.do(f"call void @do_all({operands}, ptr {places}, i64 {elements})")

    do("once", "first", LANES)
    elements = chain.number("elements")
    more = f.let(f"add i64 {elements}, {BLOCK - 1}")
    with f.repeat(f.let(f"udiv i64 {more}, {BLOCK}")) as i:
        rest = f.let(f"sub i64 {elements}, {f.let(f'mul i64 {i}, {BLOCK}')}")
        few = f.let(f"icmp slt i64 {rest}, {BLOCK}")
        do("several", "then", f.let(f"select i1 {few}, i64 {rest}, i64 {BLOCK}"))
        with f.repeat(chain.number("places")) as k:
            stride = f.load("i64", f.word(chain.pointer("strides"), k))
            f.set_slot(places, k, f.beyond(f.slot(places, k), stride))
    do("single", "last", 1)
