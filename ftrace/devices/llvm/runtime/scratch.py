"""Scratch memory of kernels, kept warm from one run to the next.

    take_scratch(bytes) -> address        aligned to a cache line; null without memory
    give_scratch(address)

Fresh pages cost more than what a block of a matrix product computes with them, so what
is given back waits in one of a few places. A place holds a block or null and is emptied
by exchanging it for null: no lock is held, and nothing is lost in a forked child. Each
block begins with its size and with the address that `malloc` gave.

Behind a fence (see `ftrace/fence.py`) each block has pages of its own, and the next one
is not there: no more than a cache line may lie between.
"""

from __future__ import annotations

import sys
from functools import lru_cache, partial

from ftrace import fence
from ftrace.devices.llvm.compiling.compile import Code, emit_own, link
from ftrace.devices.llvm.ir.symbols import GIVE, TAKE


def _text(fenced: bool) -> str:
    from ftrace.devices.llvm.runtime import scratch_text

    return scratch_text.fenced_scratch_ir() if fenced else scratch_text.scratch_ir()


@lru_cache(maxsize=1)
def scratch() -> Code:
    """The functions, compiled at the first kernel that needs them."""
    fenced = fence.ON
    text = emit_own("scratch", (sys.platform, fenced), partial(_text, fenced))
    return link(text, (TAKE, GIVE))
