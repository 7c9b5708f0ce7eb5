"""The processes of one program: the ranks of MPI's world, from `join` to `leave`.

MPI starts them, numbers them and carries their bytes, by way of mpi4py: nothing of that
is done here. What they send each other stands in `process_groups`; here, what is to
happen where a process ends before its time. A process that ends by an exception tells
the others, which raise it with its name; MPI ends those that do not hear.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy

from ftrace.errors import DeviceError, MissingExtraError, ProcessError
from ftrace.ground import settings, tracebacks
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.ground.fork_safe import fresh_after_fork

np: Any = numpy  # whose stubs leave too much unknown

#: Variables by which a launcher of MPI tells a process how many there are.
_LAUNCHED = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK", "MPI_LOCALNRANKS")
#: And which one it is.
_NUMBERS = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")
#: What MPI is set to where the user has not: up to so many bytes a message in shared
#: memory goes with its announcement. 4 to 16 KB between two take 1.1 to 3.4 µs so, and
#: 3.4 to 4.6 with the 4 KB of Open MPI 5.0.11 (Zen 4); other MPIs know no such name.
_SETTINGS = {"OMPI_MCA_btl_sm_eager_limit": "32768"}
#: Seconds for which one that has ended waits for the others to hear of it, and in which
#: what it had sent before must have come.
GRACE = 3.0


class _Asking(NamedTuple):
    """What a process has told that waits for others to begin something with it."""

    text: str
    heard: float

    def of(self, asks: str) -> bool:
        return bool(asks) and self.text.startswith(f"{asks}\n")


class _World:
    """The state of this process.

    Attributes:
      index, count: its number, and how many there are.
      mpi: `mpi4py.MPI`, where there are several.
      native: the same for native code, where that may call it.
      notes: the communicator on which processes tell that they end.
      rendezvous: the one on which those meet who become a group.
      ended: what those that have ended told, and when it was heard.
      asking: what those told that wait for others to begin something with them.
      groups: of those who send each other something, by their numbers.
      joined: has `join` been called?
      helper: the thread that looks at what was started, once there is one.
      left: was anything left of a program whose memory is not kept yet?
      free: memory that nobody has now, by the logarithm of its size.
      busy: is set while something is under way that nobody waits for.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """As before `join`: one process, alone."""
        self.index, self.count = 0, 1
        self.mpi: Any = None
        self.native: Native | None = None
        self.notes: Any = None
        self.rendezvous: Any = None
        self.ended: dict[int, tuple[str, float]] = {}
        self.asking: dict[int, _Asking] = {}
        self.groups: dict[tuple[int, ...], Any] = {}
        self.joined = False
        self.hook: Any = None
        self.retained: list[Any] = []  # what MPI may still read
        self.helper: Any = None
        self.left = False
        self.free: dict[int, list[Any]] = {}
        self.busy = fresh_after_fork(threading.Event())


world = _World()


def index() -> int:
    """The number of this process."""
    return world.index


def count() -> int:
    """How many processes there are."""
    return world.count


def is_joined() -> bool:
    return world.joined


def is_launched() -> bool:
    """Has a launcher of MPI started this process?"""
    return any(name in os.environ for name in _LAUNCHED)


def join(
    wanted: int | None = None, number: int | None = None, seconds: int | None = None
) -> None:
    """Makes the ranks of MPI's world one system. All of them must call it.

    Args:
      wanted: how many there are to be, if that is known.
      number: which one this is to be.
      seconds: for which the others are waited for; None is `distributed_timeout`.
        A process that has waited so long ends.

    Raises:
      MissingExtraError: mpi4py, or an MPI library, is missing.
      DeviceError: there are not as many processes.
    """
    if is_launched():
        with _end_after(timeout() if seconds is None else seconds):
            mpi = _load()
            ranks = mpi.COMM_WORLD
            world.index, world.count = ranks.Get_rank(), ranks.Get_size()
            if world.count > 1:
                world.notes, world.rendezvous = ranks.Dup(), ranks.Dup()
        if world.count > 1:
            world.mpi, world.native = mpi, _native(mpi)
            world.hook, sys.excepthook = sys.excepthook, _end
            atexit.register(_leave_at_exit)
    got = world.index, world.count
    if got != (world.index if number is None else number, wanted or world.count):
        world.index, world.count = 0, 1
        raise DeviceError(
            f"distributed.initialize: this is process {got[0]} of {got[1]}, where "
            f"process {number} of {wanted} was asked for. Processes are started by "
            f"MPI: pip install 'ftrace[mpi]', and then mpirun -n {wanted} python …"
        )
    world.joined = True


#: MPI begins within one call, in which Python does not run: another program looks at
#: the clock. It ends when this one has closed its input, or has ended.
_WATCH = """
import os, sys, threading
seconds, process, text = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
begun = threading.Thread(target=sys.stdin.read, daemon=True)
begun.start()
begun.join(seconds)
if begun.is_alive():
    sys.stderr.write(text)
    sys.stderr.flush()
    os.kill(process, 9)
os._exit(0)
"""


@contextmanager
def _end_after(seconds: int) -> Generator[None]:
    """A block of which this process is ended if it takes longer."""
    known = [os.environ[name] for name in _NUMBERS if name in os.environ]
    text = (
        f"process {known[0] if known else os.getpid()} ends: ProcessError: it has "
        f"waited {seconds} seconds in distributed.initialize, in vain: not all "
        "processes came there. Do all of them run the same program? "
        "FTRACE_DISTRIBUTED_TIMEOUT, or initialization_timeout, sets the time\n"
    )
    run = import_module("subprocess")
    words = [sys.executable, "-S", "-E", "-c", _WATCH, f"{seconds}", f"{os.getpid()}"]
    with run.Popen([*words, text], stdin=run.PIPE):  # at the end its input is closed
        yield


def _load() -> Any:
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    try:
        return import_module("mpi4py.MPI")
    except (ImportError, RuntimeError) as error:
        raise MissingExtraError(
            "distributed.initialize: several processes need mpi4py and an MPI library, "
            f"which the extra has: pip install 'ftrace[mpi]' ({error})"
        ) from error


# The end.


def _leave_at_exit() -> None:
    """`leave`; MPI ends those that do not come, for whom it would wait for ever."""
    try:
        leave()
    except ProcessError as error:
        _end(ProcessError, error, error.__traceback__)


def leave() -> None:
    """Leaves the others, once all are done; the first ones wait.

    Raises:
      ProcessError: not all came within the time.
    """
    atexit.unregister(_leave_at_exit)
    if world.mpi is not None:
        tell("left: its program has ended")
        deadline = time.monotonic() + timeout()
        while len(world.ended) < world.count - 1:
            if time.monotonic() > deadline:
                missing = {*range(world.count)} - {world.index, *world.ended}
                raise ProcessError(
                    f"process {world.index} of {world.count} is at its end, and has "
                    f"waited {timeout()} seconds for {list_processes(missing)}, in vain"
                )
            listen()
            time.sleep(1e-3)
        sys.excepthook = world.hook
    retained = world.retained
    world.clear()
    world.retained = retained


def _end(kind: Any, error: Any, traceback: Any) -> None:
    """Instead of `sys.excepthook`: the others are told of an exception, too."""
    format_exception = import_module("traceback").format_exception
    with tracebacks.fold_frames(None if tracebacks.shows_all() else error):
        text = "".join(format_exception(kind, error, error.__traceback__))
    sys.stderr.write(f"process {world.index} of {world.count} ends:\n{text}")
    reason = str(error).split("\n  at ", 1)[0]
    tell(f"ended by {kind.__name__}: {reason}")
    deadline = time.monotonic() + GRACE
    while len(world.ended) < world.count - 1 and time.monotonic() < deadline:
        listen()
        time.sleep(1e-2)
    sys.stdout.flush()
    sys.stderr.flush()
    # Where the network is cut MPI tells nobody, and does not come back.
    late = threading.Timer(GRACE, os._exit, (1,))
    late.daemon = True
    late.start()
    world.mpi.COMM_WORLD.Abort(1)


def tell(text: str, others: Sequence[int] | None = None) -> None:
    """Tells others, or all, that this process ends, or for what it waits."""
    note = np.frombuffer(text.encode()[:2000], np.uint8)
    for other in range(world.count) if others is None else others:
        if other != world.index:
            world.retained.append((world.notes.Isend(note, other), note))


#: How a note begins by which a process asks others to come, and one that they came.
ASKS, CAME = "asks: ", "came"


def listen() -> None:
    """Reads what others have told."""
    status = world.mpi.Status()
    while world.notes.Iprobe(status=status):
        note, source = np.empty(status.Get_count(), np.uint8), status.Get_source()
        world.notes.Recv(note, source)
        text = note.tobytes().decode(errors="replace")
        if text == CAME:
            world.asking.pop(source, None)
        elif text.startswith(ASKS):
            world.asking[source] = _Asking(text.removeprefix(ASKS), time.monotonic())
        else:
            world.ended[source] = text, time.monotonic()


def check(what: str = "for the others", members: Sequence[int] | None = None) -> None:
    """Raises if another process has ended: of these, or of all.

    Raises:
      ProcessError: one has; the message has its name and exception.
    """
    if world.mpi is None:
        return
    listen()
    now = time.monotonic()
    for other in range(world.count) if members is None else members:
        text, heard = world.ended.get(other, ("", now))
        if text and (not text.startswith("left") or now - heard > GRACE):
            raise ProcessError(
                f"process {other} of {world.count} {text}; process {world.index} "
                f"was waiting {what}"
            )


def list_processes(numbers: Any) -> str:
    return "process " + ", ".join(map(str, sorted(numbers)))


def timeout() -> int:
    return settings.current().distributed_timeout


# What native code needs to know.


class Native(NamedTuple):
    """MPI as native code calls it.

    Attributes:
      send, receive, test: the addresses of MPI_Isend, MPI_Irecv and MPI_Testall.
      request, status: the bytes of a handle of a request, and of a status.
    """

    send: int
    receive: int
    test: int
    request: int
    status: int


def native() -> Native | None:
    """None where MPI is not found, or not every thread may call it."""
    return world.native


def _native(mpi: Any) -> Native | None:
    if mpi.Query_thread() < mpi.THREAD_MULTIPLE:
        return None
    try:
        library = ctypes.CDLL(mpi.__file__)  # finds what it is linked with
        calls = library.MPI_Isend, library.MPI_Irecv, library.MPI_Testall
    except (AttributeError, OSError):
        return None
    send, receive, test = [ctypes.cast(f, ctypes.c_void_p).value or 0 for f in calls]
    sizes = mpi._sizeof(mpi.Request), mpi._sizeof(mpi.Status)
    return Native(send, receive, test, *sizes)
