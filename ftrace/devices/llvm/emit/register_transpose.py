"""Squares of registers with rows and lanes exchanged.

    panel[c][r] <- x[r][c]

A panel that is contiguous across what it is filled with is evaluated in vectors that
run with memory, and stored in vectors that run with the panel: as many of each as a
vector has lanes make a square, which is turned in registers.
"""

from __future__ import annotations

from collections.abc import Sequence

from ftrace.devices.llvm.emit.loop_nest import Nest
from ftrace.devices.llvm.emit.open_ranges import At
from ftrace.devices.llvm.ir.types import Type, mask_type
from ftrace.devices.llvm.scalar.ops import Operations
from ftrace.lower.kernel.ir import Store, load_p
from ftrace.trace.graph import toposort
from ftrace.trace.symbolic.bounds import upper_bound


class TurningNest(Nest):
    """Stores squares of registers with lanes and copies exchanged."""

    def store(self, store: Store) -> None:
        values = self.values
        vector = values.vector
        assert vector is not None
        lanes = vector.lanes
        t = Type.of(store.value.dtype, lanes)
        ats = values.assignments(store.expressions)
        self._prefetch(store, ats)
        rows = [values.plain(store.value, lanes, at) for at in ats]
        columns = transpose(values.ops, t, rows + [t.zero] * (lanes - len(rows)))
        stride = values.facts.stride(store.index, vector.node, lanes)
        assert stride is not None
        base, size = values.buffer(store.buffer), store.value.dtype.itemsize
        form = values.facts.affine[store.index]
        mask: str | None = None
        if len(rows) < lanes and store.buffer not in values.padded:
            mask = mask_type(lanes).lanewise([n < len(rows) for n in range(lanes)])
        past = store.buffer in values.streamed and len(rows) == lanes
        past = past and all(
            values.rows_are_aligned(form, t, r)
            for r, steps in self.tiling.steps.items()
            if not steps.lanes
        )
        for lane in range(vector.existing or lanes):
            terms, constant = values.terms(form.shifted(stride * lane), ats[0])
            p = values.access.pointer(base, terms, constant, size)
            if past:
                values.access.stream(t, columns[lane], p)
            elif mask is None:
                values.access.store(t, columns[lane], p)
            else:
                values.access.store_masked(t, columns[lane], p, mask)

    def _prefetch(self, store: Store, ats: Sequence[At]) -> None:
        """Asks for the rows of the next square, whose places no processor guesses.

        They go to the second cache: those of one square often share a set of the first.
        """
        values, vector = self.values, self.values.vector
        assert vector is not None
        for node in toposort([store.value]):
            if node.op is not load_p or len(ats) < 2:
                continue
            buffer, index, *valid = node.src
            number, size = buffer.arg, node.dtype.itemsize
            form = values.facts.affine[index]
            assert isinstance(number, int)
            nbytes = upper_bound(values.sizes[number]) * size
            small = nbytes <= values.ops.target.l2
            if small or valid or form.terms.get(vector.node) != 1:
                continue
            places = [values.terms(form, at) for at in ats]
            step = (places[1][1] - places[0][1]) * len(ats)
            if abs(step) * size < 64 * len(ats):
                continue
            base = values.buffer(number)
            for terms, constant in places:
                p = values.access.pointer(base, terms, constant + step, size)
                values.access.prefetch(p, False, False)


def transpose(ops: Operations, t: Type, rows: Sequence[str]) -> list[str]:
    """A square of vectors with rows and lanes exchanged.

    First inside of sections of 16 bytes, for which processors have an instruction
    that interleaves two vectors, then section by section:

        a0 a1 a2 a3 …, b0 b1 b2 b3 …  ->  a0 b0 a1 b1 …, a2 b2 a3 b3 …
        A0 A1 A2 A3,   B0 B1 B2 B3    ->  A0 A2 B0 B2,   A1 A3 B1 B3

    Each step is a basic block: the code generator combines the shuffles of a block
    with one another, which takes it four times as long, and comes to nothing here.
    """
    found = list(rows)
    lanes = t.lanes
    section = min(max(16 // t.bytes, 1), lanes)
    step = 1
    while step < lanes:
        low = _interleaved(lanes, step, section)
        # What `low` leaves is half a section further, or a section.
        apart = section // 2 if step < section else section
        high = [place + apart for place in low]
        for n in range(lanes):
            if n & step:
                continue
            a, b = found[n], found[n | step]
            found[n] = ops.shuffle(t, a, b, low)
            found[n | step] = ops.shuffle(t, a, b, high)
        ops.writer.cut(found[0])
        step *= 2
    # A column's lowest digits, those of its place in a section, have come out reversed.
    digits = section.bit_length() - 1
    return [
        found[_reversed(c % section, digits) + c // section * section]
        for c in range(lanes)
    ]


def _interleaved(lanes: int, step: int, section: int) -> list[int]:
    """The places of two vectors that `transpose` takes together in a step."""
    if step < section:
        starts = [
            first + part
            for first in range(0, lanes, section)
            for part in range(0, section // 2, step)
        ]
        return [p + v for s in starts for v in (0, lanes) for p in range(s, s + step)]
    return [
        first + part
        for first in range(0, 2 * lanes, 2 * section)
        for part in range(section)
    ]


def _reversed(number: int, digits: int) -> int:
    """A number of so many binary digits, read from its other end."""
    found = 0
    for _ in range(digits):
        number, found = number // 2, 2 * found + number % 2
    return found
