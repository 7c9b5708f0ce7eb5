"""The native runner: a program, control flow included, is one native call.

A program runs on a *frame*: an array of pointers, one per slot. At the top they point
into this call's objects; the frame of a branch or a body is made from the frame around
it. A step is a record that begins with the address of its handler,

    i32 handler(record, frame, context)

which gives 0 to go on; any other status ends all programs around it.

The frame of a loop's body is made once; from one iteration to the next only pointers
change:

    carry     reads `initial`, then what was written last; writes the other place
    elements  of arrays move on by their size, up or down
    cells     of stacks: number t is read, and number t of others is written

Iterations that may run at the same time are split into lanes. A lane is a loop with a
frame and an arena of its own, on one thread.

A call that takes long looks from time to time whether Python has a signal:

    check_signals(context) -> status    at most every `POLL_INTERVAL` nanoseconds
    renew_budget(context) -> status     the same, and begins a new budget
    ftrace_poll(buffers) -> i1          the same for kernels: shall this one stop?
    ftrace_stop(buffers)                a kernel found no memory to work in

Only the thread that called can handle signals, and only if it gave the GIL away. What
a handler raises, as KeyboardInterrupt for Ctrl-C, stays with that thread: `run` raises
it. The context of the call is marked, and whoever works for it stops at its next check:
a lane at its next iteration, a worker before its next piece of a kernel, a kernel that
is itself long at its next poll.
"""

from __future__ import annotations

import time

from ftrace.backends.llvm import target
from ftrace.backends.llvm.ir.function_builder import HANDLER, Function, Routines, View
from ftrace.backends.llvm.ir.symbols import POLL, STOP
from ftrace.backends.llvm.runtime import records
from ftrace.backends.llvm.runtime.records import CUT, GO_ON, NO_MEMORY, RAISED, Context
from ftrace.backends.llvm.runtime.warm_memory import cell, empty_stacks, free_stacks

#: Nanoseconds between two checks.
POLL_INTERVAL = 50_000_000
#: Operations between two readings of the clock.
BUDGET = 1 << 16
#: What kernels take at least of the budget of a call: those that are too little to
#: share, and the others.
_LITTLE, _MUCH = 1 << 10, 1 << 14
#: How often native code looks whether messages are there before Python does: for about
#: a millisecond, in which 4 MB come.
TRIES = 1 << 14

VARIABLES = """
declare ptr @PyObject_CallFunction(ptr, ptr, ...)

@one_number = internal constant [2 x i8] c"n\\00"
@two_numbers = internal constant [3 x i8] c"nn\\00"
@four_numbers = internal constant [5 x i8] c"nnnn\\00"
"""


handlers = Routines(Function)


# Signals.


def new_context(f: Function) -> View:
    """The context of a call on this thread, which has the GIL."""
    context = f.new(Context)
    context.set("threads", "%threads")
    context.set("state", "null", "ptr")
    context.set("budget", BUDGET)
    context.set("checked", 0)
    context.set("stopped", 0)
    thread = f.outside("i64 pthread_self()") if target.has_threads() else 0
    context.set("thread", thread)
    context.set("call", context.address, "ptr")
    return context


def new_lane(f: Function, outer: str) -> str:
    """The context of a part of a call that runs on one thread, maybe another one."""
    context = f.new(Context)
    context.set("threads", 1)
    context.set("budget", BUDGET)
    context.set("call", f.view(outer, Context).pointer("call"), "ptr")
    return context.address


@handlers("i32", "ptr %record")
def check_signals(f: Function) -> None:
    call = f.view(f.view("%record", Context).pointer("call"), Context)
    _end_if_stopped(f, "%record")
    if not target.has_threads():
        f.ret(GO_ON)
        return
    state = call.pointer("state")
    f.ret_if(f.let(f"icmp eq ptr {state}, null"), GO_ON)
    here = f.outside("i64 pthread_self()")
    f.ret_if(f.let(f"icmp ne i64 {here}, {call.number('thread')}"), GO_ON)
    now = read_clock(f)
    before = call.number("checked")
    with f.when(f.let(f"icmp eq i64 {before}, 0")):  # a call has just looked by itself
        call.set("checked", now)
        f.ret(GO_ON)
    passed = f.let(f"sub i64 {now}, {before}")
    f.ret_if(f.let(f"icmp ult i64 {passed}, {POLL_INTERVAL}"), GO_ON)
    call.set("checked", now)
    f.outside("void PyEval_RestoreThread(ptr)", state)
    found = f.outside("i32 PyErr_CheckSignals()")
    call.set("state", f.outside("ptr PyEval_SaveThread()"), "ptr")
    with f.when(f.let(f"icmp ne i32 {found}, 0")):
        mark = call.at("stopped")
        f.do(f"store atomic i64 {RAISED}, ptr {mark} monotonic, align 8")
        f.ret(RAISED)
    f.ret(GO_ON)


@handlers("i32", "ptr %record")
def renew_budget(f: Function) -> None:
    f.view("%record", Context).set("budget", BUDGET)
    f.ret(check_signals(f, "%record"))


@handlers("i1", "ptr %buffers", visible=True, name=POLL)
def poll(f: Function) -> None:
    context = f.slot("%buffers", -1)
    f.ret_if(f.let(f"icmp eq ptr {context}, null"), "false")
    status = check_signals(f, context)
    f.ret(f.let(f"icmp ne i32 {status}, {GO_ON}"))


@handlers("void", "ptr %buffers", visible=True, name=STOP)
def stop(f: Function) -> None:
    """An exception that was raised before stays what the call ends with."""
    context = f.slot("%buffers", -1)
    call = f.view(f.view(context, Context).pointer("call"), Context)
    numbers = f"i64 {GO_ON}, i64 {NO_MEMORY} monotonic monotonic"
    f.do(f"cmpxchg ptr {call.at('stopped')}, {numbers}")
    f.ret()


def load_status(f: Function, context: str) -> str:
    """The status of the call that a context is of."""
    call = f.view(f.view(context, Context).pointer("call"), Context)
    mark = f.let(f"load atomic i64, ptr {call.at('stopped')} monotonic, align 8")
    return f.let(f"trunc i64 {mark} to i32")


def _end_if_stopped(f: Function, context: str) -> None:
    status = load_status(f, context)
    f.ret_if(f.let(f"icmp ne i32 {status}, {GO_ON}"), status)


# Programs and their steps.


@handlers("i32", "ptr %entry", "ptr %objects", "i64 %threads", visible=True)
def run(f: Function) -> None:
    """`run(entry, objects, threads)` -> status: `run_pointers` of NumPy's arrays.

    Their data pointers stand after the object's head.
    """
    count = f.view("%entry", records.Entry).number("objects")
    outer = f.pointers(f.let(f"add i64 {count}, 1"))
    with f.repeat(count) as i:
        array = f.slot("%objects", i)
        f.set_slot(outer, i, f.load("ptr", f.beyond(array, object.__basicsize__)))
    f.ret(run_pointers(f, "%entry", outer, "%threads"))


@handlers("i32", "ptr %entry", "ptr %outer", "i64 %threads", visible=True)
def run_pointers(f: Function) -> None:
    """The entry: `run_pointers(entry, pointers, threads)`; called with the GIL."""
    entry = f.view("%entry", records.Entry)
    program = entry.pointer("program")
    frame = _new_frame(f, program, "%outer", "null")
    context = new_context(f)
    released = f.let(f"icmp ne i64 {entry.number('released')}, 0")
    with f.when(released):
        context.set("state", f.outside("ptr PyEval_SaveThread()"), "ptr")
    status = run_program(f, program, frame, context.address)
    with f.when(released):
        f.outside("void PyEval_RestoreThread(ptr)", context.pointer("state"))
    f.ret(status)


def _new_frame(f: Function, program: str, outer: str, scratch: str) -> str:
    """The frame of a program in the frame around it."""
    slots = f.view(program, records.ProgramRecord).number("slots")
    frame = f.pointers(f.let(f"add i64 {slots}, 1"))
    resolve(f, program, outer, scratch, frame)
    return frame


@handlers("void", "ptr %program", "ptr %outer", "ptr %scratch", "ptr %frame")
def resolve(f: Function) -> None:
    """Fills a frame: every slot is a reference to the frame around it."""
    program = f.view("%program", records.ProgramRecord)
    references = program.pointer("references")
    with f.repeat(program.number("slots")) as i:
        reference = f.view(references, records.Reference, i)
        source = reference.number("source")
        own = f.let(f"icmp slt i64 {source}, 0")
        # The first pointer of a frame may be read also where it is not asked for.
        there = f.slot("%outer", f.let(f"select i1 {own}, i64 0, i64 {source}"))
        base = f.let(f"select i1 {own}, ptr %scratch, ptr {there}")
        f.set_slot("%frame", i, f.beyond(base, reference.number("offset")))
    f.ret()


@handlers("i32", "ptr %program", "ptr %frame", "ptr %context")
def run_program(f: Function) -> None:
    """Runs the steps of a program, with stacks that are its own."""
    program = f.view("%program", records.ProgramRecord)
    stacks, headers = program.number("stacks"), program.pointer("headers")
    with f.rows(headers, records.Headers, stacks) as row:
        header = f.slot("%frame", row.number("slot"))
        count = row.number("stacks")
        empty_stacks(f, header, count)
    first = program.pointer("first")
    status = f.variable("i32", GO_ON)
    with f.repeat(program.number("steps")) as i:
        record = f.slot(first, i)
        handler = f.slot(record, 0)
        operands = f"ptr {record}, ptr %frame, ptr %context"
        found = f.let(f"call i32 {handler}({operands})")
        f.store("i32", found, status)
        f.stop_if(f.let(f"icmp ne i32 {found}, {GO_ON}"))
    found = f.load("i32", status)
    with f.when(f.let(f"icmp ne i32 {found}, {GO_ON}")):
        # What was started may still be written, whatever has raised.
        under_way = f.let(f"icmp ne i64 {program.number('overlaps')}, 0")
        cut = f.let(f"icmp eq i32 {found}, {CUT}")
        f.ret_if(f.let(f"or i1 {cut}, {under_way}"), found)
    with f.rows(headers, records.Headers, stacks) as row:
        header = f.slot("%frame", row.number("slot"))
        facts = [row.number(name) for name in ("stacks", "size", "log")]
        free_stacks(f, header, *facts)
    f.ret(f.load("i32", status))


@handlers("i32", *HANDLER, visible=True)
def run_kernel(f: Function) -> None:
    """Calls a kernel: here if it is too little to share, else by the pool.

    The context stands before the buffers: a long kernel asks it whether to go on.
    """
    context = f.view("%context", Context)
    step = f.view("%record", records.KernelStep)
    slots, count = step.pointer("slots"), step.number("buffers")
    pointers = f.pointers(f.let(f"add i64 {count}, 1"))
    f.set_slot(pointers, 0, "%context")
    buffers = f.word(pointers, 1)
    with f.repeat(count) as i:
        slot = f.load("i64", f.word(slots, i))
        f.set_slot(buffers, i, f.slot("%frame", slot))
    kernel = step.pointer("kernel")
    units, grain = step.number("units"), step.number("grain")
    with f.when(f.let(f"icmp ult i64 {units}, {f.let(f'shl i64 {grain}, 1')}")):
        f.do(f"call void {kernel}(ptr {buffers}, i64 0, i64 {units})")
        _end_if_stopped(f, "%context")
        f.ret(_spend(f, context, _LITTLE))
    threads, quantum = context.number("threads"), step.number("quantum")
    job = f"ptr {kernel}, ptr {buffers}, i64 {units}, i64 {grain}, i64 {quantum}"
    f.do(f"call i32 @share({job}, i64 {threads}, ptr %context)")
    _end_if_stopped(f, "%context")
    f.ret(_spend(f, context, _MUCH))


def _spend(f: Function, context: View, cost: int) -> str:
    """The status after so much of the budget: when it is used up, signals are seen."""
    left = f.let(f"sub i64 {context.number('budget')}, {cost}")
    context.set("budget", left)
    with f.when(f.let(f"icmp slt i64 {left}, 0")):
        f.ret(renew_budget(f, "%context"))
    return str(GO_ON)


@handlers("void", "ptr %buffers", "i64 %begin", "i64 %end", visible=True)
def copy(f: Function) -> None:
    """A kernel that copies bytes; its units are bytes."""
    source = f.beyond(f.slot("%buffers", 0), "%begin")
    target = f.beyond(f.slot("%buffers", 1), "%begin")
    f.copy(target, source, f.let("sub i64 %end, %begin"))
    f.ret()


@handlers("i32", *HANDLER, visible=True)
def run_branch(f: Function) -> None:
    """Runs the program that the index chooses."""
    step = f.view("%record", records.BranchStep)
    chosen = f.load("i32", f.slot("%frame", step.number("chosen")))
    wide = f.let(f"sext i32 {chosen} to i64")
    below = f.let(f"icmp slt i64 {wide}, 0")
    least = f.let(f"select i1 {below}, i64 0, i64 {wide}")
    last = f.let(f"sub i64 {step.number('branches')}, 1")
    above = f.let(f"icmp sgt i64 {least}, {last}")
    index = f.let(f"select i1 {above}, i64 {last}, i64 {least}")
    program = f.slot(step.pointer("programs"), index)
    scratch = f.slot("%frame", step.number("scratch"))
    frame = _new_frame(f, program, "%frame", scratch)
    f.ret(run_program(f, program, frame, "%context"))


@handlers("i32", *HANDLER, visible=True)
def run_host(f: Function) -> None:
    """Calls a Python object on the address of the frame; its exception ends the call.

    The exception stays with the thread: whoever called `run` raises it.
    """
    function = f.view("%record", records.HostStep).pointer("callable")
    f.ret(_call_python(f, function, "ptr %frame"))


def _call_python(f: Function, function: str, *numbers: str) -> str:
    """The status of a call of a Python object on numbers."""
    context = f.view("%context", Context)
    f.outside("void PyEval_RestoreThread(ptr)", context.pointer("state"))
    form = {1: "@one_number", 2: "@two_numbers", 4: "@four_numbers"}[len(numbers)]
    operands = ", ".join([f"ptr {function}", f"ptr {form}", *numbers])
    result = f.let(f"call ptr (ptr, ptr, ...) @PyObject_CallFunction({operands})")
    raised = f.let(f"icmp eq ptr {result}, null")
    status = f.variable("i32", RAISED)
    with f.when(f.let(f"xor i1 {raised}, true")):
        f.outside("void Py_DecRef(ptr)", result)
        f.store("i32", GO_ON, status)
    context.set("state", f.outside("ptr PyEval_SaveThread()"), "ptr")
    return f.load("i32", status)


# What processes do together.


@handlers("i32", *HANDLER, visible=True)
def run_exchange(f: Function) -> None:
    """Sends and gets, copies what stays, tries for a while, combines.

    Python knows what to do where it takes longer: it looks whether the others are still
    there, at the time and at signals.
    """
    step = f.view("%record", records.ExchangeStep)
    named = step.pointer("group")
    group = f.load("ptr", named)
    with f.when(f.let(f"icmp eq ptr {group}, null")):
        begin = step.pointer("begin")
        done = _call_python(f, begin, "ptr %frame", "ptr %record")
        f.ret_if(f.let(f"icmp eq i32 {done}, {GO_ON}"), GO_ON)
        cut = f.load("i64", step.pointer("cut"))
        f.store("i64", 0, step.pointer("cut"))
        left = f.let(f"icmp ne i64 {cut}, 0")
        f.ret(f.let(f"select i1 {left}, i32 {CUT}, i32 {done}"))
    requests = _memory(f, step.number("count"), step.number("request"))
    statuses = _memory(f, step.number("count"), step.number("status"))
    count, failed = f.variable("i64", 0), f.variable("i32", 0)
    messages = step.pointer("messages")
    with f.rows(messages, records.MessageRow, step.number("count")) as row:
        _begin_message(f, step, row, group, requests, count, failed)
    own = f.beyond(f.slot("%frame", step.number("operand")), step.number("own"))
    result = f.slot("%frame", step.number("result"))
    f.copy(f.beyond(result, step.number("retained")), own, step.number("nbytes"))
    count, done = f.load("i64", count), f.variable("i32", 0)
    with f.repeat(TRIES):
        few, test = f.let(f"trunc i64 {count} to i32"), step.pointer("test")
        operands = f"i32 {few}, ptr {requests}, ptr {done}, ptr {statuses}"
        _note_failure(f, failed, f.let(f"call i32 {test}({operands})"))
        both = f.let(f"or i32 {f.load('i32', done)}, {f.load('i32', failed)}")
        f.stop_if(f.let(f"icmp ne i32 {both}, 0"))
    undone = f.let(f"icmp eq i32 {f.load('i32', done)}, 0")
    wrong = f.let(f"icmp ne i32 {f.load('i32', failed)}, 0")
    with f.when(f.let(f"or i1 {undone}, {wrong}")):
        code = f.let(f"sext i32 {f.load('i32', failed)} to i64")
        numbers = f"ptr {requests}", f"i64 {count}", f"i64 {code}", f"ptr {statuses}"
        f.store("ptr", "null", named)  # it is Python's until that has come to its end
        status = _call_python(f, step.pointer("late"), *numbers)
        with f.when(f.let(f"icmp ne i32 {status}, {GO_ON}")):
            f.store("i64", 0, step.pointer("cut"))
            f.ret(CUT)
    combine = step.pointer("combine")
    with f.when(f.let(f"icmp ne ptr {combine}, null")):
        _combine(f, step, combine, own, result)
    f.ret(_spend(f, f.view("%context", Context), _MUCH))


def _memory(f: Function, count: str, size: str) -> str:
    return f.let(f"alloca i8, i64 {f.let(f'mul i64 {count}, {size}')}, align 64")


def _begin_message(
    f: Function, step: View, row: View, group: str, requests: str, count: str,
    failed: str,
) -> None:  # fmt: skip
    """One more request, if there is a message."""
    memory = f.beyond(f.slot("%frame", row.number("slot")), row.number("offset"))
    number, table = f.variable("i64", row.number("peer")), row.number("table")
    with f.when(f.let(f"icmp sge i64 {table}, 0")):
        entry = f.item("i32", f.slot("%frame", table), row.number("row"))
        wide = f.let(f"sext i32 {f.load('i32', entry)} to i64")
        f.store("i64", wide, number)
    known = f.load("i64", number)
    there = f.let(f"icmp sge i64 {known}, 0")
    with f.when(f.let(f"xor i1 {there}, true")):
        f.clear(memory, row.number("zeros"))
    with f.when(there):
        tag = row.number("tag")
        own = f.let(f"icmp slt i64 {tag}, 0")
        tag = f.let(f"select i1 {own}, i64 {known}, i64 {tag}")
        peer = f.let(f"udiv i64 {known}, {row.number('lanes')}")
        wide = row.number("elements"), peer, tag
        elements, peer, tag = [f.let(f"trunc i64 {n} to i32") for n in wide]
        place = f.load("i64", count)
        before = f.let(f"mul i64 {place}, {step.number('request')}")
        request = f.beyond(requests, before)
        operands = (
            f"ptr {memory}, i32 {elements}, ptr {step.pointer('kind')}, i32 {peer}, "
            f"i32 {tag}, ptr {group}, ptr {request}"
        )
        found = f.let(f"call i32 {row.pointer('function')}({operands})")
        _note_failure(f, failed, found)
        made = f.let(f"icmp eq i32 {found}, 0")
        f.store("i64", f.sum(place, f.let(f"zext i1 {made} to i64")), count)


def _note_failure(f: Function, failed: str, found: str) -> None:
    """Notes what MPI gives, if it is the first failure."""
    before = f.load("i32", failed)
    well = f.let(f"icmp eq i32 {before}, 0")
    f.store("i32", f.let(f"select i1 {well}, i32 {found}, i32 {before}"), failed)


def _combine(f: Function, step: View, combine: str, own: str, result: str) -> None:
    """`result = combine(result, own)`, or the other way round."""
    first = f.let(f"icmp ne i64 {step.number('own_first')}, 0")
    rows, strides = f.allocate("ptr", 3), f.allocate("i64", 3)
    f.set_slot(rows, 0, f.let(f"select i1 {first}, ptr {own}, ptr {result}"))
    f.set_slot(rows, 1, f.let(f"select i1 {first}, ptr {result}, ptr {own}"))
    f.set_slot(rows, 2, result)
    for i in range(3):
        f.store("i64", step.number("size"), f.word(strides, i))
    elements, data = step.at("elements"), step.pointer("data")
    f.do(f"call void {combine}(ptr {rows}, ptr {elements}, ptr {strides}, ptr {data})")


# What is observed. Nothing of it runs in a program that is not.


def nanoseconds(f: Function) -> str:
    """Of a clock that only goes forward; 0 where there is none."""
    if not target.has_threads():
        return "0"
    now = f.allocate("i64", 2)  # seconds, nanoseconds
    f.outside("i32 clock_gettime(i32, ptr)", time.CLOCK_MONOTONIC, now)
    whole = f.let(f"mul i64 {f.load('i64', now)}, 1000000000")
    return f.sum(whole, f.load("i64", f.word(now, 1)))


@handlers("i64")
def read_clock(f: Function) -> None:
    f.ret(nanoseconds(f))


@handlers("void", "ptr %step", "i64 %number", "i64 %start")
def note_row(f: Function) -> None:
    """A row of the log, if there is room."""
    end = read_clock(f)
    log = f.view("%step", records.ObservedStep).pointer("log")
    place = f.let(f"atomicrmw add ptr {log}, i64 1 monotonic")
    f.ret_if(f.let(f"icmp uge i64 {place}, {f.load('i64', f.word(log, 1))}"))
    row = f.view(f.word(log, 2), records.LogRow, place)
    thread = f.outside("i64 pthread_self()") if target.has_threads() else 0
    facts = {"number": "%number", "thread": thread, "start": "%start", "end": end}
    for name, value in facts.items():
        row.set(name, value)
    f.ret()


@handlers("i32", *HANDLER, visible=True)
def observe_step(f: Function) -> None:
    f.view("%context", Context).set("observed", "%record", "ptr")
    step = f.view("%record", records.ObservedStep)
    inner, start = step.pointer("step"), read_clock(f)
    operands = f"ptr {inner}, ptr %frame, ptr %context"
    status = f.let(f"call i32 {f.slot(inner, 0)}({operands})")
    note_row(f, "%record", step.number("number"), start)
    f.ret(status)


@handlers("void", "ptr %buffers", "i64 %begin", "i64 %end", visible=True)
def observe_piece(f: Function) -> None:
    """A piece of the kernel of the step that is observed; the whole is no piece."""
    context = f.view(f.slot("%buffers", -1), Context)
    step = f.view(context.pointer("observed"), records.ObservedStep)
    kernel, start = step.pointer("kernel"), read_clock(f)
    f.do(f"call void {kernel}(ptr %buffers, i64 %begin, i64 %end)")
    done = f.let("sub i64 %end, %begin")
    f.ret_if(f.let(f"icmp eq i64 {done}, {step.number('units')}"))
    note_row(f, step.address, f.let(f"sub i64 -1, {step.number('number')}"), start)
    f.ret()


# Loops.


@handlers("i32", *HANDLER, visible=True)
def run_loop(f: Function) -> None:
    """All iterations, in one piece or in lanes."""
    step = f.view("%record", records.LoopStep)
    lanes = step.number("lanes")
    with f.when(f.let(f"icmp ule i64 {lanes}, 1")):
        f.ret(_call_iterate(f, step, "%context", "0", _length(f, step), "0"))
    job = f.allocate("ptr", 4)
    f.set_slot(job, 0, "%record")
    f.set_slot(job, 1, "%frame")
    status = f.word(job, 2)
    f.store("i32", GO_ON, status)
    f.set_slot(job, 3, "%context")
    threads = f.view("%context", Context).number("threads")
    operands = f"ptr @run_lanes, ptr {job}, i64 {lanes}, i64 1, i64 {lanes}"
    stopped = f.let(f"call i32 @share({operands}, i64 {threads}, ptr %context)")
    found = f.load("i32", status)
    none = f.let(f"icmp eq i32 {found}, {GO_ON}")
    f.ret(f.let(f"select i1 {none}, i32 {stopped}, i32 {found}"))


def _length(f: Function, step: View) -> str:
    """How many iterations there are; very many where the predicate tells."""
    known = step.number("length")
    length = f.variable("i64", known)
    stacks = f.let(f"icmp ne i64 {step.number('reading')}, 0")
    unknown = f.let(f"icmp slt i64 {known}, 0")
    with f.when(f.let(f"and i1 {stacks}, {unknown}")):
        first = f.view(step.pointer("reads"), records.StackRow)
        header = f.slot("%frame", first.number("stack"))
        f.store("i64", f.load("i64", header), length)
    return f.load("i64", length)


def _call_iterate(
    f: Function, step: View, context: str, start: str, stop: str, lane: str
) -> str:
    """The status of some iterations, in the arena of that lane."""
    scratch = f.slot("%frame", step.number("scratch"))
    arena = f.beyond(scratch, f.let(f"mul i64 {step.number('stride')}, {lane}"))
    return iterate(f, step.address, "%frame", context, start, stop, arena)


@handlers("void", "ptr %job", "i64 %begin", "i64 %end")
def run_lanes(f: Function) -> None:
    """The iterations of some lanes; what the pool runs: its units are lanes."""
    record = f.slot("%job", 0)
    f.do("%frame = load ptr, ptr " + f.word("%job", 1))
    step = f.view(record, records.LoopStep)
    length, lanes = step.number("length"), step.number("lanes")

    def border(lane: str) -> str:
        return f.let(f"udiv i64 {f.let(f'mul i64 {length}, {lane}')}, {lanes}")

    context = new_lane(f, f.slot("%job", 3))
    found = _call_iterate(f, step, context, border("%begin"), border("%end"), "%begin")
    with f.when(f.let(f"icmp ne i32 {found}, {GO_ON}")):
        status = f.word("%job", 2)
        f.do(f"store atomic i32 {found}, ptr {status} monotonic, align 4")
    f.ret()


@handlers("i32", *HANDLER, "i64 %start", "i64 %stop", "ptr %scratch")
def iterate(f: Function) -> None:
    """The iterations from `start` to below `stop`."""
    step = f.view("%record", records.LoopStep)
    body = step.pointer("body")
    inner = _new_frame(f, body, "%frame", "%scratch")
    again = f.variable("i8", 1)
    with f.when(f.let(f"icmp sge i64 {step.number('predicate')}, 0")):
        first = f.load("i8", f.slot("%frame", step.number("predicate")))
        f.store("i8", first, again)
        f.set_slot(inner, step.number("again"), again)
    _begin_carry(f, step, inner)
    _begin_moving(f, step, inner)
    counts = [step.number(name) for name in ("carried", "moving", "reading", "pushing")]
    turns, moves, reads, pushes = (
        step.pointer(name) for name in ("carries", "moves", "reads", "pushes")
    )
    cost = step.number("cost")
    backwards = f.let(f"icmp ne i64 {step.number('last_first')}, 0")
    last = f.let("sub i64 %stop, 1")
    context = f.view("%context", Context)
    status = f.variable("i32", GO_ON)
    with f.repeat("%stop", start="%start") as t:
        f.stop_if(f.let(f"icmp eq i8 {f.load('i8', again)}, 0"))
        mirrored = f.let(f"sub i64 {last}, {t}")
        number = f.let(f"select i1 {backwards}, i64 {mirrored}, i64 {t}")
        for count, cells in ((counts[2], reads), (counts[3], pushes)):
            _point_at_cells(f, inner, count, cells, number, status)
        f.stop_if(f.let(f"icmp ne i32 {f.load('i32', status)}, {GO_ON}"))
        found = run_program(f, body, inner, "%context")
        f.store("i32", found, status)
        f.stop_if(f.let(f"icmp ne i32 {found}, {GO_ON}"))
        _take_turns(f, inner, counts[0], turns)
        _move_on(f, inner, counts[1], moves)
        _count_pushes(f, counts[3], pushes)
        left = f.let(f"sub i64 {context.number('budget')}, {cost}")
        context.set("budget", left)
        with f.when(f.let(f"icmp slt i64 {left}, 0")):
            f.store("i32", renew_budget(f, "%context"), status)
        f.stop_if(f.let(f"icmp ne i32 {f.load('i32', status)}, {GO_ON}"))
    _end_carry(f, step, inner)
    f.ret(f.load("i32", status))


# Carry. The places around the body are in %frame, those of the body in `inner`.


def _begin_carry(f: Function, step: View, inner: str) -> None:
    """A carry with two places begins so that a known loop ends in the right one.

    One that has one place begins there with a copy of its first value.
    """
    count = f.let("sub i64 %stop, %start")
    even = f.let(f"icmp eq i64 {f.let(f'and i64 {count}, 1')}, 0")
    known = f.let(f"icmp slt i64 {step.number('predicate')}, 0")
    spare_first = f.let(f"and i1 {even}, {known}")
    rows = step.pointer("carries")
    with f.rows(rows, records.CarryRow, step.number("carried")) as row:
        result, spare = row.number("result"), row.number("spare")
        first = f.let(f"select i1 {spare_first}, i64 {spare}, i64 {result}")
        place = f.slot("%frame", first)
        f.set_slot(inner, row.number("output"), place)
        initial = f.slot("%frame", row.number("initial"))
        alone = f.let(f"icmp eq i64 {result}, {spare}")
        differs = f.let(f"icmp ne ptr {initial}, {place}")
        with f.when(f.let(f"and i1 {alone}, {differs}")):
            f.copy(place, initial, row.number("nbytes"))
        begin = f.let(f"select i1 {alone}, ptr {place}, ptr {initial}")
        f.set_slot(inner, row.number("input"), begin)


def _take_turns(f: Function, inner: str, count: str, rows: str) -> None:
    """What was written is read next, and the other place is written."""
    with f.rows(rows, records.CarryRow, count) as row:
        output = f.word(inner, row.number("output"))
        written = f.load("ptr", output)
        f.set_slot(inner, row.number("input"), written)
        result = f.slot("%frame", row.number("result"))
        spare = f.slot("%frame", row.number("spare"))
        turn = f.let(f"icmp eq ptr {written}, {result}")
        f.store("ptr", f.let(f"select i1 {turn}, ptr {spare}, ptr {result}"), output)


def _end_carry(f: Function, step: View, inner: str) -> None:
    """The last value goes where it must be, if it is not there."""
    rows = step.pointer("carries")
    with f.rows(rows, records.CarryRow, step.number("carried")) as row:
        last = f.slot(inner, row.number("input"))
        result = f.slot("%frame", row.number("result"))
        with f.when(f.let(f"icmp ne ptr {last}, {result}")):
            f.copy(result, last, row.number("nbytes"))


# Elements of arrays.


def _begin_moving(f: Function, step: View, inner: str) -> None:
    """Each slot is at the element of iteration 0; there the first one may be later."""
    rows = step.pointer("moves")
    with f.rows(rows, records.MoveRow, step.number("moving")) as row:
        distance = f.let(f"mul i64 {row.number('step')}, %start")
        at = f.word(inner, row.number("slot"))
        f.store("ptr", f.beyond(f.load("ptr", at), distance), at)


def _move_on(f: Function, inner: str, count: str, rows: str) -> None:
    with f.rows(rows, records.MoveRow, count) as row:
        at = f.word(inner, row.number("slot"))
        f.store("ptr", f.beyond(f.load("ptr", at), row.number("step")), at)


# Cells of stacks.


def _point_at_cells(
    f: Function, inner: str, count: str, rows: str, number: str, status: str
) -> None:
    """The slots are cells of that number; the status tells if one has no memory.

    A loop that runs backwards over stacks fills others from their top.
    """
    with f.rows(rows, records.StackRow, count) as row:
        header = f.slot("%frame", row.number("stack"))
        found = cell(f, header, number, row.number("size"), row.number("log"))
        f.set_slot(inner, row.number("slot"), found)
        with f.when(f.let(f"icmp eq ptr {found}, null")):
            f.store("i32", NO_MEMORY, status)


def _count_pushes(f: Function, count: str, rows: str) -> None:
    with f.rows(rows, records.StackRow, count) as row:
        header = f.slot("%frame", row.number("stack"))
        f.store("i64", f.let(f"add i64 {f.load('i64', header)}, 1"), header)
