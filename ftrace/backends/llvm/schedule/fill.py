"""How an operand is put into memory of a block: along which range, and from how far.

A panel is filled by evaluating an expression over two blocks, in whole vectors, along
the range where that costs the least. Where the panel is contiguous along another one,
squares of registers are transposed.

Rows that come from beyond the second cache are asked for before they are needed. Those
of a panel are short pieces of rows far apart, of which each is another page: the
processor does not see in time where the next one begins.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ftrace.backends.llvm.schedule.index_facts import Facts, index_of
from ftrace.backends.llvm.schedule.layout import Blocked, Image, Memory, fit_lanes
from ftrace.backends.llvm.schedule.loop_tiling import RangeTiling, size_of
from ftrace.backends.llvm.schedule.prefetch import far_rows, is_far, loads_along
from ftrace.backends.llvm.schedule.schedule_tree import Fill
from ftrace.backends.llvm.target import Target
from ftrace.lower.kernel.ir import load_p
from ftrace.trace.graph import Node, toposort

#: Bytes of pieces of rows that are asked for before they are needed.
_PREFETCHED = 2 << 10


def fill(memory: Memory, lanes: int, facts: Facts, target: Target) -> Fill:
    """How an operand is put into memory.

    Args:
      lanes: of a vector at most.
    """
    node, size = memory.node, memory.node.dtype.itemsize
    if isinstance(memory, Image):
        if memory.columns is None:
            return Fill(memory, {})  # no squares are transposed
        last = memory.columns.ranges[-1]
        return Fill(memory, {}, far_rows(toposort([node]), last, facts, target))
    *outer, minor = ranges = memory.ranges
    cuts = [part.cut for part in memory.terms]
    vector, width = vector_of(node, ranges, minor, cuts, lanes, facts, target)
    if vector is not minor:
        steps = {vector: RangeTiling(width), minor: RangeTiling(0, width, False)}
        loads = loads_along([node], vector, facts)
        return Fill(memory, steps, far_rows(loads, minor, facts, target))
    # Blocks are whole numbers of the vectors that are filled at once.
    own = [cut for cut in cuts if cut.split is minor]
    wide = (n for n in (4, 2) if size_of(minor) >= n * width)
    copies = next((n for n in wide if all(c.divides(n * width) for c in own)), 1)
    steps = {minor: RangeTiling(width, copies)}
    if outer and is_far(node, target):
        piece = min([size_of(minor), *(cut.size for cut in own)]) * size
        pitch = abs(facts.affine[index_of(node)].terms.get(outer[-1], 0)) * size
        if pitch > piece:
            return Fill(memory, steps, (node,), -(-_PREFETCHED // piece))
    return Fill(memory, steps)


def vector_of(
    node: Node, ranges: Sequence[Node], minor: Node, cuts: Sequence[Blocked],
    lanes: int, facts: Facts, target: Target,
) -> tuple[Node, int]:  # fmt: skip
    """The range along which an expression is best evaluated, and in how many lanes.

    Costs are instructions for each vector: of loads, of the vectors side by side from
    which strided ones are picked, of shuffles and stores.

    Args:
      minor: the range along which it stands in memory.
    """
    loads = [n for n in toposort([node]) if n.op is load_p]
    widest = max(n.dtype.itemsize for n in (node, *loads))
    lanes, best, least = min(target.vector_bytes // widest, lanes), (minor, 1), math.inf
    for r in ranges:
        width, size = fit_lanes(r, cuts, lanes), size_of(r)
        sizes = [cut.size for cut in cuts if cut.split in (r, minor)]
        if r is not minor and any(s % width for s in sizes):
            continue
        cost = 1.0
        for n in loads:
            if r in facts.free[n]:
                stride = facts.stride(index_of(n), r, width)
                if stride is not None and 2 <= stride <= target.most_strided:
                    cost += 1.5 * stride  # picked from vectors side by side
                else:
                    cost += 1 if stride in (-1, 0, 1) else 2 + width
        if r is not minor:  # turning: shuffles, and a store per lane
            copies = min(width, size_of(minor))
            cost += width * (width.bit_length() / 2 + 1) / copies
        cost *= -(-size // width) / size
        if cost < least:
            best, least = (r, width), cost
    return best
