"""The steps of a record, done for other arguments.

perform   the result of a record, or MISS where Python's code shall do it
step      one call of NumPy
hosted    an argument as NumPy has it
"""

from __future__ import annotations

from ftrace.devices.llvm.calling.entry import MISS
from ftrace.devices.llvm.calling.keys import refuse_if
from ftrace.devices.llvm.calling.objects import ObjectFunction
from ftrace.devices.llvm.calling.probe import DTYPE, Offsets
from ftrace.devices.llvm.runner.function import Function, View
from ftrace.devices.llvm.runner.records import Word
from ftrace.records import NamedTuple

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
      made: the part of the result; see `results`.
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
    made: Word
    used_since: Word


class Step(NamedTuple):
    """A call of NumPy: its function, its operands, and the places among these.

    Attributes:
      function: 0 where Python's code shall do the whole call instead.
      operands, arity: pointers; null where a value comes.
      holes, places: how many values, and for each its place and its number.
      value: the number of what it makes.
      dtype: what that must have; 0 for something that is no array.
      loop: a `Loop` that does it; 0 if there is none.
      loud: 1 if NumPy might tell of floating-point errors.
    """

    function: Word
    operands: Word
    arity: Word
    holes: Word
    places: Word
    value: Word
    dtype: Word
    loop: Word
    loud: Word


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
        f.give(f.ask(state.pointer("host_of"), "%thing"))
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
    whole = f.ask(state.pointer("as_ndarray"), "%value")
    with f.when(f.equal("ptr", whole, "null")):
        f.let_go("%value")
        f.give("null")
    with f.when(f.equal("ptr", f.at(whole, DTYPE), "%dtype")):
        f.let_go("%value")
        f.give(whole)
    f.let_go("%value")
    made = f.ask(state.pointer("settle"), whole, "%dtype")
    f.let_go(whole)
    f.give(made)
    return f


def _step(immortal: bool) -> Function:
    """Does a step; 1, or 0, mostly with an exception."""
    parameters = ("ptr %step", "ptr %values", "ptr %token")
    f = ObjectFunction("step", "i32", *parameters, immortal=immortal)
    step = f.view("%step", Step)
    loop = step.pointer("loop")
    with f.when(f.differ("ptr", loop, "null")):
        quick = f.let(f"call ptr @run_loop(ptr {loop}, ptr %values)")
        with f.when(f.differ("ptr", quick, "null")):
            f.set_slot("%values", step.number("value"), quick)
            f.give(1)
    refuse_if(f, f.equal("ptr", step.pointer("function"), "null"))
    _silence(f, step)
    made = f.variable("ptr", _called(f, step))
    refuse_if(f, f.equal("ptr", f.load("ptr", made), "null"))
    dtype = step.pointer("dtype")
    with f.when(f.differ("ptr", dtype, "null")):
        raw = f.load("ptr", made)
        f.store("ptr", f.let(f"call ptr @settled(ptr {raw}, ptr {dtype})"), made)
        refuse_if(f, f.equal("ptr", f.load("ptr", made), "null"))
    f.set_slot("%values", step.number("value"), f.load("ptr", made))
    f.give(1)
    return f


def _called(f: ObjectFunction, step: View) -> str:
    """What the function of a step returns for its operands."""
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
    return f.let(f"call ptr @PyObject_VectorcallDict({call})")


class _Work:
    """One call of a record, in the making.

    Attributes:
      record, state: the `Front`, and what all functions use.
      kept: where the leaves are, which are held.
      values: where the values come, and results that are leaves after them.
      filled: where it is counted how many there are.
      result: where the result comes; null before.
      token: where it stands that NumPy is silent; null where it is not yet.
    """

    def __init__(self, f: ObjectFunction, record: View) -> None:
        leaves = record.number("leaves")
        count = record.number("values")
        self.record, self.state = record, f.state()
        self.leaves = leaves
        self.values = f.pointers(f.let(f"add i64 {count}, {leaves}"))
        self.owner = record.pointer("owner")
        f.hold(self.owner)
        self.kept = f.pointers(leaves)
        with f.repeat(leaves) as i:
            leaf = f.slot("%given", i)
            f.hold(leaf)
            f.set_slot(self.kept, i, leaf)
        self.filled = self.result = self.token = ""

    def let_go(self, f: ObjectFunction) -> None:
        """Of the leaves and the record."""
        operands = f"ptr {self.kept}, i64 {self.leaves}, ptr {self.owner}"
        f.do(f"call void @release({operands})")


def _perform(immortal: bool) -> Function:
    """The result of a record for leaves; null with an exception, or MISS."""
    f = ObjectFunction("perform", "ptr", "ptr %record", "ptr %given", immortal=immortal)
    record = f.view("%record", Front)
    record.set("used_since", 1)
    with f.when(f.differ("i64", record.number("given"), 0)):
        same = f.slot("%given", record.number("result"))
        f.hold(same)
        f.give(same)
    work = _Work(f, record)
    work.filled = f.variable("i64", 0)
    work.result = f.variable("ptr", "null")
    work.token = f.variable("ptr", "null")
    _take_leaves(f, work)
    good = f.equal("i64", f.load("i64", work.filled), work.leaves)
    with f.when(good):
        _all_steps(f, work)
    with f.when(f.differ("ptr", f.load("ptr", work.token), "null")):
        token = f.load("ptr", work.token)
        pair = f"ptr {work.state.pointer('hush_variable')}, ptr {token}"
        f.do(f"call i32 @PyContextVar_Reset({pair})")
        f.let_go(token)
    work.let_go(f)
    none = work.state.pointer("none")
    f.hold(none)
    given = f"ptr {work.values}, i64 {f.load('i64', work.filled)}, ptr {none}"
    f.do(f"call void @release({given})")
    with f.when(f.differ("ptr", f.load("ptr", work.result), "null")):
        f.give(f.load("ptr", work.result))
    with f.when(f.equal("ptr", f.let("call ptr @PyErr_Occurred()"), "null")):
        f.give(MISS)
    ordinary = f"ptr {work.state.pointer('exception')}"
    status = f.let(f"call i32 @PyErr_ExceptionMatches({ordinary})")
    with f.when(f.equal("i32", status, 0)):
        f.give("null")  # Ctrl-C is no reason to begin again
    f.do("call void @PyErr_Clear()")  # Python's code says what is wrong
    f.give(MISS)
    return f


def _take_leaves(f: ObjectFunction, work: _Work) -> None:
    """The leaves as NumPy has them are the first values."""
    with f.repeat(work.leaves) as i:
        host = f.let(f"call ptr @hosted(ptr {f.slot(work.kept, i)})")
        f.stop_if(f.equal("ptr", host, "null"))
        f.set_slot(work.values, i, host)
        f.store("i64", f.let(f"add i64 {i}, 1"), work.filled)


def _silence(f: ObjectFunction, step: View) -> None:
    """From the first loud step on NumPy tells of no floating-point errors."""
    loud = f.differ("i64", step.number("loud"), 0)
    told = f.equal("ptr", f.load("ptr", "%token"), "null")
    with f.when(f.let(f"and i1 {loud}, {told}")):
        state = f.state()
        pair = f"ptr {state.pointer('hush_variable')}, ptr {state.pointer('silence')}"
        f.store("ptr", f.let(f"call ptr @PyContextVar_Set({pair})"), "%token")


def _all_steps(f: ObjectFunction, work: _Work) -> None:
    record, values, filled = work.record, work.values, work.filled
    steps, total = record.pointer("list"), record.number("steps")
    done = f.variable("i64", 0)
    with f.repeat(total) as i:
        step = f.view(steps, Step, i)
        good = f.let(
            f"call i32 @step(ptr {step.address}, ptr {values}, ptr {work.token})"
        )
        f.stop_if(f.equal("i32", good, 0))
        f.store("i64", f.let(f"add i64 {f.load('i64', filled)}, 1"), filled)
        f.store("i64", f.let(f"add i64 {i}, 1"), done)
    with f.when(f.equal("i64", f.load("i64", done), total)):
        # Results that are arguments are found after the values.
        beyond = f.word(values, record.number("values"))
        f.copy(beyond, work.kept, f.let(f"shl i64 {record.number('leaves')}, 3"))
        operands = f"ptr {record.pointer('made')}, ptr {values}"
        f.store("ptr", f.let(f"call ptr @build({operands})"), work.result)
