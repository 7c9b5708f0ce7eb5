"""In which order kernels run: each finds what it reads, and memory is free early.

Of the kernels that could run next, the one that frees most of the arena goes first: an
update of weights, say, which is the last to need a layer's input. Where none frees
more than it takes, the one whose operands were computed last goes first, as they are
still in the cache.
"""

from __future__ import annotations

from collections.abc import Mapping

from ftrace.errors import GraphError
from ftrace.lower.build import BuiltKernel
from ftrace.lower.drafts import Draft, Schedule
from ftrace.lower.inplace import Sharing
from ftrace.lower.step import BuiltStep
from ftrace.trace.dims import is_dynamic
from ftrace.trace.graph import Node
from ftrace.trace.primitives.record import items
from ftrace.trace.primitives.source import is_variable

Built = Mapping[int, BuiltKernel | BuiltStep]

#: How many of the kernels that are ready are looked at.
_CANDIDATES = 16


def ordered_drafts(plan: Schedule, sharing: Sharing, built: Built) -> list[Draft]:
    """The kernels in order.

    What overwrites a value runs after all who read it.

    Args:
      plan: the kernels, and who waits for whom.
      sharing: what takes the memory of what.
      built: what each kernel reads and writes.

    Raises:
      GraphError: some kernels wait for each other.
    """
    waiting = {d.number: 0 for d in plan.drafts}
    feeds = {d.number: set(d.feeds) for d in plan.drafts}
    for after, earlier in sharing.before.items():
        for number in earlier:
            feeds[number].add(after)
    for readers in feeds.values():
        for reader in readers:
            waiting[reader] += 1
    # Later drafts are nearer to the inputs; among those that are ready they go first.
    ready = [d.number for d in plan.drafts if waiting[d.number] == 0]
    memory = _Memory(plan, sharing, built)
    order: list[Draft] = []
    while ready:
        draft = plan.drafts[ready.pop(memory.choose(ready))]
        memory.run(draft.number)
        order.append(draft)
        for reader in sorted(feeds[draft.number]):
            waiting[reader] -= 1
            if waiting[reader] == 0:
                ready.append(reader)
    if len(order) != len(plan.drafts):
        stuck = [d.roots for d in plan.drafts if waiting[d.number] > 0]
        raise GraphError(f"these kernels wait for each other: {stuck}")
    return order


class _Memory:
    """The values in the arena while kernels run.

    Attributes:
      reads, writes: of each kernel the values in the arena, by the owner of the memory.
      readers: for each value how many kernels have yet to read it.
    """

    def __init__(self, plan: Schedule, sharing: Sharing, built: Built) -> None:
        self.reads: dict[int, set[Node]] = {}
        self.writes: dict[int, set[Node]] = {}
        self.readers: dict[Node, int] = {}
        self.alive: set[Node] = set()
        kept = {sharing.root(n) for n in plan.outputs}
        for number, step in built.items():
            if isinstance(step, BuiltKernel):
                loads, stores = step.loads.values(), step.stores.values()
            else:
                loads, stores = step.operands, items(step.node)
            for values, found in ((loads, self.reads), (stores, self.writes)):
                roots = {sharing.root(n) for n in values if not is_variable(n)}
                found[number] = {n for n in roots - kept if not is_variable(n)}
            for node in self.reads[number]:
                self.readers[node] = self.readers.get(node, 0) + 1

    def choose(self, ready: list[int]) -> int:
        """The position of the kernel that runs next."""
        last = len(ready) - 1
        if last == 0 or not self.reads:
            return last
        best, most = last, 0
        for position in range(last, max(last - _CANDIDATES, -1), -1):
            freed = self._freed(ready[position])
            if freed > most:
                best, most = position, freed
        return best

    def _freed(self, number: int) -> int:
        """Bytes that are free after a kernel and were not before it."""
        reads, writes = self.reads[number], self.writes[number]
        freed = sum(_nbytes(n) for n in reads - writes if self.readers[n] == 1)
        return freed - sum(_nbytes(n) for n in writes - self.alive)

    def run(self, number: int) -> None:
        for node in self.reads.get(number, ()):
            self.readers[node] -= 1
        self.alive |= self.writes.get(number, set())


def _nbytes(node: Node) -> int:
    size = node.aval.size
    return 0 if is_dynamic(size) else size * node.dtype.itemsize
