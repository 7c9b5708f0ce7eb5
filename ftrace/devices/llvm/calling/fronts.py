"""Eager operations in native code: calls like earlier ones, straight to NumPy.

A *front* stands before a function of Python that works on arrays. It looks at the
arguments, and where it has a record for such ones it does the steps of the record:

    key     the function, the settings, and of each argument: the type of an Array,
            the class of a float, of anything else the very object
    steps   calls of NumPy, each with places for what the call was given or has made

What it has no record for goes to the function; the eighth time it is learned
(`learning.py`). While anything is traced no records are used.

    front     what is called
    note      an argument as words of the key
    perform   the steps of a record
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ftrace.devices.llvm.calling.entry import MISS
from ftrace.devices.llvm.calling.objects import ObjectFunction
from ftrace.devices.llvm.calling.probe import DTYPE, ITEMS, SIZE, Offsets
from ftrace.devices.llvm.runner.function import Function, View
from ftrace.devices.llvm.runner.records import Word

#: Records are found by a part of the hash of the key, then one after the other.
PLACES, TRIED = 4096, 4
#: So many calls of one kind are left to Python; then it is learned.
CALLS_BEFORE = 8
#: Words of a key before those of the arguments: function, settings, and how many
#: there are with names and in all.
HEAD = 4
#: Words of a key, and arrays and floats among the arguments, at the most.
WORDS, LEAVES = 64, 24
#: Arguments at the most: each has two words.
ARGUMENTS = 16
#: Code of Python's has run: what was noted is to be noted again.
AGAIN = 2
#: Added to the number of arguments, in a key, where floats are told apart by value.
BY_VALUE = 256
#: Of floats: the number.
FLOAT = 16
#: Of slices: start, stop and step.
_BOUNDS = (16, 24, 32)
#: A vectorcall may use the place before its arguments.
_OFFSET = 1 << 63


class Kit(NamedTuple):
    """A key in the making.

    Attributes:
      words, used: what the arguments are, and how many words.
      leaves, found: the arrays and floats among them, and how many.
      by_value: 1 if floats are not among them, but told apart by value.
    """

    words: Word
    used: Word
    leaves: Word
    found: Word
    by_value: Word


class Front(NamedTuple):
    """Calls of one kind.

    Attributes:
      owner: the object that keeps all of this in memory.
      hash, used, words: the key.
      steps: how many; -1 leaves such calls to Python.
      list: the steps, one after the other.
      leaves: how many arrays and floats a call is given; the first values.
      values: how many values there are with those that the steps make.
      result: the number of the value that is given back.
      given: 1 if that is an argument itself.
      hushed: 1 if floating-point errors might be told of.
      made: the `ResultPart` of the result.
      loop: a `Loop` that does all steps; 0 if there is none.
    """

    owner: Word
    hash: Word
    used: Word
    words: Word
    steps: Word
    list: Word
    leaves: Word
    values: Word
    result: Word
    given: Word
    hushed: Word
    made: Word
    loop: Word


class Step(NamedTuple):
    """A call of NumPy: its function, its operands, and the places among these.

    Attributes:
      operands, arity: pointers; null where a value comes.
      holes, places: how many values, and for each its place and its number.
      value: the number of what it makes.
      dtype: what that must have; 0 for something that is no array.
    """

    function: Word
    operands: Word
    arity: Word
    holes: Word
    places: Word
    value: Word
    dtype: Word


_KIT = ("ptr %thing", "ptr %kit")


def fronts_ir(offsets: Offsets, immortal: bool, methods: int, operators: int) -> str:
    """All functions of fronts.

    Args:
      methods: how many the class of arrays has; operators are the first of them.
    """
    functions = [
        _push(), _note_array(offsets), _note_slice(), _note_items(), _note(),
        _note_all(),
        _is_same(), _hosted(offsets, immortal), _step(immortal), _settled(),
        _perform(immortal), _front(immortal), _call_eager(),
        _method(operators),
    ]  # fmt: skip
    functions += [_stub(number) for number in range(methods)]
    return "".join(f.text for f in functions)


def stubs(methods: int) -> Sequence[str]:
    """The names of the functions that are methods."""
    return [f"method_{number}" for number in range(methods)]


# The key.


def _push() -> Function:
    f = ObjectFunction("push", "void", "ptr %word", "ptr %kit")
    kit = f.view("%kit", Kit)
    used = kit.number("used")
    f.set_slot(kit.pointer("words"), used, "%word")
    kit.set("used", f.let(f"add i64 {used}, 1"))
    f.give()
    return f


def _note_leaf(f: ObjectFunction, word: str) -> None:
    """An array or a float; ends."""
    kit = f.view("%kit", Kit)
    found = kit.number("found")
    with f.when(f.let(f"icmp sge i64 {found}, {LEAVES}")):
        f.give(0)
    f.set_slot(kit.pointer("leaves"), found, "%thing")
    kit.set("found", f.let(f"add i64 {found}, 1"))
    _note_word(f, word)


def _note_word(f: ObjectFunction, word: str) -> None:
    f.do(f"call void @push(ptr {word}, ptr %kit)")
    f.give(1)


def _refuse_if(f: Function, condition: str) -> None:
    with f.when(condition):
        f.give(0)


def _note_array(offsets: Offsets) -> Function:
    """An Array in the host's memory."""
    f = ObjectFunction("note_array", "i32", *_KIT)
    state = f.state()
    aval = f.at("%thing", offsets.aval)
    with f.when(f.equal("ptr", aval, "null")):  # it knows it from now on
        operands = f"ptr {state.pointer('aval_of')}, ptr %thing, ptr null"
        made = f.let(f"call ptr (ptr, ...) @PyObject_CallFunctionObjArgs({operands})")
        with f.when(f.equal("ptr", made, "null")):
            f.do("call void @PyErr_Clear()")
            f.give(0)
        f.let_go(made)
        f.give(AGAIN)  # meanwhile a list may have changed
    none = state.pointer("none")
    buffer = f.at("%thing", offsets.buffer)
    with f.when(f.equal("ptr", buffer, none)):
        _refuse_if(f, f.equal("ptr", f.at("%thing", offsets.host), none))
        _note_leaf(f, aval)
    _refuse_if(f, f.equal("ptr", buffer, "null"))
    kind = f.type_of(buffer)
    with f.when(f.equal("ptr", kind, state.pointer("buffer"))):
        _note_leaf(f, aval)
    _refuse_if(f, f.differ("ptr", kind, state.pointer("host_buffer")))
    device = f.at(buffer, offsets.device)
    here = f.equal("ptr", device, state.pointer("device"))
    host = f.equal("ptr", device, state.pointer("host"))
    near = f.let(f"or i1 {here}, {host}")
    _refuse_if(f, f.let(f"xor i1 {near}, true"))
    _note_leaf(f, aval)
    return f


def _note_slice() -> Function:
    """A slice between integers."""
    f = ObjectFunction("note_slice", "i32", *_KIT)
    state = f.state()
    f.do(f"call void @push(ptr {state.pointer('slice')}, ptr %kit)")
    for place in _BOUNDS:
        bound = f.at("%thing", place)
        no_int = f.differ("ptr", f.type_of(bound), state.pointer("int"))
        some = f.differ("ptr", bound, state.pointer("none"))
        _refuse_if(f, f.let(f"and i1 {no_int}, {some}"))
        f.do(f"call void @push(ptr {bound}, ptr %kit)")
    f.give(1)
    return f


def _note_items() -> Function:
    """A list or a tuple."""
    f = ObjectFunction("note_items", "i32", *_KIT, "ptr %items")
    size = f.load("i64", f.beyond("%thing", SIZE))
    _refuse_if(f, f.let(f"icmp sgt i64 {size}, {ARGUMENTS}"))
    f.do(f"call void @push(ptr {f.type_of('%thing')}, ptr %kit)")
    f.do(f"call void @push(ptr {f.let(f'inttoptr i64 {size} to ptr')}, ptr %kit)")
    with f.repeat(size) as i:
        room = f.view("%kit", Kit).number("used")
        _refuse_if(f, f.let(f"icmp sgt i64 {room}, {WORDS - 6}"))
        noted = f.let(f"call i32 @note(ptr {f.slot('%items', i)}, ptr %kit)")
        with f.when(f.differ("i32", noted, 1)):
            f.give(noted)
    f.give(1)
    return f


def _note() -> Function:
    """`note(thing, kit)` -> 1, or 0 for what no record is kept of, or AGAIN."""
    f = ObjectFunction("note", "i32", *_KIT)
    state, kind = f.state(), f.type_of("%thing")
    room = f.view("%kit", Kit).number("used")
    _refuse_if(f, f.let(f"icmp sgt i64 {room}, {WORDS - 6}"))
    with f.when(f.equal("ptr", kind, state.pointer("array"))):
        f.give(f.let("call i32 @note_array(ptr %thing, ptr %kit)"))
    with f.when(f.equal("ptr", kind, state.pointer("float"))):
        by_value = f.view("%kit", Kit).number("by_value")
        with f.when(f.differ("i64", by_value, 0)):
            f.do(f"call void @push(ptr {kind}, ptr %kit)")
            _note_word(f, f.at("%thing", FLOAT))
        _note_leaf(f, kind)
    for constant in ("int", "none_type", "bool", "text", "ellipsis_type", "type"):
        with f.when(f.equal("ptr", kind, state.pointer(constant))):
            _note_word(f, "%thing")
    with f.when(f.equal("ptr", kind, state.pointer("tuple"))):
        items = f.beyond("%thing", ITEMS)
        f.give(f.let(f"call i32 @note_items(ptr %thing, ptr %kit, ptr {items})"))
    with f.when(f.equal("ptr", kind, state.pointer("list"))):
        items = f.at("%thing", ITEMS)
        f.give(f.let(f"call i32 @note_items(ptr %thing, ptr %kit, ptr {items})"))
    with f.when(f.equal("ptr", kind, state.pointer("slice"))):
        f.give(f.let("call i32 @note_slice(ptr %thing, ptr %kit)"))
    with f.when(f.equal("ptr", f.type_of(kind), state.pointer("dtypes"))):
        _note_word(f, "%thing")
    others = state.pointer("constants")
    with f.repeat(f.load("i64", f.beyond(others, SIZE))) as i:
        other = f.slot(f.at(others, ITEMS), i)
        with f.when(f.equal("ptr", kind, other)):
            _note_word(f, "%thing")
    f.give(0)
    return f


def _note_all() -> Function:
    """All arguments and the names of the last ones, likewise."""
    parameters = ("ptr %args", "i64 %count", "ptr %names", "i64 %named", "ptr %kit")
    f = ObjectFunction("note_all", "i32", *parameters)
    kit = f.view("%kit", Kit)
    kit.set("used", HEAD)
    kit.set("found", 0)
    with f.repeat("%named") as i:
        name = f.slot(f.beyond("%names", ITEMS), i)
        f.do(f"call void @push(ptr {name}, ptr %kit)")
    with f.repeat("%count") as i:
        noted = f.let(f"call i32 @note(ptr {f.slot('%args', i)}, ptr %kit)")
        with f.when(f.differ("i32", noted, 1)):
            f.give(noted)
    f.give(1)
    return f


def _is_same() -> Function:
    f = ObjectFunction("is_same", "i32", "ptr %record", "ptr %kit", "i64 %hash")
    record, kit = f.view("%record", Front), f.view("%kit", Kit)
    _refuse_if(f, f.differ("i64", record.number("hash"), "%hash"))
    used = kit.number("used")
    _refuse_if(f, f.differ("i64", record.number("used"), used))
    known, given = record.pointer("words"), kit.pointer("words")
    with f.repeat(used) as i:
        _refuse_if(f, f.differ("ptr", f.slot(known, i), f.slot(given, i)))
    f.give(1)
    return f


# The steps.


def _hosted(offsets: Offsets, immortal: bool) -> Function:
    """A new reference to an Array's values in NumPy, or to a float; or null."""
    f = ObjectFunction("hosted", "ptr", "ptr %thing", immortal=immortal)
    state = f.state()
    with f.when(f.differ("ptr", f.type_of("%thing"), state.pointer("array"))):
        f.hold("%thing")
        f.give("%thing")
    host = f.at("%thing", offsets.host)
    missing = f.equal("ptr", host, "null")
    none = f.equal("ptr", host, state.pointer("none"))
    with f.when(f.let(f"or i1 {missing}, {none}")):
        operands = f"ptr {state.pointer('host_of')}, ptr %thing, ptr null"
        call = f"call ptr (ptr, ...) @PyObject_CallFunctionObjArgs({operands})"
        f.give(f.let(call))
    f.hold(host)
    f.give(host)
    return f


def _settled() -> Function:
    """What a step has made, as an array of a dtype; takes over the reference."""
    f = ObjectFunction("settled", "ptr", "ptr %value", "ptr %dtype")
    state = f.state()
    array = f.equal("ptr", f.type_of("%value"), state.pointer("ndarray"))
    with f.when(array), f.when(f.equal("ptr", f.at("%value", DTYPE), "%dtype")):
        f.give("%value")
    operands = f"ptr {state.pointer('settle')}, ptr %value, ptr %dtype, ptr null"
    made = f.let(f"call ptr (ptr, ...) @PyObject_CallFunctionObjArgs({operands})")
    f.let_go("%value")
    f.give(made)
    return f


def _step(immortal: bool) -> Function:
    """Does a step; 1, or 0 with an exception."""
    f = ObjectFunction("step", "i32", "ptr %step", "ptr %values", immortal=immortal)
    step = f.view("%step", Step)
    count = step.number("arity")
    space = f.pointers(f.let(f"add i64 {count}, 1"))
    operands = f.word(space, 1)
    f.copy(operands, step.pointer("operands"), f.let(f"shl i64 {count}, 3"))
    places = step.pointer("places")
    with f.repeat(step.number("holes")) as i:
        pair = f.let(f"shl i64 {i}, 1")
        place = f.load("i64", f.word(places, pair))
        number = f.load("i64", f.word(places, f.let(f"add i64 {pair}, 1")))
        f.set_slot(operands, place, f.slot("%values", number))
    given = f.let(f"or i64 {count}, {_OFFSET - (1 << 64)}")
    function = step.pointer("function")
    call = f"ptr {function}, ptr {operands}, i64 {given}, ptr null"
    made = f.variable("ptr", f.let(f"call ptr @PyObject_VectorcallDict({call})"))
    _refuse_if(f, f.equal("ptr", f.load("ptr", made), "null"))
    dtype = step.pointer("dtype")
    with f.when(f.differ("ptr", dtype, "null")):
        raw = f.load("ptr", made)
        f.store("ptr", f.let(f"call ptr @settled(ptr {raw}, ptr {dtype})"), made)
        _refuse_if(f, f.equal("ptr", f.load("ptr", made), "null"))
    f.set_slot("%values", step.number("value"), f.load("ptr", made))
    f.give(1)
    return f


def _perform(immortal: bool) -> Function:
    """The result of a record for leaves; null with an exception, or MISS."""
    f = ObjectFunction("perform", "ptr", "ptr %record", "ptr %given", immortal=immortal)
    record, state = f.view("%record", Front), f.state()
    leaves = record.number("leaves")
    with f.when(f.differ("i64", record.number("given"), 0)):
        same = f.slot("%given", record.number("result"))
        f.hold(same)
        f.give(same)
    values = f.pointers(record.number("values"))
    owner = record.pointer("owner")
    f.hold(owner)
    kept = f.pointers(leaves)
    with f.repeat(leaves) as i:
        leaf = f.slot("%given", i)
        f.hold(leaf)
        f.set_slot(kept, i, leaf)
    release = f"call void @release(ptr {kept}, i64 {leaves}, ptr {owner})"
    loop = record.pointer("loop")
    with f.when(f.differ("ptr", loop, "null")):
        operands = f"ptr {loop}, ptr {kept}, ptr {record.pointer('made')}"
        looped = f.let(f"call ptr @looped({operands})")
        with f.when(f.differ("ptr", looped, MISS)):
            f.do(release)
            f.give(looped)
    filled = f.variable("i64", 0)
    result = f.variable("ptr", "null")
    with f.repeat(leaves) as i:
        host = f.let(f"call ptr @hosted(ptr {f.slot(kept, i)})")
        f.stop_if(f.equal("ptr", host, "null"))
        f.set_slot(values, i, host)
        f.store("i64", f.let(f"add i64 {i}, 1"), filled)
    token = f.variable("ptr", "null")
    hushed = record.number("hushed")
    variable = state.pointer("hush_variable")
    with f.when(f.differ("i64", hushed, 0)):
        pair = f"ptr {variable}, ptr {state.pointer('silence')}"
        f.store("ptr", f.let(f"call ptr @PyContextVar_Set({pair})"), token)
    with f.when(f.equal("i64", f.load("i64", filled), leaves)):
        _all_steps(f, record, values, filled, result)
    with f.when(f.differ("ptr", f.load("ptr", token), "null")):
        pair = f"ptr {variable}, ptr {f.load('ptr', token)}"
        f.do(f"call i32 @PyContextVar_Reset({pair})")
        f.let_go(f.load("ptr", token))
    f.do(release)
    none = state.pointer("none")
    f.hold(none)
    given = f"ptr {values}, i64 {f.load('i64', filled)}, ptr {none}"
    f.do(f"call void @release({given})")
    with f.when(f.differ("ptr", f.load("ptr", result), "null")):
        f.give(f.load("ptr", result))
    ordinary = f"ptr {state.pointer('exception')}"
    status = f.let(f"call i32 @PyErr_ExceptionMatches({ordinary})")
    with f.when(f.equal("i32", status, 0)):
        f.give("null")  # Ctrl-C is no reason to begin again
    f.do("call void @PyErr_Clear()")  # Python's code says what is wrong
    f.give(MISS)
    return f


def _all_steps(
    f: ObjectFunction, record: View, values: str, filled: str, result: str
) -> None:
    steps, total = record.pointer("list"), record.number("steps")
    done = f.variable("i64", 0)
    with f.repeat(total) as i:
        step = f.view(steps, Step, i)
        good = f.let(f"call i32 @step(ptr {step.address}, ptr {values})")
        f.stop_if(f.equal("i32", good, 0))
        f.store("i64", f.let(f"add i64 {f.load('i64', filled)}, 1"), filled)
        f.store("i64", f.let(f"add i64 {i}, 1"), done)
    with f.when(f.equal("i64", f.load("i64", done), total)):
        host = f.slot(values, record.number("result"))
        none = f.state().pointer("none")
        operands = f"ptr {record.pointer('made')}, ptr {none}, ptr {host}"
        f.store("ptr", f.let(f"call ptr @new_array({operands})"), result)


# The call.


def _front(immortal: bool) -> Function:
    """`front(function, arguments, how many by position, names of the others)`."""
    parameters = (
        "ptr %function", "ptr %args", "i64 %given", "ptr %names", "i64 %by_value",
    )  # fmt: skip
    f = ObjectFunction("front", "ptr", *parameters, immortal=immortal)
    state = f.state()
    plain = "ptr %function, ptr %args, i64 %given, ptr %names"

    def leave_if(condition: str) -> None:
        with f.when(condition):
            f.give(f.let(f"call ptr @plain_call({plain})"))

    some = f.variable("i64", 0)
    with f.when(f.differ("ptr", "%names", "null")):
        f.store("i64", f.load("i64", f.beyond("%names", SIZE)), some)
    named = f.load("i64", some)
    count = f.let(f"add i64 {named}, %given")
    leave_if(f.let(f"icmp ugt i64 {count}, {ARGUMENTS}"))
    leave_if(f.differ("i64", state.number("learning"), 0))
    traces = f.load("i64", f.beyond(state.pointer("traces"), SIZE))
    leave_if(f.differ("i64", traces, 0))
    kit = f.new(Kit)
    words, leaves = f.place("ptr", WORDS + 1), f.place("ptr", LEAVES)
    for field, place in (("words", words), ("leaves", leaves)):
        kit.set(field, place, "ptr")
    config = f.let("call ptr @current()")
    kit.set("by_value", "%by_value")
    apart = f.let(f"mul i64 %by_value, {BY_VALUE}")
    both = f.let(f"add i64 {count}, {apart}")
    shape = f.let(f"inttoptr i64 {both} to ptr")
    by_name = f.let(f"inttoptr i64 {named} to ptr")
    for number, word in enumerate(("%function", config, by_name, shape)):
        f.set_slot(words, number, word)
    status = f.variable("i32", 0)
    with f.repeat(1 << 20):
        operands = f"ptr %args, i64 {count}, ptr %names, i64 {named}"
        f.store(
            "i32", f.let(f"call i32 @note_all({operands}, ptr {kit.address})"), status
        )
        f.stop_if(f.differ("i32", f.load("i32", status), AGAIN))
    leave_if(f.differ("i32", f.load("i32", status), 1))
    hashed = f.variable("i64", 0)
    with f.repeat(kit.number("used")) as i:
        word = f.load("i64", f.word(words, i))
        mixed = f.let(f"xor i64 {f.load('i64', hashed)}, {word}")
        spread = f.let(f"mul i64 {mixed}, {0x9E3779B97F4A7C15 - (1 << 64)}")
        high = f.let(f"lshr i64 {spread}, 29")
        f.store("i64", f.let(f"xor i64 {spread}, {high}"), hashed)
    whole = f.load("i64", hashed)
    home = f.let(f"and i64 {whole}, {PLACES - 1}")
    table = state.pointer("fronts")
    with f.repeat(TRIED) as i:
        beyond = f.let(f"add i64 {home}, {i}")
        place = f.let(f"and i64 {beyond}, {PLACES - 1}")
        record = f.slot(table, place)
        f.stop_if(f.equal("ptr", record, "null"))
        same = f"ptr {record}, ptr {kit.address}, i64 {whole}"
        known = f.let(f"call i32 @is_same({same})")
        with f.when(f.differ("i32", known, 0)):
            steps = f.view(record, Front).number("steps")
            leave_if(f.let(f"icmp slt i64 {steps}, 0"))
            found = f.let(f"call ptr @perform(ptr {record}, ptr {leaves})")
            with f.when(f.differ("ptr", found, MISS)):
                f.give(found)
            leave_if("true")
            f.give("null")
    mark = f.word(state.pointer("marks"), home)
    calls = f.let(f"add i64 {f.load('i64', mark)}, 1")
    f.store("i64", calls, mark)
    leave_if(f.let(f"icmp slt i64 {calls}, {CALLS_BEFORE}"))
    f.store("i64", 0, mark)
    used = kit.number("used")
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
    names = f.variable("ptr", "%names")
    with f.when(f.equal("ptr", "%names", "null")):
        f.store("ptr", state.pointer("none"), names)
    operands = ["%function", given, f.load("ptr", names), key, "null"]
    listed = ", ".join(f"ptr {x}" for x in (state.pointer("learn"), *operands))
    found = f.let(f"call ptr (ptr, ...) @PyObject_CallFunctionObjArgs({listed})")
    for thing in (key, given):
        f.let_go(thing)
    f.give(found)
    return f


def _call_eager() -> Function:
    """`Eager.__call__`: METH_FASTCALL | METH_KEYWORDS."""
    parameters = ("ptr %self", "ptr %args", "i64 %given", "ptr %names")
    f = ObjectFunction("call_eager", "ptr", *parameters, visible=True)
    state = f.state()
    function = f.at("%self", state.number("behind"))
    numbers = f.at("%self", state.number("numbers"))
    fixed = f.differ("ptr", numbers, state.pointer("true"))
    by_value = f.let(f"zext i1 {fixed} to i64")
    operands = f"ptr {function}, ptr %args, i64 %given, ptr %names, i64 {by_value}"
    f.give(f.let(f"call ptr @front({operands})"))
    return f


def _method(operators: int) -> Function:
    """A method of arrays, by its number: the array goes before the arguments."""
    parameters = ("ptr %self", "ptr %args", "i64 %given", "ptr %names", "i64 %number")
    f = ObjectFunction("method", "ptr", *parameters)
    function = f.slot(f.state().pointer("methods"), "%number")
    named = f.variable("i64", 0)
    with f.when(f.differ("ptr", "%names", "null")):
        f.store("i64", f.load("i64", f.beyond("%names", SIZE)), named)
    total = f.let(f"add i64 {f.load('i64', named)}, %given")
    operands = f.pointers(f.let(f"add i64 {total}, 1"))
    f.set_slot(operands, 0, "%self")
    f.copy(f.word(operands, 1), "%args", f.let(f"shl i64 {total}, 3"))
    count = f.let("add i64 %given, 1")
    named_ones = f.let(f"icmp uge i64 %number, {operators}")
    by_value = f.let(f"zext i1 {named_ones} to i64")
    call = f"ptr {function}, ptr {operands}, i64 {count}, ptr %names, i64 {by_value}"
    f.give(f.let(f"call ptr @front({call})"))
    return f


def _stub(number: int) -> Function:
    parameters = ("ptr %self", "ptr %args", "i64 %given", "ptr %names")
    f = ObjectFunction(f"method_{number}", "ptr", *parameters, visible=True)
    operands = f"ptr %self, ptr %args, i64 %given, ptr %names, i64 {number}"
    f.give(f.let(f"call ptr @method({operands})"))
    return f
