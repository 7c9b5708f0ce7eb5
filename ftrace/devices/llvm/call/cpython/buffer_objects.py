"""Buffers and Arrays in native code: made, and kept when they die.

A buffer that nobody holds any more is not freed: the whole object, with its memory and
NumPy's view of it, waits in the list of its size class. Nobody else may see the memory:
an array of NumPy that a user still holds refers to `raw`, the owner of the bytes.

`Array` stays the class that Python has made of its definition; only what happens when
an instance's last reference goes is done here.
"""

from __future__ import annotations

from ftrace.devices.llvm.call.cpython.object_ir import ObjectFunction
from ftrace.devices.llvm.call.cpython.object_layout import Offsets
from ftrace.devices.llvm.call.cpython.records import CLASSES, Class, ResultPart, State
from ftrace.devices.llvm.ir.function_builder import Function
from ftrace.devices.llvm.runtime.vm.records import Word
from ftrace.ground.fast_dataclasses import NamedTuple


class BufferObject(NamedTuple):
    """A buffer, as an object of Python's.

    Attributes:
      holders, type: the head of all objects.
      memory: a one-dimensional array of NumPy's; it is the buffer's alone.
      device, allocator: as of `ftrace.arrays.buffer.Buffer`.
      nbytes: how much of it is used.
      data: where it begins.
      size: how much there is.
      size_class: the number of that size.
      raw: the array that owns the memory; `memory` refers to it.
      next: the next one that is free.
    """

    holders: Word
    type: Word
    memory: Word
    device: Word
    allocator: Word
    nbytes: Word
    data: Word
    size: Word
    size_class: Word
    raw: Word
    next: Word


def memory_ir() -> str:
    """All functions on buffers."""
    functions = (
        _take(), _give_out(), _admit(), _free_buffer(), _buffer_dies(),
        _drop_oldest(), _trim(),
    )  # fmt: skip
    return "".join(f.text for f in functions)


def _classes(f: Function, index: str) -> str:
    """The address of a size class: they follow the state."""
    behind = f.let(f"getelementptr i64, ptr {f.load('ptr', '@state')}, i64 {_WORDS}")
    return f.view(behind, Class, index).address


_WORDS = len(State._fields)


def _take() -> Function:
    """`take(size class, bytes)` -> a free buffer, or null."""
    f = ObjectFunction("take", "ptr", "i64 %index", "i64 %nbytes", visible=True)
    free = f.view(_classes(f, "%index"), Class)
    found = free.pointer("first")
    with f.when(f.equal("ptr", found, "null")):
        f.give("null")
    buffer = f.view(found, BufferObject)
    free.set("first", buffer.pointer("next"), "ptr")
    size, state = buffer.number("size"), f.state()
    f.add_to(state, "kept", f.let(f"sub i64 0, {size}"))
    buffer.set("nbytes", "%nbytes")
    buffer.set("holders", 1)
    _count_in(f, size)
    f.give(found)
    return f


def _give_out() -> Function:
    """`take` as a function of Python's: METH_FASTCALL; None where nothing is free."""
    parameters = ("ptr %self", "ptr %args", "i64 %given")
    f = ObjectFunction("give_out", "ptr", *parameters, visible=True)
    index, nbytes = (
        f.let(f"call i64 @PyLong_AsSsize_t(ptr {f.slot('%args', i)})") for i in (0, 1)
    )
    found = f.let(f"call ptr @take(i64 {index}, i64 {nbytes})")
    with f.when(f.differ("ptr", found, "null")):
        f.give(found)
    none = f.state().pointer("none")
    f.do(f"call void @Py_IncRef(ptr {none})")
    f.give(none)
    return f


def _admit() -> Function:
    """Counts a buffer that was just made."""
    f = ObjectFunction("admit", "void", "ptr %buffer", visible=True)
    _count_in(f, f.view("%buffer", BufferObject).number("size"))
    f.give()
    return f


def _count_in(f: ObjectFunction, size: str) -> None:
    state = f.state()
    used = f.add_to(state, "in_use", size)
    with f.when(f.let(f"icmp sgt i64 {used}, {state.number('peak')}")):
        state.set("peak", used)


def _free_buffer() -> Function:
    """Gives a buffer that nobody holds back to the system."""
    f = ObjectFunction("free_buffer", "void", "ptr %buffer")
    buffer = f.view("%buffer", BufferObject)
    kind = buffer.pointer("type")
    for field in ("memory", "device", "allocator"):
        held = buffer.pointer(field)
        buffer.set(field, "null", "ptr")
        with f.when(f.differ("ptr", held, "null")):
            f.let_go(held)
    f.do("call void @PyObject_Free(ptr %buffer)")
    f.let_go(kind)
    f.give()
    return f


def _buffer_dies() -> Function:
    """What Python calls when a buffer's last reference goes."""
    f = ObjectFunction("buffer_dies", "void", "ptr %buffer", visible=True)
    buffer, state = f.view("%buffer", BufferObject), f.state()
    memory, size = buffer.pointer("memory"), buffer.number("size")
    f.add_to(state, "in_use", f.let(f"sub i64 0, {size}"))
    raw = buffer.pointer("raw")
    with f.when(f.equal("ptr", raw, "null")):
        f.do("call void @free_buffer(ptr %buffer)")
        f.give()
    for array in (memory, raw):
        with f.when(f.differ("i32", f.load("i32", array), 1)):  # a user sees it
            f.do("call void @free_buffer(ptr %buffer)")
            f.give()
    free = f.view(_classes(f, buffer.number("size_class")), Class)
    buffer.set("next", free.pointer("first"), "ptr")
    free.set("first", "%buffer", "ptr")
    free.set("stamp", f.add_to(state, "clock", 1))
    kept = f.add_to(state, "kept", size)
    with f.when(f.let(f"icmp sgt i64 {kept}, {state.number('limit')}")):
        f.do("call void @drop_oldest()")
    f.give()
    return f


def _drop_oldest() -> Function:
    """Frees buffers, of the size that was given back least recently, to the limit."""
    f = ObjectFunction("drop_oldest", "void")
    state = f.state()
    with f.repeat(1 << 62):
        over = f.let(f"icmp sgt i64 {state.number('kept')}, {state.number('limit')}")
        f.stop_if(f.let(f"xor i1 {over}, true"))
        oldest = f.variable("i64", 0)
        f.store("i64", -1, oldest)
        chosen = f.variable("i64", 0)
        with f.repeat(CLASSES) as i:
            free = f.view(_classes(f, i), Class)
            stamp = free.number("stamp")
            some = f.differ("ptr", free.pointer("first"), "null")
            older = f.let(f"icmp ult i64 {stamp}, {f.load('i64', oldest)}")
            with f.when(f.let(f"and i1 {some}, {older}")):
                f.store("i64", stamp, oldest)
                f.store("i64", i, chosen)
        f.stop_if(f.equal("i64", f.load("i64", oldest), -1))
        _drop(f, f.load("i64", chosen))
    f.give()
    return f


def _drop(f: ObjectFunction, index: str) -> None:
    """Frees the first buffer of a class."""
    free = f.view(_classes(f, index), Class)
    first = free.pointer("first")
    buffer = f.view(first, BufferObject)
    free.set("first", buffer.pointer("next"), "ptr")
    f.add_to(f.state(), "kept", f.let(f"sub i64 0, {buffer.number('size')}"))
    f.do(f"call void @free_buffer(ptr {first})")


def _trim() -> Function:
    """Frees all that is kept."""
    f = ObjectFunction("trim", "void", visible=True)
    with f.repeat(CLASSES) as i, f.repeat(1 << 62):
        first = f.view(_classes(f, i), Class).pointer("first")
        f.stop_if(f.equal("ptr", first, "null"))
        _drop(f, i)
    f.give()
    return f


#: Dead Arrays that are kept.
KEPT = 4096

#: What is looked at goes before the buffer, which then finds itself unseen.
_SLOTS = ("host", "aval", "buffer", "dtype", "shape", "weak_type")


def arrays_ir(offsets: Offsets, immortal: bool) -> str:
    """All functions on Arrays."""
    return _new_array(offsets, immortal).text + _array_dies(offsets).text


def _new_array(offsets: Offsets, immortal: bool) -> Function:
    """An Array of the type that a part of a result says; or null.

    It is in a buffer or in an array of NumPy's; the other one is None.
    """
    parameters = ("ptr %part", "ptr %buffer", "ptr %host")
    f = ObjectFunction("new_array", "ptr", *parameters, immortal=immortal)
    state, part = f.state(), f.view("%part", ResultPart)
    spare = state.pointer("spare")
    made = f.variable("ptr", spare)
    fresh = f.equal("ptr", spare, "null")
    with f.when(fresh):
        kind = state.pointer("array")
        new = f.let(f"call ptr @PyType_GenericAlloc(ptr {kind}, i64 0)")
        with f.when(f.equal("ptr", new, "null")):
            f.give("null")
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
        value = part.pointer(field)
        f.hold(value)
        f.store("ptr", value, f.beyond(array, getattr(offsets, field)))
    with f.when(f.let(f"xor i1 {fresh}, true")):
        f.do(f"call void @PyObject_GC_Track(ptr {array})")
    f.give(array)
    return f


def _array_dies(offsets: Offsets) -> Function:
    """What Python calls when an Array's last reference goes, or one of a subclass."""
    f = ObjectFunction("array_dies", "void", "ptr %array", visible=True)
    f.do("call void @PyObject_GC_UnTrack(ptr %array)")
    references = f.at("%array", offsets.references)
    with f.when(f.differ("ptr", references, "null")):
        f.do("call void @PyObject_ClearWeakRefs(ptr %array)")
    for name in _SLOTS:
        place = f.beyond("%array", getattr(offsets, name))
        held = f.load("ptr", place)
        f.store("ptr", "null", place)
        with f.when(f.differ("ptr", held, "null")):
            f.let_go(held)
    kind, state = f.type_of("%array"), f.state()
    own = f.equal("ptr", kind, state.pointer("array"))
    few = f.let(f"icmp slt i64 {state.number('spares')}, {KEPT}")
    with f.when(f.let(f"and i1 {own}, {few}")):
        f.store("ptr", state.pointer("spare"), f.beyond("%array", offsets.aval))
        state.set("spare", "%array", "ptr")
        f.add_to(state, "spares", 1)
        f.give()
    f.do("call void @PyObject_GC_Del(ptr %array)")
    f.let_go(kind)
    f.give()
    return f
