"""Gradients of convolutions by few filters: lanes run along the pixels.

    out[g, t] = f(the sum over i, p of left(i, g, p + t) · right(i, g, p))

Nothing is beside the taps but axes that both operands have, as in depthwise ones, so
that there are no columns for vectors; or the right operand has an axis of its own, too
short for them, whose places are written out like taps. The left operand is evaluated
once for each pixel of some images, into a panel without holes: the taps of a window
that moves by more than one pixel fall into classes (see `contraction/find_windows.py`),
and what a class sees lies side by side. Then one pass over the pixels adds up all taps,
and the right operand is read once for them:

    for each block of images i:
        panel left[class, i, line] <- left          masked, strided or fused as it is
        sums[t] <- sums[t] + the sum over i, p of left[class, i, p + step] · right
    out <- f(sums)

A unit has all pixels: the result does not depend on how units are shared.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod

from ftrace import dtypes
from ftrace.devices.llvm.contraction.find import product_loop
from ftrace.devices.llvm.contraction.find_windows import Window, find_windows
from ftrace.devices.llvm.convolution.find import fill_cost
from ftrace.devices.llvm.emit.blocked_ranges import Block, Cut, cut_ranges, each_block
from ftrace.devices.llvm.emit.staged_kernel import Stage, replaced_stores, sum_of
from ftrace.devices.llvm.schedule.index_facts import Facts
from ftrace.devices.llvm.schedule.tiling_ir import Prefetch, Steps, size_of
from ftrace.devices.llvm.target import Target
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.kernel.ir import INDEX, Kernel, Store, axis_of, load_p, reduce
from ftrace.lower.kernel.loop_tree import Statement
from ftrace.trace.graph import Node, substitute, toposort
from ftrace.trace.primitives.elementwise import add, mul
from ftrace.trace.primitives.sources import const

#: Taps of all windows at most: each is an expression of its own.
_MOST_TAPS = 64
#: Products of the whole kernel at least.
_LEAST = 1 << 14
#: Registers beside those of the sums.
_SPARE = 6
#: The part of the first cache that images of a block take; and of the second that the
#: panel of one may take.
_SHARE = 2
#: How many elements ahead of it a pass asks for, where no image follows in its unit.
_AHEAD = 1024


@dataclass(frozen=True, eq=False)
class SlidingDots:
    """How a kernel is such a gradient.

    Attributes:
      total: the sum.
      windows: each of a pixel range and an axis of taps.
      left, right: the operand that slides, and the other one.
      outer: the axes that are no taps; the left operand has them all.
      beside: axes of the right operand alone.
      others: what is summed over beside the pixels, outermost first.
      lanes: of a vector along the pixels of the last window.
    """

    total: Node
    windows: tuple[Window, ...]
    left: Node
    right: Node
    outer: tuple[Node, ...]
    beside: tuple[Node, ...]
    others: tuple[Node, ...]
    lanes: int

    @property
    def products(self) -> int:
        ranges = [*self.others, *(w.column for w in self.windows)]
        return self.sums * prod(size_of(a) for a in (*self.outer, *ranges))

    @property
    def inner(self) -> list[Node]:
        """The axes whose places are written out."""
        return [*(w.tap for w in self.windows), *self.beside]

    @property
    def sums(self) -> int:
        return prod(map(size_of, self.inner))

    @property
    def lines(self) -> list[int]:
        """What a class sees of an image, window by window."""
        return [w.pixels + max(w.halo(g.steps) for g in w.groups) for w in self.windows]

    @property
    def classes(self) -> int:
        return prod(w.classes for w in self.windows)


def find_sliding_dots(
    kernel: Kernel, block: Sequence[Statement], facts: Facts, target: Target
) -> SlidingDots | None:
    """The kernel as such a gradient, if it is one."""
    loop = product_loop(kernel, block)
    if loop is None:
        return None
    (total,) = loop.reduces
    term = total.src[0]
    if total.dtype not in (dtypes.float32, dtypes.float64):
        return None
    for left, right in (term.src, term.src[::-1]):
        found = _as_dots(kernel, total, left, right, loop.ranges, facts, target)
        if found is not None:
            return found
    return None


def _as_dots(
    kernel: Kernel,
    total: Node,
    left: Node,
    right: Node,
    ranges: Sequence[Node],
    facts: Facts,
    target: Target,
) -> SlidingDots | None:
    """The same with `left` as the operand that slides."""
    axes = [a for a in kernel.axes if size_of(a) > 1]
    alone = [a for a in axes if a not in facts.free[right]]
    near = find_windows(left, ranges, alone, facts, saving=False)
    windows = [w for w in near if _is_near(w)]
    taps = [w.tap for w in windows]
    if len(set(taps)) < len(taps):
        return None
    outer = [a for a in axes if a not in taps and a in facts.free[left]]
    beside = [a for a in axes if a not in facts.free[left]]
    count = prod(w.taps for w in windows)
    if count < 4 or count * prod(map(size_of, beside)) > _MOST_TAPS:
        return None
    if any(a not in facts.free[right] for a in beside):
        return None
    windows.sort(key=lambda w: ranges.index(w.column))
    pixels = [w.column for w in windows]
    lanes = target.vector_bytes // total.dtype.itemsize
    while lanes > 1 and lanes >= 2 * size_of(pixels[-1]):
        lanes //= 2
    if lanes < 2 or any(fill_cost(n, pixels[-1], facts, 16) is None
                        for n in (left, right)):  # fmt: skip
        return None
    others = tuple(r for r in ranges if r not in pixels)
    found = SlidingDots(
        total, tuple(windows), left, right, tuple(outer), tuple(beside), others, lanes
    )
    image = prod(found.lines) * found.classes * total.dtype.itemsize
    if found.products < _LEAST or image > target.l2 // _SHARE:
        return None
    return found


def _is_near(window: Window) -> bool:
    """Do its taps see pixels again, or pixels that lie among each other?"""
    if window.turned or min(window.stride, window.dilation) > 1:
        return False
    halo = max(window.halo(g.steps) for g in window.groups)
    return halo < window.pixels and window.share(window.pixels) <= 1


class SlidingDotsProduct:
    """Emits such a gradient into a stage."""

    def __init__(self, dots: SlidingDots, stage: Stage) -> None:
        self.dots = dots
        self.stage = stage
        self.shape = dots.lines
        image = prod(self.shape) * dots.classes
        room = stage.target.l1 // _SHARE // dots.total.dtype.itemsize
        self.images = cut_ranges(dots.others, max(room // image, 1))
        self.size = self.images.length * prod(self.shape)  # of a class

    def emit(self) -> int:
        """Emits the function; returns how many units it has."""
        d, stage = self.dots, self.stage
        self.panel = stage.new_panel(d.left.dtype, d.classes, self.size)
        self.sums = stage.new_panel(d.total.dtype, 1, -(-d.sums // 16) * 16)
        with stage.units(d.outer) as unit:
            stage.fill(self.sums, 0)
            each_block(stage, self.images, self._multiply)
            self._finish()
        return unit.count

    def _multiply(self, images: Block) -> None:
        """One block of images: the panel, and one pass over it for some taps."""
        stage, dots, windows = self.stage, self.dots, self.dots.windows
        for classes in itertools.product(*(range(w.classes) for w in windows)):
            self._fill(images, classes)
        places = list(itertools.product(*(range(size_of(a)) for a in dots.inner)))
        parts = -(-len(places) // (stage.target.registers - _SPARE))
        edges = [n * len(places) // parts for n in range(parts + 1)]
        for first, last in itertools.pairwise(edges):
            self._add(images, dict(list(enumerate(places))[first:last]))

    def _fill(self, images: Block, classes: Sequence[int]) -> None:
        """Evaluates the left operand for the taps of one class of each window."""
        d, stage = self.dots, self.stage
        moved: dict[Node, Node] = {}
        lines: list[Node] = []
        for window, number in zip(d.windows, classes, strict=True):
            steps = -(-(window.taps - number) // window.stride)
            line = stage.new_range(window.pixels + window.halo(steps))
            moved |= {window.column: line, window.tap: const(number, INDEX)}
            lines.append(line)
        (value,) = substitute([d.left], moved)
        index = self._place(images, lines, classes, [0 for _ in lines])
        lanes = d.lanes
        steps = {lines[-1]: Steps(lanes)}
        store = Store(self.panel.number, index, value)
        later = None if classes[-1] else self._later(value, lines[-1])
        ranges = [*images.cut.within, *lines]
        stage.run(ranges, [store], steps, images.spans({}), prefetch=later)

    def _add(self, images: Block, sums: dict[int, tuple[int, ...]]) -> None:
        """Adds what the images of a block give to some sums: of a tap, and beside."""
        d, stage = self.dots, self.stage
        pixels = [w.column for w in d.windows]
        ranges = (*images.cut.within, *pixels)
        stores: list[Store] = []
        rights: dict[tuple[int, ...], Node] = {}
        for number, inner in sums.items():
            tap, beside = inner[: len(pixels)], inner[len(pixels) :]
            if beside not in rights:
                rights[beside] = self._right(beside)
            places = zip(d.windows, tap, strict=True)
            steps = [w.dilation * (t // w.stride) for w, t in places]
            classes = [t % w.stride for w, t in zip(d.windows, tap, strict=True)]
            pixel = self.panel.load(self._place(images, pixels, classes, steps))
            found = reduce("add", mul(pixel, rights[beside]), ranges)
            place = const(number, INDEX)
            found = add(self.sums.load(place), found)
            stores.append(Store(self.sums.number, place, found))
        first = 0 in sums and not d.beside  # else it is read again, and is near
        later = self._later(d.right, pixels[-1]) if first else None
        steps = {pixels[-1]: Steps(d.lanes)}
        stage.run((), stores, steps, images.spans({}), prefetch=later)

    def _right(self, beside: Sequence[int]) -> Node:
        """The right operand at a place of its own axes."""
        d = self.dots
        moved: dict[Node, Node] = {
            a: const(n, INDEX) for a, n in zip(d.beside, beside, strict=True)
        }
        (found,) = substitute([d.right], moved)
        self.stage.facts.learn([found])
        return found

    def _later(self, value: Node, along: Node) -> Prefetch:
        """The next image, which is too short for the processor to ask for it."""
        others = self.dots.others
        loads = [n for n in toposort([value]) if n.op is load_p]
        if others:
            return Prefetch(loads, others[-1])
        return Prefetch(loads, along, _AHEAD)

    def _place(
        self,
        images: Block,
        lines: Sequence[Node],
        classes: Sequence[int],
        steps: Sequence[int],
    ) -> Node:
        """Where a line of a class stands in the panel, so many steps on."""
        number, at = 0, 0
        terms: list[Node] = []
        for window, one in zip(self.dots.windows, classes, strict=True):
            number = number * window.classes + one
        for n, (line, step) in enumerate(zip(lines, steps, strict=True)):
            weight = prod(self.shape[n + 1 :])
            terms.append(mul(line, const(weight, INDEX)))
            at += step * weight
        terms += images.terms(prod(self.shape))
        return add(sum_of(terms), const(number * self.size + at, INDEX))

    def _finish(self) -> None:
        """The kernel's own stores, with the sums read from their panel."""
        d, stage = self.dots, self.stage
        sums = Block(stage, Cut((), None, 1, tuple(d.inner)), "0")
        found = {d.total: self.sums.load(sum_of(sums.terms(1)))}
        whole = set(d.inner)
        inner = [a for a in stage.kernel.axes if a in whole or axis_of(a).size == 1]
        stage.run(inner, replaced_stores(stage.kernel.stores, found), {}, {})
