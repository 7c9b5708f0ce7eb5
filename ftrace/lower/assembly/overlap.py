"""What processes do together, while kernels run that do not need it.

    a; sum of a; b; what needs the sum  ->  a; start the sum; b; wait; what needs it

An exchange starts when its operands are there, and is waited for where its results are
read first, or its operands overwritten. In between the order of the kernels is that
which memory likes (`assemble.py`), but that those which need a result are patient:
until as much has been computed as the exchange takes, about, or nothing else is left.

    buckets    few bytes wait for others between the same processes: one message
    growing    what makes more of less, as weights are gathered, starts ahead of two
               others at the most: memory is full before a network is idle

All is decided by what the program says, and by the figures of `Network`: it is the same
in all processes, which start their exchanges in the same order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ftrace.ground import settings
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.analysis import nbytes, root_of
from ftrace.lower.build.build_kernel import BuiltKernel, BuiltStep
from ftrace.lower.program import Program, RunKernel, RunLoop, programs_of
from ftrace.trace.graph import Node
from ftrace.trace.primitives.exchange import Exchange, exchange_p
from ftrace.trace.primitives.primitive import items
from ftrace.trace.symbolic import any_dynamic, sample

#: What `config.disabled_rules` can switch off here.
DECISIONS = {
    "overlap_exchanges": "kernels run while processes send, and small sums are one"
}
#: Exchanges of fewer bytes go into buckets, of so many bytes at most. 8 sums between
#: two processes in shared memory (2 cores of a Zen 4, busy otherwise, the best of 500)
#: take 77 µs one by one and 26 as one if they are of 1 KB, 99 and 33 of 4 KB, but 107
#: and 193 of 32 KB: these are copied in and out. 512 KB come at 95 % of their rate.
SMALL, BUCKET = 1 << 15, 1 << 20
#: How many that grow are ahead of what reads them.
_AHEAD = 2


@dataclass(frozen=True)
class Network:
    """What exchanges and kernels take, roughly, on any cluster.

    Attributes:
      latency: seconds of an exchange of nothing.
      rate: bytes per second that a process receives.
      step: seconds of a kernel of nothing.
      operations, memory: operations and bytes of kernels per second.
    """

    latency: float = 2e-5
    rate: float = 5e9
    step: float = 1e-6
    operations: float = 2e10
    memory: float = 2e10

    def seconds(self, step: BuiltKernel | BuiltStep) -> float:
        """What a step takes."""
        if isinstance(step, BuiltKernel):
            return self._kernel(step.info)
        return self.step + sum(map(self._program, step.programs))

    def _kernel(self, info: Any) -> float:
        work = sample(info.operations) / self.operations
        return self.step + max(work, sample(info.bytes) / self.memory)

    def _program(self, program: Program) -> float:
        total = 0.0
        for step in program.steps:
            if isinstance(step, RunKernel):
                total += self._kernel(step.info)
            times = 1
            if isinstance(step, RunLoop) and step.length is not None:
                times = sample(step.length)
            total += times * sum(map(self._program, programs_of(step)))
        return total

    def message(self, size: int) -> float:
        """What an exchange takes of so many bytes."""
        return self.latency + size / self.rate


@dataclass(frozen=True, eq=False)
class BuiltExchange(BuiltStep):
    """Exchanges of one kind as one step, or the beginning or the end of them.

    Attributes:
      nodes: the operations; `node` is the first.
      phase: "start", "wait", or "whole" for both at once.
      meanwhile: does a kernel run between the two?
    """

    nodes: tuple[Node, ...] = ()
    phase: str = "whole"
    meanwhile: bool = False

    @property
    def reads(self) -> list[Node]:
        return [root_of(s) for node in self.nodes for s in node.src]

    @property
    def writes(self) -> list[Node]:
        return [item for node in self.nodes for item in items(node)]


Built = BuiltKernel | BuiltStep


class Flight:
    """The exchanges of a program while its steps are put in order.

    Args:
      built: the steps by their numbers.
      feeds: those that need what a step makes, or may overwrite what it reads.

    Attributes:
      order: the steps so far.
    """

    def __init__(
        self, built: Mapping[int, Built], feeds: Mapping[int, Collection[int]]
    ) -> None:
        self.order: list[Built] = []
        self._built = built
        self._network = Network()
        self._now = self._free = 0.0  # what has been computed; when all are done
        self._buckets: dict[Any, list[int]] = {}
        self._waiting: deque[list[int]] = deque()  # to be started
        self._under_way: deque[tuple[float, list[int]]] = deque()
        self._started: dict[int, list[int]] = {}  # and not waited for
        self._sources: dict[int, list[int]] = {}
        whole = built.items() if settings.decides("overlap_exchanges") else ()
        own = [number for number, step in whole if _is_exchange(step)]
        self._own = frozenset(own)
        for number in own:
            for reader in feeds[number]:
                self._sources.setdefault(reader, []).append(number)

    def __bool__(self) -> bool:
        return bool(self._waiting or self._under_way or self._buckets)

    def takes(self, number: int) -> bool:
        """Is a step, whose operands are there, an exchange?"""
        if number not in self._own:
            return False
        (node,), size = self._nodes([number]), self._bytes([number])
        key, row = _kind(node), [number]
        if key is not None and size < SMALL:
            row = self._buckets.setdefault(key, [])
            if row and self._bytes(row) + size > BUCKET:
                self._waiting.append(self._buckets.pop(key))
                row = self._buckets.setdefault(key, [])
            row.append(number)
        else:
            self._waiting.append(row)
        return True

    def advance(self, idle: bool) -> list[int]:
        """Starts what can start; the exchanges that what needs them may wait for.

        Args:
          idle: is there nothing else to run?
        """
        if idle:
            self._waiting.extend(self._buckets.values())
            self._buckets.clear()
        held: list[list[int]] = []
        while self._waiting:
            numbers = self._waiting.popleft()
            if self._may_start(numbers) or not (self._under_way or held or not idle):
                self._start(numbers)
            else:
                held.append(numbers)
        self._waiting.extend(held)
        landed: list[int] = []
        while self._under_way and (self._under_way[0][0] <= self._now or idle):
            self._now = max(self._now, self._under_way[0][0])
            landed += self._under_way.popleft()[1]
            idle = False
        return landed

    def run(self, number: int, step: Built) -> None:
        """A step comes next, after those exchanges that it has to wait for."""
        self._wait_for(number)
        self.order.append(step)
        self._now += self._network.seconds(step)

    def finish(self) -> list[Built]:
        """All steps, at the end; what is waited for at once is one step."""
        for number in list(self._started):
            self._wait(number)
        order: list[Built] = []
        kernels = [0]  # how many there are before each step
        for step in self.order:
            kernels.append(kernels[-1] + (not isinstance(step, BuiltExchange)))
        ends = {
            step.nodes: i for i, step in enumerate(self.order)
            if isinstance(step, BuiltExchange)
        }  # fmt: skip
        whole = set[tuple[Node, ...]]()
        for i, step in enumerate(self.order):
            if isinstance(step, BuiltExchange):
                if step.nodes in whole:
                    continue
                end = ends[step.nodes]
                meanwhile = kernels[end] > kernels[i + 1]
                if end == i + 1:
                    whole.add(step.nodes)
                    step = _exchange(step.nodes, "whole")
                elif step.phase == "start":
                    step = _exchange(step.nodes, "start", meanwhile)
            order.append(step)
        return order

    def _start(self, numbers: list[int]) -> None:
        for number in numbers:
            self._wait_for(number)
        nodes = self._nodes(numbers)
        self.order.append(_exchange(nodes, "start"))
        self._started |= dict.fromkeys(numbers, numbers)
        begin = max(self._now, self._free)
        self._free = begin + self._network.message(self._bytes(numbers))
        self._under_way.append((self._free, numbers))

    def _wait_for(self, number: int) -> None:
        for source in self._sources.get(number, ()):
            if source in self._started:
                self._wait(source)

    def _wait(self, number: int) -> None:
        if number in self._started:
            numbers = self._started[number]
            self.order.append(_exchange(self._nodes(numbers), "wait"))
            for each in numbers:
                del self._started[each]

    def _may_start(self, numbers: list[int]) -> bool:
        if not self._grows(numbers):
            return True
        rows = {id(row): row for row in self._started.values()}
        return sum(map(self._grows, rows.values())) < _AHEAD

    def _grows(self, numbers: Iterable[int]) -> bool:
        steps = [self._built[n] for n in numbers]
        made = sum(nbytes(x) for step in steps for x in step.writes)
        return made > sum(nbytes(x) for step in steps for x in step.reads)

    def _nodes(self, numbers: Iterable[int]) -> tuple[Node, ...]:
        steps = [self._built[n] for n in numbers]
        return tuple([s.node for s in steps if isinstance(s, BuiltStep)])

    def _bytes(self, numbers: Iterable[int]) -> int:
        return sum(nbytes(x) for n in numbers for x in self._built[n].writes)


def _exchange(
    nodes: tuple[Node, ...], part: str, meanwhile: bool = False
) -> BuiltExchange:
    return BuiltExchange(nodes[0], (), {}, nodes, part, meanwhile)


def _is_exchange(step: Built) -> bool:
    if not isinstance(step, BuiltStep) or step.node.op is not exchange_p:
        return False
    arg: Exchange = step.node.arg
    values = (*step.reads, *step.writes)
    return arg.moves and not any(any_dynamic(x.shape) for x in values)


def _kind(node: Node) -> Any:
    """What those have in common that may be one message; None of others."""
    arg: Exchange = node.arg
    return (arg.kind, arg.ranks, node.src[0].dtype) if arg.joins else None
