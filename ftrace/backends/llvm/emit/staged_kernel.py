"""Parts of a kernel that run one after the other on a block that fits in the cache.

What a part leaves for the next stands in scratch memory, in a *panel*: rows of columns
side by side. Each part is a small kernel of its own over ranges of the big one, with
the panels among its buffers; ranges of the blocks around it are open already.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import field
from math import prod
from typing import Any

import numpy as np

from ftrace.backends.llvm.emit.emit_memory import Values
from ftrace.backends.llvm.emit.emit_values import Opened
from ftrace.backends.llvm.emit.loop_nest import Nest, TileSpan
from ftrace.backends.llvm.ir.symbols import GIVE, STOP, TAKE
from ftrace.backends.llvm.ir.writer import Type, Writer, digits, literal
from ftrace.backends.llvm.schedule import layout
from ftrace.backends.llvm.schedule.index_facts import Facts
from ftrace.backends.llvm.schedule.loop_tiling import OWN_RANGES, RangeTiling, Tiling
from ftrace.backends.llvm.target import Target
from ftrace.ground.fast_dataclasses import NamedTuple, dataclass
from ftrace.lower.kernel import ir
from ftrace.lower.kernel.loop_tree import build_loops
from ftrace.trace.graph import Node
from ftrace.trace.symbolic import is_dynamic, same_size

#: Scratch beyond this is not on the stack: a thread may have a small one.
_STACK = 160 << 10
#: Ranges that name where blocks begin are numbered from here.
_FIRST_NUMBER = OWN_RANGES + 8


def _take_scratch(writer: Writer, nbytes: int) -> str:
    """Takes so much until the function returns; without memory the call is stopped."""
    take = writer.call("ptr", f"@{TAKE}", ("i64", nbytes), symbol=TAKE)
    scratch = writer.here(take)
    none = writer.here(f"icmp eq ptr {scratch}, null")
    stop = writer.call("void", f"@{STOP}", ("ptr", "%buffers"), symbol=STOP)
    writer.return_if(none, stop)
    give = writer.call("void", f"@{GIVE}", ("ptr", scratch), symbol=GIVE)
    writer.at_return(give)
    return scratch


@dataclass(eq=False)
class Scratch:
    """Scratch memory: rows of `pitch` elements, which are a buffer to the parts."""

    staged: StagedKernel
    number: int
    dtype: np.dtype[Any]
    rows: int
    pitch: int

    @property
    def size(self) -> int:
        return self.rows * self.pitch

    def load(self, index: Node) -> Node:
        return ir.load(ir.param(self.number, self.dtype, self.size), index)


class Unit(NamedTuple):
    """The unit of a kernel that is open.

    Attributes:
      number: which it is.
      blocks: which block of each cut it is.
      count: how many units there are.
    """

    number: str
    blocks: dict[layout.Cut, str]
    count: Any


@dataclass(eq=False)
class StagedKernel:
    """The function of a kernel that runs in parts.

    Attributes:
      opened: the ranges that are open around the parts.
    """

    kernel: ir.Kernel
    target: Target
    facts: Facts
    values: Values
    opened: list[Opened] = field(default_factory=list[Opened])
    _ranges: int = _FIRST_NUMBER
    _buffers: int = 0

    @property
    def writer(self) -> Writer:
        return self.values.writer

    def scale(self, number: str, by: int, plus: int = 0) -> str:
        """`number`·`by` + `plus`."""
        return self.values.access.sum_terms([(by, number)], plus)

    def new_range(self, size: int, reduced: bool = False) -> Node:
        """A range that is not the kernel's."""
        self._ranges += 1
        node = ir.make_range(self._ranges, size, reduced)
        self.facts.learn([node])
        return node

    def new_panels(
        self, wanted: Sequence[layout.Memory]
    ) -> dict[tuple[str, Node], Scratch]:
        """Scratch memory: on the stack while there is room, before all else is done.

        In padded rows vectors are read and written whole at the end, too.
        """
        writer, values, room = self.writer, self.values, _STACK
        panels = dict[tuple[str, Node], Scratch]()
        starts, taken = dict[Scratch, int](), 0
        for found in wanted:
            number, dtype = self._new_buffer(), found.node.dtype
            panel = Scratch(self, number, dtype, found.rows, found.pitch)
            panels[found.key] = panel
            if isinstance(found, layout.Panel) and found.padded:
                values.padded.add(number)
            # Vectors at the end of a row may reach beyond the last one.
            nbytes = panel.size * dtype.itemsize + 2 * self.target.vector_bytes
            if nbytes <= room:
                room -= nbytes
                place = writer.here(f"alloca [{nbytes} x i8], align 64")
                values.add_buffer(number, place, panel.size)
            else:
                starts[panel] = taken
                taken += -(-nbytes // 64) * 64 + 64
        scratch = _take_scratch(writer, taken) if taken else ""
        for panel, start in starts.items():
            place = writer.here(f"getelementptr i8, ptr {scratch}, i64 {start}")
            values.add_buffer(panel.number, place, panel.size)
        return panels

    def new_view(self, number: int, group: int) -> None:
        """A buffer of the kernel is seen as elements `group` times as large."""
        view = self._new_buffer()
        size = self.values.sizes[number] // group
        self.values.add_buffer(view, self.values.buffer(number), size)
        if number not in self.values.fixed:
            self.values.fixed.discard(view)  # nothing is written there

    def _new_buffer(self) -> int:
        """The number of a buffer that is not the kernel's."""
        self._buffers += 1
        return len(self.kernel.buffers) + self._buffers - 1

    # Ranges around the parts.

    @contextmanager
    def units(self, places: Sequence[Node | layout.Cut]) -> Generator[Unit, None, None]:
        """The loop of the function over its units.

        Args:
          places: what tells units apart, outermost first: axes, which are open inside,
            and cuts.
        """
        writer, number = self.writer, self.values.number
        sizes = [
            ir.axis_of(p).size if isinstance(p, Node) else p.blocks for p in places
        ]
        one = same_size(prod(sizes), 1)
        frame = nullcontext(literal(0)) if one else writer.units()
        with frame as unit, ExitStack() as opened:
            texts = [number(size) if is_dynamic(size) else size for size in sizes]
            found = list(zip(places, digits(writer, unit, texts), strict=True))
            for p, text in found:
                if isinstance(p, Node):
                    opened.enter_context(self.at(p, text))
            blocks = {p: text for p, text in found if not isinstance(p, Node)}
            yield Unit(unit, blocks, prod(sizes))

    @contextmanager
    def at(self, node: Node, base: str) -> Generator[None, None, None]:
        """Inside, the range has one value."""
        self.opened.append(Opened(node, base, self.writer.level))
        with self.values.within(self.opened[-1]):
            yield
        self.opened.pop()

    # Parts.

    def run(
        self,
        axes: Sequence[Node],
        stores: Sequence[ir.Store],
        steps: Mapping[Node, RangeTiling],
        spans: Mapping[Node, TileSpan],
        **directives: Any,
    ) -> None:
        """A part: loops over `axes`, of which `spans` run in part, and stores.

        Args:
          directives: what else a `Tiling` says.
        """
        around = [o.node for o in self.opened]
        kernel = ir.Kernel((*around, *axes), tuple(stores), self.kernel.buffers)
        self.facts.learn([e for s in stores for e in s.expressions])
        tiling = Tiling(steps, **directives)
        Nest(self.values, tiling, spans).block(build_loops(kernel))

    def set_constant(self, panel: Scratch, value: Any, first: int = 0) -> None:
        """Sets the columns of a panel from `first` to the end of the row."""
        lanes = self.target.vector_bytes // panel.dtype.itemsize
        t = Type.of(panel.dtype, lanes)
        writer, access = self.writer, self.values.access
        base = self.values.buffer(panel.number)
        start = first // lanes * lanes
        if start >= panel.pitch:
            return
        with (
            writer.loop(literal(0), literal(panel.rows)) as row,
            writer.loop(literal(start), literal(panel.pitch), lanes) as column,
        ):
            terms = [(panel.pitch, row), (1, column)]
            p = access.pointer(base, terms, 0, panel.dtype.itemsize)
            access.store(t, t.constant(value), p)
