"""The block of a cut that is open, panels of two blocks, and images.

A panel is filled by evaluating an expression over two blocks, in whole vectors. Where
the expression's loads are contiguous along another range than the panel is, it is
evaluated along that range, and squares of registers are transposed. An image has its
padding in it, so that taps, strides and dilations are distances and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import field, replace
from types import MappingProxyType

from ftrace.backends.llvm.emit.loop_nest import Span
from ftrace.backends.llvm.emit.staged_kernel import Scratch, Stage
from ftrace.backends.llvm.ir.writer import literal, lowest
from ftrace.backends.llvm.schedule.index_facts import Facts, index_of, sum_of
from ftrace.backends.llvm.schedule.layout import Cut, Image, Term, VectorRows
from ftrace.backends.llvm.schedule.prefetch import prefetch_along
from ftrace.backends.llvm.schedule.tiling_ir import RangeTiling, size_of
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.kernel.ir import INDEX, Store, axis_of, load, load_p
from ftrace.trace.graph import Node, substitute, toposort
from ftrace.trace.primitives.elementwise import add, bit_and, div, lt, mul, rem, sub
from ftrace.trace.primitives.sources import const
from ftrace.trace.symbolic import same_size, upper_bound

#: Bytes of pieces of rows that are asked for before they are needed.
_PREFETCHED = 2 << 10
#: Vectors of an image of groups that are filled at once: one by one 32 channels in 4
#: groups take 1.15 times as long (28², AMD EPYC).
_COPIES = 4
_ONE = RangeTiling()
#: Where every range runs one by one.
NO_STEPS: Mapping[Node, RangeTiling] = MappingProxyType({})


def fit_lanes(r: Node, blocks: Sequence[Block], lanes: int) -> int:
    """In how many lanes a range may run in blocks: not too few are used."""
    split = [block for block in blocks if block.cut.split is r]
    while lanes > 1 and not all(block.divides(lanes) for block in split):
        lanes //= 2
    while lanes > 1 and not split and lanes >= 2 * size_of(r):
        lanes //= 2
    return lanes


class Block:
    """The block of a cut, for which code is emitted while it is open.

    Args:
      number: of the block.
    """

    def __init__(self, stage: Stage, cut: Cut, number: str) -> None:
        self.stage = stage
        self.cut = cut
        self.number = number
        self.start: Node | None = None
        self.first_strip: Node | None = None

    def open(self, opened: ExitStack) -> None:
        """Opens a range that names where the block begins in the split range.

        And one that names the first strip of it.
        """
        cut, scaled = self.cut, self.stage.scale
        if cut.split is None:
            return
        base = scaled(self.number, cut.size)
        self.start = self._bind_range(opened, axis_of(cut.split).size, base)
        if cut.strip:
            strips = -(-size_of(cut.split) // cut.strip)
            first = scaled(self.number, cut.size // cut.strip)
            self.first_strip = self._bind_range(opened, strips, first)

    def _bind_range(self, opened: ExitStack, size: int, value: str) -> Node:
        """A range that has one value while the block is open."""
        node = self.stage.new_range(size)
        opened.enter_context(self.stage.at(node, value))
        return node

    def spans(self, steps: Mapping[Node, RangeTiling] = NO_STEPS) -> dict[Node, Span]:
        """The part of the split range that is in the block, in its steps."""
        split = self.cut.split
        if split is None:
            return {}
        width = steps.get(split, _ONE).width
        total = -(-axis_of(split).size // width)
        each = self.cut.size // width
        assert each * width == self.cut.size
        first = self.stage.scale(self.number, each)
        last = self.stage.scale(self.number, each, each)
        number = self.stage.values.number(total)
        last = lowest(self.stage.writer, last, number)
        return {split: Span(first, last, each == 1)}

    def divides(self, width: int) -> bool:
        """Does every block begin at a multiple of `width`?"""
        return self.cut.size % width == 0

    def terms(self, part: Term) -> list[Node]:
        """The position in the block, as the terms of a place in memory."""
        cut, found = self.cut, list[Node]()
        for r, step in cut.steps(part.weight, part.ranges).items():
            if r is not cut.split or self.start is None:
                found.append(mul(r, const(step, INDEX)))
            elif not part.strips:
                found.append(mul(sub(r, self.start), const(step, INDEX)))
            else:
                assert self.first_strip is not None
                width, stride = const(cut.strip, INDEX), const(part.strips, INDEX)
                found.append(mul(sub(div(r, width), self.first_strip), stride))
                found.append(rem(r, width))
        return found

    def extent(self, r: Node) -> str:
        """How far a range goes in this block, which may be the last and short."""
        size = axis_of(r).size
        if r is not self.cut.split or self.start is None:
            return literal(size)
        if size % self.cut.size == 0:
            return literal(self.cut.size)
        return self._length()

    def _length(self) -> str:
        """Of the part of the split range."""
        (span,) = self.spans().values()
        text = f"sub i64 {span.last}, {span.first}"
        return self.stage.writer.pure(text, span.last, span.first)

    def count(self) -> str:
        """Positions in this block, which may be the last and short."""
        cut = self.cut
        if cut.split is None:
            return literal(cut.length)
        return self.stage.scale(self._length(), cut.length // cut.size)


class VectorBlock(Block):
    """Rows of a block that is open, from a whole vector on."""

    def __init__(self, rows: Block, cut: VectorRows) -> None:
        super().__init__(rows.stage, replace(rows.cut, size=cut.length), literal(0))
        ((self.axis, self.rows),) = rows.spans().items()
        self.lanes = cut.lanes

    def open(self, opened: ExitStack) -> None:
        stage, lanes, begin = self.stage, self.lanes, self.rows.first
        whole = stage.writer.pure(f"udiv i64 {begin}, {lanes}", begin)
        size = size_of(self.axis)
        self.start = self._bind_range(opened, size, stage.scale(whole, lanes))

    def spans(self, steps: Mapping[Node, RangeTiling] = NO_STEPS) -> dict[Node, Span]:
        pure, begin = self.stage.writer.pure, self.rows.first
        width = steps.get(self.axis, _ONE).width
        up = self.stage.scale(self.rows.last, 1, width - 1)
        first = pure(f"udiv i64 {begin}, {width}", begin)
        return {self.axis: Span(first, pure(f"udiv i64 {up}, {width}", up))}

    def divides(self, width: int) -> bool:
        return width <= self.lanes


# Panels.


def fill_panel(
    memory: Scratch,
    node: Node,
    parts: Sequence[Term],
    blocks: Sequence[Block],
    lanes: int,
) -> None:
    """Evaluates `node` for two blocks, into a panel.

    Args:
      parts: where its elements stand; along the last one they are side by side.
      blocks: of the parts.
      lanes: of a vector at most.
    """
    stage, facts = memory.stage, memory.stage.facts
    ranges = [r for part in parts for r in part.ranges]
    minor, pairs = ranges[-1], zip(parts, blocks, strict=True)
    index = sum_of([t for part, block in pairs for t in block.terms(part)])
    vector = _vector_of(node, ranges, minor, blocks, lanes, facts)
    width = _lanes_of(node, vector, blocks, lanes)
    store = Store(memory.number, index, node)
    steps = {vector: RangeTiling(width, _copies(vector, width, blocks))}
    if vector is not minor:
        steps[vector] = RangeTiling(width)
        steps[minor] = RangeTiling(0, width, False)
    spans: dict[Node, Span] = {}
    for block in blocks:
        spans |= {r: s for r, s in block.spans(steps).items() if r in ranges}
    if vector is minor:
        outer = [r for r in ranges if r is not vector]
        along = outer[-1] if outer and ranges[-1] is vector else None
        rows = along and _rows_ahead(node, vector, along, blocks, stage)
        later = prefetch_along([node], along, rows, facts) if along and rows else None
        stage.run(ranges, [store], steps, spans, prefetch_along=later)
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
    if not far or not stage.target.decides("prefetch"):
        return 0
    split = [b.cut.size for b in blocks if b.cut.split is vector]
    piece = min([size_of(vector), *split]) * size
    pitch = abs(stage.facts.affine[index_of(node)].terms.get(along, 0)) * size
    return -(-_PREFETCHED // piece) if pitch > piece else 0


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
    most = blocks[0].stage.target.most_strided
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
    widest = max([node.dtype.itemsize, *loads])
    return fit_lanes(r, blocks, min(target.vector_bytes // widest, lanes))


# Images: operands that windows see are evaluated once for each line.


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
    others: Block,
    columns: Block | None,
    lanes: int,
) -> None:
    """Evaluates the operand for a block.

    Args:
      along: the block that windows slide along.
      others: of what the image has beside its lines.
      columns: of groups; vectors run along them.
      lanes: of a vector at most.
    """
    stage, lines = memory.stage, _lines_of(image, along)
    (value,) = substitute([image.node], lines.moved)
    if lines.within is not None:
        value = _load_within(value, lines.within)
    terms = [*lines.terms, *others.terms(image.others)]
    ranges, blocks = [*image.others.ranges, *lines.ranges], [along, others]
    if image.channels_last:
        ranges = [*lines.ranges, *image.others.ranges]
    if columns is not None and image.columns is not None:
        terms += columns.terms(image.columns)
        ranges += image.columns.ranges
        blocks.append(columns)
    last, spans = ranges[-1], lines.spans
    vector, splits = last, [block.cut.split for block in blocks]
    if columns is not None:
        stage.facts.learn([value])
        whole = [r for r in ranges if r not in spans]
        vector = _vector_of(value, whole, last, blocks, lanes, stage.facts)
    steps = {vector: RangeTiling(fit_lanes(vector, blocks, lanes))}
    if vector is not last:
        steps[last] = RangeTiling(0, steps[vector].width, False)
        ranges = [*(r for r in ranges if r not in (last, vector)), last, vector]
    elif columns is not None and ranges[-2] not in (*spans, *splits):
        steps[ranges[-2]] = RangeTiling(0, _COPIES, False)
    for block in blocks:
        if block.cut.split in ranges:
            spans |= block.spans(steps)
    store = Store(memory.number, sum_of(terms), value)
    stage.run(ranges, [store], steps, spans, squares=vector is not last)


def _lines_of(image: Image, along: Block) -> _Lines:
    stage, found, cut = along.stage, _Lines(), image.along
    sizes = dict(zip(cut.within, cut.extents, strict=True))
    windows = {window.column: (window, group) for window, group in image.windows}
    axes = cut.order or cut.within
    for axis in axes:
        start = along.start if axis is cut.split else None
        if axis not in windows:
            found.ranges.append(axis)
            found.terms += along.terms(Term(cut, image.steps[axis], (axis,)))
            continue
        window, group = windows[axis]
        by = window.stride // group.stride
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
        if axis is axes[-1] and (image.columns or not image.channels_last):
            # A vector may reach beyond the last pixel.
            place = add(line, mul(start, const(by, INDEX)))
            all_of_them = window.reach(window.pixels, group)
            found.within = lt(place, const(all_of_them, INDEX))
        else:
            behind = window.reach(cut.size, group) - by * cut.size
            last = stage.scale(along.extent(axis), by, behind)
            found.spans[line] = Span(literal(0), last)
    return found


def _times(line: Node, by: int) -> Node:
    return mul(line, const(by, INDEX)) if by else const(0, INDEX)


def _load_within(value: Node, valid: Node) -> Node:
    """The same; nothing is read where it is not valid."""
    moved: dict[Node, Node] = {}
    for n in toposort([value]):
        if n.op is load_p:
            both = [bit_and(valid, condition) for condition in n.src[2:]]
            moved[n] = load(n.src[0], n.src[1], both[0] if both else valid)
    return substitute([value], moved)[0]
