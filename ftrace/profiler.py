"""Records of a run in JAX's files, and names for stretches of a program.

    with profiler.trace("/tmp/run"):
        with profiler.TraceAnnotation("step"):
            train()

writes `/tmp/run/plugins/profile/<time>/<host>.trace.json.gz` with the blocks that have
names, the traces and compilations of jitted functions, and each kernel that ran; while
it is recorded programs run step by step, and wait for each. What processes send each
other is a line of its own, from the start to the end, beside the kernels that ran.

Source: the Trace Event Format, which Perfetto, Chrome and TensorBoard read.
"""

from __future__ import annotations

import gzip
import json
import os
import platform
import threading
from collections.abc import Callable, Generator
from contextlib import ContextDecorator, contextmanager
from pathlib import Path
from time import perf_counter, strftime
from typing import Any

from ftrace import monitoring
from ftrace.backends import debug_report
from ftrace.errors import DeviceError
from ftrace.ground.missing_names import tell_missing
from ftrace.ground.settings import config, current

_Event = dict[str, Any]


class _Recording:
    """The events of a profile that is being recorded."""

    def __init__(self, log_dir: os.PathLike[str] | str, perfetto: bool) -> None:
        self.folder = Path(log_dir, "plugins", "profile", strftime("%Y_%m_%d_%H_%M_%S"))
        self.names = [f"{platform.node()}.trace.json.gz"]
        self.names += ["perfetto_trace.json.gz"] if perfetto else []
        self.debug = current().debug
        self.events: list[_Event] = []

    def add(
        self, category: str, name: str, seconds: float, ended: float | None = None,
        **more: Any,
    ) -> None:  # fmt: skip
        """What ends now, or has ended then: that is beside what a thread does."""
        start = ((ended or perf_counter()) - seconds) * 1e6
        self.events.append({
            "ph": "X", "cat": category, "name": name, "ts": start, "dur": seconds * 1e6,
            "pid": os.getpid(), "tid": 0 if ended else threading.get_ident(),
            "args": more,
        })  # fmt: skip

    def told(self, event: str, duration: float, **more: Any) -> None:
        self.add("compile", event, duration, **more)

    def write(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"displayTimeUnit": "ns", "traceEvents": self.events},
                          default=str)  # fmt: skip
        for name in self.names:
            (self.folder / name).write_bytes(gzip.compress(text.encode()))


_recordings: list[_Recording] = []  # at most one


def start_trace(
    log_dir: os.PathLike[str] | str, create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False, profiler_options: Any = None,
) -> None:  # fmt: skip
    """From now on a profile is recorded: see the module.

    Args:
      log_dir: the folder, made when the profile is written.
      create_perfetto_link: accepted; open the file at ui.perfetto.dev.
      create_perfetto_trace: writes `perfetto_trace.json.gz` as well.
      profiler_options: accepted, without effect.

    Raises:
      DeviceError: one is recorded already.
    """
    if _recordings:
        raise DeviceError(
            "a profile is being recorded already: call profiler.stop_trace() first"
        )
    made = _Recording(log_dir, create_perfetto_trace or create_perfetto_link)
    _recordings.append(made)
    debug_report.listeners.append(made.add)
    monitoring.register_event_duration_secs_listener(made.told)
    config.update("debug", max(made.debug, 2))


def stop_trace() -> None:
    """Writes the profile that is being recorded.

    Raises:
      DeviceError: none is.
    """
    if not _recordings:
        raise DeviceError(
            "no profile is being recorded: call profiler.start_trace(folder) first"
        )
    made = _recordings.pop()
    config.update("debug", made.debug)
    debug_report.listeners.remove(made.add)
    monitoring.unregister_event_duration_listener(made.told)
    made.write()


@contextmanager
def trace(
    log_dir: os.PathLike[str] | str, create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False, profiler_options: Any = None,
) -> Generator[None]:  # fmt: skip
    """A block whose profile is recorded: see `start_trace`."""
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
        self.starts: list[float] = []

    def __enter__(self) -> TraceAnnotation:
        self.starts.append(perf_counter())
        return self

    def __exit__(self, *_: object) -> None:
        start = self.starts.pop()
        for recording in _recordings:
            seconds = perf_counter() - start
            recording.add("annotation", self.name, seconds, **self.more)


class StepTraceAnnotation(TraceAnnotation):
    """A block that is a step of training: `step_num=` is its number."""


def annotate_function(
    func: Callable[..., Any], name: str | None = None, **decorator_kwargs: Any
) -> Callable[..., Any]:
    """`func`, each of whose calls has a name."""
    label = name or getattr(func, "__qualname__", repr(func))
    return TraceAnnotation(label, **decorator_kwargs)(func)


tell_missing(__name__)
