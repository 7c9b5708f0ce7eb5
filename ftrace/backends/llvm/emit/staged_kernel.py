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
from ftrace.backends.llvm.emit.loop_nest import Nest, Span
from ftrace.backends.llvm.ir.symbols import GIVE, STOP, TAKE
from ftrace.backends.llvm.ir.writer import Type, Writer, digits, literal
from ftrace.backends.llvm.schedule.index_facts import Facts
from ftrace.backends.llvm.schedule.layout import Cut
from ftrace.backends.llvm.schedule.tiling_ir import OWN_RANGES, RangeTiling, Tiling
from ftrace.backends.llvm.target import Target
from ftrace.ground.fast_dataclasses import NamedTuple, dataclass
from ftrace.lower.kernel import ir
from ftrace.lower.kernel.loop_tree import build_loops
from ftrace.trace.graph import Node
from ftrace.trace.symbolic import is_dynamic, same_size

#: Scratch beyond this is not on the stack: a thread may have a small one.
_STACK = 160 << 10
_GIVEN = f"call void @{GIVE}(ptr %scratch)"
#: The block in which the work goes on, if there is memory.
_WORK = "work"
#: Ranges that name where blocks begin are numbered from here.
_FIRST_NUMBER = OWN_RANGES + 8


def _take_scratch(nbytes: int) -> list[str]:
    """Takes so much scratch; without memory the call is stopped."""
    return [
        f"  %scratch = call ptr @{TAKE}(i64 {nbytes})",
        "  %scratch.none = icmp eq ptr %scratch, null",
        f"  br i1 %scratch.none, label %stop, label %{_WORK}",
        "stop:",
        f"  call void @{STOP}(ptr %buffers)",
        "  ret void",
        f"{_WORK}:",
    ]


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
    blocks: dict[Cut, str]
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
    _stack: int = 0
    _heap: int = 0

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

    def new_panel(
        self, dtype: np.dtype[Any], rows: int, pitch: int, padded: bool = False
    ) -> Scratch:
        """Scratch memory; `padded` if rows are whole vectors long, whatever is in them.

        Vectors are then read and written whole at the end of a row, too.
        """
        number = len(self.kernel.buffers) + self._buffers
        self._buffers += 1
        panel = Scratch(self, number, dtype, rows, pitch)
        # Vectors at the end of a row may reach beyond the last one.
        nbytes = panel.size * dtype.itemsize + 2 * self.target.vector_bytes
        self.values.add_buffer(number, self._allocate(nbytes), panel.size)
        if padded:
            self.values.padded.add(number)
        return panel

    def new_view(self, number: int, group: int) -> None:
        """A buffer of the kernel is seen as elements `group` times as large."""
        view = len(self.kernel.buffers) + self._buffers
        self._buffers += 1
        size = self.values.sizes[number] // group
        self.values.add_buffer(view, self.values.buffer(number), size)
        if number not in self.values.fixed:
            self.values.fixed.discard(view)  # nothing is written there

    def _allocate(self, nbytes: int) -> str:
        writer = self.writer
        assert writer.level.depth == 0
        if self._stack + nbytes <= _STACK:
            self._stack += nbytes
            return writer.memory(f"[{nbytes} x i8]")
        if not self._heap:
            writer.declare(f"declare ptr @{TAKE}(i64)", TAKE)
            writer.declare(f"declare void @{GIVE}(ptr)", GIVE)
            writer.declare(f"declare void @{STOP}(ptr)", STOP)
            writer.leave_entry(_WORK, _GIVEN)
        start = self._heap
        self._heap += -(-nbytes // 64) * 64 + 64
        return writer.here(f"getelementptr i8, ptr %scratch, i64 {start}")

    def release(self) -> None:
        """Gives back what was taken: the last thing in the function."""
        if self._heap:
            self.writer.end_entry(_take_scratch(self._heap))
            self.writer.effect(_GIVEN)

    # Ranges around the parts.

    @contextmanager
    def units(self, places: Sequence[Node | Cut]) -> Generator[Unit, None, None]:
        """The frame of the function: the loop over its units, and what it gives back.

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
        self.release()

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
        spans: Mapping[Node, Span],
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

    def fill(self, panel: Scratch, value: Any, first: int = 0) -> None:
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
