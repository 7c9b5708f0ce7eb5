"""A running reduction along an axis that is not contiguous: see `running.py`."""

from __future__ import annotations

from ftrace.devices.llvm.loops.access import memory_type
from ftrace.devices.llvm.recurrences.running_lines import Lines, Mask, State
from ftrace.devices.llvm.recurrences.variation import Register
from ftrace.lower.scan_kernels import Running

#: Vectors of columns at the most whose combinations stay in registers.
_IN_REGISTERS = 4
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
_CHEAP = 3


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
        if vectors <= _IN_REGISTERS:
            self._narrow_strip(start, width, vectors)
        else:
            together = 1 if strips == 1 else _rows_at_once(kernel)
            self._wide_strip(start, width, vectors, together)
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
        return self.access.sum_terms([(1, start), (self._row_step(), row)])

    def _row_step(self) -> int:
        return -self.kernel.inner if self.kernel.reverse else self.kernel.inner

    def _narrow_strip(self, start: str, width: int, vectors: int) -> None:
        """The combinations stay in registers."""
        writer, lanes = self.writer, self.lanes
        mask = Mask(lanes, width, False) if width < lanes else None
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

    def _wide_strip(self, start: str, width: int, vectors: int, together: int) -> None:
        """The combinations stay in memory of the function, vector by vector.

        Args:
          together: rows that pass by at once.
        """
        writer, lanes = self.writer, self.lanes
        held: dict[Register, str] = {}
        for number, (register, t) in enumerate(self.types()):
            kind = f"{memory_type(t)}, i64 {vectors}"
            held[register] = writer.memory(kind, f"%held{number}")

        def pass_over(row: str, count: int, first: bool = False) -> None:
            loop = writer.open_loop("0", str(vectors), 1)
            at = self.access.sum_terms([(lanes, loop.index)])
            if width % lanes:
                most = str(width - lanes)
                late = writer.pure(f"icmp ugt i64 {at}, {most}", at)
                at = writer.pure(f"select i1 {late}, i64 {most}, i64 {at}", late, at)
            pointers = {
                register: writer.pure(
                    f"getelementptr {memory_type(t)}, ptr {held[register]}, "
                    f"i64 {loop.index}",
                    loop.index,
                )
                for register, t in self.types()
            }
            left: State = {}
            if not first:
                for register, t in self.types():
                    left[register] = self.access.load(t, pointers[register], True)
            for n in range(count):
                next_row = self.access.sum_terms([(1, row)], n * self._row_step())
                place = self.access.sum_terms([(1, next_row), (1, at)])
                right = self.enter(place)
                left = self.combine(left, right) if left else right
                self.leave(left, place)
            for register, t in self.types():
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
