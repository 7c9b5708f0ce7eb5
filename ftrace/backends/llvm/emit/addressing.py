"""Addresses, loads and stores.

A value that is not valid is read from a place that holds zeros, and written to a
place that nobody reads: neither needs a branch. Where lanes of a vector differ in
validity the access is masked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ftrace.backends.llvm.ir import writer as llvm
from ftrace.backends.llvm.scalar.ops import Operations
from ftrace.trace.symbolic import is_dynamic

#: A term of an address: coefficient in elements, value.
Scaled = tuple[int, str]

ZEROS = "@zeros = internal constant [1024 x i8] zeroinitializer, align 64"
_SINK = "[1024 x i8]"


def memory_type(t: llvm.Type) -> llvm.Type:
    """How a value stands in memory: a bool takes a byte."""
    return llvm.byte_type(t.lanes) if t.kind == "b" else t


class Access:
    """Emits accesses to memory into a writer.

    A load that is `fixed` stands where it is asked for: the memory may change.
    """

    def __init__(
        self, writer: llvm.Writer, ops: Operations, number: Callable[[Any], str] = str
    ) -> None:
        self.writer = writer
        self.ops = ops
        self.number = number
        self._has_sink = False

    # Addresses.

    def _by_depth(self, terms: list[Scaled]) -> list[Scaled]:
        if len(terms) < 2:
            return terms
        depth = self.writer.depth_of.get
        return sorted(terms, key=lambda term: depth(term[1], 0))

    def sum_terms(self, terms: list[Scaled], constant: int = 0) -> str:
        """The sum of the terms; what changes least is added up first."""
        pure = self.writer.pure
        total = ""
        for coefficient, value in self._by_depth(terms):
            part = value
            if coefficient != 1:
                part = pure(f"mul i64 {value}, {coefficient}", value)
            total = pure(f"add i64 {total}, {part}", total, part) if total else part
        if is_dynamic(constant):
            text = self.number(constant)
            return pure(f"add i64 {total}, {text}", total, text) if total else text
        if not total:
            return llvm.literal(constant)
        return pure(f"add i64 {total}, {constant}", total) if constant else total

    def pointer(self, base: str, terms: list[Scaled], constant: int, size: int) -> str:
        """`base` + `size`·(the sum of the terms + constant).

        The last step stands beside the access, where x86 takes it for nothing.
        """
        pure = self.writer.pure
        p = base
        for coefficient, value in self._by_depth(terms):
            scale = coefficient * size
            if scale in (1, 2, 4, 8):
                kind = f"i{8 * scale}"
                p = pure(f"getelementptr {kind}, ptr {p}, i64 {value}", p, value)
            else:
                part = pure(f"mul i64 {value}, {scale}", value)
                p = pure(f"getelementptr i8, ptr {p}, i64 {part}", p, part)
        if constant:
            p = pure(f"getelementptr i8, ptr {p}, i64 {constant * size}", p)
        return p

    def or_zeros(self, p: str, valid: str | None) -> str:
        """`p`, or a place that holds zeros."""
        if valid is None or valid == "true":
            return p
        self.writer.declare(ZEROS)
        return self.writer.pure(f"select i1 {valid}, ptr {p}, ptr @zeros", valid, p)

    def or_sink(self, p: str, valid: str | None) -> str:
        """`p`, or a place for what is not to be stored."""
        if valid is None or valid == "true":
            return p
        if not self._has_sink:
            self.writer.memory(_SINK, "%sink")
            self._has_sink = True
        return self.writer.pure(f"select i1 {valid}, ptr {p}, ptr %sink", valid, p)

    # Loads.

    def load(self, t: llvm.Type, p: str, fixed: bool, mask: str | None = None) -> str:
        """A scalar, or elements side by side; zero where the mask is off."""
        if mask is not None:
            return self._load_masked(t, p, mask, fixed)
        m = memory_type(t)
        text = f"load {m}, ptr {p}, align {m.bits // 8}"
        found = self.writer.here(text) if fixed else self.writer.pure(text, p)
        return self._from_memory(t, m, found)

    def _load_masked(self, t: llvm.Type, p: str, mask: str, fixed: bool) -> str:
        m = memory_type(t)
        whole, on = self._whole(m, mask)
        lanes = llvm.mask_type(whole.lanes)
        text = self.writer.call(
            whole, f"@llvm.masked.load.{whole.suffix}.p0", ("ptr", p),
            ("i32", m.bits // 8), (lanes, on), (whole, "zeroinitializer"),
        )  # fmt: skip
        found = self.writer.here(text) if fixed else self.writer.pure(text, p, on)
        if whole is not m:
            found = self._resize(whole, found, m.lanes)
        return self._from_memory(t, m, found)

    def _whole(self, m: llvm.Type, mask: str) -> tuple[llvm.Type, str]:
        """The type of a masked access, and its mask: of a whole register of bytes.

        LLVM makes 16 lanes of 8 bytes, and takes the bits of a mask of 8 lanes for
        those of 16: where the mask is a constant that has been spilled the other bits
        hold anything (seen in LLVM 22, on AVX-512). The access then reaches beyond.
        """
        if (m.lanes, m.bits) != (8, 8) or not self.ops.target.masked:
            return m, mask
        whole, pure = m.with_lanes(16), self.writer.pure
        if isinstance(mask, llvm.Constant) and mask.lanes:
            lanes = (*mask.lanes, *[False] * m.lanes)
            return whole, llvm.mask_type(whole.lanes).lanewise(lanes)
        lanes = pure(f"sext {llvm.mask_type(m.lanes)} {mask} to {m}", mask)
        lanes = self._resize(m, lanes, whole.lanes)
        return whole, pure(f"icmp ne {whole} {lanes}, zeroinitializer", lanes)

    def _resize(self, m: llvm.Type, value: str, lanes: int) -> str:
        """The first lanes of a vector; zeros for those that it has not."""
        places = ", ".join(f"i32 {lane}" for lane in range(lanes))
        text = f"shufflevector {m} {value}, {m} zeroinitializer, <{lanes} x i32> "
        return self.writer.pure(f"{text}<{places}>", value)

    def gather(
        self,
        t: llvm.Type,
        p: str,
        index: str,
        kind: llvm.Type,
        mask: str | None,
        fixed: bool,
    ) -> str:
        """The elements at `index` (of type `kind`) from `p`; zero where masked."""
        m, lanes = memory_type(t), llvm.mask_type(t.lanes)
        places = self._elements(m, p, index, kind)
        on = mask or lanes.constant(True)
        text = self.writer.call(
            m, f"@llvm.masked.gather.{m.suffix}.v{t.lanes}p0",
            (f"<{t.lanes} x ptr>", places), ("i32", m.bits // 8), (lanes, on),
            (m, "zeroinitializer"),
        )  # fmt: skip
        found = self.writer.here(text) if fixed else self.writer.pure(text, places, on)
        return self._from_memory(t, m, found)

    def _elements(self, m: llvm.Type, p: str, index: str, kind: llvm.Type) -> str:
        return self.writer.pure(
            f"getelementptr {m.element}, ptr {p}, {kind} {index}", p, index
        )

    def _from_memory(self, t: llvm.Type, m: llvm.Type, value: str) -> str:
        if t.kind != "b":
            return value
        return self.writer.pure(f"icmp ne {m} {value}, {m.zero}", value)

    def _to_memory(self, t: llvm.Type, value: str) -> tuple[llvm.Type, str]:
        m = memory_type(t)
        if t.kind != "b":
            return m, value
        return m, self.writer.pure(f"zext {t} {value} to {m}", value)

    def prefetch(self, p: str, write: bool, near: bool) -> None:
        """Asks for a line, which need not exist, to be in the first or second cache."""
        how = ("i32", int(write)), ("i32", 3 if near else 2), ("i32", 1)
        call = self.writer.call("void", "@llvm.prefetch.p0", ("ptr", p), *how)
        self.writer.effect(call)

    # Stores.

    def store(
        self,
        t: llvm.Type,
        value: str,
        p: str,
        mask: str | None = None,
        nontemporal: bool = False,
    ) -> None:
        """Elements side by side, where the mask is on.

        Args:
          nontemporal: of whole vectors, which are aligned, past the caches.
        """
        m, value = self._to_memory(t, value)
        if mask is not None:
            self._store_masked(m, value, p, mask)
        elif nontemporal:
            self.writer.declare("!0 = !{i32 1}")
            self.writer.nontemporal = True
            align = m.bits * m.lanes // 8
            self.writer.effect(
                f"store {m} {value}, ptr {p}, align {align}, !nontemporal !0"
            )
        else:
            self.writer.effect(f"store {m} {value}, ptr {p}, align {m.bits // 8}")

    def _store_masked(self, m: llvm.Type, value: str, p: str, mask: str) -> None:
        if isinstance(mask, llvm.Constant):
            few = sum(mask.lanes) == 1 or not self.ops.target.masked
            if few and mask.lanes:
                self._store_pieces(m, value, p, mask.lanes)
                return
        whole, on = self._whole(m, mask)
        if whole is not m:
            value = self._resize(m, value, whole.lanes)
        lanes = llvm.mask_type(whole.lanes)
        call = self.writer.call(
            "void", f"@llvm.masked.store.{whole.suffix}.p0", (whole, value),
            ("ptr", p), ("i32", m.bits // 8), (lanes, on),
        )  # fmt: skip
        self.writer.effect(call)

    def _store_pieces(
        self, m: llvm.Type, value: str, p: str, on: Sequence[bool]
    ) -> None:
        """Some elements of a vector, in vectors that have 1, 2, 4, … of them.

        A processor without masks of its own stores lane after lane, and a load of what
        it has stored waits for them all: of AVX2's masks softmax of 1000×31 would take
        1.6 times as long (AMD EPYC).

        LLVM stores one element so, too; but where the elements have just been made
        narrower it stores the wide one, over what follows in memory (seen in LLVM 22,
        on AVX-512).
        """
        pure, lane = self.writer.pure, 0
        while True in on[lane:]:
            lane, count = on.index(True, lane), 1
            while sum(on[lane : lane + 2 * count]) == 2 * count:
                count *= 2
            kind, place = m.element, p
            if count == 1:
                part = pure(f"extractelement {m} {value}, i32 {lane}", value)
            else:
                kind = m.with_lanes(count).text
                part = self.ops.shuffle(m, value, "poison", range(lane, lane + count))
            if lane:
                place = pure(f"getelementptr {m.element}, ptr {p}, i64 {lane}", p)
            self.writer.effect(f"store {kind} {part}, ptr {place}, align {m.bits // 8}")
            lane += count

    def scatter(
        self,
        t: llvm.Type,
        value: str,
        p: str,
        index: str,
        kind: llvm.Type,
        mask: str | None,
    ) -> None:
        m, value = self._to_memory(t, value)
        lanes = llvm.mask_type(t.lanes)
        places = self._elements(m, p, index, kind)
        call = self.writer.call(
            "void", f"@llvm.masked.scatter.{m.suffix}.v{t.lanes}p0", (m, value),
            (f"<{t.lanes} x ptr>", places), ("i32", m.bits // 8),
            (lanes, mask or lanes.constant(True)),
        )  # fmt: skip
        self.writer.effect(call)
