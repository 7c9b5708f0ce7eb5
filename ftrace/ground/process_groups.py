"""What processes do together: groups of them, and the works that each has started.

The few operations that collectives are made of:

    gathering, exchanging, sending, broadcasting    bytes from one memory to another
    combining, reducing    the arrays of all, combined by a function of rows
    agree        the same digest everywhere, or an error for all

What the first two lines name is a `Work`: a generator that asks MPI for something,
yields, and goes on when that is done. So it can be started, and finished later: in
between a thread looks from time to time whether it goes on, as MPI does much of its own
work only where it is asked. All processes of a group start their works in the same
order; those that go on do so in that order too, on a communicator of its own.

All waiting is done in `Group.finish`: it looks whether the others are still there, and
gives up after `config.distributed_timeout` seconds.

An exception in the middle of a work leaves it: MPI may still read and write its memory,
which is kept to the end, and messages of the others may still come, so that the group
does nothing any more. So memory is kept once for each group at the most.

Sums are no business of MPI's, whose order of adding depends on algorithms that it
chooses: bytes are brought together, and added up in the order of the processes. So a
sum has the same bits from run to run, and on all processes.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from difflib import unified_diff
from importlib import import_module
from itertools import starmap
from math import prod
from typing import Any
from zlib import crc32

import numpy

from ftrace.errors import DeviceError, ProcessError
from ftrace.ground import processes
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.ground.fork_safe import fresh_after_fork
from ftrace.ground.processes import world

np: Any = numpy  # whose stubs leave too much unknown
Array = Any
#: Something to do together: it yields where what it has asked MPI for must be done
#: before it goes on; what it returns is the result.
Work = Generator[None, None, Array]

#: How often a request is tried at once, before others get the processor meanwhile.
_TRIES = 200
#: Seconds after which those who are waited for are told, as they may be elsewhere.
_PATIENCE = 3.0
#: Seconds after which the thread looks again at what was started: a message in more
#: than one piece waits as long for its next one. A look takes 20 to 30 µs with what
#: wakes the thread: 4 % of a core, and 8 % at 1e-4 (Zen 4, busy otherwise).
_PAUSE = 5e-4
#: Bytes up to which memory for a time is cached.
_REUSED = 1 << 26
#: Lines of a difference that a message shows.
_LINES = 12
#: Bytes up to which an array is brought to all before it is combined.
FEW_BYTES = 1 << 14
#: Processes from which on, and bytes up to which, arrays are gathered in rounds: each
#: is worth a message, and the rows are copied once more (`benchmarks/scaling.py`).
MANY, SHORT = 8, 1 << 15
#: Processes up to which each sends to each other one: MPI has ways for more of them.
DIRECT = 32
#: Dtypes that MPI has too: a view of bytes takes a microsecond.
_KNOWN = frozenset("bBhHiIlLqQfd")


#: Is 1 where something was left: native code asks for it after an exception.
cut = ctypes.c_size_t(0)


def group(members: Sequence[int]) -> Group:
    """These processes, one of which is this one, in that order."""
    key = tuple(members)
    if key not in world.groups:
        kind = _Echo if {*key} == {world.index} else Group
        world.groups[key] = kind(key)
    return world.groups[key]


def everyone() -> Group:
    """All processes."""
    return group(range(world.count))


def settle(error: BaseException, memory: Any = None) -> None:
    """Finishes all that was started: what was to wait for it has ended by an error.

    The memory that MPI may still read or write, where that fails, is kept. Who
    interrupts the program does not wait.
    """
    for each in world.groups.values():
        each.settle(error)
    if world.left:
        world.left = False
        world.retained.append(memory)


class Pending:
    """Something that was started.

    Attributes:
      what: for what a process waits that waits for it, for people.
      requests: what it has asked MPI for, which must be done before it goes on.
      meanwhile: is anything else done before it is waited for?
      asks: what the others are told if they are late: where something new begins, what
        that is, in words and as lines; nothing where it goes on.
      notified: have the others been told of it?
      began, ended: when, by `time.perf_counter`.
      result: what it gives, when it is done.
    """

    __slots__ = (
        "asks", "began", "done", "ended", "error", "meanwhile", "notified", "requests",
        "result", "what", "work",
    )  # fmt: skip

    def __init__(self, what: str, work: Work, meanwhile: bool) -> None:
        self.what, self.work, self.meanwhile = what, work, meanwhile
        self.asks: tuple[str, Callable[[], str]] | None = None
        self.notified = False
        self.requests: list[Any] = []
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = False
        self.began = self.ended = time.perf_counter()

    def end(self, result: Any = None, error: BaseException | None = None) -> None:
        self.result, self.error = result, error
        self.done, self.ended = True, time.perf_counter()


class Group:
    """Some processes, in an order.

    Attributes:
      members: their numbers.
      rank: which of them this process is.
      handle: the communicator of its messages, as native code names it; 0 where native
        code has begun something that is not done, or anything was left.
      left: what a process is told that wants more of it then.

    Raises:
      DeviceError: this process is none of them.
    """

    left = ""

    def __init__(self, members: tuple[int, ...]) -> None:
        if world.index not in members:
            raise DeviceError(
                f"process {world.index} has no device of a mesh over the processes "
                f"{members}; only these may run its programs"
            )
        self.members, self.rank = members, members.index(world.index)
        self._queue: deque[Pending] = deque()
        self._begun: list[Any] = []  # requests of the work that goes on now
        self._lock = fresh_after_fork(threading.RLock())
        self.handle = ctypes.c_size_t(1)
        if len({*members}) > 1:
            self._test = world.mpi.Request.Testall
            self._found: list[Any] = []  # what MPI tells of each request
            self._begin_together("all processes of a mesh", self._meeting())
            whole: Any = world.mpi.COMM_WORLD
            own = whole.Get_group().Incl(members)
            self._messages: Any = whole.Create_group(own)
            self._named = self.handle.value = world.mpi._handleof(self._messages)
            self._digests: Any = whole.Create_group(own, 1)
            self._later: Any = whole.Create_group(own, 2)

    @property
    def size(self) -> int:
        return len(self.members)

    # Works.

    def _meeting(self) -> Work:
        """All are here: MPI, which makes their communicators, knows no time."""
        tag = crc32(repr(self.members).encode()) & 0x7FFF
        others = [other for other in self.members if other != world.index]
        memory = [np.empty(0, np.uint8) for _ in others]
        rows = [(*pair, tag) for pair in zip(memory, others, strict=True)]
        self._post(world.rendezvous, rows, rows)
        yield
        return None

    def _ask(self, function: Callable[..., Any], *operands: Sequence[Any]) -> None:
        """Requests of MPI: each is noted at once; no signal comes between."""
        self._begun.extend(starmap(function, operands))

    def _post(
        self, messages: Any, into: Sequence[tuple[Array, int, int]],
        rows: Sequence[tuple[Array, int, int]],
    ) -> None:  # fmt: skip
        """Sends rows, and asks for what comes: (row, to or from, a tag)."""
        self._ask(messages.Isend, *[(_bytes(x), *more) for x, *more in rows])
        self._ask(messages.Irecv, *[(_bytes(x), *more) for x, *more in into])

    def gathering(self, x: Array, out: Array | None = None) -> Work:
        """The arrays of all, of one shape, along a new leading axis."""
        return (yield from self._gather(self._messages, x, out))

    def _gather(self, messages: Any, x: Array, out: Array | None = None) -> Work:
        found = np.empty((self.size, *x.shape), x.dtype) if out is None else out
        if ways := self._ways("gather", x):
            return (yield from self._send_to_each(ways, x, found, messages=messages))
        if self.size >= MANY and x.nbytes <= SHORT:
            return (yield from self._gather_in_rounds(messages, x, found))
        self._ask(messages.Iallgather, (_bytes(x), _bytes(found)))
        yield
        return found

    def _gather_in_rounds(self, messages: Any, x: Array, out: Array) -> Work:
        """As many rows again come in each round (Bruck et al., IEEE TPDS 8, 1997)."""
        n, own, have = self.size, self.rank, 1
        with scratch(out.shape, out.dtype) as rows:
            rows[0] = x  # those of this process, of the next one, …
            while have < n:
                more = min(have, n - have)
                came, sent = rows[have : have + more], rows[:more]
                far = (own + have) % n, (own - have) % n
                self._post(messages, [(came, far[0], 0)], [(sent, far[1], 0)])
                yield
                have, messages = have + more, self._later
            out[own:], out[:own] = rows[: n - own], rows[n - own :]
        return out

    def _ways(self, kind: str, x: Array) -> dict[int, Pairwise]:
        return pairwise(kind, self.rank, self.size, x.size, x.nbytes)

    def _send_to_each(
        self, ways: dict[int, Pairwise], x: Array, out: Array,
        fold: Callable[..., Array] | None = None, messages: Any = None,
    ) -> Work:  # fmt: skip
        """A collective of few. What MPI schedules takes twice as long for 4 MB."""
        messages = self._messages if messages is None else messages
        given, made = np.ascontiguousarray(x).reshape(-1), out.reshape(-1)
        came = {n: made[way.into : way.into + way.length] for n, way in ways.items()}
        sent = {n: given[way.sent : way.sent + way.length] for n, way in ways.items()}
        into, rows = [[(x, n, 0) for n, x in each.items()] for each in (came, sent)]
        self._post(messages, into, rows)
        way = next(iter(ways.values()))
        own = given[way.own : way.own + way.length]
        if way.retained >= 0:
            made[way.retained : way.retained + way.length] = own
        yield
        if fold is not None:  # of two
            (other,) = came.values()
            fold((other, own) if self.rank else (own, other), other)
        return out

    def exchanging(self, x: Array, out: Array | None = None) -> Work:
        """Row i of `x` goes to the i-th; row j of the result is from the j-th."""
        found = np.empty(x.shape, x.dtype) if out is None else out
        if ways := self._ways("all_to_all", x):
            return (yield from self._send_to_each(ways, x, found))
        sent = np.ascontiguousarray(x)
        self._ask(self._messages.Ialltoall, (_bytes(sent), _bytes(found)))
        yield
        return found

    def reducing(self, fold: Callable[..., Array], x: Array, out: Array) -> Work:
        """Row i of `x` goes to the i-th, which combines what comes."""
        if ways := self._ways("scatter", x):
            return (yield from self._send_to_each(ways, x, out, fold))
        with scratch(x.shape, x.dtype) as rows:
            yield from self.exchanging(x, rows)
            return fold(rows, out)

    def broadcasting(self, x: Array, place: int = 0) -> Work:
        """The array of the first one, or of another."""
        found = np.array(x)
        self._ask(self._messages.Ibcast, (_bytes(found), place))
        yield
        return found

    def sending(
        self, rows: Sequence[tuple[Array, int, int]],
        into: Sequence[tuple[Array, int, int]],
    ) -> Work:  # fmt: skip
        """Sends rows, and fills others with what comes: (row, to or from, a tag)."""
        self._post(self._messages, into, rows)
        yield
        return None

    def combining(
        self, fold: Callable[..., Array], x: Array, out: Array | None = None
    ) -> Work:
        """All arrays, combined by a function of rows in the order of the processes.

        Few bytes are brought to all at once. Of many each process combines its own
        part, and these are brought to all: it receives each byte twice, as it must.

        Args:
          fold: `fold(rows, out)`; `out` may be one of the rows.
          out: where the result is to be, of the shape of `x` and contiguous.
        """
        found = np.empty(x.shape, x.dtype) if out is None else out
        if ways := self._ways("sum", x):
            return (yield from self._send_to_each(ways, x, found, fold))
        if x.nbytes <= FEW_BYTES:
            with scratch((self.size, *x.shape), x.dtype) as rows:
                yield from self.gathering(x, rows)
                return fold(rows, found)
        if x.size % self.size == 0:
            yield from self._combine_chunks(fold, x.reshape(-1), found.reshape(-1))
            return found
        length = -(-x.size // self.size) * self.size
        with scratch((length,), x.dtype) as parts:
            parts[: x.size], parts[x.size :] = x.reshape(-1), 0
            yield from self._combine_chunks(fold, parts, parts)
            found.reshape(-1)[...] = parts[: x.size]
        return found

    def _combine_chunks(self, fold: Callable[..., Array], x: Array, out: Array) -> Work:
        """Each process combines a part; `out` may be `x`."""
        with scratch((x.size // self.size,), x.dtype) as own:
            yield from self.reducing(fold, x.reshape(self.size, -1), own)
            yield from self._gather(self._later, own, out.reshape(self.size, -1))

    # What native code does.

    def resume(
        self, what: str, handles: Sequence[int], failed: int, statuses: int
    ) -> None:
        """Waits for requests that native code has begun.

        Args:
          failed: what MPI has given instead of success, or 0.
          statuses: the address of as many, where MPI tells of each.
        """
        mpi = world.mpi

        def work() -> Work:
            self._ask(mpi.Request.fromhandle, *[(handle,) for handle in handles])
            self._found[:] = map(mpi.Status, [None] * len(handles))
            size = mpi._sizeof(mpi.Status)
            for i, status in enumerate(self._found):
                ctypes.memmove(mpi._addressof(status), statuses + i * size, size)
            if failed:
                raise mpi.Exception(failed)
            yield
            return None

        self.finish(self._begin(Pending(what, work(), False)))
        self.handle.value = self._named

    # Starting and waiting.

    def gather(self, x: Array) -> Array:
        """The arrays of all, of one shape, along a new leading axis."""
        return self.run("for what others send to all", self.gathering(x))

    def broadcast(self, x: Array, place: int = 0) -> Array:
        """The array of the first one, or of another."""
        return self.run("for what the first one sends", self.broadcasting(x, place))

    def run(self, what: str, work: Work) -> Array:
        """The result of a work: `finish` of `start`."""
        return self.finish(self.start(what, work))

    def _begin_together(
        self, what: str, work: Work, lines: Callable[[], str] = str
    ) -> Array:
        """The result of a work by which all begin something; who is late is told."""
        pending = self.start(f"for {what}", work)
        pending.asks = f"{what} {self.members}", lines
        try:
            return self.finish(pending)
        finally:
            if pending.notified:
                processes.tell(processes.CAME, self.members)

    def start(self, what: str, work: Work, meanwhile: bool = False) -> Pending:
        """Begins a work.

        Args:
          what: for what a process waits that waits for it.
          meanwhile: something else is done before it is waited for.
        """
        if not self.handle.value:
            raise ProcessError(self.left or _explain_left(what, "a signal"))
        made = self._begin(Pending(what, work, meanwhile))
        if meanwhile and not made.done and self.size > 1:
            if world.helper is None:
                world.helper = threading.Thread(target=_advance_all, daemon=True)
                world.helper.start()
            world.busy.set()
        return made

    def _begin(self, pending: Pending) -> Pending:
        with self._lock:
            self._queue.append(pending)
            self._go_on(pending)
        return pending

    def advance(self) -> bool:
        """Goes on with what was started, in that order; is nothing left?"""
        queue = self._queue
        with self._lock:
            while queue and self._go_on(queue[0]):
                pass
            return not queue

    def _go_on(self, pending: Pending) -> bool:
        """Goes on with a work as long as its requests are done; is it at its end?

        It is begun at once, and goes on once those before it are at their end: others
        take the messages of the second step of each work in that order.
        """
        try:
            while not pending.requests or (
                self._queue[0] is pending and self._test(pending.requests, self._found)
            ):
                self._begun = pending.requests = []
                next(pending.work)
            return False
        except StopIteration as end:
            pending.end(end.value)
            self._queue.remove(pending)
        except BaseException as error:
            self._leave(pending, error)
            if not isinstance(error, Exception):  # who waits now is interrupted
                raise
        return True

    def finish(self, pending: Pending) -> Array:
        """The result of what was started, when it is there.

        Raises:
          ProcessError: one of the others has ended, or the time is over.
        """
        begun, tries = None, 0
        watched = world.busy.is_set()
        if watched:
            world.busy.clear()
        try:
            while not pending.done:
                self.advance()
                tries += 1
                if tries < _TRIES:
                    continue
                if begun is None:
                    begun = time.monotonic()
                os.sched_yield() if hasattr(os, "sched_yield") else time.sleep(0)
                if tries % _TRIES == 0:
                    self._check(pending, begun)
        except BaseException as error:
            self._leave(pending, error)
            raise
        if watched:
            queues = [each._queue for each in world.groups.values()]
            if any(left.meanwhile for queue in queues for left in queue):
                world.busy.set()
        if pending.error is not None:
            raise pending.error
        return pending.result

    def settle(self, error: BaseException) -> None:
        """Finishes all that was started, or leaves it: see `settle` of all."""
        with suppress(Exception):
            while self._queue and isinstance(error, Exception):
                self.finish(self._queue[-1])
        if self._queue:
            self._leave(self._queue[0], error)

    def _leave(self, pending: Pending, error: BaseException) -> None:
        """Ends all that was started by an error; MPI may still use its memory."""
        with self._lock:
            ours = self._explain_error(pending, error)
            if world.mpi is not None and self.size > 1 and self._queue:
                self.left = self.left or _explain_left(pending.what, ours)
                self.handle.value, world.left, cut.value = 0, True, 1
                world.retained.append([*self._queue])
            for each in self._queue:
                each.end(error=ours if each is pending else ProcessError(self.left))
            self._queue.clear()

    def _explain_error(self, pending: Pending, error: BaseException) -> BaseException:
        """An error; one of MPI's is told as ours, with what MPI says of it."""
        mpi, code = world.mpi, getattr(error, "error_code", 0)
        if mpi is None or not isinstance(error, mpi.Exception):
            return error
        if code == mpi.ERR_IN_STATUS:
            codes = [status.Get_error() for status in self._found]
            code = next(n for n in codes if n not in (mpi.SUCCESS, mpi.ERR_PENDING))
        found = ProcessError(
            f"MPI has failed in process {world.index} of {world.count}, while it was "
            f"waiting {pending.what}: {mpi.Get_error_string(code)}"
        )
        found.__cause__ = error
        return found

    def _check(self, pending: Pending, begun: float) -> None:
        processes.check(pending.what, self.members)
        now, known = time.monotonic(), world.asking
        others = [i for i in self.members if i != world.index]
        asks, lines = pending.asks or ("", str)
        idle = sum(len(each._queue) for each in world.groups.values()) < 2
        if asks and idle and not pending.notified and now - begun > _PATIENCE:
            pending.notified = True  # what was begun before it is done
            processes.tell(f"{processes.ASKS}{asks}\n{lines()}", others)
        elsewhere = [i for i in others if i in known and not known[i].of(asks)]
        lost = all(
            i in elsewhere and now - known[i].heard > processes.GRACE for i in others
        )
        if not lost and now - begun <= processes.timeout():
            return
        waits = "" if lost else f" {processes.timeout()} seconds"
        everyone = processes.list_processes(self.members)
        rows = [f"process {i} waits for {known[i].text}" for i in elsewhere]
        rest = "".join([f"\n  {line}" for row in rows for line in row.splitlines()])
        raise ProcessError(
            f"process {world.index} of {world.count} has waited{waits} "
            f"{pending.what}, in vain: not all of {everyone} came there. "
            "Do all of them run the same programs, on arrays of the same shapes? "
            f"FTRACE_DISTRIBUTED_TIMEOUT sets the time{rest}"
        )

    def agree(self, what: str, text: Callable[[], str]) -> None:
        """Returns if all have the same text; its digest is compared.

        Raises:
          ProcessError: they have not; the message shows the first lines that differ.
        """
        sha256 = import_module("hashlib").sha256  # with OpenSSL: not for one process
        rows = np.frombuffer(sha256(text().encode()).digest(), np.uint8)

        def gather(x: Array) -> Array:
            work = self._gather(self._digests, x)
            return self._begin_together(f"the others to run {what}", work, text)

        if (gather(rows) == rows).all():
            return
        written = np.frombuffer(text().encode(), np.uint8)
        sizes = gather(np.array([written.size]))
        padded = np.zeros(sizes.max(), np.uint8)
        padded[: written.size] = written
        everything = gather(padded)
        texts = [
            row[: int(n[0])].tobytes().decode()
            for row, n in zip(everything, sizes, strict=True)
        ]
        other = next(i for i, other in enumerate(texts) if other != texts[0])
        pair = [t.splitlines() for t in (texts[0], texts[other])]
        numbers = self.members[0], self.members[other]
        names = [f"process {number}" for number in numbers]
        lines = [*unified_diff(*pair, *names, n=0, lineterm="")]
        raise ProcessError(
            f"the processes disagree in {what}; each must run the same on the same "
            "shapes:\n  " + "\n  ".join(lines[:_LINES])
        )


def _explain_left(what: str, why: Any) -> str:
    """What is said of a group that was left."""
    kind = f"{type(why).__name__}: " if isinstance(why, BaseException) else ""
    text = f"{kind}{why}".split("\n  at ", 1)[0].removesuffix(": ")
    return (
        f"process {world.index} of {world.count} has left in the middle what it did "
        f"with others: it was waiting {what} ({text}). What they send could be taken "
        "for what they sent then, so start the program anew"
    )


class _Echo(Group):
    """This process in the place of each member: what would come is what it has.

    So it is where there is one; and the program of one of several can be run so, for
    the time of its own steps.
    """

    def gathering(self, x: Array, out: Array | None = None) -> Work:
        return _fill(out, np.broadcast_to(x, (self.size, *x.shape)))

    def exchanging(self, x: Array, out: Array | None = None) -> Work:
        return _fill(out, x)

    def reducing(self, fold: Callable[..., Array], x: Array, out: Array) -> Work:
        return _fill(out, x[0])

    def broadcasting(self, x: Array, place: int = 0) -> Work:
        return _fill(None, x)

    def sending(
        self, rows: Sequence[tuple[Array, int, int]],
        into: Sequence[tuple[Array, int, int]],
    ) -> Work:  # fmt: skip
        sent = {tag: row for row, _, tag in rows}
        for row, _, tag in into:
            row[...] = sent.get(tag, rows[0][0] if rows else 0)
        return _fill(None, ())

    def combining(
        self, fold: Callable[..., Array], x: Array, out: Array | None = None
    ) -> Work:
        return _fill(out, x)

    def agree(self, what: str, text: Callable[[], str]) -> None:
        """It agrees with itself."""


def _fill(out: Array | None, x: Array) -> Work:
    """A work that is done at once: an array, in `out` if that is given."""
    yield from ()
    found = np.empty_like(x) if out is None else out
    found[...] = x
    return found


def kind_of(dtype: Any) -> tuple[int, int]:
    """What `_bytes` makes of a dtype: the handle of its type, and its bytes."""
    code, size = (dtype.char, dtype.itemsize) if dtype.char in _KNOWN else ("B", 1)
    return world.mpi._handleof(world.mpi.Datatype.fromcode(code)), size


class Pairwise(NamedTuple):
    """What one does with another in a collective, in elements from where memory begins.

    Attributes:
      sent, length: where in the operand that begins which is sent, and how many it is.
      into: where in the result that begins which comes.
      own: where in the operand that begins which stays.
      retained: where in the result that begins; -1: it is combined with what comes.
    """

    sent: int
    length: int
    into: int
    own: int
    retained: int


def pairwise(
    kind: str, place: int, count: int, size: int, nbytes: int
) -> dict[int, Pairwise]:
    """What one of so many does with each other one, the next one first.

    Empty where they do not send to each other, but in rounds, or as MPI does.

    Args:
      size, nbytes: of its operand.
    """
    few = count == 2 or (kind == "gather" and (count < MANY or nbytes > SHORT))
    if count > DIRECT or not (few or kind == "all_to_all"):
        return {}
    part = size // count

    def way(other: int) -> Pairwise:
        if kind == "gather":
            return Pairwise(0, size, other * size, 0, place * size)
        if kind == "all_to_all":
            own, far = place * part, other * part
            return Pairwise(far, part, far, own, own)
        if kind == "scatter":
            return Pairwise(other * part, part, 0, place * part, -1)
        return Pairwise(0, size, 0, 0, -1)

    return {n % count: way(n % count) for n in range(place + 1, place + count)}


# Memory for a time.


@contextmanager
def scratch(shape: tuple[int, ...], dtype: Any) -> Generator[Array]:
    """An array in memory that others have had before, and that others will have.

    MPI takes 880 µs to bring 512 KB from one fresh memory to another, 44 if it knows
    both: it asks the system about each page (2 cores of a Zen 4, Open MPI 5.0.11).
    """
    nbytes = prod(shape) * dtype.itemsize
    free = world.free.setdefault(max(nbytes - 1, 1).bit_length(), [])
    memory = free.pop() if free else np.empty(1 << max(nbytes - 1, 1).bit_length(), "B")
    yield memory[:nbytes].view(dtype).reshape(shape)
    if nbytes <= _REUSED:  # not after an exception: MPI may still have it
        free.append(memory)


def _bytes(array: Array) -> Array:
    """An array as MPI takes it: contiguous, of a dtype that it knows, or of none."""
    if array.dtype.char in _KNOWN and array.flags.c_contiguous:
        return array
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _advance_all() -> None:
    """Goes on with what was started, while others compute."""
    while True:
        world.busy.wait()
        groups = [*world.groups.values()]
        left = [each for each in groups if not each.advance()]
        if not left:
            world.busy.clear()
        time.sleep(_PAUSE)
