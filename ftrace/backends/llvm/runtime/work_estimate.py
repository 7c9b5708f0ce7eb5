"""How much a program does, as far as it is known before it runs."""

from __future__ import annotations

from collections.abc import Iterable

from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.lower import program as prog

#: A program of less work than this holds the GIL: it is done in about a microsecond. Of
#: 765 programs 94 do; with 4 times as many bytes 102, with a quarter 72, with 4 times
#: as many operations 107, with a quarter 61.
BRIEF_BYTES = 16 << 10
BRIEF_OPERATIONS = 8 << 10
#: Operations of elements that pay for waking another thread. With 4 times as many a
#: product of 64³ is of one thread, with a quarter one of 48³ is not (golden kernels).
WORTH_A_THREAD = 40_000
#: Pieces per thread: more balance better on a busy machine, fewer cost less. With 16 or
#: 1 no golden kernel has other blocks.
PIECES_PER_THREAD = 4
#: Operations that a unit of a kernel may take without a poll: some tenths of a second.
#: With 4 times as many no golden kernel differs, with a quarter one of 98 polls.
LASTING = 1 << 30
#: How many iterations a loop may have of which it is not known. With 16 or 256 no row
#: has other lanes, with 0 a map of 64 while loops of 30×30 products has one, not 16.
LIKELY_LENGTH = 64
#: What a step costs by itself, in such operations. With 128 two of those 94 give the
#: GIL away, with 8 none.
STEP_OPERATIONS = 32


class Work(NamedTuple):
    """What one run of a program does.

    Attributes:
      kernels, operations, bytes: see `Counters`. A loop of unknown length counts as
        one iteration, and a branch as the one with the most operations.
      steps: how many steps it runs, so counted.
      bounded: it does no more than that.
      on_host: some of it is done by Python.
    """

    kernels: int = 0
    operations: int = 0
    bytes: int = 0
    steps: int = 0
    bounded: bool = True
    on_host: bool = False

    @property
    def brief(self) -> bool:
        """Is it done sooner than the GIL is given away and taken back?"""
        few = self.operations + self.steps * STEP_OPERATIONS < BRIEF_OPERATIONS
        known = self.bounded and not self.on_host
        return known and few and self.bytes < BRIEF_BYTES

    @property
    def cost(self) -> int:
        """About how many operations of elements it is worth."""
        return self.operations + self.bytes // 8 + self.steps * STEP_OPERATIONS

    @property
    def likely_cost(self) -> int:
        """The same, if loops of unknown length have not just one iteration."""
        return self.cost * (1 if self.bounded else LIKELY_LENGTH)

    def times(self, count: int) -> Work:
        return Work(
            self.kernels * count, self.operations * count, self.bytes * count,
            self.steps * count, self.bounded, self.on_host,
        )  # fmt: skip


def work_of(program: prog.Program) -> Work:
    """What one run of a program does."""
    return total(map(work_of_step, program.steps))


def own_work_of(program: prog.Program) -> Work:
    """The same without its loops, which look after themselves."""
    steps = [step for step in program.steps if not isinstance(step, prog.RunLoop)]
    return total(map(work_of_step, steps))


def total(parts: Iterable[Work]) -> Work:
    kernels, operations, moved, steps, bounded, on_host = zip(
        Work(), *parts, strict=True
    )
    counts = sum(kernels), sum(operations), sum(moved), sum(steps)
    return Work(*counts, all(bounded), any(on_host))


def work_of_step(step: prog.Step) -> Work:
    """What one run of a step does."""
    if isinstance(step, prog.RunKernel):
        return Work(1, step.info.operations, step.info.bytes, 1, step.bounded)
    if isinstance(step, prog.RunLoop):
        body = work_of(step.body)
        if step.length is None:
            return total((body, Work(steps=1, bounded=False)))
        return total((body.times(step.length), Work(steps=1 + step.length)))
    if isinstance(step, prog.RunBranch):
        branches = [work_of(branch) for branch in step.branches]
        each = total(branches)
        most = max(branches, key=lambda work: work.operations, default=Work())
        choice = Work(steps=1, bounded=each.bounded, on_host=each.on_host)
        return total((most, choice))
    return Work(steps=1, on_host=isinstance(step, (prog.CallHost, prog.RunExchange)))
