"""A call in native code, from its beginning to its end.

call      what a jitted function's `__call__` is
attempt   one record: its result, null with an exception, or MISS
"""

from __future__ import annotations

import time

from ftrace.devices.llvm.call.cpython.buffer_objects import BufferObject
from ftrace.devices.llvm.call.cpython.object_ir import ObjectFunction
from ftrace.devices.llvm.call.cpython.object_layout import DATA, ITEMS, SIZE, Offsets
from ftrace.devices.llvm.call.cpython.records import Call, Capture, Make
from ftrace.devices.llvm.call.jit.match_arguments import Places
from ftrace.devices.llvm.ir.function_builder import Function, View
from ftrace.devices.llvm.runtime.vm.records import GO_ON, NO_MEMORY

#: Something is not as the record expects.
MISS = "inttoptr (i64 1 to ptr)"


def entry_ir(offsets: Offsets, immortal: bool) -> str:
    """All functions of a call."""
    functions = (
        _call(), _current(), _match(), _give_up(offsets, immortal),
        _take_all(immortal), _run(), _release(), _attempt(immortal),
    )  # fmt: skip
    return "".join(f.text for f in functions)


def _call() -> Function:
    """`Jitted.__call__`: METH_FASTCALL | METH_KEYWORDS."""
    parameters = ("ptr %self", "ptr %args", "i64 %given", "ptr %names")
    f = ObjectFunction("call", "ptr", *parameters, visible=True)
    state = f.state()
    links = f.load("ptr", f.beyond("%self", state.number("links")))
    known = f.variable("ptr", "null")
    with f.when(f.differ("ptr", links, "null")):
        kind = f.type_of(links)
        with f.when(f.equal("ptr", kind, state.pointer("ndarray"))):
            f.store("ptr", f.at(links, DATA), known)
    records = f.load("ptr", known)
    with f.when(f.differ("ptr", records, "null")):
        config = f.let("call ptr @current()")
        with f.repeat(f.load("i64", records)) as i:
            record = f.slot(records, f.let(f"add i64 {i}, 1"))
            operands = "ptr %args, i64 %given, ptr %names"
            found = f.let(f"call ptr @attempt(ptr {record}, {operands}, ptr {config})")
            with f.when(f.differ("ptr", found, MISS)):
                f.give(found)
    _call_plain(f)
    return f


def _call_plain(f: ObjectFunction) -> None:
    """Leaves the call to Python's code, and ends."""
    named = f.variable("i64", 0)
    with f.when(f.differ("ptr", "%names", "null")):
        f.store("i64", f.load("i64", f.beyond("%names", SIZE)), named)
    total = f.let(f"add i64 {f.load('i64', named)}, %given")
    operands = f.pointers(f.let(f"add i64 {total}, 1"))
    f.set_slot(operands, 0, "%self")
    f.copy(f.word(operands, 1), "%args", f.let(f"shl i64 {total}, 3"))
    count = f.let("add i64 %given, 1")
    plain = f.state().pointer("plain")
    call = f"ptr {plain}, ptr {operands}, i64 {count}, ptr %names"
    f.give(f.let(f"call ptr @PyObject_VectorcallMethod({call})"))


def _current() -> Function:
    """The configuration in force, borrowed; null where that cannot be said."""
    f = ObjectFunction("current", "ptr")
    state, found = f.state(), f.variable("ptr", "null")
    operands = f"ptr {state.pointer('variable')}, ptr null, ptr {found}"
    status = f.let(f"call i32 @PyContextVar_Get({operands})")
    with f.when(f.differ("i32", status, 0)):
        f.do("call void @PyErr_Clear()")
        f.give("null")
    config = f.load("ptr", found)
    with f.when(f.differ("ptr", config, "null")):
        f.let_go(config)  # the context keeps it
        with f.when(f.differ("ptr", config, state.pointer("none"))):
            f.give(config)
    pair = f"ptr {state.pointer('settings')}, ptr {state.pointer('default')}"
    f.give(f.let(f"call ptr @PyDict_GetItem({pair})"))
    return f


def _match() -> Function:
    """Are the arguments as a record expects? 1 or 0; fills the places."""
    parameters = (
        "ptr %record", "ptr %args", "i64 %given", "ptr %names", "ptr %places",
    )  # fmt: skip
    f = ObjectFunction("match", "i32", *parameters)
    record = f.view("%record", Call)
    with f.when(f.differ("i64", "%given", record.number("positional"))):
        f.give(0)
    count = f.variable("i64", 0)
    with f.when(f.differ("ptr", "%names", "null")):
        f.store("i64", f.load("i64", f.beyond("%names", SIZE)), count)
    named, names = record.number("named"), record.pointer("names")
    with f.when(f.differ("i64", f.load("i64", count), named)):
        f.give(0)
    with f.repeat(named) as i:
        name = f.slot(f.beyond("%names", ITEMS), i)
        with f.when(f.differ("ptr", name, f.slot(names, i))):
            f.give(0)
    parts = record.pointer("parts")
    with f.repeat(f.let(f"add i64 {named}, %given")) as i:
        _find(f, f.slot(parts, i), f.slot("%args", i))
    captured = record.pointer("captured")
    with f.repeat(record.number("captures")) as i:
        capture = f.view(captured, Capture, i)
        _find(f, capture.pointer("part"), capture.pointer("array"))
    f.give(1)
    return f


def _find(f: ObjectFunction, part: str, thing: str) -> None:
    operands = f"ptr {part}, ptr {thing}, ptr %places"
    found = f.let(f"call i32 @find({operands})")
    with f.when(f.equal("i32", found, 0)):
        f.give(0)


def _give_up(offsets: Offsets, immortal: bool) -> Function:
    """Arrays that the caller gives up have no memory from now on; the call has it."""
    parameters = ("ptr %record", "ptr %cells")
    f = ObjectFunction("give_up", "void", *parameters, immortal=immortal)
    record, none = f.view("%record", Call), f.state().pointer("none")
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
    f.give()
    return f


def _take_all(immortal: bool) -> Function:
    """Takes the buffers of a call; how many it has got: all, or there was an error."""
    parameters = ("ptr %record", "ptr %frame", "ptr %held")
    f = ObjectFunction("take_all", "i64", *parameters, immortal=immortal)
    record, state = f.view("%record", Call), f.state()
    made, inputs = record.pointer("made"), record.number("inputs")
    makes = record.number("makes")
    with f.repeat(makes) as i:
        make = f.view(made, Make, i)
        index, nbytes = make.number("size_class"), make.number("nbytes")
        free = f.let(f"call ptr @take(i64 {index}, i64 {nbytes})")
        buffer = f.variable("ptr", free)
        with f.when(f.equal("ptr", free, "null")):
            operands = f"ptr @two_numbers, i64 {index}, i64 {nbytes}"
            more = f"ptr {state.pointer('more')}, {operands}"
            new = f.let(f"call ptr (ptr, ptr, ...) @PyObject_CallFunction({more})")
            with f.when(f.equal("ptr", new, "null")):
                f.give(f.let(f"add i64 {inputs}, {i}"))
            f.store("ptr", new, buffer)
        found, number = f.load("ptr", buffer), f.let(f"add i64 {inputs}, {i}")
        f.set_slot("%held", number, found)
        f.set_slot("%frame", number, f.view(found, BufferObject).pointer("data"))
    f.give(f.let(f"add i64 {inputs}, {makes}"))
    return f


def _run() -> Function:
    """Runs the program and counts; its status."""
    f = ObjectFunction("run_counted", "i32", "ptr %record", "ptr %frame")
    record, state = f.view("%record", Call), f.state()
    start = _now(f)
    operands = f"ptr {record.pointer('entry')}, ptr %frame"
    threads = record.number("threads")
    status = f.let(f"call i32 @run_pointers({operands}, i64 {threads})")
    spent = f.let(f"sub i64 {_now(f)}, {start}")
    f.add_to(state, "nanoseconds", spent)
    for field in ("kernels", "operations", "bytes"):
        f.add_to(state, field, record.number(field))
    f.give(status)
    return f


def _now(f: Function) -> str:
    """Nanoseconds of a clock that only goes forward; 0 where there is none."""
    number = getattr(time, "CLOCK_MONOTONIC", None)
    if number is None:
        return "0"
    clock = f.place("i64", 2)
    f.do(f"call i32 @clock_gettime(i32 {number}, ptr {clock})")
    whole = f.let(f"mul i64 {f.load('i64', clock)}, 1000000000")
    return f.let(f"add i64 {whole}, {f.load('i64', f.word(clock, 1))}")


def _release() -> Function:
    """Lets go of the first `count` objects of a call, and of the record's owner."""
    f = ObjectFunction("release", "void", "ptr %held", "i64 %count", "ptr %owner")
    with f.repeat("%count") as i:
        f.let_go(f.slot("%held", i))
    f.let_go("%owner")
    f.give()
    return f


def _attempt(immortal: bool) -> Function:
    parameters = (
        "ptr %record", "ptr %args", "i64 %given", "ptr %names", "ptr %config",
    )  # fmt: skip
    f = ObjectFunction("attempt", "ptr", *parameters, immortal=immortal)
    record = f.view("%record", Call)
    with f.when(f.differ("ptr", "%config", record.pointer("config"))):
        f.give(MISS)
    inputs, makes = record.number("inputs"), record.number("makes")
    objects = f.let(f"add i64 {inputs}, {makes}")
    frame, held, cells = (f.pointers(f.let(f"add i64 {objects}, 1")) for _ in "fhc")
    places = f.new(Places)
    for field, place in zip(Places._fields, (frame, held, cells), strict=True):
        places.set(field, place, "ptr")
    given = f"ptr %args, i64 %given, ptr %names, ptr {places.address}"
    found = f.let(f"call i32 @match(ptr %record, {given})")
    with f.when(f.equal("i32", found, 0)):
        f.give(MISS)
    with f.when(f.differ("i64", record.number("overwrites"), 0)):
        alone = f.let(f"call i32 @all_differ(ptr %record, ptr {held})")
        with f.when(f.equal("i32", alone, 0)):
            f.give(MISS)
    # From here on Python's code may run, here or in other threads.
    owner = record.pointer("owner")
    f.hold(owner)
    with f.repeat(inputs) as i:
        f.hold(f.slot(held, i))
    with f.when(f.differ("i64", record.number("donations"), 0)):
        f.do(f"call void @give_up(ptr %record, ptr {cells})")
    working = f"ptr %record, ptr {frame}"
    taken = f.let(f"call i64 @take_all({working}, ptr {held})")
    result = f.variable("ptr", "null")
    with f.when(f.equal("i64", taken, objects)):
        status = f.let(f"call i32 @run_counted({working})")
        _conclude(f, record, held, status, result)
    f.do(f"call void @release(ptr {held}, i64 {taken}, ptr {owner})")
    f.give(f.load("ptr", result))
    return f


def _conclude(
    f: ObjectFunction, record: View, held: str, status: str, result: str
) -> None:
    """Builds the result of a program that ran, or raises what it says."""
    with f.when(f.equal("i32", status, GO_ON)):
        operands = f"ptr {record.pointer('result')}, ptr {held}"
        f.store("ptr", f.let(f"call ptr @build({operands})"), result)
    with f.when(f.equal("i32", status, NO_MEMORY)):
        function = f.state().pointer("no_memory")
        f.do(f"call ptr @PyObject_CallObject(ptr {function}, ptr null)")
