"""A running reduction as LLVM IR.

Along a contiguous axis a vector holds neighbours: they are combined in the register,
with those 1, 2, 4, … places before, and then with all before the vector,

    [a b c d] -> [a ab bc cd] -> [a ab abc abcd] -> carry ∘ that

so that from one vector to the next there is one step only; and where the operator is
cheap, one from several vectors to the next. Rows are the units that threads share.
Along another axis the lanes are columns; a unit is a strip of columns, whose
combinations stay in registers, or in the first cache where they are many, while the
rows of the strip stream by. Columns that fill no vector begin earlier, and are
computed twice.
"""

from __future__ import annotations

from ftrace.devices.llvm.render import Rendered
from ftrace.devices.llvm.running_columns import Columns
from ftrace.devices.llvm.running_lines import Lines, Mask, State
from ftrace.devices.llvm.streaming import large_results, module
from ftrace.devices.llvm.target import Target
from ftrace.devices.llvm.types import Type, mask_type
from ftrace.devices.llvm.work import WORTH_A_THREAD
from ftrace.devices.llvm.writer import Writer
from ftrace.lower.running import Running

#: Operations of an operator that two vectors at once are worth.
_CHEAP = 3


class Rows(Lines):
    """Lanes are neighbours, which are combined with each other first."""

    def units(self) -> int:
        """Each unit is a row. Returns how many there are."""
        kernel, writer = self.kernel, self.writer
        row = writer.open_loop("%begin", "%end", 1, guarded=True)
        together = _together(kernel)
        before = self._start(row.index) if kernel.started else None
        if before or (together > 1 and kernel.size >= 2 * together * self.lanes):
            carry = self._groups(row.index, together, before)
        else:
            carry = self._one_by_one(row.index)
        rest = kernel.size % self.lanes
        if rest:
            place = self._place(row.index, str(kernel.size - rest), self.lanes)
            mask = Mask(self.lanes, rest, kernel.reverse)
            own = self.prefix(self.enter(place, mask))
            self.leave(own if carry is None else self.combine(carry, own), place, mask)
        writer.close_loop(row)
        return kernel.outer

    def _place(self, row: str, done: str, width: int) -> str:
        """Where the next `width` elements of a row are, after so many."""
        size, sums = self.kernel.size, self.access
        if self.kernel.reverse:
            return sums.sum_terms([(size, row), (-1, done)], size - width)
        return sums.sum_terms([(size, row), (1, done)])

    def _one_by_one(self, row: str) -> State | None:
        """The whole vectors of a row; returns what all of it comes to."""
        size, lanes, writer = self.kernel.size, self.lanes, self.writer
        if size < lanes:
            return None
        initial = [(t.text, "zeroinitializer") for t in self.state.values()]
        stop = size - size % lanes
        loop = writer.open_loop("0", str(stop), lanes, [("i1", "true"), *initial])
        first, *held = [name for _, _, name in loop.carried]
        place = self._place(row, loop.index, lanes)
        before = dict(zip(self.state, held, strict=True))
        own = self.prefix(self.enter(place))
        total = self.last(own)
        self.leave(self.choose(first, own, self.combine(before, own)), place)
        after = self.choose(first, total, self.combine(before, total))
        results = writer.close_loop(loop, ["false", *after.values()])
        return dict(zip(self.state, results[1:], strict=True))

    def _start(self, row: str) -> State:
        """What comes before a row, in all lanes."""
        first = len(self.kernel.buffers) - len(self.state)
        found: State = {}
        for n, (register, t) in enumerate(self.types()):
            p = self.access.pointer(self.buffer(first + n), [(1, row)], 0, t.bytes)
            one = Type.of(self.kernel.buffers[first + n].dtype, 0)
            found[register] = self.ops.splat(self.access.load(one, p, True), t)
        return found

    def _groups(self, row: str, together: int, before: State | None) -> State:
        """The same by several vectors at once, and what is left one by one."""
        size, lanes = self.kernel.size, self.lanes
        width = together * lanes
        begin = 0 if before else width
        carry = before or self._group(row, "0", together, None)
        groups, whole = size - size % width, size - size % lanes
        for start, stop, count in ((begin, groups, together), (groups, whole, 1)):
            if start == stop:
                continue
            held = [(t.text, carry[r]) for r, t in self.types()]
            loop = self.writer.open_loop(str(start), str(stop), count * lanes, held)
            names = [name for _, _, name in loop.carried]
            held_now = dict(zip(self.state, names, strict=True))
            after = self._group(row, loop.index, count, held_now)
            results = self.writer.close_loop(loop, list(after.values()))
            carry = dict(zip(self.state, results, strict=True))
        return carry

    def _group(self, row: str, done: str, count: int, before: State | None) -> State:
        """Vectors side by side, of which only one step waits for what is before."""
        lanes, total = self.lanes, before
        inside: State | None = None  # of the vectors so far
        for n in range(count):
            at = self.access.sum_terms([(1, done)], n * lanes)
            place = self._place(row, at, lanes)
            own = self.prefix(self.enter(place))
            self.leave(own if total is None else self.combine(total, own), place)
            last = self.last(own)
            inside = last if inside is None else self.combine(inside, last)
            total = inside if before is None else self.combine(before, inside)
        assert total is not None
        return total

    def prefix(self, state: State) -> State:
        """The running combinations of the lanes of a vector."""
        lanes, distance = self.lanes, 1
        while distance < lanes:
            places = [max(lane - distance, 0) for lane in range(lanes)]
            before = {
                register: self.ops.shuffle(t, state[register], "poison", places)
                for register, t in self.state.items()
            }
            both = self.combine(before, state)
            inside = mask_type(lanes).lanewise([i >= distance for i in range(lanes)])
            state = {
                register: self.ops.select(inside, t, both[register], state[register])
                for register, t in self.state.items()
            }
            distance *= 2
        return state

    def last(self, state: State) -> State:
        """The last lane in all lanes."""
        places = [self.lanes - 1] * self.lanes
        return {
            register: self.ops.shuffle(t, state[register], "poison", places)
            for register, t in self.state.items()
        }


def _together(kernel: Running) -> int:
    """How many vectors of a row are combined before they wait for those before."""
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
