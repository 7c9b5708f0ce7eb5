"""The thread pool of the CPU: LLVM IR that is compiled once per process.

    share(kernel, buffers, units, grain, breath, threads, context) -> status

calls `kernel(buffers, begin, end)` on pieces of [0, units) until all are done. A job
is one 64-bit ticket {threads:12, pieces:18, next:18}: whoever adds one to it owns
piece `next`. The caller works too and waits only for pieces that others have claimed,
so a worker that the system does not schedule delays nobody. Units are independent:
who computes which does not change a bit of the result.

Pieces are of `grain` units at least. A job of more than `breath` units is long: it has
pieces of no more than these, between two of which the caller looks for signals. When
one has raised an exception, the pieces that are left are claimed and not computed.

Workers start when the first job needs them, spin for a while between jobs, then sleep.
One that finds itself on its caller's core moves to another (Linux).
A second caller finds the lock taken and runs its job alone. A forked child, which has
none of the threads, calls `pool_reset` and begins anew. The code and its state are
never freed: workers may sleep in it while the interpreter goes away.
"""

from __future__ import annotations

import platform
import sys
from string import Template

from ftrace.devices.llvm.runner.chunks import chunks_ir
from ftrace.devices.llvm.runner.function import Function
from ftrace.devices.llvm.runner.loops import loops_ir
from ftrace.devices.llvm.runner.records import GO_ON, Context
from ftrace.devices.llvm.runner.signals import signals_ir
from ftrace.devices.llvm.runner.stacks import stacks_ir
from ftrace.devices.llvm.runner.steps import steps_ir
from ftrace.devices.llvm.runtime import cores

#: Pieces per thread: more balance better on a busy machine, fewer cost less.
PIECES_PER_THREAD = 4
#: The most pieces: a ticket has room for twice as many.
MOST_PIECES = 1 << 17
#: Pauses before a worker sleeps: about 0.3 ms, longer than a program's serial steps.
SPINS_BEFORE_SLEEP = 20_000
#: Pauses before a worker looks whether its caller's core is under it.
SPINS_BEFORE_GLANCE = 32
#: Pauses before a waiting caller lets others use its core.
SPINS_BEFORE_YIELD = 2_000
#: A worker's stack: what a kernel may use for its scratch rows.
STACK_BYTES = 8 << 20


def runner_ir(kept: int) -> str:
    """The module of the runner.

    Args:
      kept: bytes that stacks keep at most for the next ones.
    """
    parts = (pool_ir(), signals_ir(), steps_ir(), chunks_ir(kept), stacks_ir())
    return "".join((*parts, loops_ir()))


def pool_ir() -> str:
    """The text of `parallel` and `pool_reset`, for this machine."""
    alone = Template(_ALONE).substitute(go_on=GO_ON)
    if not cores.has_threads():
        return alone + _NO_POOL
    machine = platform.machine().lower()
    if machine in ("x86_64", "amd64", "i386", "i686"):
        pause = "llvm.x86.sse2.pause()"
    elif machine in ("aarch64", "arm64"):
        pause = "llvm.aarch64.hint(i32 1)"
    else:
        pause = "llvm.donothing()"
    return alone + Template(_POOL).substitute(
        pause=pause,
        declare_pause=pause.replace("i32 1", "i32"),
        pieces=PIECES_PER_THREAD,
        most=MOST_PIECES,
        go_on=GO_ON,
        call=Context._fields.index("call"),
        stopped=Context._fields.index("stopped"),
        spins=SPINS_BEFORE_SLEEP,
        glance=SPINS_BEFORE_GLANCE,
        seats=_seats(),
        yields=SPINS_BEFORE_YIELD,
        stack=STACK_BYTES,
        sig_block=0 if sys.platform.startswith("linux") else 1,
        sig_setmask=2 if sys.platform.startswith("linux") else 3,
    )


def _seats() -> str:
    """`seat`: the core of this thread, and `leave_the_caller_alone`: to another core.

    Two threads that spin on one core take turns of milliseconds. The system moves one
    of them in the end; a worker that sees its caller's core under it goes at once: to
    any other core that it may use, from where it may go on to all of them. Elsewhere
    than on Linux threads stay where they are put.
    """
    seat = Function("seat", "i64")
    f = Function("leave_the_caller_alone", "void")
    if not sys.platform.startswith("linux"):
        seat.give(-1)
        f.give()
        return seat.text + f.text
    seat.give(seat.let(f"sext i32 {seat.let('call i32 @sched_getcpu()')} to i64"))
    mine, noted = f.let("call i64 @seat()"), f.beyond("@job", 40)
    callers = f.let(f"load atomic i64, ptr {noted} monotonic, align 8")
    same = f.let(f"icmp eq i64 {mine}, {callers}")
    listed = f.let(f"icmp ult i64 {mine}, 1024")
    mask = "i32 0, i64 128, ptr"
    with f.when(f.let(f"and i1 {same}, {listed}")):
        all_, others = f.variable("i1024", 0), f.place("i1024")
        failed = f.let(f"call i32 @sched_getaffinity({mask} {all_})")
        bit = f.let(f"shl i1024 1, {f.let(f'zext i64 {mine} to i1024')}")
        keep = f.let(f"xor i1024 {bit}, -1")
        rest = f.let(f"and i1024 {f.load('i1024', all_)}, {keep}")
        known = f.let(f"icmp eq i32 {failed}, 0")
        some = f.let(f"icmp ne i1024 {rest}, 0")
        with f.when(f.let(f"and i1 {known}, {some}")):
            f.store("i1024", rest, others)
            for cores_ in (others, all_):
                f.do(f"call i32 @sched_setaffinity({mask} {cores_})")
    f.give()
    return _AFFINITY + seat.text + f.text


_AFFINITY = """
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)
"""

# The whole job by the caller; looks for signals where it is long.
_ALONE = """
define internal i32 @alone(ptr %kernel, ptr %buffers, i64 %units, i64 %breath,
                           ptr %context) {
entry:
  %brief = icmp ule i64 %units, %breath
  %deaf = icmp eq ptr %context, null
  %whole = or i1 %brief, %deaf
  br i1 %whole, label %once, label %long
once:
  call void %kernel(ptr %buffers, i64 0, i64 %units)
  ret i32 $go_on
long:
  br label %piece
piece:
  %begin = phi i64 [ 0, %long ], [ %end, %on ]
  %left = sub i64 %units, %begin
  %last = icmp ule i64 %left, %breath
  %after = add i64 %begin, %breath
  %end = select i1 %last, i64 %units, i64 %after
  call void %kernel(ptr %buffers, i64 %begin, i64 %end)
  %status = call i32 @look(ptr %context)
  %fine = icmp eq i32 %status, $go_on
  %more = xor i1 %last, true
  %goes = and i1 %fine, %more
  br i1 %goes, label %on, label %out
on:
  br label %piece
out:
  ret i32 %status
}
define void @parallel(ptr %kernel, ptr %buffers, i64 %units, i64 %grain, i64 %threads) {
  %status = call i32 @share(ptr %kernel, ptr %buffers, i64 %units, i64 %grain,
                            i64 %units, i64 %threads, ptr null)
  ret void
}
"""

_NO_POOL = """
define internal i32 @share(ptr %kernel, ptr %buffers, i64 %units, i64 %grain,
                           i64 %breath, i64 %threads, ptr %context) {
  %status = call i32 @alone(ptr %kernel, ptr %buffers, i64 %units, i64 %breath,
                            ptr %context)
  ret i32 %status
}
define void @pool_reset() {
  ret void
}
define i64 @pool_workers() {
  ret i64 0
}
"""

# Each variable has cache lines of its own (128 bytes: they are fetched in pairs).
_POOL = r"""
@ticket = internal global i64 0, align 128
@job = internal global { ptr, ptr, i64, i64, ptr, i64 } zeroinitializer, align 128
@done = internal global i64 0, align 128
@taken = internal global i32 0, align 128
@workers = internal global i64 0, align 128
@no_more = internal global i1 false, align 128
@sleepers = internal global i64 0, align 128
@wakes = internal global i64 0, align 128
@mutex = internal global [128 x i8] zeroinitializer, align 128
@bell = internal global [128 x i8] zeroinitializer, align 128

declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(ptr)
declare i32 @pthread_attr_init(ptr)
declare i32 @pthread_attr_setstacksize(ptr, i64)
declare i32 @pthread_attr_destroy(ptr)
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
declare i32 @sched_yield()
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)
declare void @$declare_pause

; Was the call that this context is of stopped?
define internal i1 @is_stopped(ptr %context) alwaysinline {
  %status = call i32 @status_of(ptr %context)
  %yes = icmp ne i32 %status, $go_on
  ret i1 %yes
}
define internal i32 @status_of(ptr %context) alwaysinline {
entry:
  %deaf = icmp eq ptr %context, null
  br i1 %deaf, label %no, label %ask
no:
  ret i32 $go_on
ask:
  %place = getelementptr i64, ptr %context, i64 $call
  %call = load ptr, ptr %place
  %mark = getelementptr i64, ptr %call, i64 $stopped
  %stopped = load atomic i64, ptr %mark monotonic, align 8
  %status = trunc i64 %stopped to i32
  ret i32 %status
}

; Is a piece of this ticket left?
define internal i1 @is_open(i64 %ticket) alwaysinline {
  %next = and i64 %ticket, 262143
  %shifted = lshr i64 %ticket, 18
  %pieces = and i64 %shifted, 262143
  %open = icmp ult i64 %next, %pieces
  ret i1 %open
}

; May worker number `id` help? The caller is one of the threads of the ticket.
define internal i1 @is_invited(i64 %ticket, i64 %id) alwaysinline {
  %threads = lshr i64 %ticket, 36
  %number = add i64 %id, 1
  %invited = icmp ult i64 %number, %threads
  ret i1 %invited
}

define internal i1 @has_work(i64 %ticket, i64 %id) alwaysinline {
  %open = call i1 @is_open(i64 %ticket)
  %invited = call i1 @is_invited(i64 %ticket, i64 %id)
  %both = and i1 %open, %invited
  ret i1 %both
}

; Claims pieces and runs them until none is left. The job is read after the claim: the
; next one is written only when all claimed pieces are done. The caller of a
; long job has a context and looks for signals after each piece.
define internal void @work(ptr %context) {
  %calls = icmp ne ptr %context, null
  br label %look
look:
  %seen = load atomic i64, ptr @ticket acquire, align 8
  %some = call i1 @is_open(i64 %seen)
  br i1 %some, label %claim, label %out
claim:
  %ticket = atomicrmw add ptr @ticket, i64 1 acq_rel
  %ours = call i1 @is_open(i64 %ticket)
  br i1 %ours, label %run, label %out
run:
  %kernel = load ptr, ptr @job
  %buffers = load ptr, ptr getelementptr (i8, ptr @job, i64 8)
  %units = load i64, ptr getelementptr (i8, ptr @job, i64 16)
  %size = load i64, ptr getelementptr (i8, ptr @job, i64 24)
  %piece = and i64 %ticket, 262143
  %begin = mul i64 %piece, %size
  %after = add i64 %begin, %size
  %inside = icmp ult i64 %after, %units
  %end = select i1 %inside, i64 %after, i64 %units
  %whose = load ptr, ptr getelementptr (i8, ptr @job, i64 32)
  %stopped = call i1 @is_stopped(ptr %whose)
  br i1 %stopped, label %done, label %compute
compute:
  call void %kernel(ptr %buffers, i64 %begin, i64 %end)
  br label %done
done:
  %before = atomicrmw add ptr @done, i64 1 release
  br i1 %calls, label %listen, label %look
listen:
  %status = call i32 @look(ptr %context)
  br label %look
out:
  ret void
}

define internal ptr @worker(ptr %argument) {
entry:
  %id = ptrtoint ptr %argument to i64
  br label %watch
watch:
  %spin = phi i64 [ 0, %entry ], [ 0, %help ], [ %spun, %pause ], [ 0, %awake ]
  %ticket = load atomic i64, ptr @ticket acquire, align 8
  %some = call i1 @has_work(i64 %ticket, i64 %id)
  br i1 %some, label %help, label %idle
help:
  call void @work(ptr null)
  br label %watch
idle:
  ; one who is not invited to the job of the day need not watch for the next
  %invited = call i1 @is_invited(i64 %ticket, i64 %id)
  %patient = icmp ult i64 %spin, $spins
  %spins = and i1 %invited, %patient
  br i1 %spins, label %linger, label %sleep
linger:
  %looks = icmp eq i64 %spin, $glance
  br i1 %looks, label %glance, label %pause
glance:
  call void @leave_the_caller_alone()
  br label %pause
pause:
  call void @$pause
  %spun = add i64 %spin, 1
  br label %watch
sleep:
  %l = call i32 @pthread_mutex_lock(ptr @mutex)
  %heard = load i64, ptr @wakes
  %s = atomicrmw add ptr @sleepers, i64 1 seq_cst
  ; a job posted before its caller saw us asleep has not rung the bell
  %again = load atomic i64, ptr @ticket seq_cst, align 8
  %late = call i1 @has_work(i64 %again, i64 %id)
  br i1 %late, label %rise, label %wait
wait:
  %w = call i32 @pthread_cond_wait(ptr @bell, ptr @mutex)
  %rung = load i64, ptr @wakes
  %dreamt = icmp eq i64 %rung, %heard
  br i1 %dreamt, label %wait, label %rise
rise:
  %t = atomicrmw sub ptr @sleepers, i64 1 seq_cst
  %u = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %awake
awake:
  br label %watch
}

$seats
; Starts workers until there are `wanted`. Signals stay with the interpreter's threads.
define internal void @start_workers(i64 %wanted) {
entry:
  %thread = alloca ptr
  %attributes = alloca [256 x i8], align 16
  %all = alloca [256 x i8], align 16
  %old = alloca [256 x i8], align 16
  %first = load i64, ptr @workers
  %fresh = icmp eq i64 %first, 0
  br i1 %fresh, label %init, label %begin
init:
  %i0 = call i32 @pthread_mutex_init(ptr @mutex, ptr null)
  %i1 = call i32 @pthread_cond_init(ptr @bell, ptr null)
  br label %begin
begin:
  %a0 = call i32 @pthread_attr_init(ptr %attributes)
  %a1 = call i32 @pthread_attr_setstacksize(ptr %attributes, i64 $stack)
  %a2 = call i32 @sigfillset(ptr %all)
  %a3 = call i32 @pthread_sigmask(i32 $sig_block, ptr %all, ptr %old)
  br label %next
next:
  %id = phi i64 [ %first, %begin ], [ %more, %started ]
  %enough = icmp uge i64 %id, %wanted
  br i1 %enough, label %finish, label %start
start:
  %argument = inttoptr i64 %id to ptr
  %error = call i32 @pthread_create(ptr %thread, ptr %attributes, ptr @worker,
                                    ptr %argument)
  %fine = icmp eq i32 %error, 0
  br i1 %fine, label %started, label %refused
started:
  %handle = load ptr, ptr %thread
  %d = call i32 @pthread_detach(ptr %handle)
  %more = add i64 %id, 1
  br label %next
refused:
  store i1 true, ptr @no_more
  br label %finish
finish:
  store atomic i64 %id, ptr @workers release, align 8
  %f0 = call i32 @pthread_sigmask(i32 $sig_setmask, ptr %old, ptr null)
  %f1 = call i32 @pthread_attr_destroy(ptr %attributes)
  ret void
}

; Wakes sleepers: as many as there are pieces for, or all where some of them might not
; be invited.
define internal void @ring(i64 %helpers, i64 %threads, i64 %sleepers) {
entry:
  %l = call i32 @pthread_mutex_lock(ptr @mutex)
  %heard = load i64, ptr @wakes
  %rung = add i64 %heard, 1
  store i64 %rung, ptr @wakes
  %u = call i32 @pthread_mutex_unlock(ptr @mutex)
  %workers = load i64, ptr @workers
  %all_invited = icmp ult i64 %workers, %threads
  %few = icmp ult i64 %helpers, %sleepers
  %singly = and i1 %all_invited, %few
  br i1 %singly, label %one, label %everyone
one:
  %count = phi i64 [ 0, %entry ], [ %more, %one ]
  %s = call i32 @pthread_cond_signal(ptr @bell)
  %more = add i64 %count, 1
  %on = icmp ult i64 %more, %helpers
  br i1 %on, label %one, label %out
everyone:
  %b = call i32 @pthread_cond_broadcast(ptr @bell)
  br label %out
out:
  ret void
}

define internal i32 @share(ptr %kernel, ptr %buffers, i64 %units, i64 %grain,
                           i64 %breath, i64 %threads, ptr %context) {
entry:
  %several = icmp ugt i64 %threads, 1
  br i1 %several, label %measure, label %alone
measure:
  %least = call i64 @llvm.umax.i64(i64 %grain, i64 1)
  %fitting = udiv i64 %units, %least
  %many = mul i64 %threads, $pieces
  %least_breath = call i64 @llvm.umax.i64(i64 %breath, i64 1)
  %breaths = udiv i64 %units, %least_breath
  %more = call i64 @llvm.umax.i64(i64 %many, i64 %breaths)
  %most = call i64 @llvm.umin.i64(i64 %more, i64 $most)
  %wished = call i64 @llvm.umin.i64(i64 %fitting, i64 %most)
  %worth = icmp ugt i64 %wished, 1
  br i1 %worth, label %lock, label %alone
lock:
  %cas = cmpxchg ptr @taken, i32 0, i32 1 acquire monotonic
  %mine = extractvalue { i32, i1 } %cas, 1
  br i1 %mine, label %staff, label %alone
alone:
  %lonely = call i32 @alone(ptr %kernel, ptr %buffers, i64 %units, i64 %breath,
                            ptr %context)
  ret i32 %lonely
staff:
  %helpers = sub i64 %threads, 1
  %workers = load i64, ptr @workers
  %short = icmp ult i64 %workers, %helpers
  %no_more = load i1, ptr @no_more
  %possible = xor i1 %no_more, true
  %hire = and i1 %short, %possible
  br i1 %hire, label %start, label %post
start:
  call void @start_workers(i64 %helpers)
  br label %post
post:
  %up0 = add i64 %units, %wished
  %up1 = sub i64 %up0, 1
  %size = udiv i64 %up1, %wished
  %all0 = add i64 %units, %size
  %all1 = sub i64 %all0, 1
  %pieces = udiv i64 %all1, %size
  store ptr %kernel, ptr @job
  store ptr %buffers, ptr getelementptr (i8, ptr @job, i64 8)
  store i64 %units, ptr getelementptr (i8, ptr @job, i64 16)
  store i64 %size, ptr getelementptr (i8, ptr @job, i64 24)
  store ptr %context, ptr getelementptr (i8, ptr @job, i64 32)
  %seat = call i64 @seat()
  %noted = getelementptr i8, ptr @job, i64 40
  store atomic i64 %seat, ptr %noted monotonic, align 8
  store atomic i64 0, ptr @done monotonic, align 8
  %high = shl i64 %threads, 36
  %middle = shl i64 %pieces, 18
  %ticket = or i64 %high, %middle
  %old = atomicrmw xchg ptr @ticket, i64 %ticket seq_cst
  %sleepers = load atomic i64, ptr @sleepers seq_cst, align 8
  %asleep = icmp ne i64 %sleepers, 0
  br i1 %asleep, label %wake, label %begin
wake:
  %others = sub i64 %pieces, 1
  call void @ring(i64 %others, i64 %threads, i64 %sleepers)
  br label %begin
begin:
  %listens = icmp ugt i64 %units, %breath
  %listener = select i1 %listens, ptr %context, ptr null
  call void @work(ptr %listener)
  %deaf = icmp eq ptr %context, null
  br label %wait
wait:
  %spin = phi i64 [ 0, %begin ], [ %spun, %pause ], [ %spun, %give ], [ %spun, %listen ]
  %done = load atomic i64, ptr @done acquire, align 8
  %all = icmp eq i64 %done, %pieces
  br i1 %all, label %finish, label %not_yet
not_yet:
  %spun = add i64 %spin, 1
  %long = icmp ugt i64 %spun, $yields
  br i1 %long, label %give, label %pause
pause:
  call void @$pause
  br label %wait
give:
  %y = call i32 @sched_yield()
  br i1 %deaf, label %wait, label %listen
listen:
  %heard = call i32 @look(ptr %context)
  br label %wait
finish:
  store atomic i32 0, ptr @taken release, align 4
  %status = call i32 @status_of(ptr %context)
  ret i32 %status
}

; In a forked child: nobody works, sleeps or holds the lock.
define void @pool_reset() {
  store i64 0, ptr @ticket
  store i64 0, ptr @done
  store i32 0, ptr @taken
  store i64 0, ptr @workers
  store i1 false, ptr @no_more
  store i64 0, ptr @sleepers
  store i64 0, ptr @wakes
  ret void
}

define i64 @pool_workers() {
  %workers = load atomic i64, ptr @workers acquire, align 8
  ret i64 %workers
}
"""
