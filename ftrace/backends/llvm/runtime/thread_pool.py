"""The thread pool of the CPU: LLVM IR that is compiled once per process.

    share(kernel, buffers, units, grain, quantum, threads, context) -> status

calls `kernel(buffers, begin, end)` on pieces of [0, units) until all are done. A job
is one 64-bit ticket {threads:12, pieces:18, next:18}: whoever adds one to it owns
piece `next`. The caller works too and waits only for pieces that others have claimed,
so a worker that the system does not schedule delays nobody. Units are independent:
who computes which does not change a bit of the result.

Pieces are of `grain` units at least. A job of more than `quantum` units is long: it has
pieces of no more than these, between two of which the caller checks for signals. When
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
from collections.abc import Sequence

from ftrace.backends.llvm import target
from ftrace.backends.llvm.ir.function_builder import Function, Routines, module_text
from ftrace.backends.llvm.runtime import runner, warm_memory
from ftrace.backends.llvm.runtime.records import GO_ON, Record
from ftrace.backends.llvm.runtime.runner import check_signals, load_status
from ftrace.backends.llvm.runtime.work_estimate import PIECES_PER_THREAD
from ftrace.trace.arrays.buffer import FENCED

#: The most pieces: a ticket has room for twice as many.
MOST_PIECES = 1 << 17
#: Pauses before a worker sleeps: about 0.3 ms, longer than a program's serial steps.
SPINS_BEFORE_SLEEP = 20_000
#: Pauses before a worker looks whether its caller's core is under it.
SPINS_BEFORE_CORE_CHECK = 32
#: Pauses before a waiting caller lets others use its core.
SPINS_BEFORE_YIELD = 2_000
#: A worker's stack: what a kernel may use for its scratch rows.
STACK_BYTES = 8 << 20


class Job(Record):
    """What workers read after they have claimed a piece."""

    fields = ("kernel", "buffers", "units", "size", "context", "core")


# Each variable has cache lines of its own (128 bytes: they are fetched in pairs).
_VARIABLES = f"""
@ticket = internal global i64 0, align 128
@job = internal global [{len(Job.fields)} x i64] zeroinitializer, align 128
@done = internal global i64 0, align 128
@taken = internal global i32 0, align 128
@workers = internal global i64 0, align 128
@no_more = internal global i1 false, align 128
@sleepers = internal global i64 0, align 128
@wakes = internal global i64 0, align 128
@mutex = internal global [128 x i8] zeroinitializer, align 128
@wake_up = internal global [128 x i8] zeroinitializer, align 128

"""
_SHARED = (
    "ptr %kernel", "ptr %buffers", "i64 %units", "i64 %grain", "i64 %quantum",
    "i64 %threads", "ptr %context",
)  # fmt: skip
_ALONE = ("%kernel", "%buffers", "%units", "%quantum", "%context")
#: Bits of a ticket for the next piece, and for all pieces.
_BITS = 18


#: What there is without threads as well; and what is written for them.
plain, pool = Routines(Function), Routines(Function)


def runner_ir(limit: int) -> str:
    """The module of the runner, for this machine.

    Args:
      limit: bytes that stacks keep at most for the next ones.
    """
    variables = runner.VARIABLES + warm_memory.VARIABLES
    functions = [*plain.functions()]
    if target.has_threads():
        variables += _VARIABLES
        functions += pool.functions()
    else:
        functions += _without_threads()
    functions += [*runner.handlers.functions(), *warm_memory.stacks.functions(limit)]
    functions += (warm_memory.fenced if FENCED else warm_memory.warm).functions()
    return module_text(variables, functions)


def _without_threads() -> Sequence[Function]:
    share = Function("share", "i32", *_SHARED)
    share.ret(alone(share, *_ALONE))
    reset = Function("pool_reset", "void", visible=True)
    reset.ret()
    workers = Function("pool_workers", "i64", visible=True)
    workers.ret(0)
    return share, reset, workers


def _pause(f: Function) -> None:
    machine = platform.machine().lower()
    if machine in ("x86_64", "amd64", "i386", "i686"):
        f.outside("void llvm.x86.sse2.pause()")
    elif machine in ("aarch64", "arm64"):
        f.outside("void llvm.aarch64.hint(i32)", 1)


@plain("i32", *_SHARED[:3], "i64 %quantum", _SHARED[-1])
def alone(f: Function) -> None:
    """The whole job by the caller; looks for signals where it is long."""
    short = f.let("icmp ule i64 %units, %quantum")
    unpolled = f.let("icmp eq ptr %context, null")
    with f.when(f.let(f"or i1 {short}, {unpolled}")):
        f.do("call void %kernel(ptr %buffers, i64 0, i64 %units)")
        f.ret(GO_ON)
    with f.fold(-1, [("i64", "0")]) as fold:
        begin = fold.values[0]
        end = f.sum(begin, f.least(f.let(f"sub i64 %units, {begin}"), "%quantum"))
        f.do(f"call void %kernel(ptr %buffers, i64 {begin}, i64 {end})")
        status = check_signals(f, "%context")
        ended = f.let(f"icmp eq i64 {end}, %units")
        stops = f.let(f"icmp ne i32 {status}, {GO_ON}")
        f.ret_if(f.let(f"or i1 {ended}, {stops}"), status)
        fold.following = [end]
    f.ret(GO_ON)


@plain("void", *_SHARED[:4], _SHARED[5], visible=True)
def parallel(f: Function) -> None:
    operands = ("%kernel", "%buffers", "%units", "%grain", "%units", "%threads")
    share(f, *operands, "null")
    f.ret()


@pool("i32", "ptr %context")
def status_of(f: Function) -> None:
    """That of the call that a context is of, if there is one."""
    f.ret_if(f.let("icmp eq ptr %context, null"), GO_ON)
    f.ret(load_status(f, "%context"))


def _ticket(f: Function, order: str = "acquire") -> str:
    return f.let(f"load atomic i64, ptr @ticket {order}, align 8")


def _next(f: Function, ticket: str) -> str:
    return f.let(f"and i64 {ticket}, {(1 << _BITS) - 1}")


def _is_used_up(f: Function, ticket: str) -> str:
    """Is no piece of this ticket left?"""
    pieces = _next(f, f.let(f"lshr i64 {ticket}, {_BITS}"))
    return f.let(f"icmp uge i64 {_next(f, ticket)}, {pieces}")


def _is_invited(f: Function, ticket: str, number: str) -> str:
    """May a worker help? The caller is one of the threads of the ticket."""
    threads = f.let(f"lshr i64 {ticket}, {2 * _BITS}")
    return f.let(f"icmp ult i64 {f.sum(number, 1)}, {threads}")


def _not(f: Function, x: str) -> str:
    return f.let(f"xor i1 {x}, true")


@pool("void", "ptr %context")
def work(f: Function) -> None:
    """Claims pieces and runs them until none is left.

    The job is read after the claim: the next one is written only when all claimed
    pieces are done. The caller of a long job has a context and looks for signals after
    each piece.
    """
    calls, job = f.let("icmp ne ptr %context, null"), f.view("@job", Job)
    with f.repeat(-1):
        f.stop_if(_is_used_up(f, _ticket(f)))
        ticket = f.let("atomicrmw add ptr @ticket, i64 1 acq_rel")
        f.stop_if(_is_used_up(f, ticket))
        kernel, buffers = job.pointer("kernel"), job.pointer("buffers")
        units, size = job.number("units"), job.number("size")
        begin = f.let(f"mul i64 {_next(f, ticket)}, {size}")
        end = f.least(f.sum(begin, size), units)
        status = status_of(f, job.pointer("context"))
        with f.when(f.let(f"icmp eq i32 {status}, {GO_ON}")):
            f.do(f"call void {kernel}(ptr {buffers}, i64 {begin}, i64 {end})")
        f.let("atomicrmw add ptr @done, i64 1 release")
        with f.when(calls):
            check_signals(f, "%context")
    f.ret()


@pool("ptr", "ptr %argument")
def worker(f: Function) -> None:
    number, spins = f.let("ptrtoint ptr %argument to i64"), f.variable("i64", 0)
    with f.repeat(-1):
        ticket = _ticket(f)
        invited = _is_invited(f, ticket, number)
        open_ = _not(f, _is_used_up(f, ticket))
        helps = f.let(f"and i1 {open_}, {invited}")
        with f.when(helps):
            work(f, "null")
            f.store("i64", 0, spins)
        spun = f.load("i64", spins)
        patient = f.let(f"icmp ult i64 {spun}, {SPINS_BEFORE_SLEEP}")
        # one who is not invited to the job of the day need not watch for the next
        lingers = f.let(f"and i1 {invited}, {patient}")
        with f.when(f.let(f"and i1 {lingers}, {_not(f, helps)}")):
            with f.when(f.let(f"icmp eq i64 {spun}, {SPINS_BEFORE_CORE_CHECK}")):
                leave_callers_core(f)
            _pause(f)
            f.store("i64", f.sum(spun, 1), spins)
        active = f.let(f"or i1 {lingers}, {helps}")
        with f.when(_not(f, active)):
            park(f, number)
            f.store("i64", 0, spins)
    f.ret("null")


@pool("void", "i64 %number")
def park(f: Function) -> None:
    """Sleeps until it is woken."""
    f.outside("i32 pthread_mutex_lock(ptr)", "@mutex")
    before = f.load("i64", "@wakes")
    f.let("atomicrmw add ptr @sleepers, i64 1 seq_cst")
    # a job posted before its caller saw us asleep has not woken us
    ticket = _ticket(f, "seq_cst")
    uninvited = _not(f, _is_invited(f, ticket, "%number"))
    with f.when(f.let(f"or i1 {_is_used_up(f, ticket)}, {uninvited}")), f.repeat(-1):
        f.outside("i32 pthread_cond_wait(ptr, ptr)", "@wake_up", "@mutex")
        f.stop_if(f.let(f"icmp ne i64 {f.load('i64', '@wakes')}, {before}"))
    f.let("atomicrmw sub ptr @sleepers, i64 1 seq_cst")
    f.outside("i32 pthread_mutex_unlock(ptr)", "@mutex")
    f.ret()


@pool("i64")
def current_core(f: Function) -> None:
    """The core of this thread; elsewhere than on Linux that is not asked."""
    if sys.platform.startswith("linux"):
        f.ret(f.let(f"sext i32 {f.outside('i32 sched_getcpu()')} to i64"))
    else:
        f.ret(-1)


@pool("void")
def leave_callers_core(f: Function) -> None:
    """To another core, on Linux.

    Two threads that spin on one core take turns of milliseconds. The system moves one
    of them in the end; a worker that sees its caller's core under it goes at once: to
    any other core that it may use, from where it may go on to all of them.
    """
    if not sys.platform.startswith("linux"):
        f.ret()
        return
    mine, noted = current_core(f), f.view("@job", Job).at("core")
    callers = f.let(f"load atomic i64, ptr {noted} monotonic, align 8")
    same = f.let(f"icmp eq i64 {mine}, {callers}")
    listed = f.let(f"icmp ult i64 {mine}, 1024")
    with f.when(f.let(f"and i1 {same}, {listed}")):
        all_, others = f.variable("i1024", 0), f.allocate("i1024")
        failed = f.outside("i32 sched_getaffinity(i32, i64, ptr)", 0, 128, all_)
        bit = f.let(f"shl i1024 1, {f.let(f'zext i64 {mine} to i1024')}")
        keep = f.let(f"xor i1024 {bit}, -1")
        rest = f.let(f"and i1024 {f.load('i1024', all_)}, {keep}")
        known = f.let(f"icmp eq i32 {failed}, 0")
        some = f.let(f"icmp ne i1024 {rest}, 0")
        with f.when(f.let(f"and i1 {known}, {some}")):
            f.store("i1024", rest, others)
            for cores_ in (others, all_):
                f.outside("i32 sched_setaffinity(i32, i64, ptr)", 0, 128, cores_)
    f.ret()


@pool("void", "i64 %wanted")
def start_workers(f: Function) -> None:
    """Until there are `wanted`. Signals stay with the interpreter's threads."""
    linux = sys.platform.startswith("linux")
    block, set_mask = (0, 2) if linux else (1, 3)
    thread = f.allocate("ptr")
    attributes, all_, old = (f.allocate("i8", 256) for _ in range(3))
    first = f.load("i64", "@workers")
    with f.when(f.let(f"icmp eq i64 {first}, 0")):
        f.outside("i32 pthread_mutex_init(ptr, ptr)", "@mutex", "null")
        f.outside("i32 pthread_cond_init(ptr, ptr)", "@wake_up", "null")
    f.outside("i32 pthread_attr_init(ptr)", attributes)
    f.outside("i32 pthread_attr_setstacksize(ptr, i64)", attributes, STACK_BYTES)
    f.outside("i32 sigfillset(ptr)", all_)
    f.outside("i32 pthread_sigmask(i32, ptr, ptr)", block, all_, old)
    with f.repeat("%wanted", first) as number:
        argument = f.let(f"inttoptr i64 {number} to ptr")
        operands = thread, attributes, "@worker", argument
        error = f.outside("i32 pthread_create(ptr, ptr, ptr, ptr)", *operands)
        refused = f.let(f"icmp ne i32 {error}, 0")
        with f.when(refused):
            f.store("i1", "true", "@no_more")
        f.stop_if(refused)
        f.outside("i32 pthread_detach(ptr)", f.load("ptr", thread))
    f.do(f"store atomic i64 {number}, ptr @workers release, align 8")
    f.outside("i32 pthread_sigmask(i32, ptr, ptr)", set_mask, old, "null")
    f.outside("i32 pthread_attr_destroy(ptr)", attributes)
    f.ret()


@pool("void", "i64 %helpers", "i64 %threads", "i64 %sleepers")
def unpark_workers(f: Function) -> None:
    """Wakes as many as there are pieces for, or all where some might not be invited."""
    f.outside("i32 pthread_mutex_lock(ptr)", "@mutex")
    f.store("i64", f.sum(f.load("i64", "@wakes"), 1), "@wakes")
    f.outside("i32 pthread_mutex_unlock(ptr)", "@mutex")
    all_invited = f.let(f"icmp ult i64 {f.load('i64', '@workers')}, %threads")
    few = f.let("icmp ult i64 %helpers, %sleepers")
    with f.when(f.let(f"and i1 {all_invited}, {few}")):
        with f.repeat("%helpers"):
            f.outside("i32 pthread_cond_signal(ptr)", "@wake_up")
        f.ret()
    f.outside("i32 pthread_cond_broadcast(ptr)", "@wake_up")
    f.ret()


@pool("i32", *_SHARED)
def share(f: Function) -> None:
    """Runs a job: by itself where it is small, else in pieces that threads take."""

    def alone_if(condition: str) -> None:
        with f.when(condition):
            f.ret(alone(f, *_ALONE))

    def over(x: str, divisor: str) -> str:
        return f.let(f"udiv i64 {x}, {divisor}")

    def parts(size: str) -> str:
        """How many of that size."""
        return over(f.sum(f.sum("%units", size), -1), size)

    alone_if(f.let("icmp ule i64 %threads, 1"))
    polls = over("%units", f.most("%quantum", 1))
    many = f.most(f.let(f"mul i64 %threads, {PIECES_PER_THREAD}"), polls)
    fitting = over("%units", f.most("%grain", 1))
    wished = f.least(fitting, f.least(many, MOST_PIECES))
    alone_if(f.let(f"icmp ule i64 {wished}, 1"))
    swap = f.let("cmpxchg ptr @taken, i32 0, i32 1 acquire monotonic")
    alone_if(_not(f, f.let(f"extractvalue {{ i32, i1 }} {swap}, 1")))
    helpers = f.sum("%threads", -1)
    short = f.let(f"icmp ult i64 {f.load('i64', '@workers')}, {helpers}")
    possible = _not(f, f.load("i1", "@no_more"))
    with f.when(f.let(f"and i1 {short}, {possible}")):
        start_workers(f, helpers)
    size = parts(wished)
    pieces = parts(size)
    _post(f, size, pieces)
    listens = f.let("icmp ugt i64 %units, %quantum")
    listener = f.let(f"select i1 {listens}, ptr %context, ptr null")
    work(f, listener)
    _wait_for(f, pieces)
    f.do("store atomic i32 0, ptr @taken release, align 4")
    f.ret(status_of(f, "%context"))


def _post(f: Function, size: str, pieces: str) -> None:
    """Writes the job, issues the ticket that invites to it, and wakes who sleeps."""
    job = f.view("@job", Job)
    for name in ("kernel", "buffers", "context"):
        job.set(name, f"%{name}", "ptr")
    job.set("units", "%units")
    job.set("size", size)
    core = current_core(f)
    f.do(f"store atomic i64 {core}, ptr {job.at('core')} monotonic, align 8")
    f.do("store atomic i64 0, ptr @done monotonic, align 8")
    high = f.let(f"shl i64 %threads, {2 * _BITS}")
    ticket = f.let(f"or i64 {high}, {f.let(f'shl i64 {pieces}, {_BITS}')}")
    f.let(f"atomicrmw xchg ptr @ticket, i64 {ticket} seq_cst")
    sleepers = f.let("load atomic i64, ptr @sleepers seq_cst, align 8")
    with f.when(f.let(f"icmp ne i64 {sleepers}, 0")):
        others = f.sum(pieces, -1)
        unpark_workers(f, others, "%threads", sleepers)


def _wait_for(f: Function, pieces: str) -> None:
    """Until all are done; signals are looked at on the way."""
    hears = f.let("icmp ne ptr %context, null")
    with f.repeat(-1) as spun:
        done = f.let("load atomic i64, ptr @done acquire, align 8")
        f.stop_if(f.let(f"icmp eq i64 {done}, {pieces}"))
        long = f.let(f"icmp uge i64 {spun}, {SPINS_BEFORE_YIELD}")
        with f.when(_not(f, long)):
            _pause(f)
        with f.when(long):
            f.outside("i32 sched_yield()")
            with f.when(hears):
                check_signals(f, "%context")


@pool("void", visible=True)
def pool_reset(f: Function) -> None:
    """In a forked child: nobody works, sleeps or holds the lock."""
    for name in ("ticket", "done", "workers", "sleepers", "wakes"):
        f.store("i64", 0, f"@{name}")
    f.store("i32", 0, "@taken")
    f.store("i1", "false", "@no_more")
    f.ret()


@pool("i64", visible=True)
def pool_workers(f: Function) -> None:
    f.ret(f.let("load atomic i64, ptr @workers acquire, align 8"))
