"""Kernels while they are put together, and the places where they need values.

A *draft* is a kernel of which it is known which loops it has and what it stores. Every
use of a value is a *context*: the draft, and the index at which it needs the value. For
a value that is computed in a context, `operand_contexts` says what that needs in turn:

    y = x.T             in kernel 0 at (i, j):   x at (j, i)
    y = sum(x, axis=1)  in kernel 0 at (i,):     x at (i, r), r a range of the reduce
    y = x[n]            in kernel 0 at (i,):     n at (i,), x at (what n is there,)

A `Schedule` is a list of drafts, and for each value the draft that stores it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from math import prod
from typing import Any

from ftrace.lower.index import (
    ALWAYS,
    RECENT,
    ZERO,
    Atom,
    Index,
    Valid,
    flatten_index,
    range_index,
    ranges_of,
    ranges_of_all,
    source_index,
    unflatten_index,
)
from ftrace.lower.positions import NumberOf, Reading, position_of
from ftrace.lower.values import is_contraction, reduced_axes, squeeze
from ftrace.records import dataclass
from ftrace.tables import memo
from ftrace.trace.avals import Shape
from ftrace.trace.dims import same_size
from ftrace.trace.graph import Node
from ftrace.trace.primitives.indexing import gather_p
from ftrace.trace.sizes import sample


class Context:
    """A use of a value: the kernel, the index, and where the index is one.

    Of a kernel's equal ones are one object, which `Draft.at` gives: indices are deep,
    and what computes element by element needs its operands in the context that it has.

    Attributes:
      ranges: those on which the indices depend.
      places: how many places a window that slides is at; 0 where none slides.
    """

    __slots__ = ("indices", "kernel", "places", "ranges", "valid")

    def __init__(
        self, kernel: int, indices: tuple[Index, ...], valid: Valid | None
    ) -> None:
        self.kernel = kernel
        self.indices = indices
        self.valid = valid
        self.ranges = ranges_of_all(indices)
        self.places = _places(indices)


@memo(RECENT)
def _places(indices: tuple[Index, ...]) -> int:
    # A sum of one atom, if that is no quotient, has one range; of none, none.
    sums = [i for i in indices if len(i.terms) > 1 or _is_divided(i)]
    if not sums or all(len(ranges_of(index)) < 2 for index in sums):
        return 0
    return prod([sample(a.size) for a in ranges_of_all(indices)])


def _is_divided(index: Index) -> bool:
    return any(atom.kind != "range" for atom, _ in index.terms)


@dataclass(eq=False)
class ReduceRanges:
    """The ranges of one or more reduces that run in one loop.

    Attributes:
      atoms: the ranges, outermost first.
      indices: for each reduced axis its index in terms of the ranges.
    """

    atoms: list[Atom]
    indices: list[Index]


@dataclass(eq=False)
class Draft:
    """A kernel while it is put together.

    Attributes:
      shape: sizes of the loops that it was made for, none of them 1.
      atoms: the ranges of its loops, outermost first.
      indices: for each size of `shape` its index in terms of the ranges.
      roots: the values that it stores.
      kind: "map", or "contract" with one contraction and its epilogue, or "scatter",
        or "step" for an operation that is a step of the program by itself.
      scattered: the scatter whose updates it applies.
      step: the compound that is this step.
      sums: those of `roots` to which each row of the loops adds: see
        `split_reductions.py`.
      feeds: kernels that read what it stores.
      weight: operations per iteration, roughly.
    """

    number: int
    shape: Shape
    atoms: list[Atom] = field(default_factory=list[Atom])
    indices: list[Index] = field(default_factory=list[Index])
    roots: list[Node] = field(default_factory=list[Node])
    kind: str = "map"
    scattered: Node | None = None
    step: Node | None = None
    sums: set[Node] = field(default_factory=set[Node])
    feeds: set[int] = field(default_factory=set[int])
    weight: int = 0
    reduces: int = 0
    next_range: int = 0
    reduce_ranges: dict[Any, ReduceRanges] = field(
        default_factory=dict[Any, ReduceRanges]
    )

    def __post_init__(self) -> None:
        self._contexts: dict[tuple[tuple[Index, ...], Valid | None], Context] = {}
        for size in self.shape:
            self.indices.append(self.new_range(size))
        self.atoms = [index.terms[0][0] for index in self.indices]

    def widen(self, shape: Shape) -> None:
        """Adds the loops that `shape` has inside of the kernel's own."""
        for size in shape[len(self.shape) :]:
            index = self.new_range(size)
            self.indices.append(index)
            self.atoms.append(index.terms[0][0])
            self.shape = (*self.shape, size)

    def new_range(self, size: int, reduced: bool = False) -> Index:
        index = range_index(self.next_range, size, reduced)
        self.next_range += 1
        return index

    def root_indices(self, shape: Shape) -> tuple[Index, ...]:
        """The index of a value of that shape which this kernel stores.

        The value has an element per iteration of all loops, or of the outer ones.
        """
        return root_indices(self.indices, self.shape, shape)

    def at(self, indices: tuple[Index, ...], valid: Valid | None = ALWAYS) -> Context:
        """The context of the kernel at an index."""
        found = self._contexts.get((indices, valid))
        if found is None:
            found = Context(self.number, indices, valid)
            self._contexts[indices, valid] = found
        return found

    def ranges_for(self, key: Any, sizes: Sequence[int]) -> ReduceRanges:
        """The ranges of the reduces with that key: the same ones for the same key."""
        found = self.reduce_ranges.get(key)
        if found is None:
            indices = [self.new_range(n, True) for n in sizes]
            atoms = [a for index in indices for a, _ in index.terms]
            found = self.reduce_ranges[key] = ReduceRanges(atoms, indices)
        return found


@dataclass(eq=False)
class Schedule:
    """What `schedule` decided.

    Attributes:
      drafts: the kernels; those that are read come after those that read.
      stored: for each stored value the kernel that stores it.
      inlined: for each value the kernels that compute it.
      levels: for each value how many reduces are below it.
      places: of the values in the order in which the graph was read.
      readings: numbers for the values of index arrays at an index.
    """

    outputs: list[Node]
    drafts: list[Draft] = field(default_factory=list[Draft])
    stored: dict[Node, int] = field(default_factory=dict[Node, int])
    inlined: dict[Node, set[int]] = field(default_factory=dict[Node, set[int]])
    levels: dict[Node, int] = field(default_factory=dict[Node, int])
    places: dict[Node, int] = field(default_factory=dict[Node, int])
    readings: dict[Reading, int] = field(default_factory=dict[Reading, int])

    def number_of(self, reading: Reading) -> int:
        """The number of a reading: the same one for the same reading."""
        return self.readings.setdefault(reading, len(self.readings))


def root_indices(
    indices: Sequence[Index], loops: Shape, shape: Shape
) -> tuple[Index, ...]:
    """The index of a value of `shape` that has an element per iteration of loops."""
    depth = 0
    while not same_size(prod(loops[:depth]), prod(shape)):
        depth += 1
    if same_size(squeeze(shape), loops[:depth]):
        positions = iter(indices)
        return tuple(ZERO if same_size(n, 1) else next(positions) for n in shape)
    return unflatten_index(flatten_index(indices[:depth], loops[:depth]), shape)


#: Gives the ranges of the reduces with a key, for the sizes of their axes.
RangesFor = Callable[[Any, Sequence[int]], ReduceRanges]
#: `Draft.at`.
At = Callable[[tuple[Index, ...], Valid | None], Context]


def operand_contexts(
    node: Node,
    context: Context,
    at: At,
    ranges_for: RangesFor,
    number_of: NumberOf,
    level: int,
) -> list[tuple[Node, Context]]:
    """What a node, computed in a context, needs, and where.

    Those are its operands; of a gather the array, and then what its index arrays read.
    """
    if keeps_index(node):
        return [(source, context) for source in node.src]
    indices, valid = context.indices, context.valid
    family = node.op.family
    if family == "movement":
        where, inside = source_index(node, indices, valid)
        return [(node.src[0], at(where, inside))]
    if family == "reduction":
        axes = reduced_axes(node)
        key = reduce_key(node, context, level)
        ranges = ranges_for(key, [node.src[0].shape[a] for a in axes])
        inner = list(indices)
        for axis, index in zip(axes, ranges.indices, strict=True):
            inner[axis] = index
        return [(node.src[0], at(tuple(inner), valid))]
    return _gather_contexts(node, context, at, number_of)


def keeps_index(node: Node) -> bool:
    """Is an element computed from the operands' elements at its own index?"""
    return node.op.family not in ("movement", "reduction") and node.op is not gather_p


def reduce_key(node: Node, context: Context, level: int) -> Any:
    """Reduces with one key share their ranges."""
    sizes = tuple(node.src[0].shape[a] for a in reduced_axes(node))
    rows = context.ranges
    alone = node if is_contraction(node) else None
    return sizes, rows, level, context.valid, alone


def _gather_contexts(
    node: Node, context: Context, at: At, number_of: NumberOf
) -> list[tuple[Node, Context]]:
    indices, valid = context.indices, context.valid
    axes: tuple[int, ...] = node.arg
    source, *arrays = node.src
    depth = arrays[0].ndim
    positions = [position_of(array, indices[:depth], valid) for array in arrays]
    found = {
        axis: position.as_index(number_of, source.shape[axis])
        for axis, position in zip(axes, positions, strict=True)
    }
    rest = iter(indices[depth:])
    where = tuple(found[a] if a in found else next(rest) for a in range(source.ndim))
    read = [r for position in positions for r, _ in position.readings]
    return [
        (source, at(where, valid)),
        *((r.array, at(r.indices, r.valid)) for r in read),
    ]
