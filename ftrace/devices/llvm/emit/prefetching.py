"""Loops that ask for memory before it is needed, where a part of a kernel says so.

    each vector of a sum, or of what is stored:  ask for what is read so many steps on
    each tile of rows:                           ask for the rows of the next one

The processor does the same by itself where one loop runs on and on. It does not see in
time where the next of many short pieces begins: rows that are far apart, the pixels of
another image, the rows of a tile of which it has seen too few lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ftrace.devices.affine_forms import Affine
from ftrace.devices.llvm.emit.accumulators import Lines
from ftrace.devices.llvm.emit.addressing import Term
from ftrace.devices.llvm.emit.loop_nest import Nest
from ftrace.devices.llvm.emit.open_ranges import At, Opened
from ftrace.devices.llvm.schedule.index_facts import Facts, index_of
from ftrace.devices.llvm.schedule.tiling_ir import size_of
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.kernel.ir import Store, load_p
from ftrace.lower.kernel.loop_tree import ReduceLoop
from ftrace.trace.graph import Node, toposort

#: Bytes of a row: in longer ones the processor has time to see what comes next.
_LONG = 4 << 10


@dataclass(frozen=True, eq=False)
class Prefetch:
    """What is asked for: some loads, as they are so many steps of a range later.

    Attributes:
      along: the range; where it is not open nothing is asked for.
      steps: how many of its steps later they will be.
    """

    loads: Sequence[Node]
    along: Node
    steps: int = 1

    @staticmethod
    def of(
        values: Sequence[Node], vector: Node, along: Node, steps: int, facts: Facts
    ) -> Prefetch:
        """Of the loads in expressions that are whole vectors, nowhere masked."""
        loads = [n for n in toposort(values) if n.op is load_p and len(n.src) == 2]
        plain = [n for n in loads if facts.affine[index_of(n)].terms.get(vector) == 1]
        return Prefetch(plain, along, steps)


class PrefetchingNest(Nest):
    """Asks for what is read later.

    Lines go to the second cache: rows far apart often share a set of the first.

    Args:
      prefetch: what is asked for with each vector.
      rows: the axis of tiles that ask for the next one's rows of left operands, into
        the first cache.
    """

    def __init__(
        self, *args: Any, prefetch: Prefetch | None = None, rows: Node | None = None
    ) -> None:
        super().__init__(*args)
        self.prefetch = prefetch
        self.rows = rows

    def accumulate(
        self, loop: ReduceLoop, opened: Opened, lines: Lines, state: list[str]
    ) -> list[str]:
        state = super().accumulate(loop, opened, lines, state)
        self._ask()
        return state

    def store(self, store: Store) -> None:
        self._ask()
        super().store(store)

    def _ask(self) -> None:
        values, vector, asked = self.values, self.values.vector, self.prefetch
        if asked is None or vector is None or not values.is_open(asked.along):
            return
        for node in asked.loads:
            form, size = values.facts.affine[index_of(node)], node.dtype.itemsize
            later = asked.steps * form.terms.get(asked.along, 0)
            step = abs(form.terms.get(vector.node, 0))
            if not later:
                continue
            for at in values.assignments([node]):
                for part in range(0, vector.lanes * step * size, 64):
                    self._prefetch(node, form.shifted(later + part // size), at, False)

    def reduce(self, loop: ReduceLoop) -> None:
        along, single = loop.ranges[-1], len(loop.ranges) == 1
        asked = [n.src[0] for n in loop.reduces] if self.rows and single else ()
        for node in toposort(asked):
            if self._is_row(node, along):
                self._ask_for_rows(node, along)
        super().reduce(loop)

    def _is_row(self, node: Node, along: Node) -> bool:
        """Is it a load of short rows, each read from one end to the other?"""
        if self.rows is None or node.op is not load_p or len(node.src) > 2:
            return False
        terms = self.values.facts.affine[index_of(node)].terms
        long = size_of(along) * node.dtype.itemsize > _LONG
        return self.rows in terms and terms.get(along) == 1 and not long

    def _ask_for_rows(self, node: Node, along: Node) -> None:
        values, index = self.values, index_of(node)
        form, rows = values.facts.affine[index], values.assignments([index])
        fixed = {atom: c for atom, c in form.terms.items() if atom is not along}
        begin = Affine(form.constant, fixed)
        assert self.rows is not None
        begin = begin.shifted(len(rows) * form.terms[self.rows])
        stop, step = str(size_of(along)), 64 // node.dtype.itemsize
        line = self.writer.open_loop("0", stop, step)
        for at in rows:
            self._prefetch(node, begin, at, True, [(1, line.index)])
        self.writer.close_loop(line)

    def _prefetch(
        self,
        node: Node,
        form: Affine,
        at: At,
        near: bool,
        more: Sequence[Term] = (),
    ) -> None:
        number, size = node.src[0].arg, node.dtype.itemsize
        assert isinstance(number, int)
        values, base = self.values, self.values.buffer(number)
        terms, constant = values.terms(form, at)
        p = values.access.pointer(base, [*terms, *more], constant, size)
        values.access.prefetch(p, False, near)
