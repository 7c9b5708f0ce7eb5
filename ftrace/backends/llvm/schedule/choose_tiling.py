"""How each loop of a kernel runs: one by one, unrolled, or in the lanes of a vector.

What each choice of a vector costs is estimated in `vector_cost.py`. What the `Chooser`
chooses is in `tiling_ir.py`; how many sums of a product the registers hold, in
`register_tile`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ftrace.backends.llvm.scalar.ops import CALLED
from ftrace.backends.llvm.schedule import tiling_ir as tiling, vector_cost
from ftrace.backends.llvm.schedule.index_facts import Facts, index_of
from ftrace.backends.llvm.target import Target
from ftrace.lower.kernel import ir
from ftrace.lower.kernel.loop_tree import Let, Loop, ReduceLoop, Statement
from ftrace.trace.graph import Node
from ftrace.trace.symbolic.bounds import sample

#: Operations worth a unit of the parallel domain, and units beyond which more are idle.
_UNIT = 16_000
_UNITS = 256
#: Operations in a body that is not worth compiling twice, for its last vector; and in
#: one of few elements.
_LONG_BODY = 64
_LONG_BODY_OF_FEW = 16
#: Operations in a reduce whose copies a processor overlaps by itself.
_LIGHT_BODY = 8
_FEW = 1 << 12
#: Operations in a function that is called: about so many.
_CALLED_BODY = 32
#: Operations that each value in the code of a tile is worth, and values that any is.
_OPERATIONS_OF_A_VALUE = 512
_FEW_VALUES = 64
_MOST_COPIES = 64
#: Columns are reduced row by row where a row has so many vectors, and all rows so many
#: elements; so many bytes of a row are read at a time, in so many rows.
_LONG_ROW = 8
_MANY_ELEMENTS = 1 << 14
_STRETCH = 8 << 10
_ROWS_AT_ONCE = 8
#: Rows that are read at once where they share the other factor, of so many at least.
_ABREAST = 4
_MANY_ROWS = 64
#: The work in a call is so many times what each call has to repeat.
_REPEATED = 16


class Chooser:
    """Decides the tiling of one kernel.

    Args:
      segments: axes that stand side by side, as pieces of one.
      along_rows: rows keep values: lanes must not be rows.
    """

    def __init__(
        self,
        kernel: ir.Kernel,
        block: list[Statement],
        facts: Facts,
        target: Target,
        segments: Sequence[Node] = (),
        along_rows: bool = False,
    ) -> None:
        self.kernel = kernel
        self.along_rows = along_rows
        self.segments = segments
        self.top = block
        self.facts = facts
        self.target = target
        self.costs = vector_cost.VectorCosts(kernel, facts, target)
        self.steps: dict[Node, tiling.Steps] = {}
        self.parallel: list[Loop] = []
        self.chunk = self.operations = self.rows = 1
        self.strips: Loop | None = None
        self.setup: list[ReduceLoop] = []
        self.setup_operations = 0
        self.columns: Loop | None = None

    def choose(self) -> tiling.Tiling:
        axes = self.kernel.axes[-1:] if self.along_rows else self.kernel.axes
        axes = [a for a in axes if self._may_be_vector(a)]
        together = [a for a in axes if a in self.segments]
        groups = [[a] for a in axes if a not in self.segments] + [together]
        candidates: list[vector_cost.Vectors] = []
        for group in groups:
            lanes = {a: self.costs.lanes_of(a) for a in group}
            candidates.append({a: n for a, n in lanes.items() if n > 1})
        candidates = [c for c in candidates if c] + [{}]
        best = min(candidates, key=lambda c: self.costs.of_block(self.top, c, None))
        self.steps.update({a: tiling.Steps(n) for a, n in best.items()})
        self._unroll(self.top, best, None)
        self.operations = int(self.costs.operations(self.top, 1))
        self._share()
        return tiling.Tiling(
            self.steps, tuple(self.parallel), self.chunk, self.strips, self.operations,
            tuple(self.setup), self.setup_operations, self.columns, self.rows,
        )  # fmt: skip

    def _of(self, axis: Node) -> tiling.Steps:
        return self.steps.get(axis, tiling.ONE_BY_ONE)

    def _may_move(self, axis: Node) -> bool:
        a = ir.axis_of(axis)
        return tiling.size_of(axis) > 1 and a.number not in self.kernel.ordered

    def _may_be_vector(self, axis: Node) -> bool:
        """Around axes that run in order the lanes would be far apart in memory."""
        inside = self.kernel.axes[self.kernel.axes.index(axis) :]
        ordered = {ir.axis_of(a).number for a in inside} & self.kernel.ordered
        return self._may_move(axis) and not ordered

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
                        self.columns, self.rows = statement, _ROWS_AT_ONCE
                        self.steps[statement.axis] = tiling.Steps(inner[1])
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
        copies = 4 if weight <= 6 else 2 if weight <= 16 else 1
        if not self.target.decides("several_vectors"):
            copies = 1
        whole = max(tiling.size_of(loop.axis) // vector[1], 1)
        few = tiling.size_of(loop.axis) <= _FEW
        masked = self.target.masked and weight > (
            _LONG_BODY_OF_FEW if few else _LONG_BODY
        )
        stores = [s for s in loop.body if isinstance(s, ir.Store)]
        strides = [self.facts.stride(s.index, *vector) for s in stores]
        masked = masked and all(stride in (0, 1, -1) for stride in strides)
        abreast = 1
        if copies == 1:
            lanes = vector[1]
            abreast = vector_cost.interleaved_vectors(
                self.kernel, loop, lanes, self.facts, self.target
            )
            while abreast > 1 and _wasted(whole, abreast, masked):
                abreast //= 2
        copies = min(max(copies, abreast), whole)
        self.steps[loop.axis] = tiling.Steps(
            vector[1], copies, True, masked, abreast > 1
        )

    def _unroll_tile(self, loop: Loop, vector: vector_cost.Vector) -> None:
        """Reduces inside a vector axis: accumulators for several rows and vectors."""
        node, lanes = vector
        rows = self._row_axis(node)
        height = tiling.size_of(rows) if rows is not None else 1
        vectors = -(-tiling.size_of(node) // lanes)
        widest = max(r.dtype.itemsize for r in self._reduces())
        registers = max(widest * lanes // self.target.vector_bytes, 1)
        most = tiling.rows_together(self._reduces(), rows, self.facts, self.target)
        room = self.target.registers // registers
        if not self.target.decides("tiles"):
            height = vectors = 1
        copies = self._copies_worth(loop)
        vectors = min(vectors, copies)
        tile = tiling.register_tile(
            height, vectors, room, self.target.costs, min(most, copies // vectors)
        )
        self.steps[node] = tiling.Steps(lanes, tile.vectors)
        if rows is not None:
            self.steps[rows] = tiling.Steps(0, tile.rows)

    def _copies_worth(self, loop: Loop) -> int:
        """Copies of a body that are worth compiling.

        To compile a value takes a hundred thousand times as long as to compute it, so
        that what is long and runs seldom stands there a few times only.
        """
        if not self.target.decides("short_code"):
            return _MOST_COPIES
        values = max(
            self.costs.operations(self.top, 1) / _OPERATIONS_OF_A_VALUE, _FEW_VALUES
        )
        return max(int(values) // max(count_values(loop.body), 1), 2)

    def _runs_by_rows(self, loop: Loop, vector: vector_cost.Vector) -> bool:
        """Do the reduces in a loop over columns read long rows, each element once?"""
        if not self.target.decides("columns_by_rows"):
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

    def _reduces(self) -> list[Node]:
        return [n for n in self.facts.free if n.op is ir.reduce_p]

    def _row_axis(self, vector: Node) -> Node | None:
        """The axis whose iterations can share most of what a reduce loads."""
        free = self.facts.free
        reduces = self._reduces()
        inside = self._inner_loads()
        best, most = None, 0
        for axis in self.kernel.axes:
            if axis is vector or not self._may_move(axis):
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
        copies = 8 if weight <= 4 else 4 if weight <= 24 else 2
        copies = max(copies // len(loop.reduces), 2)
        whole = max(tiling.size_of(node) // lanes, 1)
        rows = self._rows_abreast(loop, node)
        if rows is not None and copies == 2 * _ABREAST and whole >= copies:
            self.steps[rows] = tiling.Steps(0, _ABREAST)
            copies //= _ABREAST
        abreast = self.target.decides("interleaved_vectors") and weight > _LIGHT_BODY
        self.steps[node] = tiling.Steps(lanes, min(copies, whole), abreast=abreast)

    def _rows_abreast(self, loop: ReduceLoop, vector: Node) -> Node | None:
        """The axis of which several rows are read at once, by one look at the other.

        A processor has then several streams to ask ahead for.
        """
        if not self.target.decides("tiles") or self.kernel.is_dynamic:
            return None
        rows = self._row_axis(vector)
        if rows is None or tiling.size_of(rows) < _MANY_ROWS:
            return None
        if ir.bytes_of(self.kernel.buffers) <= self.target.l3 // 2:
            return None  # a cache is as quick with one
        if self._reduces() != list(loop.reduces):
            return None
        most = tiling.rows_together(self._reduces(), rows, self.facts, self.target)
        return rows if most >= _ABREAST else None

    # Units of work.

    def _units(self, axis: Node) -> int:
        """How many tiles, alike or not, an axis that runs around others has."""
        found = tiling.equal_tiles(axis, self._of(axis))
        return tiling.size_of(axis) if found is None else sample(found.count)

    def _after_setup(self) -> Sequence[Statement]:
        """The outermost block without reduces that every thread may repeat.

        They depend on no axis, and are brief beside the rest.
        """
        first = [s for s in self.top if isinstance(s, ReduceLoop)]
        cost = int(self.costs.operations(first, 1))
        if not first or _REPEATED * cost > self.operations:
            return self.top
        self.setup = first
        self.setup_operations = cost
        return [s for s in self.top if not isinstance(s, ReduceLoop)]

    def _share(self) -> None:
        """Which loops the threads share, and how much of them makes a unit."""
        block = self._after_setup()
        outer = 1
        while True:
            inner = [s for s in block if not isinstance(s, Let)]
            if len(inner) != 1 or not isinstance(inner[0], Loop):
                break
            loop = inner[0]
            if ir.axis_of(loop.axis).number in self.kernel.ordered:
                break
            if self.parallel:
                outer *= self._units(self.parallel[-1].axis)
            self.parallel.append(loop)
            block = loop.body
            if self.columns is None and (
                tiling.equal_tiles(loop.axis, self._of(loop.axis)) is None
                or outer * self._units(loop.axis) >= _UNITS
            ):
                break
            if loop is self.columns:
                break
        if self.columns is not None:
            self._share_columns(outer)
            return
        if not self.parallel:
            self._share_inside()
            return
        last = self.parallel[-1].axis
        tiles = sum(p.count for p in tiling.cut(tiling.size_of(last), self._of(last)))
        each = max(self.operations // (outer * tiles), 1)
        worth = -(-_UNIT // each)
        few = -(-outer * tiles // _UNITS)
        self.chunk = min(max(worth, few), tiles)

    def _share_columns(self, outer: int) -> None:
        """Stretches of columns whose sums stay in the first cache.

        Long ones, for each row of one is a jump: one for each core, if there is room.
        """
        loop = self.columns
        assert loop is not None
        lanes = self._of(loop.axis).lanes
        if not self.parallel or loop is not self.parallel[-1]:
            self.columns = None
            self._unroll_tile(loop, (loop.axis, lanes))
            return
        tiles = -(-tiling.size_of(loop.axis) // lanes)
        most = _STRETCH // self.target.vector_bytes
        parts = -(-self.target.cores // outer)
        self.chunk = max(min(-(-tiles // parts), most), 1)

    def _share_inside(self) -> None:
        """Under axes that run in order, each thread may take a strip of the others."""
        block: Sequence[Statement] = self.top
        while True:
            inner = [s for s in block if not isinstance(s, Let)]
            if len(inner) != 1 or not isinstance(inner[0], Loop):
                return
            loop = inner[0]
            if ir.axis_of(loop.axis).number not in self.kernel.ordered:
                break
            block = loop.body
        steps = self._of(loop.axis)
        tiles = sum(p.count for p in tiling.cut(tiling.size_of(loop.axis), steps))
        if loop not in self.top and steps.lanes:
            self.strips = loop
            self.chunk = -(-tiles // min(tiles, 2 * self.target.cores))


def _wasted(vectors: int, copies: int, masked: bool) -> bool:
    """Are more vectors computed than there are, by an eighth?"""
    return vectors < copies or (
        masked and vectors * 9 < -(-vectors // copies) * copies * 8
    )


def has_reduce(block: Sequence[Statement]) -> bool:
    """Is there a reduce in a block, or in the loops of its axes?"""
    pending = list(block)
    while pending:
        statement = pending.pop()
        if isinstance(statement, ReduceLoop):
            return True
        if isinstance(statement, Loop):
            pending += statement.body
    return False


def count_values(block: Sequence[Statement]) -> int:
    """How many operations on values there are in a block and its loops."""
    total = 0
    pending = list(block)
    while pending:
        statement = pending.pop()
        if isinstance(statement, Let):
            node = statement.node
            if node.dtype is not ir.INDEX and node.src:
                total += _CALLED_BODY if node.op.name in CALLED else 1
        elif not isinstance(statement, ir.Store):
            pending += statement.body
    return total
