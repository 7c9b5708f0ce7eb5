"""Gradients of convolutions by their filters: the window is what is left of the sum.

    out[c, t, j] = f(the sum over p of left(c, p + t) · right(p, j), …)

The taps t are axes of the result, and the sum runs over the pixels. The left operand is
evaluated once for each pixel that a block sees, into a panel with padding; its numbers
are spread over vectors one at a time, so that taps, strides and dilations are distances
in it. The right operand is evaluated once for each pixel, columns side by side. A tile
is the taps of some channels, and vectors of columns:

    for each block of pixels p:
        panel left[c, pixel] <- left               masked or fused as it is
        panel right[p, j] <- right                 unless it is plain; turned
        panel sums[c, t, j] <- sums + left · right
    out <- f(sums)

A unit has all pixels: the result does not depend on how units are shared.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

from ftrace.devices.llvm.contraction.find import Contraction
from ftrace.devices.llvm.contraction.find_windows import Window, find_windows
from ftrace.devices.llvm.contraction.microkernel import (
    Place,
    Tile,
    Walk,
    open_tiles,
)
from ftrace.devices.llvm.convolution.emitter import SlidingEmitter
from ftrace.devices.llvm.convolution.grouped import (
    Pixels,
    cut_groups,
    spread_groups,
)
from ftrace.devices.llvm.convolution.nchw_plan import (
    fill_cost,
    is_sum_of_products,
    step_sizes,
)
from ftrace.devices.llvm.convolution.skip_padding import (
    Seen,
    can_look_through,
    is_finite,
)
from ftrace.devices.llvm.emit.blocked_ranges import Block, Cut, run_stores
from ftrace.devices.llvm.emit.loop_nest import Span
from ftrace.devices.llvm.emit.staged_kernel import Stage, replaced_stores, sum_of
from ftrace.devices.llvm.ir.types import Type
from ftrace.devices.llvm.schedule.index_facts import Facts
from ftrace.devices.llvm.schedule.register_tiles import step_cycles
from ftrace.devices.llvm.schedule.tiling_ir import Steps, Tiles, cut, size_of
from ftrace.devices.llvm.target import Target
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.kernel.ir import INDEX, Kernel, Store, axis_of, load, load_p
from ftrace.trace.graph import Node, substitute, toposort
from ftrace.trace.primitives.elementwise import add, bit_and, lt, mul
from ftrace.trace.primitives.sources import const

#: Taps of all windows at most: their tiles are written one after the other.
_MOST_TAPS = 128
#: Vectors of a block of columns.
_VECTORS = 8
#: Rows of a unit at least, where there are more than cores need: each fills a panel.
_LEAST_ROWS = 48
#: The part of L2 that each panel may take.
_SHARE = 4


@dataclass(frozen=True, eq=False)
class SlidingSum:
    """How a contraction is the gradient of a convolution by its filters.

    Attributes:
      plan: the contraction.
      windows: each of a pixel range and an axis of taps.
      left, right: the operand that slides, and the other one.
      channel: the axis that the left one has beside its taps, if any.
      columns: the axis of the right one; of groups, the two that lie side by side.
      others: what is summed over beside the pixels.
      channels_last: the left one is evaluated in vectors of channels.
      groups: columns are groups and their places (see `convolution/grouped.py`); the
        panel of the left operand has a vector where it would have a number.
    """

    plan: Contraction
    windows: tuple[Window, ...]
    left: Node
    right: Node
    channel: Node | None
    columns: tuple[Node, ...]
    others: tuple[Node, ...]
    channels_last: bool
    groups: bool = False

    @property
    def taps(self) -> list[int]:
        return [w.taps for w in self.windows]


def find_sliding_sum(
    kernel: Kernel, plan: Contraction, facts: Facts, target: Target
) -> SlidingSum | None:
    """The contraction as such a gradient, if it is one."""
    if not is_sum_of_products(kernel, plan):
        return None
    rows = (plan.left[0], plan.right[0], plan.rows, plan.columns)
    columns = (plan.right[0], plan.left[0], plan.columns, plan.rows)
    for left, right, slid, still in (rows, columns):
        found = _as_sliding(plan, left, right, slid, still, facts)
        if found is None:
            continue
        lanes = target.vector_bytes // right.dtype.itemsize
        if len(still) == 1 and 4 * size_of(still[0]) >= lanes:
            return found
    return None


def find_grouped_sum(plan: Contraction, facts: Facts) -> SlidingSum | None:
    """The product of groups as such a gradient, if it is one."""
    (left,), (right,) = plan.left, plan.right
    found = _as_sliding(plan, left, right, plan.rows, plan.columns, facts)
    return None if found is None else replace(found, groups=True, channels_last=True)


def _as_sliding(
    plan: Contraction,
    left: Node,
    right: Node,
    slid: Sequence[Node],
    still: Sequence[Node],
    facts: Facts,
) -> SlidingSum | None:
    """The same with `left` as the operand that slides."""
    windows, beside = _windows(left, plan.ranges, slid, facts)
    if not windows or len(beside) > 1 or prod(w.taps for w in windows) > _MOST_TAPS:
        return None
    windows.sort(key=lambda w: slid.index(w.tap))
    pixels = [w.column for w in windows]
    walk = step_sizes(left, plan.ranges, facts)
    others = sorted((r for r in plan.ranges if r not in pixels), key=lambda r: -walk[r])
    channel = beside[0] if beside else None
    last = fill_cost(left, pixels[-1], facts, 16) is None
    side = channel or (still[0] if still[0] in facts.free[left] else None)
    if last and (side is None or fill_cost(left, side, facts, 16) is None):
        return None
    return SlidingSum(
        plan, tuple(windows), left, right, channel, tuple(still), tuple(others), last
    )


def _windows(
    left: Node, pixels: Sequence[Node], slid: Sequence[Node], facts: Facts
) -> tuple[list[Window], list[Node]]:
    """The windows, and the axes beside them.

    Windows that share no pixel (their stride is not less than they are long) save
    nothing; but beside others they make an axis that is not left over.
    """
    found = [
        w
        for w in find_windows(left, pixels, slid, facts, saving=False)
        if not w.turned and min(w.stride, w.dilation) == 1 and 2 * w.taps <= w.pixels
        if w.stride <= 2 * w.taps  # else most of the panel would not be read
    ]
    step = step_sizes(left, slid, facts)
    found.sort(key=lambda w: (w.share(w.pixels) >= 1, step[w.tap]))
    chosen: dict[Node, Window] = {}
    for window in found:
        saves = window.share(window.pixels) < 1
        if saves or (chosen and len(slid) - len(chosen) > 1):
            chosen.setdefault(window.tap, window)
    return list(chosen.values()), [a for a in slid if a not in chosen]


class SlidingSumProduct(SlidingEmitter):
    """Emits such a gradient into a stage."""

    adds = True  # parts of the taps are added to their sums

    def __init__(self, sliding: SlidingSum, stage: Stage) -> None:
        self.sliding = s = sliding
        super().__init__(s.plan, s.columns, stage, s.groups)
        self.outer = s.plan.outer
        self.count = prod(s.taps)
        self.rows = self._cut_channels()
        self.seen, self.finite = self._find_seen(), ""
        self.depth = self._cut_pixels()

    def _cut_columns(self) -> Cut:
        """Blocks of columns: whole vectors, where they are not all in one."""
        s = self.sliding
        total = prod(axis_of(a).size for a in s.columns)
        if s.groups:
            return cut_groups(s.columns, self._vectors_of_groups(total) * self.lanes)
        (column,) = s.columns
        vectors = -(-total // self.lanes)
        each = -(-vectors // -(-vectors // _VECTORS))
        if each < vectors:
            return Cut((), column, each * self.lanes, ())
        return Cut((), None, 1, (column,))

    def _vectors_of_groups(self, total: int) -> int:
        """Of a block: long rows of memory, but as much for each core."""
        s = self.sliding
        if s.channel is not None:  # vectors stay near each other
            return 1
        vectors = -(-total // self.lanes)
        cores = -(-self.stage.target.cores // prod(map(size_of, s.plan.outer)))
        rounds = -(-vectors // (_VECTORS * cores))
        return -(-vectors // (rounds * cores))

    @property
    def _room(self) -> int:
        """Elements of a panel."""
        return self.stage.target.l2 // _SHARE // self.item

    def _cut_channels(self) -> Cut:
        """Blocks of channels: enough units, whose sums fit into the second cache."""
        s, cores = self.sliding, self.stage.target.cores
        if s.channel is None:
            return Cut((), None, 1, ())
        whole = axis_of(s.channel).size
        if s.groups:
            return Cut((), None, 1, (s.channel,))
        others = prod(size_of(a) for a in s.plan.outer) * self.columns.blocks
        size = whole
        for n in range(1, whole + 1):
            if whole % n:
                continue
            fits = whole // n * self.count * self.pitch <= self._room
            if n > 1 and fits and whole // n * self.count < _LEAST_ROWS:
                break
            size = whole // n
            if fits and n * others >= 2 * cores:
                break
        if size == whole:
            return Cut((), None, 1, (s.channel,))
        return Cut((), s.channel, size, ())

    def _find_seen(self) -> dict[int, Seen]:
        """Windows, by number, of which some taps see padding alone for a while.

        A tile has taps side by side of all windows but the first, where it has more
        than one.
        """
        s = self.sliding
        if s.groups:
            return {}
        windows = s.windows if s.channels_last else s.windows[:1]
        rows = max(self.rows.length, 1) * self.count
        found = self._find_padding(s.left, dict.fromkeys(windows, 1), rows)
        return {s.windows.index(window): seen for window, seen in found.items()}

    def _cut_pixels(self) -> Cut:
        """Blocks of lines: what a tile reads of the right panel stays near it."""
        s = self.sliding
        first, *rest = [w.column for w in s.windows]
        inside = prod(axis_of(r).size for r in rest)
        line = prod(_reach(w, axis_of(w.column).size) for w in s.windows[1:])
        step = s.windows[0].stride * line * max(self.rows.length, 1) * self.each
        strip = inside * self._tile()[0] * self.lanes
        near = self.stage.target.l1 // 2 // self.item
        most = max(min(self._room // max(inside * self.pitch, step), near // strip), 1)
        size = axis_of(first).size
        if most >= size:
            return Cut(s.others, None, 1, (first, *rest))
        size = -(-size // -(-size // most))
        if not rest:  # turned in squares
            size = max(most // self.lanes, 1) * self.lanes
        return Cut(s.others, first, size, tuple(rest))

    def _allocate(self) -> None:
        s, stage = self.sliding, self.stage
        extents = dict(zip(self.depth.within, self.depth.extents, strict=True))
        self.reach = [_reach(w, extents[w.column]) for w in s.windows]
        count = max(self.rows.length, 1)
        each = count * self.each if s.channels_last else 1
        lines = range(1, len(self.reach) + 1)
        self.weights = [prod(self.reach[n:]) * each for n in lines]
        self.line = self.each if s.channels_last else prod(self.reach)
        if self.line * self.item % 1024 == 0:  # they would share sets of the cache
            self.line += self.lanes
        rows, pitch = count, self.line
        if s.channels_last:
            rows, pitch = prod(self.reach), each
        self.image = stage.new_panel(s.left.dtype, rows, pitch)
        stage.fill(self.image, 0)
        self.right = self.flat.factor(s.right, self.depth, (), self.pitch)
        if self.right.panel is not None:
            stage.fill(self.right.panel, 0, self.columns.length)
        rows = count * self.count
        self.sums = stage.new_panel(self.total.dtype, rows, self.pitch)
        blocks = Block(stage, self.depth, "0"), Block(stage, self.columns, "0")
        if not can_look_through(self.right, *blocks):
            self.seen = {}

    # Panels.

    def _fill_image(self, depth: Block) -> None:
        """Evaluates the left operand once for each pixel that the block sees."""
        s, stage = self.sliding, self.stage
        moved: dict[Node, Node] = {}
        spans: dict[Node, Span] = {}
        ranges: list[Node] = []
        within: Node | None = None
        terms: list[Node] = []
        for window, reach, weight in zip(
            s.windows, self.reach, self.weights, strict=True
        ):
            line = stage.new_range(reach)
            pixel, split = window.column, window.column is self.depth.split
            start = depth.start if split and depth.start is not None else None
            if window.dilation == 1:  # the first pixel's tap of that number
                moved[window.tap] = line
                moved[pixel] = const(0, INDEX) if start is None else start
            else:
                moved[window.tap] = const(0, INDEX)
                moved[pixel] = line if start is None else add(line, start)
            if start is not None and axis_of(pixel).size % self.depth.size:
                by = window.stride
                behind = reach - by * self.depth.size
                if len(s.windows) > 1 or s.channels_last:
                    count = stage.scaled(depth.extent(pixel), by, behind)
                    spans[line] = Span("0", count)
                else:  # a vector may reach beyond the last pixel
                    place = add(line, mul(start, const(by, INDEX)))
                    whole = const(_reach(window, window.pixels), INDEX)
                    within = lt(place, whole)
            terms.append(mul(line, const(weight, INDEX)))
            ranges.append(line)
        (value,) = substitute([s.left], moved)
        if within is not None:
            value = _loaded_within(value, within)
        if s.groups and spread_groups(
            self.image, value, s.columns, self.row, self.block, self.pitch,
            Pixels(terms, ranges, spans),
        ):  # fmt: skip
            return
        terms += self.row.terms(self.line)
        lanes = self.lanes
        if s.groups:
            ranges += [*self.rows.within, *self.columns.within]
            terms += self.block.terms(1)
            spans |= self.block.spans({})
            while not self.block.fits(ranges[-1], lanes):
                lanes //= 2
            spans |= self.block.spans({ranges[-1]: Steps(lanes)})
        elif s.channels_last:
            ranges += self.rows.within
            while lanes > 1 and self.rows.length % lanes:
                lanes //= 2
        else:
            ranges = [*self.rows.within, *ranges]
            while lanes >= 2 * axis_of(ranges[-1]).size:
                lanes //= 2
        store = Store(self.image.number, sum_of(terms), value)
        steps = {ranges[-1]: Steps(lanes)}
        stage.run(ranges, [store], steps, spans | self.row.spans(steps))

    # The sums.

    def _multiply(self, depth: Block) -> None:
        """One block of pixels: the panels, and the tiles over them."""
        stage, writer = self.stage, self.stage.writer
        self._fill_image(depth)
        right = self.flat.of_right(self.block)
        self.right.fill(depth, right, self.lanes)
        buffer, walks = stage.values.buffer, self._walks(depth)
        image = Place(buffer(self.image.number))
        if self.seen:
            self.finite = is_finite(self.right, depth, right)
        right = self.right.place(depth, right)
        sums = Place(buffer(self.sums.number))
        for columns, channels, first, last in self._tiles():
            across = open_tiles(writer, columns)
            down = open_tiles(writer, channels)
            offsets = self._offsets(channels.copies, first, last)
            t = Type.of(self.total.dtype, self.lanes)
            tile = Tile(
                t, len(offsets), columns.copies, 0, tuple(offsets), self.sliding.groups
            )
            state = [t.zero] * (tile.rows * tile.vectors)
            a = image.plus((self.line, down.index))
            if self.sliding.groups:
                a = a.plus((self.lanes, across.index))
            b = right.plus((self.lanes, across.index))
            taken = list(walks)
            for n, seen in self.seen.items():
                start, count = self._part(n, seen, walks[n], depth, first, last)
                taken[n] = walk = replace(walks[n], count=count)
                a, b = a.plus((walk.left, start)), b.plus((walk.right, start))
            state = self.micro.sums(tile, taken, a, b, state)
            out = sums.plus(
                (self.pitch * self.count, down.index), (self.lanes, across.index),
                constant=first * self.pitch,
            )  # fmt: skip
            each = last - first
            of_channel = replace(tile, rows=each, offsets=tuple(offsets[:each]))
            for n in range(channels.copies):
                part = state[n * each * tile.vectors : (n + 1) * each * tile.vectors]
                here = out.plus(constant=n * self.pitch * self.count)
                self.micro.keep(of_channel, part, here, self.pitch, True)
            writer.close_loop(down)
            writer.close_loop(across)

    def _part(
        self, number: int, seen: Seen, walk: Walk, depth: Block, first: int, last: int
    ) -> tuple[str, str]:
        """The pixels along a window that some taps see: the first, and how many."""
        taps = list(itertools.product(*map(range, self.sliding.taps)))[first:last]
        start, writer = "0", self.stage.writer
        if seen.window.column is depth.cut.split:
            start = self.stage.scaled(depth.number, depth.cut.size)
        of_window = [tap[number] for tap in taps]
        return seen.part(writer, of_window, start, walk.count, self.finite)

    def _tiles(self) -> Iterator[tuple[Tiles, Tiles, int, int]]:
        """Tiles of vectors, of channels, and their taps: the first, and one beyond."""
        vectors, channels, parts = self._tile()
        edges = [n * self.count // parts for n in range(parts + 1)]
        for columns in cut(self.vectors, Steps(0, vectors)):
            for rows in cut(max(self.rows.length, 1), Steps(0, channels)):
                for first, last in itertools.pairwise(edges):
                    yield columns, rows, first, last

    def _tile(self) -> tuple[int, int, int]:
        """The best tile: vectors, channels, and in how many parts the taps are."""
        registers = self.stage.target.registers
        total = max(self.rows.length, 1)
        best, least = (1, 1, self.count), float("inf")
        for vectors in range(1, min(self.vectors, 4) + 1):
            room = max((registers - 2 - vectors) // vectors, 1)
            if self.sliding.channels_last and not self.sliding.groups:
                # numbers side by side
                channels, parts = min(room, total), self.count
            else:
                whole = self.sliding.taps[0] if self.seen else 1
                each = self.count // whole
                channels = min(max(room // each, 1), total)
                parts = -(-each // room) * whole
            rows = -(-self.count // parts) * channels
            whole, rest = divmod(self.vectors, vectors)
            cycles = whole * step_cycles(rows, vectors)
            cycles += step_cycles(rows, rest) if rest else 0.0
            cycles *= parts * -(-total // channels)
            if cycles < least * 0.999:
                best, least = (vectors, channels, parts), cycles
        return best

    def _offsets(self, channels: int, first: int, last: int) -> list[int]:
        """Where the rows of a tile begin in the panel of the image."""
        s = self.sliding
        taps = list(itertools.product(*map(range, s.taps)))[first:last]
        steps = [
            w.dilation * weight
            for w, weight in zip(s.windows, self.weights, strict=True)
        ]
        return [
            channel * self.line + sum(k * n for k, n in zip(tap, steps, strict=True))
            for channel in range(channels)
            for tap in taps
        ]

    def _walks(self, depth: Block) -> list[Walk]:
        """The loops over the pixels of a block."""
        right = self.right.steps()
        return [
            Walk(depth.extent(w.column), w.stride * weight, right.get(w.column, 0))
            for w, weight in zip(self.sliding.windows, self.weights, strict=True)
        ]

    # What becomes of the sums.

    def _complete(self) -> None:
        """The kernel's own stores, with the sums read from their panel."""
        s, stage = self.sliding, self.stage
        stores, moved, block = self.flat.of_stores(self.total, self.block)
        terms = [*self.row.terms(self.count * self.pitch), *block.terms(1)]
        taps = Cut((), None, 1, tuple(w.tap for w in s.windows))
        terms += Block(stage, taps, "0").terms(self.pitch)
        found = {self.total: self.sums.load(sum_of(terms)), **moved}
        stores = replaced_stores(stores, found)
        inside = {*s.columns, *[w.tap for w in s.windows]}
        inside |= {s.channel} if s.channel is not None else set()
        axes = [a for a in stage.kernel.axes if a in inside]
        if moved:
            axes = [a for a in axes if a not in s.columns] + [*block.cut.within]
        lanes = 1 if axes[-1] is s.channel is self.rows.split else self.lanes
        run_stores(stage, stores, axes, [block, self.row], lanes)


def _reach(window: Window, pixels: int) -> int:
    """Pixels of the image that so many windows in a row see."""
    return window.stride * (pixels - 1) + window.dilation * (window.taps - 1) + 1


def _loaded_within(value: Node, valid: Node) -> Node:
    """The same; nothing is read where it is not valid."""
    moved: dict[Node, Node] = {}
    for n in toposort([value]):
        if n.op is load_p:
            both = [bit_and(valid, condition) for condition in n.src[2:]]
            moved[n] = load(n.src[0], n.src[1], both[0] if both else valid)
    return substitute([value], moved)[0]
