"""How a convolution, or a gradient of one, runs, as data.

    for units of rows and columns:              what threads share
        panel sums <- 0
        for each block of what is summed over:
            panel image[line, …] <- the operand that slides, once for each element
            panel still[…] <- the other one     unless it is read where it stands
            for each line of rows:
                sums <- sums + left · right     in tiles of registers
        out <- f(sums)

A window is a pixel and a tap that an operand has only together: line = stride·pixel +
dilation·tap. In a panel of lines both are distances. Windows slide along columns (in
which case the right operand has them), along rows, or along what is summed over, where
the taps are rows: the gradient by the filters. Strategies (`nchw.py`, `nhwc.py`,
`filter_gradient.py`) say which, and how large the parts are: a contraction and a
processor give a schedule, or None. Printed it is that diagram; `emitter.py` carries it
out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import prod

from ftrace.backends.llvm.contraction.find import Contraction, plain_form, runs_along
from ftrace.backends.llvm.contraction.schedule import name_of
from ftrace.backends.llvm.convolution.find import Group, Window
from ftrace.backends.llvm.emit.blocked_ranges import Cut
from ftrace.backends.llvm.schedule.index_facts import Facts, index_of
from ftrace.backends.llvm.schedule.tiling_ir import size_of
from ftrace.ground.fast_dataclasses import NamedTuple, dataclass
from ftrace.lower.kernel.ir import INDEX, axis_of, load_p, make_range, range_p
from ftrace.trace.graph import Node, substitute
from ftrace.trace.primitives.sources import const
from ftrace.trace.symbolic.dim import same_size

#: Terms of a sum that are added up before they are put aside (of 4-byte elements).
DEPTH = 512
#: Rows of an operand so far apart (in bytes) are put together.
_FAR = 4096
#: The number of a range in place of two axes: below those of a stage.
_FLAT = (1 << 20) - 1


class Operand(NamedTuple):
    """The operand that has nothing to do with a window.

    Attributes:
      axis: its own axis, rows or columns.
      in_place: it is a load that is read where it stands, or what is evaluated as it is
        added up; else it has a panel.
    """

    node: Node
    axis: Node
    in_place: bool


@dataclass(frozen=True, eq=False)
class Sliding:
    """How a convolution runs.

    Attributes:
      plan: the contraction.
      lanes: of a vector.
      windows: of the operand that slides.
      slides, still: that operand, and the other one.
      outer: axes around the blocks.
      rows: how rows are cut; all but the last one run around the tiles.
      columns: how columns are cut.
      flat: the same of one range that runs through both axes of the columns, if the
        result allows it.
      depth: how what is summed over is cut, beside the taps of a window.
      along: which of these three the windows slide along.
      tile: rows and vectors of a tile.
      parts: taps, by number, that a tile has for each of its rows, where taps are rows.
      channels_last: what the image has beside its lines comes last in its panel.
      groups: columns are groups and their places (see `operands.py`); the panel of the
        image has a vector where it would have a number.
      along_pixels: lanes are pixels, not columns: tiles are the sums of some taps, in
        one pass, at all places of the columns.
      turned: channels do not lie side by side in memory: the image is turned, and sums
        are turned back.
      flat_pixel: in place of lines and pixels, of which all are turned back together.
      cleared: what is in no line of an image is zero.
      kept: sums of all lines are kept until they are known, not of one.
      adds: tiles are added to what is in the panel of sums.
    """

    plan: Contraction
    lanes: int
    windows: tuple[Window, ...]
    slides: Node
    still: Operand
    outer: tuple[Node, ...]
    rows: Cut
    columns: Cut
    depth: Cut
    along: Cut
    tile: tuple[int, int]
    parts: tuple[range, ...] = (range(1),)
    flat: Cut | None = None
    channels_last: bool = True
    groups: bool = False
    along_pixels: bool = False
    turned: bool = False
    flat_pixel: Node | None = None
    cleared: bool = False
    kept: bool = True
    adds: bool = False

    @property
    def pitch(self) -> int:
        """Columns of a row of sums: whole vectors."""
        return -(-self.columns.length // self.lanes) * self.lanes

    @property
    def by_columns(self) -> bool:
        """Is it the right operand that slides?"""
        return self.along is self.columns

    @property
    def by_filters(self) -> bool:
        """Are the taps rows?"""
        return self.along is self.depth

    @property
    def positions(self) -> Cut:
        """What is summed over, taps last: these are whole in a block."""
        if self.by_filters:
            return self.depth
        taps = [w.tap for w in self.windows]
        return replace(self.depth, inner=(*self.depth.inner, *taps))

    @property
    def numbers(self) -> list[tuple[int, ...]]:
        """The taps of all windows, in their order."""
        return list(product(*(range(w.taps) for w in self.windows)))

    @property
    def taps(self) -> int:
        """Rows of sums for each row."""
        return len(self.numbers) if self.by_filters else 1

    @property
    def beside(self) -> Cut:
        """What the image has beside its lines."""
        return self.rows if self.by_filters else self.depth

    @property
    def images(self) -> list[tuple[Group, ...]]:
        """The classes of taps of each window in a panel.

        Vectors need pixels side by side: each class of a strided window has its lines.
        """
        apart = self.by_columns or self.along_pixels
        groups = [w.groups if apart else [w.whole] for w in self.windows]
        return list(product(*groups))

    def __str__(self) -> str:
        order = "[beside][line]" if not self.channels_last else "[line][beside]"
        kind = "vectors" if self.groups else "numbers"
        kind = "columns" if self.by_columns else kind
        *lines, row = self.rows.within or (None,)
        rows, vectors = self.tile
        cuts = [self.rows, self.columns]
        cuts = [c for c in cuts[:: -1 if self.by_columns else 1] if c.split]
        found = [f"for each {', '.join(map(name_of, (*self.outer, *cuts)))}:"]
        if self.adds:
            found.append("    panel sums <- 0")
        depth = name_of(self.depth)
        found.append(f"    for each {depth}:" if depth else "    once:")
        turned = ", turned" if self.turned else ""
        for _ in self.images:
            found.append(f"        panel image{order} of {kind} <- x(…){turned}")
        if not self.still.in_place:
            found.append("        panel still <- w(…)")
        if lines:
            found.append(f"        for each {', '.join(map(name_of, lines))}:")
        pixels = "" if row is None else f" of {name_of(row)}"
        if self.by_filters:
            pixels += f" × {len(self.parts[0])} of {self.taps} taps"
        found.append(
            f"{'    ' * (2 + bool(lines))}sums += left · right    "
            f"{rows} rows{pixels} × {vectors} vectors of {self.lanes}"
        )
        of = "all lines" if self.kept else "a line"
        return "\n".join([*found, f"    out <- f(sums)    of {of}{turned}"])


def cut_groups(columns: Sequence[Node], length: int) -> Cut:
    """Blocks of about so many columns: whole groups."""
    each = prod(map(size_of, columns[1:]))
    return Cut.of_first(columns, max(length // each, 1))


def flat_columns(columns: Sequence[Node], whole: Cut, facts: Facts) -> Cut | None:
    """One range in place of groups and their places: their blocks."""
    if len(columns) < 2:
        return None
    flat = make_range(_FLAT, prod(map(size_of, columns)), False)
    facts.learn([flat])
    return Cut.whole([flat]) if whole.split is None else Cut((), flat, whole.length, ())


def right_operand(
    node: Node,
    columns: Cut,
    flat: Cut | None,
    ranges: Sequence[Node],
    lanes: int,
    facts: Facts,
) -> Operand:
    """The right operand, over the flat range where it allows that.

    It is read where it stands if whole vectors of it are side by side, and near each
    other.

    Args:
      ranges: what is summed over.
    """
    axis = columns.within[-1]
    if flat is not None:
        whole = flat.within[-1]
        moved = laid_flat([node], columns.within, whole, facts)
        if moved is not None:
            (node,), axis = substitute([node], moved), whole
            facts.learn([node])
    form = plain_form(node, facts)
    if form is None or not runs_along(node, axis, facts):
        return Operand(node, axis, False)
    steps = [abs(form.terms.get(r, 0)) for r in ranges]
    near = min((n for n in steps if n), default=0) * node.dtype.itemsize < _FAR
    # All columns that tiles read have to be there.
    width = -(-columns.length // lanes) * lanes
    rests = axis_of(axis).size % width, columns.length % width
    return Operand(node, axis, near and same_size(rests, (0, 0)))


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
