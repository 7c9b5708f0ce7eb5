"""What is much larger than all around it is computed slice by slice.

    scores, weights, out = …            for each block of rows:
                                   ->       scores, weights, out = … of these rows

A region (`find_regions.py`) becomes loops over its outer axes and over blocks of one
axis; a block of its large values fits into a core's cache, and nothing larger is
stored. Slices are independent, but for results that are reduced along an axis that is
cut: blocks of one loop add to these in order, and what several loops have is added in
the end. The blocks depend on the sizes and the target alone, so that results do not
depend on the number of threads.

Of the axes along which slices are independent, the outer ones become loops until a
slice is small enough, and the next one is cut into blocks. Results that slices add to
are small, or the axis is left whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from ftrace import dtypes
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.ground.limits import Limits
from ftrace.lower.analysis import positions_by_axes, slice_op
from ftrace.lower.blocking.find_regions import Classes, Input, Region, find_regions
from ftrace.lower.control.canonical_loop import Loop, loop_p
from ftrace.trace.avals import Shape
from ftrace.trace.body import close
from ftrace.trace.graph import Node, inherited_origin, rebuild, toposort
from ftrace.trace.primitives.broadcast import expand, reduce_sum_p
from ftrace.trace.primitives.elementwise import add, cast
from ftrace.trace.primitives.movement import pad, permute, reshape, shrink_axis
from ftrace.trace.primitives.reduction import COMBINES, identity_like, reduce
from ftrace.trace.primitives.sources import DEPTHS, iota, iota_p, variable, variables
from ftrace.trace.symbolic import same_size

#: Rows of a block, at least: fewer keep the product of matrices from its pace. With 16
#: causal attention 1×8×2048×64 stores 4 MB, not 8; with 256, 34.
_FEW_ROWS = 64
#: Bytes of a block are at least this part of those that blocks add to, which are moved
#: for each block. With 1 or 2²⁰ no row differs.
_PART_OF_SUMS = 4
#: Loops of fewer iterations may leave threads idle: with 1 causal attention 4×8×256×64
#: has its threads within a batch, and stores 2 MB, not 4.
FEW_ITERATIONS = 8
#: Into how many parts blocks are split that add to a result, for so many threads. The
#: gradients of a gaussian kernel 2048² store 16 MB; as one part, of one thread, 2.
_MOST_PARTIALS = 8


@dataclass(frozen=True)
class Cut:
    """A class of axes of `size`, cut into `count` pieces of one size."""

    number: int
    size: int
    count: int

    @property
    def piece(self) -> int:
        return self.size // self.count


@dataclass(frozen=True)
class RegionCuts:
    """How a region is cut.

    Attributes:
      outer: whose slices have size 1, outermost first.
      number: of the class that is cut into blocks; of the last of them all.
      size: of its axes.
      partials: into how many parts they are cut first, of which each adds up results of
        its own; 1 where nothing is added up, or there are slices enough.
      blocks: how many blocks a part has.
    """

    outer: tuple[Cut, ...]
    number: int
    size: int
    partials: int
    blocks: int


def plan_cuts(region: Region, target: int) -> RegionCuts | None:
    """Blocks whose peak has about `target` bytes; None if there is but one."""
    axes = _axes(region)
    elements = prod(region.shape)
    inside = elements * region.itemsize
    outer: list[Cut] = []
    for number, size in axes:
        last = number == axes[-1][0]
        results = sum(node.size for node in region.ends[number])
        if inside // size > target and not last:
            if 2 * results * size <= elements:  # each slice has results of its own
                outer.append(Cut(number, size, size))
                inside //= size
        elif 2 * results <= elements:
            inside //= size
            return _in_blocks(region, tuple(outer), number, size, inside, target, last)
    if not outer:
        return None
    end = outer.pop()
    return RegionCuts(tuple(outer), end.number, end.size, 1, end.size)


def _axes(region: Region) -> list[tuple[int, int]]:
    """Classes that may be cut and their sizes, outermost first.

    Heads come before rows, wherever they stand: all inputs of a head are its own, but
    its rows share the columns.
    """
    axes = [
        (number, size)
        for number, size in zip(region.peak, region.shape, strict=True)
        if number is not None
    ]
    whole = any(
        number is None and not same_size(size, 1)
        for number, size in zip(region.peak, region.shape, strict=True)
    )
    if not whole and len(axes) > 1:
        axes.pop()  # what is contiguous in memory is read whole
    return sorted(axes, key=lambda axis: _count_shared(region, axis[0]))


def _count_shared(region: Region, number: int) -> int:
    """Elements of inputs of which all slices of a class need the same."""
    inputs = {i for i in region.inputs.values() if i.node.op is not iota_p}
    return sum(i.node.size for i in inputs if number not in i.classes)


def _in_blocks(
    region: Region,
    outer: tuple[Cut, ...],
    number: int,
    size: int,
    inside: int,
    target: int,
    last: bool,
) -> RegionCuts | None:
    """Blocks of a class, of which a slice of size 1 has a peak of `inside` bytes."""
    iterations = prod(c.size for c in outer)
    # What blocks add to should not be moved more often than their own values.
    summed = _summed_bytes(region, number, [c.number for c in outer])
    rows = max(max(target, summed // _PART_OF_SUMS) // inside, 1)
    if last and _count_shared(region, number):
        rows = max(rows, _FEW_ROWS)
    rows = min(rows, size)
    if same_size(rows, size) and not outer:
        return None
    parts = 1
    if summed and iterations < FEW_ITERATIONS:
        parts = min(_MOST_PARTIALS, -(-size // rows), size * inside // (2 * summed))
        parts = parts if parts > iterations else 1
    return RegionCuts(outer, number, size, parts, _blocks(size, rows * parts))


def _summed_bytes(region: Region, number: int, outer: Sequence[int]) -> int:
    """Bytes of the results that blocks of a class add to, of one slice of the outer."""
    found = 0
    for node in region.ends[number]:
        pairs = zip(node.shape, region.classes[node], strict=True)
        found += prod(n for n, c in pairs if c not in outer) * region.itemsize
    return found


def _blocks(size: int, most: int) -> int:
    """How many blocks of at most so many rows; if it can be, all of one size."""
    least = -(-size // most)
    exact = (n for n in range(least, 2 * least) if same_size(size % n, 0))
    return next(exact, least)


#: What `config.disabled_rules` can switch off here.
DECISIONS = {"tile_regions": "what is much larger than all around it runs in blocks"}

#: Peaks of fewer times the bytes of a cache are stored. With 8 the distances of 1024
#: points are; with 1 no row differs.
_LEAST = 2
#: The part of the cache that a block may take. With half or all of it the distances of
#: 1024 points and n-body forces differ, with 8 or 16 no row.
_PART_OF_CACHE = 4


def in_slices(outputs: Sequence[Node], limits: Limits) -> list[Node]:
    """The outputs of a graph after its rewrites, large values slice by slice."""
    cache = limits.cache
    whole = positions_by_axes(outputs, _LEAST * cache)
    plans = [
        (region, plan)
        for region in find_regions(whole, _LEAST * cache)
        if (plan := plan_cuts(region, cache // _PART_OF_CACHE)) is not None
    ]
    if not plans:
        return list(outputs)
    rebuilt = _Rebuilt()
    with inherited_origin() as take:
        for region, plan in plans:
            take(region.outputs[0])
            loops = _Loops(region, plan)
            values = rebuilt.nodes([taken.node for taken in loops.inputs])
            rebuilt.done.update(loops.results(values))
    return rebuilt.nodes(whole)


class _Rebuilt:
    """Values of the old graph in the new one."""

    def __init__(self) -> None:
        self.done: dict[Node, Node] = {}

    def nodes(self, roots: Sequence[Node]) -> list[Node]:
        done = self.done
        with inherited_origin() as take:
            for node in toposort(roots, done):
                take(node)
                done[node] = rebuild(node, tuple(done[s] for s in node.src))
        return [done[r] for r in roots]


@dataclass(frozen=True)
class _Level:
    """A loop.

    Attributes:
      cuts: the classes of axes of which an iteration has a slice each.
      carries: iterations add to results one after the other.
    """

    cuts: tuple[Cut, ...]
    carries: bool = False

    @property
    def length(self) -> int:
        return prod(cut.count for cut in self.cuts)


# Loops.

#: The values of inputs, or of outputs, in slices.
Values = Mapping[Input | Node, Node]


class _Loops:
    """The loops of a region.

    Attributes:
      inputs: of which slices, or all, are taken.
      summed: for each class that is cut the outputs that are reduced along it.
    """

    def __init__(self, region: Region, plan: RegionCuts) -> None:
        self.region = region
        self.plan = plan
        self.outputs = list(dict.fromkeys(region.outputs))
        self.cut = {*(c.number for c in plan.outer), plan.number}
        self.summed = {number: region.ends[number] for number in self.cut}
        # Positions along an axis that is not cut are as easily counted inside.
        self.inputs = [
            taken
            for taken in dict.fromkeys(region.inputs.values())
            if taken.node.op is not iota_p or self._class_counted(taken) in self.cut
        ]

    @staticmethod
    def _class_counted(taken: Input) -> int | None:
        """Of positions: the class of the axis that they are along."""
        axis: int = taken.node.arg
        return taken.classes[axis]

    def _axis(self, name: Input | Node, number: int) -> int | None:
        """The axis of a value that has a class."""
        if isinstance(name, Node):
            classes = self.region.classes[name]
        elif name.node.op is iota_p and self._class_counted(name) != number:
            return None  # positions stand in memory along their own axis only
        else:
            classes = name.classes
        return classes.index(number) if number in classes else None

    def results(self, values: Sequence[Node]) -> dict[Node, Node]:
        """The outputs of the region for the values of its inputs."""
        given: dict[Input | Node, Node] = {}
        for taken, value in zip(self.inputs, values, strict=True):
            given[taken] = _positions(value) if value.op is iota_p else value
        plan = self.plan
        blocks = plan.partials * plan.blocks
        border = plan.size // blocks * blocks
        main = self._run(self._cut(given, 0, border), border)
        if border < plan.size:
            rest = self._cut(given, border, plan.size)
            more = self._run(rest, plan.size - border, whole=True)
            main = {o: self._join_rows(o, main[o], more[o]) for o in self.outputs}
        return {o: _narrow(o, main[o]) for o in self.outputs}

    def _cut(self, given: Values, start: int, stop: int) -> Values:
        """Rows from `start` to `stop` of all that has rows."""
        found: dict[Input | Node, Node] = {}
        for name, value in given.items():
            axis = self._axis(name, self.plan.number)
            found[name] = (
                value if axis is None else shrink_axis(value, axis, start, stop)
            )
        return found

    def _join_rows(self, output: Node, first: Node, rest: Node) -> Node:
        """An output of all rows."""
        if output in self.summed[self.plan.number]:
            return COMBINES[output.op](first, rest)
        axis = self._axis(output, self.plan.number)
        assert axis is not None
        before = [(0, 0, 0)] * output.ndim
        after = list(before)
        after[axis] = (0, rest.shape[axis], 0)
        before[axis] = (first.shape[axis], 0, 0)
        return add(pad(first, tuple(after)), pad(rest, tuple(before)))

    def _run(self, given: Values, rows: int, whole: bool = False) -> dict[Node, Node]:
        """All loops over so many rows, in blocks or whole."""
        plan = self.plan
        levels = self._outer_levels(given)
        if not whole:
            part = rows // plan.partials
            summed = bool(self.summed[plan.number])
            levels.append(_Level((Cut(plan.number, rows, plan.partials),)))
            levels.append(_Level((Cut(plan.number, part, plan.blocks),), summed))
        levels = [level for level in levels if level.length > 1]
        return self._level(levels, 0, dict(given), _parallel(levels))

    def _outer_levels(self, given: Values) -> list[_Level]:
        """Neighbouring classes that all inputs have, or have not, share a loop."""
        found: list[_Level] = []
        for cut in self.plan.outer:
            if found and all(
                (self._axis(name, cut.number) is None)
                == (self._axis(name, found[-1].cuts[0].number) is None)
                for name in given
            ):
                found[-1] = _Level((*found[-1].cuts, cut))
            else:
                found.append(_Level((cut,)))
        return found

    def _level(
        self, levels: Sequence[_Level], depth: int, given: Values, parallel: int
    ) -> dict[Node, Node]:
        """The outputs, computed by the loops from a level on."""
        if depth == len(levels):
            return self._block(given)
        level = levels[depth]
        cuts = level.cuts
        consts = [n for n in given if not self._moves(n, cuts)]
        moving = [n for n in given if self._moves(n, cuts)]
        stacked = [self._stack(n, given[n], cuts) for n in moving]
        elements = [x.aval.with_shape(x.shape[1:]) for x in stacked]
        avals = [*(given[n].aval for n in consts), *elements]
        names = variables(avals, DEPTHS["slice"] - depth)
        inner = dict(zip([*consts, *moving], names, strict=True))
        found = self._level(levels, depth + 1, inner, parallel)
        ended = self.summed[self.plan.number]
        carried = [o for o in self.outputs if level.carries and o in ended]
        others = [o for o in self.outputs if o not in carried]
        before = [
            variable(found[o].aval, DEPTHS["slice"] - depth, len(names) + i)
            for i, o in enumerate(carried)
        ]
        after = [
            COMBINES[o.op](total, found[o])
            for o, total in zip(carried, before, strict=True)
        ]
        body = close(
            [*names[: len(consts)], *before, *names[len(consts) :]],
            [*after, *(found[o] for o in others)],
        )
        loop = Loop(body, level.length, False, len(consts), len(carried), False)
        if depth != parallel:
            loop = replace(loop, lanes=1)
        start = [identity_like(o.op, found[o]) for o in carried]
        operands = [*(given[n] for n in consts), *start, *stacked]
        results = loop_p.results(*operands, arg=loop)
        values = dict(zip(carried, results, strict=False))
        for output, whole in zip(others, results[len(carried) :], strict=True):
            values[output] = self._unstack(output, whole, cuts)
        return values

    def _moves(self, name: Input | Node, cuts: Sequence[Cut]) -> bool:
        return any(self._axis(name, c.number) is not None for c in cuts)

    def _stack(self, name: Input | Node, x: Node, cuts: Sequence[Cut]) -> Node:
        """The slices of an input along a new leading axis."""
        for k, cut in enumerate(cuts):
            axis = self._axis(name, cut.number)
            assert axis is not None  # cuts of one level are in the same inputs
            shape = list(x.shape)
            shape[axis + k : axis + k + 1] = cut.count, cut.piece
            others = [a for a in range(k, len(shape)) if a != axis + k]
            pieces = reshape(x, tuple(shape))
            x = _permute_axes(pieces, (*range(k), axis + k, *others))
        length = prod(cut.count for cut in cuts)
        return reshape(x, (length, *x.shape[len(cuts) :]))

    def _unstack(self, output: Node, x: Node, cuts: Sequence[Cut]) -> Node:
        """The slices of an output put together."""
        x = reshape(x, (*(cut.count for cut in cuts), *x.shape[1:]))
        for k, cut in reversed(list(enumerate(cuts))):
            before, after = x.shape[:k], list(x.shape[k + 1 :])
            if output in self.summed[cut.number]:
                x = reduce(output.op, x, (k,))
            else:
                axis = self._axis(output, cut.number)
                assert axis is not None
                own = [*range(k + 1, x.ndim)]
                own.insert(axis, k)
                x = _permute_axes(x, (*range(k), *own))
                after[axis] = cut.size
            x = reshape(x, (*before, *after))
        return x

    # One block.

    def _block(self, given: Values) -> dict[Node, Node]:
        """The outputs for slices of the inputs."""
        region = self.region
        sizes: dict[int | None, int] = {}
        for name, value in given.items():
            for number in self.cut:
                axis = self._axis(name, number)
                if axis is not None:
                    sizes[number] = value.shape[axis]

        def shape(node: Node, classes: Classes) -> Shape:
            pairs = zip(node.shape, classes, strict=True)
            return tuple(sizes.get(number, n) for n, number in pairs)

        done: dict[Node, Node] = {}
        with inherited_origin() as take:
            for node in region.nodes:
                take(node)
                src: list[Node] = []
                for i, source in enumerate(node.src):
                    taken = region.inputs.get((node, i))
                    if taken is None:
                        src.append(done[source])
                    elif source.op is iota_p:
                        own = shape(source, taken.classes)
                        counted = given.get(taken) or iota(
                            source.dtype, own, source.arg
                        )
                        src.append(expand(counted, own))
                    else:
                        src.append(given[taken])
                if self._is_summed_wide(node):
                    src = [cast(s, dtypes.float32) for s in src]
                done[node] = slice_op(node, src, shape(node, region.classes[node]))
        return {o: done[o] for o in self.outputs}

    def _is_summed_wide(self, node: Node) -> bool:
        """Is it a sum of short floats that blocks add to, to be rounded in the end?"""
        short = node.dtype.itemsize == 2 and dtypes.is_float(node.dtype)
        ended = any(node in nodes for nodes in self.summed.values())
        return short and ended and node.op is reduce_sum_p


def _permute_axes(x: Node, order: tuple[int, ...]) -> Node:
    """The axes in another order: of no account for those of size 1."""
    long = [axis for axis in order if not same_size(x.shape[axis], 1)]
    if long == sorted(long):
        return reshape(x, tuple(x.shape[axis] for axis in order))
    return permute(x, order)


def _positions(node: Node) -> Node:
    """0, 1, … along its axis, once."""
    sizes = enumerate(node.shape)
    ones = tuple(n if axis == node.arg else 1 for axis, n in sizes)
    return iota(node.dtype, ones, node.arg)


def _parallel(levels: Sequence[_Level]) -> int:
    """The level whose iterations run at the same time."""
    free = [k for k, level in enumerate(levels) if not level.carries]
    for k in free:
        if levels[k].length >= FEW_ITERATIONS:
            return k
    return max(free, key=lambda k: levels[k].length, default=-1)


def _narrow(output: Node, value: Node) -> Node:
    return value if value.dtype == output.dtype else cast(value, output.dtype)
