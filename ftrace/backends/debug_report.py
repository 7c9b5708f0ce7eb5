"""What a device tells on the standard error stream when `debug` is set.

From level 1 on a line per kernel that is compiled, with the user's lines that it
computes; from level 2 on a line per step that is run, with its time; from level 3 on
also the kernels and their sources. Those who record a profile are told of all that.
"""

from __future__ import annotations

import sys

from ftrace.ground import settings
from ftrace.ground.spans import note, recorders
from ftrace.lower import program as prog


def report_compiled(
    device: str, step: prog.RunKernel, seconds: float, source: str
) -> None:
    """Tells of a kernel that was compiled; from level 1 on."""
    level = settings.current().debug
    if level < 1:
        return
    lines = sorted({origin.describe() for origin in step.info.origins})
    tell(f"{device}: compiled {step.info.name} {seconds * 1e3:.2f} ms {lines}")
    if level >= 3:
        tell(f"{step.kernel}\n{source}")


def report_run(device: str, step: prog.Step, start: float, end: float) -> None:
    """Tells of a step that was run; from level 2 on.

    Args:
      start, end: when, by `time.perf_counter`.
    """
    name, seconds = prog.name_of(step), end - start
    note("run", name, start, end, prog.lines_of(step), {"device": device}, step=step)
    if settings.current().debug < 2:
        return
    microseconds = f"{seconds * 1e6:.1f} us"
    if not isinstance(step, prog.RunKernel):
        tell(f"{device}: ran {name} in {microseconds}")
        return
    info = step.info
    tell(
        f"{device}: ran {name} in {microseconds}, "
        f"{info.bytes / seconds / 1e9:.2f} GB/s, "
        f"{info.operations / seconds / 1e9:.2f} G operations/s"
    )


def report_exchange(step: prog.RunExchange, began: float, ended: float) -> None:
    """Tells of what was sent meanwhile; from level 2 on.

    Args:
      began, ended: when, by `time.perf_counter`.
    """
    if not recorders and settings.current().debug < 2:
        return
    what = prog.describe(step).split(" ", 1)[1]
    note("collective", what, began, ended, prog.lines_of(step))
    if settings.current().debug >= 2:
        tell(f"sent {what} in {(ended - began) * 1e6:.1f} us")


def tell(text: str) -> None:
    sys.stderr.write(f"{text}\n")
