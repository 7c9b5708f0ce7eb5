"""What the schedules of convolutions have in common: operands, and groups of columns.

One operand has windows, the *image*: see `schedule/windows.py`. Windows slide along
columns, along rows, or along what is summed over, where the taps are rows: the gradient
by the filters. The other operand is *still*. Columns may be groups and their places,
which lie side by side in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ftrace.backends.llvm.contraction.find import Contraction, plain_form, runs_along
from ftrace.backends.llvm.schedule import schedule_tree as tree
from ftrace.backends.llvm.schedule.index_facts import Facts, lay_flat
from ftrace.backends.llvm.schedule.layout import Cut, Flat, Panel, Part
from ftrace.backends.llvm.schedule.schedule_tree import Statement
from ftrace.backends.llvm.schedule.tiling_ir import OWN_RANGES, size_of
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.lower.kernel.ir import Kernel, axis_of, make_range
from ftrace.trace.graph import Node, substitute
from ftrace.trace.symbolic.dim import same_size

#: Terms of a sum that are added up before they are put aside (of 4-byte elements).
DEPTH = 512
#: Rows of an operand so far apart (in bytes) are put together.
_FAR = 4096
#: The number of a range in place of two axes.
_FLAT = OWN_RANGES + 1


def cut_groups(columns: Sequence[Node], length: int) -> Cut:
    """Blocks of about so many columns: whole groups."""
    each = prod(map(size_of, columns[1:]))
    return Cut.of_first(columns, max(length // each, 1))


class Right(NamedTuple):
    """The right operand, and columns as it and the results have them.

    Attributes:
      still: the operand: in a panel, or where it stands.
      flat: one range in place of groups and their places.
      columns: of the sums: of that range, where results allow it.
      moved: what stands for the groups in results then.
    """

    still: Panel | Node
    flat: Flat | None
    columns: Cut
    moved: dict[Node, Node]


def right_operand(
    kernel: Kernel, plan: Contraction, node: Node, columns: Cut, summed: Cut,
    lanes: int, facts: Facts,
) -> Right:  # fmt: skip
    """The right operand of a block of columns.

    Args:
      summed: what is summed over, taps included.
    """
    if len(columns.within) < 2:
        still = _still(node, columns, columns.length, summed, lanes, facts)
        return Right(still, None, columns, {})
    whole = make_range(_FLAT, prod(map(size_of, columns.within)), False)
    facts.learn([whole])
    one = columns.split is None
    cut = Cut.whole([whole]) if one else Cut((), whole, columns.length, ())
    own, moved = columns, lay_flat([node], columns.within, whole, facts)
    if moved is not None:
        (node,), own = substitute([node], moved), cut
        facts.learn([node])
    still = _still(node, own, columns.length, summed, lanes, facts)
    moved = lay_results_flat(kernel, plan, columns.within, whole, facts)
    return Right(still, Flat(cut, columns), cut if moved else columns, moved)


def _still(
    node: Node, columns: Cut, length: int, summed: Cut, lanes: int, facts: Facts
) -> Panel | Node:
    """It is read where it stands if vectors of it are side by side, near each other.

    Args:
      length: columns of a block.
    """
    width, free = -(-length // lanes) * lanes, facts.free[node]
    axis, form = columns.within[-1], plain_form(node, facts)
    if form is not None and runs_along(node, axis, facts):
        steps = [abs(form.terms.get(r, 0)) for r in (*summed.outer, *summed.within)]
        near = min((n for n in steps if n), default=0) * node.dtype.itemsize < _FAR
        # All columns that tiles read have to be there.
        rests = axis_of(axis).size % width, length % width
        if near and same_size(rests, (0, 0)):
            return node
    parts = Part.of(summed, width, free), Part.of(columns, 1)
    return Panel("still", node, summed.positions(free), width, parts, zeros=length)


def lay_results_flat(
    kernel: Kernel, plan: Contraction, axes: Sequence[Node], flat: Node, facts: Facts
) -> dict[Node, Node]:
    """What stands for two axes in what becomes of the sums; nothing, if it must not."""
    parts = kernel.roots
    return lay_flat(parts, axes, flat, facts, plan.reduces) or {}


def slide(
    s: tree.Slide,
    lines: Sequence[Node],
    of_line: Sequence[Statement],
    of_all: Sequence[Statement],
    flat: Flat | None = None,
) -> tuple[Statement, ...]:
    """A unit: operands are filled for each block, and tiles run over them.

    Args:
      lines: around the tiles.
      of_line, of_all: what becomes of the sums of a line, or of all.
      flat: what is open around all that.
    """
    fills = [tree.Fill(image) for image in s.images]
    if isinstance(s.still, Panel):
        fills.append(tree.Fill(s.still))
    body: tuple[Statement, ...] = (s, *of_line)
    if lines:
        body = (tree.ForEach(tuple(lines), body),)
    unit = (*tree.for_blocks(s.depth, *fills, *body), *of_all)
    unit = (tree.Clear(s.into), *unit) if s.adds else unit
    return unit if flat is None else (tree.ForEach((flat,), unit),)
