"""The block of a cut that is open, panels of two blocks, and images.

Panels are filled as `schedule/fill.py` says. An image has its padding in it, so that
taps, strides and dilations are distances and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import field, replace
from types import MappingProxyType

from ftrace.backends.llvm.emit.loop_nest import TileSpan
from ftrace.backends.llvm.emit.staged_kernel import Scratch, StagedKernel
from ftrace.backends.llvm.ir.writer import literal, lowest
from ftrace.backends.llvm.schedule.fill import vector_of
from ftrace.backends.llvm.schedule.index_facts import index_of, sum_of
from ftrace.backends.llvm.schedule.layout import Cut, Image, Term, VectorRows, fit_lanes
from ftrace.backends.llvm.schedule.loop_tiling import RangeTiling, size_of
from ftrace.backends.llvm.schedule.prefetch import prefetch_along
from ftrace.backends.llvm.schedule.schedule_tree import Fill
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.kernel.ir import INDEX, Store, axis_of, load, load_p
from ftrace.trace.graph import Node, substitute, toposort
from ftrace.trace.primitives.elementwise import add, bit_and, div, lt, mul, rem, sub
from ftrace.trace.primitives.sources import const
from ftrace.trace.symbolic import same_size

#: Vectors of an image of groups that are filled at once: one by one 32 channels in 4
#: groups take 1.15 times as long (28², AMD EPYC).
_COPIES = 4
_ONE = RangeTiling()
#: Where every range runs one by one.
NO_STEPS: Mapping[Node, RangeTiling] = MappingProxyType({})


class Block:
    """The block of a cut, for which code is emitted while it is open.

    Args:
      number: of the block.
    """

    def __init__(self, staged: StagedKernel, cut: Cut, number: str) -> None:
        self.staged = staged
        self.cut = cut
        self.number = number
        self.start: Node | None = None
        self.first_strip: Node | None = None

    def open(self, opened: ExitStack) -> None:
        """Opens a range that names where the block begins in the split range.

        And one that names the first strip of it.
        """
        cut, scaled = self.cut, self.staged.scale
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
        node = self.staged.new_range(size)
        opened.enter_context(self.staged.at(node, value))
        return node

    def spans(
        self, steps: Mapping[Node, RangeTiling] = NO_STEPS
    ) -> dict[Node, TileSpan]:
        """The part of the split range that is in the block, in its steps."""
        split = self.cut.split
        if split is None:
            return {}
        width = steps.get(split, _ONE).width
        total = -(-axis_of(split).size // width)
        each = self.cut.size // width
        assert each * width == self.cut.size
        first = self.staged.scale(self.number, each)
        last = self.staged.scale(self.number, each, each)
        number = self.staged.values.number(total)
        last = lowest(self.staged.writer, last, number)
        return {split: TileSpan(first, last, each)}

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
        return self.staged.writer.pure(text, span.last, span.first)

    def count(self) -> str:
        """Positions in this block, which may be the last and short."""
        cut = self.cut
        if cut.split is None:
            return literal(cut.length)
        return self.staged.scale(self._length(), cut.length // cut.size)


class VectorBlock(Block):
    """Rows of a block that is open, from a whole vector on."""

    def __init__(self, rows: Block, cut: VectorRows) -> None:
        super().__init__(rows.staged, replace(rows.cut, size=cut.length), literal(0))
        ((self.axis, self.rows),) = rows.spans().items()
        self.lanes = cut.lanes

    def open(self, opened: ExitStack) -> None:
        staged, lanes, begin = self.staged, self.lanes, self.rows.first
        whole = staged.writer.pure(f"udiv i64 {begin}, {lanes}", begin)
        size = size_of(self.axis)
        self.start = self._bind_range(opened, size, staged.scale(whole, lanes))

    def spans(
        self, steps: Mapping[Node, RangeTiling] = NO_STEPS
    ) -> dict[Node, TileSpan]:
        pure, begin = self.staged.writer.pure, self.rows.first
        width = steps.get(self.axis, _ONE).width
        up = self.staged.scale(self.rows.last, 1, width - 1)
        first = pure(f"udiv i64 {begin}, {width}", begin)
        return {self.axis: TileSpan(first, pure(f"udiv i64 {up}, {width}", up))}


# Panels.


def fill_panel(memory: Scratch, fill: Fill, blocks: Sequence[Block]) -> None:
    """Evaluates an operand into its panel, for blocks of the terms of that."""
    staged, panel, steps = memory.staged, fill.panel, fill.steps
    assert not isinstance(panel, Image)
    pairs = zip(panel.terms, blocks, strict=True)
    index = sum_of([t for part, block in pairs for t in block.terms(part)])
    store = Store(memory.number, index, panel.node)
    found = [pair for block in blocks for pair in block.spans(steps).items()]
    spans = {r: span for r, span in found if r in panel.ranges}
    ranges, later = [r for r in panel.ranges if r not in steps], None
    if fill.ahead:
        later = prefetch_along(fill.prefetch, ranges[-1], fill.ahead, staged.facts)
    how = {"squares": fill.transposed, "next_square": fill.prefetch}
    ranges += reversed(steps)
    staged.run(ranges, [store], steps, spans, prefetch_along=later, **how)


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
    spans: dict[Node, TileSpan] = field(default_factory=dict[Node, TileSpan])
    moved: dict[Node, Node] = field(default_factory=dict[Node, Node])
    within: Node | None = None


def fill_image(
    memory: Scratch, fill: Fill, along: Block, others: Block, columns: Block | None,
    lanes: int,
) -> None:  # fmt: skip
    """Evaluates the operand for a block.

    Args:
      along: the block that windows slide along.
      others: of what the image has beside its lines.
      columns: of groups; vectors run along them.
      lanes: of a vector at most.
    """
    image, staged = fill.panel, memory.staged
    assert isinstance(image, Image)
    lines = _lines_of(image, along)
    value, *far = substitute([image.node, *fill.prefetch], lines.moved)
    if lines.within is not None:
        value, far = _load_within(value, lines.within), []
    terms = [*lines.terms, *others.terms(image.others)]
    ranges, blocks = [*image.others.ranges, *lines.ranges], [along, others]
    if image.channels_last:
        ranges = [*lines.ranges, *image.others.ranges]
    if columns is not None and image.columns is not None:
        terms += columns.terms(image.columns)
        ranges += image.columns.ranges
        blocks.append(columns)
    last, spans = ranges[-1], lines.spans
    vector, cuts = last, [block.cut for block in blocks]
    if columns is not None:
        staged.facts.learn([value])
        whole = [r for r in ranges if r not in spans]
        known = cuts, lanes, staged.facts, staged.target
        vector, _ = vector_of(value, whole, last, *known)
        forms = ((n, staged.facts.affine[index_of(n)]) for n in far)
        far = [n for n, form in forms if form.terms.get(vector) == 1]
    steps = {vector: RangeTiling(fit_lanes(vector, cuts, lanes))}
    if vector is not last:
        steps[last] = RangeTiling(0, steps[vector].width, False)
        ranges = [*(r for r in ranges if r not in (last, vector)), last, vector]
    elif columns is not None and ranges[-2] not in (*spans, *[c.split for c in cuts]):
        steps[ranges[-2]] = RangeTiling(0, _COPIES, False)
    for block in blocks:
        if block.cut.split in ranges:
            spans |= block.spans(steps)
    store = Store(memory.number, sum_of(terms), value)
    squares = vector is not last
    staged.run(ranges, [store], steps, spans, squares=squares, next_square=far)


def _lines_of(image: Image, along: Block) -> _Lines:
    staged, found, cut = along.staged, _Lines(), image.along
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
        line = staged.new_range(window.reach(sizes[axis], group))
        weight = image.steps[window.tap] // window.dilation
        found.terms.append(mul(line, const(weight, INDEX)))
        number: Node = const(group.first, INDEX)
        if group.classes > 1:
            kind = staged.new_range(group.classes)
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
            last = staged.scale(along.extent(axis), by, behind)
            found.spans[line] = TileSpan(literal(0), last)
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
