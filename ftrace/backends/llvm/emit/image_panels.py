"""Images: operands that windows see are evaluated once for each line that a block sees.

An image has its padding in it, so that taps, strides and dilations are distances and
nothing else. A group of channels has too few places for a vector; but groups lie side
by side, so that a vector has all places of some groups. Each lane then has a number of
its own, *spread* into the image once, which serves all taps. Channels that do not mix
at all (depthwise) are groups of one place, and need no spreading.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from math import prod

from ftrace.backends.llvm.emit.blocked_ranges import Block, fit_lanes
from ftrace.backends.llvm.emit.loop_nest import Span
from ftrace.backends.llvm.emit.staged_kernel import Scratch
from ftrace.backends.llvm.schedule.index_facts import lay_flat, sum_of
from ftrace.backends.llvm.schedule.layout import Image, Part
from ftrace.backends.llvm.schedule.schedule_tree import Ahead
from ftrace.backends.llvm.schedule.tiling_ir import Prefetch, Spread, Steps
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.kernel.ir import INDEX, Store, axis_of, load, load_p
from ftrace.trace.graph import Node, substitute, toposort
from ftrace.trace.primitives.elementwise import add, bit_and, lt, mul
from ftrace.trace.primitives.sources import const
from ftrace.trace.symbolic.dim import same_size


@dataclass(eq=False)
class _Lines:
    """The lines of an image that a block sees.

    Attributes:
      ranges: that run over them.
      terms: of their places.
      spans: of ranges that run in part.
      moved: pixels and taps that see a line.
      within: nothing is read where it does not hold.
    """

    ranges: list[Node] = field(default_factory=list[Node])
    terms: list[Node] = field(default_factory=list[Node])
    spans: dict[Node, Span] = field(default_factory=dict[Node, Span])
    moved: dict[Node, Node] = field(default_factory=dict[Node, Node])
    within: Node | None = None


def fill_image(
    memory: Scratch,
    image: Image,
    along: Block,
    beside: Block,
    columns: Block | None,
    lanes: int,
    ahead: Ahead | None,
) -> None:
    """Evaluates the operand for a block.

    Args:
      along: the block that windows slide along.
      beside: of what the image has beside its lines.
      columns: of groups; vectors run along them.
      lanes: of a vector at most.
      ahead: what is read is asked for so far ahead.
    """
    stage, lines = memory.stage, _lines_of(image, along)
    (value,) = substitute([image.node], lines.moved)
    if lines.within is not None:
        value = _loaded_within(value, lines.within)
    groups = None if image.turned else columns
    if groups and _spread(memory, value, image, beside, groups, lines):
        return
    others = image.beside.ranges
    terms = [*lines.terms, *beside.terms(image.beside)]
    parts = [lines.ranges, others] if image.channels_last else [others, lines.ranges]
    ranges, blocks = [r for part in parts for r in part], [along, beside]
    if columns is not None and image.columns is not None:
        terms += columns.terms(image.columns)
        ranges += columns.cut.within
        blocks.append(columns)
    if image.turned:
        ranges[-2:] = ranges[:-3:-1]
    last = ranges[-1]
    lanes = fit_lanes(last, blocks, lanes)
    steps, spans = {last: Steps(lanes)}, lines.spans
    if image.turned:
        steps[ranges[-2]] = Steps(0, lanes, False)
    for block in blocks:
        if block.cut.split in ranges:
            spans |= block.spans(steps)
    store = Store(memory.number, sum_of(terms), value)
    later = None if ahead is None else prefetch_of(value, ahead, last)
    squares = image.turned
    stage.run(ranges, [store], steps, spans, squares=squares, prefetch=later)


def prefetch_of(value: Node, ahead: Ahead, last: Node) -> Prefetch:
    """What is read of it; `last` is the range of the vectors."""
    loads = [n for n in toposort([value]) if n.op is load_p]
    return Prefetch(loads, ahead.along or last, ahead.steps)


def _lines_of(image: Image, along: Block) -> _Lines:
    stage, found, cut = along.stage, _Lines(), image.along
    sizes = dict(zip(cut.within, cut.extents, strict=True))
    windows = {window.column: (window, group) for window, group in image.windows}
    axes = cut.order or cut.within
    for axis in axes:
        start = along.start if axis is cut.split else None
        if axis not in windows:
            found.ranges.append(axis)
            found.terms += along.terms(Part(cut, image.steps[axis], (axis,)))
            continue
        window, group = windows[axis]
        by = window.stride // group.apart
        line = stage.new_range(window.reach(sizes[axis], group))
        weight = image.steps[window.tap] // window.dilation
        found.terms.append(mul(line, const(weight, INDEX)))
        number: Node = const(group.first, INDEX)
        if group.classes > 1:
            kind = stage.new_range(group.classes)
            found.ranges.append(kind)
            found.terms.append(mul(kind, const(image.kinds[axis], INDEX)))
            number = add(kind, number)
        found.ranges.append(line)
        # Which pixel and tap see it does not matter: by·u + dilation·v = 1.
        v = pow(window.dilation, -1, by) if by > 1 else 0
        u = (1 - window.dilation * v) // by
        pixel, tap = _times(line, u), _times(line, v)
        found.moved[axis] = pixel if start is None else add(pixel, start)
        found.moved[window.tap] = window.tap_of(add(tap, number))
        if start is None or same_size(axis_of(axis).size % cut.size, 0):
            continue
        plain = image.columns is None and not image.channels_last
        if axis is axes[-1] and plain:
            # A vector may reach beyond the last pixel.
            place = add(line, mul(start, const(by, INDEX)))
            all_of_them = window.reach(window.pixels, group)
            found.within = lt(place, const(all_of_them, INDEX))
        else:
            behind = window.reach(cut.size, group) - by * cut.size
            last = stage.scaled(along.extent(axis), by, behind)
            found.spans[line] = Span("0", last)
    return found


def _times(line: Node, by: int) -> Node:
    return mul(line, const(by, INDEX)) if by else const(0, INDEX)


def _loaded_within(value: Node, valid: Node) -> Node:
    """The same; nothing is read where it is not valid."""
    moved: dict[Node, Node] = {}
    for n in toposort([value]):
        if n.op is load_p:
            both = [bit_and(valid, condition) for condition in n.src[2:]]
            moved[n] = load(n.src[0], n.src[1], both[0] if both else valid)
    return substitute([value], moved)[0]


def _spread(
    memory: Scratch,
    value: Node,
    image: Image,
    beside: Block,
    columns: Block,
    lines: _Lines,
) -> bool:
    """Fills an image with whole vectors of channels, spread over their places.

    Returns:
      False where channels do not lie in whole vectors; then nothing is done.
    """
    stage, facts = memory.stage, memory.stage.facts
    facts.learn([value])
    held = [r for r in beside.cut.within if r in facts.free[value]]
    if not held or held[-1] is beside.cut.split:
        return False
    (*others, channel), (groups, *rest) = held, columns.cut.within
    places, channels = prod(axis_of(a).size for a in rest), axis_of(channel).size
    lanes = stage.target.vector_bytes // value.dtype.itemsize
    count, most = lanes // channels, columns.cut.extents[0]
    while count > 1 and (most % count or axis_of(groups).size % count):
        count //= 2
    if count < 1 or channels * count < 4 or channels & (channels - 1):
        return False
    part = stage.new_range(most // count)
    inside = stage.new_range(channels * count)
    first = const(0, INDEX) if columns.start is None else columns.start
    place = add(mul(part, const(channels * count, INDEX)), inside)
    place = add(mul(first, const(channels, INDEX)), place)
    moved = lay_flat([value], (groups, channel), place, facts)
    if moved is None:
        return False
    # The channel, which is the first of them, is left out.
    apart = beside.terms(image.beside._replace(ranges=tuple(held)))[1:]
    (value,) = substitute([value], moved)
    index = sum_of([*lines.terms, *apart, mul(part, const(count * places, INDEX))])
    own = {r: span for r, span in beside.spans().items() if r in others}
    if columns.start is not None:
        extent = columns.extent(groups)
        text = stage.writer.pure(f"udiv i64 {extent}, {count}", extent)
        own[part] = Span("0", text)
    stage.run(
        [*lines.ranges, *others, part, inside], [Store(memory.number, index, value)],
        {inside: Steps(channels * count)}, {**own, **lines.spans},
        spread=Spread(channels, places, count, image.beside.weight),
    )  # fmt: skip
    return True


def taps_in(image: Image, taps: Sequence[int]) -> int | None:
    """Where what these taps see begins; None where it is in another image."""
    at = 0
    for (window, group), tap in zip(image.windows, taps, strict=True):
        step, kind = divmod(tap, group.apart)
        if not group.first <= kind < group.first + group.classes:
            return None
        at += step * image.steps[window.tap]
        at += (kind - group.first) * image.kinds[window.column]
    return at
