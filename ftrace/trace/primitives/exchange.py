"""What the processes along an axis of a mesh do together.

    communicate(x, arg=Exchange(kind, ranks, axis))

    sum, max, min   of the values of all processes
    gather          the values of all, one behind the other along an axis
    own             of what all have alike, each its own part along an axis
    scatter         own(sum(x))
    all_to_all      part i goes to process i: part j of the result is from process j
    permute         rows along an axis, each to another row of another process, or zeros
    first           the value of the first process
    vary            x, which all have alike, as a value of each
    index           no operand: the number of this process along the axis

A value differs between processes, or all have it alike; `sum`, `max`, `min`, `gather`
and `first` make the second of the first, `own` and `vary` the first of the second. A
derivative needs to know: what a value that all have alike is used for in each process
adds up in its cotangent, so `vary` and `sum` are the transposes of each other, and so
are `own` and `gather`. A program that runs has no `vary` (`lower/pipeline.py`).

Collectives along an axis of lanes that several processes share do what lanes do first,
then this (`reduction.py`). It is a step of the program: MPI gets the memory itself.
"""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy

from ftrace import dtypes
from ftrace.errors import GraphError, ShapeError
from ftrace.ground import process_groups, processes
from ftrace.ground.errstate import ignore_errors, restore_errors
from ftrace.ground.fast_dataclasses import NamedTuple, dataclass
from ftrace.ground.fork_safe import cached_property
from ftrace.ground.process_groups import Group, Pending, Work, scratch
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Flags, Node, Nodes
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.indexing import trailing
from ftrace.trace.primitives.movement import merge_shape, move_axis, split_shape
from ftrace.trace.primitives.primitive import Array, Batched, Compound, Results, items
from ftrace.trace.primitives.sources import CONSTANTS, const_like, zeros_like

np: Any = numpy  # whose stubs leave too much unknown


@dataclass(frozen=True)
class Ranks:
    """The processes along an axis of a mesh.

    Attributes:
      name: of the axis.
      groups: for each line along it the processes, in order; one of them has this one.
    """

    name: Any
    groups: tuple[tuple[int, ...], ...]

    @property
    def size(self) -> int:
        return len(self.groups[0])

    @property
    def own(self) -> Group:
        """The line of this process."""
        return process_groups.group(self._line)

    @property
    def rank(self) -> int | None:
        """Where in its line this process is; None if it is in none."""
        index = processes.index()
        return self._line.index(index) if index in self._line else None

    @cached_property
    def _line(self) -> tuple[int, ...]:
        index = processes.index()
        lines = [line for line in self.groups if index in line]
        return lines[0] if lines else self.groups[0]

    def __str__(self) -> str:
        return f"{self.name}: {self.size} processes"


class _Lanes(threading.local):
    """Whose lanes the walk is about.

    Attributes:
      ranks: the processes along the axis, where several have lanes of it: what all
        lanes share they have alike, and it differs once it meets what lanes have.
    """

    ranks: Ranks | None = None


lanes = _Lanes()


@contextmanager
def of_ranks(ranks: Ranks | None) -> Generator[None]:
    """A block in which lanes are those of an axis that these processes share."""
    before, lanes.ranks = lanes.ranks, ranks
    try:
        yield
    finally:
        lanes.ranks = before


class Between(ABC):
    """The argument of what processes do together."""

    __slots__ = ()

    @property
    @abstractmethod
    def processes(self) -> set[int]:
        """All that take part."""


@dataclass(frozen=True)
class Exchange(Between):
    """The argument of an exchange.

    Attributes:
      kind: see above.
      ranks: between which processes.
      axis: along which axis of the operand, where the kind has one.
    """

    kind: str
    ranks: Ranks
    axis: int = 0

    @property
    def processes(self) -> set[int]:
        return {number for line in self.ranks.groups for number in line}

    @property
    def moves(self) -> bool:
        """Is anything sent? Else each process knows what it has to know."""
        return self.kind not in ("index", "own", "vary")

    @property
    def joins(self) -> bool:
        """May several of these be one message?"""
        return self.kind in FOLDS or self.kind == "gather"

    def __str__(self) -> str:
        return f"{self.kind} along {self.ranks}, axis {self.axis}"


def communicate(x: Node, kind: str, ranks: Ranks, axis: int = 0, *more: Node) -> Node:
    """`exchange_p` of a node."""
    return exchange_p.results(x, *more, arg=Exchange(kind, ranks, axis))[0]


def vary(x: Node, ranks: Ranks) -> Node:
    """A value that all processes have alike, as one of each; constants stay."""
    return x if x.op in CONSTANTS else communicate(x, "vary", ranks)


def process_rank(ranks: Ranks) -> Node:
    """The number of this process along an axis: an int32 scalar."""
    return exchange_p.results(arg=Exchange("index", ranks))[0]


def _infer(arg: Exchange, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
    if arg.kind == "index":
        return (ShapedArray.of((), dtypes.int32),)
    x, axis, count = avals[0], arg.axis, arg.ranks.size
    shape = list(x.shape)
    if arg.kind == "gather":
        shape[axis] *= count
    elif arg.kind in ("own", "scatter", "all_to_all"):
        if shape[axis] % count:
            raise ShapeError(
                f"{arg}: the axis of size {shape[axis]} of {x!r} is not divisible by "
                "the number of processes"
            )
        shape[axis] //= 1 if arg.kind == "all_to_all" else count
    return (x.with_shape(tuple(shape)),)


# What it does.


def _in_order(function: Any) -> Callable[..., Array]:
    """Combines rows in their order; those of few bits in a wide dtype."""

    def fold(rows: Sequence[Array], out: Array = None) -> Array:
        first, second, *rest = rows
        wide = dtypes.widen(first.dtype)
        if out is None:
            out = np.empty(first.shape, first.dtype)
        found = out
        token = ignore_errors()
        try:
            if wide == first.dtype:
                function(first, second, out=found)
            else:
                found = np.asarray(first, wide)
                function(found, second, out=found)
            for row in rest:
                function(found, row, out=found)
            if found is not out:
                out[...] = found
        finally:
            restore_errors(token)
        return out

    return fold


#: What combines elements; and the same for rows, in their order.
UFUNCS = {"sum": np.add, "max": np.maximum, "min": np.minimum}
FOLDS = {kind: _in_order(ufunc) for kind, ufunc in UFUNCS.items()}


def _permute(group: Group, x: Array, tables: Any, out: Any) -> Work:
    """Rows whose source is another row, by number along the whole axis."""
    rows = np.ascontiguousarray(x)
    found, lanes = np.empty_like(rows) if out is None else out, len(rows)
    source, target = [[int(n) for n in table] for table in tables]
    first = group.rank * lanes
    sent = [(rows[i : i + 1], t // lanes, t) for i, t in enumerate(target) if t >= 0]
    comes = [
        (found[i : i + 1], s // lanes, first + i)
        for i, s in enumerate(source) if s >= 0
    ]  # fmt: skip
    found[np.less(source, 0)] = 0
    yield from group.sending(sent, comes)
    return found


def _work(arg: Exchange, x: Array, tables: Any, out: Any) -> Work:
    """What MPI does for one operand, along axis 0; the result may be in `out`."""
    kind, group = arg.kind, arg.ranks.own
    if kind in FOLDS:
        return (yield from group.combining(FOLDS[kind], x, out))
    if kind == "gather":
        rows = None if out is None else out.reshape(group.size, *x.shape)
        rows = yield from group.gathering(x, rows)
        return rows.reshape(merge_shape(rows.shape, 0))
    if kind == "permute":
        return (yield from _permute(group, x, tables, out))
    if kind == "first":
        return (yield from group.broadcasting(x))
    parts = x.reshape(split_shape(x.shape, 0, group.size))
    if kind == "scatter":
        found = np.empty(parts.shape[1:], x.dtype) if out is None else out
        return (yield from group.reducing(FOLDS["sum"], parts, found))
    rows = None if out is None else out.reshape(parts.shape)
    return (yield from group.exchanging(parts, rows)).reshape(x.shape)


def _bucket(
    args: Sequence[Exchange], operands: Sequence[Array], out: Sequence[Array]
) -> Work:
    """Several exchanges of a kind that joins, as one message."""
    arg, group = args[0], args[0].ranks.own
    size, dtype = sum(x.size for x in operands), operands[0].dtype
    front = (group.size,) if arg.kind == "gather" else ()
    with scratch((size,), dtype) as flat, scratch((*front, size), dtype) as rows:
        np.concatenate([x.reshape(-1) for x in operands], out=flat)
        if front:
            yield from group.gathering(flat, rows)
        else:
            yield from group.combining(FOLDS[arg.kind], flat, rows)
        begin = 0
        for x, to in zip(operands, out, strict=True):
            row = rows[..., begin : begin + x.size].reshape((*front, *x.shape))
            begin += x.size
            to[...] = row.reshape(to.shape)
    return out


class Started(NamedTuple):
    """An exchange that was started.

    Attributes:
      group, pending: where, and what.
      out: where its results have to be, if that is known.
    """

    group: Group
    pending: Pending
    out: Sequence[Array] | None

    def finish(self) -> Sequence[Array]:
        """Its results, when they are there."""
        found = self.group.finish(self.pending)
        if self.out is None:
            return [found]
        if found is not self.out:
            (to,) = self.out
            if found is not to and not np.may_share_memory(found, to):
                to[...] = found
        return self.out


def waiting_for(arg: Exchange) -> str:
    """For what a process waits, for people."""
    return f"for the others in {arg}"


def start_exchange(
    args: Sequence[Exchange], operands: Sequence[Sequence[Array]],
    out: Sequence[Array] | None = None, meanwhile: bool = False,
) -> Started:  # fmt: skip
    """Begins exchanges: one, or several of one kind as one message.

    Args:
      args: of each, all along axis 0, of one kind and between the same processes.
      operands: of each; they stay as they are until it is finished.
      out: where their results have to be: contiguous.
      meanwhile: something else is done before they are finished.
    """
    arg, group = args[0], args[0].ranks.own
    if len(args) > 1:
        assert out is not None
        work = _bucket(args, [x for (x,) in operands], out)
    else:
        ((x, *tables),) = operands
        work = _work(arg, x, tables, out[0] if out else None)
    pending = group.start(waiting_for(arg), work, meanwhile)
    return Started(group, pending, out)


def _value(avals: Any, arg: Exchange, *operands: Array) -> Sequence[Array]:
    if arg.kind == "index":
        return [np.int32(arg.ranks.own.rank)]
    if arg.kind == "vary":
        return [operands[0]]
    (x, *tables), axis = operands, arg.axis
    if arg.kind == "own":
        size = x.shape[axis] // arg.ranks.size
        begin = arg.ranks.own.rank * size
        return [x[(*[slice(None)] * axis, slice(begin, begin + size))]]
    if arg.kind not in _ALONG or not axis:
        return start_exchange([arg], [operands]).finish()
    moved = [np.moveaxis(x, axis, 0), *tables]
    (found,) = start_exchange([Exchange(arg.kind, arg.ranks)], [moved]).finish()
    return [np.moveaxis(found, 0, axis)]


#: Kinds that move what is along an axis.
_ALONG = ("gather", "scatter", "all_to_all", "permute")


def lower_exchange(node: Node, read: Collection[int]) -> list[Node]:
    # vary(x) -> x, in a program that runs
    # exchange(x, axis=k) -> move_axis(exchange(move_axis(x, k, 0)), 0, k)
    arg: Exchange = node.arg
    if arg.kind == "vary":
        return [node.src[0]]
    if arg.kind not in _ALONG or not arg.axis:
        return items(node)
    x, *tables = node.src
    moved = communicate(move_axis(x, arg.axis, 0), arg.kind, arg.ranks, 0, *tables)
    return [move_axis(moved, 0, arg.axis)]


# Its rules.


def _jvp(node: Node, tangents: Results) -> Results:
    arg: Exchange = node.arg
    t = tangents[0] if tangents else None
    if t is None:
        return [None]
    if arg.kind not in ("max", "min"):
        return exchange_p.results(t, *node.src[1:], arg=arg)
    # The mean of the tangents of the processes that have the extremum.
    x, ranks = node.src[0], arg.ranks
    here = p.cast(p.eq(x, vary(items(node)[0], ranks)), x.dtype)
    total = communicate(p.scale(t, here), "sum", ranks)
    return [p.div(total, communicate(here, "sum", ranks))]


def _transpose(node: Node, cotangents: Results, linear: Flags) -> Results:
    arg: Exchange = node.arg
    (ct,) = cotangents
    rest = [None] * (len(node.src) - 1)
    if ct is None:
        return [None, *rest]
    kind, ranks, axis = arg.kind, arg.ranks, arg.axis
    simple = {"sum": "vary", "vary": "sum", "gather": "own", "own": "gather"}
    if kind in simple:
        return [communicate(ct, simple[kind], ranks, axis)]
    if kind == "scatter":
        return [vary(communicate(ct, "gather", ranks, axis), ranks)]
    if kind == "first":
        place, ct = process_rank(ranks), vary(ct, ranks)
        mine = p.eq(place, const_like(place, 0))
        return [p.select(trailing(mine, ct.shape), ct, zeros_like(ct))]
    # Who receives has been sent to: source and target change places.
    return [communicate(ct, kind, ranks, axis, *node.src[:0:-1]), *rest]


def _batch(node: Node, src: Nodes, batched: Flags, size: int) -> Batched:
    arg: Exchange = node.arg
    if any(batched[1:]):
        raise GraphError(f"{arg}: lanes of other axes send to the same processes")
    moved = Exchange(arg.kind, arg.ranks, arg.axis + 1)
    return exchange_p.results(*src, arg=moved), [True]


exchange_p = Compound(
    "exchange", "host", _infer, _value, _batch, jvp=_jvp, transpose=_transpose,
    doc="what processes along an axis of a mesh do together", show=str, moves=True,
)  # fmt: skip


# Parts of arrays over a mesh. What a process has of one is, along each axis, the parts
# of its devices in their order; `whole` and `shard` go from it to the array and back.


@dataclass(frozen=True)
class Spread(Between):
    """The argument of whole and part.

    Attributes:
      mesh, spec: how the array is divided.
      factors: for each axis, of each axis of the mesh that divides it, the outermost
        first: the processes along it (None: one), and how many devices each has there.
    """

    mesh: Any
    spec: tuple[Any, ...]
    factors: tuple[tuple[tuple[Ranks | None, int], ...], ...]

    def __str__(self) -> str:
        return f"{self.spec}"

    @property
    def processes(self) -> set[int]:
        return {device.process_index for device in self.mesh.devices.flat}

    @property
    def _counts(self) -> list[int]:
        """Between how many processes each axis is divided."""
        return [math.prod([_count(r) for r, _ in axis]) for axis in self.factors]

    def of_process(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of what each process has of an array."""
        return tuple([n // c for n, c in zip(shape, self._counts, strict=True)])

    def of_all(self, shape: Sequence[int]) -> tuple[int, ...]:
        """`of_process` back."""
        return tuple([n * c for n, c in zip(shape, self._counts, strict=True)])

    def shard(self, x: Array) -> Array:
        """What this process has of an array."""
        for axis, factors in enumerate(self.factors):
            shape = x.shape
            sizes = [n for ranks, lanes in factors for n in (_count(ranks), lanes)]
            each = shape[axis] // math.prod(sizes)
            x = x.reshape(*shape[:axis], *sizes, each, *shape[axis + 1 :])
            for i in reversed(range(len(factors))):
                ranks = factors[i][0]
                place = ranks.own.rank if ranks else 0
                x = x.take(place, axis + 2 * i)
            own = math.prod([each, *sizes[1::2]])
            x = x.reshape(*shape[:axis], own, *shape[axis + 1 :])
        return x

    def whole(self, x: Array) -> Array:
        """The array, of what each process has of it."""
        for axis, factors in enumerate(self.factors):
            shape = x.shape
            lanes = [lanes for _, lanes in factors]
            each = shape[axis] // math.prod(lanes)
            x = x.reshape(*shape[:axis], *lanes, each, *shape[axis + 1 :])
            for i in reversed(range(len(factors))):
                ranks = factors[i][0]
                x = np.moveaxis(ranks.own.gather(x) if ranks else x[None], 0, axis + i)
            size = math.prod(x.shape[axis : axis + 2 * len(factors) + 1])
            x = x.reshape(*shape[:axis], size, *shape[axis + 1 :])
        return x


def _count(ranks: Ranks | None) -> int:
    return ranks.size if ranks else 1


def _between(
    name: str, shape: Any, value: Any, transposed: Callable[[], Compound], doc: str
) -> Compound:
    """The record of whole or part."""

    def infer(arg: Spread, x: ShapedArray) -> tuple[ShapedArray, ...]:
        return (x.with_shape(shape(arg, x.shape)),)

    def batch(node: Node, src: Nodes, batched: Flags, size: int) -> Batched:
        arg: Spread = node.arg
        wide = Spread(arg.mesh, (None, *arg.spec), ((), *arg.factors))
        return record.results(*src, arg=wide), [True]

    def jvp(node: Node, tangents: Results) -> Results:
        return [
            t if t is None else record.results(t, arg=node.arg)[0] for t in tangents
        ]

    def transpose(node: Node, cotangents: Results, linear: Flags) -> Results:
        (ct,) = cotangents
        return [None if ct is None else transposed().results(ct, arg=node.arg)[0]]

    def compute(avals: Any, arg: Spread, x: Array) -> Sequence[Array]:
        return [value(arg, x)]

    record = Compound(
        name, "host", infer, compute, batch, jvp=jvp,
        transpose=transpose, doc=doc, show=str, moves=True,
    )  # fmt: skip
    return record


whole_p = _between(
    "whole", Spread.of_all, Spread.whole, lambda: shard_p,
    "an array over a mesh, of what each process has of it",
)  # fmt: skip
shard_p = _between(
    "shard", Spread.of_process, Spread.shard, lambda: whole_p,
    "what a process has of an array over a mesh",
)  # fmt: skip
