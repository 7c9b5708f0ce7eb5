"""Windows: an axis and a range of a sum that an operand has only together.

    x[stride·column + dilation·tap, …]        a convolution, a pooling

Such an operand has far fewer elements than there are pairs of a column and a tap. The
taps fall into *classes*, those that are a multiple of `stride` apart: within a class
the operand depends on line = column + dilation·step alone, where tap = class +
stride·step. What is evaluated once for each line of each class serves all pairs.
"""

from __future__ import annotations

from ftrace.ground.fast_dataclasses import NamedTuple, dataclass
from ftrace.lower.kernel.ir import INDEX, axis_of
from ftrace.trace.graph import Node
from ftrace.trace.primitives.elementwise import sub
from ftrace.trace.primitives.sources import const


class Group(NamedTuple):
    """Taps of a window: those of some classes with equally many of them.

    Attributes:
      first: the first class.
      classes: how many there are.
      steps: taps of each.
      apart: from one tap of a class to the next.
    """

    first: int
    classes: int
    steps: int
    apart: int


@dataclass(frozen=True, eq=False)
class Window:
    """A column and the taps of its window.

    Attributes:
      column: an axis of the kernel.
      tap: what is summed over.
      stride, dilation: the operand depends on stride·column + dilation·tap only.
      turned: taps count from the last to the first; else `dilation` would be negative.
    """

    column: Node
    tap: Node
    stride: int
    dilation: int
    turned: bool = False

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
        step = self.stride // group.apart
        return step * (pixels - 1) + self.halo(group.steps) + 1

    def lines(self, pixels: int) -> int:
        """Lines of all classes that so many pixels side by side see."""
        return sum(g.classes * self.reach(pixels, g) for g in self.groups)

    def tap_of(self, number: Node) -> Node:
        """The value of the range at a tap of that number."""
        if not self.turned:
            return number
        return sub(const(self.taps - 1, INDEX), number)

    def steps(self, size: int) -> tuple[int, int]:
        """Where taps begin and how far they are apart, if the range's are `size`."""
        return ((self.taps - 1) * size, -size) if self.turned else (0, size)

    def halo(self, steps: int) -> int:
        """Lines of a class beyond those of the columns."""
        return self.dilation * (steps - 1)

    def share(self, columns: int) -> float:
        """Lines of all classes for so many columns, over pairs of column and tap."""
        return self.lines(columns) / (columns * self.taps)
