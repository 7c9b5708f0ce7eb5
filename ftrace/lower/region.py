"""A region of a graph that may run slice by slice, and along which axes.

Axes run in step through all operations of the region (`alignment.py`). Such a class of
axes can be cut where no operation inside needs more than its own slice, and where it is
no two axes of one value.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from ftrace.lower.alignment import axes_in_step
from ftrace.records import dataclass
from ftrace.trace.dims import same_size
from ftrace.trace.graph import Node
from ftrace.trace.primitives.broadcast import expand_p

#: For each axis of a value the number of its class, or None.
Classes = tuple[int | None, ...]
#: A use of a value: who uses it, as which operand.
Use = tuple[Node, int]


@dataclass(frozen=True)
class Input:
    """A value from outside in one role: rows and columns may be the same value."""

    node: Node
    classes: Classes


@dataclass(eq=False)
class Region:
    """What may run slice by slice.

    A *class* is a number for axes that run in step and along which slices need no
    other slices.

    Attributes:
      nodes: all that is computed, sources first.
      outputs: its results that are needed elsewhere, or at the end.
      shape: the largest peak's.
      itemsize: bytes of one element of it.
      peak: the classes of its axes.
      inputs: for each use of a value from outside, and of positions (iota), its role.
      classes: of the axes of each node.
      ends: for each class the outputs that are reduced along it.
    """

    nodes: list[Node]
    outputs: list[Node]
    shape: tuple[int, ...] = ()
    itemsize: int = 1
    peak: Classes = ()
    inputs: dict[Use, Input] = field(default_factory=dict[Use, Input])
    classes: dict[Node, Classes] = field(default_factory=dict[Node, Classes])
    ends: dict[int, set[Node]] = field(default_factory=dict[int, set[Node]])


class Sets:
    """Numbers that are put together."""

    def __init__(self) -> None:
        self.parent: list[int] = []

    def new(self) -> int:
        self.parent.append(len(self.parent))
        return self.parent[-1]

    def root(self, number: int) -> int:
        while self.parent[number] != number:
            self.parent[number] = self.parent[self.parent[number]]
            number = self.parent[number]
        return number

    def join(self, numbers: Iterable[int]) -> int:
        roots = {self.root(n) for n in numbers}
        first = min(roots)
        for other in roots:
            self.parent[other] = first
        return first


def classify(region: Region, peak: Node) -> bool:
    """Fills in the classes of a region; False if it cannot be cut."""
    return _Classes(region, peak).classify()


class _Classes:
    """Which axes in a region run in step, and along which of them it can be cut."""

    def __init__(self, region: Region, peak: Node) -> None:
        self.region = region
        self.peak = peak
        self.sets = Sets()
        self.numbers: dict[Node | Use, list[int | None]] = {}
        self.whole: set[int] = set()  # numbers of axes that cannot be cut

    def classify(self) -> bool:
        """Fills in the region; False if it cannot be cut."""
        region = self.region
        for node in region.nodes:
            self._add(node, node)
        used = {s for n in region.nodes for s in n.src}
        for node in region.nodes:
            for i, source in enumerate(node.src):
                if source not in self.numbers:
                    self._add((node, i), source)
            self._join(node, node in used)
        ends = self._ends(used)
        whole = {self.sets.root(n) for n in self.whole}
        for name in self.numbers:
            roots = [r for r in self._roots(name) if r is not None]
            whole.update(r for r in roots if roots.count(r) > 1)
        cut = {r for r in self._roots(self.peak) if r is not None} - whole

        def classes(name: Node | Use) -> Classes:
            return tuple(r if r in cut else None for r in self._roots(name))

        region.peak = classes(self.peak)
        for name in self.numbers:
            if isinstance(name, Node):
                region.classes[name] = classes(name)
            else:
                user, i = name
                region.inputs[name] = Input(user.src[i], classes(name))
        region.ends = {r: ends.get(r, set()) for r in cut}
        return bool(cut) and self._outputs_fit(cut)

    def _add(self, name: Node | Use, node: Node) -> None:
        self.numbers[name] = [
            None if same_size(n, 1) else self.sets.new() for n in node.shape
        ]

    def _roots(self, name: Node | Use) -> Classes:
        root = self.sets.root
        return tuple(None if n is None else root(n) for n in self.numbers[name])

    def _join(self, node: Node, used: bool) -> None:
        """Axes of an operation and of its operands that run in step."""
        lost = used or node.op.family != "reduction"  # the end of an axis is no loss
        own = self.numbers[node]
        met: set[int] = set()
        for i, (source, steps) in enumerate(
            zip(node.src, axes_in_step(node), strict=True)
        ):
            numbers = self.numbers.get((node, i)) or self.numbers[source]
            for number, step in zip(numbers, steps, strict=True):
                if number is None:
                    continue
                other = None if step is None else own[step]
                if step is not None and other is not None:
                    met.add(step)
                    self.sets.join((number, other))
                elif lost:
                    self.whole.add(number)
        if node.op.family == "movement" and node.op is not expand_p:
            for axis, number in enumerate(own):
                if number is not None and axis not in met:
                    self.whole.add(number)

    def _ends(self, used: set[Node]) -> dict[int, set[Node]]:
        """For each class the nodes at the end that are reduced along it."""
        found: dict[int, set[Node]] = {}
        for node in self.region.nodes:
            if node.op.family != "reduction" or node in used:
                continue
            (source,) = node.src
            name = source if source in self.numbers else (node, 0)
            roots = self._roots(name)
            axes: tuple[int, ...] = node.arg
            for axis in axes:
                root = roots[axis]
                if root is not None:
                    found.setdefault(root, set()).add(node)
        return found

    def _outputs_fit(self, cut: set[int]) -> bool:
        """Does each output have each class, or was it reduced along it?"""
        region = self.region
        return all(
            number in region.classes[node] or node in region.ends[number]
            for node in region.outputs
            for number in cut
        )
