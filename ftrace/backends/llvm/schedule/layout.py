"""Ranges cut in blocks, windows, and what stands in memory of a block.

A *panel* has a place for each element of two blocks. A *window* is an axis and a range
of a sum that an operand has only together:

    x[stride·column + dilation·tap, …]        a convolution, a pooling

Such an operand has far fewer elements than there are pairs of a column and a tap. The
taps fall into *classes*, those that are a multiple of `stride` apart: within a class
the operand depends on line = column + dilation·step alone, where tap = class +
stride·step. An *image* has a place for each line of each class: there it is evaluated
once, for all pairs. Taps, strides and dilations are distances in it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod

from ftrace.backends.llvm.schedule import loop_tiling as tiling
from ftrace.backends.llvm.target import Target
from ftrace.ground.fast_dataclasses import NamedTuple, dataclass
from ftrace.lower.kernel.ir import INDEX, axis_of
from ftrace.trace.graph import Node
from ftrace.trace.primitives.elementwise import sub
from ftrace.trace.primitives.sources import const
from ftrace.trace.symbolic import is_dynamic, same_size


@dataclass(frozen=True, eq=False)
class Cut:
    """A list of ranges in blocks.

    Attributes:
      outer: ranges that run one by one around the blocks.
      split: the range that is cut; None where a block is all of the inner ones.
      size: of a block of `split`.
      inner: ranges that are whole in a block.
      order: the ranges of a block as they lie in a panel, if not as they run.
      strip: blocks are whole strips so wide; a panel may have one after the other.
    """

    outer: tuple[Node, ...]
    split: Node | None
    size: int
    inner: tuple[Node, ...]
    order: tuple[Node, ...] = ()
    strip: int = 0

    @staticmethod
    def whole(ranges: Sequence[Node]) -> Cut:
        """All of some ranges in one block."""
        return Cut((), None, 1, tuple(ranges))

    @staticmethod
    def of_first(ranges: Sequence[Node], size: int) -> Cut:
        """Blocks of so many values of the first range; one, where that is all."""
        first, *rest = ranges
        if not is_dynamic(axis_of(first).size) and size >= axis_of(first).size:
            return Cut.whole(ranges)
        return Cut((), first, size, tuple(rest))

    @property
    def within(self) -> tuple[Node, ...]:
        """The ranges that run in a block, outermost first."""
        return self.inner if self.split is None else (self.split, *self.inner)

    @property
    def extents(self) -> tuple[int, ...]:
        """How far each of them goes in a block."""
        sizes = tuple(axis_of(r).size for r in self.inner)
        return sizes if self.split is None else (self.size, *sizes)

    @property
    def length(self) -> int:
        """Positions in a block."""
        return prod(self.extents)

    def positions(self, free: Collection[Node]) -> int:
        """The same where only these ranges count."""
        sizes = zip(self.within, self.extents, strict=True)
        return prod(size for r, size in sizes if r in free)

    @property
    def several(self) -> bool:
        """Is it more than one block?"""
        return is_dynamic(self.blocks) or self.blocks > 1 or bool(self.outer)

    def divides(self, width: int) -> bool:
        """Does every block begin at a multiple of `width`?"""
        return same_size(self.size % width, 0)

    def steps(self, weight: int, free: Collection[Node]) -> dict[Node, int]:
        """How far apart positions in a block are along each range, last one first.

        Args:
          weight: of the innermost range.
          free: only these ranges have places of their own.
        """
        found: dict[Node, int] = {}
        sizes = dict(zip(self.within, self.extents, strict=True))
        for r in (self.order or self.within)[::-1]:
            if r in free:
                found[r] = weight
                weight *= sizes[r]
        return found

    @property
    def blocks(self) -> int:
        """Of one choice of the outer ranges."""
        return 1 if self.split is None else -(-axis_of(self.split).size // self.size)

    def __str__(self) -> str:
        split = [] if self.split is None else [f"{name_of(self.split)} by {self.size}"]
        return " × ".join(
            [*map(name_of, self.outer), *split, *map(name_of, self.inner)]
        )


def cut_ranges(ranges: Sequence[Node], length: int, multiple: int = 1) -> Cut:
    """Blocks of about `length`: inner ranges are whole, one is split.

    It is split evenly; but the innermost range in blocks that `multiple` divides, and
    what is left.
    """
    inner: list[Node] = []
    rest = list(ranges)
    width = 1
    while rest and not is_dynamic(axis_of(rest[-1]).size):
        if width * axis_of(rest[-1]).size * 3 > length * 4:
            break
        inner.insert(0, rest.pop())
        width *= axis_of(inner[0]).size
    if not rest or width * 2 > length:
        return Cut(tuple(rest), None, 1, tuple(inner))
    split = rest.pop()
    if not inner and multiple > 1:
        size = max(length // multiple, 1) * multiple
    else:
        size = max(length // width, 1)
        if not is_dynamic(axis_of(split).size):
            size = -(-axis_of(split).size // -(-axis_of(split).size // size))
    return replace(Cut.of_first([split, *inner], size), outer=tuple(rest))


def cut_tiles(r: Node, tile: int, height: int) -> tuple[Cut, tiling.RangeTiling]:
    """Blocks of about `height` values of a range, and their tiles.

    No tile is longer than `tile`, and tiles are as equal as can be, blocks too.
    """
    size, high = axis_of(r).size, max(height // tile, 1)
    if not is_dynamic(size):
        tiles = -(-size // tile)
        tile, high = -(-size // tiles), -(-tiles // -(-tiles // high))
    cut = Cut.of_first([r], high * tile)
    return cut, tiling.RangeTiling(0, tile, cut.split is None)


def even_tiles(size: int, most: int) -> tiling.RangeTiling:
    """Tiles of no more than so many, as equal as can be."""
    return tiling.RangeTiling(0, -(-size // -(-size // most)), False)


@dataclass(frozen=True, eq=False)
class VectorRows:
    """The rows of a block from a whole vector on: they are filled in vectors."""

    rows: Cut
    lanes: int

    @property
    def split(self) -> Node | None:
        return self.rows.split

    @property
    def size(self) -> int:
        return (-(-self.rows.length // self.lanes) + 1) * self.lanes

    length = size

    def divides(self, width: int) -> bool:
        return width <= self.lanes

    @property
    def within(self) -> tuple[Node, ...]:
        return self.rows.within

    def __str__(self) -> str:
        return f"vectors of {self.rows}"


Blocked = Cut | VectorRows


def name_of(place: Node | Blocked) -> str:
    """A range, or how ranges are cut."""
    return tiling.name_of_range(place) if isinstance(place, Node) else str(place)


def names_of(places: Sequence[Node | Blocked], between: str = " × ") -> str:
    return between.join(filter(None, map(name_of, places)))


def whole_vectors(cut: Blocked, lanes: int) -> int:
    """Positions of a block, rounded up to whole vectors."""
    return -(-cut.length // lanes) * lanes


def fit_lanes(r: Node, cuts: Sequence[Blocked], lanes: int) -> int:
    """In how many lanes a range may run in blocks: not too few are used."""
    split = [cut for cut in cuts if cut.split is r]
    while lanes > 1 and not all(cut.divides(lanes) for cut in split):
        lanes //= 2
    while lanes > 1 and not split and lanes >= 2 * tiling.size_of(r):
        lanes //= 2
    return lanes


# Windows.


class Group(NamedTuple):
    """Taps of a window: those of some classes with equally many of them.

    Attributes:
      first: the first class.
      classes: how many there are.
      steps: taps of each.
      stride: from one tap of a class to the next.
    """

    first: int
    classes: int
    steps: int
    stride: int


@dataclass(frozen=True, eq=False)
class Window:
    """A column and the taps of its window.

    Attributes:
      column: an axis of the kernel.
      tap: what is summed over.
      stride, dilation: the operand depends on stride·column + dilation·tap only.
      reversed: taps count from the last one; else `dilation` would be negative.
    """

    column: Node
    tap: Node
    stride: int
    dilation: int
    reversed: bool = False

    @property
    def taps(self) -> int:
        return axis_of(self.tap).size

    @property
    def pixels(self) -> int:
        """How many values its column has."""
        return axis_of(self.column).size

    @property
    def classes(self) -> int:
        """How many classes of taps there are."""
        return min(self.stride, self.taps)

    @property
    def groups(self) -> list[Group]:
        """Classes with equally many taps."""
        steps, rest = divmod(self.taps, self.stride)
        parts = [(0, rest, steps + 1), (rest, self.classes - rest, steps)]
        return [Group(*part, self.stride) for part in parts if part[1] and part[2]]

    @property
    def whole(self) -> Group:
        """All taps."""
        return Group(0, 1, self.taps, 1)

    def reach(self, pixels: int, group: Group) -> int:
        """Lines of a class that so many pixels side by side see."""
        step = self.stride // group.stride
        return step * (pixels - 1) + self.halo(group.steps) + 1

    def lines(self, pixels: int) -> int:
        """Lines of all classes that so many pixels side by side see."""
        return sum(g.classes * self.reach(pixels, g) for g in self.groups)

    def tap_of(self, number: Node) -> Node:
        """The value of the range at a tap of that number."""
        if not self.reversed:
            return number
        return sub(const(self.taps - 1, INDEX), number)

    def halo(self, steps: int) -> int:
        """Lines of a class beyond those of the columns."""
        return self.dilation * (steps - 1)

    def share(self, columns: int) -> float:
        """Lines of all classes for so many columns, over pairs of column and tap."""
        return self.lines(columns) / (columns * self.taps)


# What stands in memory.


class Term(NamedTuple):
    """A part of the place of an element: its position in a block, times a weight.

    Attributes:
      ranges: of the block, those that have places of their own.
      strips: elements from one strip to the next; 0: positions are side by side.
    """

    cut: Blocked
    weight: int
    ranges: tuple[Node, ...]
    strips: int = 0

    @staticmethod
    def of(cut: Blocked, weight: int, free: Collection[Node] | None = None) -> Term:
        """Where all ranges have places of their own, or those in `free`."""
        ranges = [r for r in cut.within if free is None or r in free]
        return Term(cut, weight, tuple(ranges))

    def __str__(self) -> str:
        return f"[{names_of(self.ranges)}]" if self.ranges else ""


@dataclass(frozen=True, eq=False)
class Panel:
    """Memory for an operand, or for sums: rows of `pitch` elements.

    Attributes:
      name, node: what stands there; it is one memory wherever it is named.
      terms: where its elements stand; along the last one they are side by side.
      padded: rows are whole vectors long, whatever is in them.
      zeros: from this column on, rows are zero at first; None: they are not.
    """

    name: str
    node: Node
    rows: int
    pitch: int
    terms: tuple[Term, ...]
    padded: bool = False
    zeros: int | None = None

    @property
    def key(self) -> tuple[str, Node]:
        return self.name, self.node

    @property
    def ranges(self) -> list[Node]:
        """Of its elements, which are side by side along the last one."""
        return [r for part in self.terms for r in part.ranges]

    def __str__(self) -> str:
        strips = ["[strip]" for part in self.terms if part.strips]
        return "".join([self.name, *strips, *map(str, self.terms)])


@dataclass(frozen=True, eq=False)
class Image:
    """Memory for an operand that windows see.

    Attributes:
      windows: each with the classes of its taps that see this image.
      along: windows slide along its ranges.
      others: what the image has beside its lines; with channels last, inside them.
      columns: groups: the image has a vector of them where it would have a number.
      steps: elements from one value to the next of each axis, range and tap.
      kinds: the same of the classes of a window, by its pixel.
      zeros: 0 where all of it is zero at first; what is in no line stays so.
      behind: tiles read vectors, also behind the last line.
    """

    name: str
    node: Node
    windows: tuple[tuple[Window, Group], ...]
    along: Cut
    others: Term
    channels_last: bool
    columns: Term | None
    zeros: int | None
    behind: bool
    rows: int
    pitch: int
    steps: Mapping[Node, int]
    kinds: Mapping[Node, int]

    @property
    def key(self) -> tuple[str, Node]:
        return self.name, self.node

    @property
    def taps(self) -> list[tuple[int, ...]]:
        """Of all windows, in their order."""
        return list(product(*(range(window.taps) for window, _ in self.windows)))

    def __str__(self) -> str:
        lines, others = f"[line of {self.along}]", str(self.others)
        places = [lines, others] if self.channels_last else [others, lines]
        return f"{self.name}{''.join(places)}{self.columns or ''}"


Memory = Panel | Image


def not_aliased(pitch: int, item: int, lanes: int, target: Target) -> int:
    """A pitch with which rows begin on more than four sets of the first cache."""
    return pitch + lanes if pitch * item % (target.l1_way // 4) == 0 else pitch


def images_of(
    node: Node,
    windows: Sequence[Window],
    along: Cut,
    others: Term,
    lanes: int,
    target: Target,
    by_class: bool = False,
    channels_last: bool = False,
    groups: Cut | None = None,
    zeros: int | None = None,
    behind: bool = False,
) -> tuple[Image, ...]:
    """The images that the taps of some windows see: one for all, or for each class.

    Args:
      by_class: vectors need pixels side by side: each class of a strided window has its
        lines.
      groups: columns, if they are groups and places; then channels are last.
      others: see `Image`.
    """
    found: list[Image] = []
    kinds_of = [w.groups if by_class else [w.whole] for w in windows]
    columns, each = None, 1
    if groups is not None:
        columns = Term(groups, 1, groups.within[: 1 if groups.order else None])
        each = -(-groups.positions(columns.ranges) // lanes) * lanes
    assert isinstance(others.cut, Cut)
    count = others.cut.positions(others.ranges)
    sizes = dict(zip(along.within, along.extents, strict=True))
    for n, chosen in enumerate(product(*kinds_of)):
        pairs = tuple(zip(windows, chosen, strict=True))
        of_pixels = {window.column: (window, group) for window, group in pairs}
        steps, kinds = dict[Node, int](), dict[Node, int]()
        weight = count * each if channels_last else 1
        for axis in (along.order or along.within)[::-1]:
            if axis not in of_pixels:
                steps[axis] = weight
                weight *= sizes[axis]
                continue
            window, group = of_pixels[axis]
            steps[axis] = weight * (window.stride // group.stride)
            steps[window.tap] = weight * window.dilation
            weight *= window.reach(sizes[axis], group)
            kinds[axis] = weight
            weight *= group.classes
        rows, pitch, unit = 1, weight, each
        if not channels_last:
            rows = count
            unit = pitch = not_aliased(weight, node.dtype.itemsize, lanes, target)
        steps |= others.cut.steps(unit, others.ranges)
        own = others._replace(weight=unit)
        found.append(
            Image(
                f"image{n or ''}", node, pairs, along, own, channels_last, columns,
                zeros, behind, rows, pitch, steps, kinds,
            )
        )  # fmt: skip
    return tuple(found)
