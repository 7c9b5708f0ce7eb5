"""A running reduction along an axis that is not contiguous: see `running.py`."""

from __future__ import annotations

from ftrace.devices.llvm.access import memory_type
from ftrace.devices.llvm.running_lines import Lines, Mask, State
from ftrace.devices.llvm.variation import Register

#: Vectors of columns at the most whose combinations stay in registers.
_IN_REGISTERS = 4
#: Bytes of combinations of a strip: half of a small first cache.
_STRIP_BYTES = 16 << 10


class Columns(Lines):
    """Lanes are columns, whose combinations wait while the rows stream by."""

    def units(self) -> int:
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
