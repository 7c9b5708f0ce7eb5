"""Signals: a call that takes long looks from time to time whether Python has one.

    look(context) -> status          at most every `BREATH` nanoseconds, by the clock
    breathe(context) -> status       the same, and begins a new budget
    ftrace_poll(buffers) -> i1       the same for kernels: shall this one stop?
    ftrace_stop(buffers)             a kernel found no memory to work in

Only the thread that called can handle signals, and only if it gave the GIL away. What
a handler raises, as KeyboardInterrupt for Ctrl-C, stays with that thread: `run` raises
it. The context of the call is marked, and whoever works for it stops at his next look:
a lane at its next iteration, a worker before its next piece of a kernel, a kernel that
is itself long at its next poll.
"""

from __future__ import annotations

from ftrace.devices.llvm import target
from ftrace.devices.llvm.ir.function_builder import Function, Routines
from ftrace.devices.llvm.ir.symbols import POLL, STOP
from ftrace.devices.llvm.runtime.vm.records import GO_ON, NO_MEMORY, RAISED, Context

#: Nanoseconds between two looks.
BREATH = 50_000_000
#: Operations between two looks at the clock.
BUDGET = 1 << 16

_DECLARATIONS = """
declare i32 @PyErr_CheckSignals()
"""
_POSIX = """
declare i32 @clock_gettime(i32, ptr)
declare i64 @pthread_self()
"""


signals = Routines(Function)


def signals_ir() -> str:
    """The text of all of them."""
    return _DECLARATIONS + (_POSIX if target.has_threads() else "") + signals.text()


def new_context(f: Function, threads: str, state: str) -> str:
    """The context of a call on this thread; `state` is null if it keeps the GIL."""
    context = f.new(Context)
    context.set("threads", threads)
    context.set("state", state, "ptr")
    context.set("budget", BUDGET)
    context.set("checked", 0)
    context.set("stopped", 0)
    context.set(
        "thread", f.let("call i64 @pthread_self()") if target.has_threads() else 0
    )
    context.set("call", context.address, "ptr")
    return context.address


def new_lane(f: Function, outer: str) -> str:
    """The context of a part of a call that runs on one thread, maybe another one."""
    context = f.new(Context)
    context.set("threads", 1)
    context.set("budget", BUDGET)
    context.set("call", f.view(outer, Context).pointer("call"), "ptr")
    return context.address


@signals("i32", "ptr %record")
def look(f: Function) -> None:
    call = f.view(f.view("%record", Context).pointer("call"), Context)
    mark = call.at("stopped")
    stopped = f.let(f"load atomic i64, ptr {mark} monotonic, align 8")
    with f.when(f.let(f"icmp ne i64 {stopped}, 0")):
        f.give(f.let(f"trunc i64 {stopped} to i32"))
    if not target.has_threads():
        f.give(GO_ON)
        return
    state = call.pointer("state")
    f.give_if(f.let(f"icmp eq ptr {state}, null"), GO_ON)
    here = f.let("call i64 @pthread_self()")
    f.give_if(f.let(f"icmp ne i64 {here}, {call.number('thread')}"), GO_ON)
    clock = f.place("i64", 2)  # seconds, nanoseconds
    f.do(f"call i32 @clock_gettime(i32 0, ptr {clock})")
    whole = f.let(f"mul i64 {f.load('i64', clock)}, 1000000000")
    now = f.let(f"add i64 {whole}, {f.load('i64', f.word(clock, 1))}")
    before = call.number("checked")
    with f.when(f.let(f"icmp eq i64 {before}, 0")):  # a call has just looked by itself
        call.set("checked", now)
        f.give(GO_ON)
    passed = f.let(f"sub i64 {now}, {before}")
    f.give_if(f.let(f"icmp ult i64 {passed}, {BREATH}"), GO_ON)
    call.set("checked", now)
    f.do(f"call void @PyEval_RestoreThread(ptr {state})")
    found = f.let("call i32 @PyErr_CheckSignals()")
    call.set("state", f.let("call ptr @PyEval_SaveThread()"), "ptr")
    with f.when(f.let(f"icmp ne i32 {found}, 0")):
        f.do(f"store atomic i64 {RAISED}, ptr {mark} monotonic, align 8")
        f.give(RAISED)
    f.give(GO_ON)


@signals("i32", "ptr %record")
def breathe(f: Function) -> None:
    f.view("%record", Context).set("budget", BUDGET)
    f.give(f.let("call i32 @look(ptr %record)"))


@signals("i1", "ptr %buffers", visible=True, name=POLL)
def poll(f: Function) -> None:
    context = f.slot("%buffers", -1)
    f.give_if(f.let(f"icmp eq ptr {context}, null"), "false")
    status = f.let(f"call i32 @look(ptr {context})")
    f.give(f.let(f"icmp ne i32 {status}, {GO_ON}"))


@signals("void", "ptr %buffers", visible=True, name=STOP)
def stop(f: Function) -> None:
    """An exception that was raised before stays what the call ends with."""
    context = f.slot("%buffers", -1)
    call = f.view(f.view(context, Context).pointer("call"), Context)
    numbers = f"i64 {GO_ON}, i64 {NO_MEMORY} monotonic monotonic"
    f.do(f"cmpxchg ptr {call.at('stopped')}, {numbers}")
    f.give()


def stopped(f: Function, context: str) -> str:
    """The status of the call that a context is of."""
    call = f.view(f.view(context, Context).pointer("call"), Context)
    mark = f.let(f"load atomic i64, ptr {call.at('stopped')} monotonic, align 8")
    return f.let(f"trunc i64 {mark} to i32")
