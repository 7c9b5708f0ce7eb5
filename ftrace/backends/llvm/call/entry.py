"""A call in native code, from its beginning to its end.

call         what a jitted function's `__call__` is
call_eager   what a public function's is; the methods of arrays are such functions
attempt      one record: its result, null with an exception, MISS, or LEAVE
run_loops    what NumPy's loops make of the leaves of an eager call
run_function what NumPy makes of them

What there is no record for goes to the method `plain_call`, which counts it and makes
records. While anything is traced or recorded no eager call is native.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import numpy as np

from ftrace.backends.llvm.call import object_layout as layout, records as r
from ftrace.backends.llvm.call.match_arguments import (
    FINDERS,
    Findings,
    all_differ,
    arguments,
    require,
)
from ftrace.backends.llvm.call.object_ir import (
    VARIABLES,
    ObjectFunction,
    build,
    objects,
    take,
)
from ftrace.backends.llvm.ir.function_builder import Function, Routines, module_text
from ftrace.backends.llvm.ir.writer import Type
from ftrace.backends.llvm.runtime.records import CUT, GO_ON, NO_MEMORY
from ftrace.backends.llvm.runtime.runner import nanoseconds
from ftrace.backends.llvm.scalar.instructions import Vectors
from ftrace.backends.llvm.scalar.ops import cast

#: Something is not as the record expects; Python's code shall do this call.
MISS, LEAVE = "inttoptr (i64 1 to ptr)", "inttoptr (i64 2 to ptr)"
#: A vectorcall may use the place before its arguments.
_OFFSET = (1 << 63) - (1 << 64)
_CALLED = ("ptr %self", "ptr %args", "i64 %given", "ptr %names")

entries = Routines(ObjectFunction)


def native_ir(offsets: layout.Offsets, methods: int) -> str:
    """The text of all native code of calls, for an interpreter's layout.

    Args:
      offsets: of the slots of Arrays and buffers.
      methods: how many methods of arrays are public functions.
    """
    written = (objects, arguments, entries)
    functions = [f for routines in written for f in routines.functions(offsets)]
    loops, stubs = map(_select, r.SELECT), map(_stub, range(methods))
    casts = map(_cast, r.CASTS)
    return module_text(VARIABLES + FINDERS, [*functions, *loops, *casts, *stubs])


@entries("ptr", *_CALLED, visible=True)
def call(f: ObjectFunction) -> None:
    """`Jitted.__call__`: METH_FASTCALL | METH_KEYWORDS."""
    found = try_records(f, "%self", "%args", "%given", "%names")
    f.ret_if(f.differ("ptr", found, MISS), found)
    _call_plain(f)


@entries("ptr", *_CALLED, visible=True)
def call_eager(f: ObjectFunction) -> None:
    """`Eager.__call__`, likewise."""
    state = f.state()
    traced = f.load("i64", f.beyond(state.pointer("traces"), layout.SIZE))
    busy = f.let(f"or i64 {traced}, {state.number('recording')}")
    with f.when(f.equal("i64", busy, 0)):
        found = try_records(f, "%self", "%args", "%given", "%names")
        with f.when(f.equal("ptr", found, MISS)):
            _call_plain(f)
        f.ret_if(f.differ("ptr", found, LEAVE), found)
    function = f.at("%self", state.number("behind"))
    operands = function, "%args", "%given", "%names"
    f.ret(f.outside("ptr plain_call(ptr, ptr, i64, ptr)", *operands))


@entries("ptr", *_CALLED)
def try_records(f: ObjectFunction) -> None:
    """What the first record makes of a call that fits it."""
    holder = f.at("%self", f.state().number("links"))
    f.ret_if(f.equal("ptr", holder, "null"), MISS)
    kind = f.type_of(holder)
    f.ret_if(f.differ("ptr", kind, f.state().pointer("ndarray")), MISS)
    records, config = f.at(holder, layout.DATA), current(f)
    with f.repeat(f.load("i64", records)) as i:
        record = f.slot(records, f.let(f"add i64 {i}, 1"))
        found = attempt(f, record, "%args", "%given", "%names", config)
        f.ret_if(f.differ("ptr", found, MISS), found)
    f.ret(MISS)


def _call_plain(f: ObjectFunction) -> None:
    """Leaves the call to Python's code, and ends."""
    operands, count = _with_self(f)
    plain = f.state().pointer("plain")
    call = plain, operands, count, "%names"
    f.ret(f.outside("ptr PyObject_VectorcallMethod(ptr, ptr, i64, ptr)", *call))


def _with_self(f: ObjectFunction) -> tuple[str, str]:
    """The arguments with the object that is called before them, and how many."""
    total = f.sum(_count_named(f), "%given")
    operands = f.pointers(f.sum(total, 1))
    f.set_slot(operands, 0, "%self")
    f.copy(f.word(operands, 1), "%args", f.let(f"shl i64 {total}, 3"))
    return operands, f.sum("%given", 1)


def _count_named(f: ObjectFunction) -> str:
    """How many arguments have names."""
    count = f.variable("i64", 0)
    with f.when(f.differ("ptr", "%names", "null")):
        f.store("i64", f.load("i64", f.beyond("%names", layout.SIZE)), count)
    return f.load("i64", count)


@entries("ptr")
def current(f: ObjectFunction) -> None:
    """The configuration in force, borrowed; null where that cannot be said."""
    state, found = f.state(), f.variable("ptr", "null")
    given = state.pointer("variable"), "null", found
    status = f.outside("i32 PyContextVar_Get(ptr, ptr, ptr)", *given)
    with f.when(f.differ("i32", status, 0)):
        f.outside("void PyErr_Clear()")
        f.ret("null")
    config = f.load("ptr", found)
    with f.when(f.differ("ptr", config, "null")):
        f.let_go(config)  # the context keeps it
        f.ret_if(f.differ("ptr", config, state.pointer("none")), config)
    pair = state.pointer("settings"), state.pointer("default")
    f.ret(f.outside("ptr PyDict_GetItem(ptr, ptr)", *pair))


@entries("i32", "ptr %record", "ptr %args", "i64 %given", "ptr %names", "ptr %findings")
def match(f: ObjectFunction) -> None:
    """Are the arguments as a record expects? 1 or 0; fills the places."""
    record = f.view("%record", r.Call)
    f.ret_if(f.differ("i64", "%given", record.number("positional")), 0)
    named, names = record.number("named"), record.pointer("names")
    f.ret_if(f.differ("i64", _count_named(f), named), 0)
    with f.repeat(named) as i:
        name = f.slot(f.beyond("%names", layout.ITEMS), i)
        f.ret_if(f.differ("ptr", name, f.slot(names, i)), 0)
    patterns = record.pointer("patterns")
    with f.repeat(f.let(f"add i64 {named}, %given")) as i:
        require(f, f.slot(patterns, i), f.slot("%args", i))
    captured = record.pointer("captured")
    with f.rows(captured, r.Capture, record.number("captures")) as capture:
        require(f, capture.pointer("pattern"), capture.pointer("array"))
    f.ret(1)


@entries("void", "ptr %record", "ptr %cells")
def give_up(f: ObjectFunction, offsets: layout.Offsets) -> None:
    """Arrays that the caller gives up have no memory from now on; the call has it."""
    record, none = f.view("%record", r.Call), f.state().pointer("none")
    donated = record.pointer("donated")
    with f.repeat(record.number("donations")) as i:
        array = f.slot("%cells", f.load("i64", f.word(donated, i)))
        for offset in (offsets.buffer, offsets.host):
            place = f.beyond(array, offset)
            before = f.load("ptr", place)
            f.hold(none)
            f.store("ptr", none, place)
            with f.when(f.differ("ptr", before, "null")):
                f.let_go(before)
    f.ret()


@entries("i64", "ptr %record", "ptr %frame", "ptr %held")
def take_all(f: ObjectFunction) -> None:
    """Takes the buffers of a call; how many it has got: all, or there was an error."""
    record, state = f.view("%record", r.Call), f.state()
    made, inputs = record.pointer("made"), record.number("inputs")
    makes = record.number("makes")
    with f.repeat(makes) as i:
        make = f.view(made, r.Make, i)
        index, nbytes = make.number("size_class"), make.number("nbytes")
        free = take(f, index, nbytes)
        buffer = f.variable("ptr", free)
        with f.when(f.equal("ptr", free, "null")):
            operands = f"ptr @two_numbers, i64 {index}, i64 {nbytes}"
            more = f"ptr {state.pointer('more')}, {operands}"
            new = f.let(f"call ptr (ptr, ptr, ...) @PyObject_CallFunction({more})")
            with f.when(f.equal("ptr", new, "null")):
                f.ret(f.let(f"add i64 {inputs}, {i}"))
            f.store("ptr", new, buffer)
        found, number = f.load("ptr", buffer), f.let(f"add i64 {inputs}, {i}")
        f.set_slot("%held", number, found)
        f.set_slot("%frame", number, f.view(found, r.BufferObject).pointer("data"))
    f.ret(f.let(f"add i64 {inputs}, {makes}"))


@entries("i32", "ptr %record", "ptr %frame")
def run_counted(f: ObjectFunction) -> None:
    """Runs the program and counts; its status."""
    record, state = f.view("%record", r.Call), f.state()
    start = nanoseconds(f)
    given = record.pointer("entry"), "%frame", record.number("threads")
    status = f.outside("i32 run_pointers(ptr, ptr, i64)", *given)
    spent = f.let(f"sub i64 {nanoseconds(f)}, {start}")
    f.add_to(state, "nanoseconds", spent)
    for field in ("kernels", "operations", "bytes"):
        f.add_to(state, field, record.number(field))
    f.ret(status)


@entries("ptr", "ptr %record", "ptr %args", "i64 %given", "ptr %names", "ptr %config")
def attempt(f: ObjectFunction) -> None:
    """Tries one record: its results, or MISS where it takes other arguments."""
    record = f.view("%record", r.Call)
    f.ret_if(f.differ("ptr", "%config", record.pointer("config")), MISS)
    inputs, makes = record.number("inputs"), record.number("makes")
    objects, sizes = f.let(f"add i64 {inputs}, {makes}"), record.number("sizes")
    places = f.sum(f.sum(objects, sizes), 2)
    frame, held, cells = (f.pointers(places) for _ in "fhc")
    found_at = f.new(Findings)
    for field, place in zip(Findings.fields, (frame, held, cells), strict=True):
        found_at.set(field, place, "ptr")
    found = match(f, "%record", "%args", "%given", "%names", found_at.address)
    f.ret_if(f.equal("i32", found, 0), MISS)
    with f.when(f.differ("i64", record.number("overwrites"), 0)):
        alone = all_differ(f, "%record", held)
        f.ret_if(f.equal("i32", alone, 0), MISS)
    # From here on Python's code may run, here or in other threads.
    owner = record.pointer("owner")
    f.hold(owner)
    with f.repeat(inputs) as i:
        f.hold(f.slot(held, i))
    with f.when(f.differ("ptr", record.pointer("function"), "null")):
        made = f.variable("ptr", "null")
        with f.when(f.differ("ptr", record.pointer("loops"), "null")):
            f.store("ptr", run_loops(f, "%record", held, frame), made)
        with f.when(f.equal("ptr", f.load("ptr", made), "null")):
            f.store("ptr", run_function(f, "%record", held), made)
        _release(f, held, inputs, owner)
        f.ret(f.load("ptr", made))
    with f.when(f.differ("i64", record.number("donations"), 0)):
        give_up(f, "%record", cells)
    nbytes = f.let(f"shl i64 {sizes}, 3")
    f.copy(f.word(frame, objects), record.pointer("dims"), nbytes)
    taken = take_all(f, "%record", frame, held)
    result = f.variable("ptr", "null")
    with f.when(f.equal("i64", taken, objects)):
        status = run_counted(f, "%record", frame)
        with f.when(f.equal("i32", status, GO_ON)):
            f.store("ptr", build(f, record.pointer("result"), held), result)
        with f.when(f.equal("i32", status, CUT)):  # what MPI may still use stays
            f.let_go(owner)
            f.ret("null")
        with f.when(f.equal("i32", status, NO_MEMORY)):
            function = f.state().pointer("no_memory")
            f.outside("ptr PyObject_CallObject(ptr, ptr)", function, "null")
    _release(f, held, taken, owner)
    f.ret(f.load("ptr", result))


def _release(f: ObjectFunction, held: str, count: str, owner: str = "") -> None:
    """Lets go of the first objects of a call, and of the record's owner."""
    with f.repeat(count) as i:
        f.let_go(f.slot(held, i))
    if owner:
        f.let_go(owner)


# Eager calls.


@entries("ptr", *_CALLED, "i64 %number")
def method(f: ObjectFunction) -> None:
    """A method of arrays, by its number: the array goes before the arguments."""
    function = f.slot(f.state().pointer("methods"), "%number")
    operands, count = _with_self(f)
    f.ret(call_eager(f, function, operands, count, "%names"))


def _stub(number: int) -> Function:
    f = ObjectFunction(f"method_{number}", "ptr", *_CALLED, visible=True)
    f.ret(method(f, "%self", "%args", "%given", "%names", number))
    return f


@entries("ptr", "ptr %thing")
def host_value_of(f: ObjectFunction, offsets: layout.Offsets) -> None:
    """A new reference to an Array's values in NumPy, or to a float; or null."""
    state = f.state()
    with f.when(f.differ("ptr", f.type_of("%thing"), state.pointer("array"))):
        f.hold("%thing")
        f.ret("%thing")
    host = f.at("%thing", offsets.host)
    missing = f.equal("ptr", host, "null")
    none = f.equal("ptr", host, state.pointer("none"))
    with f.when(f.let(f"or i1 {missing}, {none}")):
        f.ret(f.ask(state.pointer("host_of"), "%thing"))
    f.hold(host)
    f.ret(host)


@entries("ptr", "ptr %record", "ptr %held", "ptr %frame")
def run_loops(f: ObjectFunction) -> None:
    """What loops make of the leaves; null where NumPy shall do it."""
    record, state = f.view("%record", r.Call), f.state()
    loops, inputs = f.view(record.pointer("loops"), r.Loops), record.number("inputs")
    with f.repeat(inputs) as i:
        f.ret_if(f.equal("ptr", f.slot("%frame", i), "null"), "null")
    made, result = f.variable("i64", 0), f.variable("ptr", "null")
    behind, places = (f.word(x, inputs) for x in ("%held", "%frame"))
    count = loops.number("makes")
    with f.rows(loops.pointer("made"), r.NewArray, count) as new:
        dtype, number = new.pointer("dtype"), f.load("i64", made)
        f.hold(dtype)
        ndim = f.let(f"trunc i64 {new.number('ndim')} to i32")
        array = f.let(
            f"call ptr {state.pointer('make_array')}(ptr {state.pointer('ndarray')}, "
            f"ptr {dtype}, i32 {ndim}, ptr {new.pointer('sizes')}, ptr null, ptr null, "
            "i32 0, ptr null)"
        )
        f.stop_if(f.equal("ptr", array, "null"))
        f.set_slot(behind, number, array)
        f.set_slot(places, number, f.at(array, layout.DATA))
        f.store("i64", f.sum(number, 1), made)
    with f.when(f.equal("i64", f.load("i64", made), count)):
        memory = loops.pointer("memory")
        f.set_slot(places, count, memory)
        f.store("i64", 0, memory)
        with f.rows(loops.pointer("loops"), r.Loop, loops.number("count")) as loop:
            run_loop(f, loop.address, "%frame")
        with f.when(f.equal("i64", f.load("i64", memory), 0)):
            f.store("ptr", build(f, record.pointer("result"), "%held"), result)
    with f.when(f.equal("ptr", f.load("ptr", result), "null")):
        f.outside("void PyErr_Clear()")  # whatever there is no memory for
    _release(f, behind, f.load("i64", made))
    f.ret(f.load("ptr", result))


#: Operands of a loop, at the most.
_OPERANDS = 8


@entries("void", "ptr %loop", "ptr %frame")
def run_loop(f: ObjectFunction) -> None:
    """`function(operands, count, strides, data)` for each row."""
    loop, given = f.view("%loop", r.Loop), f.allocate("ptr", _OPERANDS)
    with f.repeat(loop.number("rows")) as row:
        with f.repeat(loop.number("operands")) as i:
            operand = f.view(loop.pointer("places"), r.OperandLocation, i)
            behind = f.let(f"mul i64 {row}, {operand.number('step')}")
            first = f.beyond(f.slot("%frame", operand.number("slot")), behind)
            f.set_slot(given, i, f.beyond(first, operand.number("offset")))
        function, count = loop.pointer("function"), loop.at("count")
        more = f"ptr {loop.pointer('strides')}, ptr {loop.pointer('data')}"
        f.do(f"call void {function}(ptr {given}, ptr {count}, {more})")
    f.ret()


def _select(size: int) -> Function:
    """`where(chosen, x, y)`, a loop as those of NumPy are."""
    f, kind = _loop(size), f"i{8 * size}"
    with _elements(f, 4) as (chosen, x, y, result):
        holds = f.differ("i8", f.load("i8", chosen), 0)
        value = f.let(f"select i1 {holds}, ptr {x}, ptr {y}")
        f.store(kind, f.load(kind, value), result)
    f.ret()
    return f


def _cast(pair: str) -> Function:
    """`astype`, likewise."""
    f, (source, target) = _loop(pair), [Type.of(np.dtype(char), 0) for char in pair]
    with _elements(f, 2) as (x, result):
        value = f.load("i8" if source.kind == "b" else source.text, x)
        if source.kind == "b":  # any byte but 0 is true, as a mask of 255 is
            value = f.differ("i8", value, 0)
        f.store(target.text, cast(Vectors(f), value, source, target), result)
    f.ret()
    return f


def _loop(key: int | str) -> ObjectFunction:
    return ObjectFunction(
        r.LOOPS[key], "void", "ptr %operands", "ptr %count", "ptr %strides",
        "ptr %data", visible=True,
    )  # fmt: skip


@contextmanager
def _elements(f: ObjectFunction, count: int) -> Generator[list[str]]:
    """For each number: the addresses of the elements of a loop's operands."""
    pairs = [
        (f.slot("%operands", i), f.load("i64", f.word("%strides", i)))
        for i in range(count)
    ]
    with f.repeat(f.load("i64", "%count")) as i:
        yield [f.beyond(first, f.let(f"mul i64 {i}, {step}")) for first, step in pairs]


@entries("ptr", "ptr %record", "ptr %held")
def run_function(f: ObjectFunction) -> None:
    """What a function makes of the leaves, in NumPy; null with an exception, or LEAVE.

    NumPy tells of no floating-point errors meanwhile.
    """
    record, state = f.view("%record", r.Call), f.state()
    function = record.pointer("function")
    leaves, makes = record.number("inputs"), record.number("makes")
    f.ret_if(f.equal("ptr", function, state.pointer("none")), LEAVE)
    operands = f.word(f.pointers(f.sum(leaves, 1)), 1)
    filled, made = f.variable("i64", 0), f.variable("ptr", "null")
    result = f.variable("ptr", "null")
    with f.repeat(leaves) as i:
        host = host_value_of(f, f.slot("%held", i))
        f.stop_if(f.equal("ptr", host, "null"))
        f.set_slot(operands, i, host)
        f.store("i64", f.sum(i, 1), filled)
    with f.when(f.equal("i64", f.load("i64", filled), leaves)):
        variable = state.pointer("hush_variable")
        pair = variable, state.pointer("silence")
        token = f.outside("ptr PyContextVar_Set(ptr, ptr)", *pair)
        given = f.let(f"or i64 {leaves}, {_OFFSET}")
        call = function, operands, given, "null"
        whole = f.outside("ptr PyObject_VectorcallDict(ptr, ptr, i64, ptr)", *call)
        f.store("ptr", whole, made)
        f.outside("i32 PyContextVar_Reset(ptr, ptr)", variable, token)
        f.let_go(token)
    whole = f.load("ptr", made)
    with f.when(f.differ("ptr", whole, "null")):
        f.set_slot("%held", leaves, whole)
        behind, nbytes = f.word("%held", leaves), f.let(f"shl i64 {makes}, 3")
        f.copy(behind, f.beyond(whole, layout.ITEMS), nbytes)
        f.store("ptr", build(f, record.pointer("result"), "%held"), result)
        f.let_go(whole)
    _release(f, operands, f.load("i64", filled))
    with f.when(f.differ("ptr", f.load("ptr", result), "null")):
        f.ret(f.load("ptr", result))
    with f.when(f.differ("ptr", f.outside("ptr PyErr_Occurred()"), "null")):
        ordinary = state.pointer("exception")
        status = f.outside("i32 PyErr_ExceptionMatches(ptr)", ordinary)
        with f.when(f.equal("i32", status, 0)):
            f.ret("null")  # Ctrl-C is no reason to begin again
        f.outside("void PyErr_Clear()")  # Python's code says what is wrong
    f.ret(LEAVE)
