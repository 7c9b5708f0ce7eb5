"""Kernels in pieces: within each the answers to questions of position are known.

    out[i] = a[i] if i < 100 else b[i - 100]     ->  i < 100:  out[i] = a[i]
                                                     else:     out[i] = b[i - 100]

Concatenations, pads, rolls and stencils ask at each element on which side of a border
it is. Only few borders are there, so that the loops are cut at them, and a border that
is not at the edge of a vector gets a vector of its own, which asks as before.

    boxes      pieces along the outer axes, which threads share
    segments   pieces along the last axis, one after the other in each row
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod

from ftrace import dtypes
from ftrace.devices.affine_forms import Affine, Interval
from ftrace.devices.llvm.schedule.index_facts import Facts, facts_of
from ftrace.devices.llvm.schedule.unroll_short import stores_over
from ftrace.devices.llvm.target import Target
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.lower.kernel import ir
from ftrace.lower.kernel.loop_tree import Let, Loop, Statement, place
from ftrace.trace.graph import Node, constant_value
from ftrace.trace.primitives import elementwise as ew
from ftrace.trace.primitives.sources import const, const_p
from ftrace.trace.symbolic.dim import same_size

#: Fewer elements are not worth more code.
_LEAST = 1 << 13
#: Pieces of one axis, and expressions of all pieces, at most.
_PIECES = 40
_EXPRESSIONS = 1500
#: Numbers of the ranges of segments: beyond those of any other range.
_NUMBERS = 1 << 20

#: Comparisons, and what they are with their operands exchanged.
_OTHER = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


class _Border(NamedTuple):
    """Where on an axis the answer to a comparison changes, and what it is before."""

    axis: Node
    place: int
    before: bool


class Segments(NamedTuple):
    """A kernel whose rows are in pieces: `axes` take the place of its last one."""

    kernel: ir.Kernel
    block: list[Statement]
    facts: Facts
    axes: list[Node]


def boxes(kernel: ir.Kernel, target: Target) -> list[ir.Kernel]:
    """The kernel in pieces along the axes that rows stand in; mostly it is one."""
    if not _may_cut(kernel):
        return [kernel]
    outer = kernel.axes[:-1] or kernel.axes
    found = [kernel]
    for number in [ir.axis_of(axis).number for axis in outer]:
        found = [piece for box in found for piece in _cut_box(box, number, target)]
    if len(found) > _PIECES or sum(len(k.nodes) for k in found) > _EXPRESSIONS:
        return [kernel]
    return found


def _cut_box(box: ir.Kernel, number: int, target: Target) -> list[ir.Kernel]:
    axis = next((a for a in box.axes if ir.axis_of(a).number == number), None)
    if axis is None:
        return [box]
    facts = facts_of(box)
    points = _borders(box, axis, facts)
    if len(box.axes) == 1:
        points = _rounded(points, axis, _lanes(box, target))
    if not points:
        return [box]
    pieces = [_piece(box, axis, a, b, number, facts) for a, b in _between(points, axis)]
    return [piece for piece in pieces if piece.stores]


def segments(kernel: ir.Kernel, facts: Facts, target: Target) -> Segments | None:
    """The kernel with its rows in pieces; None where they have no borders."""
    if len(kernel.axes) < 2 or not _may_cut(kernel):
        return None
    axis = kernel.axes[-1]
    points = _rounded(_borders(kernel, axis, facts), axis, _lanes(kernel, target))
    if not points or len(points) >= _PIECES:
        return None
    pieces = [
        _piece(kernel, axis, a, b, _NUMBERS + n, facts)
        for n, (a, b) in enumerate(_between(points, axis))
    ]
    pieces = [piece for piece in pieces if piece.stores]
    if sum(len(piece.nodes) for piece in pieces) > _EXPRESSIONS:
        return None
    own = [piece.axes[-1] for piece in pieces]
    stores = tuple(store for piece in pieces for store in piece.stores)
    whole = replace(kernel, axes=(*kernel.axes[:-1], *own), stores=stores)
    return Segments(
        whole, _merged([place(piece) for piece in pieces]), facts_of(whole), own
    )


def _lanes(kernel: ir.Kernel, target: Target) -> int:
    widest = max(store.value.dtype.itemsize for store in kernel.stores)
    return max(target.vector_bytes // widest, 1)


def _rounded(points: Sequence[int], axis: Node, lanes: int) -> list[int]:
    """Borders at whole vectors, before and behind those that are not."""
    found: set[int] = set()
    for point in points:
        found |= {point // lanes * lanes, -(-point // lanes) * lanes}
    return sorted(p for p in found if 0 < p < _size(axis))


def _may_cut(kernel: ir.Kernel) -> bool:
    if kernel.is_dynamic or kernel.ordered or not kernel.axes:
        return False
    if any(store.combine for store in kernel.stores):
        return False
    small = prod(kernel.shape) < _LEAST
    return not small and not any(n.op is ir.reduce_p for n in kernel.nodes)


def _size(axis: Node) -> int:
    return ir.axis_of(axis).size


def _merged(blocks: Sequence[list[Statement]]) -> list[Statement]:
    """Blocks that have their outer loops in common as one: inside, one by one."""
    result: list[Statement] = []
    for block in blocks:
        last = result[-1] if result else None
        for statement in block:
            if isinstance(statement, Let):
                result.insert(0, statement)
            elif (
                isinstance(statement, Loop)
                and isinstance(last, Loop)
                and last.axis is statement.axis
            ):
                last.body[:] = _merged([last.body, statement.body])
            else:
                result.append(statement)
    return result


# Borders.


def _borders(kernel: ir.Kernel, axis: Node, facts: Facts) -> list[int]:
    """Where on an axis the answer to a question changes, in order.

    None are told where the axis is divided: pieces would begin inside of its tiles.
    """
    found: set[int] = set()
    for node in kernel.nodes:
        if axis not in facts.free[node]:
            continue
        if node.op.name in ("div", "rem") and node.dtype is ir.INDEX:
            return []
        border = _border(node, facts) if node.op.name in _OTHER else None
        if border is not None and border.axis is axis:
            found.add(border.place)
    return sorted(p for p in found if 0 < p < _size(axis))


def _border(node: Node, facts: Facts) -> _Border | None:
    """Where on an axis a comparison has another answer than before, if anywhere."""
    (left, right), name = node.src, node.op.name
    form, limit = _linear(left, facts), _constant(right, facts)
    if form is None or limit is None:
        form, limit, name = _linear(right, facts), _constant(left, facts), _OTHER[name]
    if form is None or limit is None:
        return None
    ((axis, step),) = form.terms.items()
    rest = limit - form.constant
    if step < 0:  # -x < n where x > -n
        step, rest, name = -step, -rest, _OTHER[name]
    # From `rest` on, or from the number behind it, x < rest has another answer.
    rest += name in ("le", "gt")
    return _Border(axis, -(-rest // step), name in ("lt", "le"))


def _linear(node: Node, facts: Facts) -> Affine | None:
    """An index of one axis, also as a number of another integer dtype that holds it."""
    form = facts.affine.get(_uncast(node, facts))
    if form is None or len(form.terms) != 1:
        return None
    (axis,) = form.terms
    return None if axis.op is not ir.range_p or ir.axis_of(axis).reduced else form


def _uncast(node: Node, facts: Facts) -> Node:
    while node.op.name == "cast" and dtypes.kind(node.src[0].dtype) in "iu":
        inside = facts.interval.get(node.src[0])
        if inside is None or dtypes.kind(node.dtype) not in "iu":
            break
        low, high = dtypes.limits(node.dtype)
        if inside[0] < low or inside[1] > high:
            break
        node = node.src[0]
    return node


def _constant(node: Node, facts: Facts) -> int | None:
    if node.op is const_p and dtypes.kind(node.dtype) in "iu":
        return int(constant_value(node))
    return facts.constant(node)


def _between(points: Sequence[int], axis: Node) -> list[tuple[int, int]]:
    ends = [0, *points, _size(axis)]
    return list(pairwise(ends))


# One piece.


def _piece(
    kernel: ir.Kernel, axis: Node, start: int, stop: int, number: int, facts: Facts
) -> ir.Kernel:
    """The part of a kernel where `start` <= axis < `stop`."""
    if same_size((start, stop), (0, _size(axis))) and number == ir.axis_of(axis).number:
        return kernel
    own = ir.make_range(number, stop - start, False)
    single = stop - start == 1 and number < _NUMBERS
    place_of = const(start, ir.INDEX) if single else own
    if start and not single:
        place_of = ew.add(own, const(start, ir.INDEX))
    new: dict[Node, Node] = {axis: place_of}
    for node in kernel.nodes:
        known = _known(node, facts, axis, (start, stop - 1))
        if known is not None:
            new[node] = known
    axes = [own if a is axis else a for a in kernel.axes if a is not axis or not single]
    return replace(kernel, axes=tuple(axes), stores=stores_over(kernel, new))


def _known(node: Node, facts: Facts, axis: Node, inside: Interval) -> Node | None:
    """The answer to a comparison that has only one on a part of an axis."""
    if node.op.name not in _OTHER or axis not in facts.free[node]:
        return None
    border = _border(node, facts)
    if border is None or border.axis is not axis:
        return None
    if inside[0] < border.place <= inside[1]:
        return None
    return const(border.before == (inside[1] < border.place), dtypes.bool_)
