"""Stage 2b: loops with small bodies become recurrences, which run in registers.

    loop  ->  recurrence      where the carry of a lane and the work on it are small

Lanes are, in this order of preference: the iterations of a loop without a carry; an
axis that all of the carry has and in which the body is elementwise; none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from math import prod

from ftrace import settings
from ftrace.lower.control import Loop, loop_of_while, loop_p
from ftrace.lower.each_lane import lanes_of
from ftrace.lower.elements import Registers, Unsuited
from ftrace.lower.kernel import BufferSpec, KernelInfo, Store
from ftrace.lower.recurrence import (
    Assign,
    Recurrence,
    Statement,
    Step,
    cost,
    register_loop_p,
)
from ftrace.lower.scalarize import Lanes, Scalarizer
from ftrace.lower.values import weight
from ftrace.origin import Origin
from ftrace.trace.avals import TOKEN, Stack
from ftrace.trace.dims import any_dynamic
from ftrace.trace.graph import Body, Node, toposort
from ftrace.trace.primitives.movement import reshape
from ftrace.trace.primitives.record import items
from ftrace.trace.primitives.source import dim_p

Prepare = Callable[[Body], Sequence[Node]]

#: What `config.disabled_rules` can switch off here.
DECISIONS = {
    "loops_in_registers": "a loop with a small body and carry becomes one kernel",
    "loops_by_lanes": "elements that are done leave a loop that runs for others",
}

#: Registers of one lane.
MOST_REGISTERS = 64
#: Instructions of one iteration of a lane: beyond them the code generator takes longer
#: (0.2 ms per instruction) than the other way does.
MOST_OPERATIONS = 1200
#: The same without lanes, where vectors of the other way are soon faster than scalars:
#: measured, both take 100 ns per iteration for about so many.
MOST_OPERATIONS_ALONE = 400
#: Terms of sums in one iteration, of a lane and where there are none: of larger
#: contractions a kernel of their own is as fast, and much faster to make.
MOST_TERMS = 48
MOST_TERMS_ALONE = 256
#: Elements that are looked at on the way: movement costs nothing in the end.
_ELEMENTS = 4 * MOST_OPERATIONS
#: How much smaller rewrites may make a body.
_SHRINKING = 4
#: Fewer lanes than these are rather registers beside each other.
_FEW_LANES = 4


def by_recurrence(
    prepare: Prepare, loop: Node, read: Collection[int]
) -> Node | Sequence[Node] | None:
    """The recurrence that does what a loop does; None if it is too large or unfit.

    Args:
      prepare: applies to a body the rewrites that the loop's graph has seen.
      loop: the loop.
      read: which parts of the carry are needed.
    """
    if "loops_in_registers" in settings.current().disabled_rules:
        return None
    return _lanes_by_themselves(loop, sorted(read), prepare) or find_recurrence(
        loop, prepare
    )


def _lanes_by_themselves(
    node: Node, wanted: Sequence[int], prepare: Prepare
) -> Sequence[Node] | None:
    """The carry after a loop whose elements need not wait for each other.

    Args:
      wanted: which parts of the carry are needed.
    """
    each = node.arg.each
    if each is None or "loops_by_lanes" in settings.current().disabled_rules:
        return None
    carry = node.src[1:]
    size = carry[0].size
    body, scalars, elements = lanes_of(each, carry, wanted, loop_of_while)
    outer = Loop(body, size, False, len(scalars), 0, False)
    operands = [*scalars, *(reshape(x, (size,)) for x in elements)]
    found = find_recurrence(loop_p(*operands, arg=outer), prepare)
    if found is None:
        return None
    after = list(carry)
    for k, item in zip(wanted, items(found), strict=True):
        after[k] = reshape(item, carry[k].shape)
    return after


def find_recurrence(node: Node, prepare: Prepare) -> Node | None:
    """The recurrence that does what a loop does; None if it is too large or unfit."""
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
            return _Maker(node, prepare, size, axis).make()
        except Unsuited:
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
    for axis in (0, -1):
        sizes = {s[axis] for s in arrays}
        if len(sizes) == 1 and max(sizes) > 1 and (axis == 0 or _differ(arrays)):
            found.append((max(sizes), axis))
            scalars_first = scalars_first and max(sizes) < _FEW_LANES
    yield from [(1, 0), *found] if scalars_first else [*found, (1, 0)]


def _differ(shapes: Sequence[tuple[int, ...]]) -> bool:
    """Is the last axis another one than the first?"""
    return any(len(s) > 1 for s in shapes)


def _may_be_small(arg: Loop, lanes: int, prepare: Prepare) -> bool:
    """Looks at sizes only."""
    if lanes < 1:
        return False
    carry = sum(n.size for n in arg.body.outputs[: arg.carry])
    pushed = sum(n.size for n in arg.body.outputs[arg.carry :])
    each = lanes if arg.carry else 1  # without a carry the body is that of one lane
    if carry > each * MOST_REGISTERS or pushed > each * MOST_REGISTERS:
        return False
    most, most_terms = each * MOST_OPERATIONS, each * MOST_TERMS
    if lanes == 1:
        most, most_terms = MOST_OPERATIONS_ALONE, MOST_TERMS_ALONE
    operations, terms = _work(arg.body.outputs)
    if operations > _SHRINKING * most or terms > _SHRINKING * most_terms:
        return False
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
    return operations if operations < 10 else 3 * operations


class _Maker:
    """Makes one recurrence of a loop."""

    def __init__(self, node: Node, prepare: Prepare, size: int, axis: int) -> None:
        self.node = node
        self.prepare = prepare
        self.arg: Loop = node.arg
        self.results = node.aval.items
        count = len(self.results)
        self.work = Scalarizer(prepare, count, MOST_REGISTERS, _ELEMENTS)
        self.axes: tuple[Node, ...] = ()
        self.lanes: Lanes | None = None
        if size > 1:
            lane, index = self.work.new_range(size)
            self.axes = (lane,)
            self.lanes = Lanes(index, size, axis)

    def make(self) -> Node:
        work, lanes = self.work, self.lanes
        if self.arg.carry or lanes is None:
            work.lanes = lanes
            registers = work.run(work.loop(0, self.node))
            stores = self._last_stores(registers)
            block = [*work.scopes[0].block]
        else:
            stores = self._each_lane(lanes)
            block = [*work.scopes[0].block]
        if stores:
            block.append(Assign(tuple(stores)))
        return self._step(block)

    def _last_stores(self, results: Sequence[Registers | None]) -> list[Store]:
        """What the carry is in the end."""
        stores: list[Store] = []
        for k, registers in enumerate(results):
            if registers is None:
                continue
            for _, position in self.work.positions(registers.shape):
                place = self.work.rendered(position)
                stores.append(Store(k, place, registers.places[position]))
        return stores

    def _each_lane(self, lanes: Lanes) -> list[Store]:
        """A loop without a carry: its iterations are lanes."""
        work, arg = self.work, self.arg
        scope = work.enter(0, self.node, lanes.index)
        stores: list[Store] = []
        for k, output in enumerate(self.prepare(arg.body)):
            stores += work.run(work.pushed(scope, output, k, lanes.index))
        return stores

    def _step(self, block: Sequence[Statement]) -> Node:
        work = self.work
        operands = list(work.operands)
        specs = [BufferSpec(a.dtype, a.size, True) for a in self.results]
        specs += [BufferSpec(n.dtype, n.size, False) for n in operands]
        recurrence = Recurrence(
            self.axes, (), tuple(specs), block=tuple(block),
            registers=tuple(work.registers),
        )  # fmt: skip
        nodes = recurrence.nodes
        most = MOST_OPERATIONS if self.axes else MOST_OPERATIONS_ALONE
        if sum(_price(n) for n in nodes if cost(n)) > most:
            raise Unsuited("too many operations")
        info = self._info(recurrence, nodes)
        return register_loop_p(*operands, arg=Step(recurrence, info, self.results))

    def _info(self, recurrence: Recurrence, nodes: Sequence[Node]) -> KernelInfo:
        names = [n.op.name for n in nodes if cost(n)]
        origins: dict[str, Origin] = {}
        for node in (self.node, *toposort(self.prepare(self.arg.body))):
            if node.origin is not None:
                origins.setdefault(str(node.origin), node.origin)
        lanes = prod(recurrence.shape)
        length = self.arg.length if self.arg.carry else None
        size = f"{'while' if length is None else length}" if self.arg.carry else ""
        parts = [p for p in (size, f"{lanes}" if lanes > 1 else "") if p]
        nbytes = sum(s.size * s.dtype.itemsize for s in recurrence.buffers)
        return KernelInfo(
            f"loop_{'x'.join(parts)}",
            tuple(origins.values()),
            recurrence.operations,
            nbytes,
            tuple(dict.fromkeys(names)),
        )
