"""Names for stretches of a program, as JAX's profiler has them.

No profiler of ours reads them yet: `ft.config(debug=2)` tells of each kernel how long
it took, `ft.counters()` of all.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ContextDecorator
from typing import Any, NoReturn


class TraceAnnotation(ContextDecorator):
    """A block, or a function that it decorates, with a name."""

    def __init__(self, name: str, **kwargs: Any) -> None:
        self.name = name
        self.more = kwargs

    def __enter__(self) -> TraceAnnotation:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class StepTraceAnnotation(TraceAnnotation):
    """A block that is a step of training: `step_num=` is its number."""


def annotate_function(
    func: Callable[..., Any], name: str | None = None, **decorator_kwargs: Any
) -> Callable[..., Any]:
    """`func`, each of whose calls has a name."""
    label = name or getattr(func, "__qualname__", repr(func))
    return TraceAnnotation(label, **decorator_kwargs)(func)


_MISSING = (
    "ProfileData", "ProfileEvent", "ProfileOptions", "ProfilePlane",
    "device_memory_profile", "register_subprocess", "save_device_memory_profile",
    "start_server", "start_trace", "stop_server", "stop_trace", "trace",
)  # fmt: skip


def __getattr__(name: str) -> NoReturn:
    told = ""
    if name in _MISSING:
        told = (
            f": JAX's profiler.{name}: not there yet; ft.config(debug=2) tells of each "
            "kernel that runs, ft.counters() of all"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{told}")
