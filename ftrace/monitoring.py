"""Listeners that are told what happens: JAX's `monitoring`.

    def listener(event, duration, **more): ...

    monitoring.register_event_duration_secs_listener(listener)

ftrace tells of each trace and each compilation of a jitted function how long it took,
under JAX's names (`TRACED`, `COMPILED`), with `fun_name`. Users may record events of
their own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

from ftrace.errors import ValueRangeError
from ftrace.ground import settings
from ftrace.ground.missing_names import tell_missing
from ftrace.ground.spans import span

Listener = Callable[..., None]

TRACED = "/jax/core/compile/jaxpr_trace_duration"
COMPILED = "/jax/core/compile/backend_compile_duration"

_KINDS = "event", "duration", "time_span", "scalar"
_listeners: dict[str, list[Listener]] = {kind: [] for kind in _KINDS}


def _tell(kind: str, *said: Any, **more: Any) -> None:
    for listener in list(_listeners[kind]):
        listener(*said, **more)


def record_event(event: str, **kwargs: str | int) -> None:
    """Tells that something happened: listeners get (event, **kwargs).

    Args:
      event: its name.
      kwargs: what else is told.
    """
    _tell("event", event, **kwargs)


def record_event_duration_secs(
    event: str, duration: float, **kwargs: str | int
) -> None:
    """Tells how long something took: listeners get (event, seconds, **kwargs).

    Args:
      event: its name.
      duration: in seconds.
      kwargs: what else is told.
    """
    _tell("duration", event, duration, **kwargs)


def record_event_time_span(
    event: str, start_time: float, end_time: float, **kwargs: str | int
) -> None:
    """Tells from when to when: listeners get (event, start, end, **kwargs).

    Args:
      event: its name.
      start_time, end_time: in seconds.
      kwargs: what else is told.
    """
    _tell("time_span", event, start_time, end_time, **kwargs)


def record_scalar(event: str, value: float, **kwargs: str | int) -> None:
    """Tells a number: listeners get (event, value, **kwargs).

    Args:
      event: its name.
      value: the number.
      kwargs: what else is told.
    """
    _tell("scalar", event, value, **kwargs)


def register_event_listener(callback: Listener) -> None:
    """From now on `callback` is told of events."""
    _listeners["event"].append(callback)


def register_event_duration_secs_listener(callback: Listener) -> None:
    """From now on `callback` is told how long things take."""
    _listeners["duration"].append(callback)


def register_event_time_span_listener(callback: Listener) -> None:
    """From now on `callback` is told of spans of time."""
    _listeners["time_span"].append(callback)


def register_scalar_listener(callback: Listener) -> None:
    """From now on `callback` is told of numbers."""
    _listeners["scalar"].append(callback)


def _unregister(kind: str, callback: Listener) -> None:
    if callback not in _listeners[kind]:
        raise ValueRangeError(
            f"monitoring: {callback!r:.60} is no listener of this kind of event"
        )
    _listeners[kind].remove(callback)


def unregister_event_listener(callback: Listener) -> None:
    """`callback` is told of events no more; ValueRangeError if it was not."""
    _unregister("event", callback)


def unregister_event_duration_listener(callback: Listener) -> None:
    """`callback` is told of durations no more; ValueRangeError if it was not."""
    _unregister("duration", callback)


def unregister_event_time_span_listener(callback: Listener) -> None:
    """`callback` is told of spans no more; ValueRangeError if it was not."""
    _unregister("time_span", callback)


def unregister_scalar_listener(callback: Listener) -> None:
    """`callback` is told of numbers no more; ValueRangeError if it was not."""
    _unregister("scalar", callback)


def clear_event_listeners() -> None:
    """Nobody is told of anything from now on."""
    for listeners in _listeners.values():
        listeners.clear()


@contextmanager
def stage(
    event: str, done: str, name: str, took: Callable[[float], object]
) -> Generator[None]:
    """A block that is a stage of compilation of a function; its end is told.

    Args:
      event: the event.
      done: what the line says that `log_compiles` asks for.
      name: of the function.
      took: is told how many seconds it took.
    """
    start = perf_counter()
    with span("trace" if event == TRACED else "compile", name, None):
        yield
    seconds = perf_counter() - start
    took(seconds)
    record_event_duration_secs(event, seconds, fun_name=name)
    if settings.current().log_compiles:
        sys.stderr.write(f"ftrace: {done} {name} in {seconds:.6f} s\n")


tell_missing(__name__)
