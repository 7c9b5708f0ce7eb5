"""What a call is given, as words: the key under which its record is found.

of an Array in the host's memory   its type as traces know it
of a float, a np.float64           its class, or where it decides its bits as well
of a complex number, a np.int64    its class and its bits
of an integer                      what it is; of a very large one the object
of a slice, a tuple, a list        its class, and the words of what is in it
of anything else that is constant  the very object

Equal integers are one word, whichever object they are: numbers that are computed are
new objects, and their addresses come again with others.

note_all    all arguments, and the names of the last ones
note        one argument -> 1, or 0 for what no record is kept of, or AGAIN
"""

from __future__ import annotations

from ftrace.devices.llvm.call.cpython.object_ir import ObjectFunction
from ftrace.devices.llvm.call.cpython.object_layout import (
    DTYPE,
    ITEMS,
    NDIM,
    SHAPE,
    SIZE,
    Offsets,
)
from ftrace.devices.llvm.ir.function_builder import Function, View
from ftrace.devices.llvm.runtime.vm.records import Word
from ftrace.ground.fast_dataclasses import NamedTuple

#: Modes: numbers are operands; they may decide anything; the second argument is an
#: index, in which integers are places; the third is one, and before it numbers are
#: operands.
OPERANDS, BY_VALUE, BY_PLACE, UPDATES = range(4)
#: The mode stands in a key above the number of arguments: so many times it.
MODES = 256
#: Words of a key before those of the arguments: function, settings, and how many
#: there are with names and in all.
HEAD = 4
#: Words of a key, and arrays and floats among the arguments, at the most.
WORDS, LEAVES = 64, 24
#: Arguments at the most: each has two words.
ARGUMENTS = 16
#: Axes of an array of NumPy's at the most: each has a word.
_MOST_AXES = 8
#: Code of Python's has run: what was noted is to be noted again.
AGAIN = 2
#: Of floats and NumPy's integers: the number.
FLOAT = 16
#: An integer as a word: shifted, and marked so that it is neither an object, whose
#: address is even, nor a count. Its distance from 0 is less than 2^55.
_MARK, _SHIFT = 0xA5, 8
#: Of slices: start, stop and step.
_BOUNDS = (16, 24, 32)


class Kit(NamedTuple):
    """A key in the making.

    Attributes:
      words, used: what the arguments are, and how many words.
      leaves, found: the arrays and floats among them, and how many.
      mode: what numbers are.
    """

    words: Word
    used: Word
    leaves: Word
    found: Word
    mode: Word


_KIT = ("ptr %thing", "ptr %kit")


def keys_ir(offsets: Offsets) -> str:
    """All functions of keys."""
    functions = [
        _push(), _integer_word(), _note_ndarray(), _note_index(), _note_array(offsets),
        _note_slice(), _note_items(), _note(), _note_all(),
    ]  # fmt: skip
    return "".join(f.text for f in functions)


def _push() -> Function:
    f = ObjectFunction("push", "void", "ptr %word", "ptr %kit")
    kit = f.view("%kit", Kit)
    used = kit.number("used")
    f.set_slot(kit.pointer("words"), used, "%word")
    kit.set("used", f.let(f"add i64 {used}, 1"))
    f.give()
    return f


def _integer_word() -> Function:
    """The word of an integer: others of its value are the same argument."""
    f = ObjectFunction("integer_word", "ptr", "ptr %thing")
    beyond = f.variable("i32", 0)
    pair = f"ptr %thing, ptr {beyond}"
    value = f.let(f"call i64 @PyLong_AsLongLongAndOverflow({pair})")
    with f.when(f.differ("i32", f.load("i32", beyond), 0)):
        f.give("%thing")
    shifted = f.let(f"shl i64 {value}, {_SHIFT}")
    back = f.let(f"ashr i64 {shifted}, {_SHIFT}")
    with f.when(f.differ("i64", back, value)):
        f.give("%thing")
    marked = f.let(f"or i64 {shifted}, {_MARK}")
    f.give(f.let(f"inttoptr i64 {marked} to ptr"))
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


def refuse_if(f: Function, condition: str) -> None:
    """Gives 0, and ends, where a condition holds."""
    with f.when(condition):
        f.give(0)


def _note_array(offsets: Offsets) -> Function:
    """An Array in the host's memory."""
    f = ObjectFunction("note_array", "i32", *_KIT)
    state = f.state()
    aval = f.at("%thing", offsets.aval)
    with f.when(f.equal("ptr", aval, "null")):  # it knows it from now on
        made = f.ask(state.pointer("aval_of"), "%thing")
        with f.when(f.equal("ptr", made, "null")):
            f.do("call void @PyErr_Clear()")
            f.give(0)
        f.let_go(made)
        f.give(AGAIN)  # meanwhile a list may have changed
    none = state.pointer("none")
    buffer = f.at("%thing", offsets.buffer)
    with f.when(f.equal("ptr", buffer, none)):
        refuse_if(f, f.equal("ptr", f.at("%thing", offsets.host), none))
        _note_leaf(f, aval)
    refuse_if(f, f.equal("ptr", buffer, "null"))
    kind = f.type_of(buffer)
    with f.when(f.equal("ptr", kind, state.pointer("buffer"))):
        _note_leaf(f, aval)
    refuse_if(f, f.differ("ptr", kind, state.pointer("host_buffer")))
    device = f.at(buffer, offsets.device)
    here = f.equal("ptr", device, state.pointer("device"))
    host = f.equal("ptr", device, state.pointer("host"))
    near = f.let(f"or i1 {here}, {host}")
    refuse_if(f, f.let(f"xor i1 {near}, true"))
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
        refuse_if(f, f.let(f"and i1 {no_int}, {some}"))
        word = f.variable("ptr", bound)
        with f.when(some):
            f.store("ptr", f.let(f"call ptr @integer_word(ptr {bound})"), word)
        f.do(f"call void @push(ptr {f.load('ptr', word)}, ptr %kit)")
    f.give(1)
    return f


def _note_items() -> Function:
    """A list or a tuple."""
    f = ObjectFunction("note_items", "i32", *_KIT, "ptr %items")
    size = f.load("i64", f.beyond("%thing", SIZE))
    refuse_if(f, f.let(f"icmp sgt i64 {size}, {ARGUMENTS}"))
    f.do(f"call void @push(ptr {f.type_of('%thing')}, ptr %kit)")
    f.do(f"call void @push(ptr {f.let(f'inttoptr i64 {size} to ptr')}, ptr %kit)")
    with f.repeat(size) as i:
        room = f.view("%kit", Kit).number("used")
        refuse_if(f, f.let(f"icmp sgt i64 {room}, {WORDS - 6}"))
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
    refuse_if(f, f.let(f"icmp sgt i64 {room}, {WORDS - 6}"))
    with f.when(f.equal("ptr", kind, state.pointer("array"))):
        f.give(f.let("call i32 @note_array(ptr %thing, ptr %kit)"))
    mode = f.view("%kit", Kit).number("mode")
    with f.when(f.equal("i64", mode, BY_PLACE)):
        f.give(f.let("call i32 @note_index(ptr %thing, ptr %kit)"))
    with f.when(f.equal("ptr", kind, state.pointer("float"))):
        with f.when(f.differ("i64", mode, OPERANDS)):
            f.do(f"call void @push(ptr {kind}, ptr %kit)")
            _note_word(f, f.at("%thing", FLOAT))
        _note_leaf(f, kind)
    with f.when(f.equal("ptr", kind, state.pointer("complex"))):
        f.do(f"call void @push(ptr {kind}, ptr %kit)")
        f.do(f"call void @push(ptr {f.at('%thing', FLOAT)}, ptr %kit)")
        _note_word(f, f.at("%thing", FLOAT + 8))
    with f.when(f.equal("ptr", kind, state.pointer("int64"))):  # it may not fit
        f.do(f"call void @push(ptr {kind}, ptr %kit)")
        _note_word(f, f.at("%thing", FLOAT))
    with f.when(f.equal("ptr", kind, state.pointer("int"))):
        _note_word(f, f.let("call ptr @integer_word(ptr %thing)"))
    for constant in ("none_type", "bool", "text", "ellipsis_type", "type"):
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
    with f.when(_is_in(f, kind, state.pointer("constants"))):
        _note_word(f, "%thing")
    with f.when(f.differ("i64", mode, OPERANDS)):
        refuse_if(f, f.differ("ptr", kind, state.pointer("float64")))
        f.do(f"call void @push(ptr {kind}, ptr %kit)")
        _note_word(f, f.at("%thing", FLOAT))
    with f.when(f.equal("ptr", kind, state.pointer("ndarray"))):
        f.give(f.let("call i32 @note_ndarray(ptr %thing, ptr %kit)"))
    with f.when(_is_in(f, kind, state.pointer("scalars"))):
        _note_leaf(f, kind)
    f.give(0)
    return f


def _is_in(f: ObjectFunction, thing: str, listed: str) -> str:
    """Is an object in a list?"""
    found = f.variable("i1", "false")
    with f.repeat(f.load("i64", f.beyond(listed, SIZE))) as i:
        same = f.equal("ptr", thing, f.slot(f.at(listed, ITEMS), i))
        f.store("i1", same, found)
        f.stop_if(same)
    return f.load("i1", found)


def _note_ndarray() -> Function:
    """An array of NumPy's: whatever its values, the same is done."""
    f = ObjectFunction("note_ndarray", "i32", *_KIT)
    ndim = f.load("i32", f.beyond("%thing", NDIM))
    refuse_if(f, f.let(f"icmp sgt i32 {ndim}, {_MOST_AXES}"))
    rank = f.let(f"inttoptr i32 {ndim} to ptr")
    for word in (f.type_of("%thing"), f.at("%thing", DTYPE), rank):
        f.do(f"call void @push(ptr {word}, ptr %kit)")
    sizes, axes = f.at("%thing", SHAPE), f.let(f"zext i32 {ndim} to i64")
    with f.repeat(axes) as i:
        f.do(f"call void @push(ptr {f.slot(sizes, i)}, ptr %kit)")
    _note_leaf(f, f.at("%thing", DTYPE))
    return f


def _note_index() -> Function:
    """An index: if it is one by place, its integers only say where."""
    f = ObjectFunction("note_index", "i32", *_KIT)
    state, kind = f.state(), f.type_of("%thing")
    f.view("%kit", Kit).set("mode", BY_VALUE)
    with f.when(_is_integer(f, kind)):
        _note_leaf(f, kind)
    with f.when(f.equal("ptr", kind, state.pointer("ndarray"))):
        f.give(f.let("call i32 @note_ndarray(ptr %thing, ptr %kit)"))
    with f.when(f.differ("ptr", kind, state.pointer("tuple"))):
        f.give(f.let("call i32 @note(ptr %thing, ptr %kit)"))
    size = f.load("i64", f.beyond("%thing", SIZE))
    items = f.beyond("%thing", ITEMS)
    with f.repeat(size) as i:
        part = f.type_of(f.slot(items, i))
        by_place = _is_integer(f, part)
        for name in ("slice", "none_type", "ellipsis_type"):
            one = f.equal("ptr", part, state.pointer(name))
            by_place = f.let(f"or i1 {one}, {by_place}")
        with f.when(f.let(f"xor i1 {by_place}, true")):
            f.give(f.let("call i32 @note(ptr %thing, ptr %kit)"))
    refuse_if(f, f.let(f"icmp sgt i64 {size}, {ARGUMENTS}"))
    f.do(f"call void @push(ptr {f.let(f'inttoptr i64 {size} to ptr')}, ptr %kit)")
    with f.repeat(size) as i:
        room = f.view("%kit", Kit).number("used")
        refuse_if(f, f.let(f"icmp sgt i64 {room}, {WORDS - 6}"))
        item = f.slot(items, i)
        part = f.type_of(item)
        whole = _is_integer(f, part)
        with f.when(whole):
            f.do(f"call void @push(ptr {part}, ptr %kit)")
        with f.when(f.let(f"xor i1 {whole}, true")):
            noted = f.let(f"call i32 @note(ptr {item}, ptr %kit)")
            with f.when(f.differ("i32", noted, 1)):
                f.give(noted)
    _note_leaf(f, kind)
    return f


def _is_integer(f: ObjectFunction, kind: str) -> str:
    """Is this the class of integers of Python, or of NumPy?"""
    state, found = f.state(), f.variable("i1", "true")
    with f.when(f.differ("ptr", kind, state.pointer("int"))):
        f.store("i1", _is_in(f, kind, state.pointer("integers")), found)
    return f.load("i1", found)


def _set_mode(f: ObjectFunction, kit: View, number: str) -> None:
    """What numbers are in the argument of that number, where there is an index."""
    updates = f.equal("i64", "%mode", UPDATES)
    place = f.let(f"select i1 {updates}, i64 2, i64 1")
    before = f.let(f"select i1 {updates}, i64 {OPERANDS}, i64 {BY_VALUE}")
    first = f.let(f"icmp ult i64 {number}, {place}")
    mode = f.let(f"select i1 {first}, i64 {before}, i64 {BY_VALUE}")
    here = f.equal("i64", number, place)
    kit.set("mode", f.let(f"select i1 {here}, i64 {BY_PLACE}, i64 {mode}"))


def _note_all() -> Function:
    """All arguments and the names of the last ones, likewise."""
    parameters = (
        "ptr %args", "i64 %count", "ptr %names", "i64 %named", "i64 %mode", "ptr %kit",
    )  # fmt: skip
    f = ObjectFunction("note_all", "i32", *parameters)
    kit = f.view("%kit", Kit)
    kit.set("mode", "%mode")
    kit.set("used", HEAD)
    kit.set("found", 0)
    with f.repeat("%named") as i:
        name = f.slot(f.beyond("%names", ITEMS), i)
        f.do(f"call void @push(ptr {name}, ptr %kit)")
    indexed = f.let(f"icmp uge i64 %mode, {BY_PLACE}")
    with f.repeat("%count") as i:
        with f.when(indexed):
            _set_mode(f, kit, i)
        noted = f.let(f"call i32 @note(ptr {f.slot('%args', i)}, ptr %kit)")
        with f.when(f.differ("i32", noted, 1)):
            f.give(noted)
    f.give(1)
    return f
