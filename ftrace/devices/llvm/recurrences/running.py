"""A running reduction as LLVM IR.

Along a contiguous axis a vector holds neighbours: each is combined with what is 1, 2,
4, … places before it, also where that was in the vector before. It then stands for as
many elements as a vector has, and is all that misses in the result a vector before:

    a b c d | e f g h -> … | de ef fg gh -> … | bcde cdef defg efgh
    a ab abc abcd     ∘                         bcde cdef defg efgh

so that from one vector to the next there is one step only, in which no lane looks at
another. In the first vector the lanes that look too far back stay as they are, and it
is its own result. Rows are the units that threads share. Few columns are such a row as
well, in which each element looks back by whole numbers of columns.
Along another axis the lanes are columns; a unit is a strip of columns, whose
combinations stay in registers, or in the first cache where they are many, while the
rows of the strip stream by. Columns that fill no vector begin earlier, and are
computed twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from ftrace.devices.llvm.ir.types import Type, mask_type
from ftrace.devices.llvm.ir.writer import Writer
from ftrace.devices.llvm.loops.rendered import Rendered
from ftrace.devices.llvm.loops.streaming import large_results, module
from ftrace.devices.llvm.recurrences.running_columns import Columns
from ftrace.devices.llvm.recurrences.running_lines import Lines, Mask, State
from ftrace.devices.llvm.runtime.work import WORTH_A_THREAD
from ftrace.devices.llvm.target import Target
from ftrace.lower.scan_kernels import Running

#: Operations of an operator that is unrolled at all.
_CHEAP = 3


class Rows(Lines):
    """Lanes are neighbours, which are combined with each other first.

    Attributes:
      length: elements of a row, of all columns.
      distances: how far the lanes of a window look back, step by step.
      reach: how far a result looks back to the one that it continues.
      behind: so many vectors of results hold that one.
    """

    def __init__(
        self, kernel: Running, target: Target, streamed: frozenset[int] = frozenset()
    ) -> None:
        super().__init__(kernel, target, streamed)
        self.turned = kernel.reverse
        self.length = kernel.size * kernel.inner
        self.distances: list[int] = []
        self.reach = kernel.inner
        while self.reach < self.lanes:
            self.distances.append(self.reach)
            self.reach *= 2
        self.behind = -(-self.reach // self.lanes)

    def units(self) -> int:
        """Each unit is a row. Returns how many there are."""
        kernel, writer = self.kernel, self.writer
        row = writer.open_loop("%begin", "%end", 1, guarded=True)
        before = self._start(row.index) if kernel.started else None
        carried = self._whole_vectors(row.index, before)
        whole, rest = divmod(self.length, self.lanes)
        if rest:
            place = self._place(row.index, str(self.length - rest), self.lanes)
            mask = Mask(self.lanes, rest, kernel.reverse)
            self._vector(place, carried, whole, before, mask)
        writer.close_loop(row)
        return kernel.outer

    def _place(self, row: str, done: str, width: int) -> str:
        """Where the next `width` elements of a row are, after so many."""
        size, sums = self.length, self.access
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
        lanes, carried = self.lanes, list[State]()
        count = self.length // lanes
        first = min(self.behind, count)
        for n in range(first):
            place = self._place(row, str(n * lanes), lanes)
            carried = self._vector(place, carried, n, before)
        together = _unrolled(self.kernel)
        groups = first + (count - first) // together * together
        for start, stop, each in ((first, groups, together), (groups, count, 1)):
            if start == stop:
                continue
            held = [(t.text, s[r]) for s in carried for r, t in self.types()]
            begin, end = str(start * lanes), str(stop * lanes)
            loop = self.writer.open_loop(begin, end, each * lanes, held)
            carried = self._states([name for _, _, name in loop.carried])
            for n in range(each):
                at = self.access.sum_terms([(1, loop.index)], n * lanes)
                place = self._place(row, at, lanes)
                carried = self._vector(place, carried, self.behind)
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
        number: int,
        before: State | None = None,
        mask: Mask | None = None,
    ) -> list[State]:
        """The results of a vector.

        Args:
          carried: what this returned for the vector before it; empty for the first.
          number: how many vectors are before it; `behind` stands for any more.
          before: what comes before a row, in all lanes.

        Returns:
          The windows that are not the longest, and results, the latest first.
        """
        levels = len(self.distances)
        *shorter, own = self._windows(self.enter(place, mask), carried[:levels], number)
        results = carried[levels:]
        if before is not None and not number:
            own = self.combine(before, own)
        far, shift = divmod(self.reach, self.lanes)
        if len(results) >= far:  # the vector `far` before this one, and its neighbour
            latest = results[far - 1]
            older = results[far] if len(results) > far else latest
            earlier = self._shifted(older, latest, shift) if shift else latest
            own = self._joined(earlier, own, self.reach, number)
        self.leave(own, place, mask)
        return [*shorter, own, *results[: self.behind - 1]]

    def _windows(
        self, state: State, carried: Sequence[State], number: int
    ) -> list[State]:
        """Combinations that end at each lane, of 1, 2, 4, … elements, to all lanes."""
        found = [state]
        for n, distance in enumerate(self.distances):
            earlier = self._shifted(carried[n] if carried else state, state, distance)
            state = self._joined(earlier, state, distance, number)
            found.append(state)
        return found

    def _shifted(self, earlier: State, state: State, distance: int) -> State:
        """What is so many places before each lane, in this vector or the last one."""
        places = range(self.lanes - distance, 2 * self.lanes - distance)
        return {
            register: self.ops.shuffle(t, earlier[register], state[register], places)
            for register, t in self.state.items()
        }

    def _joined(self, left: State, right: State, distance: int, number: int) -> State:
        """Both combined in the lanes of vector `number` that look back so far."""
        places = range(number * self.lanes, (number + 1) * self.lanes)
        inside = [number >= self.behind or place >= distance for place in places]
        if not any(inside):
            return right
        both = self.combine(left, right)
        if all(inside):
            return both
        lanes = mask_type(self.lanes).lanewise(inside)
        return {
            register: self.ops.select(lanes, t, both[register], right[register])
            for register, t in self.state.items()
        }


def _unrolled(kernel: Running) -> int:
    """How many vectors of a row are in the body of a loop."""
    each = kernel.operations_of_operator
    return 4 if each <= 1 else 2 if each <= _CHEAP else 1


def _is_row(kernel: Running, target: Target) -> bool:
    """Is it one, or few columns of which a vector holds several elements?"""
    if kernel.inner == 1:
        return True
    cheap = kernel.operations_of_operator <= _CHEAP and not kernel.started
    return cheap and kernel.inner < Lines(kernel, target).lanes


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
        kind = Rows if _is_row(kernel, target) else Columns
        lines = kind(kernel, target, streamed)
        units = lines.units()
        return lines.writer

    text = module(target, name, _streamed(kernel, target), build)
    each = max(kernel.operations // units, 1)
    return Rendered(text, units, -(-WORTH_A_THREAD // each))
