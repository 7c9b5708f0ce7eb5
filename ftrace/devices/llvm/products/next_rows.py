"""Tiles of sums that ask for the rows of the next tile before they are added up.

Where rows are short the processor has seen too few of their lines to guess those that
come next, and each tile would wait for slow memory.
"""

from __future__ import annotations

from typing import Any

from ftrace.devices.affine import Affine
from ftrace.devices.llvm.loops.facts import index_of
from ftrace.devices.llvm.loops.nest import Nest
from ftrace.devices.llvm.loops.tiles import size_of
from ftrace.lower.kernel import load_p
from ftrace.lower.place import ReduceLoop
from ftrace.trace.graph import Node, toposort

#: Bytes of a row: in longer ones the processor has time to see what comes next.
_LONG = 4 << 10


class NextRowsNest(Nest):
    """Asks for what the next tile will read of the left operands.

    Args:
      row: the axis of rows.
    """

    def __init__(self, *arguments: Any, row: Node) -> None:
        super().__init__(*arguments)
        self.row = row

    def reduce(self, loop: ReduceLoop) -> None:
        along = loop.ranges[-1]
        for node in toposort([n.src[0] for n in loop.reduces]):
            if len(loop.ranges) == 1 and self._is_row(node, along):
                self._ask(node, along)
        super().reduce(loop)

    def _is_row(self, node: Node, along: Node) -> bool:
        """Is it a load of short rows, each read from one end to the other?"""
        if node.op is not load_p or len(node.src) > 2:
            return False
        terms = self.values.facts.affine[index_of(node)].terms
        long = size_of(along) * node.dtype.itemsize > _LONG
        return self.row in terms and terms.get(along) == 1 and not long

    def _ask(self, node: Node, along: Node) -> None:
        values, writer, access = self.values, self.writer, self.values.access
        number, size = node.src[0].arg, node.dtype.itemsize
        assert isinstance(number, int)
        index = index_of(node)
        form, rows = values.facts.affine[index], values.assignments([index])
        later = len(rows) * form.terms[self.row]
        fixed = {atom: c for atom, c in form.terms.items() if atom is not along}
        begin = Affine(form.constant + later, fixed)
        base = values.buffer(number)
        line = writer.open_loop("0", str(size_of(along)), 64 // size)
        for at in rows:
            terms, constant = values.terms(begin, at)
            terms = [*terms, (1, line.index)]
            p = access.pointer(base, terms, constant, size)
            access.prefetch(p, False, True)
        writer.close_loop(line)
