"""Casts in LLVM IR: between dtypes, and the 16-bit floats by integers.

to integer    truncates and saturates; NaN is 0
to float      rounds to nearest even; 64 bits reach 16 by way of float32
to bool       is it not zero
"""

from __future__ import annotations

from ftrace import dtypes
from ftrace.devices.llvm.ir.types import Type, hardware_half
from ftrace.devices.llvm.scalar.instructions import Instructions


def cast(o: Instructions, a: str, source: Type, target: Type) -> str:
    """`a` of type `source` as `target`."""
    if (source.element, source.kind, source.format) == (
        target.element, target.kind, target.format
    ):  # fmt: skip
        return a
    if target.kind == "b":
        word = "fcmp une" if source.kind == "f" else "icmp ne"
        if source.kind == "f":
            a, source = _widen(o, a, source)
        return o.binary(word, source, a, source.zero)
    if source.kind == "b":
        return o.select(a, target, target.constant(1), target.zero)
    if target.kind == "f":
        return _cast_to_float(o, a, source, target)
    if source.kind == "f":
        a, source = _widen(o, a, source)
        return _saturate(o, a, source, target)
    if source.bits == target.bits:
        return a
    if source.bits > target.bits:
        return o.convert("trunc", source, target, a)
    return o.convert("sext" if source.kind == "i" else "zext", source, target, a)


def _float(lanes: int) -> Type:
    return Type.of(dtypes.float32, lanes)


def _widen(o: Instructions, a: str, source: Type) -> tuple[str, Type]:
    """float16 and bfloat16 as float32, the others as they are."""
    if source.bits != 16:
        return a, source
    single = _float(source.lanes)
    if source.format == "bfloat":
        i32 = single.integer()
        bits = o.convert("zext", source, i32, a)
        bits = o.binary("shl", i32, bits, i32.constant(16))
        return o.convert("bitcast", i32, single, bits), single
    if o.target.half:
        half = hardware_half(source.lanes)
        bits = o.convert("bitcast", source, half, a)
        return o.convert("fpext", half, single, bits), single
    return _widen_half(o, a, source, single), single


def _cast_to_float(o: Instructions, a: str, source: Type, target: Type) -> str:
    if target.bits == 16:
        single = _float(target.lanes)
        a = cast(o, a, source, single)
        if target.format == "bfloat":
            return _round_bfloat(o, a, single, target)
        if o.target.half:
            half = hardware_half(target.lanes)
            return o.convert(
                "bitcast", half, target, o.convert("fptrunc", single, half, a)
            )
        return _round_half(o, a, single, target)
    if source.kind == "f":
        a, source = _widen(o, a, source)
        if source.bits == target.bits:
            return a
        word = "fpext" if source.bits < target.bits else "fptrunc"
        return o.convert(word, source, target, a)
    return o.convert("sitofp" if source.kind == "i" else "uitofp", source, target, a)


def _saturate(o: Instructions, a: str, source: Type, target: Type) -> str:
    """Limits as floats where these hold them; else what is too large is replaced."""
    low, high = _limits(target)
    digits = 24 if source.bits == 32 else 53
    word = "fptosi" if target.kind == "i" else "fptoui"
    nan = o.binary("fcmp uno", source, a, a)
    least = source.constant(float(low))
    if target.bits > digits:
        inside = o.select(o.binary("fcmp ogt", source, a, least), source, a, least)
        found = o.convert(word, source, target, inside)
        large = o.binary("fcmp oge", source, a, source.constant(float(high + 1)))
        found = o.select(large, target, target.constant(high), found)
        return o.select(nan, target, target.zero, found)
    a = o.select(nan, source, source.zero, a)
    a = o.select(o.binary("fcmp ogt", source, a, least), source, a, least)
    most = source.constant(float(high))
    a = o.select(o.binary("fcmp olt", source, a, most), source, a, most)
    if target.bits == 32:
        return o.convert(word, source, target, a)
    i32 = Type.of(dtypes.int32, target.lanes)
    return o.convert("trunc", i32, target, o.convert("fptosi", source, i32, a))


def _limits(target: Type) -> tuple[int, int]:
    """The least and the greatest number of an integer type."""
    if target.kind == "i":
        return -(1 << (target.bits - 1)), (1 << (target.bits - 1)) - 1
    return 0, (1 << target.bits) - 1


def _round_bfloat(o: Instructions, a: str, single: Type, target: Type) -> str:
    """To nearest even, by integers: the hardware's conversion flushes denormals."""
    i32 = single.integer()
    bits = o.convert("bitcast", single, i32, a)
    high = o.binary("lshr", i32, bits, i32.constant(16))
    odd = o.binary("and", i32, high, i32.constant(1))
    bias = o.binary("add", i32, odd, i32.constant(0x7FFF))
    rounded = o.binary("lshr", i32, o.binary("add", i32, bits, bias), i32.constant(16))
    quiet = o.binary("or", i32, high, i32.constant(0x40))
    nan = o.binary("fcmp uno", single, a, a)
    chosen = o.select(nan, i32, quiet, rounded)
    return o.convert("trunc", i32, target, chosen)


# float16 by integers, for processors that cannot. Source: the bit layouts; a product
# with a power of two turns denormals of one format into numbers of the other.


def _widen_half(o: Instructions, a: str, source: Type, single: Type) -> str:
    i32 = single.integer()
    bits = o.convert("zext", source, i32, a)
    sign = o.binary(
        "shl", i32, o.binary("and", i32, bits, i32.constant(0x8000)), i32.constant(16)
    )
    rest = o.binary("and", i32, bits, i32.constant(0x7FFF))
    moved = o.binary("shl", i32, rest, i32.constant(13))
    moved_float = o.convert("bitcast", i32, single, moved)
    scaled = o.binary("fmul", single, moved_float, single.constant(2.0**112))
    value = o.convert("bitcast", single, i32, scaled)
    special = o.binary("icmp uge", i32, rest, i32.constant(0x7C00))
    value = o.select(
        special, i32, o.binary("or", i32, moved, i32.constant(0x7F800000)), value
    )
    return o.convert("bitcast", i32, single, o.binary("or", i32, value, sign))


def _round_half(o: Instructions, a: str, single: Type, target: Type) -> str:
    i32 = single.integer()
    bits = o.convert("bitcast", single, i32, a)
    sign = o.binary(
        "and", i32, o.binary("lshr", i32, bits, i32.constant(16)), i32.constant(0x8000)
    )
    size = o.binary("and", i32, bits, i32.constant(0x7FFFFFFF))
    # Normal numbers: rebias, round half to even on the 13 bits that go.
    odd = o.binary(
        "and", i32, o.binary("lshr", i32, size, i32.constant(13)), i32.constant(1)
    )
    bias = o.binary("add", i32, odd, i32.constant(0xFFF - (112 << 23)))
    normal = o.binary("lshr", i32, o.binary("add", i32, size, bias), i32.constant(13))
    # Denormals: an addition aligns their last bit with that of 0.5 and rounds.
    magnitude = o.convert("bitcast", i32, single, size)
    shifted = o.binary("fadd", single, magnitude, single.constant(0.5))
    tiny = o.binary(
        "sub", i32, o.convert("bitcast", single, i32, shifted), i32.constant(0x3F000000)
    )
    small = o.binary("icmp ult", i32, size, i32.constant(113 << 23))
    value = o.select(small, i32, tiny, normal)
    large = o.binary("icmp uge", i32, size, i32.constant(0x47800000))
    value = o.select(large, i32, i32.constant(0x7C00), value)
    nan = o.binary("icmp ugt", i32, size, i32.constant(0x7F800000))
    value = o.select(nan, i32, i32.constant(0x7E00), value)
    value = o.binary("or", i32, value, sign)
    return o.convert("trunc", i32, target, value)
