"""Parts of a graph around values that are much larger than all that goes in and out.

    scores = q @ k.T        [n, m] of [n, d] and [m, d]: a *peak*
    weights = softmax(scores)                    *high*: as large, made of a peak
    out = weights @ v       [n, d]: a *result*, and so are row maxima and sums

A *region* is the high values that hang together, and the small ones between them. It
needs nothing that is computed from its own results elsewhere; where there is such a
thing (a gradient comes back through the rest of the network), the values are computed
again in a second region. What is large but made of no peak (a mask of positions, noise)
is computed in each region that needs it.

Axes run in step through all operations of a region (`analysis.py`). Such
a class of axes can be cut where no operation inside needs more than its own slice, and
where it is no two axes of one value: `Region` knows them. `find_regions` says what may
run slice by slice, and along which axes; `tile_regions.py` makes loops of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

from ftrace import dtypes
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower import analysis
from ftrace.trace.graph import Node, bits_below, toposort, walk
from ftrace.trace.primitives.broadcast import expand_p
from ftrace.trace.primitives.elementwise import cast_p
from ftrace.trace.primitives.movement import permute_p, reshape_p
from ftrace.trace.primitives.primitive import Primitive
from ftrace.trace.primitives.sources import const_p, iota_p
from ftrace.trace.symbolic import is_dynamic, same_size

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
            zip(node.src, analysis.axes_in_step(node), strict=True)
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


#: A peak has so many times the elements of all that it is made of. With 8 causal
#: attention 4×8×256×64 stores 17 MB, not 4; with 1 a transformer block has one more.
_BLOW_UP = 2
#: Terms of the sum of a peak, up to which it may be computed again: that takes about
#: as long as it takes to store and load it, and the memory is free for other things.
#: A step of a transformer block 4×256×256 stores 26 MB, with none computed again 43.
_RECOMPUTED_TERMS = 160

_FREE_MOVEMENT = (reshape_p, permute_p, expand_p)


def find_regions(outputs: Sequence[Node], least: int) -> list[Region]:
    """The regions whose peaks have at least so many bytes, in an order that works."""
    order = toposort(outputs)
    if not any(
        analysis.nbytes(n) >= least for n in order if n.op.family == "reduction"
    ):
        return []
    return _Finder(order, outputs, least).find()


class _Finder:
    """Finds regions; see the module.

    Attributes:
      place: of each value in the order of the graph.
      lean: for each value the elements that it is made of, by movement and elementwise.
      group: for each high value and result the number of its group.
      high: values as large as a peak.
      wave: for each value how often what it is made of has left a group.
      member: for each value the group in whose region it may be computed.
    """

    def __init__(self, order: list[Node], outputs: Sequence[Node], least: int) -> None:
        self.order = order
        self.place = {node: i for i, node in enumerate(order)}
        self.outputs = set(outputs)
        self.least = least
        self.lean: dict[Node, int] = {}
        self.sets = Sets()
        self.group: dict[Node, int] = {}
        self.high: set[Node] = set()
        self.size: dict[int, int] = {}  # of the smallest peak of a group
        self.dead: set[int] = set()
        self.wave: dict[Node, int] = {}
        self.member: dict[Node, int] = {}

    def find(self) -> list[Region]:
        self._measure()
        self._grow()
        for node in self.order:
            if node in self.group and node not in self.high:
                self.group[node] = self.sets.root(self.group[node])
        for node in self.high:
            self.group[node] = self.sets.root(self.group[node])
        self.dead = {self.sets.root(g) for g in self.dead}
        if not any(g not in self.dead for g in self.group.values()):
            return []
        self._number_waves()
        return self._regions()

    def _measure(self) -> None:
        for node in self.order:
            family, below = node.op.family, [self.lean[s] for s in node.src]
            if is_dynamic(node.aval.size):
                self.lean[node] = node.aval.size
            elif node.op in (const_p, iota_p):
                self.lean[node] = 0
            elif family == "movement" or family in analysis.ELEMENTWISE:
                self.lean[node] = min(node.size, sum(below))
            else:
                self.lean[node] = node.size

    def _is_peak(self, node: Node) -> bool:
        if node.op.family != "reduction" or analysis.nbytes(node) < self.least:
            return False
        return node.size >= _BLOW_UP * self.lean[node.src[0]] > 0

    def _grow(self) -> None:
        """High values, their groups and what is reduced from them."""
        for node in self.order:
            below = [s for s in node.src if s in self.high]
            if self._is_peak(node):
                self.high.add(node)
                number = self.group[node] = self.sets.new()
                self.size[number] = node.size
            if not below:
                continue
            number = self._join([*below, *[node] * (node in self.high)])
            if not analysis.is_followed(node):
                self.dead.add(number)
                continue
            self.group[node] = number
            half = node.op.family != "reduction"  # a part of a high value is high
            if node.size << half >= self.size[number]:
                self.high.add(node)
        for node in self.outputs & self.high:
            self.dead.add(self.group[node])

    def _join(self, nodes: Sequence[Node]) -> int:
        numbers = {self.sets.root(self.group[n]) for n in nodes}
        size = min(self.size[n] for n in numbers)
        number = self.sets.join(numbers)
        self.size[number] = size
        return number

    # Waves.

    def _number_waves(self) -> None:
        leads = self._leads_to()
        alive = {n: 1 << own for n, own in self.group.items() if own not in self.dead}
        after = bits_below(self.order, alive)  # the groups that a value is made of
        for node in self.order:
            number = self._membership(node, after, leads)
            if number is not None:
                self.member[node] = number
            self.wave[node] = max(
                (
                    self.wave[s]
                    + (s in self.member and self.member[s] != self.member.get(node))
                    for s in node.src
                ),
                default=0,
            )

    def _leads_to(self) -> dict[Node, int]:
        """Bits of the groups of whose high values something is made with a node."""
        leads = dict.fromkeys(self.order, 0)
        for node in reversed(self.order):
            if node in self.high and self.group[node] not in self.dead:
                leads[node] |= 1 << self.group[node]
            for source in node.src:
                leads[source] |= leads[node]
        return leads

    def _membership(
        self, node: Node, after: dict[Node, int], leads: dict[Node, int]
    ) -> int | None:
        own = self.group.get(node)
        if own is not None:
            return None if own in self.dead else own
        if (
            not after[node]
            or not analysis.is_followed(node)
            or analysis.is_contraction(node)
        ):
            return None
        numbers = {self.member.get(s) for s in node.src if after[s]}
        if len(numbers) != 1:
            return None
        (number,) = numbers
        return number if number is not None and leads[node] >> number & 1 else None

    # Regions.

    def _regions(self) -> list[Region]:
        parts: dict[tuple[int, int], list[Node]] = {}
        for node in self.order:
            if node in self.member:
                key = self.wave[node], self.member[node]
                parts.setdefault(key, []).append(node)
        users: dict[Node, list[Node]] = {}
        for node in self.order:
            for source in node.src:
                users.setdefault(source, []).append(node)
        found: dict[int, list[tuple[int, Region]]] = {}
        failed: set[int] = set()
        for (wave, number), nodes in sorted(parts.items(), key=lambda p: p[0]):
            kept = self._leading(nodes)
            outputs = [
                n
                for n in kept
                if n not in self.high
                and (n in self.outputs or any(u not in kept for u in users.get(n, ())))
            ]
            if not outputs or number in failed:
                continue
            region = self._region(kept, outputs)
            if region is None:
                failed.add(number)
            else:
                found.setdefault(number, []).append((wave, region))
        pairs = [p for number in found if number not in failed for p in found[number]]
        regions = [region for _, region in sorted(pairs, key=lambda p: p[0])]
        _give_to_each_other(regions)
        return regions

    def _leading(self, nodes: list[Node]) -> dict[Node, None]:
        """Those that are high, reduced from high values, or on the way to high ones."""
        inside = set(nodes)
        useful: set[Node] = set()
        for node in reversed(nodes):
            if node in self.group or node in useful:
                useful.update((node, *(s for s in node.src if s in inside)))
        return {n: None for n in nodes if n in useful}

    def _region(self, kept: dict[Node, None], outputs: list[Node]) -> Region | None:
        inside = walk(kept, lambda n: filter(self._is_computed_inside, n.src))
        nodes = sorted(inside, key=self.place.__getitem__)
        again = {n for n in nodes if n.op.family == "reduction" and n not in kept}
        if not all(map(self._is_cheap, again)) or _decide_jumps(again, nodes):
            return None
        peaks = [n for n in nodes if self._is_peak(n)]
        peak = max(peaks, key=lambda n: n.size)
        region = Region(nodes, outputs, peak.shape, peak.dtype.itemsize)
        return region if _Classes(region, peak).classify() else None

    def _is_computed_inside(self, node: Node) -> bool:
        """Is a value from outside computed in the region, or taken as an input?"""
        if node.op is iota_p:
            return False
        if node.op is const_p or node in self.high:
            return True
        if node.op in _FREE_MOVEMENT:
            (steps,) = analysis.axes_in_step(node)
            grown = node.op is expand_p
            return grown or sum(not same_size(n, 1) for n in node.shape) == sum(
                s is not None and not same_size(node.shape[s], 1) for s in steps
            )
        blown_up = node.size > _BLOW_UP * self.lean[node]
        return blown_up and (node.op.family in (*analysis.ELEMENTWISE, "movement"))

    def _is_cheap(self, node: Node) -> bool:
        return node.src[0].size <= _RECOMPUTED_TERMS * node.size


def _decide_jumps(sums: set[Node], nodes: Sequence[Node]) -> bool:
    """Does anything jump where one of these sums changes by the last bit?

    Computed again they may, as their loops may differ.
    """
    below = set(sums)
    for node in nodes if sums else ():
        if node not in below and not below.isdisjoint(node.src):
            if _jumps(node):
                return True
            below.add(node)
    return False


def _jumps(node: Node) -> bool:
    if node.op is cast_p:
        return not dtypes.is_inexact(node.dtype)
    return isinstance(node.op, Primitive) and node.op.jumps


def _give_to_each_other(regions: Sequence[Region]) -> None:
    """What one region computes and a later one takes is an output, too."""
    maker = {n: r for r in reversed(regions) for n in r.nodes}
    for region in regions:
        for taken in region.inputs.values():
            made_by = maker.get(taken.node)
            if made_by is not None and taken.node not in made_by.outputs:
                made_by.outputs.append(taken.node)
