"""Loops with small bodies become recurrences, which run in registers.

    loop  ->  recurrence      where the carry of a lane and the work on it are small

Lanes are, in this order of preference: the iterations of a loop without a carry; an
axis that all of the carry has and in which the body is elementwise; none.

`Scalarizer` makes the statements: what a loop carries becomes registers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from math import prod
from typing import Any

from ftrace import dtypes
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.analysis import weight
from ftrace.lower.build.build_kernel import origins_of
from ftrace.lower.control.canonical_loop import Loop, loop_p
from ftrace.lower.kernel import affine_index as ix
from ftrace.lower.kernel.ir import INDEX, KernelInfo, Store, bytes_of
from ftrace.lower.register_loops import register_loop as rl, scalar_elements as scalar
from ftrace.trace.avals import TOKEN, Shape, ShapedArray, Stack
from ftrace.trace.body import apply_body
from ftrace.trace.control.conditional import Branches, cond_p
from ftrace.trace.graph import Body, Node, toposort
from ftrace.trace.primitives.elementwise import eq, select
from ftrace.trace.primitives.primitive import compound_of, item_p
from ftrace.trace.primitives.sources import const, dim_p
from ftrace.trace.symbolic import any_dynamic, same_size

#: Rewrites the outputs of a body as lowering does.
Prepare = Callable[[Body], Sequence[Node]]


@dataclass(frozen=True)
class Lanes:
    """A range that all of a recurrence runs over.

    Attributes:
      index: the number of a lane.
      size: how many there are.
      axis: the axis of carry and elements that is over the lanes: 0 or -1.
    """

    index: ix.Index
    size: int
    axis: int = 0

    def of(self, shape: Shape) -> int | None:
        """The axis of an array over the lanes; None if it has none."""
        if not shape or not same_size(shape[self.axis], self.size):
            return None
        return self.axis % len(shape)


class Scalarizer(scalar.Elements):
    """Makes the recurrence of a loop.

    Args:
      node: the loop.
      prepare: rewrites the outputs of a body as lowering does.
      size, axis: how many lanes there are, and their axis of the carry; 1 is none.

    Attributes:
      axes: the range of the lanes.
      lanes: what one recurrence runs over, where axes of its values are lanes.
    """

    def __init__(self, node: Node, prepare: Prepare, size: int, axis: int) -> None:
        self.node = node
        self.results: tuple[ShapedArray, ...] = node.aval.items
        super().__init__(len(self.results))
        self.prepare = prepare
        self.axes: tuple[Node, ...] = ()
        self.lanes: Lanes | None = None
        if size > 1:
            lane, index = self.new_range(size)
            self.axes = (lane,)
            self.lanes = Lanes(index, size, axis)
        self._entered: dict[tuple[int, Node, ix.Index], int] = {}
        self._branches: dict[tuple[int, Node, int], list[Node]] = {}

    def make(self) -> Node:
        """The recurrence.

        Raises:
          Unsuited: the loop is no work for registers.
        """
        lanes = self.lanes
        if self.node.arg.carry or lanes is None:
            stores = self._last_stores(self.run(self.loop(0, self.node)))
        else:
            self.lanes = None  # each iteration is a lane: its values are whole
            stores = self._each_lane(lanes.index)
        block = self.scopes[0].block
        return self._step([*block, rl.Assign(tuple(stores))] if stores else block)

    def _last_stores(self, results: Sequence[scalar.Registers | None]) -> list[Store]:
        """What the carry is in the end."""
        return [
            Store(k, self.render(position), registers.by_index[position])
            for k, registers in enumerate(results)
            if registers is not None
            for _, position in self.positions(registers.shape)
        ]

    def _each_lane(self, lane: ix.Index) -> list[Store]:
        """A loop without a carry: its iterations are lanes."""
        scope = self.enter(0, self.node, lane)
        stores: list[Store] = []
        for k, output in enumerate(self.prepare(self.node.arg.body)):
            stores += self.run(self.push(scope, output, k, lane))
        return stores

    def _step(self, block: Sequence[rl.Statement]) -> Node:
        operands = list(self.operands)
        recurrence = rl.Recurrence(
            self.axes, (), rl.buffers_of(self.results, operands), block=tuple(block),
            registers=tuple(self.registers),
        )  # fmt: skip
        nodes = recurrence.nodes
        most = MOST_OPERATIONS if self.axes else MOST_OPERATIONS_ALONE
        if sum(_price(n) for n in nodes if rl.cost(n)) > most:
            raise scalar.Unsuited("too many operations")
        body: Body = self.node.arg.body
        body = Body(body.inputs, tuple(self.prepare(body)))
        info = self._info(recurrence, nodes, body)
        rows = enumerate(self.expressions.items())
        made = {(key[1], i): x for i, (key, x) in rows if type(x) is Node}
        arg = rl.Step(recurrence, info, self.results, body, made)
        return rl.register_loop_p(*operands, arg=arg)

    def _info(
        self, recurrence: rl.Recurrence, nodes: Sequence[Node], body: Body
    ) -> KernelInfo:
        arg: Loop = self.node.arg
        lanes = prod(recurrence.shape)
        parts = [f"{lanes}"] if lanes > 1 else []
        if arg.carry:
            parts.insert(0, "while" if arg.length is None else f"{arg.length}")
        return KernelInfo(
            f"loop_{'x'.join(parts)}",
            origins_of((self.node, *toposort(body.outputs))),
            recurrence.operations,
            bytes_of(recurrence.buffers),
            tuple(dict.fromkeys(n.op.name for n in nodes if rl.cost(n))),
        )

    def control(
        self, scope: int, node: Node, indices: scalar.Indices, valid: ix.Valid
    ) -> scalar.Work:
        """A result of a loop or a branch, or what a loop's results are."""
        if node.op is item_p:
            return self._item(scope, node, indices, valid)
        if node.op is loop_p:
            return self.loop(scope, node)
        raise scalar.Unsuited(f"{node.op.name} has no elements")

    def _item(
        self, scope: int, node: Node, indices: scalar.Indices, valid: ix.Valid
    ) -> scalar.Work:
        (compound,) = node.src
        number: int = node.arg
        if compound.op.family == "barrier":
            if any(s.aval is TOKEN for s in compound.src):
                raise scalar.Unsuited("an effect inside")
            return (yield scope, compound.src[number], indices, valid)
        if compound.op is cond_p:
            return (yield from self._branch(scope, compound, number, indices, valid))
        if compound.op is loop_p and _is_map(compound.arg):
            if valid != ix.ALWAYS:
                raise scalar.Unsuited("iterations that there may not be")
            inner = self.enter(scope, compound, indices[0])
            output = self.prepare(compound.arg.body)[number]
            return (yield inner, output, indices[1:], valid)
        if compound.op is loop_p:
            results = yield scope, compound, (), ix.ALWAYS
            bound = results[number]
            if bound is None:
                raise scalar.Unsuited("an inner loop that stacks its results")
            return self.in_register(bound, ix.flatten_index(indices, bound.shape))
        raise scalar.Unsuited(f"{compound.op.name} inside")

    def _branch(
        self,
        scope: int,
        cond: Node,
        number: int,
        indices: scalar.Indices,
        valid: ix.Valid,
    ) -> scalar.Work:
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
                chosen = scalar.fold(eq, dtypes.bool_, (index, const(k, index.dtype)))
                total = scalar.fold(select, value.dtype, (chosen, value, total))
        return total

    def _branch_outputs(self, scope: int, cond: Node, k: int) -> list[Node]:
        key = scope, cond, k
        found = self._branches.get(key)
        if found is None:
            body: Body = cond.arg.bodies[k]
            for node in toposort(body.outputs):
                if compound_of(node) not in (None, cond_p):
                    raise scalar.Unsuited("a branch that is no expression")
            found = self._branches[key] = apply_body(body, cond.src[1:])
        return found

    def loop(self, scope: int, node: Node) -> scalar.Work:
        """Adds the statements of a loop to the block of its graph.

        Returns:
          For each result its registers; None for what it stacks, which only the
          outermost loop may.
        """
        arg: Loop = node.arg
        if arg.length is None and not arg.predicate:
            raise scalar.Unsuited("the length is that of a stack")
        times, t = None, ix.ZERO
        if arg.length is not None:
            times, t = self.new_range(arg.length)
            if arg.reverse:
                t = ix.constant_index(arg.length - 1) - t
        starts: list[Store] = []
        bound = yield from self._bind(scope, node, t, starts)
        predicate: Node | None = None
        if arg.predicate:
            predicate = self.new_register(dtypes.bool_)
            starts.append(_set(predicate, (yield scope, node.src[0], (), ix.ALWAYS)))
        inner = self.new_scope(bound)
        outputs = self.prepare(arg.body)
        stores: list[Store] = []
        first = arg.consts + arg.carry
        carried = [bound[n] for n in arg.body.inputs[arg.consts : first]]
        for output, registers in zip(outputs, carried, strict=False):
            assert isinstance(registers, scalar.Registers)
            for at, position in self.positions(registers.shape):
                value = yield inner.number, output, at, ix.ALWAYS
                stores.append(_set(registers.by_index[position], value))
        if predicate is not None:
            value = yield inner.number, outputs[-1], (), ix.ALWAYS
            stores.append(_set(predicate, value))
        stacked = outputs[arg.carry : len(outputs) - arg.predicate]
        if scope == 0:
            if stacked and arg.length is None:
                raise scalar.Unsuited("results on a stack")
            for k, output in enumerate(stacked, arg.carry):
                stores += yield from self.push(inner.number, output, k, t)
        block = self.scopes[scope].block
        if starts:
            block.append(rl.Assign(tuple(starts)))
        if not same_size(arg.length, 0):
            number = -1 if predicate is None else _number(predicate)
            block.append(
                rl.Repeat(times, number, (*inner.block, rl.Assign(tuple(stores))))
            )
        return [*carried, *[None] * len(stacked)]

    def enter(self, scope: int, node: Node, t: ix.Index) -> int:
        """The scope of iteration t of a loop without a carry; the block is shared."""
        key = scope, node, t
        if key not in self._entered:
            arg: Loop = node.arg
            bound: dict[Node, scalar.Registers | scalar.Operand] = {
                name: scalar.Operand(scope, operand, None if k < arg.consts else t)
                for k, (name, operand) in enumerate(
                    zip(arg.body.inputs, node.src, strict=True)
                )
            }
            block = self.scopes[scope].block
            self._entered[key] = self.new_scope(bound, block).number
        return self._entered[key]

    def _bind(
        self, scope: int, node: Node, t: ix.Index, starts: list[Store]
    ) -> Generator[scalar.Key, Any, dict[Node, scalar.Registers | scalar.Operand]]:
        """What the variables of a loop's body are; the carry gets its first values."""
        arg: Loop = node.arg
        operands = node.src[arg.predicate :]
        bound: dict[Node, scalar.Registers | scalar.Operand] = {}
        for k, (name, operand) in enumerate(
            zip(arg.body.inputs, operands, strict=True)
        ):
            if k < arg.consts:
                bound[name] = scalar.Operand(scope, operand)
            elif k >= arg.consts + arg.carry:
                bound[name] = scalar.Operand(scope, operand, t)
            else:
                places: dict[ix.Index, Node] = {}
                for at, position in self.positions(name.shape):
                    register = places[position] = self.new_register(name.dtype)
                    starts.append(_set(register, (yield scope, operand, at, ix.ALWAYS)))
                bound[name] = scalar.Registers(name.shape, places)
        return bound

    def push(
        self, scope: int, output: Node, buffer: int, t: ix.Index
    ) -> Generator[scalar.Key, Any, list[Store]]:
        """The stores of one element of what a loop stacks."""
        stores: list[Store] = []
        for at, position in self.positions(output.shape):
            value = yield scope, output, at, ix.ALWAYS
            place = self.render(t * output.size + position)
            stores.append(Store(buffer, place, value))
        return stores

    def positions(self, shape: Shape) -> Iterator[tuple[scalar.Indices, ix.Index]]:
        """The indices of all elements, of those in one lane, and where these lie."""
        lanes = self.lanes
        axis = None if lanes is None else lanes.of(shape)
        sizes = [1 if a == axis else n for a, n in enumerate(shape)]
        for position in scalar.positions_of(sizes):
            at = [ix.constant_index(p) for p in position]
            if axis is not None and lanes is not None:
                at[axis] = lanes.index
            indices = tuple(at)
            yield indices, ix.flatten_index(indices, shape)


def _set(register: Node, value: Node) -> Store:
    return Store(_number(register), const(0, INDEX), value)


def _number(register: Node) -> int:
    number: int = register.src[0].arg
    return number


def _is_map(arg: Loop) -> bool:
    """Do its iterations have nothing to do with each other?"""
    return not arg.carry and not arg.predicate and arg.length is not None


#: What `config.disabled_rules` can switch off here.
DECISIONS = {
    "promote_loops": "a loop with a small body and carry becomes one kernel",
}

#: Instructions of one iteration of a lane: beyond them the code generator takes longer
#: (0.2 ms per instruction) than the other way does. With 4800 150 sines in turn are one
#: kernel, not four in a loop, with 300 20 are in a loop.
MOST_OPERATIONS = 1200
#: The same without lanes, where vectors of the other way are soon faster than scalars:
#: measured, both take 100 ns per iteration for about so many. With 1600 an RNN of 16 is
#: one kernel, with 100 one of 4 and the gradient of an ODE are loops of kernels.
MOST_OPERATIONS_ALONE = 400
#: Terms of sums in one iteration, of a lane and where there are none: of larger
#: contractions a kernel of their own is as fast, and much faster to make. With 4 times
#: as many 128 lanes of 12×12 matrices are one kernel, with a quarter those of 4×4 and
#: one of 12×12 are loops.
MOST_TERMS = 48
MOST_TERMS_ALONE = 256
#: Fewer lanes than these are rather registers beside each other: as lanes three are two
#: units, one after the other. With 16 eight are 24 instructions a step, not 3.
_FEW_LANES = 4
#: A node of so many operations is a function, and so many times as many instructions:
#: a bound of code. With 2 or 1000 operations, with 1 or 10 times no row differs.
_FUNCTION = 10
_LONGER = 3


def by_recurrence(prepare: Prepare, node: Node, read: Collection[int]) -> Node | None:
    """The recurrence that does what a loop does; None if it is too large or unfit.

    Args:
      prepare: applies to a body the rewrites that the loop's graph has seen.
      node: the loop.
      read: which results are needed.
    """
    arg: Loop = node.arg
    if _is_dynamic(node):
        return None
    types = [n.aval for n in (*arg.body.inputs, *arg.body.outputs)]
    if any(aval is TOKEN or isinstance(aval, Stack) for aval in types):
        return None
    if arg.length is None and len(arg.body.outputs) != arg.carry + arg.predicate:
        return None
    for size, axis in _possible_lanes(arg):
        if not _may_be_small(arg, size, prepare):
            continue
        try:
            return Scalarizer(node, prepare, size, axis).make()
        except scalar.Unsuited:
            continue
    return None


def _is_dynamic(node: Node) -> bool:
    """Does a loop have to do with sizes that only calls know?"""
    arg: Loop = node.arg
    inside = toposort([*arg.body.inputs, *arg.body.outputs])
    sizes = [n.aval.size for n in (*node.src, *inside)]
    return any_dynamic((arg.length, *sizes)) or any(n.op is dim_p for n in inside)


def _possible_lanes(arg: Loop) -> Iterator[tuple[int, int]]:
    """(how many lanes, their axis of the carry), the best first; 1 is none."""
    if not arg.carry:
        yield arg.length or 0, 0
        return
    shapes = [n.shape for n in arg.body.outputs[: arg.carry]]
    arrays = [s for s in shapes if s]
    scalars_first = True
    found: list[tuple[int, int]] = []
    differ = any(len(s) > 1 for s in arrays)  # the first axis and the last one
    for axis in (0, -1):
        sizes = {s[axis] for s in arrays}
        if len(sizes) == 1 and max(sizes) > 1 and (axis == 0 or differ):
            found.append((max(sizes), axis))
            scalars_first = scalars_first and max(sizes) < _FEW_LANES
    yield from [(1, 0), *found] if scalars_first else [*found, (1, 0)]


def _may_be_small(arg: Loop, lanes: int, prepare: Prepare) -> bool:
    """Looks at sizes only."""
    if lanes < 1:
        return False
    carry = sum(n.size for n in arg.body.outputs[: arg.carry])
    pushed = sum(n.size for n in arg.body.outputs[arg.carry :])
    each = lanes if arg.carry else 1  # without a carry the body is that of one lane
    if carry > each * scalar.MOST_REGISTERS or pushed > each * scalar.MOST_REGISTERS:
        return False
    most, most_terms = each * MOST_OPERATIONS, each * MOST_TERMS
    if lanes == 1:
        most, most_terms = MOST_OPERATIONS_ALONE, MOST_TERMS_ALONE
    operations, terms = _work(prepare(arg.body))
    return operations <= most and terms <= most_terms


def _work(outputs: Sequence[Node]) -> tuple[int, int]:
    """Elements that are computed, and terms of sums among them."""
    operations = terms = 0
    for node in toposort(outputs):
        if node.op.family == "reduction":
            terms += node.src[0].size
        elif node.op.family not in ("movement", "source", "item", "indexing"):
            operations += node.size * _price(node)
    return operations, terms


def _price(node: Node) -> int:
    """Instructions of one element: a function is some dozens."""
    operations = max(weight(node), 1)
    return operations if operations < _FUNCTION else _LONGER * operations
