"""Parts of a program, each a program by itself, and the smallest one that differs.

A part is some operations of a graph; its inputs are what NumPy computed before it, so
that no rounding adds up on the way. Of a program that differs one half does, or what
spans both; so it goes on, and each step compiles half as much as the one before. What
depends on constants alone is never an input: rules look at it. A kernel of a program is
such a part too: it is run on a device and in NumPy, on the same numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.backends.base import Device, Executable, get_device
from ftrace.backends.interpreter import Evaluation, InterpreterDriver, KernelPlan
from ftrace.errors import FtraceError
from ftrace.ground.fork_safe import cached_property
from ftrace.lower.kernel import ir
from ftrace.lower.program import Program, RunKernel, Slot
from ftrace.testing.close import Limits, compare, eps_of, ulps_between
from ftrace.trace.arrays.array import Array
from ftrace.trace.avals import ShapedArray
from ftrace.trace.control.conditional import Branches, While
from ftrace.trace.control.scan import Scan
from ftrace.trace.evaluate import NumpyPlan, nbytes_of, observe
from ftrace.trace.graph import Body, Graph, Node, substitute, toposort
from ftrace.trace.primitives.primitive import item_p
from ftrace.trace.primitives.sources import is_variable, variable
from ftrace.transforms.jit.compiled_graph import CompiledGraph

Values = Any  # an array of NumPy's, whose stubs leave too much unknown

#: Computes what was expected once more, with other last bits.
Again = Callable[[np.random.Generator], Sequence[Values]]
#: How often that is done, and how many times as far apart results may be as these.
_SAMPLES, _ROUNDING = 4, 8
#: Bytes of all values of a program up to which they are kept, and not computed again.
_CACHED = 1 << 28
#: Where so much of the elements' number is so far apart, of the largest, all is.
_LOST, _LOST_PART = 1 / 64, 1 / 4
#: In how many parts a program is looked at that rounding takes far apart, these in
#: turn, and how many at the most.
_SPLIT, _TRIED = 16, 600
#: A value of more bytes, and so many times those of inputs and results, is a product
#: that is added up at once.
_LARGEST, _TIMES = 1 << 22, 8
#: How many outputs that differ are tried alone, and how many iterations looked into.
_OUTPUTS, _ITERATIONS = 3, 1000
#: Operations that are left of the part that differs, up to which each is tried alone.
_FEW_OPERATIONS = 256


@dataclass(frozen=True, eq=False)
class Subprogram:
    """Some operations of a program, as a program by itself.

    Attributes:
      graph: its inputs are what it reads of the rest.
      arrays: their values.
      inside: the operations, and `wanted` those among them that are its outputs.
    """

    graph: Graph
    arrays: Sequence[Values]
    inside: Sequence[Node]
    wanted: Sequence[Node]

    @property
    def expected(self) -> list[Values]:
        """Its outputs as NumPy computes them."""
        return self._plan(self.arrays)

    def again(self, random: np.random.Generator) -> list[Values]:
        """The same, where last bits of inputs and of each step are others."""

        def jitter(node: Node, operands: Any, value: Any) -> Values | None:
            return None if type(value) is tuple else add_jitter(value, random)

        with observe(jitter):
            return self._plan([add_jitter(x, random) for x in self.arrays])

    @cached_property
    def _plan(self) -> NumpyPlan:
        return NumpyPlan(self.graph.outputs, self.graph.inputs)


@dataclass(eq=False)
class Search:
    """The search in one graph.

    Attributes:
      graph, arrays: what is computed, of what.
      device, limits: where, and how far apart elements may be.
      largest: units in the last place seen so far.
      left: parts that were not looked at, where rounding takes a program too far.
    """

    graph: Graph
    arrays: Sequence[Values]
    device: Device
    limits: Limits
    largest: int = 0
    left: int = 0
    fixed: set[Node] = field(default_factory=set[Node])
    known: dict[Node, Values] = field(default_factory=dict[Node, Any])

    def __post_init__(self) -> None:
        self.order: list[Node] = []
        results = set(self.graph.outputs)
        for node in toposort(self.graph.outputs):
            if is_variable(node):
                continue
            if all(s in self.fixed for s in node.src) and node not in results:
                self.fixed.add(node)  # of constants alone: rules look at these
            else:
                self.order.append(node)
        position = {node: i for i, node in enumerate(self.order)}
        self.last_use = dict.fromkeys(self.order, -1)
        for i, node in enumerate(self.order):
            for s in node.src:
                if s in position:
                    self.last_use[s] = i
        self.last_use.update(
            {n: len(self.order) for n in self.graph.outputs if n in position}
        )
        self.known.update(zip(self.graph.inputs, self.arrays, strict=True))
        ends = [*self.graph.inputs, *self.graph.outputs]
        self.most = max([nbytes_of(n.aval) for n in ends if n.shape], default=0)
        self.most = max(_LARGEST, _TIMES * self.most)

    # What differs.

    def find_different(
        self, results: Sequence[Values], expected: Sequence[Values]
    ) -> list[tuple[int, str]]:
        """The results that are too far apart, by their numbers, and how far."""
        found: list[tuple[int, str]] = []
        for i, (x, y) in enumerate(zip(results, expected, strict=True)):
            self.largest = max(self.largest, *ulps_of(x, y).ravel().tolist(), 0)
            if said := compare(x, y, self.limits):
                found.append((i, said))
        return found

    def wrong(
        self, results: Sequence[Values], expected: Sequence[Values], again: Again
    ) -> list[tuple[int, str]]:
        """The same of those that are farther apart than rounding takes them.

        Args:
          again: computes what was expected once more, with other last bits.
        """
        if not (found := self.find_different(results, expected)):
            return found
        samples = [again(np.random.default_rng(seed)) for seed in range(_SAMPLES)]
        kept = [
            _explain(x, y, [sample[i] for sample in samples])
            for i, (x, y) in enumerate(zip(results, expected, strict=True))
        ]
        return self.find_different(kept, expected)

    def differing(self, part: Subprogram) -> list[int]:
        """The numbers of the outputs of a part that are wrong."""
        return [i for i, _ in self.wrong(self._run(part), part.expected, part.again)]

    def _run(self, part: Subprogram) -> list[Values]:
        try:
            return results_of(CompiledGraph(part.graph, self.device), part.arrays)
        except FtraceError:
            return part.expected  # it shows something else

    # Parts.

    def _is_value(self, node: Node) -> bool:
        """May a part have it as an input, and as an output?

        No stack or token; nor the product that a sum adds up, which nobody stores.
        """
        plain = type(node.aval) is ShapedArray and node.dtype != dtypes.float0
        return plain and 0 < nbytes_of(node.aval) <= self.most

    def subprogram(
        self, inside: Collection[Node], wanted: Collection[Node]
    ) -> Subprogram:
        """These operations as a program, and of what is wanted what it can give."""
        taken = {n for n in inside if n.op is not item_p or n.src[0] in inside}
        taken |= {n for n in inside if n.op is item_p and not self._is_value(n)}
        pending = list(taken)
        for node in pending:  # which grows: stacks and tokens are no inputs
            for s in node.src:
                if s in self.last_use and s not in taken and not self._is_value(s):
                    taken.add(s)
                    pending.append(s)
        ordered = [n for n in self.order if n in taken]
        reads = [s for n in ordered for s in n.src]
        known = taken | self.fixed
        inputs = dict.fromkeys(s for s in reads if s not in known)
        values = self._values(list(inputs))
        mapping = {n: variable(n.aval, 0, i) for i, n in enumerate(inputs)}
        ends = [n for n in ordered if n in wanted and self._is_value(n)]
        outputs = tuple(substitute(ends, mapping))
        graph = Graph(tuple(mapping.values()), outputs)
        return Subprogram(graph, values, ordered, ends)

    def _values(self, nodes: Sequence[Node]) -> list[Values]:
        """What NumPy computes for some nodes of the graph."""
        missing = [n for n in nodes if n not in self.known]
        if missing:
            plain = [n for n in self.order if self._is_value(n)]
            few = sum(nbytes_of(n.aval) for n in plain) <= _CACHED
            missing = plain if few else missing
            found = NumpyPlan(missing, self.graph.inputs)(self.arrays)
            self.known.update(zip(missing, found, strict=True))
        return [self.known[n] for n in nodes]

    def window(self, first: int, last: int) -> Subprogram:
        """The operations from number `first` to `last` - 1, and what others read."""
        inside = set(self.order[first:last])
        wanted = {n for n in inside if self.last_use[n] >= last}
        return self.subprogram(inside, wanted)

    def smallest(self) -> tuple[Subprogram, Search, str] | None:
        """A part that is wrong and has no smaller one, where it stands, and in what.

        None where nothing is wrong but by rounding.
        """
        window = self._halve()
        if window is None:
            return None
        part = self.window(*window)
        part = self._of_one_output(part)
        part = self._without_others(part)
        return self._look_into(part)

    def _halve(self) -> tuple[int, int] | None:
        """From which operation to which one something is wrong; None for nowhere.

        Of a whole that is as far apart as rounding takes it, each part is looked at.
        """
        pending = [(0, len(self.order))]
        for _ in range(_TRIED):
            if not pending:
                return None
            first, last = pending.pop(0)
            part = self.window(first, last)
            results, expected = self._run(part), part.expected
            if self.wrong(results, expected, part.again):
                return self._shorten(first, last)
            if last - first > 1 and self.find_different(results, expected):
                step = -(-(last - first) // _SPLIT)
                starts = range(first, last, step)
                pending += [(n, min(n + step, last)) for n in starts]
        self.left = len(pending)
        return None

    def _shorten(self, first: int, last: int) -> tuple[int, int]:
        def differs(first: int, last: int) -> bool:
            return bool(self.differing(self.window(first, last)))

        while last - first > 1:
            middle = (first + last) // 2
            if differs(first, middle):
                last = middle
            elif differs(middle, last):
                first = middle
            else:
                break
        if last - first > 1:  # what differs stands on both sides
            middle = (first + last) // 2
            last = edge(middle, last, partial(differs, first))
            first = edge(middle, first, lambda start: differs(start, last))
        return first, last

    def _of_one_output(self, part: Subprogram) -> Subprogram:
        """A part with one of the outputs that differ, and what it needs."""
        inside = set(part.inside)
        for i in self.differing(part)[:_OUTPUTS]:
            end = part.wanted[i]
            needed = [n for n in toposort((end,)) if n in inside]
            smaller = self.subprogram(needed, (end,))
            if self.differing(smaller):
                return smaller
        return part

    def _without_others(self, part: Subprogram) -> Subprogram:
        """A part in which nothing is left out, with values in its place."""
        if len(part.inside) > _FEW_OPERATIONS:
            return part
        size = len(part.inside) // 2
        while size:
            inside, start = part.inside, 0
            while start < len(inside):
                rest = [*inside[:start], *inside[start + size :]]
                ends = [n for n in part.wanted if n in rest]
                smaller = self.subprogram(_find_needed(ends, rest), ends)
                fewer = ends and len(smaller.inside) < len(part.inside)
                if fewer and self.differing(smaller):
                    part, inside = smaller, smaller.inside
                else:
                    start += size
            size //= 2
        return part

    def _look_into(self, part: Subprogram) -> tuple[Subprogram, Search, str]:
        """In a loop or a branch: the first iteration that differs by itself."""
        node, *rest = part.inside
        if any(n.op is not item_p for n in rest):
            return part, self, ""
        steps = islice(_iterations(node, self._operands(node)), _ITERATIONS)
        for number, (body, operands) in enumerate(steps):
            inner = Graph(body.inputs, body.outputs)
            search = Search(inner, operands, self.device, self.limits, self.largest)
            whole = Subprogram(inner, operands, search.order, body.outputs)
            found = search.smallest() if search.differing(whole) else None
            if found is not None:
                part, where, deeper = found
                return part, where, f"{deeper}, in {node.op.name} at step {number}"
        return part, self, ""

    def _operands(self, node: Node) -> list[Values]:
        """What NumPy computes for the operands of a node."""
        constant = [n for n in node.src if n in self.fixed]
        found = dict(zip(constant, NumpyPlan(constant, ())(()), strict=True))
        others = [n for n in node.src if n not in found and self._is_value(n)]
        found.update(zip(others, self._values(others), strict=True))
        return [found.get(n) for n in node.src]


def _find_needed(ends: Sequence[Node], inside: Collection[Node]) -> list[Node]:
    """The nodes inside on which the ends depend by nodes inside."""
    kept = set(inside)
    outside = {s for n in inside for s in n.src if s not in kept}
    return [n for n in toposort(ends, outside) if n in kept]


def results_of(compiled: CompiledGraph, arrays: Sequence[Values]) -> list[Values]:
    return [x.numpy() for x in compiled([Array.of(np.asarray(x)) for x in arrays])]


def edge(good: int, bad: int, differs: Callable[[int], bool]) -> int:
    """The number next to `good` for which it differs, as it does for `bad`."""
    while abs(bad - good) > 1:
        middle = (good + bad) // 2
        good, bad = (good, middle) if differs(middle) else (middle, bad)
    return bad


def add_jitter(x: Values, random: np.random.Generator) -> Values:
    """An array whose numbers are greater or less by a last bit, if they have any."""
    if not dtypes.is_inexact(x.dtype):
        return x
    with np.errstate(all="ignore"):
        bits = eps_of(x.dtype) * random.choice((-1.0, 1.0), x.shape)
        return np.asarray(x + x * bits.astype(x.dtype)).astype(x.dtype)


def _explain(x: Values, y: Values, samples: Sequence[Values]) -> Values:
    """`x`, and `y` where they are apart as samples are apart from `y`."""
    wide = np.complex128 if dtypes.is_complex(x.dtype) else np.float64
    with np.errstate(all="ignore"):
        a, b = x.astype(wide), y.astype(wide)
        spread: Values = np.max([np.abs(z.astype(wide) - b) for z in samples], 0)
        near = (np.abs(a - b) <= _ROUNDING * spread) | ~np.isfinite(spread)
        largest = np.abs(b).max(initial=0.0, where=np.isfinite(b))
        if (spread > _LOST * largest).mean() > _LOST_PART:
            return y  # nothing can be said of what has no digit left
        where: Any = np.where
        return where(near & np.isfinite(b), y, x)


def ulps_of(x: Values, y: Values) -> Values:
    """Units in the last place between elements that are numbers in both."""
    if x.shape != y.shape or x.dtype != y.dtype or not dtypes.is_inexact(x.dtype):
        return np.zeros(0, np.uint64)
    numbers = np.isfinite(x) & np.isfinite(y)
    return ulps_between(x[numbers], y[numbers])


def _iterations(
    node: Node, operands: Sequence[Values]
) -> Generator[tuple[Body, list[Values]]]:
    """The bodies that a loop or a branch runs, with what they are given."""
    arg = node.arg
    if isinstance(arg, Branches):
        index, *rest = operands
        chosen = min(max(int(index), 0), len(arg.bodies) - 1)
        yield arg.bodies[chosen], rest
    elif isinstance(arg, While):
        consts, carry = list(operands[: arg.consts]), list(operands[arg.consts :])
        while True:
            yield arg.cond, [*consts, *carry]
            if not _run(arg.cond, [*consts, *carry])[0]:
                break
            yield arg.body, [*consts, *carry]
            carry = _run(arg.body, [*consts, *carry])[: len(carry)]
    elif isinstance(arg, Scan) and arg.length is not None:
        first = arg.consts + arg.carry
        carry = list(operands[arg.consts : first])
        for t in range(arg.length)[:: -1 if arg.reverse else 1]:
            given = [*operands[: arg.consts], *carry, *[x[t] for x in operands[first:]]]
            yield arg.body, given
            carry = _run(arg.body, given)[: arg.carry]


def _run(body: Body, operands: Sequence[Values]) -> list[Values]:
    return NumpyPlan(body.outputs, body.inputs)(operands)


Wrong = Callable[[Sequence[Values], Sequence[Values], Again], Any]

#: How often a kernel of a loop is compared.
_VISITS = 3


class _Differs(Exception):
    """A kernel that differs: nothing runs after it."""


def first_wrong_kernel(
    program: Program,
    arrays: Sequence[Values],
    device: Device,
    wrong: Wrong,
) -> str:
    """The name of the first kernel that computes something else on a device.

    Args:
      arrays: the inputs of the program.
      wrong: of the device's results, NumPy's, and what computes these once more
        with other last bits: do they differ?

    Returns:
      Its name; "" where there is none, or where a program cannot run so.
    """
    if any(slot.stacks for slot in program.slots) or program.is_dynamic:
        return ""
    inputs = [_bytes(np.array(x, order="C")) for x in arrays]
    outputs = [np.zeros(program.slots[n].nbytes, np.uint8) for n in program.outputs]
    try:
        _Walk(program, device, wrong).run(program, inputs, outputs)
    except _Differs as found:
        return str(found)
    return ""


class _Walk(InterpreterDriver):
    """Runs a program in NumPy, and each of its kernels on a device as well."""

    def __init__(self, program: Program, device: Device, wrong: Wrong) -> None:
        plain = [s for s in program.kernels if type(s.kernel) is ir.Kernel]
        host: Any = get_device("interpreter")
        super().__init__(host, {s: KernelPlan(s.kernel) for s in plain}, {})
        self.target = device
        self.wrong = wrong
        self.visits = Counter[RunKernel]()
        self.compiled: dict[RunKernel, Executable] = {}

    def run_kernel(self, step: RunKernel, memories: list[Any]) -> None:
        if step not in self.plans:  # a library's, whose meaning is its operation's
            for slot, copy in self._on_device(step, memories).items():
                memories[slot][...] = copy
            return
        self.visits[step] += 1
        if self.visits[step] > _VISITS:
            return super().run_kernel(step, memories)
        before = {n: memories[n].copy() for n in step.slots}
        copies = self._on_device(step, memories)
        super().run_kernel(step, memories)

        def results_in(found: Any) -> list[Values]:
            pairs = zip(step.slots, step.buffers, strict=True)
            return [_numbers(found[n], spec) for n, spec in pairs if spec.written]

        def again(random: np.random.Generator) -> list[Values]:
            given = dict(before)
            for n, spec in zip(step.slots, step.buffers, strict=True):
                numbers = _numbers(before[n], spec)
                other = numbers.copy() if spec.written else add_jitter(numbers, random)
                given[n] = _bytes(other)
            buffers = [given[n] for n in step.slots]
            _Jittered(self.plans[step], buffers, random).run()
            return results_in(given)

        if self.wrong(results_in(copies), results_in(memories), again):
            raise _Differs(step.info.name)
        return None

    def _on_device(self, step: RunKernel, memories: list[Any]) -> dict[int, Values]:
        """What the slots that a kernel writes hold after it has run on the device."""
        device, slots = self.target, list(dict.fromkeys(step.slots))
        if step not in self.compiled:
            self.compiled[step] = device.compile(_isolate(step, slots, memories))
        pairs = zip(step.slots, step.buffers, strict=True)
        written = {s for s, spec in pairs if spec.written}
        given = [device.copy_in(_copy_aligned(memories[s])) for s in slots]
        found = self.compiled[step](given)
        return {
            s: device.copy_out(x, np.dtype(np.uint8), memories[s].size)
            for s, x in zip([s for s in slots if s in written], found, strict=True)
        }


class _Jittered(Evaluation):
    """One run of a kernel in which the last bits of each value are others."""

    def __init__(
        self, plan: KernelPlan, memories: Sequence[Values], random: np.random.Generator
    ) -> None:
        super().__init__(plan, memories, {})
        self.random = random

    def _evaluate(self, node: Node) -> Values:
        value = super()._evaluate(node)
        return add_jitter(value, self.random) if node.src else value


def _isolate(step: RunKernel, slots: Sequence[int], memories: list[Any]) -> Program:
    """A program of one kernel, which writes its inputs."""
    place = {s: i for i, s in enumerate(slots)}
    kind = np.dtype(np.uint8)
    given = [Slot(kind, (memories[s].size,), "input", i) for s, i in place.items()]
    run = RunKernel(step.kernel, tuple([place[s] for s in step.slots]), step.info)
    pairs = zip(step.slots, step.buffers, strict=True)
    written = {place[s] for s, spec in pairs if spec.written}
    return Program(
        tuple(given), (run,), tuple(range(len(given))), tuple(sorted(written)), 0
    )  # fmt: skip


def _numbers(memory: Values, spec: ir.BufferSpec) -> Values:
    """The numbers of a kernel's buffer."""
    return memory[: spec.size * spec.dtype.itemsize].view(spec.dtype)


def _bytes(array: Values) -> Values:
    return array.reshape(-1).view(np.uint8)


def _copy_aligned(memory: Values) -> Values:
    """A copy of some bytes where a device may write."""
    room = np.empty(memory.size + 128, np.uint8)
    start = -room.ctypes.data % 128
    found = room[start : start + memory.size]
    found[...] = memory
    return found
