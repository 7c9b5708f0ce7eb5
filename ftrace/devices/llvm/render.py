"""A kernel as LLVM IR for a processor: `render`.

    kernel -> place() -> Tiling -> Nest -> text

The text is a module with one function, `void name(ptr buffers, i64 begin, i64 end)`,
that runs a part of the kernel's parallel domain. What it computes does not depend on
how the domain is split.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

from ftrace.devices.llvm.ir.writer import Writer
from ftrace.devices.llvm.loops.accumulators import fused_products
from ftrace.devices.llvm.loops.ahead import fetches
from ftrace.devices.llvm.loops.backwards import find_turned_backwards
from ftrace.devices.llvm.loops.columns import Columns
from ftrace.devices.llvm.loops.facts import Facts
from ftrace.devices.llvm.loops.keeping import keep_values
from ftrace.devices.llvm.loops.pieces import boxes, facts_of, segments
from ftrace.devices.llvm.loops.polling import writer_for
from ftrace.devices.llvm.loops.short_axes import without_short_axes
from ftrace.devices.llvm.loops.short_reduces import without_short_reduces
from ftrace.devices.llvm.loops.staging import Stage
from ftrace.devices.llvm.loops.streaming import (
    Code,
    function,
    in_turn,
    joined,
    module,
    streamed_buffers,
)
from ftrace.devices.llvm.loops.tiles import size_of
from ftrace.devices.llvm.loops.tiling import Chooser
from ftrace.devices.llvm.loops.turned import (
    Turned,
    find_turned,
    render_turned,
    turns_result,
)
from ftrace.devices.llvm.loops.values import Values
from ftrace.devices.llvm.products.contraction import (
    Contraction,
    find_contraction,
    is_worthwhile,
    reads_in_place,
)
from ftrace.devices.llvm.products.dots import DotProducts, find_dots
from ftrace.devices.llvm.products.groups import Groups, chosen_groups, in_groups
from ftrace.devices.llvm.products.matrix import (
    FEW_ROWS,
    MatrixProduct,
    as_matrices,
    without_panels,
)
from ftrace.devices.llvm.products.product import Product
from ftrace.devices.llvm.recurrences.recurrence import write_recurrence
from ftrace.devices.llvm.runtime.work import LASTING
from ftrace.devices.llvm.sliding.across import (
    AcrossProduct,
    find_across,
    find_channels,
)
from ftrace.devices.llvm.sliding.columns import SlidingProduct
from ftrace.devices.llvm.sliding.groups import find_groups
from ftrace.devices.llvm.sliding.phases import phases
from ftrace.devices.llvm.sliding.pixels import SlidingDotsProduct, find_sliding_dots
from ftrace.devices.llvm.sliding.plan import find_sliding
from ftrace.devices.llvm.sliding.rows import SlidingRowsProduct
from ftrace.devices.llvm.sliding.rows_plan import find_grouped_rows, find_sliding_rows
from ftrace.devices.llvm.sliding.sums import (
    SlidingSumProduct,
    find_grouped_sum,
    find_sliding_sum,
)
from ftrace.devices.llvm.target import Target
from ftrace.lower.kernel import Kernel
from ftrace.lower.place import Statement, place
from ftrace.lower.recurrence import Recurrence, Repeat
from ftrace.records import dataclass
from ftrace.trace.sizes import sample

#: Operations of elements that pay for waking another thread.
_WORTH_A_THREAD = 40_000
#: How many times as many are done at the same time in a tile of registers.
_DENSE = 16
#: How many times as many are done in the same time, even where memory is slow.
_BRISK = 4
#: How much shorter a loop of unknown length may be than it is taken to be.
_SHORTER = 100


@dataclass(frozen=True)
class Rendered:
    """The code of a kernel.

    Attributes:
      text: LLVM IR.
      parallel: how many units its domain has.
      grain: how many units are worth a thread's while.
      dims: sizes that are known at calls only, which the code finds as int64 in a
        buffer behind the kernel's own. Then `parallel` may be one, too.
    """

    text: str
    parallel: int
    grain: int
    dims: tuple[Any, ...] = ()


def render(kernel: Kernel, target: Target, name: str) -> Rendered:
    """The code of a legal kernel (see `lower/legalize.py`), as function `name`."""
    block = place(kernel)
    roots = [e for store in kernel.stores for e in store.expressions]
    facts = Facts([*roots, *kernel.axes])
    if target.decides("in_phases"):
        parts = phases(kernel, facts)
        if len(parts) > 1:
            found = _in_turn(kernel, facts, target)
            if found is not None:
                return _render_loops(found, place(found), facts_of(found), target, name)
            return _render_parts(parts, target, name)
    plan, code = _as_product(kernel, block, facts, target)
    if plan is not None and code is not None:
        return _render_contraction(kernel, plan, code, facts, target, name)
    dots = _as_dots(kernel, block, facts, target)
    if dots is not None:
        operations, emit = dots
        return _render_staged(kernel, emit, operations, facts, target, name)
    if kernel.is_dynamic:  # squares are turned in blocks of sizes that are known
        return _render_loops(kernel, block, facts, target, name)
    turned = find_turned(kernel, facts) if target.decides("in_squares") else None
    if turned is not None:
        return _render_turned(kernel, turned, facts, target, name)
    if target.decides("in_squares"):
        backwards = find_turned_backwards(kernel, facts)
        if backwards is not None:
            other, known, turned = backwards
            return _render_turned(other, turned, known, target, name)
    if target.decides("short_axes"):
        found = without_short_reduces(kernel, facts, target)
        known = facts if found is kernel else facts_of(found)
        found = without_short_axes(found, known, target)
        if found is not kernel:
            return _render_loops(found, place(found), facts_of(found), target, name)
    return _render_loops(kernel, block, facts, target, name)


def _in_turn(kernel: Kernel, facts: Facts, target: Target) -> Kernel | None:
    """The kernel with its phases written out as stores side by side, if they are.

    A few taps need no kernel for each phase then, of which each would store some
    elements of every line.
    """
    if not target.decides("short_axes"):
        return None
    taps = without_short_reduces(kernel, facts, target)
    found = taps if taps is kernel else without_short_axes(taps, facts_of(taps), target)
    if found is taps:
        return None
    free, lanes = facts_of(found).free, found.axes[-1]
    asks = any(n.op.name == "rem" and lanes in free[n] for n in found.nodes)
    return None if asks else found


def render_recurrence(recurrence: Recurrence, target: Target, name: str) -> Rendered:
    """The code of a legal recurrence, as function `name`."""
    writer, units = write_recurrence(recurrence, target)
    text = module(target, name, frozenset(), lambda _: writer)
    each = max(recurrence.operations // units, 1)
    if any(isinstance(s, Repeat) and s.times is None for s in recurrence.block):
        each //= _SHORTER  # a short loop must not wait for threads to wake
    return Rendered(text, units, -(-_WORTH_A_THREAD // max(each, 1)))


def _render_loops(
    kernel: Kernel,
    block: list[Statement],
    facts: Facts,
    target: Target,
    name: str,
) -> Rendered:
    """A kernel as nests of loops: mostly one."""
    cuts = target.decides("cut_at_borders")
    parts = boxes(kernel, target) if cuts else [kernel]
    if len(parts) == 1:
        nest = _Nest(kernel, block, facts, target)
        code = function(target, name, streamed_buffers(kernel, target), nest.write)
        return nest.rendered(joined(target, code))
    nests: list[_Nest] = []
    codes: list[Code] = []
    for n, part in enumerate(parts):
        nest = _Nest(part, place(part), facts_of(part), target)
        streamed = streamed_buffers(part, target)
        codes.append(function(target, f"{name}.{n}", streamed, nest.write, True))
        nests.append(nest)
    codes.append(in_turn(name, [(f"{name}.{n}", x.units) for n, x in enumerate(nests)]))
    units = sum(nest.units for nest in nests)
    operations = sum(nest.tiling.operations for nest in nests)
    grain = max(-(-_WORTH_A_THREAD * units // operations), 1)
    return Rendered(joined(target, *codes), units, grain)


class _Nest:
    """One nest of loops, and what is known when it has been written.

    Attributes:
      private: numbers of buffers that are memory of each thread.
      units: how many it has.
      dims: sizes that are known at calls only.
    """

    def __init__(
        self, kernel: Kernel, block: list[Statement], facts: Facts, target: Target
    ) -> None:
        cuts = target.decides("cut_at_borders")
        cut = segments(kernel, facts, target) if cuts else None
        if cut is not None:
            kernel, block, facts = cut.kernel, cut.block, cut.facts
        self.private = range(0)
        keeps = cut is None and target.decides("keep_rows")
        kept = keep_values(kernel, facts, target) if keeps else None
        if kept is not None:
            kernel = kept.kernel
            block, facts = place(kernel), facts_of(kernel)
            self.private = range(kept.first, len(kernel.buffers))
        self.kernel, self.block, self.facts, self.target = kernel, block, facts, target
        own = cut.axes if cut is not None else ()
        chooser = Chooser(kernel, block, facts, target, own, kept is not None)
        self.tiling = chooser.choose()
        fetched = target.decides("fetch_ahead")
        self.ahead = fetches(kernel, facts, self.tiling, target) if fetched else {}
        self.fused = fused_products(kernel, target)
        self.units: Any = 1
        self.dims: tuple[Any, ...] = ()

    def write(self, streamed: frozenset[int]) -> Writer:
        writer = self._written(Writer(), streamed)
        each = self.tiling.operations // max(sample(self.units), 1)
        return writer if each <= LASTING else self._written(writer_for(each), streamed)

    def _written(self, writer: Writer, streamed: frozenset[int]) -> Writer:
        tiling, buffers = self.tiling, self.kernel.buffers
        values = Values(writer, self.facts, self.target, buffers, streamed)
        for number in self.private:
            size = buffers[number].size
            nbytes = size * buffers[number].dtype.itemsize
            name = f"%kept{number}"
            line = f"  {name} = alloca [{nbytes} x i8], align 64"
            values.writer.stack[0].lines.insert(0, line)
            values.add_buffer(number, name, size)
        nest = Columns(values, tiling, self.fused, ahead=self.ahead)
        if tiling.parallel:
            self.units = nest.parallel()
        elif tiling.strips is not None:
            self.units = nest.strips(tiling.strips, self.block)
        else:
            nest.block(self.block)
        self.dims = tuple(values.dims)
        return values.writer

    def rendered(self, text: str) -> Rendered:
        worth = max(_WORTH_A_THREAD, 8 * self.tiling.setup_operations)
        if self.tiling.in_tiles:
            worth *= _DENSE
        grain = max(-(-worth * sample(self.units) // self.tiling.operations), 1)
        return Rendered(text, self.units, grain, self.dims)


def _as_product(
    kernel: Kernel, block: list[Statement], facts: Facts, target: Target
) -> tuple[Contraction | None, Callable[[Stage], int] | None]:
    """How the kernel is a contraction, and what emits it."""
    if target.decides("groups_abreast"):
        groups = find_groups(kernel, block, facts, target)
        if groups is not None:
            rows = find_grouped_rows(groups, facts, target)
            if rows is not None:
                return groups, lambda stage: SlidingRowsProduct(rows, stage).emit()
            sums = find_grouped_sum(groups, facts)
            if sums is not None:
                return groups, lambda stage: SlidingSumProduct(sums, stage).emit()
    if target.decides("channels_across"):
        channels = find_channels(kernel, block, facts, target)
        if channels is not None:
            across = find_across(channels, facts, target)
            if across is not None:
                return channels, lambda stage: AcrossProduct(across, stage).emit()
    plan = find_contraction(kernel, block, facts)
    if plan is None:
        return None, None
    return plan, _contraction_code(kernel, plan, facts, target)


def _as_dots(
    kernel: Kernel, block: list[Statement], facts: Facts, target: Target
) -> tuple[int, Callable[[Stage], int]] | None:
    """What emits a gradient with pixels in its lanes, and how many operations it is."""
    if not target.decides("sliding_dots"):
        return None
    dots = find_sliding_dots(kernel, block, facts, target)
    if dots is None:
        return None
    return 2 * dots.products, lambda stage: SlidingDotsProduct(dots, stage).emit()


def _contraction_code(
    kernel: Kernel, plan: Contraction, facts: Facts, target: Target
) -> Callable[[Stage], int] | None:
    """What emits a contraction into a stage, and returns how many units it has."""
    if not target.decides("in_blocks"):
        return None
    sliding = target.decides("sliding") and find_sliding(kernel, plan, facts, target)
    if sliding:
        return lambda stage: SlidingProduct(sliding, stage).emit()
    sums = target.decides("sliding_sums") and find_sliding_sum(
        kernel, plan, facts, target
    )
    if sums:
        return lambda stage: SlidingSumProduct(sums, stage).emit()
    rows = target.decides("sliding_rows") and find_sliding_rows(
        kernel, plan, facts, target
    )
    if rows:
        return lambda stage: SlidingRowsProduct(rows, stage).emit()
    dots = target.decides("few_columns") and find_dots(kernel, plan, facts, target)
    if dots:
        return lambda stage: DotProducts(dots, stage).emit()
    if not is_worthwhile(plan, facts, target):
        bare = target.decides("without_panels") and without_panels(plan, kernel, facts)
        if not bare:
            return None
        return lambda stage: MatrixProduct(plan, bare, stage, False).emit()
    groups = chosen_groups(plan, target)
    if groups:
        return partial(_emit_in_groups, plan, groups)
    few = target.decides("few_rows") and reads_in_place(plan, facts)
    long = (FEW_ROWS,) if few else ()
    shape = target.decides("in_panels") and as_matrices(plan, kernel, *long)
    if shape:
        return lambda stage: MatrixProduct(plan, shape, stage).emit()
    return lambda stage: Product(plan, stage).emit()


def _emit_in_groups(plan: Contraction, groups: Groups, stage: Stage) -> int:
    """A product of short numbers as one of groups of them."""
    plan = in_groups(plan, groups, stage)
    panels = stage.target.decides("in_panels")
    shape = as_matrices(plan, stage.kernel) if panels else None
    emitted = MatrixProduct(plan, shape, stage) if shape else Product(plan, stage)
    return emitted.emit()


def _render_contraction(
    kernel: Kernel,
    plan: Contraction,
    emit: Callable[[Stage], int],
    facts: Facts,
    target: Target,
    name: str,
) -> Rendered:
    """A contraction, block by block."""
    operations = 2 * prod(size_of(r) for r in (*kernel.axes, *plan.ranges))
    return _render_staged(kernel, emit, operations, facts, target, name)


def _render_staged(
    kernel: Kernel,
    emit: Callable[[Stage], int],
    operations: Any,
    facts: Facts,
    target: Target,
    name: str,
) -> Rendered:
    """A kernel of so many operations, in a stage."""
    stages: list[tuple[Stage, int]] = []

    def build(streamed: frozenset[int]) -> Writer:
        stages.append(_staged(kernel, emit, operations, facts, target, streamed))
        return stages[-1][0].writer

    text = module(target, name, streamed_buffers(kernel, target), build)
    stage, units = stages[-1]
    worth = _WORTH_A_THREAD * _DENSE // 2
    grain = max(-(-worth * sample(units) // operations), 1)
    return Rendered(text, units, grain, tuple(stage.values.dims))


def _staged(
    kernel: Kernel,
    emit: Callable[[Stage], int],
    operations: Any,
    facts: Facts,
    target: Target,
    streamed: frozenset[int] = frozenset(),
) -> tuple[Stage, int]:
    """A contraction of so many operations in its stage, and how many units it has.

    It is written again, with polls, where a unit takes long.
    """

    def written(writer: Writer) -> tuple[Stage, int]:
        values = Values(writer, facts, target, kernel.buffers, streamed)
        stage = Stage(kernel, target, facts, values)
        return stage, emit(stage)

    stage, units = written(Writer())
    each = sample(operations) // max(sample(units), 1) // _BRISK
    return (stage, units) if each <= LASTING else written(writer_for(each))


def _render_parts(parts: list[Kernel], target: Target, name: str) -> Rendered:
    """Kernels that make one result, in one function."""
    codes: list[Code] = []
    found: list[tuple[str, int]] = []
    cost = 0
    for n, part in enumerate(parts):
        facts, block = facts_of(part), place(part)
        plan, emit = _as_product(part, block, facts, target)
        own = f"{name}.{n}"
        if plan is not None and emit is not None:
            operations = 2 * prod(size_of(r) for r in (*part.axes, *plan.ranges))
            product = operations, emit
        else:
            product = _as_dots(part, block, facts, target)
        if product is not None:
            operations, emit = product
            stage, units = _staged(part, emit, operations, facts, target)
            writer = stage.writer
            cost += operations // (_DENSE // 2)
        else:
            nest = _Nest(part, block, facts, target)
            writer, units = nest.write(frozenset()), nest.units
            cost += nest.tiling.operations
        codes.append(function(target, own, frozenset(), lambda _, w=writer: w, True))
        found.append((own, units))
    codes.append(in_turn(name, found))
    units = sum(count for _, count in found)
    return Rendered(joined(target, *codes), units, -(-_WORTH_A_THREAD * units // cost))


def _render_turned(
    kernel: Kernel, plan: Turned, facts: Facts, target: Target, name: str
) -> Rendered:
    """An elementwise kernel with turned operands, block by block."""
    units = 1

    def build(streamed: frozenset[int]) -> Writer:
        nonlocal units
        values = Values(Writer(), facts, target, kernel.buffers, streamed)
        units = render_turned(plan, Stage(kernel, target, facts, values))
        return values.writer

    scattered = turns_result(plan, kernel, facts, target)
    streamed = streamed_buffers(kernel, target, scattered)
    text = module(target, name, streamed, build)
    operations = len(kernel.nodes) * prod(kernel.shape)
    return Rendered(text, units, max(-(-_WORTH_A_THREAD * units // operations), 1))
