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

from collections.abc import Callable, Sequence

from ftrace.devices.llvm.access import Access, memory_type
from ftrace.devices.llvm.expressions import Expressions
from ftrace.devices.llvm.polling import writer_for
from ftrace.devices.llvm.render import Rendered
from ftrace.devices.llvm.scalar import Operations
from ftrace.devices.llvm.streaming import large_results, module
from ftrace.devices.llvm.target import Target
from ftrace.devices.llvm.types import Type, mask_type
from ftrace.devices.llvm.variation import Register, register_of, target_of
from ftrace.devices.llvm.work import WORTH_A_THREAD
from ftrace.devices.llvm.writer import Writer
from ftrace.lower.kernel import Store
from ftrace.lower.recurrence import FIRST_REGISTER
from ftrace.lower.running import Running
from ftrace.trace.graph import Node, constant_value

#: Vectors of columns at the most whose combinations stay in registers.
_IN_REGISTERS = 4
#: Operations of an operator that two vectors at once are worth.
_CHEAP = 3
#: Bytes of combinations of a strip: half of a small first cache.
_STRIP_BYTES = 16 << 10

State = dict[Register, str]
_Read = Callable[[Node], str]


class Lines:
    """Emits a legal running reduction.

    Args:
      streamed: results that are stored past the caches; see `streaming.py`.

    Attributes:
      lanes: of all vectors, so that the widest fill a register.
      state: the registers that hold the left operand, with their types.
    """

    def __init__(
        self, kernel: Running, target: Target, streamed: frozenset[int] = frozenset()
    ) -> None:
        self.kernel = kernel
        self.streamed = streamed
        self.writer = writer_for(kernel.operations // max(kernel.outer, 1))
        self.ops = Operations(self.writer, target)
        self.access = Access(self.writer, self.ops)
        stores = [target_of(store) for store in kernel.combine]
        types = [store.value.dtype for store in kernel.combine]
        self.lanes = max(target.vector_bytes // max(d.itemsize for d in types), 2)
        self.state: dict[Register, Type] = {
            register: Type.of(dtype, self.lanes)
            for register, dtype in zip(stores, types, strict=True)
            if register is not None
        }
        #: How much further the number of a left register is than that of a right one.
        self.apart = len(kernel.registers) // 2

    # The operator.

    def enter(self, place: str, mask: _Mask | None = None) -> State:
        """The right operand of the elements from a place on."""

        def read(node: Node) -> str:
            return self._load(node, place, mask)

        values = self._values(self.kernel.enter, read)
        return {(n + self.apart, k): text for (n, k), text in values.items()}

    def combine(self, left: State, right: State) -> State:
        def read(node: Node) -> str:
            register = register_of(node)
            assert register is not None
            number, part = register
            if number < FIRST_REGISTER + self.apart:
                return right[number + self.apart, part]
            return left[register]

        return self._values(self.kernel.combine, read)

    def leave(self, left: State, place: str, mask: _Mask | None = None) -> None:
        """Stores the results at a place."""

        def read(node: Node) -> str:
            register = register_of(node)
            assert register is not None
            return left[register]

        roots = [store.value for store in self.kernel.leave]
        values = Expressions(self.ops, roots, self.lanes, read)
        parts: dict[int, list[tuple[Store, str]]] = {}
        for store in self.kernel.leave:
            found = parts.setdefault(store.buffer, [])
            found.append((store, values.value(store.value)))
        for number, found in parts.items():
            found.sort(key=lambda pair: constant_value(pair[0].index))
            t = Type.of(found[0][0].value.dtype, self.lanes)
            self._store(number, t, [text for _, text in found], place, mask)

    def _values(self, stores: Sequence[Store], read: _Read) -> State:
        values = Expressions(self.ops, [s.value for s in stores], self.lanes, read)
        found: State = {}
        for store in stores:
            register = target_of(store)
            assert register is not None
            found[register] = values.value(store.value)
        return found

    def choose(self, condition: str, a: State, b: State) -> State:
        """`a` where a scalar condition holds."""
        found: State = {}
        for register, t in self.state.items():
            x, y = a[register], b[register]
            text = f"select i1 {condition}, {t} {x}, {t} {y}"
            found[register] = self.writer.pure(text, condition, x, y)
        return found

    # Memory.

    def _buffer(self, number: int) -> str:
        pure = self.writer.pure
        place = "%buffers"
        if number:
            place = pure(f"getelementptr ptr, ptr %buffers, i64 {number}")
        return pure(f"load ptr, ptr {place}, align 8", place)

    def _components(self, number: int) -> int:
        """How many numbers an element of a buffer has: two if it is complex."""
        kernel = self.kernel
        whole = kernel.outer * kernel.size * kernel.inner
        return kernel.buffers[number].size // whole

    def _pointer(self, number: int, place: str, t: Type) -> str:
        count = self._components(number)
        return self.access.pointer(self._buffer(number), [(count, place)], 0, t.bytes)

    def _load(self, node: Node, place: str, mask: _Mask | None) -> str:
        buffer, index = node.src
        number, t = int(buffer.arg), Type.of(node.dtype, self.lanes)
        count = self._components(number)
        p = self._pointer(number, place, t)
        parts: list[str] = []
        for n in range(count):
            at = self.access.pointer(p, [], n * t.lanes, t.bytes)
            if mask is None:
                parts.append(self.access.load(t, at, True))
            else:
                lanes = mask.part(n, count)
                parts.append(self.access.load_masked(t, at, lanes, True))
        found = parts[0]
        if count > 1:
            found = self.ops.pick(t, parts, count, int(constant_value(index)))
        turned = self.kernel.reverse and self.kernel.inner == 1
        return self.ops.reverse(t, found) if turned else found

    def _store(
        self,
        number: int,
        t: Type,
        values: Sequence[str],
        place: str,
        mask: _Mask | None,
    ) -> None:
        if self.kernel.reverse and self.kernel.inner == 1:
            values = [self.ops.reverse(t, value) for value in values]
        if len(values) == 2:
            values = self.ops.interleave(t, values)
        p = self._pointer(number, place, t)
        for n, value in enumerate(values):
            at = self.access.pointer(p, [], n * t.lanes, t.bytes)
            if mask is None and number in self.streamed:
                self.access.stream(t, value, at)
            elif mask is None:
                self.access.store(t, value, at)
            else:
                lanes = mask.part(n, len(values))
                self.access.store_masked(t, value, at, lanes)

    # Along a contiguous axis.

    def rows(self) -> int:
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
            mask = _Mask(self.lanes, rest, kernel.reverse)
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
            p = self.access.pointer(self._buffer(first + n), [(1, row)], 0, t.bytes)
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
            before = [name for _, _, name in loop.carried]
            after = self._group(
                row, loop.index, count, dict(zip(self.state, before, strict=True))
            )
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

    # Along another axis.

    def columns(self) -> int:
        """Each unit is a strip of columns. Returns how many there are."""
        kernel, writer = self.kernel, self.writer
        inner, lanes = kernel.inner, self.lanes
        bytes_each = sum(t.bytes for t in self.state.values())
        most = max(_STRIP_BYTES // bytes_each // lanes, 1) * lanes
        strips = -(-inner // most)
        width = inner if strips == 1 else -(-inner // strips // lanes) * lanes
        unit = writer.open_loop("%begin", "%end", 1, guarded=True)
        start = self._strip_start(unit.index, strips, width)
        vectors = -(-width // lanes)
        if vectors <= _IN_REGISTERS:
            self._narrow_strip(start, width, vectors)
        else:
            self._wide_strip(start, width, vectors)
        writer.close_loop(unit)
        return kernel.outer * strips

    def _strip_start(self, unit: str, strips: int, width: int) -> str:
        """The place of the first column of a unit, in the first row to be computed."""
        kernel, pure = self.kernel, self.writer.pure
        outer, column = unit, ""
        if strips > 1:
            outer = pure(f"udiv i64 {unit}, {strips}", unit)
            strip = pure(f"urem i64 {unit}, {strips}", unit)
            wished = pure(f"mul i64 {strip}, {width}", strip)
            most = str(kernel.inner - width)
            late = pure(f"icmp ugt i64 {wished}, {most}", wished)
            column = pure(f"select i1 {late}, i64 {most}, i64 {wished}", late, wished)
        terms = [(kernel.size * kernel.inner, outer)]
        if column:
            terms.append((1, column))
        first = kernel.inner * (kernel.size - 1) if kernel.reverse else 0
        return self.access.sum_terms(terms, first)

    def _row_place(self, start: str, row: str) -> str:
        step = -self.kernel.inner if self.kernel.reverse else self.kernel.inner
        return self.access.sum_terms([(1, start), (step, row)])

    def _narrow_strip(self, start: str, width: int, vectors: int) -> None:
        """The combinations stay in registers."""
        writer, lanes = self.writer, self.lanes
        mask = _Mask(lanes, width, False) if width < lanes else None
        offsets = [max(min(k * lanes, width - lanes), 0) for k in range(vectors)]

        def places(start: str) -> list[str]:
            return [self.access.sum_terms([(1, start)], at) for at in offsets]

        first = [self.enter(place, mask) for place in places(start)]
        for state, place in zip(first, places(start), strict=True):
            self.leave(state, place, mask)
        if self.kernel.size == 1:
            return
        pairs = [(t.text, s[register]) for s in first for register, t in self.types()]
        loop = writer.open_loop("1", str(self.kernel.size), 1, pairs)
        held = [name for _, _, name in loop.carried]
        row = self._row_place(start, loop.index)
        each, updated = len(self.state), list[str]()
        rights = [self.enter(place, mask) for place in places(row)]
        for k, (right, place) in enumerate(zip(rights, places(row), strict=True)):
            left = dict(zip(self.state, held[k * each :], strict=False))
            new = self.combine(left, right)
            self.leave(new, place, mask)
            updated += [new[register] for register in self.state]
        writer.close_loop(loop, updated)

    def types(self) -> list[tuple[Register, Type]]:
        return list(self.state.items())

    def _wide_strip(self, start: str, width: int, vectors: int) -> None:
        """The combinations stay in memory of the function, vector by vector."""
        writer, lanes = self.writer, self.lanes
        held: dict[Register, str] = {}
        for number, (register, t) in enumerate(self.types()):
            name = f"%held{number}"
            line = f"  {name} = alloca {memory_type(t)}, i64 {vectors}, align 64"
            writer.stack[0].lines.insert(0, line)
            held[register] = name

        def pass_over(row: str, first: bool) -> None:
            loop = writer.open_loop("0", str(vectors), 1)
            at = self.access.sum_terms([(lanes, loop.index)])
            if width % lanes:
                most = str(width - lanes)
                late = writer.pure(f"icmp ugt i64 {at}, {most}", at)
                at = writer.pure(f"select i1 {late}, i64 {most}, i64 {at}", late, at)
            place = self.access.sum_terms([(1, row), (1, at)])
            new = self.enter(place)
            pointers: dict[Register, str] = {}
            left: State = {}
            for register, t in self.types():
                p = writer.pure(
                    f"getelementptr {memory_type(t)}, ptr {held[register]}, "
                    f"i64 {loop.index}",
                    loop.index,
                )
                pointers[register] = p
                if not first:
                    left[register] = self.access.load(t, p, True)
            if not first:
                new = self.combine(left, new)
            for register, t in self.types():
                self.access.store(t, new[register], pointers[register])
            self.leave(new, place)
            writer.close_loop(loop)

        pass_over(start, True)
        if self.kernel.size > 1:
            loop = writer.open_loop("1", str(self.kernel.size), 1)
            pass_over(self._row_place(start, loop.index), False)
            writer.close_loop(loop)


class _Mask:
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
        lines = Lines(kernel, target, streamed)
        units = lines.rows() if kernel.inner == 1 else lines.columns()
        return lines.writer

    text = module(target, name, _streamed(kernel, target), build)
    each = max(kernel.operations // units, 1)
    return Rendered(text, units, -(-WORTH_A_THREAD // each))
