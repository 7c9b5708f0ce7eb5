"""What a device tells on the standard error stream when `debug` is set.

From level 1 on a line per kernel that is compiled, with the user's lines that it
computes; from level 2 on a line per step that is run, with its time; from level 3 on
also the kernels and their sources. A profile that is being recorded is told instead.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

from ftrace.ground import settings
from ftrace.lower.program import RunExchange, RunKernel, Step, describe

#: Those who record a profile: they get what happened, its name and its seconds.
listeners: Final[list[Callable[..., None]]] = []


def report_compiled(device: str, step: RunKernel, seconds: float, source: str) -> None:
    """Tells of a kernel that was compiled; from level 1 on."""
    level = settings.current().debug
    if level < 1:
        return
    for listener in listeners:
        listener("compile", step.info.name, seconds, device=device)
    if listeners:
        return
    lines = sorted({origin.describe() for origin in step.info.origins})
    tell(f"{device}: compiled {step.info.name} {seconds * 1e3:.2f} ms {lines}")
    if level >= 3:
        tell(f"{step.kernel}\n{source}")


def report_run(device: str, step: Step, seconds: float) -> None:
    """Tells of a step that was run; from level 2 on."""
    if settings.current().debug < 2:
        return
    name = step.info.name if isinstance(step, RunKernel) else describe(step)
    for listener in listeners:
        listener("run", name, seconds, device=device)
    if listeners:
        return
    microseconds = f"{seconds * 1e6:.1f} us"
    if not isinstance(step, RunKernel):
        tell(f"{device}: ran {name} in {microseconds}")
        return
    info = step.info
    tell(
        f"{device}: ran {name} in {microseconds}, "
        f"{info.bytes / seconds / 1e9:.2f} GB/s, "
        f"{info.operations / seconds / 1e9:.2f} G operations/s"
    )


def report_exchange(step: RunExchange, began: float, ended: float) -> None:
    """Tells of what was sent meanwhile; from level 2 on.

    Args:
      began, ended: when, by `time.perf_counter`.
    """
    if settings.current().debug < 2:
        return
    what, seconds = describe(step).split(" ", 1)[1], ended - began
    for listener in listeners:
        listener("exchange", what, seconds, ended=ended)
    if not listeners:
        tell(f"sent {what} in {seconds * 1e6:.1f} us")


def tell(text: str) -> None:
    sys.stderr.write(f"{text}\n")
