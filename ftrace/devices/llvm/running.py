"""A running reduction as LLVM IR.

Along a contiguous axis a vector holds neighbours: each is combined with what is 1, 2,
4, … places before it, also where that was in the vector before. It then stands for as
many elements as a vector has, and is all that misses in the result a vector before:

    a b c d | e f g h -> … | de ef fg gh -> … | bcde cdef defg efgh
    a ab abc abcd     ∘                         bcde cdef defg efgh

so that from one vector to the next there is one step only, in which no lane looks at
another. In the first vector the lanes that look too far back stay as they are, and it
is its own result. Rows are the units that threads share.
Along another axis the lanes are columns; a unit is a strip of columns, whose
combinations stay in registers, or in the first cache where they are many, while the
rows of the strip stream by. Columns that fill no vector begin earlier, and are
computed twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from ftrace.devices.llvm.render import Rendered
from ftrace.devices.llvm.running_columns import Columns
from ftrace.devices.llvm.running_lines import Lines, Mask, State
from ftrace.devices.llvm.streaming import large_results, module
from ftrace.devices.llvm.target import Target
from ftrace.devices.llvm.types import Type, mask_type
from ftrace.devices.llvm.work import WORTH_A_THREAD
from ftrace.devices.llvm.writer import Writer
from ftrace.lower.running import Running

#: Operations of an operator that is unrolled at all.
_CHEAP = 3


class Rows(Lines):
    """Lanes are neighbours, which are combined with each other first."""

    def units(self) -> int:
        """Each unit is a row. Returns how many there are."""
        kernel, writer = self.kernel, self.writer
        row = writer.open_loop("%begin", "%end", 1, guarded=True)
        before = self._start(row.index) if kernel.started else None
        carried = self._whole_vectors(row.index, before)
        rest = kernel.size % self.lanes
        if rest:
            place = self._place(row.index, str(kernel.size - rest), self.lanes)
            mask = Mask(self.lanes, rest, kernel.reverse)
            self._vector(place, carried, before, mask)
        writer.close_loop(row)
        return kernel.outer

    def _place(self, row: str, done: str, width: int) -> str:
        """Where the next `width` elements of a row are, after so many."""
        size, sums = self.kernel.size, self.access
        if self.kernel.reverse:
            return sums.sum_terms([(size, row), (-1, done)], size - width)
        return sums.sum_terms([(size, row), (1, done)])

    def _start(self, row: str) -> State:
        """What comes before a row, in all lanes."""
        first = len(self.kernel.buffers) - len(self.state)
        found: State = {}
        for n, (register, t) in enumerate(self.types()):
            p = self.access.pointer(self.buffer(first + n), [(1, row)], 0, t.bytes)
            one = Type.of(self.kernel.buffers[first + n].dtype, 0)
            found[register] = self.ops.splat(self.access.load(one, p, True), t)
        return found

    def _whole_vectors(self, row: str, before: State | None) -> list[State]:
        """The whole vectors of a row; returns what a next one would look back at."""
        size, lanes = self.kernel.size, self.lanes
        if size < lanes:
            return []
        carried = self._vector(self._place(row, "0", lanes), [], before)
        together = _unrolled(self.kernel)
        whole = size - size % lanes
        groups = lanes + (whole - lanes) // (together * lanes) * together * lanes
        for start, stop, count in ((lanes, groups, together), (groups, whole, 1)):
            if start == stop:
                continue
            held = [(t.text, s[r]) for s in carried for r, t in self.types()]
            loop = self.writer.open_loop(str(start), str(stop), count * lanes, held)
            carried = self._states([name for _, _, name in loop.carried])
            for n in range(count):
                at = self.access.sum_terms([(1, loop.index)], n * lanes)
                carried = self._vector(self._place(row, at, lanes), carried, None)
            after = [s[r] for s in carried for r in self.state]
            carried = self._states(self.writer.close_loop(loop, after))
        return carried

    def _states(self, values: Sequence[str]) -> list[State]:
        """The inverse of putting the registers of states one after the other."""
        count = len(self.state)
        starts = range(0, len(values), count)
        return [
            dict(zip(self.state, values[n : n + count], strict=True)) for n in starts
        ]

    def _vector(
        self,
        place: str,
        carried: Sequence[State],
        before: State | None,
        mask: Mask | None = None,
    ) -> list[State]:
        """The results of a vector.

        Args:
          carried: what this returned for the vector before it; empty for the first.
          before: what comes before the first one, in all lanes.
        """
        windows = self._windows(self.enter(place, mask), carried)
        *shorter, own = windows
        left = carried[-1] if carried else before
        result = own if left is None else self.combine(left, own)
        self.leave(result, place, mask)
        return [*shorter, result]

    def _windows(self, state: State, carried: Sequence[State]) -> list[State]:
        """Combinations that end at each lane, of 1, 2, 4, … elements, to all lanes.

        Args:
          carried: those of the vector before but the longest; empty for the first.
        """
        lanes, found = self.lanes, [state]
        while (distance := 1 << (len(found) - 1)) < lanes:
            places = range(lanes - distance, 2 * lanes - distance)
            inside = mask_type(lanes).lanewise([i >= distance for i in range(lanes)])
            earlier = carried[len(found) - 1] if carried else state
            shifted = {
                register: self.ops.shuffle(
                    t, earlier[register], state[register], places
                )
                for register, t in self.state.items()
            }
            both = self.combine(shifted, state)
            if not carried:
                both = {
                    register: self.ops.select(
                        inside, t, both[register], state[register]
                    )
                    for register, t in self.state.items()
                }
            state = both
            found.append(state)
        return found


def _unrolled(kernel: Running) -> int:
    """How many vectors of a row are in the body of a loop."""
    each = kernel.operations_of_operator
    return 4 if each <= 1 else 2 if each <= _CHEAP else 1


def _streamed(kernel: Running, target: Target) -> frozenset[int]:
    """Results that are stored past the caches: rows of whole vectors."""
    if kernel.inner > 1 or kernel.size % target.vector_bytes:
        return frozenset()
    written = [n for n, spec in enumerate(kernel.buffers) if spec.written]
    return large_results(kernel, written, target)


def render_running(kernel: Running, target: Target, name: str) -> Rendered:
    """The code of a legal running reduction, as function `name`."""
    units = 1

    def build(streamed: frozenset[int]) -> Writer:
        nonlocal units
        kind = Rows if kernel.inner == 1 else Columns
        lines = kind(kernel, target, streamed)
        units = lines.units()
        return lines.writer

    text = module(target, name, _streamed(kernel, target), build)
    each = max(kernel.operations // units, 1)
    return Rendered(text, units, -(-WORTH_A_THREAD // each))
