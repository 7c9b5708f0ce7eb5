"""Filling a panel: an expression evaluated over two blocks, in whole vectors.

Where the expression's loads are contiguous along another range than the panel is, it
is evaluated along that range, and squares of registers are turned.
"""

from __future__ import annotations

from collections.abc import Sequence

from ftrace.devices.llvm.emit.blocked_ranges import Block
from ftrace.devices.llvm.emit.staged_kernel import Panel, Stage, sum_of
from ftrace.devices.llvm.schedule.index_facts import Facts, index_of
from ftrace.devices.llvm.schedule.tiling_ir import Prefetch, Steps, size_of
from ftrace.devices.llvm.schedule.unroll_short import longest
from ftrace.lower.kernel.ir import Store, load_p
from ftrace.trace.graph import Node, toposort
from ftrace.trace.symbolic.bounds import upper_bound

#: Bytes of pieces of rows that are asked for before they are needed.
_AHEAD = 2 << 10


def fill_panel(
    panel: Panel,
    node: Node,
    minor: Node,
    major: Block,
    inside: Block,
    summed: Block,
    lanes: int,
) -> None:
    """Evaluates `node` for two blocks, into a panel.

    Args:
      minor: the range along which the panel is contiguous.
      major: its position is the row of the panel.
      inside: its position is the column.
      summed: that of the two of which only those ranges count that the node has.
      lanes: of a vector at most.
    """
    stage = panel.stage
    facts = stage.facts
    terms: list[Node] = []
    ranges: list[Node] = []
    for block, weight in ((major, panel.pitch), (inside, 1)):
        few = node if block is summed else None
        terms += block.terms(weight, few)
        ranges += [r for r in block.cut.within if few is None or r in facts.free[few]]
    index = sum_of(terms)
    vector = _vector_of(node, ranges, minor, (major, inside), lanes, facts)
    width = _lanes_of(node, vector, (major, inside), lanes)
    store = Store(panel.number, index, node)
    steps = {vector: Steps(width, _copies(vector, width, (major, inside)))}
    if vector is not minor:
        steps[vector] = Steps(width)
        steps[minor] = Steps(0, width, False)
    spans = major.spans(steps) | inside.spans(steps)
    spans = {r: span for r, span in spans.items() if r in ranges}
    if vector is minor:
        outer = [r for r in ranges if r is not vector]
        along = outer[-1] if outer and ranges[-1] is vector else None
        prefetch = None
        if along is not None and (
            ahead := _rows_ahead(node, vector, along, (major, inside), stage)
        ):
            prefetch = Prefetch([node], along, ahead)
        stage.run(ranges, [store], steps, spans, prefetch=prefetch)
        return
    others = [r for r in ranges if r is not vector and r is not minor]
    # Along the vectors memory runs on: the processor fetches what comes next.
    stage.run([*others, minor, vector], [store], steps, spans, squares=True)


def _rows_ahead(
    node: Node, vector: Node, along: Node, blocks: Sequence[Block], stage: Stage
) -> int:
    """How many rows ahead a load from beyond L2 is asked for; 0: it is not.

    Rows of a panel are short pieces of rows far apart, of which each is another page:
    the processor does not see in time where the next one begins.
    """
    if node.op is not load_p:
        return 0
    buffer, _, *valid = node.src
    number, size = buffer.arg, node.dtype.itemsize
    assert isinstance(number, int)
    far = not valid and upper_bound(stage.values.sizes[number]) * size > stage.target.l2
    if not far or not stage.target.decides("fetch_ahead"):
        return 0
    split = [b.cut.size for b in blocks if b.cut.split is vector]
    piece = min([size_of(vector), *split]) * size
    pitch = abs(stage.facts.affine[index_of(node)].terms.get(along, 0)) * size
    return -(-_AHEAD // piece) if pitch > piece else 0


def _copies(vector: Node, width: int, blocks: Sequence[Block]) -> int:
    """How many vectors to fill at once: blocks have to be whole numbers of them."""
    split = [b for b in blocks if b.cut.split is vector]
    copies = 4
    while copies > 1 and size_of(vector) < width * copies:
        copies //= 2
    while copies > 1 and not all(b.divides(width * copies) for b in split):
        copies //= 2
    return copies


def _vector_of(
    node: Node,
    ranges: Sequence[Node],
    minor: Node,
    blocks: Sequence[Block],
    lanes: int,
    facts: Facts,
) -> Node:
    """The range along which an expression is best evaluated."""
    loads = [n for n in toposort([node]) if n.op is load_p]
    most = longest(blocks[0].stage.target)
    best, least = minor, float("inf")
    for r in ranges:
        width, size = _lanes_of(node, r, blocks, lanes), size_of(r)
        sizes = [b.cut.size for b in blocks if b.cut.split in (r, minor)]
        if r is not minor and any(s % width for s in sizes):
            continue
        cost = 1.0
        for n in loads:
            if r in facts.free[n]:
                stride = facts.stride(index_of(n), r, width)
                if stride is not None and 2 <= stride <= most:
                    cost += 1.5 * stride  # picked from vectors side by side
                else:
                    cost += 1 if stride in (-1, 0, 1) else 2 + width
        if r is not minor:  # turning: shuffles, and a store per lane
            copies = min(width, size_of(minor))
            cost += width * (width.bit_length() / 2 + 1) / copies
        cost *= -(-size // width) / size
        if cost < least:
            best, least = r, cost
    return best


def _lanes_of(node: Node, r: Node, blocks: Sequence[Block], lanes: int) -> int:
    """How many elements of an expression make a vector along a range."""
    target = blocks[0].stage.target
    loads = [n.dtype.itemsize for n in toposort([node]) if n.op is load_p]
    found = min(target.vector_bytes // max([node.dtype.itemsize, *loads]), lanes)
    split = [b for b in blocks if b.cut.split is r]
    while not all(b.divides(found) for b in split):
        found //= 2
    if not split:
        while found >= 2 * size_of(r) and found > 1:
            found //= 2
    return found
