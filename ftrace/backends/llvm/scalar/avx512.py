"""Instructions of AVX-512 that LLVM has no operation of its own for.

ldexp                a·2ⁿ, rounded once
mantissa, exponent   the parts of a number, special values included
range_of             minimum and maximum with -0 below +0
table                32 float32, which stay in two registers
from_table           integers in some registers, by index
add_pairs            c + a₀·b₀ + a₁·b₁ of bfloat16 in the halves of float32
add_word_pairs       the same of int16 in the halves of int32
add_byte_quads       c + a₀·b₀ + … + a₃·b₃ of uint8 and int8 in the parts of int32

They work on 128, 256 or 512 bits (tables on 512): shorter vectors and scalars get
idle lanes, longer ones go in halves.
"""

from __future__ import annotations

from collections.abc import Sequence

from ftrace.backends.llvm.ir.writer import Type
from ftrace.backends.llvm.scalar.instructions import Instructions, Row
from ftrace.lower.legalize.special import tables_of

#: Bits of a register, at the least and at the most.
_LEAST_BITS, _MOST_BITS = 128, 512

#: Of getmant: the mantissa in [3/4, 3/2), NaN for what is less than 0.
_THREE_QUARTERS_OR_NAN = 0b1011


def _in_registers(row: Row, least: int = _LEAST_BITS) -> Row:
    """A row for vectors of `least` to 512 bits as one for all lengths and scalars."""

    def fit(o: Instructions, t: Type, *x: str) -> str:
        wide = t.with_lanes(least // t.bits)
        if not t.lanes:
            whole = row(o, wide, *[o.splat(a, wide) for a in x])
            return o.pure(f"extractelement {wide} {whole}, i32 0", whole)
        width = t.lanes * t.bits
        if least <= width <= _MOST_BITS:
            return row(o, t, *x)
        if width < least:
            places = [lane % t.lanes for lane in range(wide.lanes)]
            whole = row(o, wide, *[o.shuffle(t, a, "poison", places) for a in x])
            return o.shuffle(wide, whole, "poison", range(t.lanes))
        half = t.with_lanes(t.lanes // 2)
        parts: list[str] = []
        for first in (0, half.lanes):
            places = list(range(first, first + half.lanes))
            parts.append(fit(o, half, *[o.shuffle(t, a, "poison", places) for a in x]))
        low, high = parts
        return o.shuffle(half, low, high, range(t.lanes))

    return fit


def _intrinsic(o: Instructions, t: Type, word: str, *operands: tuple[str, str]) -> str:
    """An intrinsic of vectors and immediates, in all lanes, rounding as usual."""
    kind, width = "ps" if t.bits == 32 else "pd", t.lanes * t.bits
    given = [*operands, (f"i{max(t.lanes, 8)}", "-1")]
    if width == _MOST_BITS:
        given.append(("i32", "4"))
    call = o.writer.call(t, f"@llvm.x86.avx512.mask.{word}.{kind}.{width}", *given)
    return o.pure(call, *[text for kind, text in operands if kind == t.text])


@_in_registers
def scale(o: Instructions, t: Type, a: str, n: str) -> str:
    return _intrinsic(o, t, "scalef", (t.text, a), (t.text, n), (t.text, a))


@_in_registers
def mantissa(o: Instructions, t: Type, a: str) -> str:
    choice = ("i32", str(_THREE_QUARTERS_OR_NAN))
    return _intrinsic(o, t, "getmant", (t.text, a), choice, (t.text, a))


@_in_registers
def exponent(o: Instructions, t: Type, a: str) -> str:
    """That of `a`, which is one too small where the mantissa is below 1."""

    def of(x: str) -> str:
        return _intrinsic(o, t, "getexp", (t.text, x), (t.text, x))

    return o.binary("fsub", t, of(a), of(mantissa(o, t, a)))


@_in_registers
def add_pairs(o: Instructions, t: Type, total: str, a: str, b: str) -> str:
    pair = f"<{2 * t.lanes} x bfloat>"
    name = f"@llvm.x86.avx512bf16.dpbf16ps.{t.lanes * t.bits}"
    x, y = (o.pure(f"bitcast {t} {text} to {pair}", text) for text in (a, b))
    return o.pure(o.writer.call(t, name, (t, total), (pair, x), (pair, y)), total, x, y)


def _add_integers(word: str) -> Row:
    def add(o: Instructions, t: Type, total: str, a: str, b: str) -> str:
        name = f"@llvm.x86.avx512.{word}.{t.lanes * t.bits}"
        return o.pure(o.writer.call(t, name, (t, total), (t, a), (t, b)), total, a, b)

    return _in_registers(add)


add_word_pairs = _add_integers("vpdpwssd")
add_byte_quads = _add_integers("vpdpbusd")


def range_of(o: Instructions, t: Type, a: str, b: str, choice: int) -> str:
    """The minimum (4) or maximum (5), of 128 to 512 bits.

    Of a NaN and a number it takes the number.
    """
    chosen = ("i32", str(choice))
    return _intrinsic(o, t, "range", (t.text, a), (t.text, b), chosen, (t.text, a))


def table(function: str, row: int) -> Row:
    """The row that looks a float32 up by the five lowest bits of its fraction."""

    def look_up(o: Instructions, t: Type, a: str) -> str:
        numbers = tables_of(function)[row]
        bits = o.convert("bitcast", t, t.integer(), a)
        low, high = (t.lanewise(numbers[n : n + t.lanes]) for n in (0, t.lanes))
        return _permute(o, t, low, bits, high)

    return _in_registers(look_up, least=_MOST_BITS)


def from_table(table: Sequence[str]) -> Row:
    """The row that looks integers up in an even number of registers, by index."""

    def look_up(o: Instructions, t: Type, index: str) -> str:
        pairs = zip(table[::2], table[1::2], strict=True)
        found = [_permute(o, t, low, index, high) for low, high in pairs]
        bit = 2 * t.lanes
        while len(found) > 1:
            part = o.binary("and", t, index, bit)
            upper = o.binary("icmp ne", t, part, t.zero)
            halves = zip(found[::2], found[1::2], strict=False)
            joined = [o.select(upper, t, high, low) for low, high in halves]
            found = joined + found[2 * len(joined) :]
            bit *= 2
        return found[0]

    return _in_registers(look_up, least=_MOST_BITS)


def _permute(o: Instructions, t: Type, low: str, index: str, high: str) -> str:
    """The elements, of two registers, that the lowest bits of an index name."""
    kind = {("f", 32): "ps", ("i", 64): "q"}.get((t.kind, t.bits), "d")
    name = f"@llvm.x86.avx512.vpermi2var.{kind}.512"
    call = o.writer.call(t, name, (t, low), (t.integer(), index), (t, high))
    return o.pure(call, low, index, high)
