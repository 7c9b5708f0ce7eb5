"""Cold starts: tracing, compiling and running for the first time, in new processes.

"first jit" is a whole process up to the result of its first tiny program, with all
imports; the other programs are timed after that.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.cold import PROGRAMS, in_new_process
from benchmarks.row import Family

FAMILY = Family("cold start")


def without_cache(program: str) -> Callable[[Any], Callable[[], float]]:
    return lambda library: lambda: in_new_process(library.name, program, None)


def with_warm_cache(program: str) -> Callable[[Any], Callable[[], float]]:
    """The first process fills a new folder; those that are timed find it full."""

    def clock(library: Any) -> Callable[[], float]:
        folder = Path(tempfile.mkdtemp(prefix="ftrace-benchmarks-"))
        in_new_process(library.name, program, folder)

        def timed() -> float:
            return in_new_process(library.name, program, folder)

        weakref.finalize(timed, shutil.rmtree, folder, ignore_errors=True)
        return timed

    return clock


FAMILY.clocked("import", without_cache("import"), shared=("jax", "torch"))
for program in ("first jit", *PROGRAMS):
    FAMILY.clocked(f"{program}, no disk cache", without_cache(program))
    FAMILY.clocked(f"{program}, warm disk cache", with_warm_cache(program))
