"""A kernel as LLVM IR for a processor: legal operations, then the writer for its kind.

    kernel -> build_loops() -> Schedule -> ScheduleEmitter -> text

The rows of `RENDERINGS` are the ways to render such a kernel, and give its parts, each
with a schedule. Of sums of products the schedules come from the strategies: the rows of
`PRODUCTS`, from `contraction/strategies.py` and `convolution/`. Kernels of other kinds
have writers of their own: `_WRITERS`.

The text is a module whose function `void name(ptr buffers, i64 begin, i64 end)` runs a
part of the kernel's parallel domain; a kernel in several parts has one more function
for each. What it computes does not depend on how the domain is split.

It needs all renderers, so that it is loaded with the first kernel that is not on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from math import prod
from typing import Any

from ftrace.backends.llvm.contraction import strategies
from ftrace.backends.llvm.contraction.find import Contraction, find_contraction
from ftrace.backends.llvm.convolution import strategies as convolutions
from ftrace.backends.llvm.convolution.find import find_depthwise
from ftrace.backends.llvm.convolution.split_strides import phases
from ftrace.backends.llvm.emit import module as emit
from ftrace.backends.llvm.emit.called_functions import called_in
from ftrace.backends.llvm.emit.emit_memory import Values
from ftrace.backends.llvm.emit.schedule_emitter import ScheduleEmitter
from ftrace.backends.llvm.emit.staged_kernel import StagedKernel
from ftrace.backends.llvm.ir.writer import Writer
from ftrace.backends.llvm.library.fft.kernel import render_transform
from ftrace.backends.llvm.library.lapack.render import render_factor
from ftrace.backends.llvm.library.sort.kernel import render_ordering
from ftrace.backends.llvm.register_loops import RegisterLoop
from ftrace.backends.llvm.runtime.work_estimate import LASTING, WORTH_A_THREAD
from ftrace.backends.llvm.scalar.ops import operations_of
from ftrace.backends.llvm.scan_loops import find_nontemporal, scan_loop_of
from ftrace.backends.llvm.schedule import known_positions
from ftrace.backends.llvm.schedule.cache_row_values import keep_values
from ftrace.backends.llvm.schedule.choose_tiling import (
    brief_reduces,
    least_cost,
    schedule_loops,
)
from ftrace.backends.llvm.schedule.index_facts import Facts, facts_of
from ftrace.backends.llvm.schedule.loop_tiling import in_registers, size_of
from ftrace.backends.llvm.schedule.nontemporal_stores import nontemporal_buffers
from ftrace.backends.llvm.schedule.schedule_tree import Loops, Schedule, StoreResults
from ftrace.backends.llvm.schedule.transposed_access import schedule_squares
from ftrace.backends.llvm.schedule.vector_cost import VectorCosts
from ftrace.backends.llvm.target import Target
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.ground.fork_safe import cached_property
from ftrace.lower.kernel.ir import BufferSpec, Kernel
from ftrace.lower.kernel.loop_tree import Statement, build_loops, reduce_loop
from ftrace.lower.legalize.legalize import legalize
from ftrace.lower.library.fft_kernels import Transform
from ftrace.lower.library.lapack_kernels import Factor
from ftrace.lower.library.sort_kernels import Ordering
from ftrace.lower.register_loops import register_loop as rl
from ftrace.trace.symbolic import sample

#: How many times as many operations are done at the same time in a tile of registers.
_DENSE = 16
#: How much shorter a loop of unknown length may be than it is taken to be. With 25
#: threads share a while loop of 100 lanes; with 400 one of 64 complex lanes is not
#: shared.
_SHORTER = 100


class Case:
    """A kernel that code is wanted for, and what several ways to render it ask."""

    def __init__(
        self, kernel: Kernel, target: Target, block: Sequence[Statement] = (),
        facts: Facts | None = None,
    ) -> None:  # fmt: skip
        self.kernel, self.target = kernel, target
        self.block, self.facts = block or build_loops(kernel), facts or facts_of(kernel)

    @cached_property
    def costs(self) -> VectorCosts:
        """Of its loops in vectors."""
        return VectorCosts(self.kernel, self.facts, self.target)

    @cached_property
    def operations(self) -> Any:
        """Of a sum of products."""
        loop = reduce_loop(self.kernel, self.block)
        ranges = () if loop is None else loop.ranges
        return 2 * prod(size_of(r) for r in (*self.kernel.axes, *ranges))


#: Reads a kernel as a sum of products of some kind, if it is one.
Find = Callable[[Kernel, Sequence[Statement], Facts], Contraction | None]

#: Gives schedules of a kernel, if it is for it: first the one that its model prefers.
Strategy = Callable[[Kernel, Contraction, Facts, Target], Iterator[Schedule]]

#: How sums of products are computed: what decides it, as what the kernel is read, and
#: the strategy. The first answer is taken; `tune` looks at the others, too.
PRODUCTS: tuple[tuple[str, Find, Strategy], ...] = (
    ("direct_convolution_nchw", find_contraction, convolutions.schedule_nchw),
    ("direct_filter_gradient", find_contraction, convolutions.schedule_filter_gradient),
    ("direct_filter_gradient", find_depthwise, convolutions.schedule_filter_gradient),
    ("direct_convolution_nhwc", find_contraction, convolutions.schedule_nhwc),
    ("direct_convolution_nhwc", find_depthwise, convolutions.schedule_nhwc),
    ("few_columns", find_contraction, strategies.schedule_dots),
    ("block_for_cache", find_contraction, strategies.schedule_blocks),
)


def schedule_product(case: Case) -> Iterator[Schedule]:
    """The schedules of a kernel that is a sum of products."""
    kernel, facts, target = case.kernel, case.facts, case.target

    @cache
    def read(find: Find) -> Contraction | None:
        return find(kernel, case.block, facts)

    for decision, find, strategy in PRODUCTS:
        plan = read(find) if target.decides(decision) else None
        if plan is not None:
            yield from strategy(kernel, plan, facts, target)


# The ways to render a kernel: each as the code of its parts, mostly one. The first is
# taken without further ado; what comes later is made only if it is asked for.


@dataclass(frozen=True, eq=False)
class Part:
    """The code of a part of a kernel.

    Attributes:
      schedule: how it runs.
      known: facts, processor and buffers of the kernel.
      emit: writes the function, given what emits expressions; returns how many units
        it has.
      operations: of the whole kernel.
      dense: as many operations are done in the time of one, about.
      worth: as much time pays for waking another thread as so many operations take.
    """

    schedule: Schedule
    known: tuple[Facts, Target, Sequence[BufferSpec]]
    emit: Callable[[Values], Any]
    operations: Any
    dense: int = 1
    worth: int = WORTH_A_THREAD

    def write(self, nontemporal: frozenset[int]) -> emit.Written:
        """The function; it is written again, with polls, where a unit takes long."""
        found = self._write(Writer(), nontemporal)
        each = sample(self.operations) // max(sample(found.units), 1)
        if each > LASTING:
            return self._write(emit.writer_for(each), nontemporal)
        return found

    def _write(self, writer: Writer, nontemporal: frozenset[int]) -> emit.Written:
        values = Values(writer, *self.known, nontemporal, self.schedule.registers)
        return emit.Written(writer, self.emit(values), tuple(values.dims))


def _part(
    case: Case, schedule: Schedule, operations: Any, nontemporal: frozenset[int],
    private: int = 0, **known: Any,
) -> Part:  # fmt: skip
    """The code of a schedule.

    Args:
      private: how many buffers, the last ones, are values of rows.
    """
    facts, target, buffers = case.facts, case.target, case.kernel.buffers

    def emit(values: Values) -> Any:
        for number in range(len(buffers) - private, len(buffers)):
            _add_row_memory(values, number, buffers[number], schedule)
        staged = StagedKernel(schedule.kernel, target, facts, values)
        return ScheduleEmitter(schedule, staged).emit()

    held = in_registers(case.kernel, facts, target)
    found = replace(schedule, registers=held, nontemporal=nontemporal)
    return Part(found, (facts, target, buffers), emit, operations, **known)


def _product(case: Case, schedule: Schedule, nontemporal: frozenset[int]) -> Part:
    """A sum of products."""
    known = case, schedule, case.operations, nontemporal
    return _part(*known, dense=_DENSE // 2)


def _cache_rows(case: Case) -> Case | None:
    """The kernel with values of its rows cached, where that costs less."""
    found = keep_values(case.kernel, case.facts, case.target)
    if found is None:
        return None
    kept = Case(found, case.target)
    cost = least_cost(kept.block, kept.costs, along_rows=True)
    return None if cost > least_cost(case.block, case.costs) else kept


def _add_row_memory(
    values: Values, number: int, spec: BufferSpec, schedule: Schedule
) -> None:
    """Memory on the stack for values of a row.

    The vector at its end is whole there, but where shorter ones store: a processor
    would wait until all of them are in the cache.
    """
    loops = [s for s in schedule.unit if isinstance(s, Loops)]
    steps = [s for loop in loops for s in loop.tiling.steps.values() if s.lanes]
    whole = len({s.lanes for s in steps}) == 1
    width = max(s.width for s in steps) if whole else 1
    room = -(-spec.size // width) * width * spec.dtype.itemsize
    memory = values.writer.memory(f"[{room} x i8]", f"%kept{number}")
    values.add_buffer(number, memory, spec.size)
    if whole:
        values.padded.add(number)


def _nest(case: Case, nontemporal: frozenset[int]) -> Iterator[Part]:
    """One nest of loops."""
    target, given = case.target, len(case.kernel.buffers)
    cut = kept = None
    if target.decides("split_index_sets"):
        cut = known_positions.segments(case.kernel, case.facts, target)
    if cut is not None:
        case = Case(cut.kernel, target, cut.block, cut.facts)
    elif target.decides("cache_rows"):
        case = (kept := _cache_rows(case)) or case
    block, costs = case.block, case.costs
    operations = int(costs.operations(block))
    setup = int(costs.operations(brief_reduces(block, costs)))
    private = len(case.kernel.buffers) - given
    for found in schedule_loops(
        block, costs, cut.axes if cut else (), kept is not None
    ):
        dense, worth = _DENSE if found.in_tiles else 1, max(WORTH_A_THREAD, 8 * setup)
        yield _part(
            case, found, operations, nontemporal, private, dense=dense, worth=worth
        )


def _phases(case: Case) -> Iterator[Sequence[Part]]:
    """Each remainder of a position apart, one after the other: code for each."""
    kernel, target = case.kernel, case.target
    parts = phases(kernel, case.facts) if target.decides("split_strides") else []
    if len(parts) < 2:
        return
    ways = [_phase(Case(part, target)) for part in parts]
    yield from zip(*ways, strict=False)


def _phase(case: Case) -> Iterator[Part]:
    """One of them: a sum of products, or a nest of loops."""
    none = frozenset[int]()
    for found in schedule_product(case):
        yield _product(case, found, none)
    yield from _nest(case, none)


def _sum_of_products(case: Case) -> Iterator[Sequence[Part]]:
    """A sum of products, in parts."""
    for found in schedule_product(case):
        yield [_product(case, found, nontemporal_buffers(case.kernel, case.target))]


def _squares(case: Case) -> Iterator[Sequence[Part]]:
    """An elementwise kernel with transposed operands, block by block."""
    target = case.target
    if case.kernel.is_dynamic or not target.decides("register_transpose"):
        return  # blocks are of sizes that are known
    found = schedule_squares(case.kernel, case.facts, target)
    if found is None:
        return
    kernel = found.kernel
    case = case if kernel is case.kernel else Case(kernel, target)
    scattered = any(isinstance(s, StoreResults) and s.squares for s in found.unit)
    operations = len(kernel.nodes) * prod(kernel.shape)
    nontemporal = nontemporal_buffers(kernel, target, scattered)
    yield [_part(case, found, operations, nontemporal)]


def _unroll_short_axes(case: Case) -> Iterator[Sequence[Part]]:
    """Short axes and sums by steps, if there are any."""
    kernel, target = case.kernel, case.target
    if kernel.is_dynamic or not target.decides("unroll_short_axes"):
        return
    found = known_positions.without_short_reduces(kernel, case.facts, target)
    known = case.facts if found is kernel else facts_of(found)
    found = known_positions.without_short_axes(found, known, target)
    if found is not kernel:
        yield from _nests(Case(found, target))


def _nests(case: Case) -> Iterator[Sequence[Part]]:
    """A kernel as nests of loops: mostly one."""
    target = case.target
    cases = [case]
    if target.decides("split_index_sets"):
        boxes = known_positions.boxes(case.kernel, target)
        cases = [Case(one, target) for one in boxes] if len(boxes) > 1 else cases
    nests = [_nest(part, nontemporal_buffers(part.kernel, target)) for part in cases]
    yield from zip(*nests, strict=False)


#: The first answer is taken.
RENDERINGS: tuple[Callable[[Case], Iterator[Sequence[Part]]], ...] = (
    _phases,
    _sum_of_products,
    _squares,
    _unroll_short_axes,
    _nests,
)


def candidate_parts(kernel: Kernel, target: Target) -> Iterator[Sequence[Part]]:
    """The code of a legal kernel (see `lower/legalize/`), as `tune` may choose it.

    All are of the first row that has an answer: another one may add in
    another order.
    """
    case = Case(kernel, target)
    for parts_of in RENDERINGS:
        codes: Sequence[Part] = ()
        for codes in parts_of(case):
            yield codes
        if codes:
            return


def render(kernel: Kernel, target: Target) -> emit.Rendered:
    """The code of a legal kernel."""
    return _render(next(candidate_parts(kernel, target)), target)


def _render(codes: Sequence[Part], target: Target) -> emit.Rendered:
    """The code of a kernel in one of its ways."""
    schedules = tuple(code.schedule for code in codes)
    if len(codes) == 1:
        (code,) = codes
        module, one = emit.write_function(target, code.schedule.nontemporal, code.write)
        worth = code.worth * code.dense
        known = module, one.units, code.operations, worth, one.dims
        return replace(emit.Rendered.of(*known), schedules=schedules)
    parts = [
        emit.write_function(target, code.schedule.nontemporal, code.write, f".{n}")
        for n, code in enumerate(codes)
    ]
    units = [one.units for _, one in parts]
    module = emit.write_in_step([module for module, _ in parts], units)
    cost = sum(code.operations // code.dense for code in codes)
    worth = max(code.worth for code in codes)
    rendered = emit.Rendered.of(module, max(units), cost, worth)
    return replace(rendered, schedules=schedules)


def render_recurrence(kernel: rl.Recurrence, target: Target) -> emit.Rendered:
    """The code of a legal recurrence."""
    make: Any = RegisterLoop
    nontemporal = frozenset[int]()
    if kernel.scan is not None:
        make, nontemporal = scan_loop_of, find_nontemporal(kernel, target)

    def build(nontemporal: frozenset[int]) -> emit.Written:
        loop = make(kernel, target, nontemporal)
        return emit.Written(loop.writer, loop.units())

    module, (_, units, _) = emit.write_function(target, nontemporal, build)
    each = max(kernel.operations // units, 1)
    if any(isinstance(s, rl.Repeat) and not s.times for s in kernel.block):
        each //= _SHORTER  # a short loop must not wait for threads to wake
    return emit.Rendered.of(module, units, units * max(each, 1))


#: What writes kernels of a kind that has one way to run.
_WRITERS: dict[type[Kernel], Callable[[Any, Target], emit.Rendered]] = {
    rl.Recurrence: render_recurrence,
    Factor: render_factor,
    Transform: render_transform,
    Ordering: render_ordering,
}


def renderers_for(
    kernel: Kernel, target: Target
) -> Iterator[Callable[[], emit.Rendered]]:
    """What gives the code of a kernel of any kind, in operations of the processor."""
    write = _WRITERS.get(type(kernel))
    if isinstance(kernel, rl.Recurrence):
        kernel = rl.legalize_registers(kernel, operations_of(target))
    if write is not None:
        yield partial(write, kernel, target)
        return
    kernel = legalize(kernel, operations_of(target) | called_in(kernel))
    for codes in candidate_parts(kernel, target):
        yield partial(_render, codes, target)


def render_kernel(kernel: Kernel, target: Target) -> emit.Rendered:
    """The code of a kernel of any kind, in operations that a processor has."""
    return next(renderers_for(kernel, target))()
