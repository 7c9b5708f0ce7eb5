"""Depthwise convolutions with channels first: lanes are channels all the same.

    out[g, p] = f(the sum over t of left(g, p + t) · right(g, t), …)

Vectors along the pixels are half empty where lines are short, lie across the lines of
the cache for every tap but one, and must be picked apart where windows move by more
than one. So the pixels that a block sees are turned once, into a panel with channels
side by side, in which taps and strides are distances (see `convolution/nhwc.py`), and
the sums are turned back:

    panel left[pixel, g] <- left               masked, strided or fused as it is; turned
    panel right[t, g] <- right
    for each line of the block:
        panel sums[p, g] <- left · right
        panel turned[g, p] <- sums
        out <- f(turned)

Short lines are turned back together, where they lie side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ftrace.devices.llvm.contraction.find import Contraction, product_loop
from ftrace.devices.llvm.convolution.grouped import Pixels, laid_flat
from ftrace.devices.llvm.convolution.nchw_plan import fill_cost, is_sum_of_products
from ftrace.devices.llvm.convolution.nhwc import Image, SlidingRowsProduct
from ftrace.devices.llvm.convolution.nhwc_plan import (
    SlidingRows,
    as_rows,
    group_vectors,
    in_cache,
    taps_of_pixel,
)
from ftrace.devices.llvm.emit.blocked_ranges import Block, Cut, run_stores
from ftrace.devices.llvm.emit.pack_panel import fill_panel
from ftrace.devices.llvm.emit.register_transpose import TurningNest
from ftrace.devices.llvm.emit.staged_kernel import Stage, replaced_stores, sum_of
from ftrace.devices.llvm.schedule.index_facts import Facts
from ftrace.devices.llvm.schedule.tiling_ir import Steps, size_of
from ftrace.devices.llvm.target import Target
from ftrace.lower.kernel.ir import INDEX, Kernel, Store, axis_of
from ftrace.lower.kernel.loop_tree import Statement
from ftrace.trace.graph import Node
from ftrace.trace.primitives.elementwise import mul
from ftrace.trace.primitives.sources import const

#: Taps for each pixel that is turned at least.
_LEAST_TAPS = 3.0
#: The part of a vector that lines fill at least, or they are turned back together.
_FULL = 0.8


def find_channels(
    kernel: Kernel, block: Sequence[Statement], facts: Facts, target: Target
) -> Contraction | None:
    """The kernel as products of channels that do not lie side by side, if it is one."""
    loop = product_loop(kernel, block)
    if loop is None or len(kernel.stores) != 1:
        return None
    (total,), (store,) = loop.reduces, kernel.stores
    term = total.src[0]
    terms = facts.affine[store.index].terms
    axes = [a for a in kernel.axes if size_of(a) > 1]
    for left, right in (term.src, term.src[::-1]):
        of_left, of_right = facts.free[left], facts.free[right]
        both = [a for a in axes if a in of_left and a in of_right]
        rows = [a for a in axes if a in of_left and a not in of_right]
        if len(both) != 1 or len(rows) + 1 != len(axes) or not rows:
            continue
        lanes = target.vector_bytes // total.dtype.itemsize
        if terms.get(rows[-1]) != 1 or 2 * size_of(both[0]) < lanes:
            continue
        plan = Contraction(
            (), tuple(rows), tuple(both), loop.ranges, (left,), (right,), (),
            (total,), False,
        )  # fmt: skip
        if is_sum_of_products(kernel, plan):
            return plan
    return None


def find_across(plan: Contraction, facts: Facts, target: Target) -> SlidingRows | None:
    """Such a product as a convolution whose operands are turned, if that pays."""
    found = as_rows(plan, facts, target, group_vectors(plan, target))
    if found is None or found.others or size_of(found.pixel) < 2:
        return None
    if fill_cost(found.left, found.pixel, facts, 16) is None:
        return None
    found = replace(found, groups=True)
    if not found.lines:
        found = replace(found, size=axis_of(found.pixel).size)
    return None if taps_of_pixel(found) < _LEAST_TAPS else in_cache(found, target)


class AcrossProduct(SlidingRowsProduct):
    """Emits such a convolution into a stage."""

    def __init__(self, sliding: SlidingRows, stage: Stage) -> None:
        super().__init__(sliding, stage)
        s, lanes = sliding, self.lanes
        self.flat_pixel = stage.new_range(self.rows.length)
        self.together = False
        if len(s.lines) == 1 and self.rows.split is None:
            filled = self.width / (-(-self.width // lanes) * lanes)
            self.together = filled < _FULL and self._laid_flat() is not None
        self.kept = self.together

    def _laid_flat(self) -> dict[Node, Node] | None:
        """What stands for the line and the pixel in the stores, if they allow it."""
        s, stage = self.sliding, self.stage
        parts = [e for store in stage.kernel.stores for e in store.expressions]
        (line,) = s.lines
        known = [self.total]
        return laid_flat(parts, (line, s.pixel), self.flat_pixel, stage.facts, known)

    def _allocate(self) -> None:
        super()._allocate()
        count = self.rows.length if self.together else self.width
        pitch = -(-count // self.lanes) * self.lanes
        channels = self.columns.length
        self.turned = self.stage.new_panel(self.total.dtype, channels, pitch, True)

    def _evaluate(
        self,
        image: Image,
        value: Node,
        pixels: Pixels,
        depth: Block,
    ) -> None:
        stage = self.stage
        *others, line = pixels.ranges
        (channel,) = self.columns.within
        lanes = self.lanes
        while lanes > 1 and lanes >= 2 * axis_of(line).size:
            lanes //= 2
        steps = {line: Steps(lanes), channel: Steps(0, lanes, False)}
        spans = pixels.spans | self.block.spans(steps)
        index = sum_of([*pixels.terms, *self.block.terms(1)])
        store = Store(image.panel.number, index, value)
        stage.run([*others, channel, line], [store], steps, spans, TurningNest)

    def _complete(self) -> None:
        """All lines are turned back together."""
        if self.kept:
            self._turn_back(self.flat_pixel, self._laid_flat() or {})

    def _finish(self) -> None:
        self._turn_back(self.sliding.pixel, {})

    def _turn_back(self, pixel: Node, moved: dict[Node, Node]) -> None:
        stage, block = self.stage, self.block
        inside = Block(stage, Cut((), None, 1, (pixel,)), "0")
        place = [mul(pixel, const(self.pitch, INDEX)), *block.terms(1)]
        sums = self.sums.load(sum_of(place))
        stage.facts.learn([sums])
        fill_panel(self.turned, sums, pixel, block, inside, block, self.lanes)
        back = [*block.terms(self.turned.pitch), pixel]
        found = {self.total: self.turned.load(sum_of(back)), **moved}
        stores = replaced_stores(stage.kernel.stores, found)
        axes = [*block.cut.within, pixel]
        run_stores(stage, stores, axes, [block], self.lanes)
