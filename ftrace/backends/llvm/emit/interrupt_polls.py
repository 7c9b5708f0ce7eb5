"""Polls: loops of kernels that may run for long ask from time to time whether to stop.

    left -= operations of an iteration
    if left < 0:                        seldom
        if ftrace_poll(buffers): return
        left = LONG

A kernel that stops leaves its results unfinished: the call that it is part of raises.
Recurrences do this by themselves, since nobody knows how long they run. In other
kernels the lengths of loops are known: `PollingWriter` polls in those that take long,
if one unit of the kernel does; between units the pool looks.
"""

from __future__ import annotations

from collections.abc import Sequence

from ftrace.backends.llvm.ir.symbols import POLL
from ftrace.backends.llvm.ir.writer import OpenLoop, Writer
from ftrace.backends.llvm.runtime.work_estimate import LASTING
from ftrace.lower.kernel.ir import axis_of
from ftrace.lower.register_loops.register_loop import Assign, Repeat, Statement, cost
from ftrace.trace.graph import toposort

#: Operations between two polls, each of which looks at the clock: about 0.1 ms.
LONG = 1 << 17


def lasting(block: Sequence[Statement]) -> int:
    """Operations of a block at least: loops of unknown length run once."""
    total = 1
    for statement in block:
        if isinstance(statement, Assign):
            total += sum(map(cost, toposort([s.value for s in statement.stores])))
        else:
            times = statement.times
            length = 1 if times is None else axis_of(times).size
            total += length * lasting(statement.block)
    return total


def may_be_long(loop: Repeat) -> bool:
    """May a loop run for longer than a user waits?"""
    if loop.times is None:
        return True
    return axis_of(loop.times).size * lasting(loop.block) > LONG


def poll(writer: Writer, left: str, operations: int) -> str:
    """What is left of the operations until the next poll, after so many more.

    Stands at the beginning of an iteration, where few values are in registers.
    """
    after = writer.here(f"sub i64 {left}, {operations}")
    over = writer.here(f"icmp slt i64 {after}, 0")
    (rest,) = _ask(writer, over, [("i64", str(LONG), after)])
    return rest


def _ask(
    writer: Writer, condition: str, results: Sequence[tuple[str, str, str]] = ()
) -> list[str]:
    """Returns from the function if the condition holds and the kernel shall stop."""
    writer.declare(f"declare i1 @{POLL}(ptr)", POLL)
    branch = writer.open_branch()
    stop = writer.here(f"call i1 @{POLL}(ptr %buffers)")
    out, on = f"stop{stop[2:]}", f"on{stop[2:]}"
    branch.level.lines += [
        f"  br i1 {stop}, label %{out}, label %{on}",
        f"{out}:",
        *[f"  {line}" for line in writer.last],
        "  ret void",
        f"{on}:",
    ]
    branch.level.label = on
    return writer.close_branch(branch, condition, results)


def writer_for(operations: int) -> Writer:
    """The writer of a kernel of which one unit takes so many operations."""
    return PollingWriter(operations) if operations > LASTING else Writer()


class PollingWriter(Writer):
    """Polls in loops that take long, as far as their lengths are numbers.

    Args:
      operations: of what is written.
    """

    def __init__(self, operations: int) -> None:
        super().__init__()
        self._operations = operations  # of one run of the innermost loop that is open
        self._outer: list[int] = []

    def open_loop(
        self,
        start: str,
        stop: str,
        step: int,
        carried: Sequence[tuple[str, str]] = (),
        guarded: bool = False,
    ) -> OpenLoop:
        loop = super().open_loop(start, stop, step, carried, guarded)
        self._outer.append(self._operations)
        if self._operations > LONG and start.isdigit() and stop.isdigit():
            times = max(-(-(int(stop) - int(start)) // step), 1)
            self._operations //= times
            self._poll(loop)
        return loop

    def close_loop(
        self,
        loop: OpenLoop,
        updated: Sequence[str] = (),
        first: str = "",
        again: str = "",
    ) -> list[str]:
        self._operations = self._outer.pop()
        return super().close_loop(loop, updated, first, again)

    def _poll(self, loop: OpenLoop) -> None:
        """Once in about `LONG` operations, at the beginning of an iteration."""
        every = max(LONG // max(self._operations, 1), 1)
        window = 1 << (loop.step * every - 1).bit_length()
        low = self.here(f"and i64 {loop.index}, {window - 1}")
        _ask(self, self.here(f"icmp ult i64 {low}, {loop.step}"))
