"""Loads and stores of a kernel, and prefetches: which kind of access serves each.

contiguous   the index grows by 1 (or -1) from lane to lane
window       by 2 to 8: vectors side by side, and every second element of them
gather       any other way

Small tables are held in registers where the schedule says so (`InRegisters`): to look a
number up is to permute them.

    Before: v = gather(table + index)
    After:  t0, t1, …: vectors of the table, before the loop
            v = permute(t0, index, t1), or of the next pair where a bit of index is set

A gather reads memory once for each lane, even from the first cache. AVX-512 permutes
two registers at once by an index per lane; so up to sixteen of them hold a table, of
256 elements with 32 bits or less, or of 128 with 64.

A processor asks for memory ahead by itself where one loop runs on and on. It does not
see in time where the next of many short pieces begins: rows that are far apart, the
pixels of another image.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ftrace import dtypes
from ftrace.backends.llvm.emit.addressing import Access, memory_type
from ftrace.backends.llvm.emit.emit_values import At, Expressions
from ftrace.backends.llvm.ir.writer import Type, first_lanes, index_type, mask_type
from ftrace.backends.llvm.scalar.avx512 import from_table
from ftrace.backends.llvm.scalar.instructions import Instructions
from ftrace.backends.llvm.schedule.index_facts import AccessCondition, index_of
from ftrace.backends.llvm.schedule.loop_tiling import Prefetch
from ftrace.lower.kernel.affine_index import Index
from ftrace.lower.kernel.ir import Store
from ftrace.trace.graph import Node
from ftrace.trace.symbolic import surely_less, upper_bound

#: Elements apart in a window that is masked: its masks have to be spread.
_MASKED_WINDOW = 4
#: Bits of a register that holds a part of a table.
_REGISTER = 512


class Values(Expressions):
    """Emits the expressions of a kernel, its loads and its stores.

    Attributes:
      active: lanes of which elements that lie apart are read; None is all.
    """

    active: str | None = None

    # Validity.

    def _validity(self, valid: Node | None, at: At) -> tuple[str | None, str | None]:
        """Where an access is made: whether at all, and in which lanes."""
        uniform: str | None = None
        mask = self.mask(at)
        for condition in self.facts.conditions(valid):
            if any(self.varies(n) for n in condition.nodes):
                on = self._lanes_inside(condition, at)
                mask = self.ops.all_of(self.lanes, on, mask)
            else:
                uniform = self.ops.all_of(0, self._inside(condition, at), uniform)
        return uniform, mask

    def _inside(self, condition: AccessCondition, at: At) -> str:
        """Does a condition hold that is the same in all lanes?"""
        if condition.form is None or condition.low is None or condition.high is None:
            nodes = [self.value(n, at) for n in condition.nodes]
            return self.ops.all_of(0, *nodes) or mask_type(0).constant(True)
        terms, constant = self.terms(condition.form, at)
        place = self.access.sum_terms(terms, constant - condition.low)
        width = condition.high - condition.low
        return self.ops.binary("icmp ult", index_type(0, False), place, str(width))

    def _lanes_inside(self, condition: AccessCondition, at: At) -> str:
        """The lanes in which a condition holds; both bounds are one comparison."""
        form, lanes = condition.form, self.lanes
        stride = None if form is None else self.form_stride(form)
        if form is None or stride is None:
            masks = [self.wide(n, lanes, at) for n in condition.nodes]
            return self.ops.all_of(lanes, *masks) or mask_type(lanes).constant(True)
        low, high = condition.low, condition.high
        small = max(abs(low or 0), abs(high or 0)) < 1 << 30
        t = index_type(lanes, small and self.facts.narrow_form(form))
        terms, constant = self.terms(form, at)
        places = self.index_lanes(
            self.access.sum_terms(terms, constant - (low or 0)), stride, t
        )
        if high is None:
            return self.ops.binary("icmp sge", t, places, t.zero)
        word = "icmp slt" if low is None else "icmp ult"
        return self.ops.binary(word, t, places, t.constant(high - (low or 0)))

    # Loads.

    def load(self, node: Node, at: At) -> str:
        number, index = int(node.src[0].arg), index_of(node)
        fixed, size = number in self.fixed, node.src[0].dtype.itemsize
        form, base = self.facts.affine[index], self.buffer(number)
        access = self.access
        uniform, mask = self._validity(node.src[2] if len(node.src) > 2 else None, at)
        if not self.varies(node):
            p = access.or_zeros(self.address(base, form, at, size), uniform)
            return access.load(Type.of(node.dtype, 0), p, fixed)
        t = Type.of(node.dtype, self.lanes)
        stride = self.stride(index)
        if stride in (1, -1):
            form, mask = self._forwards(form, mask, stride, t)
            p = access.or_zeros(self.address(base, form, at, size), uniform)
            found = access.load(t, p, fixed, None if number in self.padded else mask)
            return self.ops.reverse(t, found) if stride < 0 else found
        if stride is not None and 2 <= stride <= self.ops.target.most_strided:
            found = self._window(node, t, stride, at, uniform, mask)
            if found is not None:
                return found
        p, offsets, offset_type = self._address_lanes(index, base, size, number, at)
        mask = self._everywhere(uniform, mask)
        if stride is None and number in self.registers.tables:
            table = self.sizes[number]
            found = look_up(self.ops, access, t, p, table, offsets, offset_type)
            return found if mask is None else self.ops.select(mask, t, found, t.zero)
        mask = self.ops.all_of(t.lanes, mask, self.active)
        return access.gather(t, p, offsets, offset_type, mask, fixed)

    def _forwards(
        self, form: Index, mask: str | None, stride: int, t: Type
    ) -> tuple[Index, str | None]:
        """Lanes side by side in the order of memory: where the first of them stands."""
        if stride > 0:
            return form, mask
        if mask is not None:
            mask = self.ops.reverse(mask_type(t.lanes), mask)
        return form + (1 - t.lanes), mask

    def _everywhere(self, uniform: str | None, mask: str | None) -> str | None:
        """The mask of an access that is made at all, or is not."""
        if uniform is None:
            return mask
        every = self.ops.splat(uniform, mask_type(self.lanes))
        return self.ops.all_of(self.lanes, every, mask)

    def _window(
        self, node: Node, t: Type, stride: int, at: At, uniform: str | None,
        mask: str | None,
    ) -> str | None:  # fmt: skip
        """Every `stride`-th element of vectors side by side, where that may be read.

        Between those of a buffer's ends nothing else may be, and of masked lanes only
        those that the mask has.
        """
        number, index = int(node.src[0].arg), index_of(node)
        form, bounds = self.facts.affine[index], self.facts.interval[index]
        v, lanes = self.vector, t.lanes
        assert v is not None
        wide = t.bits >= 32 and self.ops.target.vector_bytes >= 32
        spread = mask if len(node.src) > 2 or not v.existing else None
        phase, read = 0, stride * lanes
        if spread is not None:
            if not wide or stride > _MASKED_WINDOW:
                return None
        else:
            count = lanes if mask is None else v.existing
            phase, read = form.constant % stride, stride * count
            last, size = stride - 1 - phase, self.sizes[number]
            # Bounds are not those of an access that may not be made.
            whole = uniform is None and bounds is not None and bounds[0] >= phase
            if not (whole and bounds and surely_less(bounds[1] + last, size)):
                phase, read = 0, stride * (count - 1) + 1  # not a place beyond
                if not wide:
                    return None
        base, parts = self.buffer(number), list[str]()
        for n in range(stride):
            existing, place = read - n * lanes, form + (n * lanes - phase)
            on = first_lanes(lanes, existing) if existing < lanes else None
            if spread is not None:
                on = self._spread_mask(spread, lanes, stride, n)
            p = self.access.or_zeros(self.address(base, place, at, t.bytes), uniform)
            if existing > 0:
                parts.append(self.access.load(t, p, number in self.fixed, on))
            else:
                parts.append(t.zero)
        return self.ops.pick(t, parts, stride, phase)

    def _spread_mask(self, mask: str, lanes: int, stride: int, part: int) -> str:
        """A mask for every `stride`-th element, in one of as many vectors."""
        kind = mask_type(lanes)
        spread = [divmod(part * lanes + lane, stride) for lane in range(lanes)]
        places = [lanes if rest else lane for lane, rest in spread]
        return self.ops.shuffle(kind, mask, kind.zero, places)

    def _address_lanes(
        self, index: Node, base: str, size: int, number: int, at: At
    ) -> tuple[str, str, Type]:
        """An address that is not contiguous: a pointer, and an index per lane."""
        form = self.facts.affine[index]
        stride = self.stride(index)
        small = upper_bound(self.sizes[number]) < 1 << 31
        t = index_type(self.lanes, small)
        if stride is not None:
            offsets = t.lanewise([stride * lane for lane in range(t.lanes)])
            return self.address(base, form, at, size), offsets, t
        # The sum is an element's number where the access is valid: 32 bits hold it
        # even if they do not hold a part of it.
        total = ""
        for atom, coefficient in form.pairs:
            if self.varies(atom):
                part = self.index_as(atom, t, at)
                if coefficient != 1:
                    part = self.ops.binary("mul", t, part, t.constant(coefficient))
                total = self.ops.binary("add", t, total, part) if total else part
        uniform = form.only(lambda atom: not self.varies(atom))
        terms, constant = self.terms(uniform, at)
        if not terms:
            return base, self._shift(total, t, constant), t
        start = self.access.sum_terms(terms, constant)
        if t.bits == 32:
            start = self.writer.pure(f"trunc i64 {start} to i32", start)
        total = self.ops.binary("add", t, total, self.ops.splat(start, t))
        return base, total, t

    def _shift(self, index: str, t: Type, by: int) -> str:
        return self.ops.binary("add", t, index, t.constant(by)) if by else index

    # Stores.

    def store(self, store: Store, at: At) -> None:
        """One copy of a store."""
        base, size = self.buffer(store.buffer), store.value.dtype.itemsize
        form = self.facts.affine[store.index]
        if not any(self.varies(e) for e in store.expressions):
            p = self.address(base, form, at, size)
            p = self.access.or_sink(p, self._validity(store.valid, at)[0])
            t = Type.of(store.value.dtype, 0)
            self._store_value(store, t, self.plain(store.value, 0, at), p, None)
            return
        t = Type.of(store.value.dtype, self.lanes)
        value = self.plain(store.value, t.lanes, at)
        uniform, mask = self._validity(store.valid, at)
        if store.buffer in self.padded:
            mask = None
        stride = self.stride(store.index)
        if stride in (1, -1):
            form, mask = self._forwards(form, mask, stride, t)
            if stride < 0:
                value = self.ops.reverse(t, value)
            p = self.access.or_sink(self.address(base, form, at, size), uniform)
            self._store_value(store, t, value, p, mask)
            return
        few = stride is not None and 2 <= stride <= _MASKED_WINDOW
        cheap = self.ops.target.masked and t.bits >= 32 and not store.combine
        if stride is not None and few and cheap:
            self._store_interleaved(store, t, value, stride, at, uniform, mask)
            return
        mask = self._everywhere(uniform, mask)
        p, index, kind = self._address_lanes(store.index, base, size, store.buffer, at)
        if store.combine:
            old = self.access.gather(t, p, index, kind, mask, True)
            value = self.ops.apply(store.combine, t, old, value)
        self.access.scatter(t, value, p, index, kind, mask)

    def _store_interleaved(
        self, store: Store, t: Type, value: str, stride: int, at: At,
        uniform: str | None, mask: str | None,
    ) -> None:  # fmt: skip
        """Every `stride`-th element of vectors side by side, and none between."""
        lanes, kind = t.lanes, mask_type(t.lanes)
        form, base = self.facts.affine[store.index], self.buffer(store.buffer)
        for n in range(stride):
            spread = [divmod(n * lanes + lane, stride) for lane in range(lanes)]
            places = [0 if rest else lane for lane, rest in spread]
            part = self.ops.shuffle(t, value, "poison", places)
            if mask is None:
                on = kind.lanewise([not rest for _, rest in spread])
            else:
                on = self._spread_mask(mask, lanes, stride, n)
            p = self.address(base, form + (n * lanes), at, t.bytes)
            self.access.store(t, part, self.access.or_sink(p, uniform), on)

    def _may_join(self, group: Sequence[Store], store: Store) -> bool:
        """Does a store fill the places beside those of a group?"""
        first, v = group[0], self.vector
        if first.buffer != store.buffer or first.combine or store.combine:
            return False
        if first.valid is not None or store.valid is not None or v is None:
            return False
        a, b = self.facts.affine[first.index], self.facts.affine[store.index]
        if b.constant != a.constant + len(group) or a.terms != b.terms:
            return False
        stride = self.stride(first.index)
        if stride is None or not len(group) < stride <= self.ops.target.most_strided:
            return False
        return v.existing > 0 or all(mask is None for mask in v.masks)

    def group(self, stores: Sequence[Store]) -> Iterator[list[Store]]:
        """Stores in order, together where they fill what lies side by side."""
        held: list[Store] = []
        for store in stores:
            if held and not self._may_join(held, store):
                yield from ([one] for one in held)
                held = []
            held.append(store)
            if self.stride(held[0].index) == len(held) > 1:
                yield held
                held = []
        yield from ([one] for one in held)

    def store_group(self, group: Sequence[Store], at: At) -> None:
        """One copy of a group of stores: their values in turn."""
        v, first, count = self.vector, group[0], len(group)
        if count == 1:
            self.store(first, at)
            return
        assert v is not None
        t = Type.of(first.value.dtype, v.lanes)
        values = [self.plain(store.value, v.lanes, at) for store in group]
        form = self.facts.affine[first.index]
        base, masked = self.buffer(first.buffer), self.mask(at) is not None
        nontemporal = first.buffer in self.nontemporal and self.rows_are_aligned(
            form, t, v.node
        )
        for n, value in enumerate(self.ops.interleave(t, values)):
            p = self.address(base, form + (n * v.lanes), at, t.bytes)
            existing = count * v.existing - n * v.lanes if masked else v.lanes
            if existing > 0:
                mask = first_lanes(v.lanes, existing) if existing < v.lanes else None
                self.access.store(t, value, p, mask, nontemporal)

    def store_square(self, store: Store, ats: Sequence[At], row: Node) -> None:
        """A square of registers, with lanes and copies exchanged: those of `row`."""
        vector = self.vector
        assert vector is not None
        lanes = vector.lanes
        t = Type.of(store.value.dtype, lanes)
        values = [self.plain(store.value, lanes, at) for at in ats]
        columns = self.ops.transpose(t, values + [t.zero] * (lanes - len(values)))
        stride = self.facts.stride(store.index, vector.node, lanes)
        assert stride is not None
        base, size = self.buffer(store.buffer), store.value.dtype.itemsize
        form = self.facts.affine[store.index]
        mask: str | None = None
        if len(values) < lanes and store.buffer not in self.padded:
            mask = first_lanes(lanes, len(values))
        nontemporal = store.buffer in self.nontemporal and len(values) == lanes
        nontemporal = nontemporal and self.rows_are_aligned(form, t, row)
        for lane in range(vector.existing or lanes):
            p = self.address(base, form + (stride * lane), ats[0], size)
            self.access.store(t, columns[lane], p, mask, nontemporal)

    def _store_value(
        self, store: Store, t: Type, value: str, p: str, mask: str | None
    ) -> None:
        if store.combine:
            old = self.access.load(t, p, True, mask)
            value = self.ops.apply(store.combine, t, old, value)
        nontemporal = store.buffer in self.nontemporal and self._is_aligned(store, t)
        self.access.store(t, value, p, mask, nontemporal)

    def _is_aligned(self, store: Store, t: Type) -> bool:
        """Does every vector of a store begin at a multiple of its size?"""
        v = self.vector
        if v is None or not t.lanes or self.stride(store.index) != 1:
            return False
        return self.rows_are_aligned(self.facts.affine[store.index], t, v.node)

    def rows_are_aligned(self, form: Index, t: Type, along: Node) -> bool:
        """Is what an index has beside one range a multiple of a vector's lanes?"""
        if t.kind == "b" or t.lanes * t.bytes < 16:
            return False
        others = form.only(lambda atom: atom is not along)
        return others.common_divisor() % t.lanes == 0

    # What is read or written later is asked for, where the schedule says so.

    def prefetch(self, asked: Prefetch, at: At) -> None:
        base = self.buffer(asked.buffer)
        p = self.address(base, asked.form, at, asked.size)
        self.access.prefetch(p, asked.write, asked.near)

    def prefetch_pass(self, every: Sequence[Prefetch], along: Node) -> None:
        """What a loop over this range asks for."""
        vector = self.vector
        for asked in every:
            if vector is None or (asked.write and asked.buffer in self.nontemporal):
                continue
            width = vector.lanes * asked.size
            for at in self.assignments([along]):
                copy = at[vector.slot] if vector.slot >= 0 else 0
                if not copy * width % 64:  # else its line has been asked for
                    self.prefetch(asked, at)

    def prefetch_steps(self, every: Sequence[Prefetch]) -> None:
        """What is asked for with each vector."""
        vector = self.vector
        if vector is None:
            return
        for asked in every:
            form, size = asked.form, asked.size
            step = abs(form.terms.get(vector.node, 0))
            for at in self.assignments(form.terms):
                for part in range(0, vector.lanes * step * size, 64):
                    line = asked._replace(form=form + part // size)
                    self.prefetch(line, at)

    def prefetch_square(
        self, loads: Sequence[Node], row: Node, ats: Sequence[At]
    ) -> None:
        """What is read in the next square of registers, whose rows are unrolled.

        They go to the second cache: those of one square often share a set of the first.
        """
        for node in loads if len(ats) > 1 else ():
            form = self.facts.affine[index_of(node)]
            later = Prefetch.of(node, form + form.terms[row] * len(ats))
            for at in ats:
                self.prefetch(later, at)


# Tables in registers.


def _bits(t: Type) -> int:
    """Of a table's element in a register."""
    return 64 if t.bits == 64 else 32


def look_up(
    o: Instructions, memory: Access, t: Type, base: str, size: int, index: str,
    kind: Type,
) -> str:  # fmt: skip
    """The elements at `index`, of type `kind`, from a table of `size` at `base`.

    An index outside of the table gives any of its elements, or 0.
    """
    element = memory_type(t)
    number = Type.of(dtypes.int64 if _bits(t) == 64 else dtypes.int32, 0)
    lanes = _REGISTER // number.bits
    wide = number.with_lanes(lanes)
    table = _table(o, memory, element.integer().with_lanes(lanes), wide, base, size)
    places = number.with_lanes(t.lanes)
    if kind.bits != places.bits:
        word = "sext" if kind.bits < places.bits else "trunc"
        index = o.convert(word, kind, places, index)
    found = from_table(table)(o, places, index)
    stored = element.integer()
    if stored.bits != places.bits:
        found = o.convert("trunc", places, stored, found)
    if t.kind == "b":
        return o.binary("icmp ne", stored, found, stored.zero)
    if stored.text == t.text:
        return found
    return o.convert("bitcast", stored, t, found)


def _table(
    o: Instructions, memory: Access, element: Type, wide: Type, base: str, size: int
) -> list[str]:
    """Its vectors, an even number of them."""
    table: list[str] = []
    for first in range(0, size, wide.lanes):
        distance = first * element.bits // 8
        p = o.pure(f"getelementptr i8, ptr {base}, i64 {distance}", base)
        count = min(size - first, wide.lanes)
        mask = first_lanes(wide.lanes, count) if count < wide.lanes else None
        part = memory.load(element, p, False, mask)
        if element.bits != wide.bits:
            part = o.convert("zext", element, wide, part)
        table.append(part)
    return table + [table[-1]] * (len(table) % 2)
