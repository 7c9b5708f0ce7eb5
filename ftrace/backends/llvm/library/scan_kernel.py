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

from ftrace.backends.llvm import register_loops
from ftrace.backends.llvm.emit import module as emit
from ftrace.backends.llvm.emit.addressing import memory_type
from ftrace.backends.llvm.emit.emit_values import At, Opened
from ftrace.backends.llvm.ir import writer as llvm
from ftrace.backends.llvm.schedule.index_facts import Facts
from ftrace.backends.llvm.target import Target
from ftrace.lower.register_loops.register_loop import Recurrence, Scan, assigns
from ftrace.trace.graph import Node

State = dict[register_loops.Register, str]


class Lines(register_loops.Registers):
    """Emits a legal scan, vector by vector.

    Args:
      streamed: results that are stored past the caches; see
        `emit/module.py`.

    Attributes:
      turned: lanes are combined in the opposite order of memory.
      width: lanes, so that the widest registers fill one of the processor.
      state: the registers that hold the left operand, with their types.
    """

    def __init__(
        self, kernel: Recurrence, target: Target, streamed: frozenset[int] = frozenset()
    ) -> None:
        self.scan = scan_of(kernel)
        self.parts = [part.stores for part in assigns(kernel.block)]
        (self.place,) = kernel.axes
        both = [s for part in self.parts[:2] for s in part]
        kinds = {
            r: s.value.dtype
            for s in both
            if (r := register_loops.target_of(s)) is not None
        }
        widest = max(dtype.itemsize for dtype in kinds.values())
        self.width = max(target.vector_bytes // widest, 2)
        facts = Facts(
            [*kernel.nodes, self.place], register_loops.of_lanes(kernel, set(kinds))
        )
        writer = emit.writer_for(kernel.operations // max(self.scan.outer, 1))
        super().__init__(kernel, writer, facts, target, streamed)
        self.kernel = kernel
        self.types = {r: llvm.Type.of(dtype, self.width) for r, dtype in kinds.items()}
        self.turned, self.count = False, self.width
        #: How much further the number of a left register is than that of a right one.
        self.apart = len(kernel.registers) // 2
        self.state = {
            r: self.types[r]
            for s in self.parts[1]
            if (r := register_loops.target_of(s))
        }

    def open_elements(self, place: str, count: int) -> Opened:
        """The elements from a place on, so many of them."""
        self.count, some, level = count, count < self.width, self.writer.level
        masks = (llvm.first_lanes(self.width, count) if some else None,)
        opened = Opened(
            self.place, place, level, lanes=self.width, masks=masks,
            existing=count if some else 0,
        )  # fmt: skip
        self.open(opened)
        return opened

    def load(self, node: Node, at: At) -> str:
        found = super().load(node, at)
        return found if register_loops.register_of(node) else self._turn(node, found)

    def _turn(self, node: Node, text: str) -> str:
        """Between the order of memory and that in which elements are combined."""
        if not self.turned:
            return text
        count, lanes = self.count, range(self.width)
        places = [count - 1 - lane if lane < count else lane for lane in lanes]
        return self.ops.shuffle(
            llvm.Type.of(node.dtype, self.width), text, "poison", places
        )

    # The operator.

    def enter(self) -> State:
        """The right operand of the elements that are open."""
        self.hold({})
        found = self.assign(self.parts[0])
        return {(n + self.apart, k): text for (n, k), text in found.items()}

    def combine(self, left: State, right: State) -> State:
        self.hold(left | {(n - self.apart, k): text for (n, k), text in right.items()})
        return self.assign(self.parts[1])

    def leave(self, left: State) -> None:
        """Stores the results of the elements that are open."""
        self.hold(left)
        values = [store.value for store in self.parts[2]]
        texts = [self._turn(v, self.plain(v, self.width, ())) for v in values]
        for value, text in zip(values, texts, strict=True):
            self.put(value, (), text)
        self.assign(self.parts[2])


def scan_of(kernel: Recurrence) -> Scan:
    """How a scan runs."""
    assert kernel.scan is not None
    return kernel.scan


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
        self, kernel: Recurrence, target: Target, streamed: frozenset[int]
    ) -> None:
        super().__init__(kernel, target, streamed)
        self.turned = self.scan.reverse
        self.length = self.scan.size * self.scan.inner
        self.distances: list[int] = []
        self.reach = self.scan.inner
        while self.reach < self.width:
            self.distances.append(self.reach)
            self.reach *= 2
        self.behind = -(-self.reach // self.width)

    def units(self) -> int:
        """Each unit is a row. Returns how many there are."""
        writer = self.writer
        row = writer.open_loop("%begin", "%end", 1, guarded=True)
        before = self._start(row.index) if self.scan.started else None
        carried = self._whole_vectors(row.index, before)
        whole, rest = divmod(self.length, self.width)
        if rest:
            place = self._index_of(row.index, llvm.literal(self.length - rest), rest)
            self._vector(place, carried, whole, before, rest)
        writer.close_loop(row)
        return self.scan.outer

    def _index_of(self, row: str, done: str, count: int) -> str:
        """Where the next `count` elements of a row are, after those that are done."""
        size, sums = self.length, self.access
        if self.scan.reverse:
            return sums.sum_terms([(size, row), (-1, done)], size - count)
        return sums.sum_terms([(size, row), (1, done)])

    def _start(self, row: str) -> State:
        """What comes before a row, in all lanes."""
        first = len(self.kernel.buffers) - len(self.state)
        found: State = {}
        for n, (register, t) in enumerate(self.state.items()):
            p = self.access.pointer(self.buffer(first + n), [(1, row)], 0, t.bytes)
            one = llvm.Type.of(self.kernel.buffers[first + n].dtype, 0)
            found[register] = self.ops.splat(self.access.load(one, p, True), t)
        return found

    def _whole_vectors(self, row: str, before: State | None) -> list[State]:
        """The whole vectors of a row; returns what a next one would look back at."""
        lanes, carried = self.width, list[State]()
        count = self.length // lanes
        first = min(self.behind, count)
        for n in range(first):
            place = self._index_of(row, llvm.literal(n * lanes), lanes)
            carried = self._vector(place, carried, n, before)
        together = _choose_unroll(self.kernel)
        groups = first + (count - first) // together * together
        for start, stop, each in ((first, groups, together), (groups, count, 1)):
            if start == stop:
                continue
            held = [(t.text, s[r]) for s in carried for r, t in self.state.items()]
            begin, end = llvm.literal(start * lanes), llvm.literal(stop * lanes)
            loop = self.writer.open_loop(begin, end, each * lanes, held)
            carried = self._states([name for _, _, name in loop.carried])
            for n in range(each):
                at = self.access.sum_terms([(1, loop.index)], n * lanes)
                place = self._index_of(row, at, lanes)
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
        count: int = 0,
    ) -> list[State]:
        """The results of a vector.

        Args:
          carried: what this returned for the vector before it; empty for the first.
          number: how many vectors are before it; `behind` stands for any more.
          before: what comes before a row, in all lanes.
          count: elements that are left; 0 is a whole vector.

        Returns:
          The windows that are not the longest, and results, the latest first.
        """
        levels, count = len(self.distances), count or self.width
        opened = self.open_elements(place, count)
        *shorter, own = self._windows(self.enter(), carried[:levels], number)
        results = carried[levels:]
        if before is not None and not number:
            own = self.combine(before, own)
        far, shift = divmod(self.reach, self.width)
        if len(results) >= far:  # the vector `far` before this one, and its neighbour
            latest = results[far - 1]
            older = results[far] if len(results) > far else latest
            earlier = self._shift_lanes(older, latest, shift) if shift else latest
            own = self._combine(earlier, own, self.reach, number)
        self.leave(own)
        self.close(opened)
        return [*shorter, own, *results[: self.behind - 1]]

    def _windows(
        self, state: State, carried: Sequence[State], number: int
    ) -> list[State]:
        """Combinations that end at each lane, of 1, 2, 4, … elements, to all lanes."""
        found = [state]
        for n, distance in enumerate(self.distances):
            earlier = self._shift_lanes(
                carried[n] if carried else state, state, distance
            )
            state = self._combine(earlier, state, distance, number)
            found.append(state)
        return found

    def _shift_lanes(self, earlier: State, state: State, distance: int) -> State:
        """What is so many places before each lane, in this vector or the last one."""
        places = range(self.width - distance, 2 * self.width - distance)
        return {
            register: self.ops.shuffle(t, earlier[register], state[register], places)
            for register, t in self.state.items()
        }

    def _combine(self, left: State, right: State, distance: int, number: int) -> State:
        """Both combined in the lanes of vector `number` that look back so far."""
        places = range(number * self.width, (number + 1) * self.width)
        inside = [number >= self.behind or place >= distance for place in places]
        if not any(inside):
            return right
        both = self.combine(left, right)
        if all(inside):
            return both
        lanes = llvm.mask_type(self.width).lanewise(inside)
        return {
            register: self.ops.select(lanes, t, both[register], right[register])
            for register, t in self.state.items()
        }


def _choose_unroll(kernel: Recurrence) -> int:
    """How many vectors of a row are in the body of a loop."""
    each = kernel.operations_of_operator
    return 4 if each <= 1 else 2 if each <= _CHEAP else 1


def _is_row(kernel: Recurrence, target: Target) -> bool:
    """Is it one, or few columns of which a vector holds several elements?"""
    scan = scan_of(kernel)
    if scan.inner == 1:
        return True
    cheap = kernel.operations_of_operator <= _CHEAP and not scan.started
    return cheap and scan.inner < Lines(kernel, target).width


def _find_streamed(kernel: Recurrence, target: Target) -> frozenset[int]:
    """Results that are stored past the caches: rows of whole vectors."""
    scan = scan_of(kernel)
    if scan.inner > 1 or scan.size % target.vector_bytes:
        return frozenset()
    written = [n for n, spec in enumerate(kernel.buffers) if spec.written]
    return emit.large_results(kernel, written, target)


def render_scan(kernel: Recurrence, target: Target, name: str) -> emit.Rendered:
    """The code of a legal scan, as function `name`."""
    units = 1

    def build(streamed: frozenset[int]) -> llvm.Writer:
        nonlocal units
        kind = Rows if _is_row(kernel, target) else Columns
        lines = kind(kernel, target, streamed)
        units = lines.units()
        return lines.writer

    module = emit.write_function(target, name, _find_streamed(kernel, target), build)
    each = max(kernel.operations // units, 1)
    return emit.Rendered.of(module, units, units * each)


#: Vectors of a row at the most of which many rows are passed by at once: one by one
#: 2000 rows of 16 would take 1.6 times as long (AMD EPYC, as all figures here).
_FEW = 4
#: Bytes of combinations of a strip: beside them the first cache has room for the rows.
#: With 2 KB 300 rows of 20,000 take 1.4 times as long.
_STRIP_BYTES = 8 << 10
#: Fewer strips than this are made narrower, for threads to share, down to so many
#: vectors: what follows in a row is then fetched before it is asked for. With strips of
#: a vector two threads take 1.3 times as long for 300 rows of 20,000.
_UNITS = 4
_LEAST_VECTORS = 32
#: Rows of a strip that pass by at once, where the operator is cheap: the combinations
#: are read and written once for all of them, and memory streams in several places.
#: Whole rows lie one after the other and stream best alone. One by one 2000 rows of
#: 1000 take 1.25 times as long, 300 of 20,000 1.7 times.
_ROWS = 8


class Columns(Lines):
    """Lanes are columns, whose combinations wait while the rows stream by."""

    def units(self) -> int:
        """Each unit is a strip of columns. Returns how many there are."""
        scan, writer = self.scan, self.writer
        inner, lanes = scan.inner, self.width
        bytes_each = sum(t.bytes for t in self.state.values())
        most = max(_STRIP_BYTES // bytes_each // lanes, 1)
        shared = -(-inner * scan.outer // lanes // _UNITS)
        most = min(most, max(shared, _LEAST_VECTORS)) * lanes
        strips = -(-inner // most)
        width = inner if strips == 1 else -(-inner // strips // lanes) * lanes
        unit = writer.open_loop("%begin", "%end", 1, guarded=True)
        start = self._strip_start(unit.index, strips, width)
        vectors = -(-width // lanes)
        streams = strips == 1 and vectors > _FEW
        together = 1 if streams else _rows_at_once(self.kernel)
        self._strip(start, width, vectors, together)
        writer.close_loop(unit)
        return scan.outer * strips

    def _strip_start(self, unit: str, strips: int, width: int) -> str:
        """The place of the first column of a unit, in the first row to be computed."""
        scan, writer = self.scan, self.writer
        outer, strip = llvm.digits(writer, unit, [scan.outer, strips])
        terms = [(scan.size * scan.inner, outer)]
        if strips > 1:
            column = self.access.sum_terms([(width, strip)])
            terms.append((1, llvm.lowest(writer, column, scan.inner - width)))
        first = scan.inner * (scan.size - 1) if scan.reverse else 0
        return self.access.sum_terms(terms, first)

    def _row_step(self) -> int:
        return -self.scan.inner if self.scan.reverse else self.scan.inner

    def _strip(self, start: str, width: int, vectors: int, together: int) -> None:
        """The combinations stay in memory of the function, vector by vector.

        Args:
          together: rows that pass by at once.
        """
        writer, lanes = self.writer, self.width
        held: dict[register_loops.Register, str] = {}
        for number, (register, t) in enumerate(self.state.items()):
            kind = f"{memory_type(t)}, i64 {vectors}"
            held[register] = writer.memory(kind, f"%held{number}")

        def pass_over(row: str, count: int, first: bool = False) -> None:
            loop = writer.open_loop(llvm.literal(0), llvm.literal(vectors), 1)
            at = self.access.sum_terms([(lanes, loop.index)])
            if width > lanes and width % lanes:
                at = llvm.lowest(writer, at, width - lanes)
            pointers = {
                register: writer.pure(
                    f"getelementptr {memory_type(t)}, ptr {held[register]}, "
                    f"i64 {loop.index}",
                    loop.index,
                )
                for register, t in self.state.items()
            }
            left: State = {}
            if not first:
                for register, t in self.state.items():
                    left[register] = self.access.load(t, pointers[register], True)
            for n in range(count):
                next_row = self.access.sum_terms([(1, row)], n * self._row_step())
                place = self.access.sum_terms([(1, next_row), (1, at)])
                opened = self.open_elements(place, min(width, lanes))
                right = self.enter()
                left = self.combine(left, right) if left else right
                self.leave(left)
                self.close(opened)
            for register, t in self.state.items():
                self.access.store(t, left[register], pointers[register])
            writer.close_loop(loop)

        size = self.scan.size
        done = together if size >= together else 1
        pass_over(start, done, first=True)
        groups = done + (size - done) // together * together
        for begin, end, count in ((done, groups, together), (groups, size, 1)):
            if begin < end:
                loop = writer.open_loop(llvm.literal(begin), llvm.literal(end), count)
                step = self._row_step(), loop.index
                pass_over(self.access.sum_terms([(1, start), step]), count)
                writer.close_loop(loop)


def _rows_at_once(kernel: Recurrence) -> int:
    each = kernel.operations_of_operator
    return _ROWS if each <= 1 else _ROWS // 2 if each <= _CHEAP else 1
