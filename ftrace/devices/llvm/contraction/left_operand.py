"""The operand of a product that has nothing to do with its window.

It is read where it stands, if it is a plain load; or block by block from a panel, into
which any expression is evaluated.
"""

from __future__ import annotations

from ftrace.devices.affine_forms import Affine
from ftrace.devices.llvm.contraction.find import is_plain
from ftrace.devices.llvm.contraction.microkernel import Place
from ftrace.devices.llvm.emit.blocked_ranges import Block, Cut
from ftrace.devices.llvm.emit.pack_panel import fill_panel
from ftrace.devices.llvm.emit.staged_kernel import Panel, Stage
from ftrace.devices.llvm.schedule.index_facts import Facts, index_of
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.kernel.ir import axis_of, load_p, range_p
from ftrace.trace.graph import Node
from ftrace.trace.symbolic.dim import same_size

#: Rows of an operand so far apart (in bytes) are put together.
_FAR = 4096


def is_even(node: Node, facts: Facts) -> bool:
    """Is it a load, nowhere masked, at an index that is a sum of ranges?"""
    if node.op is not load_p or len(node.src) > 2:
        return False
    return all(atom.op is range_p for atom in facts.affine[index_of(node)].terms)


@dataclass(eq=False)
class Factor:
    """An operand, and where it stands.

    Attributes:
      axis: its own axis, rows or columns.
      block: the block of it that is open.
      depth: how what is summed over is cut, beside the taps.
      taps: what else is summed over, whole in each block.
      panel: None where it is read where it stands.
      pitch: elements from one value of the axis to the next.
      row: elements from one position of what is summed over to the next.
    """

    stage: Stage
    node: Node
    axis: Node
    depth: Cut
    taps: tuple[Node, ...]
    panel: Panel | None
    pitch: int
    row: int

    @staticmethod
    def of_rows(
        stage: Stage, node: Node, axis: Node, depth: Cut, taps: tuple[Node, ...],
        height: int,
    ) -> Factor:  # fmt: skip
        """Of numbers that are spread over vectors: any even load will do."""
        if is_even(node, stage.facts):
            pitch = stage.facts.affine[index_of(node)].terms[axis]
            return Factor(stage, node, axis, depth, taps, None, pitch, 0)
        found = Factor(stage, node, axis, depth, taps, None, 0, 1)
        pitch = Block(stage, found.positions, "0").positions(node)
        if pitch * node.dtype.itemsize % 1024 == 0:  # they would share sets of L1
            pitch += stage.target.vector_bytes // node.dtype.itemsize
        found.pitch = pitch
        found.panel = stage.new_panel(node.dtype, height, pitch)
        return found

    @staticmethod
    def of_columns(
        stage: Stage, node: Node, axis: Node, depth: Cut, taps: tuple[Node, ...],
        length: int, width: int,
    ) -> Factor:  # fmt: skip
        """Of whole vectors: those of a load must be side by side, and near each other.

        Args:
          length: columns of a block, from the first of one to that of the next.
          width: how many columns tiles read there; all of them have to be columns.
        """
        facts, item = stage.facts, node.dtype.itemsize
        if is_even(node, facts) and is_plain(node, axis, facts):
            terms = facts.affine[index_of(node)].terms
            steps = [abs(terms.get(r, 0)) for r in (*depth.outer, *depth.within, *taps)]
            near = min((n for n in steps if n), default=0) * item < _FAR
            rests = axis_of(axis).size % width, length % width
            if near and same_size(rests, (0, 0)):
                return Factor(stage, node, axis, depth, taps, None, 1, 0)
        found = Factor(stage, node, axis, depth, taps, None, 1, width)
        count = Block(stage, found.positions, "0").positions(node)
        found.panel = stage.new_panel(node.dtype, count, width)
        return found

    @property
    def positions(self) -> Cut:
        """What is summed over in a block, taps last."""
        cut = self.depth
        return Cut((), cut.split, cut.size, (*cut.inner, *self.taps))

    @property
    def form(self) -> Affine:
        """The index of a load."""
        return self.stage.facts.affine[index_of(self.node)]

    def fill(self, depth: Block, block: Block, lanes: int) -> None:
        """Evaluates it for a block, unless it is read where it stands.

        Args:
          depth: of what is summed over.
          block: of its axis.
          lanes: of a vector at most.
        """
        if self.panel is None:
            return
        summed = Block(self.stage, self.positions, depth.number)
        summed.start = depth.start
        if self.row > 1:
            fill_panel(self.panel, self.node, self.axis, summed, block, summed, lanes)
            return
        free = self.stage.facts.free[self.node]
        used = [r for r in self.positions.within if r in free]
        last = used[-1] if used else self.axis
        fill_panel(self.panel, self.node, last, block, summed, summed, lanes)

    def place(self, depth: Block, block: Block) -> Place:
        """Where it stands for the first row or column and the first step."""
        values = self.stage.values
        if self.panel is not None:
            return Place(values.buffer(self.panel.number))
        form = self.form
        within = {*depth.cut.within, *self.taps, self.axis}
        terms = {a: c for a, c in form.terms.items() if a not in within}
        for part in (depth, block):
            split = part.cut.split
            if split is not None and part.start is not None and split in form.terms:
                terms[part.start] = form.terms[split]
        found, constant = values.terms(Affine(form.constant, terms), ())
        number = self.node.src[0].arg
        assert isinstance(number, int)
        return Place(values.buffer(number), tuple(found), constant)

    def steps(self) -> dict[Node, int]:
        """Elements from one step to the next of each range of a block."""
        if self.panel is None:
            return self.form.terms
        return self.positions.steps(self.row, self.stage.facts.free[self.node])
