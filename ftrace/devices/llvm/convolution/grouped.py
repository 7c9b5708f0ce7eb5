"""Groups, channels last: how their numbers become vectors.

    out[p, g, o] = f(the sum over c, t of left(p + t, g, c) · right(g, c, t, o), …)

A group has too few places o for a vector. But groups lie side by side, so that a vector
has all places of some groups. Each lane then has a number of its own from the left
operand: that is spread into a panel once, and serves all taps. Channels that do not mix
at all (depthwise) are groups of one place, and need no spreading.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ftrace.devices.llvm.convolution.schedule import laid_flat
from ftrace.devices.llvm.emit.blocked_ranges import Block
from ftrace.devices.llvm.emit.loop_nest import Span
from ftrace.devices.llvm.emit.staged_kernel import Panel, sum_of
from ftrace.devices.llvm.schedule.tiling_ir import Spread, Steps
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.kernel.ir import INDEX, Store, axis_of
from ftrace.trace.graph import Node, substitute
from ftrace.trace.primitives.elementwise import add, mul
from ftrace.trace.primitives.sources import const


@dataclass(frozen=True, eq=False)
class Pixels:
    """The pixels of a panel, beside channels and columns.

    Attributes:
      terms: of the panel's index.
      ranges, spans: of the loops over them.
    """

    terms: list[Node]
    ranges: list[Node]
    spans: dict[Node, Span]


def spread_groups(
    panel: Panel,
    left: Node,
    columns: Sequence[Node],
    summed: Block,
    block: Block,
    pitch: int,
    pixels: Pixels,
) -> bool:
    """Fills a panel with whole vectors of channels, each spread over its places.

    Args:
      columns: the groups, and their places.
      summed: what is summed over.
      block: of the groups.
      pitch: elements of the panel from one channel to the next.

    Returns:
      False where channels do not lie in whole vectors; then nothing is done.
    """
    stage, facts = panel.stage, panel.stage.facts
    facts.learn([left])
    held = [r for r in summed.cut.within if r in facts.free[left]]
    if not held or held[-1] is summed.cut.split:
        return False
    (*others, channel), (groups, *rest) = held, columns
    places, channels = prod(axis_of(a).size for a in rest), axis_of(channel).size
    lanes = stage.target.vector_bytes // left.dtype.itemsize
    count = lanes // channels
    most = block.cut.extents[0]
    while count > 1 and (most % count or axis_of(groups).size % count):
        count //= 2
    if count < 1 or channels * count < 4 or channels & (channels - 1):
        return False
    part = stage.new_range(most // count)
    inside = stage.new_range(channels * count)
    first = const(0, INDEX) if block.start is None else block.start
    place = add(mul(part, const(channels * count, INDEX)), inside)
    place = add(mul(first, const(channels, INDEX)), place)
    moved = laid_flat([left], (groups, channel), place, facts)
    if moved is None:
        return False
    (value,) = substitute([left], moved)
    apart = summed.terms(pitch, left)[1:]  # all but the channel, which comes first
    index = sum_of([*pixels.terms, *apart, mul(part, const(count * places, INDEX))])
    spans = {r: span for r, span in summed.spans({}).items() if r in others}
    spans |= pixels.spans
    if block.start is not None:
        extent = block.extent(groups)
        text = stage.writer.pure(f"udiv i64 {extent}, {count}", extent)
        spans[part] = Span("0", text)
    stage.run(
        [*pixels.ranges, *others, part, inside], [Store(panel.number, index, value)],
        {inside: Steps(channels * count)}, spans,
        spread=Spread(channels, places, count, pitch),
    )  # fmt: skip
    return True
