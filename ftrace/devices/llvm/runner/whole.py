"""The text of the whole runner, which is seldom made: its code is kept on disk."""

from __future__ import annotations

from ftrace.devices.llvm.runner.chunks import chunks_ir
from ftrace.devices.llvm.runner.loops import loops_ir
from ftrace.devices.llvm.runner.signals import signals_ir
from ftrace.devices.llvm.runner.stacks import stacks_ir
from ftrace.devices.llvm.runner.steps import steps_ir
from ftrace.devices.llvm.runtime.pool import pool_ir


def runner_ir(kept: int) -> str:
    """The module of the runner.

    Args:
      kept: bytes that stacks keep at most for the next ones.
    """
    parts = (pool_ir(), signals_ir(), steps_ir(), chunks_ir(kept), stacks_ir())
    return "".join((*parts, loops_ir()))
