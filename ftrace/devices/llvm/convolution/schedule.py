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

from ftrace.devices.affine_forms import Affine
from ftrace.devices.llvm.contraction.find import Contraction, is_plain
from ftrace.devices.llvm.contraction.find_windows import Group, Window
from ftrace.devices.llvm.contraction.schedule import name_of
from ftrace.devices.llvm.convolution.skip_padding import Seen
from ftrace.devices.llvm.emit.blocked_ranges import Cut
from ftrace.devices.llvm.schedule.index_facts import Facts, index_of
from ftrace.devices.llvm.schedule.tiling_ir import size_of
from ftrace.ground.fast_dataclasses import dataclass
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


@dataclass(frozen=True, eq=False)
class Operand:
    """The operand that has nothing to do with a window, and where it stands.

    Attributes:
      axis: its own axis, rows or columns.
      positions: how what is summed over is cut, taps last: these are whole in a block.
      form: the index of a load that is read where it stands, or zero of what is
        evaluated as it is added up; None: it has a panel.
      pitch: elements from one value of the axis to the next.
      row: elements from one position of what is summed over to the next.
      rows: of a panel, which are `size` elements long.
    """

    node: Node
    axis: Node
    positions: Cut
    form: Affine | None
    pitch: int
    row: int = 0
    rows: int = 0
    size: int = 0

    @staticmethod
    def of_rows(
        node: Node, axis: Node, positions: Cut, height: int, lanes: int, facts: Facts
    ) -> Operand:
        """Of numbers that are spread over vectors: any even load will do."""
        if is_even(node, facts):
            form = facts.affine[index_of(node)]
            return Operand(node, axis, positions, form, form.terms[axis])
        pitch = not_aliased(_count(node, positions, facts), node.dtype.itemsize, lanes)
        return Operand(node, axis, positions, None, pitch, 1, height, pitch)

    @staticmethod
    def of_columns(
        node: Node, axis: Node, positions: Cut, length: int, width: int, facts: Facts
    ) -> Operand:
        """Of whole vectors: those of a load must be side by side, and near each other.

        Args:
          length: columns of a block, from the first of one to that of the next.
          width: how many columns tiles read there; all of them have to be columns.
        """
        if is_even(node, facts) and is_plain(node, axis, facts):
            form, ranges = facts.affine[index_of(node)], positions
            steps = [abs(form.terms.get(r, 0)) for r in (*ranges.outer, *ranges.within)]
            least = min((n for n in steps if n), default=0)
            near = least * node.dtype.itemsize < _FAR
            rests = axis_of(axis).size % width, length % width
            if near and same_size(rests, (0, 0)):
                return Operand(node, axis, positions, form, 1)
        count = _count(node, positions, facts)
        return Operand(node, axis, positions, None, 1, width, count, width)


def is_even(node: Node, facts: Facts) -> bool:
    """Is it a load, nowhere masked, at an index that is a sum of ranges?"""
    if node.op is not load_p or len(node.src) > 2:
        return False
    return all(atom.op is range_p for atom in facts.affine[index_of(node)].terms)


def with_taps(depth: Cut, taps: Sequence[Node]) -> Cut:
    return replace(depth, inner=(*depth.inner, *taps))


def not_aliased(pitch: int, item: int, lanes: int) -> int:
    """A pitch with which rows do not share the sets of the first cache."""
    return pitch + lanes if pitch * item % 1024 == 0 else pitch


def _count(node: Node, positions: Cut, facts: Facts) -> int:
    """The positions of a block that an operand tells apart."""
    pairs = zip(positions.within, positions.extents, strict=True)
    return prod(size for r, size in pairs if r in facts.free[node])


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
      groups: columns are groups and their places (see `image.py`); the panel of the
        image has a vector where it would have a number.
      along_pixels: lanes are pixels, not columns: tiles are the sums of some taps, in
        one pass, at all places of the columns.
      turned: channels do not lie side by side in memory: the image is turned, and sums
        are turned back.
      flat_pixel: in place of lines and pixels, of which all are turned back together.
      cleared: what is in no line of an image is zero.
      kept: sums of all lines are kept until they are known, not of one.
      adds: tiles are added to what is in the panel of sums.
      skips: taps that see padding alone are left out.
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
    skips: tuple[Seen, ...] = ()

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
        if self.still.form is None:
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
        for seen in self.skips:
            found.append(
                f"            skip {name_of(seen.window.tap)} beside the image"
            )
        of = "all lines" if self.kept else "a line"
        return "\n".join([*found, f"    out <- f(sums)    of {of}{turned}"])


def flat_columns(columns: Sequence[Node], whole: Cut, facts: Facts) -> Cut | None:
    """One range in place of groups and their places: their blocks."""
    if len(columns) < 2:
        return None
    flat = make_range(_FLAT, prod(map(size_of, columns)), False)
    facts.learn([flat])
    if whole.split is None:
        return Cut((), None, 1, (flat,))
    return Cut((), flat, whole.length, ())


def right_columns(
    node: Node, columns: Cut, flat: Cut | None, positions: Cut, width: int, facts: Facts
) -> Operand:
    """The right operand, over the flat range where it allows that."""
    axis = columns.within[-1]
    if flat is not None:
        whole = flat.within[-1]
        moved = laid_flat([node], columns.within, whole, facts)
        if moved is not None:
            (node,), axis = substitute([node], moved), whole
            facts.learn([node])
    return Operand.of_columns(node, axis, positions, columns.length, width, facts)


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
