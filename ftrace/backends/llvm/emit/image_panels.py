"""Images: operands that windows see are evaluated once for each line that a block sees.

An image has its padding in it, so that taps, strides and dilations are distances and
nothing else.
"""

from __future__ import annotations

from dataclasses import field

from ftrace.backends.llvm.emit.blocked_ranges import Block, fit_lanes
from ftrace.backends.llvm.emit.loop_nest import Span
from ftrace.backends.llvm.emit.staged_kernel import Scratch
from ftrace.backends.llvm.schedule.index_facts import sum_of
from ftrace.backends.llvm.schedule.layout import Image, Part
from ftrace.backends.llvm.schedule.tiling_ir import Steps
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
    memory: Scratch, image: Image, along: Block, beside: Block, lanes: int
) -> None:
    """Evaluates the operand for a block.

    Args:
      along: the block that windows slide along.
      beside: of what the image has beside its lines.
      lanes: of a vector at most.
    """
    stage, lines = memory.stage, _lines_of(image, along)
    (value,) = substitute([image.node], lines.moved)
    if lines.within is not None:
        value = _loaded_within(value, lines.within)
    terms = [*lines.terms, *beside.terms(image.beside)]
    ranges, blocks = [*image.beside.ranges, *lines.ranges], [along, beside]
    last, spans = ranges[-1], lines.spans
    steps = {last: Steps(fit_lanes(last, blocks, lanes))}
    for block in blocks:
        if block.cut.split in ranges:
            spans |= block.spans(steps)
    store = Store(memory.number, sum_of(terms), value)
    stage.run(ranges, [store], steps, spans)


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
        if axis is axes[-1]:
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
