"""Scratch memory of kernels, kept warm from one run to the next.

    take_scratch(bytes) -> address        aligned to a cache line; null without memory
    give_scratch(address)

Fresh pages cost more than what a block of a matrix product computes with them, so what
is given back waits in one of a few places. A place holds a block or null and is emptied
by exchanging it for null: no lock is held, and nothing is lost in a forked child. Each
block begins with its size and with the address that `malloc` gave.
"""

from __future__ import annotations

import sys
from functools import lru_cache

from ftrace.devices.llvm.compiling.compile import Code, emit_own, link
from ftrace.devices.llvm.ir.symbols import GIVE, TAKE


def _text() -> str:
    from ftrace.devices.llvm.runtime.scratch_text import scratch_ir

    return scratch_ir()


@lru_cache(maxsize=1)
def scratch() -> Code:
    """The functions, compiled at the first kernel that needs them."""
    return link(emit_own("scratch", (sys.platform,), _text), (TAKE, GIVE))
