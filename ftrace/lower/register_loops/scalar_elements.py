"""Arrays as scalars: the elements of a graph's values as expressions of a kernel.

An element of a value is asked for by its indices, which are numbers, ranges, or what
an index array holds:

    element(add(x, y), (2,))          -> add(element(x, (2,)), element(y, (2,)))
    element(reshape(x), (i, 0))       -> element(x, …)    `affine_index.source_index`
    element(reduce_sum(x), (0,))      -> element(x, (0,)) + element(x, (1,)) + …
    element(gather(x, i), (0,))       -> element(x, (element(i, (0,)),))
    element(carry, (1,))              -> load(register)
    element(carry, (data,))           -> select(data = 1, …), over all registers

Rules are those of `kernel/element_builder.py`.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from math import gcd
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import GraphError
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.analysis import CHEAP, ELEMENTWISE
from ftrace.lower.kernel import affine_index as ix, ir
from ftrace.lower.kernel.element_builder import ElementBuilder, Indices, through
from ftrace.lower.legalize.term import RELAXED
from ftrace.lower.register_loops import register_loop as rl
from ftrace.lower.simplify.algebra import evaluate_scalar
from ftrace.trace.avals import TOKEN, Shape, ShapedArray, Stack
from ftrace.trace.graph import Node, constant_value, make_node, walk
from ftrace.trace.primitives import elementwise as p, reduction as red
from ftrace.trace.primitives.indexing import axes_and_kind, gather_p, scatter_p
from ftrace.trace.primitives.primitive import Primitive
from ftrace.trace.primitives.sources import const, const_p, iota_p, is_variable

#: Beside this truth value the result is the other operand.
_NEUTRAL: dict[Any, bool] = {p.bit_and: True, p.bit_or: False}


def scalar(node: Node, src: Sequence[Node]) -> Node:
    """An elementwise operation of a graph on scalars."""
    aval = ShapedArray.of((), node.dtype)
    return _simplify(make_node(node.op, aval, tuple(src), node.arg))


def fold(op: Any, dtype: np.dtype[Any], src: tuple[Node, ...]) -> Node:
    """An operation on scalars; of constants it is a constant."""
    return _simplify(make_node(op, ShapedArray.of((), dtype), src))


def _simplify(node: Node) -> Node:
    op, src = node.op, node.src
    # What every machine rounds alike: no function, nor what legal kernels have, as fma.
    alike = isinstance(op, Primitive) and op.cost <= CHEAP
    if alike and all(s.op is const_p for s in src):
        return const(evaluate_scalar(node), node.dtype)
    if node.op is p.select:
        if src[0].op is const_p:
            return src[1] if constant_value(src[0]) else src[2]
        if src[1] is src[2]:
            return src[1]
    neutral = _NEUTRAL.get(node.op)
    if neutral is not None and node.dtype == dtypes.bool_:
        for known, other in (src, src[::-1]):
            if known.op is const_p:
                return other if bool(constant_value(known)) is neutral else known
    if node.op is p.mul_zero:
        for known in src:
            if known.op is const_p and not constant_value(known):
                return const(0, node.dtype)
    return node


Key = tuple[int, Node, Indices, ix.Valid]
Work = Generator[Key, Any, Any]


#: Registers of one lane. With 256 the gradient of an RNN of 8 is three kernels, not
#: six; with 16 that of one of 4 is six, not three.
MOST_REGISTERS = 64
#: Elements that are looked at on the way: movement costs nothing in the end. A bound of
#: time to compile: with 1200 or without it no row differs.
_MOST_ELEMENTS = 4800
#: Elements, each of which asks whether an update of a scatter is its own: a step that
#: writes the update where it belongs takes 30 ns, the time of so many. With 256 or 4096
#: no row differs.
_MOST_PER_UPDATE = 1024


class Unsuited(GraphError):
    """The loop is run step by step instead; this never leaves lowering."""


@dataclass(frozen=True)
class Registers:
    """A value whose elements are registers: by their row-major position."""

    shape: Shape
    by_index: Mapping[ix.Index, Node]


@dataclass(frozen=True)
class Operand:
    """A value of the graph around a loop, or its element number `at`."""

    scope: int
    node: Node
    at: ix.Index | None = None


@dataclass(eq=False)
class Scope:
    """A graph: the outermost one, or the body of a loop.

    Attributes:
      number: tells scopes apart.
      bound: what its variables are.
      block: the statements of its loops.
    """

    number: int
    bound: dict[Node, Registers | Operand]
    block: list[rl.Statement]


class Elements(ElementBuilder[Key]):
    """Expresses elements of all operations on arrays; control flow is left open.

    Args:
      first_operand: the number of the buffer of the first operand.

    Attributes:
      scopes: graphs; the first is the outermost one.
      registers: their types.
      operands: values in memory, by the order of their buffers.
    """

    def __init__(self, first_operand: int) -> None:
        super().__init__()
        self.first_operand = first_operand
        self.scopes: list[Scope] = []
        self.registers: list[ir.BufferSpec] = []
        self.operands: dict[Node, int] = {}
        self._ranges = itertools.count()
        self.values: dict[int, Node] = {}  # of index arrays, by their number
        self.value_of: dict[Node, int] = {}
        #: What expresses elements of an operation, or of a family of them.
        self._rules: dict[Any, Callable[[int, Node, Indices, ix.Valid], Work]] = {
            gather_p: self._gather,
            scatter_p: self._scatter,
            "movement": self._movement,
            "reduction": self._reduction,
            **dict.fromkeys(ELEMENTWISE, self._elementwise),
        }
        self.new_scope({})

    @abstractmethod
    def control(
        self, scope: int, node: Node, indices: Indices, valid: ix.Valid
    ) -> Work:
        """A result of a loop or a branch, or what a loop's results are."""

    def new_scope(
        self,
        bound: dict[Node, Registers | Operand],
        block: list[rl.Statement] | None = None,
    ) -> Scope:
        """A graph within another, with a block of its own or that of another."""
        scope = Scope(len(self.scopes), bound, [] if block is None else block)
        self.scopes.append(scope)
        return scope

    def new_register(self, dtype: np.dtype[Any]) -> Node:
        """The expression that loads a new register."""
        number = rl.FIRST_REGISTER + len(self.registers)
        if len(self.registers) >= MOST_REGISTERS:
            raise Unsuited("too many registers")
        self.registers.append(ir.BufferSpec(dtype, 1, True))
        return ir.load(ir.param(number, dtype, 1), const(0, ir.INDEX))

    def new_range(self, size: int) -> tuple[Node, ix.Index]:
        number = next(self._ranges)
        return ir.make_range(number, size, True), ix.range_index(number, size, True)

    # Elements.

    def leaf(self, key: Key) -> Node | None:
        """Constants, positions and values in memory."""
        scope, node, indices, valid = key
        op = node.op
        if op in (const_p, iota_p):
            return self.source(node, indices)
        if is_variable(node):
            bound = self.scopes[scope].bound.get(node)
            if isinstance(bound, Registers):
                return self.in_register(bound, ix.flatten_index(indices, bound.shape))
            if bound is not None:
                return None
            if scope:
                raise Unsuited("a variable of another graph")
            return self._load_operand(node, indices, valid)
        if scope or op.family == "movement":
            return None
        if not _is_leafless(node):
            return self._load_operand(node, indices, valid)
        return None

    def express(self, key: Key) -> Work:
        if len(self.expressions) > _MOST_ELEMENTS:
            raise Unsuited("too many elements")
        scope, node, indices, valid = key
        if is_variable(node):
            bound = self.scopes[scope].bound[node]
            assert isinstance(bound, Operand)
            at = indices if bound.at is None else (bound.at, *indices)
            return through((bound.scope, bound.node, at, valid))
        if node.op.family == "identity":
            return through((scope, node.src[0], indices, valid))
        rule = self._rules.get(node.op) or self._rules.get(node.op.family, self.control)
        return rule(scope, node, indices, valid)

    # Leaves.

    def value_in_index(self, atom: Node) -> Node:
        return self.values[atom.arg.number]

    def in_register(self, bound: Registers, position: ix.Index) -> Node:
        found = bound.by_index.get(position)
        if found is not None:
            return found
        # Positions differ in what an index array holds, but not in the lane.
        lanes = position.only(lambda atom: atom.op is ir.range_p).pairs
        if any(other.pairs != lanes for other in bound.by_index):
            raise Unsuited("an element of another lane")
        moving = position.only(lambda atom: atom.op is not ir.range_p)
        constants = [other.constant for other in bound.by_index]
        least, most = ix.bounds(moving)
        # Where the last axis is over the lanes the registers have places between them:
        # those of other lanes.
        first, last = min(constants), max(constants)
        step = gcd(*[c - first for c in constants]) or 1
        if (last - first) // step + 1 != len(constants):
            raise Unsuited("registers that have no order")
        if (
            least < first
            or most > last
            or (position.constant - first) % step
            or any(c % step for _, c in moving.pairs)
        ):
            raise Unsuited("an element of another lane")
        place = self.render(moving)
        rest = [(at.constant, register) for at, register in bound.by_index.items()]
        total = rest[-1][1]
        for constant, value in reversed(rest[:-1]):
            same = fold(p.eq, dtypes.bool_, (place, const(constant, ir.INDEX)))
            total = fold(p.select, value.dtype, (same, value, total))
        return total

    def _load_operand(self, node: Node, indices: Indices, valid: ix.Valid) -> Node:
        """A load from memory."""
        if node.aval is TOKEN or isinstance(node.aval, Stack):
            raise Unsuited("no array")
        number = self.operands.setdefault(node, len(self.operands))
        return self.load(self.first_operand + number, node, indices, valid)

    # Operations.

    def _elementwise(
        self, scope: int, node: Node, indices: Indices, valid: ix.Valid
    ) -> Work:
        src: list[Node] = []
        if node.op is p.select:  # a branch that is not taken is not asked for
            chosen = yield scope, node.src[0], indices, valid
            if chosen.op is const_p:
                taken = node.src[1 if constant_value(chosen) else 2]
                return (yield scope, taken, indices, valid)
            src.append(chosen)
        for source in node.src[len(src) :]:
            src.append((yield scope, source, indices, valid))
        return scalar(node, src)

    def _movement(
        self, scope: int, node: Node, indices: Indices, valid: ix.Valid
    ) -> Work:
        at, inside = ix.source_index(node, indices, valid)
        if inside is None:
            return const(0, node.dtype)
        return self.mask_outside((yield scope, node.src[0], at, inside), inside, valid)

    def _reduction(
        self, scope: int, node: Node, indices: Indices, valid: ix.Valid
    ) -> Work:
        """One after the other; a sum of products rounds once per term."""
        axes: tuple[int, ...] = node.arg
        (source,) = node.src
        combine = red.COMBINES[node.op]
        total: Node | None = None
        for position in positions_of([source.shape[a] for a in axes]):
            at = list(indices)
            for axis, place in zip(axes, position, strict=True):
                at[axis] = ix.constant_index(place)
            term = yield scope, source, tuple(at), valid
            if total is None:
                total = term
            elif (
                combine is p.add and term.op is p.mul and dtypes.kind(node.dtype) == "f"
            ):
                total = ir.fma_p(*term.src, total, arg=RELAXED)
            else:
                total = fold(combine, node.dtype, (total, term))
        if total is None:
            return const(red.identity(node.op, node.dtype), node.dtype)
        return total

    def _gather(
        self, scope: int, node: Node, indices: Indices, valid: ix.Valid
    ) -> Work:
        axes: tuple[int, ...] = node.arg
        source, *arrays = node.src
        depth = arrays[0].ndim
        at, rest = indices[:depth], iter(indices[depth:])
        found: dict[int, ix.Index] = {}
        for axis, array in zip(axes, arrays, strict=True):
            value = yield scope, array, at, valid
            found[axis] = self._as_index(value, source.shape[axis], at)
        where = [found[a] if a in found else next(rest) for a in range(source.ndim)]
        return (yield scope, source, tuple(where), valid)

    def _as_index(self, value: Node, size: int, at: Indices) -> ix.Index:
        counter = _counter(value)
        if counter is not None:
            return ix.range_index(*ir.axis_of(counter))
        value = p.cast(value, ir.INDEX)
        if value.op is const_p:
            return ix.constant_index(int(constant_value(value)))
        number = self.value_of.setdefault(value, len(self.value_of))
        self.values[number] = value
        return ix.value_index(number, size, ix.ranges_of_all(at))

    def _scatter(
        self, scope: int, node: Node, indices: Indices, valid: ix.Valid
    ) -> Work:
        """The operand's element, and over it each update that may hit it, in order."""
        axes, kind = axes_and_kind(node)
        x, updates, *arrays = node.src
        if x.size > _MOST_PER_UPDATE * updates.size:
            raise Unsuited(f"{node.op.name} of few of the elements of {x.aval!r}")
        total = yield scope, x, indices, valid
        rest = [i for a, i in enumerate(indices) if a not in axes]
        found = yield from self._own_updates(scope, node, indices)
        sizes = [1 if b in found else n for b, n in enumerate(arrays[0].shape)]
        for position in positions_of(sizes):
            at = tuple(
                found.get(b, ix.constant_index(x)) for b, x in enumerate(position)
            )
            hit: Node | None = None
            for axis, array in zip(axes, arrays, strict=True):
                place = yield scope, array, at, valid
                here = (p.cast(place, ir.INDEX), self.render(indices[axis]))
                same = fold(p.eq, dtypes.bool_, here)
                hit = same if hit is None else fold(p.bit_and, same.dtype, (hit, same))
            assert hit is not None
            if hit.op is const_p and not constant_value(hit):
                continue
            value = yield scope, updates, (*at, *rest), valid
            if kind != "set":
                value = fold(red.COMBINES_BY_NAME[kind], node.dtype, (total, value))
            total = fold(p.select, node.dtype, (hit, value, total))
        return total

    def _own_updates(
        self, scope: int, node: Node, indices: Indices
    ) -> Generator[Key, Any, dict[int, ix.Index]]:
        """Axes of the updates along which only one may hit an element, and which.

        That is where an index array counts along it, as vmap makes it.
        """
        axes, _ = axes_and_kind(node)
        arrays = node.src[2:]
        ranges = [self.new_range(n) for n in arrays[0].shape]
        at = tuple(index for _, index in ranges)
        found: dict[int, ix.Index] = {}
        for axis, array in zip(axes, arrays, strict=True):
            if not is_counted(array):
                continue
            value = yield scope, array, at, ix.ALWAYS
            for b, (counter, _) in enumerate(ranges):
                if _counter(value) is counter and array.shape[b] > 1:
                    found[b] = indices[axis]
        return found


def positions_of(sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """All positions in an array, row-major."""
    return itertools.product(*map(range, sizes))


def _is_leafless(node: Node) -> bool:
    """Is it made of constants and positions alone, so that it needs no memory?"""
    return node.op.family in ELEMENTWISE and is_counted(node)


def is_counted(node: Node) -> bool:
    """Is it made of constants and positions alone?"""
    return all(
        one.op in (const_p, iota_p) or one.op.family in (*ELEMENTWISE, "movement")
        for one in walk([node], lambda one: one.src)
    )


def _counter(value: Node) -> Node | None:
    """The range that a value is, in an integer that holds all of it."""
    least = value.dtype
    while value.op is p.cast_p and dtypes.is_integer(value.dtype):
        value = value.src[0]
        least = min(least, value.dtype, key=lambda d: dtypes.limits(d)[1])
    if (
        value.op is not ir.range_p
        or ir.axis_of(value).size - 1 > dtypes.limits(least)[1]
    ):
        return None
    return value
