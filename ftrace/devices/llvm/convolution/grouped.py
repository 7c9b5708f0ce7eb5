"""Convolutions in groups, channels last: lanes are the places of several groups.

    out[p, g, o] = f(the sum over c, t of left(p + t, g, c) · right(g, c, t, o), …)

A group has too few places o for a vector. But groups lie side by side, so that a vector
has all places of some groups. Each lane then has a number of its own from the left
operand: that is spread into a panel once, and serves all taps. Channels that do not mix
at all (depthwise) are groups of one place, and need no spreading.

This file finds them, and lays two axes side by side into one; `convolution/nhwc.py` and
`convolution/filter_gradient.py` run them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

from ftrace.devices.llvm.contraction.find import Contraction, product_loop
from ftrace.devices.llvm.contraction.left_operand import Factor
from ftrace.devices.llvm.emit.blocked_ranges import Block, Cut, Opening
from ftrace.devices.llvm.emit.loop_nest import Nest, Span
from ftrace.devices.llvm.emit.staged_kernel import Panel, Stage, sum_of
from ftrace.devices.llvm.ir.types import Type
from ftrace.devices.llvm.schedule.index_facts import Facts, index_of
from ftrace.devices.llvm.schedule.tiling_ir import Steps, size_of
from ftrace.devices.llvm.target import Target
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.kernel.ir import INDEX, Kernel, Store, axis_of, load_p, range_p
from ftrace.lower.kernel.loop_tree import Statement
from ftrace.trace.graph import Node, substitute
from ftrace.trace.primitives.elementwise import add, mul
from ftrace.trace.primitives.sources import const


def find_groups(
    kernel: Kernel, block: Sequence[Statement], facts: Facts, target: Target
) -> Contraction | None:
    """The kernel as a product whose columns are groups and their places, if it is one.

    The left operand has the groups, too, but not the places.
    """
    loop = product_loop(kernel, block)
    if loop is None:
        return None
    (total,) = loop.reduces
    term = total.src[0]
    columns = _side_by_side(kernel, term, facts)
    if columns is None:
        return None
    lanes = target.vector_bytes // total.dtype.itemsize
    places = size_of(columns[1]) if len(columns) > 1 else 1
    if 2 * places > lanes or 2 * size_of(columns[0]) * places < lanes:
        return None
    axes = [a for a in kernel.axes if size_of(a) > 1 and a not in columns]
    for left, right in (term.src, term.src[::-1]):
        of_left, of_right = facts.free[left], facts.free[right]
        if not set(columns) <= of_right or columns[0] not in of_left:
            continue
        if len(columns) > 1 and columns[1] in of_left:
            continue
        rows = [a for a in axes if a in of_left and a not in of_right]
        if not rows:
            continue
        return Contraction(
            tuple(a for a in axes if a not in rows), tuple(rows), tuple(columns),
            loop.ranges,
            (left,), (right,), (), (total,), False,
        )  # fmt: skip
    return None


def _side_by_side(kernel: Kernel, term: Node, facts: Facts) -> list[Node] | None:
    """The groups and their places, as they lie in the result; groups of one alone."""
    store, *more = kernel.stores
    if more:
        return None
    terms = facts.affine[store.index].terms
    axes = [a for a in kernel.axes if size_of(a) > 1 and a in terms]
    axes.sort(key=lambda a: abs(terms[a]))
    if not axes or terms[axes[0]] != 1:
        return None
    last, *rest = axes
    if all(last in facts.free[factor] for factor in term.src):
        return [last]
    if not rest or terms[rest[0]] != size_of(last):
        return None
    return [rest[0], last]


def cut_groups(columns: Sequence[Node], length: int) -> Cut:
    """Blocks of about so many columns: whole groups."""
    groups, *places = columns
    each = prod(axis_of(a).size for a in places)
    count = axis_of(groups).size
    size = min(max(length // each, 1), count)
    if size == count:
        return Cut((), None, 1, tuple(columns))
    return Cut((), groups, size, tuple(places))


class FlatColumns(Opening):
    """One range in place of groups and their places, where expressions allow it.

    Args:
      columns: the groups and their places, or a single axis; then it is that.
      cut: their blocks.
    """

    def __init__(self, stage: Stage, columns: Sequence[Node], cut: Cut) -> None:
        self.stage = stage
        self.columns = tuple(columns)
        self.cut = self.whole = cut
        if len(columns) > 1:
            flat = stage.new_range(prod(axis_of(a).size for a in columns))
            self.cut = Cut((), flat, cut.length, ())
            if cut.split is None:
                self.cut = Cut((), None, 1, (flat,))

    def at(self, number: str, block: Block) -> FlatColumns:
        """The block of this number, to be opened; `block` is that of the columns."""
        self.block = block
        if self.cut is not self.whole:
            self.block = Block(self.stage, self.cut, number)
        return self

    def open(self) -> None:
        if self.cut is not self.whole:
            self.block.open()

    def close(self) -> None:
        if self.cut is not self.whole:
            self.block.close()

    def _moved(self, values: Sequence[Node], known: Sequence[Node]) -> dict[Node, Node]:
        """What stands for the columns; empty if they stay as they are."""
        if self.cut is self.whole:
            return {}
        flat, facts = self.cut.within[-1], self.stage.facts
        return laid_flat(values, self.columns, flat, facts, known) or {}

    def factor(
        self, node: Node, depth: Cut, taps: tuple[Node, ...], pitch: int
    ) -> Factor:
        """The right operand."""
        moved = self._moved([node], ())
        self.right_is_flat = bool(moved)
        axis = self.whole.within[-1]
        if moved:
            (node,), axis = substitute([node], moved), self.cut.within[-1]
            self.stage.facts.learn([node])
        length = self.whole.length
        return Factor.of_columns(self.stage, node, axis, depth, taps, length, pitch)

    def of_right(self, block: Block) -> Block:
        """The block in which it is filled."""
        return self.block if self.right_is_flat else block

    def of_stores(
        self, total: Node, block: Block
    ) -> tuple[Sequence[Store], dict[Node, Node], Block]:
        """The kernel's stores, what is to be replaced in them, and their block."""
        stores = self.stage.kernel.stores
        parts = [e for store in stores for e in store.expressions]
        moved = self._moved(parts, [total])
        return stores, moved, self.block if moved else block


def laid_flat(
    values: Sequence[Node],
    columns: Sequence[Node],
    flat: Node,
    facts: Facts,
    known: Sequence[Node] = (),
) -> dict[Node, Node] | None:
    """What stands for two axes in expressions so that one range runs through both.

    None where they do not depend on both as they lie side by side.

    Args:
      known: parts of the expressions that are replaced themselves.
    """
    groups, places = columns
    size = axis_of(places).size
    pending = [value for value in values if value not in known]
    seen = {*pending, *known}
    while pending:
        node = pending.pop()
        if node in columns:
            return None
        if node.dtype is INDEX and node in facts.affine:
            terms = facts.affine[node].terms
            if terms.get(groups, 0) != size * terms.get(places, 0):
                return None
            inside = [a for a in terms if a.op is not range_p]
            if any({groups, places} & facts.free[a] for a in inside):
                return None
            continue
        src = (index_of(node), *node.src[2:]) if node.op is load_p else node.src
        fresh = [s for s in src if s not in seen]
        seen.update(fresh)
        pending += fresh
    return {groups: const(0, INDEX), places: flat}


@dataclass(frozen=True, eq=False)
class _Spreading:
    """How vectors of channels become vectors of groups and their places.

    Attributes:
      channels, places: of a group.
      groups: of a vector; all of their channels are in it.
      pitch: elements of the panel from one channel to the next.
    """

    channels: int
    places: int
    groups: int
    pitch: int


class _SpreadingNest(Nest):
    """Stores each channel of a vector, repeated for the places of its group."""

    def __init__(self, how: _Spreading, *args: Any) -> None:
        super().__init__(*args)
        self.how = how

    def store(self, store: Store) -> None:
        values, how = self.values, self.how
        assert values.vector is not None
        t = Type.of(store.value.dtype, values.vector.lanes)
        base, size = values.buffer(store.buffer), t.bytes
        form = values.facts.affine[store.index]
        room = values.ops.target.vector_bytes // size
        lanes = [g for g in range(how.groups) for _ in range(how.places)]
        for at in values.assignments(store.expressions):
            value = values.plain(store.value, t.lanes, at)
            terms, constant = values.terms(form, at)
            for channel in range(how.channels):
                for first in range(0, len(lanes), room):
                    part = lanes[first : first + room]
                    found = [g * how.channels + channel for g in part]
                    text = values.ops.shuffle(t, value, "poison", found)
                    place = constant + channel * how.pitch + first
                    p = values.access.pointer(base, terms, place, size)
                    values.access.store(t.with_lanes(len(part)), text, p)


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
    how = _Spreading(channels, places, count, pitch)
    stage.run(
        [*pixels.ranges, *others, part, inside], [Store(panel.number, index, value)],
        {inside: Steps(channels * count)}, spans, partial(_SpreadingNest, how),
    )  # fmt: skip
    return True
