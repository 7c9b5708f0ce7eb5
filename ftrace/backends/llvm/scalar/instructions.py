"""Instructions of LLVM IR for a target, of which operations of elements are made.

The writer of a kernel gets them, or a function that is written by hand: `Vectors`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, cast

import numpy as np

from ftrace.backends.llvm.ir.function_builder import Function
from ftrace.backends.llvm.ir.symbols import Formula
from ftrace.backends.llvm.ir.writer import Constant, Type, Writer, mask_type
from ftrace.backends.llvm.target import Target

#: What emits an operation: given `Instructions`, a type, and operands of that type.
Row = Callable[..., str]


class Instructions:
    """Emits instructions into a writer, for a target."""

    def __init__(self, writer: Writer, target: Target) -> None:
        self.writer = writer
        self.target = target
        self.pure = writer.pure

    def call(self, name: str, t: Type, *x: str, extra: str = "") -> str:
        """An intrinsic of operands of one type; `extra` is a last constant operand."""
        operands = [(t.text, a) for a in x] + ([("i1", extra)] if extra else [])
        return self.pure(self.writer.call(t, f"@llvm.{name}.{t.suffix}", *operands), *x)

    def component(
        self, function: str, number: int, t: Type, results: Sequence[Type], *x: str
    ) -> str:
        """Result `number` of a function of `kernels/function_library.py`."""
        symbol = Formula(function, t.lanes, t.bits).symbol
        whole = f"{{ {', '.join(map(str, results))} }}"
        width = t.lanes * t.bits // 8
        self.writer.alignment = max(self.writer.alignment, width)
        operands = [(t, a) for a in x]
        call = self.writer.call(whole, f"@{symbol}", *operands, symbol=symbol)
        call = self.pure(call, *x)
        return self.pure(f"extractvalue {whole} {call}, {number}", call)

    def binary(self, word: str, t: Type, a: str, b: str | float) -> str:
        """An instruction of two operands; the second may be a number."""
        b = b if isinstance(b, str) else t.constant(b)
        return self.pure(f"{word} {t} {a}, {b}", a, b)

    def select(self, condition: str, t: Type, a: str | float, b: str | float) -> str:
        """`a` where a condition holds, else `b`; each may be a number."""
        a, b = (x if isinstance(x, str) else t.constant(x) for x in (a, b))
        if a == b:
            return a
        c = t.mask()
        return self.pure(f"select {c} {condition}, {t} {a}, {t} {b}", condition, a, b)

    def convert(self, word: str, source: Type, target: Type, a: str) -> str:
        return self.pure(f"{word} {source} {a} to {target}", a)

    def splat(self, a: str, t: Type) -> str:
        """The scalar `a` in every lane of `t`."""
        if isinstance(a, Constant):
            return t.splat(a)
        one = self.pure(f"insertelement {t} poison, {t.element} {a}, i32 0", a)
        places = f"<{t.lanes} x i32> zeroinitializer"
        return self.pure(f"shufflevector {t} {one}, {t} poison, {places}", one)

    def shuffle(self, t: Type, a: str, b: str, places: Sequence[int]) -> str:
        """The lanes `places` of `a` and `b` put together."""
        lanes = _numbers(tuple(places))
        return self.pure(
            f"shufflevector {t} {a}, {t} {b}, <{len(places)} x i32> <{lanes}>", a, b
        )

    def reverse(self, t: Type, a: str) -> str:
        return self.shuffle(t, a, "poison", list(range(t.lanes))[::-1])

    def pick(self, t: Type, parts: Sequence[str], step: int, first: int) -> str:
        """Every `step`-th element of `step` vectors side by side, from `first` on."""
        lanes = t.lanes
        if step % 2 == 0 and step > 2:  # every second one, which others need as well
            places = [first % 2 + 2 * lane for lane in range(lanes)]
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [self.shuffle(t, a, b, places) for a, b in pairs]
            return self.pick(t, parts, step // 2, first // 2)
        found = parts[0]
        for n, part in enumerate(parts):
            places: list[int] = []
            for lane in range(lanes):
                where = first + step * lane
                if where // lanes == n:
                    places.append((lanes if n else 0) + where % lanes)
                else:
                    places.append(lane)
            found = self.shuffle(t, found, part if n else "poison", places)
        return found

    def interleave(self, t: Type, parts: Sequence[str]) -> list[str]:
        """a0 b0 … a1 b1 …, as so many vectors side by side."""
        lanes, count = t.lanes, len(parts)
        if count % 2 == 0:
            evens = self.interleave(t, parts[::2]) if count > 2 else parts[:1]
            odds = self.interleave(t, parts[1::2]) if count > 2 else parts[1:]
            places = [lane // 2 + lanes * (lane % 2) for lane in range(2 * lanes)]
            return [
                self.shuffle(t, a, b, half)
                for a, b in zip(evens, odds, strict=True)
                for half in (places[:lanes], places[lanes:])
            ]
        found: list[str] = []
        for n in range(count):
            spread = [divmod(n * lanes + lane, count) for lane in range(lanes)]
            whole = "poison"
            for number, part in enumerate(parts):
                places = [
                    lanes + place if source == number else lane
                    for lane, (place, source) in enumerate(spread)
                ]
                whole = self.shuffle(t, whole, part, places)
            found.append(whole)
        return found

    def transpose(self, t: Type, rows: Sequence[str]) -> list[str]:
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
            low = _interleave_lanes(lanes, step, section)
            # What `low` leaves is half a section further, or a section.
            distance = section // 2 if step < section else section
            high = [place + distance for place in low]
            for n in range(lanes):
                if n & step:
                    continue
                a, b = found[n], found[n | step]
                found[n] = self.shuffle(t, a, b, low)
                found[n | step] = self.shuffle(t, a, b, high)
            self.writer.cut(found[0])
            step *= 2
        # A column's lowest digits, of its place in a section, have come out reversed.
        digits = section.bit_length() - 1
        return [
            found[_reverse_digits(c % section, digits) + c // section * section]
            for c in range(lanes)
        ]

    def any_lane(self, mask: str, lanes: int) -> str:
        """Is a mask of so many lanes on in any of them?"""
        if not lanes:
            return mask
        bits = self.pure(f"bitcast <{lanes} x i1> {mask} to i{lanes}", mask)
        return self.pure(f"icmp ne i{lanes} {bits}, 0", bits)

    def all_of(self, lanes: int, *masks: str | None) -> str | None:
        """The lanes that are on in all masks; None is all lanes."""
        found: str | None = None
        for mask in masks:
            if mask is not None:
                t = mask_type(lanes)
                found = mask if found is None else self.binary("and", t, found, mask)
        return found


@lru_cache(256)  # a square of registers is exchanged by a few, again and again
def _numbers(places: tuple[int, ...]) -> str:
    return ", ".join([f"i32 {place}" for place in places])


def _interleave_lanes(lanes: int, step: int, section: int) -> list[int]:
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


def _reverse_digits(number: int, digits: int) -> int:
    """A number of so many binary digits, read from its other end."""
    found = 0
    for _ in range(digits):
        number, found = number // 2, 2 * found + number % 2
    return found


# In functions that are written by hand.


class Vectors(Instructions):
    """Emits instructions into a function, and loads and stores of unaligned vectors.

    Args:
      lanes: of the vectors; 0 is a scalar.
    """

    def __init__(self, f: Function, lanes: int = 0) -> None:
        self.f = f
        self.lanes = lanes
        self.writer = cast(Any, self)  # of `Instructions`, as far as they need one here

    def pure(self, text: str, *_: str) -> str:
        return self.f.let(text)

    def cut(self, _: str) -> None:
        self.f.cut()

    def type(self, bits: int) -> Type:
        """Of integers."""
        return Type.of(np.dtype(f"i{bits // 8}"), self.lanes)

    def call(self, name: str, t: Type, *x: str, extra: str = "") -> str:
        """An intrinsic of operands of one type."""
        assert not extra
        kinds = ", ".join([t.text] * len(x))
        return self.f.outside(f"{t} llvm.{name}.{t.suffix}({kinds})", *x)

    def at(self, t: Type, base: str, index: str | int) -> str:
        """The address of an element."""
        return self.f.item(t.element, base, index)

    def take(self, t: Type, base: str, index: str | int, mask: str = "") -> str:
        """Elements from one on; zeros where a mask does not hold."""
        place = self.at(t, base, index)
        if not mask:
            return self.f.let(f"load {t}, ptr {place}, align {t.bytes}")
        name = f"{t} llvm.masked.load.{t.suffix}.p0(ptr, i32, {t.mask()}, {t})"
        return self.f.outside(name, place, t.bytes, mask, "zeroinitializer")

    def put(self, t: Type, x: str, base: str, index: str | int, mask: str = "") -> None:
        """Stores elements from one on, those for which a mask holds."""
        place = self.at(t, base, index)
        if not mask:
            self.f.do(f"store {t} {x}, ptr {place}, align {t.bytes}")
            return
        name = f"void llvm.masked.store.{t.suffix}.p0({t}, ptr, i32, {t.mask()})"
        self.f.outside(name, x, place, t.bytes, mask)

    def positions(self, first: str) -> str:
        """The numbers from `first` on, of 64 bits."""
        if not self.lanes:
            return first
        t = self.type(64)
        return self.binary("add", t, self.splat(first, t), t.lanewise(range(t.lanes)))
