"""Where time goes: a record of all that runs in a block, and names for parts of it.

    with ft.profile("out.json"):        open it at ui.perfetto.dev or chrome://tracing
        train()

    with ft.profile():                  prints a line for each of the user's lines
        train()

    profile of 1.04 s: compiling 815 ms, tracing 109 ms, running 12.3 ms, the rest 95 ms
      line                    time  share  times
      train.py:41 (main)    838 ms    80%      1  compiling 98%, tracing 2%
      model.py:7 (layer)   9.97 ms     1%      4  running 100%

What is recorded, of all threads of Python and of those that share kernels: tracing,
each transform, each pass of lowering, compilation, the disk cache, calls, the steps of
programs also within loops, copies, and what processes send each other. Meanwhile no
call is native, and devices wait for each step: see docs/profiling.md.

`trace`, `start_trace` and `stop_trace` are JAX's: they write into a folder what
TensorBoard finds. `TraceAnnotation` and `annotate_function` give names.

Source: the Trace Event Format, which Perfetto, Chrome and TensorBoard read.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import platform
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ContextDecorator, contextmanager
from dataclasses import field
from pathlib import Path
from time import perf_counter, strftime
from typing import Any

from ftrace.errors import DeviceError, FileFormatError
from ftrace.ground import processes, spans
from ftrace.ground.fast_dataclasses import NamedTuple, dataclass
from ftrace.ground.fork_safe import cached_property
from ftrace.ground.missing_names import tell_missing
from ftrace.ground.spans import Recorder, Span
from ftrace.ground.text_tables import Section, Tables, time_text
from ftrace.trace.tracing.tracer import aval_of
from ftrace.transforms.array_files import check_writable, read_path, replacing
from ftrace.transforms.environment import live_arrays

__all__ = [
    "ProfileData", "ProfileEvent", "ProfileOptions", "ProfilePlane", "Row",
    "StepTraceAnnotation", "TraceAnnotation", "annotate_function",
    "device_memory_profile", "profile", "save_device_memory_profile", "start_trace",
    "stop_trace", "trace",
]  # fmt: skip

_Event = dict[str, Any]
_PathLike = os.PathLike[str] | str

#: What the kinds of spans are called where their times are added up.
KINDS = {
    "trace": "tracing",
    "transform": "transforms",
    "pass": "passes",
    "compile": "compiling",
    "codegen": "compiling",
    "disk": "disk cache",
    "call": "calls",
    "eager": "eager calls",
    "run": "running",
    "copy": "copying",
}
#: Those beside what a thread of Python does, which waits meanwhile: they add no time.
PARALLEL = frozenset(("piece", "llvm", "collective"))
#: Lines of which a row names so many.
_NAMED = 3


class Row(NamedTuple):
    """What was done for a line of the user's, or for several in one kernel.

    Attributes:
      line: as text.
      seconds: that it took, without what was done for other lines meanwhile.
      share: of the whole block.
      times: how many calls and steps of programs there were.
      kinds: the seconds of each kind of work.
    """

    line: str
    seconds: float
    share: float
    times: int
    kinds: dict[str, float]

    @property
    def mostly(self) -> str:
        """The kinds that took most of it."""
        parts = sorted(self.kinds.items(), key=lambda pair: -pair[1])
        shares = [(kind, x / self.seconds) for kind, x in parts if self.seconds]
        return ", ".join(f"{kind} {x:.0%}" for kind, x in shares[:3] if x >= 0.005)


class profile(Tables):
    """A block of which it is recorded where time goes; see the module.

    Attributes:
      seconds: that the block took.
      overhead: of these, what it took to record eager calls.
      spans: all that was recorded, each with the user's lines.
      rows: what was done for each line, the longest first.

    Args:
      file: the name of the file that is written at the end of the block, also where
        that ends by an exception; ".gz" at its end compresses it. Of several processes
        each writes its own: of "out.json" "out.rank0.json" and so on. Without a file
        the summary is printed.

    Raises:
      ArgumentError: `file` is no name of a file.
      FileFormatError: it cannot be written; at the beginning of the block.
      DeviceError: the same profile is being recorded.

    Example:
      >>> f = ft.jit(lambda x: fnp.sum(x * x))
      >>> with ft.profile() as profile:  # prints a table: a row for each line
      ...     y = f(fnp.ones(1000))
      profile of ...
    """

    def __init__(self, file: _PathLike | None = None) -> None:
        usage = "with profile(): f(x), or profile('out.json')"
        named = None if file is None else read_path("profile", file, usage)
        self.file = None if named is None else _of_rank(named)
        self.spans: list[Span] = []
        self.seconds = self.overhead = 0.0
        self._recorder: Recorder | None = None
        self._threads: dict[int, str] = {}
        self._start = 0.0

    def __enter__(self) -> profile:
        if self._recorder is not None:
            raise DeviceError(
                "this profile is being recorded already; give a block within it a "
                "profile of its own"
            )
        if self.file is not None:
            check_writable(self.file)
        vars(self).pop("rows", None)
        self._recorder = Recorder()
        spans.begin(self._recorder)
        self._start = perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        recorder, self._recorder = self._recorder, None
        assert recorder is not None
        self.seconds = perf_counter() - self._start
        spans.end(recorder)
        self.overhead = recorder.overhead
        self.spans, self._threads = _with_lines(recorder.finish()), recorder.threads
        if self.file is not None:
            _write(self.file, _events(self.spans, self._threads, self._start))
        elif sys.stdout is not None:  # as it is where there is no terminal
            self.show()

    @cached_property
    def rows(self) -> list[Row]:
        found: dict[str, dict[str, float]] = {}
        times: Counter[str] = Counter()
        # Those that share kernels and loops are no threads of Python's.
        own = [
            s for s in self.spans if s.kind not in PARALLEL and self._threads[s.thread]
        ]
        for each, seconds, lines in _own_times(own):
            text = _text_of(lines)
            kind = KINDS.get(each.kind)
            if kind is not None:
                kinds = found.setdefault(text, {})
                kinds[kind] = kinds.get(kind, 0.0) + seconds
            if each.lines:
                times[text] += each.kind in ("call", "eager", "run")
        rows = [
            Row(text, sum(kinds.values()), self._share(kinds), times[text], kinds)
            for text, kinds in found.items()
        ]
        return sorted(rows, key=lambda row: -row.seconds)

    def _share(self, kinds: dict[str, float]) -> float:
        return sum(kinds.values()) / self.seconds if self.seconds else 0.0

    @property
    def kinds(self) -> dict[str, float]:
        """The seconds of each kind of work, the longest first."""
        total: dict[str, float] = {}
        for row in self.rows:
            for kind, seconds in row.kinds.items():
                total[kind] = total.get(kind, 0.0) + seconds
        return dict(sorted(total.items(), key=lambda pair: -pair[1]))

    def sections(self) -> list[Section]:
        parts = [f"{kind} {time_text(x)}" for kind, x in self.kinds.items()]
        rest = self.seconds - sum(self.kinds.values()) - self.overhead
        if self.overhead:
            parts.append(f"recording eager calls {time_text(self.overhead)}")
        parts += [f"the rest {time_text(rest)}"] if rest > 0 else []
        rows = [
            (row.line, time_text(row.seconds), f"{row.share:.0%}", str(row.times),
             row.mostly)
            for row in self.rows
        ]  # fmt: skip
        return [
            Section(
                f"profile of {time_text(self.seconds)}: {', '.join(parts)}",
                ("line", "time", "share", "times", ""), rows, range(1, 4),
                optional=(4, 3, 2),
            )
        ]  # fmt: skip


def _text_of(lines: spans.Lines) -> str:
    texts = list(dict.fromkeys(map(str, lines)))
    more = f" and {len(texts) - _NAMED} more" if len(texts) > _NAMED else ""
    return ", ".join(texts[:_NAMED]) + more if texts else "of no line"


def _with_lines(found: Iterable[Span]) -> list[Span]:
    """The spans in the order in which they began; their lines are looked up."""
    ordered = sorted(found, key=lambda s: (s.start, -s.end))
    return [each.with_lines() for each in ordered]


def _own_times(found: Sequence[Span]) -> list[tuple[Span, float, spans.Lines]]:
    """Each span with the seconds in which no other was within it, and its lines.

    Where it has none, they are those of what is around it.
    """
    own: list[list[Any]] = []
    around: dict[int, list[list[Any]]] = {}
    for each in found:
        stack = around.setdefault(each.thread, [])
        while stack and stack[-1][0].end <= each.start:
            stack.pop()
        lines: Any = each.lines
        if stack:
            stack[-1][1] -= each.end - each.start
            lines = lines or stack[-1][2]
        entry = [each, each.end - each.start, lines]
        own.append(entry)
        stack.append(entry)
    return [(each, max(seconds, 0.0), lines) for each, seconds, lines in own]


# The file.


def _of_rank(path: Path) -> Path:
    """The file of this process, where there are several."""
    if processes.count() == 1:
        return path
    name, dot, rest = path.name.partition(".")
    return path.with_name(f"{name}.rank{processes.index()}{dot}{rest}")


def _write(path: Path, events: Sequence[_Event]) -> None:
    text = json.dumps({"displayTimeUnit": "ns", "traceEvents": events})
    whole = text.encode()
    with replacing(path) as out:
        out.write(gzip.compress(whole) if path.suffix == ".gz" else whole)


def _events(
    found: Sequence[Span], threads: dict[int, str], start: float
) -> list[_Event]:
    """The spans as complete events, which nest in each thread; times are in µs."""
    several = processes.count() > 1
    start = 0.0 if several else start  # by the clock of the machine
    pid = processes.index() if several else os.getpid()
    rank = f"rank {pid} of {processes.count()} on " if several else ""
    lanes = _Lanes(threads)
    events: list[_Event] = []
    for each in found:
        begun, ended = (round((t - start) * 1e9) for t in (each.start, each.end))
        line = {"line": _text_of(each.lines)} if each.lines else {}
        events.append({
            "ph": "X", "cat": each.kind, "name": each.name,
            "ts": begun / 1e3, "dur": (ended - begun) / 1e3,
            "pid": pid, "tid": lanes.of(each),
            "args": line | {k: _as_json(value) for k, value in each.more.items()},
        })  # fmt: skip
    process = f"{rank}{platform.node()}, process {os.getpid()}"
    names = [("process_name", 0, process)]
    names += [("thread_name", tid, name) for tid, name in enumerate(lanes.names)]
    return [
        {"ph": "M", "name": kind, "ts": 0, "pid": pid, "tid": tid,
         "args": {"name": name}}
        for kind, tid, name in names
    ] + events  # fmt: skip


class _Lanes:
    """The lines of the picture: one for each thread, and for what is sent meanwhile.

    Attributes:
      names: of the lines, by their numbers.
    """

    def __init__(self, threads: dict[int, str]) -> None:
        self.names: list[str] = []
        self._threads = threads
        self._numbers: dict[Any, int] = {}
        self._sent_until: list[float] = []  # of each line of what is sent

    def of(self, each: Span) -> int:
        """The number of the line of a span."""
        if each.kind != "collective":
            name = self._threads.get(each.thread, "")
            return self._number(each.thread, name or f"worker {each.thread}")
        free = [n for n, end in enumerate(self._sent_until) if end <= each.start]
        place = free[0] if free else len(self._sent_until)
        self._sent_until[place : place + 1] = [each.end]
        return self._number(("sent", place), f"exchanges {place}")

    def _number(self, key: Any, name: str) -> int:
        if key not in self._numbers:
            self._numbers[key] = len(self.names)
            self.names.append(name)
        return self._numbers[key]


def _as_json(value: Any) -> Any:
    """A value as JSON has it: numbers that are none, and objects, as text."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return f"{value!r:.200}"


# JAX's names.


class _Traced(NamedTuple):
    """A profile that `start_trace` has begun, and its files."""

    recorder: Recorder
    start: float
    files: tuple[Path, ...]


_traces: list[_Traced] = []  # at most one


def start_trace(
    log_dir: _PathLike, create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False, profiler_options: Any = None,
) -> None:  # fmt: skip
    """From now on a profile is recorded: see the module.

    Args:
      log_dir: the folder; within it the file is
        `plugins/profile/<time>/<host>.trace.json.gz`.
      create_perfetto_link: accepted; open the file at ui.perfetto.dev.
      create_perfetto_trace: writes `perfetto_trace.json.gz` as well.
      profiler_options: see `ProfileOptions`.

    Raises:
      DeviceError: one is recorded already.
      FileFormatError: there can be no such folder, or it cannot be written.
    """
    if _traces:
        raise DeviceError(
            "a profile is being recorded already: call profiler.stop_trace() first"
        )
    session = getattr(profiler_options, "session_id", "")
    session = session or strftime("%Y_%m_%d_%H_%M_%S")
    folder = Path(log_dir, "plugins", "profile", session)
    names = [f"{platform.node()}.trace.json.gz"]
    if create_perfetto_trace or create_perfetto_link:
        names.append("perfetto_trace.json.gz")
    files = tuple(_of_rank(folder / name) for name in names)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileFormatError(
            f"a profile cannot be written to {folder} ({error.strerror})"
        ) from error
    for file in files:
        check_writable(file)
    made = _Traced(Recorder(), perf_counter(), files)
    _traces.append(made)
    spans.begin(made.recorder)


def stop_trace() -> None:
    """Writes the profile that is being recorded.

    Raises:
      DeviceError: none is.
    """
    if not _traces:
        raise DeviceError(
            "no profile is being recorded: call profiler.start_trace(folder) first"
        )
    made = _traces.pop()
    spans.end(made.recorder)
    found = _with_lines(made.recorder.finish())
    for file in made.files:
        _write(file, _events(found, made.recorder.threads, made.start))


@contextmanager
def trace(
    log_dir: _PathLike, create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False, profiler_options: Any = None,
) -> Generator[None]:  # fmt: skip
    """A block whose profile is recorded: see `start_trace`.

    Args:
      log_dir, create_perfetto_link, create_perfetto_trace, profiler_options: as there.
    """
    start_trace(log_dir, create_perfetto_link, create_perfetto_trace, profiler_options)
    try:
        yield
    finally:
        stop_trace()


class TraceAnnotation(ContextDecorator):
    """A block, or a function that it decorates, with a name."""

    def __init__(self, name: str, **kwargs: Any) -> None:
        self.name = name
        self.more = kwargs
        self._open: list[spans.span] = []

    def _recreate_cm(self) -> TraceAnnotation:
        """For each call of a function: threads may call it at the same time."""
        return type(self)(self.name, **self.more)

    def __enter__(self) -> TraceAnnotation:
        self._open.append(spans.span("annotation", self.name, None, **self.more))
        self._open[-1].__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._open.pop().__exit__(*error)

    def set_metadata(self, **kwargs: Any) -> None:
        """More that is told of the block."""
        self.more |= kwargs
        for each in self._open[-1:]:
            each.more |= kwargs

    @staticmethod
    def is_enabled() -> bool:
        """Is a profile being recorded?"""
        return bool(spans.recorders)


class StepTraceAnnotation(TraceAnnotation):
    """A block that is a step of training: `step_num=` is its number."""


def annotate_function(
    func: Callable[..., Any], name: str | None = None, **decorator_kwargs: Any
) -> Callable[..., Any]:
    """`func`, each of whose calls has a name.

    Args:
      func: the function.
      name: by default its own.
      decorator_kwargs: what is noted beside the name, as of `TraceAnnotation`.
    """
    label = name or getattr(func, "__qualname__", repr(func))
    return TraceAnnotation(label, **decorator_kwargs)(func)


@dataclass
class ProfileOptions:
    """JAX's options, of which `session_id` names the folder; the others are accepted.

    Attributes:
      session_id: the name of the folder in `plugins/profile`; by default the time.
    """

    session_id: str = ""
    host_tracer_level: int = 2
    python_tracer_level: int = 1
    duration_ms: int = 0
    start_timestamp_ns: int = 0
    enable_hlo_proto: bool = True
    include_dataset_ops: bool = True
    raise_error_on_start_failure: bool = False
    repository_path: str = ""
    advanced_configuration: dict[str, Any] = field(default_factory=dict[str, Any])


# A file, read again.


class ProfileEvent(NamedTuple):
    """A span of a profile: its name, when it was in nanoseconds, and what is known."""

    name: str
    start_ns: float
    duration_ns: float
    stats: tuple[tuple[str, Any], ...]

    @property
    def end_ns(self) -> float:
        return self.start_ns + self.duration_ns


class _Line(NamedTuple):
    """What one thread did."""

    name: str
    events: tuple[ProfileEvent, ...]


class ProfilePlane(NamedTuple):
    """What one process did."""

    name: str
    lines: tuple[_Line, ...]
    stats: tuple[tuple[str, Any], ...] = ()


class ProfileData:
    """The profile in a file that `profile` or `trace` has written.

    Attributes:
      planes: its processes, each with a line per thread and the events of that.

    Raises:
      FileFormatError: it is no such file.
    """

    def __init__(self, whole: bytes) -> None:
        try:
            text = gzip.decompress(whole) if whole[:2] == b"\x1f\x8b" else whole
            events: list[_Event] = json.loads(text)["traceEvents"]
            self.planes = _planes(events)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise FileFormatError(
                f"no profile: {error}; one that profiler.trace or profile has written "
                "was expected"
            ) from error

    @staticmethod
    def from_file(file: _PathLike) -> ProfileData:
        """That in a file."""
        try:
            return ProfileData(Path(file).read_bytes())
        except OSError as error:
            raise FileFormatError(f"{file} cannot be read: {error.strerror}") from error

    @staticmethod
    def from_serialized_xspace(whole: bytes) -> ProfileData:
        """That in the bytes of a file."""
        return ProfileData(whole)

    def find_plane_with_name(self, name: str) -> ProfilePlane | None:
        """The process of that name, if there is one."""
        return next((plane for plane in self.planes if plane.name == name), None)


def _planes(events: Sequence[_Event]) -> tuple[ProfilePlane, ...]:
    names = {
        (e["name"], e["pid"], e["tid"]): e["args"]["name"]
        for e in events
        if e["ph"] == "M"
    }
    lines: dict[int, dict[int, list[ProfileEvent]]] = {}
    for e in events:
        if e["ph"] == "X":
            times, stats = (e["ts"] * 1e3, e["dur"] * 1e3), tuple(e["args"].items())
            row = lines.setdefault(e["pid"], {}).setdefault(e["tid"], [])
            row.append(ProfileEvent(e["name"], *times, stats))
    return tuple(
        ProfilePlane(
            names["process_name", pid, 0],
            tuple([
                _Line(names["thread_name", pid, tid], tuple(row))
                for tid, row in rows.items()
            ]),
        )
        for pid, rows in lines.items()
    )  # fmt: skip


# What is held in memory, in the format of pprof: github.com/google/pprof, profile.proto


def device_memory_profile(backend: str | None = None) -> bytes:
    """The arrays that are alive, by type and device, as a file for pprof.

    Args:
      backend: those of one platform; None is all.
    """
    arrays = live_arrays(backend)
    kinds = Counter([f"{aval_of(x)!r} on {x.device}" for x in arrays])
    nbytes: Counter[str] = Counter()
    for x in arrays:
        nbytes[f"{aval_of(x)!r} on {x.device}"] += x.nbytes
    texts = ["", "allocations", "count", "space", "bytes", *kinds]
    types = [_field(1, _field(1, a) + _field(2, a + 1)) for a in (1, 3)]
    rows: list[bytes] = []
    for number, (kind, count) in enumerate(kinds.items(), 1):
        values = _number(count) + _number(nbytes[kind])
        rows += [
            _field(2, _field(1, _number(number)) + _field(2, values)),
            _field(4, _field(1, number) + _field(4, _field(1, number))),
            _field(5, _field(1, number) + _field(2, texts.index(kind))),
        ]
    table = [_field(6, text.encode()) for text in texts]
    return gzip.compress(b"".join([*types, *rows, *table]))


def save_device_memory_profile(filename: _PathLike, backend: str | None = None) -> None:
    """Writes `device_memory_profile`; `pprof -http=: FILE` shows it.

    Args:
      filename: the file.
      backend: as there.

    Raises:
      FileFormatError: the file cannot be written.
    """
    what = "save_device_memory_profile"
    with replacing(read_path(what, filename, f"{what}('memory.prof')")) as file:
        file.write(device_memory_profile(backend))


def _number(value: int) -> bytes:
    """A number as protocol buffers have it: seven bits in each byte."""
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def _field(number: int, value: int | bytes) -> bytes:
    """A field of a message: a number, or bytes behind their length."""
    if isinstance(value, int):
        return _number(number << 3) + _number(value)
    return _number(number << 3 | 2) + _number(len(value)) + value


tell_missing(__name__)
