"""Products with few columns: vectors run along what is summed over.

    right[j][k] <- b(k, j)                  once, turned if it stands otherwise
    out[i, j] <- f(the sum over k of a(i, k) · right[j][k])

Vectors along three columns would be mostly empty, and along the rows far apart in
memory. What is summed over may be taps around channels that lie side by side, of which
some are outside of an image: all lanes are, or none. A tile has a vector of partial
sums for each pair of some rows and a column; their lanes are added up at the end. Long
expressions of the sums are computed for all rows of a unit, which is less code.
"""

from __future__ import annotations

from math import prod

from ftrace.devices.llvm.ir.blocks import Block, Cut, Once
from ftrace.devices.llvm.loops.facts import Facts, index_of
from ftrace.devices.llvm.loops.staging import Panel, Stage, replaced_stores, sum_of
from ftrace.devices.llvm.loops.tiles import Steps, size_of
from ftrace.devices.llvm.products.contraction import Contraction, is_heavy
from ftrace.devices.llvm.products.filling import fill_panel
from ftrace.devices.llvm.products.product import LooseRows
from ftrace.devices.llvm.products.register_tiles import rows_together
from ftrace.devices.llvm.target import Target
from ftrace.lower.kernel import INDEX, Kernel, Store, axis_of, load_p, reduce
from ftrace.records import dataclass
from ftrace.trace.dims import is_dynamic
from ftrace.trace.graph import Node, substitute
from ftrace.trace.primitives.elementwise import mul
from ftrace.trace.primitives.source import const

#: Cycles to add up the lanes of a vector of sums.
_ACROSS = 10.0
#: Rows that make up for the panel of the right operand.
_LEAST_ROWS = 16
#: Rows of a unit, about.
_HEIGHT = 64


@dataclass(frozen=True, eq=False)
class Dots:
    """How a contraction is one of few columns.

    Attributes:
      plan: the contraction.
      row, column: its axes.
      length: what is summed over in vectors; other ranges are around it.
      tile: rows whose sums are in registers at once.
      lanes: of a vector.
    """

    plan: Contraction
    row: Node
    column: Node
    length: Node
    tile: int
    lanes: int


def find_dots(
    kernel: Kernel, plan: Contraction, facts: Facts, target: Target
) -> Dots | None:
    """A contraction as one of few columns, if that is best."""
    sizes = [axis_of(a).size for a in (*kernel.axes, *plan.ranges)]
    if any(map(is_dynamic, sizes)) or len(plan.columns) != 1:
        return None
    (*others, length), (column,) = plan.ranges, plan.columns
    row = max(plan.rows, key=size_of)
    item = max(n.dtype.itemsize for n in (*plan.left, *plan.right, *plan.reduces))
    lanes = target.vector_bytes // item
    wide, deep = size_of(column), prod(map(size_of, plan.ranges))
    if 2 * wide > lanes or deep < 2 * lanes or size_of(row) < _LEAST_ROWS:
        return None
    if others and size_of(length) % lanes:
        return None
    if deep * wide * item * len(plan.right) > target.l1:
        return None
    if not all(_runs_along(n, length, facts) for n in plan.left):
        return None
    # Of sums in vectors of columns, each step takes half a cycle per row.
    if 0.5 * deep <= wide * (0.5 * deep / lanes + _ACROSS):
        return None
    room = target.registers - 1 - wide
    most = rows_together(plan.left, row, facts)
    tile = min(room // ((wide + 1) * len(plan.reduces)), most)
    return Dots(plan, row, column, length, tile, lanes) if tile > 0 else None


def _runs_along(node: Node, length: Node, facts: Facts) -> bool:
    if node.op is not load_p or any(length in facts.free[n] for n in node.src[2:]):
        return False
    form = facts.affine[index_of(node)]
    others = [a for a in form.terms if a is not length]
    if any(length in facts.free[a] for a in others):
        return False
    return form.terms.get(length) == 1


class DotProducts:
    """Emits a product of few columns into a stage."""

    def __init__(self, dots: Dots, stage: Stage) -> None:
        self.dots = dots
        self.stage = stage
        self.rows = LooseRows(stage, dots.row, dots.tile, _HEIGHT)
        plan = dots.plan
        self.others = tuple(a for a in plan.rows if a is not dots.row)

    def emit(self) -> int:
        """Emits the function; returns how many units it has."""
        d, stage = self.dots, self.stage
        self._allocate()
        once = Once(stage)
        inner = (*self.others, self.rows.blocks)
        with stage.units([*d.plan.outer, *inner]) as unit:
            (row,) = unit.blocks
            shared = prod(map(size_of, self.others)) * self.rows.blocks
            number = stage.writer.pure(f"udiv i64 {unit.number}, {shared}", unit.number)
            once.run(number, self._fill)
            with self.rows.at(row):
                self._run()
        return unit.count

    def _allocate(self) -> None:
        """Panels for the right operands, and perhaps for the sums."""
        d, stage = self.dots, self.stage
        self.terms = Block(stage, Cut((), None, 1, d.plan.ranges), "0")
        pitch = (-(-self.terms.positions() // d.lanes) + 1) * d.lanes
        wide = size_of(d.column)
        self.panels: dict[Node, Panel] = {
            node: stage.new_panel(node.dtype, wide, pitch, padded=True)
            for node in d.plan.right
        }
        heavy = is_heavy(d.plan, stage.kernel)
        self.sums: dict[Node, Panel] = {
            node: stage.new_panel(node.dtype, self.rows.length, wide)
            for node in (d.plan.reduces if heavy else ())
        }

    def _fill(self) -> None:
        d, stage = self.dots, self.stage
        columns = Block(stage, Cut((), None, 1, (d.column,)), "0")
        terms = self.terms
        for node, panel in self.panels.items():
            fill_panel(panel, node, d.length, columns, terms, terms, d.lanes)

    def _run(self) -> None:
        d, stage = self.dots, self.stage
        found: dict[Node, Node] = {}
        for node, panel in self.panels.items():
            place = mul(d.column, const(panel.pitch, INDEX))
            found[node] = panel.load(sum_of([place, *self.terms.terms(1, node)]))
        reduces = d.plan.reduces
        values = substitute([n.src[0] for n in reduces], found)
        sums = [
            reduce(str(node.arg), value, d.plan.ranges)
            for node, value in zip(reduces, values, strict=True)
        ]
        axes = d.row, d.column
        copies = 2 if size_of(d.length) >= 4 * d.lanes else 1
        steps = {
            **self.rows.steps,
            d.column: Steps(0, size_of(d.column)),
            d.length: Steps(d.lanes, copies),
        }
        kernel = stage.kernel.stores
        if not self.sums:
            direct = dict[Node, Node](zip(reduces, sums, strict=True))
            stage.run(axes, replaced_stores(kernel, direct), steps, self.rows.spans)
            return
        index = sum_of([*self.rows.terms(size_of(d.column)), d.column])
        panels = [self.sums[node] for node in reduces]
        stores = [
            Store(p.number, index, total) for p, total in zip(panels, sums, strict=True)
        ]
        stage.run(axes, stores, steps, self.rows.spans)
        kept: dict[Node, Node] = {n: p.load(index) for n, p in self.sums.items()}
        lanes = 1 << (size_of(d.column) - 1).bit_length()
        widths = {d.column: Steps(min(lanes, d.lanes))}
        stage.run(axes, replaced_stores(kernel, kept), widths, self.rows.final_spans)
