"""Vectors that are computed abreast: several at once, instruction by instruction.

    Before: a0 = f(x0); b0 = g(a0); …; a1 = f(x1); b1 = g(a1); …
    After:  a0 = f(x0); a1 = f(x1); b0 = g(a0); b1 = g(a1); …

Each step of a polynomial waits for the one before it, four cycles and more, in which a
processor could begin eight others. It looks ahead for them, but not beyond the few
hundred instructions that it holds. Vectors abreast give it what to do nearby: measured,
a chain of functions takes from a tenth to a half less. Registers hardly matter: what
does not fit in them waits in the first cache, which is idle in such code.

It does not pay where memory is slower than the chain, nor for few elements, for the
loop's body becomes longer by as much.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ftrace.devices.llvm.schedule.index_facts import Facts
from ftrace.devices.llvm.target import Target
from ftrace.lower.kernel.ir import INDEX, Kernel, Store
from ftrace.lower.kernel.loop_tree import Let, Loop, Statement
from ftrace.lower.legalize.math.term import RARE
from ftrace.trace.graph import Node

#: Vectors abreast at most, and instructions of a body.
_MOST = 4
_LONGEST = 1600
#: Vectors of a kernel that is worth more code: it then runs for some microseconds.
_LEAST = 1 << 10
#: Cycles until an operation's result is there; of every other 4.
_LATENCY = {
    "div": 14, "rem": 30, "sqrt": 18, "load": 7, "select": 2, "lt": 3, "le": 3, "eq": 3,
    "ne": 3, "gt": 3, "ge": 3, "and": 1, "or": 1, "xor": 1, "not": 1, "bitcast": 1,
    "neg": 1, "abs": 1, "shl": 1, "shr": 1, "sar": 1, "max": 3, "min": 3,
}  # fmt: skip
#: Cycles that its unit is busy with a vector; with any other half of one.
_BUSY = {"div": 8.0, "rem": 24.0, "sqrt": 12.0}
#: Instructions among which a processor finds those that can begin.
_WINDOW = 200
#: Bytes that come to a core in a cycle: from memory, and from the last cache.
_MEMORY, _CACHE = 7.0, 14.0


def vectors_abreast(
    kernel: Kernel, loop: Loop, lanes: int, facts: Facts, target: Target
) -> int:
    """How many vectors of a loop over an axis are best computed at once: 1, 2 or 4."""
    if not target.decides("vectors_abreast") or kernel.is_dynamic:
        return 1
    vectors = prod(kernel.shape) // lanes
    if vectors < _LEAST or not all(isinstance(s, Let | Store) for s in loop.body):
        return 1
    nodes = [n for n in usual(loop.body) if loop.axis in facts.free[n]]
    chain, busy = cycles(nodes)
    alone = max(busy, chain * min(1.0, len(nodes) / _WINDOW))
    if vectors * alone <= _cycles_of_memory(kernel, target):
        return 1
    most = _MOST if chain > busy * 1.5 else 2 if chain > busy else 1
    while most > 1 and most * len(nodes) > _LONGEST:
        most //= 2
    return most


def _cycles_of_memory(kernel: Kernel, target: Target) -> float:
    """Cycles, added up over the cores, in which they get the kernel's data."""
    size = sum(spec.size * spec.dtype.itemsize for spec in kernel.buffers)
    if size <= target.l2:
        return 0.0
    return size / (_CACHE if size <= target.l3 else _MEMORY)


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
        name = node.op.name
        before = max((at.get(s, 0.0) for s in node.src), default=0.0)
        at[node] = before + _LATENCY.get(name, 4)
        busy += _BUSY.get(name, 0.5)
    return max(at.values(), default=0.0), busy
