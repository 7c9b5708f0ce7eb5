"""A running reduction as LLVM IR: a `Recurrence` that says how it runs, as its `scan`.

Its registers are those of `register_loops`, and its operator is assigned by the same
code. Only the order is another: what is associative need not go step by step.

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

from collections.abc import Callable, Sequence

from ftrace.backends.llvm import register_loops as loops
from ftrace.backends.llvm.emit import module as emit
from ftrace.backends.llvm.emit.addressing import Scaled, memory_type
from ftrace.backends.llvm.emit.emit_values import At
from ftrace.backends.llvm.ir import writer as llvm
from ftrace.backends.llvm.schedule.nontemporal_stores import large_results
from ftrace.backends.llvm.target import Target
from ftrace.lower.register_loops.register_loop import Recurrence, Scan, assigns
from ftrace.trace.graph import Node

#: What an operand of the operator is: the text of each of its registers.
State = list[str]


def scan_of(kernel: Recurrence) -> Scan:
    """How a scan runs."""
    assert kernel.scan is not None
    return kernel.scan


def _width_of(kernel: Recurrence, target: Target) -> int:
    """Lanes, so that the widest registers fill one of the processor."""
    widest = max(spec.dtype.itemsize for spec in kernel.registers)
    return max(target.vector_bytes // widest, 2)


class ScanLoop(loops.Registers):
    """Emits a legal scan, vector by vector.

    Args:
      nontemporal: results with non-temporal stores; see
        `emit/module.py`.

    Attributes:
      reversed: lanes are combined in the opposite order of memory.
      right, left: the registers of both operands.
      kinds: their types.
    """

    def __init__(
        self, kernel: Recurrence, target: Target, nontemporal: frozenset[int]
    ) -> None:
        self.scan = scan_of(kernel)
        self.parts = [part.stores for part in assigns(kernel.block)]
        self.right, self.left = ([*loops.registers_set([a])] for a in kernel.block[:2])
        writer = emit.writer_for(kernel.operations // max(self.scan.outer, 1))
        varying, width = {*self.right, *self.left}, _width_of(kernel, target)
        super().__init__(kernel, target, nontemporal, writer, varying, width)
        self.kinds = [self.types[register] for register in self.left]
        self.reversed = False

    def load(self, node: Node, at: At) -> str:
        found = super().load(node, at)
        return found if loops.register_of(node) else self._reverse(node, found)

    def _reverse(self, node: Node, text: str) -> str:
        """Between the order of memory and that in which elements are combined."""
        if not self.reversed or self.vector is None:
            return text
        count, lanes = self.vector.existing or self.width, range(self.width)
        places = [count - 1 - lane if lane < count else lane for lane in lanes]
        return self.ops.shuffle(
            llvm.Type.of(node.dtype, self.width), text, "poison", places
        )

    def steps(
        self,
        first: int,
        count: int,
        together: int,
        body: Callable[[int, str], None],
        carried: Sequence[loops.Register] = (),
        width: int = 1,
    ) -> None:
        """Steps from `first` on: `together` in a loop, and what remains one by one.

        Args:
          body: does so many, from an index on.
          width: what the index grows by in each.
        """
        groups = first + (count - first) // together * together
        for start, stop, each in ((first, groups, together), (groups, count, 1)):
            if start < stop:
                bounds = start * width, stop * width, each * width
                with self.loop(*bounds, carried) as loop:
                    body(each, loop.index)

    def new_registers(self, count: int) -> list[list[loops.Register]]:
        """Registers for so many states."""
        first = loops.LEFT[0] - 1
        found = [[(first - n, k) for k in range(len(self.left))] for n in range(count)]
        for registers in found:
            self.types.update(zip(registers, self.kinds, strict=True))
        return found

    # The operator.

    def enter(self) -> State:
        """The right operand of the elements that are open."""
        self.forget()
        return [*self.assign(self.parts[0]).values()]

    def same_start(self) -> State:
        """What comes before all rows, in all lanes; nothing where that is nothing."""
        start = self.scan.start
        return [] if start is None else [t.constant(start) for t in self.kinds]

    def combine(self, left: State, right: State) -> State:
        self.hold([*self.left, *self.right], [*left, *right])
        return [*self.assign(self.parts[1]).values()]

    def leave(self, left: State) -> None:
        """Stores the results of the elements that are open."""
        self.hold(self.left, left)
        values = [store.value for store in self.parts[2]]
        texts = [self._reverse(v, self.plain(v, self.width, ())) for v in values]
        for value, text in zip(values, texts, strict=True):
            self.put(value, (), text)
        self.assign(self.parts[2])


#: Operations of an operator that is unrolled at all. With 12 running maxima of float16
#: are 1.3 to 2.5 times as many instructions, with 1 complex sums are about half as
#: many.
_CHEAP = 3
#: Vectors of a row in the body of a loop, where it is a single operation. With 16 the
#: code of a row of 100 is three times as long on AVX2.
_VECTORS = 4


class Rows(ScanLoop):
    """Lanes are neighbours, which are combined with each other first.

    Attributes:
      length: elements of a row, of all columns.
      distances: how far the lanes of a window look back, step by step.
      reach: how far a result looks back to the one that it continues.
      behind: so many vectors of results hold that one.
      windows, results: registers of what a vector looks back at: combinations of 1, 2,
        4, … elements that end at each lane of the one before, and results, the latest
        first.
    """

    def __init__(
        self, kernel: Recurrence, target: Target, nontemporal: frozenset[int]
    ) -> None:
        super().__init__(kernel, target, nontemporal)
        self.reversed, inner = self.scan.reverse, self.scan.inner
        self.length = self.scan.size * inner
        levels = (-(-self.width // inner) - 1).bit_length()
        self.distances = [inner << n for n in range(levels)]
        self.reach = inner << levels
        self.behind = -(-self.reach // self.width)
        kept = self.new_registers(levels + self.behind)
        self.windows, self.results = kept[:levels], kept[levels:]

    def units(self) -> int:
        """Each unit is a row. Returns how many there are."""
        with self.writer.units() as row:
            self._row(row)
        return self.scan.outer

    def _row(self, row: str) -> None:
        lanes = self.width
        before = self._start(row) if self.scan.started else self.same_start()
        whole, rest = divmod(self.length, lanes)
        first = min(self.behind, whole)
        for n in range(first):
            self._vector(row, llvm.literal(n * lanes), n, before)

        def vectors(count: int, index: str) -> None:
            for n in range(count):
                done = self.access.sum_terms([(1, index)], n * lanes)
                self._vector(row, done, self.behind)

        carried = [r for one in (*self.windows, *self.results) for r in one]
        together = _choose_unroll(self.recurrence, _VECTORS)
        self.steps(first, whole, together, vectors, carried, lanes)
        if rest:
            done = llvm.literal(self.length - rest)
            self._vector(row, done, whole, before, rest)

    def _index_of(self, row: str, done: str, count: int) -> str:
        """Where the next `count` elements of a row are, after those that are done."""
        size, sums = self.length, self.access
        if self.scan.reverse:
            return sums.sum_terms([(size, row), (-1, done)], size - count)
        return sums.sum_terms([(size, row), (1, done)])

    def _start(self, row: str) -> State:
        """What comes before a row, in all lanes."""
        found: State = []
        first = len(self.recurrence.buffers) - len(self.kinds)
        for n, t in enumerate(self.kinds, first):
            p = self.access.pointer(self.buffer(n), [(1, row)], 0, t.bytes)
            one = self.access.load(t.with_lanes(0), p, True)
            found.append(self.ops.splat(one, t))
        return found

    def _vector(
        self,
        row: str,
        done: str,
        number: int,
        before: State | None = None,
        count: int = 0,
    ) -> None:
        """The results of a vector, and what the next one looks back at.

        Args:
          done: elements of the row before it.
          number: how many vectors are before it; `behind` stands for any more.
          before: what comes before a row, in all lanes.
          count: elements that are left; 0 is a whole vector.
        """
        count = count or self.width
        with self.elements(self._index_of(row, done, count), count):
            own, known = self._results(number, before)
        for registers, state in zip(self.results, [own, *known], strict=False):
            self.held.update(zip(registers, state, strict=True))

    def _results(
        self, number: int, before: State | None
    ) -> tuple[State, Sequence[State]]:
        """Stores those of a vector: they, and the ones that it looks back at."""
        own = self.enter()
        for window, distance in zip(self.windows, self.distances, strict=True):
            earlier = [self.held[r] for r in window] if number else own
            self.held.update(zip(window, own, strict=True))
            earlier = self._shift_lanes(earlier, own, distance)
            own = self._combine(earlier, own, distance, number)
        begun = own
        if before and number < self.behind:
            begun = self.combine(before, own)
        known = [[self.held[r] for r in one] for one in self.results[:number]]
        far, shift = divmod(self.reach, self.width)
        if len(known) >= far:  # the vector `far` before this one, and its neighbour
            latest, older = known[far - 1], known[min(far, len(known) - 1)]
            earlier = self._shift_lanes(older, latest, shift) if shift else latest
            own = self._combine(earlier, own, self.reach, number, begun)
        else:
            own = begun
        self.leave(own)
        return own, known

    def _shift_lanes(self, earlier: State, state: State, distance: int) -> State:
        """What is so many places before each lane, in this vector or the last one."""
        places = range(self.width - distance, 2 * self.width - distance)
        both = zip(self.kinds, earlier, state, strict=True)
        return [self.ops.shuffle(t, a, b, places) for t, a, b in both]

    def _combine(
        self,
        left: State,
        right: State,
        distance: int,
        number: int,
        others: State | None = None,
    ) -> State:
        """Both combined in the lanes of vector `number` that look back so far.

        Args:
          others: what the other lanes are; None is `right`.
        """
        others = right if others is None else others
        places = range(number * self.width, (number + 1) * self.width)
        inside = [number >= self.behind or place >= distance for place in places]
        if not any(inside):
            return others
        both = self.combine(left, right)
        if all(inside):
            return both
        lanes = llvm.mask_type(self.width).lanewise(inside)
        pairs = zip(self.kinds, both, others, strict=True)
        return [self.ops.select(lanes, t, a, b) for t, a, b in pairs]


def _choose_unroll(kernel: Recurrence, most: int) -> int:
    """How many steps are in the body of a loop: so many of a single operation."""
    each = kernel.operations_of_operator
    return most if each <= 1 else most // 2 if each <= _CHEAP else 1


def _is_row(kernel: Recurrence, target: Target) -> bool:
    """Is it one, or few columns of which a vector holds several elements?"""
    scan = scan_of(kernel)
    if scan.inner == 1:
        return True
    cheap = kernel.operations_of_operator <= _CHEAP and not scan.started
    return cheap and scan.inner < _width_of(kernel, target)


def find_nontemporal(kernel: Recurrence, target: Target) -> frozenset[int]:
    """Results with non-temporal stores: rows of whole vectors."""
    scan = scan_of(kernel)
    if scan.inner > 1 or scan.size % target.vector_bytes:
        return frozenset()
    written = [n for n, spec in enumerate(kernel.buffers) if spec.written]
    return large_results(kernel, written, target, target.l3)


#: Vectors of a row at the most whose combinations stay in registers. From memory maxima
#: of 1000 rows of 20 would take 1.5 times as long, with AVX2 products of 10 1.3 times
#: (AMD EPYC, as all figures here).
_FEW_VECTORS = 4
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


class Columns(ScanLoop):
    """Lanes are columns, whose combinations wait while the rows stream by."""

    def units(self) -> int:
        """Each unit is a strip of columns. Returns how many there are."""
        scan, writer = self.scan, self.writer
        inner, lanes = scan.inner, self.width
        bytes_each = sum(t.bytes for t in self.kinds)
        most = max(_STRIP_BYTES // bytes_each // lanes, 1)
        shared = -(-inner * scan.outer // lanes // _UNITS)
        most = min(most, max(shared, _LEAST_VECTORS)) * lanes
        strips = -(-inner // most)
        width = inner if strips == 1 else -(-inner // strips // lanes) * lanes
        vectors = -(-width // lanes)
        together = _choose_unroll(self.recurrence, _ROWS)
        if strips == 1:
            together = max(together // vectors, 1) if vectors <= _FEW_VECTORS else 1
        with writer.units() as unit:
            start = self._strip_start(unit, strips, width)
            self._strip(start, width, vectors, together)
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

    def _strip(self, start: str, width: int, vectors: int, together: int) -> None:
        """The combinations stay in registers, or in memory of the function.

        Args:
          together: rows that pass by at once.
        """
        writer, access, lanes = self.writer, self.access, self.width
        step = -self.scan.inner if self.scan.reverse else self.scan.inner
        states = self.new_registers(vectors if vectors <= _FEW_VECTORS else 0)
        carried = [register for state in states for register in state]
        held = [
            writer.memory(f"{memory_type(t)}, i64 {vectors}", f"%held{number}")
            for number, t in enumerate(() if states else self.kinds)
        ]

        def pass_over(count: int, index: str = "") -> None:
            row = access.sum_terms([(1, start), (step, index)]) if index else start
            for n, state in enumerate(states):
                first = max(min(n * lanes, width - lanes), 0)
                left = [self.held[r] for r in state if index]
                left = pass_by(count, access.sum_terms([(1, row)], first), [], left)
                self.hold(state, left)
            if states:
                return
            with writer.loop(llvm.literal(0), llvm.literal(vectors)) as i:
                at = self.first_of(i, lanes, width)
                pointers = [
                    writer.pure(f"getelementptr {memory_type(t)}, ptr {p}, i64 {i}", i)
                    for t, p in zip(self.kinds, held, strict=True)
                ]
                kept = [*zip(self.kinds, pointers, strict=True)]
                left = [access.load(t, p, True) for t, p in kept if index]
                left = pass_by(count, row, [(1, at)], left)
                for (t, p), text in zip(kept, left, strict=True):
                    access.store(t, text, p)

        def pass_by(count: int, row: str, at: list[Scaled], left: State) -> State:
            left = left or self.same_start()
            for n in range(count):
                place = access.sum_terms([(1, row)], n * step)
                place = access.sum_terms([(1, place), *at])
                with self.elements(place, min(width, lanes)):
                    right = self.enter()
                    left = self.combine(left, right) if left else right
                    self.leave(left)
            return left

        size = self.scan.size
        done = together if size >= together else 1
        pass_over(done)
        self.steps(done, size, together, pass_over, carried)


def scan_loop_of(
    kernel: Recurrence, target: Target, nontemporal: frozenset[int]
) -> Rows | Columns:
    """What emits a legal scan."""
    kind = Rows if _is_row(kernel, target) else Columns
    return kind(kernel, target, nontemporal)
