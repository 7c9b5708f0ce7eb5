"""How each loop of a kernel runs: one by one, unrolled, or in the lanes of a vector.

What each choice of a vector costs is estimated in `vector_cost.py`. What the `Chooser`
chooses is in `loop_tiling.py`; how many sums of a product the registers hold, in
`register_tile`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

from ftrace.backends.llvm.schedule import loop_tiling as tiling, vector_cost
from ftrace.backends.llvm.schedule.index_facts import index_of
from ftrace.backends.llvm.schedule.layout import Cut
from ftrace.backends.llvm.schedule.prefetch import prefetches
from ftrace.backends.llvm.schedule.schedule_tree import Loops, Schedule
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.lower.kernel import ir
from ftrace.lower.kernel.loop_tree import (
    Let,
    Loop,
    ReduceLoop,
    Statement,
    statements_in,
)
from ftrace.trace.graph import Node
from ftrace.trace.symbolic import is_dynamic, sample

#: Operations worth a unit of the parallel domain, and units beyond which more are idle.
#: With 4000 eleven rows have other units, with 64,000 16; with 64 or 1024 units most of
#: those that are no products.
_UNIT = 16_000
_UNITS = 256
#: Operations in a body of which four vectors, or two, are computed at once. Half the
#: first changes axpy, half the second exp and the stencil; twice, others.
_FOUR_VECTORS, _TWO_VECTORS = 6, 16
#: Operations in a reduce of which eight sums, or four, are under way. Half the first
#: changes matvec, half or twice the second softmax.
_EIGHT_SUMS, _FOUR_SUMS = 4, 24
#: Operations in a body that is not worth compiling twice, for its last vector, and in
#: one of few elements: a bound of code. With 1024 120 operations on 5001 elements are
#: 436 instructions, not 332, and 60 on 101 elements 207, not 127. With 16 the row of
#: float16 differs, with 32 none; with 8 of few elements two, with 32 four.
_LONG_BODY = 64
_LONG_BODY_OF_FEW = 16
#: So few elements: with 2⁸ the dynamic softmax differs, with 2¹⁴ the row of float16.
_FEW_ELEMENTS = 1 << 12
#: Operations in a reduce whose copies a processor overlaps by itself. With 4 four rows
#: are interleaved, too, with 64 four are not; with 16 no row differs.
_LIGHT_BODY = 8
#: Operations that each value in the code of a tile is worth, and values that any is: a
#: bound of compile time. With 64 or 4096 the forces of 1024 bodies are unrolled
#: otherwise; with 1024 values the sums of 40 columns of exp·log·sin of 30 rows are 1029
#: instructions for AVX2, not 701, with 16 or 256 no row differs.
_OPERATIONS_OF_A_VALUE = 512
_FEW_VALUES = 64
#: Copies of a body where `limit_unrolling` is switched off.
_MOST_COPIES = 64
#: Columns are reduced row by row where a row has so many vectors, and all rows so many
#: elements; so many bytes of a row are read at a time: of 4096² 2 KB would take 4.1
#: times as long, 32 KB 1.06 times. With 128 vectors two rows of 1024 columns are not,
#: with 2¹⁷ elements two others; with 1 or 32, with 2⁸ no row differs.
_LONG_ROW = 8
_MANY_ELEMENTS = 1 << 14
_STRETCH = 8 << 10
#: Rows that are read at once: with 4 or 16 a sum of 4096² over axis 0 takes 1.5 or 1.3
#: times as long (AMD EPYC).
_ROWS = 8
#: Rows that are read at once where they share the other factor, of so many at least
#: that have so many bytes. Of 12 million elements by a vector, 6000 in a row are 1.4
#: times as fast, 4096 are 1.2 times; 3000 would be 0.7 and 300 0.4 (AMD EPYC).
_INTERLEAVED = 4
_MANY_ROWS = 64
_LONG_ROW_BYTES = 16 << 10
#: The work in a call is so many times what each call has to repeat: a bound of waste.
#: No row of the benchmarks has such a reduce.
_REPEATED = 16


def schedule_loops(
    block: Sequence[Statement],
    costs: vector_cost.VectorCosts,
    segments: Sequence[Node] = (),
    along_rows: bool = False,
) -> Iterator[Schedule]:
    """Schedules of the loops of a kernel: first the one of least cost, then others.

    Args:
      block: the loops, in order.
      costs: of vectors, for the kernel.
      segments: axes that stand side by side, as pieces of one.
      along_rows: rows keep values: lanes must not be rows.
    """
    ranked = _rank_vectors(block, costs, segments, along_rows)
    candidates = [vectors for _, vectors in ranked]
    best = Chooser(block, costs)
    first = best.choose(candidates[0])
    yield best.schedule(first)
    for chunk in (1, 4, 16, 64, 256):
        yield best.schedule(first._replace(chunk=chunk))
    terms = (prod(map(tiling.size_of, n.src[1:])) for n in best.reduces())
    if max(terms, default=0) > 2 * tiling.BLOCK:
        return  # the tile decides the order in which they are added
    yield from map(best.schedule, best.variants(candidates[0]))
    for vectors in candidates[1:]:
        other = Chooser(block, costs)
        yield other.schedule(other.choose(vectors))


def least_cost(
    block: Sequence[Statement],
    costs: vector_cost.VectorCosts,
    along_rows: bool = False,
) -> float:
    """What a kernel costs in the vectors that are cheapest."""
    return _rank_vectors(block, costs, (), along_rows)[0][0]


def _rank_vectors(
    block: Sequence[Statement],
    costs: vector_cost.VectorCosts,
    segments: Sequence[Node],
    along_rows: bool,
) -> list[tuple[float, vector_cost.Vectors]]:
    """The axes that may be vectors, and what each choice costs: the least first."""
    kernel = costs.kernel
    axes = kernel.axes[-1:] if along_rows else kernel.axes
    axes = [a for a in axes if _may_be_vector(kernel, a)]
    together = [a for a in axes if a in segments]
    groups = [[a] for a in axes if a not in segments] + [together]
    candidates: list[vector_cost.Vectors] = []
    for group in groups:
        lanes = {a: costs.lanes_of(a) for a in group}
        candidates.append({a: n for a, n in lanes.items() if n > 1})
    candidates = [c for c in candidates if c] + [{}]
    ranked = [(costs.of_block(block, c, None), c) for c in candidates]
    return sorted(ranked, key=lambda pair: pair[0])


def _may_move(kernel: ir.Kernel, axis: Node) -> bool:
    return tiling.size_of(axis) > 1 and ir.axis_of(axis).number not in kernel.ordered


def _may_be_vector(kernel: ir.Kernel, axis: Node) -> bool:
    """Around axes that run in order the lanes would be far apart in memory."""
    inside = kernel.axes[kernel.axes.index(axis) :]
    ordered = {ir.axis_of(a).number for a in inside} & kernel.ordered
    return _may_move(kernel, axis) and not ordered


class Choice(NamedTuple):
    """How the loops of a kernel run, and how threads share them.

    Attributes:
      tiling: how each range runs.
      shared: the loops, outermost first, that threads share.
      chunk: tiles of the last one that make a unit.
    """

    tiling: tiling.Tiling
    shared: Sequence[Loop] = ()
    chunk: int = 1


class Chooser:
    """Decides how one kernel runs whose vectors run along certain axes.

    Attributes:
      steps: how each range runs.
      columns: the loop whose reduces run row by row.
      setup: brief reduces that depend on no axis: every thread may repeat them.
    """

    def __init__(
        self, block: Sequence[Statement], costs: vector_cost.VectorCosts
    ) -> None:
        self.kernel, self.facts, self.target = costs.kernel, costs.facts, costs.target
        self.top, self.costs = block, costs
        self.steps: dict[Node, tiling.RangeTiling] = {}
        self.columns: Loop | None = None
        self.setup = brief_reduces(block, costs)

    def choose(self, vectors: vector_cost.Vectors) -> Choice:
        self.steps.update({a: tiling.RangeTiling(n) for a, n in vectors.items()})
        self._unroll(self.top, vectors, None)
        return self._share()

    def variants(self, chosen: vector_cost.Vectors) -> Iterator[Choice]:
        """What has been chosen with one decision about an axis taken otherwise."""
        found = dict(self.steps)
        for axis in self.kernel.axes if self.columns is None else ():
            steps = found.get(axis)
            if steps is None:
                continue
            most = -(-tiling.size_of(axis) // max(steps.lanes, 1))
            for unroll in (1, 2, 3, 4, 6, 8):
                if unroll != steps.unroll and unroll <= most:
                    self.steps = {**found, axis: replace(steps, unroll=unroll)}
                    yield self._share()
            if axis in chosen and steps.lanes >= 4:
                self.steps = {**found, axis: replace(steps, lanes=steps.lanes // 2)}
                yield self._share()

    # Unrolling.

    def _unroll(
        self,
        block: Sequence[Statement],
        chosen: vector_cost.Vectors,
        active: vector_cost.Vector | None,
    ) -> None:
        for statement in block:
            if isinstance(statement, Loop):
                inner = active
                if statement.axis in chosen:
                    inner = statement.axis, chosen[statement.axis]
                    if self._runs_by_rows(statement, inner):
                        self.columns = statement
                        self.steps[statement.axis] = tiling.RangeTiling(inner[1])
                    elif has_reduce(statement.body):
                        self._unroll_tile(statement, inner)
                    else:
                        self._unroll_vector(statement, inner)
                self._unroll(statement.body, chosen, inner)
            elif isinstance(statement, ReduceLoop):
                if active is None:
                    self._unroll_reduce(statement)
                else:
                    self._unroll(statement.body, chosen, active)

    def _unroll_vector(self, loop: Loop, vector: vector_cost.Vector) -> None:
        """A light body runs on several vectors at once."""
        weight = count_values(loop.body)
        unroll = 4 if weight <= _FOUR_VECTORS else 2 if weight <= _TWO_VECTORS else 1
        if not self.target.decides("unroll_vectors"):
            unroll = 1
        whole = max(tiling.size_of(loop.axis) // vector[1], 1)
        few = tiling.size_of(loop.axis) <= _FEW_ELEMENTS
        masked = self.target.masked and weight > (
            _LONG_BODY_OF_FEW if few else _LONG_BODY
        )
        stores = [s for s in loop.body if isinstance(s, ir.Store)]
        strides = [self.facts.stride(s.index, *vector) for s in stores]
        masked = masked and all(stride in (0, 1, -1) for stride in strides)
        if masked and is_dynamic(ir.axis_of(loop.axis).size):
            unroll = whole = 1
        interleave = 1
        if unroll == 1:
            lanes = vector[1]
            interleave = vector_cost.count_interleaved(
                self.kernel, loop, lanes, self.facts, self.target
            )
            while interleave > 1 and _wastes_vectors(whole, interleave, masked):
                interleave //= 2
        unroll = min(max(unroll, interleave), whole)
        self.steps[loop.axis] = tiling.RangeTiling(
            vector[1], unroll, True, masked, interleave > 1
        )

    def _unroll_tile(self, loop: Loop, vector: vector_cost.Vector) -> None:
        """Reduces inside a vector axis: accumulators for several rows and vectors."""
        node, lanes = vector
        rows = self._row_axis(node)
        height = tiling.size_of(rows) if rows is not None else 1
        vectors = -(-tiling.size_of(node) // lanes)
        widest = max(r.dtype.itemsize for r in self.reduces())
        registers = max(widest * lanes // self.target.vector_bytes, 1)
        most = tiling.rows_together(self.reduces(), rows, self.facts, self.target)
        fitting = self.target.registers // registers
        if not self.target.decides("register_tiles"):
            height = vectors = 1
        unroll = self._unroll_worth(loop)
        vectors = min(vectors, unroll)
        tile = tiling.register_tile(
            height, vectors, fitting, self.target.costs, min(most, unroll // vectors)
        )
        self.steps[node] = tiling.RangeTiling(lanes, tile.vectors)
        if rows is not None:
            self.steps[rows] = tiling.RangeTiling(0, tile.rows)

    def _unroll_worth(self, loop: Loop) -> int:
        """Copies of a body that are worth compiling.

        To compile a value takes a hundred thousand times as long as to compute it, so
        that what is long and runs seldom stands there a few times only.
        """
        if not self.target.decides("limit_unrolling"):
            return _MOST_COPIES
        values = max(
            self.costs.operations(self.top) / _OPERATIONS_OF_A_VALUE, _FEW_VALUES
        )
        return max(int(values) // max(count_values(loop.body), 1), 2)

    def _runs_by_rows(self, loop: Loop, vector: vector_cost.Vector) -> bool:
        """Do the reduces in a loop over columns read long rows, each element once?"""
        if not self.target.decides("interchange_column_sums"):
            return False
        reduces = [s for s in loop.body if isinstance(s, ReduceLoop)]
        simple = len(reduces) + sum(isinstance(s, Let | ir.Store) for s in loop.body)
        if not reduces or simple != len(loop.body) or self.kernel.is_dynamic:
            return False
        if self.kernel.ordered or tiling.size_of(loop.axis) < _LONG_ROW * vector[1]:
            return False
        free = self.facts.free
        for reduce in reduces:
            if any(loop.axis not in free[n] for n in reduce.reduces):
                return False
            if not all(isinstance(s, Let) for s in reduce.body):
                return False
            size = prod(tiling.size_of(r) for r in reduce.ranges) * tiling.size_of(
                loop.axis
            )
            if size < _MANY_ELEMENTS or tiling.size_of(reduce.ranges[-1]) < 2:
                return False
        inside = [n for n in self._inner_loads() if loop.axis in free[n]]
        if any(self.facts.stride(index_of(n), *vector) != 1 for n in inside):
            return False
        return bool(inside) and self._row_axis(loop.axis) is None

    def _inner_loads(self) -> list[Node]:
        """Loads inside reduces."""
        return [
            n
            for n in self.facts.free
            if n.op is ir.load_p
            and any(ir.axis_of(r).reduced for r in self.facts.free[n])
        ]

    def reduces(self) -> list[Node]:
        return [n for n in self.facts.free if n.op is ir.reduce_p]

    def _row_axis(self, vector: Node) -> Node | None:
        """The axis whose iterations can share most of what a reduce loads."""
        free = self.facts.free
        reduces = self.reduces()
        inside = self._inner_loads()
        best, most = None, 0
        for axis in self.kernel.axes:
            if axis is vector or not _may_move(self.kernel, axis):
                continue
            if not all(axis in free[r] for r in reduces):
                continue
            shared = [n for n in inside if axis not in free[n]]
            gain = sum(2 if vector in free[n] else 1 for n in shared)
            if gain > most:
                best, most = axis, gain
        return best

    def _unroll_reduce(self, loop: ReduceLoop) -> None:
        _, vector = self.costs.best_vector(loop)
        if vector is None:
            self._unroll(loop.body, {}, None)
            return
        node, lanes = vector
        weight = count_values(loop.body)
        unroll = 8 if weight <= _EIGHT_SUMS else 4 if weight <= _FOUR_SUMS else 2
        unroll = max(unroll // len(loop.reduces), 2)
        whole = max(tiling.size_of(node) // lanes, 1)
        rows = self._interleaved_rows(loop, node)
        if rows is not None and unroll == 2 * _INTERLEAVED and whole >= unroll:
            self.steps[rows] = tiling.RangeTiling(0, _INTERLEAVED)
            unroll //= _INTERLEAVED
        interleave = self.target.decides("interleave_vectors") and weight > _LIGHT_BODY
        self.steps[node] = tiling.RangeTiling(
            lanes, min(unroll, whole), interleave=interleave
        )

    def _interleaved_rows(self, loop: ReduceLoop, vector: Node) -> Node | None:
        """The axis of which several rows are read at once, by one look at the other.

        A processor has then several streams to ask ahead for.
        """
        if not self.target.decides("register_tiles") or self.kernel.is_dynamic:
            return None
        rows = self._row_axis(vector)
        if rows is None or tiling.size_of(rows) < _MANY_ROWS:
            return None
        if tiling.size_of(vector) * loop.reduces[0].dtype.itemsize < _LONG_ROW_BYTES:
            return None
        if ir.bytes_of(self.kernel.buffers) <= self.target.l3 // 2:
            return None  # a cache is as quick with one
        if self.reduces() != list(loop.reduces):
            return None
        most = tiling.rows_together(self.reduces(), rows, self.facts, self.target)
        return rows if most >= _INTERLEAVED else None

    # Units of work.

    def _of(self, axis: Node) -> tiling.RangeTiling:
        return self.steps.get(axis, tiling.ONE_BY_ONE)

    def _units(self, axis: Node) -> int:
        """How many tiles, alike or not, an axis that runs around others has."""
        found = tiling.equal_tiles(axis, self._of(axis))
        return tiling.size_of(axis) if found is None else sample(found.count)

    def schedule(self, choice: Choice) -> Schedule:
        """The schedule of a choice."""
        places, setup, how = list[Node | Cut](), list[ReduceLoop](), choice.tiling
        body = self.top
        if choice.shared:
            *outer, last = choice.shared
            places = [_place(loop.axis, how) for loop in outer]
            width = choice.chunk * how.of(last.axis).width
            places.append(Cut((), last.axis, width, ()))
            setup, known = self.setup, (self.kernel, self.facts, how)
            asked = prefetches(*known, last, choice.chunk, self.target)
            how = replace(how, prefetch=asked)
            body = [s for s in self.top if s not in setup]
            for loop, place in zip(outer, places, strict=False):
                if place is not loop.axis:
                    break
                body = loop.body
        before = (Loops(tuple(setup), how),) if setup else ()
        unit = Loops(tuple(body), how)
        return Schedule(self.kernel, 0, tuple(places), (unit,), setup=before)

    def _share(self) -> Choice:
        """Which loops the threads share, and how many tiles make a unit."""
        operations = int(self.costs.operations(self.top))
        shared, outer = self._parallel([s for s in self.top if s not in self.setup])
        loop, chunk = self.columns, 1
        if loop is not None and loop not in shared[-1:]:
            self.columns = None
            self._unroll_tile(loop, (loop.axis, self._of(loop.axis).lanes))
        elif loop is not None:
            chunk = self._columns_of_unit(loop, outer)
            reduces = [s for s in loop.body if isinstance(s, ReduceLoop)]
            rows = tiling.RangeTiling(0, _ROWS, even=False)
            self.steps |= {s.ranges[-1]: rows for s in reduces}
        elif shared:
            tiles = self._tiles(shared[-1])
            each = max(operations // (outer * tiles), 1)
            worth = -(-_UNIT // each)
            few = -(-outer * tiles // _UNITS)
            chunk = min(max(worth, few), tiles)
        elif (strips := self._strips()) is not None:
            tiles = self._tiles(strips)
            shared, chunk = [strips], -(-tiles // min(tiles, 2 * self.target.cores))
        columns = self.columns and self.columns.axis
        return Choice(tiling.Tiling(dict(self.steps), columns), shared, chunk)

    def _tiles(self, loop: Loop) -> int:
        size = tiling.size_of(loop.axis)
        return sum(part.count for part in tiling.cut(size, self._of(loop.axis)))

    def _parallel(self, block: Sequence[Statement]) -> tuple[list[Loop], int]:
        """The loops that threads share, and units of those around the last one."""
        parallel, outer = list[Loop](), 1
        while (loop := self._only_loop(block)) is not None:
            if ir.axis_of(loop.axis).number in self.kernel.ordered:
                break
            if parallel:
                outer *= self._units(parallel[-1].axis)
            parallel.append(loop)
            block = loop.body
            if self.columns is None and (
                tiling.equal_tiles(loop.axis, self._of(loop.axis)) is None
                or outer * self._units(loop.axis) >= _UNITS
            ):
                break
            if loop is self.columns:
                break
        return parallel, outer

    def _only_loop(self, block: Sequence[Statement]) -> Loop | None:
        """The loop over an axis that a block is, but for what it computes first."""
        inner = [s for s in block if not isinstance(s, Let)]
        return inner[0] if len(inner) == 1 and isinstance(inner[0], Loop) else None

    def _columns_of_unit(self, loop: Loop, outer: int) -> int:
        """Stretches of columns whose sums stay in the first cache.

        Long ones, for each row of one is a jump: one for each core, if there is room.
        """
        tiles = -(-tiling.size_of(loop.axis) // self._of(loop.axis).lanes)
        most = _STRETCH // self.target.vector_bytes
        parts = -(-self.target.cores // outer)
        return max(min(-(-tiles // parts), most), 1)

    def _strips(self) -> Loop | None:
        """Under axes that run in order, each thread may take a strip of the others."""
        loop = self._only_loop(self.top)
        while loop and ir.axis_of(loop.axis).number in self.kernel.ordered:
            loop = self._only_loop(loop.body)
        if loop is None or loop in self.top:
            return None
        return loop if self._of(loop.axis).lanes else None


def _place(axis: Node, how: tiling.Tiling) -> Node | Cut:
    """What of an axis that runs around others is a unit: a tile, or one value."""
    tiles = tiling.equal_tiles(axis, how.of(axis))
    if tiles is None or tiles.unroll == 1:
        return axis
    return Cut((), axis, tiles.unroll, ())


def _wastes_vectors(vectors: int, unroll: int, masked: bool) -> bool:
    """Are more vectors computed than there are, by an eighth?"""
    return vectors < unroll or (
        masked and vectors * 9 < -(-vectors // unroll) * unroll * 8
    )


def brief_reduces(
    block: Sequence[Statement], costs: vector_cost.VectorCosts
) -> list[ReduceLoop]:
    """Reduces that depend on no axis, if every thread may repeat them."""
    found = [s for s in block if isinstance(s, ReduceLoop)]
    brief = _REPEATED * int(costs.operations(found)) <= int(costs.operations(block))
    return found if brief else []


def has_reduce(block: Sequence[Statement]) -> bool:
    """Is there a reduce in a block, or in the loops of its axes?"""
    return any(isinstance(statement, ReduceLoop) for statement in statements_in(block))


def count_values(block: Sequence[Statement]) -> int:
    """How many operations on values there are in a block and its loops."""
    nodes = [s.node for s in statements_in(block) if isinstance(s, Let)]
    return sum(1 for node in nodes if node.dtype is not ir.INDEX and node.src)
