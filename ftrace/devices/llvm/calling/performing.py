"""The steps of a record, done for other arguments.

perform   the result of a record, or MISS where Python's code shall do it
step      one call of NumPy
hosted    an argument as NumPy has it
"""

from __future__ import annotations

from typing import NamedTuple

from ftrace.devices.llvm.calling.entry import MISS
from ftrace.devices.llvm.calling.keys import refuse_if
from ftrace.devices.llvm.calling.objects import ObjectFunction
from ftrace.devices.llvm.calling.probe import DTYPE, Offsets
from ftrace.devices.llvm.runner.function import Function, View
from ftrace.devices.llvm.runner.records import Word

#: A vectorcall may use the place before its arguments.
_OFFSET = 1 << 63


class Front(NamedTuple):
    """Calls of one kind.

    Attributes:
      owner: the object that keeps all of this in memory.
      hash, used, words: the key.
      steps: how many; -1 leaves such calls to Python.
      list: the steps, one after the other.
      leaves: how many arrays and floats a call is given; the first values.
      values: how many values there are with those that the steps make.
      result: the number of the argument that is given back.
      given: 1 if one is.
      hushed: 1 if floating-point errors might be told of.
      made: the part of the result; see `results`.
      loop: a `Loop` that does all steps; 0 if there is none.
      used_since: 1 if it has been since that was asked; see `learning`.
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
    used_since: Word


class Step(NamedTuple):
    """A call of NumPy: its function, its operands, and the places among these.

    Attributes:
      operands, arity: pointers; null where a value comes.
      holes, places: how many values, and for each its place and its number.
      value: the number of what it makes.
      dtype: what that must have; 0 for something that is no array.
      loop: a `Loop` that does it; 0 if there is none.
      view: a `View` that it is; 0 if it is none.
    """

    function: Word
    operands: Word
    arity: Word
    holes: Word
    places: Word
    value: Word
    dtype: Word
    loop: Word
    view: Word


def performing_ir(offsets: Offsets, immortal: bool) -> str:
    """All functions that do steps."""
    functions = [
        _hosted(offsets, immortal),
        _step(immortal),
        _settled(),
        _perform(immortal),
    ]
    return "".join(f.text for f in functions)


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
    wrap = f"ptr {state.pointer('as_ndarray')}, ptr %value, ptr null"
    whole = f.let(f"call ptr (ptr, ...) @PyObject_CallFunctionObjArgs({wrap})")
    with f.when(f.equal("ptr", whole, "null")):
        f.let_go("%value")
        f.give("null")
    with f.when(f.equal("ptr", f.at(whole, DTYPE), "%dtype")):
        f.let_go("%value")
        f.give(whole)
    f.let_go("%value")
    operands = f"ptr {state.pointer('settle')}, ptr {whole}, ptr %dtype, ptr null"
    made = f.let(f"call ptr (ptr, ...) @PyObject_CallFunctionObjArgs({operands})")
    f.let_go(whole)
    f.give(made)
    return f


def _step(immortal: bool) -> Function:
    """Does a step; 1, or 0 with an exception."""
    f = ObjectFunction("step", "i32", "ptr %step", "ptr %values", immortal=immortal)
    step = f.view("%step", Step)
    loop = step.pointer("loop")
    with f.when(f.differ("ptr", loop, "null")):
        quick = f.let(f"call ptr @looped_values(ptr {loop}, ptr %values)")
        with f.when(f.differ("ptr", quick, "null")):
            f.set_slot("%values", step.number("value"), quick)
            f.give(1)
    view = step.pointer("view")
    with f.when(f.differ("ptr", view, "null")):
        quick = f.let(f"call ptr @viewed(ptr {view}, ptr %values)")
        with f.when(f.differ("ptr", quick, "null")):
            f.set_slot("%values", step.number("value"), quick)
            f.give(1)
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
    refuse_if(f, f.equal("ptr", f.load("ptr", made), "null"))
    dtype = step.pointer("dtype")
    with f.when(f.differ("ptr", dtype, "null")):
        raw = f.load("ptr", made)
        f.store("ptr", f.let(f"call ptr @settled(ptr {raw}, ptr {dtype})"), made)
        refuse_if(f, f.equal("ptr", f.load("ptr", made), "null"))
    f.set_slot("%values", step.number("value"), f.load("ptr", made))
    f.give(1)
    return f


def _perform(immortal: bool) -> Function:
    """The result of a record for leaves; null with an exception, or MISS."""
    f = ObjectFunction("perform", "ptr", "ptr %record", "ptr %given", immortal=immortal)
    record, state = f.view("%record", Front), f.state()
    leaves = record.number("leaves")
    record.set("used_since", 1)
    with f.when(f.differ("i64", record.number("given"), 0)):
        same = f.slot("%given", record.number("result"))
        f.hold(same)
        f.give(same)
    count = record.number("values")
    values = f.pointers(f.let(f"add i64 {count}, {leaves}"))
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
        _all_steps(f, record, values, kept, filled, result)
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
    f: ObjectFunction,
    record: View,
    values: str,
    kept: str,
    filled: str,
    result: str,
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
        # Results that are arguments are found after the values.
        beyond = f.word(values, record.number("values"))
        f.copy(beyond, kept, f.let(f"shl i64 {record.number('leaves')}, 3"))
        operands = f"ptr {record.pointer('made')}, ptr {values}"
        f.store("ptr", f.let(f"call ptr @build({operands})"), result)
