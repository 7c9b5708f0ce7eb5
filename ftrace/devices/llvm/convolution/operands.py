"""The operands of a convolution in a stage: one slides, the other does not.

The *image* slides: it is evaluated once for each line that is seen, into a panel in
which taps, strides and dilations are distances. A group has too few places for a
vector; but groups lie side by side, so that a vector has all places of some groups.
Each lane then has a number of its own, spread into the panel once, which serves all
taps. Channels that do not mix at all (depthwise) are groups of one place, and need no
spreading.

The other one is read where it stands, or from a panel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from ftrace.devices.affine_forms import Affine
from ftrace.devices.llvm.contraction.find import plain_form
from ftrace.devices.llvm.convolution.find import Group
from ftrace.devices.llvm.convolution.microkernel import Place
from ftrace.devices.llvm.convolution.schedule import Sliding, laid_flat
from ftrace.devices.llvm.emit.blocked_ranges import Block, fill_panel
from ftrace.devices.llvm.emit.loop_nest import Span
from ftrace.devices.llvm.emit.staged_kernel import Panel, Stage, sum_of
from ftrace.devices.llvm.schedule.tiling_ir import Prefetch, Spread, Steps
from ftrace.lower.kernel.ir import INDEX, Store, axis_of, load, load_p
from ftrace.trace.graph import Node, substitute, toposort
from ftrace.trace.primitives.elementwise import add, bit_and, lt, mul
from ftrace.trace.primitives.sources import const

#: How many elements ahead a pass over pixels asks for.
_AHEAD = 1024


def not_aliased(pitch: int, item: int, lanes: int) -> int:
    """A pitch with which rows do not share the sets of the first cache."""
    return pitch + lanes if pitch * item % 1024 == 0 else pitch


class Still:
    """The operand that does not slide.

    Attributes:
      panel: None where it is read where it stands.
      steps: elements from one step to the next of each range of a block.
    """

    def __init__(self, s: Sliding, stage: Stage) -> None:
        self.s, self.stage = s, stage
        self.node, self.axis, in_place = s.still
        self.positions, self.panel = s.positions, None
        self.form = plain_form(self.node, stage.facts) or Affine(0, {})
        self.steps: Mapping[Node, int] = self.form.terms
        if in_place:
            return
        free, dtype = stage.facts.free[self.node], self.node.dtype
        count = self.positions.positions(free)
        if s.by_columns:
            pitch = not_aliased(count, dtype.itemsize, s.lanes)
            self.panel: Panel | None = stage.new_panel(dtype, s.rows.length, pitch)
            self.steps = self.positions.steps(1, free) | {self.axis: pitch}
        else:
            self.panel = stage.new_panel(dtype, count, s.pitch)
            self.steps = self.positions.steps(s.pitch, free) | {self.axis: 1}

    def fill(self, depth: Block, block: Block) -> None:
        """Evaluates it for a block, unless it is read where it stands.

        Args:
          depth: of what is summed over.
          block: of its axis.
        """
        if self.panel is None:
            return
        summed = Block(self.stage, self.positions, depth.number)
        summed.start = depth.start
        blocks = (block, summed) if self.s.by_columns else (summed, block)
        fill_panel(self.panel, self.node, self.axis, *blocks, summed, self.s.lanes)

    def place(self, depth: Block, block: Block) -> Place:
        """Where it stands for the first row or column and the first step."""
        values, form = self.stage.values, self.form
        if self.panel is not None:
            return Place(values.buffer(self.panel.number))
        within = {*self.positions.within, self.axis}
        terms = {a: c for a, c in form.terms.items() if a not in within}
        for part in (depth, block):
            split = part.cut.split
            if split is not None and part.start is not None and split in form.terms:
                terms[part.start] = form.terms[split]
        found, constant = values.terms(Affine(form.constant, terms), ())
        number = self.node.src[0].arg
        assert isinstance(number, int)
        return Place(values.buffer(number), tuple(found), constant)


class Image:
    """A panel of the operand that slides: what some taps of each window see.

    Attributes:
      groups: of the taps of each window.
      steps: elements from one value to the next of each axis, range and tap.
      kinds: the same of the classes of a window, by its pixel.
    """

    def __init__(self, s: Sliding, stage: Stage, groups: tuple[Group, ...]) -> None:
        self.s, self.stage, self.groups = s, stage, groups
        free, item = stage.facts.free[s.slides], s.slides.dtype.itemsize
        self.windows = {
            w.column: (w, g) for w, g in zip(s.windows, groups, strict=True)
        }
        self.each = s.pitch if s.groups else 1
        beside = s.beside.positions(free)
        inside = beside * self.each if s.channels_last else 1
        self.steps, self.kinds, weight = dict[Node, int](), dict[Node, int](), inside
        sizes = dict(zip(s.along.within, s.along.extents, strict=True))
        for axis in self.axes[::-1]:
            if axis not in self.windows:
                self.steps[axis] = weight
                weight *= sizes[axis]
                continue
            window, group = self.windows[axis]
            self.steps[axis] = weight * (window.stride // group.apart)
            self.steps[window.tap] = weight * window.dilation
            weight *= window.reach(sizes[axis], group)
            self.kinds[axis] = weight
            weight *= group.classes
        self.sizes, rows, pitch = sizes, weight // inside, inside
        if not s.channels_last:
            rows, pitch = beside, not_aliased(weight, item, s.lanes)
        self.unit = self.each if s.channels_last else pitch
        self.steps |= s.beside.steps(self.unit, free)
        self.panel = stage.new_panel(s.slides.dtype, rows, pitch)

    @property
    def axes(self) -> Sequence[Node]:
        """As they lie in the panel, outermost first."""
        return self.s.along.order or self.s.along.within

    def fill(self, along: Block, beside: Block, columns: Block) -> None:
        """Evaluates the operand once for each line that a block sees.

        Args:
          along: the block that windows slide along.
          beside: of what the image has beside its lines.
          columns: of the columns; of groups vectors run along them.
        """
        s, stage, moved = self.s, self.stage, dict[Node, Node]()
        lanes = s.lanes
        ranges: list[Node] = []
        terms: list[Node] = []
        spans: dict[Node, Span] = {}
        within: Node | None = None
        for axis in self.axes:
            start = along.start if axis is along.cut.split else None
            if axis not in self.windows:
                ranges.append(axis)
                terms += along.terms(self.steps[axis], (axis,))
                continue
            window, group = self.windows[axis]
            by = window.stride // group.apart
            line = stage.new_range(window.reach(self.sizes[axis], group))
            weight = self.steps[window.tap] // window.dilation
            terms.append(mul(line, const(weight, INDEX)))
            number: Node = const(group.first, INDEX)
            if group.classes > 1:
                kind = stage.new_range(group.classes)
                ranges.append(kind)
                terms.append(mul(kind, const(self.kinds[axis], INDEX)))
                number = add(kind, number)
            ranges.append(line)
            # Which pixel and tap see it does not matter: by·u + dilation·v = 1.
            v = pow(window.dilation, -1, by) if by > 1 else 0
            u = (1 - window.dilation * v) // by
            pixel, tap = _times(line, u), _times(line, v)
            moved[axis] = pixel if start is None else add(pixel, start)
            moved[window.tap] = window.tap_of(add(tap, number))
            if start is None or axis_of(axis).size % along.cut.size == 0:
                continue
            if axis is self.axes[-1] and not (s.channels_last or s.groups):
                # A vector may reach beyond the last pixel.
                place = add(line, mul(start, const(by, INDEX)))
                all_of_them = window.reach(window.pixels, group)
                within = lt(place, const(all_of_them, INDEX))
            else:
                behind = window.reach(along.cut.size, group) - by * along.cut.size
                spans[line] = Span("0", stage.scaled(along.extent(axis), by, behind))
        (value,) = substitute([s.slides], moved)
        if within is not None:
            value = _loaded_within(value, within)
        known = terms, ranges, spans
        if s.groups and not s.turned and self._spread(value, beside, columns, *known):
            return
        free = stage.facts.free[s.slides]
        terms += beside.terms(self.unit, stage.facts.free[s.slides])
        others = [r for r in beside.cut.within if r in free]
        ranges = [*ranges, *others] if s.channels_last else [*others, *ranges]
        blocks = [along, beside]
        if s.groups:
            terms += columns.terms(1)
            ranges += columns.cut.within
            blocks.append(columns)
        if s.turned:
            ranges[-2:] = ranges[:-3:-1]
        last = ranges[-1]
        while lanes > 1 and not all(b.fits(last, lanes) for b in blocks):
            lanes //= 2
        steps = {last: Steps(lanes)}
        if s.turned:
            steps[ranges[-2]] = Steps(0, lanes, False)
        for block in blocks:
            if block.cut.split in ranges:
                spans |= block.spans(steps)
        store = Store(self.panel.number, sum_of(terms), value)
        again = any(group.first for group in self.groups)
        later = None if again else next_image(value, last, s)
        stage.run(ranges, [store], steps, spans, squares=s.turned, prefetch=later)

    def _spread(
        self,
        value: Node,
        beside: Block,
        columns: Block,
        terms: Sequence[Node],
        ranges: Sequence[Node],
        spans: Mapping[Node, Span],
    ) -> bool:
        """Fills the panel with whole vectors of channels, spread over their places.

        Args:
          beside: what is summed over.
          columns: the groups, and their places.
          terms, ranges, spans: of the lines.

        Returns:
          False where channels do not lie in whole vectors; then nothing is done.
        """
        stage, facts, s = self.stage, self.stage.facts, self.s
        facts.learn([value])
        held = [r for r in beside.cut.within if r in facts.free[value]]
        if not held or held[-1] is beside.cut.split:
            return False
        (*others, channel), (groups, *rest) = held, s.plan.columns
        places, channels = prod(axis_of(a).size for a in rest), axis_of(channel).size
        lanes = stage.target.vector_bytes // value.dtype.itemsize
        count = lanes // channels
        most = columns.cut.extents[0]
        while count > 1 and (most % count or axis_of(groups).size % count):
            count //= 2
        if count < 1 or channels * count < 4 or channels & (channels - 1):
            return False
        part = stage.new_range(most // count)
        inside = stage.new_range(channels * count)
        first = const(0, INDEX) if columns.start is None else columns.start
        place = add(mul(part, const(channels * count, INDEX)), inside)
        place = add(mul(first, const(channels, INDEX)), place)
        moved = laid_flat([value], (groups, channel), place, facts)
        if moved is None:
            return False
        # The channel, which is the first of them, is left out.
        apart = beside.terms(s.pitch, facts.free[value])[1:]
        (value,) = substitute([value], moved)
        index = sum_of([*terms, *apart, mul(part, const(count * places, INDEX))])
        own = {r: span for r, span in beside.spans().items() if r in others}
        if columns.start is not None:
            extent = columns.extent(groups)
            text = stage.writer.pure(f"udiv i64 {extent}, {count}", extent)
            own[part] = Span("0", text)
        stage.run(
            [*ranges, *others, part, inside], [Store(self.panel.number, index, value)],
            {inside: Steps(channels * count)}, {**own, **spans},
            spread=Spread(channels, places, count, s.pitch),
        )  # fmt: skip
        return True


def next_image(value: Node, last: Node, s: Sliding) -> Prefetch | None:
    """What is read of it, which is too short for the processor to ask for it.

    Args:
      last: along which vectors run: where no image follows, elements ahead are read.
    """
    if not s.along_pixels:
        return None
    pixels = [w.column for w in s.windows]
    others = [r for r in (*s.depth.outer, *s.depth.within) if r not in pixels]
    loads = [n for n in toposort([value]) if n.op is load_p]
    return Prefetch(loads, others[-1]) if others else Prefetch(loads, last, _AHEAD)


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
