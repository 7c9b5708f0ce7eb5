"""Windows: an axis and a range of a sum that an operand has only together.

    x[stride·column + dilation·tap, …]        a convolution, a pooling

Such an operand has far fewer elements than there are pairs of a column and a tap. The
taps fall into *classes*, those that are a multiple of `stride` apart: within a class
the operand depends on line = column + dilation·step alone, where tap = class +
stride·step. What is evaluated once for each line of each class serves all pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd

from ftrace.devices.affine_forms import Affine
from ftrace.devices.llvm.schedule.index_facts import Facts, index_of
from ftrace.ground.fast_dataclasses import NamedTuple, dataclass
from ftrace.lower.kernel.ir import INDEX, axis_of, load_p, range_p
from ftrace.trace.graph import Node
from ftrace.trace.primitives.elementwise import sub
from ftrace.trace.primitives.sources import const
from ftrace.trace.symbolic.dim import is_dynamic


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
        lines = sum(g.classes * self.reach(columns, g) for g in self.groups)
        return lines / (columns * self.taps)


def find_windows(
    node: Node,
    columns: Sequence[Node],
    ranges: Sequence[Node],
    facts: Facts,
    saving: bool = True,
) -> list[Window]:
    """The windows in an operand; outer columns first.

    Args:
      saving: only those of which each pixel is in more than one.
    """
    forms = _forms(node, facts)
    if forms is None:
        return []
    found: list[Window] = []
    for column in columns:
        size = axis_of(column).size
        if is_dynamic(size):
            continue
        fitting = [_window(column, r, forms) for r in ranges]
        windows = [w for w in fitting if w is not None and w.taps <= size]
        if saving:
            windows = [w for w in windows if w.share(size) < 1]
        if windows:
            found.append(min(windows, key=lambda w: w.share(size)))
    return found


def _window(column: Node, tap: Node, forms: Sequence[Affine]) -> Window | None:
    """How the two go together, if they do so wherever one of them stands."""
    size = axis_of(tap).size
    if is_dynamic(size) or size < 2:
        return None
    ratio: tuple[int, int, bool] | None = None
    for form in forms:
        a, b = form.terms.get(column, 0), form.terms.get(tap, 0)
        if not a and not b:
            continue
        if not a or not b:
            return None
        here = (abs(a) // gcd(a, b), abs(b) // gcd(a, b), a * b < 0)
        if ratio not in (None, here):
            return None
        ratio = here
    return None if ratio is None else Window(column, tap, *ratio)


def _forms(node: Node, facts: Facts) -> list[Affine] | None:
    """Every sum of ranges on which an operand depends, if it does so by sums alone."""
    found: list[Affine] = []
    for load in _loads(node):
        if load is None:
            return None
        found.append(facts.affine[index_of(load)])
        for condition in facts.conditions(load.src[2] if len(load.src) > 2 else None):
            if condition.form is None:
                return None
            found.append(condition.form)
    if any(atom.op is not range_p for form in found for atom in form.terms):
        return None
    return found


def _loads(node: Node) -> Iterator[Node | None]:
    """The loads below an operand; None where it depends on an index otherwise."""
    pending, seen = [node], {node}
    while pending:
        n = pending.pop()
        if n.op is load_p:
            yield n
            continue
        if n.op is range_p:
            yield None
        fresh = [s for s in n.src if s not in seen]
        seen.update(fresh)
        pending += fresh
