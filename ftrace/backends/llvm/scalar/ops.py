"""The scalar operations in LLVM IR: a row of `OPERATIONS` each, also for vectors.

No operation may trap or be undefined: integer division by zero gives -1 and its
remainder the dividend, shifts by the width or more give 0 or the sign, and floats
outside of an integer's range saturate. There are no fast-math flags. Casts:

    to integer    truncates and saturates; NaN is 0
    to float      rounds to nearest even; 64 bits reach 16 by way of float32
    to bool       is it not zero
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from operator import attrgetter

from ftrace import dtypes
from ftrace.backends.llvm.ir.writer import Constant, Type, hardware_half
from ftrace.backends.llvm.scalar import avx512
from ftrace.backends.llvm.scalar.instructions import Instructions, Row
from ftrace.backends.llvm.target import Target
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.lower.legalize.special import TABLES_OF_32
from ftrace.trace.primitives.elementwise import COMPARISONS
from ftrace.trace.primitives.primitive import PRIMITIVES

#: Operations that code may call a function for, and how many operands they have.
CALLED = {
    p.name: 2 if p.family == "binary" else 1 for p in PRIMITIVES.values() if p.called
}


class Cost(NamedTuple):
    """What an operation on a vector takes.

    Attributes:
      instructions: vector instructions, about.
      latency: cycles until its result is there.
      busy: cycles that its unit is busy with a vector.
    """

    instructions: float = 1.0
    latency: int = 4
    busy: float = 0.5


ADDITION = Cost()


class Operation(NamedTuple):
    """What an operation is.

    Attributes:
      words: the one instruction that it is, by kind of dtype.
      emit: what emits it for other kinds; None if there are none, and of casts, whose
        operand has a type of its own.
      cost: of a vector.
      takes_half: it takes 16-bit floats as they are; they are widened for others.
      exists: has the code for a target this operation?
    """

    words: dict[str, str]
    emit: Row | None
    cost: Cost
    takes_half: bool
    exists: Callable[[Target], bool]


def operations_of(target: Target) -> frozenset[str]:
    """Names of the elementwise operations that the code for a target can have."""
    return frozenset(n for n, row in OPERATIONS.items() if row.exists(target))


class Operations(Instructions):
    """Emits the rows into a writer, for a target."""

    def apply(self, name: str, t: Type, *x: str) -> str:
        """Operation `name` on operands of type `t` (of a select: its last two)."""
        operation = OPERATIONS.get(name)
        if t.format and not (operation and operation.takes_half):
            return self._apply_wide(name, t, *x)
        if operation is None:
            return self.component(name, 0, t, (t,), *x)
        word = operation.words.get(t.kind)
        if word is not None:
            a, b = x
            return self.pure(f"{word} {t} {a}, {b}", a, b)
        assert operation.emit is not None, name
        return operation.emit(self, t, *x)

    def _apply_wide(self, name: str, t: Type, *x: str) -> str:
        """The same for floats of 16 bits: in float32, and rounded."""
        single = Type.of(dtypes.float32, t.lanes)
        found = self.apply(name, single, *[cast(self, a, t, single) for a in x])
        return found if name in COMPARISONS else cast(self, found, single, t)

    def cast(self, a: str, source: Type, target: Type) -> str:
        """Converts values as the primitive `cast` does."""
        return cast(self, a, source, target)

    def bitcast(self, a: str, source: Type, target: Type) -> str:
        if source.kind == "b" or target.kind == "b":  # one byte, 0 or 1, in memory
            return cast(self, a, source, target)
        if source.element == target.element:
            return a
        return self.convert("bitcast", source, target, a)

    def combine_lanes(self, name: str, t: Type, a: str) -> str:
        """All lanes of `a` combined by `name`, halves first: a scalar."""
        lanes = t.lanes
        while lanes > 1:
            lanes //= 2
            wide, t = t, t.with_lanes(lanes)
            low = self.shuffle(wide, a, "poison", list(range(lanes)))
            high = self.shuffle(wide, a, "poison", list(range(lanes, 2 * lanes)))
            a = self.apply(name, t, low, high)
        return self.pure(f"extractelement {t} {a}, i32 0", a)


def _constant_of(a: str) -> int | float | None:
    """The number that a constant operand has in every lane; None for any other."""
    if isinstance(a, Constant) and type(a.value) in (int, float):
        return a.value
    return None


# Arithmetic.


def _negate(o: Operations, t: Type, a: str) -> str:
    if t.format:
        return o.binary("xor", t, a, t.integer().constant(0x8000))
    if t.kind == "f":
        return o.pure(f"fneg {t} {a}", a)
    return o.binary("sub", t, t.zero, a)


def _absolute(o: Operations, t: Type, a: str) -> str:
    if t.format:
        return o.binary("and", t, a, t.integer().constant(0x7FFF))
    if t.kind == "f":
        return o.call("fabs", t, a)
    return o.call("abs", t, a, extra="false") if t.kind == "i" else a


def _extremum(o: Operations, t: Type, a: str, b: str, word: str) -> str:
    """-0 is less than +0; NaN wins."""
    if t.kind != "f":
        return o.call(("s" if t.kind == "i" else "u") + word, t, a, b)
    if o.target.native_maximum:
        return o.call(word + "imum", t, a, b)
    compare = "fcmp ogt" if word == "max" else "fcmp olt"
    for known, other in ((a, b), (b, a)):
        number = _constant_of(known)
        if number is None or math.isnan(number):
            continue
        # One instruction of x86, which gives its last operand, `other`, where both are
        # equal, or either is NaN: wrong only where that is a zero of the lesser sign.
        either = o.select(o.binary(compare, t, known, other), t, known, other)
        if number != 0 or (math.copysign(1, number) < 0) == (word == "max"):
            return either
        if word == "max":
            return o.binary("fadd", t, either, t.zero)
    if o.target.avx512 and 128 <= t.lanes * t.bits <= 512:
        either = avx512.range_of(o, t, a, b, 5 if word == "max" else 4)
    else:
        # The same, in both orders: of two zeros one has the sign that counts.
        bits = t.integer()
        parts = [
            o.bitcast(o.select(o.binary(compare, t, x, y), t, x, y), t, bits)
            for x, y in ((a, b), (b, a))
        ]
        joined = o.binary("and" if word == "max" else "or", bits, *parts)
        either = o.bitcast(joined, bits, t)
        if word == "min":  # NaN or any number is NaN
            return either
    return o.select(o.binary("fcmp uno", t, a, b), t, math.nan, either)


def _safe_divisor(o: Operations, t: Type, a: str, b: str) -> tuple[str, str]:
    """Is `b` zero; and `b` with 1 where the division would trap."""
    zero = o.binary("icmp eq", t, b, t.zero)
    unsafe = zero
    if t.kind == "i":
        lowest = o.binary("icmp eq", t, a, 1 << (t.bits - 1))
        minus = o.binary("icmp eq", t, b, -1)
        overflow = o.binary("and", t.mask(), lowest, minus)
        unsafe = o.binary("or", t.mask(), zero, overflow)
    return zero, o.select(unsafe, t, 1, b)


def _quotient(o: Operations, t: Type, a: str, b: str) -> str:
    """a / b where it cannot trap. Vectors divide as floats with enough digits.

    The true quotient, unless an integer, differs from the integers by 1/a at least,
    relatively: more than the rounding error.
    """
    signed = t.kind == "i"
    if not t.lanes or t.bits > 32 or _constant_of(b) is not None:
        return o.binary("sdiv" if signed else "udiv", t, a, b)
    dtype, bits = (dtypes.float32, 32) if t.bits <= 16 else (dtypes.float64, 64)
    real = Type.of(dtype, t.lanes)
    word = "sitofp" if signed else "uitofp"
    x, y = o.convert(word, t, real, a), o.convert(word, t, real, b)
    ratio = o.binary("fdiv", real, x, y)
    wide = real.integer() if bits == 32 else t
    back = o.convert("fptosi" if signed else "fptoui", real, wide, ratio)
    return back if wide.bits == t.bits else o.convert("trunc", wide, t, back)


def _divide(o: Operations, t: Type, a: str, b: str) -> str:
    constant = _constant_of(b)
    if constant not in (None, 0, -1):
        return _quotient(o, t, a, b)
    zero, safe = _safe_divisor(o, t, a, b)
    return o.select(zero, t, -1, _quotient(o, t, a, safe))


def _remainder(o: Operations, t: Type, a: str, b: str) -> str:
    if t.kind == "f":
        return _float_remainder(o, t, a, b)
    constant = _constant_of(b)
    if constant not in (None, 0, -1):
        return o.binary("srem" if t.kind == "i" else "urem", t, a, b)
    zero, safe = _safe_divisor(o, t, a, b)
    product = o.binary("mul", t, _quotient(o, t, a, safe), safe)
    return o.select(zero, t, a, o.binary("sub", t, a, product))


def _float_remainder(o: Operations, t: Type, x: str, y: str) -> str:
    """x - trunc(x / y)·y with the sign of x, a vector at a time: exact, as C's fmod.

    With q = trunc(x / y), for x, y > 0 and q < 2^p of p bits of fraction:

    - a quotient that is m or more is not rounded to less than m, so that q is at most
      one too large and never too small;
    - r = x - q·y by one fma is exact: a multiple of the last place of x or y, whichever
      is less, and below y in size;
    - where r < 0, q was one too large, and r + y is the remainder, which is a float.

    Larger quotients are seldom: a branch divides them number by number.
    """
    if not t.lanes or not o.target.fma:
        return o.binary("frem", t, x, y)
    dividend, divisor = o.call("fabs", t, x), o.call("fabs", t, y)
    quotient = o.call("trunc", t, o.binary("fdiv", t, dividend, divisor))
    less = o.pure(f"fneg {t} {quotient}", quotient)
    rest = o.call("fma", t, less, divisor, dividend)
    negative = o.binary("fcmp olt", t, rest, t.zero)
    rest = o.select(negative, t, o.binary("fadd", t, rest, divisor), rest)
    none = o.binary("fcmp oeq", t, quotient, t.zero)  # also where y is infinite
    usual = o.call("copysign", t, o.select(none, t, dividend, rest), x)
    limit = t.constant(2.0 ** (23 if t.bits == 32 else 52))
    far = o.binary("fcmp oge", t, quotient, limit)
    taken, branch = o.any_lane(far, t.lanes), o.writer.open_branch()
    exact = o.select(far, t, o.binary("frem", t, x, y), usual)
    (found,) = o.writer.close_branch(branch, taken, [(t.text, exact, usual)])
    return found


def _far_angle(number: int) -> Row:
    """A part of the argument reduction of sin, cos and tan for large arguments."""

    def part(o: Operations, t: Type, a: str) -> str:
        return o.component("far_angle", number, t, (t.integer(), t, t), a)

    return part


def _multiply_zero(o: Operations, t: Type, a: str, b: str) -> str:
    differs = "fcmp une" if t.kind == "f" else "icmp ne"
    x, y = (o.binary(differs, t, factor, t.zero) for factor in (a, b))
    neither = o.binary("and", t.mask(), x, y)
    return o.select(neither, t, o.apply("mul", t, a, b), t.zero)


# Bits.


def _not(o: Operations, t: Type, a: str) -> str:
    return o.binary("xor", t, a, -1 if t.kind != "b" else True)


def _shift_right_arithmetic(o: Operations, t: Type, a: str, n: str) -> str:
    if t.kind == "u":
        return _shift(o, t, a, n, "lshr")
    last = t.constant(t.bits - 1)
    count = _constant_of(n)
    if count is None or not 0 <= count < t.bits:
        n = o.call("umin", t, n, last)
    return o.binary("ashr", t, a, n)


def _shift(o: Operations, t: Type, a: str, n: str, word: str) -> str:
    count = _constant_of(n)
    if count is not None and 0 <= count < t.bits:
        return o.binary(word, t, a, n)
    inside = o.binary("icmp ult", t, n, t.bits)
    safe = o.select(inside, t, n, t.zero)
    return o.select(inside, t, o.binary(word, t, a, safe), t.zero)


# The table.


def _intrinsic(o: Operations, t: Type, *x: str, name: str) -> str:
    return o.call(name, t, *x)


def _select(o: Operations, t: Type, condition: str, a: str, b: str) -> str:
    return o.select(condition, t, a, b)


def _same(o: Operations, t: Type, a: str) -> str:
    return a


def _row(
    emit: Row | None = None,
    cost: Cost = ADDITION,
    takes_half: bool = False,
    exists: Callable[[Target], bool] = lambda _: True,
    **words: str,
) -> Operation:
    """An operation; `words` by the kinds of dtype that have the same."""
    each = {kind: word for kinds, word in words.items() for kind in kinds}
    return Operation(each, emit, cost, takes_half, exists)


def _has_tables(target: Target) -> bool:
    return target.avx512 and target.decides("piecewise_polynomials")


_BIT, _COMPARISON, _EXTREMUM = Cost(latency=1), Cost(latency=3), Cost(3.0, 3)

OPERATIONS: dict[str, Operation] = {
    "add": _row(f="fadd", iu="add", b="or"),
    "sub": _row(f="fsub", iu="sub"),
    "mul": _row(f="fmul", iu="mul", b="and"),
    "mul_zero": _row(_multiply_zero, Cost(3.0)),
    "div": _row(_divide, Cost(4.0, 14, 8.0), f="fdiv"),
    "rem": _row(_remainder, Cost(8.0, 30, 24.0)),
    "fma": _row(partial(_intrinsic, name="fma"), exists=attrgetter("fma")),
    "sqrt": _row(partial(_intrinsic, name="sqrt"), Cost(6.0, 18, 12.0)),
    "max": _row(partial(_extremum, word="max"), _EXTREMUM, b="or"),
    "min": _row(partial(_extremum, word="min"), _EXTREMUM, b="and"),
    "neg": _row(_negate, _BIT, takes_half=True),
    "abs": _row(_absolute, _BIT, takes_half=True),
    "floor": _row(partial(_intrinsic, name="floor")),
    "ceil": _row(partial(_intrinsic, name="ceil")),
    "trunc": _row(partial(_intrinsic, name="trunc")),
    "round": _row(partial(_intrinsic, name="rint")),
    # Comparisons.
    "eq": _row(cost=_COMPARISON, f="fcmp oeq", biu="icmp eq"),
    "ne": _row(cost=_COMPARISON, f="fcmp une", biu="icmp ne"),
    "lt": _row(cost=_COMPARISON, f="fcmp olt", i="icmp slt", bu="icmp ult"),
    "le": _row(cost=_COMPARISON, f="fcmp ole", i="icmp sle", bu="icmp ule"),
    "gt": _row(cost=_COMPARISON, f="fcmp ogt", i="icmp sgt", bu="icmp ugt"),
    "ge": _row(cost=_COMPARISON, f="fcmp oge", i="icmp sge", bu="icmp uge"),
    # Bits.
    "and": _row(cost=_BIT, biu="and"),
    "or": _row(cost=_BIT, biu="or"),
    "xor": _row(cost=_BIT, biu="xor"),
    "not": _row(_not, _BIT),
    "shl": _row(partial(_shift, word="shl"), _BIT),
    "shr": _row(partial(_shift, word="lshr"), _BIT),
    "sar": _row(_shift_right_arithmetic, _BIT),
    "popcount": _row(partial(_intrinsic, name="ctpop")),
    # Choices, and other types.
    "select": _row(_select, Cost(latency=2), takes_half=True),
    "cast": _row(),
    "bitcast": _row(cost=_BIT),
    "copy": _row(_same),
    "stop_gradient": _row(_same),
    # Parts of formulas.
    "far_quadrant": _row(_far_angle(0)),
    "far_remainder": _row(_far_angle(1)),
    "far_rest": _row(_far_angle(2)),
    "ldexp": _row(avx512.scale, exists=attrgetter("avx512")),
    "mantissa": _row(avx512.mantissa, exists=attrgetter("avx512")),
    "exponent": _row(avx512.exponent, exists=attrgetter("avx512")),
    **{
        name: _row(avx512.table(*place), exists=_has_tables)
        for name, place in TABLES_OF_32.items()
    },
}


# Casts.


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
        return o.select(a, target, 1, target.zero)
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
        bits = o.binary("shl", i32, bits, 16)
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
        large = o.binary("fcmp oge", source, a, float(high + 1))
        found = o.select(large, target, high, found)
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
    high = o.binary("lshr", i32, bits, 16)
    odd = o.binary("and", i32, high, 1)
    bias = o.binary("add", i32, odd, 0x7FFF)
    rounded = o.binary("lshr", i32, o.binary("add", i32, bits, bias), 16)
    quiet = o.binary("or", i32, high, 0x40)
    nan = o.binary("fcmp uno", single, a, a)
    chosen = o.select(nan, i32, quiet, rounded)
    return o.convert("trunc", i32, target, chosen)


# float16 by integers, for processors that cannot. Source: the bit layouts; a product
# with a power of two turns denormals of one format into numbers of the other.


def _widen_half(o: Instructions, a: str, source: Type, single: Type) -> str:
    i32 = single.integer()
    bits = o.convert("zext", source, i32, a)
    sign = o.binary("shl", i32, o.binary("and", i32, bits, 0x8000), 16)
    rest = o.binary("and", i32, bits, 0x7FFF)
    moved = o.binary("shl", i32, rest, 13)
    moved_float = o.convert("bitcast", i32, single, moved)
    scaled = o.binary("fmul", single, moved_float, 2.0**112)
    value = o.convert("bitcast", single, i32, scaled)
    special = o.binary("icmp uge", i32, rest, 0x7C00)
    value = o.select(special, i32, o.binary("or", i32, moved, 0x7F800000), value)
    return o.convert("bitcast", i32, single, o.binary("or", i32, value, sign))


def _round_half(o: Instructions, a: str, single: Type, target: Type) -> str:
    i32 = single.integer()
    bits = o.convert("bitcast", single, i32, a)
    sign = o.binary("and", i32, o.binary("lshr", i32, bits, 16), 0x8000)
    size = o.binary("and", i32, bits, 0x7FFFFFFF)
    # Normal numbers: rebias, round half to even on the 13 bits that go.
    odd = o.binary("and", i32, o.binary("lshr", i32, size, 13), 1)
    bias = o.binary("add", i32, odd, 0xFFF - (112 << 23))
    normal = o.binary("lshr", i32, o.binary("add", i32, size, bias), 13)
    # Denormals: an addition aligns their last bit with that of 0.5 and rounds.
    magnitude = o.convert("bitcast", i32, single, size)
    shifted = o.binary("fadd", single, magnitude, 0.5)
    tiny = o.binary("sub", i32, o.convert("bitcast", single, i32, shifted), 0x3F000000)
    small = o.binary("icmp ult", i32, size, 113 << 23)
    value = o.select(small, i32, tiny, normal)
    large = o.binary("icmp uge", i32, size, 0x47800000)
    value = o.select(large, i32, 0x7C00, value)
    nan = o.binary("icmp ugt", i32, size, 0x7F800000)
    value = o.select(nan, i32, 0x7E00, value)
    value = o.binary("or", i32, value, sign)
    return o.convert("trunc", i32, target, value)
