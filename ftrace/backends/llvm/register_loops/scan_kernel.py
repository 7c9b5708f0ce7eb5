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

from ftrace.backends.llvm.emit.addressing import memory_type
from ftrace.backends.llvm.emit.emit_memory import Values
from ftrace.backends.llvm.emit.emit_values import At, Opened
from ftrace.backends.llvm.emit.interrupt_polls import writer_for
from ftrace.backends.llvm.emit.module import Rendered, large_results, write_function
from ftrace.backends.llvm.ir.types import Type, mask_type
from ftrace.backends.llvm.ir.writer import Writer, digits, lowest
from ftrace.backends.llvm.register_loops.render import Register, register_of, target_of
from ftrace.backends.llvm.schedule.index_facts import Facts
from ftrace.backends.llvm.target import Target
from ftrace.lower.kernel.ir import Store, load_p, make_range
from ftrace.lower.library.scan_kernels import Running
from ftrace.trace.graph import Node, constant_value

State = dict[Register, str]


class Mask:
    """The lanes of the elements that are left, of a vector of elements."""

    def __init__(self, lanes: int, count: int, last: bool) -> None:
        self.lanes, self.count, self.last = lanes, count, last

    def part(self, number: int, components: int) -> str:
        """For one of the vectors that hold the components of all lanes."""
        whole, on = self.lanes * components, self.count * components
        first = whole - on if self.last else 0
        places = range(number * self.lanes, (number + 1) * self.lanes)
        inside = [first <= place < first + on for place in places]
        return mask_type(self.lanes).lanewise(inside)


class Lines(Values):
    """Emits a legal running reduction.

    Args:
      streamed: results that are stored past the caches; see
        `emit/module.py`.

    Attributes:
      state: the registers that hold the left operand, with their types: of lanes so
        that the widest fill a register of the processor.
    """

    def __init__(
        self, kernel: Running, target: Target, streamed: frozenset[int] = frozenset()
    ) -> None:
        _, combine, _ = kernel.parts
        dtypes = {target_of(store): store.value.dtype for store in combine}
        widest = max(dtype.itemsize for dtype in dtypes.values())
        lanes = max(target.vector_bytes // widest, 2)
        lane = make_range(0, lanes, False)
        operands = [n for n in kernel.nodes if n.op is load_p]
        free = dict.fromkeys(operands, frozenset((lane,)))
        writer = writer_for(kernel.operations // max(kernel.outer, 1))
        facts = Facts([*kernel.nodes, lane], free)
        super().__init__(writer, facts, target, kernel.buffers, streamed)
        self.open(Opened(lane, "0", writer.level, lanes=lanes))
        self.kernel = kernel
        #: Are lanes, which are neighbours in memory, in the opposite order?
        self.turned = False
        self.state: dict[Register, Type] = {
            register: Type.of(dtype, lanes)
            for register, dtype in dtypes.items()
            if register is not None
        }
        #: How much further the number of a left register is than that of a right one.
        self.apart = len(kernel.registers) // 2
        self._held: State = {}
        self._where: tuple[str, Mask | None] = "", None

    def load(self, node: Node, at: At) -> str:
        register = register_of(node)
        return self._load(node) if register is None else self._held[register]

    # The operator.

    def _values(self, stores: Sequence[Store], held: State) -> list[str]:
        """What is stored where registers hold this."""
        self._held = held
        self.forget()
        return [self.plain(store.value, self.lanes, ()) for store in stores]

    def enter(self, place: str, mask: Mask | None = None) -> State:
        """The right operand of the elements from a place on."""
        self._where = place, mask
        enter, _, _ = self.kernel.parts
        found = dict(zip(map(target_of, enter), self._values(enter, {}), strict=True))
        return {(r[0] + self.apart, r[1]): text for r, text in found.items() if r}

    def combine(self, left: State, right: State) -> State:
        _, combine, _ = self.kernel.parts
        right = {(n - self.apart, k): text for (n, k), text in right.items()}
        return dict(zip(self.state, self._values(combine, left | right), strict=True))

    def leave(self, left: State, place: str, mask: Mask | None = None) -> None:
        """Stores the results at a place."""
        _, _, leave = self.kernel.parts
        parts: dict[int, list[tuple[Store, str]]] = {}
        for store, text in zip(leave, self._values(leave, left), strict=True):
            parts.setdefault(store.buffer, []).append((store, text))
        for number, found in parts.items():
            found.sort(key=lambda pair: constant_value(pair[0].index))
            t = Type.of(found[0][0].value.dtype, self.lanes)
            self._store(number, t, [text for _, text in found], place, mask)

    # Memory.

    def _components(self, number: int) -> int:
        """How many numbers an element of a buffer has: two if it is complex."""
        kernel = self.kernel
        whole = kernel.outer * kernel.size * kernel.inner
        return kernel.buffers[number].size // whole

    def _pointer(self, number: int, place: str, t: Type) -> str:
        count = self._components(number)
        return self.access.pointer(self.buffer(number), [(count, place)], 0, t.bytes)

    def _load(self, node: Node) -> str:
        (place, mask), (buffer, index) = self._where, node.src
        number, t = int(buffer.arg), Type.of(node.dtype, self.lanes)
        count = self._components(number)
        p = self._pointer(number, place, t)
        parts: list[str] = []
        for n in range(count):
            at = self.access.pointer(p, [], n * t.lanes, t.bytes)
            lanes = None if mask is None else mask.part(n, count)
            parts.append(self.access.load(t, at, True, lanes))
        found = parts[0]
        if count > 1:
            found = self.ops.pick(t, parts, count, int(constant_value(index)))
        return self.ops.reverse(t, found) if self.turned else found

    def _store(
        self,
        number: int,
        t: Type,
        values: Sequence[str],
        place: str,
        mask: Mask | None,
    ) -> None:
        if self.turned:
            values = [self.ops.reverse(t, value) for value in values]
        if len(values) == 2:
            values = self.ops.interleave(t, values)
        p = self._pointer(number, place, t)
        for n, value in enumerate(values):
            at = self.access.pointer(p, [], n * t.lanes, t.bytes)
            lanes = None if mask is None else mask.part(n, len(values))
            self.access.store(t, value, at, lanes, number in self.streamed)


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
        self, kernel: Running, target: Target, streamed: frozenset[int]
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
        for n, (register, t) in enumerate(self.state.items()):
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
            held = [(t.text, s[r]) for s in carried for r, t in self.state.items()]
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

    module = write_function(target, name, _streamed(kernel, target), build)
    each = max(kernel.operations // units, 1)
    return Rendered.of(module, units, units * each)


#: Vectors of a row at the most of which many rows are passed by at once.
_FEW = 4
#: Bytes of combinations of a strip: beside them the first cache has room for the rows.
_STRIP_BYTES = 8 << 10
#: Fewer strips than this are made narrower, for threads to share, down to so many
#: vectors: what follows in a row is then fetched before it is asked for.
_UNITS = 4
_LEAST_VECTORS = 32
#: Rows of a strip that pass by at once, where the operator is cheap: the combinations
#: are read and written once for all of them, and memory streams in several places.
#: Whole rows lie one after the other and stream best alone.
_ROWS = 8


class Columns(Lines):
    """Lanes are columns, whose combinations wait while the rows stream by."""

    def units(self) -> int:
        """Each unit is a strip of columns. Returns how many there are."""
        kernel, writer = self.kernel, self.writer
        inner, lanes = kernel.inner, self.lanes
        bytes_each = sum(t.bytes for t in self.state.values())
        most = max(_STRIP_BYTES // bytes_each // lanes, 1)
        shared = -(-inner * kernel.outer // lanes // _UNITS)
        most = min(most, max(shared, _LEAST_VECTORS)) * lanes
        strips = -(-inner // most)
        width = inner if strips == 1 else -(-inner // strips // lanes) * lanes
        unit = writer.open_loop("%begin", "%end", 1, guarded=True)
        start = self._strip_start(unit.index, strips, width)
        vectors = -(-width // lanes)
        streams = strips == 1 and vectors > _FEW
        self._strip(start, width, vectors, 1 if streams else _rows_at_once(kernel))
        writer.close_loop(unit)
        return kernel.outer * strips

    def _strip_start(self, unit: str, strips: int, width: int) -> str:
        """The place of the first column of a unit, in the first row to be computed."""
        kernel, writer = self.kernel, self.writer
        outer, strip = digits(writer, unit, [kernel.outer, strips])
        terms = [(kernel.size * kernel.inner, outer)]
        if strips > 1:
            column = self.access.sum_terms([(width, strip)])
            terms.append((1, lowest(writer, column, kernel.inner - width)))
        first = kernel.inner * (kernel.size - 1) if kernel.reverse else 0
        return self.access.sum_terms(terms, first)

    def _row_place(self, start: str, row: str) -> str:
        return self.access.sum_terms([(1, start), (self._row_step(), row)])

    def _row_step(self) -> int:
        return -self.kernel.inner if self.kernel.reverse else self.kernel.inner

    def _strip(self, start: str, width: int, vectors: int, together: int) -> None:
        """The combinations stay in memory of the function, vector by vector.

        Args:
          together: rows that pass by at once.
        """
        writer, lanes = self.writer, self.lanes
        mask = Mask(lanes, width, False) if width < lanes else None
        held: dict[Register, str] = {}
        for number, (register, t) in enumerate(self.state.items()):
            kind = f"{memory_type(t)}, i64 {vectors}"
            held[register] = writer.memory(kind, f"%held{number}")

        def pass_over(row: str, count: int, first: bool = False) -> None:
            loop = writer.open_loop("0", str(vectors), 1)
            at = self.access.sum_terms([(lanes, loop.index)])
            if width > lanes and width % lanes:
                at = lowest(writer, at, width - lanes)
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
                right = self.enter(place, mask)
                left = self.combine(left, right) if left else right
                self.leave(left, place, mask)
            for register, t in self.state.items():
                self.access.store(t, left[register], pointers[register])
            writer.close_loop(loop)

        size = self.kernel.size
        done = together if size >= together else 1
        pass_over(start, done, first=True)
        groups = done + (size - done) // together * together
        for begin, end, count in ((done, groups, together), (groups, size, 1)):
            if begin < end:
                loop = writer.open_loop(str(begin), str(end), count)
                pass_over(self._row_place(start, loop.index), count)
                writer.close_loop(loop)


def _rows_at_once(kernel: Running) -> int:
    each = kernel.operations_of_operator
    return _ROWS if each <= 1 else _ROWS // 2 if each <= _CHEAP else 1
