"""Names for stretches of a program, as JAX's profiler has them.

No profiler of ours reads them yet: `ft.config(debug=2)` tells of each kernel how long
it took, `ft.counters()` of all.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ContextDecorator
from typing import Any

from ftrace.ground.missing_names import tell_missing


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


tell_missing(__name__)
