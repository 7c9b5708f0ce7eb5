"""Loops as statements of a recurrence: their carries become registers."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

from ftrace import dtypes
from ftrace.lower.control import Loop, loop_p
from ftrace.lower.elements import (
    Indices,
    Key,
    Operand,
    Registers,
    Unsuited,
    Work,
    is_elementwise,
    places,
)
from ftrace.lower.expressions import Expressions
from ftrace.lower.index import (
    ALWAYS,
    ZERO,
    Index,
    Valid,
    constant_index,
    flatten_index,
)
from ftrace.lower.kernel import INDEX, Store
from ftrace.lower.recurrence import Assign, Repeat
from ftrace.lower.scalars import folded
from ftrace.records import dataclass
from ftrace.trace.avals import TOKEN, Shape
from ftrace.trace.body import apply_body
from ftrace.trace.control.branch import Branches, cond_p
from ftrace.trace.dims import same_size
from ftrace.trace.graph import Body, Node, toposort
from ftrace.trace.primitives.elementwise import eq, select
from ftrace.trace.primitives.record import compound_of, item_p
from ftrace.trace.primitives.source import const

#: Operations of the first predicate that need no kernel of their own.
MOST_INLINED = 32


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
        if not shape or not same_size(shape[self.axis], self.size):
            return None
        return self.axis % len(shape)


class Scalarizer(Expressions):
    """Makes the statements of a loop.

    Args:
      prepare: rewrites the outputs of a body as lowering does.
      first_operand, most_registers, most_elements: as of `Elements`.

    Attributes:
      lanes: what one recurrence runs over, where axes of its values are lanes.
    """

    def __init__(
        self,
        prepare: Callable[[Body], Sequence[Node]],
        first_operand: int,
        most_registers: int,
        most_elements: int,
    ) -> None:
        super().__init__(first_operand, most_registers, most_elements)
        self.prepare = prepare
        self.lanes: Lanes | None = None
        self._entered: dict[tuple[int, Node, Index], int] = {}
        self._branches: dict[tuple[int, Node, int], list[Node]] = {}

    def control(self, scope: int, node: Node, indices: Indices, valid: Valid) -> Work:
        """A result of a loop or a branch, or what a loop's results are."""
        if node.op is item_p:
            return self._item(scope, node, indices, valid)
        if node.op is loop_p:
            return self.loop(scope, node)
        raise Unsuited(f"{node.op.name} has no elements")

    def _item(self, scope: int, node: Node, indices: Indices, valid: Valid) -> Work:
        (compound,) = node.src
        number: int = node.arg
        if compound.op.family == "barrier":
            if any(s.aval is TOKEN for s in compound.src):
                raise Unsuited("an effect inside")
            return (yield scope, compound.src[number], indices, valid)
        if compound.op is cond_p:
            return (yield from self._branch(scope, compound, number, indices, valid))
        if compound.op is loop_p and _is_map(compound.arg):
            if valid != ALWAYS:
                raise Unsuited("iterations that there may not be")
            inner = self.enter(scope, compound, indices[0])
            output = self.prepare(compound.arg.body)[number]
            return (yield inner, output, indices[1:], valid)
        if compound.op is loop_p:
            results = yield scope, compound, (), ALWAYS
            bound = results[number]
            if bound is None:
                raise Unsuited("an inner loop that stacks its results")
            return self.in_register(bound, flatten_index(indices, bound.shape))
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
        found = self._branches.get(key)
        if found is None:
            body: Body = cond.arg.bodies[k]
            for node in toposort(body.outputs):
                if compound_of(node) not in (None, cond_p):
                    raise Unsuited("a branch that is no expression")
            found = self._branches[key] = apply_body(body, cond.src[1:])
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
            if scope == 0:
                self.inlined = _computed_here(node)
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
        if not same_size(arg.length, 0):
            number = -1 if predicate is None else _number(predicate)
            block.append(Repeat(times, number, (*inner.block, Assign(tuple(stores)))))
        return [*carried, *[None] * len(stacked)]

    def enter(self, scope: int, node: Node, t: Index) -> int:
        """The scope of iteration t of a loop without a carry; the block is shared."""
        key = scope, node, t
        if key not in self._entered:
            arg: Loop = node.arg
            bound: dict[Node, Registers | Operand] = {
                name: Operand(scope, operand, None if k < arg.consts else t)
                for k, (name, operand) in enumerate(
                    zip(arg.body.inputs, node.src, strict=True)
                )
            }
            block = self.scopes[scope].block
            self._entered[key] = self.new_scope(bound, block).number
        return self._entered[key]

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
        for position in places(sizes):
            at = [constant_index(p) for p in position]
            if axis is not None and lanes is not None:
                at[axis] = lanes.index
            yield tuple(at), flatten_index(at, shape)


def _set(register: Node, value: Node) -> Store:
    return Store(_number(register), const(0, INDEX), value)


def _number(register: Node) -> int:
    number: int = register.src[0].arg
    return number


def _is_map(arg: Loop) -> bool:
    """Do its iterations have nothing to do with each other?"""
    return not arg.carry and not arg.predicate and arg.length is not None


def _computed_here(node: Node) -> frozenset[Node]:
    """Operations of which the first predicate is made, if there are few.

    They end at what the loop loads anyway, and at what is not for this kernel.
    """
    first, *operands = node.src
    given = set(operands)
    found: set[Node] = set()
    pending = [first]
    while pending:
        one = pending.pop()
        if one in found or one in given or one.op.family in ("source", "movement"):
            pending += one.src if one.op.family == "movement" else ()
            continue
        if not is_elementwise(one) or one.size > 1 or len(found) >= MOST_INLINED:
            return frozenset()
        found.add(one)
        pending += one.src
    return frozenset(found)
