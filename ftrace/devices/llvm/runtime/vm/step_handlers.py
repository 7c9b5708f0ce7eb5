"""Programs and their steps but for loops: functions of the native runner."""

from __future__ import annotations

from ftrace.devices.llvm.ir.function_builder import HANDLER, Function, View
from ftrace.devices.llvm.runtime.vm import records
from ftrace.devices.llvm.runtime.vm.interrupts import new_context, stopped

#: What kernels take at least of the budget of a call: those that are too little to
#: share, and the others.
_LITTLE, _MUCH = 1 << 10, 1 << 14

DECLARATIONS = """
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyObject_CallFunction(ptr, ptr, ...)
declare void @Py_DecRef(ptr)

@one_number = internal constant [2 x i8] c"n\\00"
"""


def steps_ir() -> str:
    """The text of all of them."""
    functions = (
        _run(), _run_pointers(), _run_program(), _resolve(), _run_kernel(), _copy(),
        _run_branch(), _run_host(),
    )  # fmt: skip
    return DECLARATIONS + "\n".join(f.text for f in functions)


def _run(data_offset: int = object.__basicsize__) -> Function:
    """`run(entry, objects, threads)` -> status: `run_pointers` of NumPy's arrays.

    Their data pointers stand after the object's head.
    """
    parameters = ("ptr %entry", "ptr %objects", "i64 %threads")
    f = Function("run", "i32", *parameters, visible=True)
    count = f.view("%entry", records.Entry).number("objects")
    outer = f.pointers(f.let(f"add i64 {count}, 1"))
    with f.repeat(count) as i:
        array = f.slot("%objects", i)
        f.set_slot(outer, i, f.load("ptr", f.beyond(array, data_offset)))
    operands = f"ptr %entry, ptr {outer}, i64 %threads"
    f.give(f.let(f"call i32 @run_pointers({operands})"))
    return f


def _run_pointers() -> Function:
    """The entry: `run_pointers(entry, pointers, threads)`; called with the GIL."""
    parameters = ("ptr %entry", "ptr %outer", "i64 %threads")
    f = Function("run_pointers", "i32", *parameters, visible=True)
    entry = f.view("%entry", records.Entry)
    program = entry.pointer("program")
    frame = new_frame(f, program, "%outer", "null")
    context = f.view(new_context(f, "%threads", "null"), records.Context)
    released = f.let(f"icmp ne i64 {entry.number('released')}, 0")
    with f.when(released):
        context.set("state", f.let("call ptr @PyEval_SaveThread()"), "ptr")
    status = call_program(f, program, frame, context.address)
    with f.when(released):
        f.do(f"call void @PyEval_RestoreThread(ptr {context.pointer('state')})")
    f.give(status)
    return f


def new_frame(f: Function, program: str, outer: str, scratch: str) -> str:
    """The frame of a program in the frame around it."""
    slots = f.view(program, records.ProgramRecord).number("slots")
    frame = f.pointers(f.let(f"add i64 {slots}, 1"))
    operands = f"ptr {program}, ptr {outer}, ptr {scratch}, ptr {frame}"
    f.do(f"call void @resolve({operands})")
    return frame


def call_program(f: Function, program: str, frame: str, context: str) -> str:
    """The status of a program that runs on that frame."""
    operands = f"ptr {program}, ptr {frame}, ptr {context}"
    return f.let(f"call i32 @run_program({operands})")


def _resolve() -> Function:
    """Fills a frame: every slot is a reference to the frame around it."""
    parameters = ("ptr %program", "ptr %outer", "ptr %scratch", "ptr %frame")
    f = Function("resolve", "void", *parameters)
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
    f.give()
    return f


def _run_program() -> Function:
    """Runs the steps of a program, with stacks that are its own."""
    parameters = ("ptr %program", "ptr %frame", "ptr %context")
    f = Function("run_program", "i32", *parameters)
    program = f.view("%program", records.ProgramRecord)
    stacks, headers = program.number("stacks"), program.pointer("headers")
    with f.repeat(stacks) as i:
        row = f.view(headers, records.Headers, i)
        header = f.slot("%frame", row.number("slot"))
        count = row.number("stacks")
        f.do(f"call void @empty_stacks(ptr {header}, i64 {count})")
    first = program.pointer("first")
    status = f.variable("i32", records.GO_ON)
    with f.repeat(program.number("steps")) as i:
        record = f.slot(first, i)
        handler = f.slot(record, 0)
        operands = f"ptr {record}, ptr %frame, ptr %context"
        found = f.let(f"call i32 {handler}({operands})")
        f.store("i32", found, status)
        f.stop_if(f.let(f"icmp ne i32 {found}, {records.GO_ON}"))
    with f.repeat(stacks) as i:
        row = f.view(headers, records.Headers, i)
        header = f.slot("%frame", row.number("slot"))
        facts = [f"i64 {row.number(name)}" for name in ("stacks", "size", "log")]
        f.do(f"call void @free_stacks(ptr {header}, {', '.join(facts)})")
    f.give(f.load("i32", status))
    return f


def _run_kernel() -> Function:
    """Calls a kernel: here if it is too little to share, else by the pool.

    The context stands before the buffers: a long kernel asks it whether to go on.
    """
    f = Function("run_kernel", "i32", *HANDLER, visible=True)
    context = f.view("%context", records.Context)
    step = f.view("%record", records.KernelStep)
    slots, count = step.pointer("slots"), step.number("buffers")
    room = f.pointers(f.let(f"add i64 {count}, 1"))
    f.set_slot(room, 0, "%context")
    buffers = f.word(room, 1)
    with f.repeat(count) as i:
        slot = f.load("i64", f.word(slots, i))
        f.set_slot(buffers, i, f.slot("%frame", slot))
    kernel = step.pointer("kernel")
    units, grain = step.number("units"), step.number("grain")
    with f.when(f.let(f"icmp ult i64 {units}, {f.let(f'shl i64 {grain}, 1')}")):
        f.do(f"call void {kernel}(ptr {buffers}, i64 0, i64 {units})")
        _give_stopped(f, stopped(f, "%context"))
        f.give(_spend(f, context, _LITTLE))
    threads, breath = context.number("threads"), step.number("breath")
    job = f"ptr {kernel}, ptr {buffers}, i64 {units}, i64 {grain}, i64 {breath}"
    f.do(f"call i32 @share({job}, i64 {threads}, ptr %context)")
    _give_stopped(f, stopped(f, "%context"))
    f.give(_spend(f, context, _MUCH))
    return f


def _give_stopped(f: Function, status: str) -> None:
    with f.when(f.let(f"icmp ne i32 {status}, {records.GO_ON}")):
        f.give(status)


def _spend(f: Function, context: View, cost: int) -> str:
    """The status after so much of the budget: when it is used up, signals are seen."""
    left = f.let(f"sub i64 {context.number('budget')}, {cost}")
    context.set("budget", left)
    with f.when(f.let(f"icmp slt i64 {left}, 0")):
        f.give(f.let("call i32 @breathe(ptr %context)"))
    return str(records.GO_ON)


def _copy() -> Function:
    """A kernel that copies bytes; its units are bytes."""
    parameters = ("ptr %buffers", "i64 %begin", "i64 %end")
    f = Function("copy", "void", *parameters, visible=True)
    source = f.beyond(f.slot("%buffers", 0), "%begin")
    target = f.beyond(f.slot("%buffers", 1), "%begin")
    f.copy(target, source, f.let("sub i64 %end, %begin"))
    f.give()
    return f


def _run_branch() -> Function:
    """Runs the program that the index chooses."""
    f = Function("run_branch", "i32", *HANDLER, visible=True)
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
    frame = new_frame(f, program, "%frame", scratch)
    f.give(call_program(f, program, frame, "%context"))
    return f


def _run_host() -> Function:
    """Calls a Python object on the address of the frame; its exception ends the call.

    The exception stays with the thread: whoever called `run` raises it.
    """
    f = Function("run_host", "i32", *HANDLER, visible=True)
    context = f.view("%context", records.Context)
    f.do(f"call void @PyEval_RestoreThread(ptr {context.pointer('state')})")
    function = f.view("%record", records.HostStep).pointer("callable")
    operands = f"ptr {function}, ptr @one_number, ptr %frame"
    result = f.let(f"call ptr (ptr, ptr, ...) @PyObject_CallFunction({operands})")
    raised = f.let(f"icmp eq ptr {result}, null")
    status = f.variable("i32", records.RAISED)
    with f.when(f.let(f"xor i1 {raised}, true")):
        f.do(f"call void @Py_DecRef(ptr {result})")
        f.store("i32", records.GO_ON, status)
    context.set("state", f.let("call ptr @PyEval_SaveThread()"), "ptr")
    f.give(f.load("i32", status))
    return f
