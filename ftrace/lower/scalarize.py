"""Arrays as scalars: the elements of a graph's values as expressions of a kernel.

An element of a value is asked for by its indices, which are numbers, ranges, or what
an index array holds. A loop in the graph becomes statements; its results are registers.

    element(add(x, y), (2,))          -> add(element(x, (2,)), element(y, (2,)))
    element(reshape(x), (i, 0))       -> element(x, …)    as in `index.source_index`
    element(reduce_sum(x), (0,))      -> element(x, (0,)) + element(x, (1,)) + …
    element(carry, (1,))              -> load(register)
    element(carry, (data,))           -> select(data = 1, …), over all registers
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.lower.constants import evaluate_scalar
from ftrace.lower.control import Loop, loop_p
from ftrace.lower.index import (
    ALWAYS,
    ZERO,
    Index,
    Valid,
    constant_index,
    flatten_index,
    range_index,
    ranges_of_all,
    render_index,
    render_valid,
    source_index,
    value_index,
)
from ftrace.lower.kernel import (
    INDEX,
    BufferSpec,
    Store,
    fma_p,
    load,
    load_p,
    make_range,
    param,
)
from ftrace.lower.legalize import PLAIN
from ftrace.lower.math.term import RELAXED
from ftrace.lower.recurrence import (
    FIRST_REGISTER,
    Assign,
    Repeat,
    Statement,
    register_spec,
)
from ftrace.trace.avals import TOKEN, Shape, ShapedArray, Stack
from ftrace.trace.body import apply_body
from ftrace.trace.control.branch import Branches, cond_p
from ftrace.trace.graph import Body, Node, constant_value, make_node, toposort
from ftrace.trace.primitives.elementwise import (
    add,
    bit_and,
    cast,
    eq,
    maximum,
    minimum,
    mul,
    select,
)
from ftrace.trace.primitives.indexing import axes_and_kind, gather_p, scatter_p
from ftrace.trace.primitives.record import compound_of, item_p
from ftrace.trace.primitives.reduction import identity
from ftrace.trace.primitives.source import const, const_p, iota_p, is_variable

_COMBINE = {
    "reduce_sum": add, "reduce_prod": mul, "reduce_max": maximum, "reduce_min": minimum,
    "add": add, "mul": mul, "max": maximum, "min": minimum,
}  # fmt: skip
_IDENTITIES = ("copy", "stop_gradient")
_ELEMENTWISE = ("unary", "binary", "compare", "select", "cast")

Indices = tuple[Index, ...]
Key = tuple[int, Node, Indices, Valid]
Work = Generator[Key, Any, Any]

#: The operations whose result every machine rounds alike: of constants a constant.
_FOLDED = PLAIN | {"sign", "popcount", "nextafter", "real", "imag", "conj"}


class Unsuited(Exception):
    """The loop is run step by step instead."""


@dataclass(frozen=True)
class Lanes:
    """A range that all of a recurrence runs over.

    Attributes:
      index: the number of a lane.
      size: how many there are.
      axis: the axis of carry and elements that is over the lanes: 0 or -1.
    """

    index: Index
    size: int
    axis: int = 0

    def of(self, shape: Shape) -> int | None:
        """The axis of an array over the lanes; None if it has none."""
        if not shape or shape[self.axis] != self.size:
            return None
        return self.axis % len(shape)


@dataclass(frozen=True)
class Registers:
    """A value whose elements are registers: by their row-major position."""

    shape: Shape
    places: Mapping[Index, Node]


@dataclass(frozen=True)
class Operand:
    """A value of the graph around a loop, or its element number `at`."""

    scope: int
    node: Node
    at: Index | None = None


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
    block: list[Statement] = field(default_factory=list[Statement])


class Scalarizer:
    """Makes the statements of a loop.

    Args:
      prepare: rewrites the outputs of a body as lowering does.
      first_operand: the number of the buffer of the first operand.
      most_registers, most_elements: more are `Unsuited`.
      lanes: what one recurrence runs over, where axes of its values are lanes.
    """

    def __init__(
        self,
        prepare: Callable[[Body], Sequence[Node]],
        first_operand: int,
        most_registers: int,
        most_elements: int,
        lanes: Lanes | None,
    ) -> None:
        self.prepare = prepare
        self.first_operand = first_operand
        self.most_registers = most_registers
        self.most_elements = most_elements
        self.lanes = lanes
        self.scopes: list[Scope] = []
        self.registers: list[BufferSpec] = []
        self.operands: dict[Node, int] = {}
        self.known: dict[Key, Any] = {}
        self.values: dict[int, Node] = {}  # of index arrays, by their number
        self.value_of: dict[Node, int] = {}
        self.branches: dict[tuple[int, Node, int], list[Node]] = {}
        self.ranges = itertools.count()
        self.new_scope({})

    def new_scope(self, bound: dict[Node, Registers | Operand]) -> Scope:
        scope = Scope(len(self.scopes), bound)
        self.scopes.append(scope)
        return scope

    def new_register(self, dtype: np.dtype[Any]) -> Node:
        """The expression that loads a new register."""
        number = FIRST_REGISTER + len(self.registers)
        if len(self.registers) >= self.most_registers:
            raise Unsuited("too many registers")
        self.registers.append(register_spec(dtype))
        return load(param(number, dtype, 1), const(0, INDEX))

    def new_range(self, size: int) -> tuple[Node, Index]:
        number = next(self.ranges)
        return make_range(number, size, True), range_index(number, size, True)

    # Elements.

    def _ask(self, wanted: Key) -> Any:
        """Runs the generators that express elements: no recursion over the graph."""
        answer = self._known_or_simple(wanted)
        pending: list[tuple[Key, Work]] = []
        if answer is None:
            pending.append((wanted, self._express(*wanted)))
        while pending:
            key, work = pending[-1]
            try:
                needed = work.send(answer)
            except StopIteration as done:
                pending.pop()
                self.known[key] = answer = done.value
                continue
            answer = self._known_or_simple(needed)
            if answer is None:
                if len(self.known) > self.most_elements:
                    raise Unsuited("too many elements")
                pending.append((needed, self._express(*needed)))
        return answer

    def _known_or_simple(self, key: Key) -> Any:
        """What is known already, and constants, positions and values in memory."""
        found = self.known.get(key)
        if found is None:
            found = self._leaf(*key)
            if found is not None:
                self.known[key] = found
        return found

    def _leaf(
        self, scope: int, node: Node, indices: Indices, valid: Valid
    ) -> Node | None:
        op = node.op
        if op is const_p:
            return make_node(const_p, ShapedArray.of((), node.dtype), (), node.arg)
        if op is iota_p:
            axis: int = node.arg
            return cast(self.rendered(indices[axis]), node.dtype)
        if is_variable(node):
            bound = self.scopes[scope].bound.get(node)
            if isinstance(bound, Registers):
                return self._register(bound, flatten_index(indices, bound.shape))
            if bound is not None:
                return None
            if scope:
                raise Unsuited("a variable of another graph")
            return self._stored(node, indices, valid)
        if scope == 0 and op.family != "movement" and not _is_leafless(node):
            return self._stored(node, indices, valid)
        return None

    def _express(self, scope: int, node: Node, indices: Indices, valid: Valid) -> Work:
        op, family = node.op, node.op.family
        if is_variable(node):
            bound = self.scopes[scope].bound[node]
            assert isinstance(bound, Operand)
            at = indices if bound.at is None else (bound.at, *indices)
            return _through((bound.scope, bound.node, at, valid))
        if op.name in _IDENTITIES:
            return _through((scope, node.src[0], indices, valid))
        if op is loop_p:
            return self.loop(scope, node)
        rule = _RULES.get(op) or _FAMILIES.get(family)
        if rule is None:
            raise Unsuited(f"{op.name} has no elements")
        return rule(self, scope, node, indices, valid)

    def _elementwise(
        self, scope: int, node: Node, indices: Indices, valid: Valid
    ) -> Work:
        src: list[Node] = []
        if node.op is select:  # a branch that is not taken is not asked for
            chosen = yield scope, node.src[0], indices, valid
            if chosen.op is const_p:
                taken = node.src[1 if constant_value(chosen) else 2]
                return (yield scope, taken, indices, valid)
            src.append(chosen)
        for source in node.src[len(src) :]:
            src.append((yield scope, source, indices, valid))
        return scalar(node, src)

    def rendered(self, index: Index) -> Node:
        return render_index(index, self.values)

    def _valid(self, valid: Valid) -> Node | None:
        return render_valid(valid, self.values)

    def _movement(self, scope: int, node: Node, indices: Indices, valid: Valid) -> Work:
        at, inside = source_index(node, indices, valid)
        if inside is None:
            return const(0, node.dtype)
        value = yield scope, node.src[0], at, inside
        if inside == valid or _is_masked(value):
            return value
        where = self._valid(inside)
        assert where is not None
        return select(where, value, const(0, node.dtype))

    def _reduction(
        self, scope: int, node: Node, indices: Indices, valid: Valid
    ) -> Work:
        """One after the other; a sum of products rounds once per term."""
        axes: tuple[int, ...] = node.arg
        (source,) = node.src
        combine = _COMBINE[node.op.name]
        total: Node | None = None
        for position in np.ndindex(*[source.shape[a] for a in axes]):
            at = list(indices)
            for axis, place in zip(axes, position, strict=True):
                at[axis] = constant_index(place)
            term = yield scope, source, tuple(at), valid
            if total is None:
                total = term
            elif combine is add and term.op is mul and dtypes.kind(node.dtype) == "f":
                total = fma_p(*term.src, total, arg=RELAXED)
            else:
                total = folded(combine, node.dtype, (total, term))
        if total is None:
            return const(identity(node.op, node.dtype), node.dtype)
        return total

    def _gather(self, scope: int, node: Node, indices: Indices, valid: Valid) -> Work:
        axes: tuple[int, ...] = node.arg
        source, *arrays = node.src
        depth = arrays[0].ndim
        at, rest = indices[:depth], iter(indices[depth:])
        found: dict[int, Index] = {}
        for axis, array in zip(axes, arrays, strict=True):
            value = yield scope, array, at, valid
            found[axis] = self._as_index(value, source.shape[axis], at)
        where = [found[a] if a in found else next(rest) for a in range(source.ndim)]
        return (yield scope, source, tuple(where), valid)

    def _as_index(self, value: Node, size: int, at: Indices) -> Index:
        value = cast(value, INDEX)
        if value.op is const_p:
            return constant_index(int(constant_value(value)))
        number = self.value_of.setdefault(value, len(self.value_of))
        self.values[number] = value
        return value_index(number, size, ranges_of_all(at))

    def _scatter(self, scope: int, node: Node, indices: Indices, valid: Valid) -> Work:
        """The operand's element, and over it each update that may hit it, in order."""
        axes, kind = axes_and_kind(node)
        x, updates, *arrays = node.src
        total = yield scope, x, indices, valid
        rest = [i for a, i in enumerate(indices) if a not in axes]
        for position in np.ndindex(*arrays[0].shape):
            at = tuple(map(constant_index, position))
            hit: Node | None = None
            for axis, array in zip(axes, arrays, strict=True):
                place = yield scope, array, at, valid
                here = (cast(place, INDEX), self.rendered(indices[axis]))
                same = folded(eq, dtypes.bool_, here)
                hit = same if hit is None else folded(bit_and, same.dtype, (hit, same))
            assert hit is not None
            if hit.op is const_p and not constant_value(hit):
                continue
            value = yield scope, updates, (*at, *rest), valid
            if kind != "set":
                value = folded(_COMBINE[kind], node.dtype, (total, value))
            total = folded(select, node.dtype, (hit, value, total))
        return total

    # Leaves.

    def _register(self, bound: Registers, position: Index) -> Node:
        found = bound.places.get(position)
        if found is not None:
            return found
        # Positions differ in what an index array holds, but not in the lane.
        lanes = {r: c for r, c in position.terms if r.kind == "range"}
        if any(dict(other.terms) != lanes for other in bound.places):
            raise Unsuited("an element of another lane")
        moving = [(r, c) for r, c in position.terms if r.kind != "range"]
        place = self.rendered(Index(tuple(moving), position.constant))
        rest = [(p.constant, register) for p, register in bound.places.items()]
        total = rest[-1][1]
        for constant, value in reversed(rest[:-1]):
            same = folded(eq, dtypes.bool_, (place, const(constant, INDEX)))
            total = folded(select, value.dtype, (same, value, total))
        return total

    def _stored(self, node: Node, indices: Indices, valid: Valid) -> Node:
        """A load from memory."""
        if node.aval is TOKEN or isinstance(node.aval, Stack):
            raise Unsuited("no array")
        number = self.operands.setdefault(node, len(self.operands))
        buffer = param(self.first_operand + number, node.dtype, node.size)
        index = self.rendered(flatten_index(indices, node.shape))
        return load(buffer, index, self._valid(valid))

    # Control flow.

    def _item(self, scope: int, node: Node, indices: Indices, valid: Valid) -> Work:
        (compound,), number = node.src, node.arg
        if compound.op.family == "barrier":
            return (yield scope, compound.src[number], indices, valid)
        if compound.op is cond_p:
            return (yield from self._branch(scope, compound, number, indices, valid))
        if compound.op is loop_p:
            results = yield scope, compound, (), ALWAYS
            bound = results[number]
            if bound is None:
                raise Unsuited("an inner loop that stacks its results")
            return self._register(bound, flatten_index(indices, bound.shape))
        raise Unsuited(f"{compound.op.name} inside")

    def _branch(
        self, scope: int, cond: Node, number: int, indices: Indices, valid: Valid
    ) -> Work:
        """All branches, and the one that is chosen."""
        index = yield scope, cond.src[0], (), valid
        arg: Branches = cond.arg
        total: Node | None = None
        for k in reversed(range(len(arg.bodies))):
            outputs = self._branch_outputs(scope, cond, k)
            value = yield scope, outputs[number], indices, valid
            if total is None:
                total = value
            else:
                chosen = folded(eq, dtypes.bool_, (index, const(k, index.dtype)))
                total = folded(select, value.dtype, (chosen, value, total))
        return total

    def _branch_outputs(self, scope: int, cond: Node, k: int) -> list[Node]:
        key = scope, cond, k
        found = self.branches.get(key)
        if found is None:
            body: Body = cond.arg.bodies[k]
            for node in toposort(body.outputs):
                if compound_of(node) not in (None, cond_p):
                    raise Unsuited("a branch that is no expression")
            found = self.branches[key] = apply_body(body, cond.src[1:])
        return found

    def loop(self, scope: int, node: Node) -> Work:
        """Adds the statements of a loop to the block of its graph.

        Returns:
          For each result its registers; None for what it stacks, which only the
          outermost loop may.
        """
        arg: Loop = node.arg
        if arg.length is None and not arg.predicate:
            raise Unsuited("the length is that of a stack")
        times, t = None, ZERO
        if arg.length is not None:
            times, t = self.new_range(arg.length)
            if arg.reverse:
                t = constant_index(arg.length - 1) - t
        starts: list[Store] = []
        bound = yield from self._bind(scope, node, t, starts)
        predicate: Node | None = None
        if arg.predicate:
            predicate = self.new_register(dtypes.bool_)
            starts.append(_set(predicate, (yield scope, node.src[0], (), ALWAYS)))
        inner = self.new_scope(bound)
        outputs = self.prepare(arg.body)
        stores: list[Store] = []
        first = arg.consts + arg.carry
        carried = [bound[n] for n in arg.body.inputs[arg.consts : first]]
        for output, registers in zip(outputs, carried, strict=False):
            assert isinstance(registers, Registers)
            for at, position in self.positions(registers.shape):
                value = yield inner.number, output, at, ALWAYS
                stores.append(_set(registers.places[position], value))
        if predicate is not None:
            value = yield inner.number, outputs[-1], (), ALWAYS
            stores.append(_set(predicate, value))
        stacked = outputs[arg.carry : len(outputs) - arg.predicate]
        if scope == 0:
            if stacked and arg.length is None:
                raise Unsuited("results on a stack")
            for k, output in enumerate(stacked, arg.carry):
                stores += yield from self.pushed(inner.number, output, k, t)
        block = self.scopes[scope].block
        if starts:
            block.append(Assign(tuple(starts)))
        if arg.length != 0:
            number = -1 if predicate is None else _number(predicate)
            block.append(Repeat(times, number, (*inner.block, Assign(tuple(stores)))))
        return [*carried, *[None] * len(stacked)]

    def enter(self, node: Node, t: Index) -> int:
        """The scope of iteration t of a loop without a carry in the outermost graph."""
        bound = self.run(self._bind(0, node, t, []))
        return self.new_scope(bound).number

    def _bind(
        self, scope: int, node: Node, t: Index, starts: list[Store]
    ) -> Generator[Key, Any, dict[Node, Registers | Operand]]:
        """What the variables of a loop's body are; the carry gets its first values."""
        arg: Loop = node.arg
        operands = node.src[arg.predicate :]
        bound: dict[Node, Registers | Operand] = {}
        for k, (name, operand) in enumerate(
            zip(arg.body.inputs, operands, strict=True)
        ):
            if k < arg.consts:
                bound[name] = Operand(scope, operand)
            elif k >= arg.consts + arg.carry:
                bound[name] = Operand(scope, operand, t)
            else:
                places: dict[Index, Node] = {}
                for at, position in self.positions(name.shape):
                    register = places[position] = self.new_register(name.dtype)
                    starts.append(_set(register, (yield scope, operand, at, ALWAYS)))
                bound[name] = Registers(name.shape, places)
        return bound

    def pushed(
        self, scope: int, output: Node, buffer: int, t: Index
    ) -> Generator[Key, Any, list[Store]]:
        """The stores of one element of what a loop stacks."""
        stores: list[Store] = []
        for at, position in self.positions(output.shape):
            value = yield scope, output, at, ALWAYS
            place = self.rendered(t * output.size + position)
            stores.append(Store(buffer, place, value))
        return stores

    def positions(self, shape: Shape) -> Iterator[tuple[Indices, Index]]:
        """The indices of all elements, of those in one lane, and where these lie."""
        lanes = self.lanes
        axis = None if lanes is None else lanes.of(shape)
        sizes = [1 if a == axis else n for a, n in enumerate(shape)]
        for position in np.ndindex(*sizes):
            at = [constant_index(p) for p in position]
            if axis is not None and lanes is not None:
                at[axis] = lanes.index
            yield tuple(at), flatten_index(at, shape)

    def run(self, work: Generator[Key, Any, Any]) -> Any:
        """The answer of a generator that asks for elements."""
        answer: Any = None
        while True:
            try:
                wanted = work.send(answer)
            except StopIteration as done:
                return done.value
            answer = self._ask(wanted)


_RULES: dict[Any, Callable[..., Work]] = {
    gather_p: Scalarizer._gather, scatter_p: Scalarizer._scatter,
    item_p: Scalarizer._item,
}  # fmt: skip
_FAMILIES: dict[str, Callable[..., Work]] = {
    "movement": Scalarizer._movement, "reduction": Scalarizer._reduction,
    **dict.fromkeys(_ELEMENTWISE, Scalarizer._elementwise),
}  # fmt: skip


def _set(register: Node, value: Node) -> Store:
    return Store(_number(register), const(0, INDEX), value)


def _number(register: Node) -> int:
    number: int = register.src[0].arg
    return number


def _through(key: Key) -> Work:
    return (yield key)


def _is_masked(value: Node) -> bool:
    """Is it zero already where the access is not valid?"""
    while value.op.name == "cast":
        value = value.src[0]
    return value.op is load_p and len(value.src) == 3


def _is_leafless(node: Node) -> bool:
    """Is it made of constants and positions alone, so that it needs no memory?"""
    return node.op.family in _ELEMENTWISE and all(
        n.op in (const_p, iota_p) or n.op.family in (*_ELEMENTWISE, "movement")
        for n in toposort([node])
    )


def scalar(node: Node, src: Sequence[Node]) -> Node:
    """An elementwise operation of a graph on scalars."""
    aval = ShapedArray.of((), node.dtype)
    return _simplified(make_node(node.op, aval, tuple(src), node.arg))


def folded(op: Any, dtype: np.dtype[Any], src: tuple[Node, ...]) -> Node:
    """An operation on scalars; of constants it is a constant."""
    return _simplified(make_node(op, ShapedArray.of((), dtype), src))


def _simplified(node: Node) -> Node:
    src = node.src
    if node.op.name in _FOLDED and all(s.op is const_p for s in src):
        return const(evaluate_scalar(node), node.dtype)
    if node.op is select:
        if src[0].op is const_p:
            return src[1] if constant_value(src[0]) else src[2]
        if src[1] is src[2]:
            return src[1]
    if node.op is bit_and and node.dtype == dtypes.bool_:
        for known, other in (src, src[::-1]):
            if known.op is const_p:
                return other if constant_value(known) else known
    if node.op.name == "mul_zero":
        for known in src:
            if known.op is const_p and not constant_value(known):
                return const(0, node.dtype)
    return node
