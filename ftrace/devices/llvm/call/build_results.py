"""What a native call returns: Arrays, and the containers that hold them.

build(part, held)   a new object, or null with an exception
"""

from __future__ import annotations

from collections.abc import Callable

from ftrace.devices.llvm.call import records as r
from ftrace.devices.llvm.call.object_ir import ObjectFunction
from ftrace.devices.llvm.call.object_layout import ITEMS, KEYS
from ftrace.devices.llvm.ir.function_builder import Routines, View

_PARAMETERS = ("ptr %part", "ptr %held")
_OPERANDS = "ptr %part, ptr %held"


results = Routines(ObjectFunction)


@results("ptr", *_PARAMETERS)
def build(f: ObjectFunction) -> None:
    kind = f.load("i64", "%part")
    with f.when(f.equal("i64", kind, r.RESULT)):
        buffer = f.slot("%held", f.view("%part", r.ResultPart).number("number"))
        operands = f"ptr %part, ptr {buffer}, ptr {f.state().pointer('none')}"
        f.give(f.let(f"call ptr @new_array({operands})"))
    with f.when(f.equal("i64", kind, r.HOSTED)):
        host = f.slot("%held", f.view("%part", r.ResultPart).number("number"))
        operands = f"ptr %part, ptr {f.state().pointer('none')}, ptr {host}"
        f.give(f.let(f"call ptr @new_array({operands})"))
    with f.when(f.equal("i64", kind, r.GIVEN)):
        given = f.slot("%held", f.view("%part", r.GivenPart).number("number"))
        f.hold(given)
        f.give(given)
    for one, name in (
        (r.MAPPING, "mapping"),
        (r.TUPLE, "tuple"),
        (r.LIST, "list"),
        (r.NAMEDTUPLE, "namedtuple"),
    ):
        with f.when(f.equal("i64", kind, one)):
            f.give(f.let(f"call ptr @build_{name}({_OPERANDS})"))
    none = f.state().pointer("none")
    f.hold(none)
    f.give(none)


def _give_up_if_null(f: ObjectFunction, made: str, begun: str) -> None:
    with f.when(f.equal("ptr", made, "null")):
        f.let_go(begun)
        f.give("null")


def _child(f: ObjectFunction, part: str) -> str:
    return f.let(f"call ptr @build(ptr {part}, ptr %held)")


@results("ptr", *_PARAMETERS)
def build_mapping(f: ObjectFunction) -> None:
    """A dict: a copy of one with these keys has them in place."""
    part = f.view("%part", r.BuiltPart)
    made = f.let(f"call ptr @PyDict_Copy(ptr {part.pointer('template')})")
    f.give_if(f.equal("ptr", made, "null"), "null")
    keys, parts = part.pointer("keys"), part.pointer("parts")
    slots = part.pointer("slots")
    with f.when(f.differ("ptr", slots, "null")):
        _put_in_place(f, part, made, slots)
        f.give(made)
    with f.repeat(part.number("length")) as i:
        child = _child(f, f.slot(parts, i))
        _give_up_if_null(f, child, made)
        operands = f"ptr {made}, ptr {f.slot(keys, i)}, ptr {child}"
        status = f.let(f"call i32 @PyDict_SetItem({operands})")
        f.let_go(child)
        with f.when(f.differ("i32", status, 0)):
            f.let_go(made)
            f.give("null")
    f.give(made)


def _put_in_place(f: ObjectFunction, part: View, made: str, slots: str) -> None:
    """Puts values where a copy of a template has others."""
    held, parts = f.at(made, KEYS), part.pointer("parts")
    with f.repeat(part.number("length")) as i:
        child = _child(f, f.slot(parts, i))
        _give_up_if_null(f, child, made)
        place = f.beyond(held, f.load("i64", f.word(slots, i)))
        before = f.load("ptr", place)
        f.store("ptr", child, place)
        f.let_go(before)


@results("ptr", *_PARAMETERS)
def build_tuple(f: ObjectFunction) -> None:
    _build_sequence(f, "PyTuple_New", lambda made: f.beyond(made, ITEMS))


@results("ptr", *_PARAMETERS)
def build_list(f: ObjectFunction) -> None:
    _build_sequence(f, "PyList_New", lambda made: f.at(made, ITEMS))


def _build_sequence(
    f: ObjectFunction, new: str, items_of: Callable[[str], str]
) -> None:
    part = f.view("%part", r.BuiltPart)
    count, parts = part.number("length"), part.pointer("parts")
    made = f.let(f"call ptr @{new}(i64 {count})")
    f.give_if(f.equal("ptr", made, "null"), "null")
    items = items_of(made)
    with f.repeat(count) as i:
        child = _child(f, f.slot(parts, i))
        _give_up_if_null(f, child, made)
        f.set_slot(items, i, child)
    f.give(made)


@results("ptr", *_PARAMETERS)
def build_namedtuple(f: ObjectFunction) -> None:
    """`tuple.__new__(cls, items)`: what the class's own `__new__` does."""
    part = f.view("%part", r.BuiltPart)
    items = f.let(f"call ptr @build_tuple({_OPERANDS})")
    f.give_if(f.equal("ptr", items, "null"), "null")
    new, kind = f.state().pointer("tuple_new"), part.pointer("type")
    made = f.ask(new, kind, items)
    f.let_go(items)
    f.give(made)
