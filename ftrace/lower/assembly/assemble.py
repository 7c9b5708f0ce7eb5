"""From kernels to a program: which values share memory, slots for all, and its steps.

Values take the memory of others instead of a copy of it:

    x.at[i].set(u)      on a value that nothing needs afterwards
    loop carries        that an iteration updates, and their first value
    donated arguments   that a result of the same size is computed from
    values on the way   that a result of the same shape is computed from

What is overwritten must be ours and dead: all who read it run before. The kernel that
writes may read it too, but only the very element that it then writes; anything else
is a hazard, and a copy is made.

What processes do together is started and waited for (`overlap.py`). The kernels run in
an order in which each finds what it reads, and memory is free
early. Of those that could run next, the one that frees most of the arena goes first: an
update of weights, say, which is the last to need a layer's input. Where none frees
more than it takes, the one whose operands were computed last goes first, as they are
still in the cache.

Values that are needed for a time share an arena; inputs and outputs are the caller's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from math import prod
from typing import Any

from ftrace import dtypes
from ftrace.errors import GraphError
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower import program as prog
from ftrace.lower.analysis import nbytes, root_of
from ftrace.lower.assembly.overlap import Built, BuiltExchange, Flight
from ftrace.lower.build.build_kernel import BuiltKernel, BuiltStep
from ftrace.lower.control.canonical_loop import Loop, runs_on_host
from ftrace.lower.fusion.drafts import Draft, FusionPlan
from ftrace.lower.kernel import ir
from ftrace.trace.avals import ShapedArray, Stack
from ftrace.trace.graph import Graph, Node, constant_value, is_constant, toposort, walk
from ftrace.trace.primitives.elementwise import add, mul
from ftrace.trace.primitives.indexing import axes_and_kind
from ftrace.trace.primitives.sources import is_variable, variable_p
from ftrace.trace.symbolic import any_dynamic, is_dynamic, same_size

# Memory that is used again.

#: What `config.disabled_rules` can switch off here.
DECISIONS = {
    "reuse_buffers": "updates, carries and results take the memory of what is dead"
}


@dataclass(eq=False)
class Sharing:
    """What was decided.

    Attributes:
      owner: for a value the one whose memory it takes.
      dropped: kernels that would only have copied.
      before: for each kernel those that must run before it on that account.
      kernels: those whose stores must be made in another order.
    """

    owner: dict[Node, Node] = field(default_factory=dict[Node, Node])
    dropped: set[int] = field(default_factory=set[int])
    before: dict[int, set[int]] = field(default_factory=dict[int, set[int]])
    kernels: dict[int, BuiltKernel] = field(default_factory=dict[int, BuiltKernel])

    def root(self, node: Node) -> Node:
        """The value whose memory it is in the end."""
        node = root_of(node)
        while node in self.owner:
            node = root_of(self.owner[node])
        return node


def reuse_buffers(
    drafts: Sequence[Draft],
    built: Mapping[int, Built],
    outputs: Iterable[Node],
    given: Mapping[Node, Node | None],
) -> Sharing:
    """Decides for all values of a program.

    Args:
      drafts, built: its kernels and other steps, by number.
      outputs: whose memory they are: these are not overwritten.
      given: inputs that may be overwritten, each with the output that is to be in
        its memory at the end; None is any.
    """
    return _Sharer(drafts, built, frozenset(outputs), given).run()


class _Sharer:
    def __init__(
        self,
        drafts: Sequence[Draft],
        built: Mapping[int, Built],
        outputs: frozenset[Node],
        given: Mapping[Node, Node | None],
    ) -> None:
        self.drafts = drafts
        self.built = built
        self.outputs = outputs
        self.given = given
        self.result = Sharing()
        self.readers: dict[Node, set[int]] = {}
        self.taken: set[Node] = set()
        self.after = {d.number: set(d.feeds) for d in drafts}
        for number, step in built.items():
            for node in step.reads:
                self.readers.setdefault(root_of(node), set()).add(number)

    def run(self) -> Sharing:
        # From the inputs on: later drafts are nearer to them.
        for draft in reversed(self.drafts):
            step = self.built[draft.number]
            if isinstance(step, BuiltStep):
                self._share_carries(draft.number, step)
            elif draft.scattered is not None:
                self._share_scatter(draft, step)
            elif draft.kind == "map":
                self._share_outputs(draft, step)
        self._check_given()
        return self.result

    # Who may take what.

    def _may_take(self, source: Node, writer: int, besides: Iterable[int]) -> bool:
        """Is `source` ours, and dead once `writer` has run?"""
        if source in self.taken or source in self.outputs:
            return False
        if root_of(source) is not source:  # behind a barrier
            return False
        if is_variable(source) and source not in self.given:
            return False
        others = self.readers.get(source, set()) - {writer, *besides}
        later = walk([writer], self.after.__getitem__) if others else ()
        return others.isdisjoint(later)

    def _take(self, value: Node, source: Node, writer: int, besides: set[int]) -> None:
        others = self.readers.get(source, set()) - {writer} - besides
        self.result.owner[value] = source
        self.taken.add(source)
        self.result.before.setdefault(writer, set()).update(others)
        for other in others:
            self.after[other].add(writer)

    # The three kinds.

    def _share_scatter(self, draft: Draft, step: BuiltKernel) -> None:
        node = draft.scattered
        assert node is not None
        prepare = next(
            d for d in self.drafts if d.kind == "scatter" and node in d.roots
        )
        copied = self.built[prepare.number]
        assert isinstance(copied, BuiltKernel)
        source = root_of(node.src[0])
        if not _is_copy(copied, source) or source not in copied.loads.values():
            return
        besides = {prepare.number}
        if not self._may_take(source, draft.number, besides):
            return
        if not _reads_no_other_update(step, source, node):
            return
        self._take(node, source, draft.number, besides)
        self.result.dropped.add(prepare.number)

    def _share_carries(self, number: int, step: BuiltStep) -> None:
        for initial, result in step.carried_in_place():
            fits = step.reads.count(initial) == 1 and same_size(
                result.size, initial.size
            )
            if fits and self._may_take(initial, number, ()):
                self._take(result, initial, number, set())

    def _share_outputs(self, draft: Draft, step: BuiltKernel) -> None:
        """A result of elementwise work, in the memory of what it is made of.

        A kernel may read of what it overwrites only the very element that it then
        writes, for stores in the same loops that it makes before, or at once.
        """
        if self.outputs.isdisjoint(draft.roots):
            return
        if any(n.op is ir.reduce_p for n in step.kernel.nodes):
            return
        stores = step.kernel.stores
        loads = {s: _loads_of(step, s.expressions) for s in stores}
        free = ir.free_ranges(step.kernel.roots)
        ranges = {s: {r for e in s.expressions for r in free[e]} for s in stores}
        taken: dict[ir.Store, Node] = {}

        def overwrites(store: ir.Store, source: Node) -> bool:
            readers = [s for s in stores if source in loads[s]]
            return all(
                ranges[s] == ranges[store]
                and all(n.src[1] is store.index for n in loads[s][source])
                for s in readers
            )

        # First what fewest stores must wait for.
        sources = sorted(
            dict.fromkeys(step.loads.values()),
            key=lambda n: sum(n in found for found in loads.values()),
        )
        order = stores
        for value in draft.roots:
            mine = [s for s in stores if step.stores[s.buffer] is value]
            if value not in self.outputs or len(mine) != 1:
                continue
            for source in sources:
                if not self._suits(source, value):
                    continue
                if not self._may_take(source, draft.number, ()):
                    continue
                wanted = taken | {mine[0]: source}
                found = _stores_in_order(stores, loads, wanted)
                if found and overwrites(mine[0], source):
                    taken, order = wanted, found
                    self._take(value, source, draft.number, set())
                    break
        if order != stores:
            kernel = replace(step.kernel, stores=order)
            self.result.kernels[draft.number] = replace(step, kernel=kernel)

    def _suits(self, source: Node, value: Node) -> bool:
        """May a result be in the memory of an argument, or of a value on the way?

        The latter is then made where the result will be; so nothing else may have its
        memory there, as an argument that is given can.
        """
        if source.dtype != value.dtype:
            return False
        if source in self.given:
            free = self.given[source] in (None, value)
            return free and same_size(source.size, value.size)
        return not self.given and same_size(source.shape, value.shape)

    def _check_given(self) -> None:
        """An argument that ends in another output than the wanted one is not taken.

        Raises nothing: the sharing is undone from where it goes wrong.
        """
        final: dict[Node, list[Node]] = {}
        for value in self.result.owner:
            final.setdefault(self.result.root(value), []).append(value)
        for source, wanted in self.given.items():
            if wanted is None or source not in final:
                continue
            if (
                any(v in self.outputs for v in final[source])
                and wanted in final[source]
            ):
                continue
            self._undo(source)

    def _undo(self, source: Node) -> None:
        for value, owner in list(self.result.owner.items()):
            if owner is source:
                del self.result.owner[value]
                for draft in self.drafts:
                    if draft.kind == "scatter" and value in draft.roots:
                        self.result.dropped.discard(draft.number)


def _is_copy(step: BuiltKernel, source: Node) -> bool:
    """Does it do nothing but copy the whole of `source`?"""
    (store,) = step.kernel.stores
    return (
        store.value.op is ir.load_p
        and len(store.value.src) == 2
        and store.value.src[1] is store.index
        and same_size(step.kernel.buffers[store.buffer].size, source.size)
    )


def _reads_no_other_update(step: BuiltKernel, source: Node, node: Node) -> bool:
    """May a scatter read what it updates in place, as its kernel does?

    It may if no two updates meet and each reads only the element that it changes, or
    if it makes one update, of one element or of one row along the leading axes: an
    element of that row is then made of the same element of this row, or of others.
    """
    (store,) = step.kernel.stores
    loads = _loads_of(step, store.expressions).get(source)
    if not loads or same_size(node.src[1].size, 1):
        return True
    if not step.kernel.ordered and all(load.src[1] is store.index for load in loads):
        return True
    axes, _ = axes_and_kind(node)
    if not same_size(node.src[2].size, 1) or axes != tuple(range(len(axes))):
        return False
    row = prod(node.shape[len(axes) :])
    inside, _ = _split_terms(store.index)
    for load in loads:
        same, outside = _split_terms(load.src[1])
        if same != inside or not all(_divisible(term, row) for term in outside):
            return False
    return True


def _split_terms(index: Node) -> tuple[set[Node], set[Node]]:
    """The terms of an index that change with a range, and those that do not."""
    found = walk([index], lambda term: term.src if term.op is add else ())
    terms = {term for term in found if term.op is not add}
    moving = {t for t in terms if any(n.op is ir.range_p for n in toposort([t]))}
    return moving, terms - moving


def _divisible(term: Node, row: int) -> bool:
    """Is it, by its form, a multiple of the size of a row?"""
    factors = term.src if term.op is mul else (term,)
    return any(is_constant(f) and int(constant_value(f)) % row == 0 for f in factors)


def _stores_in_order(
    stores: Sequence[ir.Store],
    loads: Mapping[ir.Store, Collection[Node | None]],
    taken: Mapping[ir.Store, Node],
) -> tuple[ir.Store, ...]:
    """Each after all that read what it overwrites; none if some wait for each other."""
    left, order = list(stores), list[ir.Store]()

    def waits(store: ir.Store) -> bool:
        return any(taken.get(store) in loads[s] for s in left if s is not store)

    while left:
        store = next((s for s in left if not waits(s)), None)
        if store is None:
            return ()
        left.remove(store)
        order.append(store)
    return tuple(order)


def _loads_of(step: BuiltKernel, roots: Sequence[Node]) -> dict[Node, list[Node]]:
    """What expressions of a kernel read of each value."""
    found: dict[Node, list[Node]] = {}
    for node in toposort(roots):
        if node.op is ir.load_p and node.src[0].op is ir.param_p:
            number: int = node.src[0].arg
            if number in step.loads:
                found.setdefault(step.loads[number], []).append(node)
    return found


#: How many of the kernels that are ready are looked at. The gradients of 12 layers of
#: 512², batch 4096, take 109 MB in this order; in that of the operands alone 193.
_CANDIDATES = 16


def ordered_steps(
    plan: FusionPlan, sharing: Sharing, built: Mapping[int, Built]
) -> list[Built]:
    """The steps in order.

    What overwrites a value runs after all who read it.

    Args:
      plan: the kernels, and who waits for whom.
      sharing: what takes the memory of what.
      built: what each kernel reads and writes.

    Raises:
      GraphError: some kernels wait for each other.
    """
    waiting = {d.number: 0 for d in plan.drafts}
    feeds = {d.number: set(d.feeds) for d in plan.drafts}
    for after, earlier in sharing.before.items():
        for number in earlier:
            feeds[number].add(after)
    for readers in feeds.values():
        for reader in readers:
            waiting[reader] += 1
    memory, flight = _Memory(plan, sharing, built), Flight(built, feeds)
    # Later drafts are nearer to the inputs; among those that are ready they go first.
    first = [d.number for d in plan.drafts if waiting[d.number] == 0]
    ready = [number for number in first if not flight.takes(number)]

    def finish(number: int) -> None:
        memory.run(number)
        left.discard(number)
        for reader in sorted(feeds[number]):
            waiting[reader] -= 1
            if waiting[reader] == 0 and not flight.takes(reader):
                ready.append(reader)

    left = {d.number for d in plan.drafts}
    while ready or flight:
        for number in flight.advance(idle=not ready):
            finish(number)
        if ready:
            number = ready.pop(memory.choose(ready))
            if number not in sharing.dropped:
                flight.run(number, sharing.kernels.get(number, built[number]))
            finish(number)
    if left:
        stuck = [d.roots for d in plan.drafts if d.number in left]
        raise GraphError(f"these kernels wait for each other: {stuck}")
    return flight.finish()


class _Memory:
    """The values in the arena while kernels run.

    Attributes:
      reads, writes: of each kernel the values in the arena, by the owner of the memory.
      readers: for each value how many kernels have yet to read it.
    """

    def __init__(
        self, plan: FusionPlan, sharing: Sharing, built: Mapping[int, Built]
    ) -> None:
        self.reads: dict[int, set[Node]] = {}
        self.writes: dict[int, set[Node]] = {}
        self.readers: dict[Node, int] = {}
        self.alive: set[Node] = set()
        kept = {sharing.root(n) for n in plan.outputs}
        for number, step in built.items():
            for values, found in ((step.reads, self.reads), (step.writes, self.writes)):
                roots = {sharing.root(n) for n in values if n.op is not variable_p}
                found[number] = {n for n in roots - kept if n.op is not variable_p}
            for node in self.reads[number]:
                self.readers[node] = self.readers.get(node, 0) + 1

    def choose(self, ready: list[int]) -> int:
        """The position of the kernel that runs next."""
        last = len(ready) - 1
        if last == 0 or not self.reads:
            return last
        best, most = last, 0
        for position in range(last, max(last - _CANDIDATES, -1), -1):
            freed = self._freed_bytes(ready[position])
            if freed > most:
                best, most = position, freed
        return best

    def _freed_bytes(self, number: int) -> int:
        """Bytes that are free after a kernel and were not before it."""
        reads, writes = self.reads[number], self.writes[number]
        freed = sum(nbytes(n) for n in reads - writes if self.readers[n] == 1)
        return freed - sum(nbytes(n) for n in writes - self.alive)

    def run(self, number: int) -> None:
        for node in self.reads.get(number, ()):
            self.readers[node] -= 1
        self.alive |= self.writes.get(number, set())


# Slots, and the steps.


@dataclass(eq=False)
class _Temporary:
    """Memory that a program needs for a time: of a value, or for a step.

    Attributes:
      aval: what it holds.
      first, last: the steps between which it is in use.
    """

    aval: ShapedArray
    value: str
    first: int
    last: int


def assemble(
    graph: Graph, built: Sequence[BuiltKernel | BuiltStep], sharing: Sharing
) -> prog.Program:
    """Slots for all values, and the steps that fill them."""
    owner = sharing.root
    work = [b for b in built if isinstance(b, BuiltKernel) or not _is_barrier(b)]
    temporaries = _temporaries(work, owner)
    slots: list[prog.Slot] = []
    number_of: dict[Hashable, int] = {}

    def add_slot(
        key: Hashable, aval: ShapedArray, name: str, place: str, at: int
    ) -> None:
        number_of[key] = len(slots)
        stacks = prod(aval.lanes) if isinstance(aval, Stack) else 0
        element = aval.element if isinstance(aval, Stack) else aval
        slots.append(prog.Slot(element.dtype, element.shape, place, at, name, stacks))

    for i, node in enumerate(graph.inputs):
        add_slot(node, node.aval, node.op.name, "input", i)
    roots = [owner(root_of(n)) for n in graph.outputs]
    for i, node in enumerate(roots):
        if node not in number_of:
            add_slot(node, node.aval, node.op.name, "output", i)
    rest = {k: t for k, t in temporaries.items() if k not in number_of}
    lifetimes = tuple(_lifetime(t, len(work)) for t in rest.values())
    if any_dynamic(life.nbytes for life in lifetimes):
        plan = prog.MemoryPlan((0,) * len(rest), 0)  # `Program.at` makes one
    else:
        plan = prog.plan_memory(lifetimes)
    for (key, temporary), offset in zip(rest.items(), plan.offsets, strict=True):
        assert not (isinstance(key, Node) and is_variable(key))
        add_slot(key, temporary.aval, temporary.value, "arena", offset)
    for node in sharing.owner:
        if owner(node) in number_of:
            number_of[node] = number_of[owner(node)]
    for node in {n for step in work for n in step.buffers if root_of(n) is not n}:
        number_of[node] = number_of[owner(node)]  # a value that a barrier gives on
    steps = tuple(
        _step(b, i, number_of) for i, b in enumerate(work) if _writes_something(b)
    )
    inputs = tuple(number_of[n] for n in graph.inputs)
    outputs = tuple(number_of[n] for n in roots)
    return prog.Program(tuple(slots), steps, inputs, outputs, plan.size, lifetimes)


def _temporaries(
    work: Sequence[BuiltKernel | BuiltStep], owner: Callable[[Node], Node]
) -> dict[Hashable, _Temporary]:
    """All that has a slot, by node, or by a name of its own for a step's scratch."""
    temporaries: dict[Hashable, _Temporary] = {}
    for number, step in enumerate(work):
        used = [(owner(n), n.aval, n.op.name) for n in step.buffers]
        if isinstance(step, BuiltStep):
            scratch = _scratch(step)
            used = [*(((number, k), a, "scratch") for k, a in scratch), *used]
        for key, aval, name in used:
            known = temporaries.setdefault(key, _Temporary(aval, name, number, number))
            known.last = number
    return temporaries


def _is_barrier(step: BuiltStep) -> bool:
    """Its results are its operands: there is nothing to run."""
    return step.node.op.family == "barrier"


def _lifetime(temporary: _Temporary, steps: int) -> prog.Lifetime:
    aval = temporary.aval
    if isinstance(aval, Stack):  # its header is looked at when the program ends
        return prog.Lifetime(prog.STACK_HEADER * prod(aval.lanes), 0, steps)
    nbytes = aval.size * aval.dtype.itemsize
    return prog.Lifetime(nbytes, temporary.first, temporary.last)


def _scratch(step: BuiltStep) -> list[tuple[Any, ShapedArray]]:
    """What a step needs beside its operands and results: (key, type)."""
    if not step.programs:
        return []
    arena = max(body.arena for body in step.programs)
    arg = step.node.arg
    if not isinstance(arg, Loop):
        return [("arena", _bytes(arena))]
    rounded = -(-arena // prog.ALIGNMENT) * prog.ALIGNMENT
    return [
        ("arena", _bytes(rounded * _lanes(arg))),
        *(
            (("spare", k), n.aval)
            for k, n in enumerate(arg.body.outputs[: arg.carry])
            if not step.updates_in_place(k)
        ),
    ]


def _bytes(count: int) -> ShapedArray:
    return ShapedArray.of((count,), dtypes.uint8)


def _lanes(arg: Loop) -> int:
    """How many iterations may run at the same time."""
    if arg.carry or arg.length is None or arg.predicate or runs_on_host(arg.body):
        return 1
    if is_dynamic(arg.length):
        return arg.lanes  # at most: `Program.at` knows the length
    return max(1, min(arg.length, arg.lanes))


def _writes_something(built: BuiltKernel | BuiltStep) -> bool:
    """Is there an element to compute? An operand of the host may have none."""
    if not isinstance(built, BuiltKernel) or not built.stores:
        return True
    return any(node.size for node in built.stores.values())


def _step(
    built: BuiltKernel | BuiltStep, number: int, number_of: dict[Hashable, int]
) -> prog.Step:
    if isinstance(built, BuiltKernel):
        slots = tuple(number_of[n] for n in built.buffers)
        return prog.RunKernel(built.kernel, slots, built.info)
    node = built.node
    operands = tuple(number_of[n] for n in built.reads)
    results = tuple(number_of[n] for n in built.writes)
    if isinstance(built, BuiltExchange):
        parts = built.phase, built.meanwhile
        return prog.RunExchange(built.nodes, operands, results, *parts)
    if not built.programs:
        return prog.CallHost(node, operands, results)
    scratch = number_of[number, "arena"]
    if not isinstance(node.arg, Loop):
        return prog.RunBranch(
            operands[0], built.programs, operands[1:], results, scratch
        )
    arg = node.arg
    given = operands[arg.predicate :]
    first = arg.consts + arg.carry
    carry = tuple(
        prog.Carry(initial, results[k], number_of.get((number, ("spare", k)), -1))
        for k, initial in enumerate(given[arg.consts : first])
    )
    return prog.RunLoop(
        built.programs[0],
        given[: arg.consts],
        carry,
        given[first:],
        results[arg.carry :],
        arg.length,
        arg.reverse,
        operands[0] if arg.predicate else -1,
        scratch,
        _lanes(arg),
    )
