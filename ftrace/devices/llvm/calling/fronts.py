"""Eager operations in native code: calls like earlier ones, straight to NumPy.

A *front* stands before a function of Python that works on arrays. It looks at the
arguments, and where it has a record for such ones it does the steps of the record:

    key     the function, the settings, and of each argument: the type of an Array,
            the class of a float, of anything else the very object
    steps   calls of NumPy, each with places for what the call was given or has made

What it has no record for goes to the function; the eighth time it is learned
(`learning.py`). While anything is traced no records are used.

    keys.py         keys
    performing.py   steps
    here            `front`, what is called: looks a record up, has others learned
"""

from __future__ import annotations

from ftrace.devices.llvm.calling.entry import MISS
from ftrace.devices.llvm.calling.keys import (
    AGAIN,
    ARGUMENTS,
    BY_PLACE,
    BY_VALUE,
    LEAVES,
    MODES,
    UPDATES,
    WORDS,
    Kit,
    keys_ir,
    refuse_if,
)
from ftrace.devices.llvm.calling.objects import ObjectFunction
from ftrace.devices.llvm.calling.performing import Front, performing_ir
from ftrace.devices.llvm.calling.probe import ITEMS, SIZE, Offsets
from ftrace.devices.llvm.calling.surface import PLACES, TRIED
from ftrace.devices.llvm.runner.function import Function, View
from ftrace.trace.tiering import CALLS_BEFORE_RECORD as CALLS_BEFORE

#: The low bits of a mark are a count.
COUNTED = 15


def fronts_ir(
    offsets: Offsets, immortal: bool, methods: int, operators: int, index: int
) -> str:
    """All functions of fronts.

    Args:
      methods: how many the class of arrays has; operators are the first of them.
      index: the number of `x[…]`.
    """
    functions = [_is_same(), _front(immortal), _call_eager(), _method(operators, index)]
    functions += [_stub(number) for number in range(methods)]
    own = "".join(f.text for f in functions)
    return keys_ir(offsets) + performing_ir(offsets, immortal) + own


def _is_same() -> Function:
    f = ObjectFunction("is_same", "i32", "ptr %record", "ptr %kit", "i64 %hash")
    record, kit = f.view("%record", Front), f.view("%kit", Kit)
    refuse_if(f, f.differ("i64", record.number("hash"), "%hash"))
    used = kit.number("used")
    refuse_if(f, f.differ("i64", record.number("used"), used))
    known, given = record.pointer("words"), kit.pointer("words")
    with f.repeat(used) as i:
        refuse_if(f, f.differ("ptr", f.slot(known, i), f.slot(given, i)))
    f.give(1)
    return f


def _front(immortal: bool) -> Function:
    """`front(function, arguments, how many by position, names of the others)`."""
    parameters = (
        "ptr %function", "ptr %args", "i64 %given", "ptr %names", "i64 %mode",
    )  # fmt: skip
    f = ObjectFunction("front", "ptr", *parameters, immortal=immortal)
    named = _named(f)
    count = f.let(f"add i64 {named}, %given")
    _leave_if(f, f.let(f"icmp ugt i64 {count}, {ARGUMENTS}"))
    _leave_if(f, f.differ("i64", f.state().number("learning"), 0))
    traces = f.load("i64", f.beyond(f.state().pointer("traces"), SIZE))
    _leave_if(f, f.differ("i64", traces, 0))
    kit = _noted(f, count, named)
    whole = _hashed(f, kit)
    home = f.let(f"and i64 {whole}, {PLACES - 1}")
    _perform_known(f, kit, whole, home)
    _count_call(f, whole, home)
    _learn(f, kit, whole, count)
    return f


def _leave_if(f: Function, condition: str) -> None:
    """Leaves the call to Python's code."""
    with f.when(condition):
        plain = "ptr %function, ptr %args, i64 %given, ptr %names"
        f.give(f.let(f"call ptr @plain_call({plain})"))


def _named(f: Function) -> str:
    """How many arguments have names."""
    some = f.variable("i64", 0)
    with f.when(f.let("icmp ne ptr %names, null")):
        f.store("i64", f.load("i64", f.beyond("%names", SIZE)), some)
    return f.load("i64", some)


def _noted(f: ObjectFunction, count: str, named: str) -> View:
    """The key, where there is one; else leaves."""
    kit = f.new(Kit)
    words, leaves = f.place("ptr", WORDS + 1), f.place("ptr", LEAVES)
    for field, place in (("words", words), ("leaves", leaves)):
        kit.set(field, place, "ptr")
    config = f.let("call ptr @current()")
    apart = f.let(f"mul i64 %mode, {MODES}")
    both = f.let(f"add i64 {count}, {apart}")
    shape = f.let(f"inttoptr i64 {both} to ptr")
    by_name = f.let(f"inttoptr i64 {named} to ptr")
    for number, word in enumerate(("%function", config, by_name, shape)):
        f.set_slot(words, number, word)
    status = f.variable("i32", 0)
    with f.repeat(1 << 20):
        operands = f"ptr %args, i64 {count}, ptr %names, i64 {named}, i64 %mode"
        noted = f.let(f"call i32 @note_all({operands}, ptr {kit.address})")
        f.store("i32", noted, status)
        f.stop_if(f.differ("i32", f.load("i32", status), AGAIN))
    _leave_if(f, f.differ("i32", f.load("i32", status), 1))
    return kit


def _hashed(f: Function, kit: View) -> str:
    """The hash of a key."""
    hashed, words = f.variable("i64", 0), kit.pointer("words")
    with f.repeat(kit.number("used")) as i:
        word = f.load("i64", f.word(words, i))
        mixed = f.let(f"xor i64 {f.load('i64', hashed)}, {word}")
        spread = f.let(f"mul i64 {mixed}, {0x9E3779B97F4A7C15 - (1 << 64)}")
        high = f.let(f"lshr i64 {spread}, 29")
        f.store("i64", f.let(f"xor i64 {spread}, {high}"), hashed)
    return f.load("i64", hashed)


def _perform_known(f: ObjectFunction, kit: View, whole: str, home: str) -> None:
    """Does the steps of the record of a key, and ends, where there is one."""
    table = f.state().pointer("fronts")
    with f.repeat(TRIED) as i:
        beyond = f.let(f"add i64 {home}, {i}")
        place = f.let(f"and i64 {beyond}, {PLACES - 1}")
        record = f.slot(table, place)
        f.stop_if(f.equal("ptr", record, "null"))
        same = f"ptr {record}, ptr {kit.address}, i64 {whole}"
        known = f.let(f"call i32 @is_same({same})")
        with f.when(f.differ("i32", known, 0)):
            steps = f.view(record, Front).number("steps")
            _leave_if(f, f.let(f"icmp slt i64 {steps}, 0"))
            leaves = kit.pointer("leaves")
            found = f.let(f"call ptr @perform(ptr {record}, ptr {leaves})")
            with f.when(f.differ("ptr", found, MISS)):
                f.give(found)
            _leave_if(f, "true")
            f.give("null")


def _count_call(f: ObjectFunction, whole: str, home: str) -> None:
    """Leaves, unless calls like this one have come often.

    A mark has the high bits of a hash, and how often that came. Where there is no mark
    for another one, the count of the first is halved, until it has to go.
    """
    marks, often = f.state().pointer("marks"), f.variable("i64", 0)
    mine = f.let(f"and i64 {whole}, {~COUNTED}")
    with f.repeat(TRIED) as i:
        beyond = f.let(f"add i64 {home}, {i}")
        mark = f.word(marks, f.let(f"and i64 {beyond}, {PLACES - 1}"))
        before = f.load("i64", mark)
        with f.when(f.equal("i64", before, 0)):
            f.store("i64", f.let(f"or i64 {mine}, 1"), mark)
            _leave_if(f, "true")
        same = f.equal("i64", f.let(f"and i64 {before}, {~COUNTED}"), mine)
        with f.when(same):
            calls = f.let(f"add i64 {before}, 1")
            f.store("i64", calls, mark)
            count = f.let(f"and i64 {calls}, {COUNTED}")
            _leave_if(f, f.let(f"icmp slt i64 {count}, {CALLS_BEFORE}"))
            f.store("i64", 0, mark)
            f.store("i64", 1, often)
        f.stop_if(same)
    with f.when(f.equal("i64", f.load("i64", often), 0)):
        first = f.word(marks, home)
        before = f.load("i64", first)
        count = f.let(f"and i64 {before}, {COUNTED}")
        half = f.let(f"lshr i64 {count}, 1")
        less = f.let(f"or i64 {f.let(f'and i64 {before}, {~COUNTED}')}, {half}")
        none = f.equal("i64", half, 0)
        f.store("i64", f.let(f"select i1 {none}, i64 0, i64 {less}"), first)
        _leave_if(f, "true")


def _learn(f: ObjectFunction, kit: View, whole: str, count: str) -> None:
    """Has a call learned, and ends with what that gives."""
    used, words = kit.number("used"), kit.pointer("words")
    f.store("i64", whole, f.word(words, used))
    nbytes = f.let(f"shl i64 {f.let(f'add i64 {used}, 1')}, 3")
    key = f.let(f"call ptr @PyBytes_FromStringAndSize(ptr {words}, i64 {nbytes})")
    with f.when(f.equal("ptr", key, "null")):
        f.give("null")
    given = f.let(f"call ptr @PyTuple_New(i64 {count})")
    with f.when(f.equal("ptr", given, "null")):
        f.let_go(key)
        f.give("null")
    with f.repeat(count) as i:
        thing = f.slot("%args", i)
        f.hold(thing)
        f.set_slot(f.beyond(given, ITEMS), i, thing)
    state, names = f.state(), f.variable("ptr", "%names")
    with f.when(f.equal("ptr", "%names", "null")):
        f.store("ptr", state.pointer("none"), names)
    named, learn = f.load("ptr", names), state.pointer("learn")
    found = f.ask(learn, "%function", given, named, key)
    for thing in (key, given):
        f.let_go(thing)
    f.give(found)


def _call_eager() -> Function:
    """`Eager.__call__`: METH_FASTCALL | METH_KEYWORDS."""
    parameters = ("ptr %self", "ptr %args", "i64 %given", "ptr %names")
    f = ObjectFunction("call_eager", "ptr", *parameters, visible=True)
    state = f.state()
    function = f.at("%self", state.number("behind"))
    numbers = f.at("%self", state.number("numbers"))
    fixed = f.differ("ptr", numbers, state.pointer("true"))
    mode = f.variable("i64", f.let(f"zext i1 {fixed} to i64"))
    indexed = f.equal(
        "ptr", f.at("%self", state.number("indexed")), state.pointer("true")
    )
    with f.when(indexed):
        index = f.let(f"select i1 {fixed}, i64 1, i64 2")
        with f.when(f.let(f"icmp ugt i64 %given, {index}")):  # not by name
            found = f.let(f"select i1 {fixed}, i64 {BY_PLACE}, i64 {UPDATES}")
            f.store("i64", found, mode)
        with f.when(f.let(f"icmp ule i64 %given, {index}")):
            f.store("i64", BY_VALUE, mode)
    operands = "ptr %args, i64 %given, ptr %names"
    call = f"ptr {function}, {operands}, i64 {f.load('i64', mode)}"
    f.give(f.let(f"call ptr @front({call})"))
    return f


def _method(operators: int, index: int) -> Function:
    """A method of arrays, by its number: the array goes before the arguments.

    Args:
      operators: how many are operators, the first ones.
      index: the number of `x[…]`.
    """
    parameters = ("ptr %self", "ptr %args", "i64 %given", "ptr %names", "i64 %number")
    f = ObjectFunction("method", "ptr", *parameters)
    function = f.slot(f.state().pointer("methods"), "%number")
    total = f.let(f"add i64 {_named(f)}, %given")
    operands = f.pointers(f.let(f"add i64 {total}, 1"))
    f.set_slot(operands, 0, "%self")
    f.copy(f.word(operands, 1), "%args", f.let(f"shl i64 {total}, 3"))
    count = f.let("add i64 %given, 1")
    named_ones = f.let(f"icmp uge i64 %number, {operators}")
    by_value = f.let(f"zext i1 {named_ones} to i64")
    is_index = f.equal("i64", "%number", index)
    mode = f.let(f"select i1 {is_index}, i64 {BY_PLACE}, i64 {by_value}")
    call = f"ptr {function}, ptr {operands}, i64 {count}, ptr %names, i64 {mode}"
    f.give(f.let(f"call ptr @front({call})"))
    return f


def _stub(number: int) -> Function:
    parameters = ("ptr %self", "ptr %args", "i64 %given", "ptr %names")
    f = ObjectFunction(f"method_{number}", "ptr", *parameters, visible=True)
    operands = f"ptr %self, ptr %args, i64 %given, ptr %names, i64 {number}"
    f.give(f.let(f"call ptr @method({operands})"))
    return f
