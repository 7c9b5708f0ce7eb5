"""Python's objects in native code: their references, buffers, Arrays, and results.

    build(result, held)   what a call returns, a new object; or null with an exception

A buffer that nobody holds any more is not freed: the whole object, with its memory and
NumPy's view of it, waits in the list of its size class. Nobody else may see the memory:
an array of NumPy that a user still holds refers to `raw`, the owner of the bytes. When
too much is cached all of it goes.

`Array` stays the class that Python has made of its definition; only what happens when
an instance's last reference goes is done here.
"""

from __future__ import annotations

from collections.abc import Callable

from ftrace.backends.llvm.call import records as r
from ftrace.backends.llvm.call.object_layout import ITEMS, KEYS, LISTED, TYPE, Offsets
from ftrace.backends.llvm.ir.function_builder import Function, Routines, View

#: The variables of the module, and what it calls with any number of operands.
VARIABLES = """
@state = internal global ptr null
@two_numbers = internal constant [3 x i8] c"nn\\00"

declare ptr @PyObject_CallFunction(ptr, ptr, ...)
declare ptr @PyObject_CallFunctionObjArgs(ptr, ...)
"""


class ObjectFunction(Function):
    """A function in the making that touches Python's objects."""

    def state(self) -> View:
        return self.view(self.load("ptr", "@state"), r.State)

    def equal(self, kind: str, left: str | int, right: str | int) -> str:
        return self.let(f"icmp eq {kind} {left}, {right}")

    def differ(self, kind: str, left: str | int, right: str | int) -> str:
        return self.let(f"icmp ne {kind} {left}, {right}")

    def type_of(self, thing: str) -> str:
        return self.load("ptr", self.beyond(thing, TYPE))

    def at(self, thing: str, offset: str | int) -> str:
        """The pointer so many bytes after an object's beginning."""
        return self.load("ptr", self.beyond(thing, offset))

    def hold(self, thing: str) -> None:
        """One more reference; none where it lives for ever: 32 bits are negative."""
        low = self.load("i32", thing)
        with self.when(self.let(f"icmp sge i32 {low}, 0")):
            self.store("i32", self.let(f"add i32 {low}, 1"), thing)

    def let_go(self, thing: str) -> None:
        """One reference less."""
        let_go(self, thing)

    def ask(self, function: str, *operands: str) -> str:
        """What a function of Python's returns for some objects; or null."""
        listed = ", ".join(f"ptr {x}" for x in (function, *operands, "null"))
        return self.let(f"call ptr (ptr, ...) @PyObject_CallFunctionObjArgs({listed})")

    def add_to(self, record: View, field: str, amount: str | int) -> str:
        """Adds to a word; what it is now."""
        place = record.at(field)
        total = self.let(f"add i64 {self.load('i64', place)}, {amount}")
        self.store("i64", total, place)
        return total


objects = Routines(ObjectFunction)


@objects("void", "ptr %words", visible=True)
def set_state(f: ObjectFunction) -> None:
    f.store("ptr", "%words", "@state")
    f.ret()


@objects("void", "ptr %thing")
def let_go(f: ObjectFunction) -> None:
    low = f.load("i32", "%thing")
    with f.when(f.let(f"icmp slt i32 {low}, 0")):  # it lives for ever
        f.ret()
    less = f.let(f"sub i64 {f.load('i64', '%thing')}, 1")
    f.store("i64", less, "%thing")
    with f.when(f.equal("i64", less, 0)):
        f.outside("void _Py_Dealloc(ptr)", "%thing")
    f.ret()


@objects("ptr", "i64 %index", "i64 %nbytes", visible=True)
def take(f: ObjectFunction) -> None:
    """`take(size class, bytes)` -> a free buffer, or null."""
    state = f.state()
    free = state.pointer("free")
    found = f.slot(free, "%index")
    f.ret_if(f.equal("ptr", found, "null"), "null")
    buffer = f.view(found, r.BufferObject)
    f.set_slot(free, "%index", buffer.pointer("next"))
    size = buffer.number("size")
    f.add_to(state, "cached", f.let(f"sub i64 0, {size}"))
    buffer.set("nbytes", "%nbytes")
    buffer.set("holders", 1)
    _count_in(f, size)
    f.ret(found)


@objects("ptr", "ptr %self", "ptr %args", "i64 %given", visible=True)
def give_out(f: ObjectFunction) -> None:
    """`take` as a function of Python's: METH_FASTCALL; None where nothing is free."""
    index, nbytes = (
        f.outside("i64 PyLong_AsSsize_t(ptr)", f.slot("%args", i)) for i in (0, 1)
    )
    found = take(f, index, nbytes)
    f.ret_if(f.differ("ptr", found, "null"), found)
    none = f.state().pointer("none")
    f.outside("void Py_IncRef(ptr)", none)
    f.ret(none)


@objects("void", "ptr %buffer", visible=True)
def admit(f: ObjectFunction) -> None:
    """Counts a buffer that was just made."""
    _count_in(f, f.view("%buffer", r.BufferObject).number("size"))
    f.ret()


def _count_in(f: ObjectFunction, size: str) -> None:
    state = f.state()
    used = f.add_to(state, "in_use", size)
    with f.when(f.let(f"icmp sgt i64 {used}, {state.number('peak')}")):
        state.set("peak", used)


@objects("void", "ptr %buffer")
def free_buffer(f: ObjectFunction) -> None:
    """Gives a buffer that nobody holds back to the system."""
    buffer = f.view("%buffer", r.BufferObject)
    kind = buffer.pointer("type")
    for field in ("memory", "device", "allocator"):
        held = buffer.pointer(field)
        buffer.set(field, "null", "ptr")
        with f.when(f.differ("ptr", held, "null")):
            f.let_go(held)
    f.outside("void PyObject_Free(ptr)", "%buffer")
    f.let_go(kind)
    f.ret()


@objects("void", "ptr %buffer", visible=True)
def buffer_dies(f: ObjectFunction) -> None:
    """What Python calls when a buffer's last reference goes."""
    buffer, state = f.view("%buffer", r.BufferObject), f.state()
    memory, size = buffer.pointer("memory"), buffer.number("size")
    f.add_to(state, "in_use", f.let(f"sub i64 0, {size}"))
    raw = buffer.pointer("raw")
    with f.when(f.equal("ptr", raw, "null")):
        free_buffer(f, "%buffer")
        f.ret()
    for array in (memory, raw):
        with f.when(f.differ("i32", f.load("i32", array), 1)):  # a user sees it
            free_buffer(f, "%buffer")
            f.ret()
    place = f.word(state.pointer("free"), buffer.number("size_class"))
    buffer.set("next", f.load("ptr", place), "ptr")
    f.store("ptr", "%buffer", place)
    cached = f.add_to(state, "cached", size)
    with f.when(f.let(f"icmp sgt i64 {cached}, {state.number('limit')}")):
        trim(f)
    f.ret()


@objects("void", visible=True)
def trim(f: ObjectFunction) -> None:
    """Frees all that is cached."""
    with f.repeat(r.CLASSES) as i:
        place = f.word(f.state().pointer("free"), i)
        with f.repeat(1 << 62):
            first = f.load("ptr", place)
            f.stop_if(f.equal("ptr", first, "null"))
            buffer = f.view(first, r.BufferObject)
            f.store("ptr", buffer.pointer("next"), place)
            f.add_to(f.state(), "cached", f.let(f"sub i64 0, {buffer.number('size')}"))
            free_buffer(f, first)
    f.ret()


#: Dead Arrays that are cached.
MOST_SPARES = 4096

#: What is looked at goes before the buffer, which then finds itself unseen.
_SLOTS = ("host", "aval", "buffer", "dtype", "shape", "weak_type")


@objects("ptr", "ptr %result", "ptr %buffer", "ptr %host")
def new_array(f: ObjectFunction, offsets: Offsets) -> None:
    """An Array of the type that a result says; or null.

    It is in a buffer or in an array of NumPy's; the other one is None.
    """
    state, result = f.state(), f.view("%result", r.ArrayResult)
    spare = state.pointer("spare")
    made = f.variable("ptr", spare)
    fresh = f.equal("ptr", spare, "null")
    with f.when(fresh):
        kind = state.pointer("array")
        new = f.outside("ptr PyType_GenericAlloc(ptr, i64)", kind, 0)
        f.ret_if(f.equal("ptr", new, "null"), "null")
        f.store("ptr", new, made)
    with f.when(f.let(f"xor i1 {fresh}, true")):
        state.set("spare", f.at(spare, offsets.aval), "ptr")
        f.add_to(state, "spares", -1)
        f.store("i64", 1, spare)
    array = f.load("ptr", made)
    for value, offset in (("%buffer", offsets.buffer), ("%host", offsets.host)):
        f.hold(value)
        f.store("ptr", value, f.beyond(array, offset))
    for field in ("aval", "dtype", "shape", "weak_type"):
        value = result.pointer(field)
        f.hold(value)
        f.store("ptr", value, f.beyond(array, getattr(offsets, field)))
    with f.when(f.let(f"xor i1 {fresh}, true")):
        f.outside("void PyObject_GC_Track(ptr)", array)
    f.ret(array)


@objects("void", "ptr %array", visible=True)
def array_dies(f: ObjectFunction, offsets: Offsets) -> None:
    """What Python calls when an Array's last reference goes, or one of a subclass."""
    f.outside("void PyObject_GC_UnTrack(ptr)", "%array")
    references = f.at("%array", offsets.references)
    with f.when(f.differ("ptr", references, "null")):
        f.outside("void PyObject_ClearWeakRefs(ptr)", "%array")
    for name in _SLOTS:
        place = f.beyond("%array", getattr(offsets, name))
        held = f.load("ptr", place)
        f.store("ptr", "null", place)
        with f.when(f.differ("ptr", held, "null")):
            f.let_go(held)
    kind, state = f.type_of("%array"), f.state()
    own = f.equal("ptr", kind, state.pointer("array"))
    few = f.let(f"icmp slt i64 {state.number('spares')}, {MOST_SPARES}")
    with f.when(f.let(f"and i1 {own}, {few}")):
        f.store("ptr", state.pointer("spare"), f.beyond("%array", offsets.aval))
        state.set("spare", "%array", "ptr")
        f.add_to(state, "spares", 1)
        f.ret()
    f.outside("void PyObject_GC_Del(ptr)", "%array")
    f.let_go(kind)
    f.ret()


# What a call returns: Arrays, and the containers that hold them.

_PARAMETERS = ("ptr %result", "ptr %held")


@objects("ptr", *_PARAMETERS)
def build(f: ObjectFunction) -> None:
    kind = f.load("i64", "%result")
    with f.when(f.equal("i64", kind, r.RESULT)):
        holder = f.slot("%held", f.view("%result", r.ArrayResult).number("number"))
        none = f.state().pointer("none")
        hosted = f.equal("ptr", f.type_of(holder), f.state().pointer("ndarray"))
        pair = [(none, holder), (holder, none)]
        buffer, host = (f.let(f"select i1 {hosted}, ptr {x}, ptr {y}") for x, y in pair)
        f.ret(new_array(f, "%result", buffer, host))
    with f.when(f.equal("i64", kind, r.GIVEN)):
        given = f.slot("%held", f.view("%result", r.ObjectResult).number("number"))
        f.hold(given)
        f.ret(given)
    for one, build_one in (
        (r.MAPPING, build_mapping),
        (r.TUPLE, build_tuple),
        (r.LIST, build_list),
        (r.NAMEDTUPLE, build_namedtuple),
    ):
        with f.when(f.equal("i64", kind, one)):
            f.ret(build_one(f, "%result", "%held"))
    none = f.state().pointer("none")
    f.hold(none)
    f.ret(none)


def _give_up_if_null(f: ObjectFunction, made: str, begun: str) -> None:
    with f.when(f.equal("ptr", made, "null")):
        f.let_go(begun)
        f.ret("null")


@objects("ptr", *_PARAMETERS)
def build_mapping(f: ObjectFunction) -> None:
    """A dict: a copy of one with these keys has them in place."""
    result = f.view("%result", r.ContainerResult)
    made = f.outside("ptr PyDict_Copy(ptr)", result.pointer("template"))
    f.ret_if(f.equal("ptr", made, "null"), "null")
    keys, parts = result.pointer("keys"), result.pointer("parts")
    slots = result.pointer("slots")
    with f.when(f.differ("ptr", slots, "null")):
        _fill_template(f, result, made, slots)
        f.ret(made)
    with f.repeat(result.number("length")) as i:
        child = build(f, f.slot(parts, i), "%held")
        _give_up_if_null(f, child, made)
        item = made, f.slot(keys, i), child
        status = f.outside("i32 PyDict_SetItem(ptr, ptr, ptr)", *item)
        f.let_go(child)
        with f.when(f.differ("i32", status, 0)):
            f.let_go(made)
            f.ret("null")
    f.ret(made)


def _fill_template(f: ObjectFunction, result: View, made: str, slots: str) -> None:
    """Puts values where a copy of a template has others."""
    held, parts = f.at(made, KEYS), result.pointer("parts")
    with f.repeat(result.number("length")) as i:
        child = build(f, f.slot(parts, i), "%held")
        _give_up_if_null(f, child, made)
        place = f.beyond(held, f.load("i64", f.word(slots, i)))
        before = f.load("ptr", place)
        f.store("ptr", child, place)
        f.let_go(before)


@objects("ptr", *_PARAMETERS)
def build_tuple(f: ObjectFunction) -> None:
    _build_sequence(f, "PyTuple_New", lambda made: f.beyond(made, ITEMS))


@objects("ptr", *_PARAMETERS)
def build_list(f: ObjectFunction) -> None:
    _build_sequence(f, "PyList_New", lambda made: f.at(made, LISTED))


def _build_sequence(
    f: ObjectFunction, new: str, items_of: Callable[[str], str]
) -> None:
    result = f.view("%result", r.ContainerResult)
    count, parts = result.number("length"), result.pointer("parts")
    made = f.outside(f"ptr {new}(i64)", count)
    f.ret_if(f.equal("ptr", made, "null"), "null")
    items = items_of(made)
    with f.repeat(count) as i:
        child = build(f, f.slot(parts, i), "%held")
        _give_up_if_null(f, child, made)
        f.set_slot(items, i, child)
    f.ret(made)


@objects("ptr", *_PARAMETERS)
def build_namedtuple(f: ObjectFunction) -> None:
    """`tuple.__new__(cls, items)`: what the class's own `__new__` does."""
    result = f.view("%result", r.ContainerResult)
    items = build_tuple(f, "%result", "%held")
    f.ret_if(f.equal("ptr", items, "null"), "null")
    new, kind = f.state().pointer("tuple_new"), result.pointer("type")
    made = f.ask(new, kind, items)
    f.let_go(items)
    f.ret(made)
