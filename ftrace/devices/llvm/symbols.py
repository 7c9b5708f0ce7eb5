"""Names of functions that the code of kernels calls and that stand elsewhere."""

from __future__ import annotations

from typing import Final

#: What the names of all of them begin with.
PREFIX: Final = "ftrace_"
#: What long kernels call, of the runner: shall this one stop? It found no memory.
POLL: Final = f"{PREFIX}poll"
STOP: Final = f"{PREFIX}stop"
