"""The inline cache: eager calls like earlier ones go straight to NumPy.

Native code stands before functions of Python that work on arrays. It looks at the
arguments, and where it has an entry for such ones it does the steps of the entry:

    key     the function, the settings, and of each argument: the type of an Array,
            the class of a float, of anything else the very object (`call_key.py`)
    steps   loops and calls of NumPy, each with places for what the call was given or
            has made

What it has no entry for goes to the function; the eighth time it is recorded
(`learn_call.py`). While anything is traced the cache is not used.

    lookup      what is called: finds an entry, has others recorded
    run_entry   the result of an entry, or MISS where Python's code shall do it
    step        one loop, or one call of NumPy
    hosted      an argument as NumPy has it
"""

from __future__ import annotations

from ftrace.devices.llvm.call.cpython.method_table import PLACES, TRIED
from ftrace.devices.llvm.call.cpython.object_ir import ObjectFunction
from ftrace.devices.llvm.call.cpython.object_layout import DTYPE, ITEMS, SIZE, Offsets
from ftrace.devices.llvm.call.eager.call_key import (
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
from ftrace.devices.llvm.call.jit.entry import MISS
from ftrace.devices.llvm.ir.function_builder import Function, View
from ftrace.devices.llvm.runtime.vm.records import Word
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.trace.tiering import CALLS_BEFORE_RECORD

#: The low bits of a mark are a count.
COUNTED = 15


def lookup_ir(
    offsets: Offsets, immortal: bool, methods: int, operators: int, index: int
) -> str:
    """All functions of the inline cache.

    Args:
      methods: how many the class of arrays has; operators are the first of them.
      index: the number of `x[…]`.
    """
    functions = [
        _is_same(),
        _lookup(immortal),
        _call_eager(),
        _method(operators, index),
    ]
    functions += [_stub(number) for number in range(methods)]
    own = "".join(f.text for f in functions)
    return keys_ir(offsets) + run_entry_ir(offsets, immortal) + own


def _is_same() -> Function:
    f = ObjectFunction("is_same", "i32", "ptr %record", "ptr %kit", "i64 %hash")
    record, kit = f.view("%record", EntryLayout), f.view("%kit", Kit)
    refuse_if(f, f.differ("i64", record.number("hash"), "%hash"))
    used = kit.number("used")
    refuse_if(f, f.differ("i64", record.number("used"), used))
    known, given = record.pointer("words"), kit.pointer("words")
    with f.repeat(used) as i:
        refuse_if(f, f.differ("ptr", f.slot(known, i), f.slot(given, i)))
    f.give(1)
    return f


def _lookup(immortal: bool) -> Function:
    """`lookup(function, arguments, how many by position, names of the others)`."""
    parameters = (
        "ptr %function", "ptr %args", "i64 %given", "ptr %names", "i64 %mode",
    )  # fmt: skip
    f = ObjectFunction("lookup", "ptr", *parameters, immortal=immortal)
    named = _named(f)
    count = f.let(f"add i64 {named}, %given")
    _leave_if(f, f.let(f"icmp ugt i64 {count}, {ARGUMENTS}"))
    _leave_if(f, f.differ("i64", f.state().number("recording"), 0))
    traces = f.load("i64", f.beyond(f.state().pointer("traces"), SIZE))
    _leave_if(f, f.differ("i64", traces, 0))
    kit = _noted(f, count, named)
    whole = _hashed(f, kit)
    home = f.let(f"and i64 {whole}, {PLACES - 1}")
    _run_known(f, kit, whole, home)
    _count_call(f, whole, home)
    _miss(f, kit, whole, count)
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


def _run_known(f: ObjectFunction, kit: View, whole: str, home: str) -> None:
    """Does the steps of the record of a key, and ends, where there is one."""
    table = f.state().pointer("entries")
    with f.repeat(TRIED) as i:
        beyond = f.let(f"add i64 {home}, {i}")
        place = f.let(f"and i64 {beyond}, {PLACES - 1}")
        record = f.slot(table, place)
        f.stop_if(f.equal("ptr", record, "null"))
        same = f"ptr {record}, ptr {kit.address}, i64 {whole}"
        known = f.let(f"call i32 @is_same({same})")
        with f.when(f.differ("i32", known, 0)):
            steps = f.view(record, EntryLayout).number("steps")
            _leave_if(f, f.let(f"icmp slt i64 {steps}, 0"))
            leaves = kit.pointer("leaves")
            found = f.let(f"call ptr @run_entry(ptr {record}, ptr {leaves})")
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
            _leave_if(f, f.let(f"icmp slt i64 {count}, {CALLS_BEFORE_RECORD}"))
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


def _miss(f: ObjectFunction, kit: View, whole: str, count: str) -> None:
    """Has a call recorded, and ends with what that gives."""
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
    named, on_miss = f.load("ptr", names), state.pointer("on_miss")
    found = f.ask(on_miss, "%function", given, named, key)
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
    f.give(f.let(f"call ptr @lookup({call})"))
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
    f.give(f.let(f"call ptr @lookup({call})"))
    return f


def _stub(number: int) -> Function:
    parameters = ("ptr %self", "ptr %args", "i64 %given", "ptr %names")
    f = ObjectFunction(f"method_{number}", "ptr", *parameters, visible=True)
    operands = f"ptr %self, ptr %args, i64 %given, ptr %names, i64 {number}"
    f.give(f.let(f"call ptr @method({operands})"))
    return f


#: A vectorcall may use the place before its arguments.
_OFFSET = 1 << 63


class EntryLayout(NamedTuple):
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
      made: the part of the result; see `build_results`.
      used_since: 1 if it has been since that was asked; see `learn_call`.
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


def run_entry_ir(offsets: Offsets, immortal: bool) -> str:
    """All functions that do steps."""
    functions = [
        _hosted(offsets, immortal),
        _step(immortal),
        _settled(),
        _run_entry(immortal),
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
      record, state: the `EntryLayout`, and what all functions use.
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


def _run_entry(immortal: bool) -> Function:
    """The result of a record for leaves; null with an exception, or MISS."""
    f = ObjectFunction(
        "run_entry", "ptr", "ptr %record", "ptr %given", immortal=immortal
    )
    record = f.view("%record", EntryLayout)
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
