"""A run that outlives its cases: what crashes, or never ends, is named and left out.

The cases run in a process of their own, which says in a file which one it is at. Where
it dies, another one goes on without that case; what JAX gave before is in the record.
"""

from __future__ import annotations

import faulthandler
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

#: A case that takes so many seconds never ends.
LIMIT = 120
#: So many cases may kill their process before it is no longer their fault.
DEATHS = 25
#: The file of the process that runs the cases, and the cases that it leaves out.
AT, LEFT_OUT = "DIFFERENTIAL_AT", "DIFFERENTIAL_LEFT_OUT"


def watched() -> bool:
    """Is this the process that runs the cases?"""
    return AT in os.environ


def watch(arguments: Sequence[str]) -> int:
    """Runs the cases in a process, and again without those that end it."""
    left_out: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder, "case")
        while True:
            environ = os.environ | {AT: str(at), LEFT_OUT: " ".join(left_out)}
            command = [sys.executable, "-m", "tests.differential", *arguments]
            code = subprocess.run(command, env=environ, check=False).returncode
            if not at.exists() or len(left_out) == DEATHS:
                return code
            left_out.append(at.read_text())
            at.unlink()


def left_out() -> list[str]:
    """The cases that ended a process before."""
    return os.environ.get(LEFT_OUT, "").split()


def enter(case: str) -> None:
    """From here on it is this case that ends the process."""
    if watched():
        Path(os.environ[AT]).write_text(case)
        faulthandler.dump_traceback_later(LIMIT, exit=True)


def leave() -> None:
    """No case runs any more."""
    if watched():
        faulthandler.cancel_dump_traceback_later()
        Path(os.environ[AT]).unlink(missing_ok=True)
