"""What a kernel costs in vectors along one range or another, in vector instructions.

    load x[i, j] along j    1: the lanes lie side by side
    load x[i, j] along i    2 and more: they are brought together
    store, add, div, …      `OPERATIONS` of `scalar/ops.py`; once, if it does not vary

A reduce that stands in no vector has one of its own, along its cheapest range. How many
vectors are best interleaved is decided here, too (`count_interleaved`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ftrace import dtypes
from ftrace.backends.llvm.scalar.ops import ADDITION, OPERATIONS, Cost
from ftrace.backends.llvm.schedule.index_facts import Facts, index_of
from ftrace.backends.llvm.schedule.layout import fit_lanes
from ftrace.backends.llvm.schedule.loop_tiling import size_of
from ftrace.backends.llvm.target import Target
from ftrace.lower.kernel.ir import INDEX, Kernel, Store, bytes_of, load_p, reduce_p
from ftrace.lower.kernel.loop_tree import Let, Loop, ReduceLoop, Statement
from ftrace.lower.legalize.term import RARE
from ftrace.trace.graph import Node
from ftrace.trace.primitives.sources import const

Vector = tuple[Node, int]  # the vector range and its lanes
Vectors = dict[Node, int]  # the lanes of each axis that is one: a row may have several

#: A vector along which nothing runs.
_NO_VECTOR: Vector = (const(0, INDEX), 1)

_LOAD = Cost(latency=7)


def cost_of(node: Node) -> Cost:
    """What an operation on a vector takes, by its row."""
    row = OPERATIONS.get(node.op.name)
    return row.cost if row is not None else _LOAD if node.op is load_p else ADDITION


class VectorCosts:
    """The costs of one kernel."""

    def __init__(self, kernel: Kernel, facts: Facts, target: Target) -> None:
        self.kernel = kernel
        self.facts = facts
        self.target = target
        self._costs: dict[tuple[Node | Store, Vector | None], float] = {}
        self._lanes: dict[Node, int] = {}
        self._own: dict[ReduceLoop, tuple[float, Vector | None]] = {}

    def lanes_of(self, node: Node) -> int:
        """Lanes that fill a register with the widest elements that vary with it."""
        found = self._lanes.get(node)
        if found is None:
            widest = 1
            for n, free in self.facts.free.items():
                plain = n.op is load_p or n.dtype not in (dtypes.bool_, INDEX)
                if node in free and n.op is not reduce_p and plain:
                    widest = max(widest, n.dtype.itemsize)
            for store in self.kernel.stores:
                if any(node in self.facts.free[e] for e in store.expressions):
                    widest = max(widest, store.value.dtype.itemsize)
            found = fit_lanes(node, (), self.target.vector_bytes // widest)
            self._lanes[node] = found
        return found

    def of_block(
        self, block: Sequence[Statement], chosen: Vectors, active: Vector | None
    ) -> float:
        """Of running a block once.

        Args:
          chosen: the axes that are vectors.
          active: the one that is open.
        """
        total = 0.0
        for statement in block:
            if isinstance(statement, Let):
                total += self._of_node(statement.node, active)
            elif isinstance(statement, Store):
                total += self._of_store(statement, active)
            elif isinstance(statement, Loop):
                axis = statement.axis
                inner, trips = active, float(size_of(axis))
                if axis in chosen:
                    inner, trips = (axis, chosen[axis]), -(-trips // chosen[axis])
                total += trips * self.of_block(statement.body, chosen, inner)
            else:
                total += self._of_reduce(statement, chosen, active)
        return total

    def _of_reduce(
        self, loop: ReduceLoop, chosen: Vectors, active: Vector | None
    ) -> float:
        if active is not None:
            body = self.of_block(loop.body, chosen, active) + len(loop.reduces)
            return body * prod(size_of(r) for r in loop.ranges)
        return self.best_vector(loop)[0]

    def best_vector(self, loop: ReduceLoop) -> tuple[float, Vector | None]:
        """The cheapest vector range of a reduce loop that is not inside a vector."""
        found = self._own.get(loop)
        if found is None:
            trips = prod(size_of(r) for r in loop.ranges)
            cost = self.of_block(loop.body, {}, None) + len(loop.reduces)
            found = (cost * trips, None)
            for r in loop.ranges:
                lanes = self.lanes_of(r)
                size = size_of(r)
                if lanes < 2 or size < 2:
                    continue
                cost = self.of_block(loop.body, {}, (r, lanes)) + len(loop.reduces)
                cost *= trips // size * -(-size // lanes)
                cost += self.target.costs.add_lanes * len(loop.reduces)
                if cost < found[0]:
                    found = (cost, (r, lanes))
            self._own[loop] = found
        return found

    def _of_node(self, node: Node, active: Vector | None) -> float:
        key = (node, active)
        found = self._costs.get(key)
        if found is None:
            found = self._costs[key] = self._of_new(node, active)
        return found

    def _of_new(self, node: Node, active: Vector | None) -> float:
        if node.op is load_p:
            cost = self._of_access(index_of(node), active)
            valid = node.src[2:]
            if active is not None and any(
                active[0] in self.facts.free[v] for v in valid
            ):
                cost += 0.5
            return cost
        if node.dtype is INDEX or not node.src:
            return 0.0
        return cost_of(node).instructions

    def _of_access(self, index: Node, active: Vector | None) -> float:
        if active is None:
            return 1.0
        stride = self.facts.stride(index, *active)
        if stride in (0, 1):
            return 1.0
        most = self.target.most_strided
        if stride is not None and (stride == -1 or 2 <= stride <= most):
            return max(2.0, 1.5 * stride)
        return 2.0 + active[1]

    def _of_store(self, store: Store, active: Vector | None) -> float:
        if active is None or not any(
            active[0] in self.facts.free[e] for e in store.expressions
        ):
            return 1.0
        stride = self.facts.stride(store.index, *active)
        if stride in (1, -1):
            return 1.5
        if stride is not None and self._in_turn(store, stride):
            return 1.0 + 0.5 * stride
        return 2.0 + 1.5 * active[1]

    def _in_turn(self, store: Store, stride: int) -> bool:
        """Are there so many stores that together fill what lies side by side?"""
        group = [s for s in self.kernel.stores if s.buffer == store.buffer]
        return 2 <= stride <= self.target.most_strided and len(group) >= stride

    def operations(self, block: Sequence[Statement]) -> float:
        """How many, element by element, without vectors."""
        return self.of_block(block, {}, _NO_VECTOR)


#: Interleaved vectors at most, and instructions of a body.
_MOST_INTERLEAVED = 4
_LONGEST = 1600
#: Vectors of a kernel that is worth more code: it then runs for some microseconds.
_MIN_VECTORS = 1 << 10


def count_interleaved(
    kernel: Kernel, loop: Loop, lanes: int, facts: Facts, target: Target
) -> int:
    """How many vectors of a loop over an axis are best computed at once: 1, 2 or 4.

        Before: a0 = f(x0); b0 = g(a0); …; a1 = f(x1); b1 = g(a1); …
        After:  a0 = f(x0); a1 = f(x1); b0 = g(a0); b1 = g(a1); …

    Each step of a polynomial waits for the one before it, four cycles and more, in
    which a processor could begin eight others. It looks ahead for them, but not beyond
    the few hundred instructions that it holds. Interleaved vectors give it what to do
    nearby: measured, a chain of functions takes from a tenth to a half less. Registers
    hardly matter: what does not fit in them waits in the first cache, which is idle in
    such code. It does not pay where memory is slower than the chain, nor for few
    elements, for the loop's body becomes longer by as much.
    """
    if not target.decides("interleave_vectors") or kernel.is_dynamic:
        return 1
    vectors = prod(kernel.shape) // lanes
    if vectors < _MIN_VECTORS or not all(isinstance(s, Let | Store) for s in loop.body):
        return 1
    nodes = [n for n in usual(loop.body) if loop.axis in facts.free[n]]
    chain, busy = cycles(nodes)
    alone = max(busy, chain * min(1.0, len(nodes) / target.look_ahead))
    if vectors * alone <= _cycles_of_memory(kernel, target):
        return 1
    most = _MOST_INTERLEAVED if chain > busy * 1.5 else 2 if chain > busy else 1
    while most > 1 and most * len(nodes) > _LONGEST:
        most //= 2
    return most


def _cycles_of_memory(kernel: Kernel, target: Target) -> float:
    """Cycles, added up over the cores, in which they get the kernel's data."""
    size = bytes_of(kernel.buffers)
    if size <= target.l2:
        return 0.0
    return size / (target.from_l3 if size <= target.l3 else target.from_memory)


def usual(body: Sequence[Statement]) -> list[Node]:
    """The operations on values in a body, sources first, but for what is rare."""
    values = {s.node for s in body if isinstance(s, Let) and s.node.dtype is not INDEX}
    wanted = {s.value for s in body if isinstance(s, Store)}
    found: list[Node] = []
    for statement in reversed(body):
        if not isinstance(statement, Let) or statement.node not in wanted:
            continue
        node = statement.node
        found.append(node)
        wanted.update(node.src[:1] + node.src[2:] if node.arg == RARE else node.src)
    return [n for n in reversed(found) if n in values]


def cycles(nodes: Sequence[Node]) -> tuple[float, float]:
    """Of the longest chain through a body, and of its instructions one by one."""
    at: dict[Node, float] = {}
    busy = 0.0
    for node in nodes:
        cost = cost_of(node)
        before = max((at.get(s, 0.0) for s in node.src), default=0.0)
        at[node] = before + cost.latency
        busy += cost.busy
    return max(at.values(), default=0.0), busy
