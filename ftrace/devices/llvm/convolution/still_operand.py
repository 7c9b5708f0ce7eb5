"""The operand that does not slide: read where it stands, or from a panel.

Before taps are left out (see `skip_padding.py`), a block of it is looked through for
numbers that are not finite: in runs of what lies side by side.
"""

from __future__ import annotations

from collections.abc import Sequence

from ftrace.devices.affine_forms import Affine
from ftrace.devices.llvm.contraction.microkernel import Place, Walk
from ftrace.devices.llvm.convolution.schedule import Operand
from ftrace.devices.llvm.emit.blocked_ranges import Block, Cut
from ftrace.devices.llvm.emit.pack_panel import fill_panel
from ftrace.devices.llvm.emit.staged_kernel import Panel, Stage
from ftrace.devices.llvm.ir.types import Type
from ftrace.devices.llvm.ir.writer import OpenLoop
from ftrace.lower.kernel.ir import axis_of
from ftrace.trace.graph import Node

#: Vectors that are looked through side by side.
_ABREAST = 4
#: The bits of a float that are all set in infinities and NaN, by its size.
_EXPONENT = {32: 0x7F800000, 64: 0x7FF0000000000000}


class Still:
    """An operand in a stage.

    Attributes:
      panel: None where it is read where it stands.
      steps: elements from one step to the next of each range of a block.
    """

    def __init__(self, stage: Stage, operand: Operand) -> None:
        self.stage, self.operand = stage, operand
        self.panel: Panel | None = None
        o, free = operand, stage.facts.free[operand.node]
        if o.form is not None:
            self.steps = o.form.terms
            return
        self.panel = stage.new_panel(o.node.dtype, o.rows, o.size)
        self.steps = o.positions.steps(o.row, free) | {o.axis: o.pitch}

    def positions(self, depth: Block) -> Block:
        """The block of what is summed over, with the taps."""
        found = Block(self.stage, self.operand.positions, depth.number)
        found.start = depth.start
        return found

    def fill(self, depth: Block, block: Block, lanes: int) -> None:
        """Evaluates it for a block, unless it is read where it stands.

        Args:
          depth: of what is summed over.
          block: of its axis.
          lanes: of a vector at most.
        """
        if self.panel is None:
            return
        o, summed = self.operand, self.positions(depth)
        if o.row > 1:
            fill_panel(self.panel, o.node, o.axis, summed, block, summed, lanes)
            return
        free = self.stage.facts.free[o.node]
        used = [r for r in o.positions.within if r in free]
        last = used[-1] if used else o.axis
        fill_panel(self.panel, o.node, last, block, summed, summed, lanes)

    def place(self, depth: Block, block: Block) -> Place:
        """Where it stands for the first row or column and the first step."""
        values, form = self.stage.values, self.operand.form
        if self.panel is not None or form is None:
            assert self.panel is not None
            return Place(values.buffer(self.panel.number))
        within = {*self.operand.positions.within, self.operand.axis}
        terms = {a: c for a, c in form.terms.items() if a not in within}
        for part in (depth, block):
            split = part.cut.split
            if split is not None and part.start is not None and split in form.terms:
                terms[part.start] = form.terms[split]
        found, constant = values.terms(Affine(form.constant, terms), ())
        number = self.operand.node.src[0].arg
        assert isinstance(number, int)
        return Place(values.buffer(number), tuple(found), constant)

    def is_finite(self, depth: Block, block: Block) -> str:
        """Emits whether all numbers of a block are finite."""
        stage, node = self.stage, self.operand.node
        writer, access, ops = stage.writer, stage.values.access, stage.values.ops
        t = Type.of(node.dtype, stage.target.vector_bytes // node.dtype.itemsize)
        bits = t.integer()
        apart, constant, length = _dense(self.operand, block.cut)
        place = self.place(depth, block).plus(constant=constant)
        state = [bits.zero] * _ABREAST

        def carried(state: Sequence[str]) -> list[tuple[str, str]]:
            return [(bits.text, text) for text in state]

        def looked(state: Sequence[str], place: Place, count: int) -> list[str]:
            """±0 of finite numbers, NaN of others."""
            found = list(state)
            for n in range(count):
                p = access.pointer(
                    place.base, list(place.terms), place.constant + n * t.lanes, t.bytes
                )
                zero = ops.apply("mul", t, access.load(t, p, True), t.zero)
                cast = f"bitcast {t.text} {zero} to {bits.text}"
                text = writer.pure(cast, zero)
                found[n] = ops.binary("or", bits, found[n], text)
            return found

        opened: list[OpenLoop] = []
        for walk in self._loops(apart, self.positions(depth), block):
            loop = writer.open_loop("0", walk.count, 1, carried(state))
            opened.append(loop)
            place = place.plus((walk.left, loop.index))
            state = [name for *_, name in loop.carried]
        wide = t.lanes * _ABREAST
        if whole := length // wide * wide:
            loop = writer.open_loop("0", str(whole), wide, carried(state))
            inner = [name for *_, name in loop.carried]
            inner = looked(inner, place.plus((1, loop.index)), _ABREAST)
            state = writer.close_loop(loop, inner)
        rest, single = divmod(length - whole, t.lanes)
        state = looked(state, place.plus(constant=whole), rest)
        if single:  # some are looked at again
            state = looked(state, place.plus(constant=length - t.lanes), 1)
        for loop in reversed(opened):
            state = writer.close_loop(loop, state)
        return _none_is_special(stage, t, state)

    def _loops(self, apart: Sequence[Node], *blocks: Block) -> list[Walk]:
        """Over where runs begin."""
        found: list[Walk] = []
        for r in reversed(apart):
            (block,) = (b for b in blocks if r in b.cut.within)
            found.append(Walk(block.extent(r), self.steps[r], 0))
        return found


def can_look_through(operand: Operand, block: Cut, lanes: int) -> bool:
    """Does an operand lie in runs that are a vector long at least?"""
    return _dense(operand, block)[2] >= lanes


def _dense(operand: Operand, block: Cut) -> tuple[list[Node], int, int]:
    """Ranges that lie apart, the place of the first number, and how long a run is."""
    if operand.form is None:
        return [], 0, operand.rows * operand.size
    terms = operand.form.terms
    ranges: list[tuple[Node, int, bool]] = []
    for cut in (operand.positions, block):
        for r, size in zip(cut.within, cut.extents, strict=True):
            uneven = r is cut.split and axis_of(r).size % size > 0
            if terms.get(r, 0):
                ranges.append((r, size, uneven))
    ranges.sort(key=lambda r: abs(terms[r[0]]))
    apart: list[Node] = []
    length, constant = 1, 0
    for r, size, uneven in ranges:
        if apart or uneven or abs(terms[r]) != length:
            apart.append(r)
            continue
        constant += min(terms[r], 0) * (size - 1)
        length *= size
    return apart, constant, length


def _none_is_special(stage: Stage, t: Type, state: Sequence[str]) -> str:
    writer, ops, bits = stage.writer, stage.values.ops, t.integer()
    total, *others = state
    for other in others:
        total = ops.binary("or", bits, total, other)
    name, scalar = f"@llvm.vector.reduce.or.{bits.suffix}", bits.with_lanes(0).text
    writer.declare(f"declare {scalar} {name}({bits.text})")
    whole = writer.pure(f"call {scalar} {name}({bits.text} {total})", total)
    special = writer.pure(f"and {scalar} {whole}, {_EXPONENT[t.bits]}", whole)
    return writer.pure(f"icmp eq {scalar} {special}, 0", special)
