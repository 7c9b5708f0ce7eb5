"""Loops: functions of the native runner.

The frame of a body is made once; from one iteration to the next only pointers change:

    carry     reads `initial`, then what was written last; writes the other place
    elements  of arrays move on by their size, up or down
    cells     of stacks: number t is read, and number t of others is written

Iterations that may run at the same time are split into lanes. A lane is a loop with a
frame and an arena of its own, on one thread.
"""

from __future__ import annotations

from ftrace.devices.llvm.ir.function_builder import HANDLER, Function, View
from ftrace.devices.llvm.runtime.vm import records
from ftrace.devices.llvm.runtime.vm.interrupts import new_lane
from ftrace.devices.llvm.runtime.vm.step_handlers import call_program, new_frame


def loops_ir() -> str:
    """The text of all of them."""
    return "\n".join(f.text for f in (_run_loop(), _run_lanes(), _iterate()))


def _run_loop() -> Function:
    """All iterations, in one piece or in lanes."""
    f = Function("run_loop", "i32", *HANDLER, visible=True)
    step = f.view("%record", records.LoopStep)
    lanes = step.number("lanes")
    with f.when(f.let(f"icmp ule i64 {lanes}, 1")):
        f.give(_call_iterate(f, step, "%context", "0", _length(f, step), "0"))
    job = f.place("ptr", 4)
    f.set_slot(job, 0, "%record")
    f.set_slot(job, 1, "%frame")
    status = f.word(job, 2)
    f.store("i32", records.GO_ON, status)
    f.set_slot(job, 3, "%context")
    threads = f.view("%context", records.Context).number("threads")
    operands = f"ptr @run_lanes, ptr {job}, i64 {lanes}, i64 1, i64 {lanes}"
    stopped = f.let(f"call i32 @share({operands}, i64 {threads}, ptr %context)")
    found = f.load("i32", status)
    none = f.let(f"icmp eq i32 {found}, {records.GO_ON}")
    f.give(f.let(f"select i1 {none}, i32 {stopped}, i32 {found}"))
    return f


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
    operands = (
        f"ptr {step.address}, ptr %frame, ptr {context}, i64 {start}, i64 {stop}, "
        f"ptr {arena}"
    )
    return f.let(f"call i32 @iterate({operands})")


def _run_lanes() -> Function:
    """The iterations of some lanes; what the pool runs: its units are lanes."""
    parameters = ("ptr %job", "i64 %begin", "i64 %end")
    f = Function("run_lanes", "void", *parameters)
    record = f.slot("%job", 0)
    f.do("%frame = load ptr, ptr " + f.word("%job", 1))
    step = f.view(record, records.LoopStep)
    length, lanes = step.number("length"), step.number("lanes")

    def border(lane: str) -> str:
        return f.let(f"udiv i64 {f.let(f'mul i64 {length}, {lane}')}, {lanes}")

    context = new_lane(f, f.slot("%job", 3))
    found = _call_iterate(f, step, context, border("%begin"), border("%end"), "%begin")
    with f.when(f.let(f"icmp ne i32 {found}, {records.GO_ON}")):
        status = f.word("%job", 2)
        f.do(f"store atomic i32 {found}, ptr {status} monotonic, align 4")
    f.give()
    return f


def _iterate() -> Function:
    """The iterations from `start` to below `stop`."""
    parameters = ("i64 %start", "i64 %stop", "ptr %scratch")
    f = Function("iterate", "i32", *HANDLER, *parameters)
    step = f.view("%record", records.LoopStep)
    body = step.pointer("body")
    inner = new_frame(f, body, "%frame", "%scratch")
    again = f.variable("i8", 1)
    with f.when(f.let(f"icmp sge i64 {step.number('predicate')}, 0")):
        first = f.load("i8", f.slot("%frame", step.number("predicate")))
        f.store("i8", first, again)
        f.set_slot(inner, step.number("again"), again)
    _begin_in_place(f, step, inner)
    _begin_in_turn(f, step, inner)
    _begin_moving(f, step, inner)
    counts = [step.number(name) for name in ("in_turn", "moving", "reading", "pushing")]
    turns, moves, reads, pushes = (
        step.pointer(name) for name in ("turns", "moves", "reads", "pushes")
    )
    cost = step.number("cost")
    backwards = f.let(f"icmp ne i64 {step.number('last_first')}, 0")
    last = f.let("sub i64 %stop, 1")
    context = f.view("%context", records.Context)
    status = f.variable("i32", records.GO_ON)
    with f.repeat("%stop", start="%start") as t:
        f.stop_if(f.let(f"icmp eq i8 {f.load('i8', again)}, 0"))
        mirrored = f.let(f"sub i64 {last}, {t}")
        number = f.let(f"select i1 {backwards}, i64 {mirrored}, i64 {t}")
        _point_at_reads(f, inner, counts[2], reads, number)
        _point_at_pushes(f, inner, counts[3], pushes, number, status)
        f.stop_if(f.let(f"icmp ne i32 {f.load('i32', status)}, {records.GO_ON}"))
        found = call_program(f, body, inner, "%context")
        f.store("i32", found, status)
        f.stop_if(f.let(f"icmp ne i32 {found}, {records.GO_ON}"))
        _take_turns(f, inner, counts[0], turns)
        _move_on(f, inner, counts[1], moves)
        _count_pushes(f, counts[3], pushes)
        left = f.let(f"sub i64 {context.number('budget')}, {cost}")
        context.set("budget", left)
        with f.when(f.let(f"icmp slt i64 {left}, 0")):
            f.store("i32", f.let("call i32 @breathe(ptr %context)"), status)
        f.stop_if(f.let(f"icmp ne i32 {f.load('i32', status)}, {records.GO_ON}"))
    _end_in_turn(f, step, inner)
    f.give(f.load("i32", status))
    return f


# Carry. The places around the body are in %frame, those of the body in `inner`.


def _begin_in_place(f: Function, step: View, inner: str) -> None:
    """A carry with one place begins there with a copy of its first value."""
    rows = step.pointer("places")
    with f.repeat(step.number("in_place")) as i:
        row = f.view(rows, records.CarryRow, i)
        initial = f.slot("%frame", row.number("initial"))
        result = f.slot("%frame", row.number("result"))
        with f.when(f.let(f"icmp ne ptr {initial}, {result}")):
            f.copy(result, initial, row.number("nbytes"))
        f.set_slot(inner, row.number("input"), result)
        f.set_slot(inner, row.number("output"), result)


def _begin_in_turn(f: Function, step: View, inner: str) -> None:
    """A carry with two places begins so that a known loop ends in the right one."""
    rows = step.pointer("turns")
    count = f.let("sub i64 %stop, %start")
    even = f.let(f"icmp eq i64 {f.let(f'and i64 {count}, 1')}, 0")
    known = f.let(f"icmp slt i64 {step.number('predicate')}, 0")
    spare_first = f.let(f"and i1 {even}, {known}")
    with f.repeat(step.number("in_turn")) as i:
        row = f.view(rows, records.CarryRow, i)
        result, spare = row.number("result"), row.number("spare")
        first = f.let(f"select i1 {spare_first}, i64 {spare}, i64 {result}")
        f.set_slot(inner, row.number("output"), f.slot("%frame", first))
        initial = f.slot("%frame", row.number("initial"))
        f.set_slot(inner, row.number("input"), initial)


def _take_turns(f: Function, inner: str, count: str, rows: str) -> None:
    """What was written is read next, and the other place is written."""
    with f.repeat(count) as i:
        row = f.view(rows, records.CarryRow, i)
        output = f.word(inner, row.number("output"))
        written = f.load("ptr", output)
        f.set_slot(inner, row.number("input"), written)
        result = f.slot("%frame", row.number("result"))
        spare = f.slot("%frame", row.number("spare"))
        turn = f.let(f"icmp eq ptr {written}, {result}")
        f.store("ptr", f.let(f"select i1 {turn}, ptr {spare}, ptr {result}"), output)


def _end_in_turn(f: Function, step: View, inner: str) -> None:
    """The last value goes where it must be, if it is not there."""
    rows = step.pointer("turns")
    with f.repeat(step.number("in_turn")) as i:
        row = f.view(rows, records.CarryRow, i)
        last = f.slot(inner, row.number("input"))
        result = f.slot("%frame", row.number("result"))
        with f.when(f.let(f"icmp ne ptr {last}, {result}")):
            f.copy(result, last, row.number("nbytes"))


# Elements of arrays.


def _begin_moving(f: Function, step: View, inner: str) -> None:
    """Each slot is at the element of iteration 0; there the first one may be later."""
    rows = step.pointer("moves")
    with f.repeat(step.number("moving")) as i:
        row = f.view(rows, records.MoveRow, i)
        distance = f.let(f"mul i64 {row.number('step')}, %start")
        at = f.word(inner, row.number("slot"))
        f.store("ptr", f.beyond(f.load("ptr", at), distance), at)


def _move_on(f: Function, inner: str, count: str, rows: str) -> None:
    with f.repeat(count) as i:
        row = f.view(rows, records.MoveRow, i)
        at = f.word(inner, row.number("slot"))
        f.store("ptr", f.beyond(f.load("ptr", at), row.number("step")), at)


# Cells of stacks.


def _point_at_reads(
    f: Function, inner: str, count: str, rows: str, number: str
) -> None:
    with f.repeat(count) as i:
        row = f.view(rows, records.StackRow, i)
        header = f.slot("%frame", row.number("stack"))
        f.set_slot(inner, row.number("slot"), _call_cell(f, row, header, number))


def _point_at_pushes(
    f: Function, inner: str, count: str, rows: str, number: str, status: str
) -> None:
    """The slots are cells of that number; the status tells if one has no memory.

    A loop that runs backwards over stacks fills others from their top.
    """
    with f.repeat(count) as i:
        row = f.view(rows, records.StackRow, i)
        header = f.slot("%frame", row.number("stack"))
        cell = _call_cell(f, row, header, number)
        f.set_slot(inner, row.number("slot"), cell)
        with f.when(f.let(f"icmp eq ptr {cell}, null")):
            f.store("i32", records.NO_MEMORY, status)


def _call_cell(f: Function, row: View, header: str, number: str) -> str:
    operands = (
        f"ptr {header}, i64 {number}, i64 {row.number('size')}, i64 {row.number('log')}"
    )
    return f.let(f"call ptr @cell({operands})")


def _count_pushes(f: Function, count: str, rows: str) -> None:
    with f.repeat(count) as i:
        row = f.view(rows, records.StackRow, i)
        header = f.slot("%frame", row.number("stack"))
        f.store("i64", f.let(f"add i64 {f.load('i64', header)}, 1"), header)
