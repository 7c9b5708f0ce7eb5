"""Arrays in native code: made from a buffer and a type, and kept when they die.

`Array` stays the class that Python has made of its definition; only what happens when
an instance's last reference goes is done here.
"""

from __future__ import annotations

from ftrace.devices.llvm.calling.objects import ObjectFunction
from ftrace.devices.llvm.calling.probe import Offsets
from ftrace.devices.llvm.calling.records import ResultPart
from ftrace.devices.llvm.runner.function import Function

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
